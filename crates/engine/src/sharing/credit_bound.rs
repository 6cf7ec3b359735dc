//! The worst-case delay of a leaf that is served by credit and priority, under formal link sharing.
//!
//! A leaf whose senders keep within its rate and its full credit σᵢ has credit whenever it has
//! packets, as credit accrues no slower than packets come. By the formal rule only leaves with
//! credit and no smaller priority go before it. How much those may send: the link is busy as long
//! as the leaf is backlogged, so the sum of all credits, which grows with the rates and shrinks
//! with the link, has not grown since no leaf was backlogged; then each had at most a full one. An
//! overdraft is less than a packet, and so is what a last packet exceeds its credit by. So at most
//! Σ (full credit + 2 *Max*) + twice what is in the device, and the rates of those leaves from then
//! on.

use crate::bounds::{Bound, RateLatency, Terms, WorstCase};
use crate::kind::Kind;
use crate::packet::ClassId;
use crate::sharing::credit::Credit;
use crate::units::{Bandwidth, Bytes, Duration};

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
    let longest = u128::from(terms.longest.get());
    let full: u128 = leaves
        .iter()
        .map(|leaf| u128::from(leaf.credit.covers()) + 2 * longest)
        .sum();
    let higher = leaves
        .iter()
        .enumerate()
        .filter(|(other, leaf)| *other != number && leaf.priority >= own.priority);
    let used: Bandwidth = higher
        .map(|(_, leaf)| Bandwidth::bits_per_sec(leaf.credit.rate))
        .sum();
    let before = full + 2 * u128::from(terms.ahead().get());
    let service = RateLatency::after(before, terms.link.bandwidth - used);
    own.queue.worst(own.id, terms, service)
}
