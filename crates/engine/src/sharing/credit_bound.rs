//! The worst-case delay of a leaf that is served by credit and priority, under formal link sharing.
//!
//! A leaf *i* whose senders keep within its rate and its full credit has credit whenever it has a
//! packet: credit accrues no slower than packets arrive. So it is always in the lowest level, and
//! only leaves that also spend credit of their own, of the same or a higher priority, are served
//! before it. Call them *H*. Lower priorities, and whoever borrows, are served only when no leaf of
//! *H* and not *i* itself may send; all that they can do is to be in the device already.
//!
//! Let *s* be the last time before the packet's arrival at which none of these leaves, *i*
//! included, could send. From *s* on the link sends what was in the device, and then nothing but
//! packets of *i* and *H* until the packet's last bit. At *s* a leaf *j* of *H* was idle, or
//! regulated: its credit counts as at most a full one, σⱼ, since an idle leaf's is cut there, and
//! one that is regulated ends that with `minburst`, which is no more. Credit that a leaf
//! accumulates beyond σⱼ while it waits for its turn accrues after *s*, by its rate *rⱼ*, and the
//! last packet may overdraw it by less than a packet, *Max*. So in a time *d* from *s* it sends at
//! most σⱼ + *rⱼ d* + *Max*, whatever its senders do. With *B* in the device, the service of *i* is
//! that of strict priority over leaves with these arrival curves (see [`bounds`](crate::bounds)):
//! after *B* + Σ (σⱼ + *Max*) bytes the speed *C* − Σ *rⱼ*.
//!
//! **For the classes in a leaf's queue** the service has to hold from any time *u* at which the
//! leaf has a backlog. Call *G* the leaves of *H* and *i*, and let *p* be the last time before *u*
//! at which none of them could send. Since then the link has carried *B* bytes and then only
//! theirs, so their credits together have grown by at most *B*: a backlog of credit of at most Σ_G
//! (σⱼ + *Max*) + *B*, as none is overdrawn by more than *Max*. While *i* has credit, *H* sends at
//! most that, Σ_H *Max* and Σ_H *rⱼ d*; so *i* has the speed *C* − Σ_H *rⱼ* after these bytes and
//! *B*, *K* in all.
//!
//! If the senders of *i* keep within its credit, that is all. If not, let *u* be the last time at
//! which it waited for credit. From any time *s* before it, it has sent all that accrued since but
//! what ends its wait, *W*, and what it was overdrawn by; that is *rᵢ* (*u* − *s*) − *W* − *Max*.
//! So from any time its service is the rate *rᵢ* after *W* + *Max* bytes at that rate and *K* at
//! *C* − Σ_H *rⱼ*, which is no less than *rᵢ*. None of its credit may be lost to the ceiling of
//! what a waiting class accumulates: σᵢ + *K* is checked to be within it. What it borrows comes on
//! top.
//!
//! The clocks of the discipline and of the link start a packet in whole nanoseconds: two more.

use crate::bounds::{Bound, RateLatency, Terms, WorstCase};
use crate::kind::QueuePlan;
use crate::packet::ClassId;
use crate::sharing::credit::{Credit, nanobits};
use crate::units::{Bandwidth, Bytes, Duration};
use std::collections::BTreeMap;

/// By how much the clocks of a discipline and of its link may be apart.
const ROUNDING: Duration = Duration::from_nanos(2);

/// A leaf as checked.
pub(crate) struct Credited<'a> {
    pub(crate) id: ClassId,
    pub(crate) name: &'a str,
    pub(crate) queue: &'a QueuePlan,
    /// A full credit.
    pub(crate) credit: Credit,
    pub(crate) priority: u32,
}

/// The worst case of each of these leaves, and of the classes in their queues. `patience`: if a
/// port is the clock, how late it may come before it counts as late. `ceiling`: the most credit, in
/// nanobits, of a leaf that waits for its turn.
pub(crate) fn all(
    leaves: Vec<Credited<'_>>,
    terms: &Terms<'_>,
    formal: bool,
    patience: Option<Duration>,
    ceiling: i64,
) -> Vec<WorstCase> {
    // A port that fills its ring dequeues again when there is room; until then it must not count as
    // late.
    let filled = terms.link.bandwidth.time_to_send(terms.ahead + terms.longest);
    let known = match () {
        () if !formal => Err("only formal sharing without a tick has a bound".into()),
        () if patience.is_some_and(|patience| patience < filled) => Err(format!(
            "`link_burst` is less than the device's ring and a packet ({filled})"
        )),
        () if !leaves.iter().all(|leaf| leaf.queue.conserves_work()) => {
            Err("a class may be regulated, and accumulate credit".into())
        }
        () => Ok(()),
    };
    let before = before_each(&leaves, terms);
    let case = |(leaf, others): (&Credited<'_>, &Before)| {
        let stated = terms.arrivals(leaf.id).map(|_| ());
        let own = WorstCase {
            class: Some(leaf.id),
            bound: stated
                .and(known.clone())
                .and_then(|()| worst(leaf, others, terms)),
        };
        let service = known
            .clone()
            .and_then(|()| from_any_time(leaf, others, terms, ceiling));
        std::iter::once(own).chain(leaf.queue.bounds_inside(leaf.name, terms, service))
    };
    leaves.iter().zip(&before).flat_map(case).collect()
}

/// The leaves that go before a leaf, or take turns with it: *H*.
#[derive(Clone, Copy, Default)]
struct Before {
    /// How many.
    leaves: u128,
    /// The sum of their rates, in bit/s.
    rates: u128,
    /// Their full credits with an overdraft each, in bytes.
    bursts: u128,
}

impl Before {
    /// A leaf alone. Without a rate it has no credit: it only borrows.
    fn of(leaf: &Credited<'_>, terms: &Terms<'_>) -> Self {
        match leaf.credit.rate {
            0 => Self::default(),
            rate => Self {
                leaves: 1,
                rates: rate.into(),
                bursts: u128::from(leaf.credit.covers()) + u128::from(terms.longest.get()),
            },
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            leaves: self.leaves + other.leaves,
            rates: self.rates + other.rates,
            bursts: self.bursts + other.bursts,
        }
    }

    fn but_for(self, one: Self) -> Self {
        Self {
            leaves: self.leaves - one.leaves,
            rates: self.rates - one.rates,
            bursts: self.bursts - one.bursts,
        }
    }

    /// What these leaves leave of the link.
    fn left(&self, terms: &Terms<'_>) -> Bandwidth {
        let rates = u64::try_from(self.rates).unwrap_or(u64::MAX);
        terms.link.bandwidth - Bandwidth::bits_per_sec(rates)
    }
}

/// By leaf, those before it. Each priority is added up once, so that very many leaves take no more
/// than a look at each.
fn before_each(leaves: &[Credited<'_>], terms: &Terms<'_>) -> Vec<Before> {
    let mut by_priority: BTreeMap<u32, Before> = BTreeMap::new();
    for leaf in leaves {
        let one = by_priority.entry(leaf.priority).or_default();
        *one = one.and(Before::of(leaf, terms));
    }
    let mut above = Before::default();
    for (_, one) in by_priority.iter_mut().rev() {
        above = above.and(*one);
        *one = above;
    }
    let before = |leaf: &Credited<'_>| by_priority[&leaf.priority].but_for(Before::of(leaf, terms));
    leaves.iter().map(before).collect()
}

/// Whether all that enters a leaf keeps within its rate and its full credit.
fn keeps_within(leaf: &Credited<'_>, terms: &Terms<'_>) -> bool {
    terms.arrivals(leaf.id).is_ok_and(|arrivals| {
        arrivals.rate.bits() <= leaf.credit.rate && arrivals.burst.get() <= leaf.credit.covers()
    })
}

fn worst(own: &Credited<'_>, others: &Before, terms: &Terms<'_>) -> Result<Bound, String> {
    own.queue.kind.arrivals_in_order(own.id, terms)?;
    if !keeps_within(own, terms) {
        return Err(format!(
            "its senders may use up its credit, which covers {} and its rate",
            Bytes::new(own.credit.covers())
        ));
    }
    let before = u128::from(terms.ahead.get()) + others.bursts;
    let service = RateLatency::after(before, others.left(terms));
    let bound = own.queue.kind.worst(own.id, terms, service)?;
    Ok(Bound {
        delay: bound.delay + ROUNDING,
        ..bound
    })
}

/// What a leaf is guaranteed from any time at which it has a backlog.
fn from_any_time(
    own: &Credited<'_>,
    others: &Before,
    terms: &Terms<'_>,
    ceiling: i64,
) -> Result<RateLatency, String> {
    let (longest, ahead) = (u128::from(terms.longest.get()), u128::from(terms.ahead.get()));
    let full = u128::from(own.credit.covers()) + 1;
    let left = others.left(terms);
    // Both clocks' rounding, as bytes of the link.
    let rounding = u128::from(terms.link.bandwidth.bytes_in(ROUNDING).get()) + 1;
    let before = 2 * ahead + others.bursts + full + longest + others.leaves * (longest + 1) + rounding;
    let rate = own.credit.rate;
    if rate == 0 {
        return Err(format!("`{}` has no rate of its own, and only borrows", own.name));
    }
    if rate > left.bits() {
        return Err("the rates add up to more than the link".into());
    }
    if keeps_within(own, terms) {
        return Ok(RateLatency::after(before, left));
    }
    let accumulated = u64::try_from(full + before).unwrap_or(u64::MAX);
    if nanobits(accumulated) > ceiling {
        return Err(format!(
            "`{}` may lose credit while it waits for its turn: a larger `maxburst` or `packet_size` keeps it",
            own.name
        ));
    }
    let waits = u128::from(own.credit.wakes_with()) + 1 + longest;
    let theirs = (before * u128::from(rate)).div_ceil(u128::from(left.bits()));
    Ok(RateLatency::after(waits + theirs, Bandwidth::bits_per_sec(rate)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::ArrivalCurve;
    use crate::link::Link;
    use crate::settings::Table;
    use crate::tree::{DisciplineSpec, Registry};

    const GBIT: Bandwidth = Bandwidth::gbit(1);

    fn link() -> Link {
        Link::new(Bandwidth::gbit(10), Bytes::new(1_000))
    }

    fn queue(spec: &DisciplineSpec) -> QueuePlan {
        spec.check(&Registry::builtin(), link())
            .expect("a good queue")
            .root
    }

    fn fifo() -> QueuePlan {
        queue(&DisciplineSpec::new("fifo"))
    }

    /// 16 packets of 1,000 B, of which the rate regains a tenth: 13,600 B; and 2 end a wait.
    fn leaf(queue: &QueuePlan, class: u32, priority: u32) -> Credited<'_> {
        Credited {
            id: ClassId(class),
            name: "a",
            queue,
            credit: Credit::full(GBIT, link().bandwidth, Bytes::new(1_000), (16, 2)),
            priority,
        }
    }

    fn arrivals(burst: u64) -> Option<ArrivalCurve> {
        Some(ArrivalCurve {
            rate: GBIT,
            burst: Bytes::new(burst),
        })
    }

    fn terms(arrivals: &[Option<ArrivalCurve>]) -> Terms<'_> {
        Terms {
            link: link(),
            longest: Bytes::new(1_000),
            arrivals,
            ahead: Bytes::new(1_000),
            grain: Bytes::ZERO,
            shortest: Bytes::ZERO,
        }
    }

    const OTHERS: Before = Before {
        leaves: 2,
        rates: 4_000_000_000,
        bursts: 5_000,
    };

    #[test]
    fn from_any_time_all_goes_before_that_can_and_then_the_rest_of_the_link_is_its_own() {
        let (queue, arrivals) = (fifo(), [arrivals(13_600)]);
        let own = leaf(&queue, 0, 1);
        assert_eq!((own.credit.covers(), own.credit.wakes_with()), (13_600, 1_000));
        // The device twice, H's bursts, a full credit and a byte, its overdraft, two of H's, and
        // two nanoseconds are 2.5 bytes.
        let before = 2 * 1_000 + 5_000 + 13_601 + 1_000 + 2 * 1_001 + 3;
        let service = from_any_time(&own, &OTHERS, &terms(&arrivals), 0);
        assert_eq!(service, Ok(RateLatency::after(before, Bandwidth::gbit(6))));
    }

    #[test]
    fn a_leaf_that_may_use_up_its_credit_gets_its_rate_if_none_of_its_credit_is_lost() {
        let (queue, arrivals) = (fifo(), [arrivals(13_601)]);
        let own = leaf(&queue, 0, 1);
        let before = 23_606;
        let ceiling = nanobits(before + 13_601);
        // What ends its wait and an overdraft at its rate, and the rest at 6 Gbit/s.
        let expected = RateLatency::after(1_000 + 1 + 1_000 + 3_935, GBIT);
        let found = |ceiling| from_any_time(&own, &OTHERS, &terms(&arrivals), ceiling);
        assert_eq!(found(ceiling), Ok(expected));
        let why = found(ceiling - 1).expect_err("a nanobit is lost");
        assert!(why.starts_with("`a` may lose credit"), "{why}");
    }

    #[test]
    fn nothing_is_guaranteed_without_a_rate_or_where_rates_exceed_the_link() {
        let (queue, arrivals) = (fifo(), [arrivals(0)]);
        let mut own = leaf(&queue, 0, 1);
        let others = |bits| Before {
            rates: bits,
            ..OTHERS
        };
        let found = |own: &Credited<'_>, bits| from_any_time(own, &others(bits), &terms(&arrivals), 0);
        assert!(found(&own, 9_000_000_000).is_ok());
        let why = found(&own, 9_000_000_001).expect_err("a bit too much");
        assert_eq!(why, "the rates add up to more than the link");
        own.credit = Credit::full(Bandwidth::ZERO, link().bandwidth, Bytes::new(1_000), (16, 2));
        let why = found(&own, 0).expect_err("it only borrows");
        assert_eq!(why, "`a` has no rate of its own, and only borrows");
    }

    fn delays(
        leaves: Vec<Credited<'_>>,
        formal: bool,
        patience: Option<u64>,
    ) -> Vec<Result<(u64, u64), String>> {
        let arrivals = [
            arrivals(13_600),
            arrivals(13_600),
            arrivals(13_600),
            arrivals(13_601),
        ];
        let patience = patience.map(Duration::from_nanos);
        let cases = all(leaves, &terms(&arrivals), formal, patience, i64::MAX);
        let told = |case: WorstCase| {
            let bound = case.bound?;
            Ok((bound.delay.nanos(), bound.backlog.get()))
        };
        cases.into_iter().map(told).collect()
    }

    #[test]
    fn the_same_and_higher_priorities_go_before_a_leaf() {
        let queue = fifo();
        let leaves = vec![leaf(&queue, 0, 5), leaf(&queue, 1, 5), leaf(&queue, 2, 7)];
        let found = delays(leaves, true, None);
        // Two bursts with an overdraft each and the device, and its own at 8 Gbit/s.
        let low = Ok((1_000 + 2 * 14_600 + 13_600 + 2, 13_600 + 30_200 / 8));
        // The device, and its own at 10 Gbit/s.
        let high = Ok((14_600 * 8 / 10 + 2, 13_600 + 100));
        assert_eq!(found, [low.clone(), low, high]);
    }

    #[test]
    fn a_leaf_without_a_rate_goes_before_nobody_and_one_that_sends_more_has_no_bound() {
        let queue = fifo();
        let borrows = Credited {
            credit: Credit::full(Bandwidth::ZERO, link().bandwidth, Bytes::new(1_000), (16, 2)),
            ..leaf(&queue, 1, 5)
        };
        let found = delays(vec![leaf(&queue, 0, 5), borrows, leaf(&queue, 3, 1)], true, None);
        assert_eq!(found[0], Ok((14_600 * 8 / 10 + 2, 13_600 + 100)));
        assert!(
            found[1]
                .as_ref()
                .is_err_and(|why| why.contains("may use up its credit"))
        );
        let why = found[2].as_ref().expect_err("a byte more than it has credit for");
        assert_eq!(
            why,
            "its senders may use up its credit, which covers 13.6 kB and its rate"
        );
    }

    #[test]
    fn what_is_not_known_of_the_sharing_leaves_every_leaf_without_a_bound() {
        let queue = fifo();
        let one = |formal, patience| {
            let mut found = delays(vec![leaf(&queue, 0, 5)], formal, patience);
            found.remove(0)
        };
        // The device's ring and a packet, 2,000 bytes, are 1.6 us.
        assert!(one(true, None).is_ok() && one(true, Some(1_600)).is_ok());
        let why = one(true, Some(1_599)).expect_err("the ring is longer");
        assert_eq!(
            why,
            "`link_burst` is less than the device's ring and a packet (1.6 us)"
        );
        let why = one(false, None).expect_err("not formal");
        assert_eq!(why, "only formal sharing without a tick has a bound");
    }

    #[test]
    fn a_queue_that_may_hold_packets_back_leaves_no_leaf_a_bound() {
        let shaper = DisciplineSpec {
            settings: Table::default().text("rate", "1 Mbit/s"),
            ..DisciplineSpec::new("tbf")
        };
        let (plain, shaped) = (fifo(), self::queue(&shaper));
        let found = delays(vec![leaf(&plain, 0, 5), leaf(&shaped, 1, 5)], true, None);
        assert_eq!(
            found[0],
            Err("a class may be regulated, and accumulate credit".into())
        );
    }
}
