//! What arrives together is queued together, and what leaves together leaves in a burst, where
//! nothing but the queue and its link decides: no realiser, no wire of the worker's own, no
//! tape and no recording of waits.

use super::{DropSink, Path, QUANTUM, Waiting, depart};
use crate::hold_ups::Excuses;
use crate::meter::Meters;
use crate::pool::Pool;
use crate::port::Port;
use engine::discipline::{Next, Outlet, Reason, Sink};
use engine::packet::Packet;
use engine::stats::Stats;
use engine::tree::TreePlan;
use engine::units::{Duration, Instant};
use measure::delay::Delays;

/// Where a burst leaves: a port, as long as it has room.
struct Departures<'a> {
    now: Instant,
    pool: &'a mut Pool,
    port: &'a mut dyn Port,
    totals: &'a mut Stats,
    meters: &'a mut Meters,
    excuses: &'a Excuses,
    plan: Option<&'a TreePlan>,
    due: &'a mut Option<Instant>,
    lateness: &'a mut Delays,
    /// Packets that may still leave in this turn.
    left: usize,
}

impl Departures<'_> {
    fn dropped(&mut self) -> DropSink<'_> {
        DropSink {
            pool: self.pool,
            totals: self.totals,
            flushed: Reason::Flushed,
            excuses: None,
        }
    }
}

impl Sink for Departures<'_> {
    fn drop(&mut self, packet: Packet, why: Reason) {
        self.dropped().drop(packet, why);
    }

    fn mark(&mut self, packet: &Packet, why: Reason) {
        self.dropped().mark(packet, why);
    }

    fn held_up(&self, arrived: Instant, now: Instant) -> Duration {
        match self.excuses.concern(arrived) {
            true => self.excuses.of(arrived, now, None),
            false => Duration::ZERO,
        }
    }
}

impl Outlet for Departures<'_> {
    fn send(&mut self, packet: Packet) -> bool {
        if let Some(due) = self.due.take().filter(|due| *due <= self.now) {
            self.lateness.record(self.now.since(due));
        }
        let left = self.now;
        let times = (self.now, left);
        let excuses = (self.excuses, self.plan);
        depart(self.pool, self.totals, self.meters, excuses, times, &packet);
        self.port.transmit(self.pool, packet.buffer);
        self.left -= 1;
        self.left > 0 && self.port.room() > 0
    }
}

impl Path {
    /// Whether the queue and its link alone decide what leaves, and when, of traffic that comes in
    /// batches, and nobody looks at its packets one by one.
    fn is_plain(&self) -> bool {
        let decided = self.realiser.is_none() && self.wire.is_none();
        let watched = self.tape.is_some() || self.waits.is_some();
        decided && !watched && !self.again
    }

    /// Whether what arrives may be gathered.
    pub(super) fn may_gather(&self) -> bool {
        self.is_plain() && self.enabled && !self.is_changing()
    }

    /// Notes both, whenever that may have changed.
    pub(super) fn note_plain(&mut self) {
        (self.plain, self.gathers) = (self.is_plain(), self.may_gather());
    }

    /// Queues what has been gathered of a batch.
    pub(crate) fn queue_gathered(&mut self, pool: &mut Pool) {
        if self.gathered.is_empty() {
            return;
        }
        let mut sink = DropSink {
            pool,
            totals: &mut self.totals,
            flushed: Reason::Flushed,
            excuses: None,
        };
        // The sink has counted refusals.
        self.queue.enqueue_burst(&mut self.gathered, &mut sink);
    }

    /// Sends what may leave of the queue, while the port has room.
    pub(super) fn drain_burst(&mut self, now: Instant, pool: &mut Pool, port: &mut dyn Port) -> Waiting {
        if port.room() == 0 {
            return self.wait_for_room(None);
        }
        let mut departures = Departures {
            now,
            pool,
            port,
            totals: &mut self.totals,
            meters: &mut self.meters,
            excuses: &self.excuses,
            plan: self.plan.as_ref(),
            due: &mut self.due,
            lateness: &mut self.lateness,
            left: QUANTUM,
        };
        let next = self.queue.dequeue_burst(now, &mut departures);
        let left = departures.left;
        match next {
            Next::Ready(()) if left == 0 => Waiting::More,
            Next::Ready(()) => self.wait_for_room(None),
            Next::Wait(until) => {
                self.due = Some(until);
                Waiting::Until(until)
            }
            Next::Empty => {
                self.due = None;
                Waiting::Empty
            }
        }
    }
}
