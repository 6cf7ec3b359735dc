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
    /// Whether its queue passes on all that it gets, to no classes in it.
    passes_all: bool,
    name: ClassName,
    queue: QueuePlan,
}

impl Leaf {
    fn parts(&self) -> (ClassId, &str, &QueuePlan) {
        (self.id, self.name.as_str(), &self.queue)
    }
}

/// Whether a queue without classes in it is served at any rate that it gets.
fn passes_all(queue: &QueuePlan) -> bool {
    let any = Bandwidth::bits_per_sec(u64::MAX);
    queue.plan.serves(None, any) == Some(any)
}

/// The leaves of a checked discipline, numbered in the order of its classes.
#[derive(Clone, Debug)]
pub(crate) struct LeavesPlan {
    leaves: Arc<SharedList<Leaf>>,
    /// How many of them do not pass on all.
    withholding: usize,
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
                passes_all: class.inside.is_empty() && passes_all(&queue),
                name: class.name.clone(),
                queue,
            });
        }
        Self {
            withholding: leaves.iter().filter(|leaf| !leaf.passes_all).count(),
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
        let passed_all = std::mem::replace(&mut place.passes_all, passes_all(queue));
        let withholding = self.withholding - usize::from(!passed_all) + usize::from(!place.passes_all);
        (place.name, place.queue) = (new.name.clone(), queue.clone());
        Some(Self {
            leaves: Arc::new(leaves),
            withholding,
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
        (leaf != NO_LEAF as usize).then_some(leaf)
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
        self.leaves.iter().map(Leaf::parts)
    }

    /// Those of this one.
    pub(crate) fn nth(&self, leaf: usize) -> Option<(ClassId, &str, &QueuePlan)> {
        self.leaves.get(leaf).map(Leaf::parts)
    }

    /// Whether each queue passes on all that it gets, to no classes in it.
    pub(crate) fn pass_all(&self) -> bool {
        self.withholding == 0
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::CheckedClass;
    use crate::link::Link;
    use crate::random::Seed;
    use crate::settings::{Span, Table};
    use crate::sinks::{Drops, Nowhere};
    use crate::tree::{DisciplineSpec, Registry};
    use crate::units::Duration;

    fn link() -> Link {
        Link::new(Bandwidth::mbit(100), Bytes::new(1_500))
    }

    fn queue(kind: &str, settings: Table) -> QueuePlan {
        let spec = DisciplineSpec {
            settings,
            ..DisciplineSpec::new(kind)
        };
        spec.check(&Registry::builtin(), link())
            .expect("a good queue")
            .root
    }

    fn fifo(limit: u32) -> QueuePlan {
        queue("fifo", Table::default().with("limit", limit))
    }

    /// A packet a second and a half.
    fn shaper() -> QueuePlan {
        queue("tbf", Table::default().text("rate", "8 kbit/s"))
    }

    /// Leaves of these classes; class 90 is in the queue of the first, 91 in that of the second,
    /// and so on.
    fn plan(first: u32, queues: Vec<Option<QueuePlan>>) -> LeavesPlan {
        let settings = Table::default();
        let names: Vec<ClassName> = (first..)
            .take(queues.len())
            .map(|n| format!("c{n}").into())
            .collect();
        let class = |(index, queue): (usize, Option<QueuePlan>)| CheckedClass {
            id: ClassId(first + index as u32),
            name: &names[index],
            at: Span::default(),
            parent: None,
            vacant: false,
            settings: &settings,
            routes: match &queue {
                Some(_) => [first + index as u32, 90 + index as u32].map(ClassId).into(),
                None => Vec::new(),
            },
            queue,
            inside: 0..0,
        };
        let mut check = Check {
            link: link(),
            settings: &settings,
            child: None,
            classes: queues.into_iter().enumerate().map(class).collect(),
            problems: &mut Vec::new(),
            notices: &mut Vec::new(),
        };
        LeavesPlan::new(&mut check)
    }

    /// Class 0 has classes below it, 1 a FIFO and 2 a shaper.
    fn usual() -> LeavesPlan {
        plan(0, vec![None, Some(fifo(5)), Some(shaper())])
    }

    fn build(plan: &LeavesPlan) -> Leaves {
        plan.build(&Build::new(Seed(1)))
    }

    const NOW: Instant = Instant::from_nanos(1_000);

    fn after(millis: u64) -> Instant {
        NOW + Duration::from_millis(millis)
    }

    fn put(leaves: &mut Leaves, now: Instant, class: u32) -> (Verdict, Option<usize>) {
        let packet = Packet::new(Bytes::new(1_500), now, ClassId(class));
        leaves.enqueue(now, packet, &mut Nowhere)
    }

    fn take(leaves: &mut Leaves, leaf: usize, now: Instant) -> bool {
        matches!(leaves.dequeue(leaf, now, &mut Nowhere), Next::Ready(_))
    }

    #[test]
    fn leaves_are_the_classes_with_a_queue_in_their_order() {
        let plan = usual();
        let numbers = [0, 1, 2, 3].map(|class| plan.leaf_of(ClassId(class)));
        assert_eq!((plan.len(), numbers), (2, [None, Some(0), Some(1), None]));
        let each: Vec<_> = plan
            .each()
            .map(|(id, name, queue)| (id.0, name, queue.kind.name))
            .collect();
        assert_eq!(each, [(1, "c1", "fifo"), (2, "c2", "tbf")]);
        let built = |class| {
            plan.build_class(ClassId(class), &Build::new(Seed(1)))
                .map(|built| built.kind)
        };
        assert_eq!(
            [1, 91, 92, 0, 9].map(built),
            [Some("fifo"), Some("fifo"), Some("tbf"), None, None]
        );
    }

    #[test]
    fn it_is_known_whether_all_queues_pass_on_what_they_get_whichever_become_others() {
        let become_another = |plan: &LeavesPlan, leaf: usize, queue: &QueuePlan| {
            let new = RenewedLeaf {
                name: &"new".into(),
                vacant: false,
                queue,
            };
            plan.renewed(leaf, &new).expect("a leaf")
        };
        let (shaping, plain) = (usual(), plan(0, vec![Some(fifo(5)), Some(fifo(6))]));
        assert!(!shaping.pass_all() && plain.pass_all());
        assert!(become_another(&shaping, 1, &fifo(5)).pass_all());
        let shaped = become_another(&plain, 0, &shaper());
        let twice = become_another(&shaped, 1, &shaper());
        assert!(!shaped.pass_all() && !become_another(&twice, 0, &fifo(5)).pass_all());
        assert!(become_another(&shaped, 0, &fifo(7)).pass_all());
    }

    #[test]
    fn a_leafs_queue_gets_what_the_leaf_does_and_a_class_in_it_what_that_serves() {
        let plan = usual();
        let own = |leaf: usize| (leaf < 2).then(|| Bandwidth::mbit(leaf as u64 + 3));
        let serves = |class: Option<u32>| plan.serves(class.map(ClassId), link().bandwidth, own);
        assert_eq!(serves(None), Some(link().bandwidth));
        assert_eq!(serves(Some(1)), Some(Bandwidth::mbit(3)));
        assert_eq!(serves(Some(2)), Some(Bandwidth::kbit(8)), "by the shaper");
        assert_eq!(
            (serves(Some(91)), serves(Some(0)), serves(Some(9))),
            (None, None, None)
        );
        assert_eq!(plan.serves(Some(ClassId(1)), link().bandwidth, |_| None), None);
    }

    #[test]
    fn leaves_conserve_work_if_all_their_queues_do() {
        assert!(!usual().conserve_work());
        assert!(plan(0, vec![Some(fifo(5)), Some(fifo(6))]).conserve_work());
    }

    #[test]
    fn plans_are_numbered_alike_if_their_leaves_are_the_same_classes() {
        let usual = usual();
        assert!(usual.is_numbered_as(&usual.clone()) && usual.is_numbered_as(&self::usual()));
        assert!(usual.is_numbered_as(&plan(0, vec![None, Some(fifo(7)), Some(fifo(7))])));
        assert!(!usual.is_numbered_as(&plan(1, vec![None, Some(fifo(5)), Some(shaper())])));
        assert!(!usual.is_numbered_as(&plan(0, vec![None, Some(fifo(5))])));
    }

    #[test]
    fn a_renewed_leaf_has_another_name_and_queue_and_the_others_theirs() {
        let (name, red) = (ClassName::from("new"), queue("red", Table::default()));
        let new = RenewedLeaf {
            name: &name,
            vacant: false,
            queue: &red,
        };
        let renewed = usual().renewed(0, &new).expect("there is such a leaf");
        let each: Vec<_> = renewed
            .each()
            .map(|(id, name, queue)| (id.0, name, queue.kind.name))
            .collect();
        assert_eq!(each, [(1, "new", "red"), (2, "c2", "tbf")]);
        assert!(usual().renewed(2, &new).is_none());
        let wrong = RenewedLeaf { queue: &name, ..new };
        assert!(usual().renewed(0, &wrong).is_none());
    }

    #[test]
    fn a_leaf_is_ready_from_its_first_packet_to_its_last() {
        let mut leaves = build(&usual());
        assert_eq!((leaves.len(), leaves.any_ready()), (2, false));
        assert_eq!(put(&mut leaves, NOW, 1), (Verdict::Queued, Some(0)));
        assert_eq!(put(&mut leaves, NOW, 1), (Verdict::Queued, None));
        assert_eq!((leaves.packets(0), leaves.packets(1)), (2, 0));
        assert_eq!(
            (leaves.is_ready(0), leaves.is_ready(1), leaves.any_ready()),
            (true, false, true)
        );
        assert_eq!(leaves.peek(0, NOW, &mut Nowhere), Some(Bytes::new(1_500)));
        assert!(take(&mut leaves, 0, NOW) && leaves.is_ready(0));
        assert!(take(&mut leaves, 0, NOW) && !leaves.is_ready(0) && !leaves.any_ready());
        assert!(!take(&mut leaves, 0, NOW));
        assert_eq!((leaves.ready, leaves.asleep), (0, 0));
        let (of_first, of_second) = (leaves.stats(0), leaves.stats(1));
        assert_eq!(
            (of_first.sent.packets, of_first.sent.bytes),
            (2, Bytes::new(3_000))
        );
        assert_eq!(of_second, Stats::default());
        assert_eq!(put(&mut leaves, NOW, 1), (Verdict::Queued, Some(0)));
        let mut drops = Drops::default();
        let packet = Packet::new(Bytes::new(1), NOW, ClassId(9));
        let lost = leaves.enqueue(NOW, packet, &mut drops);
        assert_eq!(lost, (Verdict::Dropped(Reason::NoClass), None));
        assert_eq!(drops.0, [(0, Reason::NoClass)]);
    }

    #[test]
    fn a_leaf_that_may_not_send_sleeps_until_its_time_or_its_next_packet() {
        let mut leaves = build(&usual());
        put(&mut leaves, NOW, 2).1.expect("it is ready");
        assert_eq!(put(&mut leaves, NOW, 2).1, None);
        assert!(take(&mut leaves, 1, NOW) && leaves.is_ready(1));
        assert_eq!(leaves.peek(1, NOW, &mut Nowhere), None);
        assert_eq!(
            (leaves.ready, leaves.asleep, leaves.next()),
            (0, 1, Some(after(1_500)))
        );
        assert!(matches!(leaves.rest(), Next::Wait(until) if until == after(1_500)));
        assert_eq!(put(&mut leaves, after(1), 2).1, Some(1), "it is asked again");
        assert_eq!((leaves.ready, leaves.asleep, leaves.next()), (1, 0, None));
        assert!(!take(&mut leaves, 1, after(1)));
        assert_eq!((leaves.ready, leaves.asleep), (0, 1));
        assert_eq!(leaves.wake(after(1_499)), None);
        assert_eq!(
            (leaves.wake(after(1_500)), leaves.wake(after(1_500))),
            (Some(1), None)
        );
        assert_eq!((leaves.ready, leaves.asleep), (1, 0));
        assert!(take(&mut leaves, 1, after(1_500)));
        assert_eq!(leaves.packets(1), 1);
        leaves.flush(&mut Portion::whole(), &mut Nowhere);
        assert_eq!((leaves.packets(1), leaves.ready, leaves.asleep), (0, 0, 0));
        assert!(matches!(leaves.rest(), Next::Empty));
    }

    #[test]
    fn a_leaf_whose_queue_is_exchanged_stays_in_the_order_and_its_counts_go_on() {
        let (plan, mut leaves) = (usual(), build(&usual()));
        let built = |class| {
            plan.build_class(ClassId(class), &Build::new(Seed(1)))
                .expect("a class")
        };
        put(&mut leaves, NOW, 1).1.expect("it is ready");
        let former = leaves
            .exchange(NOW, ClassId(91), built(1))
            .expect("there is such a class");
        assert_eq!(former.held().packets, 1);
        assert_eq!(
            (leaves.states[0], leaves.ready, leaves.stats(0).sent.packets),
            (State::Hollow, 0, 1)
        );
        assert_eq!(leaves.peek(0, NOW, &mut Nowhere), None);
        assert_eq!(put(&mut leaves, NOW, 1), (Verdict::Queued, Some(0)));
        leaves
            .exchange(NOW, ClassId(1), built(1))
            .expect("there is such a class");
        assert_eq!(
            put(&mut leaves, NOW, 1),
            (Verdict::Queued, None),
            "it is in the order"
        );
        assert_eq!((leaves.states[0], leaves.ready), (State::Ready, 1));
        assert!(leaves.exchange(NOW, ClassId(9), built(1)).is_none());
        leaves.forget(0);
        assert_eq!((leaves.states[0], leaves.ready), (State::Idle, 0));
        // One that sleeps is idle then.
        put(&mut leaves, NOW, 2).1.expect("it is ready");
        let _ = put(&mut leaves, NOW, 2);
        assert!(take(&mut leaves, 1, NOW) && !take(&mut leaves, 1, NOW));
        let renewed = leaves.renew(&plan, 1, built(2));
        assert_eq!((renewed.held().packets, leaves.stats(1)), (1, Stats::default()));
        assert_eq!(
            (leaves.states[1], leaves.asleep, leaves.next()),
            (State::Idle, 0, None)
        );
    }

    #[test]
    fn a_plan_is_alike_if_its_classes_and_kinds_are_and_known_by_its_numbers() {
        let (plan, own) = (usual(), build(&usual()));
        let leaves = build(&plan);
        assert!(leaves.is_of(&plan) && !own.is_of(&plan));
        assert!(leaves.is_alike(&plan) && own.is_alike(&plan));
        let other = |first, queue| self::plan(first, vec![None, Some(queue), Some(shaper())]);
        assert!(leaves.is_alike(&other(0, fifo(7))));
        assert!(!leaves.is_alike(&other(0, shaper())) && !leaves.is_alike(&other(1, fifo(5))));
        let known = |plan: &LeavesPlan, class| leaves.known(plan, ClassId(class));
        assert_eq!(
            [0, 1, 2, 3].map(|class| known(&plan, class)),
            [None, Some(0), Some(1), None]
        );
        assert_eq!(known(&other(1, fifo(5)), 2), None, "it has another number");
        assert_eq!(
            known(&self::plan(0, vec![None, Some(fifo(5))]), 1),
            None,
            "fewer leaves"
        );
        assert_eq!((leaves.own(ClassId(2)), leaves.own(ClassId(92))), (Some(1), None));
    }

    #[test]
    fn a_leaf_adopts_settings_alone_and_not_another_kind() {
        let plan = usual();
        let mut leaves = build(&plan);
        let of = |queue| self::plan(0, vec![None, Some(queue), Some(shaper())]);
        assert!(leaves.retune_one(NOW, &plan, 0));
        assert!(leaves.retune_one(NOW, &of(fifo(1)), 0));
        let verdicts = [(); 2].map(|()| put(&mut leaves, NOW, 1).0);
        assert_eq!(verdicts, [Verdict::Queued, Verdict::Dropped(Reason::Full)]);
        assert!(!leaves.retune_one(NOW, &of(shaper()), 0));
        assert!(leaves.retune(NOW, &of(fifo(3))));
        let verdicts = [(); 3].map(|()| put(&mut leaves, NOW, 1).0);
        assert_eq!(verdicts[..2], [Verdict::Queued; 2]);
        assert_eq!(verdicts[2], Verdict::Dropped(Reason::Full));
        assert!(!leaves.retune(NOW, &of(shaper())));
    }
}
