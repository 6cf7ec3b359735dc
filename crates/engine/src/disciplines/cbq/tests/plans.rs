//! What a plan says of itself, and which classes differ from those of another.

use super::{bursty, check, check_on, class, limited, older, over, registry, spec, with};
use crate::disciplines::cbq::plan::CbqPlan;
use crate::disciplines::cbq::plan_of;
use crate::inspect::Value;
use crate::packet::ClassId;
use crate::settings::{Raw, Table};
use crate::spec::ArrivalCurveSpec;
use crate::tree::{ClassSpec, TreePlan};
use crate::units::{Bandwidth, Bytes, Rate};

fn own(plan: &TreePlan) -> &CbqPlan {
    plan_of(&*plan.root.plan).expect("cbq")
}

/// An organisation of two leaves, and a leaf beside it.
fn three(a: ClassSpec) -> Vec<ClassSpec> {
    vec![
        class("x", "", "5 Mbit/s"),
        a,
        class("b", "x", "1 Mbit/s"),
        class("c", "", "2 Mbit/s"),
    ]
}

fn a(rate: &str) -> ClassSpec {
    class("a", "x", rate)
}

/// Names of the classes that differ.
fn changed(new: &TreePlan, old: &TreePlan, queues: bool) -> Option<Vec<String>> {
    let changed = own(new).changed_classes(own(old), queues)?;
    let name = |class: ClassId| new.info(class).expect("a class").name.to_string();
    let mut names: Vec<String> = changed.into_iter().map(name).collect();
    names.sort();
    Some(names)
}

#[test]
fn only_the_classes_with_other_values_are_changed() {
    let old = check(Table::default(), &three(a("1 Mbit/s")));
    let of =
        |classes: &[ClassSpec]| changed(&check(Table::default(), classes), &old, false).expect("one shape");
    assert_eq!(of(&three(a("1 Mbit/s"))), [""; 0]);
    assert_eq!(of(&three(a("2 Mbit/s"))), ["a"]);
    assert_eq!(of(&three(with(a("1 Mbit/s"), "priority", 5))), ["a"]);
    assert_eq!(of(&three(limited(a("1 Mbit/s")))), ["a"]);
    assert_eq!(of(&three(bursty(a("1 Mbit/s"), 5))), ["a"]);
    let mut wider = three(a("1 Mbit/s"));
    wider[0] = class("x", "", "6 Mbit/s");
    assert_eq!(of(&wider), ["x"]);
}

#[test]
fn where_queues_may_differ_all_leaves_are_changed_and_on_another_link_all_classes() {
    let old = check(Table::default(), &three(a("1 Mbit/s")));
    assert_eq!(changed(&old, &old, true).expect("one shape"), ["a", "b", "c"]);
    let faster = check_on(Bandwidth::mbit(9), Table::default(), &three(a("1 Mbit/s")));
    assert_eq!(
        changed(&faster, &old, false).expect("one shape"),
        ["a", "b", "c", "x"]
    );
}

#[test]
fn with_an_estimator_a_class_is_changed_too_if_its_share_is() {
    let settings = || older("top-level").text("root_rate", "100 %");
    let old = check(settings(), &three(a("1 Mbit/s")));
    assert_eq!(
        changed(&check(settings(), &three(a("1 Mbit/s"))), &old, false).expect("one shape"),
        [""; 0]
    );
    // The turns of all of a priority follow from the mean of its rates.
    let new = check(settings(), &three(a("2 Mbit/s")));
    assert_eq!(changed(&new, &old, false).expect("one shape"), ["a", "b", "c"]);
}

#[test]
fn a_tree_of_another_shape_or_with_other_rules_has_no_changed_classes() {
    let old = check(Table::default(), &three(a("1 Mbit/s")));
    let differs =
        |settings: Table, classes: &[ClassSpec]| changed(&check(settings, classes), &old, false).is_none();
    let plain = || three(a("1 Mbit/s"));
    assert!(!differs(Table::default(), &plain()));
    assert!(!differs(Table::default().text("link_burst", "1 ms"), &plain()));
    assert!(differs(Table::default().text("excess", "priority"), &plain()));
    assert!(differs(older("top-level"), &plain()));
    assert!(differs(Table::default().text("round_robin", "packet"), &plain()));
    assert!(differs(Table::default(), &plain()[..3]));
    let mut moved = plain();
    moved[2] = class("b", "", "1 Mbit/s");
    assert!(differs(Table::default(), &moved), "b has another parent");
    // As many leaves, and one class more above them.
    let mut higher = plain();
    higher.insert(0, class("y", "", "5 Mbit/s"));
    higher[1] = class("x", "y", "5 Mbit/s");
    assert!(differs(Table::default(), &higher));
}

#[test]
fn the_older_modes_of_one_kind_differ_little_from_each_other() {
    let of = |sharing: &str| check(older(sharing), &three(a("1 Mbit/s")));
    assert!(changed(&of("top-level"), &of("ancestors-only"), false).is_some());
    assert!(changed(&of("top-level"), &of("formal"), false).is_none());
    let root = check(
        older("top-level").text("root_rate", "100 %"),
        &three(a("1 Mbit/s")),
    );
    assert!(changed(&root, &of("top-level"), false).is_none());
}

#[test]
fn a_plan_has_the_values_of_another_if_each_class_and_the_link_has() {
    let old = check(Table::default(), &three(a("1 Mbit/s")));
    let same = |new: &TreePlan| own(new).has_values_of(own(&old));
    assert!(same(&check(Table::default(), &three(a("1 Mbit/s")))));
    assert!(!same(&check(Table::default(), &three(a("2 Mbit/s")))));
    assert!(!same(&check(
        Table::default().text("link_burst", "1 ms"),
        &three(a("1 Mbit/s"))
    )));
    assert!(!same(&check_on(
        Bandwidth::mbit(9),
        Table::default(),
        &three(a("1 Mbit/s"))
    )));
}

/// What is amended in `a`, against a check of all.
fn amended(settings: Table, old: &[ClassSpec], new: &[ClassSpec]) -> bool {
    let former = check(settings.clone(), old);
    let spec = spec(settings.clone(), new);
    let class = former.class("a").expect("a class");
    let Some(amended) = former.amended(&spec, class) else {
        return false;
    };
    let whole = check(settings, new);
    assert!(own(&amended).has_values_of(own(&whole)));
    assert_eq!(own(&amended).bursts, own(&whole).bursts);
    assert_eq!(own(&amended).ceiling(), own(&whole).ceiling());
    // What it adds up to counts for the next amendment.
    let again = amended.amended(&spec, class).expect("the same again");
    assert!(own(&again).has_values_of(own(&whole)));
    true
}

#[test]
fn a_leaf_is_amended_up_to_what_its_parent_has_left() {
    let plain = three(a("1 Mbit/s"));
    for (rate, possible) in [("4 Mbit/s", true), ("4000001 bit/s", false), ("0 bit/s", true)] {
        assert_eq!(
            amended(Table::default(), &plain, &three(a(rate))),
            possible,
            "{rate}"
        );
    }
    let top = |rate: &str| vec![a_at_the_top(rate), class("b", "", "5 Mbit/s")];
    for (rate, possible) in [("3 Mbit/s", true), ("3000001 bit/s", false)] {
        assert_eq!(
            amended(Table::default(), &top("1 Mbit/s"), &top(rate)),
            possible,
            "{rate}"
        );
    }
    assert!(amended(
        Table::default(),
        &plain,
        &three(bursty(a("1 Mbit/s"), 40))
    ));
}

fn a_at_the_top(rate: &str) -> ClassSpec {
    class("a", "", rate)
}

#[test]
fn a_leaf_that_a_check_would_refuse_is_not_amended() {
    let plain = three(a("1 Mbit/s"));
    let refused = |a: ClassSpec| assert!(!amended(Table::default(), &plain, &three(a)));
    refused(with(a("1 Mbit/s"), "priority", 8));
    refused(limited(a("0 bit/s")));
    // A parent without a rate that may not borrow lends nothing.
    let poor = |a: ClassSpec| vec![limited(class("x", "", "0 bit/s")), a, class("c", "", "1 Mbit/s")];
    let former = spec(Table::default(), &poor(class("a", "x", "0 bit/s")));
    let link = crate::link::Link::new(Bandwidth::mbit(8), Bytes::new(1_500));
    assert!(former.check(&registry(), link).is_err());
    // One that borrows does.
    let lent = |a: ClassSpec| vec![class("x", "", "0 bit/s"), a];
    let old = lent(class("a", "x", "0 bit/s"));
    assert!(amended(
        Table::default(),
        &old,
        &lent(with(class("a", "x", "0 bit/s"), "priority", 3))
    ));
}

#[test]
fn with_an_estimator_and_of_classes_above_others_nothing_is_amended() {
    let plain = three(a("1 Mbit/s"));
    let settings = older("top-level").text("root_rate", "100 %");
    assert!(!amended(settings, &plain, &three(a("2 Mbit/s"))));
    let former = check(Table::default(), &plain);
    let x = former.class("x").expect("a class");
    assert!(former.amended(&spec(Table::default(), &plain), x).is_none());
}

#[test]
fn the_ceiling_is_twice_the_bursts_of_all_classes() {
    let classes = [
        bursty(class("a", "", "1 Mbit/s"), 3),
        bursty(class("b", "", "1 Mbit/s"), 4),
    ];
    let plan = check(Table::default(), &classes);
    assert_eq!(own(&plan).bursts, 7_000);
    assert_eq!(own(&plan).ceiling(), 14_000 * 8_000_000_000);
}

/// What is said of the bound of `a`, whose sender keeps to 500 kbit/s and 1,000 bytes.
fn bound(settings: Table) -> Result<(), String> {
    let mut one = bursty(class("a", "", "1 Mbit/s"), 4);
    one.sends = Some(ArrivalCurveSpec {
        rate: Rate::Absolute(Bandwidth::kbit(500)),
        burst: Bytes::new(1_000),
    });
    let plan = check(settings, &[one, class("b", "", "1 Mbit/s")]);
    let id = plan.class("a");
    let case = plan.bounds().into_iter().find(|case| case.class == id);
    case.expect("a").bound.map(|_| ())
}

#[test]
fn only_formal_sharing_without_a_tick_has_a_bound() {
    assert_eq!(bound(Table::default()), Ok(()));
    let none = Err("only formal sharing without a tick has a bound".to_owned());
    assert_eq!(bound(Table::default().text("tick", "5 ms")), none);
    assert_eq!(bound(older("top-level")), none);
    assert_eq!(bound(older("ancestors-only")), none);
}

#[test]
fn a_port_must_be_allowed_to_be_late_by_a_packet() {
    let port = |burst: &str| bound(Table::default().text("link", "port").text("link_burst", burst));
    assert_eq!(port("5 ms"), Ok(()));
    assert!(
        port("1 ms")
            .expect_err("1.5 ms")
            .starts_with("`link_burst` is less")
    );
    // Where this discipline paces, it does not matter.
    assert_eq!(bound(Table::default().text("link_burst", "1 ms")), Ok(()));
}

#[test]
fn a_leaf_serves_at_its_own_rate_and_the_tree_at_the_links() {
    let plan = check(Table::default(), &three(a("1 Mbit/s")));
    let root = &plan.root.plan;
    assert_eq!(root.serves(None, Bandwidth::mbit(8)), Some(Bandwidth::mbit(8)));
    let id = plan.class("a");
    assert_eq!(root.serves(id, Bandwidth::mbit(8)), Some(Bandwidth::mbit(1)));
    assert_eq!(root.serves(Some(ClassId(99)), Bandwidth::mbit(8)), None);
}

#[test]
fn a_class_shows_its_settings() {
    let plan = check(
        Table::default(),
        &three(bursty(with(a("1 Mbit/s"), "priority", 4), 9)),
    );
    let shown = plan.root.plan.settings_of(plan.class("a").expect("a class"));
    let expected = [
        ("rate", Value::Bandwidth(Bandwidth::mbit(1))),
        ("priority", Value::Count(4)),
        ("maxburst", Value::Count(9)),
        ("minburst", Value::Count(1)),
    ];
    assert_eq!(shown, expected);
    assert_eq!(plan.root.plan.settings_of(ClassId(99)), []);
}

#[test]
fn a_leaf_has_a_queue_that_is_built_alone_and_a_class_above_others_has_none() {
    let plan = check(Table::default(), &three(over(a("1 Mbit/s"), "sluice")));
    assert_eq!(super::built(&plan, "a").kind, "sluice");
    assert_eq!(super::built(&plan, "b").kind, "fifo");
}

#[test]
fn overbooking_is_for_a_link_with_an_estimator() {
    let classes = [class("a", "", "60 %"), class("b", "", "60 %")];
    let link = crate::link::Link::new(Bandwidth::mbit(8), Bytes::new(1_500));
    let refused = |settings: Table| spec(settings, &classes).check(&registry(), link).is_err();
    let root = || older("top-level").text("root_rate", "100 %");
    assert!(refused(Table::default()) && refused(root()));
    assert!(!refused(root().with("overbook", Raw::Boolean(true))));
}
