//! What QUIC packets carry, and their lengths: Ethernet's, IPv4's and UDP's headers (RFC 768), a
//! short header with a connection ID of 8 bytes and a packet number of 2 (RFC 9000, section 17.3),
//! frames with integers of variable length (sections 16 and 19), and the 16 bytes that protect them
//! (RFC 9001, section 5.3).

use engine::units::{Bytes, Duration, Instant};

const ETHERNET: u64 = 14;
/// IPv4's and UDP's headers: what the longest IP packet leaves is a datagram.
const IP_AND_UDP: u64 = 20 + 8;
/// The short header, and the tag of the protection.
const PROTECTION: u64 = (1 + 8 + 2) + 16;
/// A datagram with an Initial packet is as long as this at least (RFC 9000, section 14.1).
const INITIAL: u64 = 1_200;

/// The stream frames of a packet at most.
pub const FRAMES: usize = 3;
/// The ranges that an acknowledgment reports below its first.
pub const LOWER_RANGES: usize = 6;
/// Delays of acknowledgments are told in units of 2³ microseconds (RFC 9000, section 18.2:
/// ack_delay_exponent).
const DELAY_UNIT: u64 = 8_000;

/// What a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuicPacket {
    /// The handshake: of the initiator, or of the responder, which answers what was sent then.
    Handshake {
        /// When the packet was sent that it answers.
        answers: Option<Instant>,
        /// The first byte of all streams that its sender does not accept yet.
        max_data: u64,
    },
    /// Frames of streams, or none: a PING. It elicits an acknowledgment.
    Data(DataPacket),
    /// An acknowledgment alone. It elicits none.
    Acknowledgment(AckFrame),
}

/// A packet with data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataPacket {
    /// Its number, which no other packet of its sender has.
    pub number: u64,
    /// Its frames; those without stream data and end are none.
    pub frames: [StreamFrame; FRAMES],
}

/// A STREAM frame (RFC 9000, section 19.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamFrame {
    /// The place of its first byte in its stream.
    pub offset: u64,
    /// The number of the stream.
    pub stream: u32,
    /// The bytes.
    pub len: u16,
    /// The stream ends behind them.
    pub fin: bool,
}

impl StreamFrame {
    /// Whether there is nothing in it.
    pub fn is_none(&self) -> bool {
        self.len == 0 && !self.fin
    }

    /// What it takes beside its data.
    pub(super) fn header(stream: u32, offset: u64) -> u64 {
        1 + variable(4 * u64::from(stream)) + variable(offset) + 2
    }
}

/// Packets that did not arrive, and then some that did, going down from a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LowerRange {
    /// How many are missing.
    pub missing: u32,
    /// How many arrived before those; 0: nothing more is reported.
    pub arrived: u32,
}

/// An ACK frame (RFC 9000, section 19.3) with ECN counts, and MAX_DATA beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AckFrame {
    /// The largest packet number that arrived.
    pub largest: u64,
    /// The smallest of the range that ends there.
    pub first: u64,
    /// The ranges below.
    pub lower: [LowerRange; LOWER_RANGES],
    /// From the arrival of the largest to this, in units of 8 µs.
    pub delay: u32,
    /// The packets that arrived with ECT(0), ECT(1) and CE.
    pub ecn: [u32; 3],
    /// The bytes of all streams together that may be sent.
    pub max_data: u64,
}

impl AckFrame {
    /// The same with the time since the largest packet number arrived.
    #[must_use]
    pub fn delayed(mut self, by: Duration) -> Self {
        self.delay = u32::try_from(by.nanos() / DELAY_UNIT).unwrap_or(u32::MAX);
        self
    }

    /// The time since the largest packet number arrived.
    pub fn delay_of_largest(&self) -> Duration {
        Duration::from_nanos(u64::from(self.delay) * DELAY_UNIT)
    }

    /// The ranges from the highest on: first and last packet number of each.
    pub fn ranges(&self) -> impl Iterator<Item = [u64; 2]> + '_ {
        let below = self.lower.iter().take_while(|range| range.arrived > 0);
        let lower = below.scan(self.first, |first, range| {
            let last = first.saturating_sub(u64::from(range.missing) + 1);
            *first = (last + 1).saturating_sub(u64::from(range.arrived));
            Some([*first, last])
        });
        std::iter::once([self.first, self.largest]).chain(lower)
    }

    fn length(&self) -> u64 {
        let ranges = self.lower.iter().filter(|range| range.arrived > 0);
        let lower = ranges.clone().map(|range| {
            variable(u64::from(range.missing).saturating_sub(1)) + variable(u64::from(range.arrived) - 1)
        });
        let counts = self.ecn.iter().map(|&count| variable(u64::from(count)));
        let marked = self.ecn.iter().any(|&count| count > 0);
        1 + variable(self.largest)
            + variable(u64::from(self.delay))
            + variable(ranges.count() as u64)
            + variable(self.largest - self.first)
            + lower.sum::<u64>()
            + if marked { counts.sum() } else { 0 }
    }
}

/// The bytes of an integer of variable length (RFC 9000, section 16).
fn variable(value: u64) -> u64 {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// The longest datagram in IP packets of this length (RFC 9002's max_datagram_size).
pub(super) fn datagram(mtu: Bytes) -> u64 {
    mtu.get().saturating_sub(IP_AND_UDP).max(PROTECTION + 32)
}

/// What a datagram of this length has room for.
pub(super) fn room(datagram: u64) -> u64 {
    datagram - PROTECTION
}

/// The datagram of a packet with so many bytes of frames; PING is one of a byte.
pub(super) fn data_datagram(frames: u64) -> u64 {
    PROTECTION + frames.max(1)
}

/// The frame of a datagram.
pub(super) fn frame(datagram: u64) -> Bytes {
    Bytes::new(ETHERNET + IP_AND_UDP + datagram)
}

/// The frame of an acknowledgment.
pub(super) fn ack_frame(ack: &AckFrame) -> Bytes {
    frame(PROTECTION + ack.length() + 1 + variable(ack.max_data))
}

/// The frame of a packet of the handshake.
pub(super) fn handshake_frame() -> Bytes {
    frame(INITIAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000, section 16, table 4: what one, two, four and eight bytes hold at most.
    #[test]
    fn integers_take_as_many_bytes_as_table_4_says() {
        let most = [63, 16_383, 1_073_741_823];
        assert_eq!(most.map(variable), [1, 2, 4]);
        assert_eq!(most.map(|most| variable(most + 1)), [2, 4, 8]);
    }

    #[test]
    fn an_acknowledgment_reads_back_its_ranges_from_the_highest_on() {
        let mut ack = AckFrame {
            largest: 100,
            first: 98,
            ..AckFrame::default()
        };
        ack.lower[0] = LowerRange {
            missing: 2,
            arrived: 5,
        };
        ack.lower[1] = LowerRange {
            missing: 1,
            arrived: 1,
        };
        let ranges: Vec<[u64; 2]> = ack.ranges().collect();
        assert_eq!(ranges, [[98, 100], [91, 95], [89, 89]]);
    }

    #[test]
    fn the_delay_of_an_acknowledgment_is_told_in_steps_of_8_microseconds() {
        let ack = AckFrame::default().delayed(Duration::from_nanos(25_007_999));
        assert_eq!(ack.delay_of_largest(), Duration::from_micros(25_000));
    }

    /// A full datagram of Ethernet: 1500 B less 28, of which 27 are the packet's own.
    #[test]
    fn a_full_datagram_has_room_for_1445_bytes_of_frames() {
        let full = datagram(Bytes::new(1_500));
        assert_eq!((full, room(full)), (1_472, 1_445));
        assert_eq!(frame(full), Bytes::new(1_514));
    }
}
