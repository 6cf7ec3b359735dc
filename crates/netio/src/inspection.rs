//! Inspections in slices: with very many classes the worker reads a few between two batches of
//! packets, and whoever asked puts them together.
//!
//! A tree can be replaced meanwhile: then its path is read from the beginning.

use crate::handle::WorkerSnapshot;
use crate::meter::ClassMeter;
use crate::path::Path;
use engine::inspect::View;
use engine::tree::TreePlan;
use engine::units::Instant;
use std::ops::Range;
use std::sync::mpsc::Sender;

/// Classes that are read between two batches at most: some tens of microseconds.
pub const SLICE: u32 = 64;

/// How much of the classes a snapshot shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// Nothing: paths and ports.
    Paths,
    /// What left, class by class.
    Departures,
    /// The state of each, too.
    Everything,
}

/// The classes of a slice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Window {
    /// All of the tree.
    All,
    /// Those with these numbers.
    Classes(Range<u32>),
}

/// Some classes of a path.
#[derive(Debug)]
pub(crate) struct PathSlice {
    pub(crate) path: usize,
    pub(crate) window: Window,
    /// Of the tree as a whole, then of each class.
    pub(crate) views: Vec<View>,
    pub(crate) classes: Vec<ClassMeter>,
    /// The plan of the tree.
    pub(crate) plan: Option<TreePlan>,
}

impl PathSlice {
    /// Completes the views of a slice of all classes.
    pub(crate) fn sum_interior(&mut self) {
        if let Some(plan) = &self.plan {
            plan.sum_interior(&mut self.views);
        }
    }
}

/// A piece of an answer.
#[derive(Debug)]
pub(crate) enum Piece {
    Classes(PathSlice),
    /// All but the classes, and the last piece.
    Rest(Box<WorkerSnapshot>),
}

/// Whether an inspection has read all that it is to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    UnderWay,
    Complete,
}

/// An inspection under way.
#[derive(Debug)]
pub(crate) struct InspectionJob {
    detail: Detail,
    pieces: Sender<Piece>,
    path: usize,
    /// The first class of the path that was not read.
    next: u32,
    /// The tree that is being read.
    tree: u64,
}

impl InspectionJob {
    pub(crate) fn new(detail: Detail, pieces: Sender<Piece>) -> Self {
        Self {
            detail,
            pieces,
            path: 0,
            next: 0,
            tree: 0,
        }
    }

    /// Reads [`SLICE`] classes more.
    pub(crate) fn go_on(&mut self, now: Instant, paths: &mut [Path]) -> Progress {
        if self.detail == Detail::Paths {
            return Progress::Complete;
        }
        let mut left = SLICE;
        while let Some(path) = paths.get_mut(self.path) {
            let classes = path.classes();
            if self.next > 0 && self.tree != path.tree() {
                self.next = 0;
            }
            let window = match (self.next, classes) {
                (0, ..=SLICE) if classes.max(1) > left => return Progress::UnderWay,
                (0, ..=SLICE) => Window::All,
                (next, _) => Window::Classes(next..classes.min(next.saturating_add(left))),
            };
            let end = match &window {
                Window::All => classes,
                Window::Classes(window) => window.end,
            };
            left = left.saturating_sub((end - self.next).max(1));
            // Whoever asked may have given up.
            if self
                .pieces
                .send(Piece::Classes(path.slice(now, self.detail, window)))
                .is_err()
            {
                return Progress::Complete;
            }
            (self.next, self.tree) = (end, path.tree());
            if end == classes {
                (self.next, self.path) = (0, self.path + 1);
            }
            if left == 0 {
                break;
            }
        }
        match self.path < paths.len() {
            true => Progress::UnderWay,
            false => Progress::Complete,
        }
    }

    /// Sends the last piece.
    pub(crate) fn finish(self, rest: WorkerSnapshot) {
        let _ = self.pieces.send(Piece::Rest(Box::new(rest)));
    }
}

/// The slices so far, by path.
#[derive(Debug, Default)]
pub(crate) struct Collected(Vec<CollectedPath>);

#[derive(Debug, Default)]
struct CollectedPath {
    views: Vec<View>,
    classes: Vec<ClassMeter>,
    plan: Option<TreePlan>,
}

impl Collected {
    pub(crate) fn add(&mut self, slice: PathSlice) {
        if self.0.len() <= slice.path {
            self.0.resize_with(slice.path + 1, CollectedPath::default);
        }
        let path = &mut self.0[slice.path];
        let begins = match &slice.window {
            Window::All => true,
            Window::Classes(window) => window.start == 0,
        };
        if begins {
            *path = CollectedPath::default();
        }
        // Each slice begins with the tree as a whole.
        let known = usize::from(!begins).min(slice.views.len());
        path.views.extend(slice.views.into_iter().skip(known));
        path.classes.extend(slice.classes);
        path.plan = slice.plan;
    }

    /// The whole snapshot.
    pub(crate) fn complete(self, mut rest: WorkerSnapshot) -> WorkerSnapshot {
        for (path, mut slices) in rest.paths.iter_mut().zip(self.0) {
            if let Some(plan) = &slices.plan {
                plan.sum_interior(&mut slices.views);
            }
            (path.views, path.classes) = (slices.views, slices.classes);
        }
        rest
    }
}
