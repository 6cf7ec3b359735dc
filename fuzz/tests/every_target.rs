//! Every target: its corpus is replayed, and it is run for a moment, by a seed that is the same
//! each time. `cargo xtask fuzz` runs them for long.

use fuzz::drive::FuzzRun;
use fuzz::targets::TARGETS;
use std::time::{Duration, Instant};

/// Runs of each target, of which as many are made as fit the time.
const RUNS: u64 = 20_000;
const TIME: Duration = Duration::from_millis(1_500);

fn judge(name: &str, seed: u64, done: Result<u64, fuzz::drive::Finding>) -> u64 {
    done.unwrap_or_else(|failure| {
        panic!(
            "{name}, seed {seed}, run {:?}: {}\ninput: {}",
            failure.run,
            failure.message,
            failure.input.escape_ascii()
        )
    })
}

#[test]
fn every_target_takes_its_corpus_and_mutations_of_it() {
    assert!(TARGETS.len() >= 14);
    for target in TARGETS {
        let mut driver = FuzzRun::new(target).unwrap_or_else(|e| panic!("corpus of {}: {e}", target.name));
        let files = driver.replay().map(|files| files as u64);
        assert!(judge(target.name, 0, files) > 0, "{} has no corpus", target.name);
        let start = Instant::now();
        let runs = driver.run(1, 0..RUNS, |_| start.elapsed() < TIME);
        assert!(judge(target.name, 1, runs) > 0);
    }
}

#[test]
fn every_corpus_has_its_target_and_all_are_small() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for folder in std::fs::read_dir(root).expect("corpora") {
        let name = folder
            .expect("a corpus")
            .file_name()
            .into_string()
            .expect("a name");
        let known = TARGETS.iter().any(|target| target.name == name);
        assert!(known, "a corpus of no target: {name}");
    }
    let files = TARGETS.iter().map(|target| target.corpus().expect("files"));
    let bytes: usize = files.flatten().map(|file| file.len()).sum();
    assert!((100_000..1_000_000).contains(&bytes), "{bytes} bytes of corpora");
}
