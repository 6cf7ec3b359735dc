//! Runs of the same with several seeds: each measured value as a mean with its interval of 95 %.
//!
//! A sweep's list named `seed` is such. Everything else that is swept makes a row.

use super::sweep::{MeasuredValue, measured};
use crate::language::SEED;
use crate::run::outcome::Outcome;
use measure::confidence::SureMean;
use plot::html::{Cell, Page};
use std::collections::HashMap;

/// The head of the table, and a row for each combination of the other lists; none unless there are
/// several seeds.
pub(super) fn rows(outcomes: &[Outcome]) -> Option<(Vec<String>, Vec<Vec<String>>)> {
    let first = outcomes.first()?;
    let is_seed = |(name, _): &&(String, String)| name == SEED;
    first.point.values.iter().find(is_seed)?;
    let others = |outcome: &Outcome| -> Vec<String> {
        let values = outcome.point.values.iter().filter(|pair| !is_seed(pair));
        values.map(|(_, value)| value.clone()).collect()
    };
    // In the order of the points.
    let (mut order, mut groups) = (Vec::new(), HashMap::<_, Vec<&Outcome>>::new());
    for outcome in outcomes {
        let key = others(outcome);
        let group = groups.entry(key.clone()).or_default();
        if group.is_empty() {
            order.push(key);
        }
        group.push(outcome);
    }
    if groups.values().all(|group| group.len() < 2) {
        return None;
    }
    let measured = measured(first);
    let names = first.point.values.iter().filter(|pair| !is_seed(pair));
    let head = names.map(|(name, _)| name.clone()).chain(["seeds".to_owned()]);
    let head = head
        .chain(measured.iter().map(|value| value.name.clone()))
        .collect();
    let row = |key: Vec<String>| {
        let group = groups.get(&key).map(Vec::as_slice).unwrap_or_default();
        let count = group.len().to_string();
        let cells = measured.iter().map(|value| cell(value, group));
        key.into_iter().chain([count]).chain(cells).collect()
    };
    Some((head, order.into_iter().map(row).collect()))
}

/// Adds the table to the page.
pub(super) fn show(page: &mut Page, outcomes: &[Outcome]) {
    let Some((head, rows)) = rows(outcomes) else {
        return;
    };
    page.heading("Over all seeds");
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let cells = |row: &Vec<String>| row.iter().map(Cell::new).collect();
    page.table(&head, &rows.iter().map(cells).collect::<Vec<_>>());
}

/// `17.2 Mbit/s ± 120 kbit/s`, and how many runs missed what is expected.
fn cell(value: &MeasuredValue, group: &[&Outcome]) -> String {
    let values: Vec<f64> = group.iter().filter_map(|outcome| value.value(outcome)).collect();
    let Some(SureMean { mean, within }) = SureMean::of(&values) else {
        return String::new();
    };
    let within = within.map_or_else(String::new, |within| format!(" ± {}", value.unit.show(within)));
    let missed = match group.iter().filter(|outcome| value.is_missed(outcome)).count() {
        0 => String::new(),
        missed => format!(", {missed} MISSED"),
    };
    format!("{}{within}{missed}", value.unit.show(mean))
}
