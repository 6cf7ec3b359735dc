//! `suimon traffic` from the command line: a sender and a receiver on the loopback interface.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

fn suimon(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_suimon"));
    command.arg("traffic").args(arguments);
    command
}

/// A receiver, and the port that it chose. Killed if a test fails before it ends.
struct Receiver(Option<Child>, u16);

impl Receiver {
    fn start(arguments: &[&str]) -> Self {
        Self::started(suimon(&["receive", "[::1]:0", "--for", "60s"]).args(arguments))
    }

    fn started(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("suimon starts");
        let stderr = child.stderr.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(stderr).read_line(&mut line).expect("a line");
        let port = line
            .trim_end()
            .trim_end_matches(" (UDP)")
            .trim_end_matches(" (TCP)")
            .rsplit(':')
            .next();
        let port = port.and_then(|port| port.parse().ok());
        Self(Some(child), port.unwrap_or_else(|| panic!("a port in {line:?}")))
    }

    fn finish(mut self) -> String {
        let child = self.0.take().expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|e| panic!("{e} in {}", String::from_utf8_lossy(text)))
}

#[test]
fn sent_datagrams_are_counted_at_the_receiver() {
    let receiver = Receiver::start(&["--streams", "2", "--json", "--bin", "10ms"]);
    let to = format!("[::1]:{}", receiver.1);
    let bursts = [
        "send",
        &to,
        "--count",
        "120",
        "--interval",
        "0s",
        "--burst",
        "8",
        "--every",
        "2ms",
        "--json",
    ];
    let mut sender = suimon(&bursts).stdout(Stdio::piped()).spawn().expect("it starts");
    let even = [
        "send", &to, "--for", "100ms", "--rate", "10Mbit/s", "--size", "952B", "--json",
    ];
    let even = suimon(&even).output().expect("it runs");
    assert!(sender.wait().expect("it ends").success());
    // 952 bytes plus 48 of IPv6 and UDP are 1,000: one every 0.8 ms.
    assert_eq!(json(&even.stdout)["sent"], 125);

    let streams = json(receiver.finish().as_bytes());
    let mut counts: Vec<u64> = Vec::new();
    for stream in streams.as_array().expect("an array") {
        let [sent, received, lost] =
            ["sent", "received", "lost"].map(|key| stream[key].as_u64().expect("a number"));
        assert_eq!(sent, received + lost);
        assert!(
            stream["end_heard"].as_bool() == Some(true) && received > 0,
            "{stream}"
        );
        let bins = stream["payload_bytes_in_bins"].as_array().expect("an array");
        let bytes: u64 = bins.iter().filter_map(Value::as_u64).sum();
        assert_eq!(stream["payload_bytes"], bytes);
        counts.push(sent);
    }
    counts.sort_unstable();
    assert_eq!(counts, [120, 125]);
}

#[test]
fn impossible_streams_are_reported() {
    let expect = |arguments: &[&str], code: i32, word: &str| {
        let output = suimon(arguments).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(word), "{word} in {error}");
    };
    expect(&["send", "127.0.0.1"], 2, "HOST:PORT");
    expect(&["send", "127.0.0.1:9", "--size", "16B"], 2, "32 to 65507");
    let tight = [
        "send",
        "127.0.0.1:9",
        "--interval",
        "1ms",
        "--burst",
        "9",
        "--every",
        "2ms",
    ];
    expect(&tight, 2, "a burst of 9 takes 8 ms");
    expect(&["receive", "nowhere"], 2, "HOST:PORT");
}

#[test]
fn connections_of_tcp_arrive_with_every_byte_that_was_sent() {
    let folder = std::env::temp_dir().join(format!("suimon-traffic-tcp-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let csv = folder.join("got.csv");
    let receiver = [
        "receive",
        "[::1]:0",
        "--for",
        "60s",
        "--tcp",
        "--streams",
        "3",
        "--json",
        "--csv",
    ];
    let receiver = Receiver::started(suimon(&receiver).arg(&csv));
    let to = format!("[::1]:{}", receiver.1);
    let sent = suimon(&[
        "send",
        &to,
        "--tcp",
        "3",
        "--congestion",
        "reno",
        "--for",
        "300ms",
        "--json",
    ])
    .output()
    .expect("suimon starts");
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let (sent, got) = (json(&sent.stdout), json(receiver.finish().as_bytes()));
    let bytes = |all: &Value| -> Vec<u64> {
        let all = all.as_array().expect("a list").iter();
        let mut all: Vec<u64> = all
            .map(|one| one["payload_bytes"].as_u64().expect("a number"))
            .collect();
        all.sort_unstable();
        all
    };
    let sent = &sent["connections"];
    assert_eq!(bytes(sent), bytes(&got));
    assert!(bytes(sent).iter().all(|&bytes| bytes > 0));
    for (sent, got) in sent
        .as_array()
        .into_iter()
        .flatten()
        .zip(got.as_array().into_iter().flatten())
    {
        assert_eq!(
            (&sent["all_arrived"], &got["end_heard"]),
            (&true.into(), &true.into())
        );
        let bins = got["payload_bytes_in_bins"].as_array().expect("a list").iter();
        let sum: u64 = bins.filter_map(Value::as_u64).sum();
        assert_eq!(got["payload_bytes"], sum);
    }
    let text = std::fs::read_to_string(&csv).expect("a file");
    assert!(
        text.starts_with("seconds,stream,payload_bits_per_second\n0.05"),
        "{text}"
    );
    std::fs::remove_dir_all(folder).expect("a folder");
}

#[test]
fn a_connection_that_is_not_heard_and_a_control_that_is_not_there_are_said_to_be_so() {
    let refused = |arguments: &[&str], words: &str| {
        let done = suimon(arguments).output().expect("suimon starts");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && said.contains(words), "{said}");
    };
    refused(&["send", "[::1]:1", "--tcp"], "suimon traffic receive PORT --tcp");
    refused(
        &["send", "[::1]:1", "--tcp", "--rate", "1Mbit/s"],
        "cannot be used with",
    );
    let receiver = Receiver::start(&["--tcp", "--streams", "1"]);
    let to = format!("[::1]:{}", receiver.1);
    refused(
        &["send", &to, "--tcp", "--congestion", "nobodys"],
        "tcp_available_congestion_control",
    );
}
