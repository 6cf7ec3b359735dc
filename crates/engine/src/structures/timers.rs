//! A timer for each of many numbered elements: in one order by time where there are few, and on a
//! [`TimerWheel`] where there are many.
//!
//! Up to [`FEW`] elements, a timer is inserted by a copy of a part of one short array, and the
//! first is its last: less than half of what the wheel takes, whose timers move from level to
//! level. Departure from the wheel: timers that are due expire in the order of their times, and of
//! equal times the smaller element first.

use crate::structures::timer_wheel::TimerWheel;
use crate::units::Instant;

/// The most elements whose timers are in one order: an insertion copies at most 2 kB.
const FEW: usize = 128;

/// Timers of the elements 0 to *n* − 1.
#[derive(Debug)]
pub(crate) enum Timers {
    Few(SortedTimers),
    Many(TimerWheel),
}

impl Timers {
    /// Of so many elements, no timer set.
    pub(crate) fn new(len: usize) -> Self {
        match len <= FEW {
            true => Self::Few(SortedTimers::new(len)),
            false => Self::Many(TimerWheel::new(len)),
        }
    }

    /// Sets this element's timer, replacing an earlier setting. A time in the past is due at once.
    #[inline]
    pub(crate) fn set(&mut self, element: u32, at: Instant) {
        match self {
            Self::Few(timers) => timers.set(element, at.nanos()),
            Self::Many(wheel) => wheel.set(element, at),
        }
    }

    /// Cancels this element's timer; does nothing if it is not set.
    #[inline]
    pub(crate) fn cancel(&mut self, element: u32) {
        match self {
            Self::Few(timers) => timers.cancel(element),
            Self::Many(wheel) => wheel.cancel(element),
        }
    }

    /// When the next timer is due. May be too early after that timer was cancelled, never too late.
    #[inline]
    pub(crate) fn next(&self) -> Option<Instant> {
        match self {
            Self::Few(timers) => timers.next().map(Instant::from_nanos),
            Self::Many(wheel) => wheel.next(),
        }
    }

    /// Takes out one timer that is due at `now`; none when no more are.
    #[inline(always)]
    pub(crate) fn expire(&mut self, now: Instant) -> Option<u32> {
        match self {
            Self::Few(timers) => timers.expire(now.nanos()),
            Self::Many(wheel) => wheel.expire(now),
        }
    }
}

/// Timers in one order.
#[derive(Debug)]
pub(crate) struct SortedTimers {
    /// Time and element in one word, the first last.
    items: Vec<u128>,
    /// Of each element: the time, if its timer is set.
    times: Vec<Option<u64>>,
}

fn item(at: u64, element: u32) -> u128 {
    u128::from(at) << 32 | u128::from(element)
}

impl SortedTimers {
    fn new(len: usize) -> Self {
        Self {
            items: Vec::with_capacity(len),
            times: vec![None; len],
        }
    }

    fn place(&self, item: u128) -> usize {
        self.items.partition_point(|&one| one > item)
    }

    #[inline(never)]
    fn set(&mut self, element: u32, at: u64) {
        self.cancel(element);
        self.times[element as usize] = Some(at);
        let item = item(at, element);
        self.items.insert(self.place(item), item);
    }

    #[inline]
    fn cancel(&mut self, element: u32) {
        if let Some(at) = self.times[element as usize].take() {
            self.items.remove(self.place(item(at, element)));
        }
    }

    #[inline]
    fn next(&self) -> Option<u64> {
        self.items.last().map(|&item| (item >> 32) as u64)
    }

    #[inline]
    fn expire(&mut self, now: u64) -> Option<u32> {
        let item = self.items.pop_if(|item| (*item >> 32) as u64 <= now)?;
        let element = item as u32;
        self.times[element as usize] = None;
        Some(element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Both are compared with a sorted set.
    fn agree(len: usize, steps: &[(u32, u64, u8)]) -> Result<(), TestCaseError> {
        let (mut timers, mut model, mut now) = (Timers::new(len), BTreeSet::new(), 0u64);
        for &(element, span, what) in steps {
            match what {
                // Time itself stays far from its end.
                0 => now += span % (1 << 40),
                1 => timers.cancel(element),
                _ => timers.set(element, Instant::from_nanos(now.saturating_add(span))),
            }
            if what > 0 {
                model.retain(|&(_, other)| other != element);
            }
            if what > 1 {
                model.insert((now.saturating_add(span), element));
            }
            let (told, first) = (timers.next().map(Instant::nanos), model.first().copied());
            prop_assert_eq!(told.is_none(), first.is_none());
            if let Timers::Few(_) = timers {
                prop_assert_eq!(told, first.map(|(at, _)| at));
            }
            let mut due = Vec::new();
            due.extend(std::iter::from_fn(|| timers.expire(Instant::from_nanos(now))));
            let later = model.split_off(&(now.saturating_add(1), 0));
            let expected: Vec<u32> = std::mem::replace(&mut model, later)
                .into_iter()
                .map(|(_, element)| element)
                .collect();
            if let Timers::Many(_) = timers {
                due.sort_by_key(|element| expected.iter().position(|one| one == element));
            }
            prop_assert_eq!(due, expected);
        }
        Ok(())
    }

    fn spans() -> impl Strategy<Value = u64> {
        prop_oneof![0u64..100, 0u64..1 << 40, Just(u64::MAX)]
    }

    proptest! {
        #[test]
        fn few_and_many_agree_with_a_sorted_set(
            steps in prop::collection::vec((0u32..20, spans(), 0u8..6), 1..200),
        ) {
            for len in [20, FEW, FEW + 1] {
                agree(len, &steps)?;
            }
        }
    }

    #[test]
    fn up_to_128_elements_are_few() {
        assert_eq!(FEW, 128);
        assert!(matches!(Timers::new(128), Timers::Few(_)));
        assert!(matches!(Timers::new(129), Timers::Many(_)));
    }

    #[test]
    fn an_item_is_a_time_above_an_element() {
        assert_eq!(item(0, 7), 7);
        assert_eq!(item(3, 5), 3 << 32 | 5);
        assert_eq!(item(u64::MAX, u32::MAX), (1 << 96) - 1);
    }

    #[test]
    fn few_timers_expire_by_time_and_then_by_number() {
        let mut timers = SortedTimers::new(4);
        for (element, at) in [(3, 10), (1, 10), (0, 20), (2, 5), (2, 15)] {
            timers.set(element, at);
        }
        assert_eq!((timers.next(), timers.expire(9)), (Some(10), None));
        assert_eq!(
            [timers.expire(10), timers.expire(10), timers.expire(10)],
            [Some(1), Some(3), None]
        );
        timers.cancel(2);
        timers.cancel(2);
        assert_eq!((timers.next(), timers.items.len()), (Some(20), 1));
        assert_eq!((timers.expire(u64::MAX), timers.next()), (Some(0), None));
        assert_eq!(timers.times, [None; 4]);
    }
}
