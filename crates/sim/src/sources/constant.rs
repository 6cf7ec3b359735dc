//! A constant bit rate: packets of one length, one interval apart.

use crate::agent::{Agent, Context};
use crate::packet::{Packet, Payload};
use engine::packet::Ecn;
use engine::units::{Bytes, Duration, Instant};

/// A source of packets at a constant rate.
#[derive(Clone, Debug)]
pub struct Constant {
    /// The length of each frame: Ethernet header and all above.
    pub frame: Bytes,
    /// From the first bit of a packet to the first of the next.
    pub interval: Duration,
    /// When it stops; a packet at that time is not sent.
    pub until: Instant,
    /// The ECN field of its packets.
    pub ecn: Ecn,
    sent: u64,
}

impl Constant {
    /// A source that does not stop, and is not ECN-capable.
    pub fn new(frame: Bytes, interval: Duration) -> Self {
        Self {
            frame,
            interval: interval.max(Duration::from_nanos(1)),
            until: Instant::NEVER,
            ecn: Ecn::NotEct,
            sent: 0,
        }
    }
}

impl Agent for Constant {
    fn wake(&mut self, cx: &mut Context<'_>) {
        if cx.now() >= self.until {
            return;
        }
        let mut packet = Packet::new(self.frame, Payload::Datagram(self.sent));
        packet.ecn = self.ecn;
        self.sent += 1;
        cx.send(packet);
        cx.wake_at(cx.now() + self.interval);
    }

    fn receive(&mut self, _cx: &mut Context<'_>, _packet: &Packet) {}
}
