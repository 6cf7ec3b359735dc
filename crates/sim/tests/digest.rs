//! The same description and seed give the same results in debug and release builds, today and
//! tomorrow. CI runs this test in both. It compares a network of everything that draws random
//! numbers or divides with a constant.
//!
//! A deliberate change of what a source, a discipline or the network does changes the constant.

use engine::classify::{Filter, Ports};
use engine::discipline::Reason;
use engine::framing::Framing;
use engine::header::{Family, FlowKey};
use engine::link::Link;
use engine::packet::{ClassId, Ecn};
use engine::random::Seed;
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration, Instant, Probability};
use sim::agent::Agent;
use sim::link::{Completion, Driver, LinkQueue, LinkSpec, Loss, PolicyQueue};
use sim::meter::{MeterSettings, MeterWindow};
use sim::simulation::{End, FlowId, LinkId, NodeId, Simulation};
use sim::sources::{
    Active, Burst, Constant, DatagramSource, Datagrams, Greedy, Lengths, Listener, OnOff, Poisson,
    RequestClient, RequestResponse, SendRate, TimeDistribution,
};
use sim::tcp::{self, congestion::CONTROLS};

/// FNV-1a, of numbers.
struct Digest(u64);

impl Digest {
    fn add(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for byte in numbers.into_iter().flat_map(u64::to_le_bytes) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn window(&mut self, window: &MeterWindow) {
        let classes = window.classes().iter().chain(window.streams());
        for tally in classes {
            let (sent, lost, most) = (tally.sent, tally.dropped, tally.backlog.most());
            self.add([sent.packets, sent.bytes.get(), lost.packets, lost.bytes.get()]);
            self.add([tally.marked, most.packets, most.bytes.get()]);
            // By name, and only those that occurred: another reason in the list must not matter.
            for why in Reason::ALL
                .into_iter()
                .filter(|&why| tally.drops_by_reason[why as usize] > 0)
            {
                self.add(why.name().bytes().map(u64::from));
                self.add([tally.drops_by_reason[why as usize]]);
            }
            self.add(tally.series.bytes().iter().copied());
            self.add([500, 990].map(|per_mille| tally.backlog.bytes(per_mille).get()));
            for delays in [&tally.queueing_delays, &tally.node_delays] {
                self.add(delays.steps().flat_map(|(delay, count)| [delay.nanos(), count]));
            }
        }
    }
}

fn ms(n: u64) -> Instant {
    Instant::START + Duration::from_millis(n)
}

/// 10 Mbit/s of CBQ: a class with RED and ECN, one with WFQ, one for the rest; ticks, a ring, an
/// estimated wire.
fn ruled() -> LinkQueue {
    let leaf = |name: &str, parent: Option<&str>, rate: &str| ClassSpec {
        name: name.into(),
        parent: parent.map(Into::into),
        default: name == "rest",
        settings: Table::default().text("rate", rate),
        ..ClassSpec::default()
    };
    let mut spec = DisciplineSpec::new("cbq");
    spec.classes.extend([
        leaf("site", None, "70 %"),
        leaf("early", Some("site"), "33.3 %"),
        leaf("fair", Some("site"), "1.7 Mbit/s"),
        leaf("rest", None, "30 %"),
    ]);
    let mut red = DisciplineSpec::new("red");
    red.settings = Table::default().with("ecn", Raw::Boolean(true));
    spec.classes[1].discipline = Some(red);
    spec.classes[2].discipline = Some(DisciplineSpec::new("wfq"));
    let link = Link::new(Bandwidth::mbit(10), Bytes::new(1514))
        .with_framing(Framing::add(4))
        .with_ring(3);
    let filter = |port, class| Filter {
        source_port: Some(Ports::one(port)),
        ..Filter::new(ClassId(class))
    };
    LinkQueue::Policy(Box::new(PolicyQueue {
        plan: spec.check(&Registry::builtin(), link).expect("a tree"),
        filters: vec![filter(1, 1), filter(2, 1), filter(3, 2), filter(4, 2)],
        driver: Driver {
            tick: Some(Duration::from_micros(100)),
            completion: Completion::Estimated,
            gaps: false,
        },
    }))
}

/// Three routers in a row, the middle of them ruled, the last lossy; a flow of each kind.
fn network() -> (Simulation, Vec<LinkId>, Vec<FlowId>) {
    let mut sim = Simulation::new(Seed(2026));
    let nodes = ["a", "b", "c", "d"].map(|name| sim.node(name));
    let fast = LinkSpec::new(Bandwidth::mbit(100), Duration::from_micros(333)).framing(Framing::ETHERNET);
    let slow = LinkSpec::new(Bandwidth::mbit(10), Duration::from_millis(7)).queue(ruled());
    let lossy = LinkSpec::new(Bandwidth::bits_per_sec(8_765_432), Duration::from_millis(1))
        .framing(Framing::ATM)
        .loss(Loss::Random(Probability::ratio(1, 50)))
        .queue(LinkQueue::TailDrop(Bytes::new(40_000)));
    let pairs = [(0, 1, fast.clone()), (1, 2, slow), (2, 3, lossy)];
    let links = pairs.map(|(from, to, spec)| {
        sim.link(nodes[to], nodes[from], fast.clone());
        sim.link(nodes[from], nodes[to], spec)
    });
    for link in links {
        sim.watch(
            link,
            MeterSettings {
                bin: Duration::from_micros(500),
                windows: vec![(ms(100), ms(433)), (ms(200), ms(900))],
                flows: true,
            },
        );
    }
    let flows = flows(&mut sim, [nodes[0], nodes[3]]);
    (sim, links.to_vec(), flows)
}

fn flows(sim: &mut Simulation, ends: [NodeId; 2]) -> Vec<FlowId> {
    let mixed = Datagrams::new(Lengths::imix(), sim.seed("mixed")).ecn(Ecn::Ect0);
    let plain = |len| Datagrams::from(Bytes::new(len));
    let poisson = Poisson::rate(Bandwidth::mbit(5), &Lengths::imix(), sim.seed("poisson"));
    let [on, off] = [3_000, 4_000].map(|us| TimeDistribution::Exponential(Duration::from_micros(us)));
    let on_off = OnOff::new(SendRate::Rate(Bandwidth::mbit(7)), on, off, sim.seed("spells"));
    let burst = Burst::apart(Duration::from_micros(9_700), 8, Duration::from_micros(180));
    let active = Active::spans(&[(ms(50), ms(300)), (ms(500), ms(700))]);
    let sources: [Box<dyn Agent>; 5] = [
        Box::new(DatagramSource::new(mixed, poisson)),
        Box::new(DatagramSource::new(plain(777).ecn(Ecn::Ect0), on_off)),
        Box::new(DatagramSource::new(plain(1_514), burst)),
        Box::new(Greedy::new(plain(1_000).active(active), 5)),
        Box::new(DatagramSource::new(
            plain(333),
            Constant::rate(Bandwidth::kbit(999)),
        )),
    ];
    let exchange = RequestResponse {
        response: Bytes::new(10_000),
        think_time: TimeDistribution::Exponential(Duration::from_millis(5)),
        timeout: Duration::from_millis(200),
        ..RequestResponse::default()
    };
    let asking = exchange.pair(sim.seed("asking"));
    let listening = sources.map(|source| -> [Box<dyn Agent>; 2] { [source, Box::new(Listener::default())] });
    let all = listening.into_iter().chain([asking]);
    (1u16..)
        .zip(all)
        .map(|(port, agents)| {
            let key = FlowKey {
                family: Family::V4,
                protocol: 17,
                source: 1,
                destination: 2,
                source_port: Some(port),
                destination_port: Some(9),
                ..FlowKey::default()
            };
            sim.flow(ends, key, Instant::from_nanos(u64::from(port) * 12_345), agents)
                .expect("a route")
        })
        .collect()
}

/// A digest of all results after a second, and sums of the main ones. In how many pieces time
/// passed must not matter.
fn digest(pieces: u64) -> (u64, [u64; 4]) {
    let (mut sim, links, flows) = network();
    for piece in 1..=pieces {
        sim.run_until(ms(1_000 * piece / pieces));
    }
    let (mut digest, mut sums) = (Digest(0xcbf2_9ce4_8422_2325), [0; 4]);
    let lost: u64 = links.iter().map(|&link| sim.lost_on_wire(link)).sum();
    sums[3] += lost;
    digest.add([lost]);
    for &link in &links {
        let meter = sim.meter(link).expect("a meter");
        digest.window(meter.whole());
        meter.windows().iter().for_each(|window| digest.window(window));
        let total = meter.whole().total();
        for (sum, one) in sums
            .iter_mut()
            .zip([total.sent.packets, total.dropped.packets, total.marked])
        {
            *sum += one;
        }
    }
    for &flow in &flows {
        if let Some(listener) = sim.agent::<Listener>(flow, End::Responder) {
            let counts = [listener.packets, listener.expected, listener.reordered];
            digest.add(counts);
            digest.add([listener.jitter().nanos(), listener.delays.mean().nanos()]);
        }
        if let Some(client) = sim.agent::<RequestClient>(flow, End::Initiator) {
            digest.add([
                client.requests,
                client.unanswered,
                client.response_times.mean().nanos(),
            ]);
        }
    }
    (digest.0, sums)
}

#[test]
fn a_network_of_everything_gives_the_same_results_in_every_build() {
    let (found, [sent, dropped, marked, astray]) = digest(1);
    assert!(sent > 5_000 && dropped > 100, "{sent} {dropped}");
    assert!(marked > 10 && astray > 10, "{marked} {astray}");
    assert_eq!(
        found, 0xa820_e3d1_2fd3_4185,
        "the results have changed: {found:#018x}"
    );
}

/// Connections of each congestion control over a link that drops and loses: samples of cwnd and
/// all counts.
fn connections() -> (u64, u64) {
    let mut sim = Simulation::new(Seed(793));
    let [a, b] = ["a", "b"].map(|name| sim.node(name));
    let loss = Loss::Random(Probability::ratio(1, 1_000));
    let slow = LinkSpec::new(Bandwidth::mbit(50), Duration::from_millis(9));
    sim.link(
        a,
        b,
        slow.clone()
            .loss(loss)
            .queue(LinkQueue::TailDrop(Bytes::new(100_000))),
    );
    sim.link(b, a, slow.loss(loss));
    let flows: Vec<FlowId> = (1u16..)
        .zip(CONTROLS.iter().copied().cycle())
        .take(2 * CONTROLS.len())
        .map(|(number, control)| {
            let settings = tcp::Settings {
                control,
                ecn: number % 2 == 0,
                pacing: number % 3 == 0,
                sample_interval: Some(Duration::from_millis(5)),
                active: vec![(ms(0), ms(4_000)), (ms(7_000), ms(9_000))],
                ..tcp::Settings::default()
            };
            let start = Instant::from_nanos(u64::from(number) * 100_003);
            sim.flow([a, b], FlowKey::default(), start, tcp::pair(&settings))
                .expect("a route")
        })
        .collect();
    sim.run_until(ms(10_000));
    let (mut digest, mut again) = (Digest(0xcbf2_9ce4_8422_2325), 0);
    for flow in flows {
        let sender: &tcp::TcpSender = sim.agent(flow, End::Initiator).expect("a sender");
        let counts = sender.statistics;
        digest.add([
            counts.segments,
            counts.retransmissions,
            counts.timeouts,
            counts.recoveries,
        ]);
        digest.add([
            sender.acknowledged(),
            sim.delivered(flow, End::Responder).bytes.get(),
        ]);
        let samples = sender.samples.iter();
        digest.add(samples.flat_map(|sample| [sample.at.nanos(), sample.cwnd, sample.srtt.nanos()]));
        again += counts.retransmissions;
    }
    (digest.0, again)
}

#[test]
fn every_congestion_control_gives_the_same_results_in_every_build() {
    let (found, again) = connections();
    assert!(again > 500, "{again}");
    assert_eq!(
        found, 0x3be1_8df9_e1a1_1d02,
        "the results have changed: {found:#018x}"
    );
}

#[test]
fn where_a_run_is_interrupted_to_look_at_it_does_not_matter() {
    assert_eq!(digest(1), digest(97));
}
