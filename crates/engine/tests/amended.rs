//! A change of one class: the plan that is amended is the plan that a check of the whole makes, and
//! neither the plan nor a queue takes a look at the other classes.

#[path = "stubs/counted.rs"]
mod counted;
#[allow(dead_code, reason = "the contract test uses more of it")]
#[path = "contract/policies.rs"]
mod policies;

use counted::{ADOPTED, COUNTED};
use engine::bounds::WorstCase;
use engine::discipline::{Reason, Sink, Verdict};
use engine::inspect::{Inspection, View};
use engine::kind::Children;
use engine::link::Link;
use engine::packet::{ClassId, Packet};
use engine::queue::Queue;
use engine::random::{Rng, Seed};
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, ParentSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use policies::LINK;
use std::sync::atomic::Ordering;

/// A kind that amends plans.
#[derive(Debug)]
struct Amending {
    kind: &'static str,
    /// A setting of a class, with values, and what each class begins with.
    key: &'static str,
    value: fn(u64) -> Raw,
    first: fn(u64) -> u64,
    /// What a check refuses in a tree of three.
    refused: u64,
    /// Numbers of classes that it can have, few and many. The last block of a list has as many
    /// items.
    classes: [u32; 2],
    /// The settings whose changes a check of the whole alone can judge.
    judged_together: &'static [&'static str],
    /// Whether it can judge those of a class at all: a leaf or not.
    judged_alone: fn(&DisciplineSpec, bool) -> bool,
}

impl Amending {
    /// What class `n` of [`tree`] begins with.
    fn begins_with(&self, n: u32) -> Raw {
        (self.value)((self.first)(n.into()))
    }
}

const MANY: [u32; 2] = [1_056, 100_000];

const AMENDING: &[Amending] = &[
    Amending {
        kind: "drr",
        key: "weight",
        value: |n| Raw::Integer(n as i64),
        first: |_| 1,
        refused: 0,
        classes: MANY,
        judged_together: &[],
        judged_alone: |_, _| true,
    },
    Amending {
        kind: "hfsc",
        key: "linkshare",
        value: |n| Raw::Text(format!("{n} kbit/s")),
        first: |_| 1,
        refused: 0,
        classes: MANY,
        // The first limit of a class with child classes.
        judged_together: &["upperlimit"],
        judged_alone: |_, _| true,
    },
    Amending {
        kind: "hfsc",
        key: "realtime",
        value: |n| Raw::Text(format!("{n} kbit/s")),
        first: |_| 1,
        refused: 0,
        classes: MANY,
        judged_together: &["upperlimit"],
        judged_alone: |_, _| true,
    },
    Amending {
        kind: "wrr",
        key: "weight",
        value: |n| Raw::Integer(n as i64),
        first: |_| 1,
        refused: 0,
        classes: MANY,
        judged_together: &[],
        judged_alone: |_, _| true,
    },
    Amending {
        kind: "wrr",
        key: "rate",
        value: |n| Raw::Text(format!("{n} kbit/s")),
        first: |_| 1,
        // More than the link has.
        refused: 200_000,
        classes: MANY,
        judged_together: &[],
        judged_alone: |_, _| true,
    },
    Amending {
        kind: "cbq",
        key: "rate",
        value: |n| Raw::Text(format!("{n} kbit/s")),
        // A class alone gets up to eight times what others have.
        first: |_| 100,
        // More than the link has.
        refused: 200_000,
        classes: MANY,
        judged_together: &[],
        judged_alone: |spec, leaf| leaf && spec.settings.get("root_rate").is_none(),
    },
    Amending {
        kind: "priq",
        key: "priority",
        value: |n| Raw::Integer(n as i64),
        first: |n| n,
        // That of the default class.
        refused: 0,
        classes: [96, 224],
        judged_together: &[],
        judged_alone: |_, _| true,
    },
];

struct Nothing;

impl Sink for Nothing {
    fn drop(&mut self, _packet: Packet, _why: Reason) {}
}

/// Everything of a plan. Plans have no equality, and print all that they have.
fn whole(plan: &TreePlan) -> String {
    format!("{plan:?}")
}

/// Holds the bounds of one class against those of all, before and after a change of it. Whether
/// they are told of it alone: then no other class has other bounds now, or is served otherwise.
fn is_promised_alone(before: &TreePlan, after: &TreePlan, class: ClassId) -> bool {
    // All that are below a leaf are in its queue.
    let is_of = |plan: &TreePlan, other: Option<ClassId>| {
        let parent = |id: &ClassId| plan.info(*id)?.parent;
        let in_queues = plan.info(class).is_some_and(|info| info.leaf);
        let mut above = std::iter::successors(other, parent).take(if in_queues { usize::MAX } else { 1 });
        above.any(|id| id == class)
    };
    let [was, is] = [before, after].map(|plan| {
        let found = plan.bounds_of(class)?;
        let (own, others): (Vec<_>, Vec<_>) =
            (plan.bounds().into_iter()).partition(|case| is_of(plan, case.class));
        for case in &found {
            assert!(own.contains(case), "{case:?} of {own:?}");
        }
        assert_eq!(found.len(), own.len());
        let served = |case: &WorstCase| plan.root.plan.serves(case.class, LINK.bandwidth);
        let served: Vec<_> = others.iter().map(served).collect();
        Some((others, served))
    });
    let alone = was.is_some() && is.is_some();
    assert!(!alone || was == is, "{class:?}: {was:?}, {is:?}");
    alone
}

#[test]
fn an_amended_plan_is_the_plan_that_a_check_of_the_whole_makes() {
    let registry = Registry::builtin();
    for kind in registry.kinds() {
        if !matches!(kind.children, Children::Classes { .. }) {
            continue;
        }
        let amending = AMENDING.iter().find(|amending| amending.kind == kind.name);
        let mut amended = 0;
        for round in 0..40 {
            let seed = Seed(round).fork(kind.name);
            let child = registry.kinds().nth(round as usize % registry.kinds().count());
            let drawn = policies::draw(&registry, kind, child, seed);
            let (mut rng, mut spec, mut plan) = (seed.fork("sets").stream(), drawn.spec, drawn.plan);
            // One after the other, each upon the plan that the last one made.
            for _ in 0..20 {
                let (changed, class) = policies::with_a_class_changed(kind, &spec, &mut rng);
                let checked = changed.check(&registry, LINK);
                let found = plan.amended(&changed, ClassId(class as u32));
                match (found, checked) {
                    (Some(found), Ok(checked)) => {
                        assert_eq!(whole(&found), whole(&checked), "{}, round {round}", kind.name);
                        is_promised_alone(&plan, &found, ClassId(class as u32));
                        amended += 1;
                        (spec, plan) = (changed, found);
                    }
                    (Some(_), Err(problems)) => panic!("{}: amended despite {problems:?}", kind.name),
                    (None, Ok(checked)) => {
                        let own = ClassId(class as u32);
                        let only = checked.changed_classes(&plan, &[]);
                        // Nothing says of a class with child classes that it is as it was.
                        let leaf = checked.info(own).is_some_and(|info| info.leaf);
                        let alone = only.is_some_and(|only| match only[..] {
                            [] => leaf,
                            [other] => other == own,
                            _ => false,
                        });
                        let tells = !alone
                            || amending.is_none_or(|amending| {
                                let own = |spec: &DisciplineSpec, key: &str| {
                                    spec.classes[class].settings.get(key).cloned()
                                };
                                let mut together = amending.judged_together.iter();
                                together.any(|key| own(&changed, key) != own(&spec, key))
                                    || !(amending.judged_alone)(&changed, leaf)
                            });
                        let noted = !checked.notices.is_empty();
                        assert!(tells || noted, "{}: only a check tells", kind.name);
                        (spec, plan) = (changed, checked);
                    }
                    (None, Err(_)) => {}
                }
            }
        }
        let few = if amending.is_some() { 100 } else { 0 };
        assert!(
            amended >= few && (amended == 0) == (few == 0),
            "{}: {amended} were amended",
            kind.name
        );
    }
}

#[test]
fn a_change_that_a_check_refuses_is_not_amended() {
    let registry = Registry::builtin();
    for amending in AMENDING {
        let kind = amending.kind;
        let spec = tree(amending, 3, "fifo");
        let plan = spec.check(&registry, LINK).expect("a tree");
        let wrong = [
            (amending.key, (amending.value)(amending.refused)),
            (amending.key, Raw::Boolean(true)),
            ("quantum", Raw::Text("1 B".into())),
            ("unknown", Raw::Integer(1)),
        ];
        for (key, value) in wrong {
            let mut changed = spec.clone();
            changed.classes[1].settings = Table::default().with(key, value);
            assert!(changed.check(&registry, LINK).is_err(), "{kind}: {key}");
            assert!(plan.amended(&changed, ClassId(1)).is_none(), "{kind}: {key}");
        }
        // Nor is one of a class that has another number.
        assert!(plan.amended(&tree(amending, 2, "fifo"), ClassId(2)).is_none());
    }
}

/// A class or none that takes this place, at random; some are refused.
fn another(spec: &DisciplineSpec, place: usize, amending: &Amending, rng: &mut Rng) -> ClassSpec {
    let parent = spec.classes[place].parent_name();
    if rng.below(3) == 0 {
        return ClassSpec::place(place, parent);
    }
    let value = |rng: &mut Rng| match (amending.key, rng.below(8)) {
        (_, 0) => Raw::Boolean(true),
        ("weight", _) => Raw::Integer(rng.below(9) as i64),
        ("priority", _) => Raw::Integer(rng.below(280) as i64),
        (_, 1) => Raw::Text("40 %".into()),
        _ => Raw::Text(format!("{} kbit/s", rng.below(900))),
    };
    let settings = match rng.below(8) {
        0 => Table::default(),
        _ => Table::default().with(amending.key, value(rng)),
    };
    let queues = ["fifo", "red", "fq_codel", "tbf", "cqb", "priq"];
    ClassSpec {
        name: match rng.below(12) {
            0 => spec.classes[0].name.clone(),
            _ => format!("class{}", rng.below(1_000)).into(),
        },
        parent: match rng.below(12) {
            0 => None,
            _ => parent.map(ParentSpec::from),
        },
        default: rng.below(12) == 0,
        settings,
        discipline: (rng.below(3) > 0).then(|| DisciplineSpec::new(queues[rng.below(6) as usize])),
        ..ClassSpec::default()
    }
}

#[test]
fn a_class_that_comes_or_goes_makes_the_plan_that_a_check_of_the_whole_makes() {
    let registry = Registry::builtin();
    for amending in AMENDING {
        let (kind, key) = (amending.kind, amending.key);
        let found = registry.find(kind).expect("a kind");
        let nested = found.children == Children::Classes { nested: true };
        let mut spec = tree(amending, 6, "fifo");
        if nested {
            for n in 3..6 {
                spec.classes[n].parent = Some(ParentSpec::from("class2"));
            }
            spec.classes[2].discipline = None;
            spec.classes[2].settings = match kind {
                "cbq" => Table::default().text("rate", "2 Mbit/s"),
                _ => Table::default().text("linkshare", "1 Mbit/s"),
            };
        }
        let below = [None, nested.then_some("class2")];
        for parent in below.into_iter().flat_map(|parent| [parent; 4]) {
            spec.classes.push(ClassSpec::place(spec.classes.len(), parent));
        }
        let mut plan = spec.check(&registry, LINK).expect("a tree");
        let (mut rng, mut renewed, mut refused) = (Seed(4).fork(key).stream(), 0, 0);
        let mut told = 0;
        for _ in 0..3_000 {
            let place = 3 + rng.below(spec.classes.len() as u64 - 3) as usize;
            let mut changed = spec.clone();
            changed.classes[place] = another(&spec, place, amending, &mut rng);
            let found = plan.renewed(&changed, ClassId(place as u32), &registry);
            match (found, changed.check(&registry, LINK)) {
                (Some(found), Ok(checked)) => {
                    assert_eq!(whole(&found), whole(&checked), "{kind}");
                    let id = found.class(&changed.classes[place].name);
                    assert_eq!(id, Some(ClassId(place as u32)), "{kind}");
                    let alone = is_promised_alone(&plan, &found, ClassId(place as u32));
                    told += u32::from(alone);
                    (spec, plan, renewed) = (changed, found, renewed + 1);
                }
                (Some(_), Err(problems)) => panic!("{kind}: renewed despite {problems:?}"),
                (None, _) => refused += 1,
            }
            let vacant = (0..)
                .map(ClassId)
                .zip(plan.classes.iter())
                .find(|(_, info)| info.vacant);
            if let Some((_, info)) = vacant {
                let found = plan.place_below(info.parent).expect("there is one");
                let found = plan.info(found).expect("a class");
                assert!(found.vacant && found.parent == info.parent);
            }
        }
        assert!(
            renewed > 500 && refused > 300,
            "{kind}: {renewed} renewed, {refused} not"
        );
        let expected = match kind {
            "hfsc" | "wrr" => renewed..=renewed,
            // Not where something is in the queue that may have classes.
            "cbq" => renewed / 3..=renewed,
            _ => 0..=0,
        };
        assert!(expected.contains(&told), "{kind}: {told} of {renewed}");
    }
}

/// How often memory was taken, and how much, for a class that takes a place among so many.
fn work_of_a_new_class(amending: &Amending, classes: u32) -> (u64, u64) {
    let registry = Registry::builtin();
    let link = Link::new(Bandwidth::gbit(100), Bytes::new(1_514));
    let mut spec = tree(amending, classes, "fifo");
    spec.classes.push(ClassSpec::place(classes as usize, None));
    let plan = spec.check(&registry, link).expect("a tree");
    let taken = allocation_counter::measure(|| {
        let mut changed = spec.clone();
        let new = changed.classes.get_mut(classes as usize).expect("a place");
        new.settings = Table::default().with(amending.key, (amending.value)(UNUSED));
        (new.name, new.vacant) = ("new".into(), false);
        let renewed = plan.renewed(&changed, ClassId(classes), &registry);
        assert!(renewed.is_some());
    });
    (taken.count_total, taken.bytes_total)
}

#[test]
fn the_work_of_a_new_class_grows_by_a_few_bytes_for_each_that_stays() {
    for amending in AMENDING {
        let [few, many] = amending.classes;
        let more = u64::from(many - few);
        let [few, many] = [few, many].map(|classes| work_of_a_new_class(amending, classes));
        assert_eq!(few.0, many.0, "{amending:?}");
        // The order of the names, written twice, and the blocks of lists.
        let each = (many.1 - few.1) / more;
        assert!(each <= 10, "{amending:?}: {each} bytes for each class");
    }
}

/// A value that no class of [`tree`] has.
const UNUSED: u64 = 250;

/// A tree of so many classes.
fn tree(amending: &Amending, classes: u32, queue: &str) -> DisciplineSpec {
    let class = |n: u32| ClassSpec {
        name: format!("class{n}").into(),
        default: n == 0,
        settings: Table::default().with(amending.key, amending.begins_with(n)),
        discipline: Some(DisciplineSpec::new(queue)),
        ..ClassSpec::default()
    };
    DisciplineSpec {
        classes: (0..classes).map(class).collect(),
        ..DisciplineSpec::new(amending.kind)
    }
}

/// How often memory was taken and how many queues were asked for one change among so many classes.
fn work_of_a_change(amending: &Amending, classes: u32) -> (u64, usize) {
    let registry = Registry::builtin().with(&COUNTED);
    let link = Link::new(Bandwidth::gbit(100), Bytes::new(1_514));
    let mut spec = tree(amending, classes, "counted");
    // As a running tree has: `cbq` keeps its scale of weights for such a change.
    spec.classes.push(ClassSpec::place(classes as usize, None));
    let plan = spec.check(&registry, link).expect("a tree");
    let mut queue = plan.build(Seed(1));
    let class = classes / 2;
    ADOPTED.store(0, Ordering::Relaxed);
    let taken = allocation_counter::measure(|| {
        let mut changed = spec.clone();
        let settings = Table::default().with(amending.key, (amending.value)(UNUSED));
        changed.classes[class as usize].settings = settings;
        let amended = plan.amended(&changed, ClassId(class)).expect("amended");
        assert!(queue.retune_class(Instant::START, &*amended.root.plan, ClassId(class)));
    });
    (taken.count_total, ADOPTED.load(Ordering::Relaxed))
}

#[test]
fn the_work_of_a_change_does_not_grow_with_the_number_of_classes() {
    for amending in AMENDING {
        let [few, many] = amending.classes;
        let [few, many] = [few, many].map(|classes| work_of_a_change(amending, classes));
        // At most its own queue is asked.
        assert!(few.1 <= 1 && many == few, "{amending:?}: {few:?}, {many:?}");
    }
}

fn views(queue: &Queue) -> Vec<View> {
    let mut views = Vec::new();
    queue.inspect(&mut Inspection::new(&mut views));
    views
}

#[test]
fn a_queue_that_adopts_one_class_serves_as_one_that_adopts_the_whole_plan() {
    let registry = Registry::builtin();
    // With a whole plan `wrr` lays out all of its cycle, and `cbq` has another scale of weights.
    let alike = |amending: &&Amending| !["wrr", "cbq"].contains(&amending.kind);
    for amending in AMENDING.iter().filter(alike) {
        let kind = amending.kind;
        let spec = tree(amending, 5, "fifo");
        let plan = spec.check(&registry, LINK).expect("a tree");
        let mut twins = [plan.build(Seed(1)), plan.build(Seed(1))];
        let mut now = Instant::START;
        let (mut rng, mut spec, mut plan) = (Seed(2).stream(), spec, plan);
        for _ in 0..2_000 {
            let (class, len) = (ClassId(rng.below(5) as u32), Bytes::new(64 + rng.below(1_400)));
            for queue in &mut twins {
                let _ = queue.enqueue(now, Packet::new(len, now, class), &mut Nothing);
            }
            if rng.below(3) == 0 {
                let value = (amending.value)(1 + rng.below(9));
                let mut changed = spec.clone();
                let settings = &mut changed.classes[class.0 as usize].settings;
                *settings = std::mem::take(settings).with(amending.key, value);
                let Some(amended) = plan.amended(&changed, class) else {
                    assert!(changed.check(&registry, LINK).is_err(), "{kind}");
                    continue;
                };
                (spec, plan) = (changed, amended);
                assert!(twins[0].retune_class(now, &*plan.root.plan, class), "{kind}");
                assert!(twins[1].retune(now, &*plan.root.plan), "{kind}");
            }
            if rng.below(2) == 0 {
                let [one, other] = &mut twins;
                let [one, other] =
                    [one, other].map(|queue| format!("{:?}", queue.dequeue(now, &mut Nothing)));
                assert_eq!(one, other, "{kind}");
            }
            now = now + Duration::from_micros(10);
            assert_eq!(views(&twins[0]), views(&twins[1]), "{kind}");
        }
    }
}

/// A change by the class of two classes: formerly the second kept the settings of its queue.
#[test]
fn each_class_that_a_change_names_gets_the_settings_of_its_queue() {
    let text = |key, value: &str| Table::default().text(key, value);
    let kinds = [
        ("drr", text("weight", "1")),
        ("wrr", text("weight", "1")),
        ("hfsc", text("linkshare", "1 Mbit/s")),
        ("cbq", text("rate", "1 Mbit/s")),
        ("priq", text("priority", "1")),
    ];
    let registry = Registry::builtin();
    let named = kinds.each_ref().map(|(kind, _)| *kind);
    for kind in registry.kinds().filter(|kind| kind.properties.vacancies) {
        assert!(named.contains(&kind.name), "{} is not tried", kind.name);
    }
    for (kind, settings) in kinds {
        let plan = |limit: i64| {
            let class = |number: i64| {
                let mut settings = settings.clone();
                for entry in &mut settings.entries {
                    if matches!(&*entry.key, "weight" | "priority") {
                        entry.value = Raw::Integer(1 + number);
                    }
                }
                let mut queue = DisciplineSpec::new("fifo");
                queue.settings = Table::default().with("limit", Raw::Integer(limit));
                ClassSpec {
                    name: number.to_string().into(),
                    default: number == 0,
                    discipline: Some(queue),
                    settings,
                    ..ClassSpec::default()
                }
            };
            let mut spec = DisciplineSpec::new(kind);
            spec.classes = (0..3).map(class).collect();
            // As a running tree has: `cbq` keeps its scale of weights for such a change.
            spec.classes.push(ClassSpec {
                name: "place".into(),
                vacant: true,
                ..ClassSpec::default()
            });
            spec.check(&registry, LINK).expect("a tree")
        };
        let (old, new) = (plan(10), plan(20));
        let mut queue = old.build(Seed(1));
        for class in [0, 1] {
            let adopted = queue.retune_class(Instant::START, new.root.plan.as_ref(), ClassId(class));
            assert!(adopted, "{kind}, class {class}");
        }
        let mut kept = [0; 3];
        for packet in 0..45 {
            let class = packet % 3;
            let packet = Packet::new(Bytes::new(100), Instant::START, ClassId(class));
            let verdict = queue.enqueue(Instant::START, packet, &mut Nothing);
            kept[class as usize] += u32::from(verdict == Verdict::Queued);
        }
        assert_eq!(kept, [15, 15, 10], "{kind}");
    }
}
