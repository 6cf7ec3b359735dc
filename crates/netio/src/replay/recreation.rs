//! The queue of a path, given the events of its tape: every packet leaves again as it did.
//!
//! It is the path itself, without ports. What leaves is compared with what the tape says has left.

use super::event::{Asked, Digest, TapeEvent};
use super::{Beginning, TooMany, headers_pool, put};
use crate::handle::{ClassRetune, PathView, Retune};
use crate::path::Path;
use crate::pool::Pool;
use engine::packet::Packet;
use engine::units::Instant;
use std::fmt;
use std::io;

/// A change that a path has adopted.
#[derive(Debug)]
pub enum Change {
    /// A plan.
    Whole(Retune),
    /// The settings of one class.
    Class(ClassRetune),
}

/// Why an event cannot be done again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Diverged {
    /// At this time other packets left, or in another order: so many, by the tape and now.
    Departures {
        /// When.
        at: Instant,
        /// By the tape.
        recorded: u32,
        /// Now.
        again: u32,
    },
    /// More packets are queued than fit.
    TooMany,
    /// A change is not known, or cannot be adopted as it was.
    Change {
        /// When.
        at: Instant,
    },
}

impl From<TooMany> for Diverged {
    fn from(_: TooMany) -> Self {
        Self::TooMany
    }
}

impl fmt::Display for Diverged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Departures { at, recorded, again } if recorded == again => {
                write!(
                    f,
                    "at {at} other packets leave than were recorded, or in another order"
                )
            }
            Self::Departures { at, recorded, again } => {
                write!(f, "at {at} {recorded} packets left; done again, {again} do")
            }
            Self::TooMany => TooMany.fmt(f),
            Self::Change { at } => write!(f, "the change at {at} cannot be adopted again"),
        }
    }
}

impl std::error::Error for Diverged {}

/// A packet that leaves again.
#[derive(Debug)]
pub struct Departure<'a> {
    /// When it goes to the port, by the loop's clock.
    pub at: Instant,
    /// The packet.
    pub packet: &'a Packet,
    /// Its headers.
    pub headers: &'a [u8],
}

/// A path whose traffic is done again.
#[derive(Debug)]
pub struct Recreation {
    path: Path,
    pool: Pool,
    /// When it was asked last.
    now: Instant,
}

impl Recreation {
    /// A path that begins so.
    ///
    /// # Errors
    /// If there is no memory for headers.
    pub fn new(beginning: Beginning) -> io::Result<Self> {
        let mut pool = headers_pool()?;
        Ok(Self {
            path: Path::new(beginning.spec(), 0, &mut pool).of_traffic_again(),
            pool,
            now: Instant::START,
        })
    }

    /// Does an event again. `change` is asked for each change in turn; `leaving` gets each packet
    /// that leaves.
    ///
    /// # Errors
    /// If that gives anything but what was recorded.
    pub fn again(
        &mut self,
        event: &TapeEvent<'_>,
        change: &mut dyn FnMut() -> Option<Change>,
        leaving: &mut dyn FnMut(Departure<'_>),
    ) -> Result<(), Diverged> {
        let Self { path, pool, now } = self;
        match *event {
            TapeEvent::Start { .. } => {}
            TapeEvent::Arrival(arrival) => {
                *now = (*now).max(arrival.at);
                let mut packet = arrival.packet();
                packet.buffer = put(pool, arrival.headers)?;
                path.offer_again(pool, packet, arrival.to);
            }
            TapeEvent::Asked(asked) => {
                *now = (*now).max(asked.at);
                return self.ask(&asked, leaving);
            }
            TapeEvent::Switched { on } => path.switch(pool, on),
            TapeEvent::Abandoned { why } => path.abandon(pool, why),
            TapeEvent::Changed { clock, at, class } => {
                *now = (*now).max(at);
                let adopted = match change() {
                    Some(Change::Whole(retune)) if !class => {
                        path.retune_again(clock, at, pool, retune);
                        true
                    }
                    Some(Change::Class(retune)) if class => path.retune_class_again(at, pool, retune),
                    _ => false,
                };
                if !adopted {
                    return Err(Diverged::Change { at });
                }
            }
        }
        Ok(())
    }

    fn ask(&mut self, asked: &Asked, leaving: &mut dyn FnMut(Departure<'_>)) -> Result<(), Diverged> {
        let (mut sent, mut digest) = (0, Digest::default());
        let _ = self
            .path
            .ask_again(asked.at, asked.asks, &mut self.pool, &mut |_, packet, headers| {
                sent += 1;
                digest.add(packet);
                let at = asked.clock;
                leaving(Departure { at, packet, headers });
            });
        if (sent, digest) == (asked.sent, asked.digest) {
            return Ok(());
        }
        Err(Diverged::Departures {
            at: asked.at,
            recorded: asked.sent,
            again: sent,
        })
    }

    /// What has passed so far, as a snapshot of a path shows it.
    pub fn show(&mut self) -> PathView {
        self.path.show(self.now)
    }
}
