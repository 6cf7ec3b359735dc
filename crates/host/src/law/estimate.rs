//! `bottlenet auto`: the link's rate from what it was seen to carry.
//!
//! A link has at least the rate that it was seen to carry over a few ticks; and where round trips are longer than
//! their shortest, a queue stands before it, and it carries just its rate. So the estimate is the largest rate seen,
//! from the first time that a queue stood. While a queue stands and nobody is held back it follows what the link carries within a few per cent, up and
//! down: an interface that counts super-frames once counts a little more where they are shorter, and a largest rate of that kind would
//! never be reached again. It decays slowly while nothing confirms it, since links get slower too, and fast
//! while a queue stands before a link that carries clearly less than the estimate. A law that has raised its windows in vain says
//! so: then the link is full at what it carries.

/// The part by which it falls in a second while unconfirmed, after [`PATIENCE`] seconds.
const SLOW: f64 = 0.005;
const PATIENCE: f64 = 30.0;
/// The part by which it falls in a second while a queue stands at a lower rate, after [`DOUBT`] seconds.
const FAST: f64 = 0.25;
const DOUBT: f64 = 1.0;

/// In so many seconds it follows a rate near it; near is so much of it.
const FOLLOWS: f64 = 1.0;
const NEAR: f64 = 0.95;

/// The estimator.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Estimate {
    rate: f64,
    queue_seen: bool,
    /// Seconds since the rate was last reached, and for how many a queue has stood below it.
    unconfirmed: f64,
    doubted: f64,
}

impl Estimate {
    /// One tick of so many seconds: the link's rate over the last few ticks, whether a queue stands, and whether nobody is held back
    /// below what the link can carry.
    pub fn see(&mut self, seconds: f64, rate: f64, queue: bool, free: bool) {
        self.queue_seen |= queue && rate > 0.0;
        if rate >= self.rate * NEAR {
            let part = (seconds / FOLLOWS).min(1.0);
            self.rate = match free && queue && self.queue_seen && rate * NEAR <= self.rate {
                true => self.rate + (rate - self.rate) * part,
                false => self.rate.max(rate),
            };
            (self.unconfirmed, self.doubted) = (0.0, 0.0);
            return;
        }
        self.unconfirmed += seconds;
        self.doubted = if queue { self.doubted + seconds } else { 0.0 };
        let fall = match (self.doubted > DOUBT, self.unconfirmed > PATIENCE) {
            (true, _) => FAST,
            (false, true) => SLOW,
            (false, false) => 0.0,
        };
        self.rate *= 1.0 - (fall * seconds).min(0.5);
    }

    /// The link was seen to carry no more than this, however much was offered.
    pub fn is_full_at(&mut self, rate: f64) {
        (self.rate, self.queue_seen) = (rate, true);
        (self.unconfirmed, self.doubted) = (0.0, 0.0);
    }

    /// The rate in bits per second; none before a queue was seen.
    pub fn rate(&self) -> Option<f64> {
        self.queue_seen.then_some(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(estimate: &mut Estimate, seconds: u32, rate: f64, queue: bool) {
        for _ in 0..seconds * 20 {
            estimate.see(0.05, rate, queue, true);
        }
    }

    #[test]
    fn a_rate_is_known_once_a_queue_stood() {
        let mut estimate = Estimate::default();
        see(&mut estimate, 1, 3e6, false);
        assert_eq!(estimate.rate(), None);
        see(&mut estimate, 1, 10e6, true);
        assert_eq!(estimate.rate(), Some(10e6));
        see(&mut estimate, 25, 1e6, false);
        assert_eq!(estimate.rate(), Some(10e6), "little use is no evidence");
        see(&mut estimate, 60, 1e6, false);
        let kept = estimate.rate().unwrap_or_default();
        assert!((7e6..9.5e6).contains(&kept), "{kept}");
    }

    #[test]
    fn a_rate_that_was_counted_too_high_once_is_forgotten_while_the_link_is_full() {
        let mut estimate = Estimate::default();
        see(&mut estimate, 2, 10e6, true);
        see(&mut estimate, 1, 10.4e6, true);
        see(&mut estimate, 5, 10e6, true);
        let rate = estimate.rate().unwrap_or_default();
        assert!((10e6..10.01e6).contains(&rate), "{rate}");
        (0..200).for_each(|_| estimate.see(0.05, 9.6e6, true, false));
        assert_eq!(estimate.rate(), Some(rate), "who is held back shows nothing");
    }

    #[test]
    fn a_slower_link_is_noticed_within_seconds() {
        let mut estimate = Estimate::default();
        see(&mut estimate, 2, 10e6, true);
        see(&mut estimate, 6, 4e6, true);
        let rate = estimate.rate().unwrap_or_default();
        assert!((3.9e6..4.5e6).contains(&rate), "{rate}");
    }
}
