//! Captures.

use super::FuzzTarget;
use crate::mutate::InputShape;
use netio::capture_file::{Reader, Writer};

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "captures",
    about: "pcap and pcapng files: no more frames than bytes, and what was read is written and read alike",
    shape: InputShape::Binary(4_000),
    tree: &[],
    make: || Box::new(judge),
};

/// The frames until the end or a mistake, with their times.
fn frames(file: &[u8]) -> Option<Vec<(u64, Vec<u8>)>> {
    let mut reader = Reader::new(file).ok()?;
    let mut frames = Vec::new();
    let mut bytes = Vec::new();
    while let Ok(Some(record)) = reader.next(&mut bytes) {
        frames.push((record.at, bytes.clone()));
        assert!(frames.len() <= file.len(), "more frames than bytes");
    }
    Some(frames)
}

fn judge(file: &[u8]) {
    let Some(read) = frames(file) else {
        return;
    };
    let mut written = Vec::new();
    let mut writer = Writer::new(&mut written, &["one"]).unwrap_or_else(|e| panic!("a writer: {e}"));
    for (at, bytes) in &read {
        let done = writer.frame(*at, 0, bytes, Some("a comment"));
        done.unwrap_or_else(|e| panic!("a frame that was read is not written: {e}"));
    }
    drop(writer);
    assert!(
        frames(&written) == Some(read),
        "written and read again, it differs"
    );
}
