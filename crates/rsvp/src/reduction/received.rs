//! The messages of one neighbour by MESSAGE_ID, to be processed again when a summary refresh lists
//! them.

use super::state_key::{StateKey, state_key, torn_state};
use crate::places::places_of;
use crate::wire::{Descriptors, Frame, Message, MessageId};
use core::net::{IpAddr, Ipv4Addr};
use engine::units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Whether a message is to be processed.
#[derive(PartialEq, Eq)]
pub(super) enum Freshness {
    /// It is new: for the node.
    New,
    /// The node has processed it, or a later one.
    Stale,
}

struct StoredMessage {
    key: StateKey,
    frame: Frame,
    ttl: u8,
    places: usize,
    lifetime: Duration,
    expires: Instant,
    /// The time of its entry in the timer queue.
    armed: Instant,
}

/// The places that a stored message takes.
fn places(frame: &Frame) -> usize {
    /// A flowspec and a filter spec, decoded.
    const DESCRIPTOR: usize = 96;
    let (policy, listed): (&[_], usize) = match &frame.message {
        Message::Path(path) => (&path.policy, 0),
        Message::Resv(resv) => match &resv.descriptors {
            Descriptors::Fixed(list) => (&resv.policy, list.len()),
            Descriptors::SharedExplicit(_, list) => (&resv.policy, list.len()),
            Descriptors::Wildcard(_) | Descriptors::Unknown(..) => (&resv.policy, 0),
        },
        _ => (&[], 0),
    };
    places_of(&[policy, &frame.forwarded], listed * DESCRIPTOR)
}

/// The messages of one neighbour.
#[derive(Default)]
pub(super) struct ReceivedMessages {
    epoch: u32,
    // Boxed, since the smallest node of a B-tree has room for eleven.
    stored: BTreeMap<u32, Box<StoredMessage>>,
    current: BTreeMap<StateKey, u32>,
    /// When each ends, or before.
    timers: BTreeSet<(Instant, u32)>,
    places: usize,
    /// The last MESSAGE_IDs of messages that install no state.
    passed: VecDeque<u32>,
}

/// The address in a [`StateKey`] tells our neighbours apart; here there is only one.
const US: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

const PASSED: usize = 64;

/// Whether a MESSAGE_ID is older than another, in serial number arithmetic.
const fn is_older(id: u32, other: u32) -> bool {
    other.wrapping_sub(id).wrapping_sub(1) < u32::MAX / 2
}

/// A message that arrived whole, with or without a MESSAGE_ID.
#[derive(Clone, Copy)]
pub(super) struct WholeMessage<'a> {
    pub id: Option<MessageId>,
    pub frame: &'a Frame,
    pub ttl: u8,
    /// The lifetime of the state that it installs.
    pub lifetime: Duration,
}

impl ReceivedMessages {
    /// The places that the stored messages take.
    pub fn places(&self) -> usize {
        self.places
    }

    /// When the first stored message ends; sometimes a little early.
    pub fn due(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Forgets messages whose lifetime has ended.
    pub fn forget_expired(&mut self, now: Instant) {
        while let Some((_, id)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.pop_first();
            match self.stored.get_mut(&id) {
                Some(stored) if stored.expires > now => {
                    stored.armed = stored.expires;
                    self.timers.insert((stored.armed, id));
                }
                _ => self.forget(id),
            }
        }
    }

    /// Judges a message that arrived whole, and stores it if it fits `left` more places.
    pub fn judge(&mut self, now: Instant, message: WholeMessage<'_>, left: usize) -> Freshness {
        let WholeMessage { id, frame, .. } = message;
        let budget = self.places + left;
        if let Some(id) = id.filter(|id| id.epoch != self.epoch) {
            *self = Self {
                epoch: id.epoch,
                ..Self::default()
            };
        }
        if let Some(key) = state_key(&frame.message, US) {
            self.judge_state(now, key, message, budget)
        } else if let Some(id) = id {
            if self.passed.contains(&id.id) {
                return Freshness::Stale;
            }
            self.passed.push_back(id.id);
            if self.passed.len() > PASSED {
                self.passed.pop_front();
            }
            self.judge_tear(Some(id.id), frame)
        } else {
            self.judge_tear(None, frame)
        }
    }

    fn judge_state(
        &mut self,
        now: Instant,
        key: StateKey,
        message: WholeMessage<'_>,
        budget: usize,
    ) -> Freshness {
        let known = self.current.get(&key).copied();
        let Some(MessageId { id, .. }) = message.id else {
            known.into_iter().for_each(|id| self.forget(id));
            return Freshness::New;
        };
        if known.is_some_and(|known| is_older(id, known)) {
            return Freshness::Stale;
        }
        known.into_iter().for_each(|known| self.forget(known));
        // One neighbour uses an identifier for one message.
        self.forget(id);
        let places = places(message.frame);
        if self.places + places <= budget {
            let expires = now + message.lifetime;
            self.current.insert(key.clone(), id);
            self.timers.insert((expires, id));
            self.places += places;
            let stored = StoredMessage {
                key,
                frame: message.frame.clone(),
                ttl: message.ttl,
                places,
                lifetime: message.lifetime,
                expires,
                armed: expires,
            };
            self.stored.insert(id, Box::new(stored));
        }
        Freshness::New
    }

    /// A tear ends the state that it covers, unless newer messages have overtaken it.
    fn judge_tear(&mut self, id: Option<u32>, frame: &Frame) -> Freshness {
        let Some(torn) = torn_state(&frame.message, US) else {
            return Freshness::New;
        };
        let covered = self
            .current
            .range(torn.clone()..)
            .take_while(|(key, _)| torn.covers(key));
        let covered: Vec<u32> = covered.map(|(_, id)| *id).collect();
        let newer = |known: &u32| id.is_some_and(|id| is_older(id, *known));
        if !covered.is_empty() && covered.iter().all(newer) {
            return Freshness::Stale;
        }
        covered.into_iter().for_each(|id| self.forget(id));
        Freshness::New
    }

    /// The message with this MESSAGE_ID, refreshed; none if it is not stored.
    pub fn refresh(&mut self, now: Instant, epoch: u32, id: u32) -> Option<(u8, Frame)> {
        let stored = self.stored.get_mut(&id).filter(|_| epoch == self.epoch)?;
        if stored.expires <= now {
            self.forget(id);
            return None;
        }
        stored.expires = now + stored.lifetime;
        Some((stored.ttl, stored.frame.clone()))
    }

    fn forget(&mut self, id: u32) {
        if let Some(stored) = self.stored.remove(&id) {
            self.current.remove(&stored.key);
            self.timers.remove(&(stored.armed, id));
            self.places -= stored.places;
        }
    }
}
