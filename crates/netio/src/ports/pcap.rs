//! Capture files: a port that reads frames from one and writes frames to one, in the formats of
//! [`capture_file`](crate::capture_file).

use super::{Kind, Lane, Open, Opened, Opening};
use crate::capture_file::{LONGEST_BLOCK, Reader, Writer};
use crate::clock;
use crate::pool::{Offload, Pool};
use crate::port::{Capabilities, Counters, Fault, Port, PortError, Wake};
use crate::sys::Bell;
use engine::packet::Buffer;
use engine::port_kind::{Needs, PortKind};
use engine::units::{Duration, Instant};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Files of packets.
pub static KIND: Kind = Kind {
    declared: PortKind {
        name: "pcap",
        summary: "files of packets: plays one at the times of its packets, and records into another",
        needs: Needs::TwoFiles,
        has_wire: false,
        alone: Some("a file is read by one program, from its beginning"),
        settings: &[],
    },
    open: Open::Files(files),
};

fn files([read, write]: [&str; 2], _opening: &Opening<'_>) -> Result<Opened, PortError> {
    let real = |path: &str| std::fs::canonicalize(path).ok();
    if real(read).is_some_and(|read| real(write) == Some(read)) {
        return Err(PortError::fault(write, "creating the capture", Fault::SameFile));
    }
    // Two ports: one whose input has ended does not work any more.
    let input = Pcap::open(Some((Path::new(read), ReplayPace::Recorded)), None)?;
    let output = Pcap::open(None, Some(Path::new(write)))?;
    Ok(Opened {
        ports: vec![Box::new(input), Box::new(output)],
        lanes: vec![Lane {
            from: 0,
            to: 1,
            interface: None,
        }],
        gates: Vec::new(),
        without_us: "no traffic depends on this process: it only reads and writes files".into(),
        warnings: Vec::new(),
    })
}

/// Frames received at once.
const BATCH: usize = 64;

/// Frames written at once.
const RING: usize = 64;

/// The MTU of a port without an interface.
const MTU: usize = 65_535;

/// How fast a capture is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayPace {
    /// As it was recorded.
    Recorded,
    /// As fast as possible.
    Fast,
}

/// A frame that was read and is due later.
#[derive(Debug)]
struct Upcoming {
    due: Instant,
    bytes: Vec<u8>,
}

/// A port that replays one capture and records another.
#[derive(Debug)]
pub struct Pcap {
    name: String,
    reader: Option<Reader<BufReader<File>>>,
    pace: ReplayPace,
    /// The time of the first frame, in the file and on our clock.
    began: Option<(u64, Instant)>,
    upcoming: Option<Upcoming>,
    writer: Option<Writer<BufWriter<File>>>,
    staged: VecDeque<Buffer>,
    /// Never rings: the port waits for time alone.
    bell: Bell,
    counters: Counters,
}

impl Pcap {
    /// A port that replays `input` and records to `output`; either may be absent.
    ///
    /// # Errors
    ///
    /// Returns an error if the input cannot be opened or is no capture, or the output cannot be
    /// created.
    pub fn open(input: Option<(&Path, ReplayPace)>, output: Option<&Path>) -> Result<Self, PortError> {
        let named = input
            .map(|(path, _)| path)
            .or(output)
            .map_or("pcap".into(), |path| path.display().to_string());
        let fail = |doing: &'static str| {
            let name = named.clone();
            move |e: io::Error| PortError::new(&name, doing, e)
        };
        let reader = match input {
            Some((path, _)) => {
                let file = File::open(path).map_err(fail("opening the capture"))?;
                let reader = Reader::new(BufReader::new(file));
                Some(reader.map_err(|e| fail("reading the capture")(io::Error::other(e.to_string())))?)
            }
            None => None,
        };
        let writer = match output {
            Some(path) => {
                let file = File::create(path).map_err(fail("creating the capture"))?;
                Some(Writer::new(BufWriter::new(file), &["suimon"]).map_err(fail("writing the capture"))?)
            }
            None => None,
        };
        let bell = Bell::new().map_err(fail("opening"))?;
        Ok(Self {
            name: named,
            reader,
            pace: input.map_or(ReplayPace::Fast, |(_, pace)| pace),
            began: None,
            upcoming: None,
            writer,
            staged: VecDeque::new(),
            bell,
            counters: Counters::default(),
        })
    }

    /// The next frame of the capture, if it is due; an error at its end.
    fn next(&mut self, now: Instant) -> Result<Option<Vec<u8>>, PortError> {
        if self.upcoming.is_none() {
            let Some(reader) = &mut self.reader else {
                return Ok(None);
            };
            let mut bytes = Vec::new();
            let captured = reader.next(&mut bytes).map_err(|e| PortError {
                source: Some(io::Error::other(e.to_string())),
                ..PortError::fault(&self.name, "reading the capture", Fault::Ended)
            })?;
            let Some(captured) = captured else {
                return Err(PortError::fault(&self.name, "reading the capture", Fault::Ended));
            };
            // A capture of headers: what is managed is the frame that was on the wire.
            let length = (captured.original as usize).clamp(bytes.len(), LONGEST_BLOCK);
            bytes.resize(length, 0);
            let (first, began) = *self.began.get_or_insert((captured.at, now));
            let due = match self.pace {
                ReplayPace::Recorded => began + Duration::from_nanos(captured.at.saturating_sub(first)),
                ReplayPace::Fast => now,
            };
            self.upcoming = Some(Upcoming { due, bytes });
        }
        let due = self.upcoming.take_if(|upcoming| upcoming.due <= now);
        Ok(due.map(|upcoming| upcoming.bytes))
    }
}

impl Port for Pcap {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(MTU, RING)
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError> {
        let now = clock::now();
        for _ in 0..BATCH {
            let Some(bytes) = self.next(now)? else { break };
            match pool.put(&bytes, Offload::default()) {
                Some(frame) => {
                    self.counters.received += 1;
                    self.counters.received_bytes += bytes.len() as u64;
                    into.push(frame);
                }
                None => self.counters.refused += 1,
            }
        }
        Ok(())
    }

    fn room(&self) -> usize {
        RING - self.staged.len()
    }

    fn transmit(&mut self, _pool: &mut Pool, frame: Buffer) {
        self.staged.push_back(frame);
    }

    fn kick(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let mut result = Ok(());
        for frame in self.staged.drain(..) {
            let len = pool.len(frame) as u64;
            if let (Some(writer), Ok(())) = (&mut self.writer, &result) {
                result = writer.frame(at, 0, pool.bytes(frame), None);
            }
            if result.is_ok() {
                self.counters.sent += 1;
                self.counters.sent_bytes += len;
            } else {
                self.counters.dropped += 1;
            }
            pool.free(frame);
        }
        let flushed = result.and_then(|()| self.writer.as_mut().map_or(Ok(()), Writer::flush));
        flushed.map_err(|e| PortError::new(&self.name, "writing the capture", e))
    }

    fn wake(&self, _room: bool) -> Option<Wake<'_>> {
        let due = self.upcoming.as_ref()?.due;
        Some(Wake {
            fd: self.bell.as_fd(),
            events: libc::POLLIN,
            retry: Some(due.since(clock::now())),
        })
    }

    fn revive(&mut self, _pool: &mut Pool) -> Result<(), PortError> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture_file::tests::{read, written};

    #[test]
    fn a_port_replays_and_records() {
        let folder = std::env::temp_dir().join(format!("suimon-pcap-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (input, output) = (folder.join("in.pcapng"), folder.join("out.pcapng"));
        std::fs::write(&input, written(&[(10, vec![1; 60]), (2_000_010, vec![2; 70])])).expect("a file");
        let mut pool = Pool::new(crate::pool::Slots { small: 8, big: 1 }).expect("memory");
        let mut port = Pcap::open(Some((&input, ReplayPace::Recorded)), Some(&output)).expect("a port");
        let mut batch = Vec::new();
        let began = clock::now();
        let ended = loop {
            match port.receive(&mut pool, &mut batch) {
                Ok(()) => std::thread::yield_now(),
                Err(e) => break e,
            }
        };
        assert_eq!(ended.fault, Fault::Ended);
        assert!(
            clock::now().since(began) >= Duration::from_millis(2),
            "replayed too fast"
        );
        batch.drain(..).for_each(|frame| port.transmit(&mut pool, frame));
        port.kick(&mut pool).expect("a disk");
        let (frames, broken) = read(&std::fs::read(&output).expect("a file"));
        std::fs::remove_dir_all(&folder).expect("the folder was ours");
        assert!(broken.is_none());
        assert_eq!(
            frames.into_iter().map(|f| f.1).collect::<Vec<_>>(),
            [vec![1; 60], vec![2; 70]]
        );
        assert_eq!(pool.usage().map(|u| u.used), [0, 0]);
    }

    /// They are as long as on the wire; formerly 1,514 bytes of which a capture has 42 passed a
    /// shaper as 42.
    #[test]
    fn a_capture_of_headers_plays_frames_as_long_as_they_were() {
        let path = std::env::temp_dir().join(format!("suimon-headers-{}.pcapng", std::process::id()));
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &["a-b"]).expect("memory");
        for (at, original) in [(1, 1_514), (2, 60), (3, u32::MAX)] {
            writer.beginning(at, 0, &[7; 42], original).expect("memory");
        }
        std::fs::write(&path, file).expect("a file");
        let mut pool = Pool::new(crate::pool::Slots { small: 8, big: 1 }).expect("memory");
        let mut port = Pcap::open(Some((&path, ReplayPace::Fast)), None).expect("a port");
        let mut batch = Vec::new();
        while port.receive(&mut pool, &mut batch).is_ok() {}
        std::fs::remove_file(&path).expect("it was ours");
        let lengths: Vec<usize> = batch.iter().map(|frame| pool.len(*frame)).collect();
        assert_eq!(lengths, [1_514, 60]);
        assert_eq!(pool.bytes(batch[0])[..43], [&[7; 42][..], &[0]].concat());
        assert_eq!(port.counters().refused, 1, "longer than any frame");
        batch.drain(..).for_each(|frame| pool.free(frame));
    }
}
