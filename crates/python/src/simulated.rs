//! A scenario that was read, and its points, which run without the interpreter's lock.

use crate::arguments::Asked;
use crate::failures::of;
use engine::tree::Registry;
use pyo3::prelude::*;
use scenario::brought::OwnParts;
use scenario::folder::Folder;
use scenario::overridden::{self, SweptOverride};
use scenario::run::outcome::Outcome;
use scenario::run::points::{Job, Shard};
use scenario::{Error, Scenarios};
use std::sync::atomic::{AtomicBool, Ordering};

/// A scenario that has been checked with all its points.
pub(crate) struct Simulation {
    name: String,
    folder: Folder,
    /// The text that is run: with the settings that were asked for.
    pub(crate) text: String,
    scenarios: Scenarios,
}

/// Why a run ended early.
enum Early {
    /// It failed.
    Failed(Error),
    /// Python's exception: that of Ctrl-C, or of a row that could not be made.
    Raised(PyErr),
}

impl From<Error> for Early {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Simulation {
    pub(crate) fn new(py: Python<'_>, asked: Asked, grid: &[SweptOverride]) -> PyResult<Self> {
        py.detach(|| Self::read(asked, grid))
            .map_err(|error| of(py, &error))
    }

    fn read(asked: Asked, grid: &[SweptOverride]) -> Result<Self, Error> {
        let Asked {
            path,
            name,
            mut text,
            overrides,
        } = asked;
        if !overrides.is_empty() {
            text = overridden::with(&path, &text, &overrides)?;
        }
        if !grid.is_empty() {
            text = overridden::swept(&path, &text, grid)?;
        }
        let folder = Folder::of(&path);
        let scenarios = Scenarios::read(&path, &text, &Registry::builtin(), &folder)?;
        Ok(Self {
            name,
            folder,
            text,
            scenarios,
        })
    }

    /// The number of its points.
    pub(crate) fn points(&self) -> usize {
        self.scenarios.sweep.points()
    }

    /// Its warnings, with their places.
    pub(crate) fn warnings(&self) -> serde_json::Value {
        serde_json::json!(self.scenarios.warnings.places())
    }

    /// Runs all points on so many threads, by default one per processor, and gives each outcome in
    /// the order of points. Ctrl-C ends it when the points that were begun are done.
    pub(crate) fn run(
        &self,
        py: Python<'_>,
        jobs: Option<u16>,
        own: &OwnParts,
        mut tell: impl FnMut(Python<'_>, Outcome) -> PyResult<()> + Send,
    ) -> PyResult<()> {
        let points = Shard::WHOLE.points(self.points());
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let end = AtomicBool::new(false);
        let job = Job {
            name: &self.name,
            scenarios: &self.scenarios,
            files: &self.folder,
            points: &points,
            jobs: jobs.map_or_else(processors, |jobs| usize::from(jobs.max(1))),
            captures: &[],
            explain: None,
            own,
            tcp: false,
            end: &end,
        };
        let mut interrupted = None;
        let ran: Result<(), Early> = py.detach(|| {
            let watch = &mut |_: &_| {
                if let Err(signal) = Python::attach(|py| py.check_signals()) {
                    end.store(true, Ordering::Relaxed);
                    interrupted = Some(signal);
                }
            };
            let tell = &mut |outcome| {
                Python::attach(|py| {
                    py.check_signals()?;
                    tell(py, outcome)
                })
                .map_err(Early::Raised)
            };
            job.run(watch, tell)
        });
        match (interrupted, ran) {
            (Some(signal), _) => Err(signal),
            (None, Ok(())) => Ok(()),
            (None, Err(Early::Failed(error))) => Err(of(py, &error)),
            (None, Err(Early::Raised(raised))) => Err(raised),
        }
    }
}
