//! `greedy`: as many packets as the first link sends; always backlogged.

use super::datagrams::{PACKETS, PacketSettings, listened, read_packets};
use super::kind::{FlowContext, FlowSource, SettingGroup, SourceKind, SourceReader, Transport};
use engine::settings;
use engine::units::Bytes;
use sim::agent::Agent;
use sim::sources::Greedy;
use std::sync::Arc;

/// The kind, for the list.
pub static KIND: SourceKind = SourceKind {
    name: "greedy",
    summary: "as many packets as its first link sends",
    transport: Transport::Udp,
    settings: &[&PACKETS, &OWN],
    read,
};

settings! {
    /// Settings of `greedy` alone.
    pub struct GreedySettings {
        /// The number of packets that it keeps queued at its first link
        window: u32 = default "8", "1: the queue may be empty between two packets; more than the queue's limit: drops", "a few";
    }
}

static OWN: SettingGroup = SettingGroup(GreedySettings::SETTINGS);

#[derive(Debug)]
struct Backlogged {
    packets: PacketSettings,
    own: GreedySettings,
}

fn read(reader: &mut SourceReader<'_>) -> Option<Arc<dyn FlowSource>> {
    let packets = read_packets(reader);
    let own = reader.group(GreedySettings::SETTINGS, GreedySettings::read);
    let (packets, own) = (packets?, own?);
    reader.refuse("window", own.window == 0, "`window` must be at least 1");
    Some(Arc::new(Backlogged { packets, own }))
}

impl FlowSource for Backlogged {
    fn label(&self) -> String {
        KIND.name.into()
    }

    fn frames(&self) -> Option<[Bytes; 2]> {
        Some(self.packets.frames())
    }

    fn agents(&self, context: &FlowContext<'_>) -> Vec<[Box<dyn Agent>; 2]> {
        listened(Greedy::new(
            self.packets.datagrams(context),
            self.own.window.into(),
        ))
    }
}
