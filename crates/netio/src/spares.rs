//! Memory that one thread brings for another, which takes a piece, hands it over filled, and gets
//! it back: the one that fills does not allocate, and never waits.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::PoisonError;

/// Whether who takes has found none since it was last told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "who has found none must be told that there is one"]
pub(crate) enum Taker {
    HasSome,
    /// It is to be rung for.
    Waits,
}

/// The pieces that are not in use.
#[derive(Debug)]
pub(crate) struct Spares<T> {
    kept: Mutex<Vec<T>>,
    /// Those and the others, which are in use.
    brought: AtomicUsize,
    /// Who takes has found none.
    wanted: AtomicBool,
}

impl<T> Spares<T> {
    /// With these.
    pub(crate) fn new(kept: Vec<T>) -> Self {
        Self {
            brought: AtomicUsize::new(kept.len()),
            kept: Mutex::new(kept),
            wanted: AtomicBool::new(false),
        }
    }

    /// Brings so many that there are `wanted`, with those in use. For one thread.
    pub(crate) fn bring(&self, wanted: usize, make: impl Fn() -> T) -> Taker {
        let before = self.brought.fetch_max(wanted, Ordering::Relaxed);
        // Made before the lock is taken.
        let more: Vec<T> = (before..wanted).map(|_| make()).collect();
        self.add(more)
    }

    /// One, unless there is none, or the other thread is just here: then it will be told.
    pub(crate) fn take(&self) -> Option<T> {
        let one = || self.kept.try_lock().ok()?.pop();
        one().or_else(|| {
            // Both threads exchange, so that each sees what the other did before.
            self.wanted.swap(true, Ordering::AcqRel);
            // One may have been given meanwhile.
            one()
        })
    }

    /// Gives one back.
    pub(crate) fn give(&self, one: T) -> Taker {
        self.add([one])
    }

    fn add(&self, more: impl IntoIterator<Item = T>) -> Taker {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(more);
        drop(kept);
        match self.wanted.swap(false, Ordering::AcqRel) {
            true => Taker::Waits,
            false => Taker::HasSome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_brought_than_are_missing_and_who_found_none_is_told_once() {
        let spares = Spares::new(vec![1]);
        assert_eq!(spares.bring(1, || 2), Taker::HasSome);
        assert_eq!((spares.take(), spares.take()), (Some(1), None));
        assert_eq!(spares.bring(3, || 2), Taker::Waits);
        assert_eq!(spares.give(1), Taker::HasSome);
        assert_eq!(spares.bring(2, || 3), Taker::HasSome);
        let left: Vec<i32> = std::iter::from_fn(|| spares.take()).collect();
        assert_eq!(left, [1, 2, 2]);
    }
}
