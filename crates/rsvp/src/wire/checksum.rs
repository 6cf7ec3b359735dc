//! The Internet checksum over a message (RFC 2205, section 3.1.1; RFC 1071).

/// The one's complement sum of 16-bit words; 0xffff over a message with a correct checksum.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| match pair {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        _ => u32::from(pair[0]) << 8,
    });
    // 64 KiB of words cannot overflow 32 bits.
    let total: u32 = words.sum();
    let folded = (total & 0xffff) + (total >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

/// Whether the checksum of a message is correct.
pub(super) fn holds(bytes: &[u8]) -> bool {
    sum(bytes) == 0xffff
}

/// The checksum of a message whose checksum field is zero. Never 0, which means "no checksum";
/// 0xffff is equivalent.
pub(super) fn of(bytes: &[u8]) -> u16 {
    match !sum(bytes) {
        0 => 0xffff,
        checksum => checksum,
    }
}
