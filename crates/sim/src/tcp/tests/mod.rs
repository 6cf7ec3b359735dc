//! TCP against what is published about it: laws, and what must queue whatever happens.

use super::*;

mod bbr3;
mod conservation;
mod controls;
mod laws;
mod linux24_sack;
mod mechanisms;
mod without_sack;

use congestion::{CONTROLS, bbr, cubic, highspeed, ledbat, reno, scalable, vegas};

use crate::link::{LinkSpec, Loss};
use crate::simulation::{End, FlowId, Simulation};
use engine::header::FlowKey;
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration, Instant};

const MSS: u64 = 1448;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(span: Duration) -> Instant {
    Instant::START + span
}

/// A sender and a receiver with one link between them; the reverse link is fast and loses nothing.
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

fn sender(simulation: &Simulation, flow: FlowId) -> &TcpSender {
    simulation.agent(flow, End::Initiator).expect("a sender")
}

fn receiver(simulation: &Simulation, flow: FlowId) -> &TcpReceiver {
    simulation.agent(flow, End::Responder).expect("a receiver")
}
