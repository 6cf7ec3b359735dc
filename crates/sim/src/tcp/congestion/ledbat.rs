//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus): yields to other flows by keeping the queueing
//! delay at 60 ms.
//!
//! The queueing delay is the least of the latest RTTs minus the base delay, the least RTT of ten
//! minutes. Below the target, cwnd grows by at most one segment per round trip; above it, cwnd
//! falls in proportion to itself, by at most half. Slow start ends at three quarters of the
//! target. Periodic slowdowns reduce cwnd to two segments for two round trips, so that this flow
//! and later ones measure the base delay without their queue. The next slowdown comes after nine
//! times the duration of the last.

use crate::tcp::control::{Ack, CongestionControl, CongestionEvent, ConnectionStart, ControlKind};
use crate::tcp::cwnd::Cwnd;
use engine::units::{Duration, Instant};

/// LEDBAT++, for the list.
pub static CONTROL: ControlKind = ControlKind {
    name: "ledbat++",
    summary: "yields to other flows by keeping the queueing delay at 60 ms",
    reference: "draft-irtf-iccrg-ledbat-plus-plus",
    default_of: &[],
    build: |start| Box::new(Ledbat::new(start)),
};

const TARGET: Duration = Duration::from_millis(60);
const NONE: Duration = Duration::from_nanos(u64::MAX);
/// The current delay is the least of this many samples.
const CURRENT: usize = 4;
/// Minutes for which the base delay is remembered.
const HISTORY: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
enum Slowdown {
    /// None before the initial slow start has ended.
    Never,
    /// The next begins then.
    At(Instant),
    /// cwnd is two segments.
    Low { began: Instant, until: Instant },
    /// Slow start back to the cwnd before it.
    Ramp { began: Instant },
}

/// LEDBAT++'s state.
#[derive(Clone, Debug)]
pub struct Ledbat {
    cwnd: Cwnd,
    bases: [Duration; HISTORY],
    minute: Instant,
    latest: [Duration; CURRENT],
    samples: usize,
    slowdown: Slowdown,
    round_end: u64,
}

impl Ledbat {
    /// At the start of a connection.
    pub fn new(start: &ConnectionStart) -> Self {
        // The draft begins with two segments, whatever the setting.
        let start = &ConnectionStart {
            initial_window: start.initial_window.min(2),
            ..*start
        };
        Self {
            cwnd: Cwnd::new(start),
            bases: [NONE; HISTORY],
            minute: start.now,
            latest: [NONE; CURRENT],
            samples: 0,
            slowdown: Slowdown::Never,
            round_end: 0,
        }
    }

    fn base(&self) -> Duration {
        self.bases.iter().copied().min().unwrap_or(NONE)
    }

    fn sample(&mut self, now: Instant, rtt: Duration) {
        if now.since(self.minute) >= MINUTE {
            self.minute = now;
            self.bases.rotate_right(1);
            self.bases[0] = NONE;
        }
        self.bases[0] = self.bases[0].min(rtt);
        self.latest[self.samples % CURRENT] = rtt;
        self.samples += 1;
    }

    fn queueing(&self) -> Duration {
        self.latest.iter().copied().min().unwrap_or(NONE) - self.base()
    }

    /// Smaller on short paths, so that they do not outcompete long ones.
    fn gain(&self) -> f64 {
        let twice = (2 * TARGET.nanos()).div_ceil(self.base().nanos().max(1));
        1.0 / twice.clamp(1, 16) as f64
    }

    /// Begins, continues or ends a slowdown; returns whether cwnd is kept low.
    fn slow_down(&mut self, ack: &Ack) -> bool {
        let Ack { now, srtt, .. } = *ack;
        match self.slowdown {
            Slowdown::At(when) if now >= when => {
                self.cwnd.ssthresh = self.cwnd.segments.max(2.0);
                self.cwnd.segments = 2.0;
                self.slowdown = Slowdown::Low {
                    began: now,
                    until: now + srtt.times(2),
                };
                true
            }
            Slowdown::Low { began, until } => {
                if now >= until {
                    self.slowdown = Slowdown::Ramp { began };
                }
                true
            }
            Slowdown::Ramp { began } if !self.cwnd.in_slow_start() => {
                self.slowdown = Slowdown::At(now + now.since(began).times(9));
                false
            }
            _ => false,
        }
    }

    fn grow(&mut self, ack: &Ack) {
        let cwnd = self.cwnd.segments;
        let segments = self.cwnd.in_segments(ack.growth_bytes);
        let off = self.queueing().as_secs_f64() / TARGET.as_secs_f64();
        if self.cwnd.in_slow_start() {
            if off > 0.75 && matches!(self.slowdown, Slowdown::Never) {
                self.cwnd.reduce_to(cwnd);
            } else {
                let gain = self.gain();
                self.cwnd.segments = (cwnd + gain * segments).min(self.cwnd.ssthresh);
            }
        } else if off <= 1.0 {
            self.cwnd.segments += self.gain() * segments / cwnd;
        } else if ack.snd_una > self.round_end {
            let change = (self.gain() - cwnd * (off - 1.0)).max(-cwnd / 2.0);
            self.cwnd.reduce_to(cwnd + change);
        }
    }
}

impl CongestionControl for Ledbat {
    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.sample(ack.now, rtt);
        }
        let slow = self.slow_down(ack);
        if ack.may_grow && !slow && self.samples > 0 {
            self.grow(ack);
        }
        if matches!(self.slowdown, Slowdown::Never) && !self.cwnd.in_slow_start() {
            self.slowdown = Slowdown::At(ack.now + ack.srtt.times(2));
        }
        if ack.snd_una > self.round_end {
            self.round_end = ack.snd_nxt;
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
