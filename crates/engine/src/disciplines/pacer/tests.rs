//! What is not seen on a wire; the rest is in `tests/pacer`.

use super::*;
use crate::discipline::Verdict;
use crate::sinks::Nowhere;
use crate::tree::{ClassSpec, DisciplineSpec, Registry};
use crate::trials;

/// A byte takes 8 ns.
const WIRE: Link = Link::new(Bandwidth::gbit(1), Bytes::new(1_514));

/// Classes by name, parent and rate; no rate: best effort. The last is the default class.
fn spec(settings: Table, classes: &[(&str, &str, &str)]) -> DisciplineSpec {
    let class = |(number, &(name, parent, rate)): (usize, &(&str, &str, &str))| ClassSpec {
        name: name.into(),
        parent: (!parent.is_empty()).then(|| parent.into()),
        default: number + 1 == classes.len(),
        settings: match rate {
            "" => Table::default(),
            rate => Table::default().text("rate", rate),
        },
        ..ClassSpec::default()
    };
    DisciplineSpec {
        settings,
        classes: classes.iter().enumerate().map(class).collect(),
        ..DisciplineSpec::new("pacer")
    }
}

fn planned(settings: Table, classes: &[(&str, &str, &str)]) -> QueuePlan {
    let plan = spec(settings, classes).check(&Registry::builtin(), WIRE);
    plan.expect("a good plan").root
}

fn frames() -> Table {
    Table::default().text("gap", "frames")
}

/// Two paced classes.
fn two(first: &str, second: &str) -> QueuePlan {
    planned(Table::default(), &[("a", "", first), ("b", "", second)])
}

fn pacer(discipline: &mut dyn Discipline) -> &mut Pacer {
    discipline.of_type().expect("a `pacer`")
}

fn nanos(n: u64) -> Instant {
    Instant::from_nanos(n)
}

fn offer(pacer: &mut dyn Discipline, now: u64, class: u32) {
    let packet = Packet::new(Bytes::new(1_514), nanos(now), ClassId(class));
    assert_eq!(pacer.enqueue(nanos(now), packet, &mut Nowhere), Verdict::Queued);
}

/// The class that sends now, or when one may.
fn ask(pacer: &mut dyn Discipline, now: u64) -> Result<u32, Option<u64>> {
    match pacer.dequeue(nanos(now), &mut Nowhere) {
        Next::Ready(packet) => Ok(packet.class.0),
        Next::Wait(until) => Err(Some(until.nanos())),
        Next::Empty => Err(None),
    }
}

#[test]
fn the_longest_packet_counts_what_the_basis_says() {
    let longest = |basis: &str| {
        let plan = planned(Table::default().text("basis", basis), &[("a", "", "1 Mbit/s")]);
        plan_of(&*plan.plan).map(|plan| plan.rules.longest())
    };
    assert_eq!(longest("wire"), Some(1_514 + 24));
    assert_eq!(longest("frame-fcs"), Some(1_514 + 4));
    assert_eq!(longest("frame"), Some(1_514));
    assert_eq!(longest("ip"), Some(1_500));
}

#[test]
fn the_lengths_of_extreme_framing_are_just_above_whole_frames_and_at_both_ends() {
    let slots = WireSlots {
        overhead: 4,
        tags: 0,
        longest: 1_500,
    };
    let of = |least: u64, most: u64| -> Vec<u64> {
        let lengths = extreme_lengths(slots, Bytes::new(least), Bytes::new(most));
        lengths.map(Bytes::get).collect()
    };
    assert_eq!(of(64, 3_100), [1_505, 3_005, 64, 3_100]);
    assert_eq!(of(64, 3_005), [1_505, 3_005, 64, 3_005]);
    assert_eq!(of(1_505, 3_004), [1_505, 1_505, 3_004]);
    assert_eq!(of(1_506, 3_004), [1_506, 3_004]);
    assert_eq!(of(64, 1_499), [64, 1_499]);
}

#[test]
fn a_refusal_for_the_wire_tells_the_first_four_paced_classes() {
    let help = |rates: &[&str]| {
        let classes: Vec<(String, &str)> = (0..)
            .zip(rates)
            .map(|(n, rate)| (format!("c{n}"), *rate))
            .collect();
        let classes: Vec<_> = classes
            .iter()
            .map(|(name, rate)| (name.as_str(), "", *rate))
            .collect();
        let problems = spec(Table::default(), &classes)
            .check(&Registry::builtin(), WIRE)
            .err()?;
        problems.into_iter().next()?.help
    };
    let one = |name: &str| {
        format!(
            "`{name}`: 31.25 MB/s of frame-fcs bytes in packets that count 1518 B and take 1538 B \
             are 31.66 MB/s"
        )
    };
    let quarter = "250 Mbit/s";
    let table = ["c0", "c1", "c3", "c4"].map(one).join("; ");
    assert_eq!(help(&[quarter, quarter, quarter]), None);
    assert_eq!(
        help(&[quarter, quarter, "", quarter, quarter]),
        Some(table.clone())
    );
    let more = [quarter, quarter, "", quarter, quarter, quarter];
    assert_eq!(help(&more), Some(table + "; and so on"));
}

#[test]
fn rates_that_fill_the_wire_or_a_bottleneck_exactly_are_admitted() {
    let good = |settings: Table, classes: &[(&str, &str, &str)]| {
        spec(settings, classes).check(&Registry::builtin(), WIRE).is_ok()
    };
    let wire = || Table::default().text("basis", "wire");
    assert!(good(wire(), &[("a", "", "400 Mbit/s"), ("b", "", "600 Mbit/s")]));
    assert!(!good(
        wire(),
        &[("a", "", "400 Mbit/s"), ("b", "", "600000001 bit/s")]
    ));
    let below = |second| [("p", "", "9 Mbit/s"), ("a", "p", "4 Mbit/s"), ("b", "p", second)];
    assert!(good(wire(), &below("5 Mbit/s")) && !good(wire(), &below("5000001 bit/s")));
    let tags = |n| good(Table::default().with("tags", n), &[("a", "", "1 Mbit/s")]);
    assert!(tags(8_u32) && !tags(9_u32));
}

#[test]
fn changed_are_the_classes_of_other_rates_if_all_are_paced_by_the_same_rules() {
    let old = planned(
        Table::default(),
        &[("a", "", "1 Mbit/s"), ("b", "", "2 Mbit/s"), ("c", "", "")],
    );
    let changed = |settings, classes: &[(&str, &str, &str)], queues| {
        planned(settings, classes)
            .plan
            .changed_classes(&*old.plan, queues)
    };
    let plain = Table::default;
    let other = [("a", "", "1 Mbit/s"), ("b", "", "3 Mbit/s"), ("c", "", "")];
    assert_eq!(changed(plain(), &other, false), Some(vec![ClassId(1)]));
    assert_eq!(
        changed(plain(), &other, true),
        Some([0, 1, 2].map(ClassId).to_vec())
    );
    assert_eq!(old.plan.changed_classes(&*old.plan, false), Some(Vec::new()));
    assert_eq!(changed(frames(), &other, false), None);
    assert_eq!(changed(plain(), &other[..2], false), None, "another number");
    let paced = [
        ("a", "", "1 Mbit/s"),
        ("b", "", "2 Mbit/s"),
        ("c", "", "1 Mbit/s"),
    ];
    assert_eq!(
        changed(plain(), &paced, false),
        None,
        "best effort was without a rate"
    );
    let nested = [
        ("p", "", "9 Mbit/s"),
        ("a", "p", "4 Mbit/s"),
        ("b", "p", "5 Mbit/s"),
    ];
    let nested = |rate| {
        let mut classes = nested;
        classes[0].2 = rate;
        planned(Table::default(), &classes).plan
    };
    let changed = |queues| nested("10 Mbit/s").changed_classes(&*nested("9 Mbit/s"), queues);
    assert_eq!(changed(false).map(|all| all.len()), Some(1));
    assert_eq!(changed(true).map(|all| all.len()), Some(3));
    let alone = trials::planned("fifo", Table::default(), WIRE);
    assert_eq!(old.plan.changed_classes(&*alone.plan, false), None);
}

#[test]
fn a_plan_of_the_same_shape_is_adopted_and_another_is_not() {
    let rate =
        |pacer: &mut dyn Discipline, node: usize| self::pacer(pacer).nodes[node].pace.rate() / 1_000_000;
    let mut built = trials::built(&two("100 Mbit/s", "200 Mbit/s"));
    let alone = trials::planned("fifo", Table::default(), WIRE);
    let other = two("100 Mbit/s", "300 Mbit/s");
    let framed = planned(frames(), &[("a", "", "100 Mbit/s"), ("b", "", "300 Mbit/s")]);
    let fewer = planned(Table::default(), &[("a", "", "100 Mbit/s")]);
    let free = planned(Table::default(), &[("a", "", "100 Mbit/s"), ("b", "", "")]);
    for wrong in [&alone, &framed, &fewer] {
        assert!(!built.retune(nanos(0), &*wrong.plan));
        assert!(!built.retune_own(nanos(0), &*wrong.plan));
    }
    for wrong in [&alone, &fewer, &free] {
        assert!(!built.retune_class(nanos(0), &*wrong.plan, ClassId(1)));
    }
    assert!(!built.retune_class(nanos(0), &*other.plan, ClassId(2)));
    assert_eq!(rate(&mut *built, 1), 200);
    assert!(built.retune_own(nanos(0), &*other.plan));
    assert_eq!(rate(&mut *built, 1), 200, "that is the class's");
    assert!(built.retune_class(nanos(0), &*other.plan, ClassId(1)));
    assert_eq!(rate(&mut *built, 1), 300);
    assert!(built.retune(nanos(0), &*two("50 Mbit/s", "60 Mbit/s").plan));
    assert_eq!([rate(&mut *built, 0), rate(&mut *built, 1)], [50, 60]);
}

#[test]
fn the_queues_of_its_classes_are_found() {
    let mut built = trials::built(&two("1 Mbit/s", "2 Mbit/s"));
    assert!(built.leaf(ClassId(0)).is_some() && built.leaf(ClassId(1)).is_some());
    assert!(built.leaf(ClassId(2)).is_none());
}

#[test]
fn there_is_room_for_all_classes_of_best_effort() {
    let classes = [("a", "", "1 Mbit/s"), ("b", "", ""), ("c", "", ""), ("d", "", "")];
    let mut built = trials::built(&planned(Table::default(), &classes));
    assert!(pacer(&mut *built).best_effort.capacity() >= 3);
}

/// A packet of 1,514 bytes counts 1,518 and takes 1,538; at half of the wire the next may start
/// 3,036 byte-times later.
const HALF: &str = "500 Mbit/s";

#[test]
fn deficits_are_what_was_sent_ahead_and_lateness_is_at_most_a_packet() {
    let mut built = trials::built(&planned(
        Table::default(),
        &[("a", "", HALF), ("b", "", "1 Mbit/s"), ("c", "", "")],
    ));
    let deficit = |bytes, late| {
        let class = ClassId(0);
        vec![Deficit { class, bytes, late }]
    };
    assert_eq!(pacer(&mut *built).deficits(nanos(0)), Vec::new());
    (0..2).for_each(|_| offer(&mut *built, 0, 0));
    assert_eq!(ask(&mut *built, 0), Ok(0));
    assert_eq!(pacer(&mut *built).deficits(nanos(0)), deficit(1_518, 0));
    assert_eq!(pacer(&mut *built).deficits(nanos(8 * 1_000)), deficit(1_018, 0));
    assert_eq!(pacer(&mut *built).deficits(nanos(8 * 3_036)), Vec::new());
    assert_eq!(pacer(&mut *built).deficits(nanos(8 * 3_136)), deficit(0, 50));
    assert_eq!(pacer(&mut *built).deficits(nanos(8 * 99_999)), deficit(0, 1_518));
    assert_eq!(ask(&mut *built, 8 * 99_999), Ok(0));
    assert_eq!(
        pacer(&mut *built).deficits(nanos(8 * 99_999)),
        Vec::new(),
        "nothing waits"
    );
}

#[test]
fn a_class_keeps_the_lateness_of_its_predecessor_if_a_packet_comes_at_once() {
    let start = 8 * 10_000;
    // Late by a whole packet, it sends another at once.
    for (later, rest) in [
        (0, [Ok(0), Ok(0), Err(Some(start + 8 * 3_036))]),
        (
            8,
            [
                Ok(0),
                Err(Some(start + 8 + 8 * 3_036)),
                Err(Some(start + 8 + 8 * 3_036)),
            ],
        ),
    ] {
        let mut built = trials::built(&two(HALF, "1 Mbit/s"));
        let late = Deficit {
            class: ClassId(0),
            bytes: 0,
            late: 1_518,
        };
        pacer(&mut *built).start_with(nanos(start), &[late]);
        (0..3).for_each(|_| offer(&mut *built, start + later, 0));
        assert_eq!(
            [0; 3].map(|_| ask(&mut *built, start + later)),
            rest,
            "{later} ns later"
        );
    }
}

#[test]
fn what_was_sent_ahead_is_waited_for() {
    let mut built = trials::built(&two(HALF, "1 Mbit/s"));
    let ahead = Deficit {
        class: ClassId(0),
        bytes: 1_000,
        late: 0,
    };
    pacer(&mut *built).start_with(nanos(8_000), &[ahead]);
    offer(&mut *built, 8_000, 0);
    assert_eq!(ask(&mut *built, 8_000), Err(Some(8_000 + 8 * 2_000)));
    assert_eq!(ask(&mut *built, 8_000 + 8 * 2_000), Ok(0));
}

#[test]
fn the_pace_after_a_packet_is_known_with_its_deadline() {
    let mut built = trials::built(&two("300 Mbit/s", "400 Mbit/s"));
    (0..2).for_each(|class| offer(&mut *built, 0, class));
    assert_eq!(ask(&mut *built, 0), Ok(1), "its next packet is due earlier");
    let first = &pacer(&mut *built).nodes[0];
    assert_eq!((first.state, first.next), (State::Eligible, 5_060));
    assert_eq!(first.after, first.pace.after(1_518, 1_000_000_000).remainder());
}

#[test]
fn gap_frames_fill_the_wire_up_to_the_next_packet_and_are_counted() {
    let mut built = trials::built(&planned(frames(), &[("a", "", HALF), ("b", "", "1 Mbit/s")]));
    let gap = |built: &mut dyn Discipline, longest| built.gap(Bytes::new(longest)).map(Bytes::get);
    assert_eq!(gap(&mut *built, 1_538), None, "nothing waits");
    (0..3).for_each(|_| offer(&mut *built, 0, 0));
    assert_eq!(ask(&mut *built, 0), Ok(0));
    assert_eq!(gap(&mut *built, 1_538), Some(3_036 - 1_538));
    assert_eq!(
        trials::gauge(&*built, "gaps"),
        Some(Value::Bytes(Bytes::new(1_498)))
    );
    assert_eq!(ask(&mut *built, 0), Ok(0));
    assert_eq!(
        [gap(&mut *built, 800), gap(&mut *built, 800)],
        [Some(749), Some(749)]
    );
    assert_eq!(
        trials::gauge(&*built, "gaps"),
        Some(Value::Bytes(Bytes::new(2_996)))
    );
    let mut timed = trials::built(&two(HALF, "1 Mbit/s"));
    offer(&mut *timed, 0, 0);
    assert_eq!(gap(&mut *timed, 1_538), None, "a timer ends its gaps");
}

#[test]
fn the_service_of_a_class_is_its_rate_without_framing_after_what_is_in_the_device() {
    let plan = planned(
        Table::default().text("basis", "frame"),
        &[("a", "", "80 Mbit/s"), ("b", "", "")],
    );
    let plan = plan_of(&*plan.plan).expect("a plan of `pacer`");
    let terms = Terms {
        link: WIRE,
        longest: Bytes::new(1_514),
        arrivals: &[],
        ahead: Bytes::new(2_996),
        grain: Bytes::ZERO,
        shortest: Bytes::ZERO,
    };
    // 2,996 bytes and the four of a rounding take 24 us, and two nanoseconds.
    assert_eq!(plan.device(&terms), Duration::from_nanos(24_002));
    // At 10 bytes each microsecond.
    let service = plan.service(&plan.nodes[0], &terms).expect("a service");
    assert_eq!(service.before, 240 + 1);
    assert!(plan.service(&plan.nodes[1], &terms).is_err());
}

#[test]
fn a_host_learns_of_the_wire_and_of_the_period_of_the_fastest_class() {
    let pacing = |settings, classes: &[(&str, &str, &str)]| {
        let pacing = planned(settings, classes).plan.pacing().expect("it paces");
        (pacing.wire, pacing.frames, pacing.period.nanos())
    };
    let wire = Bandwidth::gbit(1);
    let classes = [("a", "", "1 Mbit/s"), ("b", "", HALF)];
    assert_eq!(pacing(Table::default(), &classes), (wire, false, 24_288));
    assert_eq!(
        pacing(frames(), &[("a", "", "")]),
        (wire, true, 12_304),
        "its own slots"
    );
}

#[test]
fn best_effort_goes_where_it_delays_nothing_and_leaves_no_gap_too_short_for_a_frame() {
    let goes = |settings: Table, due: Option<u64>| {
        let mut built = trials::built(&planned(settings, &[("a", "", HALF), ("b", "", "")]));
        let own = pacer(&mut *built);
        due.into_iter().for_each(|due| own.waiting.note(0, due));
        // It takes 1,538 byte-times.
        own.is_out_in_time(Bytes::new(1_514), Position { low: 100, high: 100 })
    };
    let end = 100 + 1_538;
    let dues = [
        Some(end - 1),
        Some(end),
        Some(end + 1),
        Some(end + 83),
        Some(end + 84),
        None,
    ];
    let timed = dues.map(|due| goes(Table::default(), due));
    assert_eq!(timed, [false, true, true, true, true, true]);
    assert_eq!(
        dues.map(|due| goes(frames(), due)),
        [false, true, false, false, true, true]
    );
}
