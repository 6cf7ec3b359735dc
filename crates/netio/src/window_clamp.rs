//! The window-clamping stage of the packet loop: it lowers the window field of ACKs that pass.
//!
//! The data of a connection passes by one path of a worker and its ACKs by another. For a
//! connection with a limit, the field in its ACKs is lowered to the limit (RFC 9293) and the
//! checksum is updated (RFC 1624). [`crate::bpf::windows`] does the same at an interface. This
//! stage is for frames that pass this process anyhow, and uses the classes of its classifier.
//!
//! A connection is tracked from its SYN on, which carries the window scale (RFC 7323). One whose
//! SYN was not seen is counted and left alone. A window is never raised.
//!
//! It fails open. Limits expire after [`LIMIT_LIFETIME`] unless they are set again. While the
//! data's path is disabled no window is rewritten. When the process hangs or ends, frames take the
//! kernel's own way.

use crate::checksum;
use crate::tcp::{Agreed, Carried, Connection, Ends, Limit, Options};
use engine::header::{Family, FlowKey, Fragment, Headers};
use engine::units::{Bytes, Duration, Instant};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// How long limits stay in force after [`WindowClamp::set_limits`]. A controller that hangs
/// clamps nobody.
pub const LIMIT_LIFETIME: Duration = Duration::from_secs(1);

/// Connections tracked at most. When the table is full, a new connection replaces those that have
/// been idle for [`IDLE`], or is left alone.
const MAX_FLOWS: usize = 16_384;
const IDLE: Duration = Duration::from_secs(60);
/// Idle connections are evicted at most this often, however many SYNs arrive.
const EVICTION_INTERVAL: Duration = Duration::from_secs(1);

const TCP: u8 = 6;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
/// NOP, NOP, timestamps: how common kernels begin the options of a segment without SYN once both
/// sides have agreed on timestamps.
const TIMESTAMP_OPTION: [u8; 4] = [1, 1, 8, 10];
/// A timestamp that has not been echoed for this long is given up.
const ECHO_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection and its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassConnection {
    /// The class, as an index into the list of clamped classes.
    pub class: usize,
    /// The connection.
    pub connection: Connection,
}

/// The connections of one pair of paths at one time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClampSnapshot {
    /// When it was taken.
    pub at: Instant,
    /// All bytes offered to the data's path so far, of whatever protocol.
    pub carried: Bytes,
    /// The same of the path of the ACKs.
    pub carried_back: Bytes,
    /// The connections that can be clamped.
    pub connections: Vec<ClassConnection>,
    /// For each clamped class, its connections that are left alone because their SYN was not seen.
    pub left_alone: Vec<u64>,
}

/// The size of a frame, or of all segments of a super-frame together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameSize {
    /// Its bytes, in the path's framing.
    pub len: Bytes,
    /// Its segments.
    pub segments: u64,
}

/// Which of the two paths a frame takes, seen from the side whose windows are clamped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PathRole {
    /// Data towards that side.
    Data,
    /// ACKs from that side.
    Acks,
}

/// Whether a segment may enter its connection into the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    /// A SYN: a closed connection between the same ends is replaced.
    Fresh,
    /// Data of a clamped class without a SYN, tracked to be counted.
    Counted,
    /// Only connections in the table matter.
    No,
}

/// A connection's two ends as headers carry them, the clamped side first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct FlowEnds {
    family: Family,
    addresses: [u128; 2],
    ports: [u16; 2],
}

impl FlowEnds {
    /// The ends of a segment on this path.
    fn of(key: &FlowKey, role: PathRole) -> Option<Self> {
        let (source, target) = (key.source_port?, key.destination_port?);
        let (mut addresses, mut ports) = ([key.source, key.destination], [source, target]);
        if role == PathRole::Data {
            addresses.reverse();
            ports.reverse();
        }
        Some(Self {
            family: key.family,
            addresses,
            ports,
        })
    }

    fn new(ends: &Ends) -> Self {
        let both = [ends.here, ends.there];
        Self {
            family: if ends.here.is_ipv4() {
                Family::V4
            } else {
                Family::V6
            },
            addresses: both.map(|end| match end.ip() {
                IpAddr::V4(ip) => u128::from(ip.to_bits()),
                IpAddr::V6(ip) => ip.to_bits(),
            }),
            ports: both.map(|end| end.port()),
        }
    }

    fn ends(&self) -> Ends {
        let end = |n: usize| {
            let ip = match self.family {
                Family::V6 => IpAddr::V6(Ipv6Addr::from_bits(self.addresses[n])),
                Family::V4 | Family::Other => IpAddr::V4(Ipv4Addr::from_bits(self.addresses[n] as u32)),
            };
            SocketAddr::new(ip, self.ports[n])
        };
        Ends {
            here: end(0),
            there: end(1),
        }
    }
}

/// The fields of a TCP header that this stage reads.
#[derive(Clone, Copy, Debug)]
struct TcpSegment<'a> {
    header: &'a [u8],
    flags: u8,
}

impl<'a> TcpSegment<'a> {
    /// The segment in a frame with these headers; none unless it is whole and TCP.
    fn of(headers: &Headers, frame: &'a [u8]) -> Option<Self> {
        if headers.key.protocol != TCP || headers.key.fragment != Fragment::Whole {
            return None;
        }
        let rest = frame.get(usize::from(headers.l4?)..)?;
        let len = usize::from(rest.get(12)? >> 4) * 4;
        let header = rest.get(..len).filter(|header| header.len() >= 20)?;
        Some(Self {
            header,
            flags: header[13],
        })
    }

    fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    fn word(&self, at: usize) -> u32 {
        self.header[at..]
            .first_chunk()
            .map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }

    fn acknowledged(&self) -> u32 {
        self.word(8)
    }

    fn window(&self) -> u16 {
        u16::from_be_bytes([self.header[14], self.header[15]])
    }

    fn timestamps(&self) -> Option<Timestamps> {
        let has = self.header.len() >= 32 && self.header[20..24] == TIMESTAMP_OPTION;
        has.then(|| Timestamps {
            value: self.word(24),
            echo: self.word(28),
        })
    }
}

/// RFC 7323's TSval and TSecr.
#[derive(Clone, Copy, Debug)]
struct Timestamps {
    value: u32,
    echo: u32,
}

/// A SYN that passed.
#[derive(Clone, Copy, Debug)]
struct SeenSyn {
    at: Instant,
    options: Options,
}

/// The window field that a connection may carry at most.
#[derive(Clone, Copy, Debug)]
struct FieldLimit {
    field: u16,
    /// The right edge of the window must not move left.
    keeps_right_edge: bool,
}

/// A timestamp whose echo is awaited.
#[derive(Clone, Copy, Debug)]
struct PendingEcho {
    value: u32,
    sent: Instant,
}

/// The state of one tracked connection.
#[derive(Clone, Copy, Debug, Default)]
struct ClampedFlow {
    class: Option<usize>,
    /// The SYN of the clamped side, and that of the other side.
    own_syn: Option<SeenSyn>,
    peer_syn: Option<SeenSyn>,
    sent: Carried,
    received: Carried,
    /// The window field as it left last.
    advertised: u16,
    /// The furthest right edge that was advertised to the peer.
    right_edge: Option<u32>,
    limit: Option<FieldLimit>,
    pending_echo: Option<PendingEcho>,
    /// The time from the SYN-ACK of the clamped side to the peer's answer, where the peer began.
    answered: Option<Duration>,
    /// The sum of all measured round trips, and their number.
    round_trips: (Duration, u64),
    last_seen: Instant,
    closes: bool,
}

impl ClampedFlow {
    fn agreed(&self) -> Option<Agreed> {
        Some(self.own_syn?.options.agree(self.peer_syn?.options))
    }

    fn count(&mut self, now: Instant, segment: &TcpSegment<'_>, size: FrameSize, role: PathRole) {
        let (carried, syn, closing) = match role {
            PathRole::Acks => (&mut self.sent, &mut self.own_syn, RST),
            PathRole::Data => (&mut self.received, &mut self.peer_syn, RST | FIN),
        };
        carried.bytes += size.len;
        carried.frames += size.segments;
        carried.segments += size.segments;
        if segment.has(SYN) {
            *syn = Some(SeenSyn {
                at: now,
                options: Options::read(segment.header),
            });
        }
        self.closes |= segment.has(closing);
        self.last_seen = now;
    }

    /// The window field to write into this segment; none if its own may stay.
    fn clamped_field(&mut self, segment: &TcpSegment<'_>) -> Option<u16> {
        self.advertised = segment.window();
        let (limit, Agreed { scale, .. }) = (self.limit?, self.agreed()?);
        let acknowledged = segment.acknowledged();
        let mut most = limit.field;
        if let Some(edge) = self.right_edge.filter(|_| limit.keeps_right_edge) {
            let promised = edge.wrapping_sub(acknowledged);
            if promised.cast_signed() > 0 {
                most = most.max(promised.div_ceil(1 << scale).min(0xffff) as u16);
            }
        }
        let field = self.advertised.min(most);
        let edge = acknowledged.wrapping_add(u32::from(field) << scale);
        if self
            .right_edge
            .is_none_or(|before| edge.wrapping_sub(before).cast_signed() > 0)
        {
            self.right_edge = Some(edge);
        }
        (field < self.advertised).then(|| {
            self.advertised = field;
            field
        })
    }

    /// A segment of the peer. The first after a SYN-ACK answers it at once.
    fn see_answer(&mut self, now: Instant, segment: &TcpSegment<'_>) {
        if let (Some(own), Some(peer), None) = (self.own_syn, self.peer_syn, self.answered)
            && own.at >= peer.at
            && !segment.has(SYN)
        {
            self.answered = Some(now.since(own.at));
        }
    }

    fn connection(&self, ends: Ends) -> Option<Connection> {
        let Agreed { scale, mss } = self.agreed()?;
        let (own, peer) = (self.own_syn?.at, self.peer_syn?.at);
        Some(Connection {
            ends,
            sent: self.sent,
            received: self.received,
            scale,
            mss,
            window: Bytes::new(u64::from(self.advertised) << scale),
            handshake: if peer > own {
                Some(peer.since(own))
            } else {
                self.answered
            },
            round_trips: self.round_trips,
            closes: self.closes,
        })
    }
}

/// The clamping stage of one pair of paths.
#[derive(Debug)]
pub struct WindowClamp {
    flows: HashMap<FlowEnds, ClampedFlow>,
    classes: usize,
    /// Until when limits are in force.
    limits_expire: Instant,
    last_eviction: Instant,
}

impl WindowClamp {
    /// For this number of clamped classes.
    pub fn new(classes: usize) -> Self {
        Self {
            flows: HashMap::new(),
            classes,
            limits_expire: Instant::START,
            last_eviction: Instant::START,
        }
    }

    /// Forgets all connections and limits: whose SYN it has not seen since, it leaves alone.
    pub fn forget(&mut self) {
        *self = Self::new(self.classes);
    }

    /// Tracks a frame of the data's path. `class` is its index in the list of clamped classes;
    /// none if its class is not clamped.
    pub fn on_data(
        &mut self,
        now: Instant,
        headers: &Headers,
        frame: &[u8],
        size: FrameSize,
        class: Option<usize>,
    ) {
        let ends = FlowEnds::of(&headers.key, PathRole::Data);
        let Some((key, segment)) = ends.zip(TcpSegment::of(headers, frame)) else {
            return;
        };
        let entry = match class {
            _ if segment.has(SYN) => Entry::Fresh,
            Some(_) if !segment.has(RST | FIN) => Entry::Counted,
            _ => Entry::No,
        };
        let Some(flow) = self.flow(now, key, entry) else {
            return;
        };
        flow.count(now, &segment, size, PathRole::Data);
        flow.class = class;
        flow.see_answer(now, &segment);
        if let (Some(pending), Some(stamps)) = (flow.pending_echo, segment.timestamps())
            && stamps.echo.wrapping_sub(pending.value).cast_signed() >= 0
        {
            flow.round_trips.0 += now.since(pending.sent);
            flow.round_trips.1 += 1;
            flow.pending_echo = None;
        }
    }

    /// Tracks a frame of the ACKs' path. Lowers its window if its connection has a limit and the
    /// data's path is `enabled`. `unfinished`: the card will compute the checksum, so it must not
    /// be updated here.
    pub fn clamp_ack(&mut self, now: Instant, frame: &mut [u8], unfinished: bool, enabled: bool) {
        let headers = &Headers::parse(frame, 0);
        // Only the data direction is clamped, so the framing and super-frames of this one do not
        // matter.
        let size = FrameSize {
            len: Bytes::new(frame.len() as u64),
            segments: 1,
        };
        let ends = FlowEnds::of(&headers.key, PathRole::Acks);
        let Some((key, segment)) = ends.zip(TcpSegment::of(headers, frame)) else {
            return;
        };
        let in_force = enabled && now < self.limits_expire;
        let is_syn = segment.has(SYN);
        let entry = if is_syn { Entry::Fresh } else { Entry::No };
        let Some(flow) = self.flow(now, key, entry) else {
            return;
        };
        flow.count(now, &segment, size, PathRole::Acks);
        if is_syn {
            // The window of a SYN is never scaled (RFC 7323).
            return;
        }
        let pending = flow
            .pending_echo
            .is_some_and(|pending| now.since(pending.sent) < ECHO_TIMEOUT);
        if let Some(stamps) = segment.timestamps().filter(|_| !pending) {
            flow.pending_echo = Some(PendingEcho {
                value: stamps.value,
                sent: now,
            });
        }
        if !in_force {
            flow.advertised = segment.window();
            return;
        }
        let (old, new) = (segment.window(), flow.clamped_field(&segment));
        let at = usize::from(headers.l4.unwrap_or_default());
        if let Some((new, header)) = new.zip(frame.get_mut(at..at + 20)) {
            header[14..16].copy_from_slice(&new.to_be_bytes());
            if !unfinished {
                let field = checksum::update(u16::from_be_bytes([header[16], header[17]]), old, new);
                header[16..18].copy_from_slice(&field.to_be_bytes());
            }
        }
    }

    /// The connection between these ends, entered if the segment may enter it.
    fn flow(&mut self, now: Instant, key: FlowEnds, entry: Entry) -> Option<&mut ClampedFlow> {
        if entry != Entry::No && !self.flows.contains_key(&key) {
            if self.flows.len() >= MAX_FLOWS {
                self.evict(now);
            }
            if self.flows.len() < MAX_FLOWS {
                self.flows.insert(key, ClampedFlow::default());
            }
        }
        let flow = self.flows.get_mut(&key)?;
        if entry == Entry::Fresh && flow.closes {
            *flow = ClampedFlow::default();
        }
        Some(flow)
    }

    fn evict(&mut self, now: Instant) {
        if now.since(self.last_eviction) >= EVICTION_INTERVAL {
            self.last_eviction = now;
            self.flows
                .retain(|_, flow| !flow.closes && now.since(flow.last_seen) < IDLE);
        }
    }

    /// The connections as they are now, and what the paths of data and ACKs have carried. Closed
    /// connections are forgotten.
    pub fn snapshot(&mut self, now: Instant, [carried, carried_back]: [Bytes; 2]) -> ClampSnapshot {
        let mut snapshot = ClampSnapshot {
            at: now,
            carried,
            carried_back,
            left_alone: vec![0; self.classes],
            ..ClampSnapshot::default()
        };
        self.flows.retain(|_, flow| !flow.closes);
        for (key, flow) in &self.flows {
            match (flow.class, flow.connection(key.ends())) {
                (Some(class), Some(connection)) => {
                    snapshot.connections.push(ClassConnection { class, connection });
                }
                (Some(class), None) if flow.own_syn.is_none() && flow.peer_syn.is_none() => {
                    if let Some(count) = snapshot.left_alone.get_mut(class) {
                        *count += 1;
                    }
                }
                _ => {}
            }
        }
        snapshot
    }

    /// Sets the limits of these connections; `None` lifts one. All others keep theirs. All limits
    /// stay in force for [`LIMIT_LIFETIME`] from now.
    pub fn set_limits(&mut self, now: Instant, limits: &[(Ends, Option<Limit>)]) {
        self.limits_expire = now + LIMIT_LIFETIME;
        for (ends, limit) in limits {
            if let Some(flow) = self.flows.get_mut(&FlowEnds::new(ends)) {
                flow.limit = limit.map(|limit| FieldLimit {
                    field: limit.field(),
                    keeps_right_edge: limit.polite,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HERE: &str = "10.0.0.1:40000";
    const THERE: &str = "192.0.2.1:443";
    const ACK: u8 = 16;
    /// MSS 1460, SACK permitted, timestamps, NOP, scale 7.
    const OPTIONS: [u8; 20] = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7];

    fn at(ms: u64) -> Instant {
        Instant::START + Duration::from_millis(ms)
    }

    /// A frame of Ethernet, IP and TCP with a right checksum.
    fn frame(from: &str, to: &str, flags: u8, (ack, window): (u32, u16), options: &[u8]) -> Vec<u8> {
        let (from, to): (SocketAddr, SocketAddr) =
            (from.parse().expect("an end"), to.parse().expect("an end"));
        let len = (20 + options.len()) as u16;
        let mut tcp = [
            &from.port().to_be_bytes()[..],
            &to.port().to_be_bytes(),
            &[0, 0, 0, 1],
            &ack.to_be_bytes(),
            &[((len / 4) << 4) as u8, flags],
            &window.to_be_bytes(),
            &[0; 4],
            options,
        ]
        .concat();
        let (header, pseudo) = match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, TCP, 0, 0];
                ip[2..4].copy_from_slice(&(20 + len).to_be_bytes());
                ip.extend([from.octets(), to.octets()].concat());
                (
                    [&[0; 12][..], &[8, 0], &ip].concat(),
                    [from.octets(), to.octets()].concat(),
                )
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let mut ip = vec![0x60, 0, 0, 0, 0, 0, TCP, 64];
                ip[4..6].copy_from_slice(&len.to_be_bytes());
                ip.extend([from.octets(), to.octets()].concat());
                (
                    [&[0; 12][..], &[0x86, 0xdd], &ip].concat(),
                    [from.octets(), to.octets()].concat(),
                )
            }
            _ => panic!("two families"),
        };
        let sum = checksum::add(u64::from(TCP) + u64::from(len), &pseudo);
        let sum = !checksum::fold(checksum::add(sum, &tcp));
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        [header, tcp].concat()
    }

    /// The window field, and whether the checksum is right.
    fn window(frame: &[u8]) -> (u16, bool) {
        let headers = Headers::parse(frame, 0);
        let l4 = usize::from(headers.l4.expect("TCP"));
        let addresses = match headers.key.family {
            Family::V6 => &frame[22..54],
            _ => &frame[26..34],
        };
        let pseudo = checksum::add(u64::from(TCP) + (frame.len() - l4) as u64, addresses);
        let right = checksum::fold(checksum::add(pseudo, &frame[l4..])) == 0xffff;
        (u16::from_be_bytes([frame[l4 + 14], frame[l4 + 15]]), right)
    }

    fn ends(here: &str, there: &str) -> Ends {
        Ends {
            here: here.parse().expect("an end"),
            there: there.parse().expect("an end"),
        }
    }

    fn deliver(clamp: &mut WindowClamp, ms: u64, frame: &[u8], class: Option<usize>) {
        let size = FrameSize {
            len: Bytes::new(frame.len() as u64),
            segments: 1,
        };
        clamp.on_data(at(ms), &Headers::parse(frame, 0), frame, size, class);
    }

    /// A connection whose SYN passed at 0 ms and whose SYN-ACK passed at 20 ms.
    fn established(here: &str, there: &str) -> WindowClamp {
        let mut clamp = WindowClamp::new(2);
        clamp.clamp_ack(
            at(0),
            &mut frame(here, there, SYN, (0, 64_240), &OPTIONS),
            false,
            true,
        );
        let syn_ack = frame(there, here, SYN | ACK, (1, 65_160), &OPTIONS);
        deliver(&mut clamp, 20, &syn_ack, Some(1));
        clamp
    }

    fn limit(bytes: u64, polite: bool) -> Option<Limit> {
        Some(Limit {
            window: Bytes::new(bytes),
            scale: 7,
            polite,
        })
    }

    /// The window field of an ACK after it has passed.
    fn sent(clamp: &mut WindowClamp, ms: u64, (ack, window_was): (u32, u16)) -> u16 {
        let mut frame = frame(HERE, THERE, ACK, (ack, window_was), &[]);
        clamp.clamp_ack(at(ms), &mut frame, false, true);
        let (window, right) = window(&frame);
        assert!(right, "the checksum of {frame:?}");
        window
    }

    #[test]
    fn windows_are_clamped_in_units_of_the_scale_for_a_second() {
        let mut clamp = established(HERE, THERE);
        assert_eq!(sent(&mut clamp, 30, (1, 500)), 500, "no limit is set");
        clamp.set_limits(at(40), &[(ends(HERE, THERE), limit(6_000, false))]);
        assert_eq!(
            sent(&mut clamp, 50, (1, 500)),
            47,
            "6000 bytes in units of 128, rounded up"
        );
        assert_eq!(sent(&mut clamp, 60, (1, 30)), 30, "never raised");
        let snapshot = clamp.snapshot(at(60), [Bytes::new(7), Bytes::new(2)]);
        let ClassConnection { class, connection } = snapshot.connections[0];
        assert_eq!(
            (
                class,
                snapshot.carried,
                snapshot.carried_back,
                snapshot.left_alone
            ),
            (1, Bytes::new(7), Bytes::new(2), vec![0, 0])
        );
        assert_eq!(
            (connection.scale, connection.mss, connection.window.get()),
            (7, 1448, 30 << 7)
        );
        assert_eq!(connection.handshake, Some(Duration::from_millis(20)));
        assert_eq!(sent(&mut clamp, 1_041, (1, 500)), 500, "the limit has expired");
        clamp.set_limits(at(1_050), &[(ends(HERE, THERE), None)]);
        assert_eq!(sent(&mut clamp, 1_060, (1, 500)), 500, "lifted");
    }

    /// A server behind the gateway: its client began, and its first ACK comes after a round trip.
    #[test]
    fn a_handshake_is_measured_whoever_began_the_connection() {
        let mut clamp = WindowClamp::new(1);
        let size = FrameSize {
            len: Bytes::new(74),
            segments: 1,
        };
        let data = |ms: u64, flags: u8, clamp: &mut WindowClamp| {
            let options = if flags & SYN != 0 { &OPTIONS[..] } else { &[] };
            let frame = frame(THERE, HERE, flags, (1, 500), options);
            clamp.on_data(at(ms), &Headers::parse(&frame, 0), &frame, size, Some(0));
        };
        data(10, SYN, &mut clamp);
        let mut answer = frame(HERE, THERE, SYN | ACK, (1, 500), &OPTIONS);
        clamp.clamp_ack(at(11), &mut answer, false, true);
        data(41, ACK, &mut clamp);
        data(90, ACK, &mut clamp);
        let snapshot = clamp.snapshot(at(100), [Bytes::ZERO; 2]);
        let handshake = snapshot.connections[0].connection.handshake;
        assert_eq!(handshake, Some(Duration::from_millis(30)));
    }

    #[test]
    fn a_disabled_path_and_an_unfinished_checksum_are_left_alone() {
        let mut clamp = established(HERE, THERE);
        clamp.set_limits(at(40), &[(ends(HERE, THERE), limit(6_000, false))]);
        let whole = frame(HERE, THERE, ACK, (1, 500), &[]);
        let mut off = whole.clone();
        clamp.clamp_ack(at(50), &mut off, false, false);
        assert_eq!(off, whole);
        let mut unfinished = whole.clone();
        clamp.clamp_ack(at(50), &mut unfinished, true, true);
        assert_eq!(window(&unfinished).0, 47);
        assert_eq!(unfinished[50..52], whole[50..52], "the card will compute it");
    }

    #[test]
    fn a_polite_limit_keeps_the_right_edge() {
        let mut clamp = established(HERE, THERE);
        clamp.set_limits(at(40), &[(ends(HERE, THERE), limit(64_000, true))]);
        assert_eq!(sent(&mut clamp, 50, (1_000, 600)), 500);
        clamp.set_limits(at(60), &[(ends(HERE, THERE), limit(2_560, true))]);
        assert_eq!(
            sent(&mut clamp, 70, (33_000, 600)),
            250,
            "32000 bytes less than before"
        );
        assert_eq!(sent(&mut clamp, 80, (65_000, 600)), 20);
    }

    #[test]
    fn a_connection_without_a_seen_syn_is_counted_and_left_alone() {
        let mut clamp = WindowClamp::new(2);
        deliver(&mut clamp, 1, &frame(THERE, HERE, ACK, (1, 500), &[]), Some(0));
        deliver(
            &mut clamp,
            2,
            &frame("192.0.2.9:80", HERE, ACK, (1, 500), &[]),
            None,
        );
        clamp.set_limits(at(3), &[(ends(HERE, THERE), limit(6_000, false))]);
        assert_eq!(sent(&mut clamp, 4, (1, 500)), 500);
        let snapshot = clamp.snapshot(at(5), [Bytes::ZERO; 2]);
        assert_eq!((snapshot.left_alone, snapshot.connections.len()), (vec![1, 0], 0));
    }

    #[test]
    fn a_connection_closes_with_the_peers_fin_and_may_be_reused() {
        let mut clamp = established(HERE, THERE);
        clamp.clamp_ack(
            at(30),
            &mut frame(HERE, THERE, FIN | ACK, (1, 500), &[]),
            false,
            true,
        );
        assert_eq!(
            clamp.snapshot(at(31), [Bytes::ZERO; 2]).connections.len(),
            1,
            "it may still receive"
        );
        deliver(
            &mut clamp,
            40,
            &frame(THERE, HERE, FIN | ACK, (1, 500), &[]),
            Some(1),
        );
        let unscaled = [2, 4, 5, 0xb4];
        clamp.clamp_ack(
            at(50),
            &mut frame(HERE, THERE, SYN, (0, 1_000), &unscaled),
            false,
            true,
        );
        deliver(
            &mut clamp,
            60,
            &frame(THERE, HERE, SYN | ACK, (1, 1_000), &OPTIONS),
            Some(1),
        );
        let snapshot = clamp.snapshot(at(61), [Bytes::ZERO; 2]);
        assert_eq!(snapshot.connections[0].connection.scale, 0);
        assert_eq!(snapshot.connections[0].connection.received.frames, 1);
    }

    #[test]
    fn round_trips_are_measured_by_timestamps() {
        let mut clamp = established(HERE, THERE);
        let stamps = |value: u32, echo: u32| {
            [&TIMESTAMP_OPTION[..], &value.to_be_bytes(), &echo.to_be_bytes()].concat()
        };
        clamp.clamp_ack(
            at(100),
            &mut frame(HERE, THERE, ACK, (1, 500), &stamps(77, 0)),
            false,
            true,
        );
        deliver(
            &mut clamp,
            110,
            &frame(THERE, HERE, ACK, (1, 500), &stamps(5, 76)),
            Some(1),
        );
        deliver(
            &mut clamp,
            125,
            &frame(THERE, HERE, ACK, (1, 500), &stamps(6, 77)),
            Some(1),
        );
        let connection = clamp.snapshot(at(126), [Bytes::ZERO; 2]).connections[0].connection;
        assert_eq!(connection.round_trips, (Duration::from_millis(25), 1));
    }

    #[test]
    fn a_syn_flood_is_bounded_and_active_connections_stay() {
        let mut clamp = established(HERE, THERE);
        let flood = |clamp: &mut WindowClamp, ms: u64, net: u8| {
            for n in 0..MAX_FLOWS as u32 {
                let from = format!("10.{net}.{}.{}:{}", n >> 8 & 63, n & 255, 1_000 + (n >> 14));
                clamp.clamp_ack(
                    at(ms),
                    &mut frame(&from, THERE, SYN, (0, 1_000), &OPTIONS),
                    false,
                    true,
                );
            }
        };
        flood(&mut clamp, 1_000, 1);
        assert_eq!(clamp.flows.len(), MAX_FLOWS);
        let ack = frame(THERE, HERE, ACK, (1, 500), &[]);
        deliver(&mut clamp, 60_000, &ack, Some(1));
        flood(&mut clamp, 62_000, 2);
        assert_eq!(clamp.flows.len(), MAX_FLOWS, "idle ones were evicted");
        assert_eq!(clamp.snapshot(at(62_001), [Bytes::ZERO; 2]).connections.len(), 1);
    }

    #[test]
    fn ipv6_is_clamped_likewise() {
        let (here, there) = ("[fd00::1]:40000", "[2001:db8::1]:443");
        let mut clamp = established(here, there);
        clamp.set_limits(at(40), &[(ends(here, there), limit(6_000, false))]);
        let mut frame = frame(here, there, ACK, (1, 500), &[]);
        clamp.clamp_ack(at(50), &mut frame, false, true);
        assert_eq!(window(&frame), (47, true));
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(bytes in prop::collection::vec(any::<u8>(), 0..120), cut in 0..54_usize) {
            let mut clamp = established(HERE, THERE);
            clamp.set_limits(at(40), &[(ends(HERE, THERE), limit(6_000, false))]);
            let mut whole = frame(HERE, THERE, ACK, (1, 500), &OPTIONS);
            whole.truncate(whole.len() - cut);
            for mut frame in [bytes, whole] {
                let len = frame.len();
                deliver(&mut clamp, 50, &frame, Some(1));
                clamp.clamp_ack(at(51), &mut frame, false, true);
                prop_assert_eq!(frame.len(), len);
            }
        }
    }
}
