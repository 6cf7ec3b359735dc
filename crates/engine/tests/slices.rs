//! An inspection in slices finds what a whole one finds, and asks for no class outside its window.

#[path = "stubs/counted.rs"]
mod counted;

use counted::{COUNTED, INSPECTED};
use engine::discipline::{Reason, Sink};
use engine::inspect::{Inspection, View};
use engine::link::Link;
use engine::packet::{ClassId, Packet};
use engine::queue::Queue;
use engine::random::Seed;
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, ParentSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Instant};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

struct Nothing;

impl Sink for Nothing {
    fn drop(&mut self, _packet: Packet, _why: Reason) {}
}

fn class(name: String, settings: &Table) -> ClassSpec {
    ClassSpec {
        default: name.ends_with("c0"),
        name: name.into(),
        settings: settings.clone(),
        ..ClassSpec::default()
    }
}

/// A tree of this kind: leaves beside and below a class, where the kind has such, and a leaf with
/// classes of its own.
fn tree(kind: &str, settings: Table) -> DisciplineSpec {
    let nested = ["cbq", "hfsc", "pacer"].contains(&kind);
    let own = |n: i64| match kind {
        "priq" => settings.clone().with("priority", Raw::Integer(n)),
        _ => settings.clone(),
    };
    let mut classes: Vec<ClassSpec> = (0..7).map(|n| class(format!("c{n}"), &own(n))).collect();
    if nested {
        classes.push(class("above".into(), &rate(kind, "2 Mbit/s")));
        for below in &mut classes[2..5] {
            below.parent = Some(ParentSpec::from("above"));
        }
    }
    let inner = |n: u32| class(format!("inner{n}-c{n}"), &Table::default());
    classes[5].discipline = Some(DisciplineSpec {
        classes: (0..5).map(inner).collect(),
        ..DisciplineSpec::new("drr")
    });
    DisciplineSpec {
        classes: classes.into(),
        ..DisciplineSpec::new(kind)
    }
}

fn rate(kind: &str, rate: &str) -> Table {
    match kind {
        "cbq" | "pacer" => Table::default().text("rate", rate),
        "hfsc" => Table::default().text("linkshare", rate),
        _ => Table::default(),
    }
}

fn checked(spec: &DisciplineSpec) -> TreePlan {
    let link = Link::new(Bandwidth::mbit(100), Bytes::new(1514));
    let plan = spec.check(&Registry::builtin().with(&COUNTED), link);
    plan.unwrap_or_else(|problems| panic!("{}: {problems:?}", spec.kind))
}

fn by_class(views: Vec<View>) -> BTreeMap<Option<ClassId>, View> {
    let count = views.len();
    let all: BTreeMap<_, _> = views.into_iter().map(|view| (view.class, view)).collect();
    assert_eq!(all.len(), count, "a class was reported twice");
    all
}

/// The views of slices of so many classes, each in the memory of the last.
fn in_slices(queue: &Queue, plan: &TreePlan, slice: u32) -> Vec<View> {
    let (mut all, mut views, mut spare) = (Vec::new(), Vec::new(), Vec::new());
    for from in (0..plan.classes.len() as u32).step_by(slice as usize) {
        queue.inspect(&mut Inspection::within(
            &mut views,
            &mut spare,
            from..from + slice,
        ));
        all.extend_from_slice(&views[usize::from(from > 0)..]);
    }
    plan.sum_interior(&mut all);
    all
}

#[test]
fn slices_of_any_size_find_what_a_whole_inspection_finds() {
    for kind in ["cbq", "hfsc", "pacer", "drr", "wrr", "priq"] {
        let plan = checked(&tree(kind, rate(kind, "300 kbit/s")));
        let mut queue = plan.build(Seed(1));
        for (index, info) in plan.classes.iter().enumerate() {
            for len in (0..index as u64).filter(|_| info.leaf) {
                let class = ClassId(index as u32);
                let packet = Packet::new(Bytes::new(100 + len), Instant::START, class);
                let _ = queue.enqueue(Instant::START, packet, &mut Nothing);
            }
        }
        let mut whole = Vec::new();
        queue.inspect(&mut Inspection::new(&mut whole));
        // Some kinds leave it to their host.
        plan.sum_interior(&mut whole);
        let whole = by_class(whole);
        assert_eq!(whole.len(), plan.classes.len() + 1, "{kind}");
        for slice in [1, 2, 3, 5, 8, 100] {
            assert_eq!(
                by_class(in_slices(&queue, &plan, slice)),
                whole,
                "{kind}, {slice}"
            );
        }
    }
}

#[test]
fn a_slice_of_ten_thousand_classes_asks_for_its_own_alone() {
    for kind in ["cbq", "hfsc", "pacer", "drr", "wrr"] {
        let settings = rate(kind, "1 kbit/s");
        let leaf = |n: u32| ClassSpec {
            discipline: Some(DisciplineSpec::new("counted")),
            default: n == 0,
            ..class(format!("class{n}"), &settings)
        };
        let plan = checked(&DisciplineSpec {
            classes: (0..10_000).map(leaf).collect(),
            ..DisciplineSpec::new(kind)
        });
        let queue = plan.build(Seed(1));
        let mut views = Vec::new();
        INSPECTED.store(0, Ordering::Relaxed);
        queue.inspect(&mut Inspection::slice(&mut views, 5_000..5_064));
        assert_eq!(
            (INSPECTED.load(Ordering::Relaxed), views.len()),
            (64, 65),
            "{kind}"
        );
    }
}
