//! A checked scenario as the simulator's hosts, links and flows.

use crate::language::{
    self as scenario, Completion, DirectionConfig, EcnWord, Expectation, FlowConfig, Framing, Scenario,
    Source, Subject, TcpSettings,
};
use engine::packet::Ecn;
use engine::random::Seed;
use engine::units::Bytes;
use sim::agent::Agent;
use sim::link::{self, Driver, LinkQueue, LinkSpec, PolicyQueue};
use sim::meter::MeterSettings;
use sim::simulation::{End, FlowId, LinkId, NoRoute, NodeId, Simulation};
use sim::sources::{self, Active, Datagrams, Listener, SendRate, TimeDistribution};
use sim::tcp;

/// The simulation of a scenario, and where its parts are in it.
#[derive(Debug)]
pub struct Network {
    /// The simulation.
    pub sim: Simulation,
    /// Each direction of each link, as in the scenario.
    pub links: Vec<LinkId>,
    /// The copies of each flow.
    pub flows: Vec<Vec<FlowId>>,
}

impl Network {
    /// Builds it, with a meter on every link and at the end of every flow.
    pub fn new(scenario: &Scenario) -> Result<Self, NoRoute> {
        let mut sim = Simulation::new(Seed(scenario.settings.seed.into()));
        let nodes: Vec<NodeId> = scenario.hosts.iter().map(|host| sim.node(&host.name)).collect();
        let mut links = Vec::with_capacity(scenario.directions.len());
        for (index, direction) in scenario.directions.iter().enumerate() {
            let link = sim.link(nodes[direction.from], nodes[direction.to], spec(direction));
            sim.watch(link, watch(scenario, index));
            links.push(link);
        }
        let mut flows = Vec::with_capacity(scenario.flows.len());
        for flow in &scenario.flows {
            let mut copies = Vec::with_capacity(flow.settings.count as usize);
            for copy in 0..flow.settings.count {
                let seed = sim.seed(&format!("{} {copy}", flow.name));
                let id = sim.flow(
                    flow.between.map(|host| nodes[host]),
                    flow.key(copy),
                    flow.start(copy),
                    agents(flow, seed),
                )?;
                sim.watch_flow(id, End::Responder, scenario.bin());
                copies.push(id);
            }
            flows.push(copies);
        }
        Ok(Self { sim, links, flows })
    }
}

fn spec(direction: &DirectionConfig) -> LinkSpec {
    let settings = &direction.settings;
    let hold = match &direction.policy {
        None => LinkQueue::TailDrop(direction.buffer()),
        Some(policy) => LinkQueue::Policy(Box::new(PolicyQueue {
            plan: policy.plan.clone(),
            filters: policy.filters.clone(),
            driver: Driver {
                tick: settings.timer_tick,
                completion: match settings.completion {
                    Completion::Exact => link::Completion::Exact,
                    Completion::Estimated => link::Completion::Estimated,
                },
                gaps: settings.gap_frames,
            },
        })),
    };
    let framing = match settings.framing {
        Framing::Add(bytes) => link::Framing::Add(bytes as i32),
        Framing::Ethernet => link::Framing::Ethernet,
        Framing::Atm => link::Framing::Atm,
    };
    LinkSpec::new(settings.rate, settings.delay)
        .queue(hold)
        .loss(settings.loss)
        .jitter(settings.jitter)
        .framing(framing)
}

/// What each link's meter looks at on its own: the windows of expectations.
fn watch(scenario: &Scenario, direction: usize) -> MeterSettings {
    let here = |expectation: &&Expectation| match expectation.subject {
        Subject::Class { direction: of, .. } | Subject::Link(of) => of == direction,
        Subject::Flow(_) | Subject::All => false,
    };
    let mut windows: Vec<_> = scenario
        .expectations
        .iter()
        .filter(here)
        .map(|e| (e.from, e.to))
        .collect();
    windows.sort_unstable();
    windows.dedup();
    MeterSettings {
        bin: scenario.bin(),
        windows,
        flows: false,
    }
}

/// The two ends of a flow.
fn agents(flow: &FlowConfig, seed: Seed) -> [Box<dyn Agent>; 2] {
    let datagrams = |frame: Bytes, ecn: EcnWord| {
        let ecn = match ecn {
            EcnWord::No => Ecn::NotEct,
            EcnWord::Classic => Ecn::Ect0,
            EcnWord::L4s => Ecn::Ect1,
        };
        Datagrams::new(frame, seed)
            .active(Active::spans(&flow.active))
            .ecn(ecn)
    };
    let caller: Box<dyn Agent> = match &flow.source {
        Source::Tcp(settings, transfer) => {
            let settings = tcp::Settings {
                total: transfer.total,
                active: flow.active.clone(),
                ..connection(flow, settings)
            };
            return tcp::pair(&settings);
        }
        Source::Request(settings, request) => {
            let count = request.requests.map_or(u64::MAX, u64::from);
            let answers = tcp::application::ResponseWriter::new(count, request.size, request.pause);
            return tcp::pair_with(&connection(flow, settings), Box::new(answers));
        }
        Source::Constant(packet, settings) => {
            let timing = sources::Constant::rate(settings.rate);
            Box::new(sources::DatagramSource::new(
                datagrams(packet.frame, packet.ecn),
                timing,
            ))
        }
        Source::Greedy(packet, settings) => Box::new(sources::Greedy::new(
            datagrams(packet.frame, packet.ecn),
            settings.window.into(),
        )),
        Source::Poisson(packet, settings) => {
            let timing = sources::Poisson::rate(settings.rate, &packet.frame.into(), seed);
            Box::new(sources::DatagramSource::new(
                datagrams(packet.frame, packet.ecn),
                timing,
            ))
        }
        Source::OnOff(packet, settings) => {
            let spell = if settings.random {
                TimeDistribution::Exponential
            } else {
                TimeDistribution::Fixed
            };
            let pace = SendRate::Rate(settings.rate);
            let timing = sources::OnOff::new(pace, spell(settings.on), spell(settings.off), seed);
            Box::new(sources::DatagramSource::new(
                datagrams(packet.frame, packet.ecn),
                timing,
            ))
        }
        Source::Burst(packet, settings) => {
            let timing = sources::Burst::every(settings.period, settings.frames.into(), settings.gap);
            Box::new(sources::DatagramSource::new(
                datagrams(packet.frame, packet.ecn),
                timing,
            ))
        }
        Source::Replay(settings, packets) => {
            let timing = sources::Replay::new(packets.clone());
            // The trace knows its own lengths.
            Box::new(sources::DatagramSource::new(
                datagrams(Bytes::ZERO, settings.ecn),
                timing,
            ))
        }
    };
    [caller, Box::new(Listener::default())]
}

fn connection(flow: &FlowConfig, settings: &TcpSettings) -> tcp::Settings {
    tcp::Settings {
        control: control(settings.control),
        mtu: flow.mtu,
        initial_window: settings.initial_window,
        receive_window: settings.receive_window,
        ecn: settings.ecn,
        delayed_ack: settings.delayed_ack,
        min_rto: settings.min_rto,
        pacing: settings.pacing,
        ..tcp::Settings::default()
    }
}

/// The simulator's congestion control of the scenario's name.
fn control(control: scenario::Control) -> &'static tcp::ControlKind {
    tcp::congestion::named(control.name()).unwrap_or(&tcp::congestion::cubic::CONTROL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::settings::{Raw, SettingValue};

    #[test]
    fn a_scenario_can_name_every_congestion_control_and_gets_the_one_of_that_name() {
        for &known in tcp::congestion::CONTROLS {
            let named = scenario::Control::from_raw(&Raw::Text(known.name.into()));
            assert_eq!(named.map(control), Ok(known));
        }
    }
}
