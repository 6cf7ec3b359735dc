//! Sources send what their settings say: exactly, or within statistical confidence.

use engine::header::{Family, FlowKey};
use engine::random::Seed;
use engine::settings::{Raw, SettingValue};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::distribution::Drawn;
use sim::agent::Agent;
use sim::link::LinkSpec;
use sim::simulation::{End, FlowId, Simulation};
use sim::sources::{
    Active, Burst, Constant, DatagramSource, Datagrams, Greedy, Lengths, Listener, OnOff, Poisson, Replay,
    RequestClient, RequestResponse, SendRate, TimeDistribution, Timing,
};
use std::sync::Arc;

const FRAME: Bytes = Bytes::new(1250);

fn ms(n: u64) -> Instant {
    Instant::START + Duration::from_millis(n)
}

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// What arrives in bins of `bin` within a second, over a link that is never in the way.
fn run(source: Box<dyn Agent>, bin: Duration) -> (Simulation, FlowId) {
    let mut sim = Simulation::new(Seed(1));
    let [a, b] = ["a", "b"].map(|name| sim.node(name));
    let wire = LinkSpec::new(Bandwidth::gbit(1_000), Duration::ZERO);
    sim.duplex(a, b, &wire);
    let key = FlowKey {
        family: Family::V4,
        protocol: 17,
        ..FlowKey::default()
    };
    let flow = sim
        .flow(
            [a, b],
            key,
            Instant::START,
            [source, Box::new(Listener::default())],
        )
        .expect("a route");
    sim.watch_flow(flow, End::Responder, bin);
    sim.run_until(ms(1_000) - Duration::from_nanos(1));
    (sim, flow)
}

fn bytes_of<T: Timing>(datagrams: impl Into<Datagrams>, timing: T) -> u64 {
    let (sim, flow) = run(Box::new(DatagramSource::new(datagrams, timing)), us(1_000));
    sim.delivered(flow, End::Responder).bytes.get()
}

/// When packets arrive, in microseconds, of a source whose packets are at least one apart.
fn times_of<T: Timing>(datagrams: impl Into<Datagrams>, timing: T) -> Vec<u64> {
    let (sim, flow) = run(Box::new(DatagramSource::new(datagrams, timing)), us(1));
    let received = sim.delivered(flow, End::Responder);
    let bins = received.series.as_ref().expect("a series").bytes().iter();
    bins.enumerate()
        .filter(|(_, bytes)| **bytes > 0)
        .map(|(at, _)| at as u64)
        .collect()
}

#[test]
fn a_constant_rate_is_exact_also_where_gaps_are_no_whole_nanoseconds_and_lengths_differ() {
    // 7 Mbit/s in a second are 875,000 bytes: the last packet begins before the end.
    for lengths in [Lengths::Fixed(Bytes::new(999)), Lengths::imix()] {
        let rate = Constant::rate(Bandwidth::mbit(7));
        let bytes = bytes_of(Datagrams::new(lengths, Seed(3)), rate);
        assert!((875_000..875_000 + 1_514).contains(&bytes), "{bytes}");
    }
    assert_eq!(bytes_of(FRAME, Constant::every(us(3_000))), 334 * 1_250);
}

#[test]
fn a_poisson_source_has_its_mean_rate_and_its_counts_their_variance() {
    let rate = Bandwidth::mbit(200);
    let source = Poisson::rate(rate, &FRAME.into(), Seed(5));
    let (sim, flow) = run(Box::new(DatagramSource::new(FRAME, source)), us(1_000));
    let received = sim.delivered(flow, End::Responder);
    let mut counts: Vec<f64> = received
        .series
        .as_ref()
        .expect("a series")
        .bytes()
        .iter()
        .map(|bytes| (bytes / 1_250) as f64)
        .collect();
    counts.resize(1_000, 0.0);
    let mean = counts.iter().sum::<f64>() / 1_000.0;
    let variance = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 999.0;
    // 20,000 packets, 20 in each bin: three standard errors are 0.42 of the mean and 2.7 of the
    // variance.
    assert!((mean - 20.0).abs() < 0.42, "{mean}");
    assert!((variance - 20.0).abs() < 2.8, "{variance}");
}

#[test]
fn an_on_off_source_sends_its_pace_for_the_share_of_time_that_is_on() {
    let spells = |on, off| (TimeDistribution::Fixed(us(on)), TimeDistribution::Fixed(us(off)));
    let (on, off) = spells(10_000, 10_000);
    let fixed = OnOff::new(SendRate::Every(us(3_000)), on, off, Seed(1));
    let times = times_of(FRAME, fixed);
    assert_eq!(
        times[..8],
        [0, 3_000, 6_000, 9_000, 22_000, 25_000, 28_000, 41_000]
    );
    // Half of a second is on: 167 gaps of 3 ms.
    assert_eq!(times.len(), 167);

    let drawn = OnOff::new(
        SendRate::Rate(Bandwidth::mbit(400)),
        TimeDistribution::Exponential(us(100)),
        TimeDistribution::Exponential(us(300)),
        Seed(2),
    );
    let bytes = bytes_of(FRAME, drawn) as f64;
    // About 2,500 cycles: the share that is on has a standard error of √(2/2500) × 3/4 ≈ 2.1 %.
    assert!((bytes / 12_500_000.0 - 1.0).abs() < 0.065, "{bytes}");
}

#[test]
fn on_periods_of_no_length_are_silence_and_not_an_endless_search() {
    let never = TimeDistribution::Fixed(Duration::ZERO);
    let source = OnOff::new(SendRate::Every(us(3)), never.clone(), never, Seed(1));
    assert_eq!(bytes_of(FRAME, source), 1_250);
}

#[test]
fn bursts_have_their_frames_their_gaps_and_their_period() {
    let times = times_of(FRAME, Burst::every(us(48_000), 3, us(180)));
    assert_eq!(times[..5], [0, 180, 360, 48_000, 48_180]);
    let apart = times_of(FRAME, Burst::apart(us(48_000), 3, us(180)));
    assert_eq!(apart[..5], [0, 180, 360, 48_360, 48_540]);
    let long = times_of(FRAME, Burst::every(us(100), 4, us(50)));
    assert_eq!(long[..6], [0, 50, 100, 150, 200, 250]);
}

#[test]
fn a_trace_is_replayed_with_its_times_and_lengths_and_ends() {
    let packets: Arc<[_]> = [(5, 100), (5, 200), (900, 300)]
        .map(|(at, len)| (us(at), Bytes::new(len)))
        .into();
    let (sim, flow) = run(Box::new(DatagramSource::new(FRAME, Replay::new(packets))), us(1));
    let bytes = sim.delivered(flow, End::Responder).series.as_ref();
    let bytes = bytes.expect("a series").bytes();
    assert_eq!((bytes[5], bytes[900], bytes.len()), (300, 300, 901));
    let gaps = Replay::from_gaps([(us(7), FRAME), (us(3), FRAME)]);
    assert_eq!(times_of(FRAME, gaps), [7, 10]);
}

#[test]
fn sources_are_silent_outside_their_spans_and_begin_anew_in_each() {
    let active = Active::spans(&[(ms(1), ms(3)), (ms(10), ms(11))]);
    let frames = Datagrams::from(FRAME).active(active);
    let times = times_of(frames.clone(), Constant::every(us(900)));
    assert_eq!(times, [1_000, 1_900, 2_800, 10_000, 10_900]);
    let bursts = times_of(frames.clone(), Burst::every(us(5_000), 2, us(10)));
    assert_eq!(bursts, [1_000, 1_010, 10_000, 10_010]);
    let gaps = Replay::from_gaps([0, 1_500, 1_000].map(|gap| (us(gap), FRAME)));
    // The third was due in the pause, one millisecond after the second: that far into the next span
    // is its end.
    assert_eq!(times_of(frames, gaps), [1_000, 2_500]);
}

#[test]
fn a_listener_measures_loss_reordering_and_jitter() {
    let mut sim = Simulation::new(Seed(1));
    let [a, b] = ["a", "b"].map(|name| sim.node(name));
    let wire = LinkSpec::new(Bandwidth::mbit(10), Duration::ZERO);
    sim.link(a, b, wire.clone().loss(sim::link::Loss::Every(10)));
    sim.link(b, a, wire);
    // Two at a time over a wire that takes 1 ms for each: delays alternate between 1 and 2 ms.
    let source = DatagramSource::new(
        Datagrams::from(FRAME).until(ms(500)),
        Burst::every(us(10_000), 2, Duration::ZERO),
    );
    let ends: [Box<dyn Agent>; 2] = [Box::new(source), Box::new(Listener::default())];
    let flow = sim
        .flow([a, b], FlowKey::default(), Instant::START, ends)
        .expect("a route");
    sim.run_until(ms(600));
    let listener: &Listener = sim.agent(flow, End::Responder).expect("a listener");
    // Every tenth of a hundred is lost, and nothing comes after the last.
    assert_eq!(
        (
            listener.packets,
            listener.expected,
            listener.lost(),
            listener.reordered
        ),
        (90, 99, 9, 0)
    );
    let jitter = listener.jitter();
    assert!(jitter > us(700) && jitter < us(1_000), "{jitter}");
}

#[test]
fn others_overtake_the_packets_that_a_wire_reorders_and_none_is_lost() {
    let mut sim = Simulation::new(Seed(1));
    let [a, b] = ["a", "b"].map(|name| sim.node(name));
    let wire = LinkSpec::new(Bandwidth::mbit(10), Duration::ZERO);
    let reordering = sim::link::Reordering {
        which: sim::link::Loss::Every(10),
        by: us(2_500),
    };
    sim.link(a, b, wire.clone().reordering(reordering));
    sim.link(b, a, wire);
    // One a millisecond, for which the wire takes as long: two overtake every tenth.
    let source = DatagramSource::new(
        Datagrams::from(FRAME).until(ms(100)),
        Burst::every(us(1_000), 1, Duration::ZERO),
    );
    let ends: [Box<dyn Agent>; 2] = [Box::new(source), Box::new(Listener::default())];
    let flow = sim
        .flow([a, b], FlowKey::default(), Instant::START, ends)
        .expect("a route");
    sim.run_until(ms(200));
    let listener: &Listener = sim.agent(flow, End::Responder).expect("a listener");
    assert_eq!(
        (listener.packets, listener.lost(), listener.reordered),
        (100, 0, 9),
        "nothing overtakes the last"
    );
}

/// A link of 10 Mbit/s, where a frame takes a millisecond, with room for this many frames, and its
/// reverse.
fn narrow(room: u64, ends: [Box<dyn Agent>; 2]) -> (Simulation, sim::simulation::LinkId, FlowId) {
    let mut sim = Simulation::new(Seed(1));
    let [a, b] = ["a", "b"].map(|name| sim.node(name));
    let wire = LinkSpec::new(Bandwidth::mbit(10), us(5_000))
        .queue(sim::link::LinkQueue::TailDrop(FRAME.times(room)));
    let [there, _] = sim.duplex(a, b, &wire);
    sim.watch(there, us(1_000));
    let flow = sim
        .flow([a, b], FlowKey::default(), Instant::START, ends)
        .expect("a route");
    (sim, there, flow)
}

#[test]
fn a_greedy_source_keeps_the_link_busy_and_its_window_before_it() {
    let active = Active::spans(&[(ms(10), ms(50)), (ms(100), ms(140))]);
    let greedy = Greedy::new(Datagrams::from(FRAME).active(active), 3);
    let (mut sim, link, _) = narrow(100, [Box::new(greedy), Box::new(Listener::default())]);
    sim.run_until(ms(200));
    let meter = sim.meter(link).expect("a meter");
    let busy: Vec<u64> = (0u64..)
        .zip(meter.classes()[0].series.bytes())
        .filter(|(_, bytes)| **bytes == 1_250)
        .map(|(bin, _)| bin)
        .collect();
    // What waits when a span ends is still sent.
    let expected: Vec<u64> = (10..53).chain(100..143).collect();
    assert_eq!(busy, expected);
    assert_eq!(meter.backlog().most().packets, 3);
    assert_eq!(meter.classes()[0].dropped.packets, 0);
}

#[test]
fn a_greedy_source_replaces_dropped_packets_without_hurry() {
    let greedy = Greedy::new(FRAME, 10);
    let (mut sim, link, flow) = narrow(4, [Box::new(greedy), Box::new(Listener::default())]);
    sim.run_until(ms(100));
    let tally = &sim.meter(link).expect("a meter").classes()[0];
    assert_eq!(tally.sent.packets, 101);
    assert!(
        (100..1_000).contains(&tally.dropped.packets),
        "{}",
        tally.dropped.packets
    );
    let greedy: &Greedy = sim.agent(flow, End::Initiator).expect("a greedy source");
    assert_eq!(
        greedy.sent(),
        tally.sent.packets + tally.dropped.packets + tally.backlog.most().packets
    );
}

#[test]
fn a_response_time_is_the_way_there_the_servers_time_and_the_way_back() {
    let exchange = RequestResponse {
        request: Bytes::new(1_250 - 42),
        // Three datagrams: two of 1,472 bytes, and 56 in a frame of 98.
        response: Bytes::new(3_000),
        service_time: us(700),
        think_time: TimeDistribution::Fixed(us(2_000)),
        active: Active::until(ms(100)),
        ..RequestResponse::default()
    };
    let (mut sim, _, flow) = narrow(100, exchange.pair(Seed(1)));
    sim.run_until(ms(1_000));
    let client: &RequestClient = sim.agent(flow, End::Initiator).expect("a client");
    // Frames of 1,514 + 1,514 + 98 bytes take 2,500.8 µs.
    let time = Duration::from_nanos(1_000_000 + 5_000_000 + 700_000 + 2_500_800 + 5_000_000);
    assert_eq!(
        (client.response_times.mean(), client.response_times.longest()),
        (time, time)
    );
    // One every 16.2 ms, the last at 97.2.
    assert_eq!((client.requests, client.answered(), client.unanswered), (7, 7, 0));
}

#[test]
fn a_request_that_is_lost_is_counted_and_the_next_is_sent() {
    let mut sim = Simulation::new(Seed(1));
    let [a, b] = ["a", "b"].map(|name| sim.node(name));
    let wire = LinkSpec::new(Bandwidth::mbit(10), us(100));
    sim.link(a, b, wire.clone().loss(sim::link::Loss::Every(5)));
    sim.link(b, a, wire);
    let exchange = RequestResponse {
        timeout: us(20_000),
        think_time: TimeDistribution::Exponential(us(3_000)),
        ..RequestResponse::default()
    };
    let flow = sim
        .flow([a, b], FlowKey::default(), Instant::START, exchange.pair(Seed(1)))
        .expect("a route");
    sim.run_until(ms(1_000));
    let client: &RequestClient = sim.agent(flow, End::Initiator).expect("a client");
    // The last is still waited for.
    assert_eq!(client.unanswered, (client.requests - 1) / 5);
    assert!(client.answered() >= client.requests - client.unanswered - 1);
    assert!(client.requests > 100, "{}", client.requests);
}

#[test]
fn an_on_off_source_draws_its_periods_from_any_distribution() {
    let text = |text: &str| {
        let raw = Raw::Text(text.into());
        let drawn: Drawn<Duration> = SettingValue::from_raw(&raw).expect("a distribution");
        TimeDistribution::Drawn(drawn.distribution)
    };
    let (on, off) = (
        text("weibull 100 us, shape 0.5"),
        text("uniform 200 us to 400 us"),
    );
    let source = OnOff::new(SendRate::Rate(Bandwidth::mbit(400)), on, off, Seed(3));
    let bytes = bytes_of(FRAME, source) as f64;
    // About 2,500 cycles; the on periods have a variance of 5 means squared: a standard error of
    // √(5/2500) × 3/4 ≈ 3.4 %.
    assert!((bytes / 12_500_000.0 - 1.0).abs() < 0.1, "{bytes}");
}
