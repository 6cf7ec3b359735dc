//! Trees by hand: what is checked, what is told, and what of a plan can be amended.

use super::*;
use crate::framing::Framing;
use crate::settings::{Entry, Raw};
use crate::units::Bandwidth;

fn link() -> Link {
    Link::new(Bandwidth::mbit(100), Bytes::new(1514))
}

#[test]
fn queues_with_the_same_settings_share_a_plan_and_each_mistake_is_told() {
    let registry = Registry::builtin();
    let mut checker = Checker::new(&registry, link());
    let mut queue = |kind: &str, limit: &str| {
        let mut spec = DisciplineSpec::new(kind);
        spec.settings = match limit.parse::<u32>() {
            Ok(limit) => Table::default().with("limit", limit),
            Err(_) => Table::default().text("limit", limit),
        };
        checker.discipline(&spec, &[]).map(|(queue, _)| queue)
    };
    let all = ["5", "5", "6", "5"].map(|limit| queue("fifo", limit).expect("a good limit"));
    let same = |a: usize, b: usize| Arc::ptr_eq(&all[a].plan, &all[b].plan);
    assert!(same(0, 1) && !same(1, 2) && !same(2, 3));
    assert!(format!("{:?}", all[2]).contains("limit: 6"), "{:?}", all[2]);
    assert!(queue("fifo", "few").is_none() && queue("fifo", "few").is_none());
    let other = queue("prio", "5").or_else(|| queue("red", "5"));
    assert!(other.is_none_or(|other| other.kind.name != "fifo"));
    let limits = checker
        .problems
        .iter()
        .filter(|problem| problem.message.starts_with("`limit`"));
    assert_eq!(limits.count(), 2, "{:?}", checker.problems);
}

#[test]
fn every_class_of_a_plan_is_found_in_its_spec() {
    let class = |name: &str, parent: Option<&str>| ClassSpec {
        name: name.into(),
        parent: parent.map(ParentSpec::from),
        default: name == "a1" || name == "in2",
        settings: Table::default().text("rate", if name == "a" { "2 Mbit/s" } else { "1 Mbit/s" }),
        ..ClassSpec::default()
    };
    let plain = |name: &str| ClassSpec {
        settings: Table::default(),
        ..class(name, None)
    };
    let mut inside = DisciplineSpec::new("drr");
    inside.classes.extend([plain("in1"), plain("in2")]);
    let mut cbq = DisciplineSpec::new("cbq");
    let holder = ClassSpec {
        discipline: Some(inside),
        ..class("a2", Some("a"))
    };
    cbq.classes
        .extend([class("a1", Some("a")), holder, class("a", None)]);
    let mut outer = DisciplineSpec::new("red");
    outer.child = Some(Box::new(cbq.clone()));
    for spec in [cbq, outer] {
        let plan = spec.check(&Registry::builtin(), link()).expect("a good tree");
        let specs = spec.class_specs();
        let found = |(number, info): (usize, &ClassInfo)| Some(specs.find(number, &info.name)?.name.clone());
        let found: Option<Vec<ClassName>> = plan.classes.iter().enumerate().map(found).collect();
        let names = plan
            .classes
            .iter()
            .map(|info| info.name.clone())
            .collect::<Vec<_>>();
        assert_eq!((names.len(), found), (5, Some(names)));
        assert!(specs.find(0, "in3").is_none());
    }
}

#[test]
fn an_unknown_kind_is_named_with_the_nearest() {
    let problems = DisciplineSpec::new("fito")
        .check(&Registry::builtin(), link())
        .expect_err("unknown kind");
    assert_eq!(problems[0].help.as_deref(), Some("did you mean `fifo`?"));
}

/// A `pacer` that says this of its overhead, on a link of 24 B.
fn repeated(overhead: &str) -> Result<TreePlan, Vec<Problem>> {
    let mut spec = DisciplineSpec::new("pacer");
    spec.settings = Table::default().text("overhead", overhead);
    spec.classes.push(ClassSpec {
        name: "a".into(),
        default: true,
        ..ClassSpec::default()
    });
    spec.check(&Registry::builtin(), link().with_framing(Framing::add(24)))
}

#[test]
fn a_fact_of_the_link_that_a_discipline_repeats_is_noted_and_one_that_differs_is_refused() {
    let notices = repeated("24 B").expect("it agrees").notices;
    assert_eq!(
        notices[0].message,
        "`overhead` of `pacer` is no longer needed: it is the link's"
    );
    let problems = repeated("0 B").expect_err("it differs");
    assert_eq!(
        problems[0].message,
        "`overhead` of `pacer` is 0 B, and the link's is 24 B"
    );
    let help = problems[0].help.as_deref().unwrap_or_default();
    assert!(help.contains("`overhead` of the interface"), "{help}");
    let problems = repeated("many").expect_err("no length");
    assert!(problems[0].message.starts_with("`overhead`: "), "{problems:?}");
}

/// Settings that stand one after the other in a policy.
fn placed(entries: &[(&str, Raw)]) -> Table {
    let span = |start| Span::new(start, start + 1);
    let entry = |(place, (key, value)): (usize, &(&str, Raw))| Entry {
        key: (*key).to_owned().into(),
        key_at: span(10 * place + 10),
        value: value.clone(),
        at: span(10 * place + 15),
    };
    Table {
        entries: entries.iter().enumerate().map(entry).collect(),
        at: span(1),
    }
}

fn complaints(kind: &str, entries: &[(&str, Raw)]) -> Vec<String> {
    let mut spec = DisciplineSpec::new(kind);
    spec.settings = placed(entries);
    let problems = spec.check(&Registry::builtin(), link()).expect_err("mistakes");
    problems.into_iter().map(|problem| problem.message).collect()
}

#[test]
fn a_mistake_hides_no_other_and_its_consequences_are_not_said() {
    let (min, max) = (("min", Raw::Integer(20)), ("max", Raw::Integer(10)));
    let weight = ("weight", Raw::Text("0.002".into()));
    let all = complaints("red", &[min, max.clone(), weight.clone()]);
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all[0].starts_with("`weight`") && all[1].starts_with("`max` must be larger than `min`"));
    // By the usual `min` this `max` is too small; but that is not what was meant.
    let all = complaints(
        "red",
        &[("min", Raw::Text("few".into())), ("max", Raw::Integer(3)), weight],
    );
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(
        all[0].starts_with("`min`") && all[1].starts_with("`weight`"),
        "{all:?}"
    );
}

#[test]
fn what_is_inside_an_unknown_discipline_is_checked_too() {
    let mut spec = DisciplineSpec::new("cqb");
    spec.classes.push(ClassSpec {
        name: "a".into(),
        default: true,
        discipline: Some(DisciplineSpec::new("fito")),
        ..ClassSpec::default()
    });
    let problems = spec.check(&Registry::builtin(), link()).expect_err("two names");
    let said: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(said, ["unknown discipline `cqb`", "unknown discipline `fito`"]);
}

#[test]
fn a_kind_without_classes_refuses_them() {
    let mut spec = DisciplineSpec::new("fifo");
    spec.classes.push(ClassSpec {
        name: "a".into(),
        ..ClassSpec::default()
    });
    let problems = spec
        .check(&Registry::builtin(), link())
        .expect_err("fifo has no classes");
    assert!(problems[0].message.contains("has no classes"), "{problems:?}");
}

fn info(parent: Option<u32>, leaf: bool) -> ClassInfo {
    ClassInfo {
        name: "a".into(),
        parent: parent.map(ClassId),
        leaf,
        arrivals: None,
        vacant: false,
    }
}

/// A view of a class that has sent so many packets.
fn sent(class: Option<u32>, packets: u64) -> View {
    let mut view = View {
        class: class.map(ClassId),
        ..View::default()
    };
    view.stats.sent.packets = packets;
    view
}

fn packets(views: &[View]) -> Vec<u64> {
    views.iter().map(|view| view.stats.sent.packets).collect()
}

#[test]
fn a_class_with_others_below_it_has_sent_what_they_have() {
    // 2 is below 1, 1 and 3 below 0; 5 is in the queue of 4.
    let classes: SharedList<ClassInfo> = vec![
        info(None, false),
        info(Some(0), false),
        info(Some(1), true),
        info(Some(0), true),
        info(None, true),
        info(Some(4), true),
    ]
    .into();
    let views = |shown: &[(u32, u64)]| {
        let mut views = vec![sent(None, 1_000)];
        views.extend(shown.iter().map(|&(class, packets)| sent(Some(class), packets)));
        sum_interior(&classes, &mut views);
        packets(&views)
    };
    let all = [(0, 100), (1, 50), (2, 1), (3, 2), (4, 4), (5, 8)];
    assert_eq!(views(&all), [1_000, 3, 1, 1, 2, 4, 8]);
    // What a slice does not show counts nothing.
    assert_eq!(views(&[(0, 100), (2, 1), (5, 8)]), [1_000, 1, 1, 8]);
    assert_eq!(views(&[(2, 1), (1, 50)]), [1_000, 1, 1]);
    let flat: SharedList<ClassInfo> = vec![info(None, true), info(None, true)].into();
    let mut views = vec![sent(None, 7), sent(Some(0), 1), sent(Some(1), 2)];
    sum_interior(&flat, &mut views);
    assert_eq!(packets(&views), [7, 1, 2]);
}

#[test]
fn a_discipline_is_alone_without_classes_and_a_child_as_its_kind_demands() {
    let of = |kind: &str| Registry::builtin().find(kind).expect("a kind");
    let plain = DisciplineSpec::new("fifo");
    let with_child = DisciplineSpec {
        child: Some(Box::new(plain.clone())),
        ..plain.clone()
    };
    let with_class = DisciplineSpec {
        classes: vec![ClassSpec::default()].into(),
        ..plain.clone()
    };
    assert!(is_alone(of("fifo"), &plain));
    assert!(!is_alone(of("fifo"), &with_child) && !is_alone(of("fifo"), &with_class));
    assert!(!is_alone(of("tbf"), &plain) && !is_alone(of("drr"), &plain));
}

fn helped(kind: &str) -> String {
    let problems = DisciplineSpec::new(kind).check(&Registry::builtin(), link());
    problems.expect_err("unknown")[0].help.clone().unwrap_or_default()
}

#[test]
fn what_other_programs_call_a_discipline_is_told() {
    assert!(helped("netem").contains("settings of `link` in a scenario"));
    for kind in ["ingress", "clsact"] {
        assert!(helped(kind).contains("a port of its own"), "{kind}");
    }
    assert_eq!(helped("pfifo"), "what other programs call `pfifo` is `fifo` here");
    let htb = helped("htb");
    assert!(
        htb.contains("`cbq`") && htb.contains(" or ") && htb.contains("`hfsc`"),
        "{htb}"
    );
}

/// A class of `cbq` with 1 Mbit/s, whose parent is named at this place.
fn rated(name: &str, parent: Option<(&str, usize)>) -> ClassSpec {
    ClassSpec {
        name: name.into(),
        parent: parent.map(|(name, at)| ParentSpec {
            name: name.into(),
            at: Span::new(at, at + 1),
        }),
        default: name == "rest",
        settings: Table::default().text("rate", "1 Mbit/s"),
        ..ClassSpec::default()
    }
}

fn tree(kind: &str, classes: Vec<ClassSpec>) -> DisciplineSpec {
    DisciplineSpec {
        classes: classes.into(),
        ..DisciplineSpec::new(kind)
    }
}

fn problems(spec: &DisciplineSpec) -> Vec<(String, Option<String>, usize)> {
    let problems = spec.check(&Registry::builtin(), link()).expect_err("mistakes");
    let told = |problem: Problem| (problem.message, problem.help, problem.at.start());
    problems.into_iter().map(told).collect()
}

#[test]
fn each_circle_of_parents_is_told_once_at_its_first_class() {
    let spec = tree(
        "cbq",
        vec![
            rated("below", Some(("a", 10))),
            rated("a", Some(("b", 20))),
            rated("b", Some(("c", 30))),
            rated("c", Some(("a", 40))),
            rated("own", Some(("own", 50))),
            rated("rest", None),
        ],
    );
    let circle = |name: &str, help: Option<&str>, at| {
        let message = format!("class `{name}` is its own ancestor");
        (message, help.map(str::to_owned), at)
    };
    let help = "give one of `a`, `b`, `c` another parent, or none";
    assert_eq!(
        problems(&spec),
        [circle("a", Some(help), 20), circle("own", None, 50)]
    );
}

#[test]
fn an_unknown_parent_is_told_with_the_nearest_class() {
    let spec = tree(
        "cbq",
        vec![rated("calls", None), rated("rest", Some(("cals", 10)))],
    );
    let help = Some("did you mean `calls`?".to_owned());
    assert_eq!(
        problems(&spec),
        [("unknown parent class `cals`".into(), help, 10)]
    );
}

#[test]
fn parents_come_before_their_children_and_the_numbers_are_those_of_the_policy() {
    let spec = tree(
        "cbq",
        vec![
            rated("c", Some(("b", 1))),
            rated("b", Some(("a", 1))),
            ClassSpec {
                settings: Table::default().text("rate", "9 Mbit/s"),
                ..rated("a", None)
            },
            rated("rest", Some(("a", 1))),
        ],
    );
    let plan = spec.check(&Registry::builtin(), link()).expect("a good tree");
    let parents: Vec<_> = plan
        .classes
        .iter()
        .map(|info| (info.parent.map(|p| p.0), info.leaf))
        .collect();
    assert_eq!(
        parents,
        [(Some(1), true), (Some(2), false), (None, false), (Some(2), true)]
    );
    assert_eq!(
        (plan.class("a"), plan.class("c"), plan.class("x")),
        (Some(ClassId(2)), Some(ClassId(0)), None)
    );
    assert_eq!(plan.default, Some(ClassId(3)));
    assert_eq!(
        (plan.class_of(None), plan.class_of(Some(ClassId(0)))),
        (ClassId(3), ClassId(0))
    );
    let at = Span::new(7, 8);
    assert_eq!(plan.leaf("c", at), Ok(ClassId(0)));
    let why = plan.leaf("b", at).expect_err("it has a class below it");
    assert_eq!(
        why.message,
        "class `b` has classes below it, so packets cannot be put into it"
    );
    let why = plan.leaf("res", at).expect_err("unknown");
    assert_eq!((why.help.as_deref(), why.at), (Some("did you mean `rest`?"), at));
}

#[test]
fn a_class_with_others_below_it_has_no_queue_and_is_no_default() {
    let above = ClassSpec {
        default: true,
        discipline: Some(DisciplineSpec::new("red")),
        ..rated("a", None)
    };
    let told = problems(&tree("cbq", vec![above, rated("rest", Some(("a", 1)))]));
    let messages: Vec<&str> = told.iter().map(|(message, ..)| message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "class `a` has classes below it, so it cannot be the default class",
            "class `a` has classes below it, so it cannot have a discipline"
        ]
    );
}

#[test]
fn a_tree_has_one_default_class() {
    let first = |spec: &DisciplineSpec| problems(spec).remove(0).0;
    let none = tree(
        "drr",
        vec![ClassSpec {
            name: "a".into(),
            ..ClassSpec::default()
        }],
    );
    assert_eq!(
        first(&none),
        "`drr` has no default class: packets that no filter takes would be lost"
    );
    let default = |name: &str| ClassSpec {
        name: name.into(),
        default: true,
        ..ClassSpec::default()
    };
    let two = tree("drr", vec![default("a"), default("b")]);
    assert_eq!(first(&two), "class `b` is a second default class");
    let twice = tree(
        "drr",
        vec![
            default("a"),
            ClassSpec {
                default: false,
                ..default("a")
            },
        ],
    );
    assert_eq!(first(&twice), "a second class `a`: names are unique");
    let child = DisciplineSpec {
        child: Some(Box::new(DisciplineSpec::new("fifo"))),
        ..tree("drr", vec![default("a")])
    };
    assert_eq!(first(&child), "discipline `drr` has no discipline below it");
    let below = ClassSpec {
        parent: Some("a".into()),
        ..rated("b", None)
    };
    assert_eq!(
        first(&tree("drr", vec![default("a"), below])),
        "classes of `drr` cannot have parents"
    );
}

#[test]
fn arrival_curves_are_stated_once() {
    let mut class = ClassSpec {
        default: true,
        name: "a".into(),
        ..ClassSpec::default()
    };
    class.sends = Some(ArrivalCurveSpec {
        rate: crate::units::Rate::Absolute(Bandwidth::mbit(1)),
        burst: Bytes::new(3_000),
    });
    let message = "class `a` of `ips` has `sends`, which nothing reads there";
    let told = problems(&tree("ips", vec![class.clone()]));
    assert!(told.iter().any(|(said, ..)| said == message), "{told:?}");
    let plan = tree("drr", vec![class])
        .check(&Registry::builtin(), link())
        .expect("it reads them");
    assert_eq!(
        plan.arrivals()[0].map(|curve| curve.burst),
        Some(Bytes::new(3_000))
    );
}

/// Classes `a` and `rest` of `drr` or `wrr`, the first with this weight.
fn weighted(kind: &str, weight: u32) -> DisciplineSpec {
    let class = |name: &str, weight: u32| ClassSpec {
        name: name.into(),
        default: name == "rest",
        settings: Table::default().with("weight", weight),
        ..ClassSpec::default()
    };
    tree(kind, vec![class("a", weight), class("rest", 1)])
}

fn checked(spec: &DisciplineSpec) -> TreePlan {
    spec.check(&Registry::builtin(), link()).expect("a good tree")
}

#[test]
fn plans_have_the_same_classes_by_what_these_are_and_not_only_by_where() {
    let (one, same, other) = (
        checked(&weighted("drr", 2)),
        checked(&weighted("drr", 3)),
        checked(&tree("cbq", vec![rated("rest", None)])),
    );
    assert!(one.has_classes_of(&one.clone()) && one.has_classes_of(&same));
    assert!(!one.has_classes_of(&other));
    assert!(one.is_amended_by(&one.clone()) && !one.is_amended_by(&same));
}

#[test]
fn the_classes_that_changed_are_told_unless_anything_else_did() {
    let former = checked(&weighted("drr", 2));
    let changed = |spec: &DisciplineSpec, renewed: &[u32]| {
        let renewed: Vec<ClassId> = renewed.iter().copied().map(ClassId).collect();
        checked(spec).changed_classes(&former, &renewed)
    };
    assert_eq!(changed(&weighted("drr", 2), &[]), Some(vec![]));
    assert_eq!(changed(&weighted("drr", 3), &[]), Some(vec![ClassId(0)]));
    assert_eq!(
        changed(&weighted("drr", 3), &[0]),
        Some(vec![]),
        "it is another class"
    );
    assert_eq!(changed(&weighted("wrr", 3), &[]), None);
    let mut renamed = weighted("drr", 3);
    renamed.classes.get_mut(0).expect("a class").name = "b".into();
    assert_eq!(
        (changed(&renamed, &[]), changed(&renamed, &[0])),
        (None, Some(vec![]))
    );
    let fewer = tree(
        "drr",
        weighted("drr", 3).classes.iter().skip(1).cloned().collect(),
    );
    assert_eq!(changed(&fewer, &[]), None);
}

#[test]
fn a_plan_is_amended_where_one_class_has_other_settings() {
    let (plan, three) = (checked(&weighted("drr", 2)), weighted("drr", 3));
    let amended = plan.amended(&three, ClassId(0)).expect("only the weight differs");
    assert_eq!(
        format!("{:?}", amended.root.plan),
        format!("{:?}", checked(&three).root.plan)
    );
    assert!(plan.is_amended_by(&amended));
    assert!(
        plan.amended(&weighted("wrr", 3), ClassId(0)).is_none(),
        "another kind"
    );
    assert!(plan.amended(&three, ClassId(2)).is_none(), "no such class");
    let mut renamed = three;
    renamed.classes.get_mut(0).expect("a class").name = "b".into();
    assert!(plan.amended(&renamed, ClassId(0)).is_none());
    // What has been noted would have to be noted again.
    let mut noted = plan.clone();
    noted.notices = vec![Problem::new(Span::default(), "a notice")].into();
    assert!(noted.amended(&weighted("drr", 3), ClassId(0)).is_none());
}

#[test]
fn a_class_without_a_bound_is_told_why() {
    let mut outer = weighted("drr", 2);
    outer.classes.get_mut(0).expect("a class").discipline = Some(tree(
        "drr",
        vec![ClassSpec {
            default: true,
            name: "in".into(),
            ..ClassSpec::default()
        }],
    ));
    let plan = checked(&outer);
    let why = |class: &str| plan.unknown_case(plan.class(class)).bound;
    assert_eq!(
        why("in"),
        Err("no bound is known for classes in the queue of `a`".into())
    );
    assert_eq!(why("a"), Err("`drr` has no bound that is known".into()));
    let nested = checked(&tree(
        "cbq",
        vec![
            ClassSpec {
                settings: Table::default().text("rate", "2 Mbit/s"),
                ..rated("a", None)
            },
            rated("rest", Some(("a", 1))),
        ],
    ));
    let why = nested.unknown_case(nested.class("rest")).bound;
    assert_eq!(why, Err("`cbq` has no bound that is known".into()));
}
