//! The points of a sweep, side by side: which are to be run, on how many threads, and in which
//! order they are told.
//!
//! A point's result depends on its number alone, and results are told in the order of their
//! numbers. So a sweep that is split over machines and put together again has the same bytes as one
//! that is not.

use super::captures::CaptureRequest;
use super::outcome::{Outcome, Point};
use crate::Error;
use crate::Scenarios;
use crate::folder::Files;
use engine::units::Duration;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};

/// Which part of the points: every n-th, from the i-th on.
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
    /// Everything.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// The numbers of its points: shares differ by one point at most, and neighbours are in
    /// different shards.
    pub fn points(self, of: usize) -> Vec<usize> {
        (self.number..=of).step_by(self.of).collect()
    }
}

/// How far all points are, for who watches.
#[derive(Debug, Default)]
pub struct Done {
    /// Simulated nanoseconds.
    pub simulated: AtomicU64,
    /// Events.
    pub events: AtomicU64,
    /// Points that are finished.
    pub points: AtomicUsize,
}

/// What is run.
pub struct Job<'a> {
    /// The scenario's name.
    pub name: &'a str,
    /// The scenarios.
    pub scenarios: &'a Scenarios,
    /// Where policies are.
    pub files: Files<'a>,
    /// The numbers of the points.
    pub points: &'a [usize],
    /// Threads.
    pub jobs: usize,
    /// Links to be captured.
    pub captures: &'a [CaptureRequest],
}

impl Job<'_> {
    /// Runs the points, and tells each outcome in the order of the points. `watch` is called now
    /// and then.
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
                    while !stop.load(Ordering::Relaxed) {
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
            let told = self.tell(&results, &done, watch, tell);
            stop.store(true, Ordering::Relaxed);
            told
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
        let mut told = 0;
        while told < self.points.len() {
            match results.recv_timeout(std::time::Duration::from_millis(100)) {
                Ok((index, outcome)) => {
                    early.insert(index, outcome?);
                }
                Err(RecvTimeoutError::Timeout) => watch(done),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::ThreadEnded.into());
                }
            }
            while let Some(outcome) = early.remove(&told) {
                tell(outcome)?;
                told += 1;
            }
        }
        Ok(())
    }

    fn point(&self, number: usize, done: &Done) -> Result<Outcome, Error> {
        let scenario = self.scenarios.point(number, self.files)?;
        let sweep = &self.scenarios.sweep;
        let point = Point {
            number,
            of: sweep.points(),
            values: sweep.values(number),
        };
        let mut before = (0, 0);
        let mut said = |simulated: Duration, events: u64| {
            done.simulated
                .fetch_add(simulated.nanos() - before.0, Ordering::Relaxed);
            done.events.fetch_add(events - before.1, Ordering::Relaxed);
            before = (simulated.nanos(), events);
        };
        super::run(self.name, &scenario, point, self.captures, &mut said)
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
    fn a_shard_is_one_of_some() {
        assert_eq!("2/8".parse(), Ok(Shard { number: 2, of: 8 }));
        for wrong in ["", "2", "0/8", "9/8", "a/b", "1/0", "-1/2"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong} was accepted");
        }
    }
}
