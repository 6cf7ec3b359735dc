//! One connection of another program: what it has carried, and how it is held now.

use super::ledger::{Entry, Former, Ledger};
use crate::order::{Hold, Order, Why};
use crate::reading::{Direction, FlowId, FlowReading, MemberId, on_the_link};
use crate::sys::socket::{self, Info, RECEIVE_LOCK};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use netio::clock;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// What IPv6 has more than IPv4 in each packet.
const V6: u64 = 20;

/// A connection's place, and what is known of it.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) pid: i32,
    pub(crate) fd: i32,
    pub(crate) inode: u64,
    pub(crate) born: Instant,
    /// Its two ends, once it has both.
    pub(crate) ends: Option<[SocketAddr; 2]>,
    pub(crate) info: Info,
    /// Since when it was not found where it was.
    pub(crate) lost: Option<Instant>,
    /// How it is held, and why, by direction.
    pub(crate) held: [(Hold, Why); 2],
    read: bool,
    read_at: Instant,
    arrivals: Arrivals,
    received: Bytes,
    sent: Bytes,
    former: Former,
    place: Option<u64>,
    /// The window that it was made to keep, with the buffer locked.
    kept: Option<u32>,
}

fn index(direction: Direction) -> usize {
    match direction {
        Direction::Download => 0,
        Direction::Upload => 1,
    }
}

impl Flow {
    pub(crate) fn new(pid: i32, fd: i32, inode: u64, born: Instant) -> Self {
        Self {
            pid,
            fd,
            inode,
            born,
            ends: None,
            info: Info::default(),
            lost: None,
            held: [(Hold::Free, Why::LinkIsFree); 2],
            read: false,
            read_at: born,
            arrivals: Arrivals::default(),
            received: Bytes::ZERO,
            sent: Bytes::ZERO,
            former: Former::default(),
            place: None,
            kept: None,
        }
    }

    /// Whether anything was done to the socket that is to be undone.
    pub(crate) fn is_touched(&self) -> bool {
        self.place.is_some()
    }

    /// Whether it can load the link: established, or half closed.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.info.state, socket::ESTABLISHED | socket::CLOSE_WAIT)
    }

    /// Takes what the kernel says, and counts what has been carried since the last time.
    pub(crate) fn take(&mut self, of: &OwnedFd) -> io::Result<()> {
        let (info, at) = clock::timed(|| socket::info(of));
        let info = info?;
        self.read_at = at;
        if self.ends.is_none() && info.state != socket::SYN_SENT {
            let [local, remote] = socket::ends(of);
            self.ends = local.zip(remote).map(|(local, remote)| [local, remote]);
        }
        let more = u64::from(self.ends.is_some_and(|ends| ends[0].is_ipv6())) * V6;
        // A connection that was taken over while it ran has carried all that it says; see the law's meter.
        let before = if self.read { self.info } else { Info::default() };
        let segments = |now: u32, before: u32| u64::from(now.wrapping_sub(before));
        let arrived = self.arrivals.between(&before, &info);
        let came = segments(info.segments_in, before.segments_in);
        let went = segments(info.segments_out, before.segments_out);
        let sent = Bytes::new(info.bytes_sent.saturating_sub(before.bytes_sent));
        self.received += on_the_link(came, arrived) + Bytes::new(more).times(came);
        self.sent += on_the_link(went, sent) + Bytes::new(more).times(went);
        (self.info, self.read) = (info, true);
        Ok(())
    }

    /// As the law wants it.
    pub(crate) fn reading(&self, id: FlowId, member: MemberId) -> FlowReading {
        let info = &self.info;
        let receives = info.bytes_received >= info.bytes_sent;
        let (rtt, mss) = match (receives, info.receive_rtt) {
            (true, us @ 1..) => (us, info.receive_mss),
            (true, 0) => (info.send_rtt, info.receive_mss),
            (false, _) => (info.send_rtt, info.send_mss),
        };
        FlowReading {
            id,
            member,
            at: self.read_at,
            received: self.received,
            sent: self.sent,
            rtt: (rtt > 0).then(|| Duration::from_micros(u64::from(rtt))),
            shortest: (1..u32::MAX)
                .contains(&info.shortest_rtt)
                .then(|| Duration::from_micros(u64::from(info.shortest_rtt))),
            mss: Bytes::new(u64::from(mss.max(536))),
            scale: info.receive_scale,
            window: Bytes::new(u64::from(info.window)),
        }
    }

    /// Whether the kernel has kept to this order since it was carried out, as far as the last reading says: then there is nothing
    /// to do.
    pub(crate) fn keeps_to(&self, order: &Order) -> bool {
        let kept = |bytes: u32| {
            self.kept == Some(bytes.max(LEAST)) && self.info.receive_threshold <= bytes.max(LEAST)
        };
        match order.hold {
            Hold::Free => !self.is_touched() || self.held[index(order.direction)].0 == Hold::Free,
            Hold::Window(bytes) => kept(u32::try_from(bytes.get()).unwrap_or(u32::MAX)),
            Hold::Parked if order.direction == Direction::Download => kept(1),
            Hold::Parked | Hold::Pace(_) => false,
        }
    }

    /// Says how and why it is held now, where nothing is to be done about it.
    pub(crate) fn note(&mut self, order: &Order) {
        self.held[index(order.direction)] = (order.hold, order.why);
    }

    /// Does what was ordered, and again whatever the kernel has undone of it.
    pub(crate) fn hold(
        &mut self,
        of: &OwnedFd,
        id: FlowId,
        order: &Order,
        ledger: &mut Ledger,
    ) -> io::Result<()> {
        let slot = index(order.direction);
        let before = self.held[slot].0;
        self.held[slot] = (order.hold, order.why);
        match order.hold {
            Hold::Free if self.is_touched() && before != Hold::Free => {
                self.let_go(of, order.direction, ledger, id)
            }
            Hold::Free => Ok(()),
            Hold::Window(bytes) => self.clamp(of, id, u32::try_from(bytes.get()).unwrap_or(u32::MAX), ledger),
            // The kernel makes it the smallest window that it can.
            Hold::Parked if order.direction == Direction::Download => self.clamp(of, id, 1, ledger),
            Hold::Parked => self.pace(of, id, Bandwidth::kbit(8), ledger),
            Hold::Pace(rate) => self.pace(of, id, rate, ledger),
        }
    }

    /// Does again whatever the kernel has undone of the last window that was ordered.
    pub(crate) fn assert_window(&mut self, of: &OwnedFd, id: FlowId, ledger: &mut Ledger) -> io::Result<()> {
        match self.held[0].0 {
            Hold::Window(bytes) => self.clamp(of, id, u32::try_from(bytes.get()).unwrap_or(u32::MAX), ledger),
            Hold::Parked => self.clamp(of, id, 1, ledger),
            Hold::Free | Hold::Pace(_) => Ok(()),
        }
    }

    /// Limits the window. The kernel undoes this when it enlarges the buffer, so the buffer's size is locked while the window
    /// is below what the buffer has room for. A larger window needs a larger buffer, which the kernel makes in its own time:
    /// then the clamp is a lid that is put on again and again.
    fn clamp(&mut self, of: &OwnedFd, id: FlowId, bytes: u32, ledger: &mut Ledger) -> io::Result<()> {
        let wanted = bytes.max(LEAST);
        if self.former.lock.is_none() {
            // A kernel without locks undoes clamps more often, and is told again at each tick.
            self.former.lock = Some(socket::lock(of).unwrap_or(0));
            self.write(id, ledger)?;
        }
        let own = self.former.lock.unwrap_or(0);
        let fits = bytes <= socket::receive_buffer(of)? / 2;
        let lock = if fits { own | RECEIVE_LOCK } else { own };
        if socket::lock(of).is_ok_and(|now| now != lock) {
            socket::set_lock(of, lock)?;
        }
        let threshold = socket::info(of)?.receive_threshold;
        let now = socket::clamp(of)?;
        if now == wanted && threshold > wanted {
            // Setting what is set already changes nothing, also not the threshold that has outgrown it.
            socket::set_clamp(of, wanted + (1 << 14))?;
        }
        if now != wanted || threshold > wanted {
            socket::set_clamp(of, wanted)?;
        }
        self.kept = fits.then_some(wanted);
        Ok(())
    }

    fn pace(&mut self, of: &OwnedFd, id: FlowId, rate: Bandwidth, ledger: &mut Ledger) -> io::Result<()> {
        if self.former.pacing.is_none() {
            self.former.pacing = Some(socket::pacing(of)?);
            self.write(id, ledger)?;
        }
        let bytes = (rate.bits() / 8).max(1);
        if socket::pacing(of)? == bytes {
            return Ok(());
        }
        socket::set_pacing(of, bytes)
    }

    /// Undoes what was done in one direction.
    fn let_go(
        &mut self,
        of: &OwnedFd,
        direction: Direction,
        ledger: &mut Ledger,
        id: FlowId,
    ) -> io::Result<()> {
        let undo = match direction {
            Direction::Download => Former {
                lock: self.former.lock.take(),
                pacing: None,
            },
            Direction::Upload => Former {
                lock: None,
                pacing: self.former.pacing.take(),
            },
        };
        self.kept = self.kept.filter(|_| direction == Direction::Upload);
        undo.restore(of)?;
        if self.former == Former::default() {
            self.forget(ledger);
            return Ok(());
        }
        self.write(id, ledger)
    }

    /// Undoes everything.
    pub(crate) fn release(&mut self, of: &OwnedFd, ledger: &mut Ledger) -> io::Result<()> {
        self.held = [(Hold::Free, Why::LinkIsFree); 2];
        self.kept = None;
        std::mem::take(&mut self.former).restore(of)?;
        self.forget(ledger);
        Ok(())
    }

    /// Takes it off the ledger: it is undone, or gone.
    pub(crate) fn forget(&mut self, ledger: &mut Ledger) {
        if let Some(place) = self.place.take() {
            ledger.strike(place);
        }
    }

    /// It is found in another process, or under another number.
    pub(crate) fn moved(&mut self, id: FlowId, pid: i32, fd: i32, ledger: &mut Ledger) {
        (self.pid, self.fd, self.lost) = (pid, fd, None);
        if self.is_touched() {
            // The entry is there already, and the file takes it.
            let _ = self.write(id, ledger);
        }
    }

    fn write(&mut self, id: FlowId, ledger: &mut Ledger) -> io::Result<()> {
        let entry = Entry {
            pid: self.pid,
            fd: self.fd,
            cookie: id.0,
            former: self.former,
        };
        self.place = Some(ledger.write(self.place, &entry)?);
        Ok(())
    }
}

/// The kernel's lower limit of a clamp, on common machines. Where it is higher, the kernel says so by what it sets.
const LEAST: u32 = 1_152;

/// Payload that has arrived on a connection, lost segments' followers included, which are not in order yet: a hole would
/// otherwise look as if others had used the link, and its filling as if they had stopped.
///
/// While a hole is open, segments are counted, each as long as this connection's were so far (a super-frame of some
/// virtual interfaces counts as one); what was counted so is taken off what then becomes in order all at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Arrivals {
    /// Counted, and not in order yet.
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
            let longest = u64::from(now.receive_mss.max(536));
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

    /// What is counted from each reading to the next.
    fn counted(readings: &[Info]) -> Vec<u64> {
        let mut arrivals = Arrivals::default();
        let mut before = Info::default();
        let count = |now: &Info| arrivals.between(&std::mem::replace(&mut before, *now), now).get();
        readings.iter().map(count).collect()
    }

    #[test]
    fn a_hole_hides_nothing_and_its_filling_adds_nothing_twice() {
        const MSS: u64 = 1448;
        let readings = [
            info(10, 10 * MSS, 0),
            info(30, 10 * MSS, 20),
            // Filled, and another one opens at once.
            info(41, 36 * MSS, 25),
            info(50, 50 * MSS, 25),
        ];
        assert_eq!(counted(&readings), [10 * MSS, 20 * MSS, 11 * MSS, 9 * MSS]);
    }

    #[test]
    fn what_is_in_order_counts_by_its_bytes_in_short_segments_and_in_super_frames() {
        let readings = [info(20, 1_000, 0), info(21, 7_000, 0)];
        assert_eq!(counted(&readings), [1_000, 6_000]);
    }
}
