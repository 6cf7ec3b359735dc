//! A Unix socket that carries one JSON text a line, and never waits: what has not come yet is asked for again later, and
//! whoever does not read is dropped.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Bytes that may wait in one direction: some thousands of connections.
const MOST: usize = 4 << 20;

/// One end.
#[derive(Debug)]
pub(super) struct Lines {
    stream: UnixStream,
    came: Vec<u8>,
    goes: Vec<u8>,
}

impl Lines {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            came: Vec::new(),
            goes: Vec::new(),
        })
    }

    /// Sends, as far as the other end has room; the rest with the next call of either kind.
    pub(super) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.goes, message).map_err(io::Error::from)?;
        self.goes.push(b'\n');
        self.push()
    }

    fn push(&mut self) -> io::Result<()> {
        while !self.goes.is_empty() {
            match self.stream.write(&self.goes) {
                Ok(n) => drop(self.goes.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if self.goes.len() > MOST {
            return Err(io::Error::new(ErrorKind::TimedOut, "the other end does not read"));
        }
        Ok(())
    }

    /// What has come. An error, also where the other end has gone, ends the connection.
    pub(super) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Vec<T>> {
        self.push()?;
        let mut chunk = [0; 16 << 10];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.came.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
            if self.came.len() > MOST {
                return Err(io::Error::new(ErrorKind::InvalidData, "a line without end"));
            }
        }
        let Some(end) = self.came.iter().rposition(|&b| b == b'\n') else {
            return Ok(Vec::new());
        };
        let rest = self.came.split_off(end + 1);
        let lines = std::mem::replace(&mut self.came, rest);
        let texts = lines.split(|&b| b == b'\n').filter(|line| !line.is_empty());
        texts
            .map(|line| serde_json::from_slice(line).map_err(io::Error::from))
            .collect()
    }
}

impl AsFd for Lines {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_arrive_whole_however_they_are_cut_and_an_end_is_an_end() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let (mut reader, mut writer) = (Lines::new(one).expect("set"), other);
        assert_eq!(reader.receive::<u32>().expect("open"), [0_u32; 0]);
        writer.write_all(b"17\n4").expect("written");
        assert_eq!(reader.receive::<u32>().expect("open"), [17]);
        writer.write_all(b"2\n\n").expect("written");
        assert_eq!(reader.receive::<u32>().expect("open"), [42]);
        drop(writer);
        assert!(reader.receive::<u32>().is_err());
    }

    #[test]
    fn more_than_the_other_end_has_room_for_waits_in_order() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let (mut writer, mut reader) = (Lines::new(one).expect("set"), Lines::new(other).expect("set"));
        let long = "x".repeat(100_000);
        let mut came = Vec::new();
        for n in 0..20 {
            writer.send(&(n, &long)).expect("it waits");
        }
        while came.len() < 20 {
            came.extend(reader.receive::<(u32, String)>().expect("open"));
            writer.receive::<u32>().expect("open");
        }
        assert!(came.iter().map(|(n, _)| *n).eq(0..20));
    }
}
