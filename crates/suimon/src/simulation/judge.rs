//! Expectations held against what was measured.

use super::outcome::Judgement;
use super::readings::{Meters, Reading, between};
use control::figures;
use control::scenario::{Expectation, Metric, Subject, Unit};
use engine::units::{Bandwidth, Bytes, Probability};

/// What was read at the beginning and at the end of a window.
#[derive(Debug, Default)]
pub struct Window {
    /// At its beginning.
    pub from: Reading,
    /// At its end.
    pub to: Reading,
}

/// What became of an expectation.
pub fn judge(expectation: &Expectation, window: &Window, meters: &Meters<'_>) -> Judgement {
    let value = measure(expectation, window, meters);
    let unit = expectation.metric.unit();
    let missed = match (expectation.at_least, expectation.at_most) {
        (Some(least), _) if value < least => Some((least, least - value, "too little")),
        (_, Some(most)) if value > most => Some((most, value - most, "too much")),
        _ => None,
    };
    Judgement {
        what: expectation.what.clone(),
        expected: expectation.bounds(),
        got: words(unit, value),
        value,
        unit: unit.name(),
        met: missed.is_none(),
        missed_by: missed.map_or_else(String::new, |(bound, by, what)| {
            let share = if bound == 0 || unit == Unit::Share {
                String::new()
            } else {
                format!(" ({})", figures::share(by as f64 / bound as f64))
            };
            format!("{} {what}{share}", words(unit, by))
        }),
    }
}

/// A value for people, rounded.
fn words(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Rate => figures::rate(value),
        Unit::Time => figures::time(value),
        Unit::Count => value.to_string(),
        Unit::Bytes => figures::bytes(value),
        Unit::Share => figures::share(Probability::from_parts(value).as_f64()),
    }
}

fn measure(expectation: &Expectation, window: &Window, meters: &Meters<'_>) -> u64 {
    let Expectation {
        subject,
        metric,
        from,
        to,
        ..
    } = *expectation;
    let span = to.since(from);
    let bin = meters.scenario.bin().nanos();
    let bytes = |subject| between(&meters.series(subject), bin, from, to);
    let delays = || window.to.delays.since(&window.from.delays);
    let ratio = |part, whole| Probability::ratio(part, whole).parts();
    match metric {
        Metric::Rate => Bandwidth::of(Bytes::new(bytes(subject)), span).bits(),
        Metric::Share => match subject {
            Subject::Class { direction, .. } => ratio(bytes(subject), bytes(Subject::Link(direction))),
            _ => ratio(bytes(subject), bytes(Subject::All)),
        },
        Metric::Load => match subject {
            Subject::Link(direction) => {
                let rate = meters.scenario.directions[direction].settings.rate;
                ratio(bytes(subject), rate.bytes_in(span).get())
            }
            _ => 0,
        },
        Metric::DelayMean => delays().mean().nanos(),
        Metric::DelayP50 => delays().quantile(500).nanos(),
        Metric::DelayP99 => delays().quantile(990).nanos(),
        Metric::DelayMax => delays().longest().nanos(),
        Metric::Packets => window.to.packets - window.from.packets,
        Metric::Drops => window.to.drops() - window.from.drops(),
        Metric::Marks => window.to.marked - window.from.marked,
        Metric::Borrowed => (window.to.borrowed - window.from.borrowed).get(),
        Metric::Jain => {
            let flows = &meters.network.flows;
            let copies: Vec<_> = match subject {
                Subject::Flow(flow) => flows[flow].iter().collect(),
                _ => flows.iter().flatten().collect(),
            };
            let got = copies
                .into_iter()
                .map(|&copy| between(meters.copy_series(copy), bin, from, to));
            jain(&got.collect::<Vec<_>>())
        }
    }
}

/// Jain's index (Jain, Chiu and Hawe, 1984): (Σx)² / (n Σx²); all, if nobody got anything.
fn jain(got: &[u64]) -> u64 {
    // In units of 16 B, so that squares of sums fit.
    let all: u128 = got.iter().map(|&x| u128::from(x >> 4)).sum();
    let squares: u128 = got.iter().map(|&x| u128::from(x >> 4) * u128::from(x >> 4)).sum();
    let whole = squares * got.len() as u128;
    if whole == 0 {
        return Probability::ONE.parts();
    }
    let shift = (u128::BITS - whole.leading_zeros()).saturating_sub(64);
    Probability::ratio(((all * all) >> shift) as u64, (whole >> shift) as u64).parts()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_all_for_equals_and_one_in_n_for_one_alone() {
        let one = Probability::ONE.parts();
        assert_eq!(jain(&[1_000_000; 7]), one);
        assert_eq!(jain(&[0, 0, 0, 1 << 40]), one / 4);
        assert_eq!(jain(&[0, 0]), one);
        let two_to_one = jain(&[2 << 50, 1 << 50]);
        assert!(
            two_to_one.abs_diff(Probability::ratio(9, 10).parts()) <= 1,
            "{two_to_one}"
        );
    }
}
