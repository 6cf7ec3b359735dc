//! The lines of the terminal and the page of results.

use super::cell::{self, Cell, Figures, Row};
use super::fall::{self, Fall, Fell};
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

/// How many cells reach all goals, and what the others miss.
pub fn summary(cells: &[(Cell, Row)], falls: &[(Fall, Vec<Fell>)]) -> String {
    let mut text = String::from(
        "| setting | cells | reach all goals | but for the sender | miss lone | newcomer | total | t80 | back |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for (number, (name, ..)) in cell::SETTINGS.iter().enumerate().filter(|_| !cells.is_empty()) {
        let missed: Vec<&Vec<&str>> = cells.iter().map(|(_, row)| &row.nine[number].1).collect();
        let miss = |what: &str| missed.iter().filter(|missed| missed.contains(&what)).count();
        let reach = missed.iter().filter(|missed| missed.is_empty()).count();
        let is_senders = |(found, missed): &(Figures, Vec<&str>)| *missed == ["back"] && found.sender_is_slow;
        let senders = cells
            .iter()
            .filter(|(_, row)| is_senders(&row.nine[number]))
            .count();
        let counts = ["lone", "newcomer", "total", "t80", "back"].map(|what| miss(what).to_string());
        let _ = writeln!(
            text,
            "| {name} | {} | {reach} | {} | {} |",
            cells.len(),
            reach + senders,
            counts.join(" | ")
        );
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
    let names = cell::SETTINGS.map(|(name, ..)| name).join(" | ");
    let _ = write!(
        text,
        "\n| cell | without nine | {names} |\n|---|---|{}\n",
        "---|".repeat(cell::SETTINGS.len())
    );
    for (cell, row) in cells {
        let _ = writeln!(text, "| {cell} | {} |", columns(row).join(" | "));
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
