//! Round trips that passing traffic shows, counted in fixed memory.
//!
//! - [`RoundTripTable`] is what a packet loop writes: 32 buckets for each power of two, from 2 µs
//!   to 17 s. A time is at most 1/64 off, and 1 µs below 65 µs.
//! - [`RoundTripCounts`] is the same without the empty buckets at both ends, to be kept and
//!   compared.
//! - [`ExperienceCounts`] is all that is known of a class or a host.

use crate::experience::Sampled;
use crate::histogram::{bucket_of, values_of};
use engine::units::{Bytes, Duration};

/// The unit of times, 2¹¹ ns, as a power of two.
const UNIT: u32 = 11;
/// Buckets in each power of two.
const PARTS: usize = 32;
/// Times of 2³⁴ ns and more count as this.
const GREATEST: u64 = (1 << (34 - UNIT)) - 1;
const BUCKETS: usize = bucket(GREATEST) + 1;

const fn bucket(time: u64) -> usize {
    bucket_of::<PARTS>(if time > GREATEST { GREATEST } else { time })
}

/// The middle of a bucket, in nanoseconds.
const fn middle(bucket: usize) -> u64 {
    let (least, values) = values_of::<PARTS>(bucket);
    (least << UNIT) + ((values << UNIT) >> 1)
}

/// How many round trips took how long, in fixed memory.
#[derive(Clone, Debug)]
pub struct RoundTripTable([u32; BUCKETS]);

impl Default for RoundTripTable {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl RoundTripTable {
    /// Records one.
    pub fn record(&mut self, time: Duration) {
        let count = &mut self.0[bucket(time.nanos() >> UNIT)];
        *count = count.saturating_add(1);
    }

    /// What was recorded, without the buckets before the first and behind the last that is used.
    pub fn counts(&self) -> RoundTripCounts {
        let used = |count: &u32| *count > 0;
        let first = self.0.iter().position(used).unwrap_or(BUCKETS);
        let end = self.0.iter().rposition(used).map_or(BUCKETS, |last| last + 1);
        RoundTripCounts {
            first,
            counts: self.0[first..end].to_vec(),
        }
    }
}

/// How many round trips took how long.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoundTripCounts {
    /// The bucket of the first of `counts`.
    first: usize,
    counts: Vec<u32>,
}

impl RoundTripCounts {
    /// How many there were.
    pub fn answered(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: &Self) {
        let end = |of: &Self| of.first + of.counts.len();
        let (first, end) = match (self.counts.is_empty(), other.counts.is_empty()) {
            (_, true) => return,
            (true, false) => (other.first, end(other)),
            (false, false) => (self.first.min(other.first), end(self).max(end(other))),
        };
        let both = |bucket| self.of(bucket).saturating_add(other.of(bucket));
        let counts = (first..end).map(both).collect();
        *self = Self { first, counts };
    }

    fn steps(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let counts = self.counts.iter().map(|count| u64::from(*count));
        (self.first..).zip(counts)
    }

    fn of(&self, bucket: usize) -> u32 {
        let index = bucket.checked_sub(self.first);
        index
            .and_then(|index| self.counts.get(index))
            .copied()
            .unwrap_or(0)
    }

    /// Those since an earlier state of the same; all if it was cleared since.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let cleared = earlier
            .steps()
            .any(|(bucket, count)| u64::from(self.of(bucket)) < count);
        if cleared {
            return self.clone();
        }
        let new = |(bucket, count): (usize, &u32)| count - earlier.of(bucket);
        Self {
            first: self.first,
            counts: (self.first..).zip(&self.counts).map(new).collect(),
        }
    }
}

impl Sampled for RoundTripCounts {
    /// The middle of its bucket.
    fn quantile(&self, per_mille: u16) -> Option<Duration> {
        let rank = (self.answered() * u64::from(per_mille)).div_ceil(1000).max(1);
        let mut seen = 0;
        let mut steps = self.steps();
        let found = steps.find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        found.map(|(bucket, _)| Duration::from_nanos(middle(bucket)))
    }

    fn trimmed_mean(&self) -> Option<f64> {
        let kept = (self.answered() * 95).div_ceil(100);
        let (mut left, mut sum) = (kept, 0.0);
        for (bucket, count) in self.steps() {
            let of_these = count.min(left);
            sum += middle(bucket) as f64 * of_these as f64;
            left -= of_these;
        }
        (kept > 0).then(|| sum / kept as f64)
    }
}

/// What passing traffic shows of a class or a host, since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExperienceCounts {
    /// From here to where its packets go, and back.
    pub ahead: RoundTripCounts,
    /// From here to where its packets come from, and back.
    pub behind: RoundTripCounts,
    /// Both together, between the ends.
    pub whole: RoundTripCounts,
    /// Both together of a connection's first packets.
    pub handshakes: RoundTripCounts,
    /// TCP segments with data.
    pub segments: u64,
    /// Those among them whose data had passed before.
    pub repeated: u64,
    /// The bytes of their frames, as they arrived here.
    pub offered: Bytes,
}

impl ExperienceCounts {
    /// What came since an earlier state of the same; all if it was cleared since.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        if self.segments < earlier.segments || self.repeated < earlier.repeated {
            return self.clone();
        }
        Self {
            ahead: self.ahead.since(&earlier.ahead),
            behind: self.behind.since(&earlier.behind),
            whole: self.whole.since(&earlier.whole),
            handshakes: self.handshakes.since(&earlier.handshakes),
            segments: self.segments - earlier.segments,
            repeated: self.repeated - earlier.repeated,
            offered: self.offered - earlier.offered.min(self.offered),
        }
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: &Self) {
        self.ahead.merge(&other.ahead);
        self.behind.merge(&other.behind);
        self.whole.merge(&other.whole);
        self.handshakes.merge(&other.handshakes);
        self.segments += other.segments;
        self.repeated += other.repeated;
        self.offered += other.offered;
    }

    /// The part of its segments that had to be sent again, 0 to 1.
    pub fn loss(&self) -> f64 {
        self.repeated as f64 / self.segments.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(times: &[u64]) -> RoundTripTable {
        let mut table = RoundTripTable::default();
        times
            .iter()
            .for_each(|ns| table.record(Duration::from_nanos(*ns)));
        table
    }

    #[test]
    fn of_20_times_the_longest_does_not_count_in_the_mean() {
        let mut times = vec![20_000_000; 19];
        times.push(5_000_000_000);
        let mean = table(&times).counts().trimmed_mean().expect("some");
        assert!((mean / 20e6 - 1.0).abs() < 1.0 / 64.0, "{mean}");
        assert_eq!(RoundTripTable::default().counts().trimmed_mean(), None);
        assert_eq!(RoundTripTable::default().counts().quantile(500), None);
    }

    proptest! {
        #[test]
        fn a_quantile_is_at_most_a_64th_off(
            mut times in prop::collection::vec(0..(1_u64 << 34), 1..200),
            per_mille in 1..=1000u16,
        ) {
            let found = table(&times).counts().quantile(per_mille).expect("some").nanos();
            times.sort_unstable();
            let exact = times[(times.len() * usize::from(per_mille)).div_ceil(1000) - 1];
            prop_assert!(found.abs_diff(exact) <= exact / 64 + 1024, "{found} for {exact}");
        }

        #[test]
        fn since_an_earlier_state_only_what_came_after_counts(
            a in prop::collection::vec(0..(1_u64 << 35), 0..50),
            b in prop::collection::vec(0..(1_u64 << 35), 0..50),
        ) {
            let both = table(&[a.clone(), b.clone()].concat()).counts();
            let since = both.since(&table(&a).counts());
            prop_assert_eq!(since.answered(), b.len() as u64);
            prop_assert_eq!(since.quantile(500), table(&b).counts().quantile(500));
            let mut merged = table(&a).counts();
            merged.merge(&table(&b).counts());
            prop_assert_eq!(merged, both);
        }
    }
}
