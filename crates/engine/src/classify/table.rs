//! The hash table of one shape: from a hash to its bucket.
//!
//! Open addressing in groups of eight. A group's eight tags are one word, so a probe for an absent
//! key, the commonest, touches one word of a small array and nothing else; as in the "Swiss" tables
//! (Benzaquen and others, CppCon 2017), but without vector instructions. Removed slots are reused
//! only for the same hash, and vanish when the table grows. Two keys with one hash share a bucket:
//! the search compares all fields.

use super::pattern::{KeyWords, NOTHING, Rank, Shape};

/// Groups that are moved in no time.
const SMALL: usize = 128;

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = 0x8080_8080_8080_8080;

/// A table and the mask of what is hashed.
#[derive(Clone, Debug)]
pub(super) struct Table<const N: usize> {
    pub(super) mask: KeyWords<N>,
    /// No entry in it has a higher rank.
    pub(super) best: Rank,
    pub(super) shape: Shape,
    /// Eight tags a word: 0 for a free slot, else the top bit and seven bits of the hash.
    tags: Vec<u64>,
    /// The hash, and its bucket.
    places: Vec<(u32, u32)>,
    used: usize,
}

/// The bytes of `word` that are `byte`, as their top bits; bytes above a true one may be there too.
#[inline]
fn bytes_equal(word: u64, byte: u64) -> u64 {
    let differing = word ^ byte.wrapping_mul(ONES);
    differing.wrapping_sub(ONES) & !differing & TOPS
}

/// The top seven bits; the group comes from the low ones.
#[inline]
fn tag(hash: u32) -> u64 {
    u64::from(hash >> 25 | 0x80)
}

impl<const N: usize> Table<N> {
    pub(super) fn new(shape: Shape, expected: usize) -> Self {
        let mut table = Self {
            mask: shape.mask(),
            best: 0,
            shape,
            tags: Vec::new(),
            places: Vec::new(),
            used: 0,
        };
        table.resize(expected);
        table
    }

    /// Makes room for this many, at 7 in 8 slots.
    fn resize(&mut self, expected: usize) {
        let groups = (expected / 6 + 1).next_power_of_two();
        self.tags = vec![0; groups];
        self.places = vec![(0, NOTHING); groups * 8];
        self.used = 0;
    }

    /// The bucket of this hash, or [`NOTHING`].
    #[inline]
    pub(super) fn get(&self, hash: u32) -> u32 {
        match self.place(hash) {
            Ok(place) => self.places[place].1,
            Err(_) => NOTHING,
        }
    }

    /// The slot of this hash, or the free one where it would go.
    #[inline]
    fn place(&self, hash: u32) -> Result<usize, usize> {
        let last = self.tags.len() - 1;
        let mut group = hash as usize & last;
        loop {
            let tags = self.tags[group];
            let mut like = bytes_equal(tags, tag(hash));
            while like != 0 {
                let place = group * 8 + like.trailing_zeros() as usize / 8;
                if self.places[place].0 == hash {
                    return Ok(place);
                }
                like &= like - 1;
            }
            let free = !tags & TOPS;
            if free != 0 {
                return Err(group * 8 + free.trailing_zeros() as usize / 8);
            }
            group = (group + 1) & last;
        }
    }

    /// Sets the bucket of this hash; [`NOTHING`] to remove it.
    pub(super) fn set(&mut self, hash: u32, bucket: u32) {
        match self.place(hash) {
            Ok(place) => self.places[place].1 = bucket,
            Err(_) if bucket == NOTHING => {}
            Err(_) if self.used >= self.tags.len() * 7 => {
                self.grow();
                self.fill(hash, bucket);
            }
            Err(_) => self.fill(hash, bucket),
        }
    }

    /// Whether there is room for one more where it stands, or little to be moved.
    pub(super) fn has_room(&self) -> bool {
        self.used < self.tags.len() * 7 || self.tags.len() <= SMALL
    }

    fn fill(&mut self, hash: u32, bucket: u32) {
        if let Err(place) = self.place(hash) {
            self.tags[place / 8] |= tag(hash) << (place % 8 * 8);
            self.places[place] = (hash, bucket);
            self.used += 1;
        }
    }

    /// Room for twice the entries; the removed slots are gone.
    fn grow(&mut self) {
        let kept = std::mem::take(&mut self.places);
        self.resize(self.used * 2);
        for (hash, bucket) in kept.into_iter().filter(|place| place.1 != NOTHING) {
            self.fill(hash, bucket);
        }
    }

    /// All buckets.
    pub(super) fn buckets(&self) -> impl Iterator<Item = u32> + '_ {
        self.places
            .iter()
            .map(|place| place.1)
            .filter(|bucket| *bucket != NOTHING)
    }

    /// Bytes on the heap.
    pub(super) fn memory(&self) -> usize {
        self.tags.capacity() * 8 + self.places.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::pattern::SHORT;

    fn table(expected: usize) -> Table<SHORT> {
        Table::new(Shape::default(), expected)
    }

    /// Hashes that are all different, in no order.
    fn spread(n: u32) -> u32 {
        n.wrapping_mul(0x9e37_79b1)
    }

    fn full(groups: usize, expected: usize) -> Table<SHORT> {
        let mut table = table(expected);
        assert_eq!(table.tags.len(), groups);
        (0..groups as u32 * 7).for_each(|n| table.set(spread(n), n));
        assert_eq!((table.tags.len(), table.used), (groups, groups * 7));
        table
    }

    #[test]
    fn the_lowest_equal_byte_is_found_and_no_other_below_it() {
        for at in 0..8 {
            assert_eq!(bytes_equal(0x85 << (8 * at), 0x85), 0x80 << (8 * at));
            let others = 0x9a9b_fffe_8087_8c95 & !(0xff << (8 * at));
            assert_eq!(bytes_equal(others | 0x85 << (8 * at), 0x85), 0x80 << (8 * at));
        }
        assert_eq!(bytes_equal(0, 0x85), 0);
        assert_eq!(bytes_equal(0x9a9b_fffe_8087_8c95, 0x85), 0);
        assert_eq!(bytes_equal(0x8585_8585_8585_8585, 0x85), TOPS);
    }

    #[test]
    fn a_tag_is_the_first_seven_bits_below_a_one() {
        for (hash, expected) in [
            (0, 0x80),
            (u32::MAX, 0xff),
            (1 << 25, 0x81),
            ((1 << 25) - 1, 0x80),
        ] {
            assert_eq!(tag(hash), expected);
        }
    }

    #[test]
    fn a_table_has_a_group_of_eight_for_six_that_are_expected() {
        for (expected, groups) in [
            (0, 1),
            (5, 1),
            (6, 2),
            (11, 2),
            (12, 4),
            (23, 4),
            (24, 8),
            (48, 16),
        ] {
            let table = table(expected);
            assert_eq!((table.tags.len(), table.places.len()), (groups, groups * 8));
            assert_eq!((table.used, table.best), (0, 0));
            // A word of tags, and eight places of two numbers.
            assert_eq!(table.memory(), groups * (8 + 64));
        }
    }

    #[test]
    fn a_bucket_is_found_by_its_hash_until_it_is_removed() {
        let mut table = table(0);
        assert_eq!(table.get(5), NOTHING);
        table.set(5, NOTHING);
        assert_eq!(table.used, 0);
        table.set(5, 50);
        table.set(6, 60);
        table.set(5, 51);
        assert_eq!(
            (table.get(5), table.get(6), table.get(7), table.used),
            (51, 60, NOTHING, 2)
        );
        table.set(5, NOTHING);
        assert_eq!((table.get(5), table.get(6)), (NOTHING, 60));
        assert_eq!(table.buckets().collect::<Vec<_>>(), [60]);
        // The slot is used again for the same hash.
        table.set(5, 52);
        assert_eq!((table.get(5), table.used), (52, 2));
        assert_eq!(table.buckets().collect::<Vec<_>>(), [52, 60]);
    }

    #[test]
    fn hashes_of_one_tag_and_one_group_are_told_apart_and_go_on_in_the_next_group() {
        let mut table = table(6);
        assert_eq!(table.tags.len(), 2);
        // All would be in the last group: the ninth and later are in the first.
        let hash = |n: u32| n << 1 | 1;
        for n in 0..12 {
            assert_eq!(table.get(hash(n)), NOTHING);
            table.set(hash(n), n);
        }
        assert_eq!((table.tags.len(), table.used), (2, 12));
        for n in 0..12 {
            assert_eq!(table.place(hash(n)), Ok((n as usize + 8) % 16));
            assert_eq!(table.get(hash(n)), n);
        }
        assert_eq!(table.place(hash(12)), Err(4));
    }

    #[test]
    fn a_table_grows_for_more_than_seven_in_eight_and_forgets_what_was_removed() {
        let mut table = full(1, 0);
        table.set(spread(3), NOTHING);
        table.set(spread(0), 100);
        assert_eq!((table.tags.len(), table.used), (1, 7));
        table.set(spread(7), 7);
        // For twice seven: four groups.
        assert_eq!((table.tags.len(), table.used), (4, 7));
        let mut found: Vec<u32> = table.buckets().collect();
        found.sort_unstable();
        assert_eq!(found, [1, 2, 4, 5, 6, 7, 100]);
        assert_eq!((table.get(spread(3)), table.get(spread(0))), (NOTHING, 100));
    }

    #[test]
    fn a_small_table_has_room_and_a_large_one_until_it_is_full() {
        assert!(full(1, 0).has_room() && full(128, 384).has_room());
        let mut large = table(800);
        assert_eq!(large.tags.len(), 256);
        for n in 0..256 * 7 {
            assert!(large.has_room(), "{n}");
            large.set(spread(n), n);
        }
        assert!(!large.has_room());
        assert!((0..256 * 7).all(|n| large.get(spread(n)) == n));
        large.set(spread(256 * 7), 0);
        assert!(large.has_room());
        assert_eq!(large.tags.len(), 1_024);
    }
}
