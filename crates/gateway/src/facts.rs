//! The kernel's facts about an interface. Read only.
//!
//! They come from netlink, which answers for this process's network namespace. Two facts are only
//! in `/sys`, which may show another namespace's interfaces; it is trusted only if the
//! interface's number agrees.

use engine::units::{Bandwidth, Bytes};
use netio::interface::Interface;
use std::fs;
use std::path::PathBuf;

/// One interface, as it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Whether it is administratively up.
    pub up: bool,
    /// The speed of its link, if the driver reports one.
    pub speed: Option<Bandwidth>,
    /// The longest IP packet.
    pub mtu: Bytes,
    /// Its master: a bridge, or another device with members.
    pub master: Option<String>,
    /// Whether its bridge forwards the frames that it receives; `None` if unknown.
    pub forwarding: Option<bool>,
}

impl Facts {
    /// The longest frame, with its Ethernet header.
    pub fn longest_frame(&self) -> Bytes {
        self.mtu + Bytes::new(netio::port::ETHERNET as u64)
    }

    /// The facts of the interface of this name; `None` if there is none.
    pub fn of(name: &str) -> Option<Self> {
        let found = Interface::named(name).ok()?;
        let master = found.master.and_then(|index| Interface::numbered(index).ok());
        let text = |file: &str| sysfs(name, found.index, file);
        // Mbit/s; -1 or no answer if the driver does not know.
        let speed = text("speed")
            .and_then(|speed| speed.parse().ok())
            .map(Bandwidth::mbit);
        const FORWARDING: &str = "3";
        Some(Self {
            up: found.up,
            speed,
            mtu: Bytes::new(found.mtu as u64),
            master: master.map(|bridge| bridge.name),
            forwarding: text("brport/state").map(|state| state == FORWARDING),
        })
    }
}

/// What `/sys` has of an interface, in a file of its own; none if `/sys` shows another namespace.
pub(crate) fn sysfs(name: &str, index: u32, file: &str) -> Option<String> {
    let of = PathBuf::from("/sys/class/net").join(name);
    let text = |file: &str| Some(fs::read_to_string(of.join(file)).ok()?.trim().to_owned());
    text(file).filter(|_| text("ifindex").is_some_and(|found| found == index.to_string()))
}

/// The names of all interfaces.
pub fn names() -> Vec<String> {
    let table = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let lines = table.lines().skip(2);
    lines
        .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
        .collect()
}

/// Whether this host passes on packets for others.
pub fn forwards() -> bool {
    let on = |file: &str| fs::read_to_string(file).is_ok_and(|text| text.trim() == "1");
    on("/proc/sys/net/ipv4/ip_forward") || on("/proc/sys/net/ipv6/conf/all/forwarding")
}

/// The interface that the default route goes by, of IPv4 or else of IPv6.
pub fn default_route() -> Option<String> {
    let read = |table: &str| fs::read_to_string(format!("/proc/self/net/{table}")).unwrap_or_default();
    by_default_v4(&read("route")).or_else(|| by_default_v6(&read("ipv6_route")))
}

/// Columns: interface, destination, gateway, flags, two counters, metric, mask.
fn by_default_v4(table: &str) -> Option<String> {
    let routes = table.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [name, "00000000", _, _, _, _, metric, "00000000", ..] = *columns else {
            return None;
        };
        Some((metric.parse::<u64>().ok()?, name.to_owned()))
    });
    Some(routes.min()?.1)
}

/// Columns: destination, its prefix, source, its prefix, next hop, metric, two counters, flags,
/// interface. The kernel's own entry that refuses what has no route is of the loopback.
fn by_default_v6(table: &str) -> Option<String> {
    let routes = table.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [_, "00", _, _, _, metric, _, _, _, name] = *columns else {
            return None;
        };
        let metric = u64::from_str_radix(metric, 16).ok()?;
        (name != "lo").then(|| (metric, name.to_owned()))
    });
    Some(routes.min()?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_found_and_an_unknown_name_is_not() {
        assert!(names().contains(&"lo".to_owned()), "{:?}", names());
        let lo = Facts::of("lo").expect("lo");
        assert_eq!((lo.master, lo.speed), (None, None));
        assert_eq!(Facts::of("no-such-thing"), None);
    }

    #[test]
    fn the_default_route_with_the_least_metric_counts() {
        let v4 = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
                  eth0 000A000A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n\
                  wlan0 00000000 0101A8C0 0003 0 0 600 00000000 0 0 0\n\
                  eth1 00000000 0101A8C0 0003 0 0 100 00000000 0 0 0\n";
        assert_eq!(by_default_v4(v4).as_deref(), Some("eth1"));
        assert_eq!(by_default_v4("Iface Destination\n"), None);
        let zero = "00000000000000000000000000000000";
        let v6 = format!(
            "{zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 1 0 00000003     eth2\n\
             {zero} 00 {zero} 00 {zero} ffffffff 1 0 00200200       lo\n"
        );
        assert_eq!(by_default_v6(&v6).as_deref(), Some("eth2"));
    }
}
