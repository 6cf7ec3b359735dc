//! What the programs of each member have carried, for `nine top`.

use super::message::{FlowReport, ProgramTotals};
use std::collections::{BTreeMap, BTreeSet};

/// The totals of all members.
#[derive(Debug, Default)]
pub(super) struct Totals {
    members: BTreeMap<u32, BTreeMap<String, ProgramTotals>>,
    /// What each connection had received and sent when it was counted last.
    counted: BTreeMap<u64, [u64; 2]>,
}

impl Totals {
    /// Counts what a connection has carried since it was counted last.
    pub(super) fn count(&mut self, member: u32, program: &str, flow: &FlowReport) {
        let now = [flow.received, flow.sent];
        let before = self.counted.insert(flow.id, now);
        let programs = self.members.entry(member).or_default();
        let total = programs
            .entry(program.to_string())
            .or_insert_with(|| ProgramTotals {
                program: program.to_string(),
                connections: 0,
                received_bytes: 0,
                sent_bytes: 0,
            });
        total.connections += u64::from(before.is_none());
        let [received, sent] = before.unwrap_or_default();
        total.received_bytes += flow.received.saturating_sub(received);
        total.sent_bytes += flow.sent.saturating_sub(sent);
    }

    /// Forgets members and connections that have gone.
    pub(super) fn retain(&mut self, members: &BTreeSet<u32>, connections: &BTreeSet<u64>) {
        self.members.retain(|member, _| members.contains(member));
        self.counted.retain(|id, _| connections.contains(id));
    }

    /// Those of a member, the largest first.
    pub(super) fn of(&self, member: u32) -> Vec<ProgramTotals> {
        let programs = self.members.get(&member);
        let mut all: Vec<ProgramTotals> = programs.into_iter().flat_map(BTreeMap::values).cloned().collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.received_bytes + one.sent_bytes));
        all
    }
}
