//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus): yields to others, by keeping the queueing delay at 60 ms.
//!
//! The queueing delay is the least round-trip time of late over the least of all. Below the target the window grows by
//! a gain of at most one segment a round trip, above it falls in proportion to itself, by half at most. Slow start ends
//! at three quarters of the target. Now and then the window goes down to two segments for two round trips, so that the
//! base of the delay is seen again, and flows that came late see it too; the next such slowdown comes after nine times
//! the duration of the former.

use super::{Ack, Congestion, Signal, Start, Window};
use engine::units::{Duration, Instant};

const TARGET: Duration = Duration::from_millis(60);
const NONE: Duration = Duration::from_nanos(u64::MAX);
/// Of the current delay: so many latest samples' least.
const CURRENT: usize = 4;
/// How many minutes the base is remembered.
const HISTORY: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
enum Slowdown {
    /// The next begins then.
    At(Instant),
    /// Two segments until then; it began earlier.
    Low(Instant, Instant),
    /// Back to the former window by slow start; it began then.
    Ramp(Instant),
    /// Not before slow start has ended.
    Never,
}

/// LEDBAT++'s state.
#[derive(Clone, Debug)]
pub struct Ledbat {
    window: Window,
    bases: [Duration; HISTORY],
    minute: Instant,
    latest: [Duration; CURRENT],
    samples: usize,
    slowdown: Slowdown,
    round_until: u64,
}

impl Ledbat {
    /// At the start of a connection.
    pub fn new(start: &Start) -> Self {
        // The draft begins with two segments, whatever others do.
        let start = &Start {
            window: start.window.min(2),
            ..*start
        };
        Self {
            window: Window::new(start),
            bases: [NONE; HISTORY],
            minute: start.now,
            latest: [NONE; CURRENT],
            samples: 0,
            slowdown: Slowdown::Never,
            round_until: 0,
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

    /// Smaller for short paths, so that they do not beat long ones.
    fn gain(&self) -> f64 {
        let twice = (2 * TARGET.nanos()).div_ceil(self.base().nanos().max(1));
        1.0 / twice.clamp(1, 16) as f64
    }

    /// Begins, continues or ends a slowdown; whether one is under way.
    fn slow_down(&mut self, ack: &Ack) -> bool {
        let Ack { now, smoothed, .. } = *ack;
        match self.slowdown {
            Slowdown::At(when) if now >= when => {
                self.window.threshold = self.window.segments.max(2.0);
                self.window.segments = 2.0;
                self.slowdown = Slowdown::Low(now, now + smoothed.times(2));
                true
            }
            Slowdown::Low(began, until) => {
                if now >= until {
                    self.slowdown = Slowdown::Ramp(began);
                }
                true
            }
            Slowdown::Ramp(began) if !self.window.starting() => {
                self.slowdown = Slowdown::At(now + now.since(began).times(9));
                false
            }
            _ => false,
        }
    }

    fn grow(&mut self, ack: &Ack) {
        let window = self.window.segments;
        let segments = self.window.in_segments(ack.counted);
        let off = self.queueing().as_secs_f64() / TARGET.as_secs_f64();
        if self.window.starting() {
            if off > 0.75 && matches!(self.slowdown, Slowdown::Never) {
                self.window.reduce(window);
            } else {
                let gain = self.gain();
                self.window.segments = (window + gain * segments).min(self.window.threshold);
            }
        } else if off <= 1.0 {
            self.window.segments += self.gain() * segments / window;
        } else if ack.first > self.round_until {
            let change = (self.gain() - window * (off - 1.0)).max(-window / 2.0);
            self.window.reduce(window + change);
        }
    }
}

impl Congestion for Ledbat {
    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.sample(ack.now, rtt);
        }
        let slow = self.slow_down(ack);
        if ack.grow && !slow && self.samples > 0 {
            self.grow(ack);
        }
        if matches!(self.slowdown, Slowdown::Never) && !self.window.starting() {
            self.slowdown = Slowdown::At(ack.now + ack.smoothed.times(2));
        }
        if ack.first > self.round_until {
            self.round_until = ack.next;
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
