//! The agenda: what is to happen, ordered by (time, order of scheduling).
//!
//! The order breaks ties, so that a run depends on nothing but its description and its seed. It is drawn when a thing
//! is scheduled; things of unrelated nodes that come in between keep their order among themselves, which is why
//! adding a node changes nothing for the others.

use engine::units::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is to happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Event {
    /// The foremost packet on this link reaches its end.
    Arrive(u32),
    /// The driver of this link asks its queue again.
    Drive(u32),
    /// This endpoint's timer may have run out.
    Wake(u32),
}

/// A place in the order: the time, then the order of scheduling.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub(crate) at: Instant,
    order: u64,
}

/// Things to happen.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<(Place, Event)>>,
    order: u64,
}

impl Agenda {
    /// A place at this time, behind all that were drawn before.
    pub(crate) fn place(&mut self, at: Instant) -> Place {
        self.order += 1;
        Place {
            at,
            order: self.order,
        }
    }

    /// Puts an event down at a place that was drawn for it.
    pub(crate) fn put(&mut self, place: Place, event: Event) {
        self.heap.push(Reverse((place, event)));
    }

    /// Schedules an event.
    pub(crate) fn schedule(&mut self, at: Instant, event: Event) {
        let place = self.place(at);
        self.put(place, event);
    }

    /// The next event, if it is not after `end`.
    pub(crate) fn next(&mut self, end: Instant) -> Option<(Instant, Event)> {
        let at = self.heap.peek()?.0.0.at;
        if at > end {
            return None;
        }
        self.heap.pop().map(|Reverse((place, event))| (place.at, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_by_the_order_in_which_their_places_were_drawn() {
        let mut agenda = Agenda::default();
        let at = |ns| Instant::from_nanos(ns);
        let early = agenda.place(at(5));
        agenda.schedule(at(5), Event::Wake(1));
        agenda.schedule(at(3), Event::Wake(2));
        agenda.put(early, Event::Arrive(9));
        let mut seen = Vec::new();
        while let Some((_, event)) = agenda.next(at(5)) {
            seen.push(event);
        }
        assert_eq!(seen, [Event::Wake(2), Event::Arrive(9), Event::Wake(1)]);
    }

    #[test]
    fn what_lies_after_the_end_stays() {
        let mut agenda = Agenda::default();
        agenda.schedule(Instant::from_nanos(8), Event::Drive(0));
        assert_eq!(agenda.next(Instant::from_nanos(7)), None);
        assert!(agenda.next(Instant::from_nanos(8)).is_some());
    }
}
