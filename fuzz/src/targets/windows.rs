//! Segments of connections whose windows are lowered as they pass, from hosts that send what they
//! like.

use super::segments::transport_sum;
use super::{FuzzTarget, records};
use crate::mutate::InputShape;
use engine::header::{Family, Fragment, Headers};
use engine::units::{Bytes, Duration, Instant};
use netio::tcp::{Ends, Limit};
use netio::window_clamp::{FrameSize, LIMIT_LIFETIME, WindowClamp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "windows",
    about: "segments of both directions, limits and time: only windows are lowered, to the limit, checksums right",
    shape: InputShape::Binary(3_000),
    tree: &[],
    make: || Box::new(|input| Judge::default().judge(input)),
};

const CLASSES: usize = 2;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
/// A step of sequence numbers that no connection makes.
const FAR: u32 = 1 << 30;

/// A connection as the judge knows it.
#[derive(Debug)]
struct Known {
    ends: Ends,
    limit: Option<Limit>,
    /// It was told as one that can be clamped when its limit was set, and nothing has begun or
    /// ended it since.
    certain: bool,
    /// The scale that was told then, and the furthest right edge that has left since.
    scale: u8,
    edge: Option<u32>,
    /// What was acknowledged last, and whether that has ever gone so far at once that there is no
    /// left and right.
    acknowledged: Option<u32>,
    is_torn: bool,
}

#[derive(Debug, Default)]
struct Judge {
    known: Vec<Known>,
    now: Instant,
    limits_expire: Instant,
    /// Bytes of the frames of data, and of the others.
    passed: [u64; 2],
}

impl Judge {
    fn judge(mut self, input: &[u8]) {
        let mut clamp = WindowClamp::new(CLASSES);
        for (kind, bytes) in records(input) {
            match kind % 8 {
                0 | 6 => self.ack(&mut clamp, kind, bytes),
                1 | 7 => self.data(&mut clamp, kind, bytes),
                2 => self.limit(&mut clamp, bytes),
                3 => {
                    let ms = bytes
                        .iter()
                        .take(2)
                        .fold(0, |ms, byte| ms << 8 | u64::from(*byte));
                    self.now = self.now + Duration::from_millis(ms);
                }
                4 => drop(self.told(&mut clamp)),
                _ => {
                    clamp.forget();
                    self.known.clear();
                }
            }
        }
    }

    /// The connection of a segment of the clamped side, or of its peer.
    fn of(&mut self, headers: &Headers, from_peer: bool) -> Option<&mut Known> {
        let key = &headers.key;
        let ends = [
            (key.source, key.source_port?),
            (key.destination, key.destination_port?),
        ];
        let mut ends = ends.map(|(address, port)| match key.family {
            Family::V6 => SocketAddr::new(IpAddr::V6(Ipv6Addr::from_bits(address)), port),
            _ => SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(address as u32)), port),
        });
        if from_peer {
            ends.reverse();
        }
        let [here, there] = ends;
        let ends = Ends { here, there };
        let at = self.known.iter().position(|known| known.ends == ends);
        let at = at.unwrap_or_else(|| {
            self.known.push(Known {
                ends,
                limit: None,
                certain: false,
                scale: 0,
                edge: None,
                acknowledged: None,
                is_torn: false,
            });
            self.known.len() - 1
        });
        self.known.get_mut(at)
    }

    fn data(&mut self, clamp: &mut WindowClamp, kind: u8, frame: &[u8]) {
        let headers = Headers::parse(frame, 0);
        let class = [None, Some(0), Some(1), Some(0)][usize::from(kind >> 3 & 3)];
        let len = Bytes::new(frame.len() as u64);
        let size = FrameSize { len, segments: 1 };
        clamp.on_data(self.now, &headers, frame, size, class);
        self.passed[0] += len.get();
        let begins_or_ends = segment(&headers, frame).is_some_and(|tcp| tcp[13] & (SYN | RST | FIN) != 0);
        if let Some(known) = self.of(&headers, true) {
            known.certain &= !begins_or_ends;
        }
    }

    /// A segment of the clamped side: nothing but its window and its checksum may change.
    fn ack(&mut self, clamp: &mut WindowClamp, kind: u8, was: &[u8]) {
        let (unfinished, enabled) = (kind & 8 != 0, kind & 16 == 0);
        let headers = Headers::parse(was, 0);
        let mut frame = was.to_vec();
        clamp.clamp_ack(self.now, &mut frame, unfinished, enabled);
        self.passed[1] += was.len() as u64;
        let in_force = enabled && self.now < self.limits_expire;
        let Some((known, tcp)) = self.of(&headers, false).zip(segment(&headers, was)) else {
            assert_eq!(frame, was, "a frame of no connection has changed");
            return;
        };
        known.certain &= tcp[13] & (SYN | RST) == 0;
        let acknowledged = acknowledged(tcp);
        let is_far = |before: u32| distance(acknowledged, before).unsigned_abs() > FAR;
        known.is_torn |= known.acknowledged.is_some_and(is_far);
        known.acknowledged = Some(acknowledged);
        if frame != was {
            let Some(limit) = known.limit.filter(|_| in_force && tcp[13] & SYN == 0) else {
                panic!("changed without a limit in force");
            };
            lowered(was, &frame, &headers, unfinished, &limit);
        }
        if let Some(after) = segment(&headers, &frame).filter(|_| known.certain && in_force) {
            held(known, tcp, window(after));
        }
    }

    /// What is told of connections; each is one of which a segment has passed.
    fn told(&self, clamp: &mut WindowClamp) -> Vec<(Ends, u8)> {
        let told = clamp.snapshot(self.now, [Bytes::ZERO; 2]);
        assert_eq!(told.left_alone.len(), CLASSES);
        let sum = |of: fn(&netio::tcp::Connection) -> u64| -> u64 {
            told.connections.iter().map(|one| of(&one.connection)).sum()
        };
        assert!(sum(|connection| connection.received.bytes.get()) <= self.passed[0]);
        assert!(sum(|connection| connection.sent.bytes.get()) <= self.passed[1]);
        for one in &told.connections {
            let connection = &one.connection;
            assert!(self.known.iter().any(|known| known.ends == connection.ends));
            assert!(one.class < CLASSES && connection.scale <= 14 && connection.mss >= 64);
            assert!(connection.window.get() <= 0xffff << connection.scale);
        }
        let all = told.connections.iter();
        all.map(|one| (one.connection.ends, one.connection.scale))
            .collect()
    }

    /// Sets limits: of each six bytes the first chooses a connection.
    fn limit(&mut self, clamp: &mut WindowClamp, bytes: &[u8]) {
        let told = self.told(clamp);
        let mut limits = Vec::new();
        for &[which, scale, how, window @ ..] in bytes.as_chunks::<6>().0 {
            let Some(at) = usize::from(which).checked_rem(self.known.len()) else {
                break;
            };
            let known = &mut self.known[at];
            let of_told = told.iter().find(|(ends, _)| *ends == known.ends);
            known.certain = of_told.is_some();
            known.scale = of_told.map_or(0, |(_, scale)| *scale);
            known.edge = None;
            let [high, middle, low] = window;
            known.limit = (how & 2 == 0).then_some(Limit {
                window: Bytes::new(u64::from(u32::from_be_bytes([0, high, middle, low]))),
                scale,
                polite: how & 1 != 0,
            });
            limits.push((known.ends, known.limit));
        }
        clamp.set_limits(self.now, &limits);
        self.limits_expire = self.now + LIMIT_LIFETIME;
    }
}

/// The TCP header in a frame, if it has all of one.
fn segment<'a>(headers: &Headers, frame: &'a [u8]) -> Option<&'a [u8]> {
    let is_tcp = headers.key.protocol == 6 && headers.key.fragment == Fragment::Whole;
    let rest = frame.get(usize::from(headers.l4.filter(|_| is_tcp)?)..)?;
    let len = usize::from(rest.get(12)? >> 4) * 4;
    rest.get(..len).filter(|header| header.len() >= 20)
}

fn window(tcp: &[u8]) -> u16 {
    u16::from_be_bytes([tcp[14], tcp[15]])
}

fn acknowledged(tcp: &[u8]) -> u32 {
    u32::from_be_bytes([tcp[8], tcp[9], tcp[10], tcp[11]])
}

/// How far a sequence number is to the right of another.
fn distance(to: u32, from: u32) -> i32 {
    to.wrapping_sub(from).cast_signed()
}

/// A limit as a window field, rounded up.
fn field(limit: &Limit) -> u64 {
    limit.window.get().div_ceil(1 << limit.scale.min(14)).min(0xffff)
}

/// A frame that has changed: only its window, which is lower, and no lower than the limit.
fn lowered(was: &[u8], frame: &[u8], headers: &Headers, unfinished: bool, limit: &Limit) {
    let l4 = headers
        .l4
        .map_or_else(|| panic!("changed without TCP"), usize::from);
    let changed = |at: &usize| was[*at] != frame[*at];
    let may =
        |at: usize| (l4 + 14..l4 + 16).contains(&at) || (!unfinished && (l4 + 16..l4 + 18).contains(&at));
    assert_eq!(was.len(), frame.len());
    assert!(
        (0..was.len()).filter(changed).all(may),
        "more has changed than the window"
    );
    let (before, after) = (window(&was[l4..]), window(&frame[l4..]));
    assert!(after < before, "a window was raised");
    assert!(u64::from(after) >= field(limit), "lower than the limit");
    let right = |frame: &[u8]| transport_sum(frame, headers) == 0xffff;
    assert!(
        unfinished || !right(was) || right(frame),
        "a right sum became wrong"
    );
}

/// A segment with its window as it leaves, of a connection that surely can be clamped.
fn held(known: &mut Known, was: &[u8], after: u16) {
    let before = window(was);
    let edge = acknowledged(was).wrapping_add(u32::from(after) << known.scale);
    match known.limit {
        Some(limit) if !limit.polite => {
            let allowed = u64::from(before).min(field(&limit));
            assert_eq!(u64::from(after), allowed, "not as limited");
        }
        Some(_) if after < before && !known.is_torn => {
            let stays = known.edge.is_none_or(|furthest| distance(edge, furthest) >= 0);
            assert!(stays, "the right edge has moved left");
        }
        _ => {}
    }
    if known.edge.is_none_or(|furthest| distance(edge, furthest) > 0) {
        known.edge = Some(edge);
    }
}
