//! The settings of a node: its interfaces, and bounds on its state.

use crate::places::Places;
use crate::traffic_control::InterfaceId;
use crate::wire::Refresh;
use core::net::IpAddr;
use engine::random::Seed;
use engine::units::Duration;

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
    /// The most senders of neighbours that may have path state; and as many of this host.
    pub max_senders: Places,
    /// The most reservation requests of neighbours, by next hop and sender, that may have state;
    /// and as many of this host.
    pub max_reservations: Places,
    /// The most next hops that may request reservations in one session: each request is merged
    /// with those of the others.
    pub max_next_hops: usize,
    /// The most senders of a session with a shared reservation: each change of it concerns all.
    pub max_shared_senders: usize,
    /// The longest R that is accepted of a neighbour: it bounds the lifetime of its state.
    pub longest_refresh: Refresh,
    /// The seed of the random refresh intervals.
    pub seed: Seed,
}

impl Settings {
    /// At most 100 000 senders and as many reservations, half of them of one interface and a
    /// quarter of one neighbour; Kb = 4.
    pub const fn new(interfaces: Vec<RsvpInterface>, seed: Seed) -> Self {
        Self {
            interfaces,
            blockade_periods: 4,
            max_senders: Places::of(100_000),
            max_reservations: Places::of(100_000),
            max_next_hops: 256,
            max_shared_senders: 1000,
            longest_refresh: Refresh::LONGEST_ACCEPTED,
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

    /// The lifetime of state of a neighbour whose R is this.
    pub(super) fn lifetime(&self, refresh: Refresh) -> Duration {
        refresh.min(self.longest_refresh).lifetime()
    }

    /// R of an interface; 30 s, the default of RFC 2205, for one that does not exist.
    pub(super) fn refresh(&self, interface: InterfaceId) -> Refresh {
        let interface = self.interfaces.get(interface as usize);
        interface.map_or(Refresh::millis(30_000), |interface| interface.refresh)
    }
}
