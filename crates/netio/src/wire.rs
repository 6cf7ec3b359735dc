//! The link behind a path as a clock: what leaves is held to its bandwidth, whatever the discipline.
//!
//! ALTQ's token-bucket regulator in front of the driver does this (altq(4), "token bucket regulator"), and for
//! the same reason: the bottleneck is often not the interface but a modem or a switch behind it, where no
//! policy rules. Exact: the rest of each division is carried to the next packet, so that a
//! discipline that holds to the same bandwidth by itself never has to wait here.

use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// How far a late caller may catch up: a tick of a 250 Hz kernel and some, as cbq's `link_burst`.
const CATCH_UP: Duration = Duration::from_millis(5);

const NANOS: u128 = 1_000_000_000;

/// A link of this bandwidth.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    rate: Bandwidth,
    free_at: Instant,
    /// What the last division left, in nanobits; less than the rate.
    rest: u64,
}

impl Wire {
    pub(crate) fn new(rate: Bandwidth) -> Self {
        Self {
            rate,
            free_at: Instant::START,
            rest: 0,
        }
    }

    pub(crate) fn rate(&self) -> Bandwidth {
        self.rate
    }

    /// The time before which nothing may leave, if it has not come.
    pub(crate) fn busy_until(&self, now: Instant) -> Option<Instant> {
        (self.free_at > now).then_some(self.free_at)
    }

    /// A packet leaves now.
    pub(crate) fn send(&mut self, now: Instant, len: Bytes) {
        let earliest = now - CATCH_UP;
        if self.free_at < earliest {
            (self.free_at, self.rest) = (earliest, 0);
        }
        let rate = u128::from(self.rate.bits().max(1));
        let nanobits = u128::from(len.get()) * 8 * NANOS + u128::from(self.rest);
        let span = u64::try_from(nanobits / rate).unwrap_or(u64::MAX);
        self.free_at = self.free_at + Duration::from_nanos(span);
        self.rest = (nanobits % rate) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that leave in `span` if asked every `every`, packets of 1000 B always waiting.
    fn sent(rate: Bandwidth, span: Duration, every: Duration) -> u64 {
        let (mut wire, mut now, mut bytes) = (Wire::new(rate), Instant::START + Duration::from_secs(9), 0);
        let end = now + span;
        while now < end {
            while wire.busy_until(now).is_none() {
                wire.send(now, Bytes::new(1000));
                bytes += 1000;
            }
            now = now + every;
        }
        bytes
    }

    #[test]
    fn what_leaves_is_the_bandwidth_exactly_plus_the_first_burst() {
        let rate = Bandwidth::bits_per_sec(333_333_337);
        let second = Duration::from_secs(1);
        let burst = rate.bytes_in(CATCH_UP).get();
        let bytes = sent(rate, second, Duration::from_micros(3));
        assert!(
            bytes.abs_diff(rate.bytes_in(second).get() + burst) <= 1000,
            "{bytes}"
        );
    }

    #[test]
    fn a_caller_late_within_the_burst_loses_nothing_and_one_later_still_does() {
        let rate = Bandwidth::mbit(80);
        let second = Duration::from_secs(1);
        let full = rate.bytes_in(second).get();
        assert!(sent(rate, second, Duration::from_millis(4)) >= full);
        assert!(sent(rate, second, Duration::from_millis(10)) <= full * 6 / 10);
    }
}
