//! Clamps TCP receive windows at an interface, by two programs and two maps.
//!
//! One program sees the frames that the clamped side sends, the other those that it receives. By
//! default the clamped side is this host and all that it forwards for, so the first is attached to
//! egress and the second to ingress; with [`Side::Behind`] it is the other way round. Both maintain
//! a map of connections, which a SYN enters: counters of both directions, TCP flags, both SYN
//! headers with the times at which they passed. [`Windows`] parses the options of the SYNs, among
//! them the window scale, in user space.
//!
//! If the connection is in the map of limits, the first program lowers the window field (RFC 9293)
//! to the limit and updates the checksum, also one that the card will complete. It never raises a
//! window. By default the right edge of the window may move left, so that a limit takes effect
//! within a round trip; a `polite` limit keeps the right edge.
//!
//! The window of a SYN is unscaled and stays. Fragments, IPv6 extension headers and tunnels are not
//! parsed. Connections older than the programs are not tracked. Once the cell has expired or the
//! process has ended, segments pass unchanged; so do those of connections without a limit. The
//! hosts' own view of the window is never touched.

use super::attach::{Attached, Means};
use super::heartbeat::Heartbeat;
use super::instruction::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use super::instruction::Width::{Byte, Double, Half, Word as Long};
use super::instruction::{
    Instruction, Reference, add, and, call, copy, count, exit, load, or, pass_if, pass_if_at_least,
    pass_if_less, pass_if_more, refer, resolved, set, shift_left, shift_left_by, shift_right, shift_right_by,
    signed, skip_if_at_least, skip_if_at_most, skip_if_equal, skip_if_not_equal, store, store_number,
    subtract, sum, swap,
};
use super::programs::{ALIVE, TCX_NEXT};
use super::syscall::{Hash, Hook, WhenFull, load_with};
use super::transport::{KTIME_GET_NS, LENGTH, LOAD_BYTES, copied, fetch, lookup, over, transport, zeros};
use crate::interface::Interface;
use crate::tcp::{Agreed, Carried, Connection, Ends, Limit, Options};
use engine::units::{Bytes, Duration, Instant};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const UPDATE: i32 = 2;
const STORE_BYTES: i32 = 9;
const REPLACE_CHECKSUM: i32 = 11;

/// `__sk_buff`: segments of a super-frame.
const SEGMENTS: i16 = 164;
const TCP: i32 = 6;
const SYN: i32 = 2;
const FIN: u32 = 1;
const RST: u32 = 4;

/// Stack offsets: key, IP header, TCP header, the new window, a new value.
const KEY: i16 = -40;
const IP: i16 = -80;
const HEAD: i16 = -104;
const NEW_WINDOW: i16 = -112;
const NEW_VALUE: i16 = -112 - VALUE_BYTES as i16;

/// A key: address of the clamped side, address of its peer, both ports; in network byte order.
const KEY_BYTES: usize = 40;
const OTHER: i16 = 16;
const PORT: i16 = 32;
const OTHER_PORT: i16 = 34;

/// A connection's value; see [`Connection`]. Counters are of bytes, frames and segments.
const VALUE_BYTES: usize = 240;
const EDGE: i16 = 0;
const ADVERTISED: i16 = 4;
const FLAGS: [i16; 2] = [8, 12];
const COUNTERS: [i16; 2] = [16, 40];
const SYN_AT: [i16; 2] = [64, 72];
const SYN_HEAD: [i16; 2] = [80, 144];
/// A timestamp whose echo is awaited, when it was sent, and sum and number of the round trips.
const STAMP: i16 = 208;
const STAMP_AT: i16 = 216;
const ROUND_TRIPS: i16 = 224;
/// NOP, NOP, timestamps: how common kernels begin the options of a segment without SYN once both
/// sides have agreed on timestamps.
const STAMPED: i32 = 0x0101_080a_u32.to_be() as i32;

/// A limit's value: the largest window field, the scale, whether the right edge stays.
const LIMIT_BYTES: usize = 12;
const LIMIT: i16 = 0;
const SCALE: i16 = 4;
const POLITE: i16 = 8;

/// Directions, seen from the clamped side.
const SENT: usize = 0;
const RECEIVED: usize = 1;

/// Puts the key of the frame's connection and its TCP header on the stack, and the offset of that
/// header into `R8`.
fn parse(direction: usize) -> Vec<Instruction> {
    // The clamped side is the source of what it sends and the destination of what it receives.
    let (source, target, source_port, target_port) = match direction {
        SENT => (KEY, KEY + OTHER, KEY + PORT, KEY + OTHER_PORT),
        _ => (KEY + OTHER, KEY, KEY + OTHER_PORT, KEY + PORT),
    };
    let v4 = [copied(Long, IP + 12, source), copied(Long, IP + 16, target)].concat();
    let v6 = [
        copied(Double, IP + 8, source),
        copied(Double, IP + 16, source + 8),
        copied(Double, IP + 24, target),
        copied(Double, IP + 32, target + 8),
    ]
    .concat();
    [
        zeros(KEY, 5),
        transport(TCP, IP, &v4, &v6),
        fetch(None, HEAD, 20).to_vec(),
        copied(Half, HEAD, source_port).to_vec(),
        copied(Half, HEAD + 2, target_port).to_vec(),
    ]
    .concat()
}

/// The address of the connection's value in `R9`. A SYN enters the connection; other frames of
/// untracked connections pass.
fn connection() -> Vec<Instruction> {
    let [low, high] = refer(R1, Reference::Flows);
    let enter = [
        vec![load(Byte, R1, R10, HEAD + 13), and(R1, SYN), pass_if(R1, 0)],
        zeros(NEW_VALUE, (VALUE_BYTES / 8) as i16),
        vec![
            low,
            high,
            copy(R2, R10),
            add(R2, i32::from(KEY)),
            copy(R3, R10),
            add(R3, i32::from(NEW_VALUE)),
            set(R4, 1),
            call(UPDATE),
        ],
        lookup(Reference::Flows, KEY),
        vec![pass_if(R0, 0), copy(R9, R0)],
    ]
    .concat();
    [
        lookup(Reference::Flows, KEY),
        vec![copy(R9, R0), skip_if_not_equal(R9, 0, over(&enter))],
        enter,
    ]
    .concat()
}

/// Counts the frame and records its flags, and the whole header of a SYN. A SYN then passes: its
/// window is never scaled.
fn record(direction: usize) -> Vec<Instruction> {
    let syn = [
        call(KTIME_GET_NS),
        store(Double, R9, SYN_AT[direction], R0),
        copy(R1, R6),
        copy(R2, R8),
        copy(R3, R9),
        add(R3, i32::from(SYN_HEAD[direction])),
        load(Byte, R4, R10, HEAD + 12),
        shift_right(R4, 2),
        and(R4, 0x3c),
        pass_if_less(R4, 20),
        pass_if_more(R4, 60),
        call(LOAD_BYTES),
        set(R0, TCX_NEXT),
        exit(),
    ];
    let every = [
        load(Byte, R1, R10, HEAD + 13),
        load(Long, R2, R9, FLAGS[direction]),
        or(R2, R1),
        store(Long, R9, FLAGS[direction], R2),
        load(Long, R2, R6, LENGTH),
        count(R9, COUNTERS[direction], R2),
        set(R2, 1),
        count(R9, COUNTERS[direction] + 8, R2),
        load(Long, R2, R6, SEGMENTS),
        skip_if_not_equal(R2, 0, 1),
        set(R2, 1),
        count(R9, COUNTERS[direction] + 16, R2),
        and(R1, SYN),
        skip_if_equal(R1, 0, over(&syn)),
    ];
    [every.to_vec(), syn.to_vec()].concat()
}

/// Measures round trips passively by timestamps (RFC 7323, section 4): from a segment that is sent
/// to the first one received that echoes its TSval. One measurement at a time; one without an echo
/// within a second is abandoned.
fn round_trip(direction: usize) -> Vec<Instruction> {
    let sent = [
        load(Double, R1, R9, STAMP_AT),
        add(R1, 1_000_000_000),
        skip_if_at_least(R1, R0, 4),
        load(Long, R2, R10, IP + 4),
        swap(R2, 32),
        store(Long, R9, STAMP, R2),
        store(Double, R9, STAMP_AT, R0),
    ];
    let echoed = [
        subtract(R0, R1),
        count(R9, ROUND_TRIPS, R0),
        set(R1, 1),
        count(R9, ROUND_TRIPS + 8, R1),
        store_number(Double, R9, STAMP_AT, 0),
    ];
    let received = [
        vec![
            load(Double, R1, R9, STAMP_AT),
            skip_if_equal(R1, 0, 7 + over(&echoed)),
            load(Long, R2, R10, IP + 8),
            swap(R2, 32),
            load(Long, R3, R9, STAMP),
            subtract(R2, R3),
        ],
        signed(R2).to_vec(),
        vec![skip_if_at_most(R2, -1, over(&echoed))],
        echoed.to_vec(),
    ]
    .concat();
    let block = if direction == SENT {
        sent.to_vec()
    } else {
        received
    };
    let stamped = [
        vec![
            load(Long, R1, R10, IP),
            set(R2, STAMPED),
            shift_left(R2, 32),
            shift_right(R2, 32),
            subtract(R1, R2),
            skip_if_not_equal(R1, 0, 1 + over(&block)),
            call(KTIME_GET_NS),
        ],
        block,
    ]
    .concat();
    vec![
        copy(R1, R6),
        copy(R2, R8),
        add(R2, 20),
        copy(R3, R10),
        add(R3, i32::from(IP)),
        set(R4, 12),
        call(LOAD_BYTES),
        skip_if_not_equal(R0, 0, over(&stamped)),
    ]
    .into_iter()
    .chain(stamped)
    .collect()
}

const PASS: [Instruction; 2] = [set(R0, TCX_NEXT), exit()];

/// For frames that the clamped side receives.
fn received_program() -> Vec<Instruction> {
    resolved(
        [
            ALIVE.to_vec(),
            parse(RECEIVED),
            connection(),
            record(RECEIVED),
            round_trip(RECEIVED),
            PASS.to_vec(),
        ]
        .concat(),
    )
}

/// For frames that the clamped side sends: these carry its window.
fn sent_program() -> Vec<Instruction> {
    // R1 becomes the field that keeps the right edge, if that is more than the limit.
    let keep = [
        vec![
            load(Long, R3, R10, HEAD + 8),
            swap(R3, 32),
            load(Long, R4, R9, EDGE),
            load(Long, R5, R8, SCALE),
            and(R5, 15),
            subtract(R4, R3),
        ],
        signed(R4).to_vec(),
        vec![
            skip_if_at_most(R4, 0, 7),
            set(R2, 1),
            shift_left_by(R2, R5),
            sum(R4, R2),
            add(R4, -1),
            shift_right_by(R4, R5),
            skip_if_at_least(R1, R4, 1),
            copy(R1, R4),
        ],
    ]
    .concat();
    // Stores the right edge that R1 advertises, if it is further than before.
    let edge = [
        vec![
            load(Long, R3, R10, HEAD + 8),
            swap(R3, 32),
            load(Long, R5, R8, SCALE),
            and(R5, 15),
            copy(R2, R1),
            shift_left_by(R2, R5),
            sum(R3, R2),
            copy(R2, R3),
            load(Long, R4, R9, EDGE),
            subtract(R2, R4),
        ],
        signed(R2).to_vec(),
        vec![skip_if_at_most(R2, 0, 1), store(Long, R9, EDGE, R3)],
    ]
    .concat();
    let limit = [
        vec![
            load(Half, R7, R10, HEAD + 14),
            swap(R7, 16),
            store(Long, R9, ADVERTISED, R7),
        ],
        // R8 is the limit from here on; the offset of the header is restored below.
        vec![store(Double, R10, NEW_WINDOW, R8)],
        lookup(Reference::Limits, KEY),
        vec![pass_if(R0, 0), copy(R8, R0), load(Long, R1, R8, LIMIT)],
        vec![load(Long, R2, R8, POLITE), skip_if_equal(R2, 0, over(&keep))],
        keep,
        vec![skip_if_at_least(R7, R1, 1), copy(R1, R7)],
        edge,
        vec![
            pass_if_at_least(R1, R7),
            load(Double, R8, R10, NEW_WINDOW),
            store(Long, R9, ADVERTISED, R1),
            swap(R1, 16),
            store(Half, R10, NEW_WINDOW, R1),
            load(Half, R3, R10, HEAD + 14),
            copy(R4, R1),
            copy(R1, R6),
            copy(R2, R8),
            add(R2, 16),
            set(R5, 2),
            call(REPLACE_CHECKSUM),
            copy(R1, R6),
            copy(R2, R8),
            add(R2, 14),
            copy(R3, R10),
            add(R3, i32::from(NEW_WINDOW)),
            set(R4, 2),
            set(R5, 0),
            call(STORE_BYTES),
        ],
    ]
    .concat();
    resolved(
        [
            ALIVE.to_vec(),
            parse(SENT),
            connection(),
            record(SENT),
            round_trip(SENT),
            limit,
            PASS.to_vec(),
        ]
        .concat(),
    )
}

/// Connections tracked at most; the least recently used are evicted.
const MAX_FLOWS: u32 = 8_192;

/// The side whose windows are clamped at an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Side {
    /// What sends through it: this host, and all that it routes or bridges for.
    #[default]
    Leaving,
    /// The hosts behind it, at ingress: before this host translates addresses, if it does.
    Behind,
}

/// The clamping programs at one interface. Dropping it detaches them; windows are then as the hosts
/// advertise them.
#[derive(Debug)]
pub struct Windows {
    _attached: Attached,
    heart: Heartbeat,
    flows: Hash<KEY_BYTES, VALUE_BYTES>,
    limits: Hash<KEY_BYTES, LIMIT_BYTES>,
}

impl Windows {
    /// Attaches the programs to an Ethernet interface. They do nothing before the first beat, and
    /// nothing from `limit` after the last one on.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, or the kernel refuses a map or a program.
    pub fn attach(interface: &str, side: Side, limit: Duration, means: Means) -> io::Result<Self> {
        let index = Interface::named(interface)?.index;
        let heart = Heartbeat::new(limit)?;
        let flows = Hash::new(MAX_FLOWS, WhenFull::Evict)?;
        let limits = Hash::new(MAX_FLOWS, WhenFull::Refuse)?;
        let mut attached = Attached::to(index, means);
        let (received, sent) = match side {
            Side::Leaving => (Hook::Ingress, Hook::Egress),
            Side::Behind => (Hook::Egress, Hook::Ingress),
        };
        for (name, hook, program) in [
            ("suimon_win_rx", received, received_program()),
            ("suimon_win_tx", sent, sent_program()),
        ] {
            let loaded = load_with(name, hook, false, &program, |reference| match reference {
                Reference::Limits => limits.number(),
                Reference::Cell => std::os::fd::AsRawFd::as_raw_fd(&heart.map()),
                _ => flows.number(),
            })?;
            attached.add(&loaded)?;
        }
        Ok(Self {
            _attached: attached,
            heart,
            flows,
            limits,
        })
    }

    /// Beats: the controller is alive at this time of [`crate::clock`].
    pub fn beat(&self, now: Instant) {
        self.heart.beat(now);
    }

    /// Clamps nothing until the next beat.
    pub fn silence(&self) {
        self.heart.silence();
    }

    /// All connections whose SYN was seen.
    pub fn connections(&self) -> Vec<Connection> {
        let keys = self.flows.keys(MAX_FLOWS as usize);
        keys.iter()
            .filter_map(|key| read(key, &self.flows.get(key)?))
            .collect()
    }

    /// Limits a connection's windows, from the next segment on.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the entry, for example because there are too many
    /// limits.
    pub fn limit(&self, ends: &Ends, limit: Limit) -> io::Result<()> {
        let field = u32::from(limit.field());
        let mut value = [0; LIMIT_BYTES];
        for (at, word) in [
            (LIMIT, field),
            (SCALE, u32::from(limit.scale.min(14))),
            (POLITE, u32::from(limit.polite)),
        ] {
            let at = at.unsigned_abs() as usize;
            value[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        self.limits.set(&key(ends), &value)
    }

    /// Lifts the limit.
    pub fn free(&self, ends: &Ends) {
        self.limits.remove(&key(ends));
    }

    /// Stops tracking a connection that has ended.
    pub fn forget(&self, ends: &Ends) {
        self.free(ends);
        self.flows.remove(&key(ends));
    }
}

/// The key of a connection, laid out as by the programs.
fn key(ends: &Ends) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    for (end, at, port_at) in [(ends.here, 0, 32), (ends.there, 16, 34)] {
        match end.ip() {
            IpAddr::V4(ip) => key[at..at + 4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => key[at..at + 16].copy_from_slice(&ip.octets()),
        }
        key[port_at..port_at + 2].copy_from_slice(&end.port().to_be_bytes());
    }
    key
}

/// The ends of a key. An address of four bytes and twelve zeros is IPv4: no host has it in IPv6.
fn ends(key: &[u8; KEY_BYTES]) -> Option<Ends> {
    let end = |at: usize, port_at: usize| {
        let bytes: [u8; 16] = key.get(at..at + 16)?.try_into().ok()?;
        let ip = match bytes {
            [a, b, c, d, rest @ ..] if rest == [0; 12] => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            bytes => IpAddr::V6(Ipv6Addr::from(bytes)),
        };
        let port = u16::from_be_bytes([key[port_at], key[port_at + 1]]);
        Some(SocketAddr::new(ip, port))
    };
    Some(Ends {
        here: end(0, 32)?,
        there: end(16, 34)?,
    })
}

/// Reads a map value; none before both SYNs were seen.
fn read(key: &[u8; KEY_BYTES], value: &[u8; VALUE_BYTES]) -> Option<Connection> {
    let word = |at: i16| {
        let at = at.unsigned_abs() as usize;
        value[at..at + 4]
            .iter()
            .rev()
            .fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte))
    };
    let word = |at: i16| {
        if cfg!(target_endian = "little") {
            word(at)
        } else {
            word(at).swap_bytes()
        }
    };
    let double = |at: i16| {
        let (low, high) = (u64::from(word(at)), u64::from(word(at + 4)));
        if cfg!(target_endian = "little") {
            low | high << 32
        } else {
            high | low << 32
        }
    };
    let carried = |direction: usize| Carried {
        bytes: Bytes::new(double(COUNTERS[direction])),
        frames: double(COUNTERS[direction] + 8),
        segments: double(COUNTERS[direction] + 16),
    };
    let syn = |direction: usize| {
        let at = SYN_HEAD[direction].unsigned_abs() as usize;
        (double(SYN_AT[direction]) > 0).then(|| Options::read(&value[at..at + 60]))
    };
    let (here, there) = (syn(SENT)?, syn(RECEIVED)?);
    let Agreed { scale, mss } = here.agree(there);
    let handshake = double(SYN_AT[RECEIVED]).checked_sub(double(SYN_AT[SENT]));
    Some(Connection {
        ends: ends(key)?,
        sent: carried(SENT),
        received: carried(RECEIVED),
        scale,
        mss,
        window: Bytes::new(u64::from(word(ADVERTISED)) << scale),
        handshake: handshake.filter(|ns| *ns > 0).map(Duration::from_nanos),
        round_trips: (Duration::from_nanos(double(ROUND_TRIPS)), double(ROUND_TRIPS + 8)),
        closes: word(FLAGS[SENT]) & RST != 0 || word(FLAGS[RECEIVED]) & (FIN | RST) != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn the_verifier_accepts_both_programs() {
        let (flows, heart) = match (
            Hash::<KEY_BYTES, VALUE_BYTES>::new(8, WhenFull::Evict),
            Heartbeat::new(Duration::from_millis(20)),
        ) {
            (Ok(flows), Ok(heart)) => (flows, heart),
            (Err(e), _) | (_, Err(e)) => return skips::skipped(e),
        };
        let limits = Hash::<KEY_BYTES, LIMIT_BYTES>::new(8, WhenFull::Refuse).expect("a map");
        for (name, hook, program) in [
            ("received", Hook::Ingress, received_program()),
            ("sent", Hook::Egress, sent_program()),
        ] {
            load_with(name, hook, false, &program, |reference| match reference {
                Reference::Limits => limits.number(),
                Reference::Cell => heart.map().as_raw_fd(),
                _ => flows.number(),
            })
            .unwrap();
        }
    }

    #[test]
    fn the_ends_of_a_key_are_those_that_it_was_made_of() {
        for (here, there) in [
            ("10.0.0.1:40000", "192.0.2.1:443"),
            ("[fd00::1]:40000", "[2001:db8::1]:443"),
        ] {
            let both = Ends {
                here: here.parse().expect("an address"),
                there: there.parse().expect("an address"),
            };
            assert_eq!(ends(&key(&both)), Some(both));
        }
    }
}
