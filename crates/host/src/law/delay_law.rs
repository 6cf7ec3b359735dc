//! Control by queueing delay, where the link's rate is unknown: after LEDBAT (RFC 6817) and
//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus), at the receiver as in rLEDBAT (RFC 9840).
//!
//! The queueing delay is a connection's RTT less that without a queue. Below the target, the window
//! grows by one segment per unit of weight in an RTT, and doubles until a delay above the target
//! first stood for longer than a slow start's burst. After that it grows faster, too, while there
//! is hardly any delay for several RTTs. Above the target it shrinks in proportion, at most by half
//! in an RTT.
//!
//! Departures: the target is half of the largest delay seen, at most 60 ms, since a link whose
//! buffer is shallower than a fixed target would never yield; and there are no periodic slowdowns.
//! This law yields later and less than one that knows the rate.

use super::flow_controller::{FlowController, LEAST, pace};
use crate::order::{FlowLimit, LimitReason};
use crate::tick::{DataDirection, Member};

/// Bounds of the target, in seconds. Shorter delays are noise of the hosts.
const TARGET_MIN: f64 = 0.005;
const TARGET_MAX: f64 = 0.06;

/// The target is reached once a delay above it has stood for this many RTTs. Less is a burst within
/// a slow start, after which a long path would be filled by single segments.
const STANDS_RTTS: f64 = 1.0;

/// After that, a window grows by this fraction of itself in an RTT, once the delay has been below
/// this fraction of the target for so many RTTs: single segments take ten seconds to fill a long
/// path of 100 Mbit/s.
const REGROWTH: f64 = 1.0 / 16.0;
const LITTLE: f64 = 0.25;
const LITTLE_RTTS: f64 = 8.0;

/// The law's state: the largest queueing delay seen, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DelayLaw {
    largest: f64,
    target_reached: bool,
}

impl DelayLaw {
    /// The limit of one connection, whose share of its member's cap is `cap_share`.
    pub(super) fn limit(
        &mut self,
        flow: &mut FlowController,
        member: &Member,
        cap_share: f64,
        seconds: f64,
        direction: DataDirection,
    ) -> (FlowLimit, LimitReason) {
        let delay = flow.queue();
        self.largest = self.largest.max(delay);
        let target = (self.largest / 2.0)
            .clamp(TARGET_MIN, TARGET_MAX)
            .max(flow.jitter());
        let rtts = (seconds / flow.rtt).min(2.0);
        flow.above_target_for = match delay > target {
            true => flow.above_target_for + seconds,
            false => 0.0,
        };
        flow.little_delay_for = match delay < LITTLE * target {
            true => flow.little_delay_for + seconds,
            false => 0.0,
        };
        self.target_reached |= flow.above_target_for >= STANDS_RTTS * flow.rtt;
        // The window of a connection that does not use it must not grow.
        let used = flow.mean * flow.rtt / 8.0 >= 0.5 * flow.window;
        let below = (target - delay) / target;
        flow.parked = false;
        flow.window *= match (below < 0.0, self.target_reached) {
            (true, _) => 1.0 - (-below * 0.5 * rtts).min(0.5),
            (false, false) if used => rtts.exp2(),
            (false, _) if used => {
                let segments = below * f64::from(member.weight.max(1)) * flow.mss / flow.window;
                let regrowth = match flow.little_delay_for > LITTLE_RTTS * flow.rtt {
                    true => REGROWTH,
                    false => 0.0,
                };
                1.0 + segments.max(regrowth) * rtts
            }
            (false, _) => 1.0,
        };
        let cap = cap_share * flow.rtt / 8.0;
        let capped = flow.window >= cap;
        let floor = member
            .floor
            .map_or(0.0, |floor| floor.bits() as f64 * flow.rtt / 8.0);
        flow.window = flow.window.max(floor).min(cap).max(LEAST * flow.mss);
        let reason = match member.cap {
            Some(cap) if capped => LimitReason::Cap(cap),
            _ if delay > TARGET_MIN => LimitReason::QueueGrows((delay * 1e6) as u32),
            _ => LimitReason::LinkIsFree,
        };
        match direction {
            DataDirection::Download => (FlowLimit::Window(flow.window()), reason),
            DataDirection::Upload => (FlowLimit::Pace(pace(flow.window * 8.0 / flow.rtt)), reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tick::{ConnectionId, FlowSample, MemberId};
    use engine::units::{Bytes, Duration, Instant};

    fn sample(ms: u64) -> FlowSample {
        FlowSample {
            rtt: Some(Duration::from_millis(ms)),
            min_rtt: Some(Duration::from_millis(100)),
            window: Bytes::new(14_480),
            ..FlowSample::new(ConnectionId(1), MemberId(0), Instant::START)
        }
    }

    /// A connection with 100 ms of RTT.
    fn flow() -> FlowController {
        let mut flow = FlowController::new(&sample(100), DataDirection::Download);
        flow.update(&sample(100), 0.0, 0.05);
        flow
    }

    /// A tick of 50 ms with this RTT, in which its window is in use.
    fn tick(law: &mut DelayLaw, flow: &mut FlowController, ms: u64) {
        let rate = flow.window * 8.0 / (ms as f64 / 1e3);
        flow.update(&sample(ms), rate, 0.05);
        flow.mean = rate;
        let member = Member::new(MemberId(0));
        law.limit(flow, &member, f64::INFINITY, 0.05, DataDirection::Download);
    }

    /// The window in segments after two seconds, where of each half of a second the first `burst`
    /// ticks have this much delay more, in ms.
    fn window_after(burst: u32, delay: u64) -> f64 {
        let (mut law, mut flow) = (DelayLaw::default(), flow());
        for at in 0..40 {
            let ms = if at % 10 < burst { 100 + delay } else { 100 };
            tick(&mut law, &mut flow, ms);
        }
        flow.window / 1_448.0
    }

    #[test]
    fn a_long_path_is_filled_within_seconds_after_a_slow_start_that_ended_early() {
        // A queue stands for the first second; then the path is empty.
        let (mut law, mut flow) = (DelayLaw::default(), flow());
        let mut pass = |ticks: u32, delay: u64| {
            for _ in 0..ticks {
                tick(&mut law, &mut flow, 100 + delay);
            }
            flow.window / 1_448.0
        };
        let (queued, soon, later) = (pass(20, 40), pass(16, 0), pass(60, 0));
        assert!(soon < queued + 10.0, "{queued} {soon}");
        assert!((3.0..8.0).contains(&(later / soon)), "{soon} {later}");
    }

    #[test]
    fn a_burst_within_a_slow_start_does_not_end_it_and_a_standing_queue_does() {
        let (free, burst, stands) = (window_after(0, 0), window_after(1, 20), window_after(4, 20));
        assert!(free > 1_000.0 && burst > 1_000.0, "{free} {burst}");
        assert!(stands < 100.0, "{stands}");
    }
}
