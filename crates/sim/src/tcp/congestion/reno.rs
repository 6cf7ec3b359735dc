//! Reno (RFC 5681): a segment more every round trip, half the window less at a loss.
//!
//! Growth counts bytes (RFC 3465), so a window's worth of arrived bytes is one segment, however few acknowledgments told
//! of them, unless the connection counts acknowledgments, as Mathis' constant for delayed ones supposes.

use super::{Ack, Congestion, Signal, Start, Window};

/// Reno's state: the window.
#[derive(Clone, Debug)]
pub struct Reno {
    window: Window,
}

impl Reno {
    /// At the start of a connection.
    pub fn new(start: &Start) -> Self {
        Self {
            window: Window::new(start),
        }
    }
}

impl Congestion for Reno {
    fn on_ack(&mut self, ack: &Ack) {
        if ack.grow {
            let left = self.window.slow_start(ack);
            self.window.segments += left / self.window.segments;
        }
    }

    fn on_loss(&mut self, signal: &Signal) {
        let used = self.window.used(signal);
        self.window.reduce(used / 2.0);
    }

    fn on_timeout(&mut self, signal: &Signal) {
        let used = self.window.used(signal);
        self.window.restart(signal, used / 2.0);
    }

    fn on_idle(&mut self, timeouts: u32) {
        self.window.decay(timeouts);
    }

    fn window(&self) -> u64 {
        self.window.bytes()
    }

    fn starting(&self) -> bool {
        self.window.starting()
    }
}
