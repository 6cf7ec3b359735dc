//! What is known of the sequence numbers of neighbours: a bounded table.
//!
//! A holder of a key can state any address. When the table is full, an association makes room that
//! has not answered its challenge, then one that will be challenged again, so that nothing can be
//! replayed: in each case the one that was heard longest ago. An association of a neighbour without
//! the handshake stays, because its replay window is all that protects it.

use super::replay_window::ReplayWindow;
use core::net::IpAddr;
use engine::units::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// A receiving security association: a neighbour, and a key that it sends with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Association {
    pub neighbour: IpAddr,
    pub key: u64,
}

/// What is known of the sequence numbers of an association.
pub(super) enum SequenceState {
    /// We have challenged it and await the response.
    Challenged { cookie: Vec<u8>, at: Instant },
    /// Its last sequence numbers are known.
    Synchronised {
        window: ReplayWindow,
        /// It answers challenges.
        handshake: bool,
    },
}

/// Which associations make room first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tenure {
    /// Has not answered a challenge.
    Challenged,
    /// Would be challenged again.
    Handshake,
    /// Would be believed again, and what it sent before could be replayed.
    Permanent,
}

/// An association's position among those that make room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    tenure: Tenure,
    heard: Instant,
    of: Association,
}

struct Entry {
    state: SequenceState,
    position: Position,
}

/// The associations of a node.
pub(super) struct Associations {
    most: usize,
    table: BTreeMap<Association, Entry>,
    order: BTreeSet<Position>,
}

const fn tenure(state: &SequenceState) -> Tenure {
    match state {
        SequenceState::Challenged { .. } => Tenure::Challenged,
        SequenceState::Synchronised { handshake: true, .. } => Tenure::Handshake,
        SequenceState::Synchronised { handshake: false, .. } => Tenure::Permanent,
    }
}

impl Associations {
    pub const fn new(most: usize) -> Self {
        Self {
            most,
            table: BTreeMap::new(),
            order: BTreeSet::new(),
        }
    }

    pub fn get(&self, of: Association) -> Option<&SequenceState> {
        self.table.get(&of).map(|entry| &entry.state)
    }

    /// Accepts a sequence number of a synchronised association if it is new; none of any other.
    pub fn accept(&mut self, now: Instant, of: Association, sequence: u64) -> Option<bool> {
        let entry = self.table.get_mut(&of)?;
        let SequenceState::Synchronised { window, .. } = &mut entry.state else {
            return None;
        };
        let accepted = window.accept(sequence);
        if accepted {
            self.order.remove(&entry.position);
            entry.position.heard = now;
            self.order.insert(entry.position);
        }
        Some(accepted)
    }

    /// Whether there is a place for this association, perhaps at the cost of another.
    pub fn make_room(&mut self, of: Association) -> bool {
        if self.table.contains_key(&of) || self.table.len() < self.most {
            return true;
        }
        let first = self.order.first().copied();
        let Some(first) = first.filter(|first| first.tenure != Tenure::Permanent) else {
            return false;
        };
        self.order.remove(&first);
        self.table.remove(&first.of);
        true
    }

    /// Records the state of an association; [`Associations::make_room`] comes first.
    pub fn record(&mut self, now: Instant, of: Association, state: SequenceState) {
        let position = Position {
            tenure: tenure(&state),
            heard: now,
            of,
        };
        if let Some(old) = self.table.insert(of, Entry { state, position }) {
            self.order.remove(&old.position);
        }
        self.order.insert(position);
    }
}
