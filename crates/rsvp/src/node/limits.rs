//! Limits of a node's state, and which path state makes room for other.
//!
//! Path state without a reservation that was not refreshed since it was looked at last makes room
//! on an interface that is full: a sender that is invented, or that nobody reserves for. It is
//! torn down downstream. Reserved state never makes room; the next request is refused instead.

use super::neighbour::{NextHop, PreviousHop};
use super::state::{Psb, Rsb, SessionKey};
use super::{Event, Node};
use crate::places::{Neighbour, Occupancy, Shortage, places_of};
use crate::traffic_control::{InterfaceId, Routing, TrafficControl};
use crate::wire::{Opaque, SenderTemplate};
use engine::units::Instant;
use std::collections::BTreeMap;

/// How many PSBs are looked at for one that makes room.
const LOOKED_AT: usize = 16;

/// The states that a node bounds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LimitedState {
    /// Senders with path state.
    Senders,
    /// Reservation requests.
    Reservations,
}

/// What happened where there was no room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LimitOutcome {
    /// New state was refused.
    Refused(Shortage),
    /// Path state that nobody had reserved for was torn down.
    Evicted,
}

/// The PSBs of neighbours, by interface, in the order in which they are looked at.
#[derive(Default)]
pub(super) struct EvictionOrder {
    queue: BTreeMap<(InterfaceId, u64), (SessionKey, SenderTemplate)>,
    next: u64,
}

impl EvictionOrder {
    /// Enters a PSB at the end; returns its ticket.
    fn enter(&mut self, interface: InterfaceId, key: SessionKey, sender: SenderTemplate) -> u64 {
        self.next += 1;
        self.queue.insert((interface, self.next), (key, sender));
        self.next
    }
}

const fn neighbour_of(phop: PreviousHop) -> Neighbour {
    Neighbour {
        interface: phop.interface,
        address: phop.hop.address,
    }
}

impl Psb {
    /// The places that it takes.
    pub fn places(&self) -> usize {
        places_of(&[&self.policy, &self.forwarded], 0)
    }
}

impl Rsb {
    /// The places that it takes.
    pub fn places(&self) -> usize {
        let scope = self.scope.as_ref().map_or(0, Vec::len);
        rsb_places(self.entries.len(), scope, &[&self.policy, &self.forwarded])
    }
}

/// The places of an RSB with so many entries, and so many addresses in its SCOPE.
pub(super) fn rsb_places(entries: usize, scope: usize, objects: &[&[Opaque]]) -> usize {
    const ADDRESS: usize = 17;
    entries + places_of(objects, scope * ADDRESS) - 1
}

/// The places of the state blocks of a node.
#[derive(Default)]
pub(super) struct NodeOccupancy {
    senders: Occupancy,
    reservations: Occupancy,
    order: EvictionOrder,
}

impl NodeOccupancy {
    /// A PSB has come, with its previous hop.
    pub fn psb_added(&mut self, key: SessionKey, sender: SenderTemplate, psb: &mut Psb) {
        if let Some(phop) = psb.phop {
            self.senders.change(neighbour_of(phop), 0, psb.places());
            psb.ticket = self.order.enter(phop.interface, key, sender);
        }
    }

    /// A PSB has gone.
    pub fn psb_removed(&mut self, psb: &Psb) {
        if let Some(phop) = psb.phop {
            self.senders.change(neighbour_of(phop), psb.places(), 0);
            self.order.queue.remove(&(phop.interface, psb.ticket));
        }
    }

    /// The RSB of a next hop took so many places and takes so many now.
    pub fn rsb_changed(&mut self, nhop: NextHop, before: usize, after: usize) {
        if let Some(neighbour) = next_hop(nhop) {
            self.reservations.change(neighbour, before, after);
        }
    }
}

const fn next_hop(nhop: NextHop) -> Option<Neighbour> {
    match nhop {
        NextHop::Local(_) => None,
        NextHop::Remote(hop) => Some(Neighbour {
            interface: hop.lih,
            address: hop.address,
        }),
    }
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// Whether a next hop may have this many more places; if not, it is reported.
    pub(super) fn admit_rsb(&mut self, nhop: NextHop, more: usize) -> bool {
        let Some(neighbour) = next_hop(nhop) else {
            return true;
        };
        let limits = &self.settings.max_reservations;
        match self.occupancy.reservations.room(limits, neighbour, more) {
            Ok(()) => true,
            Err(shortage) => {
                self.events.push_back(Event::Limited {
                    state: LimitedState::Reservations,
                    neighbour,
                    outcome: LimitOutcome::Refused(shortage),
                });
                false
            }
        }
    }

    /// Finds places for the PSB of a neighbour: there are some, or path state without a
    /// reservation makes room.
    pub(super) fn admit_psb(
        &mut self,
        now: Instant,
        key: SessionKey,
        sender: SenderTemplate,
        new: &Psb,
    ) -> bool {
        let Some(neighbour) = new.phop.map(neighbour_of) else {
            return true;
        };
        let known = self.state(key).and_then(|state| state.psbs.get(&sender));
        let same = known.filter(|known| known.phop.map(neighbour_of) == Some(neighbour));
        let more = new.places().saturating_sub(same.map_or(0, |same| same.places()));
        loop {
            let limits = &self.settings.max_senders;
            let shortage = match self.occupancy.senders.room(limits, neighbour, more) {
                Ok(()) => return true,
                Err(shortage) => shortage,
            };
            let from = match shortage {
                Shortage::Neighbour => None,
                Shortage::Interface => Some(neighbour.interface),
                Shortage::Total => self.occupancy.senders.fullest(),
            };
            if !from.is_some_and(|from| self.evict(now, from, (key, sender))) {
                self.events.push_back(Event::Limited {
                    state: LimitedState::Senders,
                    neighbour,
                    outcome: LimitOutcome::Refused(shortage),
                });
                return false;
            }
        }
    }

    /// Tears down the path state on an interface that makes room first, other than that of `new`;
    /// returns whether there is any.
    fn evict(&mut self, now: Instant, interface: InterfaceId, new: (SessionKey, SenderTemplate)) -> bool {
        for _ in 0..LOOKED_AT {
            let mut queue = self
                .occupancy
                .order
                .queue
                .range((interface, 0)..=(interface, u64::MAX));
            let Some((at, (key, sender))) = queue.next().map(|(at, psb)| (*at, *psb)) else {
                return false;
            };
            self.occupancy.order.queue.remove(&at);
            let ticket = self.occupancy.order.enter(interface, key, sender);
            let Some(state) = self.sessions.0.get_mut(&key) else {
                continue;
            };
            let reserved = state.is_reserved(&sender);
            let Some(psb) = state.psbs.get_mut(&sender) else {
                continue;
            };
            psb.ticket = ticket;
            let refreshed = core::mem::take(&mut psb.refreshed);
            let Some(neighbour) = psb.phop.map(neighbour_of) else {
                continue;
            };
            if refreshed || reserved || (key, sender) == new {
                continue;
            }
            self.remove_psb(now, key, sender);
            self.events.push_back(Event::Limited {
                state: LimitedState::Senders,
                neighbour,
                outcome: LimitOutcome::Evicted,
            });
            return true;
        }
        false
    }
}
