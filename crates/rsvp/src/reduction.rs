//! The refresh-reduction shim: fewer and more reliable messages between neighbours, between a node
//! and its sockets.
//!
//! Follows RFC 2961. The node above speaks plain RSVP; the shim acts for it towards neighbours that
//! support refresh reduction:
//!
//! - New or changed state goes out with a MESSAGE_ID and the ACK_Desired flag, and is retransmitted
//!   after 0.5 s and again 1 s later without an acknowledgement. So are tears and errors.
//! - Acknowledged state that has not changed is refreshed by its MESSAGE_ID: the identifiers of a
//!   neighbour are collected and go out in one Srefresh. The neighbour's shim has stored the
//!   message and passes it to its node again.
//! - An unknown MESSAGE_ID is answered with a NACK, and its message goes out whole at once. A
//!   neighbour that restarts has another epoch, and its old identifiers are void.
//!
//! A neighbour supports refresh reduction if the flag in the header of its last message says so,
//! and there is no node without RSVP in between. The next hop of a Path is unknown until it has
//! answered, so a Path carries a MESSAGE_ID if all known neighbours on the interface support it, or
//! by [`Settings::assume_capable`]. All other neighbours, and multicast destinations, get plain
//! RSVP.
//!
//! Departures: we do not send bundles (we read those of others), and MESSAGE_ID LISTs with source
//! addresses are processed like those without. A summary refresh is late by up to
//! [`Settings::summary_delay`].

mod neighbours;
mod received;
mod state_key;

use crate::node::Transmit;
use crate::places::{Neighbour, Places};
use crate::traffic_control::InterfaceId;
use crate::wire::{Frame, Message, MessageId, MessageIdAck, MessageIdList, MessageIds, Refresh};
use core::net::IpAddr;
use engine::units::{Duration, Instant};
use neighbours::{Appearance, NeighbourState, Neighbours, Waiting};
use received::{Freshness, WholeMessage};
use state_key::{StateKey, state_key, torn_state};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The settings of the shim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The node's addresses on each interface, in the order of their identifiers.
    pub addresses: Vec<Vec<IpAddr>>,
    /// The epoch, 24 bits; different at each start.
    pub epoch: u32,
    /// Rf: the first retransmission interval; each further one is twice as long.
    pub retransmit: Duration,
    /// Rl: how often a message is sent in all before the shim gives up.
    pub max_transmissions: u32,
    /// How long an acknowledgement waits for a message to travel with.
    pub ack_delay: Duration,
    /// How long a summary refresh waits for more identifiers.
    pub summary_delay: Duration,
    /// Whether a neighbour that has sent nothing yet counts as capable: for networks where all are.
    pub assume_capable: bool,
    /// The most neighbours that are remembered; the share of one neighbour has no meaning here.
    pub max_neighbours: Places,
    /// The most messages of neighbours that are stored. Others are processed, and are refreshed
    /// whole.
    pub max_stored: Places,
    /// The most messages that install no state and wait for an acknowledgement. Others go out
    /// once.
    pub max_unacknowledged: usize,
    /// The longest R that is accepted.
    pub longest_refresh: Refresh,
}

impl Settings {
    /// The timers of RFC 2961, section 6, for a node with these addresses.
    pub const fn new(addresses: Vec<Vec<IpAddr>>, epoch: u32) -> Self {
        Self {
            addresses,
            epoch: epoch & 0x00ff_ffff,
            retransmit: Duration::from_millis(500),
            max_transmissions: 3,
            ack_delay: Duration::from_millis(50),
            summary_delay: Duration::from_millis(500),
            assume_capable: false,
            max_neighbours: Places::of(2048),
            max_stored: Places::of(100_000),
            max_unacknowledged: 4096,
            longest_refresh: Refresh::LONGEST_ACCEPTED,
        }
    }
}

/// Statistics of the shim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReductionCounts {
    /// Refreshes sent as a MESSAGE_ID in an Srefresh.
    pub summarised: u64,
    /// Messages retransmitted for want of an acknowledgement.
    pub retransmitted: u64,
    /// Messages that were never acknowledged.
    pub given_up: u64,
    /// MESSAGE_IDs of neighbours that were unknown here.
    pub unknown_ids: u64,
    /// Neighbours that were forgotten to make room for others.
    pub evicted_neighbours: u64,
    /// Messages of neighbours for which there was no room: they got plain RSVP.
    pub without_place: u64,
}

/// A message of ours that has a MESSAGE_ID.
struct TrackedMessage {
    transmit: Transmit,
    frame: Frame,
    key: Option<StateKey>,
    acknowledged_by: Option<IpAddr>,
    transmissions: u32,
    /// When it is retransmitted, or forgotten.
    at: Instant,
}

/// The refresh-reduction shim of one node.
pub struct ReductionShim {
    settings: Settings,
    next_id: u32,
    tracked: BTreeMap<u32, TrackedMessage>,
    current: BTreeMap<(InterfaceId, StateKey), u32>,
    timers: BTreeSet<(Instant, u32)>,
    neighbours: Neighbours,
    /// Tracked messages that install no state.
    unacknowledged: usize,
    transmits: VecDeque<Transmit>,
    counts: ReductionCounts,
}

/// MESSAGE_IDs in one Srefresh: it fits the 1500 bytes of Ethernet, with INTEGRITY.
const IDS_PER_SREFRESH: usize = 340;

/// Acknowledgements in one message.
const ACKS_PER_MESSAGE: usize = 100;

/// The IP TTL of the shim's own messages.
const TTL: u8 = 64;

impl ReductionShim {
    /// A shim without neighbours.
    pub fn new(settings: Settings) -> Self {
        Self {
            neighbours: Neighbours::new(settings.max_neighbours, settings.max_stored),
            unacknowledged: 0,
            settings,
            next_id: 1,
            tracked: BTreeMap::new(),
            current: BTreeMap::new(),
            timers: BTreeSet::new(),
            transmits: VecDeque::new(),
            counts: ReductionCounts::default(),
        }
    }

    /// Its statistics.
    pub fn counts(&self) -> ReductionCounts {
        let limits = self.neighbours.counts();
        ReductionCounts {
            evicted_neighbours: limits.evicted,
            without_place: limits.refused,
            ..self.counts
        }
    }

    /// How many neighbours are remembered.
    pub fn neighbours(&self) -> usize {
        self.neighbours.len()
    }

    /// Replaces the node's addresses on an interface; the next unused identifier adds an interface.
    pub fn set_interface(&mut self, interface: InterfaceId, addresses: Vec<IpAddr>) {
        let at = interface as usize;
        if at >= self.settings.addresses.len() {
            self.settings.addresses.resize(at + 1, Vec::new());
        }
        self.settings.addresses[at] = addresses;
    }

    /// Routes have changed: each Path has to be acknowledged anew, perhaps by another next hop.
    pub fn routes_changed(&mut self) {
        for message in self.tracked.values_mut() {
            if message.transmit.router_alert {
                message.acknowledged_by = None;
            }
        }
    }

    /// A neighbour on this interface has missed what was sent so far: the next refreshes go out
    /// whole.
    pub fn resynchronise(&mut self, interface: InterfaceId) {
        let messages = self.tracked.values_mut();
        for message in messages.filter(|message| message.transmit.interface == interface) {
            message.acknowledged_by = None;
        }
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// When to call [`ReductionShim::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(at, _)| *at);
        self.neighbours.poll_timeout().into_iter().chain(timer).min()
    }

    /// Processes a message that arrived on this interface with this IP source and TTL and is no
    /// bundle. Returns the messages for the node, each with its TTL.
    pub fn incoming(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        source: IpAddr,
        ttl: u8,
        mut frame: Frame,
    ) -> Vec<(u8, Frame)> {
        // The IP source of a Path is the sender of the data; RSVP_HOP names the neighbour.
        let from = Neighbour {
            interface,
            address: hop(&frame.message).unwrap_or(source),
        };
        let acknowledgements = core::mem::take(&mut frame.acknowledgements);
        let proven = acknowledgements
            .iter()
            .any(|ack| self.acknowledges_ours(from, ack));
        // An acknowledgement of nothing that we sent leaves no trace of its sender.
        if frame.message == Message::Ack && !proven && !self.neighbours.contains(from) {
            return Vec::new();
        }
        let lifetime = self.lifetime(&frame.message);
        let seen = Appearance {
            capable: frame.refresh_reduction && ttl == frame.send_ttl,
            proven,
            lifetime,
        };
        let has_place = self.neighbours.appear(now, from, seen);
        let id = frame.message_id.take();
        if let Some(id) = id.filter(|id| id.ack_desired && seen.capable) {
            let ack = MessageIdAck {
                known: true,
                epoch: id.epoch,
                id: id.id,
            };
            let at = now + self.settings.ack_delay;
            self.neighbours.update(from, |state| state.acknowledge(ack, at));
        }
        let frames = match &frame.message {
            Message::Srefresh(lists) => lists
                .iter()
                .flat_map(|list| self.summary_arrives(now, from, list))
                .collect(),
            Message::Ack => Vec::new(),
            _ => {
                let whole = WholeMessage {
                    id: id.filter(|_| has_place),
                    frame: &frame,
                    ttl,
                    lifetime,
                };
                let judged = self
                    .neighbours
                    .update_received(from, |received, left| received.judge(now, whole, left));
                match judged.unwrap_or(Freshness::New) {
                    Freshness::New => vec![(ttl, frame)],
                    Freshness::Stale => Vec::new(),
                }
            }
        };
        for acknowledgement in acknowledgements {
            self.ack_arrives(now, from, &acknowledgement);
        }
        frames
    }

    /// The lifetime of the state that a message of a neighbour installs; zero if it installs none.
    fn lifetime(&self, message: &Message) -> Duration {
        let refresh = refresh(message).map(|refresh| refresh.min(self.settings.longest_refresh));
        refresh.map_or(Duration::ZERO, Refresh::lifetime)
    }

    /// A neighbour refreshes state by MESSAGE_IDs.
    fn summary_arrives(&mut self, now: Instant, from: Neighbour, list: &MessageIdList) -> Vec<(u8, Frame)> {
        let ids: Vec<u32> = match &list.ids {
            MessageIds::Neighbour(ids) => ids.clone(),
            MessageIds::SourceV4(list) => list.iter().map(|entry| entry.0).collect(),
            MessageIds::SourceV6(list) => list.iter().map(|entry| entry.0).collect(),
            MessageIds::GroupV4(list) => list.iter().map(|entry| entry.0).collect(),
            MessageIds::GroupV6(list) => list.iter().map(|entry| entry.0).collect(),
        };
        let mut frames = Vec::new();
        let mut unknown = Vec::new();
        self.neighbours.update_received(from, |received, _| {
            for id in ids {
                match received.refresh(now, list.epoch, id) {
                    Some(refreshed) => frames.push(refreshed),
                    None => unknown.push(id),
                }
            }
        });
        self.counts.unknown_ids += unknown.len() as u64;
        self.neighbours.update(from, |state| {
            for id in unknown {
                let nack = MessageIdAck {
                    known: false,
                    epoch: list.epoch,
                    id,
                };
                // A NACK is not delayed: the neighbour refreshes state that we do not have.
                state.acknowledge(nack, now);
            }
        });
        let lifetimes = frames.iter().map(|(_, frame)| self.lifetime(&frame.message));
        if let Some(lifetime) = lifetimes.max() {
            self.neighbours.update(from, |state| state.prolong(now, lifetime));
        }
        frames
    }

    /// Whether this acknowledges a message that we have sent through the neighbour's interface.
    fn acknowledges_ours(&self, from: Neighbour, ack: &MessageIdAck) -> bool {
        let ours = ack.known && ack.epoch == self.settings.epoch;
        let message = self.tracked.get(&ack.id).filter(|_| ours);
        message.is_some_and(|message| message.transmit.interface == from.interface)
    }

    /// A neighbour acknowledges a message of ours, or does not know its MESSAGE_ID.
    fn ack_arrives(&mut self, now: Instant, from: Neighbour, ack: &MessageIdAck) {
        let ours = (ack.epoch == self.settings.epoch).then_some(ack.id);
        let Some(message) = ours.and_then(|id| self.tracked.get_mut(&id)) else {
            return;
        };
        if message.transmit.interface != from.interface {
            return;
        }
        if !ack.known {
            message.acknowledged_by = None;
            message.transmissions = 0;
            self.transmit(now, ack.id);
        } else if message.key.is_some() {
            message.acknowledged_by = Some(from.address);
            let at = now + own_lifetime(&message.frame.message);
            self.reschedule(ack.id, at);
        } else {
            self.forget(ack.id);
        }
    }

    fn forget(&mut self, id: u32) {
        if let Some(message) = self.tracked.remove(&id) {
            self.timers.remove(&(message.at, id));
            let is_stateless = message.key.is_none();
            if let Some(key) = message.key {
                let key = (message.transmit.interface, key);
                if self.current.get(&key) == Some(&id) {
                    self.current.remove(&key);
                }
            }
            self.unacknowledged -= usize::from(is_stateless);
        }
    }

    fn reschedule(&mut self, id: u32, at: Instant) {
        if let Some(message) = self.tracked.get_mut(&id) {
            self.timers.remove(&(message.at, id));
            message.at = at;
            self.timers.insert((at, id));
        }
    }

    /// Sends a message with its MESSAGE_ID, and schedules its retransmission.
    fn transmit(&mut self, now: Instant, id: u32) {
        let Some(message) = self.tracked.get_mut(&id) else {
            return;
        };
        message.transmissions += 1;
        let back_off = 1 << (message.transmissions - 1).min(16);
        let wait = self.settings.retransmit.times(back_off);
        let mut frame = message.frame.clone();
        frame.message_id = Some(MessageId {
            ack_desired: true,
            epoch: self.settings.epoch,
            id,
        });
        let transmit = message.transmit.clone();
        self.reschedule(id, now + wait);
        self.emit(frame, transmit);
    }

    /// Sends a message, with the acknowledgements that wait for its receiver.
    fn emit(&mut self, mut frame: Frame, mut transmit: Transmit) {
        frame.refresh_reduction = true;
        let to = Neighbour {
            interface: transmit.interface,
            address: transmit.destination,
        };
        let acks = self.neighbours.update(to, |neighbour| {
            let some = neighbour.acks.len().min(ACKS_PER_MESSAGE);
            let some = if neighbour.capable { some } else { 0 };
            let acks: Vec<MessageIdAck> = neighbour.acks.drain(..some).collect();
            if neighbour.acks.is_empty() {
                neighbour.acks_at = None;
            }
            acks
        });
        frame.acknowledgements.extend(acks.unwrap_or_default());
        // What the node has encoded fits with a few words more; a message of 64 KiB goes out as it
        // is.
        if let Ok(bytes) = frame.encode() {
            transmit.bytes = bytes;
        }
        self.transmits.push_back(transmit);
    }

    /// Whether the receiver of a message supports refresh reduction.
    fn capable(&self, transmit: &Transmit) -> bool {
        let capable = if transmit.router_alert {
            self.neighbours.all_capable(transmit.interface)
        } else {
            let to = Neighbour {
                interface: transmit.interface,
                address: transmit.destination,
            };
            self.neighbours.get(to).map(|neighbour| neighbour.capable)
        };
        capable.unwrap_or(self.settings.assume_capable)
    }

    /// Processes a message of the node.
    pub fn outgoing(&mut self, now: Instant, transmit: Transmit) {
        let multicast = transmit.destination.is_multicast();
        let Ok(frame) = Frame::decode(&transmit.bytes) else {
            // An error that carries objects which could not be decoded goes out as it is.
            self.transmits.push_back(transmit);
            return;
        };
        let key = state_key(&frame.message, transmit.destination);
        if let Some(torn) = torn_state(&frame.message, transmit.destination) {
            // The MESSAGE_IDs of torn state must not bring it back.
            let torn_here = self.current.range((transmit.interface, torn.clone())..);
            let ids: Vec<u32> = torn_here
                .take_while(|((interface, key), _)| *interface == transmit.interface && torn.covers(key))
                .map(|(_, id)| *id)
                .collect();
            ids.into_iter().for_each(|id| self.forget(id));
        }
        let at = key.clone().map(|key| (transmit.interface, key));
        let current = at.as_ref().and_then(|at| self.current.get(at)).copied();
        let unreliable = key.is_none() && self.unacknowledged >= self.settings.max_unacknowledged;
        if multicast || unreliable || !self.capable(&transmit) {
            current.into_iter().for_each(|id| self.forget(id));
            self.emit(frame, transmit);
            return;
        }
        if let Some(id) = current {
            let message = self.tracked.get_mut(&id);
            let unchanged = |message: &&mut TrackedMessage| {
                message.frame == frame && same_ip_fields(&message.transmit, &transmit)
            };
            if let Some(message) = message.filter(unchanged) {
                let neighbour = message.acknowledged_by.map(|address| Neighbour {
                    interface: transmit.interface,
                    address,
                });
                // A neighbour that has been forgotten gets the whole message.
                if let Some(neighbour) = neighbour.filter(|known| self.neighbours.contains(*known)) {
                    self.summarise(now, neighbour, id, &frame.message);
                } else {
                    message.acknowledged_by = None;
                    message.transmissions = 0;
                    self.transmit(now, id);
                }
                return;
            }
            self.forget(id);
        }
        let id = self.next_id;
        self.next_id = self.next_id.checked_add(1).unwrap_or(1);
        if let Some(at) = at {
            self.current.insert(at, id);
        }
        self.unacknowledged += usize::from(key.is_none());
        let message = TrackedMessage {
            transmit,
            frame,
            key,
            acknowledged_by: None,
            transmissions: 0,
            at: now,
        };
        self.tracked.insert(id, message);
        self.transmit(now, id);
    }

    /// Adds a MESSAGE_ID to the next summary refresh of a neighbour.
    fn summarise(&mut self, now: Instant, neighbour: Neighbour, id: u32, message: &Message) {
        let period = refresh(message).map_or(Duration::ZERO, Refresh::period);
        let eighth = Duration::from_nanos(period.nanos() / 8);
        let at = now + self.settings.summary_delay.min(eighth);
        self.neighbours.update(neighbour, |state| {
            state.summary.insert(id);
            let at = if state.summary.len() >= IDS_PER_SREFRESH {
                now
            } else {
                at
            };
            state.summary_at = Some(state.summary_at.unwrap_or(Instant::NEVER).min(at));
        });
        self.reschedule(id, now + own_lifetime(message));
    }

    /// Sends summaries and acknowledgements that are due, and retransmits what was not
    /// acknowledged.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, id)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            let Some(message) = self.tracked.get(&id) else {
                self.timers.pop_first();
                continue;
            };
            if message.acknowledged_by.is_some() {
                // The node has not refreshed it for a lifetime: its state has ended.
                self.forget(id);
            } else if message.transmissions < self.settings.max_transmissions {
                self.counts.retransmitted += 1;
                self.transmit(now, id);
            } else if message.key.is_some() && message.transmissions == self.settings.max_transmissions {
                // The node's refreshes go out whole until one is acknowledged.
                self.counts.given_up += 1;
                let at = now + own_lifetime(&message.frame.message);
                if let Some(message) = self.tracked.get_mut(&id) {
                    message.transmissions += 1;
                }
                self.reschedule(id, at);
            } else {
                self.counts.given_up += u64::from(message.key.is_none());
                self.forget(id);
            }
        }
        while let Some(neighbour) = self.neighbours.pop_due(now) {
            self.flush(neighbour);
        }
    }

    /// Sends a neighbour the MESSAGE_IDs and acknowledgements that wait for it.
    fn flush(&mut self, neighbour: Neighbour) {
        let waiting = self.neighbours.update(neighbour, NeighbourState::take_waiting);
        let Some(Waiting { mut ids, acks }) = waiting else {
            return;
        };
        let Neighbour {
            interface,
            address: destination,
        } = neighbour;
        // State that was torn down, and what another neighbour has acknowledged since.
        ids.retain(|id| {
            let message = self.tracked.get(id);
            message.is_some_and(|message| message.acknowledged_by == Some(destination))
        });
        let addresses = self.settings.addresses.get(interface as usize);
        let alike = |address: &&IpAddr| address.is_ipv4() == destination.is_ipv4();
        let Some(&source) = addresses.into_iter().flatten().find(alike) else {
            return;
        };
        let transmit = Transmit {
            interface,
            source,
            destination,
            router_alert: false,
            ttl: TTL,
            bytes: Vec::new(),
        };
        self.counts.summarised += ids.len() as u64;
        let lists = ids.chunks(IDS_PER_SREFRESH).map(|ids| {
            Message::Srefresh(vec![MessageIdList {
                epoch: self.settings.epoch,
                ids: MessageIds::Neighbour(ids.to_vec()),
            }])
        });
        let mut messages: Vec<Message> = lists.collect();
        let carried = messages.len() * ACKS_PER_MESSAGE;
        let rest = acks.saturating_sub(carried);
        messages.extend((0..rest.div_ceil(ACKS_PER_MESSAGE)).map(|_| Message::Ack));
        for message in messages {
            self.emit(plain(message), transmit.clone());
        }
    }
}

fn plain(message: Message) -> Frame {
    Frame {
        refresh_reduction: true,
        ..Frame::plain(TTL, message)
    }
}

/// Whether two messages have the same source, destination and TTL.
fn same_ip_fields(a: &Transmit, b: &Transmit) -> bool {
    (a.source, a.destination, a.ttl) == (b.source, b.destination, b.ttl)
}

/// The neighbour that a message names in RSVP_HOP.
const fn hop(message: &Message) -> Option<IpAddr> {
    Some(match message {
        Message::Path(path) => path.hop.address,
        Message::PathTear(tear) => tear.hop.address,
        Message::Resv(resv) => resv.hop.address,
        Message::ResvTear(tear) => tear.hop.address,
        Message::ResvErr(error) => error.hop.address,
        _ => return None,
    })
}

/// The R of a message that is refreshed.
const fn refresh(message: &Message) -> Option<Refresh> {
    match message {
        Message::Path(path) => Some(path.refresh),
        Message::Resv(resv) => Some(resv.refresh),
        _ => None,
    }
}

/// The lifetime of the state that a message of ours installs.
fn own_lifetime(message: &Message) -> Duration {
    refresh(message).map_or(Duration::ZERO, Refresh::lifetime)
}
