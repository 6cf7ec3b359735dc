//! How a test reports that it was skipped. For tests only: other crates have it as a
//! dev-dependency.
//!
//! Some tests need what a machine may not have: BPF programs, AF_XDP, tshark. Such a test passes
//! without it, and must report it here. `cargo xtask ci` sets [`LIST`] to a file, counts its
//! lines, and fails under `CI=true` if a skip is not on its list of allowed ones.
#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "a test reports its skips on standard error")]

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

/// The environment variable with the path of the list. The file must exist and be writable for
/// every user, since some tests run as an unprivileged one.
pub const LIST: &str = "SUIMON_SKIPS";

/// Reports that the calling test, or a part of it, is skipped, and why.
///
/// # Panics
/// If there is a list and it cannot be written: an uncounted skip would pass.
#[track_caller]
pub fn skipped(why: impl Display) {
    let line = line(Location::caller(), &test(), &why.to_string());
    eprintln!("skipped: {line}");
    if let Some(path) = std::env::var_os(LIST) {
        // Without `create`: the kernel refuses it for another user's file in a directory such as
        // /tmp.
        let list = OpenOptions::new().append(true).open(&path);
        list.and_then(|mut list| list.write_all(format!("{line}\n").as_bytes()))
            .unwrap_or_else(|e| panic!("{}: a skip could not be recorded: {e}", path.display()));
    }
}

/// The file that skips, the test, and the reason in one line.
fn line(at: &Location<'_>, test: &str, why: &str) -> String {
    let why: Vec<&str> = why.split_whitespace().collect();
    format!("{}: {test}: {}", at.file(), why.join(" "))
}

/// The test's name: that of its thread, or, in a program that runs a single test, the argument
/// after `--exact`.
fn test() -> String {
    let exact = std::env::args()
        .skip_while(|argument| argument != "--exact")
        .nth(1);
    let thread = std::thread::current();
    exact
        .or_else(|| thread.name().map(str::to_owned))
        .unwrap_or_else(|| "a thread".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_one_line_with_file_test_and_reason() {
        let line = line(Location::caller(), &test(), "no program:\n  it is missing\n");
        let (file, rest) = line.split_once(": ").expect("a file");
        assert!(file.ends_with("skips/src/lib.rs"), "{file}");
        assert!(
            rest.ends_with("a_skip_is_one_line_with_file_test_and_reason: no program: it is missing"),
            "{rest}"
        );
    }
}
