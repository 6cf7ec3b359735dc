//! `cbq` by credits: formal link sharing, and the older modes of a link without an estimator.

use super::inspection::{Shown, Standing, Tally};
use super::plan::CbqPlan;
use super::state::{ASLEEP, BACKLOGGED, BORROW, Cbq, Choice, LISTED, LONGEST_UNIT, OVER, Rules};
use crate::discipline::{Discipline, Next, Reason, Sink, Verdict};
use crate::inspect::Inspection;
use crate::link_clock::CreditClock;
use crate::packet::Packet;
use crate::portion::{Portion, Tour};
use crate::prefetch::Prefetched;
use crate::queue::Queue;
use crate::sharing::credit::NANOBITS;
use crate::sharing::leaves::MANY;
use crate::structures::rings::{Rows, Sets};
use crate::structures::shortcuts::Shortcuts;
use crate::structures::timer_wheel::TimerWheel;
use crate::units::Instant;
use std::sync::Arc;

impl Cbq {
    /// A tree of this plan with these queues, all of its classes idle.
    pub(super) fn new(plan: CbqPlan, queues: Vec<Queue>, clock: CreditClock) -> Self {
        let mut cbq = Self {
            nodes: Vec::new(),
            places: Vec::new(),
            rows: Rows::default(),
            sets: Sets::default(),
            queues,
            backlogged: 0,
            wheel: TimerWheel::new(plan.classes.len()),
            clock,
            rules: Rules::new(&plan),
            cutoff: 0,
            unsatisfied: 0,
            shortcuts: Shortcuts::default(),
            revealed: Vec::new(),
            regains: TimerWheel::new(0),
            unit: plan.mtu.get().clamp(1, LONGEST_UNIT),
            tallies: vec![Tally::default(); plan.classes.len() + 1],
            weights: Arc::clone(plan.weights()),
            plan,
            by_class: false,
            was_ready: None,
            flushed: Tour::default(),
        };
        cbq.lay_out();
        cbq
    }

    /// Every leaf that has packets joins.
    pub(super) fn resume(&mut self, now: u64) {
        let clock = self.clock.idle(now);
        for leaf in 0..self.leaves() {
            if !self.queues[leaf].is_empty() {
                self.nodes[leaf].flags |= BACKLOGGED;
                self.backlogged += 1;
                self.join(leaf, clock, now, now);
            }
        }
    }

    /// The next packet; `choose` says whose, at a time of the credits' clock and of the caller's.
    #[inline]
    pub(super) fn dequeue_by(
        &mut self,
        now: Instant,
        sink: &mut dyn Sink,
        choose: impl Fn(&mut Self, u64, u64) -> Option<Choice>,
    ) -> Next<Packet> {
        if self.backlogged == 0 {
            return Next::Empty;
        }
        let at = now.nanos();
        if self.rules.shaped && self.clock.free_at() > at {
            return Next::Wait(Instant::from_nanos(self.clock.free_at()));
        }
        let since = self.since();
        let clock = self.clock.at(at, since);
        self.wake(clock, at, since);
        loop {
            let Some(choice) = choose(self, clock, at) else {
                return match self.backlogged {
                    0 => Next::Empty,
                    _ => Next::Wait(self.wheel.next().unwrap_or(Instant::NEVER)),
                };
            };
            match self.queues[choice.leaf].dequeue(now, sink) {
                Next::Ready(packet) => {
                    self.sent(choice, packet.len.get(), clock, at);
                    return Next::Ready(packet);
                }
                Next::Wait(until) => {
                    self.leave(choice.leaf, clock);
                    self.nodes[choice.leaf].flags |= ASLEEP;
                    self.wheel.set(choice.leaf as u32, until);
                }
                Next::Empty => self.empty(choice.leaf, clock),
            }
        }
    }

    /// What a class does at the moment.
    fn standing(&self, number: usize) -> Standing {
        let node = &self.nodes[number];
        let waits = node.flags & OVER != 0 && node.demand != 0;
        let state = match () {
            () if node.flags & ASLEEP != 0 => "asleep",
            () if node.demand == 0 => "idle",
            () if !self.rules.formal && node.flags & LISTED == 0 => "suspended",
            () if !waits => "ready",
            () if node.flags & BORROW != 0 => "borrowing",
            () => "suspended",
        };
        Standing {
            state,
            credit: node.credit.left / NANOBITS,
            tally: self.tally(number),
        }
    }
}

impl Discipline for Cbq {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        let Some(leaf) = self.plan.routes.child(packet.class) else {
            sink.drop(packet, Reason::NoClass);
            return Verdict::Dropped(Reason::NoClass);
        };
        let handed_on = packet.handed_on;
        let verdict = self.queues[leaf].enqueue(now, packet, sink);
        let flags = self.nodes[leaf].flags;
        let holds = !self.queues[leaf].is_empty();
        let waiting = flags & BACKLOGGED != 0 && flags & ASLEEP == 0;
        if holds && waiting && !self.rules.top_level {
            return verdict;
        }
        let now = now.nanos();
        let clock = if self.backlogged > 0 {
            self.clock.at(now, self.since())
        } else {
            self.clock.idle(now)
        };
        match (flags & BACKLOGGED != 0, holds) {
            (false, true) => {
                self.nodes[leaf].flags |= BACKLOGGED;
                self.backlogged += 1;
                let there = self.was_ready.take_if(|_| !handed_on || self.rows.is_empty());
                let since = there.filter(|_| handed_on).unwrap_or(now).min(now);
                self.join(leaf, clock, now, since);
            }
            (true, false) => self.empty(leaf, clock),
            // The queue may have a packet earlier now: it is polled again.
            (true, true) if flags & ASLEEP != 0 => {
                self.stop(leaf, clock);
                self.join(leaf, clock, now, now);
            }
            _ => {}
        }
        if self.rules.top_level && holds {
            self.lower_cutoff(leaf, clock);
        }
        verdict
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        self.dequeue_by(now, sink, |cbq, clock, at| match cbq.rules.formal {
            true => cbq.choose(),
            false => cbq.choose_by_priority(clock, at),
        })
    }

    fn prefetch_arrivals(&self, packets: &[Packet]) -> Prefetched {
        if self.leaves() < MANY {
            return Prefetched::NOTHING;
        }
        let leaves = || {
            packets
                .iter()
                .filter_map(|packet| self.plan.routes.child(packet.class))
        };
        let read = leaves().fold(Prefetched::NOTHING, |read, leaf| {
            let flags = Prefetched::word(self.nodes[leaf].flags.into());
            read.and(flags).and(self.queues[leaf].prefetch_arrival())
        });
        leaves().fold(read, |read, leaf| {
            let joins = self.nodes[leaf].flags & BACKLOGGED == 0;
            let place = joins.then(|| Prefetched::word(self.places[leaf].row.next.into()));
            read.and(place.unwrap_or(Prefetched::NOTHING))
                .and(self.queues[leaf].prefetch_place())
        })
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        let (leaves, nodes) = (self.leaves(), self.nodes.len());
        let mut flushed = std::mem::take(&mut self.flushed);
        flushed.go_on(leaves + nodes, portion, |at, portion| {
            // When no leaf is backlogged any more. The time of the flush is not known; credit up to
            // it accrues later.
            if let Some(node) = at.checked_sub(leaves) {
                return self.nodes[node].credit.cap();
            }
            self.queues[at].flush(portion, sink);
            if !portion.is_spent() && self.nodes[at].flags & BACKLOGGED != 0 {
                let clock = self.nodes[at].credit.updated;
                self.empty(at, clock);
            }
        });
        self.flushed = flushed;
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        let shown = Shown {
            plan: &self.plan,
            queues: &self.queues,
            lent: self.tallies[self.link()].lent,
            clock: &self.clock,
        };
        shown.inspect(out, |number| self.standing(number));
    }
}
