//! The neighbours of a node: what is known of each, and what waits to be sent to it.
//!
//! A neighbour is an interface and an address that a message states, and anybody can state any
//! address. The table is therefore bounded, an interface takes at most half of it, and a neighbour
//! that is silent for the lifetime of what it sent last is forgotten. Where an interface has its
//! share, the neighbour that was heard longest ago makes room, and one that has acknowledged a
//! message of ours only after a minute of silence: it has received something at its address, which
//! the sender of an invented one has not. A neighbour without a place gets plain RSVP.

use super::received::ReceivedMessages;
use crate::places::{Neighbour, Occupancy, Places};
use crate::traffic_control::InterfaceId;
use crate::wire::MessageIdAck;
use core::net::IpAddr;
use engine::units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};

/// The shortest time for which a neighbour is remembered.
pub(super) const SHORTEST_MEMORY: Duration = Duration::from_secs(30);

/// How long a neighbour that has acknowledged a message of ours keeps its place against others.
const RESPECT: Duration = Duration::from_secs(60);

/// The most acknowledgements that wait for a neighbour. One that is not sent is requested again.
const MAX_ACKS: usize = 2048;

/// What is known of a neighbour, and what waits to be sent to it.
#[derive(Default)]
pub(super) struct NeighbourState {
    pub capable: bool,
    pub received: ReceivedMessages,
    pub acks: Vec<MessageIdAck>,
    pub acks_at: Option<Instant>,
    pub summary: BTreeSet<u32>,
    pub summary_at: Option<Instant>,
    /// It has acknowledged a message of ours.
    proven: bool,
    heard: Instant,
    expires: Instant,
    /// The time of its entry in the timer queue.
    armed: Option<Instant>,
}

impl NeighbourState {
    /// Notes an acknowledgement to send at this time, if there is room for it.
    pub fn acknowledge(&mut self, ack: MessageIdAck, at: Instant) {
        if self.acks.len() < MAX_ACKS {
            self.acks.push(ack);
            let earliest = self.acks_at.map_or(at, |known| known.min(at));
            self.acks_at = Some(earliest);
        }
    }

    /// It has refreshed state of this lifetime.
    pub fn prolong(&mut self, now: Instant, lifetime: Duration) {
        self.expires = self.expires.max(now + lifetime);
    }

    /// Takes the MESSAGE_IDs that wait, and counts the acknowledgements, which go with the next
    /// messages. One that does not support refresh reduction any more gets neither.
    pub fn take_waiting(&mut self) -> Waiting {
        self.summary_at = None;
        self.acks_at = None;
        let ids = core::mem::take(&mut self.summary);
        if !self.capable {
            self.acks.clear();
            return Waiting::default();
        }
        Waiting {
            ids: ids.into_iter().collect(),
            acks: self.acks.len(),
        }
    }

    fn due(&self) -> Instant {
        let waiting = self.acks_at.into_iter().chain(self.summary_at);
        waiting
            .chain(self.received.due())
            .fold(self.expires, Instant::min)
    }
}

/// What waits for a neighbour: MESSAGE_IDs to summarise, and so many acknowledgements.
#[derive(Default)]
pub(super) struct Waiting {
    pub ids: Vec<u32>,
    pub acks: usize,
}

/// A neighbour's position among those of its interface: the first makes room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Seniority {
    interface: InterfaceId,
    proven: bool,
    heard: Instant,
    address: IpAddr,
}

/// The neighbours of an interface: all, and those that support refresh reduction.
#[derive(Clone, Copy, Default)]
struct NeighbourCount {
    all: usize,
    capable: usize,
}

/// How often a neighbour made room for another, and how often one found none.
#[derive(Clone, Copy, Default)]
pub(super) struct NeighbourLimits {
    pub evicted: u64,
    pub refused: u64,
}

/// What a message states of the neighbour that sent it.
#[derive(Clone, Copy)]
pub(super) struct Appearance {
    pub capable: bool,
    /// The message acknowledges one of ours.
    pub proven: bool,
    /// The lifetime of the state that it refreshes.
    pub lifetime: Duration,
}

/// The table.
pub(super) struct Neighbours {
    limits: Places,
    table: BTreeMap<Neighbour, NeighbourState>,
    interfaces: BTreeMap<InterfaceId, NeighbourCount>,
    order: BTreeSet<Seniority>,
    timers: BTreeSet<(Instant, Neighbour)>,
    /// The messages that are stored, of all neighbours.
    stored_limits: Places,
    stored: Occupancy,
    counts: NeighbourLimits,
}

impl Neighbours {
    pub fn new(limits: Places, stored_limits: Places) -> Self {
        Self {
            limits,
            table: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            order: BTreeSet::new(),
            timers: BTreeSet::new(),
            stored_limits,
            stored: Occupancy::default(),
            counts: NeighbourLimits::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn counts(&self) -> NeighbourLimits {
        self.counts
    }

    pub fn contains(&self, neighbour: Neighbour) -> bool {
        self.table.contains_key(&neighbour)
    }

    pub fn get(&self, neighbour: Neighbour) -> Option<&NeighbourState> {
        self.table.get(&neighbour)
    }

    /// Whether all neighbours on this interface support refresh reduction; none if there are none.
    pub fn all_capable(&self, interface: InterfaceId) -> Option<bool> {
        let count = self.interfaces.get(&interface).filter(|count| count.all > 0)?;
        Some(count.all == count.capable)
    }

    /// A message has arrived from this neighbour. Returns whether it has a place.
    pub fn appear(&mut self, now: Instant, at: Neighbour, seen: Appearance) -> bool {
        if !self.table.contains_key(&at) && !self.make_room(now, at.interface) {
            self.counts.refused += 1;
            return false;
        }
        let known = self.table.contains_key(&at);
        let state = self.table.entry(at).or_default();
        let count = self.interfaces.entry(at.interface).or_default();
        if known {
            self.order.remove(&seniority(at, state));
            count.capable -= usize::from(state.capable);
        } else {
            count.all += 1;
        }
        count.capable += usize::from(seen.capable);
        state.capable = seen.capable;
        state.proven |= seen.proven;
        state.heard = now;
        let lifetime = seen.lifetime.max(SHORTEST_MEMORY);
        state.expires = state.expires.max(now + lifetime);
        self.order.insert(seniority(at, state));
        self.arm(at);
        true
    }

    /// Finds a place for one more neighbour on this interface.
    fn make_room(&mut self, now: Instant, interface: InterfaceId) -> bool {
        let taken = |count: &NeighbourCount| count.all;
        let here = self.interfaces.get(&interface).map_or(0, taken);
        let from = if here >= self.limits.interface {
            interface
        } else if self.table.len() >= self.limits.total {
            let interfaces = self.interfaces.iter();
            let fullest = interfaces.max_by_key(|(_, count)| count.all);
            fullest.map_or(interface, |(id, _)| *id)
        } else {
            return true;
        };
        let first = Seniority {
            interface: from,
            proven: false,
            heard: Instant::START,
            address: IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
        };
        let first = self.order.range(first..).next().copied();
        let Some(first) = first.filter(|first| first.interface == from) else {
            return false;
        };
        if first.proven && now < first.heard + RESPECT {
            return false;
        }
        self.counts.evicted += 1;
        self.remove(Neighbour {
            interface: from,
            address: first.address,
        });
        true
    }

    /// Changes what is known of a neighbour, if it has a place.
    pub fn update<T>(&mut self, at: Neighbour, change: impl FnOnce(&mut NeighbourState) -> T) -> Option<T> {
        let changed = change(self.table.get_mut(&at)?);
        self.arm(at);
        Some(changed)
    }

    /// Changes the stored messages of a neighbour, if it has a place; `change` is told how many
    /// more places they may take.
    pub fn update_received<T>(
        &mut self,
        at: Neighbour,
        change: impl FnOnce(&mut ReceivedMessages, usize) -> T,
    ) -> Option<T> {
        let left = self.stored.left(&self.stored_limits, at);
        let state = self.table.get_mut(&at)?;
        let before = state.received.places();
        let changed = change(&mut state.received, left);
        self.stored.change(at, before, state.received.places());
        self.arm(at);
        Some(changed)
    }

    fn arm(&mut self, at: Neighbour) {
        let Some(state) = self.table.get_mut(&at) else {
            return;
        };
        let due = state.due();
        if state.armed.is_none_or(|armed| due < armed) {
            if let Some(armed) = state.armed.replace(due) {
                self.timers.remove(&(armed, at));
            }
            self.timers.insert((due, at));
        }
    }

    /// When a neighbour is due first; sometimes a little early.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The next neighbour to which something is to be sent now. Messages and neighbours whose
    /// lifetime has ended are forgotten on the way.
    pub fn pop_due(&mut self, now: Instant) -> Option<Neighbour> {
        while let Some((_, at)) = self.timers.first().copied().filter(|(due, _)| *due <= now) {
            self.timers.pop_first();
            let Some(state) = self.table.get_mut(&at) else {
                continue;
            };
            state.armed = None;
            if state.expires <= now {
                self.remove(at);
                continue;
            }
            let waiting = state.acks_at.into_iter().chain(state.summary_at).min();
            self.update_received(at, |received, _| received.forget_expired(now));
            if waiting.is_some_and(|waiting| waiting <= now) {
                return Some(at);
            }
        }
        None
    }

    fn remove(&mut self, at: Neighbour) {
        let Some(state) = self.table.remove(&at) else {
            return;
        };
        self.order.remove(&seniority(at, &state));
        if let Some(armed) = state.armed {
            self.timers.remove(&(armed, at));
        }
        self.stored.change(at, state.received.places(), 0);
        if let Some(count) = self.interfaces.get_mut(&at.interface) {
            count.all -= 1;
            count.capable -= usize::from(state.capable);
        }
    }
}

const fn seniority(at: Neighbour, state: &NeighbourState) -> Seniority {
    Seniority {
        interface: at.interface,
        proven: state.proven,
        heard: state.heard,
        address: at.address,
    }
}
