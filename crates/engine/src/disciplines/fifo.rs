//! `fifo`: first in, first out, with tail drop. The template for new disciplines.
//!
//! Follows the FIFOQ of ALTQ (Cho 1999, section 4.1.4): one list, a limit in packets, and tail
//! drop. Departures: a second limit in bytes, since a packet may be 40 or 65,000 bytes long, and
//! drop from the head as an option, which signals congestion one queue earlier (Lakshman, Neidhardt
//! and Ott, "The drop from front strategy in TCP and in TCP over ATM", 1996).
//!
//! One thing here is not for other disciplines: as most leaves are FIFOs,
//! [`Queue`](crate::queue::Queue) keeps one in its own memory and calls it directly. So it pins its
//! oldest packet itself, and can be prefetched in two steps.

use crate::bounds::{ArrivalCurve, Bound, RateLatency, Terms, WorstCase};
use crate::discipline::{Build, Discipline, Next, Outlet, Plan, Reason, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties};
use crate::packet::Packet;
use crate::portion::Portion;
use crate::prefetch::Prefetched;
use crate::settings::Problem;
use crate::stats::Count;
use crate::structures::packet_ring::PacketRing;
use crate::units::{Bandwidth, Bytes, Instant};
use crate::{choices, settings};
use std::any::Any;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "fifo",
    summary: "First in, first out, with a limit: the plain queue of every interface",
    reference: "Cho, \"Traffic management by alternate queueing\", 1999, section 4.1.4",
    children: Children::None,
    settings: Settings::SETTINGS,
    class_settings: &[],
    properties: Properties {
        keeps_order: true,
        conserves_work: true,
        follows_any_rate: true,
        isolates: true,
        elsewhere: &["pfifo", "bfifo", "droptail", "fifoq"],
        takes_over: true,
        ..Properties::NONE
    },
    check,
};

choices! {
    /// Which packet is dropped when the queue is full.
    pub enum DropFrom {
        /// The arriving one.
        Tail = "tail",
        /// The oldest one.
        Head = "head",
    }
}

settings! {
    /// Settings of `fifo`.
    pub struct Settings {
        /// Packets queued at most
        limit: u32 = default "100",
            "too small: bursts are dropped and the link idles; too large: queueing delay for nothing",
            "about 10 ms of full frames at 100 Mbit/s; ALTQ queued 50";
        /// Bytes queued at most
        limit_bytes: Bytes = derived "no limit in bytes",
            "as limit; the better limit where packets differ in length",
            "ALTQ counted packets only";
        /// Which packet is dropped when a limit is reached
        drop: DropFrom = default "tail",
            "head: senders learn of congestion sooner, and what is delivered is fresher",
            "the plain FIFO";
    }
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let settings = Settings::read(check.settings, &[], check.problems)?;
    let at = |key: &str| check.settings.place(key);
    if settings.limit == 0 {
        check.problems.push(Problem::new(
            at("limit"),
            "`limit` must be at least 1: a queue of 0 drops every packet",
        ));
        return None;
    }
    if settings.limit_bytes.is_some_and(|limit| limit < check.link.mtu) {
        let message = format!("`limit_bytes` is less than one full packet ({})", check.link.mtu);
        check.problems.push(Problem::new(at("limit_bytes"), message));
        return None;
    }
    Some(Arc::new(settings))
}

impl Plan for Settings {
    /// A packet is delayed by the queue's limit and by the device's ring at most, whatever senders
    /// do.
    fn bounds(&self, terms: &Terms<'_>) -> Vec<WorstCase> {
        let packets = terms.longest.times(self.limit.into());
        let held = self.limit_bytes.map_or(packets, |bytes| bytes.min(packets));
        let senders = ArrivalCurve {
            rate: Bandwidth::ZERO,
            burst: held,
        };
        let bound = RateLatency::after(terms.ahead.get().into(), terms.link.bandwidth).bound(senders);
        // Its limit drops what is more, so its senders need no arrival curve.
        let bound = bound.map(|bound| Bound {
            arrivals: None,
            shortest: terms.shortest,
            ..bound
        });
        let bound = bound.ok_or_else(|| "the time does not fit".into());
        vec![WorstCase { class: None, bound }]
    }

    fn build(&self, _cx: &Build) -> Box<dyn Discipline> {
        Box::new(Fifo::new(self))
    }
}

/// Stands for no limit in bytes.
const NO_LIMIT: Bytes = Bytes::new(u64::MAX);

/// The oldest packet is kept apart: with very many queues, the others' memory is prefetched when it
/// leaves, and is needed one packet later. It is last, as a packet that joins others does not need
/// it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Fifo {
    bytes: Bytes,
    packets: u32,
    limit: u32,
    limit_bytes: Bytes,
    /// All but the oldest.
    others: PacketRing,
    drop: DropFrom,
    /// The oldest stays for the next `take`: limits do not count it, and nothing else removes it.
    pinned: bool,
    /// The next packet that is the oldest is pinned, as where it was.
    pins: bool,
    /// If there are any.
    oldest: Packet,
}

impl Fifo {
    fn new(settings: &Settings) -> Self {
        Self {
            others: PacketRing::default(),
            bytes: Bytes::ZERO,
            packets: 0,
            limit: settings.limit,
            limit_bytes: settings.limit_bytes.unwrap_or(NO_LIMIT),
            oldest: Packet::NONE,
            drop: settings.drop,
            pinned: false,
            pins: false,
        }
    }

    fn adopt(&mut self, settings: &Settings) {
        self.limit = settings.limit;
        self.drop = settings.drop;
        self.limit_bytes = settings.limit_bytes.unwrap_or(NO_LIMIT);
    }

    /// Packets queued, a pinned one included.
    #[inline]
    pub(crate) fn packets(&self) -> u32 {
        self.packets
    }

    /// Their bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// What the limits count.
    #[inline]
    fn counted(&self) -> (u32, Bytes) {
        match self.pinned {
            false => (self.packets, self.bytes),
            true => (self.packets - 1, self.bytes - self.oldest.len),
        }
    }

    #[inline]
    pub(crate) fn fits(&self, len: Bytes) -> bool {
        let (packets, bytes) = self.counted();
        packets < self.limit && bytes + len <= self.limit_bytes
    }

    /// Whether so many packets fit, of so many bytes together.
    fn fit(&self, more: u32, len: Bytes) -> bool {
        let (packets, bytes) = self.counted();
        more <= self.limit.saturating_sub(packets) && bytes + len <= self.limit_bytes
    }

    /// Appends a packet that fits.
    #[inline]
    pub(crate) fn append(&mut self, packet: Packet) {
        self.bytes.count(packet.len);
        self.packets += 1;
        match self.packets {
            1 => {
                self.oldest = packet;
                self.pinned = std::mem::take(&mut self.pins);
            }
            _ => self.others.push(packet),
        }
    }

    /// The oldest packet.
    #[inline]
    pub(crate) fn take(&mut self) -> Next<Packet> {
        if self.packets == 0 {
            return Next::Empty;
        }
        let next = Next::Ready(Packet::leave(&self.oldest));
        self.packets -= 1;
        self.bytes.uncount(self.oldest.len);
        self.pinned = false;
        if let Some(second) = self.others.oldest() {
            self.oldest = Packet::leave(second);
            self.others.remove_oldest();
        }
        next
    }

    /// Appends a packet; one that does not fit is dropped, or makes room.
    #[inline]
    pub(crate) fn offer(&mut self, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        if self.fits(packet.len) {
            self.append(packet);
            return Verdict::Queued;
        }
        self.overflow(packet, sink)
    }

    /// Appends packets in order, each as by [`Fifo::offer`]; `packets` is empty then.
    pub(crate) fn offer_all(&mut self, packets: &mut Vec<Packet>, sink: &mut dyn Sink) {
        let len = packets.iter().map(|packet| packet.len).sum();
        let more = u32::try_from(packets.len()).unwrap_or(u32::MAX);
        if !self.fit(more, len) {
            packets.drain(..).for_each(|packet| _ = self.offer(packet, sink));
            return;
        }
        let mut others = packets.as_slice();
        if self.packets == 0
            && let Some((first, behind)) = others.split_first()
        {
            self.oldest = Packet::leave(first);
            others = behind;
        }
        self.packets += more;
        self.bytes.count(len);
        self.others.extend(others);
        packets.clear();
    }

    #[inline(never)]
    fn overflow(&mut self, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        if packet.handed_on && !self.pinned && self.packets > 0 {
            // Where it comes from the oldest may have been pinned, and not been counted.
            self.pinned = true;
            let fits = self.fits(packet.len);
            self.pinned = false;
            if fits {
                self.append(packet);
                return Verdict::Queued;
            }
        }
        while !self.fits(packet.len) {
            let oldest = match self.drop {
                DropFrom::Head => self.give_up(),
                DropFrom::Tail => Next::Empty,
            };
            match oldest {
                Next::Ready(oldest) => sink.drop(oldest, Reason::Head),
                _ => {
                    sink.drop(packet, Reason::Full);
                    return Verdict::Dropped(Reason::Full);
                }
            }
        }
        self.append(packet);
        Verdict::Queued
    }

    /// Sends packets, and counts them, until there are none or `outlet` wants no more. Of those
    /// that follow the oldest, only one that stays becomes the oldest.
    pub(crate) fn send_all(&mut self, sent: &mut Count, outlet: &mut dyn Outlet) -> Next<()> {
        if self.packets == 0 {
            return Next::Empty;
        }
        self.pinned = false;
        let (mut packet, mut gone) = (Packet::leave(&self.oldest), Count::default());
        let next = loop {
            gone += packet.len;
            let more = outlet.send(packet);
            match self.others.oldest() {
                Some(second) => packet = Packet::leave(second),
                None if more => break Next::Empty,
                None => break Next::Ready(()),
            }
            self.others.remove_oldest();
            if !more {
                self.oldest = packet;
                break Next::Ready(());
            }
        };
        self.packets -= gone.packets as u32;
        self.bytes.uncount(gone.bytes);
        *sent += gone;
        next
    }

    /// Whether the oldest is pinned.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Pins the packet that the next `take` returns, whatever comes in between.
    #[inline]
    pub(crate) fn pin(&mut self) -> Option<&Packet> {
        if self.packets == 0 {
            return None;
        }
        self.pinned = true;
        Some(&self.oldest)
    }

    /// The oldest packet that may be dropped.
    fn give_up(&mut self) -> Next<Packet> {
        if !self.pinned {
            return self.take();
        }
        let Some(second) = self.others.oldest() else {
            return Next::Empty;
        };
        let packet = Packet::leave(second);
        self.others.remove_oldest();
        self.packets -= 1;
        self.bytes.uncount(packet.len);
        Next::Ready(packet)
    }

    /// Reads what the packet after the oldest needs, once the FIFO itself is in the cache.
    #[inline]
    pub(crate) fn prefetch_others(&self) -> Prefetched {
        let ends = [self.others.oldest(), self.others.newest()];
        let read = |packet: &Packet| packet.len.get() ^ u64::from(packet.buffer.0);
        let words = ends.into_iter().flatten().map(read);
        words
            .map(Prefetched::word)
            .fold(Prefetched::NOTHING, Prefetched::and)
    }
}

impl Fifo {
    /// Reads the place of the next packet that arrives, once the FIFO itself is in the cache.
    #[inline]
    pub(crate) fn prefetch_place(&self) -> Prefetched {
        let place = match self.packets {
            0 => Some(&self.oldest),
            _ => self.others.place(),
        };
        Prefetched::word(place.map_or(0, |place| place.len.get() ^ u64::from(place.buffer.0)))
    }
}

impl Discipline for Fifo {
    fn enqueue(&mut self, _now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        self.offer(packet, sink)
    }

    fn dequeue(&mut self, _now: Instant, _sink: &mut dyn Sink) -> Next<Packet> {
        self.take()
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        portion.flush(sink, || match self.take() {
            Next::Ready(packet) => Some(packet),
            Next::Wait(_) | Next::Empty => None,
        });
    }

    fn take_over(&mut self, _now: Instant, former: &mut dyn Discipline) -> u32 {
        let former = former.of_type::<Self>();
        self.pins = former.is_some_and(|former| former.pinned);
        0
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        out.gauge("limit", Value::Count(u64::from(self.limit)));
        if self.limit_bytes != NO_LIMIT {
            out.gauge("limit_bytes", Value::Bytes(self.limit_bytes));
        }
    }

    fn retune(&mut self, _now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let Some(settings) = plan.downcast_ref::<Settings>() else {
            return false;
        };
        // A smaller limit takes effect as packets leave: retuning drops nothing.
        self.adopt(settings);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use crate::packet::ClassId;
    use crate::queue::Queue;
    use crate::random::Seed;
    use crate::settings::{Raw, Table};
    use crate::tree::{DisciplineSpec, Registry};
    use crate::trials;
    use crate::units::Bandwidth;

    #[derive(Default)]
    struct Drops(Vec<(u64, Reason)>);

    impl Sink for Drops {
        fn drop(&mut self, packet: Packet, why: Reason) {
            self.0.push((packet.len.get(), why));
        }
    }

    fn queue(settings: Table) -> Queue {
        let spec = DisciplineSpec {
            settings,
            ..DisciplineSpec::new("fifo")
        };
        let link = Link::new(Bandwidth::mbit(10), Bytes::new(100));
        spec.check(&Registry::builtin(), link)
            .expect("a good plan")
            .build(Seed(1))
    }

    fn run(settings: Table, lens: &[u64]) -> (Vec<u64>, Vec<(u64, Reason)>) {
        let mut queue = queue(settings);
        let (now, mut dropped) = (Instant::START, Drops::default());
        for &len in lens {
            let _ = queue.enqueue(now, Packet::new(Bytes::new(len), now, ClassId(0)), &mut dropped);
        }
        let mut sent = Vec::new();
        while let Next::Ready(packet) = queue.dequeue(now, &mut dropped) {
            sent.push(packet.len.get());
        }
        (sent, dropped.0)
    }

    #[test]
    fn tail_drop_drops_the_arriving_packet() {
        let settings = Table::default().with("limit", Raw::Integer(2));
        assert_eq!(run(settings, &[1, 2, 3]), (vec![1, 2], vec![(3, Reason::Full)]));
    }

    #[test]
    fn head_drop_drops_the_oldest() {
        let settings = Table::default()
            .with("limit", Raw::Integer(2))
            .text("drop", "head");
        assert_eq!(run(settings, &[1, 2, 3]), (vec![2, 3], vec![(1, Reason::Head)]));
    }

    #[test]
    fn a_peeked_packet_is_sent_next_and_does_not_count() {
        for (drop, dropped) in [("head", (2, Reason::Head)), ("tail", (4, Reason::Full))] {
            let settings = Table::default().with("limit", Raw::Integer(2)).text("drop", drop);
            let (mut queue, mut sink) = (queue(settings), Drops::default());
            let now = Instant::START;
            let mut offer = |queue: &mut Queue, len| {
                let _ = queue.enqueue(now, Packet::new(Bytes::new(len), now, ClassId(0)), &mut sink);
            };
            offer(&mut queue, 1);
            assert!(
                matches!(queue.peek(now, &mut Drops::default()), Next::Ready(packet) if packet.len.get() == 1)
            );
            (2..=4).for_each(|len| offer(&mut queue, len));
            assert_eq!((sink.0, queue.backlog().packets), (vec![dropped], 3), "{drop}");
            let kept: Vec<u64> = (1..=4).filter(|len| *len != dropped.0).collect();
            for len in kept {
                let Next::Ready(packet) = queue.dequeue(now, &mut Drops::default()) else {
                    panic!("{len} is held")
                };
                assert_eq!(packet.len.get(), len);
            }
        }
    }

    #[test]
    fn a_limit_in_bytes_counts_bytes() {
        let settings = Table::default().text("limit_bytes", "100 B");
        assert_eq!(
            run(settings, &[60, 40, 1]),
            (vec![60, 40], vec![(1, Reason::Full)])
        );
    }

    fn fifo(limit: u32, limit_bytes: u64, drop: DropFrom) -> Fifo {
        Fifo::new(&Settings {
            limit,
            limit_bytes: Some(Bytes::new(limit_bytes)),
            drop,
        })
    }

    fn packet(len: u64) -> Packet {
        Packet::new(Bytes::new(len), Instant::START, ClassId(0))
    }

    fn handed_on(len: u64) -> Packet {
        Packet {
            handed_on: true,
            ..packet(len)
        }
    }

    /// The lengths of all that is in it, in order.
    fn taken(fifo: &mut Fifo) -> Vec<u64> {
        let mut lens = Vec::new();
        while let Next::Ready(packet) = fifo.take() {
            lens.push(packet.len.get());
        }
        lens
    }

    #[test]
    fn limits_of_nothing_and_below_a_packet_are_refused() {
        let refused = |table| trials::refused("fifo", table, trials::LINK);
        let packets = |n| Table::default().with("limit", Raw::Integer(n));
        assert!(refused(packets(0)).is_some_and(|why| why.contains("must be at least 1")));
        assert_eq!(refused(packets(1)), None);
        let bytes = |text| Table::default().text("limit_bytes", text);
        assert!(refused(bytes("999 B")).is_some_and(|why| why.contains("less than one full packet")));
        assert_eq!(refused(bytes("1000 B")), None);
    }

    #[test]
    fn as_many_packets_fit_as_both_limits_leave_room_for() {
        let mut fifo = fifo(3, 30, DropFrom::Tail);
        fifo.append(packet(10));
        assert!(fifo.fit(2, Bytes::new(20)));
        assert!(!fifo.fit(3, Bytes::new(20)));
        assert!(!fifo.fit(2, Bytes::new(21)));
        assert!(fifo.fits(Bytes::new(20)) && !fifo.fits(Bytes::new(21)));
        assert!(fifo.pin().is_some());
        assert!(fifo.fit(3, Bytes::new(30)), "a pinned packet does not count");
        assert!(!fifo.fit(4, Bytes::new(30)) && !fifo.fit(3, Bytes::new(31)));
        assert!(fifo.fits(Bytes::new(30)) && !fifo.fits(Bytes::new(31)));
        fifo.append(packet(10));
        fifo.append(packet(10));
        fifo.limit = 1;
        assert!(
            !fifo.fit(1, Bytes::ZERO) && !fifo.fits(Bytes::ZERO),
            "retuned below what it holds"
        );
        assert!(fifo.fit(0, Bytes::ZERO));
    }

    #[test]
    fn a_burst_is_queued_as_its_packets_are_one_by_one() {
        for drop in [DropFrom::Tail, DropFrom::Head] {
            for (held, burst, pinned) in (0..40).map(|n| (n % 4, n / 8, n / 4 % 2 == 1)) {
                let run = |at_once: bool| {
                    let (mut fifo, mut dropped) = (fifo(4, 50, drop), Drops::default());
                    (0..held).for_each(|n| fifo.append(packet(1 + n)));
                    if pinned {
                        let _ = fifo.pin();
                    }
                    let mut packets: Vec<Packet> = (0..burst).map(|n| packet(12 + n)).collect();
                    if at_once {
                        fifo.offer_all(&mut packets, &mut dropped);
                        assert!(packets.is_empty());
                    } else {
                        packets
                            .drain(..)
                            .for_each(|packet| _ = fifo.offer(packet, &mut dropped));
                    }
                    let held = (fifo.packets(), fifo.bytes(), fifo.is_pinned());
                    (held, taken(&mut fifo), dropped.0)
                };
                assert_eq!(
                    run(true),
                    run(false),
                    "{held} held, {burst} come, {pinned}, {drop:?}"
                );
            }
        }
    }

    /// TakesSoMany so many packets.
    struct TakesSoMany {
        wants: usize,
        sent: Vec<u64>,
    }

    impl Sink for TakesSoMany {
        fn drop(&mut self, packet: Packet, why: Reason) {
            panic!("lost: {packet:?}, {why}");
        }
    }

    impl Outlet for TakesSoMany {
        fn send(&mut self, packet: Packet) -> bool {
            self.sent.push(packet.len.get());
            self.sent.len() < self.wants
        }
    }

    #[test]
    fn a_burst_leaves_until_no_more_is_wanted_and_is_counted() {
        let cases = [
            (1, vec![1], Next::Ready(()), 2),
            (2, vec![1, 2], Next::Ready(()), 1),
            (3, vec![1, 2, 3], Next::Ready(()), 0),
            (4, vec![1, 2, 3], Next::Empty, 0),
        ];
        for (wants, lens, next, left) in cases {
            let mut fifo = fifo(9, 100, DropFrom::Tail);
            (1..=3).for_each(|len| fifo.append(packet(len)));
            let _ = fifo.pin();
            let (mut outlet, mut sent) = (
                TakesSoMany {
                    wants,
                    sent: Vec::new(),
                },
                Count::default(),
            );
            sent += Bytes::new(50);
            assert_eq!(fifo.send_all(&mut sent, &mut outlet), next);
            assert_eq!(outlet.sent, lens);
            let count = 1 + lens.len() as u64;
            assert_eq!(
                (sent.packets, sent.bytes.get()),
                (count, 50 + lens.iter().sum::<u64>())
            );
            assert_eq!((fifo.packets(), fifo.is_pinned()), (left, false));
            let kept: Vec<u64> = (lens.len() as u64 + 1..=3).collect();
            assert_eq!(fifo.bytes().get(), kept.iter().sum::<u64>());
            assert_eq!(taken(&mut fifo), kept);
            assert_eq!(fifo.send_all(&mut sent, &mut outlet), Next::Empty);
            assert_eq!(sent.packets, count, "nothing is sent of nothing");
        }
    }

    #[test]
    fn the_oldest_is_pinned_until_it_is_taken() {
        let mut fifo = fifo(9, 100, DropFrom::Tail);
        assert!(fifo.pin().is_none() && !fifo.is_pinned());
        fifo.append(packet(1));
        fifo.append(packet(2));
        assert!(!fifo.is_pinned());
        assert_eq!(fifo.pin().map(|packet| packet.len.get()), Some(1));
        assert!(fifo.is_pinned());
        assert!(matches!(fifo.take(), Next::Ready(packet) if packet.len.get() == 1));
        assert!(!fifo.is_pinned());
        assert_eq!((fifo.packets(), fifo.bytes().get()), (1, 2));
    }

    #[test]
    fn only_what_is_not_pinned_makes_room() {
        let (mut fifo, mut dropped) = (fifo(1, 5, DropFrom::Head), Drops::default());
        fifo.append(packet(1));
        let _ = fifo.pin();
        assert_eq!(fifo.offer(packet(2), &mut dropped), Verdict::Queued);
        assert_eq!(fifo.offer(packet(3), &mut dropped), Verdict::Queued);
        assert_eq!(dropped.0, [(2, Reason::Head)]);
        assert_eq!((fifo.packets(), fifo.bytes().get()), (2, 4));
        let verdict = fifo.offer(packet(6), &mut dropped);
        assert_eq!(verdict, Verdict::Dropped(Reason::Full), "longer than the limit");
        assert_eq!(dropped.0[1..], [(3, Reason::Head), (6, Reason::Full)]);
        assert_eq!((fifo.packets(), fifo.bytes().get()), (1, 1));
    }

    #[test]
    fn of_those_handed_on_one_more_than_the_limit_fits_as_the_first_may_have_been_pinned() {
        let (mut fifo, mut dropped) = (fifo(2, 100, DropFrom::Tail), Drops::default());
        for len in [1, 2, 3] {
            assert_eq!(fifo.offer(handed_on(len), &mut dropped), Verdict::Queued);
            assert!(!fifo.is_pinned());
        }
        let full = Verdict::Dropped(Reason::Full);
        assert_eq!(fifo.offer(handed_on(4), &mut dropped), full);
        assert_eq!(fifo.offer(packet(5), &mut dropped), full);
        let _ = fifo.pin();
        assert_eq!(
            fifo.offer(handed_on(6), &mut dropped),
            full,
            "the pinned one is that one"
        );
        assert_eq!(taken(&mut fifo), [1, 2, 3]);
        assert_eq!(
            fifo.offer(handed_on(101), &mut dropped),
            full,
            "there is no first"
        );
        assert!(matches!(fifo.take(), Next::Empty));
    }

    #[test]
    fn a_packet_that_was_pinned_is_so_in_the_one_that_takes_over() {
        for pinned in [true, false] {
            let mut former = fifo(5, 100, DropFrom::Tail);
            former.append(packet(1));
            if pinned {
                let _ = former.pin();
            }
            let mut fifo = fifo(5, 100, DropFrom::Tail);
            assert_eq!(fifo.take_over(Instant::START, &mut former), 0);
            assert!(!fifo.is_pinned());
            fifo.append(packet(1));
            assert_eq!(fifo.is_pinned(), pinned);
            assert_eq!(taken(&mut fifo), [1]);
            fifo.append(packet(2));
            assert!(!fifo.is_pinned(), "only the first");
        }
    }

    #[test]
    fn its_limits_are_shown_and_adopted() {
        let plain = trials::planned("fifo", Table::default(), trials::LINK);
        let mut fifo = fifo(7, 5_000, DropFrom::Tail);
        let bytes = Value::Bytes(Bytes::new(5_000));
        assert_eq!(
            trials::gauges(&fifo),
            [("limit", Value::Count(7)), ("limit_bytes", bytes)]
        );
        let other = trials::planned("codel", Table::default(), trials::LINK);
        assert!(!fifo.retune(Instant::START, &*other.plan));
        assert_eq!(fifo.limit, 7);
        assert!(fifo.retune(Instant::START, &*plain.plan));
        assert_eq!(
            trials::gauges(&fifo),
            [("limit", Value::Count(100))],
            "no limit in bytes"
        );
        let table = Table::default()
            .with("limit", Raw::Integer(3))
            .text("limit_bytes", "2000 B")
            .text("drop", "head");
        let other = trials::planned("fifo", table, trials::LINK);
        assert!(fifo.retune(Instant::START, &*other.plan));
        let found = (fifo.limit, fifo.limit_bytes.get(), fifo.drop == DropFrom::Head);
        assert_eq!(found, (3, 2_000, true));
    }

    #[test]
    fn a_flush_takes_as_many_as_its_portion() {
        let (mut fifo, mut dropped) = (fifo(7, 5_000, DropFrom::Tail), Drops::default());
        (1..=3).for_each(|len| fifo.append(packet(len)));
        fifo.flush(&mut Portion::of(2, 9), &mut dropped);
        assert_eq!(dropped.0, [(1, Reason::Flushed), (2, Reason::Flushed)]);
        assert_eq!((fifo.packets(), fifo.bytes().get()), (1, 3));
        fifo.flush(&mut Portion::whole(), &mut dropped);
        assert_eq!((fifo.packets(), fifo.bytes().get()), (0, 0));
    }
}
