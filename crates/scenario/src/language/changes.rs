//! Changes of a class's settings while a scenario runs, as `suimon set` makes them.

use super::Named;
use control::policy::InterfacePolicy;
use control::sections::Section;
use engine::settings;
use engine::settings::{Problem, Raw};
use engine::tree::{Registry, TreePlan};
use engine::units::{Duration, Instant};
use std::collections::HashMap;

settings! {
    /// What a change says beside the new settings.
    pub struct ChangeSettings {
        /// When
        at: Duration = required, "", "";
        /// The class
        class: String = required, "", "";
        /// The link, such as "server > home", where several have such a class
        link: String = derived "the one that has such a class", "", "";
    }
}

/// A change that has been checked.
#[derive(Clone, Debug)]
pub struct ScheduledChange {
    /// When.
    pub at: Instant,
    /// Where, by place in the list of directions.
    pub direction: usize,
    /// The whole tree as it is from then on.
    pub plan: TreePlan,
    /// In words.
    pub what: String,
}

/// Reads all changes, each on top of those before it in time.
pub(super) fn read_all(
    sections: &[Section<'_>],
    named: &Named<'_>,
    registry: &Registry,
    problems: &mut Vec<Problem>,
) -> Vec<ScheduledChange> {
    let mut read: Vec<(Duration, &Section<'_>, ChangeSettings)> = Vec::new();
    let generic = |key: &str| ChangeSettings::SETTINGS.iter().any(|setting| setting.name == key);
    for section in sections {
        let Some(settings) = ChangeSettings::read(&section.table(generic), &[], problems) else {
            continue;
        };
        if settings.at >= named.duration {
            let at = section.get("at").map_or(section.at, |pair| pair.value.at);
            let message = format!("this never happens: the scenario ends at {}", named.duration);
            problems.push(Problem::new(at, message));
        }
        read.push((settings.at, section, settings));
    }
    read.sort_by_key(|(at, ..)| *at);
    let mut amended: HashMap<usize, InterfacePolicy> = HashMap::new();
    let mut changes = Vec::new();
    for (at, section, settings) in read {
        let place = section.get("class").map_or(section.at, |pair| pair.value.at);
        let Some((direction, _)) = named.class(&settings.class, place, section, problems) else {
            continue;
        };
        let Some(now) = amended
            .get(&direction)
            .or(named.directions[direction].policy.as_ref())
        else {
            continue;
        };
        let table = section.table(|key| !generic(key));
        if table.entries.is_empty() {
            let problem = Problem::new(section.at, "this changes nothing");
            problems.push(problem.help("write the new settings of the class, such as `rate = \"2 Mbit/s\"`"));
            continue;
        }
        let new: Vec<(&str, Raw)> = table
            .entries
            .iter()
            .map(|entry| (entry.key.as_str(), entry.value.clone()))
            .collect();
        match now.with_class_settings(registry, &settings.class, &new) {
            Ok(interface) => {
                let words = |(key, value): &(&str, Raw)| format!("{key} = {value}");
                let words: Vec<String> = new.iter().map(words).collect();
                changes.push(ScheduledChange {
                    at: Instant::START + at,
                    direction,
                    plan: interface.plan.clone(),
                    what: format!("{}: {}", settings.class, words.join(", ")),
                });
                amended.insert(direction, interface);
            }
            // Their places are those of the policy; here the change itself is at fault.
            Err(wrong) => problems.extend(wrong.into_iter().map(|problem| {
                let only = table.entries.first().filter(|_| table.entries.len() == 1);
                let named = table
                    .entries
                    .iter()
                    .find(|entry| problem.message.contains(&format!("`{}`", entry.key)));
                Problem {
                    at: named.or(only).map_or(section.at, |entry| entry.at),
                    ..problem
                }
            })),
        }
    }
    changes
}
