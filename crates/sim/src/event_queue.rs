//! The event queue: events in the order of (time, order of scheduling).
//!
//! The order of scheduling breaks ties, so that a run depends on its description and seed alone.
//! An event gets its key when it is scheduled. Events of unrelated nodes that come in between keep
//! their order among themselves; so another node changes nothing for the others.
//!
//! The next few events are sorted; those behind are in a radix heap (Ahuja, Mehlhorn, Orlin and
//! Tarjan 1990): a bucket for each highest bit in which their times differ from a time that has
//! passed, not sorted. The first bucket becomes the next few events, or is divided among those
//! before it. So an event moves a few times at most, and each time is written behind others: with
//! tens of thousands of events memory is read in order, where a heap of comparisons would jump.

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

/// Buckets: one for each bit of a time.
const BUCKETS: usize = u64::BITS as usize;
/// The events of a bucket at most that are sorted; more are divided first.
const FEW: usize = 16;
/// Sorted events at most, unless they are of one time: more go back into buckets.
const MOST: usize = 64;

/// The scheduled events.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// Those up to `until`, the next one last.
    front: Vec<u128>,
    until: u64,
    /// The others, by the highest bit in which their times differ from `base`.
    buckets: [Vec<u128>; BUCKETS],
    base: u64,
    /// Which buckets have any, a bit for each.
    occupied: u64,
    order: u64,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self {
            front: Vec::new(),
            until: 0,
            buckets: [const { Vec::new() }; BUCKETS],
            base: 0,
            occupied: 0,
            order: 0,
        }
    }
}

/// The time of an event with its key.
fn time_of(entry: u128) -> u64 {
    (entry >> 64) as u64
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
    #[inline]
    pub(crate) fn insert(&mut self, key: EventKey, event: Event) {
        let entry = u128::from(key.at) << 64 | u128::from(key.order | event.pack());
        if key.at > self.until {
            self.put_behind(entry);
        } else {
            self.insert_in_front(entry);
        }
    }

    /// Puts an event into its bucket; it is after `until`.
    #[inline]
    fn put_behind(&mut self, entry: u128) {
        let bucket = (time_of(entry) ^ self.base).ilog2();
        self.buckets[bucket as usize].push(entry);
        self.occupied |= 1 << bucket;
    }

    fn insert_in_front(&mut self, entry: u128) {
        let place = self.front.partition_point(|other| *other > entry);
        self.front.insert(place, entry);
        if self.front.len() > MOST && self.until > self.base {
            let mut entries = std::mem::take(&mut self.front);
            self.divide(&mut entries);
        }
    }

    /// Schedules an event.
    pub(crate) fn schedule(&mut self, at: Instant, event: Event) {
        let key = self.key(at);
        self.insert(key, event);
    }

    /// Takes the next event, unless it is after `end`.
    #[inline]
    pub(crate) fn pop_until(&mut self, end: Instant) -> Option<(Instant, Event)> {
        if self.front.is_empty() {
            self.refill();
        }
        let next = self
            .front
            .pop_if(|next| Instant::from_nanos(time_of(*next)) <= end)?;
        Some((Instant::from_nanos(time_of(next)), Event::unpack(next)))
    }

    /// The first bucket with any events gives the next ones.
    fn refill(&mut self) {
        if self.occupied == 0 {
            return;
        }
        let bucket = self.occupied.trailing_zeros();
        self.occupied &= !(1 << bucket);
        let mut entries = std::mem::take(&mut self.buckets[bucket as usize]);
        if entries.len() > FEW {
            self.divide(&mut entries);
        } else {
            self.until = time_of(entries[0]) | ((1 << bucket) - 1);
            self.front.append(&mut entries);
            self.sort_front();
        }
        // Its memory stays.
        self.buckets[bucket as usize] = entries;
    }

    /// Of events of the first bucket or of the front, those of the least time stay in front, and
    /// the others go into buckets.
    fn divide(&mut self, entries: &mut Vec<u128>) {
        let least = entries.iter().copied().map(time_of).min();
        self.base = self.base.max(least.unwrap_or(0));
        self.until = self.base;
        for entry in entries.drain(..) {
            if time_of(entry) > self.until {
                self.put_behind(entry);
            } else {
                self.front.push(entry);
            }
        }
        self.sort_front();
    }

    fn sort_front(&mut self) {
        self.front.sort_unstable_by(|a, b| b.cmp(a));
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
    fn one_of_a_time_that_has_passed_comes_next() {
        let mut queue = EventQueue::default();
        let at = |ns| Instant::from_nanos(ns);
        for (ns, timer) in [(40, 1), (50, 2), (9_000, 3)] {
            queue.schedule(at(ns), Event::Timer(timer));
        }
        assert_eq!(queue.pop_until(at(45)), Some((at(40), Event::Timer(1))));
        assert_eq!(queue.pop_until(at(45)), None);
        queue.schedule(at(7), Event::Timer(4));
        let left: Vec<_> = std::iter::from_fn(|| queue.pop_until(at(9_000))).collect();
        let expected = [(7, 4), (50, 2), (9_000, 3)];
        assert_eq!(left, expected.map(|(ns, timer)| (at(ns), Event::Timer(timer))));
    }

    #[test]
    fn random_events_come_by_time_and_at_the_same_time_in_the_order_of_scheduling() {
        let mut rng = engine::random::Seed(4).stream();
        let mut queue = EventQueue::default();
        let mut scheduled = 0;
        let mut more = |queue: &mut EventQueue, from: u64, count: u64| {
            for _ in 0..count {
                scheduled += 1;
                let distance = rng.below(90) << rng.below(4);
                queue.schedule(Instant::from_nanos(from + distance), Event::Timer(scheduled));
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
