//! `cbq`: a tree of classes, each with a guaranteed rate, sharing a link's excess by rule.
//!
//! Follows Floyd and Jacobson, "Link-sharing and resource management models for packet networks",
//! IEEE/ACM Transactions on Networking 3(4), 1995, and Cho 1999, sections 4.1.1, 4.2.4 to 4.2.7 and
//! 5.3 to 5.4. Words: a class is *overlimit* when it has used up its allotment; *regulated* when it
//! may not send; *unsatisfied* when it is not overlimit and has a backlog.
//!
//! **Formal link sharing**, the default: an overlimit class may go on if an ancestor, reached
//! through classes that borrow, is not overlimit and no class of any lower level is unsatisfied. A
//! leaf has level 0, another class one more than its highest child. Trying the levels from 0
//! upwards is that rule, without visiting every class (as Devera does for HTB): level 0 has the
//! leaves with credit of their own, level *i* the classes that can lend to what is below them.
//! Within a level the larger priority (0 to 7) is served first, within a priority classes take
//! turns. Each lender keeps the children that want to borrow, so excess is shared inside an
//! organisation before it leaves it. Turns are in proportion to the rates of those with a backlog,
//! however far these are apart; a class without a rate counts as a sixteenth of the mean.
//!
//! **Estimator.** A class has a credit in nanobits: rate (bit/s) × time (ns), exact in integers.
//!
//! - credit += rate × time since the last update, up to what lets `maxburst` packets of
//!   `packet_size` go;
//! - credit −= length of each packet that the class pays for; overlimit from 0 downwards;
//! - an overlimit class with a backlog waits until `minburst` packets may go; one that had none,
//!   for any credit.
//!
//! *n* packets may go back to back with a credit above ((*n* − 1) − (*n* − 2) *f*) × `packet_size`,
//! *f* = rate / link: the last may overdraw, and while one is on the wire the class regains *f* of
//! it. In the paper's terms credit / rate is the idle time that avgidle averages, the cap is its
//! maxidle, and the time to wait its offtime. Departures, argued in `docs/decisions/cbq.md`:
//!
//! 1. No weighted average: in integers it has errors of up to 14 %, and forgets overdrafts at
//!    minidle. The sum is exact at any rate, and bounds bursts as `maxidle` was meant to.
//! 2. The lender pays, and its ancestors; classes below the lender do not. The paper charges the
//!    borrower too, so that what was free yesterday is missing from its allotment today.
//! 3. A class that waits for its turn accumulates credit beyond `maxburst`, so that a burst of a
//!    higher priority does not cost it its allotment. The sum of all credits cannot grow while the
//!    link is busy, so this ends.
//! 4. `excess = "share"`: the excess is shared by allotment, whatever the priority, so priority
//!    buys delay and not bandwidth (the trouble in Cho's Fig. 11). `"priority"` is the literature's
//!    rule.
//! 5. The link is a wire with a clock, exact to a nanobit. A late caller may catch up by
//!    `link_burst`; beyond it the clock of all credits stands still, so that a link slower than
//!    declared serves all in proportion.
//! 6. `tick` brings the kernel timer of 1998 back: wake-ups on ticks only, at least two ahead
//!    (section 4.2.7).
//!
//! `sharing = "top-level"` and `"ancestors-only"` are the literature's approximations, for
//! comparison: strict priority among all unregulated classes, every ancestor charged, credit capped
//! at `maxburst`. The link itself is at its limit while it is busy, so it lends only what it would
//! lose otherwise, which nobody is charged for (ns-2's *efficient*). They can starve a backlogged
//! class, and top-level passes over the classes of a turn that would borrow from above its cutoff.
//! When a packet empties or overdraws, the cutoff becomes the lowest level of an unsatisfied class:
//! one within its limit with a backlog, of its own or below it.

use crate::bounds::{Terms, WorstCase};
use crate::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, ClassRoutes, Kind, Properties, QueuePlan};
use crate::link_clock::CreditClock;
use crate::packet::{ClassId, Packet};
use crate::queue::{Queue, Stats};
use crate::settings::Problem;
use crate::sharing::by_rates::{ByRates, LONGEST_BURST};
use crate::sharing::class_numbers::ClassNumbers;
use crate::sharing::class_rates;
use crate::sharing::credit::{Credit, NANOBITS, nanobits};
use crate::sharing::credit_bound::{self, Credited};
use crate::structures::rings::{
    self, NONE, Neighbours, PRIORITIES, Rated, Rows, Sets, Turn, Turns, Weight, Weights,
};
use crate::structures::shortcuts::Shortcuts;
use crate::structures::timer_wheel::TimerWheel;
use crate::units::{Bandwidth, Bytes, Duration, Instant, Rate};
use crate::{choices, settings};
use std::any::Any;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "cbq",
    summary: "Class-based queueing: a tree of classes with guaranteed rates, priorities, and borrowing",
    reference: "Floyd and Jacobson, IEEE/ACM ToN 3(4), 1995; Cho, \"Traffic management by alternate queueing\", 1999",
    children: Children::Classes { nested: true },
    settings: Settings::SETTINGS,
    class_settings: ClassSettings::SETTINGS,
    properties: Properties {
        reserves: Some(&ByRates),
        isolates: true,
        ..Properties::NONE
    },
    check,
};

choices! {
    /// Who may borrow when.
    pub enum Sharing {
        /// From an ancestor within its limit, when no class of a lower level is unsatisfied.
        Formal = "formal",
        /// From an ancestor within its limit, up to a level that a heuristic moves.
        TopLevel = "top-level",
        /// From any ancestor within its limit.
        AncestorsOnly = "ancestors-only",
    }
}

choices! {
    /// Who is served first when bandwidth is lent.
    pub enum Excess {
        /// All by allotment, whatever the priority.
        Share = "share",
        /// The higher priority, as much as it wants.
        Priority = "priority",
    }
}

choices! {
    /// How classes of one priority take turns.
    pub enum RoundRobin {
        /// By bytes, in proportion to the allotments.
        Weighted = "weighted",
        /// One packet each.
        Packet = "packet",
    }
}

choices! {
    /// What paces packets on a full link.
    pub enum PacedBy {
        /// This discipline: nothing leaves while the link is busy.
        Shaped = "shaped",
        /// The port: it dequeues when the link is free.
        Port = "port",
    }
}

settings! {
    /// Settings of `cbq`.
    pub struct Settings {
        /// Who may borrow when
        sharing: Sharing = default "formal",
            "top-level and ancestors-only can starve a class of lower priority",
            "Floyd and Jacobson 1995, section 3";
        /// Who is served first when bandwidth is lent
        excess: Excess = default "share",
            "priority: the highest priority takes all it wants of the excess. Formal sharing only",
            "Cho 1999, section 5.4, Fig. 11 and 12";
        /// How classes of one priority take turns
        round_robin: RoundRobin = default "weighted",
            "packet: classes with long packets get more of what is lent",
            "Floyd and Jacobson 1995, section 4";
        /// What paces packets on a full link
        link: PacedBy = default "shaped",
            "port: for a port that itself sends at the link's bandwidth; a faster one is not slowed down",
            "the token-bucket regulator of ALTQ";
        /// How far a late caller may catch up
        link_burst: Duration = default "5 ms",
            "too small: a host that wakes up late wastes bandwidth; too large: a burst after a stall",
            "one tick of a 250 Hz kernel and some";
        /// Wake classes up on multiples of this time only, two ahead at least
        tick: Duration = derived "no tick: exact to 1 ns",
            "10 ms limits a class to `maxburst` packets in 20 ms",
            "Cho 1999, section 4.2.7";
    }
}

settings! {
    /// Settings of a class of `cbq`.
    pub struct ClassSettings {
        /// What the class is guaranteed: its allotment
        rate: Rate = required,
            "the sum over the classes of one parent is at most the parent's; 0 bit/s: only what is lent",
            "Floyd and Jacobson 1995, section 2";
        /// Its priority, 0 to 7; the larger is served first
        priority: u32 = default "1",
            "larger: less delay, not more bandwidth (but see `excess`)",
            "ALTQ";
        /// Whether it may use its parent's excess
        borrow: bool = default "true",
            "false: the rate is a limit, and the link can idle with a backlog",
            "a link should not idle; ALTQ asked for the word";
        /// Packets it may send at once after it was idle
        maxburst: u32 = default "16",
            "too small: an intermittent class does not reach its rate; too large: other classes are delayed longer",
            "Floyd's CBQ notes; ALTQ";
        /// Packets it may send at once after it was regulated
        minburst: u32 = default "2",
            "larger: fewer wake-ups, and more jitter",
            "Floyd's CBQ notes; ALTQ";
        /// The length of a packet, for the bursts
        packet_size: Bytes = derived "the longest packet of the link",
            "it sets the size of the bursts only; every packet counts with its own length",
            "ALTQ";
    }
}

/// A checked class, numbered: leaves first, then the others, then the link itself.
#[derive(Clone, Debug)]
struct ClassPlan {
    id: ClassId,
    name: String,
    settings: ClassSettings,
    credit: Credit,
    packet: u64,
    parent: u32,
    level: u8,
    queue: Option<QueuePlan>,
}

#[derive(Clone, Debug)]
struct CbqPlan {
    settings: Settings,
    link: Bandwidth,
    mtu: Bytes,
    classes: Arc<[ClassPlan]>,
    leaves: usize,
    levels: usize,
    routes: Arc<ClassRoutes>,
    numbers: ClassNumbers,
    weights: Arc<Weights>,
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let before = check.problems.len();
    let settings = Settings::read(check.settings, &[], check.problems);
    if let Some(settings) = &settings {
        check_settings(check, settings);
    }
    let read: Vec<Option<ClassSettings>> = check
        .classes
        .iter()
        .map(|class| ClassSettings::read(class.settings, &[], check.problems))
        .collect();
    let (settings, read) = (settings?, read.into_iter().collect::<Option<Vec<_>>>()?);
    for (index, class) in read.iter().enumerate() {
        check_class(check, index, class);
    }
    let rates: Vec<Bandwidth> = read
        .iter()
        .map(|class| class.rate.on(check.link.bandwidth))
        .collect();
    let borrows: Vec<bool> = read.iter().map(|class| class.borrow).collect();
    class_rates::check_sums(check, &rates);
    class_rates::check_reach(check, &rates, &borrows);
    let levels = class_rates::levels(check)?;
    (check.problems.len() == before)
        .then(|| Arc::new(number(check, settings, read, &levels)) as Arc<dyn Plan>)
}

fn check_settings(check: &mut Check<'_>, settings: &Settings) {
    let at = |key: &str| {
        check
            .settings
            .get(key)
            .map_or(check.settings.at, |entry| entry.at)
    };
    if settings.tick == Some(Duration::ZERO) {
        let problem = Problem::new(at("tick"), "`tick` must be longer than 0");
        check
            .problems
            .push(problem.help("leave it out for timers without a tick"));
    }
    if check.link.bandwidth == Bandwidth::ZERO {
        let message = "`cbq` needs a link with a bandwidth: the classes share it";
        check.problems.push(Problem::new(check.settings.at, message));
    }
}

fn check_class(check: &mut Check<'_>, index: usize, class: &ClassSettings) {
    let table = check.classes[index].settings;
    let at = |key: &str| table.get(key).map_or(check.classes[index].at, |entry| entry.at);
    let packet = class.packet_size.unwrap_or(check.link.mtu).get();
    let mut wrong = |key: &str, message: String| check.problems.push(Problem::new(at(key), message));
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
fn number(check: &mut Check<'_>, settings: Settings, read: Vec<ClassSettings>, levels: &[u8]) -> CbqPlan {
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
        let rate = settings.rate.on(link.bandwidth);
        let packet = settings.packet_size.unwrap_or(link.mtu);
        let bursts = (settings.maxburst, settings.minburst);
        classes.push(ClassPlan {
            id: class.id,
            name: class.name.into(),
            credit: Credit::full(rate, link.bandwidth, packet, bursts),
            packet: packet.get(),
            parent: numbers[class.parent.unwrap_or(count)],
            level: levels[index],
            queue: class.queue.take(),
            settings,
        });
    }
    let leaves = classes.iter().filter(|class| class.level == 0).count();
    let weights = weights(&classes, leaves, settings.round_robin);
    let levels = usize::from(levels[count]) + 1;
    CbqPlan {
        settings,
        link: link.bandwidth,
        mtu: link.mtu,
        classes: classes.into(),
        leaves,
        levels,
        routes: Arc::new(routes),
        numbers: class_numbers,
        weights: Arc::new(weights),
    }
}

/// The weights with which classes take turns: by rate.
fn weights(classes: &[ClassPlan], leaves: usize, round_robin: RoundRobin) -> Weights {
    let rated = |class: &ClassPlan| Rated {
        rate: class.credit.rate,
        parent: class.parent,
        priority: class.settings.priority,
    };
    match round_robin {
        RoundRobin::Weighted => Weights::of(&classes.iter().map(rated).collect::<Vec<_>>(), leaves),
        RoundRobin::Packet => Weights::equal(classes.len()),
    }
}

impl CbqPlan {
    /// The sets in which its classes take turns, empty: of the leaves of each priority, and of the
    /// children of each node in each priority.
    fn sets(&self) -> Sets {
        let Weights { alike, siblings, .. } = &*self.weights;
        let borrowers = siblings[self.leaves..].iter();
        let borrowers = borrowers.flat_map(|&lanes| [lanes; PRIORITIES]);
        Sets::new(alike.iter().copied().chain(borrowers))
    }
}

impl ClassPlan {
    /// The node of an idle class with a full burst.
    fn node(&self) -> Node {
        let borrow = if self.settings.borrow { BORROW } else { 0 };
        Node {
            credit: self.credit,
            parent: self.parent,
            level: self.level,
            priority: self.settings.priority as u8,
            flags: if self.credit.rate == 0 {
                OVER | borrow
            } else {
                borrow
            },
            demand: 0,
        }
    }
}

impl Plan for CbqPlan {
    fn bounds(&self, terms: &Terms<'_>) -> Vec<WorstCase> {
        // Every leaf has a queue: `check` made it so.
        let leaf = |class: &ClassPlan| {
            Some(Credited {
                id: class.id,
                queue: class.queue.as_ref()?.kind,
                credit: class.credit,
                priority: class.settings.priority,
            })
        };
        let patience = (self.settings.link == PacedBy::Port).then_some(self.settings.link_burst);
        let formal = self.settings.sharing == Sharing::Formal && self.settings.tick.is_none();
        credit_bound::all(
            self.classes.iter().take(self.leaves).filter_map(leaf).collect(),
            terms,
            formal,
            patience,
        )
    }

    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        let queues = self.classes.iter().filter_map(|class| {
            class
                .queue
                .as_ref()
                .map(|queue| queue.build(&cx.part(&class.name)))
        });
        let mut cbq = Cbq {
            nodes: Vec::new(),
            places: Vec::new(),
            rows: Rows::default(),
            sets: Sets::default(),
            queues: queues.collect(),
            backlogged: 0,
            wheel: TimerWheel::new(self.classes.len()),
            clock: CreditClock::new(self.link, self.settings.link_burst),
            rules: Rules::new(self),
            cutoff: 0,
            unsatisfied: 0,
            shortcuts: Shortcuts::default(),
            waiting: Shortcuts::default(),
            revealed: Vec::new(),
            regains: TimerWheel::new(0),
            unit: self.mtu.get().clamp(1, LONGEST_UNIT),
            tallies: vec![Tally::default(); self.classes.len() + 1],
            plan: self.clone(),
        };
        cbq.lay_out();
        Box::new(cbq)
    }
}

/// The longest packet for which turns are sized; longer ones take several turns.
const LONGEST_UNIT: u64 = 1 << 20;

/// The node may borrow from its parent.
const BORROW: u8 = 1;
/// It has used up its credit, and has not regained enough of it.
const OVER: u8 = 2;
/// It is in its row.
const LISTED: u8 = 4;
/// A leaf with a backlog.
const BACKLOGGED: u8 = 8;
/// A leaf whose queue has a backlog and releases nothing before its timer.
const ASLEEP: u8 = 16;

/// A class, or, last, the link. One cache line: with many classes, cost is lines touched.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Node {
    credit: Credit,
    parent: u32,
    level: u8,
    /// The priority of a leaf in row 0.
    priority: u8,
    flags: u8,
    /// Leaf: 1 if it has a packet to send. Others: the priorities in which children want to borrow.
    demand: u8,
}

impl Node {
    /// A leaf in its row that is not overlimit.
    #[inline]
    fn is_unsatisfied(&self) -> bool {
        self.level == 0 && self.flags & (LISTED | OVER) == LISTED
    }

    #[inline]
    fn is_listed_leaf(&self) -> bool {
        self.level == 0 && self.flags & LISTED != 0
    }

    /// A leaf that waits for credit, its own or borrowed: a turn passes it over while nobody lends.
    #[inline]
    fn is_passed_over(&self) -> bool {
        let regained = self.credit.rate > 0 && self.credit.is_enough();
        self.flags & (OVER | BORROW) == OVER | BORROW && !regained
    }
}

/// A node's membership in a row and among its parent's borrowers, for one priority; a leaf has only
/// one.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Membership {
    row: Neighbours,
    feed: Neighbours,
    own: Turn,
    lent: Turn,
}

impl Membership {
    /// As a leaf among those of its priority that have credit of their own.
    fn own(&mut self) -> (&mut Neighbours, &mut Turn) {
        (&mut self.row, &mut self.own)
    }

    /// As a child that wants to borrow from its parent.
    fn lent(&mut self) -> (&mut Neighbours, &mut Turn) {
        (&mut self.feed, &mut self.lent)
    }
}

/// The settings that every packet needs.
#[derive(Clone, Copy, Debug)]
struct Rules {
    formal: bool,
    top_level: bool,
    weighted: bool,
    shaped: bool,
    /// All classes above leaves borrow.
    lend_all: bool,
    /// A waiting class accumulates credit beyond its burst, up to this.
    ceiling: Option<i64>,
    tick: Option<u64>,
}

/// Counts of a node, human-readable.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    over: u64,
    borrows: u64,
    delays: u64,
    borrowed: u64,
    lent: u64,
}

#[derive(Debug)]
struct Cbq {
    nodes: Vec<Node>,
    places: Vec<Membership>,
    /// Nodes that may send or lend: rings of those that lend; of the leaves, in level 0, only
    /// whether there are any.
    rows: Rows,
    /// The leaves of level 0, by priority; then the borrowers of each node, by its places.
    sets: Sets,
    /// Of the leaves, by number.
    queues: Vec<Queue>,
    /// Leaves with a backlog.
    backlogged: usize,
    wheel: TimerWheel,
    clock: CreditClock,
    rules: Rules,
    /// The older modes: no node above this level lends.
    cutoff: u8,
    /// Leaves in their row that are not overlimit.
    unsatisfied: usize,
    /// The older modes: in the lanes of leaves, those that a turn does not pass over.
    shortcuts: Shortcuts,
    /// The others, by parent; and those that a lender lets go, seen for one choice.
    waiting: Shortcuts,
    revealed: Vec<u32>,
    /// When the others have credit again. Not on the wheel of those that wake up: what that one
    /// says is when somebody could have sent.
    regains: TimerWheel,
    /// The longest packet so far, at least the MTU: a turn of weight 1.
    unit: u64,
    tallies: Vec<Tally>,
    plan: CbqPlan,
}

/// Which leaf sends next, and which node pays.
#[derive(Clone, Copy, Debug)]
struct Choice {
    leaf: usize,
    lender: usize,
    /// The priority of the rings on the way.
    priority: usize,
}

impl Rules {
    fn new(plan: &CbqPlan) -> Self {
        let settings = &plan.settings;
        let formal = settings.sharing == Sharing::Formal;
        let bursts: u128 = plan
            .classes
            .iter()
            .map(|class| u128::from(class.settings.maxburst) * u128::from(class.packet))
            .sum();
        // The sum of the credits cannot grow while the link is busy (departure 3); twice it, for
        // overdrafts.
        let ceiling = (bursts * 2 * NANOBITS as u128).min(i64::MAX as u128 / 4) as i64;
        Self {
            formal,
            top_level: settings.sharing == Sharing::TopLevel,
            weighted: settings.round_robin == RoundRobin::Weighted,
            shaped: settings.link == PacedBy::Shaped,
            lend_all: plan.classes[plan.leaves..]
                .iter()
                .all(|class| class.settings.borrow),
            ceiling: (formal && settings.tick.is_none()).then_some(ceiling),
            tick: settings.tick.map(Duration::nanos),
        }
    }
}

// Structure: which node is in which ring.
impl Cbq {
    /// Makes the nodes of the plan, none backlogged, all with a full burst.
    fn lay_out(&mut self) {
        let plan = &self.plan;
        let link = plan.classes.len();
        let place = |own, lent| Membership {
            row: Neighbours::FREE,
            feed: Neighbours::FREE,
            own: Turn::new(own),
            lent: Turn::new(lent),
        };
        self.nodes.clear();
        self.places.clear();
        for (number, class) in plan.classes.iter().enumerate() {
            self.nodes.push(class.node());
            let places = if number < plan.leaves { 1 } else { PRIORITIES };
            let (own, lent) = (plan.weights.own[number], plan.weights.lent[number]);
            self.places.extend((0..places).map(|_| place(own, lent)));
        }
        self.nodes.push(Node {
            parent: link as u32,
            level: (plan.levels - 1) as u8,
            ..Node::default()
        });
        let of_link = || place(Weight::default(), Weight::default());
        self.places.extend((0..PRIORITIES).map(|_| of_link()));
        self.rows = Rows::new(plan.levels);
        self.sets = plan.sets();
        self.lay_shortcuts();
        self.cutoff = self.below_link();
    }

    /// The highest level below the link.
    fn below_link(&self) -> u8 {
        self.nodes[self.link()].level - 1
    }

    fn leaves(&self) -> usize {
        self.queues.len()
    }

    /// The number of the link.
    fn link(&self) -> usize {
        self.nodes.len() - 1
    }

    /// The set of those that want to borrow at this place of a node.
    #[inline]
    fn borrowers(&self, owner: u32) -> usize {
        PRIORITIES + owner as usize - self.leaves()
    }

    #[inline]
    fn place_of(&self, node: usize, priority: usize) -> u32 {
        let leaves = self.leaves();
        if node < leaves {
            node as u32
        } else {
            (leaves + (node - leaves) * PRIORITIES + priority) as u32
        }
    }

    #[inline]
    fn node_at(&self, place: u32) -> usize {
        let (place, leaves) = (place as usize, self.leaves());
        if place < leaves {
            place
        } else {
            leaves + (place - leaves) / PRIORITIES
        }
    }

    /// The priority in which a leaf borrows.
    fn lent_priority(&self, leaf: usize) -> usize {
        match self.plan.settings.excess {
            Excess::Share => 0,
            Excess::Priority => usize::from(self.nodes[leaf].priority),
        }
    }

    #[inline]
    fn list(&mut self, node: usize, priority: usize, place: u32, since: u64) {
        if self.rows.is_empty() {
            self.clock.set_ready(since);
        }
        let level = usize::from(self.nodes[node].level);
        let head = if level == 0 {
            let _ = self
                .sets
                .insert(&mut self.places, Membership::own, priority, place);
            if !self.rules.formal {
                self.joined_lane(place as usize);
            }
            place
        } else {
            let head = self.rows.head(level, priority);
            rings::insert(&mut self.places, |p| &mut p.row, head, place)
        };
        self.rows.set(level, priority, head);
    }

    #[inline]
    fn unlist(&mut self, node: usize, priority: usize, place: u32) {
        let level = usize::from(self.nodes[node].level);
        if level == 0 && !self.rules.formal {
            self.leaves_lane(node);
        }
        let head = self.rows.head(level, priority);
        let head = if level > 0 {
            rings::remove(&mut self.places, |p| &mut p.row, head, place)
        } else if self
            .sets
            .remove(&mut self.places, Membership::own, priority, place)
        {
            NONE
        } else {
            head
        };
        self.rows.set(level, priority, head);
    }

    /// Puts a node that may send or lend into its row, in all its priorities.
    fn list_all(&mut self, node: usize, since: u64) {
        self.mark(node, LISTED, true);
        self.for_rows(node, |cbq, priority, place| {
            cbq.list(node, priority, place, since)
        });
    }

    fn unlist_all(&mut self, node: usize) {
        self.mark(node, LISTED, false);
        self.for_rows(node, |cbq, priority, place| cbq.unlist(node, priority, place));
    }

    /// Sets or clears LISTED or OVER, and counts the unsatisfied leaves.
    #[inline]
    fn mark(&mut self, node: usize, flag: u8, on: bool) {
        let node = &mut self.nodes[node];
        self.unsatisfied -= usize::from(node.is_unsatisfied());
        node.flags = if on { node.flags | flag } else { node.flags & !flag };
        self.unsatisfied += usize::from(node.is_unsatisfied());
    }

    /// Calls `act` for each priority in which the node belongs into its row.
    #[inline]
    fn for_rows(&mut self, node: usize, mut act: impl FnMut(&mut Self, usize, u32)) {
        if node < self.leaves() {
            let priority = usize::from(self.nodes[node].priority);
            return act(self, priority, node as u32);
        }
        let mut demand = self.nodes[node].demand;
        while demand != 0 {
            let priority = demand.trailing_zeros() as usize;
            demand &= demand - 1;
            act(self, priority, self.place_of(node, priority));
        }
    }

    /// A leaf becomes able to send: lists it, and enters it with those that may lend to it.
    /// `since`: from when on.
    fn join(&mut self, leaf: usize, clock: u64, now: u64, since: u64) {
        self.accrue(leaf, clock);
        self.nodes[leaf].demand = 1;
        self.admit(leaf, now, since);
        if self.rules.formal && self.nodes[leaf].flags & BORROW != 0 {
            let priority = self.lent_priority(leaf);
            self.want(leaf, priority, clock, now, since);
        }
    }

    /// Lists a node that becomes active, or sets its timer if it is overlimit.
    fn admit(&mut self, node: usize, now: u64, since: u64) {
        if self.nodes[node].credit.left > 0 {
            self.mark(node, OVER, false);
        }
        if self.nodes[node].flags & OVER == 0 || !self.rules.formal {
            self.list_all(node, since);
        } else {
            self.regulate(node, now);
        }
    }

    /// Enters a node into its parent's ring of borrowers, and the parent into its parent's, and so
    /// on.
    fn want(&mut self, leaf: usize, priority: usize, clock: u64, now: u64, since: u64) {
        let link = self.link();
        let mut child = leaf;
        loop {
            let parent = self.nodes[child].parent as usize;
            let (owner, place) = (self.place_of(parent, priority), self.place_of(child, priority));
            let set = self.borrowers(owner);
            if !self.sets.insert(&mut self.places, Membership::lent, set, place) {
                return;
            }
            if parent != link {
                self.accrue(parent, clock);
            }
            let first = self.nodes[parent].demand == 0;
            self.nodes[parent].demand |= 1 << priority;
            if first {
                self.admit(parent, now, since);
            } else if self.nodes[parent].flags & LISTED != 0 {
                self.list(parent, priority, owner, since);
            }
            if parent == link || self.nodes[parent].flags & BORROW == 0 {
                return;
            }
            child = parent;
        }
    }

    /// A leaf has no packet to send any more.
    fn leave(&mut self, leaf: usize, clock: u64) {
        self.accrue(leaf, clock);
        self.dismiss(leaf);
        self.nodes[leaf].demand = 0;
        if !self.rules.formal || self.nodes[leaf].flags & BORROW == 0 {
            return;
        }
        let priority = self.lent_priority(leaf);
        let link = self.link();
        let mut child = leaf;
        loop {
            let parent = self.nodes[child].parent as usize;
            let (owner, place) = (self.place_of(parent, priority), self.place_of(child, priority));
            let set = self.borrowers(owner);
            if !self.sets.remove(&mut self.places, Membership::lent, set, place) {
                return;
            }
            if parent != link {
                self.accrue(parent, clock);
            }
            if self.nodes[parent].demand == 1 << priority {
                self.dismiss(parent);
            } else if self.nodes[parent].flags & LISTED != 0 {
                self.unlist(parent, priority, owner);
            }
            self.nodes[parent].demand &= !(1 << priority);
            if parent == link || self.nodes[parent].flags & BORROW == 0 {
                return;
            }
            child = parent;
        }
    }

    /// Takes a node out of its row, or cancels its timer.
    fn dismiss(&mut self, node: usize) {
        if self.nodes[node].flags & LISTED != 0 {
            self.unlist_all(node);
        } else if node != self.link() {
            self.wheel.cancel(node as u32);
        }
    }
}

// Estimator.
impl Cbq {
    /// Accrues a node's credit since its last update.
    #[inline]
    fn accrue(&mut self, node: usize, clock: u64) {
        let node = &mut self.nodes[node];
        node.credit
            .accrue(clock, self.rules.ceiling.filter(|_| node.demand != 0));
    }

    /// Sets the timer of a regulated node.
    fn regulate(&mut self, node: usize, now: u64) {
        if self.nodes[node].credit.rate > 0 {
            let at = now.saturating_add(self.nodes[node].credit.time_to_enough());
            self.set_timer(node, at, now);
        }
        if self.nodes[node].flags & BORROW == 0 {
            self.tallies[node].delays += 1;
        }
    }

    fn set_timer(&mut self, node: usize, at: u64, now: u64) {
        let at = match self.rules.tick {
            None => at,
            Some(tick) => at.div_ceil(tick).max(now / tick + 2).saturating_mul(tick),
        };
        self.wheel.set(node as u32, Instant::from_nanos(at));
    }

    /// Charges a node, and in the older modes and for all above the lender, its ancestors.
    fn charge(&mut self, payer: usize, bits: i64, clock: u64, now: u64) {
        let link = self.link();
        // A borrower's overdraft would grow without end where it is charged too: the original's
        // minidle.
        let floor = if self.rules.formal {
            i64::MIN
        } else {
            -nanobits(self.unit)
        };
        let mut node = payer;
        while node != link {
            self.accrue(node, clock);
            let state = &mut self.nodes[node];
            state.credit.left = state.credit.left.saturating_sub(bits).max(floor);
            if state.credit.left <= 0 && state.flags & OVER == 0 {
                self.mark(node, OVER, true);
                self.tallies[node].over += 1;
                if self.rules.formal {
                    if self.nodes[node].demand != 0 {
                        self.unlist_all(node);
                        self.regulate(node, now);
                    }
                } else if !self.rules.formal && self.nodes[node].is_listed_leaf() {
                    self.watch(node);
                }
            }
            node = self.nodes[node].parent as usize;
        }
    }

    /// Wakes up every node whose timer is due. `since`: when the first of them could have been
    /// woken.
    fn wake(&mut self, clock: u64, now: u64, since: u64) {
        while let Some(node) = self.wheel.expire(Instant::from_nanos(now)) {
            let node = node as usize;
            if self.nodes[node].flags & ASLEEP != 0 {
                self.nodes[node].flags &= !ASLEEP;
                self.join(node, clock, now, since);
                continue;
            }
            self.accrue(node, clock);
            if self.nodes[node].credit.is_enough() {
                self.mark(node, OVER, false);
            } else if self.rules.formal {
                // The clock of the credits has stood still meanwhile.
                let at = now.saturating_add(self.nodes[node].credit.time_to_enough());
                self.set_timer(node, at, now);
                continue;
            }
            self.list_all(node, since);
        }
        while !self.rules.formal
            && let Some(leaf) = self.regains.expire(Instant::from_nanos(now))
        {
            self.accrue(leaf as usize, clock);
            self.watch(leaf as usize);
        }
    }
}

// Scheduler.
impl Cbq {
    /// The place in a row whose turn it is.
    fn turn_of(&mut self, level: usize, priority: usize) -> u32 {
        // Higher levels lend by credit; the order among lenders does not matter for bandwidth.
        if level > 0 {
            return self.rows.head(level, priority);
        }
        let turns = self.turns();
        self.sets.next(&mut self.places, Membership::own, priority, turns)
    }

    /// How classes take turns.
    #[inline]
    fn turns(&self) -> Turns {
        match self.rules.weighted {
            true => Turns::Bytes(self.unit),
            false => Turns::Packets,
        }
    }

    /// The borrower whose turn it is with this lender.
    fn borrower_of(&mut self, owner: u32) -> u32 {
        let (set, turns) = (self.borrowers(owner), self.turns());
        self.sets.next(&mut self.places, Membership::lent, set, turns)
    }

    /// Formal sharing: the lowest level with a node that may send or lend, there the highest
    /// priority.
    #[inline]
    fn choose(&mut self) -> Option<Choice> {
        let (level, priority) = self.rows.first()?;
        let mut place = self.turn_of(level, priority);
        let lender = self.node_at(place);
        while self.node_at(place) >= self.leaves() {
            place = self.borrower_of(place);
        }
        Some(Choice {
            leaf: place as usize,
            lender,
            priority,
        })
    }

    /// Advances the turns by a packet.
    fn take_turns(&mut self, choice: Choice, len: u64) {
        let Choice {
            leaf,
            lender,
            priority,
        } = choice;
        let turns = self.turns();
        if lender == leaf || !self.rules.formal {
            let member = (priority, leaf as u32);
            return self
                .sets
                .sent(&mut self.places, Membership::own, member, len, turns);
        }
        let mut child = leaf;
        while child != lender {
            let parent = self.nodes[child].parent as usize;
            let (owner, at) = (self.place_of(parent, priority), self.place_of(child, priority));
            let member = (self.borrowers(owner), at);
            self.sets
                .sent(&mut self.places, Membership::lent, member, len, turns);
            child = parent;
        }
        let place = self.place_of(lender, priority);
        let level = usize::from(self.nodes[lender].level);
        self.rows
            .set(level, priority, self.places[place as usize].row.next);
    }

    /// A packet leaves: turns, charges, the link.
    fn sent(&mut self, choice: Choice, len: u64, clock: u64, now: u64) {
        let Choice { leaf, lender, .. } = choice;
        let bits = nanobits(len);
        self.unit = self.unit.max(len.min(LONGEST_UNIT));
        self.take_turns(choice, len);
        let empty = self.queues[leaf].is_empty();
        if empty {
            self.empty(leaf, clock);
        }
        if lender != leaf {
            self.tallies[leaf].borrows += 1;
            self.tallies[leaf].borrowed += len;
            self.tallies[lender].lent += len;
        }
        if self.rules.formal {
            self.charge(lender, bits, clock, now);
        } else if lender != self.link() {
            // The older modes charge the borrower too, as the original does; but nobody for what
            // the link would have lost.
            self.charge(leaf, bits, clock, now);
        }
        self.clock.send(now, bits as u64, self.rules.shaped);
        if self.rules.top_level && lender != leaf {
            self.move_cutoff(lender, empty, clock);
        }
    }

    /// A leaf has no backlog any more.
    fn empty(&mut self, leaf: usize, clock: u64) {
        self.stop(leaf, clock);
        self.nodes[leaf].flags &= !BACKLOGGED;
        self.backlogged -= 1;
    }

    /// A leaf has nothing to send, whether it was waiting for its own queue or for its turn.
    fn stop(&mut self, leaf: usize, clock: u64) {
        if self.nodes[leaf].flags & ASLEEP != 0 {
            self.nodes[leaf].flags &= !ASLEEP;
            self.wheel.cancel(leaf as u32);
        } else {
            self.leave(leaf, clock);
        }
    }

    /// Since when a node may send; if none may, when the first could have been woken.
    fn since(&self) -> u64 {
        if !self.rows.is_empty() {
            self.clock.ready()
        } else {
            self.wheel.next().map_or(u64::MAX, Instant::nanos)
        }
    }
}

// The older modes.
impl Cbq {
    /// The first leaf in the order of priorities that may send; suspends those that may not.
    fn choose_by_priority(&mut self, clock: u64, now: u64) -> Option<Choice> {
        if !self.rules.top_level {
            self.cutoff = self.below_link();
        }
        loop {
            let shortcuts = self.reveal(clock);
            let choice = self.choose_below_cutoff(shortcuts, clock, now);
            self.conceal();
            match choice {
                InLane::Choice(choice) => return Some(choice),
                InLane::AboveCutoff => self.cutoff += 1,
                InLane::Nobody => {
                    self.cutoff = self.below_link();
                    return None;
                }
            }
        }
    }

    /// The same with this cutoff, by the shortcuts or by a walk.
    fn choose_below_cutoff(&mut self, shortcuts: bool, clock: u64, now: u64) -> InLane {
        let mut found = InLane::Nobody;
        for priority in (0..PRIORITIES).rev() {
            let mut tried = 0;
            while let Some(lane) = self.sets.first_lane(priority, tried) {
                tried |= 1 << lane;
                let in_lane = match shortcuts {
                    true => self.choose_seen((priority, lane), clock, now),
                    false => self.choose_in_lane((priority, lane), clock, now),
                };
                match in_lane {
                    InLane::Choice(_) => return in_lane,
                    InLane::AboveCutoff => found = InLane::AboveCutoff,
                    InLane::Nobody => {}
                }
            }
        }
        found
    }

    /// The same among the leaves of one priority in one lane.
    fn choose_in_lane(&mut self, (priority, lane): (usize, u32), clock: u64, now: u64) -> InLane {
        let mut first = NONE;
        loop {
            let at = self.sets.head(priority, lane);
            if at == NONE {
                return InLane::Nobody;
            }
            if at == first {
                return InLane::AboveCutoff;
            }
            let leaf = at as usize;
            let next = self.places[leaf].row.next;
            match self.lender(leaf, clock) {
                Permit::No => self.suspend(leaf, now),
                Permit::Above => {
                    first = if first == NONE { at } else { first };
                    self.sets.set_head(priority, lane, next);
                }
                Permit::From(lender) if self.has_turn(leaf) => {
                    return InLane::Choice(Choice {
                        leaf,
                        lender,
                        priority,
                    });
                }
                Permit::From(_) => {
                    first = NONE;
                    self.sets.set_head(priority, lane, next);
                }
            }
        }
    }

    /// The same, but whoever waits for credit and finds no lender is passed over without a look.
    fn choose_seen(&mut self, (priority, lane): (usize, u32), clock: u64, now: u64) -> InLane {
        let ring = self.sets.lane(priority, lane);
        loop {
            let head = self.sets.head(priority, lane);
            if head == NONE {
                return InLane::Nobody;
            }
            let Some(at) = self.shortcuts.first(ring, head, after(&self.places)) else {
                return InLane::AboveCutoff;
            };
            let (leaf, next) = (at as usize, self.places[at as usize].row.next);
            match self.lender(leaf, clock) {
                Permit::No => self.suspend(leaf, now),
                Permit::Above => self.watch(leaf),
                Permit::From(lender) if self.has_turn(leaf) => {
                    self.sets.set_head(priority, lane, at);
                    return InLane::Choice(Choice {
                        leaf,
                        lender,
                        priority,
                    });
                }
                Permit::From(_) => self.sets.set_head(priority, lane, next),
            }
        }
    }

    /// Whether a leaf's turn has bytes left; adds a turn if not.
    fn has_turn(&mut self, leaf: usize) -> bool {
        let place = &mut self.places[leaf];
        if !self.rules.weighted || place.row.next == leaf as u32 || place.own.left > 0 {
            return true;
        }
        place.own.grow(self.unit);
        place.own.left > 0
    }

    /// Which node would pay for a leaf's next packet.
    fn lender(&mut self, leaf: usize, clock: u64) -> Permit {
        self.accrue(leaf, clock);
        let state = &self.nodes[leaf];
        if state.flags & OVER != 0 && state.credit.is_enough() && state.credit.rate > 0 {
            self.mark(leaf, OVER, false);
        }
        if self.nodes[leaf].flags & OVER == 0 {
            return Permit::From(leaf);
        }
        let (link, mut node) = (self.link(), leaf);
        while node != link && self.nodes[node].flags & BORROW != 0 {
            node = self.nodes[node].parent as usize;
            if self.nodes[node].level > self.cutoff {
                return Permit::Above;
            }
            if node == link {
                return Permit::From(link);
            }
            self.accrue(node, clock);
            if self.nodes[node].credit.left > 0 {
                return Permit::From(node);
            }
        }
        Permit::No
    }

    /// Takes a regulated leaf out of its row until it, or a node that lends to it, has credit
    /// again.
    fn suspend(&mut self, leaf: usize, now: u64) {
        self.unlist_all(leaf);
        self.tallies[leaf].delays += 1;
        let (mut node, mut at) = (leaf, u64::MAX);
        loop {
            if self.nodes[node].credit.rate > 0 {
                at = at.min(now.saturating_add(self.nodes[node].credit.time_to_enough()));
            }
            let parent = self.nodes[node].parent as usize;
            if self.nodes[node].flags & BORROW == 0 || parent == self.link() {
                break;
            }
            node = parent;
        }
        self.set_timer(leaf, at, now);
    }

    /// Top-level: after a packet that was paid by `lender`.
    fn move_cutoff(&mut self, lender: usize, empty: bool, clock: u64) {
        let level = self.nodes[lender].level;
        if self.cutoff < level {
            return;
        }
        // The link, while it is busy, is at its limit.
        let over = lender == self.link() || self.nodes[lender].credit.left <= 0;
        if !empty && !over {
            self.cutoff = level;
            return;
        }
        debug_assert_eq!(
            self.unsatisfied,
            self.nodes[..self.leaves()]
                .iter()
                .filter(|leaf| leaf.is_unsatisfied())
                .count()
        );
        self.cutoff = match self.unsatisfied {
            0 => self.lowest_unsatisfied(clock),
            _ => 0,
        };
    }

    /// The lowest level of a class above the leaves that is within its limit and has a backlog
    /// below it, which waits for credit.
    fn lowest_unsatisfied(&mut self, clock: u64) -> u8 {
        let mut lowest = self.below_link();
        for parent in self.leaves()..self.link() {
            if self.waiting.count(parent) > 0
                && let Some(lender) = self.lender_from(parent, lowest, clock)
            {
                lowest = self.nodes[lender].level;
            }
        }
        lowest
    }

    /// This node or the first above it that has credit, below a level.
    fn lender_from(&mut self, mut node: usize, below: u8, clock: u64) -> Option<usize> {
        while node != self.link() && self.nodes[node].level < below {
            self.accrue(node, clock);
            if self.nodes[node].credit.left > 0 {
                return Some(node);
            }
            node = self.nodes[node].parent as usize;
        }
        None
    }

    /// Top-level: a packet has arrived at this leaf.
    fn lower_cutoff(&mut self, leaf: usize, clock: u64) {
        let mut node = leaf;
        while self.nodes[node].level < self.cutoff {
            self.accrue(node, clock);
            let within = if node == leaf {
                self.nodes[node].flags & OVER == 0
            } else {
                self.nodes[node].credit.left > 0
            };
            if within {
                self.cutoff = self.nodes[node].level;
                return;
            }
            if self.nodes[node].flags & BORROW == 0 {
                return;
            }
            node = self.nodes[node].parent as usize;
        }
    }
}

/// Finds the leaf after another in its lane.
fn after(places: &[Membership]) -> impl Fn(u32) -> u32 {
    |at| places[at as usize].row.next
}

/// A lender is asked for so many leaves that wait for credit; if there are more, one is near.
const FEW: u32 = 64;

// The older modes: which leaves a turn passes over.
impl Cbq {
    /// The lane of a leaf among those of all sets.
    #[inline]
    fn lane_of(&self, leaf: usize) -> usize {
        let priority = usize::from(self.nodes[leaf].priority);
        self.sets.lane(priority, self.places[leaf].own.weight.lane)
    }

    /// None for the leaves that are listed, if any.
    fn lay_shortcuts(&mut self) {
        let leaves = if self.rules.formal { 0 } else { self.leaves() };
        self.shortcuts = Shortcuts::new(leaves, self.sets.lanes());
        self.waiting = Shortcuts::new(leaves, self.nodes.len());
        self.regains = TimerWheel::new(leaves);
    }

    /// New ones for the leaves that are listed, in lanes that are new too.
    fn renew_shortcuts(&mut self) {
        self.lay_shortcuts();
        if self.rules.formal {
            return;
        }
        let members = self.sets.members(&mut self.places, |_, place| place.row.next);
        // The older modes have leaves in sets only.
        for (set, leaf) in members {
            let leaf = leaf as usize;
            let head = self.sets.head(set, self.places[leaf].own.weight.lane);
            if head as usize == leaf {
                self.shortcuts.spread(head, after(&self.places));
            }
            self.watch(leaf);
        }
    }

    /// A leaf has joined its lane.
    #[inline(never)]
    fn joined_lane(&mut self, leaf: usize) {
        let place = &self.places[leaf];
        let (lane, last) = (place.own.weight.lane, place.row.previous);
        let head = self.sets.head(usize::from(self.nodes[leaf].priority), lane);
        self.shortcuts.join(leaf as u32, head, last, after(&self.places));
        self.watch(leaf);
    }

    /// Sees or overlooks a listed leaf, as its credit is; one that is overlooked has a timer for
    /// when it has enough.
    #[inline(never)]
    fn watch(&mut self, leaf: usize) {
        let (lane, node) = (self.lane_of(leaf), &self.nodes[leaf]);
        let parent = node.parent as usize;
        if !node.is_passed_over() {
            self.waiting.overlook(parent, leaf as u32);
            return self.shortcuts.see(lane, leaf as u32);
        }
        if node.credit.rate > 0 {
            let enough = node.credit.updated.saturating_add(node.credit.time_to_enough());
            let at = Instant::from_nanos(enough.saturating_add(self.clock.behind()));
            self.regains.set(leaf as u32, at);
        }
        self.waiting.see(parent, leaf as u32);
        self.shortcuts.overlook(lane, leaf as u32);
    }

    /// A leaf leaves its lane.
    #[inline(never)]
    fn leaves_lane(&mut self, leaf: usize) {
        self.shortcuts.overlook(self.lane_of(leaf), leaf as u32);
        self.waiting
            .overlook(self.nodes[leaf].parent as usize, leaf as u32);
        self.regains.cancel(leaf as u32);
    }

    /// Sees those as well that find a lender below the cutoff, until [`Cbq::conceal`]. `false` if a
    /// walk is better: when there are many, or when it would find leaves that have to be suspended.
    fn reveal(&mut self, clock: u64) -> bool {
        let link = self.link();
        if self.cutoff == 0 || !self.rules.lend_all || self.nodes[link].level <= self.cutoff {
            return self.cutoff == 0;
        }
        for parent in self.leaves()..link {
            let waiting = self.waiting.count(parent);
            if waiting == 0 || self.lender_from(parent, self.cutoff + 1, clock).is_none() {
                continue;
            }
            if waiting > FEW {
                return false;
            }
            let first = self.revealed.len();
            self.revealed.extend(self.waiting.seen(parent));
            for at in first..self.revealed.len() {
                let leaf = self.revealed[at];
                self.shortcuts.see(self.lane_of(leaf as usize), leaf);
            }
        }
        true
    }

    fn conceal(&mut self) {
        while let Some(leaf) = self.revealed.pop() {
            if self.waiting.sees(leaf) {
                self.shortcuts.overlook(self.lane_of(leaf as usize), leaf);
            }
        }
    }
}

/// What was found in a lane.
#[derive(Clone, Copy, Debug)]
enum InLane {
    /// A leaf that may send.
    Choice(Choice),
    /// Leaves that may not while the cutoff is so low.
    AboveCutoff,
    /// No leaf that could send.
    Nobody,
}

/// Whether a leaf may send.
#[derive(Clone, Copy, Debug)]
enum Permit {
    /// Paid for by this node: itself, or an ancestor.
    From(usize),
    /// Not while the cutoff is so low.
    Above,
    /// Not before a node has credit.
    No,
}

impl Discipline for Cbq {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        let Some(leaf) = self.plan.routes.child(packet.class) else {
            sink.drop(packet, Reason::NoClass);
            return Verdict::Dropped(Reason::NoClass);
        };
        let verdict = self.queues[leaf].enqueue(now, packet, sink);
        let flags = self.nodes[leaf].flags;
        let holds = !self.queues[leaf].is_empty();
        let waiting = flags & BACKLOGGED != 0 && flags & ASLEEP == 0;
        if holds && waiting && !self.rules.top_level {
            return verdict;
        }
        let now = now.nanos();
        let clock = if self.backlogged > 0 {
            self.clock.at(now, self.since())
        } else {
            self.clock.idle(now)
        };
        match (flags & BACKLOGGED != 0, holds) {
            (false, true) => {
                self.nodes[leaf].flags |= BACKLOGGED;
                self.backlogged += 1;
                self.join(leaf, clock, now, now);
            }
            (true, false) => self.empty(leaf, clock),
            // The queue may have a packet earlier now: it is polled again.
            (true, true) if flags & ASLEEP != 0 => {
                self.stop(leaf, clock);
                self.join(leaf, clock, now, now);
            }
            _ => {}
        }
        if self.rules.top_level && holds {
            self.lower_cutoff(leaf, clock);
        }
        verdict
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        if self.backlogged == 0 {
            return Next::Empty;
        }
        let at = now.nanos();
        if self.rules.shaped && self.clock.free_at() > at {
            return Next::Wait(Instant::from_nanos(self.clock.free_at()));
        }
        let since = self.since();
        let clock = self.clock.at(at, since);
        self.wake(clock, at, since);
        loop {
            let choice = if self.rules.formal {
                self.choose()
            } else {
                self.choose_by_priority(clock, at)
            };
            let Some(choice) = choice else {
                return match self.backlogged {
                    0 => Next::Empty,
                    _ => Next::Wait(self.wheel.next().unwrap_or(Instant::NEVER)),
                };
            };
            match self.queues[choice.leaf].dequeue(now, sink) {
                Next::Ready(packet) => {
                    self.sent(choice, packet.len.get(), clock, at);
                    return Next::Ready(packet);
                }
                Next::Wait(until) => {
                    self.leave(choice.leaf, clock);
                    self.nodes[choice.leaf].flags |= ASLEEP;
                    self.wheel.set(choice.leaf as u32, until);
                }
                Next::Empty => self.empty(choice.leaf, clock),
            }
        }
    }

    fn flush(&mut self, sink: &mut dyn Sink) {
        for leaf in 0..self.leaves() {
            self.queues[leaf].flush(sink);
            if self.nodes[leaf].flags & BACKLOGGED != 0 {
                let clock = self.nodes[leaf].credit.updated;
                self.empty(leaf, clock);
            }
        }
        // No leaf is backlogged any more. The time of the flush is not known; credit up to it
        // accrues later.
        for node in &mut self.nodes {
            node.credit.cap();
        }
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        let link = self.link();
        out.gauge("sharing", Value::State(self.plan.settings.sharing.name()));
        out.gauge("rate", Value::Bandwidth(self.plan.link));
        out.gauge("lent", Value::Bytes(Bytes::new(self.tallies[link].lent)));
        out.gauge(
            "lost_time",
            Value::Duration(Duration::from_nanos(self.clock.behind())),
        );
        let below = out.is_whole().then(|| self.below());
        let window = out.window();
        for number in self.plan.numbers.shown(&window) {
            out.class(self.plan.classes[number].id, |out| {
                self.inspect_class(number, out);
                match (self.queues.get(number), &below) {
                    (Some(queue), _) => queue.inspect(out),
                    (None, Some(below)) => out.counts("", &below[number]),
                    (None, None) => {}
                }
            });
        }
        for leaf in self.plan.numbers.inside(&window) {
            out.inside(|out| self.queues[leaf].inspect(out));
        }
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let Some(plan) = plan.downcast_ref::<CbqPlan>() else {
            return false;
        };
        let shape = |plan: &CbqPlan| -> Vec<_> {
            let kind = |class: &ClassPlan| class.queue.as_ref().map(|queue| queue.kind.name);
            plan.classes
                .iter()
                .map(|class| (class.id, class.parent, kind(class)))
                .collect()
        };
        if shape(plan) != shape(&self.plan) {
            return false;
        }
        let queues = self.queues.iter_mut().zip(plan.classes.iter());
        let adopted = queues
            .filter_map(|(queue, class)| Some(queue.retune(now, class.queue.as_ref()?.plan.as_ref())))
            .fold(true, |all, one| all & one);
        let values = |plan: &CbqPlan| -> Vec<_> {
            plan.classes
                .iter()
                .map(|class| (class.credit.rate, class.packet, class.settings.clone()))
                .collect()
        };
        let same =
            (plan.link, plan.mtu, &plan.settings) == (self.plan.link, self.plan.mtu, &self.plan.settings);
        if !same || values(plan) != values(&self.plan) {
            self.adopt(plan, now.nanos());
        }
        adopted
    }
}

// Inspection, and retuning.
impl Cbq {
    /// The classes, children before parents.
    fn bottom_up(&self) -> impl Iterator<Item = usize> + '_ {
        let mut order: Vec<usize> = (0..self.link()).collect();
        order.sort_by_key(|&number| self.nodes[number].level);
        order.into_iter()
    }

    /// What has passed through each class and all below it.
    fn below(&self) -> Vec<Stats> {
        let mut below = vec![Stats::default(); self.link() + 1];
        for number in self.bottom_up() {
            if let Some(queue) = self.queues.get(number) {
                below[number] = queue.stats();
            }
            let stats = below[number];
            below[self.nodes[number].parent as usize] += stats;
        }
        below
    }

    fn inspect_class(&self, number: usize, out: &mut Inspection<'_>) {
        let (node, tally, class) = (
            &self.nodes[number],
            &self.tallies[number],
            &self.plan.classes[number],
        );
        let settings = &class.settings;
        let waits = node.flags & OVER != 0 && node.demand != 0;
        let state = match () {
            () if node.flags & ASLEEP != 0 => "asleep",
            () if node.demand == 0 => "idle",
            () if !self.rules.formal && node.flags & LISTED == 0 => "suspended",
            () if !waits => "ready",
            () if node.flags & BORROW != 0 => "borrowing",
            () => "suspended",
        };
        out.gauge("state", Value::State(state));
        out.gauge(
            "rate",
            Value::Bandwidth(Bandwidth::bits_per_sec(node.credit.rate)),
        );
        out.gauge("priority", Value::Count(u64::from(node.priority)));
        out.gauge("credit", Value::Credit(node.credit.left / NANOBITS));
        out.gauge("maxburst", Value::Count(u64::from(settings.maxburst)));
        out.gauge("minburst", Value::Count(u64::from(settings.minburst)));
        out.gauge("over", Value::Count(tally.over));
        out.gauge("delays", Value::Count(tally.delays));
        out.gauge("borrows", Value::Count(tally.borrows));
        out.gauge("borrowed", Value::Bytes(Bytes::new(tally.borrowed)));
        out.gauge("lent", Value::Bytes(Bytes::new(tally.lent)));
    }

    /// Takes over the rates and rules of a plan of the same shape; packets, credits and turns stay.
    fn adopt(&mut self, plan: &CbqPlan, now: u64) {
        let clock = if self.backlogged > 0 {
            self.clock.at(now, self.since())
        } else {
            self.clock.idle(now)
        };
        let rings = |plan: &CbqPlan| -> Vec<_> {
            plan.classes
                .iter()
                .map(|class| (class.settings.priority, class.settings.borrow))
                .collect()
        };
        let moved = rings(plan) != rings(&self.plan)
            || plan.settings.sharing != self.plan.settings.sharing
            || plan.settings.excess != self.plan.settings.excess;
        let waiting: Vec<usize> = (0..self.leaves())
            .filter(|&leaf| moved && self.nodes[leaf].demand != 0)
            .collect();
        waiting.iter().for_each(|&leaf| self.leave(leaf, clock));
        let reweighted = plan.weights != self.plan.weights;
        self.plan = plan.clone();
        if reweighted {
            self.adopt_weights();
        }
        self.rules = Rules::new(plan);
        self.renew_shortcuts();
        self.clock.retune(plan.link, plan.settings.link_burst, now);
        for number in 0..self.link() {
            self.adopt_class(number, clock, now);
        }
        let since = self.clock.ready();
        waiting
            .iter()
            .for_each(|&leaf| self.join(leaf, clock, now, since));
    }

    /// Members move to the lanes of their new weights, with what is left of their turns.
    fn adopt_weights(&mut self) {
        let next = |set: usize, place: &mut Membership| match set < PRIORITIES {
            true => place.row.next,
            false => place.feed.next,
        };
        let members = self.sets.members(&mut self.places, next);
        self.sets = self.plan.sets();
        for number in 0..self.link() {
            let (own, lent) = (self.plan.weights.own[number], self.plan.weights.lent[number]);
            for place in self.place_of(number, 0)..=self.place_of(number, PRIORITIES - 1) {
                self.places[place as usize].own.weight = own;
                self.places[place as usize].lent.weight = lent;
            }
        }
        for (set, place) in members {
            let places = &mut self.places;
            let _ = match set < PRIORITIES {
                true => self.sets.insert(places, Membership::own, set, place),
                false => self.sets.insert(places, Membership::lent, set, place),
            };
        }
    }

    fn adopt_class(&mut self, number: usize, clock: u64, now: u64) {
        self.accrue(number, clock);
        let class = &self.plan.classes[number];
        let (fresh, node) = (class.node(), &mut self.nodes[number]);
        node.priority = fresh.priority;
        node.flags = node.flags & !BORROW | fresh.flags & BORROW;
        if !node.credit.adopt(fresh.credit) {
            return;
        }
        if !self.rules.formal && node.is_listed_leaf() {
            return self.watch(number);
        }
        if node.demand != 0 && node.flags & LISTED == 0 {
            // It is regulated: its timer changes.
            self.wheel.cancel(number as u32);
            match self.rules.formal {
                true => self.regulate(number, now),
                false => self.list_all(number, self.clock.ready()),
            }
        }
    }
}
