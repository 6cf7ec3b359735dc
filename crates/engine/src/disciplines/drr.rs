//! `drr`: deficit round robin. Classes take turns by bytes, in proportion to their weights.
//!
//! Follows Shreedhar and Varghese, "Efficient fair queueing using deficit round robin", SIGCOMM
//! 1995, section 3. With *Qᵢ* the quantum of class *i* and *Dᵢ* its deficit counter: the backlogged
//! classes stand in a list (ActiveList). The first one's *Dᵢ* grows by *Qᵢ*; it sends while its
//! next packet is not longer than *Dᵢ*, which shrinks by that packet's length; then it goes to the
//! end of the list. One that is empty leaves the list and *Dᵢ* = 0; one that becomes active joins
//! at the end with *Dᵢ* = 0.
//!
//! Here *Qᵢ* = *wᵢ* *Q*: a weight times the discipline's quantum, or a quantum of the class's own.
//! In any time in which two classes stay backlogged the numbers of their turns differ by one at
//! most, and a deficit is at least 0 and less than the longest packet *Max*. So for the bytes *S*
//! that they send
//!
//! |S₁/Q₁ − S₂/Q₂| ≤ 1 + Max/Q₁ + Max/Q₂
//!
//! which is the paper's bound (Theorem 2, FM ≤ 2 Max + Q, there for equal quanta), whatever the
//! packets' lengths.
//!
//! Quanta shorter than the link's longest packet are refused: a turn would often send nothing, and
//! the work for a packet would grow with the number of classes (the paper's condition for O(1), Qᵢ
//! ≥ Max). A super-packet longer than the quantum waits for as many turns as it needs.
//!
//! Departures: a class whose queue is not work-conserving leaves the list like an empty one while
//! it waits. A head whose length has been examined is pinned, so its queue's decision about that
//! packet is final.

use crate::bounds::{RateLatency, Terms, WorstCase};
use crate::discipline::{
    Build, BuiltQueue, ChangedClass, DetachedQueue, Discipline, Next, Plan, Shares, Sink, Verdict,
};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties, QueuePlan};
use crate::link::Link;
use crate::packet::{ClassId, Packet};
use crate::portion::Portion;
use crate::prefetch::Prefetched;
use crate::reservation::{RequestedShare, ReservableTree, ReservedClass, Reserves, SIGNALLING};
use crate::settings;
use crate::settings::{Problem, SettingValue, Span, Table};
use crate::sharing::leaves::{Leaves, LeavesPlan, MANY};
use crate::sharing::reserved_classes::{class, divide, leaf, refuse_absolute, weights};
use crate::spec::{ClassSpec, DisciplineSpec};
use crate::structures::shared_list::SharedList;
use crate::units::{Bandwidth, Bytes, Duration, Instant};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "drr",
    summary: "Deficit round robin: classes take turns by bytes, in proportion to their weights",
    reference: "Shreedhar and Varghese, \"Efficient fair queueing using deficit round robin\", 1995",
    children: Children::Classes { nested: false },
    settings: Settings::SETTINGS,
    class_settings: ClassSettings::SETTINGS,
    properties: Properties {
        follows_any_rate: true,
        reserves: Some(&ByBytes),
        isolates: true,
        elsewhere: &["qfq", "ets"],
        vacancies: true,
        keeps_turns: true,
        ..Properties::NONE
    },
    check,
};

settings! {
    /// Settings of `drr`.
    pub struct Settings {
        /// What a class of weight 1 may send in its turn
        quantum: Bytes = derived "the link's longest packet",
            "too small is refused: turns that send nothing; too large: classes are served in long bursts",
            "Shreedhar and Varghese 1995, section 3";
    }
}

settings! {
    /// Settings of a class of `drr`.
    pub struct ClassSettings {
        /// Its share against the other classes, 1 to 10000
        weight: u32 = derived "1",
            "only the ratio to other weights counts; large weights make long turns",
            "equal shares";
        /// What it may send in its turn, instead of a weight
        quantum: Bytes = derived "`weight` times the discipline's `quantum`",
            "as the discipline's",
            "Shreedhar and Varghese 1995, section 3";
    }
}

const HEAVIEST: u32 = 10_000;
const LONGEST_QUANTUM: u64 = 1 << 40;

#[derive(Clone, Debug)]
struct DrrPlan {
    leaves: LeavesPlan,
    /// By leaf, in bytes; [`VACANT`] for a place.
    quanta: SharedList<u64>,
    /// Of weight 1.
    unit: u64,
    /// Their sum, and how many classes there are.
    shares: Shares,
}

/// The quantum of a place for a class.
const VACANT: u64 = 0;

/// A length that a turn may have.
fn turn(quantum: Bytes, link: Link) -> Result<u64, String> {
    let mtu = link.mtu;
    match quantum.get() {
        n if n < mtu.get() => Err(format!(
            "`quantum` is less than the link's longest packet ({mtu}): turns would send nothing"
        )),
        n if n > LONGEST_QUANTUM => Err(format!("`quantum` is more than {}", Bytes::new(LONGEST_QUANTUM))),
        n => Ok(n),
    }
}

/// The quantum of weight 1.
fn unit(settings: &Table, link: Link, problems: &mut Vec<Problem>) -> u64 {
    let own = Settings::read(settings, &[], problems).and_then(|settings| settings.quantum);
    turn(own.unwrap_or(link.mtu), link).unwrap_or_else(|message| {
        let at = settings.place("quantum");
        problems.push(Problem::new(at, message));
        link.mtu.get()
    })
}

/// The quantum of a class that stands at this place; `None` if a problem was reported.
fn quantum(unit: u64, table: &Table, at: Span, link: Link, problems: &mut Vec<Problem>) -> Option<u64> {
    let settings = ClassSettings::read(table, &[], problems)?;
    let own = match (settings.weight, settings.quantum) {
        (Some(_), Some(_)) => Err((
            "quantum",
            "`quantum` and `weight` exclude each other: both say how long a turn is".into(),
        )),
        (None, Some(own)) => turn(own, link).map_err(|message| ("quantum", message)),
        (weight, None) => match weight.unwrap_or(1) {
            weight @ 1..=HEAVIEST => Ok(unit * u64::from(weight)),
            weight => Err((
                "weight",
                format!("`weight` is a number from 1 to {HEAVIEST}; found {weight}"),
            )),
        },
    };
    own.map_err(|(key, message)| {
        let at = table.get(key).map_or(at, |entry| entry.at);
        problems.push(Problem::new(at, message));
    })
    .ok()
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let before = check.problems.len();
    let link = check.link;
    let unit = unit(check.settings, link, check.problems);
    let classes = check.classes.iter();
    let quanta = classes.filter_map(|class| match class.vacant {
        true => Some(VACANT),
        false => quantum(unit, class.settings, class.at, link, check.problems),
    });
    let quanta: SharedList<u64> = quanta.collect();
    (check.problems.len() == before).then(|| {
        Arc::new(DrrPlan {
            leaves: LeavesPlan::new(check),
            unit,
            shares: Shares {
                whole: quanta.iter().sum(),
                classes: quanta.iter().map(|&quantum| count(quantum)).sum(),
            },
            quanta,
        }) as Arc<dyn Plan>
    })
}

fn plan_of(plan: &dyn Plan) -> Option<&DrrPlan> {
    let plan: &dyn Any = plan;
    plan.downcast_ref()
}

/// How many classes are in a place with this quantum.
fn count(quantum: u64) -> u64 {
    u64::from(quantum != VACANT)
}

impl DrrPlan {
    /// The quantum in what runs of a leaf with this one: what may wait in a place has turns, too,
    /// since turns that send nothing would have no end.
    fn running(&self, quantum: u64) -> u64 {
        match quantum {
            VACANT => self.unit,
            quantum => quantum,
        }
    }

    /// Those of all leaves.
    fn all_running(&self) -> impl Iterator<Item = u64> + '_ {
        self.quanta.iter().map(|&quantum| self.running(quantum))
    }
}

impl Plan for DrrPlan {
    /// With *F* the sum of all quanta, a class that starts with nothing and is to send *a* bytes
    /// needs ⌈*a* / *Qᵢ*⌉ turns; until the last is over every other has had as many, and the
    /// deficit, less than a packet, that it brought along. So its queueing delay is at most *a* *F*
    /// / *Qᵢ* + (*F* − *Qᵢ*) + (*n* − 1) *Max* bytes and what is in the device. The same holds from
    /// any time at which it has a backlog: waiting for its turn, or in the middle of one, it needs
    /// no more turns than that (Boyer, Stea and Sofack, "Deficit round robin with network
    /// calculus", 2012).
    fn bounds(&self, terms: &Terms<'_>) -> Vec<WorstCase> {
        let Shares { whole, classes } = self.shares;
        let deficits = u128::from(terms.longest.get()) * u128::from(classes.saturating_sub(1));
        let case = |((class, name, queue), &part): ((ClassId, &str, &QueuePlan), &u64)| {
            let before = u128::from(whole - part) + deficits + u128::from(terms.ahead.get());
            let service = RateLatency {
                part,
                whole,
                grain: terms.grain.max(terms.longest),
                ..RateLatency::after(before, terms.link.bandwidth)
            };
            let own = WorstCase {
                class: Some(class),
                bound: queue.kind.worst(class, terms, service),
            };
            std::iter::once(own).chain(queue.bounds_inside(name, terms, Ok(service)))
        };
        let all = self.leaves.each().zip(&self.quanta);
        let there = all.filter(|(_, quantum)| **quantum != VACANT);
        there.flat_map(case).collect()
    }

    fn conserves_work(&self) -> bool {
        self.leaves.conserve_work()
    }

    fn serves(&self, class: Option<ClassId>, link: Bandwidth) -> Option<Bandwidth> {
        self.leaves.serves(class, link, |leaf| {
            let part = u128::from(*self.quanta.get(leaf)?);
            let bits = u128::from(link.bits()) * part / u128::from(self.shares.whole.max(1));
            Some(Bandwidth::bits_per_sec(bits as u64))
        })
    }

    fn shares(&self) -> Option<Shares> {
        self.leaves.pass_all().then_some(self.shares)
    }

    fn part_of(&self, class: ClassId) -> Option<u64> {
        self.quanta.get(self.leaves.leaf_of(class)?).copied()
    }

    fn amended(&self, change: &ChangedClass<'_>) -> Option<Arc<dyn Plan>> {
        let leaf = self.leaves.leaf_of(change.class)?;
        let mut problems = Vec::new();
        let unit = unit(change.of_discipline, change.link, &mut problems);
        let former = *self.quanta.get(leaf)?;
        let own = match change.renewed.map_or(former == VACANT, |new| new.vacant) {
            true => VACANT,
            false => quantum(unit, change.settings, Span::default(), change.link, &mut problems)?,
        };
        let mut plan = self.clone();
        *plan.quanta.get_mut(leaf)? = own;
        plan.shares = Shares {
            whole: self.shares.whole - former + own,
            classes: self.shares.classes - count(former) + count(own),
        };
        if let Some(new) = &change.renewed {
            plan.leaves = self.leaves.renewed(leaf, new)?;
        }
        problems.is_empty().then(|| Arc::new(plan) as Arc<dyn Plan>)
    }

    fn changed_classes(&self, former: &dyn Plan, queues: bool) -> Option<Vec<ClassId>> {
        let former = plan_of(former).filter(|former| self.leaves.is_numbered_as(&former.leaves))?;
        let quanta = self.all_running().zip(former.all_running());
        let all = self.leaves.each().zip(quanta);
        let changed = all.filter(|(_, (new, old))| queues || new != old);
        Some(changed.map(|((class, ..), _)| class).collect())
    }

    fn settings_of(&self, class: ClassId) -> Vec<(&'static str, Value)> {
        let quantum = self.part_of(class).map(|quantum| self.running(quantum));
        quantum.into_iter().map(shown).collect()
    }

    fn build_class(&self, class: ClassId, cx: &Build) -> Option<BuiltQueue> {
        self.leaves.build_class(class, cx)
    }

    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        let member = |quantum| Member { quantum, deficit: 0 };
        Box::new(Drr {
            leaves: self.leaves.build(cx),
            members: self.all_running().map(member).collect(),
            active: VecDeque::with_capacity(self.quanta.len()),
            has_turn: false,
            fetched: 0,
        })
    }
}

/// How a class shows its quantum.
fn shown(quantum: u64) -> (&'static str, Value) {
    ("quantum", Value::Bytes(Bytes::new(quantum)))
}

/// For so many turns at once the memory of very many classes is read ahead.
const AHEAD: usize = 16;

/// A class.
#[derive(Clone, Copy, Debug)]
struct Member {
    quantum: u64,
    /// Less than 0 if its next quantum was spent in another tree.
    deficit: i64,
}

#[derive(Debug)]
struct Drr {
    leaves: Leaves,
    members: Vec<Member>,
    /// The active classes in the order of their turns; each is in it once, so it never grows.
    active: VecDeque<u32>,
    /// Whether the first has had its quantum.
    has_turn: bool,
    /// For how many turns the memory has been read.
    fetched: usize,
}

impl Drr {
    /// A class becomes active. Its deficit is 0 since it was last, or what it had in another tree,
    /// so that its memory is not needed before its turn.
    fn activate(&mut self, leaf: usize) {
        self.active.push_back(leaf as u32);
    }

    /// Takes the first class out of the list.
    #[inline]
    fn end_turn(&mut self) {
        self.active.pop_front();
        self.has_turn = false;
        self.fetched = self.fetched.saturating_sub(1);
    }

    #[inline]
    fn deactivate_first(&mut self, leaf: usize) {
        self.end_turn();
        self.members[leaf].deficit = 0;
    }

    /// Reads what the next turns need.
    #[cold]
    #[inline(never)]
    fn fetch(&mut self) {
        let next = || self.active.iter().take(AHEAD).map(|&leaf| leaf as usize);
        let read = next().fold(Prefetched::NOTHING, |read, leaf| {
            let member = Prefetched::word(self.members[leaf].deficit as u64);
            read.and(member).and(self.leaves.prefetch(leaf))
        });
        let read = next().fold(read, |read, leaf| read.and(self.leaves.prefetch_discipline(leaf)));
        read.done();
        self.fetched = AHEAD;
    }
}

impl Discipline for Drr {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        let (verdict, ready) = self.leaves.enqueue(now, packet, sink);
        if let Some(leaf) = ready {
            self.activate(leaf);
        }
        verdict
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        while let Some(leaf) = self.leaves.wake(now) {
            self.activate(leaf);
        }
        while let Some(&leaf) = self.active.front() {
            let leaf = leaf as usize;
            if self.fetched == 0 && self.members.len() >= MANY {
                self.fetch();
            }
            let Some(len) = self.leaves.peek(leaf, now, sink) else {
                self.deactivate_first(leaf);
                continue;
            };
            let member = &mut self.members[leaf];
            if !std::mem::replace(&mut self.has_turn, true) {
                member.deficit += member.quantum as i64;
            }
            if len.get() as i64 > member.deficit {
                self.end_turn();
                self.active.push_back(leaf as u32);
                continue;
            }
            member.deficit -= len.get() as i64;
            let next = self.leaves.dequeue(leaf, now, sink);
            if !self.leaves.is_ready(leaf) {
                self.deactivate_first(leaf);
            }
            if let Next::Ready(_) = next {
                return next;
            }
        }
        self.leaves.rest()
    }

    fn prefetch_arrivals(&self, packets: &[Packet]) -> Prefetched {
        self.leaves.prefetch_arrivals(packets)
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        // In the order of their turns, which is theirs in another tree then.
        while let Some(&leaf) = self.active.front().filter(|_| !portion.is_spent()) {
            self.leaves.flush_leaf(leaf as usize, portion, sink);
            if portion.is_spent() {
                return;
            }
            self.deactivate_first(leaf as usize);
            portion.looked();
        }
        self.leaves.flush(portion, sink);
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        out.gauge("active", Value::Count(self.active.len() as u64));
        self.leaves.inspect(out, |leaf, out| {
            let Member { quantum, deficit, .. } = self.members[leaf];
            out.show(shown(quantum));
            out.gauge("deficit", Value::Bytes(Bytes::new(deficit.max(0) as u64)));
        });
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let Some(plan) = plan_of(plan) else { return false };
        if !self.leaves.is_alike(&plan.leaves) {
            return false;
        }
        self.members
            .iter_mut()
            .zip(plan.all_running())
            .for_each(|(member, quantum)| member.quantum = quantum);
        self.leaves.retune(now, &plan.leaves)
    }

    fn retune_own(&mut self, _now: Instant, plan: &dyn Plan) -> bool {
        // Quanta are the classes'.
        plan_of(plan).is_some()
    }

    fn retune_class(&mut self, now: Instant, plan: &dyn Plan, class: ClassId) -> bool {
        let known = plan_of(plan).and_then(|plan| Some((plan, self.leaves.known(&plan.leaves, class)?)));
        known.is_some_and(|(plan, leaf)| {
            self.members[leaf].quantum = plan.running(plan.quanta[leaf]);
            self.leaves.retune_one(now, &plan.leaves, leaf)
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
        let former = self.leaves.renew(&plan.leaves, leaf, queue);
        let quantum = plan.running(plan.quanta[leaf]);
        // One that was active stays where it is in the list until its turn.
        self.members[leaf] = Member { quantum, deficit: 0 };
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
        let leaves = |former: &mut Self| Some((former.leaves.own(was)?, self.leaves.own(class)?));
        let Some(former) = former.of_type::<Self>() else {
            return;
        };
        let Some((was, leaf)) = leaves(former) else { return };
        // One whose queue has dropped its backlog in its turn takes a new turn when packets come.
        if former.leaves.packets(was) == 0 {
            return;
        }
        let new = &mut self.members[leaf];
        new.deficit = former.members[was].deficit;
        if former.has_turn && former.active.front() == Some(&(was as u32)) {
            // Its turn goes on, and begins with a quantum here.
            new.deficit -= new.quantum as i64;
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

/// Reservations as quanta *k r*, with one *k* for all classes, so large that the least of them has
/// a full packet.
#[derive(Debug)]
struct ByBytes;

impl ByBytes {
    /// The least quantum.
    fn unit(tree: &ReservableTree) -> u64 {
        let given = tree.spec.settings.get("quantum");
        let given = given.and_then(|entry| Bytes::from_raw(&entry.value).ok());
        let mtu = tree.link.mtu;
        given.unwrap_or(mtu).max(mtu).get()
    }
}

impl Reserves for ByBytes {
    fn bounds_delays(&self) -> bool {
        true
    }

    fn capacity(&self, requested: &RequestedShare<'_>, problems: &mut Vec<Problem>) -> Bandwidth {
        refuse_absolute(requested.spec, "quantum", problems);
        requested.share
    }

    fn counts(&self, tree: &ReservableTree, rate: Bandwidth) -> Bandwidth {
        rate.max(tree.smallest)
    }

    fn add(&self, tree: &ReservableTree, spec: &mut DisciplineSpec, reservations: &[ReservedClass]) {
        keep_signalling_apart(spec);
        let (unit, link) = (Self::unit(tree), tree.link.bandwidth);
        let bits = |rate: Bandwidth| u128::from(rate.bits());
        let weights = weights(spec);
        let taken: u128 = reservations.iter().map(|reserved| bits(reserved.rate)).sum();
        let left = divide(&weights, bits(link).saturating_sub(taken));
        let least = reservations
            .iter()
            .map(|reserved| bits(reserved.rate))
            .chain(left)
            .min()
            .unwrap_or(1)
            .max(1);
        // Rounding takes at most a byte from each class, and the policy's bear all of it.
        let unit = u128::from(unit) + reservations.len() as u128 + weights.len() as u128;
        let quantum = |rate: u128| (unit * rate).div_ceil(least);
        let length = |bytes: u128| Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX));
        let guaranteed: u128 = reservations
            .iter()
            .map(|reserved| quantum(bits(reserved.rate)))
            .sum();
        let left = divide(&weights, (unit * bits(link) / least).saturating_sub(guaranteed));
        for (class, part) in spec.classes.iter_mut().zip(left) {
            class.settings.entries.retain(|entry| entry.key != "weight");
            class.settings = std::mem::take(&mut class.settings).with("quantum", length(part));
        }
        for reserved in reservations {
            let own = Table::default().with("quantum", length(quantum(bits(reserved.rate))));
            spec.classes.push(leaf(reserved, own));
        }
    }

    /// The longest turn, which follows from the least class that there can be, a packet of each
    /// class beyond it, and what is in the device.
    fn worst_delay(&self, tree: &ReservableTree) -> Option<Duration> {
        let link = tree.link;
        let weights = weights(&tree.spec);
        let rest = link.bandwidth - tree.capacity;
        let least = divide(&weights, rest.bits().into())
            .into_iter()
            .min()
            .unwrap_or(1);
        let least = Bandwidth::bits_per_sec(least as u64).min(tree.smallest);
        let classes = tree.capacity.bits() / tree.smallest.bits().max(1) + weights.len() as u64;
        let longest = link.longest();
        // Rounded up class by class.
        let turn = u128::from(link.mtu.get() + classes + 1) * u128::from(link.bandwidth.bits())
            / u128::from(least.bits().max(1));
        let turn = Bytes::new(u64::try_from(turn).ok()?);
        let all = turn + longest.times(classes) + link.ahead(longest);
        Some(link.bandwidth.time_to_send(all))
    }
}

/// Divides the default class by DRR with equal quanta: its packets, and the signalling's.
pub(super) fn keep_signalling_apart(spec: &mut DisciplineSpec) {
    let Some(default) = spec.classes.iter_mut().find(|class| class.default) else {
        return;
    };
    let other = ClassSpec {
        name: format!("{}-other", default.name).into(),
        at: default.at,
        default: true,
        discipline: default.discipline.take(),
        ..ClassSpec::default()
    };
    default.discipline = Some(DisciplineSpec {
        at: default.at,
        classes: vec![class(SIGNALLING, Table::default()), other].into(),
        ..DisciplineSpec::of(&KIND)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::ArrivalCurve;
    use crate::queue::Queue;
    use crate::random::{Rng, Seed};
    use crate::settings::{Raw, SettingValue, Table};
    use crate::sinks::Nowhere;
    use crate::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
    use crate::trials;
    use crate::units::Bandwidth;
    use proptest::prelude::*;

    fn check(tables: Vec<Table>) -> Result<Queue, Vec<Problem>> {
        let class = |(i, settings): (usize, Table)| ClassSpec {
            name: i.to_string().into(),
            default: i == 0,
            settings,
            ..ClassSpec::default()
        };
        let spec = DisciplineSpec {
            classes: tables.into_iter().enumerate().map(class).collect(),
            ..DisciplineSpec::new("drr")
        };
        let link = Link::new(Bandwidth::mbit(100), Bytes::new(1_514));
        spec.check(&Registry::builtin(), link)
            .map(|plan| plan.build(Seed(1)))
    }

    fn weighing(weights: &[u32]) -> Queue {
        let table = |&weight: &u32| Table::default().with("weight", Raw::Integer(weight.into()));
        check(weights.iter().map(table).collect()).expect("a good plan")
    }

    fn offer(queue: &mut Queue, class: usize, len: u64) {
        let packet = Packet::new(Bytes::new(len), Instant::START, ClassId(class as u32));
        assert_eq!(
            queue.enqueue(Instant::START, packet, &mut Nowhere),
            Verdict::Queued
        );
    }

    fn next(queue: &mut Queue) -> Option<(usize, u64)> {
        match queue.dequeue(Instant::START, &mut Nowhere) {
            Next::Ready(packet) => Some((packet.class.0 as usize, packet.len.get())),
            _ => None,
        }
    }

    /// A length up to `longest`, of a class that sends small, large, equal or any packets.
    fn len(rng: &mut Rng, style: u64, longest: u64) -> u64 {
        1 + match style % 4 {
            0 => rng.below(longest.min(100)),
            1 => longest - 1 - rng.below(longest.min(100)),
            2 => style % longest,
            _ => rng.below(longest),
        }
    }

    proptest! {
        /// The largest variation of the difference of normalised service of two classes, over all
        /// intervals in which both are backlogged, is the bound on any one interval. `mask` selects
        /// the classes that are always backlogged.
        #[test]
        fn two_backlogged_classes_are_never_further_apart_than_the_bound(
            weights in prop::collection::vec(1u32..12, 2..7),
            mask in any::<u8>(),
            longest in prop_oneof![Just(64u64), Just(1_514), 65..65_000u64],
            seed in any::<u64>(),
        ) {
            let mut rng = Seed(seed).stream();
            let mut queue = weighing(&weights);
            let styles: Vec<u64> = weights.iter().map(|_| rng.bits()).collect();
            let always = |class: usize| class < 2 || mask >> class & 1 == 1;
            for class in (0..weights.len()).filter(|&class| always(class)) {
                (0..2).for_each(|_| offer(&mut queue, class, len(&mut rng, styles[class], longest)));
            }
            let mut sent = vec![0u64; weights.len()];
            let mut range = vec![(0f64, 0f64); weights.len()];
            let quantum = |class: usize| f64::from(weights[class]) * 1_514.0;
            for _ in 0..3_000 {
                let (class, bytes) = next(&mut queue).expect("a backlog");
                sent[class] += bytes;
                if always(class) {
                    offer(&mut queue, class, len(&mut rng, styles[class], longest));
                }
                let comer = rng.below(weights.len() as u64) as usize;
                if !always(comer) && rng.below(3) == 0 {
                    let packet = Packet::new(Bytes::new(len(&mut rng, styles[comer], longest)), Instant::START, ClassId(comer as u32));
                    let _ = queue.enqueue(Instant::START, packet, &mut Nowhere);
                }
                for other in (1..weights.len()).filter(|&class| always(class)) {
                    let apart = sent[0] as f64 / quantum(0) - sent[other] as f64 / quantum(other);
                    let (least, most) = &mut range[other];
                    (*least, *most) = (least.min(apart), most.max(apart));
                    let bound = 1.0 + longest as f64 / quantum(0) + longest as f64 / quantum(other);
                    prop_assert!(*most - *least <= bound + 1e-6, "{} turns apart, bound {bound}", *most - *least);
                }
            }
        }
    }

    #[test]
    fn shares_are_by_bytes_whatever_the_lengths() {
        let mut queue = weighing(&[4, 6]);
        let lens = [200, 1_500];
        for class in [0, 1] {
            (0..80).for_each(|_| offer(&mut queue, class, lens[class]));
        }
        let mut sent = [0u64; 2];
        for _ in 0..50_000 {
            let (class, bytes) = next(&mut queue).expect("a backlog");
            sent[class] += bytes;
            offer(&mut queue, class, lens[class]);
        }
        let share = sent[0] * 1_000 / (sent[0] + sent[1]);
        assert!((399..=401).contains(&share), "{share} thousandths of the bytes");
    }

    #[test]
    fn a_class_that_comes_back_has_no_deficit_and_stands_at_the_end() {
        let mut queue = weighing(&[1, 1, 1]);
        // Class 0 sends 14 bytes of its quantum and could keep 1,500.
        offer(&mut queue, 0, 14);
        assert_eq!(next(&mut queue), Some((0, 14)));
        (0..2).for_each(|_| offer(&mut queue, 1, 1_514));
        (0..2).for_each(|_| offer(&mut queue, 2, 1_514));
        assert_eq!(next(&mut queue), Some((1, 1_514)));
        (0..3).for_each(|_| offer(&mut queue, 0, 1_000));
        let order: Vec<usize> = std::iter::from_fn(|| next(&mut queue))
            .map(|(class, _)| class)
            .collect();
        assert_eq!(order, [2, 0, 1, 2, 0, 0], "one of 1,514 bytes, then two of 2,028");
    }

    #[test]
    fn settings_that_cannot_work_are_refused_with_a_reason() {
        let cases = [
            (
                Table::default().text("quantum", "1000 B"),
                "less than the link's longest packet",
            ),
            (
                Table::default().with("weight", Raw::Integer(0)),
                "from 1 to 10000",
            ),
            (
                Table::default()
                    .with("weight", Raw::Integer(2))
                    .text("quantum", "3 kB"),
                "exclude each other",
            ),
        ];
        for (table, message) in cases {
            let problems = check(vec![Table::default(), table]).expect_err("cannot work");
            assert!(problems[0].message.contains(message), "{problems:?}");
        }
    }

    const WIDE: Link = Link::new(Bandwidth::mbit(100), Bytes::new(1_000));

    #[test]
    fn memory_is_read_ahead_for_sixteen_turns_of_very_many_classes_alone() {
        for (classes, ahead) in [(MANY - 1, 0), (MANY, AHEAD)] {
            let class = |number: usize| ClassSpec {
                name: number.to_string().into(),
                default: number == 0,
                ..ClassSpec::default()
            };
            let spec = DisciplineSpec {
                classes: (0..classes).map(class).collect(),
                ..DisciplineSpec::new("drr")
            };
            let plan = spec.check(&Registry::builtin(), WIDE).expect("a good plan");
            let mut built = trials::built(&plan.root);
            let drr = built.of_type::<Drr>().expect("a `drr`");
            for class in 0..20 {
                let packet = Packet::new(Bytes::new(100), Instant::START, ClassId(class));
                let _ = drr.enqueue(Instant::START, packet, &mut Nowhere);
            }
            for turn in 1..=20 {
                assert!(matches!(
                    drr.dequeue(Instant::START, &mut Nowhere),
                    Next::Ready(_)
                ));
                let left = (2 * ahead).saturating_sub(turn) % AHEAD.max(1);
                assert_eq!(drr.fetched, left, "after {turn} turns of {classes} classes");
            }
        }
    }

    fn tree(weights: &[i64], capacity: u64, smallest: u64) -> ReservableTree {
        let class = |(number, &weight): (usize, &i64)| ClassSpec {
            name: number.to_string().into(),
            default: number == 0,
            settings: Table::default().with("weight", Raw::Integer(weight)),
            ..ClassSpec::default()
        };
        let spec = DisciplineSpec {
            classes: weights.iter().enumerate().map(class).collect(),
            ..DisciplineSpec::new("drr")
        };
        ReservableTree {
            spec,
            link: WIDE,
            capacity: Bandwidth::mbit(capacity),
            smallest: Bandwidth::mbit(smallest),
            largest: Bandwidth::mbit(capacity),
        }
    }

    fn reserved(number: u64, mbit: u64) -> ReservedClass {
        let rate = Bandwidth::mbit(mbit);
        let burst = Bytes::new(1_000);
        ReservedClass {
            number,
            rate,
            sends: ArrivalCurve { rate, burst },
            least: burst,
            latency: None,
            limit: 10,
            priority: 0,
            filters: Vec::new(),
        }
    }

    /// The quanta of the policy's classes, and of the reservations of so many Mbit/s.
    fn quanta(tree: &ReservableTree, rates: &[u64]) -> Vec<u64> {
        let reservations: Vec<ReservedClass> = (1..)
            .zip(rates)
            .map(|(number, &mbit)| reserved(number, mbit))
            .collect();
        let mut spec = tree.spec.clone();
        ByBytes.add(tree, &mut spec, &reservations);
        let quantum = |class: &ClassSpec| {
            assert_eq!(class.settings.entries.len(), 1, "no weight beside it");
            let entry = class.settings.get("quantum").expect("a quantum");
            Bytes::from_raw(&entry.value).expect("a length").get()
        };
        spec.classes.iter().map(quantum).collect()
    }

    #[test]
    fn quanta_are_as_the_rates_with_a_packet_and_a_byte_of_each_class_for_the_least() {
        // 1,000 bytes and 3 classes for 20 Mbit/s: 5,015 in a round, of which 4,012 are left.
        assert_eq!(quanta(&tree(&[1, 1], 90, 1), &[20]), [2_006, 2_006, 1_003]);
        assert_eq!(
            quanta(&tree(&[3, 1], 90, 1), &[10, 30]),
            [4_518, 1_506, 1_004, 3_012]
        );
        // The least is one of the policy's.
        assert_eq!(quanta(&tree(&[1, 1], 90, 1), &[80]), [1_003, 1_003, 8_024]);
        // A third more than 1,003 bytes, rounded up; the policy's class bears it.
        assert_eq!(quanta(&tree(&[1], 90, 1), &[30, 40]), [1_002, 1_003, 1_338]);
    }

    #[test]
    fn the_least_quantum_is_the_stated_one_and_a_full_packet_at_least() {
        for (stated, unit) in [("3000 B", 3_000), ("10 B", 1_000)] {
            let mut tree = tree(&[1], 90, 1);
            tree.spec.settings = Table::default().text("quantum", stated);
            assert_eq!(ByBytes::unit(&tree), unit);
        }
        assert_eq!(ByBytes::unit(&tree(&[1], 90, 1)), 1_000);
        let counts = |mbit| ByBytes.counts(&tree(&[1], 90, 5), Bandwidth::mbit(mbit));
        assert_eq!([counts(4), counts(6)], [5, 6].map(Bandwidth::mbit));
    }

    #[test]
    fn the_worst_delay_is_the_longest_turn_and_a_packet_of_each_class() {
        let worst =
            |weights: &[i64], capacity, smallest| ByBytes.worst_delay(&tree(weights, capacity, smallest));
        let longest = WIDE.longest();
        let expected = |turn: u64, classes: u64| {
            let all = Bytes::new(turn) + longest.times(classes) + WIDE.ahead(longest);
            Some(WIDE.bandwidth.time_to_send(all))
        };
        // 1,000 bytes, and one for each of six classes and one more, for 10 of 100 Mbit/s.
        assert_eq!(worst(&[1, 1], 40, 10), expected(1_007 * 10, 6));
        // The policy's have 5 Mbit/s each.
        assert_eq!(worst(&[1, 1], 90, 10), expected(1_012 * 20, 11));
        assert_eq!(worst(&[3, 1], 80, 10), expected(1_011 * 20, 10));
    }

    #[test]
    fn a_turn_is_from_a_packet_to_a_tebibyte() {
        let turn = |n| turn(Bytes::new(n), WIDE).is_ok();
        assert_eq!(
            [999, 1_000, 1 << 40, (1 << 40) + 1].map(turn),
            [false, true, true, false]
        );
        let weight = |weight| check(vec![Table::default().with("weight", Raw::Integer(weight))]).is_ok();
        assert_eq!([0, 1, 10_000, 10_001].map(weight), [false, true, true, false]);
    }

    /// A tree of classes of these weights; 0 for a place.
    fn among_places(weights: &[i64], settings: Table) -> TreePlan {
        let class = |(number, &weight): (usize, &i64)| match weight {
            0 => ClassSpec::place(number, None),
            _ => ClassSpec {
                name: number.to_string().into(),
                default: number == 0,
                settings: Table::default().with("weight", Raw::Integer(weight)),
                ..ClassSpec::default()
            },
        };
        let spec = DisciplineSpec {
            settings,
            classes: weights.iter().enumerate().map(class).collect(),
            ..DisciplineSpec::new("drr")
        };
        spec.check(&Registry::builtin(), WIDE).expect("a good plan")
    }

    #[test]
    fn a_place_for_a_class_has_no_part_and_makes_no_bound_longer() {
        let plain = among_places(&[2, 1, 5], Table::default());
        let places = among_places(&[2, 0, 1, 0, 5], Table::default());
        let expected = Shares {
            whole: 8_000,
            classes: 3,
        };
        assert_eq!(
            (plain.shares(), places.shares()),
            (Some(expected), Some(expected))
        );
        let parts = |plan: &TreePlan| [0, 1, 2, 3, 4, 5].map(|class| plan.part_of(ClassId(class)));
        assert_eq!(
            parts(&places),
            [Some(2_000), Some(0), Some(1_000), Some(0), Some(5_000), None]
        );
        let arrivals = [Some(ArrivalCurve {
            rate: Bandwidth::mbit(1),
            burst: Bytes::new(3_000),
        }); 5];
        let delays = |plan: &TreePlan| {
            let terms = Terms {
                link: WIDE,
                longest: WIDE.longest(),
                arrivals: &arrivals,
                ahead: Bytes::new(1_000),
                grain: Bytes::ZERO,
                shortest: Bytes::ZERO,
            };
            let cases = plan.root.plan.bounds(&terms).into_iter();
            cases
                .map(|case| case.bound.map(|bound| bound.delay))
                .collect::<Vec<_>>()
        };
        assert_eq!(delays(&places), delays(&plain));
        assert!(delays(&plain).iter().all(Result::is_ok));
    }

    #[test]
    fn what_is_left_in_a_place_leaves_by_turns_of_weight_one() {
        let settings = Table::default().text("quantum", "1500 B");
        let plan = among_places(&[1, 0], settings);
        let mut queue = plan.build(Seed(1));
        for class in [1, 1, 0, 0] {
            offer(&mut queue, class, 1_000);
        }
        let order: Vec<_> = std::iter::from_fn(|| next(&mut queue)).collect();
        assert_eq!(order, [1, 0, 1, 0].map(|class| (class, 1_000)));
        let shown = plan.root.plan.settings_of(ClassId(1));
        assert_eq!(shown, [super::shown(1_500)]);
        // Of another unit, also where it changes.
        let wider = among_places(&[1, 0], Table::default().text("quantum", "3 kB"));
        let changed = wider.root.plan.changed_classes(&*plan.root.plan, false);
        assert_eq!(changed, Some(vec![ClassId(0), ClassId(1)]));
    }

    #[test]
    fn parts_are_told_only_where_each_queue_passes_on_all_of_its_own() {
        let told = |queue: DisciplineSpec| {
            let class = |(name, discipline): (&str, Option<DisciplineSpec>)| ClassSpec {
                name: name.into(),
                default: name == "a",
                discipline,
                ..ClassSpec::default()
            };
            let spec = DisciplineSpec {
                classes: [("a", None), ("b", Some(queue))].map(class).into_iter().collect(),
                ..DisciplineSpec::new("drr")
            };
            let plan = spec.check(&Registry::builtin(), WIDE).expect("a good plan");
            plan.shares().map(|shares| shares.whole)
        };
        let inner = || DisciplineSpec {
            classes: vec![ClassSpec {
                name: "c".into(),
                default: true,
                ..ClassSpec::default()
            }]
            .into(),
            ..DisciplineSpec::new("drr")
        };
        let around = |kind: &str, settings: Table, child: DisciplineSpec| DisciplineSpec {
            settings,
            child: Some(Box::new(child)),
            ..DisciplineSpec::new(kind)
        };
        let fifo = || DisciplineSpec::new("fifo");
        let shaper = Table::default().text("rate", "8 kbit/s");
        assert_eq!(told(fifo()), Some(2_000));
        assert_eq!(told(around("red", Table::default(), fifo())), Some(2_000));
        assert_eq!(told(around("tbf", shaper, fifo())), None);
        assert_eq!(told(inner()), None);
        assert_eq!(told(around("red", Table::default(), inner())), None);
    }
}
