//! A simulation: add nodes, links and flows, then let time pass.
//!
//! The caller lets time pass up to an instant, reads meters or changes a policy, and continues. So
//! scripts, progress bars and repeated readings need no support here.

use crate::agent::{Agent, Context, Timer};
use crate::capture::LinkCapture;
use crate::event_queue::{Event, EventQueue, MAX_INDEX};
use crate::link::{LinkContext, LinkSpec, SimLink};
use crate::medium::{Access, Medium, MediumCounts};
use crate::meter::{Delivered, LinkMeter, MeterSettings};
use crate::packet::Store;
use crate::promised::LinkPromises;
use crate::stage::Stage;
use crate::stream::{Stream, Topology};
use engine::classify::Filter;
use engine::header::FlowKey;
use engine::packet::Buffer;
use engine::queue::Queue;
use engine::random::Seed;
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::impairments::ImpairmentCounts;
use measure::waits::{RecordedWaits, WaitRecorder, Wanted};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;

/// A host or a router.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeId(u32);

/// A link in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkId(u32);

/// The seed of the link from one node of these names to the other, in a run of this seed.
pub fn link_seed(run: Seed, ends: [&str; 2]) -> Seed {
    run.fork("link").fork(ends[0]).fork(ends[1])
}

/// A medium that links share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MediumId(u32);

/// A flow: its initiator is woken when it starts; its responder acts on what arrives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FlowId(u32);

/// Which end of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The end that starts it.
    Initiator,
    /// The other end.
    Responder,
}

impl FlowId {
    fn endpoint(self, end: End) -> usize {
        self.0 as usize * 2 + usize::from(end == End::Responder)
    }

    /// Its number, in the order of being added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// No links lead from one node to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoRoute {
    /// The first node.
    pub from: String,
    /// The last node.
    pub to: String,
}

impl fmt::Display for NoRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        write!(f, "no links lead from `{from}` to `{to}`: add one")
    }
}

impl std::error::Error for NoRoute {}

/// Whether a run has come to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunState {
    /// It has.
    Reached,
    /// An agent has paused it before.
    Paused,
}

/// In place of a next hop: the packet has arrived.
const ARRIVED: u32 = u32::MAX;

/// A simulated network and its time.
#[derive(Debug)]
pub struct Simulation {
    seed: Seed,
    now: Instant,
    event_queue: EventQueue,
    store: Store,
    topology: Topology,
    names: Vec<String>,
    links: Vec<SimLink>,
    media: Vec<Medium>,
    /// The medium of each link, if it shares one.
    media_of: Vec<Option<u32>>,
    /// The links on media at which something has begun to wait.
    ready: Vec<u32>,
    streams: Vec<Stream>,
    /// The links of all streams' routes, one after the other, each with [`ARRIVED`] at its end.
    hops: Vec<u32>,
    agents: Vec<Box<dyn Agent>>,
    timers: Vec<Timer>,
    delivered: Vec<Delivered>,
    outbox: Vec<Buffer>,
    woken: Vec<u32>,
    paused: bool,
    events: u64,
}

impl Simulation {
    /// An empty network at time zero. All randomness is forked from the seed, by names.
    pub fn new(seed: Seed) -> Self {
        Self {
            seed,
            now: Instant::START,
            event_queue: EventQueue::default(),
            store: Store::default(),
            topology: Topology::default(),
            names: Vec::new(),
            links: Vec::new(),
            media: Vec::new(),
            media_of: Vec::new(),
            ready: Vec::new(),
            streams: Vec::new(),
            hops: Vec::new(),
            agents: Vec::new(),
            timers: Vec::new(),
            delivered: Vec::new(),
            outbox: Vec::new(),
            woken: Vec::new(),
            paused: false,
            events: 0,
        }
    }

    /// Adds a host or a router.
    pub fn node(&mut self, name: &str) -> NodeId {
        self.topology.add_node();
        self.names.push(name.into());
        NodeId(self.names.len() as u32 - 1)
    }

    /// Adds a link from one node to another; the reverse direction is another link.
    pub fn link(&mut self, from: NodeId, to: NodeId, spec: LinkSpec) -> LinkId {
        assert!(
            self.links.len() < MAX_INDEX,
            "a simulation has at most {MAX_INDEX} links"
        );
        let (id, cost) = (self.links.len() as u32, spec.cost);
        let ends = [from, to].map(|node| self.names[node.0 as usize].as_str());
        let seed = link_seed(self.seed, ends);
        self.links.push(SimLink::new(id, spec, seed));
        self.media_of.push(None);
        self.topology.add_link(from.0, to.0, id, cost);
        LinkId(id)
    }

    /// Adds two such links, one in each direction: `a` to `b`, then `b` to `a`.
    pub fn duplex(&mut self, a: NodeId, b: NodeId, spec: &LinkSpec) -> [LinkId; 2] {
        [self.link(a, b, spec.clone()), self.link(b, a, spec.clone())]
    }

    /// Adds a medium of this name.
    pub fn medium(&mut self, name: &str, access: Access) -> MediumId {
        let id = self.media.len() as u32;
        let seed = self.seed.fork("medium").fork(name);
        self.media.push(Medium::new(id, access, seed));
        MediumId(id)
    }

    /// A link from this node shares a medium with others from now on; it has not sent anything yet.
    pub fn share(&mut self, medium: MediumId, from: NodeId, link: LinkId) {
        self.media[medium.0 as usize].join(from.0, link.0);
        self.media_of[link.0 as usize] = Some(medium.0);
        self.links[link.0 as usize].shares();
    }

    /// What has happened on a medium.
    pub fn medium_counts(&self, medium: MediumId) -> MediumCounts {
        self.media[medium.0 as usize].counts
    }

    /// The seed of an agent of this name.
    pub fn seed(&self, name: &str) -> Seed {
        self.seed.fork("agent").fork(name)
    }

    /// Adds a flow between two nodes that starts at `start`. `key` has the header fields of the
    /// initiator's packets; those of the responder's are swapped.
    ///
    /// # Errors
    /// [`NoRoute`] if the links do not lead from the one node to the other and back.
    pub fn flow(
        &mut self,
        [from, to]: [NodeId; 2],
        key: FlowKey,
        start: Instant,
        [initiator, responder]: [Box<dyn Agent>; 2],
    ) -> Result<FlowId, NoRoute> {
        let route = |from: NodeId, to: NodeId| {
            self.topology.route(from.0, to.0).ok_or_else(|| NoRoute {
                from: self.names[from.0 as usize].clone(),
                to: self.names[to.0 as usize].clone(),
            })
        };
        let routes = [(from, to, route(from, to)?), (to, from, route(to, from)?)];
        let routes = routes.map(|(from, to, route)| (Some([from.0, to.0]), route));
        Ok(self.add_flow(routes, key, start, [initiator, responder]))
    }

    /// Adds a flow whose packets take these links, there and back, whatever becomes of routes; it
    /// starts when its initiator is [woken](Self::wake).
    pub fn flow_along(
        &mut self,
        [there, back]: [&[LinkId]; 2],
        key: FlowKey,
        agents: [Box<dyn Agent>; 2],
    ) -> FlowId {
        let route = |links: &[LinkId]| (None, links.iter().map(|link| link.0).collect());
        self.add_flow([route(there), route(back)], key, Instant::NEVER, agents)
    }

    fn add_flow(
        &mut self,
        [there, back]: [(Option<[u32; 2]>, Vec<u32>); 2],
        key: FlowKey,
        start: Instant,
        [initiator, responder]: [Box<dyn Agent>; 2],
    ) -> FlowId {
        let reverse = FlowKey {
            source: key.destination,
            destination: key.source,
            source_port: key.destination_port,
            destination_port: key.source_port,
            ..key
        };
        assert!(
            self.agents.len() + 1 < MAX_INDEX,
            "a simulation has at most {} flows",
            MAX_INDEX / 2
        );
        let endpoint = self.agents.len() as u32;
        for (key, (routed, route)) in [(key, there), (reverse, back)] {
            let first_hop = self.add_hops(&route);
            self.streams.push(Stream {
                key,
                first_hop,
                routed,
            });
        }
        self.agents.extend([initiator, responder]);
        self.delivered
            .extend([Delivered::default(), Delivered::default()]);
        self.timers.extend([Timer::OFF; 2]);
        self.timers[endpoint as usize].set(&mut self.event_queue, endpoint, start);
        FlowId(endpoint / 2)
    }

    /// Adds a route; returns the index of its first hop.
    fn add_hops(&mut self, route: &[u32]) -> u32 {
        let first_hop = self.hops.len() as u32;
        self.hops.extend(route.iter().chain(&[ARRIVED]));
        first_hop
    }

    /// Routes avoid these links from now on, and no others; where no other way is left, they are
    /// taken all the same. A packet that is under way follows from the end of its link on.
    pub fn reroute(&mut self, avoided: &[LinkId]) {
        self.topology.avoid(avoided.iter().map(|link| link.0).collect());
        for index in 0..self.streams.len() {
            let Some([from, to]) = self.streams[index].routed else {
                continue;
            };
            if let Some(route) = self.topology.route(from, to) {
                self.streams[index].first_hop = self.add_hops(&route);
            }
        }
        // By the stream and the link of packets under way: their next hop.
        let mut next_hops = BTreeMap::new();
        let mut store = std::mem::take(&mut self.store);
        for packet in store.used() {
            let on = self.hops[packet.next_hop as usize - 1];
            let key = (packet.stream, on);
            let next = next_hops
                .entry(key)
                .or_insert_with(|| self.route_on(packet.stream, on));
            packet.next_hop = next.unwrap_or(packet.next_hop);
        }
        self.store = store;
    }

    /// A route from the end of a link to where a stream leads: the index of its first hop, behind
    /// that of the link itself.
    fn route_on(&mut self, stream: u32, on: u32) -> Option<u32> {
        let [_, to] = self.streams[stream as usize].routed?;
        let route = self.topology.route(self.topology.end_of(on)?, to)?;
        Some(self.add_hops(&[&[on], route.as_slice()].concat()) + 1)
    }

    /// The host that a link leaves restarts: what is queued there and on the wire is lost.
    pub fn restart(&mut self, link: LinkId) {
        let (link, mut cx) = self.link_and_context(link.0);
        link.restart(&mut cx);
        self.tell_media();
    }

    /// Cuts the cable of a link, or joins it: what arrives or is sent meanwhile is lost.
    pub fn cut(&mut self, link: LinkId, cut: bool) {
        self.links[link.0 as usize].cut = cut;
    }

    /// Adds a stage before the queue of a link, behind those that it has.
    pub fn stage(&mut self, link: LinkId, stage: Box<dyn Stage>) {
        self.links[link.0 as usize].extras.some().stages.push(stage);
    }

    /// Meters a link from now on: with series in bins of this length, or by these settings. Packets
    /// that are queued already do not count as backlog.
    pub fn watch(&mut self, link: LinkId, settings: impl Into<MeterSettings>) {
        let link = &mut self.links[link.0 as usize];
        let plan = link.policy().map(|(_, plan)| plan);
        let meter = LinkMeter::new(self.now, settings.into(), plan);
        link.extras.some().meter = Some(Box::new(meter));
    }

    /// The meter of a link, if it is watched.
    pub fn meter(&self, link: LinkId) -> Option<&LinkMeter> {
        self.links[link.0 as usize].extras.get()?.meter.as_deref()
    }

    /// Records from now on why packets wait at a link with a policy; `false` if it has none.
    pub fn explain(&mut self, link: LinkId, wanted: Wanted) -> bool {
        let link = &mut self.links[link.0 as usize];
        let rate = link.rate();
        let recorder = link.policy().map(|(_, plan)| {
            let bandwidth = plan.link.bandwidth.min(rate);
            WaitRecorder::new(wanted, Some(plan.clone()), Some(bandwidth))
        });
        let explains = recorder.is_some();
        link.extras.some().waits = recorder.map(Box::new);
        explains
    }

    /// Ends that, and returns what was recorded.
    pub fn explained(&mut self, link: LinkId) -> Option<RecordedWaits> {
        let waits = self.links[link.0 as usize].extras.some().waits.take();
        waits.map(|waits| waits.finish())
    }

    /// Captures packets that go onto a link's wire from now on, up to this many.
    pub fn capture(&mut self, link: LinkId, limit: usize) {
        let capture = Some(Box::new(LinkCapture::new(limit)));
        self.links[link.0 as usize].extras.some().capture = capture;
    }

    /// The packets captured on a link.
    pub fn captured(&self, link: LinkId) -> Option<&LinkCapture> {
        self.links[link.0 as usize].extras.get()?.capture.as_deref()
    }

    /// Discards the packets captured on a link and continues. So a long capture that is written
    /// piece by piece takes little memory.
    pub fn clear_captured(&mut self, link: LinkId) {
        if let Some(capture) = self.links[link.0 as usize].extras.capture() {
            capture.clear();
        }
    }

    /// The packets that a link's wire has lost; its queue counts them as sent.
    pub fn lost_on_wire(&self, link: LinkId) -> u64 {
        self.links[link.0 as usize].extras.lost()
    }

    /// What has befallen packets on a link's wire: lost are those by its impairments alone.
    pub fn impaired(&self, link: LinkId) -> ImpairmentCounts {
        self.links[link.0 as usize].impaired()
    }

    /// The bytes of frames that have reached the end of a link, as the interface there counts them.
    pub fn carried(&self, link: LinkId) -> Bytes {
        self.links[link.0 as usize].carried
    }

    /// From now on counts the frames that are offered to a link's queue.
    pub fn count_offered(&mut self, link: LinkId) {
        self.links[link.0 as usize].extras.some();
    }

    /// The bytes of frames that were offered to a link's queue, dropped ones included, since they
    /// are counted; zero if they are not.
    pub fn offered(&self, link: LinkId) -> Bytes {
        let extras = self.links[link.0 as usize].extras.get();
        extras.map_or(Bytes::ZERO, |parts| parts.offered)
    }

    /// A link's rate.
    pub fn rate(&self, link: LinkId) -> Bandwidth {
        self.links[link.0 as usize].rate()
    }

    /// The engine's queue in front of a link and its plan, if it has a policy.
    pub fn queue(&self, link: LinkId) -> Option<(&Queue, &TreePlan)> {
        self.links[link.0 as usize].policy()
    }

    /// Changes the policy of a link to a plan of the same shape, as `suimon set` does; `false` if
    /// it has none.
    pub fn retune(&mut self, link: LinkId, plan: TreePlan) -> bool {
        let (link, mut cx) = self.link_and_context(link.0);
        let ruled = link.retune(&mut cx, plan);
        self.tell_media();
        ruled
    }

    /// Shapes what a link's policy sends to this rate from now on, whatever the policy's bandwidth;
    /// `false` if it has none.
    pub fn shape(&mut self, link: LinkId, rate: Bandwidth) -> bool {
        let (link, mut cx) = self.link_and_context(link.0);
        let ruled = link.shape(&mut cx, rate);
        self.tell_media();
        ruled
    }

    /// Replaces the policy of a link by a tree with other classes, and with these filters. Queued
    /// packets move into the classes that they would get if they arrived now, as in `suimon run`.
    /// It is watched whether what the tree promises to reservations is kept. `false` if it has
    /// none.
    pub fn adopt(&mut self, link: LinkId, plan: TreePlan, filters: Vec<Filter>) -> bool {
        let (link, mut cx) = self.link_and_context(link.0);
        let ruled = link.adopt(&mut cx, plan, filters);
        self.tell_media();
        ruled
    }

    /// How many packets that an end of a flow has sent are on their way that kept to what a link
    /// promises to them.
    pub fn conforming_on_the_way(&self, flow: FlowId, from: End) -> u64 {
        self.store.conforming(flow.endpoint(from) as u32)
    }

    /// What a link promises to reservations, and how it keeps that; none if it never promised
    /// anything. A class that goes keeps what was counted.
    pub fn promises(&self, link: LinkId) -> Option<&LinkPromises> {
        self.links[link.0 as usize].extras.get()?.promises.as_deref()
    }

    /// What an end of a flow has delivered to its application.
    pub fn delivered(&self, flow: FlowId, end: End) -> &Delivered {
        &self.delivered[flow.endpoint(end)]
    }

    /// Counts what an end of a flow delivers, from now on and in bins of this length.
    pub fn watch_flow(&mut self, flow: FlowId, end: End, bin: Duration) {
        self.delivered[flow.endpoint(end)] = Delivered::watched(self.now, bin);
    }

    /// The agent at an end of a flow, if it is of this type.
    pub fn agent<A: Agent>(&self, flow: FlowId, end: End) -> Option<&A> {
        let agent: &dyn Any = self.agents[flow.endpoint(end)].as_ref();
        agent.downcast_ref()
    }

    /// The same, to change it; [`wake`](Self::wake) lets it act on the change.
    pub fn agent_mut<A: Agent>(&mut self, flow: FlowId, end: End) -> Option<&mut A> {
        let agent: &mut dyn Any = self.agents[flow.endpoint(end)].as_mut();
        agent.downcast_mut()
    }

    /// Wakes an end of a flow now, in place of its timer.
    pub fn wake(&mut self, flow: FlowId, end: End) {
        let endpoint = flow.endpoint(end);
        self.timers[endpoint].set(&mut self.event_queue, endpoint as u32, self.now);
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The number of events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The number of packets in flight, in queues and on wires.
    pub fn in_flight(&self) -> usize {
        self.store.len()
    }

    /// Lets time pass up to and including `end`.
    pub fn run_until(&mut self, end: Instant) {
        while self.run_until_paused(end) == RunState::Paused {}
    }

    /// The same, but stops after an event in which an agent has [paused](Context::pause) the run.
    pub fn run_until_paused(&mut self, end: Instant) -> RunState {
        while let Some((at, event)) = self.event_queue.pop_until(end) {
            self.now = at;
            self.events += 1;
            match event {
                Event::Arrival(link) => self.arrive(link),
                Event::Drive(link) => {
                    let (link, mut cx) = self.link_and_context(link);
                    link.on_driver_event(&mut cx);
                }
                Event::Timer(endpoint) => self.on_timer(endpoint),
                Event::TxComplete(endpoint) => self.call(endpoint, |agent, cx| agent.tx_complete(cx)),
                Event::Medium(medium) => self.on_medium(medium),
            }
            self.tell_media();
            if std::mem::take(&mut self.paused) {
                self.meters().for_each(LinkMeter::settle);
                return RunState::Paused;
            }
        }
        self.now = self.now.max(end);
        let now = self.now;
        self.meters().for_each(|meter| meter.settle_until(now));
        RunState::Reached
    }

    fn meters(&mut self) -> impl Iterator<Item = &mut LinkMeter> {
        self.links.iter_mut().filter_map(|link| link.extras.meter())
    }

    fn link_and_context(&mut self, link: u32) -> (&mut SimLink, LinkContext<'_>) {
        let cx = LinkContext {
            now: self.now,
            events: &mut self.event_queue,
            store: &mut self.store,
            streams: &self.streams,
            ready: &mut self.ready,
        };
        (&mut self.links[link as usize], cx)
    }

    /// Tells media of the links at which something has begun to wait.
    fn tell_media(&mut self) {
        if self.ready.is_empty() {
            return;
        }
        let mut ready = std::mem::take(&mut self.ready);
        for link in ready.drain(..) {
            if let Some(medium) = self.media_of[link as usize] {
                self.media[medium as usize].ready(self.now, link, &mut self.event_queue);
            }
        }
        self.ready = ready;
    }

    /// Somebody sends on a medium, or several, whose transmissions are lost.
    fn on_medium(&mut self, number: u32) {
        let (now, medium) = (self.now, number as usize);
        let senders = self.media[medium].senders(now, &mut self.event_queue);
        let access = self.media[medium].access;
        let mut ends = Vec::with_capacity(senders.len());
        for &sender in &senders {
            let (link, cx) = self.link_and_context(sender.link);
            let end = link.end_on_medium(&cx, &access);
            match end {
                Some(end) => ends.push((sender, end)),
                // A restart has taken what waited.
                None => self.media[medium].sent(now, sender, None, false),
            }
        }
        if let [(sender, end)] = ends[..] {
            let more = self.send_on_medium(sender.link, &access, end, true);
            self.media[medium].sent(now, sender, Some(end), more);
        } else if let Some(end) = ends.iter().map(|(_, end)| *end).max() {
            let senders: Vec<_> = ends.iter().map(|(sender, _)| *sender).collect();
            for over in self.media[medium].collided(now, &senders, end) {
                let until = ends.iter().find(|(sender, _)| *sender == over);
                let more = self.send_on_medium(over.link, &access, until.map_or(end, |(_, end)| *end), false);
                self.media[medium].given_up(over, more);
            }
        }
        self.media[medium].goes_on(now, &mut self.event_queue);
    }

    /// A link sends on its medium. Returns whether more waits there.
    fn send_on_medium(&mut self, link: u32, access: &Access, end: Instant, arrives: bool) -> bool {
        let (link, mut cx) = self.link_and_context(link);
        link.send_on_medium(&mut cx, access, end, arrives)
    }

    /// A packet has passed a link: it enters the next, or has arrived.
    fn arrive(&mut self, link: u32) {
        let arrived = self.links[link as usize].arrive(self.now, &mut self.event_queue, &mut self.store);
        let Some(slot) = arrived else {
            return;
        };
        let passed = &mut self.links[link as usize];
        if passed.cut {
            passed.extras.lose(1);
            return self.store.free(slot);
        }
        let in_flight = self.store.get_mut(slot);
        passed.carried += in_flight.frame();
        let next = self.hops[in_flight.next_hop as usize];
        if next != ARRIVED {
            in_flight.next_hop += 1;
            in_flight.state.has_left_the_first_queue();
            let (link, mut cx) = self.link_and_context(next);
            return link.offer(&mut cx, slot);
        }
        let (stream, corrupt) = (in_flight.stream, in_flight.state.corrupt());
        let packet = self.store.packet(slot);
        self.store.free(slot);
        if corrupt {
            self.delivered[(stream ^ 1) as usize].corrupt += 1;
            return;
        }
        self.call(stream ^ 1, |agent, cx| agent.receive(cx, &packet));
    }

    fn on_timer(&mut self, endpoint: u32) {
        let timer = &mut self.timers[endpoint as usize];
        if timer.armed != self.now {
            return;
        }
        timer.armed = Instant::NEVER;
        if timer.due > self.now {
            if timer.due != Instant::NEVER {
                timer.set(&mut self.event_queue, endpoint, timer.due);
            }
            return;
        }
        timer.due = Instant::NEVER;
        self.call(endpoint, |agent, cx| agent.wake(cx));
    }

    /// Calls an endpoint, then forwards the packets that it sent.
    fn call(&mut self, endpoint: u32, act: impl FnOnce(&mut dyn Agent, &mut Context<'_>)) {
        let index = endpoint as usize;
        let mut cx = Context {
            now: self.now,
            endpoint,
            events: &mut self.event_queue,
            timer: &mut self.timers[index],
            store: &mut self.store,
            outbox: &mut self.outbox,
            paused: &mut self.paused,
            woken: &mut self.woken,
            delivered: &mut self.delivered[index],
        };
        act(self.agents[index].as_mut(), &mut cx);
        for other in self.woken.drain(..) {
            self.timers[other as usize].set(&mut self.event_queue, other, self.now);
        }
        if self.outbox.is_empty() {
            return;
        }
        let first = self.streams[index].first_hop;
        let link = self.hops[first as usize];
        let mut outbox = std::mem::take(&mut self.outbox);
        for slot in outbox.drain(..) {
            // Both ends are on one node: there is no link to model.
            if link == ARRIVED {
                self.store.free(slot);
                continue;
            }
            self.store.get_mut(slot).next_hop = first + 1;
            let (link, mut cx) = self.link_and_context(link);
            link.offer(&mut cx, slot);
        }
        self.outbox = outbox;
    }
}
