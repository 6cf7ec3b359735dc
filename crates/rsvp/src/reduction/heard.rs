//! What a neighbour has named: its messages, to be heard again when it names them.

use super::topic::{Topic, ends, topic};
use super::{lifetime, period};
use crate::wire::{Frame, MessageId};
use core::net::{IpAddr, Ipv4Addr};
use engine::units::Instant;
use std::collections::{BTreeMap, VecDeque};

/// What becomes of a message.
#[derive(PartialEq, Eq)]
pub(super) enum Judged {
    /// It is for the node.
    Pass,
    /// The node has heard it, or something newer.
    Old,
}

struct Kept {
    topic: Topic,
    frame: Frame,
    ttl: u8,
    expires: Instant,
}

/// The names of one neighbour.
#[derive(Default)]
pub(super) struct Heard {
    epoch: u32,
    kept: BTreeMap<u32, Kept>,
    current: BTreeMap<Topic, u32>,
    /// The last names of messages that are not refreshed.
    passed: VecDeque<u32>,
}

/// A neighbour's messages are its own; the address in a topic only tells our neighbours apart.
const US: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

const PASSED: usize = 64;

/// Whether a name was given before another: names go round.
const fn before(id: u32, other: u32) -> bool {
    other.wrapping_sub(id).wrapping_sub(1) < u32::MAX / 2
}

impl Heard {
    /// A message came whole, with or without a name.
    pub fn judge(
        &mut self,
        now: Instant,
        id: Option<MessageId>,
        frame: &Frame,
        ttl: u8,
        most: usize,
    ) -> Judged {
        if let Some(id) = id.filter(|id| id.epoch != self.epoch) {
            *self = Self {
                epoch: id.epoch,
                ..Self::default()
            };
        }
        if let Some(topic) = topic(&frame.message, US) {
            self.state(now, topic, id, frame, ttl, most)
        } else if let Some(id) = id {
            if self.passed.contains(&id.id) {
                return Judged::Old;
            }
            self.passed.push_back(id.id);
            if self.passed.len() > PASSED {
                self.passed.pop_front();
            }
            self.end(Some(id.id), frame)
        } else {
            self.end(None, frame)
        }
    }

    fn state(
        &mut self,
        now: Instant,
        topic: Topic,
        id: Option<MessageId>,
        frame: &Frame,
        ttl: u8,
        most: usize,
    ) -> Judged {
        let known = self.current.get(&topic).copied();
        let Some(MessageId { id, .. }) = id else {
            known.into_iter().for_each(|id| self.forget(id));
            return Judged::Pass;
        };
        if known.is_some_and(|known| before(id, known)) {
            return Judged::Old;
        }
        known.into_iter().for_each(|known| self.forget(known));
        if self.kept.len() >= most {
            self.purge(now);
        }
        if self.kept.len() < most {
            self.current.insert(topic.clone(), id);
            let kept = Kept {
                topic,
                frame: frame.clone(),
                ttl,
                expires: now + lifetime(period(&frame.message)),
            };
            self.kept.insert(id, kept);
        }
        Judged::Pass
    }

    /// An end came: what it ends is not to be heard again. An end that was overtaken by what it does not mean is old.
    fn end(&mut self, id: Option<u32>, frame: &Frame) -> Judged {
        let Some(ended) = ends(&frame.message, US) else {
            return Judged::Pass;
        };
        let covered = self
            .current
            .range(ended.clone()..)
            .take_while(|(topic, _)| ended.covers(topic));
        let covered: Vec<u32> = covered.map(|(_, id)| *id).collect();
        let newer = |known: &u32| id.is_some_and(|id| before(id, *known));
        if !covered.is_empty() && covered.iter().all(newer) {
            return Judged::Old;
        }
        covered.into_iter().for_each(|id| self.forget(id));
        Judged::Pass
    }

    /// The message of a name, refreshed; none of one that is not known.
    pub fn again(&mut self, now: Instant, epoch: u32, id: u32) -> Option<(u8, Frame)> {
        let kept = self.kept.get_mut(&id).filter(|_| epoch == self.epoch)?;
        if kept.expires <= now {
            self.forget(id);
            return None;
        }
        kept.expires = now + lifetime(period(&kept.frame.message));
        Some((kept.ttl, kept.frame.clone()))
    }

    fn forget(&mut self, id: u32) {
        if let Some(kept) = self.kept.remove(&id) {
            self.current.remove(&kept.topic);
        }
    }

    fn purge(&mut self, now: Instant) {
        let ended = self.kept.iter().filter(|(_, kept)| kept.expires <= now);
        let ended: Vec<u32> = ended.map(|(id, _)| *id).collect();
        ended.into_iter().for_each(|id| self.forget(id));
    }
}
