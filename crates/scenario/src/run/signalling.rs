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
//! not speak RSVP forward it. Nodes have one address, that of the host, on all their interfaces.
//! INTEGRITY and refresh reduction are left out.

use super::host_routes::{HostRoutes, SimNode};
use super::reserved_flows::{ReservationLog, ReservedFlows};
use crate::Scenario;
use crate::language::signalling_key;
use engine::reserved::ReservedLayout;
use engine::settings::Problem;
use engine::units::{Bytes, Duration, Instant};
use rsvp::admission::{AdmissionState, InterfaceBudget, ManagedInterface};
use rsvp::node::{Node, RsvpInterface, Settings, Transmit};
use rsvp::traffic_control::InterfaceId;
use rsvp::wire::Refresh;
use sim::agent::{Agent, Context};
use sim::packet::{Payload, SimPacket};
use sim::simulation::{End, FlowId, LinkId, NoRoute, NodeId, Simulation};
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

/// An end of the packets between two nodes: it keeps what has arrived, and sends what it is given.
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
    pub(super) nodes: &'a [NodeId],
    pub(super) links: &'a [LinkId],
}

/// RSVP in a simulation.
pub struct SimulatedRsvp {
    hosts: BTreeMap<usize, RsvpHost>,
    /// The flows between pairs of nodes, the lower index first.
    channels: BTreeMap<[usize; 2], FlowId>,
    /// Messages on their way; lost ones stay.
    messages: BTreeMap<u64, SentMessage>,
    sent: u64,
    flows: ReservedFlows,
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
        let taking_part = scenario.rsvp_hosts();
        let of = |&host: &usize| (host, RsvpHost::new(scenario, sim, host, &taking_part));
        Self {
            hosts: taking_part.iter().map(of).collect(),
            channels: BTreeMap::new(),
            messages: BTreeMap::new(),
            sent: 0,
            flows: ReservedFlows::new(scenario),
        }
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

    /// A turn: what has arrived and what is due.
    ///
    /// # Errors
    /// [`NoRoute`] if the links do not lead back from a neighbour.
    pub(super) fn turn(&mut self, parts: &mut SimParts<'_>) -> Result<(), NoRoute> {
        let now = parts.sim.now();
        for (host, number) in self.collect(parts.sim) {
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
        for host in self.hosts.values_mut() {
            host.install_classes(parts);
        }
        let mut transmits = Vec::new();
        for (index, host) in &mut self.hosts {
            transmits.extend(std::iter::from_fn(|| host.node.poll_transmit()).map(|sent| (*index, sent)));
        }
        transmits
            .into_iter()
            .try_for_each(|(host, transmit)| self.transmit(parts, host, transmit))
    }

    /// The messages that have arrived, with the hosts that they have arrived at.
    fn collect(&self, sim: &mut Simulation) -> Vec<(usize, u64)> {
        let mut all = Vec::new();
        for ([low, high], channel) in &self.channels {
            for (host, end) in [(low, End::Initiator), (high, End::Responder)] {
                if let Some(mailbox) = sim.agent_mut::<Mailbox>(*channel, end) {
                    all.extend(mailbox.arrived.drain(..).map(|number| (*host, number)));
                }
            }
        }
        // In the order of sending: whoever sent first arrives first on one link.
        all.sort_unstable_by_key(|(_, number)| *number);
        all
    }

    fn transmit(&mut self, parts: &mut SimParts<'_>, from: usize, transmit: Transmit) -> Result<(), NoRoute> {
        const IP_HEADER: u64 = 20;
        const ROUTER_ALERT: u64 = 4;
        const ETHERNET: u64 = 14;
        let scenario = parts.scenario;
        let Some(destination) = scenario
            .hosts
            .iter()
            .position(|host| host.address == transmit.destination)
        else {
            return Ok(());
        };
        let path = scenario.path([from, destination]);
        let stops = |direction: &usize| {
            let to = scenario.directions[*direction].to;
            self.hosts.contains_key(&to) && (transmit.router_alert || to == destination)
        };
        // Without a node on the way it reaches a host that does not understand it.
        let Some(hops) = path.iter().position(stops) else {
            return Ok(());
        };
        let last = path[hops];
        let to = scenario.directions[last].to;
        // Directions are in pairs.
        let interfaces = self.hosts.get(&to).map_or(&[][..], |host| &host.interfaces);
        let Some(interface) = interfaces.iter().position(|direction| *direction == last ^ 1) else {
            return Ok(());
        };
        let options = if transmit.router_alert { ROUTER_ALERT } else { 0 };
        let frame = ETHERNET + IP_HEADER + options + transmit.bytes.len() as u64;
        self.sent += 1;
        let message = SentMessage {
            bytes: transmit.bytes,
            interface: interface as InterfaceId,
            ttl: transmit.ttl.saturating_sub(hops as u8),
        };
        self.messages.insert(self.sent, message);
        let channel = self.channel(parts, [from, to])?;
        let end = if from < to { End::Initiator } else { End::Responder };
        if let Some(mailbox) = parts.sim.agent_mut::<Mailbox>(channel, end) {
            let packet = SimPacket::new(Bytes::new(frame), Payload::Datagram(self.sent));
            mailbox.to_send.push(packet);
            parts.sim.wake(channel, end);
        }
        Ok(())
    }

    /// The flow between two nodes.
    fn channel(&mut self, parts: &mut SimParts<'_>, ends: [usize; 2]) -> Result<FlowId, NoRoute> {
        let pair = [ends[0].min(ends[1]), ends[0].max(ends[1])];
        if let Some(channel) = self.channels.get(&pair) {
            return Ok(*channel);
        }
        let key = signalling_key(pair.map(|host| parts.scenario.hosts[host].address));
        let agents: [Box<dyn Agent>; 2] = [Box::<Mailbox>::default(), Box::<Mailbox>::default()];
        let nodes = pair.map(|host| parts.nodes[host]);
        let channel = parts.sim.flow(nodes, key, Instant::NEVER, agents)?;
        self.channels.insert(pair, channel);
        Ok(channel)
    }
}

impl RsvpHost {
    fn new(scenario: &Scenario, sim: &Simulation, host: usize, taking_part: &BTreeSet<usize>) -> Self {
        let address = scenario.hosts[host].address;
        let interfaces: Vec<usize> = (0..scenario.directions.len())
            .filter(|&index| scenario.directions[index].from == host)
            .collect();
        let mut routes = HostRoutes {
            own: Some(address),
            through: BTreeMap::new(),
        };
        for &other in taking_part.iter().filter(|&&other| other != host) {
            let first = scenario.path([host, other]).first().copied();
            let interface = first.and_then(|first| interfaces.iter().position(|&index| index == first));
            if let Some(interface) = interface {
                routes
                    .through
                    .insert(scenario.hosts[other].address, interface as InterfaceId);
            }
        }
        let mut admission = AdmissionState::new();
        for (id, &index) in (0..).zip(&interfaces) {
            admission.set_budget(id, budget(scenario, index));
        }
        let seed = sim.seed(&format!("rsvp {}", scenario.hosts[host].name));
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

    /// Installs the classes of changed reservations.
    fn install_classes(&mut self, parts: &mut SimParts<'_>) {
        for id in self.node.traffic_control_mut().take_changed() {
            let layout: Option<Result<ReservedLayout, Vec<Problem>>> =
                self.node.traffic_control().lay_out(id);
            // Admitted reservations fit the tree; if they did not, the classes would stay as
            // they are, as they do live.
            if let (Some(Ok(layout)), Some(&index)) = (layout, self.interfaces.get(id as usize)) {
                parts.sim.adopt(parts.links[index], layout.plan, layout.filters);
            }
        }
    }
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
