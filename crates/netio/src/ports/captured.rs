//! A port whose frames are also written to a capture: what it puts out, with the time at which it
//! does.
//!
//! Of each frame the beginning is kept ([`KEPT`] bytes: its headers), and its length. Times are
//! read once for each kick, from the clock of the data plane, counted from 1970. A capture that can
//! no longer be written ends; traffic goes on. The file is at most a second behind. Gap frames are
//! not in it.

use crate::clock;
use crate::pool::Pool;
use crate::port::{Capabilities, Counters, PacedPort, Port, PortError, Wake};
use crate::ports::pcap::Writer;
use engine::packet::Buffer;
use engine::units::{Duration, Instant};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes kept of each frame.
pub const KEPT: usize = 128;

/// A port with its capture.
#[derive(Debug)]
pub struct Captured {
    port: Box<dyn Port>,
    /// None after it could not be written.
    writer: Option<Writer<BufWriter<File>>>,
    /// From the data plane's clock to nanoseconds since 1970.
    ahead: u64,
    /// Frames of the present kick, and the lengths of the whole frames.
    bytes: Vec<u8>,
    frames: Vec<(usize, u32)>,
    flushed: Instant,
}

/// How far the file may be behind.
const BEHIND: Duration = Duration::from_secs(1);

impl Captured {
    /// The port, with what it puts out written to this file, under this name of an interface.
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
        // What cannot be written any more is lost with the disk.
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

    fn transmit(&mut self, pool: &mut Pool, frame: Buffer) {
        if self.writer.is_some() {
            let bytes = pool.bytes(frame);
            self.bytes.extend_from_slice(&bytes[..bytes.len().min(KEPT)]);
            // A frame is at most 64 KiB and some.
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

    fn paced(&mut self) -> Option<&mut dyn PacedPort> {
        self.port.paced()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Offload, Slots};
    use crate::ports::memory::Memory;
    use crate::ports::pcap::Reader;

    #[test]
    fn what_leaves_is_in_the_file_with_its_time_its_headers_and_its_length() {
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
