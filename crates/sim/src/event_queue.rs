//! The event queue: events in the order of (time, order of scheduling).
//!
//! The order of scheduling breaks ties, so that a run depends on its description and seed alone.
//! An event gets its key when it is scheduled. Events of unrelated nodes that come in between keep
//! their order among themselves; so another node changes nothing for the others.
//!
//! This heap is not one of [`engine::structures`]: those have room for a number of things known
//! beforehand, and their keys have 96 bits. Here the heap grows, the key has 103 bits, and the root
//! stays vacant after it is taken, since most events schedule one other: one way down the heap in
//! place of one down and one up.

use engine::units::Instant;

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// The first packet in flight on this link reaches its end.
    Arrival(u32),
    /// The driver of this link asks its queue again.
    Drive(u32),
    /// This endpoint's timer may have expired.
    Timer(u32),
    /// A packet of this endpoint has left the first link's queue.
    TxComplete(u32),
    /// Somebody may send on this medium.
    Medium(u32),
}

/// The largest number of links, and of endpoints.
pub(crate) const MAX_INDEX: usize = 1 << INDEX_BITS;

/// Bits of the index of a link or endpoint, and of an event with it.
const INDEX_BITS: u32 = 22;
const EVENT_BITS: u32 = INDEX_BITS + 3;

impl Event {
    fn pack(self) -> u64 {
        let (kind, index) = match self {
            Self::Arrival(link) => (0, link),
            Self::Drive(link) => (1, link),
            Self::Timer(endpoint) => (2, endpoint),
            Self::TxComplete(endpoint) => (3, endpoint),
            Self::Medium(medium) => (4, medium),
        };
        kind << INDEX_BITS | u64::from(index)
    }

    fn unpack(entry: u128) -> Self {
        let index = entry as u32 & (MAX_INDEX as u32 - 1);
        match entry >> INDEX_BITS & 7 {
            0 => Self::Arrival(index),
            1 => Self::Drive(index),
            2 => Self::Timer(index),
            3 => Self::TxComplete(index),
            _ => Self::Medium(index),
        }
    }
}

/// The key of an event: 64 bits of time and 39 of the order of scheduling, with room for the event.
/// So a comparison is one of two words, and four entries of the heap share a cache line:
/// comparing them is what the simulator does most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct EventKey {
    at: u64,
    order: u64,
}

impl EventKey {
    /// Whether its event is at this time.
    pub(crate) fn is_at(self, at: Instant) -> bool {
        self.at == at.nanos()
    }
}

/// Children of a node of the heap: half the depth of a binary one.
const ARITY: usize = 4;

/// The scheduled events.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: Vec<u128>,
    /// The root was taken and is not replaced yet.
    root_vacant: bool,
    order: u64,
}

impl EventQueue {
    /// The key of an event at this time, behind all keys that were drawn before. After 2³⁹ of
    /// them, days of wall time, the order would overflow into the time.
    #[inline]
    pub(crate) fn key(&mut self, at: Instant) -> EventKey {
        self.order += 1;
        assert!(
            self.order < 1 << (64 - EVENT_BITS),
            "a simulation has at most 2^39 events"
        );
        EventKey {
            at: at.nanos(),
            order: self.order << EVENT_BITS,
        }
    }

    /// Inserts an event under a key that was drawn for it.
    pub(crate) fn insert(&mut self, key: EventKey, event: Event) {
        let entry = u128::from(key.at) << 64 | u128::from(key.order | event.pack());
        if self.root_vacant {
            self.root_vacant = false;
            return self.sift_down(entry);
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
        let key = self.key(at);
        self.insert(key, event);
    }

    /// Takes the next event, unless it is after `end`.
    pub(crate) fn pop_until(&mut self, end: Instant) -> Option<(Instant, Event)> {
        if self.root_vacant {
            self.root_vacant = false;
            let last = self.heap.pop()?;
            if !self.heap.is_empty() {
                self.sift_down(last);
            }
        }
        let first = *self.heap.first()?;
        let at = Instant::from_nanos((first >> 64) as u64);
        (at <= end).then(|| {
            self.root_vacant = true;
            (at, Event::unpack(first))
        })
    }

    /// Replaces the root by this entry and moves it down to its place.
    fn sift_down(&mut self, entry: u128) {
        let heap = &mut self.heap[..];
        let mut at = 0;
        loop {
            let first = at * ARITY + 1;
            let (least, child) = match heap.get(first..first + ARITY) {
                // Without branches on the comparisons: the processor would mispredict half of them.
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
    fn events_come_by_time_then_by_the_order_in_which_their_keys_were_drawn() {
        let mut queue = EventQueue::default();
        let at = |ns| Instant::from_nanos(ns);
        let early = queue.key(at(5));
        queue.schedule(at(5), Event::Timer(1));
        queue.schedule(at(3), Event::Timer(2));
        queue.insert(early, Event::Arrival(9));
        let mut seen = Vec::new();
        while let Some((_, event)) = queue.pop_until(at(5)) {
            seen.push(event);
        }
        assert_eq!(seen, [Event::Timer(2), Event::Arrival(9), Event::Timer(1)]);
    }

    #[test]
    fn events_after_the_end_stay() {
        let mut queue = EventQueue::default();
        queue.schedule(Instant::from_nanos(8), Event::Drive(0));
        assert_eq!(queue.pop_until(Instant::from_nanos(7)), None);
        assert!(queue.pop_until(Instant::from_nanos(8)).is_some());
    }

    #[test]
    fn random_events_come_by_time_and_at_the_same_time_in_the_order_of_scheduling() {
        let mut rng = engine::random::Seed(4).stream();
        let mut queue = EventQueue::default();
        let mut scheduled = 0;
        let mut more = |queue: &mut EventQueue, from: u64, count: u64| {
            for _ in 0..count {
                scheduled += 1;
                queue.schedule(Instant::from_nanos(from + rng.below(90)), Event::Timer(scheduled));
            }
            rng.below(3)
        };
        let mut next = more(&mut queue, 0, 500);
        let (mut last, mut seen) = ((Instant::START, 0), 0);
        while let Some((at, Event::Timer(number))) = queue.pop_until(Instant::from_nanos(20_000)) {
            assert!((at, number) > last, "{:?} after {last:?}", (at, number));
            (last, seen) = ((at, number), seen + 1);
            next = more(&mut queue, at.nanos(), next);
        }
        assert!(seen > 10_000, "{seen}");
    }
}
