//! `suimon sim` from the command line: the scenarios of this repository meet their expectations,
//! mistakes are reported with their position, and a sweep gives the same bytes however it is
//! split.

#[path = "stubs/copied.rs"]
mod copied;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "stubs/directory.rs"]
mod directory;

use copied::{beside_four_uploads, policies, tomls};
use directory::TestDirectory;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn suimon(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_suimon");
    Command::new(program)
        .args(arguments)
        .output()
        .expect("suimon starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

const SWEEP: &str = r#"
version = 1
duration = "500 ms"
link = [{ between = ["a", "b"], rate = "{rate}", delay = "2 ms", loss = "{loss}" }]
flow = [
    { name = "tcp", between = ["a", "b"], kind = "tcp", count = "{flows}" },
    { name = "noise", between = ["a", "b"], kind = "poisson", rate = "1 Mbit/s", frame = "500 B" },
]
expect = [{ flow = "tcp", metric = "rate", at_least = "3 Mbit/s" }]
[sweep]
rate = ["5 Mbit/s", "10 Mbit/s", "20 Mbit/s"]
flows = [1, 3]
loss = ["0 %", "1 %"]
"#;

#[test]
fn every_scenario_of_this_repository_meets_its_expectations_and_has_some() {
    let [mut files, disciplines] = [scenarios(), scenarios().join("disciplines")].map(tomls);
    assert!(files.len() >= 8 && disciplines.len() >= 14, "{disciplines:?}");
    files.extend(disciplines);
    for file in files {
        let path = file.to_string_lossy();
        let run = suimon(&["sim", "--json", &path]);
        let (out, err) = (text(&run.stdout), text(&run.stderr));
        assert_eq!(run.status.code(), Some(0), "{path}:\n{out}\n{err}");
        assert_eq!(err, "", "{path} gives warnings");
        let point: Value = serde_json::from_str(&out).expect("one object");
        assert!(
            point["expectations"]
                .as_array()
                .is_some_and(|all| !all.is_empty()),
            "{path} expects nothing"
        );
        let shown = suimon(&["check", &path]);
        assert_eq!(shown.status.code(), Some(0), "{path}: {}", text(&shown.stdout));
        assert!(text(&shown.stdout).contains("a scenario of"), "{path}");
    }
}

/// A call with a filter and bulk without one, by a discipline over classes.
const UNMATCHED: &str = r#"
version = 1
duration = "5 s"
link = [{ between = ["a", "b"], rate = "10 Mbit/s", policy.a = "policy.toml" }]
flow = [
    { name = "bulk", between = ["a", "b"], kind = "constant", rate = "12 Mbit/s" },
    { name = "call", between = ["a", "b"], kind = "constant", rate = "100 kbit/s", frame = "214 B", dscp = "ef" },
]
expect = [
    { class = "voice", metric = "rate", at_most = "110 kbit/s" },
    { class = "rest", metric = "rate", at_least = "4.8 Mbit/s" },
]
"#;

#[test]
fn what_no_filter_takes_goes_to_the_default_class_below_every_wrapper() {
    let place = TestDirectory::new("sim-unmatched");
    let wrappers = [
        r#"{ kind = "tbf", rate = "5 Mbit/s", child = KIND }"#,
        r#"{ kind = "red", child = KIND }"#,
        r#"{ kind = "police", rate = "5 Mbit/s", child = KIND }"#,
        r#"{ kind = "red", child = { kind = "tbf", rate = "5 Mbit/s", child = KIND } }"#,
    ];
    let kinds = [
        ("priq", "priority = 7", "priority = 0"),
        ("drr", "", ""),
        ("wrr", "", ""),
        ("cbq", r#"rate = "1 Mbit/s""#, r#"rate = "3 Mbit/s""#),
        ("hfsc", r#"linkshare = "1 Mbit/s""#, r#"linkshare = "3 Mbit/s""#),
    ];
    for wrapper in wrappers {
        for (kind, first, second) in kinds {
            let discipline = wrapper.replace("KIND", &format!("\"{kind}\""));
            let policy = format!(
                "version = 1\n[interface.a]\nbandwidth = \"10 Mbit/s\"\ndiscipline = {discipline}\n\
                 [[interface.a.class]]\nname = \"voice\"\n{first}\n\
                 [[interface.a.class]]\nname = \"rest\"\ndefault = true\n{second}\n\
                 [[interface.a.filter]]\nclass = \"voice\"\ndscp = \"ef\"\n"
            );
            place.write("policy.toml", &policy);
            let path = place.write("unmatched.toml", UNMATCHED);
            let run = suimon(&["sim", &path]);
            let shown = text(&run.stdout);
            assert_eq!(
                run.status.code(),
                Some(0),
                "{policy}\n{shown}{}",
                text(&run.stderr)
            );
            let checked: Value =
                serde_json::from_slice(&suimon(&["check", "--json", &path]).stdout).expect("JSON");
            assert_eq!(checked["means"]["links"][0]["unmatched"], "rest", "{checked}");
            assert_eq!(
                checked["means"]["flows"][0]["classes"][0]["class"], "rest",
                "{checked}"
            );
            let checked = text(&suimon(&["check", &path]).stdout);
            assert!(checked.contains("unmatched → rest"), "{checked}");
        }
    }
}

#[test]
fn every_kind_has_a_chart_on_its_page_equal_to_what_its_scenario_draws_now() {
    let place = TestDirectory::new("sim-pictures");
    let drawn = place.0.join("drawn.svg").to_string_lossy().into_owned();
    let kinds: Value = serde_json::from_slice(&suimon(&["kinds", "--json"]).stdout).expect("kinds");
    let pages = scenarios().join("../docs/disciplines");
    let again = "draw it with `cargo xtask pictures`";
    let overview = fs::read_to_string(pages.join("README.md")).expect("an overview");
    for kind in kinds.as_array().expect("a list") {
        let name = kind["name"].as_str().expect("a name");
        assert!(
            overview.contains(&format!("| [{name}]({name}.md) |")),
            "docs/disciplines/README.md has no line for {name}"
        );
        let scenario = scenarios().join(format!("disciplines/{name}.toml"));
        assert!(
            scenario.exists(),
            "{name} has no scenario in scenarios/disciplines: write one, and {again}"
        );
        let run = suimon(&["sim", "--json", "--picture", &drawn, &scenario.to_string_lossy()]);
        assert_eq!(run.status.code(), Some(0), "{name}: {}", text(&run.stderr));
        let now = fs::read_to_string(&drawn).expect("a picture");
        let kept = fs::read_to_string(pages.join(format!("{name}.svg"))).unwrap_or_default();
        assert!(
            now == kept,
            "docs/disciplines/{name}.svg is missing or out of date: {again}"
        );
        assert!(now.len() < 100_000, "{name}.svg has {} bytes", now.len());
        let page = fs::read_to_string(pages.join(format!("{name}.md"))).expect("a page");
        let shown = page.split("![").skip(1).filter_map(|rest| rest.split_once("]("));
        let alt = shown
            .filter(|(_, to)| to.starts_with(&format!("{name}.svg)")))
            .map(|(alt, _)| alt);
        assert!(
            alt.last().is_some_and(|alt| alt.len() > 40),
            "docs/disciplines/{name}.md does not show {name}.svg with a text alternative"
        );
    }
}

#[test]
fn the_readmes_scenario_runs_with_the_readmes_policy() {
    let place = TestDirectory::new("sim-readme");
    let readme = fs::read_to_string(scenarios().join("../README.md")).expect("README.md");
    let blocks = readme.split("```toml\n").skip(1);
    let mut blocks = blocks
        .filter_map(|rest| rest.split_once("```"))
        .map(|(block, _)| block);
    place.write("policy.toml", blocks.next().expect("a policy"));
    let scenario = blocks.next().expect("a scenario");
    assert!(scenario.lines().count() <= 12, "it should be short:\n{scenario}");
    let run = suimon(&["sim", &place.write("mine.toml", scenario)]);
    let out = text(&run.stdout);
    assert_eq!(run.status.code(), Some(0), "{out}\n{}", text(&run.stderr));
    assert!(out.contains("calls") && out.contains("server > home"), "{out}");
}

#[test]
fn a_ping_beside_four_uploads_does_not_wait_with_any_policy_that_is_there_to_be_copied() {
    let place = TestDirectory::new("sim-copied");
    for of in policies(|name, text| place.write(name, text)) {
        let scenario = place.write("judge.toml", &beside_four_uploads(&of, 20));
        let run = suimon(&["sim", &scenario]);
        let out = text(&run.stdout);
        let (file, interface) = (&of.file, &of.interface);
        assert_eq!(
            run.status.code(),
            Some(0),
            "{file}, {interface}:\n{out}\n{}",
            text(&run.stderr)
        );
    }
}

#[test]
fn what_several_seeds_measure_is_told_as_a_mean_with_its_interval() {
    let place = TestDirectory::new("sim-seeds");
    let text_of = |seeds: &str| {
        format!(
            r#"
            version = 1
            duration = "5 s"
            link = [{{ between = ["a", "b"], rate = "10 Mbit/s" }}]
            flow = [{{ name = "x", between = ["a", "b"], kind = "poisson", rate = "{{rate}}", frame = "1000 B" }}]
            expect = [{{ flow = "x", metric = "rate", at_least = "1.99 Mbit/s" }}]
            [sweep]
            rate = ["2 Mbit/s", "4 Mbit/s"]
            seed = {seeds}
            "#
        )
    };
    let out = |seeds: &str| {
        let run = suimon(&[
            "sim",
            &place.write("seeds.toml", &text_of(seeds)),
            "--report",
            &place.path("r"),
        ]);
        assert_eq!(text(&run.stderr), "");
        text(&run.stdout)
    };
    let ten = out("10");
    let lines: Vec<&str> = ten
        .lines()
        .skip_while(|line| !line.starts_with("means over all seeds"))
        .collect();
    let [_, head, two, four, ..] = lines[..] else {
        panic!("{ten}");
    };
    assert!(head.contains("rate") && head.contains("seeds"), "{head}");
    // 250 packets a second for 5 s: the mean of ten runs is within 1 % in 95 of 100 cases.
    for (row, rate, missed) in [(two, "2", true), (four, "4", false)] {
        let first: Vec<&str> = row.split_whitespace().take(3).collect();
        assert_eq!(first, [rate, "Mbit/s", "10"], "{row}");
        let (mean, within) = row.split_once(" ± ").expect("an interval");
        let mean: f64 = mean
            .split_whitespace()
            .rev()
            .nth(1)
            .expect("a mean")
            .parse()
            .expect("a number");
        let within: f64 = within
            .split(' ')
            .next()
            .expect("a width")
            .parse()
            .expect("a number");
        let truth = f64::from(rate.as_bytes()[0] - b'0');
        assert!((mean / truth - 1.0).abs() < 0.03, "{row}");
        assert!((2.0..150.0).contains(&within), "{row}");
        assert_eq!(row.contains("MISSED"), missed, "{row}");
    }
    let page = fs::read_to_string(place.path("r/seeds.html")).expect("the page");
    assert!(page.contains("Over all seeds"));
    // A number is short for that many.
    assert_eq!(ten, out("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"));
    let wrong = suimon(&["sim", &place.write("wrong.toml", &text_of("0"))]);
    assert!(
        text(&wrong.stderr).contains("or how many seeds"),
        "{}",
        text(&wrong.stderr)
    );
}

#[test]
fn a_missed_expectation_exits_with_4_and_reports_expected_and_measured_value() {
    let place = TestDirectory::new("sim-missed");
    let scenario = place.write(
        "s.toml",
        r#"
        version = 1
        duration = "1 s"
        link = [{ between = ["a", "b"], rate = "10 Mbit/s" }]
        flow = [{ name = "x", between = ["a", "b"], kind = "constant", rate = "4 Mbit/s", frame = "1000 B" }]
        expect = [
            { flow = "x", metric = "rate", at_least = "5 Mbit/s" },
            { link = "a > b", metric = "load", at_most = "50 %" },
        ]
        "#,
    );
    let run = suimon(&["sim", &scenario]);
    assert_eq!(run.status.code(), Some(4), "{}", text(&run.stderr));
    let out = text(&run.stdout);
    assert!(
        out.contains(
            "MISSED  flow x: rate: expected at least 5 Mbit/s, measured 4 Mbit/s: 1 Mbit/s too little (20 %)"
        ),
        "{out}"
    );
    assert!(
        out.contains("met     link a > b: load: expected at most 50 %, measured 40 %"),
        "{out}"
    );
}

#[test]
fn the_packets_that_a_link_lists_are_lost_and_no_others() {
    let place = TestDirectory::new("sim-listed");
    let scenario = place.write(
        "s.toml",
        r#"
        version = 1
        duration = "1 s"
        link = [{ between = ["a", "b"], rate = "10 Mbit/s", loss = "packets 2, 4-5" }]
        flow = [{ name = "x", between = ["a", "b"], kind = "burst", frames = 6, period = "10 s", frame = "500 B" }]
        expect = [
            { flow = "x", metric = "packets", at_least = 3, at_most = 3 },
            # Alone on the wire for 0.4 ms each: the last to arrive is the sixth.
            { flow = "x", metric = "delay-max", at_least = "2.4 ms", at_most = "2.4 ms" },
        ]
        "#,
    );
    let run = suimon(&["sim", &scenario]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stdout));
}

#[test]
fn a_sweep_is_the_same_bytes_for_any_split_and_any_number_of_threads() {
    let place = TestDirectory::new("sim-sweep");
    let scenario = place.write("s.toml", SWEEP);
    let whole = suimon(&["sim", "--json", "--jobs", "1", &scenario]);
    assert_eq!(whole.status.code(), Some(4), "{}", text(&whole.stderr));
    let lines = text(&whole.stdout);
    assert_eq!(lines.lines().count(), 12);
    let points: Vec<u64> = lines
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).expect("JSON")["point"]
                .as_u64()
                .expect("a number")
        })
        .collect();
    assert_eq!(points, (1..=12).collect::<Vec<_>>());
    assert_eq!(
        suimon(&["sim", "--json", "--jobs", "7", &scenario]).stdout,
        whole.stdout,
        "threads"
    );
    for of in [1, 2, 5, 12, 13] {
        let mut outputs: Vec<String> = (1..=of)
            .map(|number| {
                let run = suimon(&[
                    "sim",
                    "--json",
                    "--jobs",
                    "2",
                    "--shard",
                    &format!("{number}/{of}"),
                    &scenario,
                ]);
                place.write(&format!("{number}-{of}.json"), &text(&run.stdout))
            })
            .collect();
        // In any order of completion.
        outputs.reverse();
        let files: Vec<&str> = ["sim", "--merge"]
            .into_iter()
            .chain(outputs.iter().map(String::as_str))
            .collect();
        let merged = suimon(&files);
        assert_eq!(
            text(&merged.stdout),
            lines,
            "{of} shards: {}",
            text(&merged.stderr)
        );
        assert_eq!(merged.status.code(), Some(4), "a missed expectation stays missed");
    }
}

/// The page's lines are run as they stand there.
#[test]
fn gnu_parallel_runs_the_shards_as_the_page_says() {
    let version = Command::new("parallel").arg("--version").output();
    let gnu = version.is_ok_and(|said| text(&said.stdout).starts_with("GNU parallel"));
    if !gnu {
        skips::skipped("GNU parallel is not installed");
        return;
    }
    let page = fs::read_to_string(scenarios().join("../docs/scenarios.md")).expect("the page");
    let (_, recipe) = page.split_once("```sh\nseq 8 |").expect("the recipe");
    let (lines, _) = recipe.split_once("```").expect("its end");
    let place = TestDirectory::new("sim-parallel");
    // All expectations are met, so that no shard is a failure.
    let scenario = place.write("sweep.toml", &SWEEP.replace("3 Mbit/s", "1 kbit/s"));
    let program = Path::new(env!("CARGO_BIN_EXE_suimon"))
        .parent()
        .expect("a folder");
    let path = std::env::var("PATH").expect("a path");
    let run = Command::new("sh")
        .args(["-e", "-c", &format!("seq 8 |{lines}")])
        .current_dir(&place.0)
        .env("PATH", format!("{}:{path}", program.display()))
        .output()
        .expect("a shell");
    assert!(run.status.success(), "{}", text(&run.stderr));
    let merged = fs::read(place.0.join("sweep.json")).expect("the merged lines");
    let whole = suimon(&["sim", "--json", &scenario]);
    assert_eq!(text(&merged), text(&whole.stdout));
    assert_eq!(text(&merged).lines().count(), 12);
}

#[test]
fn a_plot_of_a_sweep_has_a_line_for_each_value_and_what_it_does_not_have_is_refused() {
    let folder = TestDirectory::new("sim-plot");
    let scenario = folder.write("sweep.toml", SWEEP);
    let file = folder.0.join("fig.svg");
    let plot = format!("rate,flow tcp: rate,flows={}", file.display());
    let run = suimon(&["sim", "--plot", &plot, &scenario]);
    assert_eq!(run.status.code(), Some(4), "{}", text(&run.stderr));
    let svg = fs::read_to_string(&file).expect("a chart");
    for shown in ["flow tcp: rate over rate", ">1<", ">3<", "Mbit/s"] {
        assert!(svg.contains(shown), "{shown}: {svg}");
    }
    for (what, why) in [
        ("speed,flow tcp: rate", "`speed` is not swept; these are: "),
        ("rate,flow tcp: rate,colour", "`colour` is not swept"),
        ("rate,tcp", "`tcp` is not measured; these are: flow tcp: rate"),
        ("rate", "is not X,Y=FILE"),
    ] {
        let run = suimon(&["sim", "--plot", &format!("{what}=other.svg"), &scenario]);
        assert_eq!(run.status.code(), Some(2), "{what}: {}", text(&run.stderr));
        assert!(text(&run.stderr).contains(why), "{what}: {}", text(&run.stderr));
    }
}

#[test]
fn a_sweep_that_is_killed_goes_on_where_it_was() {
    let folder = TestDirectory::new("sim-resume");
    let sweep = SWEEP.replace("3 Mbit/s", "1 kbit/s");
    let scenario = folder.write("sweep.toml", &sweep);
    let kept = folder.0.join("kept").to_string_lossy().into_owned();
    let whole = text(&suimon(&["sim", "--json", &scenario]).stdout);
    let arguments = ["sim", "--json", "--jobs", "1", "--resume", &kept, &scenario];
    let mut child = Command::new(env!("CARGO_BIN_EXE_suimon"))
        .args(arguments)
        .stdout(Stdio::null())
        .spawn()
        .expect("suimon starts");
    let lines = || fs::read_to_string(&kept).map_or(0, |text| text.lines().count());
    while lines() < 3 && child.try_wait().expect("our child").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child.kill().expect("killing it");
    child.wait().expect("its end");
    // What was finished is not run again: a point of ours in its place is shown as it is.
    let own = whole
        .lines()
        .nth(1)
        .expect("a second point")
        .replace("\"met\":true", "\"met\":false");
    let before = fs::read_to_string(&kept).expect("the file");
    let second = before.lines().nth(2).expect("two points").to_owned();
    let changed = before.replacen(&second, &own, 1);
    fs::write(&kept, format!("{changed}{{\"point\":12")).expect("written");
    let run = suimon(&arguments);
    let expected = whole.replacen(&second, &own, 1);
    assert!(
        text(&run.stdout) == expected,
        "{}\n{}",
        text(&run.stdout),
        text(&run.stderr)
    );
    assert_eq!(run.status.code(), Some(4), "a kept point missed what is expected");
    // All is finished now: nothing is run, and the file has each point once.
    fs::write(
        &kept,
        fs::read_to_string(&kept)
            .expect("the file")
            .replacen(&own, &second, 1),
    )
    .expect("written");
    let run = suimon(&arguments);
    assert!(text(&run.stdout) == whole, "{}", text(&run.stderr));
    assert_eq!((run.status.code(), lines()), (Some(0), 13));
    // Another sweep does not mix with it.
    folder.write("sweep.toml", &sweep.replace("2 ms", "3 ms"));
    let run = suimon(&arguments);
    assert_eq!(run.status.code(), Some(2));
    assert!(
        text(&run.stderr).contains("was changed since"),
        "{}",
        text(&run.stderr)
    );
}

#[test]
fn a_merge_of_incomplete_or_different_sweeps_is_refused() {
    let place = TestDirectory::new("sim-merge");
    let scenario = place.write("s.toml", SWEEP);
    let part = place.write(
        "1.json",
        &text(&suimon(&["sim", "--json", "--shard", "1/3", &scenario]).stdout),
    );
    let lacks = suimon(&["sim", "--merge", &part]);
    assert_eq!(lacks.status.code(), Some(2));
    assert!(
        text(&lacks.stderr).contains("`s`: 8 of 12 points are missing; the first is point 2"),
        "{}",
        text(&lacks.stderr)
    );
    let other = place.write("s.toml", &SWEEP.replace("[1, 3]", "[1]"));
    let other = place.write("2.json", &text(&suimon(&["sim", "--json", &other]).stdout));
    let different = suimon(&["sim", "--merge", &part, &other]);
    assert_eq!(different.status.code(), Some(2));
    assert!(
        text(&different.stderr).contains("2.json:1: `s` has 12 points here, and")
            || text(&different.stderr).contains("these are different sweeps"),
        "{}",
        text(&different.stderr)
    );
    let odd = place.write("odd.json", "{}\n");
    assert!(text(&suimon(&["sim", "--merge", &odd]).stderr).contains("odd.json:1: expected a line of"));
}

#[test]
fn another_seed_is_another_result_and_the_same_seed_the_same() {
    let place = TestDirectory::new("sim-seed");
    let run = |seed: u32| {
        let scenario = format!(
            "version = 1\nduration = \"1 s\"\nseed = {seed}\nlink = [{{ between = [\"a\", \"b\"], rate = \"10 Mbit/s\" }}]\n\
             flow = [{{ between = [\"a\", \"b\"], kind = \"on-off\", rate = \"8 Mbit/s\", on = \"20 ms\", off = \"20 ms\" }}]\n"
        );
        suimon(&["sim", "--json", &place.write("s.toml", &scenario)]).stdout
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn series_and_captures_are_written_and_contain_the_same_bytes() {
    let place = TestDirectory::new("sim-files");
    let scenario = place.write(
        "s.toml",
        "version = 1\nduration = \"1 s\"\nbin = \"100 ms\"\nlink = [{ between = [\"a\", \"b\"], rate = \"10 Mbit/s\", delay = \"1 ms\" }]\n\
         flow = [{ name = \"x\", between = [\"a\", \"b\"], kind = \"constant\", rate = \"8 Mbit/s\", frame = \"1000 B\" }]\n",
    );
    let (csv, pcap) = (place.write("x.csv", ""), place.write("x.pcapng", ""));
    let run = suimon(&[
        "sim",
        "--json",
        "--csv",
        &csv,
        "--pcap",
        &format!("a>b={pcap}"),
        &scenario,
    ]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let point: Value = serde_json::from_str(&text(&run.stdout)).expect("JSON");
    let csv = fs::read_to_string(csv).expect("a file");
    let rates: u64 = csv
        .lines()
        .filter(|line| line.starts_with("1,link,a > b,,"))
        .map(|line| {
            line.rsplit(',')
                .next()
                .expect("a field")
                .parse::<u64>()
                .expect("a number")
        })
        .sum();
    let bytes = point["links"][0]["sent_bytes"].as_u64().expect("a number");
    assert_eq!(rates / 80, bytes, "bit/s in bins of 100 ms");
    // The same capture, replayed, is the same traffic.
    let replay = place.write(
        "replay.toml",
        "version = 1\nduration = \"1 s\"\nlink = [{ between = [\"a\", \"b\"], rate = \"10 Mbit/s\", delay = \"1 ms\" }]\n\
         flow = [{ name = \"x\", between = [\"a\", \"b\"], kind = \"pcap\", file = \"x.pcapng\" }]\n",
    );
    let again = suimon(&["sim", "--json", &replay]);
    let again: Value =
        serde_json::from_str(&text(&again.stdout)).unwrap_or_else(|_| panic!("{}", text(&again.stderr)));
    assert_eq!(
        again["links"][0]["sent_packets"],
        point["links"][0]["sent_packets"]
    );
    let sweep = place.write("sweep.toml", SWEEP);
    let several = suimon(&["sim", "--pcap", &format!("a > b={pcap}"), &sweep]);
    assert_eq!(several.status.code(), Some(2));
    assert!(text(&several.stderr).contains("--pcap captures one point, but the scenario has 12"));
}

#[test]
fn a_policy_or_a_topology_is_recognised_with_a_remedy() {
    let examples = scenarios().join("../examples");
    for (file, expected, advice) in [
        (
            "home-router.toml",
            "this is a policy, not a scenario",
            "policy.server = \"FILE\"",
        ),
        (
            "lab-dumbbell.toml",
            "this is a topology, not a scenario",
            "`suimon lab FILE` builds it",
        ),
    ] {
        let run = suimon(&["sim", &examples.join(file).to_string_lossy()]);
        let err = text(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{err}");
        assert!(err.contains(expected) && err.contains(advice), "{err}");
    }
}

#[test]
fn of_a_policy_with_several_interfaces_the_named_one_applies() {
    let place = TestDirectory::new("sim-policy");
    let policy = fs::read_to_string(scenarios().join("../examples/home-router.toml")).expect("an example");
    place.write("router.toml", &policy);
    let scenario = |word: &str| {
        format!(
            "version = 1\nduration = \"1 s\"\nlink = [{{ between = [\"home\", \"net\"], rate = \"40 Mbit/s\", policy.home = \"{word}\" }}]\n\
             flow = [{{ name = \"call\", between = [\"home\", \"net\"], kind = \"constant\", rate = \"1 Mbit/s\", dscp = \"ef\" }}]\n"
        )
    };
    let good = suimon(&[
        "check",
        "--json",
        &place.write("s.toml", &scenario("router.toml: wan0")),
    ]);
    let good: Value = serde_json::from_str(&text(&good.stdout)).expect("JSON");
    assert_eq!(
        good["means"]["flows"][0]["classes"][0]["class"], "calls",
        "{good}"
    );
    for (word, expected) in [
        ("router.toml", "has several interfaces: wan0, lan0"),
        ("router.toml: wan1", "unknown interface of the policy `wan1`"),
        ("routr.toml", "cannot read the policy `routr.toml`"),
        ("fq_codel", "discipline = \"fq_codel\" }"),
    ] {
        let run = suimon(&["sim", &place.write("s.toml", &scenario(word))]);
        assert_eq!(run.status.code(), Some(2));
        assert!(
            text(&run.stderr).contains(expected),
            "{word}: {}",
            text(&run.stderr)
        );
    }
}

/// A window that never grows beyond the receiver's has a round trip that is known: its own bits at
/// the link's rate, or the propagation, whichever is longer.
#[test]
fn windows_over_time_are_those_of_a_path_that_is_known() {
    let place = TestDirectory::new("sim-tcp");
    let [file, csv, svg] = ["known.toml", "known.csv", "known.svg"].map(|name| place.0.join(name));
    let scenario = r#"
version = 1
duration = "4 s"
link = [{ between = ["a", "b"], rate = "10 Mbit/s", delay = "10 ms", buffer = "1 MB" }]
flow = [
    { name = "known", between = ["a", "b"], kind = "tcp", receive_window = "125 kB", count = 1 },
    { name = "noise", between = ["b", "a"], kind = "poisson", rate = "1 Mbit/s", frame = "500 B" },
]
"#;
    fs::write(&file, scenario).expect("a scenario");
    let plain = suimon(&["sim", "--json", &file.to_string_lossy()]);
    for out in [&csv, &svg] {
        let [file, out] = [&file, out].map(|path| path.to_string_lossy());
        let run = suimon(&["sim", "--json", "--tcp", &out, &file]);
        assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
        assert_eq!(run.stdout, plain.stdout, "what is watched stays as it was");
    }
    let lines = fs::read_to_string(&csv).expect("samples");
    let rows: Vec<Vec<&str>> = lines
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect())
        .collect();
    assert!((380..=400).contains(&rows.len()), "{} samples", rows.len());
    assert!(
        rows.iter()
            .all(|row| row[..2] == ["simulator", "known"] && row[5] == "0")
    );
    for row in &rows[rows.len() / 2..] {
        // 125 kB of payload in frames of 1,514 B at 10 Mbit/s take 104.6 ms.
        let rtt: u64 = row[4].parse().expect("a time");
        assert!((95_000_000..115_000_000).contains(&rtt), "{row:?}");
        let cwnd: u64 = row[3].parse().expect("a length");
        assert!(cwnd >= 120_000, "{row:?}");
    }
    let drawn = fs::read_to_string(&svg).expect("a chart");
    assert!(
        drawn.contains("Congestion window") && drawn.len() < 100_000,
        "{}",
        drawn.len()
    );
    let swept = scenario.replace("count = 1", "count = \"{n}\"") + "[sweep]\nn = [1, 2]\n";
    fs::write(&file, swept).expect("a sweep");
    let run = suimon(&["sim", "--tcp", &csv.to_string_lossy(), &file.to_string_lossy()]);
    assert_eq!(run.status.code(), Some(2));
    assert!(
        text(&run.stderr).contains("--tcp shows one point"),
        "{}",
        text(&run.stderr)
    );
}
