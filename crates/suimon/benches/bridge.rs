//! The cost of a bump in the wire, compared with the kernel's own bridge on the same interfaces:
//! A – R – B over veth. R is a plain kernel bridge; R's other ways of forwarding take turns,
//! round by round.
//!
//! - TCP: one connection (cubic), offloads at their defaults, bytes per second at the receiver;
//! - packets: 60-byte frames (64 on a wire with its check sum), as fast as one socket sends them,
//!   to an address that B discards, counted at B's interface;
//! - round trips: of one small datagram each millisecond that B answers, alone on the wire.
//!
//! A and B stand for other machines, so they are pinned to processor 0, and Suimon to processor
//! 1; the bridge runs where packets come from, on processor 0. Without pinning, the work of the
//! end hosts and of Suimon would be measured together. A also receives its ACKs on processor 0
//! (RPS; needs root). On Suimon's processor, A's kernel would send more data from there and
//! overtake A's data in flight on processor 0, so one host's frames would be reordered. B's
//! kernel receives where frames were sent, on Suimon's processor.
//!
//! A virtual machine's two processors may share a cache at one moment and not at the next, as its
//! host schedules them. The bridge is not affected; a forwarder that moves every byte from one to
//! the other is. So their distance is measured with each TCP measurement, and the ratio is
//! reported separately for near and far processors.
//!
//! Suimon forwards by its default port with a CBQ of 20 classes and 20 filters; the kernel's HTB
//! with 20 classes and no filter. `cargo bench --package suimon --bench bridge [-- ROUNDS]`, as
//! root or not. The machine is shared, and noisy for seconds at a time: the result is the median
//! of the rounds' ratios, each to the measurement in the same round.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use lab::traffic::tcp::Bulk;
use lab::{Host, Lab, Running};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::error::Error;
use std::fmt::Write;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// How R forwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Forwarding {
    Bridge,
    Htb,
    Suimon(&'static str),
}

const FORWARDINGS: [(Forwarding, &str); 5] = [
    (Forwarding::Bridge, "kernel bridge"),
    (Forwarding::Htb, "kernel bridge, HTB of 20 classes"),
    (
        Forwarding::Suimon("af_packet"),
        "suimon run, af_packet, CBQ of 20 classes",
    ),
    (
        Forwarding::Suimon("af_xdp"),
        "suimon run, af_xdp, CBQ of 20 classes",
    ),
    (Forwarding::Bridge, "kernel bridge again (noise)"),
];

/// The sending time of each measurement.
const SPAN: Duration = Duration::from_millis(1500);
const CLASSES: usize = 20;

/// Round trips of one measurement, and the pause before each.
const TRIPS: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(1);

/// A round trip of a word between processors that share a cache takes less: here 40 to 60 ns,
/// otherwise 350 to 2,000.
const NEAR: Duration = Duration::from_nanos(150);
const WORDS: u32 = 20_000;

/// One measurement of TCP.
#[derive(Clone, Copy, Debug)]
struct Tcp {
    rate: f64,
    /// The round-trip time of a word between the processors, before and after.
    apart: [Duration; 2],
}

/// One measurement of round trips, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Trips {
    median: f64,
    /// What 99 of 100 keep within.
    most: f64,
}

/// The distance of the two processors during a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Distance {
    Near,
    Far,
    Moved,
}

impl Tcp {
    fn distance(&self) -> Distance {
        match self.apart.map(|apart| apart < NEAR) {
            [true, true] => Distance::Near,
            [false, false] => Distance::Far,
            _ => Distance::Moved,
        }
    }
}

/// The round-trip time of a word from processor 0 to processor 1 and back.
fn apart() -> Outcome<Duration> {
    let word = AtomicU32::new(0);
    let until = |value| {
        while word.load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let pinned = pin(1).map_err(|e| e.to_string());
            for count in 0..WORDS {
                until(2 * count + 1);
                word.store(2 * count + 2, Ordering::Release);
            }
            pinned
        });
        // The first answer shows that the other thread runs.
        word.store(1, Ordering::Release);
        until(2);
        let begin = Instant::now();
        for count in 1..WORDS {
            word.store(2 * count + 1, Ordering::Release);
            until(2 * count + 2);
        }
        let span = begin.elapsed();
        other.join().map_err(|_| "a thread panicked")??;
        Ok(span / (WORDS - 1))
    })
}

/// Pins this process, and what it starts, to one processor.
fn pin(processor: usize) -> Outcome {
    let mut set = CpuSet::new();
    set.set(processor);
    Ok(sched_setaffinity(None, &set)?)
}

fn main() -> Outcome {
    lab::enter()?;
    pin(0)?;
    let rounds = std::env::args()
        .filter_map(|a| a.parse().ok())
        .next()
        .unwrap_or(5usize);
    let wire = Wire::new()?;
    let mut tcp: Vec<Vec<Tcp>> = vec![Vec::new(); FORWARDINGS.len()];
    let mut packets = vec![Vec::new(); FORWARDINGS.len()];
    let mut trips: Vec<Vec<Trips>> = vec![Vec::new(); FORWARDINGS.len()];
    for round in 1..=rounds {
        for (index, (way, name)) in FORWARDINGS.iter().enumerate() {
            eprintln!("round {round} of {rounds}: {name}");
            match wire.with(*way) {
                Ok(running) => {
                    tcp[index].push(wire.tcp()?);
                    packets[index].push(wire.packets()?);
                    trips[index].push(wire.round_trips()?);
                    drop(running);
                    wire.without(*way)?;
                }
                Err(e) if round == 1 => eprintln!("not measured: {name}: {e}"),
                Err(_) => {}
            }
        }
    }
    print!("{}{}", table(&tcp, &packets), table_of_trips(&trips));
    Ok(())
}

/// Round trips, and what suimon's ways add to the bridge's of the same round.
fn table_of_trips(measured: &[Vec<Trips>]) -> String {
    let mut out = String::new();
    let columns = |of: &[Trips]| {
        let (medians, most): (Vec<f64>, Vec<f64>) = of.iter().map(|one| (one.median, one.most)).unzip();
        (medians, most)
    };
    let _ = writeln!(
        out,
        "\n{:<44} {:>24} {:>28}",
        "R forwards by", "round trip, µs, median", "99 of 100 within"
    );
    for ((_, name), of) in FORWARDINGS.iter().zip(measured) {
        let (medians, most) = columns(of);
        let (medians, most) = (show(&medians, 1.0, 1), show(&most, 1.0, 1));
        let _ = writeln!(out, "{name:<44} {medians:>24} {most:>28}");
    }
    let bridge = columns(&measured[0]);
    for ((way, name), of) in FORWARDINGS.iter().zip(measured) {
        if matches!(way, Forwarding::Suimon(_)) && of.len() == measured[0].len() {
            let (medians, most) = columns(of);
            let (medians, most) = (added(&medians, &bridge.0), added(&most, &bridge.1));
            let _ = writeln!(
                out,
                "{name}, added: {medians} µs in the median (goal 40), {most} at 99 of 100 (goal 200)"
            );
        }
    }
    out
}

/// The median of the rounds' differences with their range.
fn added(of: &[f64], to: &[f64]) -> String {
    let differences: Vec<f64> = of.iter().zip(to).map(|(of, to)| of - to).collect();
    show(&differences, 1.0, 0)
}

/// The table: medians with their range, and the ratios to the peers.
fn table(measured: &[Vec<Tcp>], packets: &[Vec<f64>]) -> String {
    let mut out = String::new();
    let tcp: Vec<Vec<f64>> = measured
        .iter()
        .map(|all| all.iter().map(|one| one.rate).collect())
        .collect();
    let _ = writeln!(
        out,
        "{:<44} {:>24} {:>28}",
        "R forwards by", "TCP Gbit/s", "60-byte frames, k/s"
    );
    for (index, (_, name)) in FORWARDINGS.iter().enumerate() {
        let (tcp, packets) = (show(&tcp[index], 1e-9, 1), show(&packets[index], 1e-3, 1));
        let _ = writeln!(out, "{name:<44} {tcp:>24} {packets:>28}");
    }
    let suimon = FORWARDINGS
        .iter()
        .position(|(way, _)| *way == Forwarding::Suimon("af_packet"))
        .unwrap_or(0);
    // The bridge comes first and last in a round.
    let (first, last) = (&tcp[0], &tcp[FORWARDINGS.len() - 1]);
    let bridge: Vec<f64> = first.iter().zip(last).map(|(a, b)| (a + b) / 2.0).collect();
    for (place, words) in [
        (Distance::Near, "processors that share a cache (goal 0.80)"),
        (Distance::Far, "processors that do not"),
        (Distance::Moved, "moved in between"),
    ] {
        let rounds = measured[suimon].iter().zip(&bridge);
        let here = || rounds.clone().filter(|(one, _)| one.distance() == place);
        let ratios: Vec<f64> = here().map(|(one, bridge)| one.rate / bridge).collect();
        let apart: Vec<f64> = here()
            .flat_map(|(one, _)| one.apart.map(|apart| apart.as_nanos() as f64))
            .collect();
        if !ratios.is_empty() {
            let (rounds, ratio, apart) = (ratios.len(), show(&ratios, 1.0, 2), show(&apart, 1.0, 0));
            let _ = writeln!(
                out,
                "af_packet to the bridge, TCP, {words}: {ratio}; rounds: {rounds}; apart: {apart} ns"
            );
        }
    }
    let _ = writeln!(
        out,
        "af_packet to HTB, frames: {} (goal 1.00)",
        ratio(&packets[suimon], &packets[1]),
    );
    out
}

/// The median of the rounds' ratios with their range.
fn ratio(of: &[f64], to: &[f64]) -> String {
    let ratios = of.iter().zip(to).filter(|(_, to)| **to > 0.0);
    let ratios: Vec<f64> = ratios.map(|(of, to)| of / to).collect();
    show(&ratios, 1.0, 2)
}

fn show(values: &[f64], scale: f64, digits: usize) -> String {
    if values.is_empty() {
        return "-".into();
    }
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!(
        "{:.digits$} ({:.digits$}–{:.digits$})",
        median(values) * scale,
        low * scale,
        high * scale
    )
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Makes A's kernel receive on processor 0. Returns whether that is permitted.
fn acknowledged_on_processor_0(a: &Host, folder: &Path) -> Outcome<bool> {
    let script = "mount -t sysfs sysfs \"$0\" && echo 1 > \"$0/class/net/eth0/queues/rx-0/rps_cpus\"; done=$?; \
                  umount \"$0\"; exit $done";
    let output = a.program("sh").args(["-c", script]).args([folder]).output()?;
    Ok(output.status.success())
}

/// A – R – B.
struct Wire {
    _lab: Lab,
    a: Host,
    r: Host,
    b: Host,
    folder: PathBuf,
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Wire {
    fn new() -> Outcome<Self> {
        let mut lab = Lab::new();
        let (a, r, b) = (lab.host("a")?, lab.host("r")?, lab.host("b")?);
        lab.veth((&a, "eth0"), (&r, "left"))?;
        lab.veth((&r, "right"), (&b, "eth0"))?;
        r.bridge("br0", &["left", "right"])?;
        a.address("eth0", "10.0.0.1/24".parse()?)?;
        b.address("eth0", "10.0.0.2/24".parse()?)?;
        // Frames for this address reach B, which discards them: only forwarding is measured.
        let mac = b.netlink(|n| n.mac("eth0"))?;
        a.netlink(|n| n.neighbour("eth0", "10.0.0.99".parse().unwrap_or([10, 0, 0, 99].into()), mac))?;
        let folder = std::env::temp_dir().join(format!("suimon-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        if !acknowledged_on_processor_0(&a, &folder)? {
            eprintln!("A's ACKs are not pinned to processor 0, which needs root: frames will be reordered");
        }
        Ok(Self {
            _lab: lab,
            a,
            r,
            b,
            folder,
        })
    }

    /// Makes R forward this way; the process runs as long as the returned value lives.
    fn with(&self, way: Forwarding) -> Outcome<Option<Running>> {
        match way {
            Forwarding::Bridge => Ok(None),
            Forwarding::Htb => {
                self.tc("qdisc add dev right root handle 1: htb default 20")?;
                // HTB borrows from a parent class, never from the root itself.
                self.tc("class add dev right parent 1: classid 1:ffff htb rate 100gbit")?;
                for class in 1..=CLASSES {
                    self.tc(&format!(
                        "class add dev right parent 1:ffff classid 1:{class} htb rate 5gbit ceil 100gbit"
                    ))?;
                }
                Ok(None)
            }
            Forwarding::Suimon(kind) => self.run(kind).map(Some),
        }
    }

    fn without(&self, way: Forwarding) -> Outcome {
        match way {
            Forwarding::Htb => self.tc("qdisc del dev right root"),
            // The bridge relearns the hosts' ports.
            _ => {
                std::thread::sleep(Duration::from_millis(200));
                Ok(())
            }
        }
    }

    fn tc(&self, arguments: &str) -> Outcome {
        let output = self.r.program("tc").args(arguments.split(' ')).output()?;
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("tc {arguments}: failed").into())
        }
    }

    fn run(&self, kind: &str) -> Outcome<Running> {
        let policy = self.folder.join("policy.toml");
        std::fs::write(&policy, policy_text(kind))?;
        let socket = self.folder.join(format!("{kind}.sock"));
        let _ = std::fs::remove_file(&socket);
        let running = self
            .r
            .program("taskset")
            .args(["--cpu-list", "1", env!("CARGO_BIN_EXE_suimon")])
            .args([Path::new("run"), &policy, Path::new("--socket"), &socket])
            .start()?;
        let until = Instant::now() + Duration::from_secs(5);
        while !socket.exists() {
            if !running.is_running() || Instant::now() > until {
                let output = running.kill()?;
                return Err(output.err.into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(200));
        Ok(running)
    }

    /// Bits per second of one TCP connection from A to B.
    fn tcp(&self) -> Outcome<Tcp> {
        let before = apart()?;
        let report = Bulk::new("10.0.0.2:0".parse()?, SPAN)
            .start(&self.a, &self.b)?
            .finish()?;
        Ok(Tcp {
            rate: report.received as f64 * 8.0 / SPAN.as_secs_f64(),
            apart: [before, apart()?],
        })
    }

    /// Frames per second that reach B while A sends as fast as one socket can.
    fn packets(&self) -> Outcome<f64> {
        let before = self.arrived()?;
        let start = Instant::now();
        self.a.call(|| -> std::io::Result<()> {
            let socket = UdpSocket::bind("10.0.0.1:0")?;
            socket.connect("10.0.0.99:9")?;
            while start.elapsed() < SPAN {
                for _ in 0..64 {
                    // A full queue on the way is intended, not an error.
                    let _ = socket.send(&[0; 18]);
                }
            }
            Ok(())
        })??;
        let span = start.elapsed();
        std::thread::sleep(Duration::from_millis(50));
        Ok((self.arrived()? - before) as f64 / span.as_secs_f64())
    }

    /// Round trips of small datagrams, one each millisecond.
    fn round_trips(&self) -> Outcome<Trips> {
        let answering = self.b.call(|| UdpSocket::bind("10.0.0.2:0"))??;
        let asking = self.a.call(|| UdpSocket::bind("10.0.0.1:0"))??;
        asking.connect(answering.local_addr()?)?;
        for socket in [&asking, &answering] {
            socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        }
        let mut micros = std::thread::scope(|scope| -> Outcome<Vec<f64>> {
            let answers = scope.spawn(|| -> std::io::Result<()> {
                for _ in 0..TRIPS {
                    let mut word = [0; 8];
                    let (_, from) = answering.recv_from(&mut word)?;
                    let _ = answering.send_to(&word, from)?;
                }
                Ok(())
            });
            let mut micros = Vec::with_capacity(TRIPS);
            for number in 0..TRIPS as u64 {
                std::thread::sleep(PAUSE);
                let (begin, mut word) = (Instant::now(), number.to_le_bytes());
                let _ = asking.send(&word)?;
                let _ = asking.recv(&mut word)?;
                micros.push(begin.elapsed().as_nanos() as f64 / 1e3);
            }
            answers.join().map_err(|_| "a thread panicked")??;
            Ok(micros)
        })?;
        micros.sort_by(f64::total_cmp);
        let within = |part: f64| micros[((TRIPS - 1) as f64 * part) as usize];
        Ok(Trips {
            median: within(0.5),
            most: within(0.99),
        })
    }

    /// Frames that have arrived at B's interface.
    fn arrived(&self) -> Outcome<u64> {
        let text = self
            .b
            .call(|| std::fs::read_to_string("/proc/thread-self/net/dev"))??;
        let line = text.lines().find_map(|line| line.trim().strip_prefix("eth0:"));
        let frames = line
            .and_then(|line| line.split_whitespace().nth(1))
            .ok_or("B has no interface any more")?;
        Ok(frames.parse()?)
    }
}

/// 20 classes and a filter for each, at the egress of `right`; the traffic of the bench falls
/// into the last.
fn policy_text(kind: &str) -> String {
    let mut text = format!(
        "version = 1\n[port]\nkind = \"{kind}\"\nbetween = [\"left\", \"right\"]\n\
         [interface.right]\nbandwidth = \"100 Gbit/s\"\ndiscipline = \"cbq\"\n"
    );
    for class in 1..=CLASSES {
        let default = if class == CLASSES { "default = true\n" } else { "" };
        let _ = write!(
            text,
            "[[interface.right.class]]\nname = \"class-{class}\"\nrate = \"5 %\"\n{default}\
             [[interface.right.filter]]\nclass = \"class-{class}\"\nprotocol = \"tcp\"\ndestination_port = \"{class}\"\n"
        );
    }
    text
}
