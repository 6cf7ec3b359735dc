//! Reservations come and go while packets flow: their classes take places of the running tree, and
//! no packet is lost or overtaken.

use super::*;
use engine::bounds::ArrivalCurve;
use engine::classify::{Filter, Ports};
use engine::reservation::ReservedClass;
use engine::units::Bytes;

/// Kinds that reserve and have places, with a setting of a class.
const KINDS: [(&str, &str); 4] = [
    ("drr", "weight = {}"),
    ("wrr", "weight = {}"),
    ("hfsc", "linkshare = \"{}00 kbit/s\""),
    ("cbq", "rate = \"{}00 kbit/s\""),
];

/// A reservation for the packets of this flow.
fn reserved(flow: u16) -> ReservedClass {
    let rate = Bandwidth::mbit(2);
    let filter = Filter {
        protocol: Some(17),
        destination_port: Some(Ports::one(1_000 + flow)),
        ..Filter::new(ClassId(0))
    };
    ReservedClass {
        number: flow.into(),
        rate,
        sends: ArrivalCurve {
            burst: Bytes::new(3_000),
            rate,
        },
        least: Bytes::new(64),
        latency: None,
        limit: 10_000,
        priority: 3,
        filters: vec![filter],
    }
}

#[test]
fn reservations_come_and_go_in_place_and_no_packet_is_lost_or_overtaken() {
    for kind in KINDS {
        let mut chosen = Seed(3).fork(kind.0).stream();
        let mut rng = Seed(4).fork(kind.0).stream();
        let classes: BTreeMap<u16, u64> = (0..FIRST).map(|flow| (flow, 4)).collect();
        let with_room = "bandwidth = \"200 Mbit/s\"\nreserve = { share = \"50 %\" }";
        let asked = text(kind, &classes)
            .replace("bandwidth = \"200 Mbit/s\"", with_room)
            .replace("\"wrr\"", "{ kind = \"wrr\", cycle = 400 }");
        let asked = read(&asked);
        let room = asked.reserve.clone().expect("room for reservations").room;
        let mut rig = Rig::new(&asked, Registry::builtin());
        let filters: Vec<Filter> = asked.filters.iter().copied().collect();
        let (mut reservations, mut in_place) = (BTreeMap::new(), 0);
        for round in 0..40 {
            let burst = rng.below(60);
            rig.send(&mut rng, burst);
            rig.now = rig.now + Duration::from_micros(rng.below(3_000));
            rig.turn();
            // Flows of classes, and flows without.
            let were = reservations.len();
            let flow = chosen.below(u64::from(FLOWS)) as u16;
            if reservations.remove(&flow).is_none() && reservations.len() < 6 {
                reservations.insert(flow, reserved(flow));
            }
            let all: Vec<ReservedClass> = reservations.values().cloned().collect();
            let divides = were == 0 || reservations.is_empty();
            let layout = room.lay_out(&asked.plan, &filters, &all).expect("it fits");
            let whole = asked.with_reservations(layout);
            let adopted = rig.make(&mut rng, false, |in_force| in_force.put(asked.clone(), whole));
            // The first and the last one may divide the default class, or undo that.
            match adopted {
                Adopted::InPlace => in_place += 1,
                _ => assert!(divides, "{kind:?}, round {round}: {adopted:?}"),
            }
            rig.runs_as_asked(&mut rng);
        }
        for _ in 0..40_000 {
            rig.now = rig.now + Duration::from_micros(100);
            rig.turn();
        }
        assert_eq!(rig.arrived, rig.sent, "{kind:?}");
        assert!(in_place > 20, "{kind:?}: {in_place} of 40");
    }
}
