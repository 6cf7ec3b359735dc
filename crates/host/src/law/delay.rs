//! Where the link's rate is not known: windows by the delay of the link's queue, after LEDBAT++ (RFC 6817 and
//! draft-irtf-iccrg-ledbat-plus-plus) at the receiver, as rLEDBAT (RFC 9840) has it.
//!
//! The queue's delay is a connection's round trip less its shortest. Below the target the window grows, by a segment for each
//! unit of weight in a round trip (doubling until the target was first reached); above it shrinks in proportion, by half at
//! most. Departures: the target is half of the largest delay seen, at most 60 ms, since a link whose buffer
//! is shallower than a fixed target would never yield; and there are no periodic slowdowns. It yields later and less than a law
//! that knows the rate.

use super::windows::{LEAST, Steered, pace};
use crate::order::{Hold, Why};
use crate::reading::{Direction, Member};

/// The target's bounds, in seconds: delays below the lower one are noise of the hosts.
const TARGET: (f64, f64) = (0.005, 0.06);

/// The law's state: the largest delay that was seen, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Delay {
    largest: f64,
    target_met: bool,
}

impl Delay {
    /// What is to be done with one connection, which may have this `part` of its member's cap at most.
    pub(super) fn steer(
        &mut self,
        flow: &mut Steered,
        member: &Member,
        part: f64,
        seconds: f64,
        direction: Direction,
    ) -> (Hold, Why) {
        let queue = (flow.rtt - flow.base()).max(0.0);
        self.largest = self.largest.max(queue);
        let (least, most) = TARGET;
        let target = (self.largest / 2.0).clamp(least, most);
        let rounds = (seconds / flow.rtt).min(2.0);
        self.target_met |= queue > target;
        // A window that the connection does not use must not grow.
        let used = flow.mean * flow.rtt / 8.0 >= 0.5 * flow.window;
        let below = (target - queue) / target;
        flow.parked = false;
        flow.window *= match (below < 0.0, self.target_met) {
            (true, _) => 1.0 - (-below * 0.5 * rounds).min(0.5),
            (false, false) if used => rounds.exp2(),
            (false, _) if used => {
                1.0 + below * f64::from(member.weight.max(1)) * flow.mss * rounds / flow.window
            }
            (false, _) => 1.0,
        };
        let cap = part * flow.rtt / 8.0;
        let capped = flow.window >= cap;
        let floor = member
            .floor
            .map_or(0.0, |floor| floor.bits() as f64 * flow.rtt / 8.0);
        flow.window = flow.window.max(floor).min(cap).max(LEAST * flow.mss);
        let why = match member.cap {
            Some(cap) if capped => Why::Cap(cap),
            _ if queue > least => Why::QueueGrows((queue * 1e6) as u32),
            _ => Why::LinkIsFree,
        };
        match direction {
            Direction::Download => (Hold::Window(flow.window()), why),
            Direction::Upload => (Hold::Pace(pace(flow.window * 8.0 / flow.rtt)), why),
        }
    }
}
