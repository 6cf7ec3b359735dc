//! Who is next under the older modes, top-level and ancestors-only.

use super::state::{BORROW, Cbq, Choice, OVER};

/// Whether a leaf may send.
#[derive(Clone, Copy, Debug)]
pub(super) enum Permit {
    /// Paid for by this node: itself, or an ancestor.
    From(usize),
    /// Not while the cutoff is so low.
    Above,
    /// Not before a node has credit.
    No,
}

impl Cbq {
    /// The first leaf in the order of priorities that may send; suspends those that may not.
    pub(super) fn choose_by_priority(&mut self, clock: u64, now: u64) -> Option<Choice> {
        if !self.rules.top_level {
            self.cutoff = self.below_link();
        }
        loop {
            self.reveal(clock);
            let choice = self.choose_below_cutoff(clock, now);
            if choice.is_some() {
                return choice;
            }
            if self.rows.is_empty() {
                self.cutoff = self.below_link();
                return None;
            }
            self.cutoff += 1;
        }
    }

    /// The same with this cutoff.
    fn choose_below_cutoff(&mut self, clock: u64, now: u64) -> Option<Choice> {
        for priority in (0..=self.highest_priority()?).rev() {
            let mut tried = 0;
            while let Some(lane) = self.sets.first_lane(priority, tried) {
                tried |= 1 << lane;
                let choice = self.choose_in_lane((priority, lane), clock, now);
                if choice.is_some() {
                    return choice;
                }
            }
        }
        None
    }

    /// The same among the leaves of one priority in one lane. Whoever waits for credit and finds no
    /// lender is passed over without a look.
    fn choose_in_lane(&mut self, (priority, lane): (usize, u32), clock: u64, now: u64) -> Option<Choice> {
        while let Some(at) = self.first_in_lane(priority, lane) {
            let (leaf, next) = (at as usize, self.places[at as usize].row.next);
            match self.lender(leaf, clock) {
                Permit::No => self.suspend(leaf, now),
                Permit::Above => self.watch(leaf),
                Permit::From(lender) if self.has_turn(leaf) => {
                    self.sets.set_head(priority, lane, at);
                    return Some(Choice {
                        leaf,
                        lender,
                        priority,
                    });
                }
                Permit::From(_) => self.sets.set_head(priority, lane, next),
            }
        }
        None
    }

    /// Whether a leaf's turn has bytes left; adds a turn if not.
    pub(super) fn has_turn(&mut self, leaf: usize) -> bool {
        let place = &mut self.places[leaf];
        if !self.rules.weighted || place.row.next == leaf as u32 || place.own.left > 0 {
            return true;
        }
        place.own.grow(self.unit);
        place.own.left > 0
    }

    /// Which node would pay for a leaf's next packet.
    pub(super) fn lender(&mut self, leaf: usize, clock: u64) -> Permit {
        self.accrue(leaf, clock);
        let state = &self.nodes[leaf];
        if state.flags & OVER != 0 && state.credit.is_enough() && state.credit.rate > 0 {
            self.mark(leaf, OVER, false);
        }
        if self.nodes[leaf].flags & OVER == 0 {
            return Permit::From(leaf);
        }
        match self.nodes[leaf].flags & BORROW {
            0 => Permit::No,
            _ => self.lender_at(self.nodes[leaf].parent as usize, clock),
        }
    }

    /// Which node, this one or one above it, would pay for a packet of a leaf below it.
    pub(super) fn lender_at(&mut self, mut node: usize, clock: u64) -> Permit {
        loop {
            if self.nodes[node].level > self.cutoff {
                return Permit::Above;
            }
            if node == self.link() {
                return Permit::From(node);
            }
            self.accrue(node, clock);
            if self.nodes[node].credit.left > 0 {
                return Permit::From(node);
            }
            if self.nodes[node].flags & BORROW == 0 {
                return Permit::No;
            }
            node = self.nodes[node].parent as usize;
        }
    }

    /// Whether the cutoff lets the link lend what it would lose.
    #[inline]
    pub(super) fn link_lends(&self) -> bool {
        self.cutoff >= self.nodes[self.link()].level
    }

    /// Takes a regulated leaf out of its row until it, or a node that lends to it, has credit
    /// again.
    pub(super) fn suspend(&mut self, leaf: usize, now: u64) {
        self.unlist_all(leaf);
        self.tallies[leaf].delays += 1;
        let (mut node, mut at) = (leaf, u64::MAX);
        loop {
            if self.nodes[node].credit.rate > 0 {
                at = at.min(now.saturating_add(self.nodes[node].credit.time_to_enough()));
            }
            let parent = self.nodes[node].parent as usize;
            if self.nodes[node].flags & BORROW == 0 || parent == self.link() {
                break;
            }
            node = parent;
        }
        self.set_timer(leaf, at, now);
    }

    /// Top-level: after a packet that was paid by `lender`.
    pub(super) fn move_cutoff(&mut self, lender: usize, empty: bool, clock: u64) {
        let level = self.nodes[lender].level;
        if self.cutoff < level {
            return;
        }
        // The link, while it is busy, is at its limit.
        let over = lender == self.link() || self.nodes[lender].credit.left <= 0;
        if !empty && !over {
            self.cutoff = level;
            return;
        }
        debug_assert_eq!(
            self.unsatisfied,
            self.nodes[..self.leaves()]
                .iter()
                .filter(|leaf| leaf.is_unsatisfied())
                .count()
        );
        self.cutoff = match self.unsatisfied {
            0 => self.lowest_unsatisfied(clock),
            _ => 0,
        };
    }

    /// The lowest level of a class above the leaves that is within its limit and has a backlog
    /// below it, which waits for credit.
    pub(super) fn lowest_unsatisfied(&mut self, clock: u64) -> u8 {
        let mut lowest = self.below_link();
        for parent in self.leaves()..self.link() {
            if self.is_waited_for(parent)
                && let Some(lender) = self.lender_from(parent, lowest, clock)
            {
                lowest = self.nodes[lender].level;
            }
        }
        lowest
    }

    /// This node or the first above it that has credit, below a level.
    pub(super) fn lender_from(&mut self, mut node: usize, below: u8, clock: u64) -> Option<usize> {
        while node != self.link() && self.nodes[node].level < below {
            self.accrue(node, clock);
            if self.nodes[node].credit.left > 0 {
                return Some(node);
            }
            node = self.nodes[node].parent as usize;
        }
        None
    }

    /// Top-level: a packet has arrived at this leaf.
    pub(super) fn lower_cutoff(&mut self, leaf: usize, clock: u64) {
        let mut node = leaf;
        while self.nodes[node].level < self.cutoff {
            self.accrue(node, clock);
            let within = if node == leaf {
                self.nodes[node].flags & OVER == 0
            } else {
                self.nodes[node].credit.left > 0
            };
            if within {
                self.cutoff = self.nodes[node].level;
                return;
            }
            if self.nodes[node].flags & BORROW == 0 {
                return;
            }
            node = self.nodes[node].parent as usize;
        }
    }
}
