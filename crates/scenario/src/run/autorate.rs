//! Links whose rate follows a line that varies, in a simulation: [`FollowedLine`], as beside a
//! packet loop, with probes that are packets of the simulation.
//!
//! What is asked is the first of the policy's targets that is the address of a host. Probes begin
//! behind the queue that they are not to wait in: where what leaves it enters the line, or where
//! what enters it has left the line. In `suimon run` they leave before what is queued.

use crate::Scenario;
use crate::language::{DirectionConfig, asked_host, signalling_key};
use control::autorate::LineSide;
use engine::header::FlowKey;
use engine::units::{Bytes, Instant};
use gateway::followed_line::FollowedLine;
use host::law::autorate::AUTORATE_INTERVAL;
use netio::carried::PathCarried;
use sim::agent::{Agent, Context};
use sim::packet::{Payload, SimPacket};
use sim::simulation::{End, FlowId, LinkId, NoRoute, NodeId, Simulation};

/// An echo request over Ethernet, with 56 bytes as `ping` sends.
const PROBE: Bytes = Bytes::new(98);
const ICMP: u8 = 1;

/// Sends probes, and notes when each was sent and answered. The run pauses at each.
#[derive(Debug, Default)]
struct Prober {
    sent: Vec<Instant>,
    answered: Vec<(u64, Instant)>,
}

impl Agent for Prober {
    fn wake(&mut self, cx: &mut Context<'_>) {
        let number = Payload::Datagram(self.sent.len() as u64);
        self.sent.push(cx.now());
        cx.send(SimPacket::new(PROBE, number));
        cx.wake_at(cx.now() + AUTORATE_INTERVAL);
        cx.pause();
    }

    fn receive(&mut self, cx: &mut Context<'_>, packet: &SimPacket) {
        if let Payload::Datagram(number) = packet.payload {
            self.answered.push((number, cx.now()));
            cx.pause();
        }
    }
}

/// Answers each.
#[derive(Debug)]
struct Responder;

impl Agent for Responder {
    fn wake(&mut self, _cx: &mut Context<'_>) {}

    fn receive(&mut self, cx: &mut Context<'_>, packet: &SimPacket) {
        cx.send(SimPacket::new(packet.frame, packet.payload));
    }
}

/// A link whose policy follows its line.
#[derive(Debug)]
struct FollowedLink {
    direction: usize,
    probe: FlowId,
    line: FollowedLine,
    /// Of the prober's lists, how much is known.
    known: [usize; 2],
    due: Instant,
}

/// The links of a scenario whose policies follow their lines.
#[derive(Debug, Default)]
pub(super) struct SimulatedAutorates(Vec<FollowedLink>);

impl SimulatedAutorates {
    /// Lets hosts of this scenario ask others.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no route to a host that is to be asked.
    pub(super) fn new(scenario: &Scenario, sim: &mut Simulation, nodes: &[NodeId]) -> Result<Self, NoRoute> {
        let mut all = Self::default();
        for (index, direction) in scenario.directions.iter().enumerate() {
            let Some((from, to)) = asked(scenario, direction) else {
                continue;
            };
            let addresses = [from, to].map(|host| scenario.hosts[host].address);
            let key = FlowKey {
                protocol: ICMP,
                ..signalling_key(addresses)
            };
            let agents: [Box<dyn Agent>; 2] = [Box::new(Prober::default()), Box::new(Responder)];
            let probe = sim.flow([nodes[from], nodes[to]], key, Instant::START, agents)?;
            all.0.push(FollowedLink {
                direction: index,
                probe,
                line: FollowedLine::default(),
                known: [0; 2],
                due: Instant::START,
            });
        }
        Ok(all)
    }

    /// When a law takes its turn next.
    pub(super) fn due(&self) -> Instant {
        let due = self.0.iter().map(|link| link.due);
        due.min().unwrap_or(Instant::NEVER)
    }

    /// The host at the beginning of this direction begins anew, and knows nothing of its line.
    pub(super) fn restart(&mut self, index: usize) {
        let restarted = self.0.iter_mut().filter(|link| link.direction == index);
        restarted.for_each(|link| link.line = FollowedLine::default());
    }

    /// Notes what was sent and answered; the laws whose time has come set the rates.
    pub(super) fn turn(&mut self, scenario: &Scenario, sim: &mut Simulation, links: &[LinkId]) {
        for number in 0..self.0.len() {
            let own = &self.0[number];
            let back = own.direction ^ 1;
            let mut others = self.0.iter().filter(|other| other.direction == back);
            let elsewhere = others.any(|other| other.line.is_loaded());
            let of = links[own.direction];
            let Some(carried) = carried(sim, of) else { continue };
            let own = &mut self.0[number];
            own.note(sim, carried);
            if own.due > carried.at {
                continue;
            }
            own.due = carried.at + AUTORATE_INTERVAL;
            let policy = scenario.directions[own.direction].policy.as_ref();
            let Some((policy, config)) = policy.and_then(|policy| Some((policy, policy.autorate.as_ref()?)))
            else {
                continue;
            };
            let bandwidth = policy.link().bandwidth;
            let order = own
                .line
                .turn(config, (&policy.name, bandwidth), carried, elsewhere);
            sim.shape(of, order.rate);
        }
    }
}

impl FollowedLink {
    fn note(&mut self, sim: &Simulation, carried: PathCarried) {
        let prober: Option<&Prober> = sim.agent(self.probe, End::Initiator);
        let Some(prober) = prober else { return };
        let [sent, answered] = self.known;
        for (number, at) in (sent as u64..).zip(&prober.sent[sent..]) {
            self.line.sent(number, *at, carried);
        }
        for (number, at) in &prober.answered[answered..] {
            self.line.answered(*number, *at, Some(carried));
        }
        self.known = [prober.sent.len(), prober.answered.len()];
    }
}

/// What the queue of a link was offered and has sent.
fn carried(sim: &Simulation, link: LinkId) -> Option<PathCarried> {
    let (queue, _) = sim.queue(link)?;
    let stats = queue.stats();
    Some(PathCarried {
        at: sim.now(),
        offered: stats.offered.bytes,
        sent: stats.sent.bytes,
    })
}

/// Which host asks which, for the policy of this direction.
fn asked(scenario: &Scenario, direction: &DirectionConfig) -> Option<(usize, usize)> {
    let policy = direction.policy.as_ref()?;
    let config = policy.autorate.as_ref()?;
    let from = match config.line(&policy.name) {
        LineSide::Ahead => direction.to,
        LineSide::Behind => direction.from,
    };
    Some((from, asked_host(&scenario.hosts, config)?))
}
