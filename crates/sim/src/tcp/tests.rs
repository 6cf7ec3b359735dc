//! TCP against what is published about it: laws, and what must hold whatever happens.

use super::*;
use crate::link::{Hold, LinkSpec, Loss};
use crate::simulation::{End, FlowId, Simulation};
use engine::header::FlowKey;
use engine::random::Seed;
use engine::units::Bandwidth;

const MSS: u64 = 1448;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(span: Duration) -> Instant {
    Instant::START + span
}

/// A sender and a receiver with one link between; the way back is fast and has no losses.
fn connection(settings: &Settings, there: LinkSpec) -> (Simulation, FlowId) {
    let mut simulation = Simulation::new(Seed(1));
    let [a, b] = ["a", "b"].map(|name| simulation.node(name));
    let back = LinkSpec::new(Bandwidth::gbit(100), there.delay);
    simulation.link(a, b, there);
    simulation.link(b, a, back);
    let flow = simulation
        .flow([a, b], FlowKey::default(), Instant::START, pair(settings))
        .expect("links");
    (simulation, flow)
}

#[test]
fn a_file_arrives_whole_and_the_connection_ends() {
    let settings = Settings {
        total: Some(Bytes::new(1_000_000)),
        ..Settings::default()
    };
    let link = LinkSpec::new(Bandwidth::mbit(10), ms(10)).hold(Hold::Buffer(Bytes::new(30_000)));
    let (mut simulation, flow) = connection(&settings, link);
    simulation.run_until(at(ms(3_000)));
    let sender: &Sender = simulation.agent(flow, End::Caller).expect("a sender");
    assert_eq!(
        simulation.received(flow, End::Answerer).bytes,
        Bytes::new(1_000_000)
    );
    assert!(sender.finished.is_some());
    assert!(sender.statistics.retransmissions > 0);
    assert_eq!(sender.statistics.timeouts, 0);
    assert_eq!(simulation.travelling(), 0);
}

/// The mean window in segments, as far as it brought data, over some round trips of 100 ms after others.
fn mean_window(settings: &Settings, loss: Loss, before: u64, over: u64) -> f64 {
    let link = LinkSpec::new(Bandwidth::gbit(100), ms(50)).loss(loss);
    let (mut simulation, flow) = connection(settings, link);
    simulation.run_until(at(ms(100 * before)));
    let then = simulation.received(flow, End::Answerer).bytes;
    simulation.run_until(at(ms(100 * (before + over))));
    let bytes = simulation.received(flow, End::Answerer).bytes - then;
    bytes.get() as f64 / (MSS * over) as f64
}

/// That these are within so many per cent.
fn near(ours: f64, law: f64, per_cent: f64) {
    let off = (ours / law - 1.0) * 100.0;
    assert!(off.abs() <= per_cent, "{ours} is {off:.1} % off {law}");
}

#[test]
fn reno_with_an_answer_a_segment_has_mathis_window() {
    let settings = Settings {
        delayed_ack: false,
        ..Settings::default()
    };
    for n in [1_000u64, 10_000] {
        let window = mean_window(&settings, Loss::Every(n), 1_000, 4_000);
        near(window, (1.5 * n as f64).sqrt(), 5.0);
    }
}
