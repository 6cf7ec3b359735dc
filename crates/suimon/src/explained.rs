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
    /// The latest that were dropped, so many; 10 without a number
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "10")]
    drops: Option<usize>,
}

impl Which {
    /// Whether it is those that were dropped.
    pub(crate) fn are_dropped(&self) -> bool {
        self.drops.is_some()
    }

    /// As a running suimon is asked, or a simulation.
    pub(crate) fn request(self, interface: String, for_ms: u64) -> ExplainRequest {
        ExplainRequest {
            interface,
            drops: self.are_dropped(),
            class: self.class,
            packets: self.drops.unwrap_or(self.slowest),
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// A command line of these options.
    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        which: Which,
    }

    #[test]
    fn as_many_are_explained_as_are_said_the_slowest_or_the_dropped() {
        let parse = |words: &[&str]| Line::try_parse_from([&["explain"], words].concat());
        for (words, dropped, packets) in [
            (&[][..], false, 10),
            (&["--slowest", "3"], false, 3),
            (&["--drops"], true, 10),
            (&["--drops", "3"], true, 3),
            (&["--drops", "--class", "voice"], true, 10),
        ] {
            let request = parse(words).expect("options").which.request("wan0".into(), 0);
            assert_eq!((request.drops, request.packets), (dropped, packets), "{words:?}");
        }
        for words in [&["--drops", "--slowest", "3"][..], &["--drops", "many"]] {
            parse(words).expect_err("either, and a number");
        }
    }
}
