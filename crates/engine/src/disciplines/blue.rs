//! `blue`: a chance of loss that grows when the queue overflows and shrinks when the link idles.
//!
//! Feng, Kandlur, Saha and Shin, "BLUE: a new class of active queue management algorithms", 1999 (ToN 10(4), 2002), section
//! 3, as ALTQ has it too. There is no average and no delay; with *p* the chance and *freeze* a time in which it stays:
//!
//! ```text
//! a packet comes and `threshold` or more are held:  p ← p + increment     if the last change is `freeze` ago
//! the link is idle:                                 p ← p − decrement     the same
//! ```
//!
//! Every arrival is hit with probability *p*: marked if it is ECN-capable, lost otherwise. Overflow speaks of a queue that is
//! too long for too many, idleness of losses that were too many, and *p* settles where neither happens.
//!
//! It holds its packets itself, since overflow is its signal. There is no timer: an idle time counts once for each whole
//! `freeze` in it, when the next packet comes. Arithmetic: *p* has 32 fractional bits and is exact.
//!
//! Departures: the paper lowers *p* once when the link becomes idle and does not say what a long idle time does; nothing is
//! hit while no packet waits, which would only punish a sparse sender.

use crate::discipline::{Discipline, Next, Reason, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Build, Check, Children, Kind, Plan, Properties};
use crate::packet::Packet;
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
    summary: "A chance of loss that grows when the queue overflows and shrinks when the link idles",
    reference: "Feng, Kandlur, Saha and Shin, \"BLUE: a new class of active queue management algorithms\", 1999",
    children: Children::None,
    settings: Settings::SETTINGS,
    class_settings: &[],
    properties: Properties::NONE,
    check,
};

settings! {
    /// Settings of `blue`.
    pub struct Settings {
        /// Packets held at most
        limit: u32 = default "200",
            "too small: bursts are lost and the link idles; too large: packets wait long, and overflow comes late",
            "ALTQ";
        /// So many packets held count as an overflow
        threshold: u32 = derived "the limit",
            "below the limit: room is left for bursts, and waits are shorter",
            "the paper's L";
        /// What the chance grows by
        increment: Probability = default "0.25 %",
            "too small: losses by overflow go on for long; too large: the link idles after each overflow",
            "the paper asks for much more than decrement; this is of the order of its experiments";
        /// What the chance shrinks by
        decrement: Probability = default "0.025 %",
            "too small: the link idles long after a load is gone; too large: the chance swings",
            "as increment";
        /// How long the chance stays after a change
        freeze: Duration = default "100 ms",
            "too small: it changes before senders can answer; too large: it follows loads slowly",
            "the paper: about a round trip";
        /// Whether packets of ECN-capable senders are marked instead of lost
        ecn: bool = default "true",
            "false: senders that understand marks lose packets for nothing",
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
            "`limit` must be at least 1: a queue of 0 loses every packet",
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
        let at = check
            .settings
            .get(key)
            .map_or(check.settings.at, |entry| entry.at);
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

/// The chance, for one queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance {
    /// In parts of 2³².
    parts: u64,
    /// Until when it stays.
    frozen: Instant,
}

impl Chance {
    /// No chance.
    pub(crate) const NONE: Self = Self {
        parts: 0,
        frozen: Instant::START,
    };

    /// The queue is too long.
    pub(crate) fn grow(&mut self, now: Instant, by: u64, freeze: Duration) {
        if now >= self.frozen {
            self.parts = (self.parts + by).min(Probability::ONE.parts());
            self.frozen = now + freeze;
        }
    }

    /// The queue was empty from `since` until now: once for each freeze.
    pub(crate) fn shrink(&mut self, since: Instant, now: Instant, by: u64, freeze: Duration) {
        let first = since.max(self.frozen);
        if now < first || self.parts == 0 {
            return;
        }
        let changes = now.since(first).nanos() / freeze.nanos() + 1;
        self.parts = self.parts.saturating_sub(by.saturating_mul(changes));
        self.frozen = first + freeze.times(changes);
    }

    /// Whether it strikes a packet.
    #[inline]
    pub(crate) fn strikes(&self, rng: &mut Rng) -> bool {
        rng.chance(self.probability())
    }

    /// Its value.
    pub(crate) fn probability(&self) -> Probability {
        Probability::from_parts(self.parts)
    }
}

#[derive(Debug)]
struct Blue {
    plan: BluePlan,
    rng: Rng,
    queue: VecDeque<Packet>,
    chance: Chance,
    /// Since when nothing is held, if so.
    idle_since: Option<Instant>,
    /// The latest time seen; a flush is told none.
    clock: Instant,
    hits: u64,
}

impl Blue {
    fn new(plan: BluePlan, rng: Rng) -> Self {
        Self {
            plan,
            rng,
            queue: VecDeque::new(),
            chance: Chance::NONE,
            idle_since: Some(Instant::START),
            clock: Instant::START,
            hits: 0,
        }
    }

    /// The queue was empty until now.
    fn end_idle(&mut self, now: Instant) {
        let Some(since) = self.idle_since.take() else {
            return;
        };
        self.chance
            .shrink(since, now, self.plan.decrement, self.plan.freeze);
    }

    /// Whether the arrival is lost, and why. May mark it.
    fn lost(&mut self, now: Instant, packet: &mut Packet, sink: &mut dyn Sink) -> Option<Reason> {
        if self.queue.len() >= self.plan.threshold {
            self.chance.grow(now, self.plan.increment, self.plan.freeze);
        }
        if self.queue.len() >= self.plan.limit {
            return Some(Reason::Full);
        }
        if self.queue.is_empty() || !self.chance.strikes(&mut self.rng) {
            return None;
        }
        self.hits += 1;
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
        self.end_idle(now);
        if let Some(why) = self.lost(now, &mut packet, sink) {
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
            // A packet time early, but not every host asks an empty queue again.
            self.idle_since = Some(now);
        }
        Next::Ready(packet)
    }

    fn flush(&mut self, sink: &mut dyn Sink) {
        self.queue
            .drain(..)
            .for_each(|packet| sink.drop(packet, Reason::Flushed));
        self.idle_since = self.idle_since.or(Some(self.clock));
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        out.gauge("probability", Value::Share(self.chance.probability()));
        out.gauge("hits", Value::Count(self.hits));
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
    use crate::units::Bytes;

    #[derive(Default)]
    struct Seen {
        early: u64,
        full: u64,
        marked: u64,
    }

    impl Sink for Seen {
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

    fn put(blue: &mut Blue, at: u64, ecn: Ecn, seen: &mut Seen) {
        let packet = Packet {
            ecn,
            ..Packet::new(Bytes::new(1000), millis(at), ClassId(0))
        };
        let _ = blue.enqueue(millis(at), packet, seen);
    }

    #[test]
    fn overflow_raises_the_chance_once_in_a_freeze() {
        let (mut blue, mut seen) = (blue(), Seen::default());
        (0..250).for_each(|at| put(&mut blue, at, Ecn::NotEct, &mut seen));
        assert_eq!(blue.chance.parts, 3 << 26, "at 20, 120 and 220 ms");
        assert!(seen.full > 200);
    }

    #[test]
    fn idle_time_lowers_the_chance_once_in_a_freeze_and_never_below_nothing() {
        let (mut blue, mut seen) = (blue(), Seen::default());
        blue.chance.parts = 10 << 22;
        put(&mut blue, 0, Ecn::NotEct, &mut seen);
        blue.chance.parts = 10 << 22;
        assert!(matches!(blue.dequeue(millis(200), &mut seen), Next::Ready(_)));
        put(&mut blue, 450, Ecn::NotEct, &mut seen);
        assert_eq!(blue.chance.parts, 7 << 22, "at 200, 300 and 400 ms");
        assert!(matches!(blue.dequeue(millis(460), &mut seen), Next::Ready(_)));
        put(&mut blue, 490, Ecn::NotEct, &mut seen);
        assert_eq!(blue.chance.parts, 7 << 22, "frozen until 500 ms");
        let _ = blue.dequeue(millis(495), &mut seen);
        let _ = blue.dequeue(millis(495), &mut seen);
        put(&mut blue, 1_000_000, Ecn::NotEct, &mut seen);
        assert_eq!(blue.chance.parts, 0);
    }

    #[test]
    fn the_chance_settles_where_the_load_fits_the_link() {
        let (mut blue, mut seen) = (blue(), Seen::default());
        // Five packets come for every four that leave: 20 % must go.
        for at in 0..400_000 {
            put(&mut blue, at, Ecn::NotEct, &mut seen);
            if at % 5 != 0 {
                let _ = blue.dequeue(millis(at), &mut seen);
            }
        }
        let chance = blue.chance.probability().as_f64();
        assert!((0.17..0.24).contains(&chance), "{chance}");
        assert!(
            seen.full * 20 < seen.early,
            "{} by overflow, {} by chance",
            seen.full,
            seen.early
        );
    }

    #[test]
    fn ecn_capable_packets_are_marked() {
        let (mut blue, mut seen) = (blue(), Seen::default());
        for at in 0..1_000 {
            blue.chance.parts = Probability::ONE.parts();
            put(&mut blue, at, Ecn::Ect0, &mut seen);
            if at > 0 {
                let _ = blue.dequeue(millis(at), &mut seen);
            }
        }
        assert_eq!((seen.marked, seen.early), (999, 0));
    }
}
