//! RSVP: messages as bytes, INTEGRITY, refresh reduction, and a whole node that gets them.
//!
//! An input of the last three is a sequence: a byte that says what happens and how much later, then
//! a message, which has its own length in it.

use super::FuzzTarget;
use crate::mutate::InputShape;
use core::net::{IpAddr, Ipv4Addr};
use engine::random::Seed;
use engine::units::{Duration, Instant};
use rsvp::integrity::{
    Algorithm, IntegrityKey, IntegrityShim, IntegrityVerdict, InterfaceKeys, KeyLifetime, KeyOwner,
    Requirement,
};
use rsvp::node::{Node, RsvpInterface, Transmit};
use rsvp::places::Places;
use rsvp::reduction::ReductionShim;
use rsvp::traffic_control::{
    AdmissionFailure, Advertised, Granted, InterfaceId, RHandle, Route, Routing, TcRequest, TrafficControl,
};
use rsvp::wire::{Flowspec, Frame, Real, Refresh, SenderTemplate, Session};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const WIRE: FuzzTarget = FuzzTarget {
    name: "rsvp_wire",
    about: "RSVP messages: refused, or encoded and decoded again they are the same",
    shape: InputShape::Binary(2_000),
    tree: &[],
    make: || Box::new(wire),
};

pub(super) const INTEGRITY: FuzzTarget = FuzzTarget {
    name: "rsvp_integrity",
    about: "messages with INTEGRITY, altered, repeated and reordered: each passes once, and only unaltered",
    shape: InputShape::Binary(2_000),
    tree: &[],
    make: || Box::new(integrity),
};

pub(super) const REDUCTION: FuzzTarget = FuzzTarget {
    name: "rsvp_reduction",
    about: "messages of a neighbour and of ours in any order: refresh reduction keeps its limits and becomes idle",
    shape: InputShape::Binary(4_000),
    tree: &[],
    make: || Box::new(reduction),
};

pub(super) const NODE: FuzzTarget = FuzzTarget {
    name: "rsvp_node",
    about: "a node that gets anything: its limits hold, its own messages are messages, reservations end",
    shape: InputShape::Binary(4_000),
    tree: &[],
    make: || Box::new(node),
};

const US: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const THEM: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

fn wire(input: &[u8]) {
    let Ok(frame) = Frame::decode(input) else {
        return;
    };
    let Ok(bytes) = frame.encode() else {
        return;
    };
    let again = Frame::decode(&bytes).unwrap_or_else(|e| panic!("what we encode is refused: {e:?}"));
    assert_eq!(again, frame);
    assert_eq!(again.encode().ok(), Some(bytes));
}

/// The pieces of a sequence: a byte and a message each.
fn pieces(mut input: &[u8]) -> Vec<(u8, &[u8])> {
    let mut pieces = Vec::new();
    while let Some((first, rest)) = input.split_first() {
        let declared = rest.get(6..8).map_or(rest.len(), |len| {
            usize::from(u16::from_be_bytes([len[0], len[1]]))
        });
        let (message, rest) = rest.split_at(declared.clamp(8, 4_000).min(rest.len()));
        pieces.push((*first, message));
        input = rest;
    }
    pieces
}

/// How much later, mostly little.
fn later(now: Instant, byte: u8) -> Instant {
    now + Duration::from_millis([0, 1, 40, 600, 5_000, 31_000, 200_000, 0][usize::from(byte & 7)])
}

fn integrity(input: &[u8]) {
    let algorithm = if input.first().is_some_and(|byte| byte & 1 == 0) {
        Algorithm::HmacMd5
    } else {
        Algorithm::HmacSha256
    };
    let key = IntegrityKey::new(7, algorithm, b"a secret", KeyLifetime::ALWAYS, KeyOwner::Shared);
    let key = key.unwrap_or_else(|e| panic!("a key: {e}"));
    let mut shims = [US, THEM].map(|address| {
        let mut shim = IntegrityShim::new(rsvp::integrity::Settings {
            sequence: 1,
            window: 4,
            answer_challenges: true,
            send_challenges: false,
            max_neighbours: 4,
            seed: Seed(1),
        });
        let keys = InterfaceKeys {
            addresses: vec![address],
            requirement: Requirement::Required,
            neighbours: BTreeMap::new(),
            keys: vec![key.clone()],
        };
        shim.set_interface(0, keys);
        shim
    });
    let mut passed = BTreeSet::new();
    let mut sent: Vec<Vec<u8>> = Vec::new();
    let mut now = Instant::START;
    for (what, message) in pieces(input) {
        now = later(now, what);
        let [ours, theirs] = &mut shims;
        if Frame::decode(message).is_ok()
            && let Ok(protected) = theirs.outgoing(now, 0, message.to_vec())
        {
            sent.push(protected);
        }
        // Theirs, an earlier one, the bare message, or an altered one.
        let chosen = sent.len().checked_sub(1 + usize::from(what >> 6));
        let mut arriving = chosen
            .and_then(|at| sent.get(at))
            .map_or(message, Vec::as_slice)
            .to_vec();
        if what & 16 != 0 && !arriving.is_empty() {
            let at = usize::from(what) * 7 % arriving.len();
            arriving[at] ^= 1 << (what >> 5);
        }
        let verdict = ours.incoming(now, 0, THEM, &arriving);
        if verdict == IntegrityVerdict::Pass {
            assert!(
                sent.iter().any(|one| digested(one) == digested(&arriving)),
                "an altered or unprotected message passed"
            );
            assert!(passed.insert(digested(&arriving)), "a message passed twice");
        }
        while shims[0].poll_transmit().is_some() {}
    }
    assert!(shims[0].drop_sources().len() <= 64);
}

/// What the digest covers: all but the checksum in the common header, which is computed after it
/// and judged by the decoder (RFC 2747, sections 2 and 4.1).
fn digested(message: &[u8]) -> Vec<u8> {
    let mut all = message.to_vec();
    if let Some(checksum) = all.get_mut(2..4) {
        checksum.fill(0);
    }
    all
}

fn transmit(message: &[u8], ttl: u8) -> Transmit {
    Transmit {
        interface: 0,
        source: US,
        destination: THEM,
        router_alert: ttl & 1 == 0,
        ttl,
        bytes: message.to_vec(),
    }
}

fn reduction(input: &[u8]) {
    let mut settings = rsvp::reduction::Settings::new(vec![vec![US]], 5);
    settings.assume_capable = input.first().is_some_and(|byte| byte & 128 != 0);
    settings.max_stored = Places::unshared(3);
    settings.max_neighbours = Places::unshared(2);
    settings.max_unacknowledged = 3;
    let mut shim = ReductionShim::new(settings);
    let mut now = Instant::START;
    for (what, message) in pieces(input) {
        match Frame::decode(message) {
            // Our own messages are ones that we can send.
            Ok(frame) if what & 8 != 0 => {
                if let Ok(bytes) = frame.encode() {
                    shim.outgoing(now, transmit(&bytes, frame.send_ttl));
                }
            }
            Ok(frame) => {
                let ttl = frame.send_ttl;
                for (_, received) in shim.incoming(now, 0, THEM, ttl, frame) {
                    assert!(received.message_id.is_none() && received.acknowledgements.is_empty());
                }
            }
            Err(_) if what & 16 != 0 => shim.routes_changed(),
            Err(_) => shim.resynchronise(0),
        }
        now = later(now, what);
        shim.handle_timeout(now);
        assert!(
            shim.poll_timeout().is_none_or(|due| due > now),
            "a timer that is due stays"
        );
        while let Some(transmit) = shim.poll_transmit() {
            assert!(transmit.bytes.len() >= 8 && transmit.bytes[0] >> 4 == 1);
        }
        assert!(shim.neighbours() <= 2);
    }
    for _ in 0..10_000 {
        let Some(due) = shim.poll_timeout() else {
            return;
        };
        shim.handle_timeout(due);
        while shim.poll_transmit().is_some() {}
    }
    panic!("it never becomes idle");
}

/// Admits what fits into eight reservations.
#[derive(Default)]
struct FewPlaces {
    next: u64,
    reserved: BTreeSet<RHandle>,
}

impl TrafficControl for FewPlaces {
    fn add_flowspec(&mut self, _: InterfaceId, _: &TcRequest) -> Result<Granted, AdmissionFailure> {
        self.next += 1;
        assert!(self.reserved.insert(RHandle(self.next)));
        Ok(Granted {
            rhandle: RHandle(self.next),
            fwd_flowspec: None,
        })
    }

    fn modify_flowspec(
        &mut self,
        handle: RHandle,
        _: &TcRequest,
    ) -> Result<Option<Flowspec>, AdmissionFailure> {
        assert!(self.reserved.contains(&handle), "changes what is not reserved");
        Ok(None)
    }

    fn delete_flowspec(&mut self, handle: RHandle) {
        assert!(self.reserved.remove(&handle), "gives back what is not reserved");
    }

    fn add_filter(&mut self, handle: RHandle, _: &Session, _: &SenderTemplate) {
        assert!(self.reserved.contains(&handle));
    }

    fn delete_filter(&mut self, handle: RHandle, _: &Session, _: &SenderTemplate) {
        assert!(self.reserved.contains(&handle));
    }

    fn advertise(&self, _: InterfaceId) -> Advertised {
        Advertised {
            bandwidth: Real::nearest(125_000_000),
            latency: 0,
            mtu: 1500,
            controlled_load: true,
            guaranteed: None,
        }
    }
}

/// Everything leaves by the third interface.
struct Onwards;

impl Routing for Onwards {
    fn route(&self, _: Option<IpAddr>, _: IpAddr) -> Route {
        Route::through(2)
    }
}

fn node(input: &[u8]) {
    let interface = |end: u8| RsvpInterface {
        addresses: vec![IpAddr::V4(Ipv4Addr::new(10, end, 0, 1))],
        refresh: Refresh::millis(30_000),
    };
    let settings = rsvp::node::Settings {
        max_senders: Places::of(8),
        max_reservations: Places::of(8),
        ..rsvp::node::Settings::new((0..3).map(interface).collect(), Seed(1))
    };
    let mut node = Node::new(settings, FewPlaces::default(), Onwards);
    let mut now = Instant::START;
    for (what, message) in pieces(input) {
        if let Ok(frame) = Frame::decode(message) {
            let ttl = if what & 64 == 0 { frame.send_ttl } else { what };
            node.handle_frame(now, InterfaceId::from(what >> 4 & 3).min(2), ttl, frame);
        }
        // What a neighbour promises to refresh may be due at once.
        let until = later(now, what);
        for _ in 0..10_000 {
            match node.poll_timeout() {
                Some(due) if due <= until => node.handle_timeout(due.max(now)),
                _ => break,
            }
            now = now.max(node.poll_timeout().unwrap_or(until).min(until));
        }
        now = until;
        while let Some(transmit) = node.poll_transmit() {
            assert!(
                Frame::decode(&transmit.bytes).is_ok(),
                "what a node sends is no message"
            );
        }
        while node.poll_event().is_some() {}
    }
}
