//! `cargo xtask bench peers`: ours beside programs of others, in turns in one run.
//!
//! DPDK's hierarchical scheduler needs Debian's packages `libdpdk-dev`, `pkg-config` and `gcc`.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// How often each has its turn.
const TURNS: usize = 5;
/// Classes of `hfsc`, pipes of `rte_sched`.
const CLASSES: [u32; 3] = [1_024, 4_096, 65_536];
/// What ours may cost at most, of what the peer costs.
const GOAL: f64 = 1.0;
/// The row of `cargo bench -p engine -- beside`, and the loop that is part of it.
const ROW: &str = "hfsc, link-sharing, packets arrive at random, in bursts";
const LOOP: &str = "generator, in bursts";

/// `hfsc` beside DPDK's `rte_sched`, as a table.
pub fn table(root: &Path) -> Result<String, String> {
    let peer = built(root)?;
    let mut figures = CLASSES.map(|_| [Vec::new(), Vec::new()]);
    for turn in 1..=TURNS {
        eprintln!("turn {turn} of {TURNS}");
        let rows = printed(
            Command::new("cargo")
                .args(["bench", "--package", "engine", "--bench", "cost", "--", "beside"])
                .current_dir(root),
        )?;
        let own = median_of(&rows, LOOP, 1)?;
        for (classes, [ours, theirs]) in CLASSES.iter().zip(&mut figures) {
            ours.push(median_of(&rows, ROW, *classes)? - own);
            let text = printed(Command::new(&peer).arg(classes.to_string()))?;
            theirs.push(text.trim().parse().map_err(|e| format!("{text}: {e}"))?);
        }
    }
    let mut text = String::from(
        "| classes | `hfsc`, net of the loop | DPDK's `rte_sched`, a pipe each | ratio of the same turn (goal: 1) | |\n\
         |---:|---:|---:|---:|---|\n",
    );
    for (classes, [ours, theirs]) in CLASSES.iter().zip(&figures) {
        let ratios: Vec<f64> = ours
            .iter()
            .zip(theirs)
            .map(|(ours, theirs)| ours / theirs)
            .collect();
        let met = if middle(&ratios) <= GOAL { "met" } else { "missed" };
        let _ = writeln!(
            text,
            "| {classes} | {} | {} | {} | {met} |",
            spread(ours, 1),
            spread(theirs, 1),
            spread(&ratios, 2)
        );
    }
    Ok(text)
}

/// Builds the peer's program; says which packages it lacks.
fn built(root: &Path) -> Result<std::path::PathBuf, String> {
    let lacks = |e: String| format!("{e}\nit needs: apt-get install libdpdk-dev pkg-config gcc");
    let flags = printed(Command::new("pkg-config").args(["--cflags", "--libs", "libdpdk"])).map_err(lacks)?;
    let folder = root.join("target/peers");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let program = folder.join("rte_sched");
    let mut compiler = Command::new("gcc");
    compiler
        .args(["-O3", "-march=native", "-o"])
        .arg(&program)
        .arg(root.join("xtask/src/bench/rte_sched.c"))
        .args(flags.split_whitespace());
    printed(&mut compiler).map_err(lacks)?;
    Ok(program)
}

/// The median of a row that a bench has printed: `| what | n | median (least–most) |`.
fn median_of(rows: &str, what: &str, n: u32) -> Result<f64, String> {
    let begin = format!("| {what} | {n} | ");
    rows.lines()
        .find_map(|line| line.strip_prefix(&begin)?.split(' ').next()?.parse().ok())
        .ok_or_else(|| format!("the bench has no row `{begin}`:\n{rows}"))
}

/// What a program prints. Its messages are shown.
pub(super) fn printed(program: &mut Command) -> Result<String, String> {
    let name = program.get_program().display().to_string();
    let output = program
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("{name}: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{name}: {}", output.status)),
    }
}

/// The median, with the least and the most.
fn spread(values: &[f64], digits: usize) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{:.digits$} ({least:.digits$}–{most:.digits$})", middle(values))
}

pub(super) fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_by_what_it_measures_and_how_many() {
        let rows = "| what | n | ns |\n|---|---:|---:|\n| a, in bursts | 64 | 12.5 (11.0–19.9) |\n| a, in bursts | 128 | 20.1 (1.0–30.0) |\n";
        assert_eq!(median_of(rows, "a, in bursts", 128), Ok(20.1));
        assert!(median_of(rows, "a", 64).is_err_and(|e| e.contains("no row")));
        assert_eq!(spread(&[3.0, 1.0, 2.0], 1), "2.0 (1.0–3.0)");
    }
}
