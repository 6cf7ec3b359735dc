//! Every verb that asks a running program, with somebody who listens between the two: each line in
//! either direction is valid by the published schema, and no request is left out.

use crate::rig::{LONG, Plan, Rig, in_turn, until};
use control::protocol::{Reply, Request};
use control::socket::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Lines = Arc<Mutex<Vec<Value>>>;

/// Passes on what either side says, and keeps its lines.
fn listen(between: &str, program: &str) -> Lines {
    let lines = Lines::default();
    let (kept, program) = (Arc::clone(&lines), program.to_owned());
    let listener = UnixListener::bind(between).expect("a socket");
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(program) = UnixStream::connect(&program) else {
                continue;
            };
            for (from, to) in [(&client, &program), (&program, &client)] {
                let ends = [from, to].map(|end| end.try_clone().expect("a descriptor"));
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || relay(&ends, &kept));
            }
        }
    });
    lines
}

fn relay([from, to]: &[UnixStream; 2], kept: &Mutex<Vec<Value>>) {
    let (mut reader, mut to) = (BufReader::new(from), to);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let value: Value = serde_json::from_slice(&line).expect("JSON");
        // A recording is not made of lines.
        let is_recording = value["reply"] == "recording";
        let bytes = value["bytes"].as_u64().filter(|_| is_recording).unwrap_or(0);
        kept.lock().expect("nobody failed").push(value);
        let passed = to
            .write_all(&line)
            .and_then(|()| io::copy(&mut (&mut reader).take(bytes), &mut to));
        if passed.is_err() {
            break;
        }
        line.clear();
    }
    // Whoever is gone is gone for both.
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}

#[test]
fn every_line_of_every_verb_is_valid_by_the_published_schema() {
    in_turn(|| lab::isolated(|| Rig::start(&Plan::default()).into_iter().for_each(listened_to)));
}

fn listened_to(rig: Rig) {
    let socket = rig.files.join("between.sock").display().to_string();
    let lines = listen(&socket, &rig.socket(Rig::at("r1")));
    verbs_that_end(&rig, &socket);
    verbs_that_last(&rig, &socket);
    reservations(&rig, &socket);
    let mut client = Client::connect(Some(&socket)).expect("it answers");
    let version = client.ask(&Request::Version {}).expect("an answer");
    assert!(
        matches!(version, Reply::Version { protocol: 1, .. }),
        "{version:?}"
    );
    refuses_to_hand_over(&socket);
    let detach = rig.output("r1", &["detach", "--socket", &socket]);
    assert!(detach.status.success(), "{detach:?}");
    let lines = lines.lock().expect("nobody failed");
    judge(&lines);
}

/// A router with reservations hands over to nobody, and nobody who has not asked for that first.
fn refuses_to_hand_over(socket: &str) {
    let leave = Request::Leave {
        at_ns: 1,
        realtime_ns: 1,
    };
    for request in [
        Request::HandOver {},
        leave,
        Request::Left {},
        Request::TakenOver {},
    ] {
        let mut client = Client::connect(Some(socket)).expect("it answers");
        let reply = client.ask(&request).expect("an answer");
        assert!(matches!(reply, Reply::Refused(_)), "{reply:?}");
    }
}

fn verbs_that_end(rig: &Rig, socket: &str) {
    let policy = rig.files.join("r1.toml").display().to_string();
    let other = rig.files.join("other.toml").display().to_string();
    let text = std::fs::read_to_string(&policy).expect("the policy");
    std::fs::write(&other, text.replace("40 Mbit/s", "38 Mbit/s")).expect("a file");
    let recording = rig.files.join("r1.rec").display().to_string();
    let done: &[&[&str]] = &[
        &["status", "--json", "--interval", "100ms"],
        &["status", "-v", "--interval", "100ms"],
        &["plan", &policy],
        &["apply", &other, "--confirm-within", "1min", "--reason", "a test"],
        &["confirm"],
        &["rollback"],
        &["set", "wan0", "bandwidth=39Mbit/s", "for", "1h"],
        &["set", "wan0", "rest", "weight=2"],
        &["class", "add", "wan0", "guests", "weight=1", "--filter", "dscp=8"],
        &["class", "remove", "wan0", "guests"],
        &["set", "--save"],
        &["history", "--json"],
        &["export", "--live"],
        &["disable", "wan0"],
        &["enable"],
        &["explain", "--live", "wan0", "--for", "200ms"],
        &["shadow", &other, "--for", "200ms"],
        &["record", "start", "--memory", "1MiB"],
        &["record", "stop"],
        // Of what RSVP did alone.
        &["record", "save", &recording],
    ];
    for arguments in done {
        let output = rig.output("r1", &[*arguments, &["--socket", socket]].concat());
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    // What was set differs from the file that was put into force.
    let plan = rig.output("r1", &["plan", &other, "--socket", socket]);
    assert_eq!(plan.status.code(), Some(3), "{plan:?}");
    let refused: &[&[&str]] = &[
        &["set", "wan0", "rest", "weigth=2"],
        &["set", "wan9", "rest", "weight=2"],
        &["class", "add", "wan0", "rest"],
        &["class", "remove", "wan0", "nobody"],
        &["apply", "/proc/self/status"],
        &["rollback", "99"],
        &["confirm"],
    ];
    for arguments in refused {
        let output = rig.output("r1", &[*arguments, &["--socket", socket]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    }
    // What people mistype, which no verb sends.
    for (mistyped, named) in [
        (r#"{"request":"stauts"}"#, "`stauts`"),
        (r#"{"request":"status","intreval_ms":1}"#, "`intreval_ms`"),
        (r#"{"request":"reserve","wanted":{"too":"b"}}"#, "`too`"),
        (r#"{"request":"status","detail":"breif"}"#, "`breif`"),
        (r#"{"request":"plan"}"#, "`file`"),
    ] {
        // Not by the one who listens: its schema has them not.
        let mut stream = UnixStream::connect(rig.socket(Rig::at("r1"))).expect("it answers");
        stream
            .write_all(format!("{mistyped}\n").as_bytes())
            .expect("sent");
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).expect("an answer");
        assert!(
            line.starts_with(r#"{"reply":"refused","#) && line.contains(named),
            "{line}"
        );
    }
}

fn verbs_that_last(rig: &Rig, socket: &str) {
    let recorded = ["record", "start", "--memory", "1MiB", "--socket", socket];
    assert!(rig.output("r1", &recorded).status.success());
    // Something is to be recorded.
    rig.udp(6000, 200, Duration::from_millis(500))
        .finish()
        .expect("a report");
    let file = rig.files.join("saved.rec").display().to_string();
    let saved = rig.output("r1", &["record", "save", &file, "--socket", socket]);
    assert!(saved.status.success(), "{saved:?}");
    let again = rig.output("r1", &["replay", &file]);
    assert!(again.status.success(), "{again:?}");

    let top = ["top", "--plain", "--interval", "100ms", "--socket", socket];
    let top = rig.suimon("r1", &top).limit(LONG).start().expect("it starts");
    let web = ["web", "--listen", "10.0.1.2:9476", "--socket", socket];
    let web = rig.suimon("r1", &web).limit(LONG).start().expect("it starts");
    let reads = |page: &str| {
        let asked = rig.hosts[Rig::at("a")].call(|| -> io::Result<String> {
            let mut stream = TcpStream::connect("10.0.1.2:9476")?;
            write!(
                stream,
                "GET {page} HTTP/1.1\r\nHost: 10.0.1.2:9476\r\nConnection: close\r\n\r\n"
            )?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        });
        asked
            .expect("a thread")
            .is_ok_and(|text| text.starts_with("HTTP/1.1 200"))
    };
    for page in ["/metrics", "/api/status", "/api/history"] {
        until(page, LONG, || reads(page));
    }
    top.kill().expect("its end");
    web.kill().expect("its end");
}

fn reservations(rig: &Rig, socket: &str) {
    let watch = rig.suimon("r1", &["reserve", "watch", "--socket", socket]);
    let watch = watch.limit(LONG).start().expect("it starts");
    let flow = |port: &str, rate: &str| {
        let to = format!("10.0.3.2:{port}");
        ["--to", &to, "--rate", rate, "--socket", socket]
            .map(str::to_owned)
            .to_vec()
    };
    let reserve = |words: &[&str], flow: Vec<String>, command: &[&str]| {
        let all = words.iter().map(|word| (*word).to_owned()).chain(flow);
        let all: Vec<String> = all.chain(command.iter().map(|word| (*word).to_owned())).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        rig.suimon("r1", &all)
    };
    let held = reserve(&["reserve"], flow("5000", "8M"), &["--", "sleep", "60"]);
    let held = held.limit(Duration::from_secs(60)).start().expect("it starts");
    until("it is reserved", LONG, || rig.reserved("r1", 5000).len() == 1);
    let check = reserve(&["reserve", "check"], flow("5001", "4M"), &[]).limit(LONG);
    assert!(check.output().expect("it ends").status.success());
    let many = reserve(&["reserve"], flow("5001", "38M"), &["--", "true"]).limit(LONG);
    assert_eq!(many.output().expect("it ends").status.code(), Some(6));
    let number = rig.status("r1").senders.iter().find_map(|sender| sender.number);
    let number = number.expect("one of this host's").to_string();
    for words in [
        &["reserve", "status"][..],
        &["reserve", "explain"],
        &["reserve", "change", &number, "--rate", "9M"],
    ] {
        let output = rig.output("r1", &[words, &["--socket", socket]].concat());
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
    held.kill().expect("its end");
    until("it is torn down", LONG, || rig.reserved("r1", 5000).is_empty());
    watch.kill().expect("its end");
}

/// Replies to a program that takes over, which no router with reservations gives: the page's are
/// valid.
const ELSEWHERE: [&str; 2] = ["handover", "backlog"];

/// Each line is valid, and nothing that may be said was not.
fn judge(lines: &[Value]) {
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/socket.schema.json");
    let schema = std::fs::read_to_string(schema).expect("the schema");
    for (what, tag) in [("Request", "request"), ("Reply", "reply")] {
        let mut schema: Value = serde_json::from_str(&schema).expect("JSON");
        schema["anyOf"] = json!([{ "$ref": format!("#/$defs/{what}") }]);
        let validator = jsonschema::draft202012::new(&schema).expect("a schema");
        let mut said = BTreeSet::new();
        for line in lines.iter().filter(|line| line[tag].is_string()) {
            let mistakes: Vec<String> = validator.iter_errors(line).map(|e| e.to_string()).collect();
            assert!(mistakes.is_empty(), "{line}: {mistakes:#?}");
            said.extend(line[tag].as_str());
        }
        let all = schema["$defs"][what]["oneOf"].as_array().expect("alternatives");
        let all: BTreeSet<&str> = all
            .iter()
            .filter_map(|one| one["properties"][tag]["const"].as_str())
            .filter(|one| tag == "request" || !ELSEWHERE.contains(one))
            .collect();
        assert_eq!(said, all, "no verb has said the others");
    }
}
