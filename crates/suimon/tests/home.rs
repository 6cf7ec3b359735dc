//! One home in three places: a router sends 18 Mbit/s to a modem of 20 Mbit/s with a deep buffer,
//! in the simulator, in the lab, and as `suimon run` beside real sockets. A download has the
//! policy's bandwidth and a call does not wait, in each of them: the queue stands in the router,
//! where `fq_codel` keeps it short, and the modem's 200 ms of buffer stay empty.
//!
//! The lab and the program have the simulator's figures, within 2 % in rate and 1 ms in delay, as
//! far as this machine can tell: packets on whose way it stood still are counted apart, and a
//! machine that is too busy for a millisecond is skipped, and said to be: also where the program
//! counts that the host held its packet loop up for a hundredth of the packets.
//!
//! ```text
//!  server ── 10 ms ── router: 18 Mbit/s ── modem ── 20 Mbit/s, 500 kB ── home
//! ```

#[path = "stubs/answering.rs"]
mod answering;

use answering::answering;
use control::judged;
use control::snapshot::HostHoldUps;
use control::socket::Client;
use engine::random::Seed;
use engine::tree::Registry;
use lab::stood_still::StoodStill;
use lab::traffic::generator::TrafficShape;
use lab::traffic::tcp::Bulk;
use lab::traffic::udp::{Stream, UdpArrival};
use lab::{Host, Lab, Running};
use measure::delay::FineDelays;
use scenario::folder::Folder;
use scenario::lab::{Instruments, build};
use scenario::topology::Topology;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The part of full frames of 18 Mbit/s that is payload of TCP, in Mbit/s.
const PAYLOAD: f64 = 18.0 * 1_448.0 / 1_514.0;
/// How long the call is.
const CALL: Duration = Duration::from_secs(4);
/// What is measured once the download has settled.
const SETTLED: usize = 30;
const POLICY: &str = "bandwidth = \"18 Mbit/s\"\ndiscipline = \"fq_codel\"\n";

/// One test after another: they would hold up each other.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How near to the simulator's the rate is to be, and the delay.
const RATE: f64 = 0.02;
const DELAY: Duration = Duration::from_millis(1);
/// A machine on which an ordinary thread wakes up later than this, once in a hundred times, is too
/// busy to tell a millisecond: the call's own threads are ordinary ones.
const PUNCTUAL: Duration = Duration::from_micros(400);

/// A download's rate in Mbit/s of payload, and the 99th percentile of a call's delay.
#[derive(Debug)]
struct Felt {
    download: f64,
    call: Duration,
    /// That without what this machine held packets up for.
    by_itself: Duration,
    /// Why this machine cannot tell it, if it cannot.
    unfit: Option<String>,
}

/// How late an ordinary thread of this machine wakes up, once in a hundred times, as long as
/// `during` takes.
fn lateness<T>(during: impl FnOnce() -> T) -> (Duration, T) {
    let over = AtomicBool::new(false);
    let nap = Duration::from_millis(5);
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut late = FineDelays::default();
            while !over.load(Ordering::Relaxed) {
                let asleep = Instant::now();
                std::thread::sleep(nap);
                let by = asleep.elapsed().saturating_sub(nap);
                late.record(engine::units::Duration::from_nanos(by.as_nanos() as u64));
            }
            Duration::from_nanos(late.quantile(990).nanos())
        });
        let done = during();
        over.store(true, Ordering::Relaxed);
        (looks.join().expect("a thread"), done)
    })
}

/// The delays of a call's packets less what links held them up for, as scenarios are judged:
/// without those on whose way this machine stood still, if they are few. And how many these are.
fn call_of(
    arrivals: &[UdpArrival],
    began: engine::units::Instant,
    still: &StoodStill,
) -> (FineDelays, usize) {
    let nanos = |time: Duration| engine::units::Duration::from_nanos(time.as_nanos() as u64);
    let (mut others, mut all, mut apart) = (FineDelays::default(), FineDelays::default(), 0);
    for one in arrivals {
        let [sent, arrived] = [one.sent, one.arrived].map(|after| began + nanos(after));
        let own = nanos(one.delay().saturating_sub(one.held));
        all.record(own);
        match still.was_on_the_way(sent, arrived) {
            true => apart += 1,
            false => others.record(own),
        }
    }
    let few = judged::are_few(apart as u64, arrivals.len() as u64);
    (if few { others } else { all }, apart)
}

/// The network; `ruled` is what the second link has.
fn topology(ruled: &str) -> Topology {
    let text = format!(
        "version = 1\nhosts = [\"server\", \"router\", \"modem\", \"home\"]\n\
         [[link]]\nbetween = [\"server\", \"router\"]\nrate = \"1 Gbit/s\"\ndelay = \"10 ms\"\n\
         [[link]]\nbetween = [\"router\", \"modem\"]\n{ruled}\n\
         [[link]]\nbetween = [\"modem\", \"home\"]\nrate = \"20 Mbit/s\"\nbuffer = \"500 kB\"\n"
    );
    Topology::read("home", &text, &Registry::builtin(), &Folder::of("home"))
        .unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// How the host held up the packet loop of a program that runs beside, since its start.
type ToldHoldUps<'a> = &'a (dyn Fn() -> HostHoldUps + Sync);

/// Of no program.
fn held_up_by_none() -> HostHoldUps {
    HostHoldUps::default()
}

/// Whether these hold-ups are enough to show in the 99th percentile of `span`: what came meanwhile,
/// and as long again until it is worked off, is a hundredth.
fn show_in_p99([before, after]: [HostHoldUps; 2], span: Duration) -> bool {
    let held = Duration::from_nanos(after.all_ns - before.all_ns);
    200 * held >= span
}

fn between(lab: &Lab, server: &Host, home: &Host, to: SocketAddr, told: ToldHoldUps<'_>) -> Felt {
    let watcher = netio::hold_ups::watcher(lab.hold_ups()).expect("a thread");
    let bulk = Bulk::new(to, Duration::from_secs(8))
        .start(server, home)
        .expect("a transfer");
    std::thread::sleep(Duration::from_secs(3));
    // 214-byte frames, 100 kbit/s.
    let shape = TrafficShape::per_second(58, 172, CALL);
    let (began, before) = (netio::clock::now(), told());
    let call = Stream { to, shape }.start(server, home).expect("a call");
    let (late, call) = lateness(|| call.finish().expect("a report"));
    let held = [before, told()];
    let intervals = bulk.finish().expect("a report").intervals;
    let settled = &intervals[SETTLED..70];
    drop(watcher);
    let still = StoodStill::of(lab.hold_ups().read());
    let (by_itself, apart) = call_of(&call.arrivals, began, &still);
    let all = call.arrivals.len();
    let many = !judged::are_few(apart as u64, all as u64);
    let loop_held = show_in_p99(held, CALL);
    let unfit = (many || late > PUNCTUAL || loop_held).then(|| {
        format!(
            "this machine cannot tell a millisecond: {apart} of {all} packets came while it stood still ({} times, for up to \
             {}), its threads wake up {late:?} late, and the program's loop was held up {} times, {:?} in all",
            still.count(),
            still.longest(),
            held[1].times - held[0].times,
            Duration::from_nanos(held[1].all_ns - held[0].all_ns)
        )
    });
    Felt {
        download: settled.iter().sum::<u64>() as f64 * 8e-6 / (settled.len() as f64 * 0.1),
        call: call.delay(0.99).expect("arrivals"),
        by_itself: Duration::from_nanos(by_itself.quantile(990).nanos()),
        unfit,
    }
}

/// Builds the network, lets `start` begin what runs on the router, and measures.
fn measured(
    ruled: &str,
    start: impl FnOnce(&Host) -> Option<Option<Running>>,
    told: ToldHoldUps<'_>,
) -> Option<Felt> {
    let built = build(
        &topology(ruled),
        &Registry::builtin(),
        &Instruments::default(),
        Seed(1),
    )
    .expect("a lab");
    let [server, router, _, home] = built.lab.hosts() else {
        panic!("four hosts")
    };
    let running = start(router)?;
    let to = SocketAddr::new(built.interfaces[3][0].addresses[0].ip, 0);
    let felt = between(&built.lab, server, home, to, told);
    drop(running);
    Some(felt)
}

/// `suimon run` on the router; none if the machine forbids it.
fn run_on(router: &Host, files: &Path) -> Option<Running> {
    let policy = files.join("policy.toml").display().to_string();
    let text = format!("version = 1\n[port]\negress = \"eth1\"\n[interface.eth1]\n{POLICY}");
    std::fs::write(&policy, text).expect("a file");
    running(router, files, &[&policy])
}

/// Where the program in this folder has its control socket.
fn socket_in(files: &Path) -> String {
    files.join("control.sock").display().to_string()
}

/// How the host held up the loop of the program in this folder, as that says itself.
fn held_up_in(files: &Path) -> HostHoldUps {
    let mut client = Client::connect(Some(&socket_in(files))).expect("it answers");
    let snapshot = client.status(Duration::ZERO, false).expect("its status");
    snapshot.interfaces[0].hold_ups
}

/// `suimon run` with these arguments; none if the machine forbids it.
fn running(on: &Host, files: &Path, what: &[&str]) -> Option<Running> {
    let socket = socket_in(files);
    let program = on.program(env!("CARGO_BIN_EXE_suimon"));
    let arguments = [&["run"], what, &["--socket", &socket]].concat();
    let program = program.args(arguments).limit(Duration::from_secs(60));
    let running = program.start().expect("it starts");
    answering(running, &socket, Duration::from_secs(10), &[])
}

/// The simulator's rate of the download in Mbit/s, and the 99th percentile of the call's delay.
fn simulated() -> (f64, Duration) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/behind-a-modem.toml");
    let simulated = Command::new(env!("CARGO_BIN_EXE_suimon"))
        .args(["sim".as_ref(), file.as_os_str(), "--json".as_ref()])
        .output()
        .expect("it runs");
    assert_eq!(simulated.status.code(), Some(0), "{simulated:?}");
    let value: serde_json::Value = serde_json::from_slice(&simulated.stdout).expect("JSON");
    let measured = |what: &str| {
        let mut all = value["expectations"].as_array().expect("expectations").iter();
        let found = all.find(|one| one["what"].as_str().is_some_and(|own| own.contains(what)));
        found.expect(what)["value"].as_u64().expect("a number")
    };
    let download = measured("flow download") as f64 / 1e6;
    (download, Duration::from_nanos(measured("flow call")))
}

/// Whether it is as the simulator says: in one of four tries, since what else the machine does is
/// not ours. A try that it was fit for, and that misses, fails at once.
fn is_as_simulated(place: &str, measure: impl Fn() -> Option<Felt>) {
    let (download, call) = simulated();
    assert!(
        (0.95..=1.0).contains(&(download / PAYLOAD)),
        "simulated: {download}"
    );
    let mut unfit = String::new();
    for _ in 0..4 {
        // None: the machine forbids it.
        let Some(felt) = measure() else { return };
        eprintln!("{place}: {felt:?}; simulated: {download:.2} Mbit/s, {call:?}");
        // No busy machine excuses more than the policy's rate.
        assert!(felt.download <= PAYLOAD, "{place}: {felt:?}");
        let rate = (felt.download / download - 1.0).abs() <= RATE;
        if rate && felt.by_itself.abs_diff(call) <= DELAY {
            return;
        }
        match felt.unfit {
            None => panic!("{place}: {felt:?}; simulated: {download:.2} Mbit/s, {call:?}"),
            Some(why) => unfit = why,
        }
    }
    skips::skipped(unfit);
}

#[test]
fn a_policy_below_its_modem_is_in_the_lab_as_it_is_simulated() {
    let _turn = turn();
    lab::isolated(|| {
        let ruled = format!("rate = \"1 Gbit/s\"\n[link.policy.router]\n{POLICY}");
        is_as_simulated("lab", || measured(&ruled, |_| Some(None), &held_up_by_none));
    });
}

#[test]
fn a_policy_below_its_modem_is_as_a_program_on_the_router_as_it_is_simulated() {
    let _turn = turn();
    lab::isolated(|| {
        let files: PathBuf = std::env::temp_dir().join(format!("suimon-home-{}", std::process::id()));
        std::fs::create_dir_all(&files).expect("a directory");
        is_as_simulated("run", || {
            measured("", |router| run_on(router, &files).map(Some), &|| {
                held_up_in(&files)
            })
        });
        let _ = std::fs::remove_dir_all(&files);
    });
}

#[test]
fn hold_ups_of_the_loop_excuse_what_they_can_have_done_and_no_less() {
    let told = |all_ms: u64| HostHoldUps {
        times: all_ms,
        longest_ns: 2_000_000,
        all_ns: all_ms * 1_000_000,
    };
    // Of 4 s, 40 ms of packets are a hundredth.
    assert!(show_in_p99([told(7), told(27)], CALL));
    assert!(!show_in_p99([told(7), told(26)], CALL));
    assert!(!show_in_p99([told(500), told(500)], CALL), "what was before");
}

/// What two transfers and two calls have over a line of 20 Mbit/s with a deep buffer at each end,
/// one of each in each direction.
fn both_ways(name: &str, start: impl FnOnce(&Host) -> Option<Option<Running>>) -> Option<[Felt; 2]> {
    let text = "version = 1\nhosts = [\"server\", \"home\"]\n[[link]]\nbetween = [\"server\", \"home\"]\n\
                rate = \"20 Mbit/s\"\ndelay = \"10 ms\"\nbuffer = \"500 kB\"\n";
    let topology = Topology::read("line", text, &Registry::builtin(), &Folder::of("line"))
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let built = build(&topology, &Registry::builtin(), &Instruments::default(), Seed(1)).expect("a lab");
    let [server, home] = built.lab.hosts() else {
        panic!("two hosts")
    };
    let ran = start(home)?;
    let address = |host: usize| SocketAddr::new(built.interfaces[host][0].addresses[0].ip, 0);
    let (to_home, to_server) = (address(1), address(0));
    let felt = std::thread::scope(|scope| {
        let up = scope.spawn(|| between(&built.lab, home, server, to_server, &held_up_by_none));
        let down = between(&built.lab, server, home, to_home, &held_up_by_none);
        [down, up.join().expect("a measurement")]
    });
    drop(ran);
    eprintln!("{name}: {felt:?}");
    Some(felt)
}

#[test]
fn an_interface_and_a_rate_cure_both_directions_of_a_line() {
    let _turn = turn();
    lab::isolated(|| {
        let files = std::env::temp_dir().join(format!("suimon-line-{}", std::process::id()));
        std::fs::create_dir_all(&files).expect("a folder");
        let plain = both_ways("plain", |_| Some(None)).expect("a measurement");
        for felt in &plain {
            assert!(
                felt.call > Duration::from_millis(100),
                "the line is no trouble: {felt:?}"
            );
        }
        // In one of three tries: other programs may occupy the processors.
        let good = |felt: &Felt| {
            // Acknowledgments of the other direction take some of it.
            felt.call < Duration::from_millis(30) && (0.85..=1.0).contains(&(felt.download / PAYLOAD))
        };
        let cured = (0..3).any(|_| {
            let started = |home: &Host| running(home, &files, &["eth0", "--rate", "18Mbit/s"]).map(Some);
            // None: the machine forbids it.
            both_ways("cured", started).is_none_or(|felt| felt.iter().all(good))
        });
        let _ = std::fs::remove_dir_all(&files);
        assert!(
            cured,
            "a call waits, or a transfer has too little, in each of three tries"
        );
    });
}
