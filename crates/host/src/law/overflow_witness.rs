//! The fifth witness: a buffer that overflows while the link carries less than its rate.
//!
//! Windows near one bandwidth-delay product lose no data on a link of their own. If a link that was
//! once full without a loss loses data below its rate, somebody who is not counted fills its
//! buffer. That shows where a buffer is so shallow that its queue is within what `queue_witness`
//! tolerates.
//!
//! - *Away.* Members keep the smallest windows. Where these are much of a short path, they send
//!   nothing most of the time, and look at what the buffer holds from time to time.
//! - *Return.* The buffer has not been in use for a while: windows grow by steps that fit into it.
//!   A loss, or a queue before members can make one, sends them away again.
//! - *Inelastic.* Each sixth return they compete for a while, whatever they see. Those that want
//!   more leave them little. If they have what they had, others take a fixed part, or the link has
//!   become slower: it is full at what it carries.
//! - *False alarms.* A loss without a queue is that of a radio link. If members are back at once,
//!   there was nobody: the witness then keeps silent for a while. A buffer of less than two
//!   milliseconds shows no queue, so that over it nobody is seen.
//!
//! Over long paths there is no alarm: members that are away waste them, as a flow that has lost
//! data needs seconds to take them.

use super::flow_controller::{FlowController, LEAST};
use super::queue_witness::LinkLoad;

/// The link was full without a loss: it carried this fraction of its rate.
const PROVEN: f64 = 0.9;
/// It loses data below its rate: it carries less than this fraction of it.
const BELOW: f64 = 0.85;
/// A queue of this fraction of the RTT without one, and of this many seconds, is for
/// `queue_witness`.
const DEEP_FRACTION: f64 = 0.5;
const DEEP: f64 = 0.01;
/// The buffer is in use from a queue of this many seconds on, of this fraction of the RTT, or of
/// what a window sends at once: half of it, of so many segments at least and at most.
const IN_USE: f64 = 0.0015;
const IN_USE_FRACTION: f64 = 0.05;
const AT_ONCE: f64 = 3.0;
const AT_ONCE_MAX: f64 = 4.0;
/// Members return after this many seconds and this many RTTs without it. Each return in vain
/// doubles the seconds, up to a maximum.
const GONE_FOR: f64 = 0.1;
const GONE_MAX: f64 = 0.4;
const GONE_RTTS: f64 = 1.0;
/// They send nothing for this many seconds where the smallest windows are more than this fraction
/// of the link.
const PARKED_FOR: f64 = 0.3;
const MUCH: f64 = 0.05;
/// In an RTT windows grow by this fraction, by one of so many steps at most and so many segments at
/// least.
const GROWTH: f64 = 0.7;
const STEPS: f64 = 6.0;
const STEP_MIN: f64 = 1.5;
/// They are back when they have been as large as is wanted for this many seconds and RTTs.
const HELD_FOR: f64 = 0.1;
const HELD_RTTS: f64 = 2.0;
/// Each so many returns, they compete for this many seconds and RTTs, whatever they see, and come
/// as far as before from this fraction on.
const PATIENT_EACH: u32 = 6;
const PATIENT_FOR: f64 = 0.4;
const PATIENT_RTTS: f64 = 8.0;
const AS_BEFORE: f64 = 0.75;
/// An alarm after which members are back at once was a false one, and silences the witness for so
/// many seconds; the next one twice as long, up to a maximum.
const SILENT: f64 = 5.0;
const SILENT_MAX: f64 = 60.0;

/// The link in a tick.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct OverflowingLink {
    /// Data were lost in this tick; and they are the first in a while, which nothing that members
    /// have just done explains.
    pub(super) lost: bool,
    pub(super) unexplained: bool,
    pub(super) load: LinkLoad,
    /// The other direction may have a queue, which RTTs contain.
    pub(super) other_way: bool,
    /// The most that it carried without a loss, and its rate.
    pub(super) proven: f64,
    pub(super) rate: f64,
}

/// What the witness is doing.
#[derive(Clone, Copy, PartialEq, Debug)]
enum OverflowState {
    /// No loss that has to be explained.
    Watches,
    /// Members have the smallest windows; for this many seconds the buffer was not in use.
    Away { unused: f64 },
    /// They send nothing for this many more seconds.
    Parked { left: f64 },
    /// Windows grow, for so many seconds; they are as large as is wanted for the last of them.
    Returns { past: f64, held: f64 },
}

/// The witness's state.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct OverflowWitness {
    state: OverflowState,
    /// Seconds without use of the buffer after which members return.
    gone_for: f64,
    /// What the link carried at the alarm, and the returns in vain since.
    before: f64,
    in_vain: u32,
    /// It keeps silent for this many seconds, after the last false alarm for so many in all.
    silent: f64,
    silence: f64,
    /// Seconds since a queue was seen.
    queueless: f64,
    /// The rate at which the link was found full, in bits per second.
    full_at: Option<f64>,
}

impl Default for OverflowWitness {
    fn default() -> Self {
        Self {
            state: OverflowState::Watches,
            gone_for: GONE_FOR,
            before: 0.0,
            in_vain: 0,
            silent: 0.0,
            silence: 0.0,
            queueless: f64::INFINITY,
            full_at: None,
        }
    }
}

impl OverflowWitness {
    /// Whether members yield to traffic that is not counted.
    pub(super) fn yields(&self) -> bool {
        self.state != OverflowState::Watches
    }

    /// Whether members send nothing.
    pub(super) fn parks(&self) -> bool {
        matches!(self.state, OverflowState::Parked { .. })
    }

    /// Whether windows grow, or will soon: steps are as short as ticks.
    pub(super) fn is_on_its_way(&self) -> bool {
        matches!(
            self.state,
            OverflowState::Parked { .. } | OverflowState::Returns { .. }
        )
    }

    /// The rate at which the link has just been found full.
    pub(super) fn take_full_at(&mut self) -> Option<f64> {
        self.full_at.take()
    }

    /// Takes a tick in and moves the ceilings of the connections.
    pub(super) fn watch<'a>(
        &mut self,
        flows: impl Iterator<Item = &'a mut FlowController>,
        link: OverflowingLink,
    ) {
        let mut flows: Vec<&mut FlowController> = flows.collect();
        self.silent = (self.silent - link.load.seconds).max(0.0);
        self.queueless = match flows.iter().any(|flow| queue_is_seen(flow)) {
            true => 0.0,
            false => self.queueless + link.load.seconds,
        };
        let link = OverflowingLink {
            lost: link.lost && self.queueless <= link.load.seconds + link.load.round_trip,
            ..link
        };
        let used = link.lost || flows.iter().any(|flow| is_in_use(flow, link.rate));
        self.state = match self.state {
            OverflowState::Watches if link.other_way => OverflowState::Watches,
            _ if link.other_way => is_back(&mut flows),
            OverflowState::Watches => self.listen(&mut flows, &link),
            OverflowState::Parked { left } if left > link.load.seconds => OverflowState::Parked {
                left: left - link.load.seconds,
            },
            OverflowState::Parked { .. } => OverflowState::Away { unused: 0.0 },
            OverflowState::Away { unused } if used && unused > link.load.round_trip => {
                leave(&mut flows, &link)
            }
            OverflowState::Away { .. } if used => OverflowState::Away { unused: 0.0 },
            OverflowState::Away { unused } => self.wait(&mut flows, unused + link.load.seconds, &link),
            OverflowState::Returns { past, held } => {
                self.come_back(&mut flows, (past + link.load.seconds, held), used, &link)
            }
        };
    }

    fn listen(&mut self, flows: &mut [&mut FlowController], link: &OverflowingLink) -> OverflowState {
        let below =
            link.load.recent.max(link.load.total) < BELOW * link.rate && link.proven >= PROVEN * link.rate;
        let shallow = |flow: &&mut FlowController| flow.queue() < (DEEP_FRACTION * flow.base_rtt()).max(DEEP);
        if !link.lost || !link.unexplained || !below || self.silent > 0.0 || !flows.iter().all(shallow) {
            return OverflowState::Watches;
        }
        (self.before, self.in_vain, self.gone_for) = (link.load.recent, 0, GONE_FOR);
        leave(flows, link)
    }

    fn wait(&self, flows: &mut [&mut FlowController], unused: f64, link: &OverflowingLink) -> OverflowState {
        // Connections that have begun meanwhile wait, too.
        keep_least(flows);
        match unused >= self.gone_for + GONE_RTTS * link.load.round_trip {
            true => OverflowState::Returns { past: 0.0, held: 0.0 },
            false => OverflowState::Away { unused },
        }
    }

    fn come_back(
        &mut self,
        flows: &mut [&mut FlowController],
        (past, held): (f64, f64),
        used: bool,
        link: &OverflowingLink,
    ) -> OverflowState {
        if link.load.recent >= PROVEN * link.rate {
            return self.is_over(flows);
        }
        let allowed = |flow: &&mut FlowController| flow.ceiling.min(flow.wanted) * 8.0 / flow.base_rtt();
        let allowed: f64 = flows.iter().map(allowed).sum();
        let settled = held > HELD_FOR + HELD_RTTS * link.load.round_trip;
        // A queue that members may make themselves tells nothing until what they carry is known.
        let tells = settled || held == 0.0 && allowed < BELOW * link.rate;
        let patient = (self.in_vain + 1).is_multiple_of(PATIENT_EACH);
        let over = past > PATIENT_FOR + PATIENT_RTTS * link.load.round_trip;
        match patient {
            true if over || settled => return self.decide(flows, used, link),
            false if link.lost || used && tells => return self.go_again(flows, link),
            _ => {}
        }
        for flow in flows.iter_mut().filter(|flow| flow.ceiling.is_finite()) {
            let most = (flow.wanted / STEPS).max(STEP_MIN * flow.mss);
            let step = (GROWTH * flow.ceiling).min(most) * (link.load.seconds / flow.latest_rtt()).min(1.0);
            flow.ceiling = (flow.ceiling + step).min(flow.wanted.max(LEAST * flow.mss));
        }
        match flows.iter().any(|flow| flow.ceiling < flow.wanted) {
            true => OverflowState::Returns { past, held: 0.0 },
            false if settled => self.is_over(flows),
            false => OverflowState::Returns {
                past,
                held: held + link.load.seconds,
            },
        }
    }

    /// They are back, and were not sent away again.
    fn is_over(&mut self, flows: &mut [&mut FlowController]) -> OverflowState {
        self.silence = match self.in_vain {
            0 => (2.0 * self.silence).clamp(SILENT, SILENT_MAX),
            _ => 0.0,
        };
        self.silent = self.silence;
        is_back(flows)
    }

    /// They returned in vain.
    fn go_again(&mut self, flows: &mut [&mut FlowController], link: &OverflowingLink) -> OverflowState {
        self.gone_for = (2.0 * self.gone_for).min(GONE_MAX);
        self.in_vain += 1;
        leave(flows, link)
    }

    /// They have competed for a while: those that want more have left them little.
    fn decide(
        &mut self,
        flows: &mut [&mut FlowController],
        used: bool,
        link: &OverflowingLink,
    ) -> OverflowState {
        if link.load.recent < AS_BEFORE * self.before {
            return self.go_again(flows, link);
        }
        self.full_at = used.then_some(link.load.recent);
        is_back(flows)
    }
}

/// Whether this connection sees a queue, its own or not.
fn queue_is_seen(flow: &FlowController) -> bool {
    flow.latest_rtt() - flow.base_rtt() > IN_USE.max(IN_USE_FRACTION * flow.base_rtt())
}

/// Whether this connection sees the buffer in use by others.
fn is_in_use(flow: &FlowController, rate: f64) -> bool {
    let at_once = (flow.window / 2.0).clamp(AT_ONCE * flow.mss, AT_ONCE_MAX * flow.mss) * 8.0 / rate;
    queue_is_seen(flow) && flow.latest_rtt() - flow.base_rtt() > at_once
}

/// What the smallest windows carry.
fn least_rate(flows: &[&mut FlowController]) -> f64 {
    flows.iter().map(|flow| flow.min_window_rate()).sum()
}

fn keep_least(flows: &mut [&mut FlowController]) {
    flows.iter_mut().for_each(|flow| flow.ceiling = LEAST * flow.mss);
}

fn leave(flows: &mut [&mut FlowController], link: &OverflowingLink) -> OverflowState {
    keep_least(flows);
    match least_rate(flows) > MUCH * link.rate {
        true => OverflowState::Parked { left: PARKED_FOR },
        false => OverflowState::Away { unused: 0.0 },
    }
}

fn is_back(flows: &mut [&mut FlowController]) -> OverflowState {
    flows.iter_mut().for_each(|flow| flow.lift_ceiling());
    OverflowState::Watches
}
