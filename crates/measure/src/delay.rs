//! Queueing delays: a [`Histogram`] of times. Histograms merge, so each thread can keep its own.

use crate::histogram::{COARSE, FINE, Histogram};
use engine::units::Duration;

/// A histogram of delays, in so many buckets of each power of two.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delays<const ROW: usize = COARSE>(Histogram<ROW>);

/// Delays that figures are reported from: percentiles are at most 1/64 too long.
pub type FineDelays = Delays<FINE>;

impl<const ROW: usize> Default for Delays<ROW> {
    fn default() -> Self {
        Self(Histogram::default())
    }
}

impl<const ROW: usize> Delays<ROW> {
    /// None yet, with room for all.
    pub fn roomy() -> Self {
        Self(Histogram::roomy())
    }

    /// Makes them equal to others, and keeps their own memory if that is enough.
    pub fn copy(&mut self, other: &Self) {
        self.0.copy(&other.0);
    }

    /// Records one delay.
    pub fn record(&mut self, delay: Duration) {
        self.0.record(delay.nanos(), 1);
    }

    /// The number of recorded delays.
    pub fn count(&self) -> u64 {
        self.0.total()
    }

    /// The longest delay, exact.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.0.greatest())
    }

    /// The mean, rounded down; zero without samples.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.0.mean())
    }

    /// The delay that `per_mille` of 1000 samples do not exceed: 500 is the median, 990 the 99th
    /// percentile. It is at most one of `ROW` parts too long. Zero without samples.
    pub fn quantile(&self, per_mille: u32) -> Duration {
        Duration::from_nanos(self.0.quantile(per_mille))
    }

    /// For drawing: each delay with the number of samples that do not exceed it, at most one
    /// of `ROW` parts too long.
    pub fn steps(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.0
            .steps()
            .map(|(ns, count)| (Duration::from_nanos(ns), count))
    }

    /// Adds the samples of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    /// Adds the samples of a histogram with other buckets, whose error stays.
    pub fn merge_other<const OTHER: usize>(&mut self, other: &Delays<OTHER>) {
        self.0.merge_other(&other.0);
    }

    /// The samples since an earlier state of the same histogram; all samples if it was cleared
    /// since. The longest delay is exact if it is new, otherwise at most one of `ROW`
    /// parts too long.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(self.0.since(&earlier.0))
    }

    /// Removes all samples and keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The longest delay with a bucket of its own.
    const LONGEST: u64 = (1 << 40) - 1;

    fn delays(values: &[u64]) -> Delays {
        let mut delays = Delays::default();
        values
            .iter()
            .for_each(|ns| delays.record(Duration::from_nanos(*ns)));
        delays
    }

    #[test]
    fn without_samples_everything_is_zero() {
        let none = FineDelays::default();
        assert_eq!(
            (none.quantile(500), none.mean(), none.count()),
            (Duration::ZERO, Duration::ZERO, 0)
        );
    }

    proptest! {
        #[test]
        fn a_quantile_is_never_too_short_and_at_most_a_sixteenth_too_long(
            mut values in prop::collection::vec(0..LONGEST, 1..200),
            per_mille in 1..=1000u32,
        ) {
            let found = delays(&values).quantile(per_mille).nanos();
            values.sort_unstable();
            let rank = (values.len() * per_mille as usize).div_ceil(1000);
            let exact = values[rank - 1];
            prop_assert!(found >= exact && found <= exact + exact / 16, "{found} for {exact}");
        }

        #[test]
        fn since_an_earlier_state_only_what_came_after_counts(
            a in prop::collection::vec(0..LONGEST, 0..50),
            b in prop::collection::vec(0..LONGEST, 0..50),
        ) {
            let after = delays(&[a.clone(), b.clone()].concat()).since(&delays(&a));
            let alone = delays(&b);
            prop_assert_eq!((after.count(), after.mean()), (alone.count(), alone.mean()));
            let (longest, exact) = (after.longest().nanos(), alone.longest().nanos());
            prop_assert!(longest >= exact && longest <= exact + exact / 16, "{longest} for {exact}");
        }

        #[test]
        fn merging_is_the_same_as_recording_together(a in prop::collection::vec(0..u64::MAX, 0..50), b in prop::collection::vec(0..u64::MAX, 0..50)) {
            let mut merged = delays(&a);
            merged.merge(&delays(&b));
            let together = delays(&[a, b].concat());
            prop_assert_eq!(merged, together);
        }
    }
}
