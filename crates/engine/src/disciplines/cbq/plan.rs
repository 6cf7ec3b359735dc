//! A checked policy of `cbq`: its classes, numbered, with the weights of their turns.

use super::settings::{ClassSettings, RoundRobin, Settings, Sharing};
use super::shares::{self, Share};
use crate::class_name::ClassName;
use crate::discipline::{ChangedClass, Plan};
use crate::kind::{Check, ClassRoutes, QueuePlan};
use crate::link::Link;
use crate::packet::ClassId;
use crate::settings::{Problem, Span, Table};
use crate::sharing::by_rates::LONGEST_BURST;
use crate::sharing::class_numbers::ClassNumbers;
use crate::sharing::class_rates;
use crate::sharing::credit::{Credit, NANOBITS};
use crate::sharing::credit_bound::Credited;
use crate::structures::rings::{PRIORITIES, Rated, Sets, Weights};
use crate::structures::shared_list::SharedList;
use crate::units::{Bandwidth, Bytes, Duration};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A checked class, numbered: leaves first, then the others, then the link itself.
#[derive(Clone, Debug)]
pub(super) struct ClassPlan {
    pub(super) id: ClassId,
    pub(super) name: ClassName,
    pub(super) settings: ClassSettings,
    pub(super) credit: Credit,
    pub(super) packet: u64,
    pub(super) parent: u32,
    pub(super) level: u8,
    pub(super) queue: Option<QueuePlan>,
    pub(super) vacant: bool,
}

#[derive(Clone, Debug)]
pub(super) struct CbqPlan {
    pub(super) settings: Settings,
    pub(super) link: Bandwidth,
    pub(super) mtu: Bytes,
    pub(super) classes: Arc<SharedList<ClassPlan>>,
    /// Of those that are not leaves, and the link: what their children's rates add up to.
    sums: Arc<SharedList<u128>>,
    pub(super) leaves: usize,
    pub(super) levels: usize,
    pub(super) routes: Arc<ClassRoutes>,
    pub(super) numbers: ClassNumbers,
    weights: WeightsOnce,
    /// With an estimator of the link: the turns of the leaves.
    pub(super) shares: Arc<[Share]>,
    /// The bursts of all classes together, in bytes.
    pub(super) bursts: u128,
}

/// The weights of a plan's classes. They follow from all of these, and a plan that is amended needs
/// none: the tree that adopts it by the class keeps its own.
#[derive(Clone, Default)]
struct WeightsOnce(OnceLock<Arc<Weights>>);

impl fmt::Debug for WeightsOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("as the classes say")
    }
}

impl ClassPlan {
    /// What it adds to the bursts of all.
    fn burst(&self) -> u128 {
        u128::from(self.settings.maxburst) * u128::from(self.packet)
    }

    /// Gives it these settings.
    fn set(&mut self, settings: ClassSettings, link: Link) {
        let rate = settings.rate.on(link.bandwidth);
        let packet = settings.packet_size.unwrap_or(link.mtu);
        let bursts = (settings.maxburst, settings.minburst);
        self.credit = Credit::full(rate, link.bandwidth, packet, bursts);
        self.packet = packet.get();
        self.settings = settings;
    }

    /// As its weights need it.
    pub(super) fn rated(&self) -> Rated {
        Rated {
            rate: self.credit.rate,
            parent: self.parent,
            priority: self.settings.priority,
            vacant: self.vacant,
        }
    }
}

impl ClassPlan {
    /// What its bound follows from. Every leaf has a queue: `check` made it so.
    pub(super) fn credited(&self) -> Option<Credited<'_>> {
        Some(Credited {
            id: self.id,
            name: &self.name,
            queue: self.queue.as_ref()?,
            credit: self.credit,
            priority: self.settings.priority,
        })
    }
}

impl CbqPlan {
    /// The most credit of a class that waits for its turn, in nanobits. The sum of the credits
    /// cannot grow while the link is busy (departure 3); twice it, for overdrafts.
    pub(super) fn ceiling(&self) -> i64 {
        (self.bursts * 2 * NANOBITS as u128).min(i64::MAX as u128 / 4) as i64
    }

    /// The classes with other values than in a former plan, and those with queues if `queues` may
    /// have other ones; all if the link has another rate, which credits follow. `None` if anything
    /// else differs.
    pub(super) fn changed_classes(&self, former: &Self, queues: bool) -> Option<Vec<ClassId>> {
        let of_all = |plan: &Self| (plan.mtu, plan.leaves, plan.levels);
        let shape = |class: &ClassPlan| (class.id, class.parent, class.level);
        let value = |class: &ClassPlan| (class.credit.rate, class.packet, class.settings.clone());
        if of_all(self) != of_all(former)
            || !self.settings.differ_little(&former.settings)
            || self.classes.len() != former.classes.len()
        {
            return None;
        }
        let mut changed = Vec::new();
        for (number, (new, old)) in self.classes.iter().zip(former.classes.iter()).enumerate() {
            if shape(new) != shape(old) {
                return None;
            }
            let leaf = number < self.leaves;
            let other = value(new) != value(old) || self.shares.get(number) != former.shares.get(number);
            if other || self.link != former.link || leaf && queues {
                changed.push(new.id);
            }
        }
        Some(changed)
    }

    /// Whether all values are those of another plan of the same shape.
    pub(super) fn has_values_of(&self, other: &Self) -> bool {
        let values = |plan: &Self| -> Vec<_> {
            let value = |class: &ClassPlan| (class.credit.rate, class.packet, class.settings.clone());
            plan.classes.iter().map(value).collect()
        };
        (self.link, self.mtu, &self.settings) == (other.link, other.mtu, &other.settings)
            && values(self) == values(other)
    }
}

/// A place for a class that may come is allotted nothing.
fn of_a_place() -> Table {
    Table::default().with("rate", Bandwidth::ZERO)
}

pub(super) fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let before = check.problems.len();
    let settings = Settings::read(check.settings, &[], check.problems);
    if let Some(settings) = &settings {
        check_settings(check, settings);
    }
    let place = of_a_place();
    let read: Vec<Option<ClassSettings>> = check
        .classes
        .iter()
        .map(|class| {
            let settings = if class.vacant { &place } else { class.settings };
            ClassSettings::read(settings, &[], check.problems)
        })
        .collect();
    let (settings, read) = (settings?, read.into_iter().collect::<Option<Vec<_>>>()?);
    for (settings, class) in read.iter().zip(&check.classes) {
        check_class(settings, class.settings, class.at, check.link, check.problems);
    }
    let rates: Vec<Bandwidth> = read
        .iter()
        .map(|class| class.rate.on(check.link.bandwidth))
        .collect();
    let borrows: Vec<bool> = read.iter().map(|class| class.borrow).collect();
    if !settings.overbook {
        class_rates::check_sums(check, &rates);
    }
    class_rates::check_reach(check, &rates, &borrows);
    let levels = class_rates::levels(check)?;
    (check.problems.len() == before).then(|| {
        let plan = number(check, settings, read, &levels);
        // Here, and not in the packet loop.
        plan.weights();
        Arc::new(plan) as Arc<dyn Plan>
    })
}

pub(super) fn check_settings(check: &mut Check<'_>, settings: &Settings) {
    let at = |key: &str| check.settings.place(key);
    if settings.tick == Some(Duration::ZERO) {
        let problem = Problem::new(at("tick"), "`tick` must be longer than 0");
        check
            .problems
            .push(problem.help("leave it out for timers without a tick"));
    }
    check_root(check, settings);
    if check.link.bandwidth == Bandwidth::ZERO {
        let message = "`cbq` needs a link with a bandwidth: the classes share it";
        check.problems.push(Problem::new(check.settings.at, message));
    }
}

/// What only goes with an estimator of the link, and that only the older modes have one.
fn check_root(check: &mut Check<'_>, settings: &Settings) {
    let mut wrong = |key: &str, message: String, help: &str| {
        if let Some(entry) = check.settings.get(key) {
            check.problems.push(Problem::new(entry.at, message).help(help));
        }
    };
    if settings.root_rate.is_none() {
        for key in ["root_maxburst", "efficient", "overbook"] {
            let message = format!("`{key}` is for a link with an estimator, and `root_rate` is missing");
            wrong(key, message, "leave it out, or write `root_rate = \"98 %\"`");
        }
    } else if settings.sharing == Sharing::Formal {
        let message = "`root_rate` is for the older modes, and `sharing` is \"formal\"";
        let help = "leave it out, or write `sharing = \"top-level\"` or \"ancestors-only\"";
        wrong("root_rate", message.into(), help);
    }
    if settings.root_maxburst == 0 {
        let message = "`root_maxburst` must be at least 1";
        wrong("root_maxburst", message.into(), "write 1 for no burst");
    }
}

/// The settings of a class that stands at this place, as they were read from this table.
fn check_class(class: &ClassSettings, table: &Table, at: Span, link: Link, problems: &mut Vec<Problem>) {
    let at = |key: &str| table.get(key).map_or(at, |entry| entry.at);
    let packet = class.packet_size.unwrap_or(link.mtu).get();
    let mut wrong = |key: &str, message: String| problems.push(Problem::new(at(key), message));
    if class.priority as usize >= PRIORITIES {
        wrong(
            "priority",
            format!(
                "`priority` is a number from 0 to 7, the larger served first; found {}",
                class.priority
            ),
        );
    }
    if class.minburst == 0 {
        wrong(
            "minburst",
            "`minburst` must be at least 1: a class that wakes up sends a packet".into(),
        );
    }
    if class.maxburst < class.minburst {
        let message = format!(
            "`maxburst` ({}) is less than `minburst` ({})",
            class.maxburst, class.minburst
        );
        wrong(
            if table.get("maxburst").is_some() {
                "maxburst"
            } else {
                "minburst"
            },
            message,
        );
    }
    if packet == 0 {
        wrong("packet_size", "`packet_size` must be at least 1 B".into());
    }
    if u64::from(class.maxburst).saturating_mul(packet) > LONGEST_BURST {
        wrong(
            "maxburst",
            format!(
                "`maxburst` × `packet_size` is more than {}",
                Bytes::new(LONGEST_BURST)
            ),
        );
    }
}

/// Numbers the classes, leaves first.
pub(super) fn number(
    check: &mut Check<'_>,
    settings: Settings,
    read: Vec<ClassSettings>,
    levels: &[u8],
) -> CbqPlan {
    let (link, count) = (check.link, read.len());
    let leaf = |index: usize| levels[index] == 0;
    let order: Vec<usize> = (0..count)
        .filter(|&i| leaf(i))
        .chain((0..count).filter(|&i| !leaf(i)))
        .collect();
    let mut numbers = vec![count as u32; count + 1];
    order
        .iter()
        .enumerate()
        .for_each(|(number, &index)| numbers[index] = number as u32);
    let class_numbers = ClassNumbers::new(check, |index| numbers[index]);
    let mut routes = ClassRoutes::default();
    for (index, class) in check.classes.iter().enumerate().filter(|(index, _)| leaf(*index)) {
        class
            .routes
            .iter()
            .for_each(|&route| routes.add(route, numbers[index]));
    }
    let mut read: Vec<Option<ClassSettings>> = read.into_iter().map(Some).collect();
    let mut classes: Vec<ClassPlan> = Vec::with_capacity(count);
    for &index in &order {
        let class = &mut check.classes[index];
        let Some(settings) = read[index].take() else {
            continue;
        };
        let mut plan = ClassPlan {
            id: class.id,
            name: class.name.clone(),
            credit: Credit::default(),
            packet: 0,
            parent: numbers[class.parent.unwrap_or(count)],
            level: levels[index],
            queue: class.queue.take(),
            settings: settings.clone(),
            vacant: class.vacant,
        };
        plan.set(settings, link);
        classes.push(plan);
    }
    let leaves = classes.iter().filter(|class| class.level == 0).count();
    let mut sums = vec![0; count + 1 - leaves];
    for class in &classes {
        sums[class.parent as usize - leaves] += u128::from(class.credit.rate);
    }
    let bursts = classes.iter().map(ClassPlan::burst).sum();
    let levels = usize::from(levels[count]) + 1;
    let mut plan = CbqPlan {
        settings,
        link: link.bandwidth,
        mtu: link.mtu,
        classes: Arc::new(classes.into()),
        sums: Arc::new(sums.into()),
        leaves,
        levels,
        routes: Arc::new(routes),
        numbers: class_numbers,
        weights: WeightsOnce::default(),
        shares: Arc::default(),
        bursts,
    };
    if plan.settings.root_rate.is_some() {
        let rated = |class: &ClassPlan| (class.rated(), class.packet);
        let nodes: Vec<_> = plan.classes.iter().map(rated).collect();
        let round_robin = plan.settings.round_robin;
        plan.shares = shares::shares((&nodes, plan.leaves), plan.link, round_robin).into();
    }
    plan
}

impl CbqPlan {
    /// The plan that [`check`] makes when a leaf has other settings, or is another class; without a
    /// look at the others. `None` if it would report anything, or only it can tell: of classes with
    /// child classes, and where the link has an estimator, as the turns follow from all rates.
    pub(super) fn with_leaf(&self, change: &ChangedClass<'_>) -> Option<Self> {
        let leaf = self.numbers.own(change.class.0);
        let leaf = leaf.filter(|&number| number < self.leaves && self.settings.root_rate.is_none())?;
        let old = self.classes.get(leaf)?;
        let (place, mut problems) = (of_a_place(), Vec::new());
        let vacant = change.renewed.map_or(old.vacant, |new| new.vacant);
        let table = if vacant { &place } else { change.settings };
        let settings = ClassSettings::read(table, &[], &mut problems)?;
        check_class(&settings, table, Span::default(), change.link, &mut problems);
        if !problems.is_empty() {
            return None;
        }
        let parent = self.classes.get(old.parent as usize);
        let has = parent.map_or(self.link.bits(), |parent| parent.credit.rate);
        let above = old.parent as usize - self.leaves;
        let rate = settings.rate.on(change.link.bandwidth).bits();
        let sum = self.sums[above] - u128::from(old.credit.rate) + u128::from(rate);
        if sum > u128::from(has) {
            return None;
        }
        let mut new = ClassPlan {
            vacant,
            ..old.clone()
        };
        new.set(settings, change.link);
        if let Some(renewed) = change.renewed {
            let queue: &QueuePlan = renewed.queue.downcast_ref()?;
            (new.name, new.queue) = (renewed.name.clone(), Some(queue.clone()));
        }
        if !self.can_send(&new) {
            return None;
        }
        let (mut classes, mut sums) = (SharedList::clone(&self.classes), SharedList::clone(&self.sums));
        let bursts = self.bursts - old.burst() + new.burst();
        (classes[leaf], sums[above]) = (new, sum);
        Some(Self {
            classes: Arc::new(classes),
            sums: Arc::new(sums),
            weights: WeightsOnce::default(),
            bursts,
            ..self.clone()
        })
    }

    /// Whether a class, which may be another than in this plan, has a rate or somebody to borrow
    /// from.
    fn can_send(&self, class: &ClassPlan) -> bool {
        let mut class = class;
        while class.credit.rate == 0 {
            match self.classes.get(class.parent as usize) {
                _ if !class.settings.borrow => return false,
                Some(parent) => class = parent,
                None => return true,
            }
        }
        true
    }

    /// The weights with which classes take turns: by rate.
    pub(super) fn weights(&self) -> &Arc<Weights> {
        self.weights.0.get_or_init(|| {
            let rated = || self.classes.iter().map(ClassPlan::rated).collect::<Vec<_>>();
            Arc::new(match self.settings.round_robin {
                RoundRobin::Weighted => Weights::of(&rated(), self.leaves),
                RoundRobin::Packet => Weights::equal(self.classes.len()),
            })
        })
    }

    /// Whether these are its weights.
    pub(super) fn has_weights(&self, weights: &Arc<Weights>) -> bool {
        let own = self.weights.0.get();
        own.is_some_and(|own| Arc::ptr_eq(own, weights))
    }

    /// The sets in which its classes take turns, empty: of the leaves of each priority, and of the
    /// children of each node in each priority.
    pub(super) fn sets(&self) -> Sets {
        let Weights { alike, siblings, .. } = &**self.weights();
        let borrowers = siblings[self.leaves..].iter();
        let borrowers = borrowers.flat_map(|&lanes| [lanes; PRIORITIES]);
        Sets::new(alike.iter().copied().chain(borrowers))
    }
}
