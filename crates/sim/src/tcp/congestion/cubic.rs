//! CUBIC (RFC 9438): after a loss the window follows W(t) = C (t − K)³ + Wmax, whatever the round-trip time.
//!
//! With the Reno-friendly region (section 4.3; α is 1 once the window at the last loss is reached) and fast convergence
//! (4.7). Time in which the window was not what limited the sender does not count (5.8). Left out: the response to
//! spurious losses (4.9), since nothing here reorders. `HyStart++` (4.10) is a setting of the connection.

use super::{Ack, Congestion, Signal, Start, Window};
use engine::units::{Duration, Instant};

const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Makes an additive increase with decrease to `BETA` as aggressive as Reno (equation 4).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// CUBIC's state.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: Window,
    /// The plateau, in segments.
    plateau: f64,
    /// The window at the last loss.
    before_loss: f64,
    epoch: Option<Epoch>,
    /// The window comes from a time-out: the next epoch begins at its plateau (section 4.8).
    restarted: bool,
    last_ack: Instant,
}

/// Congestion avoidance since a loss.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Instant,
    /// When the plateau is reached, in seconds.
    k: f64,
    /// What Reno would have.
    friendly: f64,
}

/// The cube root, by Newton's method from a guess that thirds the exponent: the same on every machine.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let guess = f64::from_bits(x.to_bits() / 3 + 0x2a9f_7893_0000_0000);
    (0..6).fold(guess, |root, _| (2.0 * root + x / (root * root)) / 3.0)
}

impl Cubic {
    /// At the start of a connection.
    pub fn new(start: &Start) -> Self {
        Self {
            window: Window::new(start),
            plateau: 0.0,
            before_loss: 0.0,
            epoch: None,
            restarted: false,
            last_ack: start.now,
        }
    }

    fn begin(&mut self, now: Instant) -> Epoch {
        let window = self.window.segments;
        if self.restarted || window >= self.plateau {
            self.plateau = window;
        }
        self.restarted = false;
        Epoch {
            began: now,
            k: cube_root((self.plateau - window) / C),
            friendly: window,
        }
    }

    /// Where the cubic is, so many seconds after the epoch began.
    fn curve(&self, epoch: &Epoch, seconds: f64) -> f64 {
        let t = seconds - epoch.k;
        C * t * t * t + self.plateau
    }

    fn avoid(&mut self, ack: &Ack, segments: f64) {
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin(ack.now),
        };
        let window = self.window.segments;
        let alpha = if epoch.friendly >= self.before_loss {
            1.0
        } else {
            ALPHA
        };
        epoch.friendly += alpha * segments / window;
        self.epoch = Some(epoch);
        let elapsed = ack.now.since(epoch.began);
        if self.curve(&epoch, elapsed.as_secs_f64()) < epoch.friendly {
            self.window.segments = window.max(epoch.friendly);
            return;
        }
        let ahead = self.curve(&epoch, (elapsed + ack.smoothed).as_secs_f64());
        let target = ahead.clamp(window, 1.5 * window);
        self.window.segments += (target - window) * segments / window;
    }

    /// What a loss teaches about the plateau; the window that follows.
    fn learn(&mut self, signal: &Signal) -> f64 {
        let used = self.window.used(signal);
        self.plateau = if used < self.plateau {
            used * f64::midpoint(1.0, BETA)
        } else {
            used
        };
        self.before_loss = used;
        self.epoch = None;
        used * BETA
    }
}

impl Congestion for Cubic {
    fn on_ack(&mut self, ack: &Ack) {
        let passed = ack.now.since(self.last_ack);
        self.last_ack = ack.now;
        if ack.grow {
            let left = self.window.slow_start(ack);
            if left > 0.0 {
                self.avoid(ack, left);
            }
        } else if let Some(epoch) = &mut self.epoch {
            epoch.began = epoch.began + passed;
        }
    }

    fn on_loss(&mut self, signal: &Signal) {
        let to = self.learn(signal);
        self.window.reduce(to);
    }

    fn on_timeout(&mut self, signal: &Signal) {
        let to = if signal.repeated { 0.0 } else { self.learn(signal) };
        self.window.restart(signal, to);
        self.restarted = true;
    }

    fn on_idle(&mut self, timeouts: u32) {
        self.window.decay(timeouts);
        self.epoch = None;
    }

    fn window(&self) -> u64 {
        self.window.bytes()
    }

    fn starting(&self) -> bool {
        self.window.starting()
    }
}

/// The window that RFC 9438 gives for a loss every 1/p segments and this round-trip time (equation 6).
pub fn response(p: f64, rtt: Duration) -> f64 {
    let friendly = C * (3.0 + BETA) / (4.0 * (1.0 - BETA));
    let ratio = rtt.as_secs_f64() / p;
    friendly.sqrt().sqrt() * (ratio.sqrt() * ratio.sqrt().sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cube_root_is_one_to_the_last_digits() {
        for x in [1e-9, 0.3, 1.0, 2.0, 27.0, 1e5, 6.2e9] {
            let root = cube_root(x);
            assert!((root * root * root / x - 1.0).abs() < 1e-14, "{x}: {root}");
        }
    }
}
