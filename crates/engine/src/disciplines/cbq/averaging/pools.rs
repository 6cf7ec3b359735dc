//! Who may be next, kept in order: leaves within their limit, and lenders of those that are not.
//!
//! A leaf that is overlimit and borrows is in the pool of its parent. A parent that is overlimit
//! and borrows is, with the first of its pool, in the pool of its own parent. So the first of a
//! class's pool is the first of all leaves that would borrow from that class. Leaves and lenders
//! within their limit are candidates, by level and priority. A choice looks at one candidate of
//! each level; a packet, and a class that goes over its limit or comes back, costs at most as many
//! changes as the tree is high, in logarithmic time each.

use crate::structures::heaps::Heaps;
use crate::structures::rings::PRIORITIES;

/// In no heap.
const NOWHERE: u32 = u32::MAX;

/// The heaps, and in which of them each spot is. A spot is a leaf, or another class or the link in
/// one priority.
#[derive(Clone, Debug)]
pub(super) struct Pools {
    heaps: Heaps,
    homes: Vec<u32>,
    /// Of each priority: the levels with candidates.
    levels: [u64; PRIORITIES],
    leaves: usize,
    /// How many heaps of candidates there are; the pools come after them.
    candidates: usize,
}

/// A node above the leaves, as the pools see it; the link is its own parent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Above {
    pub(super) level: u8,
    pub(super) parent: u32,
}

/// A leaf, as the pools see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Below {
    pub(super) priority: u8,
    pub(super) parent: u32,
}

impl Pools {
    /// For these leaves, and these nodes above them.
    pub(super) fn new(leaves: &[Below], above: &[Above], levels: usize) -> Self {
        let candidates = levels * PRIORITIES;
        let mut sizes = vec![0; candidates + above.len() * PRIORITIES];
        let pool = |parent: u32, priority: usize| {
            candidates + (parent as usize - leaves.len()) * PRIORITIES + priority
        };
        for leaf in leaves {
            let priority = usize::from(leaf.priority);
            sizes[priority] += 1;
            sizes[pool(leaf.parent, priority)] += 1;
        }
        for (number, node) in above.iter().enumerate() {
            for priority in 0..PRIORITIES {
                sizes[usize::from(node.level) * PRIORITIES + priority] += 1;
                if node.parent as usize != leaves.len() + number {
                    sizes[pool(node.parent, priority)] += 1;
                }
            }
        }
        let spots = leaves.len() + above.len() * PRIORITIES;
        Self {
            heaps: Heaps::new(sizes, spots),
            homes: vec![NOWHERE; spots],
            levels: [0; PRIORITIES],
            leaves: leaves.len(),
            candidates,
        }
    }

    /// The spot of a node in a priority.
    #[inline]
    pub(super) fn spot(&self, node: usize, priority: usize) -> u32 {
        match node.checked_sub(self.leaves) {
            None => node as u32,
            Some(above) => (self.leaves + above * PRIORITIES + priority) as u32,
        }
    }

    /// The node of a spot.
    #[inline]
    pub(super) fn node(&self, spot: u32) -> usize {
        match (spot as usize).checked_sub(self.leaves) {
            None => spot as usize,
            Some(above) => self.leaves + above / PRIORITIES,
        }
    }

    #[inline]
    fn pool(&self, node: usize, priority: usize) -> usize {
        self.candidates + (node - self.leaves) * PRIORITIES + priority
    }

    /// The node whose pool this heap is; none for one of candidates.
    #[inline]
    fn owner(&self, heap: usize) -> Option<usize> {
        let pool = heap.checked_sub(self.candidates)?;
        Some(self.leaves + pool / PRIORITIES)
    }

    /// The key of the first of a node's pool.
    #[inline]
    pub(super) fn first(&self, node: usize, priority: usize) -> Option<u128> {
        Some(self.heaps.first(self.pool(node, priority))?.0)
    }

    /// Makes a spot a candidate.
    pub(super) fn nominate(&mut self, spot: u32, level: u8, priority: usize, key: u128) {
        let heap = usize::from(level) * PRIORITIES + priority;
        self.homes[spot as usize] = heap as u32;
        self.heaps.set(heap, spot, key);
        self.levels[priority] |= 1 << level;
    }

    /// Puts a spot into the pool of a node.
    pub(super) fn pool_in(&mut self, spot: u32, node: usize, priority: usize, key: u128) {
        let heap = self.pool(node, priority);
        self.homes[spot as usize] = heap as u32;
        self.heaps.set(heap, spot, key);
    }

    /// Takes a spot out of where it is; in whose pool it was.
    pub(super) fn withdraw(&mut self, spot: u32) -> Option<usize> {
        let heap = std::mem::replace(&mut self.homes[spot as usize], NOWHERE);
        if heap == NOWHERE {
            return None;
        }
        let heap = heap as usize;
        self.heaps.remove(heap, spot);
        let owner = self.owner(heap);
        if owner.is_none() && self.heaps.first(heap).is_none() {
            self.levels[heap % PRIORITIES] &= !(1 << (heap / PRIORITIES));
        }
        owner
    }

    /// Changes the key of a spot where it is; in whose pool it is.
    pub(super) fn rekey(&mut self, spot: u32, key: u128) -> Option<usize> {
        let heap = self.homes[spot as usize];
        if heap == NOWHERE {
            return None;
        }
        self.heaps.set(heap as usize, spot, key);
        self.owner(heap as usize)
    }

    /// Whether there is a candidate.
    pub(super) fn any(&self) -> bool {
        self.levels.iter().any(|&levels| levels != 0)
    }

    /// The first of the candidates of a priority, up to a level.
    #[inline]
    pub(super) fn best_of(&self, priority: usize, level: u8) -> Option<u32> {
        let mut levels = self.levels[priority] & u64::MAX >> (63 - u32::from(level).min(63));
        let mut best: Option<(u128, u32)> = None;
        while levels != 0 {
            let level = levels.trailing_zeros() as usize;
            levels &= levels - 1;
            let first = self.heaps.first(level * PRIORITIES + priority);
            best = match (best, first) {
                (Some(best), Some(first)) => Some(best.min(first)),
                (best, first) => best.or(first),
            };
        }
        Some(best?.1)
    }

    /// The leaf that a candidate stands for.
    #[inline]
    pub(super) fn leaf(&self, mut spot: u32, priority: usize) -> usize {
        while spot as usize >= self.leaves {
            let pool = self.pool(self.node(spot), priority);
            match self.heaps.first(pool) {
                Some((_, next)) => spot = next,
                None => unreachable!("a lender without a borrower is no candidate"),
            }
        }
        spot as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three leaves below two classes; the second of these is below the first, which is below the
    /// link: nodes 3, 4 and 5, in levels 2, 1 and 3.
    fn pools() -> Pools {
        let below = [(1, 4), (1, 4), (6, 3)].map(|(priority, parent)| Below { priority, parent });
        let above = [(2, 5), (1, 3), (3, 5)].map(|(level, parent)| Above { level, parent });
        Pools::new(&below, &above, 4)
    }

    #[test]
    fn a_leaf_has_one_spot_and_another_node_one_for_each_priority() {
        let pools = pools();
        let spots: Vec<u32> = (0..3).map(|leaf| pools.spot(leaf, 5)).collect();
        assert_eq!(spots, [0, 1, 2]);
        let mut next = 3;
        for node in 3..6 {
            for priority in 0..PRIORITIES {
                assert_eq!(pools.spot(node, priority), next);
                assert_eq!(pools.node(next), node);
                next += 1;
            }
        }
        assert_eq!([0, 1, 2].map(|leaf| pools.node(leaf)), [0, 1, 2]);
        assert_eq!(pools.homes.len(), next as usize);
    }

    #[test]
    fn the_best_candidate_is_the_one_with_the_least_key_up_to_a_level() {
        let mut pools = pools();
        assert!(!pools.any() && pools.best_of(1, 63).is_none());
        let lender = pools.spot(4, 1);
        let link = pools.spot(5, 1);
        pools.nominate(0, 0, 1, 30);
        pools.nominate(1, 0, 1, 40);
        pools.nominate(lender, 1, 1, 20);
        pools.nominate(link, 3, 1, 10);
        let best = |pools: &Pools| [0, 1, 2, 3, 63].map(|level| pools.best_of(1, level));
        let [one, other] = [Some(lender), Some(link)];
        assert_eq!(best(&pools), [Some(0), one, one, other, other]);
        assert!((0..PRIORITIES).all(|priority| priority == 1 || pools.best_of(priority, 63).is_none()));
        assert_eq!(pools.rekey(lender, 50), None);
        assert_eq!(best(&pools)[..3], [Some(0); 3]);
        // Candidates are in nobody's pool.
        assert_eq!(pools.withdraw(0), None);
        assert_eq!(best(&pools)[..3], [Some(1); 3]);
        assert_eq!(pools.withdraw(1), None);
        assert_eq!(best(&pools), [None, one, one, other, other]);
        assert_eq!(pools.withdraw(link), None);
        assert_eq!(best(&pools), [None, one, one, one, one]);
        assert!(pools.any());
        assert_eq!(pools.withdraw(lender), None);
        assert!(!pools.any());
    }

    #[test]
    fn of_equal_keys_the_smaller_spot_is_the_best() {
        let mut pools = pools();
        let lender = pools.spot(4, 1);
        pools.nominate(lender, 1, 1, 7);
        pools.nominate(1, 0, 1, 7);
        assert_eq!(pools.best_of(1, 3), Some(1));
    }

    #[test]
    fn a_lender_stands_for_the_first_leaf_of_its_pool_and_of_those_below() {
        let mut pools = pools();
        for priority in [1, 0] {
            let [inner, outer] = [4, 3].map(|node| pools.spot(node, priority));
            assert_eq!(pools.first(4, priority), None);
            pools.pool_in(0, 4, priority, 9);
            pools.pool_in(1, 4, priority, 8);
            pools.pool_in(inner, 3, priority, 8);
            assert_eq!(pools.first(4, priority), Some(8));
            assert_eq!(pools.first(3, priority), Some(8));
            assert_eq!(pools.first(3, 6), None);
            // Those that wait are no candidates.
            assert!(!pools.any());
            pools.nominate(outer, 2, priority, 8);
            assert_eq!(pools.leaf(outer, priority), 1);
            assert_eq!(pools.leaf(inner, priority), 1);
            assert_eq!(pools.leaf(0, priority), 0);
            assert_eq!(pools.rekey(1, 10), Some(4));
            assert_eq!(
                (pools.first(4, priority), pools.leaf(outer, priority)),
                (Some(9), 0)
            );
            assert_eq!(pools.withdraw(0), Some(4));
            assert_eq!(pools.leaf(outer, priority), 1);
            assert_eq!(pools.withdraw(1), Some(4));
            assert_eq!(pools.first(4, priority), None);
            assert_eq!(pools.withdraw(inner), Some(3));
            assert_eq!(pools.best_of(priority, 2), Some(outer));
            assert_eq!(pools.withdraw(outer), None);
        }
    }

    #[test]
    fn a_spot_that_is_nowhere_is_neither_taken_out_nor_given_another_key() {
        let mut pools = pools();
        assert_eq!((pools.withdraw(2), pools.rekey(2, 5)), (None, None));
        pools.pool_in(2, 3, 6, 4);
        assert_eq!(pools.withdraw(2), Some(3));
        assert_eq!((pools.withdraw(2), pools.rekey(2, 5)), (None, None));
        assert_eq!(pools.first(3, 6), None);
    }

    #[test]
    fn there_is_room_for_all_in_each_place_where_they_may_be() {
        const MANY: u32 = 40;
        let link = 2 * MANY;
        let below: Vec<Below> = (0..MANY)
            .map(|_| Below {
                priority: 3,
                parent: MANY,
            })
            .collect();
        let mut above: Vec<Above> = (0..MANY)
            .map(|_| Above {
                level: 1,
                parent: link,
            })
            .collect();
        above.push(Above {
            level: 2,
            parent: link,
        });
        let mut pools = Pools::new(&below, &above, 3);
        for leaf in 0..MANY {
            pools.nominate(leaf, 0, 3, u128::from(100 - leaf));
            assert_eq!(pools.best_of(3, 0), Some(leaf));
        }
        for leaf in 0..MANY {
            let _ = pools.withdraw(leaf);
            pools.pool_in(leaf, MANY as usize, 3, u128::from(100 - leaf));
            assert_eq!(pools.first(MANY as usize, 3), Some(u128::from(100 - leaf)));
        }
        for priority in 0..PRIORITIES {
            for node in MANY..link {
                let spot = pools.spot(node as usize, priority);
                pools.nominate(spot, 1, priority, u128::from(100 - node));
                assert_eq!(pools.best_of(priority, 1), Some(spot));
            }
            for node in MANY..link {
                let spot = pools.spot(node as usize, priority);
                let _ = pools.withdraw(spot);
                pools.pool_in(spot, link as usize, priority, u128::from(100 - node));
            }
            assert_eq!(pools.first(link as usize, priority), Some(21));
            let spot = pools.spot(link as usize, priority);
            pools.nominate(spot, 2, priority, 21);
            assert_eq!(pools.best_of(priority, 2), Some(spot));
        }
    }
}
