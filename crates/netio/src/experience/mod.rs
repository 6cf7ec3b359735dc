//! What passing traffic shows of the experience of classes and hosts: round trips of TCP and QUIC
//! on both sides of this host, and what TCP had to send again.
//!
//! An [`ExperienceWatch`] belongs to two paths of opposite directions, in one worker or in two. A
//! segment with data is watched from its arrival here until the other path sees its answer. So the
//! round trip ahead has the wait in our own queue in it, and those ahead and behind together are
//! what the ends of the connection have.
//!
//! - With timestamps (RFC 7323) the answer is the first echo of the segment's, and only the first
//!   segment with a new timestamp is watched (Kathleen Nichols's pping). Without, it is the first
//!   acknowledgment of its last byte, and a segment that is repeated meanwhile is no longer watched
//!   (Karn and Partridge, SIGCOMM 1987). Handshakes go by numbers always.
//! - A segment whose data have passed before is a repeated one. What passes here out of order for
//!   another reason counts as that too.
//! - Each connection has one watched segment in each direction: a sample a round trip. A path
//!   begins to watch one in a quarter of a millisecond at most, and SYNs. Connections share
//!   [`FLOWS`] places by a keyed hash. One that finds its place taken is not measured until it is
//!   free: memory is fixed, and what is measured is a sample.
//! - Of QUIC the edges of the spin bit are watched, where a connection has one (`spin.rs`); what it
//!   repeats cannot be seen.
//! - A pure acknowledgment is not watched: nothing answers it. An answer that an application takes
//!   time for, or that is a delayed acknowledgment, makes its round trip longer; the median of a
//!   transfer does not show that, and the 99th percentile may.
//!
//! Both paths write without locks; a race between them costs a sample. The counts of classes and
//! hosts are behind a lock that nobody waits for here: who does not get it keeps its counts, or
//! gives up its sample.

mod observer;
mod segment;
mod spin;
mod tally;

pub use observer::ExperienceObserver;
pub use tally::{ExperienceOf, ExperienceReading, KEPT};

use engine::header::{Family, FlowKey};
use engine::random::Seed;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tally::{Tally, fold};

/// Places for connections, in each watch.
pub const FLOWS: usize = 16_384;

/// The two paths of a watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// One of them.
    There = 0,
    /// The other.
    Back = 1,
}

impl Direction {
    const fn other(self) -> Self {
        match self {
            Self::There => Self::Back,
            Self::Back => Self::There,
        }
    }
}

/// One place for a connection: a cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Place {
    /// For each direction the watched segment: 31 bits of the connection's hash, whether its
    /// timestamp is awaited, and that or the number behind its last byte. 0: none.
    awaited: [AtomicU64; 2],
    /// Its class with [`HANDSHAKE`], and when it arrived.
    sent: [AtomicU64; 2],
    /// The connection's last round trip on this side, behind its hash. 0: none.
    last: [AtomicU64; 2],
}

/// The awaited answer is an echo of the timestamp.
const BY_STAMP: u64 = 1 << 32;
/// The segment is a SYN.
const HANDSHAKE: u64 = 1 << 63;
/// A clock of 2¹⁰ ns.
const TICK: u32 = 10;
/// A path begins to watch a segment after so many ticks.
const APART: u32 = 256;
/// A segment without an answer is given up after this many ticks: some 10 s.
const PATIENCE: u32 = 10_000_000;

/// Watches two paths of opposite directions.
pub struct ExperienceWatch {
    keys: [u64; 3],
    places: Box<[Place]>,
    /// The counts of the interface that each path leads to, if it keeps any.
    tallies: Mutex<[Option<Tally>; 2]>,
    /// Samples that were given up since the lock was taken.
    given_up: AtomicU32,
}

impl fmt::Debug for ExperienceWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExperienceWatch")
            .field("given_up", &self.given_up)
            .finish_non_exhaustive()
    }
}

impl ExperienceWatch {
    /// A watch that keeps this of the interfaces that [`Direction::There`] and
    /// [`Direction::Back`] lead to. Places are found by a hash with the secret of this seed.
    pub fn new(keeps: [Option<ExperienceOf>; 2], seed: Seed) -> Self {
        let mut random = seed.fork("experience").stream();
        let mut places = Vec::new();
        places.resize_with(FLOWS, Place::default);
        Self {
            keys: std::array::from_fn(|_| random.bits() | 1),
            places: places.into(),
            tallies: Mutex::new(keeps.map(|keeps| keeps.map(Tally::new))),
            given_up: AtomicU32::new(0),
        }
    }

    /// The counts of the interface that this path leads to; none if it keeps none.
    pub fn read(&self, of: Direction) -> Option<ExperienceReading> {
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        tallies[of as usize].as_ref().map(Tally::read)
    }

    /// How many samples were given up since another thread read or wrote the counts.
    pub fn given_up(&self) -> u32 {
        self.given_up.load(Ordering::Relaxed)
    }

    /// The same for both directions of a connection. Senders choose addresses and ports, so the
    /// ends are mixed with a secret.
    #[inline(always)]
    fn hash(&self, key: &FlowKey, [source, destination]: [u16; 2]) -> u64 {
        let end = |address: u128, port: u16| {
            let mut low = address as u64;
            if key.family == Family::V6 {
                low = fold(low ^ self.keys[0], (address >> 64) as u64 ^ self.keys[2]);
            }
            fold(low ^ u64::from(port) << 40 ^ self.keys[0], self.keys[1])
        };
        // Ports that follow one another must not leave places out.
        let both = end(key.source, source).wrapping_add(end(key.destination, destination));
        fold(both, self.keys[2])
    }
}

#[cfg(test)]
mod tests;
