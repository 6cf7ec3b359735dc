//! TCP connections through the simulated router, whose windows a class that yields may lower, and
//! the hosts at their ends: a server that sends as much as the window lets it, and a client that
//! acknowledges each segment. One ends after some kilobytes, and another begins.
//!
//! Each segment carries in its IP identification the window that it was sent with, so that whoever
//! sees it leave knows what has become of it.

use super::kernel::{Kernel, LeftSegment, NAMES};
use engine::random::Rng;
use engine::units::{Duration, Instant};
use netio::checksum;
use netio::window_clamp::LIMIT_LIFETIME;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The numbers of their flows, each connection with one of its own.
pub(super) const FLOWS: RangeInclusive<u16> = 1_000..=60_000;
/// Connections at a time.
const AT_A_TIME: usize = 2;
/// From one host to the other, and back again.
const ONE_WAY: Duration = Duration::from_millis(10);
const SEGMENT: u32 = 1_000;
/// What a server has on its way at most.
const IN_FLIGHT: u32 = 10 * SEGMENT;
const SCALE: u8 = 7;
/// The window of the client, as the field has it.
const WINDOW: u16 = 500;
/// No law goes below this: a quarter of a segment, for a connection that waits for its turn.
const LEAST: u32 = 1_448 / 4;
/// What has not been answered is sent again after this time.
const AGAIN: Duration = Duration::from_millis(400);
/// A limit may be some time in force after it was set: the worker is asked, and answers.
const LATE: Duration = Duration::from_millis(50);

const FIN: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 16;
const HEADERS: usize = 14 + 20 + 20;
/// MSS 1460, SACK permitted, timestamps, NOP, scale 7.
const OPTIONS: [u8; 20] = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, SCALE];

/// Who sends a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Client,
    Server,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    flow: u16,
    by: Side,
    flags: u8,
    seq: u32,
    ack: u32,
    payload: u32,
}

#[derive(Clone, Debug)]
struct Connection {
    flow: u16,
    /// What the client expects next.
    expected: u32,
    /// The server: what it sends next, what was acknowledged, the window, and what is left.
    next: u32,
    acknowledged: u32,
    window: u32,
    left: u32,
    /// When whoever waits sends again.
    again: Instant,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Connections {
    /// Where their data leaves.
    leaving: usize,
    all: Vec<Connection>,
    /// What the hosts send, by its time.
    due: BTreeMap<(Instant, u64), Segment>,
    sent: u64,
    next_flow: u16,
    rng: Rng,
    /// Segments of data that clients have got.
    pub(super) received: u64,
    /// Nobody sends.
    pub(super) wait: bool,
}

impl Connections {
    pub(super) fn new(leaving: usize, now: Instant, rng: Rng) -> Self {
        let mut new = Self {
            leaving,
            all: Vec::new(),
            due: BTreeMap::new(),
            sent: 0,
            next_flow: *FLOWS.start(),
            rng,
            received: 0,
            wait: false,
        };
        (0..AT_A_TIME).for_each(|_| new.begin(now));
        new
    }

    fn begin(&mut self, at: Instant) {
        let flow = self.next_flow;
        self.next_flow = if flow == *FLOWS.end() {
            *FLOWS.start()
        } else {
            flow + 1
        };
        self.all.push(Connection {
            flow,
            expected: 0,
            next: 1,
            acknowledged: 1,
            window: 0,
            left: SEGMENT * (20 + self.rng.below(400) as u32),
            again: at,
        });
    }

    /// When something is sent next.
    pub(super) fn next_event(&self) -> Instant {
        if self.wait {
            return Instant::NEVER;
        }
        let due = self.due.keys().next().map(|(at, _)| *at);
        let again = self.all.iter().map(|one| one.again);
        again.chain(due).min().unwrap_or(Instant::NEVER)
    }

    /// What has left reaches the hosts; what is due is sent if they `send` now. Whether any was.
    pub(super) fn turn(&mut self, kernel: &mut Kernel, send: bool) -> bool {
        let (now, mut any) = (kernel.now, false);
        loop {
            while let Some(left) = kernel.left.pop_front() {
                judge(kernel, &left, self.leaving);
                self.arrives(now, &left);
            }
            if self.wait || !send {
                return false;
            }
            for at in 0..self.all.len() {
                if self.all[at].again <= now {
                    self.again(now, at);
                }
            }
            let due = self.due.first_entry().filter(|entry| entry.key().0 <= now);
            let Some(segment) = due.map(|entry| entry.remove()) else {
                return any;
            };
            any = true;
            let leaving = match segment.by {
                Side::Client => 1 - self.leaving,
                Side::Server => self.leaving,
            };
            kernel.arrives(leaving, segment.flow, frame(&segment));
        }
    }

    fn send(&mut self, at: Instant, segment: Segment) {
        self.sent += 1;
        self.due.insert((at, self.sent), segment);
    }

    /// Nothing has come for long: the client asks again, or the server takes what it has sent for
    /// lost.
    fn again(&mut self, now: Instant, at: usize) {
        let one = &mut self.all[at];
        one.again = now + AGAIN;
        if one.window > 0 {
            one.acknowledged = one.next;
            // Whatever the window, so that it is told again.
            let most = one.window.max(SEGMENT);
            self.pump(now, at, most);
            return;
        }
        let syn = Segment {
            flow: one.flow,
            by: Side::Client,
            flags: SYN,
            seq: 0,
            ack: 0,
            payload: 0,
        };
        self.send(now, syn);
    }

    /// The server sends what a window has room for.
    fn pump(&mut self, now: Instant, at: usize, window: u32) {
        let one = &mut self.all[at];
        let (flow, by) = (one.flow, Side::Server);
        let mut segments = Vec::new();
        let most = window.min(IN_FLIGHT);
        while one.left > 0 && one.next.wrapping_sub(one.acknowledged) + SEGMENT <= most {
            segments.push(Segment {
                flow,
                by,
                flags: ACK,
                seq: one.next,
                ack: 1,
                payload: SEGMENT,
            });
            one.next += SEGMENT;
            one.left -= SEGMENT;
        }
        if one.left == 0 && one.acknowledged == one.next {
            segments.push(Segment {
                flow,
                by,
                flags: FIN | ACK,
                seq: one.next,
                ack: 1,
                payload: 0,
            });
        }
        for (at, segment) in segments.into_iter().enumerate() {
            self.send(now + Duration::from_micros(20 * at as u64), segment);
        }
    }

    /// A segment has left the router, and is at its host a little later.
    fn arrives(&mut self, now: Instant, left: &LeftSegment) {
        let Some(at) = self.all.iter().position(|one| one.flow == left.flow) else {
            return;
        };
        let tcp = &left.frame[34..];
        let (flags, answered) = (tcp[13], now + ONE_WAY);
        let word = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
        let one = &mut self.all[at];
        let flow = one.flow;
        one.again = now + AGAIN;
        let segment = |by, flags, seq, ack| Segment {
            flow,
            by,
            flags,
            seq,
            ack,
            payload: 0,
        };
        if left.number == self.leaving {
            if flags & FIN != 0 {
                self.all.remove(at);
                let pause = Duration::from_millis(100 + self.rng.below(700));
                self.send(answered, segment(Side::Client, FIN | ACK, 1, word(4) + 1));
                self.begin(now + pause);
                return;
            }
            let is_data = flags & SYN == 0;
            self.received += u64::from(is_data);
            let one = &mut self.all[at];
            one.expected = one.expected.max(word(4) + if is_data { SEGMENT } else { 1 });
            let expected = one.expected;
            self.send(answered, segment(Side::Client, ACK, 1, expected));
            return;
        }
        if flags & SYN != 0 {
            self.send(answered, segment(Side::Server, SYN | ACK, 0, 1));
            return;
        }
        one.window = u32::from(u16::from_be_bytes([tcp[14], tcp[15]])) << SCALE;
        one.acknowledged = one.acknowledged.max(word(8)).min(one.next);
        let window = one.window;
        self.pump(answered, at, window);
    }
}

/// What may have become of a segment on its way through the router.
fn judge(kernel: &mut Kernel, left: &LeftSegment, leaving: usize) {
    let (ip, tcp) = (&left.frame[14..34], &left.frame[34..]);
    let sent = u16::from_be_bytes([ip[4], ip[5]]);
    let window = u16::from_be_bytes([tcp[14], tcp[15]]);
    let of = format!(
        "the window of a segment of flow {} at {}",
        left.flow, NAMES[left.number]
    );
    if !is_right(&left.frame) {
        kernel.fault(format!("{of} and its checksum do not fit"));
    }
    if window == sent {
        return;
    }
    kernel.frames.lowered += 1;
    let may = left.by_program && left.number != leaving && tcp[13] & SYN == 0;
    if window > sent || !may {
        kernel.fault(format!("{of} was {sent}, and is {window}"));
    }
    if u32::from(window) << SCALE < LEAST {
        kernel.fault(format!("{of} is {window}, and no law goes so low"));
    }
    let lifted = kernel.law_turned + LIMIT_LIFETIME + LATE;
    if left.arrived > lifted {
        kernel.fault(format!(
            "{of} was lowered, though no law runs since {:?}",
            kernel.law_turned
        ));
    }
}

fn pseudo(ip: &[u8], length: usize) -> u64 {
    checksum::add(6 + length as u64, &ip[12..20])
}

/// Whether the checksum of a segment without data is right; those with data have none.
fn is_right(frame: &[u8]) -> bool {
    let (ip, length) = (
        &frame[14..34],
        usize::from(u16::from_be_bytes([frame[16], frame[17]])) - 20,
    );
    let tcp = &frame[34..34 + length];
    tcp[16..18] == [0, 0] || checksum::fold(checksum::add(pseudo(ip, length), tcp)) == 0xffff
}

/// A segment in a frame, which ends with room for the ledger's mark.
fn frame(segment: &Segment) -> Vec<u8> {
    let options: &[u8] = if segment.flags & SYN != 0 { &OPTIONS } else { &[] };
    let length = 20 + options.len() + segment.payload as usize;
    let window = WINDOW;
    let ends = [([10, 7, 0, 2], 443_u16), ([10, 8, 0, 2], segment.flow)];
    let [(from, source), (to, destination)] = match segment.by {
        Side::Server => ends,
        Side::Client => [ends[1], ends[0]],
    };
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    bytes.extend(((20 + length) as u16).to_be_bytes());
    bytes.extend(window.to_be_bytes());
    bytes.extend([0, 0, 64, 6, 0, 0]);
    bytes.extend(from);
    bytes.extend(to);
    bytes.extend(source.to_be_bytes());
    bytes.extend(destination.to_be_bytes());
    bytes.extend(segment.seq.to_be_bytes());
    bytes.extend(segment.ack.to_be_bytes());
    bytes.extend([((20 + options.len()) * 4) as u8, segment.flags]);
    bytes.extend(window.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(options);
    if segment.payload == 0 {
        let tcp = checksum::add(pseudo(&bytes[14..34], length), &bytes[34..]);
        let sum = !checksum::fold(tcp);
        bytes[50..52].copy_from_slice(&sum.to_be_bytes());
        // The least frame of Ethernet.
        bytes.resize((HEADERS + options.len() + 10).max(64), 0);
    }
    bytes.resize(bytes.len() + segment.payload as usize, 0);
    bytes
}
