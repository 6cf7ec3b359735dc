//! Random times and lengths of sources, in integers throughout.

use engine::random::{Rng, Seed};
use engine::units::{Bytes, Duration};
use measure::distribution::Distribution;
use measure::variates::exponential;
use std::sync::Arc;

/// Times are computed in fractions of a nanosecond with this many bits.
const FRACTION_BITS: u32 = 32;

/// Exponential times with an exact mean: fractions of a nanosecond are carried over.
#[derive(Clone, Debug)]
pub(super) struct Exponential {
    rng: Rng,
    /// In units of 2⁻³² ns.
    mean: u128,
    remainder: u128,
}

impl Exponential {
    /// With a mean of `numerator / denominator` nanoseconds.
    pub(super) fn new(numerator: u128, denominator: u128, seed: Seed) -> Self {
        Self {
            rng: seed.stream(),
            mean: (numerator << FRACTION_BITS) / denominator.max(1),
            remainder: 0,
        }
    }

    pub(super) fn draw(&mut self) -> Duration {
        // Half of the fraction is enough. A variate of 2⁷ and more has a probability of e⁻¹²⁸.
        let parts = (exponential(&mut self.rng) >> 32).saturating_mul(self.mean) >> 32;
        let sum = parts.saturating_add(self.remainder);
        self.remainder = sum & ((1 << FRACTION_BITS) - 1);
        Duration::from_nanos(u64::try_from(sum >> FRACTION_BITS).unwrap_or(u64::MAX))
    }
}

/// The distribution of a duration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TimeDistribution {
    /// Always the same.
    Fixed(Duration),
    /// Exponential, with this mean, which is kept exactly.
    Exponential(Duration),
    /// Of nanoseconds.
    Drawn(Distribution),
}

/// Draws durations.
#[derive(Clone, Debug)]
pub(super) enum TimeSampler {
    Fixed(Duration),
    Exponential(Exponential),
    Drawn(Distribution, Rng),
}

impl TimeSampler {
    pub(super) fn new(distribution: TimeDistribution, seed: Seed) -> Self {
        match distribution {
            TimeDistribution::Fixed(time) => Self::Fixed(time),
            TimeDistribution::Exponential(mean) => {
                Self::Exponential(Exponential::new(mean.nanos().into(), 1, seed))
            }
            TimeDistribution::Drawn(distribution) => Self::Drawn(distribution, seed.stream()),
        }
    }

    pub(super) fn draw(&mut self) -> Duration {
        match self {
            Self::Fixed(time) => *time,
            Self::Exponential(exponential) => exponential.draw(),
            Self::Drawn(distribution, rng) => Duration::from_nanos(distribution.draw(rng)),
        }
    }
}

/// The lengths of a source's frames: from the Ethernet header on, no FCS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lengths {
    /// All the same.
    Fixed(Bytes),
    /// Drawn: each length with its weight.
    Mixed(Arc<[(Bytes, u32)]>),
}

impl From<Bytes> for Lengths {
    fn from(frame: Bytes) -> Self {
        Self::Fixed(frame)
    }
}

impl Lengths {
    /// Simple IMIX: IP packets of 40, 576 and 1500 bytes in proportions 7 : 4 : 1; the first are
    /// padded to Ethernet's minimum.
    pub fn imix() -> Self {
        Self::Mixed(
            [(60, 7), (590, 4), (1514, 1)]
                .map(|(frame, weight)| (Bytes::new(frame), weight))
                .into(),
        )
    }

    /// The weighted sum of lengths, and the sum of weights.
    pub(super) fn sums(&self) -> (u128, u128) {
        match self {
            Self::Fixed(frame) => (frame.get().into(), 1),
            Self::Mixed(parts) => parts.iter().fold((0, 0), |(bytes, weights), &(frame, weight)| {
                let weight = u128::from(weight);
                (bytes + u128::from(frame.get()) * weight, weights + weight)
            }),
        }
    }

    /// The mean length, rounded down.
    pub fn mean(&self) -> Bytes {
        let (bytes, weights) = self.sums();
        Bytes::new(u64::try_from(bytes / weights.max(1)).unwrap_or(u64::MAX))
    }

    pub(super) fn draw(&self, rng: &mut Rng) -> Bytes {
        match self {
            Self::Fixed(frame) => *frame,
            Self::Mixed(parts) => {
                let all = parts.iter().map(|&(_, weight)| u64::from(weight)).sum();
                let mut at = rng.below(all);
                for &(frame, weight) in parts.iter() {
                    match at.checked_sub(weight.into()) {
                        Some(left) => at = left,
                        None => return frame,
                    }
                }
                Bytes::ZERO
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_times_have_their_mean_their_variance_and_their_tail() {
        const N: u64 = 200_000;
        let mut source = Exponential::new(10_001, 10, Seed(1));
        let draws: Vec<u64> = (0..N).map(|_| source.draw().nanos()).collect();
        let mean = draws.iter().sum::<u64>() as f64 / N as f64;
        let square = draws.iter().map(|&ns| (ns * ns) as f64).sum::<f64>() / N as f64;
        let tail = draws.iter().filter(|&&ns| ns > 3_000).count() as f64 / N as f64;
        // Four standard errors: 1/√N of the mean, √8/√N of the variance, √(p(1−p)/N) of a share
        // p = e^−3.
        assert!((mean / 1_000.1 - 1.0).abs() < 0.009, "{mean}");
        let variance = square - mean * mean;
        assert!((variance / 1e6 - 1.0).abs() < 0.026, "{variance}");
        assert!((tail - 0.0498).abs() < 0.002, "{tail}");
    }

    #[test]
    fn a_mix_has_its_shares_and_its_mean() {
        let (mix, mut rng) = (Lengths::imix(), Seed(2).stream());
        let draws: Vec<u64> = (0..120_000).map(|_| mix.draw(&mut rng).get()).collect();
        let share = |len| draws.iter().filter(|&&d| d == len).count() as f64 / 10_000.0;
        for (len, expected) in [(60, 7.0), (590, 4.0), (1514, 1.0)] {
            assert!((share(len) - expected).abs() < 0.07, "{len}: {}", share(len));
        }
        assert_eq!(mix.mean(), Bytes::new((7 * 60 + 4 * 590 + 1514) / 12));
    }

    #[test]
    fn an_empty_mix_draws_empty_frames_and_does_not_panic() {
        let nothing = Lengths::Mixed(Arc::new([]));
        assert_eq!(nothing.draw(&mut Seed(1).stream()), Bytes::ZERO);
        assert_eq!(nothing.mean(), Bytes::ZERO);
    }
}
