//! The interfaces of RSVP to traffic control (RFC 2205, section 3.11.2) and to routing (3.11.3).
//!
//! Traffic control is one trait, so that any discipline that can guarantee a rate may stand behind
//! it. Four rules hold for all of them: a change that fails leaves the old reservation in force; a
//! repeated call has no further effect; a request for less than is in force is never refused; a
//! refusal carries numbers.

use crate::wire::{ErrorCode, Flowspec, Real, SenderTemplate, Session, TokenBucket};
use core::net::IpAddr;
use engine::units::{Bandwidth, Duration};

/// An interface of the node, counted from 0. Also the logical interface handle (LIH) in our
/// RSVP_HOP.
pub type InterfaceId = u32;

/// RHandle: names a reservation that traffic control has installed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RHandle(pub u64);

/// TC_Police_Flags: why the traffic of a reservation is policed (RFC 2205, section 3.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoliceFlags {
    /// TC_E_Police_flag: this node is the first that polices the traffic.
    pub entry: bool,
    /// TC_M_Police_flag: several senders share the reservation.
    pub merge: bool,
    /// TC_B_Police_flag: the reservation on another interface for the same traffic is larger, or
    /// not comparable.
    pub branch: bool,
}

impl PoliceFlags {
    /// Whether any flag is set.
    pub const fn any(self) -> bool {
        self.entry || self.merge || self.branch
    }
}

/// What is requested of traffic control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcRequest {
    /// TC_Flowspec: the flowspecs of the receivers behind the interface, merged.
    pub flowspec: Flowspec,
    /// TC_Tspec: the sum of the senders' Tspecs.
    pub tspec: TokenBucket,
    /// TC_Police_Flags.
    pub police: PoliceFlags,
    /// Csum and Dsum of the hops before this interface, the largest of any sender: a burst has
    /// grown by Csum + *r* Dsum when it arrives (RFC 2212, section 2). RFC 2205 hands on no such
    /// thing.
    pub before: ErrorTerms,
}

impl ErrorTerms {
    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            rate_dependent: self.rate_dependent.max(other.rate_dependent),
            rate_independent: self.rate_independent.max(other.rate_independent),
        }
    }
}

/// An admitted reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Its handle.
    pub rhandle: RHandle,
    /// Fwd_Flowspec: goes to the previous hops in place of the requested flowspec, since guaranteed
    /// service may use up slack here.
    pub fwd_flowspec: Option<Flowspec>,
}

/// Why traffic control refuses a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdmissionFailure {
    /// The error for the ERROR_SPEC.
    pub error: ErrorCode,
    /// The requested rate, as it counts on this interface.
    pub requested: Bandwidth,
    /// The rate that was available to this request.
    pub available: Bandwidth,
    /// The delay that the interface could guarantee with this reservation on it, where the delay
    /// that it does guarantee is the reason of the refusal.
    pub possible_delay: Option<Duration>,
}

/// The error terms of guaranteed service on an interface: its delay exceeds that of the fluid model
/// by at most C / R + D (RFC 2212).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ErrorTerms {
    /// C, in bytes.
    pub rate_dependent: u32,
    /// D, in microseconds.
    pub rate_independent: u32,
}

/// What an interface contributes to the ADSPEC of a Path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advertised {
    /// The available path bandwidth, in bytes per second.
    pub bandwidth: Real,
    /// The minimum path latency, in microseconds, without queueing.
    pub latency: u32,
    /// The MTU, in bytes.
    pub mtu: u32,
    /// Whether the interface offers controlled load.
    pub controlled_load: bool,
    /// The error terms of guaranteed service; none where it is not offered.
    pub guaranteed: Option<ErrorTerms>,
}

/// Traffic control: admits reservations on interfaces and enforces them.
pub trait TrafficControl {
    /// TC_AddFlowspec: reserves on this interface. No packets belong to it before
    /// [`TrafficControl::add_filter`].
    ///
    /// # Errors
    ///
    /// If the request is refused; nothing is installed then.
    fn add_flowspec(
        &mut self,
        interface: InterfaceId,
        request: &TcRequest,
    ) -> Result<Granted, AdmissionFailure>;
    /// TC_ModFlowspec: changes a reservation; returns [`Granted::fwd_flowspec`].
    ///
    /// # Errors
    ///
    /// If the change is refused; the old reservation stays in force then.
    fn modify_flowspec(
        &mut self,
        rhandle: RHandle,
        request: &TcRequest,
    ) -> Result<Option<Flowspec>, AdmissionFailure>;
    /// TC_DelFlowspec: deletes a reservation. Its filters have been deleted.
    fn delete_flowspec(&mut self, rhandle: RHandle);
    /// TC_AddFilter: packets of this sender to this session use the reservation; a shared one has
    /// several filters.
    fn add_filter(&mut self, rhandle: RHandle, session: &Session, sender: &SenderTemplate);
    /// TC_DelFilter: they no longer do.
    fn delete_filter(&mut self, rhandle: RHandle, session: &Session, sender: &SenderTemplate);
    /// TC_Advertise: what this interface contributes to an ADSPEC.
    fn advertise(&self, interface: InterfaceId) -> Advertised;
}

/// Where packets from a source to a destination go.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Route {
    /// IncInterface: the only interface they may arrive on, for multicast with reverse path
    /// forwarding.
    pub incoming: Option<InterfaceId>,
    /// OutInterface_list: where they leave, each at most once. One for unicast, any number for
    /// multicast.
    pub outgoing: Vec<InterfaceId>,
    /// Whether they are delivered on this node.
    pub local: bool,
}

impl Route {
    /// There is no route.
    pub const NONE: Self = Self {
        incoming: None,
        outgoing: Vec::new(),
        local: false,
    };

    /// To a host behind this interface.
    pub fn through(interface: InterfaceId) -> Self {
        Self {
            outgoing: vec![interface],
            ..Self::NONE
        }
    }

    /// To this node.
    pub fn local() -> Self {
        Self {
            local: true,
            ..Self::NONE
        }
    }

    /// Whether there is any way to the destination.
    pub const fn is_reachable(&self) -> bool {
        self.local || !self.outgoing.is_empty()
    }
}

/// The node's routing table.
pub trait Routing {
    /// Route_Query: where packets from this source to this destination go. Only multicast routes
    /// depend on the source; it is none for our own messages to a host.
    fn route(&self, source: Option<IpAddr>, destination: IpAddr) -> Route;
}
