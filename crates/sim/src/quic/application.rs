//! What writes into the streams of a connection.

use super::streams::SendStreams;
use crate::tcp::objects::{ObjectClient, ObjectModel};
use engine::random::Seed;
use engine::units::{Bytes, Instant};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// What writes into the streams of a connection.
pub trait StreamApplication: Any + Debug + Send {
    /// Writes what is to be written by now, and returns when to ask again. It is asked while all
    /// that it wrote has been sent, with the bytes that the next packet has room for; and with none
    /// at the time that it named, and when streams are complete.
    fn write(&mut self, now: Instant, room: u64, streams: &mut SendStreams) -> Instant;

    /// A stream is complete.
    fn completed(&mut self, now: Instant, stream: u32);

    /// Whether it writes nothing any more.
    fn is_over(&self) -> bool;
}

/// Writes as much as the connection takes into some streams in turn, in certain spans of time, up
/// to a total.
#[derive(Clone, Debug)]
pub struct BulkStreams {
    streams: u32,
    turn: u32,
    left: u64,
    spans: Vec<(Instant, Instant)>,
    passed: usize,
    over: bool,
}

impl BulkStreams {
    /// Without spans it always writes; without a total, without end.
    pub fn new(streams: u32, total: Option<Bytes>, spans: &[(Instant, Instant)]) -> Self {
        let mut spans = match spans {
            [] => vec![(Instant::START, Instant::NEVER)],
            spans => spans.to_vec(),
        };
        spans.sort_unstable();
        Self {
            streams: streams.max(1),
            turn: 0,
            left: total.map_or(u64::MAX, Bytes::get),
            spans,
            passed: 0,
            over: false,
        }
    }
}

impl StreamApplication for BulkStreams {
    fn write(&mut self, now: Instant, room: u64, streams: &mut SendStreams) -> Instant {
        while self.spans.get(self.passed).is_some_and(|span| span.1 <= now) {
            self.passed += 1;
        }
        let ask_again = match self.spans.get(self.passed) {
            Some(&(start, end)) if start <= now => {
                let bytes = streams.fitting(self.turn, room).min(self.left);
                if bytes > 0 {
                    streams.write(self.turn, bytes);
                    self.turn = (self.turn + 1) % self.streams;
                }
                if self.left != u64::MAX {
                    self.left -= bytes;
                }
                end
            }
            Some(&(start, _)) => start,
            None => Instant::NEVER,
        };
        if !self.over && (self.left == 0 || self.passed == self.spans.len()) {
            self.over = true;
            (0..self.streams).for_each(|stream| streams.close(stream));
        }
        ask_again
    }

    fn completed(&mut self, _now: Instant, _stream: u32) {}

    fn is_over(&self) -> bool {
        self.over
    }
}

/// Answers a client that asks for objects: each on a stream of its own, as with HTTP/3.
#[derive(Clone, Debug)]
pub struct ObjectStreams {
    client: ObjectClient,
    /// When the object of each open stream was asked for.
    asked: BTreeMap<u32, Instant>,
    next: u32,
}

impl ObjectStreams {
    /// Of these objects.
    pub fn new(model: &ObjectModel, seed: Seed) -> Self {
        Self {
            client: ObjectClient::new(model, seed),
            asked: BTreeMap::new(),
            next: 0,
        }
    }

    /// The client.
    pub fn client(&self) -> &ObjectClient {
        &self.client
    }
}

impl StreamApplication for ObjectStreams {
    fn write(&mut self, now: Instant, _room: u64, streams: &mut SendStreams) -> Instant {
        while let Some(bytes) = self.client.ask(now) {
            streams.write(self.next, bytes);
            streams.close(self.next);
            self.asked.insert(self.next, now);
            self.next += 1;
        }
        self.client.asks_next()
    }

    fn completed(&mut self, now: Instant, stream: u32) {
        if let Some(asked) = self.asked.remove(&stream) {
            self.client.arrived(now, asked);
        }
    }

    fn is_over(&self) -> bool {
        self.client.is_over()
    }
}
