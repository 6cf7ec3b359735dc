//! What was in force, change by change, so that one can be undone.
//!
//! A generation is what is in force after a change. Those of this run are kept, the latest [`KEPT`]
//! and of very many classes fewer; a change that was to be confirmed and was not is undone in time.

use control::difference::GenerationView;
use control::policy::InterfacePolicy;
use control::protocol::Refusal;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How many generations are kept.
const KEPT: usize = 32;
/// How many classes they have together, but for the last two.
const CLASSES: usize = 200_000;

/// What is in force after a change.
#[derive(Clone, Debug)]
pub(crate) struct Generation {
    pub(crate) number: u64,
    pub(crate) policies: Vec<InterfacePolicy>,
    since: Instant,
    by: String,
    changes: Vec<String>,
}

/// A change that is undone unless it is confirmed.
#[derive(Clone, Copy, Debug)]
struct Unconfirmed {
    until: Instant,
    back_to: u64,
}

/// The generations of this run; the last is in force.
#[derive(Debug)]
pub(crate) struct Generations {
    kept: VecDeque<Generation>,
    unconfirmed: Option<Unconfirmed>,
}

impl Generations {
    /// The first: these policies.
    pub(crate) fn new(policies: Vec<InterfacePolicy>) -> Self {
        let mut all = Self {
            kept: VecDeque::with_capacity(KEPT),
            unconfirmed: None,
        };
        all.push(policies, "run".into(), Vec::new());
        all
    }

    /// From now on these policies are in force.
    pub(crate) fn push(&mut self, policies: Vec<InterfacePolicy>, by: String, changes: Vec<String>) {
        let number = self.number() + 1;
        let classes = |policies: &[InterfacePolicy]| -> usize {
            policies.iter().map(|policy| policy.plan.classes.len()).sum()
        };
        let mut all: usize = self.kept.iter().map(|kept| classes(&kept.policies)).sum();
        all += classes(&policies);
        while self.kept.len() >= KEPT || self.kept.len() > 1 && all > CLASSES {
            let first = self.kept.pop_front();
            all -= first.map_or(0, |first| classes(&first.policies));
        }
        self.kept.push_back(Generation {
            number,
            policies,
            since: Instant::now(),
            by,
            changes,
        });
    }

    /// The number of the one in force.
    pub(crate) fn number(&self) -> u64 {
        self.kept.back().map_or(0, |last| last.number)
    }

    /// The one of this number, or the one before that in force.
    pub(crate) fn find(&self, number: Option<u64>) -> Result<Generation, Refusal> {
        let before = || self.kept.iter().rev().nth(1);
        let numbered = |number: u64| self.kept.iter().find(|generation| generation.number == number);
        let found = number.map_or_else(before, numbered).cloned();
        found.ok_or_else(|| {
            let first = self.kept.front().map_or(0, |first| first.number);
            let what = match number {
                Some(number) => format!("generation {number} is not kept"),
                None => "there is no generation before this one".into(),
            };
            Refusal {
                message: format!("{what}: {first} to {} are", self.number()),
                help: Some("`suimon history` shows them".into()),
            }
        })
    }

    /// Before a change: refuses it while another one waits to be confirmed.
    pub(crate) fn refuse_unconfirmed(&self) -> Result<(), Refusal> {
        let Some(Unconfirmed { back_to, .. }) = self.unconfirmed else {
            return Ok(());
        };
        Err(Refusal {
            message: format!("generation {} waits to be confirmed", self.number()),
            help: Some(format!(
                "`suimon confirm` keeps it, `suimon rollback` returns to {back_to}"
            )),
        })
    }

    /// What is in force is undone after this time, unless it is confirmed.
    pub(crate) fn confirm_within(&mut self, time: Duration, back_to: u64) {
        let until = Instant::now() + time;
        self.unconfirmed = Some(Unconfirmed { until, back_to });
    }

    /// Confirms what is in force, or ends the wait for it; what it would have gone back to.
    pub(crate) fn settle(&mut self) -> Option<u64> {
        self.unconfirmed.take().map(|waiting| waiting.back_to)
    }

    /// The generation to return to, if nobody has confirmed in time.
    pub(crate) fn overdue(&self) -> Option<u64> {
        let overdue = self.unconfirmed.filter(|waiting| waiting.until <= Instant::now());
        overdue.map(|waiting| waiting.back_to)
    }

    /// All that are kept, the latest last.
    pub(crate) fn show(&self) -> Vec<GenerationView> {
        let now = Instant::now();
        let left = self
            .unconfirmed
            .map(|waiting| waiting.until.saturating_duration_since(now));
        let view = |generation: &Generation| GenerationView {
            number: generation.number,
            age_ms: millis(now - generation.since),
            by: generation.by.clone(),
            changes: generation.changes.clone(),
            in_force: generation.number == self.number(),
            unconfirmed_ms: left.filter(|_| generation.number == self.number()).map(millis),
        };
        self.kept.iter().map(view).collect()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_generations_are_kept_and_found_by_their_numbers() {
        let mut all = Generations::new(Vec::new());
        all.find(None).expect_err("there is none before the first");
        for n in 2..=100 {
            all.push(
                Vec::new(),
                format!("change {n}"),
                vec![format!("what {n} changed")],
            );
        }
        let shown = all.show();
        let numbers: Vec<u64> = shown.iter().map(|view| view.number).collect();
        assert_eq!(numbers, (69..=100).collect::<Vec<_>>());
        assert!(shown.iter().all(|view| view.in_force == (view.number == 100)));
        assert_eq!(all.find(None).map(|found| found.number).ok(), Some(99));
        assert_eq!(
            all.find(Some(69)).map(|found| found.by).ok().as_deref(),
            Some("change 69")
        );
        let why = all.find(Some(68)).expect_err("it is no longer kept");
        assert_eq!(why.message, "generation 68 is not kept: 69 to 100 are");
    }

    #[test]
    fn a_change_that_waits_is_overdue_in_time_unless_it_is_confirmed() {
        let mut all = Generations::new(Vec::new());
        all.push(Vec::new(), "apply".into(), Vec::new());
        all.confirm_within(Duration::ZERO, 1);
        assert_eq!(all.overdue(), Some(1));
        all.refuse_unconfirmed().expect_err("it waits");
        assert_eq!((all.settle(), all.settle(), all.overdue()), (Some(1), None, None));
        all.refuse_unconfirmed().expect("it is settled");
        all.confirm_within(Duration::from_secs(3600), 1);
        assert_eq!(all.overdue(), None);
    }
}
