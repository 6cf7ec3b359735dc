//! Which node is in which row: nodes that may send or lend, and borrowers with their lenders.

use super::settings::Excess;
use super::state::{BORROW, Cbq, LISTED, Membership, OVER, RETURNS};
use crate::structures::rings::{self, NONE};

impl Cbq {
    /// The priority in which a leaf borrows.
    pub(super) fn lent_priority(&self, leaf: usize) -> usize {
        match self.plan.settings.excess {
            Excess::Share => 0,
            Excess::Priority => usize::from(self.nodes[leaf].priority),
        }
    }

    #[inline]
    pub(super) fn list(&mut self, node: usize, priority: usize, place: u32, since: u64) {
        if self.rows.is_empty() {
            self.clock.set_ready(since);
        }
        let level = usize::from(self.nodes[node].level);
        let head = if level == 0 {
            let _ = self
                .sets
                .insert(&mut self.places, Membership::own, priority, place);
            if !self.rules.formal {
                self.joined_lane(place as usize);
            }
            place
        } else {
            let head = self.rows.head(level, priority);
            rings::insert(&mut self.places, |p| &mut p.row, head, place)
        };
        self.rows.set(level, priority, head);
    }

    #[inline]
    pub(super) fn unlist(&mut self, node: usize, priority: usize, place: u32) {
        let level = usize::from(self.nodes[node].level);
        if level == 0 && !self.rules.formal {
            self.leaves_lane(node);
        }
        let head = self.rows.head(level, priority);
        let head = if level > 0 {
            rings::remove(&mut self.places, |p| &mut p.row, head, place)
        } else if self
            .sets
            .remove(&mut self.places, Membership::own, priority, place)
        {
            NONE
        } else {
            head
        };
        self.rows.set(level, priority, head);
    }

    /// Puts a node that may send or lend into its row, in all its priorities.
    pub(super) fn list_all(&mut self, node: usize, since: u64) {
        self.mark(node, LISTED, true);
        self.for_rows(node, |cbq, priority, place| {
            cbq.list(node, priority, place, since)
        });
    }

    pub(super) fn unlist_all(&mut self, node: usize) {
        self.mark(node, LISTED, false);
        self.for_rows(node, |cbq, priority, place| cbq.unlist(node, priority, place));
    }

    /// Sets or clears LISTED or OVER, and counts the unsatisfied leaves.
    #[inline]
    pub(super) fn mark(&mut self, node: usize, flag: u8, on: bool) {
        let node = &mut self.nodes[node];
        self.unsatisfied -= usize::from(node.is_unsatisfied());
        node.flags = if on { node.flags | flag } else { node.flags & !flag };
        self.unsatisfied += usize::from(node.is_unsatisfied());
    }

    /// Calls `act` for each priority in which the node belongs into its row.
    #[inline]
    pub(super) fn for_rows(&mut self, node: usize, mut act: impl FnMut(&mut Self, usize, u32)) {
        if node < self.leaves() {
            let priority = usize::from(self.nodes[node].priority);
            return act(self, priority, node as u32);
        }
        let mut demand = self.nodes[node].demand;
        while demand != 0 {
            let priority = demand.trailing_zeros() as usize;
            demand &= demand - 1;
            act(self, priority, self.place_of(node, priority));
        }
    }

    /// A leaf becomes able to send: lists it, and enters it with those that may lend to it.
    /// `since`: from when on.
    pub(super) fn join(&mut self, leaf: usize, clock: u64, now: u64, since: u64) {
        self.accrue(leaf, clock);
        self.nodes[leaf].demand = 1;
        self.admit(leaf, now, since);
        if self.rules.formal && self.nodes[leaf].flags & BORROW != 0 {
            let priority = self.lent_priority(leaf);
            self.want(leaf, priority, clock, now, since);
        }
    }

    /// Lists a node that becomes active, or sets its timer if it is overlimit.
    pub(super) fn admit(&mut self, node: usize, now: u64, since: u64) {
        let this = &mut self.nodes[node];
        let waits = this.flags & RETURNS != 0;
        this.flags &= !RETURNS;
        if this.credit.left > 0 && !waits {
            self.mark(node, OVER, false);
        }
        if self.nodes[node].flags & OVER == 0 || !self.rules.formal {
            self.list_all(node, since);
        } else {
            self.regulate(node, now);
        }
    }

    /// Enters a node into its parent's ring of borrowers, and the parent into its parent's, and so
    /// on.
    pub(super) fn want(&mut self, leaf: usize, priority: usize, clock: u64, now: u64, since: u64) {
        let link = self.link();
        let mut child = leaf;
        loop {
            let parent = self.nodes[child].parent as usize;
            let (owner, place) = (self.place_of(parent, priority), self.place_of(child, priority));
            let set = self.borrowers(owner);
            if !self.sets.insert(&mut self.places, Membership::lent, set, place) {
                return;
            }
            if parent != link {
                self.accrue(parent, clock);
            }
            let first = self.nodes[parent].demand == 0;
            self.nodes[parent].demand |= 1 << priority;
            if first {
                self.admit(parent, now, since);
            } else if self.nodes[parent].flags & LISTED != 0 {
                self.list(parent, priority, owner, since);
            }
            if parent == link || self.nodes[parent].flags & BORROW == 0 {
                return;
            }
            child = parent;
        }
    }

    /// A leaf has no packet to send any more.
    pub(super) fn leave(&mut self, leaf: usize, clock: u64) {
        self.accrue(leaf, clock);
        self.dismiss(leaf);
        self.nodes[leaf].demand = 0;
        if !self.rules.formal || self.nodes[leaf].flags & BORROW == 0 {
            return;
        }
        let priority = self.lent_priority(leaf);
        let link = self.link();
        let mut child = leaf;
        loop {
            let parent = self.nodes[child].parent as usize;
            let (owner, place) = (self.place_of(parent, priority), self.place_of(child, priority));
            let set = self.borrowers(owner);
            if !self.sets.remove(&mut self.places, Membership::lent, set, place) {
                return;
            }
            if parent != link {
                self.accrue(parent, clock);
            }
            if self.nodes[parent].demand == 1 << priority {
                self.dismiss(parent);
            } else if self.nodes[parent].flags & LISTED != 0 {
                self.unlist(parent, priority, owner);
            }
            self.nodes[parent].demand &= !(1 << priority);
            if parent == link || self.nodes[parent].flags & BORROW == 0 {
                return;
            }
            child = parent;
        }
    }

    /// Takes a node out of its row, or cancels its timer.
    pub(super) fn dismiss(&mut self, node: usize) {
        if self.nodes[node].flags & LISTED != 0 {
            self.unlist_all(node);
        } else if node != self.link() {
            self.wheel.cancel(node as u32);
        }
    }
}
