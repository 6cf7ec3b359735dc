//! Compares expectations with measured values.

use super::outcome::Judgement;
use super::readings::{Counted, MeterReading, Meters, between};
use crate::language::{Expectation, Metric, Subject, Unit};
use engine::units::{Bandwidth, Bytes, Instant, Probability};
use measure::delay::FineDelays;
use measure::numbers;
use sim::meter::jain;
use sim::simulation::FlowId;

/// The readings at the beginning and at the end of a window.
#[derive(Debug, Default)]
pub struct Window {
    /// At its beginning.
    pub from: MeterReading,
    /// At its end.
    pub to: MeterReading,
}

/// Judges an expectation.
pub fn judge(expectation: &Expectation, window: &Window, meters: &Meters<'_>) -> Judgement {
    verdict(expectation, measure(expectation, window, meters))
}

/// The verdict on a measured value, in the metric's smallest unit.
pub fn verdict(expectation: &Expectation, value: u64) -> Judgement {
    let unit = expectation.metric.unit();
    let missed = match (expectation.bounds.at_least, expectation.bounds.at_most) {
        (Some(least), _) if value < least => Some((least, least - value, "too little")),
        (_, Some(most)) if value > most => Some((most, value - most, "too much")),
        _ => None,
    };
    Judgement {
        what: expectation.what.clone(),
        expected: expectation.bounds.words(unit),
        got: unit.rounded(value),
        value,
        unit: unit.name(),
        met: missed.is_none(),
        missed_by: missed.map_or_else(String::new, |(bound, by, what)| {
            let share = if bound == 0 || unit == Unit::Share {
                String::new()
            } else {
                format!(" ({})", numbers::share(by as f64 / bound as f64))
            };
            format!("{} {what}{share}", unit.rounded(by))
        }),
        held_up: None,
    }
}

fn measure(expectation: &Expectation, window: &Window, meters: &Meters<'_>) -> u64 {
    let Expectation {
        subject, from, to, ..
    } = *expectation;
    let span = to.since(from);
    let bin = meters.scenario.bin().nanos();
    let got = |flow: Option<usize>| between(&meters.received(flow), bin, from, to);
    match subject {
        Subject::Class { direction, class } => {
            let counted = meters.counted(direction, Some(class), Some((from, to)));
            of_link(expectation, &counted, direction, window, meters)
        }
        Subject::Link(direction) => {
            let counted = meters.counted(direction, None, Some((from, to)));
            of_link(expectation, &counted, direction, window, meters)
        }
        Subject::Flow(flow) => match expectation.metric {
            Metric::Rate => Bandwidth::of(Bytes::new(got(Some(flow))), span).bits(),
            Metric::Share => ratio(got(Some(flow)), got(None)),
            Metric::Packets => window.to.packets - window.from.packets,
            Metric::Retransmissions => window.to.retransmissions - window.from.retransmissions,
            Metric::Timeouts => window.to.timeouts - window.from.timeouts,
            Metric::Jain => fairness(meters, Some(flow), from, to),
            metric if metric.is_playback() => played(metric, window),
            metric => delay(metric, &window.to.delays.since(&window.from.delays)),
        },
        Subject::Reservation(_) => ratio((window.to.in_force - window.from.in_force).nanos(), span.nanos()),
        Subject::All => match expectation.metric {
            Metric::Jain => fairness(meters, None, from, to),
            _ => Bandwidth::of(Bytes::new(got(None)), span).bits(),
        },
    }
}

/// The metric of a video.
fn played(metric: Metric, window: &Window) -> u64 {
    let played = window.to.playback.since(&window.from.playback);
    match metric {
        Metric::Bitrate => played.bitrate().bits(),
        Metric::Switches => played.switches,
        Metric::Stalls => played.stalls,
        Metric::Stalled => played.stalled.nanos(),
        _ => played.startup.nanos(),
    }
}

/// The metric of a link, or of a class there.
fn of_link(
    expectation: &Expectation,
    counted: &Counted,
    direction: usize,
    window: &Window,
    meters: &Meters<'_>,
) -> u64 {
    let Expectation { from, to, .. } = *expectation;
    let span = to.since(from);
    match expectation.metric {
        Metric::Rate => Bandwidth::of(Bytes::new(counted.bytes), span).bits(),
        Metric::Share => ratio(
            counted.bytes,
            meters.counted(direction, None, Some((from, to))).bytes,
        ),
        Metric::Load => {
            let whole = meters.scenario.directions[direction].capacity(from, to);
            ratio(counted.bytes, whole.get())
        }
        Metric::Packets => counted.packets,
        Metric::Drops => counted.drops(),
        Metric::Marks => counted.marked,
        Metric::BacklogMax => counted.queue.most().bytes.get(),
        Metric::BacklogP99 => counted.queue.bytes(990).get(),
        Metric::Borrowed => (window.to.borrowed - window.from.borrowed).get(),
        metric => delay(metric, &counted.waited),
    }
}

/// A metric of delays.
pub fn delay(metric: Metric, delays: &FineDelays) -> u64 {
    let delay = match metric {
        Metric::DelayMean => delays.mean(),
        Metric::DelayP50 => delays.quantile(500),
        Metric::DelayP99 => delays.quantile(990),
        _ => delays.longest(),
    };
    delay.nanos()
}

/// A share.
pub fn ratio(part: u64, whole: u64) -> u64 {
    Probability::ratio(part, whole).parts()
}

/// Jain's fairness index of the copies of a flow, or of all flows; 100 % if none received anything.
fn fairness(meters: &Meters<'_>, flow: Option<usize>, from: Instant, to: Instant) -> u64 {
    let bin = meters.scenario.bin().nanos();
    let all = 0..meters.network.flows.len();
    let flows = flow.map_or(all, |flow| flow..flow + 1);
    let of_copy = |copy: &[FlowId]| {
        let got = copy
            .iter()
            .map(|&connection| between(meters.series(connection), bin, from, to));
        got.sum()
    };
    fairness_of(flows.flat_map(|flow| meters.copies(flow)).map(of_copy))
}

/// Jain's fairness index of what each got; 100 % if none got anything.
pub fn fairness_of(got: impl Iterator<Item = u64> + Clone) -> u64 {
    let index = jain(got).unwrap_or(1.0);
    Probability::from_parts((index * Probability::ONE.parts() as f64).round() as u64).parts()
}
