//! The other end of a source that does not wait for answers: it counts, and measures how long packets took.

use crate::agent::{Agent, Context};
use crate::packet::{Packet, Payload};
use engine::units::Duration;
use measure::delay::Delays;

/// Takes datagrams.
#[derive(Clone, Debug, Default)]
pub struct Listener {
    /// From being sent to having arrived.
    pub delays: Delays,
    /// Packets that arrived.
    pub packets: u64,
    /// The highest number that arrived, plus one: what is missing below it was lost.
    pub expected: u64,
    /// Packets that arrived after one with a higher number (RFC 4737, section 3.3).
    pub reordered: u64,
    /// The delay of the packet before.
    before: Option<Duration>,
    /// Sixteen times the jitter, in nanoseconds.
    jitter: u64,
}

impl Listener {
    /// Packets that were lost, as far as later ones tell.
    pub fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.packets)
    }

    /// The smoothed difference between the delays of successive packets (RFC 3550, section 6.4.1).
    pub fn jitter(&self) -> Duration {
        Duration::from_nanos(self.jitter / 16)
    }
}

impl Agent for Listener {
    fn wake(&mut self, _cx: &mut Context<'_>) {}

    fn receive(&mut self, cx: &mut Context<'_>, packet: &Packet) {
        let delay = cx.now().since(packet.sent);
        self.packets += 1;
        self.delays.record(delay);
        if let Some(before) = self.before.replace(delay) {
            // J := J + (|D| - J) / 16, in sixteenths.
            self.jitter += delay.nanos().abs_diff(before.nanos());
            self.jitter -= (self.jitter + 8) / 16;
        }
        if let Payload::Datagram(number) = packet.payload {
            self.reordered += u64::from(number < self.expected);
            self.expected = self.expected.max(number + 1);
        }
        cx.deliver(packet.frame);
    }
}
