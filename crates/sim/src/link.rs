//! A link in one direction: its queue, the driver that feeds it, its wire, and what is in flight.
//!
//! ```text
//!   offer ─► queue (engine::Queue) ─► driver: transmit ring ─► wire (rate) ─► delay ─► arrival
//!   offer ─► tail-drop buffer in bytes ──────────────────────► wire
//! ```
//!
//! A tail-drop buffer is computed, not simulated: without a choice of packets, each packet's start
//! is known when it arrives, so it costs one event per link. Packets in flight keep their order;
//! only the first has an event.
//!
//! The driver follows the ALTQ paper (Cho 1999). Its transmit ring has a depth (section 4.2.8). Its
//! timer has a granularity (4.2.7: BSD's callout takes at least two ticks, since the first may be
//! short). It knows from the ring that the wire is free. Where the wire could carry more than the
//! policy's bandwidth, the queue keeps to that by its own clock ([`ShapedQueue`]). Where the wire
//! is the bottleneck it does so if that is asked for, as `suimon run` does (4.2.5).

mod extras;
mod on_medium;
mod tail_drop;
mod transmission;

use self::extras::Extras;
use self::tail_drop::TailDrop;
use self::transmission::Transmission;
use crate::event_queue::{Event, EventKey, EventQueue};
use crate::meter::{Departure, DropRecord};
use crate::packet::{InFlight, Store};
use crate::stream::Stream;
use engine::byte_clock::WIRE_OVERHEAD;
use engine::classify::{Classifier, Filter};
use engine::discipline::{Next, Reason, Sink};
use engine::framing::Framing;
use engine::header::FlowHasher;
use engine::link_clock::LinkClock;
use engine::packet::{Buffer, ClassId, Dscp, FlowHashes, Packet};
use engine::portion::Portion;
use engine::queue::Queue;
use engine::random::Seed;
use engine::shaped_queue::{CATCH_UP, HEIRS, ShapedQueue, hand_over};
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::impairments::{ImpairmentCounts, ImpairmentSchedule, Impairments, Jitter};
pub use measure::impairments::{Loss, Reordering};
use measure::link_trace::LinkTrace;
use measure::promise::ClassPromise;
use measure::wire_model::{Crossing, ImpairedCrossing, WireModel, WireSettings};
use std::collections::VecDeque;

/// The properties of a link in one direction.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Bits per second on the wire, framing included.
    pub rate: Bandwidth,
    /// The propagation delay.
    pub delay: Duration,
    /// What it costs on a route: packets take the cheapest.
    pub cost: u32,
    /// What the wire adds to a frame.
    pub framing: Framing,
    /// What befalls packets on the wire, after their transmission.
    pub impairments: Impairments,
    /// What befalls them later.
    pub later: ImpairmentSchedule,
    /// What it is over time, from the start on; the rate, delay and loss above are what the trace
    /// does not say.
    pub trace: Option<LinkTrace>,
    /// The receiving card interrupts its host at multiples of this time only; it hands over all
    /// that has arrived since. Zero: at once.
    pub interrupts: Duration,
    /// The queue in front of the wire.
    pub queue: LinkQueue,
}

impl LinkSpec {
    /// A link without framing or impairments, and with an unlimited buffer.
    pub fn new(rate: Bandwidth, delay: Duration) -> Self {
        Self {
            rate,
            delay,
            cost: 1,
            framing: Framing::PLAIN,
            impairments: Impairments::default(),
            later: ImpairmentSchedule::default(),
            trace: None,
            interrupts: Duration::ZERO,
            queue: LinkQueue::TailDrop(Bytes::new(u64::MAX)),
        }
    }

    /// The same at another cost on routes.
    #[must_use]
    pub fn cost(mut self, cost: u32) -> Self {
        self.cost = cost;
        self
    }

    /// The same with another queue.
    #[must_use]
    pub fn queue(mut self, queue: LinkQueue) -> Self {
        self.queue = queue;
        self
    }

    /// The same with loss.
    #[must_use]
    pub fn loss(mut self, loss: Loss) -> Self {
        self.impairments.loss = loss;
        self
    }

    /// The same with jitter; a duration is uniform jitter up to that much.
    #[must_use]
    pub fn jitter(mut self, jitter: impl Into<Jitter>) -> Self {
        self.impairments.jitter = jitter.into();
        self
    }

    /// The same with these impairments, and what they are later.
    #[must_use]
    pub fn impaired(mut self, impairments: Impairments, later: ImpairmentSchedule) -> Self {
        (self.impairments, self.later) = (impairments, later);
        self
    }

    /// The same with packets that others overtake.
    #[must_use]
    pub fn reordering(mut self, reordering: Reordering) -> Self {
        self.impairments.reordering = reordering;
        self
    }

    /// The same that follows a trace.
    #[must_use]
    pub fn trace(mut self, trace: Option<LinkTrace>) -> Self {
        self.trace = trace;
        self
    }

    /// The same with a receiving card that interrupts its host this often at most.
    #[must_use]
    pub fn interrupts(mut self, every: Duration) -> Self {
        self.interrupts = every;
        self
    }

    /// The same with framing.
    #[must_use]
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }
}

/// The queue in front of a wire.
#[derive(Clone, Debug)]
pub enum LinkQueue {
    /// A tail-drop buffer of this many bytes of frames, beside the frame on the wire.
    TailDrop(Bytes),
    /// The engine's queue under a policy.
    Policy(Box<PolicyQueue>),
}

/// The engine's queue under a policy, and the driver behind it.
#[derive(Clone, Debug)]
pub struct PolicyQueue {
    /// The checked tree of disciplines and classes.
    pub plan: TreePlan,
    /// Which packets belong to which class.
    pub filters: Vec<Filter>,
    /// The driver.
    pub driver: Driver,
}

/// The driver between a queue and its wire. The depth of its transmit ring is a fact of the plan's
/// link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Driver {
    /// The granularity of its timers; none: exact.
    pub tick: Option<Duration>,
    /// How it knows that the wire is free.
    pub completion: Completion,
    /// It sends gap frames while the queue has packets that may not leave yet, if the queue asks
    /// for gaps: then the wire is never idle. The next node drops them. With ticks, the device's
    /// completions are seen at ticks.
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

engine::choices! {
    /// How a driver knows that the wire is free, where the wire is no faster than the policy.
    pub enum Completion {
        /// The device reports each packet that has left its ring.
        Exact = "exact",
        /// In addition, the driver computes a packet's time from its length and the policy's
        /// bandwidth, as `suimon run` does everywhere.
        Estimated = "estimated",
    }
}

/// What a link works with when an event concerns it.
#[derive(Debug)]
pub(crate) struct LinkContext<'a> {
    pub(crate) now: Instant,
    pub(crate) events: &'a mut EventQueue,
    pub(crate) store: &'a mut Store,
    pub(crate) streams: &'a [Stream],
    /// The links on a medium at which something waits from now on.
    pub(crate) ready: &'a mut Vec<u32>,
}

/// The arrival of a packet in flight, and its key in the event queue.
#[derive(Debug)]
struct PendingArrival {
    key: EventKey,
    packet: Buffer,
    /// Its arrival is among the events.
    awaited: bool,
    /// A copy of it arrives with it.
    twice: bool,
    /// It waits for the next packet, to arrive behind it.
    waits: bool,
}

impl PendingArrival {
    /// A packet whose key is yet to be given.
    fn of(packet: Buffer) -> Self {
        Self {
            key: EventKey::default(),
            packet,
            awaited: false,
            twice: false,
            waits: false,
        }
    }
}

/// A link in one direction: two cache lines with all that most links have.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct SimLink {
    id: u32,
    framing: Framing,
    /// Its cable is cut.
    pub(crate) cut: bool,
    wire: WireModel,
    /// Bytes of frames that have reached its end.
    pub(crate) carried: Bytes,
    in_flight: VecDeque<PendingArrival>,
    queue: QueueState,
    pub(crate) extras: Extras,
}

const _: () = assert!(size_of::<SimLink>() <= 128);

#[derive(Debug)]
enum QueueState {
    Unlimited,
    TailDrop(Box<TailDrop>),
    Policy(Box<DrivenQueue>),
}

impl SimLink {
    pub(crate) fn new(id: u32, spec: LinkSpec, seed: Seed) -> Self {
        // What varies may be faster than the policy for a while, so the wire keeps nobody to it.
        let most = spec.trace.as_ref().map_or(spec.rate, LinkTrace::peak);
        let wire = WireSettings {
            rate: spec.rate,
            delay: spec.delay,
            impairments: spec.impairments,
            later: spec.later,
            trace: spec.trace,
        };
        Self {
            id,
            wire: WireModel::new(&wire, Instant::START, seed),
            framing: spec.framing,
            carried: Bytes::ZERO,
            in_flight: VecDeque::new(),
            queue: match spec.queue {
                LinkQueue::TailDrop(limit) if limit.get() == u64::MAX => QueueState::Unlimited,
                LinkQueue::TailDrop(limit) => QueueState::TailDrop(Box::new(TailDrop::new(limit))),
                LinkQueue::Policy(policy) => {
                    QueueState::Policy(Box::new(DrivenQueue::new(*policy, most, spec.framing, seed)))
                }
            },
            extras: Extras::with_interrupts(spec.interrupts),
            cut: false,
        }
    }

    /// Its wire is a medium that others share: when it sends is said to it.
    pub(crate) fn shares(&mut self) {
        self.extras.some().device = Some(VecDeque::new());
    }

    pub(crate) fn rate(&self) -> Bandwidth {
        self.wire.rate()
    }

    pub(crate) fn impaired(&self) -> ImpairmentCounts {
        self.wire.impaired()
    }

    /// The engine's queue and its plan, if there is a policy.
    pub(crate) fn policy(&self) -> Option<(&Queue, &TreePlan)> {
        match &self.queue {
            QueueState::Policy(driven) => Some((driven.queue.queue(), &driven.plan)),
            QueueState::Unlimited | QueueState::TailDrop(_) => None,
        }
    }

    /// Adopts a plan of the same shape, as `suimon set` does, and its bandwidth: in place if every
    /// discipline can, else by a new tree into which the packets are moved. `false`: there is no
    /// policy.
    pub(crate) fn retune(&mut self, cx: &mut LinkContext<'_>, plan: TreePlan) -> bool {
        if let Some(waits) = self.extras.waits() {
            waits.changed();
        }
        let QueueState::Policy(driven) = &mut self.queue else {
            return false;
        };
        let root = plan.root.plan.as_ref();
        if !driven.queue.queue_mut().retune(cx.now, root) {
            let queue = plan.build(driven.seed);
            let mut former = succeeded(&mut driven.queue, cx.now, queue, driven.plan.classes.len(), Some);
            let mut sink = DropSink::of(cx, &mut self.extras);
            for packet in hand_over(&mut former) {
                // The sink has seen a refusal.
                let _ = driven.queue.enqueue(sink.now, packet, &mut sink);
            }
        }
        if driven.queue.bandwidth().is_some() {
            driven.queue.set_bandwidth(cx.now, plan.link.bandwidth);
        }
        if let Some(promises) = self.extras.promises() {
            promises.renumbered(&plan);
        }
        driven.plan = plan;
        driven.timer = None;
        self.drive(cx);
        true
    }

    /// Serves the queue of its policy at this rate from now on; its tree stays. `false`: there is
    /// no policy.
    pub(crate) fn shape(&mut self, cx: &mut LinkContext<'_>, rate: Bandwidth) -> bool {
        let QueueState::Policy(driven) = &mut self.queue else {
            return false;
        };
        driven.queue.set_bandwidth(cx.now, rate);
        driven.timer = None;
        self.drive(cx);
        true
    }

    /// Takes a tree with other classes, and its filters. Queued packets are classified anew, as
    /// the worker does it: later packets of their flows must not overtake them.
    pub(crate) fn adopt(&mut self, cx: &mut LinkContext<'_>, plan: TreePlan, filters: Vec<Filter>) -> bool {
        if let Some(waits) = self.extras.waits() {
            waits.changed();
        }
        let QueueState::Policy(driven) = &mut self.queue else {
            return false;
        };
        let queue = plan.build(driven.seed);
        let renumber = |class: ClassId| plan.class(&driven.plan.info(class)?.name);
        let classes = driven.plan.classes.len();
        let mut former = succeeded(&mut driven.queue, cx.now, queue, classes, renumber);
        let packets = hand_over(&mut former);
        if let Some(meter) = self.extras.meter() {
            for packet in &packets {
                let frame = cx.store.get(packet.buffer).frame();
                meter.taken_out(cx.now, packet.class, frame, packet.arrived);
            }
            meter.adopt(cx.now, &plan);
        }
        driven.classifier = Classifier::new(filters, driven.seed);
        driven.streams.clear();
        let promised = ClassPromise::to_reservations(&plan, || plan.bounds(), &plan);
        if !promised.is_empty() || self.extras.promises().is_some() {
            let own = self.extras.some().promises.get_or_insert_default();
            own.promised(&plan, &promised);
        }
        driven.plan = plan;
        driven.timer = None;
        for mut packet in packets {
            let in_flight = *cx.store.get(packet.buffer);
            (packet.class, packet.flow) = driven.class(packet.buffer, cx.store, cx.streams);
            if let Some(meter) = self.extras.meter() {
                meter.put_back(cx.now, packet.class, in_flight.frame(), packet.arrived);
            }
            if let Some(promises) = self.extras.promises() {
                promises.moved(&packet);
            }
            let mut sink = DropSink::of(cx, &mut self.extras);
            // The sink has seen a refusal.
            let _ = driven.queue.enqueue(sink.now, packet, &mut sink);
        }
        self.drive(cx);
        true
    }

    /// A packet arrives at the queue.
    #[inline]
    pub(crate) fn offer(&mut self, cx: &mut LinkContext<'_>, packet: Buffer) {
        match self.queue {
            QueueState::Unlimited if self.extras.get().is_none() => self.pass(cx, packet),
            QueueState::Unlimited | QueueState::TailDrop(_) => {
                self.extras.is_offered(cx.store.get(packet).frame());
                self.pass_stages(cx, packet);
                self.offer_to_buffer(cx, packet);
            }
            QueueState::Policy(_) => {
                // A packet that leaves at this very time leaves first.
                self.on_driver_event(cx);
                self.extras.is_offered(cx.store.get(packet).frame());
                self.pass_stages(cx, packet);
                self.offer_to_policy(cx, packet);
            }
        }
    }

    /// What most links do: a packet goes onto the wire as soon as that is free.
    fn pass(&mut self, cx: &mut LinkContext<'_>, packet: Buffer) {
        let in_flight = cx.store.get(packet);
        let start = self.wire.free_at().max(cx.now);
        notify(cx.events, in_flight, start);
        let finish = self.wire.send(start, self.framing.on_wire(in_flight.frame()));
        self.crosses(cx, packet, finish);
    }

    fn offer_to_buffer(&mut self, cx: &mut LinkContext<'_>, packet: Buffer) {
        let in_flight = cx.store.get(packet);
        let (stream, frame) = (in_flight.stream, in_flight.frame());
        let free = self.wire.free_at();
        let start = match (&mut self.queue, self.extras.device()) {
            (QueueState::TailDrop(buffer), None) => buffer.start(cx.now, frame, free),
            (QueueState::TailDrop(buffer), Some(device)) => buffer.holds(cx.now, frame, device.is_empty()),
            (_, None) => Some(free.max(cx.now)),
            (_, Some(_)) => Some(cx.now),
        };
        let Some(start) = start else {
            notify(cx.events, cx.store.get(packet), cx.now + DROP_NOTICE);
            cx.store.free(packet);
            if let Some(meter) = self.extras.meter() {
                meter.refused(cx.now, stream, frame);
            }
            return;
        };
        if let Some(meter) = self.extras.meter() {
            meter.offered(cx.now, ClassId(0), frame);
        }
        let transmission = Transmission {
            packet,
            class: ClassId(0),
            arrived: cx.now,
            dequeued: start,
            start,
        };
        self.hand_to_wire(cx, &transmission);
    }

    fn offer_to_policy(&mut self, cx: &mut LinkContext<'_>, packet: Buffer) {
        let QueueState::Policy(driven) = &mut self.queue else {
            return;
        };
        let InFlight {
            stream,
            ecn,
            remarked,
            state,
            ..
        } = *cx.store.get(packet);
        let frame = cx.store.get(packet).frame();
        let (class, flow) = driven.class(packet, cx.store, cx.streams);
        let mut offered = Packet::new(driven.plan.link.framing.on_wire(frame), cx.now, class);
        (offered.flow, offered.ecn, offered.buffer) = (flow, ecn, packet);
        let dscp = remarked.unwrap_or(cx.streams[stream as usize].key.dscp);
        offered.dscp = Dscp::arrived(dscp);
        if let Some(meter) = self.extras.meter() {
            meter.offered(cx.now, class, frame);
        }
        if let Some(waits) = self.extras.waits() {
            let key = || cx.store.key(packet, cx.streams);
            waits.arrives(cx.now, &offered, driven.queue.queue(), key);
        }
        let promises = self.extras.promises();
        let found = promises.and_then(|promises| promises.comes(cx.now, &offered));
        if let Some(early) = found {
            cx.store.get_mut(packet).state.is_found(early.is_none());
        }
        let mut sink = DropSink::of(cx, &mut self.extras);
        // The sink has seen a refusal.
        let verdict = driven.queue.enqueue(sink.now, offered, &mut sink);
        if let (Some(promises), Some(early)) = (self.extras.promises(), found) {
            promises.answered((cx.now, class), early, verdict);
        }
        if let Some(waits) = self.extras.waits() {
            waits.arrived();
        }
        if !state.followed() {
            self.drive(cx);
        }
    }

    /// Shows a packet to the stages before the queue.
    fn pass_stages(&mut self, cx: &mut LinkContext<'_>, slot: Buffer) {
        let stages = self.extras.stages();
        if stages.is_empty() {
            return;
        }
        let class = match &mut self.queue {
            QueueState::Unlimited | QueueState::TailDrop(_) => ClassId(0),
            QueueState::Policy(driven) => driven.class(slot, cx.store, cx.streams).0,
        };
        let key = cx.store.key(slot, cx.streams);
        for stage in stages {
            let window = stage.pass(cx.now, &key, &cx.store.packet(slot), class);
            if let Some(window) = window {
                cx.store.set_window(slot, window);
            }
        }
    }

    /// The driver's timer expired, or its ring has room again.
    pub(crate) fn on_driver_event(&mut self, cx: &mut LinkContext<'_>) {
        if let QueueState::Policy(driven) = &mut self.queue
            && driven.armed <= cx.now
        {
            driven.armed = Instant::NEVER;
            self.drive(cx);
        }
    }

    /// Moves packets from the queue to the device while it takes them.
    fn drive(&mut self, cx: &mut LinkContext<'_>) {
        let now = cx.now;
        while let QueueState::Policy(driven) = &mut self.queue {
            let mut sink = DropSink::of(cx, &mut self.extras);
            let step = driven.next(now, &mut sink);
            let idle = self.wire.free_at() < now && !matches!(step, DriverStep::Wait(_));
            if std::mem::take(&mut driven.ring_was_full)
                && idle
                && let Some(meter) = self.extras.meter()
            {
                meter.underrun();
            }
            match step {
                DriverStep::Send(packet) => {
                    let due = driven.due.take().filter(|due| *due <= now);
                    if let Some(waits) = self.extras.waits() {
                        waits.departs(now, &packet, due, driven.queue.queue());
                    }
                    let start = self.wire.free_at().max(now);
                    if let Some(promises) = self.extras.promises() {
                        promises.leaves(&packet, start);
                    }
                    let in_flight = cx.store.get_mut(packet.buffer);
                    in_flight.ecn = packet.ecn;
                    in_flight.remarked = packet.dscp.to_write().or(in_flight.remarked);
                    let transmission = Transmission {
                        packet: packet.buffer,
                        class: packet.class,
                        arrived: packet.arrived,
                        dequeued: now,
                        start,
                    };
                    self.hand_to_wire(cx, &transmission);
                }
                DriverStep::Gap(slot) => {
                    let start = self.wire.free_at().max(now);
                    self.wire.send(start, slot);
                    driven.ring.push_back(self.wire.free_at());
                    if let Some(meter) = self.extras.meter() {
                        meter.gap(slot);
                    }
                }
                DriverStep::Wait(until) => {
                    driven.ring_was_full = driven.driver.gaps && driven.ring.len() >= driven.ring_depth();
                    if until < driven.armed {
                        driven.armed = until;
                        cx.events.schedule(until, Event::Drive(self.id));
                    }
                    return;
                }
            }
        }
    }

    /// Puts a packet onto the wire, or into the device of a medium until it may be sent.
    fn hand_to_wire(&mut self, cx: &mut LinkContext<'_>, transmission: &Transmission) {
        if let Some(device) = self.extras.device() {
            if device.is_empty() {
                cx.ready.push(self.id);
            }
            device.push_back(*transmission);
            if let QueueState::Policy(driven) = &mut self.queue {
                driven.ring.push_back(Instant::NEVER);
            }
            return;
        }
        let frame = cx.store.get(transmission.packet).frame();
        let finish = self.wire.send(transmission.start, self.framing.on_wire(frame));
        if let QueueState::Policy(driven) = &mut self.queue {
            driven.ring.push_back(finish);
        }
        self.departs(cx, transmission, finish, true);
    }

    /// A packet goes onto the wire, until `finish`; it arrives unless something befalls it.
    fn departs(
        &mut self,
        cx: &mut LinkContext<'_>,
        transmission: &Transmission,
        finish: Instant,
        arrives: bool,
    ) {
        let Transmission {
            packet,
            class,
            arrived,
            dequeued,
            start,
        } = *transmission;
        let in_flight = cx.store.get(packet);
        notify(cx.events, in_flight, start);
        let (stream, frame) = (in_flight.stream, in_flight.frame());
        if let Some(meter) = self.extras.meter() {
            let departure = Departure {
                class,
                stream,
                frame,
                arrived,
                dequeued,
                start,
                finish,
            };
            meter.departed(cx.now, &departure);
        }
        if let Some(capture) = self.extras.capture() {
            let key = cx.store.key(packet, cx.streams);
            capture.add(start, &key, &cx.store.packet(packet));
        }
        if !arrives {
            return self.loses(cx, packet);
        }
        self.crosses(cx, packet, finish);
    }

    /// A packet is out at this time.
    #[inline]
    fn crosses(&mut self, cx: &mut LinkContext<'_>, packet: Buffer, finish: Instant) {
        match self.wire.cross(finish) {
            Crossing::Plain(_) if self.cut => self.loses(cx, packet),
            Crossing::Plain(arrival) => self.flies(cx, arrival, PendingArrival::of(packet)),
            Crossing::Impaired(crossing) => self.flies_impaired(cx, packet, &crossing),
        }
    }

    fn loses(&mut self, cx: &mut LinkContext<'_>, packet: Buffer) {
        self.extras.lose(1);
        cx.store.free(packet);
    }

    /// A packet is in flight until its arrival.
    #[inline]
    fn flies(&mut self, cx: &mut LinkContext<'_>, arrival: Instant, packet: PendingArrival) {
        let key = cx.events.key(self.extras.handed_over(arrival));
        // Behind all, unless it overtakes.
        let packet = PendingArrival { key, ..packet };
        match self.in_flight.back().is_some_and(|last| key < last.key) {
            true => {
                let place = self.in_flight.partition_point(|before| before.key < key);
                self.in_flight.insert(place, packet);
            }
            false => self.in_flight.push_back(packet),
        }
        self.await_first(cx.events);
    }

    /// A packet goes over the wire that something befalls, or for which another has waited.
    fn flies_impaired(&mut self, cx: &mut LinkContext<'_>, packet: Buffer, crossing: &ImpairedCrossing) {
        // It may have waited in vain for as long as it waits, or a restart has taken it.
        let waiting = crossing.releases.and_then(|arrival| {
            let place = self.in_flight.iter().position(|pending| pending.waits)?;
            Some((arrival, self.in_flight.remove(place)?))
        });
        match crossing.arrives.filter(|_| !self.cut) {
            None => self.loses(cx, packet),
            Some(arrival) => {
                if crossing.flipped.is_some() {
                    cx.store.get_mut(packet).state.becomes_corrupt();
                }
                let pending = PendingArrival {
                    twice: crossing.twice,
                    waits: crossing.waits,
                    ..PendingArrival::of(packet)
                };
                self.flies(cx, arrival, pending);
            }
        }
        if let Some((arrival, waiting)) = waiting {
            let pending = PendingArrival {
                twice: waiting.twice,
                ..PendingArrival::of(waiting.packet)
            };
            self.flies(cx, arrival, pending);
        }
    }

    /// The first packet in flight has an event.
    fn await_first(&mut self, events: &mut EventQueue) {
        if let Some(first) = self.in_flight.front_mut().filter(|first| !first.awaited) {
            first.awaited = true;
            events.insert(first.key, Event::Arrival(self.id));
        }
    }

    /// The host at its beginning restarts: what is queued and in flight is lost, and the wire free.
    pub(crate) fn restart(&mut self, cx: &mut LinkContext<'_>) {
        let waiting = match &mut self.queue {
            QueueState::Unlimited => 0,
            QueueState::TailDrop(buffer) => buffer.empty(cx.now),
            QueueState::Policy(driven) => {
                let mut sink = DropSink::of(cx, &mut self.extras);
                driven.queue.queue_mut().flush(&mut Portion::whole(), &mut sink);
                driven.ring.clear();
                driven.timer = None;
                0
            }
        };
        for held in self.extras.device().map(std::mem::take).unwrap_or_default() {
            let in_flight = cx.store.get(held.packet);
            let record = DropRecord {
                class: held.class,
                stream: in_flight.stream,
                frame: in_flight.frame(),
                arrived: held.arrived,
                why: Reason::Flushed,
            };
            cx.store.free(held.packet);
            if let Some(meter) = self.extras.meter() {
                meter.dropped(cx.now, &record);
            }
        }
        self.extras.lose((self.in_flight.len() - waiting) as u64);
        self.in_flight
            .drain(..)
            .for_each(|pending| cx.store.free(pending.packet));
        if let Some(meter) = self.extras.meter() {
            meter.emptied(cx.now);
        }
        self.wire.clear();
    }

    /// The first packet in flight has arrived; none if this was the arrival of one that a restart
    /// has taken, or that arrives at another time.
    pub(crate) fn arrive(
        &mut self,
        now: Instant,
        events: &mut EventQueue,
        store: &mut Store,
    ) -> Option<Buffer> {
        let arrived = self.in_flight.pop_front_if(|first| first.key.is_at(now))?;
        if arrived.twice {
            let copy = store.copy(arrived.packet);
            self.in_flight.push_front(PendingArrival {
                key: arrived.key,
                ..PendingArrival::of(copy)
            });
        }
        self.await_first(events);
        Some(arrived.packet)
    }
}

/// The engine's queue, and the state of the driver behind it.
#[derive(Debug)]
struct DrivenQueue {
    queue: ShapedQueue,
    plan: TreePlan,
    seed: Seed,
    classifier: Classifier,
    hasher: FlowHasher,
    driver: Driver,
    /// When each packet in the device will have left.
    ring: VecDeque<Instant>,
    /// When a coarse timer expires.
    timer: Option<Instant>,
    /// When the queue's next packet is due, as the queue said last.
    due: Option<Instant>,
    /// The time of the earliest scheduled [`Event::Drive`].
    armed: Instant,
    /// The driver sends gap frames, and its ring was full when it last waited.
    ring_was_full: bool,
    /// The class and flow of each stream, once known.
    streams: Vec<Option<(ClassId, FlowHashes)>>,
}

/// Puts a tree into the place of another with so many classes, which is returned with its packets;
/// the queues of classes that stay go on where theirs left off, as in the worker.
fn succeeded(
    queue: &mut ShapedQueue,
    now: Instant,
    next: Queue,
    classes: usize,
    renumber: impl Fn(ClassId) -> Option<ClassId>,
) -> Queue {
    let mut former = queue.replace(now, next, &renumber);
    if classes <= HEIRS {
        for class in (0..classes as u32).map(ClassId) {
            if let Some(heir) = renumber(class) {
                queue.take_over(now, former.discipline_mut(), (class, heir));
            }
        }
    }
    former
}

/// What a driver does next.
enum DriverStep {
    /// It gives this packet to the device.
    Send(Packet),
    /// It gives the device a gap frame of this slot.
    Gap(Bytes),
    /// It does nothing before this time.
    Wait(Instant),
}

impl DrivenQueue {
    fn new(policy: PolicyQueue, rate: Bandwidth, framing: Framing, seed: Seed) -> Self {
        let PolicyQueue {
            plan,
            filters,
            driver,
        } = policy;
        let wire_keeps_to_it = rate <= plan.link.bandwidth && framing.covers(plan.link.framing);
        let estimated = driver.completion == Completion::Estimated;
        // By gap frames the wire itself keeps time.
        let shaped = (estimated || !wire_keeps_to_it) && !driver.gaps;
        let late = CATCH_UP.max(driver.tick.unwrap_or(CATCH_UP));
        let clock = shaped.then(|| LinkClock::new(plan.link.bandwidth, late));
        Self {
            queue: ShapedQueue::new(plan.build(seed), clock),
            seed,
            classifier: Classifier::new(filters, seed),
            hasher: FlowHasher::new(seed),
            driver,
            plan,
            ring: VecDeque::new(),
            timer: None,
            due: None,
            armed: Instant::NEVER,
            ring_was_full: false,
            streams: Vec::new(),
        }
    }

    /// Packets that the device takes at most, the one on the wire included.
    fn ring_depth(&self) -> usize {
        self.plan.link.ring.max(1) as usize
    }

    /// The class and flow of a packet. They are looked up once for each stream, since they are the
    /// same for all its packets, but for remarked ones, and where filters look at single packets.
    fn class(&mut self, slot: Buffer, store: &Store, streams: &[Stream]) -> (ClassId, FlowHashes) {
        let InFlight { stream, remarked, .. } = *store.get(slot);
        let index = stream as usize;
        if remarked.is_some() || self.classifier.divides_flows() {
            let key = store.key(slot, streams);
            let class = self.plan.class_of(self.classifier.classify(&key));
            return (class, self.hasher.flow(&key));
        }
        if self.streams.len() <= index {
            self.streams.resize(streams.len(), None);
        }
        *self.streams[index].get_or_insert_with(|| {
            let key = &streams[index].key;
            let class = self.plan.class_of(self.classifier.classify(key));
            (class, self.hasher.flow(key))
        })
    }

    fn next(&mut self, now: Instant, sink: &mut dyn Sink) -> DriverStep {
        while self.ring.front().is_some_and(|&left| left <= now) {
            self.ring.pop_front();
        }
        if self.queue.is_empty() {
            return DriverStep::Wait(Instant::NEVER);
        }
        if self.ring.len() >= self.ring_depth() {
            return DriverStep::Wait(self.completion());
        }
        match self.queue.dequeue(now, sink) {
            Next::Ready(packet) => DriverStep::Send(packet),
            Next::Wait(until) => {
                self.due = Some(until);
                match self.gap() {
                    Some(slot) => DriverStep::Gap(slot),
                    None => DriverStep::Wait(self.wake_up(now, until)),
                }
            }
            Next::Empty => DriverStep::Wait(Instant::NEVER),
        }
    }

    /// The slot of a gap frame, if this driver sends them and the queue asks for one.
    fn gap(&mut self) -> Option<Bytes> {
        let longest = self.plan.link.mtu + Bytes::new(WIRE_OVERHEAD);
        self.driver
            .gaps
            .then(|| self.queue.queue_mut().gap(longest))
            .flatten()
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

    /// When the driver asks a queue again that wants to be asked at `until`. With coarse timers
    /// that is at their tick or at the next completion, whichever comes first.
    fn wake_up(&mut self, now: Instant, until: Instant) -> Instant {
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

/// The delay after which a sender learns of a drop at the first link.
const DROP_NOTICE: Duration = Duration::from_millis(1);

/// Schedules the notification of a packet's sender, if it wants one.
fn notify(events: &mut EventQueue, packet: &InFlight, at: Instant) {
    if packet.state.notify() {
        events.schedule(at, Event::TxComplete(packet.stream));
    }
}

/// Frees dropped packets, and reports them to the meter and to their sender.
struct DropSink<'a> {
    now: Instant,
    events: &'a mut EventQueue,
    store: &'a mut Store,
    extras: &'a mut Extras,
}

impl<'a> DropSink<'a> {
    fn of(cx: &'a mut LinkContext<'_>, extras: &'a mut Extras) -> Self {
        Self {
            now: cx.now,
            events: cx.events,
            store: cx.store,
            extras,
        }
    }
}

impl Sink for DropSink<'_> {
    fn drop(&mut self, packet: Packet, why: Reason) {
        let in_flight = self.store.get(packet.buffer);
        notify(self.events, in_flight, self.now + DROP_NOTICE);
        let (stream, frame) = (in_flight.stream, in_flight.frame());
        if let Some(waits) = self.extras.waits() {
            waits.drops(self.now, &packet, why);
        }
        self.store.free(packet.buffer);
        if let Some(meter) = self.extras.meter() {
            let record = DropRecord {
                class: packet.class,
                stream,
                frame,
                arrived: packet.arrived,
                why,
            };
            meter.dropped(self.now, &record);
        }
    }

    fn mark(&mut self, packet: &Packet, why: Reason) {
        if let Some(waits) = self.extras.waits() {
            waits.marks(packet, why);
        }
        if let Some(meter) = self.extras.meter() {
            let stream = self.store.get(packet.buffer).stream;
            meter.marked(self.now, packet.class, stream);
        }
    }
}
