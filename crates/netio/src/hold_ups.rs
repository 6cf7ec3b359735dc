//! Times at which the host held the packet loop up, and what of a packet's delay they excuse.
//!
//! Nothing guarantees when a thread runs: its processor may be another's, its process stopped, its
//! machine a virtual one that stands still. Seen is what cannot be the loop's own doing: it waited
//! until a time that it had said before, or for what its ports receive, and ran later than that, or
//! than the time at which the first of it had arrived, by more than is usual
//! ([`Link::lateness`](engine::link::Link::lateness), which is in every bound). What a turn of the
//! loop takes is its own, even where it was interrupted: a slow port or discipline excuses nothing.
//!
//! A hold-up is in the delays of what was queued at its end or arrives until the queue that it
//! caused is worked off: until the path is empty, or [`AFTER`] times as long as the hold-up was. A
//! server that stands still for a time ends nothing later by more than that time, as long as it
//! always works while something waits (Lindley, "The theory of queues with a single server", 1952).
//! So each of these packets is excused by the length of the hold-up, and by no more: what it waited
//! beyond that is the discipline's.
//!
//! A class that is promised just the rate at which its senders send works its queue off more
//! slowly. Where they keep to a curve (`sends`), it is concerned as long as it has had a queue ever
//! since, up to [`OF_CLASS`] times as long as the hold-up was; other classes may always have one.

use crate::beside::ThreadBeside;
use crate::{clock, sys};
use engine::link::LATENESS;
use engine::units::{Duration, Instant};
pub use measure::hold_ups::{AFTER, HoldUp, OF_CLASS};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The latest hold-ups that a path with a standing queue remembers. Those before excuse nothing.
const REMEMBERED: usize = 64;

/// Where threads that belong together write down their hold-ups. Clones are of one log.
#[derive(Clone, Debug, Default)]
pub struct HoldUpLog(Arc<Mutex<Vec<HoldUp>>>);

impl HoldUpLog {
    /// Writes one down.
    pub fn note(&self, hold_up: HoldUp) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(hold_up);
    }

    /// All so far.
    pub fn read(&self) -> Vec<HoldUp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How often a watching thread looks whether it runs.
const LOOK: Duration = Duration::from_micros(500);

/// Starts a thread that looks whether it runs, and writes down when it did not for more than
/// [`LATENESS`]. In real time, where that is permitted, as packet loops are.
///
/// # Errors
/// If it cannot be started.
pub fn watcher(log: &HoldUpLog) -> io::Result<ThreadBeside> {
    let log = log.clone();
    ThreadBeside::start("watcher", move |over| watch(&log, over))
}

fn watch(log: &HoldUpLog, over: &dyn Fn() -> bool) {
    sys::set_timer_slack(1);
    // Without the permission it is held up as ordinary threads are.
    let _ = sys::set_realtime(1);
    let mut last = clock::now();
    while !over() {
        let _ = sys::wait(&mut [], LOOK.nanos());
        let now = clock::now();
        HoldUp::noticed(last, now, LATENESS)
            .into_iter()
            .for_each(|one| log.note(one));
        last = now;
    }
}

/// What hold-ups excuse at one path.
#[derive(Debug, Default)]
pub(crate) struct Excuses {
    /// What arrives from then on is excused by nothing. All there is to ask of most packets.
    until: Instant,
    recent: VecDeque<HoldUp>,
}

impl Excuses {
    /// The loop was held up.
    pub(crate) fn held_up(&mut self, hold_up: HoldUp) {
        self.recent.retain(|one| hold_up.from < one.worked_off_in_class());
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(hold_up);
        self.until = self.until.max(hold_up.worked_off_in_class());
    }

    /// Whether a packet that arrived then may be excused.
    #[inline]
    pub(crate) fn concern(&self, arrived: Instant) -> bool {
        arrived < self.until
    }

    /// By how much a packet is excused, of a class whose senders keep to a curve and that has had
    /// packets since then, or of another.
    pub(crate) fn of(&self, arrived: Instant, left: Instant, backlogged: Option<Instant>) -> Duration {
        let concern = |one: &&HoldUp| {
            let ever_since = backlogged.is_some_and(|since| since < one.until);
            one.from < left
                && (arrived < one.worked_off() || (ever_since && arrived < one.worked_off_in_class()))
        };
        let sum = self.recent.iter().filter(concern).map(|one| one.length());
        sum.fold(Duration::ZERO, |all, one| all + one)
            .min(left.since(arrived))
    }

    /// Nothing is queued any more: what was late has left.
    #[inline]
    pub(crate) fn emptied(&mut self) {
        if self.until != Instant::START {
            self.until = Instant::START;
            self.recent.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::START + Duration::from_millis(ms)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn hold_up(from: u64, until: u64) -> HoldUp {
        HoldUp::noticed(at(from), at(until), LATENESS).expect("it is long enough")
    }

    #[test]
    fn what_is_usual_is_no_hold_up() {
        assert_eq!(HoldUp::noticed(at(5), at(6), LATENESS), None);
        assert_eq!(HoldUp::noticed(at(6), at(5), LATENESS), None);
        assert!(HoldUp::noticed(at(5), at(6), ms(1) - Duration::from_nanos(1)).is_some());
    }

    /// A hold-up excuses what it was in the way of, by its length at most, until its queue is gone.
    #[test]
    fn a_packet_is_excused_by_the_hold_ups_that_were_in_its_way_and_by_no_more_than_they_took() {
        let mut excuses = Excuses::default();
        assert!(!excuses.concern(at(0)), "there was none");
        excuses.held_up(hold_up(100, 103));
        let of = |arrived, left| match excuses.concern(at(arrived)) {
            true => excuses.of(at(arrived), at(left), None),
            false => ms(0),
        };
        assert_eq!(of(99, 104), ms(3));
        assert_eq!(of(20, 104), ms(3), "it had waited for long");
        assert_eq!(of(102, 104), ms(2), "no more than it waited");
        assert_eq!(of(110, 120), ms(3), "behind what came together");
        assert_eq!(of(132, 140), ms(3));
        assert_eq!(of(133, 140), ms(0), "too long after it");
        excuses.held_up(hold_up(106, 108));
        let of = |arrived, left| excuses.of(at(arrived), at(left), None);
        assert_eq!(of(99, 110), ms(5), "both");
        assert_eq!(of(99, 105), ms(3), "it had left before the second");
        assert_eq!(of(127, 140), ms(5));
        assert_eq!(of(129, 140), ms(3), "that of the second is gone");
        excuses.emptied();
        assert!(!excuses.concern(at(109)), "the queue is gone");
    }

    /// Served a little faster than it sends, a class needs long to work its queue off.
    #[test]
    fn a_class_of_a_curve_is_excused_as_long_as_it_has_had_a_queue_since_the_hold_up() {
        let mut excuses = Excuses::default();
        excuses.held_up(hold_up(100, 103));
        let of = |arrived, since| excuses.of(at(arrived), at(arrived + 10), Some(at(since)));
        assert!(excuses.concern(at(3_000)));
        assert_eq!(of(3_000, 102), ms(3), "ever since");
        assert_eq!(of(3_000, 103), ms(0), "it was empty after the hold-up");
        assert_eq!(of(110, 105), ms(3), "what goes before it is not worked off");
        assert_eq!(
            excuses.of(at(3_000), at(3_010), None),
            ms(0),
            "senders of no curve"
        );
        assert!(!excuses.concern(at(3_103)), "too long after it");
    }

    #[test]
    fn the_latest_are_remembered_and_those_before_excuse_nothing() {
        let mut excuses = Excuses::default();
        for n in 0..100 {
            excuses.held_up(hold_up(10 * n, 10 * n + 2));
        }
        let all = excuses.of(at(0), at(20_000), None);
        assert_eq!(all, ms(2 * REMEMBERED as u64));
        excuses.held_up(hold_up(10_000, 10_002));
        assert_eq!(
            excuses.recent.len(),
            1,
            "those that concern nothing any more are forgotten"
        );
    }
}
