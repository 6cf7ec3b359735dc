//! `wrr`: weighted round robin by packets: in each cycle a number of packets of each class,
//! whatever their length.
//!
//! Follows Maeshima, Ito, Ishikura and Asami, "RSVP bandwidth guarantee by WRR on high-speed
//! networks" (KDD, in Japanese), section 2: a queue for each reservation and one for all else; at
//! each poll it takes packets from the queues in proportion to the reserved ratio; empty queues are
//! skipped, so that what they leave goes to the others; the link's speed is a parameter. With *N*
//! the packets of a cycle, *r* a class's rate and *C* the link's: *w* = *N r / C*, rounded. The
//! paper does not state the interval, the cycle, or the order within a cycle, so they are settings
//! here.
//!
//! `mode = "event"`: a packet whenever the host dequeues. `"poll"`: packets leave only at polls, at
//! multiples of `interval`: up to a cycle of them, and only those that had arrived before; so the
//! link can idle with a backlog. A caller that is late polls late; polls that no caller came for
//! are skipped.
//!
//! Each class has *w* slots in a cycle: side by side (`order = "burst"`), or spread evenly, the
//! *k*-th of them at (2*k* + 1) / 2*w* of it (`"interleaved"`). A heap holds each class's next
//! slot, so that skipping the slots of empty queues costs nothing. A class that becomes backlogged
//! takes up its slots from where the cycle is; missed slots are gone.
//!
//! **Lengths are ignored on purpose.** A class's share of the bytes is *w L* / Σ *w L*, so shares
//! are right only where packets are alike; a test shows how wrong they are otherwise, beside `drr`,
//! which counts bytes.

use crate::bounds::{Terms, WorstCase};
use crate::discipline::{
    Build, BuiltQueue, ChangedClass, DetachedQueue, Discipline, Next, Plan, Sink, Verdict,
};
use crate::disciplines::drr;
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties, QueuePlan};
use crate::link::Link;
use crate::packet::{ClassId, Packet};
use crate::portion::Portion;
use crate::reservation::{RequestedShare, ReservableTree, ReservedClass, Reserves};
use crate::settings::{Problem, Raw, Table};
use crate::sharing::leaves::{Leaves, LeavesPlan};
use crate::sharing::reserved_classes::{self, divide, leaf, refuse_absolute};
use crate::spec::DisciplineSpec;
use crate::structures::heaps::Heaps;
use crate::structures::shared_list::SharedList;
use crate::units::{Bandwidth, Bytes, Duration, Instant, Rate};
use crate::{choices, settings};
use std::any::Any;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "wrr",
    summary: "Weighted round robin by packets, event driven or polled, as in packet-counting RSVP routers",
    reference: "Maeshima, Ito, Ishikura and Asami, \"RSVP bandwidth guarantee by WRR on high-speed networks\"",
    children: Children::Classes { nested: false },
    settings: Settings::SETTINGS,
    class_settings: ClassSettings::SETTINGS,
    properties: Properties {
        vacancies: true,
        keeps_turns: true,
        reserves: Some(&ByPackets),
        ..Properties::NONE
    },
    check,
};

choices! {
    /// When packets leave.
    pub enum WrrMode {
        /// Whenever the host dequeues.
        Event = "event",
        /// At polls.
        Poll = "poll",
    }
}

choices! {
    /// Where a class's packets stand in a cycle.
    pub enum Order {
        /// Side by side.
        Burst = "burst",
        /// Spread evenly.
        Interleaved = "interleaved",
    }
}

settings! {
    /// Settings of `wrr`.
    pub struct Settings {
        /// When packets leave
        mode: WrrMode = default "event",
            "poll: the link idles between polls, as in the paper",
            "no reason to wait";
        /// Where a class's packets stand in a cycle
        order: Order = default "burst",
            "burst: more jitter; interleaved: a little more work for each packet",
            "the paper, as far as it says";
        /// Packets in a cycle
        cycle: u32 = default "10",
            "too small: rates are rounded coarsely; too large: a class is delayed long until its turn",
            "steps of 10 % of the link";
        /// The time between two polls; at each up to one cycle leaves
        interval: Duration = derived "the time in which the link sends a cycle of its longest packets",
            "too small: the port's queue grows; too large: the link idles",
            "the paper: the link's speed is a parameter";
    }
}

settings! {
    /// Settings of a class of `wrr`.
    pub struct ClassSettings {
        /// Its packets in a cycle
        weight: u32 = derived "what `rate` is of the cycle; without either an equal part of what others leave, at least 1",
            "only the ratio to the other weights counts",
            "-";
        /// The part of the link for its packets, if all are equally long
        rate: Rate = derived "none: `weight` says it",
            "it is rounded to whole packets of a cycle, at least 1",
            "the paper: the reserved ratio";
    }
}

const LONGEST_CYCLE: u64 = 1 << 24;

/// When packets leave, and where they stand in a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rules {
    /// None if event-driven.
    interval: Option<u64>,
    order: Order,
}

impl Rules {
    /// Whether others differ from these in the time between polls at most.
    fn are_like(self, other: Self) -> bool {
        self.order == other.order && self.interval.is_some() == other.interval.is_some()
    }
}

/// What a class states of its packets in a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stated {
    /// None: an equal part of what the others leave.
    weight: Option<u32>,
    /// The rate that the weight follows from, in bits per second; 0 without one.
    rate: u64,
}

/// Of a place for a class: it has no packets.
const VACANT: Stated = Stated {
    weight: Some(0),
    rate: 0,
};

/// What all classes state together.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Sums {
    weights: u64,
    rates: u128,
    /// The classes without a weight.
    without: u64,
}

impl Sums {
    fn add(&mut self, class: Stated) {
        self.weights += u64::from(class.weight.unwrap_or(0));
        self.rates += u128::from(class.rate);
        self.without += u64::from(class.weight.is_none());
    }

    fn remove(&mut self, class: Stated) {
        self.weights -= u64::from(class.weight.unwrap_or(0));
        self.rates -= u128::from(class.rate);
        self.without -= u64::from(class.weight.is_none());
    }

    /// The weight of a class without one, where a cycle is to have this many packets.
    fn part(&self, cycle: u32) -> u32 {
        let left = u64::from(cycle).saturating_sub(self.weights);
        (left / self.without.max(1)).max(1) as u32
    }

    /// Whether the link has less than their rates.
    fn exceed(&self, link: Link) -> bool {
        self.rates > u128::from(link.bandwidth.bits())
    }

    /// Whether a cycle of them is too long.
    fn are_too_many(&self) -> bool {
        self.weights + self.without > LONGEST_CYCLE
    }
}

#[derive(Clone, Debug)]
struct WrrPlan {
    settings: Settings,
    rules: Rules,
    /// By leaf.
    stated: SharedList<Stated>,
    sums: Sums,
    leaves: LeavesPlan,
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let before = check.problems.len();
    let settings = Settings::read(check.settings, &[], check.problems);
    let classes: Option<Vec<ClassSettings>> = check
        .classes
        .iter()
        .map(|class| ClassSettings::read(class.settings, &[], check.problems))
        .collect();
    let (settings, classes) = (settings?, classes?);
    let at = |key: &str| check.settings.place(key);
    if settings.cycle == 0 || u64::from(settings.cycle) > LONGEST_CYCLE {
        check.problems.push(Problem::new(
            at("cycle"),
            format!("`cycle` is a number from 1 to {LONGEST_CYCLE}"),
        ));
        return None;
    }
    match settings.interval {
        Some(_) if settings.mode == WrrMode::Event => {
            let problem = Problem::new(at("interval"), "`interval` needs `mode = \"poll\"`");
            check.problems.push(problem);
        }
        Some(Duration::ZERO) => check
            .problems
            .push(Problem::new(at("interval"), "`interval` must be longer than 0")),
        _ => {}
    }
    let (stated, sums) = all_stated(check, settings.cycle, &classes)?;
    (check.problems.len() == before).then(|| {
        Arc::new(WrrPlan {
            rules: rules(&settings, sums, check.link),
            settings,
            stated,
            sums,
            leaves: LeavesPlan::new(check),
        }) as Arc<dyn Plan>
    })
}

/// The rules that follow from the settings and the length of a cycle.
fn rules(settings: &Settings, sums: Sums, link: Link) -> Rules {
    let cycle = sums.weights + sums.without * u64::from(sums.part(settings.cycle));
    let sent = || {
        let cycle = Bytes::new(link.mtu.get() * cycle);
        link.bandwidth.time_to_send(cycle).nanos().max(1)
    };
    let polls = settings.mode == WrrMode::Poll;
    Rules {
        interval: polls.then(|| settings.interval.map_or_else(sent, Duration::nanos)),
        order: settings.order,
    }
}

/// What a class states; otherwise what is wrong with its `weight`, and advice.
fn stated(class: &ClassSettings, cycle: u32, link: Link) -> Result<Stated, (&'static str, &'static str)> {
    let (weight, rate) = match (class.weight, class.rate) {
        (Some(_), Some(_)) => {
            return Err(("`weight` and `rate` exclude each other", "leave one of them out"));
        }
        (Some(0), _) => {
            return Err((
                "`weight` must be at least 1: the class could never send",
                "leave the class out",
            ));
        }
        (weight, None) => (weight, 0),
        (None, Some(rate)) => {
            let (rate, cycle) = (rate.on(link.bandwidth).bits(), u128::from(cycle));
            let (bits, link) = (u128::from(rate), u128::from(link.bandwidth.bits()));
            let packets = (cycle * bits * 2 + link) / (link * 2).max(1);
            (Some(packets.clamp(1, cycle) as u32), rate)
        }
    };
    Ok(Stated { weight, rate })
}

/// What each class states, and all together.
fn all_stated(
    check: &mut Check<'_>,
    cycle: u32,
    classes: &[ClassSettings],
) -> Option<(SharedList<Stated>, Sums)> {
    let link = check.link;
    let (mut all, mut sums) = (Vec::with_capacity(classes.len()), Sums::default());
    let before = check.problems.len();
    let mut problem = |index: usize, (key, message, help): (&str, String, &str)| {
        let class = &check.classes[index];
        let at = class.settings.get(key).map_or(class.at, |entry| entry.at);
        check.problems.push(Problem::new(at, message).help(help));
    };
    for (index, class) in classes.iter().enumerate() {
        let stated = match check.classes[index].vacant {
            true => Ok(VACANT),
            false => stated(class, cycle, link),
        };
        match stated {
            Ok(stated) => {
                sums.add(stated);
                all.push(stated);
                if stated.rate > 0 && sums.exceed(link) {
                    let message = format!(
                        "the classes' rates add up to more than the link's {}",
                        link.bandwidth
                    );
                    problem(index, ("rate", message, "lower a rate, or use weights"));
                }
            }
            Err((message, help)) => problem(index, ("weight", message.into(), help)),
        }
    }
    if sums.are_too_many() {
        let message = format!("the weights add up to more than {LONGEST_CYCLE}");
        problem(0, ("weight", message, "only their ratio counts"));
    }
    (check.problems.len() == before).then(|| (all.into(), sums))
}

impl WrrPlan {
    /// The packets of each leaf in a cycle.
    fn weights(&self) -> impl Iterator<Item = u32> + '_ {
        let part = self.sums.part(self.settings.cycle);
        self.stated.iter().map(move |class| class.weight.unwrap_or(part))
    }

    /// Those of one.
    fn weight(&self, leaf: usize) -> u32 {
        let stated = self.stated[leaf].weight;
        stated.unwrap_or_else(|| self.sums.part(self.settings.cycle))
    }
}

/// How a class shows its weight.
fn shown(weight: u32) -> (&'static str, Value) {
    ("weight", Value::Count(u64::from(weight)))
}

fn plan_of(plan: &dyn Plan) -> Option<&WrrPlan> {
    let plan: &dyn Any = plan;
    plan.downcast_ref()
}

/// That a leaf has no bound, nor a class in its queue: an arrival curve is in bytes, and turns are
/// of packets.
fn cases(
    (class, name, queue): (ClassId, &str, &QueuePlan),
    terms: &Terms<'_>,
) -> impl Iterator<Item = WorstCase> {
    let why = "`wrr` counts packets, so an arrival curve in bytes does not bound the turns it takes; `drr` has a bound";
    let own = WorstCase {
        class: Some(class),
        bound: Err(why.into()),
    };
    std::iter::once(own).chain(queue.bounds_inside(name, terms, Err(why.into())))
}

impl Plan for WrrPlan {
    fn bounds(&self, terms: &Terms<'_>) -> Vec<WorstCase> {
        self.leaves.each().flat_map(|leaf| cases(leaf, terms)).collect()
    }

    fn bounds_of(&self, class: ClassId, terms: &Terms<'_>) -> Option<Vec<WorstCase>> {
        let leaf = self.leaves.leaf_of(class).and_then(|leaf| self.leaves.nth(leaf));
        Some(leaf.map_or_else(Vec::new, |leaf| cases(leaf, terms).collect()))
    }

    fn conserves_work(&self) -> bool {
        self.leaves.conserve_work()
    }

    fn amended(&self, change: &ChangedClass<'_>) -> Option<Arc<dyn Plan>> {
        let (leaf, link) = (self.leaves.leaf_of(change.class)?, change.link);
        let mut problems = Vec::new();
        let settings = ClassSettings::read(change.settings, &[], &mut problems)?;
        let new = match change.renewed {
            Some(new) if new.vacant => VACANT,
            _ => stated(&settings, self.settings.cycle, link).ok()?,
        };
        let mut plan = self.clone();
        let old = std::mem::replace(plan.stated.get_mut(leaf)?, new);
        plan.sums.remove(old);
        // The others without a weight, whose parts are to stay.
        let others = plan.sums.without > 0;
        plan.sums.add(new);
        let part = |plan: &Self| plan.sums.part(plan.settings.cycle);
        let moved = others && part(&plan) != part(self);
        let refused = plan.sums.exceed(link) || plan.sums.are_too_many() || !problems.is_empty();
        if moved || refused {
            return None;
        }
        plan.rules = rules(&plan.settings, plan.sums, link);
        if let Some(new) = &change.renewed {
            plan.leaves = self.leaves.renewed(leaf, new)?;
        }
        Some(Arc::new(plan))
    }

    fn changed_classes(&self, former: &dyn Plan, queues: bool) -> Option<Vec<ClassId>> {
        let former = plan_of(former).filter(|former| self.leaves.is_numbered_as(&former.leaves))?;
        if !self.rules.are_like(former.rules) {
            return None;
        }
        let all = self.leaves.each().zip(self.weights().zip(former.weights()));
        let changed = all.filter(|(_, (new, old))| queues || new != old);
        Some(changed.map(|((class, ..), _)| class).collect())
    }

    fn settings_of(&self, class: ClassId) -> Vec<(&'static str, Value)> {
        let leaf = self.leaves.leaf_of(class);
        leaf.into_iter().map(|leaf| shown(self.weight(leaf))).collect()
    }

    fn build_class(&self, class: ClassId, cx: &Build) -> Option<BuiltQueue> {
        self.leaves.build_class(class, cx)
    }

    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        let count = self.stated.len();
        let mut wrr = Wrr {
            leaves: self.leaves.build(cx),
            members: vec![Member::default(); count],
            slots: Heaps::new([count], count),
            at: (0, 0),
            apart: Vec::with_capacity(count),
            poll: Poll::default(),
            cycle: 0,
            end: 0,
            rules: self.rules,
        };
        wrr.lay_out(self);
        Box::new(wrr)
    }
}

/// A slot: the cycle, and its rank in the cycle.
type Slot = (u64, u32);

/// A class and its next slot.
#[derive(Clone, Copy, Default, Debug)]
struct Member {
    weight: u32,
    /// Its first slot in a cycle, in order `burst`.
    first: u32,
    /// Its next slot: the cycle, and its index among the class's own.
    cycle: u64,
    k: u32,
    /// Packets that arrived after this poll.
    late: u64,
    poll: u64,
}

impl Member {
    /// The rank of the `k`-th slot of a cycle.
    #[inline]
    fn rank(&self, order: Order) -> u32 {
        match order {
            Order::Burst => self.first + self.k,
            Order::Interleaved => ((2 * u64::from(self.k) + 1) * HALF / u64::from(self.weight)) as u32,
        }
    }

    /// Its next slot.
    #[inline]
    fn key(&self, order: Order) -> u128 {
        u128::from(self.cycle) << 32 | u128::from(self.rank(order))
    }

    /// Moves on to the next slot.
    #[inline]
    fn advance(&mut self) {
        self.k += 1;
        if self.k == self.weight {
            (self.cycle, self.k) = (self.cycle + 1, 0);
        }
    }

    /// Skips the slots before this one.
    #[inline]
    fn catch_up(&mut self, order: Order, (cycle, rank): Slot) {
        if (self.cycle, self.rank(order)) >= (cycle, rank) {
            return;
        }
        let k = match order {
            Order::Burst => u64::from(rank.saturating_sub(self.first)),
            // The least k with (2k + 1) / 2w at least the rank's part of the cycle.
            Order::Interleaved => (u64::from(rank) * u64::from(self.weight)).div_ceil(HALF) / 2,
        };
        (self.cycle, self.k) = if k < u64::from(self.weight) {
            (cycle, k as u32)
        } else {
            (cycle + 1, 0)
        };
    }
}

/// Half a cycle, in the ranks of order `interleaved`.
const HALF: u64 = 1 << 31;

/// The polls.
#[derive(Clone, Copy, Default, Debug)]
struct Poll {
    /// How many there were.
    count: u64,
    /// Packets that may still leave at this one.
    left: u64,
    /// When the next is due.
    next: u64,
}

#[derive(Debug)]
struct Wrr {
    leaves: Leaves,
    members: Vec<Member>,
    /// The next slots of the classes that may send.
    slots: Heaps,
    /// The slot of the last packet.
    at: Slot,
    /// Ready, and waiting for the next poll.
    apart: Vec<u32>,
    poll: Poll,
    /// The packets of one cycle.
    cycle: u64,
    /// Where the last slots of a cycle end, in order `burst`.
    end: u32,
    rules: Rules,
}

impl Wrr {
    /// Gives the members their weights, all with their slots before them.
    fn lay_out(&mut self, plan: &WrrPlan) {
        let (cycle, mut first) = (self.at.0 + 1, 0);
        for (member, weight) in self.members.iter_mut().zip(plan.weights()) {
            (member.weight, member.first, member.cycle, member.k) = (weight, first, cycle, 0);
            first += weight;
        }
        (self.at, self.cycle, self.end) = ((cycle, 0), u64::from(first), first);
    }

    /// Gives one class another weight; in order `burst` it goes to the end of the cycle. `false` if
    /// there is no room there any more: then all are laid out anew.
    fn assign(&mut self, leaf: usize, weight: u32) -> bool {
        let Some(end) = self.end.checked_add(weight) else {
            return false;
        };
        let member = &mut self.members[leaf];
        let former = member.weight;
        if former == weight {
            return true;
        }
        (member.weight, member.first) = (weight, self.end);
        (member.cycle, member.k) = (self.at.0, 0);
        self.cycle = self.cycle + u64::from(weight) - u64::from(former);
        self.end = end;
        if self.slots.holds(leaf as u32) {
            self.slots.remove(0, leaf as u32);
            if weight > 0 {
                self.list(leaf);
            }
        }
        true
    }

    /// Polls at other times, if these are others.
    fn adopt_interval(&mut self, now: Instant, rules: Rules) {
        if let Some(interval) = rules.interval.filter(|_| rules != self.rules) {
            self.poll.next = now.nanos().div_ceil(interval).saturating_mul(interval);
        }
        self.rules = rules;
    }

    /// A leaf may send.
    fn list(&mut self, leaf: usize) {
        let member = &mut self.members[leaf];
        member.catch_up(self.rules.order, self.at);
        self.slots.set(0, leaf as u32, member.key(self.rules.order));
    }

    /// A leaf is ready.
    fn ready(&mut self, leaf: usize) {
        match self.rules.interval {
            None => self.list(leaf),
            Some(_) => self.apart.push(leaf as u32),
        }
    }

    /// Polls, if it is due. While no leaf was ready no poll was missed.
    fn poll(&mut self, now: u64) {
        let Some(interval) = self.rules.interval else {
            return;
        };
        if now < self.poll.next || !self.leaves.any_ready() {
            return;
        }
        let (count, left) = (self.poll.count + 1, self.cycle);
        self.poll = Poll {
            count,
            left,
            next: (now / interval + 1).saturating_mul(interval),
        };
        while let Some(leaf) = self.apart.pop() {
            self.list(leaf as usize);
        }
    }

    /// Whether the whole backlog of a leaf arrived after this poll.
    fn is_late(&self, leaf: usize) -> bool {
        let member = &self.members[leaf];
        self.rules.interval.is_some()
            && member.poll == self.poll.count
            && self.leaves.packets(leaf) <= member.late
    }
}

impl Discipline for Wrr {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        if let (Some(interval), false) = (self.rules.interval, self.leaves.any_ready()) {
            let due = now.nanos().div_ceil(interval).saturating_mul(interval);
            self.poll.next = self.poll.next.max(due);
        }
        let to = self.leaves.route(packet.class);
        let (verdict, ready) = self.leaves.enqueue(now, packet, sink);
        if let (Verdict::Queued, Some(leaf)) = (verdict, to) {
            let (member, count) = (&mut self.members[leaf], self.poll.count);
            member.late = if member.poll == count { member.late + 1 } else { 1 };
            member.poll = count;
        }
        if let Some(leaf) = ready {
            self.ready(leaf);
        }
        verdict
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        while let Some(leaf) = self.leaves.wake(now) {
            self.ready(leaf);
        }
        self.poll(now.nanos());
        while self.rules.interval.is_none() || self.poll.left > 0 {
            let Some((key, leaf)) = self.slots.first(0) else {
                break;
            };
            if self.is_late(leaf as usize) {
                self.slots.remove(0, leaf);
                self.apart.push(leaf);
                continue;
            }
            let next = self.leaves.dequeue(leaf as usize, now, sink);
            if !matches!(next, Next::Ready(_)) {
                self.slots.remove(0, leaf);
                continue;
            }
            let member = &mut self.members[leaf as usize];
            member.advance();
            self.at = ((key >> 32) as u64, key as u32);
            self.poll.left = self.poll.left.saturating_sub(1);
            if self.leaves.is_ready(leaf as usize) {
                self.slots.set(0, leaf, member.key(self.rules.order));
            } else {
                self.slots.remove(0, leaf);
            }
            return next;
        }
        match self.leaves.any_ready() {
            true => Next::Wait(Instant::from_nanos(self.poll.next)),
            false => self.leaves.rest(),
        }
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        self.apart.clear();
        while let Some((_, leaf)) = self.slots.first(0).filter(|_| !portion.is_spent()) {
            self.slots.remove(0, leaf);
            portion.looked();
        }
        self.leaves.flush(portion, sink);
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        out.gauge(
            "mode",
            Value::State(
                if self.rules.interval.is_some() {
                    WrrMode::Poll
                } else {
                    WrrMode::Event
                }
                .name(),
            ),
        );
        out.gauge("cycle", Value::Count(self.cycle));
        if let Some(interval) = self.rules.interval {
            out.gauge("interval", Value::Duration(Duration::from_nanos(interval)));
            out.gauge("polls", Value::Count(self.poll.count));
        }
        self.leaves
            .inspect(out, |leaf, out| out.show(shown(self.members[leaf].weight)));
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let Some(plan) = plan_of(plan) else { return false };
        if !self.leaves.is_alike(&plan.leaves) {
            return false;
        }
        let alike = plan.rules.are_like(self.rules);
        if alike {
            self.adopt_interval(now, plan.rules);
        }
        let mut weights = plan.weights().enumerate();
        if !alike || !weights.all(|(leaf, weight)| self.assign(leaf, weight)) {
            self.rules = plan.rules;
            while let Some((_, leaf)) = self.slots.first(0) {
                self.slots.remove(0, leaf);
                self.apart.push(leaf);
            }
            self.lay_out(plan);
            match self.rules.interval {
                None => {
                    while let Some(leaf) = self.apart.pop() {
                        self.list(leaf as usize);
                    }
                }
                Some(interval) => self.poll.next = now.nanos().div_ceil(interval).saturating_mul(interval),
            }
        }
        self.leaves.retune(now, &plan.leaves)
    }

    fn retune_own(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let Some(plan) = plan_of(plan).filter(|plan| plan.rules.are_like(self.rules)) else {
            return false;
        };
        self.adopt_interval(now, plan.rules);
        true
    }

    fn retune_class(&mut self, now: Instant, plan: &dyn Plan, class: ClassId) -> bool {
        let known = plan_of(plan).and_then(|plan| Some((plan, self.leaves.known(&plan.leaves, class)?)));
        known.is_some_and(|(plan, leaf)| {
            // The length of a cycle follows from all weights.
            self.adopt_interval(now, plan.rules);
            self.assign(leaf, plan.weight(leaf)) && self.leaves.retune_one(now, &plan.leaves, leaf)
        })
    }

    fn renew_class(
        &mut self,
        _now: Instant,
        plan: &dyn Plan,
        class: ClassId,
        queue: BuiltQueue,
    ) -> Option<Box<dyn DetachedQueue>> {
        let plan = plan_of(plan)?;
        let leaf = self.leaves.known(&plan.leaves, class)?;
        if !self.assign(leaf, plan.weight(leaf)) {
            return None;
        }
        let former = self.leaves.renew(&plan.leaves, leaf, queue);
        self.slots.remove(0, leaf as u32);
        if self.rules.interval.is_none() {
            self.leaves.forget(leaf);
        }
        (self.members[leaf].late, self.members[leaf].poll) = (0, 0);
        Some(former)
    }

    fn leaf(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        self.leaves.discipline(class)
    }

    fn owner(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        match self.leaves.own(class) {
            Some(_) => Some(self),
            None => self.leaves.owner(class),
        }
    }

    fn take_over_class(&mut self, _now: Instant, class: ClassId, former: &mut dyn Discipline, was: ClassId) {
        let same = |former: &&mut Self| former.rules.order == self.rules.order;
        let Some(former) = former.of_type::<Self>().filter(same) else {
            return;
        };
        let (Some(was), Some(leaf)) = (former.leaves.own(was), self.leaves.own(class)) else {
            return;
        };
        self.at = self.at.max(former.at);
        let new = &mut self.members[leaf];
        if new.weight > 0 {
            new.cycle = former.members[was].cycle;
            new.k = former.members[was].k.min(new.weight - 1);
        }
    }

    fn exchange_queue(
        &mut self,
        now: Instant,
        class: ClassId,
        queue: BuiltQueue,
    ) -> Option<Box<dyn DetachedQueue>> {
        self.leaves.exchange(now, class, queue)
    }
}

/// Reservations as packets of a cycle: ⌈*N r / C*⌉ of *N*, as in the paper, but never fewer.
/// Lengths are not counted.
#[derive(Debug)]
struct ByPackets;

impl ByPackets {
    /// Packets of a cycle: *N*.
    fn cycle(spec: &DisciplineSpec) -> u64 {
        const USUAL: u64 = 10;
        match spec.settings.get("cycle").map(|entry| &entry.value) {
            Some(Raw::Integer(n)) => u64::try_from(*n).unwrap_or(0).max(1),
            _ => USUAL,
        }
    }

    /// The packets of a cycle that a class of this much has. What counts was rounded up to whole
    /// packets, and down to whole bits per second.
    fn packets(counts: Bandwidth, cycle: u64, link: Bandwidth) -> u64 {
        let (bits, link) = (
            u128::from(counts.bits()) * u128::from(cycle),
            u128::from(link.bits().max(1)),
        );
        u64::try_from((bits + link / 2) / link).map_or(u64::MAX, |packets| packets.max(1))
    }
}

impl Reserves for ByPackets {
    fn bounds_delays(&self) -> bool {
        false
    }

    fn capacity(&self, requested: &RequestedShare<'_>, problems: &mut Vec<Problem>) -> Bandwidth {
        let RequestedShare {
            spec,
            link,
            share,
            at,
        } = *requested;
        refuse_absolute(spec, "rate", problems);
        let cycle = Self::cycle(spec);
        let whole = u128::from(cycle) * u128::from(share.bits()) / u128::from(link.bandwidth.bits().max(1));
        let whole = (whole as u64).min(cycle);
        if whole == 0 || cycle - whole < spec.classes.len() as u64 {
            let message = format!(
                "a cycle of {cycle} packets has {whole} to reserve, and {} for the {} classes of the policy",
                cycle - whole,
                spec.classes.len()
            );
            let help =
                "make `cycle` longer, or `share` such that reservations and every class have a packet of it";
            let at = spec.settings.get("cycle").map_or(at, |entry| entry.at);
            problems.push(Problem::new(at, message).help(help));
        }
        let bits = u128::from(whole) * u128::from(link.bandwidth.bits()) / u128::from(cycle);
        Bandwidth::bits_per_sec(bits as u64)
    }

    fn counts(&self, tree: &ReservableTree, rate: Bandwidth) -> Bandwidth {
        let (cycle, link) = (
            u128::from(Self::cycle(&tree.spec)),
            u128::from(tree.link.bandwidth.bits()),
        );
        let packets = (cycle * u128::from(rate.bits())).div_ceil(link.max(1)).max(1);
        let counted = u64::try_from(packets * link / cycle);
        Bandwidth::bits_per_sec(counted.unwrap_or(u64::MAX))
    }

    fn add(&self, tree: &ReservableTree, spec: &mut DisciplineSpec, reservations: &[ReservedClass]) {
        let cycle = Self::cycle(&tree.spec);
        let packets = |reserved: &ReservedClass| Self::packets(reserved.rate, cycle, tree.link.bandwidth);
        let weight = |packets: u64| Raw::Integer(packets.cast_signed());
        drr::keep_signalling_apart(spec);
        let taken: u64 = reservations.iter().map(packets).sum();
        let parts = divide(
            &reserved_classes::weights(spec),
            cycle.saturating_sub(taken).into(),
        );
        for (class, part) in spec.classes.iter_mut().zip(parts) {
            class.settings = std::mem::take(&mut class.settings).with("weight", weight(part as u64));
        }
        for reserved in reservations {
            let own = Table::default().with("weight", weight(packets(reserved)));
            spec.classes.push(leaf(reserved, own));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use crate::packet::ClassId;
    use crate::queue::Queue;
    use crate::random::Seed;
    use crate::settings::{Raw, Table};
    use crate::sinks::Nowhere;
    use crate::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
    use crate::trials;
    use crate::units::Bandwidth;
    use proptest::prelude::*;

    fn check(kind: &str, settings: Table, tables: Vec<Table>) -> Result<Queue, Vec<Problem>> {
        let class = |(i, settings): (usize, Table)| ClassSpec {
            name: i.to_string().into(),
            default: i == 0,
            settings,
            ..ClassSpec::default()
        };
        let classes = tables.into_iter().enumerate().map(class).collect();
        let spec = DisciplineSpec {
            settings,
            classes,
            ..DisciplineSpec::new(kind)
        };
        let link = Link::new(Bandwidth::mbit(100), Bytes::new(1_250));
        spec.check(&Registry::builtin(), link)
            .map(|plan| plan.build(Seed(1)))
    }

    fn weight(weight: u32) -> Table {
        Table::default().with("weight", Raw::Integer(weight.into()))
    }

    fn wrr(settings: Table, weights: &[u32]) -> Queue {
        check("wrr", settings, weights.iter().map(|&w| weight(w)).collect()).expect("a good plan")
    }

    fn offer(queue: &mut Queue, now: u64, class: usize, len: u64) {
        let now = Instant::from_nanos(now);
        let packet = Packet::new(Bytes::new(len), now, ClassId(class as u32));
        assert_eq!(queue.enqueue(now, packet, &mut Nowhere), Verdict::Queued);
    }

    fn ask(queue: &mut Queue, now: u64) -> Result<usize, Option<u64>> {
        match queue.dequeue(Instant::from_nanos(now), &mut Nowhere) {
            Next::Ready(packet) => Ok(packet.class.0 as usize),
            Next::Wait(at) => Err(Some(at.nanos())),
            Next::Empty => Err(None),
        }
    }

    /// The classes of this many packets, all classes backlogged all the time.
    fn order(queue: &mut Queue, classes: usize, packets: usize) -> Vec<usize> {
        for class in 0..classes {
            (0..2).for_each(|_| offer(queue, 0, class, 1_000));
        }
        let step = |_| {
            let class = ask(queue, 0).expect("a backlog");
            offer(queue, 0, class, 1_000);
            class
        };
        (0..packets).map(step).collect()
    }

    proptest! {
        #[test]
        fn in_each_cycle_each_backlogged_class_sends_its_weight(
            weights in prop::collection::vec(1u32..20, 1..8),
            interleaved in any::<bool>(),
        ) {
            let name = if interleaved { "interleaved" } else { "burst" };
            let mut queue = wrr(Table::default().text("order", name), &weights);
            let cycle = weights.iter().sum::<u32>() as usize;
            for cycle in order(&mut queue, weights.len(), cycle * 50).chunks(cycle) {
                for (class, &weight) in weights.iter().enumerate() {
                    prop_assert_eq!(cycle.iter().filter(|&&c| c == class).count(), weight as usize);
                }
            }
        }

        #[test]
        fn interleaved_packets_are_never_far_from_their_even_places(weights in prop::collection::vec(1u32..20, 2..8)) {
            let mut queue = wrr(Table::default().text("order", "interleaved"), &weights);
            let cycle: u32 = weights.iter().sum();
            let order = order(&mut queue, weights.len(), cycle as usize * 3);
            let mut sent = vec![0f64; weights.len()];
            for (i, class) in order.into_iter().enumerate() {
                sent[class] += 1.0;
                for (&sent, &weight) in sent.iter().zip(&weights) {
                    let due = (i + 1) as f64 * f64::from(weight) / f64::from(cycle);
                    // Half a packet by its own rounding, and half a slot for each other class's.
                    let bound = 0.5 + 0.5 * weights.len() as f64 * f64::from(weight) / f64::from(cycle) + 1e-9;
                    prop_assert!((sent - due).abs() <= bound, "{sent} of {due}");
                }
            }
        }
    }

    #[test]
    fn a_burst_is_side_by_side_and_interleaved_is_spread() {
        let mut queue = wrr(Table::default(), &[4, 6]);
        assert_eq!(order(&mut queue, 2, 10), [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
        let mut queue = wrr(Table::default().text("order", "interleaved"), &[4, 6]);
        assert_eq!(order(&mut queue, 2, 10), [1, 0, 1, 0, 1, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn an_empty_queue_is_skipped_and_gets_nothing_back() {
        let mut queue = wrr(Table::default(), &[2, 3, 1]);
        (0..12).for_each(|_| offer(&mut queue, 0, 1, 100));
        let first: Vec<_> = (0..7).map(|_| ask(&mut queue, 0)).collect();
        assert_eq!(first, [Ok(1); 7]);
        (0..6).for_each(|_| offer(&mut queue, 0, 0, 100));
        // Class 1 is in the middle of its burst; then class 0 has its two, and no more for having
        // been idle.
        let then: Vec<_> = (0..9).map_while(|_| ask(&mut queue, 0).ok()).collect();
        assert_eq!(then, [1, 1, 0, 0, 1, 1, 1, 0, 0]);
    }

    /// The share of the first class by packets and by bytes, in thousandths.
    fn shares(kind: &str, lens: [u64; 2]) -> [u64; 2] {
        let mut queue = check(kind, Table::default(), vec![weight(4), weight(6)]).expect("a good plan");
        for class in [0, 1] {
            (0..50).for_each(|_| offer(&mut queue, 0, class, lens[class]));
        }
        let (mut packets, mut bytes) = ([0u64; 2], [0u64; 2]);
        for _ in 0..100_000 {
            let class = ask(&mut queue, 0).expect("a backlog");
            packets[class] += 1;
            bytes[class] += lens[class];
            offer(&mut queue, 0, class, lens[class]);
        }
        [packets, bytes].map(|sent| sent[0] * 1_000 / (sent[0] + sent[1]))
    }

    #[test]
    fn unequal_lengths_give_right_shares_by_packets_and_wrong_ones_by_bytes_and_drr_the_reverse() {
        // 40 % reserved, with packets of 200 bytes against 1,250: 800 of 8,300 bytes a cycle.
        assert_eq!(shares("wrr", [200, 1_250]), [400, 96]);
        let [packets, bytes] = shares("drr", [200, 1_250]);
        assert!((399..=400).contains(&bytes) && packets > 800, "{packets} {bytes}");
        assert_eq!(shares("wrr", [1_250, 1_250]), [400, 400]);
    }

    #[test]
    fn packets_leave_only_at_polls_and_at_most_a_cycle_of_those_that_had_come() {
        let settings = Table::default().text("mode", "poll").text("interval", "1 ms");
        let mut queue = wrr(settings, &[1, 2]);
        let ms = 1_000_000;
        (0..4).for_each(|_| offer(&mut queue, ms / 2, 0, 100));
        assert_eq!(ask(&mut queue, ms / 2), Err(Some(ms)));
        offer(&mut queue, ms - 1, 1, 100);
        assert_eq!([ask(&mut queue, ms), ask(&mut queue, ms)], [Ok(0), Ok(1)]);
        offer(&mut queue, ms, 1, 100);
        // The second of class 1 came after the poll; class 0 takes what is left of the cycle.
        assert_eq!(
            [ask(&mut queue, ms + 1), ask(&mut queue, ms + 1)],
            [Ok(0), Err(Some(2 * ms))]
        );
        // A late caller polls late, once.
        assert_eq!(
            [0; 4].map(|_| ask(&mut queue, 4 * ms + 7)),
            [Ok(1), Ok(0), Ok(0), Err(None)]
        );
        // No caller came at 5 ms; what arrives at 5.5 ms waits for 6 ms.
        offer(&mut queue, 5 * ms + ms / 2, 0, 100);
        assert_eq!(ask(&mut queue, 5 * ms + ms / 2), Err(Some(6 * ms)));
    }

    #[test]
    fn rates_become_packets_of_a_cycle_and_the_rest_is_for_the_others() {
        let rate = |rate: &str| Table::default().text("rate", rate);
        let tables = vec![Table::default(), rate("40 Mbit/s"), rate("1 Mbit/s")];
        let mut queue = check("wrr", Table::default(), tables).expect("a good plan");
        assert_eq!(order(&mut queue, 3, 10), [0, 0, 0, 0, 0, 1, 1, 1, 1, 2]);
    }

    #[test]
    fn settings_that_cannot_work_are_refused_with_a_reason() {
        let both = weight(1).text("rate", "1 Mbit/s");
        let class = [
            (weight(0), "must be at least 1"),
            (both, "exclude each other"),
            (
                Table::default().text("rate", "101 Mbit/s"),
                "more than the link's",
            ),
        ];
        let cases = class
            .into_iter()
            .map(|(table, message)| (Table::default(), table, message));
        let own = [
            (
                Table::default().with("cycle", Raw::Integer(0)),
                Table::default(),
                "`cycle` is a number",
            ),
            (
                Table::default().text("interval", "1 ms"),
                Table::default(),
                "needs `mode",
            ),
            (
                Table::default().text("mode", "poll").text("interval", "0 s"),
                Table::default(),
                "longer than 0",
            ),
        ];
        for (settings, table, message) in cases.chain(own) {
            let problems = check("wrr", settings, vec![table]).expect_err("cannot work");
            assert!(problems[0].message.contains(message), "{problems:?}");
        }
    }

    const WIDE: Link = Link::new(Bandwidth::mbit(100), Bytes::new(1_250));

    fn planned(settings: Table, tables: Vec<Table>) -> TreePlan {
        let class = |(i, settings): (usize, Table)| ClassSpec {
            name: i.to_string().into(),
            default: i == 1,
            vacant: settings.get("vacant").is_some(),
            settings: match settings.get("vacant") {
                Some(_) => Table::default(),
                None => settings,
            },
            ..ClassSpec::default()
        };
        let spec = DisciplineSpec {
            settings,
            classes: tables.into_iter().enumerate().map(class).collect(),
            ..DisciplineSpec::new("wrr")
        };
        spec.check(&Registry::builtin(), WIDE).expect("a good plan")
    }

    fn weighing(settings: Table, weights: &[u32]) -> TreePlan {
        planned(settings, weights.iter().map(|&w| weight(w)).collect())
    }

    fn polling(interval: &str) -> Table {
        Table::default().text("mode", "poll").text("interval", interval)
    }

    #[test]
    fn cycles_are_refused_beyond_the_longest_and_not_at_it() {
        let cycle = |n| Table::default().with("cycle", Raw::Integer(n));
        let good = |n| check("wrr", cycle(n), vec![weight(1)]).is_ok();
        assert_eq!(
            [0, 1, 1 << 24, (1 << 24) + 1].map(good),
            [false, true, true, false]
        );
        let sum = |weights: [u32; 2]| {
            check("wrr", Table::default(), weights.map(weight).to_vec())
                .map(|_| ())
                .is_ok()
        };
        assert!(sum([(1 << 24) - 1, 1]) && !sum([1 << 24, 1]));
    }

    #[test]
    fn the_usual_interval_is_the_time_of_a_cycle_of_full_packets() {
        let interval = |tables: Vec<Table>| {
            let plan = planned(Table::default().text("mode", "poll"), tables);
            trials::gauge(&*trials::built(&plan.root), "interval")
        };
        // 1,250 bytes take 100 us.
        let micros = |n| Some(Value::Duration(Duration::from_micros(n)));
        assert_eq!(interval(vec![weight(1), weight(2)]), micros(300));
        assert_eq!(
            interval(vec![weight(3), Table::default()]),
            micros(1_000),
            "of ten"
        );
        let three = vec![weight(3), Table::default(), Table::default()];
        assert_eq!(interval(three), micros(900), "of three, and two of three");
        let more = vec![weight(30), Table::default()];
        assert_eq!(interval(more), micros(3_100), "one at least");
    }

    #[test]
    fn sums_are_exact_and_taken_back_exactly() {
        let stated = |weight, rate| Stated { weight, rate };
        let mut sums = Sums::default();
        for class in [
            stated(Some(3), 60_000_000),
            stated(None, 0),
            stated(Some(4), 40_000_000),
        ] {
            sums.add(class);
        }
        assert_eq!((sums.weights, sums.rates, sums.without), (7, 100_000_000, 1));
        assert!(!sums.exceed(WIDE) && !sums.are_too_many());
        assert_eq!([sums.part(7), sums.part(9), sums.part(10)], [1, 2, 3]);
        sums.add(stated(None, 1));
        assert!(sums.exceed(WIDE));
        assert_eq!([sums.part(6), sums.part(11), sums.part(12)], [1, 2, 2]);
        sums.weights = LONGEST_CYCLE - 2;
        assert!(!sums.are_too_many());
        sums.weights += 1;
        assert!(sums.are_too_many());
        sums.weights = 7;
        sums.remove(stated(Some(3), 60_000_000));
        sums.remove(stated(None, 1));
        assert_eq!((sums.weights, sums.rates, sums.without), (4, 40_000_000, 1));
    }

    #[test]
    fn a_rate_is_the_nearest_number_of_packets_of_a_cycle_and_one_at_least() {
        let packets = |kbit: u64| {
            let rate = Table::default().text("rate", &format!("{kbit} kbit/s"));
            let settings = ClassSettings::read(&rate, &[], &mut Vec::new()).expect("settings");
            let stated = stated(&settings, 10, WIDE).expect("a rate");
            assert_eq!(stated.rate, kbit * 1_000);
            stated.weight
        };
        let found = [1, 14_999, 15_000, 25_000, 94_999, 95_000, 200_000].map(packets);
        assert_eq!(found, [1, 1, 2, 3, 9, 10, 10].map(Some));
    }

    #[test]
    fn changed_are_the_classes_of_other_weights_if_all_leave_by_the_same_rules() {
        let changed =
            |new: &TreePlan, old: &TreePlan, queues| new.root.plan.changed_classes(&*old.root.plan, queues);
        let old = weighing(Table::default(), &[1, 2, 3]);
        let new = weighing(Table::default(), &[1, 5, 3]);
        assert_eq!(changed(&new, &old, false), Some(vec![ClassId(1)]));
        assert_eq!(changed(&new, &old, true).map(|all| all.len()), Some(3));
        assert_eq!(changed(&old, &old, false), Some(Vec::new()));
        let interleaved = weighing(Table::default().text("order", "interleaved"), &[1, 2, 3]);
        assert_eq!(changed(&interleaved, &old, false), None);
        let polled = weighing(polling("1 ms"), &[1, 2, 3]);
        assert_eq!(changed(&polled, &old, false), None);
        assert_eq!(
            changed(&weighing(polling("2 ms"), &[1, 2, 3]), &polled, false),
            Some(Vec::new())
        );
        assert_eq!(changed(&weighing(Table::default(), &[1, 2]), &old, false), None);
        assert_eq!(old.root.plan.settings_of(ClassId(2)), [shown(3)]);
    }

    /// The packets of a cycle, and the weights, by leaf.
    fn laid_out(queue: &mut dyn Discipline) -> (u64, Vec<u32>) {
        let wrr = queue.of_type::<Wrr>().expect("a `wrr`");
        (
            wrr.cycle,
            wrr.members.iter().map(|member| member.weight).collect(),
        )
    }

    #[test]
    fn other_weights_make_another_cycle() {
        let old = weighing(Table::default(), &[2, 3, 4]);
        let mut queue = trials::built(&old.root);
        assert_eq!(laid_out(&mut *queue), (9, vec![2, 3, 4]));
        let new = weighing(Table::default(), &[2, 7, 4]).root.plan;
        assert!(queue.retune_class(Instant::START, &*new, ClassId(1)));
        assert_eq!(laid_out(&mut *queue), (13, vec![2, 7, 4]));
        assert!(queue.retune(Instant::START, &*weighing(Table::default(), &[1, 1, 4]).root.plan));
        assert_eq!(laid_out(&mut *queue), (6, vec![1, 1, 4]));
        let interleaved = Table::default().text("order", "interleaved");
        let new = weighing(interleaved, &[3, 2, 1]).root.plan;
        assert!(!queue.retune_own(Instant::START, &*new));
        assert!(queue.retune(Instant::START, &*new));
        assert_eq!(laid_out(&mut *queue), (6, vec![3, 2, 1]));
        assert!(!queue.retune(Instant::START, &*weighing(Table::default(), &[1, 1]).root.plan));
        let fifo = trials::planned("fifo", Table::default(), WIDE);
        assert!(!queue.retune(Instant::START, &*fifo.plan));
        assert!(!queue.retune_own(Instant::START, &*fifo.plan));
        assert!(!queue.retune_class(Instant::START, &*fifo.plan, ClassId(0)));
    }

    #[test]
    fn of_a_class_whose_older_packets_have_left_the_younger_ones_wait_for_the_next_poll() {
        let mut queue = wrr(polling("1 ms"), &[1, 3]);
        let ms = 1_000_000;
        (0..2).for_each(|class| offer(&mut queue, ms / 2, class, 100));
        assert_eq!(ask(&mut queue, ms), Ok(0));
        (0..2).for_each(|_| offer(&mut queue, ms, 1, 100));
        assert_eq!(
            [ask(&mut queue, ms), ask(&mut queue, ms)],
            [Ok(1), Err(Some(2 * ms))]
        );
        assert_eq!([0; 3].map(|_| ask(&mut queue, 2 * ms)), [Ok(1), Ok(1), Err(None)]);
    }

    #[test]
    fn a_class_that_is_renewed_has_no_packets_and_a_new_weight() {
        let mut queue = wrr(Table::default(), &[1, 2]);
        (0..2).for_each(|_| offer(&mut queue, 0, 1, 100));
        offer(&mut queue, 0, 0, 100);
        let new = weighing(Table::default(), &[1, 3]);
        let built = || new.build_class(ClassId(1), Seed(1)).expect("a leaf");
        let plan = new.root.plan.as_ref();
        let former = queue.renew_class(Instant::START, plan, ClassId(1), built());
        assert_eq!(former.map(|former| former.held().packets), Some(2));
        assert_eq!([ask(&mut queue, 0), ask(&mut queue, 0)], [Ok(0), Err(None)]);
        assert_eq!(order(&mut queue, 2, 8), [1, 1, 1, 0, 1, 1, 1, 0]);
        let fifo = trials::planned("fifo", Table::default(), WIDE);
        assert!(
            queue
                .renew_class(Instant::START, &*fifo.plan, ClassId(1), built())
                .is_none()
        );
        assert!(
            queue
                .renew_class(Instant::START, plan, ClassId(2), built())
                .is_none()
        );
    }

    #[test]
    fn a_queue_that_is_exchanged_leaves_with_its_packets_and_the_class_stays() {
        let plan = weighing(Table::default(), &[1, 2]);
        let mut queue = plan.build(Seed(1));
        (0..2).for_each(|_| offer(&mut queue, 0, 1, 100));
        let built = plan.build_class(ClassId(1), Seed(1)).expect("a leaf");
        let former = queue.exchange_queue(Instant::START, ClassId(1), built);
        assert_eq!(former.map(|former| former.held().packets), Some(2));
        assert_eq!(ask(&mut queue, 0), Err(None));
        offer(&mut queue, 0, 1, 100);
        assert_eq!([ask(&mut queue, 0), ask(&mut queue, 0)], [Ok(1), Err(None)]);
    }

    #[test]
    fn a_class_goes_on_in_its_cycle_where_another_left_off() {
        let mut former = trials::built(&weighing(Table::default(), &[4, 6]).root);
        let place = Table::default().with("vacant", Raw::Boolean(true));
        for (tables, expected) in [
            (vec![weight(4), weight(6)], (7, 3)),
            (vec![weight(2), weight(6)], (7, 1)),
            (vec![place, weight(6)], (1, 0)),
        ] {
            let known = former.of_type::<Wrr>().expect("a `wrr`");
            (known.members[0].cycle, known.members[0].k, known.at) = (7, 3, (7, 2));
            let mut new = trials::built(&planned(Table::default(), tables).root);
            new.take_over_class(Instant::START, ClassId(0), &mut *former, ClassId(0));
            let wrr = new.of_type::<Wrr>().expect("a `wrr`");
            assert_eq!((wrr.members[0].cycle, wrr.members[0].k), expected);
            assert_eq!(wrr.at, (7, 2));
        }
        let interleaved = Table::default().text("order", "interleaved");
        let mut new = trials::built(&weighing(interleaved, &[4, 6]).root);
        new.take_over_class(Instant::START, ClassId(0), &mut *former, ClassId(0));
        let wrr = new.of_type::<Wrr>().expect("a `wrr`");
        assert_eq!(
            (wrr.members[0].cycle, wrr.members[0].k),
            (1, 0),
            "ranks are others there"
        );
    }

    #[test]
    fn reservations_are_whole_packets_of_a_cycle() {
        let packets = |kbit| ByPackets::packets(Bandwidth::kbit(kbit), 10, WIDE.bandwidth);
        assert_eq!([1, 14_999, 15_000, 24_999, 25_000].map(packets), [1, 1, 2, 2, 3]);
        let spec = DisciplineSpec {
            classes: ["a", "b"]
                .map(|name| reserved_classes::class(name, Table::default()))
                .into_iter()
                .collect(),
            ..DisciplineSpec::new("wrr")
        };
        let capacity = |mbit| {
            let requested = RequestedShare {
                spec: &spec,
                link: WIDE,
                share: Bandwidth::mbit(mbit),
                at: Default::default(),
            };
            let mut problems = Vec::new();
            let found = ByPackets.capacity(&requested, &mut problems);
            problems.is_empty().then_some(found.bits() / 1_000_000)
        };
        assert_eq!(
            [9, 10, 45, 80, 89, 90].map(capacity),
            [None, Some(10), Some(40), Some(80), Some(80), None]
        );
        let tree = ReservableTree {
            spec: spec.clone(),
            link: WIDE,
            capacity: Bandwidth::mbit(80),
            smallest: Bandwidth::mbit(10),
            largest: Bandwidth::mbit(80),
        };
        let counts = |kbit| ByPackets.counts(&tree, Bandwidth::kbit(kbit)).bits() / 1_000_000;
        assert_eq!([0, 1, 10_000, 10_001, 25_000].map(counts), [10, 10, 10, 20, 30]);
        assert!(!ByPackets.bounds_delays());
    }
}
