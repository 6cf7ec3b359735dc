//! Two neighbours on a link, each with a guard.

use core::net::{IpAddr, Ipv4Addr};
use engine::random::Seed;
use engine::units::Instant;
use rsvp::integrity::{
    Algorithm, IntegrityFailure, IntegrityKey, IntegrityShim, IntegrityVerdict, InterfaceKeys, KeyLifetime,
    KeyOwner, Requirement, Settings,
};
use rsvp::wire::{Frame, Hop, Message, PathTear, SenderTemplate, Session};
use std::collections::BTreeMap;

pub(crate) const LEFT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub(crate) const RIGHT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub(crate) const NOW: Instant = Instant::from_nanos(1_000_000_000);

pub(crate) fn settings() -> Settings {
    Settings {
        sequence: 1_700_000_000_000_000_000,
        window: 4,
        answer_challenges: false,
        send_challenges: false,
        max_neighbours: 10,
        seed: Seed(1),
    }
}

pub(crate) fn key(id: u64) -> IntegrityKey {
    IntegrityKey::new(
        id,
        Algorithm::HmacSha256,
        b"a secret",
        KeyLifetime::ALWAYS,
        KeyOwner::Shared,
    )
    .expect("a valid key")
}

pub(crate) fn protection(address: IpAddr, keys: Vec<IntegrityKey>) -> InterfaceKeys {
    InterfaceKeys {
        addresses: vec![address],
        requirement: Requirement::Required,
        neighbours: BTreeMap::new(),
        keys,
    }
}

pub(crate) fn guard(address: IpAddr, settings: Settings, keys: Vec<IntegrityKey>) -> IntegrityShim {
    let mut guard = IntegrityShim::new(settings);
    guard.set_interface(0, protection(address, keys));
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
            lih: 7,
        },
        sender: SenderTemplate::Port {
            address: IpAddr::V4(Ipv4Addr::new(10, 0, 8, 1)),
            port: 4000,
        },
    });
    let frame = Frame::plain(63, message);
    frame.encode().expect("it fits")
}

/// The same from the left, protected.
pub(crate) fn protected(guard: &mut IntegrityShim, port: u16) -> Vec<u8> {
    guard.outgoing(NOW, 0, tear(LEFT, port)).expect("it fits")
}

/// The right receives this from the left.
pub(crate) fn hear(guard: &mut IntegrityShim, bytes: &[u8]) -> IntegrityVerdict {
    guard.incoming(NOW, 0, LEFT, bytes)
}

pub(crate) fn dropped(reason: IntegrityFailure) -> IntegrityVerdict {
    IntegrityVerdict::Drop(reason)
}
