//! `trace`: packets of a text file of times and lengths.

use super::kind::{FlowSource, SourceKind, SourceReader, Transport};
use super::replay;
use crate::folder::Packets;
use engine::units::{Bytes, Duration};
use std::sync::Arc;

/// The kind, for the list.
pub static KIND: SourceKind = SourceKind {
    name: "trace",
    summary: "packets of a text file of times and lengths",
    transport: Transport::Udp,
    settings: &[&replay::GROUP],
    read,
};

fn read(reader: &mut SourceReader<'_>) -> Option<Arc<dyn FlowSource>> {
    replay::read(reader, |files, path| {
        files.text(path).and_then(|text| packets(&text))
    })
}

/// Reads a trace: on each line a time in seconds and a length in bytes; `#` begins a comment.
fn packets(text: &str) -> Result<Packets, String> {
    let mut found: Vec<(Duration, Bytes)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let fields: Vec<&str> = line
            .split([',', ' ', '\t'])
            .filter(|field| !field.is_empty())
            .collect();
        if fields.is_empty() {
            continue;
        }
        let wrong = || {
            format!(
                "line {}: expected a time in seconds and a length in bytes, such as `0.0125 1514`",
                index + 1
            )
        };
        let [time, length] = fields.as_slice() else {
            return Err(wrong());
        };
        let time: Duration = format!("{time} s").parse().map_err(|_| wrong())?;
        let length: u64 = length.parse().map_err(|_| wrong())?;
        if found.last().is_some_and(|(before, _)| time < *before) {
            return Err(format!(
                "line {}: the time is before that of the line above",
                index + 1
            ));
        }
        found.push((time, Bytes::new(length)));
    }
    let first = found.first().map_or(Duration::ZERO, |(time, _)| *time);
    Ok(found
        .into_iter()
        .map(|(time, length)| (time - first, length))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_begins_with_its_first_packet_and_its_times_do_not_decrease() {
        let packets = packets("# recorded\n5.5 100\n5.500001, 1514\n\n6 60 # the last\n").expect("a trace");
        let expected = [(0, 100), (1_000, 1514), (500_000_000, 60)];
        assert_eq!(
            *packets,
            expected.map(|(ns, length)| (Duration::from_nanos(ns), Bytes::new(length)))
        );
        for (wrong, why) in [
            ("1 100\n0.5 100", "line 2"),
            ("1", "line 1"),
            ("a 100", "line 1"),
            ("1 -5", "line 1"),
        ] {
            assert!(
                super::packets(wrong).is_err_and(|message| message.contains(why)),
                "{wrong}"
            );
        }
    }
}
