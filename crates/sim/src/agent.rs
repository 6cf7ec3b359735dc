//! Endpoints: what sends and receives packets. Each kind is one file under `sources/` or `tcp/`.
//!
//! An endpoint is woken when its flow starts (the initiator only) and whenever its timer expires,
//! and it receives every packet that arrives. It has one timer; an endpoint that needs several
//! keeps their times itself and sets the earliest.

#[cfg(test)]
pub(crate) mod alone;

use crate::event_queue::{Event, EventQueue};
use crate::packet::{SimPacket, Store};
use engine::packet::Buffer;
use engine::units::{Bytes, Instant};
use std::any::Any;
use std::fmt::Debug;

/// One end of a flow.
pub trait Agent: Any + Debug + Send {
    /// The flow starts, or the timer has expired.
    fn wake(&mut self, cx: &mut Context<'_>);

    /// A packet has arrived.
    fn receive(&mut self, cx: &mut Context<'_>, packet: &SimPacket);

    /// A packet with [`notify`](SimPacket::notify) goes onto the first link's wire, or its queue
    /// dropped it. A drop is reported a millisecond later, so that a sender that replaces the
    /// packet at once does not do so forever at one instant.
    fn tx_complete(&mut self, _cx: &mut Context<'_>) {}
}

/// An endpoint's timer: its due time, and the event that stands for it. Setting it later costs
/// nothing until that event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    pub(crate) due: Instant,
    pub(crate) armed: Instant,
}

impl Timer {
    pub(crate) const OFF: Self = Self {
        due: Instant::NEVER,
        armed: Instant::NEVER,
    };

    /// Sets the due time, and schedules an event unless there is one that is not after it.
    pub(crate) fn set(&mut self, events: &mut EventQueue, endpoint: u32, due: Instant) {
        self.due = due;
        if due < self.armed {
            self.armed = due;
            events.schedule(due, Event::Timer(endpoint));
        }
    }
}

/// Some flows of a group: flows that were added one after the other, and that one program uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Others {
    /// The place in the group, from 0, of the flow that says so.
    pub own: u32,
    /// How many others, from the first of the group on.
    pub many: u32,
}

impl Others {
    /// No other flow.
    pub const NONE: Self = Self { own: 0, many: 0 };
}

/// What an endpoint can do when it is called.
#[derive(Debug)]
pub struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) endpoint: u32,
    pub(crate) events: &'a mut EventQueue,
    pub(crate) timer: &'a mut Timer,
    pub(crate) store: &'a mut Store,
    pub(crate) outbox: &'a mut Vec<Buffer>,
    pub(crate) paused: &'a mut bool,
    pub(crate) woken: &'a mut Vec<u32>,
    pub(crate) delivered: &'a mut crate::meter::Delivered,
}

impl Context<'_> {
    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Sends a packet to the other end. It enters the first link as soon as this call returns.
    pub fn send(&mut self, mut packet: SimPacket) {
        packet.sent = self.now;
        self.outbox.push(self.store.put(&packet, self.endpoint));
    }

    /// Sends packets that arrive at the first link as one, as do the segments of a super-frame that
    /// is cut there: its queue takes all of them before it gives the first.
    pub fn send_together(&mut self, packets: impl IntoIterator<Item = SimPacket>) {
        let first = self.outbox.len();
        packets.into_iter().for_each(|packet| self.send(packet));
        if let Some((_last, others)) = self.outbox[first..].split_last() {
            for slot in others {
                self.store.get_mut(*slot).state.becomes_followed();
            }
        }
    }

    /// Sets the timer in place of its former time. A time in the past expires now, after the
    /// events that are already due.
    pub fn wake_at(&mut self, at: Instant) {
        self.timer.set(self.events, self.endpoint, at.max(self.now));
    }

    /// Wakes the same ends of other flows of this one's group, in order, after this call.
    pub fn wake_others(&mut self, others: Others) {
        let first = self.endpoint - 2 * others.own;
        let of_group = (0..=others.many).filter(|place| *place != others.own);
        let woken = of_group.take(others.many as usize);
        self.woken.extend(woken.map(|place| first + 2 * place));
    }

    /// Stops the timer.
    pub fn sleep(&mut self) {
        self.timer.due = Instant::NEVER;
    }

    /// Pauses the run after this event, so that the caller of
    /// [`run_until_paused`](crate::simulation::Simulation::run_until_paused) can act at this time.
    pub fn pause(&mut self) {
        *self.paused = true;
    }

    /// Counts bytes as delivered, in order, to the application at this end.
    pub fn deliver(&mut self, bytes: Bytes) {
        self.delivered.deliver(self.now, bytes);
    }
}
