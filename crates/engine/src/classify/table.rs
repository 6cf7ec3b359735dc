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
