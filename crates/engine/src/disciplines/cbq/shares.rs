//! With an estimator of the link: how much each leaf has of the turns of its priority.

use super::settings::RoundRobin;
use crate::structures::rings::{PRIORITIES, Rated};
use crate::units::Bandwidth;

/// What a byte adds to the tag of a leaf that has the whole link.
const WHOLE: u64 = 1 << 12;
/// A leaf takes turns as if it had at least this part of the link.
const LEAST_PART: u64 = 1 << 16;

/// The share of one leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Share {
    /// What a byte adds to its tag; of packet-by-packet turns, a packet.
    pub(super) pace: u64,
    /// Bytes of a turn, by which it goes on as long as it may.
    pub(super) turn: i64,
}

/// The shares of the leaves, which are the first of these nodes with the lengths of their packets:
/// by the link over their rates. A leaf without a rate counts as a sixteenth of the mean of its
/// siblings.
pub(super) fn shares(
    (nodes, leaves): (&[(Rated, u64)], usize),
    link: Bandwidth,
    round_robin: RoundRobin,
) -> Vec<Share> {
    if round_robin == RoundRobin::Packet {
        let share = Share { pace: WHOLE, turn: 0 };
        return vec![share; leaves];
    }
    let mut siblings = vec![Sum::default(); nodes.len() + 1];
    for (node, _) in nodes {
        siblings[node.parent as usize].add(u128::from(node.rate));
    }
    let link = u128::from(link.bits().max(1));
    let weight = |node: &Rated| {
        let weight = match node.rate {
            0 => siblings[node.parent as usize].mean() / 16,
            rate => u128::from(rate),
        };
        weight.max(link / u128::from(LEAST_PART)).max(1)
    };
    let leaves = || nodes.iter().take(leaves);
    let mut equals = [Sum::default(); PRIORITIES];
    for (leaf, _) in leaves() {
        equals[leaf.priority as usize].add(weight(leaf));
    }
    let share = |(leaf, packet): &(Rated, u64)| Share {
        pace: (link * u128::from(WHOLE) / weight(leaf)) as u64,
        turn: {
            let mean = equals[leaf.priority as usize].mean().max(1);
            i64::try_from(u128::from(*packet) * weight(leaf) / mean).unwrap_or(i64::MAX)
        },
    };
    leaves().map(share).collect()
}

/// A sum, and of how many.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    sum: u128,
    count: u128,
}

impl Sum {
    fn add(&mut self, one: u128) {
        self.sum += one;
        self.count += 1;
    }

    fn mean(self) -> u128 {
        self.sum / self.count.max(1)
    }
}
