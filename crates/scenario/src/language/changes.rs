//! Changes of class settings during a scenario, as with `suimon set`; those of links:
//! `link_changes`.

use super::{Named, link_changes};
use control::policy::InterfacePolicy;
use control::sections::Section;
use engine::settings;
use engine::settings::{Problem, Raw};
use engine::tree::Registry;
use engine::units::{Duration, Instant};
use std::collections::HashMap;

settings! {
    /// The settings of a change, besides the new settings of the class.
    pub struct ChangeSettings {
        /// The time of the change
        at: Duration = required, "", "";
        /// The class
        class: String = required, "", "";
        /// The link, such as "server > home", if several have a class of this name
        link: String = derived "the only one with such a class", "", "";
    }
}

/// A checked change.
#[derive(Clone, Debug)]
pub struct ScheduledChange {
    /// Its time.
    pub at: Instant,
    /// The index of the direction whose policy it changes.
    pub direction: usize,
    /// The class.
    pub class: String,
    /// The whole policy after the change.
    pub policy: InterfacePolicy,
    /// Its description.
    pub what: String,
}

/// Reads all changes in the order of time; each is applied to the result of the previous ones.
pub(super) fn read_all(
    sections: &[Section<'_>],
    named: &Named<'_>,
    registry: &Registry,
    problems: &mut Vec<Problem>,
) -> Vec<ScheduledChange> {
    let mut read: Vec<(Duration, &Section<'_>, ChangeSettings)> = Vec::new();
    let generic = |key: &str| ChangeSettings::SETTINGS.iter().any(|setting| setting.name == key);
    for section in sections
        .iter()
        .filter(|section| !link_changes::is_of_link(section))
    {
        let Some(settings) = ChangeSettings::read(&section.table(generic), &[], problems) else {
            continue;
        };
        if settings.at >= named.duration {
            let at = section.get("at").map_or(section.at, |pair| pair.value.at);
            let message = format!(
                "this change never happens: the scenario ends at {}",
                named.duration
            );
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
        let Some(current) = amended
            .get(&direction)
            .or(named.directions[direction].policy.as_ref())
        else {
            continue;
        };
        // Its tree is laid out anew for every reservation, from the policy as it was read.
        if current.reserve.is_some() && !named.reservations.is_empty() {
            let message = "its interface has `reserve`, and something is reserved: its classes cannot change";
            problems.push(Problem::new(place, message));
            continue;
        }
        let table = section.table(|key| !generic(key));
        if table.entries.is_empty() {
            let problem = Problem::new(section.at, "this changes nothing");
            problems.push(problem.help("write the new settings of the class, such as `rate = \"2 Mbit/s\"`"));
            continue;
        }
        let new: Vec<(&str, Raw)> = table
            .entries
            .iter()
            .map(|entry| (&*entry.key, entry.value.clone()))
            .collect();
        match current.with_class_settings(registry, &settings.class, &new) {
            Ok(interface) => {
                let words = |(key, value): &(&str, Raw)| format!("{key} = {value}");
                let words: Vec<String> = new.iter().map(words).collect();
                changes.push(ScheduledChange {
                    at: Instant::START + at,
                    direction,
                    class: settings.class.clone(),
                    policy: interface.clone(),
                    what: format!("{}: {}", settings.class, words.join(", ")),
                });
                amended.insert(direction, interface);
            }
            // The positions are those of the policy, but the mistake is in the change.
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
