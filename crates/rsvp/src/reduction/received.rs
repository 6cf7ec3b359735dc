//! The messages of one neighbour by MESSAGE_ID, to be processed again when a summary refresh lists
//! them.

use super::state_key::{StateKey, state_key, torn_state};
use super::{lifetime, period};
use crate::wire::{Frame, MessageId};
use core::net::{IpAddr, Ipv4Addr};
use engine::units::Instant;
use std::collections::{BTreeMap, VecDeque};

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
    expires: Instant,
}

/// The messages of one neighbour.
#[derive(Default)]
pub(super) struct ReceivedMessages {
    epoch: u32,
    stored: BTreeMap<u32, StoredMessage>,
    current: BTreeMap<StateKey, u32>,
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

impl ReceivedMessages {
    /// Judges a message that arrived whole, with or without a MESSAGE_ID, and stores it.
    pub fn judge(
        &mut self,
        now: Instant,
        id: Option<MessageId>,
        frame: &Frame,
        ttl: u8,
        max_stored: usize,
    ) -> Freshness {
        if let Some(id) = id.filter(|id| id.epoch != self.epoch) {
            *self = Self {
                epoch: id.epoch,
                ..Self::default()
            };
        }
        if let Some(key) = state_key(&frame.message, US) {
            self.judge_state(now, key, id, frame, ttl, max_stored)
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
        id: Option<MessageId>,
        frame: &Frame,
        ttl: u8,
        max_stored: usize,
    ) -> Freshness {
        let known = self.current.get(&key).copied();
        let Some(MessageId { id, .. }) = id else {
            known.into_iter().for_each(|id| self.forget(id));
            return Freshness::New;
        };
        if known.is_some_and(|known| is_older(id, known)) {
            return Freshness::Stale;
        }
        known.into_iter().for_each(|known| self.forget(known));
        if self.stored.len() >= max_stored {
            self.purge(now);
        }
        if self.stored.len() < max_stored {
            self.current.insert(key.clone(), id);
            let message = StoredMessage {
                key,
                frame: frame.clone(),
                ttl,
                expires: now + lifetime(period(&frame.message)),
            };
            self.stored.insert(id, message);
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
        stored.expires = now + lifetime(period(&stored.frame.message));
        Some((stored.ttl, stored.frame.clone()))
    }

    fn forget(&mut self, id: u32) {
        if let Some(stored) = self.stored.remove(&id) {
            self.current.remove(&stored.key);
        }
    }

    fn purge(&mut self, now: Instant) {
        let expired = self.stored.iter().filter(|(_, stored)| stored.expires <= now);
        let expired: Vec<u32> = expired.map(|(id, _)| *id).collect();
        expired.into_iter().for_each(|id| self.forget(id));
    }
}
