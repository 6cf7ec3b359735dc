//! Round-trip time and retransmission timeout (RFC 6298).
//!
//! Every ACK echoes the timestamp of the segment that it answers (RFC 7323). So retransmissions are
//! measured too, and Karn's rule holds: no sample is ever taken from the wrong copy. With one
//! sample per ACK in place of one per round trip, RTTVAR would decay too fast; as in RFC 7323,
//! appendix G, the gains are divided by the expected samples per round trip.

use engine::units::{Duration, Instant};

/// RFC 6298's clock granularity G.
const GRANULARITY: Duration = Duration::from_millis(1);
/// The timeout before the first sample.
const INITIAL_RTO: Duration = Duration::from_secs(1);
/// The longest timeout.
const MAX_RTO: Duration = Duration::from_secs(60);
/// The least round-trip time is that of this long.
const MIN_RTT_FILTER: Duration = Duration::from_secs(10);

/// SRTT, RTTVAR and the retransmission timeout.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    srtt: Option<Duration>,
    rttvar: Duration,
    latest: Duration,
    min_rtt: Duration,
    min_rtt_at: Instant,
    min_rto: Duration,
    backoffs: u32,
}

impl RttEstimator {
    /// Without samples; timeouts are never shorter than `min_rto`.
    pub fn new(min_rto: Duration) -> Self {
        Self {
            srtt: None,
            rttvar: Duration::ZERO,
            latest: Duration::ZERO,
            min_rtt: Duration::from_nanos(u64::MAX),
            min_rtt_at: Instant::START,
            min_rto,
            backoffs: 0,
        }
    }

    /// Takes a sample; `expected` is the number of samples expected per round trip.
    pub fn sample(&mut self, now: Instant, rtt: Duration, expected: u64) {
        let (rtt_ns, expected) = (rtt.nanos(), expected.max(1));
        self.latest = rtt;
        if rtt <= self.min_rtt || now.since(self.min_rtt_at) > MIN_RTT_FILTER {
            (self.min_rtt, self.min_rtt_at) = (rtt, now);
        }
        self.backoffs = 0;
        let Some(srtt) = self.srtt.map(Duration::nanos) else {
            self.srtt = Some(rtt);
            self.rttvar = Duration::from_nanos(rtt_ns / 2);
            return;
        };
        let toward = |from: u64, to: u64, parts: u64| {
            Duration::from_nanos(if to >= from {
                from + (to - from) / parts
            } else {
                from - (from - to) / parts
            })
        };
        let rttvar = self.rttvar.nanos();
        self.rttvar = toward(rttvar, srtt.abs_diff(rtt_ns), 4 * expected);
        self.srtt = Some(toward(srtt, rtt_ns, 8 * expected));
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

    /// The retransmission timeout.
    pub fn rto(&self) -> Duration {
        let once = match self.srtt {
            Some(srtt) => (srtt + self.rttvar.times(4).max(GRANULARITY)).max(self.min_rto),
            None => INITIAL_RTO.max(self.min_rto),
        };
        once.times(1 << self.backoffs.min(16)).min(MAX_RTO)
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

    #[test]
    fn the_timeout_is_that_of_rfc_6298_and_doubles_until_an_ack() {
        let mut rtt = RttEstimator::new(ms(200));
        assert_eq!(rtt.rto(), ms(1000));
        rtt.back_off();
        assert_eq!(rtt.rto(), ms(2000));
        rtt.sample(Instant::START + ms(100), ms(100), 1);
        assert_eq!(rtt.rto(), ms(300));
        rtt.sample(Instant::START + ms(300), ms(180), 1);
        assert_eq!(rtt.srtt(), Some(ms(110)));
        assert_eq!(rtt.rto(), Duration::from_micros(110_000 + 4 * 57_500));
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), ms(60_000));
        rtt.end_backoff();
        assert_eq!(rtt.rto(), ms(340));
        (0..400).for_each(|_| rtt.sample(Instant::START + ms(400), ms(100), 1));
        assert_eq!(rtt.rto(), ms(200), "not below the least");
        assert_eq!(rtt.min_rtt(), ms(100));
    }
}
