//! What a policy may configure, and the messages otherwise.

use crate::rig::{With, check, class};
use engine::settings::{Entry, Raw, Span, Table};
use engine::tree::ClassSpec;
use engine::units::Bandwidth;

const LINK: Bandwidth = Bandwidth::mbit(10);

/// The problems of these classes: message, help, and where they point.
fn problems(settings: Table, classes: &[ClassSpec]) -> Vec<(String, Option<String>, usize)> {
    let problems = check(settings, LINK, classes).expect_err("a bad tree");
    problems
        .into_iter()
        .map(|p| (p.message, p.help, p.at.start()))
        .collect()
}

/// The class with this setting, which stands at byte 77.
fn at_77(mut class: ClassSpec, key: &str, value: Raw) -> ClassSpec {
    class.settings.entries.retain(|entry| entry.key != key);
    let at = Span::new(77, 80);
    class.settings.entries.push(Entry {
        key: key.to_owned().into(),
        key_at: at,
        value,
        at,
    });
    class
}

#[test]
fn promises_beyond_the_parent_are_refused_with_the_numbers() {
    let second = at_77(class("b", "x", "1 bit/s"), "rate", Raw::Text("3 Mbit/s".into()));
    let found = problems(
        Table::default(),
        &[class("x", "", "5 Mbit/s"), class("a", "x", "4 Mbit/s"), second],
    );
    assert_eq!(
        found,
        [(
            "the classes of `x` have rates of 7 Mbit/s in sum, more than its 5 Mbit/s".into(),
            Some("`b` asks for 3 Mbit/s, and 1 Mbit/s is left for it".into()),
            77
        )]
    );
    let found = problems(
        Table::default(),
        &[class("a", "", "60 %"), class("b", "", "40.1 %")],
    );
    assert!(
        found[0]
            .0
            .starts_with("the classes of the link have rates of 10.01"),
        "{found:?}"
    );
    assert!(
        check(
            Table::default(),
            LINK,
            &[class("a", "", "60 %"), class("b", "", "40 %")]
        )
        .is_ok()
    );
}

#[test]
fn what_is_left_for_a_class_is_what_no_other_is_promised() {
    let classes = [
        class("x", "", "5 Mbit/s"),
        class("a", "x", "6 Mbit/s"),
        class("b", "x", "4 Mbit/s"),
    ];
    let found = problems(Table::default(), &classes);
    let help = found[0].1.as_deref();
    assert_eq!(help, Some("`a` asks for 6 Mbit/s, and 1 Mbit/s is left for it"));
}

#[test]
fn every_bad_setting_of_a_class_is_named_where_it_stands() {
    for (key, value, message) in [
        (
            "priority",
            8,
            "`priority` is a number from 0 to 7, the larger served first; found 8",
        ),
        (
            "minburst",
            0,
            "`minburst` must be at least 1: a class that wakes up sends a packet",
        ),
        ("maxburst", 1, "`maxburst` (1) is less than `minburst` (2)"),
        ("minburst", 17, "`maxburst` (16) is less than `minburst` (17)"),
        (
            "maxburst",
            1_000_000_000,
            "`maxburst` × `packet_size` is more than 1 GB",
        ),
    ] {
        let found = problems(
            Table::default(),
            &[at_77(class("a", "", "1 %"), key, Raw::Integer(value))],
        );
        assert_eq!(found, [(message.into(), None, 77)]);
    }
    let found = problems(
        Table::default(),
        &[at_77(
            class("a", "", "1 %"),
            "packet_size",
            Raw::Text("0 B".into()),
        )],
    );
    assert_eq!(found, [("`packet_size` must be at least 1 B".into(), None, 77)]);
}

#[test]
fn a_class_that_could_never_send_is_refused() {
    let found = problems(Table::default(), &[class("a", "", "0 bit/s").limited()]);
    assert!(found[0].0.starts_with("class `a` could never send"), "{found:?}");
    let parent = class("x", "", "0 bit/s").limited();
    let found = problems(Table::default(), &[parent, class("a", "x", "0 bit/s")]);
    assert!(
        found
            .iter()
            .any(|p| p.0.starts_with("class `a` could never send")),
        "{found:?}"
    );
    assert!(check(Table::default(), LINK, &[class("a", "", "0 bit/s")]).is_ok());
}

#[test]
fn bad_settings_of_the_discipline_are_named() {
    let found = problems(Table::default().text("tick", "0 ms"), &[class("a", "", "1 %")]);
    assert_eq!(found[0].0, "`tick` must be longer than 0");
    let found = problems(
        Table::default().text("sharing", "formel"),
        &[class("a", "", "1 %")],
    );
    assert!(found[0].0.ends_with("did you mean \"formal\"?"), "{found:?}");
    let problems = check(Table::default(), Bandwidth::ZERO, &[class("a", "", "1 %")]).expect_err("no link");
    assert!(
        problems[0].message.contains("needs a link with a bandwidth"),
        "{problems:?}"
    );
}
