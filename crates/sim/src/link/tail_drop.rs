//! A tail-drop buffer in bytes, in front of a wire or of a medium that hosts share.

use engine::units::{Bytes, Instant};
use std::collections::VecDeque;

/// A tail-drop buffer of bytes, computed.
#[derive(Debug)]
pub(super) struct TailDrop {
    limit: u64,
    backlog: u64,
    /// The start and length of each queued packet.
    queued: VecDeque<(Instant, u64)>,
}

impl TailDrop {
    pub(super) fn new(limit: Bytes) -> Self {
        Self {
            limit: limit.get(),
            backlog: 0,
            queued: VecDeque::new(),
        }
    }

    /// Empties it; returns how many packets had not started.
    pub(super) fn empty(&mut self, now: Instant) -> usize {
        self.backlog = 0;
        let waiting = self.queued.drain(..).filter(|(start, _)| *start > now);
        waiting.count()
    }

    /// When a packet starts that arrives now and waits for its medium: that is not known yet. A
    /// packet always fits into an empty device. `None`: it is dropped.
    pub(super) fn holds(&mut self, now: Instant, len: Bytes, empty: bool) -> Option<Instant> {
        if !empty && self.backlog.saturating_add(len.get()) > self.limit {
            return None;
        }
        self.backlog += len.get();
        Some(now)
    }

    /// A packet is sent on the medium.
    pub(super) fn gives(&mut self, len: Bytes) {
        self.backlog = self.backlog.saturating_sub(len.get());
    }

    /// When a packet that arrives now starts on a wire that is free at `free`; `None`: it is
    /// dropped.
    pub(super) fn start(&mut self, now: Instant, len: Bytes, free: Instant) -> Option<Instant> {
        if free <= now {
            self.backlog = 0;
            self.queued.clear();
            return Some(now);
        }
        while let Some(&(start, len)) = self.queued.front()
            && start <= now
        {
            self.backlog -= len;
            self.queued.pop_front();
        }
        if self.backlog + len.get() > self.limit {
            return None;
        }
        self.backlog += len.get();
        self.queued.push_back((free, len.get()));
        Some(free)
    }
}
