//! Flows that their receivers run under `nine`, in a simulation: at each such host the law of
//! `host` looks at the counters of the interface and of the connections, and clamps their windows,
//! as it does on borrowed sockets.
//!
//! The flows of one interface are members of one law, each with all its copies; other hosts' are
//! other traffic, as is everything else. Where no rate of the link is stated, the law finds it.
//! Left out: uploads under nine, and the first window of a connection that begins while others are
//! limited.

use crate::Scenario;
use engine::units::{Bytes, Instant};
use host::law::{Law, Scavenger};
use host::{
    Bottleneck, ConnectionId, DataDirection, FlowLimit, FlowSample, LawInput, LimitOrder, LinkCounters,
    Member, MemberId,
};
use sim::simulation::{End, FlowId, LinkId, Simulation};
use sim::tcp::{self, TcpReceiver, WINDOW_SCALE};
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
    law: Scavenger,
    bottleneck: Bottleneck,
    members: Vec<Member>,
    /// The connections, each with its member.
    connections: Vec<(FlowId, MemberId, Bytes)>,
    due: Instant,
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
            let (Some(nine), Some(&last)) = (flow.source.nine(), scenario.path(flow.between).last()) else {
                continue;
            };
            let host = by_link.entry(last).or_insert_with(|| {
                let law = Scavenger::new(DataDirection::Download);
                NineHost {
                    link: links[last],
                    back: links[last ^ 1],
                    due: Instant::START + law.interval(),
                    law,
                    bottleneck: Bottleneck::Auto,
                    members: Vec::new(),
                    connections: Vec::new(),
                }
            });
            if let Some(rate) = nine.bottlenet {
                host.bottleneck = Bottleneck::Stated(rate);
            }
            let id = MemberId(number);
            host.members.push(Member {
                weight: nine.weight,
                cap: nine.cap,
                floor: nine.floor,
                ..Member::new(id)
            });
            let connection = tcp::Settings {
                mtu: flow.mtu,
                ..tcp::Settings::default()
            };
            let mss = connection.mss();
            for copy in copies {
                clamp(sim, *copy, FIRST);
            }
            host.connections
                .extend(copies.iter().map(|copy| (*copy, id, mss)));
        }
        Self(by_link.into_values().collect())
    }

    /// When a law looks next.
    pub(super) fn due(&self) -> Instant {
        let due = self.0.iter().map(|host| host.due);
        due.min().unwrap_or(Instant::NEVER)
    }

    /// The laws whose time has come look, and set windows.
    pub(super) fn turn(&mut self, sim: &mut Simulation) {
        let now = sim.now();
        for host in self.0.iter_mut().filter(|host| host.due <= now) {
            host.turn(sim);
            host.due = now + host.law.interval();
        }
    }
}

impl NineHost {
    fn turn(&mut self, sim: &mut Simulation) {
        let link = LinkCounters {
            received: sim.carried(self.link),
            sent: sim.carried(self.back),
        };
        let flows: Vec<FlowSample> = self
            .connections
            .iter()
            .filter_map(|connection| sample(sim, *connection))
            .collect();
        let orders = self.law.tick(&LawInput {
            now: sim.now(),
            link,
            bottleneck: self.bottleneck,
            members: &self.members,
            flows: &flows,
        });
        for order in orders {
            self.carry_out(sim, &order);
        }
    }

    fn carry_out(&self, sim: &mut Simulation, order: &LimitOrder) {
        let mut connections = self.connections.iter();
        let Some((flow, ..)) = connections.find(|(flow, ..)| id(*flow) == order.flow) else {
            return;
        };
        let window = match order.limit {
            FlowLimit::Window(bytes) => bytes.max(LEAST),
            FlowLimit::Parked => LEAST,
            // A download is free before the law's first measurement alone, and never paced.
            FlowLimit::Free | FlowLimit::Pace(_) => return,
        };
        clamp(sim, *flow, window);
    }
}

fn clamp(sim: &mut Simulation, flow: FlowId, window: Bytes) {
    if let Some(receiver) = sim.agent_mut::<TcpReceiver>(flow, End::Responder) {
        receiver.set_clamp(Some(window));
    }
}

fn id(flow: FlowId) -> ConnectionId {
    ConnectionId(flow.index() as u64)
}

/// What the host knows of a connection; none before it is open, and after its end.
fn sample(sim: &Simulation, (flow, member, mss): (FlowId, MemberId, Bytes)) -> Option<FlowSample> {
    let receiver = sim.agent::<TcpReceiver>(flow, End::Responder)?;
    let is_open = receiver.segments > 0 && receiver.finished.is_none();
    is_open.then(|| FlowSample {
        id: id(flow),
        member,
        at: sim.now(),
        received: receiver.frames,
        sent: Bytes::ZERO,
        unacknowledged: Bytes::ZERO,
        rtt: receiver.round_trip.map(|[smoothed, _]| smoothed),
        min_rtt: receiver.round_trip.map(|[_, least]| least),
        mss,
        scale: WINDOW_SCALE,
        window: receiver.window(),
        losses: receiver.beyond_holes,
    })
}
