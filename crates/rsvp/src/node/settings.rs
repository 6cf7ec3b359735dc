//! The settings of a node: its interfaces, and bounds on its state.

use crate::traffic_control::InterfaceId;
use crate::wire::Refresh;
use core::net::IpAddr;
use engine::random::Seed;

/// An interface on which the node speaks RSVP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RsvpInterface {
    /// The node's addresses there; the first of each family is used. Empty: the interface is not
    /// used.
    pub addresses: Vec<IpAddr>,
    /// R: the mean refresh period of state sent through this interface.
    pub refresh: Refresh,
}

/// The settings of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The interfaces, in the order of their identifiers.
    pub interfaces: Vec<RsvpInterface>,
    /// Kb of RFC 2205, section 3.5: blockade state lasts Kb refresh periods.
    pub blockade_periods: u32,
    /// The most senders that may have path state; bounds memory against floods of Path messages.
    pub max_senders: usize,
    /// The most reservation requests, by next hop and sender, that may have state.
    pub max_reservations: usize,
    /// The seed of the random refresh intervals.
    pub seed: Seed,
}

impl Settings {
    /// At most 100 000 senders and as many reservations, and Kb = 4.
    pub const fn new(interfaces: Vec<RsvpInterface>, seed: Seed) -> Self {
        Self {
            interfaces,
            blockade_periods: 4,
            max_senders: 100_000,
            max_reservations: 100_000,
            seed,
        }
    }

    /// The address of an interface of the same family as `like`.
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

    /// R of an interface; 30 s, the default of RFC 2205, for one that does not exist.
    pub(super) fn refresh(&self, interface: InterfaceId) -> Refresh {
        let interface = self.interfaces.get(interface as usize);
        interface.map_or(Refresh::millis(30_000), |interface| interface.refresh)
    }
}
