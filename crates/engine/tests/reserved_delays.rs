//! A reservation with a guaranteed delay keeps it in every kind that offers one: all senders send
//! their whole bursts at once, then at their rates, beside traffic that always fills the link.
//!
//! Follows RFC 2212, section 2: the delay is that of the burst at the reserved rate, and D. The D
//! is taken from the bounds of the tree; what is measured may be near it, and never above.

use engine::bounds::ArrivalCurve;
use engine::discipline::{Next, Reason, Sink};
use engine::link::{LATENESS, Link};
use engine::packet::{ClassId, Packet};
use engine::queue::Queue;
use engine::random::Seed;
use engine::reservation::ReservedClass;
use engine::reserved::{Reservable, ReserveSettings, ReservedLayout};
use engine::settings::{Raw, Span, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use proptest::prelude::*;

const LINK: Bandwidth = Bandwidth::mbit(10);
const PACKET: Bytes = Bytes::new(1_514);
const KINDS: [&str; 5] = ["drr", "cbq", "hfsc", "ips", "pacer"];

/// Only the rest, these classes, may lose packets: conforming ones are never dropped.
struct OnlyOf<'a>(&'a [ClassId]);

/// Where every class may lose packets.
struct Nowhere;

impl Sink for Nowhere {
    fn drop(&mut self, _: Packet, _: Reason) {}
}

impl Sink for OnlyOf<'_> {
    fn drop(&mut self, packet: Packet, why: Reason) {
        assert!(self.0.contains(&packet.class), "lost: {packet:?}, {why}");
    }
}

fn policy(kind: &str) -> DisciplineSpec {
    let settings = match kind {
        "cbq" => Table::default().with("rate", Bandwidth::mbit(1)),
        "hfsc" => Table::default().with("linkshare", Bandwidth::mbit(1)),
        _ => Table::default(),
    };
    let rest = ClassSpec {
        name: "rest".into(),
        default: true,
        settings,
        ..ClassSpec::default()
    };
    DisciplineSpec {
        classes: vec![rest].into(),
        ..DisciplineSpec::new(kind)
    }
}

/// A policy's tree with room in its outermost discipline, or in that of this class.
fn room(spec: &DisciplineSpec, class: Option<&str>) -> Reservable {
    let link = Link::new(LINK, PACKET);
    let mut table = Table::default().text("share", "80 %").text("smallest", "1 %");
    if let Some(class) = class {
        table = table.text("class", class);
    }
    let settings = ReserveSettings::read(&table, &[], &mut Vec::new()).expect("sound");
    Reservable::new(&Registry::builtin(), spec, link, &settings, Span::default()).expect("room")
}

/// Reservations of these rates, in percent of the link, and bursts in packets.
fn reservations(room: &Reservable, asked: &[(u64, u64)], latency: Duration) -> Vec<ReservedClass> {
    let class = |(number, &(percent, packets)): (u64, &(u64, u64))| {
        let rate = room.counts(Bandwidth::bits_per_sec(LINK.bits() / 100 * percent));
        let burst = PACKET.times(packets);
        ReservedClass {
            number,
            rate,
            sends: ArrivalCurve { rate, burst },
            least: PACKET,
            latency: Some(latency),
            limit: 1_000,
            priority: 6,
            filters: Vec::new(),
        }
    };
    (1..).zip(asked).map(class).collect()
}

/// By how much the worst bound exceeds the burst at the reserved rate: D. None without a bound.
fn needed(layout: &ReservedLayout, list: &[ReservedClass]) -> Option<Duration> {
    let cases = layout.plan.bounds();
    let beyond = |one: &ReservedClass| {
        let class = layout.plan.class(&one.name());
        let case = cases.iter().find(|case| case.class == class)?;
        let bound = case.bound.as_ref().ok()?.delay;
        let own = ReservedClass {
            latency: Some(Duration::ZERO),
            ..one.clone()
        }
        .delay()?;
        Some(bound - own.min(bound))
    };
    list.iter()
        .map(beyond)
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .max()
}

/// When a sender sends its next packet: its burst at once, and then whenever its bucket has brought
/// one more.
fn due(curve: &ArrivalCurve, sent: u64) -> Instant {
    match sent.checked_sub(curve.burst.get() / PACKET.get()) {
        None => Instant::START,
        Some(more) => Instant::START + curve.rate.time_to_send(PACKET.times(more + 1)),
    }
}

/// The longest delay of each class up to the last bit, in so many packets that leave.
fn worst(
    queue: &mut Queue,
    classes: &[(ClassId, ArrivalCurve)],
    rests: &[ClassId],
    packets: usize,
) -> Vec<Duration> {
    let mut now = Instant::START;
    let mut worst = vec![Duration::ZERO; classes.len()];
    let mut sent: Vec<u64> = vec![0; classes.len()];
    for _ in 0..packets {
        // In the order of time, each when it is due.
        let next = |sent: &[u64]| {
            let dues = classes
                .iter()
                .zip(sent)
                .map(|((_, curve), &sent)| due(curve, sent));
            dues.zip(0..).min()
        };
        while let Some((at, index)) = next(&sent).filter(|(at, _)| *at <= now) {
            let packet = Packet::new(PACKET, at, classes[index].0);
            let _ = queue.enqueue(at, packet, &mut OnlyOf(rests));
            sent[index] += 1;
        }
        for &rest in rests.iter().chain(rests) {
            let _ = queue.enqueue(now, Packet::new(PACKET, now, rest), &mut OnlyOf(rests));
        }
        let packet = loop {
            match queue.dequeue(now, &mut OnlyOf(rests)) {
                Next::Ready(packet) => break packet,
                Next::Wait(until) => now = until,
                Next::Empty => panic!("the rest always has packets"),
            }
        };
        now = now + LINK.time_to_send(packet.len);
        if let Some(at) = classes.iter().position(|(class, _)| *class == packet.class) {
            worst[at] = worst[at].max(now.since(packet.arrived));
        }
    }
    worst
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn no_conforming_packet_exceeds_the_delay_of_its_reservation(
        asked in prop::collection::vec((1u64..15, 1u64..12), 1..6),
    ) {
        for kind in KINDS {
            let spec = policy(kind);
            let rests: &[&str] = if kind == "drr" { &["rest-other"] } else { &["rest"] };
            delays_are_kept(kind, &spec, None, &asked, rests)?;
        }
    }

    #[test]
    fn nor_in_a_class_of_another_discipline(
        asked in prop::collection::vec((1u64..8, 1u64..12), 1..5),
    ) {
        for kind in ["drr", "cbq", "hfsc"] {
            let spec = site_and_others(kind);
            delays_are_kept(kind, &spec, Some("site"), &asked, &["rest-other", "others"])?;
        }
    }
}

/// Lays out reservations in this place of a policy, with the least D that they need, and lets all
/// senders do their worst beside classes that always have packets.
fn delays_are_kept(
    kind: &str,
    spec: &DisciplineSpec,
    class: Option<&str>,
    asked: &[(u64, u64)],
    rests: &[&str],
) -> Result<(), TestCaseError> {
    let room = room(spec, class);
    let plan = spec.check(&Registry::builtin(), room.link()).expect("sound");
    // With a D that no kind needs, what is needed can be read off.
    let generous = reservations(&room, asked, Duration::from_millis(5_000));
    let layout = room.lay_out(&plan, &[], &generous).expect("within the capacity");
    let latency = needed(&layout, &generous);
    prop_assert!(latency.is_some(), "{kind}: every reservation has a bound");
    let list = reservations(&room, asked, latency.unwrap_or(Duration::ZERO));
    let layout = room.lay_out(&plan, &[], &list);
    prop_assert!(layout.is_ok(), "{kind}: {:?}", layout.err());
    let layout = layout.expect("just asked");
    let name = |name: &str| layout.plan.class(name).expect("it is there");
    let classes: Vec<_> = list.iter().map(|one| (name(&one.name()), one.sends)).collect();
    let rests: Vec<ClassId> = rests.iter().map(|rest| name(rest)).collect();
    let delays = worst(&mut layout.plan.build(Seed(1)), &classes, &rests, 2_000);
    for (one, delay) in list.iter().zip(delays) {
        let promised = one.delay().expect("it has one");
        prop_assert!(
            delay > Duration::ZERO && delay <= promised,
            "{kind}: {delay} of {promised}"
        );
    }
    Ok(())
}

/// Two classes that share the link alike, `site` with a `drr` for reservations.
fn site_and_others(kind: &str) -> DisciplineSpec {
    let settings = match kind {
        "drr" => Table::default(),
        "hfsc" => Table::default().text("realtime", "5 Mbit/s"),
        _ => Table::default().text("rate", "5 Mbit/s"),
    };
    let class = |name: &str, discipline: Option<DisciplineSpec>| ClassSpec {
        name: name.into(),
        default: discipline.is_none(),
        settings: settings.clone(),
        discipline,
        ..ClassSpec::default()
    };
    DisciplineSpec {
        classes: vec![class("site", Some(policy("drr"))), class("others", None)].into(),
        ..DisciplineSpec::new(kind)
    }
}

/// A `tbf` of half the link around `drr`, and a class of `cbq` with `drr` in it.
#[test]
fn reservations_in_a_shaped_or_nested_place_get_their_rate() {
    let inner = policy("drr");
    let shaped = DisciplineSpec {
        settings: Table::default().text("rate", "5 Mbit/s"),
        child: Some(Box::new(inner.clone())),
        ..DisciplineSpec::new("tbf")
    };
    let class = |name: &str, default, discipline| ClassSpec {
        name: name.into(),
        default,
        settings: Table::default()
            .text("rate", "5 Mbit/s")
            .with("borrow", Raw::Boolean(false)),
        discipline,
        ..ClassSpec::default()
    };
    let mut nested = DisciplineSpec::new("cbq");
    let inside = DisciplineSpec {
        classes: inner.classes.clone(),
        ..inner
    };
    nested
        .classes
        .extend([class("site", false, Some(inside)), class("others", true, None)]);
    for (spec, class) in [(shaped, None), (nested, Some("site"))] {
        let room = room(&spec, class);
        let link = room.link();
        assert_eq!(room.capacity(), Bandwidth::mbit(4), "80 % of what the place gets");
        let plan = spec.check(&Registry::builtin(), link).expect("sound");
        let mut list = reservations(&room, &[(30, 2)], Duration::ZERO);
        list[0].latency = None;
        let layout = room.lay_out(&plan, &[], &list).expect("it fits");
        let (own, rest) = (layout.plan.class("resv-1"), layout.plan.class("rest-other"));
        let (own, rest) = (own.expect("a class"), rest.expect("a class"));
        let mut queue = layout.plan.build(Seed(1));
        let (mut now, mut sent) = (Instant::START, 0);
        while now < Instant::START + Duration::from_millis(4_000) {
            for class in [own, rest] {
                let _ = queue.enqueue(now, Packet::new(PACKET, now, class), &mut Nowhere);
            }
            match queue.dequeue(now, &mut Nowhere) {
                Next::Ready(packet) => {
                    sent += u64::from(packet.class == own) * packet.len.get();
                    now = now + LINK.time_to_send(packet.len);
                }
                Next::Wait(until) => now = until,
                Next::Empty => panic!("both are backlogged"),
            }
        }
        let rate = sent * 8 / 4;
        assert!((3_000_000..3_250_000).contains(&rate), "{}: {rate}", spec.kind);
    }
}

#[test]
fn a_place_that_guarantees_nothing_is_refused_with_the_reason() {
    let refused = |spec: &DisciplineSpec, class: &str| {
        let table = Table::default().text("class", class);
        let settings = ReserveSettings::read(&table, &[], &mut Vec::new()).expect("sound");
        let link = Link::new(LINK, PACKET);
        let room = Reservable::new(&Registry::builtin(), spec, link, &settings, Span::default());
        room.map(|_| ()).expect_err("no room").remove(0).message
    };
    let mut spec = DisciplineSpec::new("priq");
    let class = |name: &str, default, discipline: Option<DisciplineSpec>| ClassSpec {
        name: name.into(),
        default,
        settings: Table::default().with("priority", Raw::Integer(i64::from(!default))),
        discipline,
        ..ClassSpec::default()
    };
    spec.classes.extend([
        class("site", false, Some(policy("drr"))),
        class("others", true, None),
    ]);
    assert_eq!(
        refused(&spec, "site"),
        "class `site` is guaranteed no rate, so nothing of it can be reserved"
    );
    assert_eq!(refused(&spec, "sites"), "unknown class with a discipline `sites`");
    assert_eq!(
        refused(&spec, "others"),
        "unknown class with a discipline `others`"
    );
    let mut cbq = DisciplineSpec::new("cbq");
    let rated = |one: ClassSpec| ClassSpec {
        settings: Table::default().text("rate", "4 Mbit/s"),
        ..one
    };
    cbq.classes.push(rated(class("site", true, Some(policy("hfsc")))));
    assert_eq!(
        refused(&cbq, "site"),
        "`hfsc` shares the whole link, and this one gets 4 Mbit/s of 10 Mbit/s"
    );
}

/// Senders say how short their packets may be; longer ones, and those that the kernel joins, leave
/// the class its guarantee too. `pacer` had computed its rate for the shortest alone, and had no
/// bound then.
#[test]
fn a_reservation_of_packets_of_many_lengths_has_a_bound_in_every_kind() {
    let link = Link::new(Bandwidth::mbit(40), Bytes::new(1_514)).with_lateness(LATENESS);
    let table = Table::default().text("share", "50 %").text("delay", "500 ms");
    let settings = ReserveSettings::read(&table, &[], &mut Vec::new()).expect("sound");
    for kind in KINDS {
        let spec = policy(kind);
        for (least, ring) in [(60, 1), (1_014, 64), (1_514, 64)] {
            let link = link.with_ring(ring);
            let room = Reservable::new(&Registry::builtin(), &spec, link, &settings, Span::default());
            let room = room.expect("room");
            let plan = spec.check(&Registry::builtin(), link).expect("sound");
            let rate = room.counts(Bandwidth::kbit(4_056));
            let burst = Bytes::new(4_000);
            let one = ReservedClass {
                number: 1,
                rate,
                sends: ArrivalCurve { rate, burst },
                least: Bytes::new(least),
                latency: Some(Duration::from_millis(500)),
                limit: 1_000,
                priority: 6,
                filters: Vec::new(),
            };
            let list = [one];
            let layout = room.lay_out(&plan, &[], &list).expect("it fits");
            let needed = needed(&layout, &list);
            assert!(needed.is_some(), "{kind}, {least}: {:?}", layout.plan.bounds());
            assert!(needed <= list[0].latency, "{kind}, {least}: {needed:?}");
        }
    }
}
