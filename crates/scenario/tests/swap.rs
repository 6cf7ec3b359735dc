//! One engine, three places: the simulator and the worker, with one policy and one list of
//! arrivals, send the same packets at the same times, to the nanosecond.
//!
//! Policies of every kind are drawn at random, over wires slower than, as fast as and faster than
//! their bandwidth, with framing and cells, super-frames, deep transmit rings, realisers, and
//! changes while packets flow; each of these is counted. A super-frame that the port takes whole
//! is in the simulator one packet with the lengths of all its segments; of one that is cut, it is
//! each segment. Not compared are fields of their headers that offload completes: lengths, the IP
//! identification, and checksums.
//! The worker runs between ports in memory, on a clock of the test's own: it is never late, so
//! whatever differs is a difference between the two places; in `hold_ups` it is. A lab's link is
//! tested beside them in `lab`: it is the same
//! [`ShapedQueue`](engine::shaped_queue::ShapedQueue) before a wire.

#[allow(dead_code, reason = "the engine's tests use more of it")]
#[path = "../../engine/tests/contract/policies.rs"]
mod policies;

#[path = "swap/hold_ups.rs"]
mod hold_ups;

use engine::classify::{Classifier, Filter, Ports};
use engine::framing::{Framing, Linklayer};
use engine::header::{Family, FlowKey};
use engine::kind::{Children, Kind};
use engine::link_clock::LinkClock;
use engine::packet::{Buffer, ClassId, Ecn};
use engine::random::{Rng, Seed};
use engine::tree::{Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use netio::classify::ByFilters;
use netio::handle::{Handle, Retune};
use netio::hold_ups::HoldUpLog;
use netio::pool::{Gso, Offload, Pool, Slots};
use netio::port::{Capabilities, Counters, Port, PortError, Wake};
use netio::realiser::Realiser;
use netio::realiser::timer::Timer;
use netio::worker::{PathId, PathSpec, Settings, Turn, Worker};
use sim::agent::{Agent, Context};
use sim::capture::headers;
use sim::link::{Completion, Driver, LinkQueue, LinkSpec, PolicyQueue};
use sim::packet::{Payload, SimPacket};
use sim::simulation::Simulation;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Policies in the debug build of CI; `SWAP_POLICIES` says otherwise.
const POLICIES: u64 = 2_000;
const FLOWS: u16 = 6;
const ARRIVALS: usize = 150;
/// Ethernet, IPv4 and UDP: the headers of each segment of a super-frame.
const HEADERS: u64 = 42;
/// The payload of a full segment.
const SEGMENT: u64 = 1_472;
/// A super-frame of more full segments takes longer than 1 ms on 100 Mbit/s, and is cut.
const MOST_WHOLE: u64 = 8;
/// The most segments of one that is cut.
const MOST_CUT: u64 = 16;

/// A packet that arrives.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Instant,
    flow: u16,
    /// The length of its frame; of a super-frame, with the headers of the first segment alone.
    frame: u64,
    ecn: Ecn,
}

impl Arrival {
    /// More than one of a super-frame.
    fn segments(&self) -> u64 {
        match self.frame > HEADERS + SEGMENT {
            true => (self.frame - HEADERS).div_ceil(SEGMENT),
            false => 1,
        }
    }

    /// The lengths of its segments' frames.
    fn cut(&self) -> Vec<u64> {
        let payload = self.frame - HEADERS;
        let each = (0..self.segments()).map(|number| HEADERS + SEGMENT.min(payload - number * SEGMENT));
        each.collect()
    }

    /// The length of one packet that is as long on the wire, which adds the same to each frame
    /// where there is more than one.
    fn as_one(&self, wire: Framing) -> u64 {
        let more = wire.added().unwrap_or(Bytes::ZERO).get();
        self.frame + (self.segments() - 1) * (HEADERS + more)
    }

    /// What a link carries for all of it.
    fn on_wire(&self, wire: Framing) -> Bytes {
        let each = self
            .cut()
            .into_iter()
            .map(|frame| wire.on_wire(Bytes::new(frame)));
        each.fold(Bytes::ZERO, |sum, one| sum + one)
    }
}

/// A packet on the wire: the time of its first bit, its headers, the length of its frame.
#[derive(Clone, PartialEq, Eq, Debug)]
struct OnWire {
    at: Instant,
    headers: Vec<u8>,
    frame: u32,
}

/// What both places are given.
struct Trial {
    plan: TreePlan,
    filters: Vec<Filter>,
    arrivals: Vec<Arrival>,
    /// A plan of the same shape, and when it is adopted.
    change: Option<(Instant, TreePlan)>,
    wire: Bandwidth,
    /// What the wire makes of a frame.
    framing: Framing,
    /// Whether packets are paced by timers.
    realiser: bool,
}

impl Trial {
    /// Whether the worker cuts it: it is more than one packet, and is paced or takes long.
    fn cuts(&self, arrival: &Arrival) -> bool {
        let link = self.plan.link;
        let long =
            link.bandwidth.time_to_send(arrival.on_wire(link.framing)) > Settings::default().split_above;
        arrival.segments() > 1 && (self.realiser || long)
    }

    /// The lengths of the packets that it is in the simulator.
    fn packets(&self, arrival: &Arrival) -> Vec<u64> {
        match self.cuts(arrival) {
            true => arrival.cut(),
            false => vec![arrival.as_one(self.framing)],
        }
    }

    fn has_supers(&self) -> bool {
        self.arrivals.iter().any(|arrival| arrival.segments() > 1)
    }
}

fn key(flow: u16) -> FlowKey {
    FlowKey {
        family: Family::V4,
        protocol: 17,
        source: 0x0a00_0001,
        destination: 0x0a00_0002,
        source_port: Some(1_000 + flow),
        destination_port: Some(2_000),
        dscp: [0, 46, 10, 14, 8, 34][flow as usize % 6],
        ethertype: 0x0800,
        ..FlowKey::default()
    }
}

fn packet(arrival: &Arrival, frame: u64) -> SimPacket {
    SimPacket {
        ecn: arrival.ecn,
        ..SimPacket::new(Bytes::new(frame), Payload::Datagram(0))
    }
}

/// The headers; where there are super-frames, without what offload completes.
fn comparable(headers: &[u8], supers: bool) -> Vec<u8> {
    let mut headers = headers.to_vec();
    if supers {
        for completed in [16..20, 24..26, 38..42] {
            headers[completed].fill(0);
        }
    }
    headers
}

/// The seed that the simulation gives to its only link.
fn link_seed() -> Seed {
    Seed(7).fork("link").fork("a").fork("b")
}

/// Sends its packets at their times; of each arrival, frames of these lengths.
#[derive(Debug)]
struct Listed(VecDeque<(Arrival, Vec<u64>)>);

impl Agent for Listed {
    fn wake(&mut self, cx: &mut Context<'_>) {
        if let Some((next, frames)) = self.0.pop_front_if(|(next, _)| next.at <= cx.now()) {
            cx.send_together(frames.into_iter().map(|frame| packet(&next, frame)));
        }
        if let Some((next, _)) = self.0.front() {
            cx.wake_at(next.at);
        }
    }

    fn receive(&mut self, _cx: &mut Context<'_>, _packet: &SimPacket) {}
}

/// What the simulator sends.
fn simulated(trial: &Trial) -> Vec<OnWire> {
    let mut sim = Simulation::new(Seed(7));
    let (a, b) = (sim.node("a"), sim.node("b"));
    let queue = LinkQueue::Policy(Box::new(PolicyQueue {
        plan: trial.plan.clone(),
        filters: trial.filters.clone(),
        driver: Driver {
            completion: Completion::Estimated,
            ..Driver::default()
        },
    }));
    let spec = LinkSpec::new(trial.wire, Duration::ZERO).framing(trial.framing);
    let link = sim.link(a, b, spec.queue(queue));
    sim.link(b, a, LinkSpec::new(trial.wire, Duration::ZERO));
    sim.capture(link, ARRIVALS * MOST_CUT as usize);
    for flow in 0..FLOWS {
        let own: VecDeque<_> = trial
            .arrivals
            .iter()
            .filter(|a| a.flow == flow)
            .map(|arrival| (*arrival, trial.packets(arrival)))
            .collect();
        if let Some(first) = own.front().map(|(arrival, _)| arrival.at) {
            let ends: [Box<dyn Agent>; 2] = [Box::new(Listed(own)), Box::new(Listed(VecDeque::new()))];
            sim.flow([a, b], key(flow), first, ends).expect("a route");
        }
    }
    if let Some((at, plan)) = &trial.change {
        sim.run_until(*at);
        assert!(sim.retune(link, plan.clone()), "there is a policy");
    }
    sim.run_until(end(trial));
    let frames = sim.captured(link).expect("a capture").frames();
    let sent = frames.map(|frame| OnWire {
        at: frame.at,
        headers: comparable(frame.headers, trial.has_supers()),
        frame: frame.original,
    });
    sent.collect()
}

/// Long after the last arrival: slow classes have sent what they hold.
fn end(trial: &Trial) -> Instant {
    let last = trial.arrivals.last().map_or(Instant::START, |arrival| arrival.at);
    last + Duration::from_secs(20)
}

/// A wire of the test: a transmit ring of some depth, and the rate behind it.
#[derive(Debug)]
struct Transmitter {
    now: Instant,
    clock: LinkClock,
    framing: Framing,
    depth: usize,
    supers: bool,
    /// When each frame in the ring will have left.
    ring: VecDeque<Instant>,
    sent: Vec<OnWire>,
    /// When each of these was put into the ring.
    taken: Vec<Instant>,
}

impl Transmitter {
    fn room(&self) -> usize {
        let left = self.ring.iter().filter(|left| **left <= self.now).count();
        self.depth - (self.ring.len() - left)
    }

    fn send(&mut self, bytes: &[u8], is_super: bool) {
        while self.ring.pop_front_if(|left| *left <= self.now).is_some() {}
        let start = self.clock.free_at().max(self.now);
        let arrived = Arrival {
            at: self.now,
            flow: 0,
            frame: bytes.len() as u64,
            ecn: Ecn::NotEct,
        };
        assert_eq!(is_super, arrived.segments() > 1, "it is cut here, if at all");
        let frame = arrived.as_one(self.framing);
        self.clock.send(start, arrived.on_wire(self.framing));
        self.ring.push_back(self.clock.free_at());
        self.taken.push(self.now);
        self.sent.push(OnWire {
            at: start,
            headers: comparable(&bytes[..42], self.supers),
            frame: frame as u32,
        });
    }

    /// When there will be room, if there is none.
    fn room_at(&self) -> Instant {
        match self.room() {
            0 => self.ring.front().copied().unwrap_or(Instant::NEVER),
            _ => Instant::NEVER,
        }
    }
}

/// The port of a transmitter.
#[derive(Debug, Clone)]
struct ToWire(Arc<Mutex<Transmitter>>);

impl ToWire {
    fn with<T>(&self, act: impl FnOnce(&mut Transmitter) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Port for ToWire {
    fn name(&self) -> &'static str {
        "wire"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            checksum: true,
            udp_gso: true,
            ..Capabilities::plain(1_500, self.with(|wire| wire.depth))
        }
    }

    fn receive(&mut self, _pool: &mut Pool, _into: &mut Vec<Buffer>) -> Result<(), PortError> {
        Ok(())
    }

    fn room(&self) -> usize {
        self.with(|wire| wire.room())
    }

    fn transmit(&mut self, pool: &mut Pool, frame: Buffer) {
        let is_super = pool.offload(frame).gso.is_some();
        self.with(|wire| wire.send(pool.bytes(frame), is_super));
        pool.free(frame);
    }

    fn kick(&mut self, _pool: &mut Pool) -> Result<(), PortError> {
        Ok(())
    }

    fn wake(&self, _room: bool) -> Option<Wake<'_>> {
        None
    }

    fn revive(&mut self, _pool: &mut Pool) -> Result<(), PortError> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

/// A frame and when it arrived.
type Came = (Instant, Vec<u8>);

/// A port whose frames carry the time of their arrival.
#[derive(Debug, Clone, Default)]
struct Stamped(Arc<Mutex<VecDeque<Came>>>);

impl Stamped {
    fn frames(&self) -> MutexGuard<'_, VecDeque<Came>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Port for Stamped {
    fn name(&self) -> &'static str {
        "input"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(1_500, 64)
    }

    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Buffer>) -> Result<(), PortError> {
        let mut frames = self.frames();
        let batch = frames.len().min(32);
        for (arrived, bytes) in frames.drain(..batch) {
            let is_super = bytes.len() as u64 > HEADERS + SEGMENT;
            let offload = Offload {
                gso: is_super.then_some(Gso::Udp),
                segment: if is_super { SEGMENT as u16 } else { 0 },
                ..Offload::default()
            };
            let buffer = pool.put(&bytes, offload).expect("enough memory");
            pool.set_arrived(buffer, arrived);
            into.push(buffer);
        }
        Ok(())
    }

    fn room(&self) -> usize {
        0
    }

    fn transmit(&mut self, pool: &mut Pool, frame: Buffer) {
        pool.free(frame);
    }

    fn kick(&mut self, _pool: &mut Pool) -> Result<(), PortError> {
        Ok(())
    }

    fn wake(&self, _room: bool) -> Option<Wake<'_>> {
        None
    }

    fn revive(&mut self, _pool: &mut Pool) -> Result<(), PortError> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

/// The worker between an input and the wire.
struct Live {
    worker: Worker,
    handle: Handle,
    input: Stamped,
    wire: ToWire,
    now: Instant,
    /// When it has something to do.
    next: Instant,
    /// When its host does not let it run: in order, without overlaps.
    held: Vec<Range<Instant>>,
    noticed: HoldUpLog,
}

impl Live {
    fn new(trial: &Trial) -> Self {
        // A simulator has memory without end: here too there is enough for every packet.
        let slots = Slots {
            small: 1_024,
            big: 1_024,
        };
        let settings = Settings {
            slots,
            ..Settings::default()
        };
        let (mut worker, handle) = Worker::new(settings).expect("a worker");
        let (input, noticed) = (Stamped::default(), HoldUpLog::default());
        worker.log_hold_ups(&noticed);
        let wire = ToWire(Arc::new(Mutex::new(Transmitter {
            now: Instant::START,
            clock: LinkClock::new(trial.wire, Duration::ZERO),
            framing: trial.framing,
            depth: trial.plan.link.ring.max(1) as usize,
            supers: trial.has_supers(),
            ring: VecDeque::new(),
            sent: Vec::new(),
            taken: Vec::new(),
        })));
        let (from, to) = (
            worker.add_port(Box::new(input.clone())),
            worker.add_port(Box::new(wire.clone())),
        );
        let classifier = Classifier::new(trial.filters.iter().cloned(), link_seed());
        let pacing = trial.plan.root.plan.pacing().filter(|_| trial.realiser);
        worker.add_path(PathSpec {
            name: "swap".into(),
            from,
            to,
            mark: 0,
            classify: Box::new(ByFilters::new(classifier, &trial.plan, link_seed())),
            queue: trial.plan.build(link_seed()),
            plan: Some(trial.plan.clone()),
            bandwidth: Some(trial.plan.link.bandwidth),
            framing: trial.plan.link.framing,
            realiser: pacing.map(|pacing| Box::new(Timer::new(pacing, 1_500, None)) as Box<dyn Realiser>),
            wire: None,
            guarantees: Vec::new(),
        });
        Self {
            worker,
            handle,
            input,
            wire,
            now: Instant::START,
            next: Instant::NEVER,
            held: Vec::new(),
            noticed,
        }
    }

    /// When it runs that is to run at this time.
    fn awake(&self, at: Instant) -> Instant {
        let begun = self.held.partition_point(|held| held.start <= at);
        let last = begun.checked_sub(1).map(|last| self.held[last].end);
        last.map_or(at, |end| end.max(at))
    }

    /// Turns the worker at this time until it has nothing to do then, and notes when it has.
    fn settle(&mut self, now: Instant) {
        self.now = now;
        self.wire.with(|wire| wire.now = now);
        let mut turns = (0..10_000).map(|_| self.worker.turn_at(now));
        let idle = turns.find_map(|turn| match turn {
            Turn::Idle(until) => Some(until),
            Turn::Busy | Turn::Done => None,
        });
        let until = idle.expect("it never idles");
        self.next = until.min(self.wire.with(|wire| wire.room_at()));
    }

    /// Lets time pass, up to and including `end`.
    fn run_until(&mut self, end: Instant) {
        while self.awake(self.next) <= end {
            self.settle(self.awake(self.next));
        }
        self.now = end;
        self.wire.with(|wire| wire.now = end);
    }

    fn change(&mut self, plan: TreePlan) {
        let retune = Retune {
            plan,
            seed: link_seed(),
            classify: None,
            bandwidth: None,
            guarantees: Vec::new(),
        };
        std::thread::scope(|scope| {
            let handle = &self.handle;
            let asked = scope.spawn(move || handle.retune(PathId(0), retune));
            while !asked.is_finished() {
                let _ = self.worker.turn_at(self.now);
            }
            asked.join().expect("a thread").expect("an answer");
        });
    }

    fn arrive(&mut self, arrival: &Arrival) {
        let mut bytes = Vec::new();
        headers::write(&mut bytes, &key(arrival.flow), &packet(arrival, arrival.frame));
        bytes.resize(arrival.frame as usize, 0);
        self.input.frames().push_back((arrival.at, bytes));
        match self.awake(arrival.at) {
            at if at == arrival.at => self.settle(at),
            at => self.next = self.next.min(at),
        }
    }
}

/// What the worker sends.
fn live(trial: &Trial) -> Vec<OnWire> {
    let mut live = Live::new(trial);
    let mut change = trial.change.as_ref();
    for arrival in &trial.arrivals {
        if let Some((at, plan)) = change.take_if(|(at, _)| *at < arrival.at) {
            live.run_until(*at);
            live.change(plan.clone());
            live.settle(*at);
        }
        // What is due at the same time leaves first.
        live.run_until(arrival.at);
        live.arrive(arrival);
    }
    live.run_until(end(trial));
    live.wire.with(|wire| std::mem::take(&mut wire.sent))
}

/// Bursts, spells of silence, and single packets, of some flows; about as much as the link carries.
/// Super-frames of so many segments, if they are to be among them.
fn arrivals(rng: &mut Rng, bandwidth: Bandwidth, supers: Option<Range<u64>>) -> Vec<Arrival> {
    let mut at = Instant::START + Duration::from_micros(1_000 + rng.below(1_000));
    let load = 1 + rng.below(4);
    let mut one = |rng: &mut Rng| {
        let mut frame = [60, 61, 590, 1_514, 60 + rng.below(1_455)][rng.below(5) as usize];
        if let Some(segments) = supers.clone().filter(|_| rng.below(8) == 0) {
            let full = segments.start - 1;
            frame = HEADERS + full * SEGMENT + 1 + rng.below((segments.end - segments.start) * SEGMENT);
        }
        let time = bandwidth.time_to_send(Bytes::new(frame)).nanos();
        at = at
            + Duration::from_nanos(match rng.below(6) {
                0 => 1,
                1 => time * load / 2,
                2 => rng.below(time * 40),
                _ => 1 + rng.below(time * load),
            });
        Arrival {
            at,
            flow: rng.below(u64::from(FLOWS)) as u16,
            frame,
            ecn: [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1][rng.below(3) as usize],
        }
    };
    (0..ARRIVALS).map(|_| one(rng)).collect()
}

/// A random framing: a few that add the same to each frame, and unless the link is paced others.
fn a_framing(rng: &mut Rng, paced: bool) -> Framing {
    const FRAMINGS: [Framing; 9] = [
        Framing::PLAIN,
        Framing::PLAIN,
        Framing::add(4),
        Framing::add(24),
        Framing::add(-14),
        Framing::ETHERNET,
        Framing::ATM,
        Framing::new(26, 96, Linklayer::Atm),
        Framing::new(8, 68, Linklayer::Ptm),
    ];
    FRAMINGS[rng.below(if paced { 4 } else { FRAMINGS.len() as u64 }) as usize]
}

/// A random policy of this kind, with everything around it.
fn draw(registry: &Registry, kind: &Kind, child: Option<&Kind>, seed: Seed) -> Trial {
    let mut rng = seed.fork("around").stream();
    let paced = [Some(kind), child]
        .iter()
        .flatten()
        .any(|kind| kind.name == "pacer");
    let wire_framing = a_framing(&mut rng, false);
    let own = a_framing(&mut rng, paced);
    let same = !paced || wire_framing.added().is_some();
    let link = policies::LINK
        .with_framing(if same && rng.below(2) == 0 {
            wire_framing
        } else {
            own
        })
        .with_ring([1, 1, 2, 64][rng.below(4) as usize]);
    let policies::Policy { plan, other, .. } = policies::draw_for(registry, link, kind, child, seed);
    let leaves: Vec<u32> = (0..plan.classes.len() as u32)
        .filter(|class| plan.classes[*class as usize].leaf)
        .collect();
    let filters = (0..FLOWS - 1).filter_map(|flow| {
        let class = leaves.get(rng.below(leaves.len().max(1) as u64) as usize)?;
        Some(Filter {
            source_port: Some(Ports::one(1_000 + flow)),
            ..Filter::new(ClassId(*class))
        })
    });
    let filters = filters.collect();
    let times = [1, 2, 4, 400][rng.below(4) as usize];
    let wire = Bandwidth::bits_per_sec(link.bandwidth.bits() * times / 2);
    let realiser = rng.below(4) > 0 && plan.root.plan.pacing().is_some_and(|pacing| !pacing.frames);
    // As one packet a super-frame is as long as its segments if the wire adds what the policy
    // counts, and the same to each.
    let whole = !realiser && link.framing == wire_framing && wire_framing.added().is_some();
    let segments = match (whole, realiser) {
        (true, _) => 2..[MOST_WHOLE, MOST_CUT][rng.below(2) as usize] + 1,
        (false, true) => 2..MOST_WHOLE + 1,
        (false, false) => MOST_WHOLE + 2..MOST_CUT + 1,
    };
    let supers = (rng.below(2) == 0).then_some(segments);
    let arrivals = arrivals(&mut rng, link.bandwidth, supers);
    let changed_at = arrivals[ARRIVALS / 2].at + Duration::from_nanos(rng.below(1_000));
    Trial {
        plan,
        filters,
        change: (rng.below(2) == 0).then_some((changed_at, other)),
        arrivals,
        wire,
        framing: wire_framing,
        realiser,
    }
}

/// What was drawn: in how many policies.
#[derive(Debug, Default)]
struct Drawn {
    /// By the wire beside the bandwidth: slower, as fast, faster.
    wires: [u64; 3],
    overhead: u64,
    cells: u64,
    wire_adds: u64,
    deep_ring: u64,
    realised: u64,
    /// To a plan that differs.
    changed: u64,
    with_supers: u64,
    with_cuts: u64,
    super_frames: u64,
    cut: u64,
    packets: u64,
}

impl Drawn {
    fn count(&mut self, trial: &Trial, sent: &[OnWire]) {
        let link = trial.plan.link;
        self.wires[(trial.wire.cmp(&link.bandwidth) as i8 + 1) as usize] += 1;
        let other = |(_, plan): &(Instant, TreePlan)| format!("{plan:?}") != format!("{:?}", trial.plan);
        let supers = sent
            .iter()
            .filter(|packet| u64::from(packet.frame) > HEADERS + SEGMENT);
        let supers = supers.count() as u64;
        let cut = trial.arrivals.iter().filter(|arrival| trial.cuts(arrival));
        let cut = cut.count() as u64;
        for (counter, is) in [
            (&mut self.overhead, link.framing != Framing::PLAIN),
            (&mut self.cells, link.framing.added().is_none()),
            (&mut self.wire_adds, trial.framing != Framing::PLAIN),
            (&mut self.deep_ring, link.ring > 1),
            (&mut self.realised, trial.realiser),
            (&mut self.changed, trial.change.as_ref().is_some_and(other)),
            (&mut self.with_supers, supers > 0),
            (&mut self.with_cuts, cut > 0),
        ] {
            *counter += u64::from(is);
        }
        self.super_frames += supers;
        self.cut += cut;
        self.packets += sent.len() as u64;
    }

    /// Each of these must have been tried often enough.
    fn judge(&self, policies: u64) {
        let few = |least: u64, found: u64| found < policies / least;
        let [slower, equal, faster] = self.wires;
        for (what, found, least) in [
            ("slower wires", slower, 8),
            ("wires as fast", equal, 8),
            ("faster wires", faster, 4),
            ("framing that the policy counts", self.overhead, 4),
            ("cells, padding or less than a frame", self.cells, 8),
            ("framing of the wire", self.wire_adds, 4),
            ("deep transmit rings", self.deep_ring, 4),
            ("realisers", self.realised, 100),
            ("changes to other settings", self.changed, 4),
            ("policies with super-frames", self.with_supers, 16),
            ("policies with super-frames that are cut", self.with_cuts, 8),
        ] {
            assert!(!few(least, found), "{what}: only {found}; {self:?}");
        }
        assert!(self.super_frames > policies / 2, "{self:?}");
        assert!(self.packets > policies * ARRIVALS as u64 / 4, "{self:?}");
    }
}

#[test]
fn the_simulator_and_the_worker_send_the_same_packets_at_the_same_times() {
    let registry = Registry::builtin();
    let kinds: Vec<&Kind> = registry.kinds().collect();
    let policies = std::env::var("SWAP_POLICIES").ok().and_then(|n| n.parse().ok());
    let policies: u64 = policies.unwrap_or(POLICIES);
    let mut drawn = Drawn::default();
    for number in 0..policies {
        let kind = kinds[number as usize % kinds.len()];
        let child =
            (kind.children != Children::None).then(|| kinds[(number as usize / kinds.len()) % kinds.len()]);
        let seed = Seed(1).fork(&number.to_string());
        let trial = draw(&registry, kind, child, seed);
        let expected = simulated(&trial);
        let found = live(&trial);
        let names = (kind.name, child.map(|child| child.name));
        let differs = expected.iter().zip(&found).position(|(one, other)| one != other);
        let at = differs.unwrap_or(expected.len().min(found.len()));
        assert!(
            expected == found,
            "policy {number} ({names:?}), wire {} of {}, realised: {}, {:?}: packet {at} is\n{:?} in \
             the simulator, {:?} in the worker; {} and {} in all",
            trial.wire,
            trial.framing,
            trial.realiser,
            trial.plan.link,
            expected.get(at),
            found.get(at),
            expected.len(),
            found.len(),
        );
        drawn.count(&trial, &found);
    }
    eprintln!("{policies} policies: {drawn:?}");
    drawn.judge(policies);
}
