//! `suimon upgrade` under load: the program that runs is replaced by another one again and again,
//! on each kind of port that can do it. No packet is lost, doubled or overtaken, though many wait;
//! what was set stays; and a program that dies while it takes over leaves the one that ran.
//!
//! ```text
//!  a ─── lan0 │ r: suimon over the kernel's bridge │ wan0 ─── b
//! ```
//!
//! Once for each kind; `SUIMON_UPGRADES=100` makes so many of each.

#[path = "stubs/answering.rs"]
mod answering;
#[path = "stubs/asked.rs"]
mod asked_for;

use answering::answering;
use asked_for::number;
use control::protocol::{Reply, Request, SettingChange, SettingChanges};
use control::snapshot::Snapshot;
use control::socket::Client;
use engine::random::Seed;
use lab::host::know_each_other;
use lab::traffic::generator::TrafficShape;
use lab::traffic::udp::{Stream, StreamReport, StreamRun};
use lab::{Host, Lab, Output, Running};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One test at a time: each loads the machine.
static TURN: Mutex<()> = Mutex::new(());

fn in_turn(body: impl FnOnce()) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    lab::isolated(body);
}

/// A kind of port: its name, its `[port]`, the interface that is managed, and the host.
struct Kind {
    name: &'static str,
    port: &'static str,
    interface: &'static str,
    host: &'static str,
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "af_packet",
        port: "between = [\"lan0\", \"wan0\"]",
        interface: "wan0",
        host: "r",
    },
    Kind {
        name: "by direction",
        port: "between = [\"lan0\", \"wan0\"]\nworkers = \"per-direction\"",
        interface: "wan0",
        host: "r",
    },
    Kind {
        name: "egress",
        port: "egress = \"eth0\"",
        interface: "eth0",
        host: "a",
    },
    Kind {
        name: "egress that fails closed",
        port: "egress = \"eth0\"\nfail_closed = \"1 Mbit/s\"",
        interface: "eth0",
        host: "a",
    },
    Kind {
        name: "ingress",
        port: "ingress = \"eth0\"",
        interface: "eth0:in",
        host: "b",
    },
];

/// The port of what waits long: its class has 2 Mbit/s, and is offered more for a while.
const SLOW: u16 = 6_001;
const QUICK: u16 = 6_002;
/// After so long without the packet loop the kernel forwards.
const FAIL_OPEN: Duration = Duration::from_millis(400);

impl Kind {
    fn policy(&self) -> String {
        let Self { port, interface, .. } = self;
        // A machine that holds the loop up for longer than usual has the kernel forward, which is
        // not what is judged here.
        format!(
            "version = 1\n[port]\n{port}\nfail_open_after = \"{} ms\"\n\
             [interface.\"{interface}\"]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"cbq\"\n\
             [[interface.\"{interface}\".class]]\nname = \"slow\"\nrate = \"2 Mbit/s\"\nborrow = false\n\
             discipline = {{ kind = \"fifo\", limit = 5000 }}\n\
             [[interface.\"{interface}\".class]]\nname = \"rest\"\nrate = \"6 Mbit/s\"\ndefault = true\n\
             discipline = {{ kind = \"fifo\", limit = 5000 }}\n\
             [[interface.\"{interface}\".filter]]\nclass = \"slow\"\nprotocol = \"udp\"\ndestination_port = {SLOW}\n",
            FAIL_OPEN.as_millis()
        )
    }
}

struct Rig {
    _lab: Lab,
    hosts: [Host; 3],
    kind: &'static Kind,
    files: PathBuf,
    runs: Option<Running>,
}

impl Rig {
    /// Hosts, and the program; `None` if the machine forbids this kind of port.
    fn start(kind: &'static Kind, state: bool) -> Option<Self> {
        let mut lab = Lab::new();
        let hosts = ["a", "r", "b"].map(|name| lab.host(name).expect("a host"));
        let [a, r, b] = &hosts;
        lab.veth((a, "eth0"), (r, "lan0")).expect("a pair");
        lab.veth((r, "wan0"), (b, "eth0")).expect("a pair");
        for (host, address) in [(a, "10.0.0.1/24"), (b, "10.0.0.2/24")] {
            let address = address.parse().expect("an address");
            host.address("eth0", address).expect("set");
        }
        r.bridge("br0", &["lan0", "wan0"]).expect("a bridge");
        let addresses: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        know_each_other([(a, "eth0"), (b, "eth0")], [&addresses[..1], &addresses[1..]]).expect("set");
        let name = kind.name.replace(' ', "-");
        let files = std::env::temp_dir().join(format!("suimon-upgrade-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&files);
        fs::create_dir_all(&files).expect("a folder");
        fs::write(files.join("policy.toml"), kind.policy()).expect("a file");
        let mut rig = Self {
            _lab: lab,
            hosts,
            kind,
            files,
            runs: None,
        };
        let kept = rig.file("state");
        let more = ["--state", &kept];
        rig.begin(if state { &more } else { &[] })?;
        let passes = || rig.stream(QUICK, 50, Duration::from_millis(200)).finish();
        let passes = || passes().expect("a report").lost() == 0;
        assert!((0..10).any(|_| passes()), "the hosts cannot reach one another");
        Some(rig)
    }

    /// Starts the program; `None` if the machine forbids this kind of port.
    fn begin(&mut self, more: &[&str]) -> Option<()> {
        let (policy, socket) = (self.file("policy.toml"), self.socket());
        let runs = self.program(&[&["run", &policy, "--socket", &socket], more].concat());
        self.runs = Some(answering(runs, &socket, Duration::from_secs(10), &[])?);
        Some(())
    }

    fn file(&self, name: &str) -> String {
        self.files.join(name).display().to_string()
    }

    fn socket(&self) -> String {
        self.file("control.sock")
    }

    /// Begins the program where the policy is.
    fn program(&self, args: &[&str]) -> Running {
        let mut names = ["a", "r", "b"].iter().zip(&self.hosts);
        let (_, host) = names.find(|(name, _)| **name == self.kind.host).expect("a host");
        let program = host.program(env!("CARGO_BIN_EXE_suimon")).args(args);
        program
            .limit(Duration::from_secs(1_800))
            .start()
            .expect("it starts")
    }

    fn next(&self) -> Running {
        self.program(&["upgrade", "--foreground", "--socket", &self.socket()])
    }

    fn stream(&self, port: u16, rate: u32, time: Duration) -> StreamRun {
        let [a, _, b] = &self.hosts;
        let stream = Stream {
            to: SocketAddr::from(([10, 0, 0, 2], port)),
            shape: TrafficShape::per_second(rate, 400, time),
        };
        stream.start(a, b).expect("a stream")
    }

    /// There is a moment when one program serves the socket no more, and the other not yet.
    fn client(&self) -> Client {
        let until = Instant::now() + Duration::from_secs(2);
        loop {
            match Client::connect(Some(&self.socket())) {
                Ok(client) => return client,
                Err(why) => assert!(Instant::now() < until, "{why:?}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ask(&self, request: &Request) -> Reply {
        self.client().ask(request).expect("an answer")
    }

    fn status(&self) -> Snapshot {
        let status = self.client().status(Duration::ZERO, false);
        status.expect("a status")
    }

    /// Whether the machine has not let the packet loop run for so long that the kernel forwarded.
    fn stood_still(&self) -> bool {
        let longest = self.status().interfaces.remove(0).hold_ups.longest_ns;
        u128::from(longest) >= FAIL_OPEN.as_millis() * 1_000_000 * 9 / 10
    }

    /// The process that serves the socket; none at the moment when one has ended and the next does
    /// not serve yet.
    fn serves(&self) -> Option<u32> {
        let process = Client::connect(Some(&self.socket())).ok()?.process()?;
        u32::try_from(process).ok()
    }

    /// Replaces the program that runs, which ends then.
    fn upgrade(&mut self) -> Output {
        let next = self.next();
        let until = Instant::now() + Duration::from_secs(20);
        while self.serves() != Some(next.id()) {
            assert!(next.is_running(), "{:?}", next.wait());
            assert!(Instant::now() < until, "it has not taken over");
            std::thread::sleep(Duration::from_millis(10));
        }
        let former = self.runs.replace(next).expect("one runs");
        former.wait().expect("its end")
    }

    fn set_slow(&self, rate: &str) -> Reply {
        self.ask(&self.slow(rate))
    }

    fn slow(&self, rate: &str) -> Request {
        Request::Set(SettingChanges {
            interface: self.kind.interface.into(),
            class: Some("slow".into()),
            changes: [("rate".to_owned(), SettingChange::Text(rate.into()))].into(),
            until_ms: None,
            reason: None,
        })
    }

    /// Ends the program. What it said.
    fn end(&mut self) -> String {
        let detached = self.ask(&Request::Detach { interface: None });
        assert!(matches!(detached, Reply::Done { .. }), "{detached:?}");
        let output = self.runs.take().expect("it runs").wait().expect("its end");
        assert!(output.status.success(), "{output:?}");
        output.err
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.files);
    }
}

/// That all has arrived once, and in order.
fn whole(report: &StreamReport, what: &str) {
    let found = (report.lost(), report.reordered, report.duplicates);
    assert_eq!(
        found,
        (0, 0, 0),
        "{what}: lost, reordered, doubled of {}",
        report.sent
    );
}

#[test]
fn a_program_is_replaced_under_load_and_no_packet_is_lost_doubled_or_overtaken() {
    let times = number("SUIMON_UPGRADES").unwrap_or(1);
    in_turn(|| {
        for kind in &KINDS {
            let Some(mut rig) = Rig::start(kind, false) else {
                return;
            };
            let (mut waited, mut sent, mut silences, mut still) = (0, 0, Vec::new(), 0);
            while (silences.len() as u64) < times {
                let quick = rig.stream(QUICK, 500, Duration::from_secs(3));
                // Twice what the class may send: a second's worth waits in the end.
                let slow = rig.stream(SLOW, 1_200, Duration::from_secs(2));
                std::thread::sleep(Duration::from_millis(700));
                let mut stood_still = rig.stood_still();
                let former = rig.upgrade();
                assert!(former.status.success(), "{former:?}");
                let told = former.err.lines().find(|line| line.contains("handed over"));
                let told = told.unwrap_or_else(|| panic!("{former:?}"));
                let packets = told.split_whitespace().find_map(|word| word.parse::<u64>().ok());
                waited += packets.expect("a number");
                let reports = [quick, slow].map(|stream| stream.finish().expect("a report"));
                stood_still |= rig.stood_still();
                if reports.iter().any(|report| report.lost() > 0) {
                    let drops = rig.status().interfaces.remove(0).traffic.drops;
                    eprintln!("{drops:?}, stood still: {stood_still}\n{}", former.err);
                    if stood_still && still <= times / 10 {
                        still += 1;
                        continue;
                    }
                    eprintln!("{}", rig.end());
                }
                let what = format!("{}, {}", kind.name, silences.len());
                reports.iter().for_each(|report| whole(report, &what));
                sent += reports.iter().map(|report| report.sent).sum::<u64>();
                silences.push(reports[0].longest_outage().as_millis());
            }
            assert!(waited > 100 * times, "{waited} packets waited: {}", kind.name);
            if still > 0 {
                eprintln!(
                    "upgrades: {}: {still} more while the machine stood still, not judged",
                    kind.name
                );
            }
            let snapshot = rig.status();
            assert_eq!(snapshot.interfaces[0].not_enforced, None);
            rig.end();
            silences.sort_unstable();
            let (median, most) = (silences[silences.len() / 2], silences[silences.len() - 1]);
            eprintln!(
                "upgrades: {}: {times} times, with {waited} packets that waited; of {sent} none lost, doubled or \
                 overtaken; silence {median} ms at the median, {most} at most",
                kind.name
            );
        }
    });
}

#[test]
fn what_was_set_and_the_generations_stay_and_counts_begin_anew() {
    in_turn(|| {
        let Some(mut rig) = Rig::start(&KINDS[0], true) else {
            return;
        };
        let done = rig.set_slow("3 Mbit/s");
        assert!(matches!(done, Reply::Done { .. }), "{done:?}");
        rig.upgrade();
        let done = rig.set_slow("4 Mbit/s");
        assert!(matches!(done, Reply::Done { .. }), "{done:?}");
        rig.upgrade();
        let Reply::History { generations } = rig.ask(&Request::History {}) else {
            panic!("a history")
        };
        let by: Vec<&str> = generations.iter().map(|one| one.by.as_str()).collect();
        assert_eq!(by, ["run", "set", "set"]);
        let back = |to| Request::Rollback {
            to,
            break_reservations: false.into(),
            reason: None,
        };
        assert!(matches!(rig.ask(&back(None)), Reply::Done { .. }));
        let Reply::Policy { text } = rig.ask(&Request::Policy {}) else {
            panic!("a policy")
        };
        assert!(text.contains("3 Mbit/s"), "{text}");
        // An end in order, noted once: the next start begins with the file.
        rig.end();
        let state = rig.files.join("state");
        assert!(!state.join("running").exists(), "it counts as cut off");
    });
}

#[test]
fn a_program_that_dies_while_it_takes_over_leaves_the_one_that_ran() {
    let times = number("SUIMON_UPGRADES").unwrap_or(2);
    let mut rng = Seed(times).stream();
    in_turn(|| {
        let Some(mut rig) = Rig::start(&KINDS[0], false) else {
            return;
        };
        let (mut first, mut replaced) = (rig.serves(), 0);
        for _ in 0..times {
            let next = rig.next();
            // Around the moment itself, and while it looks whether all is in force.
            std::thread::sleep(Duration::from_millis(rng.below(900)));
            let next_id = next.id();
            next.kill().expect("it is killed");
            if !goes_on(&rig) {
                // On a quick machine all was in force before the end of the time.
                let former = rig.runs.take().expect("one ran").wait().expect("its end");
                let told = format!("process {next_id} goes on in its place");
                assert!(
                    former.status.success() && former.err.contains(&told),
                    "{former:?}"
                );
                rig.begin(&[]);
                (first, replaced) = (rig.serves(), replaced + 1);
                continue;
            }
            assert_eq!(rig.serves(), first, "the one that ran goes on");
            let quick = rig.stream(QUICK, 500, Duration::from_millis(300));
            whole(&quick.finish().expect("a report"), "afterwards");
            let snapshot = rig.status();
            assert_eq!(snapshot.interfaces[0].not_enforced, None);
        }
        assert!(replaced <= times / 4, "{replaced} of {times} had taken over");
        eprintln!(
            "upgrades: {} programs killed while they took over; the one that ran went on each time; {replaced} more \
             were killed after they had",
            times - replaced
        );
        rig.upgrade();
        rig.end();
    });
}

/// Whether the one that ran may be changed again, or has ended. It may take a moment until it has
/// seen that the other is gone.
fn goes_on(rig: &Rig) -> bool {
    let until = Instant::now() + Duration::from_secs(5);
    while rig.runs.as_ref().is_some_and(Running::is_running) {
        let answer =
            Client::connect(Some(&rig.socket())).and_then(|mut client| client.ask(&rig.slow("2 Mbit/s")));
        match answer {
            Ok(Reply::Done { .. }) => return true,
            other => assert!(Instant::now() < until, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}
