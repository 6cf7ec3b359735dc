//! Multicast routes of a host, as a routing daemon gives them to the kernel; static ones, as of
//! smcroute. IPv4 only.

use crate::error::{Doing, Result};
use crate::host::Host;
use crate::sys::socket;
use netio::interface::Interface;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

/// The multicast routes of a host. Dropping them removes them.
#[derive(Debug)]
pub struct GroupRoutes {
    router: OwnedFd,
    /// By the number that the kernel knows each by.
    interfaces: Vec<String>,
}

impl GroupRoutes {
    /// No routes yet, between these interfaces of a host, which forwards nothing else to groups.
    ///
    /// # Errors
    /// If the host has a multicast router already, or the kernel cannot be one, or an interface
    /// does not exist.
    pub fn new(host: &Host, interfaces: &[&str]) -> Result<Self> {
        let names: Vec<String> = interfaces.iter().map(|&name| name.into()).collect();
        let doing = || format!("make host `{}` a multicast router", host.name());
        let inside = {
            let names = names.clone();
            move || -> io::Result<OwnedFd> {
                let router = socket::group_router()?;
                for (number, name) in names.iter().enumerate().take(socket::MAX_VIFS) {
                    let index = Interface::named(name)?.index;
                    socket::add_group_interface(&router, number as u16, index)?;
                }
                Ok(router)
            }
        };
        Ok(Self {
            router: host.call(inside)?.doing(doing)?,
            interfaces: names,
        })
    }

    /// What a source sends to a group arrives by `from`, and leaves by all of `to`.
    ///
    /// # Errors
    /// If an interface is not one of these routes, or the kernel refuses.
    pub fn add(&self, source: Ipv4Addr, group: Ipv4Addr, from: &str, to: &[&str]) -> Result<()> {
        let doing = || format!("route {group} from {source} by `{from}`");
        let number = |name: &str| {
            let number = self.interfaces.iter().position(|known| known == name);
            number.ok_or_else(|| io::Error::other(format!("`{name}` is not among the interfaces")))
        };
        let route = || {
            let to: Vec<usize> = to.iter().map(|name| number(name)).collect::<io::Result<_>>()?;
            socket::add_group_route(&self.router, [source, group], number(from)? as u16, &to)
        };
        route().doing(doing)
    }
}
