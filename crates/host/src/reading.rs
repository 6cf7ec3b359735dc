//! What a law is told at each tick: the link's counters, the members, and a reading of each of their connections.
//!
//! Counters are running totals, so that ticks may be late or missed. Those of the link and those of connections must be on
//! the same basis, the frames of the link's interface: a law takes what is not a member's for other traffic, and a hole
//! in the account looks like other traffic. So what arrived on a connection is counted by segments, lost and
//! out-of-order ones included, and not by bytes in order: see [`on_the_link`].

use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// A connection, by a number that its actuator never gives twice (a socket's cookie, for instance).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct FlowId(pub u64);

/// A member: a command, or a class of a gateway, whose connections share one weight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct MemberId(pub u32);

/// Which of a connection's two directions is meant, seen from the host that the bottleneck is next to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// What the host receives, held by the windows that it advertises.
    #[default]
    Download,
    /// What the host sends, held by pacing.
    Upload,
}

/// What one member asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Who it is.
    pub id: MemberId,
    /// Its share of what is left to members, relative to the others' weights; zero counts as one.
    pub weight: u32,
    /// More than this it never gets, in each direction; also while the link is free.
    pub cap: Option<Bandwidth>,
    /// Less than this it is not asked to yield.
    pub floor: Option<Bandwidth>,
    /// The paper's WINDOW, for the paper's law alone.
    pub window: Option<Bytes>,
}

impl Member {
    /// With weight 1, and neither cap nor floor.
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

/// A connection of a member at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowReading {
    /// Which connection.
    pub id: FlowId,
    /// Whose.
    pub member: MemberId,
    /// When it was read. Readings of one tick may differ; rates are reckoned over the times of each.
    pub at: Instant,
    /// What has arrived on it so far, as frames of the link ([`on_the_link`]).
    pub received: Bytes,
    /// What has been sent on it so far, likewise.
    pub sent: Bytes,
    /// The round trip as the kernel has it last: the receiver's estimate, or the sender's smoothed one. None before the first.
    pub rtt: Option<Duration>,
    /// The shortest that the kernel has seen, that of the handshake among them: data that come with others from the beginning
    /// never see the link without a queue.
    pub shortest: Option<Duration>,
    /// The largest segment's payload that was seen in the direction of data.
    pub mss: Bytes,
    /// By how many bits the windows that this host advertises are shifted (RFC 7323): they are multiples of 2^scale.
    pub scale: u8,
    /// The window as it is advertised now.
    pub window: Bytes,
}

impl FlowReading {
    /// Bytes that it has carried so far in this direction.
    pub fn carried(&self, direction: Direction) -> Bytes {
        match direction {
            Direction::Download => self.received,
            Direction::Upload => self.sent,
        }
    }
}

/// The counters of the interface next to the bottleneck.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkReading {
    /// Bytes of frames received so far.
    pub received: Bytes,
    /// Bytes of frames sent so far.
    pub sent: Bytes,
}

impl LinkReading {
    /// Bytes that it has carried so far in this direction.
    pub fn carried(&self, direction: Direction) -> Bytes {
        match direction {
            Direction::Download => self.received,
            Direction::Upload => self.sent,
        }
    }
}

/// What is known of the link's rate in the direction of a law.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Bottleneck {
    /// `bottlenet RATE`, counted as the interface counts frames.
    Stated(Bandwidth),
    /// `bottlenet auto`: worked out from what the link was seen to carry while round trips grew.
    #[default]
    Auto,
    /// `bottlenet off`: not to be guessed; only round trips decide.
    Unknown,
}

/// Everything that a law is told at one time.
#[derive(Clone, Copy, Debug)]
pub struct Tick<'a> {
    /// When the link's counters were read. It never goes back. Ticks are meant every [`INTERVAL`](crate::law::INTERVAL).
    pub now: Instant,
    /// The interface's counters.
    pub link: LinkReading,
    /// What is known of its rate.
    pub bottleneck: Bottleneck,
    /// Everyone who has connections here.
    pub members: &'a [Member],
    /// All connections of all members that there are now. One that is missing has ended.
    pub flows: &'a [FlowReading],
}

/// Ethernet, IPv4 and TCP with timestamps.
const HEADERS: u64 = 14 + 20 + 32;

/// What so many segments with so many bytes of payload are as frames of an Ethernet interface (without checksum), with
/// IPv4 and timestamps; IPv6 has 20 bytes more.
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
