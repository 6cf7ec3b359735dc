//! A source that keeps its first link busy: some of its packets always wait there, as with a program that fills its
//! socket's buffer and is let in again as its packets leave.
//!
//! It takes what it gets and knows no congestion; where a queue refuses or drops its packets, it sends others in their
//! place [a little later](crate::agent::Agent::left).

use super::Datagrams;
use crate::agent::{Agent, Context};
use crate::packet::Packet;

/// Sends whatever the first link takes.
#[derive(Clone, Debug)]
pub struct Greedy {
    datagrams: Datagrams,
    window: u64,
    ahead: u64,
}

impl Greedy {
    /// Of its packets, `window` are before the first link: two or more keep a class backlogged, and more than its
    /// queue holds are dropped there again and again.
    pub fn new(datagrams: impl Into<Datagrams>, window: u64) -> Self {
        Self {
            datagrams: datagrams.into(),
            window: window.max(1),
            ahead: 0,
        }
    }

    /// How many packets it has sent.
    pub fn sent(&self) -> u64 {
        self.datagrams.sent()
    }
}

impl Agent for Greedy {
    fn wake(&mut self, cx: &mut Context<'_>) {
        match self.datagrams.active.resumes(cx.now()) {
            Some(begin) if begin > cx.now() => cx.wake_at(begin),
            Some(_) => {
                while self.ahead < self.window {
                    self.ahead += 1;
                    self.datagrams.send_telling(cx);
                }
            }
            None => {}
        }
    }

    fn left(&mut self, cx: &mut Context<'_>) {
        self.ahead = self.ahead.saturating_sub(1);
        self.wake(cx);
    }

    fn receive(&mut self, _cx: &mut Context<'_>, _packet: &Packet) {}
}
