//! A stretch of the ring: a tree as it was built, and the tape since.
//!
//! A stretch whose queue is never empty can forget nothing: what its disciplines have become, they
//! have become by all of it. But its older part can do without headers: that is
//! [shortened](netio::replay::shortened) to about a tenth, chunk by chunk, when the ring is full.

use control::policy::InterfacePolicy;
use control::recorded::{RecordedChange, RecordedPolicy, Stretch};
use engine::random::Seed;
use netio::replay::shortened::{SHORTENER, Shortener};
use netio::replay::tape::CHUNK;
use std::collections::VecDeque;
use std::sync::Arc;

/// Part of a recording that can be done again by itself.
pub(super) struct RingStretch {
    policy: Arc<InterfacePolicy>,
    seed: Seed,
    /// The number of the first change in it.
    pub(super) first_change: u64,
    /// Its older part in short form.
    short: Vec<Arc<Vec<u8>>>,
    shortener: Option<Shortener>,
    chunks: VecDeque<Arc<Vec<u8>>>,
    /// Bytes of memory.
    held: usize,
    /// Of these, of what has headers.
    whole: usize,
}

impl RingStretch {
    /// One that begins with this tree. Its plan, and those of its changes, count as a chunk.
    pub(super) fn new(policy: Arc<InterfacePolicy>, seed: Seed, first_change: u64) -> Self {
        Self {
            policy,
            seed,
            first_change,
            short: Vec::new(),
            shortener: None,
            chunks: VecDeque::new(),
            held: CHUNK,
            whole: 0,
        }
    }

    /// Bytes of memory.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Bytes of these that have headers.
    pub(super) fn whole(&self) -> usize {
        self.whole
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Adds a chunk.
    pub(super) fn push(&mut self, chunk: Vec<u8>) {
        self.held += chunk.capacity();
        self.whole += chunk.capacity();
        self.chunks.push_back(Arc::new(chunk));
    }

    /// Shortens its oldest chunk with headers, which is returned.
    pub(super) fn shorten(&mut self) -> Option<Arc<Vec<u8>>> {
        let chunk = self.chunks.pop_front()?;
        self.held -= chunk.capacity();
        self.whole -= chunk.capacity();
        let shortener = self.shortener.get_or_insert_with(|| {
            self.held += SHORTENER;
            Shortener::default()
        });
        let mut short = Vec::new();
        // It was written by this program, and is whole.
        let _ = shortener.shorten(&chunk, &mut short);
        let mut rest = &short[..];
        while !rest.is_empty() {
            let room = self.short.last().map_or(0, |last| CHUNK - last.len());
            let (now, later) = rest.split_at(rest.len().min(room));
            // One that is being written into a file is copied.
            self.short
                .iter_mut()
                .next_back()
                .into_iter()
                .for_each(|last| Arc::make_mut(last).extend_from_slice(now));
            rest = later;
            if !rest.is_empty() {
                self.held += CHUNK;
                self.short.push(Arc::new(Vec::with_capacity(CHUNK)));
            }
        }
        Some(chunk)
    }

    /// What a file says of it, with these changes.
    pub(super) fn form(&self, changes: Vec<RecordedChange>) -> Stretch {
        let sum = |bytes: u64, chunk: &Arc<Vec<u8>>| bytes + chunk.len() as u64;
        Stretch {
            short_bytes: self.short.iter().fold(0, sum),
            tape_bytes: self.chunks.iter().fold(0, sum),
            seed: self.seed.0,
            policy: RecordedPolicy::from(&*self.policy),
            changes,
        }
    }

    /// Its tape: first the older part in short form.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Arc<Vec<u8>>> {
        self.short.iter().chain(&self.chunks)
    }

    /// Its chunks, if no file has them.
    pub(super) fn into_chunks(self) -> impl Iterator<Item = Vec<u8>> {
        self.chunks
            .into_iter()
            .filter_map(|chunk| Arc::try_unwrap(chunk).ok())
    }
}
