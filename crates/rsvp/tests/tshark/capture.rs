//! Messages in IP packets, the packets in a capture file, and tshark's decoding of it.

use core::net::IpAddr;
use std::fs;
use std::process::Command;

/// A message in an IP packet.
pub(crate) struct Packet {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) router_alert: bool,
    pub(crate) message: Vec<u8>,
}

const RSVP: u8 = 46;
const TTL: u8 = 63;

impl Packet {
    fn bytes(&self) -> Vec<u8> {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let options: &[u8] = if self.router_alert { &[0x94, 4, 0, 0] } else { &[] };
                let header = 20 + options.len();
                let length = u16::try_from(header + self.message.len()).expect("it is short");
                let mut bytes = vec![0x40 | u8::try_from(header / 4).expect("it is short"), 0xc0];
                bytes.extend(length.to_be_bytes());
                bytes.extend([0, 1, 0, 0, TTL, RSVP, 0, 0]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
                bytes.extend(options);
                let words = bytes
                    .chunks(2)
                    .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
                let sum: u32 = words.sum();
                let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
                bytes[10..12].copy_from_slice(&sum.to_be_bytes());
                bytes.extend(&self.message);
                bytes
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let options: &[u8] = if self.router_alert {
                    &[RSVP, 0, 5, 2, 0, 1, 1, 0]
                } else {
                    &[]
                };
                let length = u16::try_from(options.len() + self.message.len()).expect("it is short");
                let mut bytes = vec![0x60, 0, 0, 0];
                bytes.extend(length.to_be_bytes());
                bytes.extend([if self.router_alert { 0 } else { RSVP }, TTL]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
                bytes.extend(options);
                bytes.extend(&self.message);
                bytes
            }
            _ => panic!("mixed address families"),
        }
    }
}

/// Packets as a pcap file of bare IP packets.
fn pcap(packets: &[Packet]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 0xffff, 101] {
        file.extend(word.to_be_bytes());
    }
    for (second, packet) in (0u32..).zip(packets) {
        let bytes = packet.bytes();
        let length = u32::try_from(bytes.len()).expect("it is short");
        for word in [second, 0, length, length] {
            file.extend(word.to_be_bytes());
        }
        file.extend(bytes);
    }
    file
}

/// What tshark prints for these packets with these arguments; `None` without tshark.
fn tshark(name: &str, packets: &[Packet], arguments: &[&str]) -> Option<String> {
    let path = std::env::temp_dir().join(format!("suimon-{name}-{}.pcap", std::process::id()));
    fs::write(&path, pcap(packets)).expect("a file in the directory for temporary files");
    let output = Command::new("tshark")
        .arg("-n")
        .arg("-r")
        .arg(&path)
        .args(arguments)
        .output();
    fs::remove_file(&path).expect("a file of this test");
    let Ok(output) = output else {
        skips::skipped("tshark is missing; on Debian and Ubuntu: apt-get install tshark");
        return None;
    };
    assert!(
        output.status.success(),
        "tshark: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8(output.stdout).expect("tshark writes UTF-8"))
}

/// The values of these fields in each packet, joined by commas; `None` without tshark.
pub(crate) fn fields(name: &str, packets: &[Packet], fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut arguments = vec!["-T", "fields", "-E", "separator=|", "-E", "aggregator=,"];
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    let text = tshark(name, packets, &arguments)?;
    let rows = text
        .lines()
        .map(|line| line.split('|').map(str::to_owned).collect());
    Some(rows.collect())
}

/// Asserts that tshark finds each packet's RSVP checksum correct, and nothing malformed. Does
/// nothing without tshark.
pub(crate) fn assert_sound(name: &str, packets: &[Packet]) {
    let Some(text) = tshark(name, packets, &["-V"]) else {
        return;
    };
    assert!(!text.contains("Malformed"), "{text}");
    let checksums: Vec<_> = text
        .lines()
        .filter(|line| line.trim_start().starts_with("Message Checksum"))
        .collect();
    // tshark does not check all messages in a bundle.
    let judged = checksums.iter().filter(|checksum| checksum.contains('['));
    assert!(judged.clone().count() >= packets.len(), "{text}");
    for checksum in judged {
        assert!(checksum.ends_with("[correct]"), "{checksum}");
    }
}
