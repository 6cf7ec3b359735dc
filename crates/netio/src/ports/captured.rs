//! A port that also writes the frames it sends to a capture file, with their times.
//!
//! Of each frame the first [`KEPT`] bytes (its headers) and the length are recorded. Times are read
//! once per kick from the data plane's clock, as nanoseconds since 1970. If the file can no longer
//! be written, the capture ends and traffic goes on. The file is at most one second behind. It does
//! not contain gap frames.

use crate::capture_file::Writer;
use crate::clock;
use crate::pool::Pool;
use crate::port::{Capabilities, Counters, PacedPort, Port, PortError, Wake};
use engine::packet::Buffer;
use engine::units::{Duration, Instant};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes recorded of each frame.
pub const KEPT: usize = 128;

/// A port with its capture.
#[derive(Debug)]
pub struct Captured {
    port: Box<dyn Port>,
    /// None after a write has failed.
    writer: Option<Writer<BufWriter<File>>>,
    /// Offset from the data plane's clock to nanoseconds since 1970.
    ahead: u64,
    /// Bytes of the frames of the current kick; where each ends, and its full length.
    bytes: Vec<u8>,
    frames: Vec<(usize, u32)>,
    flushed: Instant,
}

/// How old unwritten frames may be.
const BEHIND: Duration = Duration::from_secs(1);

impl Captured {
    /// Captures what the port sends into this file, as from an interface of this name.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be created or written.
    pub fn new(port: Box<dyn Port>, file: &Path, name: &str) -> io::Result<Self> {
        let writer = Writer::new(BufWriter::new(File::create(file)?), &[name])?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self {
            port,
            writer: Some(writer),
            ahead: since.saturating_sub(clock::now().nanos()),
            bytes: Vec::new(),
            frames: Vec::new(),
            flushed: clock::now(),
        })
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        if self.frames.is_empty() {
            return Ok(());
        }
        let now = clock::now();
        let mut begin = 0;
        for (end, len) in self.frames.drain(..) {
            writer.beginning(now.nanos() + self.ahead, 0, &self.bytes[begin..end], len)?;
            begin = end;
        }
        self.bytes.clear();
        if now.since(self.flushed) >= BEHIND {
            self.flushed = now;
            writer.flush()?;
        }
        Ok(())
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        // Nobody is left to report a failure to.
        let _ = self.writer.as_mut().map(Writer::flush);
    }
}

impl Port for Captured {
    fn name(&self) -> &str {
        self.port.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.port.capabilities()
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError> {
        self.port.receive(pool, into)
    }

    fn room(&self) -> usize {
        self.port.room()
    }

    fn unsent(&self) -> usize {
        self.port.unsent()
    }

    fn transmit(&mut self, pool: &mut Pool, frame: Buffer) {
        if self.writer.is_some() {
            let bytes = pool.bytes(frame);
            self.bytes.extend_from_slice(&bytes[..bytes.len().min(KEPT)]);
            // A frame is not much longer than 64 KiB.
            self.frames.push((self.bytes.len(), bytes.len() as u32));
        }
        self.port.transmit(pool, frame);
    }

    fn kick(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        let result = self.port.kick(pool);
        if self.write().is_err() {
            self.writer = None;
        }
        result
    }

    fn wake(&self, room: bool) -> Option<Wake<'_>> {
        self.port.wake(room)
    }

    fn revive(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        self.port.revive(pool)
    }

    fn counters(&self) -> Counters {
        self.port.counters()
    }

    fn hand_over(&mut self, to_another: bool) {
        self.port.hand_over(to_another);
    }

    fn paced(&mut self) -> Option<&mut dyn PacedPort> {
        self.port.paced()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture_file::Reader;
    use crate::pool::{Offload, Slots};
    use crate::ports::memory::Memory;

    #[test]
    fn frames_sent_are_in_the_file_with_time_headers_and_length() {
        let file = std::env::temp_dir().join(format!("suimon-captured-{}.pcapng", std::process::id()));
        let mut pool = Pool::new(Slots { small: 8, big: 1 }).expect("memory");
        let [near, far] = Memory::pair(["near", "far"], Capabilities::plain(1500, 8)).expect("two ends");
        let mut port = Captured::new(Box::new(near), &file, "near").expect("a file");
        let since = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .expect("after 1970")
                .as_nanos() as u64
        };
        let before = since();
        for len in [60, 1_514] {
            let frame = pool
                .put(&vec![len as u8; len], Offload::default())
                .expect("a slot");
            port.transmit(&mut pool, frame);
        }
        port.kick(&mut pool).expect("a wire");
        let after = since();
        drop(port);
        assert_eq!(
            [far.take(), far.take()].map(|frame| frame.map(|f| f.bytes.len())),
            [Some(60), Some(1_514)]
        );
        let mut reader = Reader::new(File::open(&file).expect("a file")).expect("a capture");
        let mut bytes = Vec::new();
        for (kept, len) in [(60, 60), (KEPT, 1_514)] {
            let frame = reader.next(&mut bytes).expect("whole").expect("a frame");
            assert_eq!((bytes.len(), frame.original), (kept, len));
            let slack = 1_000_000;
            assert!(
                (before - slack..=after + slack).contains(&frame.at),
                "{} is not now",
                frame.at
            );
        }
        std::fs::remove_file(&file).expect("ours");
    }
}
