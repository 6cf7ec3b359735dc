//! The other end of a source that does not wait for answers: it counts, and measures how long packets took.

use crate::agent::{Agent, Context};
use crate::packet::{Packet, Payload};
use engine::delay::Delays;

/// Takes datagrams.
#[derive(Clone, Debug, Default)]
pub struct Listener {
    /// From being sent to having arrived.
    pub delays: Delays,
    /// Packets that arrived.
    pub packets: u64,
    /// The highest number that arrived, plus one: what is missing below it was lost.
    pub expected: u64,
}

impl Agent for Listener {
    fn wake(&mut self, _cx: &mut Context<'_>) {}

    fn receive(&mut self, cx: &mut Context<'_>, packet: &Packet) {
        self.packets += 1;
        self.delays.record(cx.now().since(packet.sent));
        if let Payload::Datagram(number) = packet.payload {
            self.expected = self.expected.max(number + 1);
        }
        cx.deliver(packet.frame);
    }
}
