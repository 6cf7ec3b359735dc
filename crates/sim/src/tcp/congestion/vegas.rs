//! Vegas (Brakmo and Peterson, 1995): keeps two to four segments in the path's queues.
//!
//! Once per round trip it computes the queued segments as w (rtt − base) / rtt, from the least
//! RTT of this round and the least of all time. As in Linux, slow start doubles cwnd in every
//! round (the paper: in every other) until more than one segment is queued, and losses are
//! handled as by Reno. The paper's finer retransmission timer is left out.

use crate::tcp::control::{Ack, CongestionControl, CongestionEvent, ConnectionStart, ControlKind};
use crate::tcp::cwnd::Cwnd;
use engine::units::Duration;

/// Vegas, for the list.
pub static CONTROL: ControlKind = ControlKind {
    name: "vegas",
    summary: "keeps two to four segments queued",
    reference: "Brakmo and Peterson, 1995",
    default_of: &[],
    build: |start| Box::new(Vegas::new(start)),
};

/// Fewer queued segments: cwnd grows.
const ALPHA: f64 = 2.0;
/// More queued segments: cwnd shrinks.
const BETA: f64 = 4.0;
/// More queued segments end slow start.
const GAMMA: f64 = 1.0;
const UNKNOWN: Duration = Duration::from_nanos(u64::MAX);

/// Vegas's state.
#[derive(Clone, Debug)]
pub struct Vegas {
    cwnd: Cwnd,
    base: Duration,
    /// The least RTT of this round, and the number of its samples.
    least: Duration,
    samples: u32,
    /// The round ends when this byte is acknowledged.
    round_end: u64,
}

impl Vegas {
    /// At the start of a connection.
    pub fn new(start: &ConnectionStart) -> Self {
        Self {
            cwnd: Cwnd::new(start),
            base: UNKNOWN,
            least: UNKNOWN,
            samples: 0,
            round_end: 0,
        }
    }

    /// At the end of a round: sets cwnd by the number of queued segments.
    fn adjust(&mut self) {
        let (rtt, base) = (self.least.as_secs_f64(), self.base.as_secs_f64());
        let cwnd = self.cwnd.segments;
        let queued = cwnd * (rtt - base) / rtt;
        if self.cwnd.in_slow_start() {
            if queued > GAMMA {
                self.cwnd.reduce_to((cwnd * base / rtt + 1.0).min(cwnd));
            }
        } else if queued > BETA {
            self.cwnd.reduce_to(cwnd - 1.0);
        } else if queued < ALPHA {
            self.cwnd.segments += 1.0;
        }
    }
}

impl CongestionControl for Vegas {
    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.base = self.base.min(rtt);
            self.least = self.least.min(rtt);
            self.samples += 1;
        }
        if ack.may_grow {
            // One or two samples may both be of delayed ACKs: then it grows as Reno.
            let left = self.cwnd.slow_start(ack);
            if self.samples <= 2 && ack.snd_una > self.round_end {
                self.cwnd.segments += left / self.cwnd.segments;
            }
        }
        if ack.snd_una > self.round_end {
            if self.samples > 2 && ack.may_grow {
                self.adjust();
            }
            self.round_end = ack.snd_nxt;
            self.least = UNKNOWN;
            self.samples = 0;
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
