//! What a running program may do: the table in docs/security.md, compared with the kernel's account
//! of each thread; and that what must still work does.

use control::difference::Breaking;
use control::protocol::{Reply, Request, SettingChange, SettingChanges};
use control::socket::Client;
use lab::{Host, Lab, Running};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PAGE: &str = include_str!("../../../docs/security.md");

/// Capabilities by number, as far as the page names them.
const NAMES: &[(&str, u32)] = &[
    ("CHOWN", 0),
    ("DAC_OVERRIDE", 1),
    ("DAC_READ_SEARCH", 2),
    ("FOWNER", 3),
    ("NET_ADMIN", 12),
    ("NET_RAW", 13),
    ("SYS_NICE", 23),
    ("BPF", 39),
];

/// The capabilities of each thread by the page's table.
fn table() -> BTreeMap<String, u64> {
    let rows = PAGE
        .split("| thread | does | capabilities |")
        .nth(1)
        .expect("the table");
    let rows = rows.split("\n\n").next().expect("its rows");
    let mut table = BTreeMap::new();
    for row in rows.lines().filter(|row| row.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [names, _, capabilities] = cells[..] else {
            panic!("a row of another form: {row}");
        };
        let bit = |word: &str| {
            NAMES
                .iter()
                .find(|(name, _)| *name == word)
                .map(|(_, bit)| 1 << bit)
        };
        let set = match capabilities {
            "none" => 0,
            words => words
                .split(' ')
                .map(|word| bit(word).unwrap_or_else(|| panic!("`{word}` is no capability: {row}")))
                .fold(0, |set: u64, bit: u64| set | bit),
        };
        for name in names.split('`').skip(1).step_by(2) {
            table.insert(name.to_owned(), set);
        }
    }
    table
}

/// What the kernel says of a thread.
struct Thread {
    name: String,
    status: String,
}

impl Thread {
    fn field(&self, name: &str) -> &str {
        let lines = self.status.lines();
        let mut values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(":"));
        values.next().expect("the kernel has it").trim()
    }

    fn set(&self, name: &str) -> u64 {
        u64::from_str_radix(self.field(name), 16).expect("a set")
    }

    fn judge(&self, allowed: u64, bounding: u64) {
        let name = &self.name;
        assert_eq!(self.field("NoNewPrivs"), "1", "{name}");
        assert_eq!(self.field("Seccomp"), "2", "{name}");
        for empty in ["CapInh", "CapAmb"] {
            assert_eq!(self.set(empty), 0, "{name}: {empty}");
        }
        for exact in ["CapPrm", "CapEff"] {
            assert_eq!(
                self.set(exact),
                allowed,
                "{name}: {exact}, in hex {:x}",
                self.set(exact)
            );
        }
        assert_eq!(self.set("CapBnd"), bounding, "{name}: CapBnd");
    }
}

fn threads(id: u32) -> Vec<Thread> {
    let threads = fs::read_dir(format!("/proc/{id}/task"))
        .expect("its threads")
        .flatten();
    let read = |path: &Path, file: &str| fs::read_to_string(path.join(file)).ok();
    threads
        .filter_map(|thread| {
            let path = thread.path();
            Some(Thread {
                name: read(&path, "comm")?.trim().to_owned(),
                status: read(&path, "status")?,
            })
        })
        .collect()
}

/// All threads of a process have what the table lists.
fn judge_all(id: u32, table: &BTreeMap<String, u64>) {
    for thread in threads(id) {
        thread.judge(table[&thread.name], table["suimon"]);
    }
}

/// Waits until a process has this thread, and it has no more than the table lists.
fn until_confined(id: u32, name: &str, table: &BTreeMap<String, u64>) {
    until("the thread is confined", || {
        let threads = threads(id);
        let mut own = threads.iter().filter(|one| one.name == name);
        own.any(|one| one.field("Seccomp") == "2" && one.set("CapEff") == table[name])
    });
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "{what} does not come true");
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct Rig {
    _lab: Lab,
    a: Host,
    b: Host,
    files: PathBuf,
}

const POLICY: &str = "version = 1
[port]
egress = \"eth0\"
[rsvp]
interfaces = [\"eth0\"]
[interface.eth0]            # a comment that stays
bandwidth = \"20 Mbit/s\"
discipline = \"drr\"
reserve = { share = \"50 %\", smallest = \"1 %\", largest = \"5 Mbit/s\" }
[[interface.eth0.class]]
name = \"calls\"
weight = 1
[[interface.eth0.class]]
name = \"rest\"
default = true
";

impl Rig {
    fn new(name: &str) -> Self {
        let mut lab = Lab::new();
        let [a, b] = ["a", "b"].map(|name| lab.host(name).expect("a host"));
        lab.veth((&a, "eth0"), (&b, "eth0")).expect("a pair");
        a.address("eth0", "10.0.0.1/24".parse().expect("an address"))
            .expect("set");
        let files = std::env::temp_dir().join(format!("suimon-confined-{name}-{}", std::process::id()));
        fs::create_dir_all(&files).expect("a folder");
        fs::write(files.join("policy.toml"), POLICY).expect("a policy");
        Self {
            _lab: lab,
            a,
            b,
            files,
        }
    }

    fn path(&self, file: &str) -> String {
        self.files.join(file).display().to_string()
    }

    /// Starts `suimon run`; none where the machine forbids it.
    fn run(&self, more: &[&str]) -> Option<Running> {
        let (policy, socket) = (self.path("policy.toml"), self.path("s.sock"));
        let start = |more: &[&str]| {
            let program = self.a.program(env!("CARGO_BIN_EXE_suimon"));
            let program = program.args(["run", &policy, "--socket", &socket]).args(more);
            program.limit(Duration::from_secs(60)).start().expect("it starts")
        };
        let running = start(more);
        let end = Instant::now() + Duration::from_secs(20);
        while Client::connect(Some(&socket)).is_err() {
            if !running.is_running() {
                let output = running.wait().expect("its end");
                // Without root the box has no right to load BPF programs: then it fails as well
                // with all rights that there are.
                let free = start(&["--no-sandbox"]);
                until("it ends without the sandbox too", || !free.is_running());
                skips::skipped(output.err);
                return None;
            }
            assert!(Instant::now() < end, "it does not run");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(running)
    }

    fn ask(&self, request: &Request) -> Reply {
        let client = Client::connect(Some(&self.path("s.sock")));
        client.expect("it runs").ask(request).expect("an answer")
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.files);
    }
}

/// Where seccomp or Landlock is lacking, the rest of the table holds, which is tested where both
/// are.
fn is_whole() -> bool {
    let lacking = confine::lacking();
    if !lacking.is_empty() {
        skips::skipped(lacking.join("; "));
    }
    lacking.is_empty()
}

/// The threads that must be seen, so that a row of the table is not judged by nobody.
const OF_RUN: [&str; 5] = ["suimon", "worker", "control", "control-peer", "rsvp"];

#[test]
fn each_thread_has_the_capabilities_of_the_table_and_no_other() {
    lab::isolated(|| {
        if !is_whole() {
            return;
        }
        let (rig, table) = (Rig::new("table"), table());
        let Some(running) = rig.run(&[]) else { return };
        // What asks has a thread of its own as long as it is connected.
        let _client = Client::connect(Some(&rig.path("s.sock"))).expect("it runs");
        let mut seen = BTreeSet::new();
        until("every thread is there", || {
            for thread in threads(running.id()) {
                // One that has just been started is confined with its first step.
                let allowed = table.get(&thread.name);
                let allowed =
                    *allowed.unwrap_or_else(|| panic!("thread `{}` is not in the table", thread.name));
                if thread.set("CapEff") == allowed {
                    thread.judge(allowed, table["suimon"]);
                    seen.insert(thread.name);
                }
            }
            OF_RUN.iter().all(|name| seen.contains(*name))
        });
        std::thread::sleep(Duration::from_millis(100));
        judge_all(running.id(), &table);
    });
}

/// The thread that asks hosts, and that it still can.
#[test]
fn who_follows_a_line_has_no_capability_and_hears_answers() {
    lab::isolated(|| {
        if !is_whole() {
            return;
        }
        let (rig, table) = (Rig::new("follows"), table());
        let answers = "10.0.0.2/24".parse().expect("an address");
        rig.b.address("eth0", answers).expect("set");
        let policy = "version = 1\n[port]\negress = \"eth0\"\n[interface.eth0]\nbandwidth = \"20 Mbit/s\"\n\
                      autorate = { targets = [\"10.0.0.2\"] }\n";
        fs::write(rig.path("policy.toml"), policy).expect("a policy");
        let Some(running) = rig.run(&[]) else { return };
        until_confined(running.id(), "autorate", &table);
        until("a host answers", || {
            let mut client = Client::connect(Some(&rig.path("s.sock"))).expect("it runs");
            let now = client.status(Duration::ZERO, false).expect("a status");
            let found = now
                .interfaces
                .into_iter()
                .find_map(|interface| interface.autorate);
            found.is_some_and(|of| !of.blind && of.base_ns.is_some())
        });
        judge_all(running.id(), &table);
    });
}

/// The thread that hears of the kernel's connections. That it still can: `nat.rs`.
#[test]
fn who_hears_of_connections_may_administer_the_network_and_nothing_else() {
    lab::isolated(|| {
        if !is_whole() {
            return;
        }
        let (rig, table) = (Rig::new("hears"), table());
        let policy = "version = 1\n[port]\negress = \"eth0\"\n[interface.eth0]\nbandwidth = \"20 Mbit/s\"\nnat = true\n";
        fs::write(rig.path("policy.toml"), policy).expect("a policy");
        let Some(running) = rig.run(&[]) else { return };
        for name in ["nat", "suimon"] {
            until_confined(running.id(), name, &table);
        }
        judge_all(running.id(), &table);
    });
}

/// A node that speaks RSVP and forwards nothing.
#[test]
fn a_node_without_a_data_plane_has_the_capabilities_of_its_threads() {
    const OF_NODE: [&str; 4] = ["suimon", "rsvp", "control", "control-peer"];
    lab::isolated(|| {
        if !is_whole() {
            return;
        }
        let (rig, table) = (Rig::new("node"), table());
        let socket = rig.path("s.sock");
        let program = rig.a.program(env!("CARGO_BIN_EXE_suimon"));
        let program = program.args(["accept", "--interface", "eth0", "--socket", &socket]);
        let node = program.limit(Duration::from_secs(60)).start().expect("it starts");
        until("it serves", || Client::connect(Some(&socket)).is_ok());
        let _client = Client::connect(Some(&socket)).expect("it runs");
        until("every thread is there, and confined", || {
            let threads = threads(node.id());
            let is_there = |name: &&str| {
                threads
                    .iter()
                    .any(|one| one.name == **name && one.set("CapEff") == table[*name])
            };
            OF_NODE.iter().all(is_there)
        });
        judge_all(node.id(), &table);
        drop(node.kill());
        // And the one that `reserve` starts where none runs, but for its first thread.
        let program = rig.a.program(env!("CARGO_BIN_EXE_suimon"));
        let program = program.args(["reserve", "--to", "10.0.0.2:5000", "--rate", "1M", "--", "true"]);
        let asks = program.limit(Duration::from_secs(60)).start().expect("it starts");
        let of_child = || {
            let id = asks.id();
            let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
            let child = children.split_whitespace().next().and_then(|id| id.parse().ok());
            child.map(threads).unwrap_or_default()
        };
        until("its threads are confined", || {
            let threads = of_child();
            ["rsvp", "control"].iter().all(|name| {
                let is = |one: &&Thread| one.name == *name && one.set("CapEff") == table[*name];
                threads.iter().any(|one| is(&one))
            })
        });
        for thread in of_child().iter().filter(|one| one.name != "suimon") {
            thread.judge(table[&thread.name], table[&thread.name]);
        }
    });
}

#[test]
fn the_page_and_the_screen_have_no_capability() {
    lab::isolated(|| {
        if !is_whole() {
            return;
        }
        let (rig, table) = (Rig::new("viewers"), table());
        let Some(_running) = rig.run(&[]) else { return };
        let socket = rig.path("s.sock");
        let web = rig.a.program(env!("CARGO_BIN_EXE_suimon"));
        let web = web.args(["web", "--listen", "127.0.0.1:9476", "--socket", &socket]);
        let web = web.limit(Duration::from_secs(60)).start().expect("it starts");
        let top = rig.a.program(env!("CARGO_BIN_EXE_suimon"));
        let top = top.args(["top", "--plain", "--socket", &socket]);
        let top = top.limit(Duration::from_secs(60)).start().expect("it starts");
        let fetched = || rig.a.call(|| fetch("/api/status")).expect("in the namespace");
        until("the page is served", || {
            fetched().is_some_and(|page| page.contains("\"calls\""))
        });
        for (running, row) in [(&web, "suimon web"), (&top, "suimon top")] {
            until("it is confined", || {
                threads(running.id())
                    .iter()
                    .all(|one| one.field("Seccomp") == "2")
            });
            for thread in threads(running.id()) {
                thread.judge(table[row], table[row]);
            }
        }
        assert!(fetched().is_some(), "confined, it answers no more");
    });
}

/// A page of the server in this namespace.
fn fetch(path: &str) -> Option<String> {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect("127.0.0.1:9476").ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut page = String::new();
    stream.read_to_string(&mut page).ok()?;
    Some(page)
}

#[test]
fn a_confined_program_saves_its_policy_and_no_other_file() {
    lab::isolated(|| {
        let rig = Rig::new("saves");
        let Some(_running) = rig.run(&[]) else { return };
        let set = |weight: &str| {
            rig.ask(&Request::Set(SettingChanges {
                interface: "eth0".into(),
                class: Some("calls".into()),
                changes: [("weight".into(), SettingChange::from_word(weight))].into(),
                until_ms: None,
                reason: None,
            }))
        };
        assert!(matches!(set("3"), Reply::Done { .. }));
        let saved = rig.ask(&Request::Save {});
        assert!(matches!(saved, Reply::Done { .. }), "{saved:?}");
        let text = fs::read_to_string(rig.path("policy.toml")).expect("the policy");
        assert!(
            text.contains("weight = 3") && text.contains("# a comment that stays"),
            "{text}"
        );
        // A policy elsewhere is applied, but is not written to.
        let elsewhere = Rig::new("elsewhere").files.clone();
        fs::create_dir_all(&elsewhere).expect("a folder");
        let other = elsewhere.join("other.toml");
        fs::write(&other, text.replace("weight = 3", "weight = 2")).expect("a policy");
        let applied = rig.ask(&Request::Apply {
            file: other.display().to_string(),
            confirm_within_ms: None,
            break_reservations: Breaking::Refused,
            reason: None,
        });
        assert!(matches!(applied, Reply::Done { .. }), "{applied:?}");
        assert!(matches!(set("4"), Reply::Done { .. }));
        let refused = rig.ask(&Request::Save {});
        let text = fs::read_to_string(&other).expect("the policy");
        let _ = fs::remove_dir_all(&elsewhere);
        if is_whole() {
            let said = format!("{refused:?}");
            assert!(
                matches!(refused, Reply::Refused(_)) && said.contains("docs/security.md"),
                "{said}"
            );
            assert!(text.contains("weight = 2"), "{text}");
        }
    });
}

/// The candidate is run, and its file read, by the thread that answers.
#[test]
fn a_confined_program_runs_a_shadow() {
    lab::isolated(|| {
        let rig = Rig::new("shadow");
        let Some(running) = rig.run(&[]) else { return };
        let elsewhere = Rig::new("shadow-elsewhere").files.clone();
        fs::create_dir_all(&elsewhere).expect("a folder");
        let other = elsewhere.join("other.toml");
        fs::write(&other, POLICY.replace("weight = 1", "weight = 2")).expect("a policy");
        let program = rig.a.program(env!("CARGO_BIN_EXE_suimon"));
        let socket = rig.path("s.sock");
        let shadow = program.args(["shadow", &other.display().to_string(), "--for", "500ms", "--json"]);
        let shadow = shadow.args(["--socket", &socket]).limit(Duration::from_secs(60));
        let shadow = shadow.start().expect("it starts");
        rig.a
            .call(|| {
                let socket = std::net::UdpSocket::bind("10.0.0.1:0").expect("a socket");
                socket.set_broadcast(true).expect("set");
                while shadow.is_running() {
                    socket.send_to(&[0; 100], "10.0.0.255:9").expect("sent");
                    std::thread::sleep(Duration::from_millis(5));
                }
            })
            .expect("in the namespace");
        let output = shadow.wait().expect("its end");
        let _ = fs::remove_dir_all(&elsewhere);
        let confined = threads(running.id())
            .iter()
            .all(|one| one.field("Seccomp") == "2");
        assert!(confined || !is_whole());
        for figures in ["\"candidate\":{", "\"live\":{"] {
            assert!(output.out.contains(figures), "{}{}", output.out, output.err);
        }
    });
}

/// What passes is kept by a confined thread, written by whoever asks for it, and done again from
/// the file.
#[test]
fn a_confined_program_records_what_passes() {
    lab::isolated(|| {
        let rig = Rig::new("record");
        let Some(running) = rig.run(&[]) else { return };
        let file = rig.path("evening.rec");
        let said = |words: &[&str]| {
            let program = rig.a.program(env!("CARGO_BIN_EXE_suimon")).args(words.to_vec());
            let running = program.limit(Duration::from_secs(60)).start().expect("it starts");
            running.wait().expect("its end")
        };
        let socket = rig.path("s.sock");
        let begun = said(&["record", "start", "--socket", &socket]);
        assert!(
            begun.out.contains("is recorded from"),
            "{}{}",
            begun.out,
            begun.err
        );
        let send = || {
            let socket = std::net::UdpSocket::bind("10.0.0.1:0").expect("a socket");
            socket.set_broadcast(true).expect("set");
            for _ in 0..50 {
                socket.send_to(&[7; 100], "10.0.0.255:9").expect("sent");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        until("a recording", || {
            rig.a.call(send).expect("in the namespace");
            said(&["record", "save", &file, "--socket", &socket])
                .err
                .is_empty()
        });
        let own = threads(running.id());
        assert!(
            own.iter().any(|thread| thread.name == "recorder"),
            "no such thread"
        );
        let mode = fs::metadata(&file).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = said(&["replay", &file]);
        let all = "packets left and 0 were dropped, each when it was";
        assert!(again.out.contains(all), "{}{}", again.out, again.err);
        let around = said(&["replay", &file, "--at", "10ms", "--around", "1s"]);
        assert!(
            around.out.contains("-> 10.0.0.255:9 udp"),
            "{}{}",
            around.out,
            around.err
        );
        let none = said(&["replay", &file, "--at", "100s"]);
        assert!(
            none.err.contains("it has nothing at that time"),
            "{}{}",
            none.out,
            none.err
        );
        let twice = said(&["record", "save", &file, "--socket", &socket]);
        assert!(
            twice.err.contains("does not exist yet"),
            "{}{}",
            twice.out,
            twice.err
        );
        let ended = said(&["record", "stop", "--socket", &socket]);
        assert!(ended.out.contains("is forgotten"), "{}{}", ended.out, ended.err);
    });
}

#[test]
fn without_the_sandbox_all_rights_stay_which_is_said() {
    lab::isolated(|| {
        let rig = Rig::new("none");
        let Some(running) = rig.run(&["--no-sandbox"]) else {
            return;
        };
        let all = threads(running.id());
        assert!(all.iter().all(|thread| thread.field("Seccomp") == "0"));
        let worker = all
            .iter()
            .find(|thread| thread.name == "worker")
            .expect("a worker");
        assert!(worker.set("CapEff") & 1 << 21 != 0, "CAP_SYS_ADMIN was dropped");
        rig.ask(&Request::Detach { interface: None });
        let output = running.wait().expect("its end");
        assert!(output.err.contains("--no-sandbox"), "{}", output.err);
    });
}
