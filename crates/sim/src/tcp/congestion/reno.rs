//! Reno (RFC 5681): cwnd grows by one segment per round trip; a loss halves it.
//!
//! Growth counts bytes (RFC 3465): a cwnd's worth of arrived bytes adds one segment, however few
//! ACKs reported them. A connection may count ACKs instead, as Mathis's constant for delayed ACKs
//! assumes.

use crate::tcp::control::{Ack, CongestionControl, CongestionEvent, ConnectionStart, ControlKind};
use crate::tcp::cwnd::Cwnd;

/// Reno, for the list.
pub static CONTROL: ControlKind = ControlKind {
    name: "reno",
    summary: "adds one segment per round trip and halves at a loss",
    reference: "RFC 5681",
    default_of: &[],
    build: |start| Box::new(Reno::new(start)),
};

/// Reno's state: cwnd alone.
#[derive(Clone, Debug)]
pub struct Reno {
    cwnd: Cwnd,
}

impl Reno {
    /// At the start of a connection.
    pub fn new(start: &ConnectionStart) -> Self {
        Self {
            cwnd: Cwnd::new(start),
        }
    }
}

impl CongestionControl for Reno {
    fn on_ack(&mut self, ack: &Ack) {
        if ack.may_grow {
            let left = self.cwnd.slow_start(ack);
            self.cwnd.segments += left / self.cwnd.segments;
        }
    }

    fn on_loss(&mut self, event: &CongestionEvent) {
        let used = self.cwnd.in_use(event);
        self.cwnd.reduce_to(used / 2.0);
    }

    fn on_rto(&mut self, event: &CongestionEvent) {
        let used = self.cwnd.in_use(event);
        self.cwnd.on_rto(event, used / 2.0);
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
