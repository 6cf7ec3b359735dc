//! A packet as the engine sees it: metadata and an owned handle, never bytes.
//!
//! A port fills the metadata in on arrival and applies [`Packet::ecn`] and [`Packet::dscp`] to the
//! header on departure. So the simulator needs no bytes, and no discipline can keep a stale pointer
//! into a header (ALTQ's did).

use crate::settings::{Raw, SettingValue, describe};
use crate::units::{Bytes, Instant};

/// A class of one tree, numbered in the order of its declaration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClassId(pub u32);

/// What distinguishes flows: hashes of the source host, the destination host, and the whole
/// five-tuple. Disciplines that spread flows over queues (WFQ) choose one and mix it with a seed of
/// their own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FlowHashes {
    /// Of the source address.
    pub source: u32,
    /// Of the destination address.
    pub destination: u32,
    /// Of addresses, protocol and ports (or the IPv6 flow label where the ports cannot be seen).
    pub full: u32,
}

/// The ECN field of the IP header (RFC 3168, section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// 00: not ECN-capable.
    #[default]
    NotEct,
    /// 10: ECN-capable.
    Ect0,
    /// 01: ECN-capable; used by L4S (RFC 9331).
    Ect1,
    /// 11: congestion was experienced.
    Ce,
}

impl SettingValue for Ecn {
    const UNIT: &'static str = "true, false or \"l4s\"";

    /// What a sender sets: ECT(0) of RFC 3168, nothing, or ECT(1) of RFC 9331.
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Boolean(false) => Ok(Self::NotEct),
            Raw::Boolean(true) => Ok(Self::Ect0),
            Raw::Text(text) if text == "l4s" => Ok(Self::Ect1),
            other => Err(format!("expected {}; found {}", Self::UNIT, describe(other))),
        }
    }
}

/// The DSCP of the IP header (RFC 2474, section 3): six bits, and whether they were changed on the
/// way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dscp {
    value: u8,
    changed: bool,
}

impl Dscp {
    /// As it came.
    pub const fn arrived(value: u8) -> Self {
        Self {
            value: value & 63,
            changed: false,
        }
    }

    /// As it is now.
    pub const fn value(self) -> u8 {
        self.value
    }

    /// Changes it.
    pub const fn remark(&mut self, value: u8) {
        self.changed |= self.value != value & 63;
        self.value = value & 63;
    }

    /// The drop precedence, 1 to 3, of a DSCP of the assured forwarding group (RFC 2597, section
    /// 6).
    pub const fn precedence(self) -> Option<u8> {
        let (class, low) = (self.value >> 3, self.value & 7);
        match low {
            2 | 4 | 6 if class >= 1 && class <= 4 => Some(low / 2),
            _ => None,
        }
    }

    /// What the port has to write into the header; none if it never changed.
    pub const fn to_write(self) -> Option<u8> {
        if self.changed { Some(self.value) } else { None }
    }
}

/// Where the packet's bytes are: a slot of the port's frame pool, or nothing. Opaque to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer(pub u32);

impl Buffer {
    /// A packet without bytes, as in the simulator.
    pub const NONE: Self = Self(u32::MAX);
}

/// One packet, owned by whoever holds it.
#[must_use = "a packet is queued, sent, or handed to the sink; it is never just forgotten"]
#[derive(Debug)]
pub struct Packet {
    /// Length on the wire, the link's overhead included. Of a super-frame (GSO): of all its
    /// segments.
    pub len: Bytes,
    /// When it was offered to the outermost queue.
    pub arrived: Instant,
    /// The class that the classifier chose.
    pub class: ClassId,
    /// The flow that it belongs to.
    pub flow: FlowHashes,
    /// Its ECN field, as it is to leave.
    pub ecn: Ecn,
    /// Its DSCP, as it is to leave.
    pub dscp: Dscp,
    /// Whether a queue that it had entered handed it on, at a change of the tree: it was judged
    /// when it arrived, and is not to be policed again.
    pub handed_on: bool,
    /// Where its bytes are.
    pub buffer: Buffer,
}

impl Packet {
    /// A packet of this length and class, without bytes, of flow zero and not ECN-capable.
    pub fn new(len: Bytes, arrived: Instant, class: ClassId) -> Self {
        Self {
            len,
            arrived,
            class,
            flow: FlowHashes::default(),
            ecn: Ecn::NotEct,
            dscp: Dscp::default(),
            handed_on: false,
            buffer: Buffer::NONE,
        }
    }

    /// Stands in a slot that has no packet.
    pub(crate) const NONE: Self = Self {
        len: Bytes::ZERO,
        arrived: Instant::START,
        class: ClassId(0),
        flow: FlowHashes {
            source: 0,
            destination: 0,
            full: 0,
        },
        ecn: Ecn::NotEct,
        dscp: Dscp::arrived(0),
        handed_on: false,
        buffer: Buffer::NONE,
    };

    /// The packet of a slot, which counts as free from now on: slots whose owner knows by indices
    /// which are occupied need not be written when a packet leaves, as an `Option` has to be.
    #[inline]
    pub(crate) const fn leave(slot: &Self) -> Self {
        Self { ..*slot }
    }

    /// Marks congestion if the transport understands it; `false` if it does not, and must be told
    /// by loss.
    pub fn mark(&mut self) -> bool {
        let capable = self.ecn != Ecn::NotEct;
        if capable {
            self.ecn = Ecn::Ce;
        }
        capable
    }
}
