//! The measurements of Kusaka and Sugano, simulated: the policy, the flows through the node, and
//! what their receivers see.

use crate::Error;
use crate::delay_tables::{BurstFlow, FLOWS, FRAME_TIME, Measurement};
use crate::testbed::{behind, interface};
use control::policy::InterfacePolicy;
use engine::framing::Framing;
use engine::header::{Family, FlowKey};
use engine::inspect::Value;
use engine::packet::ClassId;
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use sim::agent::{Agent, Context};
use sim::link::{Driver, LinkQueue, LinkSpec, Loss, PolicyQueue};
use sim::meter::{Delivered, gauge};
use sim::packet::{Payload, SimPacket};
use sim::simulation::{End, FlowId, Simulation};
use sim::sources::{Burst, DatagramSource};

/// The length without FCS.
const FRAME: Bytes = Bytes::new(1_514);
const FCS: i16 = 4;
/// The length as the policy counts it.
const COUNTED: u64 = 1_518;
/// The link's bandwidth, in bit/s.
const LINK: u64 = 10_000_000;
/// The excess of 0.37 % fills a queue in this time.
const SETTLE: Duration = Duration::from_secs(60);
/// The step of rates over time.
const STEP: Duration = Duration::from_secs(1);
/// Bytes of IP in a frame.
const IP: u64 = 1_500;
/// The packets measured of a flow.
pub const PACKETS: usize = 10_000;

/// The rule by which delays are guaranteed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdmissionRule {
    /// The paper's, with its delays.
    Paper,
    /// The engine's, with the least delays that it can guarantee behind a ring of so many packets.
    Sound(u32),
}

impl Measurement {
    /// The text of its policy.
    pub fn policy(&self, rule: AdmissionRule) -> String {
        let head = "version = 1\n[interface.c]\nbandwidth = \"10 Mbit/s\"\noverhead = \"4 B\"\nmax_frame = \"1514 B\"\n";
        let discipline = match (self.plain, rule) {
            ("", AdmissionRule::Paper) => "{ kind = \"ips\", rule = \"paper\", over = \"cbq\" }",
            ("", AdmissionRule::Sound(_)) => "{ kind = \"ips\", rule = \"sound\", over = \"cbq\" }",
            ("fifo", _) => return format!("{head}discipline = {{ kind = \"fifo\", limit = 50 }}\n"),
            _ => "\"cbq\"",
        };
        let class = |(index, flow): (usize, &BurstFlow)| {
            let settings = match (self.delay(index, rule), self.plain) {
                (Some(millis), _) => format!(
                    "rate = \"{} kbit/s\"\nburst = \"{} B\"\ndelay = \"{millis} ms\"\njitter = \"0 s\"\n",
                    flow.rate,
                    flow.frames * COUNTED
                ),
                (None, "cbq") => format!("rate = \"{} kbit/s\"\n", flow.rate),
                _ => String::new(),
            };
            let number = index + 1;
            format!(
                "[[interface.c.class]]\nname = \"flow-{number}\"\ndefault = {}\n{settings}discipline = \"fifo\"\n\
                 [[interface.c.filter]]\nclass = \"flow-{number}\"\ndestination_port = \"900{number}\"\nprotocol = \"udp\"\n",
                number == FLOWS.len()
            )
        };
        let classes: String = FLOWS.iter().enumerate().map(class).collect();
        format!("{head}discipline = {discipline}\n{classes}")
    }

    /// The delay that a flow asks for, in ms.
    fn delay(&self, index: usize, rule: AdmissionRule) -> Option<u64> {
        let (_, papers) = self.flow_delays.iter().find(|(flow, _)| *flow == index + 1)?;
        match rule {
            AdmissionRule::Paper => Some(*papers),
            AdmissionRule::Sound(ring) => self.bound(index, ring).map(|bound| bound.ceil() as u64),
        }
    }

    /// The bound of a flow behind a ring, in ms, computed by hand: its burst, those of all flows of
    /// shorter delays and the packets in the ring, over what those flows leave of the link.
    pub fn bound(&self, index: usize, ring: u32) -> Option<f64> {
        let place = self.flow_delays.iter().position(|(flow, _)| *flow == index + 1)?;
        let flow = |place: usize| &FLOWS[self.flow_delays[place].0 - 1];
        let frames: u64 = (0..=place).map(|at| flow(at).frames).sum();
        let above: u64 = (0..place).map(|at| flow(at).rate * 1_000).sum();
        let bits = (frames + u64::from(ring)) * COUNTED * 8;
        Some(bits as f64 * 1e3 / (LINK - above) as f64)
    }
}

/// Records the delays of packets sent after some time, up to a number.
#[derive(Debug)]
struct Stopwatch {
    from: Instant,
    delays: Vec<u64>,
    /// The sequence numbers of the first and the last of them.
    numbers: Option<(u64, u64)>,
}

impl Agent for Stopwatch {
    fn wake(&mut self, _cx: &mut Context<'_>) {}

    fn receive(&mut self, cx: &mut Context<'_>, packet: &SimPacket) {
        cx.deliver(packet.frame);
        if packet.sent < self.from || self.delays.len() >= PACKETS {
            return;
        }
        self.delays.push(cx.now().since(packet.sent).nanos());
        if let Payload::Datagram(number) = packet.payload {
            self.numbers = Some((self.numbers.map_or(number, |(first, _)| first), number));
        }
    }
}

/// What was measured of one flow.
#[derive(Clone, Debug)]
pub struct FlowDelays {
    /// From the first bit sent to the last bit received, in ns.
    pub delays: Vec<u64>,
    /// Loss, in per cent.
    pub loss: f64,
    /// The rate of IP packets, in Mbit/s.
    pub rate: f64,
    /// The same over time: seconds, and bit/s of the second that begins then.
    pub rates: Vec<(f64, f64)>,
    /// Late packets, as `ips` counts them; 0 without a guarantee.
    pub late: u64,
    /// The bound that `ips` states.
    pub bound: Option<Duration>,
}

impl FlowDelays {
    /// The per cent of the packets that took at most this long.
    pub fn within(&self, limit: Duration) -> f64 {
        let in_time = self
            .delays
            .iter()
            .filter(|&&nanos| nanos <= limit.nanos())
            .count();
        in_time as f64 * 100.0 / self.delays.len().max(1) as f64
    }
}

/// What lies between the senders and the queue, and behind it.
#[derive(Clone, Copy, Debug)]
pub struct NodeModel {
    /// The packets that fit into the device's ring.
    pub ring: u32,
    /// The loss before the queue.
    pub loss: Loss,
    /// Whether the periods of flows 2 and 3 include their frame gaps, too.
    pub all_gaps: bool,
}

impl NodeModel {
    /// A node that loses nothing.
    pub fn ring(ring: u32) -> Self {
        Self {
            ring,
            loss: Loss::None,
            all_gaps: false,
        }
    }
}

/// The time between two bursts of a flow.
fn period(index: usize, all_gaps: bool) -> Duration {
    let flow = &FLOWS[index];
    let gaps = match (all_gaps, index) {
        (true, 1 | 2) => (flow.frames - 1) * flow.gap,
        _ => 0,
    };
    Duration::from_nanos(flow.period + gaps)
}

/// Runs a policy. Returns what was measured of each flow.
///
/// # Errors
///
/// Returns an error if the policy is refused behind the ring, or cannot be simulated.
pub fn measure(policy: &str, node: NodeModel) -> Result<Vec<FlowDelays>, Error> {
    measure_interface(&interface(policy)?, node)
}

fn measure_interface(policy: &InterfacePolicy, node: NodeModel) -> Result<Vec<FlowDelays>, Error> {
    let policy = behind(policy, node.ring)?;
    let mut sim = Simulation::new(Seed(1));
    let [router, receiver] = ["router", "receiver"].map(|name| sim.node(name));
    let (plan, filters) = (policy.plan.clone(), policy.filters.to_vec());
    let ruled = PolicyQueue {
        plan,
        filters,
        driver: Driver::default(),
    };
    let spec = |rate| LinkSpec::new(rate, Duration::ZERO).framing(Framing::add(FCS));
    let out = spec(Bandwidth::bits_per_sec(LINK)).queue(LinkQueue::Policy(Box::new(ruled)));
    let out = sim.link(router, receiver, out);
    sim.link(receiver, router, spec(Bandwidth::bits_per_sec(LINK)));
    let begin = Instant::START + SETTLE;
    let mut flows: Vec<FlowId> = Vec::new();
    for (index, flow) in FLOWS.iter().enumerate() {
        let sender = sim.node(&format!("sender {}", index + 1));
        let input = spec(Bandwidth::mbit(100)).loss(node.loss);
        sim.duplex(sender, router, &input);
        let gap = Duration::from_nanos(flow.gap + FRAME_TIME);
        let burst = Burst::every(period(index, node.all_gaps), flow.frames, gap);
        let watch = Stopwatch {
            from: begin,
            delays: Vec::new(),
            numbers: None,
        };
        let start = Instant::START + Duration::from_millis(4).times(index as u64);
        let ends: [Box<dyn Agent>; 2] = [Box::new(DatagramSource::new(FRAME, burst)), Box::new(watch)];
        let flow = sim.flow([sender, receiver], key(index), start, ends);
        flows.push(flow.map_err(|e| Error::new(e.to_string()))?);
    }
    sim.run_until(begin);
    for &flow in &flows {
        sim.watch_flow(flow, End::Responder, STEP);
    }
    let bursts = PACKETS as u64 / FLOWS[0].frames;
    // A few bursts more, to make up for lost ones.
    let span = Duration::from_nanos(FLOWS[0].period).times(bursts * 6 / 5);
    sim.run_until(begin + span);
    let queue = sim.queue(out).map(|(queue, _)| queue);
    let queue = queue.ok_or_else(|| Error::new("the link has no policy"))?;
    let result = |(index, &flow): (usize, &FlowId)| {
        let watch = sim.agent::<Stopwatch>(flow, End::Responder);
        let watch = watch.ok_or_else(|| Error::new("a flow has no receiver"))?;
        let (first, last) = watch.numbers.unwrap_or_default();
        let sent = (last - first + 1).max(1) as f64;
        let delivered = sim.delivered(flow, End::Responder);
        let ip = delivered.bytes.get() / FRAME.get() * IP * 8;
        let class = ClassId(index as u32);
        Ok(FlowDelays {
            loss: (1.0 - watch.delays.len() as f64 / sent) * 100.0,
            delays: watch.delays.clone(),
            rate: ip as f64 / span.as_secs_f64() / 1e6,
            rates: rates_of_ip(delivered, begin, begin + span),
            late: match gauge(queue, class, "late") {
                Some(Value::Count(late)) => late,
                _ => 0,
            },
            bound: match gauge(queue, class, "bound") {
                Some(Value::Duration(bound)) => Some(bound),
                _ => None,
            },
        })
    };
    flows.iter().enumerate().map(result).collect()
}

/// What was delivered over time, in the steps that were over by the end.
fn rates_of_ip(delivered: &Delivered, begin: Instant, end: Instant) -> Vec<(f64, f64)> {
    let steps = delivered.series.iter().flat_map(|series| series.rates());
    let whole = steps.take_while(|(at, _)| *at + STEP <= end);
    let ip = IP as f64 / FRAME.get() as f64;
    whole
        .map(|(at, rate)| (at.since(begin).as_secs_f64(), rate.bits() as f64 * ip))
        .collect()
}

fn key(index: usize) -> FlowKey {
    FlowKey {
        family: Family::V4,
        protocol: 17,
        source: index as u128 + 1,
        destination: 9,
        source_port: Some(9_000),
        destination_port: Some(9_001 + index as u16),
        ..FlowKey::default()
    }
}
