//! The sending sides of streams: what is written, sent, acknowledged and lost of each.
//!
//! Data that was lost goes first (RFC 9000, section 13.3); otherwise streams take turns, a packet
//! each.

use super::wire::{FRAMES, StreamFrame};
use crate::packet::ByteRange;
use crate::tcp::ranges::RangeSet;
use std::collections::BTreeMap;

/// The sending side of a stream.
#[derive(Clone, Debug, Default)]
struct SendStream {
    written: u64,
    closed: bool,
    /// The next byte that was never sent.
    next: u64,
    acknowledged: RangeSet,
    /// Bytes to be sent again.
    lost: RangeSet,
    end: End,
}

/// What became of the end of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum End {
    /// It is not sent, or it is to be sent again.
    #[default]
    Due,
    Sent,
    Acknowledged,
}

impl SendStream {
    fn end_is_due(&self) -> bool {
        self.closed && self.end == End::Due && self.next == self.written
    }

    fn is_complete(&self) -> bool {
        self.end == End::Acknowledged && self.acknowledged.bytes() == self.written
    }

    /// The next frame with so many bytes at most, of which so many may be new.
    fn frame(&mut self, stream: u32, room: u64, credit: u64) -> Option<StreamFrame> {
        let room = room.min(u64::from(u16::MAX));
        let range = match self.lost.at_or_after(0) {
            Some(lost) => {
                let range = ByteRange::new(lost.start, lost.end.min(lost.start + room));
                self.lost.remove(range);
                range
            }
            None => {
                let end = self.written.min(self.next + room.min(credit));
                let range = ByteRange::new(self.next, end);
                self.next = end;
                range
            }
        };
        let fin = self.closed && range.end == self.written && self.end == End::Due;
        if fin {
            self.end = End::Sent;
        }
        let frame = StreamFrame {
            offset: range.start,
            stream,
            len: range.len() as u16,
            fin,
        };
        (!frame.is_none()).then_some(frame)
    }
}

/// The sending sides of all streams that are not complete.
#[derive(Clone, Debug, Default)]
pub struct SendStreams {
    open: BTreeMap<u32, SendStream>,
    /// The stream that had the last turn.
    turn: Option<u32>,
    /// New bytes that were sent, and how many may be.
    sent: u64,
    max_data: u64,
}

impl SendStreams {
    /// More is written to a stream, which that opens.
    pub fn write(&mut self, stream: u32, bytes: u64) {
        let open = self.open.entry(stream).or_default();
        open.written = open.written.saturating_add(bytes);
    }

    /// Nothing more is written to a stream.
    pub fn close(&mut self, stream: u32) {
        self.open.entry(stream).or_default().closed = true;
    }

    /// The bytes that a frame may have that goes on with a stream, within so many bytes.
    pub fn fitting(&self, stream: u32, room: u64) -> u64 {
        let written = self.open.get(&stream).map_or(0, |open| open.written);
        room.saturating_sub(StreamFrame::header(stream, written))
    }

    /// Whether every stream is complete: all of it, its end included, is acknowledged.
    pub fn are_complete(&self) -> bool {
        self.open.is_empty()
    }

    /// The receiver accepts so many bytes of all streams together.
    pub(super) fn accept(&mut self, max_data: u64) {
        self.max_data = self.max_data.max(max_data);
    }

    /// How many new bytes the receiver accepts.
    pub(super) fn credit(&self) -> u64 {
        self.max_data.saturating_sub(self.sent)
    }

    /// The bytes that may be sent now: again, and for the first time. An end counts as one.
    pub(super) fn pending(&self) -> u64 {
        let credit = self.credit();
        let each = self.open.values().map(|stream| {
            let new = (stream.written - stream.next).min(credit);
            stream.lost.bytes() + new + u64::from(stream.end_is_due())
        });
        each.sum()
    }

    /// The frames of the next packet, with so many bytes in all at most, and what they take.
    pub(super) fn frames(&mut self, room: u64) -> ([StreamFrame; FRAMES], u64) {
        let mut frames = [StreamFrame::default(); FRAMES];
        let (mut taken, mut used) = (0, 0);
        for again in [true, false] {
            let after: Vec<u32> = self.turns().collect();
            for number in after {
                let (Some(stream), true) = (self.open.get_mut(&number), taken < FRAMES) else {
                    continue;
                };
                if again == stream.lost.is_empty() {
                    continue;
                }
                let offset = stream.lost.at_or_after(0).map_or(stream.next, |lost| lost.start);
                let header = StreamFrame::header(number, offset);
                if used + header >= room {
                    continue;
                }
                let credit = self.max_data.saturating_sub(self.sent);
                let before = stream.next;
                if let Some(frame) = stream.frame(number, room - used - header, credit) {
                    self.sent += stream.next - before;
                    used += header + u64::from(frame.len);
                    frames[taken] = frame;
                    taken += 1;
                    self.turn = Some(number);
                }
            }
        }
        (frames, used)
    }

    /// The streams in the order of their turns.
    fn turns(&self) -> impl Iterator<Item = u32> + '_ {
        let next = self.turn.map_or(0, |last| last.saturating_add(1));
        let others = self.open.range(..next);
        self.open.range(next..).chain(others).map(|(number, _)| *number)
    }

    /// A frame was acknowledged. Returns its stream if that is complete now.
    pub(super) fn acknowledge(&mut self, frame: &StreamFrame) -> Option<u32> {
        let stream = self.open.get_mut(&frame.stream)?;
        let range = ByteRange::new(frame.offset, frame.offset + u64::from(frame.len));
        stream.acknowledged.insert(range);
        stream.lost.remove(range);
        if frame.fin {
            stream.end = End::Acknowledged;
        }
        let complete = stream.is_complete();
        if complete {
            self.open.remove(&frame.stream);
        }
        complete.then_some(frame.stream)
    }

    /// What a frame has is to be sent again, as far as it is not acknowledged.
    pub(super) fn send_again(&mut self, frame: &StreamFrame) {
        let Some(stream) = self.open.get_mut(&frame.stream) else {
            return;
        };
        if frame.fin && stream.end == End::Sent {
            stream.end = End::Due;
        }
        let (mut at, end) = (frame.offset, frame.offset + u64::from(frame.len));
        while at < end {
            let known = stream.acknowledged.at_or_after(at);
            let gap = known.map_or(end, |known| known.start.clamp(at, end));
            stream.lost.insert(ByteRange::new(at, gap));
            at = known.map_or(end, |known| known.end.max(gap));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(streams: &[(u32, u64)]) -> SendStreams {
        let mut all = SendStreams::default();
        all.accept(1 << 30);
        for &(stream, bytes) in streams {
            all.write(stream, bytes);
            all.close(stream);
        }
        all
    }

    fn shown(frames: [StreamFrame; FRAMES]) -> Vec<(u32, u64, u16, bool)> {
        let some = frames.into_iter().filter(|frame| !frame.is_none());
        some.map(|f| (f.stream, f.offset, f.len, f.fin)).collect()
    }

    #[test]
    fn streams_take_turns_a_packet_each_and_a_short_end_leaves_room_for_the_next() {
        let mut streams = open(&[(0, 1_500), (1, 3_000)]);
        let next = |streams: &mut SendStreams| shown(streams.frames(1_005).0);
        assert_eq!(next(&mut streams), [(0, 0, 1_000, false)]);
        assert_eq!(next(&mut streams), [(1, 0, 1_000, false)]);
        assert_eq!(
            next(&mut streams),
            [(0, 1_000, 500, true), (1, 1_000, 493, false)]
        );
    }

    #[test]
    fn what_is_lost_goes_first_but_for_what_was_acknowledged_meanwhile() {
        let mut streams = open(&[(0, 4_000)]);
        let [first, ..] = streams.frames(1_005).0;
        streams.frames(1_005);
        let middle = StreamFrame {
            offset: 400,
            len: 200,
            ..first
        };
        assert_eq!(streams.acknowledge(&middle), None);
        streams.send_again(&first);
        assert_eq!(streams.pending(), 800 + 2_001);
        assert_eq!(shown(streams.frames(1_005).0), [(0, 0, 400, false)]);
        assert_eq!(
            shown(streams.frames(1_005).0),
            [(0, 600, 400, false), (0, 1_999, 593, false)]
        );
    }

    #[test]
    fn a_stream_is_complete_once_all_of_it_and_its_end_is_acknowledged() {
        let mut streams = open(&[(7, 1_200)]);
        let [first, ..] = streams.frames(1_005).0;
        let [last, ..] = streams.frames(1_005).0;
        assert!(last.fin && streams.pending() == 0);
        assert_eq!(streams.acknowledge(&last), None);
        streams.send_again(&last);
        assert_eq!(streams.pending(), 0, "it has arrived");
        assert_eq!(streams.acknowledge(&first), Some(7));
        assert!(streams.are_complete());
    }

    /// RFC 9000, section 4.1: the limit is of new data of all streams together.
    #[test]
    fn new_data_keeps_to_what_the_receiver_accepts_and_what_is_sent_again_does_not_count() {
        let mut streams = SendStreams::default();
        streams.accept(1_500);
        (0..2).for_each(|stream| streams.write(stream, 5_000));
        let [first, ..] = streams.frames(1_005).0;
        assert_eq!(shown(streams.frames(1_005).0), [(1, 0, 500, false)]);
        assert_eq!((streams.pending(), streams.credit()), (0, 0));
        streams.send_again(&first);
        assert_eq!(streams.pending(), 1_000);
        assert_eq!(shown(streams.frames(1_005).0), [(0, 0, 1_000, false)]);
    }
}
