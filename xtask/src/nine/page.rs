//! The lines of the terminal and the page of results.

use super::cell::{self, Cell, Figures, Row};
use super::fall::{self, Fall, Fell};
use super::play::Way;
use std::fmt::Write;
use std::path::Path;

const PAGE: &str = "docs/measurements/nine-matrix.md";
const MARK: &str = "<!-- figures, made by `cargo xtask nine --write` -->";
const END: &str = "<!-- end of figures -->";

/// `100/96/100 .10 .15`, what misses its goal marked.
fn figures(found: &Figures, missed: &[&str]) -> String {
    let mark = |name: &str, text: String| match missed.contains(&name) {
        true => format!("**{text}**"),
        false => text,
    };
    let part = |name: &str, part: f64| mark(name, format!("{:.0}", part * 100.0));
    let seconds = |time: Option<f64>| time.map_or("never".into(), |time: f64| format!("{time:.2}"));
    let back = match missed.contains(&"back") && found.sender_is_slow {
        true => format!("*{}*", seconds(found.back)),
        false => mark("back", seconds(found.back)),
    };
    format!(
        "{}/{}/{} {} {}",
        part("lone", found.lone),
        part("newcomer", found.newcomer),
        part("total", found.total),
        mark("t80", seconds(found.t80)),
        back
    )
}

fn columns(row: &Row) -> Vec<String> {
    let plain = std::iter::once(figures(&row.plain, &[]));
    plain
        .chain(row.nine.iter().map(|(found, missed)| figures(found, missed)))
        .collect()
}

/// A line for the terminal.
pub fn cell_line(cell: &Cell, row: &Row) -> String {
    format!("{:<26} {}", cell.to_string(), columns(row).join(" | "))
}

fn fell(fell: &Fell) -> String {
    let missed = fell.missed();
    let part = |name: &str, part: f64| match missed.contains(&name) {
        true => format!("**{:.0}**", part * 100.0),
        false => format!("{:.0}", part * 100.0),
    };
    format!(
        "{}/{}/{}",
        part("slow", fell.slow),
        part("newcomer", fell.newcomer),
        part("risen", fell.risen)
    )
}

/// A line for the terminal.
pub fn fall_line(fall: &Fall, row: &[Fell]) -> String {
    let columns: Vec<String> = row.iter().map(fell).collect();
    format!("{:<26} {}", fall.to_string(), columns.join(" | "))
}

/// The ways, with what stands before their settings in the summary.
const WAYS: [(Way, &str); 2] = [(Way::Download, ""), (Way::Upload, "uploads, ")];

/// The cells of this way.
fn of_way(cells: &[(Cell, Row)], way: Way) -> Vec<&(Cell, Row)> {
    cells.iter().filter(|(cell, _)| cell.way() == way).collect()
}

/// How many of the cells reach all goals, with what is said of the others: with those that miss
/// nothing but what is the sender's, and how many miss each goal.
fn counts(cells: &[&(Cell, Row)], setting: usize) -> [usize; 7] {
    let missed: Vec<&Vec<&str>> = cells.iter().map(|(_, row)| &row.nine[setting].1).collect();
    let miss = |what: &str| missed.iter().filter(|missed| missed.contains(&what)).count();
    let reach = missed.iter().filter(|missed| missed.is_empty()).count();
    let is_senders = |(found, missed): &(Figures, Vec<&str>)| *missed == ["back"] && found.sender_is_slow;
    let senders = cells
        .iter()
        .filter(|(_, row)| is_senders(&row.nine[setting]))
        .count();
    let [lone, newcomer, total, t80, back] = ["lone", "newcomer", "total", "t80", "back"].map(miss);
    [reach, reach + senders, lone, newcomer, total, t80, back]
}

/// How many cells reach all goals, and what the others miss.
pub fn summary(cells: &[(Cell, Row)], falls: &[(Fall, Vec<Fell>)]) -> String {
    let mut text = String::from(
        "| setting | cells | reach all goals | but for the sender | miss lone | newcomer | total | t80 | back |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for (way, before) in WAYS {
        let cells = of_way(cells, way);
        for (number, (name, ..)) in cell::settings(way)
            .iter()
            .enumerate()
            .filter(|_| !cells.is_empty())
        {
            let counts = counts(&cells, number).map(|count| count.to_string());
            let _ = writeln!(
                text,
                "| {before}{name} | {} | {} |",
                cells.len(),
                counts.join(" | ")
            );
        }
    }
    for (number, (name, _)) in fall::SETTINGS.iter().enumerate().filter(|_| !falls.is_empty()) {
        let reach = falls
            .iter()
            .filter(|(_, row)| row[number].missed().is_empty())
            .count();
        let _ = writeln!(text, "| falls, {name} | {} | {reach} | | | | | | |", falls.len());
    }
    text
}

/// Writes the figures into the page.
pub fn write(root: &Path, cells: &[(Cell, Row)], falls: &[(Fall, Vec<Fell>)]) -> Result<(), String> {
    let path = root.join(PAGE);
    let wrong = |e: std::io::Error| format!("{PAGE}: {e}");
    let page = std::fs::read_to_string(&path).map_err(wrong)?;
    let mut text = summary(cells, falls);
    for (way, _) in WAYS {
        let settings = cell::settings(way);
        let names: Vec<&str> = settings.iter().map(|(name, ..)| *name).collect();
        let _ = write!(
            text,
            "\n| cell | without nine | {} |\n|---|---|{}\n",
            names.join(" | "),
            "---|".repeat(settings.len())
        );
        for (cell, row) in of_way(cells, way) {
            let _ = writeln!(text, "| {cell} | {} |", columns(row).join(" | "));
        }
    }
    let names = fall::SETTINGS.map(|(name, _)| name).join(" | ");
    let _ = write!(
        text,
        "\n| cell | {names} |\n|---|{}\n",
        "---|".repeat(fall::SETTINGS.len())
    );
    for (fall, row) in falls {
        let columns: Vec<String> = row.iter().map(fell).collect();
        let _ = writeln!(text, "| {fall} | {} |", columns.join(" | "));
    }
    let page = crate::marked::replaced(&page, MARK, END, &text).ok_or(format!("{PAGE} has no `{MARK}`"))?;
    std::fs::write(&path, page).map_err(wrong)
}
