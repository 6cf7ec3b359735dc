//! The delivery rate, sampled at each ACK (draft-cheng-iccrg-delivery-rate-estimation, for BBR).
//!
//! Each segment records, when it is sent last, how much had been delivered by then, and when. Its
//! ACK then gives a rate: the bytes delivered since, over the longer of the time in which they were
//! sent and the time in which they were acknowledged. Only controls that ask for samples pay for
//! the records: one per segment in flight, found by its last byte.

use crate::packet::ByteRange;
use engine::units::{Duration, Instant};
use std::collections::VecDeque;

/// A sample of the delivery rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeliverySample {
    /// Bytes delivered in `interval`.
    pub delivered: u64,
    /// The time in which they were delivered.
    pub interval: Duration,
    /// All bytes that had been delivered when the segment was sent.
    pub prior_delivered: u64,
    /// All bytes delivered by now.
    pub total_delivered: u64,
    /// From the segment's last transmission to its ACK.
    pub rtt: Duration,
    /// The application had no more to send then, so the path may be faster.
    pub app_limited: bool,
    /// Bytes in the network when the segment was sent, it included.
    pub tx_in_flight: u64,
    /// Bytes that were found lost since then, for controls that are told of losses.
    pub lost: u64,
}

/// A segment that was found lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostSegment {
    /// The end of its bytes in the stream.
    pub end: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes in the network when it was sent, it included.
    pub tx_in_flight: u64,
    /// Bytes that were found lost since it was sent, it included.
    pub lost: u64,
    /// The application had no more to send when it was sent.
    pub app_limited: bool,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    end: u64,
    sent: Instant,
    /// When the segment was sent that was acknowledged last by then.
    first_sent: Instant,
    delivered: u64,
    delivered_at: Instant,
    app_limited: bool,
    acked: bool,
    tx_in_flight: u64,
    /// Bytes that had been found lost when it was sent.
    lost: u64,
}

/// The records of segments in flight.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateSampler {
    records: VecDeque<Record>,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// Samples are application-limited until this many bytes are delivered.
    app_limited_until: u64,
    /// Bytes that were found lost.
    lost: u64,
}

impl RateSampler {
    /// A segment is sent or retransmitted.
    pub(crate) fn on_send(&mut self, now: Instant, range: ByteRange, pipe: u64) {
        if pipe == 0 {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        let record = Record {
            end: range.end,
            sent: now,
            first_sent: self.first_sent,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            app_limited: self.app_limited_until > self.delivered,
            acked: false,
            tx_in_flight: pipe + range.len(),
            lost: self.lost,
        };
        if self.records.back().is_none_or(|last| last.end < range.end) {
            self.records.push_back(record);
        } else if let Some(old) = self.find(range.end) {
            self.records[old] = Record {
                end: self.records[old].end,
                ..record
            };
        }
    }

    /// The application has no more to send, with this many bytes in the network.
    pub(crate) fn on_app_limited(&mut self, pipe: u64) {
        self.app_limited_until = self.delivered + pipe.max(1);
    }

    /// The first segment of these bytes is found lost, as it was sent last; none if it is unknown.
    pub(crate) fn on_lost(&mut self, range: ByteRange) -> Option<LostSegment> {
        let record = self.records[self.find(range.start + 1)?];
        let end = record.end.min(range.end);
        self.lost += end - range.start;
        Some(LostSegment {
            end,
            bytes: end - range.start,
            tx_in_flight: record.tx_in_flight,
            lost: self.lost - record.lost,
            app_limited: record.app_limited,
        })
    }

    fn find(&self, end: u64) -> Option<usize> {
        let at = self.records.partition_point(|record| record.end < end);
        (at < self.records.len()).then_some(at)
    }

    /// An ACK delivered this many bytes, of segments with the bytes before these ends (0: none).
    /// The sample is of the segment among them that was sent last.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        bytes: u64,
        ends: [u64; 2],
        snd_una: u64,
    ) -> Option<DeliverySample> {
        if bytes == 0 {
            return None;
        }
        self.delivered += bytes;
        self.delivered_at = now;
        let found = ends.map(|end| {
            let at = if end > 0 { self.find(end) } else { None };
            at.filter(|at| !self.records[*at].acked)
        });
        let at = found
            .into_iter()
            .flatten()
            .max_by_key(|at| self.records[*at].sent);
        let rate = at.map(|at| {
            let record = &mut self.records[at];
            record.acked = true;
            let send_time = record.sent.since(record.first_sent);
            let ack_time = now.since(record.delivered_at);
            self.first_sent = self.first_sent.max(record.sent);
            DeliverySample {
                delivered: self.delivered - record.delivered,
                interval: send_time.max(ack_time),
                prior_delivered: record.delivered,
                total_delivered: self.delivered,
                rtt: now.since(record.sent),
                app_limited: record.app_limited,
                tx_in_flight: record.tx_in_flight,
                lost: self.lost - record.lost,
            }
        });
        while self.records.front().is_some_and(|record| record.end <= snd_una) {
            self.records.pop_front();
        }
        rate
    }
}
