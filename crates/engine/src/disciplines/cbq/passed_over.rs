//! The older modes: which leaves a turn passes over.

use super::older::Permit;
use super::state::{Cbq, Membership};
use crate::structures::rings::NONE;
use crate::structures::shortcuts::Shortcuts;
use crate::structures::timer_wheel::TimerWheel;
use crate::units::Instant;

/// Finds the leaf after another in its lane.
fn after(places: &[Membership]) -> impl Fn(u32) -> u32 {
    |at| places[at as usize].row.next
}

/// The group of the listed leaves that a turn looks at. The others are those of their parents, by
/// [`Cbq::below`].
const SEEN: u32 = 0;

impl Cbq {
    /// The lane of a leaf among those of all sets.
    #[inline]
    fn lane_of(&self, leaf: usize) -> usize {
        let priority = usize::from(self.nodes[leaf].priority);
        self.sets.lane(priority, self.places[leaf].own.weight.lane)
    }

    /// The group of those that wait for credit, their own or that of this parent and of those above
    /// it.
    #[inline]
    fn below(&self, parent: usize) -> u32 {
        (1 + parent - self.leaves()) as u32
    }

    /// None for the leaves that are listed, if any.
    pub(super) fn lay_shortcuts(&mut self) {
        let (leaves, parents) = match self.rules.formal {
            true => (0, 0),
            false => (self.leaves(), self.nodes.len() - self.leaves()),
        };
        self.shortcuts = Shortcuts::new(leaves, 1 + parents);
        self.revealed = Vec::with_capacity(parents);
        self.regains = TimerWheel::new(leaves);
    }

    /// New ones for the leaves that are listed, in lanes that are new too.
    pub(super) fn renew_shortcuts(&mut self) {
        self.lay_shortcuts();
        if self.rules.formal {
            return;
        }
        let members = self.sets.members(&mut self.places, |_, place| place.row.next);
        // The older modes have leaves in sets only.
        for &(set, leaf) in &members {
            let head = self.sets.head(set, self.places[leaf as usize].own.weight.lane);
            if head == leaf {
                self.shortcuts.spread(head, after(&self.places));
            }
        }
        for (_, leaf) in members {
            self.watch(leaf as usize);
        }
    }

    /// A leaf has joined its lane.
    #[inline(never)]
    pub(super) fn joined_lane(&mut self, leaf: usize) {
        let place = &self.places[leaf];
        let (lane, last) = (place.own.weight.lane, place.row.previous);
        let head = self.sets.head(usize::from(self.nodes[leaf].priority), lane);
        self.shortcuts.join(leaf as u32, head, last, after(&self.places));
        self.watch(leaf);
    }

    /// Sees or overlooks a listed leaf, as its credit is; one that is overlooked has a timer for
    /// when it has enough.
    #[inline(never)]
    pub(super) fn watch(&mut self, leaf: usize) {
        let (lane, node) = (self.lane_of(leaf), &self.nodes[leaf]);
        if !node.is_passed_over() {
            return self.shortcuts.put(SEEN, lane, leaf as u32);
        }
        if node.credit.rate > 0 {
            let enough = node.credit.updated.saturating_add(node.credit.time_to_enough());
            let at = Instant::from_nanos(enough.saturating_add(self.clock.behind()));
            self.regains.set(leaf as u32, at);
        }
        let group = self.below(node.parent as usize);
        self.shortcuts.put(group, lane, leaf as u32);
    }

    /// A leaf leaves its lane.
    #[inline(never)]
    pub(super) fn leaves_lane(&mut self, leaf: usize) {
        self.shortcuts.take(leaf as u32);
        self.regains.cancel(leaf as u32);
    }

    /// Whether leaves below this parent wait for credit.
    pub(super) fn is_waited_for(&self, parent: usize) -> bool {
        !self.shortcuts.is_empty(self.below(parent))
    }

    /// Finds the parents whose leaves are not to be passed over with this cutoff: those that find a
    /// lender, and those that have to be suspended. If the link lends, that is all of them.
    pub(super) fn reveal(&mut self, clock: u64) {
        self.revealed.clear();
        if self.cutoff == 0 || self.link_lends() {
            return;
        }
        for parent in self.leaves()..self.link() {
            if self.is_waited_for(parent) && !matches!(self.lender_at(parent, clock), Permit::Above) {
                self.revealed.push(self.below(parent));
            }
        }
    }

    /// The groups of those that are not passed over.
    fn looked_at(&self) -> impl Iterator<Item = u32> {
        std::iter::once(SEEN).chain(self.revealed.iter().copied())
    }

    /// The highest priority of a leaf that is not passed over.
    pub(super) fn highest_priority(&self) -> Option<usize> {
        if self.link_lends() {
            return self.rows.first().map(|(_, priority)| priority);
        }
        let leaves = self.looked_at().filter_map(|group| self.shortcuts.last(group));
        leaves
            .map(|leaf| usize::from(self.nodes[leaf as usize].priority))
            .max()
    }

    /// The first leaf in a lane, from its head on, that is not passed over.
    pub(super) fn first_in_lane(&self, priority: usize, lane: u32) -> Option<u32> {
        let head = self.sets.head(priority, lane);
        if head == NONE {
            return None;
        }
        if self.link_lends() || self.shortcuts.is_in(SEEN, head) {
            return Some(head);
        }
        let lane = self.sets.lane(priority, lane);
        self.looked_at()
            .filter_map(|group| self.shortcuts.first(group, lane, head))
            .min_by_key(|&leaf| self.shortcuts.distance(head, leaf))
    }
}
