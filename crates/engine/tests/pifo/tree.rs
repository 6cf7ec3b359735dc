//! A PIFO tree: an oracle of departure order, which shares no code with the disciplines.
//!
//! Follows Sivaraman et al., "Programmable packet scheduling at line rate", SIGCOMM 2016. A PIFO is
//! a queue into which elements are pushed by rank and from which only the least leaves; equal ranks
//! leave in the order of their arrival. Each node of the tree has one: a leaf's has packets, that
//! of an inner node has references to its children. A packet that arrives is pushed at every node
//! from the root down to its leaf, with a rank that the node's rule computes there and then and
//! that never changes; a departure pops the root, then the child that came out, down to a packet.
//!
//! The rules, as ranks:
//! - Order of arrival: all ranks are equal.
//! - Strict priority: the larger priority has the smaller rank.
//! - Weighted round robin: a packet's slot, counted over all cycles. It is the first one of its
//!   class that no earlier packet has, and that is not before the slot which left last.
//! - Deficit round robin, and fair queueing made of it: the visit in which the packet is sent,
//!   which follows from the lengths queued before it. Visits are ordered by their round, then by
//!   the place of the class in the circle. A class becomes active just before the one visited last.
//!
//! A rank is computed from the packet that arrives. Deficit round robin counts the packet that
//! leaves, so the two agree only where its children keep the order of arrival.

use std::collections::BTreeMap;

/// Less leaves first: a round or cycle, then a place in it.
type Rank = (u64, Vec<u64>);

/// A packet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its number, in the order of arrival.
    pub number: u64,
    /// Its length.
    pub len: u64,
}

/// How a node ranks its children.
#[derive(Clone, Debug)]
pub enum Rule {
    /// In the order of arrival.
    Arrivals,
    /// By priority: the largest first.
    Priority(Vec<u8>),
    /// By slots.
    Slots(Slots),
    /// By visits.
    Visits(Visits),
}

/// Weighted round robin.
#[derive(Clone, Debug)]
pub struct Slots {
    /// Where each child's slots are in a cycle, ascending.
    pub places: Vec<Vec<u64>>,
    /// The number of each child's first slot that is free, over all cycles.
    free: Vec<u64>,
    /// The cycle and the place of the slot that left last.
    last: (u64, u64),
}

/// Each interleaved cycle is divided so finely that every slot of up to 8 has a whole place.
const FINE: u64 = 2 * 840;

impl Slots {
    /// The slots of each child side by side.
    pub fn side_by_side(weights: &[u64]) -> Self {
        let mut first = 0;
        let mut places = |&weight: &u64| {
            first += weight;
            (first - weight..first).collect()
        };
        Self::at(weights.iter().map(&mut places).collect())
    }

    /// The *k*-th of *w* slots at (2*k* + 1) / 2*w* of the cycle.
    pub fn spread(weights: &[u64]) -> Self {
        let places = |&weight: &u64| (0..weight).map(|k| (2 * k + 1) * FINE / (2 * weight)).collect();
        Self::at(weights.iter().map(places).collect())
    }

    fn at(places: Vec<Vec<u64>>) -> Self {
        Self {
            free: vec![0; places.len()],
            places,
            last: (0, 0),
        }
    }

    fn rank(&mut self, child: usize) -> (u64, u64) {
        let places = &self.places[child];
        let weight = places.len() as u64;
        let slot = |number: u64| (number / weight, places[(number % weight) as usize]);
        let mut number = self.free[child].max(self.last.0 * weight);
        while slot(number) < self.last {
            number += 1;
        }
        self.free[child] = number + 1;
        slot(number)
    }
}

/// Deficit round robin.
#[derive(Clone, Debug)]
pub struct Visits {
    /// What each child may send in a visit.
    pub quanta: Vec<u64>,
    children: Vec<Visited>,
    /// How often a child has become active.
    joined: u64,
    /// The visit in which a packet left last.
    last: Rank,
}

/// A child that is visited.
#[derive(Clone, Default, Debug)]
struct Visited {
    queued: u64,
    /// Where it stands in the circle.
    place: Vec<u64>,
    /// The round of its last packet, and what is left of its deficit after that.
    round: u64,
    deficit: u64,
}

/// The end of a place. Places are compared like words, so that [7, 3, END] is between [7, 2, END]
/// and [7, END]: there is always room for another just before one, behind those put there earlier.
const END: u64 = u64::MAX;

impl Visits {
    /// Of children with these quanta.
    pub fn new(quanta: Vec<u64>) -> Self {
        Self {
            children: vec![Visited::default(); quanta.len()],
            quanta,
            joined: 0,
            last: (0, vec![END]),
        }
    }

    /// A child becomes active: its first visit is in the next round, before that of the child which
    /// was visited last and behind all that were visited before that one.
    fn join(&mut self, child: usize) {
        self.joined += 1;
        if self.children.iter().all(|child| child.queued == 0) {
            self.last.1 = vec![END];
        }
        let before = &self.last.1[..self.last.1.len() - 1];
        self.children[child] = Visited {
            queued: 0,
            place: [before, &[self.joined, END]].concat(),
            round: self.last.0 + 1,
            deficit: self.quanta[child],
        };
    }

    fn rank(&mut self, child: usize, len: u64) -> Rank {
        if self.children[child].queued == 0 {
            self.join(child);
        }
        let (quantum, one) = (self.quanta[child], &mut self.children[child]);
        one.queued += 1;
        while len > one.deficit {
            (one.round, one.deficit) = (one.round + 1, one.deficit + quantum);
        }
        one.deficit -= len;
        (one.round, one.place.clone())
    }
}

impl Rule {
    /// The rank of a packet of this child.
    fn rank(&mut self, child: usize, len: u64) -> Rank {
        match self {
            Self::Arrivals => (0, Vec::new()),
            Self::Priority(priorities) => (u64::from(u8::MAX - priorities[child]), Vec::new()),
            Self::Slots(slots) => {
                let (cycle, place) = slots.rank(child);
                // Of slots at the same place the first child's goes first.
                (cycle, vec![place, child as u64])
            }
            Self::Visits(visits) => visits.rank(child, len),
        }
    }

    /// A packet of this child, with this rank, leaves.
    fn popped(&mut self, child: u64, rank: Rank) {
        match self {
            Self::Arrivals | Self::Priority(_) => {}
            Self::Slots(slots) => slots.last = (rank.0, rank.1[0]),
            Self::Visits(visits) => {
                visits.last = rank;
                visits.children[child as usize].queued -= 1;
            }
        }
    }
}

/// A node of the tree, with all below it.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its rule.
    pub rule: Rule,
    /// None for a leaf.
    pub children: Vec<Node>,
    /// By rank and arrival: a child, or a leaf's packet.
    pifo: BTreeMap<(Rank, u64), u64>,
}

impl Node {
    /// A node.
    pub fn new(rule: Rule, children: Vec<Self>) -> Self {
        Self {
            rule,
            children,
            pifo: BTreeMap::new(),
        }
    }

    /// A packet arrives for the leaf at the end of this path.
    pub fn push(&mut self, path: &[usize], arrival: Arrival) {
        let (child, below) = match path {
            [] => (0, None),
            [child, below @ ..] => (*child, Some(below)),
        };
        let rank = self.rule.rank(child, arrival.len);
        let element = if below.is_some() {
            child as u64
        } else {
            arrival.number
        };
        self.pifo.insert((rank, arrival.number), element);
        if let Some(below) = below {
            self.children[child].push(below, arrival);
        }
    }

    /// The number of the packet that departs.
    pub fn pop(&mut self) -> Option<u64> {
        let ((rank, _), element) = self.pifo.pop_first()?;
        self.rule.popped(element, rank);
        match self.children.get_mut(element as usize) {
            Some(child) => child.pop(),
            None => Some(element),
        }
    }
}
