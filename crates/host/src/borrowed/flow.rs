//! One borrowed connection: its counters and its limits.

use crate::guest_link::GuestLink;
use crate::ledger::{Ledger, LedgerEntry, SavedOptions};
use crate::order::{FlowLimit, LimitOrder, payload_rate};
use crate::sys::socket::{self, Info, RECEIVE_LOCK};
use crate::tick::{ConnectionId, DataDirection, FlowSample, MemberId, on_the_link};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use netio::clock;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Bytes by which an IPv6 header is longer than an IPv4 header.
const V6: u64 = 20;

/// The least payload of a full segment that is taken for one (RFC 9293, section 3.7.1).
const LEAST_MSS: u32 = 536;

/// How long an open connection waits for its first order. The laws order at each tick.
const OPENING: Duration = Duration::from_millis(250);

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct BorrowedFlow {
    pub(crate) pid: i32,
    pub(crate) fd: i32,
    pub(crate) inode: u64,
    pub(crate) born: Instant,
    /// Its two ends, once it has both.
    pub(crate) ends: Option<[SocketAddr; 2]>,
    /// It is in another network namespace.
    is_guest: bool,
    /// Its link, if so, once it has both ends.
    link: Option<GuestLink>,
    pub(crate) info: Info,
    /// Since when it is missing from its process and descriptor.
    pub(crate) missing_since: Option<Instant>,
    /// It was limited before its SYN, by a small buffer or window, and has no order yet. Since when
    /// it can carry data.
    opening: Option<Option<Instant>>,
    /// Its limit, by direction.
    pub(crate) limits: [FlowLimit; 2],
    read: bool,
    read_at: Instant,
    arrivals: Arrivals,
    received: Bytes,
    sent: Bytes,
    saved: SavedOptions,
    slot: Option<u64>,
    /// The clamp that is in force with the buffer locked.
    clamped: Option<u32>,
}

fn index(direction: DataDirection) -> usize {
    match direction {
        DataDirection::Download => 0,
        DataDirection::Upload => 1,
    }
}

impl BorrowedFlow {
    pub(crate) fn new(pid: i32, fd: i32, inode: u64, born: Instant) -> Self {
        Self {
            pid,
            fd,
            inode,
            born,
            ends: None,
            is_guest: false,
            link: None,
            info: Info::default(),
            missing_since: None,
            opening: None,
            limits: [FlowLimit::Free; 2],
            read: false,
            read_at: born,
            arrivals: Arrivals::default(),
            received: Bytes::ZERO,
            sent: Bytes::ZERO,
            saved: SavedOptions::default(),
            slot: None,
            clamped: None,
        }
    }

    /// The same in another network namespace, or not.
    pub(crate) fn guest(mut self, is_guest: bool) -> Self {
        self.is_guest = is_guest;
        self
    }

    /// The link of one in another network namespace, once it is known.
    pub(crate) fn link(&self) -> Option<&GuestLink> {
        self.link.as_ref()
    }

    /// Whether the socket has modified options.
    pub(crate) fn is_modified(&self) -> bool {
        self.slot.is_some()
    }

    /// Whether it can carry data: established, or closed by the peer only.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.info.state, socket::ESTABLISHED | socket::CLOSE_WAIT)
    }

    /// Limits it before its SYN, so that its first window is this: a window that was told cannot
    /// be taken back. The buffer does not determine the window scale, as the clamp does.
    pub(crate) fn open_with(
        &mut self,
        of: &OwnedFd,
        id: ConnectionId,
        window: u32,
        ledger: &mut Ledger,
    ) -> io::Result<()> {
        self.saved.lock = Some(socket::lock(of)?);
        self.saved.buffer = Some(socket::receive_buffer(of)?);
        self.save(id, ledger)?;
        self.opening = Some(None);
        self.limits[0] = FlowLimit::Window(Bytes::new(u64::from(window)));
        socket::set_receive_buffer(of, window)
    }

    /// Whether it was limited before its SYN, and has no order yet.
    pub(crate) fn awaits_first_order(&self) -> bool {
        self.opening.is_some()
    }

    /// Whether it was limited before its SYN, and no order has come in time: it uses no link.
    pub(crate) fn opens_in_vain(&self, at: Instant) -> bool {
        let since = self.opening.flatten();
        since.is_some_and(|since| at.since(since) > OPENING)
    }

    /// Whether it carries nothing more, or nothing yet and is not about to.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.info.state, socket::TIME_WAIT | socket::CLOSED)
    }

    /// Reads TCP_INFO and counts what has been carried since the last reading.
    pub(crate) fn update(&mut self, of: &OwnedFd) -> io::Result<()> {
        let (info, at) = clock::timed(|| socket::info(of));
        let info = info?;
        self.read_at = at;
        if self.ends.is_none() && info.state != socket::SYN_SENT {
            let [local, remote] = socket::ends(of);
            self.ends = local.zip(remote).map(|(local, remote)| [local, remote]);
            if let Some([local, remote]) = self.ends.filter(|_| self.is_guest) {
                self.link = Some(GuestLink::of(self.pid, local.ip(), remote.ip()));
            }
        }
        // The first reading counts the whole past of a connection that ran before nine did. The
        // law's meter corrects for that.
        let before = if self.read { self.info } else { Info::default() };
        let segments = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
        let payload = self.arrivals.between(&before, &info);
        let segments_in = segments(info.segments_in, before.segments_in);
        let segments_out = segments(info.segments_out, before.segments_out);
        let sent = Bytes::new(info.bytes_sent.saturating_sub(before.bytes_sent));
        self.received += self.frames(segments_in, payload);
        self.sent += self.frames(segments_out, sent);
        (self.info, self.read) = (info, true);
        if self.opening == Some(None) && self.is_open() {
            self.opening = Some(Some(at));
        }
        Ok(())
    }

    /// Segments and their payload as frames of the link.
    fn frames(&self, segments: u64, payload: Bytes) -> Bytes {
        let is_ipv6 = self.ends.is_some_and(|ends| ends[0].is_ipv6());
        on_the_link(segments, payload) + Bytes::new(u64::from(is_ipv6) * V6).times(segments)
    }

    /// The payload of a full segment that it sends.
    fn send_mss(&self) -> u64 {
        u64::from(self.info.send_mss.max(LEAST_MSS))
    }

    /// What of the data sent is on its way, or was lost, as frames of the link.
    fn unacknowledged(&self) -> Bytes {
        let mss = self.send_mss();
        let arrived = self.info.bytes_acked + u64::from(self.info.sacked) * mss;
        let payload = self.info.bytes_sent.saturating_sub(arrived);
        self.frames(payload.div_ceil(mss), Bytes::new(payload))
    }

    /// A sample for the law.
    pub(crate) fn sample(&self, id: ConnectionId, member: MemberId) -> FlowSample {
        let info = &self.info;
        let receives = info.bytes_received >= info.bytes_sent;
        let (rtt, mss) = match (receives, info.receive_rtt) {
            (true, us @ 1..) => (us, info.receive_mss),
            (true, 0) => (info.send_rtt, info.receive_mss),
            (false, _) => (info.send_rtt, info.send_mss),
        };
        FlowSample {
            id,
            member,
            at: self.read_at,
            received: self.received,
            sent: self.sent,
            unacknowledged: self.unacknowledged(),
            rtt: (rtt > 0).then(|| Duration::from_micros(u64::from(rtt))),
            min_rtt: (1..u32::MAX)
                .contains(&info.min_rtt)
                .then(|| Duration::from_micros(u64::from(info.min_rtt))),
            mss: Bytes::new(u64::from(mss.max(LEAST_MSS))),
            scale: info.receive_scale,
            window: Bytes::new(u64::from(info.window)),
            losses: u64::from(if receives {
                info.out_of_order
            } else {
                info.retransmissions
            }),
        }
    }

    /// Whether this order is in force already, as far as the last reading shows. Then there is
    /// nothing to do.
    pub(crate) fn is_in_force(&self, order: &LimitOrder) -> bool {
        let clamped =
            |bytes: u32| self.clamped == Some(bytes.max(LEAST)) && self.info.rcv_ssthresh <= bytes.max(LEAST);
        match order.limit {
            FlowLimit::Free => !self.is_modified() || self.limits[index(order.direction)] == FlowLimit::Free,
            FlowLimit::Window(bytes) => clamped(u32::try_from(bytes.get()).unwrap_or(u32::MAX)),
            FlowLimit::Parked if order.direction == DataDirection::Download => clamped(1),
            FlowLimit::Parked | FlowLimit::Pace(_) => false,
        }
    }

    /// Records an order that is in force already.
    pub(crate) fn record(&mut self, order: &LimitOrder) {
        self.limits[index(order.direction)] = order.limit;
        self.opening = self.opening.filter(|_| order.direction == DataDirection::Upload);
    }

    /// Puts an order into effect, also what the kernel has undone of it.
    pub(crate) fn carry_out(
        &mut self,
        of: &OwnedFd,
        id: ConnectionId,
        order: &LimitOrder,
        ledger: &mut Ledger,
    ) -> io::Result<()> {
        let index = index(order.direction);
        let before = self.limits[index];
        self.limits[index] = order.limit;
        self.opening = self.opening.filter(|_| order.direction == DataDirection::Upload);
        match order.limit {
            FlowLimit::Free if self.is_modified() && before != FlowLimit::Free => {
                self.lift(of, order.direction, ledger, id)
            }
            FlowLimit::Free => Ok(()),
            FlowLimit::Window(bytes) => {
                self.clamp(of, id, u32::try_from(bytes.get()).unwrap_or(u32::MAX), ledger)
            }
            // The kernel raises it to the smallest window that it can do.
            FlowLimit::Parked if order.direction == DataDirection::Download => self.clamp(of, id, 1, ledger),
            FlowLimit::Parked => self.pace(of, id, Bandwidth::kbit(8), ledger),
            FlowLimit::Pace(rate) => self.pace(of, id, rate, ledger),
        }
    }

    /// Reasserts the last window that was ordered, where the kernel has undone it.
    pub(crate) fn assert_window(
        &mut self,
        of: &OwnedFd,
        id: ConnectionId,
        ledger: &mut Ledger,
    ) -> io::Result<()> {
        match self.limits[0] {
            FlowLimit::Window(bytes) => {
                self.clamp(of, id, u32::try_from(bytes.get()).unwrap_or(u32::MAX), ledger)
            }
            FlowLimit::Parked => self.clamp(of, id, 1, ledger),
            FlowLimit::Free | FlowLimit::Pace(_) => Ok(()),
        }
    }

    /// Clamps the window. The kernel drops the clamp when it enlarges the buffer, so the buffer is
    /// locked while it has room for the window. A larger window needs a larger buffer, which the
    /// kernel's auto-tuning provides in time: meanwhile the clamp is reasserted.
    fn clamp(&mut self, of: &OwnedFd, id: ConnectionId, bytes: u32, ledger: &mut Ledger) -> io::Result<()> {
        let wanted = bytes.max(LEAST);
        if self.saved.lock.is_none() {
            // A kernel without locks undoes clamps more often: they are reasserted at each tick.
            self.saved.lock = Some(socket::lock(of).unwrap_or(0));
            self.save(id, ledger)?;
        }
        if let Some(buffer) = self.saved.buffer {
            // It was small for the first window. From here on the clamp limits.
            socket::set_receive_buffer(of, buffer / 2)?;
            self.saved.buffer = None;
            self.save(id, ledger)?;
        }
        let own = self.saved.lock.unwrap_or(0);
        let fits = bytes <= socket::receive_buffer(of)? / 2;
        let lock = if fits { own | RECEIVE_LOCK } else { own };
        if socket::lock(of).is_ok_and(|now| now != lock) {
            socket::set_lock(of, lock)?;
        }
        let rcv_ssthresh = socket::info(of)?.rcv_ssthresh;
        let now = socket::clamp(of)?;
        if now == wanted && rcv_ssthresh > wanted {
            // Setting the present value has no effect, not even on a `rcv_ssthresh` above it.
            socket::set_clamp(of, wanted + (1 << 14))?;
        }
        if now != wanted || rcv_ssthresh > wanted {
            socket::set_clamp(of, wanted)?;
        }
        self.clamped = fits.then_some(wanted);
        Ok(())
    }

    fn pace(
        &mut self,
        of: &OwnedFd,
        id: ConnectionId,
        rate: Bandwidth,
        ledger: &mut Ledger,
    ) -> io::Result<()> {
        if self.saved.pacing.is_none() {
            self.saved.pacing = Some(socket::pacing(of)?);
            self.save(id, ledger)?;
        }
        let payload = Bytes::new(self.send_mss());
        let bytes = payload_rate(rate, payload, self.frames(1, payload));
        if socket::pacing(of)? == bytes {
            return Ok(());
        }
        socket::set_pacing(of, bytes)
    }

    /// Lifts the limit in one direction.
    fn lift(
        &mut self,
        of: &OwnedFd,
        direction: DataDirection,
        ledger: &mut Ledger,
        id: ConnectionId,
    ) -> io::Result<()> {
        let undo = match direction {
            DataDirection::Download => SavedOptions {
                lock: self.saved.lock.take(),
                buffer: self.saved.buffer.take(),
                pacing: None,
            },
            DataDirection::Upload => SavedOptions {
                lock: None,
                buffer: None,
                pacing: self.saved.pacing.take(),
            },
        };
        self.clamped = self.clamped.filter(|_| direction == DataDirection::Upload);
        undo.restore(of)?;
        if self.saved == SavedOptions::default() {
            self.strike_off(ledger);
            return Ok(());
        }
        self.save(id, ledger)
    }

    /// Lifts all limits.
    pub(crate) fn release(&mut self, of: &OwnedFd, ledger: &mut Ledger) -> io::Result<()> {
        self.limits = [FlowLimit::Free; 2];
        self.opening = None;
        self.clamped = None;
        std::mem::take(&mut self.saved).restore(of)?;
        self.strike_off(ledger);
        Ok(())
    }

    /// Strikes it off the ledger: it is restored, or gone.
    pub(crate) fn strike_off(&mut self, ledger: &mut Ledger) {
        if let Some(slot) = self.slot.take() {
            ledger.strike(slot);
        }
    }

    /// It was found again, in another process or under another descriptor.
    pub(crate) fn found_at(&mut self, id: ConnectionId, pid: i32, fd: i32, ledger: &mut Ledger) {
        (self.pid, self.fd, self.missing_since) = (pid, fd, None);
        if self.is_modified() {
            // Its entry exists, so the write does not fail.
            let _ = self.save(id, ledger);
        }
    }

    fn save(&mut self, id: ConnectionId, ledger: &mut Ledger) -> io::Result<()> {
        let entry = LedgerEntry {
            pid: self.pid,
            fd: self.fd,
            cookie: id.0,
            saved: self.saved,
        };
        self.slot = Some(ledger.write(self.slot, &entry)?);
        Ok(())
    }
}

/// The kernel's lower limit of a clamp on common machines. Where it is higher, reading the clamp
/// back shows it.
const LEAST: u32 = 1_152;

/// Counts the payload that has arrived on a connection, out-of-order segments included. Without
/// them, a sequence hole would look like other traffic, and its filling like the end of it.
///
/// While there is a hole, segments are counted instead of bytes, each at this connection's mean
/// length so far (some virtual interfaces count a super-frame as one segment). What was counted
/// ahead is subtracted when it becomes in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Arrivals {
    /// Bytes counted and not in order yet.
    ahead: u64,
}

impl Arrivals {
    fn between(&mut self, before: &Info, now: &Info) -> Bytes {
        let in_order = now.bytes_received.saturating_sub(before.bytes_received);
        let fresh = in_order.saturating_sub(self.ahead);
        let bytes = if now.out_of_order == before.out_of_order {
            fresh
        } else {
            let segments = u64::from(now.data_segments_in.wrapping_sub(before.data_segments_in));
            let longest = u64::from(now.receive_mss.max(LEAST_MSS));
            let usual = before
                .bytes_received
                .checked_div(u64::from(before.data_segments_in));
            fresh.max(segments * usual.unwrap_or(longest).max(longest))
        };
        self.ahead = (self.ahead + bytes).saturating_sub(in_order);
        Bytes::new(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(segments: u32, bytes: u64, out_of_order: u32) -> Info {
        Info {
            data_segments_in: segments,
            bytes_received: bytes,
            out_of_order,
            receive_mss: 1448,
            ..Info::default()
        }
    }

    /// The counts from each reading to the next.
    fn counted(readings: &[Info]) -> Vec<u64> {
        let mut arrivals = Arrivals::default();
        let mut before = Info::default();
        let count = |now: &Info| arrivals.between(&std::mem::replace(&mut before, *now), now).get();
        readings.iter().map(count).collect()
    }

    #[test]
    fn out_of_order_data_count_once() {
        const MSS: u64 = 1448;
        let readings = [
            info(10, 10 * MSS, 0),
            info(30, 10 * MSS, 20),
            // The hole is filled and another one opens at once.
            info(41, 36 * MSS, 25),
            info(50, 50 * MSS, 25),
        ];
        assert_eq!(counted(&readings), [10 * MSS, 20 * MSS, 11 * MSS, 9 * MSS]);
    }

    #[test]
    fn in_order_data_count_by_bytes_in_short_segments_and_super_frames() {
        let readings = [info(20, 1_000, 0), info(21, 7_000, 0)];
        assert_eq!(counted(&readings), [1_000, 6_000]);
    }
}
