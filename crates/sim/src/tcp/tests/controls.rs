//! Each control on a path with a bottleneck and a buffer.

use super::*;
use crate::link::LinkQueue;
use bbr::{Bbr, BbrMode};

pub(super) const RATE: Bandwidth = Bandwidth::mbit(20);

/// 20 Mbit/s with a round trip of 40 ms, and a buffer of so many bytes.
pub(super) fn path(buffer: u64) -> LinkSpec {
    LinkSpec::new(RATE, ms(20)).queue(LinkQueue::TailDrop(Bytes::new(buffer)))
}

pub(super) fn settings(control: &'static ControlKind) -> Settings {
    Settings {
        control,
        sample_interval: Some(ms(10)),
        ..Settings::default()
    }
}

/// The utilisation of the bottleneck between two times, counted in frames.
pub(super) fn used(simulation: &mut Simulation, flow: FlowId, from: u64, to: u64) -> f64 {
    simulation.run_until(at(ms(from)));
    let then = simulation.delivered(flow, End::Responder).bytes;
    simulation.run_until(at(ms(to)));
    let bytes = simulation.delivered(flow, End::Responder).bytes - then;
    let frames = bytes.get() as f64 / MSS as f64 * 1514.0;
    frames * 8.0 / (RATE.bits() as f64 * (to - from) as f64 / 1e3)
}

/// The mean of the samples' round-trip times between two times, in milliseconds.
pub(super) fn mean_rtt(simulation: &Simulation, flow: FlowId, from: u64, to: u64) -> f64 {
    let samples = &sender(simulation, flow).samples;
    let between: Vec<f64> = samples
        .iter()
        .filter(|sample| sample.at >= at(ms(from)) && sample.at < at(ms(to)))
        .map(|sample| sample.srtt.as_secs_f64() * 1e3)
        .collect();
    between.iter().sum::<f64>() / between.len() as f64
}

#[test]
fn every_control_fills_a_path_whose_buffer_is_its_bdp() {
    for control in CONTROLS.iter().copied() {
        let (mut simulation, flow) = connection(&settings(control), path(100_000));
        let part = used(&mut simulation, flow, 5_000, 20_000);
        let least = if control == &ledbat::CONTROL { 0.85 } else { 0.95 };
        assert!((least..=1.001).contains(&part), "{control}: {part}");
    }
}

#[test]
fn vegas_keeps_two_to_four_segments_queued_and_has_no_drops() {
    let settings = Settings {
        delayed_ack: false,
        ..settings(&vegas::CONTROL)
    };
    let (mut simulation, flow) = connection(&settings, path(1_000_000));
    let part = used(&mut simulation, flow, 10_000, 15_000);
    assert!(part > 0.99, "{part}");
    // Each queues 0.6056 ms; a segment's own transmission time counts too.
    let queued = (mean_rtt(&simulation, flow, 10_000, 15_000) - 40.0) / 0.6056;
    assert!((2.0..=5.0).contains(&queued), "{queued}");
    assert_eq!(sender(&simulation, flow).statistics.retransmissions, 0);
}

#[test]
fn bbr_has_the_full_rate_with_a_small_queue() {
    let (mut simulation, flow) = connection(&settings(&bbr::CONTROL), path(1_000_000));
    let part = used(&mut simulation, flow, 2_000, 10_000);
    assert!(part > 0.95, "{part}");
    let rtt = mean_rtt(&simulation, flow, 2_000, 10_000);
    assert!(rtt < 48.0, "{rtt}");
    assert_eq!(sender(&simulation, flow).statistics.retransmissions, 0);
}

#[test]
fn two_bbrs_probe_the_rtt_together_every_ten_seconds_and_share() {
    let (mut simulation, flows) = two([&bbr::CONTROL, &bbr::CONTROL], 1_000_000);
    let (mut dips, mut low) = (Vec::new(), false);
    for step in 500..4_500 {
        simulation.run_until(at(ms(10 * step)));
        let bbr: &Bbr = sender(&simulation, flows[0]).control().expect("BBR");
        let now_low = bbr.mode() == BbrMode::ProbeRtt;
        if now_low && !low {
            dips.push(10 * step);
        }
        low = now_low;
        if low {
            assert_eq!(sender(&simulation, flows[0]).cwnd(), 4 * MSS);
        }
    }
    assert!((2..=4).contains(&dips.len()), "{dips:?}");
    assert!(
        dips.windows(2)
            .all(|two| (9_900..=12_000).contains(&(two[1] - two[0]))),
        "{dips:?}"
    );
    let got = flows.map(|flow| simulation.delivered(flow, End::Responder).bytes.get() as f64);
    assert!((0.5..=2.0).contains(&(got[0] / got[1])), "{got:?}");
}

#[test]
fn bbr_keeps_its_rate_under_random_loss_where_reno_starves() {
    let rates = [&bbr::CONTROL, &reno::CONTROL].map(|control| {
        let link = path(1_000_000).loss(Loss::Random(engine::units::Probability::ratio(1, 100)));
        let (mut simulation, flow) = connection(&settings(control), link);
        used(&mut simulation, flow, 2_000, 12_000)
    });
    assert!(rates[0] > 0.85 && rates[1] < 0.4, "{rates:?}");
}

#[test]
fn ledbat_yields_to_reno_and_alone_keeps_the_queue_at_its_target() {
    let (mut simulation, flow) = connection(&settings(&ledbat::CONTROL), path(1_000_000));
    simulation.run_until(at(ms(30_000)));
    let rtt = mean_rtt(&simulation, flow, 10_000, 30_000);
    assert!((60.0..=105.0).contains(&rtt), "{rtt}");
    let parts = together([&ledbat::CONTROL, &reno::CONTROL], 400_000, 60_000);
    assert!(parts[0] < 0.15 && parts[1] > 0.8, "{parts:?}");
}

/// Two flows over one bottleneck, the second a second later.
pub(super) fn two(controls: [&'static ControlKind; 2], buffer: u64) -> (Simulation, [FlowId; 2]) {
    let mut simulation = Simulation::new(Seed(3));
    let [a, b] = ["a", "b"].map(|name| simulation.node(name));
    simulation.link(a, b, path(buffer));
    simulation.link(b, a, LinkSpec::new(Bandwidth::gbit(100), ms(20)));
    let mut start = 0;
    let flows = controls.map(|control| {
        start += 1_003;
        let ends = pair(&settings(control));
        simulation
            .flow([a, b], FlowKey::default(), at(ms(start)), ends)
            .expect("links")
    });
    (simulation, flows)
}

/// Each flow's share of the sum after the first quarter.
pub(super) fn together(controls: [&'static ControlKind; 2], buffer: u64, millis: u64) -> [f64; 2] {
    let (mut simulation, flows) = two(controls, buffer);
    let got =
        |simulation: &Simulation| flows.map(|flow| simulation.delivered(flow, End::Responder).bytes.get());
    simulation.run_until(at(ms(millis / 4)));
    let before = got(&simulation);
    simulation.run_until(at(ms(millis)));
    let after = got(&simulation);
    let each = [after[0] - before[0], after[1] - before[1]].map(|bytes| bytes as f64);
    each.map(|bytes| bytes / (each[0] + each[1]))
}

#[test]
fn two_renos_of_equal_rtt_share_equally() {
    let parts = together([&reno::CONTROL, &reno::CONTROL], 60_000, 200_000);
    assert!((0.4..=0.6).contains(&parts[0]), "{parts:?}");
}

#[test]
fn paced_segments_do_not_overflow_the_buffer_at_once() {
    let losses = [false, true].map(|pacing| {
        let settings = Settings {
            pacing,
            total: Some(Bytes::new(60 * MSS)),
            initial_window: 60,
            ..settings(&reno::CONTROL)
        };
        let (mut simulation, flow) = connection(&settings, path(30_000));
        simulation.run_until(at(ms(3_000)));
        assert!(sender(&simulation, flow).finished.is_some());
        sender(&simulation, flow).statistics.retransmissions
    });
    assert!(losses[0] > 20 && losses[1] < losses[0] / 2, "{losses:?}");
}

#[test]
fn a_limit_bounds_the_pace_of_any_control_until_it_is_lifted() {
    for control in [&reno::CONTROL, &bbr::CONTROL] {
        let (mut simulation, flow) = connection(&settings(control), path(100_000));
        let limit = |simulation: &mut Simulation, rate| {
            let sender = simulation.agent_mut::<TcpSender>(flow, End::Initiator);
            sender.expect("a sender").set_pace_limit(rate);
        };
        simulation.run_until(at(ms(2_000)));
        limit(&mut simulation, Some(Bandwidth::mbit(5)));
        let part = used(&mut simulation, flow, 3_000, 6_000);
        // Data are paced; frames are longer.
        let limited = 5.0 / 20.0 * 1_514.0 / 1_448.0;
        assert!(
            (limited - 0.01..limited + 0.001).contains(&part),
            "{control}: {part}"
        );
        // No queue: an ACK waits for the second segment, 2.3 ms.
        let rtt = mean_rtt(&simulation, flow, 4_000, 6_000);
        assert!((40.0..44.0).contains(&rtt), "{control}: {rtt}");
        limit(&mut simulation, None);
        let part = used(&mut simulation, flow, 9_000, 12_000);
        assert!((0.9..1.001).contains(&part), "{control}: {part}");
    }
}

#[test]
fn what_was_lost_stays_unacknowledged_also_once_it_was_sent_again() {
    let (mut simulation, flow) = connection(&settings(&reno::CONTROL), path(30_000));
    simulation.run_until(at(ms(5_000)));
    let arrived = simulation.delivered(flow, End::Responder).bytes.get();
    let sender = sender(&simulation, flow);
    let sent = sender.statistics;
    assert!(sent.retransmissions > 20, "{sent:?}");
    let acknowledged = sent.bytes - sender.unacknowledged();
    assert!(
        (arrived - 130_000..=arrived).contains(&acknowledged),
        "{acknowledged} of {arrived}"
    );
    let acks = receiver(&simulation, flow).acks;
    assert!((acks - 50..=acks).contains(&sent.acks), "{acks} {sent:?}");
}

#[test]
fn hystart_avoids_most_losses_of_slow_start() {
    let losses = [false, true].map(|hystart| {
        let settings = Settings {
            hystart,
            ..settings(&cubic::CONTROL)
        };
        let (mut simulation, flow) = connection(&settings, path(200_000));
        let part = used(&mut simulation, flow, 1_000, 2_000);
        assert!(part > 0.95, "{part}");
        sender(&simulation, flow).statistics.retransmissions
    });
    assert!(losses[0] > 100 && losses[1] * 4 < losses[0], "{losses:?}");
}
