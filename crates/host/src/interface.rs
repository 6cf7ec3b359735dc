//! The interfaces of this host: their counters, addresses and default route.

use crate::sys::{address, socket};
use crate::tick::LinkCounters;
use engine::units::Bytes;
use netio::routes::{Leads, Routes};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;

/// The interface of loopback. Hosts with several links, such as routers and those of a lab, may
/// have their address there: then the route to the other end tells the link.
const LOOPBACK: &str = "lo";

/// The interfaces that connections use, by their local and remote ends.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LinkTable {
    addresses: BTreeMap<IpAddr, String>,
    /// Towards remote ends, of connections whose own address is loopback's.
    towards: BTreeMap<IpAddr, Option<String>>,
}

impl LinkTable {
    /// As it is now, for connections with these ends.
    pub(crate) fn read(ends: impl Iterator<Item = [IpAddr; 2]>) -> io::Result<Self> {
        let mut table = Self {
            addresses: addresses()?,
            towards: BTreeMap::new(),
        };
        let of_loopback = ends.filter(|&ends| table.by_address(ends) == Some(LOOPBACK));
        let remotes: BTreeSet<IpAddr> = of_loopback.map(|[_, remote]| remote).collect();
        table.towards = remotes
            .into_iter()
            .map(|remote| (remote, towards(remote)))
            .collect();
        Ok(table)
    }

    /// That of a connection. None if it stays inside this host, or if no interface has the address.
    pub(crate) fn of(&self, [local, remote]: [IpAddr; 2]) -> Option<&str> {
        match self.by_address([local, remote]) {
            Some(LOOPBACK) => self.towards.get(&remote)?.as_deref(),
            other => other,
        }
    }

    /// Whether it tells where a connection with these ends goes.
    pub(crate) fn knows(&self, [local, remote]: [IpAddr; 2]) -> bool {
        match self.by_address([local, remote]) {
            Some(LOOPBACK) => self.towards.contains_key(&remote),
            _ => self.addresses.contains_key(&local),
        }
    }

    /// The names of all interfaces in it.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.addresses.values().chain(self.towards.values().flatten())
    }

    fn by_address(&self, [local, remote]: [IpAddr; 2]) -> Option<&str> {
        if self.addresses.contains_key(&remote) || remote.is_loopback() {
            return None;
        }
        self.addresses.get(&local).map(String::as_str)
    }
}

/// The interface by which this host sends to an address, by the kernel's routes.
pub(crate) fn towards(remote: IpAddr) -> Option<String> {
    match Routes::open().ok()?.to(remote).ok()? {
        Leads::By { interface, .. } => address::name(interface),
        Leads::Here | Leads::Nowhere => None,
    }
}

/// This network namespace's number: unique until the machine reboots, where the kernel tells it
/// (Linux 5.14), and otherwise among those that exist.
pub(crate) fn namespace() -> u64 {
    let inode = || fs::metadata("/proc/self/ns/net").map_or(0, |metadata| metadata.ino());
    socket::namespace().unwrap_or_else(|_| inode())
}

/// The interface of each address.
pub(crate) fn addresses() -> io::Result<BTreeMap<IpAddr, String>> {
    address::interfaces()
}

/// The counters of all interfaces.
pub(crate) fn counters() -> io::Result<BTreeMap<String, LinkCounters>> {
    fs::read_to_string("/proc/self/net/dev").map(|text| read(&text))
}

/// `  eth0: bytes packets errs drop fifo frame compressed multicast bytes …`
fn read(text: &str) -> BTreeMap<String, LinkCounters> {
    let interface = |line: &str| {
        let (name, counters) = line.split_once(':')?;
        let mut counters = counters.split_ascii_whitespace().map(str::parse::<u64>);
        let received = counters.next()?.ok()?;
        let sent = counters.nth(7)?.ok()?;
        let reading = LinkCounters {
            received: Bytes::new(received),
            sent: Bytes::new(sent),
        };
        Some((name.trim().to_string(), reading))
    };
    text.lines().filter_map(interface).collect()
}

/// The interface of the default route, IPv4 before IPv6.
pub(crate) fn default_interface() -> Option<String> {
    let v4 = fs::read_to_string("/proc/self/net/route").unwrap_or_default();
    let all = v4.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (name, destination) = (words.next()?, words.next()?);
        (destination == "00000000").then(|| name.to_string())
    });
    let v6 = || {
        let text = fs::read_to_string("/proc/self/net/ipv6_route").unwrap_or_default();
        text.lines().find_map(|line| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let name = *words.get(9)?;
            let all = words[0].bytes().all(|b| b == b'0') && words[1] == "00";
            (all && name != LOOPBACK).then(|| name.to_string())
        })
    };
    all.or_else(v6)
}

/// The interface of this name, or that of the default route.
///
/// # Errors
///
/// A message for the user, if there is no such interface or no default route.
pub fn choose(name: Option<&str>) -> Result<String, String> {
    let existing = counters().map_err(|e| format!("cannot list interfaces: {e}"))?;
    let names = || existing.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    match name {
        Some(name) if existing.contains_key(name) => Ok(name.into()),
        Some(name) => Err(format!("there is no interface `{name}`, but {}", names())),
        None => default_interface().ok_or_else(|| {
            format!(
                "no default route: choose an interface with --interface: {}",
                names()
            )
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_with_and_without_a_space_after_the_name() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes\n\
                    eth0:1234567 9 0 0 0 0 0 0 765 8 0 0 0 0 0 0\n    lo: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n";
        let read = read(text);
        assert_eq!(read.len(), 2);
        assert_eq!(
            (read["eth0"].received, read["eth0"].sent),
            (Bytes::new(1_234_567), Bytes::new(765))
        );
        assert_eq!(
            (read["lo"].received, read["lo"].sent),
            (Bytes::new(5), Bytes::new(6))
        );
    }

    #[test]
    fn a_connection_inside_the_host_uses_no_interface() {
        let ip = |text: &str| -> IpAddr { text.parse().expect("an address") };
        let addresses = BTreeMap::from([(ip("10.0.0.1"), "eth0".into()), (ip("127.0.0.1"), "lo".into())]);
        let table = LinkTable {
            addresses,
            ..LinkTable::default()
        };
        let of = |local, remote| table.of([ip(local), ip(remote)]);
        assert_eq!(of("10.0.0.1", "10.0.0.2"), Some("eth0"));
        assert_eq!(of("10.0.0.1", "10.0.0.1"), None);
        assert_eq!(of("127.0.0.1", "127.0.0.3"), None);
        assert_eq!(of("10.0.0.9", "10.0.0.2"), None);
    }

    #[test]
    fn a_connection_from_an_address_of_loopback_uses_the_interface_of_its_route() {
        let ip = |text: &str| -> IpAddr { text.parse().expect("an address") };
        let table = LinkTable {
            addresses: BTreeMap::from([(ip("10.0.9.1"), "lo".into())]),
            towards: BTreeMap::from([(ip("10.0.0.2"), Some("eth0".into())), (ip("10.0.0.3"), None)]),
        };
        let of = |remote| table.of([ip("10.0.9.1"), ip(remote)]);
        let knows = |remote| table.knows([ip("10.0.9.1"), ip(remote)]);
        assert_eq!((of("10.0.0.2"), knows("10.0.0.2")), (Some("eth0"), true));
        assert_eq!(
            (of("10.0.0.3"), knows("10.0.0.3")),
            (None, true),
            "there is no route"
        );
        assert_eq!(
            (of("10.0.0.4"), knows("10.0.0.4")),
            (None, false),
            "not looked up"
        );
        assert_eq!(
            (of("10.0.9.1"), knows("10.0.9.1")),
            (None, true),
            "inside the host"
        );
    }
}
