//! What each control does on a path with a bottleneck and a buffer.

use super::*;
use crate::link::Hold;
use congestion::bbr::{Bbr, Mode};

const RATE: Bandwidth = Bandwidth::mbit(20);

/// 20 Mbit/s with a round trip of 40 ms, and a buffer of so many bytes.
fn path(buffer: u64) -> LinkSpec {
    LinkSpec::new(RATE, ms(20)).hold(Hold::Buffer(Bytes::new(buffer)))
}

fn settings(control: Control) -> Settings {
    Settings {
        control,
        samples: Some(ms(10)),
        ..Settings::default()
    }
}

/// The part of the bottleneck that is used between two times, frames counted.
fn used(simulation: &mut Simulation, flow: FlowId, from: u64, to: u64) -> f64 {
    simulation.run_until(at(ms(from)));
    let then = simulation.received(flow, End::Answerer).bytes;
    simulation.run_until(at(ms(to)));
    let bytes = simulation.received(flow, End::Answerer).bytes - then;
    let frames = bytes.get() as f64 / MSS as f64 * 1514.0;
    frames * 8.0 / (RATE.bits() as f64 * (to - from) as f64 / 1e3)
}

/// The mean of the samples' round-trip times between two times, in milliseconds.
fn mean_rtt(simulation: &Simulation, flow: FlowId, from: u64, to: u64) -> f64 {
    let samples = &sender(simulation, flow).samples;
    let between: Vec<f64> = samples
        .iter()
        .filter(|sample| sample.at >= at(ms(from)) && sample.at < at(ms(to)))
        .map(|sample| sample.rtt.as_secs_f64() * 1e3)
        .collect();
    between.iter().sum::<f64>() / between.len() as f64
}

#[test]
fn every_control_fills_a_path_with_a_buffer_of_its_own_size() {
    for control in Control::ALL {
        let (mut simulation, flow) = connection(&settings(control), path(100_000));
        let part = used(&mut simulation, flow, 5_000, 20_000);
        let least = if control == Control::Ledbat { 0.85 } else { 0.95 };
        assert!((least..=1.001).contains(&part), "{control}: {part}");
    }
}

#[test]
fn every_name_reads_back() {
    for control in Control::ALL {
        assert_eq!(control.to_string().parse(), Ok(control));
    }
    let message = "cubik".parse::<Control>().expect_err("no such control");
    assert!(message.contains("did you mean \"cubic\"?"), "{message}");
}

#[test]
fn vegas_keeps_two_to_four_segments_waiting_and_loses_none() {
    let settings = Settings {
        delayed_ack: false,
        ..settings(Control::Vegas)
    };
    let (mut simulation, flow) = connection(&settings, path(1_000_000));
    let part = used(&mut simulation, flow, 10_000, 15_000);
    assert!(part > 0.99, "{part}");
    // Each waits 0.6056 ms; beside them, a segment's own time on the wire counts.
    let waiting = (mean_rtt(&simulation, flow, 10_000, 15_000) - 40.0) / 0.6056;
    assert!((2.0..=5.0).contains(&waiting), "{waiting}");
    assert_eq!(sender(&simulation, flow).statistics.retransmissions, 0);
}

#[test]
fn bbr_has_the_full_rate_with_a_small_queue() {
    let (mut simulation, flow) = connection(&settings(Control::Bbr), path(1_000_000));
    let part = used(&mut simulation, flow, 2_000, 10_000);
    assert!(part > 0.95, "{part}");
    let rtt = mean_rtt(&simulation, flow, 2_000, 10_000);
    assert!(rtt < 48.0, "{rtt}");
    assert_eq!(sender(&simulation, flow).statistics.retransmissions, 0);
}

#[test]
fn two_bbrs_fall_silent_together_every_ten_seconds_and_share() {
    let (mut simulation, flows) = two([Control::Bbr, Control::Bbr], 1_000_000);
    let (mut dips, mut low) = (Vec::new(), false);
    for step in 500..4_500 {
        simulation.run_until(at(ms(10 * step)));
        let bbr: &Bbr = sender(&simulation, flows[0]).control().expect("BBR");
        let now_low = bbr.mode() == Mode::ProbeRtt;
        if now_low && !low {
            dips.push(10 * step);
        }
        low = now_low;
        if low {
            assert_eq!(sender(&simulation, flows[0]).window(), 4 * MSS);
        }
    }
    assert!((2..=4).contains(&dips.len()), "{dips:?}");
    assert!(
        dips.windows(2)
            .all(|two| (9_900..=12_000).contains(&(two[1] - two[0]))),
        "{dips:?}"
    );
    let got = flows.map(|flow| simulation.received(flow, End::Answerer).bytes.get() as f64);
    assert!((0.5..=2.0).contains(&(got[0] / got[1])), "{got:?}");
}

#[test]
fn bbr_does_not_mind_random_loss_where_reno_starves() {
    let rates = [Control::Bbr, Control::Reno].map(|control| {
        let link = path(1_000_000).loss(Loss::Random(engine::units::Probability::ratio(1, 100)));
        let (mut simulation, flow) = connection(&settings(control), link);
        used(&mut simulation, flow, 2_000, 12_000)
    });
    assert!(rates[0] > 0.85 && rates[1] < 0.4, "{rates:?}");
}

#[test]
fn ledbat_yields_to_reno_and_alone_queues_no_more_than_its_target() {
    let (mut simulation, flow) = connection(&settings(Control::Ledbat), path(1_000_000));
    simulation.run_until(at(ms(30_000)));
    let rtt = mean_rtt(&simulation, flow, 10_000, 30_000);
    assert!((60.0..=105.0).contains(&rtt), "{rtt}");
    let parts = together([Control::Ledbat, Control::Reno], 400_000, 60_000);
    assert!(parts[0] < 0.15 && parts[1] > 0.8, "{parts:?}");
}

/// Two flows over one bottleneck, the second a second later.
fn two(controls: [Control; 2], buffer: u64) -> (Simulation, [FlowId; 2]) {
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

/// The part of the sum that each of two flows has after the first quarter.
fn together(controls: [Control; 2], buffer: u64, millis: u64) -> [f64; 2] {
    let (mut simulation, flows) = two(controls, buffer);
    let got =
        |simulation: &Simulation| flows.map(|flow| simulation.received(flow, End::Answerer).bytes.get());
    simulation.run_until(at(ms(millis / 4)));
    let before = got(&simulation);
    simulation.run_until(at(ms(millis)));
    let after = got(&simulation);
    let each = [after[0] - before[0], after[1] - before[1]].map(|bytes| bytes as f64);
    each.map(|bytes| bytes / (each[0] + each[1]))
}

#[test]
fn two_renos_of_equal_round_trip_share_alike() {
    let parts = together([Control::Reno, Control::Reno], 60_000, 200_000);
    assert!((0.4..=0.6).contains(&parts[0]), "{parts:?}");
}

#[test]
fn paced_segments_do_not_fill_the_buffer_at_once() {
    let losses = [false, true].map(|pacing| {
        let settings = Settings {
            pacing,
            total: Some(Bytes::new(60 * MSS)),
            initial_window: 60,
            ..settings(Control::Reno)
        };
        let (mut simulation, flow) = connection(&settings, path(30_000));
        simulation.run_until(at(ms(3_000)));
        assert!(sender(&simulation, flow).finished.is_some());
        sender(&simulation, flow).statistics.retransmissions
    });
    assert!(losses[0] > 20 && losses[1] < losses[0] / 2, "{losses:?}");
}

#[test]
fn hystart_spares_most_of_slow_starts_losses() {
    let losses = [false, true].map(|hystart| {
        let settings = Settings {
            hystart,
            ..settings(Control::Cubic)
        };
        let (mut simulation, flow) = connection(&settings, path(200_000));
        let part = used(&mut simulation, flow, 1_000, 2_000);
        assert!(part > 0.95, "{part}");
        sender(&simulation, flow).statistics.retransmissions
    });
    assert!(losses[0] > 100 && losses[1] * 4 < losses[0], "{losses:?}");
}
