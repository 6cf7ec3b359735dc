//! A constant rate: packets one interval apart, or at a bit rate.

use super::Timing;
use engine::units::{Bandwidth, Bytes, Duration};

/// What is constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// The time from the first bit of a packet to the first of the next.
    Every(Duration),
    /// The bits of frames per second, whatever the lengths: exactly, fractions of a nanosecond are carried over.
    Rate(Bandwidth),
}

/// Packets at a constant pace.
#[derive(Clone, Debug)]
pub struct Constant {
    pace: Pace,
    /// What is owed of a nanosecond, in parts of the rate.
    rest: u64,
}

impl Constant {
    /// One packet every `interval`, of at least a nanosecond.
    pub fn every(interval: Duration) -> Self {
        Self::new(Pace::Every(interval))
    }

    /// At this bit rate, counted in frames.
    pub fn rate(rate: Bandwidth) -> Self {
        Self::new(Pace::Rate(rate))
    }

    /// At this pace.
    pub fn new(pace: Pace) -> Self {
        Self { pace, rest: 0 }
    }

    /// From a packet of this length to the next; `None` at rate zero.
    pub(super) fn gap(&mut self, sent: Bytes) -> Option<Duration> {
        const NANOS: u128 = 1_000_000_000;
        match self.pace {
            Pace::Every(interval) => Some(interval.max(Duration::from_nanos(1))),
            Pace::Rate(Bandwidth::ZERO) => None,
            Pace::Rate(rate) => {
                let owed = u128::from(sent.get().max(1)) * 8 * NANOS + u128::from(self.rest);
                let rate = u128::from(rate.bits());
                self.rest = (owed % rate) as u64;
                u64::try_from(owed / rate).ok().map(Duration::from_nanos)
            }
        }
    }
}

impl Timing for Constant {
    fn first(&mut self) -> Option<Duration> {
        self.rest = 0;
        (self.pace != Pace::Rate(Bandwidth::ZERO)).then_some(Duration::ZERO)
    }

    fn next(&mut self, sent: Bytes) -> Option<Duration> {
        self.gap(sent)
    }
}
