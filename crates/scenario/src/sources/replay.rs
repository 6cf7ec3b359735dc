//! Replays the packets of a file, for `trace` and `pcap`.

use super::datagrams::{datagrams, listened};
use super::kind::{FlowContext, FlowSource, SettingGroup, SourceReader};
use crate::folder::{Files, Packets};
use engine::packet::Ecn;
use engine::settings;
use engine::settings::Problem;
use engine::units::Bytes;
use sim::agent::Agent;
use sim::sources::{DatagramSource, Replay};
use std::sync::Arc;

settings! {
    /// Settings of `trace` and `pcap`.
    pub struct ReplaySettings {
        /// The file, relative to the directory of the scenario: for `trace`, a line per packet with
        /// its time in seconds and the length of its frame; for `pcap`, a capture
        file: String = required, "", "";
        /// Whether its packets are ECN-capable: ECT(0), or ECT(1) for L4S
        ecn: Ecn = default "false", "true: packets are marked where others are dropped", "most are not";
    }
}

/// The settings, for both kinds.
pub(super) static GROUP: SettingGroup = SettingGroup(ReplaySettings::SETTINGS);

#[derive(Debug)]
struct Recording {
    settings: ReplaySettings,
    packets: Packets,
}

/// Reads the settings, and the packets of the file by `packets`.
pub(super) fn read(
    reader: &mut SourceReader<'_>,
    packets: fn(Files<'_>, &str) -> Result<Packets, String>,
) -> Option<Arc<dyn FlowSource>> {
    let settings = reader.group(ReplaySettings::SETTINGS, ReplaySettings::read)?;
    let packets = match packets(reader.files, &settings.file) {
        Ok(packets) => packets,
        Err(why) => {
            let at = reader
                .section
                .get("file")
                .map_or(reader.section.at, |pair| pair.value.at);
            let message = format!("cannot replay `{}`: {why}", settings.file);
            reader.problems.push(Problem::new(at, message));
            return None;
        }
    };
    reader.refuse("file", packets.is_empty(), "the file has no packets");
    Some(Arc::new(Recording { settings, packets }))
}

impl FlowSource for Recording {
    fn label(&self) -> String {
        self.settings.file.clone()
    }

    fn frames(&self) -> Option<[Bytes; 2]> {
        let lengths = || self.packets.iter().map(|(_, length)| *length);
        Some([lengths().min()?, lengths().max()?])
    }

    fn agents(&self, context: &FlowContext<'_>) -> Vec<[Box<dyn Agent>; 2]> {
        // The replay sets the lengths.
        let datagrams = datagrams(context, Bytes::ZERO, self.settings.ecn);
        listened(DatagramSource::new(datagrams, Replay::new(self.packets.clone())))
    }
}
