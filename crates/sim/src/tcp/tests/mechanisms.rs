//! The mechanisms of the endpoints, one per test. Some tests play the other end by hand.

use super::*;
use crate::agent::{Context, Timer};
use crate::event_queue::EventQueue;
use crate::link::LinkQueue;
use crate::meter::Delivered;
use crate::packet::{ByteRange, Flags, Payload, Segment, SimPacket, Store};
use engine::packet::Ecn;

/// One endpoint alone; the test sets the time and sends the packets.
struct Bench<A> {
    agent: A,
    now: Instant,
    events: EventQueue,
    timer: Timer,
    delivered: Delivered,
}

impl<A: Agent> Bench<A> {
    fn new(agent: A) -> Self {
        Self {
            agent,
            now: Instant::START,
            events: EventQueue::default(),
            timer: Timer::OFF,
            delivered: Delivered::default(),
        }
    }

    /// Calls it, and returns the segments that it sends.
    fn act(&mut self, act: impl FnOnce(&mut A, &mut Context<'_>)) -> Vec<(Segment, Ecn)> {
        let (mut store, mut outbox) = (Store::default(), Vec::new());
        let mut cx = Context {
            now: self.now,
            endpoint: 0,
            events: &mut self.events,
            timer: &mut self.timer,
            store: &mut store,
            outbox: &mut outbox,
            delivered: &mut self.delivered,
        };
        act(&mut self.agent, &mut cx);
        let segments = outbox.iter().map(|&slot| {
            let packet = store.packet(slot);
            match packet.payload {
                Payload::Tcp(segment) => (segment, packet.ecn),
                Payload::Datagram(_) => panic!("not TCP"),
            }
        });
        segments.collect()
    }

    /// Its timer expires.
    fn expire_timer(&mut self) -> Vec<(Segment, Ecn)> {
        self.now = self.timer.due;
        self.timer = Timer::OFF;
        self.act(|agent, cx| agent.wake(cx))
    }

    fn receive(&mut self, after: Duration, ecn: Ecn, segment: Segment) -> Vec<(Segment, Ecn)> {
        self.now = self.now + after;
        let mut packet = SimPacket::new(Bytes::new(66), Payload::Tcp(segment));
        (packet.ecn, packet.sent) = (ecn, self.now);
        self.act(|agent, cx| agent.receive(cx, &packet))
    }
}

impl Bench<TcpSender> {
    /// A sender whose SYN was acknowledged after 100 ms, and the first segments that it sent.
    fn established(settings: &Settings) -> (Self, Vec<(Segment, Ecn)>) {
        let program = application::BulkWriter::new(settings.total, &settings.active);
        let mut bench = Self::new(TcpSender::new(settings, Box::new(program)));
        let syn = bench.act(|sender, cx| sender.wake(cx));
        assert!(syn.len() == 1 && syn[0].0.flags.syn);
        let answer = Segment {
            window: settings.receive_window.get(),
            flags: Flags {
                syn: true,
                ece: settings.ecn,
                ..Flags::default()
            },
            echo: Some(bench.now),
            ..Segment::default()
        };
        let first = bench.receive(ms(100), Ecn::NotEct, answer);
        (bench, first)
    }

    /// An ACK up to this segment, with one SACK block of segments.
    fn acknowledge(
        &mut self,
        after: Duration,
        ack: u64,
        block: (u64, u64),
        ece: bool,
    ) -> Vec<(Segment, Ecn)> {
        let segment = Segment {
            ack: ack * MSS,
            window: 1 << 30,
            sack: [
                ByteRange::new(block.0 * MSS, block.1 * MSS),
                ByteRange::default(),
                ByteRange::default(),
            ],
            flags: Flags {
                ece,
                ..Flags::default()
            },
            echo: Some(self.now + after - ms(100)),
            ..Segment::default()
        };
        self.receive(after, Ecn::NotEct, segment)
    }
}

fn data(number: u64) -> Segment {
    Segment {
        seq: number * MSS,
        len: MSS as u32,
        ..Segment::default()
    }
}

#[test]
fn a_file_arrives_whole_and_the_connection_ends() {
    let settings = Settings {
        total: Some(Bytes::new(1_000_000)),
        ..Settings::default()
    };
    let link = LinkSpec::new(Bandwidth::mbit(10), ms(10)).queue(LinkQueue::TailDrop(Bytes::new(30_000)));
    let (mut simulation, flow) = connection(&settings, link);
    simulation.run_until(at(ms(3_000)));
    assert_eq!(
        simulation.delivered(flow, End::Responder).bytes,
        Bytes::new(1_000_000)
    );
    let sender = sender(&simulation, flow);
    assert!(sender.finished.is_some());
    assert!(sender.statistics.retransmissions > 0);
    assert_eq!(sender.statistics.timeouts, 0);
    assert!(receiver(&simulation, flow).finished < sender.finished);
    assert_eq!(simulation.in_flight(), 0);
}

#[test]
fn slow_start_doubles_cwnd_every_round_trip_also_with_delayed_acks() {
    for delayed_ack in [false, true] {
        let settings = Settings {
            delayed_ack,
            ..Settings::default()
        };
        let (mut simulation, flow) = connection(&settings, LinkSpec::new(Bandwidth::gbit(100), ms(50)));
        for (round, segments) in [(1, 10), (2, 20), (3, 40), (4, 80), (5, 160)] {
            simulation.run_until(at(ms(100 * round + 50)));
            assert_eq!(sender(&simulation, flow).cwnd() / MSS, segments);
        }
    }
}

#[test]
fn timeouts_back_off_and_restart_with_one_segment() {
    let (mut bench, first) = Bench::established(&Settings::default());
    assert_eq!(first.len(), 10);
    let sent = bench.now;
    let mut times = Vec::new();
    for _ in 0..5 {
        let again = bench.expire_timer();
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].0.seq, 0);
        times.push(bench.now.since(sent).nanos() / 1_000_000);
    }
    // RFC 6298: SRTT 100 ms, RTTVAR 50 ms, so 300 ms, then twice, four times …
    assert_eq!(times, [300, 900, 2_100, 4_500, 9_300]);
    assert_eq!(bench.agent.statistics.timeouts, 5);
    assert_eq!(bench.agent.cwnd(), MSS);
    // An ACK lets slow start retransmit what was lost, and ends the backoff.
    let more = bench.acknowledge(ms(100), 1, (0, 0), false);
    assert_eq!(more.iter().map(|(s, _)| s.seq / MSS).collect::<Vec<_>>(), [1, 2]);
    assert!(bench.timer.due < bench.now + ms(400));
}

#[test]
fn a_segment_is_retransmitted_after_three_sacked_segments_and_no_sooner() {
    let (mut bench, _) = Bench::established(&Settings::default());
    for (arrived, expected) in [(2, 10), (3, 11)] {
        // Limited transmit: SACKed data makes room for new data.
        let sent = bench.acknowledge(ms(1), 0, (1, arrived), false);
        assert_eq!(
            sent.iter().map(|(s, _)| s.seq / MSS).collect::<Vec<_>>(),
            [expected]
        );
    }
    let sent = bench.acknowledge(ms(1), 0, (1, 4), false);
    assert_eq!(sent[0].0.seq, 0);
    assert_eq!(bench.agent.statistics.recoveries, 1);
    assert_eq!(bench.agent.cwnd(), 5 * MSS);
}

#[test]
fn marks_halve_cwnd_once_per_window_and_retransmit_nothing() {
    let settings = Settings {
        ecn: true,
        ..Settings::default()
    };
    let (mut bench, first) = Bench::established(&settings);
    assert!(first.iter().all(|(_, ecn)| *ecn == Ecn::Ect0));
    bench.acknowledge(ms(100), 2, (0, 0), true);
    assert_eq!(bench.agent.cwnd(), 5 * MSS);
    bench.acknowledge(ms(1), 4, (0, 0), true);
    let next = bench.acknowledge(ms(1), 6, (0, 0), true);
    assert_eq!(bench.agent.cwnd(), 5 * MSS);
    assert!(next[0].0.flags.cwr && next.len() == 1);
    assert!(!bench.acknowledge(ms(1), 8, (0, 0), true)[0].0.flags.cwr);
    bench.acknowledge(ms(100), 11, (0, 0), true);
    assert_eq!(bench.agent.cwnd(), 5 * MSS / 2);
    assert_eq!(bench.agent.statistics.marks, 2);
    assert_eq!(bench.agent.statistics.retransmissions, 0);
}

#[test]
fn ece_is_set_from_a_mark_until_cwr() {
    let settings = Settings {
        ecn: true,
        ..Settings::default()
    };
    let mut bench = Bench::new(TcpReceiver::new(&settings));
    let marked = bench.receive(ms(1), Ecn::Ce, data(0));
    assert!(marked[0].0.flags.ece, "at once");
    bench.receive(ms(1), Ecn::Ect0, data(1));
    assert!(bench.receive(ms(1), Ecn::Ect0, data(2))[0].0.flags.ece);
    let mut slowed = data(3);
    slowed.flags.cwr = true;
    bench.receive(ms(1), Ecn::Ect0, slowed);
    assert!(!bench.receive(ms(1), Ecn::Ect0, data(4))[0].0.flags.ece);
}

#[test]
fn every_second_segment_is_acknowledged_a_lone_one_after_40_ms_and_disorder_at_once() {
    let mut bench = Bench::new(TcpReceiver::new(&Settings::default()));
    assert!(bench.receive(ms(1), Ecn::NotEct, data(0)).is_empty());
    let both = bench.receive(ms(1), Ecn::NotEct, data(1));
    assert_eq!(both[0].0.ack, 2 * MSS);
    assert_eq!(
        both[0].0.echo,
        Some(at(ms(1))),
        "the earliest that is not acknowledged"
    );
    assert!(bench.receive(ms(1), Ecn::NotEct, data(2)).is_empty());
    assert_eq!(bench.timer.due.since(bench.now), DELAYED_ACK);
    assert_eq!(bench.expire_timer()[0].0.ack, 3 * MSS);
    let disorder = [
        (5, (5, 6)),
        (4, (4, 6)),
        (8, (8, 9)),
        (10, (10, 11)),
        (12, (12, 13)),
        (9, (8, 11)),
    ];
    for (number, block) in disorder {
        let answer = bench.receive(ms(1), Ecn::NotEct, data(number));
        assert_eq!(answer[0].0.ack, 3 * MSS);
        assert_eq!(
            answer[0].0.sack[0],
            ByteRange::new(block.0 * MSS, block.1 * MSS),
            "the latest first"
        );
    }
    let filled = bench.receive(ms(1), Ecn::NotEct, data(3));
    assert_eq!(filled[0].0.ack, 6 * MSS);
    let left = [
        ByteRange::new(8 * MSS, 11 * MSS),
        ByteRange::new(12 * MSS, 13 * MSS),
        ByteRange::default(),
    ];
    assert_eq!(filled[0].0.sack, left);
    assert_eq!(bench.delivered.bytes, Bytes::new(6 * MSS));
}

use receiver::DELAYED_ACK;

#[test]
fn several_losses_in_a_window_are_repaired_in_one_round_trip_without_a_timeout() {
    let settings = Settings {
        initial_window: 40,
        total: Some(Bytes::new(400 * MSS)),
        ..Settings::default()
    };
    let link = LinkSpec::new(Bandwidth::gbit(100), ms(50)).loss(crate::link::Loss::Every(15));
    let (mut simulation, flow) = connection(&settings, link);
    simulation.run_until(at(ms(210)));
    let first = sender(&simulation, flow).statistics;
    assert_eq!(
        (first.recoveries, first.retransmissions),
        (1, 2),
        "of the first 40"
    );
    simulation.run_until(at(ms(60_000)));
    assert_eq!(
        simulation.delivered(flow, End::Responder).bytes,
        Bytes::new(400 * MSS)
    );
    assert!(sender(&simulation, flow).finished.is_some());
}

#[test]
fn a_lost_retransmission_is_detected_when_later_segments_arrive() {
    let (mut bench, _) = Bench::established(&Settings::default());
    let again = bench.acknowledge(ms(100), 0, (1, 4), false);
    assert_eq!(again[0].0.seq, 0);
    // Later segments arrive, the retransmission does not.
    bench.acknowledge(ms(40), 0, (1, 6), false);
    bench.acknowledge(ms(40), 0, (1, 9), false);
    let sent = bench.acknowledge(ms(60), 0, (1, 11), false);
    assert!(sent.iter().any(|(s, _)| s.seq == 0), "{sent:?}");
    assert_eq!(bench.agent.statistics.timeouts, 0);
}

#[test]
fn the_receive_window_limits_what_is_in_flight() {
    let settings = Settings {
        receive_window: Bytes::new(20 * MSS + 100),
        ..Settings::default()
    };
    let (mut simulation, flow) = connection(&settings, LinkSpec::new(Bandwidth::gbit(100), ms(50)));
    simulation.run_until(at(ms(2_000)));
    let then = simulation.delivered(flow, End::Responder).bytes;
    simulation.run_until(at(ms(4_000)));
    let per_round = (simulation.delivered(flow, End::Responder).bytes - then).get() / 20;
    assert!((19 * MSS..=21 * MSS).contains(&per_round), "{per_round}");
    // An unused cwnd does not grow, except that slow start may double one that is half used.
    assert!(sender(&simulation, flow).cwnd() <= 42 * MSS);
}

#[test]
fn a_slow_reader_closes_the_window_and_opens_it_again() {
    let settings = Settings {
        receive_window: Bytes::new(50_000),
        read_rate: Some(Bandwidth::mbit(8)),
        total: Some(Bytes::new(2_000_000)),
        ..Settings::default()
    };
    let (mut simulation, flow) = connection(&settings, LinkSpec::new(Bandwidth::mbit(100), ms(5)));
    simulation.run_until(at(ms(1_000)));
    let got = simulation.delivered(flow, End::Responder).bytes.get();
    assert!((930_000..=1_060_000).contains(&got), "{got}");
    simulation.run_until(at(ms(2_100)));
    let sender = sender(&simulation, flow);
    assert!(sender.finished.is_some());
    assert_eq!(sender.statistics.timeouts + sender.statistics.retransmissions, 0);
}

#[test]
fn an_application_writes_in_its_spans_only_and_an_idle_restart_reduces_cwnd() {
    let span = |from, to| (at(ms(from)), at(ms(to)));
    let settings = Settings {
        active: vec![span(0, 1_000), span(3_000, 3_500)],
        ..Settings::default()
    };
    let (mut simulation, flow) = connection(&settings, LinkSpec::new(Bandwidth::gbit(1), ms(50)));
    let mut got = Vec::new();
    let mut windows = Vec::new();
    for end in [1_200, 2_999, 3_110, 5_000, 6_000] {
        simulation.run_until(at(ms(end)));
        got.push(simulation.delivered(flow, End::Responder).bytes);
        windows.push(sender(&simulation, flow).cwnd());
    }
    assert!(got[0] > Bytes::ZERO && got[1] == got[0]);
    assert!(got[2] > got[1] && got[4] == got[3]);
    assert!(windows[2] < windows[1] / 4, "{windows:?}");
    assert!(sender(&simulation, flow).finished.is_some());
}

#[test]
fn responses_follow_each_other_after_their_pause() {
    let settings = Settings::default();
    let answers = application::ResponseWriter::new(5, Bytes::new(10 * MSS), ms(500));
    let mut simulation = Simulation::new(Seed(1));
    let [a, b] = ["a", "b"].map(|name| simulation.node(name));
    simulation.duplex(a, b, &LinkSpec::new(Bandwidth::gbit(1), ms(50)));
    let ends = pair_with(&settings, Box::new(answers));
    let flow = simulation
        .flow([a, b], FlowKey::default(), Instant::START, ends)
        .expect("links");
    // The handshake and five round trips, four pauses, and the last ACK.
    simulation.run_until(at(ms(600 + 4 * 500 - 60)));
    assert_eq!(
        simulation.delivered(flow, End::Responder).bytes,
        Bytes::new(40 * MSS)
    );
    simulation.run_until(at(ms(600 + 4 * 500 + 20)));
    assert_eq!(
        simulation.delivered(flow, End::Responder).bytes,
        Bytes::new(50 * MSS)
    );
    assert!(sender(&simulation, flow).finished.is_some());
}

#[test]
fn a_lost_syn_is_retransmitted_and_cwnd_begins_with_one_segment() {
    let settings = Settings::default();
    let program = application::BulkWriter::new(None, &[]);
    let mut bench = Bench::new(TcpSender::new(&settings, Box::new(program)));
    bench.act(|sender, cx| sender.wake(cx));
    let again = bench.expire_timer();
    assert!(again[0].0.flags.syn);
    assert_eq!(bench.now, at(ms(1_000)));
    let answer = Segment {
        window: 1 << 20,
        flags: Flags {
            syn: true,
            ..Flags::default()
        },
        echo: Some(bench.now),
        ..Segment::default()
    };
    assert_eq!(bench.receive(ms(100), Ecn::NotEct, answer).len(), 1);
}

#[test]
fn ten_thousand_losses_are_repaired_in_one_recovery_without_a_needless_retransmission() {
    let settings = Settings {
        receive_window: Bytes::new(1 << 30),
        ..Settings::default()
    };
    let link =
        LinkSpec::new(Bandwidth::mbit(2_500), ms(50)).queue(LinkQueue::TailDrop(Bytes::new(15_000_000)));
    let (mut simulation, flow) = connection(&settings, link);
    simulation.run_until(at(ms(2_500)));
    let counts = sender(&simulation, flow).statistics;
    assert!(counts.retransmissions > 8_000, "{counts:?}");
    assert_eq!((counts.recoveries, counts.timeouts), (1, 0));
    assert_eq!(receiver(&simulation, flow).duplicate_bytes, 0);
}
