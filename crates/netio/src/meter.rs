//! Meters of the classes of a path: packets and bytes sent, the rate over the last second, and
//! queueing delays, with and without what the host [held packets up](crate::hold_ups) for, and
//! whether what is [promised](measure::promise) is kept.

use crate::same_classes::SameClasses;
use engine::packet::ClassId;
use engine::queue::Count;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::delay::Delays;
use measure::hold_ups::HeldUpDelays;
use measure::promise::{ClassPromise, KeptPromise, PromiseTally};
use std::ops::Range;
use std::sync::Arc;

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
    promise: Option<Box<KeptPromise>>,
}

impl Meter {
    fn has_counted(&self) -> bool {
        self.sent.packets + self.short.packets > 0
    }

    /// Whether its class's successor needs it.
    fn goes_over(&self) -> bool {
        self.has_counted() || self.promise.is_some()
    }

    /// A packet that arrived then leaves. One that arrived after the last has left came to no
    /// queue.
    fn leaves(&mut self, arrived: Instant, left: Instant) {
        if arrived >= self.left {
            self.backlogged = arrived;
        }
        self.left = left;
    }

    /// A packet leaves, of whose delay the host is the reason of so much.
    #[inline]
    fn keeps_promise(&mut self, len: Bytes, times: (Instant, Instant), excused: Duration) {
        if let Some(promise) = &mut self.promise {
            promise.departs(len, times, excused);
        }
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
    /// How what is promised to it is kept, if anything is.
    pub promise: Option<PromiseTally>,
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
            promise: None,
        }
    }
}

/// The meters of a path. Each is made when its class has its first packet: neither memory nor time
/// is spent for the others. A successor gets its predecessor's own: nothing is allocated or copied.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    meters: Vec<Option<Box<Meter>>>,
    former: Option<Box<FormerMeters>>,
}

/// The meters of a tree that was replaced, until each is its successor's.
#[derive(Debug)]
pub(crate) struct FormerMeters {
    meters: Vec<Option<Box<Meter>>>,
    classes: Arc<SameClasses>,
    /// The next successor.
    next: usize,
}

impl FormerMeters {
    /// The meter of the predecessor of a class, if it has counted anything or is to.
    fn take(&mut self, class: usize) -> Option<Box<Meter>> {
        let number = self.classes.predecessor(ClassId(u32::try_from(class).ok()?))?;
        let meter = self.meters.get_mut(number.0 as usize)?;
        meter.take_if(|meter| meter.goes_over())
    }
}

impl Meters {
    /// For so many classes.
    pub(crate) fn new(classes: u32) -> Self {
        let mut meters = Vec::new();
        meters.resize_with(classes as usize, || None);
        Self { meters, former: None }
    }

    #[inline]
    fn meter(&mut self, class: ClassId) -> &mut Meter {
        let number = class.0 as usize;
        if self.meters.get(number).is_none_or(Option::is_none) {
            self.make(number);
        }
        match &mut self.meters[number] {
            Some(meter) => meter,
            None => unreachable!("it is made"),
        }
    }

    /// Makes the meter of a class, unless it has a predecessor's.
    #[cold]
    fn make(&mut self, number: usize) {
        if number >= self.meters.len() {
            self.meters.resize_with(number + 1, || None);
        }
        self.take_over(number);
        self.meters[number].get_or_insert_default();
    }

    /// These take the place of the meters of another tree, whose classes go on here under other
    /// numbers. What those have counted comes over when it is asked for, and by
    /// [`Meters::go_on`].
    pub(crate) fn succeed(&mut self, new: Self, classes: Arc<SameClasses>) {
        while self.is_following() {
            self.go_on(usize::MAX);
        }
        let old = std::mem::replace(self, new);
        self.former = Some(Box::new(FormerMeters {
            meters: old.meters,
            classes,
            next: 0,
        }));
    }

    /// Takes over what the predecessors of so many classes have counted; those of which nothing was
    /// counted cost a look. What is left over when that was the last.
    pub(crate) fn go_on(&mut self, classes: usize) -> Option<Box<FormerMeters>> {
        let begin = self.former.as_ref()?.next;
        let end = begin.saturating_add(classes).min(self.meters.len());
        (begin..end).for_each(|class| self.take_over(class));
        let former = self.former.as_mut()?;
        former.next = end;
        self.former.take_if(|_| end == self.meters.len())
    }

    /// Whether meters of a former tree are yet to come over.
    pub(crate) fn is_following(&self) -> bool {
        self.former.is_some()
    }

    /// Takes over what the predecessor of a class has counted, if it has.
    fn take_over(&mut self, class: usize) {
        let Some(former) = &mut self.former else { return };
        if let Some(meter @ None) = self.meters.get_mut(class) {
            *meter = former.take(class);
        }
    }

    /// Counts a packet that is dropped since memory is short.
    pub(crate) fn short(&mut self, class: ClassId, len: Bytes) {
        self.meter(class).short += len;
    }

    /// Counts a departure. Allocates only at the first one of a class, and for a delay unlike those
    /// that it has had.
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
        meter.keeps_promise(len, (arrived, left), Duration::ZERO);
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
        meter.keeps_promise(len, (arrived, left), excused);
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

    /// These are promised to classes from now on.
    pub(crate) fn promise(&mut self, promises: &[ClassPromise]) {
        for one in promises {
            let meter = self.meter(one.class);
            match &mut meter.promise {
                Some(kept) => kept.renew(*one),
                None => meter.promise = Some(Box::new(KeptPromise::new(*one))),
            }
        }
    }

    /// Forgets what a class has sent, as its number is another's now.
    pub(crate) fn clear(&mut self, class: ClassId) {
        let number = class.0 as usize;
        self.take_over(number);
        if let Some(meter) = self.meters.get_mut(number) {
            *meter = None;
        }
    }

    /// What a class has sent.
    pub(crate) fn sent(&mut self, class: ClassId) -> Count {
        let number = class.0 as usize;
        self.take_over(number);
        let meter = self.meters.get(number).and_then(Option::as_ref);
        meter.map_or_else(Count::default, |meter| meter.sent)
    }

    /// The meters of classes of which anything was sent or dropped, in the memory of those that are
    /// given, as long as there are enough. How many they are.
    pub(crate) fn show(&mut self, now: Instant, window: Range<u32>, shown: &mut Vec<ClassMeter>) -> usize {
        let first = (window.start as usize).min(self.meters.len());
        let last = (window.end as usize).min(self.meters.len()).max(first);
        (first..last).for_each(|class| self.take_over(class));
        let meters = self.meters[first..last].iter_mut().zip(first as u32..);
        let meters = meters.filter_map(|(meter, class)| Some((meter.as_mut()?, class)));
        let used = |(meter, _): &(&mut Box<Meter>, u32)| meter.has_counted();
        let mut count = 0;
        for (meter, class) in meters.filter(used) {
            if count == shown.len() {
                shown.push(ClassMeter::blank(Delays::default()));
            }
            let view = &mut shown[count];
            (view.class, view.sent, view.short) = (ClassId(class), meter.sent, meter.short);
            view.rate = meter.recent.rate(now);
            view.delays.copy(&meter.delays);
            view.promise = meter.promise.as_ref().map(|kept| kept.tally());
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
}

fn with(delays: &Delays, more: &Delays) -> Delays {
    let mut all = delays.clone();
    all.merge(more);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::bounds::Bound;
    use std::collections::BTreeSet;

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
    fn a_promise_goes_over_with_its_class_and_is_held_against_each_departure() {
        let (len, ms) = (Bytes::new(1_000), Duration::from_millis);
        let at = |ms: u64| Instant::START + Duration::from_millis(ms);
        let promise = |class: u32| ClassPromise {
            class: ClassId(class),
            bound: Bound {
                delay: ms(5),
                backlog: Bytes::ZERO,
                arrivals: None,
                shortest: Bytes::ZERO,
            },
            link: Bandwidth::mbit(8),
        };
        let mut meters = Meters::new(2);
        meters.promise(&[promise(1)]);
        meters.depart(at(9), ClassId(0), len, (at(0), at(9)));
        meters.depart(at(9), ClassId(1), len, (at(0), at(9)));
        meters.depart_late(at(19), ClassId(1), len, (at(10), at(19)), |_| ms(5));
        meters.succeed(
            Meters::new(1),
            Arc::new(SameClasses::of_pairs([(1, 0)].into_iter())),
        );
        meters.depart(at(24), ClassId(0), len, (at(20), at(24)));
        let mut views = Vec::new();
        assert_eq!(meters.show(at(24), 0..9, &mut views), 1);
        let tally = PromiseTally {
            bound: ms(5),
            worst: ms(10),
            late: 1,
            held_up: 1,
            exceeded: 0,
        };
        assert_eq!((views[0].sent.packets, views[0].promise), (3, Some(tally)));
        // Of a class that has sent nothing yet, too.
        let mut meters = Meters::new(1);
        meters.promise(&[promise(0)]);
        meters.succeed(
            Meters::new(1),
            Arc::new(SameClasses::of_pairs([(0, 0)].into_iter())),
        );
        while meters.go_on(1).is_none() {}
        meters.depart(at(9), ClassId(0), len, (at(0), at(9)));
        meters.show(at(24), 0..9, &mut views);
        assert_eq!(views[0].promise.map(|tally| tally.late), Some(1));
    }

    #[test]
    fn a_class_of_very_many_makes_its_own_meter_alone() {
        let mut meters = Meters::new(100_000);
        let times = (Instant::START, Instant::START);
        meters.depart(Instant::START, ClassId(70_000), Bytes::new(100), times);
        assert_eq!(meters.meters.iter().flatten().count(), 1);
        let mut views = Vec::new();
        let shown = |window| meters.show(Instant::START, window, &mut views);
        let windows = [0..u32::MAX, 69_999..70_001, 70_001..70_064, 0..70_000];
        assert_eq!(windows.map(shown), [1, 1, 0, 0]);
    }

    #[test]
    fn what_was_counted_in_another_tree_goes_over_in_pieces_and_at_once_where_it_is_asked_for() {
        let len = Bytes::new(100);
        let sends = |meters: &mut Meters, class: u32, times: u32| {
            let at = (Instant::START, Instant::START);
            (0..times).for_each(|_| meters.depart(Instant::START, ClassId(class), len, at));
        };
        let sent = |meters: &mut Meters, window: Range<u32>| -> Vec<(u32, u64)> {
            let mut views = Vec::new();
            let count = meters.show(Instant::START, window, &mut views);
            let view = |view: &ClassMeter| (view.class.0, view.sent.packets);
            views[..count].iter().map(view).collect()
        };
        let mut meters = Meters::new(1_000);
        for (class, times) in [(0, 1), (1, 2), (500, 3), (999, 4)] {
            sends(&mut meters, class, times);
        }
        let memory = |meters: &Meters| -> BTreeSet<*const Meter> {
            let all = meters.meters.iter().flatten();
            all.map(|meter| &raw const **meter).collect()
        };
        let before = memory(&meters);
        // The last becomes the first, and so on; the first has no successor.
        let pairs = (0..999).map(|new| (999 - new, new));
        meters.succeed(Meters::new(999), Arc::new(SameClasses::of_pairs(pairs)));
        sends(&mut meters, 0, 10);
        assert_eq!(sent(&mut meters, 0..20), [(0, 14)]);
        assert_eq!(sent(&mut meters, 490..510), [(499, 3)]);
        assert!(meters.is_following());
        let pieces = std::iter::repeat_with(|| meters.go_on(64));
        assert_eq!(pieces.take_while(Option::is_none).count(), 15);
        assert!(!meters.is_following() && meters.go_on(64).is_none());
        assert_eq!(sent(&mut meters, 0..u32::MAX), [(0, 14), (499, 3), (998, 2)]);
        let after = memory(&meters);
        // The packet loop has allocated and copied none.
        assert!(after.is_subset(&before), "{after:?}");
        assert_eq!(after.len(), 3);
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
