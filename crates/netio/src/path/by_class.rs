//! A change of a few classes while packets flow, in pieces between batches: a class that comes
//! takes the number of a vacant place, a class that goes leaves one, and others get other
//! settings. All other classes and their packets are not touched.
//!
//! From the beginning packets are classified by the new filters. Packets that wait in a class that
//! goes, or from which new filters take some, are taken out, class by class, and queued anew. What
//! arrives meanwhile waits behind them, so that no packet of a flow overtakes another. The tree
//! sends all the while.

use super::Path;
use crate::budget::Owner;
use crate::classify::{Classify, FewFilters};
use crate::handle::{Adopted, Retired};
use crate::pool::Pool;
use crate::replay::event::To;
use engine::discipline::{BuiltQueue, Reason, Sink};
use engine::header::Headers;
use engine::packet::{ClassId, Packet};
use engine::queue::Queue;
use engine::random::Seed;
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Instant};
use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::Sender;

/// Classes of which packets are taken out between two batches at most.
const EMPTIED: usize = 4;
/// Classes that get other settings between two batches at most.
const RETUNED: usize = 64;
/// Packets that are queued anew between two batches at most.
const QUEUED: usize = 256;

/// A class that has taken a vacant place, or a place that has become vacant.
#[derive(Debug)]
pub struct RenewedClass {
    /// Its number.
    pub class: ClassId,
    /// Its queue, without packets.
    pub queue: BuiltQueue,
    /// The rate that it is guaranteed, for its memory; none if the place is vacant now.
    pub guarantee: Option<Bandwidth>,
}

/// A class with other settings, and the rate that it is guaranteed.
#[derive(Clone, Copy, Debug)]
pub struct ChangedSettings {
    /// Its number.
    pub class: ClassId,
    /// The rate.
    pub guarantee: Bandwidth,
}

/// How packets get their classes from now on.
pub enum Reclassified {
    /// By other filters as a whole.
    Anew(Box<dyn Classify>),
    /// By the present ones but for a few; if that takes long, the change is refused.
    ButFor(FewFilters),
}

/// A plan that differs from the present one in these classes alone: all others have the same
/// numbers, parents and settings.
pub struct ClassChanges {
    /// The plan.
    pub plan: TreePlan,
    /// For the tree that is built if a discipline cannot go on.
    pub seed: Seed,
    /// Classes that came or went.
    pub renewed: Vec<RenewedClass>,
    /// Classes with other settings.
    pub changed: Vec<ChangedSettings>,
    /// Other filters, with the plan's numbers.
    pub classify: Option<Reclassified>,
    /// Classes that stay, of whose packets some may have another class by the new filters.
    pub affected: Vec<ClassId>,
}

impl fmt::Debug for ClassChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassChanges")
            .field("renewed", &self.renewed)
            .field("changed", &self.changed)
            .field("affected", &self.affected)
            .finish_non_exhaustive()
    }
}

/// What a worker answers.
#[derive(Debug)]
pub(crate) enum ChangedByClass {
    /// It is in force.
    Adopted(Adopted, Retired),
    /// Nothing has changed: the disciplines cannot.
    Refused(#[expect(dead_code, reason = "it is dropped by whoever asked")] Box<ClassChanges>),
}

/// A change under way.
#[derive(Debug)]
struct Job {
    renewed: VecDeque<RenewedClass>,
    affected: VecDeque<ClassId>,
    changed: VecDeque<ChangedSettings>,
    seed: Seed,
    retired: Retired,
    done: Sender<Option<ChangedByClass>>,
    /// Packets dropped before it.
    dropped: u64,
    adopted: Adopted,
}

/// What waits for a place in the tree during a change.
#[derive(Debug, Default)]
pub(super) struct Moving {
    job: Option<Box<Job>>,
    /// Taken out of the tree, to be classified anew.
    out: VecDeque<Packet>,
    /// Arrived since.
    behind: VecDeque<Packet>,
}

impl Moving {
    /// Whether nothing is under way.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.job.is_none() && self.is_empty()
    }

    /// Whether there are no packets.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.behind.is_empty()
    }

    /// A packet arrives during a change.
    pub(super) fn arrive(&mut self, packet: Packet) {
        self.behind.push_back(packet);
    }

    /// All packets.
    pub(super) fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.out.iter().chain(&self.behind)
    }
}

/// Collects packets that are to be queued anew, and gives their charges back.
struct TakenOut<'a> {
    out: &'a mut VecDeque<Packet>,
    pool: &'a mut Pool,
}

impl Sink for TakenOut<'_> {
    fn drop(&mut self, packet: Packet, _why: Reason) {
        self.pool.discharge(packet.buffer);
        self.out.push_back(packet);
    }

    fn hands_over(&self) -> bool {
        true
    }
}

impl Path {
    /// Whether a change is under way, or packets of one are still to be queued.
    pub(crate) fn is_changing(&self) -> bool {
        !self.moving.is_idle()
    }

    /// Begins a change, whose end is answered. One that is under way is ended first, at once.
    pub(crate) fn begin_change(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        mut changes: Box<ClassChanges>,
        done: Sender<Option<ChangedByClass>>,
    ) {
        self.end_change(now, pool);
        let takes_long = match &changes.classify {
            Some(Reclassified::ButFor(few)) => !self.classify.amends(few),
            _ => false,
        };
        // A tape tells of whole plans.
        if self.tape.is_some() || takes_long {
            let _ = done.send(Some(ChangedByClass::Refused(changes)));
            return;
        }
        let mut retired = Retired::default();
        let now = self.queue_time(now);
        let first = changes.renewed.pop().map(|first| {
            let Path { queue, moving, .. } = self;
            let mut sink = TakenOut {
                out: &mut moving.out,
                pool,
            };
            let root = changes.plan.root.plan.as_ref();
            let guarantee = first.guarantee;
            let former = queue
                .queue_mut()
                .renew_class(now, root, first.class, first.queue, &mut sink);
            former.map(|former| (first.class, guarantee, former))
        });
        match first {
            Some(None) => {
                self.note_plain();
                let _ = done.send(Some(ChangedByClass::Refused(changes)));
                return;
            }
            Some(Some((class, guarantee, former))) => {
                retired.0.push(former);
                self.renumbered(pool, class, guarantee, &changes.plan);
            }
            None => {}
        }
        self.changes += 1;
        match changes.classify.take() {
            Some(Reclassified::Anew(classify)) => {
                retired.keep(std::mem::replace(&mut self.classify, classify));
            }
            Some(Reclassified::ButFor(few)) => self.classify.amend(&few),
            None => {}
        }
        // A due time of the old plan means nothing under the new one.
        self.due = None;
        self.wire
            .iter_mut()
            .for_each(|wire| wire.retuned(now, &changes.plan));
        retired.keep(self.plan.replace(changes.plan));
        self.moving.job = Some(Box::new(Job {
            renewed: changes.renewed.into(),
            affected: changes.affected.into(),
            changed: changes.changed.into(),
            seed: changes.seed,
            retired,
            done,
            dropped: self.totals.dropped.packets,
            adopted: Adopted::InPlace,
        }));
        self.note_plain();
    }

    /// Does a piece of a change that is under way.
    pub(crate) fn go_on(&mut self, now: Instant, pool: &mut Pool) {
        if self.moving.is_idle() {
            return;
        }
        let now = self.queue_time(now);
        self.shown = self.shown.max(now);
        if let Some(mut job) = self.moving.job.take() {
            if self.advance(now, pool, &mut job) {
                self.moving.job = Some(job);
            } else {
                let adopted = match job.adopted {
                    Adopted::InPlace => Adopted::InPlace,
                    Adopted::Rebuilt { .. } => Adopted::Rebuilt {
                        dropped: self.totals.dropped.packets - job.dropped,
                    },
                };
                let _ = job.done.send(Some(ChangedByClass::Adopted(adopted, job.retired)));
            }
        }
        let emptied = self.moving.job.as_ref();
        if emptied.is_none_or(|job| job.renewed.is_empty() && job.affected.is_empty()) {
            self.queue_anew(now, pool);
        }
        self.note_plain();
    }

    /// Ends a change that is under way, in one go.
    pub(crate) fn end_change(&mut self, now: Instant, pool: &mut Pool) {
        while !self.moving.is_idle() {
            self.go_on(now, pool);
        }
    }

    /// Takes out what a tree holds that is no longer this path's, to be queued anew.
    pub(super) fn take_out(&mut self, pool: &mut Pool, former: &mut Queue) {
        let out = &mut self.moving.out;
        former.flush(&mut TakenOut { out, pool });
        self.note_plain();
    }

    /// The next piece of a change; whether there is more to do.
    fn advance(&mut self, now: Instant, pool: &mut Pool, job: &mut Job) -> bool {
        let Some(plan) = self.plan.clone() else {
            return false;
        };
        let root = plan.root.plan.as_ref();
        for _ in 0..EMPTIED {
            let Path { queue, moving, .. } = self;
            let mut sink = TakenOut {
                out: &mut moving.out,
                pool,
            };
            let can = if let Some(RenewedClass {
                class,
                queue: built,
                guarantee,
            }) = job.renewed.pop_front()
            {
                let former = queue.queue_mut().renew_class(now, root, class, built, &mut sink);
                let can = former.is_some();
                job.retired.0.extend(former);
                self.renumbered(pool, class, guarantee, &plan);
                can
            } else if let Some(class) = job.affected.pop_front() {
                queue.queue_mut().flush_class(now, class, &mut sink)
            } else {
                break;
            };
            if !can {
                return self.give_up(now, pool, job, &plan);
            }
        }
        if !job.renewed.is_empty() || !job.affected.is_empty() {
            return true;
        }
        for _ in 0..RETUNED {
            let Some(ChangedSettings { class, guarantee }) = job.changed.pop_front() else {
                break;
            };
            if !self.queue.queue_mut().retune_class(now, root, class) {
                return self.give_up(now, pool, job, &plan);
            }
            let path = self.id;
            pool.claim_rate(Owner { path, class }, Some(guarantee));
        }
        !job.changed.is_empty()
    }

    /// A discipline cannot go on by the class: it adopts the rest as a whole, or a new tree is
    /// built at once.
    fn give_up(&mut self, now: Instant, pool: &mut Pool, job: &mut Job, plan: &TreePlan) -> bool {
        let emptied = job.renewed.is_empty() && job.affected.is_empty();
        for ChangedSettings { class, guarantee } in std::mem::take(&mut job.changed) {
            let path = self.id;
            pool.claim_rate(Owner { path, class }, Some(guarantee));
        }
        for RenewedClass { class, guarantee, .. } in std::mem::take(&mut job.renewed) {
            self.renumbered(pool, class, guarantee, plan);
        }
        job.affected.clear();
        if emptied && self.queue.queue_mut().retune(now, plan.root.plan.as_ref()) {
            return false;
        }
        let (packets, former) = self.queue.replace(now, plan.build(job.seed), Some);
        job.retired.keep(former);
        self.trees += 1;
        let mut sink = TakenOut {
            out: &mut self.moving.out,
            pool,
        };
        packets
            .into_iter()
            .for_each(|packet| sink.drop(packet, Reason::Flushed));
        job.adopted = Adopted::Rebuilt { dropped: 0 };
        false
    }

    /// A number has got another class.
    fn renumbered(&mut self, pool: &mut Pool, class: ClassId, guarantee: Option<Bandwidth>, plan: &TreePlan) {
        let path = self.id;
        pool.claim_rate(Owner { path, class }, guarantee);
        self.meters.clear(class);
        self.forget_experience(Some(class));
        if let (Some(place), Some(info)) = (self.clamp_indices.get_mut(class.0 as usize), plan.info(class)) {
            *place = self.yields.iter().position(|name| *name == info.name);
        }
    }

    /// Queues some of the packets that wait: first what was taken out.
    fn queue_anew(&mut self, now: Instant, pool: &mut Pool) {
        for _ in 0..QUEUED {
            let packet = if let Some(mut packet) = self.moving.out.pop_front() {
                let headers = Headers::parse(pool.bytes(packet.buffer), self.mark);
                self.classify.classify(&headers, &mut packet);
                packet
            } else if let Some(packet) = self.moving.behind.pop_front() {
                packet
            } else {
                return;
            };
            let charged = self.charge(pool, &packet);
            let to = if charged { To::Queue } else { To::Nowhere };
            self.tape_held(now, pool, &packet, to);
            match charged {
                true => self.enqueue(now, pool, packet),
                false => self.drop_short(pool, packet),
            }
        }
    }
}
