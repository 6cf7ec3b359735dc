//! A log-linear histogram of integers: the relative error is the same for 1 and for 10¹².
//!
//! Each power of two is divided into [`COARSE`] or [`FINE`] equal buckets. A quantile is never
//! below the true value, at most one part of so many above it, and exact below twice as many.
//! Recording is O(1). A histogram has memory for the powers of two that hold anything, since most
//! hold few and a link of many classes has many histograms; it allocates at the first value of
//! each. A value may carry a weight, such as the time for which a queue had that length.

/// Buckets in each power of two where 100,000 classes have a histogram each: 128 bytes.
pub const COARSE: usize = 16;

/// Buckets in each power of two where figures are reported from: the simulator and the lab.
pub const FINE: usize = 64;

/// The greatest value with a bucket of its own: 2⁴⁰, about 18 minutes of nanoseconds. Greater
/// values count as this one.
const GREATEST: u64 = (1 << 40) - 1;

/// The bucket of a value, where each power of two has `ROW` of them: a power of two itself.
#[inline]
pub(crate) const fn bucket_of<const ROW: usize>(value: u64) -> usize {
    let parts = ROW.ilog2();
    if value < ROW as u64 {
        return value as usize;
    }
    let exponent = value.ilog2();
    let part = (value >> (exponent - parts)) as usize - ROW;
    (((exponent - parts + 1) as usize) << parts) + part
}

/// The least value of such a bucket, and how many values it has.
#[inline]
pub(crate) const fn values_of<const ROW: usize>(bucket: usize) -> (u64, u64) {
    let (row, part) = ((bucket / ROW) as u32, (bucket % ROW) as u64);
    if row == 0 {
        return (part, 1);
    }
    let step = 1u64 << (row - 1);
    ((ROW as u64 + part) * step, step)
}

/// The weight of each value, in so many buckets of each power of two.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram<const ROW: usize = COARSE> {
    /// The weights of those powers of two that hold any, in their order.
    rows: Vec<[u64; ROW]>,
    /// Which those are, a bit for each.
    kept: u64,
    total: u64,
    sum: u128,
    greatest: u64,
}

impl<const ROW: usize> Default for Histogram<ROW> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            kept: 0,
            total: 0,
            sum: 0,
            greatest: 0,
        }
    }
}

impl<const ROW: usize> Histogram<ROW> {
    /// Powers of two, the first of which stands for all values below.
    const ROWS: usize = Self::bucket(GREATEST) / ROW + 1;

    /// The bucket of a value.
    const fn bucket(value: u64) -> usize {
        bucket_of::<ROW>(if value > GREATEST { GREATEST } else { value })
    }

    /// The greatest value of a bucket.
    const fn upper(bucket: usize) -> u64 {
        let (least, values) = values_of::<ROW>(bucket);
        least + values - 1
    }

    /// An empty one with room for all values.
    pub fn roomy() -> Self {
        Self {
            rows: Vec::with_capacity(Self::ROWS),
            ..Self::default()
        }
    }

    /// Makes it equal to another one, and keeps its own memory if that is enough.
    pub fn copy(&mut self, other: &Self) {
        self.rows.clone_from(&other.rows);
        self.kept = other.kept;
        (self.total, self.sum, self.greatest) = (other.total, other.sum, other.greatest);
    }

    /// Adds a weight to a value.
    pub fn record(&mut self, value: u64, weight: u64) {
        if weight == 0 {
            return;
        }
        let bucket = Self::bucket(value);
        self.row(bucket / ROW)[bucket % ROW] += weight;
        self.total += weight;
        self.sum += u128::from(value) * u128::from(weight);
        self.greatest = self.greatest.max(value);
    }

    /// The weights of a power of two.
    #[inline]
    fn row(&mut self, row: usize) -> &mut [u64; ROW] {
        let place = (self.kept & ((1 << row) - 1)).count_ones() as usize;
        if self.kept & 1 << row == 0 {
            self.make_row(row, place);
        }
        &mut self.rows[place]
    }

    #[cold]
    fn make_row(&mut self, row: usize, place: usize) {
        self.rows.reserve_exact(1);
        self.rows.insert(place, [0; ROW]);
        self.kept |= 1 << row;
    }

    /// The powers of two that hold anything, each with its weights.
    fn rows(&self) -> impl Iterator<Item = (usize, &[u64; ROW])> + '_ {
        (0..Self::ROWS)
            .filter(|row| self.kept & 1 << row != 0)
            .zip(&self.rows)
    }

    /// The buckets of those, each with its weight.
    fn buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.rows()
            .flat_map(|(row, weights)| (row * ROW..).zip(weights.iter().copied()))
    }

    /// The weight of all values.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The greatest value, exact.
    pub fn greatest(&self) -> u64 {
        self.greatest
    }

    /// The mean, rounded down; zero if empty.
    pub fn mean(&self) -> u64 {
        let mean = self.sum / u128::from(self.total.max(1));
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// The value that `per_mille` of 1000 parts of the weight do not exceed, at most one of
    /// `ROW` parts too great. Zero if empty.
    pub fn quantile(&self, per_mille: u32) -> u64 {
        let rank = (u128::from(self.total) * u128::from(per_mille.min(1000)))
            .div_ceil(1000)
            .max(1);
        let mut seen = 0u128;
        for (bucket, weight) in self.buckets() {
            seen += u128::from(weight);
            if seen >= rank {
                return Self::upper(bucket).min(self.greatest);
            }
        }
        0
    }

    /// The cumulative distribution for drawing: bucket ends, each with the weight up to it. Buckets
    /// without weight are left out.
    pub fn steps(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut seen = 0;
        let occupied = self.buckets().filter(|(_, weight)| *weight > 0);
        occupied.map(move |(bucket, weight)| {
            seen += weight;
            (Self::upper(bucket).min(self.greatest), seen)
        })
    }

    /// Adds the content of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (row, weights) in other.rows() {
            let both = self.row(row).iter_mut().zip(weights);
            both.for_each(|(mine, theirs)| *mine += theirs);
        }
        self.total += other.total;
        self.sum += other.sum;
        self.greatest = self.greatest.max(other.greatest);
    }

    /// Adds the content of a histogram with other buckets: each at the greatest value that it may
    /// have, so that quantiles err as they did.
    pub fn merge_other<const OTHER: usize>(&mut self, other: &Histogram<OTHER>) {
        for (bucket, weight) in other.buckets().filter(|(_, weight)| *weight > 0) {
            let upper = Histogram::<OTHER>::upper(bucket).min(other.greatest);
            let bucket = Self::bucket(upper);
            self.row(bucket / ROW)[bucket % ROW] += weight;
        }
        self.total += other.total;
        self.sum += other.sum;
        self.greatest = self.greatest.max(other.greatest);
    }

    /// The weight since an earlier state of the same histogram; all of it if it was cleared since.
    /// The greatest value is exact if it is new, otherwise at most one of `ROW`
    /// parts too great.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        if earlier.total > self.total || earlier.total == 0 {
            return self.clone();
        }
        let mut since = Self::default();
        let mut before = earlier.rows().peekable();
        for (row, weights) in self.rows() {
            let mut weights = *weights;
            while before.next_if(|(earlier, _)| *earlier < row).is_some() {}
            if let Some((_, before)) = before.next_if(|(earlier, _)| *earlier == row) {
                let both = weights.iter_mut().zip(before);
                both.for_each(|(now, before)| *now = now.saturating_sub(*before));
            }
            if weights.iter().any(|weight| *weight > 0) {
                *since.row(row) = weights;
            }
        }
        let last = since.buckets().filter(|(_, weight)| *weight > 0).last();
        let bound = last.map_or(0, |(bucket, _)| Self::upper(bucket));
        let is_new = self.greatest > earlier.greatest;
        Self {
            greatest: if is_new {
                self.greatest
            } else {
                bound.min(self.greatest)
            },
            total: self.total - earlier.total,
            sum: self.sum.saturating_sub(earlier.sum),
            ..since
        }
    }

    /// Removes everything and keeps the memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.kept = 0;
        (self.total, self.sum, self.greatest) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_count_by_their_weight_and_small_ones_are_exact() {
        let mut levels = Histogram::<COARSE>::default();
        for (value, weight) in [(0, 50), (3, 30), (31, 19), (40, 1), (99, 0)] {
            levels.record(value, weight);
        }
        let quantiles = [500, 501, 800, 801, 990, 991].map(|per_mille| levels.quantile(per_mille));
        assert_eq!(quantiles, [0, 3, 3, 31, 31, 40]);
        assert_eq!((levels.mean(), levels.greatest(), levels.total()), (7, 40, 100));
        let steps: Vec<_> = levels.steps().collect();
        assert_eq!(steps, [(0, 50), (3, 80), (31, 99), (40, 100)]);
    }

    #[test]
    fn coarse_and_fine_err_by_no_more_than_a_part_and_agree_on_what_is_exact() {
        fn quantiles<const ROW: usize>(values: &[u64]) -> [u64; 4] {
            let mut histogram = Histogram::<ROW>::default();
            values.iter().for_each(|value| histogram.record(*value, 1));
            [500, 900, 990, 1000].map(|per_mille| histogram.quantile(per_mille))
        }
        let mut rng = engine::random::Seed(5).stream();
        for octave in 0..40 {
            let mut values: Vec<u64> = (0..500).map(|_| rng.below(2 << octave)).collect();
            let [coarse, fine] = [quantiles::<COARSE>(&values), quantiles::<FINE>(&values)];
            values.sort_unstable();
            for (at, rank) in [250, 450, 495, 500].into_iter().enumerate() {
                let exact = values[rank - 1];
                assert!(
                    (exact..=exact + exact / 64).contains(&fine[at]),
                    "{fine:?}, not {exact}"
                );
                assert!(
                    (fine[at]..=exact + exact / 16).contains(&coarse[at]),
                    "{coarse:?}, not {exact}"
                );
                assert!(exact >= 128 || fine[at] == exact, "{fine:?}, not {exact}");
            }
            let (mut narrow, mut wide) = (Histogram::<COARSE>::default(), Histogram::<FINE>::default());
            values.iter().for_each(|value| narrow.record(*value, 1));
            wide.merge_other(&narrow);
            assert_eq!(
                [500, 900, 990, 1000].map(|per_mille| wide.quantile(per_mille)),
                coarse
            );
            assert_eq!((wide.mean(), wide.total()), (narrow.mean(), narrow.total()));
        }
    }

    #[test]
    fn it_says_what_a_list_of_all_buckets_says_in_memory_for_what_it_holds() {
        let mut rng = engine::random::Seed(3).stream();
        for round in 0..50 {
            let (mut histogram, mut all) = (
                Histogram::<COARSE>::default(),
                vec![0u64; Histogram::<COARSE>::bucket(GREATEST) + 1],
            );
            let (mut earlier, mut then) = (Histogram::default(), all.clone());
            // The widest reaches beyond the greatest bucket.
            let (least, octaves) = (rng.below(40), 1 + rng.below(8));
            for number in 0..200 {
                let octave = (least + rng.below(octaves)).min(42);
                let value = (1 << octave) + rng.below(1 << octave);
                histogram.record(value, 1 + number % 3);
                all[Histogram::<COARSE>::bucket(value)] += 1 + number % 3;
                if number == 100 {
                    (earlier, then) = (histogram.clone(), all.clone());
                }
            }
            assert!(histogram.rows.capacity() <= octaves as usize + 1, "round {round}");
            let occupied = |all: &[u64]| -> Vec<(usize, u64)> {
                let occupied = all.iter().copied().enumerate();
                occupied.filter(|(_, weight)| *weight > 0).collect()
            };
            let holds = |histogram: &Histogram| -> Vec<(usize, u64)> {
                histogram.buckets().filter(|(_, weight)| *weight > 0).collect()
            };
            assert_eq!(holds(&histogram), occupied(&all));
            let added: Vec<u64> = all.iter().zip(&then).map(|(now, then)| now - then).collect();
            let mut since = histogram.since(&earlier);
            assert_eq!(holds(&since), occupied(&added));
            assert_eq!(since.rows.len(), since.kept.count_ones() as usize);
            since.merge(&earlier);
            assert_eq!(
                (holds(&since), since.total()),
                (occupied(&all), histogram.total())
            );
            histogram.clear();
            assert_eq!(histogram, Histogram::default());
        }
    }
}
