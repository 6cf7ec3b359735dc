//! Operations on queues of every kind: the exam of the contract test, whose seed and length are the
//! input.

use super::FuzzTarget;
use crate::exam::{Subject, examine};
use crate::mutate::InputShape;
use crate::policies;
use arbitrary::{Result, Unstructured};
use engine::kind::{Children, Kind};
use engine::random::Seed;
use engine::tree::Registry;

pub(super) const DISCIPLINES: FuzzTarget = FuzzTarget {
    name: "disciplines",
    about: "enqueue, dequeue, peek, flush, time and changes on each discipline, with a ledger of its own",
    shape: InputShape::Choices(12),
    tree: &[],
    make: || {
        let registry = Registry::builtin();
        Box::new(move |input| {
            let _ = judge(&mut Unstructured::new(input), &registry, Depth::One);
        })
    },
};

pub(super) const COMPOSITIONS: FuzzTarget = FuzzTarget {
    name: "compositions",
    about: "the same on each discipline with classes over each other discipline",
    shape: InputShape::Choices(12),
    tree: &[],
    make: || {
        let registry = Registry::builtin();
        Box::new(move |input| {
            let _ = judge(&mut Unstructured::new(input), &registry, Depth::Two);
        })
    },
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    One,
    Two,
}

fn judge(u: &mut Unstructured<'_>, registry: &Registry, depth: Depth) -> Result<()> {
    let all: Vec<&Kind> = registry.kinds().collect();
    let (kind, child) = match depth {
        Depth::One => (*u.choose(&all)?, None),
        Depth::Two => {
            let parents = all.iter().filter(|kind| kind.children != Children::None);
            let parents: Vec<&Kind> = parents.copied().collect();
            (*u.choose(&parents)?, Some(*u.choose(&all)?))
        }
    };
    let operations = u32::from(u.arbitrary::<u8>()?) * 2;
    let seed = Seed(u.arbitrary()?);
    let drawn = policies::draw(registry, kind, child, seed.fork("policy"));
    let subject = Subject {
        classes: u32::try_from(drawn.plan.classes.len()).unwrap_or(0),
        queue: drawn.plan.root,
        other: drawn.other.root,
        foreign: policies::draw_any(registry, seed.fork("foreign")).plan.root,
    };
    if let Err(fault) = examine(&subject, seed, operations) {
        panic!(
            "{} over {:?}: {fault}\npolicy: {:#?}",
            kind.name,
            child.map(|kind| kind.name),
            drawn.spec
        );
    }
    Ok(())
}
