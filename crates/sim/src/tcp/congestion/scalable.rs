//! Scalable TCP (Kelly, 2003): each delivered segment adds 0.01 segment; a loss takes an eighth.
//!
//! So recovery from a loss takes the same number of round trips, about 13.4, at any cwnd. Below
//! 16 segments it is Reno, as in Kelly's implementation. Delivered bytes count, so delayed ACKs
//! change nothing; Linux divides by at most 50 instead, to compensate for them.

use crate::tcp::control::{Ack, CongestionControl, CongestionEvent, ConnectionStart, ControlKind};
use crate::tcp::cwnd::Cwnd;

/// Scalable TCP, for the list.
pub static CONTROL: ControlKind = ControlKind {
    name: "scalable",
    summary: "recovers from a loss in the same number of round trips at any cwnd",
    reference: "Kelly, 2003",
    default_of: &[],
    build: |start| Box::new(Scalable::new(start)),
};

/// The increase per delivered segment.
const A: f64 = 0.01;
/// The decrease at a loss.
const B: f64 = 0.125;
/// Up to here it is Reno.
const LOW_WINDOW: f64 = 16.0;

/// Scalable TCP's state: cwnd alone.
#[derive(Clone, Debug)]
pub struct Scalable {
    cwnd: Cwnd,
}

impl Scalable {
    /// At the start of a connection.
    pub fn new(start: &ConnectionStart) -> Self {
        Self {
            cwnd: Cwnd::new(start),
        }
    }

    fn after_loss(used: f64) -> f64 {
        used * if used > LOW_WINDOW { 1.0 - B } else { 0.5 }
    }
}

impl CongestionControl for Scalable {
    fn on_ack(&mut self, ack: &Ack) {
        if ack.may_grow {
            let left = self.cwnd.slow_start(ack);
            let step = if self.cwnd.segments > LOW_WINDOW {
                A
            } else {
                1.0 / self.cwnd.segments
            };
            self.cwnd.segments += left * step;
        }
    }

    fn on_loss(&mut self, event: &CongestionEvent) {
        let used = self.cwnd.in_use(event);
        self.cwnd.reduce_to(Self::after_loss(used));
    }

    fn on_rto(&mut self, event: &CongestionEvent) {
        let used = self.cwnd.in_use(event);
        self.cwnd.on_rto(event, Self::after_loss(used));
    }

    fn on_idle_restart(&mut self, rtos: u32) {
        self.cwnd.decay_idle(rtos);
    }

    fn cwnd(&self) -> u64 {
        self.cwnd.bytes()
    }

    fn in_slow_start(&self) -> bool {
        self.cwnd.in_slow_start()
    }
}
