//! The latency spin bit of QUIC (RFC 9000, section 17.4), and whether what spins is a connection:
//! the client turns the bit over once a round trip, and the server sends it back.
//!
//! An edge of one path is answered by the next edge of the other: of a server by the same value, of
//! a client by the other one. Departures from RFC 9312, section 3.8.2, which measures one direction
//! from edge to edge: both paths pass here, so each side is measured by itself. A sender that has
//! turned the bit off may send random values, and packets out of order look like edges; so nothing
//! is measured before [`WAVES`] edges in turn were each answered. An edge behind a pause may be one
//! that the sender had nothing to send for before: it is no sample.

use engine::header::{Fragment, Headers};

const UDP: u8 = 17;
/// What QUIC connections are told by: one end has this port.
const HTTPS: u16 = 443;
/// Of the first byte of a packet: a short header, the fixed bit, and the spin bit.
const FORM: u8 = 0xc0;
const SHORT: u8 = 0x40;
const SPIN: u8 = 0x20;
/// Edges in turn, after which a connection is believed to spin. Of one whose bits are random one in
/// 256 would be.
const WAVES: u8 = 8;

/// A packet that may spin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spinning {
    /// Source and destination.
    pub(super) ports: [u16; 2],
    pub(super) value: bool,
}

impl Spinning {
    /// The packet in a frame with these headers; none unless it is a whole datagram of which one
    /// port is that of HTTPS, with a short header.
    pub(super) fn of(headers: &Headers, frame: &[u8]) -> Option<Self> {
        if headers.key.protocol != UDP || headers.key.fragment != Fragment::Whole {
            return None;
        }
        let datagram: &[u8; 9] = frame.get(usize::from(headers.l4?)..)?.first_chunk()?;
        let port = |at: usize| u16::from_be_bytes([datagram[at], datagram[at + 1]]);
        let (ports, first) = ([port(0), port(2)], datagram[8]);
        let is_one = (ports[0] == HTTPS) != (ports[1] == HTTPS);
        (is_one && first & FORM == SHORT).then_some(Self {
            ports,
            value: first & SPIN != 0,
        })
    }

    /// Whether it answers an edge of this value.
    pub(super) fn answers(&self, value: bool) -> bool {
        let of_server = self.ports[0] == HTTPS;
        (self.value == value) == of_server
    }
}

/// What a path knows of the connection in a place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpinSeen {
    tag: u32,
    /// When its last packet passed, in ticks.
    at: u32,
    value: bool,
    /// Edges in turn that were answered.
    waves: u8,
}

impl SpinSeen {
    /// A packet passes. If it is an edge, how long before the last one did.
    #[inline]
    pub(super) fn pass(&mut self, tag: u32, at: u32, value: bool) -> Option<u32> {
        if self.tag != tag {
            *self = Self {
                tag,
                at,
                value,
                waves: 0,
            };
            return None;
        }
        let pause = at.wrapping_sub(std::mem::replace(&mut self.at, at));
        (std::mem::replace(&mut self.value, value) != value).then_some(pause)
    }

    /// An edge came in turn, or did not. Whether the connection is believed to spin.
    pub(super) fn edge(&mut self, in_turn: bool) -> bool {
        self.waves = if in_turn { self.waves.saturating_add(1) } else { 0 };
        self.waves >= WAVES
    }
}
