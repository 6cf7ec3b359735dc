//! A link as a clock: what is sent moves it on by its length over the bandwidth, exactly.
//!
//! In front of a port it is ALTQ's token-bucket regulator (altq(4), "token bucket regulator"), and for
//! the same reason: the bottleneck is often not the interface but a modem or a switch behind it, where no
//! policy rules. In the simulator it is the wire itself. The rest of each division is carried to the next
//! packet, so that a discipline that holds to the same bandwidth by itself never has to wait here.

use crate::units::{Bandwidth, Bytes, Duration, Instant};

const NANOS: u64 = 1_000_000_000;

/// A link of one bandwidth.
#[derive(Clone, Debug)]
pub struct LinkClock {
    rate: Bandwidth,
    /// How far a late caller may catch up.
    catch_up: Duration,
    free_at: Instant,
    /// What the last division left, in nanobits; less than the rate.
    rest: u64,
}

impl LinkClock {
    /// A link that is free, and lets a late caller catch up so far: nothing for a wire, a tick of its clock for a
    /// program that is woken late.
    pub fn new(rate: Bandwidth, catch_up: Duration) -> Self {
        Self {
            rate,
            catch_up,
            free_at: Instant::START,
            rest: 0,
        }
    }

    /// Its bandwidth.
    pub fn rate(&self) -> Bandwidth {
        self.rate
    }

    /// When all that was sent is out, rounded down to a nanosecond; the rest is carried.
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Nothing was waiting to be sent before `now`: what was not used is lost.
    pub fn start(&mut self, now: Instant) {
        if self.free_at < now {
            (self.free_at, self.rest) = (now, 0);
        }
    }

    /// What is beyond `latest` of what was sent too early is let off.
    pub fn forgive(&mut self, latest: Instant) {
        if self.free_at > latest {
            (self.free_at, self.rest) = (latest, 0);
        }
    }

    /// The time before which nothing may leave, if it has not come.
    pub fn busy_until(&self, now: Instant) -> Option<Instant> {
        (self.free_at > now).then_some(self.free_at)
    }

    /// A packet leaves now.
    #[inline]
    pub fn send(&mut self, now: Instant, len: Bytes) {
        let earliest = now - self.catch_up;
        if self.free_at < earliest {
            (self.free_at, self.rest) = (earliest, 0);
        }
        let rate = self.rate.bits().max(1);
        // In 64 bits while they suffice, which is up to 2 GB a packet: the division is five times faster.
        let (span, rest) = match (len.get().checked_mul(8 * NANOS)).and_then(|n| n.checked_add(self.rest)) {
            Some(nanobits) => (nanobits / rate, nanobits % rate),
            None => {
                let nanobits = u128::from(len.get()) * u128::from(8 * NANOS) + u128::from(self.rest);
                let span = u64::try_from(nanobits / u128::from(rate)).unwrap_or(u64::MAX);
                (span, (nanobits % u128::from(rate)) as u64)
            }
        };
        self.free_at = self.free_at + Duration::from_nanos(span);
        self.rest = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CATCH_UP: Duration = Duration::from_millis(5);

    /// Bytes that leave in `span` if asked every `every`, packets of 1000 B always waiting.
    fn sent(rate: Bandwidth, span: Duration, every: Duration) -> u64 {
        let mut link = LinkClock::new(rate, CATCH_UP);
        let (mut now, mut bytes) = (Instant::START + Duration::from_secs(9), 0);
        let end = now + span;
        while now < end {
            while link.busy_until(now).is_none() {
                link.send(now, Bytes::new(1000));
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

    #[test]
    fn a_million_packets_back_to_back_end_within_a_nanosecond_of_their_time() {
        let mut link = LinkClock::new(Bandwidth::bits_per_sec(7_777_777_777), Duration::ZERO);
        for _ in 0..1_000_000 {
            link.send(link.free_at(), Bytes::new(1538));
        }
        let all = Bandwidth::bits_per_sec(7_777_777_777).time_to_send(Bytes::new(1_538_000_000));
        assert!(all.nanos() - link.free_at().nanos() <= 1);
    }

    #[test]
    fn a_start_saves_nothing_up_and_what_was_sent_too_early_can_be_let_off() {
        let (second, late) = (Duration::from_secs(1), Instant::START + Duration::from_secs(5));
        let mut link = LinkClock::new(Bandwidth::mbit(8), Duration::from_secs(100));
        link.send(Instant::START, Bytes::new(2_000_000));
        link.start(Instant::START + second);
        assert_eq!(
            link.free_at(),
            Instant::START + second + second,
            "it was not free yet"
        );
        link.start(late);
        assert_eq!(link.free_at(), late);
        link.send(late, Bytes::new(3_000_000));
        link.forgive(late + second);
        assert_eq!(link.free_at(), late + second);
    }

    #[test]
    fn a_packet_too_long_for_64_bits_of_nanobits_takes_its_time() {
        let mut link = LinkClock::new(Bandwidth::gbit(8), Duration::ZERO);
        link.send(Instant::START, Bytes::new(10_000_000_000));
        assert_eq!(link.free_at(), Instant::START + Duration::from_secs(10));
    }
}
