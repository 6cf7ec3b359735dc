//! Of very many classes that share a link, and change alike, it is said once what they lose or
//! gain: the same by a look at one class as by a look at all.

use control::policy::{InterfacePolicy, Policy};
use control::promises::{ChangedPromises, SharesChange, Trend, changes, changes_of_class};
use control::protocol::{AddedClass, Amendment, RemovedClass, SettingChange};
use engine::random::{Rng, Seed};
use engine::settings::Raw;
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use engine::units::Bandwidth;
use std::sync::Arc;

/// A policy with classes of these names and settings, below this discipline.
fn policy(discipline: &str, classes: impl IntoIterator<Item = (String, String)>) -> InterfacePolicy {
    let mut text = "version = 1\n[interface.wan0]\nbandwidth = \"1 Gbit/s\"\n".to_owned();
    text += &format!("discipline = {discipline}\n");
    text.extend(classes.into_iter().map(|(name, settings)| {
        let default = if name == "c0" { "default = true\n" } else { "" };
        format!("[[interface.wan0.class]]\nname = \"{name}\"\n{default}{settings}\n")
    }));
    let read = Policy::read("test", &text, &Registry::builtin(), &[]);
    read.unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)))
        .interfaces
        .remove(0)
}

/// So many classes of `drr`, all with these settings.
fn alike(count: usize, settings: &str) -> impl Iterator<Item = (String, String)> + '_ {
    (0..count).map(move |number| (format!("c{number}"), settings.to_owned()))
}

fn with_tree(policy: &InterfacePolicy, classes: Vec<ClassSpec>) -> InterfacePolicy {
    let spec = DisciplineSpec {
        classes: classes.into(),
        ..DisciplineSpec::clone(&policy.spec)
    };
    InterfacePolicy {
        plan: spec.check(&Registry::builtin(), policy.link()).expect("a tree"),
        spec: Arc::new(spec),
        ..policy.clone()
    }
}

fn with_places(policy: &InterfacePolicy, places: usize) -> InterfacePolicy {
    let classes: Vec<ClassSpec> = policy.spec.classes.iter().cloned().collect();
    let first = classes.len();
    let places = (first..first + places).map(|number| ClassSpec::place(number, None));
    with_tree(policy, classes.into_iter().chain(places).collect())
}

fn without_places(policy: &InterfacePolicy) -> InterfacePolicy {
    let classes = policy.spec.classes.iter().filter(|class| !class.vacant);
    with_tree(policy, classes.cloned().collect())
}

fn drawn_setting(rng: &mut Rng) -> (&'static str, Raw) {
    match rng.below(4) {
        0 => ("quantum", Raw::Text(format!("{} B", 1_514 + rng.below(9_000)))),
        _ => ("weight", Raw::Integer(1 + rng.below(4) as i64)),
    }
}

/// The same with one class that comes, goes or has other settings, and its name.
fn changed(rng: &mut Rng, policy: &InterfacePolicy, next: u64) -> Option<(InterfacePolicy, String)> {
    let registry = Registry::builtin();
    let there = policy.plan.classes.iter().filter(|info| !info.vacant);
    let names: Vec<String> = there.map(|info| info.name.to_string()).collect();
    let name = names[rng.below(names.len() as u64) as usize].clone();
    let (key, value) = drawn_setting(rng);
    let alter = |change| {
        let changed = policy.with_class_change(&registry, &change);
        changed.map(|changed| changed.policy)
    };
    match rng.below(3) {
        0 => {
            let name = format!("n{next}");
            let value = SettingChange::from_word(&value.to_string());
            let queue = ("discipline".to_owned(), SettingChange::Text("red".into()));
            let queue = (rng.below(3) == 0).then_some(queue);
            let added = alter(Amendment::Added(AddedClass {
                interface: "wan0".into(),
                class: name.clone(),
                settings: queue.into_iter().chain([(key.to_owned(), value)]).collect(),
                filters: Vec::new(),
                quota: None,
                until_ms: None,
                reason: None,
            }))?;
            Some((added, name))
        }
        1 => {
            let removed = alter(Amendment::Removed(RemovedClass {
                interface: "wan0".into(),
                class: name.clone(),
                until_ms: None,
                reason: None,
            }))?;
            Some((removed, name))
        }
        _ => {
            let set = policy
                .with_class_settings(&registry, &name, &[(key, value)])
                .ok()?;
            Some((set, name))
        }
    }
}

fn rate(policy: &InterfacePolicy, class: &str) -> Option<u64> {
    let class = policy.plan.class(class)?;
    let rate = policy.plan.root.plan.serves(Some(class), policy.least_rate());
    rate.map(Bandwidth::bits)
}

/// Holds a sum against each class that it is of.
fn is_of_each(old: &InterfacePolicy, new: &InterfacePolicy, told: &ChangedPromises, shares: &SharesChange) {
    let is_named = |name: &str| {
        let mut named = told.classes.iter();
        named.any(|change| change.class.as_deref() == Some(name))
    };
    let all = new.plan.classes.iter().map(|info| info.name.as_str());
    let others: Vec<&str> = all.filter(|name| !is_named(name)).collect();
    assert_eq!(shares.classes, others.len() as u64);
    for name in others {
        let [before, after] = [old, new].map(|policy| rate(policy, name).expect("a rate"));
        let whole = [shares.whole_before, shares.whole_after].map(|whole| whole as f64);
        let expected = before as f64 * whole[0] / whole[1];
        // Each rate is rounded down.
        assert!(
            (after as f64 - expected).abs() <= 1.0 + whole[0] / whole[1],
            "{name}"
        );
        assert_eq!(after <= before, shares.trend == Trend::Worse);
    }
}

#[test]
fn a_look_at_one_class_tells_what_a_look_at_all_tells() {
    let mut rng = Seed(7).stream();
    let (mut together, mut singly, mut asked) = (0, 0, 0);
    for start in [20, 31, 33, 34, 60] {
        let plain = policy("\"drr\"", alike(start, ""));
        let mut old = with_places(&plain, 9);
        for next in 0..150 {
            let Some((new, class)) = changed(&mut rng, &old, next) else {
                continue;
            };
            let [was, is] = [&old, &new].map(without_places);
            let told = changes(&was, &is);
            assert_eq!(changes(&old, &new), told);
            let own = changes_of_class(&old, &new, &class);
            assert_eq!(changes_of_class(&was, &is, &class), own);
            match &own {
                Some(own) => assert_eq!(*own, told),
                None => assert!(told.shares.is_none() && told.classes.len() <= 33),
            }
            match &told.shares {
                Some(shares) => {
                    is_of_each(&was, &is, &told, shares);
                    assert!(told.classes.len() <= 1 && own.is_some());
                    together += 1;
                }
                None if told.classes.len() > 1 => singly += 1,
                None => asked += u32::from(own.is_some()),
            }
            old = new;
        }
    }
    assert!(
        together > 100 && singly > 100 && asked > 20,
        "{together} told together, {singly} singly, {asked} of one class"
    );
}

/// What is said where one class of more than `count` becomes heavier.
fn said(discipline: &str, count: usize, queue: &str, before: &str, after: &str) -> (ChangedPromises, bool) {
    let classes = |own: &str| {
        let own = ("own".to_owned(), format!("{own}\n{queue}"));
        policy(discipline, alike(count, "").chain([own]))
    };
    let (old, new) = (classes(before), classes(after));
    let own = changes_of_class(&old, &new, "own");
    let told = changes(&old, &new);
    assert!(own.as_ref().is_none_or(|own| *own == told));
    (told, own.is_some())
}

#[test]
fn of_up_to_thirty_two_classes_each_is_named() {
    for (count, named) in [(32, 33), (33, 1)] {
        let (told, alone) = said("\"drr\"", count, "", "", "weight = 2");
        assert_eq!((told.classes.len(), alone), (named, named == 1));
        let sum = told.shares.map(|shares| (shares.classes, shares.trend));
        assert_eq!(sum, (named == 1).then_some((33, Trend::Worse)));
    }
}

#[test]
fn each_class_is_named_where_anything_else_may_be_promised() {
    let sends = "sends = { rate = \"1 Mbit/s\", burst = \"3 kB\" }";
    let shaped = "discipline = { kind = \"tbf\", rate = \"1 kbit/s\", child = \"fifo\" }";
    let inner = "discipline = { kind = \"drr\", class = [{ name = \"inner\", default = true }] }";
    for queue in [sends, shaped, inner] {
        let (told, alone) = said("\"drr\"", 40, queue, "weight = 1", "weight = 2");
        assert!(
            told.classes.len() >= 40 && told.shares.is_none() && !alone,
            "{queue}"
        );
    }
    let around = "{ kind = \"tbf\", rate = \"900 Mbit/s\", child = \"drr\" }";
    let (told, alone) = said(around, 40, "", "weight = 1", "weight = 2");
    assert_eq!((told.classes.len(), told.shares, alone), (41, None, false));
}

#[test]
fn a_sum_is_said_in_the_digits_that_count() {
    let said = |whole_before, whole_after| {
        let trend = if whole_after > whole_before {
            Trend::Worse
        } else {
            Trend::Better
        };
        let change = SharesChange {
            interface: "wan0".into(),
            classes: 99_999,
            trend,
            whole_before,
            whole_after,
        };
        change.to_string()
    };
    for (whole, expected) in [
        ([99_999, 100_000], "worse: guaranteed rate 0.001 % less each"),
        ([100_000, 99_999], "guaranteed rate 0.001 % more each"),
        ([100, 10_001], "worse: guaranteed rate 1 % of what it was, each"),
        ([100, 10_000], "worse: guaranteed rate 99 % less each"),
        ([300, 100], "guaranteed rate 200 % more each"),
        (
            [1 << 50, (1 << 50) + 1],
            "worse: guaranteed rate 0.0000000000000888 % less each",
        ),
    ] {
        assert_eq!(
            said(whole[0], whole[1]),
            format!("wan0: 99999 other classes: {expected}")
        );
    }
}
