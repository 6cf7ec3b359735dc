//! `tcp`: a TCP connection that always has data to send, or a total.

use super::connection::{ConnectionSettings, Connections};
use super::kind::{
    FlowContext, FlowSource, LabSource, MeasuredDelays, NineSettings, SettingGroup, SourceKind, SourceReader,
    Transport,
};
use engine::settings;
use engine::settings::{Raw, SettingValue, describe};
use engine::units::{Bandwidth, Bytes, Duration};
use host::DataDirection;
use sim::agent::Agent;
use sim::tcp;
use sim::tcp::{ControlKind, OwnControl, Recovery, RtoRule};
use std::sync::Arc;

/// The kind, for the list.
pub static KIND: SourceKind = SourceKind {
    name: "tcp",
    summary: "TCP that always has data to send, or a total",
    transport: Transport::Tcp,
    settings: &[&GROUP, &TRANSFER],
    read,
};

settings! {
    /// Settings of a TCP connection; `request`, `web` and `video` have them too.
    pub struct TcpSettings {
        /// The congestion control
        control: &'static ControlKind = default "cubic", "", "what most hosts have: RFC 9438";
        /// Whether ECN is negotiated
        ecn: bool = default "false", "true: packets are marked where others are dropped", "most servers accept it, few clients ask";
        /// The initial congestion window, in full segments
        initial_window: u32 = default "10", "too small: short transfers take long; too large: bursts", "RFC 6928";
        /// The receive buffer, which limits the advertised window
        receive_window: Bytes = default "6 MiB",
            "less than rate times round-trip time: the connection cannot fill the link", "Linux";
        /// Whether only every second segment is acknowledged
        delayed_ack: bool = default "true", "false: cwnd grows faster", "RFC 5681, section 4.2";
        /// Whether cwnd grows by the bytes that ACKs acknowledge, not by the number of ACKs
        byte_counting: bool = default "true", "false: cwnd grows half as fast with delayed ACKs", "RFC 3465; Linux";
        /// Whether slow start ends when the round-trip time rises (HyStart++), in controls with
        /// Reno's slow start
        hystart: bool = default "false", "true: fewer drops at the end of slow start", "RFC 9406 has it on";
        /// Whether a loss reduces cwnd by a part of cwnd, as in Linux, also where less was in
        /// flight, and not to a part of what was
        whole_cwnd: bool = default "false",
            "true: a sender that its receiver's window limits remembers more", "RFC 5681; Linux has true";
        /// The rule of the retransmission timeout: Linux's, or RFC 6298's
        rto: RtoRule = default "linux",
            "rfc6298: where the round-trip time exceeds min_rto, a growing queue expires the timer", "Linux";
        /// The least of that rule: of the variance term (linux), or of the timeout (rfc6298)
        min_rto: Duration = derived "200 ms; 1 s with rto = \"rfc6298\"",
            "too small: spurious timeouts; too large: long silence", "Linux's TCP_RTO_MIN; RFC 6298, 2.4";
        /// How losses are found and repaired: by what receivers report (sack, linux-2.4-sack), or
        /// without SACK by duplicate ACKs
        recovery: Recovery = default "sack",
            "newreno, linux-2.4: a window with many losses takes a round trip for each, or a timeout",
            "RFC 2018, 6675 and 9937; RFC 6582";
        /// Whether losses are detected by time (RACK), not by three SACKed segments
        rack: bool = default "true", "false: RFC 6675, as before Linux 4.18", "RFC 8985; Linux";
        /// Whether a tail loss probe precedes the retransmission timeout
        tlp: bool = default "true", "false: losses at the end of a transfer end in a timeout", "RFC 8985; Linux";
        /// Whether segments are paced even if the congestion control does not require it
        pacing: bool = default "false", "true: no bursts", "RFC 5681 has none";
    }
}

/// The settings of a connection, for the kinds that have one.
pub(super) static GROUP: SettingGroup = SettingGroup(TcpSettings::SETTINGS);

settings! {
    /// Settings of `tcp` alone.
    pub struct TransferSettings {
        /// How much is sent before the connection is closed
        total: Bytes = derived "without end", "", "";
        /// Whether one of its ends runs it under `nine`, so that it yields to other traffic there:
        /// true: its receiver, as a download; sender: its sender, as an upload
        nine: UnderNine = default "false", "", "a transfer yields only where it is asked to";
        /// Under nine: its share of what other traffic leaves, relative to the host's other flows
        /// under nine in its direction
        weight: u32 = derived "1", "1 to 1000", "";
        /// Under nine: the greatest rate of all its copies together
        cap: Bandwidth = derived "none", "below two segments per round trip, connections take turns of half a second", "";
        /// Under nine: the rate up to which it need not yield
        floor: Bandwidth = derived "nothing", "too large: other traffic is delayed; none: it may almost stop", "";
        /// Under nine: the line's rate as stated by `bottlenet`, for all that arrives by this
        /// interface of the host, or of an upload for all that leaves by it
        bottlenet: Bandwidth = derived "auto: estimated",
            "a wrong rate is overruled by what is measured, after a while", "";
    }
}

/// Which end runs a flow under `nine`, if one does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnderNine(pub Option<DataDirection>);

impl SettingValue for UnderNine {
    const UNIT: &'static str = "true (its receiver), \"sender\" or false";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Boolean(is) => Ok(Self(is.then_some(DataDirection::Download))),
            Raw::Text(text) if text == "sender" => Ok(Self(Some(DataDirection::Upload))),
            other => Err(format!("expected {}; found {}", Self::UNIT, describe(other))),
        }
    }
}

static TRANSFER: SettingGroup = SettingGroup(TransferSettings::SETTINGS);

/// The connections of a flow.
pub(super) type TcpConnections = Connections<TcpSettings>;

#[derive(Clone, Debug)]
struct Transfer {
    connection: TcpConnections,
    total: Option<Bytes>,
    nine: Option<NineSettings>,
}

fn read(reader: &mut SourceReader<'_>) -> Option<Arc<dyn FlowSource>> {
    let connection = TcpConnections::read(reader);
    let transfer = reader.group(TransferSettings::SETTINGS, TransferSettings::read);
    let transfer = transfer?;
    let nine = read_nine(reader, &transfer);
    Some(Arc::new(Transfer {
        connection: connection?,
        total: transfer.total,
        nine,
    }))
}

/// What `nine` is told, if it runs; its options mean nothing without it.
fn read_nine(reader: &mut SourceReader<'_>, settings: &TransferSettings) -> Option<NineSettings> {
    for key in ["weight", "cap", "floor", "bottlenet"] {
        let alone = settings.nine.0.is_none() && reader.section.get(key).is_some();
        reader.refuse(
            key,
            alone,
            &format!("`{key}` is an option of nine: write `nine = true`, or `nine = \"sender\"`, too"),
        );
    }
    let weight = settings.weight.unwrap_or(1);
    reader.refuse(
        "weight",
        !(1..=1000).contains(&weight),
        "`weight` must be from 1 to 1000",
    );
    let above = settings
        .floor
        .zip(settings.cap)
        .is_some_and(|(floor, cap)| floor > cap);
    reader.refuse("floor", above, "the floor is above the cap");
    settings.nine.0.map(|direction| NineSettings {
        direction,
        weight,
        cap: settings.cap,
        floor: settings.floor,
        bottlenet: settings.bottlenet,
    })
}

/// Refuses the keys that say when a flow sends, where the other end decides that.
pub(super) fn refuse_times(reader: &mut SourceReader<'_>, kind: &str) {
    for key in ["stop", "active", "pauses"] {
        let given = reader.section.get(key).is_some();
        let message = format!("`{key}` does not apply to flows of kind `{kind}`");
        reader.refuse(key, given, &message);
    }
}

/// Reads and checks the settings of a connection.
fn read_connection(reader: &mut SourceReader<'_>) -> Option<TcpSettings> {
    let settings = reader.group(TcpSettings::SETTINGS, TcpSettings::read)?;
    reader.refuse(
        "initial_window",
        settings.initial_window == 0 || settings.initial_window > 10_000,
        "`initial_window` must be from 1 to 10000 segments",
    );
    reader.refuse(
        "receive_window",
        settings.receive_window < Bytes::new(1460),
        "`receive_window` must be at least 1460 B: one segment",
    );
    for key in ["rack", "tlp"] {
        reader.refuse(
            key,
            settings.recovery != Recovery::Sack && reader.section.get(key).is_some(),
            &format!(
                "`{key}` belongs to `recovery = \"sack\"`; `{}` does without",
                settings.recovery.name()
            ),
        );
    }
    Some(settings)
}

impl TcpSettings {
    /// The simulator's settings of the connection.
    pub(super) fn connection(&self, mtu: Bytes) -> tcp::Settings {
        tcp::Settings {
            control: self.control,
            mtu,
            initial_window: self.initial_window,
            receive_window: self.receive_window,
            ecn: self.ecn,
            delayed_ack: self.delayed_ack,
            byte_counting: self.byte_counting,
            hystart: self.hystart,
            whole_cwnd: self.whole_cwnd,
            rto: self.rto,
            min_rto: self.min_rto,
            recovery: self.recovery,
            rack: self.rack,
            tlp: self.tlp,
            pacing: self.pacing,
            ..tcp::Settings::default()
        }
    }
}

impl ConnectionSettings for TcpSettings {
    type Simulated = tcp::Settings;

    fn control(&self) -> &'static ControlKind {
        self.control
    }

    fn simulated(&self, mtu: Bytes, own: Option<OwnControl>) -> tcp::Settings {
        tcp::Settings {
            own_control: own,
            ..self.connection(mtu)
        }
    }
}

impl TcpConnections {
    /// Those that a section describes.
    pub(super) fn read(reader: &mut SourceReader<'_>) -> Option<Self> {
        read_connection(reader).map(Self::new)
    }
}

impl FlowSource for Transfer {
    fn label(&self) -> String {
        self.connection.label(&KIND)
    }

    fn with_control(&self, own: OwnControl) -> Option<Arc<dyn FlowSource>> {
        Some(Arc::new(Self {
            connection: self.connection.with(own),
            ..self.clone()
        }))
    }

    fn delays(&self) -> MeasuredDelays {
        MeasuredDelays::Unmeasured
    }

    fn nine(&self) -> Option<NineSettings> {
        self.nine
    }

    fn in_lab(&self) -> Option<LabSource<'_>> {
        Some(LabSource::Bulk {
            control: self.connection.settings.control.name,
            total: self.total,
        })
    }

    fn agents(&self, context: &FlowContext<'_>) -> Vec<[Box<dyn Agent>; 2]> {
        vec![tcp::pair(&tcp::Settings {
            total: self.total,
            active: context.active.to_vec(),
            ..self.connection.settings(context.mtu)
        })]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::settings::{Raw, Table};

    #[test]
    fn every_setting_of_a_scenario_reaches_the_connection() {
        let table = Table::default()
            .text("control", "vegas")
            .with("ecn", Raw::Boolean(true))
            .with("initial_window", Raw::Integer(4))
            .text("receive_window", "1 MiB")
            .with("delayed_ack", Raw::Boolean(false))
            .with("byte_counting", Raw::Boolean(false))
            .with("hystart", Raw::Boolean(true))
            .with("whole_cwnd", Raw::Boolean(true))
            .text("rto", "rfc6298")
            .text("min_rto", "300 ms")
            .text("recovery", "linux-2.4")
            .with("rack", Raw::Boolean(false))
            .with("tlp", Raw::Boolean(false))
            .with("pacing", Raw::Boolean(true));
        assert_eq!(table.entries.len(), TcpSettings::SETTINGS.len());
        let settings = TcpSettings::read(&table, &[], &mut Vec::new()).expect("settings");
        let expected = tcp::Settings {
            control: &tcp::congestion::vegas::CONTROL,
            mtu: Bytes::new(9_000),
            initial_window: 4,
            receive_window: Bytes::new(1 << 20),
            ecn: true,
            delayed_ack: false,
            byte_counting: false,
            hystart: true,
            whole_cwnd: true,
            rto: RtoRule::Rfc6298,
            min_rto: Some(Duration::from_millis(300)),
            recovery: Recovery::Linux24,
            rack: false,
            tlp: false,
            pacing: true,
            ..tcp::Settings::default()
        };
        assert_eq!(settings.connection(Bytes::new(9_000)), expected);
    }

    #[test]
    fn the_defaults_are_those_of_the_simulator_but_for_the_control() {
        let settings = TcpSettings::read(&Table::default(), &[], &mut Vec::new()).expect("defaults");
        let defaults = tcp::Settings {
            control: &tcp::congestion::cubic::CONTROL,
            ..tcp::Settings::default()
        };
        assert_eq!(settings.connection(defaults.mtu), defaults);
    }
}
