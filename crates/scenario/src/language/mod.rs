//! A scenario: TOML text → the checked hosts, links, flows, changes and expectations of a
//! simulation, or all mistakes in it.
//!
//! ```toml
//! version = 1
//! duration = "30 s"
//! [[link]]
//! between = ["server", "home"]         # links define the hosts
//! rate = "20 Mbit/s"
//! policy.server = "home-router.toml"   # for packets from server: a file for `suimon run`
//! [[flow]]
//! between = ["server", "home"]
//! kind = "constant"
//! rate = "10 Mbit/s"
//! ```
//!
//! With a section `[sweep]` a text describes many scenarios, one for each point. All are checked
//! before the first is run.

mod autorate;
mod changes;
mod expectations;
mod failures;
mod flows;
mod graphml;
mod lab_rules;
mod link_changes;
mod links;
mod media;
mod own_parts;
mod programs;
mod reservations;
mod sweep;
mod topologies;

pub(crate) use autorate::asked_host;
pub use changes::{ChangeSettings, ScheduledChange};
pub use control::expectations::{Metric, Unit};
pub use expectations::{ExpectSettings, Expectation, Subject};
pub use failures::{FailedPart, FailureSettings, PlannedFailure};
pub use flows::{EndAddress, FlowConfig, FlowSettings, Spans};
pub use lab_rules::{SIMULATED_ONLY, SimulatedKey};
pub use link_changes::LinkChangeSettings;
pub use links::{DirectionConfig, LinkSettings};
pub use media::{MediumConfig, MediumSettings};
pub use programs::{ProgramConfig, ProgramSettings};
pub(crate) use reservations::signalling_key;
pub use reservations::{ReservationConfig, ReservationSettings, SignallingConfig, SignallingSettings};
pub(crate) use sweep::SEED;
pub use sweep::Sweep;
pub use topologies::TopologySettings;

use crate::brought::OwnFailure;
use crate::folder::Files;
use control::diagnostics::{Diagnostics, Severity};
use control::documents::Document;
use control::policy::PolicyReader;
use control::sections::{self, Section};
use engine::inspect::Inspection;
use engine::packet::ClassId;
use engine::random::Seed;
use engine::settings::{Problem, Raw, Span, unknown};
use engine::tree::Registry;
use engine::units::{Bytes, Duration, Instant};
use engine::{choices, settings};
use sim::route;
use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, Ipv4Addr};

choices! {
    /// The chart that shows a scenario's purpose.
    pub enum Picture {
        /// The rate of each class, on each link with a policy.
        Bandwidth = "bandwidth",
        /// Queueing delays at those links.
        Delays = "delays",
        /// One-way delays of flows.
        FlowDelays = "flow-delays",
        /// The backlog at those links over time.
        Backlog = "backlog",
        /// The rates that flows received.
        Flows = "flows",
    }
}

settings! {
    /// The settings of a scenario as a whole.
    pub struct ScenarioSettings {
        /// The simulated time
        duration: Duration = required, "too short: the start-up phase is not over yet", "none";
        /// The seed of all random numbers: the same seed gives the same results
        seed: u32 = default "1", "", "any value works";
        /// The bin width of time series
        bin: Duration = derived "about 1/500 of the duration",
            "too small: large files, noisy curves; too large: short events are invisible", "the width of a chart";
        /// The chart that `--picture` draws: rates of classes, queueing delays at links, one-way
        /// delays of flows, backlog over time, or rates of flows
        picture: Picture = default "bandwidth", "", "rates are the purpose of classes";
    }
}

settings! {
    /// The settings of a host.
    pub struct HostSettings {
        /// Its address
        address: EndAddress = derived "10.0.0.1 and following, in the order in which links name the hosts", "", "";
    }
}

/// A host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostConfig {
    /// Its name.
    pub name: String,
    /// Its address, for filters.
    pub address: IpAddr,
}

/// A scenario that has been checked completely.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The scenario's settings.
    pub settings: ScenarioSettings,
    /// The hosts.
    pub hosts: Vec<HostConfig>,
    /// The links, each as two directions one after the other.
    pub directions: Vec<DirectionConfig>,
    /// The media that links share.
    pub media: Vec<MediumConfig>,
    /// The flows.
    pub flows: Vec<FlowConfig>,
    /// RSVP.
    pub signalling: SignallingConfig,
    /// Changes, in the order of time.
    pub changes: Vec<ScheduledChange>,
    /// Failures of links and hosts.
    pub failures: Vec<PlannedFailure>,
    /// Programs, which the lab runs.
    pub programs: Vec<ProgramConfig>,
    /// The expectations.
    pub expectations: Vec<Expectation>,
    /// The failure of what a program brought.
    pub failure: OwnFailure,
}

impl Scenario {
    /// The path from one host to another: the indices of its directions.
    pub fn path(&self, between: [usize; 2]) -> Vec<usize> {
        path(self.hosts.len(), &self.directions, between, &BTreeSet::new()).unwrap_or_default()
    }

    /// The hosts that speak RSVP on the paths that its reservations ever take.
    pub fn rsvp_hosts(&self) -> BTreeSet<usize> {
        let times = std::iter::once(Instant::START).chain(self.failure_times());
        let avoided: BTreeSet<BTreeSet<usize>> = times.map(|at| self.avoided_at(at)).collect();
        let mut on_path = BTreeSet::new();
        for reservation in &self.signalling.reservations {
            let [from, to] = self.flows[reservation.flow].between;
            on_path.extend([from, to]);
            for avoided in &avoided {
                for between in [[from, to], [to, from]] {
                    let path = self.path_around(between, avoided);
                    on_path.extend(path.into_iter().map(|index| self.directions[index].to));
                }
            }
        }
        on_path.intersection(&self.signalling.nodes).copied().collect()
    }

    /// Whether any of its flows is of TCP, or of QUIC.
    pub fn has_tcp(&self) -> bool {
        let mut flows = self.flows.iter();
        flows.any(|flow| flow.settings.kind.transport != crate::sources::Transport::Udp)
    }

    /// The bin width.
    pub fn bin(&self) -> Duration {
        self.settings
            .bin
            .unwrap_or_else(|| round(self.settings.duration.nanos() / 500))
    }
}

/// 1, 2 or 5 times a power of ten, not below `ns`.
fn round(ns: u64) -> Duration {
    let mut power = 1;
    loop {
        for step in [1, 2, 5] {
            if step * power >= ns {
                return Duration::from_nanos(step * power);
            }
        }
        power *= 10;
    }
}

const ROOT: &[&str] = &[
    "version", "hosts", "host", "link", "medium", "topology", "flow", "rsvp", "reserve", "change", "failure",
    "program", "expect", "sweep",
];

/// Where a scenario is to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Venue {
    Simulator,
    Lab,
}

/// A text of one scenario or, with a sweep, of many.
#[derive(Clone, Debug)]
pub struct Scenarios {
    path: String,
    venue: Venue,
    text: String,
    registry: Registry,
    /// The lists of the sweep.
    pub sweep: Sweep,
    /// Warnings.
    pub warnings: Diagnostics,
}

impl Scenarios {
    /// Reads and checks a text with all its points. The error has all mistakes in the first point
    /// that has any.
    ///
    /// # Errors
    ///
    /// Returns an error if the text or one of its points has a mistake.
    pub fn read(path: &str, text: &str, registry: &Registry, files: Files<'_>) -> Result<Self, Diagnostics> {
        Self::read_for(Venue::Simulator, path, text, registry, files)
    }

    /// Reads and checks a text that the lab is to run. What the lab cannot do is a mistake.
    ///
    /// # Errors
    ///
    /// Returns an error if the text has a mistake, or a part that the lab cannot do.
    pub fn read_for_lab(
        path: &str,
        text: &str,
        registry: &Registry,
        files: Files<'_>,
    ) -> Result<Self, Diagnostics> {
        Self::read_for(Venue::Lab, path, text, registry, files)
    }

    fn read_for(
        venue: Venue,
        path: &str,
        text: &str,
        registry: &Registry,
        files: Files<'_>,
    ) -> Result<Self, Diagnostics> {
        let mut all = Self {
            path: path.into(),
            venue,
            text: text.into(),
            registry: registry.clone(),
            sweep: Sweep::default(),
            warnings: Diagnostics::new(path, text),
        };
        let mut wrong = Vec::new();
        let lists = |root: Section<'_>, problems: &mut Vec<Problem>| Some(sweep::read(&root, problems));
        all.sweep = sections::parse(text, &mut wrong, lists).unwrap_or_default();
        let points = if wrong.is_empty() { all.sweep.points() } else { 1 };
        for number in 1..=points {
            let (read, warnings) = all.read_point(number, files, &mut wrong);
            if read.is_none() || !wrong.is_empty() {
                let values = all.sweep.values(number);
                let values = values.iter().map(|(name, value)| format!("{name} = {value}"));
                let place = format!(" (at point {number}: {})", values.collect::<Vec<_>>().join(", "));
                // A mistake at the first point is usually one at all points.
                if number > 1 {
                    wrong.iter_mut().for_each(|problem| problem.message += &place);
                }
                let mut diagnostics = all.warnings;
                diagnostics.fill(Severity::Mistake, wrong);
                return Err(diagnostics);
            }
            all.warnings.fill(Severity::Warning, warnings);
        }
        Ok(all)
    }

    /// One point, numbered from 1. It has been checked, so an error means that a policy file has
    /// changed since.
    ///
    /// # Errors
    ///
    /// Returns an error if the point has a mistake, as it may when a policy file has changed.
    pub fn point(&self, number: usize, files: Files<'_>) -> Result<Scenario, Diagnostics> {
        let mut wrong = Vec::new();
        match self.read_point(number, files, &mut wrong) {
            (Some(scenario), _) if wrong.is_empty() => Ok(scenario),
            _ => {
                let mut diagnostics = Diagnostics::new(&self.path, &self.text);
                diagnostics.fill(Severity::Mistake, wrong);
                Err(diagnostics)
            }
        }
    }

    fn read_point(
        &self,
        number: usize,
        files: Files<'_>,
        wrong: &mut Vec<Problem>,
    ) -> (Option<Scenario>, Vec<Problem>) {
        let mut reader = PolicyReader::new(&self.registry);
        let (mut used, made) = (HashSet::new(), Cell::new(true));
        let put = |root: &mut Vec<control::values::KeyValue<'_>>, problems: &mut Vec<Problem>| {
            used = sweep::substitute(root, &self.sweep, number, problems);
            let before = problems.len();
            topologies::expand(root, files, problems);
            made.set(problems.len() == before);
        };
        let mut unused = Vec::new();
        let read = sections::parse_amended(&self.text, wrong, put, |root, problems| {
            // Without a topology, messages about links and hosts would be consequences.
            if !made.get() {
                return None;
            }
            if self.venue == Venue::Lab {
                lab_rules::refuse_keys(&root, &mut reader.problems);
            }
            let read = scenario(&mut reader, &self.registry, files, &root);
            if let (Venue::Lab, Some(read), true) = (self.venue, &read, reader.problems.is_empty()) {
                lab_rules::refuse_values(&root, read, &mut reader.problems);
            }
            if self.venue == Venue::Simulator {
                let programs = root.sections("program", "program", &mut Vec::new());
                if let (Some(first), None) = (programs.first(), root.get("flow")) {
                    let problem =
                        Problem::new(first.at, "the simulator runs no program, and there is no flow");
                    let help = "`suimon lab` runs it; for the simulator write a section [[flow]]";
                    reader.problems.push(problem.help(help));
                }
                reader.warnings.extend(programs.iter().map(|section| {
                    let problem = Problem::new(section.at, "the simulator runs no program");
                    problem.help("`suimon lab` does; here sources take its place: a section [[flow]]")
                }));
            }
            problems.append(&mut reader.problems);
            unused = root
                .get("sweep")
                .and_then(|pair| pair.value.section())
                .map_or_else(Vec::new, |section| {
                    section
                        .iter()
                        .map(|pair| (pair.key.to_string(), pair.key_at))
                        .collect()
                });
            read
        });
        // What is wrong with a topology is wrong with each of its links.
        for all in [&mut *wrong, &mut reader.warnings] {
            let mut seen = HashSet::new();
            all.retain(|problem| seen.insert((problem.at.start(), problem.message.clone())));
        }
        let unused = unused.into_iter().filter(|(name, _)| !used.contains(name));
        reader.warnings.extend(unused.map(|(name, at)| {
            let problem = Problem::new(at, format!("nothing uses `{name}`: its points are identical"));
            problem.help(format!("write \"{{{name}}}\" where its value belongs"))
        }));
        (read, reader.warnings)
    }
}

fn scenario(
    reader: &mut PolicyReader<'_>,
    registry: &Registry,
    files: Files<'_>,
    root: &Section<'_>,
) -> Option<Scenario> {
    if let Some(other) = Document::Scenario.refuse_others(root) {
        reader.problems.push(other);
        return None;
    }
    reader.version(root);
    let settings = ScenarioSettings::read(&root.table(|_| true), ROOT, &mut reader.problems)
        .and_then(|settings| sensible(settings, root, &mut reader.problems));
    let links = root.sections("link", "link", &mut reader.problems);
    let names = names(root, &links, &mut reader.problems);
    let hosts = hosts(root, &names, &mut reader.problems);
    let changes = root.sections("change", "change", &mut reader.problems);
    let duration = settings
        .as_ref()
        .map_or(Duration::from_secs(u64::MAX / 2_000_000_000), |settings| {
            settings.duration
        });
    let (complete, mut directions) = read_links(reader, registry, files, root, &links, &names);
    link_changes::apply(
        &changes,
        complete,
        &mut directions,
        duration,
        &mut reader.problems,
    );
    let media = media::read_all(root, &mut reader.problems);
    if complete {
        autorate::refuse_unasked(&links, &directions, &hosts, &mut reader.problems);
        media::check_links(&links, &directions, &media, &mut reader.problems);
    }
    let flows = read_flows(
        reader,
        root,
        files,
        &hosts,
        &names,
        duration,
        complete.then_some(directions.as_slice()),
    );
    let complete = complete && flows.is_some();
    let flows = flows.unwrap_or_default();
    let expects = root.sections("expect", "expect", &mut reader.problems);
    let failures = root.sections("failure", "failure", &mut reader.problems);
    let signalling = match complete {
        true => read_signalling(root, &hosts, &flows, &directions, duration, &mut reader.problems),
        false => SignallingConfig::default(),
    };
    let named = Named {
        directions: &directions,
        flows: &flows,
        reservations: &signalling.reservations,
        duration,
    };
    let programs = root.sections("program", "program", &mut reader.problems);
    let programs = programs::read_all(&programs, &hosts, duration, &mut reader.problems);
    let context = failures::FailureContext {
        named: &named,
        hosts: &hosts,
        programs: &programs,
    };
    let failures = match complete {
        true => failures::read_all(&failures, &context, &mut reader.problems),
        false => Vec::new(),
    };
    let (changes, expectations) = if complete {
        let changes = changes::read_all(&changes, &named, registry, &mut reader.problems);
        let expects = expects
            .iter()
            .filter_map(|section| expectations::read(section, &named, &mut reader.problems));
        (changes, expects.collect())
    } else {
        (Vec::new(), Vec::new())
    };
    Some(Scenario {
        settings: settings?,
        hosts,
        directions,
        media,
        flows,
        signalling,
        changes,
        failures,
        programs,
        expectations,
        failure: OwnFailure::default(),
    })
}

/// Reads the reservations, of which none goes over a medium.
fn read_signalling(
    root: &Section<'_>,
    hosts: &[HostConfig],
    flows: &[FlowConfig],
    directions: &[DirectionConfig],
    duration: Duration,
    problems: &mut Vec<Problem>,
) -> SignallingConfig {
    let context = reservations::ReservationContext {
        hosts,
        flows,
        duration,
    };
    let signalling = reservations::read(root, &context, problems);
    let paths = signalling.reservations.iter().map(|reservation| {
        let between = flows[reservation.flow].between;
        path(hosts.len(), directions, between, &BTreeSet::new()).unwrap_or_default()
    });
    media::refuse_reservations(root, paths, directions, problems);
    signalling
}

/// Reads the links, and whether all could be read.
fn read_links(
    reader: &mut PolicyReader<'_>,
    registry: &Registry,
    files: Files<'_>,
    root: &Section<'_>,
    links: &[Section<'_>],
    names: &[String],
) -> (bool, Vec<DirectionConfig>) {
    if links.is_empty() {
        let problem = Problem::new(root.at, "a scenario needs at least one link");
        reader
            .problems
            .push(problem.help("write a section [[link]] with `between` and `rate`"));
    }
    let read = links
        .iter()
        .map(|section| links::read(reader, registry, files, section, names));
    let read: Vec<_> = read.collect();
    // After a mistake in a link, messages about routes and classes would be consequences.
    let complete = read.iter().all(Option::is_some);
    let directions: Vec<DirectionConfig> = read.into_iter().flatten().flatten().collect();
    refuse_parallel_links(links, &directions, complete, &mut reader.problems);
    (complete, directions)
}

fn sensible(
    settings: ScenarioSettings,
    root: &Section<'_>,
    problems: &mut Vec<Problem>,
) -> Option<ScenarioSettings> {
    let at = |key: &str| root.get(key).map_or(root.at, |pair| pair.value.at);
    let before = problems.len();
    let most = Duration::from_secs(10_000_000);
    if settings.duration == Duration::ZERO || settings.duration > most {
        problems.push(Problem::new(
            at("duration"),
            format!("`duration` must be more than 0 s and at most {most}"),
        ));
    }
    let bins = |bin: Duration| {
        settings
            .duration
            .nanos()
            .checked_div(bin.nanos())
            .unwrap_or(u64::MAX)
    };
    if settings.bin.is_some_and(|bin| bins(bin) > 10_000_000) {
        problems.push(Problem::new(
            at("bin"),
            "`bin` is too short: the scenario would have more than 10000000 bins",
        ));
    }
    (problems.len() == before).then_some(settings)
}

/// The names of the hosts: those listed in `hosts`, or those that the links name.
fn names(root: &Section<'_>, links: &[Section<'_>], problems: &mut Vec<Problem>) -> Vec<String> {
    const EXPECTED: &str = "`hosts`: expected a list of names such as [\"alice\", \"bob\"]";
    let Some(pair) = root.get("hosts") else {
        return links::hosts_of(links);
    };
    let Some(items) = pair.value.items() else {
        problems.push(pair.value.wrong(EXPECTED));
        return links::hosts_of(links);
    };
    let mut names: Vec<String> = Vec::new();
    for item in items {
        match item.raw() {
            Raw::Text(name) if names.contains(&name) => {
                problems.push(Problem::new(
                    item.at,
                    format!("a second host `{name}`: names are unique"),
                ));
            }
            Raw::Text(name) => names.push(name),
            _ => problems.push(item.wrong(EXPECTED)),
        }
    }
    names
}

/// Assigns each host its address.
fn hosts(root: &Section<'_>, names: &[String], problems: &mut Vec<Problem>) -> Vec<HostConfig> {
    let first = Ipv4Addr::new(10, 0, 0, 1).to_bits();
    let usual = |index: usize| Ipv4Addr::from_bits(first + index as u32).into();
    let hosts = names.iter().enumerate().map(|(index, name)| HostConfig {
        name: name.clone(),
        address: usual(index),
    });
    let mut hosts: Vec<HostConfig> = hosts.collect();
    let Some(section) = root.section("host", problems) else {
        return hosts;
    };
    for pair in section.iter() {
        let Some(found) = names.iter().position(|name| *name == pair.key) else {
            problems.push(unknown(
                "host",
                &pair.key,
                pair.key_at,
                names.iter().map(String::as_str),
            ));
            continue;
        };
        let Some(section) = pair.value.section() else {
            problems.push(
                pair.value
                    .wrong(&format!("expected a section [host.{}]", pair.key)),
            );
            continue;
        };
        let settings = HostSettings::read(&section.table(|_| true), &[], problems);
        if let Some(address) = settings.and_then(|settings| settings.address) {
            hosts[found].address = address.0;
        }
    }
    hosts
}

/// The two hosts of a link or a flow.
fn ends(section: &Section<'_>, hosts: &[String], problems: &mut Vec<Problem>) -> Option<[usize; 2]> {
    const EXPECTED: &str = "expected two hosts such as [\"server\", \"home\"]";
    let Some(pair) = section.get("between") else {
        problems.push(Problem::new(
            section.at,
            format!("`between` is missing: {EXPECTED}"),
        ));
        return None;
    };
    let Some(items) = pair.value.items().filter(|items| items.len() == 2) else {
        problems.push(pair.value.wrong(&format!("`between`: {EXPECTED}")));
        return None;
    };
    let mut found = [None; 2];
    for (place, item) in found.iter_mut().zip(items) {
        match item.raw() {
            Raw::Text(name) => {
                *place = hosts.iter().position(|host| *host == name);
                if place.is_none() {
                    problems.push(unknown("host", &name, item.at, hosts.iter().map(String::as_str)));
                }
            }
            _ => problems.push(item.wrong(&format!("`between`: {EXPECTED}"))),
        }
    }
    let [a, b] = [found[0]?, found[1]?];
    if a == b {
        problems.push(Problem::new(pair.value.at, "`between` names two different hosts"));
        return None;
    }
    Some([a, b])
}

/// Refuses a second link between the same hosts: links are identified by their ends.
fn refuse_parallel_links(
    sections: &[Section<'_>],
    directions: &[DirectionConfig],
    complete: bool,
    problems: &mut Vec<Problem>,
) {
    let mut seen = HashSet::new();
    for (link, section) in directions.chunks(2).zip(sections).filter(|_| complete) {
        let [from, to] = [link[0].from, link[0].to];
        if !seen.insert([from.min(to), from.max(to)]) {
            let at = section.get("between").map_or(section.at, |pair| pair.value.at);
            let message = "a second link between these hosts: no packet would take it";
            problems.push(Problem::new(at, message).help("put a host in between, or merge the two links"));
        }
    }
}

/// Reads all flows; `None` if one has a mistake.
fn read_flows(
    reader: &mut PolicyReader<'_>,
    root: &Section<'_>,
    files: Files<'_>,
    hosts: &[HostConfig],
    names: &[String],
    duration: Duration,
    directions: Option<&[DirectionConfig]>,
) -> Option<Vec<FlowConfig>> {
    let sections = root.sections("flow", "flow", &mut reader.problems);
    let programs = root.sections("program", "program", &mut Vec::new());
    if sections.is_empty() && programs.is_empty() {
        let problem = Problem::new(
            root.at,
            "a scenario needs at least one flow, or a program in the lab",
        );
        reader
            .problems
            .push(problem.help("write a section [[flow]] with `between` and `kind`"));
    }
    let mtu = |from, to| match directions {
        Some(all) => {
            let path = path(hosts.len(), all, [from, to], &BTreeSet::new())?;
            path.into_iter().map(|index| all[index].settings.mtu).min()
        }
        None => Some(Bytes::new(65_535)),
    };
    let of_nine = |flow: &FlowConfig| {
        let path = path(hosts.len(), directions?, flow.between, &BTreeSet::new())?;
        flow.source.nine()?.link(&path)
    };
    let mut flows: Vec<FlowConfig> = Vec::new();
    let mut before = 0;
    for (index, section) in sections.iter().enumerate() {
        let context = flows::ScenarioContext {
            files,
            hosts,
            names,
            duration,
            mtu: &mtu,
            before,
        };
        let Some(flow) = flows::read(section, index + 1, &context, &mut reader.problems) else {
            continue;
        };
        before += flow.connections();
        if flows.iter().any(|other| other.name == flow.name) {
            let at = section.get("name").map_or(section.at, |pair| pair.value.at);
            reader.problems.push(Problem::new(
                at,
                format!("a second flow `{}`: names are unique", flow.name),
            ));
        }
        let other = |other: &FlowConfig| {
            states_another_rate(other, &flow)
                && of_nine(other).is_some_and(|link| of_nine(&flow) == Some(link))
        };
        if flows.iter().any(other) {
            let at = section.get("bottlenet").map_or(section.at, |pair| pair.value.at);
            let message = "another `bottlenet` at the same interface: a line has one rate in a direction";
            reader.problems.push(Problem::new(at, message));
        }
        flows.push(flow);
    }
    (flows.len() == sections.len()).then_some(flows)
}

/// Whether the two state different rates of their line.
fn states_another_rate(a: &FlowConfig, b: &FlowConfig) -> bool {
    let stated = |flow: &FlowConfig| flow.source.nine().and_then(|nine| nine.bottlenet);
    stated(a).zip(stated(b)).is_some_and(|(a, b)| a != b)
}

/// The path that packets take from one host to another, without the links of these numbers.
fn path(
    hosts: usize,
    directions: &[DirectionConfig],
    between: [usize; 2],
    without: &BTreeSet<usize>,
) -> Option<Vec<usize>> {
    route::cheapest(hosts, between, |host| {
        let all = directions.iter().enumerate();
        let leave =
            all.filter(move |(index, direction)| direction.from == host && !without.contains(&(index / 2)));
        leave.map(|(index, direction)| (index, direction.to, direction.settings.cost))
    })
}

/// The parts of a scenario that changes and expectations can name.
struct Named<'a> {
    directions: &'a [DirectionConfig],
    flows: &'a [FlowConfig],
    reservations: &'a [ReservationConfig],
    duration: Duration,
}

impl Named<'_> {
    /// The directions whose policy has a class of this name.
    fn directions_with(&self, class: &str) -> Vec<usize> {
        let has = |direction: &DirectionConfig| {
            direction
                .policy
                .as_ref()
                .is_some_and(|policy| policy.plan.class(class).is_some())
        };
        let found = self
            .directions
            .iter()
            .enumerate()
            .filter(|(_, direction)| has(direction));
        found.map(|(index, _)| index).collect()
    }

    /// The direction of this name.
    fn direction(&self, name: &str, at: Span, problems: &mut Vec<Problem>) -> Option<usize> {
        let spaced = |text: &str| text.split('>').map(str::trim).collect::<Vec<_>>().join(" > ");
        let found = self
            .directions
            .iter()
            .position(|direction| direction.name == spaced(name));
        if found.is_none() {
            problems.push(unknown(
                "link",
                name,
                at,
                self.directions.iter().map(|direction| direction.name.as_str()),
            ));
        }
        found
    }

    /// The class of this name, on the link that the section names or the only link that has it.
    fn class(
        &self,
        name: &str,
        at: Span,
        section: &Section<'_>,
        problems: &mut Vec<Problem>,
    ) -> Option<(usize, ClassId)> {
        let link = section.text("link", problems);
        let direction = match link {
            Some((link, at)) => Some(self.direction(link, at, problems)?),
            None => None,
        };
        let found = self.directions_with(name);
        let chosen = match (direction, found.as_slice()) {
            (Some(direction), _) => direction,
            (None, [only]) => *only,
            (None, []) => usize::MAX,
            (None, several) => {
                let names: Vec<&str> = several
                    .iter()
                    .map(|&index| self.directions[index].name.as_str())
                    .collect();
                let message = format!("several links have a class `{name}`: {}", names.join(", "));
                problems
                    .push(Problem::new(at, message).help(format!("choose one: `link = \"{}\"`", names[0])));
                return None;
            }
        };
        let plan = |index: usize| {
            self.directions
                .get(index)?
                .policy
                .as_ref()
                .map(|policy| &policy.plan)
        };
        if let Some(class) = plan(chosen).and_then(|plan| plan.class(name)) {
            return Some((chosen, class));
        }
        let known =
            (0..self.directions.len()).filter(|&index| direction.is_none_or(|wanted| wanted == index));
        let known: Vec<&str> = known
            .filter_map(plan)
            .flat_map(|plan| plan.classes.iter())
            .map(|class| class.name.as_str())
            .collect();
        let mut problem = unknown("class", name, at, known.iter().copied());
        if known.is_empty() {
            problem =
                problem.help("there is no policy with classes: set `policy.HOST = \"FILE\"` in the link");
        }
        problems.push(problem);
        None
    }

    /// Whether the discipline of a class lends.
    fn lends(&self, direction: usize, class: ClassId) -> bool {
        let Some(policy) = &self.directions[direction].policy else {
            return false;
        };
        let mut views = Vec::new();
        policy
            .plan
            .build(Seed(0))
            .inspect(&mut Inspection::new(&mut views));
        let view = views.iter().find(|view| view.class == Some(class));
        view.is_some_and(|view| view.gauges.iter().any(|(name, _)| *name == "borrowed"))
    }
}

#[cfg(test)]
mod tests;
