//! The ECN field of a frame: read on arrival, marked on departure (RFC 3168, section 5).
//!
//! Disciplines decide on a mark and never see a header; here the mark becomes bits. A mark on a
//! super-frame is a mark on each of its segments.

use crate::checksum;
use crate::layout;
use engine::packet::Ecn;

/// The ECN field of the frame's IP header; not capable if there is none.
pub fn read(frame: &[u8]) -> Ecn {
    let field = layout::network(frame).and_then(|(at, v6)| {
        let byte = frame.get(at + 1)?;
        Some(if v6 { byte >> 4 } else { *byte })
    });
    match field.unwrap_or(0) & 3 {
        0b10 => Ecn::Ect0,
        0b01 => Ecn::Ect1,
        0b11 => Ecn::Ce,
        _ => Ecn::NotEct,
    }
}

/// Sets "congestion experienced", and corrects IPv4's header checksum. Does nothing to a frame that has no
/// IP header, or is marked already.
pub fn mark(frame: &mut [u8]) {
    let Some((at, v6)) = layout::network(frame) else {
        return;
    };
    if v6 {
        // The traffic class lies across the first two bytes; ECN is bits 4 and 5 of the second.
        if let Some(byte) = frame.get_mut(at + 1) {
            *byte |= 0b0011_0000;
        }
        return;
    }
    let Some(header) = frame.get_mut(at..at + 20) else {
        return;
    };
    let old = u16::from_be_bytes([header[0], header[1]]);
    header[1] |= 3;
    let new = u16::from_be_bytes([header[0], header[1]]);
    let field = checksum::update(u16::from_be_bytes([header[10], header[11]]), old, new);
    header[10..12].copy_from_slice(&field.to_be_bytes());
}
