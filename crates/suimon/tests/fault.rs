//! `suimon fault`: what runs already, in a lab of two hosts joined by a cable. A round trip is
//! never shorter than its delays; that it is shorter again is waited for, with a limit.

use lab::{Host, Lab, Running, isolated};
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SUIMON: &str = env!("CARGO_BIN_EXE_suimon");
const NOBODY: u32 = 65534;
/// By then anything has happened, on a busy machine too.
const LONG: Duration = Duration::from_secs(20);
const MS: Duration = Duration::from_millis(1);

/// Two hosts, of which one echoes datagrams, and a program that runs in the other.
struct Cable {
    lab: Lab,
    near: Host,
    victim: Running,
    socket: UdpSocket,
}

fn cable() -> Cable {
    let mut lab = Lab::new();
    let [near, far] = ["near", "far"].map(|name| lab.host(name).expect("a host"));
    lab.veth((&near, "eth0"), (&far, "eth0")).expect("a cable");
    for (host, address) in [(&near, "10.9.0.1/24"), (&far, "10.9.0.2/24")] {
        host.address("eth0", address.parse().expect("an address"))
            .expect("its address");
    }
    let echo = far.call(|| UdpSocket::bind("10.9.0.2:7")).expect("a thread");
    let echo = echo.expect("a socket");
    std::thread::spawn(move || {
        let mut datagram = [0; 9000];
        while let Ok((len, from)) = echo.recv_from(&mut datagram) {
            let _ = echo.send_to(&datagram[..len], from);
        }
    });
    let socket = near.call(|| UdpSocket::bind("10.9.0.1:0")).expect("a thread");
    let socket = socket.expect("a socket");
    socket.connect("10.9.0.2:7").expect("its far end");
    let victim = near.program("sleep").arg("1000").limit(10 * LONG);
    let victim = victim.start().expect("a program");
    Cable {
        lab,
        near,
        victim,
        socket,
    }
}

impl Cable {
    /// The round trip of one datagram; `None` if it does not come back within this time.
    fn round_trip(&self, limit: Duration) -> Option<Duration> {
        self.round_trip_of(8, limit)
    }

    /// The same, of one with so many bytes, 8 or more.
    fn round_trip_of(&self, len: usize, limit: Duration) -> Option<Duration> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut name = COUNT.fetch_add(1, Ordering::Relaxed).to_be_bytes().to_vec();
        name.resize(len, 0);
        let (mut back, sent) = (vec![0; len], Instant::now());
        self.socket.send(&name).expect("sending");
        while sent.elapsed() < limit {
            let left = limit.saturating_sub(sent.elapsed()).max(MS);
            self.socket.set_read_timeout(Some(left)).expect("a limit");
            match self.socket.recv(&mut back) {
                Ok(got) if got == len && back == name => return Some(sent.elapsed()),
                Ok(_) => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return None,
                Err(e) => panic!("{e}"),
            }
        }
        None
    }

    /// What the near host has.
    fn interfaces(&self) -> Vec<String> {
        let table = self
            .near
            .call(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
        let table = table.expect("a thread").expect("a table");
        let names = table
            .lines()
            .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()));
        names.collect()
    }

    /// Some round trips: none is shorter than this.
    fn is_slow(&self, least: Duration, what: &str) {
        for _ in 0..5 {
            let took = self
                .round_trip(LONG)
                .unwrap_or_else(|| panic!("{what}: nothing came back"));
            assert!(took >= least, "{what}: {took:?}, not {least:?}");
        }
    }

    /// Waits until a round trip is shorter than this.
    fn becomes_fast(&self, most: Duration, what: &str) {
        let begin = Instant::now();
        while self.round_trip(most).is_none_or(|took| took >= most) {
            assert!(begin.elapsed() < LONG, "{what}: no round trip is below {most:?}");
        }
    }
}

/// A fault that has said that it is applied.
struct Applied {
    child: Child,
    out: BufReader<ChildStdout>,
    said: String,
}

/// Starts one; `None`, with the reason reported, where this machine does not permit it.
fn applied(arguments: &[&str], path: Option<&str>) -> Option<Applied> {
    let mut command = Command::new(SUIMON);
    command.arg("fault").args(arguments).args(["--for", "5min"]);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("suimon");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut said = String::new();
    for _ in 0..3 {
        out.read_line(&mut said).expect("text");
    }
    if said.starts_with("applied") {
        return Some(Applied { child, out, said });
    }
    let output = child.wait_with_output().expect("its end");
    let why = told(&output);
    let not_here = ["not permitted", "/dev/net/tun", "Linux 6.6"];
    assert!(not_here.iter().any(|known| why.contains(known)), "{why}{said}");
    skips::skipped(why);
    None
}

impl Applied {
    fn kill(mut self) {
        self.child.kill().expect("killing it");
        self.child.wait().expect("its end");
    }

    /// What it says when it is told to end.
    fn end(mut self) -> String {
        let told = Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status();
        assert!(told.expect("kill").success());
        let mut said = String::new();
        while self.out.read_line(&mut said).expect("text") > 0 {}
        assert!(self.child.wait().expect("its end").success());
        said
    }
}

fn told(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .concat()
}

fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(SUIMON).arg("fault").args(arguments).output();
    let output = output.expect("suimon");
    (output.status.code(), told(&output))
}

#[test]
fn a_process_is_behind_the_link_until_kill_9() {
    isolated(|| {
        let cable = cable();
        cable.becomes_fast(20 * MS, "before");
        let id = cable.victim.id().to_string();
        let Some(fault) = applied(&[&id, "--delay", "30ms"], None) else {
            return;
        };
        assert!(
            fault.said.contains("20 of 20 probes came, after 3"),
            "{}",
            fault.said
        );
        cable.is_slow(60 * MS, "with the fault");
        let killed = Instant::now();
        fault.kill();
        cable.becomes_fast(20 * MS, "after the kill");
        eprintln!("gone {:?} after the kill", killed.elapsed());
        while cable.interfaces() != ["lo", "eth0"] {
            assert!(killed.elapsed() < LONG, "left: {:?}", cable.interfaces());
        }
    });
}

#[test]
fn faults_of_one_interface_add_up_and_each_ends_alone() {
    isolated(|| {
        let cable = cable();
        let id = cable.victim.id().to_string();
        // Whichever is killed first, the one before the other or behind it, the other stays.
        for first_dies in [true, false] {
            let Some(first) = applied(&[&id, "--delay", "30ms"], None) else {
                return;
            };
            let second = applied(&[&id, "--delay", "20ms"], None).expect("a second one");
            cable.is_slow(100 * MS, "with both");
            let (dies, stays, left) = match first_dies {
                true => (first, second, 40 * MS),
                false => (second, first, 60 * MS),
            };
            dies.kill();
            cable.becomes_fast(100 * MS, "after one is dead");
            cable.is_slow(left, "with the other");
            stays.kill();
            cable.becomes_fast(left, "after both are dead");
        }
    });
}

#[test]
fn long_frames_take_the_link_too_also_when_the_mtu_grows_meanwhile() {
    isolated(|| {
        let cable = cable();
        let id = cable.victim.id().to_string();
        let Some(fault) = applied(&[&id, "--delay", "30ms"], None) else {
            return;
        };
        for host in cable.lab.hosts() {
            host.netlink(|n| n.mtu("eth0", 9000)).expect("an MTU");
        }
        let again = applied(&[&id, "--delay", "20ms"], None).expect("a second one");
        for len in [1500, 8000, 8972] {
            let took = cable.round_trip_of(len, LONG);
            let took = took.unwrap_or_else(|| panic!("{len} B did not come back"));
            assert!(took >= 100 * MS, "{len} B: {took:?}");
        }
        again.kill();
        fault.kill();
    });
}

#[test]
fn what_is_lost_is_lost_and_comes_back_when_it_ends() {
    isolated(|| {
        let cable = cable();
        let id = cable.victim.id().to_string();
        cable.becomes_fast(LONG, "before");
        let Some(fault) = applied(&[&id, "--loss", "100%"], None) else {
            return;
        };
        assert!(fault.said.contains("0 of 20 probes came\n"), "{}", fault.said);
        assert_eq!(cable.round_trip(300 * MS), None, "something came through");
        let said = fault.end();
        assert!(said.starts_with("ended: a signal came\n"), "{said}");
        let sent = said.lines().find(|line| line.contains("sent")).expect("a line");
        let numbers = sent
            .split_whitespace()
            .filter_map(|word| word.parse::<u32>().ok());
        let numbers: Vec<u32> = numbers.collect();
        assert!(numbers[0] >= 21 && numbers[0] == numbers[1], "{said}");
        cable.becomes_fast(LONG, "after the end");
    });
}

#[test]
fn it_ends_with_its_target_and_with_its_time() {
    isolated(|| {
        let cable = cable();
        let id = cable.victim.id().to_string();
        let Some(fault) = applied(&[&id, "--delay", "30ms"], None) else {
            return;
        };
        let near = cable.near.clone();
        drop(cable);
        let mut said = String::new();
        let mut out = fault.out;
        while out.read_line(&mut said).expect("text") > 0 {}
        assert!(
            said.starts_with(&format!("ended: process {id} has ended\n")),
            "{said}"
        );
        let here = near
            .program(SUIMON)
            .args(["fault", "eth0", "--delay", "5ms", "--for", "10ms", "--json"]);
        let output = here.output().expect("suimon");
        let lines: Vec<serde_json::Value> = output
            .out
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let [applied, ended] = &lines[..] else {
            panic!("{output:?}");
        };
        assert_eq!(applied["applied"]["sent"]["came"], 20, "{applied}");
        assert!(
            applied["applied"]["sent"]["took_ns"][0].as_u64() >= Some(5_000_000),
            "{applied}"
        );
        assert_eq!(ended["ended"]["why"], "its time is over", "{ended}");
    });
}

#[test]
fn a_container_is_found_by_its_name() {
    isolated(|| {
        let cable = cable();
        let folder = std::env::temp_dir().join(format!("suimon-fault-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *' web') echo {};; *' off') echo 0;; *) echo 'no such container' >&2; exit 1;; esac\n",
            cable.victim.id()
        );
        let docker = folder.join("docker");
        std::fs::write(&docker, script).expect("a program");
        std::fs::set_permissions(&docker, std::fs::Permissions::from_mode(0o755)).expect("ours");
        let path = format!("{}:/usr/bin:/bin", folder.display());
        if let Some(fault) = applied(&["web", "--delay", "30ms"], Some(&path)) {
            assert!(fault.said.contains("eth0 of container web"), "{}", fault.said);
            cable.is_slow(60 * MS, "with the fault");
            fault.kill();
        }
        for (name, why) in [("off", "does not run"), ("other", "no such container")] {
            let output = Command::new(SUIMON)
                .args(["fault", name, "--delay", "1ms"])
                .env("PATH", &path)
                .output();
            let output = output.expect("suimon");
            assert_eq!(output.status.code(), Some(2), "{}", told(&output));
            assert!(told(&output).contains(why), "{}", told(&output));
        }
        std::fs::remove_dir_all(&folder).expect("our folder");
    });
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    isolated(|| {
        let own = std::process::id().to_string();
        for (arguments, why) in [
            (&["eth0"][..], "what is to be wrong with the link?"),
            (&[&own, "--delay", "1ms"], "has no network of its own"),
            (&["4000000", "--delay", "1ms"], "there is no process 4000000"),
            (&["eth0", "--delay", "1"], "unit"),
            (&["lo", "--delay", "1ms"], "loopback stays as it is"),
        ] {
            let (code, said) = refused(arguments);
            assert_eq!(code, Some(2), "{arguments:?}: {said}");
            assert!(said.contains(why), "{arguments:?}: {said}");
        }
    });
}

#[test]
fn a_user_is_told_to_run_it_by_sudo() {
    lab::isolated_as(NOBODY, &[SUIMON], || {
        let mut lab = Lab::new();
        let near = lab.host("near").expect("a host");
        let far = lab.host("far").expect("a host");
        lab.veth((&near, "eth0"), (&far, "eth0")).expect("a cable");
        let suimon = lab::published(SUIMON);
        let output = near
            .program(&suimon.to_string_lossy())
            .args(["fault", "eth0", "--delay", "1ms", "--for", "1s"])
            .output()
            .expect("suimon");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let remedies = ["run it by sudo", "modprobe tun", "run as root"];
        assert!(
            remedies.iter().any(|remedy| output.err.contains(remedy)),
            "{}",
            output.err
        );
    });
}
