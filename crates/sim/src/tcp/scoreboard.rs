//! What the sender knows of the bytes that it has sent: acknowledged, arrived out of order, lost, sent again.
//!
//! RFC 6675 with ranges in place of its rules for each octet. A byte is lost once more than two segments' bytes, or
//! three separate blocks, beyond it have arrived; since nothing that has been reported is taken back, all holes below
//! one limit are lost, and the limit only moves right. `pipe`, the estimate of what is in the network, is thus a sum of
//! a few counters and costs the same for 10 segments and for 80,000.
//!
//! Beyond RFC 6675, which leaves a lost retransmission to the timer: when a segment that was sent later than a
//! retransmission has arrived, by more than a quarter of the least round-trip time, the retransmission is lost too
//! (the idea of RFC 8985, for retransmissions only).

use super::ranges::Ranges;
use crate::packet::Range;
use engine::units::{Duration, Instant};
use std::collections::VecDeque;

/// What an acknowledgment brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct News {
    /// Bytes by which the first unacknowledged byte moved.
    pub(crate) acked: u64,
    /// Bytes of which it was not known before that they arrived.
    pub(crate) delivered: u64,
    /// Ends of segments among those: of the first that the acknowledgment passed or, without holes, the last; and of
    /// the last block.
    pub(crate) ends: [u64; 2],
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    segment: u64,
    /// The first byte that is not acknowledged.
    first: u64,
    /// The next byte to be sent for the first time.
    next: u64,
    /// Arrived out of order.
    arrived: Ranges,
    /// What has not arrived below this is lost.
    lost_before: u64,
    /// Bytes that were lost, in all.
    holes: u64,
    /// Of those, the ones that are on their way again.
    again: Ranges,
    /// All holes before this have been sent again.
    cursor: u64,
    /// Sent again, and lost again.
    lost_again: VecDeque<Range>,
    /// Retransmissions in the order in which they were sent.
    resent: VecDeque<(Range, Instant)>,
}

impl Scoreboard {
    pub(crate) fn new(segment: u64) -> Self {
        Self {
            segment,
            ..Self::default()
        }
    }

    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Bytes that are sent and not acknowledged.
    pub(crate) fn outstanding(&self) -> u64 {
        self.next - self.first
    }

    /// Bytes that are thought to be in the network.
    pub(crate) fn pipe(&self) -> u64 {
        self.outstanding() - self.arrived.bytes() - self.holes + self.again.bytes()
    }

    /// Whether anything is known to be lost.
    pub(crate) fn has_holes(&self) -> bool {
        self.holes > 0
    }

    /// Bytes are sent for the first time.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.next += bytes;
    }

    /// An acknowledgment came.
    pub(crate) fn acknowledge(&mut self, ack: u64, blocks: &[Range]) -> News {
        let mut news = News::default();
        let ack = ack.min(self.next);
        if ack > self.first {
            let known = self.arrived.bytes();
            news.acked = ack - self.first;
            news.ends[0] = if known == 0 { ack } else { self.first + 1 };
            self.first = ack;
            self.arrived.trim(ack);
            self.again.trim(ack);
            news.delivered = news.acked - (known - self.arrived.bytes());
        }
        let mut changed = false;
        for &(start, end) in blocks {
            let block = (start.max(self.first), end.min(self.next));
            if block.0 >= block.1 || self.arrived.covers(block) {
                continue;
            }
            let known = self.arrived.bytes();
            self.arrived.insert(block);
            self.again.remove(block);
            news.delivered += self.arrived.bytes() - known;
            news.ends[1] = news.ends[1].max(block.1);
            changed = true;
        }
        if changed {
            self.find_lost();
        }
        if changed || self.holes > 0 {
            self.count_holes();
        }
        news
    }

    /// Moves the limit below which all that has not arrived is lost.
    fn find_lost(&mut self) {
        let mut beyond = 0;
        for (blocks, (start, end)) in self.arrived.backwards().enumerate() {
            beyond += end - start;
            if beyond > 2 * self.segment || blocks == 2 {
                self.lost_before = self.lost_before.max(start);
                return;
            }
        }
    }

    fn count_holes(&mut self) {
        let limit = self.lost_before;
        let beyond: u64 = self
            .arrived
            .backwards()
            .take_while(|range| range.1 > limit)
            .map(|range| range.1 - range.0.max(limit))
            .sum();
        self.holes = limit.saturating_sub(self.first + (self.arrived.bytes() - beyond));
    }

    /// A segment that was sent at `sent` has arrived: retransmissions that it has overtaken by more than `slack` are
    /// lost.
    pub(crate) fn overtaken(&mut self, sent: Instant, slack: Duration) {
        while let Some(&(range, at)) = self.resent.front()
            && at + slack < sent
        {
            self.resent.pop_front();
            while let Some(out) = self.again.at_or_after(range.0)
                && out.0 < range.1
            {
                let lost = (out.0.max(range.0), out.1.min(range.1));
                self.again.remove(lost);
                self.lost_again.push_back(lost);
            }
        }
    }

    /// The next bytes to be sent again, at most a segment.
    pub(crate) fn next_lost(&mut self) -> Option<Range> {
        if self.holes == 0 {
            return None;
        }
        while let Some(&(start, end)) = self.lost_again.front() {
            let start = start.max(self.first);
            if start < end && !self.arrived.covers((start, end)) {
                return Some((start, end));
            }
            self.lost_again.pop_front();
        }
        let mut start = self.cursor.max(self.first);
        let found = loop {
            if start >= self.lost_before {
                break None;
            }
            let mut end = self.lost_before.min(start + self.segment);
            let mut jump = None;
            for range in [self.arrived.at_or_after(start), self.again.at_or_after(start)]
                .into_iter()
                .flatten()
            {
                if range.0 <= start {
                    jump = Some(range.1);
                } else {
                    end = end.min(range.0);
                }
            }
            match jump {
                Some(to) => start = to,
                None => break Some((start, end)),
            }
        };
        self.cursor = start;
        found
    }

    /// Bytes that were lost are sent again.
    pub(crate) fn resend(&mut self, range: Range, now: Instant) {
        if let Some(front) = self.lost_again.front()
            && front.1 == range.1
        {
            self.lost_again.pop_front();
        } else {
            self.cursor = range.1;
        }
        self.again.insert(range);
        self.resent.push_back((range, now));
    }

    /// The timer ran out: nothing is in the network any more.
    pub(crate) fn timed_out(&mut self) {
        self.lost_before = self.next;
        self.cursor = self.first;
        self.again.clear();
        self.lost_again.clear();
        self.resent.clear();
        self.count_holes();
    }
}
