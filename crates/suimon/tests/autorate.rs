//! A line whose rate falls from 20 to 8 Mbit/s and comes back, with a second of buffer: the rate of
//! `suimon run` follows it, and a ping beside a transfer stays short, in either direction. At a
//! fixed rate it waits for the whole buffer.
//!
//! ```text
//!  server ── 20, 8, 20 Mbit/s, 10 ms, 1 MB ── home: suimon
//! ```
//!
//! The test changes the line, and waits until the rate has followed: a slow machine takes longer
//! and decides nothing. Skipped, and reported as such, where the machine forbids BPF.

#[path = "stubs/answering.rs"]
mod answering;
#[path = "stubs/until.rs"]
mod until;

use answering::answering;
use control::autorate::AutorateView;
use control::socket::Client;
use engine::units::{Bandwidth, Bytes, Duration as Span};
use lab::traffic::probe::Probe;
use lab::traffic::tcp::{Bulk, BulkRun};
use lab::{CableSwitch, EmulatedDirection, EmulatedLink, Host, Lab, Running, TraceBegin};
use measure::link_trace::{LinkStep, LinkTrace};
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use until::until;

const PATIENCE: Duration = Duration::from_secs(60);
/// Around 20 and 8 Mbit/s: what the law may find there, and nowhere else.
const AT_20: std::ops::Range<f64> = 13.0..24.0;
const AT_8: std::ops::Range<f64> = 3.0..10.5;
/// A full buffer takes a second at 8 Mbit/s, and a ping without it 20 ms.
const SHORT: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_millis(400);

/// One test after another: they would hold up each other.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which way the data goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Down,
    Up,
}

struct Rig {
    _lab: Lab,
    server: Host,
    home: Host,
    /// While it is set, the line carries 8 Mbit/s.
    slow: TraceBegin,
    cable: CableSwitch,
    files: PathBuf,
    way: Way,
}

impl Rig {
    fn new(way: Way) -> Self {
        let mut lab = Lab::new();
        let [server, home] = ["server", "home"].map(|name| lab.host(name).expect("a host"));
        let fast = EmulatedLink::new(Bandwidth::mbit(20))
            .delay(Span::from_millis(10))
            .buffer(Bytes::new(1_000_000));
        let step = LinkStep {
            at: Span::ZERO,
            rate: Bandwidth::mbit(8),
            delay: None,
            loss: None,
        };
        let (slow, cable) = (TraceBegin::default(), CableSwitch::default());
        let varies = fast.clone().trace(Some(LinkTrace::scheduled(vec![step])));
        let varies = EmulatedDirection::from(varies).begun_by(&slow).cut_by(&cable);
        let other = EmulatedDirection::from(fast);
        let [down, up] = match way {
            Way::Down => [varies, other],
            Way::Up => [other, varies],
        };
        lab.link((&server, "eth0"), (&home, "eth0"), down, up)
            .expect("a link");
        for (host, address) in [(&server, "10.0.0.1/24"), (&home, "10.0.0.2/24")] {
            let address = address.parse().expect("an address");
            host.address("eth0", address).expect("set");
        }
        let name = format!("suimon-autorate-{way:?}-{}", netio::clock::now().nanos());
        let files = std::env::temp_dir().join(name);
        fs::create_dir_all(&files).expect("a directory");
        Self {
            _lab: lab,
            server,
            home,
            slow,
            cable,
            files,
            way,
        }
    }

    fn interface(&self) -> &'static str {
        match self.way {
            Way::Down => "eth0:in",
            Way::Up => "eth0",
        }
    }

    /// `suimon run` at home with this in the interface's section; `None` if the machine forbids it.
    fn run(&self, section: &str) -> Option<Running> {
        let port = match self.way {
            Way::Down => "ingress",
            Way::Up => "egress",
        };
        let name = self.interface();
        let text = format!("version = 1\n[port]\n{port} = \"eth0\"\n[interface.\"{name}\"]\n{section}");
        let policy = self.files.join("policy.toml");
        fs::write(&policy, text).expect("a file");
        let words = ["run", &policy.display().to_string(), "--socket", &self.socket()];
        let program = self.home.program(env!("CARGO_BIN_EXE_suimon")).args(words);
        let running = program.limit(Duration::from_secs(600)).start();
        let running = running.expect("it starts");
        answering(running, &self.socket(), PATIENCE, &[])
    }

    fn socket(&self) -> String {
        self.files.join("control.sock").display().to_string()
    }

    fn view(&self) -> Option<AutorateView> {
        let mut client = Client::connect(Some(&self.socket())).expect("it answers");
        let now = client.status(Duration::ZERO, false).expect("a status");
        let found = now
            .interfaces
            .into_iter()
            .find(|one| one.name == self.interface());
        found.expect("it is managed").autorate
    }

    fn mbit(&self) -> f64 {
        self.view().map_or(0.0, |view| view.rate_bps as f64 / 1e6)
    }

    /// The median round trip of UDP beside whatever goes on.
    fn ping(&self) -> Duration {
        let to = "10.0.0.1:0".parse().expect("an address");
        let probe = Probe {
            pause: Duration::from_millis(20),
            limit: Duration::from_secs(5),
            ..Probe::new(to, 100)
        };
        let report = probe.run(&self.home, &self.server).expect("a report");
        report.round_trip(0.5).unwrap_or(Duration::MAX)
    }

    fn transfer(&self, port: u16) -> BulkRun {
        let (from, to, at) = match self.way {
            Way::Down => (&self.server, &self.home, "10.0.0.2"),
            Way::Up => (&self.home, &self.server, "10.0.0.1"),
        };
        let to_address = (at.parse::<std::net::IpAddr>().expect("an address"), port).into();
        let bulk = Bulk::new(to_address, Duration::from_secs(600));
        bulk.start(from, to).expect("a transfer")
    }

    fn slow_down(&self) {
        self.slow.set(netio::clock::now());
    }

    fn speed_up(&self) {
        self.slow.set(engine::units::Instant::NEVER);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.files);
    }
}

const AUTORATE: &str = "bandwidth = \"50 Mbit/s\"\n\
                        autorate = { targets = [\"10.0.0.9\", \"10.0.0.1\"], min = \"1 Mbit/s\" }\n";

fn follows(way: Way) {
    let _turn = turn();
    let rig = Rig::new(way);
    let Some(running) = rig.run(AUTORATE) else { return };
    // The first of both hosts is not there.
    assert!(
        until(PATIENCE, || rig
            .view()
            .is_some_and(|view| view.target == "10.0.0.1" && !view.blind)),
        "{:?}",
        rig.view()
    );
    let transfers: Vec<BulkRun> = [5_000, 5_001].map(|port| rig.transfer(port)).into();
    assert!(
        until(PATIENCE, || AT_20.contains(&rig.mbit())),
        "{:?}",
        rig.view()
    );
    rig.slow_down();
    assert!(until(PATIENCE, || AT_8.contains(&rig.mbit())), "{:?}", rig.view());
    // While it stays so.
    let mut beside = Duration::MAX;
    assert!(
        until(PATIENCE, || {
            beside = rig.ping();
            beside < SHORT && AT_8.contains(&rig.mbit())
        }),
        "a ping takes {beside:?}: {:?}",
        rig.view()
    );
    let before: u64 = transfers.iter().map(BulkRun::received).sum();
    let begin = Instant::now();
    let again = rig.ping();
    let after: u64 = transfers.iter().map(BulkRun::received).sum();
    let carried = (after - before) as f64 * 8e-6 / begin.elapsed().as_secs_f64();
    eprintln!("{way:?}: pings {beside:?} and {again:?} beside {carried:.2} Mbit/s");
    assert!((1.0..8.5).contains(&carried), "{carried} Mbit/s of 8");
    rig.speed_up();
    assert!(
        until(PATIENCE, || AT_20.contains(&rig.mbit())),
        "{:?}",
        rig.view()
    );
    rig.cable.cut(true);
    let is_blind = |blind| rig.view().is_some_and(|view| view.blind == blind);
    assert!(
        until(PATIENCE, || is_blind(true) && rig.mbit() == 1.0),
        "{:?}",
        rig.view()
    );
    rig.cable.cut(false);
    assert!(
        until(PATIENCE, || is_blind(false) && rig.mbit() > 1.0),
        "{:?}",
        rig.view()
    );
    transfers.iter().for_each(BulkRun::stop);
    drop(running.kill());
    // At a fixed rate, the same line and the same transfers.
    let Some(_running) = rig.run("bandwidth = \"19 Mbit/s\"\n") else {
        return;
    };
    assert_eq!(rig.view(), None);
    let transfers: Vec<BulkRun> = [5_002, 5_003].map(|port| rig.transfer(port)).into();
    rig.slow_down();
    let mut fixed = Duration::ZERO;
    assert!(
        until(PATIENCE, || {
            fixed = rig.ping();
            fixed > LONG
        }),
        "a ping takes {fixed:?}"
    );
    eprintln!("{way:?}: at a fixed rate a ping takes {fixed:?}");
    transfers.iter().for_each(BulkRun::stop);
}

#[test]
fn the_rate_of_a_download_follows_a_line_that_varies() {
    lab::isolated(|| follows(Way::Down));
}

#[test]
fn the_rate_of_an_upload_follows_a_line_that_varies() {
    lab::isolated(|| follows(Way::Up));
}

/// What concerns it is changed while it runs; whether it follows is not, and says so.
#[test]
fn bounds_and_hosts_are_changed_in_place() {
    lab::isolated(|| {
        let _turn = turn();
        let rig = Rig::new(Way::Up);
        let Some(_running) = rig.run(AUTORATE) else { return };
        assert!(
            until(PATIENCE, || rig.view().is_some_and(|view| !view.blind)),
            "{:?}",
            rig.view()
        );
        let say = |verb: &str, section: &str| {
            let text = format!("version = 1\n[port]\negress = \"eth0\"\n[interface.eth0]\n{section}");
            let file = rig.files.join("policy.toml");
            fs::write(&file, text).expect("a file");
            let words = [verb, &file.display().to_string(), "--socket", &rig.socket()];
            let program = rig.home.program(env!("CARGO_BIN_EXE_suimon")).args(words);
            let output = program
                .limit(PATIENCE)
                .start()
                .expect("it starts")
                .wait()
                .expect("its end");
            format!("{}{}", output.out, output.err)
        };
        let narrower = "bandwidth = \"4 Mbit/s\"\n\
                        autorate = { targets = [\"10.0.0.1\"], min = \"3 Mbit/s\", queue = \"8 ms\" }\n";
        let said = say("plan", narrower);
        assert!(
            said.contains("autorate down to 1 Mbit/s, 3 ms of queue"),
            "{said}"
        );
        assert!(
            said.contains("down to 3 Mbit/s, 8 ms of queue, by 10.0.0.1"),
            "{said}"
        );
        let said = say("apply", narrower);
        assert!(
            until(PATIENCE, || rig.view().is_some_and(|view| {
                (view.min_bps, view.max_bps) == (3_000_000, 4_000_000)
                    && (3_000_000..=4_000_000).contains(&view.rate_bps)
            })),
            "{said}: {:?}",
            rig.view()
        );
        let said = say("apply", "bandwidth = \"4 Mbit/s\"\n");
        assert!(said.contains("whether its rate follows the line"), "{said}");
        assert!(rig.view().is_some(), "it stays as it was");
    });
}
