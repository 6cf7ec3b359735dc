//! A calendar queue: which of very many numbered elements comes next, in the order of times, exact
//! to one unit.
//!
//! Timing wheels (Varghese and Lauck, "Hashed and hierarchical timing wheels", 1987, schemes 4 and
//! 7), laid out for so many elements that memory dominates the cost. Differences from
//! [`TimerWheel`](crate::structures::timer_wheel):
//!
//! - The days to come are in a ring that is as long as most elements are scheduled ahead: an
//!   element passes through one day and nothing else, and about a hundred share it. What is
//!   scheduled farther ahead waits in levels of ages, each of which is as long as the whole level
//!   below, and is scheduled again when its age begins.
//! - A day is an array, in pieces of four cache lines, and not a list through all elements: it is
//!   appended to and read sequentially, without waiting for memory.
//! - When a day begins it is sorted by time and number; what is scheduled for that day later goes
//!   into a binary heap beside it. So nothing comes out early, and the order is exact. It also
//!   shows what is about to come: see [`Calendar::upcoming`].
//! - Nothing can be cancelled, so an element costs no memory beside its entry. A caller that has to
//!   cancel much clears the calendar and schedules the rest again.
//!
//! A calendar of few elements is a heap alone.
//!
//! Pieces and heap grow to their largest use; then nothing is allocated.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Ends a list of pieces.
const NONE: u32 = u32::MAX;
/// Up to this many elements are in the heap alone: its memory stays in the first-level cache.
const FEW: usize = 1_024;
/// Words in a piece: an entry of a day is one, an entry of an age two.
const WORDS: usize = 31;
/// Words of a full piece of an age that are in use.
const OF_AGE: usize = WORDS / 2 * 2;
/// The least number of elements that share a day, as a power of two: enough that the caches hold
/// the ends of all days.
const SHARE: u32 = 6;
/// Bits for the number of an age within its level: a word tells which have entries.
const AGES: u32 = 6;

/// A part of a day.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Piece {
    words: [u64; WORDS],
    /// The piece behind it, of a day or of the free list.
    next: u32,
}

/// A day to come.
#[derive(Clone, Copy, Debug)]
struct Day {
    earliest: u64,
    first: u32,
    /// Words of its first piece in use; the others are full. Without a piece: all.
    filled: u32,
}

const EMPTY: Day = Day {
    earliest: u64::MAX,
    first: NONE,
    filled: WORDS as u32,
};

/// A time and an element in one number: the earlier, then the smaller, is the greater.
type Note = Reverse<u128>;

fn note(at: u64, element: u32) -> Note {
    Reverse(u128::from(at) << 32 | u128::from(element))
}

fn at_of(Reverse(note): Note) -> u64 {
    (note >> 32) as u64
}

fn element_of(Reverse(note): Note) -> u32 {
    note as u32
}

/// A time within a day and an element in one number: half the memory, and sorted in half the time.
fn of_day(within: u64, element: u32) -> u64 {
    within << 32 | u64::from(element)
}

/// Bits of the longest day.
const LONGEST: u32 = 32;

/// Which days of the ring have entries: 64 in a word, and which words have one.
#[derive(Clone, Debug)]
struct Occupied {
    words: Vec<u64>,
    used: Vec<u64>,
}

impl Occupied {
    fn new(days: usize) -> Self {
        let words = days.div_ceil(64);
        Self {
            words: vec![0; words],
            used: vec![0; words.div_ceil(64)],
        }
    }

    #[inline]
    fn set(&mut self, day: usize) {
        self.words[day / 64] |= 1 << (day % 64);
        self.used[day / 4096] |= 1 << (day / 64 % 64);
    }

    #[inline]
    fn clear(&mut self, day: usize) {
        self.words[day / 64] &= !(1 << (day % 64));
        if self.words[day / 64] == 0 {
            self.used[day / 4096] &= !(1 << (day / 64 % 64));
        }
    }

    /// The first from this one on, around the ring.
    #[inline]
    fn next(&self, from: usize) -> Option<usize> {
        let rest = self.words[from / 64] & (!0 << (from % 64));
        if rest > 0 {
            return Some(from / 64 * 64 + rest.trailing_zeros() as usize);
        }
        let after = from / 64 + 1;
        let word = self.word(after).or_else(|| self.word(0))?;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// The first word with a day, from this one on.
    #[inline]
    fn word(&self, from: usize) -> Option<usize> {
        let mut mask = !0 << (from % 64);
        for index in from / 64..self.used.len() {
            let rest = self.used[index] & mask;
            if rest > 0 {
                return Some(index * 64 + rest.trailing_zeros() as usize);
            }
            mask = !0;
        }
        None
    }
}

/// Times of numbered elements.
#[derive(Clone, Debug)]
pub struct Calendar {
    /// Everything of the day of this time, and before, is in `run` and `late`.
    base: u64,
    /// Bits of the time within a day, and bits for the number of a day within the ring.
    width: u32,
    bits: u32,
    occupied: Occupied,
    /// The days of the ring; then the ages, level by level.
    days: Vec<Day>,
    /// Which levels of ages have entries, and which ages of each.
    levels: u64,
    ages: Vec<u64>,
    pieces: Vec<Piece>,
    free: u32,
    /// The day that has begun: what was scheduled before it began, the first last, by times within
    /// it; and what was scheduled since, or is older than it.
    run: Vec<u64>,
    late: BinaryHeap<Note>,
    /// This many of `run` were not reported as upcoming yet.
    untold: usize,
}

impl Calendar {
    /// For `len` elements, most of which are scheduled at most `span` ahead.
    pub fn new(len: usize, span: u64) -> Self {
        if len <= FEW {
            return Self::heap();
        }
        let bits = len.ilog2().saturating_sub(SHARE).clamp(6, 15);
        let width = (span.max(1).ilog2() + 1).saturating_sub(bits);
        let mut calendar = Self::with(width.min(LONGEST), bits);
        calendar
            .pieces
            .reserve(len / WORDS + len.min(calendar.days.len()));
        calendar.run.reserve(FEW);
        calendar.late.reserve(FEW);
        calendar
    }

    /// With one day that never ends: a binary heap.
    pub fn heap() -> Self {
        Self {
            base: u64::MAX,
            ..Self::with(LONGEST, 6)
        }
    }

    fn with(width: u32, bits: u32) -> Self {
        let levels = (64 - (width + bits).min(64)).div_ceil(AGES) as usize;
        Self {
            base: 0,
            width,
            bits,
            occupied: Occupied::new(1 << bits),
            days: vec![EMPTY; (1 << bits) + (levels << AGES)],
            levels: 0,
            ages: vec![0; levels],
            pieces: Vec::new(),
            free: NONE,
            run: Vec::new(),
            late: BinaryHeap::new(),
            untold: 0,
        }
    }

    /// The time of the next element.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        match self.foremost() {
            Some(note) => Some(at_of(note)),
            None => self.lowest().map(|(_, earliest)| earliest),
        }
    }

    /// Schedules an element for this time, which may be past.
    #[inline]
    pub fn note(&mut self, element: u32, at: u64) {
        let (day, today) = (at >> self.width, self.base >> self.width);
        if day <= today {
            self.late.push(note(at, element));
        } else {
            self.note_for_later(element, at, day - today);
        }
    }

    /// Takes out the first element whose time has come by `now`, in the order of times and, of
    /// equal times, of numbers.
    #[inline]
    pub fn take(&mut self, now: u64) -> Option<u32> {
        loop {
            let late = self.late.peek().copied();
            // A calendar of few elements has no days.
            if let (true, Some(first)) = (self.run.is_empty(), late) {
                if at_of(first) > now {
                    return None;
                }
                self.late.pop();
                return Some(element_of(first));
            }
            let of_run = self.earliest_of_run();
            if let Some(note) = of_run.max(late) {
                if at_of(note) > now {
                    return None;
                }
                if of_run > late {
                    self.run.pop();
                } else {
                    self.late.pop();
                }
                return Some(element_of(note));
            }
            let (index, earliest) = self.lowest()?;
            if earliest > now {
                return None;
            }
            match index < 1 << self.bits {
                true => self.begin_day(index, now),
                false => self.begin_age(index),
            }
        }
    }

    /// The next elements of the day that has begun, in order, at most this many: the moment to
    /// prefetch what they will need. None while some that were reported before have not come.
    #[inline]
    pub fn upcoming(&mut self, most: usize) -> Option<impl Iterator<Item = u32> + '_> {
        let left = self.run.len();
        (left > 0 && left <= self.untold).then(|| {
            self.untold = left.saturating_sub(most);
            self.run[self.untold..].iter().rev().map(|&note| note as u32)
        })
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.occupied = Occupied::new(1 << self.bits);
        self.days.fill(EMPTY);
        self.levels = 0;
        self.ages.fill(0);
        self.pieces.clear();
        self.free = NONE;
        self.run.clear();
        self.late.clear();
    }

    /// The first of the day that has begun.
    #[inline]
    fn foremost(&self) -> Option<Note> {
        if self.run.is_empty() {
            return self.late.peek().copied();
        }
        self.earliest_of_run().max(self.late.peek().copied())
    }

    #[inline]
    fn earliest_of_run(&self) -> Option<Note> {
        let last = *self.run.last()?;
        Some(note(self.dawn() + (last >> 32), last as u32))
    }

    /// When the current day began.
    #[inline]
    fn dawn(&self) -> u64 {
        self.base >> self.width << self.width
    }

    /// The first day that has entries, or an age that has one of that day or before; and the
    /// earliest of all entries to come.
    #[inline]
    fn lowest(&self) -> Option<(usize, u64)> {
        let today = (self.base >> self.width) as usize & ((1 << self.bits) - 1);
        let day = self.occupied.next(today);
        let mut lowest = day.map(|day| (day, self.days[day].earliest));
        let mut levels = self.levels;
        while levels > 0 {
            let level = levels.trailing_zeros() as usize;
            levels &= levels - 1;
            let age = (1 << self.bits) + (level << AGES) + self.ages[level].trailing_zeros() as usize;
            let earliest = self.days[age].earliest;
            lowest = match lowest {
                Some((day, first)) if first >> self.width < earliest >> self.width => Some((day, first)),
                Some((_, first)) => Some((age, first.min(earliest))),
                None => Some((age, earliest)),
            };
        }
        lowest
    }

    /// Schedules an element for a time after today, this many days ahead.
    #[inline]
    fn note_for_later(&mut self, element: u32, at: u64, ahead: u64) {
        let days = 1u64 << self.bits;
        if ahead < days {
            let day = (at >> self.width) & (days - 1);
            self.write(day as usize, at, [of_day(at & ((1 << self.width) - 1), element)]);
        } else {
            self.write(self.age(at), at, [at, element.into()]);
        }
    }

    /// The number of the age that a time belongs to.
    fn age(&self, at: u64) -> usize {
        // Seen from the current age, the highest bit that differs determines the level.
        let level = (63 - ((at ^ self.base) >> (self.width + self.bits)).leading_zeros()) / AGES;
        let age = (at >> (self.width + self.bits + AGES * level)) as usize & ((1 << AGES) - 1);
        (1 << self.bits) + ((level as usize) << AGES) + age
    }

    /// Writes an entry into a day or an age.
    #[inline]
    fn write<const N: usize>(&mut self, index: usize, at: u64, note: [u64; N]) {
        if self.days[index].filled as usize + N > WORDS {
            self.lengthen(index);
        }
        let day = &mut self.days[index];
        day.earliest = day.earliest.min(at);
        let from = day.filled as usize;
        day.filled += N as u32;
        self.pieces[day.first as usize].words[from..from + N].copy_from_slice(&note);
    }

    /// Gives a day another piece.
    fn lengthen(&mut self, index: usize) {
        let day = &mut self.days[index];
        if day.first == NONE {
            match index.checked_sub(1 << self.bits) {
                None => self.occupied.set(index),
                Some(age) => {
                    self.levels |= 1 << (age >> AGES);
                    self.ages[age >> AGES] |= 1 << (age % (1 << AGES));
                }
            }
        }
        day.filled = 0;
        let behind = day.first;
        match self.pieces.get_mut(self.free as usize) {
            Some(piece) => {
                day.first = self.free;
                self.free = std::mem::replace(&mut piece.next, behind);
            }
            None => {
                day.first = self.pieces.len() as u32;
                self.pieces.push(Piece {
                    words: [0; WORDS],
                    next: behind,
                });
            }
        }
    }

    /// Begins an age: its entries go to the days of the ring, or to younger ages. Nothing in the
    /// ring is earlier than its first day.
    fn begin_age(&mut self, index: usize) {
        let Day {
            mut first,
            mut filled,
            earliest,
        } = std::mem::replace(&mut self.days[index], EMPTY);
        let age = index - (1 << self.bits);
        let level = age >> AGES;
        self.ages[level] &= !(1 << (age % (1 << AGES)));
        if self.ages[level] == 0 {
            self.levels &= !(1 << level);
        }
        // Up to the day of the first entry, but not into it: others of that day may be in the ring.
        let eve = (earliest >> self.width << self.width).saturating_sub(1);
        self.base = self.base.max(eve);
        while let Some(piece) = self.take_piece(&mut first) {
            for note in piece.words[..filled as usize].chunks_exact(2) {
                self.note(note[1] as u32, note[0]);
            }
            filled = OF_AGE as u32;
        }
    }

    /// Begins the lowest day of the ring, as far as `now` allows. Nothing is left of the day
    /// before.
    fn begin_day(&mut self, index: usize, now: u64) {
        let Day {
            mut first,
            mut filled,
            earliest,
        } = std::mem::replace(&mut self.days[index], EMPTY);
        self.occupied.clear(index);
        let last = earliest | ((1u64 << self.width) - 1);
        self.base = self.base.max(now.min(last));
        while let Some(piece) = self.take_piece(&mut first) {
            self.run.extend_from_slice(&piece.words[..filled as usize]);
            filled = WORDS as u32;
        }
        self.run.sort_unstable_by_key(|&note| Reverse(note));
        self.untold = self.run.len();
    }

    /// Takes the first piece off a list.
    fn take_piece(&mut self, first: &mut u32) -> Option<Piece> {
        let piece = self.pieces.get_mut(*first as usize)?;
        let copy = *piece;
        piece.next = std::mem::replace(&mut self.free, *first);
        *first = copy.next;
        Some(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Clone, Debug)]
    enum Step {
        Note(u32, u64),
        Pass(u64),
        ToNext,
        Clear,
    }

    fn span() -> impl Strategy<Value = u64> {
        (0u32..40, any::<u64>()).prop_map(|(bits, n)| n & ((1 << bits) - 1))
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0..100u32, span()).prop_map(|(element, span)| Step::Note(element, span)),
            3 => span().prop_map(Step::Pass),
            5 => Just(Step::ToNext),
            1 => prop::bool::weighted(0.1).prop_map(|clear| if clear { Step::Clear } else { Step::ToNext }),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_set_whatever_its_days(
            width in 0u32..=LONGEST,
            bits in 6u32..=13,
            heap in prop::bool::weighted(0.05),
            start in prop_oneof![Just(0), any::<u64>().prop_map(|n| n >> 1)],
            steps in prop::collection::vec(step(), 1..400),
        ) {
            let mut calendar = if heap { Calendar::heap() } else { Calendar::with(width, bits) };
            let (mut now, mut model) = (start, BTreeSet::new());
            for step in steps {
                match step {
                    Step::Note(element, span) => {
                        if !model.iter().any(|&(_, one)| one == element) {
                            // Some of what is scheduled is past.
                            let at = (now + span).saturating_sub(u64::from(element));
                            calendar.note(element, at);
                            model.insert((at, element));
                        }
                    }
                    Step::Pass(span) => now += span,
                    Step::ToNext => now = calendar.next().map_or(now, |at| at.max(now)),
                    Step::Clear => {
                        calendar.clear();
                        model.clear();
                    }
                }
                let next = model.first().map(|&(at, _)| at);
                prop_assert_eq!(calendar.next().map(|at| at.max(now)), next.map(|at| at.max(now)));
                prop_assert!(calendar.next() >= next || next.is_none());
                // Not all at once, so that some are left in a day that has begun.
                for _ in 0..2 {
                    let due = model.first().filter(|&&(at, _)| at <= now).copied();
                    let taken = calendar.take(now);
                    if let Some(element) = taken {
                        let found = model.iter().find(|&&(_, one)| one == element).copied();
                        prop_assert!(found.is_some_and(|(at, _)| at <= now), "{} is early", element);
                        found.map(|found| model.remove(&found));
                    }
                    prop_assert_eq!(taken.is_some(), due.is_some());
                }
            }
            let mut left = Vec::new();
            while let Some(element) = calendar.take(u64::MAX) {
                left.push(element);
            }
            let expected: BTreeSet<u32> = model.iter().map(|&(_, element)| element).collect();
            prop_assert_eq!(left.len(), expected.len());
            prop_assert_eq!(left.into_iter().collect::<BTreeSet<_>>(), expected);
        }
    }

    #[test]
    fn elements_come_in_the_order_of_times_and_then_of_numbers() {
        let mut calendar = Calendar::with(10, 6);
        let times: Vec<u64> = (0..5_000).map(|n| n * 7_919 % 100_003).collect();
        let noted = (0..5_000u32).flat_map(|element| [element, element + 5_000]);
        noted.for_each(|element| calendar.note(element, times[element as usize % 5_000]));
        let mut last = None;
        for _ in 0..10_000 {
            let at = calendar.next().expect("one is left");
            assert!(
                at == 0 || calendar.take(at - 1).is_none(),
                "given out before {at}"
            );
            let element = calendar.take(at).expect("its time has come");
            assert_eq!(times[element as usize % 5_000], at);
            assert!(Some((at, element)) > last, "{element} at {at} after {last:?}");
            last = Some((at, element));
        }
        assert_eq!(calendar.next(), None);
    }

    #[test]
    fn a_day_that_begins_tells_who_comes_and_pieces_are_used_again() {
        let mut calendar = Calendar::with(10, 6);
        for day in 1..2_000u64 {
            for element in (0..30).rev() {
                calendar.note(element, (day << 10) + 10 * u64::from(element));
            }
            assert!(calendar.upcoming(20).is_none());
            for element in 0..30 {
                assert_eq!(calendar.take(u64::MAX >> 1), Some(element));
                let upcoming: Vec<u32> = calendar.upcoming(20).into_iter().flatten().collect();
                let told = match element {
                    0 => 1..21,
                    20 => 21..30,
                    _ => 0..0,
                };
                assert_eq!(upcoming, told.collect::<Vec<_>>());
            }
        }
        assert!(calendar.pieces.len() <= 4, "{}", calendar.pieces.len());
    }

    #[test]
    fn a_calendar_of_up_to_1024_elements_is_a_heap() {
        for len in [0, 1, 1_024] {
            let few = Calendar::new(len, 1 << 20);
            assert_eq!((few.base, few.pieces.capacity()), (u64::MAX, 0));
        }
        let many = Calendar::new(1_025, 1 << 20);
        assert_eq!((many.base, many.run.capacity()), (0, 1_024));
        assert!(many.late.capacity() >= 1_024);
        // A piece for 31 elements, and one for each day and age.
        assert_eq!(many.pieces.capacity(), 1_025 / 31 + 576);
    }

    #[test]
    fn sixty_four_elements_share_a_day_and_the_ring_is_as_long_as_the_span() {
        for (len, span, width, bits) in [
            (1_025, 1 << 20, 15, 6),
            (8_191, (1 << 20) - 1, 14, 6),
            (8_192, 1 << 20, 14, 7),
            (1 << 16, 1 << 20, 11, 10),
            (1 << 21, 1 << 20, 6, 15),
            (1 << 22, 1 << 20, 6, 15),
            (1_025, 0, 0, 6),
            (1_025, 1, 0, 6),
            (1_025, 64, 1, 6),
            (1_025, u64::MAX, 32, 6),
        ] {
            let calendar = Calendar::new(len, span);
            assert_eq!((calendar.width, calendar.bits), (width, bits), "{len} {span}");
        }
    }

    #[test]
    fn there_are_as_many_levels_of_ages_as_reach_the_end_of_time() {
        for (width, bits, levels) in [
            (10, 6, 8),
            (0, 6, 10),
            (32, 6, 5),
            (32, 15, 3),
            (1, 15, 8),
            (4, 6, 9),
        ] {
            let calendar = Calendar::with(width, bits);
            assert_eq!(calendar.ages.len(), levels, "{width} {bits}");
            assert_eq!(calendar.days.len(), (1 << bits) + 64 * levels);
            assert_eq!(calendar.occupied.words.len(), 1 << (bits - 6));
        }
    }

    #[test]
    fn the_highest_bit_that_differs_determines_the_age() {
        let mut calendar = Calendar::with(10, 6);
        for (at, age) in [
            (1 << 16, 1),
            (2 << 16 | 99, 2),
            (63 << 16, 63),
            (1 << 22, 65),
            (63 << 22, 127),
            (5 << 28, 133),
        ] {
            assert_eq!(calendar.age(at), 64 + age, "{at:x}");
        }
        assert_eq!(calendar.age(u64::MAX), 64 + 7 * 64 + 63);
        // Seen from another age.
        calendar.base = 1 << 22 | 3 << 16;
        for (at, age) in [(1 << 22 | 4 << 16, 4), (2 << 22 | 3 << 16, 66), (1 << 28, 129)] {
            assert_eq!(calendar.age(at), 64 + age, "{at:x}");
        }
    }

    #[test]
    fn the_next_occupied_day_is_found_around_the_ring() {
        let mut occupied = Occupied::new(8_192);
        assert_eq!(
            (occupied.words.len(), occupied.used.len(), occupied.next(0)),
            (128, 2, None)
        );
        for day in [5, 7, 70, 5_000] {
            occupied.set(day);
        }
        assert_eq!(occupied.used, [0b11, 1 << (5_000 / 64 - 64)]);
        for (from, next) in [
            (0, 5),
            (5, 5),
            (6, 7),
            (8, 70),
            (70, 70),
            (71, 5_000),
            (4_096, 5_000),
            (5_001, 5),
            (8_191, 5),
        ] {
            assert_eq!(occupied.next(from), Some(next), "{from}");
        }
        occupied.clear(5);
        assert_eq!((occupied.used[0], occupied.next(0)), (0b11, Some(7)));
        occupied.clear(7);
        assert_eq!((occupied.used[0], occupied.next(0)), (0b10, Some(70)));
        occupied.clear(5_000);
        assert_eq!((occupied.used[1], occupied.next(71)), (0, Some(70)));
        occupied.clear(70);
        assert_eq!((occupied.next(0), occupied.word(0)), (None, None));
        assert_eq!(occupied.words, [0; 128]);
        // Earlier in the same word is a ring away.
        let mut small = Occupied::new(64);
        small.set(10);
        assert_eq!(
            (small.next(10), small.next(11), small.next(63)),
            (Some(10), Some(10), Some(10))
        );
    }

    #[test]
    fn notes_are_in_the_order_of_times_and_then_of_elements_the_first_the_greatest() {
        assert!(note(1, 9) > note(2, 0) && note(2, 3) > note(2, 4));
        let last = note(u64::MAX, u32::MAX);
        assert_eq!((at_of(note(3, 5)), element_of(note(3, 5))), (3, 5));
        assert_eq!((at_of(last), element_of(last)), (u64::MAX, u32::MAX));
        assert_eq!(of_day(3, 5), 3 << 32 | 5);
    }

    #[test]
    fn a_piece_holds_31_entries_of_a_day_or_15_of_an_age() {
        let pieces = |at: u64, many: u32| {
            let mut calendar = Calendar::with(10, 6);
            (0..many).for_each(|element| calendar.note(element, at));
            calendar.pieces.len()
        };
        let (day, age) = (5 << 10, 5 << 16);
        assert_eq!([1, 31, 32, 62, 63].map(|many| pieces(day, many)), [1, 1, 2, 2, 3]);
        assert_eq!([1, 15, 16, 30, 31].map(|many| pieces(age, many)), [1, 1, 2, 2, 3]);
        // Of today none.
        assert_eq!(pieces(1_023, 50), 0);
        assert_eq!(
            (pieces(1_024, 1), pieces((1 << 16) - 1, 31), pieces(1 << 16, 31)),
            (1, 1, 3)
        );
    }

    #[test]
    fn what_waits_in_ages_comes_in_order_and_leaves_its_pieces() {
        let mut calendar = Calendar::with(4, 6);
        // 200 in each of three ages of different levels, and some of today.
        let times = |element: u32| {
            let within = u64::from(element) * 7 % 1_024;
            [3, 2 << 10, 3 << 16, 5 << 22].map(|age| age + within)[element as usize % 4]
        };
        (0..800).for_each(|element| calendar.note(element, times(element)));
        assert_eq!(calendar.levels, 0b111);
        assert_eq!(calendar.ages[..4], [1 << 2, 1 << 3, 1 << 5, 0]);
        let mut expected: Vec<(u64, u32)> = (0..800).map(|element| (times(element), element)).collect();
        expected.sort_unstable();
        for (at, element) in expected {
            assert_eq!(calendar.next(), Some(at));
            assert!(at == 0 || calendar.take(at - 1).is_none());
            assert_eq!(calendar.take(at), Some(element));
        }
        assert_eq!((calendar.next(), calendar.take(u64::MAX)), (None, None));
        assert_eq!((calendar.levels, calendar.ages.iter().sum::<u64>()), (0, 0));
        assert!(
            calendar
                .days
                .iter()
                .all(|day| day.first == NONE && day.earliest == u64::MAX)
        );
        let mut free = std::iter::successors(calendar.pieces.get(calendar.free as usize), |piece| {
            calendar.pieces.get(piece.next as usize)
        });
        assert_eq!(free.by_ref().count(), calendar.pieces.len());
    }

    #[test]
    fn a_cleared_calendar_is_as_new_but_for_its_time() {
        let mut calendar = Calendar::with(4, 6);
        calendar.note(1, 5_000);
        assert_eq!(calendar.take(6_000), Some(1));
        for (element, at) in [(2, 0), (3, 6_100), (4, 9_000), (5, 1 << 40)] {
            calendar.note(element, at);
        }
        calendar.clear();
        assert_eq!((calendar.next(), calendar.take(u64::MAX)), (None, None));
        assert_eq!(
            (calendar.pieces.len(), calendar.free, calendar.levels),
            (0, NONE, 0)
        );
        calendar.note(6, 6_100);
        assert_eq!((calendar.take(6_099), calendar.take(6_100)), (None, Some(6)));
    }
}
