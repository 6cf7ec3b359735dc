//! Capture of a link: for each packet that goes onto its wire, when, its headers, and how long its frame is.
//!
//! Simulated packets have no bytes. Their headers are made up when they are captured, from the flow's key and from what
//! the packet carries ([`headers`]), so that the usual programs read a capture as they read one of a real link.

pub mod headers;

use crate::packet::Packet;
use engine::header::FlowKey;
use engine::units::Instant;

/// What was captured, up to a number of packets.
#[derive(Clone, Debug)]
pub struct Capture {
    limit: usize,
    frames: Vec<Kept>,
    bytes: Vec<u8>,
    missed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    at: Instant,
    original: u32,
    /// Where its headers end.
    end: usize,
}

/// A frame that was captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// When its first bit goes onto the wire: behind a plain buffer, known while it still waits.
    pub at: Instant,
    /// Its headers.
    pub headers: &'a [u8],
    /// Its length.
    pub original: u32,
}

impl Capture {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            frames: Vec::new(),
            bytes: Vec::new(),
            missed: 0,
        }
    }

    pub(crate) fn add(&mut self, at: Instant, key: &FlowKey, packet: &Packet) {
        if self.frames.len() >= self.limit {
            self.missed += 1;
            return;
        }
        let original = headers::write(&mut self.bytes, key, packet);
        let end = self.bytes.len();
        self.frames.push(Kept { at, original, end });
    }

    /// The frames, in the order of the wire.
    pub fn frames(&self) -> impl Iterator<Item = Frame<'_>> {
        self.frames.iter().scan(0, |begin, kept| {
            let headers = &self.bytes[std::mem::replace(begin, kept.end)..kept.end];
            Some(Frame {
                at: kept.at,
                headers,
                original: kept.original,
            })
        })
    }

    /// Packets that passed when there was no more room.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Forgets the frames, which somebody has written down, and has room again.
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
    fn a_capture_keeps_so_many_frames_counts_the_others_and_has_room_again_when_it_is_emptied() {
        let mut capture = Capture::new(2);
        for n in 1..=3 {
            let packet = Packet::new(Bytes::new(100 * n), Payload::Datagram(n));
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
        let packet = Packet::new(Bytes::new(7), Payload::Datagram(0));
        capture.add(Instant::from_nanos(9), &FlowKey::default(), &packet);
        assert_eq!(capture.frames().next().map(|frame| frame.original), Some(14));
    }
}
