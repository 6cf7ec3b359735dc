//! The older modes of a link with an estimator, as ns-2 has them.

use crate::rig::{Rig, With, check, class, near};
use engine::inspect::Value;
use engine::settings::{Raw, Table};
use engine::tree::ClassSpec;
use engine::units::{Bandwidth, Duration};

const LINK: Bandwidth = Bandwidth::mbit(10);
const SECOND: Duration = Duration::from_secs(1);
const OLDER: [&str; 2] = ["top-level", "ancestors-only"];

fn estimated(sharing: &str, root: &str) -> Table {
    Table::default().text("sharing", sharing).text("root_rate", root)
}

/// 70 % at the lower and 10 % at the higher priority.
fn uneven() -> [ClassSpec; 2] {
    [
        class("low", "", "70 %").number("priority", 1),
        class("high", "", "10 %").number("priority", 5),
    ]
}

#[test]
fn the_link_lends_by_priority_up_to_the_rate_of_its_estimator() {
    for sharing in OLDER {
        for (root, low) in [("95 %", 6_072.0), ("98 %", 5_128.0), ("100 %", 0.0)] {
            let mut rig = Rig::new(estimated(sharing, root), LINK, &uneven());
            rig.start(&["low", "high"], 1_000);
            rig.run(SECOND);
            near(&rig.rates(&["low", "high"], SECOND), &[low, 10_000.0 - low], 1.0);
        }
    }
}

#[test]
fn without_efficient_the_link_idles_when_nobody_lends() {
    let settings = |efficient| estimated("ancestors-only", "60 %").with("efficient", Raw::Boolean(efficient));
    let classes = [class("one", "", "10 %"), class("other", "", "50 %")];
    for (efficient, expected) in [(true, 10_000.0), (false, 6_000.0)] {
        let mut rig = Rig::new(settings(efficient), LINK, &classes);
        rig.start(&["one"], 1_000);
        rig.run(SECOND);
        near(&rig.rates(&["one"], SECOND), &[expected], 2.0);
    }
}

#[test]
fn rates_add_up_to_more_than_the_link_only_where_asked_for() {
    let classes = [class("a", "", "60 %"), class("b", "", "60 %")];
    let settings = estimated("top-level", "98 %");
    assert!(check(settings.clone(), LINK, &classes).is_err());
    let overbook = settings.with("overbook", Raw::Boolean(true));
    let mut rig = Rig::new(overbook, LINK, &classes);
    rig.start(&["a", "b"], 1_000);
    rig.run(SECOND);
    near(&rig.rates(&["a", "b"], SECOND), &[5_000.0, 5_000.0], 1.0);
}

#[test]
fn what_needs_an_estimator_is_refused_without_one() {
    let cases = [
        (Table::default().text("root_rate", "98 %"), "older modes"),
        (
            Table::default()
                .text("sharing", "top-level")
                .with("root_maxburst", Raw::Integer(4)),
            "`root_rate` is missing",
        ),
        (
            estimated("top-level", "98 %").with("root_maxburst", Raw::Integer(0)),
            "at least 1",
        ),
    ];
    for (settings, expected) in cases {
        let Err(problems) = check(settings, LINK, &uneven()) else {
            panic!("accepted: {expected}");
        };
        assert!(
            problems.iter().any(|one| one.message.contains(expected)),
            "{problems:#?}"
        );
    }
}

#[test]
fn an_estimator_comes_and_goes_while_packets_flow() {
    let tree = |settings| check(settings, LINK, &uneven()).expect("a good tree");
    let plain = Table::default().text("sharing", "top-level");
    let mut rig = Rig::of(tree(plain.clone()));
    rig.start(&["low", "high"], 1_000);
    rig.run(SECOND);
    for (settings, low) in [(estimated("top-level", "100 %"), 0.0), (plain, 7_000.0)] {
        assert!(rig.queue.retune(rig.now, tree(settings).root.plan.as_ref()));
        rig.run(SECOND);
        near(&rig.rates(&["low", "high"], SECOND), &[low, 10_000.0 - low], 2.0);
    }
    assert_eq!(rig.gauge("low", "state"), Value::State("ready"));
    rig.stop(&["low", "high"]);
    rig.run(SECOND);
    assert!(rig.queue.is_empty() && rig.dropped.0.is_empty());
}

#[test]
fn of_many_classes_each_has_its_rate_and_borrows_by_it() {
    // More than a choice visits: every third may not borrow, and a third has twice the rate.
    let name = |n: usize| format!("c{n}");
    let classes: Vec<ClassSpec> = (0..42)
        .map(|n| {
            let one = class(&name(n), "", if n % 3 == 1 { "2 %" } else { "1 %" });
            if n % 3 == 2 { one.limited() } else { one }
        })
        .collect();
    let names: Vec<String> = (0..42).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for sharing in OLDER {
        let mut rig = Rig::new(estimated(sharing, "100 %"), LINK, &classes);
        rig.start(&names, 1_000);
        rig.run(Duration::from_secs(10));
        let got = rig.rates(&names, Duration::from_secs(20));
        let sum = |kind: usize| got.iter().skip(kind).step_by(3).sum::<f64>();
        near(&[sum(0), sum(1), sum(2)], &[2_867.0, 5_733.0, 1_400.0], 10.0);
        assert!(got.iter().all(|&rate| rate > 95.0), "{got:?}");
    }
}
