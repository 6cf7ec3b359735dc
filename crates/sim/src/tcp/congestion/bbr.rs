//! BBR, version 1 (Cardwell and others, 2016; as Linux has it): a model of the path, not a response to loss.
//!
//! The model is the highest delivery rate of ten rounds and the least round-trip time of ten seconds. Segments are paced at
//! the rate times a gain, and twice the product of both may be in flight. **Startup** doubles the rate each round until it
//! grows by less than a quarter in three rounds; **Drain** empties the queue that this made; **`ProbeBW`** tries 1.25 times
//! the rate for a round-trip time in eight, and then 0.75; **`ProbeRTT`** goes down to four segments for 200 ms when the least
//! round-trip time was not seen for ten seconds.
//!
//! A loss sets the window to what is in flight for a round, and a mark changes nothing, as in that version. Left out:
//! the detection of policers, and allowances for aggregated answers. Linux begins `ProbeBW` in a random phase; here it
//! follows from the time, so that runs repeat and flows still differ.

use super::{Ack, Congestion, Signal, Start};
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// 2 / ln 2: the least gain that doubles the rate each round.
const HIGH_GAIN: f64 = 2.885;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const WINDOW_GAIN: f64 = 2.0;
/// So many rounds' highest rate is believed.
const ROUNDS: usize = 10;
const RTT_FOR: Duration = Duration::from_secs(10);
const PROBE_RTT: Duration = Duration::from_millis(200);
/// Segments that keep the acknowledgments coming.
const LEAST: u64 = 4;
/// A hundredth less than the model's rate, so that queues shrink.
const MARGIN: f64 = 0.99;

/// What BBR is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Doubling the rate each round.
    Startup,
    /// Emptying the queue that this made.
    Drain,
    /// Keeping the rate, trying for more now and then.
    ProbeBandwidth,
    /// Almost silent, to see the path without a queue.
    ProbeRtt,
}

/// BBR's model and state.
#[derive(Clone, Debug)]
pub struct Bbr {
    mode: Mode,
    segment: u64,
    initial: u64,
    window: u64,
    /// The window before recovery or `ProbeRTT`.
    former: u64,
    /// The highest rate of each of the last rounds, in bytes a second.
    rates: [u64; ROUNDS],
    highest: u64,
    round: usize,
    round_until: u64,
    /// Bytes delivered in all.
    delivered: u64,
    /// The highest rate that began another three rounds of patience, and how many are over.
    full_rate: u64,
    full_rounds: u32,
    full: bool,
    least: Duration,
    least_at: Instant,
    phase: usize,
    phase_began: Instant,
    lost: bool,
    /// In recovery: the window follows what is in flight until this round is over.
    conserves: bool,
    recovers: bool,
    probe_ends: Option<Instant>,
    pacing: u64,
}

impl Bbr {
    /// At the start of a connection.
    pub fn new(start: &Start) -> Self {
        let window = start.segment * u64::from(start.window);
        let rtt = start.rtt.unwrap_or(Duration::from_millis(1));
        let rate = Bandwidth::of(Bytes::new(window), rtt).bits() / 8;
        Self {
            mode: Mode::Startup,
            segment: start.segment,
            initial: window,
            window,
            former: 0,
            rates: [0; ROUNDS],
            highest: 0,
            round: 0,
            round_until: 0,
            delivered: 0,
            full_rate: 0,
            full_rounds: 0,
            full: false,
            least: start.rtt.unwrap_or(Duration::from_nanos(u64::MAX)),
            least_at: start.now,
            phase: 0,
            phase_began: start.now,
            lost: false,
            conserves: false,
            recovers: false,
            probe_ends: None,
            pacing: (rate as f64 * HIGH_GAIN) as u64,
        }
    }

    /// What it is doing.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    fn gains(&self) -> (f64, f64) {
        match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (1.0 / HIGH_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth => (CYCLE[self.phase], WINDOW_GAIN),
            Mode::ProbeRtt => (1.0, 1.0),
        }
    }

    /// So many times what the path holds without a queue, in bytes.
    fn holds(&self, gain: f64) -> u64 {
        if self.least.nanos() == u64::MAX || self.highest == 0 {
            return (self.initial as f64 * gain) as u64;
        }
        (self.highest as f64 * self.least.as_secs_f64() * gain) as u64
    }

    /// Takes the sample into the model; whether a round began.
    fn learn(&mut self, ack: &Ack) -> bool {
        let Some(rate) = ack.rate else {
            return false;
        };
        self.delivered = rate.total;
        let begins = rate.before >= self.round_until;
        if begins {
            self.round_until = rate.total;
            self.round = (self.round + 1) % ROUNDS;
            self.rates[self.round] = 0;
            self.conserves = false;
        }
        // A shorter time than the least round trip is an artefact of bunched answers.
        let per_second = if rate.interval >= self.least.min(rate.rtt) {
            Bandwidth::of(Bytes::new(rate.delivered), rate.interval).bits() / 8
        } else {
            0
        };
        if !rate.limited || per_second >= self.highest {
            self.rates[self.round] = self.rates[self.round].max(per_second);
        }
        if begins {
            self.highest = self.rates.iter().copied().max().unwrap_or(0);
        } else {
            self.highest = self.highest.max(self.rates[self.round]);
        }
        if begins && !self.full && !rate.limited {
            if self.highest as f64 >= self.full_rate as f64 * 1.25 {
                (self.full_rate, self.full_rounds) = (self.highest, 0);
            } else {
                self.full_rounds += 1;
                self.full = self.full_rounds >= 3;
            }
        }
        begins
    }

    fn enter_probe_bandwidth(&mut self, now: Instant) {
        self.mode = Mode::ProbeBandwidth;
        // Any phase but the one that drains, which would follow a probe.
        let draw = Seed(now.nanos()).stream().below(CYCLE.len() as u64 - 1) as usize;
        self.phase = if draw == 0 { 0 } else { draw + 1 };
        self.phase_began = now;
    }

    fn advance(&mut self, ack: &Ack) {
        match self.mode {
            Mode::Startup if self.full => self.mode = Mode::Drain,
            Mode::ProbeBandwidth => {
                let over = ack.now.since(self.phase_began) > self.least;
                let gain = CYCLE[self.phase];
                let next = if gain > 1.0 {
                    over && (self.lost || ack.before >= self.holds(gain))
                } else if gain < 1.0 {
                    over || ack.before <= self.holds(1.0)
                } else {
                    over
                };
                if next {
                    self.phase = (self.phase + 1) % CYCLE.len();
                    self.phase_began = ack.now;
                    self.lost = false;
                }
            }
            _ => {}
        }
        if self.mode == Mode::Drain && ack.pipe <= self.holds(1.0) {
            self.enter_probe_bandwidth(ack.now);
        }
    }

    fn watch_rtt(&mut self, ack: &Ack, round_began: bool) {
        let expired = ack.now.since(self.least_at) > RTT_FOR;
        if let Some(rtt) = ack.rate.map(|rate| rate.rtt)
            && (rtt <= self.least || expired)
        {
            (self.least, self.least_at) = (rtt, ack.now);
        }
        if expired && self.mode != Mode::ProbeRtt {
            self.former = self.former.max(self.window);
            self.mode = Mode::ProbeRtt;
            self.probe_ends = None;
            return;
        }
        if self.mode != Mode::ProbeRtt {
            return;
        }
        match self.probe_ends {
            None if ack.pipe <= LEAST * self.segment => {
                self.probe_ends = Some(ack.now + PROBE_RTT.max(self.least));
            }
            Some(end) if ack.now >= end && round_began => {
                self.least_at = ack.now;
                self.window = self.window.max(std::mem::take(&mut self.former));
                if self.full {
                    self.enter_probe_bandwidth(ack.now);
                } else {
                    self.mode = Mode::Startup;
                }
            }
            _ => {}
        }
    }

    fn set_window(&mut self, ack: &Ack, gain: f64) {
        let least = LEAST * self.segment;
        // Three segments more, so that delayed answers do not stop a small flow.
        let target = self.holds(gain) + 3 * self.segment;
        if self.conserves {
            self.window = self.window.max(ack.pipe + ack.delivered);
        } else if self.full {
            self.window = (self.window + ack.delivered).min(target);
        } else if self.window < target || ack.first < self.initial {
            self.window += ack.delivered;
        }
        self.window = self.window.max(least);
        if self.mode == Mode::ProbeRtt {
            self.window = least;
        }
    }
}

impl Congestion for Bbr {
    fn on_ack(&mut self, ack: &Ack) {
        let round_began = self.learn(ack);
        self.advance(ack);
        self.watch_rtt(ack, round_began);
        let (pacing, window) = self.gains();
        if self.highest > 0 {
            let rate = (self.highest as f64 * pacing * MARGIN) as u64;
            // In startup, samples of a path not yet full must not slow it down.
            self.pacing = if self.full { rate } else { self.pacing.max(rate) };
        }
        self.set_window(ack, window);
    }

    fn on_loss(&mut self, signal: &Signal) {
        self.lost = true;
        if !self.recovers {
            self.former = self.former.max(self.window);
        }
        self.recovers = true;
        self.conserves = true;
        self.round_until = self.delivered;
        self.window = signal.pipe.max(self.segment);
    }

    fn on_timeout(&mut self, signal: &Signal) {
        self.on_loss(signal);
        self.conserves = false;
        self.full_rate = 0;
        self.full_rounds = 0;
        self.window = self.segment;
    }

    /// Marks are no sign of the path's rate.
    fn on_ecn(&mut self, _signal: &Signal) {}

    fn on_recovered(&mut self, _now: Instant) {
        if std::mem::take(&mut self.recovers) && self.mode != Mode::ProbeRtt {
            self.window = self.window.max(std::mem::take(&mut self.former));
        }
        self.conserves = false;
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<Bandwidth> {
        Some(Bandwidth::bits_per_sec(self.pacing.max(1).saturating_mul(8)))
    }

    fn starting(&self) -> bool {
        self.mode == Mode::Startup
    }

    fn governs_recovery(&self) -> bool {
        true
    }

    fn measures_rate(&self) -> bool {
        true
    }
}
