//! `HighSpeed` TCP (RFC 3649): above 38 segments, cwnd grows faster and falls less.
//!
//! So an average cwnd of 83,000 segments allows a loss in ten million segments; Reno allows one
//! in five thousand million. a(w) and b(w) follow section 5, not the rounded steps of appendix B.

use crate::tcp::control::{Ack, CongestionControl, CongestionEvent, ConnectionStart, ControlKind};
use crate::tcp::cwnd::Cwnd;

/// `HighSpeed` TCP, for the list.
pub static CONTROL: ControlKind = ControlKind {
    name: "highspeed",
    summary: "grows faster and falls less at large cwnd",
    reference: "RFC 3649",
    default_of: &[],
    build: |start| Box::new(HighSpeed::new(start)),
};

/// RFC 3649's Low_Window: up to here it is Reno.
const LOW_WINDOW: f64 = 38.0;
/// High_Window.
const HIGH_WINDOW: f64 = 83_000.0;
/// High_Decrease: b(w) at High_Window.
const HIGH_DECREASE: f64 = 0.1;

/// b(w): the share of cwnd that a loss takes.
pub fn decrease(window: f64) -> f64 {
    if window <= LOW_WINDOW {
        return 0.5;
    }
    let along = (window / LOW_WINDOW).ln() / (HIGH_WINDOW / LOW_WINDOW).ln();
    0.5 + (HIGH_DECREASE - 0.5) * along.min(1.0)
}

/// a(w): the segments that a round trip adds.
pub fn increase(window: f64) -> f64 {
    if window <= LOW_WINDOW {
        return 1.0;
    }
    let b = decrease(window);
    let p = 0.078 * (-1.2 * window.ln()).exp();
    // Just above Low_Window the formula falls below Reno.
    (window * window * p * 2.0 * b / (2.0 - b)).max(1.0)
}

/// `HighSpeed` TCP's state: cwnd and its increase.
#[derive(Clone, Debug)]
pub struct HighSpeed {
    cwnd: Cwnd,
    /// a(w), for `step_of` whole segments.
    step: f64,
    step_of: u64,
}

impl HighSpeed {
    /// At the start of a connection.
    pub fn new(start: &ConnectionStart) -> Self {
        Self {
            cwnd: Cwnd::new(start),
            step: 1.0,
            step_of: 0,
        }
    }
}

impl CongestionControl for HighSpeed {
    fn on_ack(&mut self, ack: &Ack) {
        if !ack.may_grow {
            return;
        }
        let left = self.cwnd.slow_start(ack);
        if left > 0.0 {
            let whole = self.cwnd.segments as u64;
            if whole != self.step_of {
                (self.step, self.step_of) = (increase(self.cwnd.segments), whole);
            }
            self.cwnd.segments += self.step * left / self.cwnd.segments;
        }
    }

    fn on_loss(&mut self, event: &CongestionEvent) {
        let used = self.cwnd.in_use(event);
        self.cwnd.reduce_to(used * (1.0 - decrease(used)));
    }

    fn on_rto(&mut self, event: &CongestionEvent) {
        let used = self.cwnd.in_use(event);
        self.cwnd.on_rto(event, used * (1.0 - decrease(used)));
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
