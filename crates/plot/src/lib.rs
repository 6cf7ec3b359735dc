//! Plots: lines and bands over axes, drawn as a self-contained SVG chart.
//!
//! A [`Plot`] is two axes, series of points and a style. Each series is named at the right edge,
//! beside its end, so a chart is readable without colours; where series outnumber colours, dashes
//! differ. [`bars`] draws bar charts. A chart stays small however many points it is given (`thin`).
//!
//! [`svg`] writes charts, [`html`] puts charts and tables on one page. A [`trace`] holds the byte
//! counts of each class over time; [`chart`] plots it, and [`terminal`] draws it live. [`progress`]
//! shows the progress of a long run, [`text`] formats tables and trees, [`colour`] detects colour
//! support.

#![forbid(unsafe_code)]

pub mod axis;
pub mod bars;
pub mod chart;
pub mod colour;
mod draw;
#[cfg(test)]
mod examples;
pub mod html;
pub mod svg;
pub mod text;
mod thin;
pub mod trace;

// All else is of Linux; the above is compiled for the browser too.
cfg_if::cfg_if! {
    if #[cfg(target_os = "linux")] {
        pub mod progress;
        pub mod terminal;
    }
}

use crate::svg::Paint;
pub use axis::{Axis, AxisUnit};
pub use draw::picture;

/// How series are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PlotStyle {
    /// Lines, each from zero.
    #[default]
    Lines,
    /// Stacked bands. All series have the same x values.
    Bands,
}

/// How a line is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stroke {
    /// A plain line.
    #[default]
    Solid,
    /// A line with a mark at each point.
    Marked,
    /// Dashes, for configured values beside measured ones.
    Dashed,
}

/// A series of points.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The name beside its end; may be empty.
    pub name: String,
    /// The colour. Default: the next of the palette.
    pub paint: Option<Paint>,
    /// The style of its line.
    pub stroke: Stroke,
    /// The points from left to right, in the axes' base units. NaN is a gap.
    pub points: Vec<(f64, f64)>,
    /// Ranges: x, from, to.
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

    /// A dashed line, for configured values.
    pub fn dashed(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self {
            stroke: Stroke::Dashed,
            ..Self::new(name, points)
        }
    }

    /// Steps: a value between each two edges, so there is one more edge than values.
    pub fn steps(name: &str, edges: &[f64], values: &[f64]) -> Self {
        let step = |(edge, &value): (&[f64], &f64)| [(edge[0], value), (edge[1], value)];
        Self::new(name, edges.windows(2).zip(values).flat_map(step).collect())
    }

    /// Sets the colour.
    #[must_use]
    pub fn in_paint(self, paint: Paint) -> Self {
        Self {
            paint: Some(paint),
            ..self
        }
    }
}

/// A level to compare the whole plot with, such as the link's rate.
#[derive(Clone, Debug)]
pub struct Level {
    /// The value on the y axis.
    pub at: f64,
    /// The name beside it.
    pub name: String,
}

/// An event marked on the x axis, such as a connection that starts.
#[derive(Clone, Debug)]
pub struct PlotEvent {
    /// The value on the x axis.
    pub at: f64,
    /// The colour of its mark.
    pub paint: Paint,
    /// The description, shown as a tooltip.
    pub name: String,
}

/// One panel of a chart.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// The title above the panel.
    pub title: String,
    /// The x axis.
    pub x: Axis,
    /// The y axis.
    pub y: Axis,
    /// The series.
    pub series: Vec<Series>,
    /// Lines or bands.
    pub style: PlotStyle,
    /// Levels to compare with.
    pub levels: Vec<Level>,
    /// Events on the x axis.
    pub events: Vec<PlotEvent>,
}

/// Rates over time, in seconds and bits per second. [`PlotStyle::Bands`] stacks them.
pub fn rates_over_time(title: &str, style: PlotStyle, series: Vec<Series>) -> Plot {
    Plot {
        title: title.into(),
        x: Axis::new("time", AxisUnit::Time),
        y: Axis::new("", AxisUnit::Rate),
        series,
        style,
        ..Plot::default()
    }
}

/// Stacked windows: each class's bit rate in each window between two edges (in seconds).
pub fn stacked_windows(title: &str, edges: &[f64], classes: &[(&str, Vec<f64>)]) -> Plot {
    let series = classes
        .iter()
        .map(|(name, rates)| Series::steps(name, edges, rates));
    rates_over_time(title, PlotStyle::Bands, series.collect())
}

/// Measured over configured values, both in per cent, one line per case. On the dashed diagonal
/// they are equal.
pub fn target_against_measured(title: &str, cases: &[(&str, Vec<(f64, f64)>)]) -> Plot {
    let end = cases
        .iter()
        .flat_map(|(_, points)| points.iter().map(|p| p.0.max(p.1)));
    let end = end.filter(|v| v.is_finite()).fold(100.0, f64::max);
    let diagonal = Series::dashed("as configured", vec![(0.0, 0.0), (end, end)]).in_paint(crate::svg::GREY);
    let cases = cases
        .iter()
        .map(|(name, points)| Series::marked(name, points.clone()));
    Plot {
        title: title.into(),
        x: Axis::new("target", AxisUnit::Percent).between(0.0, end),
        y: Axis::new("measured", AxisUnit::Percent).between(0.0, end),
        series: std::iter::once(diagonal).chain(cases).collect(),
        ..Plot::default()
    }
}

/// A class's curve begins to rise at this percentage of its packets.
const RISEN: f64 = 0.5;

/// The cumulative distribution of delays, one line per class: seconds on a logarithmic axis, and
/// per cent. [`cumulated`] makes the points. The axis begins where the first class begins to rise;
/// the few shorter delays are drawn at its beginning.
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
            ..Axis::new("delay", AxisUnit::Time).logarithmic()
        },
        y: Axis::new("packets that waited at most this long", AxisUnit::Percent).between(0.0, 100.0),
        series: series.collect(),
        ..Plot::default()
    }
}

/// The cumulative distribution of values and their counts, in steps from 0 to 100 per cent.
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
