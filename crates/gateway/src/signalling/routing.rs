//! The kernel's routes, for RSVP.

use super::context::RouteTable;
use control::rsvp_config::AcceptRule;
use netio::routes::Leads;
use rsvp::traffic_control::{InterfaceId, Route, Routing};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

/// The kernel's routes through the interfaces that speak RSVP.
#[derive(Debug)]
pub struct KernelRoutes {
    routes: Box<dyn RouteTable>,
    /// By kernel index.
    interfaces: HashMap<u32, InterfaceId>,
    accept: Vec<AcceptRule>,
}

impl KernelRoutes {
    /// No interfaces yet. Hosts for which the node is a proxy count as local.
    pub fn new(routes: Box<dyn RouteTable>, accept: Vec<AcceptRule>) -> Self {
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
    pub fn kernel(&self) -> &dyn RouteTable {
        self.routes.as_ref()
    }

    /// Where packets of this host are routed; nowhere if the kernel has no route.
    pub fn leads(&self, destination: IpAddr) -> Leads {
        self.routes.to(destination).unwrap_or(Leads::Nowhere)
    }

    /// Whether packets to this address are for this host: it is its own, or a group that one of
    /// its programs has joined.
    pub fn is_own(&self, destination: IpAddr) -> bool {
        match destination {
            IpAddr::V4(group) if group.is_multicast() => self.routes.has_joined(group).unwrap_or(false),
            _ => self.leads(destination) == Leads::Here,
        }
    }

    /// Whether Paths to this address end here: also those to hosts for which the node is a proxy.
    pub fn ends_here(&self, destination: IpAddr) -> bool {
        self.is_own(destination) || self.answers_for(destination)
    }

    fn answers_for(&self, destination: IpAddr) -> bool {
        self.accept.iter().any(|rule| rule.answers_for(destination))
    }

    /// How a group's packets go on: as a multicast routing daemon has it; without one, those of
    /// this host itself leave by the interface of its own route.
    fn route_to_group(&self, source: Ipv4Addr, group: Ipv4Addr) -> Route {
        let of = |interface: &u32| self.interfaces.get(interface).copied();
        let destination = IpAddr::V4(group);
        let local = self.ends_here(destination);
        if let Ok(Some(route)) = self.routes.of_group(source, group) {
            return Route {
                incoming: of(&route.incoming),
                outgoing: route.outgoing.iter().filter_map(of).collect(),
                local,
            };
        }
        let outgoing = match (self.leads(IpAddr::V4(source)), self.leads(destination)) {
            (Leads::Here, Leads::By { interface, .. }) => of(&interface),
            _ => None,
        };
        Route {
            incoming: None,
            outgoing: outgoing.into_iter().collect(),
            local,
        }
    }
}

impl Routing for KernelRoutes {
    fn route(&self, source: Option<IpAddr>, destination: IpAddr) -> Route {
        match (source, destination) {
            (Some(IpAddr::V4(source)), IpAddr::V4(group)) if group.is_multicast() => {
                return self.route_to_group(source, group);
            }
            _ if destination.is_multicast() => return Route::NONE,
            _ => {}
        }
        match self.leads(destination) {
            Leads::Here => Route::local(),
            _ if self.answers_for(destination) => Route::local(),
            Leads::By { interface, .. } => self
                .interfaces
                .get(&interface)
                .map_or(Route::NONE, |&interface| Route::through(interface)),
            Leads::Nowhere => Route::NONE,
        }
    }
}
