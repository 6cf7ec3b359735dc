//! A window with a slow-start threshold: what most controls have in common.

use super::hystart::{Growth, HyStart};
use super::{Ack, Signal, Start};

/// The window and its threshold, in segments.
#[derive(Clone, Debug)]
pub struct Window {
    /// The window.
    pub segments: f64,
    /// Below it, the window grows by slow start.
    pub threshold: f64,
    segment: f64,
    initial: f64,
    hystart: Option<HyStart>,
}

impl Window {
    /// The window at the start of a connection.
    pub fn new(start: &Start) -> Self {
        let initial = f64::from(start.window.max(1));
        Self {
            segments: initial,
            threshold: f64::INFINITY,
            segment: start.segment as f64,
            initial,
            hystart: start.hystart.then(HyStart::new),
        }
    }

    /// In bytes.
    pub fn bytes(&self) -> u64 {
        (self.segments * self.segment) as u64
    }

    /// Bytes as segments.
    pub fn in_segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.segment
    }

    /// Whether it grows by slow start.
    pub fn starting(&self) -> bool {
        self.segments < self.threshold
    }

    /// Grows by slow start as far as the threshold, and returns the segments that are left for other growth. Bytes
    /// are counted, two segments an acknowledgment at most (RFC 3465), so that delayed ones double the window too.
    pub fn slow_start(&mut self, ack: &Ack) -> f64 {
        let delivered = self.in_segments(ack.counted);
        if !self.starting() {
            return delivered;
        }
        let growth = match &mut self.hystart {
            // Only the first slow start: later ones know their threshold.
            Some(hystart) if self.threshold.is_infinite() => hystart.on_ack(ack),
            _ => Growth::Full,
        };
        let grown = match growth {
            Growth::Full => self.segments + delivered.min(2.0),
            Growth::Quarter => self.segments + delivered.min(2.0) / 4.0,
            Growth::Over => {
                self.threshold = self.segments;
                return delivered;
            }
        };
        if grown <= self.threshold {
            self.segments = grown;
            return 0.0;
        }
        let left = grown - self.threshold;
        self.segments = self.threshold;
        left
    }

    /// The window that was in use at a sign of congestion: what was in flight, if that was less than a segment short
    /// of the window (RFC 5681's FlightSize, without the rounding to whole segments).
    pub fn used(&self, signal: &Signal) -> f64 {
        let flight = self.in_segments(signal.flight);
        if flight + 1.0 > self.segments {
            self.segments
        } else {
            flight
        }
    }

    /// Reduces the window, to two segments at least (RFC 5681).
    pub fn reduce(&mut self, to: f64) {
        self.threshold = to.max(2.0);
        self.segments = self.threshold;
    }

    /// Starts anew after a time-out, with this threshold, unless it is the same segment's as before (RFC 5681, section
    /// 3.1).
    pub fn restart(&mut self, signal: &Signal, threshold: f64) {
        if !signal.repeated {
            self.threshold = threshold.max(2.0);
        }
        self.segments = 1.0;
    }

    /// Halves an unused window for each time-out's time, down to the initial one; the threshold remembers three
    /// quarters of it (RFC 2861).
    pub fn decay(&mut self, timeouts: u32) {
        if self.segments > self.initial {
            self.threshold = self.threshold.max(0.75 * self.segments);
            let halves = (0..timeouts.min(64)).fold(self.segments, |window, _| window / 2.0);
            self.segments = halves.max(self.initial);
        }
    }
}
