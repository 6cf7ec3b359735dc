//! The state of a session: the state blocks of RFC 2209, section 1, and how they relate.
//!
//! Departures from RFC 2209. A PSB holds only senders whose Path came by the interface that
//! routing expects. It remembers one former previous hop: if the present one tears down while
//! that one's state lives, the former one is the previous hop again. There is one RSB for each
//! next hop whatever the style, with a lifetime for each filter spec in it. BSBs are kept for
//! each previous hop in the explicit styles too; that differs only while one sender is heard
//! through two previous hops.

use super::neighbour::{NextHop, PreviousHop};
use crate::traffic_control::{InterfaceId, RHandle, TcRequest};
use crate::wire::{Adspec, Flowspec, Opaque, Refresh, SenderTemplate, Session, Style, TokenBucket};
use core::net::IpAddr;
use engine::units::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// Identifies a session: destination address, protocol and destination port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct SessionKey {
    pub destination: IpAddr,
    pub protocol: u8,
    pub port: u16,
}

impl From<&Session> for SessionKey {
    fn from(session: &Session) -> Self {
        Self {
            destination: session.destination,
            protocol: session.protocol,
            port: session.port,
        }
    }
}

impl SessionKey {
    pub const fn session(&self) -> Session {
        Session {
            destination: self.destination,
            protocol: self.protocol,
            port: self.port,
            police: false,
        }
    }
}

/// A filter spec: one sender; none matches every sender, as style WF does.
pub(super) type FilterSpec = Option<SenderTemplate>;

/// What a TCSB is installed for: an outgoing interface, and the filter spec of its flowspec. The
/// filter spec is none in the shared styles.
pub(super) type TcsbKey = (InterfaceId, FilterSpec);

/// When a state is refreshed next.
pub(super) struct RefreshTimer {
    pub at: Instant,
    /// R as last sent, on its way to that of the interface; none before the first refresh.
    pub period: Option<Refresh>,
}

impl RefreshTimer {
    pub const NONE: Self = Self {
        at: Instant::NEVER,
        period: None,
    };
}

/// Path state block: one sender of the session.
pub(super) struct Psb {
    /// None for a sender on this host.
    pub phop: Option<PreviousHop>,
    /// The previous hop before that one, and until when its state lives: routes move back and
    /// forth, and routers on a path that data has left refresh what they have until it times out.
    pub former: Option<(PreviousHop, Instant)>,
    /// E_Police, from the sender's SESSION object.
    pub police: bool,
    pub tspec: TokenBucket,
    pub adspec: Option<Adspec>,
    pub policy: Vec<Opaque>,
    pub forwarded: Vec<Opaque>,
    /// The IP TTL with which the Path arrived.
    pub ttl: u8,
    /// Non_RSVP: there are nodes without RSVP between the previous hop and us.
    pub non_rsvp_hop: bool,
    /// Local_Only: the destination is on this host.
    pub local: bool,
    /// OutInterface_list, with the Path refresh timer of each interface.
    pub outgoing: Vec<(InterfaceId, RefreshTimer)>,
    /// The route has changed and may settle until then.
    pub reroute_at: Instant,
    pub expires: Instant,
    /// The reservation last reported to the application of a sender on this host.
    pub reported: Option<(Style, Flowspec)>,
    /// Its place in the order of eviction, unless it is a sender on this host.
    pub ticket: u64,
    /// A refresh has arrived since it was last considered for eviction.
    pub refreshed: bool,
    pub armed: Instant,
}

impl Psb {
    pub fn leaves_through(&self, interface: InterfaceId) -> bool {
        self.outgoing.iter().any(|(outgoing, _)| *outgoing == interface)
    }

    /// Whether the sender's data goes to this next hop.
    pub fn reaches(&self, nhop: &NextHop) -> bool {
        match nhop {
            NextHop::Local(_) => self.local,
            NextHop::Remote(hop) => self.leaves_through(hop.lih),
        }
    }

    /// The earliest of its timers.
    pub fn due(&self) -> Instant {
        let refresh = self.outgoing.iter().map(|(_, refresh)| refresh.at).min();
        self.expires
            .min(self.reroute_at)
            .min(refresh.unwrap_or(Instant::NEVER))
    }
}

/// One filter spec of an RSB.
#[derive(Clone, Copy)]
pub(super) struct RsbEntry {
    pub flowspec: Flowspec,
    pub expires: Instant,
}

/// Reservation state block: what one next hop requests. In the styles WF and SE all entries have
/// the same flowspec.
#[derive(Clone)]
pub(super) struct Rsb {
    pub style: Style,
    pub entries: BTreeMap<FilterSpec, RsbEntry>,
    /// SCOPE: the senders to which a wildcard request applies, in order.
    pub scope: Option<Vec<IpAddr>>,
    pub policy: Vec<Opaque>,
    pub forwarded: Vec<Opaque>,
    /// Filter specs of a local receiver that has not seen a confirmation yet.
    pub unconfirmed: BTreeSet<FilterSpec>,
    pub armed: Instant,
}

impl Rsb {
    pub fn new(style: Style) -> Self {
        Self {
            style,
            entries: BTreeMap::new(),
            scope: None,
            policy: Vec::new(),
            forwarded: Vec::new(),
            unconfirmed: BTreeSet::new(),
            armed: Instant::NEVER,
        }
    }

    pub fn due(&self) -> Instant {
        let expires = self.entries.values().map(|entry| entry.expires).min();
        expires.unwrap_or(Instant::NEVER)
    }

    /// The entry that covers this sender.
    pub fn entry(&self, sender: &SenderTemplate) -> Option<&RsbEntry> {
        let filter = match self.style {
            Style::Wildcard => None,
            _ => Some(*sender),
        };
        self.entries.get(&filter)
    }

    /// Whether SCOPE, if there is one, lists this sender.
    pub fn in_scope(&self, sender: &SenderTemplate) -> bool {
        self.scope
            .as_ref()
            .is_none_or(|scope| scope.binary_search(&sender.address()).is_ok())
    }
}

/// Traffic control state block: what is installed on one interface.
pub(super) struct Tcsb {
    pub rhandle: RHandle,
    pub request: TcRequest,
    /// Fwd_Flowspec: goes to the previous hops in place of the merged flowspec.
    pub fwd_flowspec: Option<Flowspec>,
    pub senders: BTreeSet<SenderTemplate>,
}

/// The Resv state last sent to a previous hop.
pub(super) struct SentResv {
    pub style: Style,
    pub flowspecs: BTreeMap<FilterSpec, Flowspec>,
    pub scope: Option<Vec<IpAddr>>,
    pub refresh: RefreshTimer,
    pub armed: Instant,
}

/// Blockade state block: a request that a previous hop has rejected.
pub(super) struct Bsb {
    /// Qb.
    pub flowspec: Flowspec,
    /// When Tb runs out.
    pub until: Instant,
    pub armed: Instant,
}

/// All state blocks of one session.
#[derive(Default)]
pub(super) struct SessionState {
    // Boxed, since the smallest node of a B-tree has room for eleven, and most sessions have one of
    // each.
    pub psbs: BTreeMap<SenderTemplate, Box<Psb>>,
    pub rsbs: BTreeMap<NextHop, Box<Rsb>>,
    pub tcsbs: BTreeMap<TcsbKey, Box<Tcsb>>,
    pub sent_resvs: BTreeMap<PreviousHop, Box<SentResv>>,
    pub bsbs: BTreeMap<(PreviousHop, FilterSpec), Bsb>,
}

impl SessionState {
    /// The style of all its reservations.
    pub fn style(&self) -> Option<Style> {
        self.rsbs.values().next().map(|rsb| rsb.style)
    }

    /// Whether a sender's data goes to this next hop.
    pub fn reaches(&self, sender: &SenderTemplate, nhop: &NextHop) -> bool {
        self.psbs.get(sender).is_some_and(|psb| psb.reaches(nhop))
    }

    /// Whether the data of any sender that matches the filter spec goes to this next hop.
    pub fn any_reaches(&self, filter: &FilterSpec, nhop: &NextHop) -> bool {
        match filter {
            Some(sender) => self.reaches(sender, nhop),
            None => self.psbs.values().any(|psb| psb.reaches(nhop)),
        }
    }

    /// Whether a next hop requests a reservation for this sender.
    pub fn is_reserved(&self, sender: &SenderTemplate) -> bool {
        let mut rsbs = self.rsbs.iter();
        rsbs.any(|(nhop, rsb)| rsb.entry(sender).is_some() && self.reaches(sender, nhop))
    }

    /// The senders that an RSB covers and whose data goes to its next hop.
    pub fn served<'a>(&'a self, nhop: &'a NextHop, rsb: &'a Rsb) -> impl Iterator<Item = &'a SenderTemplate> {
        self.psbs
            .iter()
            .filter(move |(sender, psb)| rsb.entry(sender).is_some() && psb.reaches(nhop))
            .map(|(sender, _)| sender)
    }

    /// Whether this is the previous hop of any sender.
    pub fn has_phop(&self, phop: PreviousHop) -> bool {
        self.psbs.values().any(|psb| psb.phop == Some(phop))
    }

    /// The previous hops of all senders.
    pub fn all_phops(&self) -> BTreeSet<PreviousHop> {
        self.psbs.values().filter_map(|psb| psb.phop).collect()
    }

    /// The previous hops to which a next hop's request for this filter spec goes.
    pub fn phops(&self, nhop: &NextHop, filter: &FilterSpec) -> BTreeSet<PreviousHop> {
        let one = filter.and_then(|sender| self.psbs.get(&sender));
        let all = self.psbs.values().filter(|_| filter.is_none());
        one.into_iter()
            .chain(all)
            .filter(|psb| psb.reaches(nhop))
            .filter_map(|psb| psb.phop)
            .collect()
    }

    /// The filter spec under which traffic control installs a request: the shared styles install
    /// one.
    pub fn tcsb_filter(&self, filter: &FilterSpec) -> FilterSpec {
        filter.filter(|_| self.style() == Some(Style::Fixed))
    }
}

/// All sessions.
#[derive(Default)]
pub(super) struct Sessions(pub BTreeMap<SessionKey, SessionState>);

impl Sessions {
    /// Whether a session to the same host and protocol has a port where this one has none, or the
    /// reverse.
    pub fn ports_conflict(&self, key: SessionKey) -> bool {
        let alike =
            |found: &SessionKey| found.destination == key.destination && found.protocol == key.protocol;
        if key.port == 0 {
            let next = self.0.range(SessionKey { port: 1, ..key }..).next();
            next.is_some_and(|(found, _)| alike(found))
        } else {
            self.0.contains_key(&SessionKey { port: 0, ..key })
        }
    }
}
