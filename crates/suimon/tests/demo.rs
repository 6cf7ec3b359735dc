//! `suimon demo` as a new user runs it: without root, from start to exit code, with its report.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const NOBODY: u32 = 65534;
const MINUTE: Duration = Duration::from_secs(60);

const SUIMON: &str = env!("CARGO_BIN_EXE_suimon");

/// A directory in which every user can write.
fn place() -> PathBuf {
    let place = std::env::temp_dir().join(format!("suimon-demo-{}", std::process::id()));
    fs::create_dir_all(&place).expect("a directory");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).expect("set");
    place
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}

#[test]
fn an_ordinary_user_sees_each_class_get_its_rate_but_not_with_plain_fifo() {
    let (place, published) = (place(), lab::published::Published::new(&[SUIMON]));
    let mut command = Command::new(published.path(SUIMON));
    command
        .args(["demo", "--json", "--out"])
        .arg(place.join("report"))
        .current_dir(&place)
        .stdin(Stdio::null());
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let began = Instant::now();
    let output = command.output().expect("the program starts");
    let (took, text) = (began.elapsed(), String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{output:?}");
    assert!(took < MINUTE, "it took {took:?}");
    let json: Value = serde_json::from_str(&text).expect("one JSON object");
    let list = |key: &str| json[key].as_array().expect("a list").clone();
    let off = |class: &Value| {
        let rate = |key: &str| class[key].as_f64().expect("a rate");
        rate("got_bps") / rate("target_bps") - 1.0
    };
    let configured: Vec<u64> = list("classes")
        .iter()
        .filter_map(|class| class["target_bps"].as_u64())
        .collect();
    assert_eq!(configured, [10_000_000, 20_000_000, 30_000_000, 40_000_000]);
    assert!(
        list("classes").iter().all(|class| off(class).abs() <= 0.03),
        "{json:#}"
    );
    assert!(
        list("fifo").iter().any(|class| off(class).abs() > 0.03),
        "{json:#}"
    );
    for file in ["demo.svg", "demo.html"] {
        let text = fs::read_to_string(place.join("report").join(file)).expect("a report");
        assert!(text.contains("class-40"), "{file}");
    }
    let _ = fs::remove_dir_all(&place);
}

#[test]
fn check_accepts_the_policy_that_it_prints() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(SUIMON);
        command.args(arguments).output().expect("the program starts")
    };
    let shown = run(&["demo", "--show-policy"]);
    assert!(shown.status.success());
    let file = std::env::temp_dir().join(format!("suimon-demo-{}.toml", std::process::id()));
    fs::write(&file, &shown.stdout).expect("a file");
    let checked = run(&["check", file.to_str().expect("a path in UTF-8")]);
    assert!(checked.status.success(), "{checked:?}");
    let _ = fs::remove_file(&file);
}

#[test]
fn a_report_that_cannot_be_written_fails_before_anything_runs() {
    let mut command = Command::new(SUIMON);
    let output = command.args(["demo", "--out", "/dev/null"]).output();
    let output = output.expect("the program starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("/dev/null") && error.contains("--out"), "{error}");
    assert!(output.stdout.is_empty(), "{output:?}");
}
