//! The integrity shim: authenticates RSVP messages between neighbours, between a node and its
//! sockets.
//!
//! Follows RFC 2747 (INTEGRITY, sequence numbers, challenges) and RFC 3097 (the message types of
//! the challenge). The host passes received messages to [`IntegrityShim::incoming`] first, sends
//! messages through [`IntegrityShim::outgoing`], and transmits what
//! [`IntegrityShim::poll_transmit`] returns. Interfaces without [`IntegrityShim::set_interface`]
//! pass messages unchanged.
//!
//! - The digest is HMAC-SHA-256, or the HMAC-MD5 of RFC 2747 for old neighbours; the key decides.
//! - Each sequence number is accepted once. The host supplies the first one: nanoseconds since 1970
//!   grow across restarts without being stored. The last [`Settings::window`] numbers are
//!   remembered, so that messages may be reordered.
//! - After our restart no neighbour's sequence number is known, and any old message could be
//!   replayed. A neighbour whose handshake flag is set is challenged, and accepted from its
//!   response on. Of any other, the first message is accepted (RFC 2747, section 4.3).
//! - A message that fails is dropped silently, and counted by reason and claimed source.
//! - A neighbour that challenges us has missed our earlier messages:
//!   [`IntegrityShim::poll_challenged`] has the host resynchronise it.
//!
//! Departures: a node whose clock went back is not accepted until it has caught up or uses a new
//! key; starting afresh would allow replays. The last key of an interface stays in use when no
//! other is valid, as the RFC asks (section 5.2); [`IntegrityShim::expired_keys`] lets the host
//! warn.

mod associations;
mod key;
mod replay_window;

pub use key::{Algorithm, BadKey, IntegrityKey, KeyLifetime, KeyOwner};

use crate::node::Transmit;
use crate::traffic_control::InterfaceId;
use crate::wire::protected::{self, Protected};
use crate::wire::{Challenge, Frame, Integrity, Message, TooLong};
use associations::{Association, Associations, SequenceState};
use core::net::IpAddr;
use engine::random::Seed;
use engine::units::{Duration, Instant};
use replay_window::ReplayWindow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The settings of an integrity shim.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The first sequence number; greater than any that this node ever used with its keys.
    pub sequence: u64,
    /// How many sequence numbers of a neighbour are remembered: a message may be overtaken by one
    /// fewer. At least 1, which accepts messages in order only.
    pub window: usize,
    /// Answer challenges, and set the handshake flag.
    pub answer_challenges: bool,
    /// Challenge neighbours with the handshake flag whose sequence number is unknown.
    pub send_challenges: bool,
    /// The most pairs of neighbour and key that are remembered. When there are more, those make
    /// room that can prove themselves again.
    pub max_neighbours: usize,
    /// Different at each start, so that no challenge repeats.
    pub seed: Seed,
}

/// Whether a message must carry INTEGRITY. If it carries one, that must always verify.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requirement {
    /// Messages without it pass: for the time in which neighbours are given keys.
    Optional,
    /// Messages without it are dropped.
    Required,
}

/// The keys of an interface, and which messages need one.
#[derive(Clone, Debug)]
pub struct InterfaceKeys {
    /// The node's addresses on it; the shim sends its own messages from the first of the
    /// neighbour's family.
    pub addresses: Vec<IpAddr>,
    /// Whether messages must carry INTEGRITY.
    pub requirement: Requirement,
    /// Exceptions for single neighbours.
    pub neighbours: BTreeMap<IpAddr, Requirement>,
    /// The keys. Among those that we send with, and among those that we verify with, identifiers
    /// are unique.
    pub keys: Vec<IntegrityKey>,
}

/// Why the shim dropped a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum IntegrityFailure {
    /// It is no RSVP message.
    Malformed,
    /// It carries no INTEGRITY, and must.
    Missing,
    /// The interface has no key of this identifier.
    UnknownKey,
    /// The key is not yet, or no longer, valid.
    KeyNotValid,
    /// The digest is wrong: another secret, or the message was altered.
    Digest,
    /// The key belongs to another neighbour.
    WrongNeighbour,
    /// It claims to come from this node.
    Reflected,
    /// Its sequence number was accepted before, or is too old.
    Replayed,
    /// The neighbour has not answered our challenge yet.
    Unsynchronised,
    /// A response to a challenge that is not ours, or a challenge that we do not answer.
    Challenge,
    /// There are as many neighbours as the settings allow.
    Full,
}

/// A source of dropped messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DropSource {
    /// The interface on which they arrived.
    pub interface: InterfaceId,
    /// The neighbour that they claim to come from.
    pub neighbour: IpAddr,
    /// Why they were dropped.
    pub failure: IntegrityFailure,
}

/// How often messages of a source were dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DropCount {
    /// The number of messages.
    pub count: u64,
    /// When the last of them arrived.
    pub last: Instant,
}

/// The most sources that are remembered: anybody can claim to be anybody.
const MAX_DROP_SOURCES: usize = 64;

/// What to do with a received message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntegrityVerdict {
    /// Pass it to the node.
    Pass,
    /// The shim has consumed it.
    Consumed,
    /// Drop it silently.
    Drop(IntegrityFailure),
}

/// The least time between two challenges to a neighbour.
const CHALLENGE_INTERVAL: Duration = Duration::from_secs(1);

/// The least time between two responses on an interface: anybody can send challenges.
const RESPONSE_INTERVAL: Duration = Duration::from_millis(10);

/// The IP TTL of the shim's own messages.
const TTL: u8 = 64;

/// Authenticates the messages of one node.
pub struct IntegrityShim {
    settings: Settings,
    interfaces: BTreeMap<InterfaceId, InterfaceKeys>,
    sequence: u64,
    challenges_sent: u64,
    associations: Associations,
    /// When the last response left an interface.
    last_response: BTreeMap<InterfaceId, Instant>,
    transmits: VecDeque<Transmit>,
    drop_counts: BTreeMap<IntegrityFailure, u64>,
    drop_sources: BTreeMap<DropSource, DropCount>,
    new_drop_sources: VecDeque<DropSource>,
    challenged_on: BTreeSet<InterfaceId>,
}

impl IntegrityShim {
    /// A shim that passes all messages until [`IntegrityShim::set_interface`].
    pub fn new(settings: Settings) -> Self {
        Self {
            sequence: settings.sequence,
            associations: Associations::new(settings.max_neighbours),
            settings,
            interfaces: BTreeMap::new(),
            challenges_sent: 0,
            last_response: BTreeMap::new(),
            transmits: VecDeque::new(),
            drop_counts: BTreeMap::new(),
            drop_sources: BTreeMap::new(),
            new_drop_sources: VecDeque::new(),
            challenged_on: BTreeSet::new(),
        }
    }

    /// Sets or replaces the keys of an interface. The neighbours' sequence numbers stay, so that
    /// nothing can be replayed after a change of keys.
    pub fn set_interface(&mut self, interface: InterfaceId, keys: InterfaceKeys) {
        self.interfaces.insert(interface, keys);
    }

    /// Ends the protection of an interface.
    pub fn clear_interface(&mut self, interface: InterfaceId) {
        self.interfaces.remove(&interface);
    }

    /// The next sequence number; a host may store it for [`Settings::sequence`] at the next start.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// How many messages were dropped for each reason.
    pub const fn drop_counts(&self) -> &BTreeMap<IntegrityFailure, u64> {
        &self.drop_counts
    }

    /// The sources of dropped messages; beyond 64 the one that was active longest ago is forgotten.
    pub const fn drop_sources(&self) -> &BTreeMap<DropSource, DropCount> {
        &self.drop_sources
    }

    /// The next source that was not known before.
    pub fn poll_drop_source(&mut self) -> Option<DropSource> {
        self.new_drop_sources.pop_front()
    }

    /// The next interface on which a neighbour has challenged us and got our response. It has
    /// dropped our earlier messages; without [`crate::node::Node::resynchronise`] it waits for the
    /// next refresh.
    pub fn poll_challenged(&mut self) -> Option<InterfaceId> {
        self.challenged_on.pop_first()
    }

    /// Interfaces that send with a key whose lifetime has ended, for want of another.
    pub fn expired_keys(&self, now: Instant) -> impl Iterator<Item = InterfaceId> {
        let expired = move |interface: &InterfaceKeys| {
            key::sending(&interface.keys, now).is_some_and(|key| !key.lifetime().sends(now))
        };
        let interfaces = self.interfaces.iter();
        interfaces
            .filter(move |(_, interface)| expired(interface))
            .map(|(id, _)| *id)
    }

    /// The next message of the shim itself; it does not go through [`IntegrityShim::outgoing`].
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// Adds INTEGRITY to a message that leaves through this interface, if the interface has a key.
    ///
    /// # Errors
    ///
    /// If the message has no room for INTEGRITY within 64 KiB.
    pub fn outgoing(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        message: Vec<u8>,
    ) -> Result<Vec<u8>, TooLong> {
        let keys = self.interfaces.get(&interface);
        let Some(key) = keys.and_then(|interface| key::sending(&interface.keys, now)) else {
            return Ok(message);
        };
        let integrity = Integrity {
            handshake: self.settings.answer_challenges,
            key: key.id(),
            sequence: self.sequence,
            digest: vec![0; key.algorithm().length()],
        };
        self.sequence = self.sequence.saturating_add(1);
        protected::protect(&message, &integrity, |covered| key.digest(covered))
    }

    /// Judges a message that arrived on this interface from this IP source.
    pub fn incoming(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        source: IpAddr,
        message: &[u8],
    ) -> IntegrityVerdict {
        if !self.interfaces.contains_key(&interface) {
            return IntegrityVerdict::Pass;
        }
        // RSVP_HOP names the neighbour; the IP source of a Path is the sender of the data.
        let neighbour = protected::hop(message).unwrap_or(source);
        let verdict = self.judge(now, interface, (source, neighbour), message);
        if let IntegrityVerdict::Drop(failure) = verdict {
            *self.drop_counts.entry(failure).or_default() += 1;
            let source = DropSource {
                interface,
                neighbour,
                failure,
            };
            self.count_drop(now, source);
        }
        verdict
    }

    fn count_drop(&mut self, now: Instant, source: DropSource) {
        if let Some(known) = self.drop_sources.get_mut(&source) {
            known.count += 1;
            known.last = now;
            return;
        }
        if self.drop_sources.len() >= MAX_DROP_SOURCES {
            let oldest = self.drop_sources.iter().min_by_key(|(_, drops)| drops.last);
            let oldest = oldest.map(|(source, _)| *source);
            oldest.and_then(|oldest| self.drop_sources.remove(&oldest));
        }
        self.drop_sources
            .insert(source, DropCount { count: 1, last: now });
        if self.new_drop_sources.len() < MAX_DROP_SOURCES {
            self.new_drop_sources.push_back(source);
        }
    }

    fn judge(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        (source, neighbour): (IpAddr, IpAddr),
        message: &[u8],
    ) -> IntegrityVerdict {
        let Some(keys) = self.interfaces.get(&interface) else {
            return IntegrityVerdict::Pass;
        };
        let found = match protected::find(message) {
            Ok(found) => found,
            Err(_) => return IntegrityVerdict::Drop(IntegrityFailure::Malformed),
        };
        let Some(found) = found else {
            if protected::message_type(message) == Some(CHALLENGE) {
                return self.respond(now, interface, source, message);
            }
            let requirement = keys.neighbours.get(&neighbour).unwrap_or(&keys.requirement);
            return match requirement {
                Requirement::Optional => IntegrityVerdict::Pass,
                Requirement::Required => IntegrityVerdict::Drop(IntegrityFailure::Missing),
            };
        };
        if let Err(failure) = authenticate(keys, now, neighbour, &found) {
            return IntegrityVerdict::Drop(failure);
        }
        let from = Association {
            neighbour,
            key: found.integrity.key,
        };
        match protected::message_type(message) {
            Some(CHALLENGE) => self.respond(now, interface, source, message),
            Some(RESPONSE) => self.synchronise(now, interface, from, &found.integrity, message),
            _ => self.check_sequence(now, interface, from, &found.integrity),
        }
    }

    /// Checks the sequence number of an authentic message.
    fn check_sequence(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        from: Association,
        integrity: &Integrity,
    ) -> IntegrityVerdict {
        match self.associations.accept(now, from, integrity.sequence) {
            Some(true) => return IntegrityVerdict::Pass,
            Some(false) => return IntegrityVerdict::Drop(IntegrityFailure::Replayed),
            None => {}
        }
        let unsynchronised = IntegrityVerdict::Drop(IntegrityFailure::Unsynchronised);
        if let Some(SequenceState::Challenged { cookie, at }) = self.associations.get(from) {
            if now >= *at + CHALLENGE_INTERVAL {
                let cookie = cookie.clone();
                self.challenge(now, interface, from, cookie);
            }
            return unsynchronised;
        }
        if !self.associations.make_room(from) {
            return IntegrityVerdict::Drop(IntegrityFailure::Full);
        }
        if integrity.handshake && self.settings.send_challenges {
            let cookie = self.cookie(interface, from);
            self.challenge(now, interface, from, cookie);
            return unsynchronised;
        }
        let state = SequenceState::Synchronised {
            window: ReplayWindow::after(integrity.sequence, self.settings.window),
            handshake: false,
        };
        self.associations.record(now, from, state);
        IntegrityVerdict::Pass
    }

    /// A challenge that nobody can predict and that never repeats: a digest, with the key, of our
    /// seed, our sequence number and a counter.
    fn cookie(&mut self, interface: InterfaceId, from: Association) -> Vec<u8> {
        self.challenges_sent += 1;
        let words = [self.settings.seed.0, self.settings.sequence, self.challenges_sent];
        let mut text = b"challenge".to_vec();
        text.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        let keys = self.interfaces.get(&interface).map(|interface| &interface.keys);
        let key = keys.into_iter().flatten().find(|key| key.id() == from.key);
        key.map_or(text.clone(), |key| key.digest(&text))
    }

    /// Sends a challenge.
    fn challenge(&mut self, now: Instant, interface: InterfaceId, from: Association, cookie: Vec<u8>) {
        let state = SequenceState::Challenged {
            cookie: cookie.clone(),
            at: now,
        };
        self.associations.record(now, from, state);
        let challenge = Challenge {
            key: from.key,
            cookie,
        };
        // Without INTEGRITY: the neighbour may not know our sequence number either.
        self.send(
            interface,
            from.neighbour,
            Message::Challenge(challenge),
            |_, bytes| Ok(bytes),
        );
    }

    /// Responds to a challenge for one of our keys.
    fn respond(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        source: IpAddr,
        message: &[u8],
    ) -> IntegrityVerdict {
        let refused = IntegrityVerdict::Drop(IntegrityFailure::Challenge);
        let Some(challenge) = challenge_in(message) else {
            return IntegrityVerdict::Drop(IntegrityFailure::Malformed);
        };
        let too_soon = |last: &Instant| now < *last + RESPONSE_INTERVAL;
        if !self.settings.answer_challenges || self.last_response.get(&interface).is_some_and(too_soon) {
            return refused;
        }
        let keys = self.interfaces.get(&interface).map(|interface| &interface.keys);
        let ours = |key: &&IntegrityKey| key.id() == challenge.key && key.sends();
        let Some(key) = keys.into_iter().flatten().find(ours).cloned() else {
            return refused;
        };
        self.last_response.insert(interface, now);
        self.challenged_on.insert(interface);
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
        IntegrityVerdict::Consumed
    }

    /// A response to our challenge: the neighbour's sequence starts with it.
    fn synchronise(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        from: Association,
        integrity: &Integrity,
        message: &[u8],
    ) -> IntegrityVerdict {
        match (self.associations.get(from), challenge_in(message)) {
            (Some(SequenceState::Challenged { cookie, .. }), Some(response))
                if response.key == from.key && response.cookie == *cookie =>
            {
                let state = SequenceState::Synchronised {
                    window: ReplayWindow::after(integrity.sequence, self.settings.window),
                    handshake: true,
                };
                self.associations.record(now, from, state);
                self.drop_sources.remove(&DropSource {
                    interface,
                    neighbour: from.neighbour,
                    failure: IntegrityFailure::Unsynchronised,
                });
                IntegrityVerdict::Consumed
            }
            _ => IntegrityVerdict::Drop(IntegrityFailure::Challenge),
        }
    }

    fn send(
        &mut self,
        interface: InterfaceId,
        destination: IpAddr,
        message: Message,
        protect: impl FnOnce(u64, Vec<u8>) -> Result<Vec<u8>, TooLong>,
    ) {
        let Some(keys) = self.interfaces.get(&interface) else {
            return;
        };
        let frame = Frame::plain(TTL, message);
        let alike = |address: &&IpAddr| address.is_ipv4() == destination.is_ipv4();
        let Some(source) = keys.addresses.iter().find(alike).copied() else {
            return;
        };
        let sequence = self.sequence;
        self.sequence = sequence.saturating_add(1);
        // A challenge that is too long to be returned gets no response.
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

/// The message type of an Integrity Challenge.
const CHALLENGE: u8 = 25;
/// The message type of an Integrity Response.
const RESPONSE: u8 = 26;

/// The CHALLENGE object of either message.
fn challenge_in(message: &[u8]) -> Option<Challenge> {
    match Frame::decode(message).ok()?.message {
        Message::Challenge(challenge) | Message::Response(challenge) => Some(challenge),
        _ => None,
    }
}

/// Checks that a neighbour wrote this message, at whatever time.
fn authenticate(
    interface: &InterfaceKeys,
    now: Instant,
    from: IpAddr,
    found: &Protected,
) -> Result<(), IntegrityFailure> {
    let id = found.integrity.key;
    let key = interface
        .keys
        .iter()
        .find(|key| key.id() == id && key.verifies_any());
    let key = key.ok_or(IntegrityFailure::UnknownKey)?;
    if !key::in_force(&interface.keys, key, now) {
        return Err(IntegrityFailure::KeyNotValid);
    }
    if !key.verifies(&found.covered, &found.integrity.digest) {
        return Err(IntegrityFailure::Digest);
    }
    if !key.verifies_from(from) {
        return Err(IntegrityFailure::WrongNeighbour);
    }
    if interface.addresses.contains(&from) {
        return Err(IntegrityFailure::Reflected);
    }
    Ok(())
}
