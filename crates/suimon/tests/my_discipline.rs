//! `examples/my_discipline.rs`, a discipline outside the tree: listed, checked, simulated and run
//! like those of the engine.

use netio::capture_file::{Reader, Writer};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The example's program, which cargo builds beside the tests.
fn program() -> PathBuf {
    let suimon = Path::new(env!("CARGO_BIN_EXE_suimon"));
    let program = suimon.with_file_name("examples").join("my_discipline");
    assert!(
        program.exists(),
        "not built: `cargo test -p suimon` builds the examples, `--test` alone does not"
    );
    program
}

fn ran(program: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(words);
    command
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}", program.display()))
}

fn file(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/my_discipline");
    folder.join(name).display().to_string()
}

#[test]
fn it_is_listed_with_its_settings_and_checked_in_a_policy() {
    let shown = ran(&program(), &["kinds", "shortest"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        text.contains("limit") && text.contains("The shortest packet first"),
        "{text}"
    );
    let checked = ran(&program(), &["check", &file("policy.toml")]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    // Suimon itself does not have it.
    let unknown = ran(
        Path::new(env!("CARGO_BIN_EXE_suimon")),
        &["check", &file("policy.toml")],
    );
    let text = String::from_utf8_lossy(&unknown.stdout).into_owned();
    assert_eq!(unknown.status.code(), Some(2), "{text}");
    assert!(text.contains("unknown discipline `shortest`"), "{text}");
}

#[test]
fn it_is_simulated_and_its_expectations_are_met() {
    let simulated = ran(&program(), &["sim", &file("scenario.toml")]);
    let text = String::from_utf8_lossy(&simulated.stdout).into_owned();
    assert_eq!(simulated.status.code(), Some(0), "{text}{simulated:?}");
}

#[test]
fn it_is_run_on_a_port_and_sends_the_shortest_first() {
    let folder = std::env::temp_dir().join(format!("suimon-my-discipline-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a directory");
    let [input, output, policy] = ["in.pcapng", "out.pcapng", "policy.toml"].map(|name| folder.join(name));
    let mut writer = Writer::new(fs::File::create(&input).expect("a file"), &["made"]).expect("a capture");
    // The first keeps the link busy; of those that arrive meanwhile, the shortest leaves first.
    let lens = [1500usize, 1400, 300, 900, 100, 600];
    for len in lens {
        let frame = [vec![2; 12], vec![0x88, 0xb5], vec![0; len - 14]].concat();
        writer.frame(1_000_000_000, 0, &frame, None).expect("a frame");
    }
    writer.flush().expect("written");
    let place = format!("read = \"{}\"\nwrite = \"{}\"", input.display(), output.display());
    let link = "[interface.out]\nbandwidth = \"1 Mbit/s\"\ndiscipline = \"shortest\"\n";
    fs::write(&policy, format!("version = 1\n[port]\n{place}\n{link}")).expect("a file");
    let [policy, socket] = [&policy, &folder.join("control.sock")].map(|path| path.display().to_string());
    let ended = ran(&program(), &["run", &policy, "--socket", &socket]);
    assert!(ended.status.success(), "{ended:?}");
    let mut reader = Reader::new(fs::File::open(&output).expect("a file")).expect("a capture");
    let (mut sent, mut bytes) = (Vec::new(), Vec::new());
    while reader.next(&mut bytes).expect("a frame").is_some() {
        sent.push(bytes.len());
    }
    let _ = fs::remove_dir_all(&folder);
    let mut sorted = lens.to_vec();
    sorted.sort_unstable();
    // At 1 Mbit/s with 5 ms of grace the first may have left before the others were read.
    let mut with_first = vec![lens[0]];
    with_first.extend(sorted.iter().filter(|len| **len != lens[0]));
    assert!(sent == sorted || sent == with_first, "{sent:?}");
}
