//! `codel`: Controlled Delay, a queue that is controlled by how long packets stay in it.
//!
//! Nichols and Jacobson, RFC 8289 (2018), sections 3 to 5, in the RFC's names. A packet's *sojourn
//! time* is the time from its arrival to its dequeue. With *target* and *interval*:
//!
//! ```text
//! ok_to_drop = sojourn time ≥ target, with more than one full packet behind it, for an interval without a break
//! if ok_to_drop, and not dropping:  drop the packet; dropping; count ← 1, or where it left off (below)
//! while dropping, and ok_to_drop:   drop a packet at drop_next;  count ← count + 1
//! drop_next ← drop_next + interval / √count      (from now, for the first)
//! as soon as a packet is not ok_to_drop: no longer dropping
//! ```
//!
//! So drops come faster until the senders back off. Re-entry: if dropping ended less than 16
//! intervals after the last *drop_next*, count starts at the number of drops of the last time, if
//! those were more than one (count − lastcount); so a load that comes back meets the rate that
//! controlled it. An ECN-capable packet is marked instead of dropped, and leaves; after a drop, the
//! next packet is examined.
//!
//! Arithmetic: interval / √count is the whole number of nanoseconds at or below the true one,
//! exactly: ⌊√⌊interval² / count⌋⌋ in 64 bits, which is why an interval is at most 4 s.
//!
//! It queues its packets itself and wraps no other queue, unlike `red`: the sojourn time is that of
//! a FIFO. Over a queue that reorders, one packet's sojourn time says little about the next one's;
//! over a shaper a packet dropped here had already been charged there. With flows apart it is
//! `fq_codel`.
//!
//! Departures: the "one full packet" is the link's longest and not the longest seen; the target is
//! raised on a link that takes longer than 3 ms to send a full packet; there is a limit in packets,
//! as every queue here has.

use crate::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties};
use crate::link::Link;
use crate::packet::Packet;
use crate::portion::Portion;
use crate::settings;
use crate::settings::Problem;
use crate::units::{Bytes, Duration, Instant};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "codel",
    summary: "Controlled Delay: drops or marks packets while the queueing delay exceeds a target",
    reference: "Nichols and Jacobson, RFC 8289, \"Controlled delay active queue management\", 2018",
    children: Children::None,
    settings: Settings::SETTINGS,
    class_settings: &[],
    properties: Properties {
        keeps_order: true,
        takes_over: true,
        conserves_work: true,
        ..Properties::NONE
    },
    check,
};

settings! {
    /// Settings of `codel`.
    pub struct Settings {
        /// The acceptable sojourn time
        target: Duration = derived "5 ms, or the time to send 1.5 full packets if that is longer",
            "too small: the link idles; too large: queueing delay for nothing",
            "RFC 8289, section 4.3; 1.5 packets is the practice on slow links";
        /// How long the sojourn time must exceed target before the first drop; about the longest
        /// round trip of most flows
        interval: Duration = derived "100 ms, and what target has above 5 ms",
            "too small: drops before senders can react; too large: long delays before the first drop",
            "RFC 8289, section 4.3";
        /// Whether ECN-capable packets are marked instead of dropped
        ecn: bool = default "true",
            "false: ECN-capable senders suffer drops for nothing",
            "RFC 8289, section 5.3; RFC 7567";
        /// Packets queued at most
        limit: u32 = default "1000",
            "too small: bursts are dropped before the control law acts; too large: only memory, as the law keeps the queue short",
            "the usual length of a kernel's queue";
    }
}

/// The longest interval, whose square in nanoseconds fits in 64 bits.
const MAX_INTERVAL: Duration = Duration::from_secs(4);

/// The parameters of the control law.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Law {
    pub(crate) target: Duration,
    pub(crate) interval: Duration,
    pub(crate) ecn: bool,
    /// A backlog of this much is not too much.
    pub(crate) mtu: Bytes,
}

impl Law {
    /// From settings, some of which may follow from the link. The error names the setting and its
    /// fault.
    pub(crate) fn new(
        target: Option<Duration>,
        interval: Option<Duration>,
        ecn: bool,
        link: Link,
    ) -> Result<Self, (&'static str, String)> {
        let usual = Duration::from_millis(5);
        let packets = link.bandwidth.time_to_send(Bytes::new(link.mtu.get() * 3 / 2));
        let target = target.unwrap_or(packets.clamp(usual, Duration::from_secs(1)));
        let above = target.nanos().saturating_sub(usual.nanos());
        let derived = Duration::from_nanos(Duration::from_millis(100).nanos().saturating_add(above));
        let interval = interval.unwrap_or(derived.min(MAX_INTERVAL));
        if interval > MAX_INTERVAL {
            return Err(("interval", "`interval` must be at most 4 s".into()));
        }
        if target == Duration::ZERO {
            return Err(("target", "`target` must be more than 0".into()));
        }
        if target >= interval {
            return Err((
                "target",
                "`target` must be less than `interval`; a twentieth is usual".into(),
            ));
        }
        Ok(Self {
            target,
            interval,
            ecn,
            mtu: link.mtu,
        })
    }

    /// The RFC's `control_law`: when the next drop is due.
    pub(crate) fn control_law(&self, from: Instant, count: u32) -> Instant {
        let square = self.interval.nanos() * self.interval.nanos();
        from + Duration::from_nanos((square / u64::from(count.max(1))).isqrt())
    }
}

/// The state of the law for one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Controller {
    /// When the sojourn time will have exceeded target for an interval, if it exceeds target now.
    first_above_time: Option<Instant>,
    dropping: bool,
    drop_next: Instant,
    count: u32,
    /// `count` when dropping began.
    lastcount: u32,
}

impl Controller {
    /// The queue is empty: no sojourn time exceeds target.
    pub(crate) fn empty(&mut self) {
        self.first_above_time = None;
        self.dropping = false;
    }

    /// Whether the sojourn time has exceeded target for an interval, at a packet with `left` bytes
    /// behind it.
    fn ok_to_drop(&mut self, law: &Law, now: Instant, sojourn: Duration, left: Bytes) -> bool {
        if sojourn < law.target || left <= law.mtu {
            self.first_above_time = None;
            return false;
        }
        now >= *self.first_above_time.get_or_insert(now + law.interval)
    }

    /// Whether to drop (or mark) the packet that is about to leave.
    fn should_drop(&mut self, law: &Law, now: Instant, sojourn: Duration, left: Bytes) -> bool {
        let ok_to_drop = self.ok_to_drop(law, now, sojourn, left);
        if !self.dropping {
            if !ok_to_drop {
                return false;
            }
            let drops = self.count.saturating_sub(self.lastcount);
            let recent = now.since(self.drop_next) < law.interval.times(16);
            self.count = if recent && drops > 1 { drops } else { 1 };
            (self.lastcount, self.dropping) = (self.count, true);
            self.drop_next = law.control_law(now, self.count);
            return true;
        }
        if !ok_to_drop {
            self.dropping = false;
            return false;
        }
        if now < self.drop_next {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.drop_next = law.control_law(self.drop_next, self.count);
        true
    }

    /// The next packet to leave.
    pub(crate) fn dequeue(
        &mut self,
        law: &Law,
        now: Instant,
        sink: &mut dyn Sink,
        queue: &mut impl Held,
    ) -> Next<Packet> {
        loop {
            let bytes = queue.bytes();
            let Some(packet) = queue.oldest() else {
                self.empty();
                return Next::Empty;
            };
            let sojourn = now.since(packet.arrived);
            let drops = self.should_drop(law, now, sojourn, bytes - packet.len);
            if drops && !(law.ecn && packet.mark()) {
                sink.drop(Packet::leave(packet), Reason::Delay);
                queue.remove_oldest();
                continue;
            }
            if drops {
                sink.mark(packet, Reason::Delay);
            }
            let next = Next::Ready(Packet::leave(packet));
            queue.remove_oldest();
            return next;
        }
    }
}

/// A queue that is controlled: a packet is judged where it is, and moves once.
pub(crate) trait Held {
    /// The bytes in it.
    fn bytes(&self) -> Bytes;

    /// The oldest packet.
    fn oldest(&mut self) -> Option<&mut Packet>;

    /// Removes it, as it has left.
    fn remove_oldest(&mut self);
}

/// A checked plan.
#[derive(Clone, PartialEq, Debug)]
struct CodelPlan {
    law: Law,
    limit: usize,
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let settings = Settings::read(check.settings, &[], check.problems)?;
    let law = match settings.limit {
        0 => Err((
            "limit",
            "`limit` must be at least 1: a queue of 0 drops every packet".into(),
        )),
        _ => Law::new(settings.target, settings.interval, settings.ecn, check.link),
    };
    match law {
        Ok(law) => Some(Arc::new(CodelPlan {
            law,
            limit: settings.limit as usize,
        })),
        Err((key, message)) => {
            let at = check.settings.place(key);
            check.problems.push(Problem::new(at, message));
            None
        }
    }
}

impl Plan for CodelPlan {
    fn build(&self, _cx: &Build) -> Box<dyn Discipline> {
        Box::new(Codel::new(self.clone()))
    }
}

#[derive(Debug)]
struct Codel {
    plan: CodelPlan,
    held: Packets,
    controller: Controller,
    /// The sojourn time of the packet that left last.
    sojourn: Duration,
}

#[derive(Debug, Default)]
struct Packets {
    queue: VecDeque<Packet>,
    bytes: Bytes,
}

impl Held for Packets {
    fn bytes(&self) -> Bytes {
        self.bytes
    }

    fn oldest(&mut self) -> Option<&mut Packet> {
        self.queue.front_mut()
    }

    fn remove_oldest(&mut self) {
        if let Some(packet) = self.queue.pop_front() {
            self.bytes -= packet.len;
        }
    }
}

impl Codel {
    fn new(plan: CodelPlan) -> Self {
        Self {
            plan,
            held: Packets::default(),
            controller: Controller::default(),
            sojourn: Duration::ZERO,
        }
    }
}

impl Discipline for Codel {
    fn enqueue(&mut self, _now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        if self.held.queue.len() >= self.plan.limit {
            sink.drop(packet, Reason::Full);
            return Verdict::Dropped(Reason::Full);
        }
        self.held.bytes += packet.len;
        self.held.queue.push_back(packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        let next = self.controller.dequeue(&self.plan.law, now, sink, &mut self.held);
        self.sojourn = match &next {
            Next::Ready(packet) => now.since(packet.arrived),
            _ => Duration::ZERO,
        };
        next
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        if portion.flush(sink, || self.held.queue.pop_front()) {
            self.held.bytes = Bytes::ZERO;
            self.controller.empty();
        }
    }

    fn take_over(&mut self, _now: Instant, former: &mut dyn Discipline) -> u32 {
        if let Some(former) = former.of_type::<Self>() {
            (self.controller, self.sojourn) = (former.controller, former.sojourn);
        }
        0
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        out.gauge("sojourn", Value::Duration(self.sojourn));
        out.gauge("target", Value::Duration(self.plan.law.target));
        out.gauge("interval", Value::Duration(self.plan.law.interval));
        let dropping = if self.controller.dropping {
            "dropping"
        } else {
            "passing"
        };
        out.gauge("state", Value::State(dropping));
        out.gauge("count", Value::Count(u64::from(self.controller.count)));
        out.gauge("limit", Value::Count(self.plan.limit as u64));
    }

    fn retune(&mut self, _now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let Some(plan) = plan.downcast_ref::<CodelPlan>() else {
            return false;
        };
        // A smaller limit takes effect as packets leave: retuning drops nothing.
        self.plan = plan.clone();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{ClassId, Ecn};
    use crate::trials;
    use crate::units::Bandwidth;

    const LINK: Link = Link::new(Bandwidth::mbit(8), Bytes::new(1000));

    #[derive(Default)]
    struct Witness {
        dropped: u32,
        marked: u32,
    }

    impl Sink for Witness {
        fn drop(&mut self, _packet: Packet, why: Reason) {
            assert!([Reason::Delay, Reason::Full].contains(&why));
            self.dropped += 1;
        }
        fn mark(&mut self, packet: &Packet, _why: Reason) {
            assert_eq!(packet.ecn, Ecn::Ce);
            self.marked += 1;
        }
    }

    fn codel(limit: usize) -> Codel {
        let law = Law::new(None, None, true, LINK).expect("good defaults");
        Codel::new(CodelPlan { law, limit })
    }

    fn millis(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    fn put(codel: &mut Codel, at: u64, ecn: Ecn, seen: &mut Witness) {
        let packet = Packet {
            ecn,
            ..Packet::new(Bytes::new(1000), millis(at), ClassId(0))
        };
        let _ = codel.enqueue(millis(at), packet, seen);
    }

    /// Serves one packet each millisecond with a sojourn time of about `wait` ms, others behind it;
    /// the times of drops and marks.
    fn stand(codel: &mut Codel, ecn: Ecn, wait: u64, from: u64, to: u64) -> Vec<u64> {
        let (mut seen, mut hits) = (Witness::default(), Vec::new());
        for at in from..to {
            // What is dropped is replaced.
            while codel.held.queue.len() < 6 {
                put(codel, at + codel.held.queue.len() as u64 - wait, ecn, &mut seen);
            }
            let before = seen.dropped + seen.marked;
            assert!(matches!(codel.dequeue(millis(at), &mut seen), Next::Ready(_)));
            (before..seen.dropped + seen.marked).for_each(|_| hits.push(at));
        }
        hits
    }

    #[test]
    fn the_control_law_is_interval_over_the_root_of_count_to_a_nanosecond() {
        let mut law = Law::new(None, None, true, LINK).expect("good defaults");
        for interval in [100_000_000, 4_000_000_000, 1] {
            law.interval = Duration::from_nanos(interval);
            for count in [1, 2, 3, 4, 7, 100, 1_000, 65_537, 4_000_000_000] {
                let found = law.control_law(Instant::START, count).nanos();
                let wide = u128::from(interval) * u128::from(interval);
                let square = |n: u64| u128::from(n) * u128::from(n) * u128::from(count);
                assert!(
                    square(found) <= wide && wide < square(found + 1),
                    "{interval} / √{count}: {found}"
                );
            }
        }
    }

    #[test]
    fn drops_come_at_the_times_of_the_law() {
        for ecn in [Ecn::NotEct, Ecn::Ect0] {
            let hits = stand(&mut codel(1000), ecn, 20, 1_000, 1_500);
            // Above target at 1,000 for the first time; then 100, 100/√1, 100/√2, … ms, on the next
            // whole millisecond.
            let (mut due, mut expected) = (1_100.0, vec![1_100]);
            for count in 1.. {
                due += 100.0 / f64::from(count).sqrt();
                if due >= 1_499.0 {
                    break;
                }
                expected.push(f64::ceil(due) as u64);
            }
            assert_eq!(hits, expected, "{ecn:?}");
        }
    }

    #[test]
    fn nothing_is_dropped_below_the_target() {
        assert_eq!(stand(&mut codel(1000), Ecn::NotEct, 4, 1_000, 3_000), [0; 0]);
        assert!(
            !stand(&mut codel(1000), Ecn::NotEct, 5, 1_000, 3_000).is_empty(),
            "the bound is sharp"
        );
    }

    #[test]
    fn a_burst_that_is_over_within_an_interval_is_not_dropped() {
        let (mut codel, mut seen) = (codel(1000), Witness::default());
        (0..90).for_each(|_| put(&mut codel, 0, Ecn::NotEct, &mut seen));
        for at in 0..90 {
            assert!(matches!(codel.dequeue(millis(at), &mut seen), Next::Ready(_)));
        }
        assert_eq!((seen.dropped, codel.controller.dropping), (0, false));
    }

    #[test]
    fn nothing_is_dropped_while_no_more_than_a_full_packet_stays_behind() {
        let (mut codel, mut seen) = (codel(1000), Witness::default());
        put(&mut codel, 0, Ecn::NotEct, &mut seen);
        for at in 1_000..3_000 {
            put(&mut codel, 0, Ecn::NotEct, &mut seen);
            assert!(matches!(codel.dequeue(millis(at), &mut seen), Next::Ready(_)));
        }
        assert_eq!(
            seen.dropped, 0,
            "packets that waited for a second, but one at a time"
        );
    }

    #[test]
    fn one_short_wait_ends_dropping_and_a_soon_return_goes_on_at_the_former_rate() {
        let mut codel = codel(1000);
        let first = stand(&mut codel, Ecn::NotEct, 20, 1_000, 2_000);
        let (count, mut seen) = (codel.controller.count, Witness::default());
        assert_eq!((count as usize, codel.controller.lastcount), (first.len(), 1));
        codel.flush(&mut Portion::whole(), &mut Flushed);
        put(&mut codel, 2_000, Ecn::NotEct, &mut seen);
        assert!(matches!(codel.dequeue(millis(2_000), &mut seen), Next::Ready(_)));
        assert!(!codel.controller.dropping);
        // Above target for an interval again: the first drop, and then at once as fast as before.
        let again = stand(&mut codel, Ecn::NotEct, 20, 2_001, 2_200);
        assert_eq!(again[0], 2_101);
        assert_eq!(codel.controller.lastcount, count - 1);
        let gap = 100.0 / f64::from(count - 1).sqrt();
        assert!(
            (again[1] as f64 - 2_101.0 - gap).abs() <= 1.0,
            "{again:?}, not {gap} ms apart"
        );
    }

    #[test]
    fn a_late_return_starts_anew() {
        let mut codel = codel(1000);
        stand(&mut codel, Ecn::NotEct, 20, 1_000, 2_000);
        codel.flush(&mut Portion::whole(), &mut Flushed);
        stand(&mut codel, Ecn::NotEct, 20, 5_000, 5_101);
        assert_eq!((codel.controller.count, codel.controller.dropping), (1, true));
    }

    #[test]
    fn the_limit_refuses_the_arriving_packet() {
        let (mut codel, mut seen) = (codel(3), Witness::default());
        (0..5).for_each(|_| put(&mut codel, 0, Ecn::Ect0, &mut seen));
        assert_eq!((codel.held.queue.len(), seen.dropped), (3, 2));
    }

    #[test]
    fn a_slow_link_has_a_target_of_one_and_a_half_packets() {
        let slow = Link {
            bandwidth: Bandwidth::kbit(64),
            ..LINK
        };
        let law = Law::new(None, None, true, slow).expect("good defaults");
        assert_eq!(law.target, Duration::from_nanos(187_500_000));
        assert_eq!(law.interval, Duration::from_nanos(282_500_000));
    }

    struct Flushed;

    impl Sink for Flushed {
        fn drop(&mut self, _packet: Packet, why: Reason) {
            assert_eq!(why, Reason::Flushed);
        }
    }

    #[test]
    fn its_state_is_shown_and_other_settings_are_adopted() {
        let mut codel = codel(9);
        codel.sojourn = Duration::from_millis(3);
        (codel.controller.dropping, codel.controller.count) = (true, 4);
        let shown = |state, limit| {
            [
                ("sojourn", Value::Duration(Duration::from_millis(3))),
                ("target", Value::Duration(Duration::from_millis(5))),
                ("interval", Value::Duration(Duration::from_millis(100))),
                ("state", Value::State(state)),
                ("count", Value::Count(4)),
                ("limit", Value::Count(limit)),
            ]
        };
        assert_eq!(trials::gauges(&codel), shown("dropping", 9));
        codel.controller.dropping = false;
        assert_eq!(trials::gauges(&codel), shown("passing", 9));
        let fifo = trials::planned("fifo", crate::settings::Table::default(), LINK);
        assert!(!codel.retune(millis(0), &*fifo.plan));
        let usual = trials::planned("codel", crate::settings::Table::default(), LINK);
        assert!(codel.retune(millis(0), &*usual.plan));
        assert_eq!(trials::gauges(&codel), shown("passing", 1_000));
    }

    #[test]
    fn it_holds_its_limit_and_knows_its_bytes_and_the_last_sojourn_time() {
        let (mut codel, mut seen) = (codel(2), Witness::default());
        for (at, held) in [(0, 1), (1, 2), (2, 2)] {
            put(&mut codel, at, Ecn::NotEct, &mut seen);
            assert_eq!(
                (codel.held.queue.len(), codel.held.bytes().get()),
                (held, 1_000 * held as u64)
            );
        }
        assert_eq!(seen.dropped, 1);
        assert!(matches!(codel.dequeue(millis(4), &mut seen), Next::Ready(_)));
        assert_eq!(
            (codel.sojourn, codel.held.bytes().get()),
            (Duration::from_millis(4), 1_000)
        );
        assert!(matches!(codel.dequeue(millis(4), &mut seen), Next::Ready(_)));
        assert!(matches!(codel.dequeue(millis(4), &mut seen), Next::Empty));
        assert_eq!((codel.sojourn, codel.held.bytes().get()), (Duration::ZERO, 0));
    }

    #[test]
    fn one_that_takes_over_goes_on_with_the_law() {
        let mut former = codel(2);
        (former.sojourn, former.controller.count) = (Duration::from_millis(3), 4);
        let mut codel = codel(2);
        assert_eq!(codel.take_over(millis(0), &mut former), 0);
        assert_eq!(
            (codel.sojourn, codel.controller.count),
            (Duration::from_millis(3), 4)
        );
    }

    #[test]
    fn a_limit_of_nothing_is_refused() {
        let refused = |n: u32| {
            let table = crate::settings::Table::default().with("limit", n);
            trials::refused("codel", table, LINK)
        };
        assert!(refused(0).is_some_and(|why| why.starts_with("`limit` must be at least 1")));
        assert_eq!(refused(1), None);
    }
}
