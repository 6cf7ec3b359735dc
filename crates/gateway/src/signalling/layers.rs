//! What stands between the node and its sockets: keys (RFC 2747), and above them names of messages (RFC 2961).
//!
//! What comes in passes the guard, is read, and passes the names; what goes out passes them in the other order. Times of
//! keys are counted from 1970, by the clock as it was when this began; a clock that is set later does not move them.

use super::links::Link;
use super::protection::KeyFile;
use control::reservation::{DroppedView, Keys, Names};
use engine::random::Seed;
use engine::units::{Duration, Instant};
use netio::signalling::Arrival;
use rsvp::integrity::{self, DropCount, DropSource, IntegrityFailure, IntegrityShim, IntegrityVerdict};
use rsvp::node::Transmit;
use rsvp::reduction::{self, ReductionShim};
use rsvp::traffic_control::InterfaceId;
use rsvp::wire::{DecodeError, ErrorCode, Frame, Message};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{SystemTime, UNIX_EPOCH};

/// How far a message may be overtaken by others of the same neighbour.
const WINDOW: usize = 64;
/// Neighbours, with their keys, that are remembered at most.
const MOST_NEIGHBOURS: usize = 10_000;
/// How often the file of keys is looked at.
const LOOK_AT_KEYS: Duration = Duration::from_secs(5);
/// All is said again by an interface no more often than this, or ten times in R: whoever is on a link can ask for it.
const SAY_AGAIN: Duration = Duration::from_secs(1);

/// What is in a message that came.
#[derive(Debug)]
pub enum Heard {
    /// A message for the node, with its TTL.
    Message(u8, Frame),
    /// One that is to be answered with an error.
    Objected(ErrorCode, Frame),
    /// It is no message.
    Malformed,
}

/// When all was said again by an interface, and whether it is to be.
#[derive(Clone, Copy, Default)]
struct Again {
    last: Option<Instant>,
    wanted: bool,
}

/// The layers of one node.
pub struct Layers {
    guard: IntegrityShim,
    keys: Option<KeyFile>,
    look_at_keys: Instant,
    /// Interfaces without a key, where there are keys.
    bare: BTreeSet<InterfaceId>,
    reduction: Option<ReductionShim>,
    /// What waits to be sent, past the names of messages.
    plain: VecDeque<Transmit>,
    /// What the clock lacks of the time since 1970.
    since_1970: Duration,
    again: BTreeMap<InterfaceId, Again>,
    say_again: Duration,
}

impl Layers {
    /// Without keys nothing is protected; without reduction no message is named.
    pub fn new(now: Instant, keys: Option<KeyFile>, reduction: bool, refresh: Duration, seed: Seed) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let guard = IntegrityShim::new(integrity::Settings {
            sequence: since,
            window: WINDOW,
            answer_challenges: true,
            send_challenges: true,
            max_neighbours: MOST_NEIGHBOURS,
            seed: seed.fork("challenges"),
        });
        let epoch = seed.fork("epoch").0 as u32;
        Self {
            guard,
            keys,
            look_at_keys: now + LOOK_AT_KEYS,
            bare: BTreeSet::new(),
            reduction: reduction.then(|| ReductionShim::new(reduction::Settings::new(Vec::new(), epoch))),
            plain: VecDeque::new(),
            since_1970: Instant::from_nanos(since).since(now),
            again: BTreeMap::new(),
            say_again: SAY_AGAIN.min(Duration::from_nanos(refresh.nanos() / 10)),
        }
    }

    /// The interfaces as they are now, by their numbers. Where there are keys and none is for an interface, that is told
    /// once.
    pub fn know(&mut self, links: &[Link]) -> Vec<String> {
        let mut news = Vec::new();
        for (id, link) in (0..).zip(links) {
            if let Some(reduction) = &mut self.reduction {
                reduction.set_interface(id, link.addresses.clone());
            }
            let protection = self
                .keys
                .as_ref()
                .and_then(|keys| keys.interface(&link.name, &link.addresses));
            match protection {
                Some(protection) => {
                    self.guard.set_interface(id, protection);
                    self.bare.remove(&id);
                }
                None => {
                    self.guard.clear_interface(id);
                    if self.keys.is_some() && self.bare.insert(id) {
                        news.push(format!(
                            "{}: messages are not protected: no key is for it",
                            link.name
                        ));
                    }
                }
            }
        }
        news
    }

    /// Looks now and then whether there are other keys; what there is to say of it.
    pub fn look_at_keys(&mut self, now: Instant, links: &[Link]) -> Vec<String> {
        if now < self.look_at_keys {
            return Vec::new();
        }
        self.look_at_keys = now + LOOK_AT_KEYS;
        match self.keys.as_mut().map_or(Ok(false), KeyFile::look) {
            Ok(false) => Vec::new(),
            Ok(true) => {
                let mut news = self.know(links);
                news.push("other keys hold from now on".into());
                news
            }
            Err(why) => vec![format!("the keys stay as they were: {why}")],
        }
    }

    /// Routes have changed: who is next on a path is not known.
    pub fn routes_changed(&mut self) {
        if let Some(reduction) = &mut self.reduction {
            reduction.routes_changed();
        }
    }

    /// A message has come by an interface. Bundles are taken apart.
    pub fn hear(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        arrival: &Arrival,
        bytes: &[u8],
    ) -> Vec<Heard> {
        let mut heard = Vec::new();
        match self
            .guard
            .incoming(now + self.since_1970, interface, arrival.source, bytes)
        {
            IntegrityVerdict::Pass => self.read(now, interface, arrival, bytes, &mut heard),
            IntegrityVerdict::Consumed => {}
            IntegrityVerdict::Drop(IntegrityFailure::Malformed) => heard.push(Heard::Malformed),
            IntegrityVerdict::Drop(_) => {}
        }
        while let Some(challenged) = self.guard.poll_challenged() {
            self.again.entry(challenged).or_default().wanted = true;
        }
        heard
    }

    fn read(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        arrival: &Arrival,
        bytes: &[u8],
        heard: &mut Vec<Heard>,
    ) {
        match Frame::decode(bytes) {
            Ok(Frame {
                message: Message::Bundle(messages),
                ..
            }) => {
                // A bundle does not nest, so that this ends.
                for message in messages {
                    self.read(now, interface, arrival, &message, heard);
                }
            }
            Ok(frame) => match &mut self.reduction {
                Some(reduction) => {
                    let frames = reduction.incoming(now, interface, arrival.source, arrival.ttl, frame);
                    heard.extend(frames.into_iter().map(|(ttl, frame)| Heard::Message(ttl, frame)));
                }
                None => heard.push(Heard::Message(arrival.ttl, frame)),
            },
            Err(DecodeError::Reportable(objection, frame)) => heard.push(Heard::Objected(objection, *frame)),
            Err(DecodeError::Malformed(_)) => heard.push(Heard::Malformed),
        }
    }

    /// Interfaces by which all is to be said again now, to a neighbour that could not believe it before.
    pub fn say_again(&mut self, now: Instant) -> Vec<InterfaceId> {
        let mut interfaces = Vec::new();
        for (interface, again) in &mut self.again {
            let soon = |last: &Instant| now < *last + self.say_again;
            if again.wanted && !again.last.as_ref().is_some_and(soon) {
                *again = Again {
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

    /// A message that is to be sent.
    pub fn say(&mut self, now: Instant, transmit: Transmit) {
        match &mut self.reduction {
            Some(reduction) => reduction.outgoing(now, transmit),
            None => self.plain.push_back(transmit),
        }
    }

    /// Sends what has waited, and again what was not acknowledged.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some(reduction) = &mut self.reduction {
            reduction.handle_timeout(now);
        }
    }

    /// When there is something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let names = self.reduction.as_ref().and_then(ReductionShim::poll_timeout);
        let again = self.again.values().filter(|again| again.wanted);
        let again = again.filter_map(|again| Some(again.last? + self.say_again));
        again.chain(names).min()
    }

    /// The next message for a socket, protected.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if let Some(own) = self.guard.poll_transmit() {
            return Some(own);
        }
        loop {
            let named = self.reduction.as_mut().and_then(ReductionShim::poll_transmit);
            let mut transmit = named.or_else(|| self.plain.pop_front())?;
            let bytes = std::mem::take(&mut transmit.bytes);
            let protected = self
                .guard
                .outgoing(now + self.since_1970, transmit.interface, bytes);
            // One of 64 KiB that has no room for a digest does not go: nobody would believe it.
            if let Ok(bytes) = protected {
                transmit.bytes = bytes;
                return Some(transmit);
            }
        }
    }

    /// The next kind of message that is dropped from now on, for whoever looks after this node. Neighbours that are new
    /// and are being asked are none.
    pub fn poll_drop_source(&mut self) -> Option<DropSource> {
        loop {
            let source = self.guard.poll_drop_source()?;
            if source.failure != IntegrityFailure::Unsynchronised {
                return Some(source);
            }
        }
    }

    /// How the messages of each interface are protected.
    pub fn protection(&self, now: Instant, links: &[Link]) -> Vec<Option<Keys>> {
        let stale: BTreeSet<InterfaceId> = self.guard.expired_keys(now + self.since_1970).collect();
        let one = |(id, link): (InterfaceId, &Link)| {
            let keys = self.keys.as_ref()?;
            keys.interface(&link.name, &[]).map(|_| Keys {
                required: keys.is_required(),
                stale: stale.contains(&id),
            })
        };
        (0..).zip(links).map(one).collect()
    }

    /// What was dropped, the latest last.
    pub fn dropped(&self, now: Instant, name: impl Fn(InterfaceId) -> String) -> Vec<DroppedView> {
        let now = now + self.since_1970;
        let mut all: Vec<_> = self.guard.drop_sources().iter().collect();
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

    /// What the names of messages have done; none where there are none.
    pub fn names(&self) -> Option<Names> {
        let counts = self.reduction.as_ref()?.counts();
        Some(Names {
            summarised: counts.summarised,
            repeated: counts.retransmitted,
            given_up: counts.given_up,
            unknown: counts.unknown_ids,
        })
    }
}
