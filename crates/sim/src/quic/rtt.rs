//! The round-trip time, less what its peer says that it delayed the acknowledgment by, and the
//! probe timeout (RFC 9002, sections 5 and 6.2; appendix A.7).

use engine::units::{Duration, Instant};

/// kGranularity.
pub const GRANULARITY: Duration = Duration::from_millis(1);
/// kInitialRtt.
pub const INITIAL_RTT: Duration = Duration::from_millis(333);

/// What is known of the round-trip time.
#[derive(Clone, Debug)]
pub struct QuicRtt {
    /// The longest delay of acknowledgments that the peer has declared.
    max_ack_delay: Duration,
    first_sample: Option<Instant>,
    latest: Duration,
    min: Duration,
    smoothed: Duration,
    variation: Duration,
}

fn weighted(old: Duration, new: Duration, of: u64) -> Duration {
    Duration::from_nanos((old.nanos() * (of - 1) + new.nanos()) / of)
}

impl QuicRtt {
    /// Without a sample.
    pub fn new(max_ack_delay: Duration) -> Self {
        Self {
            max_ack_delay,
            first_sample: None,
            latest: Duration::ZERO,
            min: Duration::ZERO,
            smoothed: INITIAL_RTT,
            variation: Duration::from_nanos(INITIAL_RTT.nanos() / 2),
        }
    }

    /// A packet was acknowledged so long after it was sent, of which the peer says that it took so
    /// much.
    pub fn sample(&mut self, now: Instant, latest: Duration, delay: Duration) {
        self.latest = latest;
        if self.first_sample.is_none() {
            self.first_sample = Some(now);
            (self.min, self.smoothed) = (latest, latest);
            self.variation = Duration::from_nanos(latest.nanos() / 2);
            return;
        }
        // The least takes no word of the peer's for it.
        self.min = self.min.min(latest);
        let delay = delay.min(self.max_ack_delay);
        let adjusted = match latest >= self.min + delay {
            true => latest - delay,
            false => latest,
        };
        let deviation = Duration::from_nanos(self.smoothed.nanos().abs_diff(adjusted.nanos()));
        self.variation = weighted(self.variation, deviation, 4);
        self.smoothed = weighted(self.smoothed, adjusted, 8);
    }

    /// When the first sample was taken.
    pub fn first_sample(&self) -> Option<Instant> {
        self.first_sample
    }

    /// The latest sample.
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// The least sample.
    pub fn min(&self) -> Duration {
        self.min
    }

    /// The smoothed round-trip time, if there was a sample.
    pub fn srtt(&self) -> Option<Duration> {
        self.first_sample.map(|_| self.smoothed)
    }

    /// The mean variation (RFC 9002's rttvar).
    pub fn variation(&self) -> Duration {
        self.variation
    }

    /// The probe timeout, of an acknowledgment that may be delayed or not (section 6.2.1).
    pub fn probe_timeout(&self, delayed: bool) -> Duration {
        let delay = if delayed {
            self.max_ack_delay
        } else {
            Duration::ZERO
        };
        self.smoothed + self.variation.times(4).max(GRANULARITY) + delay
    }

    /// How much later a packet must have been sent than one that arrived for that one to be late
    /// only: 9/8 of the round trip (section 6.1.2: kTimeThreshold).
    pub fn time_threshold(&self) -> Duration {
        let longer = self.latest.max(self.smoothed).nanos();
        Duration::from_nanos(longer + longer / 8).max(GRANULARITY)
    }

    /// The span without any acknowledgment that is persistent congestion (section 7.6.1:
    /// kPersistentCongestionThreshold).
    pub fn persistent_congestion(&self) -> Duration {
        self.probe_timeout(true).times(3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(n: u64) -> Instant {
        Instant::START + ms(n)
    }

    /// Section 6.2.2: kInitialRtt is 333 ms, so that a handshake is probed for after 1 s, less 1
    /// ms.
    #[test]
    fn the_first_probe_timeout_is_of_999_ms() {
        assert_eq!(QuicRtt::new(ms(25)).probe_timeout(false), ms(999));
    }

    #[test]
    fn the_delay_of_the_peer_counts_as_far_as_it_leaves_the_least_and_is_declared() {
        let mut rtt = QuicRtt::new(ms(25));
        rtt.sample(at(100), ms(100), ms(0));
        assert_eq!((rtt.srtt(), rtt.variation()), (Some(ms(100)), ms(50)));
        // 120 less 20 is the least itself.
        rtt.sample(at(220), ms(120), ms(20));
        assert_eq!(rtt.srtt(), Some(ms(100)));
        assert_eq!(rtt.variation(), Duration::from_micros(37_500));
        // 110 less 20 would be below the least: nothing is taken off.
        rtt.sample(at(330), ms(110), ms(20));
        assert_eq!(rtt.srtt(), Some(Duration::from_micros(101_250)));
        // Of 80 that it says, 25 at most.
        let before = rtt.clone();
        rtt.sample(at(500), ms(180), ms(80));
        let smoothed = (before.srtt().expect("a sample").nanos() * 7 + ms(155).nanos()) / 8;
        assert_eq!(rtt.srtt(), Some(Duration::from_nanos(smoothed)));
        assert_eq!(rtt.min(), ms(100));
    }

    /// Section 7.6.1: three probe timeouts, the longest delay included.
    #[test]
    fn thresholds_are_the_rfcs() {
        let mut rtt = QuicRtt::new(ms(25));
        rtt.sample(at(0), ms(80), ms(0));
        assert_eq!(rtt.probe_timeout(true), ms(80 + 160 + 25));
        assert_eq!(rtt.persistent_congestion(), ms(3 * 265));
        assert_eq!(rtt.time_threshold(), ms(90));
        (0..200).for_each(|_| rtt.sample(at(0), Duration::from_micros(10), ms(0)));
        assert_eq!(rtt.time_threshold(), GRANULARITY);
    }
}
