//! Polices datagrams of chosen UDP ports at an interface, each direction on its own.
//!
//! The policer is the generic cell rate algorithm as virtual scheduling (ITU-T I.371). Each
//! direction has a theoretical arrival time. A frame that comes before it is dropped; each frame
//! that passes moves it on by the frame's length over the rate. It is never more than [`BURST`]
//! behind the clock, so an idle direction may burst that much. QUIC senders slow down when packets
//! are dropped; senders that do not slow down are policed all the same. When two processors pass
//! frames at the same moment, one frame too many may get through. Later fragments have no ports and
//! pass; so do packets with IPv6 extension headers, and tunnels.

use super::attach::{Attached, Means};
use super::heartbeat::Heartbeat;
use super::instruction::Register::{R0, R1, R2, R3, R4, R6, R8, R10};
use super::instruction::Width::{Double, Half, Word as Long};
use super::instruction::{
    Instruction, Reference, add, call, copy, count, exit, load, multiply, pass_if, resolved, set,
    shift_right, skip_if_at_least, store, store_number, sum,
};
use super::programs::{ALIVE, TCX_DROP, TCX_NEXT};
use super::syscall::{Hash, Hook, WhenFull, load_with};
use super::transport::{KTIME_GET_NS, LENGTH, fetch, lookup, transport};
use crate::interface::Interface;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use std::collections::BTreeSet;
use std::io;

/// The largest burst, as time at the policed rate.
pub const BURST: Duration = Duration::from_millis(50);

const UDP: i32 = 17;
/// Ports at most.
const MAX_PORTS: u32 = 4_096;
/// The time per byte is in units of 2^-10 ns.
const TIME_SHIFT: u32 = 10;

/// Stack offsets: the frame's ports, a map's key, the IP header.
const PORTS: i16 = -8;
const KEY: i16 = -16;
const IP: i16 = -56;

/// A direction's state: the theoretical arrival time, bytes that passed, frames that were dropped.
const VALUE_BYTES: usize = 24;
const ARRIVAL_TIME: i16 = 0;
const PASSED: i16 = 8;
const DROPPED: i16 = 16;

const EGRESS: u32 = 0;
const INGRESS: u32 = 1;

/// The program of one direction. `byte_time` is in units of 2^-10 ns.
fn program(direction: u32, byte_time: i32) -> Vec<Instruction> {
    let own = if direction == EGRESS { PORTS } else { PORTS + 2 };
    let passes = [
        copy(R4, R3),
        multiply(R4, byte_time),
        shift_right(R4, TIME_SHIFT.cast_signed()),
        sum(R1, R4),
        store(Double, R8, ARRIVAL_TIME, R1),
        count(R8, PASSED, R3),
        set(R0, TCX_NEXT),
        exit(),
    ];
    let drops = [set(R1, 1), count(R8, DROPPED, R1), set(R0, TCX_DROP), exit()];
    resolved(
        [
            ALIVE.to_vec(),
            transport(UDP, IP, &[], &[]),
            fetch(None, PORTS, 4).to_vec(),
            vec![
                store_number(Double, R10, KEY, 0),
                load(Half, R1, R10, own),
                store(Half, R10, KEY, R1),
            ],
            lookup(Reference::Ports, KEY),
            vec![
                pass_if(R0, 0),
                store_number(Double, R10, KEY, 0),
                store_number(Long, R10, KEY, direction.cast_signed()),
            ],
            lookup(Reference::Buckets, KEY),
            vec![
                pass_if(R0, 0),
                copy(R8, R0),
                call(KTIME_GET_NS),
                load(Double, R1, R8, ARRIVAL_TIME),
                copy(R2, R0),
                add(R2, -(BURST.nanos() as i32)),
                skip_if_at_least(R1, R2, 1),
                copy(R1, R2),
                load(Long, R3, R6, LENGTH),
                skip_if_at_least(R0, R1, drops.len() as i16),
            ],
            drops.to_vec(),
            passes.to_vec(),
            vec![set(R0, TCX_NEXT), exit()],
        ]
        .concat(),
    )
}

/// The counters of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Policed {
    /// Bytes of the frames that passed.
    pub passed: Bytes,
    /// Frames that were dropped.
    pub dropped: u64,
}

/// The policing programs at one interface. Dropping it detaches them, and everything passes.
#[derive(Debug)]
pub struct Police {
    _attached: Attached,
    heart: Heartbeat,
    ports: Hash<4, 4>,
    buckets: Hash<4, VALUE_BYTES>,
    chosen: BTreeSet<u16>,
}

impl Police {
    /// Attaches the programs to an Ethernet interface. They do nothing before the first beat, and
    /// nothing from `limit` after the last one on.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, the rate is out of range, or the kernel
    /// refuses a map or a program.
    pub fn attach(interface: &str, rate: Bandwidth, limit: Duration, means: Means) -> io::Result<Self> {
        let index = Interface::named(interface)?.index;
        let heart = Heartbeat::new(limit)?;
        let ports = Hash::new(MAX_PORTS, WhenFull::Refuse)?;
        let buckets = Hash::new(2, WhenFull::Refuse)?;
        for direction in [EGRESS, INGRESS] {
            buckets.set(&direction.to_ne_bytes(), &[0; VALUE_BYTES])?;
        }
        let byte_time = byte_time(rate).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{rate} is out of the policer's range of 8 kbit/s to 100 Gbit/s"),
            )
        })?;
        let mut attached = Attached::to(index, means);
        for (name, hook, direction) in [
            ("suimon_police_i", Hook::Ingress, INGRESS),
            ("suimon_police_e", Hook::Egress, EGRESS),
        ] {
            let program = program(direction, byte_time);
            let loaded = load_with(name, hook, false, &program, |reference| match reference {
                Reference::Ports => ports.number(),
                Reference::Cell => std::os::fd::AsRawFd::as_raw_fd(&heart.map()),
                _ => buckets.number(),
            })?;
            attached.add(&loaded)?;
        }
        Ok(Self {
            _attached: attached,
            heart,
            ports,
            buckets,
            chosen: BTreeSet::new(),
        })
    }

    /// Beats: the controller is alive at this time of [`crate::clock`].
    pub fn beat(&self, now: Instant) {
        self.heart.beat(now);
    }

    /// Lets everything pass until the next beat.
    pub fn silence(&self) {
        self.heart.silence();
    }

    /// Polices these ports of this host from now on, and no others.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses to enter a port, for example because its map is full.
    pub fn choose(&mut self, ports: BTreeSet<u16>) -> io::Result<()> {
        for gone in self.chosen.difference(&ports) {
            self.ports.remove(&key(*gone));
        }
        for fresh in ports.difference(&self.chosen) {
            self.ports.set(&key(*fresh), &[1, 0, 0, 0])?;
        }
        self.chosen = ports;
        Ok(())
    }

    /// The counters of ingress and of egress.
    pub fn counters(&self) -> [Policed; 2] {
        [INGRESS, EGRESS].map(|direction| {
            let value = self
                .buckets
                .get(&direction.to_ne_bytes())
                .unwrap_or([0; VALUE_BYTES]);
            let double = |at: i16| {
                let at = usize::from(at.unsigned_abs());
                value[at..]
                    .first_chunk()
                    .map_or(0, |bytes| u64::from_ne_bytes(*bytes))
            };
            Policed {
                passed: Bytes::new(double(PASSED)),
                dropped: double(DROPPED),
            }
        })
    }
}

/// A port in network byte order.
fn key(port: u16) -> [u8; 4] {
    let [high, low] = port.to_be_bytes();
    [high, low, 0, 0]
}

/// The time per byte in units of 2^-10 ns; none if it does not fit an instruction's immediate, or
/// would be too coarse.
fn byte_time(rate: Bandwidth) -> Option<i32> {
    if rate < Bandwidth::kbit(8) || rate > Bandwidth::gbit(100) {
        return None;
    }
    let byte_time = (8_000_000_000_u128 << TIME_SHIFT) / u128::from(rate.bits());
    i32::try_from(byte_time).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn the_verifier_accepts_both_programs() {
        let (ports, heart) = match (
            Hash::<4, 4>::new(8, WhenFull::Refuse),
            Heartbeat::new(Duration::from_millis(20)),
        ) {
            (Ok(ports), Ok(heart)) => (ports, heart),
            (Err(e), _) | (_, Err(e)) => return skips::skipped(e),
        };
        let buckets = Hash::<4, VALUE_BYTES>::new(2, WhenFull::Refuse).expect("a map");
        for (hook, direction) in [(Hook::Ingress, INGRESS), (Hook::Egress, EGRESS)] {
            load_with(
                "police",
                hook,
                false,
                &program(direction, 4_096),
                |reference| match reference {
                    Reference::Ports => ports.number(),
                    Reference::Cell => heart.map().as_raw_fd(),
                    _ => buckets.number(),
                },
            )
            .unwrap();
        }
    }

    #[test]
    fn byte_times_are_exact_enough_and_within_range() {
        assert_eq!(byte_time(Bandwidth::mbit(1)), Some(8_000 << TIME_SHIFT));
        assert_eq!(byte_time(Bandwidth::gbit(100)), Some(81));
        assert_eq!(byte_time(Bandwidth::kbit(8)), Some(1_000_000 << TIME_SHIFT));
        assert_eq!(byte_time(Bandwidth::bits_per_sec(7_999)), None);
        assert_eq!(byte_time(Bandwidth::gbit(101)), None);
    }
}
