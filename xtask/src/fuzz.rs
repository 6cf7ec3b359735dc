//! `cargo xtask fuzz [TARGET…] [--runs N | --for TIME] [--seed S] [--jobs N]`: fuzzes for long.
//!
//! Each target runs in a process of its own, several at a time, and tells each second how far it
//! is. The totals go into the table of [`PAGE`]. A process that fails has printed its seed, its run
//! and the shortened input; the others go on.

use crate::marked;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PAGE: &str = "docs/measurements/fuzzing.md";
const MARK: &str = "<!-- cargo xtask fuzz: begin -->";
const END: &str = "<!-- end -->";
/// How long each target runs, unless the arguments say it.
const USUAL: Duration = Duration::from_secs(60);

const USAGE: &str = "fuzz: [TARGET…] [--runs N | --for 10s|5min|2h] [--seed S] [--jobs N]";

#[derive(Debug, PartialEq, Eq)]
struct Asked {
    targets: Vec<String>,
    runs: Option<u64>,
    limit: Option<Duration>,
    seed: Option<u64>,
    jobs: usize,
}

fn asked(words: &[String]) -> Result<Asked, String> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut asked = Asked {
        targets: Vec::new(),
        runs: None,
        limit: None,
        seed: None,
        jobs,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if !word.starts_with("--") {
            asked.targets.push(word.clone());
            continue;
        }
        let value = words
            .next()
            .ok_or_else(|| format!("{word} has no value; {USAGE}"))?;
        let number = || {
            value
                .replace('_', "")
                .parse::<u64>()
                .map_err(|_| format!("{word}: `{value}` is no number"))
        };
        match word.as_str() {
            "--runs" => asked.runs = Some(number()?),
            "--for" => asked.limit = Some(time(word, value)?),
            "--seed" => asked.seed = Some(number()?),
            "--jobs" => asked.jobs = number()?.clamp(1, 1_000) as usize,
            _ => return Err(format!("there is no {word}; {USAGE}")),
        }
    }
    Ok(asked)
}

/// The value of an option that is a time.
pub fn time(word: &str, text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "s" => 1,
        "min" => 60,
        "h" => 3_600,
        _ => return Err(format!("{word}: `{text}` is none of 10s, 5min, 2h")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("{word}: `{text}` is none of 10s, 5min, 2h"))?;
    Ok(Duration::from_secs(number * seconds))
}

/// What one target has done.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Total {
    runs: u64,
    seconds: u64,
    failed: bool,
}

/// Builds the targets, runs them, and writes down their totals.
///
/// # Errors
/// What could not be built or run, or which targets failed.
pub fn run(root: &Path, words: &[String]) -> Result<(), String> {
    let asked = asked(words)?;
    let program = build(root)?;
    let all = targets(&program)?;
    if let Some(unknown) = asked.targets.iter().find(|name| !all.contains(name)) {
        return Err(format!(
            "there is no target `{unknown}`; there are {}",
            all.join(", ")
        ));
    }
    let chosen = match asked.targets.is_empty() {
        true => all,
        false => asked.targets.clone(),
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |since| since.as_secs());
    let seed = asked.seed.unwrap_or(now);
    println!(
        "fuzz: seed {seed}, {} targets, {} at a time",
        chosen.len(),
        asked.jobs.min(chosen.len())
    );
    let totals = drive(&program, chosen, &asked, seed)?;
    let failed: Vec<String> = totals
        .iter()
        .filter(|(_, total)| total.failed)
        .map(|(name, _)| name.clone())
        .collect();
    record(root, &totals)?;
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("fuzz: these failed, see above: {}", failed.join(", "))),
    }
}

fn build(root: &Path) -> Result<PathBuf, String> {
    let built = Command::new("cargo")
        .args(["build", "--profile", "fuzz", "--package", "fuzz"])
        .current_dir(root)
        .status();
    match built {
        Ok(status) if status.success() => Ok(root.join("target/fuzz/fuzz")),
        Ok(status) => Err(format!("fuzz: the targets were not built: {status}")),
        Err(why) => Err(format!("cargo could not be started: {why}")),
    }
}

fn targets(program: &Path) -> Result<Vec<String>, String> {
    let list = Command::new(program).arg("list").output();
    let list = list.map_err(|why| format!("{}: {why}", program.display()))?;
    let text = String::from_utf8_lossy(&list.stdout).into_owned();
    Ok(text
        .lines()
        .filter_map(|line| line.split('\t').next())
        .map(str::to_owned)
        .collect())
}

/// Runs them, so many at a time.
fn drive(
    program: &Path,
    chosen: Vec<String>,
    asked: &Asked,
    seed: u64,
) -> Result<BTreeMap<String, Total>, String> {
    let queue = Arc::new(Mutex::new(VecDeque::from(chosen)));
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..asked.jobs {
            let (queue, tell) = (Arc::clone(&queue), tell.clone());
            scope.spawn(move || {
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                while let Some(name) = next() {
                    let total = one(program, &name, asked, seed);
                    let _ = tell.send((name, total));
                }
            });
        }
        drop(tell);
        told.into_iter()
            .map(|(name, total)| total.map(|total| (name, total)))
            .collect()
    })
}

/// Runs one target until it ends, and shows how far it is now and then.
fn one(program: &Path, name: &str, asked: &Asked, seed: u64) -> Result<Total, String> {
    let mut command = Command::new(program);
    command.arg(name).args(["--seed", &seed.to_string()]);
    if let Some(runs) = asked.runs {
        command.args(["--runs", &runs.to_string()]);
    }
    if asked.runs.is_none() || asked.limit.is_some() {
        command.args(["--for", &asked.limit.unwrap_or(USUAL).as_secs().to_string()]);
    }
    let start = Instant::now();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|why| format!("{name}: {why}"))?;
    let runs = follow(&mut child, name);
    let seconds = processor_seconds(&child).unwrap_or_else(|| start.elapsed().as_secs());
    let status = child.wait().map_err(|why| format!("{name}: {why}"))?;
    if !status.success() {
        println!("{name}: {status} after {runs} runs of seed {seed}");
    }
    Ok(Total {
        runs,
        seconds,
        failed: !status.success(),
    })
}

/// What a child that nobody has waited for had of a processor, by proc(5).
fn processor_seconds(child: &Child) -> Option<u64> {
    let told = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    seconds_of(&told)
}

/// The times in user and in kernel mode, in hundredths of a second, are the 14th and 15th of the
/// fields, of which the second is a name in brackets.
fn seconds_of(told: &str) -> Option<u64> {
    let mut times = told.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || times.next()?.parse::<u64>().ok();
    Some((next()? + next()?) / 100)
}

fn follow(child: &mut Child, name: &str) -> u64 {
    let (mut runs, mut shown) = (0, Instant::now());
    let lines = child
        .stdout
        .take()
        .into_iter()
        .flat_map(|out| BufReader::new(out).lines());
    for line in lines.map_while(Result::ok) {
        let count = line.strip_prefix(name).and_then(|rest| rest.trim().parse().ok());
        match count {
            Some(count) => runs = count,
            None => println!("{line}"),
        }
        if shown.elapsed() > Duration::from_secs(30) {
            println!("{name}: {runs} runs");
            shown = Instant::now();
        }
    }
    println!("{name}: {runs} runs");
    runs
}

/// Adds the totals to those that the page has.
fn record(root: &Path, totals: &BTreeMap<String, Total>) -> Result<(), String> {
    let path = root.join(PAGE);
    let page = std::fs::read_to_string(&path).map_err(|why| format!("{PAGE}: {why}"))?;
    let mut all = recorded(&page);
    for (name, total) in totals {
        let sum = all.entry(name.clone()).or_default();
        *sum = (sum.0 + total.runs, sum.1 + total.seconds);
    }
    let mut table = "| target | runs | hours of a processor |\n|---|---|---|\n".to_owned();
    for (name, (runs, seconds)) in &all {
        let hours = *seconds as f64 / 3_600.0;
        let _ = writeln!(
            table,
            "| {name} | {} | {hours:.2} <!-- {seconds} s --> |",
            grouped(*runs)
        );
    }
    let page =
        marked::replaced(&page, MARK, END, &table).ok_or_else(|| format!("{PAGE} has lost its marks"))?;
    std::fs::write(&path, page).map_err(|why| format!("{PAGE}: {why}"))
}

/// Runs and seconds of each target, as the page has them.
fn recorded(page: &str) -> BTreeMap<String, (u64, u64)> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let name = cells.next()?.to_owned();
        let runs = cells.next()?.replace(',', "").parse().ok()?;
        let seconds = line.split("<!-- ").nth(1)?.split(' ').next()?.parse().ok()?;
        Some((name, (runs, seconds)))
    };
    page.lines().filter_map(row).collect()
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_processors_seconds_are_those_in_both_modes() {
        let told = "77 (a ) b) S 1 77 77 0 -1 4194560 1 2 3 4 350 75 9 9 20 0 1 0 5 6";
        assert_eq!(seconds_of(told), Some(4));
        let own = std::fs::read_to_string("/proc/self/stat").expect("Linux");
        assert!(seconds_of(&own).is_some());
    }

    #[test]
    fn arguments_are_read_or_refused() {
        let read = asked(&words("pcap --runs 1_000 policy --seed 7 --for 2min --jobs 1")).expect("arguments");
        assert_eq!(read.targets, ["pcap", "policy"]);
        assert_eq!((read.runs, read.seed, read.jobs), (Some(1_000), Some(7), 1));
        assert_eq!(read.limit, Some(Duration::from_secs(120)));
        for wrong in ["--runs", "--runs x", "--for 5", "--for x", "--what 1"] {
            assert!(asked(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn totals_are_added_to_those_of_the_page() {
        let folder = std::env::temp_dir().join(format!("suimon-fuzz-page-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("docs/measurements")).expect("a folder");
        let page = format!("# Fuzzing\n\n{MARK}\n\n{END}\n");
        std::fs::write(folder.join(PAGE), page).expect("a page");
        let total = Total {
            runs: 1_234_567,
            seconds: 90,
            failed: false,
        };
        for _ in 0..2 {
            record(&folder, &BTreeMap::from([("pcap".to_owned(), total.clone())])).expect("recorded");
        }
        let page = std::fs::read_to_string(folder.join(PAGE)).expect("a page");
        std::fs::remove_dir_all(&folder).expect("ours");
        assert!(
            page.contains("| pcap | 2,469,134 | 0.05 <!-- 180 s --> |"),
            "{page}"
        );
    }
}
