//! What the page gets for what it asks, natively: the same code as in the browser.

use browser::Simulator;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn ask(simulator: &mut Simulator, request: &Value) -> Value {
    let answer = simulator.answer(&request.to_string());
    serde_json::from_str(&answer).unwrap_or_else(|why| panic!("{answer}: {why}"))
}

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn text(name: &str) -> String {
    std::fs::read_to_string(scenarios().join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// A run to its end: the samples, and the outcome.
fn run(simulator: &mut Simulator, begin: &Value) -> (Value, Vec<Value>, Value) {
    let begun = ask(simulator, begin);
    assert!(begun.get("error").is_none(), "{begun}");
    let mut samples = Vec::new();
    loop {
        let stepped = ask(simulator, &json!({ "ask": "step" }));
        samples.push(stepped.clone());
        if stepped["is_end"] == json!(true) {
            return (begun, samples, ask(simulator, &json!({ "ask": "outcome" })));
        }
    }
}

const SHORT: &str = "version = 1\nduration = \"2 s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\n\
                     [[flow]]\nbetween = [\"a\", \"b\"]\nkind = \"poisson\"\nrate = \"4 Mbit/s\"\n";

#[test]
fn a_run_has_samples_of_each_row_and_the_outcome_of_the_program() {
    let mut simulator = Simulator::default();
    let (begun, samples, outcome) = run(&mut simulator, &json!({ "ask": "begin", "text": SHORT }));
    assert_eq!(begun["duration_ns"], 2_000_000_000_u64);
    let rows: usize = begun["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .map(|group| group["rows"].as_array().map_or(0, Vec::len))
        .sum();
    assert_eq!(rows, 3, "{begun}");
    let with: Vec<&Value> = samples
        .iter()
        .filter(|sample| !sample["rows"].is_null())
        .collect();
    assert_eq!(with.len(), 400);
    assert!(
        with.iter()
            .all(|sample| sample["rows"].as_array().map(Vec::len) == Some(rows))
    );
    // The program's own report of the same text, by the functions that its verb calls.
    let (registry, folder) = (
        engine::tree::Registry::builtin(),
        scenario::folder::Folder::of(""),
    );
    let read = scenario::Scenarios::read("scenario.toml", SHORT, &registry, &folder).expect("a scenario");
    let point = scenario::run::outcome::Point::only();
    let one = read.point(1, &folder).expect("a point");
    let program = scenario::run::run("scenario.toml", &one, point, &[], &mut |_, _| {}).expect("it runs");
    assert_eq!(outcome, scenario::report::json::point(&program));
    let over = ask(&mut simulator, &json!({ "ask": "outcome" }));
    assert_eq!(over["error"], "no run goes on");
}

#[test]
fn a_seed_is_that_of_the_run_and_leaves_mistakes_where_they_are() {
    let mut simulator = Simulator::default();
    let mut outcome = |seed: Value| {
        let begin = json!({ "ask": "begin", "text": SHORT, "seed": seed });
        run(&mut simulator, &begin).2
    };
    let (own, first, second) = (outcome(Value::Null), outcome(json!(1)), outcome(json!(2)));
    assert_eq!(own, first, "1 is the default");
    assert_ne!(first["events"], second["events"]);
    let wrong = format!("# A line.\n{}", SHORT.replace("10 Mbit/s", "10"));
    let refused = ask(
        &mut simulator,
        &json!({ "ask": "begin", "text": wrong, "seed": 7 }),
    );
    assert_eq!(
        (
            &refused["diagnostics"][0]["line"],
            &refused["diagnostics"][0]["column"]
        ),
        (&json!(6), &json!(8))
    );
}

#[test]
fn mistakes_are_told_with_their_places() {
    let mut simulator = Simulator::default();
    let mut check = |text: &str| ask(&mut simulator, &json!({ "ask": "check", "text": text }));
    assert_eq!(check(SHORT), json!({ "diagnostics": [], "points": [{}] }));
    let wrong = check(&SHORT.replace("kind = \"poisson\"", "kind = \"poison\""));
    let first = &wrong["diagnostics"][0];
    assert_eq!(
        (&first["line"], &first["severity"], &wrong["points"]),
        (&json!(8), &json!("mistake"), &json!([]))
    );
    assert!(
        first["message"]
            .as_str()
            .is_some_and(|said| said.contains("did you mean \"poisson\"")),
        "{wrong}"
    );
    assert!(
        !check("duration = ")["diagnostics"]
            .as_array()
            .expect("a list")
            .is_empty()
    );
    let policy = check("version = 1\n[interface.wan0]\nbandwidth = \"9 Mbit/s\"\ndiscipline = \"fifo\"\n");
    assert!(policy.to_string().contains("a policy"), "{policy}");
    let long = check(&format!("{SHORT}#{}", " ".repeat(1 << 20)));
    assert!(
        long["error"]
            .as_str()
            .is_some_and(|error| error.contains("1 MiB")),
        "{long}"
    );
    let none = ask(&mut simulator, &json!({ "ask": "nothing" }));
    assert!(
        none["error"]
            .as_str()
            .is_some_and(|error| error.contains("this is no request")),
        "{none}"
    );
}

#[test]
fn the_points_of_a_sweep_are_told_and_run_one_by_one() {
    let mut simulator = Simulator::default();
    let text = SHORT.replace("4 Mbit/s", "{load}") + "[sweep]\nload = [\"4 Mbit/s\", \"8 Mbit/s\"]\n";
    let checked = ask(&mut simulator, &json!({ "ask": "check", "text": text }));
    let points = checked["points"].as_array().expect("points").clone();
    assert_eq!(
        json!(points),
        json!([{ "load": "4 Mbit/s" }, { "load": "8 Mbit/s" }])
    );
    let begin = |point: usize| json!({ "ask": "begin", "text": text, "point": point });
    let second = run(&mut simulator, &begin(2)).2;
    assert_eq!((&second["point"], &second["sweep"]), (&json!(2), &points[1]));
    let beyond = ask(&mut simulator, &begin(points.len() + 1));
    assert!(
        beyond["error"]
            .as_str()
            .is_some_and(|error| error.contains("there is no point")),
        "{beyond}"
    );
}

/// Every scenario of the site reads there, with the files that the page brings and no others.
#[test]
fn every_example_reads_with_the_files_that_the_page_brings() {
    let mut simulator = Simulator::default();
    let mut files = serde_json::Map::new();
    for folder in ["policies", "traces", "topologies"] {
        for entry in std::fs::read_dir(scenarios().join(folder)).expect(folder) {
            let name = entry.expect(folder).file_name().into_string().expect("a name");
            files.insert(
                format!("{folder}/{name}"),
                json!(text(&format!("{folder}/{name}"))),
            );
        }
    }
    let mut read = 0;
    let mut names: Vec<String> = Vec::new();
    for folder in ["", "disciplines/"] {
        for entry in std::fs::read_dir(scenarios().join(folder)).expect("a folder") {
            let name = entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a name");
            names.extend(name.ends_with(".toml").then(|| format!("{folder}{name}")));
        }
    }
    for brought in [json!({}), Value::Object(files)] {
        let has_files = brought != json!({});
        assert_eq!(
            ask(&mut simulator, &json!({ "ask": "files", "files": brought })),
            json!({})
        );
        for name in &names {
            let checked = ask(&mut simulator, &json!({ "ask": "check", "text": text(name) }));
            let first = checked["diagnostics"].as_array().expect("a list").iter();
            let mistake = first
                .filter(|one| one["severity"] == "mistake")
                .map(|one| &one["message"])
                .next();
            match mistake {
                None => read += 1,
                Some(message) => {
                    let why = message.as_str().unwrap_or_default();
                    assert!(
                        !has_files && why.contains("this page has no files"),
                        "{name}: {why}"
                    );
                }
            }
        }
    }
    assert!(
        read > names.len() && read < names.len() * 2,
        "{read} of twice {}",
        names.len()
    );
}

#[test]
fn what_can_be_written_is_what_the_readers_declare() {
    let words = ask(&mut Simulator::default(), &json!({ "ask": "words" }));
    for (section, key) in [
        ("", "duration"),
        ("link", "rate"),
        ("link", "delay"),
        ("flow", "kind"),
        ("flow", "control"),
        ("policy", "bandwidth"),
        ("policy", "discipline"),
        ("class", "weight"),
        ("class", "name"),
        ("filter", "destination_port"),
        ("discipline", "limit"),
        ("expect", "at_least"),
    ] {
        let help = &words["sections"][section][key]["help"];
        assert!(
            help.as_str().is_some_and(|help| help.len() > 3),
            "{section}.{key}: {help}"
        );
    }
    let kinds = &words["values"]["discipline"];
    let registry = engine::tree::Registry::builtin();
    assert!(registry.kinds().all(|kind| kinds.get(kind.name).is_some()));
    assert!(
        words["sections"]["expect"]["metric"]["unit"]
            .as_str()
            .is_some_and(|unit| unit.contains("\"jain\""))
    );
}

/// As the page does: bytes in, bytes out.
#[test]
fn a_request_goes_in_as_bytes_and_its_answer_comes_out() {
    use browser::exports::{answer, ask, room};
    // The bytes themselves are read by whoever has the module's memory, which is the page.
    assert!(!room(5).is_null());
    let length = ask();
    assert!(length > 20 && !answer().is_null());
}
