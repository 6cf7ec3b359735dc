//! One way through a worker: from a port, by a classifier, into a queue, out of another port.

mod bursts;
mod explained;
mod taped;

pub(crate) use explained::Wished;

use crate::backlog::{HandedFrame, PathBacklog};
use crate::budget::{Admission, Claim, Owner};
use crate::carried::PathCarried;
use crate::checksum;
use crate::classify::Classify;
use crate::experience::ExperienceObserver;
use crate::handle::{ClassAdopted, ClassRetune, PathView, Realised, clamp_indices};
use crate::hold_ups::{Excuses, HoldUp};
use crate::inspection::{ALL, Detail, PathSlice};
use crate::meter::Meters;
use crate::nat::BehindNat;
use crate::neighbours::NeighbourFrames;
use crate::pool::{Gso, Offload, Pool};
use crate::port::{Capabilities, ETHERNET, Port, TAG};
use crate::probes::ProbeFrames;
use crate::realiser::{Realiser, Step};
use crate::replay::event::{KEPT, TapeEvent, To};
use crate::replay::tape::{Rebase, Tape};
use crate::segment::{self, Cut};
use crate::window_clamp::{FrameSize, WindowClamp};
use crate::wire::PathWire;
use crate::worker::{PathSpec, PortId};
use engine::discipline::{Next, Reason, Sink};
use engine::framing::Framing;
use engine::header::{self, Headers};
use engine::inspect::Inspection;
use engine::link_clock::LinkClock;
use engine::packet::{Buffer, ClassId, Dscp, Ecn, Packet};
use engine::portion::Portion;
use engine::queue::{Count, Stats};
use engine::shaped_queue::{CATCH_UP, ShapedQueue};
use engine::structures::shared_list::SharedList;
use engine::tree::{ClassInfo, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::delay::Delays;
use measure::promise::ClassPromise;
use measure::waits::WaitRecorder;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

mod by_class;
mod whole;

use by_class::Moving;
pub use by_class::{Becomes, ChangedSettings, ClassChanges, ComingClass, CutClass, Reclassified};
pub(crate) use by_class::{ChangedByClass, ClassJob};

/// Packets that one path sends before it is another's turn.
const QUANTUM: usize = 64;

/// Packets queued at most while the discipline is off; the kernel's own default queue length.
const BYPASS_LIMIT: usize = 1000;

/// A path in a worker.
pub(crate) struct Path {
    name: String,
    /// Its number in the worker.
    id: u16,
    from: PortId,
    pub(crate) to: PortId,
    mark: u32,
    classify: Box<dyn Classify>,
    queue: ShapedQueue,
    plan: Option<TreePlan>,
    /// How many trees there have been: classes of another tree have other numbers.
    trees: u64,
    /// How often its classes have been numbered anew.
    numbering: u16,
    framing: Framing,
    enabled: bool,
    /// What leaves before the queue's packets: its former backlog once it is off, and frames by
    /// which neighbours are found.
    bypass: VecDeque<Packet>,
    neighbour_frames: NeighbourFrames,
    /// Probes of ours, which leave first too, if there are any.
    probes: Option<Box<ProbeFrames>>,
    /// When the queue's next packet is due, as the queue said last.
    due: Option<Instant>,
    /// When the packet that departs was due, if the queue had said so.
    was_due: Option<Instant>,
    totals: Stats,
    meters: Meters,
    lateness: Delays,
    /// What the host's hold-ups excuse of delays here.
    excuses: Excuses,
    split: (u64, u64),
    segments: Vec<Buffer>,
    /// Packets of the batch at hand that are yet to be queued.
    gathered: Vec<Packet>,
    /// The latest time that the queue has seen.
    shown: Instant,
    realiser: Option<Box<dyn Realiser>>,
    wire: Option<Box<dyn PathWire>>,
    /// When the packet that departs has left the queue for the wire.
    left: Option<Instant>,
    /// The packet that departs is a copy that the wire makes, which counts as none of the path's.
    is_copy: bool,
    /// The classes whose connections are clamped, by name, and the index in this list of each class
    /// of the plan.
    yields: Arc<[String]>,
    clamp_indices: Vec<Option<usize>>,
    /// Where what happens to the queue is written down, if it is.
    tape: Option<Box<Tape>>,
    /// A tree with which the tape begins anew, when it is time.
    rebase: Option<Rebase>,
    /// Bytes of the frame at hand that a tape keeps.
    kept: usize,
    /// Plans adopted since the path was made, of one class or whole.
    changes: u64,
    /// Whether traffic is done again: packets occupy no parts of a pool, and come in no batches.
    again: bool,
    /// Whether the queue and its link alone decide what leaves, and nobody looks at packets one by
    /// one.
    plain: bool,
    /// Whether packets are gathered that arrive: it is plain, on, and no change is under way. All
    /// that a packet asks of these, and of a tape and who records waits, in one.
    gathers: bool,
    /// Who records why packets wait, if anybody does.
    waits: Option<Box<WaitRecorder>>,
    /// Who measures round trips by what arrives, if anybody does.
    observer: Option<Box<ExperienceObserver>>,
    /// Who knows hosts behind this one by its packets, where addresses are translated.
    behind: Option<BehindNat>,
    /// What a change of classes moves.
    moving: Moving,
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Path")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The sink of dropped packets: counts them, and gives their slots back.
struct DropSink<'a> {
    pool: &'a mut Pool,
    totals: &'a mut Stats,
    /// Counted instead of "flushed".
    flushed: Reason,
    /// What the host's hold-ups excuse of delays, where packets leave.
    excuses: Option<&'a Excuses>,
}

impl DropSink<'_> {
    fn counted(&self, why: Reason) -> Reason {
        if why == Reason::Flushed { self.flushed } else { why }
    }

    /// Does this with the sink; where somebody records waits, that shows drops and marks too.
    fn lent<R>(
        mut self,
        now: Instant,
        waits: Option<&mut WaitRecorder>,
        work: impl FnOnce(&mut dyn Sink) -> R,
    ) -> R {
        match waits {
            None => work(&mut self),
            Some(waits) => work(&mut WatchedSink {
                drops: self,
                now,
                waits,
            }),
        }
    }
}

impl Sink for DropSink<'_> {
    fn drop(&mut self, packet: Packet, why: Reason) {
        self.totals.dropped += packet.len;
        self.totals.reasons[self.counted(why) as usize] += 1;
        self.pool.free(packet.buffer);
    }

    fn mark(&mut self, _packet: &Packet, _why: Reason) {
        self.totals.marked += 1;
    }

    fn held_up(&self, arrived: Instant, now: Instant) -> Duration {
        let concerns = self.excuses.filter(|excuses| excuses.concern(arrived));
        concerns.map_or(Duration::ZERO, |excuses| excuses.of(arrived, now, None))
    }
}

/// The same, which shows drops and marks to whoever records why packets wait.
struct WatchedSink<'a, 'b> {
    drops: DropSink<'a>,
    now: Instant,
    waits: &'b mut WaitRecorder,
}

impl Sink for WatchedSink<'_, '_> {
    fn drop(&mut self, packet: Packet, why: Reason) {
        self.waits.drops(self.now, &packet, self.drops.counted(why));
        self.drops.drop(packet, why);
    }

    fn mark(&mut self, packet: &Packet, why: Reason) {
        self.waits.marks(packet, why);
        self.drops.mark(packet, why);
    }

    fn held_up(&self, arrived: Instant, now: Instant) -> Duration {
        self.drops.held_up(arrived, now)
    }
}

/// Counts a packet that departs now and had left the queue then, and writes its ECN mark and DSCP
/// into the frame.
fn depart(
    pool: &mut Pool,
    totals: &mut Stats,
    meters: &mut Meters,
    (excuses, plan): (&Excuses, Option<&TreePlan>),
    (now, left): (Instant, Instant),
    packet: &Packet,
) {
    pool.discharge(packet.buffer);
    totals.sent += packet.len;
    let times = (packet.arrived, left);
    if excuses.concern(packet.arrived) {
        let excuse = |backlogged| {
            let of_curve = keeps_to_a_curve(plan, packet.class);
            excuses.of(packet.arrived, left, of_curve.then_some(backlogged))
        };
        meters.depart_late(now, packet.class, packet.len, times, excuse);
    } else {
        meters.depart(now, packet.class, packet.len, times);
    }
    write_marks(pool, packet);
}

/// Writes a packet's ECN mark and DSCP into its frame.
fn write_marks(pool: &mut Pool, packet: &Packet) {
    if packet.ecn == Ecn::Ce {
        header::set_ce(pool.bytes_mut(packet.buffer));
    }
    if let Some(dscp) = packet.dscp.to_write() {
        header::set_dscp(pool.bytes_mut(packet.buffer), dscp);
    }
}

/// Whether the senders of a class are said to keep to a curve.
fn keeps_to_a_curve(plan: Option<&TreePlan>, class: ClassId) -> bool {
    let info = plan.and_then(|plan| plan.classes.get(class.0 as usize));
    info.is_some_and(|info| info.arrivals.is_some())
}

/// The headers of a frame, with the address of the host behind this one that it is of, if anybody
/// knows that.
fn headers_behind(behind: Option<&BehindNat>, frame: &[u8], mark: u32) -> Headers {
    let headers = Headers::parse(frame, mark);
    behind.and_then(|behind| behind.seen(&headers)).unwrap_or(headers)
}

/// What a path needs to take frames of one batch.
pub(crate) struct Intake<'a> {
    /// The clock, read after the batch was received.
    pub(crate) now: Instant,
    /// What the destination can do.
    pub(crate) to: &'a Capabilities,
    /// A super-frame that would take longer than this on the link is split.
    pub(crate) split_above: Duration,
    /// Who tracks the TCP connections of this path, if anybody clamps their windows.
    pub(crate) windows: Option<&'a mut WindowClamp>,
}

/// Why a path waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiting {
    /// Its queue is empty.
    Empty,
    /// For a due time.
    Until(Instant),
    /// For room at its port, for which it looks at this time at the latest.
    Room(Instant),
    /// Not at all: it has had its turn and has more to send.
    More,
}

impl Path {
    /// The path with this number in its worker. From now on its classes may occupy their parts of
    /// the pool.
    pub(crate) fn new(spec: PathSpec, id: usize, pool: &mut Pool) -> Self {
        pool.claim(id, Claim::of(spec.plan.as_ref(), &spec.guarantees));
        let classes = spec.plan.as_ref().map_or(0, |plan| plan.classes.len() as u32);
        let mut path = Self {
            name: spec.name,
            id: u16::try_from(id).unwrap_or(u16::MAX),
            from: spec.from,
            to: spec.to,
            mark: spec.mark,
            classify: spec.classify,
            queue: {
                let clock = |bandwidth| LinkClock::new(bandwidth, CATCH_UP);
                ShapedQueue::new(spec.queue, spec.bandwidth.map(clock))
            },
            plan: spec.plan,
            trees: 0,
            numbering: 0,
            framing: spec.framing,
            enabled: true,
            bypass: VecDeque::new(),
            neighbour_frames: NeighbourFrames::default(),
            probes: None,
            due: None,
            was_due: None,
            totals: Stats::default(),
            meters: Meters::new(classes),
            lateness: Delays::default(),
            excuses: Excuses::default(),
            split: (0, 0),
            segments: Vec::new(),
            gathered: Vec::new(),
            shown: Instant::START,
            realiser: spec.realiser,
            wire: spec.wire,
            left: None,
            is_copy: false,
            yields: Arc::default(),
            clamp_indices: Vec::new(),
            tape: None,
            rebase: None,
            kept: KEPT,
            changes: 0,
            again: false,
            plain: false,
            gathers: false,
            waits: None,
            observer: None,
            behind: None,
            moving: Moving::default(),
        };
        path.note_plain();
        path
    }

    /// Connections of these classes are clamped from now on.
    pub(crate) fn set_yields(&mut self, classes: Vec<String>) {
        self.yields = classes.into();
        let indices = |plan| clamp_indices(&self.yields, plan);
        self.clamp_indices = self.plan.as_ref().map(indices).unwrap_or_default();
    }

    /// Round trips are measured by what arrives from now on.
    pub(crate) fn set_observer(&mut self, observer: ExperienceObserver) {
        self.observer = Some(Box::new(observer));
    }

    /// Hosts behind this one are known from now on.
    pub(crate) fn set_behind(&mut self, behind: BehindNat) {
        self.behind = Some(behind);
    }

    /// Chooses class and flow of a packet again.
    fn classify_again(&mut self, pool: &Pool, packet: &mut Packet) {
        let headers = headers_behind(self.behind.as_ref(), pool.bytes(packet.buffer), self.mark);
        self.classify.classify(&headers, packet);
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The host held the loop up. What leaves by a wire that is modelled leaves at its time however
    /// late the loop is.
    pub(crate) fn held_up(&mut self, hold_up: HoldUp) {
        if self.wire.is_none() {
            self.excuses.held_up(hold_up);
        }
    }

    /// Bytes offered to it so far.
    pub(crate) fn offered(&self) -> Bytes {
        self.totals.offered.bytes
    }

    /// The time that the queue sees: the clock's, or what its realiser makes of that.
    fn queue_time(&mut self, now: Instant) -> Instant {
        let idle = self.queue.is_empty();
        match &mut self.realiser {
            Some(realiser) if self.enabled => realiser.time(now, idle),
            _ => now,
        }
    }

    /// Drops a frame that reaches no queue.
    pub(crate) fn refuse(&mut self, pool: &mut Pool, frame: Buffer, why: Reason) {
        let len = self.framing.on_wire(Bytes::new(pool.len(frame) as u64));
        self.totals.offered += len;
        self.drop_frame(pool, frame, len, why);
    }

    fn drop_frame(&mut self, pool: &mut Pool, frame: Buffer, len: Bytes, why: Reason) {
        self.totals.dropped += len;
        self.totals.reasons[why as usize] += 1;
        pool.free(frame);
    }

    /// Takes a frame that arrived: classifies it, prepares it for the destination, and queues it.
    pub(crate) fn accept(&mut self, pool: &mut Pool, frame: Buffer, intake: Intake<'_>) {
        let Intake { now, to, .. } = intake;
        // The port's time of arrival is more exact than the time of receiving, which may be late;
        // but the queue's time never goes back.
        let seen = pool
            .arrived(frame)
            .map_or(now, |at| at.clamp(self.shown.min(now), now));
        let arrived = self.queue_time(seen);
        self.shown = self.shown.max(arrived);
        let (bytes, offload) = (pool.bytes(frame), pool.offload(frame));
        let headers = Headers::parse(bytes, self.mark);
        if !self.gathers {
            self.kept = taped::kept(&headers);
        }
        let cut = Cut::of(bytes, &offload, &headers);
        let longest = cut.map_or(bytes.len(), |cut| cut.longest(bytes.len()));
        let tagged = headers
            .l3
            .map_or(0, |l3| usize::from(l3).saturating_sub(ETHERNET));
        if longest > to.mtu + ETHERNET + tagged.max(TAG) {
            return self.refuse(pool, frame, Reason::TooLong);
        }
        let (on_wire, count) = cut.map_or((bytes.len(), 1), |cut| (cut.on_wire(bytes.len()), cut.count));
        // A super-frame counts as all its segments, each in the interface's framing.
        let len = self.framing.on_wire_of(
            Bytes::new(on_wire as u64),
            count as u64,
            Bytes::new(longest as u64),
        );
        let mut packet = Packet::new(len, arrived, ClassId(0));
        (packet.ecn, packet.dscp) = (headers.key.ecn, Dscp::arrived(headers.key.dscp));
        packet.buffer = frame;
        let behind = self.behind.as_ref().and_then(|behind| behind.seen(&headers));
        let known = behind.as_ref().unwrap_or(&headers);
        self.choose(known, &mut packet);
        let size = FrameSize {
            len,
            segments: count as u64,
        };
        if let Some(observer) = &mut self.observer {
            observer.see(seen, known, bytes, packet.class, size);
        }
        if let Some(clamp) = intake.windows {
            let place = self.clamp_indices.get(packet.class.0 as usize).copied().flatten();
            clamp.on_data(now, &headers, pool.bytes(frame), size, place);
        }
        if offload.gso.is_some() && self.must_split(&offload, len, to, intake.split_above) {
            return match cut {
                Some(cut) => self.split(pool, &packet, &cut, to.checksum),
                None => self.refuse(pool, frame, Reason::Port),
            };
        }
        if let Some(unfinished) = offload.checksum.filter(|_| !to.checksum) {
            if !checksum::finish(pool.bytes_mut(frame), unfinished) {
                return self.refuse(pool, frame, Reason::Port);
            }
            pool.set_offload(frame, Offload::default());
        }
        // Paced packets leave at their times, to the byte.
        if self.enabled && self.realiser.is_none() && self.goes_first(now, &headers, pool.bytes(frame)) {
            return self.offer_first(pool, packet);
        }
        self.offer(pool, packet);
    }

    /// Whether this frame leaves before what is queued.
    fn goes_first(&mut self, now: Instant, headers: &Headers, frame: &[u8]) -> bool {
        let probes = self.probes.as_mut();
        self.neighbour_frames.goes_first(now, headers, frame)
            || probes.is_some_and(|probes| probes.goes_first(now, headers, frame))
    }

    fn must_split(&self, offload: &Offload, len: Bytes, to: &Capabilities, above: Duration) -> bool {
        let able = match offload.gso {
            Some(Gso::Udp) => to.udp_gso,
            _ => to.tcp_gso,
        };
        let wire = self.wire.as_ref().map(|wire| wire.rate());
        let single = self.wire.as_ref().is_some_and(|wire| wire.is_impaired());
        let slow = self
            .queue
            .bandwidth()
            .into_iter()
            .chain(wire)
            .any(|rate| rate.time_to_send(len) > above);
        // Pacing spaces single frames, not bursts of segments.
        let paced = self.realiser.is_some();
        !able || (self.enabled && (slow || paced || single))
    }

    /// Queues the segments of a super-frame, each with its class, flow, ECN field and DSCP.
    fn split(&mut self, pool: &mut Pool, whole: &Packet, cut: &Cut, leave_checksum: bool) {
        // What is dropped there may be the memory that the segments need.
        self.queue_gathered(pool);
        let mut segments = std::mem::take(&mut self.segments);
        if segment::cut(pool, whole.buffer, cut, !leave_checksum, &mut segments) {
            self.split.0 += 1;
            self.split.1 += segments.len() as u64;
            for segment in segments.drain(..) {
                let len = self.framing.on_wire(Bytes::new(pool.len(segment) as u64));
                let mut packet = Packet::new(len, whole.arrived, whole.class);
                (packet.flow, packet.ecn, packet.dscp) = (whole.flow, whole.ecn, whole.dscp);
                packet.buffer = segment;
                self.offer(pool, packet);
            }
        } else {
            self.refuse(pool, whole.buffer, Reason::Full);
        }
        self.segments = segments;
    }

    /// Queues a packet that the destination takes as it is: with the others of its batch, where it
    /// can be.
    #[inline(always)]
    fn offer(&mut self, pool: &mut Pool, packet: Packet) {
        self.totals.offered += packet.len;
        debug_assert_eq!(self.gathers, self.may_gather(), "it is noted whenever it changes");
        if !self.gathers {
            return self.offer_alone(pool, packet);
        }
        let mut charged = self.charge(pool, &packet);
        if !charged {
            // Those before it may make others leave.
            self.queue_gathered(pool);
            charged = self.charge(pool, &packet);
        }
        match charged {
            true => self.gathered.push(packet),
            false => self.drop_short(pool, packet),
        }
    }

    /// Queues a packet by itself: more than the queue and its link decide, or somebody looks.
    #[inline(never)]
    fn offer_alone(&mut self, pool: &mut Pool, packet: Packet) {
        if !self.enabled {
            self.tape_arrival(pool, &packet, To::Queue);
            let held = match self.moving.hands_over {
                true => self.queue.queue().backlog().packets as usize + self.moving.arrived(),
                false => 0,
            };
            if self.bypass.len() + held >= BYPASS_LIMIT {
                return self.drop_frame(pool, packet.buffer, packet.len, Reason::Full);
            }
            return match self.moving.hands_over {
                true => self.moving.arrive(packet),
                false => self.bypass.push_back(packet),
            };
        }
        if self.moving.holds_up() {
            return self.moving.arrive(packet);
        }
        if !self.charge(pool, &packet) {
            self.tape_arrival(pool, &packet, To::Nowhere);
            return self.drop_short(pool, packet);
        }
        self.tape_arrival(pool, &packet, To::Queue);
        self.enqueue(packet.arrived, pool, packet);
    }

    /// Lets a packet leave before what is queued.
    fn offer_first(&mut self, pool: &mut Pool, packet: Packet) {
        self.totals.offered += packet.len;
        self.tape_arrival(pool, &packet, To::First);
        let Some(wire) = &mut self.wire else {
            return self.bypass.push_back(packet);
        };
        let sink = DropSink {
            pool,
            totals: &mut self.totals,
            flushed: Reason::Flushed,
            excuses: None,
        };
        let now = packet.arrived;
        sink.lent(now, self.waits.as_deref_mut(), |sink| {
            wire.carry(&mut self.queue, now, packet, sink);
        });
    }

    /// Whether the packet's class may occupy one more slot; then it does.
    fn charge(&self, pool: &mut Pool, packet: &Packet) -> bool {
        self.again || pool.charge(packet.buffer, self.owner(packet.class)) != Admission::Short
    }

    /// The packet's class occupies the slot that it had in another tree; it always may.
    fn keep_charged(&self, pool: &mut Pool, packet: &Packet) -> bool {
        if !self.again {
            pool.keep(packet.buffer, self.owner(packet.class));
        }
        true
    }

    /// A class of the present tree, as an owner of frames.
    fn owner(&self, class: ClassId) -> Owner {
        Owner {
            path: self.id,
            numbering: self.numbering,
            class,
        }
    }

    /// Drops a packet whose class has its part of the memory.
    fn drop_short(&mut self, pool: &mut Pool, packet: Packet) {
        self.meters.short(packet.class, packet.len);
        self.drop_frame(pool, packet.buffer, packet.len, Reason::Memory);
    }

    /// Gives a packet to the discipline.
    fn enqueue(&mut self, now: Instant, pool: &mut Pool, packet: Packet) {
        // One that was handed on has arrived before.
        if self.waits.is_some() && !packet.handed_on {
            self.record_arrival(pool, &packet);
        }
        let sink = DropSink {
            pool,
            totals: &mut self.totals,
            flushed: Reason::Flushed,
            excuses: None,
        };
        // The sink has counted a refusal.
        let _ = sink.lent(now, self.waits.as_deref_mut(), |sink| match &mut self.wire {
            Some(wire) => wire.enqueue(&mut self.queue, now, packet, sink),
            None => self.queue.enqueue(now, packet, sink),
        });
        self.waits.iter_mut().for_each(|waits| waits.arrived());
    }

    /// Sends what may leave, while the port has room.
    pub(crate) fn drain(&mut self, now: Instant, pool: &mut Pool, port: &mut dyn Port) -> Waiting {
        // A path that is switched off sends at once.
        let mut realiser = self.realiser.take_if(|_| self.enabled);
        let idle = self.queue.is_empty();
        let time = match &mut realiser {
            Some(realiser) => realiser.begin(now, idle, port),
            None => now,
        };
        self.shown = self.shown.max(time);
        let waiting = self.drain_at(now, time, pool, port, &mut realiser);
        self.realiser = realiser.or(self.realiser.take());
        if waiting == Waiting::Empty {
            self.excuses.emptied();
        }
        match self.rebase.is_some() && self.begin_anew(time) {
            true => Waiting::More,
            false => waiting,
        }
    }

    fn drain_at(
        &mut self,
        clock: Instant,
        mut now: Instant,
        pool: &mut Pool,
        port: &mut dyn Port,
        realiser: &mut Option<Box<dyn Realiser>>,
    ) -> Waiting {
        if self.plain && self.bypass.is_empty() {
            return self.drain_burst(now, pool, port);
        }
        for _ in 0..QUANTUM {
            if port.room() == 0 {
                return self.wait_for_room(realiser.as_deref_mut());
            }
            if self.moving.hands_over && self.bypass.is_empty() {
                self.hand_over(pool);
                if self.bypass.is_empty() {
                    return Waiting::More;
                }
            }
            if self.tape.is_some() {
                self.tape_ask(clock, now);
            }
            let next = match self.bypass.pop_front() {
                Some(packet) => Next::Ready(packet),
                None => self.next(now, pool, realiser.as_deref()),
            };
            let packet = match (next, &mut *realiser) {
                (Next::Ready(packet), _) => packet,
                (Next::Wait(until), None) => return Waiting::Until(until),
                (Next::Wait(until), Some(realiser)) => {
                    match realiser.wait(until, self.queue.queue_mut(), port) {
                        Step::Ask(time) => {
                            now = time;
                            continue;
                        }
                        Step::Sleep(until) => return Waiting::Until(until),
                    }
                }
                (Next::Empty, realiser) => {
                    realiser.iter_mut().for_each(|realiser| realiser.rest());
                    return Waiting::Empty;
                }
            };
            if let Some(realiser) = realiser {
                realiser.send(pool, packet.buffer);
            }
            self.depart(now, pool, &packet);
            port.transmit(pool, packet.buffer);
        }
        Waiting::More
    }

    /// Why it waits where the port has no room.
    fn wait_for_room(&self, realiser: Option<&mut (dyn Realiser + 'static)>) -> Waiting {
        match (self.is_empty(), realiser) {
            (true, _) => Waiting::Empty,
            (false, Some(realiser)) => Waiting::Room(realiser.wait_for_room()),
            (false, None) => Waiting::Room(Instant::NEVER),
        }
    }

    /// A packet leaves.
    fn depart(&mut self, now: Instant, pool: &mut Pool, packet: &Packet) {
        if let Some(tape) = &mut self.tape {
            tape.sent(packet);
        }
        let carried = self.left.take();
        if let (Some(wire), Some(_)) = (&mut self.wire, carried) {
            let mut offload = pool.offload(packet.buffer);
            wire.hands_over(now, pool.bytes_mut(packet.buffer), &mut offload);
            pool.set_offload(packet.buffer, offload);
        }
        if std::mem::take(&mut self.is_copy) {
            return write_marks(pool, packet);
        }
        let left = carried.unwrap_or(now);
        if let Some(waits) = &mut self.waits {
            let due = self.was_due.take();
            waits.departs(left, packet, due, self.queue.queue());
        }
        let (totals, meters) = (&mut self.totals, &mut self.meters);
        let excuses = (&self.excuses, self.plan.as_ref());
        depart(pool, totals, meters, excuses, (now, left), packet);
    }

    /// The queue's next packet. Records how late it is, if it had to wait for its due time. The
    /// link's clock does not count where the wire itself keeps time.
    fn next(&mut self, now: Instant, pool: &mut Pool, realiser: Option<&dyn Realiser>) -> Next<Packet> {
        let next = loop {
            let sink = DropSink {
                pool: &mut *pool,
                totals: &mut self.totals,
                flushed: Reason::Flushed,
                excuses: Some(&self.excuses),
            };
            let (queue, wire) = (&mut self.queue, &mut self.wire);
            let (left, is_copy) = (&mut self.left, &mut self.is_copy);
            let next = sink.lent(now, self.waits.as_deref_mut(), |sink| {
                if realiser.is_some_and(Realiser::keeps_wire) {
                    return queue.queue_mut().dequeue(now, sink);
                }
                let Some(wire) = wire else {
                    return queue.dequeue(now, sink);
                };
                match wire.next(queue, now, sink) {
                    Next::Ready(carried) => {
                        (*left, *is_copy) = (Some(carried.left), carried.copy);
                        Next::Ready(carried.packet)
                    }
                    Next::Wait(until) => Next::Wait(until),
                    Next::Empty => Next::Empty,
                }
            });
            let Next::Ready(mut packet) = next else { break next };
            if self.left.is_some() && self.is_copy {
                let Some(copy) = pool.twin(packet.buffer) else {
                    (self.left, self.is_copy) = (None, false);
                    continue;
                };
                packet.buffer = copy;
            }
            break Next::Ready(packet);
        };
        match &next {
            Next::Ready(_) => {
                // Only the first packet after a wait had a known due time; one that left early was
                // not due.
                self.was_due = self.due.take().filter(|due| *due <= now);
                if let Some(due) = self.was_due {
                    self.lateness.record(now.since(due));
                }
            }
            Next::Wait(until) => self.due = Some(*until),
            Next::Empty => self.due = None,
        }
        next
    }

    pub(crate) fn is_empty(&self) -> bool {
        let on_wire = self.wire.as_ref().is_some_and(|wire| wire.in_flight() > 0);
        self.queue.is_empty() && self.bypass.is_empty() && self.moving.is_empty() && !on_wire
    }

    /// Drops the whole backlog, for this reason: its port has failed, or there is no time to send
    /// it.
    pub(crate) fn abandon(&mut self, pool: &mut Pool, why: Reason) {
        self.end_change(self.shown, pool);
        self.write(&TapeEvent::Abandoned { why });
        let sink = DropSink {
            pool,
            totals: &mut self.totals,
            flushed: why,
            excuses: None,
        };
        let (queue, wire, bypass) = (&mut self.queue, &mut self.wire, &mut self.bypass);
        sink.lent(self.shown, self.waits.as_deref_mut(), |sink| {
            queue.queue_mut().flush(&mut Portion::whole(), sink);
            wire.iter_mut().for_each(|wire| wire.flush(sink));
            bypass.drain(..).for_each(|packet| sink.drop(packet, why));
        });
        self.due = None;
    }

    /// Switches the discipline on or off. Off: its backlog, which is taken out in pieces, is sent
    /// first, and nothing is dropped.
    pub(crate) fn switch(&mut self, now: Instant, pool: &mut Pool, on: bool) {
        self.end_change(now, pool);
        self.write(&TapeEvent::Switched { on });
        if self.enabled && !on {
            self.moving.hands_over = !self.queue.is_empty();
            self.due = None;
        }
        self.enabled = on;
        self.note_plain();
    }

    /// Hands on what it holds, each frame as it would have left; its discipline is off then. What
    /// goes counts as never offered: it is, to whoever takes it.
    pub(crate) fn hand_on(&mut self, now: Instant, pool: &mut Pool) -> PathBacklog {
        let enabled = self.enabled;
        self.switch(now, pool, false);
        self.end_change(now, pool);
        let mut gone = Count::default();
        let frames = self.bypass.drain(..).map(|packet| {
            gone += packet.len;
            write_marks(pool, &packet);
            let frame = HandedFrame {
                arrived: packet.arrived,
                offload: pool.offload(packet.buffer),
                bytes: pool.bytes(packet.buffer).to_vec(),
            };
            pool.free(packet.buffer);
            frame
        });
        let frames = frames.collect();
        self.totals.offered = self.totals.offered - gone;
        PathBacklog {
            name: self.name.clone(),
            enabled,
            frames,
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What it has carried; with a rate, it is shaped to that from now on.
    pub(crate) fn shape(&mut self, now: Instant, rate: Option<Bandwidth>) -> PathCarried {
        if let Some(rate) = rate.filter(|rate| self.queue.bandwidth() != Some(*rate)) {
            self.queue.set_bandwidth(now, rate);
            // A due time at the former rate means nothing.
            self.due = None;
            self.wire.iter_mut().for_each(|wire| wire.reshaped(now));
        }
        PathCarried {
            at: now,
            offered: self.totals.offered.bytes,
            sent: self.totals.sent.bytes,
        }
    }

    /// Echo requests and answers with these identifiers leave first from now on.
    pub(crate) fn pass_probes(&mut self, idents: Vec<u16>) {
        self.probes = Some(Box::new(ProbeFrames::of(idents)));
    }

    /// These are promised to classes of its plan from now on.
    pub(crate) fn promise(&mut self, promises: &[ClassPromise]) {
        self.meters.promise(promises);
        if let (Some(wire), Some(plan)) = (&mut self.wire, &self.plan) {
            wire.promised(plan, promises);
        }
    }

    /// Adopts new settings of one class, if its discipline can do so without a look at the others.
    pub(crate) fn retune_class(
        &mut self,
        clock: Instant,
        pool: &mut Pool,
        retune: ClassRetune,
    ) -> ClassAdopted {
        let now = self.queue_time(clock);
        let ClassRetune {
            plan,
            class,
            guarantee,
        } = retune;
        let root = plan.root.plan.as_ref();
        let same = self.plan.as_ref().is_some_and(|old| old.is_amended_by(&plan));
        // A realiser learns of new settings by a whole plan.
        let paced = self.realiser.is_some() && root.pacing().is_some();
        if !same || paced || !self.queue.queue_mut().retune_class(now, root, class) {
            return ClassAdopted::WholeOnly;
        }
        self.changed();
        self.write(&TapeEvent::Changed {
            clock,
            at: now,
            class: true,
        });
        // A due time of the old settings means nothing under the new ones.
        self.due = None;
        self.wire.iter_mut().for_each(|wire| wire.retuned(now, &plan));
        self.plan = Some(plan);
        pool.claim_rate(self.owner(class), Some(guarantee));
        ClassAdopted::InPlace
    }

    /// Forgets what was measured of this class, or of all, as their numbers are others' now.
    fn forget_experience(&mut self, class: Option<ClassId>) {
        let observer = self.observer.as_mut();
        observer.into_iter().for_each(|observer| observer.forget(class));
    }

    /// How many classes its plan has.
    pub(crate) fn classes(&self) -> u32 {
        let plan = self.plan.as_ref();
        plan.map_or(0, |plan| u32::try_from(plan.classes.len()).unwrap_or(u32::MAX))
    }

    /// Which of its trees this is.
    pub(crate) fn tree(&self) -> u64 {
        self.trees
    }

    /// Writes what these classes show into a slice.
    pub(crate) fn slice(&mut self, now: Instant, detail: Detail, window: Range<u32>, into: &mut PathSlice) {
        match detail {
            Detail::Everything | Detail::Counters(_) => {
                let (views, spare) = (&mut into.views, &mut into.spare);
                let mut inspection = Inspection::within(views, spare, window.clone());
                self.queue.queue().inspect(&mut inspection);
            }
            Detail::Paths | Detail::Departures => into.spare.append(&mut into.views),
        }
        into.departed = self.meters.show(now, window.clone(), &mut into.classes);
        into.path = self.id as usize;
        into.tree = self.plan.as_ref().map(|plan| Arc::clone(&plan.classes));
        into.window = window;
    }

    /// Writes down what these classes have sent; the classes of its tree.
    pub(crate) fn sent(&mut self, of: &mut [(ClassId, Count)]) -> Option<Arc<SharedList<ClassInfo>>> {
        of.iter_mut()
            .for_each(|(class, sent)| *sent = self.meters.sent(*class));
        self.plan.as_ref().map(|plan| Arc::clone(&plan.classes))
    }

    /// A snapshot of the path.
    pub(crate) fn show(&mut self, now: Instant) -> PathView {
        let mut slice = PathSlice::default();
        self.slice(now, Detail::Everything, ALL, &mut slice);
        let (views, classes) = slice.whole();
        PathView {
            views,
            classes,
            ..self.show_whole()
        }
    }

    /// A snapshot of the path, without classes.
    pub(crate) fn show_whole(&self) -> PathView {
        let mut bypass = Count::default();
        self.bypass.iter().for_each(|packet| bypass += packet.len);
        let waiting = self.moving.waiting();
        bypass.packets += waiting.packets;
        bypass.bytes += waiting.bytes;
        PathView {
            name: self.name.clone(),
            from: self.from,
            to: self.to,
            enabled: self.enabled,
            kind: self.queue.queue().kind(),
            bandwidth: self.queue.bandwidth(),
            classifies_by: self.classify.classifies_by(),
            totals: self.totals,
            views: Vec::new(),
            classes: Vec::new(),
            bypass,
            lateness: self.lateness.clone(),
            split: self.split,
            impaired: self.wire.as_ref().map(|wire| wire.impaired()),
            realised: self.realiser.as_ref().map(|realiser| Realised {
                by: realiser.name(),
                achieved: realiser.achieved().clone(),
            }),
        }
    }
}
