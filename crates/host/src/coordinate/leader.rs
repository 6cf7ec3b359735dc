//! The nine that leads: it has the readings of all, and the laws.

use super::line::Lines;
use super::message::{
    Command, ConnectionStatus, FromLeader, InterfaceStatus, MemberStatus, Profile, Reading, Readings, Status,
    ToLeader,
};
use crate::borrowed::tree;
use crate::bottlenet::{Word, word_of};
use crate::law::{INTERVAL, Law, Modern, Paper};
use crate::link;
use crate::order::{Hold, Order, Why};
use crate::reading::{Direction, FlowId, FlowReading, LinkReading, Member, MemberId, Tick};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use netio::clock;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// How long a tick waits for a follower. One that is later is left out; its traffic then counts as others'.
const PATIENCE: Duration = Duration::from_millis(300);
/// How often addresses and what bottlenet says are looked up.
const AGE: Duration = Duration::from_secs(1);
/// Over how long the rates are that people see, and how often what they see is made.
const SHOWN: Duration = Duration::from_secs(1);
const SHOWS: Duration = Duration::from_millis(200);

/// The laws of one interface.
struct Laws {
    modern: [(Direction, Modern); 2],
    paper: Paper,
}

impl fmt::Debug for Laws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Laws").finish_non_exhaustive()
    }
}

impl Default for Laws {
    fn default() -> Self {
        let modern = |direction| (direction, Modern::new(direction));
        Self {
            modern: [modern(Direction::Download), modern(Direction::Upload)],
            paper: Paper::default(),
        }
    }
}

/// A follower, or somebody who only asks.
#[derive(Debug)]
struct Peer {
    lines: Lines,
    profile: Option<Profile>,
    readings: Readings,
}

/// Totals some time ago, and the rates since.
#[derive(Clone, Copy, Debug)]
struct Shown {
    at: Instant,
    carried: LinkReading,
    down: Bandwidth,
    up: Bandwidth,
}

impl Shown {
    fn see(shown: Option<Self>, at: Instant, carried: LinkReading) -> Self {
        let Some(before) = shown else {
            return Self {
                at,
                carried,
                down: Bandwidth::ZERO,
                up: Bandwidth::ZERO,
            };
        };
        let span = at.since(before.at);
        if span < SHOWN {
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

/// What the leader keeps.
#[derive(Debug)]
pub(super) struct Leader {
    /// Held as long as this one leads.
    _lock: File,
    listener: UnixListener,
    words: Vec<PathBuf>,
    peers: Vec<Peer>,
    tick: u64,
    /// When the tick began that is not concluded.
    begun: Option<Instant>,
    interval: Duration,
    idle: bool,
    laws: BTreeMap<String, Laws>,
    addresses: BTreeMap<IpAddr, String>,
    said: BTreeMap<String, Word>,
    looked_up: Option<Instant>,
    shown: BTreeMap<FlowId, Shown>,
    links: BTreeMap<String, Shown>,
    status: Status,
}

impl Leader {
    pub(super) fn new(lock: File, listener: UnixListener, words: Vec<PathBuf>) -> Self {
        Self {
            _lock: lock,
            listener,
            words,
            peers: Vec::new(),
            tick: 0,
            begun: None,
            interval: INTERVAL,
            idle: true,
            laws: BTreeMap::new(),
            addresses: BTreeMap::new(),
            said: BTreeMap::new(),
            looked_up: None,
            shown: BTreeMap::new(),
            links: BTreeMap::new(),
            status: Status::default(),
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

    /// Takes whoever comes and whatever has come.
    pub(super) fn receive(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            // The directory is this user's alone, so nobody else comes.
            self.peers.extend(Lines::new(stream).ok().map(|lines| Peer {
                lines,
                profile: None,
                readings: Readings::default(),
            }));
        }
        let status = &self.status;
        self.peers.retain_mut(|peer| peer.receive(status));
    }

    /// Asks all followers.
    pub(super) fn begin(&mut self, at: Instant) {
        if self.begun.is_some() {
            return;
        }
        self.tick += 1;
        self.begun = Some(at);
        let tick = self.tick;
        self.peers
            .retain_mut(|peer| peer.profile.is_none() || peer.lines.send(&FromLeader::Read { tick }).is_ok());
    }

    /// Whether all have answered, or have had the time to.
    pub(super) fn is_complete(&self, at: Instant) -> bool {
        let Some(begun) = self.begun else {
            return false;
        };
        at.since(begun) > PATIENCE || self.peers.iter().all(|peer| peer.has_answered(self.tick))
    }

    /// Lets the laws decide; the orders for the leader's own connections, which remain to be done.
    pub(super) fn conclude(&mut self, own: &Profile, readings: Readings) -> Vec<Order> {
        self.begun = None;
        // Right after the connections: what comes in between is nobody's.
        let (counters, at) = clock::timed(|| link::counters().unwrap_or_default());
        let mut all = vec![(own.clone(), readings)];
        for peer in self.peers.iter().filter(|peer| peer.has_answered(self.tick)) {
            all.extend(
                peer.profile
                    .clone()
                    .map(|profile| (profile, peer.readings.clone())),
            );
        }
        self.look_up(at, &all);
        let members: Vec<Member> = all.iter().map(|(profile, _)| profile.member()).collect();
        let mut flows: BTreeMap<String, Vec<FlowReading>> = BTreeMap::new();
        for (profile, readings) in &all {
            for reading in &readings.flows {
                if let Some(interface) = self.interface(reading) {
                    let flow = reading.of(MemberId(profile.pid));
                    flows.entry(interface.to_string()).or_default().push(flow);
                }
            }
        }
        // Those without connections are told too, so that their laws know the link when one comes.
        let mut orders = Vec::new();
        self.interval = INTERVAL;
        let known: BTreeSet<String> = self.laws.keys().chain(flows.keys()).cloned().collect();
        for interface in known.into_iter().filter(|name| counters.contains_key(name)) {
            let flows = flows.remove(&interface).unwrap_or_default();
            let link = counters[&interface];
            orders.extend(self.rule(at, &interface, link, &members, &flows));
        }
        self.give(&orders);
        self.idle = all.iter().all(|(_, readings)| readings.flows.is_empty());
        if at.since(Instant::from_nanos(self.status.at_ns)) >= SHOWS {
            self.show(at, &all, &counters, &orders);
        }
        let mine: BTreeSet<u64> = all[0].1.flows.iter().map(|flow| flow.id).collect();
        orders.retain(|order| mine.contains(&order.flow.0));
        orders
    }

    /// The laws of one interface: the paper's for members with a WINDOW, ours for the others.
    fn rule(
        &mut self,
        now: Instant,
        interface: &str,
        link: LinkReading,
        members: &[Member],
        flows: &[FlowReading],
    ) -> Vec<Order> {
        let word = self.said.get(interface).copied().unwrap_or_default();
        let (papers, moderns): (Vec<Member>, Vec<Member>) =
            members.iter().partition(|member| member.window.is_some());
        let of = |members: &[Member]| -> Vec<FlowReading> {
            let is_of = |flow: &&FlowReading| members.iter().any(|member| member.id == flow.member);
            flows.iter().filter(is_of).copied().collect()
        };
        let (paper_flows, modern_flows) = (of(&papers), of(&moderns));
        let laws = self.laws.entry(interface.to_string()).or_default();
        let tick = |direction| Tick {
            now,
            link,
            bottleneck: word.bottleneck(direction),
            members: &moderns,
            flows: &modern_flows,
        };
        let mut orders = Vec::new();
        for (direction, law) in &mut laws.modern {
            orders.extend(law.tick(&tick(*direction)));
            self.interval = self.interval.min(law.interval());
        }
        orders.extend(laws.paper.tick(&Tick {
            members: &papers,
            flows: &paper_flows,
            ..tick(Direction::Download)
        }));
        orders
    }

    fn interface<'a>(&'a self, reading: &'a Reading) -> Option<&'a str> {
        if let Some(told) = &reading.interface {
            return Some(told);
        }
        let [local, remote] = reading.ends.map(|end| end.ip());
        link::interface_of(&self.addresses, local, remote)
    }

    fn look_up(&mut self, at: Instant, all: &[(Profile, Readings)]) {
        let mut flows = all.iter().flat_map(|(_, readings)| &readings.flows);
        let is_known =
            |flow: &Reading| flow.interface.is_some() || self.addresses.contains_key(&flow.ends[0].ip());
        let fresh = self.looked_up.is_some_and(|then| at.since(then) < AGE);
        if fresh && flows.all(is_known) {
            return;
        }
        self.looked_up = Some(at);
        // Where there is no answer, what was known holds.
        if let Ok(addresses) = link::addresses() {
            self.addresses = addresses;
        }
        let told = all.iter().flat_map(|(_, readings)| &readings.flows);
        let told = told.filter_map(|flow| flow.interface.as_ref());
        let names: BTreeSet<&String> = self.addresses.values().chain(told).collect();
        self.said = names
            .into_iter()
            .map(|name| (name.clone(), word_of(&self.words, name)))
            .collect();
    }

    fn give(&mut self, orders: &[Order]) {
        for peer in &mut self.peers {
            let ids: BTreeSet<u64> = peer.readings.flows.iter().map(|flow| flow.id).collect();
            let commands: Vec<Command> = orders
                .iter()
                .filter(|order| ids.contains(&order.flow.0))
                .map(Command::new)
                .collect();
            if !commands.is_empty() {
                // One that has gone is noticed when it is read.
                let _ = peer.lines.send(&FromLeader::Hold(commands));
            }
        }
    }

    /// Makes the status for people.
    fn show(
        &mut self,
        at: Instant,
        all: &[(Profile, Readings)],
        counters: &BTreeMap<String, LinkReading>,
        orders: &[Order],
    ) {
        let mut shown = BTreeMap::new();
        let mut names = BTreeMap::new();
        let mut used = BTreeSet::new();
        let mut members = Vec::new();
        for (profile, readings) in all {
            let mut connections = Vec::new();
            for flow in &readings.flows {
                let id = FlowId(flow.id);
                let carried = LinkReading {
                    received: Bytes::new(flow.received),
                    sent: Bytes::new(flow.sent),
                };
                let rates = Shown::see(self.shown.get(&id).copied(), at, carried);
                shown.insert(id, rates);
                let interface = self.interface(flow).map(str::to_string);
                used.extend(interface.clone());
                let program = match flow.pid {
                    // Behind an interface: the host.
                    0 => flow.ends[0].ip().to_string(),
                    pid => names.entry(pid).or_insert_with(|| tree::name_of(pid)).clone(),
                };
                let way = match flow.sent > flow.received {
                    true => Direction::Upload,
                    false => Direction::Download,
                };
                let (held, why) = words(id, orders, interface.is_some().then_some(way));
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
                    held,
                    why,
                });
            }
            members.push(MemberStatus {
                profile: profile.clone(),
                connections,
                not_controlled: readings.out_of_reach.clone(),
            });
        }
        self.shown = shown;
        let interfaces = used.into_iter().filter_map(|name| {
            let rates = Shown::see(self.links.get(&name).copied(), at, *counters.get(&name)?);
            self.links.insert(name.clone(), rates);
            let bottlenet = self.said.get(&name).copied().unwrap_or_default();
            let modern = self.laws.get(&name).map(|laws| &laws.modern);
            let taken_for = |n: usize| {
                let (direction, law) = &modern?[n];
                law.rate(bottlenet.bottleneck(*direction)).map(Bandwidth::bits)
            };
            Some(InterfaceStatus {
                bottlenet,
                link_down_bps: taken_for(0),
                link_up_bps: taken_for(1),
                down_bps: rates.down.bits(),
                up_bps: rates.up.bits(),
                name,
            })
        });
        self.status = Status {
            at_ns: at.nanos(),
            interfaces: interfaces.collect(),
            members,
        };
    }
}

/// How a connection is held and why: the order that holds it most, or that of the direction in which it carries more. None: it is
/// on no link.
fn words(id: FlowId, orders: &[Order], way: Option<Direction>) -> (String, String) {
    let Some(way) = way else {
        return ("free".into(), "inside this host".into());
    };
    let mut of = orders.iter().filter(|order| order.flow == id);
    let main = of.clone().find(|order| order.direction == way);
    let strictest = of.find(|order| !matches!(order.why, Why::LinkIsFree)).or(main);
    strictest.map_or_else(
        || ("free".into(), "not read yet".into()),
        |order| {
            let held = match order.hold {
                Hold::Free => "free".to_string(),
                Hold::Window(bytes) => format!("window {bytes}"),
                Hold::Parked => "parked".into(),
                Hold::Pace(rate) => format!("pace {rate}"),
            };
            (held, order.why.to_string())
        },
    )
}

impl Peer {
    /// Whether it is there still.
    fn receive(&mut self, status: &Status) -> bool {
        let Ok(messages) = self.lines.receive() else {
            return false;
        };
        for message in messages {
            match message {
                ToLeader::Join(profile) => self.profile = Some(profile),
                ToLeader::Readings(readings) => self.readings = readings,
                ToLeader::Status => {
                    if self.lines.send(&FromLeader::Status(status.clone())).is_err() {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn has_answered(&self, tick: u64) -> bool {
        self.profile.is_none() || self.readings.tick == tick
    }
}
