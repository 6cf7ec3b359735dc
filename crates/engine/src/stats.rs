//! What queues count: packets and bytes, offered, sent, dropped and marked.

use crate::sink::Reason;
use crate::units::Bytes;
use std::ops::{AddAssign, Sub};

/// Packets and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// How many packets.
    pub packets: u64,
    /// Their lengths, summed.
    pub bytes: Bytes,
}

impl AddAssign<Bytes> for Count {
    /// Counts one packet of this length.
    fn add_assign(&mut self, len: Bytes) {
        self.packets += 1;
        self.bytes.count(len);
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes.count(other.bytes);
    }
}

impl Sub for Count {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self {
            packets: self.packets - other.packets,
            bytes: self.bytes - other.bytes,
        }
    }
}

/// What has passed through a queue since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Packets that were offered.
    pub offered: Count,
    /// Packets that left by `dequeue`, or were handed over.
    pub sent: Count,
    /// Packets that left by the sink.
    pub dropped: Count,
    /// Packets marked (ECN) here or below.
    pub marked: u64,
    /// `dropped`, by [`Reason`]'s number.
    pub reasons: [u64; Reason::ALL.len()],
}

impl Stats {
    /// The backlog: offered, and neither sent nor dropped yet.
    pub fn backlog(&self) -> Count {
        self.offered - self.sent - self.dropped
    }

    /// Packets dropped for this reason.
    pub fn dropped_for(&self, why: Reason) -> u64 {
        self.reasons[why as usize]
    }
}

impl AddAssign for Stats {
    /// Sums the counts of two queues.
    fn add_assign(&mut self, other: Self) {
        let sums = [&mut self.offered, &mut self.sent, &mut self.dropped];
        for (sum, one) in sums.into_iter().zip([other.offered, other.sent, other.dropped]) {
            sum.packets += one.packets;
            sum.bytes += one.bytes;
        }
        self.marked += other.marked;
        self.reasons
            .iter_mut()
            .zip(other.reasons)
            .for_each(|(sum, one)| *sum += one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(packets: u64, bytes: u64) -> Count {
        Count {
            packets,
            bytes: Bytes::new(bytes),
        }
    }

    #[test]
    fn a_packet_counts_once_and_with_its_length() {
        let mut sum = count(3, 100);
        sum += Bytes::new(20);
        assert_eq!(sum, count(4, 120));
        sum += count(5, 1_000);
        assert_eq!(sum, count(9, 1_120));
        assert_eq!(sum - count(2, 20), count(7, 1_100));
    }

    #[test]
    fn the_backlog_is_what_was_offered_and_has_not_left() {
        let stats = Stats {
            offered: count(10, 1_000),
            sent: count(4, 300),
            dropped: count(3, 200),
            ..Stats::default()
        };
        assert_eq!(stats.backlog(), count(3, 500));
    }

    #[test]
    fn drops_are_told_by_their_reason() {
        let mut stats = Stats::default();
        stats.reasons[Reason::Delay as usize] = 7;
        assert_eq!(stats.dropped_for(Reason::Delay), 7);
        assert_eq!(stats.dropped_for(Reason::Full), 0);
    }

    #[test]
    fn the_counts_of_two_queues_add_up_one_by_one() {
        let of = |n: u64| Stats {
            offered: count(n, 100 * n),
            sent: count(n + 1, 100 * n + 1),
            dropped: count(n + 2, 100 * n + 2),
            marked: n + 3,
            reasons: std::array::from_fn(|place| n + 4 + place as u64),
        };
        let mut sum = of(5);
        sum += of(10);
        let expected = Stats {
            offered: count(15, 1_500),
            sent: count(17, 1_502),
            dropped: count(19, 1_504),
            marked: 21,
            reasons: std::array::from_fn(|place| 23 + 2 * place as u64),
        };
        assert_eq!(sum, expected);
    }
}
