//! `suimon run` from the command line, with real TCP (default offloads) and UDP through it: on
//! each kind of port that the machine offers, queried and changed while packets flow, and ended
//! in every way.
//!
//! ```text
//!  a ─── lan0 │ r: suimon over the kernel's bridge │ wan0 ─── b
//! ```
//!
//! Where the machine forbids BPF (an ordinary user's namespaces), the ports that need it are
//! skipped, which is reported. Rates are asserted with room for a busy machine; outages are
//! measured and printed.

#[path = "stubs/answering.rs"]
mod answering;
#[path = "run/random_changes.rs"]
mod random_changes;
#[path = "../../gateway/src/in_force/tests/random_policies.rs"]
mod random_policies;
#[path = "stubs/tampering.rs"]
mod tampering;
#[path = "stubs/turns.rs"]
mod turns;

use answering::answering;
use control::begins_anew::Forgotten;
use control::difference::Breaking;
use control::explained::ExplainRequest;
use control::protocol::{AddedClass, RemovedClass, Reply, Request, SettingChange, SettingChanges};
use control::snapshot::{ClassView, HostHoldUps, State};
use control::socket::Client;
use lab::host::OffloadFeature;
use lab::netlink::LabNetlink;
use lab::traffic::generator::TrafficShape;
use lab::traffic::tcp::{Bulk, BulkRun};
use lab::traffic::udp::{Stream, StreamReport};
use lab::{Host, Lab, Output, Running};
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tampering::{choose_a_qdisc, leave_the_bridge, remove_the_qdisc};
use turns::Turns;

static TURNS: Turns = Turns::new();

/// Alone: it judges rates closely, or each packet.
fn in_turn(body: impl FnOnce()) {
    let _turn = TURNS.alone();
    body();
}

/// Beside another one: it takes a quarter of a processor, and judges with room for a busy machine.
fn beside_another(body: impl FnOnce()) {
    let _turn = TURNS.beside_another();
    body();
}

/// The TCP payload fraction of a full frame.
const PAYLOAD: f64 = 1448.0 / 1514.0;
/// The bandwidth of every policy here, in Mbit/s.
const LINK: f64 = 40.0;
const OUTAGE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    AfPacket,
    /// With a worker for each direction.
    PerDirection,
    AfXdp,
    AfXdpGeneric,
    Egress,
    Ingress,
    /// With a limit for the time without the program.
    ClosedEgress,
    Tap,
}

/// That limit, in Mbit/s.
const CLOSED: f64 = 4.0;

impl Kind {
    /// The `[port]` section, and the outgoing interface.
    fn port(self) -> (&'static str, &'static str) {
        match self {
            Self::AfPacket => ("between = [\"lan0\", \"wan0\"]", "wan0"),
            Self::PerDirection => (
                "between = [\"lan0\", \"wan0\"]\nworkers = \"per-direction\"",
                "wan0",
            ),
            Self::AfXdp => ("kind = \"af_xdp\"\nbetween = [\"lan0\", \"wan0\"]", "wan0"),
            Self::AfXdpGeneric => (
                "kind = \"af_xdp\"\nxdp_mode = \"generic\"\nbetween = [\"lan0\", \"wan0\"]",
                "wan0",
            ),
            Self::Egress => ("egress = \"eth0\"", "eth0"),
            Self::Ingress => ("ingress = \"eth0\"", "eth0:in"),
            Self::ClosedEgress => ("egress = \"eth0\"\nfail_closed = \"4 Mbit/s\"", "eth0"),
            Self::Tap => ("kind = \"tap\"\nbetween = [\"tap0\", \"tap1\"]", "tap1"),
        }
    }

    fn policy(self) -> String {
        let (port, out) = self.port();
        let class = |name: &str, rate: u32, more: &str| {
            format!("[[interface.\"{out}\".class]]\nname = \"{name}\"\nrate = \"{rate} Mbit/s\"\n{more}\n")
        };
        let filter = |class: &str, port: u16| {
            format!(
                "[[interface.\"{out}\".filter]]\nclass = \"{class}\"\nprotocol = \"tcp\"\ndestination_port = \"{port}\"\n"
            )
        };
        [
            format!("version = 1\n[port]\n{port}\n[interface.\"{out}\"]\nbandwidth = \"{LINK} Mbit/s\"\ndiscipline = \"cbq\"\n"),
            class("small", 8, "borrow = false"),
            class("large", 16, "borrow = false"),
            class("rest", 10, "default = true"),
            filter("small", SMALL),
            filter("large", LARGE),
        ]
        .concat()
    }
}

/// The kinds of port where traffic flows without the program.
const FAIL_OPEN: [Kind; 5] = [
    Kind::AfPacket,
    Kind::AfXdp,
    Kind::AfXdpGeneric,
    Kind::Egress,
    Kind::Ingress,
];

const SMALL: u16 = 6001;
const LARGE: u16 = 6002;
const REST: u16 = 6003;

/// The hosts, and `suimon run` on one of them.
struct Rig {
    _lab: Lab,
    a: Host,
    r: Host,
    b: Host,
    kind: Kind,
    files: PathBuf,
    suimon: Option<Running>,
}

fn to_b(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], port))
}

impl Rig {
    /// Starts the program; `None` if the machine forbids this kind of port.
    fn start(kind: Kind) -> Option<Self> {
        let mut lab = Lab::new();
        let [a, r, b] = ["a", "r", "b"].map(|name| lab.host(name).expect("a host"));
        lab.veth((&a, "eth0"), (&r, "lan0")).expect("a pair");
        lab.veth((&r, "wan0"), (&b, "eth0")).expect("a pair");
        for (host, address) in [(&a, "10.0.0.1/24"), (&b, "10.0.0.2/24")] {
            host.address("eth0", address.parse().expect("an address"))
                .expect("set");
        }
        if kind == Kind::AfXdpGeneric {
            // As its warning advises. In native mode the kernel switches them off by itself.
            for host in [&a, &b] {
                for offload in [OffloadFeature::Tso, OffloadFeature::Gso] {
                    host.offload("eth0", offload, false).expect("an offload");
                }
            }
        }
        if kind != Kind::Tap {
            r.bridge("br0", &["lan0", "wan0"]).expect("a bridge");
        }
        let files =
            std::env::temp_dir().join(format!("suimon-run-{kind:?}-{}-{}", std::process::id(), unique()));
        fs::create_dir_all(&files).expect("a directory");
        let mut rig = Self {
            _lab: lab,
            a,
            r,
            b,
            kind,
            files,
            suimon: None,
        };
        fs::write(rig.files.join("policy.toml"), kind.policy()).expect("a file");
        rig.launch().then(|| rig.connected())
    }

    /// Waits until packets pass: the kernel needs time to detect carrier, and hosts to find their
    /// neighbours.
    fn connected(self) -> Self {
        let passes = || {
            let stream = self.udp(50, 100, Duration::from_millis(200));
            stream.finish().expect("a report").lost() == 0
        };
        assert!((0..10).any(|_| passes()), "the hosts cannot reach one another");
        self
    }

    fn socket(&self) -> String {
        self.files.join("control.sock").display().to_string()
    }

    /// Starts the program and waits until it runs; `false` if the machine forbids it.
    fn launch(&mut self) -> bool {
        let policy = self.files.join("policy.toml").display().to_string();
        let host = match self.kind {
            Kind::Egress | Kind::ClosedEgress => &self.a,
            Kind::Ingress => &self.b,
            _ => &self.r,
        };
        let mut program =
            host.program(env!("CARGO_BIN_EXE_suimon"))
                .args(["run", &policy, "--socket", &self.socket()]);
        // Where a test has made this folder, generations are kept in it.
        let state = self.files.join("state");
        if state.is_dir() {
            program = program.args(["--state", &state.display().to_string()]);
        }
        // And where it has made this socket, it is told what a service manager is.
        let manager = self.files.join("manager.sock");
        if manager.exists() {
            program = program.env("NOTIFY_SOCKET", manager);
        }
        if self.files.join("log.json").exists() {
            program = program.args(["--log-format", "json"]);
        }
        // As long as a thousand changes may take.
        let suimon = program
            .limit(Duration::from_secs(1_800))
            .start()
            .expect("the program starts");
        let patience = Duration::from_secs(10);
        self.suimon = answering(suimon, &self.socket(), patience, &["has no AF_XDP"]);
        if self.suimon.is_none() {
            return false;
        }
        if self.kind == Kind::Tap {
            for (bridge, members) in [("br0", ["lan0", "tap0"]), ("br1", ["tap1", "wan0"])] {
                self.r
                    .netlink(|n| members.iter().try_for_each(|name| n.up(name)))
                    .expect("up");
                self.r.bridge(bridge, &members).expect("a bridge");
            }
        }
        true
    }

    fn client(&self) -> Client {
        Client::connect(Some(&self.socket())).expect("the program responds")
    }

    fn ask(&self, request: &Request) -> Reply {
        self.client().ask(request).expect("an answer")
    }

    fn set_small(&self, rate: &str) -> Reply {
        self.set(Some("small"), "rate", rate, None)
    }

    /// Changes a setting, for good or for this time.
    fn set(&self, class: Option<&str>, key: &str, value: &str, time: Option<Duration>) -> Reply {
        let (_, interface) = self.kind.port();
        let until = time.map(|time| SystemTime::now() + time);
        let since_1970 = until.map(|until| until.duration_since(UNIX_EPOCH).expect("later"));
        self.ask(&Request::Set(SettingChanges {
            interface: interface.into(),
            class: class.map(str::to_owned),
            changes: [(key.to_string(), SettingChange::Text(value.into()))].into(),
            until_ms: since_1970.map(|time| u64::try_from(time.as_millis()).expect("this age")),
            reason: Some("the test wants it".into()),
        }))
    }

    fn tcp(&self, port: u16) -> BulkRun {
        Bulk::new(to_b(port), Duration::from_secs(30))
            .start(&self.a, &self.b)
            .expect("a transfer")
    }

    fn udp(&self, rate: u32, payload: usize, duration: Duration) -> lab::traffic::udp::StreamRun {
        Stream {
            to: to_b(REST),
            shape: TrafficShape::per_second(rate, payload, duration),
        }
        .start(&self.a, &self.b)
        .expect("a stream")
    }

    fn signal(&self, name: &str) {
        let id = self.suimon.as_ref().expect("it runs").id();
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{name} {id}")])
            .status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot send {name}");
    }

    /// How many threads of the program are workers.
    fn workers(&self) -> usize {
        let id = self.suimon.as_ref().expect("it runs").id();
        let threads = fs::read_dir(format!("/proc/{id}/task")).expect("its threads");
        let names = threads
            .flatten()
            .flat_map(|thread| fs::read_to_string(thread.path().join("comm")));
        names.filter(|name| name.trim() == "worker").count()
    }

    /// How often and how long its packet loops have been held up.
    fn hold_ups(&self) -> HostHoldUps {
        let snapshot = self.client().status(Duration::ZERO, false).expect("a status");
        snapshot.interfaces[0].hold_ups
    }

    fn end(&mut self) -> Output {
        self.suimon.take().expect("it runs").wait().expect("its end")
    }

    /// The program's status of a class over the last half second.
    fn class(&self, name: &str) -> ClassView {
        let snapshot = self
            .client()
            .status(Duration::from_millis(500), false)
            .expect("a status");
        let class = snapshot.interfaces[0]
            .classes
            .iter()
            .find(|class| class.name == name);
        class.expect("the class is shown").clone()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.files);
    }
}

fn unique() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |span| span.as_nanos())
}

/// The rate in Mbit/s at which a transfer's payload arrives over this time.
fn rate(transfer: &BulkRun, over: Duration) -> f64 {
    let (before, began) = (transfer.received(), Instant::now());
    std::thread::sleep(over);
    (transfer.received() - before) as f64 * 8e-6 / began.elapsed().as_secs_f64()
}

/// Waits until a transfer has this rate in Mbit/s (of frames), within 10 %; a busy machine may
/// take longer.
fn settles_at(transfer: &BulkRun, mbit: f64, what: &str) {
    let mut last = 0.0;
    for _ in 0..8 {
        last = rate(transfer, Duration::from_secs(1));
        if (last / (mbit * PAYLOAD) - 1.0).abs() < 0.1 {
            eprintln!("{what}: {last:.2} of {:.2} Mbit/s of payload", mbit * PAYLOAD);
            return;
        }
    }
    panic!("{what}: {last:.2} Mbit/s of payload, not {:.2}", mbit * PAYLOAD);
}

/// Every request on a policy in force, with traffic.
fn enforces(kind: Kind) {
    let Some(mut rig) = Rig::start(kind) else { return };
    let name = |what: &str| format!("{kind:?}: {what}");
    if kind == Kind::PerDirection {
        assert_eq!(rig.workers(), 2);
    }
    let (small, large) = (rig.tcp(SMALL), rig.tcp(LARGE));
    let udp = rig.udp(200, 1000, Duration::from_secs(4));
    settles_at(&small, 8.0, &name("a class of 8"));
    settles_at(&large, 16.0, &name("a class of 16"));
    let shown = rig.class("small");
    assert_eq!(shown.asked_bps, Some(8_000_000));
    let measured = shown.traffic.got_bps.expect("a rate") as f64;
    assert!(
        (measured / 8e6 - 1.0).abs() < 0.1,
        "the socket reports {measured} bit/s"
    );
    let udp = udp.finish().expect("a report");
    assert!(
        udp.lost() * 20 <= udp.sent && udp.duplicates == 0,
        "UDP: {} of {} lost",
        udp.lost(),
        udp.sent
    );

    assert!(
        matches!(rig.set_small("30 Mbit/s"), Reply::Refused(_)),
        "a rate above the link was accepted"
    );
    assert!(matches!(rig.set_small("14 Mbit/s"), Reply::Done { .. }));
    settles_at(&small, 14.0, &name("the class after its rate was set to 14"));
    settles_at(&large, 16.0, &name("its neighbour"));
    let lost = rig.class("small").traffic.drops;
    assert!(
        !lost.contains_key("flushed"),
        "the change dropped packets: {lost:?}"
    );

    assert!(matches!(
        rig.ask(&Request::Disable { interface: None }),
        Reply::Done { .. }
    ));
    std::thread::sleep(Duration::from_millis(300));
    let free = rate(&small, Duration::from_secs(1)) + rate(&large, Duration::from_secs(1));
    assert!(
        free > 1.2 * LINK,
        "disabled, and still limited to {free:.1} Mbit/s"
    );
    let state = rig
        .client()
        .status(Duration::ZERO, false)
        .expect("a status")
        .interfaces[0]
        .state;
    assert_eq!(state, State::Disabled);
    assert!(matches!(
        rig.ask(&Request::Enable { interface: None }),
        Reply::Done { .. }
    ));
    settles_at(&small, 14.0, &name("enabled again"));

    assert!(matches!(
        rig.ask(&Request::Detach { interface: None }),
        Reply::Done { .. }
    ));
    let output = rig.end();
    assert!(
        output.status.success() && output.err.contains("detached"),
        "{output:?}"
    );
    if kind != Kind::Tap {
        std::thread::sleep(Duration::from_millis(500));
        let left = rate(&small, Duration::from_secs(1)) + rate(&large, Duration::from_secs(1));
        assert!(
            left > 1.2 * LINK,
            "detached, and still limited to {left:.1} Mbit/s"
        );
    }
    assert!(
        !std::path::Path::new(&rig.socket()).exists(),
        "the socket still exists"
    );
}

/// Ends or stops the program in the middle of a stream. Returns what arrived.
fn interrupted(kind: Kind, how: fn(&mut Rig)) -> Option<StreamReport> {
    let mut rig = Rig::start(kind)?;
    let stream = rig.udp(2000, 100, Duration::from_millis(2500));
    std::thread::sleep(Duration::from_millis(700));
    how(&mut rig);
    let report = stream.finish().expect("a report");
    drop(rig);
    Some(report)
}

/// The outage is within the limit in one of three tries: other processes may occupy the processors.
fn flows_on(kind: Kind, what: &str, how: fn(&mut Rig)) {
    for attempt in 1..=3 {
        let Some(report) = interrupted(kind, how) else {
            return;
        };
        let outage = report.longest_outage();
        eprintln!(
            "{kind:?} {what}: {outage:?} without traffic, {} of {} lost, {} duplicated",
            report.lost(),
            report.sent,
            report.duplicates
        );
        let last = report
            .arrivals
            .last()
            .map_or(Duration::ZERO, |arrival| arrival.sent);
        assert!(
            last > Duration::from_millis(2400) || attempt < 3,
            "traffic did not flow on: last at {last:?}"
        );
        if outage < OUTAGE && last > Duration::from_millis(2400) {
            return;
        }
    }
    panic!("{kind:?} {what}: traffic stood still for more than {OUTAGE:?} in each of three tries");
}

fn kill(rig: &mut Rig) {
    rig.suimon.take().expect("it runs").kill().expect("its end");
}

fn stop_and_continue(rig: &mut Rig) {
    rig.signal("STOP");
    std::thread::sleep(Duration::from_millis(800));
    rig.signal("CONT");
    let version = rig.ask(&Request::Version {});
    assert!(matches!(version, Reply::Version { .. }), "{version:?}");
}

#[test]
fn a_policy_is_enforced_on_af_packet_over_a_bridge() {
    beside_another(|| lab::isolated(|| enforces(Kind::AfPacket)));
}

#[test]
fn a_policy_is_enforced_by_a_worker_for_each_direction() {
    beside_another(|| lab::isolated(|| enforces(Kind::PerDirection)));
}

#[test]
fn a_policy_is_enforced_on_af_xdp_over_a_bridge() {
    beside_another(|| lab::isolated(|| enforces(Kind::AfXdp)));
}

#[test]
fn a_policy_is_enforced_on_af_xdp_in_generic_mode() {
    beside_another(|| lab::isolated(|| enforces(Kind::AfXdpGeneric)));
}

#[test]
fn a_policy_is_enforced_on_the_hosts_egress() {
    beside_another(|| lab::isolated(|| enforces(Kind::Egress)));
}

#[test]
fn a_policy_is_enforced_on_what_a_host_receives() {
    beside_another(|| lab::isolated(|| enforces(Kind::Ingress)));
}

#[test]
fn a_policy_is_enforced_between_taps() {
    beside_another(|| lab::isolated(|| enforces(Kind::Tap)));
}

#[test]
fn traffic_flows_on_when_the_program_is_killed() {
    in_turn(|| {
        lab::isolated(|| {
            for kind in FAIL_OPEN {
                flows_on(kind, "killed", kill);
            }
        });
    });
}

/// Every number that this text has under this key.
fn numbers_of(text: &str, key: &str) -> Vec<u64> {
    let key = format!("\"{key}\":");
    let values = text.split(key.as_str()).skip(1);
    let digits = |value: &str| value.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    values.filter_map(digits).collect()
}

/// Stops the program for so long while it is recorded and its link has more than it carries, and
/// does the recording again: what waited then was held up by about that long, and says so.
fn stopped_and_done_again(kind: Kind, time: Duration) {
    let Some(rig) = Rig::start(kind) else {
        return;
    };
    let file = rig.files.join("stopped.rec").display().to_string();
    let done = |arguments: &[&str]| {
        let program = rig.r.program(env!("CARGO_BIN_EXE_suimon")).args(arguments);
        let output = program.limit(Duration::from_secs(60)).output().expect("its end");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output.out
    };
    let socket = rig.socket();
    done(&["record", "start", "--memory", "16MiB", "--socket", &socket]);
    let begun = Instant::now();
    let stream = rig.udp(8_000, 1000, Duration::from_millis(1500));
    std::thread::sleep(Duration::from_millis(700));
    // The link catches up 5 ms.
    let least = (time - Duration::from_millis(10)).as_nanos();
    let stop = || {
        let stopped = Instant::now();
        rig.signal("STOP");
        std::thread::sleep(time);
        rig.signal("CONT");
        (stopped, rig.hold_ups())
    };
    let (stopped, mut hold_ups) = stop();
    let span = stopped.elapsed();
    // A stop that finds the loop in the midst of a turn counts as the turn's.
    for _ in 0..4 {
        if u128::from(hold_ups.longest_ns) < least {
            std::thread::sleep(Duration::from_millis(200));
            hold_ups = stop().1;
        }
    }
    assert!(u128::from(hold_ups.longest_ns) >= least, "{hold_ups:?}");
    let sent = stream.finish().expect("a report").sent;
    done(&["record", "save", &file, "--socket", &socket]);

    let of_stretches = done(&["replay", &file, "--json"]);
    let stretches = of_stretches
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let left: u64 = stretches
        .filter_map(|stretch| stretch["sent_packets"].as_u64())
        .sum();
    assert!(left > sent / 4, "{left} of {sent}");
    let at = format!("{}ms", (stopped - begun + time).as_millis());
    let looked = done(&["replay", &file, "--at", &at, "--around", "100ms", "--json"]);
    let held_up = numbers_of(&looked, "held_up_ns");
    let held_up = held_up.into_iter().map(u128::from).filter(|held| *held >= least);
    let shortest = held_up.min().expect("some waited all the while");
    eprintln!("held up by {shortest} ns at least, of {span:?}; {hold_ups:?}");
    assert!(shortest < (span + Duration::from_millis(10)).as_nanos());
}

#[test]
fn a_program_that_was_stopped_under_load_is_done_again() {
    let time = Duration::from_millis(60);
    in_turn(|| lab::isolated(|| stopped_and_done_again(Kind::AfPacket, time)));
}

#[test]
fn traffic_flows_on_while_the_program_hangs() {
    in_turn(|| {
        lab::isolated(|| {
            for kind in FAIL_OPEN {
                flows_on(kind, "stopped for 0.8 s", stop_and_continue);
            }
        });
    });
}

/// What the kernel limits host A's interface to, in Mbit/s.
fn limit_of(rig: &Rig) -> Option<f64> {
    let limit = || netio::fail_closed::rate_of(netio::interface::Interface::named("eth0")?.index);
    let limit = rig.a.call(limit).expect("a thread").expect("the qdiscs");
    limit.map(|rate| rate.bits() as f64 / 1e6)
}

/// `suimon doctor` of host A's interface, with these options.
fn doctor(rig: &Rig, options: &[&str]) -> Output {
    let program = rig.a.program(env!("CARGO_BIN_EXE_suimon"));
    let program = program.args(["doctor", "eth0"]).args(options);
    program.output().expect("it ends")
}

const LEFT: &str = "a killed suimon has left a limit of 4 Mbit/s";
const MANAGES: &str = "a suimon that runs manages it";

#[test]
fn an_egress_that_fails_closed_keeps_to_its_limit_without_the_program() {
    in_turn(|| {
        lab::isolated(|| {
            let Some(mut rig) = Rig::start(Kind::ClosedEgress) else {
                return;
            };
            let transfer = rig.tcp(SMALL);
            settles_at(&transfer, 8.0, "with the program");
            assert_eq!(limit_of(&rig), Some(CLOSED));
            let said = doctor(&rig, &[]).out;
            assert!(
                said.contains("the kernel sends 4 Mbit/s at most") && said.contains(MANAGES),
                "{said}"
            );
            assert!(!said.contains("left") && !said.contains("qdisc del"), "{said}");
            let fixed = doctor(&rig, &["--fix"]);
            assert!(fixed.err.contains("another suimon manages eth0"), "{fixed:?}");
            assert_eq!((fixed.status.code(), limit_of(&rig)), (Some(1), Some(CLOSED)));
            kill(&mut rig);
            assert_eq!(limit_of(&rig), Some(CLOSED), "it stays after a kill");
            let said = doctor(&rig, &[]).out;
            assert!(said.contains(LEFT) && !said.contains(MANAGES), "{said}");
            let two = rig.files.join("two.toml").display().to_string();
            let text = Kind::ClosedEgress.policy();
            let text = text.replace("\"eth0\"\n", "[\"eth0\", \"absent0\"]\n");
            let text = text + "[interface.absent0]\nbandwidth = \"1 Mbit/s\"\ndiscipline = \"fifo\"\n";
            fs::write(&two, text).expect("a file");
            let failed = rig.a.program(env!("CARGO_BIN_EXE_suimon"));
            let failed = failed.args(["run", &two]).output().expect("it ends");
            assert!(failed.err.contains("absent0"), "{failed:?}");
            assert_eq!(limit_of(&rig), Some(CLOSED), "and after a start that fails");
            // What was queued in the program is lost; the rest counts once that is repaired.
            std::thread::sleep(Duration::from_secs(2));
            let mbit = rate(&transfer, Duration::from_secs(3));
            eprintln!("after a kill: {mbit:.2} of {CLOSED} Mbit/s");
            let about = CLOSED / 2.0..CLOSED * 1.1;
            assert!(about.contains(&mbit), "{mbit} Mbit/s after a kill");
            assert!(rig.launch(), "it takes its own qdisc over");
            settles_at(&transfer, 8.0, "with the next program");
            rig.signal("TERM");
            assert!(rig.end().status.success());
            assert_eq!(limit_of(&rig), None, "a clean end leaves nothing");
            let said = doctor(&rig, &[]).out;
            assert!(said.contains("its qdisc is") && !said.contains(MANAGES), "{said}");
            let mbit = rate(&transfer, Duration::from_secs(1));
            assert!(mbit > 2.0 * LINK, "{mbit} Mbit/s after a clean end");
            assert!(rig.launch());
            kill(&mut rig);
            let fixed = doctor(&rig, &["--fix"]).out;
            assert!(fixed.contains("removed the limit of 4 Mbit/s"), "{fixed}");
            assert_eq!(limit_of(&rig), None);
            let again = doctor(&rig, &["--fix"]).out;
            assert!(again.contains("nothing was changed"), "{again}");
            let mbit = rate(&transfer, Duration::from_secs(1));
            assert!(mbit > 2.0 * LINK, "{mbit} Mbit/s without the limit");
        });
    });
}

#[test]
fn an_egress_that_fails_closed_does_not_replace_a_qdisc_that_somebody_chose() {
    in_turn(|| {
        lab::isolated(|| {
            let Some(mut rig) = Rig::start(Kind::Egress) else {
                return;
            };
            rig.signal("TERM");
            assert!(rig.end().status.success());
            rig.a
                .call(|| choose_a_qdisc("eth0"))
                .expect("a thread")
                .expect("a qdisc");
            let policy = rig.files.join("policy.toml").display().to_string();
            fs::write(&policy, Kind::ClosedEgress.policy()).expect("a file");
            // Twice: the refusal changes nothing.
            for _ in 0..2 {
                let program = rig.a.program(env!("CARGO_BIN_EXE_suimon"));
                let program = program.args(["run", &policy, "--socket", &rig.socket()]);
                let refused = program.output().expect("it ends");
                assert_eq!(refused.status.code(), Some(1), "{refused:?}");
                assert!(refused.err.contains("the qdisc `pfifo` (7:)"), "{refused:?}");
                assert!(refused.err.contains("tc qdisc del"), "{refused:?}");
            }
        });
    });
}

/// Judges by a program that the machine did not hold up: what waits in one that was is dropped, as
/// the kernel has forwarded meanwhile.
fn undisturbed(judge: impl Fn(&Rig)) {
    for _ in 0..3 {
        let Some(mut rig) = Rig::start(Kind::AfPacket) else {
            return;
        };
        let judged = catch_unwind(AssertUnwindSafe(|| judge(&rig)));
        rig.signal("TERM");
        let output = rig.end();
        match judged {
            Ok(()) => return,
            Err(_) if output.err.contains("the kernel took over") => eprintln!("held up: {}", output.err),
            Err(panic) => resume_unwind(panic),
        }
    }
    panic!("the machine held the program up in each of three attempts");
}

/// The same rig's policies: another class and filter, another bandwidth, another discipline.
fn others(policy: &str) -> [String; 3] {
    let games = "[[interface.wan0.class]]\nname = \"games\"\nrate = \"5 Mbit/s\"\n\
                 [[interface.wan0.filter]]\nclass = \"games\"\nprotocol = \"udp\"\ndestination_port = \"6003\"\n";
    let faster = policy.replace("\"40 Mbit/s\"", "\"60 Mbit/s\"");
    let drr = policy
        .lines()
        .filter(|line| !line.starts_with("rate") && !line.starts_with("borrow"));
    let drr = drr.collect::<Vec<_>>().join("\n").replace("\"cbq\"", "\"drr\"");
    [format!("{policy}{games}"), faster, drr]
}

#[test]
fn policies_are_applied_while_packets_flow_and_none_is_lost_or_overtaken() {
    in_turn(|| {
        lab::isolated(|| {
            undisturbed(|rig| {
                let files = &rig.files;
                let ordered = fs::read_to_string(files.join("policy.toml")).expect("the policy");
                let mut policies = vec![ordered.clone()];
                policies.extend(others(&ordered));
                let names: Vec<String> = (0..policies.len())
                    .map(|n| files.join(format!("{n}.toml")).display().to_string())
                    .collect();
                names
                    .iter()
                    .zip(&policies)
                    .for_each(|(name, text)| fs::write(name, text).expect("a file"));
                let apply = |name: &String| rig.ask(&apply_request(name));
                let plan = |name: &String| match rig.ask(&Request::Plan { file: name.clone() }) {
                    Reply::Plan(difference) => difference,
                    other => panic!("{other:?}"),
                };
                let stream = rig.udp(500, 200, Duration::from_secs(4));
                let transfer = rig.tcp(LARGE);
                for round in 1..=24 {
                    std::thread::sleep(Duration::from_millis(100));
                    let foreseen = plan(&names[round % 4]).begins_anew;
                    let Reply::Done { message, difference } = apply(&names[round % 4]) else {
                        panic!("round {round} was refused");
                    };
                    assert_eq!(
                        difference.expect("what differed").begins_anew,
                        foreseen,
                        "{round}"
                    );
                    // Another discipline, and back: all lose their turns. Otherwise none does.
                    let all = foreseen.iter().find(|anew| anew.what == Forgotten::Turns);
                    let (kinds, of) = ([0, 3].contains(&(round % 4)), &all);
                    assert_eq!(
                        of.map(|all| all.classes.len()),
                        kinds.then_some(3),
                        "{foreseen:?}"
                    );
                    assert!(
                        message.ends_with("is in force; no packet was dropped by the change"),
                        "{message}"
                    );
                }
                let report = stream.finish().expect("a report");
                assert_eq!(
                    (report.lost(), report.reordered, report.duplicates),
                    (0, 0, 0),
                    "{report:?}"
                );
                // The last is the first again, and its rates hold.
                settles_at(&transfer, 16.0 * PAYLOAD, "16 Mbit/s after 24 policies");
                assert!(plan(&names[0]).is_empty());
                assert_eq!(plan(&names[2]).changes, ["wan0: bandwidth 40 Mbit/s → 60 Mbit/s"]);
                assert_eq!(
                    rig.set_small("7 Mbit/s"),
                    Reply::Done {
                        message: "wan0: small: rate = 7 Mbit/s".into(),
                        difference: None,
                    }
                );
                assert_eq!(
                    plan(&names[0]).changes,
                    ["wan0: class small: rate 7 Mbit/s → 8 Mbit/s"]
                );
                assert_eq!(
                    plan(&names[0]).effects(),
                    ["wan0: class small: guaranteed rate 7 Mbit/s (17.5 %) → 8 Mbit/s (20 %)"]
                );
                refused_changes_change_nothing(rig, &ordered);
                changes_are_undone(rig, &names);
            })
        });
    });
}

#[test]
fn a_flow_that_a_filter_moves_to_a_faster_class_does_not_overtake_itself() {
    in_turn(|| {
        lab::isolated(|| {
            undisturbed(|rig| {
                let ordered = fs::read_to_string(rig.files.join("policy.toml")).expect("the policy");
                // If a change comes late, the usual leaves drop what has waited for 0.1 s.
                let ordered = ["small", "large"].iter().fold(ordered, |text, class| {
                    let name = format!("name = \"{class}\"\n");
                    let queue = "discipline = { kind = \"fq_codel\", interval = \"4 s\" }\n";
                    text.replacen(&name, &format!("{name}{queue}"), 1)
                });
                let to = |class: &str| {
                    let file = rig.files.join(format!("{class}.toml"));
                    let filter = format!(
                        "[[interface.wan0.filter]]\nclass = \"{class}\"\nprotocol = \"udp\"\ndestination_port = \"{REST}\"\n"
                    );
                    fs::write(&file, format!("{ordered}{filter}")).expect("a file");
                    let reply = rig.ask(&apply_request(&file.display().to_string()));
                    assert!(matches!(&reply, Reply::Done { .. }), "{reply:?}");
                };
                to("small");
                // 12 Mbit/s into 8: the queue grows by 4 packets in 10 ms.
                let stream = rig.udp(1_072, 1_400, Duration::from_secs(1));
                for class in ["large", "small", "large", "small", "large"] {
                    std::thread::sleep(Duration::from_millis(120));
                    to(class);
                }
                let report = stream.finish().expect("a report");
                assert_eq!((report.lost(), report.reordered), (0, 0), "of {}", report.sent);
            })
        });
    });
}

/// Each file that cannot be applied leaves what is in force, also by SIGHUP; a good one is applied.
fn refused_changes_change_nothing(rig: &Rig, ordered: &str) {
    let own = rig.files.join("policy.toml");
    let file = own.display().to_string();
    let cases = [
        (
            ordered.replace("rate = \"10 Mbit/s\"", "rate = \"90 Mbit/s\""),
            "is not in force",
        ),
        (
            ordered.replace("discipline", "overhead = \"4 B\"\ndiscipline"),
            "a running program cannot change",
        ),
        (ordered.replace("40 Mbit/s\"", "40 Mbit/s"), "is not in force"),
    ];
    for (text, why) in cases {
        fs::write(&own, text).expect("a file");
        let Reply::Refused(refusal) = rig.ask(&apply_request(&file)) else {
            panic!("{why}: it was applied");
        };
        assert!(refusal.message.contains(why), "{refusal:?}");
        rig.signal("HUP");
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(rate_of(rig, "small"), "7 Mbit/s");
    }
    fs::write(&own, ordered).expect("a file");
    rig.signal("HUP");
    let until = Instant::now() + Duration::from_secs(5);
    while rate_of(rig, "small") != "8 Mbit/s" {
        assert!(Instant::now() < until, "SIGHUP did not apply the file");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn apply_request(file: &str) -> Request {
    Request::Apply {
        file: file.into(),
        confirm_within_ms: None,
        break_reservations: Breaking::Refused,
        reason: None,
    }
}

/// Unless it is confirmed, a change is undone; and at any time by its number.
fn changes_are_undone(rig: &Rig, names: &[String]) {
    let bandwidth = || {
        let snapshot = rig.client().status(Duration::ZERO, false).expect("a status");
        snapshot.interfaces[0].bandwidth_bps / 1_000_000
    };
    let faster = |confirm_within_ms| {
        let file = names[2].clone();
        let reply = rig.ask(&Request::Apply {
            file,
            confirm_within_ms,
            break_reservations: Breaking::Refused,
            reason: None,
        });
        assert!(matches!(&reply, Reply::Done { .. }), "{reply:?}");
        assert_eq!(bandwidth(), 60);
    };
    let refused = |request: &Request, why: &str| match rig.ask(request) {
        Reply::Refused(refusal) => assert!(refusal.message.contains(why), "{refusal:?}"),
        other => panic!("{other:?}"),
    };
    refused(&Request::Confirm {}, "no change waits");
    faster(Some(500));
    refused(&apply_request(&names[1]), "waits to be confirmed");
    let until = Instant::now() + Duration::from_secs(5);
    while bandwidth() != 40 {
        assert!(Instant::now() < until, "it was not undone");
        std::thread::sleep(Duration::from_millis(20));
    }
    faster(Some(300));
    assert!(matches!(rig.ask(&Request::Confirm {}), Reply::Done { .. }));
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(bandwidth(), 60);
    assert!(matches!(
        rig.ask(&Request::Rollback {
            to: None,
            break_reservations: Breaking::Refused,
            reason: None,
        }),
        Reply::Done { .. }
    ));
    assert_eq!(bandwidth(), 40);
    let Reply::History { generations } = rig.ask(&Request::History {}) else {
        panic!("no history");
    };
    let last = generations.last().expect("one");
    assert!(last.in_force && last.by.starts_with("rollback to"), "{last:?}");
    assert_eq!(last.changes, ["wan0: bandwidth 60 Mbit/s → 40 Mbit/s"]);
    assert!(
        generations.len() > 24
            && generations
                .windows(2)
                .all(|pair| pair[0].number + 1 == pair[1].number)
    );
    let confirmed = generations[generations.len() - 2].number;
    assert!(matches!(
        rig.ask(&Request::Rollback {
            to: Some(confirmed),
            break_reservations: Breaking::Refused,
            reason: None
        }),
        Reply::Done { .. }
    ));
    assert_eq!(bandwidth(), 60);
    refused(
        &Request::Rollback {
            to: Some(9_999),
            break_reservations: Breaking::Refused,
            reason: None,
        },
        "is not kept",
    );
}

#[test]
fn a_killed_program_goes_on_with_what_was_confirmed_last() {
    in_turn(|| {
        lab::isolated(|| {
            let Some(mut rig) = Rig::start(Kind::AfPacket) else {
                return;
            };
            kill(&mut rig);
            fs::create_dir(rig.files.join("state")).expect("a folder");
            let file = rig.files.join("policy.toml");
            let policy = fs::read_to_string(&file).expect("the policy");
            let edit = |large: &str| {
                let edited = policy.replace("\"16 Mbit/s\"", &format!("\"{large}\""));
                fs::write(&file, edited).expect("a file");
            };
            let apply = |rig: &Rig, confirm_within_ms| {
                let file = file.display().to_string();
                let reply = rig.ask(&Request::Apply {
                    file,
                    confirm_within_ms,
                    break_reservations: Breaking::Refused,
                    reason: None,
                });
                assert!(matches!(&reply, Reply::Done { .. }), "{reply:?}");
            };
            let begins_with = |rig: &mut Rig, small: &str, large: &str| {
                assert!(rig.launch(), "it ran before");
                assert_eq!(
                    (rate_of(rig, "small"), rate_of(rig, "large")),
                    (small.into(), large.into())
                );
            };
            begins_with(&mut rig, "8 Mbit/s", "16 Mbit/s");
            assert!(matches!(rig.set_small("3 Mbit/s"), Reply::Done { .. }));
            kill(&mut rig);
            begins_with(&mut rig, "3 Mbit/s", "16 Mbit/s");
            // Edited in place and applied, but nobody has confirmed it; nor what is edited after.
            edit("12 Mbit/s");
            apply(&rig, Some(60_000));
            assert_eq!(rate_of(&rig, "large"), "12 Mbit/s");
            kill(&mut rig);
            begins_with(&mut rig, "3 Mbit/s", "16 Mbit/s");
            apply(&rig, Some(60_000));
            assert!(matches!(rig.ask(&Request::Confirm {}), Reply::Done { .. }));
            edit("14 Mbit/s");
            kill(&mut rig);
            begins_with(&mut rig, "8 Mbit/s", "12 Mbit/s");
            // One of an earlier run is put back, by its number.
            let back = Request::Rollback {
                to: Some(2),
                break_reservations: Breaking::Refused,
                reason: None,
            };
            assert!(matches!(rig.ask(&back), Reply::Done { .. }));
            assert_eq!(rate_of(&rig, "small"), "3 Mbit/s");
            // After an orderly end the edited file counts.
            let text = fs::read_to_string(&file).expect("the policy");
            let counted = text.replace("\"cbq\"\n", "\"cbq\"\noverhead = \"24 B\"\n");
            fs::write(&file, counted).expect("a file");
            assert!(matches!(
                rig.ask(&Request::Detach { interface: None }),
                Reply::Done { .. }
            ));
            rig.suimon.take().expect("it runs").wait().expect("its end");
            begins_with(&mut rig, "8 Mbit/s", "14 Mbit/s");
            // What a running program cannot change, going back does not change by half.
            match rig.ask(&back) {
                Reply::Refused(why) => assert!(why.message.contains("`overhead`"), "{why:?}"),
                other => panic!("{other:?}"),
            }
            assert_eq!(rate_of(&rig, "small"), "8 Mbit/s");
        });
    });
}

#[test]
fn what_is_set_for_a_time_ends_by_itself_also_over_a_restart() {
    const SHORT: Option<Duration> = Some(Duration::from_secs(2));
    const LONG: Option<Duration> = Some(Duration::from_secs(3600));
    beside_another(|| {
        lab::isolated(|| {
            let Some(mut rig) = Rig::start(Kind::AfPacket) else {
                return;
            };
            kill(&mut rig);
            fs::create_dir(rig.files.join("state")).expect("a folder");
            assert!(rig.launch(), "it ran before");
            let done = |reply: Reply| assert!(matches!(&reply, Reply::Done { .. }), "{reply:?}");
            let refused = |reply: Reply, why: &str| match reply {
                Reply::Refused(refusal) => assert!(refusal.message.contains(why), "{refusal:?}"),
                other => panic!("{other:?}"),
            };
            let becomes = |rig: &Rig, small: &str| {
                let until = Instant::now() + Duration::from_secs(10);
                while rate_of(rig, "small") != small {
                    assert!(Instant::now() < until, "{} is not {small}", rate_of(rig, "small"));
                    std::thread::sleep(Duration::from_millis(20));
                }
            };
            // What was set before for good is uncovered.
            done(rig.set_small("3 Mbit/s"));
            done(rig.set(Some("small"), "rate", "2 Mbit/s", SHORT));
            assert_eq!(rate_of(&rig, "small"), "2 Mbit/s");
            becomes(&rig, "3 Mbit/s");
            // What is set for good meanwhile stays.
            done(rig.set(Some("small"), "rate", "2 Mbit/s", SHORT));
            done(rig.set_small("4 Mbit/s"));
            std::thread::sleep(Duration::from_millis(2_500));
            assert_eq!(rate_of(&rig, "small"), "4 Mbit/s");
            // It outlasts a kill, and ends while nothing runs.
            done(rig.set(Some("large"), "rate", "5 Mbit/s", LONG));
            done(rig.set(Some("small"), "rate", "2 Mbit/s", SHORT));
            kill(&mut rig);
            std::thread::sleep(Duration::from_secs(2));
            assert!(rig.launch(), "it ran before");
            let rates = ["small", "large"].map(|class| rate_of(&rig, class));
            assert_eq!(rates, ["4 Mbit/s", "5 Mbit/s"]);
            // What fits only as long as that holds is refused; `rest` has 10.
            let more = format!("{} Mbit/s", LINK - 5.0 - 10.0);
            refused(rig.set_small(&more), "would be wrong");
            assert_eq!(rate_of(&rig, "small"), "4 Mbit/s");
            the_interface_itself_is_set(&rig);
            a_class_comes_and_goes(&rig);
            what_was_set_is_written_into_the_file(&rig);
        });
    });
}

#[test]
fn a_service_manager_is_told_how_the_program_stands() {
    in_turn(|| {
        lab::isolated(|| {
            let Some(mut rig) = Rig::start(Kind::AfPacket) else {
                return;
            };
            kill(&mut rig);
            let manager = UnixDatagram::bind(rig.files.join("manager.sock")).expect("a socket");
            manager
                .set_read_timeout(Some(Duration::from_secs(10)))
                .expect("set");
            assert!(rig.launch(), "it ran before");
            let hear = || {
                let mut text = [0; 512];
                let length = manager.recv(&mut text).expect("it is told");
                String::from_utf8_lossy(&text[..length]).into_owned()
            };
            let hear_of = |what: &str| {
                let all: Vec<String> = (0..50)
                    .map(|_| hear())
                    .take_while(|text| !text.contains(what))
                    .collect();
                assert!(all.len() < 50, "{what} is not told: {all:?}");
                all
            };
            assert!(hear().contains("READY=1"), "first it is ready");
            assert_eq!(hear_of("WATCHDOG=1"), [""; 0]);
            rig.signal("HUP");
            hear_of("RELOADING=1");
            hear_of("READY=1");
            // A program that hangs is silent, so that its watchdog ends it.
            rig.signal("STOP");
            manager.set_nonblocking(true).expect("set");
            let mut rest = [0; 512];
            while manager.recv(&mut rest).is_ok() {}
            std::thread::sleep(Duration::from_millis(1_500));
            assert!(
                manager.recv(&mut rest).is_err(),
                "it hangs and says that it lives"
            );
            manager.set_nonblocking(false).expect("set");
            rig.signal("CONT");
            hear_of("WATCHDOG=1");
            rig.signal("TERM");
            hear_of("STOPPING=1");
            rig.suimon.take().expect("it runs").wait().expect("its end");
        });
    });
}

fn the_interface_itself_is_set(rig: &Rig) {
    const WHOLE: u64 = LINK as u64;
    let bandwidth = || {
        let snapshot = rig.client().status(Duration::ZERO, false).expect("a status");
        snapshot.interfaces[0].bandwidth_bps / 1_000_000
    };
    let more = format!("{} Mbit/s", WHOLE + 5);
    let reply = rig.set(None, "bandwidth", &more, Some(Duration::from_secs(2)));
    assert!(matches!(&reply, Reply::Done { .. }), "{reply:?}");
    assert_eq!(bandwidth(), WHOLE + 5);
    let until = Instant::now() + Duration::from_secs(10);
    while bandwidth() != WHOLE {
        assert!(Instant::now() < until, "{} Mbit/s", bandwidth());
        std::thread::sleep(Duration::from_millis(20));
    }
    let history = match rig.ask(&Request::History {}) {
        Reply::History { generations } => generations,
        other => panic!("{other:?}"),
    };
    let [.., set, end] = &*history else {
        panic!("{history:?}")
    };
    assert!(set.provenance.author.is_some(), "{set:?}");
    assert_eq!(set.provenance.reason.as_deref(), Some("the test wants it"));
    assert_eq!((&*end.by, &end.provenance.author), ("the end of a set", &None));
}

/// It is shown and filled, differs from the file, and leaves nothing behind.
fn a_class_comes_and_goes(rig: &Rig) {
    let (_, interface) = rig.kind.port();
    let word = |key: &str, value: &str| (key.to_owned(), SettingChange::from_word(value));
    let added = Request::AddClass(AddedClass {
        interface: interface.into(),
        class: "guests".into(),
        settings: [word("rate", "0bit/s"), word("discipline", "fifo")].into(),
        filters: vec![[word("protocol", "udp"), word("destination_port", "9")].into()],
        quota: None,
        until_ms: None,
        reason: Some("they are here".into()),
    });
    let names = || -> Vec<String> {
        let snapshot = rig.client().status(Duration::ZERO, false).expect("a status");
        snapshot.interfaces[0]
            .classes
            .iter()
            .map(|class| class.name.clone())
            .collect()
    };
    let differs = || match rig.ask(&Request::Plan {
        file: rig.files.join("policy.toml").display().to_string(),
    }) {
        Reply::Plan(difference) => difference.changes,
        other => panic!("{other:?}"),
    };
    let (before, drift) = (names(), differs());
    let reply = rig.ask(&added);
    assert!(matches!(&reply, Reply::Done { .. }), "{reply:?}");
    assert!(names().contains(&"guests".to_owned()), "{:?}", names());
    assert!(
        differs().iter().any(|line| line.contains("class guests goes")),
        "{:?}",
        differs()
    );
    let reply = rig.ask(&added);
    assert!(
        matches!(&reply, Reply::Refused(why) if why.message.contains("a second class")),
        "{reply:?}"
    );
    let reply = rig.ask(&Request::RemoveClass(RemovedClass {
        interface: interface.into(),
        class: "guests".into(),
        until_ms: None,
        reason: None,
    }));
    assert!(matches!(&reply, Reply::Done { .. }), "{reply:?}");
    assert_eq!((names(), differs()), (before, drift));
}

/// But for what ends by itself: that is the only difference then.
fn what_was_set_is_written_into_the_file(rig: &Rig) {
    let file = rig.files.join("policy.toml");
    let written = |text: &str| fs::write(&file, text).expect("a file");
    let before = fs::read_to_string(&file).expect("the policy");
    written(&format!("{before}# A remark.\n"));
    match rig.ask(&Request::Save {}) {
        Reply::Refused(why) => assert!(why.message.contains("was edited"), "{why:?}"),
        other => panic!("{other:?}"),
    }
    written(&before);
    let reply = rig.ask(&Request::Save {});
    assert!(matches!(&reply, Reply::Done { .. }), "{reply:?}");
    let after = fs::read_to_string(&file).expect("the policy");
    assert_eq!(after, before.replace("\"8 Mbit/s\"", "\"4 Mbit/s\""));
    match rig.ask(&Request::Plan {
        file: file.display().to_string(),
    }) {
        Reply::Plan(difference) => assert_eq!(difference.changes.len(), 1, "{difference:?}"),
        other => panic!("{other:?}"),
    }
}

/// The configured rate of a class.
fn rate_of(rig: &Rig, class: &str) -> String {
    let rate = rig.class(class).asked_bps.expect("a rate");
    format!("{} Mbit/s", rate / 1_000_000)
}

/// How long it takes until this is so; at most 12 s.
fn until(what: &str, is: impl Fn() -> bool) -> Duration {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(12), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    eprintln!("{what}: after {:?}", began.elapsed());
    began.elapsed()
}

impl Rig {
    /// Why the policy has no effect, as `status` says.
    fn not_enforced(&self) -> Option<String> {
        let snapshot = self.client().status(Duration::ZERO, false).expect("a status");
        snapshot.interfaces[0].not_enforced.clone()
    }

    /// Whether `status` has a hold-up of the host as long as that of the test below.
    fn was_held_up(&self) -> bool {
        let snapshot = self.client().status(Duration::ZERO, false).expect("a status");
        let hold_ups = snapshot.interfaces[0].hold_ups;
        hold_ups.times >= 1 && hold_ups.longest_ns >= 150_000_000
    }

    fn says(&self, whys: &[&str]) -> bool {
        let reason = self.not_enforced();
        reason.is_some_and(|reason| whys.iter().any(|why| reason.contains(why)))
    }

    /// Does as `ip` would, on the router.
    fn link(&self, work: impl FnOnce(&mut LabNetlink) -> lab::Result<()>) {
        self.r.netlink(work).expect("done");
    }

    /// Does as `tc` would, on the router.
    fn ask_kernel(&self, work: impl FnOnce() -> std::io::Result<()> + Send) {
        self.r.call(work).expect("a call").expect("done");
    }

    /// Makes the router's second link, which a fault has removed, anew.
    fn make_wan(&self) {
        self.link(|n| {
            n.veth("wan0", "eth0", self.b.namespace())?;
            n.enslave("wan0", "br0")?;
            n.up("wan0")
        });
        self.b.netlink(|n| n.up("eth0")).expect("up");
    }
}

/// What goes wrong around a running program, how it is mended, and what is said of it: by the port
/// or by whoever looks at the interface, whichever notices first.
struct Fault {
    whys: &'static [&'static str],
    make: fn(&Rig),
    mend: fn(&Rig),
}

const FAULTS: [Fault; 8] = [
    Fault {
        whys: &["the interface is down", "wan0 is down"],
        make: |rig| rig.link(|n| n.down("wan0")),
        mend: |rig| rig.link(|n| n.up("wan0")),
    },
    Fault {
        whys: &["wan0 has no carrier"],
        make: |rig| rig.b.netlink(|n| n.down("eth0")).expect("down"),
        mend: |rig| rig.b.netlink(|n| n.up("eth0")).expect("up"),
    },
    Fault {
        whys: &["lan0 is no longer in br0"],
        make: |rig| rig.ask_kernel(|| leave_the_bridge("lan0")),
        mend: |rig| rig.link(|n| n.enslave("lan0", "br0")),
    },
    Fault {
        whys: &["br0, which forwards when suimon fails, is down"],
        make: |rig| rig.link(|n| n.down("br0")),
        mend: |rig| rig.link(|n| n.up("br0")),
    },
    Fault {
        whys: &["the qdisc of wan0 is pfifo"],
        make: |rig| rig.ask_kernel(|| choose_a_qdisc("wan0")),
        mend: |rig| rig.ask_kernel(|| remove_the_qdisc("wan0")),
    },
    Fault {
        whys: &["the offload `gro` of lan0 was switched"],
        make: |rig| {
            let switched = rig.r.offload("lan0", OffloadFeature::Gro, true);
            switched.expect("an offload");
        },
        mend: |rig| {
            let switched = rig.r.offload("lan0", OffloadFeature::Gro, false);
            switched.expect("an offload");
        },
    },
    Fault {
        whys: &["no such interface", "wan0 is gone"],
        make: |rig| rig.link(|n| n.down("wan0").and_then(|()| n.rename("wan0", "wan9"))),
        mend: |rig| rig.link(|n| n.rename("wan9", "wan0").and_then(|()| n.up("wan0"))),
    },
    Fault {
        whys: &["no such interface", "wan0 is gone"],
        make: |rig| rig.link(|n| n.delete("wan0")),
        mend: Rig::make_wan,
    },
];

impl Fault {
    /// Makes and mends it. Whether it showed within a second; a machine that is busy with other
    /// things may look later.
    fn shows_within_a_second(&self, rig: &Rig) -> bool {
        until("enforced", || rig.not_enforced().is_none());
        (self.make)(rig);
        let took = until(self.whys[0], || rig.says(self.whys));
        let status = rig.r.program(env!("CARGO_BIN_EXE_suimon"));
        let status = status.args(["status", "--interval", "0s", "--socket", &rig.socket()]);
        let status = status.output().expect("it ends");
        assert_eq!(status.status.code(), Some(5), "{}: {status:?}", self.whys[0]);
        (self.mend)(rig);
        until("mended", || !rig.says(self.whys));
        took <= Duration::from_secs(1)
    }
}

#[test]
fn what_takes_the_policys_effect_is_named_within_a_second_and_ends_with_5_until_it_is_mended() {
    in_turn(|| {
        lab::isolated(|| {
            let Some(mut rig) = Rig::start(Kind::AfPacket) else {
                return;
            };
            for fault in FAULTS {
                let in_time = (0..3).any(|_| fault.shows_within_a_second(&rig));
                assert!(
                    in_time,
                    "{}: later than after a second, three times",
                    fault.whys[0]
                );
            }
            until("enforced", || rig.not_enforced().is_none());
            // What cannot be mended but by another start.
            let detached = rig.r.call(|| {
                let interface = netio::interface::Interface::named("lan0")?.index;
                netio::bpf::syscall::detach_all(interface)
            });
            // By filters there are no links.
            let detached = detached.expect("a call").expect("a list") > 0;
            if detached {
                let whys = ["lan0: a program that hands frames to suimon was detached"];
                let took = until(whys[0], || rig.says(&whys));
                assert!(took < Duration::from_secs(3), "{took:?}");
                // The log tells it at its next look, in half a second.
                std::thread::sleep(Duration::from_secs(4));
            }
            rig.signal("TERM");
            let output = rig.end();
            let again = output.err.matches("wan0: enforced again").count();
            assert!(
                output.err.contains("was detached by another") == detached,
                "{output:?}"
            );
            // The port itself may be the first to tell of an interface that is down or gone.
            assert!(again >= FAULTS.len() - 3, "{output:?}");
        });
    });
}

#[test]
fn the_log_says_who_changed_what_in_text_and_in_json() {
    in_turn(|| {
        lab::isolated(|| {
            let Some(mut rig) = Rig::start(Kind::Egress) else {
                return;
            };
            let change = |rig: &Rig| {
                assert!(matches!(rig.set_small("5 Mbit/s"), Reply::Done { .. }));
                assert!(matches!(rig.set_small("500 Mbit/s"), Reply::Refused(_)));
                rig.signal("TERM");
            };
            change(&rig);
            let log = rig.end().err;
            let line = |begins: &str| log.lines().find(|line| line.contains(begins)).expect(&log);
            assert!(
                line("set by root: the test wants it: eth0").contains("small: rate = 5 Mbit/s"),
                "{log}"
            );
            assert!(
                line("the test wants it: refused: ").contains("set by root"),
                "{log}"
            );
            assert!(line("eth0: detached; sent ").contains("Z eth0"), "a time: {log}");
            fs::write(rig.files.join("log.json"), "").expect("a file");
            assert!(rig.launch(), "it ran before");
            change(&rig);
            let log = rig.end().err;
            let object = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
            let objects: Vec<_> = log.lines().map(object).collect();
            let of = |object: &&serde_json::Value, key: &str, value: &str| object[key] == value;
            let set: Vec<_> = objects.iter().filter(|one| of(one, "request", "set")).collect();
            let [done, refused] = *set else { panic!("{log}") };
            for (one, what) in [(done, "5 Mbit/s"), (refused, ": refused: ")] {
                assert_eq!(
                    (&one["level"], &one["author"]),
                    (&"INFO".into(), &"root".into()),
                    "{log}"
                );
                assert_eq!(one["reason"], "the test wants it");
                assert!(
                    one["message"].as_str().is_some_and(|text| text.contains(what)),
                    "{log}"
                );
            }
            let detached = |object: &serde_json::Value| object["message"].to_string().contains("detached");
            let eth0 = objects.iter().filter(|one| of(one, "interface", "eth0"));
            assert_eq!(eth0.filter(|one| detached(one)).count(), 1, "{log}");
            let socket = rig.socket();
            let opened = objects.iter().filter(|one| of(one, "socket", &socket));
            assert_eq!(opened.count(), 1, "{log}");
        });
    });
}

#[test]
fn a_program_that_was_held_up_says_so_for_a_second() {
    const WHY: &str = "suimon was held up, and the kernel took over meanwhile";
    in_turn(|| {
        lab::isolated(|| {
            let Some(mut rig) = Rig::start(Kind::AfPacket) else {
                return;
            };
            let seen = || {
                until("enforced", || rig.not_enforced().is_none());
                rig.signal("STOP");
                std::thread::sleep(Duration::from_millis(200));
                rig.signal("CONT");
                // A machine that holds this test up, too, may have missed it.
                let began = Instant::now();
                while began.elapsed() < Duration::from_secs(2) {
                    if rig.says(&[WHY]) {
                        return began.elapsed() <= Duration::from_secs(1) && rig.was_held_up();
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
                false
            };
            assert!((0..3).any(|_| seen()), "never within a second");
            until("enforced again", || rig.not_enforced().is_none());
            rig.signal("TERM");
            let output = rig.end();
            let began = format!("wan0: not enforced: {WHY}");
            let (began, over) = (output.err.find(&began), output.err.rfind("wan0: enforced again"));
            assert!(began.is_some_and(|began| Some(began) < over), "{output:?}");
        });
    });
}

#[test]
fn a_packet_that_waited_is_explained_while_traffic_flows_and_nobody_who_asks_slows_it() {
    in_turn(|| {
        lab::isolated(|| {
            let Some(rig) = Rig::start(Kind::AfPacket) else {
                return;
            };
            let wanted = |class: &str, packets: usize, for_ms: u64| ExplainRequest {
                interface: "wan0".into(),
                class: Some(class.into()),
                drops: false,
                packets,
                for_ms,
            };
            let transfer = rig.tcp(SMALL);
            let stream = rig.udp(500, 200, Duration::from_secs(4));
            settles_at(&transfer, 8.0 * PAYLOAD, "the class");
            // One client asks and does not read; another is told so.
            let mut silent = UnixStream::connect(rig.socket()).expect("a connection");
            let line = serde_json::to_string(&Request::Explain(wanted("small", 5, 800))).expect("JSON");
            writeln!(silent, "{line}").expect("sent");
            std::thread::sleep(Duration::from_millis(100));
            match rig.ask(&Request::Explain(wanted("small", 5, 10))) {
                Reply::Refused(why) => assert!(why.message.contains("for somebody else"), "{why}"),
                other => panic!("{other:?}"),
            }
            std::thread::sleep(Duration::from_millis(900));
            let Reply::Explained(explained) = rig.ask(&Request::Explain(wanted("small", 5, 1_000))) else {
                panic!("it was refused")
            };
            assert!(explained.seen_packets > 100, "{explained:?}");
            assert_eq!((explained.packets.len(), explained.over.as_ref()), (5, None));
            let mut last = u64::MAX;
            for packet in &explained.packets {
                let parts = packet.busy_ns + packet.before_ns + packet.held_ns + packet.held_up_ns;
                assert_eq!(parts, packet.wait_ns, "{packet:?}");
                assert!(packet.wait_ns <= last, "the slowest first");
                last = packet.wait_ns;
                assert_eq!(packet.class.as_deref(), Some("small"));
                assert!(packet.flow.ends_with(":6001 tcp"), "{packet:?}");
                assert!(packet.filters.last().is_some_and(|asked| asked.misses.is_empty()));
                // It may not borrow: most of its wait is for credit, while the link is idle.
                assert!(packet.held_ns > packet.before_ns, "{packet:?}");
                assert!(packet.before.iter().any(|before| before.class == "small"));
            }
            // Who has gone holds the place no longer.
            let gone = UnixStream::connect(rig.socket()).expect("a connection");
            let line = serde_json::to_string(&Request::Explain(wanted("small", 5, 60_000))).expect("JSON");
            writeln!(&gone, "{line}").expect("sent");
            let is_taken = || {
                let reply = rig.ask(&Request::Explain(wanted("small", 5, 1)));
                matches!(reply, Reply::Refused(why) if why.message.contains("for somebody else"))
            };
            // What asks whether it is taken would take it.
            std::thread::sleep(Duration::from_millis(200));
            until("it records", is_taken);
            drop(gone);
            until("it records for nobody no more", || !is_taken());
            let refused = rig.ask(&Request::Explain(wanted("smal", 5, 10)));
            assert!(matches!(refused, Reply::Refused(_)), "{refused:?}");
            let report = stream.finish().expect("a report");
            assert_eq!((report.lost(), report.reordered), (0, 0), "{report:?}");
        });
    });
}

#[test]
fn drops_at_a_full_queue_and_by_its_management_are_explained_as_they_are_counted() {
    in_turn(|| {
        lab::isolated(|| {
            let Some(rig) = Rig::start(Kind::AfPacket) else {
                return;
            };
            let head = "version = 1\n[port]\nbetween = [\"lan0\", \"wan0\"]\n[interface.wan0]\n\
                        bandwidth = \"40 Mbit/s\"\ndiscipline = \"cbq\"\n";
            let class = |name: &str, rate: u32, more: &str| {
                format!(
                    "[[interface.wan0.class]]\nname = \"{name}\"\nrate = \"{rate} Mbit/s\"\nborrow = false\n{more}\n"
                )
            };
            let filter = |class: &str, port: u16| {
                format!(
                    "[[interface.wan0.filter]]\nclass = \"{class}\"\nprotocol = \"udp\"\ndestination_port = {port}\n"
                )
            };
            let policy = [
                head.into(),
                class("small", 4, "discipline = { kind = \"codel\", limit = 5000 }"),
                class("large", 4, "discipline = { kind = \"fifo\", limit = 20 }"),
                class("rest", 8, "default = true"),
                filter("small", SMALL),
                filter("large", LARGE),
            ]
            .concat();
            let file = rig.files.join("drops.toml");
            fs::write(&file, policy).expect("a file");
            let applied = rig.ask(&apply_request(&file.display().to_string()));
            assert!(matches!(applied, Reply::Done { .. }), "{applied:?}");
            // Each is twice what its class may send, and all has left before the end.
            for (name, port, reason) in [("small", SMALL, "delay"), ("large", LARGE, "full")] {
                let before = rig.class(name).traffic;
                let wanted = ExplainRequest {
                    interface: "wan0".into(),
                    class: Some(name.into()),
                    drops: true,
                    packets: 10,
                    for_ms: 5_000,
                };
                let explained = std::thread::scope(|scope| {
                    let asked = scope.spawn(|| rig.ask(&Request::Explain(wanted)));
                    std::thread::sleep(Duration::from_millis(500));
                    let streams = [SMALL, LARGE].map(|to| {
                        let stream = Stream {
                            to: to_b(to),
                            shape: TrafficShape::per_second(800, 1_200, Duration::from_secs(1)),
                        };
                        stream.start(&rig.a, &rig.b).expect("a stream")
                    });
                    let lost = streams.map(|stream| stream.finish().expect("a report").lost());
                    assert!(lost.iter().all(|&lost| lost > 10), "{lost:?}");
                    asked.join().expect("no panic")
                });
                let Reply::Explained(explained) = explained else {
                    panic!("{explained:?}")
                };
                let after = rig.class(name).traffic;
                let dropped = after.dropped_packets - before.dropped_packets;
                assert_eq!((explained.seen_packets, explained.over.as_ref()), (dropped, None));
                assert_eq!(after.drops.keys().collect::<Vec<_>>(), [reason]);
                assert_eq!(explained.packets.len(), 10);
                for packet in &explained.packets {
                    assert_eq!(packet.class.as_deref(), Some(name), "{packet:?}");
                    assert!(packet.flow.ends_with(&format!(":{port} udp")), "{packet:?}");
                    let drop = packet.dropped.as_ref().expect("it was dropped");
                    assert_eq!(drop.reason, reason, "{packet:?}");
                    assert_eq!(packet.planned_ns, None, "{packet:?}");
                    assert!(packet.filters.last().is_some_and(|asked| asked.misses.is_empty()));
                }
            }
        });
    });
}

#[test]
fn traffic_that_passes_by_the_engine_is_no_enforcement_until_it_ends() {
    const PASSES: &str = "% of what wan0 sends passes by suimon";
    in_turn(|| {
        lab::isolated(|| {
            let Some(mut rig) = Rig::start(Kind::AfPacket) else {
                return;
            };
            // A second route: the router sends by the bridge itself.
            let own = "10.0.0.9/24".parse().expect("an address");
            rig.r.address("br0", own).expect("set");
            let send = |from: &Host, seconds: u64| {
                let shape = TrafficShape::per_second(500, 1000, Duration::from_secs(seconds));
                let stream = Stream {
                    to: to_b(REST),
                    shape,
                };
                stream
                    .start(from, &rig.b)
                    .expect("a stream")
                    .finish()
                    .expect("a report")
            };
            let report = send(&rig.a, 3);
            assert_eq!(
                (report.lost(), rig.says(&[PASSES])),
                (0, false),
                "all of it is managed"
            );
            let stream = Stream {
                to: to_b(REST),
                shape: TrafficShape::per_second(500, 1000, Duration::from_secs(6)),
            };
            let begin = Instant::now();
            let stream = stream.start(&rig.r, &rig.b).expect("a stream");
            until("passes by", || rig.says(&[PASSES]));
            eprintln!("what passes by is seen after {:?}", begin.elapsed());
            assert_eq!(stream.finish().expect("a report").lost(), 0);
            until("enforced again", || rig.not_enforced().is_none());
            rig.signal("TERM");
            let output = rig.end();
            let said = output.err.matches(PASSES).count();
            assert_eq!(said, 1, "{output:?}");
            assert!(output.err.contains("wan0: enforced again"), "{output:?}");
        });
    });
}

#[test]
fn sigterm_detaches_and_a_second_program_on_the_same_interface_is_refused() {
    in_turn(|| {
        lab::isolated(|| {
            let Some(mut rig) = Rig::start(Kind::AfPacket) else {
                return;
            };
            let policy = rig.files.join("policy.toml").display().to_string();
            let other = rig.files.join("other.sock").display().to_string();
            let second = rig
                .r
                .program(env!("CARGO_BIN_EXE_suimon"))
                .args(["run", &policy, "--socket", &other]);
            let second = second.output().expect("it ends");
            assert_eq!(second.status.code(), Some(1), "{second:?}");
            assert!(second.err.contains("another suimon manages lan0"), "{second:?}");
            rig.signal("TERM");
            let output = rig.end();
            assert!(output.status.success(), "{output:?}");
            assert!(output.err.contains("wan0: at most 40 Mbit/s"), "{output:?}");
            assert!(output.err.contains("wan0: detached"), "{output:?}");
        });
    });
}

#[test]
fn a_capture_is_shaped_into_another_one() {
    use netio::capture_file::{Reader, Writer};
    let files = std::env::temp_dir().join(format!("suimon-run-pcap-{}", unique()));
    fs::create_dir_all(&files).expect("a directory");
    let [input, output, policy] = ["in.pcapng", "out.pcapng", "policy.toml"].map(|name| files.join(name));
    let mut writer = Writer::new(fs::File::create(&input).expect("a file"), &["made"]).expect("a capture");
    // 100 frames of 1000 B at once: 80 ms at 10 Mbit/s, of which the first 5 ms may be a burst.
    let frames: Vec<Vec<u8>> = (0..100u8)
        .map(|n| [vec![n; 12], vec![0x88, 0xb5], vec![n; 986]].concat())
        .collect();
    for frame in &frames {
        writer.frame(1_000_000_000, 0, frame, None).expect("a frame");
    }
    writer.flush().expect("written");
    let place = format!("read = \"{}\"\nwrite = \"{}\"", input.display(), output.display());
    let link = "[interface.out]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"fifo\"\n";
    fs::write(&policy, format!("version = 1\n[port]\n{place}\n{link}")).expect("a file");
    let socket = files.join("control.sock");
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_suimon"));
        command.arg("run").arg(&policy).arg("--socket").arg(&socket);
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let until = Instant::now() + Duration::from_secs(20);
        while child.try_wait().expect("a child").is_none() {
            if Instant::now() > until {
                child.kill().expect("killed");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        child.wait_with_output().expect("it has ended")
    };
    let ended = run();
    assert!(ended.status.success(), "{ended:?}");
    let mut reader = Reader::new(fs::File::open(&output).expect("a file")).expect("a capture");
    let (mut times, mut bytes) = (Vec::new(), Vec::new());
    while let Some(captured) = reader.next(&mut bytes).expect("a frame") {
        assert_eq!(bytes, frames[times.len()], "frame {}", times.len());
        times.push(captured.at);
    }
    assert_eq!(times.len(), frames.len());
    let took = times[99] - times[0];
    assert!(took >= 70_000_000, "shaped to {took} ns");
    let overwriting = fs::read_to_string(&policy)
        .expect("a file")
        .replace("out.pcapng", "in.pcapng");
    fs::write(&policy, overwriting).expect("a file");
    let refused = run();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let _ = fs::remove_dir_all(&files);
}

#[test]
fn mistakes_exit_with_2_and_a_remedy() {
    in_turn(|| {
        lab::isolated(|| {
            let mut lab = Lab::new();
            let r = lab.host("r").expect("a host");
            let file = std::env::temp_dir().join(format!("suimon-run-mistakes-{}.toml", unique()));
            let run = |policy: &str| {
                fs::write(&file, policy).expect("a file");
                let path = file.display().to_string();
                r.program(env!("CARGO_BIN_EXE_suimon"))
                    .args(["run", &path])
                    .output()
                    .expect("it ends")
            };
            for (policy, expected) in [
                (Kind::AfPacket.policy(), "unknown interface `lan0`"),
                (
                    Kind::AfPacket.policy().replace("cbq", "cbd"),
                    "did you mean `cbq`?",
                ),
                (
                    "version = 1\n[interface.x]\nbandwidth = \"1 Mbit/s\"\n".into(),
                    "no [port] section",
                ),
            ] {
                let output = run(&policy);
                assert_eq!(output.status.code(), Some(2), "{output:?}");
                assert!(output.err.contains(expected), "{expected}: {output:?}");
            }
            let _ = fs::remove_file(&file);
        });
    });
}

/// Expectations come with an `apply`, and are judged while it runs: of a flood the delay of the
/// class that it fills is missed, with exit code 4, and met again afterwards. The lower bound of a
/// class that asks for nothing is not missed.
#[test]
fn a_running_policy_is_judged_by_its_expectations() {
    in_turn(|| {
        lab::isolated(|| {
            let Some(mut rig) = Rig::start(Kind::Egress) else {
                return;
            };
            expectations_are_judged(&rig);
            rig.signal("TERM");
            let output = rig.end();
            assert!(output.status.success(), "{output:?}");
            let missed = "eth0: missed: class rest: delay-p99 over 1 s: expected at most 20 ms, measured";
            let again = "eth0: met again: class rest: delay-p99 over 1 s: expected at most 20 ms, measured";
            assert_eq!(output.err.matches(missed).count(), 1, "{output:?}");
            assert_eq!(output.err.matches(again).count(), 1, "{output:?}");
        });
    });
}

fn expectations_are_judged(rig: &Rig) {
    let expected = |class: &str, more: &str| {
        format!("[[interface.eth0.expect]]\nclass = \"{class}\"\nover = \"1 s\"\n{more}\n")
    };
    let policy = [
        Kind::Egress.policy(),
        expected("rest", "metric = \"delay-p99\"\nat_most = \"20 ms\""),
        expected("large", "metric = \"rate\"\nat_least = \"15 Mbit/s\""),
    ];
    let file = rig.files.join("expected.toml").display().to_string();
    // A queue that holds 150 ms of its 10 Mbit/s, where `fq_codel` would keep it short.
    let long = "discipline = { kind = \"fifo\", limit_bytes = \"200 kB\" }\ndefault = true";
    fs::write(&file, policy.concat().replace("default = true", long)).expect("a file");
    let Reply::Plan(difference) = rig.ask(&Request::Plan { file: file.clone() }) else {
        panic!("no plan");
    };
    let words = difference.changes.join("\n");
    assert!(
        words.contains("new expectation class rest: delay-p99 over 1 s: at most 20 ms"),
        "{words}"
    );
    let applied = rig.ask(&apply_request(&file));
    assert!(matches!(applied, Reply::Done { .. }), "{applied:?}");
    let stands = || {
        let snapshot = rig.client().status(Duration::ZERO, false).expect("a status");
        snapshot.interfaces[0].expectations.clone()
    };
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let begin = Instant::now();
        while !holds() {
            assert!(begin.elapsed() < Duration::from_secs(6), "{what}: {:?}", stands());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    until("both are known", &|| stands().len() == 2);
    // 1,000 packets of 1,042 bytes: 8 Mbit/s, less than its 10.
    let calm = rig.udp(1_000, 1_000, Duration::from_secs(3));
    until("it is met", &|| stands()[0].measured.is_some());
    assert!(stands()[0].met, "{:?}", stands());
    assert!(
        stands()[1].met && stands()[1].measured.is_none(),
        "it asks for nothing: {:?}",
        stands()
    );
    calm.finish().expect("a report");
    let flood = rig.udp(6_000, 1_000, Duration::from_secs(4));
    until("a flood is seen", &|| !stands()[0].met);
    // 5 while the machine has just held the program up.
    let told = || {
        let status = Command::new(env!("CARGO_BIN_EXE_suimon"))
            .args(["status", "--interval", "0s", "--socket", &rig.socket()])
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&status.stdout).into_owned();
        status.status.code() == Some(4) && text.contains("MISSED  class rest: delay-p99 over 1 s")
    };
    until("status tells it", &told);
    flood.finish().expect("a report");
    let calm = rig.udp(500, 1_000, Duration::from_secs(5));
    until("it is over", &|| stands()[0].met);
    drop(calm);
}
