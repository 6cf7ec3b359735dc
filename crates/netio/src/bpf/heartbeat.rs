//! The heartbeat: a cell in memory that the loop writes and the programs read.
//!
//! It holds the time (CLOCK_MONOTONIC) until which the port counts as alive. One store a turn of the loop
//! and no system call moves it on. If the loop hangs, the time passes by itself and frames go the kernel's
//! own way; zero means "disabled". So death, hanging and being switched off are one case to the programs.

use super::syscall;
use crate::mapping::Mapping;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The cell's words, and the constants of one port that its programs need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// Alive until then, in ns; zero: disabled.
    AliveUntil,
    /// Six bytes of ones, two of zeroes: what of the first eight bytes of a frame is the address.
    AddressMask,
    /// The port's own address, in the first six bytes.
    PortAddress,
    /// The address of the bridge over it, likewise, or zero.
    BridgeAddress,
    /// [`super::programs::ECHO`]: where group frames came from; [`super::programs::TO_TAP`]: where to send.
    Interface,
}

impl Word {
    /// Where in the cell, in bytes.
    pub const fn offset(self) -> i16 {
        self as i16 * 8
    }
}

const WORDS: usize = 5;

/// What the cell said when the loop came by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beat {
    /// Nothing happened: what was read from the port is ours alone.
    Alive,
    /// The time had passed (or the port was disabled): the kernel may have forwarded what was just read.
    Lapsed,
}

/// The cell of one port.
#[derive(Debug)]
pub struct Heartbeat {
    map: OwnedFd,
    cell: Mapping,
    limit: Duration,
    enabled: bool,
}

impl Heartbeat {
    /// A cell that counts as alive for `limit` after each beat. It starts as lapsed: nothing is taken
    /// before the first beat.
    pub fn new(limit: Duration) -> io::Result<Self> {
        let map = syscall::new_cell(WORDS * 8)?;
        let cell = Mapping::of(map.as_fd(), WORDS * 8, 0)?;
        Ok(Self {
            map,
            cell,
            limit,
            enabled: true,
        })
    }

    /// The clock that the programs compare with.
    pub fn clock() -> u64 {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        syscall::monotonic(&mut now);
        now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
    }

    /// How long the port counts as alive after a beat. The loop must come by several times in it.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Tells the programs who we are.
    pub fn describe(&self, port: [u8; 6], bridge: Option<[u8; 6]>, interface: u32) {
        let word = |[a, b, c, d, e, f]: [u8; 6]| u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]);
        self.set(Word::AddressMask, word([255; 6]));
        self.set(Word::PortAddress, word(port));
        self.set(Word::BridgeAddress, word(bridge.unwrap_or_default()));
        self.set(Word::Interface, u64::from(interface));
    }

    /// To be called *after* reading from the port. On [`Beat::Lapsed`] nothing was stored: throw away what
    /// was read and all that waits in the port, then call [`Heartbeat::revive`].
    pub fn beat(&self) -> Beat {
        let now = Self::clock();
        if !self.enabled || now >= self.cell.words()[Word::AliveUntil as usize].load(Relaxed) {
            return Beat::Lapsed;
        }
        self.set(Word::AliveUntil, now + self.reach());
        Beat::Alive
    }

    /// Takes frames again after a lapse, unless disabled.
    pub fn revive(&self) {
        if self.enabled {
            self.set(Word::AliveUntil, Self::clock() + self.reach());
        }
    }

    /// Whether frames are to be taken at all. Takes effect with the next frame.
    pub fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
        if !enabled {
            self.set(Word::AliveUntil, 0);
        }
    }

    /// Whether frames are to be taken.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The map, for programs to refer to.
    pub fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    fn reach(&self) -> u64 {
        u64::try_from(self.limit.as_nanos()).unwrap_or(u64::MAX / 2)
    }

    fn set(&self, word: Word, value: u64) {
        self.cell.words()[word as usize].store(value, Relaxed);
    }
}

impl Drop for Heartbeat {
    /// Frames go the kernel's way from here on, whatever the order in which descriptors are closed.
    fn drop(&mut self) {
        self.set(Word::AliveUntil, 0);
    }
}
