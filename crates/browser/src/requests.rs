//! What the page asks, and the answers. Both are JSON texts.

use control::diagnostics::LocatedDiagnostic;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the page asks.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase", tag = "ask")]
pub enum PageRequest {
    /// From now on scenarios may name these files.
    Files {
        /// Their texts, by path.
        files: BTreeMap<String, String>,
    },
    /// Whether this text is a scenario, and its points.
    Check {
        /// The text.
        text: String,
    },
    /// To begin a run; it takes the place of one that goes on.
    Begin {
        /// The scenario's text.
        text: String,
        /// The seed in place of its own.
        seed: Option<u32>,
        /// The point of its sweep, from 1.
        #[serde(default)]
        point: Option<usize>,
    },
    /// To simulate until the next stop.
    Step {},
    /// The outcome of the run, which ends with that.
    Outcome {},
    /// What can be written where.
    Words {},
}

/// Mistakes and warnings of a text, and its points.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Checked<'a> {
    /// In the order of the text.
    pub diagnostics: Vec<LocatedDiagnostic<'a>>,
    /// What each point is: `{"limit": "30"}`; none of a text with a mistake.
    pub points: Vec<BTreeMap<String, String>>,
}

/// A run that has begun.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Begun {
    /// The simulated time of the whole run.
    pub duration_ns: u64,
    /// The charts, each with the names of its rows.
    pub groups: Vec<ChartRows>,
}

/// A chart: the classes of a link, or the flows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ChartRows {
    /// The link; none for the flows.
    pub link: Option<String>,
    /// The rows; the only one of a plain buffer has no name.
    pub rows: Vec<String>,
}

/// A row of a chart since the last sample: its rate in bit/s, and the mean and the longest delay in
/// ns, where a packet had one.
pub type SampledRow = (u64, Option<u64>, Option<u64>);

/// How far a run is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Stepped {
    /// The simulated time.
    pub at_ns: u64,
    /// Whether it is the end.
    pub is_end: bool,
    /// The events so far.
    pub events: u64,
    /// The rows of all charts since the last sample, one after the other; none if it is too early
    /// for a sample.
    pub rows: Option<Vec<SampledRow>>,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Refused<'a> {
    /// In words.
    pub error: String,
    /// The mistakes of the text, if it has any.
    pub diagnostics: Vec<LocatedDiagnostic<'a>>,
}
