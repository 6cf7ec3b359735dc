//! What it takes to say the bounds of all classes, and the rate that each is served, as `check`,
//! `plan` and `apply` do: a class at a time, among few and many. Nobody waits for one class's; a
//! look at all others for each would be minutes among very many.

use engine::link::Link;
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes};
use std::hint::black_box;

const LINK: Link = Link::new(Bandwidth::gbit(10), Bytes::new(1_514));
/// The kinds that promise something, and their rates' key.
const KINDS: [(&str, &str); 4] = [
    ("drr", "weight"),
    ("cbq", "rate"),
    ("hfsc", "realtime"),
    ("pacer", "rate"),
];
const SIZES: [u32; 2] = [20, 1_000];

fn plan((kind, key): (&str, &str), classes: u32) -> TreePlan {
    let class = |i: u32| ClassSpec {
        name: i.to_string().into(),
        default: i == 0,
        settings: match key {
            "weight" => Table::default().with(key, Raw::Integer((1 + i % 10).into())),
            _ => Table::default().text(key, "1 Mbit/s"),
        },
        ..ClassSpec::default()
    };
    let spec = DisciplineSpec {
        classes: (0..classes).map(class).collect(),
        ..DisciplineSpec::new(kind)
    };
    let plan = spec.check(&Registry::builtin(), LINK);
    plan.unwrap_or_else(|problems| panic!("{kind}: {problems:?}"))
}

/// A row for each kind and size: its name, how many classes, and a step. Each step is for a class;
/// the last of a round says those of all.
pub(crate) fn small() -> impl Iterator<Item = (String, u32, Box<dyn FnMut()>)> {
    let of = |kind: (&'static str, &'static str)| SIZES.map(|classes| (kind, classes));
    KINDS.into_iter().flat_map(of).map(|(kind, classes)| {
        let (plan, mut class) = (plan(kind, classes), 0);
        let step = move || {
            class = (class + 1) % classes;
            if class == 0 {
                for case in plan.bounds() {
                    black_box(plan.root.plan.serves(case.class, LINK.bandwidth));
                    black_box(case);
                }
            }
        };
        let step: Box<dyn FnMut()> = Box::new(step);
        (format!("bounds and rates of {}", kind.0), classes, step)
    })
}
