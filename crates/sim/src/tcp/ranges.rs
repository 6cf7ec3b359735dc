//! Sets of byte ranges: disjoint, not touching, in order, in a ring.
//!
//! What arrives out of order mostly lengthens the last range or the first, so that both ends are cheap; anywhere else
//! costs a binary search and the move of the shorter side. Nothing is allocated once the ring has its size.

use crate::packet::Range;
use std::collections::VecDeque;

/// A set of bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    ring: VecDeque<Range>,
    bytes: u64,
}

impl Ranges {
    /// How many bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Ranges from the last to the first.
    pub(crate) fn backwards(&self) -> impl Iterator<Item = Range> + '_ {
        self.ring.iter().rev().copied()
    }

    pub(crate) fn clear(&mut self) {
        self.ring.clear();
        self.bytes = 0;
    }

    /// The first range that ends at or after this byte.
    fn from(&self, byte: u64) -> usize {
        match (self.ring.front(), self.ring.back()) {
            (Some(first), _) if first.1 >= byte => 0,
            (_, Some(last)) if last.0 <= byte => self.ring.len() - usize::from(last.1 >= byte),
            _ => self.ring.partition_point(|range| range.1 < byte),
        }
    }

    /// Adds a range, and returns the whole range that it is now part of.
    pub(crate) fn insert(&mut self, (mut start, mut end): Range) -> Range {
        if start >= end {
            return (start, start);
        }
        let at = self.from(start);
        let mut touched = 0;
        while let Some(&range) = self.ring.get(at + touched)
            && range.0 <= end
        {
            (start, end) = (start.min(range.0), end.max(range.1));
            self.bytes -= range.1 - range.0;
            touched += 1;
        }
        self.bytes += end - start;
        if touched == 0 {
            self.ring.insert(at, (start, end));
        } else {
            self.ring[at] = (start, end);
            if touched > 1 {
                self.ring.drain(at + 1..at + touched);
            }
        }
        (start, end)
    }

    /// Takes a range out, as far as it is in.
    pub(crate) fn remove(&mut self, (start, end): Range) {
        if start >= end {
            return;
        }
        let mut at = self.from(start);
        while let Some(&range) = self.ring.get(at)
            && range.0 < end
        {
            let (left, right) = ((range.0, range.1.min(start)), (range.0.max(end), range.1));
            let out = range.1.min(end).saturating_sub(range.0.max(start));
            self.bytes -= out;
            match (left.0 < left.1, right.0 < right.1) {
                (true, true) => {
                    self.ring[at] = left;
                    self.ring.insert(at + 1, right);
                    at += 2;
                }
                (true, false) => {
                    self.ring[at] = left;
                    at += 1;
                }
                (false, true) => {
                    self.ring[at] = right;
                    at += 1;
                }
                (false, false) => {
                    self.ring.remove(at);
                }
            }
        }
    }

    /// Forgets all before this byte.
    pub(crate) fn trim(&mut self, byte: u64) {
        while let Some(first) = self.ring.front_mut()
            && first.0 < byte
        {
            if first.1 > byte {
                self.bytes -= byte - first.0;
                first.0 = byte;
                return;
            }
            self.bytes -= first.1 - first.0;
            self.ring.pop_front();
        }
    }

    /// Takes the first range out, if it begins at or before this byte, and returns its end.
    pub(crate) fn take_first(&mut self, byte: u64) -> Option<u64> {
        let first = *self.ring.front()?;
        if first.0 > byte {
            return None;
        }
        self.ring.pop_front();
        self.bytes -= first.1 - first.0;
        Some(first.1)
    }

    /// The range that holds this byte, or the first after it.
    pub(crate) fn at_or_after(&self, byte: u64) -> Option<Range> {
        self.ring.get(self.from(byte + 1)).copied()
    }

    /// Whether all of this range is in.
    pub(crate) fn covers(&self, (start, end): Range) -> bool {
        self.at_or_after(start)
            .is_some_and(|range| range.0 <= start && range.1 >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Insert(Range),
        Remove(Range),
        Trim(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let range = || (0u64..60, 0u64..12).prop_map(|(start, len)| (start, start + len));
        prop_oneof![
            4 => range().prop_map(Step::Insert),
            2 => range().prop_map(Step::Remove),
            1 => (0u64..20).prop_map(Step::Trim),
        ]
    }

    proptest! {
        #[test]
        fn ranges_hold_what_a_set_of_bytes_holds(steps in proptest::collection::vec(step(), 0..60)) {
            let mut ranges = Ranges::default();
            let mut model = [false; 80];
            for step in steps {
                match step {
                    Step::Insert((a, b)) => {
                        ranges.insert((a, b));
                        model[a as usize..b as usize].fill(true);
                    }
                    Step::Remove((a, b)) => {
                        ranges.remove((a, b));
                        model[a as usize..b as usize].fill(false);
                    }
                    Step::Trim(a) => {
                        ranges.trim(a);
                        model[..a as usize].fill(false);
                    }
                }
                prop_assert_eq!(ranges.bytes(), model.iter().filter(|in_it| **in_it).count() as u64);
                let all: Vec<Range> = ranges.ring.iter().copied().collect();
                prop_assert!(all.windows(2).all(|two| two[0].1 < two[1].0), "{all:?}");
                for byte in 0..72u64 {
                    prop_assert_eq!(ranges.covers((byte, byte + 1)), model[byte as usize], "{} of {:?}", byte, all);
                    let next = (byte..80).find(|b| model[*b as usize]);
                    prop_assert_eq!(ranges.at_or_after(byte).map(|r| r.0.max(byte)), next);
                }
            }
        }
    }
}
