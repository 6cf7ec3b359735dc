//! What a filter can express, what that means, and how specific it is.
//!
//! ALTQ's fields (Cho 1999, section 4.2.1), with ranges of ports, IPv6 prefixes, flags of TCP,
//! lengths, and the receiving interface's mark added. [`Filter::matches`] is the definition that
//! the search is tested against.

use crate::header::{Family, FlowKey, TCP};
use crate::packet::ClassId;
use core::net::IpAddr;
use std::fmt;
use std::str::FromStr;

/// Addresses with the same first bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Prefix {
    family: Family,
    len: u8,
    /// The first and the last 64 bits: whole 128 would align very many filters to 16 bytes.
    halves: [u64; 2],
}

impl Prefix {
    /// The addresses whose first `len` bits are those of `address`; `None` if it has fewer bits.
    pub fn new(address: IpAddr, len: u8) -> Option<Self> {
        let (family, bits, width) = match address {
            IpAddr::V4(address) => (Family::V4, u128::from(address.to_bits()), 32),
            IpAddr::V6(address) => (Family::V6, address.to_bits(), 128),
        };
        let unfixed = Self {
            family,
            len,
            halves: halves(bits),
        };
        (len <= width).then(|| Self {
            halves: halves(bits & unfixed.mask()),
            ..unfixed
        })
    }

    /// IPv4 or IPv6.
    pub fn family(&self) -> Family {
        self.family
    }

    /// How many bits are fixed.
    pub fn len(&self) -> u8 {
        self.len
    }

    /// Whether no bit is fixed: every address of the family.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The fixed bits, as in [`FlowKey::source`]; the others are 0.
    pub fn bits(&self) -> u128 {
        u128::from(self.halves[0]) << 64 | u128::from(self.halves[1])
    }

    /// 1 for each fixed bit.
    pub fn mask(&self) -> u128 {
        let width = if self.family == Family::V4 { 32 } else { 128 };
        let all = u128::MAX >> (128 - width);
        // A shift by the full width is a length of 0.
        all & u128::MAX
            .checked_shl(width - u32::from(self.len).min(width))
            .unwrap_or(0)
    }

    fn contains(&self, address: u128, family: Family) -> bool {
        family == self.family && address & self.mask() == self.bits()
    }
}

fn halves(bits: u128) -> [u64; 2] {
    [(bits >> 64) as u64, bits as u64]
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.family {
            Family::V6 => write!(f, "{}", core::net::Ipv6Addr::from_bits(self.bits()))?,
            _ => write!(f, "{}", core::net::Ipv4Addr::from_bits(self.bits() as u32))?,
        }
        write!(f, "/{}", self.len)
    }
}

/// A text that is not a filter's field; it reports what was expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterError(pub String);

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FilterError {}

impl FromStr for Prefix {
    type Err = FilterError;

    /// `10.0.0.0/8`, `2001:db8::/32`, or an address alone. Bits beyond the length must be 0:
    /// `10.1.0.0/8` is more often a slip than a wish.
    fn from_str(text: &str) -> Result<Self, FilterError> {
        let wrong = || {
            FilterError("expected an address or a prefix such as \"10.0.0.0/8\" or \"2001:db8::/32\"".into())
        };
        let (address, len) = match text.trim().split_once('/') {
            Some((address, len)) => (address, Some(len.parse::<u8>().map_err(|_| wrong())?)),
            None => (text.trim(), None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix = Self::new(address, len.unwrap_or(width))
            .ok_or_else(|| FilterError(format!("a prefix of this family has at most {width} bits")))?;
        let whole = Self::new(address, width).map_or(0, |whole| whole.bits());
        if prefix.bits() != whole {
            return Err(FilterError(format!(
                "\"{}\" has bits beyond its length; the prefix is {prefix}",
                text.trim()
            )));
        }
        Ok(prefix)
    }
}

/// Declares a range of numbers of 16 bits: what its text is, and the words of its messages.
macro_rules! range {
    ($(#[$doc:meta])* $name:ident, $text:literal, $one:literal, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $name {
            low: u16,
            high: u16,
        }

        impl $name {
            /// From `low` to `high`; `None` if there is nothing between them.
            pub fn new(low: u16, high: u16) -> Option<Self> {
                (low <= high).then_some(Self { low, high })
            }

            /// This one alone.
            pub fn one(number: u16) -> Self {
                Self {
                    low: number,
                    high: number,
                }
            }

            /// The lowest.
            pub fn low(&self) -> u16 {
                self.low
            }

            /// The highest.
            pub fn high(&self) -> u16 {
                self.high
            }

            fn contains(&self, number: u16) -> bool {
                (self.low..=self.high).contains(&number)
            }

            fn meets(&self, other: &Self) -> bool {
                self.low <= other.high && other.low <= self.high
            }

            /// 16 for one, 0 for all: 16 less the number of bits that it takes to tell them apart.
            fn fixed_bits(&self) -> u32 {
                (self.high - self.low).leading_zeros()
            }
        }

        impl FromStr for $name {
            type Err = FilterError;

            #[doc = $text]
            fn from_str(text: &str) -> Result<Self, FilterError> {
                let wrong = || FilterError($expected.into());
                let number = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
                let (low, high) = match text.split_once('-') {
                    Some((low, high)) => (number(low)?, number(high)?),
                    None => (number(text)?, number(text)?),
                };
                Self::new(low, high)
                    .ok_or_else(|| FilterError(format!("no {} is at least {low} and at most {high}", $one)))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if self.low == self.high {
                    write!(f, "{}", self.low)
                } else {
                    write!(f, "{}-{}", self.low, self.high)
                }
            }
        }
    };
}

range! {
    /// A range of ports, both ends included.
    Ports, "`5060-5070`, or a port alone.", "port",
    "expected a port such as \"53\" or a range such as \"5060-5070\""
}

range! {
    /// A range of lengths of IP packets in bytes, both ends included.
    Lengths, "`0-128`, or a length alone.", "length",
    "expected a length in bytes such as \"40\" or a range such as \"0-128\""
}

/// Control bits of TCP that are set, and others that are not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FlagPattern {
    value: u8,
    mask: u8,
}

/// The control bits by name, from the lowest (RFC 9293, section 3.1).
const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

impl FlagPattern {
    /// The `set` bits are set, and the `unset` ones are not; `None` if a bit is in both, or there
    /// are none.
    pub fn new(set: u8, unset: u8) -> Option<Self> {
        let mask = set | unset;
        (set & unset == 0 && mask != 0).then_some(Self { value: set, mask })
    }

    /// The bits that are set.
    pub fn set(&self) -> u8 {
        self.value
    }

    /// 1 for each bit that matters.
    pub fn mask(&self) -> u8 {
        self.mask
    }
}

impl FromStr for FlagPattern {
    type Err = FilterError;

    /// `syn, !ack`: flags that are set, and after a `!` flags that are not; others do not matter.
    fn from_str(text: &str) -> Result<Self, FilterError> {
        let (mut set, mut unset) = (0, 0);
        for part in text.split(',').map(str::trim) {
            let (name, bits) = match part.strip_prefix('!') {
                Some(name) => (name.trim(), &mut unset),
                None => (part, &mut set),
            };
            let bit = FLAGS.iter().position(|flag| flag.eq_ignore_ascii_case(name));
            let bit = bit.ok_or_else(|| {
                let all = FLAGS.join(", ");
                FilterError(format!(
                    "unknown flag \"{name}\"; the flags of TCP are {all}, such as \"syn, !ack\""
                ))
            })?;
            *bits |= 1 << bit;
        }
        Self::new(set, unset).ok_or_else(|| FilterError("a flag cannot be set and not set".into()))
    }
}

impl fmt::Display for FlagPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        let has = |bits: u8, bit: usize| bits >> bit & 1 == 1;
        for (bit, name) in FLAGS.iter().enumerate().filter(|(bit, _)| has(self.mask, *bit)) {
            let not = if has(self.value, bit) { "" } else { "!" };
            write!(f, "{between}{not}{name}")?;
            between = ", ";
        }
        Ok(())
    }
}

/// Code points that agree with a value in the bits of a mask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DscpPattern {
    value: u8,
    mask: u8,
}

impl DscpPattern {
    /// This code point alone, such as 46 (EF); `None` beyond 63.
    pub fn one(value: u8) -> Option<Self> {
        Self::masked(value, 63)
    }

    /// The value, 0 outside the mask.
    pub fn value(&self) -> u8 {
        self.value
    }

    /// 1 for each bit that matters.
    pub fn mask(&self) -> u8 {
        self.mask
    }

    /// The code points that agree with `value` where `mask` has a 1: (8, 56) is the class AF1 with
    /// CS1. `None` beyond 63.
    pub fn masked(value: u8, mask: u8) -> Option<Self> {
        (value < 64 && mask < 64).then_some(Self {
            value: value & mask,
            mask,
        })
    }
}

/// The packets that a class takes. A field that is `None` is not examined. A filter without any
/// takes every packet, including non-IP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Filter {
    /// The class.
    pub class: ClassId,
    /// The rule number: higher goes first.
    pub rule: u32,
    /// IPv4 or IPv6 or neither.
    pub family: Option<Family>,
    /// Source addresses.
    pub source: Option<Prefix>,
    /// Destination addresses.
    pub destination: Option<Prefix>,
    /// The transport protocol, of IP packets.
    pub protocol: Option<u8>,
    /// Source ports.
    pub source_port: Option<Ports>,
    /// Destination ports.
    pub destination_port: Option<Ports>,
    /// The control bits of TCP.
    pub tcp_flags: Option<FlagPattern>,
    /// Lengths, of IP packets.
    pub length: Option<Lengths>,
    /// Differentiated services code points, of IP packets.
    pub dscp: Option<DscpPattern>,
    /// The flow label, of IPv6 packets.
    pub flow_label: Option<u32>,
    /// The receiving interface's mark.
    pub mark: Option<u32>,
}

impl Filter {
    /// A filter that takes every packet.
    pub fn new(class: ClassId) -> Self {
        Self {
            class,
            rule: 0,
            family: None,
            source: None,
            destination: None,
            protocol: None,
            source_port: None,
            destination_port: None,
            tcp_flags: None,
            length: None,
            dscp: None,
            flow_label: None,
            mark: None,
        }
    }

    /// Whether it takes this packet: the definition, which every search must agree with.
    pub fn matches(&self, key: &FlowKey) -> bool {
        let ip = key.family != Family::Other;
        let port = |ports: Option<Ports>, port: Option<u16>| {
            ports.is_none_or(|ports| port.is_some_and(|port| ports.contains(port)))
        };
        self.family.is_none_or(|family| key.family == family)
            && self
                .source
                .is_none_or(|prefix| prefix.contains(key.source, key.family))
            && self
                .destination
                .is_none_or(|prefix| prefix.contains(key.destination, key.family))
            && self
                .protocol
                .is_none_or(|protocol| ip && key.protocol == protocol)
            && port(self.source_port, key.source_port)
            && port(self.destination_port, key.destination_port)
            && self
                .tcp_flags
                .is_none_or(|flags| key.tcp_flags.is_some_and(|own| own & flags.mask == flags.value))
            && self
                .length
                .is_none_or(|lengths| ip && lengths.contains(key.length))
            && self
                .dscp
                .is_none_or(|dscp| ip && key.dscp & dscp.mask == dscp.value)
            && self
                .flow_label
                .is_none_or(|label| key.family == Family::V6 && key.flow_label == label)
            && self.mark.is_none_or(|mark| key.mark == mark)
    }

    /// Whether there may be a packet that both take. `false` is certain.
    pub fn meets(&self, other: &Self) -> bool {
        let apart = |a: Option<Prefix>, b: Option<Prefix>| {
            let pair = a.zip(b);
            pair.is_some_and(|(a, b)| {
                let mask = a.mask() & b.mask();
                a.family != b.family || a.bits() & mask != b.bits() & mask
            })
        };
        let differ = |a: Option<u32>, b: Option<u32>| a.zip(b).is_some_and(|(a, b)| a != b);
        let ranges = |a: Option<Ports>, b: Option<Ports>| a.zip(b).is_some_and(|(a, b)| !a.meets(&b));
        let lengths = self.length.zip(other.length);
        let flags = self.tcp_flags.zip(other.tcp_flags);
        let points = self.dscp.zip(other.dscp);
        let family = self
            .families()
            .any(|family| other.families().any(|also| family == also));
        family
            && !apart(self.source, other.source)
            && !apart(self.destination, other.destination)
            && !differ(self.protocol().map(u32::from), other.protocol().map(u32::from))
            && flags.is_none_or(|(a, b)| (a.value ^ b.value) & a.mask & b.mask == 0)
            && lengths.is_none_or(|(a, b)| a.meets(&b))
            && !ranges(self.source_port, other.source_port)
            && !ranges(self.destination_port, other.destination_port)
            && points.is_none_or(|(a, b)| (a.value ^ b.value) & a.mask & b.mask == 0)
            && !differ(self.flow_label, other.flow_label)
            && !differ(self.mark, other.mark)
    }

    /// The families whose packets it can take; none if it contradicts itself (an IPv4 source and an
    /// IPv6 destination), so that it never takes any.
    pub fn families(&self) -> impl Iterator<Item = Family> + use<> {
        let this = *self;
        let prefixes = [self.source, self.destination];
        let of_ip = self.dscp.is_some() || self.length.is_some();
        let ip_only = self.protocol().is_some() || of_ip || self.has_ports();
        let label = self.flow_label.is_some_and(|label| label < 1 << 20);
        [Family::Other, Family::V4, Family::V6]
            .into_iter()
            .filter(move |family| {
                this.family.is_none_or(|own| own == *family)
                    && prefixes.iter().flatten().all(|prefix| prefix.family == *family)
                    && (this.flow_label.is_none() || label && *family == Family::V6)
                    && (!ip_only || *family != Family::Other)
            })
    }

    /// Whether packets of one flow may differ in what it examines.
    pub fn divides_flows(&self) -> bool {
        self.tcp_flags.is_some() || self.length.is_some()
    }

    /// The transport protocol, given or implied by flags.
    fn protocol(&self) -> Option<u8> {
        self.protocol.or(self.tcp_flags.map(|_| TCP))
    }

    fn has_ports(&self) -> bool {
        self.source_port.is_some() || self.destination_port.is_some()
    }

    /// How specific it is: the number of bits of a packet that it fixes. A prefix counts its
    /// length, a protocol, given or implied by flags, 8, a range of w ports or lengths
    /// 16 − ⌈log₂ w⌉, flags and a code point the ones of their masks, a flow label 20, a mark 32,
    /// and the family, given or implied by a prefix or a flow label, 1.
    pub fn fixed_bits(&self) -> u32 {
        let prefix = |prefix: Option<Prefix>| prefix.map_or(0, |prefix| u32::from(prefix.len));
        let ports = |ports: Option<Ports>| ports.map_or(0, |ports| ports.fixed_bits());
        let if_some = |is: bool, bits: u32| if is { bits } else { 0 };
        let family = self.family.is_some()
            || self.source.is_some()
            || self.destination.is_some()
            || self.flow_label.is_some();
        if_some(family, 1)
            + prefix(self.source)
            + prefix(self.destination)
            + if_some(self.protocol().is_some(), 8)
            + ports(self.source_port)
            + ports(self.destination_port)
            + self.tcp_flags.map_or(0, |flags| flags.mask.count_ones())
            + self.length.map_or(0, |lengths| lengths.fixed_bits())
            + self.dscp.map_or(0, |dscp| dscp.mask.count_ones())
            + if_some(self.flow_label.is_some(), 20)
            + if_some(self.mark.is_some(), 32)
    }
}

#[cfg(test)]
mod tests;
