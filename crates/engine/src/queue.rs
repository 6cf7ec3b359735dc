//! `Queue`: what hosts and parents own. A discipline, plus what is true of all of them.
//!
//! It pins the peeked packet, counts, and checks the discipline against the contract on every call,
//! in release builds too: a packet that was never offered, *empty* with a backlog, a wait that is
//! not in the future. The checks are a few compares.
//!
//! Peeking *pins*: the next dequeue returns that packet, later arrivals do not overtake it, its
//! drop decision is final, and only a flush removes it otherwise. The price, which ALTQ's poll and
//! Linux's stash pay without saying so: a shaper charges a packet when it is pinned, so each
//! shaping level may release one packet early by at most one packet time, and a late high-priority
//! arrival waits behind one packet.
//!
//! ```
//! use engine::discipline::{Next, Reason, Sink};
//! use engine::link::Link;
//! use engine::packet::{ClassId, Packet};
//! use engine::random::Seed;
//! use engine::tree::{DisciplineSpec, Registry};
//! use engine::units::{Bandwidth, Bytes, Instant};
//!
//! struct Drops(Vec<Reason>);
//! impl Sink for Drops {
//!     fn drop(&mut self, _packet: Packet, why: Reason) {
//!         self.0.push(why);
//!     }
//! }
//!
//! let mut spec = DisciplineSpec::new("fifo");
//! spec.settings = spec.settings.text("limit_bytes", "2 kB");
//! let link = Link::new(Bandwidth::mbit(10), Bytes::new(1514));
//! let plan = spec.check(&Registry::builtin(), link).expect("2 kB is more than a packet");
//! let mut queue = plan.build(Seed(1));
//!
//! let (now, mut drops) = (Instant::START, Drops(Vec::new()));
//! for _ in 0..3 {
//!     let _ = queue.enqueue(now, Packet::new(Bytes::new(1000), now, ClassId(0)), &mut drops);
//! }
//! assert_eq!((queue.backlog().packets, &drops.0[..]), (2, &[Reason::Full][..]));
//! assert!(matches!(queue.dequeue(now, &mut drops), Next::Ready(_)));
//! assert_eq!(queue.stats().sent.bytes, Bytes::new(1000));
//! ```

use crate::discipline::{
    Build, BuiltQueue, DetachedQueue, Discipline, Next, Outlet, Plan, Reason, Sink, Verdict,
};
use crate::disciplines::fifo::{self, Fifo};
use crate::inspect::Inspection;
use crate::kind::QueuePlan;
use crate::packet::{ClassId, Packet};
use crate::portion::Portion;
use crate::prefetch::Prefetched;
pub use crate::stats::{Count, Stats};
use crate::units::{Bytes, Duration, Instant};
use std::any::Any;

impl QueuePlan {
    /// Makes the queue.
    pub fn build(&self, cx: &Build) -> Queue {
        Queue::new(self.kind.name, self.plan.build(cx))
    }
}

/// A queue with a discipline.
///
/// There can be very many, and then a packet costs the cache lines that have to be fetched for it.
/// So a queue is two lines, all that a plain FIFO needs included: the first is all that a packet
/// needs that joins others. What few packets need is behind pointers.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Queue {
    discipline: Inner,
    sent: Count,
    /// None until there is one.
    drops: Option<Box<Drops>>,
}

// Where a pointer has 64 bits.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Queue>() == 128);
    assert!(std::mem::offset_of!(Queue, sent) == 64 + size_of::<Packet>());
};

/// A discipline. A plain FIFO, which most leaves have, is in the queue's own memory and not behind
/// a pointer: what it needs can be fetched together with the queue. Which it is stands in front,
/// and not in a byte of the oldest packet, which is in the other line.
#[derive(Debug)]
#[repr(u8)]
enum Inner {
    Fifo(Fifo),
    Other(Other),
}

/// Any discipline, and what it holds. A plain FIFO counts and pins by itself.
#[derive(Debug)]
#[repr(C)]
struct Other {
    backlog: Backlog,
    discipline: Box<dyn Discipline>,
    pinned: Option<Packet>,
}

/// Every packet that was offered is in here, sent or dropped.
#[derive(Debug)]
#[repr(C)]
struct Backlog {
    bytes: Bytes,
    packets: u32,
    /// One of them is in [`Other::pinned`].
    pinned: bool,
    kind: &'static str,
}

impl Backlog {
    #[inline]
    fn leave(&mut self, packet: &Packet) {
        assert!(
            self.packets > 0,
            "{}: a packet came out that was never offered",
            self.kind
        );
        self.packets -= 1;
        self.bytes.uncount(packet.len);
    }

    /// Checks that a packet went to the sink since there were so many.
    #[inline(never)]
    fn check_witness(&self, before: u32) {
        assert!(
            self.packets <= before,
            "{}: a packet was dropped without a witness",
            self.kind
        );
    }

    /// Checks an answer without a packet.
    #[inline(never)]
    fn check_none<P>(&self, now: Instant, next: &Next<P>) {
        let (backlog, kind) = (self.packets, self.kind);
        match next {
            Next::Ready(_) => {}
            Next::Wait(at) => {
                assert!(*at > now, "{kind}: waits until {at}, which is not after {now}");
                assert!(backlog > 0, "{kind}: waits without a backlog");
            }
            Next::Empty => assert!(backlog == 0, "{kind}: empty with a backlog of {backlog} packets"),
        }
    }
}

impl Other {
    /// Asks the discipline, and checks its answer.
    #[inline(always)]
    fn ask(&mut self, now: Instant, drops: &mut Option<Box<Drops>>, outer: &mut dyn Sink) -> Next<Packet> {
        let mut sink = CountingSink {
            backlog: &mut self.backlog,
            drops,
            outer,
        };
        let next = self.discipline.dequeue(now, &mut sink);
        if !matches!(next, Next::Ready(_)) {
            self.backlog.check_none(now, &next);
        }
        next
    }

    #[inline(never)]
    fn pin(&mut self, now: Instant, drops: &mut Option<Box<Drops>>, outer: &mut dyn Sink) -> Next<&Packet> {
        if !self.backlog.pinned {
            match self.ask(now, drops, outer) {
                Next::Ready(packet) => {
                    self.backlog.pinned = true;
                    self.pinned = Some(packet);
                }
                Next::Wait(until) => return Next::Wait(until),
                Next::Empty => return Next::Empty,
            }
        }
        self.pinned.as_ref().map_or(Next::Empty, Next::Ready)
    }

    #[inline(never)]
    fn unpin(&mut self) -> Next<Packet> {
        self.backlog.pinned = false;
        self.pinned.take().map_or(Next::Empty, Next::Ready)
    }
}

impl Inner {
    fn new(kind: &'static str, discipline: Box<dyn Discipline>) -> Self {
        let any: &dyn Any = &*discipline;
        if kind != fifo::KIND.name || !any.is::<Fifo>() {
            return Self::Other(Other {
                backlog: Backlog {
                    bytes: Bytes::ZERO,
                    packets: 0,
                    pinned: false,
                    kind,
                },
                discipline,
                pinned: None,
            });
        }
        let any: Box<dyn Any> = discipline;
        match any.downcast::<Fifo>() {
            Ok(fifo) => Self::Fifo(*fifo),
            Err(_) => unreachable!("its type was checked"),
        }
    }

    #[inline]
    fn get(&self) -> &dyn Discipline {
        match self {
            Self::Fifo(fifo) => fifo,
            Self::Other(other) => &*other.discipline,
        }
    }

    #[inline]
    fn get_mut(&mut self) -> &mut dyn Discipline {
        match self {
            Self::Fifo(fifo) => fifo,
            Self::Other(other) => &mut *other.discipline,
        }
    }
}

/// What was dropped and marked, and why.
#[derive(Clone, Debug, Default)]
struct Drops {
    dropped: Count,
    marked: u64,
    reasons: [u64; Reason::ALL.len()],
    /// Flushed into a sink that hands packets over.
    handed_over: Count,
}

impl Drops {
    /// Counts a packet that leaves by this sink, and passes it on.
    fn pass(&mut self, mut packet: Packet, why: Reason, outer: &mut dyn Sink) {
        if why == Reason::Flushed && outer.hands_over() {
            packet.handed_on = true;
            self.handed_over += packet.len;
        } else {
            self.dropped += packet.len;
            self.reasons[why as usize] += 1;
        }
        outer.drop(packet, why);
    }
}

/// Passes drops and marks on, and counts them.
struct CountingSink<'a> {
    backlog: &'a mut Backlog,
    drops: &'a mut Option<Box<Drops>>,
    outer: &'a mut dyn Sink,
}

impl Sink for CountingSink<'_> {
    fn drop(&mut self, packet: Packet, why: Reason) {
        self.backlog.leave(&packet);
        self.drops.get_or_insert_default().pass(packet, why, self.outer);
    }

    fn hands_over(&self) -> bool {
        self.outer.hands_over()
    }

    fn held_up(&self, arrived: Instant, now: Instant) -> Duration {
        self.outer.held_up(arrived, now)
    }

    fn mark(&mut self, packet: &Packet, why: Reason) {
        self.drops.get_or_insert_default().marked += 1;
        self.outer.mark(packet, why);
    }
}

/// Passes packets on that leave in a burst, and counts them; dropped ones too.
struct CountingOutlet<'a> {
    backlog: &'a mut Backlog,
    sent: &'a mut Count,
    drops: &'a mut Option<Box<Drops>>,
    outer: &'a mut dyn Outlet,
}

impl Sink for CountingOutlet<'_> {
    fn drop(&mut self, packet: Packet, why: Reason) {
        self.backlog.leave(&packet);
        self.drops.get_or_insert_default().pass(packet, why, self.outer);
    }

    fn hands_over(&self) -> bool {
        self.outer.hands_over()
    }

    fn held_up(&self, arrived: Instant, now: Instant) -> Duration {
        self.outer.held_up(arrived, now)
    }

    fn mark(&mut self, packet: &Packet, why: Reason) {
        self.drops.get_or_insert_default().marked += 1;
        self.outer.mark(packet, why);
    }
}

impl Outlet for CountingOutlet<'_> {
    #[inline]
    fn send(&mut self, packet: Packet) -> bool {
        self.backlog.leave(&packet);
        *self.sent += packet.len;
        self.outer.send(packet)
    }
}

/// The same for what a plain FIFO drops, which has counted its backlog.
struct FifoSink<'a> {
    drops: &'a mut Option<Box<Drops>>,
    outer: &'a mut dyn Sink,
}

impl Sink for FifoSink<'_> {
    fn drop(&mut self, packet: Packet, why: Reason) {
        self.drops.get_or_insert_default().pass(packet, why, self.outer);
    }
}

impl DetachedQueue for Queue {
    fn held(&self) -> Count {
        self.backlog()
    }

    fn discipline(&mut self) -> &mut dyn Discipline {
        self.discipline_mut()
    }

    fn empty(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        self.flush(portion, sink);
    }
}

impl Queue {
    /// A queue of this discipline; `kind` is its name, for messages.
    pub fn new(kind: &'static str, discipline: Box<dyn Discipline>) -> Self {
        Self {
            sent: Count::default(),
            discipline: Inner::new(kind, discipline),
            drops: None,
        }
    }

    /// The name of the discipline's kind.
    pub fn kind(&self) -> &'static str {
        match &self.discipline {
            Inner::Fifo(_) => fifo::KIND.name,
            Inner::Other(other) => other.backlog.kind,
        }
    }

    /// Offers a packet.
    ///
    /// # Panics
    /// If the discipline answers `Dropped` without giving a packet to the sink.
    #[inline]
    pub fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        match &mut self.discipline {
            Inner::Fifo(fifo) if fifo.fits(packet.len) => {
                fifo.append(packet);
                Verdict::Queued
            }
            _ => self.offer(now, packet, sink),
        }
    }

    /// Offers a packet to a discipline, or to a FIFO that is full.
    #[inline(never)]
    fn offer(&mut self, now: Instant, packet: Packet, outer: &mut dyn Sink) -> Verdict {
        let Self {
            discipline, drops, ..
        } = self;
        let other = match discipline {
            Inner::Fifo(fifo) => return fifo.enqueue(now, packet, &mut FifoSink { drops, outer }),
            Inner::Other(other) => other,
        };
        let backlog = &mut other.backlog;
        let before = backlog.packets;
        backlog.packets += 1;
        backlog.bytes.count(packet.len);
        let mut sink = CountingSink {
            backlog,
            drops,
            outer,
        };
        let verdict = other.discipline.enqueue(now, packet, &mut sink);
        if verdict != Verdict::Queued {
            other.backlog.check_witness(before);
        }
        verdict
    }

    /// The next packet that may leave now.
    ///
    /// # Panics
    /// If the discipline breaks its contract: waits for a time that is not after `now`, answers
    /// `Empty` with a backlog, or waits without one.
    #[inline]
    pub fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        match &self.discipline {
            Inner::Fifo(_) => self.send_oldest(),
            Inner::Other(_) => self.send(now, sink),
        }
    }

    /// Sends the oldest packet of a FIFO.
    #[inline(never)]
    fn send_oldest(&mut self) -> Next<Packet> {
        let Inner::Fifo(fifo) = &mut self.discipline else {
            unreachable!("the caller has looked");
        };
        let next = fifo.take();
        if let Next::Ready(packet) = &next {
            self.sent += packet.len;
        }
        next
    }

    /// Sends the packet that is pinned, or asks a discipline for one.
    #[inline(never)]
    fn send(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        let Inner::Other(other) = &mut self.discipline else {
            unreachable!("the caller has looked");
        };
        let next = match other.backlog.pinned {
            true => other.unpin(),
            false => other.ask(now, &mut self.drops, sink),
        };
        if let Next::Ready(packet) = &next {
            other.backlog.leave(packet);
            self.sent += packet.len;
        }
        next
    }

    /// Offers packets in order, each at its time of [arrival](Packet::arrived): exactly as so many
    /// calls of [`Queue::enqueue`]. `packets` is empty then.
    ///
    /// # Panics
    /// If the discipline drops fewer packets than it says.
    pub fn enqueue_burst(&mut self, packets: &mut Vec<Packet>, outer: &mut dyn Sink) {
        self.prefetch_arrivals(packets).done();
        let Self {
            discipline, drops, ..
        } = self;
        match discipline {
            Inner::Fifo(fifo) => fifo.offer_all(packets, &mut FifoSink { drops, outer }),
            Inner::Other(other) => {
                let backlog = &mut other.backlog;
                backlog.packets += packets.len() as u32;
                packets.iter().for_each(|packet| backlog.bytes.count(packet.len));
                let most = backlog.packets;
                let mut sink = CountingSink {
                    backlog,
                    drops,
                    outer,
                };
                let refused = other.discipline.enqueue_burst(packets, &mut sink);
                other.backlog.check_witness(most - refused);
            }
        }
    }

    /// Sends what may leave now, packet by packet, until there is no such packet or `outlet` wants
    /// no more (then it is `Ready`): exactly as calls of [`Queue::dequeue`].
    ///
    /// # Panics
    /// As [`Queue::dequeue`].
    pub fn dequeue_burst(&mut self, now: Instant, outlet: &mut dyn Outlet) -> Next<()> {
        if let Inner::Other(other) = &self.discipline
            && other.backlog.pinned
            && let Next::Ready(packet) = self.send(now, outlet)
            && !outlet.send(packet)
        {
            return Next::Ready(());
        }
        let Self {
            sent,
            discipline,
            drops,
        } = self;
        match discipline {
            Inner::Fifo(fifo) => fifo.send_all(sent, outlet),
            Inner::Other(other) => {
                let mut counting = CountingOutlet {
                    backlog: &mut other.backlog,
                    sent,
                    drops,
                    outer: outlet,
                };
                let next = other.discipline.dequeue_burst(now, &mut counting);
                other.backlog.check_none(now, &next);
                next
            }
        }
    }

    /// The packet that the next `dequeue` returns, pinned.
    ///
    /// # Panics
    /// As [`Queue::dequeue`].
    #[inline]
    pub fn peek(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<&Packet> {
        match &mut self.discipline {
            Inner::Fifo(fifo) => fifo.pin().map_or(Next::Empty, Next::Ready),
            Inner::Other(other) => other.pin(now, &mut self.drops, sink),
        }
    }

    /// After [`Next::Wait`] at the same time, for a host that keeps its wire busy with gap frames:
    /// the wire slot of the gap frame to send now, no longer than `longest`. Then the host dequeues
    /// again. `None`: it waits.
    pub fn gap(&mut self, longest: Bytes) -> Option<Bytes> {
        match &mut self.discipline {
            Inner::Other(other) if !other.backlog.pinned => other.discipline.gap(longest),
            _ => None,
        }
    }

    /// This queue replaces `former`: its classes start with the deficits of those that they
    /// replace. `renumber` maps a class of the former tree to its successor here.
    pub fn carry_over(
        &mut self,
        now: Instant,
        former: &mut Self,
        renumber: impl Fn(ClassId) -> Option<ClassId>,
    ) {
        let Some(from) = former.discipline.get_mut().carry_over() else {
            return;
        };
        let mut deficits = from.deficits(now);
        deficits.retain_mut(|deficit| {
            let class = renumber(deficit.class);
            deficit.class = class.unwrap_or(deficit.class);
            class.is_some()
        });
        if let Some(to) = self.discipline.get_mut().carry_over() {
            to.start_with(now, &deficits);
        }
    }

    /// Goes on where another queue leaves off, whose packets follow; see [`Discipline::take_over`].
    pub(crate) fn take_over(&mut self, now: Instant, former: &mut Self) -> u32 {
        let former = former.discipline.get_mut();
        self.discipline.get_mut().take_over(now, former)
    }

    /// Whether its next packet has been chosen.
    pub(crate) fn is_pinned(&self) -> bool {
        match &self.discipline {
            Inner::Fifo(fifo) => fifo.is_pinned(),
            Inner::Other(other) => other.backlog.pinned,
        }
    }

    /// A packet that was the [next one](Queue::is_pinned) of the queue from which this one takes
    /// over is its next one. Nothing has passed through it.
    #[cold]
    pub(crate) fn pin_first(&mut self, packet: Packet) {
        match &mut self.discipline {
            Inner::Fifo(fifo) => {
                fifo.append(packet);
                let _ = fifo.pin();
            }
            Inner::Other(other) => {
                other.backlog.packets += 1;
                other.backlog.bytes += packet.len;
                other.backlog.pinned = true;
                other.pinned = Some(packet);
            }
        }
    }

    /// Its discipline, for one that takes over, or from which another one does.
    pub fn discipline_mut(&mut self) -> &mut dyn Discipline {
        self.discipline.get_mut()
    }

    /// Empties the backlog into the sink as far as the portion goes, each packet with
    /// [`Reason::Flushed`]: dropped, or handed over if the sink says so. If the portion is spent
    /// then, nothing but this is called until one is not.
    ///
    /// # Panics
    /// If the discipline keeps a packet.
    pub fn flush(&mut self, portion: &mut Portion, outer: &mut dyn Sink) {
        if portion.is_spent() {
            return;
        }
        let Self {
            discipline, drops, ..
        } = self;
        match discipline {
            Inner::Fifo(fifo) => fifo.flush(portion, &mut FifoSink { drops, outer }),
            Inner::Other(other) => {
                let pinned = other.unpin();
                let mut sink = CountingSink {
                    backlog: &mut other.backlog,
                    drops,
                    outer,
                };
                if let Next::Ready(packet) = pinned {
                    portion.left();
                    sink.drop(packet, Reason::Flushed);
                }
                if !portion.is_spent() {
                    other.discipline.flush(portion, &mut sink);
                }
            }
        }
        assert!(
            portion.is_spent() || self.is_empty(),
            "{}: has a backlog after a flush",
            self.kind()
        );
    }

    /// Reads what the next packet needs of the queue itself, so that it is in the cache by then.
    #[inline]
    pub fn prefetch(&self) -> Prefetched {
        let sent = Prefetched::word(self.sent.packets);
        sent.and(self.prefetch_arrival())
    }

    /// The same of a packet that joins others.
    #[inline]
    pub(crate) fn prefetch_arrival(&self) -> Prefetched {
        match &self.discipline {
            Inner::Fifo(fifo) => Prefetched::word(fifo.packets().into()),
            Inner::Other(other) => Prefetched::word(other.backlog.packets.into()),
        }
    }

    /// Reads what a packet that arrives needs beside, once that is in the cache.
    #[inline]
    pub(crate) fn prefetch_place(&self) -> Prefetched {
        match &self.discipline {
            Inner::Fifo(fifo) => fifo.prefetch_place(),
            Inner::Other(other) => other.discipline.prefetch(),
        }
    }

    /// Reads what the next packet needs of the discipline, once the queue itself is in the cache.
    #[inline]
    pub fn prefetch_discipline(&self) -> Prefetched {
        match &self.discipline {
            Inner::Fifo(fifo) => fifo.prefetch_others(),
            Inner::Other(other) => other.discipline.prefetch(),
        }
    }

    /// Reads what these packets will need of the discipline when they are enqueued.
    pub(crate) fn prefetch_arrivals(&self, packets: &[Packet]) -> Prefetched {
        match &self.discipline {
            Inner::Other(other) if packets.len() > 1 => other.discipline.prefetch_arrivals(packets),
            _ => Prefetched::NOTHING,
        }
    }

    /// Packets queued, a pinned one included. O(1).
    #[inline]
    pub fn backlog(&self) -> Count {
        let (packets, bytes) = match &self.discipline {
            Inner::Fifo(fifo) => (fifo.packets(), fifo.bytes()),
            Inner::Other(other) => (other.backlog.packets, other.backlog.bytes),
        };
        Count {
            packets: packets.into(),
            bytes,
        }
    }

    /// Whether there is no backlog.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.backlog().packets == 0
    }

    /// What has passed through since the queue was made.
    pub fn stats(&self) -> Stats {
        let Drops {
            dropped,
            marked,
            reasons,
            handed_over,
        } = self.drops.as_deref().cloned().unwrap_or_default();
        let backlog = self.backlog();
        let sent = Count {
            packets: self.sent.packets + handed_over.packets,
            bytes: self.sent.bytes + handed_over.bytes,
        };
        let offered = Count {
            packets: sent.packets + dropped.packets + backlog.packets,
            bytes: sent.bytes + dropped.bytes + backlog.bytes,
        };
        Stats {
            offered,
            sent,
            dropped,
            marked,
            reasons,
        }
    }

    /// Reports this queue's counts and its discipline's state, children included.
    pub fn inspect(&self, out: &mut Inspection<'_>) {
        out.counts(self.kind(), &self.stats());
        self.discipline.get().inspect(out);
    }

    /// Adopts a plan of the same shape while packets are queued. `false` if some discipline in it
    /// cannot; others may have adopted theirs by then, so the host then applies the former plan
    /// again.
    pub fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        self.discipline.get_mut().retune(now, plan)
    }

    /// A leaf class of the discipline becomes another; see [`Discipline::renew_class`]. Its former
    /// queue counts as handed over. What was peeked at here stays the next packet.
    pub fn renew_class(
        &mut self,
        now: Instant,
        plan: &dyn Plan,
        class: ClassId,
        queue: BuiltQueue,
    ) -> Option<Box<dyn DetachedQueue>> {
        let former = self.discipline.get_mut().renew_class(now, plan, class, queue)?;
        Some(self.handed_over(former))
    }

    /// The same of a class that stays what it is; see [`Discipline::exchange_queue`].
    pub fn exchange_queue(
        &mut self,
        now: Instant,
        class: ClassId,
        queue: BuiltQueue,
    ) -> Option<Box<dyn DetachedQueue>> {
        let former = self.discipline.get_mut().exchange_queue(now, class, queue)?;
        Some(self.handed_over(former))
    }

    /// A queue leaves the tree with its backlog.
    fn handed_over(&mut self, part: Box<dyn DetachedQueue>) -> Box<dyn DetachedQueue> {
        let backlog = part.held();
        if let Inner::Other(other) = &mut self.discipline {
            other.backlog.packets -= backlog.packets as u32;
            other.backlog.bytes -= backlog.bytes;
            self.drops.get_or_insert_default().handed_over += backlog;
        }
        part
    }

    /// An empty queue with this one's counts, as if its backlog had been handed over, that goes on
    /// where this one leaves off.
    pub(crate) fn successor(&mut self, now: Instant, built: BuiltQueue) -> Self {
        let mut successor = Self::new(built.kind, built.discipline);
        successor.take_over(now, self);
        (successor.sent, successor.drops) = (self.sent, self.drops.clone());
        if !self.is_empty() {
            successor.drops.get_or_insert_default().handed_over += self.backlog();
        }
        successor
    }

    /// Adopts what is no class's of a plan whose changed classes are known; see
    /// [`Discipline::retune_own`].
    pub fn retune_own(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        self.discipline.get_mut().retune_own(now, plan)
    }

    /// Adopts a plan that differs from the present one in the settings of this class alone. `false`
    /// if the discipline cannot do so without a look at all classes; then nothing has changed.
    pub fn retune_class(&mut self, now: Instant, plan: &dyn Plan, class: ClassId) -> bool {
        self.discipline.get_mut().retune_class(now, plan, class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// What a discipline does, some of it against the contract.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    enum Script {
        #[default]
        Good,
        Empties,
        Waits(Instant),
        Swallows,
        Refuses,
        Invents,
        Marks,
        Keeps,
    }

    #[derive(Debug, Default)]
    struct ScriptedQueue {
        held: VecDeque<Packet>,
        script: Script,
        /// What the sink said when it was asked last.
        said: Option<(bool, Duration)>,
    }

    impl Discipline for ScriptedQueue {
        fn enqueue(&mut self, _now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
            match self.script {
                Script::Swallows => return Verdict::Dropped(Reason::Full),
                Script::Refuses => {
                    sink.drop(packet, Reason::Early);
                    return Verdict::Dropped(Reason::Early);
                }
                _ => self.held.push_back(packet),
            }
            Verdict::Queued
        }

        fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
            self.said = Some((sink.hands_over(), sink.held_up(Instant::START, now)));
            match self.script {
                Script::Empties => return Next::Empty,
                Script::Waits(until) => return Next::Wait(until),
                Script::Invents => return Next::Ready(packet(1)),
                _ => {}
            }
            let next = self.held.pop_front();
            if let (Script::Marks, Some(packet)) = (self.script, &next) {
                sink.mark(packet, Reason::Delay);
            }
            next.map_or(Next::Empty, Next::Ready)
        }

        fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
            if self.script != Script::Keeps {
                portion.flush(sink, || self.held.pop_front());
            }
        }

        fn gap(&mut self, longest: Bytes) -> Option<Bytes> {
            Some(longest)
        }
    }

    /// Who takes what leaves.
    #[derive(Default)]
    struct QueueHost {
        sent: Vec<u64>,
        dropped: Vec<(u64, Reason, bool)>,
        marked: u32,
        hands_over: bool,
        /// It wants no more after so many.
        room: usize,
    }

    impl Sink for QueueHost {
        fn drop(&mut self, packet: Packet, why: Reason) {
            self.dropped.push((packet.len.get(), why, packet.handed_on));
        }
        fn mark(&mut self, _: &Packet, _: Reason) {
            self.marked += 1;
        }
        fn hands_over(&self) -> bool {
            self.hands_over
        }
        fn held_up(&self, arrived: Instant, now: Instant) -> Duration {
            now.since(arrived)
        }
    }

    impl Outlet for QueueHost {
        fn send(&mut self, packet: Packet) -> bool {
            self.sent.push(packet.len.get());
            self.sent.len() < self.room
        }
    }

    const NOW: Instant = Instant::from_nanos(1_000);

    fn packet(len: u64) -> Packet {
        Packet::new(Bytes::new(len), NOW, ClassId(0))
    }

    fn scripted(script: Script) -> Queue {
        let discipline = ScriptedQueue {
            script,
            ..ScriptedQueue::default()
        };
        Queue::new("scripted", Box::new(discipline))
    }

    /// With a backlog of packets of 1, 2, 3 bytes and so on.
    fn holding(script: Script, packets: u64) -> Queue {
        let mut queue = scripted(script);
        for len in 1..=packets {
            let _ = queue.enqueue(NOW, packet(len), &mut QueueHost::default());
        }
        queue
    }

    fn count(packets: u64, bytes: u64) -> Count {
        Count {
            packets,
            bytes: Bytes::new(bytes),
        }
    }

    fn dequeued(queue: &mut Queue, host: &mut QueueHost) -> Option<u64> {
        match queue.dequeue(NOW, host) {
            Next::Ready(packet) => Some(packet.len.get()),
            _ => None,
        }
    }

    #[test]
    #[should_panic(expected = "scripted: empty with a backlog of 2 packets")]
    fn a_discipline_that_is_empty_with_a_backlog_breaks_the_contract() {
        let _ = holding(Script::Empties, 2).dequeue(NOW, &mut QueueHost::default());
    }

    #[test]
    #[should_panic(expected = "scripted: empty with a backlog of 1 packets")]
    fn so_it_does_in_a_burst() {
        let _ = holding(Script::Empties, 1).dequeue_burst(NOW, &mut QueueHost::default());
    }

    #[test]
    #[should_panic(expected = "scripted: waits without a backlog")]
    fn a_discipline_that_waits_without_a_backlog_breaks_the_contract() {
        let later = Instant::from_nanos(1_001);
        let _ = scripted(Script::Waits(later)).dequeue(NOW, &mut QueueHost::default());
    }

    #[test]
    #[should_panic(expected = "which is not after")]
    fn a_discipline_that_waits_for_this_very_time_breaks_the_contract() {
        let _ = holding(Script::Waits(NOW), 1).peek(NOW, &mut QueueHost::default());
    }

    #[test]
    fn a_discipline_may_wait_for_the_next_nanosecond_with_a_backlog() {
        let later = Instant::from_nanos(1_001);
        let mut queue = holding(Script::Waits(later), 1);
        let mut host = QueueHost::default();
        assert!(matches!(queue.dequeue(NOW, &mut host), Next::Wait(until) if until == later));
        assert!(matches!(queue.peek(NOW, &mut host), Next::Wait(until) if until == later));
        assert_eq!(queue.dequeue_burst(NOW, &mut host), Next::Wait(later));
        assert_eq!(queue.gap(Bytes::new(84)), Some(Bytes::new(84)));
    }

    #[test]
    #[should_panic(expected = "scripted: a packet was dropped without a witness")]
    fn a_discipline_that_swallows_a_packet_breaks_the_contract() {
        let _ = holding(Script::Swallows, 1);
    }

    #[test]
    #[should_panic(expected = "scripted: a packet was dropped without a witness")]
    fn a_discipline_that_swallows_packets_of_a_burst_breaks_the_contract() {
        let mut packets = vec![packet(1), packet(2)];
        scripted(Script::Swallows).enqueue_burst(&mut packets, &mut QueueHost::default());
    }

    #[test]
    #[should_panic(expected = "scripted: a packet came out that was never offered")]
    fn a_discipline_that_makes_up_a_packet_breaks_the_contract() {
        let _ = scripted(Script::Invents).dequeue(NOW, &mut QueueHost::default());
    }

    #[test]
    #[should_panic(expected = "scripted: has a backlog after a flush")]
    fn a_discipline_that_keeps_a_packet_at_a_flush_breaks_the_contract() {
        let mut queue = holding(Script::Keeps, 1);
        queue.flush(&mut Portion::whole(), &mut QueueHost::default());
    }

    #[test]
    fn what_is_refused_is_counted_with_its_reason_one_by_one_or_in_a_burst() {
        let mut host = QueueHost::default();
        let mut queue = holding(Script::Refuses, 2);
        queue.enqueue_burst(&mut vec![packet(3), packet(4)], &mut host);
        let early = |len| (len, Reason::Early, false);
        assert_eq!(host.dropped, [early(3), early(4)]);
        let stats = queue.stats();
        assert_eq!((stats.offered, stats.dropped), (count(4, 10), count(4, 10)));
        assert_eq!(
            (stats.dropped_for(Reason::Early), stats.dropped_for(Reason::Full)),
            (4, 0)
        );
        assert!(queue.is_empty() && stats.backlog() == count(0, 0));
    }

    #[test]
    fn what_is_peeked_at_is_next_whatever_comes_and_no_gap_goes_before_it() {
        let (mut queue, mut host) = (holding(Script::Good, 2), QueueHost::default());
        for _ in 0..2 {
            assert!(matches!(queue.peek(NOW, &mut host), Next::Ready(packet) if packet.len == Bytes::new(1)));
        }
        assert!(queue.is_pinned());
        assert_eq!((queue.backlog(), queue.gap(Bytes::new(84))), (count(2, 3), None));
        assert_eq!(dequeued(&mut queue, &mut host), Some(1));
        assert!(!queue.is_pinned());
        assert_eq!((queue.backlog(), queue.stats().sent), (count(1, 2), count(1, 1)));
        assert_eq!(
            (dequeued(&mut queue, &mut host), dequeued(&mut queue, &mut host)),
            (Some(2), None)
        );
    }

    #[test]
    fn a_burst_begins_with_what_is_pinned_and_ends_when_no_more_is_wanted() {
        let burst = |room, peek| {
            let (mut queue, mut host) = (holding(Script::Good, 3), QueueHost::default());
            host.room = room;
            if peek {
                let _ = queue.peek(NOW, &mut host);
            }
            let next = queue.dequeue_burst(NOW, &mut host);
            (
                host.sent,
                next == Next::Ready(()),
                queue.stats().sent.packets,
                queue.backlog().packets,
            )
        };
        for peek in [false, true] {
            assert_eq!(burst(9, peek), (vec![1, 2, 3], false, 3, 0));
            assert_eq!(burst(2, peek), (vec![1, 2], true, 2, 1));
            assert_eq!(burst(1, peek), (vec![1], true, 1, 2));
        }
    }

    #[test]
    fn a_discipline_hears_what_the_host_says_and_the_host_of_its_marks() {
        for hands_over in [false, true] {
            let (mut queue, mut host) = (holding(Script::Marks, 3), QueueHost::default());
            (host.hands_over, host.room) = (hands_over, 9);
            let said = |queue: &mut Queue| {
                let scripted = queue.discipline_mut().of_type::<ScriptedQueue>();
                scripted.and_then(|scripted| scripted.said.take())
            };
            let expected = Some((hands_over, Duration::from_nanos(1_000)));
            assert_eq!(dequeued(&mut queue, &mut host), Some(1));
            assert_eq!(said(&mut queue), expected);
            assert_eq!(queue.dequeue_burst(NOW, &mut host), Next::Empty);
            assert_eq!(said(&mut queue), expected);
            assert_eq!((host.marked, queue.stats().marked, host.sent.len()), (3, 3, 2));
        }
    }

    #[test]
    fn what_is_flushed_counts_as_dropped_or_as_sent_if_it_is_handed_over() {
        for hands_over in [false, true] {
            let (mut queue, mut host) = (holding(Script::Good, 3), QueueHost::default());
            host.hands_over = hands_over;
            let _ = queue.peek(NOW, &mut host);
            assert_eq!(DetachedQueue::held(&queue), count(3, 6));
            DetachedQueue::empty(&mut queue, &mut Portion::of(2, 9), &mut host);
            assert_eq!(queue.backlog(), count(1, 3));
            DetachedQueue::empty(&mut queue, &mut Portion::whole(), &mut host);
            let flushed = [1, 2, 3].map(|len| (len, Reason::Flushed, hands_over));
            assert_eq!(host.dropped, flushed);
            let (stats, all, none) = (queue.stats(), count(3, 6), count(0, 0));
            let counts = if hands_over { (all, none) } else { (none, all) };
            assert_eq!(
                (stats.sent, stats.dropped, stats.offered),
                (counts.0, counts.1, all)
            );
            assert_eq!(stats.dropped_for(Reason::Flushed), counts.1.packets);
            assert!(
                DetachedQueue::discipline(&mut queue)
                    .of_type::<ScriptedQueue>()
                    .is_some()
            );
        }
    }

    #[test]
    fn a_flush_of_a_portion_that_is_spent_does_nothing() {
        let (mut queue, mut host) = (holding(Script::Good, 2), QueueHost::default());
        let mut spent = Portion::of(1, 1);
        spent.left();
        let _ = queue.peek(NOW, &mut host);
        queue.flush(&mut spent, &mut host);
        assert_eq!((queue.backlog(), queue.is_pinned()), (count(2, 3), true));
        queue.flush(&mut Portion::of(1, 1), &mut host);
        assert_eq!((queue.backlog(), queue.is_pinned()), (count(1, 2), false));
    }

    #[test]
    fn a_successor_has_the_counts_as_if_the_backlog_had_been_handed_over() {
        let (mut queue, mut host) = (holding(Script::Good, 3), QueueHost::default());
        assert_eq!(dequeued(&mut queue, &mut host), Some(1));
        let built = || BuiltQueue {
            kind: "other",
            discipline: Box::new(ScriptedQueue::default()),
        };
        let successor = queue.successor(NOW, built());
        assert_eq!((successor.kind(), successor.backlog()), ("other", count(0, 0)));
        assert_eq!(
            (successor.stats().sent, successor.stats().offered),
            (count(3, 6), count(3, 6))
        );
        assert_eq!(queue.stats().sent, count(1, 1));
        let mut idle = scripted(Script::Good).successor(NOW, built());
        assert!(idle.drops.is_none());
        idle.pin_first(packet(7));
        assert_eq!((idle.is_pinned(), idle.backlog()), (true, count(1, 7)));
        assert_eq!(dequeued(&mut idle, &mut host), Some(7));
    }

    #[test]
    fn a_discipline_of_its_own_may_have_the_name_of_a_fifo() {
        let mut queue = Queue::new("fifo", Box::new(ScriptedQueue::default()));
        assert_eq!(queue.kind(), "fifo");
        assert!(queue.discipline_mut().of_type::<ScriptedQueue>().is_some());
    }
}
