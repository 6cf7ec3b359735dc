//! Deliberately broken disciplines, one for each sort of mistake, to prove that the contract test
//! notices.
//!
//! Each is two lists, for even and for odd flows, served in turn: a sound discipline but for its
//! fault.

use engine::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use engine::inspect::Inspection;
use engine::kind::{Check, Children, Kind, Properties};
use engine::packet::{Buffer, Ecn, Packet};
use engine::portion::Portion;
use engine::units::{Bytes, Duration, Instant};
use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// What is wrong with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing: it must pass.
    None,
    /// Drops an arriving packet and says so, without the sink.
    DropsWithoutWitness,
    /// Drops an arriving packet silently and answers `Queued`.
    ForgetsOnEnqueue,
    /// Loses a packet on the way out.
    ForgetsOnDequeue,
    /// Answers `Queued`, and gives the packet to the sink.
    LiesInVerdict,
    /// Gives the packet to the sink for one reason and answers another.
    LiesAboutReason,
    /// Waits until now.
    WaitsForThePast,
    /// Answers `Empty` with a backlog.
    EmptyWhileHolding,
    /// Answers `Wait` without a backlog.
    WaitsForNothing,
    /// Names a deadline and gives a packet before it.
    LeavesBeforeDeadline,
    /// Puts every deadline off, for ever.
    NeverReleases,
    /// Serves the newest packet of a list.
    Reorders,
    /// Keeps a packet that it took out too early, and lets the next one overtake it.
    OvertakesItsStash,
    /// Sends a packet twice.
    Duplicates,
    /// Sends a packet that was never offered.
    Invents,
    /// Changes a packet's length.
    ChangesLength,
    /// Marks a packet that is not ECN-capable.
    MarksIncapable,
    /// Marks without telling the sink.
    MarksSilently,
    /// Keeps a packet in a flush.
    KeepsInFlush,
    /// Flushes for another reason.
    FlushesAsFull,
    /// Flushes more than it was given a portion for.
    FlushesBeyondItsPortion,
    /// Forgets after a portion where it was in a flush.
    FlushesAnewInEachPortion,
    /// Says "flushed" without a flush.
    FlushesUnasked,
    /// Drops for a reason that only hosts have.
    DropsAsPort,
    /// Depends on something besides its seed.
    Nondeterministic,
    /// Changes its turn when looked at.
    DisturbedByInspection,
    /// Forgets its turn when retuned.
    DisturbedByRetune,
    /// Adopts any plan.
    AdoptsForeignPlan,
}

/// Each fault with words of the message by which it must be noticed; `|` between alternatives,
/// where it depends on the moment which check comes first.
pub const FAULTS: &[(Fault, &str)] = &[
    (Fault::DropsWithoutWitness, "without a witness"),
    (Fault::ForgetsOnEnqueue, "empty with a backlog|after a flush"),
    (Fault::ForgetsOnDequeue, "empty with a backlog|after a flush"),
    (Fault::LiesInVerdict, "the verdict on packet"),
    (Fault::LiesAboutReason, "the verdict on packet"),
    (Fault::WaitsForThePast, "which is not after"),
    (Fault::EmptyWhileHolding, "empty with a backlog"),
    (Fault::WaitsForNothing, "waits without a backlog"),
    (Fault::LeavesBeforeDeadline, "though none was to leave before"),
    (Fault::NeverReleases, "packets are never released"),
    (Fault::Reorders, "of the same class, flow and DSCP"),
    (Fault::OvertakesItsStash, "of the same class, flow and DSCP"),
    (
        Fault::Duplicates,
        "had left before|never offered|empty with a backlog",
    ),
    (Fault::Invents, "never offered"),
    (Fault::ChangesLength, "was changed"),
    (Fault::MarksIncapable, "was marked, but is"),
    (Fault::MarksSilently, "but the sink knows of"),
    (Fault::KeepsInFlush, "after a flush"),
    (Fault::FlushesAsFull, "during a flush"),
    (Fault::FlushesBeyondItsPortion, "in a flush of a portion of"),
    (
        Fault::FlushesAnewInEachPortion,
        "a flush in portions was another than one of the whole",
    ),
    (Fault::FlushesUnasked, "without a flush"),
    (Fault::DropsAsPort, "a reason of hosts"),
    (Fault::Nondeterministic, "the same seed gave another output"),
    (Fault::DisturbedByInspection, "inspecting changed the output"),
    (
        Fault::DisturbedByRetune,
        "retuning with its own plan changed the output",
    ),
    (Fault::AdoptsForeignPlan, "adopted the plan of another kind"),
];

/// The kind of all of them.
pub static KIND: Kind = Kind {
    name: "broken",
    summary: "Breaks the contract in one way",
    reference: "the contract test",
    children: Children::None,
    settings: &[],
    class_settings: &[],
    properties: Properties::NONE,
    check,
};

fn check(_: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    Some(Arc::new(Fault::None))
}

impl Plan for Fault {
    fn build(&self, _cx: &Build) -> Box<dyn Discipline> {
        Box::new(Broken {
            fault: *self,
            lists: Default::default(),
            turn: Cell::new(false),
            stash: None,
            calls: 0,
        })
    }
}

#[derive(Debug)]
struct Broken {
    fault: Fault,
    lists: [VecDeque<Packet>; 2],
    turn: Cell<bool>,
    stash: Option<Packet>,
    calls: u32,
}

/// Another packet that looks the same: what a discipline must never make.
fn copy(packet: &Packet) -> Packet {
    Packet {
        flow: packet.flow,
        ecn: packet.ecn,
        buffer: packet.buffer,
        ..Packet::new(packet.len, packet.arrived, packet.class)
    }
}

impl Broken {
    fn turn(&mut self) -> usize {
        let turn = self.turn.get();
        self.turn.set(!turn);
        let odd = match self.fault {
            Fault::Nondeterministic => RandomState::new().hash_one(turn).is_multiple_of(2),
            _ => turn,
        };
        usize::from(odd)
    }

    fn take(&mut self) -> Option<Packet> {
        let turn = self.turn();
        let (first, second) = (turn, 1 - turn);
        let pop = |list: &mut VecDeque<Packet>, newest: bool| match newest {
            true => list.pop_back(),
            false => list.pop_front(),
        };
        let newest = self.fault == Fault::Reorders;
        pop(&mut self.lists[first], newest).or_else(|| pop(&mut self.lists[second], newest))
    }

    fn holds(&self) -> usize {
        self.lists[0].len() + self.lists[1].len()
    }

    /// What is wrong on the way in; the packet, if it may go on.
    fn spoil_arrival(&mut self, mut packet: Packet, sink: &mut dyn Sink) -> Result<Packet, Verdict> {
        let (told, why) = match self.fault {
            Fault::DropsWithoutWitness => return Err(Verdict::Dropped(Reason::Full)),
            Fault::ForgetsOnEnqueue => return Err(Verdict::Queued),
            Fault::LiesInVerdict => (Verdict::Queued, Reason::Full),
            Fault::LiesAboutReason => (Verdict::Dropped(Reason::Full), Reason::Early),
            Fault::FlushesUnasked => (Verdict::Dropped(Reason::Flushed), Reason::Flushed),
            Fault::DropsAsPort => (Verdict::Dropped(Reason::Port), Reason::Port),
            Fault::ChangesLength => {
                packet.len += Bytes::new(4);
                return Ok(packet);
            }
            Fault::MarksIncapable => {
                packet.ecn = Ecn::Ce;
                sink.mark(&packet, Reason::Early);
                return Ok(packet);
            }
            Fault::MarksSilently => {
                packet.ecn = Ecn::Ce;
                return Ok(packet);
            }
            _ => return Ok(packet),
        };
        sink.drop(packet, why);
        Err(told)
    }

    /// What is wrong with the answer, whatever is held.
    fn spoil_answer(&mut self, now: Instant) -> Option<Next<Packet>> {
        let later = Duration::from_micros(100);
        match (self.fault, self.holds()) {
            (Fault::WaitsForThePast, 1..) => Some(Next::Wait(now)),
            (Fault::EmptyWhileHolding, 1..) => Some(Next::Empty),
            (Fault::WaitsForNothing, 0) => Some(Next::Wait(now + later)),
            (Fault::NeverReleases, 1..) => Some(Next::Wait(now + later)),
            (Fault::LeavesBeforeDeadline, 1..) if self.calls.is_multiple_of(2) => {
                Some(Next::Wait(now + Duration::from_secs(1)))
            }
            (Fault::ForgetsOnDequeue, 1..) if self.calls.is_multiple_of(5) => {
                let _lost = self.take();
                None
            }
            (Fault::Invents, 1..) if self.calls.is_multiple_of(5) => {
                let packet = Packet::new(Bytes::new(40), now, engine::packet::ClassId(0));
                Some(Next::Ready(Packet {
                    buffer: Buffer(1 << 30),
                    ..packet
                }))
            }
            _ => None,
        }
    }
}

impl Discipline for Broken {
    fn enqueue(&mut self, _now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        self.calls += 1;
        let packet = match self.calls.is_multiple_of(3) {
            true => match self.spoil_arrival(packet, sink) {
                Ok(packet) => packet,
                Err(verdict) => return verdict,
            },
            false => packet,
        };
        self.lists[packet.flow.full as usize % 2].push_back(packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Instant, _sink: &mut dyn Sink) -> Next<Packet> {
        self.calls += 1;
        if let Some(answer) = self.spoil_answer(now) {
            return answer;
        }
        match self.fault {
            Fault::OvertakesItsStash if self.stash.is_none() && self.holds() > 1 => self.stash = self.take(),
            Fault::OvertakesItsStash if self.holds() == 0 => {
                return self.stash.take().map_or(Next::Empty, Next::Ready);
            }
            _ => {}
        }
        let Some(packet) = self.take() else {
            return Next::Empty;
        };
        if self.fault == Fault::Duplicates && self.calls.is_multiple_of(5) {
            self.lists[packet.flow.full as usize % 2].push_front(copy(&packet));
        }
        Next::Ready(packet)
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        let kept = match self.fault {
            Fault::KeepsInFlush => self.take(),
            _ => None,
        };
        let why = match self.fault {
            Fault::FlushesAsFull => Reason::Full,
            _ => Reason::Flushed,
        };
        while !portion.is_spent() || self.fault == Fault::FlushesBeyondItsPortion {
            let Some(packet) = self.stash.take().or_else(|| self.take()) else {
                break;
            };
            portion.left();
            sink.drop(packet, why);
        }
        if self.fault == Fault::FlushesAnewInEachPortion && portion.is_spent() {
            self.lists.swap(0, 1);
        }
        self.lists[0].extend(kept);
    }

    fn inspect(&self, _out: &mut Inspection<'_>) {
        if self.fault == Fault::DisturbedByInspection {
            self.turn.set(false);
        }
    }

    fn retune(&mut self, _now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let own = plan.is::<Fault>();
        if own && self.fault == Fault::DisturbedByRetune {
            self.turn.set(false);
        }
        own || self.fault == Fault::AdoptsForeignPlan
    }
}
