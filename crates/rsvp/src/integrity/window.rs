//! Which sequence numbers of a neighbour have been taken (RFC 2747, section 4.2).
//!
//! Numbers need not follow each other closely (they may be times), so the last ones are kept themselves.

use std::collections::BTreeSet;

/// The last numbers of one neighbour.
pub(super) struct Window {
    /// This one and all below it are too old.
    floor: u64,
    /// Those above it that were taken; with the floor `most` at most.
    taken: BTreeSet<u64>,
    most: usize,
}

impl Window {
    /// Takes numbers above this one only.
    pub fn after(floor: u64, most: usize) -> Self {
        Self {
            floor,
            taken: BTreeSet::new(),
            most: most.max(1),
        }
    }

    /// Takes a number, if it is new.
    pub fn take(&mut self, sequence: u64) -> bool {
        if sequence <= self.floor || !self.taken.insert(sequence) {
            return false;
        }
        if self.taken.len() >= self.most {
            self.floor = self.taken.pop_first().unwrap_or(self.floor);
        }
        true
    }
}
