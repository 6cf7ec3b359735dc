//! `cargo xtask reproducible`: builds the release binary twice, in two folders, and compares them
//! byte for byte.
//!
//! Paths of the machine are replaced in what the compiler writes, so that neither the place of the
//! checkout nor that of the registry nor that of the target is in the binary. The same compiler,
//! the same `Cargo.lock` and the same kind of machine are assumed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds and compares.
///
/// # Errors
/// A build that failed, or where the two differ.
pub fn run(root: &Path) -> Result<(), String> {
    let folders = ["target/reproducible/a", "target/reproducible/other-place/b"];
    let built: Vec<PathBuf> = folders
        .iter()
        .map(|folder| build(root, folder))
        .collect::<Result<_, _>>()?;
    let read = |path: &PathBuf| std::fs::read(path).map_err(|why| format!("{}: {why}", path.display()));
    let (one, other) = (read(&built[0])?, read(&built[1])?);
    if let Some(at) = first_difference(&one, &other) {
        return Err(format!(
            "the binaries differ from byte {at} on ({} and {} bytes): {} and {}",
            one.len(),
            other.len(),
            built[0].display(),
            built[1].display()
        ));
    }
    for path in [
        root.to_path_buf(),
        home("CARGO_HOME", ".cargo"),
        home("RUSTUP_HOME", ".rustup"),
    ] {
        let text = path.display().to_string();
        if text.len() > 1 && one.windows(text.len()).any(|part| part == text.as_bytes()) {
            return Err(format!("the binary has a path of this machine in it: {text}"));
        }
    }
    println!(
        "two builds in two folders are the same {} bytes, without a path of this machine",
        one.len()
    );
    Ok(())
}

/// A folder of cargo's, from the environment or in the home folder.
fn home(variable: &str, usual: &str) -> PathBuf {
    let named = std::env::var_os(variable).map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(usual))
}

fn build(root: &Path, folder: &str) -> Result<PathBuf, String> {
    let target = root.join(folder);
    let maps = [
        (target.clone(), "/target"),
        (root.to_path_buf(), "/suimon"),
        (home("CARGO_HOME", ".cargo"), "/cargo"),
        (home("RUSTUP_HOME", ".rustup"), "/rustup"),
    ];
    // The last that fits is taken, so the longer ones go last.
    let mut maps: Vec<String> = maps
        .into_iter()
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .collect();
    maps.sort_by_key(String::len);
    let ended = Command::new("cargo")
        .args([
            "build",
            "--release",
            "--locked",
            "--package",
            "suimon",
            "--target-dir",
        ])
        .arg(&target)
        .env("CARGO_ENCODED_RUSTFLAGS", maps.join("\x1f"))
        .env("SOURCE_DATE_EPOCH", "0")
        .current_dir(root)
        .status();
    match ended {
        Ok(status) if status.success() => Ok(target.join("release/suimon")),
        Ok(status) => Err(format!("the build in {folder} failed: {status}")),
        Err(why) => Err(format!("cargo could not be started: {why}")),
    }
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
