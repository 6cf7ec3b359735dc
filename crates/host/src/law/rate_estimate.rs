//! `bottlenet auto`: the link's rate, estimated from what it carries.
//!
//! A link has at least the rate that it carries over a few ticks. Where RTTs exceed their minimum,
//! it has a standing queue and carries exactly its rate. So the estimate is the largest rate seen,
//! valid from the first time that a queue outlasted the growth of the rate: RTTs also vary within a
//! slow start. A queue below a stated rate is no such evidence: see `queue_witness`.
//!
//! - Data that were lost are evidence, too: `loss_witness`.
//! - While a queue stands and no member is limited below what the link can carry, the estimate
//!   follows the measured rate, up and down, within a few per cent. An interface that counts
//!   super-frames once reads a little more where they are shorter, and a maximum of that would
//!   never be reached again.
//! - It decays slowly while nothing confirms it, since links become slower too; not below a stated
//!   rate.
//! - It decays fast while a queue stands and the link carries a little less.
//! - A law that has raised its windows in vain, or lowered them without a loss, reports it: the
//!   link is full at what it carries.

/// The decay per second while unconfirmed, after [`SLOW_AFTER`] seconds.
const SLOW_DECAY: f64 = 0.005;
const SLOW_AFTER: f64 = 30.0;
/// The decay per second while a queue stands at a lower rate, after [`FAST_AFTER`] seconds.
const FAST_DECAY: f64 = 0.25;
const FAST_AFTER: f64 = 1.0;

/// The time constant with which it follows a rate near it, in seconds.
const FOLLOW_TIME: f64 = 1.0;
/// A rate is near from this fraction of the estimate on,
const NEAR: f64 = 0.95;
/// and a little less from this fraction on. Where it is less, a trial decides.
const LESS: f64 = 0.9;

/// A queue is evidence after this many seconds and this many RTTs
const OUTLASTS: f64 = 0.1;
const OUTLASTS_RTTS: f64 = 2.0;
/// in which the rate did not grow by more than this factor.
const GROWTH: f64 = 1.1;

/// What a tick shows of the link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkEvidence {
    /// The time since the last tick, in seconds.
    pub seconds: f64,
    /// The link's rate over the last few ticks.
    pub rate: f64,
    /// The longest RTT among the connections that see a queue, in seconds; none without a queue.
    pub queued_rtt: Option<f64>,
    /// The rate at which it was full, if data were lost in the last round trip.
    pub lost_at: Option<f64>,
    /// Members are not limited below what the link can carry.
    pub free: bool,
    /// The rate that was stated; zero if none was.
    pub stated: f64,
}

/// The estimator.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct RateEstimate {
    rate: f64,
    has_queued: bool,
    /// Seconds since the rate was last reached.
    unconfirmed: f64,
    /// Seconds for which a queue has stood at a lower rate.
    doubted: f64,
    /// The highest rate beside the present queue, and the seconds since it grew.
    peak: f64,
    level_for: f64,
}

impl RateEstimate {
    /// Takes a tick in.
    pub fn update(&mut self, tick: LinkEvidence) {
        let LinkEvidence {
            seconds,
            rate,
            queued_rtt,
            lost_at,
            free,
            stated,
        } = tick;
        let queue = queued_rtt.is_some();
        self.has_queued |= self.outlasts_growth(&tick) && rate >= LESS * stated;
        if let Some(lost_at) = lost_at.filter(|&rate| !self.has_queued && rate >= LESS * stated) {
            (self.has_queued, self.rate) = (true, self.rate.max(lost_at));
        }
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
        let doubted = queue && rate >= self.rate * LESS;
        self.doubted = if doubted { self.doubted + seconds } else { 0.0 };
        let decay = match (self.doubted > FAST_AFTER, self.unconfirmed > SLOW_AFTER) {
            (true, _) => FAST_DECAY,
            (false, true) if self.rate > stated => SLOW_DECAY,
            (false, _) => 0.0,
        };
        self.rate *= 1.0 - (decay * seconds).min(0.5);
    }

    /// Whether a queue has stood for longer than the rate has grown.
    fn outlasts_growth(&mut self, tick: &LinkEvidence) -> bool {
        let Some(rtt) = tick.queued_rtt else {
            // BBR drains the queue in every eighth round trip, and jitter hides it at times.
            self.level_for = (self.level_for - tick.seconds / 4.0).max(0.0);
            return false;
        };
        if tick.rate > GROWTH * self.peak || self.level_for == 0.0 {
            (self.peak, self.level_for) = (tick.rate, 0.0);
        }
        self.level_for += tick.seconds;
        tick.rate > 0.0 && self.level_for >= OUTLASTS + OUTLASTS_RTTS * rtt
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

    /// The highest rate seen, with or without a queue.
    pub fn highest(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(estimate: &mut RateEstimate, seconds: u32, rate: f64, queue: bool) {
        for _ in 0..seconds * 20 {
            estimate.update(evidence(rate, queue, true));
        }
    }

    fn evidence(rate: f64, queue: bool, free: bool) -> LinkEvidence {
        LinkEvidence {
            seconds: 0.05,
            rate,
            queued_rtt: queue.then_some(0.03),
            lost_at: None,
            free,
            stated: 0.0,
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
        (0..200).for_each(|_| estimate.update(evidence(9.6e6, true, false)));
        assert_eq!(estimate.rate(), Some(rate), "limited members prove nothing");
    }

    #[test]
    fn a_queue_within_a_slow_start_is_no_evidence() {
        // Each round trip of 100 ms carries twice as much, and RTTs vary.
        let mut estimate = RateEstimate::default();
        for tick in 0..20 {
            let queued_rtt = (tick % 5 != 0).then_some(0.13);
            let rate = 1e6 * f64::from(1 << (tick / 2));
            estimate.update(LinkEvidence {
                queued_rtt,
                ..evidence(rate, true, true)
            });
            assert_eq!(estimate.rate(), None, "tick {tick}");
        }
    }

    #[test]
    fn a_loss_is_evidence_of_the_rate_before_it_unless_a_higher_one_is_stated() {
        let lost = |stated| {
            let mut estimate = RateEstimate::default();
            (0..20).for_each(|_| estimate.update(evidence(9e6, false, true)));
            estimate.update(LinkEvidence {
                lost_at: Some(10e6),
                stated,
                ..evidence(9e6, false, true)
            });
            estimate.rate()
        };
        assert_eq!(lost(0.0), Some(10e6));
        assert_eq!(lost(11e6), Some(10e6));
        assert_eq!(lost(12e6), None, "a trial decides");
    }

    #[test]
    fn a_queue_below_a_stated_rate_is_no_evidence_and_free_flow_above_it_is() {
        let mut estimate = RateEstimate::default();
        let stated = |rate, queue| LinkEvidence {
            stated: 10e6,
            ..evidence(rate, queue, true)
        };
        (0..40).for_each(|_| estimate.update(stated(5e6, true)));
        assert_eq!(estimate.rate(), None, "a trial decides");
        (0..40).for_each(|_| estimate.update(stated(14e6, false)));
        assert_eq!(estimate.highest(), 14e6);
        (0..40).for_each(|_| estimate.update(stated(14e6, true)));
        (0..4_000).for_each(|_| estimate.update(stated(1e6, false)));
        let rate = estimate.rate().unwrap_or_default();
        assert!((9.9e6..10e6).contains(&rate), "decays to what was stated: {rate}");
    }
}
