//! Failures during a scenario: of a link, whose cable is cut and joined again; of a host that
//! restarts. And how routes follow.
//!
//! What is on a cut cable or goes onto it is lost, in both directions; the interfaces at its ends
//! stay up, as with a switch in between. A host that restarts is cut off meanwhile, and has lost
//! what it kept in memory: queues, RSVP's state, the connections that it clamps. Routes stay, or
//! follow after a while, as a routing protocol would have it.

use super::{HostConfig, Named, ProgramConfig, Scenario, path};
use control::sections::Section;
use engine::settings;
use engine::settings::{Problem, Span, unknown};
use engine::units::{Bytes, Duration, Instant};
use std::collections::BTreeSet;

settings! {
    /// The settings of a failure: of a link or of a host.
    pub struct FailureSettings {
        /// The link, such as "left > right", whose cable is cut, in both directions
        link: String = derived "a host fails", "", "";
        /// The host that restarts: it has no power meanwhile, and comes back with what its files
        /// say
        host: String = derived "a link fails", "", "";
        /// When it fails
        from: Duration = required, "", "";
        /// When it works again
        to: Duration = derived "not before the end of the scenario", "", "";
        /// How long after its beginning, and after its end, routes follow
        reroute: Duration = derived "routes stay",
            "too short: no routing protocol is so fast; too long: what is sent meanwhile is lost",
            "RFC 2328, appendix C.3: OSPF notices a dead neighbour after 40 s; BFD within a second";
    }
}

/// What fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailedPart {
    /// A link, by its number: that of its directions, halved.
    Link(usize),
    /// A host, by its number.
    Host(usize),
}

/// A checked failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlannedFailure {
    /// What fails.
    pub part: FailedPart,
    /// When it fails.
    pub from: Instant,
    /// When it works again.
    pub to: Instant,
    /// When routes begin to avoid it, and when they do so no longer.
    pub avoided: Option<[Instant; 2]>,
}

impl PlannedFailure {
    /// The links that carry nothing meanwhile, by number.
    fn links(&self, scenario: &Scenario) -> BTreeSet<usize> {
        match self.part {
            FailedPart::Link(link) => BTreeSet::from([link]),
            FailedPart::Host(host) => links_of(host, &scenario.directions),
        }
    }
}

fn links_of(host: usize, directions: &[super::DirectionConfig]) -> BTreeSet<usize> {
    let numbered = directions.iter().enumerate();
    let own = numbered.filter(|(_, direction)| direction.from == host);
    own.map(|(index, _)| index / 2).collect()
}

impl Scenario {
    /// The numbers of the links that carry nothing at an instant.
    pub fn cut_at(&self, now: Instant) -> BTreeSet<usize> {
        let failures = self.failures.iter();
        let failed = failures.filter(|failure| (failure.from..failure.to).contains(&now));
        failed.flat_map(|failure| failure.links(self)).collect()
    }

    /// The numbers of the links that routes avoid at an instant.
    pub fn avoided_at(&self, now: Instant) -> BTreeSet<usize> {
        let is_avoided = |failure: &&PlannedFailure| {
            let span = failure.avoided.map(|[from, to]| from..to);
            span.is_some_and(|span| span.contains(&now))
        };
        let failures = self.failures.iter().filter(is_avoided);
        failures.flat_map(|failure| failure.links(self)).collect()
    }

    /// The hosts that lose their state at an instant: when they fail, and when they begin anew.
    pub fn restarted_at(&self, now: Instant) -> BTreeSet<usize> {
        let failures = self.failures.iter();
        let now = failures.filter(|failure| failure.from == now || failure.to == now);
        now.filter_map(|failure| match failure.part {
            FailedPart::Host(host) => Some(host),
            FailedPart::Link(_) => None,
        })
        .collect()
    }

    /// The instants at which something fails, works again, or is avoided, in order.
    pub fn failure_times(&self) -> BTreeSet<Instant> {
        let failures = self.failures.iter();
        let times = failures.flat_map(|failure| {
            [failure.from, failure.to]
                .into_iter()
                .chain(failure.avoided.into_iter().flatten())
        });
        times.collect()
    }

    /// Whether nodes may lose a reservation while its sender does not know it yet.
    pub fn loses_state(&self) -> bool {
        let mut failures = self.failures.iter();
        failures.any(|failure| failure.avoided.is_some() || matches!(failure.part, FailedPart::Host(_)))
    }

    /// The path from one host to another while routes avoid these links; where there is no other
    /// way, they are taken all the same.
    pub fn path_around(&self, between: [usize; 2], avoided: &BTreeSet<usize>) -> Vec<usize> {
        let around = path(self.hosts.len(), &self.directions, between, avoided);
        around.unwrap_or_else(|| self.path(between))
    }
}

/// What failures refer to.
pub(super) struct FailureContext<'a> {
    pub(super) named: &'a Named<'a>,
    pub(super) hosts: &'a [HostConfig],
    pub(super) programs: &'a [ProgramConfig],
}

/// Reads all failures.
pub(super) fn read_all(
    sections: &[Section<'_>],
    context: &FailureContext<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<PlannedFailure> {
    let read = sections.iter().map(|section| read(section, context, problems));
    read.collect::<Vec<_>>().into_iter().flatten().collect()
}

fn read(
    section: &Section<'_>,
    context: &FailureContext<'_>,
    problems: &mut Vec<Problem>,
) -> Option<PlannedFailure> {
    let settings = FailureSettings::read(&section.table(|_| true), &[], problems)?;
    let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.value.at);
    let duration = context.named.duration;
    let (from, to) = (settings.from, settings.to.unwrap_or(duration));
    if from >= to || from >= duration {
        let message =
            format!("this never fails: it would from {from} to {to}, and the scenario ends at {duration}");
        problems.push(Problem::new(at("from"), message));
    }
    let part = match (&settings.link, &settings.host) {
        (Some(link), None) => FailedPart::Link(context.named.direction(link, at("link"), problems)? / 2),
        (None, Some(host)) => FailedPart::Host(context.router(host, at("host"), problems)?),
        _ => {
            let problem = Problem::new(section.at, "a failure is of a `link`, or of a `host`");
            problems.push(problem.help("write one of them: `link = \"left > right\"` or `host = \"left\"`"));
            return None;
        }
    };
    let failure = PlannedFailure {
        part,
        from: Instant::START + from,
        to: Instant::START + to,
        avoided: settings
            .reroute
            .map(|after| [from, to].map(|at| Instant::START + at + after)),
    };
    if let Some(after) = settings.reroute {
        context.check_routes(&failure, after, at("reroute"), problems);
    }
    Some(failure)
}

impl FailureContext<'_> {
    /// A host that can restart: nothing begins or ends there.
    fn router(&self, name: &str, at: Span, problems: &mut Vec<Problem>) -> Option<usize> {
        let Some(host) = self.hosts.iter().position(|host| host.name == name) else {
            let names = self.hosts.iter().map(|host| host.name.as_str());
            problems.push(unknown("host", name, at, names));
            return None;
        };
        let flow = self.named.flows.iter().find(|flow| flow.between.contains(&host));
        let flow = flow.map(|flow| format!("flow `{}` begins or ends there", flow.name));
        let program = self.programs.iter().find(|program| program.host == host);
        let program = program.map(|program| format!("program `{}` runs there", program.name));
        if let Some(why) = flow.or(program) {
            let message = format!("`{name}` cannot restart: {why}");
            let help = "let a host between restart, or cut a link: `link = \"left > right\"`";
            problems.push(Problem::new(at, message).help(help));
        }
        Some(host)
    }

    /// Reports routes that do not follow, or that a flow's packets do not fit.
    fn check_routes(&self, failure: &PlannedFailure, after: Duration, at: Span, problems: &mut Vec<Problem>) {
        if after >= failure.to.since(failure.from) {
            let message = "routes would not follow before it works again";
            problems.push(Problem::new(at, message).help("make `reroute` shorter than the failure"));
            return;
        }
        let directions = self.named.directions;
        let links = match failure.part {
            FailedPart::Link(link) => BTreeSet::from([link]),
            FailedPart::Host(host) => links_of(host, directions),
        };
        let mut moved = false;
        for flow in self.named.flows {
            let around = path(self.hosts.len(), directions, flow.between, &links);
            let usual = path(self.hosts.len(), directions, flow.between, &BTreeSet::new());
            let Some(around) = around.filter(|around| Some(around) != usual.as_ref()) else {
                continue;
            };
            moved = true;
            let by_another = flow.source.nine().is_some_and(|nine| {
                nine.link(&around) != usual.as_deref().and_then(|usual| nine.link(usual))
            });
            if by_another {
                let message = format!(
                    "flow `{}` would take another interface than that of its nine",
                    flow.name
                );
                let help = "let the host next to that of its nine have both ways";
                problems.push(Problem::new(at, message).help(help));
            }
            let narrow = around
                .iter()
                .find(|&&index| directions[index].settings.mtu < flow.mtu);
            if let Some(&index) = narrow {
                let (name, mtu): (&str, Bytes) = (&directions[index].name, directions[index].settings.mtu);
                let message = format!(
                    "flow `{}` would take the link {name}, whose `mtu` is only {mtu}",
                    flow.name
                );
                problems.push(Problem::new(at, message).help("give all links of both ways the same `mtu`"));
            }
        }
        if !moved {
            let problem = Problem::new(at, "no flow has another way: routes would stay");
            problems.push(problem.help("leave out `reroute`, or add links for another way"));
        }
    }
}
