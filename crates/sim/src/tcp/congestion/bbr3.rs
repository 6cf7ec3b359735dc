//! BBR version 3 (draft-ietf-ccwg-bbr-04): a model of the path that losses bound from above.
//!
//! As version 1, it paces by the highest delivery rate of late and keeps about twice the
//! bandwidth-delay product in flight at most. What is new are bounds that losses set:
//!
//! - **Long term** (`inflight_longterm`, formerly `inflight_hi`): what was in flight when more than
//!   2 % of a flight were lost while it probed. The next probe raises it, by 1, 2, 4… segments a
//!   round.
//! - **Short term** (`bw_shortterm`, `inflight_shortterm`): a round with any loss, outside probes,
//!   lowers both to 0.7 at most, but not below what that round delivered. A new probe forgets them.
//!
//! **Startup** (paced at 2.77 times the bandwidth) ends when the rate grows by less than a quarter
//! in three rounds, or with a round of six losses and more than 2 %. **Drain** (0.35) empties its
//! queue. **`ProbeBW`** goes round: *Down* (0.9) until 15 % of the long-term bound are free;
//! *Cruise* (1.0) until 2 to 3 s, or as many rounds as Reno would need, have passed; *Refill* (1.0)
//! for a round; *Up* (1.25, 2.25 in flight) until the rate no longer grows, or losses are too many.
//! **`ProbeRTT`** halves the bandwidth-delay product in flight for 200 ms, every 5 s unless the
//! round-trip time was seen that low.
//!
//! Left out: marks (the draft leaves the response to them open, too), what segmentation offload
//! needs in flight, the undoing of losses that were none, and restarts after idle times shorter
//! than a retransmission timeout.

use crate::tcp::control::{Ack, CongestionControl, CongestionEvent, ConnectionStart, ControlKind};
use crate::tcp::delivery::{DeliverySample, LostSegment};
use engine::random::Seed;
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// BBR version 3, for the list.
pub static CONTROL: ControlKind = ControlKind {
    name: "bbr3",
    summary: "version 3 of BBR: losses beyond 2 % bound what is in flight; leaves room for others",
    reference: "draft-ietf-ccwg-bbr-04",
    default_of: &[],
    build: |start| Box::new(Bbr3::new(start)),
};

/// 4 ln 2: the least pacing gain that doubles the rate each round.
const STARTUP_PACING_GAIN: f64 = 2.77;
const DRAIN_PACING_GAIN: f64 = 0.35;
const CWND_GAIN: f64 = 2.0;
const UP_CWND_GAIN: f64 = 2.25;
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
/// Pacing stays one per cent below the bandwidth, so that queues shrink.
const MARGIN: f64 = 0.99;
/// More than this part of a flight lost is too much.
const LOSS_THRESHOLD: f64 = 0.02;
/// What a loss leaves of a bound.
const BETA: f64 = 0.7;
/// The part of the long-term bound that is left to others.
const HEADROOM: f64 = 0.15;
/// Startup ends with so many losses in a round, if they are too much.
const STARTUP_LOSSES: u32 = 6;
/// Startup ends with so many rounds of little growth.
const FULL_ROUNDS: u32 = 3;
const FULL_GROWTH: f64 = 1.25;
/// The least cwnd in segments: enough to keep ACKs coming.
const MIN_CWND: u64 = 4;
const MIN_RTT_FILTER: Duration = Duration::from_secs(10);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_RTT: Duration = Duration::from_millis(200);
/// Probes for bandwidth are this far apart, and up to a second more.
const PROBE_WAIT: Duration = Duration::from_secs(2);
const MORE_WAIT_MS: u64 = 1_000;
/// They are no more rounds apart than Reno needs for so many segments.
const RENO_ROUNDS: u64 = 63;
/// The rounds of the filter of aggregated ACKs.
const EXTRA_ROUNDS: usize = 10;
/// The growth per round doubles so often at most.
const MOST_DOUBLINGS: u32 = 30;
const UNBOUNDED: u64 = u64::MAX;

/// The state of BBR version 3.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bbr3Mode {
    /// Doubling the rate each round.
    Startup,
    /// Emptying the queue that Startup built.
    Drain,
    /// Below the bandwidth, until there is room.
    Down,
    /// At the bandwidth, with room for others.
    Cruise,
    /// At the bandwidth for a round, without bounds of the short term.
    Refill,
    /// Probing for more.
    Up,
    /// At half of the bandwidth-delay product, to measure the round trip without a queue.
    ProbeRtt,
}

impl Bbr3Mode {
    /// The gains of the rate and of what may be in flight.
    pub fn gains(self) -> (f64, f64) {
        match self {
            Self::Startup => (STARTUP_PACING_GAIN, CWND_GAIN),
            Self::Drain => (DRAIN_PACING_GAIN, CWND_GAIN),
            Self::Down => (0.9, CWND_GAIN),
            Self::Cruise | Self::Refill => (1.0, CWND_GAIN),
            Self::Up => (1.25, UP_CWND_GAIN),
            Self::ProbeRtt => (1.0, PROBE_RTT_CWND_GAIN),
        }
    }

    fn probes_bandwidth(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }
}

/// What the ACKs that come now tell of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AckPhase {
    /// No probe.
    Init,
    /// What was sent before a probe.
    Starting,
    /// A probe.
    Feedback,
    /// What was sent while a probe ended.
    Stopping,
}

/// The model and state of BBR version 3. Bytes, and bytes per second.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    mode: Bbr3Mode,
    mss: u64,
    initial: u64,
    cwnd: u64,
    /// cwnd before a recovery or `ProbeRTT`.
    prior_cwnd: u64,
    in_recovery: bool,
    pacing_rate: f64,
    delivered: u64,
    /// The highest delivery rates of the last two cycles of `ProbeBW`.
    rates: [f64; 2],
    bw_shortterm: f64,
    inflight_longterm: u64,
    inflight_shortterm: u64,
    bw_latest: f64,
    inflight_latest: u64,
    /// The round ends with the delivery of a segment sent after this many bytes were delivered.
    round_end: u64,
    round_began: bool,
    /// The same of the round in which losses are summed up.
    loss_round_end: u64,
    loss_round_began: bool,
    loss_in_round: bool,
    /// Of this round, the separate runs of lost bytes, and where the last ended.
    losses: u32,
    last_lost: u64,
    full_bw: f64,
    full_bw_rounds: u32,
    /// The rate no longer grows: in this probe, and ever.
    full_bw_now: bool,
    filled_pipe: bool,
    ack_phase: AckPhase,
    /// The losses that are found are those of a probe.
    probe_samples: bool,
    cycle_began: Instant,
    probe_wait: Duration,
    rounds_since_probe: u64,
    doublings: u32,
    /// What the growth of the long-term bound has left below a byte.
    growth_left: f64,
    /// The most that was acknowledged beyond the bandwidth, by round.
    extra_acked: [u64; EXTRA_ROUNDS],
    extra_round: usize,
    extra_began: Instant,
    extra_delivered: u64,
    min_rtt: Duration,
    min_rtt_at: Instant,
    probe_rtt_min: Duration,
    probe_rtt_min_at: Instant,
    probe_rtt_until: Option<Instant>,
    probe_rtt_round_done: bool,
    /// Samples of what was sent in `ProbeRTT` say nothing of the path.
    limited_until: u64,
    idle_restart: bool,
}

impl Bbr3 {
    /// At the start of a connection.
    pub fn new(start: &ConnectionStart) -> Self {
        let cwnd = start.mss * u64::from(start.initial_window);
        let rtt = start.rtt.unwrap_or(Duration::from_millis(1));
        let rtt = rtt.max(Duration::from_nanos(1));
        let min_rtt = start.rtt.unwrap_or(Duration::from_nanos(u64::MAX));
        Self {
            mode: Bbr3Mode::Startup,
            mss: start.mss,
            initial: cwnd,
            cwnd,
            prior_cwnd: 0,
            in_recovery: false,
            pacing_rate: STARTUP_PACING_GAIN * cwnd as f64 / rtt.as_secs_f64(),
            delivered: 0,
            rates: [0.0; 2],
            bw_shortterm: f64::INFINITY,
            inflight_longterm: UNBOUNDED,
            inflight_shortterm: UNBOUNDED,
            bw_latest: 0.0,
            inflight_latest: 0,
            round_end: 0,
            round_began: false,
            loss_round_end: 0,
            loss_round_began: false,
            loss_in_round: false,
            losses: 0,
            last_lost: 0,
            full_bw: 0.0,
            full_bw_rounds: 0,
            full_bw_now: false,
            filled_pipe: false,
            ack_phase: AckPhase::Init,
            probe_samples: false,
            cycle_began: start.now,
            probe_wait: Duration::ZERO,
            rounds_since_probe: 0,
            doublings: 0,
            growth_left: 0.0,
            extra_acked: [0; EXTRA_ROUNDS],
            extra_round: 0,
            extra_began: start.now,
            extra_delivered: 0,
            min_rtt,
            min_rtt_at: start.now,
            probe_rtt_min: min_rtt,
            probe_rtt_min_at: start.now,
            probe_rtt_until: None,
            probe_rtt_round_done: false,
            limited_until: 0,
            idle_restart: false,
        }
    }

    /// Its state.
    pub fn mode(&self) -> Bbr3Mode {
        self.mode
    }

    /// The bound of what is in flight that losses in probes have set, in bytes.
    pub fn inflight_longterm(&self) -> Option<u64> {
        Some(self.inflight_longterm).filter(|bytes| *bytes != UNBOUNDED)
    }

    /// The bandwidth-delay product of the model, without a loss's bounds, in bytes.
    pub fn max_bdp(&self) -> u64 {
        self.product(self.max_bw(), 1.0)
    }

    /// The bandwidth that it paces by, within what losses allow.
    pub fn bandwidth(&self) -> Bandwidth {
        Bandwidth::of(Bytes::new(self.bw() as u64), Duration::from_secs(1))
    }

    fn max_bw(&self) -> f64 {
        self.rates[0].max(self.rates[1])
    }

    fn bw(&self) -> f64 {
        self.max_bw().min(self.bw_shortterm)
    }

    fn least(&self) -> u64 {
        MIN_CWND * self.mss
    }

    fn product(&self, bw: f64, gain: f64) -> u64 {
        if self.min_rtt.nanos() == u64::MAX || bw == 0.0 {
            return (self.initial as f64 * gain) as u64;
        }
        (bw * self.min_rtt.as_secs_f64() * gain) as u64
    }

    /// What fits into an empty path, and what ACKs need to keep coming.
    fn quantized(&self, bytes: u64) -> u64 {
        let more = if self.mode == Bbr3Mode::Up {
            2 * self.mss
        } else {
            0
        };
        bytes.max(self.least()) + more
    }

    fn target_inflight(&self) -> u64 {
        self.product(self.bw(), 1.0).min(self.cwnd)
    }

    fn with_headroom(&self) -> u64 {
        if self.inflight_longterm == UNBOUNDED {
            return UNBOUNDED;
        }
        let headroom = ((self.inflight_longterm as f64 * HEADROOM) as u64).max(self.mss);
        self.inflight_longterm.saturating_sub(headroom).max(self.least())
    }

    fn app_limited(&self, sample: &DeliverySample) -> bool {
        sample.app_limited || sample.prior_delivered < self.limited_until
    }

    fn rate_of(&self, sample: &DeliverySample) -> f64 {
        // An interval shorter than the least round trip is an artefact of bunched ACKs.
        if sample.interval < self.min_rtt.min(sample.rtt) || sample.interval == Duration::ZERO {
            return 0.0;
        }
        sample.delivered as f64 / sample.interval.as_secs_f64()
    }

    fn start_round(&mut self) {
        self.round_end = self.delivered;
    }

    fn update_signals(&mut self, sample: &DeliverySample, rate: f64) {
        self.delivered = sample.total_delivered;
        self.bw_latest = self.bw_latest.max(rate);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        self.loss_round_began = sample.prior_delivered >= self.loss_round_end;
        if self.loss_round_began {
            self.loss_round_end = self.delivered;
        }
        self.round_began = sample.prior_delivered >= self.round_end;
        if self.round_began {
            self.start_round();
            self.rounds_since_probe += 1;
        }
        if rate >= self.max_bw() || !self.app_limited(sample) {
            self.rates[1] = self.rates[1].max(rate);
        }
        if !self.loss_round_began {
            return;
        }
        if self.mode == Bbr3Mode::Startup && !self.filled_pipe {
            self.check_startup_loss(sample);
        }
        if self.loss_in_round && !self.mode.probes_bandwidth() {
            self.lower_short_term();
        }
        self.loss_in_round = false;
        self.losses = 0;
    }

    fn lower_short_term(&mut self) {
        let bw = self.bw_shortterm.min(self.max_bw());
        self.bw_shortterm = self.bw_latest.max(BETA * bw);
        let inflight = if self.inflight_shortterm == UNBOUNDED {
            self.cwnd
        } else {
            self.inflight_shortterm
        };
        self.inflight_shortterm = self.inflight_latest.max((BETA * inflight as f64) as u64);
    }

    fn forget_short_term(&mut self) {
        (self.bw_shortterm, self.inflight_shortterm) = (f64::INFINITY, UNBOUNDED);
    }

    /// Startup ends, too, with a round of many losses.
    fn check_startup_loss(&mut self, sample: &DeliverySample) {
        if self.in_recovery && self.losses >= STARTUP_LOSSES && too_many(sample.lost, sample.tx_in_flight) {
            self.filled_pipe = true;
            self.inflight_longterm = self.product(self.bw(), 1.0).max(self.inflight_latest);
        }
    }

    /// What aggregated ACKs have brought beyond the bandwidth needs as much more in flight.
    fn update_extra_acked(&mut self, ack: &Ack) {
        if self.round_began && self.filled_pipe {
            self.extra_round = (self.extra_round + 1) % EXTRA_ROUNDS;
            self.extra_acked[self.extra_round] = 0;
        } else if self.round_began {
            self.extra_acked[self.extra_round] = 0;
        }
        let expected = |bbr: &Self| (bbr.bw() * ack.now.since(bbr.extra_began).as_secs_f64()) as u64;
        if self.extra_delivered <= expected(self) {
            (self.extra_delivered, self.extra_began) = (0, ack.now);
        }
        self.extra_delivered += ack.delivered;
        let extra = self.extra_delivered.saturating_sub(expected(self)).min(self.cwnd);
        let most = &mut self.extra_acked[self.extra_round];
        *most = (*most).max(extra);
    }

    fn reset_full_bw(&mut self, rate: f64) {
        (self.full_bw, self.full_bw_rounds, self.full_bw_now) = (rate, 0, false);
    }

    fn check_full_bw(&mut self, sample: &DeliverySample, rate: f64) {
        if self.full_bw_now || !self.round_began || self.app_limited(sample) {
            return;
        }
        if rate >= self.full_bw * FULL_GROWTH {
            return self.reset_full_bw(rate);
        }
        self.full_bw_rounds += 1;
        self.full_bw_now = self.full_bw_rounds >= FULL_ROUNDS;
        self.filled_pipe |= self.full_bw_now;
    }

    fn start_down(&mut self, now: Instant) {
        self.mode = Bbr3Mode::Down;
        self.loss_in_round = false;
        (self.bw_latest, self.inflight_latest) = (0.0, 0);
        let mut draw = Seed(now.nanos()).stream();
        self.rounds_since_probe = draw.below(2);
        self.probe_wait = PROBE_WAIT + Duration::from_millis(draw.below(MORE_WAIT_MS + 1));
        self.cycle_began = now;
        self.ack_phase = AckPhase::Stopping;
        self.start_round();
    }

    fn start_refill(&mut self) {
        self.mode = Bbr3Mode::Refill;
        self.forget_short_term();
        (self.doublings, self.growth_left) = (0, 0.0);
        self.start_round();
    }

    fn start_up(&mut self, rate: f64) {
        self.mode = Bbr3Mode::Up;
        self.probe_samples = true;
        self.ack_phase = AckPhase::Starting;
        self.start_round();
        self.reset_full_bw(rate);
    }

    /// Enough time has passed since the last probe; or enough rounds, so that Reno and CUBIC have
    /// had theirs to grow.
    fn should_probe(&self, now: Instant) -> bool {
        let reno = (self.target_inflight() / self.mss).min(RENO_ROUNDS);
        now.since(self.cycle_began) > self.probe_wait || self.rounds_since_probe >= reno
    }

    fn update_cycle(&mut self, ack: &Ack, sample: &DeliverySample, rate: f64) {
        if !self.filled_pipe {
            return;
        }
        self.adapt_long_term(ack, sample);
        let room = ack.pipe <= self.with_headroom();
        let drained = ack.pipe <= self.quantized(self.product(self.max_bw(), 1.0));
        match self.mode {
            Bbr3Mode::Down | Bbr3Mode::Cruise if self.should_probe(ack.now) => self.start_refill(),
            Bbr3Mode::Down if room && drained => self.mode = Bbr3Mode::Cruise,
            Bbr3Mode::Refill if self.round_began => self.start_up(rate),
            Bbr3Mode::Up => {
                if ack.cwnd_limited && self.cwnd >= self.inflight_longterm {
                    // The bound, and not the path, holds the rate.
                    self.reset_full_bw(rate);
                } else if self.full_bw_now {
                    self.start_down(ack.now);
                }
            }
            _ => {}
        }
    }

    fn adapt_long_term(&mut self, ack: &Ack, sample: &DeliverySample) {
        if self.round_began && self.ack_phase == AckPhase::Starting {
            self.ack_phase = AckPhase::Feedback;
        } else if self.round_began && self.ack_phase == AckPhase::Stopping {
            self.ack_phase = AckPhase::Init;
            self.probe_samples = false;
            if self.mode.is_probe_bw() && !self.app_limited(sample) && self.rates[1] > 0.0 {
                self.rates = [self.rates[1], 0.0];
            }
        }
        if too_many(sample.lost, sample.tx_in_flight) {
            if self.probe_samples {
                self.on_too_high(ack.now, sample.tx_in_flight, self.app_limited(sample));
            }
            return;
        }
        if self.inflight_longterm == UNBOUNDED {
            return;
        }
        self.inflight_longterm = self.inflight_longterm.max(sample.tx_in_flight);
        if self.mode == Bbr3Mode::Up && ack.cwnd_limited && self.cwnd >= self.inflight_longterm {
            let a_round = (self.mss << self.doublings.min(MOST_DOUBLINGS)) as f64;
            let grown = self.growth_left + ack.delivered as f64 * a_round / self.cwnd as f64;
            self.growth_left = grown.fract();
            self.inflight_longterm += grown as u64;
        }
        if self.mode == Bbr3Mode::Up && self.round_began {
            self.doublings += 1;
        }
    }

    /// With this much in flight too much was lost in a probe.
    fn on_too_high(&mut self, now: Instant, in_flight: u64, app_limited: bool) {
        self.probe_samples = false;
        if !app_limited {
            let least = (self.target_inflight() as f64 * BETA) as u64;
            self.inflight_longterm = in_flight.max(least);
        }
        if self.mode == Bbr3Mode::Up {
            self.start_down(now);
        }
    }

    fn update_min_rtt(&mut self, now: Instant, rtt: Duration) -> bool {
        let expired = now.since(self.probe_rtt_min_at) > PROBE_RTT_INTERVAL;
        if rtt < self.probe_rtt_min || expired {
            (self.probe_rtt_min, self.probe_rtt_min_at) = (rtt, now);
        }
        if self.probe_rtt_min < self.min_rtt || now.since(self.min_rtt_at) > MIN_RTT_FILTER {
            (self.min_rtt, self.min_rtt_at) = (self.probe_rtt_min, self.probe_rtt_min_at);
        }
        expired
    }

    fn probe_rtt_cwnd(&self) -> u64 {
        self.product(self.bw(), PROBE_RTT_CWND_GAIN).max(self.least())
    }

    fn check_probe_rtt(&mut self, ack: &Ack, expired: bool) {
        if self.mode != Bbr3Mode::ProbeRtt {
            if expired && !self.idle_restart {
                self.save_cwnd();
                self.mode = Bbr3Mode::ProbeRtt;
                self.probe_rtt_until = None;
                self.ack_phase = AckPhase::Stopping;
                self.start_round();
            }
            self.idle_restart = false;
            return;
        }
        self.limited_until = self.delivered + ack.pipe;
        match self.probe_rtt_until {
            None if ack.pipe <= self.probe_rtt_cwnd() => {
                self.probe_rtt_until = Some(ack.now + PROBE_RTT);
                self.probe_rtt_round_done = false;
                self.start_round();
            }
            Some(end) => {
                self.probe_rtt_round_done |= self.round_began;
                if self.probe_rtt_round_done && ack.now > end {
                    self.leave_probe_rtt(ack.now);
                }
            }
            None => {}
        }
    }

    fn leave_probe_rtt(&mut self, now: Instant) {
        self.probe_rtt_min_at = now;
        self.restore_cwnd();
        self.forget_short_term();
        self.mode = Bbr3Mode::Startup;
        if self.filled_pipe {
            self.start_down(now);
            self.mode = Bbr3Mode::Cruise;
        }
    }

    fn save_cwnd(&mut self) {
        let kept = if self.in_recovery || self.mode == Bbr3Mode::ProbeRtt {
            self.prior_cwnd
        } else {
            0
        };
        self.prior_cwnd = kept.max(self.cwnd);
    }

    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    fn set_pacing_rate(&mut self) {
        let rate = self.bw() * self.mode.gains().0 * MARGIN;
        // In Startup, samples of a path not yet full must not slow the sender down.
        if rate > 0.0 && (self.filled_pipe || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    fn set_cwnd(&mut self, ack: &Ack) {
        let extra = self.extra_acked.iter().copied().max().unwrap_or(0);
        let most = self.quantized(self.product(self.bw(), self.mode.gains().1) + extra);
        if self.filled_pipe {
            self.cwnd = (self.cwnd + ack.delivered).min(most);
        } else if self.cwnd < most || self.delivered < self.initial {
            self.cwnd += ack.delivered;
        }
        if self.mode == Bbr3Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        let bound = match self.mode {
            Bbr3Mode::Down | Bbr3Mode::Refill | Bbr3Mode::Up => self.inflight_longterm,
            Bbr3Mode::Cruise | Bbr3Mode::ProbeRtt => self.with_headroom(),
            Bbr3Mode::Startup | Bbr3Mode::Drain => UNBOUNDED,
        };
        let bound = bound.min(self.inflight_shortterm);
        self.cwnd = self.cwnd.min(bound).max(self.least());
    }
}

/// Whether of what was in flight more than the threshold is lost.
fn too_many(lost: u64, in_flight: u64) -> bool {
    lost as f64 > in_flight as f64 * LOSS_THRESHOLD
}

/// How much was in flight when losses passed the threshold, within the segment that was lost.
fn inflight_at_loss(segment: &LostSegment) -> u64 {
    let before = segment.tx_in_flight.saturating_sub(segment.bytes);
    let lost_before = segment.lost.saturating_sub(segment.bytes);
    let prefix = (LOSS_THRESHOLD * before as f64 - lost_before as f64) / (1.0 - LOSS_THRESHOLD);
    before + prefix.max(0.0) as u64
}

impl CongestionControl for Bbr3 {
    fn on_ack(&mut self, ack: &Ack) {
        if let Some(sample) = &ack.rate {
            let rate = self.rate_of(sample);
            self.update_signals(sample, rate);
            self.update_extra_acked(ack);
            self.check_full_bw(sample, rate);
            if self.mode == Bbr3Mode::Startup && self.filled_pipe {
                self.mode = Bbr3Mode::Drain;
            }
            let empty = self.quantized(self.product(self.bw(), 1.0));
            if self.mode == Bbr3Mode::Drain && ack.pipe <= empty {
                self.start_down(ack.now);
            }
            self.update_cycle(ack, sample, rate);
            let expired = self.update_min_rtt(ack.now, sample.rtt);
            self.check_probe_rtt(ack, expired);
            if self.loss_round_began {
                (self.bw_latest, self.inflight_latest) = (rate, sample.delivered);
            }
        }
        self.set_pacing_rate();
        self.set_cwnd(ack);
    }

    fn on_lost(&mut self, now: Instant, segment: &LostSegment) {
        if !std::mem::replace(&mut self.loss_in_round, true) {
            self.loss_round_end = self.delivered;
        }
        if segment.end != self.last_lost + segment.bytes {
            self.losses += 1;
        }
        self.last_lost = segment.end;
        if self.probe_samples && too_many(segment.lost, segment.tx_in_flight) {
            self.on_too_high(now, inflight_at_loss(segment), segment.app_limited);
        }
    }

    /// A loss alone bounds nothing here: segments that are lost are told one by one.
    fn on_loss(&mut self, _event: &CongestionEvent) {
        self.save_cwnd();
        self.in_recovery = true;
    }

    fn on_rto(&mut self, event: &CongestionEvent) {
        self.save_cwnd();
        self.in_recovery = true;
        self.cwnd = event.pipe + self.mss;
    }

    fn on_ecn(&mut self, _event: &CongestionEvent) {}

    fn on_recovered(&mut self, _now: Instant) {
        if std::mem::take(&mut self.in_recovery) && self.mode != Bbr3Mode::ProbeRtt {
            self.restore_cwnd();
        }
    }

    fn on_idle_restart(&mut self, _rtos: u32) {
        self.idle_restart = true;
        if self.mode.is_probe_bw() && self.bw() > 0.0 {
            self.pacing_rate = self.bw() * MARGIN;
        }
    }

    fn cwnd(&self) -> u64 {
        self.cwnd
    }

    fn pacing_rate(&self) -> Option<Bandwidth> {
        let rate = Bytes::new((self.pacing_rate as u64).max(1));
        Some(Bandwidth::of(rate, Duration::from_secs(1)))
    }

    fn in_slow_start(&self) -> bool {
        self.mode == Bbr3Mode::Startup
    }

    fn governs_recovery(&self) -> bool {
        true
    }

    fn wants_rate_samples(&self) -> bool {
        true
    }

    fn wants_losses(&self) -> bool {
        true
    }
}
