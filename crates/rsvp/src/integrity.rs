//! Messages that only neighbours who know a key can write, alter or repeat: a layer between a node and its sockets.
//!
//! Follows RFC 2747 (INTEGRITY, sequence numbers, challenges) and RFC 3097 (the numbers of the two messages). The host
//! gives what comes in to [`Guard::incoming`] first, sends what goes out through [`Guard::outgoing`], and sends what
//! [`Guard::poll_transmit`] gives. Interfaces that were not given to [`Guard::set`] are let through as they are.
//!
//! - The digest is HMAC-SHA-256; HMAC-MD5, the one of RFC 2747, is there for old neighbours. Both are by the key.
//! - A sequence number is taken once. The host gives the first one: nanoseconds since 1970 grow over restarts without
//!   being kept. The last [`Settings::window`] numbers are remembered, so that messages may overtake each other.
//! - After a restart nobody's place in its sequence is known, and all that was ever sent could be repeated. A neighbour
//!   that says that it answers challenges is challenged, and heard from its answer on; of another the first message is
//!   believed (RFC 2747, section 4.3).
//! - What fails is dropped in silence, and counted with its reason and whom it claims to be from.
//! - A neighbour that challenges has not heard what was said before: [`Guard::poll_challenged`] tells the host to say it again.
//!
//! Departures: a node whose clock went back is not heard until it has caught up or has a new key, because starting
//! anew would let its old messages be repeated. The last key of an interface goes on when no other is in force, as
//! the RFC asks (section 5.2); [`Guard::stale`] tells, so that the host can warn.

mod key;
mod window;

pub use key::{Algorithm, BadKey, Key, Lifetime, Use};

use crate::node::Transmit;
use crate::traffic_control::InterfaceId;
use crate::wire::protected::{self, Protected};
use crate::wire::{Challenge, Frame, Integrity, Message, TooLong};
use core::net::IpAddr;
use engine::random::Seed;
use engine::units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use window::Window;

/// What a guard is told at construction.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The first sequence number; above all that this node ever used with its keys.
    pub sequence: u64,
    /// How many of the last sequence numbers of a neighbour are remembered: a message may be overtaken by one less than
    /// this. At least 1, which takes them in order only.
    pub window: usize,
    /// We answer challenges, and say so.
    pub answers: bool,
    /// We challenge neighbours that answer, when their place is not known.
    pub challenges: bool,
    /// Neighbours and keys that are remembered at most.
    pub most_neighbours: usize,
    /// Different at each start, so that no challenge comes twice.
    pub seed: Seed,
}

/// Whether a message must have INTEGRITY. One that has it must always be right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    /// Those without are let through: for the time in which neighbours are given keys.
    Optional,
    /// Those without are dropped.
    Required,
}

/// How messages of an interface are protected.
#[derive(Clone, Debug)]
pub struct Interface {
    /// The node's addresses on it; messages of the guard's own have the first of the neighbour's family.
    pub addresses: Vec<IpAddr>,
    /// What is asked of messages.
    pub demand: Demand,
    /// What is asked of single neighbours instead.
    pub neighbours: BTreeMap<IpAddr, Demand>,
    /// The keys: of those that we send with, and of those that we verify with, no two with the same identifier.
    pub keys: Vec<Key>,
}

/// Why a message was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// Not a message.
    Malformed,
    /// It has no INTEGRITY, and must.
    Missing,
    /// There is no such key on the interface.
    UnknownKey,
    /// The key is not yet, or no longer, in force.
    KeyNotInForce,
    /// The digest is wrong: another secret, or altered on the way.
    Digest,
    /// The key is another neighbour's.
    Foreign,
    /// It claims to be from this very node.
    Reflected,
    /// Its sequence number was taken, or is too old.
    Replayed,
    /// The neighbour has not answered a challenge yet.
    Unsynchronised,
    /// An answer to a challenge that is not ours, or a challenge that we do not answer.
    Challenge,
    /// As many neighbours as the settings allow are remembered.
    Full,
}

/// What was dropped: where, from whom by its own word, and why.
pub type Complaint = (InterfaceId, IpAddr, Reason);

/// How often something was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// So many messages.
    pub count: u64,
    /// The last of them came then.
    pub last: Instant,
}

/// Complaints that are remembered: anybody can claim to be anybody.
const MOST_COMPLAINTS: usize = 64;

/// What becomes of a message that came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is for the node.
    Pass,
    /// It was for the guard.
    Taken,
    /// It is dropped, and nobody is told.
    Drop(Reason),
}

/// A neighbour with one of its keys.
type Sender = (IpAddr, u64);

/// What is known of a neighbour's sequence.
enum Place {
    Known(Window),
    Asked { cookie: Vec<u8>, at: Instant },
}

/// A neighbour is challenged at most this often.
const CHALLENGE_AGAIN: Duration = Duration::from_secs(1);

/// Challenges are answered at most this often on an interface: anyone can send them.
const ANSWER_AGAIN: Duration = Duration::from_millis(10);

/// The TTL of the guard's own messages.
const TTL: u8 = 64;

/// Protects and verifies the messages of one node.
pub struct Guard {
    settings: Settings,
    interfaces: BTreeMap<InterfaceId, Interface>,
    sequence: u64,
    challenged: u64,
    places: BTreeMap<Sender, Place>,
    answered: BTreeMap<InterfaceId, Instant>,
    transmits: VecDeque<Transmit>,
    drops: BTreeMap<Reason, u64>,
    complaints: BTreeMap<Complaint, Dropped>,
    fresh_complaints: VecDeque<Complaint>,
    challengers: BTreeSet<InterfaceId>,
}

impl Guard {
    /// A guard that lets everything through until [`Guard::set`].
    pub fn new(settings: Settings) -> Self {
        Self {
            sequence: settings.sequence,
            settings,
            interfaces: BTreeMap::new(),
            challenged: 0,
            places: BTreeMap::new(),
            answered: BTreeMap::new(),
            transmits: VecDeque::new(),
            drops: BTreeMap::new(),
            complaints: BTreeMap::new(),
            fresh_complaints: VecDeque::new(),
            challengers: BTreeSet::new(),
        }
    }

    /// Sets how an interface is protected, instead of what was set before. What is known of neighbours stays, so that
    /// nothing can be repeated after a change of keys.
    pub fn set(&mut self, interface: InterfaceId, protection: Interface) {
        self.interfaces.insert(interface, protection);
    }

    /// An interface is not protected any more.
    pub fn clear(&mut self, interface: InterfaceId) {
        self.interfaces.remove(&interface);
    }

    /// The next sequence number: what a host may keep for [`Settings::sequence`] of the next start.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// How many messages were dropped for each reason.
    pub const fn drops(&self) -> &BTreeMap<Reason, u64> {
        &self.drops
    }

    /// What was dropped, where, from whom and why; the oldest are forgotten when there are too many.
    pub const fn complaints(&self) -> &BTreeMap<Complaint, Dropped> {
        &self.complaints
    }

    /// The next complaint of a kind that was not there before.
    pub fn poll_complaint(&mut self) -> Option<Complaint> {
        self.fresh_complaints.pop_front()
    }

    /// An interface by which a neighbour has challenged us and has been answered. It has heard nothing of what was said
    /// before, and waits for the next refresh, unless the host sends one at once.
    pub fn poll_challenged(&mut self) -> Option<InterfaceId> {
        self.challengers.pop_first()
    }

    /// Interfaces that send with a key whose time has ended, for want of another.
    pub fn stale(&self, now: Instant) -> impl Iterator<Item = InterfaceId> {
        let stale = move |protection: &Interface| {
            key::sending(&protection.keys, now).is_some_and(|key| !key.lifetime().sends(now))
        };
        let interfaces = self.interfaces.iter();
        interfaces
            .filter(move |(_, protection)| stale(protection))
            .map(|(interface, _)| *interface)
    }

    /// The next message that the guard itself has to send; it does not go through [`Guard::outgoing`].
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// A message that is to leave by this interface, protected.
    pub fn outgoing(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        message: Vec<u8>,
    ) -> Result<Vec<u8>, TooLong> {
        let protection = self.interfaces.get(&interface);
        let Some(key) = protection.and_then(|protection| key::sending(&protection.keys, now)) else {
            return Ok(message);
        };
        let integrity = Integrity {
            handshake: self.settings.answers,
            key: key.id(),
            sequence: self.sequence,
            digest: vec![0; key.algorithm().length()],
        };
        self.sequence = self.sequence.saturating_add(1);
        protected::protect(&message, &integrity, |covered| key.digest(covered))
    }

    /// A message that came by this interface, from this IP source.
    pub fn incoming(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        source: IpAddr,
        message: &[u8],
    ) -> Verdict {
        if !self.interfaces.contains_key(&interface) {
            return Verdict::Pass;
        }
        // Only neighbours name themselves in messages; in a Path the IP source is the sender of the data.
        let from = protected::hop(message).unwrap_or(source);
        let verdict = self.judge(now, interface, (source, from), message);
        if let Verdict::Drop(reason) = verdict {
            *self.drops.entry(reason).or_default() += 1;
            self.complain(now, (interface, from, reason));
        }
        verdict
    }

    fn complain(&mut self, now: Instant, complaint: Complaint) {
        if let Some(known) = self.complaints.get_mut(&complaint) {
            known.count += 1;
            known.last = now;
            return;
        }
        if self.complaints.len() >= MOST_COMPLAINTS {
            let oldest = self.complaints.iter().min_by_key(|(_, dropped)| dropped.last);
            let oldest = oldest.map(|(complaint, _)| *complaint);
            oldest.and_then(|oldest| self.complaints.remove(&oldest));
        }
        self.complaints.insert(complaint, Dropped { count: 1, last: now });
        if self.fresh_complaints.len() < MOST_COMPLAINTS {
            self.fresh_complaints.push_back(complaint);
        }
    }

    fn judge(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        (source, from): (IpAddr, IpAddr),
        message: &[u8],
    ) -> Verdict {
        let Some(protection) = self.interfaces.get(&interface) else {
            return Verdict::Pass;
        };
        let found = match protected::find(message) {
            Ok(found) => found,
            Err(_) => return Verdict::Drop(Reason::Malformed),
        };
        let Some(found) = found else {
            if protected::kind(message) == Some(CHALLENGE) {
                return self.answer(now, interface, source, message);
            }
            let demand = protection.neighbours.get(&from).unwrap_or(&protection.demand);
            return match demand {
                Demand::Optional => Verdict::Pass,
                Demand::Required => Verdict::Drop(Reason::Missing),
            };
        };
        if let Err(reason) = authentic(protection, now, from, &found) {
            return Verdict::Drop(reason);
        }
        match protected::kind(message) {
            Some(CHALLENGE) => self.answer(now, interface, source, message),
            Some(RESPONSE) => {
                self.answered(interface, (from, found.integrity.key), &found.integrity, message)
            }
            _ => self.fresh(now, interface, (from, found.integrity.key), &found.integrity),
        }
    }

    /// Whether an authentic message is new.
    fn fresh(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        from: Sender,
        integrity: &Integrity,
    ) -> Verdict {
        let full = self.places.len() >= self.settings.most_neighbours;
        match self.places.get_mut(&from) {
            Some(Place::Known(window)) => {
                if window.take(integrity.sequence) {
                    Verdict::Pass
                } else {
                    Verdict::Drop(Reason::Replayed)
                }
            }
            Some(Place::Asked { at, .. }) if now < *at + CHALLENGE_AGAIN => {
                Verdict::Drop(Reason::Unsynchronised)
            }
            Some(Place::Asked { cookie, .. }) => {
                let cookie = cookie.clone();
                self.challenge(now, interface, from, cookie);
                Verdict::Drop(Reason::Unsynchronised)
            }
            None if full => Verdict::Drop(Reason::Full),
            None if integrity.handshake && self.settings.challenges => {
                let cookie = self.cookie(interface, from);
                self.challenge(now, interface, from, cookie);
                Verdict::Drop(Reason::Unsynchronised)
            }
            None => {
                let window = Window::after(integrity.sequence, self.settings.window);
                self.places.insert(from, Place::Known(window));
                Verdict::Pass
            }
        }
    }

    /// What nobody can foresee and what was never used: a digest with the key, of the start and a count.
    fn cookie(&mut self, interface: InterfaceId, (_, id): Sender) -> Vec<u8> {
        self.challenged += 1;
        let words = [self.settings.seed.0, self.settings.sequence, self.challenged];
        let mut text = b"challenge".to_vec();
        text.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        let keys = self.interfaces.get(&interface).map(|protection| &protection.keys);
        let key = keys.into_iter().flatten().find(|key| key.id() == id);
        key.map_or(text.clone(), |key| key.digest(&text))
    }

    fn challenge(&mut self, now: Instant, interface: InterfaceId, from: Sender, cookie: Vec<u8>) {
        let place = Place::Asked {
            cookie: cookie.clone(),
            at: now,
        };
        self.places.insert(from, place);
        let challenge = Challenge { key: from.1, cookie };
        // A challenge is not protected: who is challenged may not know where we are in our sequence either.
        self.send(interface, from.0, Message::Challenge(challenge), |_, bytes| {
            Ok(bytes)
        });
    }

    /// Somebody asks for our place in our sequence with one of our keys.
    fn answer(&mut self, now: Instant, interface: InterfaceId, source: IpAddr, message: &[u8]) -> Verdict {
        let refused = Verdict::Drop(Reason::Challenge);
        let Some(challenge) = challenge_in(message) else {
            return Verdict::Drop(Reason::Malformed);
        };
        let soon = |at: &Instant| now < *at + ANSWER_AGAIN;
        if !self.settings.answers || self.answered.get(&interface).is_some_and(soon) {
            return refused;
        }
        let keys = self.interfaces.get(&interface).map(|protection| &protection.keys);
        let ours = |key: &&Key| key.id() == challenge.key && key.sends();
        let Some(key) = keys.into_iter().flatten().find(ours).cloned() else {
            return refused;
        };
        self.answered.insert(interface, now);
        self.challengers.insert(interface);
        self.send(
            interface,
            source,
            Message::Response(challenge),
            |sequence, bytes| {
                let integrity = Integrity {
                    handshake: true,
                    key: key.id(),
                    sequence,
                    digest: vec![0; key.algorithm().length()],
                };
                protected::protect(&bytes, &integrity, |covered| key.digest(covered))
            },
        );
        Verdict::Taken
    }

    /// A neighbour has answered: what it sends from now on is new.
    fn answered(
        &mut self,
        interface: InterfaceId,
        from: Sender,
        integrity: &Integrity,
        message: &[u8],
    ) -> Verdict {
        let response = challenge_in(message);
        match (self.places.get(&from), response) {
            (Some(Place::Asked { cookie, .. }), Some(response))
                if response.key == from.1 && response.cookie == *cookie =>
            {
                let window = Window::after(integrity.sequence, self.settings.window);
                self.places.insert(from, Place::Known(window));
                self.complaints
                    .remove(&(interface, from.0, Reason::Unsynchronised));
                Verdict::Taken
            }
            _ => Verdict::Drop(Reason::Challenge),
        }
    }

    fn send(
        &mut self,
        interface: InterfaceId,
        destination: IpAddr,
        message: Message,
        protect: impl FnOnce(u64, Vec<u8>) -> Result<Vec<u8>, TooLong>,
    ) {
        let Some(protection) = self.interfaces.get(&interface) else {
            return;
        };
        let frame = Frame::plain(TTL, message);
        let alike = |address: &&IpAddr| address.is_ipv4() == destination.is_ipv4();
        let Some(source) = protection.addresses.iter().find(alike).copied() else {
            return;
        };
        let sequence = self.sequence;
        self.sequence = sequence.saturating_add(1);
        // A challenge that is too long to be sent back is not answered.
        if let Ok(bytes) = frame.encode().and_then(|bytes| protect(sequence, bytes)) {
            self.transmits.push_back(Transmit {
                interface,
                source,
                destination,
                router_alert: false,
                ttl: TTL,
                bytes,
            });
        }
    }
}

/// Message type of a challenge.
const CHALLENGE: u8 = 25;
/// Message type of its answer.
const RESPONSE: u8 = 26;

/// What is asked or answered.
fn challenge_in(message: &[u8]) -> Option<Challenge> {
    match Frame::decode(message).ok()?.message {
        Message::Challenge(challenge) | Message::Response(challenge) => Some(challenge),
        _ => None,
    }
}

/// Whether a neighbour wrote this message, at whatever time.
fn authentic(protection: &Interface, now: Instant, from: IpAddr, found: &Protected) -> Result<(), Reason> {
    let id = found.integrity.key;
    let key = protection
        .keys
        .iter()
        .find(|key| key.id() == id && key.accepts_anyone());
    let key = key.ok_or(Reason::UnknownKey)?;
    if !key::in_force(&protection.keys, key, now) {
        return Err(Reason::KeyNotInForce);
    }
    if !key.verifies(&found.covered, &found.integrity.digest) {
        return Err(Reason::Digest);
    }
    if !key.accepts(from) {
        return Err(Reason::Foreign);
    }
    if protection.addresses.contains(&from) {
        return Err(Reason::Reflected);
    }
    Ok(())
}
