//! How much of what an interface sends passes by the engine: by a second route, a flow table, an
//! offload. The interface's own counters are compared with the engine's.
//!
//! The engine counts a frame when it hands it over, the interface when it is sent: up to a
//! transmit ring of frames is under way, and is allowed for. Drivers count bytes by different
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
/// Looks in a short window.
const SHORT: usize = 4;

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
    /// Adds a look. `under_way`: how many frames the interface may have taken and not sent.
    /// What passed by, if it is too much: within two seconds, or within half a minute and now.
    pub fn look(&mut self, now: Look, under_way: u64) -> Option<PassedBy> {
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
        let short = self.within(SHORT, under_way);
        short.or_else(|| {
            self.within(SHORT, 0)?;
            self.within(LOOKS - 1, under_way)
        })
    }

    fn within(&self, looks: usize, under_way: u64) -> Option<PassedBy> {
        let last = self.0.back()?;
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
        passing.look(now, 64);
        for &(interface, engine) in turns {
            now.interface.packets += interface;
            now.interface.bytes += Bytes::new(own * interface);
            now.engine.packets += engine;
            now.engine.bytes += Bytes::new(known * engine);
            said.push(passing.look(now, 64).is_some());
        }
        said
    }

    const ALIKE: (u64, u64) = (1000, 1000);

    #[test]
    fn three_percent_that_pass_by_are_a_fault_and_one_percent_is_none() {
        let steady = |interface: u64, engine: u64| judged(&[(interface, engine); 100], ALIKE);
        assert!(steady(10_300, 10_000)[3], "after two seconds");
        assert!(!steady(10_100, 10_000).contains(&true));
        assert!(!steady(10_000, 10_000).contains(&true));
        // Few frames: only half a minute tells.
        let slow = steady(60, 54);
        assert!(!slow[..59].contains(&true) && slow[60], "{slow:?}");
        // All of it passes by, the engine has nothing.
        assert!(steady(100, 0)[3]);
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
            assert_eq!(passing.look(now, 64), None, "{turn}");
        }
    }
}
