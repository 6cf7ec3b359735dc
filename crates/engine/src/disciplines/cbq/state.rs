//! What `cbq` keeps: a node for each class and for the link, and in which rows nodes stand.

use super::inspection::Tally;
use super::plan::{CbqPlan, ClassPlan};
use super::settings::PacedBy;
use super::settings::{RoundRobin, Sharing};
use crate::link_clock::CreditClock;
use crate::portion::Tour;
use crate::queue::Queue;
use crate::sharing::credit::Credit;
use crate::structures::rings::{Neighbours, PRIORITIES, Rows, Sets, Turn, Weight, Weights};
use crate::structures::shortcuts::Shortcuts;
use crate::structures::timer_wheel::TimerWheel;
use crate::units::Duration;
use std::sync::Arc;

/// The longest packet for which turns are sized; longer ones take several turns.
pub(super) const LONGEST_UNIT: u64 = 1 << 20;

/// The node may borrow from its parent.
pub(super) const BORROW: u8 = 1;
/// It has used up its credit, and has not regained enough of it.
pub(super) const OVER: u8 = 2;
/// It is in its row.
pub(super) const LISTED: u8 = 4;
/// A leaf with a backlog.
pub(super) const BACKLOGGED: u8 = 8;
/// A leaf whose queue has a backlog and releases nothing before its timer.
pub(super) const ASLEEP: u8 = 16;
/// It waited for credit in the tree from which this one takes over, and its packets follow.
pub(super) const RETURNS: u8 = 32;

/// A class, or, last, the link. One cache line: with many classes, cost is lines touched.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(super) struct Node {
    pub(super) credit: Credit,
    pub(super) parent: u32,
    pub(super) level: u8,
    /// The priority of a leaf in row 0.
    pub(super) priority: u8,
    pub(super) flags: u8,
    /// Leaf: 1 if it has a packet to send. Others: the priorities in which children want to borrow.
    pub(super) demand: u8,
    pub(super) recent: Recent,
}

const _: () = assert!(size_of::<Node>() == 64);

/// What a node has counted since its [`Tally`] was settled: packets count in the line that they
/// need anyway.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    pub(super) over: u64,
    /// How often it has borrowed; of one that may not, how often it had to wait.
    pub(super) times: u64,
    /// The bytes that it has borrowed.
    pub(super) bytes: u64,
}

impl Node {
    /// A leaf in its row that is not overlimit.
    #[inline]
    pub(super) fn is_unsatisfied(&self) -> bool {
        self.level == 0 && self.flags & (LISTED | OVER) == LISTED
    }

    #[inline]
    pub(super) fn is_listed_leaf(&self) -> bool {
        self.level == 0 && self.flags & LISTED != 0
    }

    /// A leaf that waits for credit, its own or borrowed: a turn passes it over while nobody lends.
    #[inline]
    pub(super) fn is_passed_over(&self) -> bool {
        let regained = self.credit.rate > 0 && self.credit.is_enough();
        self.flags & (OVER | BORROW) == OVER | BORROW && !regained
    }
}

/// A node's membership in a row and among its parent's borrowers, for one priority; a leaf has only
/// one.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Membership {
    pub(super) row: Neighbours,
    pub(super) feed: Neighbours,
    pub(super) own: Turn,
    pub(super) lent: Turn,
}

impl Membership {
    /// As a leaf among those of its priority that have credit of their own.
    pub(super) fn own(&mut self) -> (&mut Neighbours, &mut Turn) {
        (&mut self.row, &mut self.own)
    }

    /// As a child that wants to borrow from its parent.
    pub(super) fn lent(&mut self) -> (&mut Neighbours, &mut Turn) {
        (&mut self.feed, &mut self.lent)
    }
}

/// The settings that every packet needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) formal: bool,
    pub(super) top_level: bool,
    pub(super) weighted: bool,
    pub(super) shaped: bool,
    /// A waiting class accumulates credit beyond its burst, up to this.
    pub(super) ceiling: Option<i64>,
    pub(super) tick: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Cbq {
    pub(super) nodes: Vec<Node>,
    pub(super) places: Vec<Membership>,
    /// Nodes that may send or lend: rings of those that lend; of the leaves, in level 0, only
    /// whether there are any.
    pub(super) rows: Rows,
    /// The leaves of level 0, by priority; then the borrowers of each node, by its places.
    pub(super) sets: Sets,
    /// Of the leaves, by number.
    pub(super) queues: Vec<Queue>,
    /// Leaves with a backlog.
    pub(super) backlogged: usize,
    pub(super) wheel: TimerWheel,
    pub(super) clock: CreditClock,
    pub(super) rules: Rules,
    /// The older modes: no node above this level lends.
    pub(super) cutoff: u8,
    /// Leaves in their row that are not overlimit.
    pub(super) unsatisfied: usize,
    /// The older modes: in the lanes of leaves, those that a turn does not pass over; and the
    /// others, by parent.
    pub(super) shortcuts: Shortcuts,
    /// The parents whose leaves are not passed over in the present choice.
    pub(super) revealed: Vec<u32>,
    /// When the others have credit again. Not on the wheel of those that wake up: what that one
    /// says is when somebody could have sent.
    pub(super) regains: TimerWheel,
    /// The longest packet so far, at least the MTU: a turn of weight 1.
    pub(super) unit: u64,
    /// Without what is recent.
    pub(super) tallies: Vec<Tally>,
    /// Those by which classes take turns: of the plan, or of one since which single classes have
    /// changed.
    pub(super) weights: Arc<Weights>,
    pub(super) plan: CbqPlan,
    /// Whether the plan was adopted class by class: one may not have its values yet.
    pub(super) by_class: bool,
    /// Since when somebody might have sent in the tree from which this one takes over, until the
    /// first packet is handed on.
    pub(super) was_ready: Option<u64>,
    /// How far a flush has come: through the leaves, then through all nodes.
    pub(super) flushed: Tour,
}

/// Which leaf sends next, and which node pays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) leaf: usize,
    pub(super) lender: usize,
    /// The priority of the rings on the way.
    pub(super) priority: usize,
}

impl Rules {
    pub(super) fn new(plan: &CbqPlan) -> Self {
        let settings = &plan.settings;
        let formal = settings.sharing == Sharing::Formal;
        Self {
            formal,
            top_level: settings.sharing == Sharing::TopLevel,
            weighted: settings.round_robin == RoundRobin::Weighted,
            shaped: settings.link == PacedBy::Shaped,
            ceiling: (formal && settings.tick.is_none()).then_some(plan.ceiling()),
            tick: settings.tick.map(Duration::nanos),
        }
    }
}

impl ClassPlan {
    /// The node of an idle class with a full burst.
    pub(super) fn node(&self) -> Node {
        let borrow = if self.settings.borrow { BORROW } else { 0 };
        Node {
            credit: self.credit,
            parent: self.parent,
            level: self.level,
            priority: self.settings.priority as u8,
            flags: if self.credit.rate == 0 {
                OVER | borrow
            } else {
                borrow
            },
            demand: 0,
            recent: Recent::default(),
        }
    }
}

impl Cbq {
    /// Makes the nodes of the plan, none backlogged, all with a full burst.
    pub(super) fn lay_out(&mut self) {
        let plan = &self.plan;
        let (link, weights) = (plan.classes.len(), Arc::clone(plan.weights()));
        let place = |own, lent| Membership {
            row: Neighbours::FREE,
            feed: Neighbours::FREE,
            own: Turn::new(own),
            lent: Turn::new(lent),
        };
        self.nodes.clear();
        self.nodes.reserve_exact(link + 1);
        self.places.clear();
        let lent = (link + 1 - plan.leaves) * PRIORITIES;
        self.places.reserve_exact(plan.leaves + lent);
        for (number, class) in plan.classes.iter().enumerate() {
            self.nodes.push(class.node());
            let places = if number < plan.leaves { 1 } else { PRIORITIES };
            let (own, lent) = (weights.own[number], weights.lent[number]);
            self.places.extend((0..places).map(|_| place(own, lent)));
        }
        self.nodes.push(Node {
            parent: link as u32,
            level: (plan.levels - 1) as u8,
            ..Node::default()
        });
        let of_link = || place(Weight::default(), Weight::default());
        self.places.extend((0..PRIORITIES).map(|_| of_link()));
        self.rows = Rows::new(plan.levels);
        self.weights = weights;
        self.sets = plan.sets();
        self.lay_shortcuts();
        self.cutoff = self.below_link();
    }

    /// All that a node has counted.
    pub(super) fn tally(&self, number: usize) -> Tally {
        let (Node { recent, flags, .. }, mut tally) = (&self.nodes[number], self.tallies[number]);
        tally.over += recent.over;
        match flags & BORROW {
            0 => tally.delays += recent.times,
            _ => {
                tally.borrows += recent.times;
                tally.borrowed += recent.bytes;
            }
        }
        tally
    }

    /// What is recent joins the rest.
    pub(super) fn settle_tally(&mut self, number: usize) {
        self.tallies[number] = self.tally(number);
        self.nodes[number].recent = Recent::default();
    }

    /// The highest level below the link.
    pub(super) fn below_link(&self) -> u8 {
        self.nodes[self.link()].level - 1
    }

    pub(super) fn leaves(&self) -> usize {
        self.queues.len()
    }

    /// The number of the link.
    pub(super) fn link(&self) -> usize {
        self.nodes.len() - 1
    }

    /// The set of those that want to borrow at this place of a node.
    #[inline]
    pub(super) fn borrowers(&self, owner: u32) -> usize {
        PRIORITIES + owner as usize - self.leaves()
    }

    #[inline]
    pub(super) fn place_of(&self, node: usize, priority: usize) -> u32 {
        let leaves = self.leaves();
        if node < leaves {
            node as u32
        } else {
            (leaves + (node - leaves) * PRIORITIES + priority) as u32
        }
    }

    #[inline]
    pub(super) fn node_at(&self, place: u32) -> usize {
        let (place, leaves) = (place as usize, self.leaves());
        if place < leaves {
            place
        } else {
            leaves + (place - leaves) / PRIORITIES
        }
    }
}
