//! One home in three places: a router sends 18 Mbit/s to a modem of 20 Mbit/s with a deep buffer,
//! in the simulator, in the lab, and as `suimon run` beside real sockets. A download has the
//! policy's bandwidth and a call does not wait, in each of them: the queue stands in the router,
//! where `fq_codel` keeps it short, and the modem's 200 ms of buffer stay empty.
//!
//! ```text
//!  server ── 10 ms ── router: 18 Mbit/s ── modem ── 20 Mbit/s, 500 kB ── home
//! ```

use control::socket::Client;
use engine::random::Seed;
use engine::tree::Registry;
use lab::traffic::generator::TrafficShape;
use lab::traffic::tcp::Bulk;
use lab::traffic::udp::Stream;
use lab::{Host, Running};
use scenario::folder::Folder;
use scenario::lab::{Instruments, build};
use scenario::topology::Topology;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The part of full frames of 18 Mbit/s that is payload of TCP, in Mbit/s.
const PAYLOAD: f64 = 18.0 * 1_448.0 / 1_514.0;
/// What is measured once the download has settled.
const SETTLED: usize = 30;
const POLICY: &str = "bandwidth = \"18 Mbit/s\"\ndiscipline = \"fq_codel\"\n";

/// A download's rate in Mbit/s of payload, and the 99th percentile of a call's delay.
#[derive(Debug)]
struct Felt {
    download: f64,
    call: Duration,
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

fn between(server: &Host, home: &Host, to: SocketAddr) -> Felt {
    let bulk = Bulk::new(to, Duration::from_secs(8))
        .start(server, home)
        .expect("a transfer");
    std::thread::sleep(Duration::from_secs(3));
    // 214-byte frames, 100 kbit/s.
    let shape = TrafficShape::per_second(58, 172, Duration::from_secs(4));
    let call = Stream { to, shape }.start(server, home).expect("a call");
    let call = call.finish().expect("a report");
    let intervals = bulk.finish().expect("a report").intervals;
    let settled = &intervals[SETTLED..70];
    Felt {
        download: settled.iter().sum::<u64>() as f64 * 8e-6 / (settled.len() as f64 * 0.1),
        call: call.delay(0.99).expect("arrivals"),
    }
}

/// Builds the network, lets `start` begin what runs on the router, and measures.
fn measured(ruled: &str, start: impl FnOnce(&Host) -> Option<Option<Running>>) -> Option<Felt> {
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
    let felt = between(server, home, to);
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

/// `suimon run` with these arguments; none if the machine forbids it.
fn running(on: &Host, files: &Path, what: &[&str]) -> Option<Running> {
    let socket = files.join("control.sock").display().to_string();
    let program = on.program(env!("CARGO_BIN_EXE_suimon"));
    let arguments = [&["run"], what, &["--socket", &socket]].concat();
    let program = program.args(arguments).limit(Duration::from_secs(60));
    let running = program.start().expect("it starts");
    let until = Instant::now() + Duration::from_secs(10);
    while Client::connect(Some(&socket)).is_err() {
        if !running.is_running() {
            let output = running.wait().expect("its end");
            assert!(output.err.contains("not permitted"), "{output:?}");
            skips::skipped(output.err);
            return None;
        }
        assert!(Instant::now() < until, "the control socket does not respond");
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(running)
}

fn judge(place: &str, felt: &Felt) {
    eprintln!("{place}: {felt:?} of {PAYLOAD:.2} Mbit/s and 10 ms");
    assert!(
        (0.95..=1.0).contains(&(felt.download / PAYLOAD)),
        "{place}: {felt:?}"
    );
    // A modem with a full buffer adds 200 ms.
    assert!(felt.call < Duration::from_millis(30), "{place}: {felt:?}");
}

#[test]
fn a_policy_below_its_modem_holds_in_the_simulator() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/behind-a-modem.toml");
    let simulated = Command::new(env!("CARGO_BIN_EXE_suimon"))
        .args(["sim".as_ref(), file.as_os_str(), "--json".as_ref()])
        .output()
        .expect("it runs");
    assert_eq!(simulated.status.code(), Some(0), "{simulated:?}");
    let value: serde_json::Value = serde_json::from_slice(&simulated.stdout).expect("JSON");
    let flows = value["flows"].as_array().expect("flows");
    let call = flows.iter().find(|flow| flow["name"] == "call").expect("a call");
    let nanos = call["delay"]["p99_ns"].as_u64().expect("a number");
    eprintln!("simulated: the call's p99 is {:?}", Duration::from_nanos(nanos));
}

#[test]
fn a_policy_below_its_modem_holds_in_the_lab() {
    lab::isolated(|| {
        let ruled = format!("rate = \"1 Gbit/s\"\n[link.policy.router]\n{POLICY}");
        let felt = measured(&ruled, |_| Some(None)).expect("a measurement");
        judge("lab", &felt);
    });
}

#[test]
fn a_policy_below_its_modem_holds_as_a_program_on_the_router() {
    lab::isolated(|| {
        let files: PathBuf = std::env::temp_dir().join(format!("suimon-home-{}", std::process::id()));
        std::fs::create_dir_all(&files).expect("a directory");
        let felt = measured("", |router| run_on(router, &files).map(Some));
        felt.iter().for_each(|felt| judge("run", felt));
        let _ = std::fs::remove_dir_all(&files);
    });
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
        let up = scope.spawn(|| between(home, server, to_server));
        let down = between(server, home, to_home);
        [down, up.join().expect("a measurement")]
    });
    drop(ran);
    eprintln!("{name}: {felt:?}");
    Some(felt)
}

#[test]
fn an_interface_and_a_rate_cure_both_directions_of_a_line() {
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
