//! The application behind a sender: what it writes, and when.
//!
//! The sender asks it once the connection is established, at the time that it named, and at each
//! ACK while all that it wrote has been sent. So it may write on, pause, or wait until something
//! has arrived.

use crate::agent::Others;
use engine::units::{Bytes, Instant};
use std::any::Any;
use std::fmt::Debug;

/// How far the stream has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamProgress {
    /// The time.
    pub now: Instant,
    /// Bytes sent at least once.
    pub sent: u64,
    /// Bytes acknowledged.
    pub acknowledged: u64,
}

/// What an application has written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// All bytes written since the stream began.
    pub bytes: u64,
    /// It writes no more: a FIN follows.
    pub closed: bool,
    /// The receiver answers the last byte at once, so that its ACK is not delayed.
    pub answered: bool,
    /// When to ask again.
    pub ask_again: Instant,
    /// The connections of the same client that may have something to write now.
    pub wakes: Others,
}

impl Written {
    /// So much, after which it is asked again; nobody answers it, and it wakes nobody.
    pub fn until(ask_again: Instant, bytes: u64, closed: bool) -> Self {
        Self {
            bytes,
            closed,
            answered: false,
            ask_again,
            wakes: Others::NONE,
        }
    }
}

/// What writes into a connection.
pub trait Application: Any + Debug + Send {
    /// What is written by now. Sent bytes stay written; the total may fall only to what is sent.
    fn write(&mut self, progress: &StreamProgress) -> Written;
}

/// Writes as much as the connection takes, in certain spans of time, up to a total.
#[derive(Clone, Debug)]
pub struct BulkWriter {
    total: Option<u64>,
    spans: Vec<(Instant, Instant)>,
    passed: usize,
}

impl BulkWriter {
    /// Without spans it always writes.
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

impl Application for BulkWriter {
    fn write(&mut self, progress: &StreamProgress) -> Written {
        while self
            .spans
            .get(self.passed)
            .is_some_and(|span| span.1 <= progress.now)
        {
            self.passed += 1;
        }
        let total = self.total.unwrap_or(u64::MAX);
        let (bytes, ask_again) = match self.spans.get(self.passed) {
            Some(&(start, end)) if start <= progress.now => (total, end),
            Some(&(start, _)) => (progress.sent, start),
            None => (progress.sent, Instant::NEVER),
        };
        let closed = self.total == Some(bytes) || self.passed == self.spans.len();
        Written::until(ask_again, bytes, closed)
    }
}
