//! A policy in the simulator under the traffic that a running suimon has at present.
//!
//! The traffic is a model, made of what counters say of each leaf class over a second:
//!
//! - a class that lost, marked or kept packets waiting is taken for [`FLOWS`] TCP connections (with
//!   the congestion control of most hosts) that take what they are given, over a path of
//!   [`ROUND_TRIP`];
//! - any other for [`FLOWS`] flows of datagrams at random times (Poisson), of the rate and the mean
//!   length that were measured.
//!
//! The link is the policy's own: its bandwidth and overhead, and nothing slower behind it. What
//! follows from the model and not from the policy is the same before and after a change: the seed
//! is.

use control::policy::InterfacePolicy;
use control::what_if::Figures;
use engine::classify::{Filter, Prefix};
use engine::framing::Framing;
use engine::header::{Family, FlowKey};
use engine::packet::ClassId;
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use sim::agent::Agent;
use sim::link::{Completion, Driver, LinkQueue, LinkSpec, PolicyQueue};
use sim::meter::MeterTally;
use sim::simulation::{LinkId, NodeId, Simulation};
use sim::sources::{DatagramSource, Datagrams, Lengths, Listener, Poisson};
use sim::tcp;
use std::net::{IpAddr, Ipv4Addr};

/// Connections, or flows of datagrams, that each class is taken for.
pub(crate) const FLOWS: u8 = 4;

/// From a sender to its receiver and back, without the queue.
pub(crate) const ROUND_TRIP: Duration = Duration::from_millis(20);

/// Time for connections to find their rates, before anything counts.
const WARM_UP: Duration = Duration::from_secs(2);

/// So many packets are enough, in a time of these bounds.
const ENOUGH: u64 = 20_000;
const SHORTEST: Duration = Duration::from_millis(500);
const SHORT: Duration = Duration::from_secs(4);
const LONG: Duration = Duration::from_secs(20);

/// Packets of one simulation at most, the warm-up's included.
const PACKETS: u64 = 500_000;

/// What is simulated before somebody may stop it.
const SLICE: Duration = Duration::from_millis(50);

/// A full frame.
const FULL: u64 = 1_514;
/// The header of a frame, without which it is an IP packet.
const ETHERNET: u64 = 14;
const LARGEST_IP: u64 = 1_500;
const SMALLEST_IP: u64 = 576;

/// What arrives for a class.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Offered {
    /// The class; none where there are no classes.
    pub class: Option<String>,
    /// The rate at which packets arrive, or did.
    pub rate: Bandwidth,
    /// Their mean length, as frames without the link's overhead.
    pub frame: Bytes,
    /// Whether it took what it was given.
    pub greedy: bool,
}

/// For how long it is simulated: before anything counts, and while it does; none if that would be
/// too many packets.
pub(crate) fn span(fastest: Bandwidth, offered: &[Offered]) -> Option<(Duration, Duration)> {
    let packets = |rate: Bandwidth, frame: u64| rate.bits() / 8 / frame.max(1);
    let datagrams = offered.iter().filter(|of| !of.greedy);
    let datagrams: u64 = datagrams.map(|of| packets(of.rate, of.frame.get())).sum();
    let greedy = offered.iter().any(|of| of.greedy);
    let all = datagrams + if greedy { packets(fastest, FULL) } else { 0 };
    let for_packets = |count: u64| Duration::from_nanos(count.saturating_mul(1_000_000_000) / all.max(1));
    let most = for_packets(PACKETS);
    let left = Duration::from_nanos(most.nanos().saturating_sub(WARM_UP.nanos()));
    let counted = for_packets(ENOUGH).clamp(SHORT, LONG).min(left);
    (counted >= SHORTEST).then_some((WARM_UP, counted))
}

/// What each of these gets; none of a class that the policy does not have.
///
/// `stop` is asked now and then; if it says so, there is no result.
pub(crate) fn simulate(
    policy: &InterfacePolicy,
    offered: &[Offered],
    (warm_up, counted): (Duration, Duration),
    stop: &dyn Fn() -> bool,
) -> Option<Vec<Option<Figures>>> {
    let mut sim = Simulation::new(Seed(1));
    let [from, to] = ["senders", "receivers"].map(|name| sim.node(name));
    let link = bottleneck(&mut sim, [from, to], policy);
    for of in offered {
        let Some(class) = class(policy, of) else { continue };
        for flow in 0..FLOWS {
            let agents = agents(sim.seed(&format!("{} {flow}", class.0)), of, policy);
            // There is a link each way, so there is a route.
            let _ = sim.flow([from, to], key(class, flow, of), Instant::START, agents);
        }
    }
    pass(&mut sim, Instant::START + warm_up, stop)?;
    sim.watch(link, counted);
    pass(&mut sim, Instant::START + warm_up + counted, stop)?;
    let meter = sim.meter(link)?;
    let framing = policy.link().framing;
    let got = |of: &Offered| {
        let tally = meter.classes().get(class(policy, of)?.0 as usize)?;
        Some(figures(tally, framing, counted))
    };
    Some(offered.iter().map(got).collect())
}

/// The class of a policy that packets of this go to.
fn class(policy: &InterfacePolicy, of: &Offered) -> Option<ClassId> {
    match &of.class {
        None => policy.plan.classes.is_empty().then_some(ClassId(0)),
        Some(name) => policy.plan.class(name),
    }
}

fn pass(sim: &mut Simulation, until: Instant, stop: &dyn Fn() -> bool) -> Option<()> {
    while sim.now() < until {
        if stop() {
            return None;
        }
        sim.run_until((sim.now() + SLICE).min(until));
    }
    Some(())
}

/// The policy's link, on which packets are told apart by where they go, whatever its filters say;
/// and a way back.
fn bottleneck(sim: &mut Simulation, [from, to]: [NodeId; 2], policy: &InterfacePolicy) -> LinkId {
    let link = policy.link();
    let leaves = (0u32..).zip(policy.plan.classes.iter());
    let filters = leaves.filter(|(_, info)| info.leaf && !info.vacant);
    let filters = filters.map(|(number, _)| Filter {
        destination: Prefix::new(IpAddr::V4(receiver(ClassId(number))), 32),
        ..Filter::new(ClassId(number))
    });
    let queue = PolicyQueue {
        plan: policy.plan.clone(),
        filters: filters.collect(),
        driver: Driver {
            completion: Completion::Estimated,
            ..Driver::default()
        },
    };
    let one_way = Duration::from_nanos(ROUND_TRIP.nanos() / 2);
    let wire = LinkSpec::new(link.bandwidth, one_way).framing(link.framing);
    sim.link(to, from, LinkSpec::new(Bandwidth::gbit(100), one_way));
    sim.link(from, to, wire.queue(LinkQueue::Policy(Box::new(queue))))
}

/// Where packets of a class go.
fn receiver(class: ClassId) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0000 | class.0 & 0x00ff_ffff)
}

fn key(class: ClassId, flow: u8, of: &Offered) -> FlowKey {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    FlowKey {
        // A host for each: who shares by hosts, shares by these.
        source: Ipv4Addr::new(192, 168, 0, flow + 1).to_bits().into(),
        destination: receiver(class).to_bits().into(),
        family: Family::V4,
        protocol: if of.greedy { TCP } else { UDP },
        source_port: Some(49_152),
        destination_port: Some(443),
        ethertype: 0x0800,
        ..FlowKey::default()
    }
}

fn agents(seed: Seed, of: &Offered, policy: &InterfacePolicy) -> [Box<dyn Agent>; 2] {
    let link = policy.link();
    let longest = link.framing.longest_within(link.mtu).get();
    if of.greedy {
        return tcp::pair(&tcp::Settings {
            control: tcp::congestion::of_most_hosts(),
            mtu: Bytes::new(longest.saturating_sub(ETHERNET).clamp(SMALLEST_IP, LARGEST_IP)),
            ..tcp::Settings::default()
        });
    }
    // What offloads put together, the link would cut.
    let frame = Lengths::from(of.frame.min(Bytes::new(longest)));
    let rate = Bandwidth::bits_per_sec(of.rate.bits() / u64::from(FLOWS));
    let arrivals = Poisson::rate(rate, &frame, seed);
    [
        Box::new(DatagramSource::new(Datagrams::new(frame, seed), arrivals)),
        Box::new(Listener::default()),
    ]
}

/// As the counters of a running suimon have it: in the link's framing, here of the mean frame.
fn figures(tally: &MeterTally, framing: Framing, counted: Duration) -> Figures {
    let bytes = framing.of_frames(tally.sent.bytes, tally.sent.packets);
    let delay = |per_mille| tally.queueing_delays.quantile(per_mille).nanos();
    Figures {
        sent: tally.sent.packets,
        rate_bps: Bandwidth::of(bytes, counted).bits(),
        p50_ns: delay(500),
        p99_ns: delay(990),
        dropped: tally.dropped.packets,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::policy::Policy;
    use engine::tree::Registry;

    fn policy(bandwidth: &str, discipline: &str) -> InterfacePolicy {
        let text = format!("version = 1\n[interface.wan0]\nbandwidth = \"{bandwidth}\"\n{discipline}");
        let read = Policy::read("test", &text, &Registry::builtin(), &[]);
        let mut policy = read.unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false)));
        policy.interfaces.remove(0)
    }

    const CLASSES: &str = "discipline = \"drr\"\n[[interface.wan0.class]]\nname = \"calls\"\n\
                           [[interface.wan0.class]]\nname = \"rest\"\ndefault = true\n";

    fn offered(class: Option<&str>, kbit: u64, greedy: bool) -> Offered {
        Offered {
            class: class.map(str::to_owned),
            rate: Bandwidth::bits_per_sec(kbit * 1_000),
            frame: Bytes::new(500),
            greedy,
        }
    }

    fn got(policy: &InterfacePolicy, offered: &[Offered]) -> Vec<Option<Figures>> {
        let span = span(policy.link().bandwidth, offered).expect("few packets");
        simulate(policy, offered, span, &|| false).expect("nobody stops it")
    }

    /// What was sent, in kbit/s.
    fn rates(got: &[Option<Figures>]) -> Vec<u64> {
        got.iter()
            .map(|of| of.expect("it is there").rate_bps / 1_000)
            .collect()
    }

    #[test]
    fn a_greedy_class_takes_what_others_leave_and_more_of_a_wider_link() {
        let both = [
            offered(Some("calls"), 1_000, false),
            offered(Some("rest"), 3_000, true),
        ];
        for (bandwidth, kbit) in [("10 Mbit/s", 10_000), ("20 Mbit/s", 20_000)] {
            let got = got(&policy(bandwidth, CLASSES), &both);
            let [calls, rest] = rates(&got)[..] else {
                panic!("{got:?}")
            };
            assert!(calls.abs_diff(1_000) < 50, "{got:?}");
            assert!(calls + rest <= kbit && calls + rest > kbit * 95 / 100, "{got:?}");
            // Whoever takes less than its share does not wait for the other.
            let delay = |of: usize| got[of].expect("it is there").p99_ns;
            assert!(delay(0) < 5_000_000 && delay(1) > delay(0), "{got:?}");
        }
    }

    #[test]
    fn overhead_counts_and_what_is_offered_beyond_the_link_is_dropped() {
        let narrow = policy("1 Mbit/s", &format!("overhead = \"40 B\"\n{CLASSES}"));
        // 540 B a packet on the link for 500 B of each frame.
        let got = got(&narrow, &[offered(Some("rest"), 1_500, false)]);
        let rest = got[0].expect("it is there");
        assert!((980_000..=1_000_000).contains(&rest.rate_bps), "{rest:?}");
        assert!(rest.dropped > 0 && rest.p50_ns > 1_000_000, "{rest:?}");
    }

    #[test]
    fn an_interface_without_classes_is_one_class() {
        let cake = policy("10 Mbit/s", "discipline = \"cake\"\n");
        assert!(rates(&got(&cake, &[offered(None, 3_000, true)]))[0] > 9_300);
        let classes = policy("10 Mbit/s", CLASSES);
        let neither = got(
            &classes,
            &[offered(None, 1_000, false), offered(Some("nobody"), 1_000, false)],
        );
        assert_eq!(neither, [None, None]);
    }

    #[test]
    fn the_same_is_the_same_and_whoever_stops_it_gets_nothing() {
        let policy = policy("10 Mbit/s", CLASSES);
        let both = [
            offered(Some("calls"), 1_000, false),
            offered(Some("rest"), 3_000, true),
        ];
        assert_eq!(got(&policy, &both), got(&policy, &both));
        let span = span(policy.link().bandwidth, &both).expect("few packets");
        assert_eq!(simulate(&policy, &both, span, &|| true), None);
    }

    #[test]
    fn the_time_that_is_simulated_is_bounded_and_so_are_packets() {
        let of = |kbit, greedy| [offered(Some("rest"), kbit, greedy)];
        let counted = |fastest, offered: &[Offered]| span(fastest, offered).map(|(_, counted)| counted);
        assert_eq!(
            counted(Bandwidth::gbit(10), &of(8, false)),
            Some(LONG),
            "two packets a second"
        );
        assert_eq!(
            counted(Bandwidth::gbit(10), &of(100_000, false)),
            Some(SHORT),
            "25,000 a second"
        );
        // What a greedy class takes is as fast as the link.
        assert_eq!(counted(Bandwidth::mbit(10), &of(8, true)), Some(LONG));
        assert_eq!(counted(Bandwidth::gbit(10), &of(8, true)), None);
        let (warm_up, counted) = span(Bandwidth::gbit(2), &of(8, true)).expect("it is possible");
        let packets = (warm_up + counted).nanos() / 1_000 * (2_000_000_000 / 8 / FULL) / 1_000_000;
        assert!(packets <= PACKETS && packets > PACKETS * 9 / 10, "{packets}");
    }
}
