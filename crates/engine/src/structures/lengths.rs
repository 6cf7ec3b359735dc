//! Which of many members has the longest queue, in constant time.
//!
//! Lists of members by length: one for each 32nd part of each power of two, with bitmaps that find
//! the last list that is not empty. Lengths in one list differ by less than 1/32, so "longest" is
//! exact to that. Links stand in an array indexed by the member's number: nothing is allocated
//! after construction.

use crate::prefetch::Prefetched;

/// No member, no list.
const NONE: u32 = u32::MAX;
/// More than there are parts of powers of two.
const LISTS: usize = WORDS * 64;
const WORDS: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Neighbours {
    list: u32,
    previous: u32,
    next: u32,
}

/// The lengths of the members 0 to n − 1; none has one at first.
#[derive(Debug)]
pub(crate) struct Lengths {
    links: Vec<Neighbours>,
    lists: Vec<u32>,
    /// A bit for each list that is not empty, and one for each word that is not zero.
    words: [u64; WORDS],
    summary: u32,
}

impl Lengths {
    /// For this many members; for none, it takes no memory.
    pub(crate) fn new(members: usize) -> Self {
        let nowhere = Neighbours {
            list: NONE,
            previous: NONE,
            next: NONE,
        };
        Self {
            links: vec![nowhere; members],
            lists: vec![NONE; if members == 0 { 0 } else { LISTS }],
            words: [0; WORDS],
            summary: 0,
        }
    }

    /// The list of a length.
    fn list_of(length: u64) -> u32 {
        match length.max(1).ilog2() {
            0..=4 => length as u32,
            power => ((power - 4) << 5) + ((length >> (power - 5)) & 31) as u32,
        }
    }

    /// One of the longest.
    #[inline]
    pub(crate) fn longest(&self) -> Option<u32> {
        let word = self.summary.checked_ilog2()?;
        let bit = self.words[word as usize].checked_ilog2()?;
        Some(self.lists[(word * 64 + bit) as usize])
    }

    /// Sets a member's length; with none, [`Lengths::longest`] does not return it.
    #[inline]
    pub(crate) fn set(&mut self, member: u32, length: Option<u64>) {
        let list = length.map_or(NONE, Self::list_of);
        let former = self.links[member as usize].list;
        if former == list {
            return;
        }
        if former != NONE {
            self.unlink(member, former);
        }
        match list {
            NONE => self.links[member as usize].list = NONE,
            list => self.link(member, list),
        }
    }

    /// Reads a member's place in its list.
    #[inline]
    pub(crate) fn prefetch(&self, member: u32) -> Prefetched {
        Prefetched::word(self.links[member as usize].list.into())
    }

    /// Reads the members beside it, once its place is in the cache.
    #[inline]
    pub(crate) fn prefetch_neighbours(&self, member: u32) -> Prefetched {
        let Neighbours { previous, next, .. } = self.links[member as usize];
        let read = |member: u32| {
            self.links
                .get(member as usize)
                .map_or(0, |links| links.list.into())
        };
        Prefetched::word(read(previous) ^ read(next))
    }

    fn unlink(&mut self, member: u32, list: u32) {
        let Neighbours { previous, next, .. } = self.links[member as usize];
        if next != NONE {
            self.links[next as usize].previous = previous;
        }
        if previous != NONE {
            self.links[previous as usize].next = next;
            return;
        }
        self.lists[list as usize] = next;
        if next == NONE {
            let word = &mut self.words[list as usize / 64 % WORDS];
            *word &= !(1 << (list % 64));
            if *word == 0 {
                self.summary &= !(1 << (list / 64));
            }
        }
    }

    fn link(&mut self, member: u32, list: u32) {
        let next = std::mem::replace(&mut self.lists[list as usize], member);
        self.links[member as usize] = Neighbours {
            list,
            previous: NONE,
            next,
        };
        if next != NONE {
            self.links[next as usize].previous = member;
            return;
        }
        self.words[list as usize / 64 % WORDS] |= 1 << (list % 64);
        self.summary |= 1 << (list / 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn the_longest_is_found_to_a_32nd_part_after_any_changes() {
        let (mut rng, mut lengths) = (Seed(5).stream(), Lengths::new(50));
        let mut known = [None; 50];
        for _ in 0..20_000 {
            let member = rng.below(50) as usize;
            known[member] = (rng.below(4) > 0).then(|| rng.bits() >> rng.below(64));
            lengths.set(member as u32, known[member]);
            let longest = known.iter().flatten().max();
            let found = lengths
                .longest()
                .map(|found| known[found as usize].expect("it has a length"));
            assert_eq!(longest.is_some(), found.is_some());
            if let (Some(&longest), Some(found)) = (longest, found) {
                assert!(longest - found <= found / 32, "{found}, but {longest} is longer");
            }
        }
    }
}
