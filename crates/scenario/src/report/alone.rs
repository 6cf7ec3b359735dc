//! The single chart that `--picture` draws, for a page of documentation.
//!
//! It shows only links with policies, which are the subject of a scenario. If the disciplines of
//! the links differ, links are named by discipline, to compare the same traffic through several.

use super::pictures::{self, Part};
use crate::language::Picture;
use crate::run::outcome::{FlowOutcome, LinkOutcome, Outcome};
use engine::units::{Bytes, Instant};
use plot::{Axis, AxisUnit, Plot, PlotStyle, Series, delays, picture as drawn, rates_over_time};
use std::collections::HashSet;

/// The chart that the scenario selects.
pub fn picture(outcome: &Outcome) -> String {
    let plots = match outcome.picture {
        Picture::Flows => ruled(outcome)
            .map(|(name, link)| flows(outcome, link, &name))
            .collect(),
        Picture::Bandwidth => ruled(outcome)
            .map(|(name, link)| pictures::bandwidth(outcome, link, &pictures::parts(link), &name))
            .collect(),
        Picture::Delays => vec![queueing_delays(outcome)],
        Picture::FlowDelays => vec![one_way_delays(outcome)],
        Picture::Backlog => vec![backlog(outcome)],
    };
    drawn(&outcome.scenario, &plots)
}

/// The links with policies and traffic, each with a name that distinguishes it.
fn ruled(outcome: &Outcome) -> impl Iterator<Item = (String, &LinkOutcome)> {
    let links: Vec<_> = outcome
        .links
        .iter()
        .filter_map(|link| Some((link.discipline?, link)))
        .filter(|(_, link)| link.total.packets > 0)
        .collect();
    let kinds: HashSet<&str> = links.iter().map(|(kind, _)| *kind).collect();
    let differ = links.len() > 1 && kinds.len() == links.len();
    links.into_iter().map(move |(kind, link)| {
        let name = if differ { kind } else { &link.name };
        (name.to_owned(), link)
    })
}

/// The rates, stacked, of the flows that begin at the sending host of a link.
fn flows(outcome: &Outcome, link: &LinkOutcome, name: &str) -> Plot {
    let begin = |flow: &&FlowOutcome| {
        let rest = link.name.strip_prefix(flow.from.as_str());
        rest.is_some_and(|rest| rest.starts_with(" > "))
    };
    let series = outcome.flows.iter().filter(begin);
    let series = series.map(|flow| pictures::over_time(outcome, &flow.name, &flow.series));
    let mut plot = rates_over_time(
        &format!("{name}: what each flow got"),
        PlotStyle::Bands,
        series.collect(),
    );
    plot.x = plot.x.between(0.0, outcome.duration.as_secs_f64());
    plot
}

/// The distribution of queueing delays: a line for each class of each link.
fn queueing_delays(outcome: &Outcome) -> Plot {
    let several = ruled(outcome).count() > 1;
    let mut lines = Vec::new();
    for (name, link) in ruled(outcome) {
        let parts = pictures::parts(link);
        let one = parts.len() == 1;
        let label = |part: &Part| match (several, one) {
            (true, true) => name.clone(),
            (true, false) => format!("{name}: {}", part.name),
            (false, _) => part.name.clone(),
        };
        let waited = parts.iter().filter(|part| part.waited.count() > 0);
        lines.extend(waited.map(|part| (label(part), pictures::distribution(&part.waited))));
    }
    distributions("How long packets waited", &lines)
}

/// The distribution of one-way delays: a line for each flow that measures them.
fn one_way_delays(outcome: &Outcome) -> Plot {
    let lines: Vec<_> = outcome
        .flows
        .iter()
        .filter_map(|flow| Some((flow.name.clone(), pictures::distribution(flow.delays.as_ref()?))))
        .collect();
    let mut plot = distributions("How long packets took from end to end", &lines);
    plot.y.label = "packets that took at most this long".into();
    plot
}

fn distributions(title: &str, lines: &[(String, Vec<(f64, f64)>)]) -> Plot {
    let lines: Vec<_> = lines
        .iter()
        .map(|(name, points)| (name.as_str(), points.clone()))
        .collect();
    delays(title, &lines)
}

/// The backlog over time, as the time to send it: a line for each link.
fn backlog(outcome: &Outcome) -> Plot {
    let series = ruled(outcome).map(|(name, link)| {
        let rate = link.rate.bits().max(1) as f64;
        let point = |(at, backlog): &(Instant, Bytes)| {
            let at = at.since(Instant::START).as_secs_f64();
            (at, backlog.get() as f64 * 8.0 / rate)
        };
        Series::new(&name, link.backlog_samples.iter().map(point).collect())
    });
    Plot {
        title: "What waits, as the time to send it".into(),
        x: Axis::new("time", AxisUnit::Time).between(0.0, outcome.duration.as_secs_f64()),
        y: Axis::new("", AxisUnit::Time),
        series: series.collect(),
        ..Plot::default()
    }
}
