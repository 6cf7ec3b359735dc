//! Gap frames on a simulated wire: what a paced queue promises, seen behind it.

use engine::framing::Framing;
use engine::header::{Family, FlowKey};
use engine::link::Link;
use engine::random::Seed;
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use sim::agent::Agent;
use sim::link::{Driver, LinkQueue, LinkSpec, PolicyQueue};
use sim::simulation::{End, FlowId, LinkId, NodeId, Simulation};
use sim::sources::{Constant, DatagramSource, Datagrams, Listener};

const GBE: Bandwidth = Bandwidth::gbit(1);
const FRAME: Bytes = Bytes::new(1_514);

fn paced(ring: u32, driver: Driver) -> LinkQueue {
    let class = ClassSpec {
        name: "a".into(),
        default: true,
        settings: Table::default().text("rate", "62.5 MB/s"),
        discipline: Some(DisciplineSpec {
            settings: Table::default().with("limit", Raw::Integer(1_000_000)),
            ..DisciplineSpec::new("fifo")
        }),
        ..ClassSpec::default()
    };
    let spec = DisciplineSpec {
        settings: Table::default().text("gap", if driver.gaps { "frames" } else { "timer" }),
        classes: vec![class].into(),
        ..DisciplineSpec::new("pacer")
    };
    let link = Link::new(GBE, FRAME).with_ring(ring);
    LinkQueue::Policy(Box::new(PolicyQueue {
        plan: spec.check(&Registry::builtin(), link).expect("a good plan"),
        filters: Vec::new(),
        driver,
    }))
}

/// Packets at the interface's speed from one node to another, from this time until `end`.
fn packets(sim: &mut Simulation, between: [NodeId; 2], begin: Instant, end: Duration) -> FlowId {
    let datagrams = Datagrams::from(FRAME).until(Instant::START + end);
    let ends: [Box<dyn Agent>; 2] = [
        Box::new(DatagramSource::new(
            datagrams,
            Constant::every(Duration::from_nanos(12_304)),
        )),
        Box::new(Listener::default()),
    ];
    let key = FlowKey {
        family: Family::V4,
        ..FlowKey::default()
    };
    sim.flow(between, key, begin, ends).expect("a route")
}

/// Packets at the interface's speed for 60 ms, paced by this driver for 100 ms.
fn run(ring: u32, driver: Driver) -> (Simulation, LinkId, FlowId) {
    let mut sim = Simulation::new(Seed(1));
    let [host, switch, far] = ["host", "switch", "far"].map(|name| sim.node(name));
    let wire = LinkSpec::new(GBE, Duration::from_micros(5)).framing(Framing::ETHERNET);
    let out = sim.link(host, switch, wire.clone().queue(paced(ring, driver)));
    sim.link(switch, far, wire.clone());
    sim.link(far, host, wire);
    sim.watch(out, Duration::from_micros(100));
    sim.capture(out, usize::MAX);
    let flow = packets(
        &mut sim,
        [host, far],
        Instant::from_nanos(7),
        Duration::from_millis(60),
    );
    sim.run_until(Instant::START + Duration::from_millis(100));
    (sim, out, flow)
}

fn intervals(sim: &Simulation, link: LinkId) -> Vec<u64> {
    let starts: Vec<u64> = sim
        .captured(link)
        .expect("a capture")
        .frames()
        .map(|frame| frame.at.nanos())
        .collect();
    starts.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Intervals of 3036 byte times of 8 ns. The first packet starts between two bytes, so the first
/// interval is up to a byte longer.
fn assert_exact(intervals: &[u64]) {
    assert!(intervals.len() > 4_000 && (24_288..=24_296).contains(&intervals[0]));
    assert_eq!(intervals[1..].iter().position(|&span| span != 24_288), None);
}

#[test]
fn gap_frames_fill_the_wire_between_packets_and_the_next_node_drops_them() {
    for ring in [1, 2, 16] {
        let (sim, out, flow) = run(
            ring,
            Driver {
                gaps: true,
                ..Driver::default()
            },
        );
        let intervals = intervals(&sim, out);
        assert_exact(&intervals);
        let meter = sim.meter(out).expect("a meter");
        let gaps = meter.gaps();
        assert!(
            gaps.packets.abs_diff(intervals.len() as u64) <= 16
                && gaps.bytes.get().abs_diff(1_498 * gaps.packets) <= 1
        );
        assert_eq!(meter.underruns(), 0);
        let listener: &Listener = sim.agent(flow, End::Responder).expect("a listener");
        assert!(listener.packets.abs_diff(intervals.len() as u64) <= 10);
    }
}

#[test]
fn with_timers_the_intervals_are_the_same_and_the_wire_idles_between_them() {
    let (sim, out, _) = run(1, Driver::default());
    assert_exact(&intervals(&sim, out));
    assert_eq!(sim.meter(out).map(|meter| meter.gaps().packets), Some(0));
}

#[test]
fn a_ring_that_runs_dry_is_counted_and_no_packet_is_early() {
    // 10 frames are 123 µs, and the host looks every 200 µs.
    let tick = Some(Duration::from_micros(200));
    let (sim, out, _) = run(
        10,
        Driver {
            tick,
            gaps: true,
            ..Driver::default()
        },
    );
    let dry = sim.meter(out).map_or(0, |meter| meter.underruns());
    assert!(dry > 0, "the ring never ran dry");
    let intervals = intervals(&sim, out);
    let least = intervals.iter().min().copied().unwrap_or(0);
    assert!(least >= 12_304, "{least}");
    // By the byte clock none is early; one that was late is followed by one in time.
    let whole: u64 = intervals.iter().sum();
    assert!(
        whole >= 24_288 * (intervals.len() as u64 - 1),
        "{whole} in {}",
        intervals.len()
    );
    // 20 frames fill the time.
    let (sim, out, _) = run(
        20,
        Driver {
            tick,
            gaps: true,
            ..Driver::default()
        },
    );
    assert_eq!(sim.meter(out).map(|meter| meter.underruns()), Some(0));
}

#[test]
fn a_class_gets_its_rate_whatever_overhead_the_link_has() {
    // Frames of 100 B count 104 B with FCS, so 500 Mbit/s are 480.77 Mbit/s of frames; 390.6 if
    // 24 B were forgotten.
    let frame = Bytes::new(100);
    let rate = |overhead: u64| {
        let class = ClassSpec {
            name: "a".into(),
            default: true,
            settings: Table::default()
                .text("rate", "500 Mbit/s")
                .text("packet", &format!("{} B", 100 + overhead)),
            ..ClassSpec::default()
        };
        let spec = DisciplineSpec {
            classes: vec![class].into(),
            ..DisciplineSpec::new("pacer")
        };
        let overhead = Bytes::new(overhead);
        let link = Link::new(GBE, FRAME + overhead).with_framing(Framing::add(overhead.get() as i16));
        let queue = LinkQueue::Policy(Box::new(PolicyQueue {
            plan: spec.check(&Registry::builtin(), link).expect("a good plan"),
            filters: Vec::new(),
            driver: Driver::default(),
        }));
        let mut sim = Simulation::new(Seed(1));
        let [host, far] = ["host", "far"].map(|name| sim.node(name));
        let wire = LinkSpec::new(GBE, Duration::from_micros(5)).framing(Framing::ETHERNET);
        sim.link(host, far, wire.clone().queue(queue));
        sim.link(far, host, wire);
        let datagrams = Datagrams::from(frame).until(Instant::START + Duration::from_millis(100));
        let ends: [Box<dyn Agent>; 2] = [
            Box::new(DatagramSource::new(
                datagrams,
                Constant::every(Duration::from_nanos(1_000)),
            )),
            Box::new(Listener::default()),
        ];
        let key = FlowKey {
            family: Family::V4,
            ..FlowKey::default()
        };
        let flow = sim.flow([host, far], key, Instant::START, ends).expect("a route");
        sim.run_until(Instant::START + Duration::from_millis(100));
        sim.delivered(flow, End::Responder).bytes.get() as f64 * 8.0 / 0.1 / 1e6
    };
    for overhead in [0, 24] {
        let mbit = rate(overhead);
        assert!((480.7..480.8).contains(&mbit), "{mbit} Mbit/s with {overhead} B");
    }
}

#[test]
fn bins_of_32_ns_hold_the_four_bytes_of_their_time_or_none() {
    let mut sim = Simulation::new(Seed(1));
    let [host, far] = ["host", "far"].map(|name| sim.node(name));
    let wire = LinkSpec::new(GBE, Duration::from_micros(5)).framing(Framing::ETHERNET);
    let out = sim.link(host, far, wire.clone().queue(paced(1, Driver::default())));
    sim.link(far, host, wire);
    sim.watch(out, Duration::from_nanos(32));
    packets(&mut sim, [host, far], Instant::START, Duration::from_millis(1));
    sim.run_until(Instant::START + Duration::from_millis(1));
    let bytes = sim.meter(out).expect("a meter").classes()[0].series.bytes();
    // At 1 Gbit/s a byte takes 8 ns. The 24 bytes that the wire adds are spread over the frame's
    // time: a frame of 1538 byte times
    // has 384.5 bins, and the next begins 3036 byte-times after it, which are 759 bins.
    assert!(bytes.len() > 31_000 && bytes.iter().all(|&bytes| bytes <= 4));
    for turn in bytes[..30 * 759].chunks_exact(759) {
        let filled = turn.iter().filter(|&&bytes| bytes > 0).count();
        assert!((384..=386).contains(&filled), "{filled} of 759 bins");
        assert!(turn[400..].iter().all(|&bytes| bytes == 0));
        assert!(turn.iter().sum::<u64>().abs_diff(1_514) <= 24);
    }
}
