//! The kernel's routes, for RSVP.

use control::rsvp_config::AcceptRule;
use netio::routes::{Leads, Routes};
use rsvp::traffic_control::{InterfaceId, Route, Routing};
use std::collections::HashMap;
use std::net::IpAddr;

/// The kernel's routes through the interfaces that speak RSVP.
#[derive(Debug)]
pub struct KernelRoutes {
    routes: Routes,
    /// By kernel index.
    interfaces: HashMap<u32, InterfaceId>,
    accept: Vec<AcceptRule>,
}

impl KernelRoutes {
    /// No interfaces yet. Hosts for which the node is a proxy count as local.
    pub fn new(routes: Routes, accept: Vec<AcceptRule>) -> Self {
        Self {
            routes,
            interfaces: HashMap::new(),
            accept,
        }
    }

    /// Sets the interfaces, by kernel index.
    pub fn set(&mut self, interfaces: HashMap<u32, InterfaceId>) {
        self.interfaces = interfaces;
    }

    /// The kernel's routes.
    pub fn kernel(&self) -> &Routes {
        &self.routes
    }

    /// Where packets to a host are routed; nowhere if the kernel has no route.
    pub fn leads(&self, destination: IpAddr) -> Leads {
        self.routes.to(destination).unwrap_or(Leads::Nowhere)
    }
}

impl Routing for KernelRoutes {
    fn route(&self, _source: Option<IpAddr>, destination: IpAddr) -> Route {
        if destination.is_multicast() {
            return Route::NONE;
        }
        match self.leads(destination) {
            Leads::Here => Route::local(),
            _ if self.accept.iter().any(|rule| rule.answers_for(destination)) => Route::local(),
            Leads::By { interface, .. } => self
                .interfaces
                .get(&interface)
                .map_or(Route::NONE, |&interface| Route::through(interface)),
            Leads::Nowhere => Route::NONE,
        }
    }
}
