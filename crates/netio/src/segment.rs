//! Segments super-frames into frames for the wire, as a network card does (TSO, USO).
//!
//! Each segment gets its own lengths, IPv4 identification, TCP sequence number and flags (FIN and
//! PSH only on the last; CWR only on the first, RFC 3168 section 6.1.2), and its checksums:
//! complete, or the pseudo-header's sum alone where the destination completes it.

use crate::checksum;
use crate::checksum::Unfinished;
use crate::pool::{Gso, Offload, Pool};
use engine::header::{Family, Headers, pppoe_length};
use engine::packet::Buffer;

const TCP: u8 = 6;
const UDP: u8 = 17;

const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// How a super-frame is segmented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    network: usize,
    /// Where PPPoE in front of it has its length.
    pppoe: Option<usize>,
    v6: bool,
    transport: usize,
    tcp: bool,
    /// Bytes of headers of each segment.
    pub header: usize,
    /// Bytes of payload in each segment but the last.
    pub segment: usize,
    /// Number of segments.
    pub count: usize,
}

impl Cut {
    /// How this frame is segmented; `None` if it is no super-frame, or its headers contradict its
    /// offload description.
    pub fn of(frame: &[u8], offload: &Offload, headers: &Headers) -> Option<Self> {
        let gso = offload.gso?;
        let (network, transport) = (usize::from(headers.l3?), usize::from(headers.l4?));
        let (v6, protocol) = (headers.key.family == Family::V6, headers.key.protocol);
        let fits = match gso {
            Gso::Tcp4 => protocol == TCP && !v6,
            Gso::Tcp6 => protocol == TCP && v6,
            Gso::Udp => protocol == UDP,
        };
        let tcp = protocol == TCP;
        let own = if tcp {
            usize::from(frame.get(transport + 12)? >> 4) * 4
        } else {
            8
        };
        let (header, segment) = (transport + own, usize::from(offload.segment));
        let possible = fits && segment > 0 && own >= if tcp { 20 } else { 8 } && header <= frame.len();
        possible.then(|| Self {
            network,
            pppoe: pppoe_length(frame),
            v6,
            transport,
            tcp,
            header,
            segment,
            count: (frame.len() - header).div_ceil(segment).max(1),
        })
    }

    /// The bytes of all segments together, each with its own headers.
    pub fn on_wire(&self, frame: usize) -> usize {
        frame + (self.count - 1) * self.header
    }

    /// The length of the longest segment.
    pub fn longest(&self, frame: usize) -> usize {
        frame.min(self.header + self.segment)
    }
}

/// Segments a super-frame, appends the segments in order, and frees its slot. With `finish` the
/// checksums are computed, otherwise they are left to the destination. `false` if the pool has too
/// few slots: nothing is appended then, and the frame stays as it is.
pub fn cut(pool: &mut Pool, frame: Buffer, plan: &Cut, finish: bool, into: &mut Vec<Buffer>) -> bool {
    let first = into.len();
    for index in 0..plan.count {
        let from = plan.header + index * plan.segment;
        let payload = plan.segment.min(pool.len(frame) - from);
        let Some(segment) = pool.take(plan.header + payload) else {
            into.drain(first..).for_each(|b| pool.free(b));
            return false;
        };
        pool.set_len(segment, plan.header + payload);
        pool.copy(frame, 0, segment, 0, plan.header);
        pool.copy(frame, from, segment, plan.header, payload);
        let last = index + 1 == plan.count;
        let unfinished = plan.adjust(pool.bytes_mut(segment), index, last);
        if finish {
            checksum::finish(pool.bytes_mut(segment), unfinished);
        }
        let checksum = (!finish).then_some(unfinished);
        pool.set_offload(
            segment,
            Offload {
                checksum,
                ..Offload::default()
            },
        );
        into.push(segment);
    }
    pool.free(frame);
    true
}

impl Cut {
    /// Turns a copy of the super-frame's headers into those of segment `index`. Its checksum
    /// remains to be completed.
    fn adjust(&self, segment: &mut [u8], index: usize, last: bool) -> Unfinished {
        let Self {
            network,
            pppoe,
            v6,
            transport,
            tcp,
            ..
        } = *self;
        let put =
            |bytes: &mut [u8], at: usize, value: u16| bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
        // A slot holds at most 64 KiB, so lengths inside it fit sixteen bits.
        let (ip_len, l4_len) = (
            (segment.len() - network) as u16,
            (segment.len() - transport) as u16,
        );
        if let Some(at) = pppoe {
            // PPP's protocol counts.
            put(segment, at, ip_len + 2);
        }
        if v6 {
            put(segment, network + 4, ip_len - 40);
        } else {
            put(segment, network + 2, ip_len);
            let id = u16::from_be_bytes([segment[network + 4], segment[network + 5]]);
            put(segment, network + 4, id.wrapping_add(index as u16));
            put(segment, network + 10, 0);
            let sum = !checksum::fold(checksum::add(0, &segment[network..transport]));
            put(segment, network + 10, sum);
        }
        let field = if tcp {
            self.adjust_tcp(segment, index, last);
            16
        } else {
            put(segment, transport + 4, l4_len);
            6
        };
        let addresses = if v6 {
            network + 8..network + 40
        } else {
            network + 12..network + 20
        };
        let protocol = if tcp { TCP } else { UDP };
        let pseudo = checksum::add(u64::from(protocol) + u64::from(l4_len), &segment[addresses]);
        put(segment, transport + field, checksum::fold(pseudo));
        Unfinished {
            start: transport as u16,
            offset: field as u16,
        }
    }

    fn adjust_tcp(&self, segment: &mut [u8], index: usize, last: bool) {
        let header = &mut segment[self.transport..];
        let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let sequence = sequence.wrapping_add((index * self.segment) as u32);
        header[4..8].copy_from_slice(&sequence.to_be_bytes());
        if !last {
            header[13] &= !FIN_PSH;
        }
        if index > 0 {
            header[13] &= !CWR;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Slots;
    use proptest::prelude::*;

    /// The parameters of a generated super-frame.
    #[derive(Clone, Debug)]
    struct SuperFrame {
        v6: bool,
        tcp: bool,
        tags: usize,
        pppoe: bool,
        /// Words of IPv4 options; in IPv6, a hop-by-hop header if not 0.
        extra: usize,
        tcp_options: usize,
        flags: u8,
        sequence: u32,
        id: u16,
        payload: Vec<u8>,
        segment: u16,
    }

    impl SuperFrame {
        fn gso(&self) -> Gso {
            match (self.tcp, self.v6) {
                (false, _) => Gso::Udp,
                (true, false) => Gso::Tcp4,
                (true, true) => Gso::Tcp6,
            }
        }

        fn transport_header(&self) -> Vec<u8> {
            if !self.tcp {
                return vec![0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0];
            }
            let mut header = vec![0x12, 0x34, 0x56, 0x78];
            header.extend(self.sequence.to_be_bytes());
            header.extend([
                1,
                2,
                3,
                4,
                ((5 + self.tcp_options) << 4) as u8,
                self.flags,
                0xff,
                0xff,
                0,
                0,
                0,
                0,
            ]);
            header.extend(vec![1; self.tcp_options * 4]);
            header
        }

        fn frame(&self) -> Vec<u8> {
            let protocol = if self.tcp { TCP } else { UDP };
            let transport = self.transport_header();
            let mut frame = vec![0xaa; 12];
            (0..self.tags).for_each(|_| frame.extend([0x81, 0x00, 0x20, 0x05]));
            let length = transport.len() + self.payload.len();
            let above = if self.v6 {
                40 + 8 * usize::from(self.extra > 0)
            } else {
                20 + 4 * self.extra
            };
            if self.pppoe {
                frame.extend([0x88, 0x64, 0x11, 0, 0, 1]);
                frame.extend(((2 + above + length) as u16).to_be_bytes());
            }
            frame.extend(match (self.pppoe, self.v6) {
                (false, true) => [0x86, 0xdd],
                (false, false) => [0x08, 0x00],
                (true, true) => [0x00, 0x57],
                (true, false) => [0x00, 0x21],
            });
            if self.v6 {
                let extension = if self.extra > 0 { 8 } else { 0 };
                frame.extend([0x60, 0, 0, 0]);
                frame.extend(((length + extension) as u16).to_be_bytes());
                frame.extend([if self.extra > 0 { 0 } else { protocol }, 64]);
                frame.extend((0..32).collect::<Vec<u8>>());
                if self.extra > 0 {
                    frame.extend([protocol, 0, 1, 4, 0, 0, 0, 0]);
                }
            } else {
                let header = 20 + 4 * self.extra;
                frame.extend([0x40 | (header / 4) as u8, 0]);
                frame.extend(((length + header) as u16).to_be_bytes());
                frame.extend(self.id.to_be_bytes());
                frame.extend([0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
                frame.extend(vec![1; 4 * self.extra]);
            }
            frame.extend(transport);
            frame.extend(&self.payload);
            frame
        }
    }

    fn super_frame() -> impl Strategy<Value = SuperFrame> {
        let shape = (
            any::<bool>(),
            any::<bool>(),
            0..3usize,
            any::<bool>(),
            0..3usize,
            0..4usize,
        );
        let fields = (any::<u8>(), any::<u32>(), any::<u16>());
        let size = (prop::collection::vec(any::<u8>(), 1..9000), 100..2500u16);
        (shape, fields, size).prop_map(|(shape, (flags, sequence, id), (payload, segment))| {
            let (v6, tcp, tags, pppoe, extra, tcp_options) = shape;
            SuperFrame {
                v6,
                tcp,
                tags,
                pppoe,
                extra,
                tcp_options,
                flags,
                sequence,
                id,
                payload,
                segment,
            }
        })
    }

    /// The segments, each as bytes and its offload description.
    fn segments(made: &SuperFrame, finish: bool) -> (Cut, Vec<(Vec<u8>, Offload)>) {
        let mut pool = Pool::new(Slots { small: 128, big: 128 }).expect("memory");
        let offload = Offload {
            gso: Some(made.gso()),
            segment: made.segment,
            ..Offload::default()
        };
        let frame = pool.put(&made.frame(), offload).expect("a slot");
        let headers = Headers::parse(pool.bytes(frame), 0);
        let plan = Cut::of(pool.bytes(frame), &offload, &headers).expect("a super-frame");
        let mut cuts = Vec::new();
        assert!(cut(&mut pool, frame, &plan, finish, &mut cuts));
        let all = cuts
            .iter()
            .map(|b| (pool.bytes(*b).to_vec(), pool.offload(*b)))
            .collect();
        (plan, all)
    }

    /// The sum over pseudo-header, transport header and payload: 0xffff if the checksum is right.
    fn verify(segment: &[u8], plan: &Cut) -> u16 {
        let addresses = if plan.v6 {
            plan.network + 8..plan.network + 40
        } else {
            plan.network + 12..plan.network + 20
        };
        let length = (segment.len() - plan.transport) as u64;
        let protocol = u64::from(if plan.tcp { TCP } else { UDP });
        let pseudo = checksum::add(protocol + length, &segment[addresses]);
        checksum::fold(checksum::add(pseudo, &segment[plan.transport..]))
    }

    proptest! {
        #[test]
        fn segments_put_together_are_the_payload_and_every_checksum_verifies(made in super_frame()) {
            let (plan, all) = segments(&made, true);
            let payload: Vec<u8> = all.iter().flat_map(|(s, _)| s[plan.header..].to_vec()).collect();
            prop_assert!(payload == made.payload, "the payload changed");
            prop_assert_eq!(all.len(), made.payload.len().div_ceil(usize::from(made.segment)));
            let on_wire: usize = all.iter().map(|(s, _)| s.len()).sum();
            prop_assert_eq!(on_wire, plan.on_wire(made.frame().len()));
            for (segment, offload) in &all {
                prop_assert_eq!(*offload, Offload::default());
                prop_assert_eq!(verify(segment, &plan), 0xffff);
                let headers = Headers::parse(segment, 0);
                prop_assert_eq!(headers.flaw, None);
                prop_assert_eq!(headers.l3_len as usize, segment.len() - plan.network);
                if made.pppoe {
                    let at = plan.network - 4;
                    let length = u16::from_be_bytes([segment[at], segment[at + 1]]);
                    prop_assert_eq!(usize::from(length), segment.len() - plan.network + 2);
                }
                if !made.v6 {
                    let header = &segment[plan.network..plan.transport];
                    prop_assert_eq!(checksum::fold(checksum::add(0, header)), 0xffff);
                }
            }
        }

        #[test]
        fn sequence_numbers_advance_and_flags_are_on_the_right_segments(made in super_frame()) {
            let (plan, all) = segments(&made, true);
            for (index, (segment, _)) in all.iter().enumerate() {
                let word = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
                if !made.v6 {
                    prop_assert_eq!(word(plan.network + 4), made.id.wrapping_add(index as u16));
                }
                if !made.tcp {
                    prop_assert_eq!(usize::from(word(plan.transport + 4)), segment.len() - plan.transport);
                    continue;
                }
                let (first, last) = (index == 0, index + 1 == all.len());
                let offset = index as u32 * u32::from(made.segment);
                let high = u32::from(word(plan.transport + 4)) << 16;
                let sequence = high | u32::from(word(plan.transport + 6));
                prop_assert_eq!(sequence, made.sequence.wrapping_add(offset));
                let mut flags = made.flags;
                if !last {
                    flags &= !FIN_PSH;
                }
                if !first {
                    flags &= !CWR;
                }
                prop_assert_eq!(segment[plan.transport + 13], flags);
            }
        }

        #[test]
        fn a_checksum_that_the_destination_completes_is_the_same(made in super_frame()) {
            let (_, finished) = segments(&made, true);
            let (_, left) = segments(&made, false);
            for ((finished, _), (mut segment, offload)) in finished.into_iter().zip(left) {
                let unfinished = offload.checksum.expect("left to be done");
                prop_assert!(checksum::finish(&mut segment, unfinished));
                prop_assert!(segment == finished);
            }
        }

        #[test]
        fn garbage_is_no_super_frame_or_is_segmented_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), segment: u16) {
            let mut pool = Pool::new(Slots { small: 512, big: 1 }).expect("memory");
            for gso in [Gso::Tcp4, Gso::Tcp6, Gso::Udp] {
                let offload = Offload { gso: Some(gso), segment, ..Offload::default() };
                let frame = pool.put(&bytes, offload).expect("a slot");
                if let Some(plan) = Cut::of(&bytes, &offload, &Headers::parse(&bytes, 0)) {
                    let mut cuts = Vec::new();
                    prop_assert!(cut(&mut pool, frame, &plan, true, &mut cuts));
                    cuts.into_iter().for_each(|b| pool.free(b));
                } else {
                    pool.free(frame);
                }
            }
            prop_assert_eq!(pool.usage().map(|u| u.used), [0, 0]);
        }
    }
}
