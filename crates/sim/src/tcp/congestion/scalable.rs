//! Scalable TCP (Kelly, 2003): each arrived segment adds 0.01 of a segment, a loss takes an eighth.
//!
//! So the time to recover from a loss is a number of round trips, about 13.4, whatever the window. Below 16 segments it is
//! Reno, as in Kelly's implementation. Arrived bytes count, so delayed answers change nothing; Linux divides by at most 50
//! instead, to make up for them.

use super::{Ack, Congestion, Signal, Start, Window};

const A: f64 = 0.01;
const B: f64 = 0.125;
const LOW_WINDOW: f64 = 16.0;

/// Scalable's state: the window.
#[derive(Clone, Debug)]
pub struct Scalable {
    window: Window,
}

impl Scalable {
    /// At the start of a connection.
    pub fn new(start: &Start) -> Self {
        Self {
            window: Window::new(start),
        }
    }

    fn after_loss(used: f64) -> f64 {
        used * if used > LOW_WINDOW { 1.0 - B } else { 0.5 }
    }
}

impl Congestion for Scalable {
    fn on_ack(&mut self, ack: &Ack) {
        if ack.grow {
            let left = self.window.slow_start(ack);
            let step = if self.window.segments > LOW_WINDOW {
                A
            } else {
                1.0 / self.window.segments
            };
            self.window.segments += left * step;
        }
    }

    fn on_loss(&mut self, signal: &Signal) {
        let used = self.window.used(signal);
        self.window.reduce(Self::after_loss(used));
    }

    fn on_timeout(&mut self, signal: &Signal) {
        let used = self.window.used(signal);
        self.window.restart(signal, Self::after_loss(used));
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
