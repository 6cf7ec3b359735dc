//! `Queue`: what hosts and parents hold. A discipline, plus what is true of all of them.
//!
//! It pins the peeked packet, counts, and checks the discipline against the contract on every call, in
//! release too: the checks are a few compares. After every call, in packets and in bytes,
//! offered = sent + dropped + held.
//!
//! Peeking *pins*: the next dequeue returns that packet, later arrivals do not overtake it, its drop
//! decision is final, and only a flush removes it otherwise. The price, which ALTQ's poll and Linux's stash
//! pay without saying so: a shaper charges a packet when it is pinned, so each shaping level may release
//! one packet early by at most one packet time, and a late high-priority arrival waits behind one packet.

use crate::discipline::{Discipline, Next, Reason, Sink, Verdict};
use crate::disciplines::fifo::Fifo;
use crate::inspect::Inspection;
use crate::kind::Plan;
use crate::packet::{ClassId, Packet};
use crate::units::{Bytes, Instant};
use std::any::Any;
use std::ops::AddAssign;

/// Packets and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// How many packets.
    pub packets: u64,
    /// Their lengths, summed.
    pub bytes: Bytes,
}

impl AddAssign<Bytes> for Count {
    /// Counts one packet of this length.
    fn add_assign(&mut self, len: Bytes) {
        self.packets += 1;
        self.bytes += len;
    }
}

impl std::ops::Sub for Count {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self {
            packets: self.packets - other.packets,
            bytes: self.bytes - other.bytes,
        }
    }
}

/// What has passed through a queue since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Packets that were offered.
    pub offered: Count,
    /// Packets that left by `dequeue`.
    pub sent: Count,
    /// Packets that left by the sink.
    pub dropped: Count,
    /// Packets marked (ECN) here or below.
    pub marked: u64,
    /// `dropped`, by [`Reason`]'s number.
    pub reasons: [u64; Reason::ALL.len()],
}

impl Stats {
    /// What is held: offered and neither sent nor dropped.
    pub fn held(&self) -> Count {
        self.offered - self.sent - self.dropped
    }

    /// Packets dropped for this reason.
    pub fn dropped_for(&self, why: Reason) -> u64 {
        self.reasons[why as usize]
    }
}

impl AddAssign for Stats {
    /// What passed through two queues.
    fn add_assign(&mut self, other: Self) {
        let sums = [&mut self.offered, &mut self.sent, &mut self.dropped];
        for (sum, one) in sums.into_iter().zip([other.offered, other.sent, other.dropped]) {
            sum.packets += one.packets;
            sum.bytes += one.bytes;
        }
        self.marked += other.marked;
        self.reasons
            .iter_mut()
            .zip(other.reasons)
            .for_each(|(sum, one)| *sum += one);
    }
}

/// A queue with a discipline.
///
/// There can be very many, and then a packet costs the lines of memory that have to be fetched for it. So what every packet
/// needs comes first: two lines, of which the second is a plain FIFO's.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Queue {
    held: Held,
    sent: Count,
    discipline: Inner,
    pinned: Option<Packet>,
    losses: Losses,
    kind: &'static str,
}

/// What is held. All that was offered is here, sent or dropped.
#[derive(Debug, Default)]
struct Held {
    bytes: Bytes,
    packets: u32,
    /// One of them is in [`Queue::pinned`].
    pinned: bool,
}

impl Held {
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

/// A discipline. A plain FIFO, which most leaves have, is in the queue's own memory and not behind a pointer: what it needs can be
/// fetched together with the queue.
#[derive(Debug)]
enum Inner {
    Fifo(Fifo),
    Other(Box<dyn Discipline>),
}

/// What is read of every packet of a FIFO is in two lines.
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
            Err(_) => unreachable!("it was looked at"),
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
struct Losses {
    dropped: Count,
    marked: u64,
    reasons: [u64; Reason::ALL.len()],
}

/// Passes losses and marks on, and counts them.
struct Counting<'a> {
    held: &'a mut Held,
    losses: &'a mut Losses,
    /// By reference: its line of memory is needed for messages only.
    kind: &'a &'static str,
    outer: &'a mut dyn Sink,
}

impl Sink for Counting<'_> {
    fn drop(&mut self, packet: Packet, why: Reason) {
        self.held.leave(&packet, self.kind);
        self.losses.dropped += packet.len;
        self.losses.reasons[why as usize] += 1;
        self.outer.drop(packet, why);
    }

    fn mark(&mut self, packet: &Packet, why: Reason) {
        self.losses.marked += 1;
        self.outer.mark(packet, why);
    }
}

impl Queue {
    /// A queue of this discipline; `kind` is its name, for messages.
    pub fn new(kind: &'static str, discipline: Box<dyn Discipline>) -> Self {
        Self {
            held: Held::default(),
            sent: Count::default(),
            discipline: Inner::new(discipline),
            pinned: None,
            losses: Losses::default(),
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
    /// If the discipline says "dropped" and gave nothing to the sink.
    pub fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        let before = self.held.packets;
        self.held.packets += 1;
        self.held.bytes += packet.len;
        let (discipline, mut sink) = self.counting(sink);
        let verdict = match discipline {
            Inner::Fifo(fifo) => fifo.enqueue(now, packet, &mut sink),
            Inner::Other(discipline) => discipline.enqueue(now, packet, &mut sink),
        };
        assert!(
            verdict == Verdict::Queued || self.held.packets <= before,
            "{}: a packet was dropped without a witness",
            self.kind
        );
        verdict
    }

    /// The next packet that may leave now.
    ///
    /// # Panics
    /// If the discipline breaks its contract: waits for a time that is not after `now`, is empty while
    /// packets are held, or waits while none are.
    pub fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        let next = match self.held.pinned {
            true => self.unpin().map_or(Next::Empty, Next::Ready),
            false => self.ask(now, sink),
        };
        if let Next::Ready(packet) = &next {
            self.held.leave(packet, &self.kind);
            self.sent += packet.len;
        }
        next
    }

    fn unpin(&mut self) -> Option<Packet> {
        self.held.pinned = false;
        self.pinned.take()
    }

    /// The discipline, and where it gives what it loses.
    #[inline]
    fn counting<'a>(&'a mut self, outer: &'a mut dyn Sink) -> (&'a mut Inner, Counting<'a>) {
        let Self {
            held, losses, kind, ..
        } = self;
        (
            &mut self.discipline,
            Counting {
                held,
                losses,
                kind,
                outer,
            },
        )
    }

    /// The packet that the next `dequeue` returns, pinned.
    ///
    /// # Panics
    /// As [`Queue::dequeue`].
    pub fn peek(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<&Packet> {
        if let Inner::Fifo(ref mut fifo) = self.discipline {
            return fifo.pin().map_or(Next::Empty, Next::Ready);
        }
        if !self.held.pinned {
            match self.ask(now, sink) {
                Next::Ready(packet) => {
                    self.held.pinned = true;
                    self.pinned = Some(packet);
                }
                Next::Wait(at) => return Next::Wait(at),
                Next::Empty => return Next::Empty,
            }
        }
        self.pinned.as_ref().map_or(Next::Empty, Next::Ready)
    }

    /// After [`Next::Wait`] at the same time, for a host that keeps its wire busy with gap frames: the wire slot of the
    /// gap frame to put there now, no longer than `longest`. Then it asks again. `None`: it waits.
    pub fn fill(&mut self, longest: Bytes) -> Option<Bytes> {
        match self.held.pinned {
            true => None,
            false => self.discipline.get_mut().fill(longest),
        }
    }

    /// Asks the discipline, and holds its answer against the contract.
    #[inline]
    fn ask(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        if let Inner::Fifo(fifo) = &mut self.discipline
            && let Some(packet) = fifo.take()
        {
            return Next::Ready(packet);
        }
        self.ask_any(now, sink)
    }

    fn ask_any(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        let (discipline, mut sink) = self.counting(sink);
        let next = discipline.get_mut().dequeue(now, &mut sink);
        let held = self.held.packets;
        match &next {
            Next::Ready(_) => {}
            Next::Wait(at) => {
                assert!(
                    *at > now,
                    "{}: waits until {at}, which is not after {now}",
                    self.kind
                );
                assert!(held > 0, "{}: waits, but holds nothing", self.kind);
            }
            Next::Empty => assert!(held == 0, "{}: says empty, but holds {held} packets", self.kind),
        }
        next
    }

    /// This queue takes the place of another: its classes wait as those that they replace would have. `renumber` tells the
    /// class here for one there.
    pub fn take_debts(
        &mut self,
        now: Instant,
        from: &mut Self,
        renumber: impl Fn(ClassId) -> Option<ClassId>,
    ) {
        let mut debts = from.discipline.get_mut().debts(now);
        debts.retain_mut(|debt| {
            let class = renumber(debt.class);
            debt.class = class.unwrap_or(debt.class);
            class.is_some()
        });
        self.discipline.get_mut().owe(now, &debts);
    }

    /// Gives up everything held, each packet to the sink as [`Reason::Flushed`].
    ///
    /// # Panics
    /// If packets are held afterwards.
    pub fn flush(&mut self, sink: &mut dyn Sink) {
        let pinned = self.unpin();
        let (discipline, mut sink) = self.counting(sink);
        if let Some(packet) = pinned {
            sink.drop(packet, Reason::Flushed);
        }
        discipline.get_mut().flush(&mut sink);
        assert!(self.is_empty(), "{}: holds packets after a flush", self.kind);
    }

    /// Reads what the next packet needs in this queue, so that it is in the cache by then. Called for several of very many
    /// queues, one after the other, it lets the processor fetch their memory at one time. The value means nothing.
    #[inline]
    pub fn touch(&self) -> u64 {
        let held = u64::from(self.held.packets);
        match &self.discipline {
            Inner::Fifo(fifo) => held ^ fifo.touch(),
            Inner::Other(_) => held,
        }
    }

    /// The same for the discipline, once the queue's own memory is there.
    #[inline]
    pub fn touch_below(&self) -> u64 {
        match &self.discipline {
            Inner::Fifo(fifo) => fifo.touch_others(),
            Inner::Other(discipline) => discipline.touch(),
        }
    }

    /// What is held, a pinned packet included. O(1).
    pub fn backlog(&self) -> Count {
        Count {
            packets: self.held.packets.into(),
            bytes: self.held.bytes,
        }
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held.packets == 0
    }

    /// What has passed so far.
    pub fn stats(&self) -> Stats {
        let Losses {
            dropped,
            marked,
            reasons,
        } = self.losses;
        let held = self.backlog();
        let offered = Count {
            packets: self.sent.packets + dropped.packets + held.packets,
            bytes: self.sent.bytes + dropped.bytes + held.bytes,
        };
        Stats {
            offered,
            sent: self.sent,
            dropped,
            marked,
            reasons,
        }
    }

    /// Shows this queue's counts and its discipline's state, children included.
    pub fn inspect(&self, out: &mut Inspection<'_>) {
        out.counts(self.kind, &self.stats());
        self.discipline.get().inspect(out);
    }

    /// Adopts a plan of the same shape while packets flow. `false` if some discipline in it cannot; others
    /// may have adopted theirs by then, so the host then applies the former plan again.
    pub fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        self.discipline.get_mut().retune(now, plan)
    }
}
