//! What went through a path's queue, on a tape: recorded beside the packet loop, and done again.
//!
//! - [`event`]: what is on a tape, as bytes;
//! - [`tape`]: the loop's side: it appends events to chunks, and hands full ones to another thread;
//! - [`recreation`]: the same queue given the same events: the same departures, to the nanosecond;
//! - [`shortened`]: a tape without headers, for a long time of which nothing can be forgotten;
//! - [`candidate`]: another policy given the same arrivals, before a link of its own.
//!
//! Events stand between the loop and the queue, so a tape needs neither the port nor the clock: the
//! time of each call is in it, and so is how often the queue was asked, which is how much room the
//! port had. Of a frame only its headers are kept.

pub mod candidate;
pub mod event;
pub mod recreation;
pub mod shortened;
pub mod tape;

use crate::classify::Classify;
use crate::pool::{Offload, Pool, Slots};
use crate::worker::{PathSpec, PortId};
use engine::framing::Framing;
use engine::packet::{Buffer, ClassId};
use engine::random::Seed;
use engine::tree::TreePlan;
use engine::units::Bandwidth;
use std::fmt;
use std::io;

/// Packets that may be queued at once where traffic is done again.
pub const BACKLOG: u32 = 1 << 17;

/// More packets are queued than [`BACKLOG`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMany;

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {BACKLOG} packets are queued")
    }
}

impl std::error::Error for TooMany {}

/// Memory for the headers of queued packets. Pages that are never used take none.
pub(crate) fn headers_pool() -> io::Result<Pool> {
    Pool::new(Slots {
        small: BACKLOG,
        big: 1,
    })
}

fn put(pool: &mut Pool, headers: &[u8]) -> Result<Buffer, TooMany> {
    pool.put(headers, Offload::default()).ok_or(TooMany)
}

/// How a path begins in which traffic is done again.
pub struct Beginning {
    /// Its name.
    pub name: String,
    /// The plan.
    pub plan: TreePlan,
    /// The seed that its tree is built with.
    pub seed: Seed,
    /// Chooses the classes of packets.
    pub classify: Box<dyn Classify>,
    /// What leaves is shaped to this rate.
    pub bandwidth: Option<Bandwidth>,
    /// What the link makes of a frame.
    pub framing: Framing,
    /// The rates that classes are guaranteed.
    pub guarantees: Vec<(ClassId, Bandwidth)>,
}

impl fmt::Debug for Beginning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beginning")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Beginning {
    pub(crate) fn spec(self) -> PathSpec {
        let queue = self.plan.build(self.seed);
        PathSpec {
            classify: self.classify,
            plan: Some(self.plan),
            bandwidth: self.bandwidth,
            framing: self.framing,
            guarantees: self.guarantees,
            ..PathSpec::new(self.name, (PortId(0), PortId(0)), queue)
        }
    }
}
