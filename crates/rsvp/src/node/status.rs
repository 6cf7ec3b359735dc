//! What a node knows, for people: a copy of its state as it is now.

use super::Receiver;
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
