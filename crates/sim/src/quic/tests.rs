//! QUIC against the figures and rules of RFC 9000 and RFC 9002, by name. Some tests play the other
//! end by hand.

use super::application::{BulkStreams, ObjectStreams};
use super::wire::{AckFrame, DataPacket, LowerRange, QuicPacket, StreamFrame};
use super::*;
use crate::agent::Context;
use crate::agent::alone::Alone;
use crate::link::{LinkQueue, LinkSpec, Loss};
use crate::packet::{Payload, SimPacket};
use crate::simulation::{End, FlowId, Simulation};
use crate::tcp::congestion::{bbr, bbr3, cubic, prague, reno};
use crate::tcp::objects::ObjectModel;
use engine::header::FlowKey;
use engine::packet::Ecn;
use engine::random::Seed;
use engine::units::{Bandwidth, Instant, Probability};
use measure::distribution::Distribution;
use std::collections::BTreeSet;

const FULL: u64 = 1_472;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Instant {
    Instant::START + ms(n)
}

type Bench<A> = Alone<A>;

/// An endpoint of QUIC alone.
trait QuicEnd {
    /// What it sends until this time.
    fn until(&mut self, end: Instant) -> Vec<SimPacket>;

    fn receive(&mut self, ecn: Ecn, packet: QuicPacket) -> Vec<SimPacket>;
}

impl<A: Agent> QuicEnd for Bench<A> {
    fn until(&mut self, end: Instant) -> Vec<SimPacket> {
        let mut sent = Vec::new();
        while self.timer.due <= end {
            sent.extend(self.expire_timer());
        }
        self.now = end;
        sent
    }

    fn receive(&mut self, ecn: Ecn, packet: QuicPacket) -> Vec<SimPacket> {
        self.arrive(ecn, Bytes::new(100), Payload::Quic(packet))
    }
}

/// The numbers of packets with data.
fn numbers(packets: &[SimPacket]) -> Vec<u64> {
    let number = |packet: &SimPacket| match packet.payload {
        Payload::Quic(QuicPacket::Data(data)) => Some(data.number),
        _ => None,
    };
    packets.iter().filter_map(number).collect()
}

/// The acknowledgments.
fn acks(packets: &[SimPacket]) -> Vec<AckFrame> {
    let ack = |packet: &SimPacket| match packet.payload {
        Payload::Quic(QuicPacket::Acknowledgment(ack)) => Some(ack),
        _ => None,
    };
    packets.iter().filter_map(ack).collect()
}

fn ack(first: u64, largest: u64) -> AckFrame {
    AckFrame {
        first,
        largest,
        max_data: 1 << 30,
        ..AckFrame::default()
    }
}

impl Bench<QuicSender> {
    /// A sender that is established after 100 ms, and what it sends at once.
    fn established(settings: &Settings, total: Option<u64>) -> (Self, Vec<SimPacket>) {
        let writer = BulkStreams::new(1, total.map(Bytes::new), &[]);
        let mut bench = Self::new(QuicSender::new(settings, Box::new(writer)));
        assert_eq!(bench.act(|sender, cx| sender.wake(cx)).len(), 1);
        bench.now = at(100);
        let answer = QuicPacket::Handshake {
            answers: Some(Instant::START),
            max_data: 1 << 30,
        };
        let first = bench.receive(Ecn::NotEct, answer);
        (bench, first)
    }

    fn acknowledge(&mut self, ack: AckFrame) -> Vec<SimPacket> {
        self.receive(Ecn::NotEct, QuicPacket::Acknowledgment(ack))
    }

    fn unpaced(total: Option<u64>) -> (Self, Vec<SimPacket>) {
        let settings = Settings {
            pacing: false,
            ..Settings::default()
        };
        Self::established(&settings, total)
    }
}

/// Section 7.2 of RFC 9002: ten datagrams; section 7.3.1: as much more as is acknowledged.
#[test]
fn slow_start_begins_with_ten_datagrams_and_doubles() {
    let (mut bench, first) = Bench::unpaced(None);
    assert_eq!(numbers(&first), (0..10).collect::<Vec<u64>>());
    assert!(first.iter().all(|packet| packet.frame == Bytes::new(1_514)));
    bench.now = at(200);
    for n in 0..5 {
        let more = bench.acknowledge(ack(0, 2 * n + 1));
        assert_eq!(more.len(), 4, "two for those that left, two more");
    }
    assert_eq!(bench.agent.cwnd(), 20 * FULL);
}

/// Section 7.7: cwnd × 5/4 per round trip.
#[test]
fn packets_are_paced_at_five_quarters_of_cwnd_per_round_trip() {
    let (mut bench, first) = Bench::established(&Settings::default(), None);
    assert_eq!(first.len(), 1);
    let began = bench.now;
    for n in 1..10 {
        assert_eq!(bench.expire_timer().len(), 1);
        let expected = ms(8 * n).nanos();
        let found = bench.now.since(began).nanos();
        assert!(found.abs_diff(expected) < 10_000, "{n}: {found}");
    }
}

/// Section 6.2.1: srtt + 4 rttvar + max_ack_delay, and then twice that; appendix A.9: probes, and
/// nothing is lost.
#[test]
fn a_probe_timeout_sends_two_packets_doubles_and_leaves_cwnd() {
    let (mut bench, _) = Bench::unpaced(Some(3 * FULL));
    assert_eq!(bench.timer.due, at(100 + 100 + 200 + 25));
    let probes = bench.expire_timer();
    assert_eq!(probes.len(), 2, "new numbers: {:?}", numbers(&probes));
    assert_eq!(bench.timer.due, at(425 + 650));
    assert_eq!(bench.expire_timer().len(), 2);
    assert_eq!(bench.timer.due, at(425 + 650 + 1_300));
    let counts = bench.agent.statistics;
    assert_eq!((counts.probe_timeouts, counts.lost, counts.recoveries), (2, 0, 0));
    assert_eq!(bench.agent.cwnd(), 10 * FULL);
    // What the probe carried was that of the first packet: its acknowledgment completes all.
    bench.now = at(1_200);
    bench.acknowledge(ack(1, 7));
    assert_eq!(bench.agent.finished, Some(at(1_200)));
}

/// Section 6.2.2: 999 ms, then twice that.
#[test]
fn a_handshake_is_repeated_after_a_second_less_a_millisecond() {
    let mut bench = Bench::new(QuicSender::new(
        &Settings::default(),
        Box::new(BulkStreams::new(1, None, &[])),
    ));
    bench.act(|sender, cx| sender.wake(cx));
    assert_eq!(bench.timer.due, at(999));
    assert_eq!(bench.expire_timer().len(), 1);
    assert_eq!(bench.timer.due, at(999 + 1_998));
}

/// Section 7.3.2: cwnd is halved by the first loss, and not by others of packets that were sent
/// before that was found.
#[test]
fn a_round_trip_of_losses_halves_cwnd_once() {
    let (mut bench, _) = Bench::unpaced(None);
    bench.now = at(200);
    bench.acknowledge(ack(3, 3));
    assert_eq!(bench.agent.statistics.lost, 1);
    assert_eq!(bench.agent.cwnd(), 5 * FULL);
    bench.acknowledge(ack(3, 5));
    assert_eq!(bench.agent.statistics.lost, 3);
    let after = bench.agent.statistics.recoveries;
    assert_eq!((after, bench.agent.cwnd()), (1, 5 * FULL));
    // What is sent after the loss was found ends the recovery.
    bench.now = at(210);
    let sent = bench.acknowledge(ack(3, 9));
    assert_eq!(sent.len(), 4, "one went before");
    bench.now = at(310);
    bench.acknowledge(ack(3, *numbers(&sent).last().expect("a packet")));
    assert_eq!(bench.agent.cwnd(), 6 * FULL, "a window's worth adds a datagram");
}

/// Section 7.6: two lost packets further apart than three probe timeouts, nothing between them.
#[test]
fn persistent_congestion_leaves_two_datagrams() {
    let (mut bench, _) = Bench::unpaced(None);
    bench.now = at(200);
    bench.acknowledge(ack(0, 9));
    // Probes after 275, 550 and 1,100 ms; the last one arrives.
    let probes = bench.until(at(200 + 275 + 550 + 1_100));
    assert_eq!(bench.agent.statistics.probe_timeouts, 3);
    let last = *numbers(&probes).last().expect("a probe");
    bench.now = at(2_225);
    bench.acknowledge(ack(last, last));
    // From 200 to 1,025 ms nothing arrived, and that is more than three probe timeouts.
    assert_eq!(
        bench.agent.rtt().persistent_congestion(),
        Duration::from_micros(712_500)
    );
    assert_eq!(bench.agent.statistics.persistent, 1);
    // The packet that arrived counts for growth again.
    assert_eq!(bench.agent.cwnd(), 3 * FULL);
    assert!(bench.agent.control::<reno::Reno>().is_some());
}

/// The same span with one packet acknowledged in its midst is none.
#[test]
fn losses_with_an_acknowledgment_between_them_are_not_persistent_congestion() {
    let (mut bench, _) = Bench::unpaced(None);
    bench.now = at(200);
    bench.acknowledge(ack(0, 9));
    let probes = bench.until(at(200 + 275 + 550 + 1_100));
    let last = *numbers(&probes).last().expect("a probe");
    bench.now = at(2_225);
    // Of the two probes of 1,025 ms the first arrived, too.
    let mut both = ack(last, last);
    both.lower[0] = LowerRange {
        missing: 2,
        arrived: 1,
    };
    bench.acknowledge(both);
    assert_eq!(bench.agent.statistics.persistent, 0);
    assert_eq!(bench.agent.cwnd(), 10 * FULL, "half of 20");
}

/// RFC 9000, section 13.4.2: counts that do not cover what is acknowledged end ECN; section 7.1 of
/// RFC 9002: CE is congestion.
#[test]
fn marks_reduce_cwnd_once_and_counts_that_miss_packets_end_ecn() {
    let settings = Settings {
        pacing: false,
        ecn: true,
        ..Settings::default()
    };
    let (mut bench, first) = Bench::established(&settings, None);
    assert!(first.iter().all(|packet| packet.ecn == Ecn::Ect0));
    bench.now = at(200);
    let marked = |first, largest, ecn| AckFrame {
        ecn,
        ..ack(first, largest)
    };
    bench.acknowledge(marked(0, 1, [1, 0, 1]));
    assert_eq!(bench.agent.cwnd(), 5 * FULL);
    bench.acknowledge(marked(0, 3, [2, 0, 2]));
    assert_eq!((bench.agent.statistics.marks, bench.agent.cwnd()), (1, 5 * FULL));
    assert!(bench.agent.is_ecn_capable());
    bench.acknowledge(marked(0, 5, [3, 0, 2]));
    assert!(!bench.agent.is_ecn_capable(), "two arrived, one is counted");
    bench.now = at(300);
    let after = bench.acknowledge(marked(0, 9, [3, 0, 2]));
    assert!(after.iter().all(|packet| packet.ecn == Ecn::NotEct), "{after:?}");
}

fn data(number: u64, stream: u32, offset: u64, fin: bool) -> QuicPacket {
    let mut frames = [StreamFrame::default(); wire::FRAMES];
    frames[0] = StreamFrame {
        offset,
        stream,
        len: 1_000,
        fin,
    };
    QuicPacket::Data(DataPacket { number, frames })
}

/// RFC 9000, section 13.2.1 and 13.2.2.
#[test]
fn every_second_packet_is_acknowledged_and_one_alone_after_25_ms() {
    let mut bench = Bench::new(QuicReceiver::new(&Settings::default()));
    assert!(bench.receive(Ecn::NotEct, data(0, 0, 0, false)).is_empty());
    let second = acks(&bench.receive(Ecn::NotEct, data(1, 0, 1_000, false)));
    assert_eq!((second.len(), second[0].first, second[0].largest), (1, 0, 1));
    assert!(bench.receive(Ecn::NotEct, data(2, 0, 2_000, false)).is_empty());
    assert_eq!(bench.timer.due, at(25));
    let late = acks(&bench.expire_timer());
    assert_eq!((late[0].largest, late[0].delay_of_largest()), (2, ms(25)));
}

#[test]
fn a_gap_a_mark_and_the_end_of_a_stream_are_acknowledged_at_once() {
    let mut bench = Bench::new(QuicReceiver::new(&Settings::default()));
    let gap = acks(&bench.receive(Ecn::NotEct, data(1, 0, 1_000, false)));
    assert_eq!((gap[0].first, gap[0].largest), (1, 1));
    let late = acks(&bench.receive(Ecn::NotEct, data(0, 0, 0, false)));
    assert_eq!((late[0].first, late[0].largest), (0, 1));
    let marked = acks(&bench.receive(Ecn::Ce, data(2, 0, 2_000, false)));
    assert_eq!(marked[0].ecn, [0, 0, 1]);
    assert_eq!(bench.receive(Ecn::Ect0, data(3, 0, 3_000, true)).len(), 1);
    // Numbers are never used twice: a gap stays, and is reported until 32 ranges lie above it.
    let ranges = |acks: &[AckFrame]| acks[0].ranges().collect::<Vec<_>>();
    let above = acks(&bench.receive(Ecn::NotEct, data(5, 4, 0, false)));
    assert_eq!(ranges(&above), [[5, 5], [0, 3]]);
}

#[test]
fn what_lies_below_the_remembered_ranges_is_taken_for_a_duplicate() {
    let mut bench = Bench::new(QuicReceiver::new(&Settings::default()));
    for n in 0..=receiver::RANGES as u64 {
        bench.receive(Ecn::NotEct, data(2 * n + 1, 0, 1_000 * n, false));
    }
    let (before, delivered) = (bench.agent.duplicates, bench.delivered.bytes);
    bench.receive(Ecn::NotEct, data(0, 1, 0, false));
    assert_eq!(
        (bench.agent.duplicates, bench.delivered.bytes),
        (before + 1, delivered)
    );
    bench.receive(Ecn::NotEct, data(4, 1, 0, false));
    assert!(bench.delivered.bytes > delivered, "4 is remembered as missing");
}

/// RFC 9000, section 2.2: data is ordered within a stream only.
#[test]
fn what_is_missing_of_one_stream_holds_up_no_other() {
    let mut bench = Bench::new(QuicReceiver::new(&Settings::default()));
    bench.receive(Ecn::NotEct, data(1, 0, 1_000, true));
    assert_eq!(bench.delivered.bytes, Bytes::ZERO);
    bench.receive(Ecn::NotEct, data(2, 1, 0, true));
    assert_eq!(bench.delivered.bytes, Bytes::new(1_000));
    bench.receive(Ecn::NotEct, data(3, 0, 0, false));
    assert_eq!(bench.delivered.bytes, Bytes::new(3_000));
}

/// A sender and a receiver with one link between them; the reverse link is fast and loses nothing.
fn connection(
    settings: &Settings,
    application: Box<dyn StreamApplication>,
    there: LinkSpec,
) -> (Simulation, FlowId) {
    let mut simulation = Simulation::new(Seed(1));
    let [a, b] = ["a", "b"].map(|name| simulation.node(name));
    let back = LinkSpec::new(Bandwidth::gbit(100), there.delay);
    simulation.link(a, b, there);
    simulation.link(b, a, back);
    let ends = pair(settings, application);
    let flow = simulation.flow([a, b], FlowKey::default(), Instant::START, ends);
    (simulation, flow.expect("links"))
}

fn sender(simulation: &Simulation, flow: FlowId) -> &QuicSender {
    simulation.agent(flow, End::Initiator).expect("a sender")
}

/// A receiver that looks at the numbers of what arrives.
#[derive(Debug)]
struct Watching {
    receiver: QuicReceiver,
    seen: BTreeSet<u64>,
}

impl Agent for Watching {
    fn wake(&mut self, cx: &mut Context<'_>) {
        self.receiver.wake(cx);
    }

    fn receive(&mut self, cx: &mut Context<'_>, packet: &SimPacket) {
        if let Payload::Quic(QuicPacket::Data(data)) = packet.payload {
            assert!(self.seen.insert(data.number), "{} twice", data.number);
        }
        self.receiver.receive(cx, packet);
    }
}

/// RFC 9000, section 12.3.
#[test]
fn a_lossy_transfer_arrives_whole_and_no_packet_number_is_used_twice() {
    let settings = Settings::default();
    let mut simulation = Simulation::new(Seed(5));
    let [a, b] = ["a", "b"].map(|name| simulation.node(name));
    let wire = LinkSpec::new(Bandwidth::mbit(20), ms(10)).loss(Loss::Random(Probability::ratio(1, 12)));
    simulation.link(a, b, wire.clone());
    simulation.link(b, a, wire);
    let writer = BulkStreams::new(4, Some(Bytes::new(1_000_003)), &[]);
    let watching = Watching {
        receiver: QuicReceiver::new(&settings),
        seen: BTreeSet::new(),
    };
    let ends: [Box<dyn Agent>; 2] = [
        Box::new(QuicSender::new(&settings, Box::new(writer))),
        Box::new(watching),
    ];
    let flow = simulation
        .flow([a, b], FlowKey::default(), Instant::START, ends)
        .expect("links");
    simulation.run_until(at(120_000));
    let delivered = simulation.delivered(flow, End::Responder).bytes;
    assert_eq!(delivered, Bytes::new(1_000_003));
    let sender = sender(&simulation, flow);
    assert!(sender.finished.is_some() && sender.in_flight() == 0);
    assert!(sender.statistics.lost > 40, "{:?}", sender.statistics);
}

/// Every control of the list fills a link whose buffer overflows, and keeps to its own laws.
#[test]
fn every_congestion_control_works_above_it() {
    for control in CONTROLS {
        let settings = Settings {
            control,
            ..Settings::default()
        };
        let wire = LinkSpec::new(Bandwidth::mbit(20), ms(10)).queue(LinkQueue::TailDrop(Bytes::new(50_000)));
        let bulk = Box::new(BulkStreams::new(1, None, &[]));
        let (mut simulation, flow) = connection(&settings, bulk, wire);
        simulation.run_until(at(20_000));
        let delivered = simulation.delivered(flow, End::Responder).bytes.get();
        let most = 20_000_000 / 8 * 20;
        assert!(delivered > most * 70 / 100, "{}: {delivered}", control.name);
    }
}

/// Goodput of this control at a loss of one in 400 packets, in datagrams per round trip of 100 ms.
fn window_under_loss(control: &'static ControlKind, seconds: u64) -> f64 {
    let settings = Settings {
        control,
        receive_window: Bytes::new(1 << 30),
        ..Settings::default()
    };
    let wire = LinkSpec::new(Bandwidth::gbit(1), ms(50)).loss(Loss::Random(Probability::ratio(1, 400)));
    let bulk = Box::new(BulkStreams::new(1, None, &[]));
    let (mut simulation, flow) = connection(&settings, bulk, wire);
    simulation.run_until(at(1_000 * seconds));
    let delivered = simulation.delivered(flow, End::Responder).bytes.get();
    delivered as f64 / 1_440.0 / (10 * seconds) as f64
}

/// Mathis et al. (1997): a window of √(3/2p), here 24.5 datagrams. CUBIC's own region begins above
/// (RFC 9438, figure of section 5.2): it has more.
#[test]
fn newreno_has_the_window_of_mathis_and_cubic_has_more() {
    let newreno = window_under_loss(&reno::CONTROL, 600);
    let law = (1.5 * 400.0_f64).sqrt();
    assert!((0.85..=1.1).contains(&(newreno / law)), "{newreno} of {law}");
    assert!(window_under_loss(&cubic::CONTROL, 600) > newreno);
    assert!(
        window_under_loss(&bbr3::CONTROL, 30) > 5.0 * newreno,
        "it keeps its rate"
    );
}

#[test]
fn prague_says_ect1_and_gets_every_mark_by_the_counts() {
    let settings = Settings {
        control: &prague::CONTROL,
        ..Settings::default()
    };
    let (mut bench, first) = Bench::established(&settings, None);
    let sent = bench.until(at(190));
    assert!(first.iter().chain(&sent).all(|packet| packet.ecn == Ecn::Ect1));
    bench.now = at(200);
    bench.acknowledge(AckFrame {
        ecn: [0, 4, 1],
        ..ack(0, 4)
    });
    assert_eq!(
        (bench.agent.statistics.marks, bench.agent.is_ecn_capable()),
        (1, true)
    );
    assert!(bench.agent.cwnd() < 11 * FULL);
}

/// Objects of 15 kB, 16 at a time, at a loss of 1 %, by a control that does not slow down for it:
/// the time that half of them keep to.
fn objects_by(streams: bool) -> Duration {
    let model = ObjectModel {
        size: Distribution::fixed(15_000),
        pause: Distribution::fixed(50_000_000),
        objects: 4_000,
        at_once: 16,
    };
    let wire = || LinkSpec::new(Bandwidth::mbit(100), ms(50)).loss(Loss::Random(Probability::ratio(1, 100)));
    if streams {
        let application = Box::new(ObjectStreams::new(&model, Seed(3)));
        let settings = Settings {
            control: &bbr::CONTROL,
            ..Settings::default()
        };
        let (mut simulation, flow) = connection(&settings, application, wire());
        simulation.run_until(at(600_000));
        let sender = sender(&simulation, flow);
        let objects: &ObjectStreams = sender.application().expect("objects");
        assert_eq!(objects.client().times.count(), 4_000);
        return objects.client().times.quantile(500);
    }
    let settings = crate::tcp::Settings {
        control: &bbr::CONTROL,
        ..crate::tcp::Settings::default()
    };
    let writer = crate::tcp::objects::ObjectWriter::new(&model, settings.mss().get(), Seed(3));
    let mut simulation = Simulation::new(Seed(1));
    let [a, b] = ["a", "b"].map(|name| simulation.node(name));
    simulation.link(a, b, wire());
    simulation.link(b, a, LinkSpec::new(Bandwidth::gbit(100), ms(50)));
    let ends = crate::tcp::pair_with(&settings, Box::new(writer));
    let flow = simulation.flow([a, b], FlowKey::default(), Instant::START, ends);
    let flow = flow.expect("links");
    simulation.run_until(at(900_000));
    let sender: &crate::tcp::TcpSender = simulation.agent(flow, End::Initiator).expect("a sender");
    let objects: &crate::tcp::objects::ObjectWriter = sender.application().expect("objects");
    assert_eq!(objects.client().times.count(), 4_000);
    objects.client().times.quantile(500)
}

#[test]
fn losses_delay_objects_of_one_stream_each_less_than_those_of_one_order() {
    let [streams, one_order] = [true, false].map(objects_by);
    assert!(streams + ms(50) < one_order, "{streams:?} {one_order:?}");
}
