//! The packets that were sent and are not accounted for: in the order of their numbers, which no
//! two have. What is acknowledged stays so (RFC 9000, section 13.2: no reneging). A packet is lost
//! once one that was sent three later is acknowledged (kPacketThreshold), or a later one and nine
//! eighths of a round trip have passed since it was sent (kTimeThreshold; RFC 9002, section 6.1).
//!
//! Beside its number a packet has a place among all bytes that were ever sent, which no other has
//! either: congestion controls count in bytes.

use super::wire::{AckFrame, FRAMES, StreamFrame};
use crate::packet::ByteRange;
use engine::units::{Duration, Instant};
use std::collections::VecDeque;

/// kPacketThreshold.
pub(super) const PACKET_THRESHOLD: u64 = 3;

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Outstanding,
    Acknowledged,
    Lost,
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentPacket {
    pub(super) sent: Instant,
    /// Its place among all bytes that were sent; its length is that of its datagram.
    pub(super) place: ByteRange,
    pub(super) frames: [StreamFrame; FRAMES],
    /// It was sent as ECN-capable.
    pub(super) ecn_capable: bool,
    state: State,
}

/// What an acknowledgment showed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Acknowledged {
    /// The bytes of the packets that it is the first to acknowledge.
    pub(super) bytes: u64,
    /// Of those the one with the largest number: when it was sent, and where it ends.
    pub(super) largest: Option<(Instant, u64)>,
    /// The largest number of all was not known to have arrived.
    pub(super) advances: bool,
    /// How many of the packets were sent as ECN-capable.
    pub(super) ecn_capable: u32,
}

/// All packets in flight, and those between them.
#[derive(Clone, Debug, Default)]
pub(super) struct SentPackets {
    /// The number of the first.
    first: u64,
    packets: VecDeque<SentPacket>,
    in_flight: u64,
    largest_acknowledged: Option<u64>,
    /// All bytes that were sent.
    sent: u64,
}

impl SentPackets {
    /// The number of the next packet.
    pub(super) fn next_number(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// The bytes of packets that are neither acknowledged nor lost.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// All bytes that were sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// The place of the first byte that is in flight, or of the next.
    pub(super) fn settled(&self) -> u64 {
        self.packets
            .front()
            .map_or(self.sent, |packet| packet.place.start)
    }

    /// A packet of this length is sent; returns its place.
    pub(super) fn send(
        &mut self,
        now: Instant,
        length: u64,
        frames: [StreamFrame; FRAMES],
        ecn_capable: bool,
    ) -> ByteRange {
        let place = ByteRange::new(self.sent, self.sent + length);
        self.packets.push_back(SentPacket {
            sent: now,
            place,
            frames,
            ecn_capable,
            state: State::Outstanding,
        });
        self.sent += length;
        self.in_flight += length;
        place
    }

    /// The packets that are neither acknowledged nor lost, from the first on.
    pub(super) fn outstanding(&self) -> impl Iterator<Item = &SentPacket> {
        self.packets
            .iter()
            .filter(|packet| packet.state == State::Outstanding)
    }

    /// Takes an acknowledgment; `each` is called with the packets that it is the first to
    /// acknowledge. Numbers that were never sent are passed over.
    pub(super) fn acknowledge(&mut self, ack: &AckFrame, mut each: impl FnMut(&SentPacket)) -> Acknowledged {
        let mut found = Acknowledged::default();
        let end = self.next_number();
        for [first, last] in ack.ranges() {
            if last < self.first {
                break;
            }
            for number in (first.max(self.first)..=last)
                .rev()
                .filter(|number| *number < end)
            {
                let packet = &mut self.packets[(number - self.first) as usize];
                if packet.state == State::Acknowledged {
                    continue;
                }
                if packet.state == State::Outstanding {
                    self.in_flight -= packet.place.len();
                }
                packet.state = State::Acknowledged;
                found.bytes += packet.place.len();
                found.ecn_capable += u32::from(packet.ecn_capable);
                found.largest = found.largest.or(Some((packet.sent, packet.place.end)));
                each(packet);
            }
        }
        if ack.largest < end && self.largest_acknowledged.is_none_or(|known| ack.largest > known) {
            self.largest_acknowledged = Some(ack.largest);
            found.advances = true;
        }
        found
    }

    /// Finds the packets that are lost by now, where so long after a packet was sent it is; they
    /// come in the order of their numbers. Returns when the next will be, if none arrives.
    pub(super) fn detect_lost(
        &mut self,
        now: Instant,
        threshold: Duration,
        lost: &mut Vec<SentPacket>,
    ) -> Option<Instant> {
        let largest = self.largest_acknowledged?;
        let mut next = None;
        let below = largest.saturating_sub(self.first) as usize;
        for (number, packet) in (self.first..).zip(self.packets.iter_mut().take(below)) {
            if packet.state != State::Outstanding {
                continue;
            }
            if number + PACKET_THRESHOLD <= largest || packet.sent + threshold <= now {
                packet.state = State::Lost;
                self.in_flight -= packet.place.len();
                lost.push(*packet);
            } else {
                next = next.or(Some(packet.sent + threshold));
            }
        }
        next
    }

    /// The longest time between two of these lost packets, both sent after the first sample of the
    /// round trip, with none that was acknowledged sent between them (RFC 9002, section 7.6.2).
    pub(super) fn longest_silence(&self, lost: &[SentPacket], first_sample: Instant) -> Duration {
        let acknowledged_between = |from: &SentPacket, to: &SentPacket| {
            let from = self.packets.partition_point(|p| p.place.end <= from.place.end);
            let to = self.packets.partition_point(|p| p.place.end < to.place.end);
            let between = self.packets.range(from.min(to)..to);
            between.into_iter().any(|p| p.state == State::Acknowledged)
        };
        let mut longest = Duration::ZERO;
        let mut run: Option<[&SentPacket; 2]> = None;
        for packet in lost.iter().filter(|packet| packet.sent > first_sample) {
            run = match run {
                Some([first, last]) if !acknowledged_between(last, packet) => Some([first, packet]),
                _ => Some([packet; 2]),
            };
            longest = longest.max(run.map_or(Duration::ZERO, |[first, last]| last.sent.since(first.sent)));
        }
        longest
    }

    /// Forgets the packets at the front that are accounted for.
    pub(super) fn forget(&mut self) {
        while self
            .packets
            .front()
            .is_some_and(|packet| packet.state != State::Outstanding)
        {
            self.packets.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::START + Duration::from_millis(ms)
    }

    /// Packets of 1,000 bytes, one each millisecond.
    fn sent(many: u64) -> SentPackets {
        let mut packets = SentPackets::default();
        for n in 0..many {
            packets.send(at(n), 1_000, [StreamFrame::default(); FRAMES], false);
        }
        packets
    }

    fn ack(first: u64, largest: u64) -> AckFrame {
        AckFrame {
            first,
            largest,
            ..AckFrame::default()
        }
    }

    fn lost(packets: &mut SentPackets, now: Instant, threshold: u64) -> (Vec<u64>, Option<Instant>) {
        let mut lost = Vec::new();
        let next = packets.detect_lost(now, Duration::from_millis(threshold), &mut lost);
        (
            lost.iter().map(|packet| packet.place.start / 1_000).collect(),
            next,
        )
    }

    /// Section 6.1.1: kPacketThreshold is 3.
    #[test]
    fn three_packets_sent_later_show_a_loss_and_two_do_not() {
        let mut packets = sent(10);
        packets.acknowledge(&ack(2, 2), |_| {});
        assert_eq!(lost(&mut packets, at(10), 1_000), (vec![], Some(at(1_000))));
        packets.acknowledge(&ack(2, 3), |_| {});
        assert_eq!(lost(&mut packets, at(10), 1_000), (vec![0], Some(at(1_001))));
        packets.acknowledge(&ack(2, 4), |_| {});
        assert_eq!(lost(&mut packets, at(10), 1_000), (vec![1], None));
        assert_eq!(packets.in_flight(), 5_000);
    }

    /// Section 6.1.2: only packets before one that arrived are late.
    #[test]
    fn a_packet_is_lost_by_time_once_a_later_one_has_arrived() {
        let mut packets = sent(3);
        assert_eq!(lost(&mut packets, at(500), 90), (vec![], None));
        packets.acknowledge(&ack(1, 1), |_| {});
        assert_eq!(lost(&mut packets, at(89), 90), (vec![], Some(at(90))));
        assert_eq!(lost(&mut packets, at(90), 90), (vec![0], None));
        assert_eq!(packets.in_flight(), 1_000);
    }

    #[test]
    fn what_was_acknowledged_counts_once_and_numbers_that_were_never_sent_not_at_all() {
        let mut packets = sent(4);
        let first = packets.acknowledge(&ack(0, 2), |_| {});
        assert_eq!((first.bytes, first.advances), (3_000, true));
        let again = packets.acknowledge(&ack(0, 2), |_| {});
        assert_eq!((again.bytes, again.largest, again.advances), (0, None, false));
        let invented = packets.acknowledge(&ack(3, 9), |_| {});
        assert_eq!((invented.bytes, invented.advances), (1_000, false));
        packets.forget();
        assert_eq!((packets.next_number(), packets.in_flight()), (4, 0));
    }

    /// Section 7.6.2's conditions: both lost, nothing acknowledged between them.
    #[test]
    fn a_silence_ends_where_a_packet_between_arrived() {
        let mut packets = sent(12);
        packets.acknowledge(&ack(4, 4), |_| {});
        packets.acknowledge(&ack(11, 11), |_| {});
        let mut lost = Vec::new();
        packets.detect_lost(at(1_000), Duration::from_millis(1), &mut lost);
        assert_eq!(lost.len(), 10);
        let silence = |after| packets.longest_silence(&lost, after);
        assert_eq!(silence(Instant::START), Duration::from_millis(5), "5 to 10");
        assert_eq!(silence(at(7)), Duration::from_millis(2), "8 to 10");
    }
}
