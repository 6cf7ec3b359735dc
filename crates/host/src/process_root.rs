//! The processes whose sockets a nine controls: by descent, or by a filter.

use crate::member_actuator::Scan;
use crate::process_filter::ProcessFilter;
use crate::process_tree;

/// The processes whose sockets are controlled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ProcessRoot {
    /// Every descendant of this process, which is nine's own.
    Below(i32),
    /// This process and all its descendants.
    At(i32),
    /// All that a filter chooses, now and later.
    Chosen(ProcessFilter),
}

impl ProcessRoot {
    /// The processes that exist now.
    pub(crate) fn processes(&self) -> Vec<i32> {
        match self {
            Self::Below(root) => process_tree::below(*root),
            Self::At(root) => {
                let alive = process_tree::process_of(*root).is_some();
                let mut pids = process_tree::below(*root);
                if alive {
                    pids.push(*root);
                }
                pids
            }
            Self::Chosen(filter) => filter.processes(),
        }
    }

    /// What a scan of these processes has found. A filter may choose others later.
    pub(crate) fn scanned(&self, pids: &[i32]) -> Scan {
        match (self, pids) {
            (Self::Below(_) | Self::At(_), []) => Scan::Nobody,
            _ => Scan::Processes,
        }
    }
}
