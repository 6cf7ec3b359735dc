//! `cargo xtask ci`: the steps that CI runs, and a developer before a commit. `ci --quick` is the
//! part for the loop between two edits.
//!
//! The steps stop at the first failure. Tests that need privileges make their own network
//! namespaces. Tests that are skipped, because the kernel or the machine lacks something, are
//! counted and listed last; under `CI=true` a skip that is not in [`ALLOWED`] fails.

mod skipped;

use crate::tidy;
use skipped::{Allowed, Skipped};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// What may be skipped under `CI=true`, and why.
const ALLOWED: &[Allowed] = &[
    Allowed {
        file: "crates/suimon/tests/nine/",
        text: "go is not installed",
        reason: "packages.sh does not install Go; other clients take its place",
    },
    Allowed {
        file: "crates/suimon/tests/nine/",
        text: "rsync is not installed",
        reason: "a distribution may lack a program that packages.sh asks for; other programs are capped",
    },
    Allowed {
        file: "crates/suimon/tests/nine/",
        text: "go cannot build",
        reason: "as without Go",
    },
    Allowed {
        file: "crates/suimon/tests/nine/",
        text: "cannot be linked statically",
        reason: "not every C library can; a dynamic program is tested in its place",
    },
    Allowed {
        file: "crates/suimon/tests/nine/",
        text: "control groups cannot be made here",
        reason: "a machine that is a container may have no control groups that can be written",
    },
    Allowed {
        file: "crates/netio/src/echo.rs",
        text: "no ICMP ",
        reason: "an ordinary user may have no ICMP socket, and a container no IPv6; the lab has both",
    },
    Allowed {
        file: "crates/suimon/tests/lab_link.rs",
        text: "there is no ",
        reason: "a distribution may lack a program that packages.sh asks for",
    },
    Allowed {
        file: "crates/suimon/tests/lab_link.rs",
        text: "/dev/net/tun cannot be opened",
        reason: "a machine that is a container may have no TUN device",
    },
    Allowed {
        file: "crates/suimon/tests/fault.rs",
        text: "/dev/net/tun",
        reason: "as in the tests of the link",
    },
    Allowed {
        file: "crates/suimon/tests/fault.rs",
        text: "not permitted",
        reason: "a container may not load programs into the kernel",
    },
    Allowed {
        file: "crates/suimon/tests/nat.rs",
        text: "nft does not translate here",
        reason: "a kernel may not translate addresses, and a machine may have no nft",
    },
    Allowed {
        file: "crates/suimon/tests/slurm.rs",
        text: "Slurm",
        reason: "packages.sh installs no daemons; where Debian's slurm-wlm and munge are, root tries them",
    },
    Allowed {
        file: "crates/suimon/tests/documents.rs",
        text: "there is no ",
        reason: "as in the tests of the link",
    },
    Allowed {
        file: "crates/suimon/tests/web/",
        text: "chromium is not installed",
        reason: "not every distribution has it as a package; the page's numbers are then tested without a browser",
    },
    Allowed {
        file: "crates/suimon/tests/web/promtool.rs",
        text: "promtool is not installed",
        reason: "as chromium",
    },
    Allowed {
        file: "crates/suimon/tests/import.rs",
        text: "the kernel or tc lacks",
        reason: "a kernel without these disciplines; those that it has are tested",
    },
    Allowed {
        file: "crates/suimon/tests/home.rs",
        text: "this machine cannot tell a millisecond",
        reason: "a machine that is busy, or virtual and stands still: what it measures then is itself",
    },
    Allowed {
        file: "crates/suimon/tests/live_scenarios.rs",
        text: "this machine stood still too often",
        reason: "as in the tests of the home",
    },
    Allowed {
        file: "xtask/src/browser.rs",
        text: "the target wasm32-unknown-unknown is not installed",
        reason: "a compiler that rustup did not install has no other target; the page is then left out of the site",
    },
    Allowed {
        file: "xtask/src/browser/",
        text: "chromium is not installed",
        reason: "as in the tests of the web page; what it runs is tested natively",
    },
    Allowed {
        file: "xtask/src/instructions.rs",
        text: "was not counted with",
        reason: "another compiler makes other code; the table is blessed when the toolchain changes",
    },
];

const FORMAT: &[&str] = &["fmt", "--all", "--check"];
const TIDY: &[&str] = &["xtask", "tidy"];
/// Fails at a licence that is not allowed.
const PARTS: &[&str] = &["xtask", "sbom"];
const LINTS: &[&str] = &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
const DOCUMENTATION: &[&str] = &["doc", "--workspace", "--no-deps"];
const TESTS: &[&str] = &["test", "--workspace"];
/// Those in `tests/`, some of which try more when they are optimised. Those beside the code would
/// be the same again, and compile for longest of all.
const RELEASE_TESTS: &[&str] = &[
    "test",
    "--profile",
    "release-tests",
    "--package",
    "engine",
    "--package",
    "sim",
    "--test",
    "*",
];

const INSTRUCTIONS: &[&str] = &["xtask", "instructions"];
const IN_A_BROWSER: &[&str] = &["xtask", "browser", "--check"];
const WHEEL: &[&str] = &["xtask", "wheel"];
const MUTANTS: &[&str] = &["xtask", "mutants", "--lately"];

/// Builds the program with the features that it has in the tests of the workspace, so that CI
/// compiles it once; its path.
///
/// # Errors
/// What cargo says.
pub fn tests_program(root: &Path) -> Result<PathBuf, String> {
    let mut build = Command::new("cargo");
    build.args(["test", "--quiet", "--workspace", "--no-run", "--test", "demo"]);
    match build.current_dir(root).status() {
        Ok(status) if status.success() => Ok(root.join("target/debug/suimon")),
        other => Err(format!("{build:?}: {other:?}")),
    }
}

/// Runs every step in order.
///
/// The release tests are compiled beside the steps that build for debugging: cargo locks each
/// folder in `target` separately, and while one waits for a single long crate the other uses the
/// second processor. Nothing else is compiled twice: the wheel and the page are held against the
/// program of the tests, and this one runs its own verbs itself. Tests begin when nothing is being
/// compiled, since some measure time. The wheel is built and tried beside the release tests, which
/// measure nothing, and the page for browsers beside the counting of instructions, which no load
/// changes; mutants of what has changed are tried beside all of these.
pub fn run(root: &Path) -> Result<(), String> {
    let mut ci = Ci::new(root)?;
    ci.step("format", FORMAT)?;
    ci.step("tidy", TIDY)?;
    ci.step("parts and their licences", PARTS)?;
    let beside = ci.beside("release tests, compiled", &compiled(RELEASE_TESTS))?;
    ci.step("lints", LINTS)?;
    ci.step("documentation", DOCUMENTATION)?;
    ci.step("tests, compiled", &compiled(TESTS))?;
    ci.wait(beside)?;
    ci.step("tests", TESTS)?;
    let mutants = ci.beside("mutants of what has changed", MUTANTS)?;
    let beside = ci.beside("the wheel for Python", WHEEL)?;
    ci.step(
        "the tests of the engine and the simulator in release",
        RELEASE_TESTS,
    )?;
    ci.wait(beside)?;
    let beside = ci.beside("the simulator in a browser", IN_A_BROWSER)?;
    ci.step("instructions of a packet", INSTRUCTIONS)?;
    ci.wait(beside)?;
    ci.wait(mutants)?;
    ci.end()
}

/// Runs the steps that need neither a release build nor network namespaces: the tests of every
/// crate in which no test makes a lab.
pub fn quick(root: &Path) -> Result<(), String> {
    let mut ci = Ci::new(root)?;
    ci.step("format", FORMAT)?;
    ci.step("tidy", TIDY)?;
    ci.step("lints", LINTS)?;
    let mut tests = vec!["test"];
    // Its test of realisers sends in real time, and fails during compilation.
    let packages = tidy::crates_without_lab(root)?
        .into_iter()
        .filter(|name| *name != "netio");
    tests.extend(packages.flat_map(|name| ["--package", name]));
    ci.step("tests", &tests)?;
    let netio = ["test", "--package", "netio", "--lib", "--test", "worker"];
    ci.step("tests of netio", &netio)?;
    ci.end()
}

fn compiled<'a>(tests: &[&'a str]) -> Vec<&'a str> {
    [tests, &["--no-run"]].concat()
}

/// A run of steps.
struct Ci<'a> {
    root: &'a Path,
    /// This program.
    xtask: PathBuf,
    skipped: Skipped,
    start: Instant,
    took: Vec<(&'static str, Duration)>,
}

/// A step that runs beside others. It is ended when one of them fails.
struct Beside {
    name: &'static str,
    child: Child,
    start: Instant,
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'a> Ci<'a> {
    fn new(root: &'a Path) -> Result<Self, String> {
        Ok(Self {
            root,
            xtask: std::env::current_exe().map_err(|why| format!("ci: its own program: {why}"))?,
            skipped: Skipped::new()?,
            start: Instant::now(),
            took: Vec::new(),
        })
    }

    /// A command of cargo; or a verb of this program, which cargo would compile again, with what it
    /// needs alone.
    fn command(&self, args: &[&str], quiet: bool) -> Command {
        let mut command = match args {
            ["xtask", verb @ ..] => {
                let mut command = Command::new(&self.xtask);
                command.args(verb);
                command
            }
            _ => {
                let mut command = Command::new("cargo");
                command.args(quiet.then_some("--quiet")).args(args);
                command
            }
        };
        command
            .current_dir(self.root)
            .env("RUSTDOCFLAGS", "-D warnings")
            .env(skips::LIST, self.skipped.path());
        command
    }

    fn step(&mut self, name: &'static str, args: &[&str]) -> Result<(), String> {
        println!("── {name}: cargo {}", args.join(" "));
        let start = Instant::now();
        let status = self.command(args, false).status().map_err(not_started)?;
        self.done(name, start, status)
    }

    /// Starts a step that prints little unless it fails.
    fn beside(&self, name: &'static str, args: &[&str]) -> Result<Beside, String> {
        println!("── {name}, beside what follows: cargo {}", args.join(" "));
        let child = self.command(args, true).spawn();
        Ok(Beside {
            name,
            child: child.map_err(not_started)?,
            start: Instant::now(),
        })
    }

    fn wait(&mut self, mut beside: Beside) -> Result<(), String> {
        let status = beside.child.wait();
        let status = status.map_err(|e| format!("ci: {}: {e}", beside.name))?;
        self.done(beside.name, beside.start, status)
    }

    fn done(&mut self, name: &'static str, start: Instant, status: ExitStatus) -> Result<(), String> {
        if !status.success() {
            return Err(format!("ci: {name} failed: {status}"));
        }
        let took = start.elapsed();
        println!("── {name}: done in {} s", took.as_secs());
        self.took.push((name, took));
        Ok(())
    }

    /// Prints the times of all steps, and the skipped tests.
    fn end(self) -> Result<(), String> {
        for (name, took) in &self.took {
            println!("── {:>5.0} s  {name}", took.as_secs_f64());
        }
        let must_run = std::env::var("CI").is_ok_and(|ci| ci == "true");
        self.skipped.judge(ALLOWED, must_run)?;
        println!("── everything passed in {} s", self.start.elapsed().as_secs());
        Ok(())
    }
}

fn not_started(error: std::io::Error) -> String {
    format!("cargo could not be started: {error}")
}
