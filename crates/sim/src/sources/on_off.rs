//! On and off: a constant pace while on, silence while off, both for spells that are fixed or drawn.
//!
//! The pace's clock stands still while the source is off, so the mean rate is exactly the pace times the share of
//! time that is on, however few packets a spell has; a source that begins each spell with a packet would send more.

use super::chance::Spells;
use super::{Constant, Pace, Spell, Timing};
use engine::random::Seed;
use engine::units::{Bytes, Duration};

/// Packets at a pace, now and then.
#[derive(Clone, Debug)]
pub struct OnOff {
    pace: Constant,
    on: Spells,
    off: Spells,
    /// How long the source stays on, from the packet that was sent.
    left: Duration,
}

impl OnOff {
    /// On first, for `on`, then off for `off`, and so on. A spell of zero has no packets.
    pub fn new(pace: Pace, on: Spell, off: Spell, seed: Seed) -> Self {
        Self {
            pace: Constant::new(pace),
            on: Spells::new(on, seed.fork("on")),
            off: Spells::new(off, seed.fork("off")),
            left: Duration::ZERO,
        }
    }
}

impl Timing for OnOff {
    fn first(&mut self) -> Option<Duration> {
        let wait = self.pace.first();
        self.left = self.on.draw();
        wait
    }

    fn next(&mut self, sent: Bytes) -> Option<Duration> {
        /// Spells looked at for one packet; beyond them the source has gone silent: its spells are of no length.
        const SPELLS: u32 = 1_000_000;
        let (mut gap, mut wait) = (self.pace.gap(sent)?, Duration::ZERO);
        for _ in 0..SPELLS {
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
