//! Follows a running suimon, and gives each of its states to all who listen.

use control::autorate::AutorateView;
use control::experienced::{ExperienceView, HostView};
use control::protocol::Refusal;
use control::quota::QuotaView;
use control::snapshot::{ClassView, Delay, InterfaceView, NatView, Snapshot, State, StatusDetail, Traffic};
use control::socket::{Client, snapshot};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often the state is read.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long to wait for a program that is not there.
const AGAIN: Duration = Duration::from_secs(1);

/// The last state as JSON: the data of an event of the page.
pub type LiveState = Arc<str>;

/// Follows the program of this socket, or the only one, in a thread of its own, as long as somebody
/// can listen.
///
/// # Errors
///
/// Returns an error if there can be no thread.
pub fn follow(socket: Option<String>) -> std::io::Result<watch::Receiver<LiveState>> {
    let (tell, listen) = watch::channel(StateView::Error("not read yet").json());
    let thread = std::thread::Builder::new().name("follow".into());
    thread.spawn(move || {
        while !tell.is_closed() {
            if let Err(why) = follow_once(socket.as_deref(), &tell) {
                tell.send_replace(StateView::Error(&why.to_string()).json());
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
        tell.send_replace(StateView::Snapshot(SnapshotView::of(&now)).json());
        now = snapshot(client.next_reply()?)?;
    }
    Ok(())
}

/// What the page is told. What is zero, empty or null of a class or of traffic is absent: of
/// thousands of classes, most of which are idle, little is left.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "LiveState")]
pub(crate) enum StateView<'a> {
    /// The state of the program.
    Snapshot(SnapshotView<'a>),
    /// There is none, and why.
    Error(&'a str),
}

impl StateView<'_> {
    fn json(&self) -> LiveState {
        serde_json::to_string(self).unwrap_or_default().into()
    }
}

/// The state of the program.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LiveSnapshot")]
pub(crate) struct SnapshotView<'a> {
    /// The policy's name.
    policy: &'a str,
    /// The managed interfaces.
    interfaces: Vec<LiveInterface<'a>>,
}

impl<'a> SnapshotView<'a> {
    fn of(now: &'a Snapshot) -> Self {
        Self {
            policy: &now.policy,
            interfaces: now.interfaces.iter().map(LiveInterface::of).collect(),
        }
    }
}

/// A managed interface.
#[derive(Serialize, JsonSchema)]
struct LiveInterface<'a> {
    /// Its name.
    name: &'a str,
    /// Whether the policy is applied.
    state: State,
    /// Why the policy is not enforced, if it is not.
    not_enforced: Option<&'a str>,
    /// What it is expected to keep and does not, in words.
    missed: Vec<String>,
    /// The kind of its discipline.
    discipline: &'a str,
    /// The link rate.
    bandwidth_bps: u64,
    /// The traffic of all classes together.
    #[serde(flatten)]
    traffic: LiveTraffic<'a>,
    /// Its classes, depth first: each parent is followed by its children.
    classes: Vec<LiveClass<'a>>,
    /// What the hosts behind it have, if that is measured; those that were offered most first.
    #[serde(skip_serializing_if = "<[HostView]>::is_empty")]
    hosts: &'a [HostView],
    /// How its rate follows a line that varies, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    autorate: Option<&'a AutorateView>,
    /// What is known of the connections of hosts behind this one, if its policy has `nat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    nat: Option<NatView>,
}

impl<'a> LiveInterface<'a> {
    fn of(of: &'a InterfaceView) -> Self {
        let missed = of.expectations.iter().filter(|one| !one.met);
        Self {
            name: &of.name,
            state: of.state,
            not_enforced: of.not_enforced.as_deref(),
            missed: missed.map(ToString::to_string).collect(),
            discipline: &of.discipline,
            bandwidth_bps: of.bandwidth_bps,
            traffic: LiveTraffic::of(&of.traffic),
            classes: of.classes.iter().map(LiveClass::of).collect(),
            hosts: &of.hosts,
            autorate: of.autorate.as_ref(),
            nat: of.nat,
        }
    }
}

/// A class.
#[derive(Serialize, JsonSchema)]
struct LiveClass<'a> {
    /// Its name.
    name: &'a str,
    /// Its depth in the tree; absent at the top.
    #[serde(skip_serializing_if = "is_nothing")]
    depth: usize,
    /// Whether it is a leaf, which has a queue of its own.
    #[serde(skip_serializing_if = "is_nothing")]
    leaf: bool,
    /// The configured rate, if its discipline has rates.
    #[serde(skip_serializing_if = "is_nothing")]
    asked_bps: Option<u64>,
    /// How its quota stands, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<&'a QuotaView>,
    /// Its traffic; for an interior class that of all classes below it.
    #[serde(flatten)]
    traffic: LiveTraffic<'a>,
}

impl<'a> LiveClass<'a> {
    fn of(of: &'a ClassView) -> Self {
        Self {
            name: &of.name,
            depth: of.depth,
            leaf: of.leaf,
            asked_bps: of.asked_bps.filter(|rate| *rate > 0),
            quota: of.quota.as_ref(),
            traffic: LiveTraffic::of(&of.traffic),
        }
    }
}

/// The traffic of an interface or a class.
#[derive(Serialize, JsonSchema)]
struct LiveTraffic<'a> {
    /// The rate over half a second at which packets arrived for it.
    #[serde(skip_serializing_if = "is_nothing")]
    offered_bps: Option<u64>,
    /// The measured rate over half a second.
    #[serde(skip_serializing_if = "is_nothing")]
    got_bps: Option<u64>,
    /// Packets in the queue.
    #[serde(skip_serializing_if = "is_nothing")]
    backlog_packets: u64,
    /// Bytes in the queue.
    #[serde(skip_serializing_if = "is_nothing")]
    backlog_bytes: u64,
    /// The queueing delay, if a packet was sent.
    #[serde(skip_serializing_if = "is_nothing")]
    delay: Option<Delay>,
    /// Packets dropped, by reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    drops: Option<&'a BTreeMap<String, u64>>,
    /// Packets marked (ECN) since the start.
    #[serde(skip_serializing_if = "is_nothing")]
    marked_packets: u64,
    /// What its TCP connections have, if that is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    experience: Option<&'a ExperienceView>,
}

impl<'a> LiveTraffic<'a> {
    fn of(of: &'a Traffic) -> Self {
        Self {
            offered_bps: of.offered_bps.filter(|rate| *rate > 0),
            got_bps: of.got_bps.filter(|rate| *rate > 0),
            backlog_packets: of.backlog_packets,
            backlog_bytes: of.backlog_bytes,
            delay: of.delay,
            drops: Some(&of.drops).filter(|drops| !drops.is_empty()),
            marked_packets: of.marked_packets,
            experience: of.experience.as_ref(),
        }
    }
}

/// Zero, false or absent.
fn is_nothing<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
