//! On/off: a constant rate while on, silence while off, for fixed or random periods.
//!
//! The rate's clock stands still while the source is off. So the mean rate is exactly the rate
//! times the share of time that is on, however few packets an on period has. A source that begins
//! each on period with a packet would send more.

use super::constant::{Constant, SendRate};
use super::datagram_source::Timing;
use super::distributions::{TimeDistribution, TimeSampler};
use engine::random::Seed;
use engine::units::{Bytes, Duration};

/// Packets at a constant rate in on periods.
#[derive(Clone, Debug)]
pub struct OnOff {
    rate: Constant,
    on: TimeSampler,
    off: TimeSampler,
    /// The time left of the on period after the last packet.
    left: Duration,
}

impl OnOff {
    /// On for `on`, then off for `off`, and so on. An on period of zero has no packets.
    pub fn new(rate: SendRate, on: TimeDistribution, off: TimeDistribution, seed: Seed) -> Self {
        Self {
            rate: Constant::new(rate),
            on: TimeSampler::new(on, seed.fork("on")),
            off: TimeSampler::new(off, seed.fork("off")),
            left: Duration::ZERO,
        }
    }
}

impl Timing for OnOff {
    fn first(&mut self) -> Option<Duration> {
        let wait = self.rate.first();
        self.left = self.on.draw();
        wait
    }

    fn next(&mut self, sent: Bytes) -> Option<Duration> {
        /// Periods to search for one packet. A source that needs more has on periods without length
        /// and is silent.
        const PERIODS: u32 = 1_000_000;
        let (mut gap, mut wait) = (self.rate.gap(sent)?, Duration::ZERO);
        for _ in 0..PERIODS {
            if gap < self.left {
                self.left -= gap;
                return Some(wait + gap);
            }
            gap -= self.left;
            wait += self.left + self.off.draw();
            self.left = self.on.draw();
        }
        None
    }
}
