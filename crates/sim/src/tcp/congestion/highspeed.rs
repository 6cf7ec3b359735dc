//! `HighSpeed` TCP (RFC 3649): beyond 38 segments the window grows faster and falls less, so that 83,000 segments need a
//! loss every ten million segments and not every five thousand million.
//!
//! a(w) and b(w) are those of section 5, not the rounded steps of its appendix B.

use super::{Ack, Congestion, Signal, Start, Window};

const LOW_WINDOW: f64 = 38.0;
const HIGH_WINDOW: f64 = 83_000.0;
const HIGH_DECREASE: f64 = 0.1;

/// The part of the window that a loss takes.
pub fn decrease(window: f64) -> f64 {
    if window <= LOW_WINDOW {
        return 0.5;
    }
    let along = (window / LOW_WINDOW).ln() / (HIGH_WINDOW / LOW_WINDOW).ln();
    0.5 + (HIGH_DECREASE - 0.5) * along.min(1.0)
}

/// The segments that a round trip adds.
pub fn increase(window: f64) -> f64 {
    if window <= LOW_WINDOW {
        return 1.0;
    }
    let b = decrease(window);
    let p = 0.078 * (-1.2 * window.ln()).exp();
    // The formula begins a little below Reno.
    (window * window * p * 2.0 * b / (2.0 - b)).max(1.0)
}

/// `HighSpeed`'s state: the window, and what it grows by.
#[derive(Clone, Debug)]
pub struct HighSpeed {
    window: Window,
    /// a(w), for the whole segments of `step_of`.
    step: f64,
    step_of: u64,
}

impl HighSpeed {
    /// At the start of a connection.
    pub fn new(start: &Start) -> Self {
        Self {
            window: Window::new(start),
            step: 1.0,
            step_of: 0,
        }
    }
}

impl Congestion for HighSpeed {
    fn on_ack(&mut self, ack: &Ack) {
        if !ack.grow {
            return;
        }
        let left = self.window.slow_start(ack);
        if left > 0.0 {
            let whole = self.window.segments as u64;
            if whole != self.step_of {
                (self.step, self.step_of) = (increase(self.window.segments), whole);
            }
            self.window.segments += self.step * left / self.window.segments;
        }
    }

    fn on_loss(&mut self, signal: &Signal) {
        let used = self.window.used(signal);
        self.window.reduce(used * (1.0 - decrease(used)));
    }

    fn on_timeout(&mut self, signal: &Signal) {
        let used = self.window.used(signal);
        self.window.restart(signal, used * (1.0 - decrease(used)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn increase_and_decrease_are_those_of_the_rfcs_table() {
        // Appendix B: window, a(w), b(w).
        for (window, a, b) in [
            (38.0, 1.0, 0.50),
            (118.0, 2.0, 0.44),
            (221.0, 3.0, 0.41),
            (1058.0, 8.0, 0.33),
            (8130.0, 26.0, 0.22),
            (12082.0, 32.0, 0.20),
        ] {
            assert!(
                (increase(window) - a).abs() < 0.02,
                "{window}: {}",
                increase(window)
            );
            assert!(
                (decrease(window) - b).abs() < 0.006,
                "{window}: {}",
                decrease(window)
            );
        }
    }
}
