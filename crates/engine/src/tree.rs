//! The tree of disciplines and classes: from a specification to a checked plan.
//!
//! Everything is checked before anything is built: a wrong tree reports all its problems and
//! changes nothing. A [`TreePlan`] can be built any number of times, in the simulator, the lab, or
//! on a link.
//!
//! ```
//! use engine::link::Link;
//! use engine::random::Seed;
//! use engine::settings::Table;
//! use engine::tree::{ClassSpec, DisciplineSpec, Registry};
//! use engine::units::{Bandwidth, Bytes};
//!
//! let class = |name: &str, priority: &str| ClassSpec {
//!     name: name.into(),
//!     default: name == "bulk",
//!     settings: Table::default().text("rate", "4 Mbit/s").text("priority", priority),
//!     ..ClassSpec::default()
//! };
//! let mut spec = DisciplineSpec::new("cbq");
//! spec.classes.extend([class("voice", "5"), class("bulk", "1")]);
//!
//! let link = Link::new(Bandwidth::mbit(10), Bytes::new(1514));
//! let problems = spec.check(&Registry::builtin(), link).expect_err("a priority is a number");
//! assert_eq!(problems.len(), 2);
//!
//! for class in &mut spec.classes {
//!     class.settings = Table::default().text("rate", "4 Mbit/s");
//! }
//! let plan = spec.check(&Registry::builtin(), link).expect("8 of 10 Mbit/s");
//! assert_eq!(plan.class("bulk"), plan.default);
//! assert!(plan.build(Seed(1)).is_empty());
//! ```

use crate::bounds::{ArrivalCurve, Terms, WorstCase};
pub use crate::class_name::ClassName;
use crate::discipline::{Build, BuiltQueue, ChangedClass, Plan, RenewedLeaf, Shares};
use crate::disciplines::{PLAIN_LEAF, fifo};
use crate::inspect::View;
use crate::kind::{Check, CheckedClass, Children, Kind, QueuePlan};
use crate::link::Link;
use crate::packet::ClassId;
use crate::queue::{Queue, Stats};
use crate::random::Seed;
use crate::settings::{Problem, Span, Table, unknown};
pub use crate::spec::{ArrivalCurveSpec, ClassSpec, ClassSpecs, DisciplineSpec, ParentSpec};
use crate::structures::shared_list::SharedList;
use crate::units::Bytes;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The kinds that policies may name.
#[derive(Clone, Debug)]
pub struct Registry {
    kinds: Vec<&'static Kind>,
}

impl Registry {
    /// Every kind of this crate.
    pub fn builtin() -> Self {
        Self {
            kinds: crate::disciplines::KINDS.to_vec(),
        }
    }

    /// The same with one more kind, which lives outside this crate.
    #[must_use]
    pub fn with(mut self, kind: &'static Kind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// All kinds.
    pub fn kinds(&self) -> impl Iterator<Item = &'static Kind> + '_ {
        self.kinds.iter().copied()
    }

    /// The kind of this name.
    pub fn find(&self, name: &str) -> Option<&'static Kind> {
        self.kinds().find(|kind| kind.name == name)
    }
}

/// A class of a checked tree.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassInfo {
    /// Its name, the text of which is the specification's.
    pub name: ClassName,
    /// Its parent: of its own discipline, or the class whose queue holds its discipline.
    pub parent: Option<ClassId>,
    /// Whether packets can be put into it.
    pub leaf: bool,
    /// The arrival curve of its senders, if stated.
    pub arrivals: Option<ArrivalCurve>,
    /// Whether it is only a [place](ClassSpec::vacant) for one.
    pub vacant: bool,
}

/// A checked tree.
#[derive(Clone, Debug)]
pub struct TreePlan {
    /// The outermost discipline.
    pub root: QueuePlan,
    /// The classes; a [`ClassId`] is an index into it.
    pub classes: Arc<SharedList<ClassInfo>>,
    /// The class of packets that no filter takes, below whatever wrappers; none if the tree has no
    /// classes. Whoever classifies packets asks [`TreePlan::class_of`].
    pub default: Option<ClassId>,
    /// The link that it was checked for.
    pub link: Link,
    /// What is legal and may surprise.
    pub notices: Arc<[Problem]>,
    /// The numbers of the classes, in the order of their names.
    by_name: Arc<[u32]>,
    /// How many classes state what their senders send.
    stating: usize,
}

impl TreePlan {
    /// Makes the queue. Its randomness follows from the seed and the names in the tree.
    pub fn build(&self, seed: Seed) -> Queue {
        self.root.build(&Build::new(seed))
    }

    /// The plan of a tree in which this class of the outermost discipline has other settings than
    /// in this plan's; what [`DisciplineSpec::check`] makes of it, in a time that hardly grows with
    /// the number of classes. `None` if only that check can tell.
    pub fn amended(&self, spec: &DisciplineSpec, class: ClassId) -> Option<Self> {
        let changed = spec.classes.get(class.0 as usize)?;
        let same = self.info(class)?.name == changed.name;
        let root = self.amended_root(spec, changed, class, None).filter(|_| same)?;
        Some(Self { root, ..self.clone() })
    }

    /// The plan of a tree in which a leaf of the outermost discipline, or a
    /// [place](ClassSpec::vacant) for one, is another class, or a place again; what
    /// [`DisciplineSpec::check`] makes of it. Beside the new class, only the order of the names is
    /// copied. `None` if only that check can tell, or it would report anything.
    pub fn renewed(&self, spec: &DisciplineSpec, class: ClassId, registry: &Registry) -> Option<Self> {
        let new = spec.classes.get(class.0 as usize)?;
        let old = self.info(class)?;
        let parent = old.parent.and_then(|parent| self.info(parent));
        let stays = parent.map(|parent| parent.name.as_str()) == new.parent_name();
        let own = self.class(&new.name);
        let properties = self.root.kind.properties;
        // Another default class changes where packets of other classes go.
        let plain = stays && old.leaf && !new.default && self.default != Some(class);
        if !plain || own.is_some_and(|own| own != class) || properties.guarantees_delays {
            return None;
        }
        let queue = Checker::new(registry, self.link).queue_of(new, class)?;
        let renewed = RenewedLeaf {
            name: &new.name,
            vacant: new.vacant,
            queue: &queue,
        };
        let root = self.amended_root(spec, new, class, Some(renewed))?;
        let mut classes = SharedList::clone(&self.classes);
        *classes.get_mut(class.0 as usize)? = ClassInfo {
            name: new.name.clone(),
            arrivals: new.sends.map(|sends| sends.on(self.link.bandwidth)),
            vacant: new.vacant,
            ..old.clone()
        };
        let states = |class: &ClassInfo| usize::from(class.arrivals.is_some());
        let stating = self.stating - states(old) + states(&classes[class.0 as usize]);
        let mut by_name = self.by_name.to_vec();
        let place = |numbers: &[u32], name: &str| {
            numbers.binary_search_by(|number| self.classes[*number as usize].name.as_str().cmp(name))
        };
        by_name.remove(place(&by_name, &old.name).ok()?);
        by_name.insert(place(&by_name, &new.name).err()?, class.0);
        Some(Self {
            root,
            classes: Arc::new(classes),
            by_name: by_name.into(),
            stating,
            ..self.clone()
        })
    }

    /// The outermost discipline's plan with other settings for a class of its own, which may be
    /// another class then.
    fn amended_root(
        &self,
        spec: &DisciplineSpec,
        changed: &ClassSpec,
        class: ClassId,
        renewed: Option<RenewedLeaf<'_>>,
    ) -> Option<QueuePlan> {
        let QueuePlan { kind, plan } = &self.root;
        // Classes of the outermost discipline are the first, in the order of their declaration.
        let is_outermost = matches!(kind.children, Children::Classes { .. }) && kind.name == spec.kind;
        if !is_outermost || !self.notices.is_empty() {
            return None;
        }
        let plan = plan.amended(&ChangedClass {
            class,
            settings: &changed.settings,
            of_discipline: &spec.settings,
            link: self.link,
            renewed,
        })?;
        Some(QueuePlan { kind, plan })
    }

    /// A place for a leaf below this class, or at the top; in a time that grows with the number of
    /// places alone.
    pub fn place_below(&self, parent: Option<ClassId>) -> Option<ClassId> {
        // Their names are before all others.
        let vacant = self
            .by_name
            .iter()
            .map(|&number| (number, &self.classes[number as usize]));
        let mut vacant = vacant.take_while(|(_, info)| info.vacant);
        vacant
            .find(|(_, info)| info.parent == parent)
            .map(|(number, _)| ClassId(number))
    }

    /// How many classes are only places; in a time that grows with these alone.
    pub fn vacant(&self) -> usize {
        // Their names are before all others.
        let all = self.by_name.iter().map(|&number| &self.classes[number as usize]);
        all.take_while(|info| info.vacant).count()
    }

    /// The classes of the outermost discipline that have other settings than in a former plan, or
    /// follow from another link, beside those in `renewed`, which are other classes now. `None` if
    /// anything else differs, or that cannot be told: then a queue adopts the plan as a whole.
    pub fn changed_classes(&self, former: &Self, renewed: &[ClassId]) -> Option<Vec<ClassId>> {
        let renewed: HashSet<ClassId> = renewed.iter().copied().collect();
        let same = |index: usize| {
            let (new, old) = (&self.classes[index], &former.classes[index]);
            let other = || renewed.contains(&class_id(index));
            (new.leaf, new.parent) == (old.leaf, old.parent) && (new.name == old.name || other())
        };
        let alike = self.root.kind.name == former.root.kind.name
            && self.classes.len() == former.classes.len()
            && (0..self.classes.len()).all(same);
        if !alike {
            return None;
        }
        let queues = self.link != former.link;
        let mut changed = self.root.plan.changed_classes(&*former.root.plan, queues)?;
        changed.retain(|class| !renewed.contains(class));
        Some(changed)
    }

    /// Makes the discipline of the queue of a class of the outermost discipline, as
    /// [`TreePlan::build`] would; none if its kind does not exchange queues.
    pub fn build_class(&self, class: ClassId, seed: Seed) -> Option<BuiltQueue> {
        self.root.plan.build_class(class, &Build::new(seed))
    }

    /// The class of a packet, of the filter that takes it, if one does. The only place that decides
    /// where the others go: into the default class; in a tree without classes all have one number,
    /// which nothing reads.
    #[inline]
    pub fn class_of(&self, filter: Option<ClassId>) -> ClassId {
        filter.or(self.default).unwrap_or(ClassId(0))
    }

    /// Whether the other plan may be one that was [amended](Self::amended) from this: its classes
    /// are the very same.
    pub fn is_amended_by(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.classes, &other.classes)
    }

    /// The same, which holds what it has of classes in common with another plan only once.
    #[must_use]
    pub fn sharing(self, other: &Self) -> Self {
        let mut classes = Arc::unwrap_or_clone(self.classes);
        classes.share_with(&other.classes);
        Self {
            classes: Arc::new(classes),
            ..self
        }
    }

    /// Whether its classes are those of another plan, with the same numbers.
    pub fn has_classes_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.classes, &other.classes) || self.classes == other.classes
    }

    /// The worst case of every class that takes packets, or of the whole where there are no
    /// classes; behind the link's device.
    pub fn bounds(&self) -> Vec<WorstCase> {
        let arrivals = self.arrivals();
        let terms = self.terms(&arrivals);
        let found = self.root.plan.bounds(&terms).into_iter();
        let mut found: BTreeMap<_, _> = found.map(|case| (case.class, case)).collect();
        let leaves = (0..self.classes.len()).filter(|&index| self.classes[index].leaf);
        let all: Vec<Option<ClassId>> = match self.classes.is_empty() {
            true => vec![None],
            false => leaves.map(|index| Some(class_id(index))).collect(),
        };
        let case = |class: Option<ClassId>| found.remove(&class).unwrap_or_else(|| self.unknown_case(class));
        all.into_iter().map(case).collect()
    }

    /// The same of this class of the outermost discipline, and of those in its queue; `None` if
    /// other classes depend on it, or it on them.
    pub fn bounds_of(&self, class: ClassId) -> Option<Vec<WorstCase>> {
        let arrivals = match self.stating {
            0 => Vec::new(),
            _ => self.arrivals(),
        };
        let found = self.root.plan.bounds_of(class, &self.terms(&arrivals))?;
        let is_told = found.iter().any(|case| case.class == Some(class));
        let own = (self.info(class)?.leaf && !is_told).then(|| self.unknown_case(Some(class)));
        Some(own.into_iter().chain(found).collect())
    }

    /// How the link is shared by the classes of the outermost discipline, if all that each is
    /// promised is its [part](Self::part_of) of a whole; in a time that does not grow with their
    /// number. `None` if it may be otherwise.
    pub fn shares(&self) -> Option<Shares> {
        // A class that states what it sends may have a bound.
        self.root.plan.shares().filter(|_| self.stating == 0)
    }

    /// The part of this class of the outermost discipline, if there are any.
    pub fn part_of(&self, class: ClassId) -> Option<u64> {
        self.root.plan.part_of(class)
    }

    /// The terms of its bounds, on the link itself.
    fn terms<'a>(&self, arrivals: &'a [Option<ArrivalCurve>]) -> Terms<'a> {
        Terms {
            link: self.link,
            longest: self.link.longest(),
            arrivals,
            ahead: self.link.ahead(self.link.longest()),
            grain: Bytes::ZERO,
            shortest: Bytes::ZERO,
        }
    }

    /// The arrival curve of every class. Of one that states none, and in whose queue all classes
    /// have one, it is their sum.
    fn arrivals(&self) -> Vec<Option<ArrivalCurve>> {
        let mut found: Vec<_> = self.classes.iter().map(|class| class.arrivals).collect();
        let mut inside: Vec<Vec<Option<ArrivalCurve>>> = vec![Vec::new(); found.len()];
        // Classes in a queue stand after that queue's class.
        for (index, class) in self.classes.iter().enumerate().rev() {
            let inner = std::mem::take(&mut inside[index]);
            if found[index].is_none() && !inner.is_empty() {
                found[index] = inner.into_iter().sum();
            }
            if let Some(outer) = class.parent
                && class.leaf
            {
                inside[outer.0 as usize].push(found[index]);
            }
        }
        found
    }

    /// Why a class has no bound.
    fn unknown_case(&self, class: Option<ClassId>) -> WorstCase {
        let info = class.and_then(|class| self.info(class));
        let outer = info
            .and_then(|info| info.parent)
            .and_then(|parent| self.info(parent));
        let why = match outer {
            Some(outer) if outer.leaf => {
                format!("no bound is known for classes in the queue of `{}`", outer.name)
            }
            _ => format!("`{}` has no bound that is known", self.root.kind.name),
        };
        WorstCase {
            class,
            bound: Err(why),
        }
    }

    /// [`sum_interior`] of its classes.
    pub fn sum_interior(&self, views: &mut [View]) {
        sum_interior(&self.classes, views);
    }

    /// The class of this name.
    pub fn class(&self, name: &str) -> Option<ClassId> {
        let named = |&number: &u32| self.classes[number as usize].name.as_str();
        let found = self.by_name.binary_search_by(|number| named(number).cmp(name));
        found.ok().map(|at| ClassId(self.by_name[at]))
    }

    /// What is known of a class.
    pub fn info(&self, class: ClassId) -> Option<&ClassInfo> {
        self.classes.get(class.0 as usize)
    }

    /// The leaf of this name, for a filter.
    ///
    /// # Errors
    /// If no class has this name, or the class has child classes.
    pub fn leaf(&self, name: &str, at: Span) -> Result<ClassId, Problem> {
        let names = || self.classes.iter().filter(|c| c.leaf).map(|c| c.name.as_str());
        let id = self
            .class(name)
            .ok_or_else(|| unknown("class", name, at, names()))?;
        if self.classes[id.0 as usize].leaf {
            return Ok(id);
        }
        let message = format!("class `{name}` has classes below it, so packets cannot be put into it");
        Err(Problem::new(at, message).help("name one of the classes below it"))
    }
}

/// Completes the views of an inspection in slices: the counts of each class with child classes are
/// those of all below it.
pub fn sum_interior(classes: &SharedList<ClassInfo>, views: &mut [View]) {
    if classes.iter().all(|class| class.leaf) {
        return;
    }
    let mut view_of = vec![usize::MAX; classes.len()];
    for (index, view) in views.iter().enumerate() {
        if let Some(place) = view.class.and_then(|class| view_of.get_mut(class.0 as usize)) {
            *place = index;
        }
    }
    let inner = |class: usize| !classes[class].leaf;
    // What a class with child classes shows by itself is replaced.
    let own = |class: usize| views.get(view_of[class]).filter(|_| !inner(class));
    let stats = |class: usize| own(class).map_or_else(Stats::default, |view| view.stats);
    let mut sums: Vec<Stats> = (0..classes.len()).map(stats).collect();
    let mut missing = vec![0u32; classes.len()];
    let parent = |class: usize| {
        let parent = classes[class].parent?.0 as usize;
        (!classes[parent].leaf).then_some(parent)
    };
    let all = 0..classes.len();
    all.clone()
        .filter_map(parent)
        .for_each(|parent| missing[parent] += 1);
    let mut complete: Vec<usize> = all.filter(|&class| !inner(class)).collect();
    while let Some(class) = complete.pop() {
        if let Some(view) = views.get_mut(view_of[class]).filter(|_| inner(class)) {
            view.stats = sums[class];
        }
        let Some(parent) = parent(class) else { continue };
        let sum = sums[class];
        sums[parent] += sum;
        missing[parent] -= 1;
        if missing[parent] == 0 {
            complete.push(parent);
        }
    }
}

/// Leaves those settings out of a table at which these problems point.
fn leave_out(table: &mut Table, problems: &[Problem], left_out: &mut Vec<String>) {
    table.entries.retain(|entry| {
        // What code wrote stands nowhere.
        let stands = entry.at != Span::default() && entry.at != table.at;
        let wrong = |problem: &Problem| problem.at == entry.at || problem.at == entry.key_at;
        let keep = !(stands && problems.iter().any(wrong));
        if !keep {
            left_out.push(entry.key.to_string());
        }
        keep
    });
}

/// Whether it has neither a discipline nor classes below it, as its kind demands.
fn is_alone(kind: &Kind, spec: &DisciplineSpec) -> bool {
    kind.children == Children::None && spec.child.is_none() && spec.classes.is_empty()
}

fn class_id(index: usize) -> ClassId {
    ClassId(u32::try_from(index).unwrap_or(u32::MAX))
}

impl DisciplineSpec {
    /// What a leaf has for which no discipline is named, at this place of the policy.
    fn plain_leaf(at: Span) -> Self {
        Self {
            at,
            ..Self::of(PLAIN_LEAF)
        }
    }

    /// Checks the whole tree for this link.
    ///
    /// # Errors
    /// Every problem of the tree: unknown kinds, classes and settings, values that cannot be read,
    /// and what a kind's own check refuses.
    pub fn check(&self, registry: &Registry, link: Link) -> Result<TreePlan, Vec<Problem>> {
        let mut checker = Checker::new(registry, link);
        let root = checker.discipline(self, &[]);
        let by_name = checker.by_name();
        let stating = checker.classes.iter().filter(|class| class.arrivals.is_some());
        let stating = stating.count();
        match root {
            Some((root, default)) if checker.problems.is_empty() => Ok(TreePlan {
                root,
                by_name,
                stating,
                classes: Arc::new(checker.classes.into()),
                default,
                link,
                notices: checker.notices.into(),
            }),
            _ => Err(checker.problems),
        }
    }
}

struct Checker<'a> {
    registry: &'a Registry,
    link: Link,
    problems: Vec<Problem>,
    notices: Vec<Problem>,
    classes: Vec<ClassInfo>,
    /// Where each of them stands.
    places: Vec<Span>,
    /// The last queue without anything below it that was in order, and its settings: of very many
    /// classes most have the same, and share its plan.
    last: Option<(QueuePlan, Table)>,
}

impl<'a> Checker<'a> {
    fn new(registry: &'a Registry, link: Link) -> Self {
        Self {
            registry,
            link,
            problems: Vec::new(),
            notices: Vec::new(),
            classes: Vec::new(),
            places: Vec::new(),
            last: None,
        }
    }

    /// The queue of a class that stands in a tree already; `None` if there are classes in it, or
    /// anything to report.
    fn queue_of(mut self, class: &ClassSpec, id: ClassId) -> Option<QueuePlan> {
        let usual = DisciplineSpec::plain_leaf(class.at);
        let (queue, _) = self.discipline(class.discipline.as_ref().unwrap_or(&usual), &[id])?;
        let nothing = self.problems.is_empty() && self.notices.is_empty() && self.classes.is_empty();
        nothing.then_some(queue)
    }

    /// A plan of the discipline, and the class of its packets that no filter takes. `above`: the
    /// class whose queue it is, and those whose packets come to it by default.
    fn discipline(
        &mut self,
        spec: &DisciplineSpec,
        above: &[ClassId],
    ) -> Option<(QueuePlan, Option<ClassId>)> {
        let Some(kind) = self.registry.find(&spec.kind) else {
            self.problems.push(self.unknown_discipline(spec));
            // What is inside it is checked all the same.
            let order = self.in_order(&spec.classes);
            let _ = self.classes(None, spec, &order, above);
            if let Some(child) = &spec.child {
                let _ = self.discipline(child, above);
            }
            return None;
        };
        if let Some(plan) = self.again(kind, spec) {
            return Some((plan, None));
        }
        self.refuse_wrong_children(kind, spec);
        // What drops or holds back before a queue needs a queue below that does neither.
        let plain = DisciplineSpec {
            at: spec.at,
            ..DisciplineSpec::of(&fifo::KIND)
        };
        let below = match kind.children {
            Children::One => self.discipline(spec.child.as_deref().unwrap_or(&plain), above),
            _ => None,
        };
        // A wrapper has no classes of its own: the default is that of what it wraps.
        let (child, wrapped) = below.map_or((None, None), |(plan, default)| (Some(plan), default));
        let (before, noted) = (self.problems.len(), self.notices.len());
        let order = self.in_order(&spec.classes);
        let (classes, default) = match kind.children {
            Children::Classes { .. } => self.classes(Some(kind), spec, &order, above)?,
            Children::None | Children::One => (Vec::new(), wrapped),
        };
        let settings = self.without_former(kind, &spec.settings);
        let unusable = kind.children == Children::One && child.is_none();
        let plan = match unusable {
            true => None,
            false => self.check_by_kind(kind, &settings, child, classes),
        };
        debug_assert!(
            plan.is_some() || unusable || self.problems.len() > before,
            "a refusal without a reason"
        );
        let queue = QueuePlan { kind, plan: plan? };
        let silent = (self.problems.len(), self.notices.len()) == (before, noted);
        if silent && is_alone(kind, spec) {
            self.last = Some((queue.clone(), spec.settings.clone()));
        }
        Some((queue, default))
    }

    /// The plan of the last queue, if this one is of the same kind and has the same settings.
    fn again(&self, kind: &Kind, spec: &DisciplineSpec) -> Option<QueuePlan> {
        let (queue, settings) = self.last.as_ref()?;
        let same = queue.kind.name == kind.name && settings.says_as(&spec.settings);
        (same && is_alone(kind, spec)).then(|| queue.clone())
    }

    /// Asks a kind for a plan. A kind stops at what it cannot read, so settings that were at fault
    /// are left out and it is asked again, for what they hid; what it then says of a setting that
    /// was left out is a consequence, and not said.
    fn check_by_kind(
        &mut self,
        kind: &Kind,
        settings: &Table,
        child: Option<QueuePlan>,
        classes: Vec<CheckedClass<'_>>,
    ) -> Option<Arc<dyn Plan>> {
        let link = self.link;
        let ask = |settings: &Table, classes: Vec<CheckedClass<'_>>, notices: &mut Vec<Problem>| {
            let mut problems = Vec::new();
            let plan = (kind.check)(&mut Check {
                link,
                settings,
                child: child.clone(),
                classes,
                problems: &mut problems,
                notices,
            });
            (plan, problems)
        };
        let (plan, mut found) = ask(settings, classes.clone(), &mut self.notices);
        if found.is_empty() {
            return plan;
        }
        let mut rest: Vec<Table> = std::iter::once(settings)
            .chain(classes.iter().map(|class| class.settings))
            .cloned()
            .collect();
        let (mut left_out, mut seen) = (Vec::new(), 0);
        while seen < found.len() {
            let before = left_out.len();
            for table in &mut rest {
                leave_out(table, &found[seen..], &mut left_out);
            }
            seen = found.len();
            if left_out.len() == before {
                break;
            }
            let others = classes.iter().zip(&rest[1..]);
            let others = others
                .map(|(class, settings)| class.with_settings(settings))
                .collect();
            let (_, more) = ask(&rest[0], others, &mut Vec::new());
            let is_own = |problem: &Problem| {
                let help = problem.help.as_deref().unwrap_or_default();
                let named = |key: &String| {
                    let key = format!("`{key}`");
                    problem.message.contains(&key) || help.contains(&key)
                };
                !found.contains(problem) && !left_out.iter().any(named)
            };
            let more: Vec<Problem> = more.into_iter().filter(is_own).collect();
            found.extend(more);
        }
        self.problems.append(&mut found);
        plan
    }

    /// The settings without those that the kind once had and that repeat a fact of the link: one
    /// that agrees with the link is noted, one that does not is a problem.
    fn without_former<'s>(&mut self, kind: &Kind, settings: &'s Table) -> Cow<'s, Table> {
        let former = |key: &str| kind.properties.former.iter().find(|(name, _)| *name == key);
        if !settings.entries.iter().any(|entry| former(&entry.key).is_some()) {
            return Cow::Borrowed(settings);
        }
        let mut rest = settings.clone();
        rest.entries.retain(|entry| former(&entry.key).is_none());
        for entry in &settings.entries {
            let Some(&(key, fact)) = former(&entry.key) else {
                continue;
            };
            let (said, is, stated) = (&entry.value, fact.of(self.link), fact.stated());
            match fact.agrees(&entry.value, self.link) {
                Ok(true) => {
                    let message = format!("`{key}` of `{}` is no longer needed: it is the link's", kind.name);
                    let help =
                        format!("leave it out: it is stated by {stated}; the next release refuses it here");
                    self.notices.push(Problem::new(entry.key_at, message).help(help));
                }
                Ok(false) => {
                    let message = format!("`{key}` of `{}` is {said}, and the link's is {is}", kind.name);
                    let help = format!("leave it out here, and state it once: {stated}");
                    self.problems.push(Problem::new(entry.at, message).help(help));
                }
                Err(why) => self
                    .problems
                    .push(Problem::new(entry.at, format!("`{key}`: {why}"))),
            }
        }
        Cow::Owned(rest)
    }

    fn refuse_wrong_children(&mut self, kind: &Kind, spec: &DisciplineSpec) {
        if let (Some(child), false) = (&spec.child, kind.children == Children::One) {
            let message = format!("discipline `{}` has no discipline below it", kind.name);
            self.problems.push(Problem::new(child.at, message));
        }
        let nested = match kind.children {
            Children::Classes { nested } => nested,
            _ => {
                if let Some(class) = spec.classes.first() {
                    let message = format!("discipline `{}` has no classes", kind.name);
                    self.problems.push(
                        Problem::new(class.at, message).help("use a discipline with classes, such as `cbq`"),
                    );
                }
                return;
            }
        };
        if spec.classes.is_empty() {
            let message = format!("discipline `{}` needs at least one class", kind.name);
            self.problems.push(Problem::new(spec.at, message));
        }
        for parent in spec
            .classes
            .iter()
            .filter(|_| !nested)
            .filter_map(|c| c.parent.as_ref())
        {
            self.problems.push(Problem::new(
                parent.at,
                format!("classes of `{}` cannot have parents", kind.name),
            ));
        }
    }

    /// Names the nearest kind, or what a word of other programs is here.
    fn unknown_discipline(&self, spec: &DisciplineSpec) -> Problem {
        let known = |kind: &&Kind| kind.properties.elsewhere.contains(&&*spec.kind);
        let here: Vec<String> = self
            .registry
            .kinds()
            .filter(known)
            .map(|kind| format!("`{}`", kind.name))
            .collect();
        let problem = unknown(
            "discipline",
            &spec.kind,
            spec.at,
            self.registry.kinds().map(|k| k.name),
        );
        match &*spec.kind {
            "netem" => problem.help(
                "the delay and loss of a link are settings of `link` in a scenario, for `sim` and `lab`",
            ),
            "ingress" | "clsact" => problem.help(
                "what arrives is managed by a port of its own, as [interface.\"eth0:in\"], or where it leaves again",
            ),
            _ if here.is_empty() => problem,
            _ => problem.help(format!(
                "what other programs call `{}` is {} here",
                spec.kind,
                here.join(" or ")
            )),
        }
    }

    /// The order in which every parent comes before its children, with each class's parent as an
    /// index into that order. Reports unknown parents and circles.
    fn in_order(&mut self, specs: &SharedList<ClassSpec>) -> Vec<(usize, Option<usize>)> {
        if specs.iter().all(|spec| spec.parent.is_none()) {
            return (0..specs.len()).map(|index| (index, None)).collect();
        }
        let by_name: BTreeMap<&str, usize> = specs
            .iter()
            .enumerate()
            .rev()
            .map(|(i, s)| (s.name.as_str(), i))
            .collect();
        let mut children = vec![Vec::new(); specs.len()];
        let mut order = Vec::with_capacity(specs.len());
        for (i, spec) in specs.iter().enumerate() {
            match &spec.parent {
                None => order.push((i, None)),
                Some(ParentSpec { name, at }) => match by_name.get(name.as_str()) {
                    Some(&parent) => children[parent].push(i),
                    None => {
                        let names = specs.iter().map(|s| s.name.as_str()).filter(|n| *n != spec.name);
                        self.problems.push(unknown("parent class", name, *at, names));
                        order.push((i, None));
                    }
                },
            }
        }
        let mut next = 0;
        while next < order.len() {
            let parent = order[next].0;
            order.extend(children[parent].iter().map(|&child| (child, Some(next))));
            next += 1;
        }
        if order.len() < specs.len() {
            let mut placed = vec![false; specs.len()];
            order.iter().for_each(|&(i, _)| placed[i] = true);
            self.refuse_circles(specs, &by_name, placed);
        }
        order
    }

    /// One problem for each circle of parents, at its first class. `seen`: what is in no circle,
    /// nor below one. A class below a circle is not in it, and has no problem of its own.
    fn refuse_circles(
        &mut self,
        specs: &SharedList<ClassSpec>,
        by_name: &BTreeMap<&str, usize>,
        mut seen: Vec<bool>,
    ) {
        let parent = |class: usize| specs[class].parent.as_ref();
        for start in 0..specs.len() {
            let (mut path, mut class) = (Vec::new(), start);
            while !std::mem::replace(&mut seen[class], true) {
                path.push(class);
                // Classes without a parent, and with an unknown one, are in no circle.
                let Some(above) = parent(class).and_then(|parent| by_name.get(parent.name.as_str())) else {
                    break;
                };
                class = *above;
            }
            let Some(begin) = path.iter().position(|&passed| passed == class) else {
                continue;
            };
            let circle = path.split_off(begin);
            let first = circle.iter().copied().min().unwrap_or(class);
            let at = parent(first).map_or(specs[first].at, |parent| parent.at);
            let problem = Problem::new(at, format!("class `{}` is its own ancestor", specs[first].name));
            let names = circle.iter().map(|&class| format!("`{}`", specs[class].name));
            let names: Vec<String> = names.collect();
            self.problems.push(match names.len() {
                1 => problem,
                _ => problem.help(format!(
                    "give one of {} another parent, or none",
                    names.join(", ")
                )),
            });
        }
    }

    /// Checks the classes of one discipline and what is in them, parents first. A packet of a class
    /// in `above` has none of these; it goes to the default class.
    fn classes<'s>(
        &mut self,
        kind: Option<&Kind>,
        spec: &'s DisciplineSpec,
        order: &[(usize, Option<usize>)],
        above: &[ClassId],
    ) -> Option<(Vec<CheckedClass<'s>>, Option<ClassId>)> {
        let mut parents = vec![false; order.len()];
        order.iter().filter_map(|o| o.1).for_each(|p| parents[p] = true);
        let first = self.classes.len();
        if let Some(kind) = kind.filter(|kind| kind.properties.guarantees_delays) {
            self.refuse_second_arrival_curves(kind, &spec.classes);
        }
        let owner = above.first().copied();
        // Numbered in the order of declaration, so that lists read as the policy does.
        for class in &spec.classes {
            self.declare(class, owner);
        }
        let mut checked: Vec<CheckedClass<'s>> = Vec::with_capacity(order.len());
        let mut usable = order.len() == spec.classes.len();
        let mut default = None;
        for (place, &(index, parent)) in order.iter().enumerate() {
            let class = &spec.classes[index];
            let id = class_id(first + index);
            let info = &mut self.classes[first + index];
            info.leaf = !parents[place];
            info.parent = parent.map(|p| checked[p].id).or(owner);
            let (mut queue, mut routes, mut inner) = (None, Vec::new(), Some(id));
            let before = class_id(self.classes.len()).0;
            if parents[place] {
                self.refuse_on_interior(class);
            } else {
                (queue, routes, inner) = self.leaf(class, id, above);
                usable &= queue.is_some();
            }
            if class.default && !parents[place] && default.replace(inner.unwrap_or(id)).is_some() {
                let message = format!("class `{}` is a second default class", class.name);
                self.problems
                    .push(Problem::new(class.at, message).help("leave `default = true` on one class"));
            }
            checked.push(CheckedClass {
                id,
                name: &class.name,
                at: class.at,
                parent,
                vacant: class.vacant,
                settings: &class.settings,
                queue,
                routes,
                inside: before..class_id(self.classes.len()).0,
            });
        }
        // Where one is declared, or none can be, the reason has been told.
        let told = order.is_empty() || spec.classes.iter().any(|class| class.default);
        if default.is_none() && !told {
            let message = format!(
                "`{}` has no default class: packets that no filter takes would be lost",
                spec.kind
            );
            self.problems
                .push(Problem::new(spec.at, message).help("write `default = true` in one leaf class"));
        }
        usable.then_some((checked, default))
    }

    /// Where classes state their senders' arrival curves by settings of their own, `sends` would
    /// repeat them.
    fn refuse_second_arrival_curves(&mut self, kind: &Kind, classes: &SharedList<ClassSpec>) {
        for class in classes.iter().filter(|class| class.sends.is_some()) {
            let message = format!(
                "class `{}` of `{}` has `sends`, which nothing reads there",
                class.name, kind.name
            );
            let help = "state what its senders send by `rate` and `burst`, and what it needs by `delay`";
            self.problems.push(Problem::new(class.at, message).help(help));
        }
    }

    /// The numbers of the classes in the order of their names, which are unique.
    fn by_name(&mut self) -> Arc<[u32]> {
        let mut numbers: Vec<u32> = (0..class_id(self.classes.len()).0).collect();
        let name = |number: u32| self.classes[number as usize].name.as_str();
        numbers.sort_by(|a, b| name(*a).cmp(name(*b)));
        let again = numbers.windows(2).filter(|pair| name(pair[0]) == name(pair[1]));
        let again = again.map(|pair| {
            let message = format!("a second class `{}`: names are unique", name(pair[1]));
            Problem::new(self.places[pair[1] as usize], message)
        });
        self.problems.extend(again);
        numbers.into()
    }

    fn declare(&mut self, class: &ClassSpec, owner: Option<ClassId>) {
        self.places.push(class.at);
        self.classes.push(ClassInfo {
            name: class.name.clone(),
            parent: owner,
            leaf: true,
            arrivals: class.sends.map(|sends| sends.on(self.link.bandwidth)),
            vacant: class.vacant,
        });
    }

    fn refuse_on_interior(&mut self, class: &ClassSpec) {
        let wrong = [
            (class.default, "be the default class"),
            (class.discipline.is_some(), "have a discipline"),
        ];
        for (_, what) in wrong.iter().filter(|w| w.0) {
            let message = format!("class `{}` has classes below it, so it cannot {what}", class.name);
            self.problems.push(Problem::new(class.at, message));
        }
    }

    /// The queue of a leaf; the classes whose packets go to it; and the class that stands for it
    /// when a packet is put there without a filter.
    fn leaf(
        &mut self,
        class: &ClassSpec,
        id: ClassId,
        above: &[ClassId],
    ) -> (Option<QueuePlan>, Vec<ClassId>, Option<ClassId>) {
        let usual = DisciplineSpec::plain_leaf(class.at);
        let first = self.classes.len();
        let unrouted: &[ClassId] = if class.default { above } else { &[] };
        let own: Vec<ClassId> = std::iter::once(id).chain(unrouted.iter().copied()).collect();
        let inner = self.discipline(class.discipline.as_ref().unwrap_or(&usual), &own);
        let below = (first..self.classes.len())
            .filter(|&i| self.classes[i].leaf)
            .map(class_id);
        let routes: Vec<ClassId> = own.iter().copied().chain(below).collect();
        self.classes[id.0 as usize].leaf = true;
        match inner {
            Some((plan, default)) => (Some(plan), routes, default),
            None => (None, routes, None),
        }
    }
}

#[cfg(test)]
mod tests;
