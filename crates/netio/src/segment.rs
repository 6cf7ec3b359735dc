//! Cutting super-frames into the frames that the wire is to carry, as a network card does (TSO, USO).
//!
//! Each segment gets its own lengths, IPv4 identification, TCP sequence number and flags (FIN and PSH only
//! on the last; CWR only on the first, RFC 3168 section 6.1.2), and its checksums: the pseudo-header's sum
//! alone where the destination finishes it, or all of it.

use crate::checksum;
use crate::pool::{Gso, Offload, Pool, Unfinished};
use engine::header::{Family, Headers};
use engine::packet::Buffer;

const TCP: u8 = 6;
const UDP: u8 = 17;

const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// How a super-frame falls apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    network: usize,
    v6: bool,
    transport: usize,
    tcp: bool,
    /// Bytes of header in front of each segment.
    pub header: usize,
    /// Bytes of payload in each segment but the last.
    pub segment: usize,
    /// Segments.
    pub count: usize,
}

impl Cut {
    /// How this frame falls apart; `None` if it is no super-frame, or its headers are not what the
    /// description says.
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
            v6,
            transport,
            tcp,
            header,
            segment,
            count: (frame.len() - header).div_ceil(segment).max(1),
        })
    }

    /// The bytes that the wire carries: each segment has a header of its own.
    pub fn on_wire(&self, frame: usize) -> usize {
        frame + (self.count - 1) * self.header
    }

    /// The longest segment.
    pub fn longest(&self, frame: usize) -> usize {
        frame.min(self.header + self.segment)
    }
}

/// Cuts a super-frame into segments, which are appended in order, and gives its slot back. `finish`: the
/// checksums are computed; otherwise they are left to the destination. `false` if the pool has too few
/// slots: then nothing is appended, and the frame stays as it is.
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
    /// Makes a copy of the super-frame's header that of segment `index`. What is left is its checksum.
    fn adjust(&self, segment: &mut [u8], index: usize, last: bool) -> Unfinished {
        let Self {
            network,
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
