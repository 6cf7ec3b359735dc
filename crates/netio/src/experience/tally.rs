//! The counts of an interface: those of its classes, and those of the hosts behind it, in tables of
//! a fixed size.

use crate::window_clamp::FrameSize;
use engine::header::{Family, FlowKey};
use engine::packet::ClassId;
use engine::units::{Bytes, Duration};
use measure::round_trips::{ExperienceCounts, RoundTripTable};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Classes or hosts at most of which an interface keeps counts. One more replaces one that was not
/// heard of for a minute, or is not counted.
pub const KEPT: usize = 1_024;

/// Records that one key may have.
const WAYS: usize = 8;
/// One that was not heard of for so many ticks gives way: a minute.
const IDLE: i32 = 60_000_000;

/// Of what an interface keeps the experience.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExperienceOf {
    /// Its classes.
    Classes,
    /// Its classes, and each host behind it.
    Hosts,
}

/// What is known of an interface: all counts since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExperienceReading {
    /// Of its classes.
    pub classes: Vec<(ClassId, ExperienceCounts)>,
    /// Of the hosts behind it.
    pub hosts: Vec<(IpAddr, ExperienceCounts)>,
}

/// Everything that is counted of a class or a host.
#[derive(Debug, Default)]
struct Record {
    ahead: RoundTripTable,
    behind: RoundTripTable,
    whole: RoundTripTable,
    handshakes: RoundTripTable,
    segments: u64,
    repeated: u64,
    offered: u64,
}

impl Record {
    fn counts(&self) -> ExperienceCounts {
        ExperienceCounts {
            ahead: self.ahead.counts(),
            behind: self.behind.counts(),
            whole: self.whole.counts(),
            handshakes: self.handshakes.counts(),
            segments: self.segments,
            repeated: self.repeated,
            offered: Bytes::new(self.offered),
        }
    }
}

/// On which side of this host a round trip was, seen from an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Ahead,
    Behind,
}

/// A measured round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) time: Duration,
    /// With the last one of the connection on the other side, if there was one.
    pub(super) whole: Option<Duration>,
    /// It was a handshake's.
    pub(super) handshake: bool,
}

impl Sample {
    fn write(&self, record: &mut Record, side: Side) {
        match side {
            Side::Ahead => record.ahead.record(self.time),
            Side::Behind => record.behind.record(self.time),
        }
        if let Some(whole) = self.whole {
            match self.handshake {
                true => record.handshakes.record(whole),
                false => record.whole.record(whole),
            }
        }
    }
}

/// Segments of a connection in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passed {
    pub(super) segments: u32,
    pub(super) repeated: u32,
    pub(super) bytes: u32,
}

impl Passed {
    #[inline(always)]
    pub(super) fn add(&mut self, size: FrameSize) {
        self.segments += size.segments as u32;
        self.bytes = self.bytes.saturating_add(size.len.get() as u32);
    }

    fn write(&self, record: &mut Record) {
        record.segments += u64::from(self.segments);
        record.repeated += u64::from(self.repeated);
        record.offered += u64::from(self.bytes);
    }
}

/// Who is concerned, seen from an interface: the class of the packet, and the host behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Concerned {
    pub(super) class: Option<ClassId>,
    pub(super) host: u128,
}

/// The product of two words, folded.
#[inline(always)]
pub(super) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// An address as a key: IPv4 mapped into IPv6 (RFC 4291, section 2.5.5.2).
pub(super) fn host(key: &FlowKey, address: u128) -> u128 {
    match key.family {
        Family::V6 => address,
        Family::V4 | Family::Other => 0xffff_0000_0000 | address,
    }
}

#[derive(Debug, Default)]
struct Kept {
    key: u128,
    heard: u32,
    /// Made when it is first needed, then used again.
    record: Option<Box<Record>>,
}

/// Records by key, each in one of [`WAYS`] places.
#[derive(Debug)]
struct Records(Box<[Kept]>);

impl Records {
    fn new() -> Self {
        let mut kept = Vec::new();
        kept.resize_with(KEPT, Kept::default);
        Self(kept.into())
    }

    /// The record of this key; none if its places are all taken by others.
    fn of(&mut self, key: u128, now: u32) -> Option<&mut Record> {
        const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = fold(key as u64 ^ MIX, (key >> 64) as u64 ^ MIX.rotate_left(32));
        let first = mixed as usize % (KEPT / WAYS) * WAYS;
        let ways = &mut self.0[first..first + WAYS];
        // The clock of the other path's worker may have been read later.
        let age = |kept: &Kept| now.wrapping_sub(kept.heard).cast_signed().max(0);
        let own = ways
            .iter()
            .position(|kept| kept.key == key && kept.record.is_some());
        let free = || ways.iter().position(|kept| kept.record.is_none());
        let oldest = || {
            let aged = ways.iter().enumerate().map(|(way, kept)| (age(kept), way));
            aged.max().filter(|(age, _)| *age > IDLE).map(|(_, way)| way)
        };
        let way = own.or_else(free).or_else(oldest)?;
        let kept = &mut ways[way];
        if own.is_none() {
            kept.key = key;
            if let Some(record) = &mut kept.record {
                **record = Record::default();
            }
        }
        kept.heard = now;
        Some(kept.record.get_or_insert_default())
    }

    fn forget(&mut self, matching: impl Fn(u128) -> bool) {
        self.0
            .iter_mut()
            .filter(|kept| matching(kept.key))
            .for_each(|kept| {
                kept.record = None;
            });
    }

    fn read(&self) -> impl Iterator<Item = (u128, ExperienceCounts)> + '_ {
        let used = |kept: &Kept| Some((kept.key, kept.record.as_ref()?.counts()));
        self.0.iter().filter_map(used)
    }
}

/// The counts of an interface.
#[derive(Debug)]
pub(super) struct Tally {
    classes: Records,
    hosts: Option<Records>,
}

impl Tally {
    pub(super) fn new(of: ExperienceOf) -> Self {
        Self {
            classes: Records::new(),
            hosts: (of == ExperienceOf::Hosts).then(Records::new),
        }
    }

    fn each(&mut self, of: Concerned, now: u32, mut write: impl FnMut(&mut Record)) {
        if let Some(class) = of.class {
            self.classes
                .of(class.0.into(), now)
                .into_iter()
                .for_each(&mut write);
        }
        if let Some(hosts) = &mut self.hosts {
            hosts.of(of.host, now).into_iter().for_each(write);
        }
    }

    pub(super) fn sample(&mut self, of: Concerned, now: u32, sample: Sample, side: Side) {
        self.each(of, now, |record| sample.write(record, side));
    }

    pub(super) fn passed(&mut self, of: Concerned, now: u32, passed: Passed) {
        self.each(of, now, |record| passed.write(record));
    }

    /// Forgets this class, or all: their numbers are others' now.
    pub(super) fn forget(&mut self, class: Option<ClassId>) {
        self.classes
            .forget(|key| class.is_none_or(|class| u128::from(class.0) == key));
    }

    pub(super) fn read(&self) -> ExperienceReading {
        let address = |key: u128| match key >> 32 {
            0xffff => IpAddr::V4(Ipv4Addr::from_bits(key as u32)),
            _ => IpAddr::V6(Ipv6Addr::from_bits(key)),
        };
        let hosts = self.hosts.iter().flat_map(Records::read);
        ExperienceReading {
            classes: self
                .classes
                .read()
                .map(|(key, counts)| (ClassId(key as u32), counts))
                .collect(),
            hosts: hosts.map(|(key, counts)| (address(key), counts)).collect(),
        }
    }
}
