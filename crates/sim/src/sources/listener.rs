//! The receiver of a source's datagrams: it counts them, and measures delay, jitter and reordering.

use crate::agent::{Agent, Context};
use crate::packet::{Payload, SimPacket};
use engine::units::Duration;
use measure::delay::Delays;

/// Receives datagrams.
#[derive(Clone, Debug, Default)]
pub struct Listener {
    /// One-way delays.
    pub delays: Delays,
    /// Packets received.
    pub packets: u64,
    /// The highest number received, plus one: numbers missing below it are lost.
    pub expected: u64,
    /// Packets received after one with a higher number (RFC 4737, section 3.3).
    pub reordered: u64,
    /// The delay of the previous packet.
    previous_delay: Option<Duration>,
    /// Sixteen times the jitter, in nanoseconds.
    jitter: u64,
}

impl Listener {
    /// Lost packets, as far as later ones reveal.
    pub fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.packets)
    }

    /// The interarrival jitter: the smoothed difference of successive delays (RFC 3550, section
    /// 6.4.1).
    pub fn jitter(&self) -> Duration {
        Duration::from_nanos(self.jitter / 16)
    }
}

impl Agent for Listener {
    fn wake(&mut self, _cx: &mut Context<'_>) {}

    fn receive(&mut self, cx: &mut Context<'_>, packet: &SimPacket) {
        let delay = cx.now().since(packet.sent);
        self.packets += 1;
        self.delays.record(delay);
        if let Some(previous) = self.previous_delay.replace(delay) {
            // J := J + (|D| - J) / 16, in sixteenths.
            self.jitter += delay.nanos().abs_diff(previous.nanos());
            self.jitter -= (self.jitter + 8) / 16;
        }
        if let Payload::Datagram(number) = packet.payload {
            self.reordered += u64::from(number < self.expected);
            self.expected = self.expected.max(number + 1);
        }
        cx.deliver(packet.frame);
    }
}
