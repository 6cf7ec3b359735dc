//! Synthesised headers parse back to the flow's key and the segment's fields, with right checksums.

use super::*;
use crate::packet::{ByteRange, Flags};
use engine::header::Headers;
use engine::units::{Bytes, Duration};

fn keys(protocol: u8) -> [FlowKey; 2] {
    let v4 = FlowKey {
        family: Family::V4,
        ethertype: 0x0800,
        protocol,
        dscp: 46,
        source: 0x0a00_0001,
        destination: 0xc0a8_fffe,
        source_port: Some(5_000),
        destination_port: Some(443),
        ..FlowKey::default()
    };
    let v6 = FlowKey {
        family: Family::V6,
        ethertype: 0x86dd,
        source: 0x2001_0db8 << 96 | 1,
        destination: 0xfd00 << 112 | 0xffff_ffff,
        flow_label: 0xf_1234,
        ..v4
    };
    [v4, v6]
}

/// The whole frame: headers, then zeros.
fn frame(key: &FlowKey, packet: &SimPacket) -> Vec<u8> {
    let mut bytes = Vec::new();
    let length = write(&mut bytes, key, packet);
    assert!(bytes.len() <= length as usize, "{} > {length}", bytes.len());
    bytes.resize(length as usize, 0);
    bytes
}

/// Whether the checksums of IPv4 and of TCP or UDP are right: with the pseudo-header, each sum is
/// all ones.
fn checksums_match(frame: &[u8], key: &FlowKey) -> bool {
    let read = Headers::parse(frame, 0);
    let (l3, l4) = (read.l3.expect("IP").into(), usize::from(read.l4.expect("above")));
    let end = l3 + read.l3_len as usize;
    let addresses = match key.family {
        Family::V4 => &frame[l3 + 12..l3 + 20],
        _ => &frame[l3 + 8..l3 + 40],
    };
    let pseudo = sum((end - l4) as u64 + u64::from(key.protocol), addresses);
    let header = key.family != Family::V4 || fold(sum(0, &frame[l3..l4])) == 0xffff;
    header && fold(sum(pseudo, &frame[l4..end])) == 0xffff
}

#[test]
fn a_synthesised_frame_parses_back_to_its_flows_key_and_its_checksums_are_right() {
    let segment = Segment {
        seq: 1_448,
        len: 1_448,
        ..Segment::default()
    };
    for (protocol, payload) in [(TCP, Payload::Tcp(segment)), (UDP, Payload::Datagram(7))] {
        for key in keys(protocol) {
            let mut packet = SimPacket::new(Bytes::new(1_514), payload);
            packet.ecn = Ecn::Ce;
            let frame = frame(&key, &packet);
            let read = Headers::parse(&frame, 0);
            assert_eq!(read.flaw, None);
            let seen = FlowKey {
                ecn: Ecn::Ce,
                tcp_flags: (protocol == TCP).then(|| segment.control_bits()),
                length: (frame.len() - ETHERNET) as u16,
                ..key
            };
            assert_eq!(read.key, seen);
            let longer = usize::from(key.family == Family::V6 && protocol == TCP) * 20;
            assert_eq!(frame.len(), 1_514 + longer);
            assert_eq!(read.l3_len as usize, frame.len() - ETHERNET);
            assert!(checksums_match(&frame, &key), "{key:?}");
        }
    }
}

#[test]
fn other_protocols_and_frames_that_are_not_ip_parse_back_too() {
    let packet = SimPacket::new(Bytes::new(100), Payload::Datagram(0));
    for protocol in [1, 132] {
        let mut key = keys(protocol)[0];
        if protocol == 1 {
            (key.source_port, key.destination_port) = (None, None);
        }
        let frame = frame(&key, &packet);
        let seen = FlowKey {
            length: (frame.len() - ETHERNET) as u16,
            ..key
        };
        assert_eq!(Headers::parse(&frame, 0).key, seen);
        assert_eq!(frame.len(), 100);
    }
    let arp = FlowKey {
        ethertype: 0x0806,
        ..FlowKey::default()
    };
    let read = Headers::parse(&frame(&arp, &packet), 0);
    assert_eq!((read.key, read.flaw), (arp, None));
}

#[test]
fn an_ack_has_its_numbers_its_window_its_timestamps_and_its_sack_blocks() {
    let segment = Segment {
        ack: 2_896,
        window: 1 << 20,
        sack: [
            ByteRange::new(4_344, 5_792),
            ByteRange::new(7_240, 8_688),
            ByteRange::default(),
        ],
        flags: Flags {
            ece: true,
            ..Flags::default()
        },
        echo: Some(Instant::from_nanos(5_000_000)),
        ..Segment::default()
    };
    let mut packet = SimPacket::new(Bytes::new(14 + 20 + 32 + 20), Payload::Tcp(segment));
    packet.sent = Instant::START + Duration::from_micros(7_001);
    let key = keys(TCP)[0];
    let frame = frame(&key, &packet);
    assert_eq!(frame.len(), 86, "the simulation's length is that of the headers");
    let tcp = &frame[34..];
    let word = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
    assert_eq!((word(4), word(8)), (1, 2_897));
    assert_eq!((tcp[12], tcp[13]), (13 << 4, 0x50));
    assert_eq!(&tcp[14..16], 1_024u16.to_be_bytes());
    assert_eq!(&tcp[20..24], [1, 1, 8, 10]);
    assert_eq!((word(24), word(28)), (7_001, 5_000));
    assert_eq!(&tcp[32..36], [1, 1, 5, 18]);
    assert_eq!([36, 40, 44, 48].map(word), [4_345, 5_793, 7_241, 8_689]);
    assert!(checksums_match(&frame, &key));
}

#[test]
fn a_syn_announces_its_options_and_only_the_syn_ack_acknowledges() {
    let syn = Segment {
        flags: Flags {
            syn: true,
            ..Flags::default()
        },
        ..Segment::default()
    };
    let syn_ack = Segment {
        window: 30_000,
        echo: Some(Instant::START),
        ..syn
    };
    let key = keys(TCP)[0];
    let [syn, syn_ack] =
        [syn, syn_ack].map(|segment| frame(&key, &SimPacket::new(Bytes::new(74), Payload::Tcp(segment))));
    assert_eq!((syn[34 + 13], syn_ack[34 + 13]), (0x02, 0x12));
    assert_eq!(&syn[34 + 4..34 + 12], [0; 8]);
    assert_eq!(&syn_ack[34 + 8..34 + 12], [0, 0, 0, 1]);
    assert_eq!(&syn_ack[34 + 14..34 + 16], 30_000u16.to_be_bytes());
    assert_eq!(&syn[54..62], [2, 4, 5, 180, 4, 2, 8, 10]);
    assert_eq!(&syn[70..74], [1, 3, 3, WINDOW_SCALE]);
    assert!(checksums_match(&syn, &key) && checksums_match(&syn_ack, &key));
}
