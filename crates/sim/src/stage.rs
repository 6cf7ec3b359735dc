//! A stage before the queue of a link: it sees every packet that arrives there, and may lower the
//! window that an ACK advertises, as a gateway does that clamps connections.

use crate::packet::SimPacket;
use engine::header::FlowKey;
use engine::packet::ClassId;
use engine::units::Instant;
use std::fmt;

/// Sees the packets that arrive at a link's queue.
pub trait Stage: fmt::Debug + Send {
    /// A packet with these header fields arrives; the link's policy has put it into this class.
    /// Returns the window that it advertises from now on, if that is to change.
    fn pass(&mut self, now: Instant, key: &FlowKey, packet: &SimPacket, class: ClassId) -> Option<u64>;
}
