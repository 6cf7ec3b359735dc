//! Datagrams of RSVP, and fragments of them that any host may send: parsed and put together, beside
//! a reference that looks at all fragments of a datagram anew each time.

use super::{FuzzTarget, records};
use crate::mutate::InputShape;
use engine::units::{Duration, Instant};
use netio::signalling::datagram::{Envelope, datagram_v4, datagram_v6, read_v4, read_v6};
use netio::signalling::fragments;
use netio::signalling::reassembly::{self, Reassembly};
use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "fragments",
    about: "datagrams of RSVP and fragments in any order: whole messages as sent, contradictions dropped, bounds kept",
    shape: InputShape::Binary(3_000),
    tree: &[],
    make: || Box::new(judge),
};

/// What the reference keeps at most, in all and of one source, and for how long.
const MOST: usize = 32;
const MOST_OF_ONE: usize = 8;
const PATIENCE: Duration = Duration::from_secs(60);

fn judge(input: &[u8]) {
    let (mut table, mut known, mut now) = (Reassembly::default(), Vec::new(), Instant::START);
    for (kind, bytes) in records(input) {
        match (kind % 8, bytes) {
            (0, [ttl, high, low, turn, message @ ..]) => {
                send(*ttl, u16::from_be_bytes([*high, *low]), *turn, message);
            }
            (1, [seconds, ..]) => now = now + Duration::from_secs(u64::from(*seconds)),
            _ => {
                plain(bytes);
                arrive(now, bytes, &mut table, &mut known);
            }
        }
    }
}

/// A datagram without fragments is parsed within its bytes.
fn plain(bytes: &[u8]) {
    for (_, body) in [read_v4(bytes), read_v6(bytes)].into_iter().flatten() {
        assert!(body.start >= 20 && body.start <= body.end && body.end == bytes.len());
    }
}

/// A message arrives as it was sent, also in fragments, the last of which completes it.
fn send(ttl: u8, mtu: u16, turn: u8, message: &[u8]) {
    let mtu = usize::from(mtu % 2_000);
    let (v4, v6) = (Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
    let envelope = Envelope {
        source: v6.into(),
        destination: v6.into(),
        ttl,
        alert: true,
    };
    let whole = datagram_v4(&envelope, v4, v4, message).unwrap_or_else(|e| panic!("IPv4: {e}"));
    let (arrival, body) = read_v4(&whole).unwrap_or_else(|| panic!("IPv4 is not read back"));
    assert!(arrival.ttl == ttl && &whole[body] == message);
    let mut parts = Vec::new();
    for piece in fragments::v4(&whole, mtu, 1).unwrap_or_default() {
        let (_, body) = read_v4(&piece).unwrap_or_else(|| panic!("a fragment of IPv4"));
        assert!(piece.len() <= mtu);
        parts.extend_from_slice(&piece[body]);
    }
    assert!(parts.is_empty() || parts == message);

    let whole = datagram_v6(&envelope, v6, v6, message).unwrap_or_else(|e| panic!("IPv6: {e}"));
    let (arrival, body) = read_v6(&whole).unwrap_or_else(|| panic!("IPv6 is not read back"));
    assert!(arrival.ttl == ttl && &whole[body] == message);
    let mut pieces = fragments::v6(&whole, mtu, 1).unwrap_or_default();
    let Some(middle) = usize::from(turn).checked_rem(pieces.len()) else {
        return;
    };
    pieces.rotate_left(middle);
    let mut table = Reassembly::default();
    for (at, piece) in pieces.iter().enumerate() {
        let fragment = reassembly::read(piece).unwrap_or_else(|| panic!("a fragment of IPv6"));
        let found = table.add(Instant::START, fragment);
        assert!(piece.len() <= mtu && found.is_some() == (at + 1 == pieces.len()));
        let is_as_sent = found.is_none_or(|found| found.body == message && found.arrival == arrival);
        assert!(is_as_sent, "another message than was sent");
    }
}

/// A fragment as the reference reads it.
struct Piece {
    offset: usize,
    last: bool,
    hop_limit: u8,
    data: Vec<u8>,
}

/// A datagram of which the reference has fragments, by its addresses and identification.
struct Known {
    name: [u8; 36],
    since: Instant,
    pieces: Vec<Piece>,
}

/// What the fragments of a datagram are together.
#[derive(PartialEq, Eq)]
enum Together {
    Incomplete,
    Contradiction,
    /// The hop limit of the first, and all bytes.
    Message(u8, Vec<u8>),
}

fn arrive(now: Instant, bytes: &[u8], table: &mut Reassembly, known: &mut Vec<Known>) {
    let read = reassembly::read(bytes);
    let reference = piece(bytes);
    assert_eq!(read.is_some(), reference.is_some(), "what is a fragment");
    let Some((fragment, (name, piece))) = read.zip(reference) else {
        return;
    };
    let found = table.add(now, fragment);
    known.retain(|datagram| now.since(datagram.since) < PATIENCE);
    let at = known.iter().position(|datagram| datagram.name == name);
    let at = at.unwrap_or_else(|| begin(known, name, now));
    let pieces = &mut known[at].pieces;
    let again = |known: &Piece| known.offset == piece.offset && known.data == piece.data;
    if !pieces.iter().any(again) {
        pieces.push(piece);
    }
    let together = together(pieces);
    if together != Together::Incomplete {
        known.remove(at);
    }
    match (together, found) {
        (Together::Message(hop_limit, body), Some(found)) => {
            assert!(body == found.body, "other bytes than came");
            assert_eq!(hop_limit, found.arrival.ttl);
        }
        (Together::Message(..), None) => panic!("a message was not told"),
        (_, found) => assert!(found.is_none(), "a message of fragments that make none"),
    }
}

/// Makes room for a datagram: where a source has its most its oldest, else the oldest of all.
fn begin(known: &mut Vec<Known>, name: [u8; 36], since: Instant) -> usize {
    let is_same_source = |datagram: &Known| datagram.name[..16] == name[..16];
    if known.iter().filter(|one| is_same_source(one)).count() == MOST_OF_ONE {
        let oldest = known.iter().position(is_same_source);
        oldest.into_iter().for_each(|at| drop(known.remove(at)));
    } else if known.len() == MOST {
        known.remove(0);
    }
    known.push(Known {
        name,
        since,
        pieces: Vec::new(),
    });
    known.len() - 1
}

/// RFC 8200, section 4.5: addresses and identification, and the fragment behind both headers.
fn piece(bytes: &[u8]) -> Option<([u8; 36], Piece)> {
    let (header, rest) = bytes.split_at_checked(40)?;
    let (next, more) = (*rest.first()?, *rest.get(1)?);
    let (_, rest) = rest.split_at_checked(8 + 8 * usize::from(more))?;
    let (fragment, data) = rest.split_at_checked(8)?;
    let place = u16::from_be_bytes([fragment[2], fragment[3]]);
    let name = [&header[8..40], &fragment[4..8]].concat();
    let piece = Piece {
        offset: usize::from(place) / 8 * 8,
        last: place % 2 == 0,
        hop_limit: header[7],
        data: data.to_vec(),
    };
    let has_a_place = !data.is_empty() && piece.offset + data.len() <= 65_535;
    // What follows another begins at a multiple of 8.
    let is_sound = has_a_place && (piece.last || data.len().is_multiple_of(8));
    let is_ours = header[6] == 0 && next == 44 && fragment[0] == 46;
    (is_ours && is_sound).then_some((name.try_into().ok()?, piece))
}

fn together(pieces: &[Piece]) -> Together {
    let end = |piece: &Piece| piece.offset + piece.data.len();
    let mut sorted: Vec<&Piece> = pieces.iter().collect();
    sorted.sort_by_key(|piece| piece.offset);
    let overlap = sorted.windows(2).any(|pair| end(pair[0]) > pair[1].offset);
    let is_behind_the_last = sorted.iter().rev().skip(1).any(|piece| piece.last);
    if overlap || is_behind_the_last {
        return Together::Contradiction;
    }
    let follows = sorted.windows(2).all(|pair| end(pair[0]) == pair[1].offset);
    match (sorted.first(), sorted.last()) {
        (Some(first), Some(last)) if follows && first.offset == 0 && last.last => {
            let body = sorted.iter().flat_map(|piece| piece.data.iter().copied());
            Together::Message(first.hop_limit, body.collect())
        }
        _ => Together::Incomplete,
    }
}
