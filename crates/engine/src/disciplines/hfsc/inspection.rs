//! What `hfsc` says of its classes.

use super::{BLOCKED, BUSY, Curves, Hfsc, Real};
use crate::inspect::{Inspection, Value};
use crate::queue::Stats;
use crate::sharing::service_curve::Slopes;
use crate::units::{Bandwidth, Bytes, Duration};

/// How a class shows its curves: by the rates of their second pieces.
pub(super) fn shown(curves: Curves) -> impl Iterator<Item = (&'static str, Value)> {
    let Curves { real, share, limit } = curves;
    let rate =
        |(name, curve): (&'static str, Slopes)| (name, Value::Bandwidth(Bandwidth::bits_per_sec(curve.m2)));
    let real = real.map(|real| ("realtime-rate", real));
    let limit = limit.map(|limit| ("upperlimit", limit));
    [real, Some(("linkshare", share)), limit]
        .into_iter()
        .flatten()
        .map(rate)
}

impl Hfsc {
    /// Reports each class with its queue.
    pub(super) fn report(&self, out: &mut Inspection<'_>) {
        let below = out.is_whole().then(|| self.below());
        let window = out.window();
        for node in self.numbers.shown(&window) {
            let class = &self.classes[node];
            let this = &self.nodes[node];
            let state = match (this.has(BUSY), this.has(BLOCKED)) {
                (false, _) => "idle",
                (true, false) => "ready",
                (true, true) => "limited",
            };
            if !self.is_leaf(node) {
                out.class(class.id, |out| {
                    out.gauge("state", Value::State(state));
                    shown(self.curves(node)).for_each(|gauge| out.show(gauge));
                    below.iter().for_each(|below| out.counts("", &below[node]));
                });
                continue;
            }
            self.leaves.inspect_one(node, out, |leaf, out| {
                out.gauge("state", Value::State(state));
                shown(self.curves(node)).for_each(|gauge| out.show(gauge));
                if let Some(Real { tally, .. }) = &self.reals[leaf] {
                    out.gauge("realtime", Value::Bytes(Bytes::new(tally.bytes)));
                    out.gauge("late", Value::Duration(Duration::from_nanos(tally.late)));
                    out.gauge("held-up", Value::Duration(Duration::from_nanos(tally.held_up)));
                }
            });
        }
        for leaf in self.numbers.inside(&window) {
            self.leaves.inspect_inside(leaf, out);
        }
    }

    /// What has passed through each class and all below it.
    fn below(&self) -> Vec<Stats> {
        let leaves = self.reals.len();
        let mut below = vec![Stats::default(); self.nodes.len() + 1];
        // Leaves, and then the others from the bottom up.
        for node in (0..leaves).chain((leaves..self.nodes.len()).rev()) {
            if self.is_leaf(node) {
                below[node] = self.leaves.stats(node);
            }
            let stats = below[node];
            below[self.classes[node].parent as usize] += stats;
        }
        below
    }

    /// The curves that a class is served by.
    fn curves(&self, node: usize) -> Curves {
        let real = self.reals.get(node).and_then(Option::as_ref);
        Curves {
            real: real.map(|real| real.curve.shape),
            share: self.nodes[node].share.shape,
            limit: self.limits[node].0.as_ref().map(|limit| limit.shape),
        }
    }
}
