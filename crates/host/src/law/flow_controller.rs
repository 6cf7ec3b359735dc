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
/// Turns over RTTs up to this many seconds may be as short as an interval.
const QUICK: f64 = 0.010;
/// The exponent with which the correction follows the measured ratio, in an
/// [`INTERVAL`](super::INTERVAL).
const CORRECTION_GAIN: f64 = 0.2;
const CORRECTION_MIN: f64 = 0.3;
const CORRECTION_MAX: f64 = 3.0;
/// The weight of the last [`INTERVAL`](super::INTERVAL) in the mean rate.
const MEAN_WEIGHT: f64 = 0.3;
/// A queue that members fill themselves is seen from this fraction of the RTT without one on, with
/// this many seconds.
const QUEUE_FRACTION: f64 = 0.25;
const QUEUE_NOISE: f64 = 0.002;
/// RTTs that never fall to less than this many seconds above their minimum, or what a queue is seen
/// from, vary without a queue.
const JITTER: f64 = 0.008;
/// The queueing delay that needs no explanation: this many seconds, this fraction of the RTT
/// without a queue, or this multiple of what RTTs go to and fro, whatever is most.
const TOLERATED_MIN: f64 = 0.003;
const TOLERATED_FRACTION: f64 = 0.1;
const TOLERATED_SWINGS: f64 = 20.0;
/// A queue that is seen for no longer than this many seconds and an RTT is jitter, or a burst.
const CHANCE: f64 = 0.075;
/// The delay that a queue and jitter alike explain: this multiple of the variation of RTTs.
const JITTER_VARIATIONS: f64 = 8.0;
/// What a smoothed RTT keeps of the one before at each sample (as the kernel's, RFC 6298), and how
/// many segments bring one sample at most: those of one delayed ACK do, and those of a burst.
const KEPT_BY_SMOOTHING: f64 = 7.0 / 8.0;
const SEGMENTS_A_SAMPLE: f64 = 4.0;
/// An ACK waits at most this many seconds for a second segment (Linux; RFC 1122 allows 0.5 s).
const DELAYED_ACK: f64 = 0.04;
/// The time constant, in seconds, with which the usual RTT follows longer ones.
const USUAL_TIME: f64 = 100.0;
/// The weight of the last [`INTERVAL`](super::INTERVAL) in the variation and the swing of RTTs.
const VARIATION_WEIGHT: f64 = 0.1;

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
    direction: DataDirection,
    /// The minimum and the present RTT, in seconds.
    pub(super) min_rtt: f64,
    pub(super) rtt: f64,
    /// The least of the latest RTTs, which are smoothed: jitter is in it, a queue is not.
    usual_rtt: f64,
    /// The RTT at this moment, in seconds: without what smoothing keeps of the ones before.
    latest: f64,
    /// The mean change of the RTT from tick to tick, in seconds.
    variation: f64,
    /// The last change of the RTT, and the mean of what is taken back by the next one: jitter goes
    /// to and fro, a queue grows and drains. In seconds.
    change: f64,
    swing: f64,
    /// What the queue of the other direction adds to RTTs, in seconds.
    other_way: f64,
    /// Seconds for which a queue stands that nothing explains, for which one is seen, and since one
    /// was last seen for longer than [`CHANCE`].
    pub(super) queued_for: f64,
    seen_for: f64,
    pub(super) unqueued_for: f64,
    /// Seconds for which the delay law's target has been exceeded, and for which there has been
    /// little delay.
    pub(super) above_target_for: f64,
    pub(super) little_delay_for: f64,
    pub(super) mss: f64,
    scale: u8,
    /// The rate of the last tick, and the mean over some ticks, in bits per second.
    pub(super) rate: f64,
    pub(super) mean: f64,
    /// The rate that it can use; infinite until it was seen to use less than its target.
    pub(super) demand: f64,
    /// Seconds for which it has used less than its target.
    below_target: f64,
    /// The window in bytes, the one that the law wants, and the largest that a queue allows.
    pub(super) window: f64,
    pub(super) wanted: f64,
    pub(super) ceiling: f64,
    /// The factor on rate times RTT that makes the window yield the rate.
    correction: f64,
    /// The total of its losses, once sampled, and whether the last sample had more.
    losses: Option<u64>,
    pub(super) lost: bool,
    /// Bits that it is owed by the turns.
    pub(super) credit: f64,
    /// It waits for its turn.
    pub(super) parked: bool,
    /// It is its turn.
    pub(super) turn: bool,
}

impl FlowController {
    /// For a law of this direction.
    pub(super) fn new(sample: &FlowSample, direction: DataDirection) -> Self {
        let rtt = sample.rtt.map_or(UNKNOWN_RTT, |rtt| rtt.as_secs_f64());
        Self {
            direction,
            min_rtt: f64::INFINITY,
            rtt,
            usual_rtt: f64::INFINITY,
            latest: rtt,
            variation: 0.0,
            change: 0.0,
            swing: 0.0,
            other_way: 0.0,
            queued_for: 0.0,
            seen_for: 0.0,
            unqueued_for: 0.0,
            above_target_for: 0.0,
            little_delay_for: 0.0,
            mss: 1_448.0,
            scale: 0,
            rate: 0.0,
            mean: 0.0,
            demand: f64::INFINITY,
            below_target: 0.0,
            window: (sample.window.get() as f64).max(RESTART * 1_448.0),
            wanted: 0.0,
            ceiling: f64::INFINITY,
            correction: 1.0,
            losses: None,
            lost: false,
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
            self.take_rtt(rtt.as_secs_f64().clamp(1e-4, 10.0), rate, seconds);
        }
        self.lost = self.losses.is_some_and(|before| sample.losses > before);
        self.losses = Some(sample.losses);
        self.mss = (sample.mss.get() as f64).clamp(256.0, 65_000.0);
        self.scale = sample.scale;
        self.rate = rate;
        self.mean += (rate - self.mean) * (1.0 - (1.0 - MEAN_WEIGHT).powf(intervals(seconds)));
    }

    /// Takes a smoothed RTT in, over a tick of so many seconds with this rate.
    fn take_rtt(&mut self, rtt: f64, rate: f64, seconds: f64) {
        let before = std::mem::replace(&mut self.rtt, rtt);
        let change = rtt - before;
        if change != 0.0 {
            let samples = (rate * seconds / 8.0 / self.mss / SEGMENTS_A_SAMPLE).max(1.0);
            let unsmoothed = before + change / (1.0 - KEPT_BY_SMOOTHING.powf(samples));
            self.latest = unsmoothed.max(self.min_rtt.min(rtt));
        }
        let drift = (seconds / USUAL_TIME).min(1.0);
        self.usual_rtt = match self.usual_rtt.is_finite() {
            true => rtt.min(self.usual_rtt + (rtt - self.usual_rtt) * drift),
            false => rtt,
        };
        if self.min_rtt.is_finite() {
            let weight = 1.0 - (1.0 - VARIATION_WEIGHT).powf(intervals(seconds));
            self.variation += (change.abs() - self.variation) * weight;
            if change != 0.0 {
                let taken_back = match (change > 0.0) == (self.change > 0.0) {
                    true => 0.0,
                    false => change.abs().min(self.change.abs()),
                };
                self.swing += (taken_back - self.swing) * weight;
                self.change = change;
            }
        }
        self.min_rtt = self.min_rtt.min(rtt);
    }

    /// The RTT without a queue of this direction: the minimum, or a guess, with what the other
    /// direction adds.
    pub(super) fn base_rtt(&self) -> f64 {
        self.least_rtt() + self.other_way
    }

    /// The minimum RTT, or a guess.
    fn least_rtt(&self) -> f64 {
        if self.min_rtt.is_finite() {
            self.min_rtt
        } else {
            UNKNOWN_RTT
        }
    }

    /// How long ACKs of an upload wait for its next segment, in seconds: it may send slowly, and
    /// every second segment is acknowledged.
    fn ack_wait(&self) -> f64 {
        match self.direction {
            DataDirection::Download => 0.0,
            DataDirection::Upload => (self.mss * 8.0 / self.mean.max(1.0)).min(DELAYED_ACK),
        }
    }

    /// The RTT without a queue: the minimum, or the usual one where that is much longer, since RTTs
    /// vary without a queue too.
    fn unqueued_rtt(&self) -> f64 {
        self.usually() + self.other_way + self.ack_wait()
    }

    /// The same without the other direction's.
    fn usually(&self) -> f64 {
        let least = self.least_rtt();
        match self.usual_rtt - least > (QUEUE_FRACTION * least + QUEUE_NOISE).min(JITTER) {
            true => self.usual_rtt,
            false => least.min(self.usual_rtt),
        }
    }

    /// Takes what RTTs have in addition for the queue of the other direction: all of it while it
    /// may grow there, as much of it as before while it may stand there, and nothing otherwise.
    pub(super) fn excuse(&mut self, may_grow: bool, may_stand: bool) {
        let more = match self.usual_rtt.is_finite() {
            true => (self.rtt - self.usually()).max(0.0),
            false => 0.0,
        };
        self.other_way = match (may_grow, may_stand) {
            (true, _) => more,
            (false, true) => self.other_way.min(more),
            (false, false) => 0.0,
        };
    }

    /// The RTT without what the other direction adds, in seconds.
    pub(super) fn rtt_of_this_way(&self) -> f64 {
        self.rtt - self.other_way
    }

    /// The queueing delay in seconds.
    pub(super) fn queue(&self) -> f64 {
        match self.usual_rtt.is_finite() {
            true => (self.rtt - self.unqueued_rtt()).max(0.0),
            false => 0.0,
        }
    }

    /// Whether its RTT may show a standing queue: jitter is not excluded.
    pub(super) fn may_be_queued(&self) -> bool {
        self.min_rtt.is_finite()
            && self.rtt_of_this_way() - self.ack_wait() > self.min_rtt * (1.0 + QUEUE_FRACTION) + QUEUE_NOISE
    }

    /// Whether its RTT shows a standing queue.
    pub(super) fn is_queued(&self) -> bool {
        self.queue() > (QUEUE_FRACTION * self.unqueued_rtt() + QUEUE_NOISE).max(self.jitter())
    }

    /// The delay that the variation of RTTs explains.
    pub(super) fn jitter(&self) -> f64 {
        JITTER_VARIATIONS * self.variation
    }

    /// The queueing delay that needs no explanation, in seconds.
    fn tolerated_queue(&self) -> f64 {
        (TOLERATED_FRACTION * self.unqueued_rtt())
            .max(TOLERATED_MIN)
            .max(TOLERATED_SWINGS * self.swing)
    }

    /// Whether its RTT exceeds what needs no explanation.
    pub(super) fn is_delayed(&self) -> bool {
        self.queue() > self.tolerated_queue()
    }

    /// The RTT at this moment, and no less than that without a queue, in seconds.
    pub(super) fn latest_rtt(&self) -> f64 {
        (self.latest - self.ack_wait()).max(self.base_rtt())
    }

    /// Counts for how long a queue stands that nothing explains, or is absent. Beside counted
    /// traffic, short queues are its bursts.
    pub(super) fn watch_queue(&mut self, explained: bool, beside_others: bool, seconds: f64) {
        // Jitter is in the usual RTT as in the present one, which are both smoothed.
        let tolerated = self.tolerated_queue();
        let has_gone = self.latest - self.unqueued_rtt() < tolerated
            || self.rtt_of_this_way() - self.usual_rtt < tolerated;
        let queued = self.is_delayed() && !has_gone && (self.is_queued() || !beside_others);
        self.seen_for = if queued { self.seen_for + seconds } else { 0.0 };
        self.unqueued_for = match self.seen_for > CHANCE + self.base_rtt() {
            true => 0.0,
            false => self.unqueued_for + seconds,
        };
        self.queued_for = if queued && !explained {
            self.queued_for + seconds
        } else {
            0.0
        };
    }

    /// No queue limits its window.
    pub(super) fn lift_ceiling(&mut self) {
        (self.ceiling, self.queued_for) = (f64::INFINITY, 0.0);
    }

    /// The queueing delay in microseconds.
    pub(super) fn queue_us(&self) -> u32 {
        (self.queue() * 1e6) as u32
    }

    /// What is in flight, in bytes, once the queue has shrunk to half of what is tolerated, if
    /// members fill it alone.
    pub(super) fn in_flight_with_less_queue(&self) -> f64 {
        self.mean / 8.0 * (self.unqueued_rtt() + self.tolerated_queue() / 2.0).min(self.rtt)
    }

    /// The rate that the ceiling allows. It falls as a queue grows, as that of a window does, so
    /// that whoever fills the queue gets the room.
    pub(super) fn ceiling_rate(&self) -> f64 {
        self.ceiling * 8.0 / self.latest_rtt()
    }

    /// The rate that a window of [`LEAST`] segments yields without a queue. It uses the minimum
    /// RTT: a queue that members fill themselves must not make their shares look large enough for
    /// windows.
    pub(super) fn min_window_rate(&self) -> f64 {
        LEAST * self.mss * 8.0 / self.base_rtt()
    }

    /// Whether an interval of the law is a turn of many round trips: then its turn ends when its
    /// credit does.
    pub(super) fn is_quick(&self) -> bool {
        self.base_rtt() <= QUICK
    }

    /// The fraction of its window that is in flight.
    fn fill(&self) -> f64 {
        self.mean * self.rtt / 8.0 / self.window
    }

    /// Whether it uses its window.
    pub(super) fn fills_window(&self) -> bool {
        self.fill() >= FILLS
    }

    /// Whether its window limits it, and not its application or its sender's cwnd. A sender holds
    /// back what is less than a segment: of four segments and a part, four can be in flight.
    pub(super) fn is_window_limited(&self) -> bool {
        let segments = (self.window / self.mss).max(1.0);
        self.fill() * segments / segments.floor() >= WINDOW_LIMITED
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
        // The present RTT may be of a queue that has gone.
        let raise = (seconds / self.rtt.min(self.base_rtt())).min(2.0).exp2();
        self.wanted = wanted;
        self.window = wanted.min(self.ceiling).min((from * raise).max(LEAST * self.mss));
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
