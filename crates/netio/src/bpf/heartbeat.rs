//! The heartbeat: a memory cell that the worker loop writes and the programs read.
//!
//! It contains the time (CLOCK_MONOTONIC) until which the port counts as alive. Each turn of the
//! loop advances it by one store, without a system call. If the loop hangs, the cell expires and
//! frames take the kernel's own path. Zero means "disabled". To the programs, a dead process, a
//! hanging one and a disabled one are the same case.

use super::syscall::{self, Hook};
use crate::clock::{self, Moment};
use crate::mapping::Mapping;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Relaxed, Release};
use crate::sys;
use engine::units::{Duration, Instant};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The words of a cell: the heartbeat, and the constants that a port's programs need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// Alive until this time, in ns; zero: disabled.
    AliveUntil,
    /// The port's MAC address, in the layout of [`super::programs`].
    PortAddress,
    /// The MAC address of the bridge above it, likewise, or zero.
    BridgeAddress,
    /// An interface index. For [`super::programs::ECHO`]: where group frames came from. For
    /// [`super::programs::TO_TAP`]: where to redirect to.
    Interface,
    /// For [`super::programs::TAKE`]: frames with an earlier arrival timestamp (of
    /// `CLOCK_REALTIME`) pass; zero: none do.
    Since,
    /// For [`super::programs::HAND_BACK`]: the interface that frames are handed back to.
    HandBackTo,
    /// To which of its hooks: zero is egress, one is ingress.
    HandBackHow,
    /// The mark that they have there, by which [`super::programs::DETOUR`] knows them.
    Mark,
}

impl Word {
    /// Its offset in the cell, in bytes.
    pub const fn offset(self) -> i16 {
        self as i16 * 8
    }
}

const WORDS: usize = 8;

/// The cell of one port.
#[derive(Debug)]
pub struct Heartbeat {
    map: OwnedFd,
    cell: Mapping,
    limit: Duration,
    /// When it was silenced last, of `CLOCK_REALTIME`.
    silenced: AtomicU64,
    /// Until when arrival timestamps are compared after a lapse.
    settled_at: AtomicU64,
    /// From this arrival timestamp on, frames are another program's.
    leaves_at: AtomicU64,
}

/// How far ahead of the first beat frames are taken from. Long enough for the beat itself.
const AHEAD: Duration = Duration::from_millis(1);

/// How long after a lapse frames may still come out of a socket that arrived before its end.
const SETTLED: Duration = Duration::from_millis(500);

/// How long it may take a worker to begin that takes another program's place: it gets what waited
/// there first, on a machine that may be busy.
const HANDED_OVER: Duration = Duration::from_secs(1);

impl Heartbeat {
    /// A cell that counts as alive for `limit` after each beat. It starts lapsed: the programs take
    /// nothing before the first beat.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses to make the map of the cell, or to map it into
    /// memory.
    pub fn new(limit: Duration) -> io::Result<Self> {
        let map = syscall::new_cell(WORDS * 8)?;
        let cell = Mapping::of(map.as_fd(), WORDS * 8, 0)?;
        Ok(Self {
            map,
            cell,
            limit,
            silenced: AtomicU64::new(0),
            settled_at: AtomicU64::new(0),
            leaves_at: AtomicU64::new(u64::MAX),
        })
    }

    /// How long the port counts as alive after a beat. The loop must beat several times within it.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Sets the addresses of the port and of the bridge above it, and the interface.
    pub fn describe(&self, port: [u8; 6], bridge: Option<[u8; 6]>, interface: u32) {
        let word = |[a, b, c, d, e, f]: [u8; 6]| {
            u64::from(u16::from_ne_bytes([a, b])) << 32 | u64::from(u32::from_ne_bytes([c, d, e, f]))
        };
        self.set(Word::PortAddress, word(port));
        self.set(Word::BridgeAddress, word(bridge.unwrap_or_default()));
        self.set(Word::Interface, u64::from(interface));
    }

    /// Sets the interface that frames are redirected to.
    pub fn point_to(&self, interface: u32) {
        self.set(Word::Interface, u64::from(interface));
    }

    /// Sets the interface that frames are handed back to, at which hook, and the mark that they
    /// have there.
    pub fn hand_back_to(&self, interface: u32, hook: Hook, mark: u32) {
        self.set(Word::HandBackTo, u64::from(interface));
        self.set(Word::HandBackHow, u64::from(hook == Hook::Ingress));
        self.set(Word::Mark, u64::from(mark));
    }

    /// Whether the kernel has taken over. It may then have forwarded frames that were read from the
    /// port before.
    pub fn lapsed(&self, now: Instant) -> bool {
        now.nanos() >= self.alive_until()
    }

    fn alive_until(&self) -> u64 {
        self.cell.words()[Word::AliveUntil as usize].load(Relaxed)
    }

    /// Arrival timestamps (of `CLOCK_REALTIME`) of the frames that the programs take at this time:
    /// of others, a copy in a socket is to be discarded, since the kernel forwards the original.
    pub fn taken(&self, now: Instant) -> Range<u64> {
        let since = self.cell.words()[Word::Since as usize].load(Relaxed);
        let until = match self.alive_until() {
            0 => self.silenced.load(Relaxed),
            until if until <= now.nanos() => sys::realtime().saturating_sub(now.nanos() - until),
            _ => u64::MAX,
        };
        since..until.min(self.leaves_at.load(Relaxed))
    }

    /// Takes what arrives from this moment on, which is another program's until then, and counts as
    /// alive until the loop beats, which first gets what waited there.
    pub fn take_from(&self, moment: Moment) {
        self.set(Word::Since, moment.realtime);
        self.settled_at.store((moment.at + SETTLED).nanos(), Relaxed);
        self.set(Word::AliveUntil, (moment.at + HANDED_OVER).nanos());
    }

    /// What arrives from this moment on is another program's, until another moment is named.
    pub fn leave_at(&self, moment: Moment) {
        self.leaves_at.store(moment.realtime, Relaxed);
    }

    /// Beats: the loop is alive at this time of [`crate::clock`].
    pub fn beat(&self, now: Instant) {
        let now_ns = now.nanos();
        if self.lapsed(now) {
            // Before the time of life: a frame goes by one of both, whenever it comes.
            self.set(Word::Since, sys::realtime() + AHEAD.nanos());
            self.settled_at.store(now_ns + SETTLED.nanos(), Relaxed);
        } else if now_ns >= self.settled_at.load(Relaxed) {
            // From here on the clock may be set without any effect.
            self.set(Word::Since, 0);
        }
        self.set(Word::AliveUntil, (now + self.limit).nanos());
    }

    /// From the next frame on, frames take the kernel's own path until the next beat.
    pub fn silence(&self) {
        if self.alive_until() > 0 {
            let end = self.taken(clock::now()).end.min(sys::realtime());
            self.silenced.store(end, Relaxed);
        }
        self.set(Word::AliveUntil, 0);
    }

    /// The map, for references in programs.
    pub fn map(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// Whoever sees that the port is alive sees all that was set before.
    fn set(&self, word: Word, value: u64) {
        self.cell.words()[word as usize].store(value, Release);
    }
}

impl Drop for Heartbeat {
    /// Frames take the kernel's own path from here on, in whatever order descriptors are closed.
    fn drop(&mut self) {
        self.silence();
    }
}
