//! The older modes: which leaves a turn passes over.

use super::state::{Cbq, Membership};
use crate::structures::shortcuts::Shortcuts;
use crate::structures::timer_wheel::TimerWheel;
use crate::units::Instant;

/// Finds the leaf after another in its lane.
pub(super) fn after(places: &[Membership]) -> impl Fn(u32) -> u32 {
    |at| places[at as usize].row.next
}

/// A lender is asked for so many leaves that wait for credit; if there are more, one is near.
pub(super) const FEW: u32 = 64;

impl Cbq {
    /// The lane of a leaf among those of all sets.
    #[inline]
    pub(super) fn lane_of(&self, leaf: usize) -> usize {
        let priority = usize::from(self.nodes[leaf].priority);
        self.sets.lane(priority, self.places[leaf].own.weight.lane)
    }

    /// None for the leaves that are listed, if any.
    pub(super) fn lay_shortcuts(&mut self) {
        let leaves = if self.rules.formal { 0 } else { self.leaves() };
        self.shortcuts = Shortcuts::new(leaves, self.sets.lanes());
        self.waiting = Shortcuts::new(leaves, self.nodes.len());
        self.regains = TimerWheel::new(leaves);
    }

    /// New ones for the leaves that are listed, in lanes that are new too.
    pub(super) fn renew_shortcuts(&mut self) {
        self.lay_shortcuts();
        if self.rules.formal {
            return;
        }
        let members = self.sets.members(&mut self.places, |_, place| place.row.next);
        // The older modes have leaves in sets only.
        for (set, leaf) in members {
            let leaf = leaf as usize;
            let head = self.sets.head(set, self.places[leaf].own.weight.lane);
            if head as usize == leaf {
                self.shortcuts.spread(head, after(&self.places));
            }
            self.watch(leaf);
        }
    }

    /// A leaf has joined its lane.
    #[inline(never)]
    pub(super) fn joined_lane(&mut self, leaf: usize) {
        let place = &self.places[leaf];
        let (lane, last) = (place.own.weight.lane, place.row.previous);
        let head = self.sets.head(usize::from(self.nodes[leaf].priority), lane);
        self.shortcuts.join(leaf as u32, head, last, after(&self.places));
        self.watch(leaf);
    }

    /// Sees or overlooks a listed leaf, as its credit is; one that is overlooked has a timer for
    /// when it has enough.
    #[inline(never)]
    pub(super) fn watch(&mut self, leaf: usize) {
        let (lane, node) = (self.lane_of(leaf), &self.nodes[leaf]);
        let parent = node.parent as usize;
        if !node.is_passed_over() {
            self.waiting.overlook(parent, leaf as u32);
            return self.shortcuts.see(lane, leaf as u32);
        }
        if node.credit.rate > 0 {
            let enough = node.credit.updated.saturating_add(node.credit.time_to_enough());
            let at = Instant::from_nanos(enough.saturating_add(self.clock.behind()));
            self.regains.set(leaf as u32, at);
        }
        self.waiting.see(parent, leaf as u32);
        self.shortcuts.overlook(lane, leaf as u32);
    }

    /// A leaf leaves its lane.
    #[inline(never)]
    pub(super) fn leaves_lane(&mut self, leaf: usize) {
        self.shortcuts.overlook(self.lane_of(leaf), leaf as u32);
        self.waiting
            .overlook(self.nodes[leaf].parent as usize, leaf as u32);
        self.regains.cancel(leaf as u32);
    }

    /// Sees those as well that find a lender below the cutoff, until [`Cbq::conceal`]. `false` if a
    /// walk is better: when there are many, or when it would find leaves that have to be suspended.
    pub(super) fn reveal(&mut self, clock: u64) -> bool {
        let link = self.link();
        if self.cutoff == 0 || !self.rules.lend_all || self.nodes[link].level <= self.cutoff {
            return self.cutoff == 0;
        }
        for parent in self.leaves()..link {
            let waiting = self.waiting.count(parent);
            if waiting == 0 || self.lender_from(parent, self.cutoff + 1, clock).is_none() {
                continue;
            }
            if waiting > FEW {
                return false;
            }
            let first = self.revealed.len();
            self.revealed.extend(self.waiting.seen(parent));
            for at in first..self.revealed.len() {
                let leaf = self.revealed[at];
                self.shortcuts.see(self.lane_of(leaf as usize), leaf);
            }
        }
        true
    }

    pub(super) fn conceal(&mut self) {
        while let Some(leaf) = self.revealed.pop() {
            if self.waiting.sees(leaf) {
                self.shortcuts.overlook(self.lane_of(leaf as usize), leaf);
            }
        }
    }
}
