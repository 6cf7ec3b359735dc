//! `suimon reproduce` from the command line: its exit codes, its JSON and the files that it
//! writes. Measurements depend on the machine, so no value is asserted.

use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_suimon"));
    command
        .arg("reproduce")
        .args(arguments)
        .output()
        .expect("the program starts")
}

#[test]
fn an_unknown_id_exits_with_2_before_anything_runs_and_names_the_nearest() {
    let output = run(&["A4", "A11", "--json"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("did you mean `A1`"), "{error}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn without_an_id_the_costs_are_listed() {
    let output = run(&[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for id in ["A1", "A2", "A3", "A4"] {
        assert!(text.lines().any(|line| line.starts_with(id)), "{id}: {text}");
    }
}

#[test]
fn an_experiment_prints_one_object_writes_its_page_and_exits_by_its_verdict() {
    let place = std::env::temp_dir().join(format!("suimon-reproduce-{}", std::process::id()));
    let directory = place.to_str().expect("a path in UTF-8");
    let output = run(&["A4", "--quick", "--json", "--write", directory]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().count(), 1, "{output:?}");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["id"], "A4");
    let shown = value["verdict"] == "shown";
    assert_eq!(output.status.code(), Some(if shown { 0 } else { 4 }), "{text}");
    let rows = value["rows"].as_array().expect("rows");
    assert!(!rows.is_empty());
    for row in rows {
        for key in ["what", "paper", "ours", "unit", "verdict", "note"] {
            assert!(row.get(key).is_some(), "{key} is missing: {row}");
        }
    }
    let written = fs::read_to_string(place.join("A4.json")).expect("a file");
    assert_eq!(serde_json::from_str::<Value>(&written).expect("JSON"), value);
    for name in ["A4.md", "A4.svg"] {
        assert!(place.join(name).exists(), "{name}");
    }
    fs::remove_dir_all(&place).expect("gone");
}
