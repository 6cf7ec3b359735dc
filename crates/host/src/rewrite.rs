//! The actuator as root: windows rewritten in what leaves by an interface ([`netio::bpf::windows`]), for this host's own
//! connections and, where the kernel routes or bridges, for those of the hosts behind it.
//!
//! Effective within a round trip, since the right edge of the window may move left; `polite` keeps it, for senders that take
//! this ill. Connections are known from their SYN on: one that began before is not held. Which member a
//! connection belongs to, a function of its ends says, as soon as it knows; connections of nobody are other traffic.
//!
//! A parked connection is not told a window of zero: a sender that was would probe ever less often, and the window's
//! opening, which only an acknowledgment can tell, would have to be sent by us in the host's name. It is told a quarter of a
//! segment: data then come every quarter of a second, and with their acknowledgment goes the opening.
//!
//! Round trips are measured by timestamps, the mean since the last reading; before the first, and where a side has no
//! timestamps, there is that of the handshake. Uploads are not held here. UDP and QUIC have no window: they are other traffic, and what limits them is a
//! class with the discipline `police`.

mod rewritten;
mod sockets;

pub(crate) use rewritten::Rewritten;

use crate::actuator::Actuator;
use crate::order::{Hold, Order};
use crate::reading::{Direction, FlowId, FlowReading, MemberId};
use engine::units::{Bytes, Duration, Instant};
use netio::bpf::Means;
use netio::bpf::windows::{Carried, Connection, Ends, Limit, Side, Windows};
use std::collections::BTreeMap;
use std::io;

/// How long windows stay held after the last orders. A supervisor that hangs holds nobody.
const HELD: Duration = Duration::from_secs(1);

/// Headers of Ethernet, IPv4 and TCP with timestamps, which a super-frame has once.
const HEADERS: u64 = 14 + 20 + 32;

/// Says whose a connection is; none for nobody's.
pub type Whose = Box<dyn FnMut(&Ends) -> Option<MemberId> + Send>;

/// What is kept of a connection.
#[derive(Clone, Copy, Debug)]
struct Known {
    id: FlowId,
    member: Option<MemberId>,
    round_trips: (Duration, u64),
    rtt: Option<Duration>,
}

/// Windows rewritten at one interface.
pub struct Rewrite {
    windows: Windows,
    whose: Whose,
    polite: bool,
    known: BTreeMap<Ends, Known>,
    next: u64,
    held: BTreeMap<FlowId, (Ends, u8, u64)>,
}

impl std::fmt::Debug for Rewrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rewrite")
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

impl Rewrite {
    /// At this interface, the one next to the bottleneck.
    pub fn at(interface: &str, side: Side, whose: Whose, polite: bool) -> io::Result<Self> {
        let windows = Windows::attach(interface, side, HELD, Means::Best)?;
        // From now on SYNs are noted.
        windows.beat(netio::clock::now());
        Ok(Self {
            windows,
            whose,
            polite,
            known: BTreeMap::new(),
            next: 0,
            held: BTreeMap::new(),
        })
    }

    /// The ends of a connection that was read last.
    pub(crate) fn ends(&self, flow: FlowId) -> Option<Ends> {
        self.held.get(&flow).map(|(ends, ..)| *ends)
    }

    /// Whether the connection between these ends is known, whosever it is.
    pub(crate) fn knows(&self, ends: &Ends) -> bool {
        self.known.contains_key(ends)
    }

    fn reading(&mut self, connection: &Connection, now: Instant) -> Option<FlowReading> {
        let ends = connection.ends;
        let (next, whose) = (&mut self.next, &mut self.whose);
        let known = self.known.entry(ends).or_insert_with(|| {
            *next += 1;
            Known {
                id: FlowId(*next),
                member: None,
                round_trips: (Duration::ZERO, 0),
                rtt: connection.handshake,
            }
        });
        let ((sum, number), (before, seen)) = (connection.round_trips, known.round_trips);
        if number > seen {
            known.rtt = Some(Duration::from_nanos((sum - before).nanos() / (number - seen)));
            known.round_trips = connection.round_trips;
        }
        known.member = known.member.or_else(|| whose(&ends));
        let (id, member, rtt) = (known.id, known.member?, known.rtt);
        self.held
            .insert(id, (ends, connection.scale, u64::from(connection.mss)));
        Some(FlowReading {
            id,
            member,
            at: now,
            received: frames(&connection.received),
            sent: frames(&connection.sent),
            rtt,
            mss: Bytes::new(u64::from(connection.mss)),
            scale: connection.scale,
            window: connection.window,
        })
    }
}

/// Bytes as frames of the link, with the headers that super-frames do not repeat.
fn frames(carried: &Carried) -> Bytes {
    carried.bytes + Bytes::new(HEADERS).times(carried.segments.saturating_sub(carried.frames))
}

impl Actuator for Rewrite {
    fn readings(&mut self, now: Instant) -> io::Result<Vec<FlowReading>> {
        let connections = self.windows.connections();
        self.windows.beat(netio::clock::now());
        self.held.clear();
        let (over, alive): (Vec<Connection>, Vec<Connection>) =
            connections.into_iter().partition(|c| c.closes);
        for connection in over {
            self.windows.forget(&connection.ends);
        }
        let readings = alive
            .iter()
            .filter_map(|connection| self.reading(connection, now))
            .collect();
        self.known
            .retain(|ends, _| alive.iter().any(|connection| connection.ends == *ends));
        Ok(readings)
    }

    fn apply(&mut self, orders: &[Order]) -> io::Result<()> {
        for order in orders
            .iter()
            .filter(|order| order.direction == Direction::Download)
        {
            let Some((ends, scale, mss)) = self.held.get(&order.flow) else {
                continue;
            };
            let window = match order.hold {
                Hold::Window(window) => window,
                Hold::Parked => Bytes::new(mss / 4),
                Hold::Free | Hold::Pace(_) => {
                    self.windows.free(ends);
                    continue;
                }
            };
            let limit = Limit {
                window,
                scale: *scale,
                polite: self.polite,
            };
            self.windows.limit(ends, limit)?;
        }
        self.windows.beat(netio::clock::now());
        Ok(())
    }

    fn release(&mut self) -> io::Result<()> {
        for ends in self.known.keys() {
            self.windows.free(ends);
        }
        self.windows.silence();
        Ok(())
    }
}
