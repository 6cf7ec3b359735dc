//! Vectors made by hand for each shape of header, and any bytes at all.

use super::*;
use proptest::prelude::*;

const MAC: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// An IPv4 header from 10.0.0.1 to 10.0.0.2: DSCP 46, ECT(0), and these fields; `more` are option
/// words.
fn v4(more: u8, total: u16, cut: u16, protocol: u8) -> Vec<u8> {
    let mut header = vec![
        0x45 + more,
        46 << 2 | 2,
        0,
        0,
        0,
        7,
        0,
        0,
        64,
        protocol,
        0,
        0,
        10,
        0,
        0,
        1,
        10,
        0,
        0,
        2,
    ];
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[6..8].copy_from_slice(&cut.to_be_bytes());
    header.extend(vec![1; usize::from(more) * 4]);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

/// The Internet checksum computed anew (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

/// An IPv6 header from 2001:db8::1 to 2001:db8::2: DSCP 10, ECT(1), flow label 0x12345.
fn v6(payload: u16, next: u8) -> Vec<u8> {
    let mut header = vec![0x62, 0x91, 0x23, 0x45, 0, 0, next, 64];
    header[4..6].copy_from_slice(&payload.to_be_bytes());
    for host in [1, 2] {
        header.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    header
}

/// Source port 12345, destination port 53, and four bytes more.
const PORTS: [u8; 8] = [0x30, 0x39, 0, 53, 0, 8, 0, 0];

fn ethernet_v4(packet: &[u8]) -> Vec<u8> {
    join(&[&MAC, &[8, 0], packet])
}

fn ethernet_v6(parts: &[&[u8]]) -> Vec<u8> {
    join(&[&MAC, &[0x86, 0xdd], &parts.concat()])
}

fn ports(headers: &Headers) -> Option<(u16, u16)> {
    headers.key.source_port.zip(headers.key.destination_port)
}

const BOTH: Option<(u16, u16)> = Some((12345, 53));

#[test]
fn plain_ipv4_gives_every_field() {
    let frame = ethernet_v4(&join(&[&v4(0, 28, 0, UDP), &PORTS]));
    let expected = Headers {
        key: FlowKey {
            source: 0x0a00_0001,
            destination: 0x0a00_0002,
            family: Family::V4,
            protocol: UDP,
            dscp: 46,
            ecn: Ecn::Ect0,
            source_port: Some(12345),
            destination_port: Some(53),
            length: 28,
            ethertype: IPV4,
            mark: 9,
            ..FlowKey::default()
        },
        l3: Some(14),
        l4: Some(34),
        l3_len: 28,
        flaw: None,
    };
    assert_eq!(Headers::parse(&frame, 9), expected);
}

#[test]
fn flags_of_tcp_and_the_declared_length_are_read() {
    let tcp = [&PORTS[..4], &[0; 8], &[0x50, 0x12], &[0; 6]].concat();
    let of = |frame: &[u8]| {
        let key = Headers::parse(frame, 0).key;
        (key.tcp_flags, key.length)
    };
    let whole = ethernet_v4(&join(&[&v4(0, 40, 0, TCP), &tcp]));
    assert_eq!(of(&whole), (Some(0x12), 40));
    assert_eq!(of(&ethernet_v6(&[&v6(20, TCP), &tcp])), (Some(0x12), 60));
    // Captured up to the flags, and up to before them: the length is declared.
    assert_eq!(of(&whole[..whole.len() - 6]), (Some(0x12), 40));
    assert_eq!(of(&whole[..whole.len() - 7]), (None, 40));
    // A later fragment, a datagram, and what is not IP.
    assert_eq!(of(&ethernet_v4(&join(&[&v4(0, 40, 5, TCP), &tcp]))), (None, 40));
    assert_eq!(of(&ethernet_v4(&join(&[&v4(0, 28, 0, UDP), &PORTS]))), (None, 28));
    assert_eq!(of(&join(&[&MAC, &[8, 6], &[0; 28]])), (None, 0));
    // A super-frame of more than 64 KiB declares nothing.
    let long = ethernet_v4(&join(&[&v4(0, 0, 0, TCP), &tcp, &[0; 70_000]]));
    assert_eq!(of(&long), (Some(0x12), 65_535));
}

#[test]
fn plain_ipv6_gives_every_field() {
    let frame = ethernet_v6(&[&v6(8, TCP), &PORTS]);
    let headers = Headers::parse(&frame, 0);
    assert_eq!(
        (headers.l3, headers.l4, headers.l3_len, headers.flaw),
        (Some(14), Some(54), 48, None)
    );
    assert_eq!(ports(&headers), BOTH);
    let key = headers.key;
    assert_eq!(
        (key.family, key.protocol, key.flow_label),
        (Family::V6, TCP, 0x12345)
    );
    assert_eq!((key.dscp, key.ecn), (10, Ecn::Ect1));
    assert_eq!(key.source, 0x2001_0db8 << 96 | 1);
    assert_eq!(key.destination, 0x2001_0db8 << 96 | 2);
}

#[test]
fn tags_are_followed_up_to_a_bound() {
    let packet = join(&[&[8, 0], &v4(0, 28, 0, UDP)[..], &PORTS]);
    let tag = [0x81, 0, 0, 5];
    for tags in 0..=MAX_TAGS {
        let frame = join(&[&MAC, &tag.repeat(tags), &packet]);
        let headers = Headers::parse(&frame, 0);
        assert_eq!(
            (headers.l3, ports(&headers)),
            (Some(14 + 4 * tags as u16), BOTH),
            "{tags} tags"
        );
    }
    let stacked = join(&[&MAC, &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2], &packet]);
    assert_eq!(ports(&Headers::parse(&stacked, 0)), BOTH);
    let deep = Headers::parse(&join(&[&MAC, &tag.repeat(MAX_TAGS + 1), &packet]), 0);
    assert_eq!((deep.flaw, deep.key.family), (Some(Flaw::TooDeep), Family::Other));
}

/// PPPoE of a session, with this protocol of PPP; its length is that of 28 bytes.
const fn pppoe(protocol: [u8; 2]) -> [u8; 10] {
    [0x88, 0x64, 0x11, 0, 0, 7, 0, 30, protocol[0], protocol[1]]
}

#[test]
fn ip_behind_pppoe_is_read_and_other_protocols_of_ppp_are_not() {
    let v4 = join(&[&v4(0, 28, 0, UDP), &PORTS]);
    let frame = join(&[&MAC, &pppoe([0, 0x21]), &v4]);
    let headers = Headers::parse(&frame, 0);
    assert_eq!(
        (headers.l3, headers.key.ethertype, ports(&headers), headers.flaw),
        (Some(22), IPV4, BOTH, None)
    );
    assert_eq!((headers.key.dscp, pppoe_length(&frame)), (46, Some(18)));
    // Padding is no part of it, and a tag may be before it.
    let tagged = join(&[
        &MAC,
        &[0x81, 0, 0, 7],
        &pppoe([0, 0x57]),
        &v6(8, TCP),
        &PORTS,
        &[0; 20],
    ]);
    let headers = Headers::parse(&tagged, 0);
    assert_eq!(
        (headers.l3, headers.key.family, ports(&headers), headers.l3_len),
        (Some(26), Family::V6, BOTH, 48)
    );
    assert_eq!(pppoe_length(&tagged), Some(22));
    for frame in [
        // LCP, another version, and discovery.
        join(&[&MAC, &pppoe([0xc0, 0x21]), &v4]),
        join(&[&MAC, &[0x88, 0x64, 0x12, 0, 0, 7, 0, 30, 0, 0x21], &v4]),
        join(&[&MAC, &[0x88, 0x63], &pppoe([0, 0x21])[2..], &v4]),
    ] {
        let headers = Headers::parse(&frame, 0);
        assert_eq!(
            (headers.l3, headers.key.family, headers.flaw),
            (None, Family::Other, None)
        );
        assert!([0x8864, 0x8863].contains(&headers.key.ethertype));
    }
    let short = Headers::parse(&frame[..20], 0);
    assert_eq!(short.flaw, Some(Flaw::Truncated));
    assert_eq!(pppoe_length(&ethernet_v4(&v4)), None);
}

#[test]
fn ip_behind_labels_is_read_by_its_version() {
    let v4 = join(&[&v4(0, 28, 0, UDP), &PORTS]);
    let above = [0, 1, 0, 64];
    for labels in 0..MAX_LABELS {
        let stack = [above.repeat(labels), vec![0, 2, 1, 64]].concat();
        let frame = join(&[&MAC, &[0x88, 0x47], &stack, &v4]);
        let headers = Headers::parse(&frame, 0);
        let l3 = 14 + 4 * (labels as u16 + 1);
        assert_eq!((headers.l3, ports(&headers)), (Some(l3), BOTH), "{labels} above");
    }
    let v6 = join(&[&MAC, &[0x88, 0x48, 0, 2, 1, 64], &v6(8, TCP), &PORTS]);
    assert_eq!(ports(&Headers::parse(&v6, 0)), BOTH);
    // A pseudowire's control word is no IP.
    let wire = join(&[&MAC, &[0x88, 0x47, 0, 2, 1, 64, 0, 0, 0, 0], &MAC, &[8, 0], &v4]);
    let headers = Headers::parse(&wire, 0);
    assert_eq!(
        (headers.key.family, headers.key.ethertype, headers.flaw),
        (Family::Other, MPLS, None)
    );
    let deep = Headers::parse(&join(&[&MAC, &[0x88, 0x47], &above.repeat(MAX_LABELS), &v4]), 0);
    assert_eq!((deep.flaw, deep.key.family), (Some(Flaw::TooDeep), Family::Other));
}

#[test]
fn a_mark_is_set_behind_pppoe_and_labels() {
    let packet = join(&[&v4(0, 28, 0, UDP), &PORTS]);
    for begin in [&pppoe([0, 0x21])[..], &[0x88, 0x47, 0, 2, 1, 64]] {
        let mut frame = join(&[&MAC, begin, &packet]);
        assert!(set_ce(&mut frame) && set_dscp(&mut frame, 8));
        let headers = Headers::parse(&frame, 0);
        assert_eq!((headers.key.ecn, headers.key.dscp), (Ecn::Ce, 8));
        let l3 = usize::from(headers.l3.expect("IP"));
        assert_eq!(checksum(&frame[l3..l3 + 20]), 0, "its checksum is right");
    }
}

#[test]
fn ipv4_options_move_the_ports_and_a_wrong_length_hides_everything() {
    let frame = ethernet_v4(&join(&[&v4(10, 68, 0, TCP), &PORTS]));
    let headers = Headers::parse(&frame, 0);
    assert_eq!((headers.l4, ports(&headers)), (Some(74), BOTH));
    let mut short = frame.clone();
    short[14] = 0x44;
    let headers = Headers::parse(&short, 0);
    assert_eq!(
        (headers.flaw, headers.key.family),
        (Some(Flaw::Malformed), Family::Other)
    );
    let mut version = frame;
    version[14] = 0x65;
    assert_eq!(Headers::parse(&version, 0).flaw, Some(Flaw::Malformed));
}

#[test]
fn extension_headers_are_followed_up_to_a_bound() {
    let options = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    let long_routing = join(&[&[DESTINATION_OPTIONS, 2], &[0; 22]]);
    let authentication = join(&[&[UDP, 4, 0, 0, 0, 0, 1, 2], &[0; 16]]);
    let chain = [
        &options(ROUTING)[..],
        &long_routing,
        &options(AH),
        &authentication,
        &PORTS,
    ]
    .concat();
    let headers = Headers::parse(&ethernet_v6(&[&v6(chain.len() as u16, HOP_BY_HOP), &chain]), 0);
    assert_eq!(
        (headers.flaw, headers.l4, ports(&headers)),
        (None, Some(14 + 40 + 64), BOTH)
    );
    assert_eq!((headers.key.protocol, headers.key.spi), (UDP, Some(0x102)));
    for (count, flaw) in [(MAX_EXTENSIONS, None), (MAX_EXTENSIONS + 1, Some(Flaw::TooDeep))] {
        let mut chain = options(DESTINATION_OPTIONS).repeat(count);
        chain[(count - 1) * 8] = TCP;
        chain.extend(PORTS);
        let headers = Headers::parse(
            &ethernet_v6(&[&v6(chain.len() as u16, DESTINATION_OPTIONS), &chain]),
            0,
        );
        assert_eq!(
            (headers.flaw, ports(&headers).is_some()),
            (flaw, flaw.is_none()),
            "{count} headers"
        );
    }
}

#[test]
fn only_the_first_fragment_has_ports() {
    let fragment = |cut| Headers::parse(&ethernet_v4(&join(&[&v4(0, 28, cut, UDP), &PORTS])), 0);
    let (whole, first, later) = (fragment(0x4000), fragment(0x2000), fragment(0x2001));
    assert_eq!((whole.key.fragment, ports(&whole)), (Fragment::Whole, BOTH));
    assert_eq!((first.key.fragment, ports(&first)), (Fragment::First, BOTH));
    assert_eq!(
        (later.key.fragment, ports(&later), later.l4),
        (Fragment::Later, None, None)
    );
    let fragment = |cut: u16, next| {
        let [high, low] = cut.to_be_bytes();
        let header = [next, 0, high, low, 0, 0, 0, 9];
        Headers::parse(&ethernet_v6(&[&v6(16, FRAGMENT), &header, &PORTS]), 0)
    };
    let (atomic, first, later) = (fragment(0, UDP), fragment(1, UDP), fragment(8, UDP));
    assert_eq!((atomic.key.fragment, ports(&atomic)), (Fragment::Whole, BOTH));
    assert_eq!((first.key.fragment, ports(&first)), (Fragment::First, BOTH));
    assert_eq!(
        (later.key.fragment, ports(&later), later.flaw),
        (Fragment::Later, None, None)
    );
    // What a later fragment holds is no header, whatever it looks like.
    assert_eq!(fragment(8, DESTINATION_OPTIONS).key.protocol, DESTINATION_OPTIONS);
}

#[test]
fn fragments_of_a_datagram_share_their_hash_and_its_other_flows_do_not() {
    let hasher = FlowHasher::new(Seed(1));
    let fragment =
        |cut| hasher.flow(&Headers::parse(&ethernet_v4(&join(&[&v4(0, 28, cut, UDP), &PORTS])), 0).key);
    assert_eq!(fragment(0x2000), fragment(0x0001));
    assert_ne!(fragment(0x2000).full, fragment(0).full);
    let fragment = |cut: u8, next| {
        let header = [next, 0, 0, cut, 0, 0, 0, 9];
        let tail = [UDP, 0, 1, 4, 0, 0, 0, 0];
        hasher.flow(&Headers::parse(&ethernet_v6(&[&v6(24, FRAGMENT), &header, &tail, &PORTS]), 0).key)
    };
    // The first shows UDP behind its options, the later only that options came next.
    assert_eq!(
        fragment(1, DESTINATION_OPTIONS),
        fragment(16, DESTINATION_OPTIONS)
    );
}

#[test]
fn other_protocols_show_what_they_have() {
    for protocol in [TCP, UDP, DCCP, SCTP, UDP_LITE] {
        let headers = Headers::parse(&ethernet_v4(&join(&[&v4(0, 28, 0, protocol), &PORTS])), 0);
        assert_eq!(ports(&headers), BOTH, "protocol {protocol}");
    }
    for protocol in [1, 2, 4, 41, 47, 58, 89] {
        let headers = Headers::parse(&ethernet_v4(&join(&[&v4(0, 28, 0, protocol), &PORTS])), 0);
        assert_eq!(
            (ports(&headers), headers.l4, headers.flaw),
            (None, Some(34), None),
            "protocol {protocol}"
        );
    }
    let esp = Headers::parse(&ethernet_v4(&join(&[&v4(0, 28, 0, ESP), &PORTS])), 0);
    assert_eq!(
        (esp.key.protocol, esp.key.spi, ports(&esp)),
        (ESP, Some(0x3039_0035), None)
    );
    let behind = [
        TCP, 4, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let ah = Headers::parse(&ethernet_v4(&join(&[&v4(0, 52, 0, AH), &behind, &PORTS])), 0);
    assert_eq!((ah.key.protocol, ah.key.spi, ports(&ah)), (TCP, Some(7), BOTH));
    let arp = Headers::parse(&join(&[&MAC, &[8, 6], &[0; 28]]), 3);
    assert_eq!(
        (arp.key.family, arp.key.ethertype, arp.key.mark),
        (Family::Other, 0x0806, 3)
    );
    assert_eq!((arp.flaw, arp.l3), (None, None));
}

#[test]
fn ports_are_not_read_from_padding_nor_beyond_a_declared_end() {
    let padded = join(&[&v4(0, 22, 0, UDP), &PORTS, &[0; 18]]);
    let headers = Headers::parse(&ethernet_v4(&padded), 0);
    assert_eq!(
        (ports(&headers), headers.flaw, headers.l3_len),
        (None, Some(Flaw::Truncated), 22)
    );
    let nonsense = Headers::parse(&ethernet_v4(&join(&[&v4(0, 19, 0, UDP), &PORTS])), 0);
    assert_eq!((ports(&nonsense), nonsense.flaw), (None, Some(Flaw::Malformed)));
}

#[test]
fn a_length_of_zero_means_all_that_is_there() {
    let big = vec![0; 70_000];
    let headers = Headers::parse(&ethernet_v4(&join(&[&v4(0, 0, 0, TCP), &PORTS, &big])), 0);
    assert_eq!(
        (ports(&headers), headers.l3_len, headers.flaw),
        (BOTH, 70_028, None)
    );
    let headers = Headers::parse(&ethernet_v6(&[&v6(0, TCP), &PORTS, &big]), 0);
    assert_eq!(
        (ports(&headers), headers.l3_len, headers.flaw),
        (BOTH, 70_048, None)
    );
}

#[test]
fn marking_keeps_the_checksum_right_and_leaves_the_incapable_alone() {
    for ecn in 0..4u8 {
        for id in [0u8, 1, 0x7f, 0xff] {
            let mut packet = v4(0, 28, 0, UDP);
            packet[1] = 0xfc | ecn;
            packet[4] = id;
            packet[10..12].fill(0);
            let sum = checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            let mut frame = join(&[&MAC, &[0x81, 0, 0, 5, 8, 0], &packet, &PORTS]);
            let before = frame.clone();
            assert_eq!(set_ce(&mut frame), ecn != 0);
            assert_eq!(checksum(&frame[18..38]), 0, "ECN {ecn}, identification {id}");
            if ecn == 0 {
                assert_eq!(frame, before);
            } else {
                assert_eq!(Headers::parse(&frame, 0).key.ecn, Ecn::Ce);
                assert_eq!(Headers::parse(&frame, 0).key.dscp, 63);
            }
        }
    }
    let mut frame = ethernet_v6(&[&v6(8, TCP), &PORTS]);
    assert!(set_ce(&mut frame));
    let key = Headers::parse(&frame, 0).key;
    assert_eq!((key.ecn, key.dscp, key.flow_label), (Ecn::Ce, 10, 0x12345));
    frame[15] &= 0xcf;
    assert!(!set_ce(&mut frame));
    assert!(!set_ce(&mut join(&[&MAC, &[8, 6], &[0xff; 28]])));
}

#[test]
fn a_dscp_is_written_and_nothing_else_changes() {
    for id in 0..=255 {
        for dscp in [0, 10, 46, 63] {
            let mut packet = v4(0, 28, 0, UDP);
            packet[4] = id;
            packet[10..12].fill(0);
            let sum = checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            let mut frame = ethernet_v4(&join(&[&packet, &PORTS]));
            let at = frame.len() - packet.len() - PORTS.len();
            let before = Headers::parse(&frame, 0).key;
            assert!(set_dscp(&mut frame, dscp));
            assert_eq!(Headers::parse(&frame, 0).key, FlowKey { dscp, ..before });
            assert_eq!(
                checksum(&frame[at..at + 20]),
                0,
                "DSCP {dscp}, identification {id}"
            );
        }
    }
    let mut frame = ethernet_v6(&[&v6(8, TCP), &PORTS]);
    let before = Headers::parse(&frame, 0).key;
    assert!(set_dscp(&mut frame, 46));
    let after = Headers::parse(&frame, 0).key;
    assert_eq!(
        (after.dscp, after.ecn, after.flow_label),
        (46, before.ecn, before.flow_label)
    );
    assert!(!set_dscp(&mut join(&[&MAC, &[8, 6], &[0xff; 28]]), 46));
}

#[test]
fn hashes_tell_flows_apart_and_keep_hosts_together() {
    let hasher = FlowHasher::new(Seed(1));
    let key = FlowKey {
        family: Family::V4,
        source: 1,
        destination: 2,
        protocol: 6,
        ..FlowKey::default()
    };
    let with = |port| {
        hasher.flow(&FlowKey {
            source_port: Some(port),
            destination_port: Some(80),
            ..key
        })
    };
    let mut seen: Vec<u32> = (0..10_000).map(|port| with(port).full).collect();
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() > 9_990, "{} hashes of 10000 flows", seen.len());
    assert_eq!(
        (with(1).source, with(1).destination),
        (with(2).source, with(2).destination)
    );
    assert_eq!(
        with(1).source,
        hasher
            .flow(&FlowKey {
                source: 2,
                destination: 1,
                ..key
            })
            .destination
    );
    assert_ne!(with(1).source, with(1).destination);
    let other = FlowHasher::new(Seed(2));
    assert_ne!(hasher.flow(&key), other.flow(&key));
    // The same number is another host in the other family.
    assert_ne!(
        hasher.flow(&key).source,
        hasher
            .flow(&FlowKey {
                family: Family::V6,
                ..key
            })
            .source
    );
    let labelled = |label| {
        hasher
            .flow(&FlowKey {
                family: Family::V6,
                flow_label: label,
                ..key
            })
            .full
    };
    assert_ne!(labelled(1), labelled(2));
}

/// Good frames of every shape.
fn good() -> Vec<Vec<u8>> {
    let options = [UDP, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    vec![
        ethernet_v4(&join(&[&v4(0, 28, 0, UDP), &PORTS])),
        ethernet_v4(&join(&[&v4(7, 56, 0x2000, TCP), &PORTS])),
        ethernet_v4(&join(&[&v4(0, 28, 0, ESP), &PORTS])),
        join(&[
            &MAC,
            &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0],
            &v4(0, 28, 0, SCTP),
            &PORTS,
        ]),
        ethernet_v6(&[&v6(8, TCP), &PORTS]),
        ethernet_v6(&[&v6(24, HOP_BY_HOP), &options, &PORTS]),
        ethernet_v6(&[&v6(16, FRAGMENT), &[UDP, 0, 0, 1, 0, 0, 0, 9], &PORTS]),
        join(&[&MAC, &[8, 6], &[0; 28]]),
    ]
}

/// What must hold of any frame.
fn sane(frame: &[u8]) {
    let headers = Headers::parse(frame, 1);
    let len = frame.len();
    assert_eq!(headers.l3.is_some(), headers.key.family != Family::Other);
    let l3 = usize::from(headers.l3.unwrap_or(0));
    assert!(l3 + headers.l3_len as usize <= len);
    assert!(
        headers
            .l4
            .is_none_or(|l4| l3 < usize::from(l4) && usize::from(l4) <= l3 + headers.l3_len as usize)
    );
    if headers.key.source_port.is_some() {
        assert!(usize::from(headers.l4.unwrap_or(u16::MAX)) + 4 <= len);
        assert_ne!(headers.key.fragment, Fragment::Later);
    }
    assert_eq!(
        headers.key.source_port.is_some(),
        headers.key.destination_port.is_some()
    );
    assert!(headers.key.dscp < 64 && headers.key.flow_label < 1 << 20);
    let mut marked = frame.to_vec();
    let is_marked = set_ce(&mut marked);
    assert_eq!(
        is_marked,
        headers.key.ecn != Ecn::NotEct,
        "marked if and only if it may be"
    );
    assert_eq!(is_marked && headers.key.ecn != Ecn::Ce, marked != frame);
}

#[test]
fn a_frame_cut_anywhere_gives_what_was_before_the_cut() {
    for frame in good() {
        let whole = Headers::parse(&frame, 1);
        assert_eq!(whole.flaw, None);
        for len in 0..frame.len() {
            let cut = Headers::parse(&frame[..len], 1);
            sane(&frame[..len]);
            assert!(
                cut.flaw == Some(Flaw::Truncated) || whole.l3.is_none() && len >= 14,
                "{len} of {}",
                frame.len()
            );
            if cut.l3.is_some() {
                assert_eq!((cut.key.source, cut.key.dscp), (whole.key.source, whole.key.dscp));
            }
            if cut.key.source_port.is_some() {
                assert_eq!(ports(&cut), ports(&whole));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_bytes_are_read_without_panic(frame in prop::collection::vec(any::<u8>(), 0..200)) {
        sane(&frame);
    }

    #[test]
    fn any_bytes_behind_a_good_ethertype_are_read_without_panic(
        v6: bool,
        first in any::<u8>(),
        tail in prop::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(44), Just(60)], 0..200),
    ) {
        let (kind, version) = if v6 { ([0x86, 0xdd], 0x60) } else { ([8, 0], 0x40) };
        sane(&join(&[&MAC, &kind, &[version | first & 0xf], &tail]));
    }

    #[test]
    fn a_good_frame_with_bytes_changed_is_read_without_panic(
        which in 0..8usize,
        changes in prop::collection::vec((12..80usize, any::<u8>()), 1..6),
        len in 0..100usize,
    ) {
        let mut frame = good()[which].clone();
        for (at, byte) in changes {
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        frame.truncate(len.max(12));
        sane(&frame);
    }
}

#[test]
fn a_declared_length_of_the_header_alone_is_no_fault_and_less_is_one() {
    let flaw = |total| {
        let frame = ethernet_v4(&join(&[&v4(0, total, 0, 1), &PORTS]));
        Headers::parse(&frame, 0).flaw
    };
    assert_eq!((flaw(20), flaw(21), flaw(28)), (None, None, None));
    assert_eq!(
        (flaw(19), flaw(1)),
        (Some(Flaw::Malformed), Some(Flaw::Malformed))
    );
    assert_eq!(flaw(29), Some(Flaw::Truncated));
}

/// The sum of a header's words goes through all values near the carries.
#[test]
fn a_changed_dscp_keeps_the_checksum_right_whatever_it_was() {
    for id in (0..=u16::MAX).filter(|id| id % 97 == 0 || id >> 9 == 0x35) {
        let mut packet = v4(0, 28, 0, UDP);
        packet[10..12].fill(0);
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        let sum = checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut frame = ethernet_v4(&packet);
        for dscp in [0, 63] {
            assert!(set_dscp(&mut frame, dscp));
            let mut changed = frame[14..34].to_vec();
            let found = u16::from_be_bytes([changed[10], changed[11]]);
            changed[10..12].fill(0);
            assert_eq!((changed[1], found), (dscp << 2 | 2, checksum(&changed)), "{id}");
        }
    }
}

#[test]
fn a_product_is_folded_in_the_middle() {
    assert_eq!((fold(3, 5), fold(1 << 32, 1 << 32), fold(0, 7)), (15, 1, 0));
    assert_eq!(fold(u64::MAX, u64::MAX), u64::MAX);
    assert_eq!(fold(3 << 62, 6), (1 << 63) ^ 4);
}

/// Flows that differ in one thing each.
fn different_flows() -> Vec<FlowKey> {
    let base = FlowKey {
        family: Family::V4,
        source: 1,
        destination: 2,
        protocol: UDP,
        ..FlowKey::default()
    };
    let with = |from, to| FlowKey {
        source_port: Some(from),
        destination_port: Some(to),
        ..base
    };
    let esp = FlowKey {
        protocol: ESP,
        ..base
    };
    let other = FlowKey {
        family: Family::Other,
        ..base
    };
    let mut all = vec![with(1, 2), with(2, 2), with(1, 3), with(2, 1), with(0, 0x1234)];
    all.push(FlowKey {
        protocol: TCP,
        ..with(1, 2)
    });
    all.extend([1, 2].map(|protocol| FlowKey { protocol, ..base }));
    all.extend([0x1234, 0x1235].map(|flow_label| FlowKey { flow_label, ..base }));
    all.extend([5, 6].map(|spi| FlowKey {
        spi: Some(spi),
        ..esp
    }));
    all.push(FlowKey { flow_label: 5, ..esp });
    all.push(FlowKey {
        protocol: ESP,
        ..with(0, 5)
    });
    all.push(FlowKey {
        source: 3,
        ..with(1, 2)
    });
    all.push(FlowKey {
        destination: 3,
        ..with(1, 2)
    });
    all.push(FlowKey {
        source: 2,
        destination: 1,
        ..with(1, 2)
    });
    all.push(FlowKey {
        source: 1 << 64,
        ..with(1, 2)
    });
    all.push(FlowKey {
        family: Family::V6,
        ..with(1, 2)
    });
    all.extend([0x0806, 0x88cc].map(|ethertype| FlowKey { ethertype, ..other }));
    all
}

#[test]
fn every_part_of_a_flow_and_of_the_secret_counts_in_its_hash() {
    // With each bit of each key set in some of them.
    for hasher in (1..=8).map(|seed| FlowHasher::new(Seed(seed))) {
        let flows = different_flows();
        let mut hashes: Vec<u64> = flows.iter().map(|key| hasher.wide(key)).collect();
        for (key, wide) in flows.iter().zip(&hashes) {
            assert_eq!(*wide as u32, hasher.flow(key).full);
        }
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), flows.len());
        for place in 0..6 {
            let mut keys = hasher.keys;
            keys[place] ^= 1 << 20;
            let other = FlowHasher { keys };
            let same = flows.iter().filter(|key| other.wide(key) == hasher.wide(key));
            assert_eq!(same.count(), 0, "key {place}");
        }
    }
}

#[test]
fn what_is_no_ip_is_one_flow_for_each_type() {
    let hasher = FlowHasher::new(Seed(1));
    let key = FlowKey {
        ethertype: 0x0806,
        ..FlowKey::default()
    };
    let labelled = FlowKey { flow_label: 7, ..key };
    assert_eq!(hasher.wide(&key), hasher.wide(&labelled));
}
