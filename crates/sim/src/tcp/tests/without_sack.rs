//! Recovery without SACK, step by step: RFC 6582 (section 3.2) and RFC 5681 (section 3.2), and what
//! Linux 2.4 made of them.

use super::mechanisms::{Bench, data};
use super::*;
use crate::link::LinkQueue;
use crate::packet::Segment;
use engine::packet::Ecn;

/// ssthresh is half of ten segments after a loss.
const SSTHRESH: u64 = 5;

fn without_sack(recovery: Recovery) -> Settings {
    Settings {
        recovery,
        control: &reno::CONTROL,
        ..Settings::default()
    }
}

fn numbers(sent: &[(Segment, Ecn)]) -> Vec<u64> {
    sent.iter().map(|(segment, _)| segment.seq / MSS).collect()
}

/// A connection with segments 0 to 9 in the network.
fn ten_out(settings: &Settings) -> Bench<TcpSender> {
    let (bench, first) = Bench::established(settings);
    assert_eq!(numbers(&first), (0..10).collect::<Vec<_>>());
    bench
}

impl Bench<TcpSender> {
    /// An ACK without SACK.
    fn ack(&mut self, after: Duration, up_to: u64) -> Vec<u64> {
        numbers(&self.acknowledge(after, up_to, (0, 0), false))
    }

    /// So many of the same.
    fn acks(&mut self, up_to: u64, count: usize) -> Vec<Vec<u64>> {
        (0..count).map(|_| self.ack(ms(1), up_to)).collect()
    }
}

#[test]
fn the_third_duplicate_retransmits_and_the_first_two_let_new_data_go() {
    for recovery in [Recovery::NewReno, Recovery::Linux24] {
        let mut bench = ten_out(&without_sack(recovery));
        // The window was advertised smaller at first: that ACK is no duplicate.
        assert_eq!(bench.ack(ms(100), 0), []);
        // Limited transmit (RFC 3042), then fast retransmit (RFC 5681, section 3.2, steps 1 to 3).
        assert_eq!(bench.acks(0, 3), [vec![10], vec![11], vec![0]]);
        assert_eq!(bench.agent.statistics.recoveries, 1);
        assert_eq!(bench.agent.statistics.timeouts, 0);
    }
}

#[test]
fn newreno_inflates_deflates_and_retransmits_with_each_partial_ack() {
    let mut bench = ten_out(&without_sack(Recovery::NewReno));
    bench.ack(ms(100), 0);
    bench.acks(0, 3);
    assert_eq!(bench.agent.cwnd(), SSTHRESH * MSS, "step 2: half of FlightSize");
    // Step 3: cwnd is ssthresh and three segments; 12 are outstanding. Step 4: each duplicate adds
    // one, so the eighth lets one go, and each from there.
    assert_eq!(bench.acks(0, 4), vec![Vec::<u64>::new(); 4]);
    assert_eq!(bench.acks(0, 3), [[12], [13], [14]]);
    // Segment 4 was lost, too. cwnd is 5 + 10, less the 4 that are acknowledged, and one; 11 are
    // outstanding: the hole is filled, and one follows.
    assert_eq!(bench.ack(ms(90), 4), [4, 15]);
    assert_eq!(bench.agent.statistics.recoveries, 1, "cwnd is not reduced again");
    // Segments 12 to 14 arrive above the hole.
    assert_eq!(bench.acks(4, 3), [[16], [17], [18]]);
    // All that was outstanding at first is acknowledged: cwnd is ssthresh.
    assert_eq!(bench.ack(ms(90), 15), [19]);
    assert_eq!(bench.agent.cwnd(), SSTHRESH * MSS);
    assert_eq!(bench.agent.pipe(), SSTHRESH * MSS);
}

#[test]
fn newreno_sends_all_of_ssthresh_in_one_burst_once_everything_is_repaired() {
    let mut bench = ten_out(&without_sack(Recovery::NewReno));
    bench.ack(ms(100), 0);
    // Segment 0 and its like are lost with all ACKs but three.
    bench.acks(0, 3);
    assert_eq!(bench.ack(ms(90), 12), [12, 13, 14, 15, 16]);
}

/// Three of twelve segments arrived: for how long the timer runs after each of two partial ACKs.
fn partial_acks(recovery: Recovery) -> (Bench<TcpSender>, [Duration; 2]) {
    let mut bench = ten_out(&without_sack(recovery));
    bench.ack(ms(100), 0);
    bench.acks(0, 3);
    let left = [1, 2].map(|up_to| {
        let sent = bench.ack(ms(100), up_to);
        assert_eq!(sent.first(), Some(&up_to), "the next hole");
        bench.timer.due.since(bench.now)
    });
    (bench, left)
}

#[test]
fn newrenos_timer_starts_anew_with_the_first_partial_ack_alone() {
    let (mut bench, [first, second]) = partial_acks(Recovery::NewReno);
    assert_eq!(first - second, ms(100), "section 4: impatient");
    let again = bench.expire_timer();
    assert_eq!(numbers(&again), [2]);
    assert_eq!(bench.agent.statistics.timeouts, 1);
}

#[test]
fn linux_24s_timer_starts_anew_with_every_partial_ack() {
    let (bench, [first, second]) = partial_acks(Recovery::Linux24);
    assert!(second + ms(50) > first, "{first} {second}");
    assert_eq!(bench.agent.statistics.timeouts, 0);
}

#[test]
fn after_a_timeout_everything_goes_again_but_what_acks_forestall() {
    for recovery in [Recovery::NewReno, Recovery::Linux24] {
        let mut bench = ten_out(&without_sack(recovery));
        assert_eq!(numbers(&bench.expire_timer()), [0]);
        assert_eq!(bench.agent.cwnd(), MSS, "RFC 5681, section 3.1: the loss window");
        assert_eq!(bench.ack(ms(100), 1), [1, 2]);
        // Segment 3 had arrived: go-back-N jumps over it.
        assert_eq!(bench.ack(ms(100), 4), [4, 5, 6, 7]);
        // Section 3.2, step 2: what these echo is older than the timeout.
        assert_eq!(bench.acks(4, 5), vec![Vec::<u64>::new(); 5]);
        bench.ack(ms(100), 10);
        let up_to_recover = bench.acks(10, 5);
        assert!(
            up_to_recover.iter().flatten().all(|&number| number > 10),
            "{up_to_recover:?}"
        );
        assert_eq!(bench.agent.statistics.recoveries, 0);
        // Beyond it three duplicates count again.
        bench.ack(ms(100), 11);
        let again: Vec<u64> = bench.acks(11, 3).concat();
        assert!(again.contains(&11), "{again:?}");
        assert_eq!(bench.agent.statistics.recoveries, 1);
    }
}

#[test]
fn linux_24_takes_a_segment_off_cwnd_with_every_second_ack() {
    let settings = Settings {
        initial_window: 40,
        ..without_sack(Recovery::Linux24)
    };
    let (mut bench, _) = Bench::established(&settings);
    bench.ack(ms(100), 0);
    bench.acks(0, 3);
    let sent: Vec<usize> = bench.acks(0, 30).iter().map(Vec::len).collect();
    assert!(
        sent.chunks(2).all(|two| two.iter().sum::<usize>() == 1),
        "{sent:?}"
    );
}

#[test]
fn linux_24_comes_out_of_many_losses_with_a_tiny_cwnd_and_slow_start_leads_to_ssthresh() {
    let settings = Settings {
        initial_window: 40,
        ..without_sack(Recovery::Linux24)
    };
    let (mut bench, _) = Bench::established(&settings);
    bench.ack(ms(100), 0);
    // Of 42, all but three are lost.
    bench.acks(0, 3);
    let end = bench.agent.acknowledged() / MSS + 42;
    for hole in 1..end {
        let sent = bench.ack(ms(100), hole);
        assert_eq!(sent, [hole], "a round trip for each, and nothing else");
    }
    bench.ack(ms(100), end);
    let after = bench.agent.cwnd() / MSS;
    assert!(after <= 3, "{after}");
    let mut grown = vec![after];
    for up_to in (end + 1..end + 40).step_by(2) {
        bench.ack(ms(10), up_to);
        grown.push(bench.agent.cwnd() / MSS);
    }
    assert!(grown.windows(2).all(|two| two[0] <= two[1]), "{grown:?}");
    assert_eq!(grown.last(), Some(&20), "ssthresh: {grown:?}");
    assert!(grown[4] >= after + 6, "by two segments an ACK: {grown:?}");
}

#[test]
fn a_receiver_without_sack_repeats_its_ack_and_reports_nothing() {
    let mut bench = Bench::new(TcpReceiver::new(&without_sack(Recovery::NewReno)));
    bench.receive(ms(1), Ecn::NotEct, data(0));
    bench.receive(ms(1), Ecn::NotEct, data(1));
    for number in [3, 4, 3, 7] {
        let answer = bench.receive(ms(1), Ecn::NotEct, data(number));
        assert_eq!(answer.len(), 1, "at once");
        assert_eq!(answer[0].0.ack, 2 * MSS);
        assert!(answer[0].0.sack.iter().all(|block| block.is_empty()));
    }
}

/// Three segments of forty are lost: the time until all is acknowledged, and the counts.
fn transfer(recovery: Recovery) -> (Duration, sender::SenderStatistics) {
    let settings = Settings {
        initial_window: 40,
        total: Some(Bytes::new(40 * MSS)),
        ..without_sack(recovery)
    };
    let link = LinkSpec::new(Bandwidth::gbit(100), ms(50)).loss(crate::link::Loss::Every(13));
    let (mut simulation, flow) = connection(&settings, link);
    simulation.run_until(at(ms(60_000)));
    let sender = sender(&simulation, flow);
    let finished = sender.finished.expect("the end").since(Instant::START);
    (finished, sender.statistics)
}

#[test]
fn without_sack_each_loss_of_a_window_takes_a_round_trip() {
    let (with, counts) = transfer(Recovery::Sack);
    assert_eq!(counts.timeouts, 0);
    let (without, counts) = transfer(Recovery::Linux24);
    assert_eq!(counts.timeouts, 0, "{counts:?}");
    let lost = counts.retransmissions;
    assert_eq!(lost, 3);
    // The handshake and the first flight, then one for each loss.
    let due = ms(200) + ms(100).times(lost);
    assert!(
        without >= due - ms(50) && without <= due + ms(50),
        "{without}, {due}, {with}"
    );
    assert!(with < ms(310), "{with}: all in one");
}

#[test]
fn an_overflow_of_slow_start_collapses_without_sack_and_not_with_it() {
    let rate = |recovery| {
        let settings = Settings {
            initial_window: 2,
            receive_window: Bytes::new(32 << 20),
            rack: false,
            tlp: false,
            ..without_sack(recovery)
        };
        let mut simulation = Simulation::new(Seed(1));
        let [host, router, far] = ["host", "router", "far"].map(|name| simulation.node(name));
        simulation.link(host, router, LinkSpec::new(Bandwidth::gbit(1), Duration::ZERO));
        let narrow = LinkSpec::new(Bandwidth::mbit(500), ms(100));
        simulation.link(
            router,
            far,
            narrow.queue(LinkQueue::TailDrop(Bytes::new(512 << 10))),
        );
        simulation.link(far, host, LinkSpec::new(Bandwidth::gbit(1), ms(100)));
        let flow = simulation
            .flow([host, far], FlowKey::default(), Instant::START, pair(&settings))
            .expect("links");
        simulation.run_until(at(ms(60_000)));
        simulation.delivered(flow, End::Responder).bytes.get() as f64 / 60e6
    };
    let [sack, newreno, linux] = [Recovery::Sack, Recovery::NewReno, Recovery::Linux24].map(rate);
    assert!(sack > 6.0, "{sack}");
    assert!(linux < 0.5 && linux > 0.0, "{linux} MB/s: 500 holes take 100 s");
    assert!(
        newreno > 2.0 * linux && newreno < 0.8 * sack,
        "{newreno} MB/s: a timeout comes before"
    );
}
