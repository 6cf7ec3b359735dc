//! What flows send: the kinds of sources and their settings.

use super::Files;
use super::flows::FlowSettings;
use control::sections::Section;
use engine::settings::{Problem, Raw, Setting, SettingValue, Table, describe};
use engine::units::{Bandwidth, Bytes, Duration};
use engine::{choices, settings};
use std::sync::Arc;

choices! {
    /// What a flow sends.
    pub enum Kind {
        /// TCP that always has something to send, or so much.
        Tcp = "tcp",
        /// TCP that answers requests.
        Request = "request",
        /// Packets of one length at a constant rate.
        Constant = "constant",
        /// Packets of one length at random times.
        Poisson = "poisson",
        /// A constant rate, now and then.
        OnOff = "on-off",
        /// Many packets at once, now and then.
        Burst = "burst",
        /// As much as its first link takes.
        Greedy = "greedy",
        /// Packets as a file of times and lengths says.
        Trace = "trace",
        /// Packets as they were captured.
        Pcap = "pcap",
    }
}

choices! {
    /// The congestion control of TCP.
    pub enum Control {
        /// CUBIC (RFC 9438).
        Cubic = "cubic",
        /// Reno (RFC 5681).
        Reno = "reno",
        /// `HighSpeed` TCP (RFC 3649).
        HighSpeed = "highspeed",
        /// Scalable TCP (Kelly 2003).
        Scalable = "scalable",
        /// Vegas (Brakmo and Peterson 1995).
        Vegas = "vegas",
        /// BBR, version 1 (2016).
        Bbr = "bbr",
        /// LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus).
        Ledbat = "ledbat++",
    }
}

/// What packets say about marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcnWord {
    /// Not capable of them.
    No,
    /// Capable: ECT(0) of RFC 3168.
    Classic,
    /// Of a sender that answers to each of them: ECT(1) of RFC 9331.
    L4s,
}

impl SettingValue for EcnWord {
    const UNIT: &'static str = "true, false or \"l4s\"";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Boolean(false) => Ok(Self::No),
            Raw::Boolean(true) => Ok(Self::Classic),
            Raw::Text(text) if text == "l4s" => Ok(Self::L4s),
            other => Err(format!("expected {}; found {}", Self::UNIT, describe(other))),
        }
    }
}

settings! {
    /// Settings of `tcp`; `request` has them too.
    pub struct TcpSettings {
        /// The congestion control
        control: Control = default "cubic", "", "what most hosts have: RFC 9438";
        /// Whether marks are asked for and obeyed
        ecn: bool = default "false", "true: marked where others are dropped", "most servers answer, few clients ask";
        /// The initial window, in full segments
        initial_window: u32 = default "10", "too small: short transfers take long; too large: bursts", "RFC 6928";
        /// The receiver's buffer, and so the largest window
        receive_window: Bytes = default "6 MiB",
            "less than rate times round trip: the connection cannot fill the link", "Linux";
        /// Whether every second segment is acknowledged, not each
        delayed_ack: bool = default "true", "false: windows grow faster", "RFC 5681, section 4.2";
        /// The least time-out
        min_rto: Duration = default "200 ms", "too small: time-outs that are none; too large: long silence", "Linux";
        /// Whether segments are spread over the round trip also where the control does not ask for it
        pacing: bool = default "false", "true: no bursts", "RFC 5681 has none";
    }
}

settings! {
    /// Settings of `tcp` alone.
    pub struct TransferSettings {
        /// How much is sent before the connection is closed
        total: Bytes = derived "without end", "", "";
    }
}

settings! {
    /// Settings of `request` alone. Requests themselves take no time.
    pub struct RequestSettings {
        /// How many bytes each answer has
        size: Bytes = required, "", "";
        /// From the last byte of an answer to the next request
        pause: Duration = default "0 s", "", "a client that never rests";
        /// How many requests there are
        requests: u32 = derived "without end", "", "";
    }
}

settings! {
    /// Settings of the kinds that send packets of one length, beside their own.
    pub struct PacketSettings {
        /// The length of each frame: Ethernet header and all above
        frame: Bytes = default "1514 B", "smaller: more packets for the same rate", "a full frame";
        /// Whether its packets say that they are ECN-capable, or of L4S, ECT(1)
        ecn: EcnWord = default "false", "true: marked where others are dropped", "most do not";
    }
}

settings! {
    /// Settings of `constant` alone.
    pub struct ConstantSettings {
        /// How fast, counted in frames
        rate: Bandwidth = required, "", "";
    }
}

settings! {
    /// Settings of `poisson` alone.
    pub struct PoissonSettings {
        /// How fast in the mean, counted in frames
        rate: Bandwidth = required, "", "";
    }
}

settings! {
    /// Settings of `on-off` alone.
    pub struct OnOffSettings {
        /// How fast while it is on, counted in frames
        rate: Bandwidth = required, "", "";
        /// How long it is on
        on: Duration = required, "", "";
        /// How long it is off
        off: Duration = required, "", "";
        /// Whether `on` and `off` are means of exponentially distributed times
        random: bool = default "true", "false: sources alike stay in step", "the usual model of a talker";
    }
}

settings! {
    /// Settings of `burst` alone.
    pub struct BurstSettings {
        /// How many frames a burst has
        frames: u32 = required, "", "";
        /// From the beginning of a burst to that of the next
        period: Duration = required, "", "";
        /// From one frame of a burst to the next
        gap: Duration = default "0 s", "", "all at once";
    }
}

settings! {
    /// Settings of `greedy` alone.
    pub struct GreedySettings {
        /// How many of its packets wait before its first link
        window: u32 = default "8", "1: a class can run empty between two packets; more than its queue holds: drops", "a few";
    }
}

settings! {
    /// Settings of `trace` and `pcap`.
    pub struct ReplaySettings {
        /// The file, relative to the place of the scenario: of `trace`, a line for each packet with its time in seconds and the length of its frame; of `pcap`, a capture
        file: String = required, "", "";
        /// Whether its packets say that they are ECN-capable, or of L4S, ECT(1)
        ecn: EcnWord = default "false", "true: marked where others are dropped", "most do not";
    }
}

/// The settings of each kind, for the documentation.
pub const KINDS: &[(&str, &[Setting])] = &[
    ("tcp and request", TcpSettings::SETTINGS),
    ("tcp", TransferSettings::SETTINGS),
    ("request", RequestSettings::SETTINGS),
    (
        "constant, poisson, on-off, burst and greedy",
        PacketSettings::SETTINGS,
    ),
    ("constant", ConstantSettings::SETTINGS),
    ("poisson", PoissonSettings::SETTINGS),
    ("on-off", OnOffSettings::SETTINGS),
    ("burst", BurstSettings::SETTINGS),
    ("greedy", GreedySettings::SETTINGS),
    ("trace and pcap", ReplaySettings::SETTINGS),
];

/// Packets to be replayed: when each was sent since the first, and the length of its frame.
pub type Packets = Arc<[(Duration, Bytes)]>;

/// What a flow sends, with the settings of its kind.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// TCP that writes without pause.
    Tcp(TcpSettings, TransferSettings),
    /// TCP that answers requests.
    Request(TcpSettings, RequestSettings),
    /// A constant rate.
    Constant(PacketSettings, ConstantSettings),
    /// Poisson arrivals.
    Poisson(PacketSettings, PoissonSettings),
    /// A constant rate, now and then.
    OnOff(PacketSettings, OnOffSettings),
    /// Bursts.
    Burst(PacketSettings, BurstSettings),
    /// As much as the first link takes.
    Greedy(PacketSettings, GreedySettings),
    /// What a file says.
    Replay(ReplaySettings, Packets),
}

impl Source {
    /// The transport protocol.
    pub(super) fn protocol(&self) -> u8 {
        match self {
            // As IANA numbers them.
            Self::Tcp(..) | Self::Request(..) => 6,
            _ => 17,
        }
    }

    /// Whether it is TCP.
    pub(super) fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp(..) | Self::Request(..))
    }

    /// Whether it is TCP of which nobody waits for an answer.
    pub(super) fn is_transfer(&self) -> bool {
        matches!(self, Self::Tcp(..))
    }

    /// In a word or two.
    pub fn words(&self) -> String {
        match self {
            Self::Tcp(settings, _) => format!("tcp {}", settings.control.name()),
            Self::Request(settings, _) => format!("request {}", settings.control.name()),
            Self::Constant(..) => "constant".into(),
            Self::Poisson(..) => "poisson".into(),
            Self::OnOff(..) => "on-off".into(),
            Self::Burst(..) => "burst".into(),
            Self::Greedy(..) => "greedy".into(),
            Self::Replay(settings, _) => settings.file.clone(),
        }
    }

    /// The shortest and the longest frame, where the kind says them.
    pub(super) fn frames(&self) -> Option<[Bytes; 2]> {
        match self {
            Self::Tcp(..) | Self::Request(..) => None,
            Self::Constant(packet, _)
            | Self::Poisson(packet, _)
            | Self::OnOff(packet, _)
            | Self::Burst(packet, _)
            | Self::Greedy(packet, _) => Some([packet.frame; 2]),
            Self::Replay(_, packets) => {
                let lengths = || packets.iter().map(|(_, length)| *length);
                lengths()
                    .min()
                    .zip(lengths().max())
                    .map(|(least, most)| [least, most])
            }
        }
    }
}

/// Reads what a flow of this kind sends.
pub(super) fn read(
    kind: Kind,
    section: &Section<'_>,
    files: Files<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Source> {
    let table = section.table(|_| true);
    let generic = FlowSettings::SETTINGS.iter().map(|setting| setting.name);
    let also: Vec<&str> = generic.chain(["between"]).collect();
    // Structs of settings have the same names, and no trait.
    macro_rules! both {
        ($kind:ident, $shared:ident, $own:ident) => {{
            let own = ($own::SETTINGS, $own::read as Reader<$own>);
            let (shared, own) = both(&table, &also, $shared::read, own, problems)?;
            Source::$kind(shared, own)
        }};
    }
    let source = match kind {
        Kind::Tcp => both!(Tcp, TcpSettings, TransferSettings),
        Kind::Request => both!(Request, TcpSettings, RequestSettings),
        Kind::Constant => both!(Constant, PacketSettings, ConstantSettings),
        Kind::Poisson => both!(Poisson, PacketSettings, PoissonSettings),
        Kind::OnOff => both!(OnOff, PacketSettings, OnOffSettings),
        Kind::Burst => both!(Burst, PacketSettings, BurstSettings),
        Kind::Greedy => both!(Greedy, PacketSettings, GreedySettings),
        Kind::Trace | Kind::Pcap => {
            let settings = ReplaySettings::read(&table, &also, problems)?;
            let packets = match kind {
                Kind::Pcap => files.capture(&settings.file),
                _ => files.text(&settings.file).and_then(|text| trace(&text)),
            };
            let wrong = |why: String| {
                let at = section.get("file").map_or(section.at, |pair| pair.value.at);
                Problem::new(at, format!("cannot replay `{}`: {why}", settings.file))
            };
            let packets = packets.map_err(|why| problems.push(wrong(why))).ok()?;
            Source::Replay(settings, packets)
        }
    };
    sensible(&source, section, problems);
    Some(source)
}

/// Reads settings.
type Reader<T> = fn(&Table, &[&str], &mut Vec<Problem>) -> Option<T>;

/// Settings that several kinds have, and those that one of them has alone.
fn both<S, T>(
    table: &Table,
    also: &[&str],
    shared: Reader<S>,
    (own, read): (&[Setting], Reader<T>),
    problems: &mut Vec<Problem>,
) -> Option<(S, T)> {
    let of_own: Vec<&str> = own.iter().map(|setting| setting.name).collect();
    let shared = shared(table, &[also, &of_own].concat(), problems);
    // What neither knows has been refused.
    let known = Table {
        entries: table
            .entries
            .iter()
            .filter(|entry| of_own.contains(&entry.key.as_str()))
            .cloned()
            .collect(),
        at: table.at,
    };
    shared.zip(read(&known, &[], problems))
}

fn sensible(source: &Source, section: &Section<'_>, problems: &mut Vec<Problem>) {
    let mut refuse = |key: &str, wrong: bool, message: &str| {
        if wrong {
            let at = section.get(key).map_or(section.at, |pair| pair.value.at);
            problems.push(Problem::new(at, message));
        }
    };
    let rate = match source {
        Source::Constant(_, ConstantSettings { rate, .. })
        | Source::Poisson(_, PoissonSettings { rate, .. })
        | Source::OnOff(_, OnOffSettings { rate, .. }) => Some(*rate),
        _ => None,
    };
    refuse(
        "rate",
        rate.is_some_and(|rate| rate > Bandwidth::gbit(800)),
        "`rate` must be at most 800 Gbit/s",
    );
    match source {
        Source::Tcp(tcp, _) | Source::Request(tcp, _) => {
            let window = tcp.initial_window == 0 || tcp.initial_window > 10_000;
            refuse(
                "initial_window",
                window,
                "`initial_window` must be from 1 to 10000 segments",
            );
            let small = tcp.receive_window < Bytes::new(1460);
            refuse(
                "receive_window",
                small,
                "`receive_window` must be at least 1460 B: one segment",
            );
        }
        Source::Burst(_, burst) => {
            refuse("frames", burst.frames == 0, "`frames` must be at least 1");
            refuse(
                "period",
                burst.period == Duration::ZERO,
                "`period` must be more than 0 s",
            );
        }
        Source::Greedy(_, greedy) => refuse("window", greedy.window == 0, "`window` must be at least 1"),
        Source::OnOff(_, on_off) => refuse("on", on_off.on == Duration::ZERO, "`on` must be more than 0 s"),
        Source::Replay(_, packets) => refuse("file", packets.is_empty(), "the file has no packets"),
        _ => {}
    }
    if let Source::Request(..) = source {
        for key in ["stop", "active", "pauses"] {
            let message = format!("`{key}` says nothing to flows of kind `request`");
            refuse(key, section.get(key).is_some(), &message);
        }
    }
}

/// Reads a trace: on each line a time in seconds and a length in bytes; `#` begins a remark.
fn trace(text: &str) -> Result<Packets, String> {
    let mut packets: Vec<(Duration, Bytes)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let fields: Vec<&str> = line
            .split([',', ' ', '\t'])
            .filter(|field| !field.is_empty())
            .collect();
        if fields.is_empty() {
            continue;
        }
        let wrong = || {
            format!(
                "line {}: expected a time in seconds and a length in bytes, such as `0.0125 1514`",
                index + 1
            )
        };
        let [time, length] = fields.as_slice() else {
            return Err(wrong());
        };
        let time: Duration = format!("{time} s").parse().map_err(|_| wrong())?;
        let length: u64 = length.parse().map_err(|_| wrong())?;
        if packets.last().is_some_and(|(before, _)| time < *before) {
            return Err(format!(
                "line {}: the time is before that of the line above",
                index + 1
            ));
        }
        packets.push((time, Bytes::new(length)));
    }
    let first = packets.first().map_or(Duration::ZERO, |(time, _)| *time);
    Ok(packets
        .into_iter()
        .map(|(time, length)| (time - first, length))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_begins_with_its_first_packet_and_its_times_do_not_fall() {
        let packets = trace("# recorded\n5.5 100\n5.500001, 1514\n\n6 60 # the last\n").expect("a trace");
        let expected = [(0, 100), (1_000, 1514), (500_000_000, 60)];
        assert_eq!(
            *packets,
            expected.map(|(ns, length)| (Duration::from_nanos(ns), Bytes::new(length)))
        );
        for (wrong, why) in [
            ("1 100\n0.5 100", "line 2"),
            ("1", "line 1"),
            ("a 100", "line 1"),
            ("1 -5", "line 1"),
        ] {
            assert!(
                trace(wrong).is_err_and(|message| message.contains(why)),
                "{wrong}"
            );
        }
    }
}
