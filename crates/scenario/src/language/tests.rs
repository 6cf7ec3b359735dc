//! Valid scenarios, and a table of mistakes.

use super::*;
use crate::folder::Folder;
use crate::folder::{Packets, Store};
use engine::units::Bandwidth;

struct TestFiles;

impl Store for TestFiles {
    fn text(&self, path: &str) -> Result<String, String> {
        match path {
            "home.toml" => Ok(
                "version = 1\n[interface.lan0]\nbandwidth = \"20 Mbit/s\"\ndiscipline = \"fifo\"\n".into(),
            ),
            "broken.toml" => Ok("version = 1\n[interface.lan0]\nbandwith = \"20 Mbit/s\"\n".into()),
            "times" => Ok("0 100\n1 1600\n".into()),
            _ => Err("there is no such file".into()),
        }
    }

    fn capture(&self, _path: &str) -> Result<Packets, String> {
        Err("this is no capture".into())
    }
}

fn read(text: &str) -> Result<Scenarios, String> {
    Scenarios::read("s.toml", text, &Registry::builtin(), &TestFiles)
        .map_err(|diagnostics| diagnostics.to_string())
}

fn point(text: &str, number: usize) -> Scenario {
    let all = read(text).unwrap_or_else(|report| panic!("{report}"));
    all.point(number, &TestFiles).expect("it was checked")
}

const GOOD: &str = r#"version = 1
duration = "30 s"
[[link]]
between = ["server", "home"]
rate = "20 Mbit/s"
[link.policy.server]
bandwidth = "20 Mbit/s"
discipline = "cbq"
[[link.policy.server.class]]
name = "calls"
rate = "10 %"
[[link.policy.server.class]]
name = "rest"
rate = "90 %"
default = true
[[flow]]
name = "call"
between = ["server", "home"]
kind = "constant"
rate = "100 kbit/s"
[[change]]
at = "10 s"
class = "calls"
rate = "5 %"
[[expect]]
class = "calls"
metric = "delay-max"
from = "5 s"
to = "30 s"
at_most = "1 ms"
"#;

#[test]
fn ten_lines_are_a_scenario() {
    let scenario = point(
        r#"
        version = 1
        duration = "30 s"
        [[link]]
        between = ["server", "home"]
        rate = "20 Mbit/s"
        policy.server = "home.toml"
        [[flow]]
        between = ["server", "home"]
        kind = "tcp"
        "#,
        1,
    );
    let hosts: Vec<String> = scenario
        .hosts
        .iter()
        .map(|host| format!("{} {}", host.name, host.address))
        .collect();
    assert_eq!(hosts, ["server 10.0.0.1", "home 10.0.0.2"]);
    assert!(scenario.directions[0].policy.is_some() && scenario.directions[1].policy.is_none());
    assert_eq!(scenario.directions[1].name, "home > server");
    let key = scenario.flows[0].key(0);
    assert_eq!(
        (key.protocol, key.source_port, key.destination_port),
        (6, Some(40_001), Some(443))
    );
    assert_eq!(scenario.flows[0].name, "flow 1");
}

#[test]
fn a_good_scenario_is_read_with_its_changes_and_expectations() {
    let scenario = point(GOOD, 1);
    assert_eq!(scenario.changes[0].what, "calls: rate = 5 %");
    let expectation = &scenario.expectations[0];
    assert_eq!(expectation.what, "class calls: delay-max, 5 s to 30 s");
    assert_eq!(
        (
            expectation.bounds.words(expectation.metric.unit()),
            expectation.bounds.at_most,
        ),
        ("at most 1 ms".into(), Some(1_000_000))
    );
    assert_eq!(scenario.bin(), Duration::from_millis(100));
}

#[test]
fn the_reverse_direction_may_differ_and_a_flow_keeps_to_its_spans() {
    let scenario = point(
        r#"
        version = 1
        duration = "30 s"
        link = [{ between = ["a", "b"], rate = "20 Mbit/s", delay = "5 ms", back = { rate = "2 Mbit/s" } }]
        flow = [
            { between = ["a", "b"], kind = "greedy", start = "2 s", pauses = "1 s to 5 s, 10 s to 20 s", stop = "25 s" },
            { between = ["b", "a"], kind = "greedy", active = "3 s to 4 s" },
        ]
        "#,
        1,
    );
    let of = |index: usize| &scenario.directions[index].settings;
    assert_eq!(
        (of(0).rate, of(1).rate, of(1).delay),
        (Bandwidth::mbit(20), Bandwidth::mbit(2), of(0).delay)
    );
    let seconds = |index: usize| {
        let flow: &FlowConfig = &scenario.flows[index];
        let spans = flow
            .active
            .iter()
            .map(|(from, to)| [from.nanos(), to.nanos()].map(|ns| ns / 1_000_000_000));
        spans.collect::<Vec<_>>()
    };
    assert_eq!(seconds(0), [[5, 10], [20, 25]]);
    assert_eq!(seconds(1), [[3, 4]]);
}

#[test]
fn a_sweep_is_the_product_of_its_lists_in_their_order_and_values_keep_their_type() {
    let text = r#"
        version = 1
        duration = "1 s"
        link = [{ between = ["a", "b"], rate = "{mbit} Mbit/s" }]
        flow = [{ between = ["a", "b"], kind = "tcp", count = "{n}", ecn = "{ecn}" }]
        [sweep]
        mbit = [1, 2]
        n = [3, 4, 5]
        ecn = [true, false]
    "#;
    let all = read(text).expect("a sweep");
    assert_eq!(all.sweep.points(), 12);
    let values = |number| {
        all.sweep
            .values(number)
            .into_iter()
            .map(|(_, value)| value)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        [1, 2, 3, 7, 12].map(values),
        ["1 3 true", "1 3 false", "1 4 true", "2 3 true", "2 5 false"]
    );
    let last = point(text, 12);
    assert_eq!(
        (last.directions[0].settings.rate, last.flows[0].settings.count),
        (Bandwidth::mbit(2), 5)
    );
}

#[test]
fn a_list_that_nothing_uses_is_warned_of() {
    let all = read(&format!("{GOOD}[sweep]\nidle = [1, 2]\n")).expect("a scenario");
    assert!(
        all.warnings.to_string().contains("nothing uses `idle`"),
        "{}",
        all.warnings
    );
}

#[test]
fn a_setting_of_a_link_that_has_no_effect_is_warned_of() {
    const FIFO: &str = "bandwidth = \"10 Mbit/s\"\ndiscipline = \"fifo\"\n";
    const PACER: &str = "bandwidth = \"10 Mbit/s\"\ndiscipline = { kind = \"pacer\", gap = \"frames\" }\nclass = [{ name = \"x\", default = true }]\n";
    let warned = |settings: &str, at_a: &str, at_b: &str| {
        let policies = [("a", at_a), ("b", at_b)].map(|(end, text)| match text {
            "" => String::new(),
            text => format!("[link.policy.{end}]\n{text}"),
        });
        let text = format!(
            "version = 1\nduration = \"1 s\"\nflow = [{{ between = [\"a\", \"b\"], kind = \"tcp\" }}]\n\
             [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\n{settings}\n{}",
            policies.concat()
        );
        let warnings = read(&text).expect("a scenario").warnings.to_string();
        warnings.matches("has no effect here").count()
    };
    for of_driver in [
        "transmit_ring = 4",
        "timer_tick = \"10 ms\"",
        "completion = \"exact\"",
    ] {
        assert_eq!(warned(of_driver, "", ""), 1, "{of_driver}");
        assert_eq!(warned(of_driver, FIFO, ""), 0, "{of_driver}");
        let back = format!("back = {{ {of_driver} }}");
        assert_eq!(warned(&back, FIFO, ""), 1, "{back}");
        assert_eq!(warned(&back, "", FIFO), 0, "{back}");
        assert_eq!(warned(&format!("{of_driver}\n{back}"), "", FIFO), 1, "{back}");
    }
    let buffer = "buffer = \"50 kB\"";
    assert_eq!(
        [
            warned(buffer, "", ""),
            warned(buffer, FIFO, ""),
            warned(buffer, FIFO, FIFO)
        ],
        [0, 0, 1]
    );
    let gaps = "gap_frames = true";
    assert_eq!(
        [
            warned(gaps, "", ""),
            warned(gaps, FIFO, ""),
            warned(gaps, PACER, "")
        ],
        [1, 1, 0]
    );
    assert_eq!(warned("gap_frames = false", "", ""), 0);
}

/// Replacements in the valid scenario: old text, new text, expected message, line and column.
const MISTAKES: &[(&str, &str, &str, &str)] = &[
    (
        "duration = \"30 s\"",
        "durations = \"30 s\"",
        "did you mean `duration`?",
        "2:1",
    ),
    (
        "duration = \"30 s\"",
        "duration = \"0 s\"",
        "`duration` must be more than 0 s",
        "2:12",
    ),
    (
        "[\"server\", \"home\"]\nrate",
        "[\"server\"]\nrate",
        "expected two hosts",
        "4:11",
    ),
    (
        "[\"server\", \"home\"]\nrate",
        "[\"server\", \"server\"]\nrate",
        "`between` names two different hosts",
        "4:11",
    ),
    (
        "rate = \"20 Mbit/s\"\n",
        "rate = 20\n",
        "as a quoted text with its unit; found the number 20",
        "5:8",
    ),
    (
        "rate = \"20 Mbit/s\"\n",
        "rate = \"20 Mbit/s\"\nframing = \"ppp\"\n",
        "\"ethernet\" (at least 60 B, and 24 B), \"atm\"",
        "6:11",
    ),
    (
        "rate = \"20 Mbit/s\"\n",
        "rate = \"20 Mbit/s\"\nloss = \"every 0\"\n",
        "\"every 1000\"",
        "6:8",
    ),
    (
        "rate = \"20 Mbit/s\"\n",
        "rate = \"20 Mbit/s\"\nmtu = \"9000 B\"\n",
        "write `max_frame = \"9014 B\"` in the policy",
        "7:1",
    ),
    (
        "[link.policy.server]",
        "[link.policy.sever]",
        "unknown end of this link `sever`",
        "6:14",
    ),
    (
        "name = \"call\"\nbetween = [\"server\", \"home\"]",
        "between = [\"server\", \"hom\"]",
        "did you mean `home`?",
        "17:22",
    ),
    (
        "kind = \"constant\"",
        "kind = \"constat\"",
        "did you mean \"constant\"?",
        "19:8",
    ),
    (
        "kind = \"constant\"",
        "kind = \"poisson\"\nframe = \"9000 B\"",
        "from 42 B to 1514 B",
        "20:9",
    ),
    (
        "kind = \"constant\"\nrate",
        "kind = \"tcp\"\ncontrol = \"cubik\"\nrat",
        "did you mean \"cubic\"?",
        "20:11",
    ),
    (
        "kind = \"constant\"\nrate = \"100 kbit/s\"",
        "kind = \"trace\"\nfile = \"times\"",
        "here is one of 1600 B",
        "20:8",
    ),
    (
        "kind = \"constant\"\nrate = \"100 kbit/s\"",
        "kind = \"pcap\"\nfile = \"x\"",
        "cannot replay `x`: this is no capture",
        "20:8",
    ),
    (
        "kind = \"constant\"",
        "kind = \"constant\"\nstart = \"40 s\"",
        "this flow never sends",
        "20:1",
    ),
    (
        "kind = \"constant\"",
        "kind = \"constant\"\nactive = \"5 s to 3 s\"",
        "must follow each other",
        "20:10",
    ),
    (
        "kind = \"constant\"",
        "kind = \"constant\"\nsource = \"::1\"",
        "of different families",
        "18:11",
    ),
    (
        "at = \"10 s\"",
        "at = \"30 s\"",
        "this change never happens: the scenario ends at 30 s",
        "22:6",
    ),
    (
        "class = \"calls\"\nrate = \"5 %\"",
        "class = \"call\"\nrate = \"5 %\"",
        "did you mean `calls`?",
        "23:9",
    ),
    (
        "class = \"calls\"\nrate = \"5 %\"",
        "class = \"calls\"",
        "this changes nothing",
        "21:1",
    ),
    (
        "rate = \"5 %\"",
        "rate = \"15 %\"",
        "have rates of 21 Mbit/s in sum, more than its 20 Mbit/s",
        "24:8",
    ),
    ("rate = \"5 %\"", "rat = \"5 %\"", "unknown setting `rat`", "24:7"),
    (
        "class = \"calls\"\nmetric",
        "class = \"voice\"\nmetric",
        "unknown class `voice`",
        "26:9",
    ),
    (
        "class = \"calls\"\nmetric",
        "flow = \"cal\"\nmetric",
        "did you mean `call`?",
        "26:8",
    ),
    (
        "class = \"calls\"\nmetric",
        "link = \"home > servr\"\nmetric",
        "did you mean `home > server`?",
        "26:8",
    ),
    (
        "metric = \"delay-max\"",
        "metric = \"delay\"",
        "expected one of \"rate\"",
        "27:10",
    ),
    (
        "metric = \"delay-max\"",
        "metric = \"load\"",
        "`load` can never be measured of class calls",
        "27:10",
    ),
    (
        "metric = \"delay-max\"",
        "metric = \"rate\"",
        "unknown unit \"ms\" for a rate",
        "30:11",
    ),
    (
        "to = \"30 s\"",
        "to = \"31 s\"",
        "this can never be measured: the scenario ends at 30 s",
        "29:6",
    ),
    (
        "to = \"30 s\"",
        "to = \"5 s\"",
        "the window ends before it begins",
        "29:6",
    ),
    ("at_most = \"1 ms\"", "", "a bound is missing", "25:1"),
    (
        "at_most = \"1 ms\"",
        "within = [\"2 ms\", \"1 ms\"]",
        "in the wrong order",
        "30:10",
    ),
    (
        "at_most = \"1 ms\"",
        "at_most = \"{limit}\"",
        "is a value of [sweep], and there is none",
        "30:11",
    ),
];

#[test]
fn every_mistake_is_reported_with_its_position_and_the_expectation() {
    assert!(read(GOOD).is_ok());
    let mut wrong = String::new();
    for (good, bad, expected, place) in MISTAKES {
        assert!(GOOD.contains(good), "{good}");
        let report = read(&GOOD.replacen(good, bad, 1)).expect_err(bad);
        if !report.contains(expected) || !report.contains(&format!("s.toml:{place}\n")) {
            wrong += &format!("{bad}: `{expected}` at {place} is missing in:\n{report}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn what_needs_sack_is_refused_in_a_recovery_without_it() {
    let text = |settings: &str| {
        format!(
            "version = 1\nduration = \"1 s\"\nlink = [{{ between = [\"a\", \"b\"], rate = \"10 Mbit/s\" }}]\n\
             [[flow]]\nbetween = [\"a\", \"b\"]\nkind = \"tcp\"\n{settings}\n"
        )
    };
    for good in [
        "recovery = \"linux-2.4\"",
        "recovery = \"sack\"\nrack = false\ntlp = false",
    ] {
        assert!(read(&text(good)).is_ok(), "{good}");
    }
    for key in ["rack", "tlp"] {
        let report = read(&text(&format!("recovery = \"newreno\"\n{key} = true"))).expect_err(key);
        let expected = format!("`{key}` belongs to `recovery = \"sack\"`; `newreno` does without");
        assert!(
            report.contains(&expected) && report.contains("s.toml:8:"),
            "{report}"
        );
    }
}

#[test]
fn a_failure_that_never_is_or_of_no_link_is_a_mistake_where_it_stands() {
    let text = |failure: &str| {
        format!(
            "version = 1\nduration = \"10 s\"\nlink = [{{ between = [\"a\", \"b\"], rate = \"10 Mbit/s\" }}]\n\
             flow = [{{ between = [\"a\", \"b\"], kind = \"greedy\" }}]\n[[failure]]\n{failure}\n"
        )
    };
    let good = point(&text("link = \"b > a\"\nfrom = \"2 s\"\nto = \"4 s\""), 1);
    let cut = |ms| good.cut_at(Instant::START + Duration::from_millis(ms));
    let long = point(&text("link = \"b > a\"\nfrom = \"2 s\""), 1);
    assert!(long.cut_at(Instant::START + Duration::from_secs(9)).contains(&0));
    assert!(cut(1_999).is_empty() && cut(2_000).contains(&0) && cut(4_000).is_empty());
    for (failure, place, message) in [
        (
            "link = \"a > c\"\nfrom = \"2 s\"",
            "s.toml:6:8",
            "unknown link `a > c`",
        ),
        (
            "link = \"a > b\"\nfrom = \"10 s\"",
            "s.toml:7:8",
            "this never fails",
        ),
        (
            "link = \"a > b\"\nfrom = \"3 s\"\nto = \"3 s\"",
            "s.toml:7:8",
            "this never fails",
        ),
    ] {
        let report = read(&text(failure)).expect_err(failure);
        assert!(report.contains(place) && report.contains(message), "{report}");
    }
}

/// A line a – r – b, and a second way by s with another MTU.
fn two_ways(failure: &str, mtu: u32) -> String {
    let link = |from: &str, to: &str, mtu: u32| {
        format!("[[link]]\nbetween = [\"{from}\", \"{to}\"]\nrate = \"10 Mbit/s\"\nmtu = \"{mtu} B\"\n")
    };
    let links = [
        link("a", "r", 1500),
        link("r", "b", 1500),
        link("a", "s", mtu),
        link("s", "b", 1500),
    ];
    format!(
        "version = 1\nduration = \"10 s\"\nflow = [{{ between = [\"a\", \"b\"], kind = \"greedy\" }}]\n\
         [[failure]]\nfrom = \"2 s\"\nto = \"4 s\"\n{failure}\n{}",
        links.concat()
    )
}

#[test]
fn a_failure_names_what_fails_and_routes_follow_it_only_to_another_way() {
    let restart = point(&two_ways("host = \"r\"\nreroute = \"0.5 s\"", 1500), 1);
    let at = |ms| Instant::START + Duration::from_millis(ms);
    assert_eq!(restart.cut_at(at(2_000)), [0, 1].into());
    assert_eq!(restart.restarted_at(at(2_000)), [1].into());
    assert_eq!(restart.restarted_at(at(4_000)), [1].into());
    assert!(restart.restarted_at(at(3_000)).is_empty());
    for (ms, around) in [(2_499, false), (2_500, true), (4_499, true), (4_500, false)] {
        let avoided = restart.avoided_at(at(ms));
        assert_eq!(avoided, if around { [0, 1].into() } else { [].into() });
        let path = restart.path_around([0, 2], &avoided);
        assert_eq!(path, if around { [4, 6] } else { [0, 2] });
    }
    for (failure, mtu, place, message) in [
        ("", 1500, "s.toml:4:1", "a failure is of a `link`, or of a `host`"),
        (
            "link = \"a > r\"\nhost = \"r\"",
            1500,
            "s.toml:4:1",
            "of a `link`, or of a `host`",
        ),
        ("host = \"q\"", 1500, "s.toml:7:8", "unknown host `q`"),
        (
            "host = \"b\"",
            1500,
            "s.toml:7:8",
            "flow `flow 1` begins or ends there",
        ),
        (
            "link = \"a > r\"\nreroute = \"2 s\"",
            1500,
            "s.toml:8:11",
            "would not follow before it works",
        ),
        (
            "link = \"a > s\"\nreroute = \"1 s\"",
            1500,
            "s.toml:8:11",
            "no flow has another way",
        ),
        (
            "link = \"a > r\"\nreroute = \"1 s\"",
            1400,
            "s.toml:8:11",
            "whose `mtu` is only 1.4 kB",
        ),
    ] {
        let report = read(&two_ways(failure, mtu)).expect_err(failure);
        assert!(
            report.contains(place) && report.contains(message),
            "{failure}: {report}"
        );
    }
    let program = two_ways("host = \"r\"", 1500) + "[[program]]\nhost = \"r\"\ncommand = [\"true\"]\n";
    let report = read(&program).expect_err("a program");
    assert!(report.contains("program `true` runs there"), "{report}");
}

#[test]
fn all_mistakes_are_reported_in_one_pass() {
    let mut text = GOOD.to_owned();
    for bad in ["duration = \"30 s\"", "kind = \"constant\"", "at = \"10 s\""] {
        text = text.replacen(bad, &format!("{bad}\nfoo = 1"), 1);
    }
    let report = read(&text).expect_err("mistakes");
    assert!(report.contains("s.toml: 2 mistakes"), "{report}");
}

#[test]
fn a_mistake_of_one_point_names_the_point() {
    let text = GOOD.replace(
        "rate = \"100 kbit/s\"",
        "rate = \"100 kbit/s\"\nframe = \"{frame}\"",
    );
    let report = read(&format!("{text}[sweep]\nframe = [\"100 B\", \"2000 B\"]\n")).expect_err("too long");
    assert!(
        report.contains("(at point 2: frame = 2000 B)") && report.contains("s.toml:21:9"),
        "{report}"
    );
}

#[test]
fn a_policy_file_with_a_mistake_is_pointed_into() {
    let text = "version = 1\nduration = \"1 s\"\nlink = [{ between = [\"a\", \"b\"], rate = \"20 Mbit/s\", policy.a = \"broken.toml\" }]\n\
                flow = [{ between = [\"a\", \"b\"], kind = \"tcp\" }]\n";
    let report = read(text).expect_err("a broken policy");
    assert!(
        report.contains("broken.toml:3:1: unknown setting `bandwith`"),
        "{report}"
    );
}

#[test]
fn a_scenario_passed_as_a_policy_or_a_topology_is_recognised() {
    let registry = Registry::builtin();
    let policy = control::policy::Policy::read("s.toml", GOOD, &registry, &[]).expect_err("a scenario");
    let topology = crate::topology::Topology::read("s.toml", GOOD, &registry, &Folder::of("s.toml"))
        .expect_err("a scenario");
    for (diagnostics, what) in [(policy, "policy"), (topology, "topology")] {
        let report = diagnostics.to_string();
        assert!(
            report.contains(&format!("this is a scenario, not a {what}")),
            "{report}"
        );
        assert!(
            report.contains("`suimon sim FILE` runs it") && report.contains("s.toml: 1 mistake\n"),
            "{report}"
        );
    }
}

#[test]
fn any_damage_is_reported_without_panic() {
    for at in (0..GOOD.len()).step_by(3) {
        let (head, tail) = GOOD.split_at(at);
        let _ = (
            read(head),
            read(tail),
            read(&format!("{head}[{tail}")),
            read(&format!("{head}{{{tail}")),
        );
    }
}
