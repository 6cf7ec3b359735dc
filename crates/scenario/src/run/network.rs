//! Builds the simulator's hosts, links and flows from a checked scenario.

use super::autorate::SimulatedAutorates;
use super::nine::SimulatedNines;
use super::signalling::{SimParts, SimulatedRsvp};
use super::yielding::SimulatedYields;
use crate::language::{DirectionConfig, Expectation, Scenario, Subject};
use crate::sources::FlowContext;
use engine::random::Seed;
use engine::units::Instant;
use sim::link::{Driver, LinkQueue, LinkSpec, PolicyQueue};
use sim::meter::MeterSettings;
use sim::simulation::{End, FlowId, LinkId, MediumId, NoRoute, NodeId, RunState, Simulation};
use std::collections::BTreeSet;

/// The simulation of a scenario, with the identifiers of its links and flows.
#[derive(Debug)]
pub struct Network {
    /// The simulation.
    pub sim: Simulation,
    /// The directions of links, indexed as in the scenario.
    pub links: Vec<LinkId>,
    /// The media, indexed as in the scenario.
    pub media: Vec<MediumId>,
    /// The connections of each flow: those of its first copy, then those of the next.
    pub flows: Vec<Vec<FlowId>>,
    /// The links that routes avoid, by number.
    avoided: BTreeSet<usize>,
    /// RSVP, if anything is reserved.
    pub signalling: Option<SimulatedRsvp>,
    yields: SimulatedYields,
    nines: SimulatedNines,
    autorates: SimulatedAutorates,
}

impl Network {
    /// Builds it, with a meter on every link and at the end of every flow.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no route between the ends of a flow, in either direction.
    pub fn new(scenario: &Scenario) -> Result<Self, NoRoute> {
        let mut sim = Simulation::new(Seed(scenario.settings.seed.into()));
        let nodes: Vec<NodeId> = scenario.hosts.iter().map(|host| sim.node(&host.name)).collect();
        let mut links = Vec::with_capacity(scenario.directions.len());
        for (index, direction) in scenario.directions.iter().enumerate() {
            let link = sim.link(nodes[direction.from], nodes[direction.to], spec(direction));
            sim.watch(link, meter_settings(scenario, index));
            links.push(link);
        }
        let named = scenario.media.iter();
        let media: Vec<MediumId> = named
            .map(|medium| sim.medium(&medium.name, medium.access))
            .collect();
        for (direction, &link) in scenario.directions.iter().zip(&links) {
            let name = direction.settings.medium.as_ref();
            let place = scenario
                .media
                .iter()
                .position(|medium| Some(&medium.name) == name);
            if let Some(place) = place {
                sim.share(media[place], nodes[direction.from], link);
            }
        }
        let mut flows = Vec::with_capacity(scenario.flows.len());
        for flow in &scenario.flows {
            let mut connections = Vec::with_capacity(flow.connections() as usize);
            for copy in 0..flow.settings.count {
                let context = FlowContext {
                    start: flow.start(copy),
                    active: &flow.active,
                    mtu: flow.mtu,
                    seed: sim.seed(&format!("{} {copy}", flow.name)),
                };
                // All but the first start when the first wakes them.
                let starts = std::iter::once(context.start).chain(std::iter::repeat(Instant::NEVER));
                for (start, ends) in starts.zip(flow.source.agents(&context)) {
                    let key = flow.key(connections.len() as u32);
                    let id = sim.flow(flow.between.map(|host| nodes[host]), key, start, ends)?;
                    sim.watch_flow(id, End::Responder, scenario.bin());
                    connections.push(id);
                }
            }
            flows.push(connections);
        }
        let reserves = !scenario.signalling.reservations.is_empty();
        Ok(Self {
            yields: SimulatedYields::new(scenario, &mut sim, &links),
            nines: SimulatedNines::new(scenario, &mut sim, &links, &flows),
            autorates: SimulatedAutorates::new(scenario, &mut sim, &nodes)?,
            signalling: reserves.then(|| SimulatedRsvp::new(scenario, &sim)),
            sim,
            links,
            media,
            flows,
            avoided: BTreeSet::new(),
        })
    }

    /// Lets fail what fails at this instant, and work again what does; then routes follow.
    pub fn fail(&mut self, scenario: &Scenario, at: Instant) {
        if !scenario.failure_times().contains(&at) {
            return;
        }
        let cut = scenario.cut_at(at);
        for (index, &link) in self.links.iter().enumerate() {
            self.sim.cut(link, cut.contains(&(index / 2)));
        }
        for host in scenario.restarted_at(at) {
            for (index, direction) in scenario.directions.iter().enumerate() {
                if direction.from == host {
                    self.sim.restart(self.links[index]);
                    self.yields.restart(index, direction, at);
                    self.autorates.restart(index);
                }
            }
            if let Some(signalling) = &mut self.signalling {
                signalling.restart(scenario, &self.sim, host);
            }
        }
        let avoided = scenario.avoided_at(at);
        if avoided != self.avoided {
            let numbered = self.links.iter().enumerate();
            let links = numbered.filter(|(index, _)| avoided.contains(&(index / 2)));
            let links: Vec<LinkId> = links.map(|(_, link)| *link).collect();
            self.sim.reroute(&links);
            if let Some(signalling) = &mut self.signalling {
                signalling.reroute(scenario, at, &avoided);
            }
            self.avoided = avoided;
        }
        self.signal(scenario);
    }

    /// RSVP takes its turn.
    fn signal(&mut self, scenario: &Scenario) {
        if let Some(signalling) = &mut self.signalling {
            signalling.turn(&mut SimParts {
                scenario,
                sim: &mut self.sim,
                links: &self.links,
            });
        }
    }

    /// Lets time pass up to and including `end`; RSVP and the laws of what yields take their turns
    /// meanwhile.
    pub fn run_until(&mut self, scenario: &Scenario, end: Instant) {
        loop {
            let signalling = self.signalling.as_ref().map(SimulatedRsvp::due);
            let laws = self.yields.due().min(self.nines.due()).min(self.autorates.due());
            let due = laws.min(signalling.unwrap_or(Instant::NEVER));
            let state = self.sim.run_until_paused(due.min(end));
            if state == RunState::Reached && due > end {
                return;
            }
            self.yields.turn(self.sim.now());
            self.nines.turn(&mut self.sim);
            self.autorates.turn(scenario, &mut self.sim, &self.links);
            self.signal(scenario);
        }
    }
}

fn spec(direction: &DirectionConfig) -> LinkSpec {
    let settings = &direction.settings;
    let queue = match &direction.policy {
        None => LinkQueue::TailDrop(direction.buffer()),
        Some(policy) => LinkQueue::Policy(Box::new(PolicyQueue {
            plan: policy.plan.clone(),
            filters: policy.filters.to_vec(),
            driver: Driver {
                tick: settings.timer_tick,
                completion: settings.completion,
                gaps: settings.gap_frames,
            },
        })),
    };
    LinkSpec::new(settings.rate, settings.delay)
        .cost(settings.cost)
        .queue(queue)
        .impaired(settings.impairments(), direction.later.clone())
        .framing(settings.framing)
        .trace(direction.trace.clone())
}

/// The settings of a link's meter: it counts each window of expectations separately.
fn meter_settings(scenario: &Scenario, direction: usize) -> MeterSettings {
    let here = |expectation: &&Expectation| match expectation.subject {
        Subject::Class { direction: of, .. } | Subject::Link(of) => of == direction,
        Subject::Flow(_) | Subject::All | Subject::Reservation(_) => false,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenarios;
    use crate::folder::Folder;
    use engine::tree::Registry;
    use engine::units::Duration;
    use sim::tcp::TcpSender;

    #[test]
    fn hystart_in_a_scenario_avoids_drops_in_slow_start() {
        let retransmissions = ["false", "true"].map(|hystart| {
            let text = format!(
                "version = 1\nduration = \"3 s\"\n\
                 [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"200 kB\"\n\
                 [[flow]]\nbetween = [\"a\", \"b\"]\nkind = \"tcp\"\nhystart = {hystart}\n"
            );
            let registry = Registry::builtin();
            let folder = Folder::of("");
            let scenarios = Scenarios::read("test.toml", &text, &registry, &folder).expect("a scenario");
            let scenario = scenarios.point(1, &folder).expect("a scenario");
            let mut network = Network::new(&scenario).expect("a route");
            network.sim.run_until(Instant::START + Duration::from_secs(2));
            let flow = network.flows[0][0];
            let sender: Option<&TcpSender> = network.sim.agent(flow, End::Initiator);
            sender.expect("a sender").statistics.retransmissions
        });
        assert!(retransmissions[0] > 100, "{retransmissions:?}");
        assert!(retransmissions[1] * 4 < retransmissions[0], "{retransmissions:?}");
    }
}
