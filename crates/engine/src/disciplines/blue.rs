//! `blue`: a drop probability that grows when the queue overflows and shrinks when the link idles.
//!
//! Feng, Kandlur, Saha and Shin, "BLUE: a new class of active queue management algorithms", 1999
//! (ToN 10(4), 2002), section 3, as ALTQ has it too. There is no average and no delay; with *p_m*
//! the drop probability and *freeze* a time in which it stays constant:
//!
//! ```text
//! a packet arrives to a backlog of `threshold` or more:  p_m ← p_m + increment     if the last change is `freeze` ago
//! the link is idle:                                      p_m ← p_m − decrement     the same
//! ```
//!
//! Every arrival is signalled with probability *p_m*: marked if it is ECN-capable, dropped
//! otherwise. Overflow means that too few were signalled, idleness that too many were, and *p_m*
//! settles where neither happens.
//!
//! It queues its packets itself, since overflow is its signal. There is no timer: an idle time
//! counts once for each whole `freeze` in it, when the next packet arrives. Arithmetic: *p_m* has
//! 32 fractional bits and is exact.
//!
//! Departures: the paper lowers *p_m* once when the link becomes idle and does not say what a long
//! idle time does; nothing is dropped without a backlog, which would only punish a sparse sender.

use crate::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties};
use crate::packet::Packet;
use crate::portion::Portion;
use crate::random::Rng;
use crate::settings;
use crate::settings::Problem;
use crate::units::{Duration, Instant, Probability};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "blue",
    summary: "A drop probability that grows when the queue overflows and shrinks when the link idles",
    reference: "Feng, Kandlur, Saha and Shin, \"BLUE: a new class of active queue management algorithms\", 1999",
    children: Children::None,
    settings: Settings::SETTINGS,
    class_settings: &[],
    properties: Properties {
        keeps_order: true,
        conserves_work: true,
        elsewhere: &["sfb"],
        takes_over: true,
        ..Properties::NONE
    },
    check,
};

settings! {
    /// Settings of `blue`.
    pub struct Settings {
        /// Packets queued at most
        limit: u32 = default "200",
            "too small: bursts are dropped and the link idles; too large: long queueing delays, and overflow comes late",
            "ALTQ";
        /// A backlog of this many packets counts as an overflow
        threshold: u32 = derived "the limit",
            "below the limit: room is left for bursts, and queueing delays are shorter",
            "the paper's L";
        /// The step by which the drop probability grows
        increment: Probability = default "0.25 %",
            "too small: overflow continues for long; too large: the link idles after each overflow",
            "the paper asks for much more than decrement; this is of the order of its experiments";
        /// The step by which the drop probability shrinks
        decrement: Probability = default "0.025 %",
            "too small: the link idles long after a load is gone; too large: the probability oscillates",
            "as increment";
        /// How long the drop probability stays after a change
        freeze: Duration = default "100 ms",
            "too small: it changes before senders can answer; too large: it follows loads slowly",
            "the paper: about a round trip";
        /// Whether ECN-capable packets are marked instead of dropped
        ecn: bool = default "true",
            "false: ECN-capable senders suffer drops for nothing",
            "the paper; RFC 7567";
    }
}

/// A checked plan.
#[derive(Clone, PartialEq, Debug)]
struct BluePlan {
    limit: usize,
    threshold: usize,
    increment: u64,
    decrement: u64,
    freeze: Duration,
    ecn: bool,
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let settings = Settings::read(check.settings, &[], check.problems)?;
    let threshold = settings.threshold.unwrap_or(settings.limit);
    let wrong = match (settings.limit, threshold, settings.freeze) {
        (0, ..) => Some((
            "limit",
            "`limit` must be at least 1: a queue of 0 drops every packet",
        )),
        (_, 0, _) => Some((
            "threshold",
            "`threshold` must be at least 1: every packet would be an overflow",
        )),
        (limit, threshold, _) if threshold > limit => Some((
            "threshold",
            "`threshold` must be at most `limit`: it would never be reached",
        )),
        (.., Duration::ZERO) => Some(("freeze", "`freeze` must be more than 0")),
        _ => None,
    };
    if let Some((key, message)) = wrong {
        let at = check.settings.place(key);
        check.problems.push(Problem::new(at, message));
        return None;
    }
    Some(Arc::new(BluePlan {
        limit: settings.limit as usize,
        threshold: threshold as usize,
        increment: settings.increment.parts(),
        decrement: settings.decrement.parts(),
        freeze: settings.freeze,
        ecn: settings.ecn,
    }))
}

impl Plan for BluePlan {
    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        Box::new(Blue::new(self.clone(), cx.rng()))
    }
}

/// *p_m*, the drop probability of one queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DropProbability {
    /// In parts of 2³².
    parts: u64,
    /// Until when it stays.
    frozen: Instant,
}

impl DropProbability {
    /// Never drops.
    pub(crate) const NONE: Self = Self {
        parts: 0,
        frozen: Instant::START,
    };

    /// The queue overflows.
    pub(crate) fn grow(&mut self, now: Instant, by: u64, freeze: Duration) {
        if now >= self.frozen {
            self.parts = (self.parts + by).min(Probability::ONE.parts());
            self.frozen = now + freeze;
        }
    }

    /// The queue was empty from `since` until now: one step for each freeze.
    pub(crate) fn shrink(&mut self, since: Instant, now: Instant, by: u64, freeze: Duration) {
        let first = since.max(self.frozen);
        if now < first || self.parts == 0 {
            return;
        }
        let changes = now.since(first).nanos() / freeze.nanos() + 1;
        self.parts = self.parts.saturating_sub(by.saturating_mul(changes));
        self.frozen = first + freeze.times(changes);
    }

    /// Draws whether to drop a packet.
    #[inline]
    pub(crate) fn should_drop(&self, rng: &mut Rng) -> bool {
        rng.chance(self.value())
    }

    /// Its value.
    pub(crate) fn value(&self) -> Probability {
        Probability::from_parts(self.parts)
    }
}

#[derive(Debug)]
struct Blue {
    plan: BluePlan,
    rng: Rng,
    queue: VecDeque<Packet>,
    p_m: DropProbability,
    /// Since when there is no backlog, if so.
    idle_since: Option<Instant>,
    /// The latest time seen; a flush is given none.
    clock: Instant,
    early: u64,
}

impl Blue {
    fn new(plan: BluePlan, rng: Rng) -> Self {
        Self {
            plan,
            rng,
            queue: VecDeque::new(),
            p_m: DropProbability::NONE,
            idle_since: Some(Instant::START),
            clock: Instant::START,
            early: 0,
        }
    }

    /// The queue was empty until now.
    fn end_idle(&mut self, now: Instant) {
        let Some(since) = self.idle_since.take() else {
            return;
        };
        self.p_m.shrink(since, now, self.plan.decrement, self.plan.freeze);
    }

    /// Whether the arrival is dropped, and why. May mark it.
    fn drop_reason(&mut self, now: Instant, packet: &mut Packet, sink: &mut dyn Sink) -> Option<Reason> {
        if packet.handed_on {
            // It was judged when it arrived.
            return (self.queue.len() >= self.plan.limit).then_some(Reason::Full);
        }
        if self.queue.len() >= self.plan.threshold {
            self.p_m.grow(now, self.plan.increment, self.plan.freeze);
        }
        if self.queue.len() >= self.plan.limit {
            return Some(Reason::Full);
        }
        if self.queue.is_empty() || !self.p_m.should_drop(&mut self.rng) {
            return None;
        }
        self.early += 1;
        if self.plan.ecn && packet.mark() {
            sink.mark(packet, Reason::Early);
            return None;
        }
        Some(Reason::Early)
    }
}

impl Discipline for Blue {
    fn enqueue(&mut self, now: Instant, mut packet: Packet, sink: &mut dyn Sink) -> Verdict {
        self.clock = now;
        match packet.handed_on {
            // It was no time without packets.
            true => self.idle_since = None,
            false => self.end_idle(now),
        }
        if let Some(why) = self.drop_reason(now, &mut packet, sink) {
            sink.drop(packet, why);
            return Verdict::Dropped(why);
        }
        self.queue.push_back(packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Instant, _sink: &mut dyn Sink) -> Next<Packet> {
        self.clock = now;
        let Some(packet) = self.queue.pop_front() else {
            return Next::Empty;
        };
        if self.queue.is_empty() {
            // A packet time early, but not every host polls an empty queue again.
            self.idle_since = Some(now);
        }
        Next::Ready(packet)
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        if portion.flush(sink, || self.queue.pop_front()) {
            self.idle_since = self.idle_since.or(Some(self.clock));
        }
    }

    fn take_over(&mut self, now: Instant, former: &mut dyn Discipline) -> u32 {
        if let Some(former) = former.of_type::<Self>() {
            (self.p_m, self.rng, self.early) = (former.p_m, former.rng.clone(), former.early);
            (self.idle_since, self.clock) = (former.idle_since.or(Some(now)), now);
        }
        0
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        out.gauge("probability", Value::Share(self.p_m.value()));
        out.gauge("early", Value::Count(self.early));
        out.gauge("threshold", Value::Count(self.plan.threshold as u64));
        out.gauge("limit", Value::Count(self.plan.limit as u64));
    }

    fn retune(&mut self, _now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let Some(plan) = plan.downcast_ref::<BluePlan>() else {
            return false;
        };
        self.plan = plan.clone();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{ClassId, Ecn};
    use crate::random::Seed;
    use crate::settings::{Raw, Table};
    use crate::trials;
    use crate::units::Bytes;

    #[derive(Default)]
    struct Witness {
        early: u64,
        full: u64,
        marked: u64,
    }

    impl Sink for Witness {
        fn drop(&mut self, _packet: Packet, why: Reason) {
            *(if why == Reason::Full {
                &mut self.full
            } else {
                &mut self.early
            }) += 1;
        }
        fn mark(&mut self, packet: &Packet, _why: Reason) {
            assert_eq!(packet.ecn, Ecn::Ce);
            self.marked += 1;
        }
    }

    fn blue() -> Blue {
        let plan = BluePlan {
            limit: 20,
            threshold: 20,
            increment: 1 << 26,
            decrement: 1 << 22,
            freeze: Duration::from_millis(100),
            ecn: true,
        };
        Blue::new(plan, Seed(6).stream())
    }

    fn millis(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    fn put(blue: &mut Blue, at: u64, ecn: Ecn, seen: &mut Witness) {
        let packet = Packet {
            ecn,
            ..Packet::new(Bytes::new(1000), millis(at), ClassId(0))
        };
        let _ = blue.enqueue(millis(at), packet, seen);
    }

    #[test]
    fn overflow_raises_the_chance_once_in_a_freeze() {
        let (mut blue, mut seen) = (blue(), Witness::default());
        (0..250).for_each(|at| put(&mut blue, at, Ecn::NotEct, &mut seen));
        assert_eq!(blue.p_m.parts, 3 << 26, "at 20, 120 and 220 ms");
        assert!(seen.full > 200);
    }

    #[test]
    fn idle_time_lowers_the_chance_once_in_a_freeze_and_never_below_nothing() {
        let (mut blue, mut seen) = (blue(), Witness::default());
        blue.p_m.parts = 10 << 22;
        put(&mut blue, 0, Ecn::NotEct, &mut seen);
        blue.p_m.parts = 10 << 22;
        assert!(matches!(blue.dequeue(millis(200), &mut seen), Next::Ready(_)));
        put(&mut blue, 450, Ecn::NotEct, &mut seen);
        assert_eq!(blue.p_m.parts, 7 << 22, "at 200, 300 and 400 ms");
        assert!(matches!(blue.dequeue(millis(460), &mut seen), Next::Ready(_)));
        put(&mut blue, 490, Ecn::NotEct, &mut seen);
        assert_eq!(blue.p_m.parts, 7 << 22, "frozen until 500 ms");
        let _ = blue.dequeue(millis(495), &mut seen);
        let _ = blue.dequeue(millis(495), &mut seen);
        put(&mut blue, 1_000_000, Ecn::NotEct, &mut seen);
        assert_eq!(blue.p_m.parts, 0);
    }

    #[test]
    fn the_chance_settles_where_the_load_fits_the_link() {
        let (mut blue, mut seen) = (blue(), Witness::default());
        // Five packets arrive for every four that leave: 20 % must be dropped.
        for at in 0..400_000 {
            put(&mut blue, at, Ecn::NotEct, &mut seen);
            if at % 5 != 0 {
                let _ = blue.dequeue(millis(at), &mut seen);
            }
        }
        let p_m = blue.p_m.value().as_f64();
        assert!((0.17..0.24).contains(&p_m), "{p_m}");
        assert!(
            seen.full * 20 < seen.early,
            "{} by overflow, {} by probability",
            seen.full,
            seen.early
        );
    }

    #[test]
    fn ecn_capable_packets_are_marked() {
        let (mut blue, mut seen) = (blue(), Witness::default());
        for at in 0..1_000 {
            blue.p_m.parts = Probability::ONE.parts();
            put(&mut blue, at, Ecn::Ect0, &mut seen);
            if at > 0 {
                let _ = blue.dequeue(millis(at), &mut seen);
            }
        }
        assert_eq!((seen.marked, seen.early), (999, 0));
    }

    fn refused(limit: i64, threshold: Option<i64>, freeze: &str) -> Option<String> {
        let table = Table::default()
            .with("limit", Raw::Integer(limit))
            .text("freeze", freeze);
        let table = match threshold {
            Some(threshold) => table.with("threshold", Raw::Integer(threshold)),
            None => table,
        };
        trials::refused("blue", table, trials::LINK)
    }

    #[test]
    fn settings_of_nothing_and_a_threshold_above_the_limit_are_refused() {
        let begins = |found: Option<String>, words: &str| {
            assert!(
                found.as_ref().is_some_and(|message| message.starts_with(words)),
                "{found:?}"
            );
        };
        begins(refused(0, None, "1 ms"), "`limit` must be at least 1");
        begins(refused(5, Some(0), "1 ms"), "`threshold` must be at least 1");
        begins(refused(5, Some(6), "1 ms"), "`threshold` must be at most `limit`");
        begins(refused(5, Some(5), "0 s"), "`freeze` must be more than 0");
        for (limit, threshold) in [(1, None), (5, Some(5)), (5, Some(4)), (5, Some(1))] {
            assert_eq!(refused(limit, threshold, "1 ns"), None);
        }
    }

    #[test]
    fn the_chance_grows_from_the_end_of_a_freeze_on_and_not_beyond_one() {
        let freeze = Duration::from_millis(10);
        let mut p_m = DropProbability::NONE;
        p_m.grow(millis(5), 3, freeze);
        assert_eq!((p_m.parts, p_m.frozen), (3, millis(15)));
        p_m.grow(Instant::from_nanos(14_999_999), 3, freeze);
        assert_eq!((p_m.parts, p_m.frozen), (3, millis(15)));
        p_m.grow(millis(15), 4, freeze);
        assert_eq!((p_m.parts, p_m.frozen), (7, millis(25)));
        p_m.grow(millis(25), Probability::ONE.parts(), freeze);
        assert_eq!(p_m.value(), Probability::ONE);
    }

    #[test]
    fn the_chance_shrinks_at_the_first_moment_that_is_idle_and_not_frozen_and_each_freeze_after() {
        let freeze = Duration::from_millis(10);
        let (parts, frozen) = (10, millis(30));
        let mut p_m = DropProbability { parts, frozen };
        p_m.shrink(millis(10), Instant::from_nanos(29_999_999), 1, freeze);
        assert_eq!((p_m.parts, p_m.frozen), (10, millis(30)));
        p_m.shrink(millis(10), millis(30), 1, freeze);
        assert_eq!((p_m.parts, p_m.frozen), (9, millis(40)));
        p_m.shrink(millis(10), Instant::from_nanos(59_999_999), 1, freeze);
        assert_eq!((p_m.parts, p_m.frozen), (7, millis(60)), "at 40 and 50 ms");
        p_m.shrink(millis(100), millis(100), 1, freeze);
        assert_eq!((p_m.parts, p_m.frozen), (6, millis(110)));
        p_m.shrink(millis(100), millis(120), 5, freeze);
        assert_eq!((p_m.parts, p_m.frozen), (0, millis(130)), "not below nothing");
        p_m.shrink(millis(100), millis(150), 5, freeze);
        assert_eq!((p_m.parts, p_m.frozen), (0, millis(130)), "nothing shrinks");
    }

    fn small(ecn: bool) -> Blue {
        let mut blue = blue();
        (blue.plan.limit, blue.plan.threshold, blue.plan.ecn) = (4, 2, ecn);
        blue
    }

    #[test]
    fn a_backlog_of_the_threshold_is_an_overflow_and_one_of_the_limit_is_full() {
        let (mut blue, mut seen) = (small(true), Witness::default());
        blue.plan.increment = 0;
        (0..6).for_each(|at| {
            put(&mut blue, at, Ecn::NotEct, &mut seen);
            let frozen = if at < 2 { millis(0) } else { millis(102) };
            assert_eq!(blue.p_m.frozen, frozen, "{at}");
        });
        assert_eq!((blue.queue.len(), seen.full, seen.early), (4, 2, 0));
    }

    #[test]
    fn a_chance_of_one_drops_all_but_the_first_and_counts_them() {
        let (mut blue, mut seen) = (small(true), Witness::default());
        for at in 0..3 {
            blue.p_m.parts = Probability::ONE.parts();
            put(&mut blue, at, Ecn::NotEct, &mut seen);
        }
        assert_eq!((blue.queue.len(), seen.early, blue.early), (1, 2, 2));
        put(&mut blue, 3, Ecn::Ect0, &mut seen);
        assert_eq!((blue.queue.len(), seen.marked, blue.early), (2, 1, 3));
        blue.plan.ecn = false;
        put(&mut blue, 4, Ecn::Ect0, &mut seen);
        assert_eq!(
            (blue.queue.len(), seen.early, blue.early),
            (2, 3, 4),
            "no marks are wanted"
        );
    }

    #[test]
    fn what_is_handed_on_is_dropped_at_the_limit_alone_and_ends_no_idle_time() {
        let (mut blue, mut seen) = (small(true), Witness::default());
        blue.p_m.parts = Probability::ONE.parts();
        for at in 500..505 {
            let packet = Packet {
                handed_on: true,
                ..Packet::new(Bytes::new(1000), millis(at), ClassId(0))
            };
            let _ = blue.enqueue(millis(at), packet, &mut seen);
            assert_eq!((blue.p_m.value(), blue.idle_since), (Probability::ONE, None));
        }
        assert_eq!(
            (blue.queue.len(), seen.full, seen.early, blue.early),
            (4, 1, 0, 0)
        );
    }

    #[test]
    fn it_is_idle_since_the_last_packet_left_or_was_flushed() {
        let (mut blue, mut seen) = (blue(), Witness::default());
        assert_eq!(blue.idle_since, Some(Instant::START));
        (1..=2).for_each(|at| put(&mut blue, at, Ecn::NotEct, &mut seen));
        assert_eq!(blue.idle_since, None);
        let _ = blue.dequeue(millis(3), &mut seen);
        assert_eq!(blue.idle_since, None);
        let _ = blue.dequeue(millis(4), &mut seen);
        assert_eq!(blue.idle_since, Some(millis(4)));
        assert!(matches!(blue.dequeue(millis(5), &mut seen), Next::Empty));
        assert_eq!(blue.idle_since, Some(millis(4)));
        (6..=7).for_each(|at| put(&mut blue, at, Ecn::NotEct, &mut seen));
        blue.flush(&mut Portion::of(2, 1), &mut seen);
        assert_eq!(
            (blue.queue.len(), blue.idle_since),
            (0, None),
            "a spent portion may have ended it or not"
        );
        blue.flush(&mut Portion::whole(), &mut seen);
        assert_eq!(blue.idle_since, Some(millis(7)), "the latest time that it knows");
        blue.clock = millis(9);
        blue.flush(&mut Portion::whole(), &mut seen);
        assert_eq!(blue.idle_since, Some(millis(7)));
    }

    #[test]
    fn one_that_takes_over_goes_on_with_the_chance_and_the_idle_time() {
        for (idle_since, expected) in [(None, millis(50)), (Some(millis(20)), millis(20))] {
            let mut former = blue();
            let (parts, frozen) = (77, millis(30));
            (former.p_m, former.early, former.idle_since) =
                (DropProbability { parts, frozen }, 5, idle_since);
            let _ = former.rng.bits();
            let mut blue = blue();
            assert_eq!(blue.take_over(millis(50), &mut former), 0);
            assert_eq!((blue.p_m.parts, blue.p_m.frozen, blue.early), (77, millis(30), 5));
            assert_eq!((blue.idle_since, blue.clock), (Some(expected), millis(50)));
            assert_eq!(blue.rng.bits(), former.rng.bits());
        }
    }

    #[test]
    fn its_state_is_shown_and_other_settings_are_adopted() {
        let mut blue = blue();
        (blue.p_m.parts, blue.early) = (1 << 30, 3);
        let gauges = |threshold, limit| {
            [
                ("probability", Value::Share(Probability::ratio(1, 4))),
                ("early", Value::Count(3)),
                ("threshold", Value::Count(threshold)),
                ("limit", Value::Count(limit)),
            ]
        };
        assert_eq!(trials::gauges(&blue), gauges(20, 20));
        let other = trials::planned("fifo", Table::default(), trials::LINK);
        assert!(!blue.retune(millis(0), &*other.plan));
        let table = Table::default().with("limit", Raw::Integer(30));
        let other = trials::planned("blue", table.with("threshold", Raw::Integer(10)), trials::LINK);
        assert!(blue.retune(millis(0), &*other.plan));
        assert_eq!(trials::gauges(&blue), gauges(10, 30));
    }
}
