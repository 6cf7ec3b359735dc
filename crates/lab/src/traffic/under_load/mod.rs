//! Round trips while a line is idle, and while it is full in each direction: [`LineTest`] measures,
//! and [`Responder`] is its peer behind the line.
//!
//! Four kinds of round trips are measured side by side: small datagrams as of a call, every 20 ms;
//! TCP handshakes and a request on each new connection, as of a page; and requests on the
//! connections that fill the line. What a sender has not handed to the network is no part of any:
//! the kernel may hold [`UNSENT`] bytes of a connection at most (`TCP_NOTSENT_LOWAT`).
//!
//! The peer speaks to everyone who reaches its port, so it is bounded: [`MOST_CONNECTIONS`] at a
//! time, each for [`LONGEST`] at most, and a datagram is answered by one of the same length.

mod client;
mod ping;
mod responder;
mod streams;

pub use client::{LineReport, LineTest, Phase};
pub use responder::Responder;

use std::time::Duration;

/// The port where a peer listens unless another is said.
pub const PORT: u16 = 9477;

/// Connections that a peer serves at a time.
pub const MOST_CONNECTIONS: usize = 64;

/// How long a peer serves one.
pub const LONGEST: Duration = Duration::from_secs(120);

/// Bytes that a kernel may hold of a connection before they are on their way.
pub const UNSENT: u32 = 16 << 10;

/// A connection begins with this and a [`Role`]; a datagram with this and its number.
const HELLO: [u8; 7] = *b"suimon1";

/// Bytes of a frame of a connection that fills the line: a kind, a number, and nothing.
const FRAME: usize = 4096;

/// Bytes of its kind and number.
const HEAD: usize = 9;

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// The peer sends frames. A number that it is sent comes back in its next frame.
    Download,
    /// The peer receives frames. It returns the heads of questions, and says how much has arrived.
    Upload,
    /// The peer returns every eight bytes.
    Question,
}

impl Role {
    const ALL: [(Self, u8); 3] = [
        (Self::Download, b'd'),
        (Self::Upload, b'u'),
        (Self::Question, b'q'),
    ];

    fn hello(self) -> [u8; 8] {
        let letter = Self::ALL
            .iter()
            .find(|(role, _)| *role == self)
            .map_or(0, |(_, letter)| *letter);
        let [a, b, c, d, e, f, g] = HELLO;
        [a, b, c, d, e, f, g, letter]
    }

    fn read(hello: [u8; 8]) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, letter)| *letter == hello[7]);
        found.filter(|_| hello.starts_with(&HELLO)).map(|(role, _)| *role)
    }
}

/// The head of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Head {
    /// Nothing but bytes.
    Data,
    /// A question or its answer.
    Number(u64),
    /// So many bytes have arrived at the peer.
    Arrived(u64),
}

impl Head {
    fn bytes(self) -> [u8; HEAD] {
        let (kind, number) = match self {
            Self::Data => (0, 0),
            Self::Number(number) => (1, number),
            Self::Arrived(bytes) => (2, bytes),
        };
        let mut head = [kind; HEAD];
        head[1..].copy_from_slice(&u64::to_be_bytes(number));
        head
    }

    fn read(head: [u8; HEAD]) -> Self {
        let [kind, number @ ..] = head;
        let number = u64::from_be_bytes(number);
        match kind {
            1 => Self::Number(number),
            2 => Self::Arrived(number),
            _ => Self::Data,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_hellos_are_read_as_they_were_written() {
        for head in [Head::Data, Head::Number(7), Head::Arrived(u64::MAX)] {
            assert_eq!(Head::read(head.bytes()), head);
        }
        for (role, _) in Role::ALL {
            assert_eq!(Role::read(role.hello()), Some(role));
        }
        assert_eq!(Role::read(*b"suimon1x"), None);
        assert_eq!(Role::read(*b"GET / HT"), None);
    }
}
