//! One class that comes to a policy in force, or goes, without a look at the others.
//!
//! What is found here to be in order is what a reading of the whole text finds to be, and makes;
//! whatever concerns more than the class itself, or would be refused, is left to that. The class
//! takes a [place](ClassSpec::vacant) in the tree, or leaves one, so all others keep their numbers.
//! A kind that cannot check one class alone checks the tree, and the text is still not read.

use crate::filters;
use crate::policy::{InterfacePolicy, PolicyReader};
use crate::policy_text;
use crate::protocol::{AddedClass, Amendment};
use crate::sections;
use engine::classify::{Filter, FilterId};
use engine::packet::ClassId;
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use std::sync::Arc;

/// A policy with another class in one place, or none.
#[derive(Clone, Debug)]
pub struct ClassChanged {
    /// The policy.
    pub policy: InterfacePolicy,
    /// The place.
    pub class: ClassId,
    /// The numbers of the filters that are gone.
    pub gone: Vec<FilterId>,
    /// The filters that came, with their numbers.
    pub come: Vec<(FilterId, Filter)>,
    /// Whether it was checked alone: all other classes have the very settings that they had.
    pub alone: bool,
}

impl InterfacePolicy {
    /// The policy with this change of one class; `None` if only a reading of the whole text can
    /// tell what that makes.
    pub fn with_class_change(&self, registry: &Registry, change: &Amendment) -> Option<ClassChanged> {
        // What can be reserved, how classes yield, and whether all fits into the least rate of a
        // line that varies follows from all classes.
        let settled = self.reserve.is_some() || self.autorate.is_some();
        let alone = !settled && self.yields.is_empty() && self.filters.is_dense();
        match change {
            Amendment::Added(added) if alone => self.with_class(registry, added),
            Amendment::Removed(removed) if alone => self.without_class(registry, &removed.class),
            _ => None,
        }
    }

    fn with_class(&self, registry: &Registry, added: &AddedClass) -> Option<ClassChanged> {
        let (class, filters) = read(registry, &self.spec.kind, added)?;
        let parent = match class.parent_name() {
            Some(name) => Some(self.plan.class(name)?),
            None => None,
        };
        let place = self.plan.place_below(parent)?;
        let filters = filters.into_iter().map(|filter| Filter {
            class: place,
            ..filter
        });
        self.changed(registry, place, class, &[], &filters.collect::<Vec<_>>())
    }

    fn without_class(&self, registry: &Registry, name: &str) -> Option<ClassChanged> {
        let class = self.plan.class(name)?;
        let (info, spec) = (self.plan.info(class)?, self.spec.classes.get(class.0 as usize)?);
        let has_classes = spec.discipline.as_ref().is_some_and(DisciplineSpec::has_classes);
        let has_quota = self.quotas.iter().any(|of| of.class == name);
        let is_expected = self
            .expectations
            .iter()
            .any(|of| of.class.as_deref() == Some(name));
        if info.vacant || spec.name != name || has_classes || is_expected || has_quota {
            return None;
        }
        // Without classes below it, its parent becomes a leaf.
        let siblings = (0..).map(ClassId).zip(self.plan.classes.iter());
        let mut siblings = siblings.filter(|(id, other)| *id != class && !other.vacant);
        if info.parent.is_some() && !siblings.any(|(_, other)| other.parent == info.parent) {
            return None;
        }
        let gone = self.filters.of_class(class);
        let place = ClassSpec::place(class.0 as usize, spec.parent_name());
        self.changed(registry, class, place, &gone, &[])
    }

    fn changed(
        &self,
        registry: &Registry,
        class: ClassId,
        new: ClassSpec,
        gone: &[FilterId],
        come: &[Filter],
    ) -> Option<ClassChanged> {
        if !registry.find(&self.spec.kind)?.properties.vacancies {
            return None;
        }
        let mut spec = DisciplineSpec::clone(&self.spec);
        *spec.classes.get_mut(class.0 as usize)? = new;
        let renewed = self.plan.renewed(&spec, class, registry);
        let alone = renewed.is_some();
        let plan = renewed.or_else(|| spec.check(registry, self.link()).ok())?;
        let (filters, come) = self.filters.changed(gone, come);
        Some(ClassChanged {
            policy: Self {
                plan,
                spec: Arc::new(spec),
                filters: Arc::new(filters),
                ..self.clone()
            },
            class,
            gone: gone.to_vec(),
            come,
            alone,
        })
    }
}

/// The class, as a policy of an interface with a discipline of this kind would have it, and its
/// filters, whose number of a class means nothing yet.
fn read(registry: &Registry, kind: &str, added: &AddedClass) -> Option<(ClassSpec, Vec<Filter>)> {
    let alone = Amendment::Added(AddedClass {
        interface: "of".into(),
        ..added.clone()
    });
    let text = policy_text::with("[interface.of]\n", [&alone]).ok()?;
    let mut problems = Vec::new();
    let found = sections::parse(&text, &mut problems, |root, problems| {
        let interface = root.section("interface", problems)?.section("of", problems)?;
        let classes = interface.sections("class", "class", problems);
        let class = PolicyReader::new(registry).lone_class(classes.first()?, registry.find(kind)?)?;
        let filters = interface.sections("filter", "filter", problems);
        let read = |section| filters::read(section, ClassId(0), problems);
        Some((class, filters.iter().flat_map(read).collect()))
    })?;
    problems.is_empty().then_some(found)
}
