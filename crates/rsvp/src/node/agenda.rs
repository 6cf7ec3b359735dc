//! What is due when: one entry for each block of state, in order of time.
//!
//! A block is armed for its earliest time. When that moves later, as every refresh does to a lifetime, the entry stays;
//! it fires once too early and is put where it belongs then. So a refresh costs nothing here.

use super::state::{Before, Filter, Key};
use super::status::Asker;
use crate::wire::Sender;
use engine::units::Instant;
use std::collections::BTreeSet;

/// A block of state of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Block {
    /// A sender: its lifetime, its refreshes, its change of route.
    Path(Sender),
    /// What one asks for: its lifetime.
    Request(Asker),
    /// What is asked of a node before: its refresh.
    Before(Before),
    /// A blockade: its end.
    Blockade(Before, Filter),
}

/// The entries.
#[derive(Default)]
pub(super) struct Agenda(BTreeSet<(Instant, Key, Block)>);

impl Agenda {
    /// A block is due at this time, and has been armed for that one.
    pub fn arm(&mut self, key: Key, block: Block, armed: &mut Instant, due: Instant) {
        if due < *armed {
            self.0.remove(&(*armed, key, block));
            self.0.insert((due, key, block));
            *armed = due;
        }
    }

    /// A block is gone.
    pub fn disarm(&mut self, key: Key, block: Block, armed: Instant) {
        if armed != Instant::NEVER {
            self.0.remove(&(armed, key, block));
        }
    }

    /// Takes the first block that is due.
    pub fn due(&mut self, now: Instant) -> Option<(Key, Block)> {
        self.0.first().filter(|(at, ..)| *at <= now)?;
        self.0.pop_first().map(|(_, key, block)| (key, block))
    }

    /// When the first is due.
    pub fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, ..)| *at)
    }
}
