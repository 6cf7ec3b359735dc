//! Settings and agents that the kinds of datagram sources share.

use super::kind::{FlowContext, SettingGroup, SourceReader};
use engine::packet::Ecn;
use engine::settings;
use engine::units::{Bandwidth, Bytes};
use sim::agent::Agent;
use sim::sources::{Active, DatagramSource, Datagrams, Listener, Timing};

settings! {
    /// Settings of the kinds that send packets of one length, beside their own.
    pub struct PacketSettings {
        /// The length of each frame: Ethernet header and all above
        frame: Bytes = default "1514 B", "smaller: more packets for the same rate", "a full frame";
        /// Whether its packets are ECN-capable: ECT(0), or ECT(1) for L4S
        ecn: Ecn = default "false", "true: packets are marked where others are dropped", "most are not";
    }
}

/// The group of these settings.
pub(super) static PACKETS: SettingGroup = SettingGroup(PacketSettings::SETTINGS);

/// Reads the settings of packets of one length.
pub(super) fn read_packets(reader: &mut SourceReader<'_>) -> Option<PacketSettings> {
    reader.group(PacketSettings::SETTINGS, PacketSettings::read)
}

/// Refuses a rate that is out of range.
pub(super) fn refuse_rate(reader: &mut SourceReader<'_>, rate: Bandwidth) {
    let too_fast = rate > Bandwidth::gbit(800);
    reader.refuse("rate", too_fast, "`rate` must be at most 800 Gbit/s");
}

impl PacketSettings {
    /// The shortest and the longest frame.
    pub(super) fn frames(&self) -> [Bytes; 2] {
        [self.frame; 2]
    }

    /// The datagrams of one copy of a flow.
    pub(super) fn datagrams(&self, context: &FlowContext<'_>) -> Datagrams {
        datagrams(context, self.frame, self.ecn)
    }

    /// The agents of one copy of a flow that sends packets with this timing.
    pub(super) fn agents(&self, context: &FlowContext<'_>, timing: impl Timing) -> Vec<[Box<dyn Agent>; 2]> {
        listened(DatagramSource::new(self.datagrams(context), timing))
    }
}

/// The datagrams of a copy of a flow, with this ECN field.
pub(super) fn datagrams(context: &FlowContext<'_>, frame: Bytes, ecn: Ecn) -> Datagrams {
    Datagrams::new(frame, context.seed)
        .active(Active::spans(context.active))
        .ecn(ecn)
}

/// A source of datagrams, and the listener at the other end.
pub(super) fn listened(source: impl Agent) -> Vec<[Box<dyn Agent>; 2]> {
    vec![[Box::new(source), Box::new(Listener::default())]]
}
