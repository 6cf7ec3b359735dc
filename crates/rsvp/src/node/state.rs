//! What is remembered: one block for each sender of each session, in order, and when each is due next.
//!
//! RFC 2209, section 1, has path state, reservation state and traffic control state apart. To one host and in style
//! FF they are one to one, and lie in one block.

use crate::traffic_control::Handle;
use crate::wire::{Adspec, Content, Flowspec, Hop, Opaque, Sender, Session, TokenBucket};
use core::net::IpAddr;
use engine::units::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// Where a session goes: what tells sessions apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub destination: IpAddr,
    pub protocol: u8,
    pub port: u16,
}

impl From<&Session> for Key {
    fn from(session: &Session) -> Self {
        Self {
            destination: session.destination,
            protocol: session.protocol,
            port: session.port,
        }
    }
}

/// Where packets to a host leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Here,
    By(u32),
    None,
}

/// One sender of a session.
pub(super) type Flow = (Key, Sender);

/// What is known of a sender (PSB).
pub(super) struct PathState {
    pub session: Session,
    pub sender: Sender,
    /// The node before, and the interface that its Path comes by; none for a sender of this host.
    pub previous: Option<(Hop, u32)>,
    pub tspec: TokenBucket,
    pub adspec: Option<Adspec>,
    pub policy: Vec<Opaque>,
    pub forwarded: Vec<Opaque>,
    /// The IP TTL that the Path came with.
    pub ttl: u8,
    pub route: Way,
    /// Not refreshed by then, it is forgotten.
    pub expires: Instant,
    /// When the Path is sent on again.
    pub refresh_at: Instant,
    /// What the receiver asks for (RSB).
    pub reservation: Option<Reservation>,
    /// What traffic control has promised (TCSB).
    pub handle: Option<Handle>,
    /// When the Resv is sent on again.
    pub resv_refresh_at: Instant,
    /// What this block is armed for.
    pub armed: Instant,
}

/// What a receiver asks for.
pub(super) struct Reservation {
    /// The node behind; none for a receiver on this host.
    pub next: Option<Hop>,
    pub receiver: super::Receiver,
    pub flowspec: Flowspec,
    pub policy: Vec<Opaque>,
    pub forwarded: Vec<Opaque>,
    pub expires: Instant,
}

impl PathState {
    /// The earliest of all its times.
    fn due(&self) -> Instant {
        let reservation = self.reservation.as_ref().map_or(Instant::NEVER, |r| r.expires);
        self.expires
            .min(self.refresh_at)
            .min(self.resv_refresh_at)
            .min(reservation)
    }

    /// The sender as messages show it.
    pub fn descriptor(&self) -> crate::wire::SenderDescriptor {
        crate::wire::SenderDescriptor {
            template: self.sender,
            tspec: Content::Known(self.tspec),
            adspec: self.adspec.clone().map(Content::Known),
        }
    }
}

/// All that is remembered.
#[derive(Default)]
pub(super) struct State {
    paths: BTreeMap<Flow, PathState>,
    agenda: BTreeSet<(Instant, Flow)>,
}

impl State {
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    pub fn flows(&self) -> Vec<Flow> {
        self.paths.keys().copied().collect()
    }

    pub fn path(&self, flow: Flow) -> Option<&PathState> {
        self.paths.get(&flow)
    }

    pub fn path_mut(&mut self, flow: Flow) -> Option<&mut PathState> {
        self.paths.get_mut(&flow)
    }

    /// Whether a session has any sender.
    pub fn has_session(&self, key: Key) -> bool {
        let first = (key, FIRST_SENDER);
        self.paths
            .range(first..)
            .next()
            .is_some_and(|((found, _), _)| *found == key)
    }

    /// Whether a session to the same host and protocol has a port where this has none, or the other way round.
    pub fn ports_conflict(&self, key: Key) -> bool {
        let with = |port| (Key { port, ..key }, FIRST_SENDER);
        let alike = |found: &Key| found.destination == key.destination && found.protocol == key.protocol;
        if key.port == 0 {
            let next = self.paths.range(with(1)..).next();
            next.is_some_and(|((found, _), _)| alike(found))
        } else {
            self.has_session(Key { port: 0, ..key })
        }
    }

    pub fn insert(&mut self, flow: Flow, path: PathState) {
        self.paths.insert(flow, path);
    }

    pub fn remove(&mut self, flow: Flow) -> Option<PathState> {
        let path = self.paths.remove(&flow)?;
        self.agenda.remove(&(path.armed, flow));
        Some(path)
    }

    /// Notes when a flow is due next; after every change of its times.
    pub fn arm(&mut self, flow: Flow) {
        if let Some(path) = self.paths.get_mut(&flow) {
            self.agenda.remove(&(path.armed, flow));
            path.armed = path.due();
            if path.armed != Instant::NEVER {
                self.agenda.insert((path.armed, flow));
            }
        }
    }

    /// The first flow that is due.
    pub fn due(&self, now: Instant) -> Option<Flow> {
        self.agenda
            .first()
            .filter(|(at, _)| *at <= now)
            .map(|(_, flow)| *flow)
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.agenda.first().map(|(at, _)| *at)
    }
}

/// Before all others in order.
const FIRST_SENDER: Sender = Sender::Port {
    address: IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
    port: 0,
};
