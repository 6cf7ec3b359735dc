//! The agenda: what is to happen, ordered by (time, order of scheduling).
//!
//! The order breaks ties, so that a run depends on nothing but its description and its seed. It is drawn when a thing
//! is scheduled; things of unrelated nodes that come in between keep their order among themselves, which is why
//! adding a node changes nothing for the others.

use engine::units::Instant;

/// What is to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// The foremost packet on this link reaches its end.
    Arrive(u32),
    /// The driver of this link asks its queue again.
    Drive(u32),
    /// This endpoint's timer may have run out.
    Wake(u32),
    /// A packet of this endpoint has left the first queue.
    Left(u32),
}

/// Links at most, and endpoints at most.
pub(crate) const MOST: usize = 1 << NUMBER;

/// Bits of a link's or an endpoint's number, and of an event with it.
const NUMBER: u32 = 22;
const EVENT: u32 = NUMBER + 2;

impl Event {
    fn pack(self) -> u64 {
        let (kind, number) = match self {
            Self::Arrive(link) => (0, link),
            Self::Drive(link) => (1, link),
            Self::Wake(endpoint) => (2, endpoint),
            Self::Left(endpoint) => (3, endpoint),
        };
        kind << NUMBER | u64::from(number)
    }

    fn unpack(entry: u128) -> Self {
        let number = entry as u32 & (MOST as u32 - 1);
        match entry >> NUMBER & 3 {
            0 => Self::Arrive(number),
            1 => Self::Drive(number),
            2 => Self::Wake(number),
            _ => Self::Left(number),
        }
    }
}

/// A place in the order: 64 bits of time, 40 of the order of scheduling, and room for an event. One comparison of two
/// words, and four entries of the heap in a cache line: it is what the simulator does most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    at: u64,
    order: u64,
}

/// Children of a place in the heap: half the depth of two.
const ARITY: usize = 4;

/// Things to happen: a heap. Most events schedule one other, so the place of the one that was taken is kept open and
/// filled by the next that is put: one way down the heap in place of one up and one down.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: Vec<u128>,
    /// Whether the root has been taken and not yet filled.
    open: bool,
    order: u64,
}

impl Agenda {
    /// A place at this time, behind all that were drawn before. After 2⁴⁰ of them, which is days of wall time, the order
    /// would run into the time.
    #[inline]
    pub(crate) fn place(&mut self, at: Instant) -> Place {
        self.order += 1;
        assert!(
            self.order < 1 << (64 - EVENT),
            "a simulation has at most 2^40 events"
        );
        Place {
            at: at.nanos(),
            order: self.order << EVENT,
        }
    }

    /// Puts an event down at a place that was drawn for it.
    pub(crate) fn put(&mut self, place: Place, event: Event) {
        let entry = u128::from(place.at) << 64 | u128::from(place.order | event.pack());
        if self.open {
            self.open = false;
            return self.down(entry);
        }
        let mut at = self.heap.len();
        self.heap.push(entry);
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent] <= entry {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = entry;
    }

    /// Schedules an event.
    pub(crate) fn schedule(&mut self, at: Instant, event: Event) {
        let place = self.place(at);
        self.put(place, event);
    }

    /// The next event, if it is not after `end`.
    pub(crate) fn next(&mut self, end: Instant) -> Option<(Instant, Event)> {
        if self.open {
            self.open = false;
            let last = self.heap.pop()?;
            if !self.heap.is_empty() {
                self.down(last);
            }
        }
        let first = *self.heap.first()?;
        let at = Instant::from_nanos((first >> 64) as u64);
        (at <= end).then(|| {
            self.open = true;
            (at, Event::unpack(first))
        })
    }

    /// Puts an entry in at the root, and moves it to where it belongs.
    fn down(&mut self, entry: u128) {
        let heap = &mut self.heap[..];
        let mut at = 0;
        loop {
            let first = at * ARITY + 1;
            let (least, child) = match heap.get(first..first + ARITY) {
                // No branch depends on the comparisons here: the processor would guess half of them wrong.
                Some(&[a, b, c, d]) => {
                    let (ab, at_ab) = if b < a { (b, first + 1) } else { (a, first) };
                    let (cd, at_cd) = if d < c { (d, first + 3) } else { (c, first + 2) };
                    if cd < ab { (cd, at_cd) } else { (ab, at_ab) }
                }
                _ => match (first..heap.len()).min_by_key(|&child| heap[child]) {
                    Some(child) => (heap[child], child),
                    None => break,
                },
            };
            if least >= entry {
                break;
            }
            heap[at] = least;
            at = child;
        }
        heap[at] = entry;
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

    #[test]
    fn random_events_come_by_time_and_at_one_time_in_the_order_in_which_they_were_scheduled() {
        let mut rng = engine::random::Seed(4).stream();
        let mut agenda = Agenda::default();
        let mut scheduled = 0;
        let mut more = |agenda: &mut Agenda, from: u64, count: u64| {
            for _ in 0..count {
                scheduled += 1;
                agenda.schedule(Instant::from_nanos(from + rng.below(90)), Event::Wake(scheduled));
            }
            rng.below(3)
        };
        let mut next = more(&mut agenda, 0, 500);
        let (mut last, mut seen) = ((Instant::START, 0), 0);
        while let Some((at, Event::Wake(number))) = agenda.next(Instant::from_nanos(20_000)) {
            assert!((at, number) > last, "{:?} after {last:?}", (at, number));
            (last, seen) = ((at, number), seen + 1);
            next = more(&mut agenda, at.nanos(), next);
        }
        assert!(seen > 10_000, "{seen}");
    }
}
