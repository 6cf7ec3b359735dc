//! `cbq` takes over a plan of the same shape while it runs.

use super::plan::{CbqPlan, ClassPlan};
use super::settings::RoundRobin;
use super::state::{BACKLOGGED, BORROW, Cbq, LISTED, Membership, OVER, RETURNS, Rules};
use crate::discipline::{BuiltQueue, DetachedQueue};
use crate::packet::ClassId;
use crate::queue::Queue;
use crate::structures::rings::{PRIORITIES, Turn, Weight};
use crate::units::Instant;
use std::sync::Arc;

impl Cbq {
    /// Takes over the rates and rules of a plan of the same shape; packets, credits and turns stay.
    pub(super) fn adopt(&mut self, plan: &CbqPlan, now: u64) {
        // After a change of single classes their weights are on another scale.
        let reweighted = plan.weights() != &self.weights || !self.plan.has_weights(&self.weights);
        let mut inner = self.leaves()..self.link();
        let stays = inner.all(|number| self.borrows_as_in(plan, number));
        if !reweighted && stays && plan.settings.differ_little(&self.plan.settings) {
            self.adopt_each(plan, now);
            self.by_class = false;
            return;
        }
        let clock = if self.backlogged > 0 {
            self.clock.at(now, self.since())
        } else {
            self.clock.idle(now)
        };
        // Where classes stand follows from what they have, which may be of a former plan.
        let mut leaves = 0..self.leaves();
        let moved = !stays
            || !leaves.all(|leaf| self.keeps_row(plan, leaf))
            || !plan.settings.differ_little(&self.plan.settings);
        let since = self.since_at_most(now);
        let waiting: Vec<usize> = (0..self.leaves())
            .filter(|&leaf| moved && self.nodes[leaf].demand != 0)
            .collect();
        waiting.iter().for_each(|&leaf| self.leave(leaf, clock));
        (self.plan, self.by_class) = (plan.clone(), false);
        match reweighted {
            true => self.adopt_weights(),
            false => self.weights = Arc::clone(plan.weights()),
        }
        self.rules = Rules::new(plan);
        self.renew_shortcuts();
        self.clock.retune(plan.link, plan.settings.link_burst, now);
        for number in 0..self.link() {
            self.adopt_class(number, clock, now);
        }
        waiting
            .iter()
            .for_each(|&leaf| self.join(leaf, clock, now, since));
    }

    /// The same, class by class.
    fn adopt_each(&mut self, plan: &CbqPlan, now: u64) {
        self.adopt_plan(plan, now);
        self.weights = Arc::clone(plan.weights());
        for leaf in 0..self.leaves() {
            let weights = (self.weights.own[leaf], self.weights.lent[leaf]);
            self.adopt_leaf(plan, leaf, weights, now);
        }
        for number in self.leaves()..self.link() {
            let clock = self.credit_time(now);
            self.adopt_class(number, clock, now);
        }
    }

    /// Members move to the lanes of their new weights, with what is left of their turns.
    pub(super) fn adopt_weights(&mut self) {
        let next = |set: usize, place: &mut Membership| match set < PRIORITIES {
            true => place.row.next,
            false => place.feed.next,
        };
        let members = self.sets.members(&mut self.places, next);
        self.weights = Arc::clone(self.plan.weights());
        self.sets = self.plan.sets();
        for number in 0..self.link() {
            let (own, lent) = (self.weights.own[number], self.weights.lent[number]);
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

    /// The clock of credits at this time.
    fn credit_time(&mut self, now: u64) -> u64 {
        match self.backlogged {
            0 => self.clock.idle(now),
            _ => self.clock.at(now, self.since()),
        }
    }

    /// Since when somebody may send whom a change lets do so: while nobody could, now, or the clock
    /// of credits would turn back.
    fn since_at_most(&self, now: u64) -> u64 {
        self.since().min(now)
    }

    /// The leaf of a class that has the same number, parent and level in this plan.
    fn known(&self, plan: &CbqPlan, class: ClassId) -> Option<usize> {
        let leaf = plan.routes.child(class)?;
        let shape = |plan: &CbqPlan| {
            let class = &plan.classes[leaf];
            (plan.leaves, plan.classes.len(), class.id, class.parent)
        };
        let known =
            plan.classes[leaf].id == class && leaf < self.leaves() && shape(plan) == shape(&self.plan);
        known.then_some(leaf)
    }

    /// The weights of a leaf of this plan, on the scale of those that the others have. `None` if
    /// there is no lane for it.
    fn weights_of(&self, plan: &CbqPlan, leaf: usize) -> Option<(Weight, Weight)> {
        match plan.settings.round_robin {
            // A place has no packets.
            _ if plan.classes[leaf].vacant => Some(Default::default()),
            RoundRobin::Weighted => self.weights.of_another(plan.classes[leaf].rated()),
            RoundRobin::Packet => Some(Default::default()),
        }
    }

    /// Takes over what a plan of the same classes says of the whole.
    pub(super) fn adopt_plan(&mut self, plan: &CbqPlan, now: u64) {
        let link = |plan: &CbqPlan| (plan.link, plan.settings.link_burst);
        if link(plan) != link(&self.plan) {
            // What the former link did until now counts.
            self.credit_time(now);
            self.clock.retune(plan.link, plan.settings.link_burst, now);
        }
        (self.plan, self.by_class) = (plan.clone(), true);
        self.rules = Rules::new(plan);
    }

    /// Gives a leaf that is in no row these weights.
    fn adopt_turns(&mut self, leaf: usize, (own, lent): (Weight, Weight)) {
        let place = &mut self.places[leaf];
        (place.own, place.lent) = (Turn::new(own), Turn::new(lent));
    }

    /// Takes over what a plan says of one leaf.
    pub(super) fn retune_leaf(&mut self, now: Instant, plan: &CbqPlan, class: ClassId) -> bool {
        let weights = |cbq: &Self| {
            let leaf = cbq.known(plan, class)?;
            let queue = plan.classes[leaf].queue.as_ref()?;
            Some((leaf, cbq.weights_of(plan, leaf)?, queue))
        };
        let Some((leaf, weights, queue)) = weights(self) else {
            return false;
        };
        if queue.kind.name != self.queues[leaf].kind() || !self.queues[leaf].retune(now, &*queue.plan) {
            return false;
        }
        self.adopt_leaf(plan, leaf, weights, now.nanos());
        true
    }

    /// The same but for its queue, with these weights.
    fn adopt_leaf(&mut self, plan: &CbqPlan, leaf: usize, weights: (Weight, Weight), at: u64) {
        let clock = self.credit_time(at);
        // Where it stands in the rows stays, if that does not follow from what is new.
        let place = &self.places[leaf];
        let stays = self.keeps_row(plan, leaf) && (place.own.weight, place.lent.weight) == weights;
        let waits = !stays && self.nodes[leaf].demand != 0;
        let since = self.since_at_most(at);
        if waits {
            self.leave(leaf, clock);
        }
        self.adopt_plan(plan, at);
        if !stays {
            self.adopt_turns(leaf, weights);
        }
        self.adopt_class(leaf, clock, at);
        if waits {
            self.join(leaf, clock, at, since);
        }
    }

    /// Takes over what a plan says of a class with child classes that borrows if it did before.
    pub(super) fn retune_inner(&mut self, now: Instant, plan: &CbqPlan, class: ClassId) -> bool {
        let number = plan.numbers.own(class.0).filter(|&number| {
            let place = |class: &ClassPlan| (class.id, class.parent);
            let shape = |plan: &CbqPlan| {
                (
                    plan.leaves,
                    plan.classes.len(),
                    plan.classes.get(number).map(place),
                )
            };
            number >= self.leaves() && shape(plan) == shape(&self.plan) && self.borrows_as_in(plan, number)
        });
        let Some(number) = number else { return false };
        let same = plan.classes[number].credit.rate == self.nodes[number].credit.rate;
        let lent = match plan.settings.round_robin {
            RoundRobin::Weighted if !same => self.weights.lent_to_another(plan.classes[number].rated()),
            _ => Some(self.places[self.place_of(number, 0) as usize].lent.weight),
        };
        let Some(lent) = lent else { return false };
        let at = now.nanos();
        let clock = self.credit_time(at);
        self.adopt_plan(plan, at);
        self.adopt_lent(number, lent);
        self.adopt_class(number, clock, at);
        true
    }

    /// Moves a class with child classes to lanes of this weight, with what is left of its turns.
    fn adopt_lent(&mut self, number: usize, lent: Weight) {
        let (parent, node) = (self.nodes[number].parent as usize, &self.nodes[number]);
        let wanted = if node.flags & BORROW == 0 { 0 } else { node.demand };
        for priority in 0..PRIORITIES {
            let (place, owner) = (self.place_of(number, priority), self.place_of(parent, priority));
            let (set, waits) = (self.borrowers(owner), wanted & 1 << priority != 0);
            if self.places[place as usize].lent.weight == lent {
                continue;
            }
            if waits {
                let _ = self.sets.remove(&mut self.places, Membership::lent, set, place);
            }
            self.places[place as usize].lent.weight = lent;
            if waits {
                let _ = self.sets.insert(&mut self.places, Membership::lent, set, place);
            }
        }
    }

    /// Whether a class borrows if it does in this plan.
    fn borrows_as_in(&self, plan: &CbqPlan, number: usize) -> bool {
        plan.classes[number].settings.borrow == (self.nodes[number].flags & BORROW != 0)
    }

    /// Whether a class has the priority that it has in this plan, and borrows as there.
    fn keeps_row(&self, plan: &CbqPlan, number: usize) -> bool {
        let (new, node) = (&plan.classes[number].settings, &self.nodes[number]);
        (new.priority as u8, new.borrow) == (node.priority, node.flags & BORROW != 0)
    }

    /// A leaf becomes another class.
    pub(super) fn renew_leaf(
        &mut self,
        now: Instant,
        plan: &CbqPlan,
        class: ClassId,
        queue: BuiltQueue,
    ) -> Option<Box<dyn DetachedQueue>> {
        let leaf = self.known(plan, class)?;
        let weights = self.weights_of(plan, leaf)?;
        let former = self.give(now, leaf, Queue::new(queue.kind, queue.discipline));
        let at = now.nanos();
        let clock = self.credit_time(at);
        self.adopt_plan(plan, at);
        self.adopt_turns(leaf, weights);
        self.nodes[leaf] = plan.classes[leaf].node();
        self.accrue(leaf, clock);
        self.tallies[leaf] = Default::default();
        Some(former)
    }

    /// Gives a leaf an empty queue. Its own is returned.
    pub(super) fn give(&mut self, now: Instant, leaf: usize, queue: Queue) -> Box<dyn DetachedQueue> {
        let clock = self.credit_time(now.nanos());
        if self.nodes[leaf].flags & BACKLOGGED != 0 {
            self.empty(leaf, clock);
        }
        Box::new(std::mem::replace(&mut self.queues[leaf], queue))
    }

    /// A class that has no packets yet goes on where this one of another tree leaves off: with its
    /// credit, and what is left of its turn. The link's clock goes on, too.
    pub(super) fn succeed(&mut self, number: usize, former: &mut Self, was: usize, now: u64) {
        let clock = former.credit_time(now);
        former.accrue(was, clock);
        self.clock.clone_from(&former.clock);
        self.was_ready = (!former.rows.is_empty()).then(|| former.clock.ready());
        let link = |plan: &CbqPlan| (plan.link, plan.settings.link_burst);
        if link(&self.plan) != link(&former.plan) {
            self.clock
                .retune(self.plan.link, self.plan.settings.link_burst, now);
        }
        let old = &former.nodes[was];
        let new = &mut self.nodes[number];
        if new.credit.rate > 0 && old.credit.rate > 0 {
            let mut credit = old.credit;
            credit.adopt(new.credit);
            if self.rules.ceiling.is_none() || old.demand == 0 {
                credit.cap();
            }
            new.credit = credit;
            new.flags = new.flags & !OVER | old.flags & OVER;
            if old.flags & OVER != 0 && old.demand != 0 {
                new.flags |= RETURNS;
            }
        }
        let turns = (number < self.leaves()).then_some((number, was));
        if let Some((own, was)) = turns.filter(|(_, was)| *was < former.leaves()) {
            let former = &former.places[was];
            let place = &mut self.places[own];
            if (place.own.weight, place.lent.weight) == (former.own.weight, former.lent.weight) {
                (place.own, place.lent) = (former.own, former.lent);
            }
        }
    }

    pub(super) fn adopt_class(&mut self, number: usize, clock: u64, now: u64) {
        self.accrue(number, clock);
        self.settle_tally(number);
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
                false => self.list_all(number, self.since_at_most(now)),
            }
        }
    }
}
