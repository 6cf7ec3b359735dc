//! What a packet costs: ns for one enqueue and one dequeue together, for each discipline in its
//! regimes.
//!
//! Packets are recycled: each that is dequeued is enqueued again, to its own class and flow, so
//! the backlog stays the same. The clock is virtual and moves at the speed of the link. A figure
//! is the median of many short rounds, with the least and the most; the machine may be shared, so
//! only ratios are compared with a bar. "generator" is the loop without a queue: part of every
//! other row. "In bursts" 32 packets leave at one time, and return together; the loop of these rows
//! is that of "generator, in bursts".
//!
//! Rounds are taken in turns with the rows of the group, which take each other's memory out of the
//! cache: before each every class is served some times, so that it is where it is when a queue is
//! in use. From 4,096 classes on that would take too long, and each row is measured by itself.
//!
//! Regimes of `cbq`: rates are unequal and add up to half of the link; packets are of 64 to 1,514
//! bytes; "all" or "one" of the classes hold 4 packets; a non-borrowing class waits for its rate,
//! so the link idles, and a step includes the asks that were answered with a wait.
//!
//! "Wandering" packets go to another class or flow each time, at random; the others go back to
//! their own. With one for every two classes most classes go idle when they have sent, and return.
//! Packets of `wfq` and `drr` do not lie in memory in the order of their service.

use crate::Verdict;
use engine::discipline::{Next, Outlet, Reason, Sink};
use engine::link::Link;
use engine::packet::{ClassId, Ecn, FlowHashes, Packet};
use engine::queue::Queue;
use engine::random::Seed;
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use std::hint::black_box;
use std::time::Instant as Clock;

const LINK: Link = Link::new(Bandwidth::gbit(10), Bytes::new(1_514));

/// CBQ with 1,000 classes against itself with 20: those that may not borrow, and those of a tree.
const BAR: f64 = 3.0;

/// `drr`, `wfq` and `cake` with 64,000 classes or flows against themselves with 1,000, and `hfsc`
/// with 10,000 leaves against 20.
const MANY_BAR: f64 = 4.0;

/// From so many classes or flows on a row is measured by itself.
pub(crate) const MANY: u32 = 4_096;
/// With fewer, so many steps for each before a round: turns of `drr` are of five packets.
pub(crate) const WARM: u32 = 8;

/// Classes of `hfsc` that are measured beside DPDK's scheduler.
const BESIDE: [u32; 3] = [1_024, 4_096, 65_536];

/// How much to run.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    steps: u32,
    most_classes: u32,
    flows: [u32; 2],
    /// Classes that are compared.
    many: [u32; 2],
    /// Flows of `wfq` and classes of `drr` at most.
    most: u32,
    /// Leaves of `hfsc`, in turns; the last is compared with the first.
    leaves: &'static [u32],
    most_leaves: u32,
}

const FULL: Effort = Effort {
    // Rounds are shorter than a time slice, so that most are undisturbed on a machine that others
    // use.
    rounds: 251,
    steps: 5_000,
    most_classes: 100_000,
    flows: [1_000, 65_536],
    many: [1_000, 64_000],
    most: 1_000_000,
    leaves: &[20, 1_000, 4_096, 10_000],
    most_leaves: 100_000,
};

const SMOKE: Effort = Effort {
    rounds: 1,
    steps: 500,
    most_classes: 1_000,
    flows: [100, 1_000],
    many: [100, 1_000],
    most: 2_000,
    leaves: &[20, 100, 1_000],
    most_leaves: 2_000,
};

/// Packets that leave and are offered in one go, in a row of bursts.
const BURST: usize = 32;

/// Where dropped packets return to, and a burst.
#[derive(Default)]
struct Recycled(Vec<Packet>);

impl Sink for Recycled {
    fn drop(&mut self, packet: Packet, _why: Reason) {
        self.0.push(packet);
    }
}

impl Outlet for Recycled {
    fn send(&mut self, packet: Packet) -> bool {
        self.0.push(packet);
        self.0.len() < BURST
    }
}

/// One row of the table: a queue with its packets, or the generator alone.
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) n: u32,
    queue: Option<Queue>,
    packet: Option<Packet>,
    dropped: Recycled,
    /// Among how many classes or flows packets wander; none if they stay in theirs.
    wander: u32,
    /// Steps until the next burst, in a row of bursts.
    bursts: Option<usize>,
    now: Instant,
    figures: Vec<f64>,
}

impl Row {
    fn new(what: impl Into<String>, n: u32, queue: Option<Queue>) -> Self {
        Self {
            what: what.into(),
            n,
            queue,
            packet: Some(packet(0, 0)),
            dropped: Recycled::default(),
            wander: 0,
            bursts: None,
            now: Instant::START,
            figures: Vec::new(),
        }
    }

    /// Puts a packet in, to stay.
    fn with(mut self, packet: Packet) -> Self {
        self.offer(packet);
        self
    }

    #[inline]
    fn offer(&mut self, mut packet: Packet) {
        packet.arrived = self.now;
        if let Some(queue) = &mut self.queue {
            let _ = black_box(queue.enqueue(self.now, packet, &mut self.dropped));
        }
    }

    /// Its packets leave and return in bursts, one burst every [`BURST`] steps.
    fn in_bursts(mut self) -> Self {
        if self.queue.is_none() {
            self.dropped.0.extend((0..BURST).map(|_| packet(0, 0)));
        }
        Self {
            what: format!("{}, in bursts", self.what),
            bursts: Some(0),
            ..self
        }
    }

    /// Every so many steps a burst leaves at one time, and is put back.
    #[inline]
    pub(crate) fn step(&mut self) {
        match &mut self.bursts {
            None => self.one(),
            Some(0) => self.burst(),
            Some(left) => *left -= 1,
        }
    }

    fn burst(&mut self) {
        while let Some(queue) = &mut self.queue
            && self.dropped.0.len() < BURST
        {
            match queue.dequeue_burst(self.now, &mut self.dropped) {
                Next::Ready(()) => {}
                Next::Wait(at) => self.now = at,
                Next::Empty => break,
            }
        }
        for packet in &mut self.dropped.0 {
            // As long as each takes to leave: see `one`.
            self.now = self.now + Duration::from_nanos((packet.len.get() * 4).div_ceil(5));
            if self.wander > 0 {
                let to = scattered(packet.class.0 ^ self.now.nanos() as u32, self.wander);
                packet.class = ClassId(to);
                packet.flow.full = to;
            }
            packet.arrived = self.now;
        }
        let mut packets = std::mem::take(&mut self.dropped.0);
        match &mut self.queue {
            Some(queue) => queue.enqueue_burst(&mut packets, &mut self.dropped),
            None => _ = black_box(&mut packets),
        }
        // What was dropped is offered with the next burst; the memory stays.
        packets.append(&mut self.dropped.0);
        self.dropped.0 = packets;
        self.bursts = Some(BURST - 1);
    }

    /// Sends one packet and puts it back.
    #[inline]
    fn one(&mut self) {
        let mut packet = loop {
            let next = match &mut self.queue {
                Some(queue) => queue.dequeue(self.now, &mut self.dropped),
                None => self.packet.take().map_or(Next::Empty, Next::Ready),
            };
            match next {
                Next::Ready(packet) => break packet,
                Next::Wait(at) => self.now = at,
                Next::Empty => panic!("{}: its packets are gone", self.what),
            }
        };
        // 10 Gbit/s: 0.8 ns a byte.
        self.now = self.now + Duration::from_nanos((packet.len.get() * 4).div_ceil(5));
        if self.wander > 0 {
            let to = scattered(packet.class.0 ^ self.now.nanos() as u32, self.wander);
            packet.class = ClassId(to);
            packet.flow.full = to;
        }
        match self.queue {
            Some(_) => self.offer(packet),
            None => self.packet = Some(black_box(packet)),
        }
        if let Some(dropped) = self.dropped.0.pop() {
            self.offer(dropped);
        }
    }

    fn is_of_many(&self) -> bool {
        self.n >= MANY
    }

    fn measure(&mut self, steps: u32) {
        let warm = if self.is_of_many() { 0 } else { WARM * self.n };
        (0..warm.max(steps / 4)).for_each(|_| self.step());
        let start = Clock::now();
        (0..steps).for_each(|_| self.step());
        self.figures
            .push(start.elapsed().as_nanos() as f64 / f64::from(steps));
    }

    fn median(&self) -> f64 {
        self.figures[self.figures.len() / 2]
    }
}

/// A number below `n`, spread evenly.
fn scattered(number: u32, n: u32) -> u32 {
    ((u64::from(number.wrapping_mul(2_654_435_761)) * u64::from(n)) >> 32) as u32
}

/// A packet of some length, of this class and flow.
fn packet(class: u32, flow: u32) -> Packet {
    let len = 64 + u64::from((class ^ flow).wrapping_mul(2_654_435_761)) % 1_451;
    Packet {
        flow: FlowHashes {
            source: flow,
            destination: flow,
            full: flow,
        },
        ..Packet::new(Bytes::new(len), Instant::START, ClassId(class))
    }
}

fn queue(spec: &DisciplineSpec) -> Queue {
    let plan = spec.check(&Registry::builtin(), LINK);
    let plan = plan.unwrap_or_else(|problems| panic!("{}: {problems:?}", spec.kind));
    plan.build(Seed(1))
}

fn spec(kind: &str, settings: Table) -> DisciplineSpec {
    DisciplineSpec {
        settings,
        ..DisciplineSpec::new(kind)
    }
}

/// `wfq` with a queue for each flow or a few more, and so many packets at random.
fn wfq(what: &str, flows: u32, packets: u32) -> Row {
    let settings = Table::default()
        .with("queues", Raw::Integer(flows.next_power_of_two().into()))
        .text("limit_bytes", "10 GB");
    let row = Row::new(what, flows, Some(queue(&spec("wfq", settings))));
    (0..packets).fold(row, |row, i| row.with(packet(0, scattered(i, flows))))
}

/// `drr` with classes of four weights, and so many packets at random.
fn drr(what: &str, classes: u32, packets: u32) -> Row {
    let weight = |i: u32| Table::default().with("weight", Raw::Integer(i64::from(1 + i % 4)));
    let row = classful(what, spec("drr", Table::default()), (classes, 0), weight);
    (0..packets).fold(row, |row, i| row.with(packet(scattered(i, classes), 0)))
}

/// `wfq` and `drr` where most flows and classes go idle when they have sent, and return.
fn returning(n: u32) -> [Row; 2] {
    let wander = |row: Row| Row { wander: n, ..row };
    [
        wander(wfq("wfq, flows go idle and return", n, n / 2)),
        wander(drr("drr, classes go idle and return", n, n / 2)),
    ]
}

/// The same where all have packets, mostly, and every packet goes to one at random.
fn arriving(n: u32) -> [Row; 2] {
    let wander = |row: Row| Row { wander: n, ..row };
    [
        wander(wfq("wfq, packets arrive at random", n, 4 * n)),
        wander(drr("drr, packets arrive at random", n, 4 * n)),
    ]
}

/// Queues without classes.
fn plain(effort: Effort) -> Vec<Row> {
    let integer = |n: u32| Raw::Integer(n.into());
    let fifo = |n: u32| {
        let queue = queue(&spec("fifo", Table::default().with("limit", integer(n))));
        (0..n).fold(Row::new("fifo", n, Some(queue)), |row, _| row.with(packet(0, 0)))
    };
    let wfq = |flows: u32| wfq(WFQ, flows, 4 * flows);
    let fq_codel = |flows: u32| {
        let settings = Table::default()
            .with("flows", integer(flows.next_power_of_two().min(65_536)))
            .with("limit", integer(1_000_000))
            .text("target", "1 s")
            .text("interval", "2 s")
            .text("limit_bytes", "1 GB");
        let row = Row::new("fq_codel, flows", flows, Some(queue(&spec("fq_codel", settings))));
        (0..4 * flows).fold(row, |row, i| row.with(packet(0, i % flows)))
    };
    // One host sends all, so each flow has a very small share.
    let cake = |flows: u32| {
        let settings = Table::default()
            .with("flows", integer(flows.next_power_of_two().min(65_536)))
            .text("target", "1 s")
            .text("interval", "2 s")
            .text("limit_bytes", "1 GB");
        let row = Row::new(CAKE, flows, Some(queue(&spec("cake", settings))));
        let of_host = |mut packet: Packet| {
            packet.flow.source = 1;
            packet
        };
        (0..4 * flows).fold(row, |row, i| row.with(of_host(packet(0, i % flows))))
    };
    let tbf = |what: &str, rate: &str| {
        let row = Row::new(
            what,
            10,
            Some(queue(&spec("tbf", Table::default().text("rate", rate)))),
        );
        (0..10).fold(row, |row, _| row.with(packet(0, 0)))
    };
    vec![
        Row::new("generator", 1, None),
        Row::new("generator", 1, None).in_bursts(),
        fifo(64),
        fifo(64).in_bursts(),
        fifo(4_096),
        tbf("tbf over fifo, tokens left", "100 Gbit/s"),
        tbf("tbf over fifo, a wait for each", "5 Gbit/s"),
        wfq(effort.flows[0]),
        wfq(effort.flows[1]),
        wfq(effort.flows[1]).in_bursts(),
        fq_codel(effort.flows[0]),
        fq_codel(effort.flows[1]),
        fq_codel(effort.flows[1]).in_bursts(),
        cake(10),
        cake(effort.flows[0]),
        cake(effort.flows[1]),
    ]
}

/// A queue of this kind with classes, `packets` in each.
fn classful(
    what: &str,
    spec: DisciplineSpec,
    (classes, packets): (u32, u32),
    settings: impl Fn(u32) -> Table,
) -> Row {
    // Packets that wander gather in the classes that are served least: a default queue would drop
    // some, and each step would offer one of these in vain once more. `ips` sets its own limits.
    let roomy = self::spec("fifo", Table::default().with("limit", Raw::Integer(10_000_000)));
    let class = |i: u32| ClassSpec {
        name: i.to_string().into(),
        default: i == 0,
        settings: settings(i),
        discipline: (spec.kind != "ips").then(|| roomy.clone()),
        ..ClassSpec::default()
    };
    let spec = DisciplineSpec {
        classes: (0..classes).map(class).collect(),
        ..spec
    };
    let row = Row::new(what, classes, Some(queue(&spec)));
    // Not in the order of their memory: turns would then be too easy for a cache to foresee.
    let shuffled = |i: u32| (u64::from(i % classes) * 40_503 % u64::from(classes)) as u32;
    (0..classes * packets).fold(row, |row, i| row.with(packet(shuffled(i), 0)))
}

/// Queues with classes and one rule: strict priority, turns by bytes.
fn turns(effort: Effort) -> Vec<Row> {
    let integer = |n: u32| Raw::Integer(n.into());
    let priq = |classes: u32| Row {
        wander: classes,
        ..classful(
            "priq, wandering packets",
            spec("priq", Table::default()),
            (classes, 4),
            |i| Table::default().with("priority", integer(i)),
        )
    };
    // Promises so small that a thousand fit; the packets keep to them by the rate of the offers, or
    // are policed.
    let ips = |classes: u32| {
        classful(
            "ips, promised classes",
            spec("ips", Table::default()),
            (classes, 1),
            |i| match i {
                0 => Table::default(),
                _ => Table::default()
                    .text(
                        "rate",
                        &format!("{} bit/s", LINK.bandwidth.bits() / 2 / u64::from(classes)),
                    )
                    .text("burst", "1 MB")
                    .text("delay", &format!("{} s", 2 + i)),
            },
        )
    };
    let drr = |classes: u32| drr(DRR, classes, 4 * classes);
    let wrr = |order: &str, classes: u32| {
        let row = |i: u32| Table::default().with("weight", integer(1 + i % 4));
        let what = format!("wrr, {order}");
        let settings = Table::default().text("order", order);
        classful(&what, spec("wrr", settings), (classes, 4), row)
    };
    let [some, many] = effort.many;
    let mut rows = vec![
        priq(8),
        priq(64),
        priq(256),
        priq(64).in_bursts(),
        ips(8),
        ips(256),
        drr(20),
        drr(some),
        drr(many),
        drr(many).in_bursts(),
    ];
    for order in ["burst", "interleaved"] {
        rows.extend([20, some].map(|classes| wrr(order, classes)));
    }
    rows.extend([some, many].into_iter().flat_map(returning));
    rows.extend([some, many].into_iter().flat_map(arriving));
    let bursts = [returning(many), arriving(many)].into_iter().flatten();
    rows.extend(bursts.map(Row::in_bursts));
    rows
}

const CAKE: &str = "cake, flows of one host";
const DRR: &str = "drr, all backlogged";
const WFQ: &str = "wfq, flows";

/// What leaves of `hfsc` are served by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    LinkShare,
    RealTime,
    Tree,
    Limits,
}

impl Served {
    const ALL: [Self; 4] = [Self::LinkShare, Self::RealTime, Self::Tree, Self::Limits];

    fn name(self) -> &'static str {
        match self {
            Self::LinkShare => "hfsc, link-sharing",
            Self::RealTime => "hfsc, real-time for 95 % of the link",
            Self::Tree => "hfsc, link-sharing in 10 organisations",
            Self::Limits => "hfsc, upper limits for 50 % of the link",
        }
    }

    /// Rates are 1 to 10 parts of the link.
    fn row(self, leaves: u32) -> Row {
        let parts = |i: u32| u64::from(1 + i % 10);
        let percent = if self == Self::Limits { 50 } else { 95 };
        let part = LINK.bandwidth.bits() / 100 * percent / (0..leaves).map(parts).sum::<u64>();
        let leaf = |i: u32| {
            let rate = format!("{} bit/s", part * parts(i));
            let table = Table::default().text("linkshare", &rate);
            ClassSpec {
                name: i.to_string().into(),
                default: i == 0,
                parent: (self == Self::Tree).then(|| format!("organisation {}", i % 10).as_str().into()),
                settings: match self {
                    Self::RealTime => table.text("realtime", &rate),
                    Self::Limits => table.text("upperlimit", &rate),
                    _ => table,
                },
                ..ClassSpec::default()
            }
        };
        let organisation = |i: u32| ClassSpec {
            name: format!("organisation {i}").into(),
            settings: Table::default().text("linkshare", "10 %"),
            ..ClassSpec::default()
        };
        let organisations = if self == Self::Tree { 10 } else { 0 };
        let spec = DisciplineSpec {
            classes: (0..leaves)
                .map(leaf)
                .chain((0..organisations).map(organisation))
                .collect(),
            ..DisciplineSpec::new("hfsc")
        };
        let row = Row::new(self.name(), leaves, Some(queue(&spec)));
        (0..4 * leaves).fold(row, |row, i| row.with(packet(i % leaves, 0)))
    }
}

/// How the cost of the last row of this name compares to that of the row of `n`.
fn growth(rows: &[Row], name: &str, n: u32) -> Verdict {
    let all = || rows.iter().filter(|row| row.what == name);
    let few = all().find(|row| row.n == n);
    let many = all().next_back();
    Verdict {
        what: format!("{name}: {} against {n}", many.map_or(0, |row| row.n)),
        ratio: many.map_or(0.0, Row::median) / few.map_or(1.0, Row::median),
        bar: MANY_BAR,
    }
}

/// Queues that are kept short, and meters.
fn managed() -> Vec<Row> {
    let held = |what: &str, kind: &str, n: u32, settings: Table| {
        // Both kinds of senders, for the kind that distinguishes them.
        let low = |i: u32| kind == "dualpi2" && i.is_multiple_of(2);
        let packet = |i: u32| Packet {
            ecn: if low(i) { Ecn::Ect1 } else { Ecn::NotEct },
            ..packet(0, 0)
        };
        let row = Row::new(what, n, Some(queue(&spec(kind, settings))));
        (0..n).fold(row, |row, i| row.with(packet(i)))
    };
    let red = |min: i64| {
        let table = Table::default().with("min", Raw::Integer(min));
        table.with("max", Raw::Integer(3 * min))
    };
    let codel =
        |target: &str, interval: &str| Table::default().text("target", target).text("interval", interval);
    let trtcm = Table::default().text("meter", "trtcm").text("rate", "20 Gbit/s");
    vec![
        held("red over fifo, below min", "red", 10, red(20)),
        held("red over fifo, below min", "red", 40, red(80)).in_bursts(),
        held("red over fifo, losing 5 %", "red", 10, red(5)),
        // No wait is as long as 1 s, or as short as 1 ns.
        held("codel, below target", "codel", 100, codel("1 s", "2 s")),
        held("codel, losing", "codel", 100, codel("1 ns", "1 us")),
        held("pie", "pie", 100, Table::default()),
        held("dualpi2, both queues", "dualpi2", 100, Table::default()),
        held("blue", "blue", 100, Table::default()),
        held("rio, all green, below min", "rio", 10, Table::default()),
        held("police over fifo, trtcm", "police", 10, trtcm),
    ]
}

/// A regime of `cbq`.
#[derive(Clone, Copy)]
struct Regime {
    all: bool,
    borrow: bool,
    priorities: bool,
}

const REGIMES: [Regime; 8] = {
    let mut regimes = [Regime {
        all: true,
        borrow: true,
        priorities: true,
    }; 8];
    let mut i = 0;
    while i < 8 {
        regimes[i] = Regime {
            all: i & 4 == 0,
            borrow: i & 2 == 0,
            priorities: i & 1 == 1,
        };
        i += 1;
    }
    regimes
};

impl Regime {
    fn name(self) -> String {
        let backlog = if self.all {
            "all backlogged"
        } else {
            "one backlogged"
        };
        let borrow = if self.borrow { "borrowing" } else { "not borrowing" };
        let priorities = if self.priorities {
            "4 priorities"
        } else {
            "1 priority"
        };
        format!("cbq, {backlog}, {borrow}, {priorities}")
    }

    fn row(self, classes: u32) -> Row {
        // Rates are 1 to 10 parts of half the link.
        let parts = |i: u32| u64::from(1 + i % 10);
        let part = LINK.bandwidth.bits() / 2 / (0..classes).map(parts).sum::<u64>();
        let class = |i: u32| ClassSpec {
            name: i.to_string().into(),
            default: i == 0,
            settings: Table::default()
                .text("rate", &format!("{} bit/s", part * parts(i)))
                .with("borrow", Raw::Boolean(self.borrow))
                // Small bursts, so that they are over before the first round is.
                .with("maxburst", Raw::Integer(2))
                .text("packet_size", "64 B")
                .with(
                    "priority",
                    Raw::Integer(if self.priorities { i64::from(i % 4) } else { 1 }),
                ),
            ..ClassSpec::default()
        };
        let spec = DisciplineSpec {
            classes: (0..classes).map(class).collect(),
            ..DisciplineSpec::new("cbq")
        };
        let row = Row::new(self.name(), classes, Some(queue(&spec)));
        let backlogged = if self.all {
            0..classes
        } else {
            classes / 2..classes / 2 + 1
        };
        backlogged.fold(row, |row, i| (0..4).fold(row, |row, _| row.with(packet(i, 0))))
    }
}

/// Who may borrow when in `cbq`, and who has packets.
#[derive(Clone, Copy)]
struct Borrowing {
    sharing: &'static str,
    returning: bool,
}

impl Borrowing {
    /// Every mode; `formal` among [`REGIMES`] has no tree.
    const ALL: [Self; 6] = {
        let mut all = [Self {
            sharing: "formal",
            returning: false,
        }; 6];
        let mut i = 0;
        while i < 6 {
            all[i] = Self {
                sharing: ["formal", "top-level", "ancestors-only"][i / 2],
                returning: i % 2 == 1,
            };
            i += 1;
        }
        all
    };

    /// Ten agencies with half of the link, and four priorities in each.
    fn row(self, classes: u32) -> Row {
        let parts = |i: u32| u64::from(1 + i % 10);
        let part = LINK.bandwidth.bits() / 2 / (0..classes).map(parts).sum::<u64>();
        let agency = |i: u32| format!("agency {}", i / 2 % 10);
        let class = |i: u32| ClassSpec {
            name: i.to_string().into(),
            default: i == 0,
            parent: Some(agency(i).as_str().into()),
            settings: Table::default()
                .text("rate", &format!("{} bit/s", part * parts(i)))
                .with("maxburst", Raw::Integer(2))
                .with("priority", Raw::Integer(i64::from(i % 4))),
            ..ClassSpec::default()
        };
        let sums = (0..10).map(|n| {
            let below = (0..classes).filter(|i| i / 2 % 10 == n);
            below.map(|i| part * parts(i)).sum::<u64>()
        });
        let agencies = sums.zip(0..).map(|(sum, n)| ClassSpec {
            name: agency(2 * n).into(),
            settings: Table::default().text("rate", &format!("{sum} bit/s")),
            ..ClassSpec::default()
        });
        let spec = DisciplineSpec {
            classes: (0..classes).map(class).chain(agencies).collect(),
            settings: Table::default().text("sharing", self.sharing),
            ..DisciplineSpec::new("cbq")
        };
        let (what, wander, packets) = match self.returning {
            true => ("classes go idle and return", classes, classes / 2),
            false => ("all backlogged", 0, 4 * classes),
        };
        let what = format!("cbq, {}, 10 agencies, {what}", self.sharing);
        let row = Row::new(what, classes, Some(queue(&spec)));
        let row = (0..packets).fold(row, |row, i| row.with(packet(i % classes, 0)));
        Row { wander, ..row }
    }
}

/// Measures the rows, those of few classes in turns, and prints them.
fn run(mut rows: Vec<Row>, effort: Effort) -> Vec<Row> {
    let measure = |row: &mut Row| row.measure(effort.steps);
    for _ in 0..effort.rounds {
        rows.iter_mut().filter(|row| !row.is_of_many()).for_each(measure);
    }
    for row in rows.iter_mut().filter(|row| row.is_of_many()) {
        (0..effort.rounds).for_each(|_| measure(row));
    }
    for row in &mut rows {
        row.figures.sort_by(f64::total_cmp);
        let (least, most) = (row.figures[0], row.figures[row.figures.len() - 1]);
        println!(
            "| {} | {} | {:.1} ({least:.1}–{most:.1}) |",
            row.what,
            row.n,
            row.median()
        );
        // The backlog is of no more use, and 100,000 classes are many.
        row.queue = None;
    }
    rows
}

/// The rows of all kinds, with few classes.
pub(crate) fn small() -> Vec<Row> {
    let mut rows = plain(SMOKE);
    rows.extend(managed());
    rows.extend(turns(SMOKE));
    for n in [20, 1_000] {
        rows.extend(REGIMES.map(|regime| regime.row(n)));
        rows.extend(Borrowing::ALL.map(|borrowing| borrowing.row(n)));
        rows.extend(Served::ALL.map(|served| served.row(n)));
    }
    rows.push(REGIMES[0].row(1_000).in_bursts());
    rows.extend([Served::LinkShare, Served::RealTime].map(|served| served.row(1_000).in_bursts()));
    rows
}

type NamedRow = (&'static str, fn() -> Row);

/// Rows of very many classes or flows, by a short name.
pub(crate) const MANY_ROWS: [NamedRow; 11] = [
    ("wfq returning", || first(returning(64_000))),
    ("drr returning", || last(returning(64_000))),
    ("wfq arriving", || first(arriving(64_000))),
    ("drr arriving", || last(arriving(64_000))),
    ("wfq arriving in bursts", || first(arriving(64_000)).in_bursts()),
    ("drr arriving in bursts", || last(arriving(64_000)).in_bursts()),
    ("cbq borrowing", || REGIMES[0].row(64_000)),
    ("cbq not borrowing", || REGIMES[2].row(64_000)),
    ("cbq returning", || Borrowing::ALL[1].row(64_000)),
    ("hfsc link sharing", || Served::LinkShare.row(64_000)),
    ("hfsc real time", || Served::RealTime.row(64_000)),
];

fn first([row, _]: [Row; 2]) -> Row {
    row
}

fn last([_, row]: [Row; 2]) -> Row {
    row
}

/// Prints the rows, and judges.
pub(crate) fn rows(full: bool) -> Vec<Verdict> {
    let effort = if full { FULL } else { SMOKE };
    let plain = run(plain(effort), effort);
    run(managed(), effort);
    let turns = run(turns(effort), effort);
    let mut verdicts = vec![
        growth(&plain, WFQ, effort.flows[0]),
        growth(&plain, "fq_codel, flows", effort.flows[0]),
        growth(&plain, CAKE, effort.flows[0]),
        growth(&turns, DRR, effort.many[0]),
    ];
    // The largest are by themselves: together they would only measure the cache.
    let most = effort.most;
    run(vec![wfq(WFQ, most, 4 * most)], effort);
    run(vec![drr(DRR, most, 4 * most)], effort);
    for rows in [returning, arriving] {
        rows(most).into_iter().for_each(|row| _ = run(vec![row], effort));
        let bursts = rows(most).into_iter().map(Row::in_bursts);
        bursts.for_each(|row| _ = run(vec![row], effort));
    }
    verdicts.extend(sharing(effort));
    verdicts
}

/// The same for `cbq`: the sizes that are compared, in turns; then the largest by itself.
fn sharing(effort: Effort) -> Vec<Verdict> {
    let sizes = [3, 20, 100, 1_000];
    let flat = |n: u32| REGIMES.into_iter().map(move |regime| regime.row(n));
    let mut rows = run(sizes.into_iter().flat_map(flat).collect(), effort);
    let trees = |n: u32| Borrowing::ALL.into_iter().map(move |borrowing| borrowing.row(n));
    rows.extend(run(sizes[1..].iter().copied().flat_map(trees).collect(), effort));
    if effort.most_classes > 1_000 {
        let burst = Borrowing::ALL[1].row(effort.most_classes).in_bursts();
        let all = flat(effort.most_classes).chain(trees(effort.most_classes));
        for row in all.chain([burst]) {
            run(vec![row], effort);
        }
    }
    let verdict = |few: &Row| {
        let many = rows.iter().find(|row| row.what == few.what && row.n == 1_000);
        Verdict {
            what: format!("{}: 1,000 classes against 20", few.what),
            ratio: many.map_or(0.0, Row::median) / few.median(),
            bar: BAR,
        }
    };
    let judged = |row: &&Row| row.n == 20 && !row.what.contains(", borrowing");
    rows.iter().filter(judged).map(verdict).collect()
}

/// What `cargo xtask bench peers` has beside DPDK's scheduler: so many classes, packets at random,
/// bursts.
pub(crate) fn beside(full: bool) -> Vec<Verdict> {
    let effort = Effort {
        rounds: 101,
        ..if full { FULL } else { SMOKE }
    };
    run(vec![Row::new("generator", 1, None).in_bursts()], effort);
    for n in BESIDE.map(|n| n.min(effort.most_classes)) {
        // Rates are 1 to 10 parts, and add up to no more than the link.
        let part = LINK.bandwidth.bits() / u64::from(6 * n);
        let row = classful(
            "hfsc, link-sharing, packets arrive at random",
            spec("hfsc", Table::default()),
            (n, 8),
            |i| Table::default().text("linkshare", &format!("{} bit/s", part * u64::from(1 + i % 10))),
        );
        run(vec![Row { wander: n, ..row }.in_bursts()], effort);
    }
    Vec::new()
}

/// The same for the regimes of `hfsc`, each by itself: 10,000 leaves are megabytes, and four times
/// that would only measure the cache.
pub(crate) fn curves(full: bool) -> Vec<Verdict> {
    let effort = if full { FULL } else { SMOKE };
    let judged = |served: Served| {
        let rows = effort.leaves.iter().map(|&n| served.row(n)).collect();
        let verdict = growth(&run(rows, effort), served.name(), 20);
        run(vec![served.row(effort.most_leaves)], effort);
        verdict
    };
    Served::ALL.map(judged).into()
}
