//! Sets of byte ranges: disjoint, not adjacent, in order, in a ring.
//!
//! Data that arrives out of order mostly extends the last range or the first, so both ends are
//! cheap. Elsewhere a change costs a binary search and a move of the shorter side. Nothing is
//! allocated once the ring has grown to its size.

use crate::packet::ByteRange;
use std::collections::VecDeque;

/// A set of bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    ring: VecDeque<ByteRange>,
    bytes: u64,
}

impl RangeSet {
    /// The number of bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// The ranges from the last to the first.
    pub(crate) fn backwards(&self) -> impl Iterator<Item = ByteRange> + '_ {
        self.ring.iter().rev().copied()
    }

    /// The index of the first range that ends at or after this byte.
    fn first_ending_from(&self, byte: u64) -> usize {
        match (self.ring.front(), self.ring.back()) {
            (Some(first), _) if first.end >= byte => 0,
            (_, Some(last)) if last.start <= byte => self.ring.len() - usize::from(last.end >= byte),
            _ => self.ring.partition_point(|range| range.end < byte),
        }
    }

    /// Adds a range; returns the whole range that it is now part of.
    pub(crate) fn insert(&mut self, added: ByteRange) -> ByteRange {
        if added.is_empty() {
            return ByteRange::new(added.start, added.start);
        }
        let mut whole = added;
        let at = self.first_ending_from(added.start);
        let mut merged = 0;
        while let Some(&range) = self.ring.get(at + merged)
            && range.start <= whole.end
        {
            whole = ByteRange::new(whole.start.min(range.start), whole.end.max(range.end));
            self.bytes -= range.len();
            merged += 1;
        }
        self.bytes += whole.len();
        if merged == 0 {
            self.ring.insert(at, whole);
        } else {
            self.ring[at] = whole;
            if merged > 1 {
                self.ring.drain(at + 1..at + merged);
            }
        }
        whole
    }

    /// Removes the bytes of a range.
    pub(crate) fn remove(&mut self, removed: ByteRange) {
        if removed.is_empty() {
            return;
        }
        let mut at = self.first_ending_from(removed.start);
        while let Some(&range) = self.ring.get(at)
            && range.start < removed.end
        {
            let left = ByteRange::new(range.start, range.end.min(removed.start));
            let right = ByteRange::new(range.start.max(removed.end), range.end);
            self.bytes -= range.intersection(removed).len();
            match (left.is_empty(), right.is_empty()) {
                (false, false) => {
                    self.ring[at] = left;
                    self.ring.insert(at + 1, right);
                    at += 2;
                }
                (false, true) => {
                    self.ring[at] = left;
                    at += 1;
                }
                (true, false) => {
                    self.ring[at] = right;
                    at += 1;
                }
                (true, true) => {
                    self.ring.remove(at);
                }
            }
        }
    }

    /// Removes all bytes before this one.
    pub(crate) fn trim(&mut self, byte: u64) {
        while let Some(first) = self.ring.front_mut()
            && first.start < byte
        {
            if first.end > byte {
                self.bytes -= byte - first.start;
                first.start = byte;
                return;
            }
            self.bytes -= first.len();
            self.ring.pop_front();
        }
    }

    /// Removes the first range if it begins at or before this byte, and returns its end.
    pub(crate) fn take_first(&mut self, byte: u64) -> Option<u64> {
        let first = *self.ring.front()?;
        if first.start > byte {
            return None;
        }
        self.ring.pop_front();
        self.bytes -= first.len();
        Some(first.end)
    }

    /// The range with this byte, or the first after it.
    pub(crate) fn at_or_after(&self, byte: u64) -> Option<ByteRange> {
        self.ring.get(self.first_ending_from(byte + 1)).copied()
    }

    /// Whether all bytes of this range are in the set.
    pub(crate) fn covers(&self, range: ByteRange) -> bool {
        self.at_or_after(range.start)
            .is_some_and(|found| found.start <= range.start && found.end >= range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Insert(ByteRange),
        Remove(ByteRange),
        Trim(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let range = || (0u64..60, 0u64..12).prop_map(|(start, len)| ByteRange::new(start, start + len));
        prop_oneof![
            4 => range().prop_map(Step::Insert),
            2 => range().prop_map(Step::Remove),
            1 => (0u64..20).prop_map(Step::Trim),
        ]
    }

    proptest! {
        #[test]
        fn ranges_agree_with_a_set_of_bytes(steps in proptest::collection::vec(step(), 0..60)) {
            let mut ranges = RangeSet::default();
            let mut model = [false; 80];
            for step in steps {
                match step {
                    Step::Insert(range) => {
                        ranges.insert(range);
                        model[range.start as usize..range.end as usize].fill(true);
                    }
                    Step::Remove(range) => {
                        ranges.remove(range);
                        model[range.start as usize..range.end as usize].fill(false);
                    }
                    Step::Trim(a) => {
                        ranges.trim(a);
                        model[..a as usize].fill(false);
                    }
                }
                prop_assert_eq!(ranges.bytes(), model.iter().filter(|known| **known).count() as u64);
                let all: Vec<ByteRange> = ranges.ring.iter().copied().collect();
                prop_assert!(all.windows(2).all(|two| two[0].end < two[1].start), "{all:?}");
                for byte in 0..72u64 {
                    prop_assert_eq!(ranges.covers(ByteRange::new(byte, byte + 1)), model[byte as usize], "{} of {:?}", byte, all);
                    let next = (byte..80).find(|b| model[*b as usize]);
                    prop_assert_eq!(ranges.at_or_after(byte).map(|r| r.start.max(byte)), next);
                }
            }
        }
    }
}
