//! The control socket itself: a server on a socket, and a client that sends anything.

use super::FuzzTarget;
use crate::mutate::InputShape;
use control::protocol::{Refusal, Reply, SettingChanges};
use control::provenance::Provenance;
use control::snapshot::Reading;
use control::socket::{Handler, LINE, Server};
use engine::units::Instant;
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "control_socket",
    about: "a client that sends anything: each line it gets is a reply, and the server lives",
    shape: InputShape::Text(6_000),
    tree: &[],
    make: || {
        let served = Served::new();
        Box::new(move |input| judge(input, &served))
    },
};

/// It has no interfaces, and refuses every change.
struct Nothing;

fn refused() -> Refusal {
    Refusal::new("there is nothing to change".to_owned())
}

impl Handler for Nothing {
    fn version(&self) -> String {
        "0".into()
    }

    fn read(&self) -> Result<Reading, Refusal> {
        Ok(Reading {
            unconfined: Vec::new(),
            at: Instant::START,
            policy: "none".into(),
            interfaces: Vec::new(),
        })
    }

    fn switch(&self, _interface: Option<&str>, _on: bool) -> Result<String, Refusal> {
        Ok("switched".into())
    }

    fn detach(&self, _interface: Option<&str>) -> Result<String, Refusal> {
        Err(refused())
    }

    fn set(&self, _changes: &SettingChanges, _by: Provenance) -> Result<String, Refusal> {
        Err(refused())
    }
}

struct Served {
    path: PathBuf,
    _server: Server,
}

impl Served {
    fn new() -> Self {
        static SERVERS: AtomicU64 = AtomicU64::new(0);
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("suimon-fuzz-{}-{number}.sock", std::process::id()));
        let server = Server::start(&path, Arc::new(Nothing));
        Self {
            _server: server.unwrap_or_else(|e| panic!("a server at {}: {e}", path.display())),
            path,
        }
    }
}

fn judge(input: &[u8], served: &Served) {
    // An interval is waited for, and a watch lasts as long as its client.
    let waits = [&b"interval"[..], b"status", b"reserve", b"trial", b"watch"];
    let lasts = |line: &&[u8]| {
        waits
            .iter()
            .any(|word| line.windows(word.len()).any(|part| part == *word))
    };
    let lines = input
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !lasts(line));
    let sent: Vec<u8> = lines.collect::<Vec<_>>().concat();
    let mut stream = UnixStream::connect(&served.path).unwrap_or_else(|e| panic!("the server is gone: {e}"));
    // It hangs up on a line that is too long.
    let _ = stream.write_all(&sent);
    let _ = stream.shutdown(Shutdown::Write);
    let mut replies = 0;
    for line in BufReader::new(&stream).lines() {
        let Ok(line) = line else { break };
        Reply::parse(line.as_bytes()).unwrap_or_else(|e| panic!("no reply: {line}: {e}"));
        replies += 1;
    }
    let asked = sent.split_inclusive(|byte| *byte == b'\n').count();
    assert!(
        sent.len() > LINE || replies == asked,
        "{replies} replies to {asked} lines"
    );
}
