//! Meters of the classes of a path: packets and bytes sent, the rate over the last second, and
//! queueing delays, with and without what the host [held packets up](crate::hold_ups) for.

use engine::packet::ClassId;
use engine::queue::Count;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::delay::Delays;
use measure::hold_ups::HeldUpDelays;
use std::ops::Range;

/// Parts of the second over which a rate is measured.
const PARTS: u64 = 10;
const PART: Duration = Duration::from_millis(1000 / PARTS);

/// Bytes of the last second, in tenths: the rate is at most a tenth of a second old.
#[derive(Clone, Debug, Default)]
struct Recent {
    /// One part more than is summed, as the current one is incomplete.
    parts: [u64; PARTS as usize + 1],
    current: u64,
}

impl Recent {
    /// Clears the parts that are older than a second.
    fn advance(&mut self, now: Instant) {
        let part = now.nanos() / PART.nanos();
        let past = part.saturating_sub(self.current).min(self.parts.len() as u64);
        for passed in 0..past {
            let index = (part - passed) % self.parts.len() as u64;
            self.parts[index as usize] = 0;
        }
        self.current = self.current.max(part);
    }

    fn add(&mut self, now: Instant, len: Bytes) {
        self.advance(now);
        self.parts[(self.current % self.parts.len() as u64) as usize] += len.get();
    }

    fn rate(&mut self, now: Instant) -> Bandwidth {
        self.advance(now);
        let current = self.parts[(self.current % self.parts.len() as u64) as usize];
        let complete = self.parts.iter().sum::<u64>() - current;
        Bandwidth::of(Bytes::new(complete), PART.times(PARTS))
    }
}

/// The meter of one class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    sent: Count,
    short: Count,
    /// Those that no hold-up concerns.
    delays: Delays,
    recent: Recent,
    /// When its last packet left, and the first of those that came while others waited.
    left: Instant,
    backlogged: Instant,
    held_up: Option<Box<HeldUp>>,
}

impl Meter {
    /// A packet that arrived then leaves. One that arrived after the last has left came to no
    /// queue.
    fn leaves(&mut self, arrived: Instant, left: Instant) {
        if arrived >= self.left {
            self.backlogged = arrived;
        }
        self.left = left;
    }
}

/// The packets of a class that were held up.
#[derive(Clone, Debug, Default)]
struct HeldUp {
    /// Their delays, and the same less what they are excused by.
    measured: Delays,
    excused: Delays,
    /// That.
    by: Delays,
}

/// The meter of a class, as a snapshot shows it.
#[derive(Clone, Debug)]
pub struct ClassMeter {
    /// The class.
    pub class: ClassId,
    /// Packets and bytes sent since the path was made.
    pub sent: Count,
    /// What was dropped before it was queued, since memory was short ([`Reason::Memory`]).
    ///
    /// [`Reason::Memory`]: engine::discipline::Reason::Memory
    pub short: Count,
    /// The rate over the last full second.
    pub rate: Bandwidth,
    /// Queueing delays since the path was made.
    pub delays: Delays,
    /// What of them was the host's doing, if anything was.
    pub held_up: Option<HeldUpDelays>,
}

impl ClassMeter {
    /// Of no class yet, in the memory of these delays.
    pub(crate) fn blank(delays: Delays) -> Self {
        Self {
            class: ClassId(0),
            sent: Count::default(),
            short: Count::default(),
            rate: Bandwidth::ZERO,
            delays,
            held_up: None,
        }
    }
}

/// Meters that are made together.
const BLOCK: usize = 32;

/// The meters of a path, in blocks that are made when a class of them has its first packet: neither
/// memory nor time is spent for the others.
#[derive(Debug, Default)]
pub(crate) struct Meters(Vec<Option<Box<[Meter]>>>);

impl Meters {
    /// For so many classes.
    pub(crate) fn new(classes: u32) -> Self {
        let mut blocks = Vec::new();
        blocks.resize_with((classes as usize).div_ceil(BLOCK), || None);
        Self(blocks)
    }

    fn meter(&mut self, class: ClassId) -> &mut Meter {
        let index = class.0 as usize;
        if index / BLOCK >= self.0.len() {
            self.0.resize_with(index / BLOCK + 1, || None);
        }
        let block = self.0[index / BLOCK].get_or_insert_with(|| {
            let meters = std::iter::repeat_with(Meter::default);
            meters.take(BLOCK).collect()
        });
        &mut block[index % BLOCK]
    }

    /// Counts a packet that is dropped since memory is short.
    pub(crate) fn short(&mut self, class: ClassId, len: Bytes) {
        self.meter(class).short += len;
    }

    /// Counts a departure. Allocates only at the first one of a class or of its neighbours.
    pub(crate) fn depart(
        &mut self,
        now: Instant,
        class: ClassId,
        len: Bytes,
        (arrived, left): (Instant, Instant),
    ) {
        let meter = self.meter(class);
        meter.leaves(arrived, left);
        meter.sent += len;
        meter.delays.record(left.since(arrived));
        meter.recent.add(now, len);
    }

    /// Counts a departure that hold-ups may concern: `excuse` tells how much of the delay they are,
    /// by the time since which its class has had packets.
    #[cold]
    pub(crate) fn depart_late(
        &mut self,
        now: Instant,
        class: ClassId,
        len: Bytes,
        (arrived, left): (Instant, Instant),
        excuse: impl FnOnce(Instant) -> Duration,
    ) {
        let meter = self.meter(class);
        meter.leaves(arrived, left);
        let (delay, excused) = (left.since(arrived), excuse(meter.backlogged));
        if excused == Duration::ZERO {
            meter.sent += len;
            meter.recent.add(now, len);
            return meter.delays.record(delay);
        }
        meter.sent += len;
        meter.recent.add(now, len);
        let held_up = meter.held_up.get_or_insert_default();
        held_up.measured.record(delay);
        held_up.excused.record(delay - excused);
        held_up.by.record(excused);
    }

    /// Forgets what a class has sent, as its number is another's now.
    pub(crate) fn clear(&mut self, class: ClassId) {
        let index = class.0 as usize;
        if let Some(Some(block)) = self.0.get_mut(index / BLOCK) {
            block[index % BLOCK] = Meter::default();
        }
    }

    /// The meters of classes of which anything was sent or dropped, in the memory of those that are
    /// given, as long as there are enough. How many they are.
    pub(crate) fn show(&mut self, now: Instant, window: Range<u32>, shown: &mut Vec<ClassMeter>) -> usize {
        let first = (window.start as usize / BLOCK).min(self.0.len());
        let last = (window.end as usize).div_ceil(BLOCK).min(self.0.len());
        let blocks = self.0[first..last].iter_mut().zip(first..);
        let meters = blocks.flat_map(|(block, number)| {
            let meters = block.iter_mut().flat_map(|block| block.iter_mut());
            meters.zip(number as u32 * BLOCK as u32..)
        });
        let used = |(meter, class): &(&mut Meter, u32)| {
            window.contains(class) && meter.sent.packets + meter.short.packets > 0
        };
        let mut count = 0;
        for (meter, class) in meters.filter(used) {
            if count == shown.len() {
                shown.push(ClassMeter::blank(Delays::default()));
            }
            let view = &mut shown[count];
            (view.class, view.sent, view.short) = (ClassId(class), meter.sent, meter.short);
            view.rate = meter.recent.rate(now);
            view.delays.copy(&meter.delays);
            // Where the host held packets up, memory is made for what it did.
            view.held_up = meter.held_up.as_ref().map(|late| {
                view.delays.merge(&late.measured);
                HeldUpDelays {
                    by: late.by.clone(),
                    without: with(&meter.delays, &late.excused),
                }
            });
            count += 1;
        }
        count
    }

    /// Renumbers the classes after a tree was replaced. The meter of a class without a new number
    /// is removed.
    pub(crate) fn renumber(&mut self, new: impl Fn(ClassId) -> Option<ClassId>) {
        let old = std::mem::take(&mut self.0);
        for (number, block) in old.into_iter().enumerate() {
            for (index, meter) in block.into_iter().flatten().enumerate() {
                if let Some(class) = new(ClassId((number * BLOCK + index) as u32)) {
                    *self.meter(class) = meter;
                }
            }
        }
    }
}

fn with(delays: &Delays, more: &Delays) -> Delays {
    let mut all = delays.clone();
    all.merge(more);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_up_is_in_the_delays_and_apart_without_the_hold_up() {
        let mut meters = Meters::new(1);
        let (class, len, ms) = (ClassId(0), Bytes::new(100), Duration::from_millis);
        let at = |ms: u64| Instant::START + Duration::from_millis(ms);
        meters.depart(Instant::START, class, len, (at(0), at(2)));
        let show = |meters: &mut Meters| {
            let mut views = Vec::new();
            assert_eq!(meters.show(Instant::START, 0..1, &mut views), 1);
            views.remove(0)
        };
        assert!(show(&mut meters).held_up.is_none());
        let mut late = |times, excused: u64, since: u64| {
            meters.depart_late(Instant::START, class, len, times, |backlogged| {
                assert_eq!(backlogged, at(since), "since when it has had packets");
                ms(excused)
            });
        };
        late((at(2), at(11)), 5, 2);
        late((at(6), at(12)), 6, 2);
        late((at(13), at(14)), 0, 13);
        let shown = show(&mut meters);
        assert_eq!((shown.sent.packets, shown.delays.count()), (4, 4));
        assert_eq!(shown.delays.longest(), ms(9));
        let held_up = shown.held_up.expect("two were");
        assert_eq!((held_up.by.count(), held_up.by.longest()), (2, ms(6)));
        assert_eq!((held_up.without.count(), held_up.without.longest()), (4, ms(4)));
    }

    #[test]
    fn a_class_of_very_many_makes_the_meters_of_its_block_alone() {
        let mut meters = Meters::new(100_000);
        let times = (Instant::START, Instant::START);
        meters.depart(Instant::START, ClassId(70_000), Bytes::new(100), times);
        assert_eq!(meters.0.iter().flatten().count(), 1);
        let mut views = Vec::new();
        let shown = |window| meters.show(Instant::START, window, &mut views);
        let windows = [0..u32::MAX, 69_999..70_001, 70_001..70_064, 0..70_000];
        assert_eq!(windows.map(shown), [1, 1, 0, 0]);
        meters.renumber(|class| (class.0 == 70_000).then_some(ClassId(3)));
        assert_eq!(meters.show(Instant::START, 3..4, &mut views), 1);
        assert_eq!((views[0].class, views[0].sent.packets), (ClassId(3), 1));
    }

    #[test]
    fn the_rate_is_that_of_the_last_second_and_fades_without_traffic() {
        let mut recent = Recent::default();
        let at = |ms: u64| Instant::START + Duration::from_millis(5_000 + ms);
        for ms in 0..2_000 {
            recent.add(at(ms), Bytes::new(125));
        }
        assert_eq!(recent.rate(at(2_000)), Bandwidth::mbit(1));
        assert_eq!(recent.rate(at(2_550)), Bandwidth::kbit(500));
        assert_eq!(recent.rate(at(9_000)), Bandwidth::ZERO);
    }
}
