//! The places of a table of state, and how many of them one interface and one neighbour may take.
//!
//! RFC 2205 bounds nothing, and whoever can send a packet on a link can invent sessions, senders
//! and neighbours. Each table here therefore has a limit, an interface gets at most half of its
//! places, and a neighbour at most a quarter: one interface or one neighbour that floods leaves
//! room for the others. Addresses can be invented, interfaces cannot; so the tables that are
//! indexed by invented addresses also make room on an interface that is full.

use crate::traffic_control::InterfaceId;
use crate::wire::Opaque;
use core::net::IpAddr;
use std::collections::BTreeMap;

/// A neighbour: our interface towards it, and its address there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Neighbour {
    /// Our interface.
    pub interface: InterfaceId,
    /// The neighbour's address, as it states it.
    pub address: IpAddr,
}

/// How many places a table has, and how many of them one interface and one neighbour may take.
///
/// A place is one state block. A block that carries objects which are not interpreted takes one
/// more for each KiB of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Places {
    /// All places.
    pub total: usize,
    /// The most that one interface takes.
    pub interface: usize,
    /// The most that one neighbour takes.
    pub neighbour: usize,
}

impl Places {
    /// This many places, half of them for an interface and a quarter for a neighbour.
    pub const fn of(total: usize) -> Self {
        Self {
            total,
            interface: total.div_ceil(2),
            neighbour: total.div_ceil(4),
        }
    }

    /// This many places, all of them for anybody.
    pub const fn unshared(total: usize) -> Self {
        Self {
            total,
            interface: total,
            neighbour: total,
        }
    }
}

/// Which limit of a table has been reached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Shortage {
    /// All places are taken.
    Total,
    /// The interface has its share.
    Interface,
    /// The neighbour has its share.
    Neighbour,
}

/// The length of carried objects that takes one more place.
const CARRIED_PER_PLACE: usize = 1024;

/// The places of a block that carries these objects, and this many more bytes.
pub(crate) fn places_of(objects: &[&[Opaque]], more: usize) -> usize {
    let objects = objects.iter().flat_map(|list| list.iter());
    let bytes: usize = objects.map(|object| object.data.len()).sum();
    1 + (bytes + more) / CARRIED_PER_PLACE
}

/// Who has taken how many places of a table.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    total: usize,
    interfaces: BTreeMap<InterfaceId, usize>,
    neighbours: BTreeMap<Neighbour, usize>,
}

impl Occupancy {
    /// Whether this neighbour may take this many more places.
    ///
    /// # Errors
    ///
    /// The limit that it would exceed.
    pub fn room(&self, limits: &Places, of: Neighbour, more: usize) -> Result<(), Shortage> {
        let neighbour = self.neighbours.get(&of).copied().unwrap_or(0);
        let interface = self.interfaces.get(&of.interface).copied().unwrap_or(0);
        if more == 0 {
            Ok(())
        } else if neighbour + more > limits.neighbour {
            Err(Shortage::Neighbour)
        } else if interface + more > limits.interface {
            Err(Shortage::Interface)
        } else if self.total + more > limits.total {
            Err(Shortage::Total)
        } else {
            Ok(())
        }
    }

    /// How many more places this neighbour may take.
    pub fn left(&self, limits: &Places, of: Neighbour) -> usize {
        let neighbour = self.neighbours.get(&of).copied().unwrap_or(0);
        let interface = self.interfaces.get(&of.interface).copied().unwrap_or(0);
        let neighbour = limits.neighbour.saturating_sub(neighbour);
        let interface = limits.interface.saturating_sub(interface);
        neighbour
            .min(interface)
            .min(limits.total.saturating_sub(self.total))
    }

    /// A block of this neighbour took `before` places and takes `after` now.
    pub fn change(&mut self, of: Neighbour, before: usize, after: usize) {
        self.total = self.total + after - before;
        let interface = self.interfaces.entry(of.interface).or_default();
        *interface = *interface + after - before;
        let neighbour = self.neighbours.entry(of).or_default();
        *neighbour = *neighbour + after - before;
        if *neighbour == 0 {
            self.neighbours.remove(&of);
        }
    }

    /// The interface that has taken the most places.
    pub fn fullest(&self) -> Option<InterfaceId> {
        let interfaces = self.interfaces.iter();
        interfaces.max_by_key(|(_, taken)| **taken).map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn of(interface: InterfaceId, end: u8) -> Neighbour {
        Neighbour {
            interface,
            address: IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, end)),
        }
    }

    #[test]
    fn a_neighbour_and_an_interface_leave_room_for_the_others() {
        let limits = Places::of(8);
        let mut taken = Occupancy::default();
        taken.change(of(0, 1), 0, 2);
        assert_eq!(taken.room(&limits, of(0, 1), 1), Err(Shortage::Neighbour));
        taken.change(of(0, 2), 0, 2);
        assert_eq!(taken.room(&limits, of(0, 3), 1), Err(Shortage::Interface));
        taken.change(of(1, 1), 0, 2);
        assert_eq!(
            (taken.left(&limits, of(1, 2)), taken.left(&limits, of(0, 3))),
            (2, 0)
        );
        taken.change(of(1, 2), 0, 2);
        assert_eq!(taken.room(&limits, of(2, 1), 1), Err(Shortage::Total));
        taken.change(of(0, 1), 2, 0);
        assert_eq!(taken.fullest(), Some(1));
        assert_eq!(taken.room(&limits, of(2, 1), 1), Ok(()));
        assert_eq!(taken.neighbours.len(), 3);
    }
}
