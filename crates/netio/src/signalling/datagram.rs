//! Datagrams of RSVP (RFC 2205, section 3.2; RFC 8200; RFC 2113 and 2711): made and parsed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// RSVP's protocol number.
pub(super) const RSVP: u8 = 46;
pub(super) const IPV6_HEADER: usize = 40;
/// IPv6's number of the hop-by-hop header.
pub(super) const HOP_BY_HOP: u8 = 0;
/// The IPv6 hop-by-hop header with the option, padded; without its first byte, the next header.
pub(super) const ALERT_V6: [u8; 7] = [0, 5, 2, 0, 1, 1, 0];
/// CS6 (network control), as the DS field of the header.
const NETWORK_CONTROL: u8 = 48 << 2;
/// The Router Alert option of IPv4.
const ALERT_V4: [u8; 4] = [0x94, 4, 0, 0];

/// A received message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its source address.
    pub source: IpAddr,
    /// Its destination address, which may be another host's; none for IPv6 messages addressed to
    /// us.
    pub destination: Option<IpAddr>,
    /// Its TTL, or hop limit.
    pub ttl: u8,
}

/// The IP header fields of a message to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// Source address; need not be ours.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// TTL, or hop limit.
    pub ttl: u8,
    /// Whether to add the Router Alert option.
    pub alert: bool,
}

/// Parses an IPv4 datagram: its header fields, and the range of its payload.
pub fn read_v4(datagram: &[u8]) -> Option<(Arrival, Range<usize>)> {
    let four = |at: usize| datagram.get(at..at + 4)?.try_into().ok().map(<[u8; 4]>::into);
    let (source, destination): (Ipv4Addr, Ipv4Addr) = (four(12)?, four(16)?);
    let header = usize::from(datagram.first()? & 15) * 4;
    let ttl = *datagram.get(8)?;
    (header >= 20 && header <= datagram.len()).then(|| {
        let arrival = Arrival {
            source: source.into(),
            destination: Some(destination.into()),
            ttl,
        };
        (arrival, header..datagram.len())
    })
}

/// The same for an IPv6 datagram with a hop-by-hop header.
pub fn read_v6(datagram: &[u8]) -> Option<(Arrival, Range<usize>)> {
    let sixteen = |at: usize| datagram.get(at..at + 16)?.try_into().ok().map(<[u8; 16]>::into);
    let (source, destination): (Ipv6Addr, Ipv6Addr) = (sixteen(8)?, sixteen(24)?);
    let (&[next, more], ttl) = (datagram.get(IPV6_HEADER..IPV6_HEADER + 2)?, *datagram.get(7)?) else {
        return None;
    };
    let body = IPV6_HEADER + 8 * (usize::from(more) + 1);
    let is_ours = datagram.get(6) == Some(&HOP_BY_HOP) && next == RSVP && body <= datagram.len();
    is_ours.then(|| {
        let arrival = Arrival {
            source: source.into(),
            destination: Some(destination.into()),
            ttl,
        };
        (arrival, body..datagram.len())
    })
}

fn too_long() -> io::Error {
    io::Error::from_raw_os_error(libc::EMSGSIZE)
}

/// Makes an IPv4 datagram. The kernel fills in identification and checksum.
///
/// # Errors
///
/// Returns an error if the message is too long.
pub fn datagram_v4(
    envelope: &Envelope,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    message: &[u8],
) -> io::Result<Vec<u8>> {
    let option: &[u8] = if envelope.alert { &ALERT_V4 } else { &[] };
    let header = 20 + option.len();
    let whole = u16::try_from(header + message.len()).map_err(|_| too_long())?;
    let mut datagram = Vec::with_capacity(whole.into());
    datagram.extend([0x40 | (header / 4) as u8, NETWORK_CONTROL]);
    datagram.extend(whole.to_be_bytes());
    datagram.extend([0, 0, 0, 0, envelope.ttl, RSVP, 0, 0]);
    datagram.extend(source.octets());
    datagram.extend(destination.octets());
    datagram.extend(option);
    datagram.extend(message);
    Ok(datagram)
}

/// Makes an IPv6 datagram.
///
/// # Errors
///
/// Returns an error if the message is too long.
pub fn datagram_v6(
    envelope: &Envelope,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    message: &[u8],
) -> io::Result<Vec<u8>> {
    let extension = if envelope.alert { 1 + ALERT_V6.len() } else { 0 };
    let len = u16::try_from(extension + message.len()).map_err(|_| too_long())?;
    let mut datagram = Vec::with_capacity(40 + usize::from(len));
    // Version 6 and the traffic class; no flow label.
    datagram.extend([0x60 | NETWORK_CONTROL >> 4, NETWORK_CONTROL << 4, 0, 0]);
    datagram.extend(len.to_be_bytes());
    datagram.extend([if envelope.alert { 0 } else { RSVP }, envelope.ttl]);
    datagram.extend(source.octets());
    datagram.extend(destination.octets());
    if envelope.alert {
        datagram.push(RSVP);
        datagram.extend(ALERT_V6);
    }
    datagram.extend(message);
    Ok(datagram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_in_both_families() {
        for (source, destination) in [("10.0.0.1", "10.9.0.2"), ("fd00::1", "fd00:9::2")] {
            let address = |text: &str| text.parse::<IpAddr>().expect("an address");
            let envelope = Envelope {
                source: address(source),
                destination: address(destination),
                ttl: 63,
                alert: true,
            };
            let datagram = match (envelope.source, envelope.destination) {
                (IpAddr::V4(from), IpAddr::V4(to)) => datagram_v4(&envelope, from, to, b"message"),
                (IpAddr::V6(from), IpAddr::V6(to)) => datagram_v6(&envelope, from, to, b"message"),
                _ => unreachable!("one family"),
            };
            let datagram = datagram.expect("it is short");
            let read = if envelope.source.is_ipv4() {
                read_v4
            } else {
                read_v6
            };
            let (arrival, body) = read(&datagram).expect("it is whole");
            assert_eq!(
                (arrival.source, arrival.destination, arrival.ttl),
                (envelope.source, Some(envelope.destination), 63)
            );
            assert_eq!(&datagram[body], b"message");
            for len in 0..datagram.len() - 7 {
                assert_eq!(read(&datagram[..len]), None, "{len}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_a_datagram_is_an_error() {
        let any = Ipv4Addr::LOCALHOST;
        let envelope = Envelope {
            source: any.into(),
            destination: any.into(),
            ttl: 1,
            alert: false,
        };
        assert!(datagram_v4(&envelope, any, any, &[0; 65_515]).is_ok());
        assert!(datagram_v4(&envelope, any, any, &[0; 65_516]).is_err());
    }
}
