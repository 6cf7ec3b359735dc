//! Why a change concerns the whole tree and not single classes, and which classes that stay begin
//! anew by a change.
//!
//! Both are said by what decides and does the change (`in_force`, `vacancies`, the worker), and of
//! a `plan` by the same code in a rehearsal.

use control::begins_anew::{ClassesAnew, Forgotten};
use control::policy::InterfacePolicy;
use engine::packet::ClassId;
use engine::shaped_queue::HEIRS;
use engine::tree::{ClassSpec, ClassSpecs, DisciplineSpec, Registry, TreePlan};
use netio::handle::{Becomes, ClassChanges, CutClass, Declined};
use std::collections::HashMap;
use std::fmt;

/// Classes that lose packets to another, which is changed alone, at most: what arrives waits until
/// all of them have other queues. So many are in the queue of a class that changes with them.
pub(crate) const FEW: usize = 256;
/// Classes that come, go or lose packets to others in one change by the class at most: it has an
/// answer within seconds.
pub(crate) const MANY: usize = 32_768;

/// Why a change is not done by the class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum WholeTree {
    /// The outermost discipline is of another kind.
    OtherDiscipline,
    /// The outermost discipline has one inside.
    OneInside,
    /// A class with child classes comes or goes, or is another's child.
    OtherParents,
    /// There is no place left at the top, or below this class.
    NoPlace(Option<String>),
    /// This class has child classes and is new.
    NewParent(String),
    /// This class has had none.
    FirstChild(String),
    /// A class that comes or goes, or whose queue changes, has classes in its queue.
    ClassesInside(String),
    /// A class has so many in its queue that they do not change at once.
    Crowded(String),
    /// So many come, go or lose packets.
    TooMany(usize),
    /// There are too many filters to tell what new ones take away.
    Filters,
    /// Settings that decide for all classes, or of one with child classes.
    AsAWhole,
    /// The worker does not.
    Declined(Declined),
}

impl fmt::Display for WholeTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherDiscipline => f.write_str("the discipline is another one"),
            Self::OneInside => f.write_str("the outermost discipline has another one inside"),
            Self::OtherParents => {
                f.write_str("a class with child classes comes or goes, or is below another one")
            }
            Self::NoPlace(None) => f.write_str("more classes come at the top than there are places for"),
            Self::NoPlace(Some(parent)) => {
                write!(
                    f,
                    "more classes come below class {parent} than there are places for"
                )
            }
            Self::NewParent(name) => write!(f, "class {name} is new and has child classes"),
            Self::FirstChild(name) => write!(f, "class {name} gets its first child class"),
            Self::ClassesInside(name) => write!(
                f,
                "class {name}, which comes, goes or has another queue, has classes in its queue"
            ),
            Self::Crowded(name) => {
                write!(
                    f,
                    "class {name} changes with more than {FEW} classes in its queue"
                )
            }
            Self::TooMany(count) => write!(
                f,
                "{count} classes come, go or lose packets to others at once, and {MANY} may"
            ),
            Self::Filters => {
                f.write_str("too many filters are new to tell from which classes they take packets")
            }
            Self::AsAWhole => f.write_str("a setting differs that concerns the tree as a whole"),
            Self::Declined(Declined::Taped) => {
                f.write_str("what passes is recorded, or a shadow runs beside it")
            }
            Self::Declined(Declined::Filters) => f.write_str("the filters are not changed in place"),
            Self::Declined(Declined::Discipline) => {
                f.write_str("a discipline does not adopt its new settings while it runs")
            }
        }
    }
}

/// The classes that have begun anew where this has built the tree anew.
pub(crate) fn of_new_tree(
    running: &InterfacePolicy,
    whole: &InterfacePolicy,
    why: &WholeTree,
    registry: &Registry,
) -> Vec<ClassesAnew> {
    let [before, after] = [running, whole].map(|policy| &policy.plan);
    let stays = |class: &ClassId| {
        let info = after.info(*class);
        info.is_some_and(|info| !info.vacant && before.class(&info.name).is_some())
    };
    let classes = all(after).filter(stays).collect::<Vec<_>>();
    let is_one_queue = before.classes.is_empty() && after.classes.is_empty();
    if is_one_queue {
        return vec![account(whole, &classes, Forgotten::Class, why.to_string())];
    }
    // What passes one by one takes too long of more.
    let few = before.classes.len() <= HEIRS;
    let heirs = Heirs::of([running, whole], registry);
    let what = |class: &ClassId| {
        let keeps_turns = heirs.are_paced || few && heirs.keep_turns(*class);
        let keeps_queue = few && heirs.keep_queue(*class);
        match (keeps_turns, keeps_queue) {
            (false, false) => Some(Forgotten::Class),
            (false, true) => Some(Forgotten::Turns),
            (true, false) => Some(Forgotten::Queue),
            (true, true) => None,
        }
    };
    let parts = [Forgotten::Class, Forgotten::Turns, Forgotten::Queue].map(|part| {
        let of_part = |class: &ClassId| what(class) == Some(part);
        (classes.iter().copied().filter(of_part).collect::<Vec<_>>(), part)
    });
    let concerned = parts.into_iter().filter(|(classes, _)| !classes.is_empty());
    concerned
        .map(|(classes, what)| account(whole, &classes, what, why.to_string()))
        .collect()
}

/// The classes of a new tree, for what they take over from those of the former one.
struct Heirs<'a> {
    plans: [&'a TreePlan; 2],
    specs: [ClassSpecs<'a>; 2],
    /// The kind of the discipline that each class is one of.
    kinds: [HashMap<&'a str, &'a str>; 2],
    /// Each class hands over what it is ahead or late by.
    are_paced: bool,
    registry: &'a Registry,
}

impl<'a> Heirs<'a> {
    fn of(policies: [&'a InterfacePolicy; 2], registry: &'a Registry) -> Self {
        let plans = policies.map(|policy| &policy.plan);
        Self {
            specs: policies.map(|policy| policy.spec.class_specs()),
            kinds: policies.map(|policy| {
                let mut kinds = HashMap::new();
                note_kinds(&policy.spec, &mut kinds);
                kinds
            }),
            are_paced: plans.iter().all(|plan| plan.root.plan.pacing().is_some()),
            plans,
            registry,
        }
    }

    /// Whether a class that is in both trees goes on as far ahead of its share or behind it: as one
    /// of a discipline of the same kind.
    fn keep_turns(&self, class: ClassId) -> bool {
        let Some(info) = self.plans[1].info(class) else {
            return false;
        };
        let [was, is] = [0, 1].map(|tree| self.kinds[tree].get(info.name.as_str()));
        was == is && is.is_some_and(|kind| keeps_turns(kind, self.registry))
    }

    /// Whether its queue, if it is a leaf, goes on where its former one leaves off.
    fn keep_queue(&self, class: ClassId) -> bool {
        let [before, after] = self.plans;
        let Some(info) = after.info(class) else {
            return false;
        };
        let spec = |tree: usize, number: ClassId| self.specs[tree].find(number.0 as usize, &info.name);
        let both = before
            .class(&info.name)
            .and_then(|was| spec(0, was).zip(spec(1, class)));
        !info.leaf
            || both.is_some_and(|(was, is)| match (&was.discipline, &is.discipline) {
                (Some(was), Some(is)) => goes_on(was, is, self.registry),
                // Both are plain.
                (was, is) => was.is_none() && is.is_none(),
            })
    }
}

/// The kind of the discipline of each class of this one, and of those inside.
fn note_kinds<'a>(spec: &'a DisciplineSpec, kinds: &mut HashMap<&'a str, &'a str>) {
    for class in &spec.classes {
        kinds.insert(class.name.as_str(), &spec.kind);
        class
            .discipline
            .iter()
            .for_each(|inside| note_kinds(inside, kinds));
    }
    spec.child.iter().for_each(|child| note_kinds(child, kinds));
}

fn keeps_turns(kind: &str, registry: &Registry) -> bool {
    let kind = registry.find(kind);
    kind.is_some_and(|kind| kind.properties.keeps_turns)
}

/// Whether a queue goes on where another leaves off: what one with classes inside knows is theirs.
fn goes_on(was: &DisciplineSpec, is: &DisciplineSpec, registry: &Registry) -> bool {
    if was.kind != is.kind {
        return false;
    }
    if !is.classes.is_empty() {
        return keeps_turns(&is.kind, registry);
    }
    let kind = registry.find(&is.kind);
    let takes_over = kind.is_some_and(|kind| kind.properties.takes_over);
    let below = match (&was.child, &is.child) {
        (Some(was), Some(is)) => goes_on(was, is, registry),
        (was, is) => was.is_none() && is.is_none(),
    };
    takes_over && was.settings.says_as(&is.settings) && below
}

/// Whether the queue of a class that is changed by itself goes on where its former one leaves off.
fn takes_over(was: &ClassSpec, is: &ClassSpec, registry: &Registry) -> bool {
    fn all(spec: &DisciplineSpec, registry: &Registry) -> bool {
        let kind = registry.find(&spec.kind);
        kind.is_some_and(|kind| kind.properties.takes_over)
            && spec.child.as_deref().is_none_or(|child| all(child, registry))
    }
    match (&was.discipline, &is.discipline) {
        (Some(was), Some(is)) => was.says_as(is) && all(is, registry),
        // Both are plain.
        (was, is) => was.is_none() && is.is_none(),
    }
}

/// The classes that begin anew where these are changed by themselves.
pub(crate) fn of_single_classes(
    running: &InterfacePolicy,
    whole: &InterfacePolicy,
    changes: &ClassChanges,
    registry: &Registry,
) -> Vec<ClassesAnew> {
    let another = |cut: &&CutClass| matches!(cut.becomes, Becomes::Another(_));
    let places = changes.come.iter().map(|come| come.class);
    let places = places.chain(changes.cut.iter().filter(another).map(|cut| cut.class));
    let former = |class: ClassId| running.plan.class(&whole.plan.info(class)?.name);
    let staying = places.filter_map(|class| Some((class, former(class)?)));
    let (requeued, moved): (Vec<_>, Vec<_>) = staying.partition(|(class, former)| class == former);
    let numbers = |list: Vec<(ClassId, ClassId)>| list.into_iter().map(|(class, _)| class).collect();
    fn spec(policy: &InterfacePolicy, class: ClassId) -> Option<&ClassSpec> {
        policy.spec.classes.get(class.0 as usize)
    }
    // One in whose queue there are classes may be meant by any of theirs.
    let goes_on = |class: ClassId| {
        let both = spec(running, class).zip(spec(whole, class));
        both.is_some_and(|(was, is)| takes_over(was, is, registry))
    };
    let itself = changes
        .cut
        .iter()
        .filter(|cut| cut.becomes == Becomes::Itself && !goes_on(cut.class));
    let parts = [
        (numbers(moved), Forgotten::Class, "another class above"),
        (
            numbers(requeued),
            Forgotten::Class,
            "another discipline for its packets",
        ),
        (
            itself.map(|cut| cut.class).collect(),
            Forgotten::Queue,
            "filters may give packets of these to other classes, and their queues cannot go on where others leave off",
        ),
    ];
    let concerned = parts
        .into_iter()
        .filter(|(classes, ..): &(Vec<ClassId>, _, _)| !classes.is_empty());
    concerned
        .map(|(classes, what, why)| account(whole, &classes, what, why.into()))
        .collect()
}

fn account(whole: &InterfacePolicy, classes: &[ClassId], what: Forgotten, why: String) -> ClassesAnew {
    let name = |class: &ClassId| Some(whole.plan.info(*class)?.name.as_str().to_owned());
    let plan = &whole.plan;
    ClassesAnew {
        interface: whole.name.clone(),
        classes: classes.iter().filter_map(name).collect(),
        of: (plan.classes.len() - plan.vacant()) as u64,
        what,
        why,
    }
}

fn all(plan: &TreePlan) -> impl Iterator<Item = ClassId> {
    (0..u32::try_from(plan.classes.len()).unwrap_or(u32::MAX)).map(ClassId)
}
