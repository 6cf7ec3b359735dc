//! What a node is told: its interfaces, and how much it may remember.

use crate::traffic_control::InterfaceId;
use crate::wire::Refresh;
use core::net::IpAddr;
use engine::random::Seed;

/// An interface that RSVP is spoken on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// The node's addresses there; the first of each family is used. None: the interface is not used.
    pub addresses: Vec<IpAddr>,
    /// R: state sent by this interface is refreshed once in this many milliseconds, on average.
    pub refresh: Refresh,
}

/// What a node is told at construction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The interfaces, in the order of their identifiers.
    pub interfaces: Vec<Interface>,
    /// Kb of RFC 2205, section 3.5: a request that has failed is kept from others for so many refresh periods.
    pub blockade: u32,
    /// Senders that are remembered at most; more are refused, so that no one can fill the memory.
    pub most_senders: usize,
    /// Requests, by next hop and sender, that are remembered at most.
    pub most_reservations: usize,
    /// The node's luck.
    pub seed: Seed,
}

impl Settings {
    /// Room for 100 000 senders and requests, and a blockade of four refresh periods.
    pub const fn new(interfaces: Vec<Interface>, seed: Seed) -> Self {
        Self {
            interfaces,
            blockade: 4,
            most_senders: 100_000,
            most_reservations: 100_000,
            seed,
        }
    }

    /// The address of an interface that is of the same family as this one.
    pub(super) fn address(&self, interface: InterfaceId, like: IpAddr) -> Option<IpAddr> {
        let interface = self.interfaces.get(interface as usize)?;
        let alike = |address: &&IpAddr| address.is_ipv4() == like.is_ipv4();
        interface.addresses.iter().find(alike).copied()
    }

    /// Whether an address is one of this node's.
    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        let mut addresses = self.interfaces.iter().flat_map(|interface| &interface.addresses);
        addresses.any(|own| *own == address)
    }

    /// R of an interface.
    pub(super) fn refresh(&self, interface: InterfaceId) -> Refresh {
        let interface = self.interfaces.get(interface as usize);
        interface.map_or(Refresh::millis(30_000), |interface| interface.refresh)
    }
}
