//! A simulation: nodes, links and flows are added, then time passes.
//!
//! Who drives it lets time pass up to an instant, looks at meters or changes a policy, and goes on; so scripts, progress
//! bars and repeated readings need nothing here.

use crate::agenda::{Agenda, Event, MOST};
use crate::agent::{Agent, Context, Timer};
use crate::capture::Capture;
use crate::link::{Link, LinkSpec, Surroundings};
use crate::meter::{LinkMeter, Received, Watch};
use crate::packet::Store;
use crate::stream::{Map, Stream};
use engine::header::FlowKey;
use engine::packet::Buffer;
use engine::queue::Queue;
use engine::random::Seed;
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Duration, Instant};
use std::any::Any;
use std::fmt;

/// A host or a router.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeId(u32);

/// A link in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkId(u32);

/// A flow: its caller is woken when it starts; its answerer only answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FlowId(u32);

/// Which end of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The one that starts it.
    Caller,
    /// The other.
    Answerer,
}

impl FlowId {
    fn endpoint(self, end: End) -> usize {
        self.0 as usize * 2 + usize::from(end == End::Answerer)
    }

    /// Its number, in the order of being added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// There is no way from one node to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoRoute {
    /// From here.
    pub from: String,
    /// To here.
    pub to: String,
}

impl fmt::Display for NoRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        write!(f, "no links lead from `{from}` to `{to}`: add one")
    }
}

impl std::error::Error for NoRoute {}

/// In place of a link: the packet is there.
const HOME: u32 = u32::MAX;

/// A simulated network and its time.
#[derive(Debug)]
pub struct Simulation {
    seed: Seed,
    now: Instant,
    agenda: Agenda,
    store: Store,
    map: Map,
    names: Vec<String>,
    links: Vec<Link>,
    streams: Vec<Stream>,
    /// The links of all streams' routes, one route after the other, each with [`HOME`] at its end.
    hops: Vec<u32>,
    agents: Vec<Box<dyn Agent>>,
    timers: Vec<Timer>,
    received: Vec<Received>,
    outbox: Vec<Buffer>,
    events: u64,
}

impl Simulation {
    /// An empty network at time zero. All its randomness comes from the seed, forked by names.
    pub fn new(seed: Seed) -> Self {
        Self {
            seed,
            now: Instant::START,
            agenda: Agenda::default(),
            store: Store::default(),
            map: Map::default(),
            names: Vec::new(),
            links: Vec::new(),
            streams: Vec::new(),
            hops: Vec::new(),
            agents: Vec::new(),
            timers: Vec::new(),
            received: Vec::new(),
            outbox: Vec::new(),
            events: 0,
        }
    }

    /// Adds a host or router.
    pub fn node(&mut self, name: &str) -> NodeId {
        self.map.node();
        self.names.push(name.into());
        NodeId(self.names.len() as u32 - 1)
    }

    /// Adds a link from one node to another; the way back is another link.
    pub fn link(&mut self, from: NodeId, to: NodeId, spec: LinkSpec) -> LinkId {
        assert!(self.links.len() < MOST, "a simulation has at most {MOST} links");
        let id = self.links.len() as u32;
        let ends = [from, to].map(|node| self.names[node.0 as usize].as_str());
        let seed = self.seed.fork("link").fork(ends[0]).fork(ends[1]);
        self.links.push(Link::new(id, spec, seed));
        self.map.link(from.0, to.0, id);
        LinkId(id)
    }

    /// Adds links like this both ways: there, and back.
    pub fn duplex(&mut self, a: NodeId, b: NodeId, spec: &LinkSpec) -> [LinkId; 2] {
        [self.link(a, b, spec.clone()), self.link(b, a, spec.clone())]
    }

    /// The seed of something with this name.
    pub fn seed(&self, name: &str) -> Seed {
        self.seed.fork("agent").fork(name)
    }

    /// Adds a flow that starts at `start`. `key` is what the headers of the caller's packets say.
    ///
    /// # Errors
    /// There is no way from the one node to the other, or back.
    pub fn flow(
        &mut self,
        [from, to]: [NodeId; 2],
        key: FlowKey,
        start: Instant,
        [caller, answerer]: [Box<dyn Agent>; 2],
    ) -> Result<FlowId, NoRoute> {
        let back = FlowKey {
            source: key.destination,
            destination: key.source,
            source_port: key.destination_port,
            destination_port: key.source_port,
            ..key
        };
        let path = |from: NodeId, to: NodeId| {
            self.map.route(from.0, to.0).ok_or_else(|| NoRoute {
                from: self.names[from.0 as usize].clone(),
                to: self.names[to.0 as usize].clone(),
            })
        };
        let (there, back_path) = (path(from, to)?, path(to, from)?);
        assert!(
            self.agents.len() + 1 < MOST,
            "a simulation has at most {} flows",
            MOST / 2
        );
        let endpoint = self.agents.len() as u32;
        for (key, path) in [(key, there), (back, back_path)] {
            let first = self.hops.len() as u32;
            self.streams.push(Stream { key, first });
            self.hops.extend(path.iter().chain(&[HOME]));
        }
        self.agents.extend([caller, answerer]);
        self.received.extend([Received::default(), Received::default()]);
        self.timers.extend([Timer::OFF; 2]);
        self.timers[endpoint as usize].set(&mut self.agenda, endpoint, start);
        Ok(FlowId(endpoint / 2))
    }

    /// Lets a meter look at a link from now on: with rates in bins of this length, or as it says. What waits already is
    /// not seen waiting.
    pub fn watch(&mut self, link: LinkId, watch: impl Into<Watch>) {
        let link = &mut self.links[link.0 as usize];
        let mut parents = match link.ruled() {
            Some((_, plan)) => plan.classes.iter().map(|class| class.parent).collect(),
            None => Vec::new(),
        };
        // A queue without classes is one.
        if parents.is_empty() {
            parents.push(None);
        }
        link.meter = Some(Box::new(LinkMeter::new(self.now, watch.into(), parents)));
    }

    /// What a link's meter has seen.
    pub fn meter(&self, link: LinkId) -> Option<&LinkMeter> {
        self.links[link.0 as usize].meter.as_deref()
    }

    /// Captures what goes onto a link's wire from now on, up to so many packets.
    pub fn capture(&mut self, link: LinkId, limit: usize) {
        self.links[link.0 as usize].capture = Some(Box::new(Capture::new(limit)));
    }

    /// What was captured on a link.
    pub fn captured(&self, link: LinkId) -> Option<&Capture> {
        self.links[link.0 as usize].capture.as_deref()
    }

    /// Forgets what was captured on a link, once it is written down, and goes on: so a long capture takes little room.
    pub fn forget_captured(&mut self, link: LinkId) {
        if let Some(capture) = &mut self.links[link.0 as usize].capture {
            capture.clear();
        }
    }

    /// How many packets a link itself has lost, behind its queue: they count as sent there.
    pub fn lost_on_the_way(&self, link: LinkId) -> u64 {
        self.links[link.0 as usize].lost
    }

    /// A link's rate.
    pub fn rate(&self, link: LinkId) -> Bandwidth {
        self.links[link.0 as usize].rate()
    }

    /// The queue in front of a link, and its plan, if a policy rules there.
    pub fn queue(&self, link: LinkId) -> Option<(&Queue, &TreePlan)> {
        self.links[link.0 as usize].ruled()
    }

    /// Lets a link's queue adopt a plan of the same shape, as `suimon set` does; `false` if it cannot.
    pub fn retune(&mut self, link: LinkId, plan: TreePlan) -> bool {
        let (link, mut around) = self.at(link.0);
        link.retune(&mut around, plan)
    }

    /// What a flow's end has delivered to its program.
    pub fn received(&self, flow: FlowId, end: End) -> &Received {
        &self.received[flow.endpoint(end)]
    }

    /// Keeps what a flow's end delivers in bins of this length, from now on.
    pub fn watch_flow(&mut self, flow: FlowId, end: End, bin: Duration) {
        self.received[flow.endpoint(end)] = Received::watched(self.now, bin);
    }

    /// One end of a flow, if it is of this type.
    pub fn agent<A: Agent>(&self, flow: FlowId, end: End) -> Option<&A> {
        let agent: &dyn Any = self.agents[flow.endpoint(end)].as_ref();
        agent.downcast_ref()
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// How many events have been.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// How many packets are on their way.
    pub fn travelling(&self) -> usize {
        self.store.len()
    }

    /// Lets time pass up to and including `end`.
    pub fn run_until(&mut self, end: Instant) {
        while let Some((at, event)) = self.agenda.next(end) {
            self.now = at;
            self.events += 1;
            match event {
                Event::Arrive(link) => self.arrive(link),
                Event::Drive(link) => {
                    let (link, mut around) = self.at(link);
                    link.ask(&mut around);
                }
                Event::Wake(endpoint) => self.wake(endpoint),
                Event::Left(endpoint) => self.call(endpoint, |agent, cx| agent.left(cx)),
            }
        }
        self.now = self.now.max(end);
        for meter in self.links.iter_mut().filter_map(|link| link.meter.as_mut()) {
            meter.settle_until(self.now);
        }
    }

    fn at(&mut self, link: u32) -> (&mut Link, Surroundings<'_>) {
        let around = Surroundings {
            now: self.now,
            agenda: &mut self.agenda,
            store: &mut self.store,
            streams: &self.streams,
        };
        (&mut self.links[link as usize], around)
    }

    /// A packet has passed a link: it enters the next, or is there.
    fn arrive(&mut self, link: u32) {
        let Some(slot) = self.links[link as usize].arrive(&mut self.agenda) else {
            return;
        };
        let travelling = self.store.get_mut(slot);
        let next = self.hops[travelling.next as usize];
        if next != HOME {
            travelling.next += 1;
            travelling.tell = false;
            let (link, mut around) = self.at(next);
            return link.offer(&mut around, slot);
        }
        let stream = travelling.stream;
        let packet = self.store.packet(slot);
        self.store.free(slot);
        self.call(stream ^ 1, |agent, cx| agent.receive(cx, &packet));
    }

    fn wake(&mut self, endpoint: u32) {
        let timer = &mut self.timers[endpoint as usize];
        if timer.armed != self.now {
            return;
        }
        timer.armed = Instant::NEVER;
        if timer.due > self.now {
            if timer.due != Instant::NEVER {
                timer.set(&mut self.agenda, endpoint, timer.due);
            }
            return;
        }
        timer.due = Instant::NEVER;
        self.call(endpoint, |agent, cx| agent.wake(cx));
    }

    /// Lets an endpoint act, and sends what it sent.
    fn call(&mut self, endpoint: u32, act: impl FnOnce(&mut dyn Agent, &mut Context<'_>)) {
        let index = endpoint as usize;
        let mut cx = Context {
            now: self.now,
            endpoint,
            agenda: &mut self.agenda,
            timer: &mut self.timers[index],
            store: &mut self.store,
            outbox: &mut self.outbox,
            received: &mut self.received[index],
        };
        act(self.agents[index].as_mut(), &mut cx);
        if self.outbox.is_empty() {
            return;
        }
        let first = self.streams[index].first;
        let link = self.hops[first as usize];
        let mut outbox = std::mem::take(&mut self.outbox);
        for slot in outbox.drain(..) {
            // Both ends on one node: there is nothing to pass, and nothing to model.
            if link == HOME {
                self.store.free(slot);
                continue;
            }
            self.store.get_mut(slot).next = first + 1;
            let (link, mut around) = self.at(link);
            link.offer(&mut around, slot);
        }
        self.outbox = outbox;
    }
}
