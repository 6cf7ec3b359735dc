//! Runs the points of a sweep in parallel: which points, on how many threads, and the order of
//! results.
//!
//! The result of a point depends on its number alone, and results are reported in the order of
//! their numbers. A sweep that is split over machines and merged again therefore gives the same
//! bytes as one that is not.

use super::ScenarioRun;
use super::captures::CaptureRequest;
use super::outcome::{Outcome, Point};
use crate::Error;
use crate::Scenarios;
use crate::brought::OwnParts;
use crate::folder::Files;
use control::explained::ExplainRequest;
use engine::units::Duration;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};

/// A part of the points: every n-th, starting with the i-th.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected a shard such as 2/8: the second of eight; found `{text}`");
        let (number, of) = text.split_once('/').ok_or_else(wrong)?;
        let (number, of) = (
            number.trim().parse().map_err(|_| wrong())?,
            of.trim().parse().map_err(|_| wrong())?,
        );
        if number == 0 || number > of {
            return Err(wrong());
        }
        Ok(Self { number, of })
    }
}

impl Shard {
    /// All points.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// The numbers of its points. The sizes of shards differ by at most one point, and neighbouring
    /// points are in different shards.
    pub fn points(self, of: usize) -> Vec<usize> {
        (self.number..=of).step_by(self.of).collect()
    }
}

/// The progress of all points.
#[derive(Debug, Default)]
pub struct Done {
    /// Simulated time in nanoseconds.
    pub simulated: AtomicU64,
    /// Events.
    pub events: AtomicU64,
    /// Points that are finished.
    pub points: AtomicUsize,
}

/// The points to run, and how.
pub struct Job<'a> {
    /// The scenario's name.
    pub name: &'a str,
    /// The scenarios.
    pub scenarios: &'a Scenarios,
    /// Access to the scenario's files.
    pub files: Files<'a>,
    /// The numbers of the points.
    pub points: &'a [usize],
    /// The number of threads.
    pub jobs: usize,
    /// The links to capture.
    pub captures: &'a [CaptureRequest],
    /// The link whose packets are explained.
    pub explain: Option<ExplainRequest>,
    /// What a program brings to each point.
    pub own: &'a OwnParts,
    /// Whether TCP's variables are sampled over time.
    pub tcp: bool,
    /// Once set, no further point is begun.
    pub end: &'a AtomicBool,
}

impl Job<'_> {
    /// Runs the points, and passes their outcomes to `tell` in the order of the points. `watch` is
    /// called at intervals with the progress. After `end` the points that were begun are finished:
    /// the first ones without a gap.
    ///
    /// # Errors
    ///
    /// Returns an error if a point cannot be read or run, its thread ends early, or `tell` fails.
    pub fn run<E: From<Error>>(
        &self,
        watch: &mut dyn FnMut(&Done),
        tell: &mut dyn FnMut(Outcome) -> Result<(), E>,
    ) -> Result<(), E> {
        let (done, next, stop) = (Done::default(), AtomicUsize::new(0), AtomicBool::new(false));
        let (send, results) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.clamp(1, self.points.len().max(1)) {
                let send = send.clone();
                let (done, next, stop) = (&done, &next, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) && !self.end.load(Ordering::Relaxed) {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(&number) = self.points.get(index) else {
                            break;
                        };
                        let outcome = self.point(number, done);
                        done.points.fetch_add(1, Ordering::Relaxed);
                        if send.send((index, outcome)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(send);
            let result = self.tell(&results, &done, watch, tell);
            stop.store(true, Ordering::Relaxed);
            result
        })
    }

    fn tell<E: From<Error>>(
        &self,
        results: &mpsc::Receiver<(usize, Result<Outcome, Error>)>,
        done: &Done,
        watch: &mut dyn FnMut(&Done),
        tell: &mut dyn FnMut(Outcome) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut early = BTreeMap::new();
        let mut reported = 0;
        while reported < self.points.len() {
            match results.recv_timeout(std::time::Duration::from_millis(100)) {
                Ok((index, outcome)) => {
                    early.insert(index, outcome?);
                }
                Err(RecvTimeoutError::Timeout) => watch(done),
                Err(RecvTimeoutError::Disconnected) if self.end.load(Ordering::Relaxed) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::ThreadEnded.into());
                }
            }
            while let Some(outcome) = early.remove(&reported) {
                tell(outcome)?;
                reported += 1;
            }
        }
        Ok(())
    }

    fn point(&self, number: usize, done: &Done) -> Result<Outcome, Error> {
        let mut scenario = self.scenarios.point(number, self.files)?;
        scenario.bring(self.own)?;
        let sweep = &self.scenarios.sweep;
        let point = Point {
            number,
            of: sweep.points(),
            values: sweep.values(number),
        };
        let mut before = (0, 0);
        let mut progress = |simulated: Duration, events: u64| {
            done.simulated
                .fetch_add(simulated.nanos() - before.0, Ordering::Relaxed);
            done.events.fetch_add(events - before.1, Ordering::Relaxed);
            before = (simulated.nanos(), events);
        };
        let explain = self.explain.as_ref();
        let mut run = ScenarioRun::begin(&scenario, self.captures, explain)?;
        if self.tcp {
            run = run.sampling_tcp(&scenario);
        }
        run.to_end(self.name, &scenario, point, &mut progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_together_have_every_point_once() {
        for of in [1, 2, 3, 7, 30] {
            let shards = (1..=of).map(|number| Shard { number, of }.points(20));
            let mut all: Vec<usize> = shards.flatten().collect();
            all.sort_unstable();
            assert_eq!(all, (1..=20).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_shard_has_a_number_and_a_count() {
        assert_eq!("2/8".parse(), Ok(Shard { number: 2, of: 8 }));
        for wrong in ["", "2", "0/8", "9/8", "a/b", "1/0", "-1/2"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong} was accepted");
        }
    }
}
