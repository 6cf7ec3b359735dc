//! The queues of a discipline's leaf classes: where a packet goes, and which of them have one to
//! send.
//!
//! A queue can have a backlog and release nothing before some time, so a leaf is idle, ready or
//! asleep. The discipline keeps its ready leaves in the order of its own rule: [`Leaves::enqueue`]
//! and [`Leaves::wake`] report a leaf that became ready, [`Leaves::peek`] and [`Leaves::dequeue`]
//! one that no longer is. A ready leaf can turn out to be empty, as a queue may drop its backlog.

use crate::class_name::ClassName;
use crate::discipline::{
    Build, BuiltQueue, DetachedQueue, Discipline, Next, Reason, RenewedLeaf, Sink, Verdict,
};
use crate::inspect::Inspection;
use crate::kind::{Check, ClassRoutes, QueuePlan};
use crate::packet::{ClassId, Packet};
use crate::portion::{Portion, Tour};
use crate::prefetch::Prefetched;
use crate::queue::{Queue, Stats};
use crate::sharing::class_numbers::ClassNumbers;
use crate::structures::shared_list::SharedList;
use crate::structures::timer_wheel::TimerWheel;
use crate::units::{Bandwidth, Bytes, Instant};
use std::sync::Arc;

/// From so many leaves on their memory is read ahead.
pub(crate) const MANY: usize = 4_096;

/// The number of a class that has no queue.
const NO_LEAF: u32 = u32::MAX;

/// A leaf as checked.
#[derive(Clone, Debug)]
struct Leaf {
    id: ClassId,
    name: ClassName,
    queue: QueuePlan,
}

/// The leaves of a checked discipline, numbered in the order of its classes.
#[derive(Clone, Debug)]
pub(crate) struct LeavesPlan {
    leaves: Arc<SharedList<Leaf>>,
    routes: Arc<ClassRoutes>,
    numbers: ClassNumbers,
}

impl LeavesPlan {
    /// Takes the queues of the classes that have one.
    pub(crate) fn new(check: &mut Check<'_>) -> Self {
        let (mut leaves, mut routes) = (Vec::new(), ClassRoutes::default());
        let mut numbers = vec![NO_LEAF; check.classes.len()];
        let is_leaf = |index: &usize| check.classes[*index].queue.is_some();
        for (number, index) in (0..check.classes.len()).filter(is_leaf).enumerate() {
            numbers[index] = number as u32;
        }
        let numbers = ClassNumbers::new(check, |index| numbers[index]);
        for class in &mut check.classes {
            let Some(queue) = class.queue.take() else { continue };
            let number = leaves.len() as u32;
            class.routes.iter().for_each(|&route| routes.add(route, number));
            leaves.push(Leaf {
                id: class.id,
                name: class.name.clone(),
                queue,
            });
        }
        Self {
            leaves: Arc::new(leaves.into()),
            routes: Arc::new(routes),
            numbers,
        }
    }

    /// The same with another class in place of this leaf's, or only a place for one.
    pub(crate) fn renewed(&self, leaf: usize, new: &RenewedLeaf<'_>) -> Option<Self> {
        let mut leaves = SharedList::clone(&self.leaves);
        let queue: &QueuePlan = new.queue.downcast_ref()?;
        let place = leaves.get_mut(leaf)?;
        (place.name, place.queue) = (new.name.clone(), queue.clone());
        Some(Self {
            leaves: Arc::new(leaves),
            ..self.clone()
        })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.leaves.len()
    }

    /// The own number of a leaf class.
    pub(crate) fn leaf_of(&self, class: ClassId) -> Option<usize> {
        let leaf = self.numbers.own(class.0)?;
        (leaf < self.leaves.len()).then_some(leaf)
    }

    /// Makes the discipline of the queue of the leaf that takes the packets of a class.
    pub(crate) fn build_class(&self, class: ClassId, cx: &Build) -> Option<BuiltQueue> {
        let leaf = self.leaves.get(self.routes.child(class)?)?;
        Some(BuiltQueue {
            kind: leaf.queue.kind.name,
            discipline: leaf.queue.plan.build(&cx.part(&leaf.name)),
        })
    }

    /// Whether another plan has as many leaves with the same numbers.
    pub(crate) fn is_numbered_as(&self, other: &Self) -> bool {
        let ids = |plan: &Self| plan.leaves.iter().map(|leaf| leaf.id).collect::<Vec<_>>();
        Arc::ptr_eq(&self.leaves, &other.leaves) || ids(self) == ids(other)
    }

    /// What the queue of this class gets at least, where `own` is what its leaf gets.
    pub(crate) fn serves(
        &self,
        class: Option<ClassId>,
        link: Bandwidth,
        own: impl Fn(usize) -> Option<Bandwidth>,
    ) -> Option<Bandwidth> {
        let Some(class) = class else { return Some(link) };
        let number = self.routes.child(class)?;
        let leaf = self.leaves.get(number)?;
        let below = (leaf.id != class).then_some(class);
        leaf.queue.plan.serves(below, own(number)?)
    }

    /// Each leaf's class, name and queue.
    pub(crate) fn each(&self) -> impl Iterator<Item = (ClassId, &str, &QueuePlan)> {
        self.leaves
            .iter()
            .map(|leaf| (leaf.id, leaf.name.as_str(), &leaf.queue))
    }

    /// Whether no queue waits with a backlog.
    pub(crate) fn conserve_work(&self) -> bool {
        self.leaves.iter().all(|leaf| leaf.queue.conserves_work())
    }

    /// Makes the queues.
    pub(crate) fn build(&self, cx: &Build) -> Leaves {
        let queue = |leaf: &Leaf| leaf.queue.build(&cx.part(&leaf.name));
        Leaves {
            queues: self.leaves.iter().map(queue).collect(),
            states: vec![State::Idle; self.leaves.len()],
            wheel: TimerWheel::new(self.leaves.len()),
            asleep: 0,
            ready: 0,
            changes: false,
            flushed: Tour::default(),
            plan: self.clone(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No backlog.
    Idle,
    /// Has a backlog, and is in the discipline's order.
    Ready,
    /// Was ready, and its queue has dropped its backlog; it is still in the discipline's order.
    Hollow,
    /// Has a backlog, of which nothing may leave before its timer.
    Asleep,
}

/// The leaves' queues.
#[derive(Debug)]
pub(crate) struct Leaves {
    queues: Vec<Queue>,
    states: Vec<State>,
    wheel: TimerWheel,
    asleep: usize,
    ready: usize,
    /// Whether the plan was adopted leaf by leaf: the queue of another may not have its settings
    /// yet.
    changes: bool,
    /// How far a flush has come.
    flushed: Tour,
    plan: LeavesPlan,
}

impl Leaves {
    /// Offers a packet to its leaf; also returns the leaf if the packet made it ready.
    #[inline(always)]
    pub(crate) fn enqueue(
        &mut self,
        now: Instant,
        packet: Packet,
        sink: &mut dyn Sink,
    ) -> (Verdict, Option<usize>) {
        let Some(leaf) = self.route(packet.class) else {
            sink.drop(packet, Reason::NoClass);
            return (Verdict::Dropped(Reason::NoClass), None);
        };
        let queue = &mut self.queues[leaf];
        let verdict = queue.enqueue(now, packet, sink);
        let ready = match (self.states[leaf], !queue.is_empty()) {
            (State::Ready, true) => None,
            (State::Idle, true) => {
                self.states[leaf] = State::Ready;
                self.ready += 1;
                Some(leaf)
            }
            (state, holds) => self.turn(leaf, state, holds),
        };
        (verdict, ready)
    }

    /// A packet was offered to a leaf in this state, which has a backlog or none now.
    #[inline(never)]
    fn turn(&mut self, leaf: usize, state: State, holds: bool) -> Option<usize> {
        match (state, holds) {
            (State::Ready, true) | (State::Hollow | State::Idle, false) => return None,
            (State::Ready, false) => self.enter(leaf, State::Hollow),
            (State::Hollow, true) => self.enter(leaf, State::Ready),
            (State::Asleep, false) => self.enter(leaf, State::Idle),
            // A sleeping queue may have a packet earlier now: it is polled again.
            (State::Idle | State::Asleep, true) => {
                self.enter(leaf, State::Ready);
                return Some(leaf);
            }
        }
        None
    }

    /// The leaf for packets of this class.
    pub(crate) fn route(&self, class: ClassId) -> Option<usize> {
        self.plan.routes.child(class)
    }

    /// The discipline in the queue of this class, a leaf or one in a leaf's queue.
    pub(crate) fn discipline(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        let leaf = self.route(class)?;
        let discipline = self.queues[leaf].discipline_mut();
        match self.plan.leaves[leaf].id == class {
            true => Some(discipline),
            false => discipline.leaf(class),
        }
    }

    /// The discipline inside of which this class is one of its own.
    pub(crate) fn owner(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        let leaf = self.route(class)?;
        self.queues[leaf].discipline_mut().owner(class)
    }

    /// The leaf of a class of the discipline's own.
    pub(crate) fn own(&self, class: ClassId) -> Option<usize> {
        self.plan.leaf_of(class)
    }

    /// A leaf whose timer has expired, which is ready now. To be called until it returns none.
    #[inline]
    pub(crate) fn wake(&mut self, now: Instant) -> Option<usize> {
        if self.asleep == 0 {
            return None;
        }
        let leaf = self.wheel.expire(now)? as usize;
        self.enter(leaf, State::Ready);
        Some(leaf)
    }

    /// The length of a ready leaf's next packet, which is pinned by this; none if it is no longer
    /// ready.
    #[inline(always)]
    pub(crate) fn peek(&mut self, leaf: usize, now: Instant, sink: &mut dyn Sink) -> Option<Bytes> {
        match self.queues[leaf].peek(now, sink) {
            Next::Ready(packet) => return Some(packet.len),
            Next::Wait(until) => self.sleep(leaf, until),
            Next::Empty => self.enter(leaf, State::Idle),
        }
        None
    }

    /// A ready leaf's next packet; without one, it is no longer ready. With one,
    /// [`Leaves::is_ready`] says whether it still is.
    #[inline(always)]
    pub(crate) fn dequeue(&mut self, leaf: usize, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        let queue = &mut self.queues[leaf];
        let next = queue.dequeue(now, sink);
        match &next {
            Next::Ready(_) if !queue.is_empty() => {}
            Next::Wait(until) => self.sleep(leaf, *until),
            _ => self.enter(leaf, State::Idle),
        }
        next
    }

    /// Whether a leaf has a packet that may leave.
    #[inline]
    pub(crate) fn is_ready(&self, leaf: usize) -> bool {
        self.states[leaf] == State::Ready
    }

    /// Reads what the next packet of a leaf needs of the leaf and its queue; then of the
    /// discipline.
    #[inline]
    pub(crate) fn prefetch(&self, leaf: usize) -> Prefetched {
        let state = Prefetched::word(self.states[leaf] as u64);
        self.queues[leaf].prefetch().and(state)
    }

    /// See [`Queue::prefetch_discipline`].
    #[inline]
    pub(crate) fn prefetch_discipline(&self, leaf: usize) -> Prefetched {
        self.queues[leaf].prefetch_discipline()
    }

    /// Reads what these packets will need, where there are very many leaves.
    #[inline]
    pub(crate) fn prefetch_arrivals(&self, packets: &[Packet]) -> Prefetched {
        if self.queues.len() < MANY {
            return Prefetched::NOTHING;
        }
        let leaves = || packets.iter().filter_map(|packet| self.route(packet.class));
        let read = leaves().fold(Prefetched::NOTHING, |read, leaf| {
            let state = Prefetched::word(self.states[leaf] as u64);
            let queue = self.queues[leaf].prefetch_arrival();
            read.and(state).and(queue)
        });
        leaves().fold(read, |read, leaf| read.and(self.queues[leaf].prefetch_place()))
    }

    /// When the first sleeping leaf wakes up, if any sleeps.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.wheel.next()
    }

    /// The discipline's answer when no leaf is ready.
    pub(crate) fn rest(&self) -> Next<Packet> {
        self.next().map_or(Next::Empty, Next::Wait)
    }

    /// Whether any leaf is ready.
    pub(crate) fn any_ready(&self) -> bool {
        self.ready > 0
    }

    /// A leaf's backlog in packets.
    pub(crate) fn packets(&self, leaf: usize) -> u64 {
        self.queues[leaf].backlog().packets
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    /// Drops the backlog of all, as far as the portion goes; all are idle when it is not spent.
    pub(crate) fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        let mut flushed = std::mem::take(&mut self.flushed);
        flushed.go_on(self.queues.len(), portion, |leaf, portion| {
            self.flush_leaf(leaf, portion, sink);
        });
        self.flushed = flushed;
    }

    /// The same of one leaf, which is no longer in the discipline's order.
    pub(crate) fn flush_leaf(&mut self, leaf: usize, portion: &mut Portion, sink: &mut dyn Sink) {
        if self.states[leaf] == State::Idle {
            return;
        }
        self.queues[leaf].flush(portion, sink);
        if !portion.is_spent() {
            self.enter(leaf, State::Idle);
        }
    }

    /// Reports the leaves, `gauges` before the queue's own.
    pub(crate) fn inspect(&self, out: &mut Inspection<'_>, gauges: impl Fn(usize, &mut Inspection<'_>)) {
        let (window, leaves) = (out.window(), self.queues.len());
        let shown = self.plan.numbers.shown(&window).filter(|number| *number < leaves);
        shown.for_each(|number| self.inspect_one(number, out, &gauges));
        for leaf in self.plan.numbers.inside(&window) {
            self.inspect_inside(leaf, out);
        }
    }

    /// Reports the classes in the queue of a leaf that is not shown itself.
    pub(crate) fn inspect_inside(&self, leaf: usize, out: &mut Inspection<'_>) {
        out.inside(|out| self.queues[leaf].inspect(out));
    }

    /// Reports one leaf.
    pub(crate) fn inspect_one(
        &self,
        leaf: usize,
        out: &mut Inspection<'_>,
        gauges: impl FnOnce(usize, &mut Inspection<'_>),
    ) {
        out.class(self.plan.leaves[leaf].id, |out| {
            gauges(leaf, out);
            self.queues[leaf].inspect(out);
        });
    }

    /// What has passed through a leaf.
    pub(crate) fn stats(&self, leaf: usize) -> Stats {
        self.queues[leaf].stats()
    }

    /// Whether a plan has the same classes with the same kinds of queues, so that it can be
    /// adopted.
    pub(crate) fn is_alike(&self, plan: &LeavesPlan) -> bool {
        let shape = |leaf: &Leaf| (leaf.id, leaf.queue.kind.name);
        self.is_of(plan)
            || plan
                .leaves
                .iter()
                .map(shape)
                .eq(self.plan.leaves.iter().map(shape))
    }

    /// Whether a plan has the very leaves that these were made of.
    pub(crate) fn is_of(&self, plan: &LeavesPlan) -> bool {
        Arc::ptr_eq(&plan.leaves, &self.plan.leaves)
    }

    /// The leaf of a class that has the same number in a plan of as many leaves.
    pub(crate) fn known(&self, plan: &LeavesPlan, class: ClassId) -> Option<usize> {
        let leaf = plan.leaf_of(class)?;
        let known = plan.leaves.len() == self.queues.len() && self.plan.leaves[leaf].id == class;
        known.then_some(leaf)
    }

    /// Adopts a plan of which only the settings of one leaf are new; `false` if its queue cannot.
    pub(crate) fn retune_one(&mut self, now: Instant, plan: &LeavesPlan, leaf: usize) -> bool {
        if self.is_of(plan) && !self.changes {
            return true;
        }
        self.adopt_leaf_by_leaf(plan);
        let queue = &plan.leaves[leaf].queue;
        queue.kind.name == self.queues[leaf].kind() && self.queues[leaf].retune(now, &*queue.plan)
    }

    fn adopt_leaf_by_leaf(&mut self, plan: &LeavesPlan) {
        self.changes = true;
        self.plan = plan.clone();
    }

    /// A leaf is another class's from now on, with this queue. Its own is returned.
    pub(crate) fn renew(
        &mut self,
        plan: &LeavesPlan,
        leaf: usize,
        queue: BuiltQueue,
    ) -> Box<dyn DetachedQueue> {
        self.adopt_leaf_by_leaf(plan);
        self.give(leaf, Queue::new(queue.kind, queue.discipline))
    }

    /// Gives the leaf that takes the packets of a class another queue, whose counts go on. Its own
    /// is returned.
    pub(crate) fn exchange(
        &mut self,
        now: Instant,
        class: ClassId,
        queue: BuiltQueue,
    ) -> Option<Box<dyn DetachedQueue>> {
        let leaf = self.route(class)?;
        let successor = self.queues[leaf].successor(now, queue);
        Some(self.give(leaf, successor))
    }

    /// Gives a leaf an empty queue. If it was ready, it is still in the discipline's order.
    fn give(&mut self, leaf: usize, queue: Queue) -> Box<dyn DetachedQueue> {
        let former = std::mem::replace(&mut self.queues[leaf], queue);
        match self.states[leaf] {
            State::Ready => self.enter(leaf, State::Hollow),
            State::Asleep => self.enter(leaf, State::Idle),
            State::Idle | State::Hollow => {}
        }
        Box::new(former)
    }

    /// A leaf without a backlog is no longer in the discipline's order.
    pub(crate) fn forget(&mut self, leaf: usize) {
        self.enter(leaf, State::Idle);
    }

    /// Adopts a plan of the same shape; `false` if some queue cannot.
    pub(crate) fn retune(&mut self, now: Instant, plan: &LeavesPlan) -> bool {
        (self.plan, self.changes) = (plan.clone(), false);
        let queues = self.queues.iter_mut().zip(self.plan.leaves.iter());
        queues
            .map(|(queue, leaf)| queue.retune(now, leaf.queue.plan.as_ref()))
            .fold(true, |all, one| all & one)
    }

    #[inline(never)]
    fn sleep(&mut self, leaf: usize, until: Instant) {
        self.enter(leaf, State::Asleep);
        self.wheel.set(leaf as u32, until);
    }

    #[inline]
    fn enter(&mut self, leaf: usize, state: State) {
        let old = std::mem::replace(&mut self.states[leaf], state);
        self.ready = self.ready + usize::from(state == State::Ready) - usize::from(old == State::Ready);
        self.asleep = self.asleep + usize::from(state == State::Asleep) - usize::from(old == State::Asleep);
        if old == State::Asleep {
            self.wheel.cancel(leaf as u32);
        }
    }
}
