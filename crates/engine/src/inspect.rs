//! Looking into a tree of queues without disturbing it: ALTQ's statistics (cbqprobe), for every
//! kind.
//!
//! A discipline's `inspect` reports gauges (state worth seeing, each with its unit) and its
//! classes. The result is a flat list with one [`View`] for the tree and one for each class; the
//! names of classes are in the [plan](crate::tree::TreePlan).
//!
//! A tree can be inspected in slices, each of a window of classes, so that whoever moves packets
//! looks at few at a time; [`TreePlan::sum_interior`](crate::tree::TreePlan::sum_interior) then
//! adds what only the whole list tells. In [blank](View::blank) views that were made beforehand, a
//! slice takes no memory.

use crate::packet::ClassId;
use crate::stats::Stats;
use crate::units::{Bandwidth, Bytes, Duration, Probability};
use std::ops::Range;

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

impl Value {
    /// Whether it is a number that is zero.
    fn is_zero(&self) -> bool {
        match *self {
            Self::Count(n) => n == 0,
            Self::Bytes(bytes) => bytes == Bytes::ZERO,
            Self::Credit(bytes) => bytes == 0,
            Self::Bandwidth(rate) => rate.bits() == 0,
            Self::Duration(span) => span == Duration::ZERO,
            Self::Share(share) => share == Probability::ZERO,
            Self::Real(x) => x == 0.0,
            Self::State(_) => false,
        }
    }
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

/// The gauges that a blank view has room for: more than any node of one or two disciplines has.
const GAUGES: usize = 32;

impl View {
    /// One with room for gauges.
    pub fn blank() -> Self {
        Self {
            gauges: Vec::with_capacity(GAUGES),
            ..Self::default()
        }
    }

    /// The same with the gauges of these names alone that are not zero, of a class; of the tree as
    /// a whole with all. Most of very many classes have none then, and no memory for any.
    #[must_use]
    pub fn with_gauges(&self, names: &[&str]) -> Self {
        let said = |(name, value): &(&str, Value)| names.contains(name) && !value.is_zero();
        let wanted = |gauge: &&(&str, Value)| self.class.is_none() || said(gauge);
        Self {
            gauges: self.gauges.iter().filter(wanted).copied().collect(),
            ..*self
        }
    }

    /// Of this class, in the memory of a former view.
    fn anew(class: Option<ClassId>, former: Self) -> Self {
        let mut gauges = former.gauges;
        gauges.clear();
        Self {
            class,
            gauges,
            ..Self::default()
        }
    }
}

/// Collects views.
#[derive(Debug)]
pub struct Inspection<'a> {
    views: &'a mut Vec<View>,
    /// Views whose memory is used for others.
    spare: Option<&'a mut Vec<View>>,
    /// The view of the current node; none if it is outside the window.
    current: Option<usize>,
    window: Range<u32>,
}

/// The window of all classes.
const ALL: Range<u32> = 0..u32::MAX;

impl<'a> Inspection<'a> {
    /// Starts a new list with the view of the tree as a whole.
    pub fn new(views: &'a mut Vec<View>) -> Self {
        Self::slice(views, ALL)
    }

    /// The same of the classes with these numbers alone. The counts of classes with child classes
    /// are left out.
    pub fn slice(views: &'a mut Vec<View>, window: Range<u32>) -> Self {
        views.clear();
        Self::begin(views, None, window)
    }

    /// The same in the memory of these views and the spare ones, as long as there are enough.
    pub fn within(views: &'a mut Vec<View>, spare: &'a mut Vec<View>, window: Range<u32>) -> Self {
        spare.append(views);
        Self::begin(views, Some(spare), window)
    }

    fn begin(views: &'a mut Vec<View>, spare: Option<&'a mut Vec<View>>, window: Range<u32>) -> Self {
        let mut begun = Self {
            views,
            spare,
            current: Some(0),
            window,
        };
        begun.push(None);
        begun
    }

    fn push(&mut self, class: Option<ClassId>) {
        let former = self.spare.as_mut().and_then(|spare| spare.pop());
        self.views.push(View::anew(class, former.unwrap_or_default()));
    }

    /// The numbers of the classes that are wanted. Others may be reported, in vain.
    pub fn window(&self) -> Range<u32> {
        self.window.clone()
    }

    /// Whether all classes are wanted, and with them sums over many.
    pub fn is_whole(&self) -> bool {
        self.window == ALL
    }

    fn shows(&self, class: ClassId) -> bool {
        self.window.contains(&class.0)
    }

    /// Reports one gauge of the current node.
    pub fn gauge(&mut self, name: &'static str, value: Value) {
        if let Some(current) = self.current {
            self.views[current].gauges.push((name, value));
        }
    }

    /// The same of a gauge with its name.
    pub fn show(&mut self, (name, value): (&'static str, Value)) {
        self.gauge(name, value);
    }

    /// Sets the current node's counts, unless an outer queue has done so.
    pub fn counts(&mut self, kind: &'static str, stats: &Stats) {
        let Some(current) = self.current else { return };
        let view = &mut self.views[current];
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
                        spare: self.spare.as_deref_mut(),
                        current: Some(current),
                        window: self.window.clone(),
                    },
                );
            }
        }
    }

    /// Reports a class: what `show` reports belongs to it.
    pub fn class(&mut self, class: ClassId, show: impl FnOnce(&mut Inspection<'_>)) {
        if !self.shows(class) {
            return self.inside(show);
        }
        self.push(Some(class));
        self.with(Some(self.views.len() - 1), show);
    }

    /// Reports the classes in the queue of a class that is outside the window.
    pub fn inside(&mut self, show: impl FnOnce(&mut Inspection<'_>)) {
        self.with(None, show);
    }

    fn with(&mut self, current: Option<usize>, show: impl FnOnce(&mut Inspection<'_>)) {
        show(&mut Inspection {
            views: self.views,
            spare: self.spare.as_deref_mut(),
            current,
            window: self.window.clone(),
        });
    }
}
