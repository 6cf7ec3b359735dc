//! Invalid, truncated, altered and fragmented messages, at real sockets.

use crate::rig::{LONG, Plan, Rig, framed, in_turn, send, until};
use control::reservation::SenderView;
use engine::random::Seed;
use netio::interface::Interface;
use netio::signalling::{Envelope, Signalling};
use rsvp::wire::{
    Adspec, Content, Frame, Hop, Message, Opaque, Path, Real, Refresh, SenderDescriptor, SenderTemplate,
    Session, TokenBucket, code,
};
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketType, sendto, socket};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::num::NonZero;
use std::time::{Duration, Instant};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 2);
const TTL: u8 = 64;

#[test]
fn nothing_on_the_wire_harms_reservations() {
    in_turn(|| lab::isolated(|| Rig::start(&Plan::default()).into_iter().for_each(unharmed)));
}

/// A Path from a to b, to this port.
fn path(port: u16) -> Vec<u8> {
    path_in(&TO_B, port)
}

/// The Path that this envelope carries, to this port.
fn path_in(envelope: &Envelope, port: u16) -> Vec<u8> {
    let path = Path {
        session: Session {
            destination: envelope.destination,
            protocol: 17,
            port,
            police: false,
        },
        hop: Hop {
            address: envelope.source,
            lih: 0,
        },
        refresh: Refresh::millis(1000),
        policy: Vec::new(),
        sender: SenderDescriptor {
            template: SenderTemplate::Port {
                address: envelope.source,
                port: 0,
            },
            tspec: Content::Known(TokenBucket {
                rate: Real::nearest(10_000),
                bucket: Real::nearest(3000),
                peak: Real::INFINITE,
                minimum: 100,
                maximum: 1500,
            }),
            adspec: Some(Content::Known(Adspec::at_sender(Real::INFINITE, 0, 1500))),
        },
    };
    framed(Message::Path(path)).encode().expect("it fits")
}

const TO_B: Envelope = Envelope {
    source: IpAddr::V4(A),
    destination: IpAddr::V4(B),
    ttl: TTL,
    alert: true,
};

const TO_B_BY_IPV6: Envelope = Envelope {
    source: IpAddr::V6(Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 1)),
    destination: IpAddr::V6(Ipv6Addr::new(0xfd00, 3, 0, 0, 0, 0, 0, 2)),
    ..TO_B
};

fn unharmed(rig: Rig) {
    let held = rig.hold("10.0.3.2:5000", "4M");
    until("it is reserved", LONG, || {
        rig.reserved("r1", 5000).len() == 1 && rig.reserved("r2", 5000).len() == 1
    });
    let classes = ["r1", "r2"].map(|router| rig.classes(router));
    truncated(&rig);
    altered(&rig);
    fragmented(&rig);
    longer_than_the_mtu(&rig, TO_B, 6004);
    longer_than_the_mtu(&rig, TO_B_BY_IPV6, 6006);
    a_second_node_on_other_interfaces(&rig);
    unknown_class(&rig);
    assert_eq!(["r1", "r2"].map(|router| rig.classes(router)), classes);
    assert_eq!(rig.reserved("r1", 5000).len(), 1);
    drop(held);
}

/// Truncated messages: none of them is valid.
fn truncated(rig: &Rig) {
    let (whole, before) = (path(5001), rig.status("r1"));
    let a = &rig.hosts[Rig::at("a")];
    for len in (0..whole.len()).step_by(4) {
        send(a, "eth0", TO_B, &whole[..len]);
    }
    let count = whole.len().div_ceil(4) as u64;
    until("all are counted", LONG, || {
        rig.status("r1").malformed >= before.malformed + count
    });
    let known = rig
        .status("r1")
        .senders
        .iter()
        .any(|sender| sender.flow.port == 5001);
    assert!(!known, "a truncated message created state");
}

/// Randomly altered bytes, mostly detected by the checksum; also sent to the router itself.
fn altered(rig: &Rig) {
    let mut luck = Seed(6).stream();
    let whole = path(5001);
    let own = Envelope {
        destination: IpAddr::from([10, 0, 1, 2]),
        alert: false,
        ..TO_B
    };
    let before = rig.status("r1").heard;
    let a = &rig.hosts[Rig::at("a")];
    for turn in 0..100 {
        let mut bytes = whole.clone();
        for _ in 0..=luck.below(4) {
            let at = luck.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << luck.below(8);
        }
        send(a, "eth0", if turn % 2 == 0 { TO_B } else { own }, &bytes);
    }
    until("all are received", LONG, || {
        rig.status("r1").heard >= before + 100
    });
}

/// An interface has one node, and a host may have several.
fn a_second_node_on_other_interfaces(rig: &Rig) {
    let socket = |name: &str| rig.files.join(name).display().to_string();
    let (one, other) = (socket("second.sock"), socket("third.sock"));
    let taken = [
        "accept",
        "--interface",
        "lo",
        "--interface",
        "wan0",
        "--socket",
        &other,
    ];
    let refused = rig.output("r1", &taken);
    assert!(
        refused.err.contains("another suimon speaks RSVP on wan0"),
        "{refused:?}"
    );
    let second = rig
        .suimon("r1", &["accept", "--interface", "lo", "--socket", &one])
        .limit(Duration::from_secs(60))
        .start()
        .expect("it starts");
    let status = || rig.output("r1", &["reserve", "status", "--socket", &one]);
    until("a second node replies", LONG, || status().status.success());
    let both = rig.output("r1", &["reserve", "status"]);
    assert!(both.err.contains("several suimon speak RSVP"), "{both:?}");
    assert!(
        rig.status("r1")
            .senders
            .iter()
            .any(|sender| sender.flow.port == 5000)
    );
    drop(second);
}

/// A Path above the MTU of the links goes on, in fragments (RFC 791, section 3.2; RFC 8200, section
/// 4.5): r1 and r2 each make it whole and send it on in fragments again.
fn longer_than_the_mtu(rig: &Rig, envelope: Envelope, port: u16) {
    const FORWARDED: usize = 3300;
    let mut frame = Frame::decode(&path_in(&envelope, port)).expect("a Path");
    frame.forwarded = vec![Opaque {
        class: 200,
        c_type: 1,
        data: vec![7; FORWARDED],
    }];
    let bytes = frame.encode().expect("it fits");
    send(&rig.hosts[Rig::at("a")], "eth0", envelope, &bytes);
    let has = |node: &str| {
        let of = |sender: SenderView| sender.flow.port == port;
        rig.status(node).senders.into_iter().any(of)
    };
    until("it is sent on", LONG, || ["r1", "r2", "b"].into_iter().all(has));
    for router in ["r1", "r2"] {
        let interfaces = rig.status(router).interfaces;
        let error = interfaces.into_iter().find_map(|interface| interface.error);
        assert_eq!(error, None, "{router}");
    }
}

/// A Path in fragments is one Path.
fn fragmented(rig: &Rig) {
    const FIRST: usize = 64;
    // For a port that b does not accept.
    let whole = path(6002);
    let datagram = |body: &[u8], offset: usize, more: bool| {
        let flags = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
        let mut datagram = vec![0x46, 0];
        datagram.extend(((24 + body.len()) as u16).to_be_bytes());
        datagram.extend([0x12, 0x34]);
        datagram.extend(flags.to_be_bytes());
        datagram.extend([TTL, 46, 0, 0]);
        datagram.extend(A.octets().into_iter().chain(B.octets()));
        // Router Alert.
        datagram.extend([0x94, 4, 0, 0]);
        datagram.extend(body);
        datagram
    };
    let pieces = [
        datagram(&whole[FIRST..], FIRST, false),
        datagram(&whole[..FIRST], 0, true),
    ];
    let sent = rig.hosts[Rig::at("a")].call(|| {
        // With this protocol the sender writes the header.
        const RAW: u32 = 255;
        let raw = NonZero::new(RAW).map(Protocol::from_raw);
        let raw = socket(AddressFamily::INET, SocketType::RAW, raw).expect("a socket");
        for piece in &pieces {
            sendto(&raw, piece, SendFlags::empty(), &SocketAddrV4::new(B, 0)).expect("it is sent");
        }
    });
    sent.expect("a thread");
    let known = |router: &str| {
        let senders = rig.status(router).senders;
        senders.iter().any(|sender| sender.flow.port == 6002)
    };
    until("it is reassembled", LONG, || known("r1") && known("r2"));
}

/// An unknown object of a class that must be known causes a PathErr.
fn unknown_class(rig: &Rig) {
    let mut bytes = path(5003);
    bytes.extend([0, 8, 100, 1, 0, 0, 0, 0]);
    let length = u16::try_from(bytes.len()).expect("it is short");
    bytes[6..8].copy_from_slice(&length.to_be_bytes());
    // No checksum.
    bytes[2..4].fill(0);
    let error = rig.hosts[Rig::at("a")].call(|| {
        let index = Interface::named("eth0").expect("it is there").index;
        let mut signalling = Signalling::open("eth0", index).expect("a socket");
        signalling.send(&TO_B, &bytes).expect("it is sent");
        let until = Instant::now() + LONG;
        while Instant::now() < until {
            if let Ok(Some((_, bytes))) = signalling.receive()
                && let Ok(Frame {
                    message: Message::PathErr(error),
                    ..
                }) = Frame::decode(bytes)
                && error.session.port == 5003
            {
                return Some(error);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    });
    let error = error.expect("a thread").expect("an answer");
    assert_eq!(error.error.code, code::UNKNOWN_CLASS);
    assert_eq!(error.error.value, 100 << 8 | 1, "the class and its type");
    assert_eq!(error.error.node, IpAddr::from([10, 0, 1, 2]));
}
