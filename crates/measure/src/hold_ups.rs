//! What hold-ups of the host did, counted: how often a thread ran later than it was to, and the
//! delays of packets without that.

use crate::delay::Delays;
use engine::units::{Duration, Instant};
use std::ops::AddAssign;

/// So many times as long as a hold-up was, the queue that it caused may take: that of a link nine
/// tenths of which are busy.
pub const AFTER: u64 = 10;

/// So many times as long as a hold-up was, a class whose senders keep to a curve may have a queue
/// because of it: one that is served by a thousandth faster than they send.
pub const OF_CLASS: u64 = 1_000;

/// A time in which the host did not let a thread run that was to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HoldUp {
    /// When the thread was to run.
    pub from: Instant,
    /// When it ran.
    pub until: Instant,
}

impl HoldUp {
    /// That of a thread that was to run then, and ran now; none if it is no later than is usual.
    pub fn noticed(from: Instant, now: Instant, usual: Duration) -> Option<Self> {
        (now.since(from) > usual).then_some(Self { from, until: now })
    }

    /// From the begin of the earlier to the end of the later.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            from: self.from.min(other.from),
            until: self.until.max(other.until),
        }
    }

    /// How long it was.
    pub fn length(self) -> Duration {
        self.until.since(self.from)
    }

    /// Until when the queue that it caused may last.
    pub fn worked_off(self) -> Instant {
        self.until + self.length().times(AFTER)
    }

    /// The same of a class whose senders keep to a curve.
    pub fn worked_off_in_class(self) -> Instant {
        self.until + self.length().times(OF_CLASS)
    }
}

/// How often and how long a thread was held up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HoldUps {
    /// How often.
    pub times: u64,
    /// The longest.
    pub longest: Duration,
    /// All together.
    pub all: Duration,
}

impl HoldUps {
    /// It was held up once, for so long.
    pub fn once(length: Duration) -> Self {
        Self {
            times: 1,
            longest: length,
            all: length,
        }
    }
}

impl AddAssign for HoldUps {
    fn add_assign(&mut self, other: Self) {
        self.times += other.times;
        self.longest = self.longest.max(other.longest);
        self.all += other.all;
    }
}

/// The delays of packets of which the host held some up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeldUpDelays {
    /// By how much, of each that was.
    pub by: Delays,
    /// The delays of all packets, those less that.
    pub without: Delays,
}

impl HeldUpDelays {
    /// Together with other packets, that were held up or not.
    pub fn merged(mine: (&Delays, Option<&Self>), theirs: (&Delays, Option<&Self>)) -> Option<Self> {
        let both = [mine, theirs];
        if both.iter().all(|(_, held)| held.is_none()) {
            return None;
        }
        let mut all = Self::default();
        for (delays, held) in both {
            held.iter().for_each(|held| all.by.merge(&held.by));
            all.without.merge(held.map_or(delays, |held| &held.without));
        }
        Some(all)
    }

    /// Since an earlier state of the same, with its delays; none if none was held up meanwhile.
    pub fn since(&self, earlier: (&Delays, Option<&Self>)) -> Option<Self> {
        let (delays, held) = earlier;
        let none = Delays::default();
        let by = self.by.since(held.map_or(&none, |held| &held.by));
        (by.count() > 0).then(|| Self {
            by,
            without: self.without.since(held.map_or(delays, |held| &held.without)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(ms: &[u64]) -> Delays {
        let mut delays = Delays::default();
        ms.iter().for_each(|ms| delays.record(Duration::from_millis(*ms)));
        delays
    }

    #[test]
    fn what_was_held_up_is_added_up_and_told_since_an_earlier_state() {
        let own = HeldUpDelays {
            by: delays(&[5]),
            without: delays(&[1, 2]),
        };
        let (own_all, other_all) = (delays(&[1, 7]), delays(&[3]));
        assert_eq!(HeldUpDelays::merged((&own_all, None), (&other_all, None)), None);
        let both = HeldUpDelays {
            by: delays(&[5]),
            without: delays(&[1, 2, 3]),
        };
        for (one, two) in [
            ((&own_all, Some(&own)), (&other_all, None)),
            ((&other_all, None), (&own_all, Some(&own))),
        ] {
            assert_eq!(HeldUpDelays::merged(one, two).as_ref(), Some(&both));
        }
        let counts = |held: HeldUpDelays| (held.by.count(), held.without.count());
        assert_eq!(both.since((&delays(&[1]), None)).map(counts), Some((1, 2)));
        assert_eq!(both.since((&delays(&[]), Some(&own))), None, "none since");
    }

    #[test]
    fn hold_ups_are_counted_and_the_longest_kept() {
        let ms = Duration::from_millis;
        let mut all = HoldUps::once(ms(3));
        all += HoldUps::once(ms(2));
        let expected = HoldUps {
            times: 2,
            longest: ms(3),
            all: ms(5),
        };
        assert_eq!(all, expected);
    }
}
