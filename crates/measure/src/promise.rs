//! Whether what leaves by a class does so within the bound that is promised to it: of every
//! departure, whatever discipline serves the class.
//!
//! Disciplines that admit delays themselves (`ips`, `hfsc`) check their own. Here classes are
//! checked whose bound somebody else has computed and promised, as RSVP does for reservations.
//!
//! A packet's time runs from its arrival to its last bit on the link, as bounds do. It is promised
//! to packets that keep to the arrival curve of the bound; the others are counted apart. So are
//! those that are late by no more than what the host [held them up](crate::hold_ups) for: a class
//! that is guaranteed a service from any time on is later by as long as the link stood still.

use engine::bounds::{Bound, WorstCase};
use engine::conformance::ConformanceMeter;
use engine::packet::ClassId;
use engine::reservation::PREFIX;
use engine::tree::{ClassInfo, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// What is promised to a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassPromise {
    /// The class.
    pub class: ClassId,
    /// The bound, and what it holds for.
    pub bound: Bound,
    /// The bandwidth at which a packet goes onto the link.
    pub link: Bandwidth,
}

impl ClassPromise {
    /// What a plan with these worst cases promises to its reservations, by the numbers that their
    /// classes have in the tree that runs.
    pub fn to_reservations(
        plan: &TreePlan,
        cases: impl FnOnce() -> Vec<WorstCase>,
        running: &TreePlan,
    ) -> Vec<Self> {
        let is_reserved = |info: &ClassInfo| info.name.starts_with(PREFIX);
        if !plan.classes.iter().any(is_reserved) {
            return Vec::new();
        }
        let promise = |case: WorstCase| {
            let info = plan.info(case.class?).filter(|info| is_reserved(info))?;
            Some(Self {
                class: running.class(&info.name)?,
                bound: case.bound.ok()?,
                link: plan.link.bandwidth,
            })
        };
        cases().into_iter().filter_map(promise).collect()
    }
}

/// How a promise has been kept, since the class began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PromiseTally {
    /// The bound.
    pub bound: Duration,
    /// The longest time that a packet took that keeps to the curve.
    pub worst: Duration,
    /// Packets that keep to the curve, and took longer than the bound.
    pub late: u64,
    /// Those that would not have, had the host not held them up.
    pub held_up: u64,
    /// Packets that exceed the curve: nothing is promised to them.
    pub exceeded: u64,
}

/// A promise, and how it is kept.
#[derive(Clone, Debug)]
pub struct KeptPromise {
    promise: ClassPromise,
    /// None where the bound holds for whatever is sent.
    curve: Option<ConformanceMeter>,
    tally: PromiseTally,
}

impl KeptPromise {
    /// Nothing has departed yet.
    pub fn new(promise: ClassPromise) -> Self {
        let tally = PromiseTally {
            bound: promise.bound.delay,
            ..PromiseTally::default()
        };
        Self {
            curve: promise.bound.arrivals.map(ConformanceMeter::new),
            promise,
            tally,
        }
    }

    /// Another promise to the same class from now on. What was counted stays.
    pub fn renew(&mut self, promise: ClassPromise) {
        self.promise = promise;
        self.tally.bound = promise.bound.delay;
        ConformanceMeter::renew(&mut self.curve, promise.bound.arrivals);
    }

    /// How it has been kept.
    pub const fn tally(&self) -> PromiseTally {
        self.tally
    }

    /// A packet leaves, in the order of arrival. The host is the reason of so much of its delay.
    pub fn departs(&mut self, len: Bytes, (arrived, left): (Instant, Instant), excused: Duration) {
        let exceeds = self.curve.as_mut().and_then(|curve| curve.arrives(arrived, len));
        if exceeds.is_some() || len < self.promise.bound.shortest {
            self.tally.exceeded += 1;
            return;
        }
        let took = left.since(arrived) + self.promise.link.time_to_send(len);
        self.tally.worst = self.tally.worst.max(took);
        if took > self.promise.bound.delay {
            match took - excused > self.promise.bound.delay {
                true => self.tally.late += 1,
                false => self.tally.held_up += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::bounds::ArrivalCurve;

    const CLASS: ClassId = ClassId(3);

    fn at(us: u64) -> Instant {
        Instant::START + Duration::from_micros(us)
    }

    /// 10 ms to what keeps to 1 Mbit/s and 2,000 bytes, on a link of 8 Mbit/s.
    fn promise(millis: u64, rate: u64) -> ClassPromise {
        ClassPromise {
            class: CLASS,
            bound: Bound {
                delay: Duration::from_millis(millis),
                backlog: Bytes::ZERO,
                arrivals: Some(ArrivalCurve {
                    rate: Bandwidth::mbit(rate),
                    burst: Bytes::new(2_000),
                }),
                shortest: Bytes::new(100),
            },
            link: Bandwidth::mbit(8),
        }
    }

    fn counted(kept: &KeptPromise) -> [u64; 3] {
        let tally = kept.tally();
        [tally.late, tally.held_up, tally.exceeded]
    }

    /// 1,000 bytes take a millisecond.
    #[test]
    fn each_departure_is_held_against_the_bound_with_its_time_on_the_link() {
        let mut kept = KeptPromise::new(promise(10, 1));
        let mut leaves = |arrived, left, excused: u64| {
            kept.departs(
                Bytes::new(1_000),
                (at(arrived), at(left)),
                Duration::from_micros(excused),
            );
            counted(&kept)
        };
        assert_eq!(leaves(0, 9_000, 0), [0, 0, 0], "just in time");
        assert_eq!(leaves(20_000, 29_001, 0), [1, 0, 0]);
        assert_eq!(leaves(40_000, 53_000, 4_000), [1, 1, 0], "the host's");
        assert_eq!(leaves(60_000, 73_001, 4_000), [2, 1, 0], "and more");
        assert_eq!(kept.tally().worst, Duration::from_micros(14_001));
    }

    #[test]
    fn what_exceeds_the_curve_or_is_shorter_than_the_bound_says_is_promised_nothing() {
        let mut kept = KeptPromise::new(promise(10, 1));
        for _ in 0..3 {
            kept.departs(Bytes::new(1_000), (at(0), at(90_000)), Duration::ZERO);
        }
        assert_eq!(counted(&kept), [2, 0, 1]);
        kept.departs(Bytes::new(99), (at(500_000), at(590_000)), Duration::ZERO);
        assert_eq!(counted(&kept), [2, 0, 2]);
    }

    #[test]
    fn another_promise_keeps_the_counts_and_what_was_sent() {
        let mut kept = KeptPromise::new(promise(10, 1));
        for _ in 0..2 {
            kept.departs(Bytes::new(1_000), (at(0), at(90_000)), Duration::ZERO);
        }
        kept.renew(promise(100, 2));
        kept.departs(Bytes::new(1_000), (at(3_999), at(90_000)), Duration::ZERO);
        assert_eq!(counted(&kept), [2, 0, 1], "2 Mbit/s bring 1,000 bytes in 4 ms");
        kept.departs(Bytes::new(1_000), (at(4_000), at(90_000)), Duration::ZERO);
        assert_eq!(counted(&kept), [2, 0, 1]);
        assert_eq!(kept.tally().bound, Duration::from_millis(100));
    }
}
