//! RSVP beside a simulation: hosts and routers with the node of `rsvp`, whose messages are packets
//! on the simulated links.
//!
//! The node, its admission and the layout of classes are those of `suimon run`; here are its
//! sockets, routes and clock. Messages are the bytes that would be sent live: they queue, take time
//! and are lost like any other packet. Each turn does what the live node's does, in its order:
//! messages, timers, upcalls; then classes are installed, and only then are messages sent, so that
//! a reservation is enforced before a neighbour learns that it was admitted.
//!
//! A message with Router Alert goes to the first node on the way to its destination. Hosts that do
//! not speak RSVP forward it. One to a neighbour on a link takes that link, whatever routes say.
//! Nodes have one address, that of the host, on all their interfaces. INTEGRITY and refresh
//! reduction are left out.

use super::host_routes::{HostRoutes, SimNode};
use super::reserved_flows::{ReservationLog, ReservedFlows, senders, session};
use crate::Scenario;
use crate::language::{ReservationConfig, signalling_key};
use engine::random::Seed;
use engine::reservation::class_name;
use engine::reserved::ReservedLayout;
use engine::settings::Problem;
use engine::units::{Bytes, Duration, Instant};
use rsvp::admission::{AdmissionState, InterfaceBudget, ManagedInterface};
use rsvp::node::{Node, RsvpInterface, Settings, TcsbStatus, Transmit};
use rsvp::traffic_control::InterfaceId;
use rsvp::wire::Refresh;
use sim::agent::{Agent, Context};
use sim::packet::{Payload, SimPacket};
use sim::simulation::{End, FlowId, LinkId, Simulation};
use std::collections::{BTreeMap, BTreeSet};

/// A host that speaks RSVP.
struct RsvpHost {
    node: SimNode,
    /// The direction that leaves by each interface.
    interfaces: Vec<usize>,
}

/// A message between two nodes.
#[derive(Debug)]
struct SentMessage {
    bytes: Vec<u8>,
    /// The interface that it arrives on.
    interface: InterfaceId,
    /// Its IP TTL on arrival.
    ttl: u8,
}

/// An end of a way between two nodes: it keeps what has arrived, and sends what it is given.
#[derive(Debug, Default)]
struct Mailbox {
    arrived: Vec<u64>,
    to_send: Vec<SimPacket>,
}

impl Agent for Mailbox {
    fn wake(&mut self, cx: &mut Context<'_>) {
        self.to_send.drain(..).for_each(|packet| cx.send(packet));
    }

    fn receive(&mut self, cx: &mut Context<'_>, packet: &SimPacket) {
        if let Payload::Datagram(number) = packet.payload {
            self.arrived.push(number);
            cx.pause();
        }
    }
}

/// The parts of a network that RSVP works with.
pub(super) struct SimParts<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) sim: &'a mut Simulation,
    pub(super) links: &'a [LinkId],
}

/// RSVP in a simulation.
pub struct SimulatedRsvp {
    hosts: BTreeMap<usize, RsvpHost>,
    /// The flows from node to node, by the directions that they take.
    channels: BTreeMap<Vec<usize>, FlowId>,
    /// Messages on their way; lost ones stay.
    messages: BTreeMap<u64, SentMessage>,
    sent: u64,
    /// The links that routes avoid, by number.
    avoided: BTreeSet<usize>,
    restarts: u64,
    flows: ReservedFlows,
    /// The classes that each reservation has had, by the directions that they were of.
    classes: BTreeMap<usize, BTreeMap<usize, BTreeSet<String>>>,
}

impl std::fmt::Debug for SimulatedRsvp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hosts: Vec<_> = self.hosts.keys().collect();
        f.debug_struct("SimulatedRsvp")
            .field("hosts", &hosts)
            .field("sent", &self.sent)
            .finish_non_exhaustive()
    }
}

impl SimulatedRsvp {
    /// The nodes on the paths of a scenario's reservations.
    pub fn new(scenario: &Scenario, sim: &Simulation) -> Self {
        let hosts = scenario.rsvp_hosts().into_iter();
        let of = |host: usize| {
            let seed = sim.seed(&format!("rsvp {}", scenario.hosts[host].name));
            (host, RsvpHost::new(scenario, seed, host, &BTreeSet::new()))
        };
        Self {
            hosts: hosts.map(of).collect(),
            channels: BTreeMap::new(),
            messages: BTreeMap::new(),
            sent: 0,
            avoided: BTreeSet::new(),
            restarts: 0,
            flows: ReservedFlows::new(scenario),
            classes: BTreeMap::new(),
        }
    }

    /// The classes that a reservation has had, by the directions that they were of, in the order of
    /// its path.
    pub(super) fn classes(&self, scenario: &Scenario, index: usize) -> Vec<(usize, &BTreeSet<String>)> {
        let reservation = &scenario.signalling.reservations[index];
        let path = scenario.path(scenario.flows[reservation.flow].between);
        let Some(had) = self.classes.get(&index) else {
            return Vec::new();
        };
        let on_path = path.into_iter();
        on_path
            .filter_map(|direction| Some((direction, had.get(&direction)?)))
            .collect()
    }

    /// When its next turn is due, if no message arrives before.
    pub fn due(&self) -> Instant {
        let timers = self.hosts.values().filter_map(|host| host.node.poll_timeout());
        timers.chain([self.flows.due()]).min().unwrap_or(Instant::NEVER)
    }

    /// What has become of each reservation of the scenario.
    pub fn logs(&self) -> &[ReservationLog] {
        self.flows.logs()
    }

    /// The node of this host begins anew, without state.
    pub(super) fn restart(&mut self, scenario: &Scenario, sim: &Simulation, host: usize) {
        if let Some(own) = self.hosts.get_mut(&host) {
            self.restarts += 1;
            let name = format!("rsvp {} {}", scenario.hosts[host].name, self.restarts);
            *own = RsvpHost::new(scenario, sim.seed(&name), host, &self.avoided);
        }
    }

    /// Routes avoid these links from now on.
    pub(super) fn reroute(&mut self, scenario: &Scenario, now: Instant, avoided: &BTreeSet<usize>) {
        self.avoided.clone_from(avoided);
        for (&host, own) in &mut self.hosts {
            *own.node.routing_mut() = routes(scenario, host, &own.interfaces, avoided);
            own.node.routes_changed(now);
        }
    }

    /// A turn: what has arrived and what is due.
    pub(super) fn turn(&mut self, parts: &mut SimParts<'_>) {
        let now = parts.sim.now();
        for (host, number) in self.collect(parts.scenario, parts.sim) {
            let message = self.messages.remove(&number);
            if let (Some(message), Some(host)) = (message, self.hosts.get_mut(&host)) {
                // Nodes send well-formed messages only.
                let _ = host
                    .node
                    .handle_packet(now, message.interface, message.ttl, &message.bytes);
            }
        }
        for host in self.hosts.values_mut() {
            host.node.handle_timeout(now);
        }
        let mut nodes = self
            .hosts
            .iter_mut()
            .map(|(host, own)| (*host, &mut own.node))
            .collect();
        self.flows.turn(parts.scenario, now, &mut nodes);
        let mut changed = false;
        for host in self.hosts.values_mut() {
            changed |= host.install_classes(parts);
        }
        if changed {
            self.note_classes(parts.scenario);
        }
        let mut transmits = Vec::new();
        for (index, host) in &mut self.hosts {
            transmits.extend(std::iter::from_fn(|| host.node.poll_transmit()).map(|sent| (*index, sent)));
        }
        for (host, transmit) in transmits {
            self.transmit(parts, host, transmit);
        }
        if parts.scenario.loses_state() {
            self.look_for_lost(parts.scenario, now);
        }
    }

    /// Notes the classes that reservations have now.
    fn note_classes(&mut self, scenario: &Scenario) {
        for (index, reservation) in scenario.signalling.reservations.iter().enumerate() {
            for direction in scenario.path(scenario.flows[reservation.flow].between) {
                let host = self.hosts.get(&scenario.directions[direction].from);
                let classes = host.map(|host| host.classes(scenario, reservation, direction));
                let classes = classes.unwrap_or_default();
                if !classes.is_empty() {
                    let had = self.classes.entry(index).or_default();
                    had.entry(direction).or_default().extend(classes);
                }
            }
        }
    }

    /// Tells each reservation which node on its present path does not have it, if one does not.
    fn look_for_lost(&mut self, scenario: &Scenario, now: Instant) {
        for (index, reservation) in scenario.signalling.reservations.iter().enumerate() {
            let between = scenario.flows[reservation.flow].between;
            let path = scenario.path_around(between, &self.avoided).into_iter();
            let mut on_path = path.map(|direction| (direction, scenario.directions[direction].from));
            let lost = on_path.find(|(direction, host)| {
                let host = self.hosts.get(host);
                host.is_some_and(|host| !host.has(scenario, reservation, *direction))
            });
            let name = lost.map(|(_, host)| scenario.hosts[host].name.as_str());
            self.flows.missing_at(now, index, name);
        }
    }

    /// The messages that have arrived, with the hosts that they have arrived at.
    fn collect(&self, scenario: &Scenario, sim: &mut Simulation) -> Vec<(usize, u64)> {
        let mut all = Vec::new();
        for (path, channel) in &self.channels {
            let (Some(last), Some(mailbox)) =
                (path.last(), sim.agent_mut::<Mailbox>(*channel, End::Responder))
            else {
                continue;
            };
            let host = scenario.directions[*last].to;
            all.extend(mailbox.arrived.drain(..).map(|number| (host, number)));
        }
        // In the order of sending: whoever sent first arrives first on one link.
        all.sort_unstable_by_key(|(_, number)| *number);
        all
    }

    /// The directions that a message takes to the node that it is for; none if there is none.
    fn way(&self, scenario: &Scenario, from: usize, transmit: &Transmit) -> Option<Vec<usize>> {
        let mut hosts = scenario.hosts.iter();
        let destination = hosts.position(|host| host.address == transmit.destination)?;
        let own = self.hosts.get(&from)?;
        let direct = own.interfaces.get(transmit.interface as usize).copied();
        let direct =
            direct.filter(|index| !transmit.router_alert && scenario.directions[*index].to == destination);
        let mut path = match direct {
            Some(direct) => vec![direct],
            None => scenario.path_around([from, destination], &self.avoided),
        };
        let stops = |direction: &usize| {
            let to = scenario.directions[*direction].to;
            self.hosts.contains_key(&to) && (transmit.router_alert || to == destination)
        };
        // Without a node on the way it reaches a host that does not understand it.
        let hops = path.iter().position(stops)?;
        path.truncate(hops + 1);
        Some(path)
    }

    fn transmit(&mut self, parts: &mut SimParts<'_>, from: usize, transmit: Transmit) {
        const IP_HEADER: u64 = 20;
        const ROUTER_ALERT: u64 = 4;
        const ETHERNET: u64 = 14;
        let scenario = parts.scenario;
        let Some(path) = self.way(scenario, from, &transmit) else {
            return;
        };
        let Some(&last) = path.last() else { return };
        let to = scenario.directions[last].to;
        // Directions are in pairs.
        let interfaces = self.hosts.get(&to).map_or(&[][..], |host| &host.interfaces);
        let Some(interface) = interfaces.iter().position(|direction| *direction == last ^ 1) else {
            return;
        };
        let options = if transmit.router_alert { ROUTER_ALERT } else { 0 };
        let frame = ETHERNET + IP_HEADER + options + transmit.bytes.len() as u64;
        self.sent += 1;
        let message = SentMessage {
            bytes: transmit.bytes,
            interface: interface as InterfaceId,
            ttl: transmit.ttl.saturating_sub(path.len() as u8 - 1),
        };
        self.messages.insert(self.sent, message);
        let channel = self.channel(parts, [from, to], path);
        if let Some(mailbox) = parts.sim.agent_mut::<Mailbox>(channel, End::Initiator) {
            let packet = SimPacket::new(Bytes::new(frame), Payload::Datagram(self.sent));
            mailbox.to_send.push(packet);
            parts.sim.wake(channel, End::Initiator);
        }
    }

    /// The flow from one node to another by these directions.
    fn channel(&mut self, parts: &mut SimParts<'_>, ends: [usize; 2], path: Vec<usize>) -> FlowId {
        if let Some(channel) = self.channels.get(&path) {
            return *channel;
        }
        let key = signalling_key(ends.map(|host| parts.scenario.hosts[host].address));
        let agents: [Box<dyn Agent>; 2] = [Box::<Mailbox>::default(), Box::<Mailbox>::default()];
        let there: Vec<LinkId> = path.iter().map(|index| parts.links[*index]).collect();
        let back: Vec<LinkId> = path.iter().rev().map(|index| parts.links[index ^ 1]).collect();
        let channel = parts.sim.flow_along([&there, &back], key, agents);
        self.channels.insert(path, channel);
        channel
    }
}

impl RsvpHost {
    fn new(scenario: &Scenario, seed: Seed, host: usize, avoided: &BTreeSet<usize>) -> Self {
        let address = scenario.hosts[host].address;
        let interfaces: Vec<usize> = (0..scenario.directions.len())
            .filter(|&index| scenario.directions[index].from == host)
            .collect();
        let routes = routes(scenario, host, &interfaces, avoided);
        let mut admission = AdmissionState::new();
        for (id, &index) in (0..).zip(&interfaces) {
            admission.set_budget(id, budget(scenario, index));
        }
        let interface = RsvpInterface {
            addresses: vec![address],
            refresh: as_refresh(scenario.signalling.refresh),
        };
        let settings = Settings::new(vec![interface; interfaces.len()], seed);
        Self {
            node: Node::new(settings, admission, routes),
            interfaces,
        }
    }

    /// What traffic control has for the session of a reservation that leaves by this direction.
    fn installed(
        &self,
        scenario: &Scenario,
        reservation: &ReservationConfig,
        direction: usize,
    ) -> Vec<TcsbStatus> {
        let status = self.node.status_of(&session(scenario, reservation));
        let mut tcsbs = status.map_or_else(Vec::new, |status| status.tcsbs);
        tcsbs.retain(|tcsb| self.interfaces.get(tcsb.interface as usize) == Some(&direction));
        tcsbs
    }

    /// Whether traffic control has what is reserved for a flow that leaves by this direction.
    fn has(&self, scenario: &Scenario, reservation: &ReservationConfig, direction: usize) -> bool {
        let tcsbs = self.installed(scenario, reservation, direction);
        let installed: BTreeSet<_> = tcsbs.iter().flat_map(|tcsb| &tcsb.senders).collect();
        senders(scenario, reservation).all(|sender| installed.contains(&sender))
    }

    /// The names of the classes that serve a flow that leaves by this direction.
    fn classes(&self, scenario: &Scenario, reservation: &ReservationConfig, direction: usize) -> Vec<String> {
        let is_managed = |tcsb: &TcsbStatus| {
            let budget = self.node.traffic_control().budget(tcsb.interface);
            matches!(budget, Some(InterfaceBudget::Managed(_)))
        };
        let own: BTreeSet<_> = senders(scenario, reservation).collect();
        let serves = |tcsb: &TcsbStatus| tcsb.senders.iter().any(|sender| own.contains(sender));
        let tcsbs = self.installed(scenario, reservation, direction).into_iter();
        let tcsbs = tcsbs.filter(|tcsb| is_managed(tcsb) && serves(tcsb));
        tcsbs.map(|tcsb| class_name(tcsb.rhandle.0)).collect()
    }

    /// Installs the classes of changed reservations; returns whether there were any.
    fn install_classes(&mut self, parts: &mut SimParts<'_>) -> bool {
        let mut changed = false;
        for id in self.node.traffic_control_mut().take_changed() {
            let layout: Option<Result<ReservedLayout, Vec<Problem>>> =
                self.node.traffic_control().lay_out(id);
            // Admitted reservations fit the tree; if they did not, the classes would stay as
            // they are, as they do live.
            if let (Some(Ok(layout)), Some(&index)) = (layout, self.interfaces.get(id as usize)) {
                parts.sim.adopt(parts.links[index], layout.plan, layout.filters);
                changed = true;
            }
        }
        changed
    }
}

/// The routes of a host with these interfaces to all that RSVP concerns, around these links.
fn routes(scenario: &Scenario, host: usize, interfaces: &[usize], avoided: &BTreeSet<usize>) -> HostRoutes {
    let mut routes = HostRoutes {
        own: Some(scenario.hosts[host].address),
        through: BTreeMap::new(),
    };
    for other in scenario.rsvp_hosts().into_iter().filter(|other| *other != host) {
        let first = scenario.path_around([host, other], avoided).first().copied();
        let interface = first.and_then(|first| interfaces.iter().position(|&index| index == first));
        if let Some(interface) = interface {
            let address = scenario.hosts[other].address;
            routes.through.insert(address, interface as InterfaceId);
        }
    }
    routes
}

fn as_refresh(period: Duration) -> Refresh {
    Refresh::millis(u32::try_from(period.nanos() / 1_000_000).unwrap_or(u32::MAX))
}

/// What may be reserved on the interface of this direction.
fn budget(scenario: &Scenario, index: usize) -> InterfaceBudget {
    let direction = &scenario.directions[index];
    let mtu = u32::try_from(direction.settings.mtu.get()).unwrap_or(u32::MAX);
    let managed = direction.policy.as_ref().and_then(|policy| {
        let reserve = policy.reserve.as_ref()?;
        Some(ManagedInterface::new(
            reserve.room.clone(),
            &reserve.settings,
            policy.plan.clone(),
            policy.filters.to_vec(),
            policy.settings.max_frame,
        ))
    });
    managed.map_or(InterfaceBudget::Unlimited { mtu }, |managed| {
        InterfaceBudget::Managed(Box::new(managed))
    })
}
