//! Every figure and table of the five papers: what it claims, in a sentence, and which rows of
//! which experiments judge that. The summary tells for each whether its claim was shown.

use crate::{ClaimVerdict, Counts, Row, RowValue};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

/// A figure or table with results.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// The paper, in a word.
    pub paper: &'static str,
    /// Its name there, such as "Fig. 8".
    pub name: &'static str,
    /// What it claims.
    pub claim: &'static str,
    /// The experiments that judge it.
    pub experiments: &'static [&'static str],
    /// Whether a row of theirs belongs to it, by what it compares.
    rows: fn(&str) -> bool,
}

const ALL: fn(&str) -> bool = |_| true;

macro_rules! figure {
    ($paper:ident $name:literal, $claim:literal, [$($id:literal),+], $rows:expr) => {
        Figure {
            paper: $paper,
            name: $name,
            claim: $claim,
            experiments: &[$($id),+],
            rows: $rows,
        }
    };
}

const ALTQ: &str = "ALTQ";
const PSPACER: &str = "PSPacer";
const RSVP: &str = "RSVP with WRR";
const NINE: &str = "nine";
const IPS: &str = "IPS";

/// The figures and tables with results, by paper.
pub const FIGURES: &[Figure] = &[
    figure!(ALTQ "Table 1", "CBQ costs at most about 1 % of a link's TCP throughput; without a link, at most 7 to 23 % of the processor's.", ["A1"], ALL),
    figure!(ALTQ "Table 2", "CBQ adds at most about 10 µs to a packet, and the same at any size.", ["A2"], ALL),
    figure!(ALTQ "Fig. 4", "The delay grows linearly with wildcard filters, and not with fixed filters and classes.", ["A3"], ALL),
    figure!(ALTQ "Table 3", "The disciplines add at most 0.14 µs (FIFOQ) to 11.97 µs (CBQ with RED) to a packet, in this order.", ["A4"], ALL),
    figure!(ALTQ "Fig. 5", "On a serial link, a class gets the rate to which it is limited.", ["A5"], |what| what.starts_with("serial")),
    figure!(ALTQ "Fig. 6", "On 10baseT, too, up to the saturation of the medium.", ["A5"], |what| what.starts_with("10baseT")),
    figure!(ALTQ "Fig. 7", "On ATM and 100baseT, too, but for the dip of 100baseT with timers of 10 ms; faster timers remove it.", ["A5"], |what| what.starts_with("100baseT") || what.starts_with("ATM")),
    figure!(ALTQ "Fig. 8", "Classes of 10 to 40 Mbit/s have their rates whatever the others send; the background has what is left.", ["A6"], ALL),
    figure!(ALTQ "Fig. 11", "Organisations keep 70 and 30 % whatever pauses inside them; a class of high priority takes more than its part of the excess.", ["A7"], ALL),
    figure!(ALTQ "Fig. 12", "With one priority for all, the excess is shared as configured.", ["A8"], ALL),
    figure!(PSPACER "Fig. 1", "Six hosts that are not paced lose packets at a shared bottleneck, and their throughput swings.", ["P8"], |what| what.starts_with("not paced")),
    figure!(PSPACER "Fig. 2", "Paced to the bottleneck's rate, they lose none and are stable.", ["P8"], |what| what.starts_with("paced")),
    figure!(PSPACER "Fig. 6", "The length of gap frames sets the rate by the formula.", ["P1"], ALL),
    figure!(PSPACER "Fig. 7", "A paced host sends evenly, at half the interface's speed; without pacing it sends at full speed and pauses, in turn.", ["P2"], ALL),
    figure!(PSPACER "Table 3", "Paced, Scalable TCP fills the bottleneck at any buffer size and loses nothing.", ["P3"], ALL),
    figure!(PSPACER "Table 4", "Not paced, it loses packets, and most of the bandwidth with buffers of 2048 KB and less.", ["P4"], |what| what.ends_with("beside the paper's") || what.ends_with("of the paced bandwidth")),
    figure!(PSPACER "Table 5", "Standard TCP, not paced, has more than Scalable TCP, not paced, and less than paced.", ["P5"], |what| what.ends_with("beside the paper's") || what.ends_with("and the paced")),
    figure!(PSPACER "Fig. 8", "A paced host never sends above the bottleneck's rate, in bins of 500 µs.", ["P6"], |what| what.starts_with("paced")),
    figure!(PSPACER "Fig. 9", "A host that is not paced sends far above it.", ["P6"], |what| what.starts_with("not paced")),
    figure!(PSPACER "Table 6", "Gap frames leave a copy in memory more bandwidth than sending at the full rate does, and less than no gap frames.", ["P7"], |what| what.ends_with("of the copy alone")),
    figure!(RSVP "Fig. 3", "A reserved flow keeps its throughput at any load; without the reservation it loses in proportion.", ["K1"], ALL),
    figure!(RSVP "Fig. 4", "Processor use grows linearly with the traffic; a reservation makes it little more.", ["K2"], ALL),
    figure!(NINE "Fig. 4", "The smaller one connection's window, the more the other one has.", ["N1"], ALL),
    figure!(NINE "section 4", "With `nine` and `bottlenet`, one of two equal downloads has most of the link, 6.03 against 2.13 Mbit/s.", ["N2"], ALL),
    figure!(IPS "Table 3", "A flow with a guaranteed delay keeps it, but for what the computer adds; with a guaranteed rate alone, or a FIFO, it does not.", ["I1", "I2", "I3", "I4", "I5"], |what| !what.contains("rate of")),
    figure!(IPS "Graph 1", "Guaranteed delays lie below the guarantee; with a guaranteed rate alone they scatter widely.", ["I1", "I2", "I3", "I4"], |what| what.contains("within")),
    figure!(IPS "Graph 2", "Every flow keeps its bandwidth, with guaranteed delays and without.", ["I1", "I2", "I3", "I4", "I5"], |what| what.contains("rate of")),
];

/// Why claims that are known not to be shown are not, in a sentence; their pages say what was
/// tried.
const CAUSES: &[(&str, &str, &str)] = &[
    (
        PSPACER,
        "Table 4",
        "with SACK every loss is repaired and most of the bandwidth is kept, also with small buffers; without it, it collapses, but also with 4096 KB: \
         what the paper's kernel did lies between, and the paper does not say which it had",
    ),
    (
        PSPACER,
        "Table 5",
        "a standard TCP grows by a segment in each round trip of 200 ms from what the overflow of slow start leaves, which is less than the paper's \
         with small buffers, with SACK and without",
    ),
];

/// The others, which describe systems and set-ups, and claim nothing.
pub const DESCRIPTIONS: &[(&str, &[&str])] = &[
    (ALTQ, &["Fig. 1", "Fig. 2", "Fig. 3", "Fig. 9", "Fig. 10"]),
    (PSPACER, &["Table 1", "Table 2", "Fig. 3", "Fig. 4", "Fig. 5"]),
    (RSVP, &["Fig. 1", "Fig. 2"]),
    (NINE, &["Fig. 1", "Fig. 2", "Fig. 3"]),
    (IPS, &["Fig. 1", "Table 1", "Table 2"]),
];

/// The rows of experiments that were run, by id.
pub type Rows = BTreeMap<String, Vec<Row>>;

/// What was found about a figure. Serialised, it is an entry of the JSON summary.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct JudgedFigure {
    paper: &'static str,
    figure: &'static str,
    claim: &'static str,
    /// The verdict of its rows together.
    pub verdict: ClaimVerdict,
    experiments: &'static [&'static str],
    judged: usize,
    shown: usize,
    not_shown: usize,
    /// Rows that were not judged: nothing is asked of them, or they cannot be measured here.
    orientation: usize,
    cannot_be_shown: usize,
    /// How far the first row that is not shown is from what is asked of it, with the cause if it is
    /// known; or why nothing could be judged; empty if it is shown.
    why: String,
}

impl Figure {
    /// Returns whether the experiment has rows for it.
    pub fn is_of(&self, experiment: &str) -> bool {
        self.experiments.contains(&experiment)
    }

    /// Why it is known not to be shown, as a sentence that goes on; empty if nothing is known.
    fn cause(&self) -> String {
        let mut known = CAUSES.iter();
        let cause = known.find(|(paper, name, _)| (*paper, *name) == (self.paper, self.name));
        cause.map_or(String::new(), |(.., cause)| format!(". Why: {cause}"))
    }

    /// What these rows say about it.
    pub fn judged(&self, rows: &Rows) -> JudgedFigure {
        let rows = || {
            let all = self.experiments.iter().filter_map(|id| rows.get(*id)).flatten();
            all.filter(|row| (self.rows)(&row.what))
        };
        let counts: Counts = rows().collect();
        let first = |verdict| rows().find(|row| row.verdict == verdict);
        let (verdict, why) = match counts.verdict() {
            ClaimVerdict::Orientation => (ClaimVerdict::CannotBeShown, "no row judged it".into()),
            verdict => {
                let why = match (verdict, first(verdict)) {
                    (ClaimVerdict::NotShown, Some(row)) => {
                        format!("{}{}", missed(row, counts.not_shown), self.cause())
                    }
                    (ClaimVerdict::CannotBeShown, Some(row)) => row.note.clone(),
                    _ => String::new(),
                };
                (verdict, why)
            }
        };
        JudgedFigure {
            paper: self.paper,
            figure: self.name,
            claim: self.claim,
            verdict,
            experiments: self.experiments,
            judged: counts.judged(),
            shown: counts.shown,
            not_shown: counts.not_shown,
            orientation: counts.orientation,
            cannot_be_shown: counts.cannot_be_shown,
            why,
        }
    }
}

/// By how much a claim is missed: the first of so many rows that are not as asked.
fn missed(row: &Row, rows: usize) -> String {
    let value = |value: &RowValue| match value {
        RowValue::Number(number) => format!("{number} {}", row.unit).trim_end().to_owned(),
        RowValue::Text(text) => text.clone(),
        RowValue::Nothing => "no value".into(),
    };
    let others = match rows {
        0 | 1 => String::new(),
        more => format!("; and {} more", more - 1),
    };
    let (paper, ours) = (value(&row.paper), value(&row.ours));
    format!("{}: {paper} in the paper, {ours} here{others}", row.what)
}

impl JudgedFigure {
    /// The verdict, and why it is not better.
    fn verdict_and_why(&self) -> String {
        match self.why.as_str() {
            "" => self.verdict.to_string(),
            why => format!("{} ({why})", self.verdict),
        }
    }
}

/// What the rows say about every figure.
pub fn all_judged(rows: &Rows) -> Vec<JudgedFigure> {
    FIGURES.iter().map(|figure| figure.judged(rows)).collect()
}

/// "27 figures and tables with results: 24 shown, …".
fn total(figures: &[JudgedFigure]) -> String {
    let of = |verdict| figures.iter().filter(|found| found.verdict == verdict).count();
    let sum = |part: fn(&JudgedFigure) -> usize| figures.iter().map(part).sum::<usize>();
    let described: usize = DESCRIPTIONS.iter().map(|(_, names)| names.len()).sum();
    let each = DESCRIPTIONS.iter();
    let each = each.map(|(paper, names)| format!("{paper}, {}", names.join(", ")));
    let names = each.collect::<Vec<_>>().join("; ");
    format!(
        "{} figures and tables with results: {} shown, {} not shown, {} cannot be shown here. Of the rows that belong to them {} were \
         judged: {} shown, {} not; {} are for orientation, and {} cannot be shown here. {described} others describe systems and set-ups, and claim nothing: {names}.",
        figures.len(),
        of(ClaimVerdict::Shown),
        of(ClaimVerdict::NotShown),
        of(ClaimVerdict::CannotBeShown),
        sum(|found| found.judged),
        sum(|found| found.shown),
        sum(|found| found.not_shown),
        sum(|found| found.orientation),
        sum(|found| found.cannot_be_shown),
    )
}

/// Prints the summary for a terminal: a line for each figure.
///
/// # Errors
///
/// Returns an error if writing to `out` fails.
pub fn print(out: &mut dyn Write, rows: &Rows) -> io::Result<()> {
    let figures = all_judged(rows);
    writeln!(out, "The papers' figures and tables\n")?;
    for found in &figures {
        writeln!(
            out,
            "  {:<13} {:<9} {}: {} of {} judged rows shown, {} for orientation, {} cannot be shown; {}: {}",
            found.paper,
            found.figure,
            found.verdict_and_why(),
            found.shown,
            found.judged,
            found.orientation,
            found.cannot_be_shown,
            found.experiments.join(" "),
            found.claim,
        )?;
    }
    writeln!(out, "\n{}", total(&figures))
}

/// The summary as one JSON object, on one line.
///
/// # Errors
///
/// Returns an error if serialising fails.
pub fn json(rows: &Rows) -> io::Result<String> {
    #[derive(Serialize)]
    struct View {
        figures: Vec<JudgedFigure>,
    }
    let figures = all_judged(rows);
    Ok(serde_json::to_string(&View { figures })?)
}

/// The summary as a page, in Markdown.
pub fn markdown(rows: &Rows) -> String {
    let figures = all_judged(rows);
    let mut page = String::from("# The papers' figures and tables\n\n");
    let _ = writeln!(
        page,
        "{} From the `.json` files beside it, written by `suimon reproduce --write DIR`.\n",
        total(&figures)
    );
    page += "| figure | claim | verdict | judged rows | shown | not shown | for orientation | cannot be shown | pages |\n\
             |---|---|---|---:|---:|---:|---:|---:|---|\n";
    for found in &figures {
        let pages: Vec<String> = found
            .experiments
            .iter()
            .map(|id| format!("[{id}]({id}.md)"))
            .collect();
        let _ = writeln!(
            page,
            "| {}, {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            found.paper,
            found.figure,
            found.claim,
            found.verdict_and_why().replace('|', "\\|"),
            found.judged,
            found.shown,
            found.not_shown,
            found.orientation,
            found.cannot_be_shown,
            pages.join(" "),
        );
    }
    page
}

/// Reads the rows of all experiments whose `ID.json` a directory has.
///
/// # Errors
///
/// Returns an error if a file cannot be read, or is no result.
pub fn read(directory: &Path) -> io::Result<Rows> {
    let mut found = Rows::new();
    for id in FIGURES.iter().flat_map(|figure| figure.experiments) {
        let path = directory.join(format!("{id}.json"));
        if path.exists() {
            let mut value: Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
            found.insert((*id).into(), serde_json::from_value(value["rows"].take())?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EXPERIMENTS;

    /// The numbers of the papers' figures and tables.
    const NUMBERS: [(&str, &[(&str, u32)]); 5] = [
        (ALTQ, &[("Fig.", 12), ("Table", 3)]),
        (PSPACER, &[("Fig.", 9), ("Table", 6)]),
        (RSVP, &[("Fig.", 4)]),
        (NINE, &[("Fig.", 4)]),
        (IPS, &[("Fig.", 1), ("Table", 3), ("Graph", 2)]),
    ];

    #[test]
    fn every_figure_and_table_of_the_papers_has_one_entry() {
        let descriptions = || {
            let all = DESCRIPTIONS.iter();
            all.flat_map(|(paper, names)| names.iter().map(move |name| (*paper, *name)))
        };
        let entries: Vec<(&str, &str)> = FIGURES
            .iter()
            .map(|figure| (figure.paper, figure.name))
            .chain(descriptions())
            .collect();
        for (paper, kinds) in NUMBERS {
            for (kind, last) in kinds {
                for number in 1..=*last {
                    let name = format!("{kind} {number}");
                    let times = entries.iter().filter(|entry| **entry == (paper, &name)).count();
                    assert_eq!(times, 1, "{paper}, {name}");
                }
            }
        }
        let known: u32 = NUMBERS
            .iter()
            .flat_map(|(_, kinds)| *kinds)
            .map(|(_, last)| last)
            .sum();
        // The measurement of nine's section 4 has no number.
        assert_eq!(entries.len() as u32, known + 1);
    }

    #[test]
    fn every_experiment_of_a_paper_judges_a_figure() {
        let suites_of_others = ["A9", "A10"];
        for experiment in EXPERIMENTS {
            assert_eq!(
                FIGURES.iter().any(|figure| figure.is_of(experiment.id)),
                !suites_of_others.contains(&experiment.id),
                "{}",
                experiment.id
            );
        }
        for id in FIGURES.iter().flat_map(|figure| figure.experiments) {
            assert!(EXPERIMENTS.iter().any(|experiment| experiment.id == *id), "{id}");
        }
    }

    #[test]
    fn causes_are_of_figures() {
        for (paper, name, _) in CAUSES {
            let is_known = |figure: &Figure| (figure.paper, figure.name) == (*paper, *name);
            assert!(FIGURES.iter().any(is_known), "{paper}, {name}");
        }
    }

    fn rows(verdicts: &[(&str, ClaimVerdict)]) -> Rows {
        let row = |(what, verdict): &(&str, ClaimVerdict)| {
            Row::rounded(*what, RowValue::Nothing, 1.0, "s", *verdict, "as the note says")
        };
        Rows::from([("P8".to_string(), verdicts.iter().map(row).collect())])
    }

    fn judged(verdicts: &[(&str, ClaimVerdict)]) -> JudgedFigure {
        let figure = FIGURES
            .iter()
            .find(|figure| figure.paper == PSPACER && figure.name == "Fig. 2");
        figure.expect("a figure").judged(&rows(verdicts))
    }

    #[test]
    fn a_figure_is_judged_by_its_own_rows_and_not_by_those_that_ask_nothing() {
        let shown = judged(&[
            ("paced: drops", ClaimVerdict::Shown),
            ("paced: total", ClaimVerdict::Orientation),
            ("not paced: drops", ClaimVerdict::NotShown),
        ]);
        assert_eq!(
            (
                shown.verdict,
                shown.judged,
                shown.orientation,
                shown.cannot_be_shown
            ),
            (ClaimVerdict::Shown, 1, 1, 0)
        );
        let missed = judged(&[
            ("paced: swing", ClaimVerdict::Shown),
            ("paced: drops", ClaimVerdict::NotShown),
        ]);
        assert_eq!(
            (missed.verdict, missed.shown, missed.not_shown, missed.judged),
            (ClaimVerdict::NotShown, 1, 1, 2)
        );
        assert_eq!(missed.why, "paced: drops: no value in the paper, 1 s here");
        let twice = judged(&[
            ("paced: swing", ClaimVerdict::NotShown),
            ("paced: drops", ClaimVerdict::NotShown),
        ]);
        assert_eq!(
            twice.why,
            "paced: swing: no value in the paper, 1 s here; and 1 more"
        );
        let asked_nothing = judged(&[("paced: drops", ClaimVerdict::Orientation)]);
        assert_eq!(asked_nothing.verdict, ClaimVerdict::CannotBeShown);
        assert_eq!(judged(&[]).why, "no row judged it");
        let unmeasured = judged(&[("paced: drops", ClaimVerdict::CannotBeShown)]);
        assert_eq!(unmeasured.why, "as the note says");
    }

    #[test]
    fn the_summary_has_a_line_for_every_figure_and_counts_verdicts() {
        let rows = rows(&[
            ("paced: drops", ClaimVerdict::Shown),
            ("not paced: drops", ClaimVerdict::NotShown),
        ]);
        let mut out = Vec::new();
        print(&mut out, &rows).expect("written");
        let text = String::from_utf8(out).expect("text");
        for figure in FIGURES {
            assert_eq!(text.matches(figure.claim).count(), 1, "{text}");
        }
        // Those that claim nothing are named, so that all 45 are there.
        assert!(
            text.contains("RSVP with WRR, Fig. 1, Fig. 2; nine, Fig. 1"),
            "{text}"
        );
        assert!(text.contains(": 1 shown, 1 not shown, 25 cannot"), "{text}");
        assert!(markdown(&rows).contains("1 shown, 1 not shown"));
        let value: Value = serde_json::from_str(&json(&rows).expect("JSON")).expect("JSON");
        assert_eq!(value["figures"].as_array().map(Vec::len), Some(FIGURES.len()));
    }
}
