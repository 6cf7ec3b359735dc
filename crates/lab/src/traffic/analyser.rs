//! Receives the streams of [`generator`](super::generator)s, any number at once, and counts each.

use crate::error::{Doing, Result};
use crate::sys::socket::{receive_stamped, set_receive_buffer, stamp_arrivals};
use crate::traffic::datagram::Head;
use crate::traffic::tally::Tally;
use crate::traffic::tcp::is_timeout;
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime};

/// How long it listens before it looks at the clock again.
const GLANCE: Duration = Duration::from_millis(50);
/// Stragglers are waited for this long after a stream's end was said.
const GRACE: Duration = Duration::from_millis(500);
/// Streams at once at most, so that strangers cannot fill the memory.
const MOST_STREAMS: usize = 10_000;
/// What may wait for us in the kernel while we are held up, if it allows so much.
const BUFFER: u32 = 8 << 20;

/// One stream.
#[derive(Clone, Debug)]
pub struct ReceivedStream {
    /// Its counts.
    pub tally: Tally,
    /// When the latest of it came.
    last: Instant,
}

impl ReceivedStream {
    /// Whether nothing of it is waited for any more: its end was said, or nothing came for so long.
    pub fn over(&self, now: Instant, idle: Duration) -> bool {
        let quiet = now.saturating_duration_since(self.last);
        quiet >= idle || self.tally.ended() && quiet >= GRACE
    }
}

/// A socket that counts what comes.
#[derive(Debug)]
pub struct Analyser {
    socket: UdpSocket,
    bin: u64,
    streams: BTreeMap<u64, ReceivedStream>,
    /// Datagrams that are not of our generators, or of more streams than there is room for.
    strange: u64,
}

/// Nanoseconds since 1970: the clock that sender and receiver both have.
pub fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

impl Analyser {
    /// Listens on this address, with throughput in bins of this length.
    ///
    /// # Errors
    ///
    /// Returns an error if the address cannot be bound, or the socket cannot be set up.
    pub fn listen(on: SocketAddr, bin: Duration) -> Result<Self> {
        let listen = || {
            let socket = UdpSocket::bind(on)?;
            socket.set_read_timeout(Some(GLANCE))?;
            set_receive_buffer(&socket, BUFFER)?;
            stamp_arrivals(&socket)?;
            Ok(socket)
        };
        Ok(Self {
            socket: listen().doing(|| format!("listen on {on}"))?,
            bin: bin.as_nanos() as u64,
            streams: BTreeMap::new(),
            strange: 0,
        })
    }

    /// The address it listens on.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket's own address cannot be learnt.
    pub fn address(&self) -> Result<SocketAddr> {
        self.socket
            .local_addr()
            .doing(|| "learn the receiver's port".into())
    }

    /// Takes one datagram, or waits a moment in vain.
    ///
    /// # Errors
    ///
    /// Returns an error if receiving fails for any reason but that nothing came in time.
    pub fn turn(&mut self) -> Result<()> {
        let mut buffer = [0; 1 << 16];
        match receive_stamped(&self.socket, &mut buffer) {
            Ok((len, stamp)) => self.take(&buffer[..len], stamp.unwrap_or_else(wall_clock)),
            Err(e) if is_timeout(e.kind()) => {}
            Err(e) => return Err(e).doing(|| "receive".into()),
        }
        Ok(())
    }

    fn take(&mut self, datagram: &[u8], arrived: u64) {
        let Some(head) = Head::read(datagram) else {
            self.strange += 1;
            return;
        };
        // Only the end of it: a stream that went elsewhere, or that was counted and forgotten.
        let known = self.streams.contains_key(&head.stream);
        if !known && (head.end || self.streams.len() >= MOST_STREAMS) {
            self.strange += u64::from(!head.end);
            return;
        }
        let now = Instant::now();
        let bin = self.bin;
        let heard = self.streams.entry(head.stream).or_insert_with(|| ReceivedStream {
            tally: Tally::new(head.stream, bin),
            last: now,
        });
        heard.last = now;
        heard.tally.take(&head, datagram.len(), arrived);
    }

    /// The streams so far, by name.
    pub const fn streams(&self) -> &BTreeMap<u64, ReceivedStream> {
        &self.streams
    }

    /// Datagrams that belong to no stream.
    pub const fn strange(&self) -> u64 {
        self.strange
    }
}
