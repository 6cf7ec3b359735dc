//! The shim between the node and its sockets: integrity (RFC 2747), and above it refresh reduction
//! (RFC 2961).
//!
//! A received message passes the integrity shim, is decoded, and passes the refresh-reduction shim;
//! a sent message passes them in the opposite order. Key lifetimes count from 1970, by the clock as
//! it was at the start; setting the clock later does not move them.

use super::interfaces::{SignallingInterface, as_refresh};
use super::key_file::KeyFile;
use control::reservation::{DroppedView, KeysView, RefreshReductionView};
use control::rsvp_config::RsvpSettings;
use engine::random::Seed;
use engine::units::{Duration, Instant};
use netio::signalling::Arrival;
use rsvp::integrity::{self, DropCount, DropSource, IntegrityFailure, IntegrityShim, IntegrityVerdict};
use rsvp::node::Transmit;
use rsvp::places::Places;
use rsvp::reduction::{self, ReductionCounts, ReductionShim};
use rsvp::traffic_control::InterfaceId;
use rsvp::wire::{DecodeError, Frame, Message};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The replay window: how many later messages of its neighbour may overtake a message.
const WINDOW: usize = 64;
/// The maximum number of stored pairs of neighbour and key.
const MAX_NEIGHBOURS: usize = 10_000;
/// How often the key file is checked for changes.
const KEY_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The minimum time between two resynchronisations on an interface, unless R / 10 is shorter: any
/// host on the link can trigger one.
const RESYNCHRONISE_INTERVAL: Duration = Duration::from_secs(1);

/// A received message.
#[derive(Debug)]
pub enum Received {
    /// For the node, with its IP TTL.
    Message(u8, Box<Frame>),
    /// Cannot be decoded as a whole, and is to be answered with an error message; with its IP TTL.
    Wrong(u8, Vec<u8>),
    /// Not an RSVP message.
    Malformed,
}

/// When an interface was last resynchronised, and whether it must be again.
#[derive(Clone, Copy, Default)]
struct Resynchronisation {
    last: Option<Instant>,
    wanted: bool,
}

/// The shim of one node.
pub struct Shim {
    integrity: IntegrityShim,
    keys: Option<KeyFile>,
    next_key_check: Instant,
    /// Interfaces without a key, in a node that has keys.
    unprotected: BTreeSet<InterfaceId>,
    reduction: Option<ReductionShim>,
    /// Messages to send when refresh reduction is off.
    plain: VecDeque<Transmit>,
    /// The offset from our clock to the time since 1970.
    since_1970: Duration,
    resynchronisations: BTreeMap<InterfaceId, Resynchronisation>,
    resynchronise_interval: Duration,
}

impl Shim {
    /// Without keys no message carries INTEGRITY; without reduction none carries a MESSAGE_ID.
    /// The clocks were read together: the node's, and the computer's, in milliseconds since 1970.
    pub fn new(
        (now, unix_ms): (Instant, u64),
        keys: Option<KeyFile>,
        settings: &RsvpSettings,
        seed: Seed,
    ) -> Self {
        let since = unix_ms.saturating_mul(1_000_000);
        let integrity = IntegrityShim::new(integrity::Settings {
            sequence: since,
            window: WINDOW,
            answer_challenges: true,
            send_challenges: true,
            max_neighbours: MAX_NEIGHBOURS,
            seed: seed.fork("challenges"),
        });
        let epoch = seed.fork("epoch").0 as u32;
        let reduction = settings.refresh_reduction.then(|| {
            ReductionShim::new(reduction::Settings {
                max_stored: Places::of(settings.most_senders as usize),
                longest_refresh: as_refresh(settings.longest_accepted()),
                ..reduction::Settings::new(Vec::new(), epoch)
            })
        });
        Self {
            integrity,
            keys,
            next_key_check: now + KEY_CHECK_INTERVAL,
            unprotected: BTreeSet::new(),
            reduction,
            plain: VecDeque::new(),
            since_1970: Instant::from_nanos(since).since(now),
            resynchronisations: BTreeMap::new(),
            resynchronise_interval: RESYNCHRONISE_INTERVAL
                .min(Duration::from_nanos(settings.refresh.nanos() / 10)),
        }
    }

    /// Sets the interfaces, by their identifiers. Returns messages for the log: an interface
    /// without a key is reported once.
    pub fn set_interfaces(&mut self, interfaces: &[SignallingInterface]) -> Vec<String> {
        let mut messages = Vec::new();
        for (id, interface) in (0..).zip(interfaces) {
            if let Some(reduction) = &mut self.reduction {
                reduction.set_interface(id, interface.addresses.clone());
            }
            let protection = self
                .keys
                .as_ref()
                .and_then(|keys| keys.interface(&interface.name, &interface.addresses));
            match protection {
                Some(protection) => {
                    self.integrity.set_interface(id, protection);
                    self.unprotected.remove(&id);
                }
                None => {
                    self.integrity.clear_interface(id);
                    if self.keys.is_some() && self.unprotected.insert(id) {
                        messages.push(format!(
                            "{}: messages are not authenticated: no key is configured for it",
                            interface.name
                        ));
                    }
                }
            }
        }
        messages
    }

    /// Reloads the key file now and then, if it has changed. Returns messages for the log.
    pub fn reload_keys(&mut self, now: Instant, interfaces: &[SignallingInterface]) -> Vec<String> {
        if now < self.next_key_check {
            return Vec::new();
        }
        self.next_key_check = now + KEY_CHECK_INTERVAL;
        match self.keys.as_mut().map_or(Ok(false), KeyFile::reload) {
            Ok(false) => Vec::new(),
            Ok(true) => {
                let mut messages = self.set_interfaces(interfaces);
                messages.push("the new keys are in use".into());
                messages
            }
            Err(why) => vec![format!("the old keys stay in use: {why}")],
        }
    }

    /// Routes have changed: the next hops of Paths are unknown.
    pub fn routes_changed(&mut self) {
        if let Some(reduction) = &mut self.reduction {
            reduction.routes_changed();
        }
    }

    /// Processes a message that arrived on an interface. Bundles are split.
    pub fn receive(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        arrival: &Arrival,
        bytes: &[u8],
    ) -> Vec<Received> {
        let mut received = Vec::new();
        match self
            .integrity
            .incoming(now + self.since_1970, interface, arrival.source, bytes)
        {
            IntegrityVerdict::Pass => self.decode(now, interface, arrival, bytes, &mut received),
            IntegrityVerdict::Consumed => {}
            IntegrityVerdict::Drop(IntegrityFailure::Malformed) => received.push(Received::Malformed),
            IntegrityVerdict::Drop(_) => {}
        }
        while let Some(challenged) = self.integrity.poll_challenged() {
            self.resynchronisations.entry(challenged).or_default().wanted = true;
        }
        received
    }

    fn decode(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        arrival: &Arrival,
        bytes: &[u8],
        received: &mut Vec<Received>,
    ) {
        match Frame::decode(bytes) {
            Ok(Frame {
                message: Message::Bundle(messages),
                ..
            }) => {
                // Ends, because a bundle does not nest.
                for message in messages {
                    self.decode(now, interface, arrival, &message, received);
                }
            }
            Ok(frame) => match &mut self.reduction {
                Some(reduction) => {
                    let frames = reduction.incoming(now, interface, arrival.source, arrival.ttl, frame);
                    received.extend(
                        frames
                            .into_iter()
                            .map(|(ttl, frame)| Received::Message(ttl, Box::new(frame))),
                    );
                }
                None => received.push(Received::Message(arrival.ttl, Box::new(frame))),
            },
            Err(DecodeError::Reportable(..) | DecodeError::Unreadable(_)) => {
                received.push(Received::Wrong(arrival.ttl, bytes.to_vec()));
            }
            Err(DecodeError::Malformed(_)) => received.push(Received::Malformed),
        }
    }

    /// Interfaces on which all state has to be refreshed now, for a neighbour that could not accept
    /// it before.
    pub fn resynchronise(&mut self, now: Instant) -> Vec<InterfaceId> {
        let mut interfaces = Vec::new();
        for (interface, again) in &mut self.resynchronisations {
            let soon = |last: &Instant| now < *last + self.resynchronise_interval;
            if again.wanted && !again.last.as_ref().is_some_and(soon) {
                *again = Resynchronisation {
                    last: Some(now),
                    wanted: false,
                };
                interfaces.push(*interface);
                if let Some(reduction) = &mut self.reduction {
                    reduction.resynchronise(*interface);
                }
            }
        }
        interfaces
    }

    /// Accepts a message of the node for sending.
    pub fn send(&mut self, now: Instant, transmit: Transmit) {
        match &mut self.reduction {
            Some(reduction) => reduction.outgoing(now, transmit),
            None => self.plain.push_back(transmit),
        }
    }

    /// Sends due summaries and acknowledgements, and retransmits what was not acknowledged.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some(reduction) = &mut self.reduction {
            reduction.handle_timeout(now);
        }
    }

    /// When to call [`Shim::handle_timeout`] or [`Shim::resynchronise`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        let reduction = self.reduction.as_ref().and_then(ReductionShim::poll_timeout);
        let again = self.resynchronisations.values().filter(|again| again.wanted);
        let again = again.filter_map(|again| Some(again.last? + self.resynchronise_interval));
        again.chain(reduction).min()
    }

    /// The next message for a socket.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if let Some(own) = self.integrity.poll_transmit() {
            return Some(own);
        }
        loop {
            let reduced = self.reduction.as_mut().and_then(ReductionShim::poll_transmit);
            let mut transmit = reduced.or_else(|| self.plain.pop_front())?;
            let bytes = std::mem::take(&mut transmit.bytes);
            let protected = self
                .integrity
                .outgoing(now + self.since_1970, transmit.interface, bytes);
            // A message without room for INTEGRITY is not sent: no neighbour would accept it.
            if let Ok(bytes) = protected {
                transmit.bytes = bytes;
                return Some(transmit);
            }
        }
    }

    /// The next new source of dropped messages, for the operator. New neighbours that are being
    /// challenged do not count.
    pub fn poll_drop_source(&mut self) -> Option<DropSource> {
        loop {
            let source = self.integrity.poll_drop_source()?;
            if source.failure != IntegrityFailure::Unsynchronised {
                return Some(source);
            }
        }
    }

    /// How the messages of each interface are authenticated.
    pub fn protection(&self, now: Instant, interfaces: &[SignallingInterface]) -> Vec<Option<KeysView>> {
        let stale: BTreeSet<InterfaceId> = self.integrity.expired_keys(now + self.since_1970).collect();
        let one = |(id, interface): (InterfaceId, &SignallingInterface)| {
            let keys = self.keys.as_ref()?;
            keys.interface(&interface.name, &[]).map(|_| KeysView {
                required: keys.is_required(),
                stale: stale.contains(&id),
            })
        };
        (0..).zip(interfaces).map(one).collect()
    }

    /// The sources of dropped messages, the latest last.
    pub fn dropped(&self, now: Instant, name: impl Fn(InterfaceId) -> String) -> Vec<DroppedView> {
        let now = now + self.since_1970;
        let mut all: Vec<_> = self.integrity.drop_sources().iter().collect();
        all.sort_by_key(|(_, dropped)| dropped.last);
        let one = |(source, dropped): (&DropSource, &DropCount)| {
            let (word, message) = super::reasons::dropped(source.failure);
            DroppedView {
                interface: name(source.interface),
                from: source.neighbour,
                reason: word.into(),
                message: message.into(),
                count: dropped.count,
                seconds_ago: now.since(dropped.last).as_secs_f64(),
            }
        };
        all.into_iter().map(one).collect()
    }

    /// The statistics of refresh reduction; zero if it is off.
    pub fn reduction_counts(&self) -> ReductionCounts {
        let reduction = self.reduction.as_ref();
        reduction.map_or(ReductionCounts::default(), ReductionShim::counts)
    }

    /// The statistics of refresh reduction for clients; none if it is off.
    pub fn reduction_view(&self) -> Option<RefreshReductionView> {
        let counts = self.reduction.as_ref()?.counts();
        Some(RefreshReductionView {
            summarised: counts.summarised,
            retransmitted: counts.retransmitted,
            given_up: counts.given_up,
            unknown_ids: counts.unknown_ids,
        })
    }
}
