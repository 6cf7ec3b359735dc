//! Times at which this machine stood still during a run, and the packets on whose way they were.
//!
//! The threads of links write down when they ran late, and a thread that does nothing but look at
//! the clock, [every half a millisecond](netio::hold_ups::watcher), when it did not come to that.
//! What a link hands over late comes together at the next, and waits there in front of packets that
//! were punctual themselves: also for some time [afterwards](HoldUp::worked_off).
//!
//! This tells which packets say nothing about the network that is emulated. By how much a packet is
//! late that a link held up itself, [`hold_ups`](crate::hold_ups) tells.

use engine::units::{Duration, Instant};
use measure::hold_ups::HoldUp;

/// When the machine stood still.
#[derive(Clone, Debug, Default)]
pub struct StoodStill {
    /// In order, without overlaps.
    times: Vec<HoldUp>,
    /// The same, each until what came together because of it is worked off.
    concerned: Vec<HoldUp>,
}

impl StoodStill {
    /// From these hold-ups, of several threads, in any order.
    pub fn of(hold_ups: Vec<HoldUp>) -> Self {
        let times = joined(hold_ups);
        let until_worked_off = times.iter().map(|one| HoldUp {
            until: one.worked_off(),
            ..*one
        });
        Self {
            concerned: joined(until_worked_off.collect()),
            times,
        }
    }

    /// Whether that was on the way of a packet that was sent and arrived then.
    pub fn was_on_the_way(&self, sent: Instant, arrived: Instant) -> bool {
        let begun = self.concerned.partition_point(|one| one.from < arrived);
        begun
            .checked_sub(1)
            .is_some_and(|last| self.concerned[last].until > sent)
    }

    /// How often.
    pub fn count(&self) -> usize {
        self.times.len()
    }

    /// The longest time.
    pub fn longest(&self) -> Duration {
        let lengths = self.times.iter().map(|one| one.length());
        lengths.max().unwrap_or_default()
    }
}

/// In order, those that touch as one.
fn joined(mut spans: Vec<HoldUp>) -> Vec<HoldUp> {
    spans.sort_by_key(|one| one.from);
    let mut all: Vec<HoldUp> = Vec::with_capacity(spans.len());
    for span in spans {
        match all.last_mut().filter(|last| last.until >= span.from) {
            Some(last) => last.until = last.until.max(span.until),
            None => all.push(span),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::START + Duration::from_millis(ms)
    }

    fn span(from: u64, until: u64) -> HoldUp {
        HoldUp {
            from: at(from),
            until: at(until),
        }
    }

    #[test]
    fn what_several_threads_saw_is_one_time_and_concerns_packets_until_it_is_worked_off() {
        let still = StoodStill::of(vec![
            span(501, 502),
            span(100, 103),
            span(101, 104),
            span(500, 501),
        ]);
        assert_eq!((still.count(), still.longest()), (2, Duration::from_millis(4)));
        let on_the_way = |sent, arrived| still.was_on_the_way(at(sent), at(arrived));
        assert!(!on_the_way(80, 100), "it had arrived");
        assert!(on_the_way(80, 101));
        assert!(on_the_way(102, 103));
        assert!(on_the_way(143, 150), "4 ms are worked off after 40");
        assert!(!on_the_way(144, 150));
        assert!(on_the_way(50, 400), "all of it was on its way");
        assert!(!on_the_way(200, 400));
        assert!(on_the_way(521, 522) && !on_the_way(522, 523));
        assert!(!StoodStill::default().was_on_the_way(at(0), at(1_000)));
    }
}
