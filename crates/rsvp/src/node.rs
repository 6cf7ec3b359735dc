//! An RSVP node, host and router in one: its path and reservation state, and the messages that
//! follow from them.
//!
//! Follows RFC 2205 and the processing rules of RFC 2209, for unicast and multicast sessions, in
//! the styles FF, SE and WF. The node does no I/O: the host calls [`Node::handle_packet`], and
//! [`Node::handle_timeout`] at [`Node::poll_timeout`]; then it takes what [`Node::poll_transmit`]
//! and [`Node::poll_event`] return.
//!
//! RFC 2209 lists a sequence of steps for each message. Here every change of a session's path or
//! reservation state ends in the same step, `Node::reconcile`. It derives from the state what
//! traffic control should have installed and what Resv state each previous hop should have been
//! sent, compares that with what is installed and was sent, and makes up the difference. What is in
//! force therefore does not depend on the order in which messages arrived. A refresh that changes
//! nothing skips the step. `docs/decisions/rsvp-derives-its-answers.md` gives the reasons.
//!
//! INTEGRITY and MESSAGE_ID are not handled here: [`crate::integrity`] and [`crate::reduction`] are
//! shims between the node and its sockets.

mod application;
mod blockade;
mod confirm;
mod errors;
mod event;
mod flow_descriptor;
mod limits;
mod merge;
mod neighbour;
mod path;
mod reconcile;
mod resv;
mod resv_refresh;
mod settings;
mod state;
mod status;
mod timers;
mod traffic_control;
mod transmit;

use crate::tape::NodeTape;
use crate::traffic_control::{InterfaceId, Routing, TrafficControl};
use crate::wire::{DecodeError, Frame, Malformed, Message, SenderTemplate, Session};
use engine::random::{Rng, Seed};
use engine::units::{Duration, Instant};
pub use event::{CallError, Event, ReceiverId, Transmit};
use limits::NodeOccupancy;
pub use limits::{LimitOutcome, LimitedState};
pub use neighbour::{NextHop, PreviousHop};
use path::Arrival;
pub use settings::{RsvpInterface, Settings};
use state::{SessionKey, SessionState, Sessions};
pub use status::{BsbStatus, PsbStatus, RsbStatus, SentResvStatus, SessionStatus, TcsbStatus};
use std::collections::VecDeque;
use timers::{Timer, TimerQueue};

/// W of RFC 2205, section 3.6: how long a changed route may settle before local repair.
const REPAIR_WAIT: Duration = Duration::from_secs(2);

/// The IP TTL of messages that originate here.
const TTL: u8 = 64;

/// An RSVP node.
pub struct Node<T, R> {
    settings: Settings,
    traffic_control: T,
    routing: R,
    rng: Rng,
    sessions: Sessions,
    timers: TimerQueue,
    /// PSBs in all sessions.
    senders: usize,
    /// Those of senders on this host.
    local_senders: usize,
    /// RSB entries, by next hop and filter spec, in all sessions.
    reservations: usize,
    /// Those of receivers on this host.
    local_reservations: usize,
    occupancy: NodeOccupancy,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
    tape: NodeTape,
}

impl<T: TrafficControl, R: Routing> Node<T, R> {
    /// A node without state.
    pub fn new(settings: Settings, traffic_control: T, routing: R) -> Self {
        Self {
            rng: settings.seed.fork("refresh").stream(),
            settings,
            traffic_control,
            routing,
            sessions: Sessions::default(),
            timers: TimerQueue::default(),
            senders: 0,
            local_senders: 0,
            reservations: 0,
            local_reservations: 0,
            occupancy: NodeOccupancy::default(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            tape: NodeTape::default(),
        }
    }

    /// Begins a tape of at most so many bytes, if the node has no state: its random numbers begin
    /// anew with this seed. `last` is the number of traffic control's last reservation. Returns
    /// whether it has begun.
    pub fn begin_tape(&mut self, now: Instant, seed: Seed, last: u64, limit: usize) -> bool {
        let is_blank = self.sessions.0.is_empty() && self.transmits.is_empty() && self.events.is_empty();
        if is_blank {
            self.settings.seed = seed;
            self.rng = seed.fork("refresh").stream();
            self.occupancy = NodeOccupancy::default();
            self.tape.begin(now, &self.settings, last, limit);
        }
        is_blank
    }

    /// What is written down of it.
    pub const fn tape(&self) -> &NodeTape {
        &self.tape
    }

    /// Processes a message that arrived on this interface with this IP TTL.
    ///
    /// # Errors
    ///
    /// If the bytes are no well-formed RSVP message; of a bundle, the first of its messages that is
    /// not.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        ttl: u8,
        bytes: &[u8],
    ) -> Result<(), Malformed> {
        self.tape.heard_bytes(now, interface, ttl, bytes);
        self.take_packet(now, interface, ttl, bytes)
    }

    fn take_packet(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        ttl: u8,
        bytes: &[u8],
    ) -> Result<(), Malformed> {
        match Frame::decode(bytes) {
            Ok(Frame {
                message: Message::Bundle(messages),
                ..
            }) => messages
                .iter()
                // Ends, because a bundle does not nest.
                .map(|message| self.take_packet(now, interface, ttl, message))
                .fold(Ok(()), Result::and),
            Ok(frame) => {
                self.take_frame(now, interface, ttl, frame);
                Ok(())
            }
            Err(DecodeError::Reportable(error, frame)) => {
                self.report_error(interface, error, *frame);
                Ok(())
            }
            Err(DecodeError::Unreadable(unreadable)) => {
                self.answer_unreadable(interface, &unreadable);
                Ok(())
            }
            Err(DecodeError::Malformed(malformed)) => Err(malformed),
        }
    }

    /// Processes a decoded message that is not a bundle.
    pub fn handle_frame(&mut self, now: Instant, interface: InterfaceId, ttl: u8, frame: Frame) {
        self.tape.heard(now, interface, ttl, &frame);
        self.take_frame(now, interface, ttl, frame);
    }

    fn take_frame(&mut self, now: Instant, interface: InterfaceId, ttl: u8, frame: Frame) {
        let non_rsvp_hop = ttl != frame.send_ttl;
        let forwarded = frame.forwarded;
        match frame.message {
            Message::Path(path) => {
                let arrival = Arrival {
                    interface,
                    ttl,
                    non_rsvp_hop,
                };
                self.path_arrives(now, arrival, path, forwarded);
            }
            Message::PathTear(tear) => self.path_tear_arrives(now, interface, &tear),
            Message::PathErr(error) => self.path_err_arrives(error, forwarded),
            Message::Resv(resv) => self.resv_arrives(now, &resv, &forwarded),
            Message::ResvTear(tear) => self.resv_tear_arrives(now, &tear),
            Message::ResvErr(error) => self.resv_err_arrives(now, interface, &error, &forwarded),
            Message::ResvConf(confirmation) => self.resv_conf_arrives(ttl, confirmation, forwarded),
            // The refresh-reduction shim consumes these; bundles have been split.
            Message::Ack | Message::Srefresh(_) | Message::Bundle(_) => {}
            // The integrity shim consumes these; without it there is no sequence to report.
            Message::Challenge(_) | Message::Response(_) => {}
        }
    }

    /// Sends refreshes that are due and deletes state whose lifetime has ended.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.timers.earliest().is_some_and(|at| at <= now) {
            self.tape.timers(now);
            self.time_out(now);
        }
    }

    fn time_out(&mut self, now: Instant) {
        while let Some((key, timer)) = self.timers.pop_due(now) {
            match timer {
                Timer::Psb(sender) => self.psb_timeout(now, key, sender),
                Timer::Rsb(nhop) => self.rsb_timeout(now, key, nhop),
                Timer::ResvRefresh(phop) => self.resv_refresh_timeout(now, key, phop),
                Timer::Bsb(phop, filter) => self.bsb_timeout(now, key, (phop, filter)),
            }
        }
    }

    /// When to call [`Node::handle_timeout`]; sometimes a little early.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.earliest()
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        let transmit = self.transmits.pop_front()?;
        self.tape.sent(&transmit);
        Some(transmit)
    }

    /// The next upcall to the node's applications.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.tape.upcall(&event);
        Some(event)
    }

    /// Replaces the addresses and the R of an interface; the next unused identifier adds an
    /// interface. A shorter R takes effect at the next refresh of each state; a longer one is
    /// approached by 30 % a refresh (RFC 2205, section 3.7).
    pub fn set_interface(&mut self, id: InterfaceId, interface: RsvpInterface) {
        if self.settings.interfaces.get(id as usize) != Some(&interface) {
            self.tape.interface(id, &interface);
        }
        let interfaces = &mut self.settings.interfaces;
        let id = id as usize;
        if id == interfaces.len() {
            interfaces.push(interface);
        } else if let Some(known) = interfaces.get_mut(id) {
            *known = interface;
        }
    }

    /// Traffic control.
    pub const fn traffic_control(&self) -> &T {
        &self.traffic_control
    }

    /// Traffic control, to change its settings; only the node adds and deletes reservations.
    pub const fn traffic_control_mut(&mut self) -> &mut T {
        &mut self.traffic_control
    }

    /// The routes.
    pub const fn routing(&self) -> &R {
        &self.routing
    }

    /// The routes, to change them; call [`Node::routes_changed`] afterwards.
    pub const fn routing_mut(&mut self) -> &mut R {
        &mut self.routing
    }

    /// Whether this sender has path state.
    pub fn has_path(&self, session: &Session, sender: &SenderTemplate) -> bool {
        let state = self.state(SessionKey::from(session));
        state.is_some_and(|state| state.psbs.contains_key(sender))
    }

    /// How many senders have path state, over all sessions.
    pub const fn senders(&self) -> usize {
        self.senders
    }

    /// How many reservation requests have state, by next hop and filter spec, over all sessions.
    pub const fn reservations(&self) -> usize {
        self.reservations
    }

    fn state(&self, key: SessionKey) -> Option<&SessionState> {
        self.sessions.0.get(&key)
    }

    fn state_mut(&mut self, key: SessionKey) -> Option<&mut SessionState> {
        self.sessions.0.get_mut(&key)
    }
}
