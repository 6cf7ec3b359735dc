//! What a node knows, for people: a copy of its state as it is now.

use super::state::{Key, State};
use super::{Node, Receiver};
use crate::traffic_control::{Handle, InterfaceId, Request};
use crate::wire::{Adspec, Flowspec, Hop, Sender, Session, Style, TokenBucket};
use engine::units::Instant;

/// One session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionStatus {
    /// Where to.
    pub session: Session,
    /// How its reservations go together; none: there is none.
    pub style: Option<Style>,
    /// Who sends (PSB).
    pub senders: Vec<SenderStatus>,
    /// Who asks for what (RSB).
    pub requests: Vec<RequestStatus>,
    /// What is in force on interfaces (TCSB).
    pub promises: Vec<PromiseStatus>,
    /// What is asked of the nodes before.
    pub asked: Vec<AskedStatus>,
    /// Requests that have failed further on and are kept from others (BSB).
    pub blockades: Vec<BlockadeStatus>,
}

/// One sender of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SenderStatus {
    /// Who.
    pub sender: Sender,
    /// What it sends.
    pub tspec: TokenBucket,
    /// What the path up to here offers.
    pub adspec: Option<Adspec>,
    /// The node before and the interface that its Paths come by; none for a sender of this host.
    pub previous: Option<(Hop, InterfaceId)>,
    /// Whether there are nodes without RSVP between that node and this.
    pub gap: bool,
    /// Its packets leave by these.
    pub by: Vec<InterfaceId>,
    /// They are delivered on this host.
    pub here: bool,
    /// It is forgotten then, if nothing is heard; never for a sender of this host.
    pub expires: Instant,
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Asker {
    /// A program on this host.
    Here(Receiver),
    /// The next node, behind the interface that its hop names.
    Next(Hop),
}

/// One request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestStatus {
    /// Who asks.
    pub asker: Asker,
    /// For whom: one of style FF or SE; none: all senders.
    pub sender: Option<Sender>,
    /// For what.
    pub flowspec: Flowspec,
    /// It is forgotten then, if nothing is heard; never for a program on this host.
    pub expires: Instant,
}

/// One promise of traffic control.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PromiseStatus {
    /// Where.
    pub interface: InterfaceId,
    /// Its name.
    pub handle: Handle,
    /// For whom.
    pub senders: Vec<Sender>,
    /// What.
    pub request: Request,
}

/// What is asked of a node before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskedStatus {
    /// The node, with its own interface.
    pub previous: Hop,
    /// The interface towards it.
    pub interface: InterfaceId,
    /// For whom; none: all senders.
    pub sender: Option<Sender>,
    /// What.
    pub flowspec: Flowspec,
}

/// A request that has failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockadeStatus {
    /// The node before that it failed at, or beyond.
    pub previous: Hop,
    /// For whom; none: all senders.
    pub sender: Option<Sender>,
    /// Requests of this or more are kept from others.
    pub flowspec: Flowspec,
    /// Until then.
    pub until: Instant,
}

impl<T, R> Node<T, R> {
    /// All sessions, as they are.
    pub fn status(&self) -> Vec<SessionStatus> {
        let all = self.sessions.0.iter();
        all.map(|(key, state)| state.status(*key)).collect()
    }

    /// One session, as it is; its police flag means nothing here.
    pub fn status_of(&self, session: &Session) -> Option<SessionStatus> {
        let key = Key::from(session);
        self.sessions.0.get(&key).map(|state| state.status(key))
    }
}

impl State {
    fn status(&self, key: Key) -> SessionStatus {
        SessionStatus {
            session: key.session(),
            style: self.style(),
            senders: self.sender_status(),
            requests: self.request_status(),
            promises: self.promise_status(),
            asked: self.asked_status(),
            blockades: self.blockade_status(),
        }
    }

    fn sender_status(&self) -> Vec<SenderStatus> {
        let all = self.paths.iter().map(|(sender, path)| SenderStatus {
            sender: *sender,
            tspec: path.tspec,
            adspec: path.adspec.clone(),
            previous: path.previous,
            gap: path.gap,
            by: path.by.iter().map(|(by, _)| *by).collect(),
            here: path.here,
            expires: path.expires,
        });
        all.collect()
    }

    fn request_status(&self) -> Vec<RequestStatus> {
        let all = self.asked.iter().flat_map(|(asker, asked)| {
            asked.specs.iter().map(|(sender, spec)| RequestStatus {
                asker: *asker,
                sender: *sender,
                flowspec: spec.flowspec,
                expires: spec.expires,
            })
        });
        all.collect()
    }

    fn promise_status(&self) -> Vec<PromiseStatus> {
        let all = self
            .promises
            .iter()
            .map(|((interface, _), promise)| PromiseStatus {
                interface: *interface,
                handle: promise.handle,
                senders: promise.senders.iter().copied().collect(),
                request: promise.request,
            });
        all.collect()
    }

    fn asked_status(&self) -> Vec<AskedStatus> {
        let all = self.sent.iter().flat_map(|((previous, interface), sent)| {
            sent.specs.iter().map(|(sender, flowspec)| AskedStatus {
                previous: *previous,
                interface: *interface,
                sender: *sender,
                flowspec: *flowspec,
            })
        });
        all.collect()
    }

    fn blockade_status(&self) -> Vec<BlockadeStatus> {
        let all = self.blockades.iter();
        let all = all.map(|(((previous, _), sender), blockade)| BlockadeStatus {
            previous: *previous,
            sender: *sender,
            flowspec: blockade.flowspec,
            until: blockade.until,
        });
        all.collect()
    }
}
