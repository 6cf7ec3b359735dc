//! What a packet costs in the engine, as one table: every discipline in its regimes, every kind of
//! filters.
//!
//! `cargo bench --package engine` prints it in some minutes; with `-- --check` it
//! fails if a bar is missed, and with `-- pacing` or another part's name it prints that part. Under
//! `cargo test` everything runs once, small.

#![expect(clippy::print_stdout, reason = "a bench talks")]

mod classifier;
mod counted;
mod disciplines;
mod paced;
mod promises;

use std::process::ExitCode;

/// A ratio of two rows of one run, and what it may be at most.
pub(crate) struct Verdict {
    what: String,
    ratio: f64,
    bar: f64,
}

/// A part of the table: its name, and what prints its rows.
type Part = (&'static str, fn(bool) -> Vec<Verdict>);

const PARTS: [Part; 5] = [
    ("disciplines", disciplines::rows),
    ("hfsc", disciplines::curves),
    ("beside", disciplines::beside),
    ("pacing", paced::rows),
    ("classifier", classifier::rows),
];

fn main() -> ExitCode {
    let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
    if asked("count") {
        let mut what = std::env::args().skip_while(|argument| argument != "count");
        match (what.nth(1), what.next()) {
            (Some(many), Some(name)) if many == "many" => counted::many(&name),
            (only, _) => counted::rows(only),
        }
        return ExitCode::SUCCESS;
    }
    let full = asked("--bench");
    let all = !PARTS.iter().any(|(name, _)| asked(name));
    println!("| what | n | ns median (min–max) |\n|---|---:|---:|");
    let parts = PARTS.iter().filter(|(name, _)| all || asked(name));
    let verdicts: Vec<Verdict> = parts.flat_map(|(_, rows)| rows(full)).collect();
    println!();
    for Verdict { what, ratio, bar } in &verdicts {
        println!("{what}: {ratio:.2} times (bar: {bar})");
    }
    let missed = verdicts.iter().any(|verdict| verdict.ratio > verdict.bar);
    if missed && asked("--check") {
        println!("a bar is missed");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
