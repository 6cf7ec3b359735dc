//! Flows that one of their ends runs under `nine`, in a simulation: at each such host the law of
//! `host` looks at the counters of the interface and of the connections. It clamps the windows of
//! what arrives, and paces what leaves, as it does on borrowed sockets.
//!
//! The flows of one interface are members of one law for each direction, each with all its copies;
//! other hosts' are other traffic, as is everything else. Where no rate of the link is stated, the
//! law finds it.
//!
//! What leaves is counted as it enters the interface's queue, which may stand for the line's
//! buffer: in the kernel's own queue TCP has hardly anything. As with the leader of the nines, both
//! laws look at the same times and at all connections, since the ACKs of one direction are members'
//! traffic in the other. A host with members of one direction alone has no law for the other, which
//! would limit nothing.
//!
//! Left out: the first window of a connection that begins while others are limited, and bursts of
//! two segments, which the kernel sends at slow paces.

use crate::Scenario;
use crate::sources::NineSettings;
use engine::units::{Bandwidth, Bytes, Instant};
use host::law::{INTERVAL, Law, Scavenger};
use host::order::payload_rate;
use host::tick::on_the_link;
use host::{
    Bottleneck, ConnectionId, DataDirection, FlowLimit, FlowSample, LawInput, LimitOrder, LinkCounters,
    Member, MemberId,
};
use sim::simulation::{End, FlowId, LinkId, Simulation};
use sim::tcp::{self, TcpReceiver, TcpSender, WINDOW_SCALE};
use std::collections::BTreeMap;

/// The smallest clamp of common kernels.
const LEAST: Bytes = Bytes::new(1_152);

/// The window until the law's first look at a connection, since what was advertised is not taken
/// back: what Linux advertises at first, whatever the buffer.
const FIRST: Bytes = Bytes::new(65_535);

/// The nine of one interface.
struct NineHost {
    /// The link that ends there, and the one back.
    link: LinkId,
    back: LinkId,
    /// One for each direction that has members.
    laws: Vec<InterfaceLaw>,
    members: Vec<Member>,
    connections: Vec<Connection>,
    due: Instant,
}

/// The law of one direction.
struct InterfaceLaw {
    direction: DataDirection,
    law: Scavenger,
    bottleneck: Bottleneck,
}

/// A connection of a member.
#[derive(Clone, Copy)]
struct Connection {
    flow: FlowId,
    member: MemberId,
    direction: DataDirection,
    mss: Bytes,
}

/// The nines of a scenario.
#[derive(Default)]
pub(super) struct SimulatedNines(Vec<NineHost>);

impl std::fmt::Debug for SimulatedNines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SimulatedNines").field(&self.0.len()).finish()
    }
}

impl SimulatedNines {
    /// Those of this scenario, whose links and copies of flows are these.
    pub(super) fn new(
        scenario: &Scenario,
        sim: &mut Simulation,
        links: &[LinkId],
        flows: &[Vec<FlowId>],
    ) -> Self {
        let mut by_link: BTreeMap<usize, NineHost> = BTreeMap::new();
        for ((flow, copies), number) in scenario.flows.iter().zip(flows).zip(0..) {
            let Some(nine) = flow.source.nine() else { continue };
            let Some(link) = nine.link(&scenario.path(flow.between)) else {
                continue;
            };
            let inward = match nine.direction {
                DataDirection::Download => link,
                DataDirection::Upload => link ^ 1,
            };
            let host = by_link
                .entry(inward)
                .or_insert_with(|| NineHost::new(links[inward], links[inward ^ 1]));
            let connection = tcp::Settings {
                mtu: flow.mtu,
                ..tcp::Settings::default()
            };
            host.add(nine, MemberId(number), copies, connection.mss());
            if nine.direction == DataDirection::Download {
                copies.iter().for_each(|copy| clamp(sim, *copy, FIRST));
            }
        }
        by_link.values().for_each(|host| sim.count_offered(host.back));
        Self(by_link.into_values().collect())
    }

    /// When a law looks next.
    pub(super) fn due(&self) -> Instant {
        let due = self.0.iter().map(|host| host.due);
        due.min().unwrap_or(Instant::NEVER)
    }

    /// The laws whose time has come look, and set windows and paces.
    pub(super) fn turn(&mut self, sim: &mut Simulation) {
        let now = sim.now();
        for host in self.0.iter_mut().filter(|host| host.due <= now) {
            host.turn(sim);
            let intervals = host.laws.iter().map(|of| of.law.interval());
            host.due = now + intervals.min().unwrap_or(INTERVAL);
        }
    }
}

impl NineHost {
    /// That of the interface where this link ends; without members.
    fn new(link: LinkId, back: LinkId) -> Self {
        Self {
            link,
            back,
            laws: Vec::new(),
            members: Vec::new(),
            connections: Vec::new(),
            due: Instant::START + INTERVAL,
        }
    }

    /// Adds a member with these connections.
    fn add(&mut self, nine: NineSettings, member: MemberId, flows: &[FlowId], mss: Bytes) {
        let direction = nine.direction;
        if self.laws.iter().all(|of| of.direction != direction) {
            self.laws.push(InterfaceLaw {
                direction,
                law: Scavenger::new(direction),
                bottleneck: Bottleneck::Auto,
            });
        }
        if let Some(rate) = nine.bottlenet {
            let of_direction = self.laws.iter_mut().filter(|of| of.direction == direction);
            of_direction.for_each(|of| of.bottleneck = Bottleneck::Stated(rate));
        }
        self.members.push(Member {
            weight: nine.weight,
            cap: nine.cap,
            floor: nine.floor,
            ..Member::new(member)
        });
        self.connections.extend(flows.iter().map(|&flow| Connection {
            flow,
            member,
            direction,
            mss,
        }));
    }

    fn turn(&mut self, sim: &mut Simulation) {
        let link = LinkCounters {
            received: sim.carried(self.link),
            sent: sim.offered(self.back),
        };
        let connections = self.connections.iter();
        let flows: Vec<FlowSample> = connections.filter_map(|one| one.sample(sim)).collect();
        let mut orders = Vec::new();
        for of in &mut self.laws {
            orders.extend(of.law.tick(&LawInput {
                now: sim.now(),
                link,
                bottleneck: of.bottleneck,
                members: &self.members,
                flows: &flows,
            }));
        }
        for order in orders {
            let mut connections = self.connections.iter();
            if let Some(connection) = connections.find(|one| one.id() == order.flow) {
                connection.carry_out(sim, &order);
            }
        }
    }
}

impl Connection {
    fn id(&self) -> ConnectionId {
        ConnectionId(self.flow.index() as u64)
    }

    /// What the host knows of it; none before it is open, and after its end.
    fn sample(&self, sim: &Simulation) -> Option<FlowSample> {
        match self.direction {
            DataDirection::Download => self.received(sim),
            DataDirection::Upload => self.sent(sim),
        }
    }

    fn received(&self, sim: &Simulation) -> Option<FlowSample> {
        let receiver = sim.agent::<TcpReceiver>(self.flow, End::Responder)?;
        let is_open = receiver.segments > 0 && receiver.finished.is_none();
        is_open.then(|| FlowSample {
            id: self.id(),
            member: self.member,
            at: sim.now(),
            received: receiver.frames,
            sent: on_the_link(receiver.acks, Bytes::ZERO),
            unacknowledged: Bytes::ZERO,
            rtt: receiver.round_trip.map(|[smoothed, _]| smoothed),
            min_rtt: receiver.round_trip.map(|[_, least]| least),
            mss: self.mss,
            scale: WINDOW_SCALE,
            window: receiver.window(),
            losses: receiver.beyond_holes,
        })
    }

    fn sent(&self, sim: &Simulation) -> Option<FlowSample> {
        let sender = sim.agent::<TcpSender>(self.flow, End::Initiator)?;
        let sent = sender.statistics;
        let unacknowledged = sender.unacknowledged();
        sender.is_open().then(|| FlowSample {
            id: self.id(),
            member: self.member,
            at: sim.now(),
            received: on_the_link(sent.acks, Bytes::ZERO),
            sent: on_the_link(sent.segments, Bytes::new(sent.bytes)),
            unacknowledged: on_the_link(
                unacknowledged.div_ceil(self.mss.get()),
                Bytes::new(unacknowledged),
            ),
            rtt: sender.rtt().srtt(),
            min_rtt: sender.rtt().srtt().map(|_| sender.rtt().min_rtt()),
            mss: self.mss,
            scale: WINDOW_SCALE,
            // Nothing comes back that it would limit.
            window: FIRST,
            losses: sent.retransmissions,
        })
    }

    /// Limits it in its own direction; in the other one it has nothing but ACKs.
    fn carry_out(&self, sim: &mut Simulation, order: &LimitOrder) {
        if order.direction != self.direction {
            return;
        }
        match (self.direction, order.limit) {
            (DataDirection::Download, FlowLimit::Window(bytes)) => clamp(sim, self.flow, bytes.max(LEAST)),
            (DataDirection::Download, FlowLimit::Parked) => clamp(sim, self.flow, LEAST),
            (DataDirection::Upload, FlowLimit::Pace(rate)) => self.pace(sim, Some(rate)),
            (DataDirection::Upload, FlowLimit::Free) => self.pace(sim, None),
            // A download is free before the law's first measurement alone, and never paced; an
            // upload has neither a window nor turns.
            _ => {}
        }
    }

    /// Paces its frames at this rate at most.
    fn pace(&self, sim: &mut Simulation, frames: Option<Bandwidth>) {
        let payload = |rate| payload_rate(rate, self.mss, on_the_link(1, self.mss));
        let limit = frames.map(|rate| Bandwidth::bits_per_sec(payload(rate).saturating_mul(8)));
        if let Some(sender) = sim.agent_mut::<TcpSender>(self.flow, End::Initiator) {
            sender.set_pace_limit(limit);
        }
    }
}

fn clamp(sim: &mut Simulation, flow: FlowId, window: Bytes) {
    if let Some(receiver) = sim.agent_mut::<TcpReceiver>(flow, End::Responder) {
        receiver.set_clamp(Some(window));
    }
}
