//! What a policy differs in from the one in force, in words; and what of it cannot be changed while
//! the program runs.

use crate::autorate::AutorateConfig;
use crate::begins_anew::ClassesAnew;
use crate::expectations::WatchedExpectation;
use crate::filters;
use crate::policy::{InterfacePolicy, Policy};
use crate::port_config::PortConfig;
use crate::promises::{ChangedPromises, PromiseChange, SharesChange};
use crate::provenance::Provenance;
use crate::quota::Quota;
use crate::readout;
use crate::rsvp_config::RsvpConfig;
use engine::classify::Filter;
use engine::packet::ClassId;
use engine::tree::{ClassSpec, DisciplineSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

/// What a change of the policy in force would do.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// What would change, a line each: `wan0: class calls: rate 4 Mbit/s → 5 Mbit/s`.
    pub changes: Vec<String>,
    /// What of it a running program cannot change.
    pub needs_restart: Vec<String>,
    /// Why it would be refused, or what it breaks: reservations in force that lose what they were
    /// promised.
    #[serde(default)]
    pub breaks: Vec<String>,
    /// What else it means for reservations: that no other is admitted, since those in force take
    /// more than may be reserved then.
    #[serde(default)]
    pub short: Vec<String>,
    /// What it does to the promises of classes, those of reservations included.
    #[serde(default)]
    pub promises: Vec<PromiseChange>,
    /// What it does to the promises of very many other classes, where that is alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<SharesChange>,
    /// Classes that stay and do not keep all that they have: of a `plan`, by a rehearsal without
    /// packets; after an `apply`, as it was done. All others keep all.
    #[serde(default)]
    pub begins_anew: Vec<ClassesAnew>,
    /// After an `apply`: what does not run as it was asked, or has no effect, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_enforced: Vec<String>,
}

/// Whether a change may break what reservations in force were promised; `true` or `false` in JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(from = "bool", into = "bool")]
pub enum Breaking {
    /// Such a change is refused.
    #[default]
    Refused,
    /// It is put into force all the same.
    Allowed,
}

impl Breaking {
    /// Whether it may not.
    pub fn is_refused(&self) -> bool {
        *self == Self::Refused
    }
}

impl From<bool> for Breaking {
    fn from(allowed: bool) -> Self {
        match allowed {
            true => Self::Allowed,
            false => Self::Refused,
        }
    }
}

impl From<Breaking> for bool {
    fn from(breaking: Breaking) -> Self {
        !breaking.is_refused()
    }
}

/// What was put into force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Applied {
    /// What was done, and what it cost.
    pub message: String,
    /// What differed, and what that does to promises.
    pub difference: Difference,
}

/// What is or was in force after a change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GenerationView {
    /// Its number: 1 is what the program began with.
    pub number: u64,
    /// For how long it has been, or since when.
    pub age_ms: u64,
    /// The request that made it.
    pub by: String,
    /// Who asked for it, and why.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// What that changed.
    pub changes: Vec<String>,
    /// Whether it is in force.
    pub in_force: bool,
    /// The time that is left to confirm it; none if it need not be.
    pub unconfirmed_ms: Option<u64>,
}

impl Difference {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.needs_restart.is_empty()
    }

    /// What it does to reservations and promises, what begins anew, and what of it has no effect, a
    /// line each; the worst first.
    pub fn effects(&self) -> Vec<String> {
        let single = self.promises.iter().map(|one| (one.trend, one.to_string()));
        let shares = self.shares.iter().map(|many| (many.trend, many.to_string()));
        let mut promises: Vec<_> = single.chain(shares).collect();
        promises.sort_by_key(|(trend, _)| *trend);
        let promises = promises.into_iter().map(|(_, said)| said);
        let reservations = self.breaks.iter().chain(&self.short).cloned();
        let lacking = self.not_enforced.iter().cloned();
        let anew = self.begins_anew.iter().map(ToString::to_string);
        lacking.chain(reservations).chain(promises).chain(anew).collect()
    }

    /// Adds what it does to the promises of an interface.
    pub fn add_promises(&mut self, changes: ChangedPromises) {
        self.promises.extend(changes.classes);
        self.promises.sort_by_key(|change| change.trend);
        self.shares.extend(changes.shares);
        self.shares.sort_by_key(|change| change.trend);
    }

    /// Of these interfaces, ports and RSVP settings in force, and another policy.
    pub fn between<'a>(
        in_force: impl IntoIterator<Item = &'a InterfacePolicy>,
        port: Option<&PortConfig>,
        rsvp: Option<&RsvpConfig>,
        new: &Policy,
    ) -> Self {
        let mut all = Self::default();
        let mut known = HashSet::new();
        for old in in_force {
            known.insert(old.name.as_str());
            match new.interface(&old.name) {
                Some(new) => {
                    let Self {
                        changes,
                        needs_restart,
                        ..
                    } = Self::of(old, new);
                    all.changes.extend(changes);
                    all.needs_restart.extend(needs_restart);
                }
                None => all.restart(&old.name, "it is no longer managed"),
            }
        }
        let added = new.interfaces.iter();
        for added in added.filter(|interface| !known.contains(interface.name.as_str())) {
            all.restart(&added.name, "it is not managed yet");
        }
        if port.map(ports) != new.port.as_ref().map(ports) {
            all.restart("[port]", "its settings differ");
        }
        if rsvp != new.rsvp.as_ref() {
            all.restart("[rsvp]", "its settings differ");
        }
        all
    }

    fn restart(&mut self, what: &str, why: &str) {
        self.needs_restart.push(format!("{what}: {why}"));
    }

    /// Of the policies of one interface that differ in this class of the outermost discipline
    /// alone, and in its filters: those that go and those that come.
    pub fn of_class(
        old: &InterfacePolicy,
        new: &InterfacePolicy,
        class: &str,
        [gone, come]: [Vec<Filter>; 2],
    ) -> Self {
        Self::of(
            &with_class_alone(old, class, gone),
            &with_class_alone(new, class, come),
        )
    }

    /// Of the policies of one interface.
    pub fn of(old: &InterfacePolicy, new: &InterfacePolicy) -> Self {
        let mut all = Self::default();
        let name = new.name.as_str();
        let mut changes = Vec::new();
        let differs =
            |key: &str, old: String, new: String| (old != new).then(|| format!("{key} {old} → {new}"));
        let (before, after) = (&old.settings, &new.settings);
        let rates = (before.bandwidth.to_string(), after.bandwidth.to_string());
        changes.extend(differs("bandwidth", rates.0, rates.1));
        changes.extend(differs(
            "discipline",
            readout::discipline(&old.spec),
            readout::discipline(&new.spec),
        ));
        let autorate = |policy: &InterfacePolicy| {
            let words = |of: &AutorateConfig| of.words(policy.settings.bandwidth);
            policy.autorate.as_ref().map_or("none".into(), words)
        };
        changes.extend(differs("autorate", autorate(old), autorate(new)));
        classes(&old.spec, &new.spec, &mut changes);
        of_filters(old, new, &mut changes);
        let reserve = |policy: &InterfacePolicy| {
            policy
                .reserve
                .as_ref()
                .map(|reserve| format!("{:?}", reserve.settings))
        };
        of_expectations(old, new, &mut changes);
        of_quotas(old, new, &mut changes);
        if reserve(old) != reserve(new) {
            changes.push("reserve: other settings".into());
        }
        all.changes
            .extend(changes.into_iter().map(|what| format!("{name}: {what}")));
        for why in unchangeable(old, new) {
            all.restart(name, &why);
        }
        all
    }
}

/// Where and how the ports are attached, without the positions in a text.
fn ports(port: &PortConfig) -> String {
    let attached: Vec<_> = port
        .attached
        .iter()
        .map(|port| (port.kind_name(), &port.attachment))
        .collect();
    format!(
        "{attached:?} {:?} {}",
        port.settings,
        readout::settings(&port.own, &[])
    )
}

/// A policy with this class alone, and these of its filters.
fn with_class_alone(policy: &InterfacePolicy, class: &str, filters: Vec<Filter>) -> InterfacePolicy {
    let number = policy.plan.class(class);
    let own = number.and_then(|number| policy.spec.classes.get(number.0 as usize));
    InterfacePolicy {
        spec: Arc::new(DisciplineSpec {
            classes: own.into_iter().cloned().collect(),
            ..DisciplineSpec::clone(&policy.spec)
        }),
        filters: Arc::new(filters.into()),
        ..policy.clone()
    }
}

/// A class and the class in whose queue its discipline is.
struct Placed<'a> {
    class: &'a ClassSpec,
    owner: Option<&'a str>,
}

impl Placed<'_> {
    /// The class above it; none at the top.
    fn parent(&self) -> Option<&str> {
        self.class.parent_name().or(self.owner)
    }

    /// Whether it is said of both in the same words: there is nothing to compare.
    fn is_same(&self, other: &Self) -> bool {
        self.owner == other.owner && self.class.says_as(other.class)
    }

    /// Its settings and what is said of it beside them, by name.
    fn facts(&self) -> Vec<(&str, String)> {
        let class = self.class;
        let mut facts = Vec::new();
        facts.extend(self.parent().map(|parent| ("parent", parent.to_owned())));
        let entries = class.settings.entries.iter();
        facts.extend(entries.map(|entry| (&*entry.key, entry.value.to_string())));
        facts.extend(
            class
                .discipline
                .iter()
                .map(|spec| ("discipline", readout::discipline(spec))),
        );
        let sends = class.sends.iter();
        facts.extend(sends.map(|sends| ("sends", format!("{} and {} at once", sends.rate, sends.burst))));
        facts.extend(class.default.then(|| ("default", "true".to_owned())));
        facts
    }
}

/// All classes of a tree by name, and their names in order.
fn placed<'a>(spec: &'a DisciplineSpec, owner: Option<&'a str>, out: &mut Vec<Placed<'a>>) {
    let classes = || spec.classes.iter().filter(|class| !class.vacant);
    out.extend(classes().map(|class| Placed { class, owner }));
    for class in classes() {
        if let Some(inner) = &class.discipline {
            placed(inner, Some(&class.name), out);
        }
    }
    spec.child.iter().for_each(|child| placed(child, owner, out));
}

fn classes(old: &DisciplineSpec, new: &DisciplineSpec, out: &mut Vec<String>) {
    let list = |spec| {
        let mut all = Vec::new();
        placed(spec, None, &mut all);
        all
    };
    let (old, new) = (list(old), list(new));
    fn by_name<'a>(all: &[Placed<'a>]) -> HashMap<&'a str, usize> {
        let names = all.iter().enumerate();
        names
            .map(|(place, placed)| (placed.class.name.as_str(), place))
            .collect()
    }
    let (before, after) = (by_name(&old), by_name(&new));
    for placed in &new {
        let name = placed.class.name.as_str();
        let found = before.get(name).map(|&place| &old[place]);
        if found.is_some_and(|former| former.is_same(placed)) {
            continue;
        }
        let facts = placed.facts();
        let Some(former) = found else {
            let facts: Vec<_> = facts
                .iter()
                .map(|(key, value)| format!("{key} {value}"))
                .collect();
            out.push(
                format!("new class {name}: {}", facts.join(", "))
                    .trim_end_matches(": ")
                    .to_owned(),
            );
            continue;
        };
        let changed = changed(&former.facts(), &facts);
        if !changed.is_empty() {
            out.push(format!("class {name}: {}", changed.join(", ")));
        }
    }
    let gone = old.iter().map(|placed| &placed.class.name);
    let gone = gone.filter(|name| !after.contains_key(name.as_str()));
    out.extend(gone.map(|name| format!("class {name} goes; its packets go where filters now put them")));
}

/// `rate 4 Mbit/s → 5 Mbit/s`
fn changed(former: &[(&str, String)], now: &[(&str, String)]) -> Vec<String> {
    let value = |facts: &[(&str, String)], key: &str| {
        let found = facts.iter().find(|(known, _)| *known == key);
        found.map(|(_, value)| value.clone())
    };
    let unset = || "not set".to_owned();
    let mut all = Vec::new();
    for (key, new) in now {
        let old = value(former, key);
        if old.as_ref() != Some(new) {
            all.push(format!("{key} {} → {new}", old.unwrap_or_else(unset)));
        }
    }
    let dropped = former.iter().filter(|(key, _)| value(now, key).is_none());
    all.extend(dropped.map(|(key, old)| format!("{key} {old} → {}", unset())));
    all
}

fn of_expectations(old: &InterfacePolicy, new: &InterfacePolicy, out: &mut Vec<String>) {
    let words = |policy: &InterfacePolicy| -> Vec<String> {
        let words = |of: &WatchedExpectation| format!("{}: {}", of.what(), of.bounds.words(of.metric.unit()));
        policy.expectations.iter().map(words).collect()
    };
    came_and_went(&words(old), &words(new), |one| format!("expectation {one}"), out);
}

fn of_quotas(old: &InterfacePolicy, new: &InterfacePolicy, out: &mut Vec<String>) {
    let words = |policy: &InterfacePolicy| -> Vec<String> {
        let words = |of: &Quota| format!("{}: {}", of.class, of.words());
        policy.quotas.iter().map(words).collect()
    };
    came_and_went(&words(old), &words(new), |one| format!("quota of {one}"), out);
}

/// What only one of two lists has, and whether they have the same, in whatever order.
fn came_and_went<T: Eq + Hash>(
    old: &[T],
    new: &[T],
    words: impl Fn(&T) -> String,
    out: &mut Vec<String>,
) -> bool {
    let [before, after] = [old, new].map(|list| list.iter().collect::<HashSet<_>>());
    let added = new.iter().filter(|one| !before.contains(one));
    out.extend(added.map(|one| format!("new {}", words(one))));
    let gone = old.iter().filter(|one| !after.contains(one));
    out.extend(gone.map(|one| format!("{} goes", words(one))));
    before == after
}

fn of_filters(old: &InterfacePolicy, new: &InterfacePolicy, out: &mut Vec<String>) {
    // A filter by its class's name, since numbers are those of one tree.
    fn list(policy: &InterfacePolicy) -> Vec<(Filter, &str)> {
        let named = |filter: &Filter| {
            let name = policy.plan.info(filter.class).map_or("", |info| &*info.name);
            let class = ClassId(0);
            (Filter { class, ..*filter }, name)
        };
        policy.filters.iter().map(named).collect()
    }
    let text = |(filter, class): &(Filter, &str)| {
        let rule = match filter.rule {
            0 => String::new(),
            rule => format!(", rule {rule}"),
        };
        format!("filter {}{rule} → {class}", filters::words(filter))
    };
    let (old, new) = (list(old), list(new));
    if old == new {
        return;
    }
    if came_and_went(&old, &new, text, out) {
        out.push("filters: another order, which decides between equally specific ones".into());
    }
}

/// What of an interface a running program cannot change.
fn unchangeable(old: &InterfacePolicy, new: &InterfacePolicy) -> Vec<String> {
    let mut all = Vec::new();
    let (before, after) = (&old.settings, &new.settings);
    if (before.framing(), before.max_frame) != (after.framing(), after.max_frame) {
        all.push("`overhead`, `mpu`, `linklayer` and `max_frame` say how every packet is counted".to_owned());
    }
    if before.experience != after.experience {
        all.push("`experience` says what is measured from the start".to_owned());
    }
    if before.nat != after.nat {
        all.push("`nat` says by whose addresses packets are seen from the start".to_owned());
    }
    let yields = |policy: &InterfacePolicy| {
        let all = policy.yields.iter();
        all.map(|yields| (yields.class.clone(), yields.settings.clone()))
            .collect::<Vec<_>>()
    };
    if yields(old) != yields(new) {
        all.push("its classes yield otherwise".into());
    } else if !new.yields.is_empty() && before.bandwidth != after.bandwidth {
        all.push("its classes yield, by its `bandwidth`".into());
    }
    if old.autorate.is_some() != new.autorate.is_some() {
        all.push("whether its rate follows the line".into());
    }
    if old.reserve.is_some() != new.reserve.is_some() {
        all.push("whether RSVP may reserve of it".into());
    }
    let pacing = |policy: &InterfacePolicy| {
        let pacing = policy.plan.root.plan.pacing();
        pacing.map(|pacing| (pacing.wire, pacing.frames))
    };
    if pacing(old) != pacing(new) {
        all.push("its packets are sent at times of the discipline's, or at others".into());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promises::Trend;
    use engine::tree::Registry;

    const POLICY: &str = r#"
        version = 1
        [interface.wan0]
        bandwidth = "20 Mbit/s"
        discipline = "cbq"
        [[interface.wan0.class]]
        name = "calls"
        rate = "4 Mbit/s"
        [[interface.wan0.class]]
        name = "rest"
        rate = "16 Mbit/s"
        default = true
        [[interface.wan0.filter]]
        class = "calls"
        protocol = "udp"
        destination_port = "3478-3481"
    "#;

    fn difference(from: &str, to: &str) -> Difference {
        let read = |text: &str| Policy::read("test", text, &Registry::builtin(), &[]);
        let [from, to] = [from, to].map(|text| read(text).unwrap_or_else(|mistakes| panic!("{mistakes:?}")));
        Difference::between(&from.interfaces, from.port.as_ref(), from.rsvp.as_ref(), &to)
    }

    #[test]
    fn a_policy_does_not_differ_from_itself_wherever_its_lines_stand() {
        let moved = POLICY.replace("version = 1", "# A comment.\n\nversion = 1");
        assert_eq!(difference(POLICY, &moved), Difference::default());
    }

    /// A part of the policy, what stands in its place, and what is said of that.
    const CASES: [(&str, &str, &[&str]); 6] = [
        (
            "20 Mbit/s",
            "25 Mbit/s",
            &["wan0: bandwidth 20 Mbit/s → 25 Mbit/s"],
        ),
        (
            "rate = \"4 Mbit/s\"",
            "rate = \"3 Mbit/s\"\npriority = 7",
            &["wan0: class calls: rate 4 Mbit/s → 3 Mbit/s, priority not set → 7"],
        ),
        (
            "3478-3481",
            "3478",
            &[
                "wan0: new filter udp, destination port 3478 → calls",
                "wan0: filter udp, destination port 3478-3481 → calls goes",
            ],
        ),
        (
            "default = true",
            "default = true\ndiscipline = \"fifo\"",
            &["wan0: class rest: discipline fq_codel → fifo"],
        ),
        (
            "\"cbq\"",
            "{ kind = \"cbq\", excess = \"share\" }",
            &["wan0: discipline cbq → cbq excess=share"],
        ),
        ("20 Mbit/s\"", "20 Mbit/s\"\noverhead = \"4 B\"", &[]),
    ];

    #[test]
    fn every_difference_is_said_once() {
        for (from, to, expected) in CASES {
            let found = difference(POLICY, &POLICY.replacen(from, to, 1));
            assert_eq!(found.changes, expected, "{to}");
            assert_eq!(found.needs_restart.is_empty(), !to.contains("overhead"), "{to}");
        }
        let more =
            "[[interface.wan0.class]]\nname = \"games\"\nrate = \"0 bit/s\"\n[[interface.wan0.filter]]";
        let more = POLICY.replacen("[[interface.wan0.filter]]", more, 1);
        let grows = difference(POLICY, &more);
        assert_eq!(
            grows.changes,
            ["wan0: new class games: rate 0 bit/s, discipline fq_codel"]
        );
        let shrinks = difference(&more, POLICY);
        assert_eq!(
            shrinks.changes,
            ["wan0: class games goes; its packets go where filters now put them"]
        );
    }

    #[test]
    fn what_a_running_program_cannot_change_is_said() {
        let other = POLICY.replace("wan0", "lan0");
        let found = difference(POLICY, &other);
        assert_eq!(
            found.needs_restart,
            ["wan0: it is no longer managed", "lan0: it is not managed yet"]
        );
        let port = POLICY.replace("version = 1", "version = 1\n[port]\negress = \"wan0\"");
        assert_eq!(
            difference(POLICY, &port).needs_restart,
            ["[port]: its settings differ"]
        );
        let paced = POLICY
            .replace("\"cbq\"", "\"pacer\"")
            .replace("16 Mbit/s", "12 Mbit/s");
        let found = difference(POLICY, &paced).needs_restart;
        assert!(
            found.len() == 1 && found[0].contains("at times of the discipline's"),
            "{found:?}"
        );
    }

    #[test]
    fn what_may_break_is_true_or_false_in_json() {
        for (breaking, allowed) in [(Breaking::Refused, false), (Breaking::Allowed, true)] {
            assert_eq!((bool::from(breaking), breaking.is_refused()), (allowed, !allowed));
            assert_eq!(Breaking::from(allowed), breaking);
            assert_eq!(serde_json::to_value(breaking).expect("JSON"), allowed);
        }
    }

    #[test]
    fn a_difference_is_empty_if_nothing_changes_and_nothing_waits_for_a_restart() {
        let line = || vec!["a line".to_owned()];
        assert!(Difference::default().is_empty());
        let changes = Difference {
            changes: line(),
            ..Difference::default()
        };
        let needs_restart = Difference {
            needs_restart: line(),
            ..Difference::default()
        };
        assert!(!changes.is_empty() && !needs_restart.is_empty());
    }

    #[test]
    fn effects_are_told_the_worst_first() {
        assert!(Difference::default().effects().is_empty());
        let all = Difference {
            changes: vec!["a change".into()],
            needs_restart: vec!["a restart".into()],
            breaks: vec!["broken".into()],
            short: vec!["short".into()],
            not_enforced: vec!["lacking".into()],
            ..Difference::default()
        };
        assert_eq!(all.effects(), ["lacking", "broken", "short"]);
    }

    #[test]
    fn what_very_many_classes_lose_is_told_before_what_one_gains() {
        let gains = PromiseChange {
            interface: "wan0".into(),
            class: Some("own".into()),
            trend: Trend::Better,
            before: None,
            after: None,
        };
        let lose = SharesChange {
            interface: "wan0".into(),
            classes: 99,
            trend: Trend::Worse,
            whole_before: 99,
            whole_after: 100,
        };
        let mut difference = Difference::default();
        difference.add_promises(ChangedPromises {
            classes: vec![gains.clone()],
            shares: Some(lose.clone()),
        });
        let json = serde_json::to_value(&difference).expect("JSON");
        assert_eq!(json["shares"][0]["whole_after"], 100);
        assert_eq!(difference.effects(), [lose.to_string(), gains.to_string()]);
        // Others have no such list.
        let json = serde_json::to_value(Difference::default()).expect("JSON");
        assert_eq!(json.get("shares"), None);
        assert_eq!(
            serde_json::from_value::<Difference>(json).expect("one"),
            Difference::default()
        );
    }

    #[test]
    fn where_classes_yield_another_bandwidth_waits_for_a_restart_and_an_equal_one_for_nothing() {
        let yields = POLICY.replace("rate = \"4 Mbit/s\"", "rate = \"4 Mbit/s\"\nyields = {}");
        let faster = |text: &str| text.replace("20 Mbit/s", "25 Mbit/s");
        assert_eq!(difference(&yields, &yields), Difference::default());
        assert_eq!(
            difference(&yields, &faster(&yields)).needs_restart,
            ["wan0: its classes yield, by its `bandwidth`"]
        );
        assert_eq!(
            difference(POLICY, &yields).needs_restart,
            ["wan0: its classes yield otherwise"]
        );
        assert!(difference(POLICY, &faster(POLICY)).needs_restart.is_empty());
    }
}
