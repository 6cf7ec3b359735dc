//! The lengths of TCP's frames: Ethernet's, IPv4's and TCP's headers with options, and data.

use engine::units::Bytes;

const ETHERNET: u64 = 14;
const IP: u64 = 20;
/// TCP's header with the timestamps option, padded.
const TCP: u64 = 20 + 12;

/// The data of a full segment, in IP packets of this length.
pub(super) fn mss(mtu: Bytes) -> Bytes {
    Bytes::new((mtu.get()).saturating_sub(IP + TCP).max(1))
}

/// The frame of a segment with this much data.
pub(super) fn data_frame(len: u32) -> Bytes {
    Bytes::new(ETHERNET + IP + TCP + u64::from(len))
}

/// The frame of an ACK with this many SACK blocks (RFC 2018: 8 bytes each, and 4 with padding).
pub(super) fn ack_frame(blocks: usize) -> Bytes {
    let option = if blocks > 0 { 4 + 8 * blocks as u64 } else { 0 };
    Bytes::new(ETHERNET + IP + TCP + option)
}

/// The frame of a SYN: MSS, SACK-permitted, timestamps and window scale take 20 bytes.
pub(super) fn syn_frame() -> Bytes {
    Bytes::new(ETHERNET + IP + 20 + 20)
}
