//! Classes of `pacer` get other rates one by one. Nothing can be taken out of the midst of the
//! calendar, or of an order: entries of former rates stay, are known as outdated, and are forgotten
//! when they come out.

use super::{Pacer, Position, State, UNKNOWN};
use crate::structures::heaps::PriorityQueue;

impl Pacer {
    /// The same where entries are outdated: those that are come out, too, and are forgotten.
    #[cold]
    #[inline(never)]
    pub(super) fn take_current(&mut self, now: u64) -> Option<u32> {
        loop {
            let at = self.waiting.next().filter(|at| *at <= now)?;
            let index = self.waiting.take(now)?;
            if !self.outdated.remove(&(at, index)) {
                return Some(index);
            }
        }
    }

    /// When the next class's time comes, where entries are outdated.
    #[cold]
    #[inline(never)]
    pub(super) fn next_current(&mut self) -> Option<u64> {
        loop {
            let at = self.waiting.next()?;
            let first = self.outdated.range((at, 0)..).next();
            if first.is_none_or(|first| first.0 != at) {
                return Some(at);
            }
            // One of those of this time is outdated, maybe not the first.
            let index = self.waiting.take(at)?;
            if !self.outdated.remove(&(at, index)) {
                self.waiting.note(index, at);
                return Some(at);
            }
        }
    }

    /// Gives a class another rate. `false` if too many entries of the calendar or of an order are
    /// outdated for another one, or one like it is; then nothing has changed.
    pub(super) fn adopt_rate(&mut self, index: usize, rate: u64, at: Position) -> bool {
        let node = &mut self.nodes[index];
        if !node.paced || node.pace.rate() == rate {
            return true;
        }
        let (id, above, most) = (index as u32, node.above, self.plan.nodes.len());
        let is_too_much = match node.state {
            State::Idle | State::Late => false,
            State::Waiting => self.outdated.len() >= most || self.outdated.contains(&(node.next, id)),
            State::Eligible => {
                let turns = &self.outdated_turns;
                turns.len() >= most || turns.contains(&(above, node.next, id))
            }
        };
        if is_too_much {
            return false;
        }
        let former = node.pace;
        let rules = self.plan.rules;
        node.pace
            .change(rate, [at.low, at.high], rules.wire, rules.longest());
        let next = match node.state {
            State::Idle | State::Late => at.high,
            State::Waiting => node.pace.eligible().max(at.low),
            State::Eligible => node.pace.carried(former, node.next),
        };
        node.after = UNKNOWN;
        let (state, former) = (node.state, std::mem::replace(&mut node.next, next));
        if next != former && state == State::Waiting {
            self.outdated.insert((former, id));
            if !self.outdated.remove(&(next, id)) {
                self.waiting.note(id, next);
            }
        } else if next != former && state == State::Eligible {
            self.outdated_turns.insert((above, former, id));
            if !self.outdated_turns.remove(&(above, next, id)) {
                self.eligible[above as usize].push(id, next.into());
            }
            self.forget_outdated(above as usize);
        }
        true
    }

    /// The first of an order is not outdated any more.
    #[cold]
    #[inline(never)]
    pub(super) fn forget_outdated(&mut self, above: usize) {
        let order = &mut self.eligible[above];
        while let (Some(index), Some(deadline)) = (order.first(), order.first_key()) {
            let turn = (above as u32, deadline as u64, index);
            if !self.outdated_turns.remove(&turn) {
                return;
            }
            order.pop();
        }
    }

    /// Schedules all that wait, and orders all that are eligible, anew: no entry is outdated then.
    pub(super) fn order_anew(&mut self) {
        self.waiting.clear();
        self.outdated.clear();
        self.outdated_turns.clear();
        self.eligible.iter_mut().for_each(PriorityQueue::clear);
        for (index, node) in (0..).zip(&self.nodes) {
            match node.state {
                State::Idle | State::Late => {}
                State::Waiting => self.waiting.note(index, node.next),
                State::Eligible => self.eligible[node.above as usize].push(index, node.next.into()),
            }
        }
    }
}
