//! The receiving end: it puts each stream together, acknowledges packets, and says how much more it
//! accepts.
//!
//! - **Acknowledgments** (RFC 9000, section 13.2): after every second packet, or when the first
//!   that waits has waited for max_ack_delay. At once where a packet is out of order, leaves a gap,
//!   is marked, or completes a stream: a client that asks for more then would send it with its
//!   request.
//! - **Ranges**: the latest of what arrived, as many as a frame reports. Those of [`RANGES`] are
//!   remembered, and packets below are taken for such that had arrived (section 13.2.3).
//! - **ECN**: the packets of each codepoint are counted (section 13.4.1).
//! - **Streams**: data is delivered in the order of its own stream. What another one waits for
//!   holds up nothing.
//! - **MAX_DATA** goes with each acknowledgment: programs read at once what is in order.

use super::Settings;
use super::wire::{AckFrame, DataPacket, LowerRange, QuicPacket, StreamFrame, ack_frame, handshake_frame};
use crate::agent::{Agent, Context};
use crate::packet::{ByteRange, Payload, SimPacket};
use crate::tcp::ranges::RangeSet;
use engine::packet::Ecn;
use engine::units::{Bytes, Duration, Instant};
use std::collections::BTreeMap;

/// The ranges of packet numbers that are remembered.
pub const RANGES: usize = 32;

/// The receiving side of a stream.
#[derive(Clone, Debug, Default)]
struct ReceiveStream {
    /// The next byte in order.
    next: u64,
    out_of_order: RangeSet,
    end: Option<u64>,
}

/// The receiving end of a connection.
#[derive(Clone, Debug)]
pub struct QuicReceiver {
    /// Packets with data, and PINGs, that arrived.
    pub packets: u64,
    /// Of those, such that had arrived before.
    pub duplicates: u64,
    /// Packets that arrived with CE.
    pub marked: u64,
    /// Acknowledgments sent.
    pub acks: u64,
    ack_every: u32,
    max_ack_delay: Duration,
    window: u64,
    received: RangeSet,
    largest_at: Instant,
    /// Packets that wait for an acknowledgment.
    waiting: u32,
    ack_at: Instant,
    ecn: [u32; 3],
    streams: BTreeMap<u32, ReceiveStream>,
    complete: RangeSet,
    delivered: u64,
}

impl QuicReceiver {
    /// A receiver that waits for a handshake.
    pub fn new(settings: &Settings) -> Self {
        Self {
            packets: 0,
            duplicates: 0,
            marked: 0,
            acks: 0,
            ack_every: settings.ack_every.max(1),
            max_ack_delay: settings.max_ack_delay,
            window: settings.receive_window.get(),
            received: RangeSet::default(),
            largest_at: Instant::START,
            waiting: 0,
            ack_at: Instant::NEVER,
            ecn: [0; 3],
            streams: BTreeMap::new(),
            complete: RangeSet::default(),
            delivered: 0,
        }
    }

    fn max_data(&self) -> u64 {
        self.delivered + self.window
    }

    /// The number behind the largest that arrived.
    fn expected(&self) -> u64 {
        self.received.backwards().next().map_or(0, |range| range.end)
    }

    /// What is to be acknowledged, if anything has arrived.
    fn ack(&self, now: Instant) -> Option<AckFrame> {
        let mut ranges = self.received.backwards();
        let highest = ranges.next()?;
        let mut ack = AckFrame {
            largest: highest.end - 1,
            first: highest.start,
            ecn: self.ecn,
            max_data: self.max_data(),
            ..AckFrame::default()
        };
        let mut above = highest.start;
        for (lower, range) in ack.lower.iter_mut().zip(ranges) {
            let short = |length: u64| u32::try_from(length).unwrap_or(u32::MAX);
            *lower = LowerRange {
                missing: short(above - range.end),
                arrived: short(range.len()),
            };
            above = range.start;
        }
        Some(ack.delayed(now.since(self.largest_at)))
    }

    fn send_ack(&mut self, cx: &mut Context<'_>) {
        (self.waiting, self.ack_at) = (0, Instant::NEVER);
        cx.sleep();
        if let Some(ack) = self.ack(cx.now()) {
            self.acks += 1;
            let payload = Payload::Quic(QuicPacket::Acknowledgment(ack));
            cx.send(SimPacket::new(ack_frame(&ack), payload));
        }
    }

    /// Takes a packet's number. Returns whether it is new.
    fn take_number(&mut self, now: Instant, number: u64) -> bool {
        let this = ByteRange::new(number, number + 1);
        // What was forgotten counts as arrived.
        let remembered = self.received.backwards().nth(RANGES - 1);
        let forgotten = remembered.is_some_and(|lowest| this.end < lowest.start);
        if forgotten || self.received.covers(this) {
            self.duplicates += 1;
            return false;
        }
        if number >= self.expected() {
            self.largest_at = now;
        }
        self.received.insert(this);
        let lowest = self.received.backwards().nth(RANGES - 1);
        if let Some(lowest) = lowest {
            self.received.trim(lowest.start);
        }
        true
    }

    /// Takes the data of a frame. Returns whether its stream is complete by it.
    fn take_frame(&mut self, cx: &mut Context<'_>, frame: &StreamFrame) -> bool {
        let number = u64::from(frame.stream);
        let this = ByteRange::new(number, number + 1);
        if self.complete.covers(this) {
            return false;
        }
        let stream = self.streams.entry(frame.stream).or_default();
        let range = ByteRange::new(frame.offset.max(stream.next), frame.offset + u64::from(frame.len));
        if frame.fin {
            stream.end = Some(frame.offset + u64::from(frame.len));
        }
        stream.out_of_order.insert(range);
        let before = stream.next;
        stream.next = stream.out_of_order.take_first(before).unwrap_or(before);
        let bytes = stream.next - before;
        let ended = stream.end == Some(stream.next);
        if ended {
            self.streams.remove(&frame.stream);
            self.complete.insert(this);
        }
        self.delivered += bytes;
        if bytes > 0 {
            cx.deliver(Bytes::new(bytes));
        }
        ended
    }

    fn receive_data(&mut self, cx: &mut Context<'_>, packet: &DataPacket, ecn: Ecn) {
        self.packets += 1;
        let expected = self.expected();
        if !self.take_number(cx.now(), packet.number) {
            return self.send_ack(cx);
        }
        match ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => self.ecn[0] += 1,
            Ecn::Ect1 => self.ecn[1] += 1,
            Ecn::Ce => self.ecn[2] += 1,
        }
        let marked = ecn == Ecn::Ce;
        self.marked += u64::from(marked);
        let mut completes = false;
        for frame in packet.frames.iter().filter(|frame| !frame.is_none()) {
            completes |= self.take_frame(cx, frame);
        }
        self.waiting += 1;
        let out_of_order = packet.number != expected;
        if out_of_order || marked || completes || self.waiting >= self.ack_every {
            return self.send_ack(cx);
        }
        self.ack_at = self.ack_at.min(cx.now() + self.max_ack_delay);
        cx.wake_at(self.ack_at);
    }
}

impl Agent for QuicReceiver {
    fn wake(&mut self, cx: &mut Context<'_>) {
        if self.ack_at <= cx.now() {
            self.send_ack(cx);
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>, packet: &SimPacket) {
        match packet.payload {
            Payload::Quic(QuicPacket::Handshake { .. }) => {
                let answer = QuicPacket::Handshake {
                    answers: Some(packet.sent),
                    max_data: self.max_data(),
                };
                cx.send(SimPacket::new(handshake_frame(), Payload::Quic(answer)));
            }
            Payload::Quic(QuicPacket::Data(data)) => self.receive_data(cx, &data, packet.ecn),
            _ => {}
        }
    }
}
