//! A flood of Paths with invented previous hops at the real sockets of a router: its memory stays
//! bounded, and another reservation is made meanwhile.

use crate::rig::{LONG, Plan, Rig, in_turn, until};
use netio::interface::Interface;
use netio::signalling::{Envelope, Signalling};
use rsvp::wire::{
    Content, Frame, Hop, Message, MessageId, Path, Real, Refresh, SenderDescriptor, SenderTemplate, Session,
    TokenBucket,
};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 2);
const TTL: u8 = 64;
const FLOOD: u32 = 24_000;

#[test]
fn a_flood_of_invented_neighbours_takes_no_memory_and_hinders_nobody() {
    in_turn(|| lab::isolated(|| Rig::start(&Plan::default()).into_iter().for_each(flooded)));
}

/// A Path of one session and sender, from a hop that does not exist.
fn path(number: u32) -> Vec<u8> {
    let message = Message::Path(Path {
        session: Session {
            destination: B.into(),
            protocol: 17,
            port: 6000,
            police: false,
        },
        hop: Hop {
            address: Ipv4Addr::from_bits(Ipv4Addr::new(10, 128, 0, 0).to_bits() + number).into(),
            lih: 1,
        },
        refresh: Refresh::millis(300),
        policy: Vec::new(),
        sender: SenderDescriptor {
            template: SenderTemplate::Port {
                address: A.into(),
                port: 4000,
            },
            tspec: Content::Known(TokenBucket {
                rate: Real::nearest(125_000),
                bucket: Real::nearest(3000),
                peak: Real::INFINITE,
                minimum: 64,
                maximum: 1500,
            }),
            adspec: None,
        },
    });
    let frame = Frame {
        refresh_reduction: true,
        message_id: Some(MessageId {
            ack_desired: true,
            epoch: 77,
            id: number + 1,
        }),
        ..Frame::plain(TTL, message)
    };
    frame.encode().expect("it fits")
}

/// The resident memory of a process, in KiB.
fn resident(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    kib.expect("a number")
}

fn flooded(rig: Rig) {
    let r1 = rig.running[1].as_ref().expect("r1 runs").id();
    let before = resident(r1);
    let ended = AtomicBool::new(false);
    let held = std::thread::scope(|scope| {
        let flood = || {
            let sent = rig.hosts[0].call(|| {
                let index = Interface::named("eth0").expect("it is there").index;
                let signalling = Signalling::open("eth0", index).expect("a socket");
                let envelope = Envelope {
                    source: IpAddr::from(A),
                    destination: IpAddr::from(B),
                    ttl: TTL,
                    alert: true,
                };
                for number in 0..FLOOD {
                    let _ = signalling.send(&envelope, &path(number));
                    if number % 30 == 29 {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                }
            });
            sent.expect("a thread");
            ended.store(true, Ordering::Release);
        };
        scope.spawn(flood);
        std::thread::sleep(Duration::from_secs(2));
        let held = rig.hold("10.0.3.2:5001", "2M");
        until("a reservation during the flood", LONG, || {
            !rig.reserved("r1", 5001).is_empty()
        });
        assert!(!ended.load(Ordering::Acquire), "the flood was over first");
        held
    });
    let after = resident(r1);
    let status = rig.status("r1");
    eprintln!(
        "{} of {FLOOD} messages heard, {} beyond the limit; {before} KiB before, {after} after; {:?}",
        status.heard, status.overflow, status.limits
    );
    assert!(after < before + (16 << 10), "{before} KiB before, {after} after");
    assert!(!rig.reserved("r1", 5001).is_empty(), "it is still there");
    assert!(
        status.limits.iter().any(|limit| limit.what == "neighbours"),
        "{:?}",
        status.limits
    );
    drop(held);
}
