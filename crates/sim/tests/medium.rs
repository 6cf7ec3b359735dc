//! Media that hosts share, against what is published about them: Bianchi's saturation throughput
//! of 802.11's DCF, the anomaly of 802.11's rates, and what holds of every medium.

use engine::classify::{Filter, Ports};
use engine::header::{Family, FlowKey};
use engine::link::Link;
use engine::packet::ClassId;
use engine::random::Seed;
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use sim::agent::Agent;
use sim::link::{Driver, LinkQueue, LinkSpec, PolicyQueue};
use sim::medium::{Access, Dcf, MediumCounts};
use sim::simulation::{End, FlowId, LinkId, MediumId, Simulation};
use sim::sources::{Constant, DatagramSource, Datagrams, Greedy, Listener};
use sim::tcp;

const SECOND: Duration = Duration::from_secs(1);

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn at(ms: u64) -> Instant {
    Instant::START + Duration::from_millis(ms)
}

/// Table I of Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function"
/// (IEEE JSAC 18(3), 2000), at 1 Mbit/s: frames of 8,184 bits with 272 bits of MAC header, headers
/// of the PHY of 128 bits, acknowledgments of 112 bits; without its propagation of 1 µs.
fn bianchi(cw_min: u32, cw_max: u32) -> Dcf {
    Dcf {
        slot: us(50),
        sifs: us(28),
        difs: us(128),
        preamble: us(128),
        ack: us(128 + 112),
        overhead: Bytes::new(34),
        cw_min,
        cw_max,
        retries: u32::MAX,
        aggregation: 1,
        longest: Duration::ZERO,
    }
}

const FRAME: u64 = 1_023;

/// Stations, each with its rate, that always have frames for an access point; what each delivers.
struct Cell {
    sim: Simulation,
    medium: MediumId,
    flows: Vec<FlowId>,
    /// From each station.
    links: Vec<LinkId>,
}

impl Cell {
    fn new(access: Access, rates: &[Bandwidth], frame: u64) -> Self {
        let mut sim = Simulation::new(Seed(7));
        let medium = sim.medium("air", access);
        let point = sim.node("ap");
        let (mut flows, mut links) = (Vec::new(), Vec::new());
        for (number, &rate) in rates.iter().enumerate() {
            let station = sim.node(&format!("station {number}"));
            let spec = LinkSpec::new(rate, Duration::ZERO).queue(LinkQueue::TailDrop(Bytes::new(100_000)));
            for (from, to) in [(station, point), (point, station)] {
                let link = sim.link(from, to, spec.clone());
                sim.share(medium, from, link);
                links.extend((from == station).then_some(link));
            }
            let source = Box::new(Greedy::new(Datagrams::from(Bytes::new(frame)), 4));
            let ends: [Box<dyn Agent>; 2] = [source, Box::new(Listener::default())];
            let flow = sim.flow([station, point], FlowKey::default(), Instant::START, ends);
            flows.push(flow.expect("links"));
        }
        Self {
            sim,
            medium,
            flows,
            links,
        }
    }

    fn after(mut self, seconds: u64) -> (Vec<f64>, MediumCounts) {
        self.sim.run_until(Instant::START + SECOND.times(seconds));
        let delivered = |flow: &FlowId| self.sim.delivered(*flow, End::Responder).bytes.get();
        let bits = |bytes: u64| bytes as f64 * 8.0 / seconds as f64;
        let rates = self.flows.iter().map(|flow| bits(delivered(flow))).collect();
        (rates, self.sim.medium_counts(self.medium))
    }
}

/// The probability with which a station sends in a slot, and that with which it collides
/// (equations 7 and 9), for a window of W slots that doubles m times.
fn fixed_point(stations: u32, w: f64, m: i32) -> (f64, f64) {
    let sends =
        |p: f64| 2.0 * (1.0 - 2.0 * p) / ((1.0 - 2.0 * p) * (w + 1.0) + p * w * (1.0 - (2.0 * p).powi(m)));
    let collides = |tau: f64| 1.0 - (1.0 - tau).powi(stations as i32 - 1);
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let p = f64::midpoint(low, high);
        // At 1/2 the expression is 0/0.
        if collides(sends(p + 1e-12)) > p {
            low = p;
        } else {
            high = p;
        }
    }
    (sends(low + 1e-12), low)
}

/// Equation 13, with the times of basic access (equation 14), in bits of frames per second.
fn saturation(stations: u32, dcf: &Dcf, m: i32) -> f64 {
    let (tau, _) = fixed_point(stations, f64::from(dcf.cw_min) + 1.0, m);
    let n = f64::from(stations);
    let some = 1.0 - (1.0 - tau).powf(n);
    let one = n * tau * (1.0 - tau).powf(n - 1.0) / some;
    let micros = |span: Duration| span.as_secs_f64() * 1e6;
    let bits = FRAME as f64 * 8.0;
    let frame = micros(dcf.preamble) + bits + dcf.overhead.get() as f64 * 8.0;
    let success = frame + micros(dcf.sifs) + micros(dcf.ack) + micros(dcf.difs);
    let collision = frame + micros(dcf.difs);
    let slot = (1.0 - some) * micros(dcf.slot) + some * one * success + some * (1.0 - one) * collision;
    some * one * bits / slot * 1e6
}

#[test]
fn saturation_throughput_is_that_of_bianchis_model_from_1_to_20_stations() {
    for (cw_min, m) in [(31, 3), (31, 5), (127, 3)] {
        let dcf = bianchi(cw_min, ((cw_min + 1) << m) - 1);
        for stations in [1, 2, 3, 5, 10, 15, 20] {
            let rates = vec![Bandwidth::mbit(1); stations as usize];
            let (found, counts) = Cell::new(Access::Dcf(dcf), &rates, FRAME).after(60);
            let (sum, law) = (found.iter().sum::<f64>(), saturation(stations, &dcf, m));
            let part = sum / law;
            assert!(
                (0.97..=1.03).contains(&part),
                "{stations} of W = {}, m = {m}: {sum:.0}, by the model {law:.0}; {counts:?}",
                cw_min + 1
            );
        }
    }
}

/// The part of attempts that collides: p of the same model.
#[test]
fn as_many_attempts_collide_as_bianchis_model_says() {
    let dcf = bianchi(31, 255);
    for stations in [2, 5, 10] {
        let rates = vec![Bandwidth::mbit(1); stations as usize];
        let (_, counts) = Cell::new(Access::Dcf(dcf), &rates, FRAME).after(120);
        // Nearly all collisions are of two.
        let (_, p) = fixed_point(stations, 32.0, 3);
        let lost = 2.0 * counts.collisions as f64;
        let found = lost / (lost + counts.transmissions as f64);
        assert!((found / p - 1.0).abs() < 0.15, "{stations}: {found} of {p}");
    }
}

/// Heusse, Rousseau, Berger-Sabbatel and Duda, "Performance anomaly of 802.11b" (INFOCOM 2003): a
/// station at 1 Mbit/s takes all others at 11 Mbit/s down to its own throughput, and that is less
/// than it had alone.
#[test]
fn one_slow_station_takes_all_down_to_its_own_throughput() {
    // 802.11b with long preambles: 192 µs, acknowledgments of 14 B at 1 Mbit/s.
    let dcf = Dcf {
        slot: us(20),
        sifs: us(10),
        difs: us(50),
        preamble: us(192),
        ack: us(192 + 112),
        overhead: Bytes::new(34),
        cw_min: 31,
        cw_max: 1023,
        retries: 7,
        aggregation: 1,
        longest: Duration::ZERO,
    };
    let frame = 1_500;
    let (fast, slow) = (Bandwidth::mbit(11), Bandwidth::mbit(1));
    let (alone, _) = Cell::new(Access::Dcf(dcf), &[slow], frame).after(30);
    for others in [1, 3, 5] {
        let mut rates = vec![fast; others];
        rates.push(slow);
        let (found, _) = Cell::new(Access::Dcf(dcf), &rates, frame).after(120);
        let (last, first) = found.split_last().expect("stations");
        let mean = first.iter().sum::<f64>() / first.len() as f64;
        assert!((mean / last - 1.0).abs() < 0.06, "{found:?}");
        assert!(*last < 0.95 * alone[0], "{found:?} {alone:?}");
        // Section 3: a frame of each in turn, with the waits and collisions between them.
        let n = (others + 1) as f64;
        let collides = 1.0 - (1.0 - 1.0 / 31.0_f64).powf(n - 1.0);
        let waits = 20e-6 * (1.0 + collides) / (2.0 * n) * 31.0 / 2.0;
        let time = |rate: f64| (1_534.0 * 8.0) / rate + (50.0 + 192.0 + 10.0 + 304.0) * 1e-6 + waits;
        let jam = 2.0 / n * time(1e6) + (1.0 - 2.0 / n) * time(11e6);
        let round = (n - 1.0) * time(11e6) + time(1e6) + collides * jam * n;
        let law = 1_500.0 * 8.0 / round;
        assert!(
            (last / law - 1.0).abs() < 0.15,
            "{others}: {last}, by the law {law}"
        );
    }
}

/// An access point has one turn for all it sends: with as many downloads as stations that upload
/// it gets a share of one station.
#[test]
fn an_access_point_contends_as_one_whatever_it_sends_to() {
    let mut sim = Simulation::new(Seed(3));
    let medium = sim.medium("air", Access::Dcf(bianchi(31, 1023)));
    let point = sim.node("ap");
    let mut flows = [Vec::new(), Vec::new()];
    for number in 0..3 {
        let station = sim.node(&format!("station {number}"));
        let spec =
            LinkSpec::new(Bandwidth::mbit(1), Duration::ZERO).queue(LinkQueue::TailDrop(Bytes::new(50_000)));
        for (way, between) in [[station, point], [point, station]].into_iter().enumerate() {
            let link = sim.link(between[0], between[1], spec.clone());
            sim.share(medium, between[0], link);
            flows[way].push(between);
        }
    }
    let flows = flows.map(|way| {
        let added = way.into_iter().map(|between| {
            let source = Box::new(Greedy::new(Datagrams::from(Bytes::new(FRAME)), 4));
            let ends: [Box<dyn Agent>; 2] = [source, Box::new(Listener::default())];
            let flow = sim.flow(between, FlowKey::default(), Instant::START, ends);
            flow.expect("links")
        });
        added.collect::<Vec<_>>()
    });
    sim.run_until(at(120_000));
    let sum = |way: &Vec<FlowId>| {
        let each = way
            .iter()
            .map(|flow| sim.delivered(*flow, End::Responder).bytes.get());
        each.sum::<u64>() as f64
    };
    let [up, down] = [sum(&flows[0]), sum(&flows[1])];
    assert!((down / (up / 3.0) - 1.0).abs() < 0.08, "{up} {down}");
    let of = |flow: &FlowId| sim.delivered(*flow, End::Responder).bytes.get() as f64;
    let each: Vec<f64> = flows[1].iter().map(of).collect();
    assert!(
        each.iter().all(|one| (one / each[0] - 1.0).abs() < 0.02),
        "{each:?}"
    );
}

/// With aggregates of 32 a frame of 1,500 B at 300 Mbit/s takes a little more than its bits;
/// alone, several times as long.
#[test]
fn aggregation_shares_preambles_and_acknowledgments() {
    let dcf = |aggregation| Dcf {
        slot: us(9),
        sifs: us(16),
        difs: us(34),
        preamble: us(40),
        ack: us(32),
        overhead: Bytes::new(24),
        cw_min: 15,
        cw_max: 1023,
        retries: 7,
        aggregation,
        longest: Duration::from_millis(4),
    };
    let rate = |aggregation| {
        let mut sim = Simulation::new(Seed(7));
        let medium = sim.medium("air", Access::Dcf(dcf(aggregation)));
        let [station, point] = ["station", "ap"].map(|name| sim.node(name));
        let spec = LinkSpec::new(Bandwidth::mbit(300), Duration::ZERO);
        for (from, to) in [(station, point), (point, station)] {
            let link = sim.link(from, to, spec.clone());
            sim.share(medium, from, link);
        }
        let source = Box::new(Greedy::new(Datagrams::from(Bytes::new(1_500)), 100));
        let ends: [Box<dyn Agent>; 2] = [source, Box::new(Listener::default())];
        let flow = sim.flow([station, point], FlowKey::default(), Instant::START, ends);
        let flow = flow.expect("links");
        sim.run_until(at(5_000));
        sim.delivered(flow, End::Responder).bytes.get() as f64 * 8.0 / 5.0
    };
    // A mean of 7.5 slots, DIFS, preamble, SIFS and acknowledgment: 189.5 µs; a frame 40.64 µs.
    for aggregation in [1, 32] {
        let bits = f64::from(aggregation) * 12_000.0;
        let law = bits / (189.5e-6 + f64::from(aggregation) * 40.64e-6);
        let found = rate(aggregation);
        assert!((found / law - 1.0).abs() < 0.02, "{aggregation}: {found} {law}");
    }
}

/// Two hosts and two links with these queues on a medium.
fn pair(access: Access, queue: &LinkQueue) -> (Simulation, [LinkId; 2], [sim::simulation::NodeId; 2]) {
    let mut sim = Simulation::new(Seed(11));
    let medium = sim.medium("line", access);
    let nodes = ["a", "b"].map(|name| sim.node(name));
    let spec = LinkSpec::new(Bandwidth::mbit(10), Duration::from_millis(5));
    let links = [(0, 1), (1, 0)].map(|(from, to)| {
        let link = sim.link(nodes[from], nodes[to], spec.clone().queue(queue.clone()));
        sim.share(medium, nodes[from], link);
        sim.watch(link, Duration::from_millis(100));
        link
    });
    (sim, links, nodes)
}

#[test]
fn a_half_duplex_line_carries_its_rate_in_both_directions_together() {
    let buffer = LinkQueue::TailDrop(Bytes::new(60_000));
    let gap = us(100);
    let (mut sim, links, nodes) = pair(Access::Turns { gap }, &buffer);
    for between in [nodes, [nodes[1], nodes[0]]] {
        let ends = tcp::pair(&tcp::Settings::default());
        sim.flow(between, FlowKey::default(), Instant::START, ends)
            .expect("links");
    }
    sim.run_until(at(20_000));
    let carried = links.map(|link| sim.carried(link).get());
    let packets: u64 = links
        .iter()
        .map(|link| sim.meter(*link).expect("a meter").whole().total().sent.packets)
        .sum();
    let time = (carried.iter().sum::<u64>() * 8) as f64 / 10e6 + packets as f64 * 100e-6;
    assert!((19.6..=20.0).contains(&time), "{time}: {carried:?}");
    let [there, back] = carried.map(|bytes| bytes as f64);
    assert!((0.8..=1.25).contains(&(there / back)), "{carried:?}");
}

fn policy(spec: &DisciplineSpec, filters: Vec<Filter>) -> Option<LinkQueue> {
    let link = Link::new(Bandwidth::mbit(10), Bytes::new(1514));
    let plan = spec.check(&Registry::builtin(), link).ok()?;
    Some(LinkQueue::Policy(Box::new(PolicyQueue {
        plan,
        filters,
        driver: Driver::default(),
    })))
}

fn dcf() -> Access {
    Access::Dcf(Dcf {
        slot: us(9),
        sifs: us(16),
        difs: us(34),
        preamble: us(20),
        ack: us(28),
        overhead: Bytes::new(24),
        cw_min: 15,
        cw_max: 1023,
        retries: 7,
        aggregation: 1,
        longest: Duration::ZERO,
    })
}

/// Every discipline that needs no settings; nothing is lost unseen, and nothing is left behind.
#[test]
fn each_discipline_works_before_a_medium() {
    let mut tried = 0;
    for kind in Registry::builtin().kinds() {
        let Some(queue) = policy(&DisciplineSpec::new(kind.name), Vec::new()) else {
            continue;
        };
        tried += 1;
        let (mut sim, links, nodes) = pair(dcf(), &queue);
        let mut flows = Vec::new();
        for between in [nodes, [nodes[1], nodes[0]]] {
            let source = DatagramSource::new(
                Datagrams::from(Bytes::new(1_000)),
                Constant::rate(Bandwidth::mbit(8)),
            );
            let ends: [Box<dyn Agent>; 2] = [Box::new(source), Box::new(Listener::default())];
            flows.push(
                sim.flow(between, FlowKey::default(), Instant::START, ends)
                    .expect("links"),
            );
        }
        sim.run_until(at(3_000));
        for (&link, &flow) in links.iter().zip(&flows) {
            let total = sim.meter(link).expect("a meter").whole().total();
            let listener: &Listener = sim.agent(flow, End::Responder).expect("a listener");
            assert!(listener.packets > 1_000, "{}: {}", kind.name, listener.packets);
            let unarrived = total.sent.packets - sim.lost_on_wire(link) - listener.packets;
            assert!(unarrived <= 8, "{}: {unarrived} are on the wire", kind.name);
        }
    }
    assert!(tried >= 10, "{tried}");
}

#[test]
fn classes_of_drr_keep_their_shares_of_what_a_medium_leaves() {
    let mut spec = DisciplineSpec::new("drr");
    let class = |name: &str, weight| ClassSpec {
        name: name.into(),
        default: name == "rest",
        settings: Table::default().with("weight", Raw::Integer(weight)),
        ..ClassSpec::default()
    };
    spec.classes.extend([class("three", 3), class("rest", 1)]);
    let filter = Filter {
        source_port: Some(Ports::one(3)),
        ..Filter::new(ClassId(0))
    };
    let queue = policy(&spec, vec![filter]).expect("a policy");
    let (mut sim, _, nodes) = pair(dcf(), &queue);
    let flows = [3, 1].map(|port| {
        let source = Greedy::new(Datagrams::from(Bytes::new(1_000)), 20);
        let ends: [Box<dyn Agent>; 2] = [Box::new(source), Box::new(Listener::default())];
        let key = FlowKey {
            family: Family::V4,
            protocol: 17,
            source_port: Some(port),
            destination_port: Some(9),
            ..FlowKey::default()
        };
        sim.flow(nodes, key, Instant::START, ends).expect("links")
    });
    sim.run_until(at(10_000));
    let [three, one] = flows.map(|flow| sim.delivered(flow, End::Responder).bytes.get() as f64);
    assert!((2.95..=3.05).contains(&(three / one)), "{three} {one}");
}

/// What collides too often is lost, as with a retry limit of none: half and more of two hosts with
/// a window of one slot.
#[test]
fn a_packet_that_reaches_the_retry_limit_is_lost_on_the_wire() {
    let rates = [Bandwidth::mbit(1); 2];
    let blunt = Dcf {
        retries: 0,
        ..bianchi(0, 0)
    };
    let (found, counts) = Cell::new(Access::Dcf(blunt), &rates, FRAME).after(5);
    assert_eq!(counts.given_up, 2 * counts.collisions);
    assert!(
        counts.transmissions <= 1 && counts.collisions > 100,
        "{counts:?} {found:?}"
    );
}

#[test]
fn the_same_seed_gives_the_same_and_in_how_many_pieces_time_passes_does_not_matter() {
    let rates = [1, 2, 5, 11].map(Bandwidth::mbit);
    let run = |pieces: u64| {
        let mut cell = Cell::new(Access::Dcf(bianchi(31, 1023)), &rates, FRAME);
        for piece in 1..=pieces {
            cell.sim.run_until(at(4_000 * piece / pieces));
        }
        let delivered = cell
            .flows
            .iter()
            .map(|flow| cell.sim.delivered(*flow, End::Responder).bytes);
        (delivered.collect::<Vec<_>>(), cell.sim.medium_counts(cell.medium))
    };
    assert_eq!(run(1), run(97));
}

/// A host that restarts has nothing to send: others are not held up by its turn.
#[test]
fn a_restart_of_a_host_leaves_the_medium_to_others() {
    let rates = [Bandwidth::mbit(1); 2];
    let mut cell = Cell::new(Access::Dcf(bianchi(31, 1023)), &rates, FRAME);
    cell.sim.run_until(at(2_000));
    let before: Vec<Bytes> = cell
        .flows
        .iter()
        .map(|flow| cell.sim.delivered(*flow, End::Responder).bytes)
        .collect();
    let link = cell.links[0];
    cell.sim.restart(link);
    cell.sim.run_until(at(4_000));
    let after: Vec<Bytes> = cell
        .flows
        .iter()
        .map(|flow| cell.sim.delivered(*flow, End::Responder).bytes)
        .collect();
    let [_, other] = [0, 1].map(|n| (after[n] - before[n]).get());
    assert!(other > 60_000, "{before:?} {after:?}");
    assert!(cell.sim.lost_on_wire(link) <= 4);
}
