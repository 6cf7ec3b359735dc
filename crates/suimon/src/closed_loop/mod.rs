//! A capture with a closed loop: its TCP connections are made again as senders that answer to
//! delays and losses, in the simulator, before the policy's link; all else arrives as captured.
//!
//! ```text
//!  senders ── policy's link ──┬── a round trip of the one ── receivers
//!     ↑                       └── of the other ──────────── receivers
//!     └──────────────── acknowledgments, at once ───────────────┘
//! ```
//!
//! What is estimated of a sender is in [`flows`]; what is assumed: its congestion control, the
//! receiver's buffer of 6 MiB, and that nothing but the policy's link limits it.

mod flows;

use control::policy::InterfacePolicy;
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
pub use flows::Flows;
use flows::{Flow, Writes};
use gateway::what_if::ClassFigures;
use measure::numbers;
use serde_json::{Value, json};
use sim::link::{Completion, Driver, LinkQueue, LinkSpec, PolicyQueue};
use sim::meter::{MeterRow, MeterTally};
use sim::simulation::{End, FlowId, LinkId, NodeId, Simulation};
use sim::sources::{DatagramSource, Datagrams, Listener, Replay};
use sim::tcp::application::{Application, StreamProgress, Written};
use sim::tcp::control::ControlKind;
use sim::tcp::{Settings, pair_with};
use std::collections::HashMap;

/// The round trip where no connection tells one.
const UNKNOWN: Duration = Duration::from_millis(40);
/// Of all but the policy's link.
const FAST: Bandwidth = Bandwidth::gbit(400);
/// Round trips that differ by less are one.
const STEP: u64 = 100_000;
/// The longest IP packet of a segment that super-frames hide.
const USUAL_PACKET: u64 = 1_500;
const ETHERNET: u64 = 14;

/// What is known of the senders, and what is assumed.
#[derive(Clone, Debug)]
pub struct Senders {
    count: u64,
    /// Of these the round trip is not known.
    without_round_trip: u64,
    /// These write on, since the capture ended while they wrote.
    endless: u64,
    /// Packets that arrive as they were captured.
    open: u64,
    least: Duration,
    most: Duration,
    control: &'static ControlKind,
}

impl Senders {
    /// Of these flows, with this congestion control.
    pub fn of(flows: &Flows, control: &'static ControlKind) -> Self {
        let mut all = Self {
            count: 0,
            without_round_trip: 0,
            endless: 0,
            open: 0,
            least: Duration::from_nanos(u64::MAX),
            most: Duration::ZERO,
            control,
        };
        let trips = RoundTrips::of(flows);
        for flow in &flows.all {
            if !flow.is_sender() {
                all.open += flow.packets.len() as u64;
                continue;
            }
            let (trip, known) = trips.of_flow(flow);
            all.count += 1;
            all.without_round_trip += u64::from(!known);
            all.endless += u64::from(flow.sender.application(flows.end, trip).1);
            (all.least, all.most) = (all.least.min(trip), all.most.max(trip));
        }
        all
    }

    /// In words.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![match self.count {
            0 => {
                "Closed loop: no TCP connection in the capture sends data this way; all arrives as captured."
                    .into()
            }
            count => format!(
                "Closed loop: {} TCP senders answer to the policy, over round trips of {} to {} (estimated from their \
                 handshakes); {} packets arrive as captured.",
                numbers::count(count),
                numbers::time(self.least.nanos()),
                numbers::time(self.most.nanos()),
                numbers::count(self.open)
            ),
        }];
        if self.without_round_trip > 0 {
            lines.push(format!(
                "{} of them began before the capture, and none with the same peer in it: the median of the others, or {}, is \
                 assumed for their round trips.",
                numbers::count(self.without_round_trip),
                numbers::time(UNKNOWN.nanos())
            ));
        }
        if self.endless > 0 {
            lines.push(format!(
                "{} were cut off by the end of the capture, and write on.",
                numbers::count(self.endless)
            ));
        }
        lines.push(format!(
            "Assumed: congestion control {}, a receive buffer of 6 MiB, and no other bottleneck. What applications write \
             comes at its captured times.",
            self.control.name
        ));
        lines
    }

    /// As JSON, times in nanoseconds.
    pub fn to_json(&self) -> Value {
        json!({
            "tcp_senders": self.count,
            "packets_as_captured": self.open,
            "round_trip_ns": (self.count > 0).then(|| [self.least.nanos(), self.most.nanos()]),
            "without_round_trip": self.without_round_trip,
            "endless": self.endless,
            "congestion_control": self.control.name,
        })
    }
}

/// Round trips by the peer.
struct RoundTrips {
    by_peer: HashMap<u128, Duration>,
    median: Duration,
}

impl RoundTrips {
    fn of(flows: &Flows) -> Self {
        let by_peer = flows.round_trips();
        let mut all: Vec<Duration> = by_peer.values().copied().collect();
        all.sort_unstable();
        let median = all.get(all.len() / 2).copied().unwrap_or(UNKNOWN);
        Self { by_peer, median }
    }

    /// That of a flow, and whether it is known.
    fn of_flow(&self, flow: &Flow) -> (Duration, bool) {
        let known = self.by_peer.get(&flow.key.destination);
        (known.copied().unwrap_or(self.median), known.is_some())
    }
}

/// Writes what was captured, when it was.
#[derive(Debug)]
struct AsCaptured {
    begin: Instant,
    writes: Writes,
    written: u64,
    next: usize,
}

impl Application for AsCaptured {
    fn write(&mut self, progress: &StreamProgress) -> Written {
        let begin = self.begin;
        while let Some(&(after, bytes)) = self.writes.get(self.next) {
            if begin + after > progress.now {
                break;
            }
            (self.written, self.next) = (bytes, self.next + 1);
        }
        let next = self.writes.get(self.next);
        let closed = next.is_none() && self.written != u64::MAX;
        let ask_again = next.map_or(Instant::NEVER, |next| begin + next.0);
        Written::until(ask_again, self.written.max(progress.sent), closed)
    }
}

/// The network around a policy's link.
struct Network {
    sim: Simulation,
    far: NodeId,
    link: LinkId,
    back: LinkId,
    /// By the length of the round trip.
    trips: HashMap<u64, LinkId>,
}

impl Network {
    fn new(interface: &InterfacePolicy, seed: Seed, span: Duration) -> Self {
        let mut sim = Simulation::new(seed);
        let (near, far) = (sim.node("near"), sim.node("far"));
        let facts = interface.link();
        let queue = LinkQueue::Policy(Box::new(PolicyQueue {
            plan: interface.plan.clone(),
            filters: interface.filters.to_vec(),
            driver: Driver {
                completion: Completion::Estimated,
                ..Driver::default()
            },
        }));
        let spec = LinkSpec::new(facts.bandwidth, Duration::ZERO).framing(facts.framing);
        let link = sim.link(near, far, spec.queue(queue));
        sim.watch(link, span.max(Duration::from_nanos(1)));
        let back = sim.link(far, near, LinkSpec::new(FAST, Duration::ZERO));
        Self {
            sim,
            far,
            link,
            back,
            trips: HashMap::new(),
        }
    }

    /// The way over a round trip of this length behind the policy's link.
    fn trip(&mut self, trip: Duration) -> LinkId {
        let steps = trip.nanos() / STEP;
        let (sim, far) = (&mut self.sim, self.far);
        *self.trips.entry(steps).or_insert_with(|| {
            let end = sim.node(&format!("peer {steps}"));
            sim.link(far, end, LinkSpec::new(FAST, trip))
        })
    }

    fn add(
        &mut self,
        flow: &Flow,
        trips: &RoundTrips,
        end: Instant,
        control: &'static ControlKind,
    ) -> FlowId {
        if !flow.is_sender() {
            let datagrams = Datagrams::new(Bytes::ZERO, Seed(0)).ecn(flow.ecn);
            let source = DatagramSource::new(datagrams, Replay::new(flow.packets.clone().into()));
            let way = [self.link];
            return self.sim.flow_along(
                [&way, &[self.back]],
                flow.key,
                [Box::new(source), Box::new(Listener::default())],
            );
        }
        let (trip, _) = trips.of_flow(flow);
        let (writes, _) = flow.sender.application(end, trip);
        let packet = u64::from(flow.sender.frame).saturating_sub(ETHERNET);
        let settings = Settings {
            control,
            ecn: flow.ecn != engine::packet::Ecn::NotEct,
            mtu: Bytes::new(packet.clamp(576, USUAL_PACKET)),
            ..Settings::default()
        };
        let application = AsCaptured {
            begin: flow.begin,
            writes,
            written: 0,
            next: 0,
        };
        let way = [self.link, self.trip(trip)];
        let ends = pair_with(&settings, Box::new(application));
        self.sim.flow_along([&way, &[self.back]], flow.key, ends)
    }
}

/// What each class gets of the link of this policy, with senders made again from these flows, until
/// the capture ends.
pub fn run(
    flows: &Flows,
    interface: &InterfacePolicy,
    control: &'static ControlKind,
    seed: Seed,
) -> Vec<ClassFigures> {
    let span = flows.end.since(Instant::START);
    let mut network = Network::new(interface, seed, span);
    let trips = RoundTrips::of(flows);
    for flow in &flows.all {
        let id = network.add(flow, &trips, flows.end, control);
        network.sim.run_until(flow.begin);
        network.sim.wake(id, End::Initiator);
    }
    network.sim.run_until(flows.end);
    by_class(&network.sim, network.link, interface, span)
}

/// What the classes of a policy got of its link, which is metered.
fn by_class(
    sim: &Simulation,
    link: LinkId,
    interface: &InterfacePolicy,
    span: Duration,
) -> Vec<ClassFigures> {
    let Some(meter) = sim.meter(link) else {
        return Vec::new();
    };
    let classes = &interface.plan.classes;
    let of = |(number, (tally, row)): (usize, (&MeterTally, &MeterRow))| {
        let is_leaf = classes.get(number).is_none_or(|class| class.leaf);
        let passed = tally.sent.packets + tally.dropped.packets > 0;
        let name = match row.name.as_str() {
            "" => "all".to_owned(),
            name => name.to_owned(),
        };
        let delays = &tally.queueing_delays;
        (is_leaf && passed)
            .then(|| ClassFigures::counted(name, tally.sent, tally.dropped.packets, delays, span))
    };
    let tallies = meter.whole().classes().iter().zip(meter.rows());
    tallies.enumerate().filter_map(of).collect()
}

#[cfg(test)]
mod tests;
