//! `cargo xtask browser`: the simulator as WebAssembly, for the page of the documentation's site.
//!
//! It needs the standard library of [`TARGET`], which rustup installs: without it the steps say so,
//! and leave the page out.

use std::path::Path;
use std::process::Command;

/// What browsers run.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// The crates that have to compile for it, with all that they use.
const CRATES: [&str; 1] = ["browser"];

/// Whether the compiler has the target's standard library; if not, says so.
fn is_installed(root: &Path) -> bool {
    let asked = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(root)
        .output();
    let installed = asked.is_ok_and(|output| {
        let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success() && Path::new(&folder).is_dir()
    });
    if !installed {
        skips::skipped(&format!(
            "the target {TARGET} is not installed: `rustup target add {TARGET}`"
        ));
    }
    installed
}

/// Whether what the page needs compiles for it, without making anything.
///
/// # Errors
/// What does not, as the compiler says.
pub fn check(root: &Path) -> Result<(), String> {
    if !is_installed(root) {
        return Ok(());
    }
    let mut check = Command::new("cargo");
    check.args(["check", "--target", TARGET]).current_dir(root);
    check.args(CRATES.iter().flat_map(|name| ["--package", name]));
    match check.status() {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("browser: {check:?}: {other:?}")),
    }
}
