//! How much of a hold-up of the host a realiser catches up, by a clock of its own for the queue.
//!
//! The queue's time stands still where more was missed. It starts again when the queue is empty. A
//! packet that arrives then may be sent from its arrival on: what a held-up worker finds on its
//! return was missed too, although nothing waited when the hold-up began.

use engine::discipline::Pacing;
use engine::units::{Duration, Instant};

/// The queue's clock.
#[derive(Debug)]
pub(super) struct CatchUp {
    /// How much missed time may be caught up at the speed of the wire, as set.
    set: Option<Duration>,
    /// Without the setting: a packet's time at the highest rate.
    period: Duration,
    /// By how much the queue's time is behind the clock: the time not caught up since the queue was
    /// last empty.
    pub behind: Duration,
    /// From this time on, in the queue's time, the queue may have a packet to send.
    pub ready: Option<Instant>,
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
        }
    }

    /// The queue's rates have changed.
    pub fn repace(&mut self, pacing: Pacing) {
        self.period = pacing.period;
    }

    /// The queue's time by this time of the clock, and what it skips.
    pub fn time(&mut self, now: Instant, idle: bool) -> (Instant, Duration) {
        if idle {
            (self.behind, self.ready) = (Duration::ZERO, Some(now));
            return (now, Duration::ZERO);
        }
        let time = now - self.behind;
        let Some(latest) = self.ready.map(|ready| ready + self.set.unwrap_or(self.period)) else {
            return (time, Duration::ZERO);
        };
        let skipped = time.since(latest);
        self.behind += skipped;
        (time.min(latest), skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::Bandwidth;

    #[test]
    fn what_arrived_at_an_empty_queue_during_a_hold_up_is_caught_up_in_part_too() {
        let at = |ms: u64| Instant::START + Duration::from_millis(1_000 + ms);
        let pacing = Pacing {
            wire: Bandwidth::gbit(1),
            frames: false,
            period: Duration::from_micros(24),
        };
        let mut clock = CatchUp::new(pacing, Some(Duration::from_millis(5)));
        // The first of the packets that arrived; the worker returns 17 ms later.
        assert_eq!(clock.time(at(0), true).0, at(0));
        assert_eq!(clock.time(at(17), false), (at(5), Duration::from_millis(12)));
    }
}
