//! The link of a connection in another network namespace, such as a container's.
//!
//! Its socket can be borrowed like any other, but its interface is not among this host's. If the
//! namespace sends through this one, as behind a bridge with address translation, the connection
//! loads the link by which this host sends to the remote end, and that interface's counters
//! include it. Whether it does is seen from its route: the gateway is an address of this host. One
//! with a device of its own (macvlan, a moved interface) loads a link that is not known here.

use crate::interface;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where a connection of another network namespace goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum GuestLink {
    /// Through this host, and out by this interface.
    Through(String),
    /// Nowhere: both ends are in this host, or behind the same bridge.
    Inside,
    /// Past this host.
    Apart,
}

impl GuestLink {
    /// That of a connection of this process.
    pub(crate) fn of(pid: i32, local: IpAddr, remote: IpAddr) -> Self {
        let addresses = interface::addresses().unwrap_or_default();
        if remote.is_loopback() || remote == local || addresses.contains_key(&remote) {
            return Self::Inside;
        }
        match gateway(pid, remote) {
            Some(Hop::Gateway(gateway)) if addresses.contains_key(&gateway) => {
                interface::towards(remote).map_or(Self::Apart, Self::Through)
            }
            Some(Hop::Neighbour) => {
                let bridge = interface::towards(local)
                    .filter(|bridge| Some(bridge) == interface::towards(remote).as_ref());
                // Both beyond the default route's interface: it may be a macvlan of that.
                let bridge = bridge.filter(|bridge| interface::default_interface().as_ref() != Some(bridge));
                bridge.map_or(Self::Apart, |_| Self::Inside)
            }
            _ => Self::Apart,
        }
    }

    pub(crate) fn interface(&self) -> Option<String> {
        match self {
            Self::Through(name) => Some(name.clone()),
            Self::Inside | Self::Apart => None,
        }
    }
}

/// The next hop to a remote end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hop {
    Gateway(IpAddr),
    /// The remote end itself.
    Neighbour,
}

/// By the routes of a process's network namespace.
fn gateway(pid: i32, remote: IpAddr) -> Option<Hop> {
    let read = |table: &str| fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
    let route = match remote {
        IpAddr::V4(remote) => ipv4(&read("route"), remote),
        IpAddr::V6(remote) => ipv6(&read("ipv6_route"), remote),
    };
    route.map(|gateway| match gateway.is_unspecified() {
        true => Hop::Neighbour,
        false => Hop::Gateway(gateway),
    })
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask …`; addresses are hexadecimal words in
/// host byte order.
fn ipv4(table: &str, remote: Ipv4Addr) -> Option<IpAddr> {
    let route = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let address = |at: usize| {
            let word = u32::from_str_radix(words.get(at)?, 16).ok()?;
            Some(Ipv4Addr::from(word.to_ne_bytes()))
        };
        let (net, gateway, mask) = (address(1)?, address(2)?, address(7)?);
        (remote & mask == net).then_some((mask, gateway))
    };
    let routes = table.lines().skip(1).filter_map(route);
    routes
        .max_by_key(|(mask, _)| *mask)
        .map(|(_, gateway)| gateway.into())
}

/// `destination length source length gateway metric references use flags device`, all hexadecimal.
fn ipv6(table: &str, remote: Ipv6Addr) -> Option<IpAddr> {
    /// The kernel's `RTF_REJECT`.
    const REJECT: u32 = 0x200;
    let route = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [net, length, _, _, gateway, _, _, _, flags, device] = words.as_slice() else {
            return None;
        };
        let address = |text: &str| u128::from_str_radix(text, 16).ok();
        let length = u32::from_str_radix(length, 16).ok()?;
        let mask = u128::MAX.checked_shl(128_u32.checked_sub(length)?).unwrap_or(0);
        let is_usable = *device != "lo" && u32::from_str_radix(flags, 16).ok()? & REJECT == 0;
        let is_for = remote.to_bits() & mask == address(net)?;
        (is_usable && is_for).then_some((length, Ipv6Addr::from(address(gateway)?)))
    };
    let routes = table.lines().filter_map(route);
    routes
        .max_by_key(|(length, _)| *length)
        .map(|(_, gateway)| gateway.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_route_tells_the_gateway() {
        let word = |text: &str| {
            let address: Ipv4Addr = text.parse().expect("an address");
            format!("{:08X}", u32::from_ne_bytes(address.octets()))
        };
        let line = |net, gateway, mask| {
            format!(
                "eth0 {} {} 0003 0 0 0 {} 0 0 0\n",
                word(net),
                word(gateway),
                word(mask)
            )
        };
        let table = [
            "Iface Destination\n".to_string(),
            line("0.0.0.0", "172.17.0.1", "0.0.0.0"),
        ]
        .concat()
            + &line("172.17.0.0", "0.0.0.0", "255.255.0.0");
        let hop = |to: &str| ipv4(&table, to.parse().expect("an address")).map(|hop| hop.to_string());
        assert_eq!(hop("198.51.100.7").as_deref(), Some("172.17.0.1"));
        assert_eq!(hop("172.17.0.9").as_deref(), Some("0.0.0.0"));
        assert_eq!(ipv4("Iface\n", Ipv4Addr::LOCALHOST), None);
    }

    #[test]
    fn ipv6_routes_that_reject_do_not_count() {
        let zero = "0".repeat(32);
        let net = format!("fd000000{}", "0".repeat(24));
        let gateway = format!("fd000000{}1", "0".repeat(23));
        let table = format!(
            "{net} 40 {zero} 00 {zero} 00000100 0 0 00000001 eth0\n\
             {zero} 00 {zero} 00 {gateway} 00000400 0 0 00000003 eth0\n\
             {zero} 00 {zero} 00 {zero} ffffffff 0 0 00200200 lo\n"
        );
        let hop = |to: &str| ipv6(&table, to.parse().expect("an address")).map(|hop| hop.to_string());
        assert_eq!(hop("2001:db8::7").as_deref(), Some("fd00::1"));
        assert_eq!(hop("fd00::7").as_deref(), Some("::"));
    }
}
