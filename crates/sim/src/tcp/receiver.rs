//! The end that takes the data: it puts bytes in order, answers, and says how much more it can take.
//!
//! - Every second full segment is answered at once, a lone one after [`DELAY`] at the latest (RFC 9293, section
//!   3.8.6.3; RFC 5681, section 4.2). What comes out of order, fills a hole, ends the stream or carries a mark that
//!   was not there before is answered at once.
//! - Out-of-order bytes are reported, the latest first (RFC 2018).
//! - The echo is that of the earliest segment not yet answered (RFC 7323), or of the segment that fills a hole or
//!   lies beyond one; the sender may so learn what has arrived of what it sent when.
//! - Marks are echoed until the sender says that it has reduced its window (RFC 3168, section 6.1.3).
//! - The program reads at once, or at a rate. Then the window shrinks, and is opened again in steps of two segments or
//!   half the buffer, whichever is less (RFC 9293, section 3.8.6.2.2).

use super::ranges::Ranges;
use super::{Settings, ack_frame, syn_frame};
use crate::agent::{Agent, Context};
use crate::packet::{Flags, Packet, Payload, Range, Segment};
use engine::packet::Ecn;
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// How long an answer to a lone segment may wait: Linux's least.
pub const DELAY: Duration = Duration::from_millis(40);

/// The receiving end.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Segments with data that arrived.
    pub segments: u64,
    /// Of their bytes, those that had already arrived.
    pub duplicate_bytes: u64,
    /// Segments that arrived with a mark of congestion.
    pub marked: u64,
    /// Answers sent.
    pub answers: u64,
    /// When the stream's end was reached.
    pub finished: Option<Instant>,
    segment: u64,
    delayed: bool,
    ecn: bool,
    buffer: u64,
    reads: Option<Bandwidth>,
    next: u64,
    /// Where the stream ends, once known.
    end: Option<u64>,
    early: Ranges,
    reported: [Range; 3],
    /// In order, but not read yet; as of `read_at`.
    unread: u64,
    read_at: Instant,
    /// The right edge of the window as last advertised.
    edge: u64,
    /// Bytes not answered yet, and the echo that is due for them.
    owed: u64,
    echo: Option<Instant>,
    answer_at: Instant,
    congested: bool,
}

impl Receiver {
    /// A receiver that waits for a caller.
    pub fn new(settings: &Settings) -> Self {
        Self {
            segments: 0,
            duplicate_bytes: 0,
            marked: 0,
            answers: 0,
            finished: None,
            segment: settings.segment().get(),
            delayed: settings.delayed_ack,
            ecn: settings.ecn,
            buffer: settings.receive_window.get().max(1),
            reads: settings.reads,
            next: 0,
            end: None,
            early: Ranges::default(),
            reported: [(0, 0); 3],
            unread: 0,
            read_at: Instant::START,
            edge: 0,
            owed: 0,
            echo: None,
            answer_at: Instant::NEVER,
            congested: false,
        }
    }

    /// The next byte that is expected: all before it have been delivered, but for one that stands for the end.
    pub fn expected(&self) -> u64 {
        self.next
    }

    /// Takes what the program has read off the buffer.
    fn read(&mut self, now: Instant) {
        let Some(rate) = self.reads else {
            self.unread = 0;
            return;
        };
        if self.unread == 0 {
            self.read_at = now;
            return;
        }
        let read = rate.bytes_in(now.since(self.read_at)).get().min(self.unread);
        self.unread -= read;
        // Only whole bytes' time is used up, so that no rate is lost to rounding.
        self.read_at = if self.unread == 0 {
            now
        } else {
            self.read_at + Duration::from_nanos(rate.time_to_send(Bytes::new(read)).nanos())
        };
    }

    /// How much more could be taken now.
    fn room(&self) -> u64 {
        self.buffer.saturating_sub(self.unread)
    }

    /// By how much the window must have grown to be worth a message.
    fn worth_telling(&self) -> u64 {
        (2 * self.segment).min(self.buffer / 2).max(1)
    }

    /// The right edge that is advertised: it never moves left, and not right for less than is worth it, if it closed.
    fn advertised(&self) -> u64 {
        let open = self.next + self.room();
        if open >= self.edge + self.worth_telling() || self.edge < self.next {
            open.max(self.edge)
        } else {
            self.edge.max(self.next)
        }
    }

    fn answer(&mut self, cx: &mut Context<'_>) {
        self.read(cx.now());
        let sack = self.reported;
        let blocks = sack.iter().filter(|range| range.0 < range.1).count();
        self.edge = self.advertised();
        let segment = Segment {
            ack: self.next,
            window: self.edge - self.next,
            sack,
            flags: Flags {
                ece: self.congested,
                ..Flags::default()
            },
            echo: self.echo.take(),
            ..Segment::default()
        };
        self.answers += 1;
        self.owed = 0;
        self.answer_at = Instant::NEVER;
        cx.send(Packet::new(ack_frame(blocks), Payload::Tcp(segment)));
        self.set_timer(cx);
    }

    /// When the window will have opened enough to say so; never, if it is not small.
    fn update_at(&self) -> Instant {
        let (Some(rate), true) = (self.reads, self.edge < self.next + self.worth_telling()) else {
            return Instant::NEVER;
        };
        let short = (self.edge + self.worth_telling()).saturating_sub(self.next + self.room());
        self.read_at + rate.time_to_send(Bytes::new(short))
    }

    fn set_timer(&self, cx: &mut Context<'_>) {
        match self.answer_at.min(self.update_at()) {
            Instant::NEVER => cx.sleep(),
            at => cx.wake_at(at),
        }
    }

    /// Takes a segment's bytes; whether it must be answered at once.
    fn take(&mut self, cx: &mut Context<'_>, segment: &Segment) -> bool {
        let (start, mut end) = (segment.seq, segment.seq + u64::from(segment.len));
        if segment.flags.fin {
            self.end = Some(end);
            end += 1;
        }
        self.segments += u64::from(segment.len > 0);
        if end <= self.next || self.early.covers((start, end)) {
            self.duplicate_bytes += u64::from(segment.len);
            return true;
        }
        if start > self.next {
            let whole = self.early.insert((start, end));
            self.report(whole);
            return true;
        }
        self.duplicate_bytes += self.next - start;
        let filled = !self.early.is_empty();
        let before = self.next;
        self.next = end;
        if filled {
            self.early.trim(end);
            self.next = self.early.take_first(end).unwrap_or(end);
            let next = self.next;
            self.reported
                .iter_mut()
                .filter(|range| range.0 <= next)
                .for_each(|range| *range = (0, 0));
            self.reported.sort_by_key(|range| range.0 >= range.1);
        }
        let ended = self.end.is_some_and(|end| self.next > end);
        let data = self.next - before - u64::from(ended);
        self.read(cx.now());
        self.unread += if self.reads.is_some() { data } else { 0 };
        self.owed += data;
        cx.deliver(Bytes::new(data));
        if ended {
            self.finished = self.finished.or(Some(cx.now()));
        }
        filled || ended || !self.delayed || self.owed >= 2 * self.segment
    }

    /// Puts a block in front of those that are reported.
    fn report(&mut self, whole: Range) {
        let mut blocks = [whole, (0, 0), (0, 0)];
        let others = self
            .reported
            .iter()
            .filter(|range| range.0 < range.1 && (range.1 < whole.0 || range.0 > whole.1));
        for (place, other) in blocks[1..].iter_mut().zip(others) {
            *place = *other;
        }
        self.reported = blocks;
    }
}

impl Agent for Receiver {
    fn wake(&mut self, cx: &mut Context<'_>) {
        if self.answer_at <= cx.now() {
            self.answer(cx);
            return;
        }
        self.read(cx.now());
        if self.advertised() > self.edge {
            self.answer(cx);
        } else {
            self.set_timer(cx);
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>, packet: &Packet) {
        let Payload::Tcp(segment) = packet.payload else {
            return;
        };
        if segment.flags.syn {
            self.read_at = cx.now();
            self.edge = self.edge.max(self.buffer);
            let answer = Segment {
                window: self.edge,
                flags: Flags {
                    syn: true,
                    ece: segment.flags.ece && self.ecn,
                    ..Flags::default()
                },
                echo: Some(packet.sent),
                ..Segment::default()
            };
            cx.send(Packet::new(syn_frame(), Payload::Tcp(answer)));
            return;
        }
        if segment.flags.cwr {
            self.congested = false;
        }
        let mut at_once = false;
        if packet.ecn == Ecn::Ce {
            self.marked += 1;
            at_once = !self.congested;
            self.congested = true;
        }
        if segment.len == 0 && !segment.flags.fin {
            return;
        }
        let beyond = segment.seq > self.next || !self.early.is_empty();
        if beyond || self.echo.is_none() {
            self.echo = Some(packet.sent);
        }
        at_once |= self.take(cx, &segment);
        if at_once {
            self.answer(cx);
        } else {
            self.answer_at = self.answer_at.min(cx.now() + DELAY);
            self.set_timer(cx);
        }
    }
}
