//! Running tests: once without a mutant, to learn how long each takes and which places it reaches;
//! then, for each mutant, those that reach it, the quickest first, until one fails.
//!
//! A test that takes ten times as long as it did, or wants too much memory, has failed too.

use super::woven::{ALIVE, SEEN};
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What a test may use, in KiB.
const MEMORY: u64 = 6 << 20;
/// At least as long may it take.
const PATIENCE: Duration = Duration::from_secs(3);
const LONGER: u32 = 10;

/// Tests that draw what they try draw less of it, and each time the same: a mutant asks many.
const SMALLER: [(&str, &str); 7] = [
    ("SUIMON_CONTRACT_SEED", "1"),
    ("SUIMON_CONTRACT_ROUNDS", "2"),
    ("SUIMON_CONTRACT_OPERATIONS", "400"),
    ("SUIMON_COMPOSITION_STEPS", "1000"),
    ("SUIMON_PIFO_CASES", "200"),
    ("SUIMON_BOUNDS_SEED", "1"),
    ("SUIMON_BOUNDS_CASES", "1000"),
];

/// A program of tests, and the folder of its package, in which it runs.
#[derive(Clone, Debug)]
pub struct TestProgram {
    pub path: PathBuf,
    pub home: PathBuf,
}

/// A test, as it is without mutants.
#[derive(Debug)]
pub struct Reaching {
    program: TestProgram,
    name: String,
    took: Duration,
    /// The first numbers of the sites that it reaches.
    reached: BTreeSet<u32>,
}

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A test failed.
    Caught,
    /// A test did not end.
    Hung,
    /// Tests reach it, and pass.
    Survived,
    /// No test reaches it.
    Unreached,
}

/// How a test ended.
#[derive(PartialEq, Eq)]
enum Ended {
    Passed,
    Failed,
    Late,
}

/// How tests are run.
pub struct Laboratory {
    pub at_a_time: usize,
    /// Longer tests are left out.
    pub slowest: Duration,
}

impl Laboratory {
    /// All tests that pass and are quick enough, the quickest first.
    ///
    /// # Errors
    /// A program that does not tell its tests.
    pub fn reaching(&self, programs: &[TestProgram]) -> Result<Vec<Reaching>, String> {
        let mut all = Vec::new();
        for program in programs {
            all.extend(
                names(&program.path)?
                    .into_iter()
                    .map(|name| (program.clone(), name)),
            );
        }
        let tests = self.spread(all.len(), "tests", |at| {
            let (program, name) = &all[at];
            let seen = std::env::temp_dir().join(format!("suimon-reached-{}-{at}", std::process::id()));
            let start = Instant::now();
            let variable = (SEEN, seen.display().to_string());
            let ended = self.run(program, name, &variable, self.slowest);
            let reached = std::fs::read_to_string(&seen).unwrap_or_default();
            let _ = std::fs::remove_file(&seen);
            match ended {
                Ended::Passed => {}
                Ended::Failed => println!("mutants: {name} does not pass by itself, and is left out"),
                Ended::Late => println!("mutants: {name} takes longer, and is left out"),
            }
            (ended == Ended::Passed).then(|| Reaching {
                program: program.clone(),
                name: name.clone(),
                took: start.elapsed(),
                reached: reached.lines().filter_map(|line| line.parse().ok()).collect(),
            })
        });
        let mut tests: Vec<Reaching> = tests.into_iter().flatten().collect();
        tests.sort_by_key(|test| test.took);
        Ok(tests)
    }

    /// What becomes of each mutant, which has its number and the first number of its site.
    pub fn fates(&self, tests: &[Reaching], mutants: &[(u32, u32)]) -> Vec<Fate> {
        self.spread(mutants.len(), "mutants", |at| self.fate(tests, mutants[at]))
    }

    fn fate(&self, tests: &[Reaching], (number, site): (u32, u32)) -> Fate {
        let mut fate = Fate::Unreached;
        for test in tests.iter().filter(|test| test.reached.contains(&site)) {
            let limit = PATIENCE.max(test.took * LONGER);
            let variable = (ALIVE, number.to_string());
            match self.run(&test.program, &test.name, &variable, limit) {
                Ended::Passed => fate = Fate::Survived,
                Ended::Failed => return Fate::Caught,
                Ended::Late => return Fate::Hung,
            }
        }
        fate
    }

    /// Runs one test with a variable.
    fn run(&self, program: &TestProgram, name: &str, variable: &(&str, String), limit: Duration) -> Ended {
        let started = Command::new("sh")
            .args(["-c", &format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\"")])
            .arg(&program.path)
            .args(["--exact", name, "--test-threads", "1"])
            .current_dir(&program.home)
            .envs(SMALLER)
            .env(variable.0, &variable.1)
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let Ok(mut child) = started else {
            return Ended::Failed;
        };
        let start = Instant::now();
        let mut pause = Duration::from_micros(500);
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ended::Passed,
                Ok(Some(_)) | Err(_) => return Ended::Failed,
                Ok(None) if start.elapsed() > limit => {
                    let group = rustix::process::Pid::from_child(&child);
                    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                    let _ = child.wait();
                    return Ended::Late;
                }
                Ok(None) => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Does so many things, several at a time, and tells how far it is.
    fn spread<T: Send>(&self, count: usize, what: &str, each: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let told = Mutex::new(Instant::now());
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= count {
                    return;
                }
                let made = each(at);
                let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                done.push((at, made));
                let mut told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if told.elapsed() > Duration::from_secs(20) {
                    *told = Instant::now();
                    println!("mutants: {} of {count} {what}", done.len());
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.at_a_time {
                scope.spawn(work);
            }
        });
        let mut done = done
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        done.sort_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, made)| made).collect()
    }
}

fn names(program: &Path) -> Result<Vec<String>, String> {
    let list = Command::new(program)
        .args(["--list", "--format", "terse"])
        .output();
    let list = list.map_err(|why| format!("{}: {why}", program.display()))?;
    let text = String::from_utf8_lossy(&list.stdout).into_owned();
    let name = |line: &str| line.strip_suffix(": test").map(str::to_owned);
    Ok(text.lines().filter_map(name).collect())
}
