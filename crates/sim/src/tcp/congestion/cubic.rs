//! CUBIC (RFC 9438): after a loss, cwnd follows W(t) = C (t − K)³ + Wmax at any round-trip time.
//!
//! It has the Reno-friendly region (section 4.3; α is 1 once cwnd reaches that of the last loss)
//! and fast convergence (4.7). Time in which cwnd did not limit the sender does not count (5.8).
//! The response to spurious losses (4.9) is left out, since nothing here reorders. `HyStart++`
//! (4.10) is a setting of the connection.

use crate::tcp::control::{Ack, CongestionControl, CongestionEvent, ConnectionStart, ControlKind};
use crate::tcp::cwnd::Cwnd;
use engine::units::{Duration, Instant};

/// CUBIC, for the list.
pub static CONTROL: ControlKind = ControlKind {
    name: "cubic",
    summary: "cwnd follows a cubic of the time since the last loss",
    reference: "RFC 9438",
    default_of: &["Linux", "macOS", "Windows"],
    build: |start| Box::new(Cubic::new(start)),
};

const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// With a decrease to `BETA`, this additive increase is as aggressive as Reno (equation 4).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// CUBIC's state.
#[derive(Clone, Debug)]
pub struct Cubic {
    cwnd: Cwnd,
    /// The plateau Wmax, in segments.
    w_max: f64,
    /// cwnd at the last loss.
    before_loss: f64,
    epoch: Option<Epoch>,
    /// The last reduction was a timeout: the next epoch begins at its plateau (section 4.8).
    after_rto: bool,
    last_ack: Instant,
}

/// Congestion avoidance since a loss.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Instant,
    /// When it reaches Wmax, in seconds from the beginning.
    k: f64,
    /// Reno's cwnd (section 4.3's W_est).
    friendly: f64,
}

/// The cube root by Newton's method, from a guess with a third of the exponent: the same on
/// every machine.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let guess = f64::from_bits(x.to_bits() / 3 + 0x2a9f_7893_0000_0000);
    (0..6).fold(guess, |root, _| (2.0 * root + x / (root * root)) / 3.0)
}

impl Cubic {
    /// At the start of a connection.
    pub fn new(start: &ConnectionStart) -> Self {
        Self {
            cwnd: Cwnd::new(start),
            w_max: 0.0,
            before_loss: 0.0,
            epoch: None,
            after_rto: false,
            last_ack: start.now,
        }
    }

    fn begin(&mut self, now: Instant) -> Epoch {
        let cwnd = self.cwnd.segments;
        if self.after_rto || cwnd >= self.w_max {
            self.w_max = cwnd;
        }
        self.after_rto = false;
        Epoch {
            began: now,
            k: cube_root((self.w_max - cwnd) / C),
            friendly: cwnd,
        }
    }

    /// W(t), this many seconds after the epoch began.
    fn curve(&self, epoch: &Epoch, seconds: f64) -> f64 {
        let t = seconds - epoch.k;
        C * t * t * t + self.w_max
    }

    fn avoid(&mut self, ack: &Ack, segments: f64) {
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin(ack.now),
        };
        let cwnd = self.cwnd.segments;
        let alpha = if epoch.friendly >= self.before_loss {
            1.0
        } else {
            ALPHA
        };
        epoch.friendly += alpha * segments / cwnd;
        self.epoch = Some(epoch);
        let elapsed = ack.now.since(epoch.began);
        if self.curve(&epoch, elapsed.as_secs_f64()) < epoch.friendly {
            self.cwnd.segments = cwnd.max(epoch.friendly);
            return;
        }
        let ahead = self.curve(&epoch, (elapsed + ack.srtt).as_secs_f64());
        let target = ahead.clamp(cwnd, 1.5 * cwnd);
        self.cwnd.segments += (target - cwnd) * segments / cwnd;
    }

    /// Updates Wmax at a loss; returns the cwnd that follows.
    fn reduce(&mut self, event: &CongestionEvent) -> f64 {
        let used = self.cwnd.in_use(event);
        self.w_max = if used < self.w_max {
            used * f64::midpoint(1.0, BETA)
        } else {
            used
        };
        self.before_loss = used;
        self.epoch = None;
        used * BETA
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, ack: &Ack) {
        let passed = ack.now.since(self.last_ack);
        self.last_ack = ack.now;
        if ack.may_grow {
            let left = self.cwnd.slow_start(ack);
            if left > 0.0 {
                self.avoid(ack, left);
            }
        } else if let Some(epoch) = &mut self.epoch {
            epoch.began = epoch.began + passed;
        }
    }

    fn on_loss(&mut self, event: &CongestionEvent) {
        let to = self.reduce(event);
        self.cwnd.reduce_to(to);
    }

    fn on_rto(&mut self, event: &CongestionEvent) {
        let to = if event.repeated { 0.0 } else { self.reduce(event) };
        self.cwnd.on_rto(event, to);
        self.after_rto = true;
    }

    fn on_idle_restart(&mut self, rtos: u32) {
        self.cwnd.decay_idle(rtos);
        self.epoch = None;
    }

    fn cwnd(&self) -> u64 {
        self.cwnd.bytes()
    }

    fn in_slow_start(&self) -> bool {
        self.cwnd.in_slow_start()
    }
}

/// The average cwnd for a loss probability and a round-trip time (RFC 9438, equation 6).
pub fn response(p: f64, rtt: Duration) -> f64 {
    let friendly = C * (3.0 + BETA) / (4.0 * (1.0 - BETA));
    let ratio = rtt.as_secs_f64() / p;
    friendly.sqrt().sqrt() * (ratio.sqrt() * ratio.sqrt().sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cube_root_cubed_is_the_number_again_to_the_last_digits() {
        for x in [1e-9, 0.3, 1.0, 2.0, 27.0, 1e5, 6.2e9] {
            let root = cube_root(x);
            assert!((root * root * root / x - 1.0).abs() < 1e-14, "{x}: {root}");
        }
    }
}
