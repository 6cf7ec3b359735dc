//! BBR version 1 (Cardwell and others, 2016; as in Linux): a model of the path, not a response to
//! loss.
//!
//! The model has two parameters: BtlBw, the highest delivery rate of ten rounds, and RTprop, the
//! least round-trip time of ten seconds. BBR paces segments at BtlBw times a gain and allows twice
//! the product of both in flight. **Startup** doubles the rate each round until it grows by less
//! than a quarter in three rounds. **Drain** empties the queue that Startup built. **`ProbeBW`**
//! sends at 1.25 times BtlBw for one RTprop in eight, and then at 0.75. **`ProbeRTT`** goes down
//! to four segments for 200 ms when RTprop was not measured for ten seconds.
//!
//! As in that version, a loss sets cwnd to the bytes in flight for a round, and a mark changes
//! nothing. Left out: the detection of policers, and the allowance for aggregated ACKs. Linux
//! enters `ProbeBW` in a random phase; here the phase follows from the time, so that runs repeat
//! and flows still differ.

use crate::tcp::control::{Ack, CongestionControl, CongestionEvent, ConnectionStart, ControlKind};
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// BBR, for the list.
pub static CONTROL: ControlKind = ControlKind {
    name: "bbr",
    summary: "paced by a model of the path's bandwidth and round-trip time; version 1",
    reference: "Cardwell and others, 2016",
    default_of: &[],
    build: |start| Box::new(Bbr::new(start)),
};

/// 2 / ln 2: the least gain that doubles the rate each round.
const HIGH_GAIN: f64 = 2.885;
/// Pacing gains of the phases of `ProbeBW`.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const CWND_GAIN: f64 = 2.0;
/// The rounds of BtlBw's maximum filter.
const ROUNDS: usize = 10;
/// The time of RTprop's minimum filter.
const RTPROP_FILTER: Duration = Duration::from_secs(10);
const PROBE_RTT: Duration = Duration::from_millis(200);
/// The least cwnd in segments: enough to keep ACKs coming.
const MIN_CWND: u64 = 4;
/// Below this rate, in bytes a second, a burst is one segment.
const SLOW: u64 = 150_000;
/// A burst is no longer than this, in bytes.
const LARGEST_BURST: u64 = 65_536;
/// Pacing stays one per cent below BtlBw, so that queues shrink.
const MARGIN: f64 = 0.99;

/// The state of BBR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BbrMode {
    /// Doubling the rate each round.
    Startup,
    /// Emptying the queue that Startup built.
    Drain,
    /// At BtlBw, with periodic probes for more.
    ProbeBandwidth,
    /// At the least cwnd, to measure RTprop without a queue.
    ProbeRtt,
}

/// BBR's model and state.
#[derive(Clone, Debug)]
pub struct Bbr {
    mode: BbrMode,
    mss: u64,
    initial: u64,
    cwnd: u64,
    /// cwnd before recovery or `ProbeRTT`.
    prior_cwnd: u64,
    /// The highest delivery rate of each of the last rounds, in bytes per second.
    rates: [u64; ROUNDS],
    btl_bw: u64,
    round: usize,
    /// The round ends with the delivery of a segment sent after this many bytes were delivered.
    round_end: u64,
    /// Bytes delivered in all.
    delivered: u64,
    /// Startup's last rate that grew by a quarter, and the rounds since.
    full_bw: u64,
    full_bw_rounds: u32,
    /// Startup has filled the pipe.
    filled_pipe: bool,
    rtprop: Duration,
    rtprop_at: Instant,
    phase: usize,
    phase_began: Instant,
    loss_in_phase: bool,
    /// For the first round of recovery, cwnd follows the bytes in flight.
    packet_conservation: bool,
    in_recovery: bool,
    probe_rtt_until: Option<Instant>,
    /// In bytes per second.
    pacing_rate: u64,
}

impl Bbr {
    /// At the start of a connection.
    pub fn new(start: &ConnectionStart) -> Self {
        let cwnd = start.mss * u64::from(start.initial_window);
        let rtt = start.rtt.unwrap_or(Duration::from_millis(1));
        let rate = Bandwidth::of(Bytes::new(cwnd), rtt).bits() / 8;
        Self {
            mode: BbrMode::Startup,
            mss: start.mss,
            initial: cwnd,
            cwnd,
            prior_cwnd: 0,
            rates: [0; ROUNDS],
            btl_bw: 0,
            round: 0,
            round_end: 0,
            delivered: 0,
            full_bw: 0,
            full_bw_rounds: 0,
            filled_pipe: false,
            rtprop: start.rtt.unwrap_or(Duration::from_nanos(u64::MAX)),
            rtprop_at: start.now,
            phase: 0,
            phase_began: start.now,
            loss_in_phase: false,
            packet_conservation: false,
            in_recovery: false,
            probe_rtt_until: None,
            pacing_rate: (rate as f64 * HIGH_GAIN) as u64,
        }
    }

    /// Its state.
    pub fn mode(&self) -> BbrMode {
        self.mode
    }

    fn gains(&self) -> (f64, f64) {
        match self.mode {
            BbrMode::Startup => (HIGH_GAIN, HIGH_GAIN),
            BbrMode::Drain => (1.0 / HIGH_GAIN, HIGH_GAIN),
            BbrMode::ProbeBandwidth => (CYCLE[self.phase], CWND_GAIN),
            BbrMode::ProbeRtt => (1.0, 1.0),
        }
    }

    /// The bandwidth-delay product times a gain, in bytes.
    fn bdp(&self, gain: f64) -> u64 {
        if self.rtprop.nanos() == u64::MAX || self.btl_bw == 0 {
            return (self.initial as f64 * gain) as u64;
        }
        (self.btl_bw as f64 * self.rtprop.as_secs_f64() * gain) as u64
    }

    /// Updates the maximum filter and `filled_pipe`; returns whether a round began.
    fn update_btl_bw(&mut self, ack: &Ack) -> bool {
        let Some(rate) = ack.rate else {
            return false;
        };
        self.delivered = rate.total_delivered;
        let begins = rate.prior_delivered >= self.round_end;
        if begins {
            self.round_end = rate.total_delivered;
            self.round = (self.round + 1) % ROUNDS;
            self.rates[self.round] = 0;
            self.packet_conservation = false;
        }
        // An interval shorter than the least round trip is an artefact of bunched ACKs.
        let per_second = if rate.interval >= self.rtprop.min(rate.rtt) {
            Bandwidth::of(Bytes::new(rate.delivered), rate.interval).bits() / 8
        } else {
            0
        };
        if !rate.app_limited || per_second >= self.btl_bw {
            self.rates[self.round] = self.rates[self.round].max(per_second);
        }
        if begins {
            self.btl_bw = self.rates.iter().copied().max().unwrap_or(0);
        } else {
            self.btl_bw = self.btl_bw.max(self.rates[self.round]);
        }
        if begins && !self.filled_pipe && !rate.app_limited {
            if self.btl_bw as f64 >= self.full_bw as f64 * 1.25 {
                (self.full_bw, self.full_bw_rounds) = (self.btl_bw, 0);
            } else {
                self.full_bw_rounds += 1;
                self.filled_pipe = self.full_bw_rounds >= 3;
            }
        }
        begins
    }

    fn enter_probe_bandwidth(&mut self, now: Instant) {
        self.mode = BbrMode::ProbeBandwidth;
        // Any phase but 0.75, which drains the queue of a probe.
        let draw = Seed(now.nanos()).stream().below(CYCLE.len() as u64 - 1) as usize;
        self.phase = if draw == 0 { 0 } else { draw + 1 };
        self.phase_began = now;
    }

    /// What should be in flight: the bandwidth-delay product times a gain, and what senders need in
    /// bursts (Linux's `bbr_inflight`). So a probe of a small flow lasts until it makes a queue.
    fn inflight(&self, gain: f64) -> u64 {
        // A burst is a millisecond's, in segments.
        let least = if self.pacing_rate < SLOW { 1 } else { 2 };
        let burst = (self.pacing_rate >> 10) / self.mss;
        let burst = burst.min(LARGEST_BURST / self.mss).max(least);
        let segments = self.bdp(gain).div_ceil(self.mss) + 3 * burst;
        let probes = self.mode == BbrMode::ProbeBandwidth && self.phase == 0;
        (segments.next_multiple_of(2) + if probes { 2 } else { 0 }) * self.mss
    }

    fn update_phase(&mut self, ack: &Ack) {
        match self.mode {
            BbrMode::Startup if self.filled_pipe => self.mode = BbrMode::Drain,
            BbrMode::ProbeBandwidth => {
                let over = ack.now.since(self.phase_began) > self.rtprop;
                let gain = CYCLE[self.phase];
                let next = if gain > 1.0 {
                    over && (self.loss_in_phase || ack.pipe_before >= self.inflight(gain))
                } else if gain < 1.0 {
                    over || ack.pipe_before <= self.inflight(1.0)
                } else {
                    over
                };
                if next {
                    self.phase = (self.phase + 1) % CYCLE.len();
                    self.phase_began = ack.now;
                    self.loss_in_phase = false;
                }
            }
            _ => {}
        }
        if self.mode == BbrMode::Drain && ack.pipe <= self.inflight(1.0) {
            self.enter_probe_bandwidth(ack.now);
        }
    }

    fn update_rtprop(&mut self, ack: &Ack, round_began: bool) {
        let expired = ack.now.since(self.rtprop_at) > RTPROP_FILTER;
        if let Some(rtt) = ack.rate.map(|rate| rate.rtt)
            && (rtt <= self.rtprop || expired)
        {
            (self.rtprop, self.rtprop_at) = (rtt, ack.now);
        }
        if expired && self.mode != BbrMode::ProbeRtt {
            self.prior_cwnd = self.prior_cwnd.max(self.cwnd);
            self.mode = BbrMode::ProbeRtt;
            self.probe_rtt_until = None;
            return;
        }
        if self.mode != BbrMode::ProbeRtt {
            return;
        }
        match self.probe_rtt_until {
            None if ack.pipe <= MIN_CWND * self.mss => {
                self.probe_rtt_until = Some(ack.now + PROBE_RTT.max(self.rtprop));
            }
            Some(end) if ack.now >= end && round_began => {
                self.rtprop_at = ack.now;
                self.cwnd = self.cwnd.max(std::mem::take(&mut self.prior_cwnd));
                if self.filled_pipe {
                    self.enter_probe_bandwidth(ack.now);
                } else {
                    self.mode = BbrMode::Startup;
                }
            }
            _ => {}
        }
    }

    fn set_cwnd(&mut self, ack: &Ack, gain: f64) {
        let least = MIN_CWND * self.mss;
        let target = self.inflight(gain);
        if self.packet_conservation {
            self.cwnd = self.cwnd.max(ack.pipe + ack.delivered);
        } else if self.filled_pipe {
            self.cwnd = (self.cwnd + ack.delivered).min(target);
        } else if self.cwnd < target || ack.snd_una < self.initial {
            self.cwnd += ack.delivered;
        }
        self.cwnd = self.cwnd.max(least);
        if self.mode == BbrMode::ProbeRtt {
            self.cwnd = least;
        }
    }
}

impl CongestionControl for Bbr {
    fn on_ack(&mut self, ack: &Ack) {
        let round_began = self.update_btl_bw(ack);
        self.update_phase(ack);
        self.update_rtprop(ack, round_began);
        let (pacing_gain, cwnd_gain) = self.gains();
        if self.btl_bw > 0 {
            let rate = (self.btl_bw as f64 * pacing_gain * MARGIN) as u64;
            // In Startup, samples of a path not yet full must not slow the sender down.
            self.pacing_rate = if self.filled_pipe {
                rate
            } else {
                self.pacing_rate.max(rate)
            };
        }
        self.set_cwnd(ack, cwnd_gain);
    }

    fn on_loss(&mut self, event: &CongestionEvent) {
        self.loss_in_phase = true;
        if !self.in_recovery {
            self.prior_cwnd = self.prior_cwnd.max(self.cwnd);
        }
        self.in_recovery = true;
        self.packet_conservation = true;
        self.round_end = self.delivered;
        self.cwnd = event.pipe.max(self.mss);
    }

    fn on_rto(&mut self, event: &CongestionEvent) {
        self.on_loss(event);
        self.packet_conservation = false;
        self.full_bw = 0;
        self.full_bw_rounds = 0;
        self.cwnd = event.pipe + self.mss;
    }

    /// Version 1 ignores marks.
    fn on_ecn(&mut self, _event: &CongestionEvent) {}

    fn on_recovered(&mut self, _now: Instant) {
        if std::mem::take(&mut self.in_recovery) && self.mode != BbrMode::ProbeRtt {
            self.cwnd = self.cwnd.max(std::mem::take(&mut self.prior_cwnd));
        }
        self.packet_conservation = false;
    }

    fn cwnd(&self) -> u64 {
        self.cwnd
    }

    fn pacing_rate(&self) -> Option<Bandwidth> {
        Some(Bandwidth::bits_per_sec(self.pacing_rate.max(1).saturating_mul(8)))
    }

    fn in_slow_start(&self) -> bool {
        self.mode == BbrMode::Startup
    }

    fn governs_recovery(&self) -> bool {
        true
    }

    fn wants_rate_samples(&self) -> bool {
        true
    }
}
