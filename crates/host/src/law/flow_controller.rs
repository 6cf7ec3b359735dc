//! The controller of one connection: its minimum RTT, its measured demand, its window.

use crate::tick::{DataDirection, FlowSample};
use engine::units::{Bandwidth, Bytes};

/// The RTT assumed before the first measurement, in seconds.
const UNKNOWN_RTT: f64 = 0.1;
/// The smallest window of a connection that is not parked, in segments. With one segment, every
/// ACK would be delayed; below one, the sender falls back on its persist timer.
pub const LEAST: f64 = 2.0;
/// The window of a connection that leaves parking: the initial window of RFC 6928.
const RESTART: f64 = 10.0;
/// A connection must use clearly less than its target for this many seconds before the others get
/// the difference.
const DEMAND_TIME: f64 = 0.5;
/// Below this fraction of its target a connection does not use it.
const USED: f64 = 0.8;
/// Its demand is then this multiple of what it uses.
const DEMAND_ROOM: f64 = 1.3;
/// From this fraction of its window in flight on, a connection may be limited by the window.
const FILLS: f64 = 0.6;
/// From this fraction on, nothing but the window limits it.
const WINDOW_LIMITED: f64 = 0.7;
/// The exponent with which the correction follows the measured ratio, in an
/// [`INTERVAL`](super::INTERVAL).
const CORRECTION_GAIN: f64 = 0.2;
const CORRECTION_MIN: f64 = 0.3;
const CORRECTION_MAX: f64 = 3.0;
/// The weight of the last [`INTERVAL`](super::INTERVAL) in the mean rate.
const MEAN_WEIGHT: f64 = 0.3;

/// A time in usual intervals.
pub(super) fn intervals(seconds: f64) -> f64 {
    seconds / super::INTERVAL.as_secs_f64()
}

/// A window as this scale can express it. It is rounded up: a window below a segment almost stops
/// the sender.
pub fn round_up(bytes: f64, scale: u8) -> Bytes {
    let unit = 1_u64 << scale.min(14);
    let whole = bytes.clamp(1.0, 1e12).ceil() as u64;
    Bytes::new(whole.div_ceil(unit) * unit)
}

/// The state of one connection.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct FlowController {
    /// The minimum and the present RTT, in seconds.
    pub(super) min_rtt: f64,
    pub(super) rtt: f64,
    pub(super) mss: f64,
    scale: u8,
    /// The rate of the last tick, and the mean over some ticks, in bits per second.
    pub(super) rate: f64,
    pub(super) mean: f64,
    /// The rate that it can use; infinite until it was seen to use less than its target.
    pub(super) demand: f64,
    /// Seconds for which it has used less than its target.
    below_target: f64,
    /// The window in bytes.
    pub(super) window: f64,
    /// The factor on rate times RTT that makes the window yield the rate.
    correction: f64,
    /// Bits that it is owed by the turns.
    pub(super) credit: f64,
    /// It waits for its turn.
    pub(super) parked: bool,
    /// It is its turn.
    pub(super) turn: bool,
}

impl FlowController {
    pub(super) fn new(sample: &FlowSample) -> Self {
        let rtt = sample.rtt.map_or(UNKNOWN_RTT, |rtt| rtt.as_secs_f64());
        Self {
            min_rtt: f64::INFINITY,
            rtt,
            mss: 1_448.0,
            scale: 0,
            rate: 0.0,
            mean: 0.0,
            demand: f64::INFINITY,
            below_target: 0.0,
            window: (sample.window.get() as f64).max(RESTART * 1_448.0),
            correction: 1.0,
            credit: 0.0,
            parked: false,
            turn: false,
        }
    }

    /// Takes a sample in.
    pub(super) fn update(&mut self, sample: &FlowSample, rate: f64, seconds: f64) {
        if let Some(min_rtt) = sample.min_rtt {
            self.min_rtt = self.min_rtt.min(min_rtt.as_secs_f64().max(1e-4));
        }
        if let Some(rtt) = sample.rtt {
            self.rtt = rtt.as_secs_f64().clamp(1e-4, 10.0);
            self.min_rtt = self.min_rtt.min(self.rtt);
        }
        self.mss = (sample.mss.get() as f64).clamp(256.0, 65_000.0);
        self.scale = sample.scale;
        self.rate = rate;
        self.mean += (rate - self.mean) * (1.0 - (1.0 - MEAN_WEIGHT).powf(intervals(seconds)));
    }

    /// The minimum RTT, or a guess.
    pub(super) fn base_rtt(&self) -> f64 {
        if self.min_rtt.is_finite() {
            self.min_rtt
        } else {
            UNKNOWN_RTT
        }
    }

    /// Whether its RTT shows a standing queue.
    pub(super) fn is_queued(&self) -> bool {
        self.min_rtt.is_finite() && self.rtt > self.min_rtt * 1.25 + 0.002
    }

    /// The rate that a window of [`LEAST`] segments yields without a queue. It uses the minimum
    /// RTT: a queue that members fill themselves must not make their shares look large enough for
    /// windows.
    pub(super) fn min_window_rate(&self) -> f64 {
        LEAST * self.mss * 8.0 / self.base_rtt()
    }

    /// The fraction of its window that is in flight.
    fn fill(&self) -> f64 {
        self.mean * self.rtt / 8.0 / self.window
    }

    /// Whether it uses its window.
    pub(super) fn fills_window(&self) -> bool {
        self.fill() >= FILLS
    }

    /// Whether its window limits it, and not its application or its sender's cwnd.
    pub(super) fn is_window_limited(&self) -> bool {
        self.fill() >= WINDOW_LIMITED
    }

    /// Compares what it used with its target. One that fills its window could use more.
    pub(super) fn judge_demand(&mut self, target: f64, seconds: f64) {
        let uses = self.mean >= USED * target || self.fills_window();
        if self.parked || uses || target <= 1.5 * self.min_window_rate() {
            (self.below_target, self.demand) = (0.0, f64::INFINITY);
            return;
        }
        self.below_target += seconds;
        if self.below_target >= DEMAND_TIME {
            self.demand = (DEMAND_ROOM * self.mean).max(2.0 * self.min_window_rate());
        }
    }

    /// Moves the correction towards the ratio of target and measurement.
    pub(super) fn correct(&mut self, measured: f64, target: f64, seconds: f64) {
        // A larger window is no help to a connection that does not fill its window.
        let helps = measured > target || self.fills_window();
        if measured > 0.0 && target > 0.0 && helps && self.demand.is_infinite() && !self.parked {
            self.correction = (self.correction
                * (target / measured)
                    .clamp(0.25, 4.0)
                    .powf(CORRECTION_GAIN * intervals(seconds).min(2.0)))
            .clamp(CORRECTION_MIN, CORRECTION_MAX);
        }
    }

    /// The correction.
    pub(super) fn correction(&self) -> f64 {
        self.correction
    }

    /// Forgets the correction.
    pub(super) fn reset_correction(&mut self) {
        self.correction = 1.0;
    }

    /// Moves the window to that of this rate over this RTT, plus `extra` segments: down at once, up
    /// at most twofold in an RTT, since the burst of a whole new window would be dropped.
    pub(super) fn steer(&mut self, rate: f64, rtt: f64, extra: f64, seconds: f64) {
        let wanted = self.correction * rate * rtt / 8.0 + extra * self.mss;
        let wanted = wanted.max(LEAST * self.mss);
        let from = if self.parked {
            self.window.min(RESTART * self.mss)
        } else {
            self.window
        };
        let raise = (seconds / self.rtt).min(2.0).exp2();
        self.window = wanted.min((from * raise).max(LEAST * self.mss));
        self.parked = false;
    }

    /// Makes it wait for its turn.
    pub(super) fn park(&mut self) {
        self.parked = true;
        self.window = LEAST * self.mss;
    }

    /// The window as its scale can express it.
    pub(super) fn window(&self) -> Bytes {
        round_up(self.window, self.scale)
    }
}

/// A pacing rate: at least one segment a second.
pub(super) fn pace(rate: f64) -> Bandwidth {
    Bandwidth::bits_per_sec(rate.clamp(12_000.0, 1e15) as u64)
}

/// Whether small shares are served in turns. Uploads can be paced at any rate.
pub(super) fn takes_turns(direction: DataDirection) -> bool {
    direction == DataDirection::Download
}
