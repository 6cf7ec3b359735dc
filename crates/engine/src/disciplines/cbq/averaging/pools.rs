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
