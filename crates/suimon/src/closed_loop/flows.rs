//! The flows of a capture, and what can be told of their senders: of packets in one direction, with
//! their headers alone.
//!
//! What is estimated:
//!
//! - The round-trip time of a TCP connection: from its SYN (or SYN-ACK) to the next packet of the
//!   same side. That has whatever waited in queues then, so the least of all connections with the
//!   same peer counts.
//! - What its application wrote, and when: a pause, or a segment that is not full, ends a write. A
//!   write comes at its captured time again, and takes as long as the network makes it.
//! - Where a connection was cut off by the end of the capture in the middle of a write, its
//!   application writes on.

use engine::header::{FlowKey, Headers};
use engine::packet::Ecn;
use engine::units::{Bytes, Duration, Instant};
use std::collections::HashMap;

const SYN: u8 = 0x02;
const FIN: u8 = 0x01;
const RST: u8 = 0x04;
const TCP: u8 = 6;

/// Round trips that a pause lasts at least, and its length at least: slow start pauses for one.
const PAUSE: (u64, Duration) = (3, Duration::from_millis(300));
/// Data of the shortest full segment.
const SHORTEST_FULL: u64 = 536;
/// The data of a full segment where super-frames hide it.
const USUAL_FULL: u64 = 1_448;
/// The longest frame of one segment.
const LONGEST_PLAIN: u32 = 9_018;

/// Address and port of the source and of the destination, and the protocols: packets of one flow
/// may differ in all else.
type Ends = ((u128, Option<u16>), (u128, Option<u16>), (u8, u16));

/// What an application has written by then, since the flow began; without end in the last.
pub(super) type Writes = Vec<(Duration, u64)>;

/// What was seen of a TCP sender.
#[derive(Debug, Default)]
pub(super) struct SenderSeen {
    /// When its SYN was seen.
    syn: Option<Instant>,
    /// From there to its next packet.
    pub(super) handshake: Option<Duration>,
    /// The sequence number of its first byte.
    base: Option<u32>,
    /// Bytes up to the highest that was sent.
    pub(super) bytes: u64,
    pub(super) writes: Writes,
    last: Option<Instant>,
    /// Its last segment was not full.
    short: bool,
    /// It has closed.
    closed: bool,
    /// The data of its longest segment.
    full: u64,
    /// The longest frame.
    pub(super) frame: u32,
}

/// A flow in the captured direction.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) key: FlowKey,
    pub(super) ecn: Ecn,
    pub(super) begin: Instant,
    /// All its packets, unless it is a sender: time since the beginning, and length of the frame.
    pub(super) packets: Vec<(Duration, Bytes)>,
    pub(super) sender: SenderSeen,
}

impl Flow {
    /// Whether it is a TCP connection that sends data this way; others are sent as captured.
    pub(super) fn is_sender(&self) -> bool {
        self.sender.bytes > 0
    }
}

/// All flows, in the order of their first packets.
#[derive(Debug, Default)]
pub struct Flows {
    pub(super) all: Vec<Flow>,
    by_key: HashMap<Ends, usize>,
    pub(super) end: Instant,
}

impl Flows {
    /// A captured packet: its time, the length of its frame, and the beginning of it.
    pub fn add(&mut self, at: Instant, frame: u32, bytes: &[u8]) {
        let headers = Headers::parse(bytes, 0);
        self.end = self.end.max(at);
        let segment = Segment::of(&headers, frame, bytes);
        let begins = segment.as_ref().is_some_and(|segment| segment.flags & SYN != 0);
        let place = self.place(at, &headers.key, begins);
        let flow = &mut self.all[place];
        if !flow.is_sender() {
            let since = at.since(flow.begin);
            flow.packets.push((since, Bytes::new(frame.into())));
        }
        if let Some(segment) = segment {
            if segment.data > 0 && flow.sender.bytes == 0 {
                // A SYN is not ECN-capable, nor has it always the DSCP of the data.
                (flow.ecn, flow.key) = (headers.key.ecn, headers.key);
            }
            flow.sender.see(at, flow.begin, frame, &segment);
            if flow.is_sender() {
                flow.packets = Vec::new();
            }
        }
    }

    /// The flow of such a packet. A connection that begins with the ports of a former one is
    /// another.
    fn place(&mut self, at: Instant, key: &FlowKey, begins: bool) -> usize {
        let own = (
            (key.source, key.source_port),
            (key.destination, key.destination_port),
            (key.protocol, key.ethertype),
        );
        let known = self.by_key.get(&own).copied();
        let goes_on = |place: &usize| !begins || self.all[*place].sender.bytes == 0;
        if let Some(place) = known.filter(goes_on) {
            return place;
        }
        self.all.push(Flow {
            key: *key,
            ecn: key.ecn,
            begin: at,
            packets: Vec::new(),
            sender: SenderSeen::default(),
        });
        self.by_key.insert(own, self.all.len() - 1);
        self.all.len() - 1
    }

    /// What each connection with this address takes for a round trip at least.
    pub(super) fn round_trips(&self) -> HashMap<u128, Duration> {
        let mut least: HashMap<u128, Duration> = HashMap::new();
        let senders = self.all.iter().filter(|flow| flow.is_sender());
        for (flow, found) in senders.filter_map(|flow| Some((flow, flow.sender.handshake?))) {
            let known = least.entry(flow.key.destination).or_insert(found);
            *known = (*known).min(found);
        }
        least
    }
}

/// A TCP segment.
struct Segment {
    seq: u32,
    flags: u8,
    data: u64,
}

impl Segment {
    fn of(headers: &Headers, frame: u32, bytes: &[u8]) -> Option<Self> {
        if headers.key.protocol != TCP {
            return None;
        }
        let (l3, l4) = (usize::from(headers.l3?), usize::from(headers.l4?));
        let tcp = bytes.get(l4..l4 + 14)?;
        let two = |at: usize| {
            Some(u64::from(u16::from_be_bytes(
                bytes.get(at..at + 2)?.try_into().ok()?,
            )))
        };
        let whole = match bytes.get(l3)? >> 4 {
            4 => two(l3 + 2)?,
            _ => two(l3 + 4)? + 40,
        };
        // Zero in super-frames beyond 64 KB; shorter than a frame that was padded.
        let whole = match whole {
            0 | 40 => u64::from(frame).saturating_sub(l3 as u64),
            whole => whole,
        };
        let header = (l4 - l3) as u64 + u64::from(tcp[12] >> 4) * 4;
        Some(Self {
            seq: u32::from_be_bytes(tcp[4..8].try_into().ok()?),
            flags: tcp[13],
            data: whole.saturating_sub(header),
        })
    }
}

impl SenderSeen {
    fn see(&mut self, at: Instant, begin: Instant, frame: u32, segment: &Segment) {
        if segment.flags & SYN != 0 {
            // A SYN that is sent again tells no round trip.
            self.syn = self.syn.is_none().then_some(at);
            self.base = Some(segment.seq.wrapping_add(1));
            return;
        }
        if let Some(syn) = self.syn.take() {
            self.handshake = Some(at.since(syn));
        }
        self.closed |= segment.flags & (FIN | RST) != 0;
        if segment.data == 0 {
            return;
        }
        let base = *self.base.get_or_insert(segment.seq);
        // How far it is from the highest byte: sequence numbers wrap.
        let next = base.wrapping_add(self.bytes as u32);
        let from = i64::from(segment.seq.wrapping_sub(next) as i32);
        let end = self.bytes.saturating_add_signed(from) + segment.data;
        if end <= self.bytes {
            return;
        }
        let pause = self.handshake.map_or(PAUSE.1, |rtt| {
            PAUSE.1.max(Duration::from_nanos(rtt.nanos() * PAUSE.0))
        });
        let paused = self.last.is_none_or(|last| at.since(last) > pause);
        match self.writes.last_mut().filter(|_| !paused && !self.short) {
            Some(write) => write.1 = end,
            None => self.writes.push((at.since(begin), end)),
        }
        self.frame = self.frame.max(frame);
        if frame <= LONGEST_PLAIN {
            self.full = self.full.max(segment.data);
        }
        let full = match self.frame <= LONGEST_PLAIN {
            true => self.full.max(SHORTEST_FULL),
            false => USUAL_FULL,
        };
        (self.bytes, self.last, self.short) = (end, Some(at), !segment.data.is_multiple_of(full));
    }

    /// What its application writes; without end where the capture ended in the middle.
    pub(super) fn application(&self, end: Instant, round_trip: Duration) -> (Writes, bool) {
        let mut writes = self.writes.clone();
        let lasts = self
            .last
            .is_some_and(|last| end.since(last) < PAUSE.1.max(round_trip + round_trip));
        let endless = lasts && !self.closed && !self.short;
        if let Some(last) = writes.last_mut().filter(|_| endless) {
            last.1 = u64::MAX;
        }
        // What it wrote as soon as it was connected it writes so again.
        let connected = self.handshake.unwrap_or_default() + Duration::from_millis(5);
        if let Some(first) = writes.first_mut().filter(|first| first.0 <= connected) {
            first.0 = Duration::ZERO;
        }
        (writes, endless)
    }
}
