//! Bandwidth that a program asks for along a path: what is said over the control socket about it.
//!
//! ```text
//! → {"request":"reserve","wanted":{"to":"10.0.3.2","port":5000,"protocol":17,"rate_bps":40000000}}
//! ← {"reply":"reservation","state":"asked","number":1}
//! ← {"reply":"reservation","state":"reserved","number":1,"rate_bps":40000000,"guaranteed":false}
//! ```
//!
//! The connection's life is the reservation's: when it ends, however it ends, the reservation does.

use crate::protocol::Refusal;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use std::sync::mpsc::Sender;

/// The packet length that is assumed where none is said.
pub const USUAL_PACKET: u32 = 1000;

/// What is asked for. Rates and lengths are of IP datagrams.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Where to.
    pub to: IpAddr,
    /// The destination port; 0 where the protocol has none.
    #[serde(default)]
    pub port: u16,
    /// The transport protocol.
    pub protocol: u8,
    /// The source address; the one of the route if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
    /// The source port; 0: any.
    #[serde(default)]
    pub from_port: u16,
    /// What is sent, in bit/s.
    pub rate_bps: u64,
    /// What is sent at once, in bytes; 0: 10 ms of the rate, and two packets at least.
    #[serde(default)]
    pub burst_bytes: u64,
    /// The shortest packet: shorter ones count as this.
    #[serde(default = "usual_packet")]
    pub packet_bytes: u32,
    /// The delay that is wanted at most, in microseconds: guaranteed service, rather than controlled load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_us: Option<u64>,
}

fn usual_packet() -> u32 {
    USUAL_PACKET
}

/// How a reservation fares.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Progress {
    /// The path is being told.
    Asked {
        /// Its number on this node, for `reserve change`.
        number: u64,
    },
    /// Every node up to the receiver has promised it.
    Reserved {
        /// Its number.
        number: u64,
        /// What is promised, in bit/s of IP datagrams.
        rate_bps: u64,
        /// Whether a delay is.
        guaranteed: bool,
    },
    /// It was in force and is not any more; it comes back by itself if the path does.
    Lost {
        /// Its number.
        number: u64,
    },
    /// A node has refused it.
    Refused(Denial),
    /// What the path offers: the answer to a trial.
    Offer(Offer),
}

/// A refusal on the way.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Denial {
    /// The node that refused.
    pub node: IpAddr,
    /// RSVP's error code and value.
    pub code: u8,
    /// See `code`.
    pub value: u16,
    /// What they mean.
    pub reason: String,
    /// What was asked, in bit/s of IP datagrams.
    pub asked_bps: u64,
    /// What the narrowest link on the path had left just then, in bit/s of full IP datagrams, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_bps: Option<u64>,
}

/// What a path offers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Offer {
    /// Whether what is wanted would fit now.
    pub fits: bool,
    /// Why not, if not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Nodes that count what they promise.
    pub hops: u32,
    /// What the narrowest link has left, in bit/s of full IP datagrams; none if no link has a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_bps: Option<u64>,
    /// The longest datagram.
    pub mtu_bytes: u32,
    /// The rate that the wanted delay takes, in bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_for_delay_bps: Option<u64>,
    /// Whether some node on the way does not speak RSVP.
    pub gap: bool,
}

/// A flow, for people and programs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Flow {
    /// The sender.
    pub from: IpAddr,
    /// Its port; 0: any.
    pub from_port: u16,
    /// The receiver.
    pub to: IpAddr,
    /// Its port; 0: the protocol has none.
    pub port: u16,
    /// The transport protocol.
    pub protocol: u8,
}

impl std::fmt::Display for Flow {
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

/// All that a node knows of reservations.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// The interfaces on which it speaks.
    pub interfaces: Vec<Link>,
    /// Senders that it has heard of, with what is reserved for them.
    pub senders: Vec<SenderView>,
    /// The latest refusals here, the newest last.
    pub refusals: Vec<RefusalView>,
    /// Messages heard.
    pub heard: u64,
    /// Messages that are no RSVP.
    pub malformed: u64,
    /// Messages beyond the limit of an interface.
    pub overflow: u64,
    /// Messages that were not believed, by interface, neighbour and reason, the latest last.
    #[serde(default)]
    pub dropped: Vec<DroppedView>,
    /// What the names of messages save; none where they have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Names>,
}

/// Messages that were not believed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DroppedView {
    /// Where they came.
    pub interface: String,
    /// The neighbour that they claim to be from.
    pub from: IpAddr,
    /// Why, in a word for programs: `missing`, `unknown-key`, `wrong-key`, `replayed` and others.
    pub reason: String,
    /// What it means, and what to do.
    pub message: String,
    /// So many.
    pub count: u64,
    /// The last of them came so many seconds ago.
    pub seconds_ago: f64,
}

/// How the messages of an interface are protected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Keys {
    /// Those without a key are dropped.
    pub required: bool,
    /// The key that is sent with has ended, and there is no other.
    pub stale: bool,
}

/// What refresh reduction (RFC 2961) has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Names {
    /// Refreshes that went out as a name.
    pub summarised: u64,
    /// Messages that were sent again since nobody acknowledged them.
    pub repeated: u64,
    /// Messages that nobody acknowledged at all.
    pub given_up: u64,
    /// Names of neighbours that meant nothing here.
    pub unknown: u64,
}

/// An interface on which RSVP is spoken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Our addresses there.
    pub addresses: Vec<IpAddr>,
    /// What is reserved, in bit/s as the link counts; none where nothing is queued by this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_bps: Option<u64>,
    /// What may be reserved in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservable_bps: Option<u64>,
    /// How its messages are protected; none: whoever is on the link is believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Keys>,
    /// Why it does not work, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A sender and what is reserved for it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SenderView {
    /// Who, to whom.
    pub flow: Flow,
    /// What it says that it sends, in bit/s of IP datagrams.
    pub sends_bps: u64,
    /// The neighbour that it is heard by; none: it is on this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<IpAddr>,
    /// The number of the reservation that a program on this node holds, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// It is forgotten after so many seconds, unless it is refreshed; none: it is on this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten_in_s: Option<f64>,
    /// Whether this node is, or answers for, its receiver, and has reserved.
    pub answered: bool,
    /// What is promised here, interface by interface.
    pub promises: Vec<PromiseView>,
}

/// A promise on an interface.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PromiseView {
    /// The interface.
    pub interface: String,
    /// The class that keeps it; none where nothing is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// What is promised, in bit/s of IP datagrams.
    pub rate_bps: u64,
    /// What it takes of the interface, in bit/s as the link counts.
    pub counts_bps: u64,
    /// Whether a delay is promised.
    pub guaranteed: bool,
}

/// A refusal by this very node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RefusalView {
    /// For whom; one of them, where senders share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
    /// Where it lacked.
    pub interface: String,
    /// What it is about.
    pub reason: String,
    /// What was asked, in bit/s as the link counts.
    pub asked_bps: u64,
    /// What there was to give.
    pub left_bps: u64,
    /// Seconds ago.
    pub seconds_ago: f64,
}

/// Something that happened.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Notice {
    /// A word for programs: `path`, `path-ended`, `reserved`, `unreserved`, `refused`, `failed`, `confirmed`, `dropped`.
    pub what: String,
    /// Whom it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
    /// The whole of it, for people.
    pub message: String,
}

/// What lasts as long as this does.
pub type Held = Box<dyn Send>;

/// A node that can be asked for bandwidth. Called from several threads.
pub trait Reservations: Send + Sync {
    /// Asks for bandwidth, until what is returned is dropped. How it fares is told to the other end of the channel.
    fn reserve(&self, wanted: &Wanted, tell: Sender<Progress>) -> Result<Held, Refusal>;
    /// Asks what the path offers, without reserving. The answer is an [`Progress::Offer`] or a refusal.
    fn trial(&self, wanted: &Wanted, tell: Sender<Progress>) -> Result<Held, Refusal>;
    /// Changes the rate of the reservation of this number, in bit/s.
    fn change(&self, number: u64, rate_bps: u64) -> Result<String, Refusal>;
    /// All that is known.
    fn status(&self) -> Result<Status, Refusal>;
    /// Tells of everything that happens, until what is returned is dropped.
    fn watch(&self, tell: Sender<Notice>) -> Result<Held, Refusal>;
}
