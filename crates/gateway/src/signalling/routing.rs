//! The kernel's routes, as RSVP asks for them.

use control::rsvp_config::Accept;
use netio::routes::{Leads, Routes};
use rsvp::traffic_control::{InterfaceId, Route, Routing};
use std::collections::HashMap;
use std::net::IpAddr;

/// The kernel's routes over the interfaces on which RSVP is spoken.
#[derive(Debug)]
pub struct KernelRoutes {
    routes: Routes,
    /// By the kernel's number.
    interfaces: HashMap<u32, InterfaceId>,
    accept: Vec<Accept>,
}

impl KernelRoutes {
    /// Over no interfaces yet. Hosts that are answered for are as if they were here.
    pub fn new(routes: Routes, accept: Vec<Accept>) -> Self {
        Self {
            routes,
            interfaces: HashMap::new(),
            accept,
        }
    }

    /// The interfaces, by the kernel's numbers.
    pub fn set(&mut self, interfaces: HashMap<u32, InterfaceId>) {
        self.interfaces = interfaces;
    }

    /// The kernel's routes themselves.
    pub fn kernel(&self) -> &Routes {
        &self.routes
    }

    /// Where packets to a host go. What the kernel does not answer leads nowhere.
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
