//! The flows of a scenario: sender, receiver, times, and the kind of source.

use super::HostConfig;
use crate::folder::Files;
use crate::sources::{FlowSource, SourceKind};
use control::filters::{CodePoint, Protocol, WITH_PORTS};
use control::sections::Section;
use engine::header::{Family, FlowKey};
use engine::settings;
use engine::settings::{Problem, Raw, SettingValue, describe};
use engine::units::{Bytes, Duration, Instant};
use std::net::IpAddr;
use std::sync::Arc;

/// An address of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndAddress(pub IpAddr);

impl SettingValue for EndAddress {
    const UNIT: &'static str = "an address such as \"192.168.1.20\"";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let wrong = || format!("expected {}; found {}", Self::UNIT, describe(raw));
        match raw {
            Raw::Text(text) => text.parse().map(Self).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

/// Spans of time, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spans(pub Vec<(Instant, Instant)>);

impl SettingValue for Spans {
    const UNIT: &'static str = "spans such as \"0 s to 10 s, 20 s to 30 s\"";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let Raw::Text(text) = raw else {
            return Err(format!("expected {}; found {}", Self::UNIT, describe(raw)));
        };
        let mut spans: Vec<(Instant, Instant)> = Vec::new();
        for part in text.split(',') {
            let (from, to) = part
                .split_once(" to ")
                .ok_or_else(|| format!("expected {}; found \"{}\"", Self::UNIT, part.trim()))?;
            let time = |text: &str| {
                let time: Result<Duration, _> = text.parse();
                time.map(|time| Instant::START + time)
                    .map_err(|error| error.to_string())
            };
            let (from, to) = (time(from)?, time(to)?);
            let after = spans.last().map_or(Instant::START, |last| last.1);
            if from < after || to <= from {
                return Err(format!(
                    "the spans of \"{text}\" must follow each other, each with an end after its start"
                ));
            }
            spans.push((from, to));
        }
        Ok(Self(spans))
    }
}

settings! {
    /// The settings that flows of every kind have.
    pub struct FlowSettings {
        /// Its name
        name: String = derived "`flow 1`, by its number", "", "";
        /// The kind of its source
        kind: &'static SourceKind = required, "", "";
        /// The number of copies of this flow, each connection with a source port of its own
        count: u32 = default "1", "", "one";
        /// When it starts
        start: Duration = default "0 s", "", "at once";
        /// The time between the starts of successive copies
        spacing: Duration = default "0 s",
            "0 s: copies start together, and may stay synchronised", "all at once";
        /// When it stops
        stop: Duration = derived "the end of the scenario", "", "";
        /// The time spans in which it sends
        active: Spans = derived "always", "", "";
        /// The time spans in which it does not send
        pauses: Spans = derived "never", "", "";
        /// The protocol that filters see
        protocol: Protocol = derived "that of its kind", "", "";
        /// The source port that filters see
        source_port: u32 = derived "40001, and one more for each flow", "", "";
        /// The destination port that filters see
        destination_port: u32 = derived "443 for TCP, 9000 for others", "", "";
        /// The source address that filters see
        source: EndAddress = derived "its first host's", "", "";
        /// The destination address that filters see
        destination: EndAddress = derived "its second host's", "", "";
        /// The code point that filters see
        dscp: CodePoint = default "be", "", "best effort";
        /// The mark that filters see
        mark: u32 = default "0", "", "none";
    }
}

/// A flow with its copies.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// Its name.
    pub name: String,
    /// The sending and the receiving host, by index.
    pub between: [usize; 2],
    /// The settings that flows of every kind have.
    pub settings: FlowSettings,
    /// Its source.
    pub source: Arc<dyn FlowSource>,
    /// The spans in which it sends.
    pub active: Vec<(Instant, Instant)>,
    /// The header fields of the first copy, for filters; each further connection has the next
    /// source port.
    pub key: FlowKey,
    /// The path MTU.
    pub mtu: Bytes,
}

impl FlowConfig {
    /// The start of copy `n`.
    pub fn start(&self, n: u32) -> Instant {
        let first = self.active.first().map_or(Instant::NEVER, |span| span.0);
        first + self.settings.spacing.times(n.into())
    }

    /// The connections of all copies.
    pub fn connections(&self) -> u32 {
        self.settings.count.saturating_mul(self.source.connections())
    }

    /// The header fields of connection `n`, for filters: those of a copy follow each other.
    pub fn key(&self, n: u32) -> FlowKey {
        let port = |port: u16| port.wrapping_add(n as u16).max(1);
        FlowKey {
            source_port: self.key.source_port.map(port),
            ..self.key
        }
    }
}

/// The parts of the scenario that a flow refers to.
pub(super) struct ScenarioContext<'a> {
    pub(super) files: Files<'a>,
    pub(super) hosts: &'a [HostConfig],
    pub(super) names: &'a [String],
    pub(super) duration: Duration,
    /// The path MTU between two hosts; `None` without a route.
    pub(super) mtu: &'a dyn Fn(usize, usize) -> Option<Bytes>,
    /// The number of flows before it, with all copies.
    pub(super) before: u32,
}

/// The maximum number of copies of a flow, and of their connections.
const MOST: u32 = 1_000_000;

/// Reads a flow.
pub(super) fn read(
    section: &Section<'_>,
    number: usize,
    context: &ScenarioContext<'_>,
    problems: &mut Vec<Problem>,
) -> Option<FlowConfig> {
    let generic = |key: &str| FlowSettings::SETTINGS.iter().any(|setting| setting.name == key);
    let before = problems.len();
    let settings = FlowSettings::read(&section.table(generic), &[], problems);
    let between = super::ends(section, context.names, problems);
    let kind = section
        .table(|key| key == "kind")
        .entries
        .first()
        .and_then(|entry| <&SourceKind>::from_raw(&entry.value).ok());
    let names = FlowSettings::SETTINGS.iter().map(|setting| setting.name);
    let also: Vec<&str> = names.chain(["between"]).collect();
    let source = kind.and_then(|kind| kind.read_source(section, context.files, &also, problems));
    let (settings, [from, to]) = (settings?, between?);
    let active = active(&settings, section, context.duration, problems);
    let mtu = (context.mtu)(from, to);
    if mtu.is_none() {
        let at = section.get("between").map_or(section.at, |pair| pair.value.at);
        let message = format!(
            "no route from `{}` to `{}`",
            context.names[from], context.names[to]
        );
        problems
            .push(Problem::new(at, message).help("add a link between them, or links to a host between them"));
    }
    if settings.count == 0 || settings.count > MOST {
        let at = section.get("count").map_or(section.at, |pair| pair.value.at);
        problems.push(Problem::new(at, format!("`count` must be from 1 to {MOST}")));
    }
    let source = source?;
    if settings.count <= MOST && settings.count.saturating_mul(source.connections()) > MOST {
        let at = section.get("count").map_or(section.at, |pair| pair.value.at);
        let message = format!("all copies have more than {MOST} connections together");
        problems.push(Problem::new(at, message).help("write a smaller `count`"));
    }
    let mtu = mtu?;
    fits(source.as_ref(), mtu, section, problems);
    let key = key(&settings, section, [from, to], context, problems);
    let name = settings.name.clone().unwrap_or_else(|| format!("flow {number}"));
    (problems.len() == before).then_some(FlowConfig {
        name,
        between: [from, to],
        settings,
        source,
        active,
        key: key?,
        mtu,
    })
}

/// Refuses frames longer than the path MTU, and ones that are too short for their headers.
fn fits(source: &dyn FlowSource, mtu: Bytes, section: &Section<'_>, problems: &mut Vec<Problem>) {
    let Some([least, most]) = source.frames() else {
        return;
    };
    let longest = mtu + Bytes::new(14);
    let Some(wrong) = (most > longest)
        .then_some(most)
        .or((least < Bytes::new(42)).then_some(least))
    else {
        return;
    };
    let key = if section.get("file").is_some() {
        "file"
    } else {
        "frame"
    };
    let at = section.get(key).map_or(section.at, |pair| pair.value.at);
    let message = format!(
        "frames must have from 42 B to {} B, the longest on this path; here is one of {} B",
        longest.get(),
        wrong.get()
    );
    problems.push(Problem::new(at, message));
}

/// The spans in which a flow sends: from `start` to `stop`, limited by `active` or `pauses`.
fn active(
    settings: &FlowSettings,
    section: &Section<'_>,
    duration: Duration,
    problems: &mut Vec<Problem>,
) -> Vec<(Instant, Instant)> {
    let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.key_at);
    let end = settings.stop.unwrap_or(duration);
    let (start, end) = (Instant::START + settings.start, Instant::START + end);
    if settings.start >= duration || end <= start {
        let which = if settings.start >= duration {
            "start"
        } else {
            "stop"
        };
        let message = "this flow never sends: it must start before it stops, and before the scenario ends";
        problems.push(Problem::new(at(which), message));
        return Vec::new();
    }
    let whole = [(start, end)];
    let spans = match (&settings.active, &settings.pauses) {
        (Some(_), Some(_)) => {
            let problem = Problem::new(at("pauses"), "`active` and `pauses` exclude each other");
            problems.push(problem.help("keep one of them"));
            return whole.to_vec();
        }
        (Some(active), None) => active.0.clone(),
        (None, Some(pauses)) => {
            let ends = pauses.0.iter().map(|span| span.0).chain([Instant::NEVER]);
            let begins = [Instant::START]
                .into_iter()
                .chain(pauses.0.iter().map(|span| span.1));
            begins.zip(ends).collect()
        }
        (None, None) => return whole.to_vec(),
    };
    let cut = spans.into_iter().map(|(from, to)| (from.max(start), to.min(end)));
    let spans: Vec<_> = cut.filter(|(from, to)| from < to).collect();
    if spans.is_empty() {
        let which = if settings.active.is_some() {
            "active"
        } else {
            "pauses"
        };
        problems.push(Problem::new(
            at(which),
            "this flow never sends: no span is between its `start` and its `stop`",
        ));
    }
    spans
}

fn key(
    settings: &FlowSettings,
    section: &Section<'_>,
    [from, to]: [usize; 2],
    context: &ScenarioContext<'_>,
    problems: &mut Vec<Problem>,
) -> Option<FlowKey> {
    const TCP: u8 = 6;
    let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.value.at);
    let addresses = [
        settings
            .source
            .map_or(context.hosts[from].address, |address| address.0),
        settings
            .destination
            .map_or(context.hosts[to].address, |address| address.0),
    ];
    let [(family, of_source), (family_of_destination, of_destination)] = addresses.map(bits);
    if family != family_of_destination {
        let message = format!("{} and {} are of different families", addresses[0], addresses[1]);
        problems.push(
            Problem::new(at("between"), message).help("give the hosts, or the flow, addresses of one family"),
        );
        return None;
    }
    let protocol = settings
        .protocol
        .as_ref()
        .map_or(settings.kind.transport.protocol(), |protocol| protocol.0);
    let mut port = |key: &str, given: Option<u32>, usual: u32| {
        let found = u16::try_from(given.unwrap_or(usual))
            .ok()
            .filter(|port| *port > 0);
        if found.is_none() {
            problems.push(Problem::new(at(key), format!("`{key}` must be from 1 to 65535")));
        }
        found
    };
    let usual = 40_001 + context.before % 20_000;
    let source_port = port("source_port", settings.source_port, usual)?;
    let of_protocol = if protocol == TCP { 443 } else { 9000 };
    let destination_port = port("destination_port", settings.destination_port, of_protocol)?;
    let has_ports = WITH_PORTS.contains(&protocol);
    Some(FlowKey {
        source: of_source,
        destination: of_destination,
        family,
        protocol,
        dscp: settings.dscp.0.value(),
        source_port: has_ports.then_some(source_port),
        destination_port: has_ports.then_some(destination_port),
        ethertype: if family == Family::V4 { 0x0800 } else { 0x86dd },
        mark: settings.mark,
        ..FlowKey::default()
    })
}

/// The family of an address, and its bits as a [`FlowKey`] has them.
pub(super) fn bits(address: IpAddr) -> (Family, u128) {
    match address {
        IpAddr::V4(address) => (Family::V4, address.to_bits().into()),
        IpAddr::V6(address) => (Family::V6, address.to_bits()),
    }
}
