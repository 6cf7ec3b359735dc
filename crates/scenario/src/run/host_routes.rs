//! The routes of a simulated host, as its RSVP node asks for them.

use rsvp::admission::AdmissionState;
use rsvp::node::Node;
use rsvp::traffic_control::{InterfaceId, Route, Routing};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The node of a simulated host.
pub(super) type SimNode = Node<AdmissionState, HostRoutes>;

/// The routes of one host: the interface towards each address that RSVP concerns.
#[derive(Debug, Default)]
pub(super) struct HostRoutes {
    pub(super) own: Option<IpAddr>,
    pub(super) through: BTreeMap<IpAddr, InterfaceId>,
}

impl Routing for HostRoutes {
    fn route(&self, _source: Option<IpAddr>, destination: IpAddr) -> Route {
        if self.own == Some(destination) {
            return Route::local();
        }
        let through = self.through.get(&destination);
        through.map_or(Route::NONE, |interface| Route::through(*interface))
    }
}
