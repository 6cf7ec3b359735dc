//! COBALT: CoDel for senders that listen and BLUE for those that do not, for one queue (section III.D of "Piece of CAKE").
//!
//! **CoDel's law** with a count that is kept. A packet that waited longer than *target* begins or goes on with dropping, at once and
//! not after an interval; hits are interval / √count apart, as in `codel`, and each makes the count larger. While packets
//! wait shorter the count runs down at the same times at which it would have run up. So a queue that was brought down stays down,
//! where CoDel begins again with a small count: senders that never yield would fill it each time.
//!
//! **BLUE's chance** of loss, that of `blue`, grows by 1/256 when the queue has to give a packet for the limit and shrinks by
//! 1/4096 when it is empty, each at most once in *target*. An overflow also makes the next packet due for a hit.
//!
//! A hit packet is marked if it is ECN-capable; what the chance strikes is lost, since it is for senders that do not listen. The
//! last packet of a queue is never lost.

use crate::discipline::{Reason, Sink};
use crate::disciplines::blue::Chance;
use crate::disciplines::codel::Law;
use crate::packet::Packet;
use crate::random::Rng;
use crate::units::{Duration, Instant};

/// How the chance changes, in parts of 2³².
const INCREMENT: u64 = 1 << 24;
const DECREMENT: u64 = 1 << 20;

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Leaves,
    /// It is lost, for this reason.
    Lost(Reason),
}

/// The state for one queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cobalt {
    dropping: bool,
    count: u32,
    /// When the count changes next, if it is not zero.
    next: Instant,
    chance: Chance,
    empty_since: Instant,
}

impl Cobalt {
    /// Of a queue that was always empty.
    pub(crate) const NEW: Self = Self {
        dropping: false,
        count: 0,
        next: Instant::START,
        chance: Chance::NONE,
        empty_since: Instant::START,
    };

    /// The queue is empty from now on.
    pub(crate) fn empty(&mut self, now: Instant) {
        (self.dropping, self.empty_since) = (false, now);
    }

    /// A packet comes to the empty queue.
    pub(crate) fn wake(&mut self, now: Instant, target: Duration) {
        self.chance.shrink(self.empty_since, now, DECREMENT, target);
    }

    /// The queue has to give a packet for the limit.
    pub(crate) fn overflow(&mut self, now: Instant, target: Duration) {
        self.chance.grow(now, INCREMENT, target);
        (self.dropping, self.next, self.count) = (true, now, self.count.max(1));
    }

    /// Whether CoDel hits a packet that waited so long.
    fn hits(&mut self, law: &Law, now: Instant, sojourn: Duration) -> bool {
        let due = self.count > 0 && now >= self.next;
        let over = sojourn > law.target;
        if over {
            self.count = self.count.max(1);
            if !self.dropping {
                self.next = law.next(now, self.count);
            }
        }
        self.dropping = over;
        if due && over {
            self.count = self.count.saturating_add(1);
            self.next = law.next(self.next, self.count);
            return true;
        }
        while due && self.count > 0 && now >= self.next {
            self.count -= 1;
            self.next = law.next(self.next, self.count);
        }
        self.next = self.next.max(now);
        false
    }

    /// What becomes of a packet whose turn it is; `last` says that none stays behind. May mark it.
    pub(crate) fn judge(
        &mut self,
        law: &Law,
        now: Instant,
        rng: &mut Rng,
        (packet, last): (&mut Packet, bool),
        sink: &mut dyn Sink,
    ) -> Fate {
        let hit = self.hits(law, now, now.since(packet.arrived));
        let marked = hit && law.ecn && packet.mark();
        if marked {
            sink.mark(packet, Reason::Delay);
        }
        let struck = self.chance.strikes(rng);
        match () {
            () if last => Fate::Leaves,
            () if struck => Fate::Lost(Reason::Early),
            () if hit && !marked => Fate::Lost(Reason::Delay),
            () => Fate::Leaves,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use crate::units::{Bandwidth, Bytes};

    fn law() -> Law {
        let link = Link::new(Bandwidth::mbit(100), Bytes::new(1_514));
        Law::new(None, None, true, link).expect("a good law")
    }

    fn millis(n: u64) -> Instant {
        Instant::START + Duration::from_millis(n)
    }

    /// The milliseconds at which a queue is hit whose packets wait so long; one leaves every millisecond.
    fn hits(cobalt: &mut Cobalt, from: u64, to: u64, wait: u64) -> Vec<u64> {
        let wait = Duration::from_millis(wait);
        (from..to)
            .filter(|&at| cobalt.hits(&law(), millis(at), wait))
            .collect()
    }

    #[test]
    fn hits_come_at_intervals_over_the_root_of_the_count() {
        let mut cobalt = Cobalt::NEW;
        let found = hits(&mut cobalt, 1_000, 2_000, 6);
        let mut due = 1_000.0;
        for (count, at) in (1..).zip(&found) {
            due += 100.0 / f64::from(count).sqrt();
            assert!((*at as f64 - due).abs() <= 1.0, "{found:?}: {count}, {due}");
        }
        assert!(found.len() > 25, "{found:?}");
    }

    #[test]
    fn a_short_wait_does_not_forget_the_count_and_a_long_one_runs_it_down() {
        let mut cobalt = Cobalt::NEW;
        let first = hits(&mut cobalt, 1_000, 2_000, 6);
        let count = cobalt.count;
        assert_eq!(hits(&mut cobalt, 2_000, 2_030, 2), []);
        assert!(cobalt.count < count && cobalt.count + 4 > count);
        let again = hits(&mut cobalt, 2_030, 2_060, 6);
        assert!(!again.is_empty(), "{again:?} after {first:?}");
        hits(&mut cobalt, 2_060, 4_000, 2);
        assert_eq!(cobalt.count, 0);
    }

    #[test]
    fn an_overflow_makes_the_next_packet_due() {
        let mut cobalt = Cobalt::NEW;
        cobalt.overflow(millis(1), Duration::from_millis(5));
        assert!(cobalt.hits(&law(), millis(2), Duration::from_millis(6)));
    }
}
