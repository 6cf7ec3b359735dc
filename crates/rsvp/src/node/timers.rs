//! The timer queue: one entry for each state block, in order of time.
//!
//! A block is armed for its earliest timer. When that moves later, as every refresh moves a
//! lifetime, the entry stays; it fires early once and is armed again. A refresh therefore costs
//! nothing here.

use super::neighbour::{NextHop, PreviousHop};
use super::state::{FilterSpec, SessionKey};
use crate::wire::SenderTemplate;
use engine::units::Instant;
use std::collections::BTreeSet;

/// The state block of a session whose timer runs out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Timer {
    /// A PSB: its lifetime, its Path refreshes, its local repair.
    Psb(SenderTemplate),
    /// An RSB: its lifetimes.
    Rsb(NextHop),
    /// The Resv state sent to a previous hop: its refresh.
    ResvRefresh(PreviousHop),
    /// A BSB: its Tb.
    Bsb(PreviousHop, FilterSpec),
}

/// All timers of a node.
#[derive(Default)]
pub(super) struct TimerQueue(BTreeSet<(Instant, SessionKey, Timer)>);

impl TimerQueue {
    /// Arms a block that is due at `due` and was armed for `armed`.
    pub fn arm(&mut self, key: SessionKey, timer: Timer, armed: &mut Instant, due: Instant) {
        if due < *armed {
            self.0.remove(&(*armed, key, timer));
            self.0.insert((due, key, timer));
            *armed = due;
        }
    }

    /// Removes the entry of a deleted block.
    pub fn disarm(&mut self, key: SessionKey, timer: Timer, armed: Instant) {
        if armed != Instant::NEVER {
            self.0.remove(&(armed, key, timer));
        }
    }

    /// Takes the first timer that is due.
    pub fn pop_due(&mut self, now: Instant) -> Option<(SessionKey, Timer)> {
        self.0.first().filter(|(at, ..)| *at <= now)?;
        self.0.pop_first().map(|(_, key, timer)| (key, timer))
    }

    /// When the first timer is due.
    pub fn earliest(&self) -> Option<Instant> {
        self.0.first().map(|(at, ..)| *at)
    }
}
