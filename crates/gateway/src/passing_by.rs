//! How much of what an interface sends passes by the engine: by a second route, a flow table, an
//! offload. The interface's own counters are compared with the engine's.
//!
//! The engine counts a frame when it hands it over, the interface when it is sent: up to a
//! transmit ring of frames is under way, and is allowed for. Between the two readings the loop may
//! hand over many frames, on a busy machine more than the share that is looked for in half a
//! second: what seems to pass by is held against the engine's count once more, read after the
//! interface's. Drivers count bytes by different
//! rules (with the check sequence, or a super-frame's headers once): only where the interface has
//! sent more frames, too, does anything pass by. What this cannot see: a virtual interface counts
//! a super-frame as a few percent less than its segments, which hides as much; and the arrivals of
//! an interface, which drivers count before what they drop.

use engine::queue::Count;
use engine::units::Bytes;
use std::collections::VecDeque;

/// More than so many percent is a fault.
const PERCENT: u64 = 2;

/// Looks that are kept, half a second apart.
const LOOKS: usize = 61;
/// Looks in each window: half a second, two seconds, half a minute.
const WINDOWS: [usize; 3] = [1, 4, LOOKS - 1];

/// The counters at a look, since any start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Look {
    /// What the interface has sent.
    pub interface: Count,
    /// What the engine has handed over to it.
    pub engine: Count,
}

/// The latest looks at an interface.
#[derive(Debug, Default)]
pub struct PassingBy(VecDeque<Look>);

/// What passed by within a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassedBy {
    /// Bytes that passed by.
    pub bytes: Bytes,
    /// All bytes of the interface.
    pub of: Bytes,
}

fn grown(now: u64, before: u64) -> u64 {
    now.saturating_sub(before)
}

impl PassingBy {
    /// Adds a look. `under_way`: how many frames the interface may have taken and not sent. `again`
    /// reads the engine's count once more, which is asked if too much seems to pass by.
    /// What passed by, if it is too much: within half a second or two, or within half a minute and
    /// now.
    pub fn look(
        &mut self,
        now: Look,
        under_way: u64,
        again: impl FnOnce() -> Option<Count>,
    ) -> Option<PassedBy> {
        let before = self.0.back();
        // Counters of an interface that was made anew, or of another engine.
        let restarted = |before: &Look| {
            before.interface.packets > now.interface.packets || before.engine.packets > now.engine.packets
        };
        if before.is_some_and(restarted) {
            self.0.clear();
        }
        if self.0.len() == LOOKS {
            self.0.pop_front();
        }
        self.0.push_back(now);
        self.judge(now, under_way)?;
        let engine = again()?;
        self.judge(Look { engine, ..now }, under_way)
    }

    fn judge(&self, now: Look, under_way: u64) -> Option<PassedBy> {
        let [shortest, short, long] = WINDOWS;
        let soon = self.within(now, shortest, under_way);
        soon.or_else(|| self.within(now, short, under_way)).or_else(|| {
            self.within(now, short, 0)?;
            self.within(now, long, under_way)
        })
    }

    fn within(&self, last: Look, looks: usize, under_way: u64) -> Option<PassedBy> {
        let first = self.0.get(self.0.len().checked_sub(looks + 1)?)?;
        let sent = |now: Count, before: Count| {
            (
                grown(now.packets, before.packets),
                grown(now.bytes.get(), before.bytes.get()),
            )
        };
        let (frames, bytes) = sent(last.interface, first.interface);
        let (known_frames, known_bytes) = sent(last.engine, first.engine);
        let allowed_bytes = under_way * bytes.checked_div(frames)?;
        let passed = grown(bytes, known_bytes);
        let too_much = |passed: u64, of: u64, allowed: u64| {
            passed > allowed && u128::from(passed) * 100 > u128::from(of) * u128::from(PERCENT)
        };
        let is_fault = too_much(passed, bytes, allowed_bytes)
            && too_much(grown(frames, known_frames), frames, under_way);
        is_fault.then_some(PassedBy {
            bytes: Bytes::new(passed),
            of: Bytes::new(bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks half a second apart: what interface and engine send in each, in frames of so many
    /// bytes by the one and by the other.
    fn judged(turns: &[(u64, u64)], (own, known): (u64, u64)) -> Vec<bool> {
        let (mut now, mut passing) = (Look::default(), PassingBy::default());
        let mut said = Vec::new();
        passing.look(now, 64, || None);
        for &(interface, engine) in turns {
            now.interface.packets += interface;
            now.interface.bytes += Bytes::new(own * interface);
            now.engine.packets += engine;
            now.engine.bytes += Bytes::new(known * engine);
            said.push(passing.look(now, 64, || Some(now.engine)).is_some());
        }
        said
    }

    const ALIKE: (u64, u64) = (1000, 1000);

    #[test]
    fn three_percent_that_pass_by_are_a_fault_and_one_percent_is_none() {
        let steady = |interface: u64, engine: u64| judged(&[(interface, engine); 100], ALIKE);
        assert!(steady(10_300, 10_000)[0], "after half a second");
        // It begins between two looks.
        let begins = judged(&[(10_000, 10_000), (10_150, 10_000), (10_300, 10_000)], ALIKE);
        assert_eq!(begins, [false, false, true]);
        assert!(!steady(10_100, 10_000).contains(&true));
        assert!(!steady(10_000, 10_000).contains(&true));
        // Few frames: only half a minute tells.
        let slow = steady(60, 54);
        assert!(!slow[..59].contains(&true) && slow[60], "{slow:?}");
        // All of it passes by, the engine has nothing.
        assert!(steady(100, 0)[0]);
        // No more than a ring in half a second: two seconds tell.
        let some = steady(1_030, 1_000);
        assert!(!some[..3].contains(&true) && some[3], "{some:?}");
    }

    #[test]
    fn what_the_loop_sends_between_the_two_readings_is_no_fault_and_hides_none() {
        let count = |packets: u64| Count {
            packets,
            bytes: Bytes::new(packets * 1_000),
        };
        // Of 10,000 frames in half a second 500 leave between the readings at every third look.
        for passes in [0, 300] {
            let mut passing = PassingBy::default();
            let said: Vec<bool> = (0..90)
                .map(|look: u64| {
                    let between = if look.is_multiple_of(3) { 500 } else { 0 };
                    let (engine, by) = (count(look * 10_000), look * passes);
                    let interface = count(look * 10_000 + between + by);
                    let again = || Some(count(look * 10_000 + between));
                    passing.look(Look { interface, engine }, 64, again).is_some()
                })
                .collect();
            match passes {
                0 => assert!(!said.contains(&true), "{said:?}"),
                // Such a look hides it once more when a window begins with it.
                _ => assert!(said[1..].windows(2).all(|two| two.contains(&true)), "{said:?}"),
            }
        }
    }

    #[test]
    fn a_ring_that_fills_and_drains_is_no_fault_and_neither_is_another_way_to_count() {
        let filled = [(0, 64), (1_000, 1_000), (1_000, 1_000), (64, 0), (0, 0), (0, 0)];
        assert!(!judged(&filled, ALIKE).contains(&true));
        // Small frames, with the check sequence by the driver: 6 % more bytes.
        assert!(!judged(&[(10_000, 10_000); 70], (68, 64)).contains(&true));
        // Super-frames that the card has cut: 40 times the frames.
        assert!(!judged(&[(40_000, 1_000); 70], (1_514, 40 * 1_514)).contains(&true));
    }

    #[test]
    fn it_is_over_two_seconds_after_nothing_passes_by_any_more() {
        let mut turns = vec![(1_000, 500); 20];
        turns.extend([(1_000, 1_000); 10]);
        let said = judged(&turns, ALIKE);
        assert!(said[19]);
        assert!(!said[24..].contains(&true), "{said:?}");
    }

    #[test]
    fn counters_that_start_again_are_no_fault() {
        let (mut passing, count) = (PassingBy::default(), |packets: u64| Count {
            packets,
            bytes: Bytes::new(packets * 1000),
        });
        let look = |interface: u64, engine: u64| Look {
            interface: count(interface),
            engine: count(engine),
        };
        for turn in 0..10 {
            let before = turn < 5;
            let now = match before {
                true => look(1_000_000 + turn * 1_000, turn * 1_000),
                false => look(turn * 1_000, turn * 1_000),
            };
            let again = || Some(now.engine);
            assert_eq!(passing.look(now, 64, again), None, "{turn}");
        }
    }
}
