//! Merges the outputs of shards; the result is byte for byte that of a single run.

use crate::Error;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;

/// Merges the lines of points: each point once, in order. `outputs` are names and texts of files.
/// Returns whether all expectations were met.
///
/// # Errors
///
/// Returns an error if a line is no point, points are missing or contradict each other, or `out`
/// cannot be written to.
pub fn merge(outputs: &[(String, String)], out: &mut dyn Write) -> Result<bool, Error> {
    let mut scenarios: Vec<CollectedPoints> = Vec::new();
    for (path, text) in outputs {
        for (index, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let wrong = |why: &str| Error::Shards(format!("{path}:{}: {why}", index + 1));
            let expected = "expected a line of `suimon sim --json`";
            let value: Value = serde_json::from_str(line).map_err(|_| wrong(expected))?;
            let number = |key: &str| value[key].as_u64().and_then(|n| usize::try_from(n).ok());
            let (Some(name), Some(point), Some(of)) =
                (value["scenario"].as_str(), number("point"), number("points"))
            else {
                return Err(wrong(expected));
            };
            let place = scenarios.iter().position(|gathered| gathered.name == name);
            let place = place.unwrap_or_else(|| {
                scenarios.push(CollectedPoints {
                    name: name.into(),
                    of,
                    lines: BTreeMap::new(),
                    met: true,
                });
                scenarios.len() - 1
            });
            let gathered = &mut scenarios[place];
            if gathered.of != of {
                let why = format!(
                    "`{name}` has {of} points here, and {} elsewhere: these are different sweeps",
                    gathered.of
                );
                return Err(wrong(&why));
            }
            gathered.met &= value["met"] != Value::Bool(false);
            if let Some(other) = gathered.lines.insert(point, line.to_owned())
                && other != line
            {
                return Err(wrong(&format!(
                    "point {point} of `{name}` is there twice, with different results"
                )));
            }
        }
    }
    for gathered in &scenarios {
        let missing: Vec<usize> = (1..=gathered.of)
            .filter(|point| !gathered.lines.contains_key(point))
            .collect();
        if let Some(first) = missing.first() {
            let message = format!(
                "`{}`: {} of {} points are missing; the first is point {first}",
                gathered.name,
                missing.len(),
                gathered.of
            );
            return Err(Error::Shards(message));
        }
    }
    for line in scenarios.iter().flat_map(|gathered| gathered.lines.values()) {
        writeln!(out, "{line}")?;
    }
    Ok(scenarios.iter().all(|gathered| gathered.met))
}

/// The points of one scenario, collected from files.
struct CollectedPoints {
    name: String,
    of: usize,
    lines: BTreeMap<usize, String>,
    met: bool,
}
