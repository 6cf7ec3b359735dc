//! cwnd and ssthresh (RFC 5681), as most controls share them.

use super::control::{Ack, CongestionEvent, ConnectionStart};
use super::hystart::{Growth, HyStart};

/// cwnd and ssthresh, in segments.
#[derive(Clone, Debug)]
pub struct Cwnd {
    /// cwnd.
    pub segments: f64,
    /// Below it, cwnd grows by slow start.
    pub ssthresh: f64,
    mss: f64,
    initial: f64,
    /// What an ACK acknowledges counts up to this in slow start (RFC 3465's L).
    counted_per_ack: f64,
    hystart: Option<HyStart>,
}

impl Cwnd {
    /// At the start of a connection: the initial window, and no threshold yet.
    pub fn new(start: &ConnectionStart) -> Self {
        let initial = f64::from(start.initial_window.max(1));
        Self {
            segments: initial,
            ssthresh: f64::INFINITY,
            mss: start.mss as f64,
            initial,
            counted_per_ack: f64::from(start.counted_per_ack),
            hystart: start.hystart.then(HyStart::new),
        }
    }

    /// cwnd in bytes.
    pub fn bytes(&self) -> u64 {
        (self.segments * self.mss) as u64
    }

    /// Bytes as segments.
    pub fn in_segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.mss
    }

    /// Whether cwnd is below ssthresh.
    pub fn in_slow_start(&self) -> bool {
        self.segments < self.ssthresh
    }

    /// Grows by slow start up to ssthresh; returns the segments that are left for other growth.
    /// Bytes are counted, of TCP at most two segments per ACK (RFC 3465, L = 2): so cwnd doubles
    /// per round trip with delayed ACKs too.
    pub fn slow_start(&mut self, ack: &Ack) -> f64 {
        let delivered = self.in_segments(ack.growth_bytes);
        if !self.in_slow_start() {
            return delivered;
        }
        let growth = match &mut self.hystart {
            // Only the initial slow start: later ones know their ssthresh.
            Some(hystart) if self.ssthresh.is_infinite() => hystart.on_ack(ack),
            _ => Growth::Full,
        };
        let grown = match growth {
            Growth::Full => self.segments + delivered.min(self.counted_per_ack),
            Growth::Quarter => self.segments + delivered.min(self.counted_per_ack) / 4.0,
            Growth::Over => {
                self.ssthresh = self.segments;
                return delivered;
            }
        };
        if grown <= self.ssthresh {
            self.segments = grown;
            return 0.0;
        }
        let left = grown - self.ssthresh;
        self.segments = self.ssthresh;
        left
    }

    /// The part of cwnd that was in use at a sign of congestion: cwnd itself, or FlightSize where
    /// that falls short by a segment or more (RFC 5681, without rounding to whole segments). Linux
    /// takes cwnd itself.
    pub fn in_use(&self, event: &CongestionEvent) -> f64 {
        let flight = self.in_segments(event.flight_size);
        if event.whole_cwnd || flight + 1.0 > self.segments {
            self.segments
        } else {
            flight
        }
    }

    /// Reduces cwnd and ssthresh, to at least two segments (RFC 5681).
    pub fn reduce_to(&mut self, segments: f64) {
        self.ssthresh = segments.max(2.0);
        self.segments = self.ssthresh;
    }

    /// Restarts after a timeout: one segment, beside what RACK does not deem lost. ssthresh is set
    /// too, unless the timeout repeats that of the same segment (RFC 5681, section 3.1).
    pub fn on_rto(&mut self, event: &CongestionEvent, ssthresh: f64) {
        if !event.repeated {
            self.ssthresh = ssthresh.max(2.0);
        }
        self.segments = self.in_segments(event.pipe) + 1.0;
    }

    /// Halves an unused cwnd for each retransmission timeout of idle time, down to the initial
    /// window; ssthresh remembers three quarters of it (RFC 2861).
    pub fn decay_idle(&mut self, rtos: u32) {
        if self.segments > self.initial {
            self.ssthresh = self.ssthresh.max(0.75 * self.segments);
            let halved = (0..rtos.min(64)).fold(self.segments, |segments, _| segments / 2.0);
            self.segments = halved.max(self.initial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::units::Instant;

    #[test]
    fn a_loss_in_a_window_that_was_hardly_used_is_judged_by_the_flight_or_by_cwnd() {
        let mut cwnd = Cwnd::new(&ConnectionStart {
            now: Instant::START,
            mss: 1_000,
            initial_window: 10,
            hystart: false,
            counted_per_ack: 2,
            rtt: None,
        });
        cwnd.reduce_to(100.0);
        let event = |flight_size, whole_cwnd| CongestionEvent {
            now: Instant::START,
            flight_size,
            pipe: flight_size,
            repeated: false,
            whole_cwnd,
        };
        assert_eq!(cwnd.in_use(&event(2_000, false)), 2.0);
        assert_eq!(cwnd.in_use(&event(2_000, true)), 100.0);
        assert_eq!(cwnd.in_use(&event(100_000, false)), 100.0);
    }
}
