//! Plots: lines and bands over an axis, drawn as one picture that stands alone.
//!
//! A [`Plot`] says what is to be seen: two axes, series of points, a style. Each series is named at the right edge,
//! beside where it ends, so that a picture can be read without colours; where there are more series than colours the
//! dashes differ. [`bars`] has plots of named values. However many points come in, a picture stays small (`thin`).
//!
//! [`svg`] writes the pictures, [`html`] puts pictures and tables on one page. A [`trace`] holds what each class got over
//! time; [`chart`] makes plots of it, and [`terminal`] draws it while it happens. [`progress`] shows how far a long run is,
//! [`text`] has tables and trees of names, [`colour`] says where colours are shown.

#![forbid(unsafe_code)]

pub mod axis;
pub mod bars;
pub mod chart;
pub mod colour;
mod draw;
#[cfg(test)]
mod examples;
pub mod html;
pub mod progress;
pub mod svg;
pub mod terminal;
pub mod text;
mod thin;
pub mod trace;

use crate::svg::Paint;
pub use axis::{Axis, Unit};
pub use draw::picture;

/// How series are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Style {
    /// A line each, from zero.
    #[default]
    Lines,
    /// A band each, on top of each other. All series have the same places on the x axis.
    Bands,
}

/// How a line is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stroke {
    /// A line.
    #[default]
    Solid,
    /// A line, and a mark at each point.
    Marked,
    /// Dashes: what was asked for, beside what was measured.
    Dashed,
}

/// Points that belong together.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Beside its end; empty if it is not to be named.
    pub name: String,
    /// Its colour; if absent, the next one.
    pub paint: Option<Paint>,
    /// How it is drawn as a line.
    pub stroke: Stroke,
    /// Its points from left to right, in the base units of the axes. A point that is not a number is a gap.
    pub points: Vec<(f64, f64)>,
    /// Ranges: where on the x axis, from, to.
    pub ranges: Vec<(f64, f64, f64)>,
}

impl Series {
    /// A line.
    pub fn new(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points,
            ..Self::default()
        }
    }

    /// A line with a mark at each point.
    pub fn marked(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self {
            stroke: Stroke::Marked,
            ..Self::new(name, points)
        }
    }

    /// Dashes, for what was asked for.
    pub fn dashed(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self {
            stroke: Stroke::Dashed,
            ..Self::new(name, points)
        }
    }

    /// Steps: each value from one edge to the next; there is one edge more than values.
    pub fn steps(name: &str, edges: &[f64], values: &[f64]) -> Self {
        let step = |(edge, &value): (&[f64], &f64)| [(edge[0], value), (edge[1], value)];
        Self::new(name, edges.windows(2).zip(values).flat_map(step).collect())
    }

    /// The same in this colour.
    #[must_use]
    pub fn in_paint(self, paint: Paint) -> Self {
        Self {
            paint: Some(paint),
            ..self
        }
    }
}

/// A level that the whole plot is to be compared with, such as the link's rate.
#[derive(Clone, Debug)]
pub struct Level {
    /// The value on the y axis.
    pub at: f64,
    /// Beside it.
    pub name: String,
}

/// A moment that is marked on the x axis, such as a connection that joins.
#[derive(Clone, Debug)]
pub struct Event {
    /// The value on the x axis.
    pub at: f64,
    /// The colour of its mark.
    pub paint: Paint,
    /// What happens, shown where the reader points at it.
    pub name: String,
}

/// One panel of a picture.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// Above it.
    pub title: String,
    /// Along the bottom.
    pub x: Axis,
    /// Along the left side.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
    /// How.
    pub style: Style,
    /// Levels to compare with.
    pub levels: Vec<Level>,
    /// Moments along the bottom.
    pub events: Vec<Event>,
}

/// Rates over time: seconds, and bits per second. As [`Style::Bands`] they add up.
pub fn rates_over_time(title: &str, style: Style, series: Vec<Series>) -> Plot {
    Plot {
        title: title.into(),
        x: Axis::new("time", Unit::Time),
        y: Axis::new("", Unit::Rate),
        series,
        style,
        ..Plot::default()
    }
}

/// Shares in windows, stacked: the bit rate of each class in each window between two edges (in seconds).
pub fn stacked_windows(title: &str, edges: &[f64], classes: &[(&str, Vec<f64>)]) -> Plot {
    let series = classes
        .iter()
        .map(|(name, rates)| Series::steps(name, edges, rates));
    rates_over_time(title, Style::Bands, series.collect())
}

/// What was measured over what was asked for, both in per cent, a line for each of several cases. The dashed diagonal
/// is where they are equal.
pub fn target_against_measured(title: &str, cases: &[(&str, Vec<(f64, f64)>)]) -> Plot {
    let end = cases
        .iter()
        .flat_map(|(_, points)| points.iter().map(|p| p.0.max(p.1)));
    let end = end.filter(|v| v.is_finite()).fold(100.0, f64::max);
    let diagonal = Series::dashed("as asked", vec![(0.0, 0.0), (end, end)]).in_paint(crate::svg::GREY);
    let cases = cases
        .iter()
        .map(|(name, points)| Series::marked(name, points.clone()));
    Plot {
        title: title.into(),
        x: Axis::new("target", Unit::Percent).between(0.0, end),
        y: Axis::new("measured", Unit::Percent).between(0.0, end),
        series: std::iter::once(diagonal).chain(cases).collect(),
        ..Plot::default()
    }
}

/// A class begins to rise at so many per cent of its packets.
const RISEN: f64 = 0.5;

/// Which part of all delays was at most this long, a line for each of several classes; delays in seconds on a
/// logarithmic axis, parts in per cent. Make the points by [`cumulated`]. The axis begins where the first class begins
/// to rise: the few that waited less stand at its beginning.
pub fn delays(title: &str, classes: &[(&str, Vec<(f64, f64)>)]) -> Plot {
    let series = classes
        .iter()
        .map(|(name, points)| Series::new(name, points.clone()));
    let risen = |(_, points): &(&str, Vec<(f64, f64)>)| {
        let above = points.iter().find(|p| p.0 > 0.0 && p.1 >= RISEN);
        above.map(|p| p.0)
    };
    let least = classes.iter().filter_map(risen).reduce(f64::min);
    Plot {
        title: title.into(),
        x: Axis {
            from: least.map(axis::round_below),
            ..Axis::new("delay", Unit::Time).logarithmic()
        },
        y: Axis::new("packets that waited at most this long", Unit::Percent).between(0.0, 100.0),
        series: series.collect(),
        ..Plot::default()
    }
}

/// The cumulative distribution of values that occurred so many times each, rising in steps from zero to 100 per cent.
pub fn cumulated(counted: &[(f64, u64)]) -> Vec<(f64, f64)> {
    let mut counted: Vec<(f64, u64)> = counted.iter().copied().filter(|c| c.1 > 0).collect();
    counted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: u64 = counted.iter().map(|c| c.1).sum();
    let (mut points, mut below) = (Vec::with_capacity(counted.len() * 2), 0u64);
    let percent = |count: u64| count as f64 / total as f64 * 100.0;
    for (value, count) in counted {
        points.push((value, percent(below)));
        below += count;
        points.push((value, percent(below)));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_rises_by_each_values_share() {
        let points = cumulated(&[(2.0, 1), (1.0, 2), (9.0, 0), (4.0, 1)]);
        let by_hand = [
            (1.0, 0.0),
            (1.0, 50.0),
            (2.0, 50.0),
            (2.0, 75.0),
            (4.0, 75.0),
            (4.0, 100.0),
        ];
        assert_eq!(points, by_hand);
        assert_eq!(cumulated(&[]), []);
    }

    #[test]
    fn steps_hold_each_value_from_edge_to_edge() {
        let steps = Series::steps("a", &[0.0, 1.0, 3.0], &[5.0, 7.0]);
        assert_eq!(steps.points, [(0.0, 5.0), (1.0, 5.0), (1.0, 7.0), (3.0, 7.0)]);
    }
}
