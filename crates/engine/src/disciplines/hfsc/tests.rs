//! What is not seen from outside; the rest is in `tests/hfsc.rs`.

use super::*;
use crate::link::Link;
use crate::settings::Raw;
use crate::sinks::Nowhere;
use crate::tree::{ClassSpec, DisciplineSpec, Registry};
use crate::trials;

const WIDE: Link = Link::new(Bandwidth::mbit(8), Bytes::new(1_000));

/// A class by name and parent, and its curves.
type StatedCurves<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

fn table(curves: &[(&str, &str)]) -> Table {
    let text = |table: Table, (key, text): &(&str, &str)| table.text(key, text);
    curves.iter().fold(Table::default(), text)
}

fn checked(classes: &[StatedCurves<'_>]) -> Result<QueuePlan, String> {
    let last = classes.len() - 1;
    let class = |(number, (name, parent, curves)): (usize, &StatedCurves<'_>)| ClassSpec {
        name: (*name).into(),
        parent: (!parent.is_empty()).then(|| (*parent).into()),
        default: number == last,
        settings: table(curves),
        ..ClassSpec::default()
    };
    let spec = DisciplineSpec {
        classes: classes.iter().enumerate().map(class).collect(),
        ..DisciplineSpec::new("hfsc")
    };
    let plan = spec.check(&Registry::builtin(), WIDE);
    plan.map(|plan| plan.root)
        .map_err(|problems| problems[0].message.clone())
}

/// A class with two children, the second with a real-time curve, and another class beside it.
fn nested(inner: &str, real: &str, outer: &str) -> QueuePlan {
    let plan = checked(&[
        ("p", "", &[("linkshare", inner)]),
        ("a", "p", &[("linkshare", "1 Mbit/s")]),
        ("b", "p", &[("realtime", real)]),
        ("c", "", &[("linkshare", outer)]),
    ]);
    plan.expect("a good plan")
}

fn usual() -> QueuePlan {
    nested("4 Mbit/s", "2 Mbit/s", "4 Mbit/s")
}

fn hfsc(discipline: &mut dyn Discipline) -> &mut Hfsc {
    discipline.of_type().expect("an `hfsc`")
}

fn offer(discipline: &mut dyn Discipline, class: u32) {
    let packet = Packet::new(Bytes::new(1_000), Instant::START, ClassId(class));
    let _ = discipline.enqueue(Instant::START, packet, &mut Nowhere);
}

#[test]
fn a_first_piece_brings_half_a_gigabyte_at_most() {
    // 2⁶² nanobits are 576,460,752 bytes.
    let refused = |millis: u64| {
        let curve = format!("8 Gbit/s for {millis} ms, then 1 Mbit/s");
        let limit = ("upperlimit", curve.as_str());
        checked(&[("a", "", &[("linkshare", "1 Mbit/s"), limit])]).err()
    };
    let longest = (LONGEST_PIECE / (8_000_000_000 * 1_000_000)) as u64;
    assert_eq!(refused(longest), None);
    for more in [1, 1_000] {
        let found = refused(longest + more);
        assert!(found.is_some_and(|found| found.starts_with("the first piece of `upperlimit`")));
    }
}

#[test]
fn curves_that_end_with_nothing_and_classes_without_one_are_refused() {
    for key in ["realtime", "linkshare", "upperlimit"] {
        let curves = [
            ("linkshare", "1 Mbit/s"),
            (key, "1 Mbit/s for 9 ms, then 0 bit/s"),
        ];
        let found = checked(&[("a", "", &curves)]);
        let words = format!("`{key}` must end with a rate of more than 0");
        assert!(found.is_err_and(|found| found == words), "{key}");
    }
    let none = checked(&[("a", "", &[("upperlimit", "1 Mbit/s")])]);
    assert!(none.is_err_and(|found| found == "class `a` has no curve"));
    let inner = checked(&[
        ("p", "", &[("realtime", "1 Mbit/s")]),
        ("a", "p", &[("linkshare", "1 Mbit/s")]),
    ]);
    assert!(inner.is_err_and(|found| found.starts_with("class `p` has child classes")));
}

#[test]
fn real_time_curves_fit_the_link_and_the_limits_above_them_exactly() {
    let two = |first: &str, second: &str, limit: &str| {
        checked(&[
            ("p", "", &[("linkshare", "1 Mbit/s"), ("upperlimit", limit)]),
            ("a", "p", &[("realtime", first)]),
            ("b", "", &[("realtime", second)]),
        ])
        .is_ok()
    };
    assert!(two("3 Mbit/s", "5 Mbit/s", "3 Mbit/s"));
    assert!(!two("3 Mbit/s", "5000001 bit/s", "3 Mbit/s"));
    assert!(!two("3 Mbit/s", "5 Mbit/s", "2999999 bit/s"));
}

/// The plan with other settings of a class.
fn amended(plan: &QueuePlan, class: u32, curves: &[(&str, &str)]) -> Option<Arc<dyn Plan>> {
    plan.plan.amended(&ChangedClass {
        class: ClassId(class),
        settings: &table(curves),
        of_discipline: &Table::default(),
        link: WIDE,
        renewed: None,
    })
}

#[test]
fn a_plan_is_amended_where_the_whole_would_be_a_good_one() {
    let plan = usual();
    let [real, share] = ["realtime", "linkshare"].map(|key| move |rate| [(key, rate)]);
    assert!(amended(&plan, 2, &real("8 Mbit/s")).is_some());
    assert!(
        amended(&plan, 2, &real("8000001 bit/s")).is_none(),
        "more than the link"
    );
    assert!(amended(&plan, 0, &share("3 Mbit/s")).is_some());
    assert!(
        amended(&plan, 0, &real("3 Mbit/s")).is_none(),
        "it has child classes"
    );
    assert!(amended(&plan, 3, &real("3 Mbit/s")).is_some());
    assert!(amended(&plan, 3, &[]).is_none(), "no curve");
    assert!(amended(&plan, 4, &share("3 Mbit/s")).is_none(), "there is none");
    let new = amended(&plan, 1, &share("3 Mbit/s")).expect("a good plan");
    let rate = Value::Bandwidth(Bandwidth::mbit(3));
    assert_eq!(new.settings_of(ClassId(1)), [("linkshare", rate)]);
    assert_eq!(new.changed_classes(&*plan.plan, false), Some(vec![ClassId(1)]));
}

#[test]
fn changed_are_the_classes_of_other_curves_in_the_same_tree() {
    let changed = |new: &QueuePlan, queues| {
        let mut all = new.plan.changed_classes(&*usual().plan, queues)?;
        all.sort();
        Some(all.into_iter().map(|class| class.0).collect::<Vec<_>>())
    };
    assert_eq!(changed(&usual(), false), Some(vec![]));
    assert_eq!(changed(&usual(), true), Some(vec![1, 2, 3]), "the leaves");
    assert_eq!(
        changed(&nested("3 Mbit/s", "2 Mbit/s", "4 Mbit/s"), false),
        Some(vec![0])
    );
    assert_eq!(
        changed(&nested("3 Mbit/s", "1 Mbit/s", "4 Mbit/s"), false),
        Some(vec![0, 2])
    );
    assert_eq!(
        changed(&nested("3 Mbit/s", "2 Mbit/s", "4 Mbit/s"), true),
        Some(vec![0, 1, 2, 3])
    );
    let one = ("linkshare", "1 Mbit/s");
    let elsewhere = checked(&[
        ("p", "", &[one]),
        ("a", "p", &[one]),
        ("b", "", &[one]),
        ("c", "", &[one]),
    ]);
    assert_eq!(
        changed(&elsewhere.expect("a good plan"), false),
        None,
        "another parent"
    );
    let more = checked(&[
        ("p", "", &[one]),
        ("a", "p", &[one]),
        ("b", "p", &[one]),
        ("c", "", &[one]),
        ("d", "", &[one]),
    ]);
    assert_eq!(changed(&more.expect("a good plan"), false), None);
    let fifo = trials::planned("fifo", Table::default(), WIDE);
    assert_eq!(changed(&fifo, false), None);
}

#[test]
fn a_plan_of_another_tree_is_not_adopted() {
    let one = ("linkshare", "1 Mbit/s");
    let fewer = checked(&[("p", "", &[one]), ("a", "p", &[one]), ("b", "", &[one])]);
    let elsewhere = checked(&[
        ("p", "", &[one]),
        ("a", "p", &[one]),
        ("b", "", &[one]),
        ("c", "", &[one]),
    ]);
    let mut built = trials::built(&usual());
    let share = |built: &mut dyn Discipline, node: usize| hfsc(built).nodes[node].share.shape.m2 / 1_000_000;
    for wrong in [fewer, elsewhere].map(|plan| plan.expect("a good plan")) {
        assert!(!built.retune(Instant::START, &*wrong.plan));
    }
    let fifo = trials::planned("fifo", Table::default(), WIDE);
    assert!(!built.retune(Instant::START, &*fifo.plan));
    assert!(!built.retune_own(Instant::START, &*fifo.plan));
    assert!(!built.retune_class(Instant::START, &*fifo.plan, ClassId(0)));
    // Leaves come first, those at the top before others: c, a and b, and then p.
    assert_eq!([0, 1, 2, 3].map(|node| share(&mut *built, node)), [4, 1, 2, 4]);
    let other = nested("5 Mbit/s", "3 Mbit/s", "6 Mbit/s");
    assert!(built.retune_class(Instant::START, &*other.plan, ClassId(3)));
    assert_eq!([0, 1, 2, 3].map(|node| share(&mut *built, node)), [6, 1, 2, 4]);
    assert!(built.retune(Instant::START, &*other.plan));
    assert_eq!([0, 1, 2, 3].map(|node| share(&mut *built, node)), [6, 1, 3, 5]);
}

#[test]
fn it_has_a_clock_and_an_order_of_each_class_with_child_classes_and_of_the_link() {
    let mut built = trials::built(&usual());
    let hfsc = hfsc(&mut *built);
    assert_eq!((hfsc.clocks.len(), hfsc.reals.len(), hfsc.nodes.len()), (2, 3, 4));
    assert_eq!(
        (hfsc.inner(3), hfsc.inner(hfsc.link()), hfsc.fit_timer(2)),
        (0, 1, 5)
    );
    assert!(hfsc.is_leaf(2) && !hfsc.is_leaf(3));
}

#[test]
fn backlogged_children_are_counted_at_each_class_above() {
    let mut built = trials::built(&usual());
    let busy = |built: &mut dyn Discipline| {
        let hfsc = hfsc(built);
        let busy: Vec<u32> = hfsc.clocks.iter().map(|clock| clock.busy).collect();
        (
            busy,
            hfsc.nodes.iter().map(|node| node.has(BUSY)).collect::<Vec<_>>(),
        )
    };
    for (class, clocks, nodes) in [
        (1, vec![1, 1], vec![false, true, false, true]),
        (2, vec![2, 1], vec![false, true, true, true]),
        (3, vec![2, 2], vec![true; 4]),
    ] {
        offer(&mut *built, class);
        assert_eq!(busy(&mut *built), (clocks, nodes), "{class} has come");
    }
    let mut left = vec![3, 2, 1];
    while let Next::Ready(packet) = built.dequeue(Instant::START, &mut Nowhere) {
        left.retain(|class| *class != packet.class.0);
        let (clocks, nodes) = busy(&mut *built);
        let below = left.iter().filter(|class| **class < 3).count() as u32;
        let beside = u32::from(left.contains(&3));
        assert_eq!(clocks, [below, u32::from(below > 0) + beside]);
        assert_eq!(nodes[3], below > 0);
    }
    assert_eq!(busy(&mut *built), (vec![0, 0], vec![false; 4]));
}

#[test]
fn a_class_that_was_idle_begins_at_the_virtual_time_of_the_others_and_one_ahead_stays_there() {
    let shares = |mbit: [&str; 2]| {
        let of = |mbit| [("linkshare", mbit)];
        let plan = checked(&[("a", "", &of(mbit[0])), ("b", "", &of(mbit[1]))]);
        trials::built(&plan.expect("a good plan"))
    };
    let mut built = shares(["1 Mbit/s", "1 Mbit/s"]);
    let own = hfsc(&mut *built);
    own.clocks[0].now = 1_000;
    own.nodes[1].share = Curve::new(own.nodes[1].share.shape, 5_000);
    own.join(0, 7);
    own.join(1, 7);
    let times = [0, 1].map(|node: usize| own.nodes[node].share.time_of(0));
    assert_eq!(times, [1_000, 5_000]);
    // Without others all are alike again, at the largest time that one had.
    let mut built = shares(["1 Mbit/s", "1 Mbit/s"]);
    let own = hfsc(&mut *built);
    (own.clocks[0].now, own.clocks[0].latest) = (1_000, 9_000);
    own.join(0, 7);
    assert_eq!((own.clocks[0].now, own.nodes[0].share.time_of(0)), (9_000, 9_000));
    own.clocks[0].latest = 20_000;
    own.join(1, 7);
    assert_eq!(
        (own.clocks[0].now, own.nodes[1].share.time_of(0)),
        (9_000, 9_000),
        "it was not the first"
    );
}

#[test]
fn a_leaf_goes_on_with_the_real_time_curve_of_a_leaf_alone() {
    let mut former = trials::built(&usual());
    let moved = |real: &mut Option<Real>| {
        if let Some(real) = real {
            real.eligible = 77;
        }
    };
    moved(&mut hfsc(&mut *former).reals[2]);
    let eligible = |former: &mut dyn Discipline, was: u32, real: &str| {
        let mut built = trials::built(&nested("4 Mbit/s", real, "4 Mbit/s"));
        built.take_over_class(Instant::START, ClassId(2), former, ClassId(was));
        hfsc(&mut *built).reals[2].as_ref().map(|real| real.eligible)
    };
    assert_eq!(eligible(&mut *former, 2, "2 Mbit/s"), Some(77));
    assert_eq!(
        eligible(&mut *former, 2, "3 Mbit/s"),
        Some(0),
        "another curve begins"
    );
    // Class 0 is an interior one, and has none.
    assert_eq!(eligible(&mut *former, 0, "2 Mbit/s"), Some(0));
}

#[test]
fn the_catch_up_is_the_link_s_that_was_stated() {
    let plan = |burst| {
        let spec = DisciplineSpec {
            classes: [ClassSpec {
                name: "a".into(),
                default: true,
                settings: table(&[("linkshare", "1 Mbit/s")]),
                ..ClassSpec::default()
            }]
            .into_iter()
            .collect(),
            settings: Table::default().with("limit_burst", Raw::from(Duration::from_millis(burst))),
            ..DisciplineSpec::new("hfsc")
        };
        spec.check(&Registry::builtin(), WIDE).expect("a good plan").root
    };
    let mut built = trials::built(&plan(3));
    assert_eq!(hfsc(&mut *built).catch_up, 3_000_000);
    assert!(built.retune_own(Instant::START, &*plan(4).plan));
    assert_eq!(hfsc(&mut *built).catch_up, 4_000_000);
    assert!(built.retune(Instant::START, &*plan(5).plan));
    assert_eq!(hfsc(&mut *built).catch_up, 5_000_000);
}

/// A kilobyte goes before.
fn terms() -> Terms<'static> {
    Terms {
        link: WIDE,
        longest: Bytes::new(1_000),
        arrivals: &[],
        ahead: Bytes::new(1_000),
        grain: Bytes::ZERO,
        shortest: Bytes::new(60),
    }
}

#[test]
fn the_worst_delay_is_when_the_curve_has_served_the_burst_and_the_device_is_empty() {
    // The first piece brings 10,000 bytes in 10 ms; then a byte comes each 8 us.
    let real = Slopes {
        m1: 8_000_000,
        d: 10_000_000,
        m2: 1_000_000,
    };
    let found = |rate: u64, burst: u64| {
        let arrivals = ArrivalCurve {
            rate: Bandwidth::bits_per_sec(rate),
            burst: Bytes::new(burst),
        };
        let bound = worst(Some(real), arrivals, &terms()).ok()?;
        assert_eq!((bound.arrivals, bound.shortest.get()), (Some(arrivals), 60));
        Some((bound.delay.nanos(), bound.backlog.get()))
    };
    // The device takes 1 ms and 2 ns, in which 125 bytes come, and a begun one; and a packet.
    let device = 1_000_002;
    assert_eq!(
        found(1_000_000, 5_000),
        Some((5_000_000 + device, 5_000 + 126 + 1_000))
    );
    assert_eq!(found(1_000_000, 9_999), Some((9_999_000 + device, 9_999 + 1_126)));
    assert_eq!(
        found(1_000_000, 10_000),
        Some((10_000_000 + device, 10_000 + 1_126))
    );
    assert_eq!(
        found(1_000_000, 11_000),
        Some((18_000_000 + device, 11_000 + 1_126))
    );
    assert_eq!(
        found(1_000_001, 5_000),
        None,
        "more than the curve has in the long run"
    );
    let none = ArrivalCurve {
        rate: Bandwidth::ZERO,
        burst: Bytes::new(1),
    };
    assert!(worst(None, none, &terms()).is_err());
    let nothing = Slopes { m1: 0, d: 0, m2: 0 };
    assert!(worst(Some(nothing), none, &terms()).is_err());
}

#[test]
fn concave_curves_and_lines_guarantee_their_last_slope_from_any_time_and_convex_ones_nothing() {
    let found = |m1: u64, d: u64, m2: u64| {
        let service = from_any_time(Some(Slopes { m1, d, m2 }), &terms()).ok()?;
        Some(service.before)
    };
    // A packet, and what comes in 1 ms, a begun byte too.
    assert_eq!(found(8_000_000, 5, 1_000_000), Some(1_000 + 125 + 1));
    assert_eq!(found(1_000_000, 5, 1_000_000), Some(1_126));
    assert_eq!(found(999_999, 5, 1_000_000), None);
    assert_eq!(found(999_999, 0, 1_000_000), Some(1_126), "a line");
    assert!(from_any_time(None, &terms()).is_err());
}
