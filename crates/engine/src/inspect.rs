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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Count;

    #[test]
    fn only_a_number_that_is_zero_is_zero() {
        let zeros = [
            Value::Count(0),
            Value::Bytes(Bytes::ZERO),
            Value::Credit(0),
            Value::Bandwidth(Bandwidth::ZERO),
            Value::Duration(Duration::ZERO),
            Value::Share(Probability::ZERO),
            Value::Real(0.0),
        ];
        assert!(zeros.iter().all(Value::is_zero));
        let others = [
            Value::Count(1),
            Value::Bytes(Bytes::new(1)),
            Value::Credit(-1),
            Value::Bandwidth(Bandwidth::bits_per_sec(1)),
            Value::Duration(Duration::from_nanos(1)),
            Value::Share(Probability::from_parts(1)),
            Value::Real(0.1),
            Value::State(""),
        ];
        assert!(!others.iter().any(Value::is_zero));
    }

    fn view(class: Option<u32>) -> View {
        View {
            class: class.map(ClassId),
            kind: "red",
            gauges: vec![
                ("a", Value::Count(1)),
                ("b", Value::Count(0)),
                ("c", Value::Count(2)),
            ],
            ..View::default()
        }
    }

    #[test]
    fn of_a_class_the_named_gauges_that_are_not_zero_are_kept_and_of_the_tree_all() {
        let kept = view(Some(3)).with_gauges(&["a", "b"]);
        assert_eq!(kept.gauges, [("a", Value::Count(1))]);
        assert_eq!((kept.class, kept.kind), (Some(ClassId(3)), "red"));
        assert_eq!(view(None).with_gauges(&[]), view(None));
    }

    #[test]
    fn a_blank_view_has_room_for_more_gauges_than_any_node_has() {
        let blank = View::blank();
        assert_eq!((blank.gauges.capacity(), blank), (32, View::default()));
    }

    #[test]
    fn a_view_in_the_memory_of_another_has_nothing_of_it_but_the_memory() {
        let former = View {
            gauges: Vec::with_capacity(77),
            ..view(None)
        };
        let anew = View::anew(Some(ClassId(4)), former);
        assert_eq!(anew.gauges.capacity(), 77);
        let expected = View {
            class: Some(ClassId(4)),
            ..View::default()
        };
        assert_eq!(anew, expected);
    }

    /// Reports a tree with the classes 1 and 2, and class 5 in the queue of class 2.
    fn report(out: &mut Inspection<'_>) {
        out.gauge("whole", Value::Count(9));
        for class in [1, 2] {
            out.class(ClassId(class), |out| {
                out.gauge("own", Value::Count(class.into()));
                if class == 2 {
                    out.class(ClassId(5), |out| out.show(("inner", Value::Count(5))));
                }
            });
        }
    }

    /// A class, or the whole, and its gauges.
    type ToldView = (Option<u32>, Vec<(&'static str, Value)>);

    fn told(views: &[View]) -> Vec<ToldView> {
        let tell = |view: &View| (view.class.map(|class| class.0), view.gauges.clone());
        views.iter().map(tell).collect()
    }

    #[test]
    fn a_slice_reports_the_tree_and_the_classes_of_its_window_alone() {
        let whole = (None, vec![("whole", Value::Count(9))]);
        let class = |class: u32, name| (Some(class), vec![(name, Value::Count(class.into()))]);
        let all = [whole.clone(), class(1, "own"), class(2, "own"), class(5, "inner")];
        let mut views = vec![view(None)];
        let mut out = Inspection::new(&mut views);
        assert_eq!((out.is_whole(), out.window()), (true, 0..u32::MAX));
        report(&mut out);
        assert_eq!(told(&views), all);
        for (window, shown) in [
            (1..2, vec![1]),
            (2..3, vec![2]),
            (5..6, vec![3]),
            (2..6, vec![2, 3]),
            (3..5, vec![]),
        ] {
            let mut out = Inspection::slice(&mut views, window.clone());
            assert_eq!((out.is_whole(), out.window()), (false, window));
            report(&mut out);
            let shown = std::iter::once(0).chain(shown);
            let expected: Vec<_> = shown.map(|place: usize| all[place].clone()).collect();
            assert_eq!(told(&views), expected);
        }
    }

    #[test]
    fn the_views_of_a_slice_are_made_of_former_ones_as_long_as_there_are_enough() {
        let roomy = |room| View {
            gauges: Vec::with_capacity(room),
            ..view(None)
        };
        let (mut views, mut spare) = (vec![roomy(300), roomy(200)], vec![roomy(100)]);
        report(&mut Inspection::within(&mut views, &mut spare, 0..3));
        assert_eq!((views.len(), spare.len()), (3, 0));
        let rooms = views.iter().map(|view| view.gauges.capacity());
        assert_eq!(rooms.collect::<Vec<_>>(), [200, 300, 100]);
        let mut again = Vec::new();
        report(&mut Inspection::within(&mut again, &mut views, 0..1));
        assert_eq!((again.len(), views.len()), (1, 2));
    }

    #[test]
    fn the_counts_and_the_kind_are_those_of_the_outermost_queue() {
        let stats = |packets| Stats {
            sent: Count {
                packets,
                bytes: Bytes::ZERO,
            },
            ..Stats::default()
        };
        let mut views = Vec::new();
        let mut out = Inspection::slice(&mut views, 0..1);
        out.counts("outer", &stats(0));
        out.counts("inner", &stats(2));
        out.class(ClassId(0), |out| {
            out.counts("red", &stats(3));
            out.counts("fifo", &stats(4));
        });
        out.class(ClassId(1), |out| out.counts("red", &stats(5)));
        out.inside(|out| out.counts("red", &stats(6)));
        let told: Vec<_> = views.iter().map(|view| (view.kind, view.stats)).collect();
        assert_eq!(told, [("outer", stats(0)), ("red", stats(3))]);
    }

    #[test]
    fn what_is_amended_is_added_to_the_classes_that_were_reported() {
        let mut views = Vec::new();
        let mut out = Inspection::slice(&mut views, 2..9);
        report(&mut out);
        out.amend(|class, out| out.gauge("more", Value::Count(u64::from(class.0) + 10)));
        let gauges = |view: usize| views[view].gauges.last().copied();
        assert_eq!(views.len(), 3);
        assert_eq!(gauges(0), Some(("whole", Value::Count(9))));
        assert_eq!(gauges(1), Some(("more", Value::Count(12))));
        assert_eq!(gauges(2), Some(("more", Value::Count(15))));
    }
}
