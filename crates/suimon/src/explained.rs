//! Packets whose waits are explained: which, by options, and in words; of a running suimon and of a
//! simulation.

use clap::Args;
use control::explained::{ExplainRequest, Explained};
use measure::numbers;
use std::io::{self, Write};

/// Which packets are explained.
#[derive(Clone, Debug, Default, Args)]
pub struct Which {
    /// Of this class alone
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// So many of those that waited longest
    #[arg(long, value_name = "N", default_value_t = 10, conflicts_with = "drops")]
    slowest: usize,
    /// The latest that were dropped
    #[arg(long)]
    pub(crate) drops: bool,
}

impl Which {
    /// As a running suimon is asked, or a simulation.
    pub(crate) fn request(self, interface: String, for_ms: u64) -> ExplainRequest {
        ExplainRequest {
            interface,
            class: self.class,
            drops: self.drops,
            packets: self.slowest,
            for_ms,
        }
    }
}

/// What was recorded, in words.
pub(crate) fn show_live(out: &mut dyn Write, explained: &Explained, drops: bool) -> io::Result<()> {
    let (seen, interface) = (numbers::count(explained.seen_packets), &explained.interface);
    let shown = explained.packets.len();
    match drops {
        true => writeln!(
            out,
            "{interface}: {seen} packets were dropped; the latest {shown}:"
        )?,
        false => writeln!(
            out,
            "{interface}: {seen} packets left; the {shown} that waited longest:"
        )?,
    }
    if let Some(over) = &explained.over {
        writeln!(out, "it ended early: {over}")?;
    }
    let lines = explained.packets.iter().flat_map(|packet| packet.lines());
    lines.into_iter().try_for_each(|line| writeln!(out, "{line}"))
}
