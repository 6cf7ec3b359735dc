//! What a server writes that answers a client on one connection: a response to each request, one
//! after the other. What is asked for, and when, is the [`ResponseClient`]'s: of `pages`, or of
//! `video`.
//!
//! Requests themselves are not sent. A client that asks as soon as it has a response would be heard
//! when its ACK is, so the next response begins then; response times are measured from there. That
//! ACK is not delayed: it comes with the next request, or would.

use super::application::{Application, StreamProgress, Written};
use crate::agent::Others;
use engine::units::Instant;
use std::any::Any;
use std::fmt::Debug;

/// What a client wants next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// So many bytes, now.
    Bytes(u64),
    /// It says so at this time; never: when another connection of it wakes this one.
    At(Instant),
    /// Nothing any more: the connection is closed.
    Nothing,
}

/// A client at the other end of a connection, with at most one request outstanding on it.
pub trait ResponseClient: Any + Debug + Send {
    /// What it wants, with nothing outstanding.
    fn wish(&mut self, now: Instant) -> Wish;

    /// The last byte of what it asked for has arrived. Returns the other connections of this client
    /// that may have something to ask for now.
    fn answered(&mut self, now: Instant) -> Others;
}

/// Writes the responses.
#[derive(Clone, Debug)]
pub struct ResponseWriter<C> {
    client: C,
    written: u64,
    outstanding: bool,
}

impl<C: ResponseClient> ResponseWriter<C> {
    /// The responses to this client.
    pub fn new(client: C) -> Self {
        Self {
            client,
            written: 0,
            outstanding: false,
        }
    }

    /// The client.
    pub fn client(&self) -> &C {
        &self.client
    }
}

impl<C: ResponseClient> Application for ResponseWriter<C> {
    fn write(&mut self, progress: &StreamProgress) -> Written {
        let mut written = Written {
            answered: true,
            ..Written::until(Instant::NEVER, self.written, false)
        };
        if progress.acknowledged < self.written {
            return written;
        }
        if std::mem::take(&mut self.outstanding) {
            written.wakes = self.client.answered(progress.now);
        }
        match self.client.wish(progress.now) {
            Wish::Bytes(bytes) => {
                self.written += bytes.max(1);
                self.outstanding = true;
            }
            Wish::At(at) => written.ask_again = at,
            Wish::Nothing => written.closed = true,
        }
        written.bytes = self.written;
        written
    }
}
