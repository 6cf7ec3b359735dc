//! Sweeps: named lists of values, and all their combinations.
//!
//! ```toml
//! [sweep]
//! rate = ["10 Mbit/s", "100 Mbit/s"]
//! flows = [1, 2, 4]
//! ```
//!
//! `"{rate}"` is replaced by the value itself, of whatever type; within a longer string, by the
//! value's text. `seed = 20` is short for the list of the numbers from 1 to 20. Points are numbered
//! from 1 in the order of the lists, with the last list varying fastest, so that a number means the
//! same point on every machine.

use control::sections::Section;
use control::values::{KeyValue, TomlContent, TomlValue};
use engine::settings::{Problem, Span, unknown};
use std::collections::HashSet;

/// The list whose values are seeds: what is measured with each of them is told as a mean.
pub(crate) const SEED: &str = "seed";

/// The maximum number of points.
const MOST: usize = 1_000_000;

/// The lists of a sweep.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sweep {
    lists: Vec<(String, Vec<String>)>,
}

impl Sweep {
    /// The number of points; 1 without lists.
    pub fn points(&self) -> usize {
        self.lists.iter().map(|(_, values)| values.len()).product()
    }

    /// Whether there are lists.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// The name and the value of each list at a point, numbered from 1.
    pub fn values(&self, number: usize) -> Vec<(String, String)> {
        let indices = self.indices(number);
        let pairs = self.lists.iter().zip(indices);
        pairs
            .map(|((name, values), index)| (name.clone(), values[index].clone()))
            .collect()
    }

    fn indices(&self, number: usize) -> Vec<usize> {
        let mut rest = number.saturating_sub(1);
        let mut indices: Vec<usize> = Vec::new();
        for (_, values) in self.lists.iter().rev() {
            indices.push(rest % values.len());
            rest /= values.len();
        }
        indices.reverse();
        indices
    }
}

/// A value as part of a string; `None` for types that cannot be part of one.
fn text(value: &TomlContent<'_>) -> Option<String> {
    match value {
        TomlContent::Text(text) | TomlContent::Number(text, _) => Some(text.to_string()),
        TomlContent::Integer(number) => Some(number.to_string()),
        TomlContent::Boolean(value) => Some(value.to_string()),
        TomlContent::Date | TomlContent::List(_) | TomlContent::Table(_) => None,
    }
}

/// How many seeds there are, if their number alone is given.
fn seeds(pair: &KeyValue<'_>) -> Option<i64> {
    match pair.value.value {
        TomlContent::Integer(count) if pair.key == SEED => {
            Some(count).filter(|count| (1..=MOST as i64).contains(count))
        }
        _ => None,
    }
}

/// Reads the lists, and reports mistakes in them.
pub(super) fn read(root: &Section<'_>, problems: &mut Vec<Problem>) -> Sweep {
    let mut sweep = Sweep::default();
    let Some(section) = root.section("sweep", problems) else {
        return sweep;
    };
    for pair in section.iter() {
        let values = match seeds(pair) {
            Some(seeds) => (1..=seeds).map(|seed| seed.to_string()).collect(),
            None => listed(pair, problems),
        };
        if values.is_empty() {
            continue;
        }
        sweep.lists.push((pair.key.to_string(), values));
        let points = sweep
            .lists
            .iter()
            .try_fold(1usize, |n, (_, values)| n.checked_mul(values.len()));
        if points.is_none_or(|points| points > MOST) {
            let message = format!("a sweep has at most {MOST} points");
            problems.push(Problem::new(pair.key_at, message).help("split it into several scenarios"));
            return Sweep::default();
        }
    }
    sweep
}

/// The values of a list; none, and what is wrong, if it is no list.
fn listed(pair: &KeyValue<'_>, problems: &mut Vec<Problem>) -> Vec<String> {
    const EXPECTED: &str = "expected a list of values such as [\"10 Mbit/s\", \"100 Mbit/s\"]";
    let Some(items) = pair.value.items().filter(|items| !items.is_empty()) else {
        let more = if pair.key == SEED {
            ", or how many seeds"
        } else {
            ""
        };
        problems.push(pair.value.wrong(&format!("`{}`: {EXPECTED}{more}", pair.key)));
        return Vec::new();
    };
    let mut values = Vec::new();
    for item in items {
        match text(&item.value) {
            Some(value) => values.push(value),
            None => problems.push(item.wrong("expected a text, a number, true or false")),
        }
    }
    values
}

/// Replaces the names of lists by their values at one point, and reports unknown names.
pub(super) fn substitute(
    root: &mut Vec<KeyValue<'_>>,
    sweep: &Sweep,
    number: usize,
    problems: &mut Vec<Problem>,
) -> HashSet<String> {
    let lists = root.iter().find(|pair| pair.key == "sweep");
    let lists = lists.and_then(|pair| pair.value.value.as_table());
    let lists = lists.unwrap_or_default().to_vec();
    let values = sweep.lists.iter().zip(sweep.indices(number));
    let values = values.filter_map(|((name, _), index)| {
        let list = lists.iter().find(|pair| pair.key == name.as_str())?;
        let value = match seeds(list) {
            Some(_) => TomlContent::Integer(index as i64 + 1),
            None => list.value.items()?.get(index)?.value.clone(),
        };
        Some((name.as_str(), value))
    });
    let values: Vec<_> = values.collect();
    let mut used = HashSet::new();
    // A list of seeds is of the scenario's own, unless that says where they belong.
    let seed = values
        .iter()
        .find(|(name, _)| *name == SEED)
        .map(|(_, seed)| seed.clone());
    let of_scenario = root.iter().any(|pair| pair.key == SEED);
    if let (Some(seed), Some(list), false) = (seed, lists.iter().find(|pair| pair.key == SEED), of_scenario) {
        let mut pair = list.clone();
        pair.value.value = seed;
        root.push(pair);
        used.insert(SEED.to_owned());
    }
    let mut walk = Walk {
        values,
        used,
        problems,
    };
    let swept = root.iter_mut().filter(|pair| pair.key != "sweep");
    swept.for_each(|pair| walk.value(&mut pair.value));
    walk.used
}

struct Walk<'a, 'i> {
    values: Vec<(&'a str, TomlContent<'i>)>,
    used: HashSet<String>,
    problems: &'a mut Vec<Problem>,
}

impl<'i> Walk<'_, 'i> {
    fn value(&mut self, value: &mut TomlValue<'i>) {
        let at = value.at;
        match &mut value.value {
            TomlContent::Text(text) if text.contains('{') => {
                if let Some(new) = self.replaced(text, at) {
                    value.value = new;
                }
            }
            TomlContent::List(items) => items.iter_mut().for_each(|item| self.value(item)),
            TomlContent::Table(table) => table.iter_mut().for_each(|pair| self.value(&mut pair.value)),
            _ => {}
        }
    }

    fn replaced(&mut self, whole: &str, at: Span) -> Option<TomlContent<'i>> {
        let mut out = String::new();
        let mut rest = whole;
        while let Some((before, name, after)) = next_name(rest) {
            let Some((_, value)) = self.values.iter().find(|(known, _)| *known == name) else {
                let known: Vec<&str> = self.values.iter().map(|(known, _)| *known).collect();
                let problem = match known.is_empty() {
                    true => Problem::new(
                        at,
                        format!("`{{{name}}}` is a value of [sweep], and there is none"),
                    )
                    .help(format!("write a section [sweep] with `{name} = [\"…\", \"…\"]`")),
                    false => unknown("list of the sweep", name, at, known),
                };
                self.problems.push(problem);
                return None;
            };
            self.used.insert(name.into());
            if name.len() + 2 == whole.len() {
                return Some(value.clone());
            }
            out += before;
            out += &text(value).unwrap_or_default();
            rest = after;
        }
        out += rest;
        Some(TomlContent::Text(out.into()))
    }
}

/// The text before the first `{name}`, the name, and the text after it.
fn next_name(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (name, after) = rest.split_once('}')?;
    Some((before, name, after))
}
