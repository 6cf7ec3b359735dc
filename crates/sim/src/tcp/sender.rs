//! The end that sends: it opens the connection, keeps its window, its timers and its recoveries, and closes.
//!
//! - **Recovery** (RFC 6675, RFC 6582): the first loss in a window begins it, the acknowledgment of all that was
//!   outstanding then ends it; what is lost goes first. What the window is meanwhile follows proportional rate reduction
//!   (RFC 6937), unless the control governs that itself. Limited transmit (RFC 3042) needs no rule of its own: what has
//!   arrived out of order is no longer in the network, so as much may follow.
//! - **Time-outs** (RFC 6298) begin with the oldest byte and double; all that has not arrived by then is lost, what is
//!   known to have arrived stays so.
//! - **Growth** only where the window was what stopped us since the data that is now acknowledged was sent; in slow start
//!   half of it is enough (as in Linux: a paced sender is never quite stopped).
//! - **After idleness** the window is halved for each time-out's time, to the initial one at least (RFC 2861).
//! - **Marks** count once a window, and as nothing within a window that already lost (RFC 3168, section 6.1.2).
//! - **A closed window** is probed with the byte before the first, at time-outs' times (RFC 9293, section 3.8.6.1).
//! - **Pacing**: a segment follows when the time of the former's data at the control's rate is over; without such a rate and if asked
//!   for, at 2 windows a round trip in slow start, 1.2 later, as in Linux.

use super::congestion::{Ack, Congestion, Signal, Start};
use super::delivery::Delivery;
use super::program::{Offer, Program, Progress};
use super::rtt::RoundTrip;
use super::scoreboard::{News, Scoreboard};
use super::{Control, Settings, ack_frame, data_frame, syn_frame};
use crate::agent::{Agent, Context};
use crate::packet::{Flags, Packet, Payload, Range, Segment};
use engine::packet::Ecn;
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// What a sender has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Segments with data.
    pub segments: u64,
    /// Of those, sent again.
    pub retransmissions: u64,
    /// Times that the timer ran out, the opening's included.
    pub timeouts: u64,
    /// Recoveries that began without a time-out.
    pub recoveries: u64,
    /// Windows in which a mark was obeyed.
    pub marks: u64,
    /// Probes of a closed window.
    pub probes: u64,
}

/// What the window was at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The time.
    pub at: Instant,
    /// The congestion window in bytes.
    pub window: u64,
    /// Bytes thought to be in the network.
    pub pipe: u64,
    /// The smoothed round-trip time.
    pub rtt: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No answer to the opening yet.
    Opening,
    Normal,
    /// The window was reduced for a mark.
    Marked,
    Recovery,
    /// After a time-out.
    Restart,
}

/// Proportional rate reduction (RFC 6937, with the slow-start bound).
#[derive(Clone, Copy, Debug, Default)]
struct Reduction {
    delivered: u64,
    sent: u64,
    flight: u64,
    /// How many bytes may be in the network until the next acknowledgment.
    window: u64,
}

impl Reduction {
    fn on_ack(&mut self, delivered: u64, pipe: u64, target: u64, segment: u64) {
        self.delivered += delivered;
        let may = if pipe > target {
            let due = u128::from(self.delivered) * u128::from(target);
            (due.div_ceil(u128::from(self.flight.max(1))) as u64).saturating_sub(self.sent)
        } else {
            let bound = self.delivered.saturating_sub(self.sent).max(delivered) + segment;
            bound.min(target - pipe)
        };
        // The first retransmission goes at once.
        self.window = pipe + if self.sent == 0 { may.max(segment) } else { may };
    }
}

/// The sending end.
#[derive(Debug)]
pub struct Sender {
    /// What was counted.
    pub statistics: Statistics,
    /// The window over time, if asked for.
    pub samples: Vec<Sample>,
    /// When all, the end included, was acknowledged.
    pub finished: Option<Instant>,
    segment: u64,
    kind: Control,
    initial: u32,
    ecn: bool,
    byte_counting: bool,
    hystart: bool,
    paced: bool,
    sampled: Option<Duration>,
    program: Box<dyn Program>,
    offer: Offer,
    control: Box<dyn Congestion>,
    board: Scoreboard,
    delivery: Option<Delivery>,
    rtt: RoundTrip,
    phase: Phase,
    /// The phase ends when this byte is the first unacknowledged one.
    until: u64,
    reduction: Reduction,
    /// The right edge of the receiver's window.
    edge: u64,
    /// The end of the stream has been sent.
    closed: bool,
    /// The window stopped us when this was the next byte.
    stopped_at: u64,
    tell_reduced: bool,
    last_sent: Instant,
    timeout_at: Instant,
    /// When pacing lets the next segment go.
    pace_at: Instant,
    waits_for_pace: bool,
}

impl Sender {
    /// A sender that opens its connection when its flow starts.
    pub fn new(settings: &Settings, program: Box<dyn Program>) -> Self {
        let segment = settings.segment().get();
        let initial = settings.initial_window.max(1);
        let start = Start {
            now: Instant::START,
            segment,
            window: initial,
            hystart: settings.hystart,
            rtt: None,
        };
        Self {
            statistics: Statistics::default(),
            samples: Vec::new(),
            finished: None,
            segment,
            kind: settings.control,
            initial,
            ecn: settings.ecn,
            byte_counting: settings.byte_counting,
            hystart: settings.hystart,
            paced: settings.pacing,
            sampled: settings.samples,
            program,
            offer: Offer {
                written: 0,
                closed: false,
                again: Instant::START,
            },
            control: settings.control.build(&start),
            board: Scoreboard::new(segment),
            delivery: None,
            rtt: RoundTrip::new(settings.min_rto),
            phase: Phase::Opening,
            until: 0,
            reduction: Reduction::default(),
            edge: 0,
            closed: false,
            stopped_at: 0,
            tell_reduced: false,
            last_sent: Instant::START,
            timeout_at: Instant::NEVER,
            pace_at: Instant::START,
            waits_for_pace: false,
        }
    }

    /// The congestion window in bytes.
    pub fn window(&self) -> u64 {
        self.control.window()
    }

    /// The congestion control, if it is of this type.
    pub fn control<C: Congestion>(&self) -> Option<&C> {
        let control: &dyn std::any::Any = self.control.as_ref();
        control.downcast_ref()
    }

    /// The program, if it is of this type.
    pub fn program<P: Program>(&self) -> Option<&P> {
        let program: &dyn std::any::Any = self.program.as_ref();
        program.downcast_ref()
    }

    /// The round trip.
    pub fn round_trip(&self) -> &RoundTrip {
        &self.rtt
    }

    /// Bytes that have arrived and were acknowledged, the end's number included.
    pub fn acknowledged(&self) -> u64 {
        self.board.first()
    }

    /// Bytes thought to be in the network.
    pub fn pipe(&self) -> u64 {
        self.board.pipe()
    }

    fn open(&mut self, cx: &mut Context<'_>) {
        let flags = Flags {
            syn: true,
            ece: self.ecn,
            cwr: self.ecn,
            ..Flags::default()
        };
        let segment = Segment {
            flags,
            ..Segment::default()
        };
        cx.send(Packet::new(syn_frame(), Payload::Tcp(segment)));
        self.timeout_at = cx.now() + self.rtt.timeout();
        cx.wake_at(self.timeout_at);
    }

    /// The answer to the opening came.
    fn opened(&mut self, cx: &mut Context<'_>, segment: &Segment) {
        if self.phase != Phase::Opening {
            return;
        }
        self.ecn &= segment.flags.ece;
        self.edge = segment.window;
        if let Some(echo) = segment.echo {
            self.rtt.sample(cx.now(), cx.now().since(echo), 1);
        }
        // A lost opening is a sign of congestion (RFC 5681, section 3.1).
        let window = if self.statistics.timeouts > 0 {
            1
        } else {
            self.initial
        };
        self.control = self.kind.build(&Start {
            now: cx.now(),
            segment: self.segment,
            window,
            hystart: self.hystart,
            rtt: self.rtt.smoothed(),
        });
        self.delivery = self.control.measures_rate().then(Delivery::default);
        self.phase = Phase::Normal;
        self.timeout_at = Instant::NEVER;
        self.last_sent = cx.now();
        self.fill(cx);
        if self.statistics.segments == 0 {
            cx.send(Packet::new(ack_frame(0), Payload::Tcp(Segment::default())));
        }
    }

    /// How many bytes may be in the network.
    fn allowance(&self) -> u64 {
        if self.phase == Phase::Recovery && !self.control.governs_recovery() {
            self.reduction.window
        } else {
            self.control.window()
        }
    }

    /// What the next segment carries that was not sent before.
    fn fresh(&mut self, now: Instant) -> Option<Range> {
        let next = self.board.next();
        if self.closed {
            return None;
        }
        if now >= self.offer.again || next >= self.offer.written {
            self.offer = self.program.offer(&Progress {
                now,
                sent: next,
                acknowledged: self.board.first(),
            });
        }
        let written = self.offer.written.max(next);
        let full = written.min(next + self.segment);
        let end = full.min(self.edge);
        if end > next {
            // A part of a segment waits until the window has room for all of it, or nothing is under way.
            let whole = end == full || self.board.outstanding() == 0;
            return whole.then_some((next, end));
        }
        (self.offer.closed && written == next).then_some((next, next))
    }

    /// Sends what may be sent.
    fn fill(&mut self, cx: &mut Context<'_>) {
        let now = cx.now();
        self.rest(now);
        let rate = self.rate();
        self.waits_for_pace = false;
        loop {
            let lost = self.board.next_lost();
            let fresh = lost.or_else(|| self.fresh(now));
            let pipe = self.board.pipe();
            let Some(range) = fresh else {
                if let (Some(delivery), true) = (&mut self.delivery, pipe < self.control.window()) {
                    delivery.program_waits(pipe);
                }
                break;
            };
            if pipe > 0 && pipe + (range.1 - range.0) > self.allowance() {
                self.stopped_at = self.board.next();
                break;
            }
            if rate.is_some() && now < self.pace_at {
                self.waits_for_pace = true;
                break;
            }
            self.send(cx, range, lost.is_some(), rate);
        }
        self.set_timer(cx);
    }

    /// The rate at which segments go, if they are paced.
    fn rate(&self) -> Option<Bandwidth> {
        if let Some(rate) = self.control.pacing_rate() {
            return Some(rate);
        }
        let smoothed = self.rtt.smoothed()?;
        if !self.paced {
            return None;
        }
        let tenths = if self.control.starting() { 20 } else { 12 };
        let window = Bytes::new(self.control.window().saturating_mul(tenths) / 10);
        Some(Bandwidth::of(window, smoothed))
    }

    /// After idleness, the window is no longer believed.
    fn rest(&mut self, now: Instant) {
        if self.board.outstanding() == 0 && self.statistics.segments > 0 {
            let timeouts = now.since(self.last_sent).nanos() / self.rtt.timeout().nanos().max(1);
            if timeouts > 0 {
                self.control.on_idle(timeouts.min(64) as u32);
                self.last_sent = now;
            }
        }
    }

    fn send(&mut self, cx: &mut Context<'_>, range: Range, again: bool, rate: Option<Bandwidth>) {
        let now = cx.now();
        let next = self.board.next();
        if let Some(delivery) = self.delivery.as_mut().filter(|_| range.0 < range.1) {
            delivery.sent(now, range, self.board.pipe());
        }
        let mut segment = Segment {
            seq: range.0,
            len: (range.1 - range.0) as u32,
            ..Segment::default()
        };
        if again {
            self.board.resend(range, now);
            self.statistics.retransmissions += 1;
            if self.closed && range.1 == next {
                segment.flags.fin = true;
                segment.len -= 1;
            }
        } else {
            segment.flags.fin = self.offer.closed && range.1 == self.offer.written.max(next);
            self.closed = segment.flags.fin;
            self.board.sent(range.1 - range.0 + u64::from(self.closed));
            segment.flags.cwr = std::mem::take(&mut self.tell_reduced);
        }
        self.statistics.segments += u64::from(segment.len > 0);
        let mut packet = Packet::new(data_frame(segment.len), Payload::Tcp(segment));
        if self.ecn && !again && segment.len > 0 {
            packet.ecn = Ecn::Ect0;
        }
        if self.phase == Phase::Recovery {
            self.reduction.sent += range.1 - range.0;
        }
        if let Some(rate) = rate {
            self.pace_at = self.pace_at.max(now) + rate.time_to_send(Bytes::new(range.1 - range.0));
        }
        if self.timeout_at == Instant::NEVER {
            self.timeout_at = now + self.rtt.timeout();
        }
        self.last_sent = now;
        cx.send(packet);
    }

    fn set_timer(&mut self, cx: &mut Context<'_>) {
        let outstanding = self.board.outstanding() > 0;
        let shut = !outstanding && self.edge <= self.board.next() && self.offer.written > self.board.next();
        if outstanding || shut {
            if self.timeout_at == Instant::NEVER {
                self.timeout_at = cx.now() + self.rtt.timeout();
            }
        } else {
            self.timeout_at = Instant::NEVER;
        }
        let pace = if self.waits_for_pace {
            self.pace_at
        } else {
            Instant::NEVER
        };
        // What is due is asked for as soon as more may be sent.
        let again = Some(self.offer.again).filter(|again| !self.closed && *again > cx.now());
        let again = again.unwrap_or(Instant::NEVER);
        match self.timeout_at.min(pace).min(again) {
            Instant::NEVER => cx.sleep(),
            at => cx.wake_at(at),
        }
    }

    /// The timer ran out.
    fn time_out(&mut self, cx: &mut Context<'_>) {
        let repeated = self.rtt.waits();
        self.rtt.back_off();
        self.timeout_at = Instant::NEVER;
        if self.phase == Phase::Opening {
            self.statistics.timeouts += 1;
            self.open(cx);
            return;
        }
        if self.board.outstanding() == 0 {
            self.statistics.probes += 1;
            let segment = Segment {
                seq: self.board.first().saturating_sub(1),
                len: 1,
                ..Segment::default()
            };
            cx.send(Packet::new(data_frame(1), Payload::Tcp(segment)));
            self.set_timer(cx);
            return;
        }
        self.statistics.timeouts += 1;
        let signal = Signal {
            repeated,
            ..self.signal(cx.now())
        };
        self.control.on_timeout(&signal);
        self.board.timed_out();
        self.phase = Phase::Restart;
        self.until = self.board.next();
        self.pace_at = cx.now();
        self.fill(cx);
    }

    fn signal(&self, now: Instant) -> Signal {
        Signal {
            now,
            flight: self.board.outstanding(),
            pipe: self.board.pipe(),
            repeated: false,
        }
    }

    /// Leaves or enters phases by what an acknowledgment brought; `true` if the window may grow by it.
    fn turn(&mut self, now: Instant, segment: &Segment, flight: u64) -> bool {
        let mut may_grow = matches!(self.phase, Phase::Normal | Phase::Restart);
        let signal = Signal {
            flight,
            ..self.signal(now)
        };
        if self.phase != Phase::Normal && self.board.first() >= self.until {
            self.phase = Phase::Normal;
            self.control.on_recovered(now);
        }
        if segment.flags.ece && self.ecn && self.phase == Phase::Normal {
            self.statistics.marks += 1;
            self.control.on_ecn(&signal);
            self.tell_reduced = true;
            (self.phase, self.until) = (Phase::Marked, self.board.next());
            may_grow = false;
        }
        if self.board.has_holes() && matches!(self.phase, Phase::Normal | Phase::Marked) {
            // A loss in a window that was reduced for a mark is no second reason (RFC 3168, section 6.1.2).
            if self.phase == Phase::Normal {
                self.control.on_loss(&signal);
                self.tell_reduced = self.ecn;
            }
            self.statistics.recoveries += 1;
            (self.phase, self.until) = (Phase::Recovery, self.board.next());
            self.reduction = Reduction {
                flight,
                ..Reduction::default()
            };
            self.timeout_at = now + self.rtt.timeout();
            may_grow = false;
        }
        may_grow
    }

    fn acknowledged_by(&mut self, cx: &mut Context<'_>, segment: &Segment) {
        let now = cx.now();
        let (flight, before, first) = (self.board.outstanding(), self.board.pipe(), self.board.first());
        self.edge = self.edge.max(segment.ack + segment.window);
        let News {
            acked,
            delivered,
            ends,
        } = self.board.acknowledge(segment.ack, &segment.sack);
        let rtt = segment.echo.map(|echo| now.since(echo));
        if let (Some(rtt), true) = (rtt, delivered > 0) {
            self.rtt.sample(now, rtt, flight / self.segment / 2);
        }
        if let Some(echo) = segment.echo {
            let slack = Duration::from_nanos(self.rtt.least().nanos() / 4);
            self.board.overtaken(echo, slack);
        }
        if acked > 0 {
            self.rtt.answered();
            self.timeout_at = if self.board.outstanding() > 0 {
                now + self.rtt.timeout()
            } else {
                Instant::NEVER
            };
        }
        let limited =
            first < self.stopped_at || (self.control.starting() && 2 * flight > self.control.window());
        // Duplicates let nothing grow (RFC 5681, section 3.2).
        let grow = self.turn(now, segment, flight) && limited && acked > 0;
        let first = self.board.first();
        let delivery = self.delivery.as_mut();
        let rate = delivery.and_then(|delivery| delivery.acknowledged(now, delivered, ends, first));
        self.control.on_ack(&Ack {
            now,
            delivered,
            counted: if self.byte_counting {
                delivered
            } else {
                delivered.min(self.segment)
            },
            before,
            pipe: self.board.pipe(),
            first,
            next: self.board.next(),
            rtt,
            rate,
            smoothed: self.rtt.smoothed().unwrap_or(Duration::ZERO),
            grow,
        });
        if self.phase == Phase::Recovery {
            let target = self.control.window();
            self.reduction
                .on_ack(delivered, self.board.pipe(), target, self.segment);
        }
        self.note(now);
        self.fill(cx);
        if self.closed && self.board.outstanding() == 0 {
            self.finished = self.finished.or(Some(now));
        }
    }

    /// Keeps a sample of the window, if it is time.
    fn note(&mut self, now: Instant) {
        let due = |every| self.samples.last().is_none_or(|last| now.since(last.at) >= every);
        if self.sampled.is_some_and(due) {
            self.samples.push(Sample {
                at: now,
                window: self.control.window(),
                pipe: self.board.pipe(),
                rtt: self.rtt.smoothed().unwrap_or(Duration::ZERO),
            });
        }
    }
}

impl Agent for Sender {
    fn wake(&mut self, cx: &mut Context<'_>) {
        if self.phase == Phase::Opening && self.timeout_at == Instant::NEVER {
            self.open(cx);
        } else if cx.now() >= self.timeout_at {
            self.time_out(cx);
        } else {
            self.fill(cx);
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>, packet: &Packet) {
        let Payload::Tcp(segment) = packet.payload else {
            return;
        };
        if segment.flags.syn {
            self.opened(cx, &segment);
        } else if self.phase != Phase::Opening {
            self.acknowledged_by(cx, &segment);
        }
    }
}
