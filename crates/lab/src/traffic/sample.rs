//! Quantiles of a stream of values in bounded memory: of all values while they are few, then of a
//! uniform sample.
//!
//! Algorithm R of Vitter, "Random sampling with a reservoir" (1985): each of n values is in the
//! sample with the same probability. Minimum, maximum and mean are of all values. Values may be
//! negative, since clocks of two hosts differ.

use engine::random::{Rng, Seed};

/// Values in the sample at most. The rank of a quantile then has a standard error of 0.2 %; the 95
/// % confidence interval is ±0.4 %.
const MAX_SAMPLE: usize = 1 << 16;

/// A uniform sample of a stream of values.
#[derive(Clone, Debug)]
pub struct Sample {
    kept: Vec<i64>,
    total: u64,
    sum: i128,
    least: i64,
    greatest: i64,
    rng: Rng,
}

impl Sample {
    /// An empty sample; the seed decides which values it will contain.
    pub fn new(seed: u64) -> Self {
        Self {
            kept: Vec::new(),
            total: 0,
            sum: 0,
            least: i64::MAX,
            greatest: i64::MIN,
            rng: Seed(seed).stream(),
        }
    }

    /// Adds a value.
    pub fn take(&mut self, value: i64) {
        self.total += 1;
        self.sum += i128::from(value);
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
        if self.kept.len() < MAX_SAMPLE {
            self.kept.push(value);
            return;
        }
        let index = self.rng.below(self.total) as usize;
        if let Some(kept) = self.kept.get_mut(index) {
            *kept = value;
        }
    }

    /// The number of all values.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The minimum; none if there was no value.
    pub fn least(&self) -> Option<i64> {
        (self.total > 0).then_some(self.least)
    }

    /// The maximum.
    pub fn greatest(&self) -> Option<i64> {
        (self.total > 0).then_some(self.greatest)
    }

    /// The mean, rounded towards zero.
    pub fn mean(&self) -> Option<i64> {
        (self.total > 0).then(|| (self.sum / i128::from(self.total)) as i64)
    }

    /// The quantiles of the sample, in per mille, in the given order; empty if there was no value.
    pub fn quantiles(&self, per_mille: &[u32]) -> Vec<i64> {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable();
        let Some(last) = sorted.len().checked_sub(1) else {
            return Vec::new();
        };
        let at = |p: &u32| sorted[(last * (*p).min(1000) as usize).div_ceil(1000)];
        per_mille.iter().map(at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_exact_and_may_be_negative() {
        let mut sample = Sample::new(1);
        assert_eq!((sample.mean(), sample.quantiles(&[500])), (None, Vec::new()));
        for value in [-30, 10, 20, 40, 60] {
            sample.take(value);
        }
        assert_eq!(
            (sample.least(), sample.mean(), sample.greatest()),
            (Some(-30), Some(20), Some(60))
        );
        assert_eq!(sample.quantiles(&[0, 500, 1000]), [-30, 20, 60]);
    }

    #[test]
    fn quantiles_of_many_values_are_approximate() {
        let mut sample = Sample::new(2);
        for value in 0..1_000_000_i64 {
            sample.take(value * 7919 % 1_000_000);
        }
        let [median, high] = sample.quantiles(&[500, 990])[..] else {
            panic!("two quantiles");
        };
        assert!(
            (median - 500_000).abs() < 10_000 && (high - 990_000).abs() < 2_000,
            "{median} {high}"
        );
        assert_eq!(
            (sample.least(), sample.greatest(), sample.total()),
            (Some(0), Some(999_999), 1_000_000)
        );
    }
}
