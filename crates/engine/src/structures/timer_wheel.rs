//! A timer for each of many numbered elements: set, cancelled and expired in constant time, exact
//! to 1 ns.
//!
//! A hierarchical timing wheel (Varghese and Lauck, "Hashed and hierarchical timing wheels", 1987,
//! scheme 7) with 64 slots a level, so that one bitmap word finds the next occupied slot. A timer's
//! slot is determined by the highest group of six bits in which its time differs from the wheel's:
//! lower levels are always due before higher ones. Departures: nothing ticks, the wheel jumps from
//! slot to slot; each slot records its earliest time, so [`TimerWheel::next`] is exact without
//! sorting; and timers in a slot that lies wholly in the past expire from where they are, without
//! cascading through the lower levels.
//!
//! Lists run through an array indexed by the element's number: no allocation after construction.

use crate::units::Instant;

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 11;

/// Ends a list; as `previous`: not set.
const NONE: u32 = u32::MAX;
/// As `previous`: the first of its slot, whose number is in the low bits.
const FIRST: u32 = 1 << 31;
/// The list of timers that are due and have not been returned yet.
const DUE: usize = LEVELS * SLOTS;

#[derive(Clone, Copy, Debug)]
struct Timer {
    at: u64,
    next: u32,
    previous: u32,
}

/// Timers of the elements 0 to `len` − 1.
#[derive(Clone, Debug)]
pub struct TimerWheel {
    now: u64,
    /// No timer is earlier.
    not_before: u64,
    /// Which levels have occupied slots.
    levels: u32,
    occupied: [u64; LEVELS],
    first: Vec<u32>,
    /// For an occupied slot: no timer in it is earlier; exact unless the earliest was cancelled.
    earliest: Vec<u64>,
    timers: Vec<Timer>,
}

impl TimerWheel {
    /// A wheel for `len` elements, no timer set.
    ///
    /// # Panics
    /// If there are 2³¹ elements or more.
    pub fn new(len: usize) -> Self {
        assert!(len < FIRST as usize, "a wheel holds fewer than 2^31 timers");
        Self {
            now: 0,
            not_before: u64::MAX,
            levels: 0,
            occupied: [0; LEVELS],
            first: vec![NONE; DUE + 1],
            earliest: vec![u64::MAX; DUE],
            timers: vec![
                Timer {
                    at: 0,
                    next: NONE,
                    previous: NONE
                };
                len
            ],
        }
    }

    /// When this element's timer is due; none if it is not set.
    pub fn get(&self, element: u32) -> Option<Instant> {
        let timer = &self.timers[element as usize];
        (timer.previous != NONE).then(|| Instant::from_nanos(timer.at))
    }

    /// Sets this element's timer, replacing an earlier setting. A time in the past is due at once.
    #[inline]
    pub fn set(&mut self, element: u32, at: Instant) {
        self.cancel(element);
        self.timers[element as usize].at = at.nanos();
        self.place(element, at.nanos());
    }

    /// Cancels this element's timer; does nothing if it is not set.
    #[inline]
    pub fn cancel(&mut self, element: u32) {
        let Timer { next, previous, .. } = self.timers[element as usize];
        if previous == NONE {
            return;
        }
        self.timers[element as usize].previous = NONE;
        if next != NONE {
            self.timers[next as usize].previous = previous;
        }
        if previous & FIRST == 0 {
            self.timers[previous as usize].next = next;
            return;
        }
        let slot = (previous ^ FIRST) as usize;
        self.first[slot] = next;
        if next == NONE && slot != DUE {
            self.vacate(slot);
        }
    }

    /// When the next timer is due. May be too early after that timer was cancelled, never too late.
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        if self.first[DUE] != NONE {
            return Some(Instant::from_nanos(self.timers[self.first[DUE] as usize].at));
        }
        self.lowest().map(|slot| Instant::from_nanos(self.earliest[slot]))
    }

    /// Takes out one timer that is due at `now`, in no particular order; none when no more are.
    #[inline(always)]
    pub fn expire(&mut self, now: Instant) -> Option<u32> {
        match now.nanos() < self.not_before {
            true => None,
            false => self.take_due(now.nanos()),
        }
    }

    #[inline(never)]
    fn take_due(&mut self, now: u64) -> Option<u32> {
        let mut due = None;
        loop {
            let element = self.first[DUE];
            if element != NONE {
                if due.is_none() {
                    self.cancel(element);
                    due = Some(element);
                }
                return due;
            }
            let lowest = self.lowest();
            let earliest = lowest.map_or(u64::MAX, |slot| self.earliest[slot]);
            self.not_before = earliest;
            match lowest {
                Some(slot) if due.is_none() && earliest <= now => due = self.open(slot, now),
                _ => return due,
            }
        }
    }

    /// The occupied slot that is due first.
    #[inline]
    fn lowest(&self) -> Option<usize> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        Some(level * SLOTS + self.occupied[level].trailing_zeros() as usize)
    }

    /// Advances the wheel into this slot, the lowest, as far as `now` allows, and cascades its
    /// timers. Takes out the last if it is due: of one timer, which is most often all, no list is
    /// made.
    #[inline]
    fn open(&mut self, slot: usize, now: u64) -> Option<u32> {
        let mut element = self.first[slot];
        self.first[slot] = NONE;
        self.vacate(slot);
        let level = (slot / SLOTS) as u32;
        let within = (1u64 << (BITS * level)) - 1;
        // Every timer of the slot agrees in the bits above those within it.
        let last = self.timers[element as usize].at | within;
        self.now = self.now.max(now.min(last));
        while element != NONE {
            let Timer { at, next, .. } = self.timers[element as usize];
            if next == NONE && at <= self.now {
                self.timers[element as usize].previous = NONE;
                return Some(element);
            }
            self.place(element, at);
            element = next;
        }
        None
    }

    #[inline]
    fn vacate(&mut self, slot: usize) {
        let level = slot / SLOTS;
        self.earliest[slot] = u64::MAX;
        self.occupied[level] &= !(1 << (slot % SLOTS));
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// Inserts a timer that is in no list.
    #[inline]
    fn place(&mut self, element: u32, at: u64) {
        self.not_before = self.not_before.min(at);
        let slot = if at <= self.now {
            DUE
        } else {
            let level = (63 - (at ^ self.now).leading_zeros()) / BITS;
            let digit = (at >> (BITS * level)) as usize % SLOTS;
            let level = level as usize;
            self.levels |= 1 << level;
            self.occupied[level] |= 1 << digit;
            let slot = level * SLOTS + digit;
            self.earliest[slot] = self.earliest[slot].min(at);
            slot
        };
        let next = self.first[slot];
        self.first[slot] = element;
        if next != NONE {
            self.timers[next as usize].previous = element;
        }
        let timer = &mut self.timers[element as usize];
        timer.next = next;
        timer.previous = FIRST | slot as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Set(u32, u64),
        Cancel(u32),
        Pass(u64),
        ToNext,
    }

    fn span() -> impl Strategy<Value = u64> {
        (0u32..40, any::<u64>()).prop_map(|(bits, n)| n & ((1 << bits) - 1))
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..20u32, span()).prop_map(|(element, span)| Step::Set(element, span)),
            1 => (0..20u32).prop_map(Step::Cancel),
            2 => span().prop_map(Step::Pass),
            2 => Just(Step::ToNext),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(
            start in prop_oneof![Just(0), any::<u64>().prop_map(|n| n >> 1)],
            steps in prop::collection::vec(step(), 1..200),
        ) {
            let mut now = start;
            let (mut wheel, mut model) = (TimerWheel::new(20), BTreeMap::new());
            for step in steps {
                match step {
                    Step::Set(element, span) => {
                        wheel.set(element, Instant::from_nanos(now + span));
                        model.insert(element, now + span);
                    }
                    Step::Cancel(element) => {
                        wheel.cancel(element);
                        model.remove(&element);
                    }
                    Step::Pass(span) => now += span,
                    Step::ToNext => now = wheel.next().map_or(now, |at| at.nanos().max(now)),
                }
                let earliest = model.values().min().copied();
                let told = wheel.next().map(Instant::nanos);
                prop_assert!(told.is_none() == earliest.is_none());
                prop_assert!(told.is_none() || told.map(|at| at.min(now)) <= earliest.map(|at| at.max(now)));
                let mut due = Vec::new();
                while let Some(element) = wheel.expire(Instant::from_nanos(now)) {
                    prop_assert_eq!(wheel.get(element), None);
                    due.push(element);
                }
                due.sort_unstable();
                let expected: Vec<u32> = model.iter().filter(|e| *e.1 <= now).map(|e| *e.0).collect();
                prop_assert_eq!(due, expected);
                model.retain(|_, at| *at > now);
                for (element, at) in &model {
                    prop_assert_eq!(wheel.get(*element), Some(Instant::from_nanos(*at)));
                }
                prop_assert!(wheel.next().is_none_or(|at| at.nanos() > now));
            }
        }
    }

    #[test]
    fn the_next_time_is_exact_when_nothing_was_cancelled() {
        let mut wheel = TimerWheel::new(3);
        for (element, at) in [(0, 70_001), (1, 70_000), (2, u64::MAX)] {
            wheel.set(element, Instant::from_nanos(at));
        }
        assert_eq!(wheel.next(), Some(Instant::from_nanos(70_000)));
        assert_eq!(wheel.expire(Instant::from_nanos(70_000)), Some(1));
        assert_eq!(wheel.expire(Instant::from_nanos(70_000)), None);
        assert_eq!(wheel.next(), Some(Instant::from_nanos(70_001)));
        assert_eq!(wheel.expire(Instant::from_nanos(80_000)), Some(0));
        assert_eq!(wheel.next(), Some(Instant::from_nanos(u64::MAX)));
    }
}
