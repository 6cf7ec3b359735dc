//! Whose turn it is under formal sharing, and what a packet changes that leaves.

use super::state::{ASLEEP, BACKLOGGED, Cbq, Choice, LONGEST_UNIT, Membership};
use crate::prefetch::Prefetched;
use crate::sharing::credit::nanobits;
use crate::sharing::leaves::MANY;
use crate::structures::rings::Turns;
use crate::units::Instant;

impl Cbq {
    /// The place in a row whose turn it is.
    pub(super) fn turn_of(&mut self, level: usize, priority: usize) -> u32 {
        // Higher levels lend by credit; the order among lenders does not matter for bandwidth.
        if level > 0 {
            return self.rows.head(level, priority);
        }
        let turns = self.turns();
        self.sets.next(&mut self.places, Membership::own, priority, turns)
    }

    /// How classes take turns.
    #[inline]
    pub(super) fn turns(&self) -> Turns {
        match self.rules.weighted {
            true => Turns::Bytes(self.unit),
            false => Turns::Packets,
        }
    }

    /// The borrower whose turn it is with this lender.
    pub(super) fn borrower_of(&mut self, owner: u32) -> u32 {
        let (set, turns) = (self.borrowers(owner), self.turns());
        self.sets.next(&mut self.places, Membership::lent, set, turns)
    }

    /// Formal sharing: the lowest level with a node that may send or lend, there the highest
    /// priority.
    #[inline]
    pub(super) fn choose(&mut self) -> Option<Choice> {
        let (level, priority) = self.rows.first()?;
        let mut place = self.turn_of(level, priority);
        let lender = self.node_at(place);
        while self.node_at(place) >= self.leaves() {
            place = self.borrower_of(place);
        }
        Some(Choice {
            leaf: place as usize,
            lender,
            priority,
        })
    }

    /// Advances the turns by a packet.
    pub(super) fn take_turns(&mut self, choice: Choice, len: u64) {
        let Choice {
            leaf,
            lender,
            priority,
        } = choice;
        let turns = self.turns();
        if lender == leaf || !self.rules.formal {
            let member = (priority, leaf as u32);
            return self
                .sets
                .sent(&mut self.places, Membership::own, member, len, turns);
        }
        let mut child = leaf;
        while child != lender {
            let parent = self.nodes[child].parent as usize;
            let (owner, at) = (self.place_of(parent, priority), self.place_of(child, priority));
            let member = (self.borrowers(owner), at);
            self.sets
                .sent(&mut self.places, Membership::lent, member, len, turns);
            child = parent;
        }
        let place = self.place_of(lender, priority);
        let level = usize::from(self.nodes[lender].level);
        self.rows
            .set(level, priority, self.places[place as usize].row.next);
    }

    /// Reads what those need that stand behind this leaf: of the first its packets, as its queue
    /// has been read; of the second all else.
    #[inline(never)]
    fn read_ahead(&self, choice: Choice) {
        let after = |leaf: usize| match choice.lender == choice.leaf || !self.rules.formal {
            true => self.places[leaf].row.next as usize,
            false => self.places[leaf].feed.next as usize,
        };
        let first = after(choice.leaf);
        if first < self.leaves() {
            let packets = self.queues[first].prefetch_discipline();
            let second = after(first);
            let all = (second < self.leaves()).then(|| self.prefetch(second));
            packets.and(all.unwrap_or(Prefetched::NOTHING)).done();
        }
    }

    /// Reads all that a leaf's packet needs when it leaves, at one time.
    pub(super) fn prefetch(&self, leaf: usize) -> Prefetched {
        let place = Prefetched::word(self.places[leaf].own.left as u64);
        let node = Prefetched::word(self.nodes[leaf].flags.into());
        place.and(node).and(self.queues[leaf].prefetch())
    }

    /// A packet leaves: turns, charges, the link.
    pub(super) fn sent(&mut self, choice: Choice, len: u64, clock: u64, now: u64) {
        let Choice { leaf, lender, .. } = choice;
        let bits = nanobits(len);
        self.unit = self.unit.max(len.min(LONGEST_UNIT));
        if self.leaves() >= MANY {
            self.read_ahead(choice);
        }
        self.take_turns(choice, len);
        let empty = self.queues[leaf].is_empty();
        if empty {
            self.empty(leaf, clock);
        }
        if lender != leaf {
            let recent = &mut self.nodes[leaf].recent;
            recent.times += 1;
            recent.bytes += len;
            self.tallies[lender].lent += len;
        }
        if self.rules.formal {
            self.charge(lender, bits, clock, now);
        } else if lender != self.link() {
            // The older modes charge the borrower too, as the original does; but nobody for what
            // the link would have lost.
            self.charge(leaf, bits, clock, now);
        }
        self.clock.send(now, bits as u64, self.rules.shaped);
        if self.rules.top_level && lender != leaf {
            self.move_cutoff(lender, empty, clock);
        }
    }

    /// A leaf has no backlog any more.
    pub(super) fn empty(&mut self, leaf: usize, clock: u64) {
        self.stop(leaf, clock);
        self.nodes[leaf].flags &= !BACKLOGGED;
        self.backlogged -= 1;
    }

    /// A leaf has nothing to send, whether it was waiting for its own queue or for its turn.
    pub(super) fn stop(&mut self, leaf: usize, clock: u64) {
        if self.nodes[leaf].flags & ASLEEP != 0 {
            self.nodes[leaf].flags &= !ASLEEP;
            self.wheel.cancel(leaf as u32);
        } else {
            self.leave(leaf, clock);
        }
    }

    /// Since when a node may send; if none may, when the first could have been woken.
    pub(super) fn since(&self) -> u64 {
        if !self.rows.is_empty() {
            self.clock.ready()
        } else {
            self.wheel.next().map_or(u64::MAX, Instant::nanos)
        }
    }
}
