//! Whether packets keep to an arrival curve, told from the times of their arrival alone.
//!
//! The leaky bucket as a meter (ITU-T I.371, annex A, "continuous-state leaky bucket algorithm"): a
//! level falls at the rate and rises by each packet; a packet that would raise it above the burst
//! exceeds the curve, and leaves it as it is. That is the mirror image of the buckets of tokens
//! with which disciplines police, and shares no code with them: what they drop can be held against
//! it.

use crate::bounds::ArrivalCurve;
use crate::units::{Bytes, Duration, Instant};

/// Nanobits of a byte: what a rate of 1 bit/s brings in 1 ns is one of them.
const BYTE: u128 = 8_000_000_000;

/// The meter of one sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConformanceMeter {
    curve: ArrivalCurve,
    /// In nanobits, at the last arrival.
    level: u128,
    at: Instant,
}

impl ConformanceMeter {
    /// Of a sender who has sent nothing yet.
    pub const fn new(curve: ArrivalCurve) -> Self {
        Self {
            curve,
            level: 0,
            at: Instant::START,
        }
    }

    /// The curve.
    pub const fn curve(&self) -> ArrivalCurve {
        self.curve
    }

    /// Another curve, or none, from now on. What was sent under the former one still counts.
    pub fn renew(meter: &mut Option<Self>, curve: Option<ArrivalCurve>) {
        match (&mut *meter, curve) {
            (Some(own), Some(curve)) => own.curve = curve,
            (_, curve) => *meter = curve.map(Self::new),
        }
    }

    /// A packet arrives. If it exceeds the curve: by how much too early it is, rounded up;
    /// [`Duration`]'s largest value if it never conforms.
    pub fn arrives(&mut self, at: Instant, len: Bytes) -> Option<Duration> {
        let rate = u128::from(self.curve.rate.bits());
        let fallen = rate * u128::from(at.since(self.at).nanos());
        self.level = self.level.saturating_sub(fallen);
        self.at = self.at.max(at);
        let full = u128::from(self.curve.burst.get()) * BYTE;
        let level = self.level + u128::from(len.get()) * BYTE;
        if level <= full {
            self.level = level;
            return None;
        }
        let early = (level - full).checked_div(rate).map(|whole| {
            let begun = !(level - full).is_multiple_of(rate);
            u64::try_from(whole + u128::from(begun)).unwrap_or(u64::MAX)
        });
        Some(Duration::from_nanos(early.unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;
    use crate::units::Bandwidth;

    const CURVE: ArrivalCurve = ArrivalCurve {
        rate: Bandwidth::mbit(1),
        burst: Bytes::new(2_000),
    };

    fn at(us: u64) -> Instant {
        Instant::from_nanos(us * 1_000)
    }

    fn us(us: u64) -> Option<Duration> {
        Some(Duration::from_micros(us))
    }

    /// 1,000 bytes at 1 Mbit/s are 8 ms.
    #[test]
    fn what_comes_too_early_exceeds_by_the_time_that_is_missing_and_takes_nothing() {
        let mut meter = ConformanceMeter::new(CURVE);
        let mut arrives = |at_us, len| meter.arrives(at(at_us), Bytes::new(len));
        assert_eq!(arrives(0, 1_000), None);
        assert_eq!(arrives(0, 1_000), None, "the burst");
        assert_eq!(arrives(0, 1_000), us(8_000));
        assert_eq!(arrives(7_999, 1_000), us(1), "the refused one took nothing");
        assert_eq!(arrives(8_000, 1_000), None);
        assert_eq!(arrives(8_000, 1), us(8));
        assert_eq!(arrives(1_000_000, 2_000), None, "idle, it is full and no more");
        assert_eq!(arrives(1_000_000, 1), us(8));
    }

    #[test]
    fn what_never_conforms_says_so() {
        let none = ArrivalCurve {
            rate: Bandwidth::ZERO,
            burst: Bytes::new(10),
        };
        let mut meter = ConformanceMeter::new(none);
        assert_eq!(meter.arrives(at(0), Bytes::new(10)), None);
        let never = Some(Duration::from_nanos(u64::MAX));
        assert_eq!(meter.arrives(at(9), Bytes::new(1)), never);
    }

    /// The definition itself: those that conform never exceed burst and rate × time over any
    /// stretch of them, and what is refused would have.
    #[test]
    fn what_conforms_keeps_to_the_curve_over_every_stretch_and_what_does_not_would_not() {
        let mut rng = Seed(9).stream();
        let (mut refused, mut taken) = (0, 0);
        for case in 0..200 {
            let mut meter = ConformanceMeter::new(CURVE);
            let mut conforming: Vec<(u64, u64)> = Vec::new();
            let mut now = 0;
            for _ in 0..60 {
                now += rng.below(12_000);
                let len = 64 + rng.below(1_450);
                let conforms = meter.arrives(at(now), Bytes::new(len)).is_none();
                conforming.push((now, len));
                // In bits, of which 1 Mbit/s brings one in 1 us.
                let sums = conforming.iter().rev().scan(0, |sum, &(from, len)| {
                    *sum += len * 8;
                    Some(*sum <= 16_000 + (now - from))
                });
                assert_eq!(sums.min(), Some(conforms), "case {case}, {now} us");
                if conforms {
                    taken += 1;
                } else {
                    refused += 1;
                    conforming.pop();
                }
            }
        }
        assert!(refused > 1_000 && taken > 2_000, "{refused}, {taken}");
    }
}
