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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_1071_3_the_sum_of_its_example_and_of_an_odd_byte() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(sum(&[0x00, 0x01, 0xf2]), 0xf201);
        assert_eq!(sum(&[]), 0);
    }

    #[test]
    fn a_carry_is_added_until_there_is_none() {
        assert_eq!(sum(&[0xff, 0xff, 0x00, 0x02]), 2);
        // The first fold of 0x1ffff carries once more.
        assert_eq!(sum(&[0xff, 0xff, 0xff, 0xff, 0x00, 0x01]), 1);
        assert_eq!(sum(&[0xff, 0xff, 0xff, 0xff]), 0xffff);
    }

    #[test]
    fn a_checksum_is_never_the_zero_that_means_none() {
        assert_eq!(of(&[0xff, 0xff]), 0xffff);
        assert_eq!(of(&[0x00, 0x00]), 0xffff);
        assert_eq!(of(&[0x12, 0x34]), 0xedcb);
        assert!(holds(&[0x12, 0x34, 0xed, 0xcb]));
        assert!(!holds(&[0x12, 0x34, 0xed, 0xcc]));
    }
}
