//! The `[port]` section: which interfaces, and how frames reach the program. It opens nothing.
//!
//! One program serves a bump in the wire and the egress of any number of interfaces at once: each
//! of them is a port, with the settings of the section.
//!
//! Each kind of port is declared in the crate that opens it; the caller passes these declarations.
//! A caller that opens no port, such as a simulation, passes none; then only the attachment and the
//! settings of all ports are read.

use crate::sections::Section;
use crate::values::TomlValue;
use engine::port_kind::{Attachment, Needs, PortKind, device, received};
use engine::settings::{Problem, Setting, Span, Table, refuse_wrong, unknown};
use engine::units::{Bytes, Duration};
use engine::{choices, settings};
use std::collections::BTreeSet;

choices! {
    /// When GSO super-frames are segmented before they are queued.
    pub enum Split {
        /// When sending one at the interface's rate would take longer than 1 ms.
        Auto = "auto",
        /// Always.
        Always = "always",
        /// Never.
        Never = "never",
    }
}

choices! {
    /// How many threads move packets.
    pub enum Workers {
        /// One for everything.
        One = "one",
        /// One for each direction of each port.
        PerDirection = "per-direction",
        /// One for each direction on a machine of four processors or more, otherwise one.
        Auto = "auto",
    }
}

choices! {
    /// The realiser: what sends packets at the times of a pacing discipline without gap frames.
    pub enum Realise {
        /// The packet loop waits on a timer.
        Timer = "timer",
        /// The device does (SO_TXTIME); refused if a trial shows that it does not.
        Launch = "launch",
        /// The device if a trial succeeds, otherwise the packet loop.
        Auto = "auto",
    }
}

choices! {
    /// What is sent in a gap, where a pacing discipline uses gap frames.
    pub enum GapFrameSetting {
        /// 802.3 PAUSE frames with time 0, which the neighbour drops.
        Pause = "pause",
        /// Frames from the interface's address to itself, which switches do not forward.
        Void = "void",
    }
}

settings! {
    /// The settings of a port, apart from its attachment.
    pub struct PortSettings {
        /// How frames reach the program
        kind: String = derived "the first that fits what the port is attached to",
            "see the list of kinds", "measured: as much TCP as the kernel's own bridge";
        /// Packets that may wait in the interface's transmit queue
        transmit_ring: u32 = default "64",
            "too small: the link idles between batches; too large: packets wait behind the scheduler, where priorities have no effect",
            "Cho, \"Traffic management by alternate queueing\", 1999, section 4.2.8";
        /// Whether the packet loop runs in the real-time class, where that is permitted
        realtime: bool = default "true",
            "false: on a busy machine packets wait for the CPU scheduler; true: under full load other programs wait",
            "measured under load: 99 of 100 packets within 65 us instead of 3700 us";
        /// How long before the time of a packet the packet loop wakes; it spins until that time
        spin: Duration = default "60 us",
            "too short: packets are late by the wake-up latency; too long: wasted CPU time",
            "measured: wake-up latency of 40 us at the median, and mostly below 100 us";
        /// By how much the packet loop may run later than it was to, as is usual on this host: it
        /// is in each bound of a delay, and what is more is told as a hold-up
        lateness: Duration = default "1 ms",
            "too short: much is told as held up by the host; too long: bounds are longer by it, and what it hides is not told",
            "measured in the lab: 99 of 100 wake-ups within 0.12 ms, and most others on a machine that is not busy within 1 ms";
        /// How much of the time that `pacer` missed in a hold-up of the host it catches up at the
        /// speed of the wire, where the packet loop waits
        catch_up: Duration = derived "a longest packet's time at the highest rate of `pacer`",
            "too short: a busy machine paces below the rate (`held up` counts the time); too long: a burst after each hold-up",
            "measured at 900 Mbit/s: with 5 ms bursts of up to 377 frames";
        /// The realiser of `pacer` where it does not use gap frames
        realiser: Realise = default "timer",
            "launch: refused where the driver does not keep launch times; auto: tries with a frame that the neighbour drops",
            "timers work on every port";
        /// What is sent in a gap, where `pacer` uses gap frames
        gap_frame: GapFrameSetting = default "pause",
            "void: for cards that drop flow-control frames of the host, and for links that use flow control",
            "the PSPacer paper, section 3.2";
        /// When super-frames are segmented
        split: Split = default "auto",
            "never: packets wait while a super-frame of up to 64 KiB is sent; always: more work per byte",
            "a voice call does not notice 1 ms";
        /// The threads that move packets
        workers: Workers = default "auto",
            "one: both directions share a processor; per-direction: each has its own, with its part of `memory`; classes that yield keep both directions in one",
            "auto: per-direction on four processors or more, since the kernel's own work needs some too";
        /// Memory for frames of all interfaces of the port together; it is used as it is needed
        memory: Bytes = default "192 MiB",
            "too small: classes drop before their queues' limits; too large: memory that others could use",
            "28,672 queued frames of an ordinary MTU, and 1,778 super-frames";
        /// After how long without a heartbeat traffic bypasses the program through the kernel
        fail_open_after: Duration = default "50 ms",
            "too short: a busy machine enters the bypass; too long: a hang stops traffic for that time",
            "half of 100 ms, the longest interruption that is accepted";
    }
}

/// A checked `[port]` section.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// The ports: at least one. No interface is in two of them.
    pub attached: Vec<AttachedPort>,
    /// The settings that all kinds have.
    pub settings: PortSettings,
    /// The settings of some kinds alone, as text that their declarations can read.
    pub own: Table,
}

/// A kind of port, and what it is attached to.
#[derive(Clone, Debug)]
pub struct AttachedPort {
    /// The kind of port: the policy's where it fits, otherwise the first that fits; `None` if the
    /// caller passed no kinds.
    pub kind: Option<&'static PortKind>,
    /// What it is attached to.
    pub attachment: Attachment,
}

impl AttachedPort {
    /// The interfaces by which packets can leave; empty for files, where the policy chooses a name.
    pub fn interfaces(&self) -> Vec<&str> {
        match &self.attachment {
            Attachment::Between(a, b) => vec![a, b],
            Attachment::Egress(interface) | Attachment::Ingress(interface) => vec![interface],
            Attachment::Files { .. } => Vec::new(),
        }
    }

    /// The name of its kind.
    pub fn kind_name(&self) -> &'static str {
        self.kind.map_or("unknown", |kind| kind.name)
    }

    /// Whether its interfaces exist before it is opened, and have a wire.
    pub fn has_wire(&self) -> bool {
        self.kind.is_some_and(|kind| kind.has_wire)
    }
}

impl PortConfig {
    /// The interfaces by which packets can leave; empty for files, where the policy chooses a name.
    pub fn interfaces(&self) -> Vec<&str> {
        self.attached.iter().flat_map(AttachedPort::interfaces).collect()
    }

    /// The interfaces that they are of, each once.
    pub fn devices(&self) -> Vec<&str> {
        let devices: BTreeSet<&str> = self.interfaces().into_iter().map(device).collect();
        devices.into_iter().collect()
    }

    /// The port by which packets leave through this interface.
    pub fn of_interface(&self, name: &str) -> Option<&AttachedPort> {
        let files = |port: &AttachedPort| matches!(port.attachment, Attachment::Files { .. });
        let mut ports = self.attached.iter();
        ports.find(|port| files(port) || port.interfaces().contains(&name))
    }
}

const ATTACHMENTS: &[&str] = &["between", "egress", "ingress", "read", "write"];

/// Reads the section; `None` if a problem was reported. `ports` are the kinds that the caller can
/// open.
pub(crate) fn read(
    section: &Section<'_>,
    ports: &[&'static PortKind],
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Problem>,
) -> Option<PortConfig> {
    let before = problems.len();
    let declared: Vec<&Setting> = ports.iter().flat_map(|kind| kind.settings).collect();
    let own_keys: Vec<&str> = declared.iter().map(|setting| setting.name).collect();
    let of_every_port = |key: &str| PortSettings::SETTINGS.iter().any(|setting| setting.name == key);
    let known = |key: &str| of_every_port(key) || ATTACHMENTS.contains(&key);
    let table = section.table(|key| !ports.is_empty() || known(key));
    let also: Vec<&str> = ATTACHMENTS
        .iter()
        .copied()
        .chain(own_keys.iter().copied())
        .collect();
    let settings = PortSettings::read(&table, &also, problems);
    let own = section.table(|key| own_keys.contains(&key));
    declared
        .iter()
        .for_each(|setting| refuse_wrong(&own, &[**setting], problems));
    let named = section
        .get("kind")
        .and_then(|pair| Some((pair.value.value.as_str()?, pair.value.at)));
    let named = named.filter(|_| !ports.is_empty()).map(|(name, at)| {
        let kind = ports.iter().find(|kind| kind.name == name).copied();
        kind.ok_or_else(|| unknown("kind of port", name, at, ports.iter().map(|kind| kind.name)))
    });
    let named = named.transpose().unwrap_or_else(|problem| {
        problems.push(problem);
        None
    });
    let attached = attachments(section, problems);
    let (settings, attached) = (settings?, attached?);
    let at = |key: &str| section.get(key).map_or(section.at, |pair| pair.value.at);
    let fits = |kind: &PortKind, at: &PlacedAttachment| kind.needs == at.attachment.needs();
    if let (Some(kind), Some(first)) = (named, attached.first())
        && !attached.iter().any(|at| fits(kind, at))
    {
        let message = format!("a port of kind `{}` needs {}", kind.name, kind.needs.example());
        let problem = Problem::new(first.at, message);
        problems.push(problem.help("change the kind, or what the port is attached to"));
    }
    let attached: Vec<AttachedPort> = attached
        .into_iter()
        .map(|place| AttachedPort {
            kind: named
                .filter(|kind| fits(kind, &place))
                .or_else(|| ports.iter().copied().find(|kind| fits(kind, &place))),
            attachment: place.attachment,
        })
        .collect();
    warnings.extend(idle_settings(&attached, ports, &own));
    if settings.transmit_ring == 0 || settings.transmit_ring > 65_536 {
        let message = "`transmit_ring` must be from 1 to 65536 packets";
        problems.push(Problem::new(at("transmit_ring"), message));
    }
    if settings.spin > Duration::from_millis(10) {
        let message = "`spin` must be at most 10 ms: longer would keep a CPU busy all the time";
        problems.push(Problem::new(at("spin"), message));
    }
    if settings.lateness < Duration::from_micros(100) || settings.lateness > Duration::from_millis(10) {
        let message = "`lateness` must be from 0.1 to 10 ms: threads are later than less all the time";
        problems.push(Problem::new(at("lateness"), message));
    }
    if settings.memory < Bytes::new(32 << 20) || settings.memory > Bytes::new(64 << 30) {
        let message = "`memory` must be from 32 MiB to 64 GiB";
        problems.push(Problem::new(at("memory"), message));
    }
    if settings
        .catch_up
        .is_some_and(|time| time > Duration::from_millis(10))
    {
        let message =
            "`catch_up` must be at most 10 ms: more would be a burst that fills buffers behind this host";
        problems.push(Problem::new(at("catch_up"), message));
    }
    if settings.fail_open_after < Duration::from_millis(10) {
        let message = "`fail_open_after` must be at least 10 ms: below that every pause looks like a hang";
        problems.push(Problem::new(at("fail_open_after"), message));
    }
    (problems.len() == before).then_some(PortConfig {
        attached,
        settings,
        own,
    })
}

/// Warns of settings of other kinds, which have no effect on these ports.
fn idle_settings(attached: &[AttachedPort], ports: &[&'static PortKind], own: &Table) -> Vec<Problem> {
    let has = |kind: &PortKind, key: &str| kind.settings.iter().any(|setting| setting.name == key);
    let mut kinds: Vec<&PortKind> = attached.iter().filter_map(|port| port.kind).collect();
    kinds.dedup_by_key(|kind| kind.name);
    if kinds.is_empty() {
        return Vec::new();
    }
    let quoted = |kinds: &mut dyn Iterator<Item = &PortKind>| {
        let names: Vec<String> = kinds.map(|kind| format!("`{}`", kind.name)).collect();
        names.join(", ")
    };
    let of_none = |key: &str| !kinds.iter().any(|kind| has(kind, key));
    let idle = own.entries.iter().filter(|entry| of_none(&entry.key));
    idle.map(|entry| {
        let ours = quoted(&mut kinds.iter().copied());
        let message = format!("`{}` has no effect on a port of kind {ours}", entry.key);
        let mut others = ports.iter().copied().filter(|other| has(other, &entry.key));
        let help = format!("it is a setting of {}", quoted(&mut others));
        Problem::new(entry.key_at, message).help(help)
    })
    .collect()
}

/// What a port is attached to, with its position.
struct PlacedAttachment {
    attachment: Attachment,
    at: Span,
}

/// Reads what the ports are attached to.
fn attachments(section: &Section<'_>, problems: &mut Vec<Problem>) -> Option<Vec<PlacedAttachment>> {
    let present: Vec<_> = ATTACHMENTS.iter().filter_map(|key| section.get(key)).collect();
    let Some(first) = present.first() else {
        let help = format!(
            "write {}, or {} for the packets that this host sends, {} for those that it receives",
            Needs::TwoInterfaces.example(),
            Needs::OneInterface.example(),
            Needs::Received.example()
        );
        problems.push(Problem::new(section.at, "the port is attached to nothing").help(help));
        return None;
    };
    let is_file = |key: &str| key == "read" || key == "write";
    if let Some(second) = present[1..]
        .iter()
        .find(|pair| is_file(&pair.key) != is_file(&first.key))
    {
        let message = format!("`{}` and `{}` exclude each other", first.key, second.key);
        problems.push(Problem::new(second.key_at, message).help("keep one of them"));
        return None;
    }
    if is_file(&first.key) {
        let attachment = files(section, first.key_at, problems)?;
        let at = first.value.at;
        return Some(vec![PlacedAttachment { attachment, at }]);
    }
    let mut attached = Vec::new();
    for pair in present {
        match &*pair.key {
            "between" => attached.push(PlacedAttachment {
                attachment: between(&pair.value, problems)?,
                at: pair.value.at,
            }),
            "egress" => attached.extend(each(&pair.value, "egress", Attachment::Egress, problems)?),
            _ => {
                let received = |name: String| Attachment::Ingress(received(&name));
                attached.extend(each(&pair.value, "ingress", received, problems)?);
            }
        }
    }
    refuse_twice(&attached, problems)?;
    Some(attached)
}

/// Refuses an interface that two ports would take packets from, or send by.
fn refuse_twice(attached: &[PlacedAttachment], problems: &mut Vec<Problem>) -> Option<()> {
    let mut seen = BTreeSet::new();
    for place in attached {
        let names = match &place.attachment {
            Attachment::Between(a, b) => vec![a, b],
            Attachment::Egress(interface) | Attachment::Ingress(interface) => vec![interface],
            Attachment::Files { .. } => Vec::new(),
        };
        if let Some(name) = names.into_iter().find(|name| !seen.insert(*name)) {
            let message = format!("`{name}` is attached twice: an interface has one port");
            problems.push(Problem::new(place.at, message).help("name each interface once"));
            return None;
        }
    }
    Some(())
}

fn files(section: &Section<'_>, key_at: Span, problems: &mut Vec<Problem>) -> Option<Attachment> {
    let mut file = |key: &str| {
        if section.get(key).is_none() {
            problems.push(Problem::new(
                key_at,
                format!("`{key}` is missing: a path in quotes"),
            ));
        }
        section.text(key, problems).map(|(path, _)| path.to_owned())
    };
    let (read, write) = (file("read"), file("write"));
    Some(Attachment::Files {
        read: read?,
        write: write?,
    })
}

/// One interface, or a list of them.
fn each(
    value: &TomlValue<'_>,
    key: &str,
    attached: impl Fn(String) -> Attachment,
    problems: &mut Vec<Problem>,
) -> Option<Vec<PlacedAttachment>> {
    let one = |value: &TomlValue<'_>, problems: &mut Vec<Problem>| {
        let attachment = attached(interface(value, problems)?);
        let at = value.at;
        Some(PlacedAttachment { attachment, at })
    };
    let Some(items) = value.items() else {
        return one(value, problems).map(|place| vec![place]);
    };
    let places: Vec<_> = items.iter().map(|item| one(item, problems)).collect();
    if places.is_empty() {
        let message = format!("`{key}`: expected an interface such as \"wan0\", or a list of some");
        problems.push(Problem::new(value.at, message));
        return None;
    }
    places.into_iter().collect()
}

fn between(value: &TomlValue<'_>, problems: &mut Vec<Problem>) -> Option<Attachment> {
    let expected = "`between`: expected two interfaces such as [\"lan0\", \"wan0\"]";
    let Some(items) = value.items() else {
        problems.push(value.wrong(expected));
        return None;
    };
    let names: Vec<_> = items.iter().map(|item| interface(item, problems)).collect();
    let [a, b] = names.as_slice() else {
        problems.push(Problem::new(
            value.at,
            format!("{expected}; found {}", names.len()),
        ));
        return None;
    };
    let (a, b) = (a.clone()?, b.clone()?);
    if a == b {
        let message = format!("`{a}` twice: a port cannot connect an interface to itself");
        problems.push(Problem::new(value.at, message).help("name two different interfaces"));
        return None;
    }
    Some(Attachment::Between(a, b))
}

fn interface(value: &TomlValue<'_>, problems: &mut Vec<Problem>) -> Option<String> {
    let Some(name) = value.value.as_str() else {
        problems.push(value.wrong("expected the name of an interface in quotes"));
        return None;
    };
    match wrong_interface_name(name) {
        Some(why) => {
            problems.push(Problem::new(value.at, why));
            None
        }
        None => Some(name.to_owned()),
    }
}

/// Why the kernel has no interface of this name.
pub(crate) fn wrong_interface_name(name: &str) -> Option<String> {
    let odd = |c: char| c.is_whitespace() || c == '/' || c == ':' || c.is_control();
    if name.is_empty() || name.len() > 15 {
        return Some(format!(
            "`{name}` cannot be an interface: names have 1 to 15 characters"
        ));
    }
    name.contains(odd)
        .then(|| format!("`{name}` cannot be an interface: names have no spaces, `/` or `:`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_the_name_of_its_kind_and_each_device_once() {
        static KIND: PortKind = PortKind {
            name: "wire",
            summary: "a wire",
            needs: Needs::OneInterface,
            has_wire: true,
            alone: None,
            settings: &[],
        };
        let of = |kind, attachment| AttachedPort { kind, attachment };
        let wan = of(Some(&KIND), Attachment::Egress("wan0".into()));
        let received = of(None, Attachment::Ingress(received("wan0")));
        let bump = of(None, Attachment::Between("lan1".into(), "lan0".into()));
        assert_eq!((wan.kind_name(), wan.has_wire()), ("wire", true));
        assert_eq!((received.kind_name(), received.has_wire()), ("unknown", false));
        let settings = PortSettings::read(&Table::default(), &[], &mut Vec::new());
        let port = PortConfig {
            attached: vec![wan, received, bump],
            settings: settings.expect("all have a default"),
            own: Table::default(),
        };
        assert_eq!(port.interfaces(), ["wan0", "wan0:in", "lan1", "lan0"]);
        assert_eq!(port.devices(), ["lan0", "lan1", "wan0"]);
    }
}
