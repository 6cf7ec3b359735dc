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
