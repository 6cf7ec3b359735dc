//! `cargo xtask compare [CASE…]`: compares disciplines that the Linux kernel has too with ours,
//! under the same traffic. Not part of CI: it needs Debian's package `user-mode-linux` and
//! about half a minute for each case.

pub mod cases;
pub mod inside;
pub mod kernel;
pub mod measured;
mod page;
mod simulated;
pub mod traffic;

use crate::equality;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compares the named cases, or all, and writes the results into the page.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    // User-Mode Linux appends its own arguments to ours.
    if let [word, name, ..] = arguments
        && word == "inside"
        && let Some(case) = cases::find(name).or_else(|| equality::cases::find(name)?.kernel())
    {
        if std::process::id() != 1 {
            return Err("`compare inside` is the first program of a kernel that `compare` starts".into());
        }
        inside::run(case);
    }
    let chosen = chosen(arguments)?;
    kernel::ready()?;
    let program = built(root)?;
    let scratch = Scratch::new()?;
    for case in chosen {
        let ours =
            simulated::measure(case, &program, &scratch.0).map_err(|e| format!("{}: {e}", case.name))?;
        let theirs = kernel::measure(case, &scratch.0).map_err(|e| format!("{}: {e}", case.name))?;
        println!("{}\n\n{}\n", case.name, page::text(case, &theirs, &ours));
        page::write(root, case, &theirs, &ours)?;
    }
    match page::missing(root).as_slice() {
        [] => Ok(()),
        names => {
            println!("not yet on the page: {}", names.join(", "));
            Ok(())
        }
    }
}

fn chosen(names: &[String]) -> Result<Vec<&'static cases::Case>, String> {
    if names.is_empty() {
        return Ok(cases::ALL.iter().collect());
    }
    let find = |name: &String| {
        cases::find(name).ok_or_else(|| {
            let all: Vec<&str> = cases::ALL.iter().map(|case| case.name).collect();
            format!("there is no case `{name}`; there are {}", all.join(", "))
        })
    };
    names.iter().map(find).collect()
}

/// Builds the current `suimon`.
pub fn built(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let done = Command::new(cargo)
        .args(["build", "--release", "--quiet", "-p", "suimon"])
        .current_dir(root)
        .status()
        .map_err(|e| format!("cargo: {e}"))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    match done.success() {
        true => Ok(target.join("release/suimon")),
        false => Err("suimon does not build".into()),
    }
}

/// A temporary directory, removed at the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("suimon-compare-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
