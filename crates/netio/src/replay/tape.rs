//! The loop's side of a tape: a path appends events to a chunk, and full chunks go to another
//! thread.
//!
//! The loop never waits for that thread. If it is so far behind that [`IN_FLIGHT`] chunks wait for
//! it, the tape tears: nothing is recorded any more, and the reader is told after what was.

use super::event::{Asked, MOST_ASKS, TapeEvent};
use engine::discipline::DetachedQueue;
use engine::packet::Packet;
use engine::queue::Queue;
use engine::units::Instant;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};

/// Bytes of a chunk, about; some hundred packets.
pub const CHUNK: usize = 64 << 10;

/// Chunks that may wait for their reader: about 100,000 packets.
pub const IN_FLIGHT: usize = 128;

/// Where a path writes down what happens to its queue.
pub struct Tape {
    chunks: SyncSender<Vec<u8>>,
    used: Receiver<Vec<u8>>,
    chunk: Vec<u8>,
    /// Calls that are not written yet, since more may follow at the same time.
    asked: Option<Asked>,
    torn: Arc<AtomicBool>,
}

impl fmt::Debug for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tape")
            .field("torn", &self.torn)
            .finish_non_exhaustive()
    }
}

/// Where another thread reads it.
#[derive(Debug)]
pub struct TapeReader {
    chunks: Receiver<Vec<u8>>,
    used: SyncSender<Vec<u8>>,
    torn: Arc<AtomicBool>,
}

/// What a reader finds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Read {
    /// Whole events.
    Chunk(Vec<u8>),
    /// Nothing yet.
    Nothing,
    /// The reader came too late: nothing follows.
    Torn,
    /// The path is gone, or has another tape.
    Ended,
}

/// A tape, and its reader.
pub fn tape() -> (Tape, TapeReader) {
    let (chunks, reader) = mpsc::sync_channel(IN_FLIGHT);
    let (back, used) = mpsc::sync_channel(IN_FLIGHT);
    let torn = Arc::new(AtomicBool::new(false));
    let tape = Tape {
        chunks,
        used,
        chunk: Vec::with_capacity(CHUNK),
        asked: None,
        torn: Arc::clone(&torn),
    };
    let reader = TapeReader {
        chunks: reader,
        used: back,
        torn,
    };
    (tape, reader)
}

impl TapeReader {
    /// The next chunk, waited for at most so long.
    pub fn read(&self, wait: std::time::Duration) -> Read {
        match self.chunks.recv_timeout(wait) {
            Ok(chunk) => Read::Chunk(chunk),
            Err(RecvTimeoutError::Timeout) if self.torn.load(Ordering::Acquire) => Read::Torn,
            Err(RecvTimeoutError::Timeout) => Read::Nothing,
            Err(RecvTimeoutError::Disconnected) => Read::Ended,
        }
    }

    /// Gives a chunk back, whose memory is used again.
    pub fn give_back(&self, mut chunk: Vec<u8>) {
        chunk.clear();
        // If so many are there already, this one is not needed.
        let _ = self.used.try_send(chunk);
    }
}

impl Tape {
    /// Whether nobody gets any more what is written.
    pub(crate) fn is_torn(&self) -> bool {
        self.torn.load(Ordering::Relaxed)
    }

    /// Writes that the tape begins: as the first event of a chunk, where a reader looks for it.
    pub(crate) fn begin(&mut self, at: Instant, fresh: bool) {
        self.flush();
        self.write(&TapeEvent::Start { at, fresh });
    }

    #[inline]
    pub(crate) fn write(&mut self, event: &TapeEvent<'_>) {
        if let Some(asked) = self.asked.take() {
            TapeEvent::Asked(asked).write(&mut self.chunk);
        }
        event.write(&mut self.chunk);
        if self.chunk.len() >= CHUNK - 256 {
            self.hand_on();
        }
    }

    /// The queue is about to be asked once.
    #[inline]
    pub(crate) fn ask(&mut self, clock: Instant, at: Instant) {
        match &mut self.asked {
            Some(asked) if asked.at == at && asked.clock == clock && asked.asks < MOST_ASKS => {
                asked.asks += 1
            }
            asked => {
                let before = asked.replace(Asked {
                    at,
                    clock,
                    asks: 1,
                    sent: 0,
                    digest: Default::default(),
                });
                if let Some(before) = before {
                    self.write_asked(before);
                }
            }
        }
    }

    fn write_asked(&mut self, asked: Asked) {
        TapeEvent::Asked(asked).write(&mut self.chunk);
        if self.chunk.len() >= CHUNK - 256 {
            self.hand_on();
        }
    }

    /// It gave this packet.
    #[inline]
    pub(crate) fn sent(&mut self, packet: &Packet) {
        if let Some(asked) = &mut self.asked {
            asked.sent += 1;
            asked.digest.add(packet);
        }
    }

    /// Hands on what is there.
    pub(crate) fn flush(&mut self) {
        if let Some(asked) = self.asked.take() {
            TapeEvent::Asked(asked).write(&mut self.chunk);
        }
        if !self.chunk.is_empty() {
            self.hand_on();
        }
    }

    #[inline(never)]
    fn hand_on(&mut self) {
        if self.torn.load(Ordering::Relaxed) {
            return self.chunk.clear();
        }
        let next = self.used.try_recv().unwrap_or_else(|_| Vec::with_capacity(CHUNK));
        let full = std::mem::replace(&mut self.chunk, next);
        // Nobody reads any more, or too slowly: what follows would have a hole before it.
        if self.chunks.try_send(full).is_err() {
            self.torn.store(true, Ordering::Release);
        }
    }
}

/// When a tape begins anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BeginsAnew {
    /// At once: what is queued is queued again, in the tree with which it begins.
    AtOnce,
    /// When nothing is queued.
    WhenEmpty,
}

/// A tree as it was built, for a path whose tape is to begin anew.
#[derive(Debug)]
pub struct Rebase {
    /// When.
    pub when: BeginsAnew,
    /// The tree.
    pub queue: Queue,
    /// The changes that the path had adopted when the plan was read that it was built from.
    pub changes: u64,
    /// Gets the tree that it replaces, to drop it.
    pub former: Sender<Box<dyn DetachedQueue>>,
}

/// What became of a wish for a path's tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taped {
    /// It has it.
    Done {
        /// The disciplines are as they were built: all that follows can be done again.
        fresh: bool,
        /// The changes that the path has adopted so far.
        changes: u64,
    },
    /// What leaves depends on more than the queue: on gap frames, or on a wire that is modelled.
    NotOfThisPath,
    /// The path's plan is another by now.
    Stale,
    /// It writes on another tape, which somebody reads.
    Taken,
}
