//! The virtio-net header (virtio 1.2, section 5.1.6; legacy form of ten bytes in native order), by
//! which AF_PACKET and TAP describe a frame's offloads.
//!
//! The flag for an already verified checksum is discarded: the next hop does not need it.

use crate::checksum::Unfinished;
use crate::pool::{Gso, Offload};

/// Bytes of the header.
pub const LEN: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const ECN: u8 = 0x80;
const TCP4: u8 = 1;
const TCP6: u8 = 4;
const UDP_L4: u8 = 5;

/// The header for a frame.
pub fn encode(offload: &Offload) -> [u8; LEN] {
    let gso = match offload.gso {
        None => 0,
        Some(Gso::Tcp4) => TCP4,
        Some(Gso::Tcp6) => TCP6,
        Some(Gso::Udp) => UDP_L4,
    };
    let (flags, start, place) = match offload.checksum {
        Some(Unfinished { start, offset }) => (NEEDS_CHECKSUM, start, offset),
        None => (0, 0, 0),
    };
    let mut header = [0; LEN];
    header[0] = flags;
    header[1] = if offload.ecn { gso | ECN } else { gso };
    for (at, value) in [(2, offload.header), (4, offload.segment), (6, start), (8, place)] {
        header[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    }
    header
}

/// Decodes a header; `None` if its kind of super-frame is not supported.
pub fn decode(header: [u8; LEN]) -> Option<Offload> {
    let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let gso = match header[1] & !ECN {
        0 => None,
        TCP4 => Some(Gso::Tcp4),
        TCP6 => Some(Gso::Tcp6),
        UDP_L4 => Some(Gso::Udp),
        _ => return None,
    };
    let unfinished = Unfinished {
        start: word(6),
        offset: word(8),
    };
    Some(Offload {
        gso,
        ecn: header[1] & ECN != 0,
        header: word(2),
        segment: word(4),
        checksum: (header[0] & NEEDS_CHECKSUM != 0).then_some(unfinished),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_decoded_header_is_encoded_alike(header in prop::array::uniform10(any::<u8>())) {
            if let Some(offload) = decode(header) {
                prop_assert_eq!(decode(encode(&offload)), Some(offload));
            }
        }
    }
}
