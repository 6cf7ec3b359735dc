//! What a message is about: a later one about the same takes its place.

use crate::wire::{Descriptors, Message, Sender, Session};
use core::net::IpAddr;

/// What the state that a message makes is known by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Topic {
    /// Session, and Path or Resv; of a Resv the neighbour.
    place: (IpAddr, u8, u16, bool, Option<IpAddr>),
    /// The sender of a Path, the senders of a Resv of style FF; none of other styles.
    senders: Vec<Sender>,
}

impl Topic {
    fn new(session: &Session, resv: bool, to: Option<IpAddr>, senders: Vec<Sender>) -> Self {
        Self {
            place: (session.destination, session.protocol, session.port, resv, to),
            senders,
        }
    }

    /// Whether this end, which is the first in order of all that it covers, also ends that: a Path the same, a Resv all of the session with the neighbour, because senders
    /// may have stood together in one message.
    pub fn covers(&self, topic: &Self) -> bool {
        self.place == topic.place && (self.place.3 || self.senders == topic.senders)
    }
}

/// What a message makes state about; none of others.
pub(super) fn topic(message: &Message, to: IpAddr) -> Option<Topic> {
    match message {
        Message::Path(path) => Some(Topic::new(&path.session, false, None, vec![path.sender.template])),
        Message::Resv(resv) => {
            let senders = match &resv.descriptors {
                Descriptors::Fixed(list) => list.iter().map(|(_, sender)| *sender).collect(),
                _ => Vec::new(),
            };
            Some(Topic::new(&resv.session, true, Some(to), senders))
        }
        _ => None,
    }
}

/// What a message ends; none of others.
pub(super) fn ends(message: &Message, to: IpAddr) -> Option<Topic> {
    match message {
        Message::PathTear(tear) => Some(Topic::new(&tear.session, false, None, vec![tear.sender])),
        Message::ResvTear(tear) => Some(Topic::new(&tear.session, true, Some(to), Vec::new())),
        _ => None,
    }
}
