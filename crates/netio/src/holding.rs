//! Windows of TCP connections, held by the packet loop: for connections whose data goes by one path of a worker, and whose
//! acknowledgments by another, the window field of these is lowered on its way (RFC 9293; the checksum by RFC 1624).
//!
//! What [`crate::bpf::windows`] does at an interface, for frames that pass this process anyhow, and with the classes of its
//! classifier. Connections are entered at their SYN, which tells how windows are scaled; one whose SYN was not seen is left alone and
//! counted. Windows are never raised. Nothing is held without a word from whoever decides within [`HELD`], nor while the
//! data's path is switched off; and when the process hangs or ends, frames take the kernel's own way and nothing is rewritten.

use crate::checksum;
use crate::pool::Pool;
use crate::tcp::{Agreed, Carried, Connection, Ends, Limit, Options};
use engine::header::{Family, FlowKey, Fragment, Headers};
use engine::packet::Buffer;
use engine::units::{Bytes, Duration, Instant};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// How long windows stay held after the last word. Who decides and hangs holds nobody.
pub const HELD: Duration = Duration::from_secs(1);

/// How many connections are known at most; a new one beyond takes the place of those that were silent for longer than [`SILENT`], or is
/// left alone.
const MOST: usize = 16_384;
const SILENT: Duration = Duration::from_secs(60);
/// How often room is made at most, however many SYNs come.
const SPARING: Duration = Duration::from_secs(1);

const TCP: u8 = 6;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
/// NOP, NOP, timestamps: how every kernel begins the options of a segment without SYN, where both sides have them.
const STAMPED: [u8; 4] = [1, 1, 8, 10];
/// A timestamp that was not answered for so long is given up.
const UNANSWERED: Duration = Duration::from_secs(1);

/// What is seen of the connections of one pair of paths.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Watched {
    /// When.
    pub at: Instant,
    /// What has gone by the data's path so far, whatever it was.
    pub carried: Bytes,
    /// The connections that can be held, each with the place of its class in the list of those that are.
    pub connections: Vec<(usize, Connection)>,
    /// Connections of each of these classes that are left alone: their SYN was not seen.
    pub left_alone: Vec<u64>,
}

/// A connection's ends as headers have them, the side whose windows are held first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    family: Family,
    addresses: [u128; 2],
    ports: [u16; 2],
}

impl Key {
    /// Of a segment from that side, or to it.
    fn of(key: &FlowKey, from_here: bool) -> Option<Self> {
        let (source, target) = (key.source_port?, key.destination_port?);
        let (addresses, ports) = ([key.source, key.destination], [source, target]);
        let turned = |[a, b]: [u128; 2]| [b, a];
        Some(Self {
            family: key.family,
            addresses: if from_here { addresses } else { turned(addresses) },
            ports: if from_here { ports } else { [target, source] },
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

/// The fields of a TCP header that matter here.
#[derive(Clone, Copy, Debug)]
struct Segment<'a> {
    header: &'a [u8],
    flags: u8,
}

impl<'a> Segment<'a> {
    /// Of a frame with these headers; none if it is no whole TCP segment.
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

    fn word(&self, at: usize) -> u32 {
        self.header[at..]
            .first_chunk()
            .map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }

    fn window(&self) -> u16 {
        u16::from_be_bytes([self.header[14], self.header[15]])
    }

    /// The timestamp that it carries and the one that it answers.
    fn stamps(&self) -> Option<(u32, u32)> {
        let has = self.header.len() >= 32 && self.header[20..24] == STAMPED;
        has.then(|| (self.word(24), self.word(28)))
    }
}

/// The options of a SYN, and when it passed.
type Syn = Option<(Instant, Options)>;

/// What is known of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    member: Option<usize>,
    leaving: Syn,
    coming: Syn,
    sent: Carried,
    received: Carried,
    advertised: u16,
    /// The right edge that the other side was told at most.
    edge: Option<u32>,
    limit: Option<(u16, bool)>,
    stamp: Option<(u32, Instant)>,
    round_trips: (Duration, u64),
    seen: Instant,
    closes: bool,
}

impl Flow {
    fn agreed(&self) -> Option<Agreed> {
        let ((_, here), (_, there)) = (self.leaving?, self.coming?);
        Some(here.agree(there))
    }

    fn note(&mut self, now: Instant, segment: &Segment<'_>, len: Bytes, segments: u64, leaves: bool) {
        let (carried, syn, end) = if leaves {
            (&mut self.sent, &mut self.leaving, RST)
        } else {
            (&mut self.received, &mut self.coming, RST | FIN)
        };
        carried.bytes += len;
        carried.frames += segments;
        carried.segments += segments;
        if segment.flags & SYN != 0 {
            *syn = Some((now, Options::read(segment.header)));
        }
        self.closes |= segment.flags & end != 0;
        self.seen = now;
    }

    /// The field that is to be in this segment instead of its own; none if it may stay.
    fn held(&mut self, segment: &Segment<'_>) -> Option<u16> {
        self.advertised = segment.window();
        let ((limit, polite), Agreed { scale, .. }) = (self.limit?, self.agreed()?);
        let acknowledged = segment.word(8);
        let mut limit = limit;
        if let Some(edge) = self.edge.filter(|_| polite) {
            let kept = edge.wrapping_sub(acknowledged);
            if kept.cast_signed() > 0 {
                limit = limit.max(kept.div_ceil(1 << scale).min(0xffff) as u16);
            }
        }
        let field = self.advertised.min(limit);
        let edge = acknowledged.wrapping_add(u32::from(field) << scale);
        if self
            .edge
            .is_none_or(|before| edge.wrapping_sub(before).cast_signed() > 0)
        {
            self.edge = Some(edge);
        }
        (field < self.advertised).then(|| {
            self.advertised = field;
            field
        })
    }

    fn connection(&self, ends: Ends) -> Option<Connection> {
        let Agreed { scale, mss } = self.agreed()?;
        let (asked, answered) = (self.leaving?.0, self.coming?.0);
        Some(Connection {
            ends,
            sent: self.sent,
            received: self.received,
            scale,
            mss,
            window: Bytes::new(u64::from(self.advertised) << scale),
            handshake: (answered > asked).then(|| answered.since(asked)),
            round_trips: self.round_trips,
            closes: self.closes,
        })
    }
}

/// The connections of one pair of paths.
#[derive(Debug)]
pub(crate) struct Holding {
    flows: HashMap<Key, Flow>,
    members: usize,
    /// Until when limits are in force.
    until: Instant,
    made_room: Instant,
}

impl Holding {
    /// Of so many classes.
    pub(crate) fn new(members: usize) -> Self {
        Self {
            flows: HashMap::new(),
            members,
            until: Instant::START,
            made_room: Instant::START,
        }
    }

    /// A frame of the data's path, of the class at this place in the list, if it is there. `len` and `segments` are all of a super-frame's.
    pub(crate) fn comes(
        &mut self,
        now: Instant,
        headers: &Headers,
        frame: &[u8],
        (len, segments): (Bytes, u64),
        member: Option<usize>,
    ) {
        let Some((key, segment)) = Key::of(&headers.key, false).zip(Segment::of(headers, frame)) else {
            return;
        };
        // One of a class that is held is entered without SYN too, to be counted.
        let enter = segment.flags & SYN != 0 || (member.is_some() && segment.flags & (RST | FIN) == 0);
        let Some(flow) = self.flow(now, key, enter, segment.flags & SYN != 0) else {
            return;
        };
        flow.note(now, &segment, len, segments, false);
        flow.member = member;
        if let (Some((stamp, at)), Some((_, answered))) = (flow.stamp, segment.stamps())
            && answered.wrapping_sub(stamp).cast_signed() >= 0
        {
            flow.round_trips.0 += now.since(at);
            flow.round_trips.1 += 1;
            flow.stamp = None;
        }
    }

    /// A frame of the acknowledgments' path, with what is left to do for it; its window is lowered if that is so ordered, and `holds`.
    pub(crate) fn leave(&mut self, now: Instant, pool: &mut Pool, slot: Buffer, holds: bool) {
        let unfinished = pool.offload(slot).checksum.is_some();
        let frame = pool.bytes_mut(slot);
        // What it weighs is of no interest: this side's data is not held.
        self.leaves(now, frame, unfinished, holds);
    }

    fn leaves(&mut self, now: Instant, frame: &mut [u8], unfinished: bool, holds: bool) {
        let headers = &Headers::parse(frame, 0);
        let (len, segments) = (Bytes::new(frame.len() as u64), 1);
        let Some((key, segment)) = Key::of(&headers.key, true).zip(Segment::of(headers, frame)) else {
            return;
        };
        let in_force = holds && now < self.until;
        let begins = segment.flags & SYN != 0;
        let Some(flow) = self.flow(now, key, begins, begins) else {
            return;
        };
        flow.note(now, &segment, len, segments, true);
        if begins {
            // Its window is never scaled.
            return;
        }
        let waits = flow.stamp.is_some_and(|(_, at)| now.since(at) < UNANSWERED);
        if let Some((stamp, _)) = segment.stamps().filter(|_| !waits) {
            flow.stamp = Some((stamp, now));
        }
        if !in_force {
            flow.advertised = segment.window();
            return;
        }
        let (old, new) = (segment.window(), flow.held(&segment));
        let at = usize::from(headers.l4.unwrap_or_default());
        if let Some((new, header)) = new.zip(frame.get_mut(at..at + 20)) {
            header[14..16].copy_from_slice(&new.to_be_bytes());
            if !unfinished {
                let field = checksum::update(u16::from_be_bytes([header[16], header[17]]), old, new);
                header[16..18].copy_from_slice(&field.to_be_bytes());
            }
        }
    }

    /// A connection that is known, or that is to be entered; `anew`: what was known of another between the same ends is void.
    fn flow(&mut self, now: Instant, key: Key, enter: bool, anew: bool) -> Option<&mut Flow> {
        if enter && !self.flows.contains_key(&key) {
            if self.flows.len() >= MOST {
                self.make_room(now);
            }
            if self.flows.len() < MOST {
                self.flows.insert(key, Flow::default());
            }
        }
        let flow = self.flows.get_mut(&key)?;
        if anew && flow.closes {
            *flow = Flow::default();
        }
        Some(flow)
    }

    fn make_room(&mut self, now: Instant) {
        if now.since(self.made_room) >= SPARING {
            self.made_room = now;
            self.flows
                .retain(|_, flow| !flow.closes && now.since(flow.seen) < SILENT);
        }
    }

    /// What there is to see; connections that are over are forgotten.
    pub(crate) fn watch(&mut self, now: Instant, carried: Bytes) -> Watched {
        let mut watched = Watched {
            at: now,
            carried,
            left_alone: vec![0; self.members],
            ..Watched::default()
        };
        self.flows.retain(|_, flow| !flow.closes);
        for (key, flow) in &self.flows {
            match (flow.member, flow.connection(key.ends())) {
                (Some(member), Some(connection)) => watched.connections.push((member, connection)),
                (Some(member), None) if flow.leaving.is_none() && flow.coming.is_none() => {
                    if let Some(count) = watched.left_alone.get_mut(member) {
                        *count += 1;
                    }
                }
                _ => {}
            }
        }
        watched
    }

    /// Holds these connections so from now on, and lets those go that have no limit. All others stay as they are, for [`HELD`] from now.
    pub(crate) fn hold(&mut self, now: Instant, limits: &[(Ends, Option<Limit>)]) {
        self.until = now + HELD;
        for (ends, limit) in limits {
            if let Some(flow) = self.flows.get_mut(&Key::new(ends)) {
                flow.limit = limit.map(|limit| (limit.field(), limit.polite));
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

    /// The window, and whether the checksum is right.
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

    fn come(holding: &mut Holding, ms: u64, frame: &[u8], member: Option<usize>) {
        let len = (Bytes::new(frame.len() as u64), 1);
        holding.comes(at(ms), &Headers::parse(frame, 0), frame, len, member);
    }

    /// A connection that began in front of us, at 0 and 20 ms.
    fn begun(here: &str, there: &str) -> Holding {
        let mut holding = Holding::new(2);
        holding.leaves(
            at(0),
            &mut frame(here, there, SYN, (0, 64_240), &OPTIONS),
            false,
            true,
        );
        let answer = frame(there, here, SYN | ACK, (1, 65_160), &OPTIONS);
        come(&mut holding, 20, &answer, Some(1));
        holding
    }

    fn limit(bytes: u64, polite: bool) -> Option<Limit> {
        Some(Limit {
            window: Bytes::new(bytes),
            scale: 7,
            polite,
        })
    }

    /// What becomes of the window of an acknowledgment that leaves.
    fn sent(holding: &mut Holding, ms: u64, (ack, window_was): (u32, u16)) -> u16 {
        let mut frame = frame(HERE, THERE, ACK, (ack, window_was), &[]);
        holding.leaves(at(ms), &mut frame, false, true);
        let (window, right) = window(&frame);
        assert!(right, "the checksum of {frame:?}");
        window
    }

    #[test]
    fn windows_are_lowered_by_the_scale_of_the_syn_and_for_a_second() {
        let mut holding = begun(HERE, THERE);
        assert_eq!(sent(&mut holding, 30, (1, 500)), 500, "nobody has said anything");
        holding.hold(at(40), &[(ends(HERE, THERE), limit(6_000, false))]);
        assert_eq!(
            sent(&mut holding, 50, (1, 500)),
            47,
            "6000 bytes in units of 128, rounded up"
        );
        assert_eq!(sent(&mut holding, 60, (1, 30)), 30, "never raised");
        let watched = holding.watch(at(60), Bytes::new(7));
        let (member, connection) = watched.connections[0];
        assert_eq!(
            (member, watched.carried, watched.left_alone),
            (1, Bytes::new(7), vec![0, 0])
        );
        assert_eq!(
            (connection.scale, connection.mss, connection.window.get()),
            (7, 1448, 30 << 7)
        );
        assert_eq!(connection.handshake, Some(Duration::from_millis(20)));
        assert_eq!(
            sent(&mut holding, 1_041, (1, 500)),
            500,
            "nobody has said anything for a second"
        );
        holding.hold(at(1_050), &[(ends(HERE, THERE), None)]);
        assert_eq!(sent(&mut holding, 1_060, (1, 500)), 500, "let go");
    }

    #[test]
    fn a_path_that_is_switched_off_and_checksums_to_be_finished_are_left_as_they_are() {
        let mut holding = begun(HERE, THERE);
        holding.hold(at(40), &[(ends(HERE, THERE), limit(6_000, false))]);
        let whole = frame(HERE, THERE, ACK, (1, 500), &[]);
        let mut off = whole.clone();
        holding.leaves(at(50), &mut off, false, false);
        assert_eq!(off, whole);
        let mut unfinished = whole.clone();
        holding.leaves(at(50), &mut unfinished, true, true);
        assert_eq!(window(&unfinished).0, 47);
        assert_eq!(
            unfinished[50..52],
            whole[50..52],
            "the card computes it over what is there then"
        );
    }

    #[test]
    fn a_polite_limit_keeps_the_right_edge() {
        let mut holding = begun(HERE, THERE);
        holding.hold(at(40), &[(ends(HERE, THERE), limit(64_000, true))]);
        assert_eq!(sent(&mut holding, 50, (1_000, 600)), 500);
        holding.hold(at(60), &[(ends(HERE, THERE), limit(2_560, true))]);
        assert_eq!(
            sent(&mut holding, 70, (33_000, 600)),
            250,
            "32000 bytes less than before"
        );
        assert_eq!(sent(&mut holding, 80, (65_000, 600)), 20);
    }

    #[test]
    fn one_that_began_before_is_counted_and_left_alone() {
        let mut holding = Holding::new(2);
        come(&mut holding, 1, &frame(THERE, HERE, ACK, (1, 500), &[]), Some(0));
        come(
            &mut holding,
            2,
            &frame("192.0.2.9:80", HERE, ACK, (1, 500), &[]),
            None,
        );
        holding.hold(at(3), &[(ends(HERE, THERE), limit(6_000, false))]);
        assert_eq!(sent(&mut holding, 4, (1, 500)), 500);
        let watched = holding.watch(at(5), Bytes::ZERO);
        assert_eq!((watched.left_alone, watched.connections.len()), (vec![1, 0], 0));
    }

    #[test]
    fn one_is_over_with_the_other_sides_end_and_may_begin_anew() {
        let mut holding = begun(HERE, THERE);
        holding.leaves(
            at(30),
            &mut frame(HERE, THERE, FIN | ACK, (1, 500), &[]),
            false,
            true,
        );
        assert_eq!(
            holding.watch(at(31), Bytes::ZERO).connections.len(),
            1,
            "it may still receive"
        );
        come(
            &mut holding,
            40,
            &frame(THERE, HERE, FIN | ACK, (1, 500), &[]),
            Some(1),
        );
        let unscaled = [2, 4, 5, 0xb4];
        holding.leaves(
            at(50),
            &mut frame(HERE, THERE, SYN, (0, 1_000), &unscaled),
            false,
            true,
        );
        come(
            &mut holding,
            60,
            &frame(THERE, HERE, SYN | ACK, (1, 1_000), &OPTIONS),
            Some(1),
        );
        let watched = holding.watch(at(61), Bytes::ZERO);
        assert_eq!(watched.connections[0].1.scale, 0);
        assert_eq!(watched.connections[0].1.received.frames, 1);
    }

    #[test]
    fn round_trips_are_measured_by_timestamps() {
        let mut holding = begun(HERE, THERE);
        let stamps =
            |value: u32, answer: u32| [&STAMPED[..], &value.to_be_bytes(), &answer.to_be_bytes()].concat();
        holding.leaves(
            at(100),
            &mut frame(HERE, THERE, ACK, (1, 500), &stamps(77, 0)),
            false,
            true,
        );
        come(
            &mut holding,
            110,
            &frame(THERE, HERE, ACK, (1, 500), &stamps(5, 76)),
            Some(1),
        );
        come(
            &mut holding,
            125,
            &frame(THERE, HERE, ACK, (1, 500), &stamps(6, 77)),
            Some(1),
        );
        let (_, connection) = holding.watch(at(126), Bytes::ZERO).connections[0];
        assert_eq!(connection.round_trips, (Duration::from_millis(25), 1));
    }

    #[test]
    fn a_flood_of_syns_finds_an_end_and_those_that_speak_stay() {
        let mut holding = begun(HERE, THERE);
        let flood = |holding: &mut Holding, ms: u64, net: u8| {
            for n in 0..MOST as u32 {
                let from = format!("10.{net}.{}.{}:{}", n >> 8 & 63, n & 255, 1_000 + (n >> 14));
                holding.leaves(
                    at(ms),
                    &mut frame(&from, THERE, SYN, (0, 1_000), &OPTIONS),
                    false,
                    true,
                );
            }
        };
        flood(&mut holding, 1_000, 1);
        assert_eq!(holding.flows.len(), MOST);
        let answer = frame(THERE, HERE, ACK, (1, 500), &[]);
        come(&mut holding, 60_000, &answer, Some(1));
        flood(&mut holding, 62_000, 2);
        assert_eq!(holding.flows.len(), MOST, "those that were silent have made room");
        assert_eq!(holding.watch(at(62_001), Bytes::ZERO).connections.len(), 1);
    }

    #[test]
    fn ipv6_is_held_likewise() {
        let (here, there) = ("[fd00::1]:40000", "[2001:db8::1]:443");
        let mut holding = begun(here, there);
        holding.hold(at(40), &[(ends(here, there), limit(6_000, false))]);
        let mut frame = frame(here, there, ACK, (1, 500), &[]);
        holding.leaves(at(50), &mut frame, false, true);
        assert_eq!(window(&frame), (47, true));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..120), cut in 0..54_usize) {
            let mut holding = begun(HERE, THERE);
            holding.hold(at(40), &[(ends(HERE, THERE), limit(6_000, false))]);
            let mut whole = frame(HERE, THERE, ACK, (1, 500), &OPTIONS);
            whole.truncate(whole.len() - cut);
            for mut frame in [bytes, whole] {
                let len = frame.len();
                come(&mut holding, 50, &frame, Some(1));
                holding.leaves(at(51), &mut frame, false, true);
                prop_assert_eq!(frame.len(), len);
            }
        }
    }
}
