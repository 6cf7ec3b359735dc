//! Which of many members has the longest queue, in constant time.
//!
//! Lists of members by length: one for each 32nd part of each power of two, with bitmaps that find
//! the last list that is not empty. Lengths in one list differ by less than 1/32, so "longest" is
//! exact to that. Links stand in the members, or in an array by their numbers ([`Lengths`]):
//! nothing is allocated after construction.

/// No member, no list.
const NONE: u32 = u32::MAX;
/// More than there are parts of powers of two.
const LISTS: usize = WORDS * 64;
const WORDS: usize = 32;

/// Where a member is: its list, and its neighbours in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    list: u32,
    previous: u32,
    next: u32,
}

impl Place {
    /// In no list.
    pub(crate) const NOWHERE: Self = Self {
        list: NONE,
        previous: NONE,
        next: NONE,
    };

    /// Whether it is in no list.
    #[inline]
    pub(crate) fn is_nowhere(&self) -> bool {
        self.list == NONE
    }

    /// The members beside it.
    #[inline]
    pub(crate) fn neighbours(&self) -> [u32; 2] {
        [self.previous, self.next]
    }
}

/// The lengths of members that have their places themselves; none has one at first.
#[derive(Debug)]
pub(crate) struct ByLength {
    lists: Vec<u32>,
    /// A bit for each list that is not empty, and one for each word that is not zero.
    words: [u64; WORDS],
    summary: u32,
}

impl ByLength {
    /// For this many members; for none, it takes no memory.
    pub(crate) fn new(members: usize) -> Self {
        Self {
            lists: vec![NONE; if members == 0 { 0 } else { LISTS }],
            words: [0; WORDS],
            summary: 0,
        }
    }

    /// The list of a length: below 64 each has its own.
    #[inline]
    fn list_of(length: u64) -> u32 {
        let shift = (length | 63).ilog2() - 5;
        (shift << 5) + (length >> shift) as u32
    }

    /// One of the longest.
    #[inline]
    pub(crate) fn longest(&self) -> Option<u32> {
        let word = self.summary.checked_ilog2()?;
        let bit = self.words[word as usize].checked_ilog2()?;
        Some(self.lists[(word * 64 + bit) as usize])
    }

    /// Sets a member's length; with none, [`ByLength::longest`] does not return it. `place` finds
    /// a member's place.
    #[inline]
    pub(crate) fn set<T>(
        &mut self,
        all: &mut [T],
        place: impl Fn(&mut T) -> &mut Place,
        member: u32,
        length: Option<u64>,
    ) {
        self.relink(all, place, member, length.map_or(NONE, Self::list_of));
    }

    /// Moves a member from its list to the beginning of this one, or out of all. No member and no
    /// list have numbers beyond those that there are.
    #[inline(never)]
    fn relink<T>(&mut self, all: &mut [T], place: impl Fn(&mut T) -> &mut Place, member: u32, list: u32) {
        let former = *place(&mut all[member as usize]);
        if former.list == list {
            return;
        }
        if let Some(next) = all.get_mut(former.next as usize) {
            place(next).previous = former.previous;
        }
        match all.get_mut(former.previous as usize) {
            Some(previous) => place(previous).next = former.next,
            None => self.begin(former.list, former.next),
        }
        let Some(first) = self.lists.get_mut(list as usize) else {
            *place(&mut all[member as usize]) = Place::NOWHERE;
            return;
        };
        let next = std::mem::replace(first, member);
        *place(&mut all[member as usize]) = Place {
            list,
            previous: NONE,
            next,
        };
        match all.get_mut(next as usize) {
            Some(next) => place(next).previous = member,
            None => {
                self.words[list as usize / 64 % WORDS] |= 1 << (list % 64);
                self.summary |= 1 << (list / 64);
            }
        }
    }

    /// Another member is the first of a list, or none.
    #[inline]
    fn begin(&mut self, list: u32, member: u32) {
        let Some(first) = self.lists.get_mut(list as usize) else {
            return;
        };
        *first = member;
        if member == NONE {
            let word = &mut self.words[list as usize / 64 % WORDS];
            *word &= !(1 << (list % 64));
            if *word == 0 {
                self.summary &= !(1 << (list / 64));
            }
        }
    }
}

/// The lengths of the members 0 to n − 1, whose places stand in an array.
#[derive(Debug)]
pub(crate) struct Lengths {
    places: Vec<Place>,
    lists: ByLength,
}

impl Lengths {
    /// For this many members; for none, it takes no memory.
    pub(crate) fn new(members: usize) -> Self {
        Self {
            places: vec![Place::NOWHERE; members],
            lists: ByLength::new(members),
        }
    }

    /// See [`ByLength::longest`].
    #[inline]
    pub(crate) fn longest(&self) -> Option<u32> {
        self.lists.longest()
    }

    /// See [`ByLength::set`].
    #[inline]
    pub(crate) fn set(&mut self, member: u32, length: Option<u64>) {
        self.lists.set(&mut self.places, |place| place, member, length);
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
