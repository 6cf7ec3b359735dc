//! A greedy source keeps its first link's queue backlogged, as an application does that fills its
//! socket's buffer and is woken as packets leave.
//!
//! It ignores congestion: it replaces packets that the queue drops [a little
//! later](crate::agent::Agent::tx_complete).

use super::datagrams::Datagrams;
use crate::agent::{Agent, Context};
use crate::packet::SimPacket;

/// Sends what the first link takes.
#[derive(Clone, Debug)]
pub struct Greedy {
    datagrams: Datagrams,
    window: u64,
    /// Packets in front of the first link.
    queued: u64,
}

impl Greedy {
    /// `window` of its packets are in front of the first link. Two or more keep a class backlogged;
    /// those beyond the queue's limit are dropped again and again.
    pub fn new(datagrams: impl Into<Datagrams>, window: u64) -> Self {
        Self {
            datagrams: datagrams.into(),
            window: window.max(1),
            queued: 0,
        }
    }

    /// The number of packets sent.
    pub fn sent(&self) -> u64 {
        self.datagrams.sent()
    }
}

impl Agent for Greedy {
    fn wake(&mut self, cx: &mut Context<'_>) {
        match self.datagrams.active.resumes(cx.now()) {
            Some(begin) if begin > cx.now() => cx.wake_at(begin),
            Some(_) => {
                while self.queued < self.window {
                    self.queued += 1;
                    self.datagrams.send_notified(cx);
                }
            }
            None => {}
        }
    }

    fn tx_complete(&mut self, cx: &mut Context<'_>) {
        self.queued = self.queued.saturating_sub(1);
        self.wake(cx);
    }

    fn receive(&mut self, _cx: &mut Context<'_>, _packet: &SimPacket) {}
}
