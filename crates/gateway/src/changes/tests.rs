//! Classes that come and go one by one, against a reading of the whole text: the same policy, the
//! same classes for packets, and the same mistakes.

use super::*;
use crate::direction::by_filters_with;
use crate::vacancies;
use control::policy_text;
use control::protocol::{AddedClass, RemovedClass, SettingChange};
use engine::header::{Family, FlowKey, Headers};
use engine::packet::{ClassId, Packet};
use engine::random::{Rng, Seed};
use engine::tree::Registry;
use engine::units::Bytes;
use netio::classify::{Classify, FewFilters};
use netio::handle::{Handle, WorkerSnapshot};
use netio::port::Capabilities;
use netio::ports::memory::Memory;
use netio::worker::{Settings, Worker};
use std::collections::BTreeMap;

mod by_text;

/// A policy with a class that has child classes, where its kind can, and one that nothing removes.
fn text(kind: &str, setting: &str) -> String {
    let class = |name: &str, parent: &str, more: &str| {
        format!("[[interface.wan0.class]]\nname = \"{name}\"\n{parent}{setting}\n{more}\n")
    };
    let nested = ["hfsc", "cbq"].contains(&kind);
    let parent = if nested { "parent = \"site\"\n" } else { "" };
    let site = match nested {
        true => class("site", "", "").replace("1 Mbit", "20 Mbit"),
        false => String::new(),
    };
    format!(
        "version = 1\n[interface.wan0]\nbandwidth = \"100 Mbit/s\"\ndiscipline = \"{kind}\"\n{site}{}{}{}\
         [[interface.wan0.filter]]\nclass = \"a\"\nprotocol = \"udp\"\n\
         [[interface.wan0.expect]]\nclass = \"b\"\nmetric = \"drops\"\nat_most = 5\n",
        class("a", parent, ""),
        class("b", parent, "discipline = \"fifo\""),
        class("rest", "", "default = true"),
    )
}

fn read(text: &str) -> Result<InterfacePolicy, String> {
    let read = Policy::read("FILE", text, &Registry::builtin(), &[]);
    read.map(|mut policy| policy.interfaces.remove(0))
        .map_err(|mistakes| mistakes.render(false))
}

fn table(pairs: &[(&str, &str)]) -> BTreeMap<String, SettingChange> {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), SettingChange::from_word(value));
    pairs.iter().map(pair).collect()
}

fn added(class: &str, settings: &[(&str, &str)], filters: &[&[(&str, &str)]]) -> Amendment {
    Amendment::Added(AddedClass {
        interface: "wan0".into(),
        class: class.into(),
        settings: table(settings),
        filters: filters.iter().map(|filter| table(filter)).collect(),
        quota: None,
        until_ms: None,
        reason: None,
    })
}

fn removed(class: &str) -> Amendment {
    Amendment::Removed(RemovedClass {
        interface: "wan0".into(),
        class: class.into(),
        until_ms: None,
        reason: None,
    })
}

/// One of these.
fn pick<'a, T: ?Sized>(rng: &mut Rng, of: &[&'a T]) -> &'a T {
    of[rng.below(of.len() as u64) as usize]
}

/// A class that comes or goes, at random, now and then with a mistake.
fn change(rng: &mut Rng, kind: &str, key: &str) -> Amendment {
    let number = rng.below(7).to_string();
    let name = match rng.below(10) {
        0 => pick(rng, &["a", "b", "rest", "site", "no body", ""]).to_owned(),
        _ => format!("c{number}"),
    };
    if rng.below(5) < 2 {
        return removed(&name);
    }
    let values: &[&str] = match kind {
        "drr" | "wrr" => &["1", "3", "0"],
        _ => &["1Mbit/s", "2Mbit/s", "90Mbit/s", "1"],
    };
    let mut settings = vec![(key, pick(rng, values))];
    match rng.below(16) {
        0 => settings.push(("default", "true")),
        1 => settings.push(("wieght", "1")),
        2 => settings.push(("parent", "nobody")),
        3 => settings.push(("parent", "a")),
        4 => settings.push(("discipline", "fito")),
        5 => settings.push(("name", "twice")),
        6..9 if ["hfsc", "cbq"].contains(&kind) => settings.push(("parent", "site")),
        9..12 => settings.push(("discipline", pick(rng, &["fifo", "red", "sfq", "priq"]))),
        _ => {}
    }
    let (net, port) = (format!("10.{}.0.0/16", rng.below(3)), rng.below(4).to_string());
    let filters: [&[(&str, &str)]; 6] = [
        &[("destination", &net), ("protocol", "udp")],
        &[("destination_port", &port)],
        &[("source", &net), ("rule", "3")],
        &[("destination", "2001:db8::/32")],
        &[("destination", &net), ("source", "2001:db8::/32")],
        &[("class", "a")],
    ];
    let many = rng.below(3) as usize;
    let least = if rng.below(12) == 0 { 6 } else { 4 };
    let filters: Vec<_> = (0..many).map(|_| filters[rng.below(least) as usize]).collect();
    added(&name, &settings, &filters)
}

/// The class of a packet, by its name.
fn class_of(classify: &mut dyn Classify, policy: &InterfacePolicy, key: &FlowKey) -> Option<String> {
    let headers = Headers {
        key: *key,
        ..Headers::default()
    };
    let mut packet = Packet::new(Bytes::new(100), engine::units::Instant::START, ClassId(0));
    classify.classify(&headers, &mut packet);
    policy.plan.info(packet.class).map(|info| info.name.to_string())
}

fn packet(rng: &mut Rng) -> FlowKey {
    let v6 = rng.below(4) == 0;
    let address = |rng: &mut Rng| match v6 {
        true => 0x2001_0db8_u128 << 96,
        false => u128::from(10 << 24 | rng.below(4) << 16 | 7),
    };
    FlowKey {
        family: if v6 { Family::V6 } else { Family::V4 },
        source: address(rng),
        destination: address(rng),
        protocol: if rng.below(2) == 0 { 17 } else { 6 },
        source_port: Some(9),
        destination_port: Some(rng.below(5) as u16),
        ..FlowKey::default()
    }
}

#[test]
fn one_class_that_comes_or_goes_makes_what_a_reading_of_the_whole_text_makes() {
    let kinds = [
        ("drr", "weight", "weight = 2"),
        ("wrr", "weight", "weight = 2"),
        ("hfsc", "linkshare", "linkshare = \"1 Mbit/s\""),
        ("cbq", "rate", "rate = \"1 Mbit/s\""),
    ];
    for (kind, key, setting) in kinds {
        let registry = Registry::builtin();
        let mut text = text(kind, setting);
        let mut policy = vacancies::laid_out(&read(&text).expect("a policy"), &registry);
        let mut classify = by_filters_with(&policy, Seed(1));
        let mut rng = Seed(5).fork(kind).stream();
        let (mut alone, mut whole, mut refused) = (0, 0, 0);
        for _ in 0..1_500 {
            let change = change(&mut rng, kind, key);
            let found = policy.with_class_change(&registry, &change);
            let new = policy_text::with(&text, [&change]);
            let expected = new.and_then(|new| Ok((read(&new)?, new)));
            let (Ok((expected, new)), found) = (expected, found.as_ref()) else {
                assert!(found.is_none(), "{kind}: {change} is refused as a whole");
                refused += 1;
                continue;
            };
            match found {
                Some(found) => {
                    let few = FewFilters {
                        gone: found.gone.clone(),
                        come: found.come.clone(),
                    };
                    assert!(classify.amends(&few), "{kind}: {change}");
                    classify.amend(&few);
                    // The tree is what a check of it makes.
                    let anew = found.policy.spec.check(&registry, policy.link()).expect("a tree");
                    assert_eq!(format!("{:?}", found.policy.plan), format!("{anew:?}"));
                    assert!(found.alone, "{kind}: {change}");
                    (policy, alone) = (found.policy.clone(), alone + 1);
                }
                None => {
                    policy = vacancies::laid_out(&expected, &registry);
                    classify = by_filters_with(&policy, Seed(1));
                    whole += 1;
                }
            }
            text = new;
            assert_eq!(
                Difference::of(&policy, &expected),
                Difference::default(),
                "{change}"
            );
            let mut anew = by_filters_with(&expected, Seed(1));
            for _ in 0..20 {
                let packet = packet(&mut rng);
                let class = class_of(&mut *classify, &policy, &packet);
                assert_eq!(
                    class,
                    class_of(&mut *anew, &expected, &packet),
                    "{change}\n{text}"
                );
            }
        }
        assert!(
            alone > 250 && refused > 300,
            "{kind}: {alone} alone, {whole} whole, {refused} refused"
        );
        assert!(whole < alone / 10, "{kind}: {whole} as a whole");
    }
}

/// Mistakes without the numbers of lines: an empty list of sections stands elsewhere in a text that
/// was read again.
fn mistakes(text: &str) -> Vec<&str> {
    let is_place = |line: &&str| {
        line.trim_start()
            .starts_with(|c: char| c.is_numeric() || "-|".contains(c))
    };
    let lines = text.lines().filter(|line| !is_place(line));
    lines
        .map(|line| {
            line.split_once(" more of the same, at ")
                .map_or(line, |(count, _)| count)
        })
        .collect()
}

/// A running policy, with its worker.
fn running(
    text: &str,
) -> (
    PolicyChanges,
    Arc<InForce>,
    Handle,
    std::thread::JoinHandle<WorkerSnapshot>,
) {
    let registry = Registry::builtin();
    let policy = Policy::read("FILE", text, &registry, &[]).expect("a policy");
    let (mut worker, handle) = Worker::new(Settings::default()).expect("a worker");
    let mut port = |name| {
        let [near, _far] = Memory::pair([name, "far"], Capabilities::plain(1500, 64)).expect("a wire");
        worker.add_port(Box::new(near))
    };
    let (from, to) = (port("lan0"), port("wan0"));
    let whole = vacancies::laid_out(&policy.interfaces[0], &registry);
    let path = worker.add_path(crate::direction::managed(&whole, from, to));
    let thread = std::thread::spawn(move || worker.run());
    let managed = [((path, policy.interfaces[0].clone()), whole)];
    let in_force = Arc::new(InForce::running(handle.clone(), registry, managed));
    let made_of = MadeOf::text("FILE", text);
    let changes = PolicyChanges::new(Arc::clone(&in_force), None, &policy, None, made_of).expect("no disk");
    (changes, in_force, handle, thread)
}

#[test]
fn a_class_that_comes_or_goes_is_a_generation_and_a_mistake_is_that_of_the_whole_text() {
    for (kind, key, setting) in [
        ("drr", "weight", "weight = 2"),
        ("hfsc", "linkshare", "linkshare = \"1 Mbit/s\""),
        ("cbq", "rate", "rate = \"1 Mbit/s\""),
    ] {
        let first = text(kind, setting);
        let (changes, in_force, handle, thread) = running(&first);
        let (mut rng, mut text) = (Seed(6).fork(kind).stream(), first.clone());
        let (mut done, mut refused) = (0, 0);
        for _ in 0..120 {
            let change = change(&mut rng, kind, key);
            let new = policy_text::with(&text, [&change]);
            let expected = new.and_then(|new| Ok((read(&new)?, new)));
            match (changes.change_class(&change, Provenance::default()), expected) {
                (Ok(said), Ok((expected, new))) => {
                    let begins_anew = said.message.strip_prefix(&change.to_string());
                    let mut lines = begins_anew.expect("what was done").lines().skip(1);
                    assert!(lines.all(|line| line.contains("anew")), "{}", said.message);
                    let now = in_force.policy_of("wan0").expect("it is managed");
                    assert_eq!(Difference::of(&now, &expected), Difference::default(), "{change}");
                    let told = changes.policy_text().expect("it can be written");
                    let told = read(&told).expect("what is in force is a policy");
                    assert_eq!(Difference::of(&now, &told), Difference::default(), "{change}");
                    (text, done) = (new, done + 1);
                }
                (Err(why), Err(expected)) => {
                    let expected = format!("nothing was changed:\n{expected}");
                    assert_eq!(mistakes(&why.message), mistakes(&expected));
                    refused += 1;
                }
                (found, expected) => panic!("{kind}: {change}: {found:?}, expected {expected:?}"),
            }
        }
        assert!(
            done > 15 && refused > 20,
            "{kind}: {done} done, {refused} refused"
        );
        let generations = changes.history();
        let last = generations.last().expect("the one in force");
        assert!(last.by.starts_with("class ") && last.in_force, "{last:?}");
        let policy = || in_force.policy_of("wan0").expect("it is managed");
        let (before, by) = (policy(), Provenance::default);
        let value = if kind == "drr" { "1" } else { "1kbit/s" };
        let last_one = added("last", &[(key, value)], &[]);
        changes.change_class(&last_one, by()).expect("there is room");
        assert_ne!(Difference::of(&policy(), &before), Difference::default());
        changes
            .rollback(Some(last.number), Breaking::Refused, by())
            .expect("it is kept");
        assert_eq!(Difference::of(&policy(), &before), Difference::default());
        handle.stop();
        thread.join().expect("an orderly end");
    }
}

#[test]
fn a_class_comes_or_goes_for_a_time_and_is_written_into_the_file() {
    let first = text("drr", "weight = 2");
    let (changes, in_force, handle, thread) = running(&first);
    let named = |name: &str| {
        in_force
            .policy_of("wan0")
            .expect("managed")
            .plan
            .class(name)
            .is_some()
    };
    let ending = |change: Amendment| {
        let until_ms = Some(calendar::now_ms() + 150);
        match change {
            Amendment::Added(added) => Amendment::Added(AddedClass { until_ms, ..added }),
            Amendment::Removed(removed) => Amendment::Removed(RemovedClass { until_ms, ..removed }),
            set => set,
        }
    };
    let make = |change: &Amendment| changes.change_class(change, Provenance::default());
    for (change, class, there) in [(added("c", &[], &[]), "c", true), (removed("a"), "a", false)] {
        make(&ending(change)).expect("it is in order");
        assert_eq!(named(class), there);
        let over = std::iter::repeat_with(|| {
            std::thread::sleep(Duration::from_millis(10));
            changes.settle()
        });
        let said = over.take(500).find_map(|said| said).expect("it ends by itself");
        let said = said.expect("it can be ended");
        assert!(said.contains("is over"), "{said}");
        assert_eq!(named(class), !there);
    }
    // What stays is in the text, and what comes and goes again is not.
    for change in [
        added("c", &[("weight", "3")], &[&[("dscp", "8")]]),
        added("d", &[], &[]),
        removed("d"),
    ] {
        make(&change).expect("it is in order");
    }
    make(&removed("a")).expect("it is there");
    let generations = changes.alone();
    let since = generations.made_of();
    let (saved, _) = since.saved().expect("something to write");
    let expected = policy_text::with(
        &first,
        &[added("c", &[("weight", "3")], &[&[("dscp", "8")]]), removed("a")],
    );
    assert_eq!(Some(saved), expected.ok().map(|text| MadeOf::text("FILE", &text)));
    drop(generations);
    let over = AddedClass {
        until_ms: Some(1),
        ..match added("e", &[], &[]) {
            Amendment::Added(added) => added,
            other => panic!("{other}"),
        }
    };
    let why = make(&Amendment::Added(over)).expect_err("it ended in 1970");
    assert!(why.message.ends_with("is over already"), "{why}");
    handle.stop();
    thread.join().expect("an orderly end");
}
