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
            let adopted = rig.make(&mut rng, false, |in_force| {
                Ok(in_force.put(asked.clone(), whole)?.adopted)
            });
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

/// Asks the worker something, while it turns every 50 microseconds.
fn ask<T: Send>(rig: &mut Rig, question: impl FnOnce(&InForce) -> T + Send) -> T {
    let nobody = InForce::new(rig.handle.clone(), Registry::builtin(), []);
    let in_force = std::mem::replace(&mut rig.in_force, nobody);
    let answer = std::thread::scope(|scope| {
        let asked = scope.spawn(|| question(&in_force));
        while !asked.is_finished() {
            pass(rig, 50);
        }
        asked.join().expect("no panic")
    });
    rig.in_force = in_force;
    answer
}

/// Time passes, in turns of 50 microseconds.
fn pass(rig: &mut Rig, us: u64) {
    for _ in 0..us / 50 {
        rig.now = rig.now + Duration::from_micros(50);
        rig.turn();
    }
}

/// How the promise to the reservation of this flow is kept, as its class tells.
fn gauges(rig: &mut Rig, flow: u16) -> BTreeMap<&'static str, engine::inspect::Value> {
    let told = ask(rig, |in_force| {
        let managed = in_force.all().remove(0);
        let class = managed.whole.plan.class(&reserved(flow).name());
        let snapshot = in_force.handle.inspect().expect("a worker");
        let mut path = snapshot.paths.into_iter().next().expect("a path");
        crate::promises_kept::tell(&path.classes, &mut path.views);
        path.views.into_iter().find(|view| view.class == class)
    });
    told.expect("its class").gauges.into_iter().collect()
}

/// Whatever discipline serves a reservation, each of its departures is held against the bound that
/// is promised to it, if it keeps to what was reserved.
#[test]
fn each_departure_of_a_reservation_is_held_against_its_bound_in_every_kind() {
    use engine::inspect::Value;
    const FLOW: u16 = 15;
    for (kind, setting) in [
        ("drr", "weight = {}"),
        ("cbq", "rate = \"{}00 kbit/s\""),
        ("hfsc", "linkshare = \"{}00 kbit/s\""),
        ("ips", ""),
    ] {
        let few = BTreeMap::from([(0, 4), (1, 4)]);
        let with_room = "bandwidth = \"200 Mbit/s\"\nreserve = { share = \"50 %\", delay = \"20 ms\" }";
        let asked = text((kind, setting), &few).replace("bandwidth = \"200 Mbit/s\"", with_room);
        let asked = read(&asked);
        let room = asked.reserve.clone().expect("room for reservations").room;
        let filters: Vec<Filter> = asked.filters.iter().copied().collect();
        let reservation = ReservedClass {
            latency: Some(Duration::from_millis(20)),
            ..reserved(FLOW)
        };
        let layout = room
            .lay_out(&asked.plan, &filters, &[reservation])
            .expect("it fits");
        let whole = asked.with_reservations(layout);
        let class = whole.plan.class(&reserved(FLOW).name());
        let case = whole.plan.bounds().into_iter().find(|case| case.class == class);
        let bound = case.expect("a case").bound.expect("a bound").delay;
        let mut rig = Rig::new(&asked, Registry::builtin());
        let adopted = ask(&mut rig, |in_force| in_force.put(asked.clone(), whole));
        adopted.unwrap_or_else(|why| panic!("{kind}: {why}"));
        // 214 bytes each millisecond are 1.7 of its 2 Mbit/s.
        let mut number = 0;
        let mut send = |rig: &mut Rig| {
            rig.left.send(&frame_of(FLOW, number, 214), Offload::default());
            (number, rig.sent[usize::from(FLOW)]) = (number + 1, number + 1);
        };
        for _ in 0..100 {
            send(&mut rig);
            pass(&mut rig, 1_000);
        }
        let count = |told: &BTreeMap<_, _>, name: &str| match told.get(name) {
            Some(Value::Count(count)) => Some(*count),
            // `hfsc` tells the longest time.
            Some(Value::Duration(longest)) => Some(u64::from(*longest > Duration::ZERO)),
            _ => None,
        };
        let told = gauges(&mut rig, FLOW);
        let is_bound = |value: &Value| matches!(value, Value::Duration(told) if told.nanos().abs_diff(bound.nanos()) <= 1_000);
        assert!(
            told.get("bound").is_some_and(is_bound),
            "{kind}: {told:?}, not {bound}"
        );
        assert_eq!(
            (count(&told, "late"), count(&told, "held-up")),
            (Some(0), Some(0)),
            "{kind}"
        );
        let worst = |value: &Value| matches!(value, Value::Duration(worst) if (1..=bound.nanos()).contains(&worst.nanos()));
        assert!(told.get("worst").is_some_and(worst), "{kind}: {told:?}");
        // A burst of 40, of which 3,000 bytes and a jitter's worth are promised anything.
        (0..40).for_each(|_| send(&mut rig));
        pass(&mut rig, 100_000);
        let told = gauges(&mut rig, FLOW);
        let exceeded = count(&told, if kind == "ips" { "policed" } else { "exceeded" });
        assert!(
            exceeded.is_some_and(|n| (20..27).contains(&n)),
            "{kind}: {told:?}"
        );
        assert_eq!(count(&told, "late"), Some(0), "{kind}");
        if kind == "ips" {
            continue;
        }
        // The port takes nothing for longer than the bound: nobody takes what is on the wire.
        pass(&mut rig, 100_000);
        let full = rig.sent[0]..rig.sent[0] + 64;
        rig.sent[0] += 64;
        full.for_each(|number| rig.left.send(&frame_of(0, number, 214), Offload::default()));
        blocked(&mut rig, Duration::from_millis(5));
        send(&mut rig);
        blocked(&mut rig, bound + bound);
        pass(&mut rig, 100_000);
        assert_eq!(count(&gauges(&mut rig, FLOW), "late"), Some(1), "{kind}");
    }
}

/// Time passes, and nobody takes what arrives.
fn blocked(rig: &mut Rig, time: Duration) {
    let until = rig.now + time;
    while rig.now < until {
        rig.now = rig.now + Duration::from_micros(50);
        let _ = rig.worker.turn_at(rig.now);
    }
}
