//! Where in a policy's tree reservations get their classes: in the interface's discipline, or in
//! that of one class; below wrappers that only hold packets back.
//!
//! What can be reserved there is what the disciplines above guarantee to that place. Classes share
//! that as they would share a link, so a place that gets less than the link is for kinds whose
//! sharing follows from the rate at which packets are taken from them.

use crate::kind::Kind;
use crate::link::Link;
use crate::settings::{Problem, Span, unknown};
use crate::spec::{ClassSpec, DisciplineSpec};
use crate::tree::{Registry, TreePlan};

/// A step down a tree.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// To what a wrapper holds back.
    Wrapped,
    /// To the discipline of the class with this index.
    Class(usize),
}

/// The way to a discipline of a tree.
#[derive(Clone, Debug)]
pub(super) struct Place(Vec<Step>);

impl Place {
    /// The place for reservations in this tree, or in this class of it.
    pub(super) fn find(
        registry: &Registry,
        spec: &DisciplineSpec,
        class: Option<&str>,
        at: Span,
    ) -> Result<Self, Problem> {
        let way = match class {
            None => Vec::new(),
            Some(name) => way_to(spec, name).ok_or_else(|| {
                let mut names = Vec::new();
                add_names(spec, &mut names);
                unknown("class with a discipline", name, at, names)
            })?,
        };
        let mut place = Self(way);
        while place.of(spec).is_some_and(|here| only_delays(registry, here)) {
            place.0.push(Step::Wrapped);
        }
        Ok(place)
    }

    /// The discipline there.
    pub(super) fn of<'a>(&self, spec: &'a DisciplineSpec) -> Option<&'a DisciplineSpec> {
        self.0.iter().try_fold(spec, |here, step| match *step {
            Step::Wrapped => here.child.as_deref(),
            Step::Class(index) => here.classes.get(index)?.discipline.as_ref(),
        })
    }

    /// The discipline there, to change it.
    pub(super) fn of_mut<'a>(&self, spec: &'a mut DisciplineSpec) -> Option<&'a mut DisciplineSpec> {
        self.0.iter().try_fold(spec, |here, step| match *step {
            Step::Wrapped => here.child.as_deref_mut(),
            Step::Class(index) => here.classes.get_mut(index)?.discipline.as_mut(),
        })
    }

    /// Whether it is the interface's own discipline, which has the whole link.
    pub(super) fn is_outermost(&self) -> bool {
        self.0.is_empty()
    }
}

/// The link as this place of a checked tree has it.
pub(super) fn link_at(plan: &TreePlan, class: Option<&str>, kind: &Kind, at: Span) -> Result<Link, Problem> {
    let link = plan.link;
    let id = class.and_then(|name| plan.class(name));
    let Some(bandwidth) = plan.root.plan.serves(id, link.bandwidth) else {
        let name = class.unwrap_or_default();
        let message = format!("class `{name}` is guaranteed no rate, so nothing of it can be reserved");
        return Err(Problem::new(at, message)
            .help("reserve in a class of `cbq` or `drr`, or in one of `hfsc` with `realtime`"));
    };
    if bandwidth < link.bandwidth && !kind.properties.follows_any_rate {
        let message = format!(
            "`{}` shares the whole link, and this one gets {bandwidth} of {}",
            kind.name, link.bandwidth
        );
        return Err(Problem::new(at, message).help("use `drr` here, which shares what it gets"));
    }
    Ok(Link { bandwidth, ..link })
}

/// Whether it only holds packets back that are queued below it.
fn only_delays(registry: &Registry, spec: &DisciplineSpec) -> bool {
    let kind = registry.find(&spec.kind);
    spec.child.is_some() && kind.is_some_and(|kind| kind.properties.only_delays)
}

/// Every class with a discipline of its own.
fn add_names<'a>(spec: &'a DisciplineSpec, names: &mut Vec<&'a str>) {
    spec.child.iter().for_each(|child| add_names(child, names));
    for class in &spec.classes {
        if let Some(inner) = &class.discipline {
            names.push(&class.name);
            add_names(inner, names);
        }
    }
}

/// The way to the discipline of the class of this name.
fn way_to(spec: &DisciplineSpec, name: &str) -> Option<Vec<Step>> {
    let through = |step: Step, inner: &DisciplineSpec| {
        let mut way = way_to(inner, name)?;
        way.insert(0, step);
        Some(way)
    };
    let child = spec.child.as_deref();
    let below = child.and_then(|child| through(Step::Wrapped, child));
    let inside = |(index, class): (usize, &ClassSpec)| {
        let (step, inner) = (Step::Class(index), class.discipline.as_ref()?);
        match class.name == name {
            true => Some(vec![step]),
            false => through(step, inner),
        }
    };
    below.or_else(|| spec.classes.iter().enumerate().find_map(inside))
}
