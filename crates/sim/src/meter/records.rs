//! What a link reports to its meter: departures and drops.

use engine::discipline::Reason;
use engine::packet::ClassId;
use engine::units::{Bytes, Instant};

/// A packet that goes onto a wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    pub(crate) class: ClassId,
    pub(crate) stream: u32,
    pub(crate) frame: Bytes,
    /// When it was offered to the link.
    pub(crate) arrived: Instant,
    /// When it leaves the queue: a driver with a ring takes packets before their start.
    pub(crate) dequeued: Instant,
    /// When its first bit goes onto the wire.
    pub(crate) start: Instant,
    /// When its last bit has.
    pub(crate) finish: Instant,
}

/// A packet that a queue dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DropRecord {
    pub(crate) class: ClassId,
    pub(crate) stream: u32,
    pub(crate) frame: Bytes,
    pub(crate) arrived: Instant,
    pub(crate) why: Reason,
}
