//! The backlog weighted by time: what an observer finds at a random time, not what packets find.

use engine::queue::Count;
use engine::units::{Bytes, Duration, Instant};
use measure::histogram::{FINE, Histogram};

/// For how long a queue had each backlog, in packets and in bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BacklogLevels {
    packets: Histogram<FINE>,
    bytes: Histogram<FINE>,
    /// By the number of packets, the bytes that they had last and for how long, where that is not
    /// in the histograms yet: packets are mostly of one length, so this is one addition for many
    /// spans.
    unsettled: Vec<(Bytes, Duration)>,
}

/// Backlogs of more packets are recorded at once.
const MOST_UNSETTLED: usize = 1_024;

impl BacklogLevels {
    #[inline]
    pub(super) fn record(&mut self, backlog: Count, span: Duration) {
        let packets = backlog.packets as usize;
        match self.unsettled.get_mut(packets) {
            Some((bytes, spans)) if *bytes == backlog.bytes => *spans += span,
            _ => self.record_other(backlog, span),
        }
    }

    /// The same where so many packets had other bytes last, or never were there.
    fn record_other(&mut self, backlog: Count, span: Duration) {
        let packets = backlog.packets as usize;
        if packets >= MOST_UNSETTLED {
            return self.settle_span(backlog, span);
        }
        if self.unsettled.len() <= packets {
            self.unsettled.resize(packets + 1, (Bytes::ZERO, Duration::ZERO));
        }
        let (bytes, former) = std::mem::replace(&mut self.unsettled[packets], (backlog.bytes, span));
        self.settle_span(Count { bytes, ..backlog }, former);
    }

    fn settle_span(&mut self, backlog: Count, span: Duration) {
        self.packets.record(backlog.packets, span.nanos());
        self.bytes.record(backlog.bytes.get(), span.nanos());
    }

    /// Puts everything into the histograms, which are read.
    pub(super) fn settle(&mut self) {
        let mut unsettled = std::mem::take(&mut self.unsettled);
        for (packets, (bytes, span)) in (0..).zip(unsettled.drain(..)) {
            self.settle_span(Count { packets, bytes }, span);
        }
        // Its memory stays.
        self.unsettled = unsettled;
    }

    /// The time that was recorded.
    pub fn span(&self) -> Duration {
        Duration::from_nanos(self.packets.total())
    }

    /// A percentile: for `per_mille` thousandths of the time the backlog was at most this many
    /// packets. It is exact below 128 packets, and at most 1/64 too high above.
    pub fn packets(&self, per_mille: u32) -> u64 {
        self.packets.quantile(per_mille)
    }

    /// The same in bytes of frames.
    pub fn bytes(&self, per_mille: u32) -> Bytes {
        Bytes::new(self.bytes.quantile(per_mille))
    }

    /// The means over time, rounded down.
    pub fn mean(&self) -> Count {
        Count {
            packets: self.packets.mean(),
            bytes: Bytes::new(self.bytes.mean()),
        }
    }

    /// The largest backlog, however short.
    pub fn most(&self) -> Count {
        Count {
            packets: self.packets.greatest(),
            bytes: Bytes::new(self.bytes.greatest()),
        }
    }
}

/// The present backlog, and since when it is that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Backlog {
    pub(super) count: Count,
    pub(super) since: Instant,
}

impl Backlog {
    pub(super) fn empty(since: Instant) -> Self {
        Self {
            count: Count::default(),
            since,
        }
    }

    pub(super) fn add(&mut self, frame: Bytes) {
        self.count += frame;
    }

    /// A packet that came before the meter is not counted, so its departure is not either.
    pub(super) fn remove(&mut self, frame: Bytes) {
        self.count.packets = self.count.packets.saturating_sub(1);
        self.count.bytes -= frame;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_backlog_are_weighted_by_time() {
        let mut levels = BacklogLevels::default();
        let level = |packets, ns| {
            let count = Count {
                packets,
                bytes: Bytes::new(packets * 100),
            };
            (count, Duration::from_nanos(ns))
        };
        // Nothing for 60 ns, one packet for 30, four for 10, and nine for no time.
        for (count, span) in [
            level(0, 50),
            level(1, 30),
            level(4, 10),
            level(9, 0),
            level(0, 10),
        ] {
            levels.record(count, span);
        }
        levels.settle();
        let packets = [600, 601, 900, 901, 1_000].map(|per_mille| levels.packets(per_mille));
        assert_eq!(packets, [0, 1, 1, 4, 4]);
        assert_eq!(levels.bytes(900), Bytes::new(100));
        assert_eq!(levels.mean().bytes, Bytes::new(70));
        assert_eq!((levels.most().packets, levels.span().nanos()), (4, 100));
    }
}
