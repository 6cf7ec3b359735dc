//! Round-trip time and retransmission timeout, by Linux's rule or by RFC 6298's.
//!
//! Every ACK echoes the timestamp of the segment that it answers (RFC 7323). So retransmissions are
//! measured too, and Karn's rule holds: no sample is ever taken from the wrong copy.
//!
//! - **Linux** (`tcp_rtt_estimator`): RTO = SRTT + max(4 · RTTVAR, `min_rto`). The least is one of
//!   the variance term, so the timer always leaves `min_rto` for a delay that grows. RTTVAR is the
//!   largest mean deviation of the last round trip: it rises at once, and falls by a quarter per
//!   round trip. A sample below SRTT moves the mean deviation at an eighth of the gain, so a
//!   falling RTT does not raise RTO.
//! - **RFC 6298**: RTO = max(SRTT + 4 · RTTVAR, `min_rto`). With one sample per ACK in place of one
//!   per round trip, RTTVAR would decay too fast; as in RFC 7323, appendix G, the gains are divided
//!   by the expected samples per round trip. On a path whose RTT exceeds `min_rto` the minimum has
//!   no effect: a steady RTT leaves RTO at the RTT itself, and a growing queue expires the timer.

use engine::units::{Duration, Instant};

engine::choices! {
    /// The rule by which the retransmission timeout follows the round-trip time.
    pub enum RtoRule {
        /// Linux's: `min_rto` is the least of the variance term.
        Linux = "linux",
        /// RFC 6298's: `min_rto` is the least of the timeout.
        Rfc6298 = "rfc6298",
    }
}

impl RtoRule {
    /// `min_rto` where none is configured: `TCP_RTO_MIN`, and RFC 6298's (2.4).
    pub const fn min_rto(self) -> Duration {
        match self {
            Self::Linux => Duration::from_millis(200),
            Self::Rfc6298 => Duration::from_secs(1),
        }
    }

    /// The longest timeout: `TCP_RTO_MAX`, and RFC 6298's (2.5).
    const fn max_rto(self) -> Duration {
        match self {
            Self::Linux => Duration::from_secs(120),
            Self::Rfc6298 => Duration::from_secs(60),
        }
    }
}

/// RFC 6298's clock granularity G.
const GRANULARITY: Duration = Duration::from_millis(1);
/// The timeout before the first sample.
const INITIAL_RTO: Duration = Duration::from_secs(1);
/// The least round-trip time is that of this long: Linux's `tcp_min_rtt_wlen`.
const MIN_RTT_FILTER: Duration = Duration::from_secs(300);

/// A round-trip time, and what the rules need to know about its ACK.
#[derive(Clone, Copy, Debug)]
pub struct RttSample {
    /// The time.
    pub now: Instant,
    /// The round-trip time.
    pub rtt: Duration,
    /// SND.UNA after the ACK.
    pub snd_una: u64,
    /// SND.NXT.
    pub snd_nxt: u64,
    /// The number of samples expected per round trip.
    pub per_round_trip: u64,
}

/// SRTT, RTTVAR and the retransmission timeout.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    rule: RtoRule,
    min_rto: Duration,
    srtt: Option<Duration>,
    /// 4 · RTTVAR, the variance term of RTO.
    variance: u64,
    /// Linux: 4 · the mean deviation (`mdev_us`).
    mdev: u64,
    /// Linux: its maximum in this round trip (`mdev_max_us`).
    mdev_max: u64,
    /// Linux: the round trip ends when this byte is acknowledged (`rtt_seq`).
    round_end: u64,
    latest: Duration,
    min_rtt: Duration,
    min_rtt_at: Instant,
    backoffs: u32,
}

/// `from`, moved toward `to` by a fraction of their difference.
fn toward(from: u64, to: u64, parts: u64) -> u64 {
    if to >= from {
        from + (to - from) / parts
    } else {
        from - (from - to) / parts
    }
}

impl RttEstimator {
    /// Without samples; without `min_rto`, with the rule's own.
    pub fn new(rule: RtoRule, min_rto: Option<Duration>) -> Self {
        Self {
            rule,
            min_rto: min_rto.unwrap_or(rule.min_rto()),
            srtt: None,
            variance: 0,
            mdev: 0,
            mdev_max: 0,
            round_end: 0,
            latest: Duration::ZERO,
            min_rtt: Duration::from_nanos(u64::MAX),
            min_rtt_at: Instant::START,
            backoffs: 0,
        }
    }

    /// Takes a sample.
    pub fn sample(&mut self, sample: RttSample) {
        let RttSample { now, rtt, .. } = sample;
        self.latest = rtt;
        if rtt <= self.min_rtt || now.since(self.min_rtt_at) > MIN_RTT_FILTER {
            (self.min_rtt, self.min_rtt_at) = (rtt, now);
        }
        self.backoffs = 0;
        match self.rule {
            RtoRule::Linux => self.sample_as_linux(sample),
            RtoRule::Rfc6298 => self.sample_as_rfc_6298(sample),
        }
    }

    fn sample_as_linux(&mut self, sample: RttSample) {
        let (rtt, least) = (sample.rtt.nanos(), self.min_rto.nanos());
        let Some(srtt) = self.srtt.map(Duration::nanos) else {
            self.srtt = Some(sample.rtt);
            self.mdev = 2 * rtt;
            self.variance = self.mdev.max(least);
            self.mdev_max = self.variance;
            self.round_end = sample.snd_nxt;
            return;
        };
        self.srtt = Some(Duration::from_nanos(toward(srtt, rtt, 8)));
        // mdev is 4 · the mean deviation, so a gain of 1/4 adds the deviation itself.
        let deviation = srtt.abs_diff(rtt);
        let target = self.mdev - self.mdev / 4 + deviation;
        self.mdev = if rtt < srtt && target > self.mdev {
            toward(self.mdev, target, 8)
        } else {
            target
        };
        self.mdev_max = self.mdev_max.max(self.mdev);
        self.variance = self.variance.max(self.mdev_max);
        if sample.snd_una > self.round_end {
            self.variance = toward(self.variance, self.mdev_max, 4);
            self.round_end = sample.snd_nxt;
            self.mdev_max = least;
        }
    }

    fn sample_as_rfc_6298(&mut self, sample: RttSample) {
        let (rtt, expected) = (sample.rtt.nanos(), sample.per_round_trip.max(1));
        let Some(srtt) = self.srtt.map(Duration::nanos) else {
            self.srtt = Some(sample.rtt);
            self.variance = 2 * rtt;
            return;
        };
        self.variance = toward(self.variance, 4 * srtt.abs_diff(rtt), 4 * expected);
        self.srtt = Some(Duration::from_nanos(toward(srtt, rtt, 8 * expected)));
    }

    /// The smoothed round-trip time.
    pub fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    /// The latest sample.
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// The least recent sample; [`Duration`]'s largest before the first.
    pub fn min_rtt(&self) -> Duration {
        self.min_rtt
    }

    /// The least that the rule allows: of the variance term, or of the timeout.
    pub fn min_rto(&self) -> Duration {
        self.min_rto
    }

    /// The retransmission timeout.
    pub fn rto(&self) -> Duration {
        let variance = Duration::from_nanos(self.variance);
        let once = match (self.srtt, self.rule) {
            (None, _) => INITIAL_RTO.max(self.min_rto),
            // The variance term is never below min_rto.
            (Some(srtt), RtoRule::Linux) => srtt + variance,
            (Some(srtt), RtoRule::Rfc6298) => (srtt + variance.max(GRANULARITY)).max(self.min_rto),
        };
        once.times(1 << self.backoffs.min(16)).min(self.rule.max_rto())
    }

    /// The timer expired: the next timeout is twice as long.
    pub fn back_off(&mut self) {
        self.backoffs += 1;
    }

    /// Whether nothing was acknowledged since the timer expired.
    pub fn is_backed_off(&self) -> bool {
        self.backoffs > 0
    }

    /// Data was acknowledged: the backoff ends.
    pub fn end_backoff(&mut self) {
        self.backoffs = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// The n-th sample, each of a round trip of its own.
    fn sample(n: u64, rtt: Duration) -> RttSample {
        RttSample {
            now: Instant::START + ms(100 * n),
            rtt,
            snd_una: 10 * n + 1,
            snd_nxt: 10 * n + 10,
            per_round_trip: 1,
        }
    }

    #[test]
    fn rfc_6298s_timeout_doubles_until_an_ack_and_has_the_least_of_the_whole() {
        let mut rtt = RttEstimator::new(RtoRule::Rfc6298, Some(ms(200)));
        assert_eq!(rtt.rto(), ms(1000));
        rtt.back_off();
        assert_eq!(rtt.rto(), ms(2000));
        rtt.sample(sample(1, ms(100)));
        assert_eq!(rtt.rto(), ms(300));
        rtt.sample(sample(3, ms(180)));
        assert_eq!(rtt.srtt(), Some(ms(110)));
        assert_eq!(rtt.rto(), Duration::from_micros(110_000 + 4 * 57_500));
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), ms(60_000));
        rtt.end_backoff();
        assert_eq!(rtt.rto(), ms(340));
        (4..400).for_each(|n| rtt.sample(sample(n, ms(100))));
        assert_eq!(rtt.rto(), ms(200), "not below the least");
        assert_eq!(rtt.min_rtt(), ms(100));
        let standard = RttEstimator::new(RtoRule::Rfc6298, None);
        assert_eq!(standard.min_rto(), ms(1000));
    }

    #[test]
    fn linuxs_timeout_keeps_200_ms_above_the_round_trip_time() {
        let mut rtt = RttEstimator::new(RtoRule::Linux, None);
        assert_eq!(rtt.rto(), ms(1000));
        rtt.sample(sample(1, ms(200)));
        assert_eq!(rtt.rto(), ms(200 + 400), "three times the first");
        (2..400).for_each(|n| rtt.sample(sample(n, ms(200))));
        // The variance term comes down to 200 ms, and no further.
        assert!(rtt.rto() >= ms(400) && rtt.rto() < ms(401), "{}", rtt.rto());
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), ms(120_000));
    }

    #[test]
    fn linuxs_variance_rises_at_once_and_falls_by_a_quarter_per_round_trip() {
        let mut rtt = RttEstimator::new(RtoRule::Linux, None);
        (1..200).for_each(|n| rtt.sample(sample(n, ms(100))));
        let quiet = rtt.rto();
        // mdev is near 0, so a deviation of 400 ms is the variance term at once: 4 · 400 ms / 4.
        rtt.sample(sample(200, ms(500)));
        let after = rtt.rto();
        assert!(
            after > quiet + ms(240) && after < quiet + ms(260),
            "{quiet} {after}"
        );
        // Within a round trip nothing falls, however many samples there are.
        for _ in 0..100 {
            rtt.sample(RttSample {
                snd_una: 2_001,
                snd_nxt: 2_100,
                ..sample(200, ms(150))
            });
        }
        let srtt = rtt.srtt().unwrap_or_default();
        assert_eq!(rtt.rto() - srtt, after - ms(150), "the variance term stays");
        rtt.sample(sample(211, ms(150)));
        rtt.sample(sample(222, ms(150)));
        let srtt = rtt.srtt().unwrap_or_default();
        assert!(rtt.rto() - srtt < after - ms(150), "and then falls");
    }

    #[test]
    fn a_falling_round_trip_time_hardly_raises_linuxs_timeout() {
        let mut rtt = RttEstimator::new(RtoRule::Linux, None);
        (1..400).for_each(|n| rtt.sample(sample(n, ms(1_000))));
        let before = rtt.rto();
        rtt.sample(sample(400, ms(100)));
        assert!(rtt.rto() < before, "{before} {}", rtt.rto());
    }
}
