//! `wfq`: weighted fair queueing among flows that are hashed onto a fixed number of queues.
//!
//! What ALTQ calls WFQ (Cho 1999, section 4.1.3): in truth McKenney's stochastic fairness queueing
//! ("Stochastic fairness queueing", INFOCOM 1990). A flow is mapped to one of *n* queues by a hash;
//! the queues share one limit; when it is exceeded, the longest queue (its length divided by its
//! weight) drops its oldest packet; and from time to time the hash changes, so that flows which
//! share a queue do not share it for long.
//!
//! Queues are served by deficit round robin (Shreedhar and Varghese, SIGCOMM 1995), with *Q* the
//! quantum and *w* the weight of a queue: on a visit its deficit counter grows by *Q w*; it sends
//! while its head is not longer than the counter; an empty queue's counter is 0. A queue that
//! becomes active joins at the end, with 0. So in any interval in which two queues stay backlogged,
//! |S₁/w₁ − S₂/w₂| ≤ Q + 2 max, for bytes sent *S*.
//!
//! Not guaranteed: a bound on delay, as true WFQ has it, since flows may share a queue, and a round
//! takes as long as there are active queues.
//!
//! Departures from ALTQ:
//! - A perturbation never reorders a flow. From then on arrivals go to a second set of queues,
//!   which is served once the first set is empty; a perturbation that is due before that waits.
//!   McKenney accepts reordering.
//! - The quantum is a full packet unless set (ALTQ: 512 B), so a visit always sends something.
//! - A queue that becomes active has no credit, also when it is the only one.
//! - The longest queue is found in constant time, so "longest" is exact to 1/32
//!   (`structures/lengths.rs`).

use crate::bounds::{Terms, WorstCase};
use crate::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties};
use crate::packet::{FlowHashes, Packet};
use crate::portion::Portion;
use crate::prefetch::Prefetched;
use crate::random::{Rng, mix};
use crate::settings::{Raw, SettingValue, describe};
use crate::structures::lengths::{ByLength, Place};
use crate::structures::lists::{List, Store};
use crate::units::{Bytes, Duration, Instant};
use crate::{choices, settings};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "wfq",
    summary: "Fair shares among flows, which are hashed onto a fixed number of weighted queues",
    reference: "McKenney, \"Stochastic fairness queueing\", 1990; Shreedhar and Varghese, 1995",
    children: Children::None,
    settings: Settings::SETTINGS,
    class_settings: &[],
    properties: Properties {
        conserves_work: true,
        takes_over: true,
        elsewhere: &["fq", "sfq"],
        ..Properties::NONE
    },
    check,
};

choices! {
    /// What a flow is.
    pub enum Hash {
        /// Everything between two ports of two hosts.
        Full = "full",
        /// Everything from one host.
        Source = "source",
        /// Everything to one host.
        Destination = "destination",
    }
}

/// Weights of queues, by their numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Weights(Vec<(u32, u32, u16)>);

impl Weights {
    /// The weight of each queue; of one that is named twice, the first.
    fn of_each(&self, queues: u32) -> Arc<[u16]> {
        let mut weights = vec![1; queues as usize];
        for (first, last, weight) in self.0.iter().rev() {
            weights[*first as usize..=*last as usize].fill(*weight);
        }
        weights.into()
    }
}

impl SettingValue for Weights {
    const UNIT: &'static str = "queue numbers with their weights from 1 to 1000, such as \"0-15: 4, 16: 2\"";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let wrong = || format!("expected {}; found {}", Self::UNIT, describe(raw));
        let Raw::Text(text) = raw else { return Err(wrong()) };
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let one = |part: &str| {
            let (queues, weight) = part.split_once(':').ok_or_else(wrong)?;
            let (first, last) = queues.split_once('-').unwrap_or((queues, queues));
            let weight = u16::try_from(number(weight)?).map_err(|_| wrong())?;
            let range = (number(first)?, number(last)?, weight);
            let good = range.0 <= range.1 && (1..=1_000).contains(&range.2);
            good.then_some(range).ok_or_else(wrong)
        };
        text.split(',').map(one).collect::<Result<_, _>>().map(Self)
    }
}

settings! {
    /// Settings of `wfq`.
    pub struct Settings {
        /// How many queues flows are hashed onto
        queues: u32 = default "256",
            "too small: many flows share a queue; too large: memory, and a longer round for each",
            "ALTQ";
        /// Bytes queued at most, by all queues together
        limit_bytes: Bytes = default "64 KiB",
            "too small: bursts are dropped and the link idles; too large: queueing delay for nothing",
            "ALTQ; 5 ms at 100 Mbit/s";
        /// What counts as one flow
        hash: Hash = default "full",
            "source or destination: hosts are equal, however many connections they open",
            "the paper's flows; ALTQ's default was destination";
        /// What a queue of weight 1 may send on a visit
        quantum: Bytes = derived "the link's longest packet",
            "too small: visits that send nothing; too large: flows are served in long bursts",
            "Shreedhar and Varghese; ALTQ had 512 B";
        /// How often the hash changes
        perturb: Duration = derived "10 s; never with weights",
            "too small: arrivals often wait for the former queues; too large: flows that share a queue share it long",
            "McKenney; other implementations use 10 s too";
        /// Weights of queues, by their numbers; 1 for the others
        weights: Weights = derived "every queue weighs 1",
            "a flow's queue follows from its hash, so this is for hosts and flows whose queue is known",
            "ALTQ set the weight of a numbered queue";
    }
}

/// Two sets of so many take 90 MB.
const MAX_QUEUES: u32 = 1 << 20;

/// A checked plan: settings with their defaults resolved.
#[derive(Clone, PartialEq, Debug)]
struct WfqPlan {
    queues: u32,
    limit: Bytes,
    hash: Hash,
    quantum: u64,
    /// None if the hash never changes.
    perturb: Option<Duration>,
    /// Of each queue; none if all weigh 1.
    weights: Arc<[u16]>,
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let settings = Settings::read(check.settings, &[], check.problems)?;
    let mut wrong = Vec::new();
    if !(1..=MAX_QUEUES).contains(&settings.queues) {
        wrong.push(("queues", format!("`queues` must be from 1 to {MAX_QUEUES}")));
    }
    if settings.limit_bytes < check.link.mtu {
        let message = format!("`limit_bytes` is less than one full packet ({})", check.link.mtu);
        wrong.push(("limit_bytes", message));
    }
    let quantum = settings.quantum.unwrap_or(check.link.mtu).get();
    if !(64..=1 << 30).contains(&quantum) {
        wrong.push(("quantum", "`quantum` must be from 64 B to 1 GiB".into()));
    }
    if settings
        .perturb
        .is_some_and(|period| period < Duration::from_millis(1))
    {
        wrong.push(("perturb", "`perturb` must be at least 1 ms".into()));
    }
    if let Some(Weights(ranges)) = &settings.weights {
        if settings.perturb.is_some() {
            let message =
                "`perturb` and `weights` exclude each other: a flow's weight would change with its queue";
            wrong.push(("perturb", message.into()));
        }
        if let Some((_, last, _)) = ranges.iter().find(|(_, last, _)| *last >= settings.queues) {
            let message = format!(
                "there is no queue {last}: they are numbered 0 to {}",
                settings.queues - 1
            );
            wrong.push(("weights", message));
        }
    }
    if !wrong.is_empty() {
        check.refuse(wrong);
        return None;
    }
    Some(Arc::new(WfqPlan {
        queues: settings.queues,
        limit: settings.limit_bytes,
        hash: settings.hash,
        quantum,
        perturb: match settings.weights {
            Some(_) => None,
            None => Some(settings.perturb.unwrap_or(Duration::from_secs(10))),
        },
        weights: match &settings.weights {
            Some(weights) => weights.of_each(settings.queues),
            None => Arc::default(),
        },
    }))
}

impl WfqPlan {
    fn weight(&self, queue: u32) -> u16 {
        self.weights.get(queue as usize).copied().unwrap_or(1)
    }
}

impl Plan for WfqPlan {
    fn bounds(&self, _terms: &Terms<'_>) -> Vec<WorstCase> {
        let why = "a packet is delayed by all backlogged flows, and nothing bounds how many there are or which share a queue";
        vec![WorstCase {
            class: None,
            bound: Err(why.into()),
        }]
    }

    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        Box::new(Wfq::new(self.clone(), cx.rng()))
    }
}

/// One queue, in one cache line. It is in the round of its set while `active`, and in the list of
/// its length while it is backlogged.
#[derive(Debug)]
#[repr(align(64))]
struct Bucket {
    packets: List,
    credit: u64,
    place: Place,
    weight: u16,
    active: bool,
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    /// The length by which queues are compared.
    #[inline]
    fn length(&self) -> Option<u64> {
        match (self.packets.is_empty(), self.weight) {
            (true, _) => None,
            (_, 1) => Some(self.packets.bytes()),
            (_, weight) => Some(self.packets.bytes() / u64::from(weight)),
        }
    }
}

/// From so many queues on their memory is read ahead, for so many visits at once.
const MANY: usize = 4_096;
const AHEAD: usize = 16;

/// The active queues of one set, in the order of their visits.
#[derive(Debug)]
struct Round {
    /// Each is in it once, so it never grows.
    order: VecDeque<u32>,
    /// Whether the first has had its quantum.
    visiting: bool,
    packets: u32,
    /// For how many visits the memory has been read.
    fetched: usize,
}

impl Round {
    fn new(queues: u32) -> Self {
        Self {
            order: VecDeque::with_capacity(queues as usize),
            visiting: false,
            packets: 0,
            fetched: 0,
        }
    }
}

#[derive(Debug)]
struct Wfq {
    plan: WfqPlan,
    rng: Rng,
    seed: u64,
    /// Two sets of `plan.queues`.
    buckets: Vec<Bucket>,
    rounds: [Round; 2],
    /// The set to which arrivals go; the other one is served before it.
    current: usize,
    store: Store,
    lengths: ByLength,
    busy: u32,
    next_perturbation: Instant,
    perturbations: u64,
    /// Weights have changed: queues have theirs since they joined their round.
    reweighed: bool,
    /// What another one hands on has not all come: the lengths of its queues are those that they
    /// had there.
    returning: bool,
    /// By what the queues of the set that is served first are chosen.
    former_seed: u64,
    /// Of the packets that another one hands on, so many are of that set, and come first.
    awaited: u32,
    /// Of one from which another has taken over: what it is still to hand on, in this order.
    left: VecDeque<List>,
}

impl Wfq {
    fn new(plan: WfqPlan, mut rng: Rng) -> Self {
        let bucket = |i: u32| Bucket {
            packets: List::EMPTY,
            credit: 0,
            place: Place::NOWHERE,
            weight: plan.weight(i % plan.queues),
            active: false,
        };
        Self {
            // With weights by number, a flow's number must not depend on the seed.
            seed: if plan.perturb.is_some() { rng.bits() } else { 0 },
            buckets: (0..2 * plan.queues).map(bucket).collect(),
            rounds: [Round::new(plan.queues), Round::new(plan.queues)],
            current: 0,
            store: Store::default(),
            lengths: ByLength::new(2 * plan.queues as usize),
            busy: 0,
            next_perturbation: plan
                .perturb
                .map_or(Instant::NEVER, |period| Instant::START + period),
            perturbations: 0,
            reweighed: false,
            returning: false,
            former_seed: 0,
            awaited: 0,
            left: VecDeque::new(),
            plan,
            rng,
        }
    }

    /// Whether flows have the same queues in this plan: others would move those that are
    /// backlogged.
    fn is_laid_out_as(&self, plan: &WfqPlan) -> bool {
        let layout = |plan: &WfqPlan| (plan.queues, plan.hash, plan.perturb.is_some());
        layout(plan) == layout(&self.plan)
    }

    /// The queue of a flow, within the set of arrivals.
    fn place(&self, flow: FlowHashes) -> u32 {
        self.place_by(self.seed, flow)
    }

    fn place_by(&self, seed: u64, flow: FlowHashes) -> u32 {
        let hash = match self.plan.hash {
            Hash::Full => flow.full,
            Hash::Source => flow.source,
            Hash::Destination => flow.destination,
        };
        let mixed = mix(seed ^ u64::from(hash)) >> 32;
        ((mixed * u64::from(self.plan.queues)) >> 32) as u32
    }

    /// Changes the hash, which is due, when the set that is not in use has drained.
    #[cold]
    #[inline(never)]
    fn perturb(&mut self, now: Instant) {
        if self.rounds[1 - self.current].packets > 0 {
            return;
        }
        let Some(period) = self.plan.perturb else { return };
        if self.rounds[self.current].packets > 0 {
            self.current = 1 - self.current;
        }
        self.former_seed = self.seed;
        self.seed = self.rng.bits();
        self.next_perturbation = now + period;
        self.perturbations += 1;
    }

    /// The same of a packet that another one hands on, or of the first that comes after those.
    #[cold]
    #[inline(never)]
    fn enqueue_returning(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        if !packet.handed_on {
            (self.awaited, self.returning) = (0, false);
            return self.enqueue(now, packet, sink);
        }
        let queue = self.place_again(packet.flow);
        self.push(queue, packet);
        if !self.returning || self.buckets[queue as usize].place.is_nowhere() {
            self.note_length(queue);
        }
        self.keep_limit(queue, sink)
    }

    /// The queue of a packet that another one hands on.
    fn place_again(&mut self, flow: FlowHashes) -> u32 {
        let (set, seed) = match self.awaited.checked_sub(1) {
            Some(rest) => {
                self.awaited = rest;
                (1 - self.current, self.former_seed)
            }
            None => (self.current, self.seed),
        };
        set as u32 * self.plan.queues + self.place_by(seed, flow)
    }

    fn set_of(&self, queue: u32) -> usize {
        usize::from(queue >= self.plan.queues)
    }

    #[inline(always)]
    fn push(&mut self, queue: u32, packet: Packet) {
        let set = self.set_of(queue);
        let bucket = &mut self.buckets[queue as usize];
        if bucket.packets.is_empty() {
            self.busy += 1;
        }
        self.store.push(&mut bucket.packets, packet);
        self.rounds[set].packets += 1;
        if !bucket.active {
            self.join(set, queue);
        }
    }

    /// A queue's length has changed.
    #[inline]
    fn note_length(&mut self, queue: u32) {
        let length = self.buckets[queue as usize].length();
        self.lengths
            .set(&mut self.buckets, |bucket| &mut bucket.place, queue, length);
    }

    /// Takes the oldest packet of a queue.
    #[inline(never)]
    fn pop(&mut self, queue: u32) -> Option<Packet> {
        let oldest = self.store.oldest(&self.buckets[queue as usize].packets)?;
        let packet = Packet::leave(oldest);
        self.remove_oldest(self.set_of(queue), queue);
        Some(packet)
    }

    /// Removes the oldest packet of a queue of this set; whether it was the last.
    #[inline(always)]
    fn remove_oldest(&mut self, set: usize, queue: u32) -> bool {
        let bucket = &mut self.buckets[queue as usize];
        self.store.remove_oldest(&mut bucket.packets);
        self.rounds[set].packets -= 1;
        let last = bucket.packets.is_empty();
        if last {
            bucket.credit = 0;
            self.busy -= 1;
        }
        self.note_length(queue);
        last
    }

    /// Puts a queue at the end of its round.
    fn join(&mut self, set: usize, queue: u32) {
        let bucket = &mut self.buckets[queue as usize];
        bucket.active = true;
        if self.reweighed {
            bucket.weight = self.plan.weight(queue % self.plan.queues);
        }
        self.rounds[set].order.push_back(queue);
    }

    /// Takes the first queue out of its round.
    fn leave(&mut self, set: usize) {
        let round = &mut self.rounds[set];
        if let Some(queue) = round.order.pop_front() {
            self.buckets[queue as usize].active = false;
        }
        round.visiting = false;
        round.fetched = round.fetched.saturating_sub(1);
    }

    /// The same of one that was emptied outside its turns, or whose packets have not come back.
    #[cold]
    #[inline(never)]
    fn leave_emptied(&mut self, set: usize, queue: u32) {
        self.buckets[queue as usize].credit = 0;
        self.leave(set);
    }

    #[inline]
    fn prefetch_queue(&self, queue: u32) -> Prefetched {
        Prefetched::word(self.buckets[queue as usize].packets.bytes())
    }

    /// Reads the queues beside it in the list of its length, once it is in the cache itself.
    #[inline]
    fn prefetch_neighbours(&self, queue: u32) -> Prefetched {
        let beside = self.buckets[queue as usize].place.neighbours();
        let read = |queue: u32| self.buckets.get(queue as usize).map_or(0, |bucket| bucket.credit);
        Prefetched::word(read(beside[0]) ^ read(beside[1]))
    }

    /// Reads what the next visits need: each pass, what the one before has located.
    #[cold]
    #[inline(never)]
    fn fetch(&mut self, set: usize) {
        let next = || self.rounds[set].order.iter().take(AHEAD).copied();
        let read = next().fold(Prefetched::NOTHING, |read, queue| {
            read.and(self.prefetch_queue(queue))
        });
        let read = next().fold(read, |read, queue| {
            let oldest = self.store.oldest(&self.buckets[queue as usize].packets);
            let oldest = Prefetched::word(oldest.map_or(0, |packet| packet.len.get()));
            read.and(oldest).and(self.prefetch_neighbours(queue))
        });
        read.done();
        self.rounds[set].fetched = AHEAD;
    }

    /// The next packet of a backlogged set. A visit that sends nothing happens for a packet longer
    /// than the quantum, in proportion to its length, and for a queue that overflow emptied, once.
    #[inline]
    fn serve(&mut self, set: usize) -> Next<Packet> {
        loop {
            let round = &self.rounds[set];
            let Some(&queue) = round.order.front() else {
                return Next::Empty;
            };
            if round.fetched == 0 && self.buckets.len() >= 2 * MANY {
                self.fetch(set);
            }
            let bucket = &mut self.buckets[queue as usize];
            let Some(oldest) = self.store.oldest(&bucket.packets) else {
                self.leave_emptied(set, queue);
                continue;
            };
            if !std::mem::replace(&mut self.rounds[set].visiting, true) {
                bucket.credit += self.plan.quantum * u64::from(bucket.weight);
            }
            let len = oldest.len.get();
            if len <= bucket.credit {
                bucket.credit -= len;
                let next = Next::Ready(Packet::leave(oldest));
                if self.remove_oldest(set, queue) {
                    self.leave(set);
                }
                return next;
            }
            self.leave(set);
            self.join(set, queue);
        }
    }

    /// Makes room, if what has just arrived in this queue is too much.
    #[inline(always)]
    fn keep_limit(&mut self, queue: u32, sink: &mut dyn Sink) -> Verdict {
        match self.store.bytes() > self.plan.limit.get() {
            true => self.make_room(queue, sink),
            false => Verdict::Queued,
        }
    }

    /// Drops packets of the longest queues; the last of this one has just arrived.
    #[inline(never)]
    fn make_room(&mut self, queue: u32, sink: &mut dyn Sink) -> Verdict {
        let mut verdict = Verdict::Queued;
        while self.store.bytes() > self.plan.limit.get() {
            let Some(longest) = self.lengths.longest() else {
                break;
            };
            // Its own packet is the last in its queue.
            if longest == queue && self.buckets[queue as usize].packets.is_single() {
                verdict = Verdict::Dropped(Reason::Longest);
            }
            match self.pop(longest) {
                Some(oldest) => sink.drop(oldest, Reason::Longest),
                // What it had elsewhere has not come.
                None => self.note_length(longest),
            }
        }
        verdict
    }
}

impl Discipline for Wfq {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        if packet.len > self.plan.limit {
            sink.drop(packet, Reason::Full);
            return Verdict::Dropped(Reason::Full);
        }
        if packet.handed_on || self.returning {
            return self.enqueue_returning(now, packet, sink);
        }
        if now >= self.next_perturbation {
            self.perturb(now);
        }
        let queue = self.current as u32 * self.plan.queues + self.place(packet.flow);
        self.push(queue, packet);
        self.note_length(queue);
        self.keep_limit(queue, sink)
    }

    fn dequeue(&mut self, _now: Instant, _sink: &mut dyn Sink) -> Next<Packet> {
        let former = 1 - self.current;
        let set = if self.rounds[former].packets > 0 {
            former
        } else {
            self.current
        };
        if self.rounds[set].packets == 0 {
            return Next::Empty;
        }
        self.serve(set)
    }

    fn prefetch_arrivals(&self, packets: &[Packet]) -> Prefetched {
        if self.buckets.len() < 2 * MANY {
            return Prefetched::NOTHING;
        }
        // A new hash in between only makes this useless.
        let first = self.current as u32 * self.plan.queues;
        let queues = || packets.iter().map(|packet| first + self.place(packet.flow));
        let read = queues().fold(Prefetched::NOTHING, |read, queue| {
            read.and(self.prefetch_queue(queue))
        });
        queues().fold(read, |read, queue| {
            let end = self.store.prefetch_end(&self.buckets[queue as usize].packets);
            read.and(end).and(self.prefetch_neighbours(queue))
        })
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        if !self.store.flush(&mut self.left, portion, sink) {
            return;
        }
        for set in [1 - self.current, self.current] {
            while let Some(&queue) = self.rounds[set].order.front() {
                if !portion.flush(sink, || self.pop(queue)) {
                    return;
                }
                self.leave(set);
                portion.looked();
            }
        }
    }

    fn take_over(&mut self, now: Instant, former: &mut dyn Discipline) -> u32 {
        let Some(former) = former
            .of_type::<Self>()
            .filter(|former| former.is_laid_out_as(&self.plan))
        else {
            return 0;
        };
        let own = std::mem::replace(&mut self.plan, former.plan.clone());
        std::mem::swap(&mut self.rng, &mut former.rng);
        std::mem::swap(&mut self.buckets, &mut former.buckets);
        std::mem::swap(&mut self.rounds, &mut former.rounds);
        std::mem::swap(&mut self.lengths, &mut former.lengths);
        (self.seed, self.former_seed, self.current) = (former.seed, former.former_seed, former.current);
        (self.next_perturbation, self.perturbations) = (former.next_perturbation, former.perturbations);
        self.reweighed = former.reweighed;
        // It may be in the middle of such a change itself.
        let first = self.rounds[1 - self.current].packets;
        self.awaited = former.awaited + first;
        self.returning = true;
        let mut looked = 0;
        for set in [1 - self.current, self.current] {
            self.rounds[set].packets = 0;
            for at in 0..self.rounds[set].order.len() {
                let queue = self.rounds[set].order[at];
                let packets = &mut self.buckets[queue as usize].packets;
                former.left.push_back(std::mem::replace(packets, List::EMPTY));
                looked += 1;
            }
        }
        let _ = self.retune(now, &own);
        looked
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        out.gauge("active", Value::Count(u64::from(self.busy)));
        let longest = self
            .lengths
            .longest()
            .map_or(0, |queue| self.buckets[queue as usize].packets.bytes());
        out.gauge("longest", Value::Bytes(Bytes::new(longest)));
        out.gauge("perturbations", Value::Count(self.perturbations));
        out.gauge("limit", Value::Bytes(self.plan.limit));
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let Some(plan) = plan.downcast_ref::<WfqPlan>() else {
            return false;
        };
        if !self.is_laid_out_as(plan) {
            return false;
        }
        if plan.perturb != self.plan.perturb {
            self.next_perturbation = now + plan.perturb.unwrap_or(Duration::ZERO);
        }
        self.reweighed |= plan.weights != self.plan.weights;
        self.plan = plan.clone();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use crate::packet::ClassId;
    use crate::random::Seed;
    use crate::settings::Table;
    use crate::sinks::Drops;
    use crate::tree::{DisciplineSpec, Registry};
    use crate::trials;
    use crate::units::Bandwidth;
    use std::collections::BTreeSet;

    const LINK: Link = Link::new(Bandwidth::mbit(100), Bytes::new(1_514));

    fn plan(queues: u32, limit: u64) -> WfqPlan {
        WfqPlan {
            queues,
            limit: Bytes::new(limit),
            hash: Hash::Full,
            quantum: 1_514,
            perturb: Some(Duration::from_secs(10)),
            weights: Arc::default(),
        }
    }

    fn weights(text: &str, queues: u32) -> Arc<[u16]> {
        let weights = Weights::from_raw(&Raw::Text(text.into())).expect("good weights");
        weights.of_each(queues)
    }

    fn wfq(plan: WfqPlan) -> Wfq {
        Wfq::new(plan, Seed(3).stream())
    }

    fn packet(flow: u32, len: u64) -> Packet {
        let flow = FlowHashes {
            source: flow,
            destination: flow,
            full: flow,
        };
        Packet {
            flow,
            ..Packet::new(Bytes::new(len), Instant::START, ClassId(0))
        }
    }

    fn offer(queue: &mut Wfq, now: Instant, flow: u32, len: u64) -> Verdict {
        queue.enqueue(now, packet(flow, len), &mut Drops::default())
    }

    fn next(queue: &mut Wfq) -> Option<Packet> {
        match queue.dequeue(Instant::START, &mut Drops::default()) {
            Next::Ready(packet) => Some(packet),
            _ => None,
        }
    }

    /// Flows of which no two share a queue, one for each queue number from 0.
    fn flow_of_each_queue(queue: &Wfq) -> Vec<u32> {
        let flow = |number: u32| {
            let hashed = |flow: u32| FlowHashes {
                full: flow,
                ..FlowHashes::default()
            };
            (0..)
                .find(|&flow| queue.place(hashed(flow)) == number)
                .expect("some flow")
        };
        (0..queue.plan.queues).map(flow).collect()
    }

    /// Keeps these flows backlogged with packets of random length up to each one's longest; returns
    /// the largest difference of bytes sent, divided by weight, at any time.
    fn unfairness(queue: &mut Wfq, flows: &[(u32, u64, u64)], packets: usize) -> u64 {
        let mut rng = Seed(4).stream();
        let mut sent = vec![0; flows.len()];
        for &(flow, longest, _) in flows {
            (0..8).for_each(|_| assert_eq!(offer(queue, Instant::START, flow, longest), Verdict::Queued));
        }
        let mut worst = 0;
        for _ in 0..packets {
            let packet = next(queue).expect("a backlog");
            let i = flows
                .iter()
                .position(|f| f.0 == packet.flow.full)
                .expect("a known flow");
            let (flow, longest, weight) = flows[i];
            sent[i] += packet.len.get() * 1_000 / weight;
            let len = longest / 2 + rng.below(longest / 2) + 1;
            assert_eq!(offer(queue, Instant::START, flow, len), Verdict::Queued);
            let (most, least) = (
                sent.iter().max().expect("flows"),
                sent.iter().min().expect("flows"),
            );
            worst = worst.max((most - least) / 1_000);
        }
        worst
    }

    #[test]
    fn flows_get_equal_bytes_whatever_their_packet_sizes() {
        let mut queue = wfq(plan(5, 1 << 20));
        let lens = [64, 300, 576, 1_000, 1_514];
        let flows: Vec<_> = flow_of_each_queue(&queue)
            .into_iter()
            .zip(lens)
            .map(|(f, len)| (f, len, 1))
            .collect();
        let worst = unfairness(&mut queue, &flows, 50_000);
        assert!(worst <= 1_514 + 2 * 1_514, "{worst} bytes apart");
    }

    #[test]
    fn queues_get_bytes_by_weight() {
        let mut queue = wfq(WfqPlan {
            weights: weights("1: 2, 2-3: 7", 4),
            perturb: None,
            ..plan(4, 1 << 20)
        });
        let flows: Vec<_> = flow_of_each_queue(&queue)
            .into_iter()
            .zip([1, 2, 7, 7])
            .map(|(f, w)| (f, 1_500, w))
            .collect();
        let worst = unfairness(&mut queue, &flows, 50_000);
        assert!(worst <= 1_514 + 2 * 1_514, "{worst} bytes apart");
    }

    #[test]
    fn of_a_queue_that_is_named_twice_the_first_weight_counts() {
        assert_eq!(*weights("1-2: 5, 0-1: 3", 4), [3, 5, 5, 1]);
    }

    #[test]
    fn other_weights_are_the_next_visits_without_a_look_at_all_queues() {
        let mut queue = wfq(WfqPlan {
            weights: weights("0: 9", 4),
            perturb: None,
            ..plan(4, 1 << 20)
        });
        let all = flow_of_each_queue(&queue);
        let by = |weights: [u64; 3]| -> Vec<_> {
            all.iter()
                .zip(weights)
                .map(|(&flow, weight)| (flow, 1_500, weight))
                .collect()
        };
        // The fourth is idle, before and after.
        let _ = unfairness(&mut queue, &by([9, 1, 1]), 10_000);
        for (text, now) in [("0: 1, 1: 4, 2: 2", [1, 4, 2]), ("3: 7", [1, 1, 1])] {
            let other = WfqPlan {
                weights: weights(text, 4),
                ..queue.plan.clone()
            };
            assert!(queue.retune(Instant::START, &other));
            // All have their new weights after the visits that are due.
            let settled = (0..40).all(|_| {
                let packet = next(&mut queue).expect("a backlog");
                offer(&mut queue, Instant::START, packet.flow.full, 1_500) == Verdict::Queued
            });
            assert!(settled);
            let worst = unfairness(&mut queue, &by(now), 20_000);
            assert!(worst <= 1_514 + 2 * 1_514, "{text}: {worst} bytes apart");
        }
    }

    #[test]
    fn a_packet_longer_than_the_quantum_waits_its_rounds() {
        let mut queue = wfq(plan(2, 1 << 20));
        let flows: Vec<_> = flow_of_each_queue(&queue)
            .into_iter()
            .zip([60_000, 1_000])
            .map(|(f, l)| (f, l, 1))
            .collect();
        let worst = unfairness(&mut queue, &flows, 20_000);
        assert!(worst <= 1_514 + 2 * 60_000, "{worst} bytes apart");
    }

    #[test]
    fn an_aggressive_flow_drops_its_own_packets_only() {
        let mut queue = wfq(plan(16, 65_536));
        let flows = flow_of_each_queue(&queue);
        let mut dropped = Drops::default();
        for round in 0..200 {
            for &flow in &flows[1..] {
                if round % 5 == 0 {
                    let _ = queue.enqueue(Instant::START, packet(flow, 700), &mut dropped);
                }
            }
            for _ in 0..40 {
                let _ = queue.enqueue(Instant::START, packet(flows[0], 1_000), &mut dropped);
            }
            (0..10).for_each(|_| assert!(next(&mut queue).is_some()));
        }
        assert!(dropped.0.len() > 5_000);
        assert!(
            dropped.0.iter().all(|&l| l == (flows[0], Reason::Longest)),
            "others lost packets"
        );
    }

    #[test]
    fn overflow_takes_the_oldest_of_the_longest_by_weight() {
        let mut queue = wfq(WfqPlan {
            weights: weights("0: 10", 2),
            perturb: None,
            ..plan(2, 10_000)
        });
        let flows = flow_of_each_queue(&queue);
        let mut dropped = Drops::default();
        for i in 0..8 {
            let _ = queue.enqueue(Instant::START, packet(flows[0], 1_000), &mut dropped);
            assert!(dropped.0.is_empty() || i > 7);
        }
        for _ in 0..3 {
            assert_eq!(
                queue.enqueue(Instant::START, packet(flows[1], 1_000), &mut dropped),
                Verdict::Queued
            );
        }
        // 8,000 at weight 10 is shorter than 3,000 at weight 1.
        assert_eq!(dropped.0, vec![(flows[1], Reason::Longest)]);
    }

    #[test]
    fn the_longest_is_longest_to_one_part_in_32() {
        let mut queue = wfq(plan(64, 1 << 30));
        let mut rng = Seed(5).stream();
        for _ in 0..20_000 {
            if rng.below(100) < 52 {
                let _ = offer(
                    &mut queue,
                    Instant::START,
                    rng.below(500) as u32,
                    40 + rng.below(9_000),
                );
            } else {
                let _ = next(&mut queue);
            }
            let longest = queue
                .buckets
                .iter()
                .map(|bucket| bucket.packets.bytes())
                .max()
                .expect("queues");
            let found = queue
                .lengths
                .longest()
                .map_or(0, |found| queue.buckets[found as usize].packets.bytes());
            assert!(found + found / 32 >= longest, "{found} of {longest}");
        }
    }

    #[test]
    fn flows_that_share_a_queue_part_at_a_perturbation() {
        let mut queue = wfq(plan(64, 1 << 20));
        let place = |queue: &Wfq, flow: u32| queue.place(packet(flow, 1).flow);
        let other = (1..)
            .find(|&flow| place(&queue, flow) == place(&queue, 0))
            .expect("a collision");
        let mut parted = false;
        for period in 1..=4 {
            let now = Instant::START + Duration::from_secs(10 * period);
            let _ = offer(&mut queue, now, 0, 100);
            parted |= place(&queue, 0) != place(&queue, other);
            let _ = next(&mut queue);
        }
        assert_eq!(queue.perturbations, 4);
        assert!(parted);
    }

    #[test]
    fn a_perturbation_does_not_reorder_a_flow() {
        let mut queue = wfq(plan(16, 1 << 20));
        let (mut offered, mut sent) = ([0; 8], [0; 8]);
        let mut rng = Seed(6).stream();
        for step in 0..40_000 {
            // Twenty perturbations become due with a backlog.
            let now = Instant::from_nanos(step * 5_000_000);
            let flow = rng.below(8) as usize;
            let mut numbered = packet(flow as u32, 100 + rng.below(1_400));
            numbered.buffer = crate::packet::Buffer(offered[flow]);
            offered[flow] += 1;
            assert_eq!(
                queue.enqueue(now, numbered, &mut Drops::default()),
                Verdict::Queued
            );
            while queue.store.bytes() > 20_000 {
                let packet = next(&mut queue).expect("a backlog");
                let flow = packet.flow.full as usize;
                assert_eq!(packet.buffer.0, sent[flow], "flow {flow} was reordered");
                sent[flow] += 1;
            }
        }
        assert_eq!(queue.perturbations, 19);
    }

    #[test]
    fn a_queue_that_becomes_active_waits_behind_those_that_wait() {
        let mut queue = wfq(plan(3, 1 << 20));
        let flows = flow_of_each_queue(&queue);
        for &flow in &flows[..2] {
            (0..3).for_each(|_| assert_eq!(offer(&mut queue, Instant::START, flow, 1_514), Verdict::Queued));
        }
        assert_eq!(next(&mut queue).expect("a backlog").flow.full, flows[0]);
        let _ = offer(&mut queue, Instant::START, flows[2], 64);
        let order: Vec<u32> = std::iter::from_fn(|| next(&mut queue))
            .map(|p| p.flow.full)
            .collect();
        assert_eq!(order, [1, 2, 0, 1, 0, 1].map(|i: usize| flows[i]));
    }

    #[test]
    fn slots_are_used_again() {
        let mut queue = wfq(plan(16, 65_536));
        for i in 0..100_000 {
            let _ = offer(&mut queue, Instant::START, i % 40, 1_000);
            if i % 3 == 0 {
                let _ = next(&mut queue);
            }
        }
        assert!(
            queue.store.slots() <= 67,
            "{} slots for 65 packets",
            queue.store.slots()
        );
    }

    #[test]
    fn settings_that_cannot_work_are_refused_with_a_reason() {
        let cases = [
            (
                Table::default().with("queues", Raw::Integer(0)),
                "`queues` must be",
            ),
            (
                Table::default().text("limit_bytes", "1 kB"),
                "less than one full packet",
            ),
            (Table::default().text("quantum", "1 B"), "`quantum` must be"),
            (
                Table::default().text("weights", "3"),
                "such as \"0-15: 4, 16: 2\"",
            ),
            (Table::default().text("weights", "3: 0"), "from 1 to 1000"),
            (Table::default().text("weights", "256: 2"), "no queue 256"),
            (
                Table::default().text("weights", "1: 2").text("perturb", "1 s"),
                "exclude each other",
            ),
        ];
        for (settings, message) in cases {
            let spec = DisciplineSpec {
                settings,
                ..DisciplineSpec::new("wfq")
            };
            let problems = spec.check(&Registry::builtin(), LINK).expect_err("cannot work");
            assert!(problems[0].message.contains(message), "{problems:?}");
        }
    }

    #[test]
    fn settings_are_refused_beyond_their_limits_and_not_at_them() {
        let ends = [
            ("limit_bytes", "1513 B", "1514 B"),
            ("quantum", "63 B", "64 B"),
            ("quantum", "1073741825 B", "1073741824 B"),
            ("perturb", "999.999 us", "1 ms"),
        ];
        trials::ends_between("wfq", LINK, &ends);
        let queues = |n| trials::refused("wfq", Table::default().with("queues", Raw::Integer(n)), LINK);
        let found = [0, 1, 1 << 20, (1 << 20) + 1].map(|n| queues(n).is_some());
        assert_eq!(found, [true, false, false, true]);
        let weights = |text| {
            Table::default()
                .with("queues", Raw::Integer(8))
                .text("weights", text)
        };
        assert_eq!(trials::refused("wfq", weights("7: 2"), LINK), None);
        let wrong = trials::refused("wfq", weights("7-8: 2"), LINK);
        assert!(wrong.is_some_and(|wrong| wrong == "there is no queue 8: they are numbered 0 to 7"));
        let both = trials::refused("wfq", weights("7: 2").text("perturb", "1 s"), LINK);
        assert!(both.is_some_and(|both| both.contains("exclude each other")));
    }

    /// Of four queues, the first of weight 4.
    fn weighted(limit: u64) -> (Wfq, Vec<u32>) {
        let queue = wfq(WfqPlan {
            weights: weights("0: 4", 4),
            perturb: None,
            ..plan(4, limit)
        });
        let flows = flow_of_each_queue(&queue);
        (queue, flows)
    }

    #[test]
    fn queues_are_compared_by_bytes_for_each_weight() {
        let (mut queue, flows) = weighted(1 << 20);
        let put = |queue: &mut Wfq, flow: usize, len| {
            assert_eq!(offer(queue, Instant::START, flows[flow], len), Verdict::Queued);
        };
        put(&mut queue, 0, 1_003);
        put(&mut queue, 0, 1_000);
        put(&mut queue, 1, 501);
        let lengths: Vec<_> = queue.buckets.iter().take(3).map(Bucket::length).collect();
        assert_eq!(lengths, [Some(500), Some(501), None]);
        assert_eq!(queue.lengths.longest(), Some(1));
        assert_eq!(
            trials::gauge(&queue, "longest"),
            Some(Value::Bytes(Bytes::new(501)))
        );
    }

    #[test]
    fn packets_are_counted_by_set_and_queues_that_have_some() {
        let (mut queue, flows) = weighted(1 << 20);
        for flow in [0, 0, 1] {
            let _ = offer(&mut queue, Instant::START, flows[flow], 1_000);
        }
        assert_eq!(
            (queue.rounds[0].packets, queue.rounds[1].packets, queue.busy),
            (3, 0, 2)
        );
        for (packets, busy) in [(2, 2), (1, 1), (0, 0)] {
            assert!(next(&mut queue).is_some());
            assert_eq!((queue.rounds[0].packets, queue.busy), (packets, busy));
        }
        assert!(next(&mut queue).is_none() && queue.rounds[0].order.is_empty());
    }

    #[test]
    fn its_state_is_shown() {
        let (mut queue, flows) = weighted(9_000);
        let _ = offer(&mut queue, Instant::START, flows[2], 700);
        let _ = offer(&mut queue, Instant::START, flows[1], 300);
        queue.perturbations = 5;
        let bytes = |n| Value::Bytes(Bytes::new(n));
        assert_eq!(
            trials::gauges(&queue),
            [
                ("active", Value::Count(2)),
                ("longest", bytes(700)),
                ("perturbations", Value::Count(5)),
                ("limit", bytes(9_000)),
            ]
        );
    }

    #[test]
    fn a_packet_of_the_limit_fits_and_a_longer_one_does_not() {
        let (mut queue, flows) = weighted(2_000);
        assert_eq!(
            offer(&mut queue, Instant::START, flows[1], 2_001),
            Verdict::Dropped(Reason::Full)
        );
        assert_eq!(
            offer(&mut queue, Instant::START, flows[1], 2_000),
            Verdict::Queued
        );
        // The longest queue gives way: this one's, whose only packet it is.
        let one_more = offer(&mut queue, Instant::START, flows[2], 1);
        assert_eq!((one_more, queue.store.bytes()), (Verdict::Queued, 1));
        assert_eq!(
            offer(&mut queue, Instant::START, flows[1], 2_000),
            Verdict::Dropped(Reason::Longest)
        );
    }

    #[test]
    fn other_settings_are_adopted_where_flows_keep_their_queues() {
        let mut queue = wfq(plan(4, 9_000));
        let later = Instant::from_nanos(7);
        assert!(!queue.retune(later, &*trials::planned("fifo", Table::default(), LINK).plan));
        let other = |change: fn(&mut WfqPlan)| {
            let mut plan = plan(4, 9_000);
            change(&mut plan);
            plan
        };
        assert!(!queue.retune(later, &other(|plan| plan.queues = 5)));
        assert!(!queue.retune(later, &other(|plan| plan.hash = Hash::Source)));
        assert!(!queue.retune(later, &other(|plan| plan.perturb = None)));
        let period = Duration::from_secs(10);
        assert!(queue.retune(later, &other(|plan| plan.limit = Bytes::new(5_000))));
        let found = (queue.next_perturbation, queue.plan.limit.get(), queue.reweighed);
        assert_eq!(found, (Instant::START + period, 5_000, false));
        assert!(queue.retune(later, &other(|plan| plan.perturb = Some(Duration::from_secs(3)))));
        assert_eq!(queue.next_perturbation, later + Duration::from_secs(3));
        assert!(queue.retune(later, &other(|plan| plan.weights = [2, 1, 1, 1].into())));
        assert!(queue.reweighed);
        assert!(queue.retune(later, &other(|plan| plan.weights = [2, 1, 1, 1].into())) && queue.reweighed);
    }

    #[test]
    fn one_that_takes_over_looks_at_the_active_queues_alone() {
        let (mut former, flows) = weighted(9_000);
        for flow in [0, 0, 1, 2] {
            let _ = offer(&mut former, Instant::START, flows[flow], 100);
        }
        former.perturbations = 5;
        let (mut queue, _) = weighted(8_000);
        assert_eq!(queue.take_over(Instant::START, &mut former), 3);
        assert_eq!((queue.perturbations, queue.plan.limit.get()), (5, 8_000));
        let mut other = wfq(plan(4, 9_000));
        assert_eq!(
            other.take_over(Instant::START, &mut former),
            0,
            "its flows have other queues"
        );
    }

    #[test]
    fn memory_is_read_ahead_for_sixteen_visits_of_very_many_queues_alone() {
        for (queues, ahead) in [(MANY as u32 - 1, 0), (MANY as u32, AHEAD)] {
            let mut queue = wfq(plan(queues, 1 << 20));
            let mut places = BTreeSet::new();
            let mut flows = (0..).filter(|&flow| places.insert(queue.place(packet(flow, 1).flow)));
            let flows: Vec<u32> = flows.by_ref().take(20).collect();
            for &flow in &flows {
                assert_eq!(offer(&mut queue, Instant::START, flow, 100), Verdict::Queued);
            }
            for visit in 1..=20 {
                assert!(next(&mut queue).is_some());
                let left = (2 * ahead).saturating_sub(visit) % AHEAD;
                assert_eq!(
                    queue.rounds[0].fetched, left,
                    "after {visit} visits of {queues} queues"
                );
            }
        }
    }

    #[test]
    fn what_arrives_is_looked_up_in_its_own_set_of_very_many_queues() {
        let read = |queues: u32, current| {
            let mut queue = wfq(plan(queues, 1 << 20));
            queue.current = current;
            assert_eq!(offer(&mut queue, Instant::START, 7, 100), Verdict::Queued);
            let read = |flow| format!("{:?}", queue.prefetch_arrivals(&[packet(flow, 100)]));
            let elsewhere =
                (8..).find(|&flow| queue.place(packet(flow, 1).flow) != queue.place(packet(7, 1).flow));
            let (there, elsewhere) = (read(7), read(elsewhere.expect("another queue")));
            (there == format!("{:?}", Prefetched::NOTHING), there == elsewhere)
        };
        assert_eq!(read(MANY as u32 - 1, 1), (true, true));
        assert_eq!([read(MANY as u32, 0), read(MANY as u32, 1)], [(false, false); 2]);
    }
}
