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

#[cfg(test)]
mod tests {
    use super::*;

    /// Of leaves with a parent, a priority and a rate in Mbit/s, on a link of 10 Mbit/s; packets
    /// are of 1,000 bytes.
    fn of(leaves: &[(u32, u32, u64)], others: usize, round_robin: RoundRobin) -> Vec<(u64, i64)> {
        let rated = |&(parent, priority, mbit): &(u32, u32, u64)| Rated {
            rate: mbit * 1_000_000,
            parent,
            priority,
            vacant: false,
        };
        let mut nodes: Vec<(Rated, u64)> = leaves.iter().map(|leaf| (rated(leaf), 1_000)).collect();
        // The others are at the top, with all of the link.
        let link = (leaves.len() + others) as u32;
        nodes.extend((0..others).map(|_| (rated(&(link, 0, 10)), 1_000)));
        shares((&nodes, leaves.len()), Bandwidth::mbit(10), round_robin)
            .into_iter()
            .map(|share| (share.pace, share.turn))
            .collect()
    }

    #[test]
    fn a_turn_is_a_packet_by_the_rate_over_the_mean_of_its_priority() {
        let shares = of(&[(3, 1, 2), (3, 1, 4), (3, 2, 1)], 0, RoundRobin::Weighted);
        // The pace is the link over the rate, times 4,096.
        assert_eq!(shares, [(20_480, 666), (10_240, 1_333), (40_960, 1_000)]);
    }

    #[test]
    fn a_leaf_without_a_rate_counts_as_a_sixteenth_of_its_siblings_mean() {
        // Below node 3: rates of 6 and 0, so that the mean is 3; the third is below the link.
        let shares = of(&[(3, 1, 6), (3, 1, 0), (4, 1, 2)], 1, RoundRobin::Weighted);
        let weights = [6_000_000, 187_500, 2_000_000];
        let mean = weights.iter().sum::<u64>() / 3;
        let expected = weights.map(|weight| (40_960_000_000 / weight, (1_000 * weight / mean) as i64));
        assert_eq!(shares, expected);
    }

    #[test]
    fn no_leaf_counts_as_less_than_a_65536th_of_the_link() {
        let shares = of(&[(2, 1, 0), (2, 1, 0)], 0, RoundRobin::Weighted);
        // 10,000,000 / 65,536 is 152.
        assert_eq!(shares, [(40_960_000_000 / 152, 1_000); 2]);
    }

    #[test]
    fn packet_by_packet_all_have_the_same_pace_and_no_turn_of_bytes() {
        let shares = of(&[(2, 1, 2), (2, 5, 4)], 0, RoundRobin::Packet);
        assert_eq!(shares, [(4_096, 0); 2]);
    }
}
