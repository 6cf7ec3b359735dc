//! `cargo xtask mutants [PACKAGE|FILE…] [--since COMMIT] [--sample N] [--seed S] [--slowest 20s]`:
//! small changes of the code that some test of its package should notice, and which none does.
//!
//! All mutants of a package are built into its tests at once ([`woven`]), and a variable chooses
//! one; so each takes as long as the tests that reach it, and not a build. What is changed is in
//! [`sites`], what runs in [`trials`].

mod lately;
mod sites;
mod tree;
mod trials;
mod woven;

use crate::{bench, fuzz, marked};
use engine::random::Seed;
use measure::confidence::SureShare;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tree::CopiedTree;
use trials::{Fate, Laboratory};
use woven::NumberedSite;

/// The packages whose mutants are tried unless some are named; and who uses them, whose own tests
/// of the library are asked too.
const PACKAGES: [(&str, &[&str]); 3] = [
    ("engine", &["sim"]),
    ("rsvp", &["gateway"]),
    ("control", &["gateway"]),
];
/// Where copies and builds are, and the lists of what survived.
const PLACE: &str = "target/mutants";
const PAGE: &str = "docs/measurements/mutants.md";
const END: &str = "<!-- end of measured -->";
const USAGE: &str =
    "mutants: [PACKAGE|FILE…] [--since COMMIT] [--sample N] [--seed S] [--slowest 20s], or --lately";

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    packages: BTreeSet<String>,
    /// Of these files alone; of all if there is none.
    files: Vec<String>,
    /// Of what has changed since this commit.
    since: Option<String>,
    sample: usize,
    seed: u64,
    slowest: Duration,
}

impl Wanted {
    /// Those that are asked for of a package; all if there is none.
    fn files_of(&self, package: &str) -> Vec<String> {
        let inside = format!("crates/{package}/");
        let files = self.files.iter();
        files.filter(|file| file.starts_with(&inside)).cloned().collect()
    }
}

fn wanted(words: &[String]) -> Result<Wanted, String> {
    let mut wanted = Wanted {
        packages: BTreeSet::new(),
        files: Vec::new(),
        since: None,
        sample: usize::MAX,
        seed: 1,
        slowest: Duration::from_secs(20),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if !word.starts_with("--") {
            let package = match word.strip_prefix("crates/").and_then(|rest| rest.split_once('/')) {
                Some((package, _)) => {
                    wanted.files.push(word.clone());
                    package
                }
                None => word,
            };
            wanted.packages.insert(package.to_owned());
            continue;
        }
        let value = words
            .next()
            .ok_or_else(|| format!("{word} has no value; {USAGE}"))?;
        let number = || {
            let digits = value.replace('_', "");
            let read = digits.parse::<u64>();
            read.map_err(|_| format!("{word}: `{value}` is no number; {USAGE}"))
        };
        match word.as_str() {
            "--since" => wanted.since = Some(value.clone()),
            "--sample" => wanted.sample = usize::try_from(number()?).unwrap_or(usize::MAX),
            "--seed" => wanted.seed = number()?,
            "--slowest" => wanted.slowest = fuzz::time(word, value)?,
            _ => return Err(format!("there is no {word}; {USAGE}")),
        }
    }
    if wanted.packages.is_empty() {
        wanted.packages = PACKAGES.map(|(name, _)| name.to_owned()).into();
    }
    Ok(wanted)
}

/// A package's mutants.
struct Mutants {
    package: String,
    files: Vec<MutatedFile>,
}

struct MutatedFile {
    /// From the workspace's root.
    path: String,
    text: String,
    sites: Vec<NumberedSite>,
}

/// A mutant that compiles.
#[derive(Clone)]
struct Mutant {
    number: u32,
    site: u32,
    /// File, line, function and change.
    told: String,
    file: String,
}

impl Mutants {
    /// Those of a package, or of some of its files. All its files are listed: the others have none.
    fn of(root: &Path, package: &str, only: &[String]) -> Result<Self, String> {
        let mut mutants = Self {
            package: package.to_owned(),
            files: Vec::new(),
        };
        let mut next = 1;
        let mut waiting = vec![(
            format!("crates/{package}/src/lib.rs"),
            format!("crates/{package}/src"),
        )];
        while let Some((path, inside)) = waiting.pop() {
            let text = std::fs::read_to_string(root.join(&path)).map_err(|why| format!("{path}: {why}"))?;
            let found = sites::of(&text).map_err(|why| format!("{path}: {why}"))?;
            for module in found.modules {
                let beside = format!("{inside}/{module}.rs");
                let path = match root.join(&beside).is_file() {
                    true => beside,
                    false => format!("{inside}/{module}/mod.rs"),
                };
                waiting.push((path, format!("{inside}/{module}")));
            }
            let asked = only.is_empty() || only.contains(&path);
            let sites = if asked { found.sites } else { Vec::new() };
            let sites = woven::numbered(sites, &mut next);
            mutants.files.push(MutatedFile { path, text, sites });
        }
        match only.iter().find(|path| !mutants.has(path)) {
            Some(unknown) => Err(format!("{unknown} is no module of {package}")),
            None => Ok(mutants),
        }
    }

    fn has(&self, path: &str) -> bool {
        self.files.iter().any(|file| file.path == path)
    }

    fn leave_out(&mut self, numbers: &BTreeSet<u32>) {
        for site in self.files.iter_mut().flat_map(|file| &mut file.sites) {
            for (number, builds) in (site.first..).zip(&mut site.builds) {
                *builds &= !numbers.contains(&number);
            }
        }
    }

    /// Those that compile.
    fn alive(&self) -> Vec<Mutant> {
        let mut all = Vec::new();
        for file in &self.files {
            for numbered in &file.sites {
                let (site, first) = (&numbered.site, numbered.first);
                for (at, alternative) in site.alternatives.iter().enumerate() {
                    if numbered.builds[at] {
                        all.push(Mutant {
                            number: first + at as u32,
                            site: first,
                            told: format!(
                                "{}:{}: {}: {}",
                                file.path, site.line, site.function, alternative.change
                            ),
                            file: file.path.clone(),
                        });
                    }
                }
            }
        }
        all
    }

    fn count(&self) -> usize {
        let sites = self.files.iter().flat_map(|file| &file.sites);
        sites.map(|site| site.builds.len()).sum()
    }
}

/// What became of a package's mutants.
struct Outcome {
    package: String,
    found: usize,
    compile: usize,
    fates: Vec<(Mutant, Fate)>,
}

impl Outcome {
    fn with(&self, fate: Fate) -> usize {
        self.fates.iter().filter(|(_, became)| *became == fate).count()
    }

    fn missed(&self) -> impl Iterator<Item = &(Mutant, Fate)> {
        let missed = |fate: Fate| matches!(fate, Fate::Survived | Fate::Unreached);
        self.fates.iter().filter(move |(_, fate)| missed(*fate))
    }

    /// Of those that were tried, the share that was noticed.
    fn share(&self) -> SureShare {
        let caught = self.with(Fate::Caught) + self.with(Fate::Hung);
        SureShare::of(caught as u64, self.fates.len() as u64)
    }

    /// Those that were missed, a line each.
    fn list(&self) -> String {
        self.missed()
            .map(|(mutant, fate)| match fate {
                Fate::Unreached => format!("{} (no test reaches it)\n", mutant.told),
                _ => format!("{}\n", mutant.told),
            })
            .collect()
    }

    fn row(&self) -> String {
        let share = self.share();
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} ({}–{}) |",
            self.package,
            self.found,
            self.found - self.compile,
            self.fates.len(),
            self.with(Fate::Caught),
            self.with(Fate::Hung),
            self.with(Fate::Survived),
            self.with(Fate::Unreached),
            percent(share.share),
            percent(share.least),
            percent(share.most),
        )
    }

    /// The files with the most that were missed, as people look for them.
    fn files(&self) -> String {
        let mut files: Vec<(&str, usize)> = Vec::new();
        for (mutant, _) in self.missed() {
            match files.iter_mut().find(|(file, _)| *file == mutant.file) {
                Some((_, count)) => *count += 1,
                None => files.push((&mutant.file, 1)),
            }
        }
        files.sort_by_key(|(file, count)| (usize::MAX - count, *file));
        let mut text = String::new();
        for (file, count) in files.iter().take(12) {
            let _ = writeln!(text, "{count:>5} missed in {file}");
        }
        text
    }
}

const HEAD: &str = "\
| package | mutants | do not compile | tried | a test failed | did not end | all tests that reach it passed | no test reaches it | noticed, % (95 %) |
|---|---:|---:|---:|---:|---:|---:|---:|---:|";

/// Tries them, and writes the page where whole packages were asked for.
///
/// # Errors
/// What is not understood, or does not compile.
pub fn run(root: &Path, words: &[String]) -> Result<(), String> {
    if words == ["--lately"] {
        return lately::run(root);
    }
    let mut wanted = wanted(words)?;
    if let Some(commit) = wanted.since.clone() {
        narrow(root, &mut wanted, &commit)?;
    }
    let before = bench::load();
    for package in &wanted.packages {
        let outcome = outcome(root, package, &wanted)?;
        let place = format!("{PLACE}/{package}.missed");
        std::fs::write(root.join(&place), outcome.list()).map_err(|why| format!("{place}: {why}"))?;
        println!("{HEAD}\n{}\n{}see {place}", outcome.row(), outcome.files());
        if wanted.files_of(package).is_empty() {
            record(root, &outcome, &wanted, &bench::when(root, before)?)?;
        }
    }
    Ok(())
}

/// Leaves the files that differ from a commit's, tests apart, and the packages that have some.
fn narrow(root: &Path, wanted: &mut Wanted, commit: &str) -> Result<(), String> {
    let mut left = Vec::new();
    for package in &wanted.packages {
        let asked = Mutants::of(root, package, &wanted.files_of(package))?;
        let differs = changed(root, commit, package)?;
        let files = asked.files.into_iter().filter(|file| !file.sites.is_empty());
        let files = files.map(|file| file.path).filter(|path| differs.contains(path));
        left.extend(files.map(|path| (package.clone(), path)));
    }
    println!("mutants: {} files differ from {commit}", left.len());
    (wanted.packages, wanted.files) = left.into_iter().unzip();
    Ok(())
}

fn changed(root: &Path, commit: &str, package: &str) -> Result<Vec<String>, String> {
    let folder = format!("crates/{package}/src");
    let differ = ["diff", "--name-only", "--diff-filter=d", commit, "--", &folder];
    Ok(git(root, &differ)?.lines().map(str::to_owned).collect())
}

/// What git says.
fn git(root: &Path, words: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(words).current_dir(root).output();
    let output = output.map_err(|why| format!("git: {why}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("git: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn outcome(root: &Path, package: &str, wanted: &Wanted) -> Result<Outcome, String> {
    let start = Instant::now();
    let mut mutants = Mutants::of(root, package, &wanted.files_of(package))?;
    let tree = CopiedTree::of(root)?;
    tree.weave(&mut mutants)?;
    let users = PACKAGES.iter().find(|(name, _)| *name == package);
    let programs = tree.tests(package, users.map_or(&[], |(_, users)| users))?;
    let laboratory = Laboratory {
        at_a_time: std::thread::available_parallelism().map_or(1, usize::from),
        slowest: wanted.slowest,
    };
    let tests = laboratory.reaching(&programs)?;
    let all = mutants.alive();
    let chosen = drawn(&all, wanted.sample, wanted.seed);
    println!(
        "mutants: {package}: {} of {} that compile, of {}; {} tests; {} s so far",
        chosen.len(),
        all.len(),
        mutants.count(),
        tests.len(),
        start.elapsed().as_secs()
    );
    let numbers: Vec<(u32, u32)> = chosen.iter().map(|mutant| (mutant.number, mutant.site)).collect();
    let fates = laboratory.fates(&tests, &numbers);
    Ok(Outcome {
        package: package.to_owned(),
        found: mutants.count(),
        compile: all.len(),
        fates: chosen.into_iter().zip(fates).collect(),
    })
}

/// So many of them, by a seed, in their order.
fn drawn(all: &[Mutant], count: usize, seed: u64) -> Vec<Mutant> {
    let mut random = Seed(seed).fork("mutants").stream();
    let mut left: Vec<&Mutant> = all.iter().collect();
    let mut drawn = Vec::new();
    while drawn.len() < count && !left.is_empty() {
        let at = random.below(left.len() as u64) as usize;
        drawn.push(left.swap_remove(at).clone());
    }
    drawn.sort_by_key(|mutant| mutant.number);
    drawn
}

/// Writes a package's row into the page, which keeps those of others.
fn record(root: &Path, outcome: &Outcome, wanted: &Wanted, when: &str) -> Result<(), String> {
    let path = root.join(PAGE);
    let page = std::fs::read_to_string(&path).map_err(|why| format!("{PAGE}: {why}"))?;
    let mark = format!("<!-- measured: by `cargo xtask mutants {}` -->", outcome.package);
    let drawn = match wanted.sample {
        usize::MAX => "all".to_owned(),
        sample => format!("{sample} drawn by seed {}", wanted.seed),
    };
    let slowest = wanted.slowest.as_secs();
    let text = format!(
        "{when} Mutants: {drawn}; tests of up to {slowest} s.\n\n{HEAD}\n{}\n",
        outcome.row()
    );
    let page =
        marked::replaced(&page, &mark, END, &text).ok_or_else(|| format!("{PAGE} has lost its marks"))?;
    std::fs::write(&path, page).map_err(|why| format!("{PAGE}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn packages_files_and_numbers_are_read_or_refused() {
        let all = wanted(&[]).expect("nothing is asked");
        assert_eq!(
            all.packages,
            ["control", "engine", "rsvp"].map(str::to_owned).into()
        );
        let some = wanted(&words(
            "rsvp crates/engine/src/queue.rs --sample 1_000 --slowest 9s --seed 3 --since HEAD~2",
        ))
        .expect("words");
        assert_eq!(some.packages, ["engine", "rsvp"].map(str::to_owned).into());
        assert_eq!(some.files_of("engine"), ["crates/engine/src/queue.rs"]);
        assert!(some.files_of("rsvp").is_empty(), "all of it");
        assert_eq!(some.since.as_deref(), Some("HEAD~2"));
        assert_eq!(
            (some.sample, some.seed, some.slowest),
            (1_000, 3, Duration::from_secs(9))
        );
        for wrong in ["--sample", "--sample x", "--sample 5s", "--slowest 5", "--what 1"] {
            assert!(wanted(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_sample_depends_on_its_seed_alone() {
        let mutant = |number| Mutant {
            number,
            site: number,
            told: String::new(),
            file: String::new(),
        };
        let all: Vec<Mutant> = (0..1_000).map(mutant).collect();
        let numbers =
            |seed| -> Vec<u32> { drawn(&all, 10, seed).iter().map(|mutant| mutant.number).collect() };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
        assert_eq!(drawn(&all, 5_000, 1).len(), 1_000);
    }
}
