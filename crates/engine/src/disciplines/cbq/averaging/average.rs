//! A moving average of idle time: the estimator of Floyd and Jacobson, for one class or the link.
//!
//! A class of rate *r* that sends a packet of *s* bits should take *s* / *r* for it. What passes
//! from the end of one packet to the end of the next beyond that time is its idle time, negative if
//! the class was too fast. The average of idle times, each with a weight of a sixteenth, says
//! whether the class was within its rate lately. In whole sixteenths of a nanosecond; the average
//! of the paper is in floating point.

use crate::sharing::credit::nanobits;
use crate::units::{Bandwidth, Bytes};

/// The weight of a packet in the average is 2 to the power of minus this.
const GAIN: u32 = 4;

/// What a class's average may be, and what it does with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Limits {
    /// Bits per second.
    rate: u64,
    /// The largest average, in sixteenths of a nanosecond: the paper's maxidle.
    most: i64,
    /// How much longer a class is regulated that was refused, in nanoseconds: offtime beyond the
    /// time of one packet.
    extra: u64,
    /// 1 for a leaf: it is within its limit after its time, and a lender at it. Times often meet,
    /// and so ns-2 has it.
    after: u64,
}

impl Limits {
    /// Limits with which `maxburst` packets go back to back after an idle time, and `minburst`
    /// after a regulated one (Floyd's notes on CBQ parameters).
    pub(super) fn new(
        rate: Bandwidth,
        link: Bandwidth,
        packet: Bytes,
        (maxburst, minburst): (u32, u32),
    ) -> Self {
        /// An hour, in sixteenths of a nanosecond.
        const HOUR: f64 = 3.6e12 * (1 << GAIN) as f64;
        let share = rate.bits() as f64 / link.bits().max(1) as f64;
        let on_wire = nanobits(packet.get()) as f64 / link.bits().max(1) as f64 * f64::from(1 << GAIN);
        let kept = 1.0 - 1.0 / f64::from(1 << GAIN);
        // What a burst of *n* packets takes off the average, in idle times of one packet.
        let burst = |packets: u32| kept.powi(-(packets.min(1 << 20) as i32)) - 1.0;
        let slower = (1.0 / share - 1.0).max(0.0);
        let most = on_wire * (slower * burst(maxburst)).max(1.0 - kept);
        let extra = on_wire * slower * burst(minburst.saturating_sub(1));
        Self {
            rate: rate.bits(),
            most: if share > 0.0 { most.min(HOUR) as i64 } else { 0 },
            extra: if share > 0.0 { extra.min(HOUR) as u64 } else { 0 },
            after: 0,
        }
    }
}

impl Limits {
    /// Whether they let a class send nothing of its own.
    pub(super) fn is_nothing(self) -> bool {
        self.rate == 0
    }

    /// The same for a leaf.
    pub(super) fn of_leaf(self) -> Self {
        Self { after: 1, ..self }
    }
}

/// The average of one class.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Average {
    limits: Limits,
    /// In sixteenths of a nanosecond.
    idle: i64,
    /// When its last packet was out.
    last: u64,
    /// Until then the class is overlimit.
    until: u64,
    /// The same for a class that was refused meanwhile: its next packet is due then.
    refused: u64,
}

impl Average {
    /// Of a class that has not sent.
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            until: if limits.rate == 0 { u64::MAX } else { 0 },
            limits,
            ..Self::default()
        }
    }

    /// What it may be.
    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// The same with the limits of this one, which has not sent.
    pub(super) fn succeeding(self, new: Self, now: u64) -> Self {
        let mut average = self;
        average.adopt(new.limits, now);
        average
    }

    /// Other limits from `now` on.
    pub(super) fn adopt(&mut self, limits: Limits, now: u64) {
        if limits.rate == 0 {
            self.until = u64::MAX;
        } else if self.limits.rate == 0 {
            (self.until, self.refused, self.last, self.idle) = (now, now, now, 0);
        }
        self.idle = self.idle.min(limits.most);
        self.limits = limits;
    }

    /// Until when the class is overlimit, on the clock of credits.
    #[inline]
    pub(super) fn until(&self) -> u64 {
        self.until
    }

    /// Whether the class is overlimit.
    #[inline]
    pub(super) fn is_over(&self, clock: u64) -> bool {
        self.until > clock
    }

    /// A packet of this many nanobits that the class pays for will be out at `finished`, after a
    /// time on the wire.
    #[inline]
    pub(super) fn update(&mut self, nanobits: u64, finished: u64, on_wire: u64) {
        if self.limits.rate == 0 {
            return;
        }
        let due = nanobits / self.limits.rate;
        let idle = finished.wrapping_sub(self.last).wrapping_sub(due) as i64;
        // Towards 0, so that a class that has waited comes back to 0 and not to a hair above it.
        self.idle = (self.idle - self.idle / (1 << GAIN))
            .saturating_add(idle)
            .min(self.limits.most);
        self.last = finished;
        // The nanosecond by which a leaf waits longer is not idle time.
        if self.idle <= (self.limits.after << GAIN) as i64 {
            let after = finished.saturating_add(self.limits.after);
            let next = after.saturating_add(due).saturating_sub(on_wire);
            // After so long without a packet the average would be 0.
            let debt = self.idle.min(0).unsigned_abs();
            self.until = next.saturating_add(debt - (debt >> GAIN));
            self.refused = next.saturating_add(self.limits.extra >> GAIN);
        }
    }

    /// The class has a packet and was refused: what the average was below 0 is forgiven, and the
    /// next packet is due a time after the last one. One without a rate stays overlimit.
    pub(super) fn refuse(&mut self) {
        if self.limits.rate > 0 {
            self.until = self.refused;
        }
    }

    /// The bytes that it stands for, at the class's rate.
    pub(super) fn bytes(&self) -> i64 {
        let bits = i128::from(self.idle >> GAIN) * i128::from(self.limits.rate);
        i64::try_from(bits / 8_000_000_000).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many packets of 1,000 bytes go back to back after a long idle time.
    fn burst(percent: u64, maxburst: u32) -> u32 {
        let (link, rate) = (Bandwidth::mbit(8), Bandwidth::bits_per_sec(percent * 80_000));
        let mut average = Average::new(Limits::new(rate, link, Bytes::new(1_000), (maxburst, 1)).of_leaf());
        let (mut now, mut sent) = (1_000_000_000_000, 0);
        while !average.is_over(now) {
            now += 1_000_000;
            average.update(8_000_000_000_000, now, 1_000_000);
            sent += 1;
        }
        sent
    }

    #[test]
    fn maxburst_packets_go_back_to_back_after_a_pause() {
        for percent in [1, 30, 60, 90] {
            for maxburst in [8, 16, 40] {
                let sent = burst(percent, maxburst);
                // The one that begins the burst is beyond Floyd's formula, and so is one that finds
                // the average at 0 but for rounding.
                let allowed = maxburst..=maxburst + 2;
                assert!(allowed.contains(&sent), "{percent} %, {maxburst}: {sent}");
            }
        }
        // The least that maxidle is lets a class of nearly all of the link send more.
        assert_eq!((burst(1, 1), burst(30, 2), burst(90, 1)), (2, 3, 8));
    }

    #[test]
    fn a_class_that_waits_until_it_is_underlimit_has_its_rate() {
        let link = Bandwidth::mbit(8);
        for (percent, refused) in [(3, false), (3, true), (30, false), (30, true), (97, true)] {
            let rate = Bandwidth::bits_per_sec(percent * 80_000);
            let mut average = Average::new(Limits::new(rate, link, Bytes::new(1_000), (16, 1)).of_leaf());
            let (mut now, mut sent) = (0u64, 0u64);
            while now < 1_000_000_000_000 {
                now = now.max(average.until()) + 1_000_000;
                average.update(8_000_000_000_000, now, 1_000_000);
                if refused {
                    average.refuse();
                }
                sent += 1_000;
            }
            let share = sent as f64 * 8.0 / 1_000.0 / 80_000.0;
            assert!(
                (share / percent as f64 - 1.0).abs() < 0.01,
                "{percent} %: {share}"
            );
        }
    }

    const LINK: Bandwidth = Bandwidth::mbit(8);
    /// A packet of 1,000 bytes, in nanobits, and its time on the wire.
    const WORK: u64 = 8_000_000_000_000;
    const ON_WIRE: u64 = 1_000_000;

    fn limits(mbit: u64, bursts: (u32, u32)) -> Limits {
        Limits::new(Bandwidth::mbit(mbit), LINK, Bytes::new(1_000), bursts)
    }

    /// Of a class of half the link.
    fn half() -> Average {
        Average::new(limits(4, (16, 1)).of_leaf())
    }

    #[test]
    fn limits_follow_floyds_formulas() {
        // In sixteenths of the packet's millisecond; a burst of n takes (16/15)^n - 1 off.
        let near = |got: i64, expected: i64| assert!((got - expected).abs() <= 1, "{got}, not {expected}");
        for (mbit, maxburst, most) in [
            (4, 1, 1_066_666),
            (4, 2, 2_204_444),
            (2, 1, 3_200_000),
            (2, 2, 6_613_333),
            // Never less than a sixteenth.
            (8, 16, 1_000_000),
            (16, 16, 1_000_000),
            (4, u32::MAX, 57_600_000_000_000),
            (0, 16, 0),
        ] {
            near(limits(mbit, (maxburst, 1)).most, most);
        }
        for (mbit, minburst, extra) in [
            (4, 0, 0),
            (4, 1, 0),
            (4, 2, 1_066_666),
            (4, 3, 2_204_444),
            (2, 2, 3_200_000),
            (8, 9, 0),
            (16, 9, 0),
            (4, u32::MAX, 57_600_000_000_000),
            (0, 16, 0),
        ] {
            near(limits(mbit, (16, minburst)).extra as i64, extra);
        }
        let limits = limits(4, (16, 1));
        assert_eq!(
            (limits.rate, limits.after, limits.of_leaf().after),
            (4_000_000, 0, 1)
        );
        assert_eq!(limits.of_leaf().most, limits.most);
    }

    #[test]
    fn only_a_rate_of_zero_is_nothing() {
        assert!(limits(0, (16, 1)).is_nothing());
        assert!(!limits(1, (16, 1)).is_nothing());
    }

    #[test]
    fn a_class_that_was_too_fast_waits_until_its_average_would_be_zero() {
        let mut average = half();
        assert!(!average.is_over(0));
        average.update(WORK, ON_WIRE, ON_WIRE);
        // A millisecond too fast: a sixteenth of it, in sixteenths.
        assert_eq!((average.idle, average.last), (-1_000_000, ON_WIRE));
        // The next packet would end 2 ms after this one; 15/16 of the debt on top.
        assert_eq!(average.until(), 2_000_001 + 937_500);
        assert!(average.is_over(2_937_500) && !average.is_over(2_937_501));
        // At 4 Mbit/s 62.5 us are 31.25 bytes.
        assert_eq!(average.bytes(), -31);
        average.update(WORK, 5_000_000, ON_WIRE);
        assert_eq!(average.idle, -1_000_000 + 62_500 + 2_000_000);
        assert_eq!((average.until(), average.bytes()), (2_937_501, 33));
    }

    #[test]
    fn a_class_that_is_refused_is_due_a_packets_time_after_its_last_one() {
        let mut average = half();
        average.update(WORK, ON_WIRE, ON_WIRE);
        average.refuse();
        assert_eq!(average.until(), 2_000_001);
        // With a burst of two after that, later by what these take off the average.
        let mut average = Average::new(limits(4, (16, 2)).of_leaf());
        average.update(WORK, ON_WIRE, ON_WIRE);
        average.refuse();
        assert_eq!(average.until(), 2_000_001 + 1_066_666 / 16);
    }

    #[test]
    fn a_leaf_is_within_its_limit_after_its_time_and_a_lender_at_it() {
        // The end of a first packet whose idle time is this many nanoseconds.
        let until = |mut average: Average, idle: u64| {
            average.update(WORK, 2_000_000 + idle, ON_WIRE);
            average.until()
        };
        let lender = || Average::new(limits(4, (16, 1)));
        assert_eq!((until(lender(), 0), until(lender(), 1)), (3_000_000, 0));
        assert_eq!((until(half(), 16), until(half(), 17)), (3_000_017, 0));
    }

    #[test]
    fn an_average_is_no_more_than_its_limit_lets_it_be() {
        let mut average = half();
        let most = average.limits().most;
        average.update(WORK, 1_000_000_000_000, ON_WIRE);
        assert_eq!(average.idle, most);
        let less = limits(4, (2, 1)).of_leaf();
        average.adopt(less, 1_000_000_000_000);
        assert_eq!((average.idle, average.limits()), (less.most, less));
        average.adopt(limits(4, (16, 1)).of_leaf(), 1_000_000_000_000);
        assert_eq!(average.idle, less.most);
    }

    #[test]
    fn a_class_without_a_rate_is_always_overlimit_and_begins_anew_with_one() {
        let mut average = Average::new(limits(0, (16, 1)).of_leaf());
        average.update(WORK, ON_WIRE, ON_WIRE);
        assert_eq!((average.until(), average.idle, average.last), (u64::MAX, 0, 0));
        average.refuse();
        assert_eq!(average.until(), u64::MAX);
        average.adopt(limits(4, (16, 1)).of_leaf(), 7_000_000);
        assert!(average.is_over(6_999_999) && !average.is_over(7_000_000));
        assert_eq!((average.last, average.refused), (7_000_000, 7_000_000));
        average.update(WORK, 8_000_000, ON_WIRE);
        let until = average.until();
        average.adopt(limits(2, (16, 1)).of_leaf(), 8_000_000);
        assert_eq!((average.until(), average.idle), (until, -1_000_000));
        average.adopt(limits(0, (16, 1)).of_leaf(), 9_000_000);
        assert_eq!(average.until(), u64::MAX);
    }

    #[test]
    fn a_class_of_another_tree_goes_on_with_its_own_limits() {
        let mut former = half();
        former.update(WORK, ON_WIRE, ON_WIRE);
        let new = Average::new(limits(2, (16, 1)).of_leaf());
        let next = former.succeeding(new, ON_WIRE);
        assert_eq!(next.limits(), new.limits());
        assert_eq!(
            (next.until(), next.idle, next.last),
            (2_937_501, -1_000_000, ON_WIRE)
        );
    }
}
