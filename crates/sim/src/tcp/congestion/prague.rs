//! TCP Prague: the scalable control of L4S (RFC 9331;
//! draft-briscoe-iccrg-prague-congestion-control; its estimate of marks is DCTCP's, RFC 8257).
//!
//! - **Marks**: its packets say ECT(1), and each mark is fed back (accurate ECN, RFC 9768). The
//!   part of the packets that was marked is averaged, by a sixteenth each round trip; the first
//!   mark of a round reduces cwnd by half of that average. With marks at random its cwnd is
//!   2.24/*p*, where *p* is small.
//! - **Growth**: one segment a round trip, by what was not marked, also in a round that reduces.
//! - **Short round trips**: below 25 ms it grows and reduces as a flow of 25 ms would, so that
//!   flows of any shorter round trip share a queue evenly.
//! - **Loss**: as Reno. **Pacing**: always, at cwnd per round trip, twice that in slow start, which
//!   the first mark ends.
//!
//! Where it departs: reductions are at once, not over a round trip; the scaling to 25 ms begins
//! with the connection; a queue that marks by RFC 3168 is not detected; cwnd is two segments at
//! least.

use crate::tcp::control::{Ack, CongestionControl, CongestionEvent, ConnectionStart, ControlKind};
use crate::tcp::cwnd::Cwnd;
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// TCP Prague, for the list.
pub static CONTROL: ControlKind = ControlKind {
    name: "prague",
    summary: "of L4S: reduces by the part of its packets that was marked, and needs a queue that marks early",
    reference: "RFC 9331; draft-briscoe-iccrg-prague-congestion-control",
    default_of: &[],
    build: |start| Box::new(Prague::new(start)),
};

/// The weight of a round in the average of marks (RFC 8257, section 4.2).
const GAIN: f64 = 1.0 / 16.0;
/// Round trips count as this long at least.
const LEAST_ROUND_TRIP: Duration = Duration::from_millis(25);

/// Prague's state.
#[derive(Clone, Debug)]
pub struct Prague {
    cwnd: Cwnd,
    mss: u64,
    /// The average part of packets that were marked; all, before anything is known.
    alpha: f64,
    /// Of this round, in segments.
    delivered: f64,
    marked: f64,
    /// A round ends when this byte is acknowledged, and after the least round trip.
    round_end: u64,
    round_began: Instant,
    /// A mark has reduced cwnd in this round.
    reduced: bool,
    srtt: Option<Duration>,
}

impl Prague {
    /// At the start of a connection.
    pub fn new(start: &ConnectionStart) -> Self {
        Self {
            cwnd: Cwnd::new(start),
            mss: start.mss,
            alpha: 1.0,
            delivered: 0.0,
            marked: 0.0,
            round_end: 0,
            round_began: start.now,
            reduced: false,
            srtt: start.rtt,
        }
    }

    /// The average part of packets that were marked.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The growth of a round trip, in segments: a flow of the least round trip has one each.
    fn growth(&self) -> f64 {
        let srtt = self.srtt.unwrap_or(LEAST_ROUND_TRIP).min(LEAST_ROUND_TRIP);
        let part = srtt.as_secs_f64() / LEAST_ROUND_TRIP.as_secs_f64();
        part * part
    }

    /// Ends the round if it is over.
    fn end_round(&mut self, ack: &Ack) {
        let over = ack.snd_una >= self.round_end && ack.now.since(self.round_began) >= LEAST_ROUND_TRIP;
        if !over {
            return;
        }
        if self.delivered > 0.0 {
            let part = (self.marked / self.delivered).min(1.0);
            self.alpha += GAIN * (part - self.alpha);
        }
        (self.delivered, self.marked) = (0.0, 0.0);
        (self.round_end, self.round_began) = (ack.snd_nxt, ack.now);
        self.reduced = false;
    }
}

impl CongestionControl for Prague {
    fn on_ack(&mut self, ack: &Ack) {
        self.srtt = (ack.srtt > Duration::ZERO).then_some(ack.srtt);
        self.end_round(ack);
        let marked = ack.marked as f64;
        let delivered = self.cwnd.in_segments(ack.delivered).max(marked);
        self.delivered += delivered;
        self.marked += marked;
        if ack.may_grow {
            // Slow start counts all, as the first mark ends it.
            let left = self.cwnd.slow_start(ack);
            let unmarked = (left - marked).max(0.0);
            self.cwnd.segments += self.growth() * unmarked / self.cwnd.segments;
        }
        if marked > 0.0 && !self.reduced {
            self.reduced = true;
            self.cwnd.reduce_to(self.cwnd.segments * (1.0 - self.alpha / 2.0));
        }
    }

    fn on_loss(&mut self, event: &CongestionEvent) {
        let used = self.cwnd.in_use(event);
        self.cwnd.reduce_to(used / 2.0);
        self.reduced = true;
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

    fn pacing_rate(&self) -> Option<Bandwidth> {
        let gain = if self.in_slow_start() { 2 } else { 1 };
        let least = 2 * self.mss;
        Some(Bandwidth::of(
            Bytes::new(gain * self.cwnd().max(least)),
            self.srtt?,
        ))
    }

    fn in_slow_start(&self) -> bool {
        self.cwnd.in_slow_start()
    }

    fn wants_accurate_ecn(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::random::Seed;

    const MSS: u64 = 1_448;

    /// cwnd in segments, on average over the second half of so many round trips of this length,
    /// with each packet marked in this part of cases.
    fn mean_window(rtt: Duration, part: u64, rounds: u64) -> f64 {
        let start = ConnectionStart {
            now: Instant::START,
            mss: MSS,
            initial_window: 10,
            hystart: false,
            counted_per_ack: 2,
            rtt: Some(rtt),
        };
        let (mut prague, mut random) = (Prague::new(&start), Seed(1).stream());
        let (mut una, mut sum) = (0, 0.0);
        for round in 0..rounds {
            let in_flight = prague.cwnd() / MSS;
            for n in 0..in_flight {
                let now =
                    Instant::START + rtt.times(round) + Duration::from_nanos(rtt.nanos() / in_flight * n);
                una += MSS;
                prague.on_ack(&Ack {
                    now,
                    delivered: MSS,
                    growth_bytes: MSS,
                    marked: u64::from(random.below(part) == 0),
                    pipe_before: in_flight * MSS,
                    pipe: in_flight * MSS,
                    snd_una: una,
                    snd_nxt: una + in_flight * MSS,
                    rtt: Some(rtt),
                    srtt: rtt,
                    rate: None,
                    cwnd_limited: true,
                    may_grow: true,
                });
            }
            if round >= rounds / 2 {
                sum += prague.cwnd() as f64 / MSS as f64;
            }
        }
        sum / (rounds - rounds / 2) as f64
    }

    /// Per round trip it gains a segment less the marked part, and loses half of *p* times cwnd
    /// where there was a mark: of *x* marks in the mean, in 1 − exp(−*x*) of all. So *x* (1 −
    /// exp(−*x*)) is 2 (1 − *p*).
    #[test]
    fn under_marks_at_random_cwnd_is_that_of_its_law() {
        for part in [20, 50, 100] {
            let p = 1.0 / part as f64;
            let x = (0..100).fold(2.0_f64, |x, _| 2.0 * (1.0 - p) / (1.0 - (-x).exp()));
            assert!((2.1..2.24).contains(&x), "{x}");
            let window = mean_window(Duration::from_millis(50), part, 4_000);
            assert!((0.95..=1.05).contains(&(window * p / x)), "1/{part}: {window}");
        }
    }

    /// Below 25 ms the rate does not depend on the round trip.
    #[test]
    fn short_round_trips_have_the_rate_of_25_ms() {
        let rate = |ms| mean_window(Duration::from_millis(ms), 50, 100_000 / ms) / ms as f64;
        let [short, other, least] = [10, 15, 25].map(rate);
        assert!((0.85..=1.15).contains(&(short / least)), "{short} {least}");
        assert!((0.85..=1.15).contains(&(other / least)), "{other} {least}");
    }
}
