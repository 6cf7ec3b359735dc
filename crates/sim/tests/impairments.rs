//! What befalls packets on a wire: the packets that a script names, and every packet accounted for.

use engine::header::FlowKey;
use engine::random::Seed;
use engine::settings::{Raw, SettingValue};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::impairments::{ImpairmentSchedule, Impairments};
use sim::agent::{Agent, Context};
use sim::link::LinkSpec;
use sim::packet::{Payload, SimPacket};
use sim::simulation::{End, LinkId, Simulation};
use std::collections::BTreeMap;

const PACKETS: u64 = 20_000;

/// Sends numbered packets, one a millisecond, or notes the numbers that arrive.
#[derive(Debug, Default)]
struct Numbered {
    sent: u64,
    received: Vec<u64>,
}

impl Agent for Numbered {
    fn wake(&mut self, cx: &mut Context<'_>) {
        self.sent += 1;
        cx.send(SimPacket::new(Bytes::new(500), Payload::Datagram(self.sent)));
        if self.sent < PACKETS {
            cx.wake_at(cx.now() + Duration::from_millis(1));
        }
    }

    fn receive(&mut self, _cx: &mut Context<'_>, packet: &SimPacket) {
        if let Payload::Datagram(number) = packet.payload {
            self.received.push(number);
        }
    }
}

fn value<T: SettingValue>(text: &str) -> T {
    T::from_raw(&Raw::Text(text.into())).expect(text)
}

/// Packets from a over the impaired link to a router, and on to b; the two links, what came, and
/// how many the receiver found corrupt.
fn run(impairments: Impairments) -> (Simulation, [LinkId; 2], Vec<u64>, u64) {
    let mut sim = Simulation::new(Seed(5));
    let [a, router, b] = ["a", "router", "b"].map(|name| sim.node(name));
    let wire = LinkSpec::new(Bandwidth::mbit(10), Duration::from_millis(3));
    let first = wire.clone().impaired(impairments, ImpairmentSchedule::default());
    let first = sim.link(a, router, first);
    sim.link(router, a, wire.clone());
    let [second, _] = sim.duplex(router, b, &wire);
    let ends: [Box<dyn Agent>; 2] = [Box::new(Numbered::default()), Box::new(Numbered::default())];
    let flow = sim
        .flow([a, b], FlowKey::default(), Instant::START, ends)
        .expect("a route");
    sim.run_until(Instant::START + Duration::from_secs(100));
    let receiver: &Numbered = sim.agent(flow, End::Responder).expect("a receiver");
    let received = receiver.received.clone();
    let corrupt = sim.delivered(flow, End::Responder).corrupt;
    (sim, [first, second], received, corrupt)
}

#[test]
fn a_script_befalls_the_packets_that_it_names_and_no_others() {
    let script =
        "drop 7, 12-15; swap 20, 21; duplicate 30; corrupt 40; delay 50 by 2500 us; swap 20000, 20001";
    let (sim, [first, _], received, corrupt) = run(Impairments {
        script: value(script),
        ..Impairments::default()
    });
    let mut expected: Vec<u64> = (1..=PACKETS).collect();
    expected.retain(|number| ![7, 12, 13, 14, 15, 40].contains(number));
    let place = |of: u64, all: &[u64]| all.iter().position(|number| *number == of).expect("it is there");
    let at = place(20, &expected);
    expected.swap(at, at + 1);
    let at = place(30, &expected);
    expected.insert(at, 30);
    let at = place(50, &expected);
    expected.remove(at);
    expected.insert(at + 2, 50);
    assert_eq!(received, expected, "the last one waits for a second, and comes");
    assert_eq!(corrupt, 1);
    let counts = sim.impaired(first);
    let counts = (counts.lost, counts.corrupted, counts.duplicated, counts.overtaken);
    assert_eq!(counts, (5, 1, 1, 3));
    assert_eq!((sim.lost_on_wire(first), sim.in_flight()), (5, 0));
}

#[test]
fn every_packet_and_every_copy_is_accounted_for() {
    let (sim, [first, second], received, corrupt) = run(Impairments {
        loss: value("gilbert-elliott 1 %, 20 %, 70 %, 0.5 %"),
        corruption: value("3 %"),
        duplication: value("4 % in bursts of 3"),
        reordering: value("2 % by 5 ms"),
        jitter: value("pareto 1 ms, unordered"),
        script: value("drop 100-199; swap 300, 301"),
    });
    let counts = sim.impaired(first);
    let came = PACKETS - counts.lost + counts.duplicated;
    assert_eq!(sim.in_flight(), 0);
    assert_eq!(received.len() as u64 + corrupt, came, "{counts:?}");
    // Routers do not look: the second link carries the corrupt ones, too.
    assert_eq!(sim.carried(second), Bytes::new(500).times(came));
    assert_eq!(
        (sim.lost_on_wire(first), sim.lost_on_wire(second)),
        (counts.lost, 0)
    );
    let mut times: BTreeMap<u64, u64> = BTreeMap::new();
    received
        .iter()
        .for_each(|number| *times.entry(*number).or_default() += 1);
    assert!(times.values().all(|n| *n <= 2));
    let twice = times.values().filter(|n| **n == 2).count() as u64;
    assert!(
        twice <= counts.duplicated && twice > counts.duplicated * 9 / 10,
        "{twice}"
    );
    assert!(
        corrupt >= counts.corrupted && corrupt < counts.corrupted * 11 / 10,
        "{corrupt}"
    );
    let overtaken = received.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(overtaken > 400, "{overtaken}");
}
