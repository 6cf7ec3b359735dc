//! Packets and filters as words: a key, and an entry that a key matches or not.
//!
//! All fields stand side by side in `N` words of 64 bits (3 for IPv4 and for what is not IP, 6 for
//! IPv6), so that one mask says which bits of which fields matter, and matching is a few ANDs. Only
//! ranges of ports and of lengths need a comparison more. Flags and lengths are compared and never
//! hashed: they tell few filters apart.

use super::filter::{Filter, Ports};
use crate::header::{Family, FlowKey, fold};
use std::collections::BTreeMap;

/// KeyWords of a packet that is not IPv6.
pub(super) const SHORT: usize = 3;
/// KeyWords of an IPv6 packet.
pub(super) const LONG: usize = 6;

/// A packet's fields: addresses, then ports, protocol, DSCP, flags of TCP, "has flags" and "has
/// ports", then mark and flow label. The length stands in two pieces where there is room.
pub(super) type KeyWords<const N: usize> = [u64; N];

/// Where the fields of the last word but one are.
const SOURCE_PORT: u32 = 48;
const DESTINATION_PORT: u32 = 32;
const PROTOCOL: u32 = 24;
const DSCP: u32 = 16;
const FLAGS: u32 = 8;
const HAS_FLAGS: u64 = 2;
const HAS_PORTS: u64 = 1;
/// The low 4 bits of the length in that word, and the high 12 in the last.
const LOW_LENGTH: u32 = 4;
const HIGH_LENGTH: u32 = 20;

/// Puts fields into their places; of a packet or of a filter, values or masks.
struct Fields {
    source: u128,
    destination: u128,
    ports: (u16, u16),
    protocol: u8,
    dscp: u8,
    flags: Option<u8>,
    has_ports: bool,
    length: u16,
    mark: u32,
    flow_label: u32,
}

impl Fields {
    #[inline]
    fn words<const N: usize>(&self) -> KeyWords<N> {
        let mut words = [0; N];
        if N == SHORT {
            words[0] = (self.source as u64) << 32 | u64::from(self.destination as u32);
        } else {
            words[0] = (self.source >> 64) as u64;
            words[1] = self.source as u64;
            words[2] = (self.destination >> 64) as u64;
            words[3] = self.destination as u64;
        }
        words[N - 2] = u64::from(self.ports.0) << SOURCE_PORT
            | u64::from(self.ports.1) << DESTINATION_PORT
            | u64::from(self.protocol) << PROTOCOL
            | u64::from(self.dscp) << DSCP
            | self
                .flags
                .map_or(0, |flags| u64::from(flags) << FLAGS | HAS_FLAGS)
            | u64::from(self.length & 0xf) << LOW_LENGTH
            | if self.has_ports { HAS_PORTS } else { 0 };
        words[N - 1] = u64::from(self.mark) << 32
            | u64::from(self.length >> 4) << HIGH_LENGTH
            | u64::from(self.flow_label);
        words
    }
}

/// A packet's words.
#[inline]
pub(super) fn words<const N: usize>(key: &FlowKey) -> KeyWords<N> {
    let ports = key.source_port.zip(key.destination_port);
    Fields {
        source: key.source,
        destination: key.destination,
        ports: ports.unwrap_or((0, 0)),
        protocol: key.protocol,
        dscp: key.dscp,
        flags: key.tcp_flags,
        has_ports: ports.is_some(),
        length: key.length,
        mark: key.mark,
        flow_label: key.flow_label,
    }
    .words()
}

/// A packet's length, of its words.
#[inline]
fn length<const N: usize>(words: &KeyWords<N>) -> u16 {
    (words[N - 1] >> HIGH_LENGTH << 4) as u16 | (words[N - 2] >> LOW_LENGTH) as u16 & 0xf
}

/// Precedence: the greater wins. Rule, fixed bits and number of a filter, one above the other; 0 is
/// nobody's.
pub(super) type Rank = u128;

/// The rank of the filter with this number.
pub(super) fn rank(filter: &Filter, id: u64) -> Rank {
    u128::from(filter.rule) << 96 | u128::from(filter.fixed_bits()) << 64 | u128::from(id + 1)
}

/// The number of the filter with this rank.
pub(super) fn id(rank: Rank) -> u64 {
    (rank as u64).wrapping_sub(1)
}

/// No entry, no node.
pub(super) const NOTHING: u32 = u32::MAX >> 1;

/// The masks in use. Filters are many and their masks few, so an entry has the number of its mask,
/// and fits a cache line. A mask stays when its last filter goes: there are only so many.
#[derive(Clone, Debug, Default)]
pub(super) struct Masks<const N: usize> {
    masks: Vec<KeyWords<N>>,
    numbers: BTreeMap<KeyWords<N>, u32>,
}

impl<const N: usize> Masks<N> {
    fn number(&mut self, mask: KeyWords<N>) -> u32 {
        let next = self.masks.len() as u32;
        let number = *self.numbers.entry(mask).or_insert(next);
        if number == next {
            self.masks.push(mask);
        }
        number
    }

    /// How many there are, and for how many there is memory.
    pub(super) fn room(&self) -> (usize, usize) {
        (self.masks.len(), self.masks.capacity())
    }

    /// Makes room for so many more.
    pub(super) fn reserve(&mut self, more: usize) {
        self.masks.reserve_exact(more);
    }

    #[inline]
    fn of(&self, entry: &Entry<N>) -> &KeyWords<N> {
        &self.masks[entry.mask as usize]
    }

    /// Bytes on the heap, without the tree's spare room.
    pub(super) fn memory(&self) -> usize {
        self.masks.capacity() * size_of::<KeyWords<N>>() + self.numbers.len() * (size_of::<KeyWords<N>>() + 4)
    }
}

/// A filter as the search sees it.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Entry<const N: usize> {
    /// The values of the masked fields, and the lowest ports.
    pub(super) value: KeyWords<N>,
    pub(super) rank: Rank,
    /// The lowest port and how far the highest is from it: source, then destination.
    ports: [(u16, u16); 2],
    /// The same of lengths.
    length: (u16, u16),
    /// The number of its mask, which has no bits of ports.
    mask: u32,
    pub(super) class: u32,
    /// The next in a list.
    pub(super) next: u32,
}

/// Which ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Source,
    Destination,
}

impl Side {
    pub(super) fn other(self) -> Self {
        if self == Self::Source {
            Self::Destination
        } else {
            Self::Source
        }
    }

    #[inline]
    pub(super) fn port<const N: usize>(self, words: &KeyWords<N>) -> u16 {
        let shift = if self == Self::Source {
            SOURCE_PORT
        } else {
            DESTINATION_PORT
        };
        (words[N - 2] >> shift) as u16
    }
}

impl<const N: usize> Entry<N> {
    /// A place without a filter.
    pub(super) const EMPTY: Self = Self {
        value: [0; N],
        rank: 0,
        ports: [(0, 0); 2],
        length: (0, 0),
        mask: 0,
        class: 0,
        next: NOTHING,
    };

    /// The filter's entry for packets of this family.
    pub(super) fn new(filter: &Filter, family: Family, rank: Rank, masks: &mut Masks<N>) -> Self {
        let (mut entry, mask) = Self::unnumbered(filter, family, rank);
        entry.mask = masks.number(mask);
        entry
    }

    /// The same, of a mask that need have no number yet; and that mask.
    pub(super) fn unnumbered(filter: &Filter, family: Family, rank: Rank) -> (Self, KeyWords<N>) {
        let range = |ports: Option<Ports>| ports.map_or((0, u16::MAX), |p| (p.low(), p.high()));
        let (source, destination) = (range(filter.source_port), range(filter.destination_port));
        let has_ports = filter.source_port.is_some() || filter.destination_port.is_some();
        let prefix = |prefix: Option<super::Prefix>| prefix.map_or((0, 0), |p| (p.bits(), p.mask()));
        let dscp = filter.dscp.filter(|_| family != Family::Other);
        let mask = Fields {
            source: prefix(filter.source).1,
            destination: prefix(filter.destination).1,
            ports: (0, 0),
            protocol: if filter.protocol.is_some() { u8::MAX } else { 0 },
            dscp: dscp.map_or(0, |dscp| dscp.mask()),
            flags: filter.tcp_flags.map(|flags| flags.mask()),
            has_ports,
            length: 0,
            mark: if filter.mark.is_some() { u32::MAX } else { 0 },
            flow_label: if filter.flow_label.is_some() {
                (1 << 20) - 1
            } else {
                0
            },
        };
        let value = Fields {
            source: prefix(filter.source).0,
            destination: prefix(filter.destination).0,
            ports: (source.0, destination.0),
            protocol: filter.protocol.unwrap_or(0),
            dscp: dscp.map_or(0, |dscp| dscp.value()),
            flags: filter.tcp_flags.map(|flags| flags.set()),
            has_ports,
            length: 0,
            mark: filter.mark.unwrap_or(0),
            flow_label: filter.flow_label.unwrap_or(0),
        };
        let entry = Self {
            value: value.words(),
            rank,
            ports: [
                (source.0, source.1 - source.0),
                (destination.0, destination.1 - destination.0),
            ],
            length: filter.length.map_or((0, u16::MAX), |lengths| {
                (lengths.low(), lengths.high() - lengths.low())
            }),
            class: filter.class.0,
            ..Self::EMPTY
        };
        (entry, mask.words())
    }

    /// Whether it takes the packet.
    #[inline]
    pub(super) fn matches(&self, key: &KeyWords<N>, masks: &Masks<N>) -> bool {
        let mut wrong = 0;
        for ((key, mask), value) in key.iter().zip(masks.of(self)).zip(&self.value) {
            wrong |= (key ^ value) & mask;
        }
        let within = |side: Side| {
            let (low, width) = self.ports[side as usize];
            side.port(key).wrapping_sub(low) <= width
        };
        let (shortest, width) = self.length;
        wrong == 0
            && within(Side::Source)
            && within(Side::Destination)
            && length(key).wrapping_sub(shortest) <= width
    }

    /// The lowest and the highest port.
    pub(super) fn range(&self, side: Side) -> (u16, u16) {
        let (low, width) = self.ports[side as usize];
        (low, low + width)
    }

    /// Whether every packet that `other` takes, with its port on this side from `low` to `high`, is
    /// taken by this one.
    pub(super) fn covers(&self, other: &Self, side: Side, (low, high): (u16, u16), masks: &Masks<N>) -> bool {
        let inside = |outer: (u16, u16), inner: (u16, u16)| outer.0 <= inner.0 && inner.1 <= outer.1;
        let (own, others) = (masks.of(self), masks.of(other));
        let fields =
            (0..N).all(|i| own[i] & !others[i] == 0 && (self.value[i] ^ other.value[i]) & own[i] == 0);
        let across = side.other();
        let lengths = |entry: &Self| (entry.length.0, entry.length.0 + entry.length.1);
        fields
            && inside(lengths(self), lengths(other))
            && inside(self.range(side), (low, high))
            && inside(self.range(across), other.range(across))
    }

    /// How many bits of each field it fixes.
    pub(super) fn shape(&self, masks: &Masks<N>) -> Shape {
        self.shape_under(masks.of(self))
    }

    /// The same of its mask.
    pub(super) fn shape_under(&self, mask: &KeyWords<N>) -> Shape {
        let ones = |word: u64| word.count_ones() as u8;
        let (source, destination) = if N == SHORT {
            (ones(mask[0] >> 32), ones(mask[0] & u64::from(u32::MAX)))
        } else {
            (ones(mask[0]) + ones(mask[1]), ones(mask[2]) + ones(mask[3]))
        };
        let (middle, last) = (mask[N - 2], mask[N - 1]);
        // The first bits that all ports of the range share can be hashed like a prefix.
        let port = |side: Side| {
            let (low, high) = self.range(side);
            (low ^ high).leading_zeros() as u8
        };
        Shape([
            source,
            destination,
            port(Side::Source),
            port(Side::Destination),
            ones(middle >> PROTOCOL & 0xff),
            // A code point is hashed whole or not at all.
            if middle >> DSCP & 0x3f == 0x3f { 6 } else { 0 },
            ones(middle & HAS_PORTS),
            ones(last >> 32),
            ones(last & u64::from(u32::MAX)),
        ])
    }
}

/// How many bits of each field are fixed: source, destination, source port, destination port,
/// protocol, DSCP, "has ports", mark, flow label. The last five are fixed whole or not at all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Shape(pub(super) [u8; 9]);

impl Shape {
    /// The bits that both fix.
    pub(super) fn meet(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].min(other.0[i])))
    }

    /// Whether this fixes at least what `other` does.
    pub(super) fn fits(&self, other: &Self) -> bool {
        (0..self.0.len()).all(|i| self.0[i] >= other.0[i])
    }

    /// How many bits are fixed.
    pub(super) fn bits(&self) -> u32 {
        self.0.iter().map(|&bits| u32::from(bits)).sum()
    }

    /// The same with addresses cut to a multiple of 4 bits (IPv6: 8), and ports to all or nothing:
    /// fewer shapes.
    pub(super) fn coarse<const N: usize>(&self) -> Self {
        let step = if N == SHORT { 4 } else { 8 };
        let mut shape = *self;
        shape.0[0] -= shape.0[0] % step;
        shape.0[1] -= shape.0[1] % step;
        shape.0[2] -= shape.0[2] % 16;
        shape.0[3] -= shape.0[3] % 16;
        shape
    }

    /// The bits, as a mask.
    pub(super) fn mask<const N: usize>(&self) -> KeyWords<N> {
        let [
            source,
            destination,
            from,
            to,
            protocol,
            dscp,
            has_ports,
            mark,
            label,
        ] = self.0;
        let width = if N == SHORT { 32 } else { 128 };
        let high = |bits: u8, width: u32| {
            let all = u128::MAX >> (128 - width);
            all & u128::MAX.checked_shl(width - u32::from(bits)).unwrap_or(0)
        };
        Fields {
            source: high(source, width),
            destination: high(destination, width),
            ports: (high(from, 16) as u16, high(to, 16) as u16),
            protocol: high(protocol, 8) as u8,
            dscp: high(dscp, 6) as u8,
            flags: None,
            has_ports: has_ports > 0,
            length: 0,
            mark: high(mark, 32) as u32,
            flow_label: high(label, 20) as u32,
        }
        .words()
    }
}

/// The secret of the hashes.
pub(super) type Secret = [u64; 6];

/// Hashes the words under a mask, a pair at a time.
#[inline]
pub(super) fn hash<const N: usize>(secret: &Secret, words: &KeyWords<N>, mask: &KeyWords<N>) -> u32 {
    let mut hash = 0;
    let mut i = 0;
    while i + 1 < N {
        hash = fold(
            words[i] & mask[i] ^ secret[i] ^ hash,
            words[i + 1] & mask[i + 1] ^ secret[i + 1],
        );
        i += 2;
    }
    if i < N {
        hash = fold(words[i] & mask[i] ^ secret[i] ^ hash, secret[i + 1]);
    }
    hash as u32
}

#[cfg(test)]
mod tests;
