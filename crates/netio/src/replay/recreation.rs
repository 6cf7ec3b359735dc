//! The queue of a path, given the events of its tape: every packet leaves again as it did.
//!
//! It is the path itself, without ports. What leaves is compared with what the tape says has left.

use super::event::{Digest, TapeEvent, TapedArrival, TapedMove};
use super::shortened::ShortEvent;
use super::{Beginning, TooMany, headers_pool, put};
use crate::classify::Classify;
use crate::handle::{ClassRetune, ExplainWish, PathView, Retune};
use crate::path::{Path, Wished};
use crate::pool::Pool;
use crate::worker::PathSpec;
use engine::header::Headers;
use engine::packet::{ClassId, FlowHashes, Packet};
use engine::tree::TreePlan;
use engine::units::Instant;
use measure::waits::{RecordedWaits, Wanted};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// By this time other packets had left, or in another order, than by a tape in short form.
    Since {
        /// When.
        at: Instant,
    },
    /// More packets are queued than fit.
    TooMany,
    /// A packet is in a class that takes none.
    Class {
        /// When.
        at: Instant,
    },
    /// Something comes before what was before it.
    Back {
        /// When.
        at: Instant,
    },
    /// A change is not known, or cannot be adopted as it was.
    Change {
        /// When.
        at: Instant,
    },
    /// No link of this bandwidth can be as busy as it was at the beginning.
    Link,
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
            Self::Since { at } => write!(
                f,
                "by {at} other packets have left than were recorded, or in another order"
            ),
            Self::TooMany => TooMany.fmt(f),
            Self::Class { at } => write!(f, "at {at} a packet is in a class that takes none"),
            Self::Back { at } => write!(f, "what was at {at} comes after what was later"),
            Self::Change { at } => write!(f, "the change at {at} cannot be adopted again"),
            Self::Link => f.write_str("the link cannot have been as busy as it was at the beginning"),
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

/// Classes and flows as a tape has them, of packets that a change moves.
#[derive(Clone, Debug, Default)]
struct AsTaped(Arc<Mutex<VecDeque<(ClassId, FlowHashes)>>>);

impl AsTaped {
    fn all(&self) -> MutexGuard<'_, VecDeque<(ClassId, FlowHashes)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Classify for AsTaped {
    fn classify(&mut self, _headers: &Headers, packet: &mut Packet) {
        // With too few of them other packets leave than did, which is noticed then.
        (packet.class, packet.flow) = self
            .all()
            .pop_front()
            .unwrap_or((ClassId(0), FlowHashes::default()));
    }
}

/// A path whose traffic is done again. Its filters are not needed: their answers are on the tape.
#[derive(Debug)]
pub struct Recreation {
    path: Path,
    pool: Pool,
    plan: TreePlan,
    moved: AsTaped,
    /// The latest time that its queue has seen.
    now: Instant,
    /// What has left since the last check of a tape in short form.
    unchecked: Digest,
}

impl Recreation {
    /// A path that begins so.
    ///
    /// # Errors
    /// If there is no memory for headers.
    pub fn new(beginning: Beginning) -> io::Result<Self> {
        let mut pool = headers_pool()?;
        let (plan, moved) = (beginning.plan.clone(), AsTaped::default());
        let spec = PathSpec {
            classify: Box::new(moved.clone()),
            ..beginning.spec()
        };
        Ok(Self {
            path: Path::new(spec, 0, &mut pool).of_traffic_again(),
            pool,
            plan,
            moved,
            now: Instant::START,
            unchecked: Digest::default(),
        })
    }

    /// Begins to record why packets wait, from now on; what was recorded so far is gone.
    pub fn begin_explaining(&mut self, wanted: Wanted) {
        let _ = self.end_explaining();
        let _ = self.path.explain(self.now, ExplainWish::Begin(wanted));
    }

    /// Ends that, and returns what was recorded.
    pub fn end_explaining(&mut self) -> Option<RecordedWaits> {
        match self.path.explain(self.now, ExplainWish::End) {
            Wished::Recorded(recorded) => Some(*recorded),
            _ => None,
        }
    }

    /// Time goes on to this.
    fn pass(&mut self, at: Instant) -> Result<(), Diverged> {
        if at < self.now {
            return Err(Diverged::Back { at });
        }
        self.now = at;
        Ok(())
    }

    /// Whether packets can be in this class of a plan.
    fn takes(plan: &TreePlan, class: ClassId) -> bool {
        plan.classes.is_empty() || plan.info(class).is_some_and(|info| info.leaf && !info.vacant)
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
        match *event {
            TapeEvent::Start { .. } => {}
            TapeEvent::Link(state) => {
                if !self.path.resume_link(state) {
                    return Err(Diverged::Link);
                }
            }
            TapeEvent::Arrival(arrival) => self.arrive(arrival.at, arrival.packet(), &arrival)?,
            TapeEvent::Held(held) if held.packet.at > held.at => {
                return Err(Diverged::Back { at: held.at });
            }
            TapeEvent::Held(held) => self.arrive(held.at, held.packet(), &held.packet)?,
            TapeEvent::Asked(asked) => {
                self.pass(asked.at)?;
                let (sent, digest) = self.ask((asked.at, asked.clock), asked.asks, leaving);
                if (sent, digest) != (asked.sent, asked.digest) {
                    return Err(Diverged::Departures {
                        at: asked.at,
                        recorded: asked.sent,
                        again: sent,
                    });
                }
            }
            TapeEvent::Switched { on } => {
                self.path.switch(self.now, &mut self.pool, on);
                self.path.end_change(self.now, &mut self.pool);
            }
            TapeEvent::Abandoned { why } => self.path.abandon_again(self.now, &mut self.pool, why),
            TapeEvent::MovedAtOnce { class, flow } => self.moved.all().push_back((class, flow)),
            TapeEvent::Moved(TapedMove { at, class, flow, to }) => {
                self.pass(at)?;
                if !Self::takes(&self.plan, class) {
                    return Err(Diverged::Class { at });
                }
                self.moved.all().push_back((class, flow));
                let moved = self.path.move_again(at, &mut self.pool, to);
                self.moved.all().clear();
                if !moved {
                    return Err(Diverged::Change { at });
                }
            }
            TapeEvent::Changed { clock, at, class } => {
                self.pass(at)?;
                let adopted = change().is_some_and(|change| self.change(clock, class, change));
                self.moved.all().clear();
                if !adopted {
                    return Err(Diverged::Change { at });
                }
            }
        }
        Ok(())
    }

    /// A packet goes now where this one went.
    fn arrive(
        &mut self,
        now: Instant,
        mut packet: Packet,
        arrival: &TapedArrival<'_>,
    ) -> Result<(), Diverged> {
        self.pass(now)?;
        if !Self::takes(&self.plan, arrival.class) {
            return Err(Diverged::Class { at: now });
        }
        packet.buffer = put(&mut self.pool, arrival.headers)?;
        self.path.offer_again(now, &mut self.pool, packet, arrival.to);
        Ok(())
    }

    /// Adopts a change, of one class alone or of all, if it is one.
    fn change(&mut self, clock: Instant, of_class: bool, change: Change) -> bool {
        let (at, pool) = (self.now, &mut self.pool);
        match change {
            Change::Whole(mut retune) if !of_class => {
                if !self
                    .moved
                    .all()
                    .iter()
                    .all(|(class, _)| Self::takes(&retune.plan, *class))
                {
                    return false;
                }
                if let Some(classify) = &mut retune.classify {
                    *classify = Box::new(self.moved.clone());
                }
                self.plan = retune.plan.clone();
                // Those of older tapes.
                let at_once = !self.moved.all().is_empty();
                self.path.retune_again((clock, at), pool, retune, at_once);
                true
            }
            Change::Class(retune) if of_class => {
                self.plan = retune.plan.clone();
                self.path.retune_class_again(at, pool, retune)
            }
            _ => false,
        }
    }

    /// Does an event of a tape in short form again, as [`Recreation::again`].
    ///
    /// # Errors
    /// If that gives anything but what was recorded.
    pub fn again_in_short(
        &mut self,
        event: &ShortEvent<'_>,
        change: &mut dyn FnMut() -> Option<Change>,
        leaving: &mut dyn FnMut(Departure<'_>),
    ) -> Result<(), Diverged> {
        match *event {
            ShortEvent::Whole(event) => self.again(&event, change, leaving)?,
            ShortEvent::Asked { at, clock, asks } => {
                self.pass(at)?;
                let (sent, digest) = self.ask((at, clock), asks, leaving);
                self.unchecked.add_asked(sent, digest);
            }
            ShortEvent::Check(digest) => {
                if std::mem::take(&mut self.unchecked) != digest {
                    return Err(Diverged::Since { at: self.now });
                }
            }
        }
        Ok(())
    }

    /// Asks so often: how many packets have left, and which.
    fn ask(
        &mut self,
        (at, clock): (Instant, Instant),
        asks: u32,
        leaving: &mut dyn FnMut(Departure<'_>),
    ) -> (u32, Digest) {
        let (mut sent, mut digest) = (0, Digest::default());
        let _ = self
            .path
            .ask_again(at, asks, &mut self.pool, &mut |_, packet, headers| {
                sent += 1;
                digest.add(packet);
                leaving(Departure {
                    at: clock,
                    packet,
                    headers,
                });
            });
        (sent, digest)
    }

    /// What has passed so far, as a snapshot of a path shows it.
    pub fn show(&mut self) -> PathView {
        self.path.show(self.now)
    }
}
