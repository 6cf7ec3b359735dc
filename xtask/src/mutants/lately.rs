//! `cargo xtask mutants --lately`: a sample of the mutants of what changed within a day before the
//! last commit, in the package in which most lines did. It fails where surely too few are noticed:
//! it is to find code that came without tests, not to measure a share.

use super::{PACKAGES, Wanted, git, narrow, outcome};
use measure::confidence::SureShare;
use std::path::Path;
use std::time::Duration;

const SAMPLE: usize = 40;
/// The least share that is to be noticed.
const LEAST: f64 = 0.8;
const DAY: u64 = 86_400;

/// Tries them.
///
/// # Errors
/// What does not compile; or where surely fewer than [`LEAST`] are noticed.
pub fn run(root: &Path) -> Result<(), String> {
    let Some((package, commit)) = changed(root)? else {
        println!("mutants: nothing of engine, rsvp and control changed within a day, or no commit is as old");
        return Ok(());
    };
    let mut wanted = Wanted {
        packages: [package.clone()].into(),
        files: Vec::new(),
        since: None,
        sample: SAMPLE,
        seed: 1,
        slowest: Duration::from_secs(10),
    };
    narrow(root, &mut wanted, &commit)?;
    if wanted.files.is_empty() {
        return Ok(());
    }
    let outcome = outcome(root, &package, &wanted)?;
    println!("{}", outcome.list());
    let share = outcome.share();
    let said = format!(
        "mutants: {package}: {:.0} % of {} are noticed ({:.0} to {:.0})",
        share.share * 100.0,
        outcome.fates.len(),
        share.least * 100.0,
        share.most * 100.0
    );
    println!("{said}");
    match is_enough(&share) {
        true => Ok(()),
        false => Err(format!("{said}: what has changed wants tests")),
    }
}

fn is_enough(share: &SureShare) -> bool {
    share.most >= LEAST
}

/// The package with the most changed lines, and the last commit a day before the latest.
fn changed(root: &Path) -> Result<Option<(String, String)>, String> {
    let latest = git(root, &["log", "-1", "--format=%ct"])?;
    let latest: u64 = latest.parse().map_err(|why| format!("git: {latest}: {why}"))?;
    let before = format!("--before={}", latest.saturating_sub(DAY));
    let commit = git(root, &["log", "-1", "--format=%H", &before])?;
    if commit.is_empty() {
        return Ok(None);
    }
    let mut most = (0, None);
    for (package, _) in PACKAGES {
        let folder = format!("crates/{package}/src");
        let lines = lines(&git(root, &["diff", "--numstat", &commit, "--", &folder])?);
        if lines > most.0 {
            most = (lines, Some(package.to_owned()));
        }
    }
    Ok(most.1.map(|package| (package, commit)))
}

/// The lines that `git diff --numstat` tells, tests apart.
fn lines(told: &str) -> u64 {
    let of_code = told.lines().filter(|line| !line.contains("tests"));
    of_code
        .filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_without_tests_fails_and_a_few_missed_of_a_sample_do_not() {
        assert!(!is_enough(&SureShare::of(24, 40)), "surely fewer than 80 %");
        assert!(is_enough(&SureShare::of(30, 40)) && is_enough(&SureShare::of(40, 40)));
        assert!(is_enough(&SureShare::of(1, 2)), "two tell little");
    }

    #[test]
    fn lines_that_changed_are_counted_without_tests() {
        let told = "12\t3\tcrates/engine/src/queue.rs\n900\t0\tcrates/engine/src/tree/tests.rs\n-\t-\ta.png\n5\t5\tb.rs";
        assert_eq!(lines(told), 17);
    }
}
