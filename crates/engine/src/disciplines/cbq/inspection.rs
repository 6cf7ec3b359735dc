//! What `cbq` says of its classes and of the link.

use super::plan::{CbqPlan, ClassPlan};
use crate::inspect::{Inspection, Value};
use crate::link_clock::CreditClock;
use crate::queue::{Queue, Stats};
use crate::units::{Bandwidth, Bytes, Duration};

/// Counts of a node, human-readable.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) over: u64,
    pub(super) borrows: u64,
    pub(super) delays: u64,
    pub(super) borrowed: u64,
    pub(super) lent: u64,
}

/// What a class does at the moment, its credit in bytes, and what it has counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) state: &'static str,
    pub(super) credit: i64,
    pub(super) tally: Tally,
}

/// What every mode has to show.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) plan: &'a CbqPlan,
    pub(super) queues: &'a [Queue],
    /// Bytes that the link has lent.
    pub(super) lent: u64,
    pub(super) clock: &'a CreditClock,
}

/// How a class shows its settings.
pub(super) fn shown(class: &ClassPlan) -> [(&'static str, Value); 4] {
    let settings = &class.settings;
    let count = |count: u32| Value::Count(u64::from(count));
    [
        (
            "rate",
            Value::Bandwidth(Bandwidth::bits_per_sec(class.credit.rate)),
        ),
        ("priority", count(settings.priority)),
        ("maxburst", count(settings.maxburst)),
        ("minburst", count(settings.minburst)),
    ]
}

impl Shown<'_> {
    /// Shows all, with what each class does.
    pub(super) fn inspect(&self, out: &mut Inspection<'_>, standing: impl Fn(usize) -> Standing) {
        out.gauge("sharing", Value::State(self.plan.settings.sharing.name()));
        out.gauge("rate", Value::Bandwidth(self.plan.link));
        out.gauge("lent", Value::Bytes(Bytes::new(self.lent)));
        out.gauge(
            "lost_time",
            Value::Duration(Duration::from_nanos(self.clock.behind())),
        );
        let below = out.is_whole().then(|| self.below());
        let window = out.window();
        for number in self.plan.numbers.shown(&window) {
            out.class(self.plan.classes[number].id, |out| {
                self.inspect_class(number, standing(number), out);
                match (self.queues.get(number), &below) {
                    (Some(queue), _) => queue.inspect(out),
                    (None, Some(below)) => out.counts("", &below[number]),
                    (None, None) => {}
                }
            });
        }
        for leaf in self.plan.numbers.inside(&window) {
            out.inside(|out| self.queues[leaf].inspect(out));
        }
    }

    /// The classes, children before parents.
    fn bottom_up(&self) -> impl Iterator<Item = usize> + '_ {
        let mut order: Vec<usize> = (0..self.plan.classes.len()).collect();
        order.sort_by_key(|&number| self.plan.classes[number].level);
        order.into_iter()
    }

    /// What has passed through each class and all below it.
    fn below(&self) -> Vec<Stats> {
        let mut below = vec![Stats::default(); self.plan.classes.len() + 1];
        for number in self.bottom_up() {
            if let Some(queue) = self.queues.get(number) {
                below[number] = queue.stats();
            }
            let stats = below[number];
            below[self.plan.classes[number].parent as usize] += stats;
        }
        below
    }

    fn inspect_class(&self, number: usize, standing: Standing, out: &mut Inspection<'_>) {
        let (tally, class) = (standing.tally, &self.plan.classes[number]);
        out.gauge("state", Value::State(standing.state));
        let [rate, priority, bursts @ ..] = shown(class);
        out.show(rate);
        out.show(priority);
        out.gauge("credit", Value::Credit(standing.credit));
        bursts.into_iter().for_each(|burst| out.show(burst));
        out.gauge("over", Value::Count(tally.over));
        out.gauge("delays", Value::Count(tally.delays));
        out.gauge("borrows", Value::Count(tally.borrows));
        out.gauge("borrowed", Value::Bytes(Bytes::new(tally.borrowed)));
        out.gauge("lent", Value::Bytes(Bytes::new(tally.lent)));
    }
}
