//! The messages between the nines of one user, as JSON lines.
//!
//! A follower joins with its profile. At each tick the leader asks all followers for samples and
//! then sends them their orders. Anybody may ask for the status.
//!
//! The serialised names are a protocol between nines that run at the same time, perhaps of
//! different versions. So some of them differ from the names here.

use crate::member_actuator::{ConnectionInfo, Uncontrolled};
use crate::order::{FlowLimit, LimitOrder, LimitReason};
use crate::tick::{ConnectionId, DataDirection, FlowSample, Member, MemberId};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A member: one command under nine, and its settings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemberProfile {
    /// The supervisor's process, which identifies the member.
    pub pid: u32,
    /// The command, human-readable.
    pub command: String,
    /// Its weight relative to the other members.
    pub weight: u32,
    /// Its cap in each direction.
    pub cap_bps: Option<u64>,
    /// Its floor: it is not asked to yield below this.
    pub floor_bps: Option<u64>,
    /// The paper's WINDOW in bytes, which selects the paper's law.
    pub window: Option<u64>,
    /// Its processes are chosen among all: a connection of a command under nine of its own is that
    /// command's.
    #[serde(default)]
    pub chosen: bool,
}

impl MemberProfile {
    pub(crate) fn member(&self) -> Member {
        Member {
            weight: self.weight,
            cap: self.cap_bps.map(Bandwidth::bits_per_sec),
            floor: self.floor_bps.map(Bandwidth::bits_per_sec),
            window: self.window.map(Bytes::new),
            ..Member::new(MemberId(self.pid))
        }
    }
}

/// A sample of a connection, with what the status shows of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct FlowReport {
    pub(super) id: u64,
    pub(super) pid: i32,
    pub(super) ends: [SocketAddr; 2],
    /// The link's interface, where the local address does not determine it.
    pub(super) interface: Option<String>,
    at_ns: u64,
    pub(super) received: u64,
    pub(super) sent: u64,
    /// A nine of before did not tell it.
    #[serde(default)]
    unacknowledged: u64,
    pub(super) rtt_ns: Option<u64>,
    #[serde(rename = "shortest_ns")]
    min_rtt_ns: Option<u64>,
    mss: u64,
    scale: u8,
    pub(super) window: u64,
    /// A nine of before did not tell it.
    #[serde(default)]
    losses: u64,
}

impl FlowReport {
    pub(super) fn new(sample: &FlowSample, info: &ConnectionInfo) -> Self {
        Self {
            id: sample.id.0,
            pid: info.pid,
            ends: info.ends,
            interface: info.interface.clone(),
            at_ns: sample.at.nanos(),
            received: sample.received.get(),
            sent: sample.sent.get(),
            unacknowledged: sample.unacknowledged.get(),
            rtt_ns: sample.rtt.map(Duration::nanos),
            min_rtt_ns: sample.min_rtt.map(Duration::nanos),
            mss: sample.mss.get(),
            scale: sample.scale,
            window: sample.window.get(),
            losses: sample.losses,
        }
    }

    pub(super) fn of(&self, member: MemberId) -> FlowSample {
        FlowSample {
            id: ConnectionId(self.id),
            member,
            at: Instant::from_nanos(self.at_ns),
            received: Bytes::new(self.received),
            sent: Bytes::new(self.sent),
            unacknowledged: Bytes::new(self.unacknowledged),
            rtt: self.rtt_ns.map(Duration::from_nanos),
            min_rtt: self.min_rtt_ns.map(Duration::from_nanos),
            mss: Bytes::new(self.mss),
            scale: self.scale,
            window: Bytes::new(self.window),
            losses: self.losses,
        }
    }
}

/// All connections of a member at one tick, and what it cannot control.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct MemberReport {
    pub(super) tick: u64,
    pub(super) flows: Vec<FlowReport>,
    #[serde(rename = "out_of_reach")]
    pub(super) uncontrolled: Vec<UncontrolledStatus>,
}

/// An order on its way to the nine that borrows the connection's socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct WireOrder {
    id: u64,
    upload: bool,
    #[serde(rename = "hold")]
    limit: WireLimit,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum WireLimit {
    Free,
    Window(u64),
    Parked,
    Pace(u64),
}

impl WireOrder {
    pub(super) fn new(order: &LimitOrder) -> Self {
        Self {
            id: order.flow.0,
            upload: order.direction == DataDirection::Upload,
            limit: match order.limit {
                FlowLimit::Free => WireLimit::Free,
                FlowLimit::Window(bytes) => WireLimit::Window(bytes.get()),
                FlowLimit::Parked => WireLimit::Parked,
                FlowLimit::Pace(rate) => WireLimit::Pace(rate.bits()),
            },
        }
    }

    /// The order, without its reason: that stays with the leader.
    pub(super) fn order(&self) -> LimitOrder {
        LimitOrder {
            flow: ConnectionId(self.id),
            direction: if self.upload {
                DataDirection::Upload
            } else {
                DataDirection::Download
            },
            limit: match self.limit {
                WireLimit::Free => FlowLimit::Free,
                WireLimit::Window(bytes) => FlowLimit::Window(Bytes::new(bytes)),
                WireLimit::Parked => FlowLimit::Parked,
                WireLimit::Pace(bits) => FlowLimit::Pace(Bandwidth::bits_per_sec(bits)),
            },
            reason: LimitReason::LinkIsFree,
        }
    }
}

/// To the leader.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum ToLeader {
    Join(MemberProfile),
    #[serde(rename = "Readings")]
    Report(MemberReport),
    Status,
}

/// From the leader.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) enum FromLeader {
    #[serde(rename = "Read")]
    Sample {
        tick: u64,
    },
    #[serde(rename = "Hold")]
    Apply(Vec<WireOrder>),
    Status(NineStatus),
}

/// The state of all nines of a user at one time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct NineStatus {
    /// When, by the machine's monotonic clock.
    pub at_ns: u64,
    /// The interfaces that their connections use.
    pub interfaces: Vec<InterfaceStatus>,
    /// The members.
    pub members: Vec<MemberStatus>,
}

/// An interface and its load, members' and other traffic together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct InterfaceStatus {
    /// Its name.
    pub name: String,
    /// Its bottlenet setting.
    pub bottlenet: crate::bottlenet::BottlenetSetting,
    /// The downlink rate that the law works with: estimated or stated. None while the law works by
    /// queueing delay alone.
    pub link_down_bps: Option<u64>,
    /// The uplink rate that the law works with.
    pub link_up_bps: Option<u64>,
    /// The received rate, in bits per second of frames.
    pub down_bps: u64,
    /// The sent rate.
    pub up_bps: u64,
}

/// A member and its connections.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its settings.
    #[serde(flatten)]
    pub profile: MemberProfile,
    /// Its connections.
    pub connections: Vec<ConnectionStatus>,
    /// What its programs have carried so far, by name, ended ones too.
    #[serde(default)]
    pub programs: Vec<ProgramTotals>,
    /// Its sockets and processes that nine cannot control.
    pub not_controlled: Vec<UncontrolledStatus>,
}

/// What the connections of a program have carried, as frames of the link, since this leader saw
/// them first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProgramTotals {
    /// The program's name.
    pub program: String,
    /// How many connections there were.
    pub connections: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

/// A connection, its limit, and the reason for it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// The process that owns it.
    pub pid: i32,
    /// The program's name.
    pub program: String,
    /// Its interface; none for a connection inside this host.
    pub interface: Option<String>,
    /// The local end.
    pub local: SocketAddr,
    /// The remote end.
    pub remote: SocketAddr,
    /// The advertised window.
    pub window_bytes: u64,
    /// The RTT, as the kernel measures it.
    pub rtt_ms: Option<f64>,
    /// The received rate, in bits per second of frames.
    pub down_bps: u64,
    /// The sent rate.
    pub up_bps: u64,
    /// Its limit: "free", "window 5792 B", "parked", "pace 1 Mbit/s".
    pub limit: String,
    /// The reason, human-readable.
    pub why: String,
}

/// A socket or process that nine cannot control.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UncontrolledStatus {
    /// The process.
    pub pid: i32,
    /// The protocol and remote end, or the program.
    pub what: String,
    /// Why, and what to do about it.
    pub why: String,
    /// The rate at which it is policed, in bits per second, if it is: the excess is dropped.
    pub policed_bps: Option<u64>,
}

impl From<Uncontrolled> for UncontrolledStatus {
    fn from(from: Uncontrolled) -> Self {
        Self {
            pid: from.pid,
            what: from.what,
            why: from.why,
            policed_bps: from.policed.map(Bandwidth::bits),
        }
    }
}
