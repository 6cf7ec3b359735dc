//! Ends of changes at random, against readings of the whole text.

use super::*;
use control::difference::Difference;
use control::policy::Policy;
use control::protocol::{AddedClass, RemovedClass, SettingChange, SettingChanges, UsedUp};
use engine::random::{Rng, Seed};
use std::cell::Cell;

const TEXT: &str = "version = 1\n[interface.wan0]\nbandwidth = \"20 Mbit/s\"\ndiscipline = \"KIND\"\n\
    [[interface.wan0.class]]\nname = \"a\"\nKEY = VALUE\n[[interface.wan0.class]]\nname = \"b\"\nKEY = VALUE\n\
    [[interface.wan0.class]]\nname = \"rest\"\ndefault = true\nKEY = VALUE\n\
    [[interface.wan0.filter]]\nclass = \"a\"\nprotocol = \"udp\"\n";

fn read(made_of: &MadeOf) -> Result<Vec<InterfacePolicy>, String> {
    let read: Result<Policy, String> = made_of.policy(&Registry::builtin(), &[], false);
    read.map(|policy| policy.interfaces)
}

/// A change at random, for good or until one of a few times; often a wrong one.
fn change(rng: &mut Rng, key: &str, values: &[&str; 3], now: u64) -> Amendment {
    let (interface, reason) = ("wan0".to_owned(), None);
    let names = ["a", "b", "rest", "c", "d", "e"];
    let class = names[rng.below(6) as usize].to_owned();
    let until_ms = (rng.below(3) > 0).then(|| now + 1 + rng.below(8));
    let value = SettingChange::from_word(values[rng.below(3) as usize]);
    let settings = [(key.to_owned(), value)].into();
    match rng.below(8) {
        0 => Amendment::Removed(RemovedClass {
            interface,
            class,
            until_ms,
            reason,
        }),
        1 | 2 => Amendment::Added(AddedClass {
            interface,
            class,
            settings,
            filters: Vec::new(),
            quota: None,
            until_ms,
            reason,
        }),
        3 => Amendment::UsedUp(UsedUp {
            quota: "1 GB per day".into(),
            interface,
            class,
            changes: settings,
            until_ms: until_ms.unwrap_or(now + 5),
        }),
        _ => Amendment::Set(SettingChanges {
            interface,
            class: Some(class),
            changes: settings,
            until_ms,
            reason,
        }),
    }
}

fn same(found: &[InterfacePolicy], expected: &[InterfacePolicy]) -> bool {
    let alike = |(found, expected)| Difference::of(found, expected) == Difference::default();
    found.len() == expected.len() && found.iter().zip(expected).all(alike)
}

#[test]
fn what_is_in_force_after_each_end_is_what_a_reading_of_the_rest_says() {
    let registry = Registry::builtin();
    for (kind, key, values) in [
        ("drr", "weight", ["1", "3", "0"]),
        ("hfsc", "realtime", ["1Mbit/s", "4Mbit/s", "9Mbit/s"]),
        ("cbq", "rate", ["1Mbit/s", "4Mbit/s", "9Mbit/s"]),
    ] {
        let value = SettingChange::from_word(values[0]).raw();
        let written = match value {
            Raw::Integer(number) => number.to_string(),
            _ => format!("\"{}\"", values[0]),
        };
        let text = TEXT
            .replace("KIND", kind)
            .replace("KEY", key)
            .replace("VALUE", &written);
        let mut made_of = MadeOf::text("FILE", &text);
        let running = |policies: Vec<InterfacePolicy>| -> Vec<InterfacePolicy> {
            policies
                .iter()
                .map(|policy| vacancies::laid_out(policy, &registry))
                .collect()
        };
        let mut policies = running(read(&made_of).expect("a policy"));
        let (mut ends, mut now) = (Ends::default(), 1_000u64);
        let (mut rng, reads) = (Seed(3).fork(kind).stream(), Cell::new(0));
        let (mut made, mut refused, mut ended) = (0, 0, 0);
        // Of changes that take the place of nothing that would end.
        let (mut found_ends, mut read_ends) = (0, 0);
        for generation in 1..800 {
            if rng.below(4) == 0 {
                // Time passes.
                now += 1 + rng.below(3);
                if let Some(after) = ends.after(generation - 1, now) {
                    let rest = made_of.clone().at(now);
                    assert!(same(after, &read(&rest).expect("it was judged")), "{kind}");
                    (policies, made_of) = (after.to_vec(), rest);
                    ends.after = ends.after.split_off(&(now + 1));
                    ended += 1;
                }
            }
            ends.generation = generation;
            let change = change(&mut rng, key, &values, now);
            let to = made_of.clone().with(&change);
            let Ok(next) = read(&to) else { continue };
            let changing = Changing {
                change: &change,
                generation,
                policies: &policies,
                from: &made_of,
                to: &to,
            };
            reads.set(0);
            let found = ends.with(&changing, &registry, |end| {
                reads.set(reads.get() + 1);
                read(&to.clone().at(end))
            });
            let expected: Result<After, String> = to
                .ends()
                .into_iter()
                .map(|end| Ok((end, read(&to.clone().at(end))?)))
                .collect();
            match (found, expected) {
                (Ok(found), Ok(expected)) => {
                    assert!(found.keys().eq(expected.keys()), "{kind}: {change}");
                    for (end, policies) in &found {
                        assert!(same(policies, &expected[end]), "{kind}: {change}, after {end}");
                    }
                    if made_of.timed() + ending(&change) == to.timed() {
                        found_ends += found.len();
                        read_ends += reads.take();
                    }
                    let one = changed(&policies, &change, &registry);
                    (policies, made_of) = (one.unwrap_or_else(|| running(next)), to);
                    ends.after = found;
                    made += 1;
                }
                (Err(_), Err(_)) => refused += 1,
                (found, _) => panic!("{kind}: {change}: {}", found.is_ok()),
            }
        }
        let counts = format!(
            "{kind}: {made} made, {refused} refused, {ended} times ended, {read_ends} of {found_ends} ends read"
        );
        assert!(
            made > 150 && refused > 5 && ended > 50 && found_ends > 100,
            "{counts}"
        );
        assert!(read_ends <= found_ends / 10, "{counts}");
    }
}

/// Formerly so many readings of the whole text as ends were to come.
#[test]
fn one_more_change_among_many_that_end_reads_nothing_as_a_whole() {
    let registry = Registry::builtin();
    let text = TEXT
        .replace("KIND", "drr")
        .replace("KEY", "weight")
        .replace("VALUE", "1");
    let classes = (0..200).map(|n| format!("[[interface.wan0.class]]\nname = \"c{n}\"\n"));
    let mut made_of = MadeOf::text("FILE", &(text + &classes.collect::<String>()));
    let read = read(&made_of).expect("a policy");
    let mut policies: Vec<_> = read
        .iter()
        .map(|policy| vacancies::laid_out(policy, &registry))
        .collect();
    let mut ends = Ends::default();
    for number in 0..200 {
        let change = Amendment::Set(SettingChanges {
            interface: "wan0".into(),
            class: Some(format!("c{number}")),
            changes: [("weight".to_owned(), SettingChange::from_word("2"))].into(),
            until_ms: Some(1_000 + number),
            reason: None,
        });
        let to = made_of.clone().with(&change);
        let changing = Changing {
            change: &change,
            generation: 0,
            policies: &policies,
            from: &made_of,
            to: &to,
        };
        let found = ends.with(&changing, &registry, |end| {
            Err(format!("{change}: {end} was read"))
        });
        ends.after = found.expect("nothing is read");
        policies = changed(&policies, &change, &registry).expect("one class");
        made_of = to;
    }
    assert_eq!(ends.after.len(), 200);
}
