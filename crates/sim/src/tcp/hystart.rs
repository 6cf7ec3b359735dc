//! `HyStart++` (RFC 9406): a rising round-trip time ends slow start, before a loss does.
//!
//! A round whose least RTT lies an eighth (4 to 16 ms) above that of the last round begins
//! conservative slow start (CSS), at a quarter of the growth. If the RTT falls again, slow start
//! resumes; after five rounds of CSS it is over.

use super::control::Ack;
use engine::units::Duration;

/// RFC 9406's N_RTT_SAMPLE.
const SAMPLES: u32 = 8;
/// MIN_RTT_THRESH.
const LEAST_RISE: Duration = Duration::from_millis(4);
/// MAX_RTT_THRESH.
const MOST_RISE: Duration = Duration::from_millis(16);
/// CSS_ROUNDS.
const CSS_ROUNDS: u32 = 5;
const UNKNOWN: Duration = Duration::from_nanos(u64::MAX);

/// How much of slow start's growth an ACK gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Growth {
    Full,
    /// In conservative slow start.
    Quarter,
    /// Slow start ends.
    Over,
}

/// The least round-trip times of this round and the last.
#[derive(Clone, Debug)]
pub(super) struct HyStart {
    /// The round ends when this byte is acknowledged.
    round_end: u64,
    last_min_rtt: Duration,
    min_rtt: Duration,
    samples: u32,
    css: Option<ConservativeSlowStart>,
}

#[derive(Clone, Copy, Debug)]
struct ConservativeSlowStart {
    /// The least round-trip time that began it.
    baseline: Duration,
    rounds: u32,
}

impl HyStart {
    pub(super) fn new() -> Self {
        Self {
            round_end: 0,
            last_min_rtt: UNKNOWN,
            min_rtt: UNKNOWN,
            samples: 0,
            css: None,
        }
    }

    /// An ACK in slow start.
    pub(super) fn on_ack(&mut self, ack: &Ack) -> Growth {
        if ack.snd_una > self.round_end {
            self.round_end = ack.snd_nxt;
            (self.last_min_rtt, self.min_rtt, self.samples) = (self.min_rtt, UNKNOWN, 0);
            if let Some(css) = &mut self.css {
                css.rounds += 1;
            }
        }
        if let Some(rtt) = ack.rtt {
            self.min_rtt = self.min_rtt.min(rtt);
            self.samples += 1;
        }
        let known = self.samples >= SAMPLES && self.last_min_rtt != UNKNOWN;
        match self.css {
            Some(css) if css.rounds >= CSS_ROUNDS => return Growth::Over,
            Some(css) if known && self.min_rtt < css.baseline => self.css = None,
            None if known => {
                let eighth = Duration::from_nanos(self.last_min_rtt.nanos() / 8);
                if self.min_rtt >= self.last_min_rtt + eighth.clamp(LEAST_RISE, MOST_RISE) {
                    self.css = Some(ConservativeSlowStart {
                        baseline: self.min_rtt,
                        rounds: 0,
                    });
                }
            }
            _ => {}
        }
        if self.css.is_some() {
            Growth::Quarter
        } else {
            Growth::Full
        }
    }
}
