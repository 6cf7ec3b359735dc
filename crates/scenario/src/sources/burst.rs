//! `burst`: a number of packets at once, every period.

use super::datagrams::{PACKETS, PacketSettings, read_packets};
use super::kind::{FlowContext, FlowSource, LabSource, SettingGroup, SourceKind, SourceReader, Transport};
use engine::settings;
use engine::units::{Bytes, Duration};
use sim::agent::Agent;
use sim::sources::Burst;
use std::sync::Arc;

/// The kind, for the list.
pub static KIND: SourceKind = SourceKind {
    name: "burst",
    summary: "many packets at once, periodically",
    transport: Transport::Udp,
    settings: &[&PACKETS, &OWN],
    read,
};

settings! {
    /// Settings of `burst` alone.
    pub struct BurstSettings {
        /// The number of frames of a burst
        frames: u32 = required, "", "";
        /// From the start of a burst to the start of the next
        period: Duration = required, "", "";
        /// From one frame of a burst to the next
        gap: Duration = default "0 s", "", "all at once";
    }
}

static OWN: SettingGroup = SettingGroup(BurstSettings::SETTINGS);

#[derive(Debug)]
struct Bursts {
    packets: PacketSettings,
    own: BurstSettings,
}

fn read(reader: &mut SourceReader<'_>) -> Option<Arc<dyn FlowSource>> {
    let packets = read_packets(reader);
    let own = reader.group(BurstSettings::SETTINGS, BurstSettings::read);
    let (packets, own) = (packets?, own?);
    reader.refuse("frames", own.frames == 0, "`frames` must be at least 1");
    reader.refuse(
        "period",
        own.period == Duration::ZERO,
        "`period` must be more than 0 s",
    );
    Some(Arc::new(Bursts { packets, own }))
}

impl FlowSource for Bursts {
    fn label(&self) -> String {
        KIND.name.into()
    }

    fn frames(&self) -> Option<[Bytes; 2]> {
        Some(self.packets.frames())
    }

    fn in_lab(&self) -> Option<LabSource<'_>> {
        Some(LabSource::Datagrams {
            frame: self.packets.frame,
            burst: self.own.frames,
            gap: self.own.gap,
            period: self.own.period,
        })
    }

    fn agents(&self, context: &FlowContext<'_>) -> Vec<[Box<dyn Agent>; 2]> {
        let timing = Burst::every(self.own.period, self.own.frames.into(), self.own.gap);
        self.packets.agents(context, timing)
    }
}
