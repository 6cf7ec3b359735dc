//! The rules: who joins and leaves, who is charged, who is refused, and where the cutoff is.

use super::{ASLEEP, Averaging, BORROW, Chosen, FRESH, OVER, REFUSED};
use crate::structures::rings::{self, NONE, PRIORITIES};
use crate::units::Instant;

/// A choice visits at most so many leaves of each priority, from the one whose turn it is. Beyond
/// them the least start tag decides.
const FEW: u32 = 8;

#[cfg(test)]
mod tests;

// Who waits where.
impl Averaging {
    /// A leaf has a packet to send.
    pub(super) fn join(&mut self, leaf: usize, clock: u64, now: u64) {
        let priority = usize::from(self.members[leaf].priority);
        self.members[leaf].demand = 1;
        // Turns that passed while it had nothing to send have used up what was left.
        self.leaves[leaf].left = 0;
        self.join_turns(leaf, priority);
        let leaves = &mut self.leaves;
        if self.members[leaf].flags & BORROW != 0 {
            let head = &mut self.borrowers[priority];
            *head = rings::insert(leaves, |one| &mut one.borrower, *head, leaf as u32);
        }
        self.settle(leaf, clock, now);
        self.offer(leaf, priority, clock, now);
        self.refresh(leaf);
    }

    /// Takes its place among the turns, by number if that is near. If the one before it was the
    /// last to send, its turn is now.
    fn join_turns(&mut self, leaf: usize, priority: usize) {
        let (head, leaf) = (self.turns[priority], leaf as u32);
        let (mut next, mut near) = (head, head != NONE);
        for _ in 0..FEW {
            if head == NONE {
                break;
            }
            let previous = self.leaves[next as usize].turn.previous;
            near = match previous < next {
                true => previous < leaf && leaf < next,
                false => previous < leaf || leaf < next,
            };
            if near {
                break;
            }
            next = self.leaves[next as usize].turn.next;
        }
        let next = if near { next } else { head };
        let previous = match next {
            NONE => NONE,
            next => self.leaves[next as usize].turn.previous,
        };
        let first = rings::insert(&mut self.leaves, |one| &mut one.turn, next, leaf);
        self.turns[priority] = match head {
            NONE => first,
            head if next == head && previous == self.last[priority] => {
                let goes_on = previous == head && self.leaves[head as usize].left > 0;
                if goes_on { head } else { leaf }
            }
            head => head,
        };
    }

    /// A leaf has no packet to send any more.
    pub(super) fn leave(&mut self, leaf: usize) {
        let priority = usize::from(self.members[leaf].priority);
        self.members[leaf].demand = 0;
        let leaves = &mut self.leaves;
        let head = &mut self.turns[priority];
        *head = rings::remove(leaves, |one| &mut one.turn, *head, leaf as u32);
        if self.members[leaf].flags & BORROW != 0 {
            let head = &mut self.borrowers[priority];
            *head = rings::remove(leaves, |one| &mut one.borrower, *head, leaf as u32);
        }
        self.wheel.cancel(leaf as u32);
        self.withdraw(leaf, priority);
        self.refresh(leaf);
    }

    /// Whether a node that somebody waits at is overlimit; if so, with a timer.
    fn settle(&mut self, node: usize, clock: u64, now: u64) {
        if self.members[node].average.is_over(clock) {
            self.members[node].flags |= OVER;
            self.set_timer(node, now);
        } else {
            self.members[node].flags &= !(OVER | REFUSED);
        }
    }

    /// A node is a candidate in this priority if it is within its limit; otherwise, if it borrows,
    /// it is in its parent's pool.
    fn offer(&mut self, node: usize, priority: usize, clock: u64, now: u64) {
        let spot = self.pools.spot(node, priority);
        let key = match node < self.leaves.len() {
            true => Some(self.leaves[node].tag),
            false => self.pools.first(node, priority),
        };
        let (Some(key), member) = (key, &self.members[node]) else {
            return;
        };
        if member.flags & OVER == 0 {
            return self.pools.nominate(spot, member.level, priority, key);
        }
        let parent = member.parent as usize;
        if member.flags & BORROW != 0 {
            self.pools.pool_in(spot, parent, priority, key);
            self.pool_gained(parent, priority, clock, now);
        }
    }

    /// The pool of a node has another first, or its first one.
    fn pool_gained(&mut self, mut node: usize, priority: usize, clock: u64, now: u64) {
        while let Some(key) = self.pools.first(node, priority) {
            let demand = self.members[node].demand;
            if demand & 1 << priority == 0 {
                self.members[node].demand |= 1 << priority;
                if demand == 0 {
                    self.settle(node, clock, now);
                }
                return self.offer(node, priority, clock, now);
            }
            match self.pools.rekey(self.pools.spot(node, priority), key) {
                Some(parent) => node = parent,
                None => return,
            }
        }
    }

    /// Takes a node out of where it waits.
    fn withdraw(&mut self, node: usize, priority: usize) {
        let mut left = self.pools.withdraw(self.pools.spot(node, priority));
        while let Some(node) = left {
            let spot = self.pools.spot(node, priority);
            left = match self.pools.first(node, priority) {
                Some(key) => self.pools.rekey(spot, key),
                None => {
                    self.members[node].demand &= !(1 << priority);
                    if self.members[node].demand == 0 {
                        self.wheel.cancel(node as u32);
                    }
                    self.pools.withdraw(spot)
                }
            };
        }
    }

    /// A node goes over its limit, or comes back.
    pub(super) fn turn_over(&mut self, node: usize, over: bool, clock: u64, now: u64) {
        let leaf = node < self.leaves.len();
        let priorities = match leaf {
            true => 1 << self.members[node].priority,
            false => self.members[node].demand,
        };
        let each = move || (0..PRIORITIES).filter(move |priority| priorities & 1 << priority != 0);
        // What waits in its pools waits on.
        each().for_each(|priority| self.withdraw(node, priority));
        let flags = &mut self.members[node].flags;
        *flags = if over {
            *flags | OVER
        } else {
            *flags & !(OVER | REFUSED)
        };
        each().for_each(|priority| self.offer(node, priority, clock, now));
        if leaf {
            self.refresh(node);
        }
    }

    /// Keeps the ring of leaves that are overlimit and were not refused.
    fn refresh(&mut self, leaf: usize) {
        let member = &mut self.members[leaf];
        let fresh = member.demand != 0 && member.flags & (OVER | REFUSED) == OVER;
        if fresh == (member.flags & FRESH != 0) {
            return;
        }
        member.flags ^= FRESH;
        let head = &mut self.fresh[usize::from(member.priority)];
        *head = match fresh {
            true => rings::insert(&mut self.leaves, |one| &mut one.fresh, *head, leaf as u32),
            false => rings::remove(&mut self.leaves, |one| &mut one.fresh, *head, leaf as u32),
        };
    }

    fn set_timer(&mut self, node: usize, now: u64) {
        let until = self.members[node].average.until();
        if until == u64::MAX {
            return self.wheel.cancel(node as u32);
        }
        let at = until.saturating_add(self.clock.behind());
        let at = match self.customs.tick {
            None => at,
            Some(tick) => at.div_ceil(tick).max(now / tick + 2).saturating_mul(tick),
        };
        self.wheel.set(node as u32, Instant::from_nanos(at));
    }

    /// Wakes up every node whose timer is due. `since`: when the first of them could have been
    /// woken.
    pub(super) fn wake(&mut self, clock: u64, now: u64, since: u64) {
        while let Some(node) = self.wheel.expire(Instant::from_nanos(now)) {
            let node = node as usize;
            let could = self.may_send();
            if self.members[node].flags & ASLEEP != 0 {
                self.members[node].flags &= !ASLEEP;
                self.join(node, clock, now);
            } else if self.members[node].average.is_over(clock) {
                // It has sent since, or the clock of the credits has stood still.
                self.set_timer(node, now);
            } else {
                self.turn_over(node, false, clock, now);
            }
            if !could && self.may_send() {
                self.clock.set_ready(since);
            }
        }
    }
}

// Who is next.
impl Averaging {
    /// The next leaf. Whoever is passed over is refused, and loses what is left of its turn.
    pub(super) fn choose(&mut self, now: u64) -> Option<Chosen> {
        let top = self.members[self.members.len() - 1].level;
        let cutoff = if self.customs.top_level { self.cutoff } else { top };
        if let Some(chosen) = self.choose_up_to(cutoff, now) {
            return Some(chosen);
        }
        if !self.customs.efficient {
            return (cutoff + 1..=top).find_map(|level| self.choose_up_to(level, now));
        }
        let priority = (0..PRIORITIES)
            .rev()
            .find(|&priority| self.borrowers[priority] != NONE)?;
        Some(Chosen {
            leaf: self.first_borrower(priority),
            lender: None,
            priority,
        })
    }

    /// The next of those that borrow, in the order of turns.
    fn first_borrower(&self, priority: usize) -> usize {
        let mut at = self.turns[priority];
        for _ in 0..FEW {
            if self.members[at as usize].flags & BORROW != 0 {
                return at as usize;
            }
            at = self.leaves[at as usize].turn.next;
        }
        self.borrowers[priority] as usize
    }

    fn choose_up_to(&mut self, level: u8, now: u64) -> Option<Chosen> {
        for priority in (0..PRIORITIES).rev() {
            if self.turns[priority] == NONE {
                continue;
            }
            let chosen = self.choose_by_turns(priority, level, now);
            if chosen.is_some() {
                return chosen;
            }
            if let Some(spot) = self.pools.best_of(priority, level) {
                return Some(Chosen {
                    leaf: self.pools.leaf(spot, priority),
                    lender: Some(self.pools.node(spot)),
                    priority,
                });
            }
        }
        None
    }

    /// The first from the one whose turn it is that may send and has bytes left; without such a
    /// one, the first that may send.
    fn choose_by_turns(&mut self, priority: usize, level: u8, now: u64) -> Option<Chosen> {
        let head = self.turns[priority];
        for with_bytes in [true, false] {
            let (mut at, mut short) = (head, false);
            for _ in 0..FEW {
                let leaf = at as usize;
                if with_bytes {
                    self.leaves[leaf].left = self.leaves[leaf].of_turn();
                }
                let lender = self.permitted(leaf, level);
                if lender.is_some() && (!self.customs.weighted || !with_bytes || self.leaves[leaf].left > 0) {
                    return Some(Chosen {
                        leaf,
                        lender,
                        priority,
                    });
                }
                short |= lender.is_some();
                if lender.is_none() {
                    self.refuse_one(leaf, now);
                }
                self.leaves[leaf].left = 0;
                at = self.leaves[leaf].turn.next;
                if at == head {
                    break;
                }
            }
            if !short {
                return None;
            }
        }
        None
    }

    /// Who pays for a packet of this leaf, if anybody up to this level does.
    fn permitted(&self, leaf: usize, level: u8) -> Option<usize> {
        if self.members[leaf].flags & OVER == 0 {
            return Some(leaf);
        }
        self.lender_of(leaf)
            .filter(|&node| self.members[node].level <= level)
    }

    /// A leaf has sent a packet, of these bytes of its turn or for nothing: it goes on while it has
    /// bytes left, or the next of the ring has its turn.
    pub(super) fn move_turn(&mut self, leaf: usize, priority: usize, len: Option<u64>) {
        self.last[priority] = leaf as u32;
        let own = &mut self.leaves[leaf];
        if let Some(len) = len
            && own.left > 0
        {
            own.left = own.left.saturating_sub_unsigned(len);
        }
        let goes_on = len.is_some() && own.left > 0;
        self.turns[priority] = if goes_on { leaf as u32 } else { own.turn.next };
    }

    /// A leaf has sent a packet: its next one starts when this one ends.
    pub(super) fn take_turn(&mut self, leaf: usize, priority: usize, len: u64) {
        let own = &mut self.leaves[leaf];
        let start = own.tag.max(self.tags[priority]);
        let bytes = if self.customs.weighted {
            len.min(1 << 20)
        } else {
            1
        };
        own.tag = start + u128::from(own.share.pace * bytes);
        self.tags[priority] = start;
        let key = own.tag;
        let mut changed = self.pools.rekey(leaf as u32, key);
        while let Some(node) = changed {
            let first = self.pools.first(node, priority);
            changed = first.and_then(|key| self.pools.rekey(self.pools.spot(node, priority), key));
        }
    }

    /// Nobody may send: all that were not refused yet are. Whether there were any.
    pub(super) fn refuse_all(&mut self, now: u64) -> bool {
        let mut any = false;
        for priority in 0..PRIORITIES {
            while self.fresh[priority] != NONE {
                any |= self.refuse_one(self.fresh[priority] as usize, now);
            }
        }
        any
    }

    /// A leaf that is overlimit is refused, if it was not yet.
    fn refuse_one(&mut self, leaf: usize, now: u64) -> bool {
        let fresh = self.members[leaf].flags & FRESH != 0;
        if fresh {
            self.members[leaf].flags |= REFUSED;
            self.members[leaf].average.refuse();
            self.tallies[leaf].delays += 1;
            self.set_timer(leaf, now);
            self.refresh(leaf);
        }
        fresh
    }

    /// The first node above this leaf that lends to it, however high. Whoever has somebody waiting
    /// knows whether it is overlimit.
    fn lender_of(&self, leaf: usize) -> Option<usize> {
        let link = self.members.len() - 1;
        let mut node = leaf;
        while node != link && self.members[node].flags & BORROW != 0 {
            node = self.members[node].parent as usize;
            if self.members[node].flags & OVER == 0 {
                return Some(node);
            }
        }
        None
    }
}

// Estimator and cutoff.
impl Averaging {
    /// Changes the averages of a leaf and of all above it by a packet.
    pub(super) fn charge(&mut self, leaf: usize, work: u64, clock: u64, now: u64) {
        let link = self.members.len() - 1;
        let on_wire = work / self.plan.link.bits().max(1);
        let finished = self.clock.free_at().saturating_sub(self.clock.behind());
        let mut node = leaf;
        loop {
            let member = &mut self.members[node];
            member.average.update(work, finished, on_wire);
            let over = member.average.is_over(clock);
            if over && member.demand != 0 {
                if member.flags & OVER == 0 {
                    self.tallies[node].over += 1;
                    self.turn_over(node, true, clock, now);
                    self.set_timer(node, now);
                } else {
                    let due = self.wheel.get(node as u32);
                    let until = self.members[node].average.until();
                    if due.is_none_or(|due| until.saturating_add(self.clock.behind()) < due.nanos()) {
                        self.set_timer(node, now);
                    }
                }
            }
            if node == link {
                return;
            }
            node = self.members[node].parent as usize;
        }
    }

    /// Top-level: after a packet of this leaf that this node paid for.
    pub(super) fn move_cutoff(&mut self, lender: usize, leaf: usize, clock: u64) {
        let level = self.members[lender].level;
        if self.cutoff < level {
            return;
        }
        let last = self.queues[leaf].backlog().packets <= 1;
        self.cutoff = match last || self.members[lender].average.is_over(clock) {
            true => self.members[self.members.len() - 1].level,
            false => level,
        };
    }

    /// Top-level: a packet has arrived at this leaf. The first node that is within its limit, from
    /// there up, is unsatisfied: nobody above it lends.
    pub(super) fn lower_cutoff(&mut self, leaf: usize, clock: u64) {
        let mut node = leaf;
        while self.members[node].level < self.cutoff {
            if !self.members[node].average.is_over(clock) {
                self.cutoff = self.members[node].level;
                return;
            }
            if self.members[node].flags & BORROW == 0 {
                return;
            }
            node = self.members[node].parent as usize;
        }
    }
}
