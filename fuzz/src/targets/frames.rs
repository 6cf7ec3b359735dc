//! Frames: what the parser says of headers, against another that only reads ports, and what marks
//! and code points do to a frame.

use super::FuzzTarget;
use crate::mutate::InputShape;
use engine::header::{FlowHasher, FlowKey, Headers, set_ce, set_dscp};
use engine::packet::Ecn;
use engine::random::Seed;
use netio::checksum;

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "frames",
    about: "frames: offsets within the frame, ports as another parser sees them, checksums right after marks",
    shape: InputShape::Binary(400),
    tree: &[],
    make: || {
        let hasher = FlowHasher::new(Seed(7));
        Box::new(move |frame| judge(frame, &hasher))
    },
};

fn judge(frame: &[u8], hasher: &FlowHasher) {
    let headers = Headers::parse(frame, 5);
    let key = headers.key;
    assert_eq!(key.mark, 5);
    let (l3, l4) = (headers.l3.map(usize::from), headers.l4.map(usize::from));
    assert!(l3.is_none_or(|at| at < frame.len()));
    assert!(l4.is_none_or(|at| at <= frame.len() && l3.is_some_and(|l3| l3 < at)));
    assert!(l3.is_some() || (headers.l3_len == 0 && l4.is_none()));
    assert!(l3.is_none_or(|at| at + headers.l3_len as usize <= frame.len()));
    if headers.flaw.is_none()
        && let Some(ports) = ports(frame)
    {
        assert_eq!(ports, (key.source_port, key.destination_port));
    }
    let _ = hasher.flow(&key);
    let mut padded = frame.to_vec();
    padded.extend([0; 7]);
    let of_padded = Headers::parse(&padded, 5);
    if headers.flaw.is_none() && headers.l3.is_some() {
        // Where a length of 0 is declared, what is there is the packet's, padding included.
        let declared = headers.l3_len == of_padded.l3_len;
        let same = |headers: &Headers| {
            let (length, tcp_flags) = match declared {
                true => (headers.key.length, headers.key.tcp_flags),
                false => (0, None),
            };
            let key = FlowKey {
                length,
                tcp_flags,
                ..headers.key
            };
            (key, headers.l3, headers.l4, headers.flaw)
        };
        assert_eq!(
            same(&headers),
            same(&of_padded),
            "padding is no part of the packet"
        );
    }
    mark(frame, &key, headers.flaw.is_none());
}

type PortPair = (Option<u16>, Option<u16>);

/// The ports, by a reader that knows packets without further headers only; none of others.
fn ports(frame: &[u8]) -> Option<PortPair> {
    let mut rest = frame.get(12..)?;
    while matches!(rest.get(..2)?, [0x81, 0] | [0x88, 0xa8] | [0x91, 0]) {
        rest = rest.get(4..)?;
    }
    let (kind, packet) = rest.split_at_checked(2)?;
    let Some((version, packet)) = ip(kind, packet)? else {
        return Some((None, None));
    };
    let (protocol, header) = match version {
        4 if packet[6] & 0x1f != 0 || packet[7] != 0 => return Some((None, None)),
        4 => (packet[9], usize::from(packet[0] & 15) * 4),
        _ => (packet[6], 40),
    };
    match protocol {
        6 | 17 | 33 | 132 | 136 => {
            let port = |at: usize| Some(u16::from_be_bytes(*packet.get(header + at..)?.first_chunk()?));
            Some((port(0), port(2)))
        }
        0 | 43 | 44 | 51 | 60 => None,
        _ => Some((None, None)),
    }
}

/// The version of IP behind a type, and the packet, also behind PPPoE and labels; or that there is
/// none. None where the frame ends before.
fn ip<'a>(kind: &[u8], rest: &'a [u8]) -> Option<Option<(u8, &'a [u8])>> {
    let found = match kind {
        [0x08, 0x00] => Some((4, rest)),
        [0x86, 0xdd] => Some((6, rest)),
        [0x88, 0x64] => match rest.split_at_checked(8)? {
            ([0x11, 0, _, _, _, _, 0, 0x21], packet) => Some((4, packet)),
            ([0x11, 0, _, _, _, _, 0, 0x57], packet) => Some((6, packet)),
            _ => None,
        },
        [0x88, 0x47 | 0x48] => {
            let last = rest.chunks_exact(4).position(|label| label[2] & 1 == 1)?;
            let packet = &rest[4 * last + 4..];
            let version = packet.first()? >> 4;
            matches!(version, 4 | 6).then_some((version, packet))
        }
        _ => None,
    };
    Some(found)
}

fn valid_sum(frame: &[u8]) -> Option<bool> {
    let l3 = usize::from(Headers::parse(frame, 0).l3?);
    let header = usize::from(frame[l3] & 15) * 4;
    (frame[l3] >> 4 == 4).then(|| {
        let header = frame.get(l3..l3 + header);
        header.is_some_and(|header| checksum::fold(checksum::add(0, header)) == 0xffff)
    })
}

/// A mark and a code point change what they should, and leave a right checksum right.
fn mark(frame: &[u8], key: &FlowKey, whole: bool) {
    let was = valid_sum(frame);
    let mut marked = frame.to_vec();
    let done = set_ce(&mut marked);
    let after = Headers::parse(&marked, 5).key;
    if done {
        assert_eq!(after, FlowKey { ecn: Ecn::Ce, ..*key });
        assert!(key.ecn != Ecn::NotEct);
        assert!(
            was != Some(true) || valid_sum(&marked) == Some(true),
            "a right sum became wrong"
        );
    } else {
        assert_eq!(marked, frame, "changed what it refused");
        assert!(
            !whole || !matches!(key.ecn, Ecn::Ect0 | Ecn::Ect1),
            "refused a capable packet"
        );
    }
    let mut remarked = frame.to_vec();
    if set_dscp(&mut remarked, 46) {
        assert_eq!(Headers::parse(&remarked, 5).key, FlowKey { dscp: 46, ..*key });
        assert!(
            was != Some(true) || valid_sum(&remarked) == Some(true),
            "a right sum became wrong"
        );
    } else {
        assert_eq!(remarked, frame, "changed what it refused");
    }
}
