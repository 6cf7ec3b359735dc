//! `cargo xtask wheel`: the Python package as a wheel in `target/wheel`, built by maturin, tried
//! in a fresh environment: its tests, and the cells of `docs/python.md` in Jupyter's kernel.
//!
//! It needs python3 with its module venv, and a registry of Python packages: maturin is fetched as
//! part of the build, and what the page draws with. The wheel has the profile of the tests, which
//! takes a third of the time to compile; `pip install ./crates/python` makes one of the release's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PACKAGE: &str = "crates/python";
const PLACE: &str = "target/wheel";
const PROFILE: &str = "dev";

/// Builds and tries it. Skips, by name, where there is no Python.
///
/// # Errors
/// What could not be built, installed or run, with all that it printed; or a test that failed.
pub fn make(root: &Path) -> Result<(), String> {
    if !Command::new("python3")
        .args(["-c", "import ensurepip, venv"])
        .output()
        .is_ok_and(|output| output.status.success())
    {
        skips::skipped("python3 is not installed with its module venv");
        return Ok(());
    }
    let place = root.join(PLACE);
    if place.exists() {
        fs::remove_dir_all(&place).map_err(|why| format!("{PLACE}: {why}"))?;
    }
    let fresh = place.join("environment");
    done(Command::new("python3").args(["-m", "venv"]).arg(&fresh))?;
    let python = || {
        let mut command = Command::new(fresh.join("bin/python"));
        command.current_dir(root).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    };
    let pip = |arguments: &[&str]| {
        let mut command = python();
        command.args(["-m", "pip", "--disable-pip-version-check", "--no-input"]);
        command.args(arguments);
        command
    };
    done(
        pip(&["wheel", "--no-deps", "--wheel-dir", PLACE, PACKAGE])
            .env("MATURIN_PEP517_ARGS", format!("--profile {PROFILE}")),
    )?;
    let wheel = wheel(&place)?;
    done(&mut pip(&["install", &format!("{}[notebook]", wheel.display())]))?;
    // The program whose figures are compared.
    let suimon = crate::ci::tests_program(root)?;
    let tests = python()
        .args(["-m", "unittest", "discover", "--start-directory"])
        .arg(root.join(PACKAGE).join("tests"))
        .env("SUIMON", suimon)
        .output();
    show("the package's tests", tests)?;
    let page = python()
        .arg(root.join(PACKAGE).join("tests/run_page.py"))
        .output();
    show("the page", page)
}

/// Runs a command that prints nothing unless it fails.
fn done(command: &mut Command) -> Result<(), String> {
    let output = command.output();
    let output = output.map_err(|why| format!("wheel: {command:?}: {why}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("wheel: {command:?}:\n{}", told(&output))),
    }
}

/// Prints what was tried.
fn show(what: &str, output: std::io::Result<Output>) -> Result<(), String> {
    let output = output.map_err(|why| format!("wheel: {what}: {why}"))?;
    match output.status.success() {
        true => print!("{}", told(&output)),
        false => return Err(format!("wheel: {what}:\n{}", told(&output))),
    }
    Ok(())
}

fn told(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .concat()
}

/// The only wheel there.
fn wheel(place: &Path) -> Result<PathBuf, String> {
    let entries = fs::read_dir(place).map_err(|why| format!("{PLACE}: {why}"))?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut wheels = files.filter(|path| path.extension().is_some_and(|ending| ending == "whl"));
    match (wheels.next(), wheels.next()) {
        (Some(wheel), None) => Ok(wheel),
        _ => Err(format!("wheel: not exactly one wheel in {PLACE}")),
    }
}
