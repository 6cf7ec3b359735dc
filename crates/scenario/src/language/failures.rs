//! Failures of links during a scenario: the cable is cut, and joined again. What is on the wire or
//! goes onto it meanwhile is lost, in both directions; the interfaces at its ends stay up, as with
//! a switch in between, and routes stay.

use super::Named;
use control::sections::Section;
use engine::settings;
use engine::settings::Problem;
use engine::units::{Duration, Instant};

settings! {
    /// The settings of a failure.
    pub struct FailureSettings {
        /// The link, such as "left > right"; both of its directions fail
        link: String = required, "", "";
        /// When it fails
        from: Duration = required, "", "";
        /// When it works again
        to: Duration = derived "not before the end of the scenario", "", "";
    }
}

/// A checked failure of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkFailure {
    /// The number of the link: that of its directions, halved.
    pub link: usize,
    /// When it fails.
    pub from: Instant,
    /// When it works again.
    pub to: Instant,
}

/// Reads all failures.
pub(super) fn read_all(
    sections: &[Section<'_>],
    named: &Named<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<LinkFailure> {
    let mut failures = Vec::new();
    for section in sections {
        let Some(settings) = FailureSettings::read(&section.table(|_| true), &[], problems) else {
            continue;
        };
        let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.value.at);
        let to = settings.to.unwrap_or(named.duration);
        if settings.from >= to || settings.from >= named.duration {
            let message = format!(
                "this never fails: it would from {} to {to}, and the scenario ends at {}",
                settings.from, named.duration
            );
            problems.push(Problem::new(at("from"), message));
        }
        let Some(direction) = named.direction(&settings.link, at("link"), problems) else {
            continue;
        };
        failures.push(LinkFailure {
            link: direction / 2,
            from: Instant::START + settings.from,
            to: Instant::START + to,
        });
    }
    failures
}
