//! Receives any number of [`generator`](super::generator) streams at once, and counts each.

use crate::error::Result;
use crate::traffic::datagram::Head;
use crate::traffic::stamped::StampedSocket;
use crate::traffic::tally::Tally;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long to wait for stragglers after a stream's end was announced.
const GRACE: Duration = Duration::from_millis(500);
/// Streams at once at most, which bounds the memory that foreign datagrams can take.
const MAX_STREAMS: usize = 10_000;

/// A received stream.
#[derive(Clone, Debug)]
pub struct ReceivedStream {
    /// Its counts.
    pub tally: Tally,
    /// When its latest datagram arrived.
    last: Instant,
}

impl ReceivedStream {
    /// Whether the stream is over: its end was announced, or nothing has arrived for `idle`.
    pub fn over(&self, now: Instant, idle: Duration) -> bool {
        let quiet = now.saturating_duration_since(self.last);
        quiet >= idle || self.tally.ended() && quiet >= GRACE
    }
}

/// A socket that counts what it receives.
#[derive(Debug)]
pub struct Analyser {
    socket: StampedSocket,
    bin: u64,
    streams: BTreeMap<u64, ReceivedStream>,
    /// Datagrams that are not from our generators, or of more streams than there is room for.
    foreign: u64,
}

impl Analyser {
    /// Listens on this address, with throughput in bins of this length.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be bound, or the socket cannot be set up.
    pub fn listen(on: SocketAddr, bin: Duration) -> Result<Self> {
        Ok(Self {
            socket: StampedSocket::listen(on)?,
            bin: bin.as_nanos() as u64,
            streams: BTreeMap::new(),
            foreign: 0,
        })
    }

    /// The address it listens on.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket's own address cannot be read.
    pub fn address(&self) -> Result<SocketAddr> {
        self.socket.address()
    }

    /// Receives one datagram, or waits until the timeout.
    ///
    /// # Errors
    ///
    /// Returns an error if receiving fails for any reason other than the timeout.
    pub fn turn(&mut self) -> Result<()> {
        let mut buffer = [0; 1 << 16];
        if let Some((len, arrived)) = self.socket.receive(&mut buffer)? {
            self.take(&buffer[..len], arrived);
        }
        Ok(())
    }

    fn take(&mut self, datagram: &[u8], arrived: u64) {
        let Some(head) = Head::read(datagram) else {
            self.foreign += 1;
            return;
        };
        // An end alone belongs to a stream that went elsewhere, or that was counted before.
        let tracked = self.streams.contains_key(&head.stream);
        if !tracked && (head.end || self.streams.len() >= MAX_STREAMS) {
            self.foreign += u64::from(!head.end);
            return;
        }
        let now = Instant::now();
        let bin = self.bin;
        let stream = self.streams.entry(head.stream).or_insert_with(|| ReceivedStream {
            tally: Tally::new(head.stream, bin),
            last: now,
        });
        stream.last = now;
        stream.tally.take(&head, datagram.len(), arrived);
    }

    /// The streams so far, by their number.
    pub const fn streams(&self) -> &BTreeMap<u64, ReceivedStream> {
        &self.streams
    }

    /// Datagrams that belong to no stream.
    pub const fn foreign(&self) -> u64 {
        self.foreign
    }
}
