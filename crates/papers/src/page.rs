//! Formats an outcome: as one JSON object, as text for a terminal, and as a page with its charts.

use super::{ChartFile, Experiment, ExperimentOutcome, Row, number};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// The fields of the JSON object.
#[derive(Debug, Serialize)]
struct View<'a> {
    id: &'a str,
    title: &'a str,
    holds: bool,
    rows: &'a [Row],
}

fn view<'a>(experiment: &'a Experiment, outcome: &'a ExperimentOutcome) -> View<'a> {
    View {
        id: experiment.id,
        title: experiment.title,
        holds: outcome.holds(),
        rows: &outcome.rows,
    }
}

/// The JSON object, on one line.
///
/// # Errors
///
/// Returns an error if serialising fails.
pub fn json(experiment: &Experiment, outcome: &ExperimentOutcome) -> io::Result<String> {
    Ok(serde_json::to_string(&view(experiment, outcome))?)
}

const HEAD: [&str; 7] = ["what", "paper", "ours", "difference", "unit", "holds", "note"];

fn cells(row: &Row, notes: &[&str]) -> [String; 7] {
    let note = notes.iter().position(|note| *note == row.note);
    let difference = row.difference().map_or(String::new(), |difference| {
        let sign = if difference > 0.0 { "+" } else { "" };
        format!("{sign}{}", number(difference))
    });
    [
        row.what.clone(),
        row.paper.to_string(),
        row.ours.to_string(),
        difference,
        row.unit.clone(),
        if row.holds { "yes" } else { "NO" }.into(),
        note.map_or(String::new(), |note| format!("{}", note + 1)),
    ]
}

/// Prints the table, and the reasons below it, for a terminal.
///
/// # Errors
///
/// Returns an error if writing to `out` fails.
pub fn print(out: &mut dyn Write, experiment: &Experiment, outcome: &ExperimentOutcome) -> io::Result<()> {
    writeln!(
        out,
        "{}  {}\n    {}\n",
        experiment.id, experiment.title, experiment.reference
    )?;
    let (head, notes) = (HEAD.map(String::from), notes(outcome));
    let rows: Vec<[String; 7]> = std::iter::once(head)
        .chain(outcome.rows.iter().map(|row| cells(row, &notes)))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..HEAD.len()).map(|column| width(column).unwrap_or(0)).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate();
        let line: Vec<String> = cells
            .map(|(column, (cell, &width))| match column {
                1..=3 => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            })
            .collect();
        writeln!(out, "  {}", line.join("  ").trim_end())?;
    }
    writeln!(out)?;
    for (index, note) in notes.iter().enumerate() {
        writeln!(out, "{}", wrapped(&format!("{}", index + 1), note))?;
    }
    for remark in &outcome.remarks {
        writeln!(out, "{}", wrapped("-", remark))?;
    }
    let verdict = if outcome.holds() { "holds" } else { "does NOT hold" };
    writeln!(out, "{} {verdict}\n", experiment.id)
}

/// The rows' notes without repetition.
fn notes(outcome: &ExperimentOutcome) -> Vec<&str> {
    let mut notes: Vec<&str> = Vec::new();
    for row in &outcome.rows {
        if !row.note.is_empty() && !notes.contains(&row.note.as_str()) {
            notes.push(&row.note);
        }
    }
    notes
}

/// The text in lines of 100 characters, the first with this mark.
fn wrapped(mark: &str, text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), format!("{mark:>3}"));
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > 100 {
            lines.push(std::mem::replace(&mut line, "   ".into()));
        }
        line.push(' ');
        line.push_str(word);
    }
    lines.push(line);
    lines.join("\n")
}

/// Writes `ID.md`, `ID.json` and the charts into a directory.
///
/// # Errors
///
/// Returns an error if a file cannot be written.
pub fn write(
    directory: &Path,
    experiment: &Experiment,
    outcome: &ExperimentOutcome,
    quick: bool,
) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let file = |name: &str| directory.join(name);
    let id = experiment.id;
    fs::write(file(&format!("{id}.md")), markdown(experiment, outcome, quick))?;
    let text = serde_json::to_string_pretty(&view(experiment, outcome))?;
    fs::write(file(&format!("{id}.json")), text + "\n")?;
    for (index, chart) in outcome.charts.iter().enumerate() {
        fs::write(file(&chart_file(id, index, chart)), &chart.svg)?;
    }
    Ok(())
}

fn chart_file(id: &str, index: usize, chart: &ChartFile) -> String {
    match index {
        0 => format!("{id}.svg"),
        _ => format!("{id}-{}.svg", chart.name),
    }
}

/// The page in Markdown.
fn markdown(experiment: &Experiment, outcome: &ExperimentOutcome, quick: bool) -> String {
    let Experiment {
        id, title, reference, ..
    } = experiment;
    let mut page = format!("# {id}: {title}\n\n{reference}. ");
    let flag = if quick { " --quick" } else { "" };
    let verdict = if outcome.holds() {
        "It holds."
    } else {
        "It does **not** hold."
    };
    let _ = writeln!(
        page,
        "{verdict} Made by `suimon reproduce {id}{flag} --write DIR`.\n"
    );
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    page += &line(&HEAD.map(String::from));
    page += "|---|---:|---:|---:|---|---|---|\n";
    let notes = notes(outcome);
    for row in &outcome.rows {
        page += &line(&cells(row, &notes).map(|cell| cell.replace('|', "\\|")));
    }
    for (index, chart) in outcome.charts.iter().enumerate() {
        let _ = write!(page, "\n![{}]({})\n", chart.name, chart_file(id, index, chart));
    }
    if !notes.is_empty() {
        page += "\n## Notes\n\n";
    }
    for (index, note) in notes.iter().enumerate() {
        let _ = writeln!(page, "{}. {note}", index + 1);
    }
    if !outcome.remarks.is_empty() {
        page += "\n## How it was measured\n";
    }
    for remark in &outcome.remarks {
        let _ = write!(page, "\n{remark}\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, RowValue};

    const EXPERIMENT: Experiment = Experiment {
        id: "Z1",
        title: "whether water flows",
        reference: "Anybody 1998, Table 1",
        run: |_: &Options, _| Ok(ExperimentOutcome::default()),
    };

    fn outcome() -> ExperimentOutcome {
        let row = |what: &str, paper: RowValue, ours: RowValue, holds| Row {
            what: what.into(),
            paper,
            ours,
            unit: "%".into(),
            holds,
            note: "as the note says".into(),
        };
        ExperimentOutcome {
            rows: vec![
                row("down", 1.5.into(), 2.0.into(), true),
                row("up", "linear".into(), RowValue::Nothing, false),
            ],
            charts: ["first", "second"]
                .map(|name| ChartFile {
                    name: name.into(),
                    svg: format!("<svg>{name}</svg>"),
                })
                .to_vec(),
            remarks: vec!["It was measured with a bucket.".into()],
        }
    }

    #[test]
    fn json_has_id_title_holds_and_rows_with_numbers_texts_and_null() {
        let text = json(&EXPERIMENT, &outcome()).expect("json");
        assert_eq!(text.lines().count(), 1);
        assert_eq!(
            text,
            concat!(
                r#"{"id":"Z1","title":"whether water flows","holds":false,"rows":["#,
                r#"{"what":"down","paper":1.5,"ours":2.0,"unit":"%","holds":true,"note":"as the note says"},"#,
                r#"{"what":"up","paper":"linear","ours":null,"unit":"%","holds":false,"note":"as the note says"}]}"#
            )
        );
    }

    #[test]
    fn a_terminal_shows_values_their_difference_and_each_note_once() {
        let mut out = Vec::new();
        print(&mut out, &EXPERIMENT, &outcome()).expect("written");
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains("+0.5") && text.contains("linear"), "{text}");
        assert_eq!(text.matches("as the note says").count(), 1, "{text}");
        assert!(text.contains("Z1 does NOT hold"), "{text}");
    }

    #[test]
    fn a_page_is_written_with_its_charts_and_its_json() {
        let place = std::env::temp_dir().join(format!("suimon-page-{}", std::process::id()));
        write(&place, &EXPERIMENT, &outcome(), true).expect("written");
        let read = |name: &str| fs::read_to_string(place.join(name)).expect("a file");
        let page = read("Z1.md");
        assert!(page.starts_with("# Z1: whether water flows\n"), "{page}");
        assert!(
            page.contains("![first](Z1.svg)") && page.contains("![second](Z1-second.svg)"),
            "{page}"
        );
        assert!(page.lines().all(|line| !line.ends_with(' ')), "{page}");
        assert_eq!(read("Z1-second.svg"), "<svg>second</svg>");
        let value: serde_json::Value = serde_json::from_str(&read("Z1.json")).expect("json");
        assert_eq!(value["rows"][0]["ours"], 2.0);
        fs::remove_dir_all(&place).expect("gone");
    }
}
