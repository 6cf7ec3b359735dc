//! Frames by which hosts on a link find each other: ARP (RFC 826), and the neighbour discovery of
//! IPv6 (RFC 4861).
//!
//! If their answers wait in the queue of an overloaded class, or are dropped there, a neighbour
//! counts as gone after some seconds, and with it everything that is sent to it by the other
//! direction. So they leave before what is queued: so few at a time that a packet of a class waits
//! for about one full frame more, and so many in a second that hardly a link needs more. Further
//! ones take their class like other packets.

use engine::header::Headers;
use engine::units::{Duration, Instant};

/// Frames that leave first in each period: of 60 bytes, in two periods less than a full frame.
const MOST: u32 = 10;
const PERIOD: Duration = Duration::from_millis(100);

const ARP: u16 = 0x0806;
const ICMPV6: u8 = 58;
/// From router solicitation to redirect.
const DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;

/// Counts such frames of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NeighbourFrames {
    period: u64,
    count: u32,
}

impl NeighbourFrames {
    /// Whether this frame is to leave before those that are queued.
    pub(crate) fn goes_first(&mut self, now: Instant, headers: &Headers, frame: &[u8]) -> bool {
        if !is_one(headers, frame) {
            return false;
        }
        let period = now.nanos() / PERIOD.nanos();
        if period != self.period {
            *self = Self { period, count: 0 };
        }
        self.count += 1;
        self.count <= MOST
    }
}

fn is_one(headers: &Headers, frame: &[u8]) -> bool {
    let key = &headers.key;
    let icmp = || {
        let at = usize::from(headers.l4?);
        frame.get(at).copied()
    };
    key.ethertype == ARP || (key.protocol == ICMPV6 && icmp().is_some_and(|kind| DISCOVERY.contains(&kind)))
}
