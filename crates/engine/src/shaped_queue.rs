//! A queue and the clock of its link: what the `bandwidth` of an interface means, the same in the
//! worker, on the lab's links and in the simulator.
//!
//! A packet leaves when the link has carried what left before it and its discipline lets it leave.
//! Bandwidth that nobody could use is gone, so a link does not burst after it was idle, or after a
//! discipline held its packets back. A caller that comes late to a packet that could leave catches
//! up, as far as the clock lets it ([`LinkClock::new`]). ALTQ has this between the discipline and
//! the driver too (altq(4), "token bucket regulator"), with a bucket that fills whenever nothing
//! leaves; ours does not.

use crate::discipline::{Discipline, Next, Outlet, Reason, Sink, Verdict};
use crate::link_clock::{BusyLink, LinkClock};
use crate::packet::{ClassId, Packet};
use crate::portion::Portion;
use crate::queue::Queue;
use crate::units::{Bandwidth, Duration, Instant};
use std::collections::VecDeque;

/// In a tree with more classes than this, the queues know nothing of what those of a former tree
/// knew: what arrives would wait for more than a few milliseconds.
pub const HEIRS: usize = 4_096;

/// How late a caller may be without a loss of bandwidth: a little more than a tick of a 250 Hz
/// kernel.
pub const CATCH_UP: Duration = Duration::from_millis(5);

/// A queue that is served at the bandwidth of its link.
#[derive(Debug)]
pub struct ShapedQueue {
    queue: Queue,
    clock: Option<LinkClock>,
    /// Since when, or from when on, a packet may leave by the discipline, as far as is known.
    ready: Instant,
}

impl ShapedQueue {
    /// This queue at the clock's bandwidth; without a clock, as fast as it is asked.
    pub fn new(queue: Queue, clock: Option<LinkClock>) -> Self {
        Self {
            queue,
            clock,
            ready: Instant::START,
        }
    }

    /// The queue itself, for everything but arrivals and departures.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The queue itself. What is dequeued from it here leaves outside the bandwidth.
    pub fn queue_mut(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// The bandwidth, if there is one.
    pub fn bandwidth(&self) -> Option<Bandwidth> {
        self.clock.as_ref().map(LinkClock::rate)
    }

    /// Another bandwidth from `now` on. What was sent ahead of the old one still counts, in bytes.
    pub fn set_bandwidth(&mut self, now: Instant, bandwidth: Bandwidth) {
        match &mut self.clock {
            Some(clock) => clock.retune(bandwidth, now),
            None => self.clock = Some(LinkClock::new(bandwidth, CATCH_UP)),
        }
    }

    /// Takes another tree. What its classes had saved up or owed goes over to their successors
    /// (`renumber`); the former tree is handed back with all that it holds, to be classified and
    /// queued anew. It takes long to drop if it has very many classes.
    pub fn replace(
        &mut self,
        now: Instant,
        queue: Queue,
        renumber: impl Fn(ClassId) -> Option<ClassId>,
    ) -> Queue {
        let mut former = self.renew(queue);
        self.queue.carry_over(now, &mut former, renumber);
        former
    }

    /// A class and its queue take over what those of a class of a former tree, whose discipline
    /// this is, know: before any packet follows. Returns how many places were looked at.
    pub fn take_over(
        &mut self,
        now: Instant,
        former: &mut dyn Discipline,
        (class, heir): (ClassId, ClassId),
    ) -> u32 {
        let tree = self.queue.discipline_mut();
        if let (Some(from), Some(to)) = (former.owner(class), tree.owner(heir)) {
            to.take_over_class(now, heir, from, class);
        }
        match (former.leaf(class), tree.leaf(heir)) {
            (Some(from), Some(to)) => 1 + to.take_over(now, from),
            _ => 1,
        }
    }

    /// Takes a tree that knows nothing of the former one, which is handed back with all that it
    /// holds. The link goes on.
    pub fn renew(&mut self, queue: Queue) -> Queue {
        std::mem::replace(&mut self.queue, queue)
    }

    /// How busy the link is, if there is one.
    pub fn busy_link(&self) -> Option<BusyLink> {
        self.clock.as_ref().map(LinkClock::state)
    }

    /// The link goes on where another of the same bandwidth was; `false` if no such link can be
    /// there, or there is none here.
    pub fn resume_link(&mut self, state: BusyLink) -> bool {
        self.clock.as_mut().is_some_and(|clock| clock.resume(state))
    }

    /// Whether it holds no packets.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Until when the link is busy, if it is. Nothing leaves before, and the queue is not asked.
    #[inline]
    pub fn busy_until(&self, now: Instant) -> Option<Instant> {
        self.clock.as_ref().and_then(|clock| clock.busy_until(now))
    }

    /// A packet arrives.
    #[inline]
    pub fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        self.ready = if self.queue.is_empty() {
            now
        } else {
            self.ready.min(now)
        };
        self.queue.enqueue(now, packet, sink)
    }

    /// Packets arrive, each at its time of [arrival](Packet::arrived): exactly as so many calls of
    /// [`ShapedQueue::enqueue`]. `packets` is empty then.
    ///
    /// With a clock they are offered one by one: since when a packet could have left depends on
    /// whether the queue was empty before each.
    pub fn enqueue_burst(&mut self, packets: &mut Vec<Packet>, sink: &mut dyn Sink) {
        if self.clock.is_none() {
            return self.queue.enqueue_burst(packets, sink);
        }
        self.queue.prefetch_arrivals(packets).done();
        for packet in packets.drain(..) {
            let _ = self.enqueue(packet.arrived, packet, sink);
        }
    }

    /// Sends what may leave now, packet by packet, until there is no such packet or `outlet` wants
    /// no more (then it is `Ready`): exactly as calls of [`ShapedQueue::dequeue`].
    pub fn dequeue_burst(&mut self, now: Instant, outlet: &mut dyn Outlet) -> Next<()> {
        if self.queue.is_empty() {
            return Next::Empty;
        }
        if let Some(until) = self.busy_until(now) {
            return Next::Wait(until);
        }
        let mut clocked = ClockedOutlet {
            clock: self.clock.as_mut(),
            ready: self.ready.min(now),
            now,
            busy: None,
            outlet,
        };
        let next = self.queue.dequeue_burst(now, &mut clocked);
        let busy = clocked.busy;
        match next {
            Next::Ready(()) => {
                self.see_empty(now, outlet);
                match busy {
                    Some(_) if self.queue.is_empty() => Next::Empty,
                    Some(until) => Next::Wait(until),
                    None => Next::Ready(()),
                }
            }
            Next::Wait(until) => {
                self.ready = until;
                next
            }
            Next::Empty => next,
        }
    }

    /// The next packet, if one may leave.
    pub fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        if self.queue.is_empty() {
            return Next::Empty;
        }
        if let Some(until) = self.busy_until(now) {
            return Next::Wait(until);
        }
        let next = self.queue.dequeue(now, sink);
        match &next {
            Next::Ready(packet) => {
                if let Some(clock) = &mut self.clock {
                    clock.start(self.ready.min(now));
                    clock.send(now, packet.len);
                }
                self.see_empty(now, sink);
            }
            Next::Wait(until) => self.ready = *until,
            Next::Empty => {}
        }
        next
    }

    /// Asks a queue once more when its last packet has left: some disciplines see only then that
    /// they are empty (CoDel leaves its dropping state, fq_codel ends a flow's turn). Callers ask
    /// an empty queue now and then or never; that must not matter.
    fn see_empty(&mut self, now: Instant, sink: &mut dyn Sink) {
        if self.queue.is_empty() {
            let empty = self.queue.dequeue(now, sink);
            debug_assert!(matches!(empty, Next::Empty), "a packet that was not counted");
        }
    }
}

/// Passes a burst on while the link is free.
struct ClockedOutlet<'a> {
    clock: Option<&'a mut LinkClock>,
    /// Since when a packet could have left.
    ready: Instant,
    now: Instant,
    /// Until when the link is busy, if that ended the burst.
    busy: Option<Instant>,
    outlet: &'a mut dyn Outlet,
}

impl Sink for ClockedOutlet<'_> {
    fn drop(&mut self, packet: Packet, why: Reason) {
        self.outlet.drop(packet, why);
    }

    fn mark(&mut self, packet: &Packet, why: Reason) {
        self.outlet.mark(packet, why);
    }

    fn hands_over(&self) -> bool {
        self.outlet.hands_over()
    }

    fn held_up(&self, arrived: Instant, now: Instant) -> Duration {
        self.outlet.held_up(arrived, now)
    }
}

impl Outlet for ClockedOutlet<'_> {
    fn send(&mut self, packet: Packet) -> bool {
        if let Some(clock) = &mut self.clock {
            clock.start(self.ready);
            clock.send(self.now, packet.len);
            self.busy = clock.busy_until(self.now);
        }
        let wanted = self.outlet.send(packet);
        if !wanted {
            self.busy = None;
        }
        wanted && self.busy.is_none()
    }
}

/// Collects packets that go on elsewhere.
struct HandedOver(VecDeque<Packet>);

impl Sink for HandedOver {
    fn drop(&mut self, packet: Packet, _why: Reason) {
        self.0.push_back(packet);
    }

    fn hands_over(&self) -> bool {
        true
    }
}

/// Hands over everything that is queued there.
pub fn hand_over(queue: &mut Queue) -> VecDeque<Packet> {
    let mut packets = HandedOver(VecDeque::new());
    queue.flush(&mut Portion::whole(), &mut packets);
    packets.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use crate::random::Seed;
    use crate::settings::{Raw, Table};
    use crate::tree::{ClassSpec, DisciplineSpec, Registry};
    use crate::units::Bytes;

    struct NoDrops;

    impl Sink for NoDrops {
        fn drop(&mut self, _packet: Packet, why: Reason) {
            panic!("dropped: {why:?}");
        }
    }

    fn at(us: u64) -> Instant {
        Instant::START + Duration::from_micros(us)
    }

    /// 8 Mbit/s, 1000 bytes a millisecond; a late caller catches up 5 ms.
    fn queue() -> ShapedQueue {
        let bandwidth = Bandwidth::mbit(8);
        let link = Link::new(bandwidth, Bytes::new(1514));
        let plan = DisciplineSpec::new("fifo").check(&Registry::builtin(), link);
        let queue = plan.expect("a plan").build(Seed(1));
        let clock = LinkClock::new(bandwidth, CATCH_UP);
        ShapedQueue::new(queue, Some(clock))
    }

    fn arrive(queue: &mut ShapedQueue, us: u64, packets: usize) {
        for _ in 0..packets {
            let packet = Packet::new(Bytes::new(1000), at(us), ClassId(0));
            assert_eq!(queue.enqueue(at(us), packet, &mut NoDrops), Verdict::Queued);
        }
    }

    /// Packets that leave at this time, and when the next one does.
    fn leave(queue: &mut ShapedQueue, us: u64) -> (usize, Option<Instant>) {
        let mut packets = 0;
        loop {
            match queue.dequeue(at(us), &mut NoDrops) {
                Next::Ready(_) => packets += 1,
                Next::Wait(until) => return (packets, Some(until)),
                Next::Empty => return (packets, None),
            }
        }
    }

    #[test]
    fn an_idle_link_sends_one_packet_at_once_and_the_rest_at_its_bandwidth() {
        let mut queue = queue();
        arrive(&mut queue, 100_000, 10);
        assert_eq!(leave(&mut queue, 100_000), (1, Some(at(101_000))));
        assert_eq!(leave(&mut queue, 101_000), (1, Some(at(102_000))));
    }

    #[test]
    fn a_late_caller_catches_up_with_what_waited() {
        let mut queue = queue();
        arrive(&mut queue, 100_000, 10);
        assert_eq!(leave(&mut queue, 103_500), (4, Some(at(104_000))));
        // Only so far.
        assert_eq!(leave(&mut queue, 150_000).0, 6);
        let mut queue = self::queue();
        arrive(&mut queue, 100_000, 50);
        assert_eq!(leave(&mut queue, 150_000), (6, Some(at(151_000))));
    }

    /// What a discipline has peeked at is not counted by the limit.
    #[test]
    fn a_full_queue_whose_next_packet_is_chosen_is_handed_over_whole() {
        let fifo = DisciplineSpec {
            settings: Table::default().with("limit", Raw::Integer(10)),
            ..DisciplineSpec::new("fifo")
        };
        let class = |name: &str| ClassSpec {
            name: name.into(),
            default: name == "a",
            discipline: Some(fifo.clone()),
            ..ClassSpec::default()
        };
        let spec = DisciplineSpec {
            classes: vec![class("a"), class("b")].into(),
            ..DisciplineSpec::new("drr")
        };
        let link = Link::new(Bandwidth::mbit(8), Bytes::new(1514));
        let plan = spec.check(&Registry::builtin(), link).expect("a plan");
        let mut queue = ShapedQueue::new(plan.build(Seed(1)), None);
        // The turn ends at the second packet of `a`, which is chosen then.
        arrive(&mut queue, 1, 10);
        let other = Packet::new(Bytes::new(1000), at(1), ClassId(1));
        assert_eq!(queue.enqueue(at(1), other, &mut NoDrops), Verdict::Queued);
        for _ in 0..2 {
            assert!(matches!(queue.dequeue(at(1), &mut NoDrops), Next::Ready(_)));
        }
        arrive(&mut queue, 1, 2);
        let mut former = queue.replace(at(2), plan.build(Seed(1)), Some);
        for packet in hand_over(&mut former) {
            assert_eq!(queue.enqueue(at(2), packet, &mut NoDrops), Verdict::Queued);
        }
        assert_eq!(queue.queue().backlog().packets, 11);
    }

    /// By credit and by averages.
    #[test]
    fn a_class_of_cbq_that_has_sent_its_burst_waits_as_long_in_another_tree() {
        let by_averages = Table::default()
            .text("sharing", "top-level")
            .text("root_rate", "98 %")
            .with("efficient", Raw::Boolean(false));
        for settings in [Table::default(), by_averages] {
            let class = |name: &str, rate: &str| ClassSpec {
                name: name.into(),
                default: name == "a",
                settings: Table::default()
                    .text("rate", rate)
                    .with("borrow", Raw::Boolean(false)),
                ..ClassSpec::default()
            };
            let spec = DisciplineSpec {
                classes: vec![class("a", "10 %"), class("b", "20 %")].into(),
                settings,
                ..DisciplineSpec::new("cbq")
            };
            let link = Link::new(Bandwidth::mbit(8), Bytes::new(1514));
            let plan = spec.check(&Registry::builtin(), link).expect("a plan");
            let mut queue = ShapedQueue::new(plan.build(Seed(1)), None);
            arrive(&mut queue, 0, 60);
            let mut now = at(0);
            let wait = loop {
                match queue.dequeue(now, &mut NoDrops) {
                    Next::Ready(_) => {}
                    // No longer the link.
                    Next::Wait(until) if until.since(now) > Duration::from_millis(5) => break until,
                    Next::Wait(until) => now = until,
                    Next::Empty => panic!("all have left"),
                }
            };
            for (before, again) in [(2_000, 1), (1_000, 2)] {
                let now = wait - Duration::from_micros(before);
                let mut former = queue.replace(now, plan.build(Seed(again)), Some);
                for class in [0, 1].map(ClassId) {
                    queue.take_over(now, former.discipline_mut(), (class, class));
                }
                for packet in hand_over(&mut former) {
                    assert_eq!(queue.enqueue(now, packet, &mut NoDrops), Verdict::Queued);
                }
                let next = queue.dequeue(now, &mut NoDrops);
                assert!(
                    matches!(next, Next::Wait(until) if until == wait),
                    "{next:?}, not {wait}"
                );
            }
            assert!(matches!(queue.dequeue(wait, &mut NoDrops), Next::Ready(_)));
        }
    }

    #[test]
    fn an_empty_queue_does_not_wait_for_its_link() {
        let mut queue = queue();
        arrive(&mut queue, 100_000, 1);
        assert_eq!(leave(&mut queue, 100_000), (1, None));
        assert_eq!(leave(&mut queue, 100_001), (0, None));
    }

    #[test]
    fn a_link_is_resumed_only_where_there_is_one() {
        let mut queue = queue();
        let state = BusyLink {
            free_at: at(7),
            remainder: 5,
        };
        assert!(queue.resume_link(state));
        assert_eq!(
            (queue.busy_link(), queue.busy_until(at(6))),
            (Some(state), Some(at(7)))
        );
        assert_eq!(
            (queue.busy_until(at(7)), queue.bandwidth()),
            (None, Some(Bandwidth::mbit(8)))
        );
        let too_much = BusyLink {
            remainder: 8_000_000,
            ..state
        };
        assert!(!queue.resume_link(too_much));
        let former = queue.renew(self::queue().queue);
        let mut open = ShapedQueue::new(former, None);
        assert!(!open.resume_link(state));
        assert_eq!(
            (open.busy_link(), open.bandwidth(), open.busy_until(at(0))),
            (None, None, None)
        );
        assert_eq!(queue.busy_link(), Some(state), "the link goes on");
    }

    #[test]
    fn it_is_empty_without_packets() {
        let mut queue = queue();
        assert!(queue.is_empty());
        arrive(&mut queue, 1, 1);
        assert!(!queue.is_empty() && !queue.queue().is_empty());
    }

    #[test]
    fn a_queue_that_gets_a_bandwidth_keeps_to_it_and_its_caller_may_be_five_milliseconds_late() {
        let mut queue = ShapedQueue::new(self::queue().queue, None);
        arrive(&mut queue, 100_000, 3);
        assert_eq!(leave(&mut queue, 100_000), (3, None));
        queue.set_bandwidth(at(100_000), Bandwidth::mbit(8));
        arrive(&mut queue, 200_000, 20);
        assert_eq!(leave(&mut queue, 209_000), (6, Some(at(210_000))));
        queue.set_bandwidth(at(209_000), Bandwidth::mbit(16));
        assert_eq!(queue.busy_until(at(209_000)), Some(at(209_500)));
    }

    /// Takes so many packets of a burst.
    struct BurstTaker(Vec<u64>, usize);

    impl Sink for BurstTaker {
        fn drop(&mut self, _packet: Packet, why: Reason) {
            panic!("dropped: {why:?}");
        }
    }

    impl Outlet for BurstTaker {
        fn send(&mut self, packet: Packet) -> bool {
            self.0.push(packet.len.get());
            self.0.len() < self.1
        }
    }

    fn burst(queue: &mut ShapedQueue, us: u64, most: usize) -> (usize, Next<()>) {
        let mut taker = BurstTaker(Vec::new(), most);
        let next = queue.dequeue_burst(at(us), &mut taker);
        (taker.0.len(), next)
    }

    #[test]
    fn a_burst_ends_where_the_link_is_busy_or_no_more_is_wanted() {
        let mut queue = queue();
        assert_eq!(burst(&mut queue, 100_000, 9), (0, Next::Empty));
        let packets = || (0..4).map(|_| Packet::new(Bytes::new(1_000), at(100_000), ClassId(0)));
        queue.enqueue_burst(&mut packets().collect(), &mut NoDrops);
        assert_eq!(queue.queue().backlog().packets, 4);
        assert_eq!(burst(&mut queue, 100_000, 9), (1, Next::Wait(at(101_000))));
        assert_eq!(burst(&mut queue, 100_999, 9), (0, Next::Wait(at(101_000))));
        assert_eq!(burst(&mut queue, 102_500, 1), (1, Next::Ready(())));
        assert_eq!(burst(&mut queue, 102_500, 9), (1, Next::Wait(at(103_000))));
        assert_eq!(burst(&mut queue, 103_000, 9), (1, Next::Empty), "the last one");
        let mut open = ShapedQueue::new(self::queue().queue, None);
        open.enqueue_burst(&mut packets().collect(), &mut NoDrops);
        assert_eq!(burst(&mut open, 100_000, 3), (3, Next::Ready(())));
        assert_eq!(burst(&mut open, 100_000, 3), (1, Next::Empty));
    }
}
