//! A node on a path, host and router in one: what it has heard of senders and reservations, and what it says of them.
//!
//! Follows RFC 2205 sections 2.3 and 3.7 (soft state and its times) and the processing rules of RFC 2209, for
//! one destination host and style FF. The node does no input and output: the host calls [`Node::handle_packet`] and, at
//! [`Node::poll_timeout`], [`Node::handle_timeout`], and then takes what [`Node::poll_transmit`] and
//! [`Node::poll_event`] give.
//!
//! A path to one host has one next hop, so that there is one reservation for each sender and nothing to merge.
//! Styles WF and SE are answered with "unknown style". Groups are not routed. INTEGRITY is carried, not verified.
//! Message identifiers are read and not used, and the header does not claim that they are.

mod errors;
mod path;
mod resv;
mod state;

use crate::traffic_control::{InterfaceId, Refused, Routing, TrafficControl};
use crate::wire::{
    Adspec, ErrorSpec, Flaw, Flowspec, Frame, Message, Refresh, Refusal, Sender, Session, TokenBucket,
};
use core::net::IpAddr;
use engine::random::{Rng, Seed};
use engine::units::{Duration, Instant};
use state::{Flow, State};
use std::collections::VecDeque;

/// What a node is told at construction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The node's address on each interface, in the order of their identifiers.
    pub addresses: Vec<IpAddr>,
    /// R: state is refreshed once in this many milliseconds, on average.
    pub refresh: Refresh,
    /// Senders that are remembered at most; more are refused, so that no one can fill the memory.
    pub most_senders: usize,
    /// The node's luck.
    pub seed: Seed,
}

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
    /// A sender of this host has a reservation up to its receiver, new or changed.
    Reserved {
        /// Where to.
        session: Session,
        /// For whom.
        sender: Sender,
        /// What is promised.
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
        /// For whom.
        sender: Sender,
        /// What went wrong, and where.
        error: ErrorSpec,
    },
    /// A reservation of this host was confirmed.
    Confirmed {
        /// Where to.
        session: Session,
        /// For whom.
        sender: Sender,
    },
    /// This very node refused a reservation.
    Refused {
        /// Where to.
        session: Session,
        /// For whom.
        sender: Sender,
        /// The interface that lacks.
        interface: InterfaceId,
        /// With numbers.
        refused: Refused,
    },
}

/// Why a call does nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallError {
    /// There is no route to the destination.
    NoRoute,
    /// No Path has come from this sender.
    NoPath,
    /// Ports zero and non-zero where they may not be.
    Ports,
    /// As many senders as the settings allow are there.
    Full,
}

/// K of RFC 2205, section 3.7: state survives this many lost refreshes but one.
const K: u64 = 3;

/// W of RFC 2205, section 3.6: a changed route has this long to settle.
const REPAIR_WAIT: Duration = Duration::from_secs(2);

/// The TTL of messages that start here.
const TTL: u8 = 64;

/// How long state lives that is refreshed with this period: (K + 1/2) × 1.5 × R.
const fn lifetime(period: Duration) -> Duration {
    Duration::from_nanos(period.times((2 * K + 1) * 3).nanos() / 4)
}

/// A node on a path.
pub struct Node<T, R> {
    settings: Settings,
    traffic_control: T,
    routing: R,
    luck: Rng,
    state: State,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// A node that has heard of nothing.
    pub fn new(settings: Settings, traffic_control: T, routing: R) -> Self {
        Self {
            luck: settings.seed.fork("refresh").stream(),
            settings,
            traffic_control,
            routing,
            state: State::default(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// A message that came by this interface with this IP TTL.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        ttl: u8,
        bytes: &[u8],
    ) -> Result<(), Flaw> {
        match Frame::decode(bytes) {
            Ok(Frame {
                message: Message::Bundle(messages),
                ..
            }) => messages
                .iter()
                // A bundle does not nest, so that this ends.
                .map(|message| self.handle_packet(now, interface, ttl, message))
                .fold(Ok(()), Result::and),
            Ok(frame) => {
                self.handle_frame(now, interface, ttl, frame);
                Ok(())
            }
            Err(Refusal::Objected(objection, frame)) => {
                self.answer_objection(interface, objection, *frame);
                Ok(())
            }
            Err(Refusal::Malformed(flaw)) => Err(flaw),
        }
    }

    fn handle_frame(&mut self, now: Instant, interface: InterfaceId, ttl: u8, frame: Frame) {
        let heard = ttl == frame.send_ttl;
        match frame.message {
            Message::Path(path) => self.path(now, interface, ttl, heard, path, frame.forwarded),
            Message::PathTear(tear) => self.path_tear(interface, &tear),
            Message::PathErr(error) => self.path_err(error),
            Message::Resv(resv) => self.resv(now, resv, frame.forwarded),
            Message::ResvTear(tear) => self.resv_tear(&tear),
            Message::ResvErr(error) => self.resv_err(interface, error),
            Message::ResvConf(confirmation) => self.resv_conf(ttl, confirmation),
            // Names of messages are not used here, and bundles have been taken apart.
            Message::Ack | Message::Srefresh(_) | Message::Bundle(_) => {}
        }
    }

    /// Refreshes what is due and forgets what was not refreshed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(flow) = self.state.due(now) {
            self.path_timeout(now, flow);
            self.resv_timeout(now, flow);
            self.state.arm(flow);
        }
    }

    /// When [`Node::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.state.next_due()
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// What the users of the node are to know next.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Routes are not what they were: Paths go out anew when the routes have settled (RFC 2205, section 3.6).
    pub fn routes_changed(&mut self, now: Instant) {
        for flow in self.state.flows() {
            if let Some(path) = self.state.path_mut(flow) {
                path.refresh_at = path.refresh_at.min(now + REPAIR_WAIT);
            }
            self.state.arm(flow);
        }
    }

    /// What promises bandwidth behind this node.
    pub const fn traffic_control(&self) -> &T {
        &self.traffic_control
    }

    /// The routes, to change them; then call [`Node::routes_changed`].
    pub const fn routing_mut(&mut self) -> &mut R {
        &mut self.routing
    }

    /// How many senders are remembered.
    pub fn senders(&self) -> usize {
        self.state.len()
    }

    /// The next refresh: at random from half to one and a half times R, so that nodes do not fall into step.
    fn next_refresh(&mut self, now: Instant) -> Instant {
        let period = self.settings.refresh.period().nanos();
        now + Duration::from_nanos(period / 2 + self.luck.below(period + 1))
    }

    fn address(&self, interface: InterfaceId) -> Option<IpAddr> {
        self.settings.addresses.get(interface as usize).copied()
    }

    /// Sends a message to a neighbour from our own address.
    fn tell(&mut self, interface: InterfaceId, destination: IpAddr, message: Message) {
        let Some(source) = self.address(interface) else {
            return;
        };
        self.send_as(interface, (source, destination), false, TTL, message, Vec::new());
    }

    fn send_as(
        &mut self,
        interface: InterfaceId,
        (source, destination): (IpAddr, IpAddr),
        router_alert: bool,
        ttl: u8,
        message: Message,
        forwarded: Vec<crate::wire::Opaque>,
    ) {
        let frame = Frame {
            send_ttl: ttl,
            reduction: false,
            integrity: None,
            acknowledgements: Vec::new(),
            id: None,
            message,
            forwarded,
        };
        // What came in fits, and nothing grows on the way; a caller's adspec cannot be given. So it fits.
        if let Ok(bytes) = frame.encode() {
            self.transmits.push_back(Transmit {
                interface,
                source,
                destination,
                router_alert,
                ttl,
                bytes,
            });
        }
    }

    /// Forgets a sender and its reservation, here alone.
    fn forget(&mut self, flow: Flow) -> Option<state::PathState> {
        let mut path = self.state.remove(flow)?;
        self.undo(&mut path);
        Some(path)
    }

    /// Ends what traffic control has promised for a sender.
    fn undo(&mut self, path: &mut state::PathState) {
        if let Some(handle) = path.handle.take() {
            self.traffic_control
                .delete_filter(handle, &path.session, &path.sender);
            self.traffic_control.delete(handle);
        }
        path.reservation = None;
        path.resv_refresh_at = Instant::NEVER;
    }
}
