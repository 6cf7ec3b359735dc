//! The expectations of a running policy, judged again and again while it runs.
//!
//! Each time `over` has its reading of all counters at its beginning, and is judged by the one at
//! its end, which begins the next. So a fault shows at most two such times after it began. Nothing
//! is read for a policy without expectations.

use control::expectations::{ExpectationView, WatchedExpectation};
use control::judged;
use control::snapshot::{InterfaceView, Reading, Snapshot};
use engine::units::{Duration, Instant};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The name of an interface, and what is expected of it.
pub type ExpectedOf = (String, Arc<[WatchedExpectation]>);

/// A time that is measured, of the expectations of one interface with this `over`.
#[derive(Clone, Debug)]
struct Measured {
    interface: String,
    over: Duration,
    expectations: Vec<WatchedExpectation>,
    from: Arc<Reading>,
    began: Instant,
}

impl Measured {
    /// Whether it measures the same.
    fn is(&self, interface: &str, over: Duration, expectations: &[WatchedExpectation]) -> bool {
        self.interface == interface && self.over == over && self.expectations == expectations
    }

    fn is_over(&self, now: Instant) -> bool {
        now.since(self.began) >= self.over
    }
}

/// How the expectations of all interfaces stand.
#[derive(Debug, Default)]
pub struct Expected {
    measured: Mutex<Vec<Measured>>,
    /// By interface.
    verdicts: Mutex<BTreeMap<String, Vec<ExpectationView>>>,
}

impl Expected {
    /// Looks at this time whether times have ended, and judges them; `read` reads the counters.
    /// What has changed since the last look is logged.
    pub fn look(&self, now: Instant, policies: &[ExpectedOf], read: impl FnOnce() -> Option<Reading>) {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: Vec<_> = policies.iter().flat_map(by_time).collect();
        let due = |(name, over, expectations): &(String, Duration, Vec<WatchedExpectation>)| {
            let known = measured.iter().find(|one| one.is(name, *over, expectations));
            known.is_none_or(|one| one.is_over(now))
        };
        if !wanted.iter().any(due) && measured.len() == wanted.len() {
            return;
        }
        // Without a reading the worker does not answer, which `enforced` tells.
        let Some(reading) = read().map(Arc::new) else {
            return;
        };
        let mut ended = Vec::new();
        let next = wanted.into_iter().map(|(interface, over, expectations)| {
            let known = measured
                .iter()
                .find(|one| one.is(&interface, over, &expectations));
            match known {
                Some(known) if !known.is_over(now) => known.clone(),
                known => {
                    ended.extend(known.cloned());
                    Measured {
                        interface,
                        over,
                        expectations,
                        from: Arc::clone(&reading),
                        began: now,
                    }
                }
            }
        });
        *measured = next.collect();
        let judged = ended.iter().flat_map(|one| judge(one, &reading)).collect();
        self.keep(policies, judged);
    }

    /// Keeps the verdicts of what is expected now, and logs what is new in them.
    fn keep(&self, policies: &[ExpectedOf], judged: Vec<(String, ExpectationView)>) {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = BTreeMap::new();
        for (interface, expectations) in policies
            .iter()
            .filter(|(_, expectations)| !expectations.is_empty())
        {
            let before = verdicts.get(interface).map_or(&[][..], Vec::as_slice);
            let views = expectations.iter().map(|expectation| {
                let none = expectation.not_judged();
                let is = |view: &&ExpectationView| view.what == none.what && view.expected == none.expected;
                let mut of = judged.iter().filter(|(name, _)| name == interface);
                let fresh = of.find_map(|(_, view)| Some(view).filter(is));
                let old = before.iter().find(is);
                let was_met = old.is_none_or(|old| old.met);
                match fresh.filter(|fresh| fresh.met != was_met) {
                    Some(fresh) if fresh.met => tracing::info!(interface, "{interface}: met again: {fresh}"),
                    Some(fresh) => tracing::warn!(interface, "{interface}: missed: {fresh}"),
                    None => {}
                }
                fresh.or(old).cloned().unwrap_or(none)
            });
            next.insert(interface.clone(), views.collect::<Vec<_>>());
        }
        *verdicts = next;
    }

    /// How those of an interface stand.
    pub fn of(&self, interface: &str) -> Vec<ExpectationView> {
        let verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        verdicts.get(interface).cloned().unwrap_or_default()
    }
}

/// The expectations of an interface, by their times.
fn by_time((interface, expectations): &ExpectedOf) -> Vec<(String, Duration, Vec<WatchedExpectation>)> {
    let mut times: BTreeMap<Duration, Vec<WatchedExpectation>> = BTreeMap::new();
    for expectation in expectations.iter() {
        times
            .entry(expectation.over)
            .or_default()
            .push(expectation.clone());
    }
    let named = times
        .into_iter()
        .map(|(over, all)| (interface.clone(), over, all));
    named.collect()
}

fn judge(measured: &Measured, now: &Reading) -> Vec<(String, ExpectationView)> {
    let view = |of: Snapshot| -> Option<InterfaceView> {
        let mut interfaces = of.interfaces.into_iter();
        interfaces.find(|interface| interface.name == measured.interface)
    };
    let (before, now) = (measured.from.snapshot(None), now.snapshot(Some(&measured.from)));
    let Some((before, now)) = view(before).zip(view(now)) else {
        return Vec::new();
    };
    let judged = measured
        .expectations
        .iter()
        .map(|one| judged::judge(one, &before, &now));
    judged.map(|view| (measured.interface.clone(), view)).collect()
}
