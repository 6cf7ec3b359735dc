//! Changes of a link during a scenario: its rate, its delay, or what befalls packets on it, from a
//! time on.

use super::{DirectionConfig, Named};
use control::sections::Section;
use engine::settings;
use engine::settings::Problem;
use engine::units::{Bandwidth, Duration};
use measure::impairments::{ChosenPackets, ImpairmentSchedule, Impairments, Jitter, Loss, Reordering};
use measure::link_trace::{LinkStep, LinkTrace};

settings! {
    /// The settings of a change of a link.
    pub struct LinkChangeSettings {
        /// The time of the change
        at: Duration = required, "", "";
        /// The direction of a link, such as "server > home"
        link: String = required, "", "";
        /// Its rate from then on
        rate: Bandwidth = derived "as before", "", "";
        /// Its propagation delay from then on; a packet overtakes none that was sent before
        delay: Duration = derived "as before", "", "";
        /// Its loss from then on; packets keep their numbers
        loss: Loss = derived "as before", "", "";
        /// The packets of which a bit is flipped from then on
        corrupt: ChosenPackets = derived "as before", "", "";
        /// The packets that arrive twice from then on
        duplicate: ChosenPackets = derived "as before", "", "";
        /// What is added to its delay from then on
        jitter: Jitter = derived "as before", "", "";
        /// The packets that others overtake from then on
        reorder: Reordering = derived "as before", "", "";
    }
}

impl LinkChangeSettings {
    /// Whether it changes what the wire is.
    fn of_wire(&self) -> bool {
        self.rate.is_some() || self.delay.is_some()
    }

    /// What befalls packets after it; none if it does not change that.
    fn after(&self, before: &Impairments) -> Option<Impairments> {
        let after = Impairments {
            loss: self.loss.unwrap_or(before.loss),
            corruption: self.corrupt.unwrap_or(before.corruption),
            duplication: self.duplicate.unwrap_or(before.duplication),
            jitter: self.jitter.unwrap_or(before.jitter),
            reordering: self.reorder.unwrap_or(before.reordering),
            script: before.script.clone(),
        };
        let Self {
            loss,
            corrupt,
            duplicate,
            jitter,
            reorder,
            ..
        } = self;
        let chosen = [corrupt, duplicate].into_iter().any(Option::is_some);
        (chosen || loss.is_some() || jitter.is_some() || reorder.is_some()).then_some(after)
    }
}

/// Whether a section `[[change]]` changes a link, not a class.
pub(super) fn is_of_link(section: &Section<'_>) -> bool {
    section.get("class").is_none() && section.get("link").is_some()
}

/// Puts the changes of links into their directions, each as what the link is over time; not where
/// a link is missing, after a mistake in it.
pub(super) fn apply(
    sections: &[Section<'_>],
    complete: bool,
    directions: &mut [DirectionConfig],
    duration: Duration,
    problems: &mut Vec<Problem>,
) {
    let mut read: Vec<(usize, LinkChangeSettings)> = Vec::new();
    for section in sections.iter().filter(|section| complete && is_of_link(section)) {
        let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.value.at);
        let Some(change) = LinkChangeSettings::read(&section.table(|_| true), &[], problems) else {
            continue;
        };
        let named = Named {
            directions,
            flows: &[],
            reservations: &[],
            duration,
        };
        let Some(direction) = named.direction(&change.link, at("link"), problems) else {
            continue;
        };
        if let Some((key, message)) = refused(&change, &directions[direction], duration) {
            problems.push(Problem::new(at(key), message));
            continue;
        }
        read.push((direction, change));
    }
    // Changes at one time are made in the order of the file.
    read.sort_by_key(|(_, change)| change.at);
    for (index, direction) in directions.iter_mut().enumerate() {
        let own = read
            .iter()
            .filter(|(of, _)| *of == index)
            .map(|(_, change)| change);
        let own: Vec<&LinkChangeSettings> = own.collect();
        let steps = steps(direction, &own);
        if !steps.is_empty() {
            direction.trace = Some(LinkTrace::scheduled(steps));
        }
        let mut before = direction.settings.impairments();
        let later = own.iter().filter_map(|change| {
            before = change.after(&before)?;
            Some((change.at, before.clone()))
        });
        direction.later = ImpairmentSchedule::new(later.collect());
    }
}

/// What a link is over time by these changes, in the order of time; nothing if they change
/// neither its rate nor its delay.
fn steps(direction: &DirectionConfig, changes: &[&LinkChangeSettings]) -> Vec<LinkStep> {
    let mut steps: Vec<LinkStep> = Vec::new();
    for change in changes.iter().filter(|change| change.of_wire()) {
        let begin = LinkStep {
            at: Duration::ZERO,
            rate: direction.settings.rate,
            delay: None,
            loss: None,
        };
        let before = *steps.last().unwrap_or(&begin);
        if steps.is_empty() && change.at > Duration::ZERO {
            steps.push(begin);
        }
        steps.retain(|step| step.at < change.at);
        steps.push(LinkStep {
            at: change.at,
            rate: change.rate.unwrap_or(before.rate),
            delay: change.delay.or(before.delay),
            loss: None,
        });
    }
    steps
}

/// What is wrong with a change, and in which key.
fn refused(
    change: &LinkChangeSettings,
    direction: &DirectionConfig,
    duration: Duration,
) -> Option<(&'static str, String)> {
    if change.at >= duration {
        let message = format!("this change never happens: the scenario ends at {duration}");
        return Some(("at", message));
    }
    let changes_impairments = change.after(&Impairments::default()).is_some();
    if !change.of_wire() && !changes_impairments {
        let message = "this changes nothing: write a `rate`, a `delay`, a `loss` or another setting of the wire, or the \
                       `class` that is meant";
        return Some(("link", message.into()));
    }
    if direction.trace.is_some() && change.of_wire() {
        let message =
            "this link has a `trace`, which says what it is over time: put the change into the file";
        return Some(("link", message.into()));
    }
    let loses_by_trace = direction.trace.as_ref().is_some_and(LinkTrace::has_loss);
    if loses_by_trace && change.loss.is_some() {
        let message = "the `trace` of this link has its loss over time: put the change into the file";
        return Some(("loss", message.into()));
    }
    if direction.settings.gap_frames && change.of_wire() {
        let message = "this link has `gap_frames`, which need a wire of one rate";
        return Some(("link", message.into()));
    }
    if change
        .rate
        .is_some_and(|rate| !super::links::RATES.contains(&rate))
    {
        let message = "`rate` must be from 8 kbit/s to 800 Gbit/s; a [[failure]] cuts a link";
        return Some(("rate", message.into()));
    }
    let long = change.delay.filter(|delay| *delay > super::links::LONGEST_DELAY);
    long.map(|_| {
        (
            "delay",
            format!("`delay` must be at most {}", super::links::LONGEST_DELAY),
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::Scenarios;
    use crate::folder::Folder;
    use engine::settings::{Raw, SettingValue};
    use engine::tree::Registry;
    use engine::units::{Duration, Instant};
    use measure::impairments::{ChosenPackets, ImpairmentSchedule, Impairments, Jitter, Loss, Reordering};

    fn read(changes: &str) -> Result<crate::Scenario, String> {
        let text = format!(
            "version = 1\nduration = \"10 s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"8 Mbit/s\"\n\
             [[flow]]\nbetween = [\"a\", \"b\"]\nkind = \"tcp\"\n{changes}"
        );
        let (registry, folder) = (Registry::builtin(), Folder::of(""));
        let read = Scenarios::read("s.toml", &text, &registry, &folder);
        let scenario = read.and_then(|all| all.point(1, &folder));
        scenario.map_err(|diagnostics| diagnostics.to_string())
    }

    fn change(rest: &str) -> String {
        format!("[[change]]\nlink = \"a > b\"\n{rest}\n")
    }

    #[test]
    fn changes_of_a_link_are_in_the_order_of_time_and_keep_what_they_do_not_name() {
        let text = [
            change("at = \"6 s\"\ndelay = \"5 ms\""),
            change("at = \"2 s\"\nrate = \"4 Mbit/s\""),
            change("at = \"8 s\"\nrate = \"16 Mbit/s\""),
        ];
        let scenario = read(&text.concat()).expect("a scenario");
        let capacity = |from, to| {
            let at = |s| Instant::START + Duration::from_secs(s);
            scenario.directions[0].capacity(at(from), at(to)).get()
        };
        assert_eq!(
            [capacity(0, 2), capacity(2, 7), capacity(7, 10)],
            [2_000_000, 2_500_000, 4_500_000]
        );
        assert!(scenario.changes.is_empty() && scenario.directions[1].trace.is_none());
    }

    #[test]
    fn a_change_of_a_link_that_cannot_be_is_refused_with_its_place() {
        for (text, place, why) in [
            (
                change("at = \"12 s\"\nrate = \"1 Mbit/s\""),
                ":11:6",
                "never happens",
            ),
            (change("at = \"2 s\""), ":10:8", "changes nothing"),
            (
                change("at = \"2 s\"\nrate = \"1 bit/s\""),
                ":12:8",
                "a [[failure]] cuts a link",
            ),
            (change("at = \"2 s\"\ndelay = \"2 h\""), ":12:9", "at most 3600 s"),
            (change("at = \"2 s\"\nmtu = \"2 kB\""), ":12:1", "unknown"),
            (
                change("at = \"2 s\"\njitter = \"normal 2 ms\""),
                ":12:10",
                "normal 10 ms, deviation 2 ms",
            ),
            (change("at = \"2 s\"\nscript = \"drop 7\""), ":12:1", "unknown"),
            (
                "[[change]]\nat = \"1 s\"\nlink = \"a > c\"\n".into(),
                ":11:8",
                "unknown link",
            ),
        ] {
            let report = read(&text).expect_err(&text);
            assert!(report.contains(place) && report.contains(why), "{text}\n{report}");
        }
    }

    #[test]
    fn impairments_change_each_by_itself_and_also_on_a_link_with_a_trace_of_rates() {
        let text = [
            change("at = \"6 s\"\nduplicate = \"2 %\"\ncorrupt = \"every 9\""),
            change("at = \"2 s\"\nloss = \"1 %\"\njitter = \"exponential 2 ms, unordered\""),
            change("at = \"4 s\"\nrate = \"4 Mbit/s\""),
            change("at = \"8 s\"\nreorder = \"3 % by 2 ms\"\nloss = \"nothing\""),
        ];
        let scenario = read(&text.concat()).expect("a scenario");
        let way = &scenario.directions[0];
        let value = |text: &str| Raw::Text(text.into());
        let loss = |text| Loss::from_raw(&value(text)).expect(text);
        let jitter = Jitter::from_raw(&value("exponential 2 ms, unordered")).expect("jitter");
        let first = Impairments {
            loss: loss("1 %"),
            jitter,
            ..Impairments::default()
        };
        let second = Impairments {
            duplication: ChosenPackets(loss("2 %")),
            corruption: ChosenPackets(loss("every 9")),
            ..first.clone()
        };
        let third = Impairments {
            loss: Loss::None,
            reordering: Reordering::from_raw(&value("3 % by 2 ms")).expect("reordering"),
            ..second.clone()
        };
        let at = Duration::from_secs;
        let expected = vec![(at(2), first), (at(6), second), (at(8), third)];
        assert_eq!(way.later, ImpairmentSchedule::new(expected));
        assert!(way.trace.as_ref().is_some_and(|trace| !trace.has_loss()));
        assert!(scenario.directions[1].later.is_empty());
    }
}
