//! A link as a wire with a clock: busy until the last bit is out, exact to a nanobit.
//!
//! Nothing is saved up while nobody may send. A caller that is late may catch up by a bound; beyond it the clock
//! that the wire shows to its users stands still, as if the time had not passed.

/// The wire. Times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire {
    /// Bits per second.
    pub(crate) rate: u64,
    /// How far a late caller may catch up, in nanoseconds.
    pub(crate) burst: u64,
    /// When it becomes free, and the part of a nanosecond by which that is too early, × `rate`.
    pub(crate) free: u64,
    pub(crate) rest: u64,
    /// Since when somebody may send, if anybody may.
    pub(crate) ready: u64,
    /// Time that callers lost beyond `burst`: credits are given on a clock that is so much behind.
    pub(crate) lost: u64,
}

impl Wire {
    /// The clock of the credits at `now`. `since`: when somebody could first have sent.
    pub(crate) fn clock(&mut self, now: u64, since: u64) -> u64 {
        let could = since.max(self.free).saturating_add(self.burst);
        if now > could {
            self.lost += now - could;
            self.free = now - self.burst;
            self.rest = 0;
        }
        now - self.lost
    }

    /// Puts a packet on it.
    pub(crate) fn send(&mut self, now: u64, bits: i64, shaped: bool) {
        if self.ready > self.free {
            self.free = self.ready;
            self.rest = 0;
        }
        let work = u128::from(bits as u64) + u128::from(self.rest);
        let (time, rest) = match u64::try_from(work) {
            Ok(work) => (work / self.rate, work % self.rate),
            Err(_) => (
                (work / u128::from(self.rate)) as u64,
                (work % u128::from(self.rate)) as u64,
            ),
        };
        self.free = self.free.saturating_add(time);
        self.rest = rest;
        if !shaped {
            self.free = self.free.min(now + self.burst);
        }
    }

    /// The first nanosecond in which it is free.
    pub(crate) fn free_at(&self) -> u64 {
        self.free + u64::from(self.rest > 0)
    }
}
