//! BBR version 1 as in Linux: the sender follows the delivery rate and not losses. It grows by a
//! quarter in one and a half round trips, so the time to regain a link depends on its last rate.
//!
//! Left out: ProbeRTT, and the reaction to losses.

use std::collections::VecDeque;

/// Rounds in the maximum filter of the delivery rate.
const FILTER_ROUNDS: u64 = 10;
/// The gain of Startup, which ends after three rounds of less than a quarter of growth.
const STARTUP_GAIN: f64 = 2.89;
/// The gain cycle of ProbeBW: eight phases of one minimum RTT each.
const CYCLE_GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// The pacing margin, so that a queue drains.
const PACING_MARGIN: f64 = 0.99;
/// The cwnd gain in BDPs.
const CWND_GAIN: f64 = 2.0;
/// Segments that Linux adds for aggregation, and more of them while it probes upwards.
const QUANTA: f64 = 6.0;
const PROBE_QUANTA: f64 = 2.0;

/// A segment in flight: its sending time; how many had been delivered by then, when the last of
/// them was, and when that one had been sent.
#[derive(Clone, Copy, Debug)]
struct Segment {
    at: u64,
    done: u64,
    done_at: u64,
    first: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mode {
    /// The highest rate so far, and the rounds without growth.
    Startup(f64, u32),
    Drain,
    /// The phase of the cycle, and its begin.
    Cycle(usize, u64),
}

/// The state of one connection; times in nanoseconds, rates in segments a second.
#[derive(Clone, Debug)]
pub struct Bbr {
    in_flight: VecDeque<Segment>,
    done: u64,
    done_at: u64,
    first: u64,
    rounds: u64,
    round_ends: u64,
    rates: VecDeque<(u64, f64)>,
    min_rtt: u64,
    mode: Mode,
}

impl Bbr {
    pub fn new() -> Self {
        Self {
            in_flight: VecDeque::new(),
            done: 0,
            done_at: 0,
            first: 0,
            rounds: 0,
            round_ends: 0,
            rates: VecDeque::new(),
            min_rtt: u64::MAX,
            mode: Mode::Startup(0.0, 0),
        }
    }

    /// A segment is sent.
    pub fn on_send(&mut self, now: u64) {
        if self.in_flight.is_empty() {
            (self.first, self.done_at) = (now, now);
        }
        self.in_flight.push_back(Segment {
            at: now,
            done: self.done,
            done_at: self.done_at,
            first: self.first,
        });
    }

    /// The segment sent at `sent` is acknowledged; earlier ones in flight are lost.
    pub fn on_ack(&mut self, now: u64, sent: u64) {
        let in_flight = self.in_flight.len() as f64;
        let is_before = |segment: &Segment| segment.at < sent;
        let before = self.in_flight.partition_point(is_before);
        self.in_flight.drain(..before);
        let Some(segment) = self.in_flight.pop_front() else {
            return;
        };
        (self.done, self.done_at, self.first) = (self.done + 1, now, sent);
        self.min_rtt = self.min_rtt.min(now - sent);
        let begins = segment.done >= self.round_ends;
        if begins {
            self.rounds += 1;
            self.round_ends = self.done;
        }
        // Neither a burst of segments nor one of ACKs makes the path faster.
        let span = (now - segment.done_at).max(sent - segment.first);
        if span >= self.min_rtt {
            let rate = (self.done - segment.done) as f64 * 1e9 / span as f64;
            self.rates.retain(|(_, before)| *before > rate);
            self.rates.push_back((self.rounds, rate));
        }
        let oldest = self.rounds.saturating_sub(FILTER_ROUNDS);
        self.rates.retain(|(round, _)| *round >= oldest);
        self.turn(now, in_flight, begins);
    }

    fn turn(&mut self, now: u64, in_flight: f64, begins: bool) {
        let (rate, bdp) = (self.rate(), self.bdp());
        let min_rtt = self.min_rtt;
        let lasted = |since: u64| now - since > min_rtt;
        self.mode = match self.mode {
            Mode::Startup(best, _) if begins && rate >= 1.25 * best => Mode::Startup(rate, 0),
            Mode::Startup(_, 2) if begins => Mode::Drain,
            Mode::Startup(best, rounds) if begins => Mode::Startup(best, rounds + 1),
            Mode::Drain if in_flight <= bdp => Mode::Cycle(2, now),
            Mode::Cycle(at, since) => {
                let over = match CYCLE_GAINS[at] {
                    gain if gain > 1.0 => lasted(since) && in_flight >= gain * bdp + QUANTA + PROBE_QUANTA,
                    gain if gain < 1.0 => lasted(since) || in_flight <= bdp,
                    _ => lasted(since),
                };
                if over {
                    Mode::Cycle((at + 1) % CYCLE_GAINS.len(), now)
                } else {
                    self.mode
                }
            }
            mode => mode,
        };
    }

    /// The maximum delivery rate.
    fn rate(&self) -> f64 {
        self.rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    /// The BDP in segments.
    fn bdp(&self) -> f64 {
        self.rate() * self.min_rtt as f64 / 1e9
    }

    /// The pacing rate in segments a second; none before the first delivery rate.
    pub fn pacing_rate(&self) -> Option<f64> {
        let gain = match self.mode {
            Mode::Startup(..) => STARTUP_GAIN,
            Mode::Drain => 1.0 / STARTUP_GAIN,
            Mode::Cycle(at, _) => CYCLE_GAINS[at],
        };
        (!self.rates.is_empty()).then(|| PACING_MARGIN * gain * self.rate())
    }

    /// The cwnd in segments.
    pub fn cwnd(&self) -> f64 {
        let gain = match self.mode {
            Mode::Cycle(..) => CWND_GAIN,
            _ => STARTUP_GAIN,
        };
        (gain * self.bdp() + QUANTA).max(10.0)
    }
}
