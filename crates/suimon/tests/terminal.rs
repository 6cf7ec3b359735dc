//! A terminal that closes: the programs on it end, also where it is not their controlling one and
//! no SIGHUP tells them.

#[path = "stubs/terminal.rs"]
mod stub;

use control::protocol::{Refusal, SettingChanges};
use control::provenance::Provenance;
use control::snapshot::Reading;
use control::socket::{Handler, Server};
use std::fs::File;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stub::terminal;

/// `suimon` with these arguments on a terminal that does not control it.
fn start(words: &[&str], terminal: &File) -> Child {
    let side = || terminal.try_clone().expect("a descriptor");
    Command::new("setsid")
        .arg(env!("CARGO_BIN_EXE_suimon"))
        .args(words)
        .stdin(side())
        .stdout(side())
        .stderr(side())
        .spawn()
        .expect("setsid(1) starts")
}

/// Whether the program draws: it has set up its terminal, and watches it.
fn draws(ours: &File) -> bool {
    use std::io::Read;
    let mut some = [0; 64];
    (&*ours).read(&mut some).is_ok_and(|n| n > 0)
}

/// A running suimon as `top` sees it.
struct Idle;

impl Handler for Idle {
    fn version(&self) -> String {
        "idle".into()
    }

    fn read(&self) -> Result<Reading, Refusal> {
        Ok(Reading {
            unconfined: Vec::new(),
            at: engine::units::Instant::START,
            policy: "idle".into(),
            interfaces: Vec::new(),
        })
    }

    fn switch(&self, _interface: Option<&str>, _on: bool) -> Result<String, Refusal> {
        Err(Refusal::new("idle"))
    }

    fn detach(&self, _interface: Option<&str>) -> Result<String, Refusal> {
        Err(Refusal::new("idle"))
    }

    fn set(&self, _changes: &SettingChanges, _by: Provenance) -> Result<String, Refusal> {
        Err(Refusal::new("idle"))
    }
}

/// Starts screens, closes their terminals, and asserts that they all end.
fn end_with_their_terminals(words: &[&str], count: usize) {
    let screens: Vec<(File, Child)> = (0..count)
        .map(|_| {
            let (ours, theirs) = terminal();
            let child = start(words, &theirs);
            (ours, child)
        })
        .collect();
    let close = |(ours, child): (File, Child)| {
        assert!(draws(&ours));
        drop(ours);
        child
    };
    let mut children: Vec<Child> = screens.into_iter().map(close).collect();
    // They end at once; a busy machine may take its time to let them.
    let until = Instant::now() + Duration::from_secs(20);
    while !children.is_empty() && Instant::now() < until {
        children.retain_mut(|child| child.try_wait().expect("ours").is_none());
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = children.len();
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
    assert_eq!(left, 0, "{words:?} go on without a terminal");
}

#[test]
fn a_hundred_screens_of_nine_end_with_their_terminals() {
    end_with_their_terminals(&["nine", "top"], 100);
}

#[test]
fn screens_of_top_end_with_their_terminals() {
    let directory = std::env::temp_dir().join(format!("suimon-terminal-{}", std::process::id()));
    let socket = directory.join("idle.sock");
    let server = Server::start(&socket, Arc::new(Idle)).expect("a server");
    end_with_their_terminals(&["top", "--socket", socket.to_str().expect("UTF-8")], 20);
    drop(server);
    let _ = std::fs::remove_dir_all(&directory);
}
