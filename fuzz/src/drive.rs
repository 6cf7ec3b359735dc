//! Runs a target, and shortens an input that fails.

use crate::mutate::Mutator;
use crate::targets::{Body, FuzzTarget};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A run may take so long; then the process ends and names it.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many tries to shorten an input.
const TRIES: usize = 4_000;

/// An input that fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The run of the seed; none: a file of the corpus.
    pub run: Option<u64>,
    /// The input, shortened.
    pub input: Vec<u8>,
    /// What the target said.
    pub message: String,
}

/// A target with its corpus.
pub struct FuzzRun {
    /// The target.
    pub target: &'static FuzzTarget,
    body: Body,
    mutator: Mutator,
    files: Vec<Vec<u8>>,
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
    text.unwrap_or_else(|| "a panic".into())
}

/// Panics are caught here: they are told once, with their input.
pub fn quiet() {
    std::panic::set_hook(Box::new(|_| {}));
}

impl FuzzRun {
    /// Reads the corpus.
    ///
    /// # Errors
    ///
    /// Returns an error if the corpus cannot be read.
    pub fn new(target: &'static FuzzTarget) -> std::io::Result<Self> {
        let files = target.corpus()?;
        Ok(Self {
            target,
            body: (target.make)(),
            mutator: Mutator::new(target.shape, files.clone()),
            files,
        })
    }

    fn fails(&mut self, input: &[u8]) -> Option<String> {
        let body = &mut self.body;
        let failed = catch_unwind(AssertUnwindSafe(|| body(input))).err()?;
        // What a broken run left is not trusted.
        self.body = (self.target.make)();
        Some(said(&*failed))
    }

    /// The input of a run.
    pub fn input(&self, seed: u64, run: u64) -> Vec<u8> {
        self.mutator.input(seed, run)
    }

    /// Runs every file of the corpus.
    ///
    /// # Errors
    ///
    /// Returns the first that fails.
    pub fn replay(&mut self) -> Result<usize, Finding> {
        let files = self.files.clone();
        for file in &files {
            if let Some(message) = self.fails(file) {
                return Err(self.shortened(None, file, message));
            }
        }
        Ok(files.len())
    }

    /// Runs these runs of a seed while `go_on`, which is asked after each 64. Returns how many ran.
    ///
    /// # Errors
    ///
    /// Returns the first that fails.
    pub fn run(
        &mut self,
        seed: u64,
        runs: std::ops::Range<u64>,
        mut go_on: impl FnMut(u64) -> bool,
    ) -> Result<u64, Finding> {
        let watch = Watch::new(self.target.name, seed);
        let from = runs.start;
        for run in runs {
            watch.at(run);
            let input = self.mutator.input(seed, run);
            if let Some(message) = self.fails(&input) {
                return Err(self.shortened(Some(run), &input, message));
            }
            let done = run + 1 - from;
            if done.is_multiple_of(64) && !go_on(done) {
                return Ok(done);
            }
        }
        Ok(watch.now().map_or(0, |run| run + 1 - from))
    }

    /// Removes blocks, then makes bytes plain, as long as it fails.
    fn shortened(&mut self, run: Option<u64>, input: &[u8], mut message: String) -> Finding {
        let mut input = input.to_vec();
        let mut tries = 0;
        let mut block = input.len().next_power_of_two() / 2;
        while block > 0 && tries < TRIES {
            let mut at = 0;
            while at < input.len() && tries < TRIES {
                let mut shorter = input.clone();
                shorter.drain(at..(at + block).min(input.len()));
                tries += 1;
                match self.fails(&shorter) {
                    Some(said) => (input, message) = (shorter, said),
                    None => at += block,
                }
            }
            block /= 2;
        }
        let plain = if std::str::from_utf8(&input).is_ok() {
            b' '
        } else {
            0
        };
        for at in 0..input.len().min(TRIES) {
            let mut plainer = input.clone();
            plainer[at] = plain;
            if plainer != input
                && let Some(said) = self.fails(&plainer)
            {
                (input, message) = (plainer, said);
            }
        }
        Finding { run, input, message }
    }
}

/// Ends the process when one run takes too long: a loop without end cannot be caught otherwise.
struct Watch {
    /// The present run plus one; zero before the first, `u64::MAX` at the end.
    run: Arc<AtomicU64>,
}

impl Watch {
    fn new(target: &'static str, seed: u64) -> Self {
        let run = Arc::new(AtomicU64::new(0));
        let seen = run.clone();
        std::thread::spawn(move || {
            let (mut last, mut since) = (0, Instant::now());
            while Arc::strong_count(&seen) > 1 {
                std::thread::sleep(Duration::from_millis(200));
                let now = seen.load(Ordering::Relaxed);
                if now != last {
                    (last, since) = (now, Instant::now());
                }
                if now != 0 && since.elapsed() > PATIENCE && Arc::strong_count(&seen) > 1 {
                    eprintln!(
                        "{target}: run {} of seed {seed} takes longer than {} s: a loop without end?",
                        now - 1,
                        PATIENCE.as_secs()
                    );
                    std::process::abort();
                }
            }
        });
        Self { run }
    }

    fn at(&self, run: u64) {
        self.run.store(run + 1, Ordering::Relaxed);
    }

    fn now(&self) -> Option<u64> {
        self.run.load(Ordering::Relaxed).checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutate::InputShape;

    static BROKEN: FuzzTarget = FuzzTarget {
        name: "captures",
        about: "it fails on a byte of 7 behind one of 9",
        shape: InputShape::Binary(4_000),
        tree: &[],
        make: || {
            Box::new(|input| {
                let nine = input.iter().position(|byte| *byte == 9);
                assert!(nine.is_none_or(|at| !input[at..].contains(&7)), "a 7 behind a 9");
            })
        },
    };

    #[test]
    fn a_fault_is_found_shortened_and_repeated() {
        let mut driver = FuzzRun::new(&BROKEN).expect("a corpus");
        let failure = driver.run(1, 0..1_000_000, |_| true).expect_err("a fault");
        assert_eq!(failure.input, [9, 7]);
        assert_eq!(failure.message, "a 7 behind a 9");
        let run = failure.run.expect("its run");
        let again = driver
            .run(1, run..run + 1, |_| true)
            .expect_err("the fault again");
        assert_eq!(again, failure);
    }
}
