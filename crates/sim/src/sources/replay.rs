//! Replay of a trace or a capture: packets of the recorded lengths at the recorded times.
//!
//! The header fields are the flow's; for a capture of many five-tuples, the caller makes a flow for
//! each. Outside its active spans a replay stands still; then it resumes in the gap in which it
//! stopped.

use super::datagram_source::Timing;
use engine::units::{Bytes, Duration};
use std::sync::Arc;

/// Replays packets.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The time of each packet since the beginning, and its frame's length; times never decrease.
    packets: Arc<[(Duration, Bytes)]>,
    next: usize,
}

impl Replay {
    /// The packets as times since the beginning and lengths of frames. A time before that of the
    /// previous packet counts as that.
    pub fn new(packets: Arc<[(Duration, Bytes)]>) -> Self {
        Self { packets, next: 0 }
    }

    /// The packets as gaps before them and lengths of frames.
    pub fn from_gaps(gaps: impl IntoIterator<Item = (Duration, Bytes)>) -> Self {
        let mut at = Duration::ZERO;
        let packets = gaps.into_iter().map(|(gap, frame)| {
            at += gap;
            (at, frame)
        });
        Self::new(packets.collect())
    }

    /// The number of packets still to be sent.
    pub fn left(&self) -> usize {
        self.packets.len() - self.next
    }
}

impl Timing for Replay {
    fn first(&mut self) -> Option<Duration> {
        let previous = match self.next.checked_sub(1) {
            Some(last) => self.packets[last].0,
            None => Duration::ZERO,
        };
        // The difference of durations is at least zero.
        self.packets.get(self.next).map(|&(at, _)| at - previous)
    }

    fn next(&mut self, _sent: Bytes) -> Option<Duration> {
        self.next += 1;
        self.first()
    }

    fn length(&self) -> Option<Bytes> {
        self.packets.get(self.next).map(|&(_, frame)| frame)
    }
}
