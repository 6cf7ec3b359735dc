//! Packet capture on a link: when each packet goes onto the wire, its headers, its frame's length.
//!
//! Simulated packets have no bytes. Headers are synthesised at capture from the flow's key and the
//! packet's payload ([`headers`]), so that the usual tools read a capture like one of a real link.

pub mod headers;

use crate::packet::SimPacket;
use engine::header::FlowKey;
use engine::units::Instant;

/// Captured packets, up to a number.
#[derive(Clone, Debug)]
pub struct LinkCapture {
    limit: usize,
    frames: Vec<Record>,
    bytes: Vec<u8>,
    missed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    at: Instant,
    original: u32,
    /// Where its headers end in `bytes`.
    end: usize,
}

/// A captured frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapturedFrame<'a> {
    /// When its first bit goes onto the wire; behind a tail-drop buffer this may lie ahead.
    pub at: Instant,
    /// Its headers.
    pub headers: &'a [u8],
    /// The frame's length.
    pub original: u32,
}

impl LinkCapture {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            frames: Vec::new(),
            bytes: Vec::new(),
            missed: 0,
        }
    }

    pub(crate) fn add(&mut self, at: Instant, key: &FlowKey, packet: &SimPacket) {
        if self.frames.len() >= self.limit {
            self.missed += 1;
            return;
        }
        let original = headers::write(&mut self.bytes, key, packet);
        let end = self.bytes.len();
        self.frames.push(Record { at, original, end });
    }

    /// The frames, in their order on the wire.
    pub fn frames(&self) -> impl Iterator<Item = CapturedFrame<'_>> {
        self.frames.iter().scan(0, |begin, record| {
            let headers = &self.bytes[std::mem::replace(begin, record.end)..record.end];
            Some(CapturedFrame {
                at: record.at,
                headers,
                original: record.original,
            })
        })
    }

    /// Packets that passed when the capture was full.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Discards the frames, so that there is room again.
    pub(crate) fn clear(&mut self) {
        self.frames.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Payload;
    use engine::units::Bytes;

    #[test]
    fn a_capture_keeps_its_number_of_frames_counts_the_others_and_has_room_again_when_cleared() {
        let mut capture = LinkCapture::new(2);
        for n in 1..=3 {
            let packet = SimPacket::new(Bytes::new(100 * n), Payload::Datagram(n));
            capture.add(Instant::from_nanos(n), &FlowKey::default(), &packet);
        }
        let seen: Vec<_> = capture
            .frames()
            .map(|frame| (frame.at.nanos(), frame.headers.len(), frame.original))
            .collect();
        assert_eq!(seen, [(1, 14, 100), (2, 14, 200)]);
        assert_eq!(capture.missed(), 1);
        capture.clear();
        assert_eq!(capture.frames().count(), 0);
        let packet = SimPacket::new(Bytes::new(7), Payload::Datagram(0));
        capture.add(Instant::from_nanos(9), &FlowKey::default(), &packet);
        assert_eq!(capture.frames().next().map(|frame| frame.original), Some(14));
    }
}
