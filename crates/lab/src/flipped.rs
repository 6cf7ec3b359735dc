//! A bit of a frame that an emulated wire flips.
//!
//! A flipped bit is one that the transport's checksum covers: TCP, UDP and ICMP at the receiver
//! find it there, drop the packet and count it (`InCsumErrors` of `/proc/net/snmp`), as every flip
//! of a single bit changes the sum. In front of it are headers that routers read on the way, and
//! which in IPv6 nothing covers. A datagram of UDP without a checksum arrives as it is then.

use engine::header::Headers;
use measure::impairments::FlippedBit;
use netio::checksum;
use netio::pool::Offload;
use std::ops::Range;

/// The number of UDP, and where its checksum is in its header.
const UDP: u8 = 17;
const UDP_CHECKSUM: usize = 6;
/// The length of an Ethernet header.
const ETHERNET: usize = 14;

/// Flips a bit of a frame, whose checksum is no longer left to the hardware then.
pub(crate) fn flip(frame: &mut [u8], offload: &mut Offload, bit: FlippedBit) {
    if let Some(unfinished) = offload.checksum
        && checksum::finish(frame, unfinished)
    {
        *offload = Offload::default();
    }
    let headers = Headers::parse(frame, 0);
    let covered = covered(frame.len(), &headers);
    let bits = covered.len() as u64 * 8;
    if bits == 0 {
        return;
    }
    let place = bit.0 % bits;
    let at = covered.start + (place / 8) as usize;
    frame[at] ^= 1 << (place % 8);
    let udp = headers.l4.filter(|_| headers.key.protocol == UDP);
    let Some(field) = udp.map(|l4| usize::from(l4) + UDP_CHECKSUM) else {
        return;
    };
    if (field..field + 2).contains(&at) && frame[field..field + 2] == [0, 0] {
        // That would say that there is none: three other bits are wrong instead.
        frame[field..field + 2].copy_from_slice(&[0x81, 0x80]);
    }
}

/// What the transport's checksum covers; of what has no transport, all behind the Ethernet header.
fn covered(len: usize, headers: &Headers) -> Range<usize> {
    let l3 = headers.l3.map(usize::from);
    let end = l3.map_or(len, |l3| len.min(l3 + headers.l3_len as usize));
    let start = headers.l4.map(usize::from).or(l3).unwrap_or(ETHERNET);
    start.min(end)..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use netio::checksum::Unfinished;

    const HEADERS: usize = 14 + 20;

    /// A frame of IPv4 with this protocol, payload behind its header, and its checksum finished.
    fn frame(protocol: u8, field: usize, payload: &[u8], padding: usize) -> Vec<u8> {
        let mut frame = vec![0; HEADERS + payload.len() + padding];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45;
        let total = (20 + payload.len()) as u16;
        frame[16..18].copy_from_slice(&total.to_be_bytes());
        frame[22] = 64;
        frame[23] = protocol;
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[HEADERS..HEADERS + payload.len()].copy_from_slice(payload);
        let sum = pseudo(&frame, payload.len());
        frame[HEADERS + field..HEADERS + field + 2].copy_from_slice(&checksum::fold(sum).to_be_bytes());
        let end = HEADERS + payload.len();
        let unfinished = Unfinished {
            start: HEADERS as u16,
            offset: field as u16,
        };
        assert!(checksum::finish(&mut frame[..end], unfinished));
        frame
    }

    fn pseudo(frame: &[u8], len: usize) -> u64 {
        checksum::add(0, &frame[26..34]) + u64::from(frame[23]) + len as u64
    }

    /// Whether a receiver finds the transport's checksum right.
    fn is_right(frame: &[u8], len: usize) -> bool {
        let covered = checksum::add(pseudo(frame, len), &frame[HEADERS..HEADERS + len]);
        checksum::fold(covered) == 0xffff
    }

    #[test]
    fn every_bit_that_may_be_flipped_is_found_by_the_receiver_and_nothing_else_is_touched() {
        for (protocol, field, len) in [(6, 16, 33), (17, 6, 20)] {
            for fill in 0..40 {
                let payload: Vec<u8> = (0..len).map(|n| (n * 7 + fill * 31) as u8).collect();
                let sent = frame(protocol, field, &payload, 9);
                assert!(is_right(&sent, payload.len()));
                for bit in 0..payload.len() as u64 * 8 {
                    let mut got = sent.clone();
                    flip(
                        &mut got,
                        &mut Offload::default(),
                        FlippedBit(bit + 5 * 8 * payload.len() as u64),
                    );
                    assert!(!is_right(&got, payload.len()), "{protocol} {fill} {bit}");
                    assert!(
                        protocol != 17 || got[HEADERS + 6..HEADERS + 8] != [0, 0],
                        "no checksum at all"
                    );
                    assert_eq!(got[..HEADERS], sent[..HEADERS]);
                    assert_eq!(
                        got[HEADERS + payload.len()..],
                        sent[HEADERS + payload.len()..],
                        "padding"
                    );
                }
            }
        }
    }

    /// One bit less in a checksum of one bit is none in UDP.
    #[test]
    fn a_checksum_of_udp_that_the_flip_would_clear_is_wrong_instead() {
        let mut payload = [0; 12];
        payload[4..6].copy_from_slice(&[0, 12]);
        // The last word makes up for all others but 0x0100.
        let rest = checksum::fold(pseudo(&frame(17, 6, &payload, 0), 12) + 12);
        let last = checksum::fold(u64::from(!rest) + u64::from(!0x0100_u16));
        payload[10..12].copy_from_slice(&last.to_be_bytes());
        let sent = frame(17, 6, &payload, 0);
        assert_eq!(sent[HEADERS + 6..HEADERS + 8], [1, 0]);
        let mut got = sent.clone();
        flip(&mut got, &mut Offload::default(), FlippedBit(6 * 8));
        assert_ne!(got[HEADERS + 6..HEADERS + 8], [0, 0]);
        assert!(!is_right(&got, 12));
    }

    #[test]
    fn a_checksum_that_was_left_to_the_hardware_is_finished_before_and_is_wrong_then() {
        let payload = [9; 30];
        let finished = frame(6, 16, &payload, 0);
        let mut got = finished.clone();
        let sum = checksum::fold(pseudo(&finished, 30));
        got[HEADERS + 16..HEADERS + 18].copy_from_slice(&sum.to_be_bytes());
        let mut offload = Offload {
            checksum: Some(Unfinished {
                start: HEADERS as u16,
                offset: 16,
            }),
            ..Offload::default()
        };
        flip(&mut got, &mut offload, FlippedBit(0));
        assert_eq!(offload, Offload::default());
        let mut expected = finished;
        expected[HEADERS] ^= 1;
        assert_eq!(got, expected);
    }

    #[test]
    fn what_is_no_ip_is_flipped_behind_its_ethernet_header_and_what_is_empty_is_left() {
        let mut arp = vec![0; 42];
        arp[12..14].copy_from_slice(&[8, 6]);
        let sent = arp.clone();
        flip(&mut arp, &mut Offload::default(), FlippedBit(28 * 8));
        assert_eq!(arp[14], 1, "the first bit behind the header");
        assert_eq!(arp[..14], sent[..14]);
        let mut short = vec![0; 14];
        flip(&mut short, &mut Offload::default(), FlippedBit(3));
        assert_eq!(short, vec![0; 14]);
    }
}
