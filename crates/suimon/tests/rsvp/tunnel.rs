//! Aggregates between two sites: a tunnel's packets are one flow by their outer header, whatever
//! they carry.

use crate::rig::{LONG, Plan, Rig, in_turn, until};
use rustix::net::{AddressFamily, Protocol, SendFlags, SocketType, sendto, socket};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::num::NonZero;

const COUNT: u64 = 100;
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 2);

#[test]
fn a_tunnel_is_reserved_by_its_outer_header() {
    let plan = Plan {
        accept: &[],
        ..Plan::default()
    };
    in_turn(|| lab::isolated(|| Rig::start(&plan).into_iter().for_each(reserved)));
}

/// An inner IP datagram with a UDP header, as a tunnel carries it: each of another flow.
fn inner(number: u64) -> Vec<u8> {
    let mut inner = vec![0; 28 + 200];
    (inner[0], inner[2], inner[3], inner[8], inner[9]) = (0x45, 0, 228, 64, 17);
    inner[12..20].copy_from_slice(&[192, 168, 1, number as u8, 192, 168, 2, 1]);
    inner[20..24].copy_from_slice(&[0x20, number as u8, 0x13, 0x88]);
    inner
}

/// Packets of a protocol; the kernel writes the outer header.
fn send(rig: &Rig, protocol: u32, before: &[u8]) {
    let protocol = Protocol::from_raw(NonZero::new(protocol).expect("not 0"));
    let sent = rig.hosts[Rig::at("a")].call(|| {
        let raw = socket(AddressFamily::INET, SocketType::RAW, Some(protocol)).expect("a socket");
        for number in 0..COUNT {
            let packet = [before, &inner(number)].concat();
            sendto(&raw, &packet, SendFlags::empty(), &SocketAddrV4::new(B, 0)).expect("it is sent");
        }
    });
    sent.expect("a thread");
}

fn reserved(rig: Rig) {
    const GRE: u32 = 47;
    const IPIP: u32 = 4;
    // All at once: one of them starts the node on a, and the others use it.
    let held = [
        rig.hold_with("10.0.3.2", "2M", &["--protocol", "gre"]),
        rig.hold_with("10.0.3.2", "2M", &["--protocol", "ipip"]),
        rig.hold_with("10.0.3.2:51820", "2M", &["--from", ":51820"]),
    ];
    until("all are reserved", LONG, || {
        rig.classes("r1").len() == 3 && rig.classes("r2").len() == 3
    });
    let class = |router: &str, protocol: u8| {
        let senders = rig.status(router).senders;
        let sender = senders.iter().find(|sender| sender.flow.protocol == protocol);
        sender
            .and_then(|sender| sender.reservations[0].class.clone())
            .expect("a class")
    };
    send(&rig, GRE, &[0, 0, 8, 0]);
    send(&rig, IPIP, &[]);
    let sent = rig.hosts[Rig::at("a")].call(|| {
        // One of these belongs to the tunnel; the other has another source port.
        for port in [51820, 51821] {
            let udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).expect("a socket");
            for number in 0..COUNT {
                udp.send_to(&inner(number), (B, 51820)).expect("it is sent");
            }
        }
    });
    sent.expect("a thread");
    for router in ["r1", "r2"] {
        for protocol in [47, 4, 17] {
            let class = class(router, protocol);
            until(
                &format!("{router} has sent the packets of {protocol}"),
                LONG,
                || rig.sent(router, &class).is_some_and(|sent| sent >= COUNT),
            );
            assert_eq!(
                rig.sent(router, &class),
                Some(COUNT),
                "{router}, {protocol}: nothing else"
            );
        }
    }
    drop(held);
}
