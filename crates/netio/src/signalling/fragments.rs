//! A datagram in fragments, for a link whose MTU is shorter (RFC 791, section 3.2; RFC 8200,
//! section 4.5).
//!
//! The kernel fragments nothing that comes with its own IP header, so this is done here. Router
//! Alert is on every fragment: in IPv4 the option has the copied flag (RFC 2113), in IPv6 the
//! hop-by-hop header stands before the fragment header.

use super::datagram::{ALERT_V6, IPV6_HEADER, RSVP};
use std::io;

/// IPv6's number of a fragment header, and the length of one.
const FRAGMENT: u8 = 44;
const FRAGMENT_HEADER: usize = 8;
/// The lengths of a fragment are multiples of this, but for the last.
const UNIT: usize = 8;

fn too_short(mtu: usize) -> io::Error {
    io::Error::other(format!("an MTU of {mtu} bytes has no room for a fragment"))
}

/// The parts of a body in fragments of at most `room` bytes: their offsets, bytes, and whether more
/// follow.
fn parts(body: &[u8], room: usize) -> impl Iterator<Item = (usize, &[u8], bool)> {
    let count = body.len().div_ceil(room);
    let parts = body.chunks(room).enumerate();
    parts.map(move |(at, part)| (at * room, part, at + 1 < count))
}

/// An IPv4 datagram in fragments of at most `mtu` bytes. The kernel fills in the checksums.
///
/// # Errors
///
/// Returns an error if the MTU is shorter than a header and 8 bytes.
pub fn v4(datagram: &[u8], mtu: usize, id: u16) -> io::Result<Vec<Vec<u8>>> {
    const MORE: u16 = 0x2000;
    let header = usize::from(datagram.first().copied().unwrap_or_default() & 15) * 4;
    let room = mtu.saturating_sub(header) / UNIT * UNIT;
    if room == 0 {
        return Err(too_short(mtu));
    }
    let (header, body) = datagram.split_at(header);
    let fragment = |(offset, part, more): (usize, &[u8], bool)| {
        let mut fragment = [header, part].concat();
        let length = (header.len() + part.len()) as u16;
        let flags = (offset / UNIT) as u16 | if more { MORE } else { 0 };
        fragment[2..4].copy_from_slice(&length.to_be_bytes());
        fragment[4..6].copy_from_slice(&id.to_be_bytes());
        fragment[6..8].copy_from_slice(&flags.to_be_bytes());
        fragment
    };
    Ok(parts(body, room).map(fragment).collect())
}

/// An IPv6 datagram, with or without Router Alert, in fragments of at most `mtu` bytes.
///
/// # Errors
///
/// Returns an error if the MTU is shorter than the headers and 8 bytes.
pub fn v6(datagram: &[u8], mtu: usize, id: u32) -> io::Result<Vec<Vec<u8>>> {
    const NEXT_HEADER: usize = 6;
    let alert = datagram.get(NEXT_HEADER) != Some(&RSVP);
    let header = IPV6_HEADER + if alert { 1 + ALERT_V6.len() } else { 0 };
    let room = mtu.saturating_sub(header + FRAGMENT_HEADER) / UNIT * UNIT;
    if room == 0 {
        return Err(too_short(mtu));
    }
    let (header, body) = datagram.split_at(header);
    let fragment = |(offset, part, more): (usize, &[u8], bool)| {
        let place = offset as u16 | u16::from(more);
        let mut fragment = header.to_vec();
        // The header before it names the fragment header, and that names RSVP.
        let named_at = if alert { IPV6_HEADER } else { NEXT_HEADER };
        fragment[named_at] = FRAGMENT;
        fragment.extend([RSVP, 0]);
        fragment.extend(place.to_be_bytes());
        fragment.extend(id.to_be_bytes());
        fragment.extend(part);
        let length = (fragment.len() - IPV6_HEADER) as u16;
        fragment[4..6].copy_from_slice(&length.to_be_bytes());
        fragment
    };
    Ok(parts(body, room).map(fragment).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signalling::datagram::{Envelope, datagram_v4, datagram_v6};
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn envelope(alert: bool) -> Envelope {
        Envelope {
            source: Ipv4Addr::LOCALHOST.into(),
            destination: Ipv4Addr::LOCALHOST.into(),
            ttl: 63,
            alert,
        }
    }

    #[test]
    fn fragments_fit_the_mtu_and_make_the_message_again() {
        let message: Vec<u8> = (0..3301_u32).map(|n| n as u8).collect();
        let (v4_any, v6_any) = (Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        for (alert, mtu) in [(true, 1500), (false, 1500), (true, 1280), (true, 1400)] {
            let whole = datagram_v4(&envelope(alert), v4_any, v4_any, &message).expect("it fits");
            let header = if alert { 24 } else { 20 };
            let mut found = vec![0; message.len()];
            let fragments = v4(&whole, mtu, 7).expect("there is room");
            for (at, fragment) in fragments.iter().enumerate() {
                assert!(fragment.len() <= mtu);
                assert_eq!(fragment[20..header], whole[20..header], "the option is copied");
                assert_eq!(fragment[4..6], [0, 7]);
                let flags = u16::from_be_bytes([fragment[6], fragment[7]]);
                assert_eq!(flags & 0x2000 != 0, at + 1 < fragments.len());
                let offset = usize::from(flags & 0x1fff) * 8;
                found[offset..offset + fragment.len() - header].copy_from_slice(&fragment[header..]);
            }
            assert_eq!(found, message);

            let whole = datagram_v6(&envelope(alert), v6_any, v6_any, &message).expect("it fits");
            let header = if alert { 48 } else { 40 };
            let mut found = vec![0; message.len()];
            let fragments = v6(&whole, mtu, 7).expect("there is room");
            for (at, fragment) in fragments.iter().enumerate() {
                assert!(fragment.len() <= mtu);
                assert_eq!(fragment[if alert { 40 } else { 6 }], FRAGMENT);
                assert_eq!(fragment[header], RSVP);
                let place = u16::from_be_bytes([fragment[header + 2], fragment[header + 3]]);
                assert_eq!(place & 1 != 0, at + 1 < fragments.len());
                let offset = usize::from(place & !7);
                let body = &fragment[header + 8..];
                found[offset..offset + body.len()].copy_from_slice(body);
            }
            assert_eq!(found, message);
        }
        assert!(v4(&[0x45; 60], 27, 1).is_err() && v6(&[0; 60], 55, 1).is_err());
    }
}
