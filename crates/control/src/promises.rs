//! What a change does to the promises of an interface: the rate that each class is guaranteed, and
//! the bound on its delay. A class that nobody edits may lose by a change of another.
//!
//! The bounds are those that `suimon check` shows ([`engine::bounds`]); the rates are what the tree
//! serves at least, or where it states none, what the policy's own settings guarantee.

use crate::policy::InterfacePolicy;
use engine::bounds;
use engine::packet::ClassId;
use engine::units::{Bandwidth, Duration, Probability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a class is promised.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Promise {
    /// The rate that it gets at least whenever it has packets, in bit/s as the link counts; none if
    /// none is guaranteed.
    pub rate_bps: Option<u64>,
    /// The bandwidth of the link, of which the rate is a share; of one that varies the least.
    pub link_bps: u64,
    /// The bound on the time from a packet's arrival to its last bit on the link, in nanoseconds;
    /// none if nothing is known.
    pub delay_ns: Option<u64>,
}

/// How a promise changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Trend {
    /// A rate or a bound is gone.
    Lost,
    /// A rate is lower, or a bound longer.
    Worse,
    /// Neither.
    Better,
}

/// The promise of a class that changes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PromiseChange {
    /// The interface.
    pub interface: String,
    /// The class; none for a discipline without classes.
    pub class: Option<String>,
    /// How.
    pub trend: Trend,
    /// The promise before; none if there was no such class.
    pub before: Option<Promise>,
    /// The promise after; none if there is no such class any more.
    pub after: Option<Promise>,
}

/// Very many classes whose guaranteed rates change by one factor: each keeps its part, and the sum
/// of all parts is another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SharesChange {
    /// The interface.
    pub interface: String,
    /// How many they are: all but those that are named.
    pub classes: u64,
    /// How.
    pub trend: Trend,
    /// The sum of the parts of all classes of the interface before.
    pub whole_before: u64,
    /// The sum after: each rate is that of before, times `whole_before`, divided by `whole_after`.
    pub whole_after: u64,
}

/// What a change does to the promises of an interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChangedPromises {
    /// Of single classes, the lost ones first.
    pub classes: Vec<PromiseChange>,
    /// Of very many others, if they change alike.
    pub shares: Option<SharesChange>,
}

/// So many classes that change alike are named one by one.
const FEW: u64 = 32;

/// Promises, by the class.
type Promises = BTreeMap<Option<String>, Promise>;

/// The promises of a policy in which reservations may have classes.
fn promises(policy: &InterfacePolicy) -> Promises {
    let stated: BTreeMap<_, _> = policy.guarantees().into_iter().collect();
    by_class(policy, policy.bounds(), |class| stated.get(&class).copied())
}

/// The promise of this class of the outermost discipline; nothing if there is none. `None` if
/// it depends on other classes, theirs on it, or others are in its queue.
fn promise_of(policy: &InterfacePolicy, class: &str) -> Option<Promises> {
    let Some(class) = policy.plan.class(class) else {
        return Some(Promises::new());
    };
    let cases = policy.plan.bounds_of(class).filter(|cases| cases.len() <= 1)?;
    Some(by_class(policy, cases, |class| policy.guarantee(class)))
}

fn by_class(
    policy: &InterfacePolicy,
    cases: Vec<bounds::WorstCase>,
    stated: impl Fn(ClassId) -> Option<Bandwidth>,
) -> Promises {
    let (plan, link) = (&policy.plan, policy.least_rate());
    let rate = |class: Option<ClassId>| {
        let served = plan.root.plan.serves(class, link);
        served.or_else(|| stated(class?))
    };
    let promise = |case: bounds::WorstCase| {
        let name = case.class.and_then(|class| plan.info(class));
        let promise = Promise {
            rate_bps: rate(case.class).map(Bandwidth::bits),
            link_bps: link.bits(),
            delay_ns: case.bound.ok().map(|bound| bound.delay.nanos()),
        };
        (name.map(|info| info.name.to_string()), promise)
    };
    cases.into_iter().map(promise).collect()
}

/// Which promises change where this policy replaces that one.
pub fn changes(old: &InterfacePolicy, new: &InterfacePolicy) -> ChangedPromises {
    let [mut before, mut after] = [old, new].map(promises);
    let keeps = |class: &Option<String>| {
        let part = |policy: &InterfacePolicy| {
            let class = policy.plan.class(class.as_ref()?)?;
            policy.plan.part_of(class).filter(|part| *part > 0)
        };
        part(old).is_some_and(|old| part(new) == Some(old))
    };
    let shares = other_whole(old, new).and_then(|whole| {
        let keeping = before.keys().filter(|class| keeps(class)).count();
        shares_change(&new.name, keeping as u64, whole)
    });
    if shares.is_some() {
        before.retain(|class, _| !keeps(class));
        after.retain(|class, _| !keeps(class));
    }
    ChangedPromises {
        classes: between(&new.name, &before, &after),
        shares,
    }
}

/// The same where they differ in one class alone, whose rate does not vary; both may have
/// [places](engine::tree::ClassSpec::vacant) for others. In a time that hardly grows with the
/// number of classes. `None` if only a look at all can tell.
pub fn changes_of_class(
    old: &InterfacePolicy,
    new: &InterfacePolicy,
    class: &str,
) -> Option<ChangedPromises> {
    if let [Some(before), Some(after)] = [old, new].map(|policy| promise_of(policy, class)) {
        return Some(ChangedPromises {
            classes: between(&new.name, &before, &after),
            shares: None,
        });
    }
    let others = |policy: &InterfacePolicy| {
        let own = u64::from(policy.plan.class(class).is_some());
        policy.plan.shares()?.classes.checked_sub(own)
    };
    let keeping = others(new).filter(|keeping| others(old) == Some(*keeping))?;
    let shares = match other_whole(old, new) {
        Some(whole) => Some(shares_change(&new.name, keeping, whole)?),
        None => None,
    };
    let [before, after] = [old, new].map(|policy| share_of(policy, class));
    Some(ChangedPromises {
        classes: between(&new.name, &before, &after),
        shares,
    })
}

/// The promise of this class of the outermost discipline, where each is promised its part of a
/// whole and nothing else; nothing if there is none.
fn share_of(policy: &InterfacePolicy, class: &str) -> Promises {
    let case = |class: ClassId| bounds::WorstCase {
        class: Some(class),
        bound: Err("no class states what it sends".into()),
    };
    let own = policy.plan.class(class).map(case);
    by_class(policy, own.into_iter().collect(), |class| policy.guarantee(class))
}

/// The sums of all parts before and after, where the classes of both are promised their part of the
/// same link and nothing else, and these sums differ.
fn other_whole(old: &InterfacePolicy, new: &InterfacePolicy) -> Option<[u64; 2]> {
    let [before, after] = [old, new].map(|policy| policy.plan.shares());
    let whole = [before?.whole, after?.whole];
    let same_link = old.least_rate() == new.least_rate();
    (same_link && whole[0] != whole[1]).then_some(whole)
}

/// The change of so many classes that keep their parts, unless they are few.
fn shares_change(interface: &str, classes: u64, [before, after]: [u64; 2]) -> Option<SharesChange> {
    (classes > FEW).then(|| SharesChange {
        interface: interface.to_owned(),
        classes,
        trend: if after > before {
            Trend::Worse
        } else {
            Trend::Better
        },
        whole_before: before,
        whole_after: after,
    })
}

fn between(interface: &str, old: &Promises, new: &Promises) -> Vec<PromiseChange> {
    let nothing = Promise::default();
    let change = |class: &&Option<String>| {
        let (before, after) = (old.get(*class), new.get(*class));
        let trend = trend(before.unwrap_or(&nothing), after.unwrap_or(&nothing))?;
        Some(PromiseChange {
            interface: interface.to_owned(),
            class: (*class).clone(),
            trend,
            before: before.cloned(),
            after: after.cloned(),
        })
    };
    let classes: BTreeSet<&Option<String>> = old.keys().chain(new.keys()).collect();
    let mut all: Vec<_> = classes.iter().filter_map(change).collect();
    all.sort_by_key(|change| change.trend);
    all
}

/// How a promise changes, if it does.
fn trend(before: &Promise, after: &Promise) -> Option<Trend> {
    let gone = |before: Option<u64>, after: Option<u64>| before.unwrap_or(0) > 0 && after.is_none();
    let both = |before: Option<u64>, after: Option<u64>| before.zip(after);
    let share = |promise: &Promise| promise.share();
    if gone(before.rate_bps, after.rate_bps) || before.delay_ns.is_some() && after.delay_ns.is_none() {
        return Some(Trend::Lost);
    }
    let slower = both(before.rate_bps, after.rate_bps).is_some_and(|(before, after)| after < before);
    let later = both(before.delay_ns, after.delay_ns).is_some_and(|(before, after)| after > before);
    if slower || later {
        return Some(Trend::Worse);
    }
    let rates_differ = before.rate_bps.unwrap_or(0) != after.rate_bps.unwrap_or(0);
    let differs = rates_differ || share(before) != share(after) || before.delay_ns != after.delay_ns;
    differs.then_some(Trend::Better)
}

impl Promise {
    /// The rate as a share of the link; none without a rate.
    pub fn share(&self) -> Option<Probability> {
        let rate = self.rate_bps.filter(|rate| *rate > 0)?;
        Some(Probability::ratio(rate, self.link_bps))
    }

    fn rate_words(&self) -> String {
        match (self.rate_bps, self.share()) {
            (Some(rate), Some(share)) => {
                let share = measure::numbers::share(share.as_f64());
                format!("{} ({share})", measure::numbers::rate(rate))
            }
            _ => "none".into(),
        }
    }

    fn delay_words(&self) -> String {
        let delay = self.delay_ns.map(Duration::from_nanos);
        delay.map_or("none".into(), |delay| bounds::shown(delay).to_string())
    }
}

impl fmt::Display for PromiseChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.interface)?;
        match &self.class {
            Some(class) => write!(f, "class {class}: ")?,
            None => f.write_str("all: ")?,
        }
        let nothing = Promise::default();
        let [before, after] = [&self.before, &self.after].map(|one| one.as_ref().unwrap_or(&nothing));
        let mut parts = Vec::new();
        let mut differs = |what: &str, before: String, after: String| {
            if before != after {
                parts.push(format!("{what} {before} → {after}"));
            }
        };
        differs("guaranteed rate", before.rate_words(), after.rate_words());
        differs("bound on delay", before.delay_words(), after.delay_words());
        // Less than is shown.
        if parts.is_empty() {
            parts.push("by less than the shown digits".into());
        }
        write!(f, "{}{}", self.trend.word(), parts.join(", "))
    }
}

impl fmt::Display for SharesChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Of a rate of which less is left, it is said what is left.
        const LITTLE: f64 = 0.01;
        let [before, after] = [self.whole_before, self.whole_after].map(|whole| whole as f64);
        let (left, differs) = (
            before / after,
            self.whole_after.abs_diff(self.whole_before) as f64 / after,
        );
        let share = measure::numbers::small_share;
        let rates = match self.whole_after > self.whole_before {
            true if left < LITTLE => format!("{} of what it was,", share(left)),
            true => format!("{} less", share(differs)),
            false => format!("{} more", share(differs)),
        };
        let Self {
            interface, classes, ..
        } = self;
        let word = self.trend.word();
        write!(
            f,
            "{interface}: {classes} other classes: {word}guaranteed rate {rates} each"
        )
    }
}

impl Trend {
    /// What is said before a change.
    fn word(self) -> &'static str {
        match self {
            Self::Lost => "LOST: ",
            Self::Worse => "worse: ",
            Self::Better => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use engine::tree::Registry;

    fn policy(text: &str) -> InterfacePolicy {
        let head = "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\n";
        let read = Policy::read("test", &format!("{head}{text}"), &Registry::builtin(), &[]);
        read.unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)))
            .interfaces
            .remove(0)
    }

    fn said(old: &str, new: &str) -> Vec<String> {
        let changes = changes(&policy(old), &policy(new));
        assert_eq!(changes.shares, None);
        changes.classes.iter().map(ToString::to_string).collect()
    }

    fn class(name: &str, settings: &str) -> String {
        format!("[[interface.wan0.class]]\nname = \"{name}\"\n{settings}\n")
    }

    #[test]
    fn a_class_that_nobody_edits_is_told_its_longer_bound_and_its_smaller_share() {
        let sends = "sends = { rate = \"1 Mbit/s\", burst = \"3 kB\" }";
        let tree = |bulk: u32| {
            let voice = class("voice", &format!("weight = 2\n{sends}"));
            let bulk = class("bulk", &format!("weight = {bulk}\ndefault = true"));
            format!("discipline = \"drr\"\n{voice}{bulk}")
        };
        let said = said(&tree(2), &tree(6));
        assert_eq!(said.len(), 2, "{said:?}");
        let voice =
            "wan0: class voice: worse: guaranteed rate 5 Mbit/s (50 %) → 2.5 Mbit/s (25 %), bound on delay ";
        assert!(said[0].starts_with(voice), "{said:?}");
        assert_eq!(
            said[1],
            "wan0: class bulk: guaranteed rate 5 Mbit/s (50 %) → 7.5 Mbit/s (75 %)"
        );
    }

    #[test]
    fn the_bounds_are_those_of_check_and_what_is_lost_comes_first() {
        let sends = "sends = { rate = \"2 Mbit/s\", burst = \"6 kB\" }";
        let tree = |own: &str| {
            let before = class("bulk", "priority = 1\ndefault = true");
            let voice = class("voice", &format!("priority = 7\n{own}"));
            format!("discipline = \"priq\"\n{before}{voice}")
        };
        let (old, new) = (policy(&tree(sends)), policy(&tree("")));
        let bound = old.plan.bounds()[1].bound.clone().expect("a bound").delay;
        let all = changes(&old, &new).classes;
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(all[0].trend, Trend::Lost);
        let delay = |promise: &Option<Promise>| promise.as_ref().and_then(|promise| promise.delay_ns);
        assert_eq!(
            (delay(&all[0].before), delay(&all[0].after)),
            (Some(bound.nanos()), None)
        );
        // The other way round it is no loss.
        assert_eq!(changes(&new, &old).classes[0].trend, Trend::Better);
        assert_eq!(changes(&old, &old), ChangedPromises::default());
    }

    #[test]
    fn a_class_that_goes_loses_its_rate_and_more_of_the_link_for_all_is_said_of_each() {
        let tree = |more: &str| {
            let rest = class("rest", "rate = \"4 Mbit/s\"\ndefault = true");
            format!("discipline = \"cbq\"\n{more}{rest}")
        };
        let with = tree(&class("calls", "rate = \"2 Mbit/s\""));
        let gone = said(&with, &tree(""));
        assert_eq!(
            gone,
            ["wan0: class calls: LOST: guaranteed rate 2 Mbit/s (20 %) → none"]
        );
        assert_eq!(
            said(&tree(""), &with),
            ["wan0: class calls: guaranteed rate none → 2 Mbit/s (20 %)"]
        );
    }
}
