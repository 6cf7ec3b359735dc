//! Reservations along a path: the part of the control protocol about RSVP.
//!
//! ```text
//! → {"request":"reserve","wanted":{"to":"10.0.3.2","port":5000,"protocol":17,"rate_bps":40000000}}
//! ← {"reply":"reservation","state":"asked","number":1}
//! ← {"reply":"reservation","state":"reserved","number":1,"rate_bps":40000000,"guaranteed":false}
//! ```
//!
//! A reservation lasts as long as its connection: when that ends, however it ends, the node tears
//! the reservation down.

use crate::refusal::Refusal;
use core::net::IpAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::mpsc::Sender;

/// The default of the minimum policed unit.
pub const USUAL_PACKET: u32 = 1000;

/// A request for a reservation. Rates and lengths are of IP datagrams.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationRequest {
    /// The receiver.
    pub to: IpAddr,
    /// The destination port; 0 where the protocol has no ports.
    #[serde(default)]
    pub port: u16,
    /// The transport protocol.
    pub protocol: u8,
    /// The source address; by default that of the route to the receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
    /// The source port; 0 matches any.
    #[serde(default)]
    pub from_port: u16,
    /// The token rate, in bit/s.
    pub rate_bps: u64,
    /// The bucket depth, in bytes; 0 for 10 ms of the rate, and at least two packets.
    #[serde(default)]
    pub burst_bytes: u64,
    /// The minimum policed unit: shorter packets count as this.
    #[serde(default = "usual_packet")]
    pub packet_bytes: u32,
    /// The bound on the queueing delay, in microseconds: requests guaranteed service instead of
    /// controlled load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_us: Option<u64>,
}

fn usual_packet() -> u32 {
    USUAL_PACKET
}

/// A change in the state of a reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum ReservationState {
    /// Requested: Path messages are sent.
    Asked {
        /// The number of the reservation on this node, for `reserve change`.
        number: u64,
    },
    /// Every hop on the path to the receiver has admitted it.
    Reserved {
        /// Its number.
        number: u64,
        /// The reserved rate, in bit/s of IP datagrams.
        rate_bps: u64,
        /// Whether it is guaranteed service.
        guaranteed: bool,
    },
    /// It is no longer installed; it is re-established without a new request when the path returns.
    Lost {
        /// Its number.
        number: u64,
    },
    /// A node on the path has refused it.
    Refused(PathRefusal),
    /// What the path offers: the reply to a trial.
    Offer(PathOffer),
}

/// A hop on the path has refused a reservation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PathRefusal {
    /// The node that refused.
    pub node: IpAddr,
    /// The RSVP error code.
    pub code: u8,
    /// The RSVP error value.
    pub value: u16,
    /// What code and value mean.
    pub reason: String,
    /// The requested rate, in bit/s of IP datagrams.
    pub asked_bps: u64,
    /// The unreserved rate on the bottleneck link of the path, in bit/s of full-sized IP datagrams,
    /// if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_bps: Option<u64>,
    /// If a delay was requested: the shortest that the path could guarantee with what is left, in
    /// microseconds, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub possible_delay_us: Option<u64>,
}

/// What a path offers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PathOffer {
    /// Whether the request would be admitted now.
    pub fits: bool,
    /// Why it would not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Hops with admission control (the IS hop count).
    pub hops: u32,
    /// The unreserved rate on the bottleneck link, in bit/s of full-sized IP datagrams; `None` if
    /// no link has a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_bps: Option<u64>,
    /// The path MTU.
    pub mtu_bytes: u32,
    /// The rate that the requested delay bound requires, in bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_for_delay_bps: Option<u64>,
    /// If a delay was requested: the shortest that the path could guarantee with what is left, in
    /// microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub possible_delay_us: Option<u64>,
    /// The break bit: whether some hop does not support RSVP.
    pub gap: bool,
}

/// A sender and its session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowView {
    /// The sender.
    pub from: IpAddr,
    /// The source port; 0 matches any.
    pub from_port: u16,
    /// The receiver.
    pub to: IpAddr,
    /// The destination port; 0 where the protocol has no ports.
    pub port: u16,
    /// The transport protocol.
    pub protocol: u8,
}

impl std::fmt::Display for FlowView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = |address: IpAddr, port: u16| match (address, port) {
            (address, 0) => address.to_string(),
            (address, port) => std::net::SocketAddr::new(address, port).to_string(),
        };
        let protocol = crate::filters::protocol_name(self.protocol);
        let (from, to) = (place(self.from, self.from_port), place(self.to, self.port));
        write!(f, "{from} -> {to} {protocol}")
    }
}

/// The RSVP state of a node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RsvpStatus {
    /// The interfaces on which it speaks RSVP.
    pub interfaces: Vec<RsvpInterfaceView>,
    /// Senders with path state, and their reservations.
    pub senders: Vec<SenderView>,
    /// The latest refusals by this node, the newest last.
    pub refusals: Vec<RefusalView>,
    /// Messages received.
    pub heard: u64,
    /// Malformed messages.
    pub malformed: u64,
    /// Messages beyond the rate limit of an interface.
    pub overflow: u64,
    /// Messages that failed the integrity check, by interface, neighbour and reason, the latest
    /// last.
    #[serde(default)]
    pub dropped: Vec<DroppedView>,
    /// Limits of state that were reached, the latest last.
    #[serde(default)]
    pub limits: Vec<LimitView>,
    /// Refresh reduction; `None` if it is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_reduction: Option<RefreshReductionView>,
}

/// Messages that failed the integrity check.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DroppedView {
    /// The interface on which they arrived.
    pub interface: String,
    /// The neighbour that they claim to come from.
    pub from: IpAddr,
    /// The reason in a machine-readable word: `missing`, `unknown-key`, `wrong-key`, `replayed` and
    /// others.
    pub reason: String,
    /// What the reason means, and what to do.
    pub message: String,
    /// How many.
    pub count: u64,
    /// How many seconds ago the last of them arrived.
    pub seconds_ago: f64,
}

/// A limit of state that was reached.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LimitView {
    /// Which state: `senders`, `reservations` or `neighbours`.
    pub what: String,
    /// The interface, where the limit is its share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The last neighbour that reached it, as its message stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
    /// What happened.
    pub message: String,
    /// How often.
    pub count: u64,
    /// How many seconds ago the last time was.
    pub seconds_ago: f64,
}

/// How the messages of an interface are authenticated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct KeysView {
    /// Whether messages without INTEGRITY are dropped.
    pub required: bool,
    /// Whether the sending key has expired and there is no other key.
    pub stale: bool,
}

/// Statistics of refresh reduction (RFC 2961).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RefreshReductionView {
    /// Refreshes sent as a MESSAGE_ID in a summary refresh.
    pub summarised: u64,
    /// Messages retransmitted because no acknowledgement came.
    pub retransmitted: u64,
    /// Messages that were never acknowledged.
    pub given_up: u64,
    /// MESSAGE_IDs of neighbours that were unknown here.
    pub unknown_ids: u64,
}

/// An interface on which the node speaks RSVP.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RsvpInterfaceView {
    /// Its name.
    pub name: String,
    /// This node's addresses on it.
    pub addresses: Vec<IpAddr>,
    /// The sum of reservations, in bit/s as the link counts; `None` if this node does not queue
    /// there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_bps: Option<u64>,
    /// The reservable rate in total, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservable_bps: Option<u64>,
    /// How its messages are authenticated; `None`: messages of any node on the link are accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeysView>,
    /// The error that keeps it from working, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A sender and its reservations.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SenderView {
    /// The sender and its session.
    pub flow: FlowView,
    /// The token rate of its Tspec, in bit/s of IP datagrams.
    pub sends_bps: u64,
    /// The previous hop; `None` for a sender on this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<IpAddr>,
    /// The number of the reservation, if a program on this node has requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The seconds until its path state times out if it is not refreshed; `None` for a sender
    /// on
    /// this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten_in_s: Option<f64>,
    /// Whether this node has sent the Resv as its receiver, or as the receiver proxy.
    pub answered: bool,
    /// Of guaranteed service that this node has requested so: the bound on the delay in the queues
    /// of the path, composed of what its hops export, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<u64>,
    /// Its reservations on the interfaces of this node.
    pub reservations: Vec<InstalledReservation>,
}

/// A reservation on an interface.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct InstalledReservation {
    /// The interface.
    pub interface: String,
    /// The class that enforces it; `None` if this node does not queue there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The reserved rate, in bit/s of IP datagrams: what receivers have asked for, but no more than
    /// the senders said that they send when it was admitted.
    pub rate_bps: u64,
    /// The rate that it uses on the interface, in bit/s as the link counts.
    pub link_rate_bps: u64,
    /// Whether it is guaranteed service.
    pub guaranteed: bool,
}

/// A refusal by this node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RefusalView {
    /// The flow; one of several in a shared reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowView>,
    /// The interface that refused.
    pub interface: String,
    /// The reason.
    pub reason: String,
    /// The requested rate, in bit/s as the link counts.
    pub asked_bps: u64,
    /// The rate that was available, in the same unit.
    pub left_bps: u64,
    /// The delay that the interface could guarantee with the reservation, where a delay was the
    /// reason, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub possible_delay_us: Option<u64>,
    /// How many seconds ago.
    pub seconds_ago: f64,
}

/// An event.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    /// The kind of event, machine-readable: `path`, `path-ended`, `reserved`, `unreserved`,
    /// `refused`, `failed`, `offer`, `confirmed`, `dropped`, `limit`.
    pub what: String,
    /// The flow that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowView>,
    /// The event, human-readable.
    pub message: String,
}

/// A guard: dropping it ends the reservation, trial or subscription for which it was returned.
pub type Lease = Box<dyn Send>;

/// An RSVP node that several threads may ask for reservations.
pub trait Reservations: Send + Sync {
    /// Requests a reservation, until the lease is dropped. Its state goes to `tell`.
    ///
    /// # Errors
    ///
    /// Returns an error if the node refuses the request at once.
    fn reserve(&self, wanted: &ReservationRequest, tell: Sender<ReservationState>) -> Result<Lease, Refusal>;
    /// Asks what the path offers, without reserving. [`ReservationState::Offer`] or a refusal goes
    /// to `tell`.
    ///
    /// # Errors
    ///
    /// Returns an error if the node refuses the request at once.
    fn trial(&self, wanted: &ReservationRequest, tell: Sender<ReservationState>) -> Result<Lease, Refusal>;
    /// Changes the rate of the reservation of this number, in bit/s.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such reservation, or the path refuses; the old rate
    /// stays in
    /// force then.
    fn change(&self, number: u64, rate_bps: u64) -> Result<String, Refusal>;
    /// The RSVP state.
    ///
    /// # Errors
    ///
    /// Returns an error if the node has ended.
    fn status(&self) -> Result<RsvpStatus, Refusal>;
    /// Sends all events to `tell` until the lease is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the node has ended.
    fn watch(&self, tell: Sender<Notice>) -> Result<Lease, Refusal>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_leaves_out_is_as_usual() {
        let text = r#"{"to":"10.0.3.2","protocol":17,"rate_bps":40000000}"#;
        let read: ReservationRequest = serde_json::from_str(text).expect("a request");
        let expected = ReservationRequest {
            to: IpAddr::from([10, 0, 3, 2]),
            port: 0,
            protocol: 17,
            from: None,
            from_port: 0,
            rate_bps: 40_000_000,
            burst_bytes: 0,
            packet_bytes: 1_000,
            delay_us: None,
        };
        assert_eq!(read, expected);
    }
}
