//! Which state a message refers to: a later message about the same state replaces an earlier one.

use crate::wire::{Descriptors, Message, SenderTemplate, Session};
use core::net::IpAddr;

/// Whether a state is path or reservation state; the latter belongs to a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum StateKind {
    Path,
    Resv(IpAddr),
}

/// Identifies the state that a Path or Resv message installs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct StateKey {
    destination: IpAddr,
    protocol: u8,
    port: u16,
    kind: StateKind,
    /// The sender of a Path, the senders of an FF Resv; empty for the shared styles.
    senders: Vec<SenderTemplate>,
}

impl StateKey {
    fn new(session: &Session, kind: StateKind, senders: Vec<SenderTemplate>) -> Self {
        Self {
            destination: session.destination,
            protocol: session.protocol,
            port: session.port,
            kind,
            senders,
        }
    }

    /// Whether a tear of this key also ends the state of `other`. A PathTear ends its own state. A
    /// ResvTear ends all state of the session with the neighbour, because one message may have
    /// carried several senders; its key sorts before all that it covers.
    pub fn covers(&self, other: &Self) -> bool {
        (self.destination, self.protocol, self.port, self.kind)
            == (other.destination, other.protocol, other.port, other.kind)
            && (self.kind != StateKind::Path || self.senders == other.senders)
    }
}

/// The state that a message installs or refreshes; none for the other messages.
pub(super) fn state_key(message: &Message, to: IpAddr) -> Option<StateKey> {
    match message {
        Message::Path(path) => Some(StateKey::new(
            &path.session,
            StateKind::Path,
            vec![path.sender.template],
        )),
        Message::Resv(resv) => {
            let senders = match &resv.descriptors {
                Descriptors::Fixed(list) => list.iter().map(|(_, sender)| *sender).collect(),
                _ => Vec::new(),
            };
            Some(StateKey::new(&resv.session, StateKind::Resv(to), senders))
        }
        _ => None,
    }
}

/// The state that a message tears down; none for the other messages.
pub(super) fn torn_state(message: &Message, to: IpAddr) -> Option<StateKey> {
    match message {
        Message::PathTear(tear) => Some(StateKey::new(&tear.session, StateKind::Path, vec![tear.sender])),
        Message::ResvTear(tear) => Some(StateKey::new(&tear.session, StateKind::Resv(to), Vec::new())),
        _ => None,
    }
}
