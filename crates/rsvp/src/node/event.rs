//! What a node hands out: messages to transmit, and upcalls to applications (RFC 2205, section
//! 3.11.1).

use super::limits::{LimitOutcome, LimitedState};
use crate::places::Neighbour;
use crate::traffic_control::{AdmissionFailure, InterfaceId};
use crate::wire::{
    Adspec, Content, Descriptors, ErrorSpec, Flowspec, SenderTemplate, Session, Style, TokenBucket,
};
use core::net::IpAddr;

/// A message to transmit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The outgoing interface.
    pub interface: InterfaceId,
    /// The IP source address; a Path carries its sender's.
    pub source: IpAddr,
    /// The IP destination address.
    pub destination: IpAddr,
    /// Whether the IP header has the Router Alert option.
    pub router_alert: bool,
    /// The IP TTL.
    pub ttl: u8,
    /// The RSVP message.
    pub bytes: Vec<u8>,
}

/// A receiver application on this host; several may reserve in the same session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReceiverId(pub u64);

/// An upcall.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// PATH_EVENT: path state of a sender towards this host is new or has changed.
    Path {
        /// The session.
        session: Session,
        /// The sender.
        sender: SenderTemplate,
        /// The sender's Tspec.
        tspec: TokenBucket,
        /// What the path offers.
        adspec: Option<Adspec>,
    },
    /// Path state of a sender towards this host was torn down or timed out.
    PathEnded {
        /// The session.
        session: Session,
        /// The sender.
        sender: SenderTemplate,
    },
    /// PATH_ERROR: a Path of a sender on this host failed.
    PathFailed {
        /// The session.
        session: Session,
        /// The sender.
        sender: SenderTemplate,
        /// The error, and the node that found it.
        error: ErrorSpec,
    },
    /// RESV_EVENT: a sender on this host has a reservation, new or changed.
    Reserved {
        /// The session.
        session: Session,
        /// The sender.
        sender: SenderTemplate,
        /// The style of the reservation.
        style: Style,
        /// The receivers' flowspecs, merged.
        flowspec: Flowspec,
    },
    /// The reservation of a sender on this host has ended.
    Unreserved {
        /// The session.
        session: Session,
        /// The sender.
        sender: SenderTemplate,
    },
    /// RESV_ERROR: a reservation of this host failed.
    ReservationFailed {
        /// The session.
        session: Session,
        /// The application that reserved.
        receiver: ReceiverId,
        /// The request that failed; it may be several receivers' requests, merged.
        failed: Descriptors<Content<Flowspec>>,
        /// The error, and the node that found it.
        error: ErrorSpec,
    },
    /// RESV_CONFIRM: a reservation of this host was confirmed.
    Confirmed {
        /// The session.
        session: Session,
        /// The application that reserved.
        receiver: ReceiverId,
        /// The reservation in force.
        confirmed: Descriptors<Content<Flowspec>>,
    },
    /// State of a neighbour has reached a limit of the settings.
    Limited {
        /// Which state.
        state: LimitedState,
        /// Whose state was refused or torn down.
        neighbour: Neighbour,
        /// What happened.
        outcome: LimitOutcome,
    },
    /// Traffic control of this node refused a reservation.
    AdmissionFailed {
        /// The session.
        session: Session,
        /// The interface that refused.
        interface: InterfaceId,
        /// The next hop that requested it.
        nhop: IpAddr,
        /// The request.
        requested: Descriptors<Flowspec>,
        /// Why, with numbers.
        failure: AdmissionFailure,
    },
}

/// Why a call of an application has no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallError {
    /// There is no route to the destination.
    NoRoute,
    /// There is no path state for any of these senders.
    NoPath,
    /// The session or the sender uses ports zero and non-zero where RFC 2205 forbids the mix.
    Ports,
    /// The node has as many senders or reservations as its settings allow.
    Full,
    /// The session has reservations of this style already, or there is no such style.
    Style(Style),
    /// Others have reserved a different service for the same senders.
    Service,
}
