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
//!
//! `root_rate` asks for these modes as ns-2 and ALTQ shipped them: the link has an estimator with
//! that rate, and every class has a moving average instead of a credit (see `averaging`).

mod averaging;
mod crediting;
mod estimator;
mod inspection;
mod older;
mod passed_over;
mod plan;
#[cfg(test)]
mod reference;
mod retuning;
mod rows;
mod settings;
mod shares;
mod state;
#[cfg(test)]
mod tests;
mod turns;

pub use settings::{ClassSettings, Excess, PacedBy, RoundRobin, Settings, Sharing};

use crate::bounds::{Terms, WorstCase};
use crate::discipline::{
    Build, BuiltQueue, ChangedClass, DetachedQueue, Discipline, Next, Plan, Sink, Verdict,
};
use crate::inspect::{Inspection, Value};
use crate::kind::{Children, Kind, Properties};
use crate::link_clock::CreditClock;
use crate::packet::{ClassId, Packet};
use crate::portion::Portion;
use crate::prefetch::Prefetched;
use crate::queue::Queue;
use crate::sharing::by_rates::ByRates;
use crate::sharing::credit_bound;
use crate::units::{Bandwidth, Instant};
use averaging::Averaging;
use plan::{CbqPlan, ClassPlan, check};
use state::Cbq;
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
        reserves: Some(&ByRates {
            leaf: "rate",
            parent: "rate",
            credits: true,
        }),
        isolates: true,
        vacancies: true,
        keeps_turns: true,
        elsewhere: &["htb", "cbq-wrr", "cbq-prr"],
        ..Properties::NONE
    },
    check,
};

fn plan_of(plan: &dyn Plan) -> Option<&CbqPlan> {
    let plan: &dyn Any = plan;
    plan.downcast_ref()
}

impl Plan for CbqPlan {
    fn bounds(&self, terms: &Terms<'_>) -> Vec<WorstCase> {
        let patience = (self.settings.link == PacedBy::Port).then_some(self.settings.link_burst);
        let formal = self.settings.sharing == Sharing::Formal && self.settings.tick.is_none();
        credit_bound::all(
            self.classes
                .iter()
                .take(self.leaves)
                .filter_map(ClassPlan::credited)
                .collect(),
            terms,
            formal,
            patience,
            self.ceiling(),
        )
    }

    /// By itself where there is no bound, since nobody states arrivals; of classes in its queue it
    /// is not said.
    fn bounds_of(&self, class: ClassId, terms: &Terms<'_>) -> Option<Vec<WorstCase>> {
        if terms.arrivals.iter().any(Option::is_some) {
            return None;
        }
        let leaf = self.numbers.own(class.0).filter(|own| *own < self.leaves);
        let queue = leaf.and_then(|leaf| self.classes.get(leaf)?.queue.as_ref());
        let bound = Err(terms.arrivals(class).err()?);
        match queue {
            None => Some(Vec::new()),
            Some(queue) if queue.kind.children == Children::None => Some(vec![WorstCase {
                class: Some(class),
                bound,
            }]),
            Some(_) => None,
        }
    }

    fn serves(&self, class: Option<ClassId>, link: Bandwidth) -> Option<Bandwidth> {
        let Some(class) = class else { return Some(link) };
        let leaf = self.classes.get(self.routes.child(class)?)?;
        let below = (leaf.id != class).then_some(class);
        let own = Bandwidth::bits_per_sec(leaf.credit.rate);
        leaf.queue.as_ref()?.plan.serves(below, own)
    }

    fn amended(&self, change: &ChangedClass<'_>) -> Option<Arc<dyn Plan>> {
        self.with_leaf(change).map(|plan| Arc::new(plan) as Arc<dyn Plan>)
    }

    fn changed_classes(&self, former: &dyn Plan, queues: bool) -> Option<Vec<ClassId>> {
        self.changed_classes(plan_of(former)?, queues)
    }

    fn settings_of(&self, class: ClassId) -> Vec<(&'static str, Value)> {
        let class = self
            .numbers
            .own(class.0)
            .and_then(|number| self.classes.get(number));
        class
            .map(|class| inspection::shown(class).into())
            .unwrap_or_default()
    }

    fn build_class(&self, class: ClassId, cx: &Build) -> Option<BuiltQueue> {
        let class = &self.classes[self.routes.child(class)?];
        let queue = class.queue.as_ref()?;
        Some(BuiltQueue {
            kind: queue.kind.name,
            discipline: queue.plan.build(&cx.part(&class.name)),
        })
    }

    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        // Leaves have queues, so that no more memory is taken than for these.
        let mut queues = Vec::with_capacity(self.leaves);
        queues.extend(self.classes.iter().filter_map(|class| {
            let queue = class.queue.as_ref()?;
            Some(queue.build(&cx.part(&class.name)))
        }));
        let clock = CreditClock::new(self.link, self.settings.link_burst);
        Box::new(Mode::new(self.clone(), queues, clock))
    }
}

/// A tree by credits or, if the link has an estimator, by averages. Boxed, as their sizes differ.
#[derive(Debug)]
enum Mode {
    Crediting(Box<Cbq>),
    Averaging(Box<Averaging>),
}

impl Mode {
    /// A tree of this plan with these queues, all of its classes idle.
    fn new(plan: CbqPlan, queues: Vec<Queue>, clock: CreditClock) -> Self {
        match plan.settings.root_rate {
            None => Self::Crediting(Box::new(Cbq::new(plan, queues, clock))),
            Some(_) => Self::Averaging(Box::new(Averaging::new(plan, queues, clock))),
        }
    }

    fn plan(&self) -> &CbqPlan {
        match self {
            Self::Crediting(cbq) => &cbq.plan,
            Self::Averaging(cbq) => &cbq.plan,
        }
    }

    /// Whether a class may not have the values of the plan yet.
    fn is_by_class(&self) -> bool {
        match self {
            Self::Crediting(cbq) => cbq.by_class,
            Self::Averaging(cbq) => cbq.by_class,
        }
    }

    fn queues(&mut self) -> &mut Vec<Queue> {
        match self {
            Self::Crediting(cbq) => &mut cbq.queues,
            Self::Averaging(cbq) => &mut cbq.queues,
        }
    }

    /// Takes over a plan with another rule: packets and counts stay, credits and averages start
    /// anew.
    fn change_over(&mut self, plan: &CbqPlan, now: u64) {
        let queues = std::mem::take(self.queues());
        let (mut clock, tallies) = match self {
            Self::Crediting(cbq) => {
                (0..=cbq.link()).for_each(|number| cbq.settle_tally(number));
                (cbq.clock.clone(), std::mem::take(&mut cbq.tallies))
            }
            Self::Averaging(cbq) => (cbq.clock.clone(), std::mem::take(&mut cbq.tallies)),
        };
        clock.retune(plan.link, plan.settings.link_burst, now);
        *self = Self::new(plan.clone(), queues, clock);
        match self {
            Self::Crediting(cbq) => {
                cbq.tallies = tallies;
                cbq.resume(now);
            }
            Self::Averaging(cbq) => {
                cbq.tallies = tallies;
                cbq.resume(now);
            }
        }
    }
}

impl Discipline for Mode {
    #[inline]
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        match self {
            Self::Crediting(cbq) => cbq.enqueue(now, packet, sink),
            Self::Averaging(cbq) => cbq.enqueue(now, packet, sink),
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        match self {
            Self::Crediting(cbq) => cbq.dequeue(now, sink),
            Self::Averaging(cbq) => cbq.dequeue(now, sink),
        }
    }

    fn prefetch_arrivals(&self, packets: &[Packet]) -> Prefetched {
        match self {
            Self::Crediting(cbq) => cbq.prefetch_arrivals(packets),
            Self::Averaging(cbq) => cbq.prefetch_arrivals(packets),
        }
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        match self {
            Self::Crediting(cbq) => cbq.flush(portion, sink),
            Self::Averaging(cbq) => cbq.flush(portion, sink),
        }
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        match self {
            Self::Crediting(cbq) => cbq.inspect(out),
            Self::Averaging(cbq) => cbq.inspect(out),
        }
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let Some(plan) = plan_of(plan) else { return false };
        let shape = |plan: &CbqPlan| -> Vec<_> {
            let kind = |class: &ClassPlan| class.queue.as_ref().map(|queue| queue.kind.name);
            plan.classes
                .iter()
                .map(|class| (class.id, class.parent, kind(class)))
                .collect()
        };
        if shape(plan) != shape(self.plan()) {
            return false;
        }
        let queues = self.queues().iter_mut().zip(plan.classes.iter());
        let adopted = queues
            .filter_map(|(queue, class)| Some(queue.retune(now, class.queue.as_ref()?.plan.as_ref())))
            .fold(true, |all, one| all & one);
        if !self.is_by_class() && plan.has_values_of(self.plan()) {
            return adopted;
        }
        match (&mut *self, plan.settings.root_rate) {
            (Self::Crediting(cbq), None) => cbq.adopt(plan, now.nanos()),
            (Self::Averaging(cbq), Some(_)) => cbq.adopt(plan, now.nanos()),
            _ => self.change_over(plan, now.nanos()),
        }
        adopted
    }

    fn retune_own(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let alike = |plan: &&CbqPlan| plan.settings.differ_little(&self.plan().settings);
        match (plan_of(plan).filter(alike), self) {
            (Some(plan), Self::Crediting(cbq)) => cbq.adopt_plan(plan, now.nanos()),
            (Some(plan), Self::Averaging(cbq)) => cbq.adopt_plan(plan, now.nanos()),
            (None, _) => return false,
        }
        true
    }

    fn retune_class(&mut self, now: Instant, plan: &dyn Plan, class: ClassId) -> bool {
        match (self, plan_of(plan)) {
            (Self::Crediting(cbq), Some(plan)) => {
                cbq.retune_leaf(now, plan, class) || cbq.retune_inner(now, plan, class)
            }
            (Self::Averaging(cbq), Some(plan)) => cbq.retune_one(now, plan, class),
            _ => false,
        }
    }

    fn renew_class(
        &mut self,
        now: Instant,
        plan: &dyn Plan,
        class: ClassId,
        queue: BuiltQueue,
    ) -> Option<Box<dyn DetachedQueue>> {
        match (self, plan_of(plan)) {
            (Self::Crediting(cbq), Some(plan)) => cbq.renew_leaf(now, plan, class, queue),
            _ => None,
        }
    }

    fn leaf(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        let plan = self.plan();
        let leaf = plan.routes.child(class)?;
        let is_own = plan.classes[leaf].id == class;
        let discipline = self.queues().get_mut(leaf)?.discipline_mut();
        match is_own {
            true => Some(discipline),
            false => discipline.leaf(class),
        }
    }

    fn owner(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        let plan = self.plan();
        if plan.numbers.own(class.0).is_some() {
            return Some(self);
        }
        let leaf = plan.routes.child(class)?;
        self.queues().get_mut(leaf)?.discipline_mut().owner(class)
    }

    fn take_over_class(&mut self, now: Instant, class: ClassId, former: &mut dyn Discipline, was: ClassId) {
        let Some(former) = former.of_type::<Self>() else {
            return;
        };
        let numbers = (self.plan().numbers.own(class.0), former.plan().numbers.own(was.0));
        let (Some(number), Some(was)) = numbers else {
            return;
        };
        match (self, former) {
            (Self::Crediting(own), Self::Crediting(former)) => own.succeed(number, former, was, now.nanos()),
            (Self::Averaging(own), Self::Averaging(former)) => own.succeed(number, former, was, now.nanos()),
            // What a class has by one rule means nothing by the other.
            _ => {}
        }
    }

    fn exchange_queue(
        &mut self,
        now: Instant,
        class: ClassId,
        queue: BuiltQueue,
    ) -> Option<Box<dyn DetachedQueue>> {
        let Self::Crediting(cbq) = self else { return None };
        let leaf = cbq.plan.routes.child(class)?;
        let successor = cbq.queues[leaf].successor(now, queue);
        Some(cbq.give(now, leaf, successor))
    }
}
