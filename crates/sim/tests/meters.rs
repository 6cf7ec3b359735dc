//! Meters: bytes in the bins of their bits, backlogs by their time, windows, flows.

use engine::discipline::Reason;
use engine::header::{Family, FlowKey};
use engine::link::Link;
use engine::packet::ClassId;
use engine::random::Seed;
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use sim::agent::Agent;
use sim::link::{Driver, LinkQueue, LinkSpec, PolicyQueue};
use sim::meter::{LinkMeter, MeterSettings, borrowed, gauge, jain};
use sim::simulation::{LinkId, Simulation};
use sim::sources::{Burst, Constant, DatagramSource, Datagrams, Listener, Poisson, Timing};

const FRAME: Bytes = Bytes::new(1250);

fn ms(n: u64) -> Instant {
    Instant::START + Duration::from_millis(n)
}

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// One link of 10 Mbit/s, where a frame takes a millisecond, behind this queue.
struct Bench {
    sim: Simulation,
    ends: [sim::simulation::NodeId; 2],
    link: LinkId,
}

impl Bench {
    fn new(queue: LinkQueue, watch: impl Into<MeterSettings>) -> Self {
        let mut sim = Simulation::new(Seed(1));
        let ends = ["a", "b"].map(|name| sim.node(name));
        let wire = LinkSpec::new(Bandwidth::mbit(10), Duration::from_millis(5));
        let link = sim.link(ends[0], ends[1], wire.clone().queue(queue));
        sim.link(ends[1], ends[0], wire);
        sim.watch(link, watch);
        Self { sim, ends, link }
    }

    fn source<T: Timing>(mut self, timing: T) -> Self {
        let datagrams = Datagrams::from(FRAME).until(ms(900));
        let agents: [Box<dyn Agent>; 2] = [
            Box::new(DatagramSource::new(datagrams, timing)),
            Box::new(Listener::default()),
        ];
        let key = FlowKey {
            family: Family::V4,
            ..FlowKey::default()
        };
        self.sim
            .flow(self.ends, key, Instant::START, agents)
            .expect("a route");
        self
    }

    fn run(mut self, end: Instant) -> LinkMeter {
        self.sim.run_until(end);
        self.sim.meter(self.link).expect("a meter").clone()
    }
}

fn buffer(bytes: u64) -> LinkQueue {
    LinkQueue::TailDrop(Bytes::new(bytes))
}

fn fifo(limit: i64, ring: u32) -> LinkQueue {
    let link = Link::new(Bandwidth::mbit(10), Bytes::new(1514)).with_ring(ring);
    let mut spec = DisciplineSpec::new("fifo");
    spec.settings = Table::default().with("limit", Raw::Integer(limit));
    LinkQueue::Policy(Box::new(PolicyQueue {
        plan: spec.check(&Registry::builtin(), link).expect("a FIFO"),
        filters: Vec::new(),
        driver: Driver::default(),
    }))
}

fn watch(windows: &[(u64, u64)]) -> MeterSettings {
    MeterSettings {
        bin: us(1_000),
        windows: windows.iter().map(|&(from, to)| (ms(from), ms(to))).collect(),
        flows: true,
    }
}

#[test]
fn a_saturated_link_shows_exactly_its_rate_in_every_microsecond_or_the_byte_beside_it() {
    let source = Constant::every(us(500));
    let meter = Bench::new(buffer(20_000), us(1)).source(source).run(ms(500));
    let bytes = meter.classes()[0].series.bytes();
    // 1.25 bytes a microsecond, in whole bytes.
    let pattern = bytes[..500_000].chunks_exact(4).all(|four| four == [1, 1, 1, 2]);
    assert!(pattern, "{:?}", &bytes[..24]);
    let four = Bench::new(buffer(20_000), us(4)).source(Constant::every(us(500)));
    let meter = four.run(ms(500));
    assert!(
        meter.classes()[0].series.bytes()[..125_000]
            .iter()
            .all(|&bytes| bytes == 5)
    );
}

#[test]
fn backlogs_are_weighted_by_time() {
    // Four at once, every 10 ms: 3, 2 and 1 wait for a millisecond each, and none for seven.
    for queue in [buffer(100_000), fifo(100, 1)] {
        let bursts = Burst::every(us(10_000), 4, Duration::ZERO);
        let meter = Bench::new(queue, watch(&[(10, 20), (11, 13)]))
            .source(bursts)
            .run(ms(800));
        let packets =
            [700, 701, 800, 801, 900, 901, 1_000].map(|per_mille| meter.backlog().packets(per_mille));
        assert_eq!(packets, [0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(meter.backlog().span(), us(800_000));
        assert_eq!(&meter.classes()[0].backlog, meter.backlog());
        let window = meter.window(ms(10), ms(20)).expect("it is configured");
        assert_eq!(
            [700, 800, 900, 1_000].map(|per_mille| window.total().backlog.packets(per_mille)),
            [0, 1, 2, 3]
        );
        let short = meter.window(ms(11), ms(13)).expect("it is configured");
        assert_eq!(
            [500, 501].map(|per_mille| short.total().backlog.packets(per_mille)),
            [1, 2]
        );
        // 0, 1, 2, 3 ms until the first bit, and one more until the last.
        let tally = &window.classes()[0];
        assert_eq!(
            (tally.queueing_delays.mean(), tally.queueing_delays.longest()),
            (us(1_500), us(3_000))
        );
        assert_eq!(
            (tally.node_delays.mean(), tally.node_delays.longest()),
            (us(2_500), us(4_000))
        );
    }
}

#[test]
fn a_computed_buffer_measures_the_same_as_the_engines_fifo_in_every_window() {
    let windows = watch(&[(100, 200), (150, 600), (200, 201), (200, 300)]);
    let run = |queue| {
        let bench = Bench::new(queue, windows.clone());
        let poisson = Poisson::rate(Bandwidth::mbit(12), &FRAME.into(), Seed(4));
        bench
            .source(poisson)
            .source(Constant::every(us(4_100)))
            .run(ms(850))
    };
    let (computed, simulated) = (run(buffer(1_250 * 16)), run(fifo(16, 1)));
    assert_eq!(computed.windows().len(), 4);
    assert!(computed.whole().total().dropped_for(Reason::Full) > 50);
    for (mine, theirs) in computed.windows().iter().zip(simulated.windows()) {
        assert!(mine == theirs, "{:?}-{:?}", mine.from(), mine.to());
    }
    assert!(computed.whole() == simulated.whole());
}

#[test]
fn adjacent_windows_add_up_and_departures_do_not_count_before_their_time() {
    let all = [(0, 333), (333, 334), (334, 800)];
    let bench = Bench::new(buffer(u64::MAX), watch(&all));
    let poisson = Poisson::rate(Bandwidth::mbit(15), &FRAME.into(), Seed(4));
    let meter = bench.source(poisson).run(ms(800));
    let totals: Vec<_> = meter.windows().iter().map(|window| window.total()).collect();
    let packets: u64 = totals.iter().map(|total| total.sent.packets).sum();
    // Behind an unlimited buffer the link is busy after the first moments: one frame each
    // millisecond.
    assert!((780..=800).contains(&packets), "{packets}");
    assert!(packets <= meter.classes()[0].sent.packets);
    let bytes: u64 = totals.iter().map(|total| total.series.total()).sum();
    assert_eq!(bytes, meter.classes()[0].series.between(ms(0), ms(800)));
    let last = &meter.windows()[2];
    assert_eq!(last.rate(&last.classes()[0]), Bandwidth::mbit(10));
}

#[test]
fn flows_add_up_to_their_class_and_series_to_their_counts() {
    for queue in [buffer(20_000), fifo(16, 4)] {
        let bench = Bench::new(queue, watch(&[]));
        let meter = bench
            .source(Poisson::rate(Bandwidth::mbit(8), &FRAME.into(), Seed(4)))
            .source(Constant::every(us(1_730)))
            .run(ms(2_000));
        let class = &meter.classes()[0];
        assert_eq!(class.series.total(), class.sent.bytes.get());
        assert_eq!(class.drops_by_reason.iter().sum::<u64>(), class.dropped.packets);
        let flows: Vec<_> = meter.streams().iter().step_by(2).collect();
        assert_eq!(flows.len(), 2);
        let sum = |of: fn(&sim::meter::MeterTally) -> u64| flows.iter().map(|flow| of(flow)).sum::<u64>();
        assert_eq!(sum(|flow| flow.sent.packets), class.sent.packets);
        assert_eq!(sum(|flow| flow.series.total()), class.series.total());
        assert_eq!(sum(|flow| flow.dropped.packets), class.dropped.packets);
        assert_eq!(
            sum(|flow| flow.queueing_delays.count()),
            class.queueing_delays.count()
        );
        assert!(flows.iter().all(|flow| flow.dropped.packets > 0));
    }
}

#[test]
fn jains_index_is_one_for_equals_and_one_of_n_for_a_single_winner() {
    assert_eq!(jain([7, 7, 7]), Some(1.0));
    assert_eq!(jain([0, 9, 0, 0]), Some(0.25));
    // (1 + 2 + 3)² / (3 × 14)
    assert_eq!(jain([1, 2, 3]), Some(36.0 / 42.0));
    assert_eq!(jain([0, 0]), None);
    assert_eq!(jain([]), None);
}

#[test]
fn the_backlog_of_a_class_counts_in_its_ancestors() {
    let rate = |text: &str| Table::default().text("rate", text);
    let class = |name: &str, parent: Option<&str>, text: &str| ClassSpec {
        name: name.into(),
        parent: parent.map(Into::into),
        default: name == "a",
        settings: rate(text),
        ..ClassSpec::default()
    };
    let mut spec = DisciplineSpec::new("cbq");
    spec.classes.extend([
        class("site", None, "60 %"),
        class("a", Some("site"), "30 %"),
        class("b", Some("site"), "30 %"),
        class("other", None, "40 %"),
    ]);
    let link = Link::new(Bandwidth::mbit(10), Bytes::new(1514));
    let plan = spec.check(&Registry::builtin(), link).expect("a tree");
    let queue = LinkQueue::Policy(Box::new(PolicyQueue {
        filters: Vec::new(),
        plan,
        driver: Driver::default(),
    }));
    let bench = Bench::new(queue, watch(&[(100, 200)]));
    let bursts = Burst::every(us(10_000), 4, Duration::ZERO);
    let mut bench = bench.source(bursts);
    bench.sim.run_until(ms(800));
    let meter = bench.sim.meter(bench.link).expect("a meter");
    let [site, a, b, other] = meter.classes() else {
        panic!("four classes");
    };
    assert_eq!(a.backlog, site.backlog);
    assert_eq!(&a.backlog, meter.backlog());
    assert_eq!((b.backlog.most().packets, other.backlog.most().packets), (0, 0));
    assert_eq!((a.backlog.most().packets, site.sent.packets), (3, 0));
    // A class of 3 Mbit/s that is sent 4 Mbit/s borrows about one.
    let (queue, _) = bench.sim.queue(bench.link).expect("a queue");
    let borrowed = borrowed(queue, ClassId(1)).expect("CBQ").get() * 8 * 10 / 8;
    assert!((700_000..1_300_000).contains(&borrowed), "{borrowed}");
    assert_eq!(gauge(queue, ClassId(1), "no such"), None);
}
