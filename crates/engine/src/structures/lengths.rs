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

    #[test]
    fn lengths_below_64_have_their_own_list_and_greater_ones_a_32nd_part() {
        for length in 0..64 {
            assert_eq!(u64::from(ByLength::list_of(length)), length);
        }
        for (length, list) in [
            (64, 64),
            (65, 64),
            (66, 65),
            (127, 95),
            (128, 96),
            (131, 96),
            (132, 97),
        ] {
            assert_eq!(ByLength::list_of(length), list, "{length}");
        }
        assert_eq!(ByLength::list_of(1 << 63), 58 * 32 + 32);
        assert_eq!(ByLength::list_of(u64::MAX), 58 * 32 + 63);
    }

    #[test]
    fn a_place_is_nowhere_or_beside_its_neighbours() {
        let (mut places, mut lists) = (vec![Place::NOWHERE; 4], ByLength::new(4));
        assert!(places[0].is_nowhere());
        let set = |lists: &mut ByLength, places: &mut [Place], member, length| {
            lists.set(places, |place| place, member, length);
        };
        (0..3).for_each(|member| set(&mut lists, &mut places, member, Some(5)));
        let beside = |places: &[Place]| [0, 1, 2].map(|member: usize| places[member].neighbours());
        // The last to come is the first.
        assert_eq!(beside(&places), [[1, NONE], [2, 0], [NONE, 1]]);
        assert!((0..3).all(|member| !places[member].is_nowhere()));
        // The same length changes nothing.
        set(&mut lists, &mut places, 0, Some(5));
        assert_eq!(beside(&places), [[1, NONE], [2, 0], [NONE, 1]]);
        set(&mut lists, &mut places, 1, None);
        assert_eq!(beside(&places), [[2, NONE], [NONE, NONE], [NONE, 0]]);
        assert!(places[1].is_nowhere());
        set(&mut lists, &mut places, 2, Some(3));
        assert_eq!((lists.longest(), beside(&places)[0]), (Some(0), [NONE, NONE]));
        set(&mut lists, &mut places, 0, None);
        assert_eq!(
            (lists.longest(), lists.words[0], lists.summary),
            (Some(2), 1 << 3, 1)
        );
        set(&mut lists, &mut places, 2, None);
        assert_eq!(
            (lists.longest(), lists.words, lists.summary),
            (None, [0; WORDS], 0)
        );
    }

    #[test]
    fn a_list_that_becomes_empty_leaves_the_others_of_its_word() {
        let mut lengths = Lengths::new(3);
        // Lists 130 and 131, and 64, in another word.
        for (member, length) in [(0, 272), (1, 280), (2, 64)] {
            lengths.set(member, Some(length));
        }
        assert_eq!((lengths.lists.words[2], lengths.lists.words[1]), (3 << 2, 1));
        assert_eq!((lengths.lists.summary, lengths.longest()), (0b110, Some(1)));
        lengths.set(1, None);
        assert_eq!((lengths.lists.words[2], lengths.longest()), (1 << 2, Some(0)));
        lengths.set(0, None);
        assert_eq!((lengths.lists.summary, lengths.longest()), (0b10, Some(2)));
        assert_eq!(
            (
                Lengths::new(0).lists.lists.len(),
                Lengths::new(1).lists.lists.len()
            ),
            (0, 2_048)
        );
    }
}
