//! What is remembered of a session: the blocks of RFC 2209, section 1, and how they reach each other.
//!
//! Departures: a block of path state (PSB) has only senders that came by the right interface. A block of reservation
//! state (RSB) is one for each next hop, whatever the style, with a lifetime for each filter in it. Blockades are kept
//! apart for each previous hop in explicit styles too, which is the same until a sender is heard of from two sides.

use super::status::Asker;
use crate::traffic_control::{Handle, InterfaceId, Request};
use crate::wire::{Adspec, Flowspec, Hop, Opaque, Refresh, Sender, Session, Style, TokenBucket};
use core::net::IpAddr;
use engine::units::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// What tells sessions apart.
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

impl Key {
    pub const fn session(&self) -> Session {
        Session {
            destination: self.destination,
            protocol: self.protocol,
            port: self.port,
            police: false,
        }
    }
}

/// One sender; none: all of them, as style WF has it.
pub(super) type Filter = Option<Sender>;

/// A node before: its hop object, and our interface towards it.
pub(super) type Before = (Hop, InterfaceId);

/// A refresh that comes again.
pub(super) struct Refreshing {
    pub at: Instant,
    /// R as it is now, on its way to that of the interface; none before the first.
    pub period: Option<Refresh>,
}

impl Refreshing {
    pub const NONE: Self = Self {
        at: Instant::NEVER,
        period: None,
    };
}

/// What is known of a sender (PSB).
pub(super) struct PathState {
    /// None for a sender of this host.
    pub previous: Option<Before>,
    pub police: bool,
    pub tspec: TokenBucket,
    pub adspec: Option<Adspec>,
    pub policy: Vec<Opaque>,
    pub forwarded: Vec<Opaque>,
    /// The IP TTL that the Path came with.
    pub ttl: u8,
    /// There are nodes without RSVP before us.
    pub gap: bool,
    pub here: bool,
    /// Where the Path goes on, with its refresh there.
    pub by: Vec<(InterfaceId, Refreshing)>,
    /// The route has changed and has until then to settle.
    pub reroute_at: Instant,
    pub expires: Instant,
    /// What the user of a sender of this host has heard.
    pub reserved: Option<(Style, Flowspec)>,
    pub armed: Instant,
}

impl PathState {
    pub fn leaves_by(&self, interface: InterfaceId) -> bool {
        self.by.iter().any(|(by, _)| *by == interface)
    }

    /// Whether the sender's packets pass where one asks from.
    pub fn reaches(&self, asker: &Asker) -> bool {
        match asker {
            Asker::Here(_) => self.here,
            Asker::Next(hop) => self.leaves_by(hop.interface),
        }
    }

    /// The earliest of its times.
    pub fn due(&self) -> Instant {
        let refresh = self.by.iter().map(|(_, refresh)| refresh.at).min();
        self.expires
            .min(self.reroute_at)
            .min(refresh.unwrap_or(Instant::NEVER))
    }
}

/// What is asked for one filter.
#[derive(Clone, Copy)]
pub(super) struct Spec {
    pub flowspec: Flowspec,
    pub expires: Instant,
}

/// What one asks for (RSB). In styles WF and SE all filters have one flowspec.
#[derive(Clone)]
pub(super) struct Asked {
    pub style: Style,
    pub specs: BTreeMap<Filter, Spec>,
    /// The senders that a wildcard is meant for, in order.
    pub scope: Option<Vec<IpAddr>>,
    pub policy: Vec<Opaque>,
    pub forwarded: Vec<Opaque>,
    /// What a program on this host has not heard yet that all is well with.
    pub unconfirmed: BTreeSet<Filter>,
    pub armed: Instant,
}

impl Asked {
    pub fn new(style: Style) -> Self {
        Self {
            style,
            specs: BTreeMap::new(),
            scope: None,
            policy: Vec::new(),
            forwarded: Vec::new(),
            unconfirmed: BTreeSet::new(),
            armed: Instant::NEVER,
        }
    }

    pub fn due(&self) -> Instant {
        let expires = self.specs.values().map(|spec| spec.expires).min();
        expires.unwrap_or(Instant::NEVER)
    }

    /// What is asked for this sender.
    pub fn spec(&self, sender: &Sender) -> Option<&Spec> {
        let filter = match self.style {
            Style::Wildcard => None,
            _ => Some(*sender),
        };
        self.specs.get(&filter)
    }

    /// Whether a wildcard is meant for this sender too.
    pub fn means(&self, sender: &Sender) -> bool {
        self.scope
            .as_ref()
            .is_none_or(|scope| scope.binary_search(&sender.address()).is_ok())
    }
}

/// What traffic control has promised (TCSB).
pub(super) struct Promise {
    pub handle: Handle,
    pub request: Request,
    /// What goes on to the nodes before instead.
    pub forward: Option<Flowspec>,
    pub senders: BTreeSet<Sender>,
}

/// What has been asked of a node before.
pub(super) struct Sent {
    pub style: Style,
    pub specs: BTreeMap<Filter, Flowspec>,
    pub scope: Option<Vec<IpAddr>>,
    pub refresh: Refreshing,
    pub armed: Instant,
}

/// A request that has failed at a node before (BSB).
pub(super) struct Blockade {
    pub flowspec: Flowspec,
    pub until: Instant,
    pub armed: Instant,
}

/// One session.
#[derive(Default)]
pub(super) struct State {
    // Boxed, since the least node of a map has room for eleven, and most sessions have one of each.
    pub paths: BTreeMap<Sender, Box<PathState>>,
    pub asked: BTreeMap<Asker, Box<Asked>>,
    pub promises: BTreeMap<(InterfaceId, Filter), Box<Promise>>,
    pub sent: BTreeMap<Before, Box<Sent>>,
    pub blockades: BTreeMap<(Before, Filter), Blockade>,
}

impl State {
    /// The style of all its reservations.
    pub fn style(&self) -> Option<Style> {
        self.asked.values().next().map(|asked| asked.style)
    }

    /// Whether a sender's packets pass where one asks from.
    pub fn reaches(&self, sender: &Sender, asker: &Asker) -> bool {
        self.paths.get(sender).is_some_and(|path| path.reaches(asker))
    }

    /// The senders that one's request is for and that pass there.
    pub fn served<'a>(&'a self, asker: &'a Asker, asked: &'a Asked) -> impl Iterator<Item = &'a Sender> {
        self.paths
            .iter()
            .filter(move |(sender, path)| asked.spec(sender).is_some() && path.reaches(asker))
            .map(|(sender, _)| sender)
    }

    /// Whether a node before is that of any sender.
    pub fn hears(&self, before: Before) -> bool {
        self.paths.values().any(|path| path.previous == Some(before))
    }
}

/// All sessions.
#[derive(Default)]
pub(super) struct Sessions(pub BTreeMap<Key, State>);

impl Sessions {
    /// Whether a session to the same host and protocol has a port where this has none, or the other way round.
    pub fn ports_conflict(&self, key: Key) -> bool {
        let alike = |found: &Key| found.destination == key.destination && found.protocol == key.protocol;
        if key.port == 0 {
            let next = self.0.range(Key { port: 1, ..key }..).next();
            next.is_some_and(|(found, _)| alike(found))
        } else {
            self.0.contains_key(&Key { port: 0, ..key })
        }
    }
}
