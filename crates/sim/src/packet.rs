//! Simulated packets: what they carry, and the store that keeps them while they are on their way.
//!
//! The engine sees [`engine::packet::Packet`] with a slot number in place of bytes, as on a real port. A slot is
//! given back when the packet is delivered or lost; in steady state nothing is allocated.

use engine::packet::{Buffer, Ecn};
use engine::units::{Bytes, Instant};

/// What a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// A datagram, with its number.
    Datagram(u64),
    /// A segment of TCP.
    Tcp(Segment),
}

/// A range of bytes of a stream: from the first to before the second.
pub type Range = (u64, u64);

/// A segment of TCP. Sequence numbers count bytes from 0 and do not wrap; a window is in bytes, already scaled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// The first byte that it carries, or would carry.
    pub seq: u64,
    /// How many bytes it carries.
    pub len: u32,
    /// The next byte that its sender expects (RFC 9293, section 3.4).
    pub ack: u64,
    /// How many bytes beyond `ack` its sender can take.
    pub window: u64,
    /// Blocks beyond `ack` that have arrived, the latest first (RFC 2018); empty ranges are none.
    pub sack: [Range; 3],
    /// Flags.
    pub flags: Flags,
    /// When the segment that this one answers was sent (RFC 7323, the timestamp's echo).
    pub echo: Option<Instant>,
}

/// A segment's flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags {
    /// It opens the connection.
    pub syn: bool,
    /// It is its sender's last.
    pub fin: bool,
    /// Congestion was experienced on the way here (RFC 3168).
    pub ece: bool,
    /// The window was reduced because of that.
    pub cwr: bool,
}

/// A packet as an endpoint makes it, and as the other endpoint gets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The length of its frame: Ethernet header and all above, no FCS.
    pub frame: Bytes,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Its sender is told when it has left the first link's queue.
    pub tell: bool,
    /// When it was sent; filled in by the simulation.
    pub sent: Instant,
    /// What it carries.
    pub payload: Payload,
}

impl Packet {
    /// A packet that is not ECN-capable.
    pub fn new(frame: Bytes, payload: Payload) -> Self {
        Self {
            frame,
            ecn: Ecn::NotEct,
            tell: false,
            sent: Instant::START,
            payload,
        }
    }
}

/// A packet on its way: what each hop looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Travelling {
    pub(crate) sent: Instant,
    /// The stream that it belongs to.
    pub(crate) stream: u32,
    /// Which entry of all routes' links comes next.
    pub(crate) next: u32,
    frame: u32,
    pub(crate) ecn: Ecn,
    /// Its code point, if a discipline on the way has changed it; else that of its stream.
    pub(crate) remarked: Option<u8>,
    /// Whether its sender wants to know when it leaves the first queue, and it has not yet.
    pub(crate) tell: bool,
}

impl Travelling {
    pub(crate) fn frame(&self) -> Bytes {
        Bytes::new(self.frame.into())
    }
}

/// Packets on their way, by slot. What they carry stands apart: only the two ends look at it, and what each hop looks
/// at of many packets then fits in a cache.
#[derive(Debug, Default)]
pub(crate) struct Store {
    travelling: Vec<Travelling>,
    payloads: Vec<Payload>,
    free: Vec<u32>,
}

impl Store {
    /// Takes a packet in; where it goes is not said yet.
    pub(crate) fn put(&mut self, packet: &Packet, stream: u32) -> Buffer {
        let travelling = Travelling {
            sent: packet.sent,
            stream,
            next: 0,
            frame: u32::try_from(packet.frame.get()).unwrap_or(u32::MAX),
            ecn: packet.ecn,
            remarked: None,
            tell: packet.tell,
        };
        match self.free.pop() {
            Some(slot) => {
                self.travelling[slot as usize] = travelling;
                self.payloads[slot as usize] = packet.payload;
                Buffer(slot)
            }
            None => {
                self.travelling.push(travelling);
                self.payloads.push(packet.payload);
                Buffer(self.travelling.len() as u32 - 1)
            }
        }
    }

    pub(crate) fn get(&self, slot: Buffer) -> &Travelling {
        &self.travelling[slot.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, slot: Buffer) -> &mut Travelling {
        &mut self.travelling[slot.0 as usize]
    }

    /// The packet as its endpoint made it, with its ECN field as it is now.
    pub(crate) fn packet(&self, slot: Buffer) -> Packet {
        let travelling = self.get(slot);
        Packet {
            frame: travelling.frame(),
            ecn: travelling.ecn,
            sent: travelling.sent,
            tell: travelling.tell,
            payload: self.payloads[slot.0 as usize],
        }
    }

    /// Gives the slot back.
    pub(crate) fn free(&mut self, slot: Buffer) {
        self.free.push(slot.0);
    }

    /// How many packets are on their way.
    pub(crate) fn len(&self) -> usize {
        self.travelling.len() - self.free.len()
    }
}
