//! A histogram of delays: log-linear, so that a nanosecond and an hour are kept with the same relative error.
//!
//! Each power of two is divided into sixteen equal parts: a quantile is at most 1/16 above the true value
//! and never below it. Recording is O(1) and allocates nothing after the first time. Two histograms can be
//! merged, which is how threads are summed up.

use crate::units::Duration;

/// Parts of each power of two, as a power of two.
const PARTS: u32 = 4;

/// The longest delay that is told apart: 2⁴⁰ ns, about 18 minutes. Longer ones count as this.
const LONGEST: u64 = (1 << 40) - 1;

const BUCKETS: usize = bucket(LONGEST) + 1;

/// The bucket of a value.
const fn bucket(ns: u64) -> usize {
    let value = if ns > LONGEST { LONGEST } else { ns };
    if value < 1 << PARTS {
        return value as usize;
    }
    let exponent = value.ilog2();
    let part = (value >> (exponent - PARTS)) as usize - (1 << PARTS);
    (((exponent - PARTS + 1) as usize) << PARTS) + part
}

/// The greatest value of a bucket.
const fn upper(bucket: usize) -> u64 {
    let (row, part) = ((bucket >> PARTS) as u32, (bucket & ((1 << PARTS) - 1)) as u64);
    if row == 0 {
        return part;
    }
    let step = 1u64 << (row - 1);
    ((1u64 << PARTS) + part) * step + step - 1
}

/// How often each delay occurred.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Delays {
    /// Empty until the first delay is recorded.
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    longest: Duration,
}

impl Delays {
    /// Counts one delay.
    pub fn record(&mut self, delay: Duration) {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        self.counts[bucket(delay.nanos())] += 1;
        self.total += 1;
        self.sum += u128::from(delay.nanos());
        self.longest = self.longest.max(delay);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The longest, exactly.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// The mean, rounded down; zero if nothing was counted.
    pub fn mean(&self) -> Duration {
        let mean = self.sum / u128::from(self.total.max(1));
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The delay that `per_mille` of a thousand did not exceed, at most 1/16 too long: 500 is the median, 990 the
    /// 99th percentile. Zero if nothing was counted.
    pub fn quantile(&self, per_mille: u32) -> Duration {
        let rank = (u128::from(self.total) * u128::from(per_mille.min(1000)))
            .div_ceil(1000)
            .max(1);
        let mut seen = 0u128;
        for (index, &count) in self.counts.iter().enumerate() {
            seen += u128::from(count);
            if seen >= rank {
                return Duration::from_nanos(upper(index)).min(self.longest);
            }
        }
        Duration::ZERO
    }

    /// Adds what another counted.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.is_empty() {
            self.counts.clone_from(&other.counts);
        } else {
            self.counts
                .iter_mut()
                .zip(&other.counts)
                .for_each(|(mine, theirs)| *mine += theirs);
        }
        self.total += other.total;
        self.sum += other.sum;
        self.longest = self.longest.max(other.longest);
    }

    /// What was counted since an earlier state of the same histogram; all of it, if it was cleared in
    /// between. The longest is exact if it is new, and otherwise at most 1/16 too long.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        if earlier.total > self.total || earlier.counts.is_empty() {
            return self.clone();
        }
        let pairs = self.counts.iter().zip(&earlier.counts);
        let counts: Vec<u64> = pairs.map(|(now, before)| now.saturating_sub(*before)).collect();
        let last = counts.iter().rposition(|count| *count > 0);
        let bound = last.map_or(Duration::ZERO, |last| Duration::from_nanos(upper(last)));
        let is_new = self.longest > earlier.longest;
        Self {
            longest: if is_new {
                self.longest
            } else {
                bound.min(self.longest)
            },
            counts,
            total: self.total - earlier.total,
            sum: self.sum.saturating_sub(earlier.sum),
        }
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.total, self.sum, self.longest) = (0, 0, Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn delays(values: &[u64]) -> Delays {
        let mut delays = Delays::default();
        values
            .iter()
            .for_each(|ns| delays.record(Duration::from_nanos(*ns)));
        delays
    }

    #[test]
    fn nothing_counted_is_zero_everywhere() {
        let none = Delays::default();
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
        fn merging_is_counting_together(a in prop::collection::vec(0..u64::MAX, 0..50), b in prop::collection::vec(0..u64::MAX, 0..50)) {
            let mut merged = delays(&a);
            merged.merge(&delays(&b));
            let together = delays(&[a, b].concat());
            prop_assert_eq!(merged, together);
        }
    }
}
