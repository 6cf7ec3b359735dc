//! How a verb finds a node: the one that runs on this host, or a temporary one that the verb
//! starts.
//!
//! A temporary node is a process in a process group of its own that notices the end of this one
//! through a pipe, so that reservations are torn down even if this process is killed.

use super::beacon::{self, AnnouncedNode};
use crate::Error;
use control::protocol::{Refusal, Reply, Request};
use control::socket::Client;
use netio::interface::Interface;
use netio::routes::{Leads, Routes};
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// The time limit from a node's announcement to its first reply, and the polling interval.
const TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A node to connect to.
#[derive(Debug)]
pub struct FoundNode {
    /// Its control socket.
    pub socket: String,
    /// The temporary node that we have started, if we have; it ends when this is dropped.
    pub temporary: Option<TemporaryNode>,
}

/// A temporary node, which ends when this is dropped.
#[derive(Debug)]
pub struct TemporaryNode {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Drop for TemporaryNode {
    /// Ends the node, and waits until it has torn down its reservations.
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

/// The first output line of a temporary node once it takes requests; any other line is its error.
pub const READY: &str = "ready";

/// A running node: the named one, or the one of this network namespace.
///
/// # Errors
///
/// If there is none, or the named one does not speak RSVP.
pub fn running(named: Option<&str>) -> Result<FoundNode, Refusal> {
    if let Some(name) = named {
        speaks(name)?;
        return Ok(FoundNode {
            socket: name.into(),
            temporary: None,
        });
    }
    only_of(&beacon::nodes())
}

fn only_of(nodes: &[AnnouncedNode]) -> Result<FoundNode, Refusal> {
    match nodes {
        [only] => Ok(announced(only)),
        [] => Err(Refusal {
            message: "no suimon speaks RSVP on this host".into(),
            help: Some("start `suimon accept`, or `suimon run` with an [rsvp] section".into()),
        }),
        several => Err(Refusal {
            message: format!("several suimon speak RSVP on this host: {}", listed(several)),
            help: Some("choose one with --socket PATH".into()),
        }),
    }
}

fn announced(node: &AnnouncedNode) -> FoundNode {
    let socket = node.socket.to_string_lossy().into_owned();
    await_ready(&socket);
    FoundNode {
        socket,
        temporary: None,
    }
}

/// Nodes with their interfaces, human-readable.
fn listed(nodes: &[AnnouncedNode]) -> String {
    let one = |node: &AnnouncedNode| format!("{} on {}", node.socket.display(), node.interfaces.join(", "));
    nodes.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Of several nodes, the one that speaks RSVP on the interface of the route to this host.
fn towards(nodes: &[AnnouncedNode], to: IpAddr) -> Option<FoundNode> {
    let Leads::By { interface, .. } = Routes::open().ok()?.to(to).ok()? else {
        return None;
    };
    let name = Interface::numbered(interface).ok()?.name;
    let on = |node: &&AnnouncedNode| node.interfaces.contains(&name);
    nodes.iter().find(on).map(announced)
}

fn speaks(socket: &str) -> Result<(), Refusal> {
    match Client::connect(Some(socket))?.ask(&Request::Reservations {})? {
        Reply::Refused(why) => Err(why),
        _ => Ok(()),
    }
}

/// Waits for a node that has announced itself but does not take requests yet.
fn await_ready(socket: &str) {
    let until = Instant::now() + TIMEOUT;
    while Client::connect(Some(socket)).is_err() && Instant::now() < until {
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// A running node, or a temporary one. Of several that run, the one on the route to this host.
///
/// # Errors
///
/// If the named node does not reply, or no temporary node can be started.
pub fn running_or_own(named: Option<&str>, to: IpAddr, options: &[String]) -> Result<FoundNode, Error> {
    if named.is_some() {
        return running(named).map_err(Error::from);
    }
    // Read once: others may start meanwhile.
    let nodes = beacon::nodes();
    match only_of(&nodes) {
        Ok(found) => Ok(found),
        // Another verb may have started one at the same moment, which keeps ours from starting.
        Err(_) if nodes.is_empty() => own(options).or_else(|failure| running(None).map_err(|_| failure)),
        Err(why) => towards(&nodes, to).ok_or_else(|| why.into()),
    }
}

/// Starts a temporary node and waits until it takes requests.
fn own(options: &[String]) -> Result<FoundNode, Error> {
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
        // No output at all counts as a failure.
        let _ = BufReader::new(stdout).read_line(&mut line);
    }
    match line.trim() {
        READY => Ok(FoundNode {
            socket,
            temporary: Some(TemporaryNode { child, stdin }),
        }),
        message => {
            let _ = child.wait();
            Err(if message.is_empty() {
                cannot("it ended at once".into())
            } else {
                Error::NodeFailed(message.into())
            })
        }
    }
}
