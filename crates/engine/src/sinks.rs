//! What the disciplines' own tests give as sinks.

use crate::discipline::{Reason, Sink};
use crate::packet::Packet;

/// Nobody asks what was lost.
pub struct Nowhere;

impl Sink for Nowhere {
    fn drop(&mut self, _packet: Packet, _why: Reason) {}
}

/// The flow of each packet that was lost, and why it was.
#[derive(Default)]
pub struct Drops(pub Vec<(u32, Reason)>);

impl Sink for Drops {
    fn drop(&mut self, packet: Packet, why: Reason) {
        self.0.push((packet.flow.full, why));
    }
}
