//! The datagrams of a source: numbered, with lengths and an ECN field, while it is active.

use super::active::Active;
use super::distributions::Lengths;
use crate::agent::Context;
use crate::packet::{Payload, SimPacket};
use engine::packet::Ecn;
use engine::random::{Rng, Seed};
use engine::units::{Bytes, Instant};

/// The datagrams of one source.
#[derive(Clone, Debug)]
pub struct Datagrams {
    pub(super) lengths: Lengths,
    pub(super) active: Active,
    ecn: Ecn,
    rng: Rng,
    sent: u64,
}

impl From<Bytes> for Datagrams {
    /// Frames of one length.
    fn from(frame: Bytes) -> Self {
        Self::new(frame, Seed(0))
    }
}

impl Datagrams {
    /// Frames of these lengths, always active, not ECN-capable. The seed is for random lengths.
    pub fn new(lengths: impl Into<Lengths>, seed: Seed) -> Self {
        Self {
            lengths: lengths.into(),
            active: Active::default(),
            ecn: Ecn::NotEct,
            rng: seed.fork("lengths").stream(),
            sent: 0,
        }
    }

    /// The same with this ECN field.
    #[must_use]
    pub fn ecn(mut self, ecn: Ecn) -> Self {
        self.ecn = ecn;
        self
    }

    /// The same in these spans of time only.
    #[must_use]
    pub fn active(mut self, active: Active) -> Self {
        self.active = active;
        self
    }

    /// The same until this time; a packet due at that time is not sent.
    #[must_use]
    pub fn until(self, end: Instant) -> Self {
        self.active(Active::until(end))
    }

    /// The number of datagrams sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Sends the next, of this length if one is given; returns its length.
    pub(super) fn send(&mut self, cx: &mut Context<'_>, frame: Option<Bytes>) -> Bytes {
        let frame = frame.unwrap_or_else(|| self.lengths.draw(&mut self.rng));
        cx.send(self.packet(frame));
        frame
    }

    /// Sends the next with a notification when it leaves the first queue.
    pub(super) fn send_notified(&mut self, cx: &mut Context<'_>) {
        let frame = self.lengths.draw(&mut self.rng);
        let mut packet = self.packet(frame);
        packet.notify = true;
        cx.send(packet);
    }

    fn packet(&mut self, frame: Bytes) -> SimPacket {
        let mut packet = SimPacket::new(frame, Payload::Datagram(self.sent));
        packet.ecn = self.ecn;
        self.sent += 1;
        packet
    }
}
