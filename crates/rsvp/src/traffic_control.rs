//! What RSVP asks of the place where packets are queued (RFC 2205, section 3.11.2).
//!
//! One trait, so that any discipline that can promise a rate may stand behind it. Three rules hold for all:
//! a change that fails leaves what was there in force; the same call twice is the same as once; what is refused is
//! refused with numbers.

use crate::wire::{Flowspec, Real, Sender, Session, TokenBucket};
use engine::units::Bandwidth;

/// An interface of the node, counted from 0. It is also the handle that neighbours send back to us.
pub type InterfaceId = u32;

/// A reservation in force, named by traffic control.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle(pub u64);

/// What is to be promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What the receiver asks for.
    pub flowspec: Flowspec,
    /// What the sender says that it sends.
    pub tspec: TokenBucket,
    /// Nobody before us has policed this traffic.
    pub police: bool,
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

/// What an interface adds to a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advertised {
    /// Bytes per second.
    pub bandwidth: Real,
    /// Microseconds, without queueing.
    pub latency: u32,
    /// The largest packet.
    pub mtu: u32,
}

/// Promises bandwidth on interfaces and keeps it.
pub trait TrafficControl {
    /// Promises this to packets that leave by this interface; none yet, see [`TrafficControl::add_filter`].
    fn add(&mut self, interface: InterfaceId, request: &Request) -> Result<Handle, Refused>;
    /// Promises something else instead; refused, the old promise stays.
    fn modify(&mut self, handle: Handle, request: &Request) -> Result<(), Refused>;
    /// Ends a promise and its filters.
    fn delete(&mut self, handle: Handle);
    /// Packets of this sender to this session are the promise's.
    fn add_filter(&mut self, handle: Handle, session: &Session, sender: &Sender);
    /// They no longer are.
    fn delete_filter(&mut self, handle: Handle, session: &Session, sender: &Sender);
    /// What this interface adds to a path.
    fn advertise(&self, interface: InterfaceId) -> Advertised;
}

/// Where packets to an address leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// The address is the node's own.
    Here,
    /// By this interface.
    By(InterfaceId),
    /// Nowhere.
    None,
}

/// The node's routes.
pub trait Routing {
    /// Where packets to this address leave.
    fn route(&self, destination: core::net::IpAddr) -> Route;
}
