//! The replay window of one sender: which of its sequence numbers were accepted (RFC 2747, section
//! 4.2).
//!
//! Sequence numbers may have gaps (they may be times), so the last ones are stored themselves and
//! not as a bit mask.

use std::collections::BTreeSet;

/// The last sequence numbers of one sender.
pub(super) struct ReplayWindow {
    /// This number and all below it are too old.
    floor: u64,
    /// Accepted numbers above the floor; with the floor at most `size`.
    accepted: BTreeSet<u64>,
    size: usize,
}

impl ReplayWindow {
    /// Accepts only numbers above this one.
    pub fn after(floor: u64, size: usize) -> Self {
        Self {
            floor,
            accepted: BTreeSet::new(),
            size: size.max(1),
        }
    }

    /// Accepts a number if it is new; returns whether it is.
    pub fn accept(&mut self, sequence: u64) -> bool {
        if sequence <= self.floor || !self.accepted.insert(sequence) {
            return false;
        }
        if self.accepted.len() >= self.size {
            self.floor = self.accepted.pop_first().unwrap_or(self.floor);
        }
        true
    }
}
