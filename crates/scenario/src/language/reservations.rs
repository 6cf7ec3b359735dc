//! RSVP in a scenario: which hosts speak it, and what is reserved for which flow.

use super::flows::bits;
use super::{EndAddress, FlowConfig, HostConfig};
use control::rsvp_config::AcceptStyle;
use control::sections::Section;
use engine::header::{Family, FlowKey};
use engine::settings;
use engine::settings::{Problem, Raw, unknown};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use std::collections::BTreeSet;
use std::net::IpAddr;

settings! {
    /// The settings of RSVP in a scenario, besides `nodes`.
    pub struct SignallingSettings {
        /// R of RFC 2205: the mean refresh period of all nodes
        refresh: Duration = default "30 s",
            "too short: needless messages; too long: what a failed host has left behind stays for 5.25 of these periods",
            "RFC 2205, section 3.7";
    }
}

settings! {
    /// The settings of a reservation.
    pub struct ReservationSettings {
        /// The flow; each of its copies is a sender of one session
        flow: String = required, "", "";
        /// Its name
        name: String = derived "the flow's", "", "";
        /// The rate to reserve, in bytes of IP datagrams
        rate: Bandwidth = required, "too small: what exceeds it takes turns with all else", "none";
        /// The bursts of a sender
        burst: Bytes = derived "10 ms at the rate, at least two full packets",
            "too small: bursts wait, and a delay is missed", "`suimon reserve`";
        /// The shortest packet of a sender, which determines the overhead of link headers
        packet: Bytes = default "1000 B",
            "too long: shorter packets take more of the link than was admitted", "`suimon reserve`";
        /// The queueing delay from end to end; it makes the service a guaranteed one
        delay: Duration = derived "none: controlled load", "", "";
        /// Which senders share the reservation
        style: AcceptStyle = default "ff",
            "`se` and `wf`: copies that send at the same time share the rate of one", "RFC 2205, section 1.3";
        /// When the sender announces itself by its first Path
        start: Duration = default "0 s", "", "at once";
        /// When the sender takes it back
        stop: Duration = derived "the end of the scenario", "", "";
    }
}

/// A checked reservation.
#[derive(Clone, PartialEq, Debug)]
pub struct ReservationConfig {
    /// Its name.
    pub name: String,
    /// The flow, by index.
    pub flow: usize,
    /// Its settings.
    pub settings: ReservationSettings,
}

impl ReservationConfig {
    /// When the sender announces itself.
    pub fn start(&self) -> Instant {
        Instant::START + self.settings.start
    }

    /// When the sender takes it back, if it does.
    pub fn stop(&self) -> Option<Instant> {
        self.settings.stop.map(|stop| Instant::START + stop)
    }
}

/// RSVP in a scenario.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SignallingConfig {
    /// The hosts that speak it, by index.
    pub nodes: BTreeSet<usize>,
    /// The mean refresh period.
    pub refresh: Duration,
    /// What is reserved; if nothing is, no host speaks.
    pub reservations: Vec<ReservationConfig>,
}

/// What reservations refer to.
pub(super) struct ReservationContext<'a> {
    pub(super) hosts: &'a [HostConfig],
    pub(super) flows: &'a [FlowConfig],
    pub(super) duration: Duration,
}

const OF_RSVP: &[&str] = &["nodes"];

/// Reads the section `[rsvp]` and all reservations.
pub(super) fn read(
    root: &Section<'_>,
    context: &ReservationContext<'_>,
    problems: &mut Vec<Problem>,
) -> SignallingConfig {
    let sections = root.sections("reserve", "reserve", problems);
    let own = root.section("rsvp", problems);
    let everywhere = || (0..context.hosts.len()).collect();
    let (nodes, refresh) = match &own {
        None => (everywhere(), Duration::from_secs(30)),
        Some(own) => {
            let settings = SignallingSettings::read(&own.table(|_| true), OF_RSVP, problems);
            let refresh = settings.map_or(Duration::from_secs(30), |settings| settings.refresh);
            if refresh < Duration::from_millis(1) || refresh > Duration::from_secs(300) {
                let at = own.get("refresh").map_or(own.at, |pair| pair.value.at);
                problems.push(Problem::new(at, "`refresh` must be from 1 ms to 300 s"));
            }
            (
                nodes(own, context.hosts, problems).unwrap_or_else(everywhere),
                refresh,
            )
        }
    };
    let mut config = SignallingConfig {
        nodes,
        refresh,
        reservations: Vec::new(),
    };
    for section in &sections {
        let Some(read) = reservation(section, context, &config, problems) else {
            continue;
        };
        if config.reservations.iter().any(|other| other.name == read.name) {
            let message = format!("a second reservation `{}`: names are unique", read.name);
            problems.push(Problem::new(section.at, message));
        }
        config.reservations.push(read);
    }
    if let (Some(own), true) = (own, sections.is_empty()) {
        let problem = Problem::new(own.at, "[rsvp] has no effect: nothing is reserved");
        problems.push(problem.help("write a section [[reserve]] with `flow` and `rate`"));
    }
    config
}

fn nodes(own: &Section<'_>, hosts: &[HostConfig], problems: &mut Vec<Problem>) -> Option<BTreeSet<usize>> {
    const EXPECTED: &str = "`nodes`: expected a list of hosts such as [\"alice\", \"router\"]";
    let pair = own.get("nodes")?;
    let Some(items) = pair.value.items() else {
        problems.push(pair.value.wrong(EXPECTED));
        return None;
    };
    let mut found = BTreeSet::new();
    for item in items {
        match item.raw() {
            Raw::Text(name) => match hosts.iter().position(|host| host.name == name) {
                Some(host) => drop(found.insert(host)),
                None => {
                    let names = hosts.iter().map(|host| host.name.as_str());
                    problems.push(unknown("host", &name, item.at, names));
                }
            },
            _ => problems.push(item.wrong(EXPECTED)),
        }
    }
    Some(found)
}

fn reservation(
    section: &Section<'_>,
    context: &ReservationContext<'_>,
    config: &SignallingConfig,
    problems: &mut Vec<Problem>,
) -> Option<ReservationConfig> {
    let settings = ReservationSettings::read(&section.table(|_| true), &[], problems)?;
    let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.value.at);
    let before = problems.len();
    let found = context.flows.iter().position(|flow| flow.name == settings.flow);
    let Some(index) = found else {
        let names = context.flows.iter().map(|flow| flow.name.as_str());
        problems.push(unknown("flow", &settings.flow, at("flow"), names));
        return None;
    };
    let flow = &context.flows[index];
    let addresses = flow.between.map(|host| context.hosts[host].address);
    let [source, destination] = addresses;
    let overridden = |end: &Option<EndAddress>, host| end.is_some_and(|end| end.0 != host);
    if overridden(&flow.settings.source, source) || overridden(&flow.settings.destination, destination) {
        let message = format!("flow `{}` does not have the addresses of its hosts", flow.name);
        let help = "RSVP messages are routed by them: leave out `source` and `destination` of the flow";
        problems.push(Problem::new(at("flow"), message).help(help));
    }
    for host in flow
        .between
        .into_iter()
        .filter(|host| !config.nodes.contains(host))
    {
        let name = &context.hosts[host].name;
        let problem = Problem::new(
            at("flow"),
            format!("`{name}` does not speak RSVP, so nothing can be reserved"),
        );
        problems.push(problem.help(format!("add \"{name}\" to `nodes` of [rsvp]")));
    }
    if config.reservations.iter().any(|other| other.flow == index) {
        let message = format!("flow `{}` has a reservation already", flow.name);
        problems.push(Problem::new(at("flow"), message));
    }
    if settings.rate == Bandwidth::ZERO {
        problems.push(Problem::new(at("rate"), "a rate of 0 needs no reservation"));
    }
    if settings.packet < Bytes::new(20) || settings.packet > flow.mtu {
        let message = format!("`packet` must be from 20 B to the MTU of the path, {}", flow.mtu);
        problems.push(Problem::new(at("packet"), message));
    }
    if settings.start >= context.duration {
        let message = format!(
            "this is never reserved: the scenario ends at {}",
            context.duration
        );
        problems.push(Problem::new(at("start"), message));
    }
    if settings.stop.is_some_and(|stop| stop <= settings.start) {
        problems.push(Problem::new(
            at("stop"),
            "this is never reserved: it stops before it starts",
        ));
    }
    let name = settings.name.clone().unwrap_or_else(|| flow.name.clone());
    (problems.len() == before).then_some(ReservationConfig {
        name,
        flow: index,
        settings,
    })
}

/// The header fields of RSVP messages from one node to another.
pub(crate) fn signalling_key([from, to]: [IpAddr; 2]) -> FlowKey {
    const RSVP: u8 = 46;
    let [(family, source), (_, destination)] = [from, to].map(bits);
    FlowKey {
        source,
        destination,
        family,
        protocol: RSVP,
        ethertype: if family == Family::V4 { 0x0800 } else { 0x86dd },
        ..FlowKey::default()
    }
}
