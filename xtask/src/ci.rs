//! `cargo xtask ci`: what CI runs, step by step, and any developer before a commit.
//!
//! The steps stop at the first failure. Tests that need privileges make their own network namespaces and
//! say what they left out where the kernel refuses.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Each step: what it is called, and the arguments of cargo.
const STEPS: &[(&str, &[&str])] = &[
    ("format", &["fmt", "--all", "--check"]),
    (
        "lints",
        &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
    ),
    ("tidy", &["xtask", "tidy"]),
    ("documentation", &["doc", "--workspace", "--no-deps"]),
    ("the one binary", &["build", "--release", "--package", "suimon"]),
    ("tests", &["test", "--workspace"]),
    (
        "the tests of the engine and the simulator in release",
        &["test", "--release", "--package", "engine", "--package", "sim"],
    ),
];

/// Runs every step in order.
pub fn run(root: &Path) -> Result<(), String> {
    let start = Instant::now();
    for (name, args) in STEPS {
        println!("── {name}: cargo {}", args.join(" "));
        let step = Instant::now();
        let status = Command::new("cargo")
            .args(*args)
            .current_dir(root)
            .env("RUSTDOCFLAGS", "-D warnings")
            .status()
            .map_err(|e| format!("cargo could not be started: {e}"))?;
        if !status.success() {
            return Err(format!("ci: {name} failed: cargo {}", args.join(" ")));
        }
        println!("── {name}: done in {} s", step.elapsed().as_secs());
    }
    println!("── ci: everything passed in {} s", start.elapsed().as_secs());
    Ok(())
}
