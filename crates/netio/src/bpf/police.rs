//! Datagrams of chosen UDP ports, held to a rate at an interface: what is beyond is lost, in each
//! direction on its own.
//!
//! A policer (the generic cell rate algorithm in its form of virtual scheduling): each direction
//! has a time up to which the frames that passed are paid for, and one that comes before it is
//! lost; a pause earns [`BURST`] at most. QUIC's senders slow down on losses; who does not is held
//! all the same. The counters of two processors that pass frames at the same moment may let a frame
//! too much through. Later fragments have no ports, and pass; so do IPv6 extension headers and
//! tunnels.

use super::attach::{Attached, Means};
use super::heartbeat::Heartbeat;
use super::instruction::Register::{R0, R1, R2, R3, R4, R6, R8, R10};
use super::instruction::Width::{Double, Half, Word as Long};
use super::instruction::{
    Instruction, Reference, add, aimed, call, copy, count, exit, load, multiply, pass_if, set, shift_right,
    skip_if_at_least, store, store_number, sum,
};
use super::programs::{ALIVE, TCX_DROP, TCX_NEXT};
use super::syscall::{Hash, Hook, WhenFull, load_with};
use super::transport::{KTIME_GET_NS, LENGTH, fetch, lookup, transport};
use crate::interface::Interface;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use std::collections::BTreeSet;
use std::io;

/// What a pause earns at most.
pub const BURST: Duration = Duration::from_millis(50);

const UDP: i32 = 17;
/// How many ports at most.
const MOST: u32 = 4_096;
/// Times are paid by so many 1024ths of a nanosecond a byte.
const FINE: u32 = 10;

/// The stack: the ports of the frame, the key of a map, the IP header.
const PORTS: i16 = -8;
const KEY: i16 = -16;
const IP: i16 = -56;

/// A direction's value: until when it is paid, bytes that passed, frames that were lost.
const VALUE_BYTES: usize = 24;
const PAID: i16 = 0;
const PASSED: i16 = 8;
const LOST: i16 = 16;

const LEAVING: u32 = 0;
const COMING: u32 = 1;

/// For one direction, at a price of so many 1024ths of a nanosecond a byte.
fn program(way: u32, price: i32) -> Vec<Instruction> {
    let own = if way == LEAVING { PORTS } else { PORTS + 2 };
    let passes = [
        copy(R4, R3),
        multiply(R4, price),
        shift_right(R4, FINE.cast_signed()),
        sum(R1, R4),
        store(Double, R8, PAID, R1),
        count(R8, PASSED, R3),
        set(R0, TCX_NEXT),
        exit(),
    ];
    let lost = [set(R1, 1), count(R8, LOST, R1), set(R0, TCX_DROP), exit()];
    aimed(
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
                store_number(Long, R10, KEY, way.cast_signed()),
            ],
            lookup(Reference::Buckets, KEY),
            vec![
                pass_if(R0, 0),
                copy(R8, R0),
                call(KTIME_GET_NS),
                load(Double, R1, R8, PAID),
                copy(R2, R0),
                add(R2, -(BURST.nanos() as i32)),
                skip_if_at_least(R1, R2, 1),
                copy(R1, R2),
                load(Long, R3, R6, LENGTH),
                skip_if_at_least(R0, R1, lost.len() as i16),
            ],
            lost.to_vec(),
            passes.to_vec(),
            vec![set(R0, TCX_NEXT), exit()],
        ]
        .concat(),
    )
}

/// What became of the datagrams of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Policed {
    /// What passed, as frames.
    pub passed: Bytes,
    /// Frames that were lost.
    pub lost: u64,
}

/// The programs at one interface. Dropped, they are gone, and everything passes.
#[derive(Debug)]
pub struct Police {
    _attached: Attached,
    heart: Heartbeat,
    ports: Hash<4, 4>,
    buckets: Hash<4, VALUE_BYTES>,
    chosen: BTreeSet<u16>,
}

impl Police {
    /// Attaches the programs to an interface (of Ethernet). They do nothing before the first beat,
    /// nor later than `limit` after the last.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such interface, the rate is out of range, or the kernel
    /// refuses a map or a program.
    pub fn attach(interface: &str, rate: Bandwidth, limit: Duration, means: Means) -> io::Result<Self> {
        let index = Interface::named(interface)?.index;
        let heart = Heartbeat::new(limit)?;
        let ports = Hash::new(MOST, WhenFull::Refuse)?;
        let buckets = Hash::new(2, WhenFull::Refuse)?;
        for way in [LEAVING, COMING] {
            buckets.set(&way.to_ne_bytes(), &[0; VALUE_BYTES])?;
        }
        let price = price(rate).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{rate} is out of the policer's range of 8 kbit/s to 100 Gbit/s"),
            )
        })?;
        let mut attached = Attached::to(index, means);
        for (name, hook, way) in [
            ("suimon_police_c", Hook::Ingress, COMING),
            ("suimon_police_l", Hook::Egress, LEAVING),
        ] {
            let program = program(way, price);
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

    /// Whoever decides is alive at this time, by [`crate::clock`].
    pub fn beat(&self, now: Instant) {
        self.heart.beat(now);
    }

    /// Everything passes from now on until the next beat.
    pub fn silence(&self) {
        self.heart.silence();
    }

    /// These ports of this host from now on, and no others.
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

    /// What came in and what left so far.
    pub fn counted(&self) -> [Policed; 2] {
        [COMING, LEAVING].map(|way| {
            let value = self.buckets.get(&way.to_ne_bytes()).unwrap_or([0; VALUE_BYTES]);
            let double = |at: i16| {
                let at = usize::from(at.unsigned_abs());
                value[at..]
                    .first_chunk()
                    .map_or(0, |bytes| u64::from_ne_bytes(*bytes))
            };
            Policed {
                passed: Bytes::new(double(PASSED)),
                lost: double(LOST),
            }
        })
    }
}

/// A port as it is on the wire.
fn key(port: u16) -> [u8; 4] {
    let [high, low] = port.to_be_bytes();
    [high, low, 0, 0]
}

/// 1024ths of a nanosecond for a byte; none where that is no number of an instruction, or too
/// coarse.
fn price(rate: Bandwidth) -> Option<i32> {
    if rate < Bandwidth::kbit(8) || rate > Bandwidth::gbit(100) {
        return None;
    }
    let price = (8_000_000_000_u128 << FINE) / u128::from(rate.bits());
    i32::try_from(price).ok()
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
        for (hook, way) in [(Hook::Ingress, COMING), (Hook::Egress, LEAVING)] {
            load_with(
                "police",
                hook,
                false,
                &program(way, 4_096),
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
    fn prices_are_exact_enough_and_within_range() {
        assert_eq!(price(Bandwidth::mbit(1)), Some(8_000 << FINE));
        assert_eq!(price(Bandwidth::gbit(100)), Some(81));
        assert_eq!(price(Bandwidth::kbit(8)), Some(1_000_000 << FINE));
        assert_eq!(price(Bandwidth::bits_per_sec(7_999)), None);
        assert_eq!(price(Bandwidth::gbit(101)), None);
    }
}
