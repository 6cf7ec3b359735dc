//! `cargo xtask instructions`: what a packet costs in instructions, row by row of the benches of
//! the engine and of the packet loop, against the table in [`TABLE`].
//!
//! Time wobbles on a machine that others use; the number of instructions does not. Callgrind counts
//! what [`COUNTED`] runs, twice for each row: once to warm up, once to count. A bench prints the
//! rows' steps and names in that order: 2,000, and at least 8 for each class, since credits are
//! used up only then. The engine's loop without a queue is the row `generator`, which is
//! subtracted; bursts have one of their own. Nothing is subtracted from what the packet loop takes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const TABLE: &str = "docs/measurements/instructions.md";
/// The function of the bench whose calls are counted, for callgrind.
const COUNTED: &str = "*counted::counted*";
const GENERATOR: &str = "generator, 1";
/// The benches, each of a package, and with what they count.
const BENCHES: [(&str, &str, &[&str]); 3] = [
    ("engine", "cost", &["--", "count"]),
    ("netio", "packet_loop", &[]),
    ("netio", "experience", &["--", "count"]),
];
/// The same for the rows whose names contain this.
const IN_BURSTS: &str = ", in bursts, ";
const GENERATOR_IN_BURSTS: &str = "generator, in bursts, 1";
/// More than this part of what the table says, and a count fails.
const TOLERANCE: f64 = 1.05;

/// What the arguments ask for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Compare with the table.
    Check,
    /// Write the table.
    Bless,
}

/// Counts, and compares with the table or writes it. Skips, by name, where it cannot be compared.
///
/// # Errors
/// What could not be run or read, or the rows that take more instructions than the table says.
pub fn run(root: &Path, asked: Asked) -> Result<(), String> {
    if let Some(why) = hindrance() {
        skips::skipped(why);
        return Ok(());
    }
    let compiler = compiler()?;
    let path = root.join(TABLE);
    let table = std::fs::read_to_string(&path).unwrap_or_default();
    if asked == Asked::Check && !table.contains(&compiler) {
        skips::skipped(format!("{TABLE} was not counted with {compiler}"));
        return Ok(());
    }
    let counts = count(root)?;
    match asked {
        Asked::Bless => {
            std::fs::write(&path, written(&counts, &compiler)).map_err(|e| format!("{}: {e}", path.display()))
        }
        Asked::Check => compare(&counts, &read(&table)),
    }
}

fn hindrance() -> Option<&'static str> {
    if !cfg!(target_arch = "x86_64") {
        return Some("instructions are counted on x86-64");
    }
    let valgrind = Command::new("valgrind").arg("--version").output();
    valgrind.is_err().then_some("valgrind is not installed")
}

/// The compiler's name and version.
///
/// # Errors
/// If it cannot be run.
pub fn compiler() -> Result<String, String> {
    let output = Command::new("rustc").arg("--version").output();
    let output = output.map_err(|e| format!("rustc --version: {e}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A row of the bench, and its instructions for a packet in and out.
type Counts = Vec<(String, f64)>;

/// Counts the rows of all benches.
fn count(root: &Path) -> Result<Counts, String> {
    let [engine, packet_loop, experience] = BENCHES;
    let engine = without_generators(&count_bench(root, engine)?)?;
    let packet_loop = count_bench(root, packet_loop)?.into_iter();
    let experience = without_generators(&count_bench(root, experience)?)?;
    Ok(engine
        .into_iter()
        .chain(packet_loop)
        .chain(experience)
        .map(|(name, count)| (name, count.round()))
        .collect())
}

/// Runs a bench under callgrind.
fn count_bench(root: &Path, (package, bench, arguments): (&str, &str, &[&str])) -> Result<Counts, String> {
    let folder = root.join("target/instructions").join(bench);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let runner = format!(
        "target.'cfg(all())'.runner = ['valgrind', '-q', '--tool=callgrind', '--dump-after={COUNTED}', \
         '--callgrind-out-file={}']",
        folder.join("counts").display()
    );
    let output = Command::new("cargo")
        .args([
            "--config",
            &runner,
            "test",
            "--quiet",
            "--profile",
            "release-tests",
        ])
        .args(["--package", package, "--bench", bench])
        .args(arguments)
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|e| format!("cargo could not be started: {e}"))?;
    if !output.status.success() {
        return Err(format!("the bench under valgrind: {}", output.status));
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    // Each second dump is a count; callgrind numbers them from 1.
    let dump = |row: usize| folder.join(format!("counts.{}", 2 * row + 2));
    let rows = names.lines().filter(|line| !line.is_empty()).enumerate();
    rows.map(|(row, line)| {
        let (steps, name) = steps_of(line)?;
        Ok((name.to_owned(), total(&dump(row))? / steps))
    })
    .collect()
}

/// The rows without what the bench itself takes.
fn without_generators(counts: &Counts) -> Result<Counts, String> {
    let of_loop = |name: &str| {
        let wanted = match name.contains(IN_BURSTS) {
            true => GENERATOR_IN_BURSTS,
            false => GENERATOR,
        };
        let row = counts.iter().find(|(row, _)| row == wanted);
        row.map(|(_, count)| *count)
            .ok_or_else(|| format!("the bench has no row `{wanted}`"))
    };
    let rows = counts
        .iter()
        .filter(|(name, _)| ![GENERATOR, GENERATOR_IN_BURSTS].contains(&name.as_str()));
    rows.map(|(name, count)| Ok((name.clone(), count - of_loop(name)?)))
        .collect()
}

/// The steps of a row, and its name.
fn steps_of(line: &str) -> Result<(f64, &str), String> {
    let parts = line.split_once(' ');
    let parts = parts.and_then(|(steps, name)| Some((steps.parse().ok()?, name)));
    parts.ok_or_else(|| format!("the bench printed `{line}`, not the steps and the name of a row"))
}

/// The instructions in a dump of callgrind.
fn total(dump: &PathBuf) -> Result<f64, String> {
    let text = std::fs::read_to_string(dump).map_err(|e| format!("{}: {e}", dump.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("summary: "));
    let total = total.and_then(|total| total.trim().parse().ok());
    total.ok_or_else(|| format!("{}: no count in it", dump.display()))
}

fn written(counts: &Counts, compiler: &str) -> String {
    let mut text = format!(
        "# Instructions\n\n\
         Instructions for one packet in and out, without the bench's own loop, in the regimes of\n\
         `cargo bench --package engine`, and of the packet loop from port to port. Written by `cargo xtask instructions --bless` with\n\
         {compiler};\n\
         CI fails where one takes 5 % more. A change that is worth it commits the table that it writes.\n\
         A count is of 2,000 packets, and of at least 8 for each class, after as many that are not counted.\n\n\
         | what, n | instructions |\n|---|---:|\n"
    );
    for (name, count) in counts {
        let _ = writeln!(text, "| {name} | {count} |");
    }
    text
}

fn read(table: &str) -> BTreeMap<&str, f64> {
    let row = |line| {
        let cells = str::strip_prefix(line, "| ")?.strip_suffix(" |")?;
        let (name, count) = cells.rsplit_once(" | ")?;
        Some((name, count.parse().ok()?))
    };
    table.lines().filter_map(row).collect()
}

fn compare(counts: &Counts, table: &BTreeMap<&str, f64>) -> Result<(), String> {
    let mut wrong = Vec::new();
    for (name, count) in counts {
        match table.get(name.as_str()) {
            Some(&allowed) if *count > allowed * TOLERANCE => {
                wrong.push(format!("{name}: {count} instructions, the table has {allowed}"));
            }
            Some(&allowed) if count * TOLERANCE < allowed => {
                println!("{name}: {count} instructions, fewer than the {allowed} of the table");
            }
            Some(_) => {}
            None => wrong.push(format!("{name}: not in the table")),
        }
    }
    if wrong.is_empty() {
        println!("{} rows take no more instructions than in {TABLE}", counts.len());
        return Ok(());
    }
    Err(format!(
        "{}\nif it is worth it, commit what `cargo xtask instructions --bless` writes",
        wrong.join("\n")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_takes_five_per_cent_more_fails() {
        let counts = |count: f64| vec![("fifo, 64".to_owned(), count)];
        let table = written(&counts(100.0), "a compiler");
        let table = read(&table);
        assert_eq!(table.get("fifo, 64"), Some(&100.0));
        assert!(compare(&counts(105.0), &table).is_ok());
        assert!(compare(&counts(106.0), &table).is_err());
        assert!(compare(&vec![("red, 1".to_owned(), 1.0)], &table).is_err());
    }
}
