//! Simulated packets: what they carry, and the store that keeps them in flight.
//!
//! The engine sees [`engine::packet::Packet`] with a slot number in place of bytes, as on a real
//! port. A slot is freed when its packet is delivered or dropped; in steady state nothing is
//! allocated.

use crate::quic::wire::QuicPacket;
use crate::stream::Stream;
use engine::header::FlowKey;
use engine::packet::{Buffer, Ecn};
use engine::units::{Bytes, Instant};
use std::collections::HashSet;

/// Bytes of an Ethernet header.
const ETHERNET: u32 = 14;

/// What a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// A datagram, with its number.
    Datagram(u64),
    /// A TCP segment.
    Tcp(Segment),
    /// A QUIC packet.
    Quic(QuicPacket),
}

/// A range of bytes of a stream: from `start` to before `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

impl ByteRange {
    /// From one byte to before another.
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    /// The number of bytes.
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether it has no byte.
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// The bytes that are in both.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }
}

/// A TCP segment. Sequence numbers count bytes from 0 and do not wrap; the window is in bytes,
/// already scaled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// The sequence number of its first byte of data, or of the next if it has none.
    pub seq: u64,
    /// The length of its data.
    pub len: u32,
    /// The acknowledgment number: the next byte that its sender expects (RFC 9293, section 3.4).
    pub ack: u64,
    /// The receive window: the bytes beyond `ack` that its sender accepts.
    pub window: u64,
    /// SACK blocks, the latest first (RFC 2018), a duplicate before them (RFC 2883); an empty range
    /// is none.
    pub sack: [ByteRange; 3],
    /// Control bits.
    pub flags: Flags,
    /// The echoed timestamp: when the acknowledged segment was sent (RFC 7323's TSecr).
    pub echo: Option<Instant>,
}

impl Segment {
    /// Its control bits as a header has them (RFC 9293, section 3.1). The SYN alone acknowledges
    /// nothing; a SYN-ACK echoes its timestamp.
    pub fn control_bits(&self) -> u8 {
        let flags = self.flags;
        let bits = [
            (flags.fin, 0x01),
            (flags.syn, 0x02),
            (flags.push, 0x08),
            (!self.opens(), 0x10),
            (flags.ece, 0x40),
            (flags.cwr, 0x80),
        ];
        bits.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum()
    }

    /// Whether it is the SYN that opens a connection.
    pub(crate) fn opens(&self) -> bool {
        self.flags.syn && self.echo.is_none()
    }

    /// The duplicate that the ACK reports, if it does: the first block, below the acknowledgment
    /// number or within the second block (DSACK, RFC 2883, section 4).
    pub fn duplicate(&self) -> Option<ByteRange> {
        let [first, second, _] = self.sack;
        let within = second.start <= first.start && first.end <= second.end;
        (!first.is_empty() && (first.end <= self.ack || within)).then_some(first)
    }
}

/// A segment's control bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags {
    /// SYN: it opens the connection.
    pub syn: bool,
    /// FIN: no data follows.
    pub fin: bool,
    /// PSH: its receiver has all of a response, and answers at once.
    pub push: bool,
    /// ECE: congestion was experienced on the way here (RFC 3168).
    pub ece: bool,
    /// CWR: its sender has reduced cwnd in response.
    pub cwr: bool,
    /// AE: of accurate ECN (RFC 9768), with ECE and CWR.
    pub ae: bool,
}

impl Flags {
    /// What accurate ECN has in three bits of each segment: how many marked ones have arrived, and
    /// five more (RFC 9768, section 3.2.2), so that a host without it is told from one that has
    /// none.
    pub fn counting(marked: u64) -> Self {
        let count = marked.wrapping_add(5);
        Self {
            ae: count & 4 != 0,
            cwr: count & 2 != 0,
            ece: count & 1 != 0,
            ..Self::default()
        }
    }

    /// The three bits.
    pub fn counted(self) -> u8 {
        u8::from(self.ae) << 2 | u8::from(self.cwr) << 1 | u8::from(self.ece)
    }
}

/// A packet as one endpoint sends it and the other receives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimPacket {
    /// The length of its frame: Ethernet header and all above, no FCS.
    pub frame: Bytes,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Its sender is [notified](crate::agent::Agent::tx_complete) when it leaves the first link's
    /// queue.
    pub notify: bool,
    /// Whether it kept to what is promised to it, if the first link that promised it anything has
    /// found that.
    pub conforms: Option<bool>,
    /// When it was sent; the simulation sets it.
    pub sent: Instant,
    /// What it carries.
    pub payload: Payload,
}

impl SimPacket {
    /// A packet that is not ECN-capable.
    pub fn new(frame: Bytes, payload: Payload) -> Self {
        Self {
            frame,
            ecn: Ecn::NotEct,
            notify: false,
            conforms: None,
            sent: Instant::START,
            payload,
        }
    }
}

/// A packet in flight: a cache line, with all of it where that fits.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct InFlight {
    pub(crate) sent: Instant,
    /// The stream that it belongs to.
    pub(crate) stream: u32,
    /// Its next hop, an index into the links of all routes.
    pub(crate) next_hop: u32,
    frame: u32,
    pub(crate) ecn: Ecn,
    /// Its DSCP, if a discipline has remarked it; otherwise it is its stream's.
    pub(crate) remarked: Option<u8>,
    pub(crate) state: PacketState,
    carried: Carried,
}

const _: () = assert!(size_of::<InFlight>() == 64);

/// What a packet carries, as far as it has room beside what each hop looks at.
#[derive(Clone, Copy, Debug)]
enum Carried {
    Datagram(u64),
    Segment(PlainSegment),
    /// It is kept apart.
    Apart,
}

/// A segment without SACK blocks, as most are.
#[derive(Clone, Copy, Debug)]
struct PlainSegment {
    seq: u64,
    ack: u64,
    window: u64,
    /// [`Instant::NEVER`]: none.
    echo: Instant,
    flags: Flags,
    /// What its frame has beside its data.
    headers: u8,
}

impl Carried {
    fn of(payload: &Payload, frame: u32) -> Self {
        match payload {
            Payload::Datagram(number) => Self::Datagram(*number),
            Payload::Tcp(segment) => PlainSegment::of(segment, frame).map_or(Self::Apart, Self::Segment),
            Payload::Quic(_) => Self::Apart,
        }
    }
}

impl PlainSegment {
    fn of(segment: &Segment, frame: u32) -> Option<Self> {
        let headers = frame.checked_sub(segment.len)?;
        let plain = segment.sack == [ByteRange::default(); 3] && segment.echo != Some(Instant::NEVER);
        Some(Self {
            seq: segment.seq,
            ack: segment.ack,
            window: segment.window,
            echo: segment.echo.unwrap_or(Instant::NEVER),
            flags: segment.flags,
            headers: u8::try_from(headers).ok().filter(|_| plain)?,
        })
    }

    fn segment(self, frame: u32) -> Segment {
        Segment {
            seq: self.seq,
            len: frame - u32::from(self.headers),
            ack: self.ack,
            window: self.window,
            sack: [ByteRange::default(); 3],
            flags: self.flags,
            echo: Some(self.echo).filter(|echo| *echo != Instant::NEVER),
        }
    }
}

/// What is true of a packet in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PacketState(u8);

impl PacketState {
    /// Its sender is to be notified when it leaves the first queue, which it has not done yet.
    const NOTIFY: u8 = 1;
    /// A bit of it is flipped: its receiver drops it.
    const CORRUPT: u8 = 2;
    /// What the first queue is offered next has come with it.
    const FOLLOWED: u8 = 4;
    /// A link has found whether it keeps to what is promised to it.
    const FOUND: u8 = 8;
    /// It does.
    const CONFORMS: u8 = 16;

    fn new(notify: bool) -> Self {
        Self(if notify { Self::NOTIFY } else { 0 })
    }

    pub(crate) fn notify(self) -> bool {
        self.0 & Self::NOTIFY != 0
    }

    pub(crate) fn has_left_the_first_queue(&mut self) {
        self.0 &= !(Self::NOTIFY | Self::FOLLOWED);
    }

    pub(crate) fn followed(self) -> bool {
        self.0 & Self::FOLLOWED != 0
    }

    pub(crate) fn becomes_followed(&mut self) {
        self.0 |= Self::FOLLOWED;
    }

    /// A link has found that; what another has found before stays.
    pub(crate) fn is_found(&mut self, conforms: bool) {
        if self.0 & Self::FOUND == 0 {
            self.0 |= Self::FOUND | if conforms { Self::CONFORMS } else { 0 };
        }
    }

    fn conforms(self) -> Option<bool> {
        (self.0 & Self::FOUND != 0).then_some(self.0 & Self::CONFORMS != 0)
    }

    pub(crate) fn corrupt(self) -> bool {
        self.0 & Self::CORRUPT != 0
    }

    pub(crate) fn becomes_corrupt(&mut self) {
        self.0 |= Self::CORRUPT;
    }
}

impl InFlight {
    pub(crate) fn frame(&self) -> Bytes {
        Bytes::new(self.frame.into())
    }
}

/// Packets in flight, by slot.
#[derive(Debug, Default)]
pub(crate) struct Store {
    in_flight: Vec<InFlight>,
    /// What packets carry that is kept apart, up to the last slot that had such a one.
    apart: Vec<Payload>,
    free: Vec<u32>,
}

impl Store {
    /// Takes a packet of a stream; its next hop is not set yet.
    pub(crate) fn put(&mut self, packet: &SimPacket, stream: u32) -> Buffer {
        let frame = u32::try_from(packet.frame.get()).unwrap_or(u32::MAX);
        let in_flight = InFlight {
            sent: packet.sent,
            stream,
            next_hop: 0,
            frame,
            ecn: packet.ecn,
            remarked: None,
            state: PacketState::new(packet.notify),
            carried: Carried::of(&packet.payload, frame),
        };
        let slot = self.store(in_flight);
        if let Carried::Apart = in_flight.carried {
            self.keep_apart(slot, packet.payload);
        }
        slot
    }

    #[inline]
    fn store(&mut self, in_flight: InFlight) -> Buffer {
        match self.free.pop() {
            Some(slot) => {
                self.in_flight[slot as usize] = in_flight;
                Buffer(slot)
            }
            None => {
                self.in_flight.push(in_flight);
                Buffer(self.in_flight.len() as u32 - 1)
            }
        }
    }

    fn keep_apart(&mut self, slot: Buffer, payload: Payload) {
        let slot = slot.0 as usize;
        if self.apart.len() <= slot {
            self.apart.resize(slot + 1, Payload::Datagram(0));
        }
        self.apart[slot] = payload;
    }

    /// A copy of a packet, as a wire makes one.
    pub(crate) fn copy(&mut self, slot: Buffer) -> Buffer {
        let in_flight = *self.get(slot);
        let copy = self.store(in_flight);
        if let Carried::Apart = in_flight.carried {
            self.keep_apart(copy, self.apart[slot.0 as usize]);
        }
        copy
    }

    fn payload(&self, slot: Buffer) -> Payload {
        let in_flight = self.get(slot);
        match in_flight.carried {
            Carried::Datagram(number) => Payload::Datagram(number),
            Carried::Segment(plain) => Payload::Tcp(plain.segment(in_flight.frame)),
            Carried::Apart => self.apart[slot.0 as usize],
        }
    }

    pub(crate) fn get(&self, slot: Buffer) -> &InFlight {
        &self.in_flight[slot.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, slot: Buffer) -> &mut InFlight {
        &mut self.in_flight[slot.0 as usize]
    }

    /// The packet as its endpoint sent it, with its present ECN field.
    pub(crate) fn packet(&self, slot: Buffer) -> SimPacket {
        let in_flight = self.get(slot);
        SimPacket {
            frame: in_flight.frame(),
            ecn: in_flight.ecn,
            sent: in_flight.sent,
            notify: in_flight.state.notify(),
            conforms: in_flight.state.conforms(),
            payload: self.payload(slot),
        }
    }

    /// The header fields of the packet in this slot.
    pub(crate) fn key(&self, slot: Buffer, streams: &[Stream]) -> FlowKey {
        let in_flight = self.get(slot);
        let tcp_flags = match self.payload(slot) {
            Payload::Tcp(segment) => Some(segment.control_bits()),
            Payload::Datagram(_) | Payload::Quic(_) => None,
        };
        FlowKey {
            ecn: in_flight.ecn,
            tcp_flags,
            length: u16::try_from(in_flight.frame.saturating_sub(ETHERNET)).unwrap_or(u16::MAX),
            ..streams[in_flight.stream as usize].key_of(in_flight.remarked)
        }
    }

    /// The ACK in this slot advertises another window.
    pub(crate) fn set_window(&mut self, slot: Buffer, window: u64) {
        match &mut self.get_mut(slot).carried {
            Carried::Datagram(_) => {}
            Carried::Segment(plain) => plain.window = window,
            Carried::Apart => {
                if let Payload::Tcp(segment) = &mut self.apart[slot.0 as usize] {
                    segment.window = window;
                }
            }
        }
    }

    /// Frees the slot.
    pub(crate) fn free(&mut self, slot: Buffer) {
        self.free.push(slot.0);
    }

    /// The packets in flight.
    pub(crate) fn used(&mut self) -> impl Iterator<Item = &mut InFlight> {
        let free: HashSet<u32> = self.free.iter().copied().collect();
        let numbered = (0..).zip(&mut self.in_flight);
        numbered
            .filter(move |(slot, _)| !free.contains(slot))
            .map(|(_, packet)| packet)
    }

    /// How many of a stream are in flight that kept to what is promised to them.
    pub(crate) fn conforming(&self, stream: u32) -> u64 {
        let free: HashSet<u32> = self.free.iter().copied().collect();
        let conforms = |packet: &InFlight| packet.stream == stream && packet.state.conforms() == Some(true);
        let numbered = (0..).zip(&self.in_flight);
        numbered
            .filter(|(slot, packet)| conforms(packet) && !free.contains(slot))
            .count() as u64
    }

    /// The number of packets in flight.
    pub(crate) fn len(&self) -> usize {
        self.in_flight.len() - self.free.len()
    }
}
