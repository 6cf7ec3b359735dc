//! `suimon prove` from the command line: its table and exit codes, and the scenario that it writes,
//! in which `suimon sim` measures the same delay to the nanosecond.

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "stubs/directory.rs"]
mod directory;

use directory::TestDirectory;
use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

fn suimon(directory: &TestDirectory, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_suimon"));
    command
        .current_dir(&directory.0)
        .args(arguments)
        .output()
        .expect("suimon starts")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Voice of the first priority beside two classes, with framing that the link counts, a ring of
/// two packets, and little for a packet loop that is late: the simulator's never is.
const POLICY: &str = r#"
version = 1
[port]
between = ["lan0", "wan0"]
transmit_ring = 2
lateness = "0.1 ms"
[interface.wan0]
bandwidth = "10 Mbit/s"
overhead = "24 B"
discipline = { kind = "cbq", link = "port", link_burst = "1 s" }
[[interface.wan0.class]]
name = "voice"
rate = "1 Mbit/s"
priority = 7
sends = { rate = "100 kbit/s", burst = "600 B" }
[[interface.wan0.class]]
name = "web"
rate = "4 Mbit/s"
[[interface.wan0.class]]
name = "rest"
rate = "5 Mbit/s"
default = true
[[interface.wan0.filter]]
class = "voice"
dscp = "ef"
"#;

#[test]
fn the_worst_that_was_found_is_within_the_bound_and_its_scenario_replays_it() {
    let directory = TestDirectory::new("prove-replay");
    fs::write(directory.0.join("policy.toml"), POLICY).expect("a file");
    let options = [
        "prove",
        "policy.toml",
        "--patterns",
        "60",
        "--scenario",
        "worst.toml",
        "--json",
    ];
    let proved = suimon(&directory, &options);
    assert_eq!(proved.status.code(), Some(0), "{proved:?}");
    let value = json(&proved);
    let class = &value[0]["classes"][0];
    assert_eq!(class["class"], "voice");
    let [bound, worst] = ["bound_ns", "worst_ns"].map(|key| class[key].as_u64().expect("a number"));
    assert!(worst <= bound && worst * 10 > bound * 9, "{worst} of {bound}");

    let replayed = suimon(&directory, &["sim", "worst.toml", "--json"]);
    assert_eq!(replayed.status.code(), Some(0), "{replayed:?}");
    let value = json(&replayed);
    let flows = value["flows"].as_array().expect("flows");
    let voice = flows.iter().find(|flow| flow["name"] == "voice").expect("voice");
    assert_eq!(voice["delay"]["max_ns"], worst, "{voice}");

    let again = suimon(&directory, &options);
    assert_eq!(proved.stdout, again.stdout, "the same seed");
    let table = suimon(&directory, &["prove", "policy.toml", "--patterns", "60"]);
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(text.contains("voice") && text.contains("worst found"), "{text}");
}

#[test]
fn a_policy_without_bounds_is_a_mistake() {
    let directory = TestDirectory::new("prove-none");
    let policy = "version = 1\n[interface.wan0]\nbandwidth = \"10 Mbit/s\"\ndiscipline = \"wfq\"\n";
    fs::write(directory.0.join("policy.toml"), policy).expect("a file");
    let output = suimon(&directory, &["prove", "policy.toml"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no interface has a class with a bound"));
}

#[test]
fn every_pattern_of_a_small_world_is_judged() {
    let directory = TestDirectory::new("prove-exhaustive");
    fs::write(directory.0.join("policy.toml"), POLICY).expect("a file");
    let options = ["prove", "policy.toml", "--exhaustive", "--packets", "2"];
    let judged = suimon(&directory, &[&options[..], &["--json"]].concat());
    assert_eq!(judged.status.code(), Some(0), "{judged:?}");
    let value = json(&judged);
    // Nine sorts of one packet; of two, the second in any of twelve slots; single, and in volleys.
    assert_eq!(value[0]["patterns"], 2 * (9 + 12 * 81), "{value}");
    assert_eq!(value[0]["classes"][0]["class"], "voice");
    let text = suimon(&directory, &options);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains("1962 of 1962 patterns: 3 queues, 3 lengths, 12 slots"),
        "{text}"
    );
}
