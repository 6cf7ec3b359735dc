//! The application behind a sender: what it writes, and when.
//!
//! The sender asks it once the connection is established, at the time that it named, and at each
//! ACK while all that it wrote has been sent. So it may write on, pause, or wait until something
//! has arrived.

use engine::random::{Rng, Seed};
use engine::units::{Bytes, Duration, Instant};
use measure::distribution::Distribution;
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
    /// When to ask again.
    pub ask_again: Instant,
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
        Written {
            bytes,
            closed: self.total == Some(bytes) || self.passed == self.spans.len(),
            ask_again,
        }
    }
}

/// Answers requests, each with a number of bytes that is drawn. The next request comes a pause
/// after the last byte of a response has arrived.
///
/// Requests themselves are not sent. A client that asks as soon as it has a response would be heard
/// when its ACK is, so the next response begins then; response times are measured from there.
#[derive(Clone, Debug)]
pub struct ResponseWriter {
    size: Distribution,
    pause: Distribution,
    rng: Rng,
    left: u64,
    requested: Instant,
    written: u64,
    begun: usize,
    /// The response times: from the request to the ACK of the last byte.
    pub response_times: Vec<Duration>,
}

impl ResponseWriter {
    /// This many responses of such sizes in bytes, with a pause of such nanoseconds before each but
    /// the first.
    pub fn new(count: u64, size: Distribution, pause: Distribution, seed: Seed) -> Self {
        Self {
            size,
            pause,
            rng: seed.stream(),
            left: count,
            requested: Instant::START,
            written: 0,
            begun: 0,
            response_times: Vec::new(),
        }
    }
}

impl Application for ResponseWriter {
    fn write(&mut self, progress: &StreamProgress) -> Written {
        let StreamProgress {
            now, acknowledged, ..
        } = *progress;
        let mut ask_again = Instant::NEVER;
        if acknowledged >= self.written {
            if self.requested <= now && self.response_times.len() < self.begun {
                self.response_times.push(now.since(self.requested));
                self.requested = now + Duration::from_nanos(self.pause.draw(&mut self.rng));
            }
            if self.left > 0 && self.requested <= now {
                self.requested = now;
                self.left -= 1;
                self.begun += 1;
                self.written += self.size.draw(&mut self.rng).max(1);
            } else if self.left > 0 {
                ask_again = self.requested;
            }
        }
        Written {
            bytes: self.written,
            closed: self.left == 0,
            ask_again,
        }
    }
}
