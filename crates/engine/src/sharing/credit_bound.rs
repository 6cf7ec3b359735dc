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
//! The clocks of the discipline and of the link start a packet in whole nanoseconds: two more.

use crate::bounds::{Bound, RateLatency, Terms, WorstCase};
use crate::kind::Kind;
use crate::packet::ClassId;
use crate::sharing::credit::Credit;
use crate::units::{Bandwidth, Bytes, Duration};

/// By how much the clocks of a discipline and of its link may be apart.
const ROUNDING: Duration = Duration::from_nanos(2);

/// A leaf as checked.
pub(crate) struct Credited {
    pub(crate) id: ClassId,
    /// The kind of its queue.
    pub(crate) queue: &'static Kind,
    /// A full credit.
    pub(crate) credit: Credit,
    pub(crate) priority: u32,
}

/// The worst case of each of these leaves. `patience`: if a port is the clock, how late it may come
/// before it counts as late.
pub(crate) fn all(
    leaves: Vec<Credited>,
    terms: &Terms<'_>,
    formal: bool,
    patience: Option<Duration>,
) -> Vec<WorstCase> {
    // A port that fills its ring dequeues again when there is room; until then it must not count as
    // late.
    let filled = terms.link.bandwidth.time_to_send(terms.ahead() + terms.longest);
    let known = match () {
        () if !formal => Err("only formal sharing without a tick has a bound".into()),
        () if patience.is_some_and(|patience| patience < filled) => Err(format!(
            "`link_burst` is less than the device's ring and a packet ({filled})"
        )),
        () if !leaves.iter().all(|leaf| leaf.queue.properties.conserves_work) => {
            Err("a class may be regulated, and accumulate credit".into())
        }
        () => Ok(()),
    };
    let case = |(number, leaf): (usize, &Credited)| {
        let stated = terms.arrivals(leaf.id).map(|_| ());
        let bound = stated
            .and(known.clone())
            .and_then(|()| worst(&leaves, number, terms));
        WorstCase {
            class: Some(leaf.id),
            bound,
        }
    };
    leaves.iter().enumerate().map(case).collect()
}

fn worst(leaves: &[Credited], number: usize, terms: &Terms<'_>) -> Result<Bound, String> {
    let own = &leaves[number];
    let arrivals = own.queue.arrivals_in_order(own.id, terms)?;
    let covers = Bytes::new(own.credit.covers());
    if arrivals.rate.bits() > own.credit.rate || arrivals.burst > covers {
        return Err(format!(
            "its senders may use up its credit, which covers {covers} and its rate"
        ));
    }
    // A leaf without a rate has no credit: it only borrows.
    let before_it = || {
        let others = leaves.iter().enumerate().filter(|(other, _)| *other != number);
        let leaves = others.map(|(_, leaf)| leaf);
        leaves.filter(|leaf| leaf.priority >= own.priority && leaf.credit.rate > 0)
    };
    let longest = u128::from(terms.longest.get());
    let bursts: u128 = before_it()
        .map(|leaf| u128::from(leaf.credit.covers()) + longest)
        .sum();
    let rates: Bandwidth = before_it()
        .map(|leaf| Bandwidth::bits_per_sec(leaf.credit.rate))
        .sum();
    let before = u128::from(terms.ahead().get()) + bursts;
    let service = RateLatency::after(before, terms.link.bandwidth - rates);
    let bound = own.queue.worst(own.id, terms, service)?;
    Ok(Bound {
        delay: bound.delay + ROUNDING,
        ..bound
    })
}
