//! The papers' experiments, each by its id: the list, and their common types.
//!
//! An experiment is one file, or one file for a group, and one line in [`EXPERIMENTS`]. It measures
//! and judges. Its result is a list of rows, each with the paper's number and ours, and charts.
//! [`page`] formats and writes them. The [`demo`] is Fig. 8 of the ALTQ paper for every user.

#![forbid(unsafe_code)]

#[cfg(test)]
mod accepted;
mod beside;
mod cost_disciplines;
mod cost_engine;
mod cost_gaps;
mod cost_latency;
mod cost_scaling;
mod cost_throughput;
mod cost_treatments;
mod cost_wire;
mod delay_bounds;
mod delay_causes;
mod delay_guarantees;
mod delay_guarantees_lab;
mod delay_runs;
mod delay_tables;
pub mod demo;
mod downloads;
mod error;
pub mod figures;
mod gap_size;
mod guarantees;
mod installed;
mod kernel_pipe;
mod limited_class;
mod link_sharing;
mod long_pipe;
mod long_pipe_lab;
mod ns2_suite;
pub mod page;
mod points;
mod punctual;
mod reserve_cost;
mod reserved_flow;
mod reserved_sockets;
mod reserved_streams;
mod rounds;
mod shared_pipe;
mod tail_drop;
mod testbed;
mod timeline;
mod unpaced;
mod verdict;
mod yielding;

pub use error::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
pub use verdict::{ClaimVerdict, Counts};

/// Every experiment, in the order of `--all`.
pub const EXPERIMENTS: &[Experiment] = &[
    cost_throughput::A1,
    cost_latency::A2,
    cost_scaling::A3,
    cost_disciplines::A4,
    limited_class::A5,
    guarantees::A6,
    link_sharing::A7,
    link_sharing::A8,
    ns2_suite::A9,
    ns2_suite::A10,
    delay_guarantees::I1,
    delay_guarantees::I2,
    delay_guarantees::I3,
    delay_guarantees::I4,
    delay_guarantees::I5,
    reserved_flow::K1,
    reserve_cost::K2,
    yielding::N1,
    yielding::N2,
    gap_size::P1,
    gap_size::P2,
    tail_drop::P3,
    unpaced::P4,
    unpaced::P5,
    tail_drop::P6,
    cost_gaps::P7,
    shared_pipe::P8,
];

/// An experiment of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The id, such as "A1".
    pub id: &'static str,
    /// The question, in a line.
    pub title: &'static str,
    /// The paper, and its section, table or figure.
    pub reference: &'static str,
    /// Runs it.
    pub run: fn(&Options, &mut dyn Progress) -> Result<ExperimentOutcome, Error>,
}

/// How to run experiments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Shorter runs: the numbers are rougher, the claims are the same.
    pub quick: bool,
    /// Whether this process can make labs, or why not. Without one, an experiment returns the rows
    /// that it can, and [`Row::unmeasured`] for the others.
    pub lab: Result<(), String>,
}

/// Receives the progress of an experiment.
pub trait Progress {
    /// Shows progress: `done` from 0 to 1, and `what` is going on now.
    fn show(&mut self, done: f64, what: &str);
}

/// The result of an experiment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ExperimentOutcome {
    /// The claims, one in each row.
    pub rows: Vec<Row>,
    /// The charts. The first is written to `ID.svg`, others to `ID-NAME.svg`.
    pub charts: Vec<ChartFile>,
    /// How it was measured, and why it differs: paragraphs of plain text.
    pub remarks: Vec<String>,
}

impl ExperimentOutcome {
    /// How many rows have which verdict.
    pub fn counts(&self) -> Counts {
        self.rows.iter().collect()
    }

    /// The verdict of all rows together.
    pub fn verdict(&self) -> ClaimVerdict {
        self.counts().verdict()
    }
}

/// A named chart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChartFile {
    /// Its part of the file name: lower case and dashes.
    pub name: String,
    /// The SVG document.
    pub svg: String,
}

/// The paper's value and ours.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What is compared.
    pub what: String,
    /// The paper's value.
    pub paper: RowValue,
    /// Our value.
    pub ours: RowValue,
    /// The unit of both, such as "Mbit/s"; empty for texts.
    pub unit: String,
    /// Whether ours is as required, if anything is.
    pub verdict: ClaimVerdict,
    /// The requirement on ours, and why it differs where it does; or why it cannot be judged.
    pub note: String,
}

impl Row {
    /// A numeric claim. Ours is rounded to three decimals: accepted tables are compared, and more
    /// digits mean nothing.
    pub fn rounded(
        what: impl Into<String>,
        paper: impl Into<RowValue>,
        ours: f64,
        unit: &str,
        verdict: impl Into<ClaimVerdict>,
        note: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            paper: paper.into(),
            ours: ((ours * 1e3).round() / 1e3).into(),
            unit: unit.into(),
            verdict: verdict.into(),
            note: note.into(),
        }
    }

    /// A claim that could not be tested here.
    pub fn unmeasured(what: impl Into<String>, paper: RowValue, unit: &str, why: &str) -> Self {
        Self {
            what: what.into(),
            paper,
            ours: RowValue::Nothing,
            unit: unit.into(),
            verdict: ClaimVerdict::CannotBeShown,
            note: format!("not measured: {why}"),
        }
    }

    /// Returns whether something was asked of it, and met.
    pub fn is_shown(&self) -> bool {
        self.verdict == ClaimVerdict::Shown
    }

    /// Our value less the paper's, if both are numbers.
    pub fn difference(&self) -> Option<f64> {
        match (&self.paper, &self.ours) {
            (RowValue::Number(paper), RowValue::Number(ours)) => Some(ours - paper),
            _ => None,
        }
    }
}

/// A number, a text such as "linear", or nothing; JSON has the same.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RowValue {
    /// A number, in the row's unit.
    Number(f64),
    /// A value that is not a single number.
    Text(String),
    /// The paper gives none, or nothing was measured.
    Nothing,
}

impl From<f64> for RowValue {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for RowValue {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for RowValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl fmt::Display for RowValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value) => f.pad(&number(*value)),
            Self::Text(text) => f.pad(text),
            Self::Nothing => f.pad("–"),
        }
    }
}

/// Formats a number with four significant digits; below a thousand, with two decimals as the papers
/// do. No trailing zeros.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let before = value.abs().max(1e-9).log10().floor() as i32 + 1;
    let behind = match before {
        ..=2 => usize::try_from((4 - before).min(6)).unwrap_or(0),
        3 => 2,
        _ => 0,
    };
    let text = format!("{value:.behind$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    text.strip_prefix('-')
        .map_or(text.into(), |positive| match positive {
            "0" => "0".into(),
            _ => format!("−{positive}"),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_in_order_and_given_once() {
        let ids: Vec<&str> = EXPERIMENTS.iter().map(|e| e.id).collect();
        let mut sorted = ids.clone();
        // By family, then by number.
        sorted.sort_by_key(|id| (&id[..1], id[1..].parse::<u32>().expect("a number")));
        sorted.dedup();
        assert_eq!(ids, sorted);
    }

    #[test]
    fn numbers_are_as_exact_as_they_are_of_use() {
        let shown = [8.584, 132.98, 0.1649, 1234.5, 100.0, -0.25, 0.0, -1e-12, 0.001234].map(number);
        assert_eq!(
            shown,
            [
                "8.584", "132.98", "0.1649", "1234", "100", "−0.25", "0", "0", "0.001234"
            ]
        );
        assert_eq!(number(f64::NAN), "–");
    }
}
