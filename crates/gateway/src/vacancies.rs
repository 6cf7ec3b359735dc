//! Places for classes that may come: a running tree has some more leaves than its policy, so that a
//! class can be added to it, and another removed, without a look at the others.
//!
//! Below each class with child classes, and at the top, there is a place for every sixteenth leaf,
//! and a few at least. A class that comes takes one, and a class that goes leaves one. When none is
//! left where it is needed, the tree is built anew, with new places.

use control::policy::InterfacePolicy;
use engine::classify::Filter;
use engine::packet::ClassId;
use engine::tree::{ClassSpec, DisciplineSpec, ParentSpec, Registry};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// One place for so many leaves.
const SHARE: usize = 16;
/// So many at the top, and below another class, at least.
const LEAST: [usize; 2] = [8, 2];

/// The same tree with places, if its kind can have them.
pub(crate) fn with_places(spec: &DisciplineSpec, registry: &Registry) -> Option<DisciplineSpec> {
    let kind = registry.find(&spec.kind)?;
    if !kind.properties.vacancies {
        return None;
    }
    let mut children: HashMap<Option<&str>, usize> = HashMap::new();
    for class in &spec.classes {
        *children.entry(parent(class)).or_default() += 1;
    }
    children.entry(None).or_default();
    // In an order that does not depend on hashes.
    let parents = spec.classes.iter().map(|class| Some(class.name.as_str()));
    let parents: Vec<_> = std::iter::once(None).chain(parents).collect();
    let mut whole = spec.clone();
    for parent in parents {
        let Some(count) = children.get(&parent) else {
            continue;
        };
        let least = LEAST[usize::from(parent.is_some())];
        for _ in 0..least.max(count / SHARE) {
            whole.classes.push(place(whole.classes.len(), parent));
        }
    }
    Some(whole)
}

/// A vacant place. No class of a policy has such a name.
fn place(number: usize, parent: Option<&str>) -> ClassSpec {
    ClassSpec {
        name: format!("\0{number}"),
        parent: parent.map(ParentSpec::from),
        vacant: true,
        ..ClassSpec::default()
    }
}

fn parent(class: &ClassSpec) -> Option<&str> {
    class.parent.as_ref().map(|parent| parent.name.as_str())
}

/// How a running tree becomes another one without being built anew.
#[derive(Debug)]
pub(crate) struct Fitted {
    /// The tree: classes that stay have their places in it.
    pub(crate) spec: DisciplineSpec,
    /// The places that have another class now, or none.
    pub(crate) renewed: Vec<usize>,
    /// Those whose queues have other settings.
    pub(crate) requeued: Vec<usize>,
}

/// Fits the classes of a tree into the places of the running one; `None` if there are not enough,
/// or more than leaves differ.
pub(crate) fn fit(running: &DisciplineSpec, wanted: &DisciplineSpec) -> Option<Fitted> {
    if running.kind != wanted.kind || running.child.is_some() || wanted.child.is_some() {
        return None;
    }
    let mut coming: HashMap<&str, &ClassSpec> = HashMap::with_capacity(wanted.classes.len());
    for class in &wanted.classes {
        coming.insert(&class.name, class);
    }
    let (mut spec, mut renewed, mut requeued) = (running.clone(), Vec::new(), Vec::new());
    let mut vacant: HashMap<Option<&str>, Vec<usize>> = HashMap::new();
    for (number, old) in running.classes.iter().enumerate() {
        if old.vacant {
            vacant.entry(parent(old)).or_default().push(number);
            continue;
        }
        let staying = coming.get(old.name.as_str()).copied();
        let Some(new) = staying.filter(|new| parent(new) == parent(old)) else {
            renewed.push(number);
            *spec.classes.get_mut(number)? = place(number, parent(old));
            continue;
        };
        coming.remove(old.name.as_str());
        if !same_kinds(old.discipline.as_ref(), new.discipline.as_ref()) {
            renewed.push(number);
        } else if !same_queue(old.discipline.as_ref(), new.discipline.as_ref()) {
            requeued.push(number);
        }
        // What stands elsewhere in a text only is not copied.
        if !old.says_as(new) {
            *spec.classes.get_mut(number)? = new.clone();
        }
    }
    // From the first place on; and in the policy's order.
    vacant.values_mut().for_each(|places| places.reverse());
    for class in wanted
        .classes
        .iter()
        .filter(|class| coming.contains_key(class.name.as_str()))
    {
        let number = vacant.get_mut(&parent(class))?.pop()?;
        renewed.push(number);
        *spec.classes.get_mut(number)? = class.clone();
    }
    // A class with child classes has no queue that could be exchanged, nor has a class with a
    // discipline of classes in it the number of one that has none.
    let is_plain = |number: &usize| {
        let inner = |spec: &ClassSpec| spec.discipline.as_ref().is_some_and(has_classes);
        !inner(&spec.classes[*number]) && !inner(&running.classes[*number])
    };
    let whole = renewed.iter().chain(&requeued).all(is_plain);
    whole.then_some(Fitted {
        spec,
        renewed,
        requeued,
    })
}

/// The same policy with another tree of the same classes, among places.
pub(crate) fn with_tree(
    policy: &InterfacePolicy,
    spec: DisciplineSpec,
    registry: &Registry,
) -> Option<InterfacePolicy> {
    let plan = spec.check(registry, policy.link()).ok()?;
    let number = |filter: &Filter| {
        let class = plan.class(&policy.plan.info(filter.class)?.name)?;
        Some(Filter { class, ..*filter })
    };
    let filters: Option<Vec<Filter>> = policy.filters.iter().map(number).collect();
    Some(InterfacePolicy {
        spec: Arc::new(spec),
        filters: filters?.into(),
        plan,
        ..policy.clone()
    })
}

/// What a worker runs of a policy at first: with places, where its kind can have them.
pub fn laid_out(policy: &InterfacePolicy, registry: &Registry) -> InterfacePolicy {
    let spec = with_places(&policy.spec, registry);
    spec.and_then(|spec| with_tree(policy, spec, registry))
        .unwrap_or_else(|| policy.clone())
}

/// Pairs of filters that are compared at most to find out what new ones take away.
const COMPARED: usize = 50_000_000;

/// The classes of whose packets other filters may give some to another class; `None` if it cannot
/// be told of single ones. All numbers are those of one tree.
pub(crate) fn affected(old: &InterfacePolicy, new: &InterfacePolicy) -> Option<BTreeSet<ClassId>> {
    let [before, after] = [old, new].map(|policy| policy.filters.iter().copied().collect::<HashSet<_>>());
    let common = |policy: &InterfacePolicy, other: &HashSet<Filter>| {
        let common = policy.filters.iter().filter(|filter| other.contains(filter));
        common.copied().collect::<Vec<_>>()
    };
    // Their order decides between equally specific ones.
    if common(old, &after) != common(new, &before) {
        return None;
    }
    let gone = before.difference(&after).map(|filter| filter.class);
    let mut found: BTreeSet<ClassId> = gone.collect();
    let added: Vec<&Filter> = after.difference(&before).collect();
    if added.len().saturating_mul(old.filters.len()) > COMPARED {
        return None;
    }
    for filter in &added {
        let loses = |other: &&Filter| other.class != filter.class && other.meets(filter);
        found.extend(old.filters.iter().filter(loses).map(|other| other.class));
    }
    if !added.is_empty() || old.plan.default != new.plan.default {
        found.extend(old.plan.default);
    }
    Some(found)
}

fn has_classes(spec: &DisciplineSpec) -> bool {
    !spec.classes.is_empty() || spec.child.as_deref().is_some_and(has_classes)
}

/// Whether two queues are of the same kinds.
fn same_kinds(old: Option<&DisciplineSpec>, new: Option<&DisciplineSpec>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => {
            old.kind == new.kind
                && old.classes.len() == new.classes.len()
                && same_kinds(old.child.as_deref(), new.child.as_deref())
        }
        (None, None) => true,
        _ => false,
    }
}

/// Whether two queues of the same kinds have the same settings.
fn same_queue(old: Option<&DisciplineSpec>, new: Option<&DisciplineSpec>) -> bool {
    old.zip(new).is_none_or(|(old, new)| old.says_as(new))
}
