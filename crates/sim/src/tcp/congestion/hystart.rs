//! `HyStart++` (RFC 9406): slow start ends when the round-trip time rises, and not only by loss.
//!
//! A round whose least round-trip time is an eighth (4 to 16 ms) above the former's begins conservative slow start, at a
//! quarter of the growth. If the time falls again, slow start goes on; after five such rounds it is over.

use super::Ack;
use engine::units::Duration;

const SAMPLES: u32 = 8;
const LEAST_RISE: Duration = Duration::from_millis(4);
const MOST_RISE: Duration = Duration::from_millis(16);
const ROUNDS: u32 = 5;
const UNKNOWN: Duration = Duration::from_nanos(u64::MAX);

/// How much of slow start's growth there is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Growth {
    Full,
    Quarter,
    Over,
}

/// The round-trip times of this round and the former.
#[derive(Clone, Debug)]
pub(super) struct HyStart {
    round_until: u64,
    former: Duration,
    current: Duration,
    samples: u32,
    /// In conservative slow start: the time that began it, and the rounds since.
    cautious: Option<(Duration, u32)>,
}

impl HyStart {
    pub(super) fn new() -> Self {
        Self {
            round_until: 0,
            former: UNKNOWN,
            current: UNKNOWN,
            samples: 0,
            cautious: None,
        }
    }

    /// An acknowledgment in slow start.
    pub(super) fn on_ack(&mut self, ack: &Ack) -> Growth {
        if ack.first > self.round_until {
            self.round_until = ack.next;
            (self.former, self.current, self.samples) = (self.current, UNKNOWN, 0);
            if let Some((_, rounds)) = &mut self.cautious {
                *rounds += 1;
            }
        }
        if let Some(rtt) = ack.rtt {
            self.current = self.current.min(rtt);
            self.samples += 1;
        }
        let known = self.samples >= SAMPLES && self.former != UNKNOWN;
        match self.cautious {
            Some((_, rounds)) if rounds >= ROUNDS => return Growth::Over,
            Some((began, _)) if known && self.current < began => self.cautious = None,
            None if known => {
                let eighth = Duration::from_nanos(self.former.nanos() / 8);
                if self.current >= self.former + eighth.clamp(LEAST_RISE, MOST_RISE) {
                    self.cautious = Some((self.current, 0));
                }
            }
            _ => {}
        }
        if self.cautious.is_some() {
            Growth::Quarter
        } else {
            Growth::Full
        }
    }
}
