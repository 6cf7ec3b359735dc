//! JSON lines over a non-blocking Unix socket.
//!
//! A line that is incomplete is returned by a later call. A peer that does not read is dropped
//! once too much is queued for it.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Bytes queued at most in one direction: enough for some thousands of connections.
const MAX_QUEUED: usize = 4 << 20;

/// One end of the socket.
#[derive(Debug)]
pub(super) struct JsonLines {
    stream: UnixStream,
    inbound: Vec<u8>,
    outbound: Vec<u8>,
}

impl JsonLines {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            inbound: Vec::new(),
            outbound: Vec::new(),
        })
    }

    /// Sends as much as the peer has room for. The rest goes with the next call of `send` or
    /// `receive`.
    pub(super) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.outbound, message).map_err(io::Error::from)?;
        self.outbound.push(b'\n');
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.outbound.is_empty() {
            match self.stream.write(&self.outbound) {
                Ok(n) => drop(self.outbound.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if self.outbound.len() > MAX_QUEUED {
            return Err(io::Error::new(ErrorKind::TimedOut, "the other end does not read"));
        }
        Ok(())
    }

    /// The messages that have arrived. An error ends the connection; so does the peer's close.
    pub(super) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Vec<T>> {
        self.flush()?;
        let mut chunk = [0; 16 << 10];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.inbound.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
            if self.inbound.len() > MAX_QUEUED {
                return Err(io::Error::new(ErrorKind::InvalidData, "a line without end"));
            }
        }
        let Some(end) = self.inbound.iter().rposition(|&b| b == b'\n') else {
            return Ok(Vec::new());
        };
        let rest = self.inbound.split_off(end + 1);
        let lines = std::mem::replace(&mut self.inbound, rest);
        let texts = lines.split(|&b| b == b'\n').filter(|line| !line.is_empty());
        texts
            .map(|line| serde_json::from_slice(line).map_err(io::Error::from))
            .collect()
    }
}

impl AsFd for JsonLines {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_reassembled_and_a_close_is_an_error() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let (mut reader, mut writer) = (JsonLines::new(one).expect("set"), other);
        assert_eq!(reader.receive::<u32>().expect("open"), [0_u32; 0]);
        writer.write_all(b"17\n4").expect("written");
        assert_eq!(reader.receive::<u32>().expect("open"), [17]);
        writer.write_all(b"2\n\n").expect("written");
        assert_eq!(reader.receive::<u32>().expect("open"), [42]);
        drop(writer);
        assert!(reader.receive::<u32>().is_err());
    }

    #[test]
    fn what_the_peer_has_no_room_for_is_queued_in_order() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let (mut writer, mut reader) = (
            JsonLines::new(one).expect("set"),
            JsonLines::new(other).expect("set"),
        );
        let long = "x".repeat(100_000);
        let mut inbound = Vec::new();
        for n in 0..20 {
            writer.send(&(n, &long)).expect("it is queued");
        }
        while inbound.len() < 20 {
            inbound.extend(reader.receive::<(u32, String)>().expect("open"));
            writer.receive::<u32>().expect("open");
        }
        assert!(inbound.iter().map(|(n, _)| *n).eq(0..20));
    }
}
