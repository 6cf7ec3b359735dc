//! The sending end: handshake, loss detection, probes, ECN and pacing, until all streams are
//! acknowledged (RFC 9002).
//!
//! - **Losses** are found by acknowledgments alone: three packets, or nine eighths of a round trip
//!   (`sent.rs`). What a lost packet had goes again in packets with new numbers.
//! - **Probes** (section 6.2): where no acknowledgment comes for a probe timeout, two packets go
//!   whatever cwnd is, with new data, or else with that of the oldest packets in flight, or as
//!   PINGs. Nothing is deemed lost by that, and cwnd stays. The next timeout is twice as long,
//!   until something is acknowledged.
//! - **A recovery** (section 7.3.2) begins with the loss of a packet that was sent after the last
//!   one began, and ends as a packet is acknowledged that was sent in it. The control reduces cwnd
//!   once, by a part of cwnd, at once; where that leaves no room, what is lost waits for it.
//! - **Persistent congestion** (section 7.6): where two lost packets were sent more than three
//!   probe timeouts apart, and none between them arrived, cwnd is two datagrams.
//! - **Growth** is of packets that were sent after the last recovery began, by a sender that cwnd
//!   limited since (section 7.8). In slow start half of cwnd in flight is enough, as with TCP.
//! - **ECN** (RFC 9000, section 13.4): more CE than before is congestion as of the largest packet
//!   that the frame is the first to acknowledge. If the counts do not cover what was acknowledged,
//!   the path does not keep the field, and packets are not ECN-capable any more. A control that
//!   wants all marks gets their number; its packets say ECT(1).
//! - **Pacing** (section 7.7): 5/4 cwnd per smoothed round trip, unless the control has its rate.
//!
//! Where it departs: the initial window is ten datagrams of any length, not 14,720 bytes.

use super::Settings;
use super::application::StreamApplication;
use super::rtt::QuicRtt;
use super::sent::{Acknowledged, SentPacket, SentPackets};
use super::streams::SendStreams;
use super::wire::{self, AckFrame, DataPacket, FRAMES, QuicPacket, StreamFrame};
use crate::agent::{Agent, Context};
use crate::packet::{Payload, SimPacket};
use crate::tcp::control::{Ack, CongestionControl, CongestionEvent, ConnectionStart};
use crate::tcp::delivery::RateSampler;
use crate::tcp::{ControlKind, OwnControl};
use engine::packet::Ecn;
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// The packets of a probe.
const PROBES: u8 = 2;
/// kMinimumWindow, in datagrams.
const MINIMUM_WINDOW: u64 = 2;

/// What a sender has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QuicStatistics {
    /// Packets with data, and PINGs.
    pub packets: u64,
    /// Packets that were found lost.
    pub lost: u64,
    /// Probe timeouts that expired, those of the handshake included.
    pub probe_timeouts: u64,
    /// Times at which losses reduced cwnd.
    pub recoveries: u64,
    /// Times at which marks did; of all marks one a round trip.
    pub marks: u64,
    /// How often congestion was persistent.
    pub persistent: u64,
}

/// Whether packets are ECN-capable, and what was said of them last.
#[derive(Clone, Copy, Debug)]
struct EcnState {
    codepoint: Option<Ecn>,
    counts: [u32; 3],
}

/// The sending end of a connection.
#[derive(Debug)]
pub struct QuicSender {
    /// What was counted.
    pub statistics: QuicStatistics,
    /// When everything was acknowledged.
    pub finished: Option<Instant>,
    kind: &'static ControlKind,
    own_control: Option<OwnControl>,
    start: ConnectionStart,
    pacing: bool,
    datagram: u64,
    application: Box<dyn StreamApplication>,
    ask_again: Instant,
    streams: SendStreams,
    control: Box<dyn CongestionControl>,
    delivery: Option<RateSampler>,
    sent: SentPackets,
    rtt: QuicRtt,
    established: bool,
    /// Probe timeouts since something was acknowledged.
    probe_timeouts: u32,
    /// Packets that go whatever cwnd is.
    probes: u8,
    last_sent: Instant,
    /// When the next packet is lost by time, if nothing arrives.
    loss_at: Option<Instant>,
    /// The latest recovery: when it began, and whether it goes on.
    recovery: Option<(Instant, bool)>,
    /// All that was sent when cwnd last stopped the sender.
    limited_at: u64,
    /// Marks count as those of another round trip behind this place.
    marks_until: u64,
    ecn: EcnState,
    pace_at: Instant,
    waits_for_pace: bool,
    /// The packets that the latest acknowledgment shows to be lost.
    lost: Vec<SentPacket>,
}

impl QuicSender {
    /// A sender that begins its handshake when its flow starts.
    pub fn new(settings: &Settings, application: Box<dyn StreamApplication>) -> Self {
        let datagram = wire::datagram(settings.mtu);
        let start = ConnectionStart {
            now: Instant::START,
            mss: datagram,
            initial_window: settings.initial_window.max(1),
            hystart: settings.hystart,
            counted_per_ack: u32::MAX,
            rtt: None,
        };
        let control = (settings.control.build)(&start);
        Self {
            statistics: QuicStatistics::default(),
            finished: None,
            kind: settings.control,
            own_control: settings.own_control.clone(),
            start,
            pacing: settings.pacing,
            datagram,
            application,
            ask_again: Instant::START,
            streams: SendStreams::default(),
            control,
            delivery: None,
            sent: SentPackets::default(),
            rtt: QuicRtt::new(settings.max_ack_delay),
            established: false,
            probe_timeouts: 0,
            probes: 0,
            last_sent: Instant::NEVER,
            loss_at: None,
            recovery: None,
            limited_at: 0,
            marks_until: 0,
            ecn: EcnState {
                codepoint: settings.ecn.then_some(Ecn::Ect0),
                counts: [0; 3],
            },
            pace_at: Instant::START,
            waits_for_pace: false,
            lost: Vec::new(),
        }
    }

    /// cwnd in bytes.
    pub fn cwnd(&self) -> u64 {
        self.control.cwnd()
    }

    /// The bytes in flight.
    pub fn in_flight(&self) -> u64 {
        self.sent.in_flight()
    }

    /// What is known of the round-trip time.
    pub fn rtt(&self) -> &QuicRtt {
        &self.rtt
    }

    /// Whether packets are sent as ECN-capable.
    pub fn is_ecn_capable(&self) -> bool {
        self.ecn.codepoint.is_some()
    }

    /// The congestion control, if it is of this type.
    pub fn control<C: CongestionControl>(&self) -> Option<&C> {
        let control: &dyn std::any::Any = self.control.as_ref();
        control.downcast_ref()
    }

    /// The application, if it is of this type.
    pub fn application<A: StreamApplication>(&self) -> Option<&A> {
        let application: &dyn std::any::Any = self.application.as_ref();
        application.downcast_ref()
    }

    fn send_handshake(&mut self, cx: &mut Context<'_>) {
        self.last_sent = cx.now();
        let packet = QuicPacket::Handshake {
            answers: None,
            max_data: 0,
        };
        cx.send(SimPacket::new(wire::handshake_frame(), Payload::Quic(packet)));
        self.set_timer(cx);
    }

    fn on_handshake(&mut self, cx: &mut Context<'_>, sent: Instant, max_data: u64) {
        if self.established {
            return;
        }
        let now = cx.now();
        self.established = true;
        self.probe_timeouts = 0;
        self.rtt.sample(now, now.since(sent), Duration::ZERO);
        self.streams.accept(max_data);
        self.start.now = now;
        self.start.rtt = self.rtt.srtt();
        self.control = match &self.own_control {
            Some(own) => (own.build)(&self.start),
            None => (self.kind.build)(&self.start),
        };
        self.delivery = self.control.wants_rate_samples().then(RateSampler::default);
        if self.control.wants_accurate_ecn() {
            self.ecn.codepoint = Some(Ecn::Ect1);
        }
        self.transmit(cx);
    }

    /// The rate at which packets are paced, if they are.
    fn pacing_rate(&self) -> Option<Bandwidth> {
        if let Some(rate) = self.control.pacing_rate() {
            return Some(rate);
        }
        let srtt = self.rtt.srtt().filter(|_| self.pacing)?;
        let per_round_trip = Bytes::new(self.cwnd().saturating_mul(5) / 4);
        Some(Bandwidth::of(per_round_trip, srtt))
    }

    /// Asks the application, if it is due or all is sent; returns the bytes that may be sent.
    fn ask(&mut self, now: Instant) -> u64 {
        let pending = self.streams.pending();
        let room = wire::room(self.datagram);
        let wants = pending < room && self.streams.credit() > pending && !self.application.is_over();
        if !wants && self.ask_again > now {
            return pending;
        }
        // Beside what is pending, its header counts, by its longest.
        let pending = match pending {
            0 => 0,
            some => some + StreamFrame::header(u32::MAX, u64::MAX),
        };
        let free = if wants { room.saturating_sub(pending) } else { 0 };
        self.ask_again = self.application.write(now, free, &mut self.streams);
        self.streams.pending()
    }

    /// Sends all that cwnd, the receiver and pacing allow.
    fn transmit(&mut self, cx: &mut Context<'_>) {
        let now = cx.now();
        let rate = self.pacing_rate();
        let mut burst = match rate {
            Some(_) => u32::MAX,
            None => self.start.initial_window,
        };
        self.waits_for_pace = false;
        loop {
            let pending = self.ask(now);
            let probing = self.probes > 0;
            if pending == 0 && !probing {
                let in_flight = self.in_flight();
                if let (Some(delivery), true) = (&mut self.delivery, in_flight < self.control.cwnd()) {
                    delivery.on_app_limited(in_flight);
                }
                break;
            }
            let next = wire::data_datagram(pending).min(self.datagram);
            if !probing && self.in_flight() > 0 && self.in_flight() + next > self.cwnd() {
                self.limited_at = self.sent.sent();
                break;
            }
            if !probing && rate.is_some() && now < self.pace_at {
                self.waits_for_pace = true;
                break;
            }
            if burst == 0 && !probing {
                break;
            }
            burst = burst.saturating_sub(1);
            self.send_data(cx, rate);
        }
        self.set_timer(cx);
    }

    fn send_data(&mut self, cx: &mut Context<'_>, rate: Option<Bandwidth>) {
        let now = cx.now();
        if self.probes > 0 && self.streams.pending() == 0 {
            let older = self.sent.outstanding().nth(usize::from(PROBES - self.probes));
            let frames = older.map_or([StreamFrame::default(); FRAMES], |packet| packet.frames);
            frames.iter().for_each(|frame| self.streams.send_again(frame));
        }
        self.probes = self.probes.saturating_sub(1);
        let (frames, used) = self.streams.frames(wire::room(self.datagram));
        let length = wire::data_datagram(used);
        let number = self.sent.next_number();
        let in_flight = self.in_flight();
        let codepoint = self.ecn.codepoint;
        let place = self.sent.send(now, length, frames, codepoint.is_some());
        if let Some(delivery) = &mut self.delivery {
            delivery.on_send(now, place, in_flight);
        }
        if let Some(rate) = rate {
            self.pace_at = self.pace_at.max(now) + rate.time_to_send(Bytes::new(length));
        }
        self.statistics.packets += 1;
        self.last_sent = now;
        let payload = Payload::Quic(QuicPacket::Data(DataPacket { number, frames }));
        let mut packet = SimPacket::new(wire::frame(length), payload);
        packet.ecn = codepoint.unwrap_or(Ecn::NotEct);
        cx.send(packet);
    }

    /// When the next probe is due; never, with nothing in flight.
    fn probe_at(&self) -> Instant {
        let waits = !self.established || self.in_flight() > 0;
        if !waits || self.last_sent == Instant::NEVER {
            return Instant::NEVER;
        }
        let timeout = self.rtt.probe_timeout(self.established);
        self.last_sent + timeout.times(1 << self.probe_timeouts.min(16))
    }

    fn set_timer(&self, cx: &mut Context<'_>) {
        let loss = self.loss_at.unwrap_or_else(|| self.probe_at());
        let pace = match self.waits_for_pace {
            true => self.pace_at,
            false => Instant::NEVER,
        };
        let asks = self.established && !self.application.is_over() && self.ask_again > cx.now();
        let ask = if asks { self.ask_again } else { Instant::NEVER };
        match loss.min(pace).min(ask) {
            Instant::NEVER => cx.sleep(),
            at => cx.wake_at(at),
        }
    }

    fn on_probe_timeout(&mut self, cx: &mut Context<'_>) {
        self.statistics.probe_timeouts += 1;
        self.probe_timeouts += 1;
        if self.established {
            self.probes = PROBES;
            self.transmit(cx);
        } else {
            self.send_handshake(cx);
        }
    }

    fn event(&self, now: Instant, in_flight: u64) -> CongestionEvent {
        CongestionEvent {
            now,
            flight_size: in_flight,
            pipe: self.in_flight(),
            repeated: false,
            // RFC 9002, section 7.3.2: half of the congestion window.
            whole_cwnd: true,
        }
    }

    /// Congestion was experienced by a packet that was sent then. Returns whether that begins a
    /// recovery.
    fn begins_recovery(&mut self, now: Instant, sent: Instant) -> bool {
        if self.recovery.is_some_and(|(began, _)| sent <= began) {
            return false;
        }
        self.recovery = Some((now, true));
        true
    }

    /// Finds what is lost by now, and reduces cwnd for it; so many bytes were in flight before.
    fn detect_lost(&mut self, now: Instant, in_flight: u64) {
        let mut lost = std::mem::take(&mut self.lost);
        lost.clear();
        self.loss_at = self.sent.detect_lost(now, self.rtt.time_threshold(), &mut lost);
        self.statistics.lost += lost.len() as u64;
        for packet in &lost {
            let frames = packet.frames.iter().filter(|frame| !frame.is_none());
            frames.for_each(|frame| self.streams.send_again(frame));
            let told = self.delivery.as_mut().filter(|_| self.control.wants_losses());
            if let Some(segment) = told.and_then(|delivery| delivery.on_lost(packet.place)) {
                self.control.on_lost(now, &segment);
            }
        }
        if let Some(last) = lost.last() {
            if self.begins_recovery(now, last.sent) {
                self.statistics.recoveries += 1;
                let event = self.event(now, in_flight);
                self.control.on_loss(&event);
            }
            let first = self.rtt.first_sample().unwrap_or(now);
            if self.sent.longest_silence(&lost, first) > self.rtt.persistent_congestion() {
                self.on_persistent_congestion(now);
            }
        }
        self.sent.forget();
        self.lost = lost;
    }

    /// cwnd becomes the least, beside the threshold that the loss has just set; whatever is lost
    /// next begins a recovery.
    fn on_persistent_congestion(&mut self, now: Instant) {
        self.statistics.persistent += 1;
        let event = CongestionEvent {
            pipe: (MINIMUM_WINDOW - 1) * self.datagram,
            repeated: true,
            ..self.event(now, 0)
        };
        self.control.on_rto(&event);
        self.recovery = None;
    }

    /// The marks that an acknowledgment reports, if the path keeps ECN (RFC 9000, section
    /// 13.4.2.1).
    fn newly_marked(&mut self, ack: &AckFrame, found: &Acknowledged) -> u32 {
        if !found.advances || self.ecn.codepoint.is_none() {
            return 0;
        }
        let [zero, one, marked] =
            [0, 1, 2].map(|codepoint| ack.ecn[codepoint].saturating_sub(self.ecn.counts[codepoint]));
        self.ecn.counts = ack.ecn;
        let kept = match self.ecn.codepoint {
            Some(Ecn::Ect1) => one,
            _ => zero,
        };
        if kept + marked < found.ecn_capable {
            self.ecn.codepoint = None;
            return 0;
        }
        marked
    }

    /// Marks were reported, of which the last packet was sent then. Returns how many the control is
    /// told of with the acknowledgment.
    fn on_marks(&mut self, now: Instant, marked: u32, sent: Instant, in_flight: u64) -> u64 {
        if marked == 0 {
            return 0;
        }
        if self.control.wants_accurate_ecn() {
            if self.sent.settled() >= self.marks_until {
                self.statistics.marks += 1;
                self.marks_until = self.sent.sent();
            }
            return marked.into();
        }
        if self.begins_recovery(now, sent) {
            self.statistics.marks += 1;
            let event = self.event(now, in_flight);
            self.control.on_ecn(&event);
        }
        0
    }

    fn on_ack(&mut self, cx: &mut Context<'_>, ack: &AckFrame) {
        let now = cx.now();
        self.streams.accept(ack.max_data);
        let (in_flight, settled) = (self.in_flight(), self.sent.settled());
        let mut completed = Vec::new();
        let streams = &mut self.streams;
        let found = self.sent.acknowledge(ack, |packet| {
            let frames = packet.frames.iter().filter(|frame| !frame.is_none());
            completed.extend(frames.filter_map(|frame| streams.acknowledge(frame)));
        });
        let Some((sent, end)) = found.largest else {
            return self.transmit(cx);
        };
        self.probe_timeouts = 0;
        if found.advances {
            self.rtt.sample(now, now.since(sent), ack.delay_of_largest());
        }
        let limited =
            settled < self.limited_at || (self.control.in_slow_start() && 2 * in_flight > self.cwnd());
        let marked = self.newly_marked(ack, &found);
        let marked = self.on_marks(now, marked, sent, in_flight);
        self.detect_lost(now, in_flight);
        let after_recovery = self.recovery.is_none_or(|(began, _)| sent > began);
        if let (Some((_, goes_on)), true) = (&mut self.recovery, after_recovery)
            && std::mem::take(goes_on)
        {
            self.control.on_recovered(now);
        }
        let settled = self.sent.settled();
        let delivery = self.delivery.as_mut();
        let rate = delivery.and_then(|delivery| delivery.on_ack(now, found.bytes, [end, 0], settled));
        self.control.on_ack(&Ack {
            now,
            delivered: found.bytes,
            growth_bytes: found.bytes,
            marked,
            pipe_before: in_flight,
            pipe: self.in_flight(),
            snd_una: settled,
            snd_nxt: self.sent.sent(),
            rtt: found.advances.then(|| self.rtt.latest()),
            srtt: self.rtt.srtt().unwrap_or(Duration::ZERO),
            rate,
            cwnd_limited: limited,
            may_grow: limited && after_recovery,
        });
        for stream in &completed {
            self.application.completed(now, *stream);
        }
        if !completed.is_empty() {
            self.ask_again = self.application.write(now, 0, &mut self.streams);
        }
        self.transmit(cx);
        if self.application.is_over() && self.streams.are_complete() {
            self.finished = self.finished.or(Some(now));
        }
    }
}

impl Agent for QuicSender {
    fn wake(&mut self, cx: &mut Context<'_>) {
        let now = cx.now();
        if !self.established && self.last_sent == Instant::NEVER {
            return self.send_handshake(cx);
        }
        match self.loss_at {
            Some(at) if at <= now => {
                let in_flight = self.in_flight();
                self.detect_lost(now, in_flight);
                self.transmit(cx);
            }
            None if self.probe_at() <= now => self.on_probe_timeout(cx),
            _ if self.established => self.transmit(cx),
            _ => self.set_timer(cx),
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>, packet: &SimPacket) {
        match packet.payload {
            Payload::Quic(QuicPacket::Handshake {
                answers: Some(sent),
                max_data,
            }) => self.on_handshake(cx, sent, max_data),
            Payload::Quic(QuicPacket::Acknowledgment(ack)) if self.established => self.on_ack(cx, &ack),
            _ => {}
        }
    }
}
