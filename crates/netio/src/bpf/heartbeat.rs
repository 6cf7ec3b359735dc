//! The heartbeat: a cell in memory that the loop writes and the programs read.
//!
//! It holds the time (CLOCK_MONOTONIC) until which the port counts as alive. One store a turn of
//! the loop and no system call moves it on. If the loop hangs, the time passes by itself and frames
//! go the kernel's own way; zero means "disabled". So death, hanging and being switched off are one
//! case to the programs.

use super::syscall;
use crate::mapping::Mapping;
use engine::units::{Duration, Instant};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

/// The cell's words, and the constants of one port that its programs need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// Alive until then, in ns; zero: disabled.
    AliveUntil,
    /// The port's own address, as [`super::programs`] puts one together.
    PortAddress,
    /// The address of the bridge over it, likewise, or zero.
    BridgeAddress,
    /// [`super::programs::ECHO`]: where group frames came from; [`super::programs::TO_TAP`]: where
    /// to send.
    Interface,
}

impl Word {
    /// Where in the cell, in bytes.
    pub const fn offset(self) -> i16 {
        self as i16 * 8
    }
}

const WORDS: usize = 4;

/// The cell of one port.
#[derive(Debug)]
pub struct Heartbeat {
    map: OwnedFd,
    cell: Mapping,
    limit: Duration,
}

impl Heartbeat {
    /// A cell that counts as alive for `limit` after each beat. It starts as lapsed: nothing is
    /// taken before the first beat.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses to make the map of the cell, or to map it into
    /// memory.
    pub fn new(limit: Duration) -> io::Result<Self> {
        let map = syscall::new_cell(WORDS * 8)?;
        let cell = Mapping::of(map.as_fd(), WORDS * 8, 0)?;
        Ok(Self { map, cell, limit })
    }

    /// How long the port counts as alive after a beat. The loop must come by several times in it.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Tells the programs who the port is, and the bridge over it.
    pub fn describe(&self, port: [u8; 6], bridge: Option<[u8; 6]>, interface: u32) {
        let word = |[a, b, c, d, e, f]: [u8; 6]| {
            u64::from(u16::from_ne_bytes([a, b])) << 32 | u64::from(u32::from_ne_bytes([c, d, e, f]))
        };
        self.set(Word::PortAddress, word(port));
        self.set(Word::BridgeAddress, word(bridge.unwrap_or_default()));
        self.set(Word::Interface, u64::from(interface));
    }

    /// Tells the programs where to send frames.
    pub fn point_to(&self, interface: u32) {
        self.set(Word::Interface, u64::from(interface));
    }

    /// Whether the kernel has taken over: what was read from the port before this may have been
    /// forwarded.
    pub fn lapsed(&self, now: Instant) -> bool {
        now.nanos() >= self.cell.words()[Word::AliveUntil as usize].load(Relaxed)
    }

    /// The loop is alive at this time, by [`crate::clock`].
    pub fn beat(&self, now: Instant) {
        self.set(Word::AliveUntil, (now + self.limit).nanos());
    }

    /// Frames go the kernel's way from the next one on, until the next beat.
    pub fn silence(&self) {
        self.set(Word::AliveUntil, 0);
    }

    /// The map, for programs to refer to.
    pub fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    fn set(&self, word: Word, value: u64) {
        self.cell.words()[word as usize].store(value, Relaxed);
    }
}

impl Drop for Heartbeat {
    /// Frames go the kernel's way from here on, whatever the order in which descriptors are closed.
    fn drop(&mut self) {
        self.silence();
    }
}
