//! The contract of a queueing discipline. Start here to write one; `disciplines/fifo.rs` is the template.
//!
//! ALTQ's four operations (Cho, "Managing traffic with ALTQ" and the journal paper of 1999, section 2:
//! ENQUEUE, DEQUEUE, PEEK, FLUSH), sharpened:
//!
//! - time is an argument and never goes backwards; randomness was given at construction;
//! - DEQUEUE has three answers, so a queue that is not work-conserving says *when* it will have a packet:
//!   there are no timers (ALTQ: callouts; Linux: watchdogs);
//! - PEEK is not the author's business: [`Queue`](crate::queue::Queue) pins the packet;
//! - every loss goes through a [`Sink`] with a [`Reason`];
//! - a discipline owns its children, as `Queue`s, and never calls its parent.

use crate::inspect::Inspection;
use crate::kind::Plan;
use crate::packet::{ClassId, Packet};
use crate::units::{Bytes, Instant};
use std::any::Any;
use std::fmt;

/// What happened to the packet that was offered. Other packets that had to leave for it (from the head,
/// from the longest queue) go to the sink and do not show here.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is held.
    Queued,
    /// It was not taken, and went to the sink for this reason.
    Dropped(Reason),
}

/// What a queue can give now.
#[must_use]
#[derive(PartialEq, Eq, Debug)]
pub enum Next<P> {
    /// This packet, now.
    Ready(P),
    /// Packets are held, but none may leave before this time, which is later than `now`. Asking earlier is
    /// harmless; the answer may become earlier when another packet is enqueued.
    Wait(Instant),
    /// Nothing is held.
    Empty,
}

/// Why a packet was lost or marked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Reason {
    /// The queue's limit was reached; the arriving packet was refused (tail drop).
    Full,
    /// The queue's limit was reached; the oldest packet made room (drop from the head).
    Head,
    /// The shared limit was reached; the longest queue gave its oldest packet.
    Longest,
    /// Early notification by chance: the queue is longer than wanted (RED, PIE, BLUE, DualPI2).
    Early,
    /// The average queue is above its upper threshold (RED).
    Forced,
    /// No class, and no default class, takes the packet.
    NoClass,
    /// The queue was flushed.
    Flushed,
    /// The port could not send it: its interface is down or gone.
    Port,
    /// It was longer than the interface can carry.
    TooLong,
    /// It had been forwarded by other means while the process was stopped.
    Stale,
    /// Packets had been waiting longer than wanted for too long (CoDel).
    Delay,
    /// It was more than its sender may send (a meter).
    Policed,
    /// The wire lost it (an emulated link).
    Wire,
}

impl Reason {
    /// Every reason, in the order of its number.
    pub const ALL: [Self; 13] = [
        Self::Full,
        Self::Head,
        Self::Longest,
        Self::Early,
        Self::Forced,
        Self::NoClass,
        Self::Flushed,
        Self::Port,
        Self::TooLong,
        Self::Stale,
        Self::Delay,
        Self::Policed,
        Self::Wire,
    ];

    /// The name under which it is counted and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Head => "head",
            Self::Longest => "longest",
            Self::Early => "early",
            Self::Forced => "forced",
            Self::NoClass => "no-class",
            Self::Flushed => "flushed",
            Self::Port => "port",
            Self::TooLong => "too-long",
            Self::Stale => "stale",
            Self::Delay => "delay",
            Self::Policed => "policed",
            Self::Wire => "wire",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Takes packets out of the system, and hears of marks. Every drop, at any moment, comes here.
pub trait Sink {
    /// The packet is lost, for this reason.
    fn drop(&mut self, packet: Packet, why: Reason);
    /// The packet was marked (ECN) and stays.
    fn mark(&mut self, _packet: &Packet, _why: Reason) {}
}

/// What a class has sent ahead of its rate, and has to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Debt {
    /// The class.
    pub class: ClassId,
    /// Bytes as its rate counts them, rounded up.
    pub bytes: u64,
}

/// A queueing discipline: only the algorithm. It does not count, log, sleep or lock; its host and
/// [`Queue`](crate::queue::Queue) do, and check this contract.
pub trait Discipline: fmt::Debug + Send + Any {
    /// Takes the packet, or gives it to the sink and says so. May give others to the sink.
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict;

    /// The next packet that may leave. May drop on the way. `Empty` if and only if nothing is held.
    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet>;

    /// After a wait, for a host that keeps its wire busy: the wire slot of the gap frame to put there now, no longer than
    /// `longest` where that can be done; it counts as sent. `None`: the host waits. The default: time is not counted in bytes.
    fn fill(&mut self, _longest: Bytes) -> Option<Bytes> {
        None
    }

    /// What classes have sent ahead of their rates, for a tree that takes the place of this one. The default: nothing.
    fn debts(&mut self, _now: Instant) -> Vec<Debt> {
        Vec::new()
    }

    /// Classes of a new tree begin with these debts: none sends before it would have where they come from.
    fn owe(&mut self, _now: Instant, _debts: &[Debt]) {}

    /// Gives up everything held, each with [`Reason::Flushed`]. Needed because a queue that is not
    /// work-conserving cannot be emptied by a loop of dequeues.
    fn flush(&mut self, sink: &mut dyn Sink);

    /// Reads what the next packet needs, for [`Queue::touch`](crate::queue::Queue::touch). The value means nothing.
    fn touch(&self) -> u64 {
        0
    }

    /// Shows the state worth seeing: gauges, and each class with its queue; a class that has classes, with the
    /// counts of all below it.
    fn inspect(&self, _out: &mut Inspection<'_>) {}

    /// Adopts the settings of a plan of the same shape while packets flow, and its children's. `false` if
    /// it cannot; then nothing has changed. The default: nothing can change while running.
    fn retune(&mut self, _now: Instant, _plan: &dyn Plan) -> bool {
        false
    }
}
