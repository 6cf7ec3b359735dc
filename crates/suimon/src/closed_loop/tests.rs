//! A known network is simulated and captured before its bottleneck; its senders, made again from
//! the capture, get what the network gave them, and under another policy what it would have given.

use super::*;
use control::policy::Policy;
use control::what_if::Figures;
use engine::header::{Family, FlowKey};
use engine::tree::Registry;
use gateway::what_if::{candidate, figures};
use sim::sources::Constant;
use sim::tcp::congestion::CONTROLS;

const SPAN: Duration = Duration::from_secs(20);
const CALLS: u16 = 5_060;

fn policy(mbit: u64, discipline: &str) -> InterfacePolicy {
    let text = format!(
        "version = 1\n[interface.wan0]\nbandwidth = \"{mbit} Mbit/s\"\ndiscipline = \"drr\"\n\
         [[interface.wan0.class]]\nname = \"calls\"\nquantum = \"3028 B\"\n\
         [[interface.wan0.class]]\nname = \"rest\"\ndefault = true\nquantum = \"12112 B\"\ndiscipline = {discipline}\n\
         [[interface.wan0.filter]]\nclass = \"calls\"\nprotocol = \"udp\"\ndestination_port = {CALLS}\n"
    );
    let read = Policy::read("test", &text, &Registry::builtin(), &[]);
    read.unwrap_or_else(|why| panic!("{}", why.render(false)))
        .interfaces
        .remove(0)
}

const FIFO: &str = "{ kind = \"fifo\", limit = 60 }";

/// So many bytes at once, again and again.
#[derive(Debug)]
struct Pulses {
    bytes: u64,
    every: Duration,
}

impl Application for Pulses {
    fn write(&mut self, progress: &StreamProgress) -> Written {
        let done = progress.now.since(Instant::START).nanos() / self.every.nanos();
        let ask_again = Instant::from_nanos((done + 1) * self.every.nanos());
        Written::until(ask_again, done * self.bytes, false)
    }
}

fn key(number: u16, protocol: u8, peer: u128) -> FlowKey {
    FlowKey {
        family: Family::V4,
        ethertype: 0x0800,
        protocol,
        source: 0x0a00_0001,
        destination: 0x0a00_0100 + peer,
        source_port: Some(40_000 + number),
        destination_port: Some(if protocol == 17 { CALLS } else { 443 }),
        ..FlowKey::default()
    }
}

/// The network under a policy: what its classes get, and what a capture before it has.
fn network(interface: &InterfacePolicy) -> (Vec<ClassFigures>, Simulation, LinkId) {
    let mut sim = Simulation::new(Seed(3));
    let [hosts, router, line] = ["hosts", "router", "line"].map(|name| sim.node(name));
    let captured = sim.link(hosts, router, LinkSpec::new(Bandwidth::gbit(1), Duration::ZERO));
    sim.link(router, hosts, LinkSpec::new(Bandwidth::gbit(1), Duration::ZERO));
    sim.capture(captured, 1_000_000);
    let queue = LinkQueue::Policy(Box::new(PolicyQueue {
        plan: interface.plan.clone(),
        filters: interface.filters.to_vec(),
        driver: Driver::default(),
    }));
    let spec = LinkSpec::new(interface.link().bandwidth, Duration::from_millis(2));
    let bottleneck = sim.link(router, line, spec.queue(queue));
    sim.link(
        line,
        router,
        LinkSpec::new(Bandwidth::gbit(1), Duration::from_millis(2)),
    );
    sim.watch(bottleneck, SPAN);
    let peers = [13, 38].map(|ms| {
        let peer = sim.node(&format!("peer {ms}"));
        sim.duplex(
            line,
            peer,
            &LinkSpec::new(Bandwidth::gbit(1), Duration::from_millis(ms)),
        );
        peer
    });
    // Two long transfers, a short one, an application that pauses; and a call.
    let bulk = |total: Option<u64>| Settings {
        total: total.map(Bytes::new),
        ..Settings::default()
    };
    let pulses = Pulses {
        bytes: 30_000,
        every: Duration::from_millis(490),
    };
    let flows = [
        (0, 10, sim::tcp::pair(&bulk(None))),
        (1, 500, sim::tcp::pair(&bulk(None))),
        (0, 4_000, sim::tcp::pair(&bulk(Some(2_000_000)))),
        (1, 20, pair_with(&Settings::default(), Box::new(pulses))),
    ];
    for (number, (peer, ms, ends)) in (0..).zip(flows) {
        let begin = Instant::START + Duration::from_millis(ms);
        sim.flow([hosts, peers[peer as usize]], key(number, 6, peer), begin, ends)
            .expect("a route");
    }
    let call = DatagramSource::new(Bytes::new(214), Constant::every(Duration::from_millis(20)));
    let way = [hosts, peers[0]];
    sim.flow(
        way,
        key(9, 17, 0),
        Instant::START,
        [Box::new(call), Box::new(Listener::default())],
    )
    .expect("a route");
    sim.run_until(Instant::START + SPAN);
    let found = by_class(&sim, bottleneck, interface, SPAN);
    (found, sim, captured)
}

/// The figures of classes, by name.
fn of(classes: &[ClassFigures], name: &str) -> Figures {
    let found = classes.iter().find(|class| class.class == name);
    found.expect("it has packets").figures
}

/// By how much of the second these differ.
fn off(found: u64, right: u64) -> f64 {
    (found as f64 - right as f64).abs() / right.max(1) as f64
}

/// The same as in the network: rates within 5 %, the median delay within a quarter, that of 99 of
/// 100, which slow start makes, within a third; or within a millisecond.
fn assert_near(found: &[ClassFigures], right: &[ClassFigures], what: &str) {
    for name in ["calls", "rest"] {
        let (found, right) = (of(found, name), of(right, name));
        eprintln!("{what}, {name}: {found:?}, and in the network {right:?}");
        assert!(off(found.rate_bps, right.rate_bps) < 0.05, "{what}, {name}: rate");
        let delays = [
            (found.p50_ns, right.p50_ns, 0.25),
            (found.p99_ns, right.p99_ns, 0.33),
        ];
        for (found, right, most) in delays {
            let near = off(found, right) < most || found.abs_diff(right) < 1_000_000;
            assert!(near, "{what}, {name}: {found} and {right} ns");
        }
    }
}

#[test]
fn senders_that_are_made_again_do_what_those_of_the_network_did_and_would_do() {
    let old = policy(10, FIFO);
    let (right, sim, link) = network(&old);
    let (mut flows, mut open) = (Flows::default(), Vec::new());
    for frame in sim.captured(link).expect("a capture").frames() {
        flows.add(frame.at, frame.original, frame.headers);
        open.push((frame.at, frame.original, frame.headers));
    }
    let senders = Senders::of(&flows, CONTROLS[0]);
    let counted = (senders.count, senders.without_round_trip, senders.endless);
    assert_eq!(counted, (4, 0, 2), "{senders:?}");
    // 30 and 80 ms, and what the first packets waited for.
    let trips = [senders.least, senders.most].map(|trip| trip.nanos() / 1_000_000);
    assert!(
        (30..=32).contains(&trips[0]) && (80..=84).contains(&trips[1]),
        "{trips:?}"
    );
    let closed = |policy: &InterfacePolicy| run(&flows, policy, CONTROLS[0], Seed(1));
    assert_near(&closed(&old), &right, "the same policy");
    let mut differs = Vec::new();
    for (mbit, discipline) in [(20, "\"fq_codel\""), (10, "\"fq_codel\""), (5, FIFO)] {
        let new = policy(mbit, discipline);
        let right = network(&new).0;
        assert_near(&closed(&new), &right, &format!("{mbit} Mbit/s, {discipline}"));
        // As captured, packets do not answer.
        let mut candidate = candidate(&new, Seed(1)).expect("memory");
        for (at, frame, headers) in &open {
            let arrived = candidate.arrive(*at, Bytes::new(u64::from(*frame)), headers, &mut |_| {});
            arrived.expect("it arrives");
        }
        candidate.run_until(Instant::START + SPAN, &mut |_| {});
        let open = figures(&new, &candidate.show(), SPAN);
        let (open, right) = (of(&open, "rest"), of(&right, "rest"));
        eprintln!("as captured: {open:?}");
        differs.push(off(open.rate_bps, right.rate_bps).max(off(open.p50_ns, right.p50_ns)));
    }
    assert!(
        differs.iter().all(|off| *off > 0.3),
        "open loop is as good: {differs:?}"
    );
}

#[test]
fn connections_that_began_before_the_capture_go_over_an_assumed_round_trip_and_that_is_said() {
    let old = policy(10, FIFO);
    let (right, sim, link) = network(&old);
    let (mut flows, late) = (Flows::default(), Duration::from_secs(5));
    for frame in sim.captured(link).expect("a capture").frames() {
        if frame.at >= Instant::START + late {
            flows.add(frame.at - late, frame.original, frame.headers);
        }
    }
    let senders = Senders::of(&flows, CONTROLS[0]);
    assert_eq!((senders.count, senders.without_round_trip), (4, 4), "{senders:?}");
    assert_eq!((senders.least, senders.most), (UNKNOWN, UNKNOWN));
    let said = senders.lines().join("\n");
    assert!(said.contains("4 of them began before the capture"), "{said}");
    let found = run(&flows, &old, CONTROLS[0], Seed(1));
    let (found, right) = (of(&found, "rest"), of(&right, "rest"));
    assert!(off(found.rate_bps, right.rate_bps) < 0.05, "{found:?}, {right:?}");
}
