//! A node on a path, host and router in one: what it has heard of senders and reservations, and what it says of them.
//!
//! Follows RFC 2205 and the processing rules of RFC 2209, to hosts and to groups, in styles FF, SE and WF. The node does
//! no input and output: the host calls [`Node::handle_packet`] and, at [`Node::poll_timeout`],
//! [`Node::handle_timeout`], and then takes what [`Node::poll_transmit`] and [`Node::poll_event`] give.
//!
//! RFC 2209 has a sequence of steps for each message. Here every change of a session's path or reservation state is
//! followed by one and the same step, `Node::settle`: what traffic control should promise, and what should be asked
//! of each node before, is derived from the state; where that is not what is promised and was asked, it is made so. What is in force does not depend
//! on the order in which things were heard. A refresh that changes nothing does not come there.
//! `docs/decisions/rsvp-derives-its-answers.md` says why.
//!
//! INTEGRITY and the names of messages are not used here; [`crate::integrity`] and [`crate::reduction`] are layers around
//! the node.

mod agenda;
mod ask;
mod blockade;
mod confirm;
mod errors;
mod event;
mod path;
mod promise;
mod refresh;
mod resv;
mod send;
mod settings;
mod settle;
mod state;
mod status;

use crate::traffic_control::{InterfaceId, Routing, TrafficControl};
use crate::wire::{Flaw, Frame, Message, Refusal};
use agenda::{Agenda, Block};
use engine::random::Rng;
use engine::units::{Duration, Instant};
pub use event::{CallError, Event, Receiver, Transmit};
pub use settings::{Interface, Settings};
use state::{Key, Sessions, State};
pub use status::{
    AskedStatus, Asker, BlockadeStatus, PromiseStatus, RequestStatus, SenderStatus, SessionStatus,
};
use std::collections::VecDeque;

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
    sessions: Sessions,
    agenda: Agenda,
    /// Senders, in all sessions.
    senders: usize,
    /// Requests by next hop and filter, in all sessions.
    requests: usize,
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
            sessions: Sessions::default(),
            agenda: Agenda::default(),
            senders: 0,
            requests: 0,
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

    /// The same for a message that has been read already and is no bundle.
    pub fn handle_frame(&mut self, now: Instant, interface: InterfaceId, ttl: u8, frame: Frame) {
        let gap = ttl != frame.send_ttl;
        let forwarded = frame.forwarded;
        match frame.message {
            Message::Path(path) => self.path(now, (interface, ttl, gap), path, forwarded),
            Message::PathTear(tear) => self.path_tear(now, interface, &tear),
            Message::PathErr(error) => self.path_err(error, forwarded),
            Message::Resv(resv) => self.resv(now, &resv, &forwarded),
            Message::ResvTear(tear) => self.resv_tear(now, &tear),
            Message::ResvErr(error) => self.resv_err(now, interface, &error, &forwarded),
            Message::ResvConf(confirmation) => self.resv_conf(ttl, confirmation, forwarded),
            // Names of messages are not used here, and bundles have been taken apart.
            Message::Ack | Message::Srefresh(_) | Message::Bundle(_) => {}
            // The layer of INTEGRITY takes these; without it there is no sequence to speak of.
            Message::Challenge(_) | Message::Response(_) => {}
        }
    }

    /// Refreshes what is due and forgets what was not refreshed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((key, block)) = self.agenda.due(now) {
            match block {
                Block::Path(sender) => self.path_timeout(now, key, sender),
                Block::Request(asker) => self.asked_timeout(now, key, asker),
                Block::Before(before) => self.sent_timeout(now, key, before),
                Block::Blockade(before, filter) => self.blockade_timeout(now, key, (before, filter)),
            }
        }
    }

    /// When [`Node::handle_timeout`] has something to do, or, now and then, a little earlier.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.agenda.next()
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// What the users of the node are to know next.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
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

    /// How many senders are remembered, in all sessions.
    pub const fn senders(&self) -> usize {
        self.senders
    }

    /// How many requests are remembered, by next hop and filter, in all sessions.
    pub const fn requests(&self) -> usize {
        self.requests
    }

    fn state(&self, key: Key) -> Option<&State> {
        self.sessions.0.get(&key)
    }

    fn state_mut(&mut self, key: Key) -> Option<&mut State> {
        self.sessions.0.get_mut(&key)
    }
}
