//! Shortcuts through rings: groups of the members of rings, and the first member of a group in a
//! ring, from the head on, without a visit to those between.
//!
//! Members carry labels that rise around their ring, modulo 2⁶⁴. A member joins before the head and
//! takes a label from the gap there, a small part of it. When a gap is used up, all labels of the
//! ring are spread anew; as the head has to go round the ring to come back to a gap, that is rare
//! (Dietz and Sleator, "Two algorithms for maintaining order in a list", 1987, has the bounds that
//! hold for any order of insertions). A group is a search tree by ring and label, a treap (Seidel
//! and Aragon, "Randomized search trees", 1996) whose ranks are hashes of the members' numbers:
//! what it costs grows with the logarithm of the group, and links stand in the members.

use crate::structures::rings::NONE;

/// A joining member takes one of so many parts of the gap before the head, a power of two.
const PART: u32 = 10;

/// A member: its place in its ring and, if it is in a group, in the group's tree.
#[derive(Clone, Copy, Debug)]
struct Spot {
    label: u64,
    ring: u32,
    group: u32,
    /// Those before it and after it in the tree, of lower ranks.
    below: [u32; 2],
    rank: u32,
}

impl Spot {
    fn key(&self) -> (u32, u64) {
        (self.ring, self.label)
    }
}

/// Where a tree, or a part of it, hangs.
#[derive(Clone, Copy, Debug)]
enum Branch {
    Group(u32),
    Below(u32, usize),
}

/// Groups of members, each of which is in one ring and in one group at most.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shortcuts {
    spots: Vec<Spot>,
    groups: Vec<u32>,
}

impl Shortcuts {
    /// For so many members and groups; no member is in a group.
    pub(crate) fn new(members: usize, groups: usize) -> Self {
        let spot = |member| Spot {
            label: 0,
            ring: 0,
            group: NONE,
            below: [NONE; 2],
            rank: mixed(member),
        };
        Self {
            spots: (0..members as u32).map(spot).collect(),
            groups: vec![NONE; groups],
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
            return self.spread(last, next);
        }
        self.spots[member as usize].label = label(last).wrapping_add((gap >> PART).max(1));
    }

    /// Labels for all members of a ring, at equal distances; in their order, whichever is in a
    /// group. `one` is a member that has a label.
    #[cold]
    pub(crate) fn spread(&mut self, one: u32, next: impl Fn(u32) -> u32) {
        let (mut members, mut at, mut least) = (1, next(one), one);
        while at != one {
            if self.spots[at as usize].group != NONE
                && self.spots[at as usize].label < self.spots[least as usize].label
            {
                least = at;
            }
            (members, at) = (members + 1, next(at));
        }
        let (gap, mut label) = (u64::MAX / members, 0);
        for _ in 0..members {
            self.spots[least as usize].label = label;
            (label, least) = (label.wrapping_add(gap), next(least));
        }
    }

    /// How far a member is behind this head of its ring.
    pub(crate) fn distance(&self, head: u32, member: u32) -> u64 {
        let label = |member: u32| self.spots[member as usize].label;
        label(member).wrapping_sub(label(head))
    }

    /// Whether a member is in this group.
    #[inline]
    pub(crate) fn is_in(&self, group: u32, member: u32) -> bool {
        self.spots[member as usize].group == group
    }

    #[inline]
    pub(crate) fn is_empty(&self, group: u32) -> bool {
        self.groups[group as usize] == NONE
    }

    /// Moves a member of this ring to a group.
    pub(crate) fn put(&mut self, group: u32, ring: usize, member: u32) {
        if self.is_in(group, member) {
            return;
        }
        self.take(member);
        let spot = &mut self.spots[member as usize];
        (spot.group, spot.ring) = (group, ring as u32);
        let (key, rank) = (spot.key(), spot.rank);
        let mut branch = Branch::Group(group);
        let mut rest = self.at(branch);
        while rest != NONE && self.spots[rest as usize].rank >= rank {
            branch = Branch::Below(rest, self.side(rest, key));
            rest = self.at(branch);
        }
        self.hang(branch, member);
        // What hung there is parted into what is before the member and what is after it.
        let mut parts = [0, 1].map(|side| Branch::Below(member, side));
        while rest != NONE {
            // On which side of `rest` the member is: it is itself on the other side of the member.
            let side = self.side(rest, key);
            self.hang(parts[1 - side], rest);
            parts[1 - side] = Branch::Below(rest, side);
            rest = self.at(parts[1 - side]);
        }
        for part in parts {
            self.hang(part, NONE);
        }
    }

    /// Takes a member out of its group, if it is in one.
    pub(crate) fn take(&mut self, member: u32) {
        let Spot { group, below, .. } = self.spots[member as usize];
        if group == NONE {
            return;
        }
        let key = self.spots[member as usize].key();
        let mut branch = Branch::Group(group);
        while self.at(branch) != member {
            let at = self.at(branch);
            branch = Branch::Below(at, self.side(at, key));
        }
        // Those before it and those after it are joined, the higher ranks above.
        let mut parts = below;
        while !parts.contains(&NONE) {
            let [left, right] = parts.map(|part| self.spots[part as usize].rank);
            let higher = usize::from(right > left);
            let part = parts[higher];
            self.hang(branch, part);
            branch = Branch::Below(part, 1 - higher);
            parts[higher] = self.at(branch);
        }
        self.hang(branch, parts[usize::from(parts[0] == NONE)]);
        let spot = &mut self.spots[member as usize];
        (spot.group, spot.below) = (NONE, [NONE; 2]);
    }

    /// The first member of a ring, from its head on, that is in this group.
    #[inline]
    pub(crate) fn first(&self, group: u32, ring: usize, head: u32) -> Option<u32> {
        if self.is_empty(group) {
            return None;
        }
        let from = |label| self.first_from(group, (ring as u32, label));
        from(self.spots[head as usize].label).or_else(|| from(0))
    }

    /// A member of a group in the last of its rings.
    pub(crate) fn last(&self, group: u32) -> Option<u32> {
        let (mut last, mut at) = (None, self.groups[group as usize]);
        while at != NONE {
            (last, at) = (Some(at), self.spots[at as usize].below[1]);
        }
        last
    }

    /// The first in a group's tree, from this key on, in its ring.
    fn first_from(&self, group: u32, key: (u32, u64)) -> Option<u32> {
        let (mut first, mut at) = (None, self.groups[group as usize]);
        while at != NONE {
            let spot = &self.spots[at as usize];
            let before = spot.key() < key;
            if !before {
                first = Some(at);
            }
            at = spot.below[usize::from(before)];
        }
        first.filter(|&first| self.spots[first as usize].ring == key.0)
    }

    /// On which side of a member in a tree this key is.
    fn side(&self, at: u32, key: (u32, u64)) -> usize {
        usize::from(self.spots[at as usize].key() < key)
    }

    fn at(&self, branch: Branch) -> u32 {
        match branch {
            Branch::Group(group) => self.groups[group as usize],
            Branch::Below(at, side) => self.spots[at as usize].below[side],
        }
    }

    fn hang(&mut self, branch: Branch, member: u32) {
        match branch {
            Branch::Group(group) => self.groups[group as usize] = member,
            Branch::Below(at, side) => self.spots[at as usize].below[side] = member,
        }
    }
}

/// A hash of a number: the finaliser of MurmurHash3 (Appleby).
fn mixed(number: u32) -> u32 {
    let number = (number ^ number >> 16).wrapping_mul(0x85eb_ca6b);
    let number = (number ^ number >> 13).wrapping_mul(0xc2b2_ae35);
    number ^ number >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// Members, so many that trees have some levels; two rings, three groups.
    const MEMBERS: u32 = 40;

    /// The depth of a part of a tree, if it is in order, heaps by rank, and all of this group.
    fn depth(all: &Shortcuts, group: u32, at: u32) -> usize {
        if at == NONE {
            return 0;
        }
        let spot = &all.spots[at as usize];
        assert_eq!(spot.group, group);
        for (side, &below) in spot.below.iter().enumerate().filter(|(_, below)| **below != NONE) {
            let other = &all.spots[below as usize];
            assert!(other.rank < spot.rank);
            assert_eq!(other.key() > spot.key(), side == 1);
        }
        1 + spot
            .below
            .map(|below| depth(all, group, below))
            .into_iter()
            .max()
            .unwrap_or(0)
    }

    proptest! {
        #[test]
        fn the_first_of_a_group_is_that_of_a_walk(
            steps in prop::collection::vec((0..MEMBERS, 0u32..9), 1..3_000),
        ) {
            let mut rings = [VecDeque::<u32>::new(), VecDeque::new()];
            let mut groups = [NONE; MEMBERS as usize];
            let mut shortcuts = Shortcuts::new(MEMBERS as usize, 3);
            for (member, what) in steps {
                let own = member as usize % 2;
                let ring = &mut rings[own];
                let next = |ring: &VecDeque<u32>, of: u32| {
                    let at = ring.iter().position(|&one| one == of).expect("a member");
                    ring[(at + 1) % ring.len()]
                };
                match (what, ring.contains(&member)) {
                    (0..=2, false) => {
                        ring.push_back(member);
                        if ring.len() > 1 {
                            let (head, last) = (ring[0], ring[ring.len() - 2]);
                            shortcuts.join(member, head, last, |of| next(ring, of));
                        }
                    }
                    (0, true) => {
                        shortcuts.take(member);
                        groups[member as usize] = NONE;
                        ring.retain(|&one| one != member);
                    }
                    (1..=5, true) => {
                        groups[member as usize] = what % 3;
                        shortcuts.put(what % 3, own, member);
                    }
                    (6, true) => {
                        groups[member as usize] = NONE;
                        shortcuts.take(member);
                    }
                    _ if !ring.is_empty() => ring.rotate_left(member as usize % ring.len()),
                    _ => {}
                }
                for group in 0..3 {
                    depth(&shortcuts, group, shortcuts.groups[group as usize]);
                    let of_group = rings[1].iter().chain(&rings[0]).find(|&&one| groups[one as usize] == group);
                    prop_assert_eq!(shortcuts.last(group).map(|one| one % 2), of_group.map(|one| one % 2));
                    for (number, ring) in rings.iter().enumerate() {
                        let Some(&head) = ring.front() else { continue };
                        let walk = ring.iter().copied().find(|&one| groups[one as usize] == group);
                        prop_assert_eq!(shortcuts.first(group, number, head), walk);
                    }
                }
            }
        }
    }

    #[test]
    fn the_tree_of_a_thousand_members_has_few_levels_however_they_join() {
        for stride in [1u32, 7, 10, 20, 41, 377, 610] {
            let mut shortcuts = Shortcuts::new(1_000 * stride as usize, 1);
            for n in 0..1_000u32 {
                let (member, last) = (n * stride, n.saturating_sub(1) * stride);
                if n > 0 {
                    shortcuts.join(member, 0, last, |of| (of + stride) % ((n + 1) * stride));
                }
                shortcuts.put(0, 0, member);
            }
            let levels = depth(&shortcuts, 0, shortcuts.groups[0]);
            assert!((10..=30).contains(&levels), "{levels} with a stride of {stride}");
        }
    }

    #[test]
    fn a_rank_is_the_finaliser_of_murmurhash3() {
        for (number, hash) in [
            (0x0, 0x00000000),
            (0x1, 0x514e28b7),
            (0x2, 0x30f4c306),
            (0xffffffff, 0x81f16f39),
            (0x12345678, 0xe37cd1bc),
        ] {
            assert_eq!(mixed(number), hash, "{number:x}");
        }
    }

    /// Members 0 to 3 with these labels, in one ring and one group.
    fn labelled(labels: [u64; 4]) -> Shortcuts {
        let mut shortcuts = Shortcuts::new(4, 1);
        for (member, label) in (0..).zip(labels) {
            shortcuts.spots[member as usize].label = label;
            shortcuts.put(0, 0, member);
        }
        shortcuts
    }

    fn labels(shortcuts: &Shortcuts) -> Vec<u64> {
        shortcuts.spots.iter().map(|spot| spot.label).collect()
    }

    #[test]
    fn a_key_is_behind_a_member_if_its_ring_or_its_label_is_greater() {
        let mut shortcuts = labelled([10, 20, 30, 40]);
        shortcuts.spots[1].ring = 5;
        let sides = [(5, 19), (5, 20), (5, 21), (4, 99), (6, 0)].map(|key| shortcuts.side(1, key));
        assert_eq!(sides, [0, 0, 1, 0, 1]);
    }

    #[test]
    fn the_first_from_a_key_on_is_in_its_ring() {
        let shortcuts = labelled([10, 20, 30, 40]);
        let from = |label| shortcuts.first_from(0, (0, label));
        assert_eq!(
            [0, 10, 11, 40, 41].map(from),
            [Some(0), Some(0), Some(1), Some(3), None]
        );
        assert_eq!(shortcuts.first_from(0, (1, 0)), None);
        // From the head on, around the ring.
        assert_eq!((shortcuts.first(0, 0, 2), shortcuts.last(0)), (Some(2), Some(3)));
        let mut shortcuts = shortcuts;
        [2, 3].into_iter().for_each(|member| shortcuts.take(member));
        assert_eq!((shortcuts.first(0, 0, 2), shortcuts.last(0)), (Some(0), Some(1)));
        [0, 1].into_iter().for_each(|member| shortcuts.take(member));
        assert_eq!((shortcuts.first(0, 0, 2), shortcuts.last(0)), (None, None));
        assert!(shortcuts.is_empty(0) && !shortcuts.is_in(0, 1));
    }

    #[test]
    fn who_joins_takes_a_small_part_of_the_gap_before_the_head() {
        let next = |_| unreachable!("there is a gap");
        let mut shortcuts = labelled([1 << 40, 0, 0, 0]);
        // Alone in its ring, the head has all labels behind it.
        shortcuts.join(1, 0, 0, next);
        assert_eq!(labels(&shortcuts)[1], (1 << 40) + ((1 << 54) - 1));
        assert_eq!(shortcuts.distance(0, 1), (1 << 54) - 1);
        let mut shortcuts = labelled([5_000, 0, 0, 0]);
        shortcuts.spots[1].label = 5_000_u64.wrapping_sub(4_096);
        shortcuts.join(2, 0, 1, next);
        assert_eq!(labels(&shortcuts)[2], 904 + 4);
        // At least one.
        let mut shortcuts = labelled([5_000, 4_998, 0, 0]);
        shortcuts.join(2, 0, 1, next);
        assert_eq!(labels(&shortcuts)[2], 4_999);
    }

    #[test]
    fn where_there_is_no_gap_all_get_labels_at_equal_distances() {
        // In the ring 1, 2, 0, 3, of which 3 joins; the least label is that of 2.
        let mut shortcuts = labelled([7, 8, 6, 0]);
        shortcuts.take(3);
        let next = |of: u32| [3, 2, 0, 1][of as usize];
        shortcuts.join(3, 1, 0, next);
        let gap = u64::MAX / 4;
        assert_eq!(labels(&shortcuts), [gap, 3 * gap, 0, 2 * gap]);
        // Who is in no group is not the first of the order.
        let mut shortcuts = labelled([7, 8, 6, 0]);
        [2, 3].into_iter().for_each(|member| shortcuts.take(member));
        shortcuts.join(3, 1, 0, next);
        assert_eq!(labels(&shortcuts), [0, 2 * gap, 3 * gap, gap]);
    }
}
