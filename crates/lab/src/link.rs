//! An emulated link: behind a path's queue, one direction of a wire with a rate and a delay.
//!
//! ```text
//! packets → queue (tail drop, or a tree) → transmitter (rate) → wire (delay, impairments) → out
//! ```
//!
//! The queue is the path's own ([`ShapedQueue`]), with the same policy, changes and reservations as
//! on an interface.
//!
//! A packet occupies the transmitter for its length over the rate, and is then in flight for the
//! delay: the store-and-forward link of textbooks. The transmitter dequeues a packet at the instant
//! at which it becomes free; this instant is computed afterwards, however late the host calls. So
//! rate and drops do not depend on the host's timing; only the actual departure does.
//!
//! Every operation is O(1) beside the queue's own; where the wire follows a trace, a search in it.
//! A whole bandwidth-delay product can be in flight. The wire is the simulator's
//! ([`measure::wire_model`]): it decides, from a seed and exactly, when packets are sent, what
//! befalls them, and by how much they are delayed. A link can [record](EmulatedLink::wire) the
//! bytes offered and sent, in time bins, and writes into our own datagrams what a late thread added
//! to their delay ([`hold_ups`]).

use crate::flipped;
use crate::hold_ups::{self, IdleTimes, Passage};
use crate::record::Record;
use engine::discipline::{Next, Reason, Sink, Verdict};
use engine::disciplines::fifo;
use engine::link;
use engine::packet::Packet;
use engine::queue::Queue;
use engine::random::Seed;
use engine::settings::{Raw, Table};
use engine::shaped_queue::ShapedQueue;
use engine::tree::{DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use measure::impairments::{FlippedBit, ImpairmentCounts, ImpairmentSchedule, Impairments};
use measure::link_trace::LinkTrace;
use measure::promise::ClassPromise;
use measure::promised::PromisedCurves;
use measure::wire_model::{Crossing, ImpairedCrossing, WireModel, WireSettings};
use netio::pool::Offload;
use netio::wire::{PathWire, WireArrival};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The longest frame of a link: an IP packet of 1500 bytes, Ethernet header, VLAN tag.
const LONGEST: Bytes = Bytes::new(1518);

/// One direction of an emulated link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EmulatedLink {
    /// The rate of frames as they are on the interface (with Ethernet header, without FCS).
    pub rate: Bandwidth,
    /// The propagation delay.
    pub delay: Duration,
    /// Bytes queued at most, beside the frame that is being sent; at least one full frame.
    pub buffer: Bytes,
    /// What befalls packets on the wire.
    pub impairments: Impairments,
    /// What befalls them later, once it has begun.
    pub later: ImpairmentSchedule,
    /// The seed of impairments. Directions with one seed lose the same packets.
    pub seed: Seed,
    /// What it is over time, once it has begun; rate, delay and loss are what it does not say.
    pub trace: Option<LinkTrace>,
}

impl EmulatedLink {
    /// A link with a buffer of 100 ms at this rate, as many routers have, and no delay.
    pub fn new(rate: Bandwidth) -> Self {
        let buffer = rate.bytes_in(Duration::from_millis(100));
        Self {
            rate,
            delay: Duration::ZERO,
            buffer: buffer.max(Bytes::new(20_000)),
            impairments: Impairments::default(),
            later: ImpairmentSchedule::default(),
            seed: Seed(0),
            trace: None,
        }
    }

    /// The same with this delay.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The same with this buffer.
    #[must_use]
    pub fn buffer(mut self, buffer: Bytes) -> Self {
        self.buffer = buffer;
        self
    }

    /// The same with these impairments, drawn from this seed.
    #[must_use]
    pub fn impaired(mut self, impairments: Impairments, seed: Seed) -> Self {
        (self.impairments, self.seed) = (impairments, seed);
        self
    }

    /// The same with other impairments later.
    #[must_use]
    pub fn impaired_later(mut self, later: ImpairmentSchedule) -> Self {
        self.later = later;
        self
    }

    /// The same that follows a trace.
    #[must_use]
    pub fn trace(mut self, trace: Option<LinkTrace>) -> Self {
        self.trace = trace;
        self
    }

    /// What is in flight at most, in bytes.
    pub(crate) fn most_in_flight(&self) -> Bytes {
        let more = self.impairments.latest().max(self.later.latest());
        let [rate, delay] = match &self.trace {
            None => return self.rate.bytes_in(self.delay + more),
            Some(trace) => [trace.peak().bits(), trace.longest_delay().max(self.delay).nanos()],
        };
        Bandwidth::bits_per_sec(rate).bytes_in(Duration::from_nanos(delay) + more)
    }

    /// The link's buffer.
    pub fn tail_drop(&self) -> Queue {
        let settings = Table::default()
            .with("limit", Raw::Integer(i64::from(u32::MAX)))
            .text("limit_bytes", &self.buffer.max(LONGEST).to_string());
        let spec = DisciplineSpec {
            settings,
            ..DisciplineSpec::of(&fifo::KIND)
        };
        let link = link::Link::new(self.rate, LONGEST);
        let plan = spec.check(&Registry::builtin(), link);
        // The settings above are valid by construction.
        let tail_drop = plan.map(|plan| plan.build(Seed(0)));
        tail_drop.unwrap_or_else(|problems| panic!("a plain FIFO is refused: {problems:?}"))
    }

    /// This link behind a queue, which [conserves work](engine::kind::QueuePlan::conserves_work) or
    /// may not. Bytes offered and sent go into `record`, if there is one.
    pub fn wire(
        &self,
        conserves_work: bool,
        record: Option<Record>,
        cable: CableSwitch,
        begin: TraceBegin,
    ) -> Box<dyn PathWire> {
        let settings = WireSettings {
            rate: self.rate,
            delay: self.delay,
            impairments: self.impairments.clone(),
            later: self.later.clone(),
            trace: self.trace.clone(),
        };
        Box::new(EmulatedWire {
            model: WireModel::new(&settings, Instant::NEVER, self.seed),
            resume_at: Instant::START,
            called_at: Instant::START,
            first: VecDeque::new(),
            in_flight: VecDeque::new(),
            conserves_work,
            steady: self.impairments.latest().max(self.later.latest()) == Duration::ZERO
                && self.trace.is_none(),
            is_impaired: !self.impairments.are_none()
                || !self.later.is_empty()
                || self.trace.as_ref().is_some_and(LinkTrace::has_loss),
            idle_from: Instant::START,
            idle: IdleTimes::default(),
            given: None,
            promised: PromisedCurves::default(),
            record,
            cable,
            begin,
        })
    }
}

/// When the traces of a lab's links begin: until then each link is what it is without its trace.
/// Clones are of one lab.
#[derive(Clone, Debug)]
pub struct TraceBegin(Arc<AtomicU64>);

impl Default for TraceBegin {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(Instant::NEVER.nanos())))
    }
}

impl TraceBegin {
    /// They begin at this time.
    pub fn set(&self, at: Instant) {
        self.0.store(at.nanos(), Ordering::Relaxed);
    }

    fn get(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Cuts the cable of a link, and joins it: what arrives or is sent meanwhile is lost. Clones switch
/// the same cable.
#[derive(Clone, Debug, Default)]
pub struct CableSwitch(Arc<AtomicBool>);

impl CableSwitch {
    /// Cuts the cable, or joins it.
    pub fn cut(&self, cut: bool) {
        self.0.store(cut, Ordering::Relaxed);
    }

    fn is_cut(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The running link.
#[derive(Debug)]
struct EmulatedWire {
    model: WireModel,
    /// When to dequeue again, if the queue answered [`Next::Wait`].
    resume_at: Instant,
    /// When the queue was last called. Its time never goes back.
    called_at: Instant,
    /// What goes before the queue's packets.
    first: VecDeque<Packet>,
    in_flight: VecDeque<InFlight>,
    /// Whether the queue never holds packets back behind an idle link.
    conserves_work: bool,
    /// Whether each packet takes as long as any other: behind jitter, or a delay that shrinks, it
    /// may wait for one that left before it.
    steady: bool,
    /// Whether something befalls single packets.
    is_impaired: bool,
    /// From when on the link is idle, unless a packet comes: it has sent everything at its rate,
    /// and at that of the queue.
    idle_from: Instant,
    idle: IdleTimes,
    /// The way of the packet that was given last, and its flipped bit.
    given: Option<(Passage, Option<FlippedBit>)>,
    promised: PromisedCurves,
    record: Option<Record>,
    cable: CableSwitch,
    begin: TraceBegin,
}

/// A packet in flight.
#[derive(Debug)]
struct InFlight {
    packet: Packet,
    /// When it left the queue.
    left: Instant,
    passage: Passage,
    flipped: Option<FlippedBit>,
    /// A copy of it arrives with it.
    twice: bool,
    /// It waits for the next packet, to arrive behind it.
    waits: bool,
}

impl EmulatedWire {
    /// Sends what the transmitter takes by `now`, each packet at the instant at which the
    /// transmitter became free.
    fn transmit(&mut self, queue: &mut ShapedQueue, now: Instant, sink: &mut dyn Sink) {
        self.model.begin(self.begin.get());
        loop {
            let start = self.model.free_at().max(self.called_at).max(self.resume_at);
            if start > now {
                return;
            }
            self.called_at = start;
            let next = match self.first.pop_front() {
                Some(packet) => Next::Ready(packet),
                None => queue.dequeue(start, sink),
            };
            match next {
                Next::Ready(packet) => {
                    self.resume_at = Instant::START;
                    let sent = self.model.send(start, packet.len);
                    let by_queue = queue
                        .bandwidth()
                        .map(|rate| start + rate.time_to_send(packet.len));
                    self.idle_from = sent.max(by_queue.unwrap_or(sent));
                    if let Some(record) = &self.record {
                        record.sent(packet.arrived, start, sent, packet.len);
                    }
                    let crossing = match self.model.cross(sent) {
                        Crossing::Plain(due) => ImpairedCrossing {
                            arrives: Some(due),
                            ..ImpairedCrossing::default()
                        },
                        Crossing::Impaired(crossing) => crossing,
                    };
                    self.crosses(packet, start, &crossing, sink);
                }
                Next::Wait(at) => self.resume_at = at,
                Next::Empty => {
                    self.resume_at = Instant::START;
                    return;
                }
            }
        }
    }
}

impl EmulatedWire {
    /// A packet that left the queue then is on the wire now, unless it is lost; one that waited for
    /// it arrives behind it.
    fn crosses(&mut self, packet: Packet, left: Instant, crossing: &ImpairedCrossing, sink: &mut dyn Sink) {
        let released = crossing.releases.and_then(|due| {
            // It may have arrived, after waiting for as long as it does.
            let place = self.in_flight.iter().position(|one| one.waits)?;
            let mut one = self.in_flight.remove(place)?;
            (one.passage.due, one.waits) = (due, false);
            Some(one)
        });
        match crossing.arrives.filter(|_| !self.cable.is_cut()) {
            None => sink.drop(packet, Reason::Wire),
            Some(due) => {
                let passage = Passage {
                    taken: packet.arrived,
                    due,
                    conforms: self.promised.leaves(&packet),
                };
                self.flies(InFlight {
                    packet,
                    left,
                    passage,
                    flipped: crossing.flipped,
                    twice: crossing.twice,
                    waits: crossing.waits,
                });
            }
        }
        released.into_iter().for_each(|one| self.flies(one));
    }

    /// A packet flies behind all that are in flight, or overtakes.
    fn flies(&mut self, packet: InFlight) {
        let due = packet.passage.due;
        let overtakes = self.in_flight.back().is_some_and(|last| due < last.passage.due);
        let place = match overtakes {
            true => self.in_flight.partition_point(|before| before.passage.due <= due),
            false => self.in_flight.len(),
        };
        self.in_flight.insert(place, packet);
    }

    /// A packet comes: the link may have been idle until now.
    fn comes(&mut self, queue: &mut ShapedQueue, now: Instant, sink: &mut dyn Sink) {
        // Packets that were due before this one arrived have made room for it.
        self.transmit(queue, now, sink);
        if queue.is_empty() && self.first.is_empty() && self.idle_from < now {
            self.idle.add(self.idle_from, now);
            self.idle_from = now;
        }
        // The new packet may leave before the one that the queue waits for.
        self.ask_again(now);
    }

    /// What the queue said of its next packet does not hold any more.
    fn ask_again(&mut self, now: Instant) {
        self.resume_at = Instant::START;
        self.called_at = self.called_at.max(now);
    }
}

impl PathWire for EmulatedWire {
    fn rate(&self) -> Bandwidth {
        self.model.rate()
    }

    fn enqueue(
        &mut self,
        queue: &mut ShapedQueue,
        now: Instant,
        packet: Packet,
        sink: &mut dyn Sink,
    ) -> Verdict {
        self.comes(queue, now, sink);
        let len = packet.len;
        let found = self.promised.comes(now, &packet);
        let verdict = queue.enqueue(now, packet, sink);
        if let Some(record) = &self.record {
            record.offered(now, len, queue.queue().backlog().bytes);
            if let Some(found) = found {
                record.promised(now, found, verdict);
            }
        }
        self.transmit(queue, now, sink);
        verdict
    }

    fn carry(&mut self, queue: &mut ShapedQueue, now: Instant, packet: Packet, sink: &mut dyn Sink) {
        self.comes(queue, now, sink);
        if let Some(record) = &self.record {
            record.offered(now, packet.len, queue.queue().backlog().bytes);
        }
        self.first.push_back(packet);
        self.transmit(queue, now, sink);
    }

    fn next(&mut self, queue: &mut ShapedQueue, now: Instant, sink: &mut dyn Sink) -> Next<WireArrival> {
        self.transmit(queue, now, sink);
        while let Some(mut carried) = self.in_flight.pop_front_if(|one| one.passage.due <= now) {
            if self.cable.is_cut() {
                sink.drop(carried.packet, Reason::Wire);
                continue;
            }
            self.given = Some((carried.passage, carried.flipped));
            let left = carried.left;
            if !std::mem::take(&mut carried.twice) {
                let packet = carried.packet;
                return Next::Ready(WireArrival {
                    packet,
                    left,
                    copy: false,
                });
            }
            let packet = twin(&carried.packet);
            self.in_flight.push_front(carried);
            return Next::Ready(WireArrival {
                packet,
                left,
                copy: true,
            });
        }
        let due = self.in_flight.front().map(|next| next.passage.due);
        let sends = || {
            let free = self.model.free_at().max(self.resume_at);
            free.max(now + Duration::from_nanos(1))
        };
        match (due, queue.is_empty() && self.first.is_empty()) {
            (None, true) => Next::Empty,
            (None, false) => Next::Wait(sends()),
            // What is sent next may overtake it.
            (Some(due), false) if !self.steady => Next::Wait(due.min(sends())),
            (Some(due), _) => Next::Wait(due),
        }
    }

    fn hands_over(&mut self, now: Instant, frame: &mut [u8], offload: &mut Offload) {
        let Some((passage, flipped)) = self.given.take() else {
            return;
        };
        let idle = (self.conserves_work && self.steady).then_some(&self.idle);
        hold_ups::hands_over(frame, offload, &passage, idle, now);
        if let Some(bit) = flipped {
            flipped::flip(frame, offload, bit);
        }
    }

    fn is_impaired(&self) -> bool {
        self.is_impaired
    }

    fn impaired(&self) -> ImpairmentCounts {
        self.model.impaired()
    }

    fn in_flight(&self) -> usize {
        self.first.len() + self.in_flight.len()
    }

    fn each(&mut self, see: &mut dyn FnMut(&mut Packet)) {
        self.first.iter_mut().for_each(&mut *see);
        let packets = self.in_flight.iter_mut();
        packets.for_each(|carried| see(&mut carried.packet));
    }

    fn flush(&mut self, sink: &mut dyn Sink) {
        self.first
            .drain(..)
            .for_each(|packet| sink.drop(packet, Reason::Flushed));
        while let Some(carried) = self.in_flight.pop_front() {
            sink.drop(carried.packet, Reason::Flushed);
        }
        self.resume_at = Instant::START;
    }

    fn reshaped(&mut self, now: Instant) {
        self.ask_again(now);
    }

    fn promised(&mut self, plan: &TreePlan, promises: &[ClassPromise]) {
        self.promised.promised(plan, promises);
    }

    fn retuned(&mut self, now: Instant, plan: &TreePlan) {
        self.promised.renumbered(plan);
        self.conserves_work = plan.root.conserves_work();
        self.ask_again(now);
    }
}

/// What a copy of a packet is, whose bytes are the packet's.
fn twin(of: &Packet) -> Packet {
    Packet {
        flow: of.flow,
        ecn: of.ecn,
        dscp: of.dscp,
        buffer: of.buffer,
        ..Packet::new(of.len, of.arrived, of.class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::packet::{Buffer, ClassId};
    use engine::portion::Portion;
    use engine::settings::SettingValue;
    use measure::impairments::{Loss, Reordering};

    #[derive(Debug, Default)]
    struct Drops(u64);

    impl Sink for Drops {
        fn drop(&mut self, _packet: Packet, why: Reason) {
            assert_eq!(why, Reason::Full);
            self.0 += 1;
        }
    }

    /// A queue and the wire behind it.
    struct Line {
        queue: ShapedQueue,
        wire: Box<dyn PathWire>,
    }

    impl Line {
        fn of(link: &EmulatedLink, record: Option<Record>) -> Self {
            Self {
                queue: ShapedQueue::new(link.tail_drop(), None),
                wire: link.wire(true, record, CableSwitch::default(), TraceBegin::default()),
            }
        }

        fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
            self.wire.enqueue(&mut self.queue, now, packet, sink)
        }

        fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<WireArrival> {
            self.wire.next(&mut self.queue, now, sink)
        }
    }

    fn at(us: u64) -> Instant {
        Instant::START + Duration::from_micros(us)
    }

    fn offer(queue: &mut Line, now: Instant, len: u64, drops: &mut Drops) {
        let _ = queue.enqueue(now, Packet::new(Bytes::new(len), now, ClassId(0)), drops);
    }

    /// All departures, each at the time that the link announced.
    fn departures(queue: &mut Line, mut now: Instant, drops: &mut Drops) -> Vec<Instant> {
        let mut times = Vec::new();
        loop {
            match queue.dequeue(now, drops) {
                Next::Ready(_) => times.push(now),
                Next::Wait(until) => now = until,
                Next::Empty => return times,
            }
        }
    }

    #[test]
    fn a_packet_arrives_after_its_transmission_and_the_delay() {
        let link = EmulatedLink::new(Bandwidth::mbit(8)).delay(Duration::from_millis(5));
        let (mut queue, mut drops) = (Line::of(&link, None), Drops::default());
        offer(&mut queue, at(1000), 1000, &mut drops);
        offer(&mut queue, at(1000), 500, &mut drops);
        assert_eq!(departures(&mut queue, at(1000), &mut drops), [at(7000), at(7500)]);
        offer(&mut queue, at(20_000), 1000, &mut drops);
        assert_eq!(
            departures(&mut queue, at(20_000), &mut drops),
            [at(26_000)],
            "after an idle period"
        );
    }

    #[test]
    fn the_rate_is_exact_whatever_the_fraction_of_a_nanosecond() {
        let rate = Bandwidth::bits_per_sec(7_000_000_013);
        let (mut queue, mut drops) = (Line::of(&EmulatedLink::new(rate), None), Drops::default());
        let packets = 5_000;
        for _ in 0..packets {
            offer(&mut queue, at(0), 1514, &mut drops);
        }
        let last = *departures(&mut queue, at(0), &mut drops)
            .last()
            .expect("a departure");
        let exact = packets * 1514 * 8 * 1_000_000_000_u128 / 7_000_000_013;
        assert_eq!((u128::from(last.nanos()), drops.0), (exact, 0));
    }

    #[test]
    fn a_full_buffer_drops_the_arriving_packet_and_no_other() {
        let link = EmulatedLink::new(Bandwidth::mbit(8)).buffer(Bytes::new(3000));
        let (mut queue, mut drops) = (Line::of(&link, None), Drops::default());
        // One on the transmitter, three in the buffer, two dropped.
        for _ in 0..6 {
            offer(&mut queue, at(0), 1000, &mut drops);
        }
        assert_eq!(drops.0, 2);
        // After 1 ms the next is on the transmitter, though nobody called.
        offer(&mut queue, at(1000), 1000, &mut drops);
        assert_eq!(drops.0, 2);
        offer(&mut queue, at(1000), 1000, &mut drops);
        assert_eq!(drops.0, 3);
    }

    #[test]
    fn a_packet_that_others_overtake_comes_later_and_the_others_in_time() {
        let reordering = Reordering {
            which: Loss::Every(3),
            by: Duration::from_micros(2_500),
        };
        let impairments = Impairments {
            reordering,
            ..Impairments::default()
        };
        let link = EmulatedLink::new(Bandwidth::mbit(8)).delay(Duration::from_millis(1));
        let (mut queue, mut drops) = (
            Line::of(&link.impaired(impairments, Seed(0)), None),
            Drops::default(),
        );
        // Packets 3 and 6 come 2.5 ms later; of 3 the packets 4 and 5 are before it.
        for len in [1000, 1001, 1002, 1003, 1004, 1005, 1006] {
            offer(&mut queue, at(0), len, &mut drops);
        }
        let (mut now, mut lengths) = (at(0), Vec::new());
        loop {
            match queue.dequeue(now, &mut drops) {
                Next::Ready(arrival) => lengths.push((arrival.packet.len.get(), now.nanos() / 1_000)),
                Next::Wait(until) => now = until,
                Next::Empty => break,
            }
        }
        let expected = [
            (1000, 2_000),
            (1001, 3_001),
            (1003, 5_006),
            (1004, 6_010),
            (1002, 6_503),
            (1006, 8_021),
            (1005, 9_515),
        ];
        assert_eq!(lengths, expected);
        assert_eq!(drops.0, 0);
    }

    /// The packets in the order of their arrival, by their buffers; copies are told.
    fn arrivals(link: EmulatedLink, packets: u32) -> Vec<(u32, u64, bool)> {
        struct OnWire;
        impl Sink for OnWire {
            fn drop(&mut self, _packet: Packet, why: Reason) {
                assert_eq!(why, Reason::Wire);
            }
        }
        let mut line = Line::of(&link, None);
        for number in 1..=packets {
            let mut packet = Packet::new(Bytes::new(1000), at(0), ClassId(0));
            packet.buffer = Buffer(number);
            let _ = line.wire.enqueue(&mut line.queue, at(0), packet, &mut OnWire);
        }
        let (mut now, mut seen) = (at(0), Vec::new());
        loop {
            match line.wire.next(&mut line.queue, now, &mut OnWire) {
                Next::Ready(WireArrival { packet, copy, .. }) => {
                    seen.push((packet.buffer.0, now.nanos() / 1_000, copy));
                }
                Next::Wait(until) => now = until,
                Next::Empty => return seen,
            }
        }
    }

    #[test]
    fn a_script_drops_doubles_and_swaps_packets_by_their_numbers() {
        let text = "drop 2; swap 3, 4; duplicate 5; swap 6, 7; delay 8 by 3 ms";
        let script = SettingValue::from_raw(&Raw::Text(text.into())).expect("a script");
        let impairments = Impairments {
            script,
            loss: Loss::Every(7),
            ..Impairments::default()
        };
        let link = EmulatedLink::new(Bandwidth::mbit(8)).impaired(impairments, Seed(1));
        let expected = [
            (1, 1_000, false),
            (4, 4_000, false),
            (3, 4_000, false),
            (5, 5_000, true),
            (5, 5_000, false),
            (6, 7_000, false),
            (9, 9_000, false),
            (10, 10_000, false),
            (8, 11_000, false),
        ];
        assert_eq!(arrivals(link, 10), expected);
    }

    #[test]
    fn a_packet_that_is_to_arrive_behind_the_next_one_waits_for_a_second_at_most() {
        let script = SettingValue::from_raw(&Raw::Text("swap 2, 3".into())).expect("a script");
        let impairments = Impairments {
            script,
            ..Impairments::default()
        };
        let link = EmulatedLink::new(Bandwidth::mbit(8)).impaired(impairments, Seed(1));
        assert_eq!(arrivals(link, 2), [(1, 1_000, false), (2, 1_002_000, false)]);
    }

    #[test]
    fn a_late_host_costs_no_rate() {
        let link = EmulatedLink::new(Bandwidth::mbit(8)).delay(Duration::from_millis(1));
        let (mut queue, mut drops) = (Line::of(&link, None), Drops::default());
        for _ in 0..10 {
            offer(&mut queue, at(0), 1000, &mut drops);
        }
        // The first call comes after 8 of the 10 have arrived.
        let mut arrived = 0;
        while let Next::Ready(_) = queue.dequeue(at(9_500), &mut drops) {
            arrived += 1;
        }
        assert_eq!(arrived, 8);
        assert_eq!(
            departures(&mut queue, at(9_500), &mut drops),
            [at(10_000), at(11_000)]
        );
    }

    #[test]
    fn a_whole_bandwidth_delay_product_can_be_in_flight() {
        let link = EmulatedLink::new(Bandwidth::mbit(80))
            .delay(Duration::from_secs(1))
            .buffer(Bytes::new(2000));
        let (mut queue, mut drops) = (Line::of(&link, None), Drops::default());
        for n in 0..10_000 {
            offer(&mut queue, at(n * 100), 1000, &mut drops);
        }
        assert_eq!(drops.0, 0);
        assert_eq!(queue.wire.in_flight(), 10_000);
        assert_eq!(departures(&mut queue, at(1_000_000), &mut drops).len(), 10_000);
    }

    #[test]
    fn a_wire_loses_by_its_model_and_delays_in_order() {
        struct WireLosses(u64);
        impl Sink for WireLosses {
            fn drop(&mut self, _packet: Packet, why: Reason) {
                assert_eq!(why, Reason::Wire);
                self.0 += 1;
            }
        }
        let spread = Duration::from_micros(700);
        let impairments = Impairments {
            loss: Loss::Every(3),
            jitter: spread.into(),
            ..Impairments::default()
        };
        let link = EmulatedLink::new(Bandwidth::mbit(8)).impaired(impairments, Seed(5));
        let record = Record::new(at(0), Duration::from_millis(1));
        let (mut queue, mut drops) = (Line::of(&link, Some(record.clone())), WireLosses(0));
        for _ in 0..9 {
            let _ = queue.enqueue(
                at(0),
                Packet::new(Bytes::new(1000), at(0), ClassId(0)),
                &mut drops,
            );
        }
        let (mut now, mut times) = (at(0), Vec::new());
        loop {
            match queue.dequeue(now, &mut drops) {
                Next::Ready(_) => times.push(now),
                Next::Wait(until) => now = until,
                Next::Empty => break,
            }
        }
        assert_eq!(drops.0, 3);
        for (time, sent) in times.iter().zip([1, 2, 4, 5, 7, 8]) {
            let longer = time.since(at(sent * 1000));
            assert!(*time >= at(sent * 1000) && longer <= spread, "{sent}: {longer:?}");
        }
        assert!(
            times
                .iter()
                .zip([1, 2, 4, 5, 7, 8])
                .any(|(time, sent)| *time > at(sent * 1000))
        );
        let recorded = record.read();
        assert_eq!(
            (recorded.offered.total(), recorded.sent.bytes()),
            (9_000, &[1_000; 9][..])
        );
        assert_eq!(
            recorded.deepest,
            Bytes::new(8_000),
            "the ninth was on the transmitter"
        );
    }

    #[test]
    fn a_cut_cable_loses_what_it_carries_and_what_it_is_given() {
        struct Lost(u64);
        impl Sink for Lost {
            fn drop(&mut self, _packet: Packet, why: Reason) {
                assert_eq!(why, Reason::Wire);
                self.0 += 1;
            }
        }
        let link = EmulatedLink::new(Bandwidth::mbit(8)).delay(Duration::from_millis(5));
        let cable = CableSwitch::default();
        let mut line = Line {
            queue: ShapedQueue::new(link.tail_drop(), None),
            wire: link.wire(true, None, cable.clone(), TraceBegin::default()),
        };
        let mut lost = Lost(0);
        let offer = |us: u64, line: &mut Line, lost: &mut Lost| {
            let _ = line.enqueue(at(us), Packet::new(Bytes::new(1000), at(us), ClassId(0)), lost);
        };
        offer(0, &mut line, &mut lost);
        cable.cut(true);
        assert!(matches!(line.dequeue(at(6_000), &mut lost), Next::Empty));
        offer(7_000, &mut line, &mut lost);
        assert!(matches!(line.dequeue(at(20_000), &mut lost), Next::Empty));
        cable.cut(false);
        offer(30_000, &mut line, &mut lost);
        assert!(matches!(line.dequeue(at(36_000), &mut lost), Next::Ready(_)));
        assert_eq!(lost.0, 2);
    }

    #[test]
    fn a_flush_empties_queue_and_wire() {
        struct Flushed(u64);
        impl Sink for Flushed {
            fn drop(&mut self, _packet: Packet, why: Reason) {
                assert_eq!(why, Reason::Flushed);
                self.0 += 1;
            }
        }
        let link = EmulatedLink::new(Bandwidth::mbit(8));
        let (mut queue, mut drops) = (Line::of(&link, None), Drops::default());
        for _ in 0..5 {
            offer(&mut queue, at(0), 1000, &mut drops);
        }
        let mut flushed = Flushed(0);
        queue.wire.flush(&mut flushed);
        queue.queue.queue_mut().flush(&mut Portion::whole(), &mut flushed);
        assert_eq!(
            (flushed.0, queue.queue.is_empty(), queue.wire.in_flight()),
            (5, true, 0)
        );
        offer(&mut queue, at(9_000), 1000, &mut drops);
        assert_eq!(departures(&mut queue, at(9_000), &mut drops).len(), 1);
    }
}
