//! Fail open: traffic continues when the forwarding process is killed, or stopped and continued,
//! while probes cross it every 200 µs. The topology is A – R – B by veth; R has a kernel bridge, or
//! A sends for itself (`egress`).
//!
//! This program starts itself again as the forwarding process, and once for each kind of port, two
//! kinds at a time (a case mostly waits), so it has its own `main`. An argument that is a part of a
//! case's name runs only that case. Outages are measured and printed.
//! Their limit is ten times the expected outage, and each case may be tried three times, since
//! other processes may occupy the processors.

#![expect(clippy::print_stdout, reason = "these tests print their measurements")]

use engine::random::Seed;
use engine::tree::{DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes};
use lab::traffic::generator;
use lab::traffic::probe::Probe;
use lab::traffic::tcp::Bulk;
use lab::traffic::udp::{Stream, StreamReport};
use lab::{Host, Running};
use netio::bpf::{Means, clsact};
use netio::fail_open::{self, Capture, LIMIT, Pulse, Switch};
use netio::handle::Handle;
use netio::interface::Interface;
use netio::pool::{Offload, Pool, Slots};
use netio::port::Port;
use netio::ports::af_packet::{self, AfPacket};
use netio::ports::af_xdp::{self, AfXdp, XdpMode};
use netio::ports::egress::Egress;
use netio::worker::{PathSpec, Settings, Worker};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The longest outage permitted.
const OUTAGE: Duration = Duration::from_millis(100);
const TRIES: usize = 3;
const PROBES: u32 = 5000;
/// Kinds of port that are tried at a time.
const AT_A_TIME: usize = 2;

/// How R or A forwards; with "_clsact", programs are attached as before Linux 6.6, with
/// "_per_direction" each direction has a worker of its own.
const KINDS: [&str; 8] = [
    "af_packet",
    "af_packet_clsact",
    "af_packet_per_direction",
    "af_xdp_native",
    "af_xdp_generic",
    "egress",
    "egress_clsact",
    "af_xdp_busy_poll",
];

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [verb, kind, status, interfaces @ ..] = &arguments[..]
        && verb == "forward"
    {
        return forward(kind, Path::new(status), interfaces).map_err(|e| e.to_string().into());
    }
    if let [verb, kind, part] = &arguments[..]
        && verb == "cases"
    {
        return cases(kind, part);
    }
    let part = arguments.iter().find(|a| !a.starts_with('-'));
    every_kind(part.map_or("", String::as_str))
}

/// Runs the cases of each kind in a process of its own.
fn every_kind(part: &str) -> Outcome {
    let next = AtomicUsize::new(0);
    let some = || -> Vec<&str> {
        let kinds = std::iter::from_fn(|| KINDS.get(next.fetch_add(1, Ordering::Relaxed)));
        kinds.copied().filter(|kind| !passes(kind, part)).collect()
    };
    let failed = std::thread::scope(|scope| {
        let all = [(); AT_A_TIME].map(|()| scope.spawn(some));
        all.map(|one| one.join().unwrap_or_else(|_| vec!["a thread"]))
            .concat()
    });
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("failed: {}", failed.join(", ")).into())
}

/// Whether the cases of a kind pass; what they say follows when they have ended.
fn passes(kind: &str, part: &str) -> bool {
    let program = std::env::current_exe().and_then(|program| {
        std::process::Command::new(program)
            .args(["cases", kind, part])
            .output()
    });
    match program {
        Ok(output) => {
            print!("{}", String::from_utf8_lossy(&output.stdout));
            print!("{}", String::from_utf8_lossy(&output.stderr));
            output.status.success()
        }
        Err(error) => {
            println!("{kind}: {error}");
            false
        }
    }
}

fn cases(kind: &str, part: &str) -> Outcome {
    lab::enter()?;
    for (what, case) in CASES {
        let name = format!("{kind}_{what}");
        // Busy polling changes only how the port waits for frames.
        if kind == "af_xdp_busy_poll" && !["killed", "flooded"].contains(&what) {
            continue;
        }
        if name.contains(part) {
            repeat(case, kind, &name)?;
        }
    }
    Ok(())
}

/// Runs a case, and repeats it a few times if it fails.
fn repeat(case: Case, kind: &str, name: &str) -> Outcome {
    for _ in 1..TRIES {
        match case(kind, name) {
            Ok(()) => return Ok(()),
            Err(e) => println!("{name}: {e}; once more"),
        }
    }
    case(kind, name).map_err(|e| format!("{name}: {e}").into())
}

const CLSACT: &str = "_clsact";

fn is_egress(kind: &str) -> bool {
    kind.starts_with("egress")
}

type Case = fn(&str, &str) -> Outcome;
const CASES: [(&str, Case); 15] = [
    ("lets_the_bridge_keep_its_own_address", reachable),
    ("killed", killed),
    ("started_again_after_a_kill", started_again),
    ("leaves_nothing_behind", leaves_nothing),
    ("stopped_and_continued", stopped),
    ("stopped_while_nothing_arrives", stopped_idle),
    ("switched_off_and_on", switched),
    ("interface_comes_back", comes_back),
    ("renamed_interface_leaves_traffic_to_the_bridge", renamed),
    ("refused_attachment_leaves_traffic_to_the_bridge", no_descriptors),
    ("lets_the_bridge_rule_on_spanning_tree", spanning_tree),
    ("sends_nothing_twice_when_it_takes_over", never_twice),
    ("long_frames", long_frames),
    ("several_queues", several_queues),
    ("flooded", flooded),
];

/// The forwarding process, which is to be killed: it moves frames between two interfaces, and
/// writes the number of frames received to a file.
fn forward(kind: &str, status: &Path, interfaces: &[String]) -> Outcome {
    let means = if kind.ends_with(CLSACT) {
        Means::Filters
    } else {
        Means::Best
    };
    match (kind.trim_end_matches(CLSACT), interfaces) {
        ("egress", [interface]) => {
            let (mut worker, handle) = Worker::new(Settings::default())?;
            let (port, pulse) = fail_open::single(Egress::open(interface, 64)?, LIMIT, means)?;
            let (port, switch) = (worker.add_port(Box::new(port)), pulse.switch());
            worker.set_gate(Box::new(pulse), &[port]);
            worker.add_path(path("out", port, port)?);
            report(vec![worker], &handle, &[switch], status)
        }
        ("af_packet", [one, other]) => {
            let open = |name: &str| AfPacket::open(af_packet::Settings::new(name));
            bump([open(one)?, open(other)?], means, status)
        }
        ("af_packet_per_direction", [one, other]) => per_direction([one, other], status),
        ("af_xdp_native" | "af_xdp_generic" | "af_xdp_busy_poll", [one, other]) => {
            let generic = kind == "af_xdp_generic";
            let settings = af_xdp::Settings {
                mode: if generic {
                    XdpMode::Generic
                } else {
                    XdpMode::Native
                },
                busy_poll: (kind == "af_xdp_busy_poll").then_some(64),
                ..af_xdp::Settings::default()
            };
            bump(
                [AfXdp::open(one, settings)?, AfXdp::open(other, settings)?],
                means,
                status,
            )
        }
        _ => Err(format!("unknown kind {kind}, or not its number of interfaces").into()),
    }
}

fn bump<P: Capture + 'static>(ports: [P; 2], means: Means, status: &Path) -> Outcome {
    let (mut worker, handle) = Worker::new(Settings::default())?;
    let (guarded, pulse) = fail_open::bump(ports, LIMIT, means)?;
    let [one, other] = guarded.map(|port| worker.add_port(Box::new(port)));
    let switch = pulse.switch();
    worker.set_gate(Box::new(pulse), &[one, other]);
    for (name, from, to) in [("up", one, other), ("down", other, one)] {
        worker.add_path(path(name, from, to)?);
    }
    report(vec![worker], &handle, &[switch], status)
}

fn per_direction(names: [&String; 2], status: &Path) -> Outcome {
    let open = |name: &str, receive| {
        AfPacket::open(af_packet::Settings {
            receive,
            promiscuous: receive,
            ..af_packet::Settings::new(name)
        })
    };
    let [one, other] = names;
    let receiving = [open(one, true)?, open(other, true)?];
    let sending = [open(other, false)?, open(one, false)?];
    let (guarded, pulses) = fail_open::bumps(receiving, LIMIT, Means::Best)?;
    let switches = [&pulses[0], &pulses[1]].map(Pulse::switch);
    let (mut workers, mut handles) = (Vec::new(), Vec::new());
    for (((from, pulse), to), name) in guarded.into_iter().zip(pulses).zip(sending).zip(["up", "down"]) {
        let (mut worker, handle) = Worker::new(Settings::default())?;
        let ports = [worker.add_port(Box::new(from)), worker.add_port(Box::new(to))];
        worker.set_gate(Box::new(pulse), &ports);
        worker.add_path(path(name, ports[0], ports[1])?);
        workers.push(worker);
        handles.push(handle);
    }
    let handle = Handle::joined(&workers, &handles);
    report(workers, &handle, &switches, status)
}

fn path(name: &str, from: netio::worker::PortId, to: netio::worker::PortId) -> Outcome<PathSpec> {
    let link = engine::link::Link::new(Bandwidth::gbit(100), Bytes::new(1514));
    let fifo = DisciplineSpec::new("fifo").check(&Registry::builtin(), link);
    let plan = fifo.map_err(|problems| format!("{problems:?}"))?;
    Ok(PathSpec::new(name, (from, to), plan.build(Seed(1))))
}

/// Runs the workers and reports their status to the test.
///
/// While there is a file with the extension "off" beside the status file, the ports are switched
/// off; a file with the extension "quit" ends the process.
fn report(workers: Vec<Worker>, handle: &Handle, switches: &[Switch], status: &Path) -> Outcome {
    let running: Vec<_> = workers
        .into_iter()
        .map(|worker| std::thread::spawn(move || worker.run()))
        .collect();
    while !running.iter().all(JoinHandle::is_finished) {
        let snapshot = handle.inspect()?;
        let on = !status.with_extension("off").exists();
        switches.iter().for_each(|switch| switch.set(on));
        let received: u64 = snapshot.ports.iter().map(|port| port.counters.received).sum();
        let next = status.with_extension("next");
        // Without descriptors the last status stays.
        let _ = std::fs::write(&next, format!("{received}")).and_then(|()| std::fs::rename(&next, status));
        if status.with_extension("quit").exists() {
            handle.stop();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The wire of a case; returns from the case where the port is not available.
macro_rules! wire_or_return {
    ($kind:expr, $name:expr, $shape:expr) => {
        match wire($kind, $name, $shape)? {
            Some(wire) => wire,
            None => return Ok(()),
        }
    };
}

/// The settings of the interfaces.
#[derive(Clone, Copy)]
struct Shape {
    mtu: u32,
    queues: u32,
}

const PLAIN: Shape = Shape { mtu: 1500, queues: 1 };

/// A – R – B, and a process in R that forwards between its two sides.
struct Wire {
    a: Host,
    r: Host,
    b: Host,
    forwarder: Option<Running>,
    status: PathBuf,
}

impl Wire {
    fn new(kind: &str, Shape { mtu, queues }: Shape) -> Outcome<Self> {
        let (a, r, b) = (Host::new("a")?, Host::new("r")?, Host::new("b")?);
        a.netlink(|n| n.veth_with_queues("eth0", "lan0", r.namespace(), queues))?;
        b.netlink(|n| n.veth_with_queues("eth0", "wan0", r.namespace(), queues))?;
        for (host, interface) in [(&a, "eth0"), (&r, "lan0"), (&r, "wan0"), (&b, "eth0")] {
            host.netlink(|n| {
                n.mtu(interface, mtu)?;
                n.up(interface)
            })?;
        }
        for (host, interface, address) in [
            (&a, "eth0", "10.0.0.1/24"),
            (&b, "eth0", "10.0.0.2/24"),
            (&r, "br0", "10.0.0.3/24"),
        ] {
            if interface == "br0" {
                r.bridge("br0", &["lan0", "wan0"])?;
            }
            host.address(interface, address.parse()?)?;
        }
        if kind == "af_xdp_generic" {
            // As the port's documentation requires.
            for host in [&a, &b] {
                host.offload("eth0", lab::host::OffloadFeature::Tso, false)?;
                host.offload("eth0", lab::host::OffloadFeature::Gso, false)?;
            }
        }
        // In a box of its own, the process of another kind may have the same number.
        let name = format!("suimon-fail-open-{kind}-{}", std::process::id());
        let status = std::env::temp_dir().join(name);
        let mut wire = Self {
            a,
            r,
            b,
            forwarder: None,
            status,
        };
        wire.start(kind)?;
        Ok(wire)
    }

    /// Starts the forwarding process and waits until it is ready.
    fn start(&mut self, kind: &str) -> Outcome {
        let _ = std::fs::remove_file(&self.status);
        let program = std::env::current_exe()?;
        let program = program.to_str().ok_or("this program's path is not UTF-8")?;
        let status = self
            .status
            .to_str()
            .ok_or("the path of temporary files is not UTF-8")?;
        let (host, interfaces) = self.forwarding_host(kind);
        let program = host
            .program(program)
            .args(["forward", kind, status])
            .args(interfaces);
        self.forwarder = Some(program.start()?);
        let since = Instant::now();
        while self.status().is_none() {
            let running = self.forwarder.as_ref().is_some_and(Running::is_running);
            if !running || since.elapsed() > Duration::from_secs(5) {
                let output = self.forwarder.take().map(Running::kill).transpose()?;
                return Err(output.map_or("it did not start".into(), |output| output.err.into()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// The host of the forwarding process, and its interfaces.
    fn forwarding_host(&self, kind: &str) -> (&Host, &'static [&'static str]) {
        if is_egress(kind) {
            (&self.a, &["eth0"])
        } else {
            (&self.r, &["lan0", "wan0"])
        }
    }

    /// The BPF filters of each interface; none for one without a clsact qdisc.
    fn filters(&self, kind: &str) -> Outcome<Vec<Option<Vec<String>>>> {
        let (host, interfaces) = self.forwarding_host(kind);
        let all = host.call(move || {
            let names = |name: &&str| clsact::names(Interface::named(name)?.index);
            interfaces.iter().map(names).collect::<std::io::Result<Vec<_>>>()
        });
        Ok(all??)
    }

    /// The number of frames that the process has received, by its last report.
    fn status(&self) -> Option<u64> {
        std::fs::read_to_string(&self.status).ok()?.parse().ok()
    }

    /// The same by a fresh report. While the file is written it may be empty.
    fn received(&self) -> u64 {
        std::thread::sleep(Duration::from_millis(60));
        let again = || std::thread::sleep(Duration::from_millis(1));
        (0..1000)
            .find_map(|_| {
                self.status().or_else(|| {
                    again();
                    None
                })
            })
            .unwrap_or(0)
    }

    /// Sends a stream while nothing else happens: the receiver's report, and how many frames the
    /// process received.
    fn send(&self, rate: u32, payload: usize, duration: Duration) -> Outcome<(StreamReport, u64)> {
        let before = self.received();
        let report = stream(rate, payload, duration)?
            .start(&self.a, &self.b)?
            .finish()?;
        let after = self.received();
        let taken = after.checked_sub(before);
        let taken = taken.ok_or_else(|| format!("{before} frames through the process, later {after}"))?;
        Ok((report, taken))
    }

    fn signal(&self, name: &str) -> Outcome {
        let id = self.forwarder.as_ref().ok_or("it does not run")?.id();
        let done = std::process::Command::new("sh")
            .args(["-c", &format!("kill -{name} {id}")])
            .status()?;
        if done.success() {
            Ok(())
        } else {
            Err(format!("kill -{name} failed").into())
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        drop(self.forwarder.take());
        let _ = std::fs::remove_file(&self.status);
        let _ = std::fs::remove_file(self.status.with_extension("quit"));
    }
}

/// Parts of the errors of a port that is not available here.
const UNAVAILABLE: [&str; 5] = [
    "has no AF_XDP",
    "CAP_BPF",
    "not permitted",
    "opening a TAP interface",
    "Linux",
];

/// A wire; none, with a report of the skipped test, if the port is not available to this machine or
/// user.
fn wire(kind: &str, name: &str, shape: Shape) -> Outcome<Option<Wire>> {
    let error = match Wire::new(kind, shape) {
        Ok(wire) => return Ok(Some(wire)),
        Err(error) => error.to_string(),
    };
    if !UNAVAILABLE.iter().any(|part| error.contains(part)) {
        return Err(error.into());
    }
    skips::skipped(format_args!("{name}: {error}"));
    Ok(None)
}

fn stream(rate: u32, payload: usize, duration: Duration) -> Outcome<Stream> {
    Ok(Stream {
        to: "10.0.0.2:0".parse()?,
        shape: generator::TrafficShape::per_second(rate, payload, duration),
    })
}

fn summary(name: &str, report: &StreamReport) {
    println!(
        "{name}: outage {:.1} ms, {} of {} lost, {} twice, {} out of order",
        report.longest_outage().as_secs_f64() * 1e3,
        report.lost(),
        report.sent,
        report.duplicates,
        report.reordered
    );
}

fn bounded(report: &StreamReport, duplicates: u64) -> Outcome {
    let outage = report.longest_outage();
    if outage >= OUTAGE || report.duplicates > duplicates || report.arrivals.len() < report.sent as usize / 2
    {
        return Err(format!("not within bounds: {outage:?}, {} twice", report.duplicates).into());
    }
    Ok(())
}

fn killed(kind: &str, name: &str) -> Outcome {
    let mut wire = wire_or_return!(kind, name, PLAIN);
    let run = stream(PROBES, 64, Duration::from_millis(1500))?.start(&wire.a, &wire.b)?;
    std::thread::sleep(Duration::from_millis(700));
    let received = wire.received();
    if received < 1000 {
        return Err(format!("only {received} frames passed through the process before it was killed").into());
    }
    wire.forwarder.take().map(Running::kill).transpose()?;
    let report = run.finish()?;
    summary(name, &report);
    bounded(&report, u64::MAX)
}

/// After a kill, frames first take the kernel's path, then go through the next process, none of
/// them twice; and there are no more filters than before.
fn started_again(kind: &str, name: &str) -> Outcome {
    let mut wire = wire_or_return!(kind, name, PLAIN);
    let before = wire.filters(kind)?;
    wire.forwarder.take().map(Running::kill).transpose()?;
    std::thread::sleep(Duration::from_millis(100));
    let report = stream(1000, 64, Duration::from_millis(300))?
        .start(&wire.a, &wire.b)?
        .finish()?;
    summary(name, &report);
    expect(report.lost() < 30, "after the kill", &report, 0)?;
    wire.start(kind)?;
    let (report, taken) = wire.send(1000, 64, Duration::from_millis(300))?;
    let all = taken >= 150 && report.arrivals.len() >= 250 && report.duplicates == 0;
    expect(all, "started again", &report, taken)?;
    let after = wire.filters(kind)?;
    println!("{name}: filters {after:?}");
    if before == after && (!kind.ends_with(CLSACT) || before.iter().all(Option::is_some)) {
        return Ok(());
    }
    Err(format!("filters: {before:?}, after the next start {after:?}").into())
}

/// After a clean exit no program is attached.
fn leaves_nothing(kind: &str, name: &str) -> Outcome {
    let mut wire = wire_or_return!(kind, name, PLAIN);
    std::fs::write(wire.status.with_extension("quit"), "")?;
    let end = wire.forwarder.take().map(Running::wait).transpose()?;
    if wire.filters(kind)?.iter().any(Option::is_some) {
        return Err(format!("filters are left: {:?} {end:?}", wire.filters(kind)?).into());
    }
    let report = stream(1000, 64, Duration::from_millis(200))?
        .start(&wire.a, &wire.b)?
        .finish()?;
    expect(
        report.lost() < 20 && report.duplicates == 0,
        "afterwards",
        &report,
        0,
    )
}

fn stopped(kind: &str, name: &str) -> Outcome {
    let wire = wire_or_return!(kind, name, PLAIN);
    let run = stream(PROBES, 64, Duration::from_millis(2200))?.start(&wire.a, &wire.b)?;
    std::thread::sleep(Duration::from_millis(600));
    let before = wire.received();
    wire.signal("STOP")?;
    std::thread::sleep(Duration::from_millis(500));
    wire.signal("CONT")?;
    std::thread::sleep(Duration::from_millis(400));
    let after = wire.received();
    let report = run.finish()?;
    summary(name, &report);
    if before < 1000 || after < before + 300 {
        return Err(
            format!("{before} frames through the process before it was stopped, {after} after").into(),
        );
    }
    // A frame that crosses during the beat may take both paths.
    bounded(&report, 3)
}

/// Fails with the counts unless the condition is true.
fn expect(condition: bool, step: &str, report: &StreamReport, taken: u64) -> Outcome {
    let (sent, arrived) = (report.sent, report.arrivals.len());
    let text = || format!("{step}: {sent} sent, {taken} taken by the process, {arrived} arrived");
    if condition { Ok(()) } else { Err(text().into()) }
}

/// After a lapse without arrivals, the process takes over again.
fn stopped_idle(kind: &str, name: &str) -> Outcome {
    let wire = wire_or_return!(kind, name, PLAIN);
    wire.signal("STOP")?;
    std::thread::sleep(Duration::from_millis(100));
    wire.signal("CONT")?;
    let (report, taken) = wire.send(1000, 64, Duration::from_millis(300))?;
    expect(
        taken >= 150 && report.arrivals.len() >= 250,
        "it does not take over again",
        &report,
        taken,
    )
}

/// Switched off, all frames take the kernel's own path; switched on again, ours. Hardly any are
/// lost or duplicated at either change.
fn switched(kind: &str, name: &str) -> Outcome {
    let wire = wire_or_return!(kind, name, PLAIN);
    let run = stream(1000, 64, Duration::from_millis(1200))?.start(&wire.a, &wire.b)?;
    std::thread::sleep(Duration::from_millis(300));
    let off = wire.status.with_extension("off");
    std::fs::write(&off, "")?;
    let mut taken = vec![wire.received()];
    std::thread::sleep(Duration::from_millis(300));
    taken.push(wire.received());
    std::fs::remove_file(&off)?;
    let report = run.finish()?;
    taken.push(wire.received());
    summary(name, &report);
    // While switched off, a packet socket still receives copies; they are discarded.
    let quiet = kind.starts_with("af_packet") || taken[1] < taken[0] + 100;
    expect(
        quiet && taken[2] > taken[1] + 200,
        "off and on",
        &report,
        taken[2],
    )?;
    expect(
        report.lost() < 30 && report.duplicates < 30,
        "lost or twice",
        &report,
        taken[2],
    )
}

/// The interface is removed, and another one of the same name appears.
fn comes_back(kind: &str, name: &str) -> Outcome {
    let wire = wire_or_return!(kind, name, PLAIN);
    if is_egress(kind) {
        wire.a.netlink(|n| n.delete("eth0"))?;
        std::thread::sleep(Duration::from_millis(250));
        wire.a.netlink(|n| n.veth("eth0", "lan0", wire.r.namespace()))?;
        wire.a.netlink(|n| n.up("eth0"))?;
        wire.a.address("eth0", "10.0.0.1/24".parse()?)?;
    } else {
        wire.r.netlink(|n| n.delete("lan0"))?;
        std::thread::sleep(Duration::from_millis(250));
        wire.a.netlink(|n| n.veth("eth0", "lan0", wire.r.namespace()))?;
        wire.a.netlink(|n| n.up("eth0"))?;
        wire.a.address("eth0", "10.0.0.1/24".parse()?)?;
    }
    wire.r.netlink(|n| {
        n.enslave("lan0", "br0")?;
        n.up("lan0")
    })?;
    std::thread::sleep(Duration::from_millis(500));
    let (report, taken) = wire.send(1000, 64, Duration::from_millis(300))?;
    expect(
        taken >= 150 && report.arrivals.len() >= 250,
        "after it came back",
        &report,
        taken,
    )?;
    expect(report.duplicates == 0, "programs are missing", &report, taken)
}

/// What crosses within 300 ms, after so long a time for what happened before to be noticed.
fn crossing(wire: &Wire) -> Outcome<(StreamReport, u64)> {
    std::thread::sleep(Duration::from_millis(300));
    wire.send(1000, 64, Duration::from_millis(300))
}

/// An interface has another name, and is still a port of the bridge: the bridge forwards until it
/// has its name again.
fn renamed(kind: &str, name: &str) -> Outcome {
    if is_egress(kind) {
        // Renaming takes the routes of A away, with or without a process.
        return Ok(());
    }
    let wire = wire_or_return!(kind, name, PLAIN);
    let rename = |from: &'static str, to: &'static str| {
        wire.r.netlink(|n| {
            n.down(from)?;
            n.rename(from, to)?;
            n.up(to)
        })
    };
    rename("wan0", "other0")?;
    let (report, taken) = crossing(&wire)?;
    summary(name, &report);
    expect(report.arrivals.len() >= 250, "renamed", &report, taken)?;
    rename("other0", "wan0")?;
    let (report, taken) = crossing(&wire)?;
    let back = taken >= 150 && report.arrivals.len() >= 250;
    expect(back, "it does not take traffic back", &report, taken)
}

/// The process has no descriptors left when a link flaps, so programs cannot be attached again: the
/// bridge forwards until there are descriptors.
fn no_descriptors(kind: &str, name: &str) -> Outcome {
    if is_egress(kind) {
        // A's routes go with its link.
        return Ok(());
    }
    let wire = wire_or_return!(kind, name, PLAIN);
    let limit = |descriptors: u32| -> Outcome {
        let id = wire.forwarder.as_ref().ok_or("it does not run")?.id();
        let done = std::process::Command::new("prlimit")
            .args([format!("--pid={id}"), format!("--nofile={descriptors}:1024")])
            .status()?;
        if done.success() {
            Ok(())
        } else {
            Err("prlimit failed".into())
        }
    };
    limit(4)?;
    wire.r.netlink(|n| {
        n.down("wan0")?;
        n.up("wan0")
    })?;
    let (report, taken) = crossing(&wire)?;
    summary(name, &report);
    expect(report.arrivals.len() >= 250, "no descriptors", &report, taken)?;
    limit(1024)?;
    let (report, taken) = crossing(&wire)?;
    let back = taken >= 150 && report.arrivals.len() >= 250;
    expect(back, "it does not take traffic back", &report, taken)
}

/// To the bridges' group address, as spanning tree sends it.
const BRIDGE_GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];

/// A bridge that does not speak spanning tree forwards its frames; with a process beside it too,
/// and once.
fn spanning_tree(kind: &str, name: &str) -> Outcome {
    const SENT: usize = 20;
    if is_egress(kind) {
        return Ok(());
    }
    let wire = wire_or_return!(kind, name, PLAIN);
    let open = || AfPacket::open(af_packet::Settings::new("eth0"));
    let mut pool = Pool::new(Slots { small: 256, big: 256 })?;
    for (from, to) in [(&wire.a, &wire.b), (&wire.b, &wire.a)] {
        let (mut from, mut to) = (from.call(open)??, to.call(open)??);
        let mut frame = vec![0; 60];
        frame[..6].copy_from_slice(&BRIDGE_GROUP);
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 7]);
        // LLC of spanning tree: 802.3 length, SAPs 0x42, unnumbered information.
        frame[12..17].copy_from_slice(&[0, 38, 0x42, 0x42, 3]);
        for _ in 0..SENT {
            let slot = pool.put(&frame, Offload::default()).ok_or("no slot")?;
            from.transmit(&mut pool, slot);
        }
        from.kick(&mut pool)?;
        std::thread::sleep(Duration::from_millis(200));
        let mut got = Vec::new();
        for _ in 0..10 {
            to.receive(&mut pool, &mut got)?;
        }
        let group = got
            .iter()
            .filter(|frame| pool.bytes(**frame).starts_with(&BRIDGE_GROUP));
        let heard = group.count();
        got.into_iter().for_each(|frame| pool.free(frame));
        println!("{name}: of {SENT} frames of spanning tree {heard} crossed");
        if heard != SENT {
            return Err(format!("of {SENT} frames of spanning tree {heard} crossed").into());
        }
    }
    Ok(())
}

/// While it lapses and takes over again and again, a frame goes by the bridge or by the process.
fn never_twice(kind: &str, name: &str) -> Outcome {
    let wire = wire_or_return!(kind, name, PLAIN);
    let run = stream(PROBES, 64, Duration::from_millis(3000))?.start(&wire.a, &wire.b)?;
    std::thread::sleep(Duration::from_millis(200));
    for _ in 0..20 {
        wire.signal("STOP")?;
        std::thread::sleep(Duration::from_millis(60));
        wire.signal("CONT")?;
        std::thread::sleep(Duration::from_millis(60));
    }
    let report = run.finish()?;
    summary(name, &report);
    // The programs look at the clock about a microsecond after the socket does.
    if report.duplicates > 1 {
        return Err(format!("{} frames came twice", report.duplicates).into());
    }
    Ok(())
}

/// Datagrams of 8000 bytes at an MTU of 9000.
fn long_frames(kind: &str, name: &str) -> Outcome {
    let wire = wire_or_return!(kind, name, Shape { mtu: 9000, ..PLAIN });
    let (report, taken) = wire.send(1000, 8000, Duration::from_millis(300))?;
    expect(
        taken >= 150 && report.arrivals.len() >= 250,
        "long frames",
        &report,
        taken,
    )
}

/// Flows spread over three receive queues all go through the process.
fn several_queues(kind: &str, name: &str) -> Outcome {
    let wire = wire_or_return!(kind, name, Shape { queues: 3, ..PLAIN });
    for _ in 0..6 {
        let (report, taken) = wire.send(1000, 64, Duration::from_millis(100))?;
        expect(
            taken >= 50 && report.arrivals.len() >= 80,
            "one flow",
            &report,
            taken,
        )?;
    }
    Ok(())
}

/// While the port is alive, hosts on both sides reach the bridge itself and it reaches them;
/// broadcasts arrive once.
fn reachable(kind: &str, name: &str) -> Outcome {
    let wire = wire_or_return!(kind, name, PLAIN);
    for (from, to, address) in [
        (&wire.a, &wire.r, "10.0.0.3:0"),
        (&wire.b, &wire.r, "10.0.0.3:0"),
        (&wire.r, &wire.b, "10.0.0.2:0"),
    ] {
        let report = Probe::new(address.parse()?, 10).run(from, to)?;
        if report.unanswered > 2 {
            return Err(format!("{} to {address}: {report:?}", from.name()).into());
        }
    }
    let received = broadcasts(&wire)?;
    println!("{name}: of 50 broadcasts {received} were received on the other side");
    if !(45..=50).contains(&received) {
        return Err(format!("50 broadcasts were received {received} times").into());
    }
    Ok(())
}

/// How many datagrams B receives when A sends 50 broadcasts.
fn broadcasts(wire: &Wire) -> Outcome<usize> {
    let receiver = wire.b.call(|| std::net::UdpSocket::bind("0.0.0.0:4000"))??;
    receiver.set_read_timeout(Some(Duration::from_millis(300)))?;
    let sender = wire.a.call(|| std::net::UdpSocket::bind("10.0.0.1:0"))??;
    sender.set_broadcast(true)?;
    for n in 0..50u8 {
        sender.send_to(&[n; 100], "10.0.0.255:4000")?;
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut received = 0;
    while receiver.recv(&mut [0; 200]).is_ok() {
        received += 1;
    }
    Ok(received)
}

/// A flood of TCP and of short datagrams gets through in part; speed is measured by benches.
fn flooded(kind: &str, name: &str) -> Outcome {
    let wire = wire_or_return!(kind, name, PLAIN);
    let bulk = Bulk::new("10.0.0.2:0".parse()?, Duration::from_millis(500))
        .start(&wire.a, &wire.b)?
        .finish()?;
    let run = stream(1_000_000, 22, Duration::from_millis(100))?
        .start(&wire.a, &wire.b)?
        .finish()?;
    println!(
        "{name}: {} bytes of TCP; of {} short datagrams {} arrived",
        bulk.received,
        run.sent,
        run.arrivals.len()
    );
    if bulk.received < 1 << 20 || run.arrivals.len() < 1000 {
        return Err("almost nothing arrived".into());
    }
    Ok(())
}
