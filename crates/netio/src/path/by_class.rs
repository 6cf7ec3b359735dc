//! A change by the class while packets flow, in pieces between batches: a class that comes takes
//! the number of a vacant place, a class that goes leaves one, and others get other settings. All
//! other classes and their packets are not touched.
//!
//! Classes come first: no packet is theirs before there are other filters, so nothing waits for
//! them, however many they are. Then a class that goes, or from which the new filters take packets,
//! gets another queue; what waits in its former one is taken out in pieces, and queued anew. What
//! arrives meanwhile waits behind that, so that no packet of a flow overtakes another. That is done
//! by a few of these classes at a time: those whose turn has not come get their packets by the
//! former filters, so that what arrives waits for a few queues and never for all. Where the present
//! filters are changed in place, the former ones are gone, and what arrives waits for all of them.
//! The tree sends all the while.
//!
//! A change comes with all the room that it takes, and goes back with all that it leaves over. The
//! loop asks for no memory meanwhile and frees none, however many classes there are: an allocator
//! may take milliseconds for that once it tidies up what very many packets have left, or while
//! another thread has it.

use super::Path;
use super::whole::Succession;
use crate::classify::{Classify, FewFilters};
use crate::handle::{Adopted, Declined, Done, Retired};
use crate::pool::Pool;
use crate::replay::event::To;
use engine::discipline::{BuiltQueue, DetachedQueue, Reason, Sink};
use engine::header::Headers;
use engine::packet::{ClassId, Packet};
use engine::portion::Portion;
use engine::queue::Count;
use engine::tree::TreePlan;
use engine::units::{Bandwidth, Instant};
use std::collections::VecDeque;
use std::fmt;

/// Classes that get another queue between two batches at most.
const EXCHANGED: usize = 4;
/// Classes that get other settings between two batches at most.
const RETUNED: usize = 64;
/// Packets that are taken out between two batches at most, and as many are queued anew.
const QUEUED: usize = 256;
/// Of those that arrived since, so many at most, or twice as many as came since the last piece:
/// each may be of another class, whose memory is far from the others'.
const ARRIVED: usize = 64;
/// Classes of a former tree that are looked at between two batches at most.
const LOOKED_AT: u32 = 2_048;

/// A class that takes a vacant place.
#[derive(Debug)]
pub struct ComingClass {
    /// Its number.
    pub class: ClassId,
    /// Its queue, without packets.
    pub queue: BuiltQueue,
    /// The rate that it is guaranteed, for its memory.
    pub guarantee: Bandwidth,
}

/// A place whose packets are queued anew.
#[derive(Debug)]
pub struct CutClass {
    /// Its number.
    pub class: ClassId,
    /// Its queue from now on, without packets.
    pub queue: BuiltQueue,
    /// What becomes of it.
    pub becomes: Becomes,
}

/// What becomes of a place whose packets are queued anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Becomes {
    /// Vacant.
    Vacant,
    /// A class with a queue of other kinds, which is guaranteed this rate.
    Another(Bandwidth),
    /// The class that it was: of its packets some may have another class by the new filters.
    Itself,
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

impl fmt::Debug for Reclassified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anew(_) => f.write_str("Anew"),
            Self::ButFor(few) => f.debug_tuple("ButFor").field(few).finish(),
        }
    }
}

/// A plan that differs from the present one in these classes alone: all others have the same
/// numbers, parents and settings.
pub struct ClassChanges {
    /// The plan.
    pub plan: TreePlan,
    /// What leaves is shaped to this rate from now on; `None` keeps the present one.
    pub bandwidth: Option<Bandwidth>,
    /// Classes that come.
    pub come: Vec<ComingClass>,
    /// Places whose packets are queued anew, by their numbers.
    pub cut: Vec<CutClass>,
    /// Classes with other settings.
    pub changed: Vec<ChangedSettings>,
    /// Other filters, with the plan's numbers.
    pub classify: Option<Reclassified>,
}

impl fmt::Debug for ClassChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassChanges")
            .field("come", &self.come)
            .field("cut", &self.cut)
            .field("changed", &self.changed)
            .finish_non_exhaustive()
    }
}

/// What a worker answers, with what is left over, to be dropped by whoever asked.
#[derive(Debug)]
pub(crate) enum ChangedByClass {
    /// It is in force.
    Adopted(Adopted, Box<ClassJob>),
    /// Nothing has changed, or not all of it.
    Refused(Declined, Box<ClassJob>),
}

/// A change with all the room that it takes.
#[derive(Debug)]
pub(crate) struct ClassJob {
    /// The plan; once it is in force, the former one.
    plan: Option<TreePlan>,
    bandwidth: Option<Bandwidth>,
    come: VecDeque<ComingClass>,
    /// Places whose packets are to be queued anew, until it begins; in the end what they were in.
    cut: VecDeque<CutClass>,
    /// Other filters, once all classes have come; the former ones in the end.
    classify: Option<Reclassified>,
    /// The filters are changed in place: places are cut without a pause.
    at_once: bool,
    changed: VecDeque<ChangedSettings>,
    /// Room for the queues that others replace, and for those that are empty.
    formers: VecDeque<Box<dyn DetachedQueue>>,
    emptied: Vec<Box<dyn DetachedQueue>>,
    retired: Retired,
    /// Who awaits the end, once it has begun.
    done: Option<Done<Option<ChangedByClass>>>,
}

impl ClassJob {
    /// This change.
    pub(crate) fn of(changes: ClassChanges) -> Box<Self> {
        debug_assert!(changes.cut.is_sorted_by_key(|cut| cut.class), "they are searched");
        let ClassChanges {
            plan,
            bandwidth,
            come,
            cut,
            changed,
            classify,
        } = changes;
        let replaced = come.len() + cut.len();
        Box::new(Self {
            plan: Some(plan),
            bandwidth,
            come: come.into(),
            cut: cut.into(),
            at_once: matches!(classify, Some(Reclassified::ButFor(_))),
            classify,
            changed: changed.into(),
            formers: VecDeque::with_capacity(replaced),
            emptied: Vec::with_capacity(replaced),
            retired: Retired::default(),
            done: None,
        })
    }

    /// Answers this.
    fn answer(mut self: Box<Self>, answer: impl FnOnce(Box<Self>) -> ChangedByClass) {
        if let Some(done) = self.done.take() {
            done.send(Some(answer(self)));
        }
    }
}

/// What waits for a place in the tree during a change.
#[derive(Default)]
pub(super) struct Moving {
    job: Option<Box<ClassJob>>,
    /// Places whose packets are still to be queued anew, by their numbers.
    cut: VecDeque<CutClass>,
    /// The filters by which these get their packets meanwhile.
    former: Option<Box<dyn Classify>>,
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
    /// So many of them since the last piece.
    came: usize,
    /// The discipline was switched off, and its queue still holds packets.
    pub(super) hands_over: bool,
}

impl fmt::Debug for Moving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moving")
            .field("job", &self.job)
            .field("cut", &self.cut)
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
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

    /// Whether places are cut without a pause, and some have still to be.
    fn cuts_at_once(&self) -> bool {
        !self.cut.is_empty() && self.job.as_ref().is_some_and(|job| job.at_once)
    }

    /// Whether what arrives has to wait.
    pub(super) fn holds_up(&self) -> bool {
        match self.job.is_some() && self.is_empty() {
            true => self.cuts_at_once(),
            false => !self.is_idle(),
        }
    }

    /// Forgets places that were to be cut, and their filters: there will be other ones.
    pub(super) fn forget_cuts(&mut self, retired: &mut Retired) {
        if self.former.is_some() || !self.cut.is_empty() {
            retired.keep((self.former.take(), std::mem::take(&mut self.cut)));
        }
    }

    /// Another queue has replaced this one: nothing waits for it if it holds no packets.
    fn replaced(&mut self, former: Box<dyn DetachedQueue>) {
        match former.held().packets {
            0 => self.emptied.push(former),
            _ => self.formers.push_back(former),
        }
    }

    /// Takes over what a change has room for.
    fn begin(&mut self, job: &mut ClassJob) {
        std::mem::swap(&mut self.cut, &mut job.cut);
        std::mem::swap(&mut self.formers, &mut job.formers);
        self.formers.append(&mut job.formers);
        std::mem::swap(&mut self.emptied, &mut job.emptied);
        self.emptied.append(&mut job.emptied);
    }

    /// Gives it back, and with it what is left over.
    fn end(&mut self, job: &mut ClassJob) {
        std::mem::swap(&mut self.cut, &mut job.cut);
        std::mem::swap(&mut self.formers, &mut job.formers);
        std::mem::swap(&mut self.emptied, &mut job.emptied);
        if let Some(former) = self.former.take() {
            job.classify = Some(Reclassified::Anew(former));
        }
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
        self.came += 1;
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

impl Path {
    /// Whether what passes goes to a tape.
    pub(crate) fn has_tape(&self) -> bool {
        self.tape.is_some()
    }

    /// Whether a change is under way, or packets of one are still to be queued.
    pub(crate) fn is_changing(&self) -> bool {
        !self.moving.is_idle()
    }

    /// Begins a change, whose end is answered.
    pub(crate) fn begin_change(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        mut job: Box<ClassJob>,
        done: Done<Option<ChangedByClass>>,
    ) {
        job.done = Some(done);
        let clock = now;
        let now = self.queue_time(clock);
        let plan = match self.start(now, pool, &mut job) {
            Ok(plan) => plan,
            Err(why) => return job.answer(|job| ChangedByClass::Refused(why, job)),
        };
        self.moving.begin(&mut job);
        if let (Some(realiser), Some(pacing)) = (&mut self.realiser, plan.root.plan.pacing()) {
            realiser.repace(pacing);
        }
        self.changes += 1;
        if let Some(bandwidth) = job.bandwidth {
            self.queue.set_bandwidth(clock, bandwidth);
        }
        // A due time of the old plan means nothing under the new one.
        self.due = None;
        self.wire.iter_mut().for_each(|wire| wire.retuned(now, &plan));
        job.plan = self.plan.replace(plan);
        if job.come.is_empty() {
            self.reclassify(&mut job);
        }
        self.moving.job = Some(job);
        self.note_plain();
    }

    /// The plan of a change, of which the first class has come or gone.
    ///
    /// # Errors
    /// Why that cannot be done by the class. Nothing has changed.
    fn start(&mut self, now: Instant, pool: &mut Pool, job: &mut ClassJob) -> Result<TreePlan, Declined> {
        let takes_long = match &job.classify {
            Some(Reclassified::ButFor(few)) => !self.classify.amends(few),
            _ => false,
        };
        // A tape tells of whole plans.
        if self.has_tape() {
            return Err(Declined::Taped);
        }
        if takes_long {
            return Err(Declined::Filters);
        }
        let plan = job.plan.clone().ok_or(Declined::Discipline)?;
        if !self.queue.queue_mut().retune_own(now, plan.root.plan.as_ref()) {
            return Err(Declined::Discipline);
        }
        self.moving.forget_cuts(&mut job.retired);
        let first = match job.come.pop_back() {
            Some(first) => self.come(now, pool, first, &plan),
            None => match job.cut.pop_front() {
                Some(first) => self.cut(now, pool, first, &plan),
                None => true,
            },
        };
        first.then_some(plan).ok_or(Declined::Discipline)
    }

    /// All classes have come: their packets may.
    fn reclassify(&mut self, job: &mut ClassJob) {
        match job.classify.take() {
            Some(Reclassified::Anew(classify)) => {
                self.moving.former = Some(std::mem::replace(&mut self.classify, classify));
            }
            Some(Reclassified::ButFor(few)) => {
                self.classify.amend(&few);
                job.classify = Some(Reclassified::ButFor(few));
            }
            None => {}
        }
    }

    /// Chooses class and flow of a packet that arrives: of one whose place is still to be cut, by
    /// the former filters.
    #[inline]
    pub(super) fn choose(&mut self, headers: &Headers, packet: &mut Packet) {
        let Moving { former, cut, .. } = &mut self.moving;
        if let Some(former) = former {
            former.classify(headers, packet);
            if cut.binary_search_by_key(&packet.class, |cut| cut.class).is_ok() {
                return;
            }
        }
        self.classify.classify(headers, packet);
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
        if !self.moving.cuts_at_once() {
            self.meter_on();
            if self.take_over() {
                self.moving.take_out(pool);
                self.queue_anew(now, pool);
            }
            self.end_succession();
        }
        if let Some(mut job) = self.moving.job.take() {
            match self.advance(now, pool, &mut job) {
                true => self.moving.job = Some(job),
                // Whoever asked has to ask for the plan as a whole. Until then packets get their
                // classes as they do now.
                false => job.answer(|job| ChangedByClass::Refused(Declined::Discipline, job)),
            }
        }
        self.end_job();
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
        // Not when it is empty: it is a portion that is not spent which ends the flush for the
        // discipline.
        if !portion.is_spent() {
            out.append(&mut moving.behind);
            moving.hands_over = false;
            self.note_plain();
        }
    }

    /// Answers that all is done, if it is.
    fn end_job(&mut self) {
        let moved = self.moving.has_moved() && self.moving.cut.is_empty();
        let ended = |job: &mut Box<ClassJob>| moved && job.come.is_empty() && job.changed.is_empty();
        let Some(mut job) = self.moving.job.take_if(ended) else {
            return;
        };
        self.moving.end(&mut job);
        job.answer(|job| ChangedByClass::Adopted(Adopted::InPlace, job));
    }

    /// Ends a change that is under way, in one go.
    pub(crate) fn end_change(&mut self, now: Instant, pool: &mut Pool) {
        while !self.moving.is_idle() {
            self.go_on(now, pool);
        }
    }

    /// The next piece of a change. `false` if a discipline cannot go on.
    fn advance(&mut self, now: Instant, pool: &mut Pool, job: &mut ClassJob) -> bool {
        let Some(plan) = self.plan.clone() else {
            return false;
        };
        if !job.come.is_empty() {
            for _ in 0..EXCHANGED {
                let Some(next) = job.come.pop_front() else {
                    break;
                };
                if !self.come(now, pool, next, &plan) {
                    return false;
                }
            }
            if job.come.is_empty() {
                self.reclassify(job);
            }
            return true;
        }
        if !self.moving.cut.is_empty() {
            if !job.at_once && !self.moving.is_empty() {
                return true;
            }
            for _ in 0..EXCHANGED {
                let Some(next) = self.moving.cut.pop_front() else {
                    break;
                };
                if !self.cut(now, pool, next, &plan) {
                    return false;
                }
            }
            return true;
        }
        let root = plan.root.plan.as_ref();
        for _ in 0..RETUNED {
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

    /// A class takes a vacant place. Whether the discipline can.
    fn come(&mut self, now: Instant, pool: &mut Pool, comes: ComingClass, plan: &TreePlan) -> bool {
        let ComingClass {
            class,
            queue,
            guarantee,
        } = comes;
        let (tree, root) = (self.queue.queue_mut(), plan.root.plan.as_ref());
        let Some(former) = tree.renew_class(now, root, class, queue) else {
            return false;
        };
        self.renumbered(pool, class, Some(guarantee), plan);
        self.moving.replaced(former);
        true
    }

    /// A place gets another queue, and what waits in its former one is to be queued anew. Whether
    /// the discipline can.
    fn cut(&mut self, now: Instant, pool: &mut Pool, cut: CutClass, plan: &TreePlan) -> bool {
        let CutClass {
            class,
            queue,
            becomes,
        } = cut;
        let (tree, root) = (self.queue.queue_mut(), plan.root.plan.as_ref());
        let former = match becomes {
            Becomes::Itself => tree.exchange_queue(now, class, queue),
            Becomes::Vacant | Becomes::Another(_) => tree.renew_class(now, root, class, queue),
        };
        let Some(former) = former else { return false };
        match becomes {
            Becomes::Itself => {}
            Becomes::Vacant => self.renumbered(pool, class, None, plan),
            Becomes::Another(guarantee) => self.renumbered(pool, class, Some(guarantee), plan),
        }
        self.moving.replaced(former);
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
        let mut late = ARRIVED.max(2 * std::mem::take(&mut self.moving.came));
        for _ in 0..QUEUED {
            if let Some(mut packet) = self.moving.out.pop_front() {
                self.classify_again(pool, &mut packet);
                let dropped = self.totals.dropped.packets;
                self.queue_one(now, pool, packet, true);
                let refused = self.totals.dropped.packets - dropped;
                let succession = self.moving.succession.iter_mut();
                succession.for_each(|succession| succession.refused += refused);
            } else if late > 0
                && let Some(packet) = self.moving.next_behind()
            {
                late -= 1;
                self.queue_one(now, pool, packet, false);
            } else {
                return;
            }
        }
    }

    /// Queues one of them, which was in another tree before, or in none.
    fn queue_one(&mut self, now: Instant, pool: &mut Pool, packet: Packet, moves: bool) {
        let charged = match moves {
            true => self.keep_charged(pool, &packet),
            false => self.charge(pool, &packet),
        };
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
