//! A change of a few classes while packets flow, in pieces between batches: a class that comes
//! takes the number of a vacant place, a class that goes leaves one, and others get other
//! settings. All other classes and their packets are not touched.
//!
//! From the beginning packets are classified by the new filters. A class that goes, or from which
//! new filters take packets, gets another queue at once; what waits in its former one is taken out
//! in pieces, and queued anew. What arrives meanwhile waits behind that, so that no packet of a
//! flow overtakes another. The tree sends all the while.

use super::Path;
use super::whole::Succession;
use crate::classify::{Classify, FewFilters};
use crate::handle::{Adopted, Retired};
use crate::pool::Pool;
use crate::replay::event::To;
use engine::discipline::{BuiltQueue, DetachedQueue, Reason, Sink};
use engine::packet::{ClassId, Packet};
use engine::portion::Portion;
use engine::queue::Count;
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Instant};
use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::Sender;

/// Classes that get another queue between two batches at most.
const EXCHANGED: usize = 4;
/// Classes that get other settings between two batches at most.
const RETUNED: usize = 64;
/// Packets that are taken out between two batches at most, and as many are queued anew.
const QUEUED: usize = 256;
/// Classes of a former tree that are looked at between two batches at most.
const LOOKED_AT: u32 = 2_048;

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
    /// What leaves is shaped to this rate from now on; `None` keeps the present one.
    pub bandwidth: Option<Bandwidth>,
    /// Classes that came or went.
    pub renewed: Vec<RenewedClass>,
    /// Classes with other settings.
    pub changed: Vec<ChangedSettings>,
    /// Other filters, with the plan's numbers.
    pub classify: Option<Reclassified>,
    /// Classes that stay, of whose packets some may have another class by the new filters, each
    /// with a queue without packets for those that stay.
    pub affected: Vec<(ClassId, BuiltQueue)>,
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
    /// Nothing has changed, or not all of it: the disciplines cannot.
    Refused(#[expect(dead_code, reason = "it is dropped by whoever asked")] Retired),
}

/// A change under way.
#[derive(Debug)]
struct Job {
    renewed: VecDeque<RenewedClass>,
    affected: VecDeque<(ClassId, BuiltQueue)>,
    changed: VecDeque<ChangedSettings>,
    retired: Retired,
    done: Sender<Option<ChangedByClass>>,
}

impl Job {
    /// All classes have their queues.
    fn has_exchanged(&self) -> bool {
        self.renewed.is_empty() && self.affected.is_empty()
    }
}

/// What waits for a place in the tree during a change.
#[derive(Debug, Default)]
pub(super) struct Moving {
    job: Option<Box<Job>>,
    /// A tree that takes another's place.
    pub(super) succession: Option<Box<Succession>>,
    /// Queues that others have replaced, in which packets may wait: of classes, or a whole tree's.
    pub(super) formers: VecDeque<Box<dyn DetachedQueue>>,
    /// Those in which none do any more.
    pub(super) emptied: Vec<Box<dyn DetachedQueue>>,
    /// Taken out of the tree, to be classified anew.
    pub(super) out: VecDeque<Packet>,
    /// Arrived since.
    behind: VecDeque<Packet>,
    /// The discipline was switched off, and its queue still holds packets.
    pub(super) hands_over: bool,
}

impl Moving {
    /// Whether nothing is under way.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.job.is_none() && self.succession.is_none() && self.is_empty() && !self.hands_over
    }

    /// Whether there are no packets.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.formers.is_empty() && self.out.is_empty() && self.behind.is_empty()
    }

    /// Whether queues that were replaced hold no packets any more, and all of those have places.
    pub(super) fn has_moved(&self) -> bool {
        self.formers.is_empty() && self.out.is_empty()
    }

    /// The next packet that arrived since, if it is its turn.
    fn next_behind(&mut self) -> Option<Packet> {
        let is_its_turn = self.formers.is_empty();
        self.behind.pop_front_if(|_| is_its_turn)
    }

    /// Takes out the next piece of what queues that were replaced hold.
    pub(super) fn take_out(&mut self, pool: &mut Pool) {
        let Self { formers, out, .. } = self;
        if !out.is_empty() {
            return;
        }
        let (mut portion, mut sink) = (Portion::of(QUEUED as u32, LOOKED_AT), TakenOut { out, pool });
        while let Some(former) = formers.front_mut() {
            former.empty(&mut portion, &mut sink);
            if former.held().packets > 0 {
                return;
            }
            self.emptied.extend(formers.pop_front());
            portion.looked();
        }
    }

    /// How many packets have arrived since it began.
    pub(super) fn arrived(&self) -> usize {
        self.behind.len()
    }

    /// A packet arrives during a change.
    pub(super) fn arrive(&mut self, packet: Packet) {
        self.behind.push_back(packet);
    }

    /// All packets.
    pub(super) fn waiting(&self) -> Count {
        let mut waiting = Count::default();
        self.formers.iter().for_each(|former| waiting += former.held());
        let packets = self.out.iter().chain(&self.behind);
        packets.for_each(|packet| waiting += packet.len);
        waiting
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

/// Answers that nothing has changed.
fn refuse(changes: Box<ClassChanges>, done: &Sender<Option<ChangedByClass>>) {
    let mut retired = Retired::default();
    retired.keep(changes);
    let _ = done.send(Some(ChangedByClass::Refused(retired)));
}

impl Path {
    /// Whether a change is under way, or packets of one are still to be queued.
    pub(crate) fn is_changing(&self) -> bool {
        !self.moving.is_idle()
    }

    /// Begins a change, whose end is answered.
    pub(crate) fn begin_change(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        mut changes: Box<ClassChanges>,
        done: Sender<Option<ChangedByClass>>,
    ) {
        let takes_long = match &changes.classify {
            Some(Reclassified::ButFor(few)) => !self.classify.amends(few),
            _ => false,
        };
        // A tape tells of whole plans.
        if self.tape.is_some() || takes_long {
            return refuse(changes, &done);
        }
        let mut retired = Retired::default();
        let clock = now;
        let now = self.queue_time(clock);
        let root = changes.plan.root.plan.as_ref();
        if !self.queue.queue_mut().retune_own(now, root) {
            return refuse(changes, &done);
        }
        if let (Some(realiser), Some(pacing)) = (&mut self.realiser, root.pacing()) {
            realiser.repace(pacing);
        }
        let first = changes.renewed.pop().map(|first| {
            let queue = self.queue.queue_mut();
            let former = queue.renew_class(now, root, first.class, first.queue);
            former.map(|former| (first.class, first.guarantee, former))
        });
        match first {
            Some(None) => return refuse(changes, &done),
            Some(Some((class, guarantee, former))) => {
                self.moving.formers.push_back(former);
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
        if let Some(bandwidth) = changes.bandwidth {
            self.queue.set_bandwidth(clock, bandwidth);
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
            retired,
            done,
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
        if self.moving.hands_over {
            return self.hand_over(pool);
        }
        if let Some(mut job) = self.moving.job.take() {
            match self.advance(now, pool, &mut job) {
                true => self.moving.job = Some(job),
                false => self.refuse_rest(*job),
            }
        }
        let job = self.moving.job.as_ref();
        if job.is_none_or(|job| job.has_exchanged()) {
            self.meter_on();
            self.moving.take_out(pool);
            self.queue_anew(now, pool);
            self.end_succession();
            self.end_job();
        }
        self.note_plain();
    }

    /// Takes out the next piece of the queue of a discipline that was switched off; what has
    /// arrived since passes behind the last of it.
    pub(super) fn hand_over(&mut self, pool: &mut Pool) {
        let Self {
            queue,
            bypass: out,
            moving,
            ..
        } = self;
        let (mut portion, mut sink) = (Portion::of(QUEUED as u32, LOOKED_AT), TakenOut { out, pool });
        queue.queue_mut().flush(&mut portion, &mut sink);
        if queue.is_empty() {
            out.append(&mut moving.behind);
            moving.hands_over = false;
            self.note_plain();
        }
    }

    /// Answers that all is done, if it is.
    fn end_job(&mut self) {
        let ended = |job: &mut Box<Job>| job.has_exchanged() && job.changed.is_empty();
        let moved = self.moving.has_moved();
        let Some(job) = self.moving.job.take_if(|job| moved && ended(job)) else {
            return;
        };
        let mut retired = job.retired;
        retired.keep(std::mem::take(&mut self.moving.emptied));
        let _ = job
            .done
            .send(Some(ChangedByClass::Adopted(Adopted::InPlace, retired)));
    }

    /// A discipline cannot go on by the class: whoever asked has to ask for the plan as a whole.
    fn refuse_rest(&mut self, job: Job) {
        let Job {
            renewed,
            affected,
            mut retired,
            done,
            ..
        } = job;
        retired.keep((renewed, affected));
        let _ = done.send(Some(ChangedByClass::Refused(retired)));
    }

    /// Ends a change that is under way, in one go.
    pub(crate) fn end_change(&mut self, now: Instant, pool: &mut Pool) {
        while !self.moving.is_idle() {
            self.go_on(now, pool);
        }
    }

    /// The next piece of a change. `false` if a discipline cannot go on.
    fn advance(&mut self, now: Instant, pool: &mut Pool, job: &mut Job) -> bool {
        let Some(plan) = self.plan.clone() else {
            return false;
        };
        let root = plan.root.plan.as_ref();
        for _ in 0..EXCHANGED {
            let queue = self.queue.queue_mut();
            let former = if let Some(RenewedClass {
                class,
                queue: built,
                guarantee,
            }) = job.renewed.pop_front()
            {
                let former = queue.renew_class(now, root, class, built);
                self.renumbered(pool, class, guarantee, &plan);
                former
            } else if let Some((class, built)) = job.affected.pop_front() {
                queue.exchange_queue(now, class, built)
            } else {
                break;
            };
            let Some(former) = former else { return false };
            self.moving.formers.push_back(former);
        }
        for _ in 0..if job.has_exchanged() { RETUNED } else { 0 } {
            let Some(ChangedSettings { class, guarantee }) = job.changed.pop_front() else {
                break;
            };
            if !self.queue.queue_mut().retune_class(now, root, class) {
                return false;
            }
            pool.claim_rate(self.owner(class), Some(guarantee));
        }
        true
    }

    /// A number has got another class.
    fn renumbered(&mut self, pool: &mut Pool, class: ClassId, guarantee: Option<Bandwidth>, plan: &TreePlan) {
        pool.claim_rate(self.owner(class), guarantee);
        self.meters.clear(class);
        self.forget_experience(Some(class));
        if let (Some(place), Some(info)) = (self.clamp_indices.get_mut(class.0 as usize), plan.info(class)) {
            *place = self.yields.iter().position(|name| *name == info.name);
        }
    }

    /// Queues some of the packets that wait: first what was taken out.
    fn queue_anew(&mut self, now: Instant, pool: &mut Pool) {
        for _ in 0..QUEUED {
            if let Some(mut packet) = self.moving.out.pop_front() {
                self.classify_again(pool, &mut packet);
                let dropped = self.totals.dropped.packets;
                self.queue_one(now, pool, packet, true);
                let refused = self.totals.dropped.packets - dropped;
                let succession = self.moving.succession.iter_mut();
                succession.for_each(|succession| succession.refused += refused);
            } else if let Some(packet) = self.moving.next_behind() {
                self.queue_one(now, pool, packet, false);
            } else {
                return;
            }
        }
    }

    /// Queues one of them, which was in another tree before, or in none.
    fn queue_one(&mut self, now: Instant, pool: &mut Pool, packet: Packet, moves: bool) {
        let charged = self.charge(pool, &packet);
        let to = if charged { To::Queue } else { To::Nowhere };
        let known = self.moving.succession.as_ref().filter(|_| moves);
        match known.is_some_and(|succession| succession.is_known()) {
            true => self.tape_moved(now, &packet, to),
            false => self.tape_held(now, pool, &packet, to),
        }
        match charged {
            true => self.enqueue(now, pool, packet),
            false => self.drop_short(pool, packet),
        }
    }
}
