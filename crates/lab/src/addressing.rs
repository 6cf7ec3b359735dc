//! Assigns the addresses and routes of a lab: each link is a network of its own, each host has the
//! shortest route to every network, and hosts with several links forward.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An IP address with a prefix length, as in "10.0.0.1/24".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// The prefix length of its network.
    pub prefix: u8,
}

impl Address {
    /// An address with this prefix length.
    pub fn new(ip: impl Into<IpAddr>, prefix: u8) -> Self {
        Self {
            ip: ip.into(),
            prefix,
        }
    }

    /// All addresses of the family of `of`: "0.0.0.0/0" or "::/0".
    pub fn everything(of: IpAddr) -> Self {
        let ip = match of {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        Self { ip, prefix: 0 }
    }
}

impl FromStr for Address {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let expected = || format!("expected an address such as \"10.0.0.1/24\"; found \"{text}\"");
        let (ip, prefix) = text.split_once('/').ok_or_else(expected)?;
        let ip: IpAddr = ip.parse().map_err(|_| expected())?;
        let prefix: u8 = prefix.parse().map_err(|_| expected())?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        if prefix > most {
            return Err(format!("the prefix of \"{text}\" is longer than {most}"));
        }
        Ok(Self { ip, prefix })
    }
}

/// The addresses of one end of a link, in both families.
pub type AddressPair = [Address; 2];

/// A route of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostRoute {
    /// The host, by its index.
    pub host: usize,
    /// The destination network.
    pub to: Address,
    /// The gateway: a neighbour's address.
    pub by: IpAddr,
}

/// The addresses of link `number`: 10.0.n.0/24 and fd00:0:0:n::/64, with host parts 1 and 2.
pub fn of_link(number: u16) -> [AddressPair; 2] {
    [1, 2].map(|side| network(number, side))
}

fn network(number: u16, side: u8) -> AddressPair {
    let [high, low] = number.to_be_bytes();
    let v6 = Ipv6Addr::new(0xfd00, 0, 0, number, 0, 0, 0, u16::from(side));
    [
        Address::new(Ipv4Addr::new(10, high, low, side), 24),
        Address::new(v6, 64),
    ]
}

/// The routes of all hosts to all networks other than their own, over the fewest links; of equal
/// routes, the one over the first link.
pub fn routes(hosts: usize, links: &[[usize; 2]]) -> Vec<HostRoute> {
    (0..hosts)
        .flat_map(|host| routes_of(host, hosts, links))
        .collect()
}

/// One host's routes: a breadth-first search that records the first link towards each host.
fn routes_of(host: usize, hosts: usize, links: &[[usize; 2]]) -> Vec<HostRoute> {
    let mut first: Vec<Option<usize>> = vec![None; hosts];
    let mut reached = vec![false; hosts];
    let mut order = VecDeque::from([host]);
    let mut routes = Vec::new();
    reached[host] = true;
    let mut routed = vec![false; links.len()];
    while let Some(at) = order.pop_front() {
        for (number, ends) in links.iter().enumerate() {
            let Some(side) = ends.iter().position(|&end| end == at) else {
                continue;
            };
            let far = ends[1 - side];
            if !reached[far] {
                reached[far] = true;
                first[far] = first[at].or(Some(number));
                order.push_back(far);
            }
            if let (false, Some(by)) = (std::mem::replace(&mut routed[number], true), first[at]) {
                routes.extend(by_link(host, number, by, links));
            }
        }
    }
    routes
}

/// The two routes of `host` to the network of link `to`, through its own link `by`.
fn by_link(host: usize, to: usize, by: usize, links: &[[usize; 2]]) -> [HostRoute; 2] {
    // A lab has at most 65,535 links: the reader of topologies checks it.
    let neighbour = usize::from(links[by][0] == host);
    let gateways = of_link(by as u16)[neighbour];
    let networks = network(to as u16, 0);
    [0, 1].map(|family| HostRoute {
        host,
        to: networks[family],
        by: gateways[family].ip,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_the_shortest_and_own_networks_need_none() {
        // A line 0 – 1 – 2 – 3 with a shortcut 0 – 3.
        let links = [[0, 1], [1, 2], [2, 3], [3, 0]];
        let routes: Vec<String> = routes(4, &links)
            .into_iter()
            .filter(|route| route.host == 0 && route.to.ip.is_ipv4())
            .map(|route| format!("{} by {}", route.to, route.by))
            .collect();
        assert_eq!(routes, ["10.0.1.0/24 by 10.0.0.2", "10.0.2.0/24 by 10.0.3.1"]);
    }

    #[test]
    fn unreachable_networks_have_no_route() {
        assert!(routes(4, &[[0, 1], [2, 3]]).is_empty());
    }
}
