//! Looking into a tree of queues without disturbing it: ALTQ's statistics (cbqprobe), for every
//! kind.
//!
//! A discipline's `inspect` reports gauges (state worth seeing, each with its unit) and its
//! classes. The result is a flat list with one [`View`] for the tree and one for each class; the
//! names of classes are in the [plan](crate::tree::TreePlan).

use crate::packet::ClassId;
use crate::stats::Stats;
use crate::units::{Bandwidth, Bytes, Duration, Probability};

/// The value of a gauge, with its unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// A number.
    Count(u64),
    /// A length.
    Bytes(Bytes),
    /// A length that may be negative: a credit or an overdraft.
    Credit(i64),
    /// A rate.
    Bandwidth(Bandwidth),
    /// A time.
    Duration(Duration),
    /// A share or a probability.
    Share(Probability),
    /// A number with a fraction, such as an average queue in packets.
    Real(f64),
    /// A state, by name.
    State(&'static str),
}

/// What one node of the tree reports.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct View {
    /// The class; `None` for the tree as a whole.
    pub class: Option<ClassId>,
    /// The kind of its discipline; of the outermost where there are several. Empty for an interior
    /// class.
    pub kind: &'static str,
    /// Its counts.
    pub stats: Stats,
    /// Its gauges, outermost discipline first.
    pub gauges: Vec<(&'static str, Value)>,
}

/// Collects views.
#[derive(Debug)]
pub struct Inspection<'a> {
    views: &'a mut Vec<View>,
    current: usize,
}

impl<'a> Inspection<'a> {
    /// Starts a new list with the view of the tree as a whole.
    pub fn new(views: &'a mut Vec<View>) -> Self {
        views.clear();
        views.push(View::default());
        Self { views, current: 0 }
    }

    /// Reports one gauge of the current node.
    pub fn gauge(&mut self, name: &'static str, value: Value) {
        self.views[self.current].gauges.push((name, value));
    }

    /// Sets the current node's counts, unless an outer queue has done so.
    pub fn counts(&mut self, kind: &'static str, stats: &Stats) {
        let view = &mut self.views[self.current];
        if view.stats == Stats::default() && view.kind.is_empty() {
            view.kind = kind;
            view.stats = *stats;
        }
    }

    /// Adds to classes that have been reported: for a discipline over another that has the classes.
    pub fn amend(&mut self, mut show: impl FnMut(ClassId, &mut Inspection<'_>)) {
        for current in 0..self.views.len() {
            if let Some(class) = self.views[current].class {
                show(
                    class,
                    &mut Inspection {
                        views: self.views,
                        current,
                    },
                );
            }
        }
    }

    /// Reports a class: what `show` reports belongs to it.
    pub fn class(&mut self, class: ClassId, show: impl FnOnce(&mut Inspection<'_>)) {
        self.views.push(View {
            class: Some(class),
            ..View::default()
        });
        let current = self.views.len() - 1;
        show(&mut Inspection {
            views: self.views,
            current,
        });
    }
}
