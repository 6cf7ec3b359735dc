//! Classes of `hfsc` that go on where those of another tree leave off.

use super::{BUSY, Hfsc, RETURNS, Real};
use crate::sharing::service_curve::Curve;

/// The virtual time at which children of a class go on that another tree had: far from 0, as
/// one may be behind, and from the largest key of `shares`.
const TAKEN_OVER_AT: u128 = 1 << 72;

impl Hfsc {
    /// A class goes on where this one of another tree leaves off. What it was given others of stays
    /// as in a change in place.
    pub(super) fn succeed(&mut self, node: usize, former: &Self, was: usize, now: u64) {
        let (old, new) = (former.classes[was].curves, self.classes[node].curves);
        let clock = former.clocks[former.inner(former.nodes[was].parent as usize)];
        let own = self.inner(self.nodes[node].parent as usize);
        let moved = |time: u128| time.wrapping_sub(clock.now).wrapping_add(TAKEN_OVER_AT);
        let own = &mut self.clocks[own];
        own.now = TAKEN_OVER_AT;
        own.latest = own.latest.max(moved(clock.latest));
        let share = former.nodes[was].share;
        self.nodes[node].share = match old.share == new.share {
            true => share.moved(clock.now, TAKEN_OVER_AT),
            false => Curve::new(new.share, moved(share.time_of(0))),
        };
        if let (Some(shape), Some(limit)) = (new.limit, &former.limits[was].0) {
            let another = || {
                let mut other = Curve::new(shape, now.into());
                other.advance(limit.ahead(now.into()));
                other
            };
            self.limits[node].0 = Some(if old.limit == new.limit { *limit } else { another() });
        }
        if self.is_leaf(node) && former.is_leaf(was) {
            self.reals[node] = match old.real == new.real {
                true => former.reals[was].clone(),
                false => new.real.map(|shape| Real::new(Curve::new(shape, now.into()))),
            };
        }
        let returns = former.nodes[was].has(BUSY);
        self.nodes[node].mark(RETURNS, returns);
        self.awaits |= returns;
    }
}
