//! The input of a control law at each tick: the link's counters, the members and a sample of each
//! of their connections.
//!
//! Counters are running totals, so a tick may be late or missed. The link's counters and those of
//! connections must be on the same basis, frames of the link's interface: a law takes the
//! difference for other traffic, so a gap in a connection's count looks like other traffic. That
//! is why a connection's arrivals are counted by segments, lost and out-of-order ones included,
//! and not by bytes in order: see [`on_the_link`].

use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// A connection, by a number that its actuator never reuses (a socket's cookie, for instance).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ConnectionId(pub u64);

/// A member: a command under nine, or a gateway's class. Its connections share one weight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct MemberId(pub u32);

/// One of a connection's two directions, seen from the host next to the bottleneck.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DataDirection {
    /// Data that the host receives, limited by its advertised windows.
    #[default]
    Download,
    /// Data that the host sends, limited by pacing.
    Upload,
}

impl DataDirection {
    /// The opposite one.
    pub const fn other(self) -> Self {
        match self {
            Self::Download => Self::Upload,
            Self::Upload => Self::Download,
        }
    }
}

/// A member's settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// The member.
    pub id: MemberId,
    /// Its share of what is left to members, relative to their weights; zero counts as one.
    pub weight: u32,
    /// Its rate at most, in each direction, also while the link is free.
    pub cap: Option<Bandwidth>,
    /// The rate below which it is not asked to yield.
    pub floor: Option<Bandwidth>,
    /// The paper's WINDOW, used by the paper's law alone.
    pub window: Option<Bytes>,
}

impl Member {
    /// Weight 1, neither cap nor floor.
    pub const fn new(id: MemberId) -> Self {
        Self {
            id,
            weight: 1,
            cap: None,
            floor: None,
            window: None,
        }
    }
}

/// A member's connection at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowSample {
    /// The connection.
    pub id: ConnectionId,
    /// Its member.
    pub member: MemberId,
    /// When the sample was taken. The samples of one tick may differ: a rate is computed over the
    /// time between a connection's own samples.
    pub at: Instant,
    /// The total received, as frames of the link ([`on_the_link`]).
    pub received: Bytes,
    /// The total sent, likewise.
    pub sent: Bytes,
    /// What of that was not acknowledged: it is on its way, or was lost. Zero where that is not
    /// known.
    pub unacknowledged: Bytes,
    /// The latest RTT: the receiver's estimate, or the sender's smoothed RTT. None before the
    /// first measurement.
    pub rtt: Option<Duration>,
    /// The kernel's minimum RTT, the handshake's included: of connections that begin together, the
    /// data never see the link without a queue.
    pub min_rtt: Option<Duration>,
    /// The largest segment payload seen in the direction of the data.
    pub mss: Bytes,
    /// The window scale of this host (RFC 7323): its windows are multiples of 2^scale.
    pub scale: u8,
    /// The advertised window.
    pub window: Bytes,
    /// Grows where its data were lost on the way: the total of segments that arrived beyond a hole,
    /// or, of a sender, that were sent again.
    pub losses: u64,
}

impl FlowSample {
    /// Of a connection that has carried nothing yet, with the segments and the scale that are usual
    /// over Ethernet.
    pub const fn new(id: ConnectionId, member: MemberId, at: Instant) -> Self {
        Self {
            id,
            member,
            at,
            received: Bytes::ZERO,
            sent: Bytes::ZERO,
            unacknowledged: Bytes::ZERO,
            rtt: None,
            min_rtt: None,
            mss: Bytes::new(1_448),
            scale: 7,
            window: Bytes::ZERO,
            losses: 0,
        }
    }

    /// The total in this direction.
    pub fn carried(&self, direction: DataDirection) -> Bytes {
        match direction {
            DataDirection::Download => self.received,
            DataDirection::Upload => self.sent,
        }
    }

    /// What of that is known to have passed the bottleneck: an upload passes the interface before
    /// it.
    pub fn delivered(&self, direction: DataDirection) -> Bytes {
        match direction {
            DataDirection::Download => self.received,
            DataDirection::Upload => self.sent - self.unacknowledged,
        }
    }
}

/// The counters of the interface next to the bottleneck.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkCounters {
    /// Bytes of frames received.
    pub received: Bytes,
    /// Bytes of frames sent.
    pub sent: Bytes,
}

impl LinkCounters {
    /// The total in this direction.
    pub fn carried(&self, direction: DataDirection) -> Bytes {
        match direction {
            DataDirection::Download => self.received,
            DataDirection::Upload => self.sent,
        }
    }
}

/// The link's rate in the direction of a law, as configured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Bottleneck {
    /// `bottlenet RATE`, counted as the interface counts frames: a hint, which what is measured
    /// overrules.
    Stated(Bandwidth),
    /// What a shaper of ours enforces at this very link. Nothing that is measured overrules it:
    /// what is offered to a queue may exceed the rate for a while, before packets are dropped.
    Enforced(Bandwidth),
    /// `bottlenet auto`: estimated from what the link carried while RTTs grew.
    #[default]
    Auto,
    /// `bottlenet off`: not estimated; the law works by queueing delay alone.
    Unknown,
}

/// All input of a law at one time.
#[derive(Clone, Copy, Debug)]
pub struct LawInput<'a> {
    /// When the link's counters were read; never goes back. Ticks are expected every
    /// [`INTERVAL`](crate::law::INTERVAL).
    pub now: Instant,
    /// The interface's counters.
    pub link: LinkCounters,
    /// Its rate, as configured.
    pub bottleneck: Bottleneck,
    /// All members of this link.
    pub members: &'a [Member],
    /// All connections of all members. One that is missing has ended.
    pub flows: &'a [FlowSample],
}

/// Ethernet, IPv4 and TCP headers with timestamps.
const HEADERS: u64 = 14 + 20 + 32;

/// Segments and their payload as frames of an Ethernet interface: without FCS, with IPv4 and TCP
/// timestamps. IPv6 has 20 bytes more for each.
pub fn on_the_link(segments: u64, payload: Bytes) -> Bytes {
    Bytes::new(HEADERS).times(segments) + payload
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_segments_are_full_frames() {
        assert_eq!(on_the_link(10, Bytes::new(14_480)), Bytes::new(15_140));
    }
}
