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
mod status;

use crate::traffic_control::{Handle, InterfaceId, Refused, Routing, TrafficControl};
use crate::wire::{
    Adspec, Content, Descriptors, ErrorSpec, Flaw, Flowspec, Frame, Message, Refresh, Refusal, Sender,
    Session, Style, TokenBucket,
};
use core::net::IpAddr;
use engine::random::{Rng, Seed};
use engine::units::{Duration, Instant};
use state::{Flow, State};
pub use status::{
    AskedStatus, Asker, BlockadeStatus, PromiseStatus, RequestStatus, SenderStatus, SessionStatus,
};
use std::collections::VecDeque;

/// An interface that RSVP is spoken on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// The node's addresses there; the first of each family is used. None: the interface is not used.
    pub addresses: Vec<IpAddr>,
    /// R: state sent by this interface is refreshed once in this many milliseconds, on average.
    pub refresh: Refresh,
}

/// What a node is told at construction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The interfaces, in the order of their identifiers.
    pub interfaces: Vec<Interface>,
    /// Kb of RFC 2205, section 3.5: a request that has failed is kept from others for so many refresh periods.
    pub blockade: u32,
    /// Senders that are remembered at most; more are refused, so that no one can fill the memory.
    pub most_senders: usize,
    /// Requests, by next hop and sender, that are remembered at most.
    pub most_reservations: usize,
    /// The node's luck.
    pub seed: Seed,
}

impl Settings {
    /// Room for 100 000 senders and requests, and a blockade of four refresh periods.
    pub const fn new(interfaces: Vec<Interface>, seed: Seed) -> Self {
        Self {
            interfaces,
            blockade: 4,
            most_senders: 100_000,
            most_reservations: 100_000,
            seed,
        }
    }

    /// The address of an interface that is of the same family as this one.
    fn address(&self, interface: InterfaceId, like: IpAddr) -> Option<IpAddr> {
        let interface = self.interfaces.get(interface as usize)?;
        let alike = |address: &&IpAddr| address.is_ipv4() == like.is_ipv4();
        interface.addresses.iter().find(alike).copied()
    }

    /// R of an interface.
    fn refresh(&self, interface: InterfaceId) -> Refresh {
        let interface = self.interfaces.get(interface as usize);
        interface.map_or(Refresh::millis(30_000), |interface| interface.refresh)
    }
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
    /// The session has reservations of this style already.
    Style(Style),
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
                self.handle_objection(interface, objection, *frame);
                Ok(())
            }
            Err(Refusal::Malformed(flaw)) => Err(flaw),
        }
    }

    /// The same for a message that has been read already.
    pub fn handle_frame(&mut self, now: Instant, interface: InterfaceId, ttl: u8, frame: Frame) {
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
            // The layer of INTEGRITY takes these; without it there is no sequence to speak of.
            Message::Challenge(_) | Message::Response(_) => {}
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

    /// An interface has other addresses, or another R, from now on; the next identifier adds one. State is sent with
    /// a shorter R at the next refresh; a longer one is come to by 30 % a refresh (RFC 2205, section 3.7).
    pub fn set_interface(&mut self, id: InterfaceId, interface: Interface) {
        let interfaces = &mut self.settings.interfaces;
        let id = id as usize;
        if id == interfaces.len() {
            interfaces.push(interface);
        } else if let Some(place) = interfaces.get_mut(id) {
            *place = interface;
        }
    }

    /// Traffic control has taken back a promise for something more important; its name means nothing any more.
    pub fn preempted(&mut self, _now: Instant, _handle: Handle) {}

    /// All sessions, as they are.
    pub fn status(&self) -> Vec<SessionStatus> {
        Vec::new()
    }

    /// One session, as it is; its police flag means nothing here.
    pub fn status_of(&self, session: &Session) -> Option<SessionStatus> {
        let _ = session;
        None
    }

    /// What promises bandwidth behind this node.
    pub const fn traffic_control(&self) -> &T {
        &self.traffic_control
    }

    /// The same, to change its settings; promises are the node's alone.
    pub const fn traffic_control_mut(&mut self) -> &mut T {
        &mut self.traffic_control
    }

    /// The routes.
    pub const fn routing(&self) -> &R {
        &self.routing
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
    fn next_refresh(&mut self, now: Instant, interface: InterfaceId) -> Instant {
        let period = self.settings.refresh(interface).period().nanos();
        now + Duration::from_nanos(period / 2 + self.luck.below(period + 1))
    }

    /// Where packets to a host leave.
    fn way(&self, destination: IpAddr) -> state::Way {
        let route = self.routing.route(None, destination);
        match (route.here, route.by.first()) {
            (true, _) => state::Way::Here,
            (false, Some(interface)) => state::Way::By(*interface),
            (false, None) => state::Way::None,
        }
    }

    /// Sends a message to a neighbour from our own address.
    fn tell(&mut self, interface: InterfaceId, destination: IpAddr, message: Message) {
        let Some(source) = self.settings.address(interface, destination) else {
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
