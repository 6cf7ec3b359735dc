//! How much was held, weighted by time: what one finds on looking at a queue at any time, not what packets find.

use engine::queue::Count;
use engine::units::{Bytes, Duration, Instant};
use measure::histogram::Histogram;

/// For how long a queue held so many packets, and so many bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Levels {
    packets: Histogram,
    bytes: Histogram,
}

impl Levels {
    pub(super) fn held(&mut self, held: Count, span: Duration) {
        self.packets.record(held.packets, span.nanos());
        self.bytes.record(held.bytes.get(), span.nanos());
    }

    /// The time that was looked at.
    pub fn span(&self) -> Duration {
        Duration::from_nanos(self.packets.total())
    }

    /// How many packets were held at most, for `per_mille` of a thousand parts of the time; at most 1/16 too many, and
    /// exact below 32.
    pub fn packets(&self, per_mille: u32) -> u64 {
        self.packets.quantile(per_mille)
    }

    /// The same of bytes of frames.
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

    /// The most that was held, for any time at all.
    pub fn most(&self) -> Count {
        Count {
            packets: self.packets.greatest(),
            bytes: Bytes::new(self.bytes.greatest()),
        }
    }
}

/// What is held now, and since when it is that much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    pub(super) count: Count,
    pub(super) since: Instant,
}

impl Held {
    pub(super) fn nothing(since: Instant) -> Self {
        Self {
            count: Count::default(),
            since,
        }
    }

    pub(super) fn add(&mut self, frame: Bytes) {
        self.count += frame;
    }

    /// What was never seen to come does not go.
    pub(super) fn remove(&mut self, frame: Bytes) {
        self.count.packets = self.count.packets.saturating_sub(1);
        self.count.bytes -= frame;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queues_percentiles_are_weighted_by_time() {
        let mut levels = Levels::default();
        let hold = |packets, ns| {
            let count = Count {
                packets,
                bytes: Bytes::new(packets * 100),
            };
            (count, Duration::from_nanos(ns))
        };
        // Nothing for 60 ns, one packet for 30, four for 10, and nine for no time.
        for (count, span) in [hold(0, 50), hold(1, 30), hold(4, 10), hold(9, 0), hold(0, 10)] {
            levels.held(count, span);
        }
        let packets = [600, 601, 900, 901, 1_000].map(|per_mille| levels.packets(per_mille));
        assert_eq!(packets, [0, 1, 1, 4, 4]);
        assert_eq!(levels.bytes(900), Bytes::new(100 + 100 / 32));
        assert_eq!(levels.mean().bytes, Bytes::new(70));
        assert_eq!((levels.most().packets, levels.span().nanos()), (4, 100));
    }
}
