//! A change of the whole tree while packets flow. The new one, which was built beside the packet
//! loop, takes the former one's place at once, and sends from then on. What the former one holds
//! moves into it in pieces between batches, each packet into the class that it would get if it
//! arrived now: its old class does not decide, as the former tree may have had none, and later
//! packets of the same flow must not overtake it. What arrives meanwhile waits behind, as in a
//! change [of a few classes](super::by_class).
//!
//! What takes longer the more classes there are comes [prepared](PreparedRetune), or goes over
//! piece by piece: the meters, and before any packet what the queues of classes know of flows,
//! delays and drops, which those of the same classes
//! [take over](engine::discipline::Discipline::take_over). What is left over is dropped by whoever
//! asked for the change, at its end.

use super::Path;
use super::by_class::Moving;
use crate::handle::{Adopted, Done, PreparedRetune, PresentPlan, Retired, Retune, Retuned};
use crate::pool::Pool;
use crate::replay::event::TapeEvent;
use crate::same_classes::SameClasses;
use engine::discipline::DetachedQueue;
use engine::packet::ClassId;
use engine::shaped_queue::HEIRS;
use engine::units::Instant;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Classes whose meters go over between two batches at most.
const METERED: usize = 256;

/// Classes, and flows with a backlog in their queues, of which another queue takes over what is
/// known, between two batches: about as many.
const TAKEN_OVER: u32 = 256;
/// A tree has taken another's place, and not yet all that was queued.
#[derive(Debug)]
pub(super) struct Succession {
    /// Packets that the new one has refused.
    pub(super) refused: u64,
    retired: Retired,
    awaits: Awaits,
    heirs: Option<Heirs>,
}

/// Queues of a former tree that know something, to be taken over.
#[derive(Debug)]
struct Heirs {
    /// When the new tree took its place.
    at: Instant,
    classes: Arc<SameClasses>,
    /// By their numbers in the former tree.
    left: Range<u32>,
}

/// Who awaits the end.
#[derive(Debug)]
pub(super) enum Awaits {
    /// Nobody.
    Nobody,
    /// Who asked for another plan.
    Plan(Done<Option<Retuned>>),
    /// Whose tape begins with the new tree, and knows of nothing that was queued before. He drops
    /// the former tree.
    Tape(Sender<Box<dyn DetachedQueue>>),
}

impl Succession {
    /// With its end goes what is retired.
    pub(super) fn of(retired: Retired, awaits: Awaits) -> Box<Self> {
        Box::new(Self {
            refused: 0,
            retired,
            awaits,
            heirs: None,
        })
    }

    /// The same, in which queues take over from others first.
    fn with_heirs(mut self: Box<Self>, heirs: Heirs) -> Box<Self> {
        self.heirs = (heirs.left.len() <= HEIRS).then_some(heirs);
        self
    }

    /// Whether a tape knows of what was queued before.
    pub(super) fn is_known(&self) -> bool {
        !matches!(self.awaits, Awaits::Tape(_))
    }
}

impl Path {
    /// What it runs, for whoever prepares another plan.
    pub(crate) fn present(&self, pool: &Pool) -> PresentPlan {
        PresentPlan {
            plan: self.plan.clone(),
            changes: self.changes,
            yields: Arc::clone(&self.yields),
            reserved: pool.reserved(self.id.into()),
            taped: self.has_tape(),
        }
    }

    /// Adopts a new plan: in place if the disciplines can, else by its tree, into which packets are
    /// moved. So are they if filters change: later packets of a flow that gets another class must
    /// not overtake those that wait in the former one. The end is answered.
    pub(crate) fn retune(
        &mut self,
        clock: Instant,
        pool: &mut Pool,
        prepared: Box<PreparedRetune>,
        done: Done<Option<Retuned>>,
    ) {
        if prepared.changes != self.changes {
            done.send(Some(Retuned::Stale(prepared)));
            return;
        }
        let now = self.queue_time(clock);
        self.shown = self.shown.max(now);
        let adopted = self.retune_at((clock, now), pool, prepared, Awaits::Plan(done));
        if let Some((retired, Awaits::Plan(done))) = adopted {
            done.send(Some(Retuned::Adopted(Adopted::InPlace, retired)));
        }
    }

    /// The same at this time of the clock, when the queue's time is `now`. What is left over, and
    /// who awaits that, if it is done; otherwise it has begun.
    fn retune_at(
        &mut self,
        (clock, now): (Instant, Instant),
        pool: &mut Pool,
        mut prepared: Box<PreparedRetune>,
        awaits: Awaits,
    ) -> Option<(Retired, Awaits)> {
        let Retune {
            plan,
            classify,
            bandwidth,
            ..
        } = &mut prepared.retune;
        let mut retired = Retired::default();
        self.moving.forget_cuts(&mut retired);
        if let Some(classify) = classify.take() {
            retired.keep(std::mem::replace(&mut self.classify, classify));
        }
        if let Some(bandwidth) = *bandwidth {
            self.queue.set_bandwidth(clock, bandwidth);
        }
        self.changed();
        if let (Some(realiser), Some(pacing)) = (&mut self.realiser, plan.root.plan.pacing()) {
            realiser.repace(pacing);
        }
        // A due time of the old plan means nothing under the new one.
        self.due = None;
        self.wire.iter_mut().for_each(|wire| wire.retuned(now, plan));
        // If some discipline cannot, others may have adopted theirs: no packet leaves before the
        // new tree is there.
        let in_place = prepared.same && self.queue.queue_mut().retune(now, plan.root.plan.as_ref());
        self.write(&TapeEvent::Changed {
            clock,
            at: now,
            class: false,
        });
        if !in_place {
            self.replace(now, pool, *prepared, (retired, awaits));
            return None;
        }
        let plan = plan.clone();
        pool.adopt(self.id.into(), &mut prepared.claim);
        retired.keep(self.plan.replace(plan));
        retired.keep(prepared);
        Some((retired, awaits))
    }

    /// Replaces the tree.
    fn replace(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        prepared: PreparedRetune,
        (mut retired, awaits): (Retired, Awaits),
    ) {
        let PreparedRetune {
            retune,
            tree,
            classes,
            mut claim,
            meters,
            clamp_indices,
            ..
        } = prepared;
        let former = self.queue.replace(now, tree, |class| classes.successor(class));
        self.trees += 1;
        self.numbering = self.numbering.wrapping_add(1);
        if let Some(wire) = &mut self.wire {
            let default = retune.plan.default.unwrap_or(ClassId(0));
            wire.each(&mut |packet| {
                pool.discharge(packet.buffer);
                packet.class = classes.successor(packet.class).unwrap_or(default);
            });
        }
        pool.succeed(self.id.into(), self.numbering, &mut claim);
        self.meters.succeed(meters, Arc::clone(&classes));
        self.forget_experience(None);
        retired.keep(std::mem::replace(&mut self.clamp_indices, clamp_indices));
        retired.keep(self.plan.replace(retune.plan.clone()));
        retired.keep((retune, claim));
        self.moving.formers.push_back(Box::new(former));
        let heirs = Heirs {
            at: now,
            left: 0..classes.former(),
            classes,
        };
        self.moving.succession = Some(Succession::of(retired, awaits).with_heirs(heirs));
        self.note_plain();
    }

    /// Has the next queues take over what those of a former tree know. Whether none is left, so
    /// that packets may follow.
    pub(super) fn take_over(&mut self) -> bool {
        let Moving {
            succession, formers, ..
        } = &mut self.moving;
        let Some(heirs) = succession.as_mut().and_then(|of| of.heirs.as_mut()) else {
            return true;
        };
        let mut looks = 0;
        if let Some(former) = formers.back_mut() {
            while looks < TAKEN_OVER
                && let Some(class) = heirs.left.next().map(ClassId)
            {
                looks += match heirs.classes.successor(class) {
                    Some(heir) => self.queue.take_over(heirs.at, former.discipline(), (class, heir)),
                    None => 1,
                };
            }
        }
        if heirs.left.is_empty() {
            succession.iter_mut().for_each(|of| of.heirs = None);
        }
        false
    }

    /// Takes over the next of a former tree's meters.
    pub(super) fn meter_on(&mut self) {
        if let Some(succession) = &mut self.moving.succession
            && let Some(former) = self.meters.go_on(METERED)
        {
            succession.retired.keep(former);
        }
    }

    /// Answers who awaits that all has moved, if it has.
    pub(super) fn end_succession(&mut self) {
        if !self.moving.has_moved() || self.meters.is_following() {
            return;
        }
        let Some(ended) = self.moving.succession.take() else {
            return;
        };
        let Succession {
            refused,
            mut retired,
            awaits,
            heirs: _,
        } = *ended;
        let mut former = std::mem::take(&mut self.moving.emptied);
        // Whoever asked may have given up waiting.
        match awaits {
            Awaits::Nobody => {}
            Awaits::Tape(dropper) => former.drain(..).for_each(|former| drop(dropper.send(former))),
            Awaits::Plan(done) => {
                retired.keep(former);
                let adopted = Adopted::Rebuilt { dropped: refused };
                done.send(Some(Retuned::Adopted(adopted, retired)));
            }
        }
    }

    /// Adopts a plan again, at these times. Where a tape has the places of all that moves before
    /// the change, it moves at once; otherwise each is on the tape when it gets its place.
    pub(crate) fn retune_again(
        &mut self,
        at: (Instant, Instant),
        pool: &mut Pool,
        retune: Retune,
        at_once: bool,
    ) {
        self.end_change(at.1, pool);
        let prepared = PreparedRetune::new(retune, &self.present(pool));
        let _ = self.retune_at(at, pool, Box::new(prepared), Awaits::Nobody);
        if at_once {
            return self.end_change(at.1, pool);
        }
        while self.meters.is_following() {
            self.meters.go_on(METERED);
        }
        while !self.take_over() {}
        self.moving.take_out(pool);
        self.end_succession();
        self.note_plain();
    }
}
