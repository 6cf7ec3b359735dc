//! Constant rate: packets at an interval, or at a bit rate.

use super::datagram_source::Timing;
use engine::units::{Bandwidth, Bytes, Duration};

/// A constant rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendRate {
    /// The time from the first bit of a packet to the first of the next.
    Every(Duration),
    /// The bits of frames per second at any lengths: exact, since fractions of a nanosecond are
    /// carried over.
    Rate(Bandwidth),
}

/// Packets at a constant rate.
#[derive(Clone, Debug)]
pub struct Constant {
    rate: SendRate,
    /// The remainder of the last gap, in nanobits.
    remainder: u64,
}

impl Constant {
    /// One packet every `interval`, of at least a nanosecond.
    pub fn every(interval: Duration) -> Self {
        Self::new(SendRate::Every(interval))
    }

    /// At this bit rate, counted in frames.
    pub fn rate(rate: Bandwidth) -> Self {
        Self::new(SendRate::Rate(rate))
    }

    /// At this rate.
    pub fn new(rate: SendRate) -> Self {
        Self { rate, remainder: 0 }
    }

    /// From a packet of this length to the next; `None` at rate zero.
    pub(super) fn gap(&mut self, sent: Bytes) -> Option<Duration> {
        const NANOS: u128 = 1_000_000_000;
        match self.rate {
            SendRate::Every(interval) => Some(interval.max(Duration::from_nanos(1))),
            SendRate::Rate(Bandwidth::ZERO) => None,
            SendRate::Rate(rate) => {
                let nanobits = u128::from(sent.get().max(1)) * 8 * NANOS + u128::from(self.remainder);
                let rate = u128::from(rate.bits());
                self.remainder = (nanobits % rate) as u64;
                u64::try_from(nanobits / rate).ok().map(Duration::from_nanos)
            }
        }
    }
}

impl Timing for Constant {
    fn first(&mut self) -> Option<Duration> {
        self.remainder = 0;
        (self.rate != SendRate::Rate(Bandwidth::ZERO)).then_some(Duration::ZERO)
    }

    fn next(&mut self, sent: Bytes) -> Option<Duration> {
        self.gap(sent)
    }
}
