//! Vegas (Brakmo and Peterson, 1995): the window is right while 2 to 4 of its segments wait in queues.
//!
//! Once a round trip, the segments that wait are reckoned as w (rtt − base) / rtt, with the least round-trip times of this
//! round and of all time. As in Linux, slow start doubles in every round (the paper: every other) until more than one
//! segment waits, and losses are met as by Reno; the paper's finer retransmission timer is left out.

use super::{Ack, Congestion, Signal, Start, Window};
use engine::units::Duration;

const ALPHA: f64 = 2.0;
const BETA: f64 = 4.0;
const GAMMA: f64 = 1.0;
const UNKNOWN: Duration = Duration::from_nanos(u64::MAX);

/// Vegas' state.
#[derive(Clone, Debug)]
pub struct Vegas {
    window: Window,
    base: Duration,
    /// The least round-trip time of this round, and how many there were.
    least: Duration,
    samples: u32,
    /// The round ends when this byte is acknowledged.
    round_until: u64,
}

impl Vegas {
    /// At the start of a connection.
    pub fn new(start: &Start) -> Self {
        Self {
            window: Window::new(start),
            base: UNKNOWN,
            least: UNKNOWN,
            samples: 0,
            round_until: 0,
        }
    }

    /// At the end of a round: the window is set by how many segments wait.
    fn adjust(&mut self) {
        let (rtt, base) = (self.least.as_secs_f64(), self.base.as_secs_f64());
        let window = self.window.segments;
        let waiting = window * (rtt - base) / rtt;
        if self.window.starting() {
            if waiting > GAMMA {
                self.window.reduce((window * base / rtt + 1.0).min(window));
            }
        } else if waiting > BETA {
            self.window.reduce(window - 1.0);
        } else if waiting < ALPHA {
            self.window.segments += 1.0;
        }
    }
}

impl Congestion for Vegas {
    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.base = self.base.min(rtt);
            self.least = self.least.min(rtt);
            self.samples += 1;
        }
        if ack.grow {
            // Few samples may all be of delayed answers: then as Reno.
            let left = self.window.slow_start(ack);
            if self.samples <= 2 && ack.first > self.round_until {
                self.window.segments += left / self.window.segments;
            }
        }
        if ack.first > self.round_until {
            if self.samples > 2 && ack.grow {
                self.adjust();
            }
            self.round_until = ack.next;
            self.least = UNKNOWN;
            self.samples = 0;
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
