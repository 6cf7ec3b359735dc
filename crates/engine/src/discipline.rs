//! The contract of a queueing discipline. Start here to write one; `disciplines/fifo.rs` is the
//! template.
//!
//! ALTQ's four operations (Cho, "Managing traffic with ALTQ" and the journal paper of 1999, section
//! 2: ENQUEUE, DEQUEUE, PEEK, FLUSH), sharpened:
//!
//! - time is an argument and never goes backwards; randomness was given at construction;
//! - DEQUEUE has three answers, so a queue that is not work-conserving says *when* it will have a
//!   packet: there are no timers (ALTQ: callouts; Linux: watchdogs);
//! - PEEK is not the author's business: [`Queue`](crate::queue::Queue) pins the packet;
//! - every drop goes through a [`Sink`] with a [`Reason`];
//! - a discipline owns its children, as `Queue`s, and never calls its parent.
//!
//! `enqueue`, `dequeue` and `flush` make a discipline; `inspect` and `retune` serve the operator.
//! The others have defaults that fit all but the few that pace in bytes of a wire or serve very
//! many queues. The defaults of the two for bursts call the discipline's own `enqueue` and
//! `dequeue` without a look at a table, so a burst pays the calls and checks around it once.

use crate::bounds::{Terms, WorstCase};
use crate::carry_over::CarryOver;
use crate::class_name::ClassName;
use crate::inspect::{Inspection, Value};
use crate::link::Link;
use crate::packet::{ClassId, Packet};
use crate::portion::Portion;
use crate::prefetch::Prefetched;
use crate::random::{Rng, Seed};
use crate::settings::Table;
pub use crate::sink::{Outlet, Reason, Sink};
use crate::stats::Count;
use crate::units::{Bandwidth, Bytes, Duration, Instant};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// What happened to the packet that was offered. Other packets that were dropped to make room for
/// it (from the head, from the longest queue) go to the sink and do not show here.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is queued.
    Queued,
    /// It was dropped: it went to the sink, for this reason.
    Dropped(Reason),
}

/// What a queue can send now.
#[must_use]
#[derive(PartialEq, Eq, Debug)]
pub enum Next<P> {
    /// This packet, now.
    Ready(P),
    /// There is a backlog, but nothing may leave before this time, which is later than `now`.
    /// Asking earlier is harmless; the answer may become earlier when another packet is enqueued.
    Wait(Instant),
    /// There is no backlog.
    Empty,
}

/// A queueing discipline: only the algorithm. It does not count, log, sleep or lock; its host and
/// [`Queue`](crate::queue::Queue) do, and check this contract.
pub trait Discipline: fmt::Debug + Send + Any {
    /// Queues the packet, or drops it into the sink and says so. May drop others.
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict;

    /// The next packet that may leave. May drop on the way. `Empty` if and only if there is no
    /// backlog.
    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet>;

    /// Queues these packets in order, each at its time of [arrival](Packet::arrived): exactly as so
    /// many calls of `enqueue`. Returns how many of those were answered with
    /// [`Verdict::Dropped`]; `packets` is empty then.
    fn enqueue_burst(&mut self, packets: &mut Vec<Packet>, sink: &mut dyn Sink) -> u32 {
        let mut refused = 0;
        for packet in packets.drain(..) {
            let verdict = self.enqueue(packet.arrived, packet, sink);
            refused += u32::from(verdict != Verdict::Queued);
        }
        refused
    }

    /// Sends what may leave now, packet by packet, until there is no such packet or `outlet` wants
    /// no more (then it is `Ready`): exactly as calls of `dequeue`.
    fn dequeue_burst(&mut self, now: Instant, outlet: &mut dyn Outlet) -> Next<()> {
        loop {
            match self.dequeue(now, outlet) {
                Next::Ready(packet) => {
                    if !outlet.send(packet) {
                        return Next::Ready(());
                    }
                }
                Next::Wait(until) => return Next::Wait(until),
                Next::Empty => return Next::Empty,
            }
        }
    }

    /// Drops the backlog as far as the portion goes, each packet with [`Reason::Flushed`], and
    /// each flow's in order. If the portion is spent then, there may be more to do, and nothing
    /// else is asked of the discipline before further portions have ended that; in portions it
    /// does what it does at once. Needed because a queue that is not work-conserving cannot be
    /// emptied by a loop of dequeues, and a host may have no time for all.
    /// [`Portion::flush`] does it for a list of packets, a [`Tour`](crate::portion::Tour) goes
    /// from queue to queue, and a queue takes the portion on.
    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink);

    /// Reports gauges (state worth seeing), and each class with its queue; for a class with child
    /// classes, the counts of all below it.
    fn inspect(&self, _out: &mut Inspection<'_>) {}

    /// Adopts the settings of a plan of the same shape, and its children's, while packets are
    /// queued. `false` if it cannot; then nothing has changed. The default: nothing can change at
    /// run time.
    fn retune(&mut self, _now: Instant, _plan: &dyn Plan) -> bool {
        false
    }

    /// Of a plan whose [changed classes](Plan::changed_classes) are known, adopts what is no
    /// class's: its own settings, and what all classes have in common. Each of those classes then
    /// adopts what is its. In a time that does not grow with the number of classes. `false` if it
    /// cannot; then nothing has changed. The default: it cannot.
    fn retune_own(&mut self, _now: Instant, _plan: &dyn Plan) -> bool {
        false
    }

    /// The same, of a plan in which only the settings of this class of its own differ; in a time
    /// that does not grow with the number of classes. `false` if it cannot; then nothing has
    /// changed. The default: it cannot, and its host has it adopt the whole plan.
    fn retune_class(&mut self, _now: Instant, _plan: &dyn Plan, _class: ClassId) -> bool {
        false
    }

    /// A leaf class of its own becomes another class, of the same number, parent and no past, with
    /// the settings of a plan that differs in nothing but settings beside; in a time that does not
    /// grow with the number of classes or packets. The former queue is returned, with its backlog.
    /// `None` if it cannot; then nothing has changed. The default: it cannot, and its host builds a
    /// new tree.
    fn renew_class(
        &mut self,
        _now: Instant,
        _plan: &dyn Plan,
        _class: ClassId,
        _queue: BuiltQueue,
    ) -> Option<Box<dyn DetachedQueue>> {
        None
    }

    /// The queue of a leaf class of its own is exchanged for an empty one of the same kind, whose
    /// counts go on; what the class has beside stays. The former one is returned, with its backlog;
    /// in a time that does not grow with the number of classes or packets. `None` if it cannot; the
    /// default.
    fn exchange_queue(
        &mut self,
        _now: Instant,
        _class: ClassId,
        _queue: BuiltQueue,
    ) -> Option<Box<dyn DetachedQueue>> {
        None
    }

    /// Goes on where another one of its kind leaves off: takes over all that this knows of flows,
    /// delays and drops, but for its packets, which follow: each [handed
    /// on](Packet::handed_on), in the order in which the other one is flushed, which is all that is
    /// still asked of it. Then this one does whatever the other one would have done. Nothing has
    /// passed through it. Returns how many places it has looked at, beyond a few: no more than
    /// there are flows with a backlog. Of settings that say how what is known is kept, such as the
    /// number of flows, others may be in force here: then it takes over nothing. The default: it
    /// never does, and [its kind](crate::kind::Properties::takes_over) says so.
    fn take_over(&mut self, _now: Instant, _former: &mut dyn Discipline) -> u32 {
        0
    }

    /// The discipline in the queue of this class, which is a leaf of its own, or one of a
    /// discipline inside; in a time that does not grow with the number of classes. The default:
    /// there are no classes.
    fn leaf(&mut self, _class: ClassId) -> Option<&mut dyn Discipline> {
        None
    }

    /// The discipline of which this class is one of its own: this one, or one inside; in a time
    /// that does not grow with the number of classes. The default: there are no classes.
    fn owner(&mut self, _class: ClassId) -> Option<&mut dyn Discipline> {
        None
    }

    /// A class of its own goes on where the class `was` of `former`, whose own it is, leaves off:
    /// as far ahead of its share or behind it, before any packet follows, all of which are [handed
    /// on](Packet::handed_on) in the order in which `former` is flushed. Both have the parent's
    /// other children, or most of them. In a time that does not grow with the number of classes.
    /// Nothing happens if `former` is of another kind; the default: a class keeps nothing, and [the
    /// kind](crate::kind::Properties::keeps_turns) says so.
    fn take_over_class(
        &mut self,
        _now: Instant,
        _class: ClassId,
        _former: &mut dyn Discipline,
        _was: ClassId,
    ) {
    }

    /// After [`Next::Wait`], for a host that keeps its wire busy: the wire slot of the gap frame to
    /// send now, no longer than `longest` where that can be done; it counts as sent. `None`: the
    /// host waits. The default: time is not counted in bytes.
    fn gap(&mut self, _longest: Bytes) -> Option<Bytes> {
        None
    }

    /// Deficits that a new tree takes over from the one that it replaces. The default: there are
    /// none.
    fn carry_over(&mut self) -> Option<&mut dyn CarryOver> {
        None
    }

    /// Reads what the next packet needs, so that it is in the cache by then; see [`Prefetched`].
    /// The default: reads nothing.
    fn prefetch(&self) -> Prefetched {
        Prefetched::NOTHING
    }

    /// Reads what these packets will need when they are enqueued, which is next. The default: reads
    /// nothing.
    fn prefetch_arrivals(&self, _packets: &[Packet]) -> Prefetched {
        Prefetched::NOTHING
    }
}

/// A checked configuration of a discipline.
pub trait Plan: Any + fmt::Debug + Send + Sync {
    /// Makes the discipline. Cannot fail.
    fn build(&self, cx: &Build) -> Box<dyn Discipline>;

    /// The worst case of each of its classes, or of itself if it has none. The default: none is
    /// known.
    fn bounds(&self, _terms: &Terms<'_>) -> Vec<WorstCase> {
        Vec::new()
    }

    /// The worst cases of this class of its own, and of those in its queue, where neither these nor
    /// what it is [served](Plan::serves) depends on other classes of its own, nor theirs on it.
    /// `None` if it may; the default.
    fn bounds_of(&self, _class: ClassId, _terms: &Terms<'_>) -> Option<Vec<WorstCase>> {
        None
    }

    /// Whether it never waits with a backlog, where that depends on the queues below it. The
    /// default: it may wait.
    fn conserves_work(&self) -> bool {
        false
    }

    /// The rate that the queue of this class gets at least of a link of this bandwidth, whenever it
    /// has packets; none: that of the queue below all wrappers. The default: a discipline without
    /// a wrapper gets the link, and nothing is guaranteed to a class.
    fn serves(&self, class: Option<ClassId>, link: Bandwidth) -> Option<Bandwidth> {
        class.is_none().then_some(link)
    }

    /// How what it gets is shared, if each of its own classes is [served](Plan::serves) its
    /// [part](Plan::part_of) of a whole, and its queue passes on all of that, to no classes in it.
    /// In a time that does not grow with the number of classes. `None` if it may be otherwise; the
    /// default.
    fn shares(&self) -> Option<Shares> {
        None
    }

    /// The part of this class of its own of the [whole](Shares::whole). The default: there are no
    /// parts.
    fn part_of(&self, _class: ClassId) -> Option<u64> {
        None
    }

    /// The plan that a [check](crate::kind::Kind::check) of the whole makes when one class of its
    /// own has other settings, or [is another one](ChangedClass::renewed); without a look at the
    /// others. `None` if it cannot tell, or the check
    /// would report anything: then the whole is checked. The default: it cannot.
    fn amended(&self, _change: &ChangedClass<'_>) -> Option<Arc<dyn Plan>> {
        None
    }

    /// Its own classes whose settings differ from a former plan's with the same classes, or places
    /// for them; with `queues`, also those that have a queue, since what follows from the link may
    /// differ in it. `None` if anything else differs that is not [its own
    /// alone](Discipline::retune_own), or it cannot tell; the default.
    fn changed_classes(&self, _former: &dyn Plan, _queues: bool) -> Option<Vec<ClassId>> {
        None
    }

    /// The settings of a class of its own, by the gauges with which [`Discipline::inspect`] shows
    /// them: by these a host sees whether what runs is what it asked for. The default: none is
    /// shown.
    fn settings_of(&self, _class: ClassId) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// Makes the discipline of the queue of a leaf class of its own, or of that in whose queue the
    /// class is. `None` if its queues cannot be exchanged one by one; the default.
    fn build_class(&self, _class: ClassId, _cx: &Build) -> Option<BuiltQueue> {
        None
    }

    /// What it needs of its host, if it determines when packets start and not only their order. The
    /// default: nothing.
    fn pacing(&self) -> Option<Pacing> {
        None
    }
}

impl dyn Discipline {
    /// This discipline, if it is of this type.
    pub fn of_type<D: Discipline>(&mut self) -> Option<&mut D> {
        let any: &mut dyn Any = self;
        any.downcast_mut()
    }
}

/// A queue that was taken out of its tree, with its backlog.
pub trait DetachedQueue: fmt::Debug + Send {
    /// What it holds.
    fn held(&self) -> Count;

    /// Its discipline, for one that [takes over](Discipline::take_over) from it.
    fn discipline(&mut self) -> &mut dyn Discipline;

    /// Empties it as far as the portion goes, as [`Discipline::flush`] does. What is empty is
    /// dropped.
    fn empty(&mut self, portion: &mut Portion, sink: &mut dyn Sink);
}

/// The discipline of a queue, and the name of its kind.
#[derive(Debug)]
pub struct BuiltQueue {
    /// The name.
    pub kind: &'static str,
    /// The discipline, without packets.
    pub discipline: Box<dyn Discipline>,
}

/// How what a discipline gets is shared by its own classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shares {
    /// The sum of the parts of all.
    pub whole: u64,
    /// How many there are, places for others not counted.
    pub classes: u64,
}

/// A class of a discipline that gets other settings.
#[derive(Clone, Copy, Debug)]
pub struct ChangedClass<'a> {
    /// The class.
    pub class: ClassId,
    /// The settings that it gets, the generic ones left out.
    pub settings: &'a Table,
    /// The discipline's own.
    pub of_discipline: &'a Table,
    /// The link.
    pub link: Link,
    /// The leaf that it is from now on, if it is another class.
    pub renewed: Option<RenewedLeaf<'a>>,
}

/// A leaf that takes the place of another one, with no past.
#[derive(Clone, Copy, Debug)]
pub struct RenewedLeaf<'a> {
    /// Its name.
    pub name: &'a ClassName,
    /// Whether it is only a place for a class that may come.
    pub vacant: bool,
    /// Its queue, in which there are no classes: a [`QueuePlan`](crate::kind::QueuePlan), which
    /// this module does not know.
    pub queue: &'a dyn Any,
}

/// What a pacing discipline needs of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pacing {
    /// The speed of the wire that its computations assume.
    pub wire: Bandwidth,
    /// Whether gap frames are to keep that busy.
    pub frames: bool,
    /// The shortest time between two of its longest packets, of the fastest class. A host that
    /// catches up no more than this after a hold-up sends one packet ahead of the rate of no class.
    pub period: Duration,
}

/// What `build` may use: randomness of its own.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    seed: Seed,
}

impl Build {
    /// For the root of a tree.
    pub fn new(seed: Seed) -> Self {
        Self { seed }
    }

    /// For a part with this name; its randomness depends on the path of names alone.
    #[must_use]
    pub fn part(&self, name: &str) -> Self {
        Self {
            seed: self.seed.fork(name),
        }
    }

    /// The part's stream.
    pub fn rng(&self) -> Rng {
        self.seed.stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says only what it must.
    #[derive(Debug)]
    struct SilentPlan;

    impl Plan for SilentPlan {
        fn build(&self, _: &Build) -> Box<dyn Discipline> {
            Box::new(SilentDiscipline)
        }
    }

    #[derive(Debug)]
    struct SilentDiscipline;

    impl Discipline for SilentDiscipline {
        fn enqueue(&mut self, _: Instant, _: Packet, _: &mut dyn Sink) -> Verdict {
            Verdict::Queued
        }
        fn dequeue(&mut self, _: Instant, _: &mut dyn Sink) -> Next<Packet> {
            Next::Empty
        }
        fn flush(&mut self, _: &mut Portion, _: &mut dyn Sink) {}
    }

    #[test]
    fn a_plan_that_says_nothing_promises_a_class_nothing_and_gives_what_is_below_wrappers_the_link() {
        let (plan, rate, class) = (SilentPlan, Bandwidth::mbit(7), ClassId(0));
        assert_eq!(
            (plan.serves(None, rate), plan.serves(Some(class), rate)),
            (Some(rate), None)
        );
        assert_eq!(plan.changed_classes(&SilentPlan, false), None);
        assert_eq!((plan.shares(), plan.part_of(class)), (None, None));
        assert!(!plan.conserves_work() && plan.settings_of(class).is_empty());
        assert!(plan.pacing().is_none());
        let cx = Build::new(Seed(5));
        assert!(plan.build_class(class, &cx).is_none());
        let change = ChangedClass {
            class,
            settings: &Table::default(),
            of_discipline: &Table::default(),
            link: Link::new(rate, Bytes::new(1_500)),
            renewed: None,
        };
        assert!(plan.amended(&change).is_none());
    }

    #[test]
    fn a_discipline_that_says_nothing_adopts_and_takes_over_nothing() {
        let (now, class) = (Instant::START, ClassId(0));
        let mut built = SilentPlan.build(&Build::new(Seed(5)));
        assert!(!built.retune(now, &SilentPlan) && !built.retune_own(now, &SilentPlan));
        assert!(!built.retune_class(now, &SilentPlan, class));
        assert_eq!(built.take_over(now, &mut SilentDiscipline), 0);
        assert!(built.leaf(class).is_none() && built.owner(class).is_none());
        assert!(built.carry_over().is_none() && built.gap(Bytes::new(84)).is_none());
        assert!(built.of_type::<SilentDiscipline>().is_some());
    }

    #[test]
    fn the_randomness_of_a_part_is_that_of_its_path() {
        let part = Build::new(Seed(5)).part("a").part("b");
        assert_eq!(part.rng().bits(), Seed(5).fork("a").fork("b").stream().bits());
    }
}
