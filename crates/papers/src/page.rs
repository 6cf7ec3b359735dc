//! Formats an outcome: as one JSON object, as text for a terminal, and as a page with its charts.

use super::{ChartFile, ClaimVerdict, Experiment, ExperimentOutcome, Row, figures, number};
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
    verdict: ClaimVerdict,
    rows: &'a [Row],
}

fn view<'a>(experiment: &'a Experiment, outcome: &'a ExperimentOutcome) -> View<'a> {
    View {
        id: experiment.id,
        title: experiment.title,
        verdict: outcome.verdict(),
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

const HEAD: [&str; 7] = ["what", "paper", "ours", "difference", "unit", "verdict", "note"];

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
        row.verdict.to_string(),
        note.map_or(String::new(), |note| format!("{}", note + 1)),
    ]
}

/// The rows that were judged or should have been, and those for orientation.
fn apart(outcome: &ExperimentOutcome) -> [Vec<&Row>; 2] {
    let (orientation, asked) = outcome
        .rows
        .iter()
        .partition(|row| row.verdict == ClaimVerdict::Orientation);
    [asked, orientation]
}

const ORIENTATION: &str = "For orientation; nothing is asked of these:";

/// Prints the table, and the reasons below it, for a terminal.
///
/// # Errors
///
/// Returns an error if writing to `out` fails.
pub fn print(out: &mut dyn Write, experiment: &Experiment, outcome: &ExperimentOutcome) -> io::Result<()> {
    writeln!(
        out,
        "{}  {}\n    {}",
        experiment.id, experiment.title, experiment.reference
    )?;
    for figure in judged_figures(experiment) {
        writeln!(out, "    {}: {}", figure.name, figure.claim)?;
    }
    let notes = notes(outcome);
    let [asked, orientation] = apart(outcome).map(|rows| {
        let rows = rows.into_iter().map(|row| cells(row, &notes));
        rows.collect::<Vec<[String; 7]>>()
    });
    let head = HEAD.map(String::from);
    let all = || std::iter::once(&head).chain(&asked).chain(&orientation);
    let width = |column: usize| all().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..HEAD.len()).map(|column| width(column).unwrap_or(0)).collect();
    writeln!(out)?;
    for row in std::iter::once(&head).chain(&asked) {
        writeln!(out, "{}", line(row, &widths))?;
    }
    if !orientation.is_empty() {
        writeln!(out, "\n  {ORIENTATION}")?;
    }
    for row in &orientation {
        writeln!(out, "{}", line(row, &widths))?;
    }
    writeln!(out)?;
    for (index, note) in notes.iter().enumerate() {
        writeln!(out, "{}", wrapped(&format!("{}", index + 1), note))?;
    }
    for remark in &outcome.remarks {
        writeln!(out, "{}", wrapped("-", remark))?;
    }
    writeln!(
        out,
        "{} {}: {}\n",
        experiment.id,
        outcome.verdict(),
        outcome.counts()
    )
}

/// The figures and tables that the experiment judges.
fn judged_figures(experiment: &Experiment) -> impl Iterator<Item = &'static figures::Figure> {
    let id = experiment.id;
    figures::FIGURES.iter().filter(move |figure| figure.is_of(id))
}

/// A row of the terminal's table.
fn line(row: &[String; 7], widths: &[usize]) -> String {
    let cells = row.iter().zip(widths).enumerate();
    let line: Vec<String> = cells
        .map(|(column, (cell, &width))| match column {
            1..=3 => format!("{cell:>width$}"),
            _ => format!("{cell:<width$}"),
        })
        .collect();
    format!("  {}", line.join("  ")).trim_end().into()
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

/// The page of all figures.
pub const FIGURES: &str = "figures.md";

/// Writes `ID.md`, `ID.json` and the charts into a directory, and the page of all figures anew.
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
    fs::write(file(FIGURES), figures::markdown(&figures::read(directory)?))?;
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

fn table(rows: &[&Row], notes: &[&str]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut table = line(&HEAD.map(String::from)) + "|---|---:|---:|---:|---|---|---|\n";
    for row in rows {
        table += &line(&cells(row, notes).map(|cell| cell.replace('|', "\\|")));
    }
    table
}

/// The page in Markdown.
fn markdown(experiment: &Experiment, outcome: &ExperimentOutcome, quick: bool) -> String {
    let Experiment {
        id, title, reference, ..
    } = experiment;
    let mut page = format!("# {id}: {title}\n\n{reference}. ");
    let flag = if quick { " --quick" } else { "" };
    let _ = writeln!(
        page,
        "{}: {}. Made by `suimon reproduce {id}{flag} --write DIR`.\n",
        match outcome.verdict() {
            ClaimVerdict::Shown => "Shown",
            ClaimVerdict::NotShown => "**Not shown**",
            ClaimVerdict::Orientation => "Nothing was judged",
            ClaimVerdict::CannotBeShown => "**Cannot be shown here**",
        },
        outcome.counts()
    );
    for figure in judged_figures(experiment) {
        let _ = writeln!(page, "- {}: {}", figure.name, figure.claim);
    }
    if judged_figures(experiment).next().is_some() {
        page.push('\n');
    }
    let notes = notes(outcome);
    let [asked, orientation] = apart(outcome);
    page += &table(&asked, &notes);
    if !orientation.is_empty() {
        let _ = write!(page, "\n{ORIENTATION}\n\n{}", table(&orientation, &notes));
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
        let row = |what: &str, paper: RowValue, ours: RowValue, verdict| Row {
            what: what.into(),
            paper,
            ours,
            unit: "%".into(),
            verdict,
            note: "as the note says".into(),
        };
        ExperimentOutcome {
            rows: vec![
                row("down", 1.5.into(), 2.0.into(), ClaimVerdict::Shown),
                row("up", "linear".into(), RowValue::Nothing, ClaimVerdict::NotShown),
                row("there", RowValue::Nothing, 3.0.into(), ClaimVerdict::Orientation),
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
    fn json_has_id_title_verdict_and_rows_with_numbers_texts_and_null() {
        let text = json(&EXPERIMENT, &outcome()).expect("json");
        assert_eq!(text.lines().count(), 1);
        assert_eq!(
            text,
            concat!(
                r#"{"id":"Z1","title":"whether water flows","verdict":"not shown","rows":["#,
                r#"{"what":"down","paper":1.5,"ours":2.0,"unit":"%","verdict":"shown","note":"as the note says"},"#,
                r#"{"what":"up","paper":"linear","ours":null,"unit":"%","verdict":"not shown","note":"as the note says"},"#,
                r#"{"what":"there","paper":null,"ours":3.0,"unit":"%","verdict":"for orientation","note":"as the note says"}]}"#
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
        assert!(
            text.contains("Z1 NOT shown: 1 of 2 judged rows, 1 for orientation"),
            "{text}"
        );
        let (asked, orientation) = text.split_once(ORIENTATION).expect("two tables");
        assert!(asked.contains("down") && !asked.contains("there"), "{text}");
        assert!(orientation.contains("there"), "{text}");
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
        let verdict = "Table 1. **Not shown**: 1 of 2 judged rows, 1 for orientation. Made by";
        assert!(page.contains(verdict), "{page}");
        assert!(page.contains(&format!("\n{ORIENTATION}\n")), "{page}");
        assert!(read(FIGURES).starts_with("# The papers"), "{page}");
        assert!(page.lines().all(|line| !line.ends_with(' ')), "{page}");
        assert_eq!(read("Z1-second.svg"), "<svg>second</svg>");
        let value: serde_json::Value = serde_json::from_str(&read("Z1.json")).expect("json");
        assert_eq!(value["rows"][0]["ours"], 2.0);
        fs::remove_dir_all(&place).expect("gone");
    }
}
