//! A sweep: a table of its points, and charts of measured values over swept values.
//!
//! The numeric list with the most values is the x axis; each combination of the other lists is a
//! line. Without a numeric list, each point is a bar.

use crate::language::SEED;
use crate::run::outcome::Outcome;
use engine::units::{Bandwidth, Bytes, Duration, Probability};
use measure::numbers;
use plot::bars::{Bar, Bars, Group};
use plot::html::{Cell, Page};
use plot::{Axis, AxisUnit, Plot, Series, picture};
use std::path::Path;
use std::str::FromStr;

/// The maximum number of charts.
const DRAWN: usize = 8;

/// Adds the points of a sweep to the page.
pub fn show(page: &mut Page, outcomes: &[Outcome]) {
    let Some(first) = outcomes.first() else {
        return;
    };
    page.heading("The sweep");
    let names = first.point.values.iter().map(|(name, _)| name.as_str());
    let measured = measured(first);
    let head: Vec<&str> = std::iter::once("point")
        .chain(names)
        .chain(measured.iter().map(|m| m.name.as_str()))
        .collect();
    let row = |outcome: &Outcome| {
        let values = outcome.point.values.iter().map(|(_, value)| Cell::new(value));
        let number = match outcome.missed() {
            0 => Cell::new(outcome.point.number.to_string()),
            _ => Cell::judged(format!("{} missed", outcome.point.number), false),
        };
        let cell = |m: &MeasuredValue| m.cell(outcome);
        std::iter::once(number)
            .chain(values)
            .chain(measured.iter().map(cell))
            .collect()
    };
    page.table(&head, &outcomes.iter().map(row).collect::<Vec<_>>());
    let along = swept_axis(outcomes);
    for measured in measured.iter().take(DRAWN) {
        let svg = match &along {
            Some(along) => curve(outcomes, measured, along),
            None => bars(outcomes, measured),
        };
        page.picture(&svg, "");
    }
}

/// A chart that somebody wants of a sweep: `x,y` or `x,y,by`, into a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlotRequest {
    /// The swept list along the x axis.
    x: String,
    /// What was measured.
    y: String,
    /// The swept list of which each value is a line.
    by: Option<String>,
    file: String,
}

impl FromStr for PlotRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not X,Y=FILE or X,Y,BY=FILE, such as rate,flow tcp: rate,flows=fig.svg");
        let (what, file) = text.rsplit_once('=').ok_or_else(wrong)?;
        let parts: Vec<&str> = what.split(',').map(str::trim).collect();
        let (x, y, by) = match parts[..] {
            [x, y] => (x, y, None),
            [x, y, by] => (x, y, Some(by)),
            _ => return Err(wrong()),
        };
        if [x, y, file].contains(&"") || by == Some("") {
            return Err(wrong());
        }
        let by = by.map(str::to_owned);
        let [x, y, file] = [x, y, file].map(str::to_owned);
        Ok(Self { x, y, by, file })
    }
}

impl PlotRequest {
    /// Where it is to be written.
    pub fn file(&self) -> &Path {
        Path::new(&self.file)
    }

    /// The places of its lists among those of a point.
    ///
    /// # Errors
    ///
    /// Returns which one is not swept, and what is.
    pub fn swept(&self, values: &[(String, String)]) -> Result<(usize, Option<usize>), String> {
        let list = |name: &String| {
            let place = values.iter().position(|(list, _)| list == name);
            place.ok_or_else(|| {
                let lists: Vec<&str> = values.iter().map(|(name, _)| name.as_str()).collect();
                format!("`{name}` is not swept; these are: {}", lists.join(", "))
            })
        };
        Ok((list(&self.x)?, self.by.as_ref().map(list).transpose()?))
    }

    /// The chart as SVG: over everything else that is swept, seeds too, each mark is the mean.
    ///
    /// # Errors
    ///
    /// Returns what the sweep does not have, and what it has.
    pub fn drawn(&self, outcomes: &[Outcome]) -> Result<String, String> {
        let Some(first) = outcomes.first() else {
            return Err("no point is finished".to_owned());
        };
        let (x, by) = self.swept(&first.point.values)?;
        let all = measured(first);
        let measured = all
            .iter()
            .find(|measured| measured.name == self.y)
            .ok_or_else(|| {
                let names: Vec<&str> = all.iter().map(|measured| measured.name.as_str()).collect();
                format!("`{}` is not measured; these are: {}", self.y, names.join(", "))
            })?;
        let along = along(outcomes, x)
            .ok_or_else(|| format!("the values of `{}` are no numbers of one unit", self.x))?;
        let line = |outcome: &Outcome| by.map_or("", |by| outcome.point.values[by].1.as_str()).to_owned();
        let mut plot = chart(measured, &along, means(lines(outcomes, measured, &along, line)));
        plot.title = format!("{} over {}", self.y, self.x);
        Ok(picture(&plot.title.clone(), &[plot]))
    }
}

/// Of the values at one x, the mean.
fn means(mut lines: Vec<Series>) -> Vec<Series> {
    for line in &mut lines {
        let at_one_x = line.points.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq());
        let mean = |points: &[(f64, f64)]| {
            let sum: f64 = points.iter().map(|(_, y)| y).sum();
            (points[0].0, sum / points.len() as f64)
        };
        line.points = at_one_x.map(mean).collect();
    }
    lines
}

/// A value that every point has measured.
pub(super) struct MeasuredValue {
    pub(super) name: String,
    pub(super) unit: AxisUnit,
    from: ValueSource,
}

/// Its position in an outcome.
#[derive(Clone, Copy)]
enum ValueSource {
    Expectation(usize),
    Flow(usize),
}

/// The values to compare: those of expectations, or without any, the rates of flows.
pub(super) fn measured(first: &Outcome) -> Vec<MeasuredValue> {
    if first.expectations.is_empty() {
        let flow = |(index, flow): (usize, &crate::run::outcome::FlowOutcome)| MeasuredValue {
            name: flow.name.clone(),
            unit: AxisUnit::Rate,
            from: ValueSource::Flow(index),
        };
        return first.flows.iter().enumerate().map(flow).collect();
    }
    let judgements = first.expectations.iter().enumerate();
    judgements
        .map(|(index, judgement)| MeasuredValue {
            name: judgement.what.clone(),
            unit: scale(judgement.unit).0,
            from: ValueSource::Expectation(index),
        })
        .collect()
}

/// The chart's unit for this smallest unit, and the conversion factor.
fn scale(name: &str) -> (AxisUnit, f64) {
    match name {
        "bit/s" => (AxisUnit::Rate, 1.0),
        "ns" => (AxisUnit::Time, 1e-9),
        "B" => (AxisUnit::Bytes, 1.0),
        "1/2^32" => (AxisUnit::Percent, 100.0 / 2f64.powi(32)),
        _ => (AxisUnit::Number(""), 1.0),
    }
}

impl MeasuredValue {
    pub(super) fn value(&self, outcome: &Outcome) -> Option<f64> {
        match self.from {
            ValueSource::Expectation(index) => {
                let judgement = outcome.expectations.get(index)?;
                Some(judgement.value as f64 * scale(judgement.unit).1)
            }
            ValueSource::Flow(index) => Some(outcome.flows.get(index)?.rate.bits() as f64),
        }
    }

    /// Whether a point does not have what is expected of it.
    pub(super) fn is_missed(&self, outcome: &Outcome) -> bool {
        match self.from {
            ValueSource::Expectation(index) => outcome
                .expectations
                .get(index)
                .is_some_and(|judgement| !judgement.met),
            ValueSource::Flow(_) => false,
        }
    }

    fn cell(&self, outcome: &Outcome) -> Cell {
        match self.from {
            ValueSource::Expectation(index) => match outcome.expectations.get(index) {
                Some(judgement) => Cell::judged(&judgement.got, judgement.met),
                None => Cell::new(""),
            },
            ValueSource::Flow(index) => {
                let flow = outcome.flows.get(index);
                Cell::new(flow.map_or_else(String::new, |flow| numbers::rate(flow.rate.bits())))
            }
        }
    }
}

/// The swept list on the x axis.
#[derive(PartialEq, Debug)]
struct SweptAxis {
    list: usize,
    name: String,
    unit: AxisUnit,
    /// How many values it has.
    values: usize,
    /// Whether its values have different orders of magnitude.
    logarithmic: bool,
}

/// The numeric list with the most values, if it has at least two.
fn swept_axis(outcomes: &[Outcome]) -> Option<SweptAxis> {
    let lists = &outcomes.first()?.point.values;
    let mut best: Option<SweptAxis> = None;
    for list in (0..lists.len()).filter(|list| lists[*list].0 != SEED) {
        let Some(candidate) = along(outcomes, list).filter(|along| along.values > 1) else {
            continue;
        };
        if best.as_ref().is_none_or(|best| candidate.values > best.values) {
            best = Some(candidate);
        }
    }
    best
}

/// This list as an axis, if its values are numbers of one unit.
fn along(outcomes: &[Outcome], list: usize) -> Option<SweptAxis> {
    let (name, _) = outcomes.first()?.point.values.get(list)?;
    let texts = outcomes
        .iter()
        .filter_map(|outcome| Some(outcome.point.values.get(list)?.1.as_str()));
    let numbers = texts.map(number).collect::<Option<Vec<_>>>()?;
    let unit = numbers[0].1;
    if numbers.iter().any(|(_, other)| *other != unit) {
        return None;
    }
    let mut values: Vec<f64> = numbers.iter().map(|(value, _)| *value).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let (least, most) = (values[0], values[values.len() - 1]);
    Some(SweptAxis {
        list,
        name: name.clone(),
        unit,
        values: values.len(),
        logarithmic: least > 0.0 && most / least >= 50.0,
    })
}

/// A swept value as a number in its base unit.
pub(super) fn number(text: &str) -> Option<(f64, AxisUnit)> {
    if let Ok(number) = text.trim().parse::<f64>() {
        return Some((number, AxisUnit::Number("")));
    }
    if text.contains('%') {
        let share: Probability = text.parse().ok()?;
        return Some((share.as_f64() * 100.0, AxisUnit::Percent));
    }
    let rate = |r: Bandwidth| (r.bits() as f64, AxisUnit::Rate);
    let time = |d: Duration| (d.as_secs_f64(), AxisUnit::Time);
    let bytes = |b: Bytes| (b.get() as f64, AxisUnit::Bytes);
    let rate = text.parse().ok().map(rate);
    rate.or_else(|| text.parse().ok().map(time))
        .or_else(|| text.parse().ok().map(bytes))
}

fn curve(outcomes: &[Outcome], measured: &MeasuredValue, along: &SweptAxis) -> String {
    let line = |outcome: &Outcome| others(outcome, along.list);
    let plot = chart(measured, along, lines(outcomes, measured, along, line));
    picture(&measured.name, &[plot])
}

/// A measured value along the axis, a line for each name that `line` gives.
fn lines(
    outcomes: &[Outcome],
    measured: &MeasuredValue,
    along: &SweptAxis,
    line: impl Fn(&Outcome) -> String,
) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for outcome in outcomes {
        let (Some(y), Some((x, _))) = (
            measured.value(outcome),
            outcome
                .point
                .values
                .get(along.list)
                .and_then(|(_, text)| number(text)),
        ) else {
            continue;
        };
        let name = line(outcome);
        let place = series.iter().position(|s| s.name == name).unwrap_or_else(|| {
            series.push(Series::marked(&name, Vec::new()));
            series.len() - 1
        });
        series[place].points.push((x, y));
    }
    for line in &mut series {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    series
}

fn chart(measured: &MeasuredValue, along: &SweptAxis, series: Vec<Series>) -> Plot {
    let x = Axis::new(&along.name, along.unit);
    Plot {
        title: measured.name.clone(),
        x: if along.logarithmic { x.logarithmic() } else { x },
        y: Axis::new("", measured.unit),
        series,
        ..Plot::default()
    }
}

/// The values of the other lists.
fn others(outcome: &Outcome, but: usize) -> String {
    let values = outcome.point.values.iter().enumerate();
    let others = values
        .filter(|(index, _)| *index != but)
        .map(|(_, (_, value))| value.as_str());
    others.collect::<Vec<_>>().join(", ")
}

fn bars(outcomes: &[Outcome], measured: &MeasuredValue) -> String {
    let bar = |outcome: &Outcome| {
        Some(Bar {
            name: others(outcome, usize::MAX),
            value: measured.value(outcome)?,
            paint: Some(plot::svg::PALETTE[0]),
            ..Bar::default()
        })
    };
    let bars = Bars {
        title: measured.name.clone(),
        axis: Axis::new("", measured.unit),
        groups: vec![Group {
            name: String::new(),
            bars: outcomes.iter().filter_map(bar).collect(),
        }],
    };
    bars.picture()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swept_values_are_read_with_their_units() {
        assert_eq!(number("12"), Some((12.0, AxisUnit::Number(""))));
        assert_eq!(number("10 Mbit/s"), Some((10e6, AxisUnit::Rate)));
        assert_eq!(number("250 us"), Some((250e-6, AxisUnit::Time)));
        assert_eq!(number("64 kB").map(|n| n.1), Some(AxisUnit::Bytes));
        assert_eq!(number("12.5 %"), Some((12.5, AxisUnit::Percent)));
        assert_eq!(number("cubic"), None);
    }

    #[test]
    fn a_plot_is_two_or_three_names_and_a_file() {
        let read = |text: &str| {
            text.parse::<PlotRequest>()
                .map(|plot| (plot.x, plot.y, plot.by, plot.file))
        };
        let names = ("rate".to_owned(), "tcp rate".to_owned());
        assert_eq!(
            read("rate, tcp rate=b.svg"),
            Ok((names.0.clone(), names.1.clone(), None, "b.svg".into()))
        );
        for wrong in [
            "",
            "rate=a.svg",
            "rate,tcp",
            "rate,tcp=",
            "a,b,c,d=e",
            "a,,c=e",
            "a,b,=e",
        ] {
            assert!(read(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn of_several_values_at_one_place_the_mean_is_drawn() {
        let line = Series::marked("", vec![(1.0, 2.0), (1.0, 4.0), (2.0, 5.0)]);
        assert_eq!(means(vec![line])[0].points, [(1.0, 3.0), (2.0, 5.0)]);
    }
}
