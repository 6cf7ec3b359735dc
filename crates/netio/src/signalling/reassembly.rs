//! Intercepted IPv6 fragments made into messages again (RFC 8200, section 4.5; RFC 5722).
//!
//! The kernel reassembles what is addressed to this host; it hands over intercepted fragments as
//! they came. Any host can send them, so all is bounded: the datagrams that are not complete, and
//! those of one source. The oldest makes room.

use super::datagram::{Arrival, HOP_BY_HOP, IPV6_HEADER, RSVP};
use engine::units::{Duration, Instant};
use std::net::{IpAddr, Ipv6Addr};

/// IPv6's number of a fragment header.
const FRAGMENT: u8 = 44;
const FRAGMENT_HEADER: usize = 8;
/// The most datagrams that are not complete, and the most of one source.
const MOST: usize = 32;
const MOST_OF_ONE: usize = 8;
/// How long the rest of a datagram is waited for (RFC 8200, section 4.5).
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest payload of a datagram.
const LONGEST: usize = u16::MAX as usize;

/// A part of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageFragment<'a> {
    source: Ipv6Addr,
    destination: Ipv6Addr,
    id: u32,
    hop_limit: u8,
    offset: usize,
    more: bool,
    data: &'a [u8],
}

/// A datagram that is not complete.
#[derive(Debug)]
struct Incomplete {
    source: Ipv6Addr,
    destination: Ipv6Addr,
    id: u32,
    since: Instant,
    /// Of the first fragment.
    hop_limit: u8,
    /// Its length, once the last fragment has come.
    whole: Option<usize>,
    /// What has come, without overlaps.
    parts: Vec<Part>,
    body: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    begin: usize,
    end: usize,
}

/// A message that is complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reassembled {
    /// What its first fragment says.
    pub arrival: Arrival,
    /// Its bytes.
    pub body: Vec<u8>,
}

/// The datagrams of an interface that are not complete, the oldest first.
#[derive(Debug, Default)]
pub struct Reassembly(Vec<Incomplete>);

/// Parses a datagram with a hop-by-hop header as a fragment of an RSVP message. One that can be
/// part of none is discarded alone (RFC 8200, section 4.5): without data, of a length that leaves a
/// gap, or beyond the longest datagram.
pub fn read(datagram: &[u8]) -> Option<MessageFragment<'_>> {
    let sixteen = |at: usize| datagram.get(at..at + 16)?.try_into().ok().map(<[u8; 16]>::into);
    let &[next, more] = datagram.get(IPV6_HEADER..IPV6_HEADER + 2)? else {
        return None;
    };
    if datagram.get(6) != Some(&HOP_BY_HOP) || next != FRAGMENT {
        return None;
    }
    let at = IPV6_HEADER + 8 * (usize::from(more) + 1);
    let header: [u8; FRAGMENT_HEADER] = datagram.get(at..at + FRAGMENT_HEADER)?.try_into().ok()?;
    let [next, _, high, low, id @ ..] = header;
    let place = u16::from_be_bytes([high, low]);
    let data = &datagram[at + FRAGMENT_HEADER..];
    let (offset, more) = (usize::from(place & !7), place & 1 != 0);
    let is_sound =
        !data.is_empty() && offset + data.len() <= LONGEST && (!more || data.len().is_multiple_of(8));
    (next == RSVP && is_sound).then_some(MessageFragment {
        source: sixteen(8)?,
        destination: sixteen(24)?,
        id: u32::from_be_bytes(id),
        hop_limit: *datagram.get(7)?,
        offset,
        more,
        data,
    })
}

impl Reassembly {
    /// Adds a fragment; returns the message if it is complete now. One that contradicts an earlier
    /// one ends its datagram.
    pub fn add(&mut self, now: Instant, fragment: MessageFragment<'_>) -> Option<Reassembled> {
        self.0.retain(|datagram| now.since(datagram.since) < PATIENCE);
        let of = |datagram: &Incomplete| {
            (datagram.source, datagram.destination, datagram.id)
                == (fragment.source, fragment.destination, fragment.id)
        };
        let at = match self.0.iter().position(of) {
            Some(at) => at,
            None => self.begin(now, &fragment),
        };
        let datagram = &mut self.0[at];
        if datagram.add(&fragment).is_none() {
            self.0.remove(at);
            return None;
        }
        datagram.is_complete().then(|| {
            let datagram = self.0.remove(at);
            let arrival = Arrival {
                source: IpAddr::V6(datagram.source),
                destination: Some(IpAddr::V6(datagram.destination)),
                ttl: datagram.hop_limit,
            };
            Reassembled {
                arrival,
                body: datagram.body,
            }
        })
    }

    /// Makes room for a new datagram, and returns its place.
    fn begin(&mut self, now: Instant, fragment: &MessageFragment<'_>) -> usize {
        let of_source = |datagram: &Incomplete| datagram.source == fragment.source;
        if self.0.iter().filter(|datagram| of_source(datagram)).count() >= MOST_OF_ONE {
            let oldest = self.0.iter().position(of_source);
            oldest.into_iter().for_each(|at| drop(self.0.remove(at)));
        } else if self.0.len() >= MOST {
            self.0.remove(0);
        }
        self.0.push(Incomplete {
            source: fragment.source,
            destination: fragment.destination,
            id: fragment.id,
            since: now,
            hop_limit: 0,
            whole: None,
            parts: Vec::new(),
            body: Vec::new(),
        });
        self.0.len() - 1
    }
}

impl Incomplete {
    /// Adds a part; none if the datagram cannot be right.
    fn add(&mut self, fragment: &MessageFragment<'_>) -> Option<()> {
        let (begin, end) = (fragment.offset, fragment.offset + fragment.data.len());
        let part = Part { begin, end };
        if self.whole.is_some_and(|whole| end > whole) {
            return None;
        }
        // The network may have duplicated it.
        if self.parts.contains(&part) && self.body[begin..end] == *fragment.data {
            return Some(());
        }
        // RFC 5722: a datagram with overlapping fragments is an attack.
        if self
            .parts
            .iter()
            .any(|known| known.begin < end && begin < known.end)
        {
            return None;
        }
        if !fragment.more {
            if self.whole.is_some() || self.body.len() > end {
                return None;
            }
            self.whole = Some(end);
        }
        if begin == 0 {
            self.hop_limit = fragment.hop_limit;
        }
        self.parts.push(part);
        self.body.resize(self.body.len().max(end), 0);
        self.body[begin..end].copy_from_slice(fragment.data);
        Some(())
    }

    fn is_complete(&self) -> bool {
        let arrived: usize = self.parts.iter().map(|part| part.end - part.begin).sum();
        self.whole == Some(arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signalling::datagram::{Envelope, datagram_v6};
    use crate::signalling::fragments;

    fn pieces(message: &[u8], end: u16, id: u32) -> Vec<Vec<u8>> {
        let [source, destination] = [end, 9].map(|end| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, end));
        let envelope = Envelope {
            source: source.into(),
            destination: destination.into(),
            ttl: 63,
            alert: true,
        };
        let whole = datagram_v6(&envelope, source, destination, message).expect("it fits");
        fragments::v6(&whole, 1280, id).expect("there is room")
    }

    fn message() -> Vec<u8> {
        (0..5003_u32).map(|n| n as u8).collect()
    }

    fn add(table: &mut Reassembly, at: u64, piece: &[u8]) -> Option<Reassembled> {
        let now = Instant::START + Duration::from_secs(at);
        table.add(now, read(piece).expect("a fragment"))
    }

    #[test]
    fn intercepted_ipv6_fragments_make_the_message_again_in_any_order() {
        let (message, mut table) = (message(), Reassembly::default());
        let mut pieces = pieces(&message, 1, 7);
        assert!(pieces.len() > 3);
        for _ in 0..pieces.len() {
            pieces.rotate_left(1);
            let (last, others) = pieces.split_last().expect("several");
            for piece in others.iter().chain(others) {
                assert_eq!(add(&mut table, 1, piece), None);
            }
            let whole = add(&mut table, 1, last).expect("all have come");
            assert!(whole.body == message);
            assert_eq!(whole.arrival.ttl, 63);
            assert_eq!(whole.arrival.destination, "fd00::9".parse().ok());
            assert!(table.0.is_empty());
        }
    }

    #[test]
    fn rfc_5722_a_datagram_with_overlapping_fragments_is_dropped() {
        let mut table = Reassembly::default();
        let [one, other] = [0, 1].map(|first| {
            let mut message = message();
            message[0] = first;
            pieces(&message, 1, 7)
        });
        assert_eq!(add(&mut table, 1, &one[0]), None);
        assert_eq!(add(&mut table, 1, &other[0]), None);
        assert!(table.0.is_empty(), "another first fragment");
        let mut beyond = one[1].clone();
        add(&mut table, 1, &one[one.len() - 1]);
        beyond[50..52].copy_from_slice(&0x7ff1_u16.to_be_bytes());
        assert_eq!(add(&mut table, 1, &beyond), None);
        assert!(table.0.is_empty(), "behind the last fragment");
    }

    #[test]
    fn rfc_8200_a_fragment_that_can_be_part_of_no_datagram_is_discarded_alone() {
        let (message, mut table) = (message(), Reassembly::default());
        let pieces = pieces(&message, 1, 7);
        let (last, first) = pieces.split_last().expect("several");
        first.iter().for_each(|piece| drop(add(&mut table, 1, piece)));
        let mut beyond = first[1].clone();
        beyond[50..52].copy_from_slice(&0xfff1_u16.to_be_bytes());
        let uneven = &first[1][..first[1].len() - 1];
        let empty = &last[..56];
        for malformed in [&beyond[..], uneven, empty] {
            assert_eq!(read(malformed), None);
        }
        assert!(add(&mut table, 1, last).is_some(), "the others make the message");
    }

    #[test]
    fn a_flood_of_ipv6_fragments_takes_bounded_memory_and_leaves_others_their_turn() {
        let (message, mut table) = (message(), Reassembly::default());
        let ours = pieces(&message, 1, 7);
        let (last, first) = ours.split_last().expect("several");
        first.iter().for_each(|piece| drop(add(&mut table, 1, piece)));
        for id in 0..1000 {
            assert_eq!(add(&mut table, 1, &pieces(&message, 2, id)[0]), None);
        }
        assert_eq!(table.0.len(), 1 + MOST_OF_ONE);
        assert!(
            add(&mut table, 1, last).is_some(),
            "one source cannot take all places"
        );
        for end in 0..1000 {
            let _ = add(&mut table, 1, &pieces(&message, end, 1)[0]);
        }
        assert_eq!(table.0.len(), MOST);
        let _ = add(&mut table, 62, &first[0]);
        assert_eq!(table.0.len(), 1, "nothing is waited for longer than a minute");
    }
}
