//! The program behind a sender: what it writes, and when.
//!
//! It is asked once the connection is up, when the time has come that it named, and, as long as all that it wrote has
//! been sent, at each acknowledgment. So it may write on, fall silent, or wait for an answer.

use engine::units::{Bytes, Duration, Instant};
use std::any::Any;
use std::fmt::Debug;

/// How far its stream has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The time.
    pub now: Instant,
    /// Bytes that were sent at least once.
    pub sent: u64,
    /// Bytes that have arrived.
    pub acknowledged: u64,
}

/// What a program has written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// All the bytes that it has written since the stream began.
    pub written: u64,
    /// It will write no more.
    pub closed: bool,
    /// When to ask again.
    pub again: Instant,
}

/// What writes into a connection.
pub trait Program: Any + Debug + Send {
    /// What is written by now. What was written stays written: `written` never falls, unless not yet sent.
    fn offer(&mut self, progress: &Progress) -> Offer;
}

/// Writes without pause, as much as fits, in certain spans of time, up to a total.
#[derive(Clone, Debug)]
pub struct Writer {
    total: Option<u64>,
    spans: Vec<(Instant, Instant)>,
    passed: usize,
}

impl Writer {
    /// No spans are one that never ends.
    pub fn new(total: Option<Bytes>, spans: &[(Instant, Instant)]) -> Self {
        let mut spans = match spans {
            [] => vec![(Instant::START, Instant::NEVER)],
            spans => spans.to_vec(),
        };
        spans.sort_unstable();
        Self {
            total: total.map(Bytes::get),
            spans,
            passed: 0,
        }
    }
}

impl Program for Writer {
    fn offer(&mut self, progress: &Progress) -> Offer {
        while self
            .spans
            .get(self.passed)
            .is_some_and(|span| span.1 <= progress.now)
        {
            self.passed += 1;
        }
        let total = self.total.unwrap_or(u64::MAX);
        let (written, again) = match self.spans.get(self.passed) {
            Some(&(start, end)) if start <= progress.now => (total, end),
            Some(&(start, _)) => (progress.sent, start),
            None => (progress.sent, Instant::NEVER),
        };
        Offer {
            written,
            closed: self.total == Some(written) || self.passed == self.spans.len(),
            again,
        }
    }
}

/// Answers requests: a number of bytes each, the next request so long after the last byte of an answer has arrived.
///
/// Requests themselves are not sent. A client that asks as soon as it has an answer would be heard when its
/// acknowledgment is, so that is when the next answer begins; what a client waits for an answer is measured from there.
#[derive(Clone, Debug)]
pub struct Answers {
    size: u64,
    pause: Duration,
    left: u64,
    asked: Instant,
    written: u64,
    /// How long each answer took, from the request to the acknowledgment of the last byte.
    pub took: Vec<Duration>,
}

impl Answers {
    /// So many answers of this size, with pauses between.
    pub fn new(count: u64, size: Bytes, pause: Duration) -> Self {
        Self {
            size: size.get().max(1),
            pause,
            left: count,
            asked: Instant::START,
            written: 0,
            took: Vec::new(),
        }
    }
}

impl Program for Answers {
    fn offer(&mut self, progress: &Progress) -> Offer {
        let Progress {
            now, acknowledged, ..
        } = *progress;
        let mut again = Instant::NEVER;
        if acknowledged >= self.written {
            if self.written > 0 && self.asked <= now && self.took.len() as u64 * self.size < self.written {
                self.took.push(now.since(self.asked));
                self.asked = now + self.pause;
            }
            if self.left > 0 && self.asked <= now {
                self.asked = now;
                self.left -= 1;
                self.written += self.size;
            } else if self.left > 0 {
                again = self.asked;
            }
        }
        Offer {
            written: self.written,
            closed: self.left == 0,
            again,
        }
    }
}
