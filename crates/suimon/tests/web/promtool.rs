//! What Prometheus's own tool says of the metrics of a running `suimon web`, and of the alert
//! rules.

use super::{Steady, Web, names};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The tool: where `packages.sh` puts it, or of the system.
fn promtool() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let fetched = root.join("target/tools/promtool");
    let places = [fetched, "promtool".into()];
    let runs = |tool: &PathBuf| Command::new(tool).arg("--version").output().is_ok();
    let found = places.into_iter().find(runs);
    if found.is_none() {
        skips::skipped("promtool is not installed");
    }
    found
}

fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Metrics as OpenMetrics has them in Prometheus's older format, which is the one that the tool
/// judges: there counters are described by their whole names.
fn in_older_format(metrics: &str) -> String {
    let is_counter = |name: &str| metrics.contains(&format!("# TYPE {name} counter\n"));
    let line = |line: &str| match line.splitn(4, ' ').collect::<Vec<_>>()[..] {
        ["#", "EOF"] => String::new(),
        ["#", what, name, rest] if is_counter(name) => format!("# {what} {name}_total {rest}\n"),
        _ => format!("{line}\n"),
    };
    metrics.lines().map(line).collect()
}

#[test]
fn promtool_accepts_the_alert_rules_and_their_tests() {
    let Some(promtool) = promtool() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/monitoring");
    for (verb, file) in [("check", "suimon.rules.yml"), ("test", "suimon.rules.test.yml")] {
        let mut command = Command::new(&promtool);
        let output = command.args([verb, "rules", file]).current_dir(&folder).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{verb} {file}: {}", told(&output));
    }
}

#[test]
fn promtool_finds_nothing_wrong_with_the_metrics() {
    let Some(promtool) = promtool() else { return };
    let web = Web::start("promtool", Steady::new(&names(3), true));
    let (line, metrics) = web.get("/metrics", "localhost");
    assert!(line.contains("200"), "{line}");
    let check = |text: &str| {
        let mut command = Command::new(&promtool);
        let command = command.args(["check", "metrics"]).stdin(Stdio::piped());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(text.as_bytes()).expect("it reads");
        drop(input);
        child.wait_with_output().expect("it ends")
    };
    let metrics = in_older_format(&metrics);
    let output = check(&metrics);
    assert!(output.status.success(), "{}", told(&output));
    // It does find what is wrong.
    let wrong = check(&metrics.replace("packets_total", "packets"));
    assert!(!wrong.status.success(), "{}", told(&wrong));
}
