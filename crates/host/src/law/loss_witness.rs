//! The fourth witness: data that were lost.
//!
//! A buffer on the way overflows where the link is full, also one so shallow that RTTs hardly show
//! its queue. So a loss tells the link's rate, if what the link carried was level before: within a
//! slow start, bursts overflow a shallow buffer at half of the rate. A lossy radio link that is not
//! full is taken for slower than it is, until a search finds that it carries more
//! (`window_cap`).

use super::flow_controller::FlowController;
use super::rate_meter::RateMeter;

/// The link's rate is level if that of the last RTT exceeds that of the last three by no more.
const LEVEL: f64 = 1.15;
const RTTS: f64 = 3.0;
/// Such an RTT is at least and at most so many seconds.
const SPAN_MIN: f64 = 0.05;
const SPAN_MAX: f64 = 0.15;

/// The witness's state.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct LossWitness {
    /// Seconds since data were last lost.
    since: f64,
    /// Losses go on, an RTT apart at most, and the rate was level when they began.
    losing: bool,
    level: bool,
}

impl Default for LossWitness {
    fn default() -> Self {
        Self {
            since: f64::INFINITY,
            losing: false,
            level: false,
        }
    }
}

impl LossWitness {
    /// Whether data were lost in this tick.
    pub(super) fn is_losing(&self) -> bool {
        self.since == 0.0
    }

    /// Takes a tick in, after `same` seconds in which connections neither began nor ended. The rate
    /// of the full link, if data were lost within the last RTT.
    pub(super) fn read<'a>(
        &mut self,
        flows: impl Iterator<Item = &'a FlowController>,
        meter: &RateMeter,
        same: f64,
        seconds: f64,
    ) -> Option<f64> {
        let (mut rtt, mut lost) = (0.0_f64, false);
        for flow in flows {
            (rtt, lost) = (rtt.max(flow.rtt), lost || flow.lost);
        }
        self.since = if lost { 0.0 } else { self.since + seconds };
        let span = rtt.clamp(SPAN_MIN, SPAN_MAX);
        let (last, before) = (meter.total(span), meter.total(RTTS * span));
        if lost && !self.losing {
            self.level = last <= LEVEL * before && same > RTTS * span;
        }
        self.losing = self.since <= rtt;
        (self.losing && self.level).then_some(last)
    }
}
