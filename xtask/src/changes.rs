//! `cargo xtask changes [N]`: so many random changes of a policy under load, judged by the tests
//! that CI runs with 100: on a clock of their own, and between real sockets, where the delay counts
//! too. Writes what they said into `docs/measurements/changes.md`.

use crate::{bench, marked};
use std::path::Path;
use std::process::{Command, Stdio};

const PAGE: &str = "docs/measurements/changes.md";
const MARK: &str = "<!-- measured: by `cargo xtask changes` -->";
const END: &str = "<!-- end of measured -->";
/// Begins each line of the tests that is a result.
const RESULT: &str = "changes: ";

/// A package, more arguments of cargo, and a part of the tests' names.
const TESTS: [(&str, &[&str], &str); 2] = [
    ("gateway", &["--lib"], "random_changes"),
    ("suimon", &["--test", "run"], "random_changes"),
];

/// Makes the changes and writes the page.
pub fn run(root: &Path, changes: u64) -> Result<(), String> {
    let (before, mut said) = (bench::load(), Vec::new());
    for (package, more, name) in TESTS {
        said.extend(results(root, changes, package, more, name)?);
    }
    let text: Vec<String> = said.iter().map(|line| format!("- {line}")).collect();
    let text = format!("{}\n\n{}", bench::when(root, before)?, text.join("\n"));
    let path = root.join(PAGE);
    let page = std::fs::read_to_string(&path).map_err(|e| format!("{PAGE}: {e}"))?;
    let page = marked::replaced(&page, MARK, END, &text).ok_or(format!("{PAGE} lacks {MARK}"))?;
    std::fs::write(&path, page).map_err(|e| format!("{PAGE}: {e}"))
}

/// What one package's tests said.
fn results(
    root: &Path,
    changes: u64,
    package: &str,
    more: &[&str],
    name: &str,
) -> Result<Vec<String>, String> {
    let failed = |e: std::io::Error| format!("{package}: {e}");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["test", "--package", package])
        .args(more)
        .args([name, "--", "--nocapture", "--test-threads=1"])
        .env("SUIMON_CHANGES", changes.to_string())
        .current_dir(root)
        .stdout(Stdio::inherit())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?
        .wait_with_output()
        .map_err(failed)?;
    let said = String::from_utf8_lossy(&output.stderr);
    eprint!("{said}");
    let results: Vec<String> = said
        .lines()
        .filter_map(|line| Some(line.strip_prefix(RESULT)?.to_owned()))
        .collect();
    match (output.status.success(), results.is_empty()) {
        (true, false) => Ok(results),
        (true, true) => Err(format!("{package}: nothing was judged")),
        (false, _) => Err(format!("{package}: a change was not as required")),
    }
}
