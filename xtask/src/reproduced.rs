//! `cargo xtask reproducible`: builds the program that the package has twice, in two folders, and
//! compares them byte for byte.
//!
//! The same compiler, the same `Cargo.lock` and the same kind of machine are assumed. The first of
//! the two folders is that of the package, so what was compared is what is released. What was found
//! is written into [`PAGE`].

use crate::{bench, marked, package};
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/measurements/reproducible.md";
const MARK: &str = "<!-- cargo xtask reproducible: begin -->";
const END: &str = "<!-- end -->";

/// Builds, compares, and writes down what was found.
///
/// # Errors
/// A build that failed, where the two differ, or a path of this machine in them.
pub fn run(root: &Path) -> Result<(), String> {
    let before = bench::load();
    let size = compare(root)?;
    let text = format!(
        "{}\n\nBy {}: the same {size} bytes, without a path of the machine.",
        bench::when(root, before)?,
        bench::output("rustc", &["--version"])?
    );
    let page = fs::read_to_string(root.join(PAGE)).map_err(|why| format!("{PAGE}: {why}"))?;
    let page =
        marked::replaced(&page, MARK, END, &text).ok_or_else(|| format!("{PAGE} has lost its marks"))?;
    fs::write(root.join(PAGE), page).map_err(|why| format!("{PAGE}: {why}"))
}

/// Builds and compares; returns the size of the program.
///
/// # Errors
/// As [`run`].
pub fn compare(root: &Path) -> Result<usize, String> {
    let other = root.join("target/reproducible/another/place");
    let built = [
        package::build(root, &root.join("target"))?,
        package::build(root, &other)?,
    ];
    let read = |at: usize| fs::read(&built[at]).map_err(|why| format!("{}: {why}", built[at].display()));
    let (one, other) = (read(0)?, read(1)?);
    if let Some(at) = first_difference(&one, &other) {
        return Err(format!(
            "the programs differ from byte {at} on ({} and {} bytes): {} and {}",
            one.len(),
            other.len(),
            built[0].display(),
            built[1].display()
        ));
    }
    for path in [
        root.to_path_buf(),
        package::home("CARGO_HOME", ".cargo"),
        package::home("RUSTUP_HOME", ".rustup"),
    ] {
        let text = path.display().to_string();
        if text.len() > 1 && one.windows(text.len()).any(|part| part == text.as_bytes()) {
            return Err(format!("the program has a path of this machine in it: {text}"));
        }
    }
    println!(
        "two builds in two folders are the same {} bytes, without a path of this machine",
        one.len()
    );
    Ok(one.len())
}

/// The first byte at which they differ.
fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    (same < one.len().max(other.len())).then_some(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_of_a_byte_or_of_length_is_seen() {
        assert_eq!(first_difference(b"abc", b"abc"), None);
        assert_eq!(first_difference(b"abc", b"abd"), Some(2));
        assert_eq!(first_difference(b"abc", b"abcd"), Some(3));
        assert_eq!(first_difference(b"", b""), None);
    }
}
