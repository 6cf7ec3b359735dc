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
