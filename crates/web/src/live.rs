//! Follows a running suimon, and gives each of its states to all who listen.

use control::protocol::Refusal;
use control::snapshot::{ClassView, InterfaceView, Snapshot, StatusDetail, Traffic};
use control::socket::{Client, snapshot};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often the state is read.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long to wait for a program that is not there.
const AGAIN: Duration = Duration::from_secs(1);

/// The last state as JSON: `{"snapshot": …}`, or `{"error": "…"}` while there is none.
pub type LiveState = Arc<str>;

/// Follows the program of this socket, or the only one, in a thread of its own, as long as somebody
/// can listen.
///
/// # Errors
///
/// Returns an error if there can be no thread.
pub fn follow(socket: Option<String>) -> std::io::Result<watch::Receiver<LiveState>> {
    let (tell, listen) = watch::channel(failed("not read yet"));
    let thread = std::thread::Builder::new().name("follow".into());
    thread.spawn(move || {
        while !tell.is_closed() {
            if let Err(why) = follow_once(socket.as_deref(), &tell) {
                tell.send_replace(failed(&why.to_string()));
            }
            std::thread::sleep(AGAIN);
        }
    })?;
    Ok(listen)
}

/// Follows it until it ends, or nobody listens any more.
fn follow_once(socket: Option<&str>, tell: &watch::Sender<LiveState>) -> Result<(), Refusal> {
    let mut client = Client::connect(socket)?;
    let mut now = client.status_with(INTERVAL, true, StatusDetail::Brief)?;
    while !tell.is_closed() {
        tell.send_replace(shown(&now));
        now = snapshot(client.next_reply()?)?;
    }
    Ok(())
}

/// What the page shows: of thousands of classes, most of which are idle, that is little.
fn shown(now: &Snapshot) -> LiveState {
    let interfaces: Vec<Value> = now.interfaces.iter().map(interface).collect();
    json!({ "snapshot": { "policy": now.policy, "interfaces": interfaces } })
        .to_string()
        .into()
}

fn interface(of: &InterfaceView) -> Value {
    let mut shown = traffic(&of.traffic);
    shown.insert("name".into(), json!(of.name));
    shown.insert("state".into(), json!(of.state));
    shown.insert("not_enforced".into(), json!(of.not_enforced));
    let missed = of.expectations.iter().filter(|one| !one.met);
    shown.insert("missed".into(), missed.map(ToString::to_string).collect());
    shown.insert("discipline".into(), json!(of.discipline));
    shown.insert("bandwidth_bps".into(), json!(of.bandwidth_bps));
    shown.insert("classes".into(), of.classes.iter().map(class).collect());
    shown.into()
}

fn class(of: &ClassView) -> Value {
    let mut shown = traffic(&of.traffic);
    shown.insert("name".into(), json!(of.name));
    for (name, value) in [
        ("depth", json!(of.depth)),
        ("leaf", json!(of.leaf)),
        ("asked_bps", json!(of.asked_bps)),
    ] {
        unless_nothing(&mut shown, name, value);
    }
    shown.into()
}

fn traffic(of: &Traffic) -> Map<String, Value> {
    let mut shown = Map::new();
    for (name, value) in [
        ("got_bps", json!(of.got_bps)),
        ("backlog_packets", json!(of.backlog_packets)),
        ("backlog_bytes", json!(of.backlog_bytes)),
        ("delay", json!(of.delay)),
        ("drops", json!(of.drops)),
        ("marked_packets", json!(of.marked_packets)),
    ] {
        unless_nothing(&mut shown, name, value);
    }
    shown
}

fn unless_nothing(of: &mut Map<String, Value>, name: &str, value: Value) {
    let nothing = value.is_null()
        || value == json!(0)
        || value == json!(false)
        || value.as_object().is_some_and(Map::is_empty);
    if !nothing {
        of.insert(name.into(), value);
    }
}

fn failed(why: &str) -> LiveState {
    json!({ "error": why }).to_string().into()
}
