//! Two neighbours on a link, each with a guard.

use core::net::{IpAddr, Ipv4Addr};
use engine::random::Seed;
use engine::units::Instant;
use rsvp::integrity::{Algorithm, Demand, Guard, Interface, Key, Lifetime, Reason, Settings, Use, Verdict};
use rsvp::wire::{Frame, Hop, Message, PathTear, Sender, Session};
use std::collections::BTreeMap;

pub(crate) const LEFT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub(crate) const RIGHT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub(crate) const NOW: Instant = Instant::from_nanos(1_000_000_000);

pub(crate) fn settings() -> Settings {
    Settings {
        sequence: 1_700_000_000_000_000_000,
        window: 4,
        answers: false,
        challenges: false,
        most_neighbours: 10,
        seed: Seed(1),
    }
}

pub(crate) fn key(id: u64) -> Key {
    Key::new(
        id,
        Algorithm::HmacSha256,
        b"a secret",
        Lifetime::ALWAYS,
        Use::Shared,
    )
    .expect("a good key")
}

pub(crate) fn protection(address: IpAddr, keys: Vec<Key>) -> Interface {
    Interface {
        addresses: vec![address],
        demand: Demand::Required,
        neighbours: BTreeMap::new(),
        keys,
    }
}

pub(crate) fn guard(address: IpAddr, settings: Settings, keys: Vec<Key>) -> Guard {
    let mut guard = Guard::new(settings);
    guard.set(0, protection(address, keys));
    guard
}

/// A message from this neighbour, without INTEGRITY.
pub(crate) fn tear(from: IpAddr, port: u16) -> Vec<u8> {
    let message = Message::PathTear(PathTear {
        session: Session {
            destination: IpAddr::V4(Ipv4Addr::new(10, 0, 9, 2)),
            protocol: 17,
            port,
            police: false,
        },
        hop: Hop {
            address: from,
            interface: 7,
        },
        sender: Sender::Port {
            address: IpAddr::V4(Ipv4Addr::new(10, 0, 8, 1)),
            port: 4000,
        },
    });
    let frame = Frame::plain(63, message);
    frame.encode().expect("it fits")
}

/// The same from the left, protected.
pub(crate) fn protected(guard: &mut Guard, port: u16) -> Vec<u8> {
    guard.outgoing(NOW, 0, tear(LEFT, port)).expect("it fits")
}

/// The right hears this from the left.
pub(crate) fn hear(guard: &mut Guard, bytes: &[u8]) -> Verdict {
    guard.incoming(NOW, 0, LEFT, bytes)
}

pub(crate) fn dropped(reason: Reason) -> Verdict {
    Verdict::Drop(reason)
}
