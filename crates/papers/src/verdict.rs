//! Verdicts on rows, and on several rows together.

use crate::Row;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a row says about the claim that it belongs to. Its note has the requirement, or the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ClaimVerdict {
    /// It was measured, and is as required.
    #[serde(rename = "shown")]
    Shown,
    /// It was measured, and is not as required.
    #[serde(rename = "not shown")]
    NotShown,
    /// Nothing is required of it.
    #[serde(rename = "for orientation")]
    Orientation,
    /// This machine, or any machine without the paper's hardware, cannot measure it.
    #[serde(rename = "cannot be shown")]
    CannotBeShown,
}

impl From<bool> for ClaimVerdict {
    fn from(as_required: bool) -> Self {
        match as_required {
            true => Self::Shown,
            false => Self::NotShown,
        }
    }
}

impl fmt::Display for ClaimVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Shown => "shown",
            Self::NotShown => "NOT shown",
            Self::Orientation => "for orientation",
            Self::CannotBeShown => "cannot be shown here",
        })
    }
}

/// How many rows have which verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Rows that are as required.
    pub shown: usize,
    /// Rows that are not.
    pub not_shown: usize,
    /// Rows of which nothing is required.
    pub orientation: usize,
    /// Rows that could not be measured.
    pub cannot_be_shown: usize,
}

impl Counts {
    /// The rows that were judged.
    pub fn judged(&self) -> usize {
        self.shown + self.not_shown
    }

    /// The verdict of all together. One row that is not shown decides, and without a row that is
    /// judged nothing is shown.
    pub fn verdict(&self) -> ClaimVerdict {
        match (self.not_shown, self.shown, self.cannot_be_shown) {
            (1.., ..) => ClaimVerdict::NotShown,
            (0, 1.., _) => ClaimVerdict::Shown,
            (0, 0, 1..) => ClaimVerdict::CannotBeShown,
            (0, 0, 0) => ClaimVerdict::Orientation,
        }
    }
}

impl<'a> FromIterator<&'a Row> for Counts {
    fn from_iter<I: IntoIterator<Item = &'a Row>>(rows: I) -> Self {
        let mut counts = Self::default();
        for row in rows {
            *match row.verdict {
                ClaimVerdict::Shown => &mut counts.shown,
                ClaimVerdict::NotShown => &mut counts.not_shown,
                ClaimVerdict::Orientation => &mut counts.orientation,
                ClaimVerdict::CannotBeShown => &mut counts.cannot_be_shown,
            } += 1;
        }
        counts
    }
}

/// "11 of 12 rows", and the rows that were not judged.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = if self.judged() == 1 { "row" } else { "rows" };
        write!(f, "{} of {} judged {rows}", self.shown, self.judged())?;
        if self.orientation > 0 {
            write!(f, ", {} for orientation", self.orientation)?;
        }
        if self.cannot_be_shown > 0 {
            write!(f, ", {} cannot be shown here", self.cannot_be_shown)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExperimentOutcome, RowValue};

    fn outcome(verdicts: &[ClaimVerdict]) -> ExperimentOutcome {
        let row = |&verdict: &ClaimVerdict| Row::rounded("a", RowValue::Nothing, 1.0, "s", verdict, "");
        ExperimentOutcome {
            rows: verdicts.iter().map(row).collect(),
            ..ExperimentOutcome::default()
        }
    }

    #[test]
    fn one_row_that_is_not_shown_decides() {
        use ClaimVerdict::*;
        assert_eq!(outcome(&[Shown, Shown]).verdict(), Shown);
        assert_eq!(outcome(&[Shown, NotShown]).verdict(), NotShown);
        assert_eq!(outcome(&[CannotBeShown, NotShown]).verdict(), NotShown);
        assert_eq!(outcome(&[Shown, CannotBeShown]).verdict(), Shown);
    }

    #[test]
    fn a_row_that_asks_nothing_is_never_counted() {
        use ClaimVerdict::*;
        let counts = outcome(&[Shown, Orientation, NotShown, Orientation, CannotBeShown]).counts();
        assert_eq!((counts.judged(), counts.shown), (2, 1));
        assert_eq!(
            counts.to_string(),
            "1 of 2 judged rows, 2 for orientation, 1 cannot be shown here"
        );
        // It shows nothing, either.
        assert_eq!(outcome(&[Orientation]).verdict(), Orientation);
        assert_eq!(outcome(&[]).verdict(), Orientation);
        assert_eq!(outcome(&[Orientation, CannotBeShown]).verdict(), CannotBeShown);
    }

    #[test]
    fn a_row_that_was_not_measured_cannot_be_shown() {
        let row = Row::unmeasured("a", RowValue::Nothing, "s", "no lab");
        assert_eq!(row.verdict, ClaimVerdict::CannotBeShown);
        assert_eq!(row.note, "not measured: no lab");
    }
}
