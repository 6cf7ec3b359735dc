//! The Internet checksum (RFC 1071), its incremental update (RFC 1624), and the completion of
//! checksums that a sender left to the hardware.

/// A checksum that its sender left to the hardware: only the pseudo-header's sum is in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unfinished {
    /// Where the checksummed bytes begin, from the start of the frame.
    pub start: u16,
    /// Where the checksum is, from `start`.
    pub offset: u16,
}

/// Adds the one's complement sum of bytes in network order to `sum`. `bytes` starts at an even
/// offset.
pub fn add(sum: u64, bytes: &[u8]) -> u64 {
    let mut chunks = bytes.chunks_exact(4);
    let mut sum = sum;
    for chunk in &mut chunks {
        // Four bytes at once: `fold` adds the carries later.
        sum += u64::from(u32::from_be_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]));
    }
    let mut rest = [0; 4];
    let tail = chunks.remainder();
    rest[..tail.len()].copy_from_slice(tail);
    sum + u64::from(u32::from_be_bytes(rest))
}

/// The sum folded to sixteen bits, not complemented.
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The checksum field that replaces `field` when a word that it covers changes from `old` to `new`
/// (RFC 1624, equation 3).
pub fn update(field: u16, old: u16, new: u16) -> u16 {
    !fold(u64::from(!field) + u64::from(!old) + u64::from(new))
}

/// Completes an unfinished checksum: so far its field contains the pseudo-header's sum. `false` if
/// the description does not fit the frame, which is then unchanged.
pub fn finish(frame: &mut [u8], unfinished: Unfinished) -> bool {
    let (start, field) = (
        usize::from(unfinished.start),
        usize::from(unfinished.start) + usize::from(unfinished.offset),
    );
    let Some(covered) = frame.get(start..).filter(|_| field + 2 <= frame.len()) else {
        return false;
    };
    let sum = !fold(add(0, covered));
    // Zero means "no checksum" in UDP. One's complement has two zeros, and 0xffff is right for all
    // protocols.
    let sum = if sum == 0 { 0xffff } else { sum };
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071() {
        let sum = fold(add(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]));
        assert_eq!(sum, 0xddf2);
    }

    #[test]
    fn a_description_beyond_the_frame_changes_nothing() {
        let mut frame = [0xab; 40];
        assert!(!finish(
            &mut frame,
            Unfinished {
                start: 34,
                offset: 16
            }
        ));
        assert!(!finish(&mut frame, Unfinished { start: 50, offset: 6 }));
        assert_eq!(frame, [0xab; 40]);
    }

    proptest! {
        #[test]
        fn a_finished_checksum_verifies(mut frame in prop::collection::vec(any::<u8>(), 20..200)) {
            let pseudo = u16::from_be_bytes([frame[16], frame[17]]);
            prop_assume!(finish(&mut frame, Unfinished { start: 10, offset: 6 }));
            let field = u16::from_be_bytes([frame[16], frame[17]]);
            // The sum over everything, the field and the pseudo-header included, is 0xffff.
            let sum = fold(add(u64::from(pseudo), &frame[10..]));
            prop_assert!(sum == 0xffff, "{field:04x} gives {sum:04x}");
        }

        #[test]
        fn an_update_in_place_equals_a_new_sum(mut words in prop::collection::vec(any::<u16>(), 3..20), new: u16) {
            let bytes = |words: &[u16]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
            let field = !fold(add(0, &bytes(&words)));
            let old = std::mem::replace(&mut words[1], new);
            let verified = fold(add(u64::from(update(field, old, new)), &bytes(&words)));
            prop_assert!(verified == 0xffff || verified == 0);
        }
    }
}
