//! The estimator: what a node may still send, who pays, and when a regulated node wakes up.

use super::state::{ASLEEP, BORROW, Cbq, OVER};
use crate::sharing::credit::nanobits;
use crate::sharing::leaves::MANY;
use crate::units::Instant;

impl Cbq {
    /// Accrues a node's credit since its last update.
    #[inline]
    pub(super) fn accrue(&mut self, node: usize, clock: u64) {
        let node = &mut self.nodes[node];
        node.credit
            .accrue(clock, self.rules.ceiling.filter(|_| node.demand != 0));
    }

    /// Sets the timer of a regulated node.
    pub(super) fn regulate(&mut self, node: usize, now: u64) {
        if self.nodes[node].credit.rate > 0 {
            let at = now.saturating_add(self.nodes[node].credit.time_to_enough());
            self.set_timer(node, at, now);
        }
        if self.nodes[node].flags & BORROW == 0 {
            self.nodes[node].recent.times += 1;
        }
    }

    pub(super) fn set_timer(&mut self, node: usize, at: u64, now: u64) {
        let at = match self.rules.tick {
            None => at,
            Some(tick) => at.div_ceil(tick).max(now / tick + 2).saturating_mul(tick),
        };
        self.wheel.set(node as u32, Instant::from_nanos(at));
    }

    /// Charges a node, and in the older modes and for all above the lender, its ancestors.
    pub(super) fn charge(&mut self, payer: usize, bits: i64, clock: u64, now: u64) {
        let link = self.link();
        // A borrower's overdraft would grow without end where it is charged too: the original's
        // minidle.
        let floor = if self.rules.formal {
            i64::MIN
        } else {
            -nanobits(self.unit)
        };
        let mut node = payer;
        while node != link {
            self.accrue(node, clock);
            let state = &mut self.nodes[node];
            state.credit.left = state.credit.left.saturating_sub(bits).max(floor);
            if state.credit.left <= 0 && state.flags & OVER == 0 {
                self.mark(node, OVER, true);
                self.nodes[node].recent.over += 1;
                if self.rules.formal {
                    if self.nodes[node].demand != 0 {
                        self.unlist_all(node);
                        self.regulate(node, now);
                    }
                } else if !self.rules.formal && self.nodes[node].is_listed_leaf() {
                    self.watch(node);
                }
            }
            node = self.nodes[node].parent as usize;
        }
    }

    /// Wakes up every node whose timer is due. `since`: when the first of them could have been
    /// woken.
    pub(super) fn wake(&mut self, clock: u64, now: u64, since: u64) {
        while let Some(node) = self.wheel.expire(Instant::from_nanos(now)) {
            let node = node as usize;
            if self.leaves() >= MANY && node < self.leaves() {
                self.prefetch(node).done();
            }
            if self.nodes[node].flags & ASLEEP != 0 {
                self.nodes[node].flags &= !ASLEEP;
                self.join(node, clock, now, since);
                continue;
            }
            self.accrue(node, clock);
            if self.nodes[node].credit.is_enough() {
                self.mark(node, OVER, false);
            } else if self.rules.formal {
                // The clock of the credits has stood still meanwhile.
                let at = now.saturating_add(self.nodes[node].credit.time_to_enough());
                self.set_timer(node, at, now);
                continue;
            }
            self.list_all(node, since);
        }
        while !self.rules.formal
            && let Some(leaf) = self.regains.expire(Instant::from_nanos(now))
        {
            self.accrue(leaf as usize, clock);
            self.watch(leaf as usize);
        }
    }
}
