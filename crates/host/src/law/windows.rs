//! One connection as the modern law steers it: its shortest round trip, what it was seen to use, its window, its turn.

use crate::reading::{Direction, FlowReading};
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// Where no round trip was measured yet, in seconds.
const UNKNOWN_RTT: f64 = 0.1;
/// The least window of a connection that is not parked, in segments: with one, every acknowledgment would wait for the delay of
/// acknowledgments, and below one the sender falls back on its persist timer.
pub(super) const LEAST: f64 = 2.0;
/// A connection that comes back from its parking begins as a new one does (RFC 6928).
const RESTART: f64 = 10.0;
/// For so many seconds a connection must use clearly less than it is given before the others get it.
const PATIENCE: f64 = 0.5;
/// Below this part of what it is given it does not use it; and what it is given is then this much more than it uses.
const USES: f64 = 0.8;
const ROOM: f64 = 1.3;
/// From this part of its window in flight on, a connection may be held by it; from the second on nothing else holds it.
const FILLS: f64 = 0.6;
const HOLDS: f64 = 0.7;
/// How fast the correction of a window follows what was measured, in an [`INTERVAL`](super::INTERVAL), and how far.
const FOLLOW: f64 = 0.2;
const CORRECTION: (f64, f64) = (0.3, 3.0);
/// The weight of the last [`INTERVAL`](super::INTERVAL) in the mean that is followed.
const NEW: f64 = 0.3;

/// How many usual intervals these seconds are.
pub(super) fn intervals(seconds: f64) -> f64 {
    seconds / super::INTERVAL.as_secs_f64()
}

/// So many bytes as a window that this scale can express: rounded up, as a window below a segment all but stops a sender.
pub fn round_up(bytes: f64, scale: u8) -> Bytes {
    let unit = 1_u64 << scale.min(14);
    let whole = bytes.clamp(1.0, 1e12).ceil() as u64;
    Bytes::new(whole.div_ceil(unit) * unit)
}

/// The state of one connection.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Steered {
    /// Round trips in seconds: the shortest ever, and the present one.
    pub(super) shortest: f64,
    pub(super) rtt: f64,
    pub(super) mss: f64,
    scale: u8,
    /// What it carries: in the last tick, and a mean of some ticks, in bits per second.
    pub(super) rate: f64,
    pub(super) mean: f64,
    /// What it can use, as far as is known: infinite until it was seen to use less than given.
    pub(super) demand: f64,
    below: f64,
    /// The window in bytes.
    pub(super) window: f64,
    /// By how much the window must differ from rate times round trip for the rate to come about.
    correction: f64,
    /// Bits that it is owed by the turns, and whether it is waiting for its turn.
    pub(super) credit: f64,
    pub(super) parked: bool,
    turn: bool,
}

impl Steered {
    pub(super) fn new(reading: &FlowReading) -> Self {
        let rtt = reading.rtt.map_or(UNKNOWN_RTT, |rtt| rtt.as_secs_f64());
        Self {
            shortest: f64::INFINITY,
            rtt,
            mss: 1_448.0,
            scale: 0,
            rate: 0.0,
            mean: 0.0,
            demand: f64::INFINITY,
            below: 0.0,
            window: (reading.window.get() as f64).max(RESTART * 1_448.0),
            correction: 1.0,
            credit: 0.0,
            parked: false,
            turn: false,
        }
    }

    /// Takes a reading in.
    pub(super) fn see(&mut self, reading: &FlowReading, rate: f64, seconds: f64) {
        if let Some(shortest) = reading.shortest {
            self.shortest = self.shortest.min(shortest.as_secs_f64().max(1e-4));
        }
        if let Some(rtt) = reading.rtt {
            self.rtt = rtt.as_secs_f64().clamp(1e-4, 10.0);
            self.shortest = self.shortest.min(self.rtt);
        }
        self.mss = (reading.mss.get() as f64).clamp(256.0, 65_000.0);
        self.scale = reading.scale;
        self.rate = rate;
        self.mean += (rate - self.mean) * (1.0 - (1.0 - NEW).powf(intervals(seconds)));
    }

    /// The shortest round trip, or a guess.
    pub(super) fn base(&self) -> f64 {
        if self.shortest.is_finite() {
            self.shortest
        } else {
            UNKNOWN_RTT
        }
    }

    /// Whether its queueing delay shows that a queue stands.
    pub(super) fn queue_stands(&self) -> bool {
        self.shortest.is_finite() && self.rtt > self.shortest * 1.25 + 0.002
    }

    /// The least rate that a window of [`LEAST`] segments gives it without a queue. A queue that members fill themselves must not
    /// make their shares look large enough for windows.
    pub(super) fn unit(&self) -> f64 {
        LEAST * self.mss * 8.0 / self.base()
    }

    /// The part of its window that is on its way.
    fn fill(&self) -> f64 {
        self.mean * self.rtt / 8.0 / self.window
    }

    /// Whether it uses its window.
    pub(super) fn fills_window(&self) -> bool {
        self.fill() >= FILLS
    }

    /// Whether its window decides, and not what its sender has to send or may send after losses.
    pub(super) fn is_held(&self) -> bool {
        self.fill() >= HOLDS
    }

    /// Compares what it used with what it was given. One that fills its window could use more than that allows.
    pub(super) fn judge_demand(&mut self, given: f64, seconds: f64) {
        let uses = self.mean >= USES * given || self.fills_window();
        if self.parked || uses || given <= 1.5 * self.unit() {
            (self.below, self.demand) = (0.0, f64::INFINITY);
            return;
        }
        self.below += seconds;
        if self.below >= PATIENCE {
            self.demand = (ROOM * self.mean).max(2.0 * self.unit());
        }
    }

    /// Lets the correction follow: `is` what was measured, `should` what was meant.
    pub(super) fn correct(&mut self, is: f64, should: f64, seconds: f64) {
        // A larger window is no help to one that does not fill its window.
        let helps = is > should || self.fills_window();
        if is > 0.0 && should > 0.0 && helps && self.demand.is_infinite() && !self.parked {
            let (least, most) = CORRECTION;
            self.correction = (self.correction
                * (should / is)
                    .clamp(0.25, 4.0)
                    .powf(FOLLOW * intervals(seconds).min(2.0)))
            .clamp(least, most);
        }
    }

    /// The correction.
    pub(super) fn correction(&self) -> f64 {
        self.correction
    }

    /// Forgets the correction.
    pub(super) fn straighten(&mut self) {
        self.correction = 1.0;
    }

    /// Moves the window to that of this rate over this round trip and some segments more: down at once, up by no more than
    /// twice a round trip, as a burst of a whole new window would be lost.
    pub(super) fn steer(&mut self, rate: f64, rtt: f64, more: f64, seconds: f64) {
        let wanted = self.correction * rate * rtt / 8.0 + more * self.mss;
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

    /// Sends it to wait.
    pub(super) fn park(&mut self) {
        self.parked = true;
        self.window = LEAST * self.mss;
    }

    /// The window as its scale can express it.
    pub(super) fn window(&self) -> Bytes {
        round_up(self.window, self.scale)
    }
}

/// How long a turn of connections lasts of which only some can go at a time.
const TURN: Duration = Duration::from_millis(500);
/// What one can be owed, as so much time of a window of [`LEAST`] segments.
const OWED: f64 = 20.0;

/// Whose turn it is, where shares are below [`LEAST`] segments a round trip.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Turns {
    next: Instant,
}

impl Turns {
    /// Decides for each connection whether it goes. All with enough of a target do. Of the others as many do as their targets
    /// together carry, those first who are owed most; nobody who has had more than its share, unless nobody else goes and somebody has to.
    pub(super) fn go(
        &mut self,
        now: Instant,
        seconds: f64,
        flows: &mut [&mut Steered],
        targets: &[f64],
        weights: &[f64],
        somebody: bool,
    ) -> Vec<bool> {
        let small: Vec<usize> = (0..flows.len())
            .filter(|&i| targets[i] < flows[i].unit())
            .collect();
        let mut goes: Vec<bool> = (0..flows.len()).map(|i| !small.contains(&i)).collect();
        let sum = |what: &dyn Fn(usize) -> f64| small.iter().map(|&i| what(i)).sum::<f64>();
        let unit = sum(&|i| flows[i].unit()) / small.len().max(1) as f64;
        let (together, weight) = (sum(&|i| targets[i]), sum(&|i| weights[i]));
        let least = usize::from(somebody && small.len() == flows.len());
        let places = ((together / unit.max(1.0)).ceil() as usize).max(least);
        for &i in &small {
            let due = if least == 1 && together < unit {
                unit * weights[i] / weight
            } else {
                targets[i]
            };
            let unit = flows[i].unit();
            let credit = flows[i].credit + (due - flows[i].rate) * seconds;
            // It owes for its last turn, and not for what it had when nobody knew what it would do.
            flows[i].credit = credit.clamp(-TURN.as_secs_f64() * unit, OWED * unit);
        }
        if now >= self.next {
            self.next = now + TURN;
            small.iter().for_each(|&i| flows[i].turn = false);
        }
        // Within a turn those who go keep on; places that are new are filled at once.
        let mut order = small;
        order.sort_by(|&a, &b| {
            let (one, other) = (&flows[a], &flows[b]);
            other
                .turn
                .cmp(&one.turn)
                .then(other.credit.total_cmp(&one.credit))
                .then(a.cmp(&b))
        });
        for (n, i) in order.into_iter().enumerate() {
            flows[i].turn = n < least || (n < places && (flows[i].turn || flows[i].credit > 0.0));
            goes[i] = flows[i].turn;
        }
        goes
    }
}

/// The rate in bits per second that a direction's pacing is set to, at least one segment a second.
pub(super) fn pace(rate: f64) -> Bandwidth {
    Bandwidth::bits_per_sec(rate.clamp(12_000.0, 1e15) as u64)
}

/// The part of a claim that is about direction: uploads can be paced to any rate, and need not wait in turns.
pub(super) fn takes_turns(direction: Direction) -> bool {
    direction == Direction::Download
}
