//! The kernel's connections, as it tells them (`nf_conntrack_netlink`; enum `ctattr_type` and those
//! around it in `linux/netfilter/nfnetlink_conntrack.h`): which of them it translates, and how.
//!
//! A connection has two tuples: what its first packet was before any translation, and what answers
//! to it are before theirs. Where the second is not the first turned round, an address is
//! translated:
//!
//! ```text
//! source:       192.168.1.5:4000 → 198.51.100.9:443   198.51.100.9:443 → 192.0.2.1:61000
//! destination:  198.51.100.9:5000 → 192.0.2.1:22      192.168.1.6:22 → 198.51.100.9:5000
//! ```
//!
//! Both leave by the line from 192.0.2.1, the first for 192.168.1.5 and the second for 192.168.1.6.
//! Connections without ports are left out (ICMP, tunnels): on the line they are told apart by
//! nothing that a packet of each kind has.

use super::table::NatTable;
use crate::netlink::{Netlink, NetlinkRequest, Pending, attribute};
use crate::sys;
use engine::header::{Family, FlowKey};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// `NFNL_SUBSYS_CTNETLINK`, and its messages `IPCTNL_MSG_CT_…`.
const SUBSYSTEM: u16 = 1 << 8;
const NEW: u16 = 0;
const GET: u16 = 1;
const DELETE: u16 = 2;
/// The bits of `NFNLGRP_CONNTRACK_NEW` and `NFNLGRP_CONNTRACK_DESTROY`.
const GROUPS: u32 = 1 << 0 | 1 << 2;
/// `struct nfgenmsg`.
const GENERIC: usize = 4;

/// `CTA_…`, of a connection, of a tuple, of its addresses, of its protocol.
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const TUPLE_IP: u16 = 1;
const TUPLE_PROTO: u16 = 2;
const V4: [u16; 2] = [1, 2];
const V6: [u16; 2] = [3, 4];
const PROTO_NUM: u16 = 1;
const PORTS: [u16; 2] = [2, 3];
/// An attribute that holds others says so in this bit, or not.
const NESTED: u16 = 1 << 15;

/// Room for the events of a burst of new connections: some thousands.
const ROOM: usize = 4 << 20;

/// What the kernel says of its connections, by two sockets: events, and a list of all.
#[derive(Debug)]
pub(super) struct Connections {
    events: Netlink,
    lists: Netlink,
}

impl Connections {
    /// Of the calling thread's network.
    pub(super) fn open() -> io::Result<Self> {
        let events = Netlink::open_for(libc::NETLINK_NETFILTER)?.subscribed(GROUPS)?;
        sys::set_receive_buffer(events.as_fd(), ROOM)?;
        let lists = Netlink::open_for(libc::NETLINK_NETFILTER)?;
        Ok(Self { events, lists })
    }

    /// Makes the table what the kernel has now.
    pub(super) fn read_all(&self, table: &NatTable) -> io::Result<()> {
        let all_families = [libc::AF_UNSPEC as u8, 0, 0, 0];
        let request = NetlinkRequest::new(SUBSYSTEM | GET, 0, &all_families);
        let mut seen = Vec::new();
        self.lists.list_each(request, |body| {
            translated(body).for_each(|(leaving, host)| seen.extend(table.put(&leaving, host)));
        })?;
        table.keep_only(&seen);
        Ok(())
    }

    /// Brings the table up to date by what has happened since. Where the kernel could not tell all,
    /// it is asked for all.
    pub(super) fn follow(&self, table: &NatTable) -> io::Result<()> {
        let pending = self
            .events
            .events(|kind, body| match kind.wrapping_sub(SUBSYSTEM) {
                NEW => translated(body).for_each(|(leaving, host)| {
                    table.put(&leaving, host);
                }),
                DELETE => translated(body).for_each(|(leaving, _)| table.remove(&leaving)),
                _ => {}
            })?;
        match pending {
            Pending::Lost => {
                table.is_listed_again();
                self.read_all(table)
            }
            _ => Ok(()),
        }
    }
}

impl AsFd for Connections {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

/// An address with its port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct End {
    address: u128,
    port: u16,
}

/// A tuple: from one end to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tuple {
    family: Family,
    protocol: u8,
    from: End,
    to: End,
}

impl Tuple {
    /// Of a connection's attributes; `None` if it has no ports.
    fn of(connection: &[u8], which: u16) -> Option<Self> {
        let tuple = nested(connection, which)?;
        let (addresses, protocol) = (nested(tuple, TUPLE_IP)?, nested(tuple, TUPLE_PROTO)?);
        let (family, [from, to]) = match V4.map(|kind| attribute(addresses, kind).and_then(number::<4>)) {
            [Some(from), Some(to)] => (Family::V4, [from, to]),
            _ => {
                let [from, to] = V6.map(|kind| attribute(addresses, kind).and_then(number::<16>));
                (Family::V6, [from?, to?])
            }
        };
        let [from_port, to_port] = PORTS.map(|kind| attribute(protocol, kind).and_then(number::<2>));
        let end = |address, port: u128| End {
            address,
            port: port as u16,
        };
        Some(Self {
            family,
            protocol: attribute(protocol, PROTO_NUM)?.first().copied()?,
            from: end(from, from_port?),
            to: end(to, to_port?),
        })
    }

    fn turned(self) -> Self {
        Self {
            from: self.to,
            to: self.from,
            ..self
        }
    }

    /// How its packets look.
    fn key(self) -> FlowKey {
        FlowKey {
            source: self.from.address,
            destination: self.to.address,
            family: self.family,
            protocol: self.protocol,
            source_port: Some(self.from.port),
            destination_port: Some(self.to.port),
            ..FlowKey::default()
        }
    }
}

/// How packets of a connection leave by the line, and the host behind this one that they are of:
/// one of each end that is translated.
fn translated(body: &[u8]) -> impl Iterator<Item = (FlowKey, u128)> {
    let connection = body.get(GENERIC..).unwrap_or_default();
    let tuples = [ORIGINAL, REPLY].map(|which| Tuple::of(connection, which));
    let of = |original: Tuple, reply: Tuple| {
        let source = (original.from != reply.to).then(|| (reply.turned().key(), original.from.address));
        let destination = (original.to != reply.from).then(|| (original.turned().key(), reply.from.address));
        [source, destination]
    };
    let found = match tuples {
        [Some(original), Some(reply)] => of(original, reply),
        _ => [None, None],
    };
    found.into_iter().flatten()
}

/// The attribute of this type, whether or not it says that it holds others.
fn nested(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attribute(bytes, kind | NESTED).or_else(|| attribute(bytes, kind))
}

/// A number of `N` bytes, in network byte order.
fn number<const N: usize>(bytes: &[u8]) -> Option<u128> {
    let bytes: [u8; N] = bytes.try_into().ok()?;
    Some(
        bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u128::from(*byte)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::HEADER;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    type Ends = [(Ipv4Addr, u16); 2];

    fn address(text: &str) -> Ipv4Addr {
        text.parse().expect("an address")
    }

    fn tuple(request: NetlinkRequest, which: u16, protocol: u8, [from, to]: Ends) -> NetlinkRequest {
        request.nest(which | NESTED, |tuple| {
            let addresses = |of: NetlinkRequest| of.with(V4[0], &from.0.octets()).with(V4[1], &to.0.octets());
            let ports = |of: NetlinkRequest| {
                let of = of.with(PROTO_NUM, &[protocol]);
                of.with(PORTS[0], &from.1.to_be_bytes())
                    .with(PORTS[1], &to.1.to_be_bytes())
            };
            tuple
                .nest(TUPLE_IP | NESTED, addresses)
                .nest(TUPLE_PROTO | NESTED, ports)
        })
    }

    /// The body of the kernel's message of a connection.
    fn message(protocol: u8, original: Ends, reply: Ends) -> Vec<u8> {
        let request = NetlinkRequest::new(SUBSYSTEM | NEW, 0, &[2, 0, 0, 0]);
        let request = tuple(request, ORIGINAL, protocol, original);
        tuple(request, REPLY, protocol, reply).finish()[HEADER..].to_vec()
    }

    fn seen(message: &[u8]) -> Vec<(String, String)> {
        let ip = |address: u128| Ipv4Addr::from(address as u32).to_string();
        let words = |(key, host): (FlowKey, u128)| {
            let port = |port: Option<u16>| port.expect("it has one");
            let (from, to) = (port(key.source_port), port(key.destination_port));
            let leaving = format!("{}:{from} {}:{to}", ip(key.source), ip(key.destination));
            (leaving, ip(host))
        };
        translated(message).map(words).collect()
    }

    #[test]
    fn a_translated_connection_is_of_the_host_behind_and_of_the_packets_on_the_line() {
        let (device, server) = ((address("192.168.1.5"), 4000), (address("192.168.1.6"), 22));
        let (line, far) = (address("192.0.2.1"), (address("198.51.100.9"), 443));
        let left = |from: &str, host: &str| vec![(format!("{from} 198.51.100.9:443"), host.to_owned())];
        let source = message(6, [device, far], [far, (line, 61_000)]);
        assert_eq!(seen(&source), left("192.0.2.1:61000", "192.168.1.5"));
        let destination = message(6, [far, (line, 2_222)], [server, far]);
        assert_eq!(seen(&destination), left("192.0.2.1:2222", "192.168.1.6"));
        let neither = message(17, [device, far], [far, device]);
        assert_eq!(seen(&neither), []);
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_are_read_without_panic(bytes: Vec<u8>) {
            translated(&bytes).for_each(drop);
        }

        #[test]
        fn a_message_that_is_cut_or_damaged_is_read_without_panic(at: usize, to: u8, cut: usize) {
            let ends = [(address("10.0.0.1"), 1), (address("10.0.0.2"), 2)];
            let mut message = message(6, ends, ends);
            let at = at % message.len();
            message[at] = to;
            translated(&message[..cut % (message.len() + 1)]).for_each(drop);
        }
    }
}
