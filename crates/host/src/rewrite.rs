//! The actuator as root: windows rewritten on their way, at an interface ([`netio::bpf::windows`], for this host's own
//! connections and for those of the hosts behind it) or in a packet loop that they pass through anyhow ([`netio::holding`]).
//!
//! Effective within a round trip, since the right edge of the window may move left. Connections are known from their SYN on: one that began before is not held. Which member a
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

pub(crate) use rewritten::Rewritten;

use crate::actuator::Actuator;
use crate::order::{Hold, Order};
use crate::reading::{Direction, FlowId, FlowReading, MemberId};
use engine::units::{Bytes, Duration, Instant};
use netio::bpf::Means;
use netio::bpf::windows::{Side, Windows};
use netio::tcp::{Carried, Connection, Ends, Limit};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// How long windows stay held after the last orders. A supervisor that hangs holds nobody.
const HELD: Duration = Duration::from_secs(1);

/// Headers of Ethernet, IPv4 and TCP with timestamps, which a super-frame has once.
const HEADERS: u64 = 14 + 20 + 32;

/// Numbers of connections, which nines of one user tell each other, begin here and with the process: those of borrowed sockets are the
/// kernel's cookies, counted from one.
const NOT_COOKIES: u64 = 1 << 63;

/// Says whose a connection is; none for nobody's.
pub type Whose = Box<dyn FnMut(&Ends) -> Option<MemberId> + Send>;

/// A connection, and whose it is, if a member's.
pub type Found = (Connection, Option<MemberId>);

/// Where windows are rewritten.
pub trait Place {
    /// The connections there that are not over, each with its member, if it has one; and when they were like that.
    fn connections(&mut self) -> io::Result<(Vec<Found>, Instant)>;

    /// Limits the windows of these from now on, or no more; everything else stays as it was. Holds for a second without
    /// another word.
    fn put(&mut self, limits: Vec<(Ends, Option<Limit>)>) -> io::Result<()>;
}

/// The place that is an interface of this host.
pub struct AtInterface {
    windows: Windows,
    whose: Whose,
}

impl std::fmt::Debug for AtInterface {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AtInterface").finish_non_exhaustive()
    }
}

impl AtInterface {
    /// The one next to the bottleneck, or the one behind which the hosts are.
    pub fn new(interface: &str, side: Side, whose: Whose) -> io::Result<Self> {
        let windows = Windows::attach(interface, side, HELD, Means::Best)?;
        // From now on SYNs are noted.
        windows.beat(netio::clock::now());
        Ok(Self { windows, whose })
    }
}

impl Place for AtInterface {
    fn connections(&mut self) -> io::Result<(Vec<Found>, Instant)> {
        self.windows.beat(netio::clock::now());
        let (all, at) = netio::clock::timed(|| self.windows.connections());
        let (over, alive): (Vec<Connection>, Vec<Connection>) = all.into_iter().partition(|c| c.closes);
        over.iter()
            .for_each(|connection| self.windows.forget(&connection.ends));
        let of = |connection: Connection| (connection, (self.whose)(&connection.ends));
        Ok((alive.into_iter().map(of).collect(), at))
    }

    fn put(&mut self, limits: Vec<(Ends, Option<Limit>)>) -> io::Result<()> {
        for (ends, limit) in limits {
            match limit {
                Some(limit) => self.windows.limit(&ends, limit)?,
                None => self.windows.free(&ends),
            }
        }
        self.windows.beat(netio::clock::now());
        Ok(())
    }
}

/// What is kept of a connection.
#[derive(Clone, Copy, Debug)]
struct Known {
    id: FlowId,
    round_trips: (Duration, u64),
    rtt: Option<Duration>,
}

/// Windows rewritten at one place.
#[derive(Debug)]
pub struct Rewrite<P> {
    place: P,
    known: BTreeMap<Ends, Known>,
    next: u64,
    held: BTreeMap<FlowId, (Ends, u8, u64)>,
}

impl<P: Place> Rewrite<P> {
    /// At this place.
    pub fn at(place: P) -> Self {
        Self {
            place,
            known: BTreeMap::new(),
            next: NOT_COOKIES | u64::from(std::process::id()) << 32,
            held: BTreeMap::new(),
        }
    }

    /// The place.
    pub fn place(&self) -> &P {
        &self.place
    }

    /// The ends of a connection that was read last.
    pub(crate) fn ends(&self, flow: FlowId) -> Option<Ends> {
        self.held.get(&flow).map(|(ends, ..)| *ends)
    }

    /// Whether the connection between these ends is known, whosever it is.
    pub(crate) fn knows(&self, ends: &Ends) -> bool {
        self.known.contains_key(ends)
    }

    fn reading(
        &mut self,
        connection: &Connection,
        member: Option<MemberId>,
        now: Instant,
    ) -> Option<FlowReading> {
        let ends = connection.ends;
        let next = &mut self.next;
        let known = self.known.entry(ends).or_insert_with(|| {
            *next += 1;
            Known {
                id: FlowId(*next),
                round_trips: (Duration::ZERO, 0),
                rtt: connection.handshake,
            }
        });
        let ((sum, number), (before, seen)) = (connection.round_trips, known.round_trips);
        if number > seen {
            known.rtt = Some(Duration::from_nanos((sum - before).nanos() / (number - seen)));
            known.round_trips = connection.round_trips;
        }
        let (id, rtt) = (known.id, known.rtt);
        let member = member?;
        self.held
            .insert(id, (ends, connection.scale, u64::from(connection.mss)));
        Some(FlowReading {
            id,
            member,
            at: now,
            received: frames(&connection.received),
            sent: frames(&connection.sent),
            rtt,
            shortest: connection.handshake,
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

impl<P: Place> Actuator for Rewrite<P> {
    fn readings(&mut self, _now: Instant) -> io::Result<Vec<FlowReading>> {
        let (connections, read) = self.place.connections()?;
        self.held.clear();
        let alive: BTreeSet<Ends> = connections
            .iter()
            .map(|(connection, _)| connection.ends)
            .collect();
        self.known.retain(|ends, _| alive.contains(ends));
        Ok(connections
            .iter()
            .filter_map(|(connection, member)| self.reading(connection, *member, read))
            .collect())
    }

    fn apply(&mut self, orders: &[Order]) -> io::Result<()> {
        let limit = |order: &Order| {
            let (ends, scale, mss) = *self.held.get(&order.flow)?;
            let window = match order.hold {
                Hold::Window(window) => window,
                Hold::Parked => Bytes::new(mss / 4),
                Hold::Free | Hold::Pace(_) => return Some((ends, None)),
            };
            let limit = Limit {
                window,
                scale,
                polite: false,
            };
            Some((ends, Some(limit)))
        };
        let downloads = orders
            .iter()
            .filter(|order| order.direction == Direction::Download);
        let limits = downloads.filter_map(limit).collect();
        self.place.put(limits)
    }

    fn release(&mut self) -> io::Result<()> {
        let all = self.known.keys().map(|ends| (*ends, None)).collect();
        self.place.put(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Why;

    /// A place with these connections, which notes what it is told.
    struct Noted(Vec<Found>, Vec<(Ends, Option<u64>)>);

    impl Place for Noted {
        fn connections(&mut self) -> io::Result<(Vec<Found>, Instant)> {
            Ok((self.0.clone(), Instant::START))
        }

        fn put(&mut self, limits: Vec<(Ends, Option<Limit>)>) -> io::Result<()> {
            let bytes = |limit: Limit| limit.window.get();
            self.1 = limits
                .into_iter()
                .map(|(ends, limit)| (ends, limit.map(bytes)))
                .collect();
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
    fn members_connections_are_read_and_told_what_is_ordered() {
        let member = Some(MemberId(7));
        let all = vec![
            (connection(1), member),
            (connection(2), None),
            (connection(3), member),
        ];
        let mut rewrite = Rewrite::at(Noted(all, Vec::new()));
        let readings = rewrite.readings(Instant::START).expect("read");
        assert_eq!(readings.len(), 2, "nobody's is other traffic");
        assert_eq!(
            readings[0].rtt,
            Some(Duration::from_millis(30)),
            "the mean of those measured"
        );
        assert_eq!(readings[0].received, Bytes::new(4_410 + 2 * HEADERS));
        assert!(readings[0].id != readings[1].id && readings[0].id.0 > NOT_COOKIES);
        let order = |place: usize, direction, hold| Order {
            flow: readings[place].id,
            direction,
            hold,
            why: Why::LinkIsFull,
        };
        let orders = [
            order(0, Direction::Download, Hold::Window(Bytes::new(6_016))),
            order(0, Direction::Upload, Hold::Free),
            order(1, Direction::Download, Hold::Parked),
        ];
        rewrite.apply(&orders).expect("put");
        let told: Vec<_> = rewrite
            .place()
            .1
            .iter()
            .map(|(ends, bytes)| (ends.here.port(), *bytes))
            .collect();
        assert_eq!(
            told,
            [(1, Some(6_016)), (3, Some(362))],
            "and uploads are not held"
        );
        rewrite.release().expect("put");
        assert!(rewrite.place().1.len() == 3 && rewrite.place().1.iter().all(|(_, limit)| limit.is_none()));
    }
}
