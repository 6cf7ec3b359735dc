//! The contract test: every registered kind, and every parent × child pair, under random
//! operations.
//!
//! What is checked after every call, against a ledger that does not trust the queue
//! (`contract/ledger.rs`, `contract/exam.rs`): each offered packet is queued, or has left exactly
//! once, unchanged, by `dequeue` or by the sink for a stated reason; packets and bytes are
//! conserved; a peeked packet comes next; a flush empties; a wait ends after now, no packet leaves
//! before it, and waiting leads to packets; empty means empty; flows stay in order; a drain drops
//! nothing; the same seed gives the same output, and neither inspecting nor retuning with the same
//! plan can be noticed; and all of it while settings change, and while a queue of any kind takes
//! the place of another, with its packets. Where a kind says that it takes over what another one
//! knows, nobody notices it (`contract/taking_over.rs`). Bursts give what single calls give
//! (`contract/bursts.rs`). Policies are drawn from the kinds' declarations
//! (`contract/policies.rs`), and a broken discipline of each sort proves that the test notices
//! (`contract/broken.rs`).
//!
//! Every run draws a new seed and prints it when something fails. To replay it set
//! `SUIMON_CONTRACT_SEED`; to search longer set `SUIMON_CONTRACT_ROUNDS` (policies for each kind
//! and pair, 12 by default) and `SUIMON_CONTRACT_OPERATIONS` (for each policy, 1,500 by default).

#[path = "contract/broken.rs"]
mod broken;
#[path = "contract/bursts.rs"]
mod bursts;
#[path = "contract/exam.rs"]
mod exam;
#[path = "contract/ledger.rs"]
mod ledger;
#[path = "contract/policies.rs"]
mod policies;
#[path = "contract/sound.rs"]
mod sound;
#[path = "contract/taking_over.rs"]
mod taking_over;

use broken::{FAULTS, Fault};
use engine::kind::{Children, Kind, QueuePlan};
use engine::random::Seed;
use engine::tree::Registry;
use exam::{Subject, examine};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

fn registry() -> Registry {
    Registry::builtin().with(&sound::SHAPER).with(&sound::SHORTEST)
}

/// A number from the environment.
fn given(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} must be a whole number; it is \"{text}\"")))
}

/// The seed of this run: given, or another one each time.
fn seed() -> u64 {
    given("SUIMON_CONTRACT_SEED").unwrap_or_else(|| RandomState::new().hash_one("contract"))
}

fn operations() -> u32 {
    given("SUIMON_CONTRACT_OPERATIONS").map_or(1_500, |n| n.try_into().unwrap_or(u32::MAX))
}

/// Examines random policies of this kind, with `child` below it.
fn pass(kind: &Kind, child: Option<&Kind>) {
    let registry = registry();
    let base = seed();
    let name = child.map_or(kind.name.into(), |child| {
        format!("{} over {}", kind.name, child.name)
    });
    for round in 0..given("SUIMON_CONTRACT_ROUNDS").unwrap_or(12) {
        let seed = Seed(base).fork(&name).fork(&round.to_string());
        let policies::Policy { spec, plan, other } =
            policies::draw(&registry, kind, child, seed.fork("policy"));
        let subject = Subject {
            classes: u32::try_from(plan.classes.len()).expect("few classes"),
            queue: plan.root,
            other: other.root,
            foreign: policies::draw_any(&registry, seed.fork("foreign")).plan.root,
        };
        // A burst is some twenty operations.
        let outcome = examine(&subject, seed, operations())
            .and_then(|()| bursts::compare(&subject, seed, operations() / 20))
            .and_then(|()| {
                match taking_over::takes_over(&registry, &spec) || taking_over::keeps_turns(&registry, &spec)
                {
                    true => taking_over::compare(&subject, seed, operations() / 20),
                    false => Ok(()),
                }
            });
        if let Err(fault) = outcome {
            panic!(
                "{name}: {fault}\npolicy: {spec:#?}\nround {round}; to replay: SUIMON_CONTRACT_SEED={base} \
                 SUIMON_CONTRACT_OPERATIONS={} cargo test -p engine --test contract",
                operations()
            );
        }
    }
}

#[test]
fn every_kind_keeps_the_contract() {
    for kind in registry().kinds() {
        pass(kind, None);
    }
}

#[test]
fn every_kind_keeps_the_contract_below_every_other() {
    let registry = registry();
    for parent in registry.kinds().filter(|kind| kind.children != Children::None) {
        for child in registry.kinds() {
            pass(parent, Some(child));
        }
    }
}

#[test]
fn every_registered_kind_has_values_and_no_other() {
    for kind in registry().kinds() {
        assert!(
            policies::VALUES.iter().any(|(name, _)| *name == kind.name),
            "kind `{0}` is registered, but the contract test does not know it: add a line (\"{0}\", &[]) to VALUES \
             in tests/contract/policies.rs",
            kind.name
        );
    }
    for (name, _) in policies::VALUES {
        assert!(
            registry().find(name).is_some(),
            "VALUES in tests/contract/policies.rs knows `{name}`, which is not registered"
        );
    }
}

/// Some seeds each: a fault may take a while to show.
fn examine_fault(fault: Fault) -> Result<(), String> {
    let queue = QueuePlan {
        kind: &broken::KIND,
        plan: Arc::new(fault),
    };
    let (other, foreign) = (queue.clone(), queue.clone());
    let subject = Subject {
        queue,
        other,
        foreign,
        classes: 0,
    };
    let base = Seed(seed()).fork("broken");
    (0..8).try_for_each(|round| examine(&subject, base.fork(&round.to_string()), 1_500))
}

#[test]
fn a_broken_discipline_of_each_sort_is_noticed() {
    assert_eq!(
        examine_fault(Fault::None),
        Ok(()),
        "the sound one of the broken ones"
    );
    for (fault, message) in FAULTS {
        let found = examine_fault(*fault).expect_err(&format!("{fault:?} was not noticed"));
        assert!(
            message.split('|').any(|words| found.contains(words)),
            "{fault:?} was noticed by other words: {found}"
        );
    }
}
