//! Which member a connection belongs to that several report: a command under nine that a rule of
//! the service chooses too.

use super::message::{MemberProfile, MemberReport};
use crate::order::{FlowLimit, LimitOrder, LimitReason};
use crate::tick::{ConnectionId, DataDirection};
use std::collections::{BTreeMap, BTreeSet};

/// The member of each connection at the last tick.
#[derive(Debug, Default)]
pub(super) struct Claims {
    members: BTreeMap<u64, u32>,
}

impl Claims {
    /// Leaves each connection to one member: to a command or process of its own before those that
    /// are chosen among all, and otherwise to the first. Returns what the others reported, by
    /// member: their limits are to be lifted.
    ///
    /// When it changes hands, nobody has it for a tick, so that the one restores its socket before
    /// the other reads what is to be restored.
    pub(super) fn settle(
        &mut self,
        all: &mut [(MemberProfile, MemberReport)],
    ) -> BTreeMap<u32, BTreeSet<u64>> {
        let mut members: BTreeMap<u64, (bool, u32)> = BTreeMap::new();
        for (profile, report) in all.iter() {
            for flow in &report.flows {
                let claim = (profile.chosen, profile.pid);
                let best = members.entry(flow.id).or_insert(claim);
                if !claim.0 && best.0 {
                    *best = claim;
                }
            }
        }
        let before = std::mem::take(&mut self.members);
        self.members = members.into_iter().map(|(id, (_, pid))| (id, pid)).collect();
        let mut unclaimed: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        for (profile, report) in all {
            report.flows.retain(|flow| {
                let is_theirs = self.members.get(&flow.id) == Some(&profile.pid);
                let was_anothers = before.get(&flow.id).is_some_and(|pid| *pid != profile.pid);
                if !is_theirs || was_anothers {
                    unclaimed.entry(profile.pid).or_default().insert(flow.id);
                }
                is_theirs && !was_anothers
            });
        }
        unclaimed
    }
}

/// Orders that lift all limits of these connections.
pub(super) fn freed(ids: Option<&BTreeSet<u64>>) -> impl Iterator<Item = LimitOrder> + '_ {
    let directions = [DataDirection::Download, DataDirection::Upload];
    ids.into_iter().flatten().flat_map(move |id| {
        directions.map(|direction| LimitOrder {
            flow: ConnectionId(*id),
            direction,
            limit: FlowLimit::Free,
            reason: LimitReason::LinkIsFree,
        })
    })
}
