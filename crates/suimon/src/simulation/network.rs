//! A checked scenario as the simulator's hosts, links and flows.

use control::scenario::{Completion, DirectionConfig, FlowConfig, Framing, Loss, Scenario, Source};
use engine::packet::Ecn;
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Probability};
use sim::agent::Agent;
use sim::link::{self, Driver, Hold, LinkSpec, Ruled};
use sim::simulation::{End, FlowId, LinkId, NoRoute, NodeId, Simulation};
use sim::sources::{self, Active, Datagrams, Listener};

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
        for direction in &scenario.directions {
            let link = sim.link(nodes[direction.from], nodes[direction.to], spec(direction));
            sim.watch(link, scenario.bin());
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
                sim.watch_flow(id, End::Answerer, scenario.bin());
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
        None => Hold::Buffer(direction.buffer()),
        Some(policy) => Hold::Ruled(Box::new(Ruled {
            plan: policy.plan.clone(),
            filters: policy.filters.clone(),
            overhead: policy.settings.overhead,
            driver: Driver {
                ring: settings.transmit_ring as usize,
                tick: settings.timer_tick,
                completion: match settings.completion {
                    Completion::Exact => link::Completion::Exact,
                    Completion::Estimated => link::Completion::Estimated,
                },
            },
        })),
    };
    let loss = match settings.loss {
        None | Some(Loss::Random(Probability::ZERO)) => link::Loss::None,
        Some(Loss::Random(chance)) => link::Loss::Random(chance),
        Some(Loss::Every(n)) => link::Loss::Every(n.into()),
    };
    let framing = match settings.framing {
        Framing::Add(bytes) => link::Framing::Add(bytes as i32),
        Framing::Atm => link::Framing::Atm,
    };
    LinkSpec::new(settings.rate, settings.delay)
        .hold(hold)
        .loss(loss)
        .framing(framing)
}

/// The two ends of a flow.
fn agents(flow: &FlowConfig, seed: Seed) -> [Box<dyn Agent>; 2] {
    let datagrams = |frame: Bytes, ecn: bool| {
        let ecn = if ecn { Ecn::Ect0 } else { Ecn::NotEct };
        Datagrams::new(frame, seed)
            .active(Active::spans(&flow.active))
            .ecn(ecn)
    };
    let constant = |rate: Bandwidth| sources::Constant::rate(rate);
    match &flow.source {
        Source::Constant(settings) => [
            Box::new(sources::Source::new(
                datagrams(settings.frame, settings.ecn),
                constant(settings.rate),
            )),
            Box::new(Listener::default()),
        ],
    }
}
