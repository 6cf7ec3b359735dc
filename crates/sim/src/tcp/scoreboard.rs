//! The SACK scoreboard of RFC 6675: which sent bytes are acknowledged, SACKed, lost, retransmitted.
//!
//! It keeps ranges in place of RFC 6675's rules for each octet. A byte is lost once more than two
//! segments of bytes above it, or three separate SACK blocks above it, have arrived. SACKed data
//! is never reneged on here, so all holes below one limit are lost, and the limit only rises. So
//! `pipe`, the estimate of bytes in the network, is a sum of a few counters and costs the same for
//! 10 segments and for 80,000.
//!
//! RFC 6675 leaves a lost retransmission to the timer. This scoreboard also detects it by time, as
//! RFC 8985 does, for retransmissions only: a retransmission is lost when a segment that was sent
//! later, by more than a quarter of the least RTT, has arrived.

use super::ranges::RangeSet;
use crate::packet::ByteRange;
use engine::units::{Duration, Instant};
use std::collections::VecDeque;

/// What an ACK changed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckSummary {
    /// Bytes by which SND.UNA advanced.
    pub(crate) acked: u64,
    /// Bytes newly known to have arrived.
    pub(crate) delivered: u64,
    /// Ends of two segments among those, 0 if none: of the first that was cumulatively acknowledged
    /// (without holes, of the last), and of the highest new SACK block.
    pub(crate) ends: [u64; 2],
}

#[derive(Clone, Debug)]
struct Retransmission {
    range: ByteRange,
    sent: Instant,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    mss: u64,
    /// The first unacknowledged byte.
    snd_una: u64,
    /// The next byte to be sent for the first time.
    snd_nxt: u64,
    /// Arrived out of order.
    sacked: RangeSet,
    /// Bytes below this that have not arrived are lost.
    lost_below: u64,
    /// The number of lost bytes, retransmitted or not.
    lost: u64,
    /// Of those, the bytes whose retransmission is in the network.
    retransmitted: RangeSet,
    /// All lost bytes below this have been retransmitted.
    cursor: u64,
    /// Bytes whose retransmission is lost.
    lost_retransmissions: VecDeque<ByteRange>,
    /// Retransmissions in the order of their sending.
    retransmissions: VecDeque<Retransmission>,
}

impl Scoreboard {
    pub(crate) fn new(mss: u64) -> Self {
        Self {
            mss,
            ..Self::default()
        }
    }

    pub(crate) fn snd_una(&self) -> u64 {
        self.snd_una
    }

    pub(crate) fn snd_nxt(&self) -> u64 {
        self.snd_nxt
    }

    /// Bytes sent and not cumulatively acknowledged (RFC 5681's FlightSize).
    pub(crate) fn flight_size(&self) -> u64 {
        self.snd_nxt - self.snd_una
    }

    /// The estimate of bytes in the network.
    pub(crate) fn pipe(&self) -> u64 {
        self.flight_size() - self.sacked.bytes() - self.lost + self.retransmitted.bytes()
    }

    /// Whether any unacknowledged byte is deemed lost.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Bytes are sent for the first time.
    pub(crate) fn on_send(&mut self, bytes: u64) {
        self.snd_nxt += bytes;
    }

    /// An ACK arrived.
    pub(crate) fn on_ack(&mut self, ack: u64, sack: &[ByteRange]) -> AckSummary {
        let mut summary = AckSummary::default();
        let ack = ack.min(self.snd_nxt);
        if ack > self.snd_una {
            let known = self.sacked.bytes();
            summary.acked = ack - self.snd_una;
            summary.ends[0] = if known == 0 { ack } else { self.snd_una + 1 };
            self.snd_una = ack;
            self.sacked.trim(ack);
            self.retransmitted.trim(ack);
            summary.delivered = summary.acked - (known - self.sacked.bytes());
        }
        let mut changed = false;
        for block in sack {
            let block = ByteRange::new(block.start.max(self.snd_una), block.end.min(self.snd_nxt));
            if block.is_empty() || self.sacked.covers(block) {
                continue;
            }
            let known = self.sacked.bytes();
            self.sacked.insert(block);
            self.retransmitted.remove(block);
            summary.delivered += self.sacked.bytes() - known;
            summary.ends[1] = summary.ends[1].max(block.end);
            changed = true;
        }
        if changed {
            self.raise_lost_below();
        }
        if changed || self.lost > 0 {
            self.count_lost();
        }
        summary
    }

    /// Raises the limit below which all that has not arrived is lost.
    fn raise_lost_below(&mut self) {
        let mut above = 0;
        for (blocks, block) in self.sacked.backwards().enumerate() {
            above += block.len();
            if above > 2 * self.mss || blocks == 2 {
                self.lost_below = self.lost_below.max(block.start);
                return;
            }
        }
    }

    fn count_lost(&mut self) {
        let limit = self.lost_below;
        let above: u64 = self
            .sacked
            .backwards()
            .take_while(|range| range.end > limit)
            .map(|range| range.end - range.start.max(limit))
            .sum();
        self.lost = limit.saturating_sub(self.snd_una + (self.sacked.bytes() - above));
    }

    /// A segment sent at `sent` has arrived: retransmissions sent earlier by more than `slack` are
    /// lost.
    pub(crate) fn detect_lost_retransmissions(&mut self, sent: Instant, slack: Duration) {
        while let Some(oldest) = self.retransmissions.front()
            && oldest.sent + slack < sent
        {
            let range = oldest.range;
            self.retransmissions.pop_front();
            while let Some(out) = self.retransmitted.at_or_after(range.start)
                && out.start < range.end
            {
                let lost = out.intersection(range);
                self.retransmitted.remove(lost);
                self.lost_retransmissions.push_back(lost);
            }
        }
    }

    /// The next lost bytes to retransmit, at most a segment.
    pub(crate) fn next_lost(&mut self) -> Option<ByteRange> {
        if self.lost == 0 {
            return None;
        }
        while let Some(front) = self.lost_retransmissions.front() {
            let range = ByteRange::new(front.start.max(self.snd_una), front.end);
            if !range.is_empty() && !self.sacked.covers(range) {
                return Some(range);
            }
            self.lost_retransmissions.pop_front();
        }
        let mut start = self.cursor.max(self.snd_una);
        let found = loop {
            if start >= self.lost_below {
                break None;
            }
            let mut end = self.lost_below.min(start + self.mss);
            let mut jump = None;
            for range in [
                self.sacked.at_or_after(start),
                self.retransmitted.at_or_after(start),
            ]
            .into_iter()
            .flatten()
            {
                if range.start <= start {
                    jump = Some(range.end);
                } else {
                    end = end.min(range.start);
                }
            }
            match jump {
                Some(to) => start = to,
                None => break Some(ByteRange::new(start, end)),
            }
        };
        self.cursor = start;
        found
    }

    /// Lost bytes are retransmitted.
    pub(crate) fn on_retransmit(&mut self, range: ByteRange, now: Instant) {
        if let Some(front) = self.lost_retransmissions.front()
            && front.end == range.end
        {
            self.lost_retransmissions.pop_front();
        } else {
            self.cursor = range.end;
        }
        self.retransmitted.insert(range);
        self.retransmissions
            .push_back(Retransmission { range, sent: now });
    }

    /// The retransmission timer expired: all that was not SACKed is lost.
    pub(crate) fn on_rto(&mut self) {
        self.lost_below = self.snd_nxt;
        self.cursor = self.snd_una;
        self.retransmitted.clear();
        self.lost_retransmissions.clear();
        self.retransmissions.clear();
        self.count_lost();
    }
}
