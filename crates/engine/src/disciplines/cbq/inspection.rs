//! What `cbq` says of its classes.

use super::state::{ASLEEP, BORROW, Cbq, LISTED, OVER};
use crate::inspect::{Inspection, Value};
use crate::queue::Stats;
use crate::sharing::credit::NANOBITS;
use crate::units::{Bandwidth, Bytes};

impl Cbq {
    /// The classes, children before parents.
    pub(super) fn bottom_up(&self) -> impl Iterator<Item = usize> + '_ {
        let mut order: Vec<usize> = (0..self.link()).collect();
        order.sort_by_key(|&number| self.nodes[number].level);
        order.into_iter()
    }

    /// What has passed through each class and all below it.
    pub(super) fn below(&self) -> Vec<Stats> {
        let mut below = vec![Stats::default(); self.link() + 1];
        for number in self.bottom_up() {
            if let Some(queue) = self.queues.get(number) {
                below[number] = queue.stats();
            }
            let stats = below[number];
            below[self.nodes[number].parent as usize] += stats;
        }
        below
    }

    pub(super) fn inspect_class(&self, number: usize, out: &mut Inspection<'_>) {
        let (node, tally, class) = (
            &self.nodes[number],
            &self.tallies[number],
            &self.plan.classes[number],
        );
        let settings = &class.settings;
        let waits = node.flags & OVER != 0 && node.demand != 0;
        let state = match () {
            () if node.flags & ASLEEP != 0 => "asleep",
            () if node.demand == 0 => "idle",
            () if !self.rules.formal && node.flags & LISTED == 0 => "suspended",
            () if !waits => "ready",
            () if node.flags & BORROW != 0 => "borrowing",
            () => "suspended",
        };
        out.gauge("state", Value::State(state));
        out.gauge(
            "rate",
            Value::Bandwidth(Bandwidth::bits_per_sec(node.credit.rate)),
        );
        out.gauge("priority", Value::Count(u64::from(node.priority)));
        out.gauge("credit", Value::Credit(node.credit.left / NANOBITS));
        out.gauge("maxburst", Value::Count(u64::from(settings.maxburst)));
        out.gauge("minburst", Value::Count(u64::from(settings.minburst)));
        out.gauge("over", Value::Count(tally.over));
        out.gauge("delays", Value::Count(tally.delays));
        out.gauge("borrows", Value::Count(tally.borrows));
        out.gauge("borrowed", Value::Bytes(Bytes::new(tally.borrowed)));
        out.gauge("lent", Value::Bytes(Bytes::new(tally.lent)));
    }
}
