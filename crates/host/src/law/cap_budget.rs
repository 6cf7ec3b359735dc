//! A budget for each capped member: what it has carried below its cap it may catch up on shortly
//! after, and what it has carried above it must save.
//!
//! The windows of its connections add up to the cap only where each lives long enough for its own
//! to be corrected. Of short connections, one after another or many at once, the first windows,
//! handshakes and rounding decide. The budget is the member's, and outlives them.

use crate::tick::{ConnectionId, DataDirection, LawInput, Member, MemberId};
use engine::units::{Bandwidth, Bytes};
use std::collections::BTreeMap;

/// A member is owed this many seconds of its cap at most: of any 5 s, 8 %.
const MOST_OWED: f64 = 0.4;
/// It owes this many at most.
const MOST_OWING: f64 = 1.0;
/// It catches up or saves within this many seconds.
const WITHIN: f64 = 0.8;
/// Of its cap it keeps this fraction.
const KEEPS: f64 = 0.5;

/// A connection at the last tick.
#[derive(Clone, Copy, PartialEq, Debug)]
struct LastCarried {
    member: MemberId,
    carried: Bytes,
    /// What it carried in the last tick.
    bits: f64,
}

/// The budgets of all members.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct CapBudgets {
    /// What each is owed, in seconds of its cap; negative if it owes.
    owed: BTreeMap<MemberId, f64>,
    flows: BTreeMap<ConnectionId, LastCarried>,
}

impl CapBudgets {
    /// Takes in what the connections have carried, and returns the members with the caps that apply
    /// now.
    pub(super) fn adjust(
        &mut self,
        tick: &LawInput<'_>,
        direction: DataDirection,
        seconds: f64,
    ) -> Vec<Member> {
        let carried = self.carried(tick, direction);
        let before = std::mem::take(&mut self.owed);
        let adjust = |member: &Member| {
            let Some(cap) = member.cap else {
                return *member;
            };
            let bits = (cap.bits() as f64).max(1.0);
            let used = carried.get(&member.id).copied().unwrap_or(0.0) / bits;
            let owed = before.get(&member.id).copied().unwrap_or(0.0) + seconds;
            // A connection that ran before nine did brings its past along.
            let owed = (owed - used.min(MOST_OWING)).clamp(-MOST_OWING, MOST_OWED);
            self.owed.insert(member.id, owed);
            let factor = (1.0 + owed / WITHIN).max(KEEPS);
            Member {
                cap: Some(Bandwidth::bits_per_sec((bits * factor) as u64)),
                ..*member
            }
        };
        tick.members.iter().map(adjust).collect()
    }

    /// The bits that each member has carried since the last tick. Of connections that have ended
    /// the last bits were not sampled: half of what they carried in a tick.
    fn carried(&mut self, tick: &LawInput<'_>, direction: DataDirection) -> BTreeMap<MemberId, f64> {
        let mut before = std::mem::take(&mut self.flows);
        let mut sums: BTreeMap<MemberId, f64> = BTreeMap::new();
        for sample in tick.flows {
            let carried = sample.carried(direction);
            let last = before.remove(&sample.id);
            let past = last.map_or(Bytes::ZERO, |last| last.carried);
            let bits = carried.get().saturating_sub(past.get()) as f64 * 8.0;
            *sums.entry(sample.member).or_default() += bits;
            let now = LastCarried {
                member: sample.member,
                carried,
                bits,
            };
            self.flows.insert(sample.id, now);
        }
        for ended in before.values() {
            *sums.entry(ended.member).or_default() += ended.bits / 2.0;
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tick::{Bottleneck, FlowSample, LinkCounters};
    use engine::units::Instant;

    /// The cap that applies after connections of a member with a cap of 8 Mbit/s have carried this
    /// many bytes in each tick of 50 ms, each connection for one tick.
    fn applies(bytes: impl Iterator<Item = u64>) -> f64 {
        let members = [Member {
            cap: Some(Bandwidth::mbit(8)),
            ..Member::new(MemberId(1))
        }];
        let mut budgets = CapBudgets::default();
        let mut cap = 0.0;
        for (id, bytes) in (0..).zip(bytes) {
            let flows = [FlowSample {
                received: Bytes::new(bytes),
                window: Bytes::new(5_000),
                ..FlowSample::new(ConnectionId(id), MemberId(1), Instant::START)
            }];
            let tick = LawInput {
                now: Instant::START,
                link: LinkCounters::default(),
                bottleneck: Bottleneck::Auto,
                members: &members,
                flows: &flows,
            };
            let adjusted = budgets.adjust(&tick, DataDirection::Download, 0.05);
            cap = adjusted[0].cap.map_or(0.0, |cap| cap.bits() as f64 / 8e6);
        }
        cap
    }

    #[test]
    fn a_member_catches_up_and_saves_over_all_its_connections() {
        // The cap is 50,000 bytes a tick. Half of a tick is added for each that has ended.
        assert!((applies([33_333; 40].into_iter()) - 1.0).abs() < 0.1);
        assert!((applies([10_000; 40].into_iter()) - 1.5).abs() < 0.01, "at most");
        assert!(
            (applies([100_000; 40].into_iter()) - KEEPS).abs() < 0.01,
            "at least"
        );
        // One burst is saved, and forgotten within the time.
        let burst = std::iter::once(10_000_000).chain([10_000; 80]);
        assert!((applies(burst) - 1.5).abs() < 0.01);
    }
}
