//! The kernel's routes: lookup of a destination, this host's addresses, and notification of
//! changes.
//!
//! By netlink (`rtnetlink(7)`). Nothing is cached: a lookup takes microseconds, and is always
//! current.

use crate::netlink::{Netlink, NetlinkRequest, attribute, word};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// The result of a route lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leads {
    /// The address is one of this host.
    Here,
    /// Packets leave through this interface.
    By {
        /// The index of the interface.
        interface: u32,
        /// The preferred source address.
        source: Option<IpAddr>,
    },
    /// There is no unicast route.
    Nowhere,
}

/// An address of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnAddress {
    /// The interface's index.
    pub interface: u32,
    /// The address.
    pub address: IpAddr,
}

/// Looks up routes and addresses.
#[derive(Debug)]
pub struct Routes(Netlink);

impl Routes {
    /// For the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses a netlink socket.
    pub fn open() -> io::Result<Self> {
        Netlink::open().map(Self)
    }

    /// Looks up the route to this address.
    ///
    /// # Errors
    ///
    /// Returns an error if netlink fails, or the kernel refuses for a reason other than a missing
    /// route.
    pub fn to(&self, destination: IpAddr) -> io::Result<Leads> {
        let (family, len) = match destination {
            IpAddr::V4(_) => (libc::AF_INET, 32),
            IpAddr::V6(_) => (libc::AF_INET6, 128),
        };
        // `struct rtmsg`: only the family and the prefix length of the destination are set.
        let mut fixed = [0; RTMSG];
        (fixed[0], fixed[1]) = (family as u8, len);
        let request = NetlinkRequest::new(libc::RTM_GETROUTE, 0, &fixed);
        let request = match destination {
            IpAddr::V4(address) => request.with(libc::RTA_DST, &address.octets()),
            IpAddr::V6(address) => request.with(libc::RTA_DST, &address.octets()),
        };
        match self.0.ask(request) {
            Ok(answer) => Ok(read(&answer)),
            Err(error) => match error.raw_os_error() {
                Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL) => {
                    Ok(Leads::Nowhere)
                }
                // An extended acknowledgement replaced the error number.
                None if matches!(
                    error.kind(),
                    io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable
                ) =>
                {
                    Ok(Leads::Nowhere)
                }
                _ => Err(error),
            },
        }
    }

    /// All addresses of all interfaces.
    ///
    /// # Errors
    ///
    /// Returns an error if netlink fails, or the answer is truncated.
    pub fn addresses(&self) -> io::Result<Vec<OwnAddress>> {
        let answers = self
            .0
            .list(NetlinkRequest::new(libc::RTM_GETADDR, 0, &[0; IFADDRMSG]))?;
        Ok(answers.iter().filter_map(|answer| own(answer)).collect())
    }
}

const RTMSG: usize = 12;
const IFADDRMSG: usize = 8;

fn read(answer: &[u8]) -> Leads {
    let rest = answer.get(RTMSG..).unwrap_or_default();
    match answer.get(7).copied() {
        Some(libc::RTN_LOCAL) => Leads::Here,
        Some(libc::RTN_UNICAST) => match attribute(rest, libc::RTA_OIF).and_then(|value| word(value, 0)) {
            Some(interface) => Leads::By {
                interface,
                source: attribute(rest, libc::RTA_PREFSRC).and_then(address),
            },
            None => Leads::Nowhere,
        },
        _ => Leads::Nowhere,
    }
}

fn own(answer: &[u8]) -> Option<OwnAddress> {
    let rest = answer.get(IFADDRMSG..)?;
    // On a point-to-point interface IFA_LOCAL is ours, and IFA_ADDRESS the peer's.
    let bytes = attribute(rest, libc::IFA_LOCAL).or_else(|| attribute(rest, libc::IFA_ADDRESS))?;
    Some(OwnAddress {
        interface: word(answer, 4)?,
        address: address(bytes)?,
    })
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

/// Notifies of changes of routes, addresses and links.
#[derive(Debug)]
pub struct Changes(Netlink);

impl Changes {
    /// Subscribes to changes in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses a netlink socket, or the subscription.
    pub fn watch() -> io::Result<Self> {
        let groups = libc::RTMGRP_LINK
            | libc::RTMGRP_IPV4_ROUTE
            | libc::RTMGRP_IPV6_ROUTE
            | libc::RTMGRP_IPV4_IFADDR
            | libc::RTMGRP_IPV6_IFADDR;
        Netlink::listen(groups as u32).map(Self)
    }

    /// Whether anything has changed since the last call. Never blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket cannot be read.
    pub fn any(&self) -> io::Result<bool> {
        self.0.drain()
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_addresses_lead_here() {
        let routes = Routes::open().unwrap();
        assert_eq!(routes.to("127.0.0.1".parse().unwrap()).unwrap(), Leads::Here);
        let addresses = routes.addresses().unwrap();
        assert!(
            addresses
                .iter()
                .any(|own| own.address == IpAddr::from([127, 0, 0, 1])),
            "{addresses:?}"
        );
    }

    #[test]
    fn broadcast_and_multicast_lead_nowhere() {
        let routes = Routes::open().unwrap();
        // Neither is a unicast route.
        for address in ["255.255.255.255", "224.0.0.1"] {
            assert_eq!(
                routes.to(address.parse().unwrap()).unwrap(),
                Leads::Nowhere,
                "{address}"
            );
        }
    }

    #[test]
    fn nothing_changes_by_itself() {
        let changes = Changes::watch().unwrap();
        let _ = changes.any().unwrap();
    }
}
