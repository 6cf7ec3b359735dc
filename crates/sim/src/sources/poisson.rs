//! Poisson arrivals: the gaps between packets are exponential and independent.

use super::datagram_source::Timing;
use super::distributions::{Exponential, Lengths};
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration};

/// Packets with exponential gaps.
#[derive(Clone, Debug)]
pub struct Poisson(Option<Exponential>);

impl Poisson {
    /// With this mean gap.
    pub fn every(mean: Duration, seed: Seed) -> Self {
        Self(Some(Exponential::new(mean.nanos().max(1).into(), 1, seed)))
    }

    /// With this mean rate, counted in frames of these lengths. A rate of zero is silence.
    pub fn rate(rate: Bandwidth, lengths: &Lengths, seed: Seed) -> Self {
        const NANOBITS: u128 = 8_000_000_000;
        let (bytes, weights) = lengths.sums();
        let denominator = u128::from(rate.bits()) * weights;
        Self((denominator > 0 && bytes > 0).then(|| Exponential::new(bytes * NANOBITS, denominator, seed)))
    }
}

impl Timing for Poisson {
    fn first(&mut self) -> Option<Duration> {
        self.0.as_mut().map(Exponential::draw)
    }

    fn next(&mut self, _sent: Bytes) -> Option<Duration> {
        self.first()
    }
}
