//! `cargo xtask browser`: the simulator as WebAssembly, on the page of the documentation's site,
//! tried in a headless Chromium: every example has the outcome that the program gives, to the last
//! digit; and how fast it is beside the program.
//!
//! It needs the standard library of [`TARGET`], which rustup installs: without it the steps say so,
//! and leave the page out.

#[path = "../../crates/suimon/tests/web/browser.rs"]
mod chromium;
mod tried;

use std::path::Path;
use std::process::{Command, Stdio};

/// What browsers run.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// What it is built with.
const PROFILE: &str = "browser";

/// The page's module has fewer bytes, compressed by gzip.
const MOST: usize = 2_000_000;

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
        skips::skipped(format!(
            "the target {TARGET} is not installed: `rustup target add {TARGET}`"
        ));
    }
    installed
}

/// The module of the page, compressed; none where the target is not installed.
///
/// # Errors
/// What could not be built; or if it is too large.
pub fn module(root: &Path) -> Result<Option<Vec<u8>>, String> {
    if !is_installed(root) {
        return Ok(None);
    }
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--profile", PROFILE, "--target", TARGET]);
    build.args(["--package", "browser"]).current_dir(root);
    match build.status() {
        Ok(status) if status.success() => {}
        other => return Err(format!("browser: {build:?}: {other:?}")),
    }
    let file = root
        .join("target")
        .join(TARGET)
        .join(PROFILE)
        .join("browser.wasm");
    let mut gzip = Command::new("gzip");
    gzip.args(["-9", "--no-name", "--stdout"]).arg(&file);
    let output = gzip.stderr(Stdio::inherit()).output();
    let output = output.map_err(|why| format!("browser: {gzip:?}: {why}"))?;
    let compressed = output.stdout;
    println!("the module for browsers: {} bytes, compressed", compressed.len());
    match output.status.success() && (1..MOST).contains(&compressed.len()) {
        true => Ok(Some(compressed)),
        false => Err(format!(
            "browser: {}: {} bytes, compressed: expected fewer than {MOST}, and any",
            file.display(),
            compressed.len()
        )),
    }
}

/// Which program the page is held against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeldAgainst {
    /// That of the tests, which is built for them: for outcomes alone.
    TestsProgram,
    /// An optimised one: for speed too.
    OptimisedProgram,
}

/// Makes the site, and tries the page.
///
/// # Errors
/// What could not be built; or what the page does otherwise than the program.
pub fn make(root: &Path, against: HeldAgainst) -> Result<(), String> {
    crate::site::write(root)?;
    match root.join(crate::site::FOLDER).join(tried::PAGE).exists() {
        true => tried::run(root, against),
        // It has been said why.
        false => Ok(()),
    }
}
