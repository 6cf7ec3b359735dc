//! Replay of a trace or of a capture: packets of the lengths and at the times that were recorded.
//!
//! The header fields are the flow's; of a capture with packets of many five-tuples, the caller makes one flow for each.
//! Outside of its active spans a replay stands still, and goes on with the gap that it stopped in.

use super::Timing;
use engine::units::{Bytes, Duration};
use std::sync::Arc;

/// Replays packets.
#[derive(Clone, Debug)]
pub struct Trace {
    /// When each packet was sent, since the beginning, and the length of its frame; times do not fall.
    packets: Arc<[(Duration, Bytes)]>,
    next: usize,
}

impl Trace {
    /// Of these packets: the time of each since the beginning, and its frame's length. A time that is earlier than the one before
    /// counts as the same.
    pub fn new(packets: Arc<[(Duration, Bytes)]>) -> Self {
        Self { packets, next: 0 }
    }

    /// Of packets that are given by the gap before each, and its frame's length.
    pub fn from_gaps(gaps: impl IntoIterator<Item = (Duration, Bytes)>) -> Self {
        let mut at = Duration::ZERO;
        let packets = gaps.into_iter().map(|(gap, frame)| {
            at += gap;
            (at, frame)
        });
        Self::new(packets.collect())
    }

    /// How many packets are still to be sent.
    pub fn left(&self) -> usize {
        self.packets.len() - self.next
    }
}

impl Timing for Trace {
    fn first(&mut self) -> Option<Duration> {
        let before = match self.next.checked_sub(1) {
            Some(last) => self.packets[last].0,
            None => Duration::ZERO,
        };
        // Durations do not go below zero.
        self.packets.get(self.next).map(|&(at, _)| at - before)
    }

    fn next(&mut self, _sent: Bytes) -> Option<Duration> {
        self.next += 1;
        self.first()
    }

    fn length(&self) -> Option<Bytes> {
        self.packets.get(self.next).map(|&(_, frame)| frame)
    }
}
