//! Shortcuts through rings: of the members of a ring, those worth a look, and the first of them
//! from the head on, without a visit to those between.
//!
//! Members carry labels that rise around their ring, modulo 2⁶⁴, so that the distances of two
//! members from the head can be compared. A member joins before the head and takes a label from the
//! gap there, a small part of it. When a gap is used up, all labels of the ring are spread anew; as
//! the head has to go round the ring to come back to a gap, that is rare (Dietz and Sleator, "Two
//! algorithms for maintaining order in a list", 1987, has the bounds that hold for any order of
//! insertions).

use crate::structures::rings::{self, NONE, Neighbours};

/// A joining member takes one of so many parts of the gap before the head, a power of two.
const PART: u32 = 10;

/// A member: its label, and its neighbours among those worth a look.
#[derive(Clone, Copy, Debug)]
struct Spot {
    label: u64,
    seen: Neighbours,
}

/// The first of those worth a look in a ring, in no order, and how many there are.
#[derive(Clone, Copy, Debug)]
struct Seen {
    any: u32,
    count: u32,
}

/// Rings of one set of members, each of which is in one ring at most.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shortcuts {
    spots: Vec<Spot>,
    rings: Vec<Seen>,
}

impl Shortcuts {
    /// For so many members and rings; no member is worth a look.
    pub(crate) fn new(members: usize, rings: usize) -> Self {
        let spot = Spot {
            label: 0,
            seen: Neighbours::FREE,
        };
        let none = Seen { any: NONE, count: 0 };
        Self {
            spots: vec![spot; members],
            rings: vec![none; rings],
        }
    }

    /// A member has joined a ring, before this head. `next` finds a member's successor.
    pub(crate) fn join(&mut self, member: u32, head: u32, last: u32, next: impl Fn(u32) -> u32) {
        let label = |member: u32| self.spots[member as usize].label;
        let gap = match last == head {
            true => u64::MAX,
            false => label(head).wrapping_sub(label(last)),
        };
        if gap < 2 {
            return self.spread(head, next);
        }
        self.spots[member as usize].label = label(last).wrapping_add((gap >> PART).max(1));
    }

    /// Labels for all members of a ring, at equal distances.
    #[cold]
    pub(crate) fn spread(&mut self, head: u32, next: impl Fn(u32) -> u32) {
        let (mut members, mut at) = (1, next(head));
        while at != head {
            (members, at) = (members + 1, next(at));
        }
        let (gap, mut label) = (u64::MAX / members, 0);
        for _ in 0..members {
            self.spots[at as usize].label = label;
            (label, at) = (label.wrapping_add(gap), next(at));
        }
    }

    /// Whether a member is worth a look.
    #[inline]
    pub(crate) fn sees(&self, member: u32) -> bool {
        self.spots[member as usize].seen.next != NONE
    }

    /// A member of this ring is worth a look from now on.
    pub(crate) fn see(&mut self, ring: usize, member: u32) {
        if !self.sees(member) {
            let seen = &mut self.rings[ring];
            seen.any = rings::insert(&mut self.spots, |spot| &mut spot.seen, seen.any, member);
            seen.count += 1;
        }
    }

    /// A member of this ring is not worth a look.
    pub(crate) fn overlook(&mut self, ring: usize, member: u32) {
        if self.sees(member) {
            let seen = &mut self.rings[ring];
            seen.any = rings::remove(&mut self.spots, |spot| &mut spot.seen, seen.any, member);
            seen.count -= 1;
            self.spots[member as usize].seen = Neighbours::FREE;
        }
    }

    /// The first member of a ring, from the head on, that is worth a look. Where many are, it is
    /// near; where it is far, there are few.
    #[inline]
    pub(crate) fn first(&self, ring: usize, head: u32, next: impl Fn(u32) -> u32) -> Option<u32> {
        let mut at = head;
        for _ in 0..self.rings[ring].count {
            if self.sees(at) {
                return Some(at);
            }
            at = next(at);
        }
        let from = self.spots[head as usize].label;
        let distance = |member: u32| self.spots[member as usize].label.wrapping_sub(from);
        self.seen(ring).min_by_key(|&member| distance(member))
    }

    /// How many members of a ring are worth a look.
    #[inline]
    pub(crate) fn count(&self, ring: usize) -> u32 {
        self.rings[ring].count
    }

    /// The members of a ring that are worth a look, in no order.
    pub(crate) fn seen(&self, ring: usize) -> impl Iterator<Item = u32> {
        let any = self.rings[ring].any;
        let after = move |&member: &u32| {
            let next = self.spots[member as usize].seen.next;
            Some(next).filter(|&next| next != any)
        };
        std::iter::successors((any != NONE).then_some(any), after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn the_first_worth_a_look_is_that_of_a_walk(
            steps in prop::collection::vec((0u32..12, 0u32..6), 1..2_000),
        ) {
            let mut ring: VecDeque<u32> = VecDeque::new();
            let mut worth = [false; 12];
            let mut shortcuts = Shortcuts::new(12, 2);
            for (member, what) in steps {
                let next = |ring: &VecDeque<u32>, of: u32| {
                    let at = ring.iter().position(|&one| one == of).expect("a member");
                    ring[(at + 1) % ring.len()]
                };
                match (what, ring.contains(&member)) {
                    (0 | 1, false) => {
                        ring.push_back(member);
                        if ring.len() > 1 {
                            let (head, last) = (ring[0], ring[ring.len() - 2]);
                            shortcuts.join(member, head, last, |of| next(&ring, of));
                        }
                    }
                    (0, true) => {
                        shortcuts.overlook(1, member);
                        worth[member as usize] = false;
                        ring.retain(|&one| one != member);
                    }
                    (1 | 2, true) => {
                        shortcuts.see(1, member);
                        worth[member as usize] = true;
                    }
                    (3, true) => {
                        shortcuts.overlook(1, member);
                        worth[member as usize] = false;
                    }
                    _ if !ring.is_empty() => ring.rotate_left(member as usize % ring.len()),
                    _ => {}
                }
                if let Some(&head) = ring.front() {
                    let walk = ring.iter().copied().find(|&one| worth[one as usize]);
                    prop_assert_eq!(shortcuts.first(1, head, |of| next(&ring, of)), walk);
                }
            }
        }
    }
}
