//! Why a change concerns the whole tree and not single classes, and which classes that stay begin
//! anew by a change.
//!
//! Both are said by what decides and does the change (`in_force`, `vacancies`, the worker), and of
//! a `plan` by the same code in a rehearsal.

use control::begins_anew::{ClassesAnew, Forgotten};
use control::policy::InterfacePolicy;
use engine::packet::ClassId;
use engine::tree::TreePlan;
use netio::handle::{Becomes, ClassChanges, CutClass, Declined};
use std::fmt;

/// Classes that lose packets to another, which is changed alone, at most: what arrives waits until
/// all of them have other queues. So many are in the queue of a class that changes with them.
pub(crate) const FEW: usize = 256;
/// Classes that come, go or lose packets to others in one change by the class at most: it has an
/// answer within seconds.
pub(crate) const MANY: usize = 8_192;

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
) -> Vec<ClassesAnew> {
    let [before, after] = [running, whole].map(|policy| &policy.plan);
    let stays = |class: &ClassId| {
        let info = after.info(*class);
        info.is_some_and(|info| !info.vacant && before.class(&info.name).is_some())
    };
    let classes = all(after).filter(stays).collect::<Vec<_>>();
    let is_one_queue = before.classes.is_empty() && after.classes.is_empty();
    // It hands over what each class is ahead or late by.
    let paced = [before, after]
        .iter()
        .all(|plan| plan.root.plan.pacing().is_some());
    let what = if paced { Forgotten::Queue } else { Forgotten::Class };
    match classes.is_empty() && !is_one_queue {
        true => Vec::new(),
        false => vec![account(whole, &classes, what, why.to_string())],
    }
}

/// The classes that begin anew where these are changed by themselves.
pub(crate) fn of_single_classes(
    running: &TreePlan,
    whole: &InterfacePolicy,
    changes: &ClassChanges,
) -> Vec<ClassesAnew> {
    let cut = |becomes: fn(Becomes) -> bool| {
        let cut = changes
            .cut
            .iter()
            .filter(move |cut: &&CutClass| becomes(cut.becomes));
        cut.map(|cut| cut.class).collect::<Vec<_>>()
    };
    let moved = changes.come.iter().map(|come| come.class).filter(|class| {
        let info = whole.plan.info(*class);
        info.is_some_and(|info| running.class(&info.name).is_some())
    });
    let parts = [
        (moved.collect(), Forgotten::Class, "another class above"),
        (
            cut(|becomes| matches!(becomes, Becomes::Another(_))),
            Forgotten::Class,
            "another discipline for its packets",
        ),
        (
            cut(|becomes| becomes == Becomes::Itself),
            Forgotten::Queue,
            "filters may give packets of these to other classes",
        ),
    ];
    let concerned = parts.into_iter().filter(|(classes, ..)| !classes.is_empty());
    concerned
        .map(|(classes, what, why): (Vec<ClassId>, _, _)| account(whole, &classes, what, why.into()))
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
