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
