//! A sender that goes by the rate that the path was seen to carry, and not by losses: BBR, version 1, as Linux has it. It climbs by a
//! quarter in a round trip and a half at most: how long it takes to have a link again depends on what it had last.
//!
//! Left out: the rounds of four segments every ten seconds, which look for the shortest round trip, and what it does after losses.

use std::collections::VecDeque;

/// For so many rounds a rate is remembered.
const REMEMBERED: u64 = 10;
/// How a connection begins; its first rate has three rounds to grow by a quarter.
const STARTUP: f64 = 2.89;
/// Eight spans of a round trip each.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// A little less than the rate, so that a queue drains; and how much may be on its way, in products of rate and round trip.
const PACED: f64 = 0.99;
const WINDOW: f64 = 2.0;
/// Segments that Linux adds, since they go and are acknowledged together; and more of them while it probes upwards.
const TOGETHER: f64 = 6.0;
const PROBING: f64 = 2.0;

/// A segment on its way: when it went, how many had arrived by then and when the last of them, and when that one had been sent.
#[derive(Clone, Copy, Debug)]
struct Segment {
    at: u64,
    done: u64,
    done_at: u64,
    first: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mode {
    /// The highest rate so far, and for how many rounds it has not grown.
    Startup(f64, u32),
    Drain,
    /// Which span of the cycle, and since when.
    Cycle(usize, u64),
}

/// The state of one connection; times in nanoseconds, rates in segments a second.
#[derive(Clone, Debug)]
pub struct Probing {
    flying: VecDeque<Segment>,
    done: u64,
    done_at: u64,
    first: u64,
    rounds: u64,
    round_ends: u64,
    rates: VecDeque<(u64, f64)>,
    shortest: u64,
    mode: Mode,
}

impl Probing {
    pub fn new() -> Self {
        Self {
            flying: VecDeque::new(),
            done: 0,
            done_at: 0,
            first: 0,
            rounds: 0,
            round_ends: 0,
            rates: VecDeque::new(),
            shortest: u64::MAX,
            mode: Mode::Startup(0.0, 0),
        }
    }

    /// A segment goes.
    pub fn sends(&mut self, now: u64) {
        if self.flying.is_empty() {
            (self.first, self.done_at) = (now, now);
        }
        self.flying.push_back(Segment {
            at: now,
            done: self.done,
            done_at: self.done_at,
            first: self.first,
        });
    }

    /// The one that went then is acknowledged; those before it, of which nothing was heard, were lost.
    pub fn acknowledged(&mut self, now: u64, sent: u64) {
        let flying = self.flying.len() as f64;
        let is_before = |segment: &Segment| segment.at < sent;
        let before = self.flying.partition_point(is_before);
        self.flying.drain(..before);
        let Some(segment) = self.flying.pop_front() else {
            return;
        };
        (self.done, self.done_at, self.first) = (self.done + 1, now, sent);
        self.shortest = self.shortest.min(now - sent);
        let begins = segment.done >= self.round_ends;
        if begins {
            self.rounds += 1;
            self.round_ends = self.done;
        }
        // Neither segments that went together nor acknowledgments that came together make a path faster.
        let span = (now - segment.done_at).max(sent - segment.first);
        if span >= self.shortest {
            let rate = (self.done - segment.done) as f64 * 1e9 / span as f64;
            self.rates.retain(|(_, before)| *before > rate);
            self.rates.push_back((self.rounds, rate));
        }
        let oldest = self.rounds.saturating_sub(REMEMBERED);
        self.rates.retain(|(round, _)| *round >= oldest);
        self.turn(now, flying, begins);
    }

    fn turn(&mut self, now: u64, flying: f64, begins: bool) {
        let (rate, product) = (self.rate(), self.product());
        let shortest = self.shortest;
        let lasted = |since: u64| now - since > shortest;
        self.mode = match self.mode {
            Mode::Startup(best, _) if begins && rate >= 1.25 * best => Mode::Startup(rate, 0),
            Mode::Startup(_, 2) if begins => Mode::Drain,
            Mode::Startup(best, rounds) if begins => Mode::Startup(best, rounds + 1),
            Mode::Drain if flying <= product => Mode::Cycle(2, now),
            Mode::Cycle(at, since) => {
                let over = match CYCLE[at] {
                    gain if gain > 1.0 => lasted(since) && flying >= gain * product + TOGETHER + PROBING,
                    gain if gain < 1.0 => lasted(since) || flying <= product,
                    _ => lasted(since),
                };
                if over {
                    Mode::Cycle((at + 1) % CYCLE.len(), now)
                } else {
                    self.mode
                }
            }
            mode => mode,
        };
    }

    /// What the path was seen to carry.
    fn rate(&self) -> f64 {
        self.rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    /// Segments on their way at that rate, without a queue.
    fn product(&self) -> f64 {
        self.rate() * self.shortest as f64 / 1e9
    }

    /// Segments a second that it sends; none before it knows a rate.
    pub fn pace(&self) -> Option<f64> {
        let gain = match self.mode {
            Mode::Startup(..) => STARTUP,
            Mode::Drain => 1.0 / STARTUP,
            Mode::Cycle(at, _) => CYCLE[at],
        };
        (!self.rates.is_empty()).then(|| PACED * gain * self.rate())
    }

    /// Segments that may be on their way.
    pub fn window(&self) -> f64 {
        let gain = match self.mode {
            Mode::Cycle(..) => WINDOW,
            _ => STARTUP,
        };
        (gain * self.product() + TOGETHER).max(10.0)
    }
}
