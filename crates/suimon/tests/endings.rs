//! How the command line ends: by an output that nobody reads, by Ctrl-C, and with files that have
//! no end.

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "stubs/directory.rs"]
mod directory;

use directory::TestDirectory;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const SUIMON: &str = env!("CARGO_BIN_EXE_suimon");
const SIGPIPE: i32 = 13;

fn suimon(arguments: &[&str]) -> Output {
    let mut command = Command::new(SUIMON);
    command.args(arguments).stdin(Stdio::null());
    command.output().expect("suimon starts")
}

fn begun(arguments: &[&str]) -> Child {
    let mut command = Command::new(SUIMON);
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("suimon starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A scenario whose expectation is missed.
const MISS: &str = r#"
version = 1
duration = "1 s"
link = [{ between = ["a", "b"], rate = "10 Mbit/s" }]
flow = [{ name = "x", between = ["a", "b"], kind = "constant", rate = "4 Mbit/s", frame = "1000 B" }]
expect = [{ flow = "x", metric = "rate", at_least = "5 Mbit/s" }]
"#;

#[test]
fn an_output_that_is_closed_early_does_not_turn_a_failure_into_success() {
    let place = TestDirectory::new("endings-closed");
    let miss = place.write("miss.toml", MISS);
    let wrong = place.write("wrong.toml", "version = 1\n");
    for arguments in [
        &["sim", &miss][..],
        &["sim", "--json", &miss],
        &["check", &wrong],
        &["check", "--json", &wrong],
        &["kinds"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(SUIMON);
        let command = command.args(arguments).stdout(writer).stderr(Stdio::piped());
        let child = command.spawn().expect("suimon starts");
        let ended = child.wait_with_output().expect("it ends");
        assert_eq!(ended.status.signal(), Some(SIGPIPE), "{arguments:?}: {ended:?}");
        assert_eq!(text(&ended.stderr), "", "{arguments:?}");
    }
    assert_eq!(suimon(&["sim", &miss]).status.code(), Some(4));
}

#[test]
fn a_file_without_an_end_is_refused_before_it_is_read() {
    let place = TestDirectory::new("endings-endless");
    let pipe = place.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let huge = place.path("huge.toml");
    let file = fs::File::create(&huge).expect("a file");
    file.set_len(1 << 40).expect("a file with a hole of 1 TB");
    let cases = [
        ("/dev/zero", "a device"),
        (&pipe, "a pipe"),
        (&huge, "longer than 64 MB"),
    ];
    for verb in ["check", "run", "sim", "lab"] {
        for (file, why) in cases {
            let begin = Instant::now();
            let run = suimon(&[verb, file]);
            let message = text(&run.stderr);
            assert_eq!(run.status.code(), Some(2), "{verb} {file}: {message}");
            assert!(
                message.contains(file) && message.contains(why),
                "{verb}: {message}"
            );
            assert!(begin.elapsed() < Duration::from_secs(20), "{verb} {file}");
        }
    }
    let zero = fs::File::open("/dev/zero").expect("a device");
    let mut command = Command::new(SUIMON);
    let run = command
        .args(["check", "-"])
        .stdin(zero)
        .output()
        .expect("it ends");
    assert_eq!(run.status.code(), Some(2));
    assert!(text(&run.stderr).contains("longer than 64 MB"));
}

/// What is not there, or not a file, is said in words, by every verb that reads one.
#[test]
fn a_file_that_is_not_there_is_said_to_be_so() {
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/cake.toml");
    let none = "/no/such/file";
    let cases: [&[&str]; 9] = [
        &["check", none],
        &["sim", none],
        &["lab", none],
        &["plan", none],
        &["apply", none],
        &["replay", none, "--policy", policy, "--interface", "wan0"],
        &["replay", none, "--policy", none],
        &["verify", "127.0.0.1", "--before", none],
        &["import", "sqm", none],
    ];
    for arguments in cases {
        let run = suimon(arguments);
        let message = text(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains("cannot read the "), "{arguments:?}: {message}");
        assert!(
            message.contains("`/no/such/file`: no such file"),
            "{arguments:?}: {message}"
        );
        assert!(!message.contains("os error"), "{arguments:?}: {message}");
    }
}

/// Points that take long, after one that does not.
const SWEEP: &str = r#"
version = 1
duration = "{long}"
link = [{ between = ["a", "b"], rate = "10 Mbit/s" }]
flow = [{ name = "x", between = ["a", "b"], kind = "constant", rate = "4 Mbit/s", frame = "1000 B" }]
expect = [{ flow = "x", metric = "rate", at_least = "3 Mbit/s" }]
[sweep]
long = ["10 ms", "300 s", "301 s", "302 s", "303 s", "304 s", "305 s", "306 s", "307 s", "308 s"]
"#;

#[test]
fn ctrl_c_of_a_sweep_keeps_the_points_that_are_done() {
    let place = TestDirectory::new("endings-interrupted");
    let sweep = place.write("sweep.toml", SWEEP);
    let report = place.path("report");
    let mut child = begun(&["sim", "--json", "--jobs", "1", "--report", &report, &sweep]);
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("a point").expect("text");
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process(id.expect("a child"), Signal::INT).expect("it runs");
    let mut all = vec![first];
    all.extend(lines.map(|line| line.expect("text")));
    let ended = child.wait_with_output().expect("it ends");
    let message = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(128 + 2), "{message}");
    assert!((1..10).contains(&all.len()), "{}", all.len());
    let said = format!("interrupted: {} of 10 points are done, and shown", all.len());
    assert!(message.contains(&said), "{message}");
    let table = fs::read_to_string(place.0.join("report/sweep.csv")).expect("the report");
    assert_eq!(table.lines().count(), 1 + all.len(), "{table}");
}
