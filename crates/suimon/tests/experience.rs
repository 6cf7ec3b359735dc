//! What `suimon run` measures of the connections that pass, against a path whose delays are known
//! and against what the ends themselves have.
//!
//! ```text
//!  server ── 15 ms ── router: suimon on eth1, both directions ── 5 ms ── home
//! ```

#[path = "stubs/answering.rs"]
mod answering;

use answering::answering;
use control::experienced::{ExperienceView, RoundTripView};
use control::snapshot::{InterfaceView, Snapshot};
use engine::random::Seed;
use engine::tree::Registry;
use lab::{Host, Running};
use scenario::folder::Folder;
use scenario::lab::{Instruments, build};
use scenario::topology::Topology;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const NETWORK: &str = "version = 1\nhosts = [\"server\", \"router\", \"home\"]\n\
    [[link]]\nbetween = [\"server\", \"router\"]\nrate = \"1 Gbit/s\"\ndelay = \"15 ms\"\n\
    [[link]]\nbetween = [\"router\", \"home\"]\nrate = \"1 Gbit/s\"\ndelay = \"5 ms\"\n";
const POLICY: &str = "version = 1\n[port]\negress = \"eth1\"\ningress = \"eth1\"\n\
    [interface.eth1]\nbandwidth = \"200 Mbit/s\"\nexperience = \"hosts\"\ndiscipline = \"drr\"\n\
    [[interface.eth1.class]]\nname = \"quiet\"\n\
    [[interface.eth1.class]]\nname = \"rest\"\ndefault = true\n\
    [[interface.eth1.filter]]\nclass = \"quiet\"\nprotocol = \"udp\"\n\
    [[interface.eth1.expect]]\nclass = \"rest\"\nmetric = \"round-trip-p50\"\nover = \"2 s\"\nat_most = \"20 ms\"\n\
    [[interface.eth1.expect]]\nmetric = \"quality-page\"\nover = \"2 s\"\nat_least = 99\n\
    [interface.\"eth1:in\"]\nbandwidth = \"200 Mbit/s\"\nexperience = \"classes\"\ndiscipline = \"fq_codel\"\n";
const EXCHANGES: usize = 120;
const MS: u64 = 1_000_000;

/// Sends and gets back a little, again and again; how long each exchange took.
fn exchanges(server: &Host, home: &Host, to: SocketAddr) -> Vec<Duration> {
    let (port, address) = std::sync::mpsc::channel();
    let echo = server.spawn("echo", move || {
        let listener = TcpListener::bind(to).expect("a socket");
        port.send(listener.local_addr().expect("an address"))
            .expect("asked for");
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let mut bytes = [0; 300];
        while stream.read_exact(&mut bytes).is_ok() {
            stream.write_all(&bytes).expect("it is sent");
        }
    });
    let address = address.recv().expect("an address");
    let asks = move || {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let mut bytes = [7; 300];
        let mut exchange = || {
            let begin = Instant::now();
            stream.write_all(&bytes).expect("it is sent");
            stream.read_exact(&mut bytes).expect("an answer");
            begin.elapsed()
        };
        (0..EXCHANGES).map(|_| exchange()).collect()
    };
    let times = home.call(asks).expect("a thread");
    echo.expect("a thread")
        .join()
        .expect("its end")
        .expect("its host");
    times
}

/// `suimon run` with the policy; none if the machine forbids it.
fn run_on(router: &Host, files: &Path) -> Option<Running> {
    let [policy, socket] = ["policy.toml", "control.sock"].map(|name| files.join(name).display().to_string());
    std::fs::write(&policy, POLICY).expect("a file");
    let program = router.program(env!("CARGO_BIN_EXE_suimon"));
    let program = program.args(["run", &policy, "--socket", &socket]);
    let running = program.limit(Duration::from_secs(90)).start().expect("it starts");
    answering(running, &socket, Duration::from_secs(10), &[])
}

/// Everything since the start.
fn status(socket: &str) -> Snapshot {
    let program = Command::new(env!("CARGO_BIN_EXE_suimon"));
    let mut program = program;
    let shown = program
        .args(["status", "--json", "--interval", "0s", "--socket", socket])
        .output();
    let shown = shown.expect("it runs").stdout;
    serde_json::from_slice(&shown).expect("a snapshot")
}

fn interface<'a>(snapshot: &'a Snapshot, name: &str) -> &'a InterfaceView {
    let mut interfaces = snapshot.interfaces.iter();
    interfaces.find(|of| of.name == name).expect("it is managed")
}

/// How far the median is from the right one, where there are enough samples.
fn off(of: Option<RoundTripView>, right: u64) -> u64 {
    let of = of.expect("it was measured");
    assert!(of.samples >= EXCHANGES as u64 / 2, "{of:?}");
    of.p50_ns.abs_diff(right)
}

/// The greatest of how far the medians are off.
fn worst(down: &ExperienceView, up: &ExperienceView, between_ends: u64) -> u64 {
    let all = [
        off(down.ahead, 10 * MS),
        off(down.behind, 30 * MS),
        off(down.whole, between_ends),
        off(up.ahead, 30 * MS),
        off(up.behind, 10 * MS),
        off(up.whole, between_ends),
    ];
    eprintln!("off by {all:?} ns of 10, 30 and {between_ends} ns");
    all.into_iter().max().unwrap_or_default()
}

fn measured(timestamps: bool, files: &Path) -> Option<(u64, Snapshot)> {
    let topology = Topology::read("path", NETWORK, &Registry::builtin(), &Folder::of("path"));
    let topology = topology.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let built = build(&topology, &Registry::builtin(), &Instruments::default(), Seed(1)).expect("a lab");
    let [server, router, home] = built.lab.hosts() else {
        panic!("three hosts")
    };
    let wanted = if timestamps { "1" } else { "0" };
    home.set("net/ipv4/tcp_timestamps", wanted).expect("a setting");
    let running = run_on(router, files)?;
    let to = SocketAddr::new(built.interfaces[0][0].addresses[0].ip, 0);
    let at_home = built.interfaces[2][0].addresses[0].ip;
    let mut times = exchanges(server, home, to);
    times.sort_unstable();
    let between_ends = u64::try_from(times[EXCHANGES / 2].as_nanos()).expect("not so long");
    let snapshot = status(&files.join("control.sock").display().to_string());
    drop(running);
    let (down, up) = (interface(&snapshot, "eth1"), interface(&snapshot, "eth1:in"));
    let class = down
        .classes
        .iter()
        .find(|class| class.name == "rest")
        .expect("a class");
    let of_class = class.traffic.experience.as_ref().expect("it had connections");
    let of_up = up.traffic.experience.as_ref();
    let worst = worst(of_class, of_up.expect("it had connections"), between_ends);
    judge(down, of_class, at_home);
    Some((worst, snapshot))
}

/// What does not depend on how busy the machine is.
fn judge(down: &InterfaceView, of_class: &ExperienceView, at_home: IpAddr) {
    assert_eq!(
        down.traffic.experience.as_ref(),
        Some(of_class),
        "the other class had nothing"
    );
    let quiet = down.classes.iter().find(|class| class.name == "quiet");
    assert_eq!(quiet.expect("a class").traffic.experience, None);
    let [host] = &down.hosts[..] else {
        panic!("{:?}", down.hosts)
    };
    assert_eq!(host.address, at_home);
    // Both directions of it, and the class has one.
    assert!(host.experience.segments >= 2 * EXCHANGES as u64 - 4, "{host:?}");
    assert!(
        (EXCHANGES as u64 - 2..EXCHANGES as u64 + 20).contains(&of_class.segments),
        "{of_class:?}"
    );
    assert_eq!(of_class.quality.map(|quality| quality.page), Some(100));
    // A handshake of 40 ms, and exchanges of 40 ms: 1,500 a minute.
    let rpm = of_class.rpm.expect("a handshake and exchanges");
    assert!((1_000..=1_510).contains(&rpm), "{rpm}");
}

fn expectations_were_judged(snapshot: &Snapshot) {
    let expected = &interface(snapshot, "eth1").expectations;
    let verdicts: Vec<_> = expected
        .iter()
        .map(|one| (one.met, one.measured.is_some()))
        .collect();
    assert_eq!(verdicts, [(false, true), (true, true)], "{expected:?}");
}

/// With and without timestamps, in one of five tries: other programs may occupy the processors.
#[test]
fn the_median_round_trips_of_a_known_path_are_at_most_1_ms_off() {
    lab::isolated(|| {
        for timestamps in [true, false] {
            let files =
                std::env::temp_dir().join(format!("suimon-experience-{timestamps}-{}", std::process::id()));
            std::fs::create_dir_all(&files).expect("a folder");
            let good = (0..5).any(|_| {
                // None: the machine forbids it.
                measured(timestamps, &files).is_none_or(|(worst, snapshot)| {
                    expectations_were_judged(&snapshot);
                    worst <= MS
                })
            });
            let _ = std::fs::remove_dir_all(&files);
            assert!(good, "more than 1 ms off in each of five tries");
        }
    });
}
