//! Realisers: they make packets leave a port at the departure times of a pacing discipline.
//!
//! - [`timer`]: the worker waits. Works on every port, as precisely as this machine wakes a thread.
//! - [`gap`]: gap frames between packets keep the wire busy, so that its bytes are the clock
//!   (Takano et al. 2004).
//! - [`launch`]: the device receives packets ahead of their times, and sends them at those times
//!   itself (SO_TXTIME).
//!
//! Whether a realiser works is measured: [`Realiser::prove`] sends frames that every neighbour
//! ignores, and measures how long they take. A port that forwards frames as fast as it gets them
//! (veth, TAP: there is no serialisation) is refused, with the measurement.
//!
//! A realiser also decides which time the queue sees: that of the clock, that of the wire, or one
//! ahead. After a stall of the host the queue does not see all of the missed time, or it would
//! catch up in a burst: buffers downstream rely on packets that are never early.

mod catch_up;
pub mod gap;
pub mod launch;
pub mod timer;

use crate::pool::Pool;
use crate::port::Port;
use engine::discipline::Pacing;
use engine::packet::Buffer;
use engine::queue::{Count, Queue};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::delay::Delays;
use std::fmt;

/// Why a realiser cannot work on a port, with what was measured.
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
    /// Dequeue again, with this time.
    Ask(Instant),
    /// Sleep until the clock shows this.
    Sleep(Instant),
}

/// How precisely packets started at their departure times, since the path was made.
#[derive(Clone, Debug, Default)]
pub struct Achieved {
    /// The lateness of each packet that had to wait for its departure time.
    pub lateness: Delays,
    /// Packets that were late by more than the longest frame takes on the wire.
    pub late: u64,
    /// How often the wire went idle while a packet waited and gap frames should have kept it busy.
    pub dry: u64,
    /// Time that was not caught up after stalls of the host; gaps were longer by it.
    pub held_up: Duration,
    /// Gap frames, and the bytes of their slots on the wire.
    pub gaps: Count,
}

/// Makes packets leave at their departure times.
pub trait Realiser: fmt::Debug + Send {
    /// Its name: `timer`, `gap` or `launch`.
    fn name(&self) -> &'static str;

    /// Tests within a few seconds whether it works on this port. Returns the measurement as text.
    ///
    /// # Errors
    /// If it does not work; the refusal contains the measurement.
    fn prove(&self, port: &mut dyn Port, pool: &mut Pool) -> Result<String, RealiserRefusal>;

    /// Prepares a port, after it is opened and before anything is sent.
    ///
    /// # Errors
    /// If the port lacks what it needs.
    fn attach(&mut self, port: &mut dyn Port) -> Result<(), RealiserRefusal>;

    /// The time that the queue sees now. `idle`: the queue is empty. It never goes back.
    fn time(&mut self, now: Instant, idle: bool) -> Instant;

    /// The same at the start of a turn, with the state of the port.
    fn begin(&mut self, now: Instant, idle: bool, _port: &mut dyn Port) -> Instant {
        self.time(now, idle)
    }

    /// Whether it paces by the wire itself: nothing else may delay packets then.
    fn keeps_wire(&self) -> bool {
        false
    }

    /// The queue has packets, and none may leave before `until`.
    fn wait(&mut self, until: Instant, queue: &mut Queue, port: &mut dyn Port) -> Step;

    /// A packet of the queue goes to the port, in this frame.
    fn send(&mut self, pool: &mut Pool, frame: Buffer);

    /// The queue has packets, and the port has no room. Returns when the worker looks again at the
    /// latest: what is missed after that is a hold-up.
    fn wait_for_room(&mut self) -> Instant {
        Instant::NEVER
    }

    /// The queue is empty.
    fn rest(&mut self);

    /// The queue's rates have changed.
    fn repace(&mut self, _pacing: Pacing) {}

    /// How precise it was.
    fn achieved(&self) -> &Achieved;
}

/// Measures the lateness of packets that waited for their departure time.
#[derive(Clone, Debug)]
struct Punctuality {
    achieved: Achieved,
    /// The duration of a full frame on the wire.
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
