//! From a frame's bytes to the fields that classify a packet: once per packet, pure, and safe on
//! any bytes.
//!
//! Follows IEEE 802.1Q and 802.1ad (tags), RFC 2516 (PPPoE), RFC 3032 (MPLS), RFC 791 (IPv4), RFC
//! 8200 (IPv6 and its extension headers), RFC 6946 (atomic fragments), RFC 4302 and 4303 (AH,
//! ESP), RFC 3168 (ECN) and RFC 1624 (updating a checksum).
//!
//! What a header does not show is absent, never guessed. A frame that ends early, contradicts
//! itself or nests too deeply yields the fields that could be read, and a [`Flaw`].
//!
//! **Fragments.** Only the first fragment carries ports, and no state is kept (ALTQ kept the last
//! 16 first fragments and failed when they came out of order). So that the fragments of a datagram
//! stay together wherever flows are spread over queues, [`FlowHasher`] hashes *every* fragment, the
//! first included, by its addresses and flow label only. Classes cannot do the same: a filter with
//! ports takes the first fragment and not the rest, so fragmented traffic is better classified by
//! addresses, protocol or DSCP, which all fragments carry. An IPv6 fragment header that divides
//! nothing (offset 0, none to follow) is not a fragment.
//!
//! **PPPoE and MPLS** in front of an IP packet are followed, as a router before a DSL modem or in
//! a provider's network sees them. What MPLS carries is not written in it: IP is known by its
//! version, as routers do it (RFC 4928); a pseudowire's control word begins otherwise.
//!
//! **AH** is parsed, in IPv4 too: [`FlowKey::protocol`] is what it protects. **ESP** hides what is
//! behind it, and its SPI takes the place of ports in the flow's hash. Tunnels are not
//! decapsulated.
//!
//! **Lengths.** A length field of 0 means "all that is there": so the kernel delivers super-frames
//! beyond 64 KiB. Ports are read only inside the length that the header declares, so padding is
//! never taken for ports.

use crate::packet::{Ecn, FlowHashes};
use crate::random::Seed;

/// VLAN tags followed at most. Two are in use (802.1ad); more is a mistake or an attack.
pub const MAX_TAGS: usize = 4;

/// MPLS labels followed at most: transport, service, entropy with its indicator, and some.
pub const MAX_LABELS: usize = 8;

/// Extension headers followed at most. RFC 8200 knows six, each once but one.
pub const MAX_EXTENSIONS: usize = 8;

/// The network protocol of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Family {
    /// Neither IPv4 nor IPv6 (ARP, for example), or its IP header could not be read.
    #[default]
    Other,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Which part of a datagram a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Fragment {
    /// All of it.
    #[default]
    Whole,
    /// The first fragment: it has the transport header.
    First,
    /// A later fragment: it has no ports.
    Later,
}

/// What was wrong with a frame's headers. Only the worst is kept: the one that ended the parsing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Flaw {
    /// The frame, or the length that its header declares, ends before the header or the data does.
    Truncated,
    /// A version or a length contradicts the rest.
    Malformed,
    /// More tags or extension headers than are followed.
    TooDeep,
}

/// The fields that filters match and that distinguish flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowKey {
    /// The source address; IPv4 in the low 32 bits (a space of its own, distinguished by `family`).
    pub source: u128,
    /// The destination address, in the same form.
    pub destination: u128,
    /// The network protocol.
    pub family: Family,
    /// Whether this is a fragment.
    pub fragment: Fragment,
    /// The transport protocol, after all extension headers that could be followed.
    pub protocol: u8,
    /// The differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// The ECN field.
    pub ecn: Ecn,
    /// The source port of TCP, UDP, UDP-Lite, SCTP or DCCP, where it can be seen.
    pub source_port: Option<u16>,
    /// The destination port.
    pub destination_port: Option<u16>,
    /// The control bits of TCP, where they can be seen.
    pub tcp_flags: Option<u8>,
    /// Bytes of the IP packet: what its header declares, even if less is there, and 65535 at most;
    /// 0 for what is not IP.
    pub length: u16,
    /// The innermost type of the Ethernet frame, or its length if it is below 0x600.
    pub ethertype: u16,
    /// The IPv6 flow label, 20 bits; 0 in IPv4.
    pub flow_label: u32,
    /// The security parameters index of ESP or AH.
    pub spi: Option<u32>,
    /// A mark that the port sets on receive; it identifies the interface.
    pub mark: u32,
}

/// A frame's headers, parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Headers {
    /// The fields.
    pub key: FlowKey,
    /// Where the IP header starts; `None` if it is not IP or could not be read.
    pub l3: Option<u16>,
    /// Where the transport header starts; `None` if it could not be reached, and for later
    /// fragments.
    pub l4: Option<u16>,
    /// The length of the IP packet: what its header declares, but at most what is there. 0 without
    /// `l3`.
    pub l3_len: u32,
    /// What was wrong.
    pub flaw: Option<Flaw>,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const PPPOE: u16 = 0x8864;
const MPLS: u16 = 0x8847;
const MPLS_UPSTREAM: u16 = 0x8848;
const HOP_BY_HOP: u8 = 0;
pub(crate) const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const ESP: u8 = 50;
const AH: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// `N` bytes at `at`, if they are there.
#[inline]
fn read<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[inline]
fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    read(bytes, at).map(u16::from_be_bytes)
}

#[inline]
fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    read(bytes, at).map(u32::from_be_bytes)
}

/// An offset as it is stored. All offsets are below 2¹⁵: the tags, labels, extension headers and
/// their lengths are bounded.
#[inline]
fn offset(at: usize) -> Option<u16> {
    u16::try_from(at).ok()
}

fn ecn(bits: u8) -> Ecn {
    match bits & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

/// The frame's type behind its tags, and where its payload starts.
#[inline]
fn ethernet(frame: &[u8]) -> Result<(u16, usize), Flaw> {
    let mut at = 12;
    for _ in 0..=MAX_TAGS {
        let ethertype = read_u16(frame, at).ok_or(Flaw::Truncated)?;
        at += 2;
        match ethertype {
            0x8100 | 0x88a8 | 0x9100 => at += 2,
            PPPOE | MPLS | MPLS_UPSTREAM => return inside(frame, ethertype, at),
            _ => return Ok((ethertype, at)),
        }
    }
    Err(Flaw::TooDeep)
}

/// The same behind PPPoE or labels, if IP is there; where these start otherwise.
#[cold]
fn inside(frame: &[u8], ethertype: u16, start: usize) -> Result<(u16, usize), Flaw> {
    if ethertype == PPPOE {
        let header: [u8; 8] = read(frame, start).ok_or(Flaw::Truncated)?;
        return Ok(
            match (header[0], header[1], u16::from_be_bytes([header[6], header[7]])) {
                (0x11, 0, 0x0021) => (IPV4, start + header.len()),
                (0x11, 0, 0x0057) => (IPV6, start + header.len()),
                _ => (PPPOE, start),
            },
        );
    }
    let mut at = start;
    for _ in 0..MAX_LABELS {
        let label = read_u32(frame, at).ok_or(Flaw::Truncated)?;
        at += 4;
        if label >> 8 & 1 == 1 {
            let [version] = read(frame, at).ok_or(Flaw::Truncated)?;
            return Ok(match version >> 4 {
                4 => (IPV4, at),
                6 => (IPV6, at),
                _ => (ethertype, start),
            });
        }
    }
    Err(Flaw::TooDeep)
}

/// Where the length of a frame's PPPoE payload is written, if it has one: whoever divides the frame
/// writes it anew.
pub fn pppoe_length(frame: &[u8]) -> Option<usize> {
    let tags = (0..=MAX_TAGS).map(|tags| 12 + 4 * tags);
    let mut types = tags.map(|at| (at, read_u16(frame, at)));
    let (at, ethertype) = types.find(|(_, found)| !matches!(found, Some(0x8100 | 0x88a8 | 0x9100)))?;
    (ethertype == Some(PPPOE)).then_some(at + 6)
}

impl Headers {
    /// Parses an Ethernet frame. `mark` is the receiving interface's.
    #[inline]
    pub fn parse(frame: &[u8], mark: u32) -> Self {
        let mut headers = Self::default();
        headers.key.mark = mark;
        let read = ethernet(frame).and_then(|(ethertype, at)| {
            headers.key.ethertype = ethertype;
            match ethertype {
                IPV4 => headers.ipv4(frame, at),
                IPV6 => headers.ipv6(frame, at),
                _ => Ok(()),
            }
        });
        headers.flaw = read.err();
        headers
    }

    /// Declares the packet's length; where it ends, and whether all of it is there.
    fn length(&mut self, frame: &[u8], at: usize, declared: usize) -> (usize, Result<(), Flaw>) {
        let present = frame.len() - at;
        let len = if declared == 0 {
            present
        } else {
            declared.min(present)
        };
        self.l3_len = u32::try_from(len).unwrap_or(u32::MAX);
        self.key.length = u16::try_from(len.max(declared)).unwrap_or(u16::MAX);
        let whole = if declared > present {
            Err(Flaw::Truncated)
        } else {
            Ok(())
        };
        (at + len, whole)
    }

    fn ipv4(&mut self, frame: &[u8], at: usize) -> Result<(), Flaw> {
        let fixed: [u8; 20] = read(frame, at).ok_or(Flaw::Truncated)?;
        let header = usize::from(fixed[0] & 0x0f) * 4;
        if fixed[0] >> 4 != 4 || header < fixed.len() {
            return Err(Flaw::Malformed);
        }
        let declared = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        let cut = u16::from_be_bytes([fixed[6], fixed[7]]);
        self.l3 = offset(at);
        self.key.family = Family::V4;
        self.key.dscp = fixed[1] >> 2;
        self.key.ecn = ecn(fixed[1]);
        self.key.protocol = fixed[9];
        self.key.source = u32::from_be_bytes([fixed[12], fixed[13], fixed[14], fixed[15]]).into();
        self.key.destination = u32::from_be_bytes([fixed[16], fixed[17], fixed[18], fixed[19]]).into();
        self.key.fragment = match (cut & 0x1fff, cut & 0x2000 != 0) {
            (0, false) => Fragment::Whole,
            (0, true) => Fragment::First,
            _ => Fragment::Later,
        };
        let (end, whole) = self.length(frame, at, declared);
        if declared != 0 && declared < header {
            return Err(Flaw::Malformed);
        }
        self.upper(&frame[..end], at + header, fixed[9]).and(whole)
    }

    fn ipv6(&mut self, frame: &[u8], at: usize) -> Result<(), Flaw> {
        let fixed: [u8; 8] = read(frame, at).ok_or(Flaw::Truncated)?;
        let first = u32::from_be_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]);
        if first >> 28 != 6 {
            return Err(Flaw::Malformed);
        }
        let source = read(frame, at + 8).ok_or(Flaw::Truncated)?;
        let destination = read(frame, at + 24).ok_or(Flaw::Truncated)?;
        self.l3 = offset(at);
        self.key.family = Family::V6;
        self.key.dscp = (first >> 22 & 0x3f) as u8;
        self.key.ecn = ecn((first >> 20) as u8);
        self.key.flow_label = first & 0xf_ffff;
        self.key.source = u128::from_be_bytes(source);
        self.key.destination = u128::from_be_bytes(destination);
        let declared = match usize::from(u16::from_be_bytes([fixed[4], fixed[5]])) {
            0 => 0,
            payload => 40 + payload,
        };
        let (end, whole) = self.length(frame, at, declared);
        self.upper(&frame[..end], at + 40, fixed[6]).and(whole)
    }

    /// Follows the headers between the IP header and the transport header. `packet` ends where the
    /// IP packet does.
    fn upper(&mut self, packet: &[u8], mut at: usize, mut next: u8) -> Result<(), Flaw> {
        for _ in 0..=MAX_EXTENSIONS {
            self.key.protocol = next;
            if self.key.fragment == Fragment::Later {
                return Ok(());
            }
            let v6 = self.key.family == Family::V6;
            match next {
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS if v6 => {
                    let [after, len] = read(packet, at).ok_or(Flaw::Truncated)?;
                    next = after;
                    at += (usize::from(len) + 1) * 8;
                }
                AH => {
                    let [after, len] = read(packet, at).ok_or(Flaw::Truncated)?;
                    self.key.spi = Some(read_u32(packet, at + 4).ok_or(Flaw::Truncated)?);
                    next = after;
                    at += (usize::from(len) + 2) * 4;
                }
                FRAGMENT if v6 => {
                    let [after, _, high, low] = read(packet, at).ok_or(Flaw::Truncated)?;
                    let cut = u16::from_be_bytes([high, low]);
                    self.key.fragment = match (cut >> 3, cut & 1 != 0) {
                        (0, false) => self.key.fragment,
                        (0, true) => Fragment::First,
                        _ => Fragment::Later,
                    };
                    next = after;
                    at += 8;
                }
                _ => return self.transport(packet, at),
            }
        }
        Err(Flaw::TooDeep)
    }

    fn transport(&mut self, packet: &[u8], at: usize) -> Result<(), Flaw> {
        if at > packet.len() {
            return Err(Flaw::Truncated);
        }
        self.l4 = offset(at);
        match self.key.protocol {
            TCP | UDP | UDP_LITE | SCTP | DCCP => {
                let ports = read_u32(packet, at).ok_or(Flaw::Truncated)?;
                self.key.source_port = Some((ports >> 16) as u16);
                self.key.destination_port = Some(ports as u16);
                if self.key.protocol == TCP {
                    self.key.tcp_flags = packet.get(at + 13).copied();
                }
            }
            ESP => self.key.spi = Some(read_u32(packet, at).ok_or(Flaw::Truncated)?),
            _ => {}
        }
        Ok(())
    }
}

/// Sets "congestion experienced" in the IP header of an Ethernet frame, as a port does on departure
/// for a marked packet. `true` if the frame carries CE now; `false`, and no change, if it is not IP
/// or its transport is not ECN-capable (RFC 3168 forbids marking it). The IPv4 checksum is updated
/// incrementally, so a wrong one stays wrong (RFC 1624, equation 3).
pub fn set_ce(frame: &mut [u8]) -> bool {
    let Ok((ethertype, at)) = ethernet(frame) else {
        return false;
    };
    match ethertype {
        IPV4 => set_ce_v4(&mut frame[at..]),
        IPV6 => set_ce_v6(&mut frame[at..]),
        _ => false,
    }
}

/// Sets the DSCP of a frame's outer IP header, as a port does for a packet that was remarked.
/// `false`, and no change, if it is not IP. The checksum as in [`set_ce`].
pub fn set_dscp(frame: &mut [u8], dscp: u8) -> bool {
    let Ok((ethertype, at)) = ethernet(frame) else {
        return false;
    };
    let packet = &mut frame[at..];
    match (ethertype, packet.first().map_or(0, |first| first >> 4)) {
        (IPV4, 4) => {
            let Some(header) = packet
                .first_chunk_mut::<20>()
                .filter(|header| header[0] & 0xf >= 5)
            else {
                return false;
            };
            change_v4(header, dscp << 2 | header[1] & 3);
        }
        (IPV6, 6) => {
            let Some(header) = packet.first_chunk_mut::<40>() else {
                return false;
            };
            header[0] = 6 << 4 | dscp >> 2 & 0xf;
            header[1] = dscp << 6 | header[1] & 0x3f;
        }
        _ => return false,
    }
    true
}

/// Changes the second byte of an IPv4 header, and the checksum with it.
fn change_v4(header: &mut [u8; 20], second: u8) {
    let before = u16::from_be_bytes([header[0], header[1]]);
    header[1] = second;
    let after = u16::from_be_bytes([header[0], header[1]]);
    let checksum = u16::from_be_bytes([header[10], header[11]]);
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    [header[10], header[11]] = (!(folded as u16)).to_be_bytes();
}

fn set_ce_v4(packet: &mut [u8]) -> bool {
    let Some(header) = packet.first_chunk_mut::<20>() else {
        return false;
    };
    if header[0] >> 4 != 4 || header[0] & 0xf < 5 || header[1] & 3 == 0 {
        return false;
    }
    change_v4(header, header[1] | 3);
    true
}

fn set_ce_v6(packet: &mut [u8]) -> bool {
    // The traffic class lies across the first two bytes; its low two bits are bits 5 and 4 of the
    // second.
    match packet.first_chunk_mut::<40>() {
        Some(header) if header[0] >> 4 == 6 && header[1] & 0x30 != 0 => {
            header[1] |= 0x30;
            true
        }
        _ => false,
    }
}

/// Hashes flows with a secret, since senders choose their addresses and ports: without it, one
/// sender could aim all its flows at another's queue. A multiplication folded on itself: two or
/// three multiplications a hash.
#[derive(Clone, Debug)]
pub struct FlowHasher {
    keys: [u64; 6],
}

/// The product of two words, folded: each bit of the result depends on all bits of both.
#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

impl FlowHasher {
    /// A hasher with the secret of this seed.
    pub fn new(seed: Seed) -> Self {
        let mut rng = seed.fork("flow hash").stream();
        Self {
            keys: std::array::from_fn(|_| rng.bits()),
        }
    }

    #[inline]
    fn host(&self, address: u128, family: Family) -> u64 {
        let [k0, k1, ..] = self.keys;
        fold(
            address as u64 ^ k0,
            (address >> 64) as u64 ^ k1 ^ (family as u64) << 32,
        )
    }

    /// The three hashes of a packet. A host has the same hash as source and as destination.
    /// Fragments: see the head of this file. Without ports or SPI, the IPv6 flow label takes their
    /// place.
    #[inline]
    pub fn flow(&self, key: &FlowKey) -> FlowHashes {
        let [source, destination, full] = self.hashes(key).map(|hash| hash as u32);
        FlowHashes {
            source,
            destination,
            full,
        }
    }

    /// [`FlowHashes::full`] with all its bits: what tells connections apart by itself.
    #[inline]
    pub fn wide(&self, key: &FlowKey) -> u64 {
        let [_, _, full] = self.hashes(key);
        full
    }

    #[inline]
    fn hashes(&self, key: &FlowKey) -> [u64; 3] {
        let [_, _, k2, k3, k4, k5] = self.keys;
        let source = self.host(key.source, key.family);
        let destination = self.host(key.destination, key.family);
        let whole = key.fragment == Fragment::Whole;
        let rest = match (key.source_port, key.destination_port, key.spi) {
            _ if key.family == Family::Other => u64::from(key.ethertype) << 48,
            (Some(from), Some(to), _) if whole => u64::from(from) << 16 | u64::from(to),
            (_, _, Some(spi)) if whole => u64::from(spi) | 1 << 40,
            _ => u64::from(key.flow_label) | 2 << 40,
        };
        let protocol = if whole { u64::from(key.protocol) << 32 } else { 0 };
        let hosts = fold(source ^ k2, destination ^ k3);
        [source, destination, fold(hosts ^ k4, rest ^ protocol ^ k5)]
    }
}

#[cfg(test)]
mod tests;
