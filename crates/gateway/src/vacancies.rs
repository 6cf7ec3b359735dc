//! Places for classes that may come: a running tree has some more leaves than its policy, so that a
//! class can be added to it, and another removed, without a look at the others.
//!
//! Below each class with child classes, and at the top, there is a place for every sixteenth leaf,
//! and a few at least. A class that comes takes one, and a class that goes leaves one. When none is
//! left where it is needed, the tree is built anew, with new places.

use crate::whole_tree::{MANY, WholeTree};
use control::filter_list::FilterList;
use control::meetings::Meetings;
use control::policy::InterfacePolicy;
use engine::classify::Filter;
use engine::packet::ClassId;
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// One place for so many leaves.
const SHARE: usize = 16;
/// So many at the top, and below another class, at least.
const LEAST: usize = 8;
/// Where there are more classes with child classes than this, fewer below each.
const PARENTS: usize = 64;
const FEWER: usize = 2;

/// The same tree with places, if its kind can have them.
pub(crate) fn with_places(spec: &DisciplineSpec, registry: &Registry) -> Option<DisciplineSpec> {
    let kind = registry.find(&spec.kind)?;
    if !kind.properties.vacancies {
        return None;
    }
    let mut children: HashMap<Option<&str>, usize> = HashMap::new();
    let spec = without_places(spec);
    for class in &spec.classes {
        *children.entry(class.parent_name()).or_default() += 1;
    }
    children.entry(None).or_default();
    // In an order that does not depend on hashes.
    let parents = spec.classes.iter().map(|class| Some(class.name.as_str()));
    let parents: Vec<_> = std::iter::once(None).chain(parents).collect();
    let mut whole = DisciplineSpec::clone(&spec);
    for parent in parents {
        let Some(count) = children.get(&parent) else {
            continue;
        };
        let least = match parent {
            Some(_) if children.len() > PARENTS => FEWER,
            _ => LEAST,
        };
        for _ in 0..least.max(count / SHARE) {
            whole.classes.push(ClassSpec::place(whole.classes.len(), parent));
        }
    }
    Some(whole)
}

/// The same tree without places.
fn without_places(spec: &DisciplineSpec) -> Cow<'_, DisciplineSpec> {
    let classes = || spec.classes.iter().filter(|class| !class.vacant);
    if classes().count() == spec.classes.len() {
        return Cow::Borrowed(spec);
    }
    Cow::Owned(DisciplineSpec {
        classes: classes().cloned().collect(),
        kind: spec.kind.clone(),
        at: spec.at,
        settings: spec.settings.clone(),
        child: spec.child.clone(),
    })
}

/// A policy as its text has it: one that runs without its places.
pub(crate) fn as_written(policy: &InterfacePolicy, registry: &Registry) -> InterfacePolicy {
    match without_places(&policy.spec) {
        Cow::Owned(spec) => with_tree(policy, spec, registry).unwrap_or_else(|| policy.clone()),
        Cow::Borrowed(_) => policy.clone(),
    }
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

/// Places below each class, and at the top.
type Places<'a> = HashMap<Option<&'a str>, Vec<usize>>;

/// Why there is no place for a class: none is left, or its parent has had no child classes.
fn lacking(running: &DisciplineSpec, class: &ClassSpec) -> WholeTree {
    let Some(parent) = class.parent_name() else {
        return WholeTree::NoPlace(None);
    };
    let mut all = running.classes.iter().filter(|one| !one.vacant);
    let has_children = running
        .classes
        .iter()
        .any(|one| one.parent_name() == Some(parent));
    match (all.any(|one| one.name == parent), has_children) {
        (false, _) => WholeTree::NewParent(parent.into()),
        (true, false) => WholeTree::FirstChild(parent.into()),
        (true, true) => WholeTree::NoPlace(Some(parent.into())),
    }
}

/// Fits the classes of a tree into the places of the running one.
///
/// # Errors
///
/// If there are not enough, or more than leaves differ.
pub(crate) fn fit(running: &DisciplineSpec, wanted: &DisciplineSpec) -> Result<Fitted, WholeTree> {
    if running.kind != wanted.kind {
        return Err(WholeTree::OtherDiscipline);
    }
    if running.child.is_some() || wanted.child.is_some() {
        return Err(WholeTree::OneInside);
    }
    let lost = || WholeTree::OtherParents;
    let mut coming: HashMap<&str, &ClassSpec> = HashMap::with_capacity(wanted.classes.len());
    for class in wanted.classes.iter().filter(|class| !class.vacant) {
        coming.insert(&class.name, class);
    }
    let (mut spec, mut renewed, mut requeued) = (running.clone(), Vec::new(), Vec::new());
    (spec.at, spec.settings) = (wanted.at, wanted.settings.clone());
    let (mut vacant, mut left): (Places<'_>, Places<'_>) = Default::default();
    for (number, old) in running.classes.iter().enumerate() {
        if old.vacant {
            vacant.entry(old.parent_name()).or_default().push(number);
            continue;
        }
        let staying = coming.get(old.name.as_str()).copied();
        let Some(new) = staying.filter(|new| new.parent_name() == old.parent_name()) else {
            renewed.push(number);
            left.entry(old.parent_name()).or_default().push(number);
            *spec.classes.get_mut(number).ok_or_else(lost)? = ClassSpec::place(number, old.parent_name());
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
            *spec.classes.get_mut(number).ok_or_else(lost)? = new.clone();
        }
    }
    // From the first place on; and in the policy's order. Packets of a class that comes into a
    // place that another leaves wait for that one's to be queued anew: when no other is free.
    let each = vacant.values_mut().chain(left.values_mut());
    each.for_each(|places| places.reverse());
    for class in wanted
        .classes
        .iter()
        .filter(|class| coming.contains_key(class.name.as_str()))
    {
        let parent = class.parent_name();
        let free = vacant.get_mut(&parent).and_then(Vec::pop);
        renewed.extend(free);
        let place = free.or_else(|| left.get_mut(&parent).and_then(Vec::pop));
        let number = place.ok_or_else(|| lacking(running, class))?;
        *spec.classes.get_mut(number).ok_or_else(lost)? = class.clone();
    }
    // A class with child classes has no queue that could be exchanged, nor has a class with a
    // discipline of classes in it the number of one that has none.
    let is_plain = |number: &usize| {
        let inner = |spec: &ClassSpec| spec.discipline.as_ref().is_some_and(DisciplineSpec::has_classes);
        !inner(&spec.classes[*number]) && !inner(&running.classes[*number])
    };
    let mut others = renewed.iter().chain(&requeued);
    if let Some(&number) = others.find(|number| !is_plain(number)) {
        let now = &spec.classes[number];
        let class = if now.vacant { &running.classes[number] } else { now };
        return Err(WholeTree::ClassesInside(class.name.as_str().into()));
    }
    Ok(Fitted {
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
    let plan = spec.check(registry, policy.link()).ok()?.sharing(&policy.plan);
    let number = |filter: &Filter| {
        let class = plan.class(&policy.plan.info(filter.class)?.name)?;
        Some(Filter { class, ..*filter })
    };
    let mut all = policy.filters.iter();
    let same = policy.filters.is_gapless() && all.all(|filter| number(filter) == Some(*filter));
    let filters = match same {
        true => Arc::clone(&policy.filters),
        false => {
            let filters: Option<Vec<Filter>> = policy.filters.iter().map(number).collect();
            Arc::new(filters?.into())
        }
    };
    Some(InterfacePolicy {
        spec: Arc::new(spec),
        filters,
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

/// Pairs of filters that are compared at most to find out what new ones take away, beside the
/// packet loop: a few seconds. Filters that differ in what they both state are not.
const COMPARED: usize = 200_000_000;

/// The classes of whose packets other filters may give some to another class; `None` if it cannot
/// be told of single ones. All numbers are those of one tree.
pub(crate) fn affected(old: &InterfacePolicy, new: &InterfacePolicy) -> Option<BTreeSet<ClassId>> {
    let [before, after] = [old, new].map(|policy| policy.filters.iter().copied().collect::<HashSet<_>>());
    let common = |policy: &InterfacePolicy, other: &HashSet<Filter>| {
        let common = policy.filters.iter().filter(|filter| other.contains(filter));
        common.copied().collect::<Vec<_>>()
    };
    let gone = before.difference(&after).map(|filter| filter.class);
    let mut found: BTreeSet<ClassId> = gone.collect();
    let added: Vec<&Filter> = after.difference(&before).collect();
    // Their order decides between equally specific ones.
    let (was, is) = (common(old, &after), common(new, &before));
    let moved = out_of_order(&was, &is);
    if !added.is_empty() || !moved.is_empty() {
        found.extend(moved.iter().map(|filter| filter.class));
        let takers = added.iter().copied().chain(&moved);
        found.append(&mut losing_to(&old.filters, takers)?);
    }
    if !added.is_empty() || old.plan.default != new.plan.default {
        found.extend(old.plan.default);
    }
    Some(found)
}

/// The classes of whose packets any of these may take some; `None` if there is too much to compare.
/// Where they are more than change at once, not all.
fn losing_to<'a>(
    filters: &'a FilterList,
    takers: impl Iterator<Item = &'a Filter>,
) -> Option<BTreeSet<ClassId>> {
    let meetings = Meetings::of(filters.iter());
    let (mut found, mut left) = (BTreeSet::new(), COMPARED);
    for taker in takers {
        let mut each = |other: &Filter| {
            if other.class != taker.class {
                found.insert(other.class);
            }
            match found.len() > MANY {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        if meetings.with(taker, &mut left, &mut each).is_break() {
            return (found.len() > MANY).then_some(found);
        }
    }
    Some(found)
}

/// What may stand in another order in one of two lists of the same filters: what is left without
/// that with which both begin and end.
fn out_of_order(was: &[Filter], is: &[Filter]) -> HashSet<Filter> {
    fn alike<'a>(was: impl Iterator<Item = &'a Filter>, is: impl Iterator<Item = &'a Filter>) -> usize {
        was.zip(is).take_while(|(was, is)| was == is).count()
    }
    let begin = alike(was.iter(), is.iter());
    let (was, is) = (&was[begin..], &is[begin..]);
    let end = alike(was.iter().rev(), is.iter().rev());
    let middle = |list: &[Filter]| list[..list.len() - end].to_vec();
    middle(was).into_iter().chain(middle(is)).collect()
}

/// The classes of whose packets a filter of another class may take some.
pub(crate) fn losing<'a>(filters: &'a FilterList, filter: &'a Filter) -> impl Iterator<Item = ClassId> + 'a {
    let met = filters.meeting(filter).map(|other| other.class);
    met.filter(|class| *class != filter.class)
}

/// All classes of a queue, those in the queues of its classes included.
pub(crate) fn classes_in(queue: &DisciplineSpec) -> usize {
    let child = queue.child.as_deref().map_or(0, classes_in);
    let inside = queue.classes.iter().filter_map(|class| class.discipline.as_ref());
    queue.classes.len() + child + inside.map(classes_in).sum::<usize>()
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

#[cfg(test)]
mod tests {
    use super::*;
    use control::policy::Policy;

    /// A policy whose class `b` has this discipline, with a filter for each class that takes
    /// packets.
    fn policy(below: &str, filters: &[&str]) -> InterfacePolicy {
        let mut text = format!(
            "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"drr\"\n\
             [[interface.wan0.class]]\nname = \"a\"\ndefault = true\n\
             [[interface.wan0.class]]\nname = \"b\"\ndiscipline = {below}\n"
        );
        for (number, class) in filters.iter().enumerate() {
            text += &format!(
                "[[interface.wan0.filter]]\nclass = \"{class}\"\ndestination = \"10.0.0.{number}\"\n"
            );
        }
        let read = Policy::read("test", &text, &Registry::builtin(), &[]);
        let policy = read.unwrap_or_else(|mistakes| panic!("{text}{}", mistakes.render(false)));
        policy.interfaces[0].clone()
    }

    fn taken_by(policy: &InterfacePolicy) -> Vec<&str> {
        let class = |filter: &Filter| policy.plan.info(filter.class).map(|info| info.name.as_str());
        policy.filters.iter().filter_map(class).collect()
    }

    #[test]
    fn filters_are_copied_only_where_places_give_their_classes_other_numbers() {
        let plain = policy("\"fifo\"", &["a", "b"]);
        let whole = laid_out(&plain, &Registry::builtin());
        assert!(whole.plan.classes.len() > plain.plan.classes.len());
        assert!(Arc::ptr_eq(&plain.filters, &whole.filters));
        let nested = policy(
            "{ kind = \"drr\", class = [{ name = \"c\", default = true }] }",
            &["a", "c"],
        );
        let whole = laid_out(&nested, &Registry::builtin());
        assert!(!Arc::ptr_eq(&nested.filters, &whole.filters));
        assert_eq!(
            (taken_by(&nested), taken_by(&whole)),
            (vec!["a", "c"], vec!["a", "c"])
        );
    }
}
