//! `cargo xtask equality [DISCIPLINE | CASE…]`: the same policies and arrivals in the simulator, in
//! a lab, in a running suimon and in the Linux kernel, side by side on a page, each row judged. Not
//! part of CI: it takes a minute for each case, and its figures are those of the machine.

pub mod cases;
mod ends;
mod page;
mod places;

use crate::compare::{self, Scratch, kernel};
use cases::Setting;
use places::Places;
use std::path::{Path, PathBuf};

/// The environment variable with a suimon that is built already.
const PROGRAM: &str = "SUIMON_PROGRAM";

/// Measures the cases, or all, and writes the page anew.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    if let Some(done) = part(arguments) {
        return done;
    }
    let chosen = chosen(arguments)?;
    let program = match std::env::var_os(PROGRAM) {
        Some(path) => PathBuf::from(path),
        None => compare::built(root)?,
    };
    let without_kernel = kernel::ready().err();
    if let Some(why) = &without_kernel {
        println!("without the kernel's disciplines: {why}");
    }
    let scratch = Scratch::new()?;
    let places = Places {
        suimon: &program,
        scratch: &scratch.0,
    };
    let mut data = page::read(root)?;
    for setting in chosen {
        let name = setting.name();
        println!("{name}");
        let measured = data.entry(name.clone()).or_default();
        measured.load = load();
        let mut add = |place: &str, side| match side {
            Ok(side) => {
                measured.places.insert(place.into(), side);
                Ok(())
            }
            Err(why) => Err(format!("{name}, {place}: {why}")),
        };
        add("sim", places.sim(&setting))?;
        add("lab", places.lab(&setting))?;
        add("run", places.run(&setting))?;
        if let Some(case) = setting.kernel().filter(|_| without_kernel.is_none()) {
            add("Linux", kernel::measure(case, &scratch.0))?;
        }
        page::write(root, &data)?;
    }
    Ok(())
}

/// What other processes of a measurement are started with; none if these are not such arguments.
fn part(arguments: &[String]) -> Option<Result<(), String>> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let found = |name: &str| cases::find(name).ok_or_else(|| format!("there is no case `{name}`"));
    match words.as_slice() {
        ["end", name, end, to, file] => {
            Some(found(name).and_then(|setting| ends::run(&setting, end, to, Path::new(file))))
        }
        ["between", name, suimon, scratch] => {
            Some(found(name).and_then(|setting| places::between(&setting, suimon, Path::new(scratch))))
        }
        _ => None,
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
