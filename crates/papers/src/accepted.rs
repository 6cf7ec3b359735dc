//! Accepted results: makes the simulated tables again and compares them with those in
//! `docs/reproductions`.
//!
//! A simulation gives the same numbers everywhere, so a changed number means a changed program. Lab
//! and machine measurements are not compared; their claims had to hold where they were accepted.

use crate::{EXPERIMENTS, Experiment, Options, Progress, Row, figures, page};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// Experiments that only measure the machine or real TCP. All others have simulated rows.
const MEASURED: [&str; 8] = ["A1", "A2", "A3", "A4", "K2", "N1", "N2", "P7"];

fn simulated() -> impl Iterator<Item = &'static Experiment> {
    EXPERIMENTS
        .iter()
        .filter(|experiment| !MEASURED.contains(&experiment.id))
}

struct Silent;

impl Progress for Silent {
    fn show(&mut self, _done: f64, _what: &str) {}
}

fn read(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reproductions")
        .join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns whether a row or a remark is from a lab.
fn is_lab(text: &str) -> bool {
    text.starts_with("lab")
}

/// Returns whether a row is from a run too long for a test. Other rows cover its beginning.
fn is_long_run(what: &str) -> bool {
    what.starts_with("300 s")
}

/// Returns whether a test cannot make a row again.
fn is_kept(what: &str) -> bool {
    is_lab(what) || is_long_run(what)
}

fn as_line(row: &Value) -> String {
    format!(
        "{}: {}, the paper {} {} ({}) {}",
        row["what"], row["ours"], row["paper"], row["unit"], row["verdict"], row["note"]
    )
}

/// The lines of `left` that are not in `right`.
fn only(left: &[String], right: &[String], sign: char) -> String {
    left.iter()
        .filter(|line| !right.contains(line))
        .map(|line| format!("  {sign} {line}\n"))
        .collect()
}

/// Measured rows, and those of long runs, whose claims are known not to be shown. Each has its
/// reason on its page.
const KNOWN: &[(&str, &str)] = &[
    ("P4", "300 s, 512 KB: bandwidth beside the paper's"),
    ("P4", "300 s, 1024 KB: bandwidth beside the paper's"),
    ("P4", "300 s, 2048 KB: bandwidth beside the paper's"),
    ("P4", "300 s, 4096 KB: bandwidth beside the paper's"),
    ("P5", "300 s, 512 KB: bandwidth beside the paper's"),
    ("P5", "300 s, 1024 KB: bandwidth beside the paper's"),
    ("P5", "300 s, 2048 KB: bandwidth beside the paper's"),
    ("P4", "300 s, 512 KB, without SACK: bandwidth beside the paper's"),
    ("P4", "300 s, 1024 KB, without SACK: bandwidth beside the paper's"),
    ("P4", "300 s, 2048 KB, without SACK: bandwidth beside the paper's"),
    ("P4", "300 s, 4096 KB, without SACK: bandwidth beside the paper's"),
    ("P4", "300 s, 4096 KB, without SACK: of the paced bandwidth"),
    ("P5", "300 s, 512 KB, without SACK: bandwidth beside the paper's"),
    (
        "P5",
        "300 s, 512 KB, without SACK: bandwidth beside Scalable TCP's and the paced",
    ),
    ("P5", "300 s, 1024 KB, without SACK: bandwidth beside the paper's"),
    ("P5", "300 s, 2048 KB, without SACK: bandwidth beside the paper's"),
    ("P5", "300 s, 4096 KB, without SACK: bandwidth beside the paper's"),
    (
        "P5",
        "300 s, 4096 KB, without SACK: bandwidth beside Scalable TCP's and the paced",
    ),
];

/// Returns whether a row that is not made again here is as required, or is known not to be.
fn was_accepted(id: &str, row: &Value) -> bool {
    let known = KNOWN.iter().any(|known| known.0 == id && row["what"] == known.1);
    match row["verdict"].as_str() {
        Some("shown" | "for orientation") => !known,
        Some("not shown") => known,
        _ => false,
    }
}

fn is_accepted(experiment: &Experiment) {
    let id = experiment.id;
    let accepted: Value = serde_json::from_str(&read(&format!("{id}.json"))).expect("JSON");
    let rows = accepted["rows"].as_array().expect("rows");
    let (measured, simulated): (Vec<&Value>, Vec<&Value>) = rows
        .iter()
        .partition(|row| row["what"].as_str().is_some_and(is_kept));
    for row in measured {
        assert!(
            was_accepted(id, row),
            "{id} was accepted with a row that is not as required: {}",
            as_line(row)
        );
    }
    let options = Options {
        quick: true,
        lab: Err("not requested".into()),
    };
    let outcome = (experiment.run)(&options, &mut Silent).unwrap_or_else(|e| panic!("{id}: {}", e));
    let found: Vec<&Row> = outcome.rows.iter().filter(|row| !is_kept(&row.what)).collect();
    let found = serde_json::to_value(found).expect("JSON");
    let before: Vec<String> = simulated.into_iter().map(as_line).collect();
    let now: Vec<String> = found.as_array().expect("rows").iter().map(as_line).collect();
    let mut changes = only(&before, &now, '-') + &only(&now, &before, '+');
    let page = read(&format!("{id}.md"));
    let remarks = outcome
        .remarks
        .iter()
        .filter(|remark| !is_lab(remark) && !page.contains(remark.as_str()));
    changes.extend(remarks.map(|remark| format!("  + {remark}\n")));
    assert!(
        changes.is_empty(),
        "{id} differs from the accepted result:\n{changes}\
         If the change is intended, say why in the commit, and include the table and the chart that this writes:\n  \
         cargo run --release -p suimon -- reproduce {id} --write docs/reproductions\n"
    );
}

#[test]
fn the_simulated_tables_equal_the_accepted_ones() {
    simulated().for_each(is_accepted);
}

#[test]
fn the_page_of_figures_is_made_from_the_accepted_results() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproductions");
    let rows = figures::read(&directory).expect("results");
    assert_eq!(
        read(page::FIGURES),
        figures::markdown(&rows),
        "`suimon reproduce ID --write docs/reproductions` writes it anew, for any ID"
    );
}
