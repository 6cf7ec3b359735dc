//! `cargo xtask ci | tidy | docs`: what cargo does not do by itself.
#![expect(clippy::print_stdout, reason = "a tool for the terminal")]

mod ci;
mod docs;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask ci      what CI runs: format, lints, tidy, tests in debug and release, docs
       cargo xtask tidy    the promises of the design, checked on the source
       cargo xtask docs    writes the generated parts of docs/disciplines";

fn main() -> ExitCode {
    let root = workspace();
    let verb = std::env::args().nth(1).unwrap_or_default();
    let done = match verb.as_str() {
        "ci" => ci::run(&root),
        "tidy" => tidy::run(&root),
        "docs" => docs::write(&root),
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace: the parent of this crate.
fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
