//! Why packets waited or were dropped: what a recorder beside a queue saw, by the names of a
//! policy, as JSON and in words.

use crate::filter_list::FilterList;
use crate::filters;
use crate::policy::InterfacePolicy;
use crate::readout;
use crate::refusal::Refusal;
use crate::snapshot::{Gauge, gauge};
use engine::classify::Filter;
use engine::header::{Family, FlowKey};
use engine::inspect::{Value, View};
use engine::packet::ClassId;
use engine::queue::Count;
use engine::settings::Span;
use measure::numbers;
use measure::waits::{Ended, RecordedWaits, WaitedPacket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// How long packets are recorded at most.
pub const LONGEST_MS: u64 = 60_000;

/// Which packets are to be explained.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainRequest {
    /// The interface.
    pub interface: String,
    /// Packets of this class alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The latest drops; otherwise the packets that waited longest.
    #[serde(default)]
    pub drops: bool,
    /// How many.
    pub packets: usize,
    /// How long, up to [`LONGEST_MS`].
    #[schemars(range(max = LONGEST_MS), description = "How long, in milliseconds.")]
    pub for_ms: u64,
}

impl ExplainRequest {
    /// The class of this name.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none, or it has child classes: no packet is in it.
    pub fn class_of(&self, policy: &InterfacePolicy) -> Result<Option<ClassId>, Refusal> {
        let Some(name) = &self.class else { return Ok(None) };
        let found = policy.plan.leaf(name, Span::default());
        found.map(Some).map_err(|problem| Refusal::from(vec![problem]))
    }
}

/// What was recorded at an interface.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    /// The interface, or the link of a simulation.
    pub interface: String,
    /// How many packets were looked at.
    pub seen_packets: u64,
    /// Why it ended before its time, if it did.
    pub over: Option<String>,
    /// The packets: the one that waited longest first, or the latest drop last.
    pub packets: Vec<ExplainedPacket>,
}

/// A packet, and why it waited or was dropped. Times are in nanoseconds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedPacket {
    /// Addresses, ports and protocol.
    pub flow: String,
    /// Its length, as the link counts.
    pub bytes: u64,
    /// The filters that were asked, in their order.
    pub filters: Vec<AskedFilter>,
    /// Its class; none in a discipline without classes.
    pub class: Option<String>,
    /// What its class and those above it showed when it arrived: its own first.
    pub on_arrival: Vec<ShownClass>,
    /// From its arrival to its departure, or to its drop.
    pub wait_ns: u64,
    /// From its arrival to when it was due to leave, by its discipline and the link's clock; none
    /// if it was dropped.
    pub planned_ns: Option<u64>,
    /// The link was still busy with what had left before it arrived.
    pub busy_ns: u64,
    /// What left before it meanwhile, by class; and the time that it took of the link.
    pub before: Vec<ServedBefore>,
    /// See `before`.
    pub before_ns: u64,
    /// Neither: its discipline did not let it leave.
    pub held_ns: u64,
    /// It, or one before it, left later than it was due: its host held it up.
    pub held_up_ns: u64,
    /// Bytes that its class borrowed meanwhile, and of whom.
    pub borrowed: Vec<BorrowedBytes>,
    /// Why it was marked, if it was.
    pub marked: Option<String>,
    /// Why it was dropped, if it was.
    pub dropped: Option<DroppedPacket>,
}

/// A filter that was asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AskedFilter {
    /// In words.
    pub filter: String,
    /// The class that it is for.
    pub class: String,
    /// What of it the packet does not have; nothing: it took the packet.
    pub misses: Vec<String>,
}

/// A class, as it showed itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShownClass {
    /// Its name; none for the whole.
    pub class: Option<String>,
    /// Its backlog.
    pub backlog_packets: u64,
    /// The same in bytes.
    pub backlog_bytes: u64,
    /// Its tokens, deficit, average, chance of a drop, and others.
    pub gauges: Vec<Gauge>,
}

/// What left before a packet, of one class.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ServedBefore {
    /// The class.
    pub class: String,
    /// Packets.
    pub packets: u64,
    /// Bytes, as the link counts.
    pub bytes: u64,
    /// Why.
    pub why: String,
}

/// What a class lent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BorrowedBytes {
    /// Of this class; none: of the link.
    pub of: Option<String>,
    /// Bytes.
    pub bytes: u64,
}

/// A drop.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DroppedPacket {
    /// The reason, by the name under which it is counted.
    pub reason: String,
    /// The class of the packet that arrived at that moment, if one did: itself, or one that pushed
    /// it out.
    pub by: Option<String>,
}

/// The filters that are asked, with what of each the packet does not have; and the one that takes
/// it.
pub fn asked<'a>(
    all: &'a FilterList,
    packet: &FlowKey,
) -> (Vec<(&'a Filter, Vec<String>)>, Option<&'a Filter>) {
    let mut asked = Vec::new();
    for filter in filters::in_order(all) {
        let misses = filters::mismatches(filter, packet);
        let takes = misses.is_empty();
        asked.push((filter, misses));
        if takes {
            return (asked, Some(filter));
        }
    }
    (asked, None)
}

/// What was recorded at the queue of this policy; `now` is what its classes show at present.
pub fn explained(policy: &InterfacePolicy, recorded: &RecordedWaits, now: &[View]) -> Explained {
    let packet = |packet: &WaitedPacket| explain(policy, recorded, packet, now);
    Explained {
        interface: policy.name.clone(),
        seen_packets: recorded.seen,
        over: recorded.over.map(str::to_owned),
        packets: recorded.packets.iter().map(packet).collect(),
    }
}

fn explain(
    policy: &InterfacePolicy,
    recorded: &RecordedWaits,
    packet: &WaitedPacket,
    now: &[View],
) -> ExplainedPacket {
    let (arrived, account) = (&packet.arrived, recorded.account(packet));
    let own = arrived.class;
    let before = account.before.iter().map(|&(class, count)| ServedBefore {
        class: name(policy, class).unwrap_or_else(|| "all".into()),
        packets: count.packets,
        bytes: count.bytes.get(),
        why: why(own, class, now),
    });
    let (asked, _) = asked(&policy.filters, &arrived.key);
    let asked = asked.into_iter().map(|(filter, misses)| AskedFilter {
        filter: filters::words(filter),
        class: name(policy, filter.class).unwrap_or_default(),
        misses,
    });
    // Of a packet without headers nobody knows what they were.
    let are_known = arrived.key.family != Family::Other || arrived.key.ethertype != 0;
    let were_asked = are_known && !policy.plan.classes.is_empty();
    ExplainedPacket {
        flow: flow(&arrived.key),
        bytes: arrived.len.get(),
        filters: asked.filter(|_| were_asked).collect(),
        class: name(policy, own),
        on_arrival: shown(policy, &arrived.views, arrived.queued),
        wait_ns: account.wait.nanos(),
        planned_ns: match packet.ended {
            Ended::Left { .. } => Some(account.planned.nanos()),
            Ended::Dropped { .. } => None,
        },
        busy_ns: account.busy.nanos(),
        before: before.collect(),
        before_ns: account.serving.nanos(),
        held_ns: account.held.nanos(),
        held_up_ns: account.held_up.nanos(),
        borrowed: borrowed(policy, packet),
        marked: arrived.marked.map(|why| why.name().into()),
        dropped: match packet.ended {
            Ended::Left { .. } => None,
            Ended::Dropped { why, by, .. } => Some(DroppedPacket {
                reason: why.name().into(),
                by: by.and_then(|class| name(policy, class)),
            }),
        },
    }
}

fn name(policy: &InterfacePolicy, class: ClassId) -> Option<String> {
    policy.plan.info(class).map(|info| info.name.to_string())
}

/// The whole last; of a tree without classes it is all there is.
fn shown(policy: &InterfacePolicy, views: &[View], queued: Count) -> Vec<ShownClass> {
    let whole = |view: &&View| view.class.is_none();
    let (wholes, classes): (Vec<&View>, Vec<&View>) = views.iter().partition(whole);
    let shown = |view: &View| ShownClass {
        class: view.class.and_then(|class| name(policy, class)),
        backlog_packets: view.stats.backlog().packets,
        backlog_bytes: view.stats.backlog().bytes.get(),
        gauges: view.gauges.iter().map(gauge).collect(),
    };
    let whole = wholes.first().map(|view| ShownClass {
        backlog_packets: queued.packets,
        backlog_bytes: queued.bytes.get(),
        ..shown(view)
    });
    classes.into_iter().map(shown).chain(whole).collect()
}

fn number(views: &[View], class: Option<ClassId>, gauge: &str) -> Option<u64> {
    let view = views.iter().find(|view| view.class == class)?;
    let (_, value) = view.gauges.iter().find(|(name, _)| *name == gauge)?;
    match value {
        Value::Count(n) => Some(*n),
        Value::Bytes(bytes) => Some(bytes.get()),
        _ => None,
    }
}

/// Why a packet of a class left before one of `own`.
fn why(own: ClassId, other: ClassId, views: &[View]) -> String {
    if own == other {
        return "of its own class, and queued before it".into();
    }
    let both = |gauge| {
        let of = |class| number(views, Some(class), gauge);
        of(own).zip(of(other))
    };
    if let Some((mine, theirs)) = both("priority") {
        return match theirs.cmp(&mine) {
            std::cmp::Ordering::Greater => format!("its priority {theirs} is above {mine}"),
            std::cmp::Ordering::Equal => format!("of the same priority {mine}, in turn"),
            std::cmp::Ordering::Less => {
                format!("of priority {theirs}, below {mine}: begun before, or while this might not leave")
            }
        };
    }
    if let Some((mine, theirs)) = both("quantum") {
        let [mine, theirs] = [mine, theirs].map(numbers::bytes);
        return format!("in turn: {theirs} each, and {mine} for this");
    }
    "by its share".into()
}

/// What the class borrowed while the packet waited, as far as those above it lent it.
fn borrowed(policy: &InterfacePolicy, packet: &WaitedPacket) -> Vec<BorrowedBytes> {
    let (before, after) = (&packet.arrived.views, &packet.views);
    let grown = |class: Option<ClassId>, gauge: &str| {
        let both = number(before, class, gauge).zip(number(after, class, gauge));
        both.map_or(0, |(before, after)| after.saturating_sub(before))
    };
    let mut left = grown(Some(packet.arrived.class), "borrowed");
    let lenders = before.iter().skip(2).map(|view| view.class);
    let mut all = Vec::new();
    for lender in lenders.chain([None]) {
        let bytes = grown(lender, "lent").min(left);
        left -= bytes;
        let of = lender.and_then(|class| name(policy, class));
        all.extend((bytes > 0).then_some(BorrowedBytes { of, bytes }));
    }
    all
}

/// `10.0.0.1:4000 -> 10.0.0.2:5060 udp`
fn flow(key: &FlowKey) -> String {
    let address = |bits: u128| match key.family {
        Family::V4 => Some(IpAddr::V4(Ipv4Addr::from(bits as u32))),
        Family::V6 => Some(IpAddr::V6(Ipv6Addr::from(bits))),
        Family::Other => None,
    };
    let end = |bits: u128, port: Option<u16>| {
        let address = address(bits)?;
        Some(match port {
            Some(port) => SocketAddr::new(address, port).to_string(),
            None => address.to_string(),
        })
    };
    let ends = end(key.source, key.source_port).zip(end(key.destination, key.destination_port));
    match ends {
        Some((from, to)) => format!("{from} -> {to} {}", filters::protocol_name(key.protocol)),
        None => format!("a frame of type 0x{:04x}", key.ethertype),
    }
}

impl ShownClass {
    fn words(&self) -> String {
        let backlog = format!(
            "{} packets ({}) queued",
            self.backlog_packets,
            numbers::bytes(self.backlog_bytes)
        );
        let gauges = self
            .gauges
            .iter()
            .map(|gauge| format!("{} {}", gauge.name, readout::gauge(gauge)));
        let all: Vec<String> = std::iter::once(backlog).chain(gauges).collect();
        format!("{}: {}", self.class.as_deref().unwrap_or("all"), all.join(", "))
    }
}

impl ExplainedPacket {
    /// In words, a line each.
    pub fn lines(&self) -> Vec<String> {
        let wait = numbers::time(self.wait_ns);
        let class = self
            .class
            .as_ref()
            .map_or_else(String::new, |class| format!(", class {class}"));
        let length = numbers::bytes(self.bytes);
        let mut lines = vec![match &self.dropped {
            None => format!("{}{class}, {length}: waited {wait}", self.flow),
            Some(drop) => format!("{}{class}, {length}: {}", self.flow, drop.words(&wait, self)),
        }];
        for asked in &self.filters {
            let verdict = match asked.misses.is_empty() {
                true => "it does".to_owned(),
                false => format!("no: it is not {}", asked.misses.join(", nor ")),
            };
            lines.push(format!("  {} → {}: {verdict}", asked.filter, asked.class));
        }
        let arrival = self.on_arrival.iter().map(ShownClass::words);
        lines.extend(arrival.map(|words| format!("  on arrival {words}")));
        lines.extend(self.marked.iter().map(|why| format!("  marked: {why}")));
        if self.dropped.is_none() {
            self.account(&mut lines);
        }
        lines
    }

    fn account(&self, lines: &mut Vec<String>) {
        let time = numbers::time;
        if let Some(planned) = self.planned_ns {
            let [planned, left] = [planned, self.wait_ns].map(time);
            lines.push(format!("  due {planned} after its arrival, left after {left}"));
        }
        if self.busy_ns > 0 {
            let busy = time(self.busy_ns);
            lines.push(format!(
                "  {busy}: the link was still busy with what had left before"
            ));
        }
        if !self.before.is_empty() {
            let sum: u64 = self.before.iter().map(|before| before.bytes).sum();
            let (took, sum) = (time(self.before_ns), numbers::bytes(sum));
            lines.push(format!("  {took}: {sum} left before it:"));
        }
        for before in &self.before {
            let ServedBefore {
                class,
                packets,
                bytes,
                why,
            } = before;
            let bytes = numbers::bytes(*bytes);
            lines.push(format!("    {class}: {packets} packets, {bytes}: {why}"));
        }
        if self.held_ns > 0 {
            let held = time(self.held_ns);
            lines.push(format!("  {held}: nothing left: its discipline held it back"));
        }
        if self.held_up_ns > 0 {
            let late = time(self.held_up_ns);
            lines.push(format!(
                "  {late}: it was due, or one before it, and its host was late, or the device had no room"
            ));
        }
        for BorrowedBytes { of, bytes } in &self.borrowed {
            let of = of.as_deref().unwrap_or("the link");
            let bytes = numbers::bytes(*bytes);
            lines.push(format!("  its class borrowed {bytes} of {of} meanwhile"));
        }
    }
}

impl DroppedPacket {
    fn words(&self, wait: &str, packet: &ExplainedPacket) -> String {
        let reason = &self.reason;
        match (&self.by, packet.wait_ns) {
            (Some(by), 1..) => {
                format!("dropped after {wait} ({reason}), when a packet of {by} arrived")
            }
            (_, 0) => format!("dropped on arrival ({reason})"),
            (None, _) => format!("dropped after {wait} ({reason})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet that left at once.
    fn packet() -> ExplainedPacket {
        ExplainedPacket {
            flow: "a -> b udp".into(),
            bytes: 1_000,
            filters: Vec::new(),
            class: Some("calls".into()),
            on_arrival: Vec::new(),
            wait_ns: 0,
            planned_ns: None,
            busy_ns: 0,
            before: Vec::new(),
            before_ns: 0,
            held_ns: 0,
            held_up_ns: 0,
            borrowed: Vec::new(),
            marked: None,
            dropped: None,
        }
    }

    #[test]
    fn of_a_packet_that_left_at_once_only_that_is_told() {
        assert_eq!(packet().lines(), ["a -> b udp, class calls, 1 kB: waited 0 ns"]);
    }

    #[test]
    fn each_part_of_a_wait_is_told_in_its_order() {
        let gauge = Gauge {
            name: "tokens".into(),
            value: 1_500.into(),
            unit: "B".into(),
        };
        let shown = |class: Option<&str>, gauges| ShownClass {
            class: class.map(str::to_owned),
            backlog_packets: 2,
            backlog_bytes: 3_000,
            gauges,
        };
        let misses = vec!["tcp".to_owned(), "from 10.0.0.1".to_owned()];
        let asked = |misses| AskedFilter {
            filter: "tcp".into(),
            class: "web".into(),
            misses,
        };
        let of = ExplainedPacket {
            filters: vec![asked(misses), asked(Vec::new())],
            on_arrival: vec![shown(Some("calls"), vec![gauge]), shown(None, Vec::new())],
            wait_ns: 10_000,
            planned_ns: Some(9_000),
            busy_ns: 1,
            before: vec![ServedBefore {
                class: "web".into(),
                packets: 2,
                bytes: 1_500,
                why: "by its share".into(),
            }],
            before_ns: 4_000,
            held_ns: 2,
            held_up_ns: 3,
            borrowed: vec![BorrowedBytes { of: None, bytes: 500 }],
            marked: Some("early".into()),
            ..packet()
        };
        let expected = [
            "a -> b udp, class calls, 1 kB: waited 10 µs",
            "  tcp → web: no: it is not tcp, nor from 10.0.0.1",
            "  tcp → web: it does",
            "  on arrival calls: 2 packets (3 kB) queued, tokens 1.5 kB",
            "  on arrival all: 2 packets (3 kB) queued",
            "  marked: early",
            "  due 9 µs after its arrival, left after 10 µs",
            "  1 ns: the link was still busy with what had left before",
            "  4 µs: 1.5 kB left before it:",
            "    web: 2 packets, 1.5 kB: by its share",
            "  2 ns: nothing left: its discipline held it back",
            "  3 ns: it was due, or one before it, and its host was late, or the device had no room",
            "  its class borrowed 500 B of the link meanwhile",
        ];
        assert_eq!(of.lines(), expected);
        // Of a packet that was dropped nothing is told of a departure.
        let dropped = |by: Option<&str>, wait_ns| {
            let dropped = Some(DroppedPacket {
                reason: "full".into(),
                by: by.map(str::to_owned),
            });
            let of = ExplainedPacket {
                dropped,
                wait_ns,
                busy_ns: 1,
                ..packet()
            };
            of.lines().join("|")
        };
        let told = |what: &str| format!("a -> b udp, class calls, 1 kB: {what}");
        assert_eq!(dropped(None, 0), told("dropped on arrival (full)"));
        assert_eq!(dropped(Some("web"), 0), told("dropped on arrival (full)"));
        assert_eq!(dropped(None, 1), told("dropped after 1 ns (full)"));
        let pushed_out = told("dropped after 1 ns (full), when a packet of web arrived");
        assert_eq!(dropped(Some("web"), 1), pushed_out);
    }
}
