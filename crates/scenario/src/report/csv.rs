//! A sweep as CSV (RFC 4180): a line for each point, with units in the names of the columns.

use super::sweep::number;
use crate::run::outcome::{Outcome, Passed};
use measure::delay::FineDelays;
use plot::AxisUnit;
use std::collections::BTreeMap;
use std::fmt;

/// A field by section 2: quoted if it contains a comma, a quote or a line break; quotes are
/// doubled.
pub fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

/// A line, with the line break of section 2.
pub fn line(fields: &[String]) -> String {
    let fields: Vec<String> = fields.iter().map(|text| field(text)).collect();
    fields.join(",") + "\r\n"
}

/// A value of a column.
#[derive(Clone, PartialEq, Debug)]
pub enum Field {
    /// There is none, as of a delay where nothing was sent.
    Nothing,
    /// Whether an expectation was met.
    Verdict(bool),
    /// A count, or a measured value in the unit that the column's name ends with.
    Count(u64),
    /// A swept number, or a swept value in the unit that the column's name ends with.
    Number(f64),
    /// A swept value as it is written.
    Text(String),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Verdict(met) => write!(f, "{met}"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text}"),
        }
    }
}

/// The table of these points: swept values, traffic of each link and class, rates of flows, and
/// expectations. A class or flow that a point does not have leaves its fields empty.
pub fn points(outcomes: &[Outcome]) -> String {
    let rows: Vec<Vec<(String, Field)>> = outcomes.iter().map(columns).collect();
    let mut head: Vec<String> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, _) in rows.iter().flatten() {
        places.entry(name).or_insert_with(|| {
            head.push(name.clone());
            head.len() - 1
        });
    }
    let mut text = line(&head);
    for row in &rows {
        let mut fields = vec![String::new(); head.len()];
        for (name, value) in row {
            fields[places[name.as_str()]] = value.to_string();
        }
        text.push_str(&line(&fields));
    }
    text
}

/// The names and values of a point's columns. A swept value with a unit has two: as it is written,
/// and as a number.
pub fn columns(outcome: &Outcome) -> Vec<(String, Field)> {
    let mut row = vec![("point".to_owned(), Field::Count(outcome.point.number as u64))];
    for (name, value) in &outcome.point.values {
        swept(&mut row, name, value);
    }
    for link in &outcome.links {
        passed(&mut row, &link.name, &link.total);
        for class in &link.classes {
            let name = format!("{} {}", link.name, class.name);
            passed(&mut row, &name, &class.passed);
            if let Some(borrowed) = class.borrowed {
                row.push((format!("{name} borrowed_bytes"), Field::Count(borrowed.get())));
            }
        }
    }
    for flow in &outcome.flows {
        row.push((format!("{} rate_bps", flow.name), Field::Count(flow.rate.bits())));
        if let Some(delays) = &flow.delays {
            delay_columns(&mut row, &flow.name, delays);
        }
        if let Some(played) = &flow.playback {
            let columns = [
                ("bitrate_bps", played.bitrate().bits()),
                ("switches", played.switches),
                ("stalls", played.stalls),
                ("stalled_ns", played.stalled.nanos()),
                ("startup_ns", played.startup.nanos()),
            ];
            row.extend(columns.map(|(name, value)| (format!("{} {name}", flow.name), Field::Count(value))));
        }
    }
    for judgement in &outcome.expectations {
        row.push((
            format!("{} [{}]", judgement.what, judgement.unit),
            Field::Count(judgement.value),
        ));
        row.push((format!("{} met", judgement.what), Field::Verdict(judgement.met)));
    }
    row
}

fn swept(row: &mut Vec<(String, Field)>, name: &str, value: &str) {
    let unit = match number(value) {
        Some((_, AxisUnit::Number(_))) => {
            let count = value.trim().parse().map(Field::Count);
            let number = || value.trim().parse().map_or(Field::Nothing, Field::Number);
            row.push((name.to_owned(), count.unwrap_or_else(|_| number())));
            return;
        }
        Some((_, AxisUnit::Rate)) => "bps",
        Some((_, AxisUnit::Time)) => "s",
        Some((_, AxisUnit::Bytes)) => "bytes",
        Some((_, AxisUnit::Percent)) => "percent",
        _ => "",
    };
    row.push((name.to_owned(), Field::Text(value.to_owned())));
    if let (Some((number, _)), false) = (number(value), unit.is_empty()) {
        row.push((format!("{name} {unit}"), Field::Number(number)));
    }
}

fn passed(row: &mut Vec<(String, Field)>, name: &str, passed: &Passed) {
    row.push((format!("{name} rate_bps"), Field::Count(passed.rate.bits())));
    row.push((format!("{name} dropped_packets"), Field::Count(passed.drops())));
    row.push((format!("{name} marked_packets"), Field::Count(passed.marked)));
    delay_columns(row, name, &passed.waited);
}

fn delay_columns(row: &mut Vec<(String, Field)>, name: &str, delays: &FineDelays) {
    for (what, delay) in [
        ("p50", delays.quantile(500)),
        ("p99", delays.quantile(990)),
        ("max", delays.longest()),
    ] {
        let field = match delays.count() {
            0 => Field::Nothing,
            _ => Field::Count(delay.nanos()),
        };
        row.push((format!("{name} delay_{what}_ns"), field));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_that_need_it_are_quoted() {
        let fields = ["a b", "1,5", "say \"no\"", "two\nlines", ""].map(String::from);
        assert_eq!(
            line(&fields),
            "a b,\"1,5\",\"say \"\"no\"\"\",\"two\nlines\",\r\n"
        );
    }

    #[test]
    fn a_swept_value_with_a_unit_is_a_number_too() {
        let columns = |value| {
            let mut row = Vec::new();
            swept(&mut row, "x", value);
            let fields = row.iter().map(|(name, field)| format!("{name}={field}"));
            fields.collect::<Vec<_>>().join("|")
        };
        assert_eq!(columns("10 Mbit/s"), "x=10 Mbit/s|x bps=10000000");
        assert_eq!(columns("250 us"), "x=250 us|x s=0.00025");
        assert_eq!(columns("64 kB"), "x=64 kB|x bytes=64000");
        assert_eq!(columns("12.5 %"), "x=12.5 %|x percent=12.5");
        assert_eq!(columns("12"), "x=12");
        assert_eq!(columns("-1.5"), "x=-1.5");
        assert_eq!(columns("cubic"), "x=cubic");
    }
}
