//! The chart of a table: for each row the paper's number, and ours below it.

use super::{ChartFile, Row, RowValue};
use plot::bars::{Bar, Bars, Group};
use plot::svg::PALETTE;
use plot::{Axis, AxisUnit};

/// One of a row's unit, in the base unit of a chart's axis.
fn base(unit: &str) -> (AxisUnit, f64) {
    match unit {
        "ns" => (AxisUnit::Time, 1e-9),
        "µs" => (AxisUnit::Time, 1e-6),
        "ms" => (AxisUnit::Time, 1e-3),
        "Mbit/s" => (AxisUnit::Rate, 1e6),
        _ => (AxisUnit::Percent, 1.0),
    }
}

/// Bars for the rows with two numbers. Times are on a logarithmic axis, since ours are far from the
/// paper's. All rows are of one kind: times, rates, or per cent. Values below zero are noise and
/// have no length.
pub fn chart<'a>(name: &str, title: &str, label: &str, rows: impl IntoIterator<Item = &'a Row>) -> ChartFile {
    let mut axis = Axis::new(label, AxisUnit::Percent);
    let mut groups = Vec::new();
    for row in rows {
        let (RowValue::Number(paper), RowValue::Number(ours)) = (&row.paper, &row.ours) else {
            continue;
        };
        let (unit, factor) = base(&row.unit);
        axis.unit = unit;
        axis.logarithmic = unit == AxisUnit::Time;
        let bar = |name: &str, value: f64, paint| Bar {
            name: name.into(),
            value: (value * factor).max(0.0),
            paint: Some(PALETTE[paint]),
            ..Bar::default()
        };
        groups.push(Group {
            name: row.what.clone(),
            bars: vec![bar("paper", *paper, PALETTE.len() - 1), bar("ours", *ours, 0)],
        });
    }
    let bars = Bars {
        title: title.into(),
        axis,
        groups,
    };
    ChartFile {
        name: name.into(),
        svg: bars.picture(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClaimVerdict;

    #[test]
    fn a_row_with_two_numbers_is_drawn_and_others_are_not() {
        let row = |what: &str, paper: RowValue| Row {
            what: what.into(),
            paper,
            ours: 0.1.into(),
            unit: "µs".into(),
            verdict: ClaimVerdict::Shown,
            note: String::new(),
        };
        let rows = [row("with-both", 10.0.into()), row("with-a-text", "linear".into())];
        let svg = chart("a", "Times", "time", &rows).svg;
        assert!(
            svg.contains("with-both") && svg.contains("10 µs") && svg.contains("100 ns"),
            "{svg}"
        );
        assert!(!svg.contains("with-a-text"), "{svg}");
    }
}
