//! The events of a tape, and their form as bytes.
//!
//! An event is a byte that says which, and its fields, little-endian, one after the other. A tape
//! in a file is untrusted: what is cut off or unknown is an error, never a guess.

use engine::discipline::Reason;
use engine::link_clock::BusyLink;
use engine::packet::{ClassId, Dscp, Ecn, FlowHashes, Packet};
use engine::units::{Bytes, Instant};
use std::fmt;

/// Bytes of a frame that are kept at most: Ethernet, two tags, IPv6 and TCP.
pub const KEPT: usize = 96;

/// What happened to a path's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapeEvent<'a> {
    /// The tape begins, or begins anew.
    Start {
        /// When.
        at: Instant,
        /// The disciplines are as they were built: what follows can be done again.
        fresh: bool,
    },
    /// The link is so busy where the tape begins.
    Link(BusyLink),
    /// A packet of before the tape's beginning is queued again, or one that waited behind those.
    Held(TapedHeld<'a>),
    /// A packet arrived.
    Arrival(TapedArrival<'a>),
    /// The queue was asked for packets.
    Asked(Asked),
    /// The discipline was switched on or off.
    Switched {
        /// On.
        on: bool,
    },
    /// The backlog was dropped.
    Abandoned {
        /// Why.
        why: Reason,
    },
    /// By the change that follows, the next of the queued packets is in this class. Tapes of before
    /// [`TapeEvent::Moved`] have that.
    MovedAtOnce {
        /// Its class.
        class: ClassId,
        /// Its flow.
        flow: FlowHashes,
    },
    /// The next of the packets that were queued at the last change has its place in the new tree.
    Moved(TapedMove),
    /// The next of the path's changes was adopted.
    Changed {
        /// By the loop's clock.
        clock: Instant,
        /// By the queue's time.
        at: Instant,
        /// Of one class alone.
        class: bool,
    },
}

/// A packet as the queue was offered it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TapedArrival<'a> {
    /// By the queue's time.
    pub at: Instant,
    /// On the wire, framing included.
    pub len: Bytes,
    /// The class that the classifier chose.
    pub class: ClassId,
    /// Its flow.
    pub flow: FlowHashes,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Its DSCP.
    pub dscp: u8,
    /// Where it went.
    pub to: To,
    /// The first bytes of the frame.
    pub headers: &'a [u8],
}

/// A packet that waited for its place in a tree while the tape began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TapedHeld<'a> {
    /// When it got that, by the queue's time.
    pub at: Instant,
    /// Whether [a queue handed it on](Packet::handed_on): it had one before.
    pub handed_on: bool,
    /// Whether its DSCP is another than in its headers.
    pub remarked: bool,
    /// What it is.
    pub packet: TapedArrival<'a>,
}

/// The place of a packet in a tree that has taken another's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TapedMove {
    /// When it got that, by the queue's time.
    pub at: Instant,
    /// Its class.
    pub class: ClassId,
    /// Its flow.
    pub flow: FlowHashes,
    /// Where it went.
    pub to: To,
}

/// Where a packet that arrived went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    /// To the discipline, or past it while it is off.
    Queue,
    /// Before the queue: a frame by which neighbours are found.
    First,
    /// Nowhere: its class had its part of the port's memory.
    Nowhere,
}

/// Calls for the next packet, all at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// By the queue's time.
    pub at: Instant,
    /// By the loop's clock, when what left went to the port; another time where a realiser paces.
    pub clock: Instant,
    /// How many.
    pub asks: u32,
    /// How many of them gave a packet.
    pub sent: u32,
    /// Of these packets, in order.
    pub digest: Digest,
}

/// Tells other packets, or another order of them, from these.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digest(u32);

impl Digest {
    /// Adds a packet.
    #[inline]
    pub fn add(&mut self, packet: &Packet) {
        const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
        let marks = u64::from(ecn_bits(packet.ecn)) << 6 | u64::from(packet.dscp.value());
        let place = u64::from(packet.class.0) << 32 | u64::from(packet.flow.full);
        let whole = [packet.arrived.nanos(), packet.len.get() << 8 | marks, place];
        let mixed = whole.iter().fold(u64::from(self.0), |sum, part| {
            (sum ^ part).wrapping_mul(PRIME).rotate_left(29)
        });
        self.0 = (mixed ^ mixed >> 32) as u32;
    }

    /// Adds so many packets with this digest.
    pub(super) fn add_asked(&mut self, sent: u32, of: Self) {
        const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
        let both = u64::from(sent) << 32 | u64::from(of.0);
        let mixed = (u64::from(self.0).rotate_left(32) ^ both).wrapping_mul(PRIME);
        self.0 = (mixed ^ mixed >> 32) as u32;
    }

    pub(super) fn bytes(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }

    pub(super) fn of_bytes(bytes: [u8; 4]) -> Self {
        Self(u32::from_le_bytes(bytes))
    }
}

/// A tape that is not what one is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BrokenTape {
    /// Bytes before the event that cannot be read.
    pub at: usize,
}

impl fmt::Display for BrokenTape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "byte {} of the tape: no event begins here, or it is cut off",
            self.at
        )
    }
}

impl std::error::Error for BrokenTape {}

fn ecn_bits(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    }
}

fn ecn(bits: u8) -> Ecn {
    [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(bits & 3)]
}

const TO: [To; 3] = [To::Queue, To::First, To::Nowhere];

const START: u8 = 1;
const ARRIVAL: u8 = 2;
const ASKED: u8 = 3;
const SWITCHED: u8 = 4;
const ABANDONED: u8 = 5;
const CHANGED: u8 = 6;
const ASKED_PACED: u8 = 7;
const MOVED_AT_ONCE: u8 = 8;
const LINK: u8 = 9;
const HELD: u8 = 10;
const MOVED: u8 = 11;

/// The longest packet that a tape may have, in bytes: far beyond any super-frame with its framing.
/// Sums of lengths that a file makes up would overflow.
const LONGEST: u64 = 1 << 24;

/// A packet's length; `None` if no packet is so long.
pub(super) fn length(bytes: u64) -> Option<Bytes> {
    (bytes <= LONGEST).then_some(Bytes::new(bytes))
}

/// Calls at one time that a tape may have: a file that asks for ever is no tape.
pub(super) const MOST_ASKS: u32 = 1 << 10;

/// Where a packet went and its ECN field, in a byte.
#[inline]
pub(super) fn marks(to: To, ecn: Ecn) -> u8 {
    to as u8 | ecn_bits(ecn) << 2
}

/// The same from that byte.
pub(super) fn of_marks(byte: u8) -> Option<(To, Ecn)> {
    let to = *TO.get(usize::from(byte & 3)).filter(|_| byte < 16)?;
    Some((to, ecn(byte >> 2)))
}

/// Bytes of an arrival without its headers.
const ARRIVAL_BYTES: usize = 36;

impl<'a> TapedArrival<'a> {
    /// The packet, without its bytes.
    pub fn packet(&self) -> Packet {
        Packet {
            flow: self.flow,
            ecn: self.ecn,
            dscp: Dscp::arrived(self.dscp),
            ..Packet::new(self.len, self.at, self.class)
        }
    }

    /// What this packet is on a tape.
    #[inline]
    pub fn of(packet: &Packet, to: To, frame: &'a [u8], keep: usize) -> Self {
        Self {
            at: packet.arrived,
            len: packet.len,
            class: packet.class,
            flow: packet.flow,
            ecn: packet.ecn,
            dscp: packet.dscp.value(),
            to,
            headers: &frame[..frame.len().min(keep).min(KEPT)],
        }
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        let mut fixed = [0; ARRIVAL_BYTES];
        fixed[0] = ARRIVAL;
        fixed[1] = marks(self.to, self.ecn);
        fixed[2] = self.dscp;
        fixed[3] = self.headers.len() as u8;
        fixed[4..12].copy_from_slice(&self.len.get().to_le_bytes());
        fixed[12..20].copy_from_slice(&self.at.nanos().to_le_bytes());
        fixed[20..36].copy_from_slice(&place(self.class, self.flow));
        out.extend_from_slice(&fixed);
        out.extend_from_slice(self.headers);
    }
}

impl<'a> TapedHeld<'a> {
    /// The packet, without its bytes.
    pub fn packet(&self) -> Packet {
        let mut packet = Packet {
            handed_on: self.handed_on,
            ..self.packet.packet()
        };
        if self.remarked {
            packet.dscp = Dscp::arrived(!self.packet.dscp);
            packet.dscp.remark(self.packet.dscp);
        }
        packet
    }

    /// What this packet is on a tape.
    pub fn of(at: Instant, packet: &Packet, to: To, frame: &'a [u8], keep: usize) -> Self {
        Self {
            at,
            handed_on: packet.handed_on,
            remarked: packet.dscp.to_write().is_some(),
            packet: TapedArrival::of(packet, to, frame, keep),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend([HELD, u8::from(self.handed_on), u8::from(self.remarked)]);
        out.extend_from_slice(&self.at.nanos().to_le_bytes());
        self.packet.write(out);
    }
}

/// Bytes of a class and a flow.
pub(super) const PLACE_BYTES: usize = 16;

/// Class and flow as bytes.
#[inline]
pub(super) fn place(class: ClassId, flow: FlowHashes) -> [u8; PLACE_BYTES] {
    let FlowHashes {
        source,
        destination,
        full,
    } = flow;
    let mut bytes = [0; PLACE_BYTES];
    for (out, word) in bytes
        .chunks_exact_mut(4)
        .zip([class.0, source, destination, full])
    {
        out.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Class and flow of these bytes.
pub(super) fn place_of(bytes: [u8; PLACE_BYTES]) -> (ClassId, FlowHashes) {
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[4 * at + byte]));
    let flow = FlowHashes {
        source: word(1),
        destination: word(2),
        full: word(3),
    };
    (ClassId(word(0)), flow)
}

impl TapeEvent<'_> {
    /// Appends it.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Arrival(arrival) => arrival.write(out),
            Self::Asked(asked) => {
                let paced = asked.clock != asked.at;
                out.push(if paced { ASKED_PACED } else { ASKED });
                out.extend_from_slice(&asked.at.nanos().to_le_bytes());
                if paced {
                    out.extend_from_slice(&asked.clock.nanos().to_le_bytes());
                }
                out.extend_from_slice(&asked.asks.to_le_bytes());
                out.extend_from_slice(&asked.sent.to_le_bytes());
                out.extend_from_slice(&asked.digest.0.to_le_bytes());
            }
            Self::Start { at, fresh } => {
                out.extend([START, u8::from(*fresh)]);
                out.extend_from_slice(&at.nanos().to_le_bytes());
            }
            Self::Link(BusyLink { free_at, remainder }) => {
                out.push(LINK);
                out.extend_from_slice(&free_at.nanos().to_le_bytes());
                out.extend_from_slice(&remainder.to_le_bytes());
            }
            Self::Held(held) => held.write(out),
            Self::Switched { on } => out.extend([SWITCHED, u8::from(*on)]),
            Self::Abandoned { why } => out.extend([ABANDONED, *why as u8]),
            Self::MovedAtOnce { class, flow } => {
                out.push(MOVED_AT_ONCE);
                out.extend_from_slice(&place(*class, *flow));
            }
            Self::Moved(TapedMove { at, class, flow, to }) => {
                out.extend([MOVED, *to as u8]);
                out.extend_from_slice(&at.nanos().to_le_bytes());
                out.extend_from_slice(&place(*class, *flow));
            }
            Self::Changed { clock, at, class } => {
                out.extend([CHANGED, u8::from(*class)]);
                out.extend_from_slice(&clock.nanos().to_le_bytes());
                out.extend_from_slice(&at.nanos().to_le_bytes());
            }
        }
    }
}

/// The events of a tape, one after the other.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    tape: &'a [u8],
    at: usize,
}

/// Whether a tape begins, or begins anew, with this chunk. Within one it never does.
pub fn begins(chunk: &[u8]) -> bool {
    chunk.first() == Some(&START)
}

impl<'a> Events<'a> {
    /// Of these bytes.
    pub fn new(tape: &'a [u8]) -> Self {
        Self { tape, at: 0 }
    }

    /// Bytes of the events so far.
    pub(super) fn read(&self) -> usize {
        self.at
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.tape.get(self.at..)?.first_chunk()?;
        self.at += N;
        Some(bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn time(&mut self) -> Option<Instant> {
        self.take().map(u64::from_le_bytes).map(Instant::from_nanos)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.take()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn place(&mut self) -> Option<(ClassId, FlowHashes)> {
        self.take().map(place_of)
    }

    fn arrival(&mut self) -> Option<TapedArrival<'a>> {
        let [flags, dscp, kept] = self.take()?;
        let (to, ecn) = of_marks(flags)?;
        let len = length(self.take().map(u64::from_le_bytes)?)?;
        let at = self.time()?;
        let (class, flow) = self.place()?;
        let headers = self.tape.get(self.at..self.at + usize::from(kept))?;
        self.at += headers.len();
        Some(TapedArrival {
            at,
            len,
            class,
            flow,
            ecn,
            dscp,
            to,
            headers,
        })
    }

    fn held(&mut self) -> Option<TapedHeld<'a>> {
        let (handed_on, remarked) = (self.flag()?, self.flag()?);
        let at = self.time()?;
        let [ARRIVAL] = self.take()? else {
            return None;
        };
        Some(TapedHeld {
            at,
            handed_on,
            remarked,
            packet: self.arrival()?,
        })
    }

    fn event(&mut self) -> Option<TapeEvent<'a>> {
        let [which] = self.take()?;
        Some(match which {
            ARRIVAL => TapeEvent::Arrival(self.arrival()?),
            ASKED | ASKED_PACED => {
                let at = self.time()?;
                let clock = if which == ASKED { at } else { self.time()? };
                TapeEvent::Asked(Asked {
                    at,
                    clock,
                    asks: self.word().filter(|asks| *asks <= MOST_ASKS)?,
                    sent: self.word()?,
                    digest: Digest(self.word()?),
                })
            }
            START => {
                let fresh = self.flag()?;
                let at = self.time()?;
                TapeEvent::Start { at, fresh }
            }
            LINK => TapeEvent::Link(BusyLink {
                free_at: self.time()?,
                remainder: self.take().map(u64::from_le_bytes)?,
            }),
            HELD => TapeEvent::Held(self.held()?),
            SWITCHED => TapeEvent::Switched { on: self.flag()? },
            ABANDONED => {
                let [why] = self.take()?;
                let why = *Reason::ALL.iter().find(|reason| **reason as u8 == why)?;
                TapeEvent::Abandoned { why }
            }
            MOVED_AT_ONCE => {
                let (class, flow) = self.place()?;
                TapeEvent::MovedAtOnce { class, flow }
            }
            MOVED => {
                let [to] = self.take()?;
                let (to, at) = (*TO.get(usize::from(to))?, self.time()?);
                let (class, flow) = self.place()?;
                TapeEvent::Moved(TapedMove { at, class, flow, to })
            }
            CHANGED => {
                let class = self.flag()?;
                let (clock, at) = (self.time()?, self.time()?);
                TapeEvent::Changed { clock, at, class }
            }
            _ => return None,
        })
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<TapeEvent<'a>, BrokenTape>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.tape.len() {
            return None;
        }
        let begin = self.at;
        let event = self.event();
        if event.is_none() {
            self.at = self.tape.len();
        }
        Some(event.ok_or(BrokenTape { at: begin }))
    }
}
