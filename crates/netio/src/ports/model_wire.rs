//! A port onto a modelled wire: frames are serialised at its rate, one after the other, after a
//! transmit ring of fixed size. It stands in for a physical card in tests and measurements.
//!
//! Times are those of the data plane's clock. A frame starts when the previous one has ended, when
//! it was given to the port, or at its launch time if the wire supports those, whichever is latest;
//! start times do not depend on when the port is polled. Each frame can be logged with its start.
//! The bytes of each frame are read once, as a card does by DMA.

use crate::clock;
use crate::pool::Pool;
use crate::port::{Capabilities, Counters, PacedPort, Port, PortError, Wake};
use crate::sys::Bell;
use engine::byte_clock::{SHORTEST_FRAME, WIRE_OVERHEAD};
use engine::link_clock::LinkClock;
use engine::packet::Buffer;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use std::collections::VecDeque;
use std::hint::black_box;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

/// A frame that went onto the wire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentFrame {
    /// When its slot began.
    pub at: Instant,
    /// Its bytes, from the Ethernet header on.
    pub bytes: Vec<u8>,
}

/// The log of frames on the wire. Clones share the same log.
#[derive(Clone, Debug, Default)]
pub struct SentLog(Arc<Mutex<Vec<SentFrame>>>);

impl SentLog {
    /// Takes the entries since the last call.
    pub fn take(&self) -> Vec<SentFrame> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Clone, Copy, Debug)]
enum Staged {
    Frame(Buffer),
    Gap(usize),
}

/// A port that sends onto a modelled wire, and receives nothing.
#[derive(Debug)]
pub struct ModelWire {
    name: String,
    capabilities: Capabilities,
    wire: LinkClock,
    staged: VecDeque<Staged>,
    /// When each frame leaves the ring.
    leaving: VecDeque<Instant>,
    gap: Box<[u8]>,
    /// Whether it supports launch times, and whether they are enabled.
    launches: bool,
    launching: bool,
    log: Option<SentLog>,
    counters: Counters,
    /// Never rings: room comes with time.
    bell: Bell,
}

impl ModelWire {
    /// A wire of this rate after a ring of this many frames.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the descriptor by which the port is waited for.
    pub fn new(name: &str, rate: Bandwidth, ring: usize) -> io::Result<Self> {
        Ok(Self {
            name: name.into(),
            capabilities: Capabilities {
                speed: Some(rate),
                ..Capabilities::plain(1_500, ring.max(1))
            },
            wire: LinkClock::new(rate, Duration::ZERO),
            staged: VecDeque::new(),
            leaving: VecDeque::new(),
            gap: Box::default(),
            launches: false,
            launching: false,
            log: None,
            counters: Counters::default(),
            bell: Bell::new()?,
        })
    }

    /// The same with support for launch times.
    #[must_use]
    pub fn keeping_launch_times(mut self) -> Self {
        self.launches = true;
        self
    }

    /// Logs what is sent from now on.
    pub fn log(&mut self) -> SentLog {
        self.log.get_or_insert_default().clone()
    }

    /// Puts a frame onto the wire.
    fn put(&mut self, now: Instant, launch: Option<Instant>, bytes: &[u8]) {
        black_box(bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
        let launch = launch.filter(|_| self.launching && self.launches);
        let at = self.wire.free_at().max(now).max(launch.unwrap_or(Instant::START));
        let slot = (bytes.len() as u64).max(SHORTEST_FRAME) + WIRE_OVERHEAD;
        self.wire.send(at, Bytes::new(slot));
        self.leaving.push_back(self.wire.free_at());
        self.counters.sent += 1;
        self.counters.sent_bytes += bytes.len() as u64;
        if let Some(SentLog(log)) = &self.log {
            let sent = SentFrame {
                at,
                bytes: bytes.into(),
            };
            log.lock().unwrap_or_else(PoisonError::into_inner).push(sent);
        }
    }

    /// Frames in the ring at this time.
    fn in_ring(&self, now: Instant) -> usize {
        self.leaving.len() - self.leaving.partition_point(|left| *left <= now) + self.staged.len()
    }
}

impl Port for ModelWire {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn receive(&mut self, _pool: &mut Pool, _into: &mut Vec<Buffer>) -> Result<(), PortError> {
        Ok(())
    }

    fn room(&self) -> usize {
        let queued = self.in_ring(clock::now());
        self.capabilities.transmit_ring.saturating_sub(queued)
    }

    fn transmit(&mut self, _pool: &mut Pool, frame: Buffer) {
        self.staged.push_back(Staged::Frame(frame));
    }

    fn kick(&mut self, pool: &mut Pool) -> Result<(), PortError> {
        let now = clock::now();
        let left = self.leaving.partition_point(|left| *left <= now);
        self.leaving.drain(..left);
        let gap = std::mem::take(&mut self.gap);
        while let Some(staged) = self.staged.pop_front() {
            match staged {
                Staged::Gap(len) => self.put(now, None, &gap[..len]),
                Staged::Frame(frame) => {
                    self.put(now, pool.launch(frame), pool.bytes(frame));
                    pool.free(frame);
                }
            }
        }
        self.gap = gap;
        Ok(())
    }

    fn wake(&self, room: bool) -> Option<Wake<'_>> {
        let now = clock::now();
        // Like a card, it reports room when half of the ring is free.
        let half = self.leaving.get(self.leaving.len() / 2);
        Some(Wake {
            fd: self.bell.as_fd(),
            events: libc::POLLIN,
            retry: half.filter(|_| room).map(|at| at.since(now)),
        })
    }

    fn revive(&mut self, _pool: &mut Pool) -> Result<(), PortError> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn paced(&mut self) -> Option<&mut dyn PacedPort> {
        Some(self)
    }
}

impl PacedPort for ModelWire {
    fn outstanding(&self) -> usize {
        self.in_ring(clock::now())
    }

    fn transmit_rings(&self) -> usize {
        1
    }

    fn device_sent(&self) -> Option<u64> {
        Some(self.counters.sent)
    }

    fn prepare_gap(&mut self, frame: &[u8]) {
        self.gap = frame.into();
    }

    fn transmit_gap(&mut self, len: usize) {
        self.staged.push_back(Staged::Gap(len.min(self.gap.len())));
    }

    fn enable_launch_times(&mut self) -> io::Result<()> {
        self.launching = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Offload, Slots};

    #[test]
    fn frames_follow_one_another_by_their_bytes_and_the_ring_frees_with_time() {
        let mut pool = Pool::new(Slots { small: 8, big: 1 }).expect("memory");
        let mut wire = ModelWire::new("eth0", Bandwidth::mbit(10), 3).expect("a wire");
        let log = wire.log();
        for len in [1_514, 20, 100] {
            let frame = pool.put(&vec![1; len], Offload::default()).expect("a slot");
            wire.transmit(&mut pool, frame);
        }
        wire.kick(&mut pool).expect("a wire");
        assert_eq!(pool.usage()[0].used, 0);
        let starts: Vec<Instant> = log.take().iter().map(|sent| sent.at).collect();
        // 800 ns per byte: 1538 bytes, then a padded frame of 84.
        let apart = [starts[1].since(starts[0]), starts[2].since(starts[1])].map(Duration::nanos);
        assert_eq!(apart, [1_230_400, 67_200]);
        while wire.room() < 3 {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        assert!(clock::now() >= starts[2] + Duration::from_nanos(124 * 800));
        assert_eq!(wire.outstanding(), 0);
    }
}
