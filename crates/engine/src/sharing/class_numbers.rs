//! The classes of a discipline by their numbers in the tree: which of them a slice of an inspection
//! reports, without a look at the others.
//!
//! The classes of one discipline have numbers in a row, in the order of the policy; those of a
//! discipline in the queue of a leaf have a row of their own, which comes later.

use crate::kind::Check;
use std::ops::Range;
use std::sync::Arc;

/// The classes in the queue of a leaf.
#[derive(Clone, Debug)]
struct Inside {
    classes: Range<u32>,
    leaf: u32,
}

/// A discipline's own number of each of its classes.
#[derive(Clone, Debug)]
pub(crate) struct ClassNumbers {
    /// The tree's number of the first.
    first: u32,
    /// By the tree's number, from the first on.
    numbers: Arc<[u32]>,
    /// In the order of the classes.
    inside: Arc<[Inside]>,
}

impl ClassNumbers {
    /// Of checked classes, to which the discipline gives these numbers.
    pub(crate) fn new(check: &Check<'_>, number: impl Fn(usize) -> u32) -> Self {
        let first = check.classes.iter().map(|class| class.id.0).min().unwrap_or(0);
        let mut numbers = vec![0; check.classes.len()];
        let mut inside = Vec::new();
        for (index, class) in check.classes.iter().enumerate() {
            numbers[(class.id.0 - first) as usize] = number(index);
            if !class.inside.is_empty() {
                let (classes, leaf) = (class.inside.clone(), number(index));
                inside.push(Inside { classes, leaf });
            }
        }
        inside.sort_by_key(|inside| inside.classes.start);
        Self {
            first,
            numbers: numbers.into(),
            inside: inside.into(),
        }
    }

    /// The own number of the class with this number in the tree, if it is one of these.
    pub(crate) fn own(&self, class: u32) -> Option<usize> {
        let index = class.checked_sub(self.first)? as usize;
        self.numbers.get(index).map(|&number| number as usize)
    }

    /// The discipline's own numbers of its classes in a window.
    pub(crate) fn shown(&self, window: &Range<u32>) -> impl Iterator<Item = usize> + '_ {
        let index = |class: u32| (class.saturating_sub(self.first) as usize).min(self.numbers.len());
        let shown = index(window.start)..index(window.end);
        self.numbers[shown].iter().map(|&number| number as usize)
    }

    /// The leaves outside a window in whose queues there are classes of it.
    pub(crate) fn inside(&self, window: &Range<u32>) -> impl Iterator<Item = usize> + '_ {
        let own = self.first..self.first + self.numbers.len() as u32;
        // Where all own classes are in the window, each reports what is in its queue.
        let covered = window.start <= own.start && own.end <= window.end;
        let from = self
            .inside
            .partition_point(|inside| inside.classes.end <= window.start);
        let until = self
            .inside
            .partition_point(|inside| inside.classes.start < window.end);
        let window = window.clone();
        let leaves = match covered {
            true => &[],
            false => &self.inside[from..until.max(from)],
        };
        let shown = move |leaf: &u32| self.shown(&window).any(|number| number as u32 == *leaf);
        leaves
            .iter()
            .map(|inside| inside.leaf)
            .filter(move |leaf| !shown(leaf))
            .map(|leaf| leaf as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class_name::ClassName;
    use crate::kind::CheckedClass;
    use crate::link::Link;
    use crate::packet::ClassId;
    use crate::settings::{Span, Table};
    use crate::units::{Bandwidth, Bytes};

    /// Of classes with these numbers, and those in their queues; their own numbers are from 5 on.
    fn numbers(classes: &[(u32, Range<u32>)]) -> ClassNumbers {
        let (name, settings) = (ClassName::from("a"), Table::default());
        let class = |(id, inside): &(u32, Range<u32>)| CheckedClass {
            id: ClassId(*id),
            name: &name,
            at: Span::default(),
            parent: None,
            vacant: false,
            settings: &settings,
            queue: None,
            routes: Vec::new(),
            inside: inside.clone(),
        };
        let check = Check {
            link: Link::new(Bandwidth::mbit(1), Bytes::new(1_500)),
            settings: &settings,
            child: None,
            classes: classes.iter().map(class).collect(),
            problems: &mut Vec::new(),
            notices: &mut Vec::new(),
        };
        ClassNumbers::new(&check, |index| index as u32 + 5)
    }

    fn three() -> ClassNumbers {
        numbers(&[(10, 20..22), (12, 30..30), (11, 22..25)])
    }

    #[test]
    fn the_classes_of_a_discipline_have_their_own_numbers_and_others_none() {
        let of = |class| three().own(class);
        assert_eq!([10, 11, 12].map(of), [Some(5), Some(7), Some(6)]);
        assert_eq!([0, 9, 13, 20].map(of), [None; 4]);
        assert_eq!(numbers(&[]).own(0), None);
    }

    #[test]
    fn the_classes_of_a_window_are_shown_in_the_order_of_the_tree() {
        let shown = |window: Range<u32>| three().shown(&window).collect::<Vec<_>>();
        assert_eq!(shown(10..13), [5, 7, 6]);
        assert_eq!(shown(0..99), [5, 7, 6]);
        assert_eq!(shown(11..12), [7]);
        assert_eq!(shown(0..11), [5]);
        assert_eq!(shown(12..99), [6]);
        assert_eq!((shown(0..10), shown(13..20)), (vec![], vec![]));
    }

    #[test]
    fn leaves_outside_a_window_are_told_if_a_class_in_their_queue_is_in_it() {
        let inside = |window: Range<u32>| three().inside(&window).collect::<Vec<_>>();
        assert_eq!(inside(20..25), [5, 7]);
        assert_eq!(
            (inside(20..21), inside(21..22), inside(20..22)),
            (vec![5], vec![5], vec![5])
        );
        assert_eq!(
            (inside(22..23), inside(24..25), inside(22..99)),
            (vec![7], vec![7], vec![7])
        );
        assert_eq!((inside(21..23), inside(13..99)), (vec![5, 7], vec![5, 7]));
        assert_eq!((inside(13..20), inside(25..99)), (vec![], vec![]));
        // Class 11 is shown itself, and class 10 is not.
        assert_eq!((inside(11..23), inside(11..13)), (vec![5], vec![]));
        assert_eq!((inside(10..23), inside(0..99)), (vec![], vec![]), "all are shown");
        assert_eq!(inside(0..11), []);
    }
}
