//! The rules: who joins and leaves, who is charged, who is refused, and where the cutoff is.

use super::{ASLEEP, Averaging, BORROW, Chosen, FRESH, OVER, REFUSED};
use crate::structures::rings::{self, NONE, Neighbours, PRIORITIES};
use crate::units::Instant;

/// When a packet leaves, at most so many leaves of each priority are refused; others are later.
const FEW: u32 = 4;

// Who waits where.
impl Averaging {
    /// A leaf has a packet to send.
    pub(super) fn join(&mut self, leaf: usize, clock: u64, now: u64) {
        let priority = usize::from(self.members[leaf].priority);
        self.members[leaf].demand = 1;
        if self.members[leaf].flags & BORROW != 0 {
            let head = self.turns[priority];
            self.turns[priority] = rings::insert(&mut self.leaves, |one| &mut one.turn, head, leaf as u32);
        }
        self.settle(leaf, clock, now);
        self.offer(leaf, priority, clock, now);
        self.refresh(leaf);
    }

    /// A leaf has no packet to send any more.
    pub(super) fn leave(&mut self, leaf: usize) {
        let priority = usize::from(self.members[leaf].priority);
        self.members[leaf].demand = 0;
        if self.leaves[leaf].turn.next != NONE {
            let head = self.turns[priority];
            self.turns[priority] = rings::remove(&mut self.leaves, |one| &mut one.turn, head, leaf as u32);
            self.leaves[leaf].turn = Neighbours::FREE;
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
    fn turn_over(&mut self, node: usize, over: bool, clock: u64, now: u64) {
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
    /// The next leaf; changes nothing.
    pub(super) fn choose(&self, clock: u64) -> Option<Chosen> {
        let top = self.members[self.members.len() - 1].level;
        let cutoff = if self.customs.top_level { self.cutoff } else { top };
        if let Some(chosen) = self.choose_up_to(cutoff, clock) {
            return Some(chosen);
        }
        if !self.customs.efficient {
            return (cutoff + 1..=top).find_map(|level| self.choose_up_to(level, clock));
        }
        let priority = (0..PRIORITIES)
            .rev()
            .find(|&priority| self.turns[priority] != NONE)?;
        Some(Chosen {
            leaf: self.turns[priority] as usize,
            lender: None,
            priority,
        })
    }

    /// The leaf whose turn it is, while it has bytes left and may send.
    fn goes_on(&self, priority: usize, level: u8, clock: u64) -> Option<Chosen> {
        let at = self.turns[priority];
        if at == NONE || self.leaves[at as usize].of_turn() <= 0 {
            return None;
        }
        let leaf = at as usize;
        let lender = match self.members[leaf].flags & OVER {
            0 => leaf,
            _ => self
                .lender_of(leaf, clock)
                .filter(|&node| self.members[node].level <= level)?,
        };
        Some(Chosen {
            leaf,
            lender: Some(lender),
            priority,
        })
    }

    fn choose_up_to(&self, level: u8, clock: u64) -> Option<Chosen> {
        let (spot, priority) = self.pools.best(level)?;
        if let Some(chosen) = self.goes_on(priority, level, clock) {
            return Some(chosen);
        }
        Some(Chosen {
            leaf: self.pools.leaf(spot, priority),
            lender: Some(self.pools.node(spot)),
            priority,
        })
    }

    /// A leaf has sent a packet, of these bytes of its turn or for nothing: it goes on while it has
    /// bytes left, or the next of the ring has its turn. Whoever was passed over has no bytes left.
    pub(super) fn move_turn(&mut self, leaf: usize, priority: usize, len: Option<u64>) {
        for above in priority..PRIORITIES {
            let at = self.turns[above];
            if at != NONE && at as usize != leaf {
                let left = &mut self.leaves[at as usize].left;
                *left = (*left).min(0);
            }
        }
        let own = &mut self.leaves[leaf];
        if own.turn.next == NONE {
            return;
        }
        own.left = match len {
            Some(len) => own.of_turn().saturating_sub_unsigned(len),
            None => 0,
        };
        self.turns[priority] = if own.left > 0 { leaf as u32 } else { own.turn.next };
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

    /// Leaves that a choice passes over are refused: all that find no lender where none may send
    /// but for nothing, and those of the chosen priority and above where one may. Whether there
    /// were any.
    pub(super) fn refuse(&mut self, chosen: Option<Chosen>, clock: u64, now: u64) -> bool {
        let lowest = match chosen {
            Some(Chosen {
                lender: Some(_),
                priority,
                ..
            }) => priority,
            _ => 0,
        };
        let most = if chosen.is_some() { FEW } else { u32::MAX };
        let mut any = false;
        for priority in lowest..PRIORITIES {
            any |= self.refuse_some(priority, most, clock, now);
        }
        any
    }

    /// The same for the next leaves of a priority, `most` at most.
    fn refuse_some(&mut self, priority: usize, most: u32, clock: u64, now: u64) -> bool {
        let (mut at, mut any, mut left) = (self.fresh[priority], false, most);
        if at == NONE {
            return false;
        }
        let last = self.leaves[at as usize].fresh.previous;
        while at != NONE && left > 0 {
            let (leaf, next) = (at as usize, self.leaves[at as usize].fresh.next);
            left -= 1;
            if !self.finds_lender(leaf, clock) {
                any = true;
                self.members[leaf].flags |= REFUSED;
                self.members[leaf].average.refuse();
                self.tallies[leaf].delays += 1;
                self.set_timer(leaf, now);
                self.refresh(leaf);
            }
            at = if at == last { NONE } else { next };
        }
        if at != NONE {
            self.fresh[priority] = at;
        }
        any
    }

    /// The first node above this leaf that lends to it, however high.
    fn lender_of(&self, leaf: usize, clock: u64) -> Option<usize> {
        let link = self.members.len() - 1;
        let mut node = leaf;
        while node != link && self.members[node].flags & BORROW != 0 {
            node = self.members[node].parent as usize;
            if !self.members[node].average.is_over(clock) {
                return Some(node);
            }
        }
        None
    }

    /// Whether a node above this leaf, up to the cutoff, lends to it.
    fn finds_lender(&self, leaf: usize, clock: u64) -> bool {
        let lender = self.lender_of(leaf, clock);
        lender.is_some_and(|node| !self.customs.top_level || self.members[node].level <= self.cutoff)
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
