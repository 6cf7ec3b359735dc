//! `codel`: Controlled Delay, a queue that judges itself by how long packets stay in it.
//!
//! Nichols and Jacobson, RFC 8289 (2018), sections 3 to 5. A packet's *sojourn* is the time from its arrival to
//! its dequeue. With *target* and *interval*:
//!
//! ```text
//! bad     = sojourn ≥ target, and more than one full packet stays behind, for an interval without a break
//! if bad, and not dropping:   hit the packet; dropping; count ← 1, or how far it came last time (below)
//! while dropping, and bad:    hit a packet at drop_next;  count ← count + 1
//! drop_next ← drop_next + interval / √count      (from now, for the first)
//! as soon as a packet is not bad: no longer dropping
//! ```
//!
//! Hits thus come faster until the senders yield. Re-entry: if dropping ended less than 16 intervals after the last
//! *drop_next*, count starts at the number of hits of the last time, if those were more than one (count −
//! count at entry); so a load that comes back is met with the rate that held it. A hit packet is marked if it is
//! ECN-capable, and leaves; any other is lost, and the next one is judged.
//!
//! Arithmetic: interval / √count is the whole number of nanoseconds at or below the true one, exactly: ⌊√⌊interval² /
//! count⌋⌋ in 64 bits, which is why an interval is at most 4 s.
//!
//! It holds its packets itself and stands over no other queue, unlike `red`: the sojourn is the sojourn in a FIFO. Over a
//! queue that reorders, the wait of one packet says little of the next; over a shaper a packet lost here had been
//! charged there. With flows apart it is `fq_codel`.
//!
//! Departures: the "one full packet" is the link's longest and not the longest seen; the target is raised on a link
//! that takes longer than 3 ms to send a full packet; there is a limit in packets, as every queue here has.

use crate::discipline::{Discipline, Next, Reason, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Build, Check, Children, Kind, Plan, Properties};
use crate::link::Link;
use crate::packet::Packet;
use crate::settings;
use crate::settings::Problem;
use crate::units::{Bytes, Duration, Instant};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "codel",
    summary: "Controlled Delay: loses or marks packets while they wait longer than wanted",
    reference: "Nichols and Jacobson, RFC 8289, \"Controlled delay active queue management\", 2018",
    children: Children::None,
    settings: Settings::SETTINGS,
    class_settings: &[],
    properties: Properties::NONE,
    check,
};

settings! {
    /// Settings of `codel`.
    pub struct Settings {
        /// The wait that is put up with
        target: Duration = derived "5 ms, or the time to send 1.5 full packets if that is longer",
            "too small: the link idles; too large: packets wait for nothing",
            "RFC 8289, section 4.3; 1.5 packets is the practice on slow links";
        /// How long the wait must last before anything is hit; about the longest round trip of most flows
        interval: Duration = derived "100 ms, and what target has above 5 ms",
            "too small: hits before senders can answer; too large: long waits before the first hit",
            "RFC 8289, section 4.3";
        /// Whether packets of ECN-capable senders are marked instead of lost
        ecn: bool = default "true",
            "false: senders that understand marks lose packets for nothing",
            "RFC 8289, section 5.3; RFC 7567";
        /// Packets held at most
        limit: u32 = default "1000",
            "too small: bursts are lost before the law is asked; too large: only memory, as the law keeps it short",
            "the usual length of a kernel's queue";
    }
}

/// The longest interval, whose square in nanoseconds fits in 64 bits.
const MAX_INTERVAL: Duration = Duration::from_secs(4);

/// What the control law goes by.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Law {
    pub(crate) target: Duration,
    pub(crate) interval: Duration,
    pub(crate) ecn: bool,
    /// So much may stay behind without being too much.
    pub(crate) mtu: Bytes,
}

impl Law {
    /// From settings, some of which may follow from the link. The error names the setting and its fault.
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

    /// When the next hit is due.
    pub(crate) fn next(&self, from: Instant, count: u32) -> Instant {
        let square = self.interval.nanos() * self.interval.nanos();
        from + Duration::from_nanos((square / u64::from(count.max(1))).isqrt())
    }
}

/// The state of the law for one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Controller {
    /// When the wait will have been too long for an interval, if it is too long now.
    first_above: Option<Instant>,
    dropping: bool,
    drop_next: Instant,
    count: u32,
    /// `count` when dropping began.
    last_count: u32,
}

impl Controller {
    /// Nothing is held: no wait is too long.
    pub(crate) fn empty(&mut self) {
        self.first_above = None;
        self.dropping = false;
    }

    /// Whether the wait has been too long for an interval, at a packet behind which `left` bytes stay.
    fn bad(&mut self, law: &Law, now: Instant, sojourn: Duration, left: Bytes) -> bool {
        if sojourn < law.target || left <= law.mtu {
            self.first_above = None;
            return false;
        }
        now >= *self.first_above.get_or_insert(now + law.interval)
    }

    /// Whether the packet that is about to leave is to be hit.
    fn hits(&mut self, law: &Law, now: Instant, sojourn: Duration, left: Bytes) -> bool {
        let bad = self.bad(law, now, sojourn, left);
        if !self.dropping {
            if !bad {
                return false;
            }
            let last_time = self.count.saturating_sub(self.last_count);
            let recent = now.since(self.drop_next) < law.interval.times(16);
            self.count = if recent && last_time > 1 { last_time } else { 1 };
            (self.last_count, self.dropping) = (self.count, true);
            self.drop_next = law.next(now, self.count);
            return true;
        }
        if !bad {
            self.dropping = false;
            return false;
        }
        if now < self.drop_next {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.drop_next = law.next(self.drop_next, self.count);
        true
    }

    /// The next packet to leave; `take` gives the oldest and what stays behind it.
    pub(crate) fn dequeue(
        &mut self,
        law: &Law,
        now: Instant,
        sink: &mut dyn Sink,
        mut take: impl FnMut() -> Option<(Packet, Bytes)>,
    ) -> Option<Packet> {
        loop {
            let Some((mut packet, left)) = take() else {
                self.empty();
                return None;
            };
            let sojourn = now.since(packet.arrived);
            match self.hits(law, now, sojourn, left) {
                false => return Some(packet),
                true if law.ecn && packet.mark() => {
                    sink.mark(&packet, Reason::Delay);
                    return Some(packet);
                }
                true => sink.drop(packet, Reason::Delay),
            }
        }
    }
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
            "`limit` must be at least 1: a queue of 0 loses every packet".into(),
        )),
        _ => Law::new(settings.target, settings.interval, settings.ecn, check.link),
    };
    match law {
        Ok(law) => Some(Arc::new(CodelPlan {
            law,
            limit: settings.limit as usize,
        })),
        Err((key, message)) => {
            let at = check
                .settings
                .get(key)
                .map_or(check.settings.at, |entry| entry.at);
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
    queue: VecDeque<Packet>,
    bytes: Bytes,
    controller: Controller,
    /// The wait of the packet that left last.
    sojourn: Duration,
}

impl Codel {
    fn new(plan: CodelPlan) -> Self {
        Self {
            plan,
            queue: VecDeque::new(),
            bytes: Bytes::ZERO,
            controller: Controller::default(),
            sojourn: Duration::ZERO,
        }
    }
}

impl Discipline for Codel {
    fn enqueue(&mut self, _now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        if self.queue.len() >= self.plan.limit {
            sink.drop(packet, Reason::Full);
            return Verdict::Dropped(Reason::Full);
        }
        self.bytes += packet.len;
        self.queue.push_back(packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        let (queue, bytes) = (&mut self.queue, &mut self.bytes);
        let take = || {
            let packet = queue.pop_front()?;
            *bytes -= packet.len;
            Some((packet, *bytes))
        };
        let packet = self.controller.dequeue(&self.plan.law, now, sink, take);
        self.sojourn = packet
            .as_ref()
            .map_or(Duration::ZERO, |packet| now.since(packet.arrived));
        packet.map_or(Next::Empty, Next::Ready)
    }

    fn flush(&mut self, sink: &mut dyn Sink) {
        self.queue
            .drain(..)
            .for_each(|packet| sink.drop(packet, Reason::Flushed));
        self.bytes = Bytes::ZERO;
        self.controller.empty();
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
        // A smaller limit takes effect as packets leave: nothing that is held is lost for it.
        self.plan = plan.clone();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{ClassId, Ecn};
    use crate::units::Bandwidth;

    const LINK: Link = Link::new(Bandwidth::mbit(8), Bytes::new(1000));

    #[derive(Default)]
    struct Seen {
        lost: u32,
        marked: u32,
    }

    impl Sink for Seen {
        fn drop(&mut self, _packet: Packet, why: Reason) {
            assert!([Reason::Delay, Reason::Full].contains(&why));
            self.lost += 1;
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

    fn put(codel: &mut Codel, at: u64, ecn: Ecn, seen: &mut Seen) {
        let packet = Packet {
            ecn,
            ..Packet::new(Bytes::new(1000), millis(at), ClassId(0))
        };
        let _ = codel.enqueue(millis(at), packet, seen);
    }

    /// Serves one packet each millisecond that has waited for about `wait` ms, others behind it; the times of hits.
    fn stand(codel: &mut Codel, ecn: Ecn, wait: u64, from: u64, to: u64) -> Vec<u64> {
        let (mut seen, mut hits) = (Seen::default(), Vec::new());
        for at in from..to {
            // What is lost is made up for.
            while codel.queue.len() < 6 {
                put(codel, at + codel.queue.len() as u64 - wait, ecn, &mut seen);
            }
            let before = seen.lost + seen.marked;
            assert!(matches!(codel.dequeue(millis(at), &mut seen), Next::Ready(_)));
            (before..seen.lost + seen.marked).for_each(|_| hits.push(at));
        }
        hits
    }

    #[test]
    fn the_control_law_is_interval_over_the_root_of_count_to_a_nanosecond() {
        let mut law = Law::new(None, None, true, LINK).expect("good defaults");
        for interval in [100_000_000, 4_000_000_000, 1] {
            law.interval = Duration::from_nanos(interval);
            for count in [1, 2, 3, 4, 7, 100, 1_000, 65_537, 4_000_000_000] {
                let found = law.next(Instant::START, count).nanos();
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
    fn hits_come_at_the_times_of_the_law() {
        for ecn in [Ecn::NotEct, Ecn::Ect0] {
            let hits = stand(&mut codel(1000), ecn, 20, 1_000, 1_500);
            // Seen at 1,000 for the first time; then 100, 100/√1, 100/√2, … ms, on the next whole millisecond.
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
    fn nothing_is_hit_below_the_target() {
        assert_eq!(stand(&mut codel(1000), Ecn::NotEct, 4, 1_000, 3_000), [0; 0]);
        assert!(
            !stand(&mut codel(1000), Ecn::NotEct, 5, 1_000, 3_000).is_empty(),
            "the bound is sharp"
        );
    }

    #[test]
    fn a_burst_that_is_over_within_an_interval_is_not_hit() {
        let (mut codel, mut seen) = (codel(1000), Seen::default());
        (0..90).for_each(|_| put(&mut codel, 0, Ecn::NotEct, &mut seen));
        for at in 0..90 {
            assert!(matches!(codel.dequeue(millis(at), &mut seen), Next::Ready(_)));
        }
        assert_eq!((seen.lost, codel.controller.dropping), (0, false));
    }

    #[test]
    fn nothing_is_hit_while_no_more_than_a_full_packet_stays_behind() {
        let (mut codel, mut seen) = (codel(1000), Seen::default());
        put(&mut codel, 0, Ecn::NotEct, &mut seen);
        for at in 1_000..3_000 {
            put(&mut codel, 0, Ecn::NotEct, &mut seen);
            assert!(matches!(codel.dequeue(millis(at), &mut seen), Next::Ready(_)));
        }
        assert_eq!(
            seen.lost, 0,
            "packets that waited for a second, but one at a time"
        );
    }

    #[test]
    fn one_short_wait_ends_dropping_and_a_soon_return_goes_on_at_the_former_rate() {
        let mut codel = codel(1000);
        let first = stand(&mut codel, Ecn::NotEct, 20, 1_000, 2_000);
        let (count, mut seen) = (codel.controller.count, Seen::default());
        assert_eq!((count as usize, codel.controller.last_count), (first.len(), 1));
        codel.flush(&mut Flushed);
        put(&mut codel, 2_000, Ecn::NotEct, &mut seen);
        assert!(matches!(codel.dequeue(millis(2_000), &mut seen), Next::Ready(_)));
        assert!(!codel.controller.dropping);
        // Again too long for an interval: the first hit, and then at once as fast as before.
        let again = stand(&mut codel, Ecn::NotEct, 20, 2_001, 2_200);
        assert_eq!(again[0], 2_101);
        assert_eq!(codel.controller.last_count, count - 1);
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
        codel.flush(&mut Flushed);
        stand(&mut codel, Ecn::NotEct, 20, 5_000, 5_101);
        assert_eq!((codel.controller.count, codel.controller.dropping), (1, true));
    }

    #[test]
    fn the_limit_refuses_the_arriving_packet() {
        let (mut codel, mut seen) = (codel(3), Seen::default());
        (0..5).for_each(|_| put(&mut codel, 0, Ecn::Ect0, &mut seen));
        assert_eq!((codel.queue.len(), seen.lost), (3, 2));
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
}
