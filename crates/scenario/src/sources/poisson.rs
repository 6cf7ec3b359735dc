//! `poisson`: packets of one length at random times.

use super::datagrams::{PACKETS, PacketSettings, read_packets, refuse_rate};
use super::kind::{FlowContext, FlowSource, SettingGroup, SourceKind, SourceReader, Transport};
use engine::settings;
use engine::units::{Bandwidth, Bytes};
use sim::agent::Agent;
use sim::sources::Poisson;
use std::sync::Arc;

/// The kind, for the list.
pub static KIND: SourceKind = SourceKind {
    name: "poisson",
    summary: "packets of one length at random times",
    transport: Transport::Udp,
    settings: &[&PACKETS, &OWN],
    read,
};

settings! {
    /// Settings of `poisson` alone.
    pub struct PoissonSettings {
        /// The mean rate, counted in frames
        rate: Bandwidth = required, "", "";
    }
}

static OWN: SettingGroup = SettingGroup(PoissonSettings::SETTINGS);

#[derive(Debug)]
struct PoissonArrivals {
    packets: PacketSettings,
    own: PoissonSettings,
}

fn read(reader: &mut SourceReader<'_>) -> Option<Arc<dyn FlowSource>> {
    let packets = read_packets(reader);
    let own = reader.group(PoissonSettings::SETTINGS, PoissonSettings::read);
    let (packets, own) = (packets?, own?);
    refuse_rate(reader, own.rate);
    Some(Arc::new(PoissonArrivals { packets, own }))
}

impl FlowSource for PoissonArrivals {
    fn label(&self) -> String {
        KIND.name.into()
    }

    fn frames(&self) -> Option<[Bytes; 2]> {
        Some(self.packets.frames())
    }

    fn agents(&self, context: &FlowContext<'_>) -> Vec<[Box<dyn Agent>; 2]> {
        let timing = Poisson::rate(self.own.rate, &self.packets.frame.into(), context.seed);
        self.packets.agents(context, timing)
    }
}
