//! The network by itself: times, losses, drivers, and what must not depend on what.

use engine::discipline::Reason;
use engine::header::{Family, FlowKey};
use engine::link::Link;
use engine::random::Seed;
use engine::settings::{Raw, Table};
use engine::tree::{DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use sim::agent::{Agent, Context};
use sim::link::{Driver, LinkQueue, LinkSpec, PolicyQueue};
use sim::meter::LinkMeter;
use sim::packet::{Payload, SimPacket};
use sim::simulation::{End, FlowId, LinkId, Simulation};
use sim::sources::{Constant, DatagramSource, Datagrams, Listener};

const FRAME: Bytes = Bytes::new(1250);

fn key(port: u16) -> FlowKey {
    FlowKey {
        family: Family::V4,
        protocol: 17,
        source: 1,
        destination: 2,
        source_port: Some(port),
        destination_port: Some(port),
        ..FlowKey::default()
    }
}

fn ms(n: u64) -> Instant {
    Instant::START + Duration::from_millis(n)
}

/// A FIFO of the engine with room for this many packets.
fn fifo(limit: i64, ring: u32) -> LinkQueue {
    let link = Link::new(Bandwidth::mbit(10), Bytes::new(1514)).with_ring(ring);
    let mut spec = DisciplineSpec::new("fifo");
    spec.settings = Table::default().with("limit", Raw::Integer(limit));
    let plan = spec.check(&Registry::builtin(), link).expect("a FIFO");
    LinkQueue::Policy(Box::new(PolicyQueue {
        plan,
        filters: Vec::new(),
        driver: Driver::default(),
    }))
}

/// A meter whose contract is wider than the link, with one more setting.
fn police(setting: &'static str, value: Raw) -> LinkQueue {
    let link = Link::new(Bandwidth::mbit(10), Bytes::new(1514));
    let mut spec = DisciplineSpec::new("police");
    spec.settings = Table::default()
        .with("meter", Raw::Text("srtcm".into()))
        .with("rate", Raw::Text("100 Mbit/s".into()))
        .with(setting, value);
    let plan = spec.check(&Registry::builtin(), link).expect("a meter");
    LinkQueue::Policy(Box::new(PolicyQueue {
        plan,
        filters: Vec::new(),
        driver: Driver::default(),
    }))
}

/// What a colour-aware meter sends and drops of a flow with this DSCP, behind a meter that remarks
/// green as AF13 or behind nothing.
fn sent_and_dropped(dscp: u8, remarked: bool) -> (u64, u64) {
    let mut sim = Simulation::new(Seed(1));
    let [a, r, b] = ["a", "r", "b"].map(|name| sim.node(name));
    let spec = || LinkSpec::new(Bandwidth::mbit(10), Duration::from_millis(1));
    let first = match remarked {
        true => spec().queue(police("green", Raw::Text("af13".into()))),
        false => spec(),
    };
    sim.link(a, r, first);
    let second = sim.link(r, b, spec().queue(police("aware", Raw::Boolean(true))));
    sim.link(b, r, spec());
    sim.link(r, a, spec());
    sim.watch(second, Duration::from_millis(1));
    let source = DatagramSource::new(
        Datagrams::from(FRAME).until(ms(100)),
        Constant::every(Duration::from_millis(2)),
    );
    let ends: [Box<dyn sim::agent::Agent>; 2] = [Box::new(source), Box::new(Listener::default())];
    let key = FlowKey { dscp, ..key(1) };
    sim.flow([a, b], key, ms(1), ends).expect("a route");
    sim.run_until(ms(300));
    let total = sim.meter(second).expect("a meter").whole().total();
    (
        total.sent.packets,
        total.drops_by_reason[Reason::Policed as usize],
    )
}

#[test]
fn a_packets_dscp_reaches_the_discipline_and_a_remarked_one_the_next_link() {
    const AF11: u8 = 10;
    const AF13: u8 = 14;
    assert_eq!(sent_and_dropped(AF11, false), (50, 0));
    assert_eq!(sent_and_dropped(AF13, false), (0, 50));
    assert_eq!(sent_and_dropped(AF11, true), (0, 50));
}

/// Sends five frames when it is woken.
#[derive(Debug)]
struct Five {
    together: bool,
}

impl Agent for Five {
    fn wake(&mut self, cx: &mut Context<'_>) {
        let frames = (0..5).map(|number| SimPacket::new(FRAME, Payload::Datagram(number)));
        match self.together {
            true => cx.send_together(frames),
            false => frames.for_each(|frame| cx.send(frame)),
        }
    }

    fn receive(&mut self, _cx: &mut Context<'_>, _packet: &SimPacket) {}
}

#[test]
fn what_arrives_as_one_is_queued_before_the_first_of_it_leaves() {
    let sent = |together| {
        let mut sim = Simulation::new(Seed(1));
        let [a, r, b] = ["a", "r", "b"].map(|name| sim.node(name));
        let spec = || LinkSpec::new(Bandwidth::mbit(10), Duration::from_millis(1));
        let first = sim.link(a, r, spec().queue(fifo(3, 1)));
        let second = sim.link(r, b, spec().queue(fifo(1, 1)));
        sim.link(b, r, spec());
        sim.link(r, a, spec());
        for link in [first, second] {
            sim.watch(link, Duration::from_millis(1));
        }
        let ends: [Box<dyn Agent>; 2] = [Box::new(Five { together }), Box::new(Listener::default())];
        sim.flow([a, b], key(1), ms(1), ends).expect("a route");
        sim.run_until(ms(100));
        [first, second].map(|link| {
            let meter = sim.meter(link).expect("a meter");
            meter.whole().total().sent.packets
        })
    };
    // One is on the wire when the others arrive, or none is. The next link gets them one by one.
    assert_eq!(sent(false), [4, 4]);
    assert_eq!(sent(true), [3, 3]);
}

/// Two constant sources of 6 Mbit/s each over 10 Mbit/s and 5 ms, after a fast link.
fn crowd(queue: LinkQueue) -> (Simulation, LinkId, [FlowId; 2]) {
    let mut sim = Simulation::new(Seed(1));
    let [a, r, b] = ["a", "r", "b"].map(|name| sim.node(name));
    let fast = LinkSpec::new(Bandwidth::gbit(1), Duration::from_millis(1));
    sim.duplex(a, r, &fast);
    let slow = LinkSpec::new(Bandwidth::mbit(10), Duration::from_millis(5));
    let narrow = sim.link(r, b, slow.clone().queue(queue));
    sim.link(b, r, slow);
    sim.watch(narrow, Duration::from_millis(1));
    let flows = [1, 2].map(|port| {
        let frames = Datagrams::from(FRAME).until(ms(2_900));
        let source = DatagramSource::new(frames, Constant::every(Duration::from_nanos(1_666_667)));
        let ends: [Box<dyn sim::agent::Agent>; 2] = [Box::new(source), Box::new(Listener::default())];
        sim.flow([a, b], key(port), ms(u64::from(port)), ends)
            .expect("a route")
    });
    (sim, narrow, flows)
}

fn facts(meter: &LinkMeter) -> (u64, u64, Vec<u64>, Duration) {
    let class = &meter.classes()[0];
    let lost = class.drops_by_reason[Reason::Full as usize];
    (
        class.sent.packets,
        lost,
        class.series.bytes().to_vec(),
        class.queueing_delays.longest(),
    )
}

#[test]
fn a_lone_packet_takes_the_time_of_its_bits_on_each_link_and_of_travel() {
    let mut sim = Simulation::new(Seed(1));
    let [a, r, b] = ["a", "r", "b"].map(|name| sim.node(name));
    sim.duplex(
        a,
        r,
        &LinkSpec::new(Bandwidth::mbit(100), Duration::from_millis(3)),
    );
    sim.duplex(
        r,
        b,
        &LinkSpec::new(Bandwidth::mbit(10), Duration::from_millis(20)),
    );
    let source = DatagramSource::new(FRAME, Constant::every(Duration::from_secs(1)));
    let flow = sim.flow(
        [a, b],
        key(1),
        ms(7),
        [Box::new(source), Box::new(Listener::default())],
    );
    let flow = flow.expect("a route");
    sim.run_until(ms(600));
    let listener: &Listener = sim.agent(flow, End::Responder).expect("a listener");
    assert_eq!(listener.packets, 1);
    assert_eq!(
        listener.delays.longest(),
        Duration::from_micros(100 + 3_000 + 1_000 + 20_000)
    );
    assert_eq!(sim.in_flight(), 0);
}

#[test]
fn a_card_that_coalesces_interrupts_hands_over_together_what_has_arrived() {
    let mut sim = Simulation::new(Seed(1));
    let [a, b] = ["a", "b"].map(|name| sim.node(name));
    let spec = LinkSpec::new(Bandwidth::mbit(100), Duration::ZERO);
    sim.duplex(a, b, &spec.interrupts(Duration::from_millis(1)));
    let source = DatagramSource::new(FRAME, Constant::every(Duration::from_micros(100)));
    let ends: [Box<dyn Agent>; 2] = [Box::new(source), Box::new(Listener::default())];
    let flow = sim.flow([a, b], key(1), ms(7), ends).expect("a route");
    let received = |sim: &Simulation| {
        let listener: &Listener = sim.agent(flow, End::Responder).expect("a listener");
        (listener.packets, listener.delays.longest())
    };
    sim.run_until(Instant::from_nanos(ms(8).nanos() - 1));
    let before = received(&sim).0;
    sim.run_until(ms(8));
    // The first arrives after 100 µs, the tenth after 1 ms.
    assert_eq!((before, received(&sim)), (0, (10, Duration::from_millis(1))));
}

#[test]
fn a_computed_buffer_and_the_engines_fifo_treat_every_packet_alike() {
    let limit = FRAME.times(16);
    let run = |queue: LinkQueue| {
        let (mut sim, narrow, _) = crowd(queue);
        sim.run_until(ms(3_000));
        facts(sim.meter(narrow).expect("a meter"))
    };
    let computed = run(LinkQueue::TailDrop(limit));
    assert!(computed.1 > 100, "the link is overloaded: {computed:?}");
    let simulated = run(fifo(16, 1));
    assert!(
        computed == simulated,
        "{:?} {:?}",
        (computed.0, computed.1, computed.3),
        (simulated.0, simulated.1, simulated.3)
    );
}

#[test]
fn an_overloaded_link_is_full_in_every_bin_and_a_queue_waits_no_longer_than_its_limit() {
    let (mut sim, narrow, _) = crowd(LinkQueue::TailDrop(Bytes::new(20_000)));
    sim.run_until(ms(2_000));
    let (.., bytes, longest) = facts(sim.meter(narrow).expect("a meter"));
    let full = bytes[200..1_900].iter().all(|&bytes| bytes == 1_250);
    assert!(full, "{:?}", &bytes[200..300]);
    assert!(longest <= Duration::from_millis(17), "{longest}");
}

#[test]
fn a_deep_transmit_ring_takes_packets_from_the_queue_before_their_time() {
    let (mut sim, narrow, _) = crowd(fifo(16, 8));
    sim.run_until(ms(3_000));
    let (queue, _) = sim.queue(narrow).expect("a queue");
    let (sent, ..) = facts(sim.meter(narrow).expect("a meter"));
    assert_eq!(queue.stats().sent.packets, sent);
    // The buffer is longer by the seven that the device holds beside the one on the wire.
    let (.., longest) = facts(sim.meter(narrow).expect("a meter"));
    assert!(longest > Duration::from_millis(20), "{longest}");
}

#[test]
fn a_node_that_shares_nothing_with_others_changes_nothing_for_them() {
    let run = |crowded: bool| {
        let mut sim = Simulation::new(Seed(9));
        let names: &[&str] = if crowded {
            &["x", "a", "y", "b"]
        } else {
            &["a", "b"]
        };
        let nodes: Vec<_> = names.iter().map(|name| sim.node(name)).collect();
        let node = |name: &str| nodes[names.iter().position(|n| *n == name).expect("a name")];
        let lossy = LinkSpec::new(Bandwidth::mbit(10), Duration::from_millis(5))
            .loss(sim::link::Loss::Random(engine::units::Probability::ratio(1, 10)));
        let talk = |sim: &mut Simulation, from, to, port| {
            sim.duplex(from, to, &lossy);
            let ends: [Box<dyn sim::agent::Agent>; 2] = [
                Box::new(DatagramSource::new(
                    FRAME,
                    Constant::every(Duration::from_millis(2)),
                )),
                Box::new(Listener::default()),
            ];
            sim.flow([from, to], key(port), ms(0), ends).expect("a route")
        };
        if crowded {
            talk(&mut sim, node("x"), node("y"), 1);
        }
        let flow = talk(&mut sim, node("a"), node("b"), 2);
        sim.run_until(ms(5_000));
        let listener: &Listener = sim.agent(flow, End::Responder).expect("a listener");
        (listener.packets, listener.delays.longest())
    };
    let alone = run(false);
    assert_eq!(alone, run(true));
    assert!(
        alone.0 < 2_400 && alone.0 > 2_000,
        "one in ten is lost: {alone:?}"
    );
}

#[test]
fn a_wire_of_two_seconds_is_full_of_packets_and_loses_none() {
    let frame = Bytes::new(1_250);
    let mut sim = Simulation::new(Seed(1));
    let ends = ["a", "b"].map(|name| sim.node(name));
    let wire = LinkSpec::new(Bandwidth::gbit(1), Duration::from_secs(2));
    sim.duplex(ends[0], ends[1], &wire);
    // A packet takes 10 microseconds: 200,000 of them are on the way, 250 MB.
    let datagrams = Datagrams::from(frame).until(ms(2_500));
    let agents: [Box<dyn Agent>; 2] = [
        Box::new(DatagramSource::new(
            datagrams,
            Constant::every(Duration::from_micros(10)),
        )),
        Box::new(Listener::default()),
    ];
    let flow = sim.flow(ends, key(1), Instant::START, agents).expect("a route");
    sim.run_until(ms(2_000));
    assert!(sim.in_flight().abs_diff(200_000) <= 2, "{}", sim.in_flight());
    assert_eq!(sim.delivered(flow, End::Responder).bytes, Bytes::ZERO);
    sim.run_until(ms(5_000));
    assert_eq!(sim.in_flight(), 0);
    assert_eq!(
        sim.delivered(flow, End::Responder).bytes,
        Bytes::new(250_000 * 1_250)
    );
}

/// A packet each millisecond for 100 ms from `a` to `b`: by `r` in 2 × 5 ms, or by `s` in 2 × 10.
struct TwoWays {
    sim: Simulation,
    flow: FlowId,
    /// From `a` to `r`, and from `r` to `b`.
    by_r: [LinkId; 2],
    /// From `a` to `s`, and from `r`.
    to_s: [LinkId; 2],
}

impl TwoWays {
    fn new() -> Self {
        let mut sim = Simulation::new(Seed(1));
        let [a, r, s, b] = ["a", "r", "s", "b"].map(|name| sim.node(name));
        let spec = |ms| LinkSpec::new(Bandwidth::mbit(100), Duration::from_millis(ms));
        let [ar, _] = sim.duplex(a, r, &spec(5));
        let [rb, _] = sim.duplex(r, b, &spec(5));
        let [to_s, _] = sim.duplex(a, s, &spec(10));
        sim.duplex(s, b, &spec(10));
        let [rs, _] = sim.duplex(r, s, &spec(1));
        let source = DatagramSource::new(
            Datagrams::from(FRAME).until(ms(100)),
            Constant::every(Duration::from_millis(1)),
        );
        let agents: [Box<dyn Agent>; 2] = [Box::new(source), Box::new(Listener::default())];
        let flow = sim.flow([a, b], key(1), Instant::START, agents).expect("a route");
        Self {
            sim,
            flow,
            by_r: [ar, rb],
            to_s: [to_s, rs],
        }
    }

    /// How many of the hundred arrive.
    fn arrive(&mut self) -> u64 {
        self.sim.run_until(ms(1_000));
        let listener = self.sim.agent::<Listener>(self.flow, End::Responder);
        assert_eq!(self.sim.in_flight(), 0);
        listener.expect("a listener").packets
    }
}

#[test]
fn routes_lead_around_a_link_and_what_is_under_way_follows_from_the_next_host() {
    let mut plain = TwoWays::new();
    assert_eq!(plain.arrive(), 100);
    // At 50.5 ms those sent from 46 ms on are on `a > r`, and five before them on `r > b`: these
    // are lost, as is what goes there.
    let at_half = |by: fn(&mut Simulation, LinkId)| {
        let mut ways = TwoWays::new();
        ways.sim.run_until(ms(50) + Duration::from_micros(500));
        by(&mut ways.sim, ways.by_r[1]);
        ways.arrive()
    };
    assert_eq!(at_half(|sim, rb| sim.cut(rb, true)), 41);
    // From `r` those that are on `a > r` go on by `s`, and later ones from `a`.
    let around = |sim: &mut Simulation, rb: LinkId| {
        sim.cut(rb, true);
        sim.reroute(&[rb]);
    };
    assert_eq!(at_half(around), 95);
    // And back again: nothing is lost, though later packets overtake.
    let mut back = TwoWays::new();
    let [ar, rb, ..] = back.by_r;
    back.sim.run_until(ms(20));
    back.sim.reroute(&[ar, rb]);
    back.sim.run_until(ms(60));
    back.sim.reroute(&[]);
    assert_eq!(back.arrive(), 100);
    // Where there is no other way, routes stay.
    let mut none = TwoWays::new();
    let all = [none.by_r.as_slice(), &none.to_s].concat();
    none.sim.reroute(&all);
    assert_eq!(none.arrive(), 100);
}

/// What stands in a queue of 20 packets, and what is on the wire, is gone after a restart; what
/// comes later waits for nothing of it.
#[test]
fn a_restart_empties_the_queues_and_the_wires_of_a_host() {
    for queue in [
        LinkQueue::TailDrop(Bytes::new(20 * 1_250)),
        fifo(20, 1),
        fifo(20, 4),
    ] {
        let (mut sim, link, flows) = crowd(queue);
        sim.run_until(ms(100));
        let received = |sim: &Simulation| {
            let of = |flow| {
                sim.agent::<Listener>(flow, End::Responder)
                    .expect("a listener")
                    .packets
            };
            flows.map(of).into_iter().sum::<u64>()
        };
        let before = received(&sim);
        let sent = |sim: &Simulation| sim.meter(link).expect("a meter").whole().total().sent.packets;
        let sent_before = sent(&sim);
        sim.restart(link);
        assert!(sim.in_flight() < 4, "{} are left", sim.in_flight());
        assert_eq!((received(&sim), sent(&sim)), (before, sent_before));
        sim.run_until(ms(105));
        assert_eq!(received(&sim), before, "what was queued has come through");
        sim.run_until(ms(200));
        assert!((93..=95).contains(&(received(&sim) - before)));
        let flushed = sim
            .meter(link)
            .expect("a meter")
            .whole()
            .total()
            .dropped_for(Reason::Flushed);
        assert!((15..=20).contains(&flushed), "{flushed}");
    }
}
