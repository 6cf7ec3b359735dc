//! The changes of what runs on an interface, while that is recorded: what is needed to make them
//! again, and no tape has.

use control::policy::InterfacePolicy;
use control::recorded::{RecordedChange, RecordedPolicy};
use engine::packet::ClassId;
use engine::random::Seed;
use engine::units::Bandwidth;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How the worker adopted what ran from then on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Put {
    /// The seed of a tree that had to be built anew.
    pub(crate) seed: Seed,
    /// The class that alone got other settings.
    pub(crate) class: Option<ClassId>,
    /// Whether it got another classifier.
    pub(crate) reclassified: bool,
    /// Another bandwidth.
    pub(crate) bandwidth: Option<Bandwidth>,
}

/// A change.
#[derive(Debug)]
pub(crate) struct LoggedChange {
    /// What ran then.
    pub(crate) whole: Arc<InterfacePolicy>,
    pub(crate) put: Put,
    /// In what the policy differs from the one before.
    pub(crate) said: Vec<String>,
}

impl LoggedChange {
    pub(crate) fn form(&self) -> RecordedChange {
        RecordedChange {
            policy: RecordedPolicy::from(&*self.whole),
            seed: self.put.seed.0,
            class: self.put.class.map(|class| class.0),
            reclassified: self.put.reclassified,
            bandwidth_bps: self.put.bandwidth.map(Bandwidth::bits),
            changes: self.said.clone(),
        }
    }
}

#[derive(Debug)]
struct Log {
    /// The number of the first that is kept, by the worker's count.
    first: u64,
    changes: VecDeque<Arc<LoggedChange>>,
    whole: Arc<InterfacePolicy>,
}

/// The changes since a recording began.
#[derive(Debug)]
pub(crate) struct ChangeLog(Mutex<Log>);

impl ChangeLog {
    /// None yet, when the worker has made so many, and this runs.
    pub(crate) fn new(made: u64, whole: Arc<InterfacePolicy>) -> Self {
        Self(Mutex::new(Log {
            first: made,
            changes: VecDeque::new(),
            whole,
        }))
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, change: LoggedChange) {
        let mut log = self.log();
        log.whole = Arc::clone(&change.whole);
        log.changes.push_back(Arc::new(change));
    }

    /// How many the worker has made, and what runs after them.
    pub(crate) fn present(&self) -> (u64, Arc<InterfacePolicy>) {
        let log = self.log();
        (log.first + log.changes.len() as u64, Arc::clone(&log.whole))
    }

    /// Those from this number up to another, or to the last.
    pub(crate) fn between(&self, from: u64, to: Option<u64>) -> Vec<Arc<LoggedChange>> {
        let log = self.log();
        let numbered = (log.first..).zip(&log.changes);
        let wanted = numbered.filter(|(number, _)| *number >= from && to.is_none_or(|to| *number < to));
        wanted.map(|(_, change)| Arc::clone(change)).collect()
    }

    /// Those before this number are needed no more.
    pub(crate) fn forget(&self, before: u64) {
        let mut log = self.log();
        while log.first < before && log.changes.pop_front().is_some() {
            log.first += 1;
        }
    }
}
