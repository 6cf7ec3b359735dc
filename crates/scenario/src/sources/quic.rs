//! `quic`: a QUIC connection that always has data to send, or a total, on one stream or several.

use super::connection::{ConnectionSettings, Connections};
use super::kind::{
    FlowContext, FlowSource, MeasuredDelays, SettingGroup, SourceKind, SourceReader, Transport,
};
use engine::settings;
use engine::units::{Bytes, Duration};
use sim::agent::Agent;
use sim::quic;
use sim::quic::application::BulkStreams;
use sim::tcp::{ControlKind, OwnControl};
use std::sync::Arc;

/// The kind, for the list.
pub static KIND: SourceKind = SourceKind {
    name: "quic",
    summary: "QUIC that always has data to send, or a total, on one stream or several",
    transport: Transport::Quic,
    settings: &[&GROUP, &TRANSFER],
    read,
};

settings! {
    /// Settings of a QUIC connection; `quic-request` has them too.
    pub struct QuicSettings {
        /// The congestion control; `reno` is the NewReno of RFC 9002
        control: &'static ControlKind = default "cubic", "", "most implementations: RFC 9438";
        /// Whether packets say that they are ECN-capable
        ecn: bool = default "false", "true: packets are marked where others are dropped", "few implementations have it on";
        /// The initial congestion window, in full datagrams
        initial_window: u32 = default "10", "too small: short transfers take long; too large: bursts", "RFC 9002, section 7.2";
        /// How much the receiver accepts beyond what its program has read, of all streams together
        receive_window: Bytes = default "6 MiB",
            "less than rate times round-trip time: the connection cannot fill the link", "as of TCP here";
        /// The packets after which an acknowledgment is sent
        ack_every: u32 = default "2", "1: cwnd grows by smaller steps; many: bursts, and late news of losses", "RFC 9000, section 13.2.2";
        /// The longest delay of an acknowledgment
        max_ack_delay: Duration = default "25 ms", "too long: probes come late", "RFC 9000, section 18.2";
        /// Whether slow start ends when the round-trip time rises (HyStart++), in controls with
        /// Reno's slow start
        hystart: bool = default "false", "true: fewer drops at the end of slow start", "RFC 9406 has it on";
        /// Whether packets are paced, at 5/4 cwnd per round trip where the congestion control has
        /// no rate of its own
        pacing: bool = default "true", "false: bursts, of the initial window at most", "RFC 9002, section 7.7";
    }
}

/// The settings of a connection, for the kinds that have one.
pub(super) static GROUP: SettingGroup = SettingGroup(QuicSettings::SETTINGS);

settings! {
    /// Settings of `quic` alone.
    pub struct StreamSettings {
        /// How much is sent on all streams together before they are closed
        total: Bytes = derived "without end", "", "";
        /// The streams that take turns, a packet each
        streams: u32 = default "1", "", "";
    }
}

static TRANSFER: SettingGroup = SettingGroup(StreamSettings::SETTINGS);

/// The streams of a connection at most.
pub(super) const MOST_STREAMS: u32 = 256;

/// A connection.
pub(super) type QuicConnection = Connections<QuicSettings>;

#[derive(Clone, Debug)]
struct Streams {
    connection: QuicConnection,
    own: StreamSettings,
}

fn read(reader: &mut SourceReader<'_>) -> Option<Arc<dyn FlowSource>> {
    let connection = QuicConnection::read(reader);
    let own = reader.group(StreamSettings::SETTINGS, StreamSettings::read)?;
    refuse_streams(reader, own.streams);
    Some(Arc::new(Streams {
        connection: connection?,
        own,
    }))
}

/// Refuses a number of streams that there cannot be.
pub(super) fn refuse_streams(reader: &mut SourceReader<'_>, streams: u32) {
    let wrong = !(1..=MOST_STREAMS).contains(&streams);
    let message = format!("`streams` must be from 1 to {MOST_STREAMS}");
    reader.refuse("streams", wrong, &message);
}

impl QuicSettings {
    /// The simulator's settings of the connection.
    fn connection(&self, mtu: Bytes) -> quic::Settings {
        quic::Settings {
            control: self.control,
            own_control: None,
            mtu,
            initial_window: self.initial_window,
            receive_window: self.receive_window,
            ecn: self.ecn,
            ack_every: self.ack_every,
            max_ack_delay: self.max_ack_delay,
            hystart: self.hystart,
            pacing: self.pacing,
        }
    }
}

impl QuicConnection {
    /// That which a section describes.
    pub(super) fn read(reader: &mut SourceReader<'_>) -> Option<Self> {
        let settings = reader.group(QuicSettings::SETTINGS, QuicSettings::read)?;
        reader.refuse(
            "initial_window",
            !(1..=10_000).contains(&settings.initial_window),
            "`initial_window` must be from 1 to 10000 datagrams",
        );
        reader.refuse(
            "receive_window",
            settings.receive_window < Bytes::new(1460),
            "`receive_window` must be at least 1460 B: one datagram",
        );
        reader.refuse(
            "ack_every",
            !(1..=1_000).contains(&settings.ack_every),
            "`ack_every` must be from 1 to 1000 packets",
        );
        // Section 18.2: values of 2¹⁴ ms and more are invalid.
        reader.refuse(
            "max_ack_delay",
            settings.max_ack_delay >= Duration::from_millis(1 << 14),
            "`max_ack_delay` must be less than 16384 ms",
        );
        Some(Self::new(settings))
    }
}

impl ConnectionSettings for QuicSettings {
    type Simulated = quic::Settings;

    fn control(&self) -> &'static ControlKind {
        self.control
    }

    fn simulated(&self, mtu: Bytes, own: Option<OwnControl>) -> quic::Settings {
        quic::Settings {
            own_control: own,
            ..self.connection(mtu)
        }
    }
}

impl FlowSource for Streams {
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

    fn agents(&self, context: &FlowContext<'_>) -> Vec<[Box<dyn Agent>; 2]> {
        let writer = BulkStreams::new(self.own.streams, self.own.total, context.active);
        let settings = self.connection.settings(context.mtu);
        vec![quic::pair(&settings, Box::new(writer))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::settings::{Raw, Table};
    use sim::tcp::congestion::{cubic, prague};

    #[test]
    fn every_setting_of_a_scenario_reaches_the_connection() {
        let table = Table::default()
            .text("control", "prague")
            .with("ecn", Raw::Boolean(true))
            .with("initial_window", Raw::Integer(4))
            .text("receive_window", "1 MiB")
            .with("ack_every", Raw::Integer(10))
            .text("max_ack_delay", "5 ms")
            .with("hystart", Raw::Boolean(true))
            .with("pacing", Raw::Boolean(false));
        assert_eq!(table.entries.len(), QuicSettings::SETTINGS.len());
        let settings = QuicSettings::read(&table, &[], &mut Vec::new()).expect("settings");
        let expected = quic::Settings {
            control: &prague::CONTROL,
            own_control: None,
            mtu: Bytes::new(9_000),
            initial_window: 4,
            receive_window: Bytes::new(1 << 20),
            ecn: true,
            ack_every: 10,
            max_ack_delay: Duration::from_millis(5),
            hystart: true,
            pacing: false,
        };
        assert_eq!(settings.connection(Bytes::new(9_000)), expected);
    }

    #[test]
    fn the_defaults_are_those_of_the_simulator_but_for_the_control() {
        let settings = QuicSettings::read(&Table::default(), &[], &mut Vec::new()).expect("defaults");
        let defaults = quic::Settings {
            control: &cubic::CONTROL,
            ..quic::Settings::default()
        };
        assert_eq!(settings.connection(defaults.mtu), defaults);
    }
}
