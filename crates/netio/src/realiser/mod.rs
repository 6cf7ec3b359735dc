//! Realisers: they make the departure times of a pacing discipline come true at a port.
//!
//! - [`timer`]: the worker waits. Works on every port, as exactly as this machine wakes a thread.
//! - [`gap`]: gap frames between packets keep the wire busy, so that bytes are the clock (Takano et
//!   al. 2004).
//! - [`launch`]: the device gets packets ahead of their times, and keeps the times itself
//!   (SO_TXTIME).
//!
//! Whether one works is measured: [`Realiser::prove`] sends frames that every neighbour ignores,
//! and measures how long they take. A port that passes frames on as fast as it gets them (veth,
//! TAP: no wire takes time for a byte) is refused, with the measurement.
//!
//! A realiser also decides which time the queue sees: the clock's, the wire's, or one ahead. After
//! its host stalled, a queue does not see all of the missed time, or it would make up for it in a
//! burst; a buffer behind us relies on packets that are never early.

pub mod gap;
pub mod launch;
pub mod timer;

use crate::pool::Pool;
use crate::port::Port;
use engine::packet::Buffer;
use engine::queue::{Count, Queue};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::delay::Delays;
use std::fmt;

/// How far a stalled host may catch up in one go: a tick of a 250 Hz kernel, and some.
pub const CATCH_UP: Duration = Duration::from_millis(5);

/// Why a realiser cannot work on a port: what was found or measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RealiserRefusal(pub String);

impl fmt::Display for RealiserRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RealiserRefusal {}

/// What to do while the queue waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Ask it again, at this time.
    Ask(Instant),
    /// Sleep until the clock shows this.
    Sleep(Instant),
}

/// How exactly packets started at their times, since the path was made.
#[derive(Clone, Debug, Default)]
pub struct Achieved {
    /// How much later than its time each packet started that had to wait for it.
    pub lateness: Delays,
    /// Those of them that were late by more than the longest frame takes on the wire.
    pub late: u64,
    /// How often the wire ran dry while a packet waited and gap frames should have kept it busy.
    pub dry: u64,
    /// Time that was given up, since the host stalled for longer than it may catch up: gaps were
    /// longer by it.
    pub held_up: Duration,
    /// Gap frames, and their slots on the wire.
    pub gaps: Count,
}

/// Makes times come true.
pub trait Realiser: fmt::Debug + Send {
    /// Its name: `timer`, `gap` or `launch`.
    fn name(&self) -> &'static str;

    /// Tries whether it works on this port, within a few seconds. Returns what was found, in words.
    ///
    /// # Errors
    /// If it does not work; the refusal says what was measured.
    fn prove(&self, port: &mut dyn Port, pool: &mut Pool) -> Result<String, RealiserRefusal>;

    /// Prepares a port, after it is opened and before anything is sent.
    ///
    /// # Errors
    /// If the port lacks what it needs.
    fn attach(&mut self, port: &mut dyn Port) -> Result<(), RealiserRefusal>;

    /// The time that the queue sees now. `idle`: it is empty. Never goes back.
    fn time(&mut self, now: Instant, idle: bool) -> Instant;

    /// The same at the start of a turn, with the state of the port.
    fn begin(&mut self, now: Instant, idle: bool, _port: &mut dyn Port) -> Instant {
        self.time(now, idle)
    }

    /// Whether it keeps the wire's time by itself: then nothing else may delay packets.
    fn keeps_wire(&self) -> bool {
        false
    }

    /// The queue has packets, and none may leave before `until`.
    fn wait(&mut self, until: Instant, queue: &mut Queue, port: &mut dyn Port) -> Step;

    /// The queue's packet goes to the port, in this frame.
    fn send(&mut self, pool: &mut Pool, frame: Buffer);

    /// The queue is empty.
    fn rest(&mut self);

    /// How exact it was.
    fn achieved(&self) -> &Achieved;
}

/// The lateness of packets that waited for a time, and time that is not caught up.
#[derive(Clone, Debug)]
struct Punctuality {
    achieved: Achieved,
    /// A full frame on the wire.
    slot: Duration,
    due: Option<Instant>,
}

impl Punctuality {
    fn new(wire: Bandwidth, mtu: usize) -> Self {
        let slot = Bytes::new(full_frame(mtu) as u64 + engine::byte_clock::WIRE_OVERHEAD);
        Self {
            achieved: Achieved::default(),
            slot: wire.time_to_send(slot),
            due: None,
        }
    }

    /// A packet starts.
    fn start(&mut self, at: Instant) {
        if let Some(due) = self.due.take() {
            let late = at.since(due);
            self.achieved.lateness.record(late);
            self.achieved.late += u64::from(late > self.slot);
        }
    }
}

/// The longest frame of an interface, without FCS.
fn full_frame(mtu: usize) -> usize {
    mtu + crate::port::ETHERNET
}
