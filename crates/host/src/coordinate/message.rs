//! What the nines of one user say to each other, one JSON text a line: a follower says who it is; the leader asks all
//! followers for readings at each tick, and gives them orders. Whoever asks for the status gets it.

use crate::actuator::{OutOfReach, Seen};
use crate::order::{Hold, Order};
use crate::reading::{Direction, FlowId, FlowReading, Member, MemberId};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A member: one command under nine, and what was asked for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Profile {
    /// The supervisor's process, which tells members apart.
    pub pid: u32,
    /// The command, for people.
    pub command: String,
    /// Its share relative to the others.
    pub weight: u32,
    /// More than this it never gets.
    pub cap_bps: Option<u64>,
    /// Less than this it is not asked to yield.
    pub floor_bps: Option<u64>,
    /// The paper's WINDOW, in bytes, and with it the paper's law.
    pub window: Option<u64>,
}

impl Profile {
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

/// A reading of a connection, with what people want to know of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Reading {
    pub(super) id: u64,
    pub(super) pid: i32,
    pub(super) ends: [SocketAddr; 2],
    /// The link's, where the first end's address does not tell.
    pub(super) interface: Option<String>,
    at_ns: u64,
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) rtt_ns: Option<u64>,
    shortest_ns: Option<u64>,
    mss: u64,
    scale: u8,
    pub(super) window: u64,
}

impl Reading {
    pub(super) fn new(reading: &FlowReading, seen: &Seen) -> Self {
        Self {
            id: reading.id.0,
            pid: seen.pid,
            ends: seen.ends,
            interface: seen.interface.clone(),
            at_ns: reading.at.nanos(),
            received: reading.received.get(),
            sent: reading.sent.get(),
            rtt_ns: reading.rtt.map(Duration::nanos),
            shortest_ns: reading.shortest.map(Duration::nanos),
            mss: reading.mss.get(),
            scale: reading.scale,
            window: reading.window.get(),
        }
    }

    pub(super) fn of(&self, member: MemberId) -> FlowReading {
        FlowReading {
            id: FlowId(self.id),
            member,
            at: Instant::from_nanos(self.at_ns),
            received: Bytes::new(self.received),
            sent: Bytes::new(self.sent),
            rtt: self.rtt_ns.map(Duration::from_nanos),
            shortest: self.shortest_ns.map(Duration::from_nanos),
            mss: Bytes::new(self.mss),
            scale: self.scale,
            window: Bytes::new(self.window),
        }
    }
}

/// All of a member's connections at one tick, and what it cannot hold.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Readings {
    pub(super) tick: u64,
    pub(super) flows: Vec<Reading>,
    pub(super) out_of_reach: Vec<NotControlled>,
}

/// How a connection is to be held, on its way to whoever borrows its socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Command {
    id: u64,
    upload: bool,
    hold: Held,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Held {
    Free,
    Window(u64),
    Parked,
    Pace(u64),
}

impl Command {
    pub(super) fn new(order: &Order) -> Self {
        Self {
            id: order.flow.0,
            upload: order.direction == Direction::Upload,
            hold: match order.hold {
                Hold::Free => Held::Free,
                Hold::Window(bytes) => Held::Window(bytes.get()),
                Hold::Parked => Held::Parked,
                Hold::Pace(rate) => Held::Pace(rate.bits()),
            },
        }
    }

    /// Why it is so, the leader knows.
    pub(super) fn order(&self) -> Order {
        Order {
            flow: FlowId(self.id),
            direction: if self.upload {
                Direction::Upload
            } else {
                Direction::Download
            },
            hold: match self.hold {
                Held::Free => Hold::Free,
                Held::Window(bytes) => Hold::Window(Bytes::new(bytes)),
                Held::Parked => Hold::Parked,
                Held::Pace(bits) => Hold::Pace(Bandwidth::bits_per_sec(bits)),
            },
            why: crate::order::Why::LinkIsFree,
        }
    }
}

/// To the leader.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum ToLeader {
    Join(Profile),
    Readings(Readings),
    Status,
}

/// From the leader.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) enum FromLeader {
    Read { tick: u64 },
    Hold(Vec<Command>),
    Status(Status),
}

/// Everything that the nines of a user do at one time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// The machine's monotonic clock.
    pub at_ns: u64,
    /// The interfaces that their connections use.
    pub interfaces: Vec<InterfaceStatus>,
    /// The members.
    pub members: Vec<MemberStatus>,
}

/// An interface, and what it carries, members' and all other traffic.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct InterfaceStatus {
    /// Its name.
    pub name: String,
    /// What bottlenet says of it.
    pub bottlenet: crate::bottlenet::Word,
    /// The rate that the law goes by for what comes in: what the link was seen to carry, or what was stated; none while it
    /// goes by round trips alone.
    pub link_down_bps: Option<u64>,
    /// The same for what goes out.
    pub link_up_bps: Option<u64>,
    /// What comes in, in bits per second of frames.
    pub down_bps: u64,
    /// What goes out.
    pub up_bps: u64,
}

/// A member and its connections.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MemberStatus {
    /// What it asked for.
    #[serde(flatten)]
    pub profile: Profile,
    /// Its connections.
    pub connections: Vec<ConnectionStatus>,
    /// What it has and nine cannot hold.
    pub not_controlled: Vec<NotControlled>,
}

/// A connection, and how and why it is held.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// The process that has it.
    pub pid: i32,
    /// The program's name.
    pub program: String,
    /// Its interface; none inside this host.
    pub interface: Option<String>,
    /// This host's end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The window that it advertises.
    pub window_bytes: u64,
    /// The round trip, as the kernel has it.
    pub rtt_ms: Option<f64>,
    /// What it receives, in bits per second of frames.
    pub down_bps: u64,
    /// What it sends.
    pub up_bps: u64,
    /// How it is held: "free", "window 5792 B", "parked", "pace 1 Mbit/s".
    pub held: String,
    /// Why, in words.
    pub why: String,
}

/// Something that nine cannot hold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NotControlled {
    /// The process.
    pub pid: i32,
    /// What it is.
    pub what: String,
    /// Why, and what can be done.
    pub why: String,
    /// The rate that it is held to nevertheless, in bits per second, if it is: what is beyond is lost.
    pub policed_bps: Option<u64>,
}

impl From<OutOfReach> for NotControlled {
    fn from(from: OutOfReach) -> Self {
        Self {
            pid: from.pid,
            what: from.what,
            why: from.why,
            policed_bps: from.policed.map(Bandwidth::bits),
        }
    }
}
