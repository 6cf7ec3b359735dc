//! What a node gives and tells: messages to send, and news for those who use it.

use crate::traffic_control::{InterfaceId, Refused};
use crate::wire::{Adspec, Content, Descriptors, ErrorSpec, Flowspec, Sender, Session, Style, TokenBucket};
use core::net::IpAddr;

/// A message to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// By this interface.
    pub interface: InterfaceId,
    /// With this source address: a Path has its sender's.
    pub source: IpAddr,
    /// To this address.
    pub destination: IpAddr,
    /// With the Router Alert option, so that routers on the way look at it.
    pub router_alert: bool,
    /// With this IP TTL.
    pub ttl: u8,
    /// The message.
    pub bytes: Vec<u8>,
}

/// One of the programs on this host that reserve; several may do so for the same session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Receiver(pub u64);

/// What a node has to tell those who use it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A sender towards this host, new or changed.
    Path {
        /// Where to.
        session: Session,
        /// Who.
        sender: Sender,
        /// What it sends.
        tspec: TokenBucket,
        /// What the path offers.
        adspec: Option<Adspec>,
    },
    /// A sender towards this host has ended, or was not heard of for too long.
    PathEnded {
        /// Where to.
        session: Session,
        /// Who.
        sender: Sender,
    },
    /// The path from a sender of this host failed.
    PathFailed {
        /// Where to.
        session: Session,
        /// Who.
        sender: Sender,
        /// What went wrong, and where.
        error: ErrorSpec,
    },
    /// A sender of this host has a reservation, new or changed.
    Reserved {
        /// Where to.
        session: Session,
        /// For whom.
        sender: Sender,
        /// Whether it is the sender's alone.
        style: Style,
        /// What the receivers ask for, merged.
        flowspec: Flowspec,
    },
    /// That reservation has ended.
    Unreserved {
        /// Where to.
        session: Session,
        /// For whom.
        sender: Sender,
    },
    /// A reservation of this host failed.
    ReservationFailed {
        /// Where to.
        session: Session,
        /// Who reserved.
        receiver: Receiver,
        /// What failed: it may be what several receivers ask for, merged.
        failed: Descriptors<Content<Flowspec>>,
        /// What went wrong, and where.
        error: ErrorSpec,
    },
    /// A reservation of this host was confirmed.
    Confirmed {
        /// Where to.
        session: Session,
        /// Who reserved.
        receiver: Receiver,
        /// What is in force.
        confirmed: Descriptors<Content<Flowspec>>,
    },
    /// This very node refused a reservation.
    Refused {
        /// Where to.
        session: Session,
        /// The interface that lacks.
        interface: InterfaceId,
        /// Who asked.
        next: IpAddr,
        /// For what.
        wanted: Descriptors<Flowspec>,
        /// With numbers.
        refused: Refused,
    },
}

/// Why a call does nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallError {
    /// There is no route to the destination.
    NoRoute,
    /// No Path has come from any of these senders.
    NoPath,
    /// Ports zero and non-zero where they may not be.
    Ports,
    /// As many senders or requests as the settings allow are there.
    Full,
    /// The session has reservations of this style already, or there is no such style.
    Style(Style),
    /// Others have reserved another service for the same senders.
    Service,
}
