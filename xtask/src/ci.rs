//! `cargo xtask ci`: the steps that CI runs, and a developer before a commit. `ci --quick` is the
//! part for the loop between two edits.
//!
//! The steps stop at the first failure; those beside the tests tell theirs when the tests have
//! ended. Tests that need privileges make their own network
//! namespaces. Tests that are skipped, because the kernel or the machine lacks something, are
//! counted and listed last; under `CI=true` a skip that is not in [`ALLOWED`] fails.

mod skipped;

use crate::tidy;
use rustix::process::{Signal, kill_current_process_group, setsid};
use skipped::{Allowed, Skipped};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
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
        file: "xtask/src/mutants/",
        text: "git does not tell what changed",
        reason: "a copy of the files alone has no history",
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
const DOCUMENTATION: &[&str] = &["doc", "--workspace", "--no-deps"];
const TESTS: &[&str] = &["test", "--workspace"];
const RELEASE_TESTS: &[&str] = &[
    "test",
    "--profile",
    "release-tests",
    "--package",
    "engine",
    "--package",
    "sim",
];

const INSTRUCTIONS: &[&str] = &["xtask", "instructions"];
const IN_A_BROWSER: &[&str] = &["xtask", "browser", "--check"];
const WHEEL: &[&str] = &["xtask", "wheel"];
const MUTANTS: &[&str] = &["xtask", "mutants", "--lately"];

/// What the steps beside the tests print, until they have ended.
const PRINTED: &str = "target/ci-beside";

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

/// Lints, kept in this folder, or in that of the tests.
fn lints(folder: Option<&'static str>) -> Vec<&'static str> {
    let mut words = vec!["clippy", "--workspace", "--all-targets"];
    words.extend(folder.into_iter().flat_map(|folder| ["--target-dir", folder]));
    words.extend(["--", "-D", "warnings"]);
    words
}

/// Runs every step: what is quick, then all tests, and [the others](beside) in the time that these
/// leave of two processors: a long crate is compiled by one, and most tests wait. What takes a
/// processor there gives way to the tests at once. The wheel and the page are held against the
/// program of the tests, and this one runs its own verbs itself: nothing is built twice for them.
pub fn run(root: &Path) -> Result<(), String> {
    let mut ci = Ci::new(root)?;
    ci.step("format", FORMAT)?;
    ci.step("tidy", TIDY)?;
    ci.step("parts and their licences", PARTS)?;
    let beside = Beside::start(&ci)?;
    ci.step("tests, compiled", &compiled(TESTS))?;
    ci.step("tests", TESTS)?;
    ci.wait(beside)?;
    ci.end()
}

/// The steps that measure no time, as a program of its own (`ci --beside`).
pub fn beside(root: &Path) -> Result<(), String> {
    end_with_the_input();
    let mut ci = Ci::new(root)?;
    ci.quiet = true;
    // Cargo locks the folder of the tests while it compiles them.
    ci.step("lints", &lints(Some("target/lints")))?;
    ci.step(
        "the tests of the engine and the simulator in release",
        RELEASE_TESTS,
    )?;
    ci.step("instructions of a packet", INSTRUCTIONS)?;
    ci.step("documentation", DOCUMENTATION)?;
    ci.step("the wheel for Python", WHEEL)?;
    ci.step("the simulator in a browser", IN_A_BROWSER)?;
    ci.step("mutants of what changed", MUTANTS)?;
    ci.end()
}

/// Runs the steps that need neither a release build nor network namespaces: the tests of every
/// crate in which no test makes a lab.
pub fn quick(root: &Path) -> Result<(), String> {
    let mut ci = Ci::new(root)?;
    ci.step("format", FORMAT)?;
    ci.step("tidy", TIDY)?;
    ci.step("lints", &lints(None))?;
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
    /// Cargo does not tell what it compiles.
    quiet: bool,
    skipped: Skipped,
    start: Instant,
    took: Vec<(&'static str, Duration)>,
}

/// The steps that run beside the tests, by a program that gives way to all others.
struct Beside {
    child: Child,
    start: Instant,
}

impl Beside {
    fn start(ci: &Ci<'_>) -> Result<Self, String> {
        println!("── lints, documentation and what else measures no time, beside what follows");
        let printed = ci.root.join(PRINTED);
        let _ = std::fs::create_dir_all(ci.root.join("target"));
        let file = File::create(&printed).and_then(|file| Ok((file.try_clone()?, file)));
        let (out, errors) = file.map_err(|why| format!("{PRINTED}: {why}"))?;
        let mut command = Command::new("chrt");
        command
            .args(["--idle", "0"])
            .arg(&ci.xtask)
            .args(["ci", "--beside"]);
        let child = command.stdin(Stdio::piped()).stdout(out).stderr(errors).spawn();
        Ok(Self {
            child: child.map_err(|why| format!("chrt could not be started: {why}"))?,
            start: Instant::now(),
        })
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Ends this program and all that it started when whoever started it is gone, or does not want it
/// any more: then its input ends.
fn end_with_the_input() {
    // What it starts is in its session; others of the terminal are not.
    let _ = setsid();
    // Linux shares processors among sessions first: in that of the tests even the idle class would
    // take half of a processor from a program that a test has given a session of its own.
    let _ = std::fs::write("/proc/self/autogroup", "19");
    std::thread::spawn(|| {
        if !matches!(std::io::stdin().read(&mut [0]), Ok(1..)) {
            let _ = kill_current_process_group(Signal::KILL);
        }
    });
}

impl<'a> Ci<'a> {
    fn new(root: &'a Path) -> Result<Self, String> {
        Ok(Self {
            root,
            xtask: std::env::current_exe().map_err(|why| format!("ci: its own program: {why}"))?,
            quiet: false,
            skipped: Skipped::new()?,
            start: Instant::now(),
            took: Vec::new(),
        })
    }

    /// A command of cargo; or a verb of this program, which cargo would compile again, with what it
    /// needs alone.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = match args {
            ["xtask", verb @ ..] => {
                let mut command = Command::new(&self.xtask);
                command.args(verb);
                command
            }
            _ => {
                let mut command = Command::new("cargo");
                command.args(self.quiet.then_some("--quiet")).args(args);
                command
            }
        };
        command
            .current_dir(self.root)
            .stdin(Stdio::null())
            .env("RUSTDOCFLAGS", "-D warnings")
            .env(skips::LIST, self.skipped.path());
        command
    }

    fn step(&mut self, name: &'static str, args: &[&str]) -> Result<(), String> {
        println!("── {name}: cargo {}", args.join(" "));
        let start = Instant::now();
        let status = self.command(args).status().map_err(not_started)?;
        self.done(name, start, status)
    }

    fn wait(&mut self, mut beside: Beside) -> Result<(), String> {
        // To wait closes it, and its end means that it is not wanted any more.
        let input = beside.child.stdin.take();
        let status = beside.child.wait();
        drop(input);
        let status = status.map_err(|why| format!("ci: beside the tests: {why}"))?;
        let printed = std::fs::read_to_string(self.root.join(PRINTED));
        print!("{}", printed.map_err(|why| format!("{PRINTED}: {why}"))?);
        self.done("all that was beside the tests", beside.start, status)
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
