//! The neighbours of a node in a session: the previous hop of a Path and the next hop of a Resv.

use super::event::ReceiverId;
use crate::traffic_control::InterfaceId;
use crate::wire::Hop;

/// A previous hop (PHOP): its RSVP_HOP, and our interface towards it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PreviousHop {
    /// The hop's address and logical interface handle, from its Path messages.
    pub hop: Hop,
    /// Our interface on which those arrive.
    pub interface: InterfaceId,
}

/// A next hop (NHOP): where a reservation request came from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NextHop {
    /// A receiver application on this host.
    Local(ReceiverId),
    /// A neighbour, behind the interface whose handle its RSVP_HOP returns.
    Remote(Hop),
}
