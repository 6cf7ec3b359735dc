//! The TCP and UDP sockets of this network namespace, as `/proc/net` lists them.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A socket that is not listening.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Socket {
    /// The local and the remote end; the remote port is 0 if it is not connected.
    pub(crate) ends: [SocketAddr; 2],
    /// TCP; otherwise UDP.
    pub(crate) tcp: bool,
    /// TCP: in the state ESTABLISHED.
    pub(crate) established: bool,
}

const LISTEN: &str = "0A";
const ESTABLISHED: &str = "01";

/// All sockets, by inode.
pub(crate) fn all() -> BTreeMap<u64, Socket> {
    let tables = ["tcp", "tcp6", "udp", "udp6"].map(|table| {
        let text = fs::read_to_string(format!("/proc/self/net/{table}")).unwrap_or_default();
        let sockets = text
            .lines()
            .skip(1)
            .filter_map(|line| read(line, table.starts_with('t')));
        sockets.collect::<Vec<_>>()
    });
    tables.into_iter().flatten().collect()
}

/// `sl local remote st tx:rx tr:when retransmits uid timeout inode …`
fn read(line: &str, tcp: bool) -> Option<(u64, Socket)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, local, remote, state, _, _, _, _, _, inode, ..] = words.as_slice() else {
        return None;
    };
    let socket = Socket {
        ends: [end(local)?, end(remote)?],
        tcp,
        established: *state == ESTABLISHED,
    };
    let inode = inode.parse().ok().filter(|inode| *inode > 0)?;
    (*state != LISTEN).then_some((inode, socket))
}

/// An address and a port. The kernel prints each 32-bit word of an address in host byte order. An
/// IPv4-mapped IPv6 address is IPv4, as on the wire.
fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |at: usize| {
        let digits = address.get(8 * at..8 * at + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.as_flattened().try_into().ok()?;
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    fn find(ends: [SocketAddr; 2], tcp: bool) -> Option<Socket> {
        let mut all = all().into_values();
        all.find(|socket| socket.ends == ends && socket.tcp == tcp)
    }

    #[test]
    fn connections_are_found_by_their_ends_over_ipv4_and_ipv6() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                skips::skipped(format_args!("{address} cannot be bound"));
                continue;
            };
            let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
            let ends = [stream.local_addr(), stream.peer_addr()].map(|end| end.expect("connected"));
            assert!(find(ends, true).expect("in the table").established, "{ends:?}");
            assert!(
                all()
                    .values()
                    .all(|socket| socket.ends[0] != ends[1] || socket.established)
            );
        }
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        udp.connect("127.0.0.2:9").expect("connected");
        let ends = [udp.local_addr(), udp.peer_addr()].map(|end| end.expect("connected"));
        assert!(find(ends, false).is_some());
    }

    #[test]
    fn an_ipv4_mapped_address_is_ipv4() {
        let mapped = [
            0_u32,
            0,
            0x0000_ffff_u32.to_be(),
            u32::from_be_bytes([10, 0, 0, 1]).to_be(),
        ];
        let text: String = mapped.iter().map(|word| format!("{word:08X}")).collect();
        assert_eq!(end(&format!("{text}:01BB")), "10.0.0.1:443".parse().ok());
    }
}
