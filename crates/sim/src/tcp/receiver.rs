//! The receiving end: it reassembles the stream, acknowledges it, and advertises its window.
//!
//! - **Delayed ACKs**: every second full segment is acknowledged at once, a lone one after at most
//!   [`DELAYED_ACK`] (RFC 9293, section 3.8.6.3; RFC 5681, section 4.2). A segment that is out of
//!   order, fills a hole, ends the stream or carries the first mark is acknowledged at once.
//! - **ACKs of batches**, if configured: of the segments in order that a card hands over together
//!   the last alone is acknowledged. So did Linux 2.4: it copied them to the reader that waited
//!   (`tcp_rcv_established`), and acknowledged as that returned (`cleanup_rbuf`).
//! - **SACK**: blocks that arrived out of order are reported, the latest first (RFC 2018). A
//!   duplicate is reported before them, once (DSACK, RFC 2883). Connections without SACK have
//!   neither.
//! - **Timestamps**: an ACK echoes the earliest segment not yet acknowledged (RFC 7323), or the
//!   segment that fills a hole or lies beyond one; so the sender learns when that was sent.
//! - **ECN**: ECE is set from the first mark until the sender sends CWR (RFC 3168, section 6.1.3).
//!   If the sender asked for accurate ECN, each ACK has how many marked segments have arrived (RFC
//!   9768), and the first one after others is acknowledged at once.
//! - **Window**: the application reads at once, or at a rate. Then the window shrinks; it is
//!   opened again in steps of two segments or half the buffer, whichever is less (RFC 9293, section
//!   3.8.6.2.2). A clamp limits it as Linux's TCP_WINDOW_CLAMP does: no window that was advertised
//!   is taken back.
//! - **Round trip**: the time from an ACK to the first segment that echoes it, smoothed as Linux
//!   does it (`tcp_rcv_rtt`).

use super::frames::{ack_frame, syn_frame};
use super::ranges::RangeSet;
use super::settings::Settings;
use crate::agent::{Agent, Context};
use crate::packet::{ByteRange, Flags, Payload, Segment, SimPacket};
use engine::packet::Ecn;
use engine::units::{Bandwidth, Bytes, Duration, Instant};

/// The longest delay of an ACK: Linux's least.
pub const DELAYED_ACK: Duration = Duration::from_millis(40);

/// When a segment is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AckTiming {
    Now,
    /// After what arrives together with it.
    AfterBatch,
    /// With the next segment, or after [`DELAYED_ACK`].
    Delayed,
}

/// The receiving end of a connection.
#[derive(Clone, Debug)]
pub struct TcpReceiver {
    /// Segments with data that arrived.
    pub segments: u64,
    /// Of their bytes, those that had arrived before.
    pub duplicate_bytes: u64,
    /// Segments that arrived beyond a hole.
    pub beyond_holes: u64,
    /// Segments that arrived with CE.
    pub marked: u64,
    /// ACKs sent.
    pub acks: u64,
    /// When the FIN was reached.
    pub finished: Option<Instant>,
    /// Bytes of all frames that arrived, as the interface counts them.
    pub frames: Bytes,
    /// The smoothed round trip, and the shortest one.
    pub round_trip: Option<[Duration; 2]>,
    /// The latest ACK whose echo was measured.
    measured: Option<Instant>,
    /// The window at most.
    clamp: Option<u64>,
    mss: u64,
    delayed_ack: bool,
    ack_per_batch: bool,
    sack: bool,
    ecn: bool,
    buffer: u64,
    read_rate: Option<Bandwidth>,
    /// The next byte expected in order (RFC 9293's RCV.NXT).
    rcv_nxt: u64,
    /// The sequence number of the FIN, once known.
    fin: Option<u64>,
    out_of_order: RangeSet,
    sack_blocks: [ByteRange; 3],
    /// A duplicate that is not reported yet.
    duplicate: Option<ByteRange>,
    /// Bytes in order that are not read yet, as of `read_at`.
    unread: u64,
    read_at: Instant,
    /// The right edge of the advertised window.
    window_edge: u64,
    /// Bytes in order that are not acknowledged yet, and the timestamp to echo for them.
    unacked: u64,
    echo: Option<Instant>,
    /// When the delayed ACK is due.
    ack_at: Instant,
    /// ECE is set until CWR arrives; with accurate ECN, whether the latest segment was marked.
    echo_congestion: bool,
    /// Accurate ECN was asked for.
    accurate: bool,
}

impl TcpReceiver {
    /// A receiver that waits for a SYN.
    pub fn new(settings: &Settings) -> Self {
        Self {
            segments: 0,
            duplicate_bytes: 0,
            beyond_holes: 0,
            marked: 0,
            acks: 0,
            finished: None,
            frames: Bytes::ZERO,
            round_trip: None,
            measured: None,
            clamp: None,
            mss: settings.mss().get(),
            delayed_ack: settings.delayed_ack,
            ack_per_batch: settings.ack_per_batch,
            sack: settings.recovery.has_sack(),
            ecn: settings.ecn,
            buffer: settings.receive_window.get().max(1),
            read_rate: settings.read_rate,
            rcv_nxt: 0,
            fin: None,
            out_of_order: RangeSet::default(),
            sack_blocks: [ByteRange::default(); 3],
            duplicate: None,
            unread: 0,
            read_at: Instant::START,
            window_edge: 0,
            unacked: 0,
            echo: None,
            ack_at: Instant::NEVER,
            echo_congestion: false,
            accurate: false,
        }
    }

    /// RCV.NXT: all bytes before it are delivered; a FIN counts as one.
    pub fn rcv_nxt(&self) -> u64 {
        self.rcv_nxt
    }

    /// Removes from the buffer what the application has read by now.
    fn read(&mut self, now: Instant) {
        let Some(rate) = self.read_rate else {
            self.unread = 0;
            return;
        };
        if self.unread == 0 {
            self.read_at = now;
            return;
        }
        let read = rate.bytes_in(now.since(self.read_at)).get().min(self.unread);
        self.unread -= read;
        // Time advances by whole bytes only, so that rounding loses no rate.
        self.read_at = if self.unread == 0 {
            now
        } else {
            self.read_at + Duration::from_nanos(rate.time_to_send(Bytes::new(read)).nanos())
        };
    }

    /// Limits the window to this many bytes from now on, or no longer; wake it to open the window.
    pub fn set_clamp(&mut self, window: Option<Bytes>) {
        self.clamp = window.map(|bytes| bytes.get().max(1));
    }

    /// The window that was advertised last.
    pub fn window(&self) -> Bytes {
        Bytes::new(self.window_edge.saturating_sub(self.rcv_nxt))
    }

    /// A segment echoes when the ACK before it was sent.
    fn measure(&mut self, now: Instant, echo: Option<Instant>) {
        let Some(sent) = echo.filter(|_| self.measured != echo) else {
            return;
        };
        self.measured = echo;
        let sample = now.since(sent);
        let [smoothed, least] = self.round_trip.unwrap_or([sample; 2]);
        let smoothed = smoothed.nanos() - smoothed.nanos() / 8 + sample.nanos() / 8;
        self.round_trip = Some([Duration::from_nanos(smoothed), least.min(sample)]);
    }

    /// The buffer, as far as the clamp allows its use.
    fn room(&self) -> u64 {
        self.clamp.map_or(self.buffer, |clamp| clamp.min(self.buffer))
    }

    /// The free space of the buffer.
    fn free(&self) -> u64 {
        self.room().saturating_sub(self.unread)
    }

    /// The least growth of the window that is advertised: this avoids the silly window syndrome.
    /// Where windows are scaled and a clamp limits them, Linux tells each growth
    /// (`__tcp_select_window`).
    fn window_step(&self) -> u64 {
        if self.clamp.is_some() {
            return 1;
        }
        (2 * self.mss).min(self.room() / 2).max(1)
    }

    /// The right edge to advertise. It never moves left, and moves right by a step at least, unless
    /// the window is closed.
    fn next_edge(&self) -> u64 {
        let open = self.rcv_nxt + self.free();
        if open >= self.window_edge + self.window_step() || self.window_edge < self.rcv_nxt {
            open.max(self.window_edge)
        } else {
            self.window_edge.max(self.rcv_nxt)
        }
    }

    fn send_ack(&mut self, cx: &mut Context<'_>) {
        self.read(cx.now());
        let sack = match self.duplicate.take() {
            _ if !self.sack => [ByteRange::default(); 3],
            Some(duplicate) => [duplicate, self.sack_blocks[0], self.sack_blocks[1]],
            None => self.sack_blocks,
        };
        let blocks = sack.iter().filter(|block| !block.is_empty()).count();
        self.window_edge = self.next_edge();
        let segment = Segment {
            ack: self.rcv_nxt,
            window: self.window_edge - self.rcv_nxt,
            sack,
            flags: match self.accurate {
                true => Flags::counting(self.marked),
                false => Flags {
                    ece: self.echo_congestion,
                    ..Flags::default()
                },
            },
            echo: self.echo.take(),
            ..Segment::default()
        };
        self.acks += 1;
        self.unacked = 0;
        self.ack_at = Instant::NEVER;
        cx.send(SimPacket::new(ack_frame(blocks), Payload::Tcp(segment)));
        self.set_timer(cx);
    }

    /// When a window update will be due; never, if the window is not small.
    fn window_update_at(&self) -> Instant {
        let small = self.window_edge < self.rcv_nxt + self.window_step();
        let (Some(rate), true) = (self.read_rate, small) else {
            return Instant::NEVER;
        };
        let short = (self.window_edge + self.window_step()).saturating_sub(self.rcv_nxt + self.free());
        self.read_at + rate.time_to_send(Bytes::new(short))
    }

    fn set_timer(&self, cx: &mut Context<'_>) {
        match self.ack_at.min(self.window_update_at()) {
            Instant::NEVER => cx.sleep(),
            at => cx.wake_at(at),
        }
    }

    /// Takes a segment's data and FIN.
    fn accept(&mut self, cx: &mut Context<'_>, segment: &Segment) -> AckTiming {
        let mut range = ByteRange::new(segment.seq, segment.seq + u64::from(segment.len));
        if segment.flags.fin {
            self.fin = Some(range.end);
            range.end += 1;
        }
        self.segments += u64::from(segment.len > 0);
        if range.end <= self.rcv_nxt || self.out_of_order.covers(range) {
            self.duplicate_bytes += u64::from(segment.len);
            self.duplicate = Some(range);
            return AckTiming::Now;
        }
        if range.start > self.rcv_nxt {
            self.beyond_holes += 1;
            let whole = self.out_of_order.insert(range);
            self.report(whole);
            return AckTiming::Now;
        }
        self.duplicate_bytes += self.rcv_nxt - range.start;
        let had_holes = !self.out_of_order.is_empty();
        let before = self.rcv_nxt;
        self.rcv_nxt = range.end;
        if had_holes {
            self.out_of_order.trim(range.end);
            self.rcv_nxt = self.out_of_order.take_first(range.end).unwrap_or(range.end);
            let next = self.rcv_nxt;
            self.sack_blocks
                .iter_mut()
                .filter(|block| block.start <= next)
                .for_each(|block| *block = ByteRange::default());
            self.sack_blocks.sort_by_key(|block| block.is_empty());
        }
        let ended = self.fin.is_some_and(|fin| self.rcv_nxt > fin);
        let data = self.rcv_nxt - before - u64::from(ended);
        self.read(cx.now());
        self.unread += if self.read_rate.is_some() { data } else { 0 };
        self.unacked += data;
        cx.deliver(Bytes::new(data));
        if ended {
            self.finished = self.finished.or(Some(cx.now()));
        }
        if had_holes || ended || segment.flags.push || !self.delayed_ack {
            AckTiming::Now
        } else if self.unacked < 2 * self.mss {
            AckTiming::Delayed
        } else if self.ack_per_batch {
            AckTiming::AfterBatch
        } else {
            AckTiming::Now
        }
    }

    /// Reports this block first.
    fn report(&mut self, latest: ByteRange) {
        let mut blocks = [latest, ByteRange::default(), ByteRange::default()];
        let others = self
            .sack_blocks
            .iter()
            .filter(|block| !block.is_empty() && (block.end < latest.start || block.start > latest.end));
        for (block, other) in blocks[1..].iter_mut().zip(others) {
            *block = *other;
        }
        self.sack_blocks = blocks;
    }

    fn send_syn_ack(&mut self, cx: &mut Context<'_>, syn: &SimPacket, flags: Flags) {
        self.read_at = cx.now();
        self.accurate = flags.ae;
        self.window_edge = self.window_edge.max(self.room());
        let syn_ack = Segment {
            window: self.window_edge,
            flags: Flags {
                syn: true,
                ece: flags.ece && self.ecn && !self.accurate,
                // No SYN was marked: CWR alone (RFC 9768, section 3.1.2).
                cwr: self.accurate,
                ..Flags::default()
            },
            echo: Some(syn.sent),
            ..Segment::default()
        };
        cx.send(SimPacket::new(syn_frame(), Payload::Tcp(syn_ack)));
    }
}

impl Agent for TcpReceiver {
    fn wake(&mut self, cx: &mut Context<'_>) {
        if self.ack_at <= cx.now() {
            self.send_ack(cx);
            return;
        }
        self.read(cx.now());
        if self.next_edge() > self.window_edge {
            self.send_ack(cx);
        } else {
            self.set_timer(cx);
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>, packet: &SimPacket) {
        let Payload::Tcp(segment) = &packet.payload else {
            return;
        };
        self.frames += packet.frame;
        self.measure(cx.now(), segment.echo);
        if segment.flags.syn {
            self.send_syn_ack(cx, packet, segment.flags);
            return;
        }
        if segment.flags.cwr && !self.accurate {
            self.echo_congestion = false;
        }
        let marked = packet.ecn == Ecn::Ce;
        let first_mark = marked && !self.echo_congestion;
        self.marked += u64::from(marked);
        self.echo_congestion = marked || (self.echo_congestion && !self.accurate);
        if segment.len == 0 && !segment.flags.fin {
            return;
        }
        let beyond = segment.seq > self.rcv_nxt || !self.out_of_order.is_empty();
        if beyond || self.echo.is_none() {
            self.echo = Some(packet.sent);
        }
        let due = match self.accept(cx, segment) {
            AckTiming::Delayed if !first_mark => cx.now() + DELAYED_ACK,
            // The timer expires after all that arrives at this time.
            AckTiming::AfterBatch if !first_mark => cx.now(),
            _ => return self.send_ack(cx),
        };
        self.ack_at = self.ack_at.min(due);
        self.set_timer(cx);
    }
}
