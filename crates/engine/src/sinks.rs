//! Sinks for the disciplines' own tests.

use crate::discipline::{Reason, Sink};
use crate::packet::Packet;

/// Ignores what is dropped.
pub struct Nowhere;

impl Sink for Nowhere {
    fn drop(&mut self, _packet: Packet, _why: Reason) {}
}

/// The flow of each dropped packet, and why it was dropped.
#[derive(Default)]
pub struct Drops(pub Vec<(u32, Reason)>);

impl Sink for Drops {
    fn drop(&mut self, packet: Packet, why: Reason) {
        self.0.push((packet.flow.full, why));
    }
}
