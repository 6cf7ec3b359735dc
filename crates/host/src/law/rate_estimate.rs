//! `bottlenet auto`: the link's rate, estimated from what it carries.
//!
//! A link has at least the rate that it carries over a few ticks. Where RTTs exceed their minimum,
//! it has a standing queue and carries exactly its rate. So the estimate is the largest rate seen,
//! valid from the first time that a queue stood.
//!
//! - While a queue stands and no member is limited below what the link can carry, the estimate
//!   follows the measured rate, up and down, within a few per cent. An interface that counts
//!   super-frames once reads a little more where they are shorter, and a maximum of that would
//!   never be reached again.
//! - It decays slowly while nothing confirms it, since links become slower too.
//! - It decays fast while a queue stands and the link carries clearly less.
//! - A law that has raised its windows in vain reports it: the link is full at what it carries.

/// The decay per second while unconfirmed, after [`SLOW_AFTER`] seconds.
const SLOW_DECAY: f64 = 0.005;
const SLOW_AFTER: f64 = 30.0;
/// The decay per second while a queue stands at a lower rate, after [`FAST_AFTER`] seconds.
const FAST_DECAY: f64 = 0.25;
const FAST_AFTER: f64 = 1.0;

/// The time constant with which it follows a rate near it, in seconds.
const FOLLOW_TIME: f64 = 1.0;
/// A rate is near from this fraction of the estimate on.
const NEAR: f64 = 0.95;

/// The estimator.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct RateEstimate {
    rate: f64,
    has_queued: bool,
    /// Seconds since the rate was last reached.
    unconfirmed: f64,
    /// Seconds for which a queue has stood at a lower rate.
    doubted: f64,
}

impl RateEstimate {
    /// Takes a tick in: the link's rate over the last few ticks, whether a queue stands, and
    /// whether members are `free`, not limited below what the link can carry.
    pub fn update(&mut self, seconds: f64, rate: f64, queue: bool, free: bool) {
        self.has_queued |= queue && rate > 0.0;
        if rate >= self.rate * NEAR {
            let part = (seconds / FOLLOW_TIME).min(1.0);
            self.rate = match free && queue && self.has_queued && rate * NEAR <= self.rate {
                true => self.rate + (rate - self.rate) * part,
                false => self.rate.max(rate),
            };
            (self.unconfirmed, self.doubted) = (0.0, 0.0);
            return;
        }
        self.unconfirmed += seconds;
        self.doubted = if queue { self.doubted + seconds } else { 0.0 };
        let decay = match (self.doubted > FAST_AFTER, self.unconfirmed > SLOW_AFTER) {
            (true, _) => FAST_DECAY,
            (false, true) => SLOW_DECAY,
            (false, false) => 0.0,
        };
        self.rate *= 1.0 - (decay * seconds).min(0.5);
    }

    /// The link carries no more than this, however much was offered.
    pub fn is_full_at(&mut self, rate: f64) {
        (self.rate, self.has_queued) = (rate, true);
        (self.unconfirmed, self.doubted) = (0.0, 0.0);
    }

    /// The rate in bits per second; none before the first queue.
    pub fn rate(&self) -> Option<f64> {
        self.has_queued.then_some(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(estimate: &mut RateEstimate, seconds: u32, rate: f64, queue: bool) {
        for _ in 0..seconds * 20 {
            estimate.update(0.05, rate, queue, true);
        }
    }

    #[test]
    fn a_rate_is_known_after_the_first_queue() {
        let mut estimate = RateEstimate::default();
        feed(&mut estimate, 1, 3e6, false);
        assert_eq!(estimate.rate(), None);
        feed(&mut estimate, 1, 10e6, true);
        assert_eq!(estimate.rate(), Some(10e6));
        feed(&mut estimate, 25, 1e6, false);
        assert_eq!(estimate.rate(), Some(10e6), "a low load is no evidence");
        feed(&mut estimate, 60, 1e6, false);
        let kept = estimate.rate().unwrap_or_default();
        assert!((7e6..9.5e6).contains(&kept), "{kept}");
    }

    #[test]
    fn a_rate_once_counted_too_high_is_forgotten_while_the_link_is_full() {
        let mut estimate = RateEstimate::default();
        feed(&mut estimate, 2, 10e6, true);
        feed(&mut estimate, 1, 10.4e6, true);
        feed(&mut estimate, 5, 10e6, true);
        let rate = estimate.rate().unwrap_or_default();
        assert!((10e6..10.01e6).contains(&rate), "{rate}");
        (0..200).for_each(|_| estimate.update(0.05, 9.6e6, true, false));
        assert_eq!(estimate.rate(), Some(rate), "limited members prove nothing");
    }

    #[test]
    fn a_slower_link_is_noticed_within_seconds() {
        let mut estimate = RateEstimate::default();
        feed(&mut estimate, 2, 10e6, true);
        feed(&mut estimate, 6, 4e6, true);
        let rate = estimate.rate().unwrap_or_default();
        assert!((3.9e6..4.5e6).contains(&rate), "{rate}");
    }
}
