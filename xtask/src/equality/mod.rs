//! `cargo xtask equality [--seeds N] [--linux] [DISCIPLINE | CASE…]`: the same policies and
//! arrivals in the simulator, in a lab, in a running suimon and in the Linux kernel, side by
//! side on a page, each row judged over several lists of arrivals. Not part of CI: it takes
//! half a minute for each case and four lists, and its figures are those of the machine.

mod awake;
pub mod cases;
mod ends;
mod page;
mod places;

use crate::compare::{self, Scratch, kernel};
use cases::Setting;
use page::Seed;
use places::Places;
use std::path::{Path, PathBuf};

/// Lists of arrivals of each case, unless `--seeds` says otherwise.
const SEEDS: usize = 4;

/// The environment variable with a suimon that is built already.
const PROGRAM: &str = "SUIMON_PROGRAM";

/// Measures the cases, or all, and writes the page anew.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    if let Some(done) = part(arguments) {
        return done;
    }
    let Options {
        seeds: count,
        linux,
        names,
    } = Options::parsed(arguments)?;
    let chosen = chosen(&names)?;
    let program = match std::env::var_os(PROGRAM) {
        Some(path) => PathBuf::from(path),
        None => compare::built(root)?,
    };
    if linux {
        kernel::ready()?;
    }
    let scratch = Scratch::new()?;
    let mut data = page::read(root)?;
    for setting in chosen {
        let name = setting.name();
        println!("{name}");
        let measured = data.entry(name.clone()).or_default();
        measured.load = load();
        let kept_awake = awake::all()?;
        measured.seeds = seeds(&program, &scratch.0, setting, count)?;
        drop(kept_awake);
        if let Some(case) = setting.kernel().filter(|_| linux) {
            measured.linux = Some(kernel::measure(case, &scratch.0)?);
        }
        page::write(root, &data)?;
    }
    Ok(())
}

/// A case under this many lists of arrivals, some at a time beside each other.
fn seeds(program: &Path, scratch: &Path, setting: Setting, count: usize) -> Result<Vec<Seed>, String> {
    let one = |seed: usize| {
        let scratch = scratch.join(format!("seed-{seed}"));
        std::fs::create_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
        let places = Places {
            suimon: program,
            scratch: &scratch,
        };
        let setting = setting.seeded(seed);
        let in_place = |place: &str, side: Result<_, String>| {
            let side = side.map_err(|why| format!("{}, {place}: {why}", setting.name()))?;
            Ok((place.to_owned(), side))
        };
        [
            in_place("sim", places.sim(&setting)),
            in_place("lab", places.lab(&setting)),
            in_place("run", places.run(&setting)),
            in_place(&page::as_sent("lab"), places.sim_as_sent(&setting, "lab")),
            in_place(&page::as_sent("run"), places.sim_as_sent(&setting, "run")),
        ]
        .into_iter()
        .collect()
    };
    let all: Vec<usize> = (0..count).collect();
    let mut seeds = Vec::new();
    for wave in all.chunks(setting.at_once()) {
        let ended: Vec<Result<Seed, String>> = std::thread::scope(|scope| {
            let started: Vec<_> = wave.iter().map(|&seed| scope.spawn(move || one(seed))).collect();
            let ended = started.into_iter().map(|thread| thread.join());
            let said = |_| Err("a thread panicked".to_owned());
            ended.map(|done| done.unwrap_or_else(said)).collect()
        });
        for seed in ended {
            seeds.push(seed?);
        }
    }
    Ok(seeds)
}

/// What other processes of a measurement are started with; none if these are not such arguments.
fn part(arguments: &[String]) -> Option<Result<(), String>> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let found = |name: &str, seed: &str| {
        let setting = cases::find(name).ok_or_else(|| format!("there is no case `{name}`"))?;
        let seed = seed.parse().map_err(|e| format!("the seed `{seed}`: {e}"))?;
        Ok(setting.seeded(seed))
    };
    match words.as_slice() {
        ["awake"] => {
            awake::stay();
            Some(Ok(()))
        }
        ["end", name, seed, end, to, file] => {
            Some(found(name, seed).and_then(|setting| ends::run(&setting, end, to, Path::new(file))))
        }
        ["between", name, seed, suimon, scratch] => {
            Some(found(name, seed).and_then(|setting| places::between(&setting, suimon, Path::new(scratch))))
        }
        _ => None,
    }
}

/// What is measured.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    /// How many lists of arrivals each case has.
    seeds: usize,
    /// Whether the kernel is measured anew.
    linux: bool,
    /// The cases and disciplines; none for all.
    names: Vec<String>,
}

impl Options {
    fn parsed(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            seeds: SEEDS,
            linux: false,
            names: Vec::new(),
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--linux" => options.linux = true,
                "--seeds" => {
                    let number = arguments.next().and_then(|number| number.parse().ok());
                    let within = number.filter(|number| (2..=100).contains(number));
                    options.seeds = within.ok_or("--seeds takes a number from 2 to 100")?;
                }
                name => options.names.push(name.to_owned()),
            }
        }
        Ok(options)
    }
}

fn chosen(names: &[String]) -> Result<Vec<Setting>, String> {
    let named = |setting: &Setting, name: &String| *name == setting.name() || name == setting.discipline.name;
    for name in names {
        if !cases::all().any(|setting| named(&setting, name)) {
            let all: Vec<String> = cases::all().map(|setting| setting.name()).collect();
            return Err(format!("there is no `{name}`; there are {}", all.join(", ")));
        }
    }
    let wanted = |setting: &Setting| names.is_empty() || names.iter().any(|name| named(setting, name));
    Ok(cases::all().filter(wanted).collect())
}

/// Programs that wanted to run in the last minute, by processors.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let all: f64 = text
        .split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0.0);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (all / processors as f64 * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_any_order_and_mistakes_refused() {
        let parsed = |text: &str| {
            let words: Vec<String> = text.split_whitespace().map(Into::into).collect();
            Options::parsed(&words)
        };
        let expected = Options {
            seeds: 12,
            linux: true,
            names: vec!["codel".into(), "cake@10x100".into()],
        };
        assert_eq!(parsed("codel --seeds 12 cake@10x100 --linux"), Ok(expected));
        assert_eq!(parsed("").map(|options| options.seeds), Ok(SEEDS));
        for wrong in ["--seeds", "--seeds 1", "--seeds x", "--seeds 101"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        assert!(chosen(&["--sedes".into()]).is_err());
    }
}
