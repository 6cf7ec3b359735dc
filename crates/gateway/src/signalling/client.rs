//! How a verb finds the node that it asks: the one that runs on this host, or one that is started for as long as it is needed.
//!
//! The latter is a process of its own, in a process group of its own, that sees this one's end by a pipe: so what was reserved is
//! torn down also when this process is killed.

use super::beacon;
use crate::Error;
use control::protocol::{Refusal, Reply, Request};
use control::socket::Client;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a node that says where it is may take until it answers, and how often it is tried.
const PATIENCE: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(20);

/// A node to ask.
#[derive(Debug)]
pub struct Found {
    /// Its socket.
    pub socket: String,
    /// The one that was started for us; it ends when this does.
    pub guard: Option<Guard>,
}

/// Keeps a node alive.
#[derive(Debug)]
pub struct Guard {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Drop for Guard {
    /// Lets it go, and waits until it has torn down what was left.
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

/// What a node says that was started for a verb, once it can be asked; anything else is why it cannot.
pub const READY: &str = "ready";
/// A running node: the one named, or one that speaks RSVP.
pub fn running(named: Option<&str>) -> Result<Found, Refusal> {
    if let Some(name) = named {
        speaks(name)?;
        return Ok(Found {
            socket: name.into(),
            guard: None,
        });
    }
    match beacon::seen() {
        Some(path) => {
            let socket = path.to_string_lossy().into_owned();
            await_answer(&socket);
            Ok(Found { socket, guard: None })
        }
        None => Err(Refusal {
            message: "no suimon speaks RSVP on this host".into(),
            help: Some("start `suimon accept`, or `suimon run` with an [rsvp] section".into()),
        }),
    }
}

fn speaks(socket: &str) -> Result<(), Refusal> {
    match Client::connect(Some(socket))?.ask(&Request::Reservations {})? {
        Reply::Refused(why) => Err(why),
        _ => Ok(()),
    }
}

/// A node that begins says where it is before it can be asked.
fn await_answer(socket: &str) {
    let until = Instant::now() + PATIENCE;
    while Client::connect(Some(socket)).is_err() && Instant::now() < until {
        std::thread::sleep(GLANCE);
    }
}

/// A running node, or one of our own.
pub fn running_or_own(named: Option<&str>, options: &[String]) -> Result<Found, Error> {
    match running(named) {
        Ok(found) => Ok(found),
        Err(why) if named.is_some() => Err(why.into()),
        // Another verb may have started one at the same moment: then ours could not begin.
        Err(_) => own(options).or_else(|failure| running(None).map_err(|_| failure)),
    }
}

/// Starts a node and waits until it speaks.
fn own(options: &[String]) -> Result<Found, Error> {
    let cannot = |what: String| Error::Node(what);
    let program = std::env::current_exe().map_err(|e| cannot(e.to_string()))?;
    let directory = std::env::temp_dir().join(format!("suimon-rsvp-{}", std::process::id()));
    let socket = directory.join("control.sock").to_string_lossy().into_owned();
    let mut child = Command::new(program)
        .args(["reserve", "node", "--socket", &socket])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|e| cannot(e.to_string()))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let mut line = String::new();
    if let Some(stdout) = stdout {
        // Nothing at all is as good as a failure.
        let _ = BufReader::new(stdout).read_line(&mut line);
    }
    match line.trim() {
        READY => Ok(Found {
            socket,
            guard: Some(Guard { child, stdin }),
        }),
        said => {
            let _ = child.wait();
            Err(if said.is_empty() {
                cannot("it ended at once".into())
            } else {
                Error::NodeSaid(said.into())
            })
        }
    }
}
