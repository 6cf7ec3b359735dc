//! A worker leaves its place to the worker of another program, which has ports of its own beside
//! these, with programs of its own at the same hooks.
//!
//! Both agree on a [`Moment`]. What arrives before it is the leaving worker's, what arrives from it
//! on the other's: both tell by the same timestamp of the frame. Ports without timestamps take what
//! their programs redirect to them: the other's at an ingress hook are before the leaving worker's,
//! and begin shortly before the moment; those at an egress hook are behind, and get what comes when
//! the leaving worker has fallen silent.
//! The leaving worker beats for [`SETTLED`] beyond the moment, so that what is on its way through
//! the kernel then goes by one of both and never by the bridge. Then its queues are emptied, each
//! frame as it would have left, and handed over; the other queues them before anything that it has
//! received itself, at their times of arrival. So a flow keeps its order.
//!
//! The worker that has left stands by, with its ports open and all frames discarded that they hear,
//! until it is ended, or takes its place [back](Worker::take_back).

use super::Worker;
use crate::backlog::{Backlog, HandedFrame, PathBacklog};
use crate::clock::{self, Moment};
use crate::handle::NotLeft;
use crate::path::Intake;
use engine::units::{Duration, Instant};
use std::sync::mpsc::Sender;

/// For how long after the moment frames may come that arrived before it.
const SETTLED: Duration = Duration::from_millis(1);

/// How long it waits for its ports to send what they have taken: what they have not sent by then
/// may leave behind frames that the other sends.
const UNSENT: Duration = Duration::from_millis(20);

/// No moment at all.
const NEVER: Moment = Moment {
    at: Instant::NEVER,
    realtime: u64::MAX,
};

/// That a worker is to leave at a moment.
#[derive(Debug)]
pub(crate) struct Leave {
    pub(crate) moment: Moment,
    /// Whether it will.
    pub(crate) agreed: Sender<Result<(), NotLeft>>,
    /// What it hands over.
    pub(crate) left: Sender<Vec<PathBacklog>>,
}

/// What is wanted of a worker's place.
#[derive(Debug)]
pub(crate) enum PlaceWish {
    /// That it leaves.
    Leave(Leave),
    /// That it does not, or takes its place back.
    TakeBack,
}

/// How far that has gone.
#[derive(Debug)]
pub(super) enum Leaving {
    /// Nothing is different yet.
    At(Leave),
    /// The ports send what they have taken, until then at most.
    Emptying(Leave, Instant),
    /// It has left; which paths were on.
    Left(Vec<bool>),
}

impl Worker {
    /// When it leaves at the latest, though nothing arrives until then.
    pub(super) fn leaves_by(&self) -> Instant {
        match &self.leaving {
            Some(Leaving::At(leave)) => leave.moment.at + SETTLED,
            _ => Instant::NEVER,
        }
    }

    /// Whether its ports send no more than they have taken.
    pub(super) fn is_emptying(&self) -> bool {
        matches!(self.leaving, Some(Leaving::Emptying(..)))
    }

    /// Whether another program has taken over.
    pub(super) fn has_left(&self) -> bool {
        matches!(self.leaving, Some(Leaving::Left(_)))
    }

    /// Leaves at a moment, or stays.
    pub(super) fn change_place(&mut self, wish: PlaceWish) {
        match wish {
            PlaceWish::Leave(leave) => self.agree(leave),
            PlaceWish::TakeBack => self.take_back(),
        }
    }

    /// Agrees to leave, or says why not.
    fn agree(&mut self, leave: Leave) {
        let not_left = match () {
            () if self.leaving.is_some() || self.ending.is_some() => Some(NotLeft::Leaving),
            () if self.now() >= leave.moment.at => Some(NotLeft::Late),
            () if self.paths.iter().any(|path| path.has_tape()) => Some(NotLeft::Taped),
            () => None,
        };
        let agreed = leave.agreed.send(not_left.map_or(Ok(()), Err));
        // Whoever does not wait any more takes no place.
        if not_left.is_some() || agreed.is_err() {
            return;
        }
        self.gates
            .iter_mut()
            .for_each(|of_ports| of_ports.gate.leave_at(leave.moment));
        self.leaving = Some(Leaving::At(leave));
    }

    /// Goes on leaving. Whether there is more to do at once.
    pub(super) fn leave_on(&mut self) -> bool {
        let now = self.now();
        match self.leaving.take() {
            Some(Leaving::At(leave)) if now >= leave.moment.at + SETTLED => {
                self.leaving = Some(Leaving::Emptying(leave, now + UNSENT));
                true
            }
            Some(Leaving::Emptying(leave, latest)) => {
                let unsent = |slot: &super::Slot| !slot.broken() && slot.port.unsent() > 0;
                if now < latest && self.slots.iter().any(unsent) {
                    self.leaving = Some(Leaving::Emptying(leave, latest));
                    return true;
                }
                let (on, left) = self.leave(now);
                self.leaving = Some(Leaving::Left(on));
                // Whoever asked may be gone: then it is told to take its place back.
                let _ = leave.left.send(left);
                true
            }
            other => {
                self.leaving = other;
                false
            }
        }
    }

    /// Leaves: which paths were on, and what waits in them.
    fn leave(&mut self, now: Instant) -> (Vec<bool>, Vec<PathBacklog>) {
        self.gates
            .iter_mut()
            .for_each(|of_ports| of_ports.gate.stand_aside(now));
        let gated = |slot: &super::Slot| slot.gate.is_some();
        self.receive_all(gated, |worker, index, path| {
            let _ = worker.accept(index, path, worker.now());
        });
        let Self {
            paths, pool, slots, ..
        } = self;
        slots.iter_mut().for_each(|slot| slot.port.hand_over(true));
        let left: Vec<PathBacklog> = paths.iter_mut().map(|path| path.hand_on(now, pool)).collect();
        (left.iter().map(|path| path.enabled).collect(), left)
    }

    /// Does not leave, or takes its place back: what it has handed over is the other's to send.
    pub fn take_back(&mut self) {
        self.gates
            .iter_mut()
            .for_each(|of_ports| of_ports.gate.leave_at(NEVER));
        let Some(Leaving::Left(on)) = self.leaving.take() else {
            return;
        };
        let now = self.now();
        let Self {
            paths, pool, slots, ..
        } = self;
        slots.iter_mut().for_each(|slot| slot.port.hand_over(false));
        for (path, on) in paths.iter_mut().zip(on) {
            path.switch(now, pool, on);
        }
    }

    /// Takes the place of another program's worker at this moment: what arrives from then on waits
    /// in the ports until the loop runs, which is to be soon. Until the call, what they have heard
    /// is [discarded](Self::discard).
    /// Ports that cannot tell by the time of arrival (`by_arrival` is false) take what they are
    /// given from the call on, shortly before the moment.
    pub fn take_from(&mut self, moment: Moment, by_arrival: bool) {
        let gates = self.gates.iter_mut().map(|of_ports| &mut of_ports.gate);
        gates
            .filter(|gate| gate.tells_by_arrival() == by_arrival)
            .for_each(|gate| gate.take_from(moment));
    }

    /// Discards what its ports have heard, which is another's to send.
    pub fn discard(&mut self) {
        let any = |_: &super::Slot| true;
        self.receive_all(any, |worker, _, _| {
            let Self { pool, batch, .. } = worker;
            batch.drain(..).for_each(|frame| pool.free(frame));
        });
    }

    /// Queues what another program's worker has handed over, of the paths that it has. How many
    /// frames there was no room for.
    pub fn inherit(&mut self, backlog: &mut Backlog) -> usize {
        let mut lost = 0;
        for index in 0..self.paths.len() {
            let of = |path: &&mut PathBacklog| path.name == self.paths[index].name();
            let Some(path) = backlog.0.iter_mut().find(of) else {
                continue;
            };
            let (mut frames, enabled) = (std::mem::take(&mut path.frames), path.enabled);
            // As they arrived: each queue then has what it had, and in a flow no frame is ahead of
            // an earlier one.
            frames.sort_by_key(|frame| frame.arrived);
            let now = clock::now();
            if !enabled {
                self.paths[index].switch(now, &mut self.pool, false);
            }
            lost += frames
                .iter()
                .filter(|frame| !self.queue_again(index, frame))
                .count();
            self.paths[index].queue_gathered(&mut self.pool);
        }
        lost
    }

    /// Queues a frame of another's. `false` if there is no memory for it.
    fn queue_again(&mut self, index: usize, frame: &HandedFrame) -> bool {
        let Self {
            paths,
            pool,
            slots,
            settings,
            ..
        } = self;
        let Some(buffer) = pool.put(&frame.bytes, frame.offload) else {
            return false;
        };
        pool.set_arrived(buffer, frame.arrived);
        let path = &mut paths[index];
        let intake = Intake {
            now: clock::now(),
            to: &slots[path.to.0].capabilities,
            split_above: settings.split_above,
            windows: None,
        };
        path.accept(pool, buffer, intake);
        true
    }
}
