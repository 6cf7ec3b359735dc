//! A sweep as CSV (RFC 4180): a line for each point, with units in the names of the columns.

use crate::run::outcome::{Outcome, Passed};
use measure::delay::Delays;
use std::collections::BTreeMap;

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

/// The table of these points: swept values, traffic of each link and class, rates of flows, and
/// expectations. A class or flow that a point does not have leaves its fields empty.
pub fn points(outcomes: &[Outcome]) -> String {
    let rows: Vec<Vec<(String, String)>> = outcomes.iter().map(point).collect();
    let mut head: Vec<String> = Vec::new();
    let mut columns: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, _) in rows.iter().flatten() {
        columns.entry(name).or_insert_with(|| {
            head.push(name.clone());
            head.len() - 1
        });
    }
    let mut text = line(&head);
    for row in &rows {
        let mut fields = vec![String::new(); head.len()];
        for (name, value) in row {
            fields[columns[name.as_str()]].clone_from(value);
        }
        text.push_str(&line(&fields));
    }
    text
}

/// The names and values of a point's columns.
fn point(outcome: &Outcome) -> Vec<(String, String)> {
    let mut row = vec![("point".to_owned(), outcome.point.number.to_string())];
    row.extend(outcome.point.values.iter().cloned());
    for link in &outcome.links {
        passed(&mut row, &link.name, &link.total);
        for class in &link.classes {
            let name = format!("{} {}", link.name, class.name);
            passed(&mut row, &name, &class.passed);
            if let Some(borrowed) = class.borrowed {
                row.push((format!("{name} borrowed_bytes"), borrowed.get().to_string()));
            }
        }
    }
    for flow in &outcome.flows {
        row.push((format!("{} rate_bps", flow.name), flow.rate.bits().to_string()));
        if let Some(delays) = &flow.delays {
            delay_columns(&mut row, &flow.name, delays);
        }
    }
    for judgement in &outcome.expectations {
        row.push((
            format!("{} [{}]", judgement.what, judgement.unit),
            judgement.value.to_string(),
        ));
        row.push((format!("{} met", judgement.what), judgement.met.to_string()));
    }
    row
}

fn passed(row: &mut Vec<(String, String)>, name: &str, passed: &Passed) {
    row.push((format!("{name} rate_bps"), passed.rate.bits().to_string()));
    row.push((format!("{name} dropped_packets"), passed.drops().to_string()));
    row.push((format!("{name} marked_packets"), passed.marked.to_string()));
    delay_columns(row, name, &passed.waited);
}

fn delay_columns(row: &mut Vec<(String, String)>, name: &str, delays: &Delays) {
    for (what, delay) in [
        ("p50", delays.quantile(500)),
        ("p99", delays.quantile(990)),
        ("max", delays.longest()),
    ] {
        let text = if delays.count() == 0 {
            String::new()
        } else {
            delay.nanos().to_string()
        };
        row.push((format!("{name} delay_{what}_ns"), text));
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
}
