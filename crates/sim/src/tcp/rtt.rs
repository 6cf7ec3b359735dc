//! The round-trip time, and how long to wait for an answer (RFC 6298).
//!
//! Every acknowledgment echoes when the segment that it answers was sent (RFC 7323), so retransmissions are measured
//! too, and Karn's rule is kept: nothing is ever measured from the wrong copy. With a sample an ACK instead of one a
//! round trip, the variance forgets too soon; as RFC 7323's appendix G has it, the gains are divided by the samples
//! expected in a round trip.

use engine::units::{Duration, Instant};

/// The granularity of the clock that RFC 6298 asks for.
const GRANULARITY: Duration = Duration::from_millis(1);
/// The first time-out, before anything is known.
const FIRST: Duration = Duration::from_secs(1);
/// The longest time-out.
const LONGEST: Duration = Duration::from_secs(60);
/// The least round-trip time is that of so many seconds past.
const REMEMBERED: Duration = Duration::from_secs(10);

/// What is known of the round trip.
#[derive(Clone, Debug)]
pub struct RoundTrip {
    smoothed: Option<Duration>,
    variance: Duration,
    latest: Duration,
    least: Duration,
    least_at: Instant,
    floor: Duration,
    doublings: u32,
}

impl RoundTrip {
    /// Nothing is known; time-outs will be no shorter than `floor`.
    pub fn new(floor: Duration) -> Self {
        Self {
            smoothed: None,
            variance: Duration::ZERO,
            latest: Duration::ZERO,
            least: Duration::from_nanos(u64::MAX),
            least_at: Instant::START,
            floor,
            doublings: 0,
        }
    }

    /// A sample; `expected` of them are expected in a round trip.
    pub fn sample(&mut self, now: Instant, rtt: Duration, expected: u64) {
        let (rtt_ns, expected) = (rtt.nanos(), expected.max(1));
        self.latest = rtt;
        if rtt <= self.least || now.since(self.least_at) > REMEMBERED {
            (self.least, self.least_at) = (rtt, now);
        }
        self.doublings = 0;
        let Some(smoothed) = self.smoothed.map(Duration::nanos) else {
            self.smoothed = Some(rtt);
            self.variance = Duration::from_nanos(rtt_ns / 2);
            return;
        };
        let toward = |from: u64, to: u64, parts: u64| {
            Duration::from_nanos(if to >= from {
                from + (to - from) / parts
            } else {
                from - (from - to) / parts
            })
        };
        let variance = self.variance.nanos();
        self.variance = toward(variance, smoothed.abs_diff(rtt_ns), 4 * expected);
        self.smoothed = Some(toward(smoothed, rtt_ns, 8 * expected));
    }

    /// The smoothed round-trip time.
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// The latest sample.
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// The least of late; [`Duration`]'s largest before any.
    pub fn least(&self) -> Duration {
        self.least
    }

    /// How long to wait for an answer.
    pub fn timeout(&self) -> Duration {
        let once = match self.smoothed {
            Some(smoothed) => (smoothed + self.variance.times(4).max(GRANULARITY)).max(self.floor),
            None => FIRST.max(self.floor),
        };
        once.times(1 << self.doublings.min(16)).min(LONGEST)
    }

    /// A time-out passed unanswered: the next is twice as long.
    pub fn back_off(&mut self) {
        self.doublings += 1;
    }

    /// Whether the last time-out is still unanswered.
    pub fn waits(&self) -> bool {
        self.doublings > 0
    }

    /// Something was answered.
    pub fn answered(&mut self) {
        self.doublings = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_time_out_is_that_of_rfc_6298_and_doubles_until_an_answer() {
        let mut rtt = RoundTrip::new(ms(200));
        assert_eq!(rtt.timeout(), ms(1000));
        rtt.back_off();
        assert_eq!(rtt.timeout(), ms(2000));
        rtt.sample(Instant::START + ms(100), ms(100), 1);
        assert_eq!(rtt.timeout(), ms(300));
        rtt.sample(Instant::START + ms(300), ms(180), 1);
        assert_eq!(rtt.smoothed(), Some(ms(110)));
        assert_eq!(rtt.timeout(), Duration::from_micros(110_000 + 4 * 57_500));
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.timeout(), ms(60_000));
        rtt.answered();
        assert_eq!(rtt.timeout(), ms(340));
        (0..400).for_each(|_| rtt.sample(Instant::START + ms(400), ms(100), 1));
        assert_eq!(rtt.timeout(), ms(200), "not below the least");
        assert_eq!(rtt.least(), ms(100));
    }
}
