//! Endpoints: what sends and receives. A source is one file under `sources/` or `tcp/`.
//!
//! An endpoint is woken once when its flow starts (the caller only), whenever its timer runs out, and whenever a packet
//! arrives. It has one timer; one that needs several keeps their times itself and sets the earliest.

use crate::agenda::{Agenda, Event};
use crate::packet::{Packet, Store};
use engine::packet::Buffer;
use engine::units::{Bytes, Instant};
use std::any::Any;
use std::fmt::Debug;

/// One end of a flow.
pub trait Agent: Any + Debug + Send {
    /// The flow starts, or the timer has run out.
    fn wake(&mut self, cx: &mut Context<'_>);

    /// A packet has arrived.
    fn receive(&mut self, cx: &mut Context<'_>, packet: &Packet);

    /// A packet that was to [tell](Packet::tell) goes onto the first link's wire; or it was lost in front of it, which is
    /// noticed a millisecond later, so that who sends another at once does not do so for ever at one instant.
    fn left(&mut self, _cx: &mut Context<'_>) {}
}

/// An endpoint's timer: its due time, and the event that stands for it. Setting it later costs nothing until then.
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

    /// Sets it, and sees to it that there is an event not after it.
    pub(crate) fn set(&mut self, agenda: &mut Agenda, endpoint: u32, due: Instant) {
        self.due = due;
        if due < self.armed {
            self.armed = due;
            agenda.schedule(due, Event::Wake(endpoint));
        }
    }
}

/// What an endpoint may do.
#[derive(Debug)]
pub struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) endpoint: u32,
    pub(crate) agenda: &'a mut Agenda,
    pub(crate) timer: &'a mut Timer,
    pub(crate) store: &'a mut Store,
    pub(crate) outbox: &'a mut Vec<Buffer>,
    pub(crate) received: &'a mut crate::meter::Received,
}

impl Context<'_> {
    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Sends a packet to the other end. It enters the first link at once, after this call.
    pub fn send(&mut self, mut packet: Packet) {
        packet.sent = self.now;
        self.outbox.push(self.store.put(&packet, self.endpoint));
    }

    /// Sets the timer; a time that has come means at once, after what else is due now. The former time is forgotten.
    pub fn wake_at(&mut self, at: Instant) {
        self.timer.set(self.agenda, self.endpoint, at.max(self.now));
    }

    /// Stops the timer.
    pub fn sleep(&mut self) {
        self.timer.due = Instant::NEVER;
    }

    /// The program at this end has got so many bytes, in order.
    pub fn deliver(&mut self, bytes: Bytes) {
        self.received.deliver(self.now, bytes);
    }
}
