//! A link in one direction: what waits for it, the driver that feeds it, its wire, and what is in flight.
//!
//! ```text
//!   offer ─► queue (engine::Queue) ─► driver: transmit ring ─► wire (rate) ─► flight (delay) ─► arrive
//!   offer ─► tail-drop buffer in bytes ──────────────────────► wire
//! ```
//!
//! A plain buffer is reckoned, not simulated: with no choice to make, a packet's start is known when it arrives, so
//! it costs one event a link. Packets in flight keep their order; only the foremost has an event.
//!
//! The driver follows the ALTQ paper (Cho 1999): its transmit ring has a depth (section 4.2.8), its timer a
//! granularity (4.2.7: BSD's callout is at least two ticks, so the first may end early), and whether the wire is free
//! is known exactly from the ring, or estimated from the policy's bandwidth (4.2.5).

use crate::agenda::{Agenda, Event, Place};
use crate::capture::Capture;
use crate::meter::{Departure, LinkMeter, Loss as Lost};
use crate::packet::{Store, Travelling};
use crate::stream::Stream;
use engine::byte_clock::{AROUND, SHORTEST_FRAME};
use engine::classify::{Classifier, Filter};
use engine::discipline::{Next, Reason, Sink};
use engine::header::FlowHasher;
use engine::link_clock::LinkClock;
use engine::packet::{Buffer, ClassId, Dscp, Flow, Packet};
use engine::queue::Queue;
use engine::random::Seed;
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
pub use measure::impairments::Loss;
use measure::impairments::{Losing, Wander};
use std::collections::VecDeque;

/// What a link is like, in one direction.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Bits per second on the wire, framing included.
    pub rate: Bandwidth,
    /// The time of travel.
    pub delay: Duration,
    /// What the wire adds to a frame.
    pub framing: Framing,
    /// What it loses by itself, after it has carried it.
    pub loss: Loss,
    /// How much longer than the delay packets travel at most.
    pub jitter: Duration,
    /// What packets wait in.
    pub hold: Hold,
}

impl LinkSpec {
    /// A link without framing or loss and with an unlimited buffer.
    pub fn new(rate: Bandwidth, delay: Duration) -> Self {
        Self {
            rate,
            delay,
            framing: Framing::PLAIN,
            loss: Loss::None,
            jitter: Duration::ZERO,
            hold: Hold::Buffer(Bytes::new(u64::MAX)),
        }
    }

    /// The same with another place to wait in.
    #[must_use]
    pub fn hold(mut self, hold: Hold) -> Self {
        self.hold = hold;
        self
    }

    /// The same with losses.
    #[must_use]
    pub fn loss(mut self, loss: Loss) -> Self {
        self.loss = loss;
        self
    }

    /// The same with packets that travel longer than the delay, by up to this.
    #[must_use]
    pub fn jitter(mut self, most: Duration) -> Self {
        self.jitter = most;
        self
    }

    /// The same with framing.
    #[must_use]
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }
}

/// From a frame (Ethernet header included, no FCS) to what the wire carries for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// So many bytes more, or fewer.
    Add(i32),
    /// Ethernet: frames are padded to 60 bytes, and preamble, FCS and gap are 24.
    Ethernet,
    /// ATM with AAL5 and LLC/SNAP (RFC 2684): 16 bytes on the IP packet, in cells of 53 bytes that carry 48.
    Atm,
}

impl Framing {
    /// Frames count as they are.
    pub const PLAIN: Self = Self::Add(0);

    /// The bytes on the wire.
    pub fn on_wire(self, frame: Bytes) -> Bytes {
        const ETHERNET_HEADER: u64 = 14;
        Bytes::new(match self {
            Self::Add(more) => frame.get().saturating_add_signed(more.into()),
            Self::Ethernet => frame.get().max(SHORTEST_FRAME) + AROUND,
            Self::Atm => (frame.get().saturating_sub(ETHERNET_HEADER) + 16).div_ceil(48) * 53,
        })
    }
}

/// What packets wait in.
#[derive(Clone, Debug)]
pub enum Hold {
    /// A tail-drop buffer of this many bytes of frames, beside the frame that is being sent.
    Buffer(Bytes),
    /// The engine's queue.
    Ruled(Box<Ruled>),
}

/// A queue of the engine in front of a link.
#[derive(Clone, Debug)]
pub struct Ruled {
    /// The checked tree.
    pub plan: TreePlan,
    /// Which packets go into which class.
    pub filters: Vec<Filter>,
    /// The driver.
    pub driver: Driver,
}

/// What lies between a queue and its wire. How many packets the device holds is a fact of the plan's link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Driver {
    /// The granularity of its timers; none: exact.
    pub tick: Option<Duration>,
    /// How it knows that the wire is free.
    pub completion: Completion,
    /// Gap frames go onto the wire while the queue has packets that may not leave yet, if it asks for them: the wire is
    /// never idle then. The next node drops them. The device's completions are seen at ticks, if there are any.
    pub gaps: bool,
}

impl Default for Driver {
    fn default() -> Self {
        Self {
            tick: None,
            completion: Completion::Exact,
            gaps: false,
        }
    }
}

/// How a driver knows that the wire is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completion {
    /// The device says when a packet has left its ring.
    Exact,
    /// Beside that, the time that the packet takes is reckoned from its length and the policy's bandwidth. This is
    /// what `suimon run` does.
    Estimated,
}

/// What a link works with.
#[derive(Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) now: Instant,
    pub(crate) agenda: &'a mut Agenda,
    pub(crate) store: &'a mut Store,
    pub(crate) streams: &'a [Stream],
}

#[derive(Debug)]
struct Flying {
    place: Place,
    packet: Buffer,
}

/// A link in one direction.
#[derive(Debug)]
pub(crate) struct Link {
    id: u32,
    wire: LinkClock,
    delay: Duration,
    framing: Framing,
    losing: Losing,
    wander: Wander,
    pub(crate) lost: u64,
    flight: VecDeque<Flying>,
    hold: Holding,
    pub(crate) meter: Option<Box<LinkMeter>>,
    pub(crate) capture: Option<Box<Capture>>,
}

#[derive(Debug)]
enum Holding {
    Plain(TailDrop),
    Ruled(Box<Managed>),
}

impl Link {
    pub(crate) fn new(id: u32, spec: LinkSpec, seed: Seed) -> Self {
        Self {
            id,
            wire: LinkClock::new(spec.rate, Duration::ZERO),
            delay: spec.delay,
            framing: spec.framing,
            losing: Losing::new(spec.loss, seed),
            wander: Wander::new(spec.jitter, seed),
            lost: 0,
            flight: VecDeque::new(),
            hold: match spec.hold {
                Hold::Buffer(limit) => Holding::Plain(TailDrop::new(limit)),
                Hold::Ruled(ruled) => Holding::Ruled(Box::new(Managed::new(*ruled, seed))),
            },
            meter: None,
            capture: None,
        }
    }

    pub(crate) fn rate(&self) -> Bandwidth {
        self.wire.rate()
    }

    /// The queue and its plan, if a policy rules here.
    pub(crate) fn ruled(&self) -> Option<(&Queue, &TreePlan)> {
        match &self.hold {
            Holding::Ruled(managed) => Some((&managed.queue, &managed.plan)),
            Holding::Plain(_) => None,
        }
    }

    /// Adopts a plan of the same shape; `false` if it cannot, or no policy rules here.
    pub(crate) fn retune(&mut self, around: &mut Surroundings<'_>, plan: TreePlan) -> bool {
        let Holding::Ruled(managed) = &mut self.hold else {
            return false;
        };
        let adopted = managed.queue.retune(around.now, plan.root.plan.as_ref());
        if adopted {
            managed.plan = plan;
            managed.timer = None;
            self.drive(around);
        }
        adopted
    }

    /// A packet wants to enter.
    pub(crate) fn offer(&mut self, around: &mut Surroundings<'_>, packet: Buffer) {
        // A packet that leaves at this very time leaves first.
        self.ask(around);
        let Travelling {
            stream,
            ecn,
            remarked,
            ..
        } = *around.store.get(packet);
        let frame = around.store.get(packet).frame();
        match &mut self.hold {
            Holding::Plain(buffer) => match buffer.start(around.now, frame, self.wire.free_at()) {
                Some(start) => {
                    if let Some(meter) = &mut self.meter {
                        meter.offered(around.now, ClassId(0), frame);
                    }
                    self.carry(around, packet, ClassId(0), around.now, start, start);
                }
                None => {
                    tell(around.agenda, around.store.get(packet), around.now + NOTICE);
                    around.store.free(packet);
                    if let Some(meter) = &mut self.meter {
                        meter.refused(around.now, stream, frame);
                    }
                }
            },
            Holding::Ruled(managed) => {
                let (class, flow) = managed.class(stream, remarked, around.streams);
                let mut offered = Packet::new(frame + managed.plan.link.overhead, around.now, class);
                (offered.flow, offered.ecn, offered.buffer) = (flow, ecn, packet);
                let point = remarked.unwrap_or(around.streams[stream as usize].key.dscp);
                offered.dscp = Dscp::arrived(point);
                if let Some(meter) = &mut self.meter {
                    meter.offered(around.now, class, frame);
                }
                let mut sink = Losses {
                    now: around.now,
                    agenda: around.agenda,
                    store: around.store,
                    meter: &mut self.meter,
                };
                // The sink has seen a refusal.
                let _ = managed.queue.enqueue(around.now, offered, &mut sink);
                self.drive(around);
            }
        }
    }

    /// The driver's timer ran out, or a place in its ring became free.
    pub(crate) fn ask(&mut self, around: &mut Surroundings<'_>) {
        if let Holding::Ruled(managed) = &mut self.hold
            && managed.armed <= around.now
        {
            managed.armed = Instant::NEVER;
            self.drive(around);
        }
    }

    /// Moves packets from the queue to the device as far as it may.
    fn drive(&mut self, around: &mut Surroundings<'_>) {
        let now = around.now;
        while let Holding::Ruled(managed) = &mut self.hold {
            let mut sink = Losses {
                now,
                agenda: around.agenda,
                store: around.store,
                meter: &mut self.meter,
            };
            let step = managed.next(now, &mut sink);
            let dry = self.wire.free_at() < now && !matches!(step, Step::Rest(_));
            if std::mem::take(&mut managed.full)
                && dry
                && let Some(meter) = &mut self.meter
            {
                meter.ran_dry();
            }
            match step {
                Step::Send(packet) => {
                    let travelling = around.store.get_mut(packet.buffer);
                    travelling.ecn = packet.ecn;
                    travelling.remarked = packet.dscp.to_write().or(travelling.remarked);
                    let start = self.wire.free_at().max(now);
                    self.carry(around, packet.buffer, packet.class, packet.arrived, now, start);
                }
                Step::Gap(slot) => {
                    let start = self.wire.free_at().max(now);
                    self.wire.send(start, slot);
                    managed.ring.push_back(self.wire.free_at());
                    if let Some(meter) = &mut self.meter {
                        meter.gap(slot);
                    }
                }
                Step::Rest(until) => {
                    managed.full = managed.driver.gaps && managed.ring.len() >= managed.depth();
                    if until < managed.armed {
                        managed.armed = until;
                        around.agenda.schedule(until, Event::Drive(self.id));
                    }
                    return;
                }
            }
        }
    }

    /// Puts a packet on the wire, from `start` on; it stops waiting when it is `taken`.
    fn carry(
        &mut self,
        around: &mut Surroundings<'_>,
        packet: Buffer,
        class: ClassId,
        arrived: Instant,
        taken: Instant,
        start: Instant,
    ) {
        let travelling = around.store.get(packet);
        tell(around.agenda, travelling, start);
        let (stream, frame, remarked) = (travelling.stream, travelling.frame(), travelling.remarked);
        self.wire.send(start, self.framing.on_wire(frame));
        let finish = self.wire.free_at();
        if let Holding::Ruled(managed) = &mut self.hold {
            managed.ring.push_back(finish);
        }
        if let Some(meter) = &mut self.meter {
            let departure = Departure {
                class,
                stream,
                frame,
                arrived,
                taken,
                start,
                finish,
            };
            meter.departed(around.now, &departure);
        }
        if let Some(capture) = &mut self.capture {
            let key = around.streams[stream as usize].key_of(remarked);
            capture.add(start, &key, &around.store.packet(packet));
        }
        if self.losing.lose() {
            self.lost += 1;
            around.store.free(packet);
            return;
        }
        let place = around.agenda.place(self.wander.arrival(finish + self.delay));
        if self.flight.is_empty() {
            around.agenda.put(place, Event::Arrive(self.id));
        }
        self.flight.push_back(Flying { place, packet });
    }

    /// The foremost packet has arrived.
    pub(crate) fn arrive(&mut self, agenda: &mut Agenda) -> Option<Buffer> {
        let arrived = self.flight.pop_front()?;
        if let Some(next) = self.flight.front() {
            agenda.put(next.place, Event::Arrive(self.id));
        }
        Some(arrived.packet)
    }
}

/// A buffer of bytes with tail drop, reckoned.
#[derive(Debug)]
struct TailDrop {
    limit: u64,
    held: u64,
    /// When each packet that waits starts, and its length.
    waiting: VecDeque<(Instant, u64)>,
}

impl TailDrop {
    fn new(limit: Bytes) -> Self {
        Self {
            limit: limit.get(),
            held: 0,
            waiting: VecDeque::new(),
        }
    }

    /// When a packet that arrives now starts on a wire that is free at `free`; `None` if it finds no room.
    fn start(&mut self, now: Instant, len: Bytes, free: Instant) -> Option<Instant> {
        if free <= now {
            self.held = 0;
            self.waiting.clear();
            return Some(now);
        }
        if self.limit == u64::MAX {
            return Some(free);
        }
        while let Some(&(start, len)) = self.waiting.front()
            && start <= now
        {
            self.held -= len;
            self.waiting.pop_front();
        }
        if self.held + len.get() > self.limit {
            return None;
        }
        self.held += len.get();
        self.waiting.push_back((free, len.get()));
        Some(free)
    }
}

/// The engine's queue, and the driver behind it.
#[derive(Debug)]
struct Managed {
    queue: Queue,
    plan: TreePlan,
    classifier: Classifier,
    hasher: FlowHasher,
    driver: Driver,
    /// The wire as it is estimated.
    estimate: Option<LinkClock>,
    /// When each packet in the device will have left.
    ring: VecDeque<Instant>,
    /// When a coarse timer will go off.
    timer: Option<Instant>,
    /// The earliest time for which the agenda has us down.
    armed: Instant,
    /// It puts gap frames, and its ring was full when it was last looked at.
    full: bool,
    /// The class and the flow of each stream, once known.
    streams: Vec<Option<(ClassId, Flow)>>,
}

/// What the driver does next.
enum Step {
    /// Give this packet to the device.
    Send(Packet),
    /// Give it a gap frame of this slot.
    Gap(Bytes),
    /// Nothing before this time.
    Rest(Instant),
}

impl Managed {
    fn new(ruled: Ruled, seed: Seed) -> Self {
        let Ruled {
            plan,
            filters,
            driver,
        } = ruled;
        let estimated = driver.completion == Completion::Estimated;
        Self {
            queue: plan.build(seed),
            classifier: Classifier::new(filters, seed),
            hasher: FlowHasher::new(seed),
            driver,
            estimate: estimated
                .then(|| LinkClock::new(plan.link.bandwidth, driver.tick.unwrap_or(Duration::ZERO))),
            plan,
            ring: VecDeque::new(),
            timer: None,
            armed: Instant::NEVER,
            full: false,
            streams: Vec::new(),
        }
    }

    /// Packets that the device holds at most, the one on the wire included.
    fn depth(&self) -> usize {
        self.plan.link.ring.max(1) as usize
    }

    /// The class and flow of a stream's packets: the same for all, but for those with a changed code point, so they
    /// are looked up once.
    fn class(&mut self, stream: u32, remarked: Option<u8>, streams: &[Stream]) -> (ClassId, Flow) {
        let index = stream as usize;
        let default = self.plan.default.unwrap_or(ClassId(0));
        if remarked.is_some() {
            let key = streams[index].key_of(remarked);
            let class = self.classifier.classify(&key).unwrap_or(default);
            return (class, self.hasher.flow(&key));
        }
        if self.streams.len() <= index {
            self.streams.resize(streams.len(), None);
        }
        *self.streams[index].get_or_insert_with(|| {
            let key = &streams[index].key;
            let class = self.classifier.classify(key).unwrap_or(default);
            (class, self.hasher.flow(key))
        })
    }

    fn next(&mut self, now: Instant, sink: &mut dyn Sink) -> Step {
        while self.ring.front().is_some_and(|&left| left <= now) {
            self.ring.pop_front();
        }
        if self.queue.is_empty() {
            return Step::Rest(Instant::NEVER);
        }
        if self.ring.len() >= self.depth() {
            return Step::Rest(self.completion());
        }
        if let Some(until) = self.estimate.as_ref().and_then(|clock| clock.busy_until(now)) {
            return Step::Rest(self.alarm(now, until));
        }
        match self.queue.dequeue(now, sink) {
            Next::Ready(packet) => {
                if let Some(clock) = &mut self.estimate {
                    clock.send(now, packet.len);
                }
                Step::Send(packet)
            }
            Next::Wait(until) => match self.fill() {
                Some(slot) => Step::Gap(slot),
                None => Step::Rest(self.alarm(now, until)),
            },
            Next::Empty => Step::Rest(Instant::NEVER),
        }
    }

    /// The slot of a gap frame, if this driver makes them and the queue asks for one.
    fn fill(&mut self) -> Option<Bytes> {
        let longest = self.plan.link.mtu + Bytes::new(AROUND);
        self.driver.gaps.then(|| self.queue.gap(longest)).flatten()
    }

    /// When the device next reports a packet as sent.
    fn completion(&self) -> Instant {
        let left = self.ring.front().copied().unwrap_or(Instant::NEVER);
        match self.driver.tick.map(Duration::nanos) {
            Some(tick @ 1..) if self.driver.gaps && left != Instant::NEVER => {
                Instant::from_nanos(left.nanos().div_ceil(tick).saturating_mul(tick))
            }
            _ => left,
        }
    }

    /// When the queue is asked again if it wants to be at `until`: then, or if timers are coarse, at their tick or at
    /// the next completion, whichever comes first.
    fn alarm(&mut self, now: Instant, until: Instant) -> Instant {
        let Some(tick) = self.driver.tick.map(Duration::nanos).filter(|&tick| tick > 0) else {
            return until;
        };
        let timer = match self.timer.filter(|&at| at > now) {
            Some(set) => set,
            None => {
                let two = now.nanos() / tick + 2;
                Instant::from_nanos(two.max(until.nanos().div_ceil(tick)).saturating_mul(tick))
            }
        };
        self.timer = Some(timer);
        timer.min(self.completion())
    }
}

/// After so long, who sent a packet notices that it was lost in front of the first link.
const NOTICE: Duration = Duration::from_millis(1);

/// Lets the sender of a packet know at this time that it has left the first queue, if it wants to.
fn tell(agenda: &mut Agenda, travelling: &Travelling, at: Instant) {
    if travelling.tell {
        agenda.schedule(at, Event::Left(travelling.stream));
    }
}

/// Takes lost packets out of the store, and tells the meter and perhaps the sender.
struct Losses<'a> {
    now: Instant,
    agenda: &'a mut Agenda,
    store: &'a mut Store,
    meter: &'a mut Option<Box<LinkMeter>>,
}

impl Sink for Losses<'_> {
    fn drop(&mut self, packet: Packet, why: Reason) {
        let travelling = self.store.get(packet.buffer);
        tell(self.agenda, travelling, self.now + NOTICE);
        let (stream, frame) = (travelling.stream, travelling.frame());
        self.store.free(packet.buffer);
        if let Some(meter) = self.meter {
            let loss = Lost {
                class: packet.class,
                stream,
                frame,
                arrived: packet.arrived,
                why,
            };
            meter.dropped(self.now, &loss);
        }
    }

    fn mark(&mut self, packet: &Packet, _why: Reason) {
        if let Some(meter) = self.meter {
            let stream = self.store.get(packet.buffer).stream;
            meter.marked(self.now, packet.class, stream);
        }
    }
}
