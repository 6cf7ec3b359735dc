//! What a class may still send, in nanobits: rate [bit/s] × time [ns] is a whole number of them at
//! any rate.

use crate::units::{Bandwidth, Bytes};

/// Nanobits in a byte.
pub(crate) const NANOBITS: i64 = 8_000_000_000;

/// Bytes as nanobits.
pub(crate) fn nanobits(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX).saturating_mul(NANOBITS)
}

/// The least credit that is more than these bytes.
fn more_than(bytes: u32) -> i64 {
    i64::from(bytes) * NANOBITS + 1
}

/// A credit that accrues with time and is charged for packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Credit {
    /// Nanobits that may still be sent; negative: overdrawn.
    pub(crate) left: i64,
    /// Bits per second.
    pub(crate) rate: u64,
    /// Up to when credit has accrued.
    pub(crate) updated: u64,
    /// The most bytes of credit while idle; and the bytes that end a regulated period.
    bounds: (u32, u32),
}

impl Credit {
    /// A full credit, from which `maxburst` packets can go at the link's speed, and `minburst`
    /// after a regulated period. None without a rate. `maxburst` × `packet` is at most 10⁹ bytes.
    pub(crate) fn full(
        rate: Bandwidth,
        link: Bandwidth,
        packet: Bytes,
        (maxburst, minburst): (u32, u32),
    ) -> Self {
        let (part, whole) = (u128::from(rate.bits()), u128::from(link.bits()));
        // The last packet may overdraw; while each other is on the wire, the rate's part of it is
        // regained.
        let bytes = |packets: u32| {
            let more = u128::from(packets.saturating_sub(1));
            (u128::from(packet.get()) * (more * whole - more.saturating_sub(1) * part)).div_ceil(whole) as u32
        };
        let bounds = (bytes(maxburst), bytes(minburst));
        let left = if rate == Bandwidth::ZERO {
            0
        } else {
            more_than(bounds.0)
        };
        Self {
            left,
            rate: rate.bits(),
            updated: 0,
            bounds,
        }
    }

    /// The bytes that it covers while idle.
    pub(crate) fn covers(&self) -> u64 {
        self.bounds.0.into()
    }

    /// The bytes that end a regulated period.
    pub(crate) fn wakes_with(&self) -> u64 {
        self.bounds.1.into()
    }

    /// Accrues credit since the last update, up to `most`, or to a full burst.
    #[inline]
    pub(crate) fn accrue(&mut self, now: u64, most: Option<i64>) {
        let time = now.saturating_sub(self.updated);
        if time == 0 {
            return;
        }
        self.updated = now;
        let gain = (u128::from(self.rate) * u128::from(time)).min(i64::MAX as u128) as i64;
        self.left = self
            .left
            .saturating_add(gain)
            .min(most.unwrap_or(more_than(self.bounds.0)));
    }

    /// Cuts what exceeds a full burst.
    pub(crate) fn cap(&mut self) {
        self.left = self.left.min(more_than(self.bounds.0));
    }

    /// Whether there is enough to end a regulated period.
    pub(crate) fn is_enough(&self) -> bool {
        self.left >= more_than(self.bounds.1)
    }

    /// The nanoseconds until there is enough to end a regulated period, at least 1.
    pub(crate) fn time_to_enough(&self) -> u64 {
        let lacks = more_than(self.bounds.1).saturating_sub(self.left).max(1) as u64;
        lacks.div_ceil(self.rate.max(1))
    }

    /// Adopts another's rate and bounds; whether that changed anything.
    pub(crate) fn adopt(&mut self, other: Self) -> bool {
        let changed = (self.rate, self.bounds) != (other.rate, other.bounds);
        (self.rate, self.bounds) = (other.rate, other.bounds);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_credit_lets_exactly_maxburst_packets_go_back_to_back() {
        for percent in [0, 1, 33, 50, 99] {
            let (link, packet) = (Bandwidth::mbit(100), Bytes::new(1_500));
            let mut credit = Credit::full(Bandwidth::mbit(percent), link, packet, (16, 2));
            let mut sent = 0;
            while credit.left > 0 {
                credit.accrue(sent * 120_000, None);
                credit.left -= nanobits(1_500);
                sent += 1;
            }
            assert_eq!(sent, if percent == 0 { 0 } else { 16 }, "at {percent} %");
        }
    }

    #[test]
    fn the_time_to_enough_is_the_first_nanosecond_with_enough() {
        let mut credit = Credit::full(
            Bandwidth::kbit(8),
            Bandwidth::gbit(800),
            Bytes::new(1_514),
            (16, 2),
        );
        credit.left = -nanobits(700);
        let wait = credit.time_to_enough();
        credit.accrue(wait - 1, None);
        assert!(!credit.is_enough());
        credit.accrue(wait, None);
        assert!(credit.is_enough());
    }
}
