//! The leader: it collects the samples of all nines and runs the control laws.

use super::claims::{Claims, freed};
use super::json_lines::JsonLines;
use super::leader_lock::LeaderLock;
use super::message::{
    ConnectionStatus, FlowReport, FromLeader, InterfaceStatus, MemberProfile, MemberReport, MemberStatus,
    NineStatus, ToLeader, WireOrder,
};
use super::totals::Totals;
use crate::bottlenet::{BottlenetSetting, setting_of};
use crate::interface::{self, LinkTable};
use crate::law::{FullLinkClamp, INTERVAL, Law, Scavenger};
use crate::order::{FlowLimit, LimitOrder, LimitReason, rough};
use crate::process_tree;
use crate::tick::{ConnectionId, DataDirection, FlowSample, LawInput, LinkCounters, Member, MemberId};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use netio::clock;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// How long a tick waits for a follower's report. One that is late is left out, and its traffic
/// counts as other traffic.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long after the last connection the leader is idle. A program may open one after another,
/// each too short for the ticks of an idle leader.
const IDLE_AFTER: Duration = Duration::from_secs(5);
/// How often addresses and bottlenet settings are looked up.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(1);
/// The averaging time of the rates in the status, and how often the status is made.
const AVERAGED_OVER: Duration = Duration::from_secs(1);
const STATUS_INTERVAL: Duration = Duration::from_millis(200);

/// The laws of one interface.
struct InterfaceLaws {
    scavengers: [(DataDirection, Scavenger); 2],
    paper: FullLinkClamp,
}

impl fmt::Debug for InterfaceLaws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterfaceLaws").finish_non_exhaustive()
    }
}

impl Default for InterfaceLaws {
    fn default() -> Self {
        let scavenger = |direction| (direction, Scavenger::new(direction));
        Self {
            scavengers: [
                scavenger(DataDirection::Download),
                scavenger(DataDirection::Upload),
            ],
            paper: FullLinkClamp::default(),
        }
    }
}

/// A follower, or a client that only asks for the status.
#[derive(Debug)]
struct Peer {
    lines: JsonLines,
    profile: Option<MemberProfile>,
    report: MemberReport,
}

/// The totals at one time, and the average rates up to then.
#[derive(Clone, Copy, Debug)]
struct DisplayedRates {
    at: Instant,
    carried: LinkCounters,
    down: Bandwidth,
    up: Bandwidth,
}

impl DisplayedRates {
    fn update(last: Option<Self>, at: Instant, carried: LinkCounters) -> Self {
        let Some(before) = last else {
            return Self {
                at,
                carried,
                down: Bandwidth::ZERO,
                up: Bandwidth::ZERO,
            };
        };
        let span = at.since(before.at);
        if span < AVERAGED_OVER {
            return before;
        }
        Self {
            at,
            carried,
            down: Bandwidth::of(carried.received - before.carried.received, span),
            up: Bandwidth::of(carried.sent - before.carried.sent, span),
        }
    }
}

/// The leader's state.
#[derive(Debug)]
pub(super) struct Leader {
    listener: UnixListener,
    _lock: LeaderLock,
    directories: Vec<PathBuf>,
    peers: Vec<Peer>,
    tick: u64,
    /// When the current tick began.
    begun: Option<Instant>,
    interval: Duration,
    idle: bool,
    /// When there was a connection last.
    busy_at: Option<Instant>,
    laws: BTreeMap<String, InterfaceLaws>,
    link_table: LinkTable,
    settings: BTreeMap<String, BottlenetSetting>,
    looked_up: Option<Instant>,
    /// The interfaces of whose wrong rates the user was told, and what to tell next.
    told: BTreeSet<String>,
    notices: Vec<String>,
    claims: Claims,
    totals: Totals,
    shown: BTreeMap<ConnectionId, DisplayedRates>,
    links: BTreeMap<String, DisplayedRates>,
    status: NineStatus,
}

impl Leader {
    pub(super) fn new(lock: LeaderLock, listener: UnixListener, directories: Vec<PathBuf>) -> Self {
        Self {
            listener,
            _lock: lock,
            directories,
            peers: Vec::new(),
            tick: 0,
            begun: None,
            interval: INTERVAL,
            idle: true,
            busy_at: None,
            laws: BTreeMap::new(),
            link_table: LinkTable::default(),
            settings: BTreeMap::new(),
            looked_up: None,
            told: BTreeSet::new(),
            notices: Vec::new(),
            claims: Claims::default(),
            totals: Totals::default(),
            shown: BTreeMap::new(),
            links: BTreeMap::new(),
            status: NineStatus::default(),
        }
    }

    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let peers = self.peers.iter().map(|peer| peer.lines.as_fd());
        peers.chain([self.listener.as_fd()]).collect()
    }

    pub(super) fn tick(&self) -> u64 {
        self.tick
    }

    pub(super) fn is_idle(&self) -> bool {
        self.idle
    }

    /// How soon the laws want the next tick.
    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// What the user should be told, each once.
    pub(super) fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Accepts peers and receives their messages.
    pub(super) fn receive(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            // The directory belongs to this user alone, so nobody else can connect.
            self.peers.extend(JsonLines::new(stream).ok().map(|lines| Peer {
                lines,
                profile: None,
                report: MemberReport::default(),
            }));
        }
        let status = &self.status;
        self.peers.retain_mut(|peer| peer.receive(status));
    }

    /// Begins a tick: asks all followers for samples.
    pub(super) fn begin(&mut self, at: Instant) {
        if self.begun.is_some() {
            return;
        }
        self.tick += 1;
        self.begun = Some(at);
        let tick = self.tick;
        self.peers.retain_mut(|peer| {
            peer.profile.is_none() || peer.lines.send(&FromLeader::Sample { tick }).is_ok()
        });
    }

    /// Whether all followers have reported, or their time is over.
    pub(super) fn is_complete(&self, at: Instant) -> bool {
        let Some(begun) = self.begun else {
            return false;
        };
        at.since(begun) > PATIENCE || self.peers.iter().all(|peer| peer.has_reported(self.tick))
    }

    /// Runs the laws and sends the followers their orders. Returns the orders for the leader's own
    /// connections.
    pub(super) fn conclude(&mut self, own: &MemberProfile, report: MemberReport) -> Vec<LimitOrder> {
        self.begun = None;
        // Right after the connections: what arrives in between counts as other traffic.
        let (counters, at) = clock::timed(|| interface::counters().unwrap_or_default());
        let mut all = vec![(own.clone(), report)];
        for peer in self.peers.iter().filter(|peer| peer.has_reported(self.tick)) {
            all.extend(peer.profile.clone().map(|profile| (profile, peer.report.clone())));
        }
        let unclaimed = self.claims.settle(&mut all);
        self.look_up(at, &all);
        let members: Vec<Member> = all.iter().map(|(profile, _)| profile.member()).collect();
        let mut flows: BTreeMap<String, Vec<FlowSample>> = BTreeMap::new();
        for (profile, report) in &all {
            for flow in &report.flows {
                if let Some(interface) = self.interface(flow) {
                    let sample = flow.of(MemberId(profile.pid));
                    flows.entry(interface.to_string()).or_default().push(sample);
                }
            }
        }
        // Laws of idle interfaces run too, so that they know the link when a connection begins.
        let mut orders = Vec::new();
        self.interval = INTERVAL;
        let known: BTreeSet<String> = self.laws.keys().chain(flows.keys()).cloned().collect();
        for interface in known.into_iter().filter(|name| counters.contains_key(name)) {
            let flows = flows.remove(&interface).unwrap_or_default();
            let link = counters[&interface];
            orders.extend(self.run_laws(at, &interface, link, &members, &flows));
        }
        self.send_orders(&orders, &unclaimed);
        if all.iter().any(|(_, report)| !report.flows.is_empty()) {
            self.busy_at = Some(at);
        }
        self.idle = self.busy_at.is_none_or(|busy| at.since(busy) > IDLE_AFTER);
        if at.since(Instant::from_nanos(self.status.at_ns)) >= STATUS_INTERVAL {
            self.update_status(at, &all, &counters, &orders);
        }
        let mine: BTreeSet<u64> = all[0].1.flows.iter().map(|flow| flow.id).collect();
        orders.retain(|order| mine.contains(&order.flow.0));
        orders.extend(freed(unclaimed.get(&own.pid)));
        orders
    }

    /// Runs the laws of one interface: the paper's for members with a WINDOW, the scavenger for the
    /// others.
    fn run_laws(
        &mut self,
        now: Instant,
        interface: &str,
        link: LinkCounters,
        members: &[Member],
        flows: &[FlowSample],
    ) -> Vec<LimitOrder> {
        let setting = self.settings.get(interface).copied().unwrap_or_default();
        let (paper, scavenger): (Vec<Member>, Vec<Member>) =
            members.iter().partition(|member| member.window.is_some());
        let of = |members: &[Member]| -> Vec<FlowSample> {
            let is_of = |flow: &&FlowSample| members.iter().any(|member| member.id == flow.member);
            flows.iter().filter(is_of).copied().collect()
        };
        let (paper_flows, scavenger_flows) = (of(&paper), of(&scavenger));
        let laws = self.laws.entry(interface.to_string()).or_default();
        let tick = |direction| LawInput {
            now,
            link,
            bottleneck: setting.bottleneck(direction),
            members: &scavenger,
            flows: &scavenger_flows,
        };
        let mut orders = Vec::new();
        for (direction, law) in &mut laws.scavengers {
            orders.extend(law.tick(&tick(*direction)));
            self.interval = self.interval.min(law.interval());
            if let Some(measured) = law.contradiction(setting.bottleneck(*direction))
                && self.told.insert(interface.to_string())
            {
                self.notices.push(format!(
                    "bottlenet states {setting} for {interface}, but it carries {}: what is measured \
                     applies",
                    rough(measured)
                ));
            }
        }
        orders.extend(laws.paper.tick(&LawInput {
            members: &paper,
            flows: &paper_flows,
            ..tick(DataDirection::Download)
        }));
        orders
    }

    fn interface<'a>(&'a self, flow: &'a FlowReport) -> Option<&'a str> {
        if let Some(name) = &flow.interface {
            return Some(name);
        }
        self.link_table.of(flow.ends.map(|end| end.ip()))
    }

    fn look_up(&mut self, at: Instant, all: &[(MemberProfile, MemberReport)]) {
        let flows = || all.iter().flat_map(|(_, report)| &report.flows);
        let ends = |flow: &FlowReport| flow.ends.map(|end| end.ip());
        let fresh = self
            .looked_up
            .is_some_and(|then| at.since(then) < LOOKUP_INTERVAL);
        if fresh && flows().all(|flow| flow.interface.is_some() || self.link_table.knows(ends(flow))) {
            return;
        }
        self.looked_up = Some(at);
        // If the lookup fails, the old addresses stay.
        if let Ok(table) = LinkTable::read(flows().map(ends)) {
            self.link_table = table;
        }
        let reported = flows().filter_map(|flow| flow.interface.as_ref());
        let names: BTreeSet<&String> = self.link_table.names().chain(reported).collect();
        let settings: BTreeMap<String, BottlenetSetting> = names
            .into_iter()
            .map(|name| (name.clone(), setting_of(&self.directories, name)))
            .collect();
        // Another rate may be right.
        let before = std::mem::replace(&mut self.settings, settings);
        self.told
            .retain(|name| before.get(name) == self.settings.get(name));
    }

    fn send_orders(&mut self, orders: &[LimitOrder], unclaimed: &BTreeMap<u32, BTreeSet<u64>>) {
        for peer in &mut self.peers {
            let profile = peer.profile.as_ref();
            let theirs = profile.and_then(|profile| unclaimed.get(&profile.pid));
            let ids: BTreeSet<u64> = peer.report.flows.iter().map(|flow| flow.id).collect();
            let is_own = |order: &&LimitOrder| {
                let id = order.flow.0;
                ids.contains(&id) && theirs.is_none_or(|theirs| !theirs.contains(&id))
            };
            let own = orders.iter().filter(is_own).copied();
            let own: Vec<WireOrder> = own
                .chain(freed(theirs))
                .map(|order| WireOrder::new(&order))
                .collect();
            if !own.is_empty() {
                // That a peer has gone is noticed when it is read.
                let _ = peer.lines.send(&FromLeader::Apply(own));
            }
        }
    }

    /// Renews the status that `nine top` shows.
    fn update_status(
        &mut self,
        at: Instant,
        all: &[(MemberProfile, MemberReport)],
        counters: &BTreeMap<String, LinkCounters>,
        orders: &[LimitOrder],
    ) {
        let mut shown = BTreeMap::new();
        let mut names = BTreeMap::new();
        let mut used = BTreeSet::new();
        let mut members = Vec::new();
        for (profile, report) in all {
            let mut connections = Vec::new();
            for flow in &report.flows {
                let id = ConnectionId(flow.id);
                let carried = LinkCounters {
                    received: Bytes::new(flow.received),
                    sent: Bytes::new(flow.sent),
                };
                let rates = DisplayedRates::update(self.shown.get(&id).copied(), at, carried);
                shown.insert(id, rates);
                let interface = self.interface(flow).map(str::to_string);
                used.extend(interface.clone());
                let program = match flow.pid {
                    // A connection of a host behind an interface: the host.
                    0 => flow.ends[0].ip().to_string(),
                    pid => names
                        .entry(pid)
                        .or_insert_with(|| process_tree::name_of(pid))
                        .clone(),
                };
                self.totals.count(profile.pid, &program, flow);
                let busier = match flow.sent > flow.received {
                    true => DataDirection::Upload,
                    false => DataDirection::Download,
                };
                let (limit, why) = describe(id, orders, interface.is_some().then_some(busier));
                connections.push(ConnectionStatus {
                    pid: flow.pid,
                    program,
                    interface,
                    local: flow.ends[0],
                    remote: flow.ends[1],
                    window_bytes: flow.window,
                    rtt_ms: flow.rtt_ns.map(|ns| ns as f64 / 1e6),
                    down_bps: rates.down.bits(),
                    up_bps: rates.up.bits(),
                    limit,
                    why,
                });
            }
            members.push(MemberStatus {
                profile: profile.clone(),
                connections,
                programs: self.totals.of(profile.pid),
                not_controlled: report.uncontrolled.clone(),
            });
        }
        let present = all.iter().map(|(profile, _)| profile.pid).collect();
        let open = shown.keys().map(|id| id.0).collect();
        self.totals.retain(&present, &open);
        self.shown = shown;
        let interfaces = used.into_iter().filter_map(|name| {
            let rates = DisplayedRates::update(self.links.get(&name).copied(), at, *counters.get(&name)?);
            self.links.insert(name.clone(), rates);
            let bottlenet = self.settings.get(&name).copied().unwrap_or_default();
            let scavengers = self.laws.get(&name).map(|laws| &laws.scavengers);
            let law_rate = |n: usize| {
                let (direction, law) = &scavengers?[n];
                law.rate(bottlenet.bottleneck(*direction)).map(Bandwidth::bits)
            };
            Some(InterfaceStatus {
                bottlenet,
                link_down_bps: law_rate(0),
                link_up_bps: law_rate(1),
                down_bps: rates.down.bits(),
                up_bps: rates.up.bits(),
                name,
            })
        });
        self.status = NineStatus {
            at_ns: at.nanos(),
            interfaces: interfaces.collect(),
            members,
        };
    }
}

/// The limit of a connection and the reason: those of the order that limits it, or else of its
/// `busier` direction. None: the connection uses no link.
fn describe(id: ConnectionId, orders: &[LimitOrder], busier: Option<DataDirection>) -> (String, String) {
    let Some(busier) = busier else {
        return ("free".into(), "inside this host".into());
    };
    let mut of = orders.iter().filter(|order| order.flow == id);
    let main = of.clone().find(|order| order.direction == busier);
    let strictest = of
        .find(|order| !matches!(order.reason, LimitReason::LinkIsFree))
        .or(main);
    strictest.map_or_else(
        || ("free".into(), "not sampled yet".into()),
        |order| {
            let limit = match order.limit {
                FlowLimit::Free => "free".to_string(),
                FlowLimit::Window(bytes) => format!("window {bytes}"),
                FlowLimit::Parked => "parked".into(),
                FlowLimit::Pace(rate) => format!("pace {rate}"),
            };
            (limit, order.reason.to_string())
        },
    )
}

impl Peer {
    /// Handles its messages. Returns whether it is still connected.
    fn receive(&mut self, status: &NineStatus) -> bool {
        let Ok(messages) = self.lines.receive() else {
            return false;
        };
        for message in messages {
            match message {
                ToLeader::Join(profile) => self.profile = Some(profile),
                ToLeader::Report(report) => self.report = report,
                ToLeader::Status => {
                    if self.lines.send(&FromLeader::Status(status.clone())).is_err() {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn has_reported(&self, tick: u64) -> bool {
        self.profile.is_none() || self.report.tick == tick
    }
}
