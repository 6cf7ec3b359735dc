//! COBALT: CoDel for responsive senders and BLUE for unresponsive ones, for one queue (section
//! III.D of "Piece of CAKE").
//!
//! **CoDel's law** with a count that is kept. A packet whose sojourn time exceeds *target* starts
//! or continues dropping at once and not after an interval; drops are interval / √count apart, as
//! in `codel`, and each increments the count. While sojourn times are below target, the count runs
//! down at the times at which it would have run up. So a queue that was brought down stays down,
//! where CoDel starts over with a small count: unresponsive senders would fill it each time.
//!
//! **BLUE's drop probability**, as in `blue`, grows by 1/256 when the queue overflows and shrinks
//! by 1/4096 when it is empty, each at most once in *target*. An overflow also makes the next
//! packet due for CoDel.
//!
//! CoDel marks an ECN-capable packet instead of dropping it; BLUE drops, since it is for
//! unresponsive senders. The last packet of a queue is never dropped.

use crate::discipline::{Reason, Sink};
use crate::disciplines::blue::DropProbability;
use crate::disciplines::codel::Law;
use crate::packet::Packet;
use crate::random::Rng;
use crate::units::{Duration, Instant};

/// The steps of the drop probability, in parts of 2³².
const INCREMENT: u64 = 1 << 24;
const DECREMENT: u64 = 1 << 20;

/// What happens to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Leaves,
    /// It is dropped, for this reason.
    Dropped(Reason),
}

/// The state for one queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cobalt {
    dropping: bool,
    count: u32,
    /// When the count changes next, if it is not zero.
    next: Instant,
    blue: DropProbability,
    empty_since: Instant,
}

impl Cobalt {
    /// Of a queue that was always empty.
    pub(crate) const NEW: Self = Self {
        dropping: false,
        count: 0,
        next: Instant::START,
        blue: DropProbability::NONE,
        empty_since: Instant::START,
    };

    /// The queue becomes empty.
    pub(crate) fn empty(&mut self, now: Instant) {
        (self.dropping, self.empty_since) = (false, now);
    }

    /// A packet arrives at the empty queue.
    pub(crate) fn wake(&mut self, now: Instant, target: Duration) {
        self.blue.shrink(self.empty_since, now, DECREMENT, target);
    }

    /// The queue overflows: it has to drop a packet.
    pub(crate) fn overflow(&mut self, now: Instant, target: Duration) {
        self.blue.grow(now, INCREMENT, target);
        (self.dropping, self.next, self.count) = (true, now, self.count.max(1));
    }

    /// Whether CoDel drops or marks a packet with this sojourn time (RFC 8289's `should_drop`).
    fn should_drop(&mut self, law: &Law, now: Instant, sojourn: Duration) -> bool {
        let due = self.count > 0 && now >= self.next;
        let over = sojourn > law.target;
        if over {
            self.count = self.count.max(1);
            if !self.dropping {
                self.next = law.control_law(now, self.count);
            }
        }
        self.dropping = over;
        if due && over {
            self.count = self.count.saturating_add(1);
            self.next = law.control_law(self.next, self.count);
            return true;
        }
        while due && self.count > 0 && now >= self.next {
            self.count -= 1;
            self.next = law.control_law(self.next, self.count);
        }
        self.next = self.next.max(now);
        false
    }

    /// What happens to the head packet; `last` if none is behind it. May mark it.
    pub(crate) fn judge(
        &mut self,
        law: &Law,
        now: Instant,
        rng: &mut Rng,
        (packet, last): (&mut Packet, bool),
        sink: &mut dyn Sink,
    ) -> Fate {
        let signal = self.should_drop(law, now, now.since(packet.arrived));
        let marked = signal && law.ecn && packet.mark();
        if marked {
            sink.mark(packet, Reason::Delay);
        }
        let unresponsive = self.blue.should_drop(rng);
        match () {
            () if last => Fate::Leaves,
            () if unresponsive => Fate::Dropped(Reason::Early),
            () if signal && !marked => Fate::Dropped(Reason::Delay),
            () => Fate::Leaves,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use crate::packet::{ClassId, Ecn};
    use crate::random::Seed;
    use crate::sinks::Nowhere;
    use crate::units::{Bandwidth, Bytes};

    fn law() -> Law {
        let link = Link::new(Bandwidth::mbit(100), Bytes::new(1_514));
        Law::new(None, None, true, link).expect("a good law")
    }

    fn millis(n: u64) -> Instant {
        Instant::START + Duration::from_millis(n)
    }

    /// The milliseconds at which CoDel signals in a queue whose packets have this sojourn time; one
    /// leaves every millisecond.
    fn drops(cobalt: &mut Cobalt, from: u64, to: u64, wait: u64) -> Vec<u64> {
        let wait = Duration::from_millis(wait);
        (from..to)
            .filter(|&at| cobalt.should_drop(&law(), millis(at), wait))
            .collect()
    }

    #[test]
    fn drops_come_at_intervals_over_the_root_of_the_count() {
        let mut cobalt = Cobalt::NEW;
        let found = drops(&mut cobalt, 1_000, 2_000, 6);
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
        let first = drops(&mut cobalt, 1_000, 2_000, 6);
        let count = cobalt.count;
        assert_eq!(drops(&mut cobalt, 2_000, 2_030, 2), []);
        assert!(cobalt.count < count && cobalt.count + 4 > count);
        let again = drops(&mut cobalt, 2_030, 2_060, 6);
        assert!(!again.is_empty(), "{again:?} after {first:?}");
        drops(&mut cobalt, 2_060, 4_000, 2);
        assert_eq!(cobalt.count, 0);
    }

    #[test]
    fn an_overflow_makes_the_next_packet_due() {
        let mut cobalt = Cobalt::NEW;
        cobalt.overflow(millis(1), Duration::from_millis(5));
        assert!(cobalt.should_drop(&law(), millis(2), Duration::from_millis(6)));
    }

    #[test]
    fn what_is_due_at_this_very_time_is_due_and_a_sojourn_of_the_target_is_not_too_long() {
        let overflown = || {
            let mut cobalt = Cobalt::NEW;
            cobalt.overflow(millis(1), Duration::from_millis(5));
            cobalt
        };
        let mut cobalt = overflown();
        assert!(cobalt.should_drop(&law(), millis(1), Duration::from_nanos(5_000_001)));
        assert_eq!((cobalt.count, cobalt.dropping), (2, true));
        let mut cobalt = overflown();
        assert!(!cobalt.should_drop(&law(), millis(1), Duration::from_millis(5)));
        assert_eq!((cobalt.count, cobalt.dropping), (0, false), "it runs down");
    }

    #[test]
    fn a_signal_marks_or_drops_but_the_last_packet_always_leaves() {
        let judged = |ecn, last| {
            let mut cobalt = Cobalt::NEW;
            cobalt.overflow(millis(9), Duration::from_millis(5));
            // Without BLUE.
            cobalt.blue = DropProbability::NONE;
            let mut packet = Packet::new(Bytes::new(1), millis(1), ClassId(0));
            packet.ecn = ecn;
            let rng = &mut Seed(1).stream();
            let fate = cobalt.judge(&law(), millis(9), rng, (&mut packet, last), &mut Nowhere);
            (fate, packet.ecn)
        };
        assert_eq!(judged(Ecn::Ect0, false), (Fate::Leaves, Ecn::Ce));
        assert_eq!(
            judged(Ecn::NotEct, false),
            (Fate::Dropped(Reason::Delay), Ecn::NotEct)
        );
        assert_eq!(judged(Ecn::NotEct, true), (Fate::Leaves, Ecn::NotEct));
    }
}
