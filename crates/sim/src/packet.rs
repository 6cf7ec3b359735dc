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

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Travelling {
    pub(crate) packet: Packet,
    /// The stream that it belongs to.
    pub(crate) stream: u32,
    /// How many links it has entered.
    pub(crate) hop: u32,
}

/// Packets on their way, by slot.
#[derive(Debug, Default)]
pub(crate) struct Store {
    slots: Vec<Travelling>,
    free: Vec<u32>,
}

impl Store {
    pub(crate) fn put(&mut self, packet: Travelling) -> Buffer {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = packet;
                Buffer(slot)
            }
            None => {
                self.slots.push(packet);
                Buffer(self.slots.len() as u32 - 1)
            }
        }
    }

    pub(crate) fn get(&self, slot: Buffer) -> &Travelling {
        &self.slots[slot.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, slot: Buffer) -> &mut Travelling {
        &mut self.slots[slot.0 as usize]
    }

    /// Gives the slot back.
    pub(crate) fn take(&mut self, slot: Buffer) -> Travelling {
        self.free.push(slot.0);
        self.slots[slot.0 as usize]
    }

    /// How many packets are on their way.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
