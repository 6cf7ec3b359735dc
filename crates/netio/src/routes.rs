//! The kernel's routes: lookup of a destination or a group, this host's addresses, and notification
//! of changes.
//!
//! By netlink (`rtnetlink(7)`). Nothing is cached: a lookup takes microseconds, and is always
//! current. Routes of groups are those that a multicast routing daemon has given to the kernel,
//! with IPv4 only; they are read beside it.

use crate::netlink::{Netlink, NetlinkRequest, attribute, word};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
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
    /// There is no route.
    Nowhere,
}

/// How a router forwards what a source sends to a group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupRoute {
    /// The index of the interface on which packets have to arrive.
    pub incoming: u32,
    /// Those of the interfaces by which they leave.
    pub outgoing: Vec<u32>,
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

    /// Looks up the route to this address. Packets that this host itself sends to a group leave by
    /// one interface.
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

    /// How this router forwards what a source sends to a group; `None` if it does not.
    ///
    /// # Errors
    ///
    /// Returns an error if netlink fails, or the kernel refuses for another reason than a missing
    /// route.
    pub fn of_group(&self, source: Ipv4Addr, group: Ipv4Addr) -> io::Result<Option<GroupRoute>> {
        let mut fixed = [0; RTMSG];
        (fixed[0], fixed[1], fixed[2]) = (IPV4_MULTICAST_ROUTES, 32, 32);
        let request = NetlinkRequest::new(libc::RTM_GETROUTE, 0, &fixed)
            .with(libc::RTA_SRC, &source.octets())
            .with(libc::RTA_DST, &group.octets());
        match self.0.ask(request) {
            Ok(answer) => Ok(read_group(&answer)),
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ENOENT | libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EOPNOTSUPP)
                ) || error.kind() == io::ErrorKind::NotFound =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a program on this host has joined a group, on any interface.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel's list cannot be read.
    pub fn has_joined(&self, group: Ipv4Addr) -> io::Result<bool> {
        let list = std::fs::read_to_string("/proc/thread-self/net/igmp")?;
        let wanted = format!("{:08X}", u32::from_ne_bytes(group.octets()));
        Ok(list
            .lines()
            .any(|line| line.split_whitespace().next() == Some(&wanted)))
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
/// `RTNL_FAMILY_IPMR`.
const IPV4_MULTICAST_ROUTES: u8 = 128;
/// `struct rtnexthop`: length, flags, TTL threshold, interface.
const RTNEXTHOP: usize = 8;
const IFADDRMSG: usize = 8;

fn read(answer: &[u8]) -> Leads {
    let rest = answer.get(RTMSG..).unwrap_or_default();
    match answer.get(7).copied() {
        Some(libc::RTN_LOCAL) => Leads::Here,
        Some(libc::RTN_UNICAST | libc::RTN_MULTICAST) => {
            match attribute(rest, libc::RTA_OIF).and_then(|value| word(value, 0)) {
                Some(interface) => Leads::By {
                    interface,
                    source: attribute(rest, libc::RTA_PREFSRC).and_then(address),
                },
                None => Leads::Nowhere,
            }
        }
        _ => Leads::Nowhere,
    }
}

/// None for an entry that waits for its route.
fn read_group(answer: &[u8]) -> Option<GroupRoute> {
    let rest = answer.get(RTMSG..)?;
    let incoming = attribute(rest, libc::RTA_IIF).and_then(|value| word(value, 0))?;
    let mut hops = attribute(rest, libc::RTA_MULTIPATH).unwrap_or_default();
    let mut outgoing = Vec::new();
    while let Some(interface) = word(hops, 4) {
        outgoing.push(interface);
        let len = u16::from_ne_bytes([hops[0], hops[1]]) as usize;
        hops = hops
            .get(len.max(RTNEXTHOP).next_multiple_of(4)..)
            .unwrap_or_default();
    }
    Some(GroupRoute { incoming, outgoing })
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
            | libc::RTMGRP_IPV4_MROUTE
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
    fn broadcast_leads_nowhere() {
        let routes = Routes::open().unwrap();
        let everybody = "255.255.255.255".parse().unwrap();
        assert_eq!(routes.to(everybody).unwrap(), Leads::Nowhere);
    }

    #[test]
    fn a_group_is_joined_while_a_socket_has_joined_it_and_not_forwarded_without_a_daemon() {
        let routes = Routes::open().unwrap();
        let group = Ipv4Addr::new(239, 77, 12, 3);
        assert!(!routes.has_joined(group).unwrap());
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
        assert!(routes.has_joined(group).unwrap());
        assert_eq!(routes.of_group(Ipv4Addr::LOCALHOST, group).unwrap(), None);
    }

    #[test]
    fn the_interfaces_of_a_group_are_read() {
        let hop = |interface: u32| [[8, 0, 0, 1], interface.to_ne_bytes()].concat();
        let attribute = |kind: u16, value: &[u8]| {
            let len = (4 + value.len()) as u16;
            [&len.to_ne_bytes(), &kind.to_ne_bytes(), value].concat()
        };
        let incoming = attribute(libc::RTA_IIF, &7_u32.to_ne_bytes());
        let outgoing = attribute(libc::RTA_MULTIPATH, &[hop(3), hop(9)].concat());
        let answer = [vec![0; RTMSG], incoming.clone(), outgoing].concat();
        let expected = GroupRoute {
            incoming: 7,
            outgoing: vec![3, 9],
        };
        assert_eq!(read_group(&answer), Some(expected));
        // Cut anywhere, it does not panic.
        (0..answer.len()).for_each(|end| drop(read_group(&answer[..end])));
        let pruned = [vec![0; RTMSG], incoming].concat();
        assert_eq!(read_group(&pruned).map(|route| route.outgoing), Some(Vec::new()));
    }

    #[test]
    fn nothing_changes_by_itself() {
        let changes = Changes::watch().unwrap();
        let _ = changes.any().unwrap();
    }
}
