//! Where a packet goes that no filter takes, in random trees of wrappers and nested disciplines:
//! the plan names the leaf that the policy declares, and the queue that is built takes the packet
//! there.

use engine::classify::{Classifier, Filter};
use engine::discipline::{Reason, Sink};
use engine::header::FlowKey;
use engine::inspect::{Inspection, View};
use engine::kind::Children;
use engine::link::Link;
use engine::packet::{ClassId, Packet};
use engine::random::{Rng, Seed};
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Instant};
use std::collections::BTreeSet;

const LINK: Link = Link::new(Bandwidth::mbit(100), Bytes::new(1514));

/// Drops are noted.
#[derive(Default)]
struct Drops(Vec<Reason>);

impl Sink for Drops {
    fn drop(&mut self, _packet: Packet, why: Reason) {
        self.0.push(why);
    }
}

/// The settings that a kind needs so that a packet of 1000 B passes through it.
fn settings(kind: &str) -> Table {
    match kind {
        "tbf" | "police" => Table::default().text("rate", "5 Mbit/s"),
        _ => Table::default(),
    }
}

fn class_settings(kind: &str, nth: u64) -> Table {
    match kind {
        "cbq" => Table::default().text("rate", "1 %"),
        "hfsc" => Table::default().text("linkshare", "1 %"),
        "priq" => Table::default().with("priority", Raw::Integer(nth as i64)),
        _ => Table::default(),
    }
}

struct Drawing<'a> {
    rng: &'a mut Rng,
    names: u32,
    wrappers: Vec<&'static str>,
    classful: Vec<&'static str>,
}

impl Drawing<'_> {
    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.rng.below(from.len() as u64) as usize]
    }

    /// Up to three wrappers over classes, some of which have the same again in their queues.
    fn discipline(&mut self, depth: u32) -> DisciplineSpec {
        let kind = self.pick(&self.classful.clone());
        let mut spec = DisciplineSpec::new(kind);
        spec.settings = settings(kind);
        let classes = 1 + self.rng.below(4);
        let default = self.rng.below(classes);
        for nth in 0..classes {
            let name = format!("class-{}", self.names);
            self.names += 1;
            let inner = depth < 2 && self.rng.below(3) == 0;
            spec.classes.push(ClassSpec {
                name: name.into(),
                default: nth == default,
                settings: class_settings(kind, nth),
                discipline: inner.then(|| self.discipline(depth + 1)),
                ..ClassSpec::default()
            });
        }
        for _ in 0..self.rng.below(4) {
            let wrapper = self.pick(&self.wrappers.clone());
            spec = DisciplineSpec {
                settings: settings(wrapper),
                child: Some(Box::new(spec)),
                ..DisciplineSpec::new(wrapper)
            };
        }
        spec
    }
}

/// The leaf in which the policy's declarations end: through wrappers, from default to default.
fn declared(spec: &DisciplineSpec) -> Option<&str> {
    if let Some(child) = &spec.child {
        return declared(child);
    }
    let class = spec.classes.iter().find(|class| class.default)?;
    let inner = class.discipline.as_ref().and_then(declared);
    Some(inner.unwrap_or(&class.name))
}

/// The leaf in which a packet of this class ends, and whether it is in this discipline at all.
fn declared_for<'a>(spec: &'a DisciplineSpec, name: &str) -> Option<&'a str> {
    if let Some(child) = &spec.child {
        return declared_for(child, name);
    }
    spec.classes.iter().find_map(|class| {
        let inner = class.discipline.as_ref();
        match class.name == name {
            true => Some(inner.and_then(declared).unwrap_or(&class.name)),
            false => inner.and_then(|inner| declared_for(inner, name)),
        }
    })
}

/// Offers a packet of this class; the innermost classes that counted it.
fn takers(plan: &TreePlan, class: ClassId) -> (Vec<String>, Vec<Reason>) {
    let (mut queue, mut drops) = (plan.build(Seed(1)), Drops::default());
    let packet = Packet::new(Bytes::new(1000), Instant::START, class);
    let _ = queue.enqueue(Instant::START, packet, &mut drops);
    let mut views: Vec<View> = Vec::new();
    queue.inspect(&mut Inspection::new(&mut views));
    let counted = views.iter().filter(|view| view.stats.offered.packets > 0);
    let taking: Vec<ClassId> = counted.filter_map(|view| view.class).collect();
    let outer: BTreeSet<ClassId> = taking
        .iter()
        .filter_map(|&class| plan.info(class)?.parent)
        .collect();
    let inner = taking.iter().filter(|class| !outer.contains(class));
    let names = inner.filter_map(|&class| Some(plan.info(class)?.name.to_string()));
    (names.collect(), drops.0)
}

#[test]
fn what_no_filter_takes_goes_to_the_default_class_through_wrappers_and_nested_trees() {
    let registry = Registry::builtin();
    // Those with delays to promise refuse most classes that are drawn here; pacers have no share.
    let without = ["ips", "pacer"];
    let kinds = |wanted: fn(Children) -> bool| -> Vec<&'static str> {
        let fit = registry.kinds().filter(|kind| wanted(kind.children));
        fit.map(|kind| kind.name)
            .filter(|name| !without.contains(name))
            .collect()
    };
    let wrappers = kinds(|children| children == Children::One);
    let classful = kinds(|children| matches!(children, Children::Classes { .. }));
    assert!(
        wrappers.len() >= 3 && classful.len() >= 4,
        "{wrappers:?} {classful:?}"
    );
    let (mut wrapped, mut not_first) = (0, 0);
    let mut rng = Seed(15).stream();
    for tree in 0..400 {
        let mut drawing = Drawing {
            rng: &mut rng,
            names: 0,
            wrappers: wrappers.clone(),
            classful: classful.clone(),
        };
        let spec = drawing.discipline(0);
        let plan = spec
            .check(&registry, LINK)
            .unwrap_or_else(|problems| panic!("{problems:?}\n{spec:#?}"));
        let meant = declared(&spec).expect("a default class");
        let unmatched = plan.class_of(None);
        let named = plan.info(unmatched).map(|info| info.name.as_str());
        assert_eq!(named, Some(meant), "tree {tree}: {spec:#?}");
        assert_eq!(
            takers(&plan, unmatched),
            (vec![meant.to_owned()], vec![]),
            "tree {tree}: {spec:#?}"
        );
        // By a classifier, as hosts ask.
        let none = Classifier::new(std::iter::empty::<Filter>(), Seed(1)).classify(&FlowKey::default());
        assert_eq!(plan.class_of(none), unmatched);
        // A class that a filter names keeps its packets; the default of its own queue takes them.
        for (index, info) in plan.classes.iter().enumerate().filter(|(_, info)| info.leaf) {
            let class = ClassId(index as u32);
            assert_eq!(plan.class_of(Some(class)), class);
            let end = declared_for(&spec, &info.name).expect("a class of the tree");
            assert_eq!(
                takers(&plan, class),
                (vec![end.to_owned()], vec![]),
                "{}: {spec:#?}",
                info.name
            );
        }
        // A number of no class of this tree has no place in it: nobody else resolves a default.
        let stranger = ClassId(plan.classes.len() as u32);
        assert_eq!(
            takers(&plan, stranger),
            (vec![], vec![Reason::NoClass]),
            "tree {tree}: {spec:#?}"
        );
        wrapped += u32::from(spec.child.is_some());
        not_first += u32::from(unmatched != ClassId(0));
    }
    assert!(
        wrapped > 200 && not_first > 200,
        "{wrapped} wrapped, {not_first} not the first class"
    );
}
