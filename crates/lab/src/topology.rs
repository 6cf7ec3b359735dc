//! A lab: hosts, and the links between them.

use crate::error::Result;
use crate::host::{Host, check_interface_name};

/// Hosts joined by links. It ends when it is dropped, with its links and, when their last holders are gone,
/// its hosts.
#[derive(Debug, Default)]
pub struct Lab {
    hosts: Vec<Host>,
}

impl Lab {
    /// An empty lab.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a host.
    pub fn host(&mut self, name: &str) -> Result<Host> {
        let host = Host::new(name)?;
        self.hosts.push(host.clone());
        Ok(host)
    }

    /// The hosts, in the order in which they were added.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Joins two hosts by a pair of interfaces of the kernel's: no limit, no delay. Both are up afterwards.
    pub fn veth(&mut self, a: (&Host, &str), b: (&Host, &str)) -> Result<()> {
        check_interface_name(a.1)?;
        check_interface_name(b.1)?;
        a.0.netlink(|n| n.veth(a.1, b.1, b.0.namespace()))?;
        for (host, interface) in [a, b] {
            host.netlink(|n| n.up(interface))?;
        }
        Ok(())
    }
}
