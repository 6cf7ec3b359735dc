//! The mechanisms of the endpoints, one per test. Some tests play the other end by hand.

use super::*;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use crate::agent::Context;
use crate::agent::alone::Alone;
use crate::link::LinkQueue;
use crate::packet::{ByteRange, Flags, Payload, Segment, SimPacket};
use crate::tcp::pages::{PageConnection, PageModel};
use crate::tcp::responses::ResponseWriter;
use engine::packet::Ecn;
use engine::random::Seed;
use measure::distribution::Distribution;

/// One endpoint alone; the test sets the time and sends the packets.
pub(super) struct Bench<A> {
    alone: Alone<A>,
    /// When each segment with data was sent last.
    sent: BTreeMap<u64, Instant>,
}

impl<A: Agent> Bench<A> {
    pub(super) fn new(agent: A) -> Self {
        Self {
            alone: Alone::new(agent),
            sent: BTreeMap::new(),
        }
    }

    /// Calls it, and returns the segments that it sends.
    fn act(&mut self, act: impl FnOnce(&mut A, &mut Context<'_>)) -> Vec<(Segment, Ecn)> {
        let packets = self.alone.act(act);
        self.segments(&packets)
    }

    /// The segments among these, which it has sent now.
    fn segments(&mut self, packets: &[SimPacket]) -> Vec<(Segment, Ecn)> {
        let segment = |packet: &SimPacket| match packet.payload {
            Payload::Tcp(segment) => (segment, packet.ecn),
            _ => panic!("not TCP"),
        };
        let segments: Vec<(Segment, Ecn)> = packets.iter().map(segment).collect();
        let sent = segments
            .iter()
            .map(|(segment, _)| (segment.seq / MSS, self.alone.now));
        self.sent.extend(sent);
        segments
    }

    /// Its timer expires.
    pub(super) fn expire_timer(&mut self) -> Vec<(Segment, Ecn)> {
        let packets = self.alone.expire_timer();
        self.segments(&packets)
    }

    pub(super) fn receive(&mut self, after: Duration, ecn: Ecn, segment: Segment) -> Vec<(Segment, Ecn)> {
        self.alone.now = self.alone.now + after;
        let packets = self.alone.arrive(ecn, Bytes::new(66), Payload::Tcp(segment));
        self.segments(&packets)
    }
}

impl<A> Deref for Bench<A> {
    type Target = Alone<A>;

    fn deref(&self) -> &Alone<A> {
        &self.alone
    }
}

impl<A> DerefMut for Bench<A> {
    fn deref_mut(&mut self) -> &mut Alone<A> {
        &mut self.alone
    }
}

impl Bench<TcpSender> {
    /// A sender whose SYN was acknowledged after 100 ms, and the first segments that it sent.
    pub(super) fn established(settings: &Settings) -> (Self, Vec<(Segment, Ecn)>) {
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

    /// An ACK up to this segment, with one SACK block of segments; the last of these is the one
    /// that has just arrived.
    pub(super) fn acknowledge(
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
            echo: self.sent.range(..block.1.max(ack)).next_back().map(|(_, at)| *at),
            ..Segment::default()
        };
        self.receive(after, Ecn::NotEct, segment)
    }
}

pub(super) fn data(number: u64) -> Segment {
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
    let settings = Settings {
        tlp: false,
        ..Settings::default()
    };
    let (mut bench, first) = Bench::established(&settings);
    assert_eq!(first.len(), 10);
    let sent = bench.now;
    let mut times = Vec::new();
    for _ in 0..5 {
        let again = bench.expire_timer();
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].0.seq, 0);
        times.push(bench.now.since(sent).nanos() / 1_000_000);
    }
    // SRTT 100 ms, RTTVAR 50 ms, so 300 ms by both rules, then twice, four times …
    assert_eq!(times, [300, 900, 2_100, 4_500, 9_300]);
    assert_eq!(bench.agent.statistics.timeouts, 5);
    assert_eq!(bench.agent.cwnd(), MSS);
    // An ACK lets slow start retransmit what was lost, and ends the backoff.
    let more = bench.acknowledge(ms(100), 1, (0, 0), false);
    assert_eq!(more.iter().map(|(s, _)| s.seq / MSS).collect::<Vec<_>>(), [1, 2]);
    assert!(bench.timer.due < bench.now + ms(400));
}

/// Slow start overflows a buffer of 4 MiB on a path of 500 Mbit/s and 200 ms, behind a host's link
/// of 1 Gbit/s. The RTT was 200 ms until then. Timeouts, and needless retransmissions in segments.
fn overflow(settings: &Settings) -> [u64; 2] {
    let settings = Settings {
        initial_window: 2,
        receive_window: Bytes::new(32 << 20),
        ..settings.clone()
    };
    let mut simulation = Simulation::new(Seed(1));
    let [host, router, far] = ["host", "router", "far"].map(|name| simulation.node(name));
    simulation.link(host, router, LinkSpec::new(Bandwidth::gbit(1), Duration::ZERO));
    let narrow = LinkSpec::new(Bandwidth::mbit(500), ms(100));
    simulation.link(
        router,
        far,
        narrow.queue(LinkQueue::TailDrop(Bytes::new(4 << 20))),
    );
    simulation.link(far, host, LinkSpec::new(Bandwidth::gbit(1), ms(100)));
    let flow = simulation
        .flow([host, far], FlowKey::default(), Instant::START, pair(&settings))
        .expect("links");
    simulation.run_until(at(ms(20_000)));
    let counts = sender(&simulation, flow).statistics;
    assert!(counts.retransmissions > 1_000, "{counts:?}");
    [counts.timeouts, receiver(&simulation, flow).duplicate_bytes / MSS]
}

#[test]
fn an_overflow_on_a_200_ms_path_does_not_time_out_spuriously() {
    assert_eq!(overflow(&Settings::default()), [0, 0]);
    let without_rack = Settings {
        rack: false,
        tlp: false,
        ..Settings::default()
    };
    assert_eq!(overflow(&without_rack), [0, 0], "the timer alone");
}

#[test]
fn rfc_6298s_timeout_with_a_least_of_200_ms_expires_there() {
    let settings = Settings {
        rto: RtoRule::Rfc6298,
        min_rto: Some(ms(200)),
        rack: false,
        tlp: false,
        ..Settings::default()
    };
    // Retransmissions are dropped, too; the ACKs that would show it come after the timeout.
    assert!(overflow(&settings)[0] > 0);
}

#[test]
fn the_last_segments_of_a_transfer_are_repaired_by_a_probe_without_a_timeout() {
    let settings = Settings {
        total: Some(Bytes::new(10 * MSS)),
        ..Settings::default()
    };
    for (tlp, timeouts) in [(true, 0), (false, 1)] {
        let (mut bench, first) = Bench::established(&Settings {
            tlp,
            ..settings.clone()
        });
        assert_eq!(first.len(), 10);
        // Segments 8 and 9 are lost, with the FIN; nothing comes after them.
        bench.acknowledge(ms(100), 8, (0, 0), false);
        let sent = bench.now;
        let again = bench.expire_timer();
        assert_eq!(
            again[0].0.seq / MSS,
            if tlp { 9 } else { 8 },
            "the last, or the first lost"
        );
        let waited = bench.now.since(sent);
        // Two round trips and two jiffies; or SRTT 100 ms and 200 ms.
        assert_eq!(waited, if tlp { ms(202) } else { ms(300) });
        if tlp {
            assert!(again[0].0.flags.fin);
            let repair = bench.acknowledge(ms(100), 8, (9, 11), false);
            assert_eq!(repair[0].0.seq, 8 * MSS, "its SACK shows the other loss");
        }
        let end = bench.acknowledge(ms(100), 11, (0, 0), false);
        assert!(end.is_empty() && bench.agent.finished.is_some());
        let counts = bench.agent.statistics;
        assert_eq!((counts.timeouts, counts.loss_probes), (timeouts, u64::from(tlp)));
        assert_eq!(counts.recoveries, u64::from(tlp));
    }
}

#[test]
fn a_probe_that_was_needless_costs_nothing_and_one_that_repaired_a_loss_counts_as_congestion() {
    for duplicate in [true, false] {
        let settings = Settings {
            active: vec![(at(ms(0)), at(ms(150))), (at(ms(420)), at(ms(9_000)))],
            ..Settings::default()
        };
        let (mut bench, first) = Bench::established(&settings);
        assert_eq!(first.len(), 10);
        bench.now = at(ms(160));
        bench.act(|sender, cx| sender.wake(cx));
        let probe = bench.expire_timer();
        assert_eq!((probe.len(), probe[0].0.seq / MSS), (1, 9));
        bench.acknowledge(ms(50), 10, (0, 0), false);
        if duplicate {
            bench.acknowledge(ms(50), 10, (9, 10), false);
        }
        let before = bench.agent.cwnd();
        bench.now = at(ms(420));
        let more = bench.act(|sender, cx| sender.wake(cx));
        assert!(!more.is_empty());
        bench.acknowledge(ms(100), 11, (0, 0), false);
        let (now, halved) = (bench.agent.cwnd(), before / 2 + MSS);
        assert_eq!(now < halved, !duplicate, "{now} of {before}");
    }
}

#[test]
fn one_sacked_segment_is_a_loss_after_a_quarter_of_the_least_rtt() {
    for rack in [true, false] {
        let settings = Settings {
            rack,
            tlp: false,
            ..Settings::default()
        };
        let (mut bench, _) = Bench::established(&settings);
        bench.acknowledge(ms(100), 0, (1, 2), false);
        assert_eq!(
            bench.agent.statistics.recoveries, 0,
            "not at once: it may be reordering"
        );
        let sent = bench.now;
        let again = bench.expire_timer();
        assert_eq!(again[0].0.seq, 0);
        // 25 ms and two jiffies; else the timeout, which begins with the flight.
        let waited = bench.now.since(sent);
        assert_eq!(waited, if rack { ms(27) } else { ms(200) });
        let counts = bench.agent.statistics;
        assert_eq!(
            (counts.recoveries, counts.timeouts),
            if rack { (1, 0) } else { (0, 1) }
        );
    }
}

#[test]
fn a_duplicate_is_reported_once_before_what_is_out_of_order() {
    let mut bench = Bench::new(TcpReceiver::new(&Settings::default()));
    bench.receive(ms(1), Ecn::NotEct, data(0));
    bench.receive(ms(1), Ecn::NotEct, data(1));
    bench.receive(ms(1), Ecn::NotEct, data(4));
    let answer = bench.receive(ms(1), Ecn::NotEct, data(1))[0].0;
    assert_eq!(answer.duplicate(), Some(ByteRange::new(MSS, 2 * MSS)));
    assert_eq!(answer.sack[1], ByteRange::new(4 * MSS, 5 * MSS));
    let within = bench.receive(ms(1), Ecn::NotEct, data(4))[0].0;
    assert_eq!(within.duplicate(), Some(ByteRange::new(4 * MSS, 5 * MSS)));
    assert_eq!(bench.receive(ms(1), Ecn::NotEct, data(6))[0].0.duplicate(), None);
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
fn the_ack_of_the_last_byte_before_cwr_does_not_reduce_cwnd_again() {
    let settings = Settings {
        ecn: true,
        ..Settings::default()
    };
    let (mut bench, _) = Bench::established(&settings);
    bench.acknowledge(ms(100), 10, (0, 0), true);
    assert_eq!(bench.agent.cwnd(), 5 * MSS);
    // CWR is under way with segment 10, so the receiver still says ECE.
    bench.acknowledge(ms(100), 10, (0, 0), true);
    assert_eq!(bench.agent.cwnd(), 5 * MSS);
    bench.acknowledge(ms(1), 12, (0, 0), false);
    assert!(bench.agent.cwnd() >= 5 * MSS);
    assert_eq!(bench.agent.statistics.marks, 1);
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

#[test]
fn of_what_a_card_hands_over_together_the_last_alone_is_acknowledged_if_so_configured() {
    let mut bench = Bench::new(TcpReceiver::new(&Settings {
        ack_per_batch: true,
        ..Settings::default()
    }));
    for number in 0..5 {
        assert!(
            bench
                .receive(Duration::ZERO, Ecn::NotEct, data(number))
                .is_empty()
        );
    }
    assert_eq!(bench.timer.due, bench.now);
    assert_eq!(bench.expire_timer()[0].0.ack, 5 * MSS);
    assert!(bench.receive(ms(1), Ecn::NotEct, data(5)).is_empty());
    assert_eq!(bench.timer.due.since(bench.now), DELAYED_ACK, "a lone one waits");
    let disorder = bench.receive(Duration::ZERO, Ecn::NotEct, data(7));
    assert_eq!(disorder[0].0.ack, 6 * MSS, "what is out of order does not");
}

#[test]
fn acks_of_batches_make_slow_start_as_slow_as_they_are_few() {
    let settings = Settings {
        ack_per_batch: true,
        byte_counting: false,
        ..Settings::default()
    };
    // Eight segments arrive together.
    let every = Duration::from_micros(8 * 120);
    let link = LinkSpec::new(Bandwidth::mbit(100), ms(50)).interrupts(every);
    let (mut simulation, flow) = connection(&settings, link);
    simulation.run_until(at(Duration::from_secs(2)));
    let (few, segments) = {
        let receiver = receiver(&simulation, flow);
        (receiver.acks, receiver.segments)
    };
    assert!(
        (5 * few..=9 * few).contains(&segments),
        "{few} ACKs of {segments}"
    );
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

/// RFC 9293, section 3.10.7.4: the window of an ACK of new data counts, and that of another only if
/// its right edge is further.
#[test]
fn a_window_shrinks_with_an_ack_of_new_data_and_with_no_other() {
    let settings = Settings {
        initial_window: 4,
        ..Settings::default()
    };
    let (mut bench, first) = Bench::established(&settings);
    assert_eq!(first.len(), 4);
    let ack = |segments: u64, window: u64| Segment {
        ack: segments * MSS,
        window,
        ..Segment::default()
    };
    assert!(
        bench.receive(ms(100), Ecn::NotEct, ack(2, 2 * MSS)).is_empty(),
        "two are in flight"
    );
    assert_eq!(
        bench.receive(ms(1), Ecn::NotEct, ack(3, 2 * MSS)).len(),
        1,
        "the edge is at five"
    );
    assert!(
        bench.receive(ms(1), Ecn::NotEct, ack(3, 0)).is_empty(),
        "nothing new is acknowledged"
    );
    assert_eq!(
        bench.receive(ms(100), Ecn::NotEct, ack(5, 2 * MSS)).len(),
        2,
        "the edge is at seven"
    );
}

/// RFC 9293, section 3.8.6.2.1.
#[test]
fn a_part_of_a_segment_waits_for_a_timeout_if_the_window_was_ever_much_wider() {
    let settings = Settings {
        initial_window: 2,
        ..Settings::default()
    };
    let (mut bench, first) = Bench::established(&settings);
    assert_eq!(first.len(), 2);
    let ack = Segment {
        ack: 2 * MSS,
        window: MSS / 4,
        ..Segment::default()
    };
    assert!(bench.receive(ms(100), Ecn::NotEct, ack).is_empty());
    let part = bench.expire_timer();
    assert_eq!(part.len(), 1);
    assert_eq!((part[0].0.seq, u64::from(part[0].0.len)), (2 * MSS, MSS / 4));
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
    let always = Distribution::fixed;
    let model = PageModel {
        pages: 5,
        think: always(ms(500).nanos()),
        ..PageModel::of(always(10 * MSS))
    };
    let [answers] = &model.connections(Seed(1))[..] else {
        panic!("one connection");
    };
    let answers = ResponseWriter::new(answers.clone());
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
    // The client closes when it has the last response: it is counted, too.
    simulation.run_until(at(ms(700 + 4 * 500 + 20)));
    assert!(sender(&simulation, flow).finished.is_some());
    let answers = sender(&simulation, flow).application::<ResponseWriter<PageConnection>>();
    let took = answers.expect("its application").client().load_times();
    assert_eq!(took.len(), 5);
    assert!(
        took.iter().all(|took| (ms(100)..ms(102)).contains(took)),
        "{took:?}"
    );
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
