//! `pcap`: packets of a capture.

use super::kind::{FlowSource, SourceKind, SourceReader, Transport};
use super::replay;
use std::sync::Arc;

/// The kind, for the list.
pub static KIND: SourceKind = SourceKind {
    name: "pcap",
    summary: "packets of a capture",
    transport: Transport::Udp,
    settings: &[&replay::GROUP],
    read,
};

fn read(reader: &mut SourceReader<'_>) -> Option<Arc<dyn FlowSource>> {
    replay::read(reader, |files, path| files.capture(path))
}
