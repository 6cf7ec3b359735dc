//! Control by queueing delay, where the link's rate is unknown: after LEDBAT (RFC 6817) and
//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus), at the receiver as in rLEDBAT (RFC 9840).
//!
//! The queueing delay is a connection's RTT less that without a queue. Below the target, the window
//! grows by one segment per unit of weight in an RTT, and doubles until the target was first
//! reached. Above the target it shrinks in proportion, at most by half in an RTT.
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
        self.target_reached |= delay > target;
        // The window of a connection that does not use it must not grow.
        let used = flow.mean * flow.rtt / 8.0 >= 0.5 * flow.window;
        let below = (target - delay) / target;
        flow.parked = false;
        flow.window *= match (below < 0.0, self.target_reached) {
            (true, _) => 1.0 - (-below * 0.5 * rtts).min(0.5),
            (false, false) if used => rtts.exp2(),
            (false, _) if used => {
                1.0 + below * f64::from(member.weight.max(1)) * flow.mss * rtts / flow.window
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
