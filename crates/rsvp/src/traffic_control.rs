//! What RSVP asks of the place where packets are queued (RFC 2205, section 3.11.2), and of the routes (3.11.3).
//!
//! One trait, so that any discipline that can promise a rate may stand behind it. Four rules hold for all:
//! a change that fails leaves what was there in force; the same call twice is the same as once; a request for less
//! than is in force is not refused; what is refused is refused with numbers.

use crate::wire::{Flowspec, Real, Sender, Session, TokenBucket};
use core::net::IpAddr;
use engine::units::Bandwidth;

/// An interface of the node, counted from 0. It is also the handle that neighbours send back to us.
pub type InterfaceId = u32;

/// A reservation in force, named by traffic control.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle(pub u64);

/// Why what passes is held to what was promised of it (RFC 2205, section 3.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Police {
    /// E_Police: nobody before us has policed this traffic.
    pub entry: bool,
    /// M_Police: several senders share the reservation.
    pub merge: bool,
    /// B_Police: more, or something else, is reserved for the same traffic on another interface.
    pub branch: bool,
}

impl Police {
    /// Whether any of the three is a reason.
    pub const fn any(self) -> bool {
        self.entry || self.merge || self.branch
    }
}

/// What is to be promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What the receivers behind the interface ask for, merged.
    pub flowspec: Flowspec,
    /// What the senders say that they send, together.
    pub tspec: TokenBucket,
    /// Whether and why to police.
    pub police: Police,
}

/// A promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Its name from now on.
    pub handle: Handle,
    /// What is asked of the nodes before instead of what was asked here: a guaranteed service may use up slack.
    pub forward: Option<Flowspec>,
}

/// Why something is not promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The error code for the wire.
    pub code: u8,
    /// The error value for the wire.
    pub value: u16,
    /// What was asked, as it would count on this interface.
    pub asked: Bandwidth,
    /// What there was to give to this request.
    pub available: Bandwidth,
}

/// What guaranteed service on an interface lacks against an ideal one (RFC 2212): its delay is at most
/// C / rate + D more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorTerms {
    /// C, in bytes.
    pub rate_dependent: u32,
    /// D, in microseconds.
    pub rate_independent: u32,
}

/// What an interface adds to a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advertised {
    /// Bytes per second.
    pub bandwidth: Real,
    /// Microseconds, without queueing.
    pub latency: u32,
    /// The largest packet.
    pub mtu: u32,
    /// Whether controlled load is promised here.
    pub controlled_load: bool,
    /// Guaranteed service, if it is promised here.
    pub guaranteed: Option<ErrorTerms>,
}

/// Promises bandwidth on interfaces and keeps it.
pub trait TrafficControl {
    /// Promises this to packets that leave by this interface; none yet, see [`TrafficControl::add_filter`].
    fn add(&mut self, interface: InterfaceId, request: &Request) -> Result<Granted, Refused>;
    /// Promises something else instead; refused, the old promise stays. The answer is as [`Granted::forward`].
    fn modify(&mut self, handle: Handle, request: &Request) -> Result<Option<Flowspec>, Refused>;
    /// Ends a promise. Its filters have been taken off.
    fn delete(&mut self, handle: Handle);
    /// Packets of this sender to this session are the promise's. Shared reservations have several.
    fn add_filter(&mut self, handle: Handle, session: &Session, sender: &Sender);
    /// They no longer are.
    fn delete_filter(&mut self, handle: Handle, session: &Session, sender: &Sender);
    /// What this interface adds to a path.
    fn advertise(&self, interface: InterfaceId) -> Advertised;
}

/// Where the packets of a source to a destination go.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Route {
    /// The only interface that they may come by, where there is such a rule: reverse path forwarding to groups.
    pub expected: Option<InterfaceId>,
    /// They leave by these, each at most once: one for a host, any number for a group.
    pub by: Vec<InterfaceId>,
    /// They are delivered on this node.
    pub here: bool,
}

impl Route {
    /// Nowhere.
    pub const NONE: Self = Self {
        expected: None,
        by: Vec::new(),
        here: false,
    };

    /// To a host behind this interface.
    pub fn by(interface: InterfaceId) -> Self {
        Self {
            by: vec![interface],
            ..Self::NONE
        }
    }

    /// To this node.
    pub fn here() -> Self {
        Self {
            here: true,
            ..Self::NONE
        }
    }

    /// Whether they go anywhere.
    pub const fn is_some(&self) -> bool {
        self.here || !self.by.is_empty()
    }
}

/// The node's routes.
pub trait Routing {
    /// Where packets from this source to this destination go. Only groups look at the source; messages of our own to
    /// a host have none.
    fn route(&self, source: Option<IpAddr>, destination: IpAddr) -> Route;
}
