//! A topology: TOML text → the checked hosts and links of a lab, or all mistakes in it.
//!
//! ```toml
//! version = 1
//! hosts = ["alice", "router", "bob"]
//! [[link]]
//! between = ["alice", "router"]    # no rate: a plain veth pair
//! [[link]]
//! between = ["router", "bob"]
//! rate = "20 Mbit/s"
//! delay = "10 ms"
//! buffer = "100 kB"
//! back = { rate = "2 Mbit/s" }     # what differs from bob to router
//! [link.policy.router]             # for packets from router: as [interface.…] of a policy
//! bandwidth = "20 Mbit/s"
//! discipline = "fifo"
//! ```
//!
//! The lab assigns addresses, interface names and routes, and shows them.

use crate::folder::Files;
use crate::language::{DirectionConfig, Scenario};
use crate::{link_policies, link_traces};
use control::diagnostics::{Diagnostics, Severity};
use control::documents::Document;
use control::policy::{InterfacePolicy, PolicyReader};
use control::sections::{self, Section};
use engine::settings;
use engine::settings::{Problem, Raw, Span, Table, unknown};
use engine::tree::Registry;
use engine::units::{Bandwidth, Bytes, Duration};
use measure::impairments::{
    ChosenPackets, ImpairmentSchedule, ImpairmentScript, Impairments, Jitter, Loss, Reordering,
};
use measure::link_trace::LinkTrace;

settings! {
    /// The settings of a link in both directions; `back` overrides those of the reverse direction.
    pub struct LabLinkSettings {
        /// The rate of the link
        rate: Bandwidth = derived "no limit: a plain veth pair",
            "the conditions to be tested", "none";
        /// Its rate over time, and perhaps its delay and loss, in place of `rate`: a file, CSV or a
        /// packet-delivery trace of Mahimahi, or a model such as `model train, seed 7, at 20 %`
        trace: String = derived "one rate",
            "the conditions to be tested", "none";
        /// The propagation delay, in each direction
        delay: Duration = default "0 s",
            "the conditions to be tested", "none";
        /// The buffer of the link in bytes, besides the frame that is being sent
        buffer: Bytes = derived "100 ms at the rate",
            "too small: bursts are dropped and the link idles; too large: needless queueing delay",
            "common in routers";
        /// The loss model of the wire
        loss: Loss = default "nothing",
            "the conditions to be tested", "none";
        /// The packets of which a bit is flipped on the wire; who receives them drops them
        corrupt: ChosenPackets = default "nothing",
            "the conditions to be tested", "none";
        /// The packets that arrive twice
        duplicate: ChosenPackets = default "nothing",
            "the conditions to be tested", "none";
        /// What is added to `delay`, at random
        jitter: Jitter = default "0 s",
            "the conditions to be tested", "none";
        /// The packets that others overtake: which, and by how much later they come
        reorder: Reordering = default "nothing",
            "the conditions to be tested", "none";
        /// What befalls single packets, by their numbers, besides
        script: ImpairmentScript = default "nothing",
            "the conditions to be tested", "none";
    }
}

impl LabLinkSettings {
    /// What befalls packets on the wire.
    pub fn impairments(&self) -> Impairments {
        Impairments {
            loss: self.loss,
            corruption: self.corrupt,
            duplication: self.duplicate,
            reordering: self.reorder,
            jitter: self.jitter,
            script: self.script.clone(),
        }
    }
}

/// A link between two hosts.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// The two hosts, by index.
    pub between: [usize; 2],
    /// The settings of the direction from each of the two hosts. Without a rate it is a plain veth
    /// pair.
    pub settings: [LabLinkSettings; 2],
    /// What each direction is over time, if it varies.
    pub traces: [Option<LinkTrace>; 2],
    /// What befalls packets later in each direction.
    pub later: [ImpairmentSchedule; 2],
    /// The policies of the packets that leave each of the two hosts by this link.
    pub policies: [Option<InterfacePolicy>; 2],
}

/// A topology that has been checked completely.
#[derive(Clone, Debug)]
pub struct Topology {
    /// The names of the hosts.
    pub hosts: Vec<String>,
    /// The links.
    pub links: Vec<LinkConfig>,
    /// Warnings.
    pub warnings: Diagnostics,
}

const ROOT: &[&str] = &["version", "hosts", "link"];
const OF_LINK: &[&str] = &["between", "policy", "back"];
/// What only a link with a rate has.
const EMULATED_ONLY: [&str; 10] = [
    "delay",
    "buffer",
    "loss",
    "corrupt",
    "duplicate",
    "jitter",
    "reorder",
    "script",
    "policy",
    "back",
];
/// The maximum number of hosts, and of links, on one machine.
const MOST: usize = 250;

impl Topology {
    /// Reads and checks a topology. The error has all mistakes in it.
    ///
    /// # Errors
    ///
    /// Returns an error if the text has a mistake.
    pub fn read(path: &str, text: &str, registry: &Registry, files: Files<'_>) -> Result<Self, Diagnostics> {
        let mut reader = PolicyReader::new(registry);
        let mut syntax = Vec::new();
        let read = sections::parse(text, &mut syntax, |root, problems| {
            let read = topology(&mut reader, registry, files, &root);
            problems.append(&mut reader.problems);
            Some(read)
        });
        let mut diagnostics = Diagnostics::new(path, text);
        diagnostics.fill(Severity::Mistake, syntax);
        diagnostics.fill(Severity::Warning, reader.warnings);
        match read {
            Some((hosts, links)) if diagnostics.mistakes() == 0 => Ok(Self {
                hosts,
                links,
                warnings: diagnostics,
            }),
            _ => Err(diagnostics),
        }
    }
}

impl Topology {
    /// Whether this link is emulated: its rate is stated in both directions.
    pub fn is_emulated(&self, link: &LinkConfig) -> bool {
        link.settings.iter().all(|settings| settings.rate.is_some())
    }

    /// The hosts and links of a scenario that was read for the lab.
    pub fn of(scenario: &Scenario) -> Self {
        let settings = |way: &DirectionConfig| LabLinkSettings {
            rate: Some(way.settings.rate),
            trace: way.settings.trace.clone(),
            delay: way.settings.delay,
            buffer: Some(way.buffer()),
            loss: way.settings.loss,
            corrupt: way.settings.corrupt,
            duplicate: way.settings.duplicate,
            jitter: way.settings.jitter,
            reorder: way.settings.reorder,
            script: way.settings.script.clone(),
        };
        let links = scenario.directions.chunks_exact(2).map(|ways| LinkConfig {
            between: [ways[0].from, ways[0].to],
            settings: [settings(&ways[0]), settings(&ways[1])],
            traces: [ways[0].trace.clone(), ways[1].trace.clone()],
            later: [ways[0].later.clone(), ways[1].later.clone()],
            policies: [ways[0].policy.clone(), ways[1].policy.clone()],
        });
        Self {
            hosts: scenario.hosts.iter().map(|host| host.name.clone()).collect(),
            links: links.collect(),
            warnings: Diagnostics::new("", ""),
        }
    }
}

fn topology(
    reader: &mut PolicyReader<'_>,
    registry: &Registry,
    files: Files<'_>,
    root: &Section<'_>,
) -> (Vec<String>, Vec<LinkConfig>) {
    if let Some(other) = Document::Topology.refuse_others(root) {
        reader.problems.push(other);
        return (Vec::new(), Vec::new());
    }
    for pair in root.iter().filter(|pair| !ROOT.contains(&&*pair.key)) {
        let problem = unknown("setting", &pair.key, pair.key_at, ROOT.iter().copied());
        reader.problems.push(problem);
    }
    reader.version(root);
    let hosts = hosts(root, &mut reader.problems);
    let sections = root.sections("link", "link", &mut reader.problems);
    if sections.len() > MOST {
        let message = format!("a lab has at most {MOST} links");
        reader.problems.push(Problem::new(sections[MOST].at, message));
    }
    let links = sections
        .iter()
        .take(MOST)
        .filter_map(|section| link(reader, registry, files, section, &hosts));
    let links = links.collect();
    (hosts, links)
}

fn hosts(root: &Section<'_>, problems: &mut Vec<Problem>) -> Vec<String> {
    const EXPECTED: &str = "expected a list of names such as [\"alice\", \"bob\"]";
    let Some(pair) = root.get("hosts") else {
        let problem = Problem::new(root.at, "`hosts` is missing");
        problems.push(problem.help("write `hosts = [\"alice\", \"bob\"]`"));
        return Vec::new();
    };
    let items = pair.value.items().unwrap_or_else(|| {
        problems.push(pair.value.wrong(&format!("`hosts`: {EXPECTED}")));
        &[]
    });
    let mut names: Vec<String> = Vec::new();
    for item in items {
        let Raw::Text(name) = item.raw() else {
            problems.push(item.wrong(&format!("`hosts`: {EXPECTED}")));
            continue;
        };
        let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 15 || !name.chars().all(good) {
            let message =
                format!("`{name}` cannot be a host: a name has 1 to 15 letters, digits, `-` or `_`");
            problems.push(Problem::new(item.at, message));
        } else if names.contains(&name) {
            problems.push(Problem::new(
                item.at,
                format!("a second host `{name}`: names are unique"),
            ));
        } else if names.len() == MOST {
            problems.push(Problem::new(item.at, format!("a lab has at most {MOST} hosts")));
            break;
        } else {
            names.push(name);
        }
    }
    if names.is_empty() && problems.is_empty() {
        problems.push(Problem::new(pair.value.at, "a lab needs at least one host"));
    }
    names
}

fn link(
    reader: &mut PolicyReader<'_>,
    registry: &Registry,
    files: Files<'_>,
    section: &Section<'_>,
    hosts: &[String],
) -> Option<LinkConfig> {
    let between = ends(section, hosts, &mut reader.problems);
    let back = section.section("back", &mut reader.problems);
    let mut way = |mut table: Table, of: &Section<'_>, also: &[&str]| {
        let trace = link_traces::read(&mut table, files, &mut reader.problems);
        let settings = LabLinkSettings::read(&table, also, &mut reader.problems);
        (
            settings.and_then(|settings| sensible(settings, of, &mut reader.problems)),
            trace,
        )
    };
    let (settings, trace) = way(section.table(|_| true), section, OF_LINK);
    let (back, trace_back) = match back {
        None => (settings.clone(), trace.clone()),
        Some(back) => way(link_traces::back(section, &back, OF_LINK), &back, &[]),
    };
    let both = [settings, back];
    let rates = both.each_ref().map(|way| way.as_ref().and_then(|way| way.rate));
    let policies = policies(reader, registry, files, section, hosts, between, rates);
    let [forth, back] = both;
    Some(LinkConfig {
        between: between?,
        settings: [forth?, back?],
        traces: [trace, trace_back],
        later: [ImpairmentSchedule::default(), ImpairmentSchedule::default()],
        policies,
    })
}

/// The two hosts of a link.
fn ends(section: &Section<'_>, hosts: &[String], problems: &mut Vec<Problem>) -> Option<[usize; 2]> {
    const EXPECTED: &str = "expected two hosts such as [\"alice\", \"bob\"]";
    let Some(pair) = section.get("between") else {
        problems.push(Problem::new(
            section.at,
            format!("`between` is missing: {EXPECTED}"),
        ));
        return None;
    };
    let items = pair.value.items().filter(|items| items.len() == 2);
    let Some(items) = items else {
        problems.push(pair.value.wrong(&format!("`between`: {EXPECTED}")));
        return None;
    };
    let mut found = [None; 2];
    for (place, item) in found.iter_mut().zip(items) {
        match item.raw() {
            Raw::Text(name) => {
                *place = hosts.iter().position(|host| *host == name);
                if place.is_none() {
                    let names = hosts.iter().map(String::as_str);
                    problems.push(unknown("host", &name, item.at, names));
                }
            }
            _ => problems.push(item.wrong(&format!("`between`: {EXPECTED}"))),
        }
    }
    let [a, b] = [found[0]?, found[1]?];
    if a == b {
        problems.push(Problem::new(pair.value.at, "a link joins two different hosts"));
        return None;
    }
    Some([a, b])
}

fn sensible(
    settings: LabLinkSettings,
    section: &Section<'_>,
    problems: &mut Vec<Problem>,
) -> Option<LabLinkSettings> {
    let before = problems.len();
    let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.value.at);
    match settings.rate {
        None => {
            for key in EMULATED_ONLY {
                if let Some(pair) = section.get(key) {
                    let message =
                        format!("`{key}` needs a link with a `rate`: one without is a plain veth pair");
                    problems.push(Problem::new(pair.key_at, message).help("write `rate = \"100 Mbit/s\"`"));
                }
            }
        }
        Some(rate) if rate < Bandwidth::kbit(8) || rate > Bandwidth::gbit(800) => {
            let message = "`rate` must be from 8 kbit/s to 800 Gbit/s";
            problems.push(Problem::new(at("rate"), message));
        }
        Some(_) => {}
    }
    if settings.delay > Duration::from_secs(60) {
        problems.push(Problem::new(at("delay"), "`delay` must be at most 60 s"));
    }
    if settings.buffer.is_some_and(|buffer| buffer < Bytes::new(1518)) {
        let message = "`buffer` must be at least 1518 B: one full frame";
        problems.push(Problem::new(at("buffer"), message));
    }
    (problems.len() == before).then_some(settings)
}

/// The policies of a link's two ends.
fn policies(
    reader: &mut PolicyReader<'_>,
    registry: &Registry,
    files: Files<'_>,
    section: &Section<'_>,
    hosts: &[String],
    between: Option<[usize; 2]>,
    rates: [Option<Bandwidth>; 2],
) -> [Option<InterfacePolicy>; 2] {
    let mut policies = [None, None];
    let Some(section) = section.section("policy", &mut reader.problems) else {
        return policies;
    };
    for pair in section.iter() {
        let interface = link_policies::read(reader, registry, files, pair, 1);
        let Some(ends) = between else { continue };
        let Some(end) = ends.iter().position(|&host| hosts[host] == pair.key) else {
            let names = ends.iter().map(|&host| hosts[host].as_str());
            let problem = unknown("end of this link", &pair.key, pair.key_at, names);
            reader.problems.push(problem);
            continue;
        };
        if let (Some(interface), Some(rate)) = (&interface, rates[end])
            && interface.settings.bandwidth > rate
        {
            reader.problems.push(too_fast(&pair.value, interface, rate));
        }
        policies[end] = interface;
    }
    policies
}

fn too_fast(value: &control::values::TomlValue<'_>, interface: &InterfacePolicy, rate: Bandwidth) -> Problem {
    let at: Span = value
        .section()
        .and_then(|section| section.get("bandwidth").map(|pair| pair.value.at))
        .unwrap_or(value.at);
    let message = format!(
        "`bandwidth` is {}, more than the link's rate, {rate}",
        interface.settings.bandwidth
    );
    Problem::new(at, message).help("a policy faster than the link would let the link's buffer overflow")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use engine::units::Probability;

    fn read(text: &str) -> Result<Topology, String> {
        Topology::read("t.toml", text, &Registry::builtin(), &Folder::of("t.toml"))
            .map_err(|diagnostics| diagnostics.to_string())
    }

    #[test]
    fn a_good_topology_is_read_with_its_policies() {
        let topology = read(
            r#"
            version = 1
            hosts = ["a", "r", "b"]
            [[link]]
            between = ["a", "r"]
            [[link]]
            between = ["r", "b"]
            rate = "20 Mbit/s"
            delay = "10 ms"
            loss = "1 % in bursts of 4"
            jitter = "2 ms"
            reorder = "1 % by 3 ms"
            [link.policy.r]
            bandwidth = "20 Mbit/s"
            discipline = { kind = "fifo", limit = 50 }
            "#,
        )
        .expect("a good topology");
        assert_eq!(topology.hosts, ["a", "r", "b"]);
        assert_eq!(topology.links[1].between, [1, 2]);
        assert_eq!(topology.links[0].settings[0].rate, None);
        let [settings, _] = &topology.links[1].settings;
        assert_eq!(settings.loss, Loss::Bursts(Probability::ratio(1, 100), 4));
        assert_eq!(settings.jitter, Duration::from_millis(2).into());
        assert_eq!(settings.reorder.to_string(), "1 % by 3 ms");
        let ruled = topology.links[1].policies.each_ref().map(Option::is_some);
        assert_eq!(ruled, [true, false]);
    }

    #[test]
    fn the_way_back_differs_in_what_it_says_and_its_policy_is_held_to_its_rate() {
        let with = |rate: &str| {
            read(&format!(
                "version = 1\nhosts = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"20 Mbit/s\"\n\
                 delay = \"5 ms\"\nback = {{ rate = \"2 Mbit/s\" }}\n[link.policy.b]\nbandwidth = \"{rate}\"\n\
                 discipline = \"fifo\"\n"
            ))
        };
        let topology = with("2 Mbit/s").expect("good");
        let [forth, back] = &topology.links[0].settings;
        let rates = [forth.rate, back.rate];
        assert_eq!(rates, [Some(Bandwidth::mbit(20)), Some(Bandwidth::mbit(2))]);
        assert_eq!([forth.delay, back.delay], [Duration::from_millis(5); 2]);
        let report = with("3 Mbit/s").expect_err("faster than the way back");
        assert!(report.contains("more than the link's rate, 2 Mbit/s"), "{report}");
        let wrong =
            "version = 1\nhosts = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"20 Mbit/s\"\n";
        let report = read(&format!("{wrong}back = {{ rat = \"2 Mbit/s\" }}\n")).expect_err("a misspelt key");
        assert!(report.contains("did you mean `rate`?"), "{report}");
    }

    #[test]
    fn a_policy_is_recognised_and_nothing_else_is_reported() {
        let report =
            read("version = 1\n[port]\nbetween = [\"a\", \"b\"]\n[interface.b]\n").expect_err("a policy");
        assert!(report.contains("t.toml:4:2"), "{report}");
        assert!(report.contains("this is a policy, not a topology"), "{report}");
        assert!(report.contains("t.toml: 1 mistake\n"), "{report}");
    }

    #[test]
    fn every_mistake_is_reported_in_one_pass_with_its_position() {
        let report = read(
            r#"version = 1
hosts = ["alice", "bob", "bob", "a host"]
[[link]]
between = ["alcie", "bob"]
rate = "20 Mb/s"
[[link]]
between = ["alice", "bob"]
delay = "5 ms"
[[link]]
between = ["alice", "alice"]
rate = "20 Mbit/s"
bufer = "1 MB"
[[link]]
between = ["alice", "bob"]
rate = "20 Mbit/s"
[link.policy.alise]
bandwidth = "20 Mbit/s"
discipline = "fifo"
[link.policy.bob]
bandwidth = "30 Mbit/s"
discipline = "fifo"
"#,
        )
        .expect_err("mistakes");
        for expected in [
            "t.toml:2:26", // the second bob
            "a second host `bob`",
            "`a host` cannot be a host",
            "did you mean `alice`?",
            "t.toml:4:12",
            "t.toml:5:8",
            "`delay` needs a link with a `rate`",
            "a link joins two different hosts",
            "did you mean `buffer`?",
            "unknown end of this link `alise`",
            "more than the link's rate",
        ] {
            assert!(report.contains(expected), "{expected} is missing in:\n{report}");
        }
    }

    #[test]
    fn any_damage_is_reported_without_panic() {
        let text = "version = 1\nhosts = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\n\
                    [link.policy.a]\nbandwidth = \"1 Mbit/s\"\ndiscipline = \"fifo\"\n";
        assert!(read(text).is_ok());
        for at in 0..text.len() {
            let (head, tail) = text.split_at(at);
            let _ = (read(head), read(tail), read(&format!("{head}[{tail}")));
        }
    }
}
