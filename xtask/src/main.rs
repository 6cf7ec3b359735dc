//! `cargo xtask ci | tidy | docs | pictures | package | bench | changes | faults | compare |
//! equality | instructions | nine | fuzz | mutants | traces | sbom | site | browser |
//! advisories | reproducible | release | wheel`: what cargo itself
//! does not do.
#![expect(clippy::print_stdout, reason = "a tool for the terminal")]

mod advisories;
mod bench;
mod bill;
mod browser;
mod campaigns;
mod ci;
mod compare;
mod docs;
mod equality;
mod fuzz;
mod instructions;
mod marked;
mod miri;
mod mutants;
mod nine;
mod package;
mod pictures;
mod release;
mod reproduced;
mod site;
mod tidy;
mod traces;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask ci      what CI runs: format, lints, tidy, tests in debug and release, docs; what tests
                          skipped is listed last, and fails under CI=true unless it is allowed
       cargo xtask ci --quick  for the loop between edits: format, lints, tidy, and the tests of the crates
                          whose tests make no lab; no release build, no documentation
       cargo xtask tidy [RULE]  the invariants of the design, checked on the source; with a rule's name, all
                          its complaints, also those still allowed
       cargo xtask docs    writes the generated parts of docs/disciplines
       cargo xtask site    README and docs/ as a static site, in target/site; fails at a link that leads nowhere
       cargo xtask browser  the site, and its page that simulates tried in a headless Chromium, beside the program;
                          --check: beside the tests' program, without its speed; wants wasm32-unknown-unknown
       cargo xtask pictures  draws docs/disciplines/*.svg from scenarios/disciplines
       cargo xtask traces [SEED FOLDER]  makes the links that vary in scenarios/traces by their models, or those
                          of another seed elsewhere
       cargo xtask package  a Debian package of the release build, in target/debian; needs cargo-deb
       cargo xtask bench [PART...]  all benches, or some, written into docs/benchmarks.md with the date, the
                          machine and its limits; wants a quiet machine and root
       cargo xtask changes [N]  1,000 random changes of a policy under load, or N, in the lab and on a clock of the
                          tests' own, written into docs/measurements/changes.md; wants a quiet machine
       cargo xtask faults [N]  1,000 kills of a running suimon under load and 1,000 failures around one, or N of each, in
                          the lab, written into docs/measurements/faults.md; takes an hour, wants a quiet machine
       cargo xtask kills [N]  1,000 kills of `nine` in each combination of its processes, or N, written into
                          docs/measurements/nine-kills.md
       cargo xtask caps [N]  real programs under `nine --cap`, over paths of 0.1 to 100 ms, once or N times, written
                          into docs/measurements/nine-caps.md
       cargo xtask felt [N]  the grade of a line by `suimon verify`, and a page of 5,000 classes in a browser, 10
                          times or N, written into docs/measurements/felt.md
       cargo xtask daemon [N]  100,000 seeds of a simulated router among faults, or N, written into
                          docs/measurements/daemon.md
       cargo xtask upgrades [N]
                          a program under load is replaced 100 times, or N, by each kind of port, written into
                          docs/measurements/upgrades.md
       cargo xtask soak [N]  a router for an hour, or N minutes, among changes, reservations and kills, and for half
                          as many days of virtual time, written into docs/measurements/soak.md
       cargo xtask compare [CASE...]   disciplines of the Linux kernel beside ours, written into
                          docs/disciplines/beside-linux.md; needs Debian's package user-mode-linux
       cargo xtask equality [CASE...]  sim, lab, run and the kernel side by side, written into
                          docs/measurements/equality.md; needs root, and for the kernel user-mode-linux
       cargo xtask instructions [--bless]   counts what a packet costs in the engine, by valgrind: fails where it
                          is 5 % more than docs/measurements/instructions.md says; --bless writes that
       cargo xtask nine [WORD... | --write]  the law of nine in the simulator over lines, senders and settings, the
                          cells whose names have all these words, or all; --write makes
                          docs/measurements/nine-matrix.md anew; wants a release build: --profile release-tests
       cargo xtask fuzz [TARGET...] [--runs N | --for 10s|5min|2h] [--seed S] [--jobs N]   fuzzes for long (a minute
                          each), and adds the totals to docs/measurements/fuzzing.md
       cargo xtask mutants [PACKAGE|FILE...] [--since COMMIT] [--sample N] [--seed S] [--slowest 20s]   makes small
                          changes in engine, rsvp and control, or in what differs from a commit, N of them drawn by
                          a seed, and tells which no test notices; those of whole packages are written into
                          docs/measurements/mutants.md
       cargo xtask mutants --lately  40 of those in what changed within a day; fails where surely fewer
                          than 80 of 100 are noticed
       cargo xtask miri    the tests of netio's memory of frames, in Miri; needs a nightly compiler with miri and
                          rust-src
       cargo xtask advisories FOLDER  writes advisories.toml anew, which tidy compares Cargo.lock with, from a copy
                          of RustSec's database
       cargo xtask sbom    the parts of the binary as CycloneDX, in target/sbom.json
       cargo xtask reproducible  builds what the package has twice, in two folders, and compares the programs,
                          written into docs/measurements/reproducible.md
       cargo xtask release KEY DATABASE  a release in target/release-files: the tagged tree, parts without an
                          advisory in a copy of RustSec's database, built twice, sums signed by a key of ssh
       cargo xtask wheel   the Python package as a wheel, in target/wheel, with its tests and the cells of
                          docs/python.md in a fresh environment; needs python3 with venv";

fn main() -> ExitCode {
    let root = workspace();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (verb, rest) = arguments
        .split_first()
        .map_or(("", &[][..]), |(verb, rest)| (verb, rest));
    if let Some(campaign) = campaigns::ALL.iter().find(|campaign| campaign.verb == verb) {
        let often = match rest {
            [] => Some(campaign.often),
            [count] => count.parse().ok(),
            _ => None,
        };
        return often.map_or_else(usage, |often| ended(campaign.run(&root, often)));
    }
    let done = match verb {
        "ci" => match rest {
            [] => ci::run(&root),
            [flag] if flag == "--quick" => ci::quick(&root),
            _ => return usage(),
        },
        "tidy" => match rest {
            [] => tidy::run(&root),
            rule => tidy::list(&root, &rule.join(" ")),
        },
        "docs" => docs::write(&root),
        "site" => site::write(&root),
        "browser" => match rest {
            [] => browser::make(&root, browser::HeldAgainst::OptimisedProgram),
            [flag] if flag == "--check" => browser::make(&root, browser::HeldAgainst::TestsProgram),
            _ => return usage(),
        },
        "pictures" => pictures::draw(&root),
        "traces" => traces::write(&root, rest),
        "package" => match rest {
            [] => package::make(&root).map(|_| ()),
            _ => return usage(),
        },
        "bench" => bench::run(&root, rest),
        "compare" => compare::run(&root, rest),
        "fuzz" => fuzz::run(&root, rest),
        "mutants" => mutants::run(&root, rest),
        "miri" => miri::run(&root),
        "sbom" => bill::write(&root),
        "advisories" => match rest {
            [folder] => advisories::renew(&root, folder),
            _ => return usage(),
        },
        "wheel" => wheel::make(&root),
        "reproducible" => reproduced::run(&root),
        "release" => match rest {
            [key, database] => release::make(&root, key, database),
            _ => return usage(),
        },
        "equality" => equality::run(&root, rest),
        "nine" => nine::run(&root, rest),
        "instructions" => match rest {
            [] => instructions::run(&root, instructions::Asked::Check),
            [flag] if flag == "--bless" => instructions::run(&root, instructions::Asked::Bless),
            _ => return usage(),
        },
        _ => return usage(),
    };
    ended(done)
}

/// The exit code, with a message where something failed.
fn ended(done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{HELP}");
    ExitCode::from(2)
}

/// The root of the workspace: the parent of this crate.
fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
