//! The `[port]` section: which interfaces, and how frames are moved. Neutral: it opens nothing.

use crate::sections::{Section, Value};
use engine::settings::{Problem, Span};
use engine::units::Duration;
use engine::{choices, settings};

choices! {
    /// How frames reach the program.
    pub enum PortKind {
        /// Packet sockets with virtio-net headers.
        AfPacket = "af_packet",
        /// AF_XDP sockets.
        AfXdp = "af_xdp",
        /// TAP devices.
        Tap = "tap",
        /// What this host itself sends on an interface, redirected into a TAP device of ours.
        Egress = "egress",
        /// Files of packets.
        Pcap = "pcap",
        /// Memory, for tests and benchmarks.
        Memory = "memory",
    }
}

choices! {
    /// Where the program of an AF_XDP port runs.
    pub enum XdpMode {
        /// In the driver if it can, else behind it.
        Auto = "auto",
        /// In the driver.
        Native = "native",
        /// Behind the driver.
        Generic = "generic",
    }
}

choices! {
    /// When super-frames (GSO) are cut into segments before they are queued.
    pub enum Split {
        /// When one would occupy the link for longer than 1 ms at the rate of the interface.
        Auto = "auto",
        /// Always.
        Always = "always",
        /// Never.
        Never = "never",
    }
}

choices! {
    /// What makes the times of a pacing discipline come true, where it does not ask for gap frames.
    pub enum Realise {
        /// The packet loop waits for them.
        Timer = "timer",
        /// The device does (SO_TXTIME); refused where a trial shows that it does not.
        Launch = "launch",
        /// The device if a trial shows that it does, else the packet loop.
        Auto = "auto",
    }
}

choices! {
    /// What goes onto the wire in a gap, where a pacing discipline asks for gap frames.
    pub enum GapFrames {
        /// 802.3 PAUSE with time 0, which the neighbour drops.
        Pause = "pause",
        /// From the interface's address to itself, which switches do not forward.
        Void = "void",
    }
}

settings! {
    /// The settings of a port, apart from where it is.
    pub struct PortSettings {
        /// How frames reach the program
        kind: PortKind = derived "egress with `egress`, otherwise af_packet",
            "af_xdp is faster where the driver supports it; af_packet works on every interface",
            "measured: as much TCP as the kernel's own bridge";
        /// Packets that the interface may hold on their way out
        transmit_ring: u32 = default "64",
            "too small: the link idles between batches; too large: packets wait behind the scheduler, where no priority helps",
            "Cho, \"Traffic management by alternate queueing\", 1999, section 4.2.8";
        /// Packets that may wait to be taken in
        receive_ring: u32 = default "1024",
            "too small: bursts are lost before they are classified; too large: memory",
            "about 12 ms of full frames at 1 Gbit/s";
        /// Whether to spin for packets rather than sleep
        busy_poll: bool = default "false",
            "true: a processor core is busy all the time, for some microseconds less delay",
            "a core is worth more than microseconds on most links";
        /// Where the program of an af_xdp port runs
        xdp_mode: XdpMode = default "auto",
            "native: refused where the driver cannot; generic: works everywhere, and loses super-frames",
            "the driver's own mode needs no copy before the program";
        /// Whether the packet loop runs in the real-time class, where that is permitted
        realtime: bool = default "true",
            "false: on a busy machine packets wait for ticks of the scheduler; true: under full load other programs wait",
            "measured under load: 99 of 100 packets within 65 us instead of 3700 us";
        /// How long before the time of a packet the packet loop wakes, to spin for the rest
        spin: Duration = default "60 us",
            "too short: packets are late by what waking takes; too long: a processor is busy for nothing",
            "measured: a sleep ends within 40 us of its time at the median, and 100 at most mostly";
        /// What makes the times of `pacer` come true, where it does not ask for gap frames
        realiser: Realise = default "timer",
            "launch: refused where the driver does not keep launch times; auto: tries with a frame that the neighbour drops",
            "timers work by every port";
        /// What goes onto the wire in a gap, where `pacer` asks for gap frames
        gap_frame: GapFrames = default "pause",
            "void: for cards that drop flow-control frames of the host, and beside real flow control",
            "the PSPacer paper, section 3.2";
        /// When super-frames are cut into segments
        split: Split = default "auto",
            "never: a super-frame of 64 KiB holds the others up for its whole length; always: more work per byte",
            "1 ms is below what a voice call notices";
        /// After how long without a sign of life traffic takes the kernel's own path
        fail_open_after: Duration = default "50 ms",
            "too short: a busy machine falls into bypass; too long: a hang stops traffic for that time",
            "half of the 100 ms within which traffic is to flow again";
    }
}

/// Where a port is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A bump in the wire between two interfaces: what enters by one leaves by the other.
    Between(String, String),
    /// What this host itself sends on this interface.
    Egress(String),
    /// From one file of packets into another.
    Files {
        /// Where packets come from.
        read: String,
        /// Where they go.
        write: String,
    },
}

/// A checked `[port]` section.
#[derive(Clone, PartialEq, Debug)]
pub struct PortConfig {
    /// How frames reach the program.
    pub kind: PortKind,
    /// Where.
    pub place: Place,
    /// The rest. `settings.kind` is what the policy says, `kind` what follows.
    pub settings: PortSettings,
}

impl PortConfig {
    /// The interfaces by which packets can leave; none where the policy may choose the name.
    pub fn interfaces(&self) -> Vec<&str> {
        match &self.place {
            Place::Between(a, b) => vec![a, b],
            Place::Egress(interface) => vec![interface],
            Place::Files { .. } => Vec::new(),
        }
    }
}

const PLACES: &[&str] = &["between", "egress", "read", "write"];

/// Reads the section; `None` if a problem was reported.
pub(crate) fn read(section: &Section<'_>, problems: &mut Vec<Problem>) -> Option<PortConfig> {
    let before = problems.len();
    let settings = PortSettings::read(&section.table(|_| true), PLACES, problems);
    let kind_at = section.get("kind").map_or(section.at, |pair| pair.value.at);
    let place = place(section, problems);
    let (settings, (place, place_at)) = (settings?, place?);
    let kind = settings.kind.unwrap_or(match place {
        Place::Between(..) => PortKind::AfPacket,
        Place::Egress(_) => PortKind::Egress,
        Place::Files { .. } => PortKind::Pcap,
    });
    let fits = match place {
        Place::Between(..) => !matches!(kind, PortKind::Egress | PortKind::Pcap),
        Place::Egress(_) => kind == PortKind::Egress,
        Place::Files { .. } => kind == PortKind::Pcap,
    };
    if !fits {
        let needs = match kind {
            PortKind::Egress => "`egress = \"eth0\"`",
            PortKind::Pcap => "`read = \"in.pcapng\"` and `write = \"out.pcapng\"`",
            _ => "`between = [\"lan0\", \"wan0\"]`",
        };
        let message = format!("a port of kind `{}` needs {needs}", kind.name());
        problems.push(Problem::new(place_at, message).help("change the kind, or where the port is"));
    }
    let at = |key: &str| section.get(key).map_or(kind_at, |pair| pair.value.at);
    for (key, value) in [
        ("transmit_ring", settings.transmit_ring),
        ("receive_ring", settings.receive_ring),
    ] {
        if value == 0 || value > 65_536 {
            problems.push(Problem::new(
                at(key),
                format!("`{key}` must be from 1 to 65536 packets"),
            ));
        }
    }
    if settings.spin > Duration::from_millis(10) {
        let message = "`spin` must be at most 10 ms: a processor would be busy all the time";
        problems.push(Problem::new(at("spin"), message));
    }
    if settings.fail_open_after < Duration::from_millis(10) {
        let message = "`fail_open_after` must be at least 10 ms: below that every pause looks like a hang";
        problems.push(Problem::new(at("fail_open_after"), message));
    }
    (problems.len() == before).then_some(PortConfig {
        kind,
        place,
        settings,
    })
}

fn place(section: &Section<'_>, problems: &mut Vec<Problem>) -> Option<(Place, Span)> {
    let given: Vec<_> = PLACES.iter().filter_map(|key| section.get(key)).collect();
    let Some(first) = given.first() else {
        problems.push(
            Problem::new(section.at, "the port does not say where it is")
                .help("write `between = [\"lan0\", \"wan0\"]`, or `egress = \"eth0\"` for what this host itself sends"),
        );
        return None;
    };
    let files = |key: &str| key == "read" || key == "write";
    if let Some(second) = given[1..]
        .iter()
        .find(|pair| !(files(pair.key) && files(first.key)))
    {
        let message = format!("`{}` and `{}` exclude each other", first.key, second.key);
        problems.push(Problem::new(second.key_at, message).help("keep one of them"));
        return None;
    }
    let place = match first.key {
        "between" => between(&first.value, problems)?,
        "egress" => Place::Egress(interface(&first.value, problems)?),
        _ => {
            let mut file = |key: &str| {
                if section.get(key).is_none() {
                    problems.push(Problem::new(
                        first.key_at,
                        format!("`{key}` is missing: a path in quotes"),
                    ));
                }
                section.text(key, problems).map(|(path, _)| path.to_owned())
            };
            let (read, write) = (file("read"), file("write"));
            Place::Files {
                read: read?,
                write: write?,
            }
        }
    };
    Some((place, first.value.at))
}

fn between(value: &Value<'_>, problems: &mut Vec<Problem>) -> Option<Place> {
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
        let message = format!("`{a}` twice: a port between an interface and itself goes nowhere");
        problems.push(Problem::new(value.at, message).help("name two different interfaces"));
        return None;
    }
    Some(Place::Between(a, b))
}

fn interface(value: &Value<'_>, problems: &mut Vec<Problem>) -> Option<String> {
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
        .then(|| format!("`{name}` cannot be an interface: names have no blanks, `/` or `:`"))
}
