//! The exam: random operations on a queue, each checked against the contract, then a drain.

use crate::ledger::{Event, Ledger};
use engine::discipline::{Build, Discipline, Next, Plan, Verdict};
use engine::inspect::{Inspection, View};
use engine::kind::QueuePlan;
use engine::packet::{ClassId, Ecn, FlowHashes};
use engine::portion::Portion;
use engine::queue::{Count, Queue};
use engine::random::{Rng, Seed};
use engine::shaped_queue::{ShapedQueue, hand_over};
use engine::units::{Bytes, Duration, Instant};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How often a queue may answer a dequeue at its own deadline with another wait, without arrivals.
/// Generous: a tree of shaping levels may need a wait for each.
const WAITS: u32 = 1_000;

/// Portions after which a flush has to be done: far more than there are packets and queues.
const PORTIONS: u32 = 100_000;

/// What is examined.
#[derive(Debug)]
pub struct Subject {
    /// Its plan.
    pub queue: QueuePlan,
    /// A plan of the same shape, to change to and fro.
    pub other: QueuePlan,
    /// A plan of any shape, whose queue takes the place and the packets of the first, and back.
    pub foreign: QueuePlan,
    /// How many classes its tree has.
    pub classes: u32,
}

/// How a run is disturbed. Only a change may be visible from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meddling {
    None,
    Inspecting,
    Retuning,
    /// Flushes are done in portions.
    Portioning,
    Changing,
    /// The same class by class, where that can be done, with other operations in between.
    ChangingByClass,
    Replacing,
}

/// Runs a subject through random operations of this seed: twice alike, then inspected all the time,
/// then flushed in portions, then retuned with its own plan and with a foreign one; before that
/// with plans that change, and with queues that take each other's place. The error says what was
/// wrong, and what led to it.
pub fn examine(subject: &Subject, seed: Seed, operations: u32) -> Result<(), String> {
    run(subject, seed, operations, Meddling::Changing)?;
    run(subject, seed, operations, Meddling::ChangingByClass)?;
    run(subject, seed, operations, Meddling::Replacing)?;
    let reference = run(subject, seed, operations, Meddling::None)?;
    let others = [
        (Meddling::None, "the same seed gave another output"),
        (Meddling::Inspecting, "inspecting changed the output"),
        (
            Meddling::Portioning,
            "a flush in portions was another than one of the whole",
        ),
        (
            Meddling::Retuning,
            "retuning with its own plan changed the output",
        ),
    ];
    for (meddling, fault) in others {
        let again = run(subject, seed, operations, meddling)?;
        if again != reference {
            let same = reference.iter().zip(&again).take_while(|(a, b)| a == b).count();
            let (first, second) = (reference.get(same), again.get(same));
            return Err(format!("{fault}: event {same} was {first:?}, then {second:?}"));
        }
    }
    Ok(())
}

fn run(
    subject: &Subject,
    seed: Seed,
    operations: u32,
    meddling: Meddling,
) -> Result<Vec<(Instant, Event)>, String> {
    let mut exam = Exam {
        queue: subject.queue.build(&Build::new(seed.fork("queue"))),
        subject,
        ledger: Ledger::default(),
        rng: seed.fork("operations").stream(),
        deadline: None,
        waits: 0,
        meddling,
        views: Vec::new(),
        changes: seed.fork("changes").stream(),
        changed: false,
        still: Vec::new(),
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        exam.operate(operations / 2);
        exam.fill();
        exam.flush();
        exam.operate(operations / 2);
        exam.fill();
        exam.drain();
    }));
    match outcome {
        Ok(()) => Ok(exam.ledger.events),
        Err(panic) => {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
            let last = exam.ledger.events.iter().rev().take(16).rev();
            let story: Vec<String> = last.map(|(at, event)| format!("{at}: {event:?}")).collect();
            Err(format!(
                "{}\nat {}, {meddling:?}; before it:\n  {}",
                message.unwrap_or("a panic"),
                exam.ledger.now,
                story.join("\n  ")
            ))
        }
    }
}

struct Exam<'a> {
    queue: Queue,
    subject: &'a Subject,
    ledger: Ledger,
    rng: Rng,
    /// Nothing may leave before, as the queue said; forgotten when something arrives.
    deadline: Option<Instant>,
    /// Dequeues at a deadline that were answered with a wait, since the last packet or arrival.
    waits: u32,
    meddling: Meddling,
    views: Vec<View>,
    changes: Rng,
    /// Whether the other plan is in force.
    changed: bool,
    /// Classes that have not adopted the plan in force yet.
    still: Vec<ClassId>,
}

impl Exam<'_> {
    fn operate(&mut self, operations: u32) {
        let mut arrivals = 50;
        for _ in 0..operations {
            if self.rng.below(20) == 0 {
                // Now and then a calm or a storm.
                arrivals = self.rng.below(101);
            }
            self.step_time();
            match self.rng.below(400) {
                0 => self.flush(),
                1..=40 => self.peek(),
                _ if self.rng.below(100) < arrivals => self.enqueue(),
                _ => self.dequeue(),
            }
            self.ledger.check_account(&self.queue);
            self.meddle();
        }
    }

    /// So that there is something to flush and to drain.
    fn fill(&mut self) {
        for _ in 0..8 {
            self.enqueue();
            self.ledger.check_account(&self.queue);
        }
    }

    /// Often no time passes; otherwise up to the deadline, exactly the deadline, or any amount.
    fn step_time(&mut self) {
        let now = self.ledger.now;
        let step = match self.rng.below(16) {
            0..=5 => 0,
            6..=9 => self.rng.below(1_500),
            10 | 11 => self.rng.below(1_000_000),
            12 => self.rng.below(100_000_000),
            13 if self.rng.below(20) == 0 => self.rng.below(3_600_000_000_000),
            13 => 1,
            14 => self
                .deadline
                .map_or(0, |at| at.since(now).nanos().saturating_sub(1)),
            _ => self.deadline.map_or(0, |at| at.since(now).nanos()),
        };
        self.ledger.now = now + Duration::from_nanos(step);
    }

    fn enqueue(&mut self) {
        let len = match self.rng.below(32) {
            0 => 1,
            1 => 65_226,
            2..=12 => 1_514,
            _ => 40 + self.rng.below(1_475),
        };
        let class = ClassId(self.rng.below(u64::from(self.subject.classes) + 2) as u32);
        let flow = self.rng.below(12) as u32;
        let flow = FlowHashes {
            source: flow % 3,
            destination: flow % 4,
            full: flow,
        };
        // A sender is of the L4S kind or it is not: a discipline may tell flows apart by that.
        let kinds = [[Ecn::NotEct, Ecn::Ect0], [Ecn::Ect1, Ecn::Ce]];
        let ecn = kinds[flow.full as usize % 2][self.rng.below(2) as usize];
        (self.deadline, self.waits) = (None, 0);
        // A flow has two DSCPs, in places of the table that a discipline may tell apart or not.
        let dscps = [[0, 46], [10, 14], [8, 0], [34, 20]][flow.full as usize % 4];
        let dscp = dscps[self.rng.below(2) as usize];
        let (id, packet) = self.ledger.offer(Bytes::new(len), class, flow, (ecn, dscp));
        let verdict = self.queue.enqueue(self.ledger.now, packet, &mut self.ledger);
        let dropped = match verdict {
            Verdict::Queued => None,
            Verdict::Dropped(why) => Some(why),
        };
        self.ledger.check_verdict(id, dropped);
    }

    fn dequeue(&mut self) {
        match self.queue.dequeue(self.ledger.now, &mut self.ledger) {
            Next::Ready(packet) => {
                self.ready(packet.buffer.0);
                self.ledger.sent(&packet);
            }
            Next::Wait(at) => self.wait(at),
            Next::Empty => self.empty(),
        }
    }

    fn peek(&mut self) {
        match self.queue.peek(self.ledger.now, &mut self.ledger) {
            Next::Ready(packet) => {
                self.ledger.peeked(packet);
                let id = packet.buffer.0;
                self.ready(id);
            }
            Next::Wait(at) => self.wait(at),
            Next::Empty => self.empty(),
        }
    }

    fn ready(&mut self, id: u32) {
        let now = self.ledger.now;
        if let Some(at) = self.deadline.take() {
            assert!(
                now >= at,
                "packet {id} left at {now}, though none was to leave before {at}"
            );
        }
        self.waits = 0;
    }

    fn wait(&mut self, at: Instant) {
        let now = self.ledger.now;
        self.ledger.note(Event::Wait(at));
        assert!(at > now, "waits until {at}, which is not after {now}");
        assert!(
            self.ledger.pinned.is_none(),
            "waits, though a packet was peeked at"
        );
        assert!(self.ledger.held().packets > 0, "waits without a backlog");
        if self.deadline.is_some_and(|former| former <= now) {
            self.waits += 1;
            assert!(
                self.waits < WAITS,
                "waited {WAITS} times over: packets are never released"
            );
        }
        self.deadline = Some(at);
    }

    fn empty(&mut self) {
        self.ledger.note(Event::Empty);
        let held = self.ledger.held().packets;
        assert!(held == 0, "empty with a backlog of {held} packets");
    }

    fn flush(&mut self) {
        self.ledger.note(Event::Flush);
        self.ledger.flushing = true;
        for portions in 0.. {
            let (most, looks) = match self.meddling {
                Meddling::Portioning => (1 + self.changes.below(4), 1 + self.changes.below(9)),
                _ => (u64::MAX, u64::MAX),
            };
            let mut portion = match most {
                u64::MAX => Portion::whole(),
                most => Portion::of(most as u32, looks as u32),
            };
            let before = self.ledger.held().packets;
            self.queue.flush(&mut portion, &mut self.ledger);
            let left = before - self.ledger.held().packets;
            assert!(
                left <= most,
                "{left} packets left in a flush of a portion of {most}"
            );
            self.ledger.check_account(&self.queue);
            if !portion.is_spent() {
                break;
            }
            assert!(
                portions < PORTIONS,
                "after {portions} portions a flush is not done"
            );
        }
        self.ledger.flushing = false;
        (self.ledger.pinned, self.deadline, self.waits) = (None, None, 0);
        let held = self.ledger.held().packets;
        assert!(held == 0, "holds {held} packets after a flush");
    }

    /// With no more arrivals every packet comes out, and only waiting is needed.
    fn drain(&mut self) {
        let link_speed = self.rng.below(2) == 0;
        // A change ends, whatever the queue waits for.
        while !self.still.is_empty() {
            self.change_on();
        }
        while self.ledger.held().packets > 0 {
            self.dequeue();
            self.ledger.check_account(&self.queue);
            let step = self.deadline.map(|at| at.since(self.ledger.now));
            let packet_time = Duration::from_micros(if link_speed { 120 } else { 0 });
            self.ledger.now = self.ledger.now + step.unwrap_or(packet_time);
        }
        self.dequeue();
        assert!(matches!(self.ledger.events.last(), Some((_, Event::Empty))));
    }

    fn meddle(&mut self) {
        match self.meddling {
            Meddling::None | Meddling::Portioning => {}
            Meddling::Inspecting => self.inspect(),
            Meddling::Retuning => {
                let now = self.ledger.now;
                let adopted = self.queue.retune(now, &Foreign);
                assert!(!adopted, "adopted the plan of another kind");
                let _ = self.queue.retune(now, &*self.subject.queue.plan);
            }
            Meddling::Changing if self.changes.below(16) == 0 => self.change(),
            Meddling::ChangingByClass if self.changes.below(4) == 0 => self.change_on(),
            Meddling::Replacing if self.changes.below(32) == 0 => self.replace(),
            Meddling::Changing | Meddling::ChangingByClass | Meddling::Replacing => {}
        }
    }

    /// Changes to the other plan; if the queue cannot, back to the one in force, as hosts do.
    fn change(&mut self) {
        let plans = [&self.subject.queue.plan, &self.subject.other.plan];
        let now = self.ledger.now;
        let adopted = self.queue.retune(now, &**plans[usize::from(!self.changed)]);
        if adopted {
            self.changed = !self.changed;
        } else {
            let _ = self.queue.retune(now, &**plans[usize::from(self.changed)]);
        }
        // A larger rate may release packets sooner than was said.
        (self.deadline, self.waits) = (None, 0);
        self.ledger.check_account(&self.queue);
    }

    /// Begins with a change to the other plan, or goes on with one class of it. What cannot be done
    /// so is done as a whole, as hosts do.
    fn change_on(&mut self) {
        let plans = [&self.subject.queue.plan, &self.subject.other.plan];
        let now = self.ledger.now;
        let adopted = if let Some(class) = self.still.pop() {
            let plan = plans[usize::from(self.changed)];
            self.queue.retune_class(now, &**plan, class)
        } else {
            let (former, plan) = (
                plans[usize::from(self.changed)],
                plans[usize::from(!self.changed)],
            );
            let Some(classes) = plan.changed_classes(&**former, true) else {
                return self.change();
            };
            self.still = classes;
            let begun = self.queue.retune_own(now, &**plan);
            self.changed ^= begun;
            begun
        };
        if !adopted {
            self.still.clear();
            let _ = self.queue.retune(now, &**plans[usize::from(self.changed)]);
        }
        (self.deadline, self.waits) = (None, 0);
        self.ledger.check_account(&self.queue);
    }

    /// Another queue takes the place of this one, and its packets in order, as hosts do when
    /// classes or disciplines are exchanged. What the new one has no room for it drops.
    fn replace(&mut self) {
        self.changed = !self.changed;
        let plan = if self.changed {
            &self.subject.foreign
        } else {
            &self.subject.queue
        };
        let seed = Seed(self.changes.bits());
        let build = || plan.build(&Build::new(seed));
        let mut place = ShapedQueue::new(std::mem::replace(&mut self.queue, build()), None);
        let held = self.ledger.held();
        let mut former = place.replace(self.ledger.now, build(), Some);
        let packets = hand_over(&mut former);
        let left = former.backlog();
        assert!(left.packets == 0, "{left:?} stay in the queue that was replaced");
        let mut moved = Count::default();
        packets.iter().for_each(|packet| moved += packet.len);
        assert!(moved == held, "{moved:?} of {held:?} were handed over");
        std::mem::swap(&mut self.queue, place.queue_mut());
        self.ledger.handed_over(&packets);
        for packet in packets {
            let _ = self.queue.enqueue(self.ledger.now, packet, &mut self.ledger);
        }
        (self.deadline, self.waits) = (None, 0);
        self.ledger.check_account(&self.queue);
    }

    /// The view of the tree has the queue's own counts, and each class is there once.
    fn inspect(&mut self) {
        self.queue.inspect(&mut Inspection::new(&mut self.views));
        let top = &self.views[0];
        assert!(top.class.is_none() && top.kind == self.queue.kind() && top.stats == self.queue.stats());
        let shown: Vec<u32> = self.views.iter().filter_map(|v| v.class).map(|c| c.0).collect();
        let unique: HashSet<u32> = shown.iter().copied().collect();
        assert!(
            unique == (0..self.subject.classes).collect() && unique.len() == shown.len(),
            "of {} classes, these were shown: {shown:?}",
            self.subject.classes
        );
    }
}

/// A plan that no kind knows.
#[derive(Debug)]
struct Foreign;

impl Plan for Foreign {
    fn build(&self, _cx: &Build) -> Box<dyn Discipline> {
        unreachable!("it is never built")
    }
}
