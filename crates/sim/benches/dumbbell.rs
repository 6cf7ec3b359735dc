//! The speed of the simulator: packets of a dumbbell's bottleneck per second of wall time.
//!
//! ```text
//!  sender 1 ─┐ 10 Gbit/s, 1 ms                        ┌─ receiver 1
//!    …       a ─── bottleneck, 10 ms, 1000 packets ─── b    …
//!  sender n ─┘                                        └─ receiver n
//! ```
//!
//! `cargo bench -p sim --bench dumbbell -- [ROUNDS] [--only TEXT] [--peer "NAME=COMMAND"]…`
//!
//! `--only` selects rows whose names contain the text. A peer is a program that simulates the same
//! network and prints `… N packets/s …`; it runs in turn with ours, so that both see the same
//! machine.

#![expect(clippy::print_stdout, reason = "a bench prints")]

use engine::classify::{Filter, Ports};
use engine::header::{Family, FlowKey};
use engine::link::Link;
use engine::packet::ClassId;
use engine::random::Seed;
use engine::settings::Table;
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use sim::agent::{Agent, Context};
use sim::link::{Driver, LinkQueue, LinkSpec, PolicyQueue};
use sim::packet::{Payload, Segment, SimPacket};
use sim::simulation::{LinkId, NodeId, Simulation};
use std::io::IsTerminal;
use std::process::Command;
use std::time;

const FRAME: Bytes = Bytes::new(1514);

/// A sender that keeps a window of packets in flight: no TCP, so that the network's own cost shows.
#[derive(Debug)]
struct Window(u32);

impl Agent for Window {
    fn wake(&mut self, cx: &mut Context<'_>) {
        for _ in 0..self.0 {
            cx.send(SimPacket::new(FRAME, Payload::Tcp(Segment::default())));
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>, _packet: &SimPacket) {
        cx.send(SimPacket::new(FRAME, Payload::Tcp(Segment::default())));
    }
}

/// Its other end: acknowledges each packet with a short one.
#[derive(Debug)]
struct Acknowledge;

impl Agent for Acknowledge {
    fn wake(&mut self, _cx: &mut Context<'_>) {}

    fn receive(&mut self, cx: &mut Context<'_>, _packet: &SimPacket) {
        cx.send(SimPacket::new(Bytes::new(66), Payload::Tcp(Segment::default())));
    }
}

/// The two routers and the links between them.
struct Dumbbell {
    sim: Simulation,
    routers: [NodeId; 2],
    bottleneck: LinkId,
}

impl Dumbbell {
    fn new(rate: Bandwidth, queue: LinkQueue) -> Self {
        let mut sim = Simulation::new(Seed(1));
        let routers = ["a", "b"].map(|name| sim.node(name));
        let spec = LinkSpec::new(rate, Duration::from_millis(10));
        let bottleneck = sim.link(routers[0], routers[1], spec.clone().queue(queue));
        sim.link(routers[1], routers[0], spec);
        sim.watch(bottleneck, Duration::from_secs(1));
        Self {
            sim,
            routers,
            bottleneck,
        }
    }

    fn flow(&mut self, number: u16, ends: [Box<dyn Agent>; 2]) {
        let sim = &mut self.sim;
        let hosts = ["sender", "receiver"].map(|side| sim.node(&format!("{side} {number}")));
        let access = LinkSpec::new(Bandwidth::gbit(10), Duration::from_millis(1));
        sim.duplex(hosts[0], self.routers[0], &access);
        sim.duplex(self.routers[1], hosts[1], &access);
        let key = FlowKey {
            family: Family::V4,
            protocol: 6,
            source: u128::from(number),
            destination: u128::from(number) | 1 << 16,
            source_port: Some(number),
            destination_port: Some(5000),
            ..FlowKey::default()
        };
        let start = Instant::START + Duration::from_micros(100 * u64::from(number));
        sim.flow(hosts, key, start, ends).expect("a route");
    }

    /// Packets that went onto the bottleneck, and the seconds that it took.
    fn run(mut self, length: Duration) -> (u64, f64) {
        let begin = time::Instant::now();
        self.sim.run_until(Instant::START + length);
        let wall = begin.elapsed().as_secs_f64();
        let meter = self.sim.meter(self.bottleneck).expect("a meter");
        (meter.classes().iter().map(|class| class.sent.packets).sum(), wall)
    }
}

/// One row: what is simulated.
struct Row {
    name: String,
    run: Box<dyn Fn() -> f64>,
    seen: Vec<f64>,
}

fn row(name: &str, run: impl Fn() -> (u64, f64) + 'static) -> Row {
    Row {
        name: name.into(),
        run: Box::new(move || {
            let (packets, wall) = run();
            packets as f64 / wall
        }),
        seen: Vec::new(),
    }
}

/// A program that simulates the same.
fn peer(text: &str) -> Row {
    let (name, command) = text.split_once('=').expect("--peer NAME=COMMAND");
    let command = command.to_string();
    Row {
        name: name.into(),
        run: Box::new(move || {
            let out = Command::new("sh").args(["-c", &command]).output().expect("sh");
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            let words: Vec<&str> = text.split_whitespace().collect();
            let at = words.iter().position(|word| *word == "packets/s");
            let rate = at.and_then(|at| words[at.checked_sub(1)?].parse().ok());
            rate.unwrap_or_else(|| panic!("`{command}` printed no `N packets/s`: {text}"))
        }),
        seen: Vec::new(),
    }
}

fn windows(flows: u16, rate: Bandwidth, length: Duration) -> (u64, f64) {
    let mut net = Dumbbell::new(rate, LinkQueue::TailDrop(FRAME.times(1000)));
    for number in 1..=flows {
        net.flow(number, [Box::new(Window(100)), Box::new(Acknowledge)]);
    }
    net.run(length)
}

fn tcp(flows: u16, rate: Bandwidth, length: Duration) -> (u64, f64) {
    let mut net = Dumbbell::new(rate, LinkQueue::TailDrop(FRAME.times(1000)));
    for number in 1..=flows {
        net.flow(number, sim::tcp::pair(&sim::tcp::Settings::default()));
    }
    net.run(length)
}

/// A flow in each of so many classes of equal rates, all of which may borrow.
fn classes(number: u16, rate: Bandwidth, length: Duration) -> (u64, f64) {
    let class = |i: u16| ClassSpec {
        name: i.to_string().into(),
        default: i == 0,
        settings: Table::default().text("rate", &format!("{} bit/s", rate.bits() / u64::from(number))),
        ..ClassSpec::default()
    };
    let link = Link::new(rate, FRAME);
    let mut spec = DisciplineSpec::new("cbq");
    spec.classes = (0..number).map(class).collect();
    let plan = spec.check(&Registry::builtin(), link).expect("a tree");
    let filter = |i: u16| Filter {
        source_port: Some(Ports::one(i + 1)),
        ..Filter::new(ClassId(i.into()))
    };
    let mut net = Dumbbell::new(
        rate,
        LinkQueue::Policy(Box::new(PolicyQueue {
            plan,
            filters: (0..number).map(filter).collect(),
            driver: Driver::default(),
        })),
    );
    for number in 1..=number {
        net.flow(number, [Box::new(Window(10)), Box::new(Acknowledge)]);
    }
    net.run(length)
}

fn main() {
    let mut rounds = 5;
    let mut rows = vec![
        row("TCP, 10 flows, 100 Mbit/s", || {
            tcp(10, Bandwidth::mbit(100), Duration::from_secs(60))
        }),
        row("TCP, 1000 flows, 10 Gbit/s", || {
            tcp(1000, Bandwidth::gbit(10), Duration::from_secs(2))
        }),
        row("TCP, 10,000 flows, 100 Gbit/s", || {
            tcp(10_000, Bandwidth::gbit(100), Duration::from_millis(1_200))
        }),
        row("fixed windows, 10 flows, 100 Mbit/s", || {
            windows(10, Bandwidth::mbit(100), Duration::from_secs(60))
        }),
        row("fixed windows, 1000 flows, 10 Gbit/s", || {
            windows(1000, Bandwidth::gbit(10), Duration::from_millis(600))
        }),
        row("fixed windows, 20 classes of cbq, 1 Gbit/s", || {
            classes(20, Bandwidth::gbit(1), Duration::from_secs(6))
        }),
        row("fixed windows, 10,000 classes of cbq, 10 Gbit/s", || {
            classes(10_000, Bandwidth::gbit(10), Duration::from_millis(600))
        }),
    ];
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    while let Some(arg) = args.next() {
        match (arg.as_str(), arg.parse()) {
            ("--only", _) => {
                let text = args.next().expect("--only TEXT");
                rows.retain(|row| row.name.contains(&text));
            }
            ("--peer", _) => rows.push(peer(&args.next().expect("--peer NAME=COMMAND"))),
            (_, Ok(n)) => rounds = n,
            _ => panic!("{arg}? usage: dumbbell [ROUNDS] [--only TEXT] [--peer \"NAME=COMMAND\"]…"),
        }
    }
    let progress = std::io::stderr().is_terminal();
    for round in 1..=rounds {
        for row in &mut rows {
            if progress {
                eprint!("\rround {round} of {rounds}: {:<60}", row.name);
            }
            let rate = (row.run)();
            row.seen.push(rate);
        }
    }
    if progress {
        eprint!("\r{:<90}\r", "");
    }
    println!("{:<48} {:>32}", "simulated", "bottleneck packets/s of wall time");
    for row in &mut rows {
        row.seen.sort_by(f64::total_cmp);
        let (least, most) = (row.seen[0], row.seen[row.seen.len() - 1]);
        let median = row.seen[row.seen.len() / 2];
        println!("{:<48} {median:>12.0} ({least:.0}–{most:.0})", row.name);
    }
}
