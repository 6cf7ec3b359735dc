//! The schema of policies, docs/policy.schema.json: it is the one that the program prints, every
//! policy that `check` accepts is valid by it, and what people mistype is not.
//!
//! Run with `BLESS=1` to write the current one; review the difference before committing it.

use control::policy::Policy;
use engine::tree::Registry;
use jsonschema::Validator;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn printed() -> String {
    let mut suimon = Command::new(env!("CARGO_BIN_EXE_suimon"));
    let output = suimon.args(["kinds", "--schema"]).output().expect("it runs");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

fn validator() -> Validator {
    let schema: Value = serde_json::from_str(&printed()).expect("JSON");
    assert!(
        jsonschema::draft202012::meta::is_valid(&schema),
        "no valid schema"
    );
    jsonschema::draft202012::new(&schema).expect("a schema")
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
fn the_committed_schema_is_the_one_that_the_declarations_give() {
    let path = root().join("docs/policy.schema.json");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, printed()).expect("it can be written");
    }
    let committed = fs::read_to_string(&path).expect("docs/policy.schema.json");
    assert!(
        committed == printed(),
        "out of date: `suimon kinds --schema > docs/policy.schema.json`"
    );
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
