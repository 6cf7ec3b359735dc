//! Charts of one point: rates of classes, queueing delays, rates of flows.

use crate::run::outcome::{LinkOutcome, Outcome, Passed};
use engine::units::{Bytes, Duration, Instant};
use measure::delay::FineDelays;
use measure::numbers;
use plot::svg::PALETTE;
use plot::trace::Trace;
use plot::{Level, Plot, PlotStyle, Series, cumulated, delays, picture, rates_over_time};

/// The maximum number of series in a chart; the smallest are summed up as one.
const MOST: usize = 10;
/// Up to this number of bins, series are drawn as steps.
const STEPS: usize = 150;
/// The number of readings in a chart for the terminal, which has about a hundred columns.
const READINGS: usize = 240;

/// The utilization in per cent below which the charts of a link are folded.
const BUSY: u64 = 5;

/// Whether a link has enough traffic for its charts to be shown unfolded.
pub fn is_busy(link: &LinkOutcome) -> bool {
    link.total.packets > 0 && link.total.rate.bits() >= link.rate.bits() / 100 * BUSY
}

/// The links with the most traffic, as many as fit on a screen.
pub fn busy(outcome: &Outcome) -> impl Iterator<Item = &LinkOutcome> {
    outcome.links.iter().filter(|link| is_busy(link)).take(2)
}

/// The charts of a link: the rates of its classes, stacked, and queueing delays.
pub fn link(outcome: &Outcome, link: &LinkOutcome) -> String {
    let parts = parts(link);
    let bands = bandwidth(outcome, link, &parts, &link.name);
    let waited: Vec<(&str, Vec<(f64, f64)>)> = parts
        .iter()
        .filter(|part| part.waited.longest() > Duration::ZERO)
        .map(|part| (part.name.as_str(), distribution(&part.waited)))
        .collect();
    let mut panels = vec![bands];
    if !waited.is_empty() {
        let mut plot = delays(&format!("{}: how long packets waited", link.name), &waited);
        let has_rest = parts
            .iter()
            .any(|part| part.rest && part.waited.longest() > Duration::ZERO);
        if let (true, Some(rest)) = (has_rest, plot.series.last_mut()) {
            rest.paint = Some(PALETTE[PALETTE.len() - 1]);
        }
        panels.push(plot);
    }
    picture(&link.name, &panels)
}

/// The rates of a link's classes, stacked.
pub(super) fn bandwidth(outcome: &Outcome, link: &LinkOutcome, parts: &[Part], name: &str) -> Plot {
    let series = parts.iter().map(|part| {
        let series = over_time(outcome, &part.name, &part.series);
        if part.rest {
            series.in_paint(PALETTE[PALETTE.len() - 1])
        } else {
            series
        }
    });
    let what = if parts.len() == 1 {
        "what left"
    } else {
        "bandwidth of classes"
    };
    let title = format!("{name}: {what}");
    let mut bands = rates_over_time(&title, PlotStyle::Bands, series.collect());
    bands.x = bands.x.between(0.0, outcome.duration.as_secs_f64());
    bands.levels.push(Level {
        at: link.rate.bits() as f64,
        name: format!("link {}", numbers::rate(link.rate.bits())),
    });
    bands
}

/// The rate of each flow.
pub fn flows(outcome: &Outcome) -> String {
    let mut flows: Vec<_> = outcome.flows.iter().collect();
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
    flows.truncate(MOST);
    let series = flows
        .iter()
        .map(|flow| over_time(outcome, &flow.name, &flow.series));
    let title = match outcome.flows.len() {
        all if all > MOST => format!("What the {MOST} largest of {all} flows got"),
        _ => "What each flow got".into(),
    };
    let mut plot: Plot = rates_over_time(&title, PlotStyle::Lines, series.collect());
    plot.x = plot.x.between(0.0, outcome.duration.as_secs_f64());
    picture("Flows", &[plot])
}

/// A link's classes as a trace, for the terminal.
pub fn trace(outcome: &Outcome, link: &LinkOutcome) -> Trace {
    let mut trace = Trace::new(&link.name, link.rate);
    let bins = bins(outcome);
    let mut sums: Vec<Vec<u64>> = Vec::new();
    for part in parts(link) {
        let target = link.classes.iter().find(|class| class.name == part.name);
        trace.line(&part.name, target.and_then(|class| class.target), Instant::START);
        let mut sum = 0;
        let counted = padded(&part.series, bins).into_iter().map(|bytes| {
            sum += bytes;
            sum
        });
        sums.push(std::iter::once(0).chain(counted).collect());
    }
    let every = bins.div_ceil(READINGS).max(1);
    for bin in (0..=bins).filter(|bin| bin % every == 0 || *bin == bins) {
        let at = Instant::START + outcome.bin.times(bin as u64);
        let counters: Vec<Bytes> = sums.iter().map(|sum| Bytes::new(sum[bin])).collect();
        trace.read(at, &counters);
    }
    trace
}

/// A part of a link's traffic: a class, or the smallest classes together.
pub(super) struct Part {
    pub(super) name: String,
    series: Vec<u64>,
    pub(super) waited: FineDelays,
    bytes: u64,
    rest: bool,
}

impl Part {
    fn of(name: &str, passed: &Passed) -> Self {
        Self {
            name: name.into(),
            series: passed.series.clone(),
            waited: passed.waited.clone(),
            bytes: passed.bytes,
            rest: false,
        }
    }
}

/// The classes with traffic, in the policy's order. If there are many, the smallest are one part at
/// the end.
pub(super) fn parts(link: &LinkOutcome) -> Vec<Part> {
    let leaves = link.classes.iter().filter(|class| class.leaf);
    let mut parts: Vec<Part> = leaves.map(|class| Part::of(&class.name, &class.passed)).collect();
    if parts.is_empty() {
        return vec![Part::of("all", &link.total)];
    }
    if parts.len() <= MOST {
        return parts;
    }
    let mut sizes: Vec<u64> = parts.iter().map(|part| part.bytes).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let least = sizes[MOST - 2];
    let mut room = MOST - 1;
    let (kept, small): (Vec<Part>, Vec<Part>) = parts.drain(..).partition(|part| {
        let keep = part.bytes >= least && room > 0;
        room -= usize::from(keep);
        keep
    });
    let mut rest = Part {
        name: format!("{} others", small.len()),
        series: Vec::new(),
        waited: FineDelays::default(),
        bytes: 0,
        rest: true,
    };
    for part in small {
        rest.series.resize(rest.series.len().max(part.series.len()), 0);
        let sums = rest.series.iter_mut().zip(&part.series);
        sums.for_each(|(sum, bytes)| *sum += bytes);
        rest.waited.merge(&part.waited);
        rest.bytes += part.bytes;
    }
    kept.into_iter().chain([rest]).collect()
}

/// The number of bins of the duration.
fn bins(outcome: &Outcome) -> usize {
    outcome.duration.nanos().div_ceil(outcome.bin.nanos().max(1)) as usize
}

/// Pads a series, which ends with its last byte, to the last bin.
fn padded(series: &[u64], bins: usize) -> Vec<u64> {
    let mut series = series.to_vec();
    series.resize(bins, 0);
    series
}

/// The rates of a series over time, up to the last bin.
pub(super) fn over_time(outcome: &Outcome, name: &str, series: &[u64]) -> Series {
    let mut series = series.to_vec();
    series.resize(bins(outcome), 0);
    let bin = outcome.bin.as_secs_f64();
    let end = outcome.duration.as_secs_f64();
    // The end of the simulation may cut the last bin short.
    let edge = |index: usize| (index as f64 * bin).min(end);
    let rate = |index: usize, bytes: u64| bytes as f64 * 8.0 / (edge(index + 1) - edge(index)).max(1e-9);
    let rates = series
        .iter()
        .enumerate()
        .map(|(index, &bytes)| rate(index, bytes));
    if series.len() <= STEPS {
        let edges: Vec<f64> = (0..=series.len()).map(edge).collect();
        return Series::steps(name, &edges, &rates.collect::<Vec<_>>());
    }
    let middle = |index: usize| f64::midpoint(edge(index), edge(index + 1));
    Series::new(
        name,
        rates.enumerate().map(|(n, rate)| (middle(n), rate)).collect(),
    )
}

pub(super) fn distribution(delays: &FineDelays) -> Vec<(f64, f64)> {
    let mut before = 0;
    let counted = delays.steps().map(|(delay, until)| {
        let count = until - before;
        before = until;
        (delay.as_secs_f64(), count)
    });
    cumulated(&counted.collect::<Vec<_>>())
}
