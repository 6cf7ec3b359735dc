//! Making disciplines and looking into them, for their own tests.

use crate::discipline::{Build, Discipline};
use crate::inspect::{Inspection, Value};
use crate::kind::QueuePlan;
use crate::link::Link;
use crate::packet::ClassId;
use crate::random::Seed;
use crate::settings::Table;
use crate::spec::{ClassSpec, DisciplineSpec};
use crate::tree::Registry;
use crate::units::{Bandwidth, Bytes};

/// A byte each microsecond.
pub const LINK: Link = Link::new(Bandwidth::mbit(8), Bytes::new(1_000));

fn spec(kind: &str, settings: Table) -> DisciplineSpec {
    DisciplineSpec {
        settings,
        ..DisciplineSpec::new(kind)
    }
}

/// The plan of this kind with these settings.
pub fn planned(kind: &str, settings: Table, link: Link) -> QueuePlan {
    let plan = spec(kind, settings).check(&Registry::builtin(), link);
    plan.expect("a good plan").root
}

/// The plan of this kind over another one.
pub fn planned_over(kind: &str, settings: Table, child: DisciplineSpec) -> QueuePlan {
    let spec = DisciplineSpec {
        child: Some(Box::new(child)),
        ..spec(kind, settings)
    };
    let plan = spec.check(&Registry::builtin(), LINK);
    plan.expect("a good plan").root
}

/// The first problem that such settings have, if any.
pub fn refused(kind: &str, settings: Table, link: Link) -> Option<String> {
    let problems = spec(kind, settings).check(&Registry::builtin(), link).err()?;
    problems.into_iter().next().map(|problem| problem.message)
}

/// Asserts that of each setting the first value is refused, and the second is not.
pub fn ends_between(kind: &str, link: Link, cases: &[(&str, &str, &str)]) {
    for &(key, wrong, right) in cases {
        let found = [wrong, right].map(|value| refused(kind, Table::default().text(key, value), link));
        let found = found.map(|problem| problem.is_some());
        assert_eq!(found, [true, false], "{kind}: {key} = {wrong}, {right}");
    }
}

/// Two classes that share by `drr`.
pub fn two_classes() -> DisciplineSpec {
    let class = |name: &str| ClassSpec {
        name: name.into(),
        default: name == "a",
        ..ClassSpec::default()
    };
    DisciplineSpec {
        classes: ["a", "b"].map(class).into_iter().collect(),
        ..DisciplineSpec::new("drr")
    }
}

/// The discipline of a plan.
pub fn built(plan: &QueuePlan) -> Box<dyn Discipline> {
    plan.plan.build(&Build::new(Seed(1)))
}

/// Asserts that a discipline without classes of its own finds those of the two classes below it.
pub fn finds_two_classes_below(discipline: &mut dyn Discipline) {
    for (class, there) in [(0, true), (1, true), (2, false)] {
        assert_eq!(discipline.leaf(ClassId(class)).is_some(), there, "leaf {class}");
        assert_eq!(
            discipline.owner(ClassId(class)).is_some(),
            there,
            "owner of {class}"
        );
    }
}

/// What a discipline shows of itself, and of what is below it without a class.
pub fn gauges(discipline: &dyn Discipline) -> Vec<(&'static str, Value)> {
    let mut views = Vec::new();
    discipline.inspect(&mut Inspection::new(&mut views));
    views.swap_remove(0).gauges
}

/// One of these.
pub fn gauge(discipline: &dyn Discipline, name: &str) -> Option<Value> {
    let all = gauges(discipline);
    all.into_iter()
        .find(|(its, _)| *its == name)
        .map(|(_, value)| value)
}
