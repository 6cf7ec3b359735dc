//! The schemas of policies, of the control socket and of HTTP in docs: they are those that the
//! program prints; every policy that `check` accepts is valid by the one, what docs/socket.md
//! shows by the other, and what people mistype is not. The lines of the program's own clients
//! are judged in tests/rsvp/socket.rs, the answers over HTTP in tests/web/openapi.rs.
//!
//! Run with `BLESS=1` to write the current one; review the difference before committing it.

use control::policy::Policy;
use control::protocol::{Reply, Request};
use engine::tree::Registry;
use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn printed(of: &str) -> String {
    let mut suimon = Command::new(env!("CARGO_BIN_EXE_suimon"));
    let output = suimon.args(["kinds", "--schema", of]).output().expect("it runs");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

fn validator() -> Validator {
    of_schema(&serde_json::from_str(&printed("policy")).expect("JSON"))
}

fn of_schema(schema: &Value) -> Validator {
    assert!(jsonschema::draft202012::meta::is_valid(schema), "no valid schema");
    jsonschema::draft202012::new(schema).expect("a schema")
}

/// The schema of requests, or of replies.
fn of_lines(what: &str) -> (Value, Validator) {
    let mut schema: Value = serde_json::from_str(&printed("socket")).expect("JSON");
    schema["anyOf"] = json!([{ "$ref": format!("#/$defs/{what}") }]);
    let validator = of_schema(&schema);
    (schema["$defs"][what].take(), validator)
}

fn as_json(toml: &str) -> Option<Value> {
    let read: toml::Table = toml.parse().ok()?;
    serde_json::to_value(read).ok()
}

/// The TOML files of a folder, and of those below it.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
}

#[test]
fn the_committed_schemas_are_those_that_the_declarations_give() {
    for (of, name) in [
        ("policy", "docs/policy.schema.json"),
        ("socket", "docs/socket.schema.json"),
        ("http", "docs/openapi.json"),
    ] {
        let now = printed(of);
        let path = root().join(name);
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, &now).expect("it can be written");
        }
        let committed = fs::read_to_string(&path).expect("a schema");
        assert!(
            committed == now,
            "out of date: `suimon kinds --schema {of} > {name}`"
        );
        // Of the documentation of types nothing is left that only its readers can follow.
        assert!(!now.contains("[`"), "{name} links to types");
    }
}

/// The lines that docs/socket.md shows, but for the one that is a mistake.
fn shown_lines() -> Vec<Value> {
    let page = fs::read_to_string(root().join("docs/socket.md")).expect("a page");
    let lines = page.lines().filter(|line| line.starts_with('{'));
    let values = lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    values.filter(|line| line["request"] != "sets").collect()
}

/// The words by which a schema's alternatives are told apart.
fn words(schema: &Value, tag: &str) -> BTreeSet<String> {
    let all = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    let each = all.expect("alternatives").iter();
    each.map(|one| {
        one["properties"][tag]["const"]
            .as_str()
            .expect("a word")
            .to_owned()
    })
    .collect()
}

#[test]
fn every_request_and_reply_is_shown_on_the_page_and_valid() {
    for (what, tag) in [("Request", "request"), ("Reply", "reply")] {
        let (schema, validator) = of_lines(what);
        let mut shown = BTreeSet::new();
        for line in shown_lines().iter().filter(|line| line[tag].is_string()) {
            let mistakes: Vec<String> = validator.iter_errors(line).map(|e| e.to_string()).collect();
            assert!(mistakes.is_empty(), "{line}: {mistakes:#?}");
            let read = match tag {
                "request" => serde_json::from_value::<Request>(line.clone()).map(|_| ()),
                _ => serde_json::from_value::<Reply>(line.clone()).map(|_| ()),
            };
            assert!(read.is_ok(), "{line}: {read:?}");
            shown.extend(line[tag].as_str().map(str::to_owned));
        }
        assert_eq!(shown, words(&schema, tag), "docs/socket.md shows other {tag}s");
    }
}

/// Each object in a value, by its pointer.
fn objects(value: &Value, at: &str, found: &mut Vec<String>) {
    if let Value::Object(fields) = value {
        found.push(at.to_owned());
        fields
            .iter()
            .for_each(|(key, value)| objects(value, &format!("{at}/{key}"), found));
    }
}

/// What is missing or unknown in a request is not valid where, and only where, the program refuses
/// it; a value of another type at least where it does.
#[test]
fn the_schema_of_requests_takes_what_the_program_takes() {
    let (_, validator) = of_lines("Request");
    let reads = |request: &Value| serde_json::from_value::<Request>(request.clone()).is_ok();
    let (mut judged, mut refused) = (0, 0);
    for request in shown_lines().iter().filter(|line| line["request"].is_string()) {
        let mut places = Vec::new();
        objects(request, "", &mut places);
        for place in &places {
            let fields = request
                .pointer(place)
                .and_then(Value::as_object)
                .expect("an object");
            let mut changed: Vec<(Value, bool)> = Vec::new();
            let with = |change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
                let mut request = request.clone();
                change(
                    request
                        .pointer_mut(place)
                        .and_then(Value::as_object_mut)
                        .expect("an object"),
                );
                request
            };
            // Settings have any names.
            if place != "/changes" {
                changed.push((
                    with(&|fields| drop(fields.insert("unknwon".into(), 1.into()))),
                    true,
                ));
            }
            for key in fields.keys() {
                changed.push((with(&|fields| drop(fields.remove(key))), true));
                for other in [json!(null), json!(-1), json!("x"), json!([]), json!(true)] {
                    changed.push((with(&|fields| fields[key] = other.clone()), false));
                }
            }
            for (request, exact) in changed {
                let (valid, read) = (validator.is_valid(&request), reads(&request));
                assert!(valid || !read, "not valid, but read: {request}");
                assert!(!exact || valid == read, "valid, but not read: {request}");
                judged += 1;
                refused += usize::from(!valid);
            }
        }
    }
    assert!(judged > 300 && refused > judged / 2, "{refused} of {judged}");
}

#[test]
fn every_policy_that_check_accepts_is_valid() {
    let validator = validator();
    let mut all = Vec::new();
    for folder in ["examples", "scenarios/policies", "crates"] {
        files(&root().join(folder), &mut all);
    }
    let mut accepted = 0;
    for path in all {
        let text = fs::read_to_string(&path).expect("a text");
        let read = Policy::read("p", &text, &Registry::builtin(), &netio::ports::declared());
        if read.is_err() {
            continue;
        }
        let value = as_json(&text).expect("check has read it");
        let mistakes: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(mistakes.is_empty(), "{}: {mistakes:#?}", path.display());
        accepted += 1;
    }
    assert!(accepted >= 18, "only {accepted} policies were found");
}

const GOOD: &str = r#"
version = 1
[port]
egress = "eth0"
[interface.eth0]
bandwidth = "20 Mbit/s"
discipline = { kind = "cbq", excess = "share" }
[[interface.eth0.class]]
name = "calls"
rate = "4 Mbit/s"
priority = 6
[[interface.eth0.class]]
name = "rest"
rate = "60 %"
default = true
discipline = { kind = "red", ecn = true, child = "wfq" }
[[interface.eth0.filter]]
class = "calls"
destination_port = "3478-3481"
"#;

/// Each is one change of a good policy that `check` refuses too.
const MISTAKES: &[(&str, &str)] = &[
    ("\"20 Mbit/s\"", "20000000"),
    ("\"20 Mbit/s\"", "\"20\""),
    ("\"20 Mbit/s\"", "\"20mbit\""),
    ("\"20 Mbit/s\"", "\"20Mb\""),
    ("\"20 Mbit/s\"", "\"20 mB/s\""),
    ("\"20 Mbit/s\"", "\"-1 Mbit/s\""),
    ("bandwidth", "bandwith"),
    ("version = 1", "version = 2"),
    ("version = 1", ""),
    ("[interface.eth0]", "[interfase.eth0]"),
    ("egress = \"eth0\"", "egress = 0"),
    ("egress = \"eth0\"", "egress = \"eth0\"\nsplit = \"sometimes\""),
    ("egress = \"eth0\"", "egress = \"eth0\"\nspin = \"60\""),
    ("\"cbq\"", "\"htb\""),
    ("excess = \"share\"", "excess = \"all\""),
    ("rate = \"4 Mbit/s\"", "realtime = \"4 Mbit/s\""),
    ("rate = \"4 Mbit/s\"", ""),
    ("name = \"calls\"", ""),
    ("name = \"calls\"", "name = \"two words\""),
    ("priority = 6", "priority = \"6\""),
    ("priority = 6", "priority = -1"),
    ("default = true", "default = \"yes\""),
    ("ecn = true", "ecn = 1"),
    ("child = \"wfq\"", "child = 7"),
    ("child = \"wfq\"", "limt = 7"),
    ("class = \"calls\"\n", ""),
    ("\"3478-3481\"", "70000"),
    ("destination_port", "dport"),
];

#[test]
fn typical_mistakes_are_not_valid() {
    let validator = validator();
    let check = |text: &str| Policy::read("p", text, &Registry::builtin(), &netio::ports::declared());
    assert!(check(GOOD).is_ok() && validator.is_valid(&as_json(GOOD).expect("TOML")));
    for (right, wrong) in MISTAKES {
        let text = GOOD.replacen(right, wrong, 1);
        assert_ne!(text, GOOD, "{right} is not in it");
        assert!(check(&text).is_err(), "check accepts {wrong:?} for {right:?}");
        let value = as_json(&text).expect("TOML");
        assert!(!validator.is_valid(&value), "valid with {wrong:?} for {right:?}");
    }
}

/// Every unit of a quantity, as it may be written, is in the pattern.
#[test]
fn every_spelling_of_a_unit_that_check_reads_is_valid() {
    let validator = validator();
    let units = [
        "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "mbit/s", "MBIT/S", "kB/s", "MB/s", "GB/s", "B/s",
    ];
    for unit in units {
        for number in ["800_000", "0.5", "1.", "90000"] {
            for text in [format!("{number} {unit}"), format!(" {number}{unit} ")] {
                let Ok(rate) = text.parse::<engine::units::Bandwidth>() else {
                    continue;
                };
                let policy = GOOD.replacen("20 Mbit/s", &text, 1);
                assert!(
                    validator.is_valid(&as_json(&policy).expect("TOML")),
                    "{text} is {rate}"
                );
            }
        }
    }
}
