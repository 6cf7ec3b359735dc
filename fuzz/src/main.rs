//! `fuzz TARGET [--seed S] [--from N] [--runs N] [--for SECONDS]`: runs one target in this process.
//!
//! Each second a line `target runs` says how far it is, for `cargo xtask fuzz`. On a failure it
//! prints the seed, the run and the shortened input, writes that beside, and exits with 1.
#![expect(clippy::print_stdout, reason = "a tool for the terminal")]

use fuzz::drive::{Finding, FuzzRun, quiet};
use fuzz::targets::TARGETS;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const HELP: &str = "usage: fuzz TARGET [--seed S] [--from N] [--runs N] [--for SECONDS]\n       fuzz TARGET --file PATH\n       fuzz list";

struct Asked {
    seed: u64,
    from: u64,
    runs: u64,
    limit: Option<Duration>,
}

fn asked(words: &[String]) -> Option<Asked> {
    let mut asked = Asked {
        seed: 1,
        from: 0,
        runs: u64::MAX,
        limit: None,
    };
    for pair in words.chunks(2) {
        let [option, value] = pair else { return None };
        let value: u64 = value.replace('_', "").parse().ok()?;
        match option.as_str() {
            "--seed" => asked.seed = value,
            "--from" => asked.from = value,
            "--runs" => asked.runs = value,
            "--for" => asked.limit = Some(Duration::from_secs(value)),
            _ => return None,
        }
    }
    Some(asked)
}

fn tell(name: &str, seed: u64, failure: &Finding) {
    println!("{name}: {}", failure.message);
    if let Some(run) = failure.run {
        println!("to repeat it: cargo run -p fuzz -- {name} --seed {seed} --from {run} --runs 1");
    }
    println!("the input, shortened to {} bytes:", failure.input.len());
    println!("{}", failure.input.escape_ascii());
}

fn go(name: &str, words: &[String]) -> Result<ExitCode, String> {
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        return Err(format!("there is no target `{name}`\n{HELP}"));
    };
    let mut driver = FuzzRun::new(target).map_err(|e| format!("the corpus of {name}: {e}"))?;
    if let [option, path] = words
        && option == "--file"
    {
        let input = std::fs::read(path).map_err(|e| format!("{path}: {e}"))?;
        (target.make)()(&input);
        return Ok(ExitCode::SUCCESS);
    }
    let asked = asked(words).ok_or(HELP)?;
    quiet();
    let start = Instant::now();
    let mut told = start;
    let runs = asked.from..asked.from.saturating_add(asked.runs);
    let done = driver.run(asked.seed, runs, |done| {
        if told.elapsed() >= Duration::from_secs(1) {
            told = Instant::now();
            println!("{name} {done}");
        }
        asked.limit.is_none_or(|limit| start.elapsed() < limit)
    });
    match done {
        Ok(done) => {
            println!("{name} {done}");
            Ok(ExitCode::SUCCESS)
        }
        Err(failure) => {
            tell(name, asked.seed, &failure);
            Ok(ExitCode::FAILURE)
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.split_first() {
        Some((list, [])) if list == "list" => {
            for target in TARGETS {
                println!("{}\t{}", target.name, target.about);
            }
            Ok(ExitCode::SUCCESS)
        }
        Some((name, rest)) => go(name, rest),
        None => Err(HELP.into()),
    };
    done.unwrap_or_else(|message| {
        eprintln!("{message}");
        ExitCode::from(2)
    })
}
