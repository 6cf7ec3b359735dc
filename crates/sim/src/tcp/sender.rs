//! The sending end: handshake, cwnd, timers and recovery, until the FIN is acknowledged.
//!
//! - **Losses** are what RACK finds (RFC 8985), or RFC 6675's DupThresh. The tail loss probe shows
//!   losses at the end of a flight. Both can be switched off; SACK, too (`recovery.rs`).
//! - **Recovery** (RFC 6675, RFC 6582) begins with the first loss in a window and ends when all
//!   that was outstanding then is acknowledged. Lost segments go first. Meanwhile cwnd follows
//!   proportional rate reduction (RFC 9937), unless the control governs it. Limited transmit (RFC
//!   3042) needs no rule of its own: SACKed data has left the network, so as much may follow.
//! - **The retransmission timer** starts anew with each ACK of new data and each retransmission of
//!   the first segment; by Linux's rule also when data is SACKed that was sent before that
//!   retransmission, as its own ACK cannot have come yet. When it expires the first segment is
//!   lost; with RACK, of the others those that were sent longer than a round trip ago, otherwise
//!   all that was not SACKed. It backs off exponentially (RFC 6298).
//! - **Growth** needs a sender that was limited by cwnd since the acknowledged data was sent. In
//!   slow start half of cwnd in flight is enough (as in Linux: cwnd hardly ever stops a paced
//!   sender).
//! - **Idle restart**: cwnd is halved for each retransmission timeout of idle time, down to the
//!   initial window (RFC 2861).
//! - **ECN**: marks count once per window, and not in a window that already had a loss (RFC 3168,
//!   section 6.1.2). A control that wants all of them is told of each (accurate ECN, RFC 9768), by
//!   the three bits that ACKs have for them; its segments say ECT(1), those repeated too.
//! - **A zero window** is probed with the byte before it, as timeouts expire (RFC 9293, section
//!   3.8.6.1).
//! - **Pacing**: the next segment follows after the time of the last one's data at the control's
//!   rate. Without such a rate and if configured, the rate is 2 cwnd per round trip in slow start,
//!   and 1.2 cwnd later, as in Linux. A limit of the rate is a socket's (`SO_MAX_PACING_RATE`):
//!   from the first one on the connection is paced, also once it is lifted.

use super::application::{Application, StreamProgress, Written};
use super::control::{Ack, CongestionControl, CongestionEvent, ConnectionStart, ControlKind, OwnControl};
use super::delivery::RateSampler;
use super::frames::{ack_frame, data_frame, syn_frame};
use super::loss_timer::{LossProbe, LossTimer, ProbeOutcome, TimerKind};
use super::rack::{Rack, Transmitted};
use super::recovery::{RateHalving, RateReduction, Recovery, Reduction};
use super::rtt::{RtoRule, RttEstimator, RttSample};
use super::scoreboard::{AckSummary, LossRule, Overdue, Scoreboard};
use super::settings::Settings;
use crate::agent::{Agent, Context};
use crate::packet::{ByteRange, Flags, Payload, Segment, SimPacket};
use engine::packet::Ecn;
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// The duplicates that show a loss (RFC 5681's DupThresh).
const DUPLICATES: u64 = 3;

/// What a sender has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderStatistics {
    /// Segments with data.
    pub segments: u64,
    /// Of those, retransmissions.
    pub retransmissions: u64,
    /// The bytes of data of all of them.
    pub bytes: u64,
    /// ACKs that arrived.
    pub acks: u64,
    /// Expired retransmission timers, those of the SYN included.
    pub timeouts: u64,
    /// Recoveries that began without a timeout.
    pub recoveries: u64,
    /// Windows in which a mark reduced cwnd.
    pub marks: u64,
    /// Probes of a zero window.
    pub probes: u64,
    /// Tail loss probes.
    pub loss_probes: u64,
}

/// cwnd at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CwndSample {
    /// The time.
    pub at: Instant,
    /// cwnd in bytes.
    pub cwnd: u64,
    /// The estimate of bytes in the network.
    pub pipe: u64,
    /// The smoothed round-trip time.
    pub srtt: Duration,
}

/// As Linux's states of congestion avoidance, with the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The SYN is not acknowledged yet.
    SynSent,
    Open,
    /// cwnd was reduced for a mark.
    Cwr,
    Recovery,
    /// After a timeout.
    RtoRecovery,
}

/// A segment's place among those that were sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transmission {
    First,
    /// Of a lost segment.
    Again,
    /// Of the last segment, as a tail loss probe: nothing is deemed lost.
    Probe,
}

/// The sending end of a connection.
#[derive(Debug)]
pub struct TcpSender {
    /// What was counted.
    pub statistics: SenderStatistics,
    /// cwnd over time, if configured.
    pub samples: Vec<CwndSample>,
    /// When everything, the FIN included, was acknowledged.
    pub finished: Option<Instant>,
    mss: u64,
    kind: &'static ControlKind,
    own_control: Option<OwnControl>,
    initial_window: u32,
    ecn: bool,
    /// Accurate ECN, in place of the other: the three bits of the latest ACK.
    accurate: Option<u8>,
    /// Marks count as those of another window behind this byte.
    marks_until: u64,
    byte_counting: bool,
    hystart: bool,
    whole_cwnd: bool,
    pacing: bool,
    pace_limit: Option<Bandwidth>,
    sample_interval: Option<Duration>,
    application: Box<dyn Application>,
    written: Written,
    control: Box<dyn CongestionControl>,
    board: Scoreboard,
    delivery: Option<RateSampler>,
    rtt: RttEstimator,
    rto_rule: RtoRule,
    /// RACK's state; it decides on first transmissions if `rack` is on.
    rack: Rack,
    rack_on: bool,
    tlp: bool,
    /// The tail loss probe that is not accounted for yet.
    probe: Option<LossProbe>,
    phase: Phase,
    /// The phase ends when all before this byte is acknowledged (RFC 6675's RecoveryPoint).
    recovery_point: u64,
    recovery: Recovery,
    reduction: Reduction,
    /// Without SACK: duplicates count only beyond this byte (RFC 6582's recover).
    recover: Option<u64>,
    /// The first segment was found lost by duplicates: it goes at once.
    head_is_due: bool,
    /// cwnd where a recovery left it below the control's: slow start leads back.
    resuming: Option<u64>,
    /// The right edge of the receiver's window.
    window_edge: u64,
    /// The widest window so far.
    widest: u64,
    /// When the latest ACK was sent: what the next segment echoes.
    peer_sent: Option<Instant>,
    /// The FIN has been sent.
    fin_sent: bool,
    /// SND.NXT when cwnd last stopped the sender.
    cwnd_limited_at: u64,
    /// The next segment carries CWR.
    send_cwr: bool,
    last_sent: Instant,
    timer: LossTimer,
    /// When pacing lets the next segment go.
    pace_at: Instant,
    waits_for_pace: bool,
}

impl TcpSender {
    /// A sender that sends its SYN when its flow starts.
    pub fn new(settings: &Settings, application: Box<dyn Application>) -> Self {
        let mss = settings.mss().get();
        let initial_window = settings.initial_window.max(1);
        let start = ConnectionStart {
            now: Instant::START,
            mss,
            initial_window,
            hystart: settings.hystart,
            counted_per_ack: 2,
            rtt: None,
        };
        let control = (settings.control.build)(&start);
        let accurate = control.wants_accurate_ecn();
        Self {
            statistics: SenderStatistics::default(),
            samples: Vec::new(),
            finished: None,
            mss,
            kind: settings.control,
            own_control: settings.own_control.clone(),
            initial_window,
            ecn: settings.ecn && !accurate,
            accurate: accurate.then(|| Flags::counting(0).counted()),
            marks_until: 0,
            byte_counting: settings.byte_counting,
            hystart: settings.hystart,
            whole_cwnd: settings.whole_cwnd,
            pacing: settings.pacing,
            pace_limit: None,
            sample_interval: settings.sample_interval,
            application,
            written: Written::until(Instant::START, 0, false),
            control,
            board: Scoreboard::new(
                mss,
                match settings.recovery {
                    Recovery::NewReno | Recovery::Linux24 => LossRule::Told,
                    Recovery::Linux24Sack => LossRule::Forward,
                    Recovery::Sack if settings.rack => LossRule::Time,
                    Recovery::Sack => LossRule::DupThresh,
                },
            ),
            delivery: None,
            rtt: RttEstimator::new(settings.rto, settings.min_rto),
            rto_rule: settings.rto,
            rack: Rack::default(),
            rack_on: settings.rack && settings.recovery == Recovery::Sack,
            tlp: settings.tlp && settings.recovery == Recovery::Sack,
            probe: None,
            phase: Phase::SynSent,
            recovery_point: 0,
            recovery: settings.recovery,
            reduction: Reduction::AtOnce { first: true },
            recover: None,
            head_is_due: false,
            resuming: None,
            window_edge: 0,
            widest: 0,
            peer_sent: None,
            fin_sent: false,
            cwnd_limited_at: 0,
            send_cwr: false,
            last_sent: Instant::START,
            timer: LossTimer::OFF,
            pace_at: Instant::START,
            waits_for_pace: false,
        }
    }

    /// cwnd in bytes.
    pub fn cwnd(&self) -> u64 {
        let cwnd = self.control.cwnd();
        self.resuming.map_or(cwnd, |resuming| resuming.min(cwnd))
    }

    /// The congestion control, if it is of this type.
    pub fn control<C: CongestionControl>(&self) -> Option<&C> {
        let control: &dyn std::any::Any = self.control.as_ref();
        control.downcast_ref()
    }

    /// The application, if it is of this type.
    pub fn application<A: Application>(&self) -> Option<&A> {
        let application: &dyn std::any::Any = self.application.as_ref();
        application.downcast_ref()
    }

    /// Round-trip time and retransmission timeout.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// SND.UNA: the bytes that are cumulatively acknowledged; a FIN counts as one.
    pub fn acknowledged(&self) -> u64 {
        self.board.snd_una()
    }

    /// The estimate of bytes in the network.
    pub fn pipe(&self) -> u64 {
        self.board.pipe()
    }

    /// Whether it may send data: established, and not closed.
    pub fn is_open(&self) -> bool {
        self.phase != Phase::SynSent && !self.fin_sent
    }

    /// Bytes of data that were sent, repeated ones included, and are not known to have arrived:
    /// they are on their way, or were lost.
    pub fn unacknowledged(&self) -> u64 {
        self.statistics.bytes.saturating_sub(self.board.arrived())
    }

    /// Limits the rate at which data are paced from now on, or no longer, as `SO_MAX_PACING_RATE`
    /// does. When the next segment may go is decided already.
    pub fn set_pace_limit(&mut self, limit: Option<Bandwidth>) {
        self.pacing |= limit.is_some();
        self.pace_limit = limit;
    }

    fn send_syn(&mut self, cx: &mut Context<'_>) {
        let accurate = self.accurate.is_some();
        let flags = Flags {
            syn: true,
            ece: self.ecn || accurate,
            cwr: self.ecn || accurate,
            ae: accurate,
            ..Flags::default()
        };
        let segment = Segment {
            flags,
            ..Segment::default()
        };
        cx.send(SimPacket::new(syn_frame(), Payload::Tcp(segment)));
        self.timer = LossTimer::rto(cx.now(), &self.rtt);
        cx.wake_at(self.timer.at);
    }

    fn on_syn_ack(&mut self, cx: &mut Context<'_>, segment: &Segment) {
        if self.phase != Phase::SynSent {
            return;
        }
        self.ecn &= segment.flags.ece;
        self.window_edge = segment.window;
        self.widest = segment.window;
        if let Some(echo) = segment.echo {
            self.sample_rtt(cx.now(), cx.now().since(echo), 1);
        }
        // A lost SYN or SYN-ACK is a sign of congestion (RFC 5681, section 3.1).
        let initial_window = if self.statistics.timeouts > 0 {
            1
        } else {
            self.initial_window
        };
        let start = ConnectionStart {
            now: cx.now(),
            mss: self.mss,
            initial_window,
            hystart: self.hystart,
            counted_per_ack: 2,
            rtt: self.rtt.srtt(),
        };
        self.control = match &self.own_control {
            Some(own) => (own.build)(&start),
            None => (self.kind.build)(&start),
        };
        self.delivery = self.control.wants_rate_samples().then(RateSampler::default);
        if self.control.wants_losses() {
            self.board.keep_losses();
        }
        self.phase = Phase::Open;
        self.timer = LossTimer::OFF;
        self.last_sent = cx.now();
        self.transmit(cx);
        if self.statistics.segments == 0 {
            cx.send(SimPacket::new(ack_frame(0), Payload::Tcp(Segment::default())));
        }
    }

    /// The bytes that may be in the network.
    fn allowance(&self) -> u64 {
        if self.phase == Phase::Recovery && !self.control.governs_recovery() {
            match self.reduction {
                Reduction::Proportional(reduction) => reduction.cwnd,
                Reduction::AtOnce { .. } => self.control.cwnd(),
                Reduction::Halving(halving) => halving.cwnd,
            }
        } else {
            self.cwnd()
        }
    }

    /// The new data of the next segment, if there is any; an empty range is a FIN alone.
    fn next_new(&mut self, cx: &mut Context<'_>) -> Option<ByteRange> {
        let now = cx.now();
        let next = self.board.snd_nxt();
        if self.fin_sent {
            return None;
        }
        if now >= self.written.ask_again || next >= self.written.bytes {
            self.written = self.application.write(&StreamProgress {
                now,
                sent: next,
                acknowledged: self.board.snd_una(),
            });
            cx.wake_others(self.written.wakes);
        }
        let written = self.written.bytes.max(next);
        let full = written.min(next + self.mss);
        let end = full.min(self.window_edge);
        if end > next {
            // Part of a segment waits until the window admits all of it; or, with nothing in
            // flight, half of the widest window, or a timeout (RFC 9293, section 3.8.6.2.1).
            let enough = self.board.flight_size() == 0 && 2 * (end - next) >= self.widest;
            return (end == full || enough).then_some(ByteRange::new(next, end));
        }
        (self.written.closed && written == next).then_some(ByteRange::new(next, next))
    }

    /// Sends all that cwnd, the receiver's window and pacing allow.
    fn transmit(&mut self, cx: &mut Context<'_>) {
        let now = cx.now();
        self.restart_after_idle(now);
        let rate = self.pacing_rate();
        // What is sent meanwhile changes none of it.
        let allowance = self.allowance();
        let before = self.board.snd_nxt();
        self.waits_for_pace = false;
        loop {
            let lost = self.board.next_lost();
            let chosen = lost.or_else(|| self.next_new(cx));
            let pipe = self.board.pipe();
            let Some(range) = chosen else {
                if let (Some(delivery), true) = (&mut self.delivery, pipe < self.control.cwnd()) {
                    delivery.on_app_limited(pipe);
                }
                break;
            };
            if pipe > 0 && pipe + range.len() > allowance {
                self.cwnd_limited_at = self.board.snd_nxt();
                break;
            }
            if rate.is_some() && now < self.pace_at {
                self.waits_for_pace = true;
                break;
            }
            let transmission = match lost {
                Some(_) => Transmission::Again,
                None => Transmission::First,
            };
            self.send(cx, range, transmission, rate);
        }
        if self.board.snd_nxt() > before && self.may_probe() {
            let rto = LossTimer::rto(self.board.head_sent().unwrap_or(now), &self.rtt);
            self.timer = LossTimer::probe(now, self.is_alone(), rto.at, &self.rtt);
        }
        self.set_timer(cx);
    }

    /// Whether one segment at most is in flight.
    fn is_alone(&self) -> bool {
        self.board.flight_size() <= self.mss
    }

    /// Whether the timer stands for a tail loss probe: everything is in order as far as is known
    /// (RFC 8985, section 7.2).
    fn may_probe(&self) -> bool {
        let undisturbed = matches!(self.phase, Phase::Open | Phase::Cwr) && self.board.in_order();
        self.tlp && undisturbed && self.board.flight_size() > 0
    }

    /// Starts the timer anew after an ACK.
    fn restart_timer(&mut self, now: Instant) {
        self.timer = if self.board.flight_size() == 0 {
            LossTimer::OFF
        } else if self.may_probe() {
            let rto = LossTimer::rto(now, &self.rtt);
            LossTimer::probe(now, self.is_alone(), rto.at, &self.rtt)
        } else {
            self.timer.back_to_rto(now, self.board.head_sent(), &self.rtt)
        };
    }

    fn sample_rtt(&mut self, now: Instant, rtt: Duration, per_round_trip: u64) {
        self.rtt.sample(RttSample {
            now,
            rtt,
            snd_una: self.board.snd_una(),
            snd_nxt: self.board.snd_nxt(),
            per_round_trip,
        });
    }

    /// The rate at which segments are paced, if they are.
    fn pacing_rate(&self) -> Option<Bandwidth> {
        let rates = [self.own_pacing_rate(), self.pace_limit];
        rates.into_iter().flatten().min()
    }

    /// The same without a limit.
    fn own_pacing_rate(&self) -> Option<Bandwidth> {
        if let Some(rate) = self.control.pacing_rate() {
            return Some(rate);
        }
        let srtt = self.rtt.srtt()?;
        if !self.pacing {
            return None;
        }
        let tenths = if self.in_slow_start() { 20 } else { 12 };
        let per_rtt = Bytes::new(self.cwnd().saturating_mul(tenths) / 10);
        Some(Bandwidth::of(per_rtt, srtt))
    }

    /// Reduces a cwnd that idle time has made stale.
    fn restart_after_idle(&mut self, now: Instant) {
        if self.board.flight_size() == 0 && self.statistics.segments > 0 {
            let rtos = now.since(self.last_sent).nanos() / self.rtt.rto().nanos().max(1);
            if rtos > 0 {
                self.control.on_idle_restart(rtos.min(64) as u32);
                self.last_sent = now;
            }
        }
    }

    fn send(
        &mut self,
        cx: &mut Context<'_>,
        range: ByteRange,
        transmission: Transmission,
        rate: Option<Bandwidth>,
    ) {
        let now = cx.now();
        let next = self.board.snd_nxt();
        if let Some(delivery) = self.delivery.as_mut().filter(|_| !range.is_empty()) {
            delivery.on_send(now, range, self.board.pipe());
        }
        let mut segment = Segment {
            seq: range.start,
            len: range.len() as u32,
            echo: self.peer_sent,
            // No ACK was marked.
            flags: self.accurate.map_or(Flags::default(), |_| Flags::counting(0)),
            ..Segment::default()
        };
        match transmission {
            Transmission::Again | Transmission::Probe => {
                if transmission == Transmission::Again {
                    self.board.on_retransmit(range, now);
                }
                self.statistics.retransmissions += 1;
                if self.fin_sent && range.end == next {
                    segment.flags.fin = true;
                    segment.len -= 1;
                }
            }
            Transmission::First => {
                segment.flags.fin = self.written.closed && range.end == self.written.bytes.max(next);
                self.fin_sent = segment.flags.fin;
                self.board.on_send(range.len() + u64::from(self.fin_sent), now);
                segment.flags.cwr |= std::mem::take(&mut self.send_cwr);
            }
        }
        segment.flags.push = self.written.answered && segment.len > 0 && range.end == self.written.bytes;
        self.statistics.segments += u64::from(segment.len > 0);
        self.statistics.bytes += u64::from(segment.len);
        let mut packet = SimPacket::new(data_frame(segment.len), Payload::Tcp(segment));
        if self.accurate.is_some() && segment.len > 0 {
            packet.ecn = Ecn::Ect1;
        } else if self.ecn && transmission == Transmission::First && segment.len > 0 {
            packet.ecn = Ecn::Ect0;
        }
        if let (Phase::Recovery, Reduction::Proportional(reduction)) = (self.phase, &mut self.reduction) {
            reduction.sent += range.len();
        }
        if let Some(rate) = rate {
            self.pace_at = self.pace_at.max(now) + rate.time_to_send(Bytes::new(range.len()));
        }
        let head_again = transmission == Transmission::Again && range.start == self.board.snd_una();
        let head_again = head_again && !self.keeps_timer();
        if self.timer.is_off() || (head_again && self.timer.kind != TimerKind::Reordering) {
            self.timer = LossTimer::rto(now, &self.rtt);
        }
        self.last_sent = now;
        cx.send(packet);
    }

    fn set_timer(&mut self, cx: &mut Context<'_>) {
        let next = self.board.snd_nxt();
        let outstanding = self.board.flight_size() > 0;
        // Nothing is in flight, and the window does not let the next segment go.
        let held = !outstanding && self.window_edge < self.written.bytes.min(next + self.mss);
        if outstanding || held {
            if self.timer.is_off() {
                self.timer = LossTimer::rto(cx.now(), &self.rtt);
            }
        } else {
            self.timer = LossTimer::OFF;
        }
        let pace = if self.waits_for_pace {
            self.pace_at
        } else {
            Instant::NEVER
        };
        // Where it is due already, the application is asked as soon as more may be sent.
        let ask_again = Some(self.written.ask_again).filter(|at| !self.fin_sent && *at > cx.now());
        let ask_again = ask_again.unwrap_or(Instant::NEVER);
        match self.timer.at.min(pace).min(ask_again) {
            Instant::NEVER => cx.sleep(),
            at => cx.wake_at(at),
        }
    }

    /// The retransmission timer expired.
    fn on_rto(&mut self, cx: &mut Context<'_>) {
        let repeated = self.rtt.is_backed_off();
        self.rtt.back_off();
        self.timer = LossTimer::OFF;
        if self.phase == Phase::SynSent {
            self.statistics.timeouts += 1;
            self.send_syn(cx);
            return;
        }
        if self.board.flight_size() == 0 {
            self.probe_window(cx);
            return;
        }
        self.statistics.timeouts += 1;
        let age = if self.rack_on {
            self.rack.rtt()
        } else {
            Duration::ZERO
        };
        self.board.on_rto(cx.now() - age);
        self.tell_losses(cx.now());
        let event = CongestionEvent {
            repeated,
            ..self.congestion_event(cx.now())
        };
        self.control.on_rto(&event);
        self.probe = None;
        self.phase = Phase::RtoRecovery;
        self.recovery_point = self.board.snd_nxt();
        self.recover = Some(self.recovery_point);
        self.resuming = None;
        self.pace_at = cx.now();
        // The first segment goes at once, whatever is in the network (RFC 6298, 5.4).
        self.send_head(cx);
        self.transmit(cx);
    }

    /// Retransmits the first lost segment, whatever is in the network.
    fn send_head(&mut self, cx: &mut Context<'_>) {
        if let Some(range) = self.board.next_lost() {
            let rate = self.pacing_rate();
            self.send(cx, range, Transmission::Again, rate);
        }
    }

    /// The tail loss probe is due.
    fn on_loss_probe(&mut self, cx: &mut Context<'_>) {
        let now = cx.now();
        if self.probe.is_some() || self.board.has_lost() {
            self.timer = self.timer.back_to_rto(now, self.board.head_sent(), &self.rtt);
            return self.set_timer(cx);
        }
        let (range, transmission) = match self.next_new(cx) {
            Some(range) => (range, Transmission::First),
            None => (self.board.on_probe(now), Transmission::Probe),
        };
        let rate = self.pacing_rate();
        self.send(cx, range, transmission, rate);
        self.statistics.loss_probes += 1;
        self.probe = Some(LossProbe {
            end: self.board.snd_nxt(),
            again: transmission == Transmission::Probe,
        });
        self.timer = LossTimer::rto(now, &self.rtt);
        self.set_timer(cx);
    }

    /// An ACK may account for the probe. A loss that the probe alone repaired is congestion, too.
    fn process_probe_ack(&mut self, now: Instant, ack: u64, duplicate: bool, pure: bool) {
        let Some(probe) = self.probe else {
            return;
        };
        let outcome = probe.outcome(ack, duplicate, pure);
        if outcome != ProbeOutcome::Unknown {
            self.probe = None;
        }
        if outcome == ProbeOutcome::Repaired && self.phase == Phase::Open {
            let event = self.congestion_event(now);
            self.control.on_loss(&event);
            self.control.on_recovered(now);
        }
    }

    /// The reordering window is over: what it spared is lost.
    fn on_reordering_timeout(&mut self, cx: &mut Context<'_>) {
        let now = cx.now();
        self.detect_lost(now);
        self.tell_losses(now);
        if self.board.has_lost() && matches!(self.phase, Phase::Open | Phase::Cwr) {
            let event = self.congestion_event(now);
            self.enter_recovery(&event);
            self.reduce(0, false);
        }
        self.timer = self.timer.back_to_rto(now, self.board.head_sent(), &self.rtt);
        self.transmit(cx);
    }

    /// Tells the control of each segment that was found lost.
    fn tell_losses(&mut self, now: Instant) {
        let Some(delivery) = &mut self.delivery else {
            return;
        };
        for mut range in self.board.take_losses() {
            while !range.is_empty()
                && let Some(lost) = delivery.on_lost(range)
            {
                self.control.on_lost(now, &lost);
                range = ByteRange::new(lost.end, range.end);
            }
        }
    }

    /// Finds what is lost by time. Returns when the reordering window ends of what is not yet.
    fn detect_lost(&mut self, now: Instant) -> Option<Instant> {
        let before = self.rack.newest()?;
        let in_recovery = matches!(self.phase, Phase::Recovery | Phase::RtoRecovery);
        // Without RACK, retransmissions alone are judged by time, always with the window.
        let eager = self.rack_on && (in_recovery || self.board.dup_thresh());
        let srtt = self.rtt.srtt().unwrap_or(Duration::ZERO);
        let window = self.rack.window(eager, self.rtt.min_rtt(), srtt);
        let age = self.rack.rtt() + window;
        let waiting = self.board.detect_lost(Overdue {
            before,
            by: now - age,
        })?;
        Some(waiting + age)
    }

    /// The window has not let the next segment go for a timeout: what fits of it goes, or the byte
    /// before it asks for a window.
    fn probe_window(&mut self, cx: &mut Context<'_>) {
        let next = self.board.snd_nxt();
        if self.window_edge > next {
            let range = ByteRange::new(next, self.window_edge);
            let rate = self.pacing_rate();
            self.send(cx, range, Transmission::First, rate);
            return self.set_timer(cx);
        }
        self.statistics.probes += 1;
        let segment = Segment {
            seq: self.board.snd_una().saturating_sub(1),
            len: 1,
            ..Segment::default()
        };
        cx.send(SimPacket::new(data_frame(1), Payload::Tcp(segment)));
        self.set_timer(cx);
    }

    fn congestion_event(&self, now: Instant) -> CongestionEvent {
        CongestionEvent {
            now,
            flight_size: self.board.flight_size(),
            pipe: self.board.pipe(),
            repeated: false,
            whole_cwnd: self.whole_cwnd,
        }
    }

    /// Leaves or enters phases by what an ACK reported, with FlightSize before it. Returns whether
    /// cwnd may grow by this ACK.
    fn update_phase(&mut self, now: Instant, segment: &Segment, flight_size: u64) -> bool {
        let mut may_grow = matches!(self.phase, Phase::Open | Phase::RtoRecovery);
        let event = CongestionEvent {
            flight_size,
            ..self.congestion_event(now)
        };
        // The ACK of the last byte before CWR still has the ECE of the mark that was answered.
        let over = match self.phase {
            Phase::Cwr => self.board.snd_una() > self.recovery_point,
            _ => self.board.snd_una() >= self.recovery_point,
        };
        if self.phase != Phase::Open && over {
            if self.phase == Phase::Recovery {
                self.rack.on_recovered();
                self.resume();
            }
            self.phase = Phase::Open;
            self.board.judge_before(None);
            self.control.on_recovered(now);
        }
        if segment.flags.ece && self.ecn && self.phase == Phase::Open {
            self.statistics.marks += 1;
            self.control.on_ecn(&event);
            self.send_cwr = true;
            (self.phase, self.recovery_point) = (Phase::Cwr, self.board.snd_nxt());
            may_grow = false;
        }
        if self.board.has_lost() && matches!(self.phase, Phase::Open | Phase::Cwr) {
            self.enter_recovery(&event);
            may_grow = false;
        }
        may_grow
    }

    fn enter_recovery(&mut self, event: &CongestionEvent) {
        let before = self.cwnd();
        // A loss in a window that was reduced for a mark reduces no further (RFC 3168,
        // section 6.1.2).
        if self.phase == Phase::Open {
            self.control.on_loss(event);
            self.send_cwr = self.ecn;
        }
        self.statistics.recoveries += 1;
        self.probe = None;
        (self.phase, self.recovery_point) = (Phase::Recovery, self.board.snd_nxt());
        self.recover = Some(self.recovery_point);
        self.board.judge_before(self.recover);
        self.resuming = None;
        self.reduction = match self.recovery {
            Recovery::Sack => Reduction::Proportional(RateReduction::new(event.flight_size)),
            Recovery::NewReno => Reduction::AtOnce { first: true },
            Recovery::Linux24 | Recovery::Linux24Sack => Reduction::Halving(RateHalving::new(before)),
        };
    }

    /// An ACK in a recovery, before it lets anything go; `safe` as in proportional rate reduction.
    fn reduce(&mut self, delivered: u64, safe: bool) {
        let (pipe, ssthresh) = (self.board.pipe(), self.control.cwnd());
        match &mut self.reduction {
            Reduction::Proportional(reduction) => {
                reduction.on_ack(delivered, pipe, ssthresh, self.mss, safe);
            }
            Reduction::AtOnce { .. } => {}
            Reduction::Halving(halving) => halving.on_ack(pipe, ssthresh, self.mss),
        }
    }

    /// A recovery ends: slow start leads back from a cwnd that it left below ssthresh.
    fn resume(&mut self) {
        if let (Reduction::Halving(halving), false) = (self.reduction, self.control.governs_recovery()) {
            self.resuming = Some(halving.cwnd).filter(|cwnd| *cwnd < self.control.cwnd());
        }
    }

    /// RFC 6582's impatient timer: in a recovery the first partial ACK alone starts it anew.
    fn keeps_timer(&self) -> bool {
        self.phase == Phase::Recovery && matches!(self.reduction, Reduction::AtOnce { first: false })
    }

    fn in_slow_start(&self) -> bool {
        self.resuming.is_some() || self.control.in_slow_start()
    }

    /// With accurate ECN, how many segments an ACK shows to have been marked: as many as its three
    /// bits leave possible, and no more than were delivered (RFC 9768, appendix A.1).
    fn newly_marked(&mut self, segment: &Segment, delivered: u64) -> u64 {
        let Some(before) = self.accurate else {
            return 0;
        };
        let now = segment.flags.counted();
        self.accurate = Some(now);
        let least = u64::from(now.wrapping_sub(before) & 7);
        let segments = delivered.div_ceil(self.mss);
        let marked = least.max(segments.saturating_sub(segments.wrapping_sub(least) & 7));
        if marked > 0 && self.board.snd_una() >= self.marks_until {
            self.statistics.marks += 1;
            self.marks_until = self.board.snd_nxt();
        }
        marked
    }

    /// Of so many delivered bytes, those that count for growth.
    fn growth_bytes(&self, delivered: u64) -> u64 {
        if self.byte_counting {
            delivered
        } else {
            delivered.min(self.mss)
        }
    }

    /// Grows a cwnd that is below the control's by slow start. Returns whether there was one.
    fn grow_back(&mut self, growth_bytes: u64, may_grow: bool) -> bool {
        let Some(cwnd) = self.resuming else {
            return false;
        };
        let grown = cwnd
            + if may_grow {
                growth_bytes.min(2 * self.mss)
            } else {
                0
            };
        self.resuming = Some(grown).filter(|cwnd| *cwnd < self.control.cwnd());
        true
    }

    /// Without SACK: what an ACK shows (RFC 6582, section 3.2). `same`: it repeats the last one,
    /// with data outstanding.
    fn judge_duplicates(&mut self, same: bool, summary: &mut AckSummary) {
        let una = self.board.snd_una();
        let repairs = self.phase == Phase::Recovery && una < self.recovery_point;
        let may_enter =
            matches!(self.phase, Phase::Open | Phase::Cwr) && self.recover.is_none_or(|end| una > end);
        if summary.acked > 0 {
            summary.delivered = self.board.settle_duplicates(summary.acked);
            if repairs {
                self.board.lose_head();
                self.head_is_due = true;
            } else {
                self.board.forget_duplicates();
            }
        } else if same && (repairs || may_enter) {
            summary.delivered = self.board.on_duplicate();
            if may_enter && self.board.duplicates() >= DUPLICATES * self.mss {
                self.board.lose_head();
                self.head_is_due = true;
            }
        }
    }

    /// Learns from an ACK when the segment was sent that arrived last, and finds what is lost.
    /// Returns when the reordering window ends, if something waits for it.
    fn update_rack(&mut self, now: Instant, segment: &Segment, summary: &AckSummary) -> Option<Instant> {
        let echo = segment.echo?;
        if summary.delivered == 0 || !self.recovery.has_sack() {
            return None;
        }
        // An ACK of several segments echoes the first. A probe's time is not that of its original.
        let first_sent = summary.first_sent.filter(|_| self.probe.is_none());
        self.rack.on_delivered(
            now,
            Transmitted {
                sent: first_sent.map_or(echo, |sent| sent.max(echo)),
                end: summary.ends[1].max(self.board.snd_una()),
            },
        );
        self.detect_lost(now)
    }

    /// The right edge of the window: it moves left only with an ACK of new data (RFC 9293, section
    /// 3.10.7.4; where a gateway clamps windows it does).
    fn update_window(&mut self, segment: &Segment) {
        let edge = segment.ack + segment.window;
        if segment.ack > self.board.snd_una() || edge > self.window_edge {
            self.window_edge = edge;
            self.widest = self.widest.max(segment.window);
        }
    }

    fn on_ack(&mut self, cx: &mut Context<'_>, segment: &Segment) {
        let now = cx.now();
        let (flight_size, pipe_before) = (self.board.flight_size(), self.board.pipe());
        let una_before = self.board.snd_una();
        let edge_before = self.window_edge;
        self.update_window(segment);
        let head_sent = self.board.head_sent();
        let mut summary = self.board.on_ack(segment.ack, &segment.sack);
        let has_sack = self.recovery.has_sack();
        if !has_sack {
            let same = segment.ack == una_before && flight_size > 0 && self.window_edge == edge_before;
            self.judge_duplicates(same, &mut summary);
        }
        let AckSummary {
            acked,
            delivered,
            ends,
            ..
        } = summary;
        let rtt = segment.echo.map(|echo| now.since(echo));
        // Without SACK the data behind a duplicate is not known, and so not when it was sent.
        if let (Some(rtt), true) = (rtt, if has_sack { delivered > 0 } else { acked > 0 }) {
            self.sample_rtt(now, rtt, flight_size / self.mss / 2);
        }
        let mut restarts = acked > 0;
        if self.rto_rule == RtoRule::Linux && has_sack && delivered > 0 {
            restarts |= matches!((head_sent, segment.echo), (Some(head), Some(echo)) if echo < head);
        }
        if acked > 0 {
            self.rtt.end_backoff();
        }
        let duplicate = segment.duplicate();
        if self.probe.is_some() {
            let probed =
                duplicate.is_some_and(|range| self.probe.is_some_and(|probe| probe.end == range.end));
            let pure = delivered == 0 && self.window_edge == edge_before;
            self.process_probe_ack(now, segment.ack, probed, pure);
        } else if duplicate.is_some() {
            self.rack.on_dsack(self.board.snd_una(), self.board.snd_nxt());
        }
        if let Some(at) = self.update_rack(now, segment, &summary) {
            let rto = LossTimer::rto(now, &self.rtt);
            self.timer = LossTimer::reordering(at, rto.at);
            restarts = false;
        }
        let cwnd_limited =
            una_before < self.cwnd_limited_at || (self.in_slow_start() && 2 * flight_size > self.cwnd());
        self.tell_losses(now);
        // Duplicate ACKs let nothing grow (RFC 5681, section 3.2).
        let may_grow = self.update_phase(now, segment, flight_size) && cwnd_limited && acked > 0;
        let newly_lost = self.board.take_newly_lost();
        if restarts && !self.keeps_timer() {
            self.restart_timer(now);
        }
        if let (true, Phase::Recovery, Reduction::AtOnce { first }) =
            (acked > 0, self.phase, &mut self.reduction)
        {
            *first = false;
        }
        let snd_una = self.board.snd_una();
        let delivery = self.delivery.as_mut();
        let rate = delivery.and_then(|delivery| delivery.on_ack(now, delivered, ends, snd_una));
        let growth_bytes = self.growth_bytes(delivered);
        let marked = self.newly_marked(segment, delivered);
        let grows_back = self.grow_back(growth_bytes, may_grow);
        self.control.on_ack(&Ack {
            now,
            delivered,
            growth_bytes,
            marked,
            pipe_before,
            pipe: self.board.pipe(),
            snd_una,
            snd_nxt: self.board.snd_nxt(),
            rtt,
            rate,
            srtt: self.rtt.srtt().unwrap_or(Duration::ZERO),
            cwnd_limited,
            may_grow: may_grow && !grows_back,
        });
        if self.phase == Phase::Recovery {
            self.reduce(delivered, acked > 0 && !newly_lost);
        }
        self.sample_cwnd(now);
        if std::mem::take(&mut self.head_is_due) {
            self.send_head(cx);
        }
        self.transmit(cx);
        if self.fin_sent && self.board.flight_size() == 0 {
            self.finished = self.finished.or(Some(now));
        }
    }

    /// Keeps a sample of cwnd if one is due.
    fn sample_cwnd(&mut self, now: Instant) {
        let due = |every| self.samples.last().is_none_or(|last| now.since(last.at) >= every);
        if self.sample_interval.is_some_and(due) {
            self.samples.push(CwndSample {
                at: now,
                cwnd: self.cwnd(),
                pipe: self.board.pipe(),
                srtt: self.rtt.srtt().unwrap_or(Duration::ZERO),
            });
        }
    }
}

impl Agent for TcpSender {
    fn wake(&mut self, cx: &mut Context<'_>) {
        if self.phase == Phase::SynSent && self.timer.is_off() {
            self.send_syn(cx);
        } else if cx.now() < self.timer.at && self.phase == Phase::SynSent {
            // Another connection has woken it during the handshake.
            cx.wake_at(self.timer.at);
        } else if cx.now() < self.timer.at {
            self.transmit(cx);
        } else {
            match self.timer.kind {
                TimerKind::Rto => self.on_rto(cx),
                TimerKind::LossProbe => self.on_loss_probe(cx),
                TimerKind::Reordering => self.on_reordering_timeout(cx),
            }
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>, packet: &SimPacket) {
        let Payload::Tcp(segment) = &packet.payload else {
            return;
        };
        self.peer_sent = Some(packet.sent);
        if segment.flags.syn {
            self.on_syn_ack(cx, segment);
        } else if self.phase != Phase::SynSent {
            self.statistics.acks += 1;
            self.on_ack(cx, segment);
        }
    }
}
