//! What of a scenario the lab cannot do: each is a mistake with its place and a remedy, so that
//! nothing is ignored.

use super::{DirectionConfig, Expectation, Metric, Scenario, Subject};
use crate::sources::{LabSource, Transport};
use control::sections::Section;
use control::values::KeyValue;
use engine::settings::Problem;
use engine::units::Bytes;
use lab::addressing;
use measure::impairments::Loss;

/// A key that only the simulator has, with the remedy in the lab.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedKey {
    /// The section that has it; empty for the scenario as a whole.
    pub section: &'static str,
    /// The key.
    pub name: &'static str,
    /// What to do without it.
    pub remedy: &'static str,
}

const fn key(section: &'static str, name: &'static str, remedy: &'static str) -> SimulatedKey {
    SimulatedKey {
        section,
        name,
        remedy,
    }
}

const LEAVE: &str = "leave it out; `suimon sim` has it";
const KERNEL: &str = "leave it out: in the lab the kernel's TCP decides";
const ADDRESS: &str = "give the host this address: a section [host.NAME] with `address`";
const SPANS: &str = "write a flow with `start` and `stop` for each span";
const NINE: &str = "run both ends of the transfer as a [[program]] each: a server, and at the receiver, or at \
                    the sender of an upload, `command = [\"nine\", \"--\", \"curl\", …]`; an expectation of the \
                    link measures what it gets";
const MEDIUM: &str = "leave it out: each link of the lab is a wire of its own; `suimon sim` has media";
const ONE_EACH: &str = "write a flow for each copy, with a `destination_port` of its own";

/// Every key that only the simulator has.
pub static SIMULATED_ONLY: &[SimulatedKey] = &[
    key("", "sweep", "write the values of one point"),
    key("", "medium", MEDIUM),
    key("link", "medium", MEDIUM),
    key(
        "link",
        "framing",
        "leave it out: frames count with their Ethernet header",
    ),
    key("link", "mtu", "leave it out: it is 1500 B"),
    key("link", "transmit_ring", LEAVE),
    key("link", "gap_frames", LEAVE),
    key("link", "timer_tick", LEAVE),
    key("link", "completion", LEAVE),
    key("flow", "active", SPANS),
    key("flow", "pauses", SPANS),
    key("flow", "count", ONE_EACH),
    key("flow", "spacing", ONE_EACH),
    key(
        "flow",
        "protocol",
        "leave it out: sockets have that of their kind",
    ),
    key("flow", "source", ADDRESS),
    key("flow", "destination", ADDRESS),
    key("flow", "nine", NINE),
    key("flow", "weight", NINE),
    key("flow", "cap", NINE),
    key("flow", "floor", NINE),
    key("flow", "bottlenet", NINE),
    key("flow", "dscp", LEAVE),
    key("flow", "mark", LEAVE),
    key("flow", "ecn", LEAVE),
    key("flow", "initial_window", KERNEL),
    key("flow", "receive_window", KERNEL),
    key("flow", "delayed_ack", KERNEL),
    key("flow", "byte_counting", KERNEL),
    key("flow", "hystart", KERNEL),
    key("flow", "whole_cwnd", KERNEL),
    key("flow", "rto", KERNEL),
    key("flow", "min_rto", KERNEL),
    key("flow", "recovery", KERNEL),
    key("flow", "rack", KERNEL),
    key("flow", "tlp", KERNEL),
    key("flow", "pacing", KERNEL),
];

/// Reports what the lab cannot do, by key.
pub(super) fn refuse_keys(root: &Section<'_>, problems: &mut Vec<Problem>) {
    for only in SIMULATED_ONLY {
        let mut refuse = |section: &Section<'_>| {
            if let Some(KeyValue { key_at, .. }) = section.get(only.name) {
                let message = format!("the lab has no `{}`", only.name);
                problems.push(Problem::new(*key_at, message).help(only.remedy));
            }
        };
        if only.section.is_empty() {
            refuse(root);
            continue;
        }
        // A section that cannot be read has been reported.
        for section in root.sections(only.section, only.section, &mut Vec::new()) {
            refuse(&section);
            if let Some(back) = section.section("back", &mut Vec::new()) {
                refuse(&back);
            }
        }
    }
}

/// Reports what the lab cannot do of a scenario without mistakes: policies above their link,
/// sources, ports that two flows need, metrics.
pub(super) fn refuse_values(root: &Section<'_>, scenario: &Scenario, problems: &mut Vec<Problem>) {
    let sections = |name| root.sections(name, name, &mut Vec::new());
    for (section, pair) in sections("link").iter().zip(scenario.directions.chunks(2)) {
        let above = |policy: &control::policy::InterfacePolicy, rate| policy.settings.bandwidth > rate;
        if pair.iter().any(|way| {
            way.policy
                .as_ref()
                .is_some_and(|policy| above(policy, way.settings.rate))
        }) {
            let at = section.get("policy").map_or(section.at, |pair| pair.key_at);
            let message = "the lab has no policy above the rate of its link";
            let help = "make the policy's `bandwidth` at most the link's `rate`";
            problems.push(Problem::new(at, message).help(help));
        }
        for key in BY_NUMBERS {
            if pair.iter().any(|way| goes_by_numbers(way, key)) {
                problems.push(by_numbers(section, key));
            }
        }
    }
    refuse_addresses(root, scenario, problems);
    let mut ports = Vec::new();
    for (section, flow) in sections("flow").iter().zip(&scenario.flows) {
        let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.value.at);
        let header = if scenario.hosts[flow.between[1]].address.is_ipv4() {
            42
        } else {
            62
        };
        let least = Bytes::new(header + lab::traffic::datagram::LEAST_PAYLOAD as u64);
        let wrong = match flow.source.in_lab() {
            None => Some((
                "kind",
                "the lab has no source of this kind".to_owned(),
                "write `kind = \"tcp\"`, `\"constant\"` or `\"burst\"`, or run the real programs: a [[program]] each",
            )),
            Some(LabSource::Datagrams { frame, .. }) if frame < least => Some((
                "frame",
                format!("the lab's datagrams have at least {least} as frames"),
                "make `frame` longer: each carries its number and its time",
            )),
            Some(_) => None,
        };
        problems.extend(wrong.map(|(key, message, help)| Problem::new(at(key), message).help(help)));
        let port = (flow.between[1], flow.key.destination_port, flow.key.protocol);
        if ports.contains(&port) {
            let message = "two flows to one host and port: in the lab each has a receiver of its own";
            let problem = Problem::new(at("destination_port"), message);
            problems.push(problem.help("give it a `destination_port` of its own"));
        }
        ports.push(port);
    }
    for (section, expectation) in sections("expect").iter().zip(&scenario.expectations) {
        if !measures(scenario, expectation) {
            let at = section.get("metric").map_or(section.at, |pair| pair.value.at);
            let message = format!("the lab does not measure `{}` here", expectation.metric.name());
            problems.push(Problem::new(at, message).help(MEASURED));
        }
    }
}

/// Settings that may name packets by their numbers.
const BY_NUMBERS: [&str; 5] = ["loss", "corrupt", "duplicate", "reorder", "script"];

/// Whether this setting of a link names packets by their numbers.
fn goes_by_numbers(way: &DirectionConfig, key: &str) -> bool {
    let settings = &way.settings;
    let which = match key {
        "loss" => settings.loss,
        "corrupt" => settings.corrupt.0,
        "duplicate" => settings.duplicate.0,
        "reorder" => settings.reorder.which,
        _ => return !settings.script.is_empty(),
    };
    matches!(which, Loss::Listed(_))
}

/// The numbers of a list would not be those of the simulator.
fn by_numbers(section: &Section<'_>, key: &str) -> Problem {
    let at = section.get(key).or_else(|| section.get("back"));
    let at = at.map_or(section.at, |pair| pair.value.at);
    let message = format!(
        "the lab of a scenario has no `{key}` by the numbers of packets: its hosts send frames of IPv6 besides"
    );
    let such = match key {
        "script" => "drop 7 …",
        _ => "packets 7 …",
    };
    let help = format!(
        "write a share, or run a program behind one link, where it is exact: `suimon lab --{key} \"{such}\" -- CMD`"
    );
    Problem::new(at, message).help(help)
}

/// Refuses addresses that the lab gives to other hosts' interfaces.
fn refuse_addresses(root: &Section<'_>, scenario: &Scenario, problems: &mut Vec<Problem>) {
    for (number, way) in scenario.directions.iter().enumerate() {
        let taken = addressing::of_link((number / 2) as u16)[number % 2];
        let other = |host: &usize| {
            taken
                .iter()
                .any(|address| address.ip == scenario.hosts[*host].address)
                && *host != way.from
        };
        let Some(host) = (0..scenario.hosts.len()).find(other) else {
            continue;
        };
        let named = root.get("host").or_else(|| root.get("hosts"));
        let at = named.map_or(root.at, |pair| pair.key_at);
        let (host, owner) = (&scenario.hosts[host], &scenario.hosts[way.from].name);
        let message = format!(
            "in the lab {} of `{}` is an interface of `{owner}`",
            host.address, host.name
        );
        let help = format!(
            "write [host.{}] with `address = \"192.168.0.1\"`, for example",
            host.name
        );
        problems.push(Problem::new(at, message).help(help));
    }
}

const MEASURED: &str = "it measures `rate`, `share` and `jain` of flows, `packets` and delays of datagrams, `retransmissions` of TCP; of links \
                        `rate`, `load`, delays, `packets`, `drops` and `marks`; of classes `rate`, `share`, delays \
                        and `packets`; and `in-force`";

/// Whether the lab measures this.
fn measures(scenario: &Scenario, expectation: &Expectation) -> bool {
    use Metric as M;
    let metric = expectation.metric;
    let delay = matches!(metric, M::DelayMean | M::DelayP50 | M::DelayP99 | M::DelayMax);
    match expectation.subject {
        Subject::All => true,
        Subject::Reservation(_) => true,
        Subject::Class { .. } => delay || matches!(metric, M::Rate | M::Share | M::Packets),
        Subject::Link(_) => delay || matches!(metric, M::Rate | M::Load | M::Packets | M::Drops | M::Marks),
        Subject::Flow(flow) => {
            let datagrams = scenario.flows[flow].settings.kind.transport == Transport::Udp;
            let own = match datagrams {
                true => delay || metric == M::Packets,
                false => metric == M::Retransmissions,
            };
            own || matches!(metric, M::Rate | M::Share)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenarios;
    use crate::folder::Folder;
    use engine::tree::Registry;

    fn read(link: &str, flow: &str, end: &str) -> Result<(), String> {
        let text = format!(
            "version = 1\nduration = \"1 s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\n{link}\n\
             [[flow]]\nbetween = [\"a\", \"b\"]\n{flow}\n{end}\n"
        );
        let read = Scenarios::read_for_lab("s.toml", &text, &Registry::builtin(), &Folder::of("s.toml"));
        read.map(drop).map_err(|wrong| wrong.to_string())
    }

    const TCP: &str = "kind = \"tcp\"";

    #[test]
    fn every_key_of_the_simulator_alone_is_refused_where_it_stands() {
        assert_eq!(read("", TCP, ""), Ok(()));
        for only in SIMULATED_ONLY {
            // The value's type does not matter: the key is refused beside it.
            let line = format!("{} = 1", only.name);
            let (said, place) = match only.section {
                "link" => (read(&line, TCP, ""), "s.toml:6:1"),
                "flow" => (read("", &format!("{TCP}\n{line}"), ""), "s.toml:10:1"),
                _ => (read("", TCP, &format!("[{}]\n", only.name)), "s.toml:10:2"),
            };
            let said = said.expect_err(only.name);
            let message = format!("the lab has no `{}`", only.name);
            assert!(
                said.contains(place) && said.contains(&message),
                "{}: {said}",
                only.name
            );
            assert!(said.contains(only.remedy), "{said}");
        }
    }

    #[test]
    fn sources_ports_policies_and_metrics_that_the_lab_lacks_are_refused_where_they_stand() {
        let policy = "policy.a = { bandwidth = \"20 Mbit/s\", discipline = \"fifo\" }";
        let second = "[[flow]]\nbetween = [\"a\", \"b\"]\nkind = \"tcp\"";
        let deep = "[[expect]]\nlink = \"a > b\"\nmetric = \"backlog-max\"\nat_most = \"1 kB\"";
        for (said, place, message) in [
            (read(policy, TCP, ""), ":6:1", "no policy above the rate"),
            (
                read("", "kind = \"request\"\nsize = \"1 kB\"", ""),
                ":9:8",
                "no source of this kind",
            ),
            (
                read(
                    "",
                    "kind = \"constant\"\nrate = \"1 Mbit/s\"\nframe = \"60 B\"",
                    "",
                ),
                ":11:9",
                "at least 74 B",
            ),
            (
                read("loss = \"packets 2\"", TCP, ""),
                ":6:8",
                "no `loss` by the numbers of packets",
            ),
            (
                read("reorder = \"packets 2 by 1 ms\"", TCP, ""),
                ":6:11",
                "no `reorder` by the numbers of packets",
            ),
            (
                read("duplicate = \"packets 2\"", TCP, ""),
                ":6:13",
                "no `duplicate` by the numbers of packets",
            ),
            (
                read("script = \"drop 2\"", TCP, ""),
                ":6:10",
                "no `script` by the numbers of packets",
            ),
            (read("", TCP, second), ":10:1", "two flows to one host and port"),
            (read("", TCP, deep), ":12:10", "does not measure `backlog-max`"),
        ] {
            let said = said.expect_err(message);
            assert!(
                said.contains(place) && said.contains(message),
                "{place} {message}: {said}"
            );
        }
    }

    #[test]
    fn the_page_has_a_table_of_the_keys_of_one_place() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios.md");
        let page = std::fs::read_to_string(page).expect("the page");
        let (_, section) = page.split_once("## In the lab").expect("a section");
        for only in SIMULATED_ONLY {
            assert!(
                section.contains(&format!("`{}`", only.name)),
                "{} is missing",
                only.name
            );
        }
    }
}
