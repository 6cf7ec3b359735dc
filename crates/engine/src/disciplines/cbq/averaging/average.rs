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
    /// next packet is due a time after the last one.
    pub(super) fn refuse(&mut self) {
        self.until = self.refused;
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
}
