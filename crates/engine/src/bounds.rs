//! Worst-case queueing delay and backlog: network calculus, in integers.
//!
//! Follows Le Boudec and Thiran, "Network calculus", 2001, chapter 1. A sender with an
//! [`ArrivalCurve`] (σ, ρ) offers at most σ + ρ *t* bytes in any time *t*. A class is served by a
//! rate–latency curve: whenever it has a backlog, it gets *R* (*t* − *T*) bytes within *t*. Then no
//! packet is delayed longer than *T* + σ / *R*, and the backlog is at most σ + ρ *T*, if ρ ≤ *R*.
//! Each kind derives *R* and *T* from its own rule, in its own file.
//!
//! **The link and what is ahead.** A packet is late when its *last bit* is: its own time on the
//! link counts. What has been handed to the device cannot be overtaken: the packet on the wire (the
//! blocking packet of the literature), and the others in the device's ring. So of the bytes *B*
//! that may be there, all are counted, whatever class they are of. Who moves the packets may run
//! later than it was to, as is usual for a thread ([`Link::lateness`]): then the link stands still
//! for that time, which is as if as much as it carries in it were ahead, too.
//!
//! **Strict priority.** Let *s* be the last time before the packet's arrival at which no packet of
//! its own or a higher class was queued. From *s* to its last bit, a time *d*, the link sends what
//! was ahead, what its own class had offered when it arrived, and of the higher classes what
//! arrives until then, new bursts included:
//!
//! *C d* ≤ *B* + σᵢ + ρᵢ *x* + σ_H + ρ_H *d*, where it arrived *x* after *s*; so with ρᵢ + ρ_H ≤
//! *C* its delay is *d* − *x* ≤ (*B* + σᵢ + σ_H) / (*C* − ρ_H). Classes of the same priority count
//! as higher ones.
//!
//! **Classes in a class.** What a class is guaranteed holds for the discipline in its queue if it
//! holds from *any* time at which the class has a backlog, not only from the begin of one: a strict
//! service curve. A packet's last bit is on the link at most (*b* + *a*) / *R* after such a time,
//! with *a* the bytes that its class dequeues from then on up to it. The inner discipline bounds
//! *a* by its own rule, as if it had a link of rate *R*, with *b* bytes ahead and one packet more,
//! which the outer discipline may have looked at and holds. What is in the device is in *b* once,
//! however deep the nesting. (Bouillard, Boyer and Le Corronc, "Deterministic Network Calculus",
//! 2018, chapters 5 and 7; Bouillard, Jouhet and Thierry, "Service curves in Network Calculus: dos
//! and don'ts", 2009, on why a curve that is not strict does not do.)
//!
//! For strict priority that is not the curve above: higher classes may have a backlog already. With
//! *p* the begin of it, they have been sent all but *B* bytes of what the link carries since, so at
//! *s* they have at most σ_H + ρ_H *B* / *C* and what they are sent from then on:
//! [`RateLatency::from_any_time`].
//!
//! Everything is rounded so that a bound is never too small.

use crate::link::Link;
use crate::packet::ClassId;
use crate::units::{Bandwidth, Bytes, Duration};

const NANOBITS: u128 = 8_000_000_000;

/// A sender's arrival curve, a token bucket: at most `burst` + `rate` × time, in any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrivalCurve {
    /// ρ
    pub rate: Bandwidth,
    /// σ
    pub burst: Bytes,
}

impl std::iter::Sum for ArrivalCurve {
    /// The arrival curve of several senders together.
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        let nothing = Self {
            rate: Bandwidth::ZERO,
            burst: Bytes::ZERO,
        };
        all.fold(nothing, |sum, one| Self {
            rate: sum.rate + one.rate,
            burst: sum.burst + one.burst,
        })
    }
}

/// The worst case of a class whose senders keep to their arrival curves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// From a packet's arrival to its last bit on the link.
    pub delay: Duration,
    /// Bytes queued.
    pub backlog: Bytes,
    /// The arrival curve of the class's senders under which it holds; none: whatever they send.
    pub arrivals: Option<ArrivalCurve>,
    /// The shortest packets under which it holds, where framing counts; zero: any.
    pub shortest: Bytes,
}

/// A bound to print: rounded up to a whole microsecond.
pub fn shown(delay: Duration) -> Duration {
    Duration::from_nanos(delay.nanos().div_ceil(1_000).saturating_mul(1_000))
}

/// The guaranteed service of a class, as a rate–latency curve. The latency is given by the work
/// that goes before: `before` bytes, sent at the speed `link`. Of its own bytes each takes the time
/// of `whole` / `part` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateLatency {
    /// Bytes that go before, at most.
    pub before: u128,
    /// The speed at which they go, and its own.
    pub link: Bandwidth,
    /// Its part of that speed, as `part` of `whole`.
    pub part: u64,
    /// See `part`.
    pub whole: u64,
    /// The granularity of its service: a packet, for a class that may begin one just before its
    /// turn ends.
    pub grain: Bytes,
}

impl RateLatency {
    /// All of a speed, after this many bytes.
    pub fn after(before: u128, link: Bandwidth) -> Self {
        Self {
            before,
            link,
            part: 1,
            whole: 1,
            grain: Bytes::ZERO,
        }
    }

    /// Of a class under strict priority on this link, the same from any time at which it has a
    /// backlog.
    #[must_use]
    pub fn from_any_time(self, terms: &Terms<'_>) -> Self {
        let (link, higher) = (terms.link.bandwidth, terms.link.bandwidth - self.link);
        let ahead = u128::from((terms.ahead + terms.grain).get());
        let work = u128::from(higher.bits()).saturating_mul(ahead);
        let more = work.div_ceil(u128::from(link.bits().max(1)));
        Self {
            before: self.before.saturating_add(more),
            ..self
        }
    }

    /// The terms of the discipline in the queue of a class that has this service from any time at
    /// which it has a backlog; none if nothing is guaranteed.
    pub fn inside<'a>(&self, terms: &Terms<'a>) -> Option<Terms<'a>> {
        let (part, whole) = (u128::from(self.part), u128::from(self.whole).max(1));
        let bits = u128::from(self.link.bits()) * part / whole;
        let bandwidth = Bandwidth::bits_per_sec(u64::try_from(bits).ok().filter(|bits| *bits > 0)?);
        let before = self.before.checked_mul(part)?.div_ceil(whole);
        // The packet that was looked at, of the class or before it.
        let ahead = Bytes::new(u64::try_from(before).ok()?) + terms.longest;
        Some(Terms {
            link: Link {
                bandwidth,
                ..terms.link
            },
            ahead,
            grain: terms.grain + terms.longest.times(2),
            ..*terms
        })
    }

    /// The bounds of a class with this service; none if its senders may exceed the service, or a
    /// bound does not fit.
    pub fn bound(&self, arrivals: ArrivalCurve) -> Option<Bound> {
        let (part, whole, link) = (
            u128::from(self.part),
            u128::from(self.whole),
            u128::from(self.link.bits()),
        );
        let rate = u128::from(arrivals.rate.bits());
        if link == 0 || part == 0 || rate.checked_mul(whole)? > link.checked_mul(part)? {
            return None;
        }
        let own = u128::from(arrivals.burst.get())
            .checked_mul(whole)?
            .div_ceil(part);
        let nanos = self
            .before
            .checked_add(own)?
            .checked_mul(NANOBITS)?
            .div_ceil(link);
        let meanwhile = rate.checked_mul(self.before)?.div_ceil(link);
        let queued = u128::from(arrivals.burst.get())
            .checked_add(meanwhile)?
            .checked_add(self.grain.get().into())?;
        Some(Bound {
            delay: Duration::from_nanos(u64::try_from(nanos).ok()?),
            backlog: Bytes::new(u64::try_from(queued).ok()?),
            arrivals: Some(arrivals),
            shortest: Bytes::ZERO,
        })
    }
}

/// A class under strict priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PriorityClass {
    /// The larger is served first.
    pub priority: u32,
    /// The arrival curve of its senders.
    pub arrivals: ArrivalCurve,
}

/// The service of each of these classes under strict priority. `ahead` is what may have been handed
/// to the device before.
pub fn strict_priority(link: Bandwidth, ahead: Bytes, classes: &[PriorityClass]) -> Vec<RateLatency> {
    let mut order: Vec<usize> = (0..classes.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(classes[index].priority));
    let mut services = vec![RateLatency::after(0, Bandwidth::ZERO); classes.len()];
    let (mut burst, mut rate) = (0u128, 0u128);
    for alike in order.chunk_by(|&a, &b| classes[a].priority == classes[b].priority) {
        for &index in alike {
            burst += u128::from(classes[index].arrivals.burst.get());
            rate += u128::from(classes[index].arrivals.rate.bits());
        }
        for &index in alike {
            let own = classes[index].arrivals;
            let others = rate - u128::from(own.rate.bits());
            let left = u128::from(link.bits()).saturating_sub(others) as u64;
            let before = burst - u128::from(own.burst.get()) + u128::from(ahead.get());
            services[index] = RateLatency::after(before, Bandwidth::bits_per_sec(left));
        }
    }
    services
}

/// The terms of a bound.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The link; its bandwidth is what is guaranteed to this place of the tree.
    pub link: Link,
    /// The longest packet.
    pub longest: Bytes,
    /// The arrival curve of each class's senders, by its number; those that are missing at the end
    /// have none.
    pub arrivals: &'a [Option<ArrivalCurve>],
    /// Bytes that go before at that bandwidth: what may be in the device, what disciplines above
    /// have dequeued and not sent, and what they may serve first.
    pub ahead: Bytes,
    /// The granularity of the service of this place: none on the link itself.
    pub grain: Bytes,
    /// The shortest packets that this place was promised; zero: any.
    pub shortest: Bytes,
}

impl Terms<'_> {
    /// The arrival curve of a class's senders.
    ///
    /// # Errors
    /// If none is stated: why there is no bound.
    pub fn arrivals(&self, class: ClassId) -> Result<ArrivalCurve, String> {
        let arrivals = self.arrivals.get(class.0 as usize).copied().flatten();
        arrivals.ok_or_else(|| "none guaranteed: `sends` states no rate and burst".into())
    }
}

/// The worst case of a class, or why there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorstCase {
    /// The class; none for a discipline without classes.
    pub class: Option<ClassId>,
    /// The bounds, or why there is none.
    pub bound: Result<Bound, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(priority: u32, packets: u64, kbit: u64) -> PriorityClass {
        PriorityClass {
            priority,
            arrivals: ArrivalCurve {
                rate: Bandwidth::kbit(kbit),
                burst: Bytes::new(1_518).times(packets),
            },
        }
    }

    #[test]
    fn the_papers_cases_by_the_sound_rule() {
        // Flows 1, 2 and 3 of the IPS paper; their rates as frames of 1,518 bytes.
        let all = [flow(1, 8, 1_934), flow(2, 8, 3_136), flow(3, 16, 1_984)];
        let delay = |ring: u64, flows: &[PriorityClass]| {
            let services = strict_priority(Bandwidth::mbit(10), Bytes::new(1_518).times(ring), flows);
            services[0]
                .bound(flows[0].arrivals)
                .map(|bound| bound.delay.nanos() / 10_000)
        };
        assert_eq!(delay(1, &all[..1]), Some(1_092));
        assert_eq!(delay(1, &all[..2]), Some(3_007));
        assert_eq!(delay(1, &all), Some(8_212));
        assert_eq!(delay(3, &all[..1]), Some(1_335));
    }

    #[test]
    fn a_class_that_gets_less_than_it_is_promised_has_no_bound() {
        let link = Bandwidth::mbit(10);
        let all = [flow(1, 1, 6_000), flow(2, 1, 4_000), flow(0, 1, 1)];
        let bounds: Vec<bool> = strict_priority(link, Bytes::ZERO, &all)
            .iter()
            .zip(&all)
            .map(|(service, class)| service.bound(class.arrivals).is_some())
            .collect();
        assert_eq!(bounds, [true, true, false]);
    }

    #[test]
    fn bounds_are_rounded_up_and_never_overflow() {
        let one = ArrivalCurve {
            rate: Bandwidth::ZERO,
            burst: Bytes::new(1),
        };
        let third = RateLatency::after(0, Bandwidth::bits_per_sec(3));
        assert_eq!(
            third.bound(one).map(|bound| bound.delay.nanos()),
            Some(2_666_666_667)
        );
        let most = ArrivalCurve {
            rate: Bandwidth::bits_per_sec(1),
            burst: Bytes::new(u64::MAX),
        };
        assert_eq!(
            RateLatency::after(u128::MAX, Bandwidth::gbit(800)).bound(most),
            None
        );
        assert!(
            RateLatency::after(u64::MAX.into(), Bandwidth::gbit(800))
                .bound(most)
                .is_none(),
            "4,700 years do not fit"
        );
    }

    #[test]
    fn classes_of_one_priority_count_for_each_other() {
        let pair = [flow(1, 2, 1_000), flow(1, 3, 2_000)];
        let services = strict_priority(Bandwidth::mbit(10), Bytes::new(1_518), &pair);
        assert_eq!(services[0], RateLatency::after(1_518 * 4, Bandwidth::kbit(8_000)));
        assert_eq!(services[1], RateLatency::after(1_518 * 3, Bandwidth::kbit(9_000)));
    }
}
