//! `priq`: strict priority. Of the backlogged classes, the one with the largest priority sends.
//!
//! Follows the PRIQ of ALTQ (altq.conf(5)): each class has a priority of its own and a queue of its
//! own, and a packet of a lower class leaves only when no higher class has one. Departures: 256
//! priorities (ALTQ: 16); the first is found in a bitmap, whatever their number (ALTQ: a loop over
//! all); a queue of any kind, whose limit is its own setting; and a class whose queue is not
//! work-conserving does not block those below it while it waits.
//!
//! Guaranteed: a packet of a class waits for the packets of its own and of higher classes, and for
//! one packet that is being sent. Not guaranteed: anything to a lower class while higher classes
//! have enough to send.

use crate::bounds::{ArrivalCurve, PriorityClass, RateLatency, Terms, WorstCase, strict_priority};
use crate::discipline::{
    Build, BuiltQueue, ChangedClass, DetachedQueue, Discipline, Next, Plan, Sink, Verdict,
};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties, QueuePlan};
use crate::packet::{ClassId, Packet};
use crate::portion::Portion;
use crate::settings;
use crate::settings::{Problem, Span, Table, refuse_unknown};
use crate::sharing::leaves::{Leaves, LeavesPlan};
use crate::structures::shared_list::SharedList;
use crate::units::{Bandwidth, Instant};
use std::any::Any;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "priq",
    summary: "Strict priority: the class with the largest priority sends first",
    reference: "ALTQ, altq.conf(5), \"PRIQ commands\"",
    children: Children::Classes { nested: false },
    settings: &[],
    class_settings: ClassSettings::SETTINGS,
    properties: Properties {
        follows_any_rate: true,
        vacancies: true,
        keeps_turns: true,
        elsewhere: &["prio", "pfifo_fast"],
        ..Properties::NONE
    },
    check,
};

settings! {
    /// Settings of a class of `priq`.
    pub struct ClassSettings {
        /// Its priority, 0 to 255, one class each; the larger is served first
        priority: u32 = required,
            "larger: less delay for it, and more power to starve the others",
            "ALTQ, which had 0 to 15";
    }
}

const PRIORITIES: usize = 256;

#[derive(Clone, Debug)]
struct PriqPlan {
    leaves: LeavesPlan,
    /// By leaf; a vacant place has none.
    priorities: SharedList<Option<u8>>,
}

/// How a class, or a place for one, shows its priority.
fn shown(priority: Option<u8>) -> (&'static str, Value) {
    ("priority", Value::Count(u64::from(priority.unwrap_or_default())))
}

fn plan_of(plan: &dyn Plan) -> Option<&PriqPlan> {
    let plan: &dyn Any = plan;
    plan.downcast_ref()
}

/// The priority of a class that stands at this place; `None` if a problem was reported.
fn priority(table: &Table, at: Span, problems: &mut Vec<Problem>) -> Option<u8> {
    let number = ClassSettings::read(table, &[], problems)?.priority;
    let priority = u8::try_from(number).ok();
    if priority.is_none() {
        let at = table.get("priority").map_or(at, |entry| entry.at);
        let message =
            format!("`priority` is a number from 0 to 255, the larger served first; found {number}");
        problems.push(Problem::new(at, message));
    }
    priority
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let before = check.problems.len();
    refuse_unknown(check.settings, &[], &[], check.problems);
    let mut owners: [Option<&str>; PRIORITIES] = [None; PRIORITIES];
    let mut priorities = Vec::new();
    for class in &check.classes {
        if class.vacant {
            priorities.push(None);
            continue;
        }
        let Some(priority) = priority(class.settings, class.at, check.problems) else {
            continue;
        };
        if let Some(owner) = owners[usize::from(priority)].replace(class.name) {
            let message = format!(
                "classes `{owner}` and `{}` both have priority {priority}",
                class.name
            );
            let at = class.settings.get("priority").map_or(class.at, |entry| entry.at);
            let help = "give each a priority of its own, or put one class here and let its discipline share (`drr`, `wfq`)";
            check.problems.push(Problem::new(at, message).help(help));
        }
        priorities.push(Some(priority));
    }
    (check.problems.len() == before).then(|| {
        Arc::new(PriqPlan {
            leaves: LeavesPlan::new(check),
            priorities: priorities.into(),
        }) as Arc<dyn Plan>
    })
}

impl PriqPlan {
    /// Each class, with its priority.
    fn classes(&self) -> impl Iterator<Item = ((ClassId, &str, &QueuePlan), u8)> {
        let all = self.leaves.each().zip(&self.priorities);
        all.filter_map(|(class, priority)| Some((class, (*priority)?)))
    }

    /// The classes whose arrivals are bounded, from the highest priority down to the first whose
    /// senders state none or whose queue may accumulate packets; and that one.
    fn bounded(&self, terms: &Terms<'_>) -> (Vec<PriorityClass>, Option<(u8, &str)>) {
        let mut order: Vec<_> = self.classes().collect();
        order.sort_by_key(|(_, priority)| std::cmp::Reverse(*priority));
        let mut bounded = Vec::new();
        for ((class, name, queue), priority) in order {
            let arrivals = terms.arrivals(class).ok().filter(|_| queue.conserves_work());
            let Some(arrivals) = arrivals else {
                return (bounded, Some((priority, name)));
            };
            bounded.push(PriorityClass {
                priority: priority.into(),
                arrivals,
            });
        }
        (bounded, None)
    }
}

impl Plan for PriqPlan {
    fn bounds(&self, terms: &Terms<'_>) -> Vec<WorstCase> {
        let (bounded, first) = self.bounded(terms);
        let mut services = strict_priority(terms.link.bandwidth, terms.ahead, &bounded);
        services
            .iter_mut()
            .for_each(|service| service.grain = terms.grain);
        // To the highest without a stated curve, what the ones above it leave.
        let above: ArrivalCurve = bounded.iter().map(|class| class.arrivals).sum();
        let left = RateLatency {
            grain: terms.grain,
            ..RateLatency::after(
                (above.burst + terms.ahead).get().into(),
                terms.link.bandwidth - above.rate,
            )
        };
        let case = |((class, name, queue), priority): ((ClassId, &str, &QueuePlan), u8)| {
            let place = bounded
                .iter()
                .position(|other| other.priority == u32::from(priority));
            let service = match (place, first) {
                (Some(place), _) => Ok(services[place]),
                (None, Some((higher, name))) if higher > priority => Err(format!(
                    "`{name}` goes before it, and nothing bounds what that sends"
                )),
                _ => Ok(left),
            };
            let own = |service| match place {
                Some(_) => service,
                None => RateLatency::after(0, Bandwidth::ZERO),
            };
            let bound = service
                .clone()
                .and_then(|service| queue.kind.worst(class, terms, own(service)));
            let lasting = service.map(|service| service.from_any_time(terms));
            let inside = queue.bounds_inside(name, terms, lasting);
            let own = WorstCase {
                class: Some(class),
                bound,
            };
            std::iter::once(own).chain(inside)
        };
        self.classes().flat_map(case).collect()
    }

    /// The others' priorities are compared: those of a few hundred classes at most.
    fn amended(&self, change: &ChangedClass<'_>) -> Option<Arc<dyn Plan>> {
        let leaf = self.leaves.leaf_of(change.class)?;
        let mut problems = Vec::new();
        let new = match change.renewed {
            Some(new) if new.vacant => None,
            _ => Some(priority(change.settings, Span::default(), &mut problems)?),
        };
        let mut others = self.priorities.iter().enumerate();
        let clashes = new.is_some() && others.any(|(other, its)| other != leaf && *its == new);
        if clashes || !problems.is_empty() {
            return None;
        }
        let mut plan = self.clone();
        *plan.priorities.get_mut(leaf)? = new;
        if let Some(new) = &change.renewed {
            plan.leaves = self.leaves.renewed(leaf, new)?;
        }
        Some(Arc::new(plan))
    }

    fn changed_classes(&self, former: &dyn Plan, queues: bool) -> Option<Vec<ClassId>> {
        let former = plan_of(former).filter(|former| self.leaves.is_numbered_as(&former.leaves))?;
        let all = self.leaves.each();
        let all = all.zip(self.priorities.iter().zip(&former.priorities));
        let changed = all.filter(|(_, (new, old))| queues || new != old);
        Some(changed.map(|((class, ..), _)| class).collect())
    }

    fn settings_of(&self, class: ClassId) -> Vec<(&'static str, Value)> {
        let priority = self
            .leaves
            .leaf_of(class)
            .and_then(|leaf| self.priorities.get(leaf));
        priority.into_iter().map(|priority| shown(*priority)).collect()
    }

    fn build_class(&self, class: ClassId, cx: &Build) -> Option<BuiltQueue> {
        self.leaves.build_class(class, cx)
    }

    fn conserves_work(&self) -> bool {
        self.leaves.conserve_work()
    }

    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        let mut priq = Priq {
            leaves: self.leaves.build(cx),
            priorities: self.priorities.iter().copied().collect(),
            owners: vec![0; PRIORITIES],
            ready: Bits::default(),
            leaving: Vec::new(),
        };
        priq.assign(&self.priorities);
        Box::new(priq)
    }
}

/// A set of priorities, and the largest in it.
#[derive(Clone, Copy, Default, Debug)]
struct Bits([u64; PRIORITIES / 64]);

impl Bits {
    #[inline]
    fn set(&mut self, priority: u8) {
        self.0[usize::from(priority / 64)] |= 1 << (priority % 64);
    }

    #[inline]
    fn clear(&mut self, priority: u8) {
        self.0[usize::from(priority / 64)] &= !(1 << (priority % 64));
    }

    fn has(self, priority: u8) -> bool {
        self.0[usize::from(priority / 64)] >> (priority % 64) & 1 == 1
    }

    /// Four words are examined, at most, however many priorities there are.
    #[inline]
    fn largest(self) -> Option<u8> {
        let [a, b, c, d] = self.0;
        let upper = u128::from(d) << 64 | u128::from(c);
        let lower = u128::from(b) << 64 | u128::from(a);
        match (upper, lower) {
            (0, 0) => None,
            (0, lower) => Some(lower.ilog2() as u8),
            (upper, _) => Some(128 + upper.ilog2() as u8),
        }
    }
}

#[derive(Debug)]
struct Priq {
    leaves: Leaves,
    /// By leaf; a vacant place has none.
    priorities: Vec<Option<u8>>,
    /// The leaf of each priority.
    owners: Vec<u32>,
    /// The priorities whose leaf is ready.
    ready: Bits,
    /// Ready leaves whose class has gone, and that are soon emptied: they send last.
    leaving: Vec<usize>,
}

impl Priq {
    /// Gives the leaves these priorities, all at once, since classes may exchange theirs: there are
    /// a few hundred at most. Ready ones stay ready.
    fn assign(&mut self, priorities: &SharedList<Option<u8>>) {
        let ready = std::mem::take(&mut self.ready);
        for (leaf, &new) in priorities.iter().enumerate() {
            let old = std::mem::replace(&mut self.priorities[leaf], new);
            if let Some(new) = new {
                self.owners[usize::from(new)] = leaf as u32;
            }
            let left = self.leaving.iter().position(|other| *other == leaf);
            if old.is_some_and(|old| ready.has(old)) || left.is_some() {
                left.map(|place| self.leaving.swap_remove(place));
                self.order(leaf);
            }
        }
    }

    /// A leaf is ready.
    #[inline]
    fn order(&mut self, leaf: usize) {
        match self.priorities[leaf] {
            Some(priority) => self.ready.set(priority),
            None => self.leaving.push(leaf),
        }
    }

    /// A packet of a class that has gone.
    #[inline(never)]
    fn dequeue_leaving(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        while let Some(&leaf) = self.leaving.last() {
            let next = self.leaves.dequeue(leaf, now, sink);
            if !self.leaves.is_ready(leaf) {
                self.leaving.pop();
            }
            if let Next::Ready(_) = next {
                return next;
            }
        }
        self.leaves.rest()
    }

    /// The number of a leaf class in a plan of the same places, whose priorities are adopted.
    fn adopt(&mut self, plan: &PriqPlan, class: ClassId) -> Option<usize> {
        let leaf = self.leaves.known(&plan.leaves, class)?;
        if !plan.priorities.iter().eq(&self.priorities) {
            self.assign(&plan.priorities);
        }
        Some(leaf)
    }
}

impl Discipline for Priq {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        let (verdict, ready) = self.leaves.enqueue(now, packet, sink);
        if let Some(leaf) = ready {
            self.order(leaf);
        }
        verdict
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        while let Some(leaf) = self.leaves.wake(now) {
            self.order(leaf);
        }
        while let Some(priority) = self.ready.largest() {
            let leaf = self.owners[usize::from(priority)] as usize;
            let next = self.leaves.dequeue(leaf, now, sink);
            if !self.leaves.is_ready(leaf) {
                self.ready.clear(priority);
            }
            if let Next::Ready(_) = next {
                return next;
            }
        }
        match self.leaving.is_empty() {
            true => self.leaves.rest(),
            false => self.dequeue_leaving(now, sink),
        }
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        self.ready = Bits::default();
        self.leaving.clear();
        self.leaves.flush(portion, sink);
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        self.leaves.inspect(out, |leaf, out| {
            out.show(shown(self.priorities[leaf]));
        });
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let Some(plan) = plan_of(plan).filter(|plan| self.leaves.is_alike(&plan.leaves)) else {
            return false;
        };
        self.assign(&plan.priorities);
        self.leaves.retune(now, &plan.leaves)
    }

    fn retune_own(&mut self, _now: Instant, plan: &dyn Plan) -> bool {
        plan_of(plan).is_some()
    }

    fn retune_class(&mut self, now: Instant, plan: &dyn Plan, class: ClassId) -> bool {
        let known = plan_of(plan).and_then(|plan| Some((plan, self.adopt(plan, class)?)));
        known.is_some_and(|(plan, leaf)| self.leaves.retune_one(now, &plan.leaves, leaf))
    }

    fn renew_class(
        &mut self,
        _now: Instant,
        plan: &dyn Plan,
        class: ClassId,
        queue: BuiltQueue,
    ) -> Option<Box<dyn DetachedQueue>> {
        let plan = plan_of(plan)?;
        let leaf = self.adopt(plan, class)?;
        let former = self.leaves.renew(&plan.leaves, leaf, queue);
        match self.priorities[leaf] {
            Some(priority) => self.ready.clear(priority),
            None => self.leaving.retain(|other| *other != leaf),
        }
        self.leaves.forget(leaf);
        Some(former)
    }

    fn leaf(&mut self, class: ClassId) -> Option<&mut dyn Discipline> {
        self.leaves.discipline(class)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discipline::RenewedLeaf;
    use crate::link::Link;
    use crate::queue::Queue;
    use crate::random::Seed;
    use crate::settings::{Raw, Table};
    use crate::sinks::Nowhere;
    use crate::tree::{ClassSpec, DisciplineSpec, Registry};
    use crate::trials;
    use crate::units::Bytes;

    fn spec(priorities: &[i64]) -> DisciplineSpec {
        let class = |(i, &priority): (usize, &i64)| ClassSpec {
            name: i.to_string().into(),
            default: i == 0,
            settings: Table::default().with("priority", Raw::Integer(priority)),
            ..ClassSpec::default()
        };
        DisciplineSpec {
            classes: priorities.iter().enumerate().map(class).collect(),
            ..DisciplineSpec::new("priq")
        }
    }

    fn check(spec: &DisciplineSpec) -> Result<Queue, Vec<Problem>> {
        let link = Link::new(Bandwidth::mbit(100), Bytes::new(1_514));
        spec.check(&Registry::builtin(), link)
            .map(|plan| plan.build(Seed(1)))
    }

    fn offer(queue: &mut Queue, class: u32) {
        let packet = Packet::new(Bytes::new(1_000), Instant::START, ClassId(class));
        assert_eq!(
            queue.enqueue(Instant::START, packet, &mut Nowhere),
            Verdict::Queued
        );
    }

    fn next(queue: &mut Queue) -> Option<u32> {
        match queue.dequeue(Instant::START, &mut Nowhere) {
            Next::Ready(packet) => Some(packet.class.0),
            _ => None,
        }
    }

    #[test]
    fn the_largest_priority_goes_first_whatever_came_first() {
        let priorities: Vec<i64> = (0..256).map(|i| (i * 37 + 11) % 256).collect();
        let mut queue = check(&spec(&priorities)).expect("a good plan");
        (0..256).for_each(|class| offer(&mut queue, class));
        let order: Vec<i64> = std::iter::from_fn(|| next(&mut queue))
            .map(|class| priorities[class as usize])
            .collect();
        assert_eq!(order, (0..256).rev().collect::<Vec<i64>>());
    }

    #[test]
    fn a_higher_class_overtakes_at_every_packet() {
        let mut queue = check(&spec(&[0, 255, 128])).expect("a good plan");
        (0..3).for_each(|_| offer(&mut queue, 0));
        assert_eq!(next(&mut queue), Some(0));
        offer(&mut queue, 2);
        offer(&mut queue, 1);
        let order: Vec<u32> = std::iter::from_fn(|| next(&mut queue)).collect();
        assert_eq!(order, [1, 2, 0, 0]);
    }

    #[test]
    fn a_class_that_was_given_another_priority_keeps_its_packets() {
        let mut queue = check(&spec(&[1, 2])).expect("a good plan");
        offer(&mut queue, 0);
        offer(&mut queue, 1);
        let link = Link::new(Bandwidth::mbit(100), Bytes::new(1_514));
        let other = spec(&[2, 1])
            .check(&Registry::builtin(), link)
            .expect("a good plan");
        assert!(queue.retune(Instant::START, other.root.plan.as_ref()));
        assert_eq!(
            [next(&mut queue), next(&mut queue), next(&mut queue)],
            [Some(0), Some(1), None]
        );
    }

    #[test]
    fn classes_that_exchange_priorities_and_go_one_by_one_keep_the_link_busy() {
        let link = Link::new(Bandwidth::mbit(100), Bytes::new(1_514));
        let plan = |priorities: &[i64], vacant: usize| {
            let mut spec = spec(priorities);
            let place = spec.classes.get_mut(vacant).expect("one of them");
            (place.vacant, place.settings) = (true, Table::default());
            spec.check(&Registry::builtin(), link).expect("a good plan")
        };
        let (old, new) = (plan(&[1, 2, 3, 0], 3), plan(&[2, 1, 0, 3], 2));
        let changed = new.root.plan.changed_classes(&*old.root.plan, false);
        assert_eq!(changed.map(|all| all.len()), Some(4));
        let mut queue = old.build(Seed(1));
        (0..3).for_each(|class| offer(&mut queue, class));
        let renew = |queue: &mut Queue, class: u32| {
            let built = new.build_class(ClassId(class), Seed(1)).expect("a leaf");
            let plan = new.root.plan.as_ref();
            let former = queue.renew_class(Instant::START, plan, ClassId(class), built);
            assert!(former.is_some());
        };
        renew(&mut queue, 3);
        offer(&mut queue, 3);
        offer(&mut queue, 2);
        // The class that has gone sends last, until it is emptied.
        let order: Vec<_> = (0..4).filter_map(|_| next(&mut queue)).collect();
        assert_eq!(order, [3, 0, 1, 2]);
        for class in [0, 1] {
            assert!(queue.retune_class(Instant::START, new.root.plan.as_ref(), ClassId(class)));
        }
        offer(&mut queue, 0);
        renew(&mut queue, 2);
        assert_eq!([next(&mut queue), next(&mut queue)], [Some(0), None]);
        assert!(queue.is_empty());
    }

    #[test]
    fn priorities_that_cannot_work_are_refused_with_a_reason() {
        let problems = check(&spec(&[3, 256])).expect_err("too large");
        assert!(problems[0].message.contains("from 0 to 255"), "{problems:?}");
        let problems = check(&spec(&[3, 4, 3])).expect_err("twice the same");
        assert!(
            problems[0].message.contains("`0` and `2` both have priority 3"),
            "{problems:?}"
        );
    }

    const WIDE: Link = Link::new(Bandwidth::mbit(100), Bytes::new(1_514));

    #[test]
    fn it_never_waits_unless_a_queue_of_its_does() {
        let mut classes = spec(&[1, 2]);
        let conserves = |spec: &DisciplineSpec| {
            let plan = spec.check(&Registry::builtin(), WIDE).expect("a good plan");
            plan.root.plan.conserves_work()
        };
        assert!(conserves(&classes));
        let class = classes.classes.get_mut(1).expect("one of them");
        class.discipline = Some(DisciplineSpec {
            settings: Table::default().text("rate", "1 Mbit/s"),
            ..DisciplineSpec::new("tbf")
        });
        assert!(!conserves(&classes));
    }

    #[test]
    fn a_class_gets_any_priority_that_no_other_has_and_a_place_for_one_gets_none() {
        let plan = spec(&[1, 2, 3]).check(&Registry::builtin(), WIDE);
        let plan = plan.expect("a good plan").root.plan;
        let fifo = trials::planned("fifo", Table::default(), WIDE);
        let name = "new".into();
        let amended = |priority: i64, vacant: Option<bool>| {
            let renewed = |vacant| RenewedLeaf {
                name: &name,
                vacant,
                queue: &fifo,
            };
            let new = plan.amended(&ChangedClass {
                class: ClassId(1),
                settings: &Table::default().with("priority", Raw::Integer(priority)),
                of_discipline: &Table::default(),
                link: WIDE,
                renewed: vacant.map(renewed),
            })?;
            let any: &dyn Any = &*new;
            let priorities = &any.downcast_ref::<PriqPlan>()?.priorities;
            assert_eq!(new.settings_of(ClassId(1)), [shown(priorities[1])]);
            let changed = new.changed_classes(&*plan, false).map(|all| all.len());
            let same = priorities[1] == Some(2);
            assert_eq!(changed, Some(usize::from(!same)));
            assert_eq!(new.changed_classes(&*plan, true).map(|all| all.len()), Some(3));
            Some([0, 1, 2].map(|leaf| priorities[leaf]))
        };
        for renewed in [None, Some(false)] {
            assert_eq!(amended(7, renewed), Some([Some(1), Some(7), Some(3)]));
            assert_eq!(amended(2, renewed), Some([Some(1), Some(2), Some(3)]));
            assert_eq!(amended(3, renewed), None, "another has it");
            assert_eq!(amended(256, renewed), None);
        }
        assert_eq!(amended(3, Some(true)), Some([Some(1), None, Some(3)]));
    }

    #[test]
    fn of_classes_that_have_gone_the_one_that_is_renewed_loses_its_packets_alone() {
        let places = |vacant: &[usize]| {
            let mut spec = spec(&[1, 2, 3]);
            for &place in vacant {
                let class = spec.classes.get_mut(place).expect("one of them");
                (class.vacant, class.settings) = (true, Table::default());
            }
            spec.check(&Registry::builtin(), WIDE).expect("a good plan")
        };
        let (old, new) = (places(&[]), places(&[1, 2]));
        let mut queue = old.build(Seed(1));
        (0..3).for_each(|class| offer(&mut queue, class));
        let built = new.build_class(ClassId(1), Seed(1)).expect("a leaf");
        let former = queue.renew_class(Instant::START, new.root.plan.as_ref(), ClassId(1), built);
        assert_eq!(former.map(|former| former.held().packets), Some(1));
        let order: Vec<u32> = std::iter::from_fn(|| next(&mut queue)).collect();
        assert_eq!(order, [0, 2], "what has gone goes last");
    }

    #[test]
    fn a_set_of_priorities_has_what_was_set_and_not_cleared() {
        let mut bits = Bits::default();
        assert_eq!(bits.largest(), None);
        for priority in [0, 1, 63, 64, 127, 128, 191, 192, 255] {
            bits.set(priority);
            bits.set(priority);
            assert!(bits.has(priority));
            assert_eq!(bits.largest(), Some(priority));
        }
        assert!(!bits.has(2) && !bits.has(65) && !bits.has(254));
        for (priority, next) in [
            (255, Some(192)),
            (192, Some(191)),
            (191, Some(128)),
            (128, Some(127)),
        ] {
            bits.clear(priority);
            bits.clear(priority);
            assert!(!bits.has(priority));
            assert_eq!(bits.largest(), next);
        }
    }
}
