//! Inspections in slices: with very many classes the worker reads a few between two batches of
//! packets, and whoever asked puts them together.
//!
//! The memory of slices is the requester's: it brings a few, and gives each back when it has copied
//! what it shows, so that the worker takes none. Without one the worker goes on with its packets.
//!
//! A tree can be replaced meanwhile: then its path is read from the beginning.

use crate::handle::WorkerSnapshot;
use crate::meter::ClassMeter;
use crate::path::Path;
use crate::spares::{Spares, Taker};
use crate::sys::Bell;
use engine::inspect::View;
use engine::structures::shared_list::SharedList;
use engine::tree::{self, ClassInfo};
use engine::units::Instant;
use measure::delay::Delays;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

/// Classes that are read between two batches at most: some tens of microseconds.
pub const SLICE: u32 = 32;
/// Slices that a worker has at first.
const BLANKS: usize = 8;
/// Those that it has once it is known that the classes fill more: as many as an idle one reads
/// while the requester sleeps.
pub(crate) const MOST_BLANKS: usize = 64;
/// The window of all classes.
pub(crate) const ALL: Range<u32> = 0..u32::MAX;

/// How much of the classes a snapshot shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// Nothing: paths and ports.
    Paths,
    /// What left, class by class.
    Departures,
    /// The counters of each, too; and of its gauges those with these names.
    Counters(&'static [&'static str]),
    /// The state of each, too.
    Everything,
}

/// Some classes of a path.
#[derive(Debug, Default)]
pub(crate) struct PathSlice {
    pub(crate) path: usize,
    pub(crate) window: Range<u32>,
    /// Of the tree as a whole, then of each class.
    pub(crate) views: Vec<View>,
    /// The memory of more views.
    pub(crate) spare: Vec<View>,
    /// The first so many are of classes that have sent something; the others are memory.
    pub(crate) classes: Vec<ClassMeter>,
    pub(crate) departed: usize,
    /// The classes of the tree.
    pub(crate) tree: Option<Arc<SharedList<ClassInfo>>>,
}

impl PathSlice {
    /// With room for so many classes.
    pub(crate) fn blank(detail: Detail, classes: usize) -> Self {
        let views = match detail {
            // The tree as a whole has a view, too.
            Detail::Everything | Detail::Counters(_) => classes + 1,
            Detail::Paths | Detail::Departures => 0,
        };
        let mut spare = Vec::with_capacity(views);
        spare.resize_with(views, View::blank);
        let mut meters = Vec::with_capacity(classes);
        meters.resize_with(classes, || ClassMeter::blank(Delays::roomy()));
        Self {
            views: Vec::with_capacity(views),
            spare,
            classes: meters,
            ..Self::default()
        }
    }

    /// The views and meters of a slice of all classes.
    pub(crate) fn whole(mut self) -> (Vec<View>, Vec<ClassMeter>) {
        if let Some(classes) = &self.tree {
            tree::sum_interior(classes, &mut self.views);
        }
        self.classes.truncate(self.departed);
        (self.views, self.classes)
    }
}

/// A piece of an answer.
#[derive(Debug)]
pub(crate) enum Piece {
    Classes(PathSlice),
    /// All but the classes, and the last piece.
    Rest(Box<WorkerSnapshot>),
}

/// The slices that a requester has brought for a worker, and that are not in use.
#[derive(Debug)]
pub(crate) struct Blanks(Spares<PathSlice>);

impl Blanks {
    /// For inspections of so much.
    pub(crate) fn new(detail: Detail) -> Arc<Self> {
        let many = if detail == Detail::Paths { 0 } else { BLANKS };
        let blank = || PathSlice::blank(detail, SLICE as usize);
        Arc::new(Self(Spares::new((0..many).map(|_| blank()).collect())))
    }

    /// Brings as many as so many classes fill, if there is room for them.
    pub(crate) fn bring(&self, detail: Detail, classes: usize, bell: &Bell) {
        let wanted = classes.div_ceil(SLICE as usize).min(MOST_BLANKS);
        let blank = || PathSlice::blank(detail, SLICE as usize);
        ring(self.0.bring(wanted, blank), bell);
    }

    /// Gives one back.
    pub(crate) fn give(&self, slice: PathSlice, bell: &Bell) {
        ring(self.0.give(slice), bell);
    }
}

fn ring(taker: Taker, bell: &Bell) {
    if taker == Taker::Waits {
        bell.ring();
    }
}

/// Who has asked, for a worker.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    /// The worker among those that are asked.
    pub(crate) worker: usize,
    /// Has room for all slices of all workers, and the last pieces.
    pub(crate) pieces: SyncSender<(usize, Piece)>,
    pub(crate) blanks: Arc<Blanks>,
}

/// Whether an inspection has read all that it is to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    UnderWay,
    /// The requester has not copied the last slices yet.
    Waits,
    Complete,
}

/// An inspection under way.
#[derive(Debug)]
pub(crate) struct InspectionJob {
    detail: Detail,
    requester: Requester,
    path: usize,
    /// The first class of the path that was not read.
    next: u32,
    /// The tree that is being read.
    tree: u64,
}

impl InspectionJob {
    pub(crate) fn new(detail: Detail, requester: Requester) -> Self {
        Self {
            detail,
            requester,
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
            let window = match classes {
                0 => ALL,
                ..=SLICE if self.next == 0 && classes > left => return Progress::UnderWay,
                _ => self.next..classes.min(self.next.saturating_add(left)),
            };
            let end = window.end.min(classes);
            let Some(mut slice) = self.requester.blanks.0.take() else {
                // Whoever asked may have given up.
                return match Arc::strong_count(&self.requester.blanks) {
                    1 => Progress::Complete,
                    _ => Progress::Waits,
                };
            };
            path.slice(now, self.detail, window, &mut slice);
            left = left.saturating_sub((end - self.next).max(1));
            if self.tell(Piece::Classes(slice)).is_break() {
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
        let _ = self.tell(Piece::Rest(Box::new(rest)));
    }

    /// Sends a piece, for which there is room; unless whoever asked has given up.
    fn tell(&self, piece: Piece) -> ControlFlow<()> {
        match self.requester.pieces.try_send((self.requester.worker, piece)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

/// The slices so far, by path.
#[derive(Debug, Default)]
pub(crate) struct Collected(Vec<CollectedPath>);

#[derive(Debug, Default)]
struct CollectedPath {
    views: Vec<View>,
    classes: Vec<ClassMeter>,
    tree: Option<Arc<SharedList<ClassInfo>>>,
}

impl Collected {
    /// Copies what a slice shows.
    pub(crate) fn add(&mut self, slice: &mut PathSlice, detail: Detail) {
        if self.0.len() <= slice.path {
            self.0.resize_with(slice.path + 1, CollectedPath::default);
        }
        let path = &mut self.0[slice.path];
        let begins = slice.window.start == 0;
        if begins {
            *path = CollectedPath::default();
        }
        // Each slice begins with the tree as a whole.
        let known = usize::from(!begins).min(slice.views.len());
        let views = &slice.views[known..];
        if begins && !views.is_empty() {
            // One for each class and the whole.
            let classes = slice.tree.as_ref().map_or(0, |tree| tree.len());
            path.views.reserve_exact(classes.max(views.len()) + 1);
        }
        match detail {
            Detail::Counters(names) => path
                .views
                .extend(views.iter().map(|view| view.with_gauges(names))),
            _ => path.views.extend_from_slice(views),
        }
        path.classes.extend_from_slice(&slice.classes[..slice.departed]);
        path.tree = slice.tree.take();
    }

    /// The whole snapshot.
    pub(crate) fn complete(self, mut rest: WorkerSnapshot) -> WorkerSnapshot {
        for (path, mut slices) in rest.paths.iter_mut().zip(self.0) {
            if let Some(classes) = &slices.tree {
                tree::sum_interior(classes, &mut slices.views);
            }
            (path.views, path.classes) = (slices.views, slices.classes);
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree that changes while it is read is read anew; what comes back must find room in the
    /// channel all the same.
    #[test]
    fn no_more_slices_are_brought_than_there_is_room_for() {
        let bell = Bell::new().expect("a descriptor");
        let brought = |classes: &[usize]| {
            let blanks = Blanks::new(Detail::Everything);
            classes
                .iter()
                .for_each(|&of| blanks.bring(Detail::Everything, of, &bell));
            std::iter::from_fn(|| blanks.0.take()).count()
        };
        assert_eq!(brought(&[10]), BLANKS);
        assert_eq!(brought(&[10 * SLICE as usize, 10]), 10);
        assert_eq!(brought(&[100_000, 100_000, 200_000]), MOST_BLANKS);
    }
}
