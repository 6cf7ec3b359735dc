//! Fewer and surer messages between neighbours: a layer between a node and its sockets that names messages.
//!
//! Follows RFC 2961. The node above speaks plain RSVP, and the layer stands for it towards neighbours that can:
//!
//! - What is new goes out with a name (MESSAGE_ID) that the neighbour is to acknowledge, and again after 0.5 s and 1 s
//!   more when it does not; so do ends and errors.
//! - What has been acknowledged and has not changed is refreshed by its name alone: names are gathered for a while and
//!   go out together (Srefresh). The neighbour's layer has kept the message, and hears it again.
//! - A name that is not known is answered (NACK), and its message goes out whole at once. A neighbour that restarts has
//!   another epoch, and its old names mean nothing any more.
//!
//! A neighbour can if the header of its last message says so and nothing that is no RSVP router lies between. Who is next
//! on a path is not known until it has answered: a Path is named where all neighbours of the interface that were heard
//! can, or [`Settings::assume`] says so. All others, and groups, get plain RSVP.
//!
//! Departures: messages are not put into bundles (those of others are read), and lists with sources are answered as
//! those without. A gathered refresh is late by [`Settings::gather`] at most.

mod heard;
mod topic;

use crate::node::Transmit;
use crate::traffic_control::InterfaceId;
use crate::wire::{Acknowledgement, Frame, IdList, Message, MessageId, Named};
use core::net::IpAddr;
use engine::units::{Duration, Instant};
use heard::{Heard, Judged};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use topic::{Topic, ends, topic};

/// What the layer is told at construction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The node's addresses on each interface, in the order of their identifiers.
    pub addresses: Vec<Vec<IpAddr>>,
    /// Another one at each start; 24 bits.
    pub epoch: u32,
    /// Rf: what is not acknowledged in this time is sent again, and then after twice as long as before.
    pub retransmit: Duration,
    /// Rl: how often a message is sent until its neighbour is given up.
    pub tries: u32,
    /// Acknowledgements wait this long for a message that they can go with.
    pub acknowledge: Duration,
    /// Refreshes by name wait this long for others.
    pub gather: Duration,
    /// Neighbours are taken to be capable before they were heard: for networks where all are.
    pub assume: bool,
    /// Messages of neighbours that are kept at most.
    pub most_kept: usize,
}

impl Settings {
    /// The times of RFC 2961, section 6, for a node of these addresses.
    pub const fn new(addresses: Vec<Vec<IpAddr>>, epoch: u32) -> Self {
        Self {
            addresses,
            epoch: epoch & 0x00ff_ffff,
            retransmit: Duration::from_millis(500),
            tries: 3,
            acknowledge: Duration::from_millis(50),
            gather: Duration::from_millis(500),
            assume: false,
            most_kept: 100_000,
        }
    }
}

/// What the layer has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Refreshes that went out as a name.
    pub summarised: u64,
    /// Messages that were sent again.
    pub repeated: u64,
    /// Messages that no one acknowledged.
    pub given_up: u64,
    /// Names of neighbours that were not known.
    pub unknown: u64,
}

type Neighbour = (InterfaceId, IpAddr);

/// A message of ours that has a name.
struct Sent {
    transmit: Transmit,
    frame: Frame,
    topic: Option<Topic>,
    acknowledged: Option<IpAddr>,
    tries: u32,
    /// When it is sent again, or forgotten.
    at: Instant,
}

/// What is known of a neighbour.
#[derive(Default)]
struct Known {
    capable: bool,
    heard: Heard,
    acknowledgements: Vec<Acknowledgement>,
    acknowledge_at: Option<Instant>,
    names: BTreeSet<u32>,
    names_at: Option<Instant>,
}

impl Known {
    fn due(&self) -> impl Iterator<Item = Instant> {
        self.acknowledge_at.into_iter().chain(self.names_at)
    }
}

/// The layer of one node.
pub struct Reduction {
    settings: Settings,
    next_id: u32,
    sent: BTreeMap<u32, Sent>,
    current: BTreeMap<(InterfaceId, Topic), u32>,
    agenda: BTreeSet<(Instant, u32)>,
    neighbours: BTreeMap<Neighbour, Known>,
    transmits: VecDeque<Transmit>,
    counts: Counts,
}

/// Names in one Srefresh: it fits the 1500 bytes of Ethernet, with INTEGRITY.
const NAMES_AT_ONCE: usize = 340;

/// Acknowledgements in one message.
const ACKNOWLEDGEMENTS_AT_ONCE: usize = 100;

/// The TTL of the layer's own messages.
const TTL: u8 = 64;

/// How long what is refreshed with this period lives: (K + 1/2) × 1.5 × R with K = 3.
const fn lifetime(period: Duration) -> Duration {
    Duration::from_nanos(period.times(21).nanos() / 4)
}

impl Reduction {
    /// A layer that has heard of nobody.
    pub const fn new(settings: Settings) -> Self {
        Self {
            settings,
            next_id: 1,
            sent: BTreeMap::new(),
            current: BTreeMap::new(),
            agenda: BTreeSet::new(),
            neighbours: BTreeMap::new(),
            transmits: VecDeque::new(),
            counts: Counts {
                summarised: 0,
                repeated: 0,
                given_up: 0,
                unknown: 0,
            },
        }
    }

    /// What it has done.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The node's addresses on an interface have changed; the next identifier adds one.
    pub fn set_interface(&mut self, interface: InterfaceId, addresses: Vec<IpAddr>) {
        let at = interface as usize;
        if at >= self.settings.addresses.len() {
            self.settings.addresses.resize(at + 1, Vec::new());
        }
        self.settings.addresses[at] = addresses;
    }

    /// Routes have changed: who is next on a path has to say anew that it knows it.
    pub fn routes_changed(&mut self) {
        for sent in self.sent.values_mut() {
            if sent.transmit.router_alert {
                sent.acknowledged = None;
            }
        }
    }

    /// A neighbour behind this interface has heard nothing of what was said so far: names mean nothing to it, and what is
    /// said again goes out whole.
    pub fn say_again(&mut self, interface: InterfaceId) {
        let sent = self.sent.values_mut();
        for sent in sent.filter(|sent| sent.transmit.interface == interface) {
            sent.acknowledged = None;
        }
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// When [`Reduction::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let agenda = self.agenda.first().map(|(at, _)| *at);
        self.neighbours.values().flat_map(Known::due).chain(agenda).min()
    }

    /// A message came by this interface with this IP source and TTL, and is no bundle. What the node is to hear, each
    /// with its TTL.
    pub fn incoming(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        source: IpAddr,
        ttl: u8,
        mut frame: Frame,
    ) -> Vec<(u8, Frame)> {
        // A Path comes from the sender of the data; the neighbour names itself in it.
        let from = (interface, hop(&frame.message).unwrap_or(source));
        let acknowledgements = core::mem::take(&mut frame.acknowledgements);
        let most = self.settings.most_kept;
        let known = self.neighbours.entry(from).or_default();
        known.capable = frame.reduction && ttl == frame.send_ttl;
        let id = frame.id.take();
        if let Some(id) = id.filter(|id| id.acknowledge) {
            let acknowledgement = Acknowledgement {
                known: true,
                epoch: id.epoch,
                id: id.id,
            };
            known.acknowledgements.push(acknowledgement);
            known
                .acknowledge_at
                .get_or_insert(now + self.settings.acknowledge);
        }
        let frames = match frame.message {
            Message::Srefresh(lists) => lists
                .iter()
                .flat_map(|list| self.refreshed(now, from, list))
                .collect(),
            Message::Ack => Vec::new(),
            _ => match known.heard.judge(now, id, &frame, ttl, most) {
                Judged::Pass => vec![(ttl, frame)],
                Judged::Old => Vec::new(),
            },
        };
        for acknowledgement in acknowledgements {
            self.acknowledged(now, from, &acknowledgement);
        }
        frames
    }

    /// A neighbour refreshes what it names.
    fn refreshed(&mut self, now: Instant, from: Neighbour, list: &IdList) -> Vec<(u8, Frame)> {
        let ids: Vec<u32> = match &list.names {
            Named::Neighbour(ids) => ids.clone(),
            Named::SourceV4(names) => names.iter().map(|name| name.0).collect(),
            Named::SourceV6(names) => names.iter().map(|name| name.0).collect(),
            Named::GroupV4(names) => names.iter().map(|name| name.0).collect(),
            Named::GroupV6(names) => names.iter().map(|name| name.0).collect(),
        };
        let known = self.neighbours.entry(from).or_default();
        let mut frames = Vec::new();
        for id in ids {
            if let Some(again) = known.heard.again(now, list.epoch, id) {
                frames.push(again);
            } else {
                self.counts.unknown += 1;
                known.acknowledgements.push(Acknowledgement {
                    known: false,
                    epoch: list.epoch,
                    id,
                });
                // Who refreshes something that we do not have waits for an answer.
                known.acknowledge_at = Some(now);
            }
        }
        frames
    }

    /// A neighbour has, or has not, what we named.
    fn acknowledged(&mut self, now: Instant, from: Neighbour, answer: &Acknowledgement) {
        let named = (answer.epoch == self.settings.epoch).then_some(answer.id);
        let Some(sent) = named.and_then(|id| self.sent.get_mut(&id)) else {
            return;
        };
        if sent.transmit.interface != from.0 {
            return;
        }
        if !answer.known {
            sent.acknowledged = None;
            sent.tries = 0;
            self.again(now, answer.id);
        } else if sent.topic.is_some() {
            sent.acknowledged = Some(from.1);
            let at = now + lifetime(period(&sent.frame.message));
            self.put_off(answer.id, at);
        } else {
            self.forget(answer.id);
        }
    }

    fn forget(&mut self, id: u32) {
        if let Some(sent) = self.sent.remove(&id) {
            self.agenda.remove(&(sent.at, id));
            if let Some(topic) = sent.topic {
                let place = (sent.transmit.interface, topic);
                if self.current.get(&place) == Some(&id) {
                    self.current.remove(&place);
                }
            }
            for known in self.neighbours.values_mut() {
                known.names.remove(&id);
            }
        }
    }

    fn put_off(&mut self, id: u32, at: Instant) {
        if let Some(sent) = self.sent.get_mut(&id) {
            self.agenda.remove(&(sent.at, id));
            sent.at = at;
            self.agenda.insert((at, id));
        }
    }

    /// Sends a named message, and again later.
    fn again(&mut self, now: Instant, id: u32) {
        let Some(sent) = self.sent.get_mut(&id) else {
            return;
        };
        sent.tries += 1;
        let wait = self.settings.retransmit.times(1 << (sent.tries - 1).min(16));
        let mut frame = sent.frame.clone();
        frame.id = Some(MessageId {
            acknowledge: true,
            epoch: self.settings.epoch,
            id,
        });
        let transmit = sent.transmit.clone();
        self.put_off(id, now + wait);
        self.emit(frame, transmit);
    }

    /// Sends a message, with what its receiver is waiting for.
    fn emit(&mut self, mut frame: Frame, mut transmit: Transmit) {
        frame.reduction = true;
        let place = (transmit.interface, transmit.destination);
        if let Some(known) = self.neighbours.get_mut(&place).filter(|known| known.capable) {
            let some = known.acknowledgements.len().min(ACKNOWLEDGEMENTS_AT_ONCE);
            frame
                .acknowledgements
                .extend(known.acknowledgements.drain(..some));
            if known.acknowledgements.is_empty() {
                known.acknowledge_at = None;
            }
        }
        // What the node could encode fits with a few words more; a message of 64 KiB goes as it came.
        if let Ok(bytes) = frame.encode() {
            transmit.bytes = bytes;
        }
        self.transmits.push_back(transmit);
    }

    /// Whether who gets this can do it.
    fn capable(&self, transmit: &Transmit) -> bool {
        if !transmit.router_alert {
            let known = self.neighbours.get(&(transmit.interface, transmit.destination));
            return known.map_or(self.settings.assume, |known| known.capable);
        }
        let on_interface = |((interface, _), _): &(&Neighbour, &Known)| *interface == transmit.interface;
        let mut neighbours = self.neighbours.iter().filter(on_interface).peekable();
        match neighbours.peek() {
            None => self.settings.assume,
            Some(_) => neighbours.all(|(_, known)| known.capable),
        }
    }

    /// The node has something to say.
    pub fn outgoing(&mut self, now: Instant, transmit: Transmit) {
        let group = transmit.destination.is_multicast();
        let Ok(frame) = Frame::decode(&transmit.bytes) else {
            // An error about what was not understood: it is carried back as it came.
            self.transmits.push_back(transmit);
            return;
        };
        let topic = topic(&frame.message, transmit.destination);
        if let Some(ended) = ends(&frame.message, transmit.destination) {
            // Names of what ends, and of what goes with it, must not bring it back.
            let places = self.current.range((transmit.interface, ended.clone())..);
            let ended: Vec<u32> = places
                .take_while(|((interface, topic), _)| *interface == transmit.interface && ended.covers(topic))
                .map(|(_, id)| *id)
                .collect();
            ended.into_iter().for_each(|id| self.forget(id));
        }
        let place = topic.clone().map(|topic| (transmit.interface, topic));
        let current = place.as_ref().and_then(|place| self.current.get(place)).copied();
        if group || !self.capable(&transmit) {
            current.into_iter().for_each(|id| self.forget(id));
            self.emit(frame, transmit);
            return;
        }
        if let Some(id) = current {
            let sent = self.sent.get_mut(&id);
            if let Some(sent) = sent.filter(|sent| sent.frame == frame && same_way(&sent.transmit, &transmit))
            {
                if let Some(neighbour) = sent.acknowledged {
                    self.name(now, (transmit.interface, neighbour), id, period(&frame.message));
                } else {
                    sent.tries = 0;
                    self.again(now, id);
                }
                return;
            }
            self.forget(id);
        }
        let id = self.next_id;
        self.next_id = self.next_id.checked_add(1).unwrap_or(1);
        if let Some(place) = place {
            self.current.insert(place, id);
        }
        let sent = Sent {
            transmit,
            frame,
            topic,
            acknowledged: None,
            tries: 0,
            at: now,
        };
        self.sent.insert(id, sent);
        self.again(now, id);
    }

    /// Something is refreshed by its name.
    fn name(&mut self, now: Instant, neighbour: Neighbour, id: u32, period: Duration) {
        let wait = self.settings.gather.min(Duration::from_nanos(period.nanos() / 8));
        let known = self.neighbours.entry(neighbour).or_default();
        known.names.insert(id);
        known.names_at = Some(known.names_at.unwrap_or(Instant::NEVER).min(now + wait));
        if known.names.len() >= NAMES_AT_ONCE {
            known.names_at = Some(now);
        }
        self.put_off(id, now + lifetime(period));
    }

    /// Sends what has waited, and again what was not acknowledged.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, id)) = self.agenda.first().copied().filter(|(at, _)| *at <= now) {
            let Some(sent) = self.sent.get(&id) else {
                self.agenda.pop_first();
                continue;
            };
            if sent.acknowledged.is_some() {
                // The node has not refreshed it for so long that it is no more.
                self.forget(id);
            } else if sent.tries < self.settings.tries {
                self.counts.repeated += 1;
                self.again(now, id);
            } else if sent.topic.is_some() && sent.tries == self.settings.tries {
                // Refreshes of the node go on, whole, until one is acknowledged.
                self.counts.given_up += 1;
                let at = now + lifetime(period(&sent.frame.message));
                if let Some(sent) = self.sent.get_mut(&id) {
                    sent.tries += 1;
                }
                self.put_off(id, at);
            } else {
                self.counts.given_up += u64::from(sent.topic.is_none());
                self.forget(id);
            }
        }
        let due = |(_, known): &(&Neighbour, &Known)| known.due().any(|at| at <= now);
        let due: Vec<Neighbour> = self.neighbours.iter().filter(due).map(|(at, _)| *at).collect();
        due.into_iter().for_each(|neighbour| self.flush(neighbour));
    }

    /// Sends a neighbour the names and acknowledgements that have gathered for it.
    fn flush(&mut self, neighbour: Neighbour) {
        let (interface, destination) = neighbour;
        let Some(known) = self.neighbours.get_mut(&neighbour) else {
            return;
        };
        known.names_at = None;
        known.acknowledge_at = None;
        let names: Vec<u32> = core::mem::take(&mut known.names).into_iter().collect();
        let acknowledgements = known.acknowledgements.len();
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
        self.counts.summarised += names.len() as u64;
        let lists = names.chunks(NAMES_AT_ONCE).map(|names| {
            Message::Srefresh(vec![IdList {
                epoch: self.settings.epoch,
                names: Named::Neighbour(names.to_vec()),
            }])
        });
        let mut messages: Vec<Message> = lists.collect();
        let carried = messages.len() * ACKNOWLEDGEMENTS_AT_ONCE;
        let rest = acknowledgements.saturating_sub(carried);
        messages.extend((0..rest.div_ceil(ACKNOWLEDGEMENTS_AT_ONCE)).map(|_| Message::Ack));
        for message in messages {
            self.emit(plain(message), transmit.clone());
        }
    }
}

fn plain(message: Message) -> Frame {
    Frame {
        reduction: true,
        ..Frame::plain(TTL, message)
    }
}

/// Whether two messages go the same way, whatever they say.
fn same_way(a: &Transmit, b: &Transmit) -> bool {
    (a.source, a.destination, a.ttl) == (b.source, b.destination, b.ttl)
}

/// The neighbour that a message names as its sender.
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

/// How often a message is refreshed; nothing for one that is not.
const fn period(message: &Message) -> Duration {
    match message {
        Message::Path(path) => path.refresh.period(),
        Message::Resv(resv) => resv.refresh.period(),
        _ => Duration::ZERO,
    }
}
