//! How fast data is delivered, measured at each acknowledgment (the BBR draft's delivery rate samples).
//!
//! Each segment remembers, from when it was sent last, what had been delivered and when. Its acknowledgment then gives
//! a rate: what was delivered since, over the longer of the time in which that was sent and the time in which that was
//! acknowledged. Only controls that ask for rates pay for it: a record a segment in flight, found by its last byte.

use crate::packet::Range;
use engine::units::{Duration, Instant};
use std::collections::VecDeque;

/// A measurement of the delivery rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Bytes that were delivered in `interval`.
    pub delivered: u64,
    /// In this time.
    pub interval: Duration,
    /// Bytes that had been delivered in all when the segment was sent.
    pub before: u64,
    /// Bytes that have been delivered in all.
    pub total: u64,
    /// From being sent (last) to being acknowledged.
    pub rtt: Duration,
    /// The program had no more to send then, so the path might do better.
    pub limited: bool,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    end: u64,
    sent: Instant,
    /// When the segment was sent whose acknowledgment was the latest then.
    first_sent: Instant,
    delivered: u64,
    delivered_at: Instant,
    limited: bool,
    taken: bool,
}

/// The records of segments in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    records: VecDeque<Record>,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// Until so much is delivered, samples are of a time in which the program had no more to send.
    limited_until: u64,
}

impl Delivery {
    /// A segment is sent, the first time or again.
    pub(crate) fn sent(&mut self, now: Instant, range: Range, pipe: u64) {
        if pipe == 0 {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        let record = Record {
            end: range.1,
            sent: now,
            first_sent: self.first_sent,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            limited: self.limited_until > self.delivered,
            taken: false,
        };
        if self.records.back().is_none_or(|last| last.end < range.1) {
            self.records.push_back(record);
        } else if let Some(old) = self.find(range.1) {
            self.records[old] = Record {
                end: self.records[old].end,
                ..record
            };
        }
    }

    /// The program has no more to send, with so many bytes in the network.
    pub(crate) fn program_waits(&mut self, pipe: u64) {
        self.limited_until = self.delivered + pipe.max(1);
    }

    fn find(&self, end: u64) -> Option<usize> {
        let at = self.records.partition_point(|record| record.end < end);
        (at < self.records.len()).then_some(at)
    }

    /// So many bytes are delivered, of segments that hold the bytes before these ends (0 is none). `first` is the first
    /// byte that is not acknowledged. Of the segments, the one sent last is measured.
    pub(crate) fn acknowledged(
        &mut self,
        now: Instant,
        bytes: u64,
        ends: [u64; 2],
        first: u64,
    ) -> Option<Rate> {
        if bytes == 0 {
            return None;
        }
        self.delivered += bytes;
        self.delivered_at = now;
        let found = ends.map(|end| {
            let at = if end > 0 { self.find(end) } else { None };
            at.filter(|at| !self.records[*at].taken)
        });
        let at = found
            .into_iter()
            .flatten()
            .max_by_key(|at| self.records[*at].sent);
        let rate = at.map(|at| {
            let record = &mut self.records[at];
            record.taken = true;
            let sending = record.sent.since(record.first_sent);
            let acknowledging = now.since(record.delivered_at);
            self.first_sent = self.first_sent.max(record.sent);
            Rate {
                delivered: self.delivered - record.delivered,
                interval: sending.max(acknowledging),
                before: record.delivered,
                total: self.delivered,
                rtt: now.since(record.sent),
                limited: record.limited,
            }
        });
        while self.records.front().is_some_and(|record| record.end <= first) {
            self.records.pop_front();
        }
        rate
    }
}
