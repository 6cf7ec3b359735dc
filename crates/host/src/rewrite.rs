//! The actuator as root: it lowers the windows in ACKs on their way.
//!
//! The rewriting is done at an interface ([`netio::bpf::windows`], for this host's connections and
//! for those of hosts behind it) or in a packet loop ([`netio::window_clamp`]). It takes effect
//! within a round trip, since the right edge of the window may move left.
//!
//! - A connection is tracked from its SYN on; one that began earlier is not clamped.
//! - A function of its two ends ([`MemberOf`]) assigns it to a member. A connection of no member
//!   is other traffic.
//! - A parked connection is told a quarter of a segment, not zero. A sender with a zero window
//!   backs off its persist timer, and only an ACK that we would have to forge could reopen the
//!   window. With a quarter of a segment, data arrive every quarter of a second, and their ACKs
//!   carry the larger window.
//! - The RTT is the mean of the timestamp echoes since the last sample. Before the first echo, and
//!   where a side has no timestamps, it is the handshake's.
//! - Uploads are not paced here. UDP and QUIC have no window: they are other traffic, and a class
//!   with the discipline `police` limits them.

cfg_if::cfg_if! {
    if #[cfg(target_os = "linux")] {
        mod interface;
        mod member;

        pub use interface::{InterfaceRewriter, MemberOf};
        pub(crate) use member::RewrittenMember;
    }
}

use crate::actuator::Actuator;
use crate::order::{FlowLimit, LimitOrder};
use crate::tick::{ConnectionId, DataDirection, FlowSample, MemberId};
use engine::units::{Bytes, Duration, Instant};
use netio::tcp::{Carried, Connection, Ends, Limit};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Ethernet, IPv4 and TCP headers with timestamps, which a super-frame carries once.
const HEADERS: u64 = 14 + 20 + 32;

/// Connection numbers start here; those of borrowed sockets are the kernel's cookies, counted from
/// one.
const NOT_COOKIES: u64 = 1 << 63;

/// A connection and its member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberConnection {
    /// The connection.
    pub connection: Connection,
    /// Its member; none for other traffic.
    pub member: Option<MemberId>,
}

/// The limit of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionLimit {
    /// The connection's ends.
    pub ends: Ends,
    /// Its limit; none lifts it.
    pub limit: Option<Limit>,
}

/// All connections at a rewrite point.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConnectionList {
    /// When they were read.
    pub at: Instant,
    /// Those that are open.
    pub connections: Vec<MemberConnection>,
}

/// Where windows are rewritten.
pub trait RewritePoint {
    /// The open connections.
    ///
    /// # Errors
    ///
    /// If the kernel or the packet loop does not report them.
    fn connections(&mut self) -> io::Result<ConnectionList>;

    /// Sets the limits of these connections; all others keep theirs. Limits expire after a second
    /// without another call.
    ///
    /// # Errors
    ///
    /// If the kernel or the packet loop does not take them.
    fn set_limits(&mut self, limits: Vec<ConnectionLimit>) -> io::Result<()>;

    /// Its connections are numbered from here. Several points of one law differ in it.
    fn first_number(&self) -> u64 {
        NOT_COOKIES
    }
}

/// What is kept of a connection from one sample to the next.
#[derive(Clone, Copy, Debug)]
struct ConnectionHistory {
    id: ConnectionId,
    /// The sum and number of round trips up to the last sample.
    round_trips: (Duration, u64),
    rtt: Option<Duration>,
}

/// What a limit needs to know of a connection.
#[derive(Clone, Copy, Debug)]
struct Limitable {
    ends: Ends,
    scale: u8,
    mss: u64,
}

/// The actuator at one rewrite point.
#[derive(Debug)]
pub struct WindowRewriter<P> {
    point: P,
    history: BTreeMap<Ends, ConnectionHistory>,
    next: u64,
    limitable: BTreeMap<ConnectionId, Limitable>,
}

impl<P: RewritePoint> WindowRewriter<P> {
    /// At this rewrite point.
    pub fn at(point: P) -> Self {
        Self {
            next: point.first_number(),
            point,
            history: BTreeMap::new(),
            limitable: BTreeMap::new(),
        }
    }

    /// The rewrite point.
    pub fn point(&self) -> &P {
        &self.point
    }

    /// Samples of the connections at the point, as they were when it listed them.
    ///
    /// # Errors
    ///
    /// If it does not list them.
    pub fn listed(&mut self) -> io::Result<Vec<FlowSample>> {
        let list = self.point.connections()?;
        self.limitable.clear();
        let open: BTreeSet<Ends> = list.connections.iter().map(|one| one.connection.ends).collect();
        self.history.retain(|ends, _| open.contains(ends));
        Ok(list
            .connections
            .iter()
            .filter_map(|one| self.sample(one, list.at))
            .collect())
    }

    fn sample(&mut self, one: &MemberConnection, at: Instant) -> Option<FlowSample> {
        let connection = &one.connection;
        let ends = connection.ends;
        let next = &mut self.next;
        let history = self.history.entry(ends).or_insert_with(|| {
            *next += 1;
            ConnectionHistory {
                id: ConnectionId(*next),
                round_trips: (Duration::ZERO, 0),
                rtt: connection.handshake,
            }
        });
        let ((sum, number), (old_sum, old_number)) = (connection.round_trips, history.round_trips);
        if number > old_number {
            history.rtt = Some(Duration::from_nanos(
                (sum - old_sum).nanos() / (number - old_number),
            ));
            history.round_trips = connection.round_trips;
        }
        let (id, rtt) = (history.id, history.rtt);
        let member = one.member?;
        let mss = u64::from(connection.mss);
        let scale = connection.scale;
        self.limitable.insert(id, Limitable { ends, scale, mss });
        Some(FlowSample {
            id,
            member,
            at,
            received: frames(&connection.received),
            sent: frames(&connection.sent),
            unacknowledged: Bytes::ZERO,
            rtt,
            min_rtt: connection.handshake,
            mss: Bytes::new(mss),
            scale,
            window: connection.window,
            // Its packets are not put in order here.
            losses: 0,
        })
    }
}

/// Bytes as frames of the link, with the headers that super-frames do not repeat.
fn frames(carried: &Carried) -> Bytes {
    carried.bytes + Bytes::new(HEADERS).times(carried.segments.saturating_sub(carried.frames))
}

impl<P: RewritePoint> Actuator for WindowRewriter<P> {
    fn samples(&mut self, _now: Instant) -> io::Result<Vec<FlowSample>> {
        self.listed()
    }

    fn apply(&mut self, orders: &[LimitOrder]) -> io::Result<()> {
        let limit = |order: &LimitOrder| {
            let Limitable { ends, scale, mss } = *self.limitable.get(&order.flow)?;
            let window = match order.limit {
                FlowLimit::Window(window) => Some(window),
                FlowLimit::Parked => Some(Bytes::new(mss / 4)),
                FlowLimit::Free | FlowLimit::Pace(_) => None,
            };
            let limit = window.map(|window| Limit {
                window,
                scale,
                polite: false,
            });
            Some(ConnectionLimit { ends, limit })
        };
        let downloads = orders
            .iter()
            .filter(|order| order.direction == DataDirection::Download);
        let limits = downloads.filter_map(limit).collect();
        self.point.set_limits(limits)
    }

    fn release(&mut self) -> io::Result<()> {
        let lifted = |ends: &Ends| ConnectionLimit {
            ends: *ends,
            limit: None,
        };
        self.point.set_limits(self.history.keys().map(lifted).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::LimitReason;

    /// A rewrite point with these connections that records the limits it is given.
    struct Recorder {
        connections: Vec<MemberConnection>,
        limits: Vec<ConnectionLimit>,
    }

    impl RewritePoint for Recorder {
        fn connections(&mut self) -> io::Result<ConnectionList> {
            Ok(ConnectionList {
                at: Instant::START,
                connections: self.connections.clone(),
            })
        }

        fn set_limits(&mut self, limits: Vec<ConnectionLimit>) -> io::Result<()> {
            self.limits = limits;
            Ok(())
        }
    }

    fn connection(port: u16) -> Connection {
        Connection {
            ends: Ends {
                here: ([10, 0, 0, 1], port).into(),
                there: ([192, 0, 2, 1], 443).into(),
            },
            sent: Carried::default(),
            received: Carried {
                bytes: Bytes::new(4_410),
                frames: 1,
                segments: 3,
            },
            scale: 7,
            mss: 1448,
            window: Bytes::new(64_000),
            handshake: Some(Duration::from_millis(20)),
            round_trips: (Duration::from_millis(90), 3),
            closes: false,
        }
    }

    #[test]
    fn connections_of_members_are_sampled_and_limited_as_ordered() {
        let member = Some(MemberId(7));
        let all = [(1, member), (2, None), (3, member)].map(|(port, member)| MemberConnection {
            connection: connection(port),
            member,
        });
        let mut rewrite = WindowRewriter::at(Recorder {
            connections: all.to_vec(),
            limits: Vec::new(),
        });
        let samples = rewrite.samples(Instant::START).expect("read");
        assert_eq!(samples.len(), 2, "no member's is other traffic");
        assert_eq!(
            samples[0].rtt,
            Some(Duration::from_millis(30)),
            "the mean of those measured"
        );
        assert_eq!(samples[0].received, Bytes::new(4_410 + 2 * HEADERS));
        assert!(samples[0].id != samples[1].id && samples[0].id.0 > NOT_COOKIES);
        let order = |index: usize, direction, limit| LimitOrder {
            flow: samples[index].id,
            direction,
            limit,
            reason: LimitReason::LinkIsFull,
        };
        let orders = [
            order(0, DataDirection::Download, FlowLimit::Window(Bytes::new(6_016))),
            order(0, DataDirection::Upload, FlowLimit::Free),
            order(1, DataDirection::Download, FlowLimit::Parked),
        ];
        rewrite.apply(&orders).expect("set");
        let bytes = |one: &ConnectionLimit| one.limit.map(|limit| limit.window.get());
        let set: Vec<_> = rewrite
            .point()
            .limits
            .iter()
            .map(|one| (one.ends.here.port(), bytes(one)))
            .collect();
        assert_eq!(set, [(1, Some(6_016)), (3, Some(362))], "uploads are not limited");
        rewrite.release().expect("set");
        let limits = &rewrite.point().limits;
        assert!(limits.len() == 3 && limits.iter().all(|one| one.limit.is_none()));
    }
}
