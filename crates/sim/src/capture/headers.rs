//! The headers of a simulated packet as bytes: Ethernet, IPv4 (RFC 791) or IPv6 (RFC 8200), and TCP
//! (RFC 9293, with the options of RFC 2018 and RFC 7323) or UDP (RFC 768).
//!
//! Checksums are correct for data of zeros. The SYN has sequence number 0, so byte n of the stream
//! has n + 1. Timestamps count microseconds. Ethernet addresses end with the last 32 bits of the IP
//! addresses. The simulation's lengths are IPv4's: in a flow of IPv6, the frame is as long as its
//! headers and data.

use crate::packet::{Payload, Segment, SimPacket};
use engine::header::{Family, FlowKey};
use engine::packet::Ecn;
use engine::units::Instant;

const ETHERNET: usize = 14;
const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;

/// In captures windows are in units of 2¹⁰ bytes, so up to 64 MiB.
const WINDOW_SCALE: u8 = 10;

/// The MSS option of SYN segments.
const MAXIMUM_SEGMENT: [u8; 2] = 1460u16.to_be_bytes();

/// Appends the packet's headers; returns the length of its frame.
pub fn write(out: &mut Vec<u8>, key: &FlowKey, packet: &SimPacket) -> u32 {
    write_scaled(out, key, packet, WINDOW_SCALE)
}

/// The same with windows in units of two to this power of bytes.
pub fn write_scaled(out: &mut Vec<u8>, key: &FlowKey, packet: &SimPacket, scale: u8) -> u32 {
    let frame = usize::try_from(packet.frame.get()).unwrap_or(usize::MAX);
    ethernet(out, key);
    let ip = out.len();
    let header = match key.family {
        Family::V4 => 20,
        Family::V6 => 40,
        Family::Other => return original(frame.max(ETHERNET)),
    };
    out.resize(ip + header, 0);
    let upper = out.len();
    let data = match packet.payload {
        Payload::Tcp(segment) if key.protocol == TCP => {
            tcp(out, key, packet, &segment, scale);
            segment.len as usize
        }
        _ if key.protocol == UDP => {
            let data = frame.saturating_sub(ETHERNET + header + UDP_HEADER);
            udp(out, key, data);
            data
        }
        _ => {
            ports(out, key);
            frame.saturating_sub(ETHERNET + header + out.len() - upper)
        }
    };
    let length = out.len() - ip + data;
    match key.family {
        Family::V4 => ipv4(&mut out[ip..upper], key, packet.ecn, length),
        _ => ipv6(&mut out[ip..upper], key, packet.ecn, length - header),
    }
    checksum_upper(&mut out[upper..], key, length - header);
    original(frame.max(ETHERNET + length))
}

fn original(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn ethernet(out: &mut Vec<u8>, key: &FlowKey) {
    for address in [key.destination, key.source] {
        // Locally administered, unicast.
        out.extend([0x02, 0]);
        out.extend((address as u32).to_be_bytes());
    }
    let ethertype = match key.family {
        Family::V4 => 0x0800,
        Family::V6 => 0x86dd,
        Family::Other => key.ethertype,
    };
    out.extend(ethertype.to_be_bytes());
}

fn class(key: &FlowKey, ecn: Ecn) -> u8 {
    let bits = match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    };
    key.dscp << 2 | bits
}

/// A length that does not fit is 0, as for super-frames on a real interface.
fn length_field(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(0).to_be_bytes()
}

fn ipv4(out: &mut [u8], key: &FlowKey, ecn: Ecn, length: usize) {
    out[0] = 0x45;
    out[1] = class(key, ecn);
    out[2..4].copy_from_slice(&length_field(length));
    // Don't fragment.
    out[6] = 0x40;
    out[8] = 64;
    out[9] = key.protocol;
    out[12..16].copy_from_slice(&(key.source as u32).to_be_bytes());
    out[16..20].copy_from_slice(&(key.destination as u32).to_be_bytes());
    let sum = !fold(sum(0, out));
    out[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn ipv6(out: &mut [u8], key: &FlowKey, ecn: Ecn, length: usize) {
    let first = 6 << 28 | u32::from(class(key, ecn)) << 20 | key.flow_label & 0xf_ffff;
    out[..4].copy_from_slice(&first.to_be_bytes());
    out[4..6].copy_from_slice(&length_field(length));
    out[6] = key.protocol;
    out[7] = 64;
    out[8..24].copy_from_slice(&key.source.to_be_bytes());
    out[24..40].copy_from_slice(&key.destination.to_be_bytes());
}

/// The ports, if the flow has any.
fn ports(out: &mut Vec<u8>, key: &FlowKey) {
    if let (Some(source), Some(destination)) = (key.source_port, key.destination_port) {
        out.extend(source.to_be_bytes());
        out.extend(destination.to_be_bytes());
    }
}

/// The ports, or zeros.
fn some_ports(out: &mut Vec<u8>, key: &FlowKey) {
    for port in [key.source_port, key.destination_port] {
        out.extend(port.unwrap_or(0).to_be_bytes());
    }
}

fn udp(out: &mut Vec<u8>, key: &FlowKey, data: usize) {
    some_ports(out, key);
    out.extend(length_field(UDP_HEADER + data));
    out.extend([0; 2]);
}

fn tcp(out: &mut Vec<u8>, key: &FlowKey, packet: &SimPacket, segment: &Segment, scale: u8) {
    let begin = out.len();
    let flags = segment.flags;
    // The SYN has number 0.
    let number = segment.seq + u64::from(!flags.syn);
    let ack = if segment.opens() { 0 } else { segment.ack + 1 };
    some_ports(out, key);
    out.extend((number as u32).to_be_bytes());
    out.extend((ack as u32).to_be_bytes());
    out.push(0);
    out.push(segment.control_bits());
    out.extend(window(segment, scale).to_be_bytes());
    out.extend([0; 4]);
    options(out, packet, segment, scale);
    out[begin + 12] = ((out.len() - begin) as u8 / 4) << 4 | u8::from(flags.ae);
}

/// The sending end receives no data, and the model leaves its window at 0: it advertises the
/// largest.
fn window(segment: &Segment, scale: u8) -> u16 {
    let units = if segment.flags.syn {
        segment.window
    } else {
        segment.window.div_ceil(1 << scale)
    };
    if segment.ack == 0 && segment.window == 0 {
        return u16::MAX;
    }
    u16::try_from(units).unwrap_or(u16::MAX)
}

fn options(out: &mut Vec<u8>, packet: &SimPacket, segment: &Segment, scale: u8) {
    const NOP: u8 = 1;
    let micros = |at: Instant| ((at.nanos() / 1_000) as u32).to_be_bytes();
    if segment.flags.syn {
        out.extend([2, 4]);
        out.extend(MAXIMUM_SEGMENT);
        out.extend([4, 2]);
    } else {
        out.extend([NOP, NOP]);
    }
    out.extend([8, 10]);
    out.extend(micros(packet.sent));
    out.extend(micros(segment.echo.unwrap_or(Instant::START)));
    if segment.flags.syn {
        out.extend([NOP, 3, 3, scale]);
    }
    let blocks = || segment.sack.iter().filter(|block| !block.is_empty());
    if blocks().next().is_some() {
        out.extend([NOP, NOP, 5, 2 + 8 * blocks().count() as u8]);
        for block in blocks() {
            out.extend((block.start as u32).wrapping_add(1).to_be_bytes());
            out.extend((block.end as u32).wrapping_add(1).to_be_bytes());
        }
    }
}

/// Fills in the checksum of TCP and UDP, over data of zeros.
fn checksum_upper(upper: &mut [u8], key: &FlowKey, length: usize) {
    let at = match key.protocol {
        TCP if upper.len() >= 20 => 16,
        UDP if upper.len() >= UDP_HEADER => 6,
        _ => return,
    };
    let addresses = [key.source, key.destination].map(u128::to_be_bytes);
    let addresses = addresses.iter().fold(0, |total, address| sum(total, address));
    let pseudo = addresses + u64::from(key.protocol) + length as u64;
    let checksum = !fold(sum(pseudo, upper));
    // In UDP, 0 means no checksum.
    let checksum = if checksum == 0 && key.protocol == UDP {
        u16::MAX
    } else {
        checksum
    };
    upper[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Adds 16-bit words (RFC 1071).
fn sum(total: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(2).fold(total, |total, pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        total + u64::from(u16::from_be_bytes([pair[0], low]))
    })
}

fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total >> 16) + (total & 0xffff);
    }
    total as u16
}

#[cfg(test)]
mod tests;
