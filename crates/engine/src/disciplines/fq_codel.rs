//! `fq_codel`: a queue for each flow, served in turn, sparse flows first, and each kept short by
//! CoDel.
//!
//! Høiland-Jørgensen and others, RFC 8290 (2018), sections 4.1 and 4.2. A flow's hash chooses one
//! of *flows* queues. Backlogged queues stand in the list of *new* or of *old* queues; each has a
//! credit (the RFC's byte credits):
//!
//! ```text
//! a packet arrives at a queue in neither list: end of the new list;  credit ← quantum
//! next packet: the head of the new list; if there is none, of the old list
//!     credit ≤ 0:             credit ← credit + quantum;  to the end of the old list;  repeat
//!     CoDel gives a packet:   credit ← credit − length;   it leaves
//!     the queue is empty:     from the new list to the end of the old list, from the old list into neither; repeat
//! ```
//!
//! So a flow that sends less than a quantum in a round is served before all others, and one that
//! empties its queue in the new list must pass through the old one before it is new again: it
//! cannot starve the others. In any time in which two flows stay backlogged, |S₁ − S₂| ≤ 2 (quantum
//! + longest packet) for bytes sent *S*.
//!
//! When the backlog exceeds `limit` packets or `limit_bytes`, the longest queue (by bytes) drops
//! packets from its head: half of its bytes, but at most 64 packets. The longest is found in
//! constant time, from lists of queues by length (`structures/lengths.rs`), where the RFC's
//! implementation scans all of them; it is exact to 1/32.
//!
//! CoDel and its law are those of `codel`, one state for each queue.
//!
//! Departures: CoDel's "no more than a full packet" counts the flow's own queue; packets dropped
//! for the limit do not change CoDel's count; the seed of the hash is drawn when the queue is made
//! and stays.

use super::codel::{Controller, Held, Law};
use crate::bounds::{Terms, WorstCase};
use crate::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties};
use crate::packet::Packet;
use crate::portion::Portion;
use crate::random::mix;
use crate::settings;
use crate::settings::Problem;
use crate::structures::lengths::Lengths;
use crate::structures::lists::{List, Store};
use crate::units::{Bytes, Duration, Instant};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "fq_codel",
    summary: "Fair shares among flows, sparse flows first, and every flow's queue kept short by CoDel",
    reference: "Høiland-Jørgensen and others, RFC 8290, \"The flow queue CoDel packet scheduler\", 2018",
    children: Children::None,
    settings: Settings::SETTINGS,
    class_settings: &[],
    properties: Properties {
        conserves_work: true,
        elsewhere: &["sfq", "fairq"],
        takes_over: true,
        ..Properties::NONE
    },
    check,
};

settings! {
    /// Settings of `fq_codel`.
    pub struct Settings {
        /// How many queues flows are hashed onto
        flows: u32 = default "1024",
            "too small: flows share a queue; too large: memory, 90 B for each",
            "RFC 8290, section 4.1.3";
        /// What a queue may send on a visit
        quantum: Bytes = derived "the link's longest packet",
            "too small: many visits for a packet; too large: flows are served in bursts, and more count as sparse",
            "RFC 8290, section 4.1.2; 300 B on slow links favours short packets";
        /// Packets queued at most, by all queues together
        limit: u32 = default "10240",
            "too small: bursts are dropped; too large: memory",
            "RFC 8290, section 4.1.3";
        /// Bytes queued at most, by all queues together
        limit_bytes: Bytes = default "32 MB",
            "too small: bursts are dropped; too large: memory",
            "the usual implementation's memory limit";
        /// The acceptable sojourn time
        target: Duration = derived "5 ms, or the time to send 1.5 full packets if that is longer",
            "too small: flows do not reach their share; too large: queueing delay for nothing",
            "RFC 8290, section 5.2.2";
        /// How long the sojourn time must exceed target before the first drop; about the longest
        /// round trip of most flows
        interval: Duration = derived "100 ms, and what target has above 5 ms",
            "too small: drops before senders can react; too large: long delays before the first drop",
            "RFC 8290, section 5.2.1";
        /// Whether ECN-capable packets are marked instead of dropped
        ecn: bool = default "true",
            "false: ECN-capable senders suffer drops for nothing",
            "RFC 8290, section 5.2.6";
    }
}

const MAX_FLOWS: u32 = 1 << 16;
/// So many queues at most are made when the first packet arrives, so that an idle class takes no
/// memory for them. More would delay it, and are made at once.
const AT_FIRST_PACKET: u32 = 1_024;
/// Packets that the longest queue drops at most at a time.
const BATCH: u32 = 64;

/// A checked plan.
#[derive(Clone, PartialEq, Debug)]
struct FqPlan {
    flows: u32,
    quantum: i64,
    limit: u64,
    limit_bytes: u64,
    law: Law,
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let settings = Settings::read(check.settings, &[], check.problems)?;
    let mut wrong = Vec::new();
    if !(1..=MAX_FLOWS).contains(&settings.flows) {
        wrong.push(("flows", format!("`flows` must be from 1 to {MAX_FLOWS}")));
    }
    let quantum = settings
        .quantum
        .unwrap_or(check.link.mtu.max(Bytes::new(256)))
        .get();
    if !(256..=1 << 30).contains(&quantum) {
        wrong.push(("quantum", "`quantum` must be from 256 B to 1 GiB".into()));
    }
    if settings.limit == 0 {
        wrong.push((
            "limit",
            "`limit` must be at least 1: a queue of 0 drops every packet".into(),
        ));
    }
    if settings.limit_bytes < check.link.mtu {
        let message = format!("`limit_bytes` is less than one full packet ({})", check.link.mtu);
        wrong.push(("limit_bytes", message));
    }
    let law = Law::new(settings.target, settings.interval, settings.ecn, check.link);
    let law = law.map_err(|fault| wrong.push(fault)).ok();
    let at = |key: &str| check.settings.place(key);
    let problems: Vec<_> = wrong
        .into_iter()
        .map(|(key, message)| Problem::new(at(key), message))
        .collect();
    if !problems.is_empty() {
        check.problems.extend(problems);
        return None;
    }
    Some(Arc::new(FqPlan {
        flows: settings.flows,
        quantum: quantum as i64,
        limit: u64::from(settings.limit),
        limit_bytes: settings.limit_bytes.get(),
        law: law?,
    }))
}

impl Plan for FqPlan {
    fn bounds(&self, _terms: &Terms<'_>) -> Vec<WorstCase> {
        let why = "a packet is delayed by all backlogged flows, and nothing bounds how many there are or which share a queue";
        vec![WorstCase {
            class: None,
            bound: Err(why.into()),
        }]
    }

    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        Box::new(FqCodel::new(self.clone(), cx.rng().bits()))
    }
}

/// No flow.
const NONE: u32 = u32::MAX;

/// The state of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum QueueState {
    Neither,
    New,
    Old,
}

/// The queue of the flows of one hash.
#[derive(Clone, Debug)]
struct FlowQueue {
    list: List,
    credit: i64,
    controller: Controller,
    state: QueueState,
    next: u32,
}

/// A list of queues.
#[derive(Clone, Copy, Debug)]
struct Line {
    first: u32,
    last: u32,
    count: u32,
}

impl Line {
    const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
        count: 0,
    };

    fn push(&mut self, flows: &mut [FlowQueue], flow: u32) {
        flows[flow as usize].next = NONE;
        match self.last {
            NONE => self.first = flow,
            last => flows[last as usize].next = flow,
        }
        self.last = flow;
        self.count += 1;
    }

    fn pop(&mut self, flows: &[FlowQueue]) {
        self.first = flows[self.first as usize].next;
        if self.first == NONE {
            self.last = NONE;
        }
        self.count -= 1;
    }
}

#[derive(Debug)]
struct FqCodel {
    plan: FqPlan,
    seed: u64,
    /// None before the first packet.
    flows: Vec<FlowQueue>,
    new: Line,
    old: Line,
    store: Store,
    lengths: Lengths,
    /// How often a queue became new.
    became_new: u64,
    /// Where a flush goes on: the new queues or the old ones, and which.
    flushed: Option<(usize, u32)>,
    /// Packets of which another one knows the flows.
    left: VecDeque<List>,
}

impl FqCodel {
    fn new(plan: FqPlan, seed: u64) -> Self {
        let mut queue = Self {
            seed,
            flows: Vec::new(),
            new: Line::EMPTY,
            old: Line::EMPTY,
            store: Store::default(),
            lengths: Lengths::new(0),
            became_new: 0,
            flushed: None,
            left: VecDeque::new(),
            plan,
        };
        if queue.plan.flows > AT_FIRST_PACKET {
            queue.make_queues();
        }
        queue
    }

    #[cold]
    #[inline(never)]
    fn make_queues(&mut self) {
        let flow = FlowQueue {
            list: List::EMPTY,
            credit: 0,
            controller: Controller::default(),
            state: QueueState::Neither,
            next: NONE,
        };
        self.flows = vec![flow; self.plan.flows as usize];
        self.lengths = Lengths::new(self.plan.flows as usize);
    }

    fn flow_of(&self, packet: &Packet) -> u32 {
        let mixed = mix(self.seed ^ u64::from(packet.flow.full)) >> 32;
        ((mixed * u64::from(self.plan.flows)) >> 32) as u32
    }

    fn note_length(&mut self, flow: u32) {
        let list = &self.flows[flow as usize].list;
        self.lengths.set(flow, (!list.is_empty()).then_some(list.bytes()));
    }

    /// Drops half of the longest queue's bytes, or a batch of its packets; returns the queue.
    fn shorten(&mut self, sink: &mut dyn Sink) -> Option<u32> {
        let fattest = self.lengths.longest()?;
        let list = &mut self.flows[fattest as usize].list;
        let half = list.bytes() / 2;
        for _ in 0..BATCH {
            let Some(packet) = self.store.pop(list) else { break };
            sink.drop(packet, Reason::Longest);
            if list.bytes() <= half {
                break;
            }
        }
        self.note_length(fattest);
        Some(fattest)
    }

    /// Moves the first queue of its list to the end of the old ones.
    fn make_old(&mut self, flow: u32) {
        let line = if self.flows[flow as usize].state == QueueState::New {
            &mut self.new
        } else {
            &mut self.old
        };
        line.pop(&self.flows);
        self.flows[flow as usize].state = QueueState::Old;
        self.old.push(&mut self.flows, flow);
    }
}

/// The packets of one flow.
struct HeldFlow<'a>(&'a mut Store, &'a mut List);

impl Held for HeldFlow<'_> {
    #[inline]
    fn bytes(&self) -> Bytes {
        Bytes::new(self.1.bytes())
    }

    #[inline]
    fn oldest(&mut self) -> Option<&mut Packet> {
        self.0.oldest_mut(self.1)
    }

    #[inline]
    fn remove_oldest(&mut self) {
        self.0.remove_oldest(self.1);
    }
}

impl Discipline for FqCodel {
    fn enqueue(&mut self, _now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        if self.flows.is_empty() {
            self.make_queues();
        }
        let flow = self.flow_of(&packet);
        let queue = &mut self.flows[flow as usize];
        self.store.push(&mut queue.list, packet);
        if queue.state == QueueState::Neither {
            (queue.state, queue.credit) = (QueueState::New, self.plan.quantum);
            self.new.push(&mut self.flows, flow);
            self.became_new += 1;
        }
        self.note_length(flow);
        while self.store.packets() > self.plan.limit || self.store.bytes() > self.plan.limit_bytes {
            let Some(shortened) = self.shorten(sink) else {
                break;
            };
            // The arriving packet is the last of its queue, so it was dropped if and only if none
            // is left there.
            if shortened == flow && self.flows[flow as usize].list.is_empty() {
                return Verdict::Dropped(Reason::Longest);
            }
        }
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        loop {
            let at = if self.new.first != NONE {
                self.new.first
            } else {
                self.old.first
            };
            let Some(flow) = self.flows.get_mut(at as usize) else {
                return Next::Empty;
            };
            if flow.credit <= 0 {
                flow.credit += self.plan.quantum;
                self.make_old(at);
                continue;
            }
            let mut held = HeldFlow(&mut self.store, &mut flow.list);
            let next = flow.controller.dequeue(&self.plan.law, now, sink, &mut held);
            if let Next::Ready(packet) = &next {
                flow.credit -= packet.len.get() as i64;
                self.note_length(at);
                return next;
            }
            if flow.state == QueueState::New {
                self.make_old(at);
            } else {
                flow.state = QueueState::Neither;
                self.old.pop(&self.flows);
            }
        }
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        if !self.store.flush(&mut self.left, portion, sink) {
            return;
        }
        // Queues stay in their lists: an empty one is a common sight there.
        let lists = [self.new.first, self.old.first];
        let (mut list, mut at) = self.flushed.take().unwrap_or((0, lists[0]));
        while !portion.is_spent() {
            let Some(flow) = self.flows.get_mut(at as usize) else {
                let Some(first) = lists.get(list + 1) else { return };
                (list, at) = (list + 1, *first);
                continue;
            };
            let done = portion.flush(sink, || self.store.pop(&mut flow.list));
            let next = flow.next;
            self.note_length(at);
            if done {
                portion.looked();
                at = next;
            }
        }
        self.flushed = Some((list, at));
    }

    fn take_over(&mut self, _now: Instant, former: &mut dyn Discipline) -> u32 {
        let same = |former: &&mut Self| former.plan.flows == self.plan.flows;
        let Some(former) = former.of_type::<Self>().filter(same) else {
            return 0;
        };
        std::mem::swap(&mut self.flows, &mut former.flows);
        std::mem::swap(&mut self.lengths, &mut former.lengths);
        (self.seed, self.became_new) = (former.seed, former.became_new);
        self.new = std::mem::replace(&mut former.new, Line::EMPTY);
        self.old = std::mem::replace(&mut former.old, Line::EMPTY);
        // The packets stay where they are. The longest are handed on last: of equals the last to
        // come is the longest.
        while let Some(flow) = self.lengths.longest() {
            let list = &mut self.flows[flow as usize].list;
            former.left.push_front(std::mem::replace(list, List::EMPTY));
            self.lengths.set(flow, None);
        }
        self.new.count + self.old.count
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        out.gauge("new", Value::Count(u64::from(self.new.count)));
        out.gauge("old", Value::Count(u64::from(self.old.count)));
        let fattest = self
            .lengths
            .longest()
            .map_or(0, |flow| self.flows[flow as usize].list.bytes());
        out.gauge("fattest", Value::Bytes(Bytes::new(fattest)));
        out.gauge("became_new", Value::Count(self.became_new));
        out.gauge("target", Value::Duration(self.plan.law.target));
        out.gauge("interval", Value::Duration(self.plan.law.interval));
        out.gauge("limit", Value::Count(self.plan.limit));
    }

    fn retune(&mut self, _now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let Some(plan) = plan.downcast_ref::<FqPlan>() else {
            return false;
        };
        // Another number of queues would move flows that are backlogged.
        if plan.flows != self.plan.flows {
            return false;
        }
        self.plan = plan.clone();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use crate::packet::{ClassId, FlowHashes};
    use crate::random::Seed;
    use crate::settings::{Raw, Table};
    use crate::sinks::Drops;
    use crate::trials;
    use crate::units::Bandwidth;

    const LINK: Link = Link::new(Bandwidth::mbit(8), Bytes::new(1000));

    /// With a law that drops nothing, unless `aqm`.
    fn queue(limit: u64, aqm: bool) -> FqCodel {
        let slow = Some(Duration::from_secs(3));
        let law = if aqm {
            Law::new(None, None, true, LINK)
        } else {
            Law::new(slow, Some(Duration::from_secs(4)), true, LINK)
        };
        let law = law.expect("a good law");
        FqCodel::new(
            FqPlan {
                flows: 1024,
                quantum: 1000,
                limit,
                limit_bytes: 1 << 30,
                law,
            },
            7,
        )
    }

    fn put(queue: &mut FqCodel, now: Instant, flow: u32, len: u64) -> Vec<(u32, Reason)> {
        let mut dropped = Drops::default();
        let flow = FlowHashes {
            source: flow,
            destination: flow,
            full: flow,
        };
        let packet = Packet {
            flow,
            ..Packet::new(Bytes::new(len), now, ClassId(0))
        };
        let verdict = queue.enqueue(now, packet, &mut dropped);
        assert!(verdict == Verdict::Queued || !dropped.0.is_empty());
        dropped.0
    }

    fn get(queue: &mut FqCodel, now: Instant) -> Packet {
        match queue.dequeue(now, &mut Drops::default()) {
            Next::Ready(packet) => packet,
            other => panic!("{other:?}"),
        }
    }

    fn millis(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    #[test]
    fn a_new_flow_goes_before_old_ones_for_one_quantum() {
        let mut queue = queue(1000, false);
        for flow in [1, 2] {
            (0..20).for_each(|_| assert!(put(&mut queue, millis(0), flow, 1000).is_empty()));
        }
        (0..6).for_each(|_| drop(get(&mut queue, millis(0))));
        (0..20).for_each(|_| assert!(put(&mut queue, millis(0), 3, 500).is_empty()));
        let order: Vec<u32> = (0..14).map(|_| get(&mut queue, millis(0)).flow.full).collect();
        assert_eq!(order[..2], [3, 3], "a quantum of 1,000 bytes, at once");
        let count = |flow| order[2..].iter().filter(|&&other| other == flow).count();
        assert_eq!([1, 2, 3].map(count), [3, 3, 6], "then its share: {order:?}");
    }

    #[test]
    fn a_queue_that_empties_in_the_new_list_goes_to_the_old_one_and_starves_nobody() {
        let mut queue = queue(1000, false);
        (0..200).for_each(|_| assert!(put(&mut queue, millis(0), 1, 1000).is_empty()));
        drop(get(&mut queue, millis(0)));
        drop(get(&mut queue, millis(0)));
        // A flow that always comes back as soon as its queue is empty.
        let (mut greedy, mut returning) = (0, 0);
        for _ in 0..100 {
            if returning == 0
                || queue
                    .flows
                    .iter()
                    .all(|flow| flow.list.is_empty() || flow.list.bytes() > 50_000)
            {
                assert!(put(&mut queue, millis(0), 2, 500).is_empty());
            }
            match get(&mut queue, millis(0)).flow.full {
                1 => greedy += 1,
                _ => returning += 1,
            }
        }
        assert!(
            greedy >= 30,
            "{greedy} packets of 1,000 bytes against {returning} of 500"
        );
        assert_eq!(queue.became_new, 2, "it never came to be in neither list");
    }

    #[test]
    fn sparse_flows_wait_for_no_more_than_the_packet_on_the_wire_and_each_other() {
        let mut queue = queue(10_000, false);
        let mut worst = 0;
        // Flows of which no two share a queue.
        let mut taken = std::collections::HashSet::new();
        let probe = |flow: u32| Packet {
            flow: FlowHashes {
                full: flow,
                ..FlowHashes::default()
            },
            ..Packet::new(Bytes::new(1), millis(0), ClassId(0))
        };
        let apart: Vec<u32> = (0..)
            .filter(|&flow| taken.insert(queue.flow_of(&probe(flow))))
            .take(22)
            .collect();
        let (sparse, greedy) = apart.split_at(2);
        for &flow in greedy {
            (0..20).for_each(|_| assert!(put(&mut queue, millis(0), flow, 1000).is_empty()));
        }
        for at in 0..5_000 {
            // After the first round, in which all are new.
            if at > 50 && at % 50 == 7 {
                sparse
                    .iter()
                    .for_each(|&flow| assert!(put(&mut queue, millis(at), flow, 100).is_empty()));
            }
            let packet = get(&mut queue, millis(at));
            if sparse.contains(&packet.flow.full) {
                worst = worst.max(millis(at).since(packet.arrived).nanos() / 1_000_000);
            } else {
                assert!(put(&mut queue, millis(at), packet.flow.full, 1000).is_empty());
            }
        }
        assert!(worst <= 1, "{worst} packet times, while a round takes 20");
    }

    #[test]
    fn backlogged_flows_get_equal_bytes_whatever_their_packets() {
        let mut rng = Seed(11).stream();
        let mut queue = queue(100_000, false);
        let mut sent = [0u64; 4];
        let mut len = |flow: usize| match flow {
            0 => 1000,
            1 => 40,
            2 => 999,
            _ => 1 + rng.below(1000),
        };
        for _ in 0..30 {
            (0..4).for_each(|flow| assert!(put(&mut queue, millis(0), flow as u32, len(flow)).is_empty()));
        }
        for _ in 0..20_000 {
            let packet = get(&mut queue, millis(0));
            let flow = packet.flow.full as usize;
            sent[flow] += packet.len.get();
            assert!(put(&mut queue, millis(0), flow as u32, len(flow)).is_empty());
            let (least, most) = (sent.iter().min(), sent.iter().max());
            assert!(
                most.zip(least).is_some_and(|(most, least)| most - least <= 4_000),
                "{sent:?}"
            );
        }
    }

    #[test]
    fn the_limit_takes_half_of_the_fattest_queue_from_its_head_and_spares_the_others() {
        let mut queue = queue(100, false);
        assert!((0..10).all(|_| put(&mut queue, millis(0), 1, 1000).is_empty()));
        let mut dropped = Vec::new();
        (0..91).for_each(|_| dropped.extend(put(&mut queue, millis(0), 2, 1000)));
        assert_eq!(dropped, vec![(2, Reason::Longest); 46]);
        let left: Vec<u64> = queue
            .flows
            .iter()
            .map(|flow| flow.list.bytes())
            .filter(|&n| n > 0)
            .collect();
        assert!(left == [10_000, 45_000] || left == [45_000, 10_000], "{left:?}");
    }

    #[test]
    fn a_packet_that_is_itself_the_fattest_queue_is_refused() {
        let mut queue = queue(1, false);
        assert!(put(&mut queue, millis(0), 1, 100).is_empty());
        assert_eq!(put(&mut queue, millis(0), 2, 1000), [(2, Reason::Longest)]);
    }

    #[test]
    fn codel_keeps_each_flow_by_itself() {
        let mut queue = queue(10_000, true);
        let mut dropped = Drops::default();
        // Flow 1 overloads the link; flow 2 sends a tenth of it.
        for at in 0..3_000 {
            (0..2).for_each(|_| drop(put(&mut queue, millis(at), 1, 1000)));
            if at % 10 == 0 {
                drop(put(&mut queue, millis(at), 2, 1000));
            }
            assert!(matches!(queue.dequeue(millis(at), &mut dropped), Next::Ready(_)));
        }
        assert!(
            dropped.0.len() > 100
                && dropped
                    .0
                    .iter()
                    .all(|&(flow, why)| (flow, why) == (1, Reason::Delay))
        );
    }

    #[test]
    fn settings_are_refused_beyond_their_limits_and_not_at_them() {
        let ends = [
            ("limit_bytes", "999 B", "1000 B"),
            ("quantum", "255 B", "256 B"),
            ("quantum", "1073741825 B", "1073741824 B"),
        ];
        trials::ends_between("fq_codel", LINK, &ends);
        let number = |key: &str, n| {
            trials::refused("fq_codel", Table::default().with(key, Raw::Integer(n)), LINK).is_some()
        };
        let flows = [0, 1, 1 << 16, (1 << 16) + 1].map(|n| number("flows", n));
        assert_eq!(flows, [true, false, false, true]);
        assert!(number("limit", 0) && !number("limit", 1));
    }

    #[test]
    fn a_line_is_first_in_first_out_and_knows_how_many_stand_in_it() {
        let mut queue = queue(1_000, false);
        queue.make_queues();
        let mut line = Line::EMPTY;
        for (flow, count) in [(5, 1), (3, 2), (9, 3)] {
            line.push(&mut queue.flows, flow);
            assert_eq!((line.first, line.last, line.count), (5, flow, count));
        }
        for (first, last, count) in [(3, 9, 2), (9, 9, 1), (NONE, NONE, 0)] {
            line.pop(&queue.flows);
            assert_eq!((line.first, line.last, line.count), (first, last, count));
        }
    }

    #[test]
    fn its_state_is_shown_and_other_settings_are_adopted_where_flows_keep_their_queues() {
        let mut queue = queue(1_000, false);
        for flow in [1, 1, 2] {
            assert!(put(&mut queue, millis(0), flow, 700).is_empty());
        }
        let shown = |new, old, fattest, limit| {
            [
                ("new", Value::Count(new)),
                ("old", Value::Count(old)),
                ("fattest", Value::Bytes(Bytes::new(fattest))),
                ("became_new", Value::Count(2)),
                ("target", Value::Duration(Duration::from_secs(3))),
                ("interval", Value::Duration(Duration::from_secs(4))),
                ("limit", Value::Count(limit)),
            ]
        };
        assert_eq!(trials::gauges(&queue), shown(2, 0, 1_400, 1_000));
        (0..2).for_each(|_| drop(get(&mut queue, millis(0))));
        assert_eq!(trials::gauges(&queue), shown(2, 0, 700, 1_000));
        drop(get(&mut queue, millis(0)));
        assert!(matches!(
            queue.dequeue(millis(0), &mut Drops::default()),
            Next::Empty
        ));
        assert_eq!(trials::gauges(&queue), shown(0, 0, 0, 1_000));
        let fifo = trials::planned("fifo", Table::default(), LINK);
        assert!(!queue.retune(millis(0), &*fifo.plan));
        let other = |flows| FqPlan {
            flows,
            limit: 7,
            ..queue.plan.clone()
        };
        let (same, fewer) = (other(1_024), other(1_023));
        assert!(!queue.retune(millis(0), &fewer));
        assert!(queue.retune(millis(0), &same));
        assert_eq!(trials::gauges(&queue), shown(0, 0, 0, 7));
    }

    #[test]
    fn both_limits_hold_and_the_longest_queue_gives_half_of_its_bytes() {
        let mut queue = queue(5, false);
        for _ in 0..4 {
            assert!(put(&mut queue, millis(0), 1, 500).is_empty());
        }
        assert!(put(&mut queue, millis(0), 2, 500).is_empty());
        // Of 2,000 bytes: two of the four packets.
        let gone = [(1, Reason::Longest); 2];
        assert_eq!(put(&mut queue, millis(0), 2, 500), gone);
        assert_eq!((queue.store.packets(), queue.store.bytes()), (4, 2_000));
        queue.plan.limit_bytes = 2_500;
        assert!(put(&mut queue, millis(0), 3, 500).is_empty(), "to a byte");
        queue.plan.limit = 100;
        let gone = put(&mut queue, millis(0), 4, 1_001);
        assert_eq!(
            gone,
            [(4, Reason::Longest)],
            "the longest is the one that has just come"
        );
        assert_eq!((queue.store.packets(), queue.store.bytes()), (5, 2_500));
    }
}
