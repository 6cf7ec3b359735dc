//! `constant`: packets of one length at a constant rate.

use super::datagrams::{PACKETS, PacketSettings, read_packets, refuse_rate};
use super::kind::{FlowContext, FlowSource, LabSource, SettingGroup, SourceKind, SourceReader, Transport};
use engine::settings;
use engine::units::{Bandwidth, Bytes};
use sim::agent::Agent;
use sim::sources::Constant;
use std::sync::Arc;

/// The kind, for the list.
pub static KIND: SourceKind = SourceKind {
    name: "constant",
    summary: "packets of one length at a constant rate",
    transport: Transport::Udp,
    settings: &[&PACKETS, &OWN],
    read,
};

settings! {
    /// Settings of `constant` alone.
    pub struct ConstantSettings {
        /// The rate, counted in frames
        rate: Bandwidth = required, "", "";
    }
}

static OWN: SettingGroup = SettingGroup(ConstantSettings::SETTINGS);

#[derive(Debug)]
struct ConstantRate {
    packets: PacketSettings,
    own: ConstantSettings,
}

fn read(reader: &mut SourceReader<'_>) -> Option<Arc<dyn FlowSource>> {
    let packets = read_packets(reader);
    let own = reader.group(ConstantSettings::SETTINGS, ConstantSettings::read);
    let (packets, own) = (packets?, own?);
    refuse_rate(reader, own.rate);
    Some(Arc::new(ConstantRate { packets, own }))
}

impl FlowSource for ConstantRate {
    fn label(&self) -> String {
        KIND.name.into()
    }

    fn frames(&self) -> Option<[Bytes; 2]> {
        Some(self.packets.frames())
    }

    fn in_lab(&self) -> Option<LabSource<'_>> {
        let between = self.own.rate.time_to_send(self.packets.frame);
        Some(LabSource::Datagrams {
            frame: self.packets.frame,
            burst: 1,
            gap: between,
            period: between,
        })
    }

    fn agents(&self, context: &FlowContext<'_>) -> Vec<[Box<dyn Agent>; 2]> {
        self.packets.agents(context, Constant::rate(self.own.rate))
    }
}
