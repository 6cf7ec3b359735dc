//! One endpoint alone, for tests: they set the time and send the packets.

use super::{Agent, Context, Timer};
use crate::event_queue::EventQueue;
use crate::meter::Delivered;
use crate::packet::{Payload, SimPacket, Store};
use engine::packet::Ecn;
use engine::units::{Bytes, Instant};

/// An endpoint without a network.
pub(crate) struct Alone<A> {
    pub(crate) agent: A,
    pub(crate) now: Instant,
    pub(crate) timer: Timer,
    events: EventQueue,
    pub(crate) delivered: Delivered,
}

impl<A: Agent> Alone<A> {
    pub(crate) fn new(agent: A) -> Self {
        Self {
            agent,
            now: Instant::START,
            timer: Timer::OFF,
            events: EventQueue::default(),
            delivered: Delivered::default(),
        }
    }

    /// Calls it, and returns what it sends.
    pub(crate) fn act(&mut self, act: impl FnOnce(&mut A, &mut Context<'_>)) -> Vec<SimPacket> {
        let (mut store, mut outbox) = (Store::default(), Vec::new());
        let mut cx = Context {
            now: self.now,
            endpoint: 0,
            events: &mut self.events,
            timer: &mut self.timer,
            store: &mut store,
            outbox: &mut outbox,
            paused: &mut false,
            woken: &mut Vec::new(),
            delivered: &mut self.delivered,
        };
        act(&mut self.agent, &mut cx);
        outbox.iter().map(|&slot| store.packet(slot)).collect()
    }

    /// Its timer expires.
    pub(crate) fn expire_timer(&mut self) -> Vec<SimPacket> {
        self.now = self.timer.due;
        self.timer = Timer::OFF;
        self.act(|agent, cx| agent.wake(cx))
    }

    /// A packet arrives that was sent now.
    pub(crate) fn arrive(&mut self, ecn: Ecn, len: Bytes, payload: Payload) -> Vec<SimPacket> {
        let mut packet = SimPacket::new(len, payload);
        (packet.ecn, packet.sent) = (ecn, self.now);
        self.act(|agent, cx| agent.receive(cx, &packet))
    }
}
