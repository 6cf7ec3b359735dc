//! `cbq` takes over a plan of the same shape while it runs.

use super::plan::CbqPlan;
use super::state::{BORROW, Cbq, LISTED, Membership, Rules};
use crate::structures::rings::PRIORITIES;

impl Cbq {
    /// Takes over the rates and rules of a plan of the same shape; packets, credits and turns stay.
    pub(super) fn adopt(&mut self, plan: &CbqPlan, now: u64) {
        let clock = if self.backlogged > 0 {
            self.clock.at(now, self.since())
        } else {
            self.clock.idle(now)
        };
        let rings = |plan: &CbqPlan| -> Vec<_> {
            plan.classes
                .iter()
                .map(|class| (class.settings.priority, class.settings.borrow))
                .collect()
        };
        let moved = rings(plan) != rings(&self.plan)
            || plan.settings.sharing != self.plan.settings.sharing
            || plan.settings.excess != self.plan.settings.excess;
        let waiting: Vec<usize> = (0..self.leaves())
            .filter(|&leaf| moved && self.nodes[leaf].demand != 0)
            .collect();
        waiting.iter().for_each(|&leaf| self.leave(leaf, clock));
        let reweighted = plan.weights != self.plan.weights;
        self.plan = plan.clone();
        if reweighted {
            self.adopt_weights();
        }
        self.rules = Rules::new(plan);
        self.renew_shortcuts();
        self.clock.retune(plan.link, plan.settings.link_burst, now);
        for number in 0..self.link() {
            self.adopt_class(number, clock, now);
        }
        let since = self.clock.ready();
        waiting
            .iter()
            .for_each(|&leaf| self.join(leaf, clock, now, since));
    }

    /// Members move to the lanes of their new weights, with what is left of their turns.
    pub(super) fn adopt_weights(&mut self) {
        let next = |set: usize, place: &mut Membership| match set < PRIORITIES {
            true => place.row.next,
            false => place.feed.next,
        };
        let members = self.sets.members(&mut self.places, next);
        self.sets = self.plan.sets();
        for number in 0..self.link() {
            let (own, lent) = (self.plan.weights.own[number], self.plan.weights.lent[number]);
            for place in self.place_of(number, 0)..=self.place_of(number, PRIORITIES - 1) {
                self.places[place as usize].own.weight = own;
                self.places[place as usize].lent.weight = lent;
            }
        }
        for (set, place) in members {
            let places = &mut self.places;
            let _ = match set < PRIORITIES {
                true => self.sets.insert(places, Membership::own, set, place),
                false => self.sets.insert(places, Membership::lent, set, place),
            };
        }
    }

    pub(super) fn adopt_class(&mut self, number: usize, clock: u64, now: u64) {
        self.accrue(number, clock);
        let class = &self.plan.classes[number];
        let (fresh, node) = (class.node(), &mut self.nodes[number]);
        node.priority = fresh.priority;
        node.flags = node.flags & !BORROW | fresh.flags & BORROW;
        if !node.credit.adopt(fresh.credit) {
            return;
        }
        if !self.rules.formal && node.is_listed_leaf() {
            return self.watch(number);
        }
        if node.demand != 0 && node.flags & LISTED == 0 {
            // It is regulated: its timer changes.
            self.wheel.cancel(number as u32);
            match self.rules.formal {
                true => self.regulate(number, now),
                false => self.list_all(number, self.clock.ready()),
            }
        }
    }
}
