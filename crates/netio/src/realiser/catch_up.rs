//! The clock that a realiser shows its queue, and how much of a hold-up of the host it catches up.
//!
//! The queue's time stands still where more was missed, and never goes back. It starts again when
//! the queue is empty. A packet that arrives then may be sent from its arrival on: what a held-up
//! worker finds on its return was missed too, although nothing waited when the hold-up began.
//!
//! While the port has no room the queue misses nothing: the wire is busy. Nobody tells since when
//! there is room again, so the worker [looks](LOOK) for it; only a look that is later than is usual
//! is a hold-up.

use super::Achieved;
use engine::discipline::Pacing;
use engine::link::LATENESS;
use engine::units::{Duration, Instant};

/// So long after the port had no room the worker looks again at the latest.
pub(super) const LOOK: Duration = LATENESS;

/// The queue's clock.
#[derive(Debug)]
pub(super) struct CatchUp {
    /// How much missed time may be caught up at the speed of the wire, as set.
    set: Option<Duration>,
    /// Without the setting: a packet's time at the highest rate.
    period: Duration,
    /// By how much the queue's time is behind the clock: the time not caught up since the queue was
    /// last empty.
    behind: Duration,
    /// From this time on, in the queue's time, the queue may have a packet to send.
    ready: Option<Instant>,
    /// The latest time that the queue has seen.
    last: Instant,
}

impl CatchUp {
    /// By default it is a packet's time at the highest rate: so much lateness costs no rate, and no
    /// class is ahead of its rate by more than a packet.
    pub fn new(pacing: Pacing, set: Option<Duration>) -> Self {
        Self {
            set,
            period: pacing.period,
            behind: Duration::ZERO,
            ready: None,
            last: Instant::START,
        }
    }

    /// The queue's rates have changed.
    pub fn repace(&mut self, pacing: Pacing) {
        self.period = pacing.period;
    }

    /// The queue's time by this time of the clock; what it skips is added to what was achieved.
    pub fn time(&mut self, now: Instant, idle: bool, achieved: &mut Achieved) -> Instant {
        if idle {
            self.last = now.max(self.by_clock(self.last));
            (self.behind, self.ready) = (Duration::ZERO, Some(self.last));
            return self.last;
        }
        let mut time = now - self.behind;
        if let Some(ready) = self.ready {
            let latest = ready + self.set.unwrap_or(self.period);
            let skipped = time.since(latest);
            self.behind += skipped;
            achieved.held_up += skipped;
            time = time.min(latest);
        }
        self.show(time)
    }

    /// Shows the queue this time of its own, unless it has seen a later one.
    pub fn show(&mut self, time: Instant) -> Instant {
        self.last = self.last.max(time);
        self.last
    }

    /// The queue waits until this time of its own. Returns when that is by the clock.
    pub fn wait(&mut self, until: Instant) -> Instant {
        self.ready = Some(until);
        self.by_clock(until)
    }

    /// The queue has sent a packet. Returns when that was due by the clock.
    pub fn send(&mut self) -> Instant {
        self.wait(self.last)
    }

    /// The port has no room by this time of the clock; nor, for all that is known, until a look
    /// that is as late as is usual.
    pub fn wait_for_room(&mut self, now: Instant) {
        let looked = now + LOOK + LATENESS - self.behind;
        self.ready = self.ready.max(Some(looked));
    }

    /// The queue is empty.
    pub fn rest(&mut self) {
        self.ready = None;
    }

    fn by_clock(&self, time: Instant) -> Instant {
        time + self.behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::Bandwidth;

    fn at(us: u64) -> Instant {
        Instant::START + Duration::from_micros(1_000_000 + us)
    }

    fn clock() -> CatchUp {
        let pacing = Pacing {
            wire: Bandwidth::gbit(1),
            frames: false,
            period: Duration::from_micros(24),
        };
        CatchUp::new(pacing, Some(Duration::from_millis(5)))
    }

    #[test]
    fn what_arrived_at_an_empty_queue_during_a_hold_up_is_caught_up_in_part_too() {
        let (mut clock, mut achieved) = (clock(), Achieved::default());
        // The first of the packets that arrived; the worker returns 17 ms later.
        assert_eq!(clock.time(at(0), true, &mut achieved), at(0));
        assert_eq!(clock.time(at(17_000), false, &mut achieved), at(5_000));
        assert_eq!(achieved.held_up, Duration::from_millis(12));
    }

    #[test]
    fn waiting_for_room_is_no_hold_up_but_a_look_for_it_that_is_too_late() {
        let (mut clock, mut achieved) = (clock(), Achieved::default());
        clock.set = None;
        // A slow wire, whose ring is full for 10 ms; the looks are as late as is usual.
        assert_eq!(clock.time(at(0), true, &mut achieved), at(0));
        for us in [0, 2_000, 3_000, 5_000, 6_500, 8_000, 10_000] {
            assert_eq!(clock.time(at(us), false, &mut achieved), at(us));
            clock.wait_for_room(at(us));
        }
        assert_eq!(achieved.held_up, Duration::ZERO);
        // The next look should be at 11 ms, may be at 12, and is at 40. A packet's time is added.
        assert_eq!(clock.time(at(40_000), false, &mut achieved), at(12_024));
        assert_eq!(achieved.held_up, Duration::from_micros(27_976));
        // The ring is full at once; time goes on from there.
        clock.wait_for_room(at(40_000));
        assert_eq!(clock.time(at(42_000), false, &mut achieved), at(14_024));
        assert_eq!(achieved.held_up, Duration::from_micros(27_976));
    }

    #[test]
    fn a_queue_that_was_shown_a_time_to_come_skips_nothing_on_its_way_there() {
        let (mut clock, mut achieved) = (clock(), Achieved::default());
        clock.set = None;
        assert_eq!(clock.show(at(800)), at(800));
        // It is empty, a packet arrives, and the time of that has not come 100 µs later.
        assert_eq!(clock.time(at(0), true, &mut achieved), at(800));
        assert_eq!(clock.time(at(100), false, &mut achieved), at(800));
        assert_eq!((clock.send(), achieved.held_up), (at(800), Duration::ZERO));
    }
}
