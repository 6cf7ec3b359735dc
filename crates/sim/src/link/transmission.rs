//! A packet between its queue and its wire.

use engine::packet::{Buffer, ClassId};
use engine::units::Instant;

/// A packet that goes onto the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transmission {
    pub(super) packet: Buffer,
    pub(super) class: ClassId,
    /// When it arrived at the queue.
    pub(super) arrived: Instant,
    /// When it leaves the queue.
    pub(super) dequeued: Instant,
    /// When its first bit goes onto the wire.
    pub(super) start: Instant,
}
