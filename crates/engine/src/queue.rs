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

use crate::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use crate::disciplines::fifo::Fifo;
use crate::inspect::Inspection;
use crate::kind::QueuePlan;
use crate::packet::{ClassId, Packet};
use crate::prefetch::Prefetched;
pub use crate::stats::{Count, Stats};
use crate::units::{Bytes, Instant};
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
/// So what every packet needs comes first: two lines, of which the second is a plain FIFO's.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Queue {
    backlog: Backlog,
    sent: Count,
    discipline: Inner,
    pinned: Option<Packet>,
    drops: Drops,
    kind: &'static str,
}

/// Every packet that was offered is in here, sent or dropped. A plain FIFO counts by itself.
#[derive(Debug, Default)]
struct Backlog {
    bytes: Bytes,
    packets: u32,
    /// One of them is in [`Queue::pinned`].
    pinned: bool,
}

impl Backlog {
    #[inline]
    fn leave(&mut self, packet: &Packet, kind: &&str) {
        assert!(
            self.packets > 0,
            "{kind}: a packet came out that was never offered"
        );
        self.packets -= 1;
        self.bytes -= packet.len;
    }
}

/// A discipline. A plain FIFO, which most leaves have, is in the queue's own memory and not behind
/// a pointer: what it needs can be fetched together with the queue.
#[derive(Debug)]
enum Inner {
    Fifo(Fifo),
    Other(Box<dyn Discipline>),
}

/// What every packet of a FIFO reads is in two cache lines.
const _: () = assert!(std::mem::offset_of!(Queue, pinned) <= 128);

impl Inner {
    fn new(discipline: Box<dyn Discipline>) -> Self {
        let any: &dyn Any = &*discipline;
        if !any.is::<Fifo>() {
            return Self::Other(discipline);
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
            Self::Other(discipline) => &**discipline,
        }
    }

    #[inline]
    fn get_mut(&mut self) -> &mut dyn Discipline {
        match self {
            Self::Fifo(fifo) => fifo,
            Self::Other(discipline) => &mut **discipline,
        }
    }
}

/// What was dropped and marked, and why.
#[derive(Debug, Default)]
struct Drops {
    dropped: Count,
    marked: u64,
    reasons: [u64; Reason::ALL.len()],
    /// Flushed into a sink that hands packets over.
    handed_over: Count,
}

impl Drops {
    /// Counts a packet that leaves by this sink, and passes it on.
    fn pass(&mut self, packet: Packet, why: Reason, outer: &mut dyn Sink) {
        if why == Reason::Flushed && outer.hands_over() {
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
    drops: &'a mut Drops,
    /// By reference: its cache line is needed for messages only.
    kind: &'a &'static str,
    outer: &'a mut dyn Sink,
}

impl Sink for CountingSink<'_> {
    fn drop(&mut self, packet: Packet, why: Reason) {
        self.backlog.leave(&packet, self.kind);
        self.drops.pass(packet, why, self.outer);
    }

    fn hands_over(&self) -> bool {
        self.outer.hands_over()
    }

    fn mark(&mut self, packet: &Packet, why: Reason) {
        self.drops.marked += 1;
        self.outer.mark(packet, why);
    }
}

/// The same for what a plain FIFO drops, which has counted its backlog.
struct FifoSink<'a> {
    drops: &'a mut Drops,
    outer: &'a mut dyn Sink,
}

impl Sink for FifoSink<'_> {
    fn drop(&mut self, packet: Packet, why: Reason) {
        self.drops.pass(packet, why, self.outer);
    }
}

impl Queue {
    /// A queue of this discipline; `kind` is its name, for messages.
    pub fn new(kind: &'static str, discipline: Box<dyn Discipline>) -> Self {
        Self {
            backlog: Backlog::default(),
            sent: Count::default(),
            discipline: Inner::new(discipline),
            pinned: None,
            drops: Drops::default(),
            kind,
        }
    }

    /// The name of the discipline's kind.
    pub fn kind(&self) -> &'static str {
        self.kind
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
            backlog, drops, kind, ..
        } = self;
        let discipline = match &mut self.discipline {
            Inner::Fifo(fifo) => return fifo.enqueue(now, packet, &mut FifoSink { drops, outer }),
            Inner::Other(discipline) => discipline,
        };
        let before = backlog.packets;
        backlog.packets += 1;
        backlog.bytes += packet.len;
        let mut sink = CountingSink {
            backlog,
            drops,
            kind,
            outer,
        };
        let verdict = discipline.enqueue(now, packet, &mut sink);
        assert!(
            verdict == Verdict::Queued || self.backlog.packets <= before,
            "{}: a packet was dropped without a witness",
            self.kind
        );
        verdict
    }

    /// The next packet that may leave now.
    ///
    /// # Panics
    /// If the discipline breaks its contract: waits for a time that is not after `now`, answers
    /// `Empty` with a backlog, or waits without one.
    #[inline]
    pub fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        if let Inner::Fifo(fifo) = &mut self.discipline {
            let Some(packet) = fifo.take() else {
                return Next::Empty;
            };
            self.sent += packet.len;
            return Next::Ready(packet);
        }
        match self.backlog.pinned {
            true => self.send_pinned(),
            false => self.send(now, sink),
        }
    }

    /// Asks the discipline for a packet, which is sent.
    #[inline(never)]
    fn send(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        let next = self.ask(now, sink);
        if let Next::Ready(packet) = &next {
            self.backlog.leave(packet, &self.kind);
            self.sent += packet.len;
        }
        next
    }

    #[inline(never)]
    fn send_pinned(&mut self) -> Next<Packet> {
        let Some(packet) = self.unpin() else {
            return Next::Empty;
        };
        self.backlog.leave(&packet, &self.kind);
        self.sent += packet.len;
        Next::Ready(packet)
    }

    fn unpin(&mut self) -> Option<Packet> {
        self.backlog.pinned = false;
        self.pinned.take()
    }

    /// The packet that the next `dequeue` returns, pinned.
    ///
    /// # Panics
    /// As [`Queue::dequeue`].
    #[inline]
    pub fn peek(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<&Packet> {
        match self.discipline {
            Inner::Fifo(ref mut fifo) => fifo.pin().map_or(Next::Empty, Next::Ready),
            Inner::Other(_) => self.pin(now, sink),
        }
    }

    #[inline(never)]
    fn pin(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<&Packet> {
        if !self.backlog.pinned {
            match self.ask(now, sink) {
                Next::Ready(packet) => {
                    self.backlog.pinned = true;
                    self.pinned = Some(packet);
                }
                Next::Wait(at) => return Next::Wait(at),
                Next::Empty => return Next::Empty,
            }
        }
        self.pinned.as_ref().map_or(Next::Empty, Next::Ready)
    }

    /// After [`Next::Wait`] at the same time, for a host that keeps its wire busy with gap frames:
    /// the wire slot of the gap frame to send now, no longer than `longest`. Then the host dequeues
    /// again. `None`: it waits.
    pub fn gap(&mut self, longest: Bytes) -> Option<Bytes> {
        match self.backlog.pinned {
            true => None,
            false => self.discipline.get_mut().gap(longest),
        }
    }

    /// Asks the discipline, and checks its answer against the contract.
    #[inline]
    fn ask(&mut self, now: Instant, outer: &mut dyn Sink) -> Next<Packet> {
        let Self {
            backlog, drops, kind, ..
        } = self;
        let mut sink = CountingSink {
            backlog,
            drops,
            kind,
            outer,
        };
        let next = self.discipline.get_mut().dequeue(now, &mut sink);
        if !matches!(next, Next::Ready(_)) {
            self.check_none(now, &next);
        }
        next
    }

    /// Checks an answer without a packet.
    fn check_none(&self, now: Instant, next: &Next<Packet>) {
        let backlog = self.backlog.packets;
        match next {
            Next::Ready(_) => {}
            Next::Wait(at) => {
                assert!(
                    *at > now,
                    "{}: waits until {at}, which is not after {now}",
                    self.kind
                );
                assert!(backlog > 0, "{}: waits without a backlog", self.kind);
            }
            Next::Empty => assert!(
                backlog == 0,
                "{}: empty with a backlog of {backlog} packets",
                self.kind
            ),
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

    /// Empties the whole backlog into the sink, each packet with [`Reason::Flushed`]: dropped, or
    /// handed over if the sink says so.
    ///
    /// # Panics
    /// If the discipline keeps a packet.
    pub fn flush(&mut self, outer: &mut dyn Sink) {
        let pinned = self.unpin();
        let Self {
            backlog, drops, kind, ..
        } = self;
        match &mut self.discipline {
            Inner::Fifo(fifo) => fifo.flush(&mut FifoSink { drops, outer }),
            Inner::Other(discipline) => {
                let mut sink = CountingSink {
                    backlog,
                    drops,
                    kind,
                    outer,
                };
                if let Some(packet) = pinned {
                    sink.drop(packet, Reason::Flushed);
                }
                discipline.flush(&mut sink);
            }
        }
        assert!(self.is_empty(), "{}: has a backlog after a flush", self.kind);
    }

    /// Reads what the next packet needs of the queue itself, so that it is in the cache by then.
    #[inline]
    pub fn prefetch(&self) -> Prefetched {
        let sent = Prefetched::word(self.sent.packets);
        match &self.discipline {
            Inner::Fifo(fifo) => sent.and(fifo.prefetch()),
            Inner::Other(_) => sent,
        }
    }

    /// Reads what the next packet needs of the discipline, once the queue itself is in the cache.
    #[inline]
    pub fn prefetch_discipline(&self) -> Prefetched {
        match &self.discipline {
            Inner::Fifo(fifo) => fifo.prefetch_others(),
            Inner::Other(discipline) => discipline.prefetch(),
        }
    }

    /// Packets queued, a pinned one included. O(1).
    #[inline]
    pub fn backlog(&self) -> Count {
        let (packets, bytes) = match &self.discipline {
            Inner::Fifo(fifo) => (fifo.packets(), fifo.bytes()),
            Inner::Other(_) => (self.backlog.packets, self.backlog.bytes),
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
        } = self.drops;
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
        out.counts(self.kind, &self.stats());
        self.discipline.get().inspect(out);
    }

    /// Adopts a plan of the same shape while packets are queued. `false` if some discipline in it
    /// cannot; others may have adopted theirs by then, so the host then applies the former plan
    /// again.
    pub fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        self.discipline.get_mut().retune(now, plan)
    }
}
