//! Reservations as people use them, with real sockets: two hosts, two routers that the kernel routes by, and `suimon` on each.
//!
//! ```text
//!  a (reserve) ── lan0 │ r1: run, drr │ wan0 ── wan0 │ r2: run, cbq │ lan0 ── b (accept)
//! ```
//!
//! R is 1 s, so that state which is not refreshed dies after 5.25 s. Times are judged with room for a busy machine, order and
//! counts exactly.

use control::protocol::{Reply, Request};
use control::reservation::{SenderView, Status};
use control::socket::Client;
use lab::traffic::generator::Shape;
use lab::traffic::udp::{Stream, StreamRun};
use lab::{Host, Lab, Output, Running};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One at a time: they wait for times.
static TURN: Mutex<()> = Mutex::new(());

/// Of a link of 40 Mbit/s, half may be reserved.
const RESERVABLE: u64 = 20_000_000;
const R: Duration = Duration::from_secs(1);
/// (K + 1/2) × 1.5 × R.
const LIFETIME: Duration = Duration::from_millis(5250);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(3);

/// The four of them, in a row.
const NAMES: [&str; 4] = ["a", "r1", "r2", "b"];

struct Rig {
    _lab: Lab,
    hosts: [Host; 4],
    files: PathBuf,
    running: [Option<Running>; 4],
}

fn unique() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |span| span.as_nanos())
}

fn policy(out: &str, discipline: &str, class: &str, share: u32) -> String {
    format!(
        "version = 1\n[port]\negress = \"{out}\"\n\
         [rsvp]\ninterfaces = [\"wan0\", \"lan0\"]\nrefresh = \"1 s\"\n\
         [interface.{out}]\nbandwidth = \"40 Mbit/s\"\ndiscipline = {discipline}\nreserve = {{ share = \"{share} %\" }}\n\
         [[interface.{out}.class]]\nname = \"rest\"\n{class}default = true\n"
    )
}

impl Rig {
    /// All of it running; none if the machine forbids it.
    fn start() -> Option<Self> {
        let mut lab = Lab::new();
        let hosts = NAMES.map(|name| lab.host(name).expect("a host"));
        let [a, r1, r2, b] = &hosts;
        for (one, other) in [
            ((a, "eth0"), (r1, "lan0")),
            ((r1, "wan0"), (r2, "wan0")),
            ((r2, "lan0"), (b, "eth0")),
        ] {
            lab.veth(one, other).expect("a pair");
        }
        let addresses = [
            (a, "eth0", 1, 1),
            (r1, "lan0", 1, 2),
            (r1, "wan0", 2, 1),
            (r2, "wan0", 2, 2),
            (r2, "lan0", 3, 1),
            (b, "eth0", 3, 2),
        ];
        for (host, interface, link, end) in addresses {
            for text in [format!("10.0.{link}.{end}/24"), format!("fd00:{link}::{end}/64")] {
                host.address(interface, text.parse().expect("an address"))
                    .expect("set");
            }
        }
        for (host, gateways) in [
            (a, ["10.0.1.2", "fd00:1::2"]),
            (r1, ["10.0.2.2", "fd00:2::2"]),
            (r2, ["10.0.2.1", "fd00:2::1"]),
            (b, ["10.0.3.1", "fd00:3::1"]),
        ] {
            for gateway in gateways {
                host.default_route(gateway.parse().expect("an address"))
                    .expect("a route");
            }
        }
        [r1, r2]
            .iter()
            .for_each(|router| router.forward().expect("forwarding"));
        let files =
            std::env::temp_dir().join(format!("suimon-rsvp-test-{}-{}", std::process::id(), unique()));
        fs::create_dir_all(&files).expect("a directory");
        let policies = [
            ("r1", policy("wan0", "\"drr\"", "", 50)),
            ("r2", policy("lan0", "\"cbq\"", "rate = \"10 Mbit/s\"\n", 75)),
        ];
        for (name, text) in policies {
            fs::write(files.join(format!("{name}.toml")), text).expect("a file");
        }
        let mut rig = Self {
            _lab: lab,
            hosts,
            files,
            running: [None, None, None, None],
        };
        [1, 2, 3].into_iter().all(|at| rig.launch(at)).then_some(rig)
    }

    fn at(name: &str) -> usize {
        NAMES
            .iter()
            .position(|known| *known == name)
            .expect("one of the four")
    }

    fn socket(&self, at: usize) -> String {
        self.files
            .join(format!("{}.sock", NAMES[at]))
            .display()
            .to_string()
    }

    /// Starts what runs there; `false` if the machine forbids it.
    fn launch(&mut self, at: usize) -> bool {
        let (socket, file) = (
            self.socket(at),
            self.files
                .join(format!("{}.toml", NAMES[at]))
                .display()
                .to_string(),
        );
        let program = self.hosts[at]
            .program(env!("CARGO_BIN_EXE_suimon"))
            .limit(Duration::from_secs(120));
        let program = match NAMES[at].starts_with('r') {
            true => program.args(["run", &file, "--socket", &socket]),
            false => program.args([
                "accept",
                "--refresh",
                "1s",
                "--port",
                "5000-5010",
                "--socket",
                &socket,
            ]),
        };
        let running = program.start().expect("the program starts");
        let until = Instant::now() + Duration::from_secs(10);
        while Client::connect(Some(&socket)).is_err() {
            if !running.is_running() {
                let output = running.wait().expect("its end");
                assert!(output.err.contains("not permitted"), "{output:?}");
                eprintln!("skipped: {}", output.err.trim());
                return false;
            }
            assert!(Instant::now() < until, "the control socket does not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
        self.running[at] = Some(running);
        true
    }

    fn status(&self, name: &str) -> Status {
        let mut client = Client::connect(Some(&self.socket(Self::at(name)))).expect("it answers");
        match client.ask(&Request::Reservations {}).expect("an answer") {
            Reply::Reservations(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    /// What is promised to senders to this port there: class and rate.
    fn promised(&self, name: &str, port: u16) -> Vec<(Option<String>, u64)> {
        let of = |sender: &SenderView| sender.flow.port == port;
        let status = self.status(name);
        let promises = status
            .senders
            .into_iter()
            .filter(of)
            .flat_map(|sender| sender.promises);
        promises
            .map(|promise| (promise.class, promise.rate_bps))
            .collect()
    }

    /// The classes of reservations there, by the data plane's account.
    fn classes(&self, name: &str) -> Vec<String> {
        let mut client = Client::connect(Some(&self.socket(Self::at(name)))).expect("it answers");
        let snapshot = client.status(Duration::ZERO, false).expect("a status");
        let classes = snapshot.interfaces[0]
            .classes
            .iter()
            .map(|class| class.name.clone());
        classes.filter(|name| name.starts_with("resv-")).collect()
    }

    fn suimon(&self, name: &str, arguments: &[&str]) -> lab::Program {
        self.hosts[Self::at(name)]
            .program(env!("CARGO_BIN_EXE_suimon"))
            .args(arguments)
    }

    fn output(&self, name: &str, arguments: &[&str]) -> Output {
        self.suimon(name, arguments)
            .limit(Duration::from_secs(20))
            .output()
            .expect("it ends")
    }

    /// A program on a that holds a reservation while it sleeps.
    fn hold(&self, to: &str, rate: &str) -> Running {
        let arguments = [
            "reserve",
            "--to",
            to,
            "--rate",
            rate,
            "--packet",
            "1000B",
            "--refresh",
            "1s",
            "--",
            "sleep",
            "100",
        ];
        self.suimon("a", &arguments)
            .limit(Duration::from_secs(120))
            .start()
            .expect("it starts")
    }

    fn udp(&self, port: u16, rate: u32, duration: Duration) -> StreamRun {
        let to = SocketAddr::from(([10, 0, 3, 2], port));
        Stream {
            to,
            shape: Shape::per_second(rate, 972, duration),
        }
        .start(&self.hosts[0], &self.hosts[3])
        .expect("a stream")
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.files);
    }
}

fn kill(id: u32, signal: &str) {
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -{signal} {id}")])
        .status();
    assert!(sent.is_ok_and(|status| status.success()), "cannot send {signal}");
}

/// Waits until something holds; how long it took.
fn until(what: &str, limit: Duration, holds: impl Fn() -> bool) -> Duration {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    eprintln!("{what}: after {:?}", begin.elapsed());
    begin.elapsed()
}

fn in_turn(body: impl FnOnce()) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    body();
}

const LONG: Duration = Duration::from_secs(10);

#[test]
fn reserve_change_refuse_repair_and_tear_along_a_path() {
    in_turn(|| lab::isolated(|| Rig::start().into_iter().for_each(along_a_path)));
}

fn along_a_path(mut rig: Rig) {
    let first = rig.hold("10.0.3.2:5000", "8M");
    until("the first is reserved", LONG, || {
        rig.promised("r1", 5000).len() == 1 && rig.promised("r2", 5000).len() == 1
    });
    // It asks the node that the first has started.
    let second = rig.hold("10.0.3.2:5001", "6M");
    until("the second is reserved", LONG, || {
        rig.promised("r1", 5001).len() == 1 && rig.promised("r2", 5001).len() == 1
    });
    for (router, classes) in [("r1", ["resv-1", "resv-2"]), ("r2", ["resv-1", "resv-2"])] {
        assert_eq!(rig.classes(router), classes, "{router}");
    }

    traffic_keeps_what_is_reserved_while_others_are_refused(&rig);
    changes_are_along_the_path_or_not_at_all(&rig);

    // The router in the middle dies without a word, and comes back.
    let r1 = Rig::at("r1");
    rig.running[r1].take().expect("it runs").kill().expect("its end");
    assert!(rig.launch(r1), "it ran before");
    let back = until("both are back", 3 * R + SLACK, || {
        rig.promised("r1", 5000).len() == 1 && rig.promised("r1", 5001).len() == 1
    });
    eprintln!("two refresh periods are at most {:?}; it took {back:?}", 3 * R);
    assert_eq!(rig.classes("r1").len(), 2, "no orphan");
    // What was refused upstream may still be promised here, if the word of its end was lost with the router.
    until("the neighbour keeps both and no other", LIFETIME + SLACK, || {
        rig.classes("r2") == ["resv-1", "resv-2"]
    });

    // An end is told; the other one stays.
    kill(second.id(), "TERM");
    assert_eq!(second.wait().expect("its end").status.code(), Some(128 + 15));
    until("the second is torn", LIFETIME - 3 * R / 2, || {
        rig.classes("r1").len() == 1 && rig.classes("r2").len() == 1
    });
    // Killed, it cannot tell; the node that it started can.
    let begin = Instant::now();
    kill(first.id(), "KILL");
    until("the first is torn after a kill", LIFETIME - 3 * R / 2, || {
        rig.classes("r1").is_empty() && rig.classes("r2").is_empty()
    });
    assert!(begin.elapsed() < LIFETIME - 3 * R / 2, "it died of age");
    drop(first);
    until("b has forgotten both", LONG, || {
        rig.status("b").senders.is_empty()
    });
}

/// Two streams within what is reserved for them, one far beyond what is left, and a request that does not fit.
fn traffic_keeps_what_is_reserved_while_others_are_refused(rig: &Rig) {
    // 1000 bytes of IP each, so 7.2, 5.6 and 40 Mbit/s of IP.
    let span = Duration::from_secs(2);
    let mut lost = (0.0, 0.0);
    for _ in 0..4 {
        let streams = [(5000, 900), (5001, 700)].map(|(port, rate)| rig.udp(port, rate, span));
        let flood = rig.udp(6000, 5000, span);
        std::thread::sleep(span / 4);
        refuse_a_third(rig);
        let share = |stream: StreamRun| {
            let report = stream.finish().expect("a report");
            report.lost() as f64 / report.sent.max(1) as f64
        };
        lost = (streams.map(share).iter().sum::<f64>(), share(flood));
        eprintln!(
            "lost of what is reserved: {:.4}, of the rest: {:.4}",
            lost.0, lost.1
        );
        // A busy machine may hold up the sender of the flood, or the packet loop.
        if lost.0 < 0.01 && lost.1 > 0.1 {
            return;
        }
    }
    panic!(
        "the reserved streams lost {:.4} beside the flood's {:.4}",
        lost.0, lost.1
    );
}

fn refuse_a_third(rig: &Rig) {
    let promised = || {
        (
            rig.promised("r1", 5000),
            rig.promised("r1", 5001),
            rig.classes("r1"),
        )
    };
    let before = promised();
    let third = [
        "reserve",
        "--to",
        "10.0.3.2:5002",
        "--rate",
        "10M",
        "--json",
        "--",
        "touch",
        "/nonexistent",
    ];
    let refused = rig.output("a", &third);
    assert_eq!(refused.status.code(), Some(6), "{refused:?}");
    let last: serde_json::Value = refused
        .err
        .lines()
        .last()
        .and_then(|line| serde_json::from_str(line).ok())
        .expect("JSON");
    assert_eq!(
        (&last["state"], &last["node"]),
        (&"refused".into(), &"10.0.2.1".into()),
        "{last}"
    );
    // 14 of 20 Mbit/s are taken by packets of 1000 bytes with headers of 14.
    let left = last["left_bps"].as_u64().expect("what is left");
    assert!((5_500_000..6_000_000).contains(&left), "{left}");
    let explained = rig.output("r1", &["reserve", "explain"]);
    assert!(
        explained
            .out
            .contains("10.0.1.1 -> 10.0.3.2:5002 udp: refused on wan0"),
        "{explained:?}"
    );
    assert!(explained.out.contains("asked 10.14 Mbit/s"), "{explained:?}");
    assert_eq!(promised(), before, "the others have noticed");
}

fn changes_are_along_the_path_or_not_at_all(rig: &Rig) {
    let status: serde_json::Value =
        serde_json::from_str(&rig.output("a", &["reserve", "status", "--json"]).out).expect("JSON");
    let of = |port: u64| {
        status["senders"]
            .as_array()
            .and_then(|all| all.iter().find(|one| one["flow"]["port"] == port))
    };
    let number = of(5000)
        .and_then(|one| one["number"].as_u64())
        .expect("a number")
        .to_string();
    let change = |rate: &str| rig.output("a", &["reserve", "change", &number, "--rate", rate]);
    let changed = change("9M");
    assert!(changed.status.success(), "{changed:?}");
    for router in ["r1", "r2"] {
        assert_eq!(rig.promised(router, 5000)[0].1, 9_000_000, "{router}");
    }
    let refused = change("15M");
    assert_eq!(refused.status.code(), Some(6), "{refused:?}");
    assert!(
        refused
            .err
            .contains("10.0.2.1 refuses: there is not that much bandwidth left"),
        "{refused:?}"
    );
    until("the old rate is in force", LONG, || {
        rig.promised("r1", 5000)[0].1 == 9_000_000
    });

    let check = |rate: &str| {
        rig.output(
            "a",
            &[
                "reserve",
                "check",
                "--to",
                "10.0.3.2:5003",
                "--rate",
                rate,
                "--json",
            ],
        )
    };
    for (rate, code) in [("3M", 0), ("15M", 6)] {
        let output = check(rate);
        assert_eq!(output.status.code(), Some(code), "{rate}: {output:?}");
        let offer: serde_json::Value = serde_json::from_str(&output.out).expect("JSON");
        assert!(
            offer["left_bps"]
                .as_u64()
                .is_some_and(|left| left < RESERVABLE - 14_000_000),
            "{offer}"
        );
    }
    assert_eq!(rig.classes("r1").len(), 2, "a trial reserves nothing");
    let unknown = rig.output(
        "a",
        &["reserve", "--to", "10.0.3.2:7000", "--rate", "1M", "--", "true"],
    );
    assert_eq!(
        unknown.status.code(),
        Some(6),
        "b does not accept that port: {unknown:?}"
    );
    let passed = rig.output(
        "a",
        &[
            "reserve",
            "--to",
            "10.0.3.2:5004",
            "--rate",
            "1M",
            "--",
            "sh",
            "-c",
            "exit 9",
        ],
    );
    assert_eq!(passed.status.code(), Some(9), "{passed:?}");
}

#[test]
fn what_is_not_refreshed_dies_of_age_and_ipv6_is_the_same() {
    in_turn(|| lab::isolated(|| Rig::start().into_iter().for_each(of_age)));
}

fn of_age(mut rig: Rig) {
    // Its node is a program of its own, which dies without a word.
    assert!(rig.launch(Rig::at("a")), "others run");
    let held = rig.hold("[fd00:3::2]:5000", "4M");
    until("it is reserved", LONG, || {
        !rig.promised("r1", 5000).is_empty() && !rig.promised("r2", 5000).is_empty()
    });
    let sender = rig.status("r1").senders.remove(0);
    assert_eq!(sender.flow.to_string(), "fd00:1::1 -> [fd00:3::2]:5000 udp");
    assert_eq!(sender.previous, "fd00:1::1".parse().ok());
    rig.running[0].take().expect("it runs").kill().expect("its end");
    let begin = Instant::now();
    until("it has died of age", LIFETIME + SLACK, || {
        rig.classes("r1").is_empty() && rig.classes("r2").is_empty()
    });
    // Its last refresh was up to one and a half R before.
    assert!(
        begin.elapsed() >= LIFETIME - 3 * R / 2 - R / 10,
        "{:?}",
        begin.elapsed()
    );
    drop(held);
    // Where nobody speaks RSVP and nobody answers, that is said.
    let nobody = rig.output(
        "a",
        &[
            "reserve",
            "--to",
            "10.0.3.99:5000",
            "--rate",
            "1M",
            "--wait",
            "1s",
            "--",
            "true",
        ],
    );
    assert_eq!(nobody.status.code(), Some(7), "{nobody:?}");
}
