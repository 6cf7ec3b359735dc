//! `pie`: Proportional Integral controller Enhanced, which keeps a queue's delay at a target by
//! dropping arrivals at random.
//!
//! Pan, Natarajan, Baker and White, RFC 8033 (2017), sections 4 and 5. Every *T* (`update`, the
//! RFC's T_UPDATE), with *τ* the delay now (qdelay), *τ'* that of the last update (qdelay_old) and
//! *p* the drop probability (drop_prob):
//!
//! ```text
//! Δ = α (τ − target) + β (τ − τ')                 α = 1/8 Hz · T / 15 ms,  β = 5/4 Hz
//! Δ ← Δ / 2048, 512, 128, 32, 8, 2                while p < 10⁻⁶, 10⁻⁵, 10⁻⁴, 10⁻³, 10⁻², 10⁻¹
//! Δ ← min(Δ, 2 %)                                 if p ≥ 10 %
//! p ← p + Δ;  p ← 0.98 p if τ = τ' = 0;           0 ≤ p ≤ 1
//! burst_allowance ← burst_allowance − T, at least 0;  `burst` again if p = 0 and τ, τ' < target / 2
//! ```
//!
//! An arrival is dropped with probability *p*, but not while *burst_allowance* > 0, nor while τ' <
//! target / 2 and p < 20 %, nor with a backlog of two full packets or less. With `derandomize`,
//! *accu_prob*, the sum of *p* since the last drop, spaces drops: below 0.85 nothing is dropped, at
//! 8.5 the packet is. An ECN-capable packet is marked instead while p < `mark_below`.
//!
//! The delay is the age of the oldest packet (the RFC's timestamp variant; the departure rate is
//! not estimated), so it queues its packets itself, as `codel` does. There is no timer: as nothing
//! happens between two calls, updates that are due are made at the next one, each with the delay
//! that the queue had at its time, which is exactly what a timer would have seen. Catching up ends
//! at an update that changes nothing, or after 1,024 (15 s): by then p is 0 or 1.
//!
//! Arithmetic: p has 60 fractional bits, and each step is rounded toward zero.
//!
//! Departures: α grows with *T*, so that the integral does not depend on it; a burst is allowed
//! anew at an update, not between two; all packets are alike, whatever their length.

use crate::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties};
use crate::link::Link;
use crate::packet::Packet;
use crate::portion::Portion;
use crate::random::Rng;
use crate::settings;
use crate::settings::Problem;
use crate::units::{Bytes, Duration, Instant, Probability};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "pie",
    summary: "Keeps the queueing delay at a target: drops or marks arrivals at random, by a controlled probability",
    reference: "Pan, Natarajan, Baker and White, RFC 8033, \"Proportional integral controller enhanced\", 2017",
    children: Children::None,
    settings: Settings::SETTINGS,
    class_settings: &[],
    properties: Properties {
        keeps_order: true,
        conserves_work: true,
        elsewhere: &["fq_pie"],
        takes_over: true,
        ..Properties::NONE
    },
    check,
};

settings! {
    /// Settings of `pie`.
    pub struct Settings {
        /// The target delay
        target: Duration = derived "15 ms, or the time to send 1.5 full packets if that is longer",
            "too small: the link idles; too large: queueing delay for nothing",
            "RFC 8033, section 4.2 (QDELAY_REF)";
        /// How often the drop probability is updated (T_UPDATE)
        update: Duration = default "15 ms",
            "too small: work, and noise; too large: reacts late",
            "RFC 8033, section 4.2 (T_UPDATE)";
        /// How long a burst passes without drops after an idle period (MAX_BURST)
        burst: Duration = default "150 ms",
            "too small: slow starts meet drops early; too large: long queues after each idle period",
            "RFC 8033, section 4.4 (MAX_BURST)";
        /// Whether ECN-capable packets are marked instead of dropped
        ecn: bool = default "true",
            "false: ECN-capable senders suffer drops for nothing",
            "RFC 8033, section 5.1";
        /// The drop probability from which ECN-capable packets are dropped too
        mark_below: Probability = default "10 %",
            "too small: drops instead of marks; too large: senders that ignore marks take over the queue",
            "RFC 8033, section 5.1 (mark_ecnth)";
        /// Whether drops are kept apart
        derandomize: bool = default "true",
            "false: drops cluster at times, and one sender suffers two",
            "RFC 8033, section 5.4";
        /// Packets queued at most
        limit: u32 = default "1000",
            "too small: bursts are dropped before the control law acts; too large: only memory",
            "the usual length of a kernel's queue";
    }
}

/// 1.0 as a probability.
const ONE: u64 = 1 << 60;
/// Updates that are made at once at most.
const MAX_UPDATES: u32 = 1_024;
/// By how much a change is divided while the probability is below a bound.
const SCALES: [(u64, i128); 6] = [
    (ONE / 1_000_000, 2_048),
    (ONE / 100_000, 512),
    (ONE / 10_000, 128),
    (ONE / 1_000, 32),
    (ONE / 100, 8),
    (ONE / 10, 2),
];
/// The update interval for which α is 1/8 Hz.
const REFERENCE: i128 = 15_000_000;
const NANOS: i128 = 1_000_000_000;

/// A checked plan.
#[derive(Clone, PartialEq, Debug)]
struct PiePlan {
    target: Duration,
    update: Duration,
    burst: Duration,
    /// ECN-capable packets are marked below this probability.
    mark_below: u64,
    derandomize: bool,
    limit: usize,
    mtu: Bytes,
}

impl PiePlan {
    /// The error names the setting and its fault.
    fn new(settings: &Settings, link: Link) -> Result<Self, (&'static str, String)> {
        let packets = link.bandwidth.time_to_send(Bytes::new(link.mtu.get() * 3 / 2));
        let second = Duration::from_secs(1);
        let target = settings
            .target
            .unwrap_or(packets.clamp(Duration::from_millis(15), second));
        if target == Duration::ZERO || target > second.times(60) {
            return Err(("target", "`target` must be more than 0 and at most 60 s".into()));
        }
        if settings.update < Duration::from_micros(10) || settings.update > second {
            return Err(("update", "`update` must be from 10 us to 1 s".into()));
        }
        if settings.limit == 0 {
            return Err((
                "limit",
                "`limit` must be at least 1: a queue of 0 drops every packet".into(),
            ));
        }
        let parts = |p: Probability| p.parts() << 28;
        Ok(Self {
            target,
            update: settings.update,
            burst: settings.burst,
            mark_below: if settings.ecn {
                parts(settings.mark_below)
            } else {
                0
            },
            derandomize: settings.derandomize,
            limit: settings.limit as usize,
            mtu: link.mtu,
        })
    }

    /// The drop probability after an update.
    fn next(&self, drop_prob: u64, delay: Duration, former: Duration) -> u64 {
        // Above a minute, delays are all alike.
        let signed = |span: Duration| i128::from(span.nanos().min(60_000_000_000));
        let one = i128::from(ONE);
        let integral = (signed(delay) - signed(self.target)) * signed(self.update) * one / (8 * REFERENCE);
        let proportional = (signed(delay) - signed(former)) * one * 5 / 4;
        let mut change = (integral + proportional) / NANOS;
        if let Some((_, scale)) = SCALES.iter().find(|(bound, _)| drop_prob < *bound) {
            change /= scale;
        } else {
            change = change.min(one / 50);
        }
        let next = (i128::from(drop_prob) + change).clamp(0, one) as u64;
        match (delay, former) {
            (Duration::ZERO, Duration::ZERO) => next - next / 50,
            _ => next,
        }
    }
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let settings = Settings::read(check.settings, &[], check.problems)?;
    match PiePlan::new(&settings, check.link) {
        Ok(plan) => Some(Arc::new(plan)),
        Err((key, message)) => {
            let at = check.settings.place(key);
            check.problems.push(Problem::new(at, message));
            None
        }
    }
}

impl Plan for PiePlan {
    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        Box::new(Pie::new(self.clone(), cx.rng()))
    }
}

#[derive(Debug)]
struct Pie {
    plan: PiePlan,
    rng: Rng,
    queue: VecDeque<Packet>,
    bytes: Bytes,
    /// In parts of [`ONE`].
    drop_prob: u64,
    /// The sum of probabilities since the last drop.
    accu_prob: u64,
    /// What is left of the burst that passes without drops.
    burst_allowance: Duration,
    /// At the last update.
    qdelay_old: Duration,
    next_update: Instant,
    early: u64,
}

impl Pie {
    fn new(plan: PiePlan, rng: Rng) -> Self {
        Self {
            rng,
            queue: VecDeque::new(),
            bytes: Bytes::ZERO,
            drop_prob: 0,
            accu_prob: 0,
            burst_allowance: plan.burst,
            qdelay_old: Duration::ZERO,
            next_update: Instant::START + plan.update,
            early: 0,
            plan,
        }
    }

    /// Makes the updates that have become due.
    fn catch_up(&mut self, now: Instant) {
        if now < self.next_update {
            return;
        }
        for _ in 0..MAX_UPDATES {
            let calm = (self.drop_prob, self.qdelay_old, self.burst_allowance)
                == (0, Duration::ZERO, self.plan.burst);
            if now < self.next_update || calm && self.queue.is_empty() {
                break;
            }
            let oldest = self
                .queue
                .front()
                .map_or(self.next_update, |packet| packet.arrived);
            self.update(self.next_update.since(oldest));
            self.next_update = self.next_update + self.plan.update;
        }
        if now >= self.next_update {
            let missed = now.since(self.next_update).nanos() / self.plan.update.nanos() + 1;
            self.next_update = self.next_update + self.plan.update.times(missed);
        }
    }

    fn update(&mut self, delay: Duration) {
        self.drop_prob = self.plan.next(self.drop_prob, delay, self.qdelay_old);
        let half = Duration::from_nanos(self.plan.target.nanos() / 2);
        self.burst_allowance = Duration::from_nanos(
            self.burst_allowance
                .nanos()
                .saturating_sub(self.plan.update.nanos()),
        );
        if self.drop_prob == 0 && delay < half && self.qdelay_old < half {
            self.burst_allowance = self.plan.burst;
        }
        self.qdelay_old = delay;
    }

    /// Whether to drop or mark this arrival.
    fn should_drop(&mut self) -> bool {
        let calm = self.qdelay_old.nanos() < self.plan.target.nanos() / 2 && self.drop_prob < ONE / 5;
        if self.burst_allowance > Duration::ZERO || calm || self.bytes <= self.plan.mtu.times(2) {
            return false;
        }
        if self.drop_prob == 0 {
            self.accu_prob = 0;
            return false;
        }
        // At most 8.5, and one more: within 64 bits.
        self.accu_prob += self.drop_prob;
        let dice = self.rng.bits() >> 4 < self.drop_prob;
        let drop = match self.plan.derandomize {
            true => self.accu_prob >= ONE / 100 * 85 && (dice || self.accu_prob >= ONE / 2 * 17),
            false => dice,
        };
        if drop || !self.plan.derandomize {
            self.accu_prob = 0;
        }
        drop
    }
}

impl Discipline for Pie {
    fn enqueue(&mut self, now: Instant, mut packet: Packet, sink: &mut dyn Sink) -> Verdict {
        self.catch_up(now);
        let dropped = if self.queue.len() >= self.plan.limit {
            Some(Reason::Full)
        } else if !packet.handed_on && self.should_drop() {
            // What was handed on was judged when it arrived.
            self.early += 1;
            let marked = self.drop_prob < self.plan.mark_below && packet.mark();
            if marked {
                sink.mark(&packet, Reason::Early);
            }
            (!marked).then_some(Reason::Early)
        } else {
            None
        };
        if let Some(why) = dropped {
            self.accu_prob = 0;
            sink.drop(packet, why);
            return Verdict::Dropped(why);
        }
        self.bytes += packet.len;
        self.queue.push_back(packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Instant, _sink: &mut dyn Sink) -> Next<Packet> {
        self.catch_up(now);
        let Some(packet) = self.queue.pop_front() else {
            return Next::Empty;
        };
        self.bytes -= packet.len;
        Next::Ready(packet)
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        if portion.flush(sink, || self.queue.pop_front()) {
            self.bytes = Bytes::ZERO;
        }
    }

    fn take_over(&mut self, now: Instant, former: &mut dyn Discipline) -> u32 {
        if let Some(former) = former.of_type::<Self>() {
            // By what it holds now.
            former.catch_up(now);
            *self = Self {
                plan: self.plan.clone(),
                rng: former.rng.clone(),
                queue: VecDeque::new(),
                bytes: Bytes::ZERO,
                ..*former
            };
        }
        0
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        out.gauge("delay", Value::Duration(self.qdelay_old));
        out.gauge("target", Value::Duration(self.plan.target));
        out.gauge(
            "probability",
            Value::Share(Probability::from_parts(self.drop_prob >> 28)),
        );
        out.gauge("burst", Value::Duration(self.burst_allowance));
        out.gauge("early", Value::Count(self.early));
        out.gauge("limit", Value::Count(self.plan.limit as u64));
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let Some(plan) = plan.downcast_ref::<PiePlan>() else {
            return false;
        };
        if plan.update != self.plan.update {
            self.catch_up(now);
            self.next_update = now + plan.update;
        }
        self.burst_allowance = if self.burst_allowance == self.plan.burst {
            plan.burst
        } else {
            self.burst_allowance.min(plan.burst)
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
    use crate::units::Bandwidth;

    const LINK: Link = Link::new(Bandwidth::mbit(8), Bytes::new(1000));

    #[derive(Default)]
    struct Witness {
        dropped: u32,
        marked: u32,
    }

    impl Sink for Witness {
        fn drop(&mut self, _packet: Packet, _why: Reason) {
            self.dropped += 1;
        }
        fn mark(&mut self, packet: &Packet, why: Reason) {
            assert_eq!((packet.ecn, why), (Ecn::Ce, Reason::Early));
            self.marked += 1;
        }
    }

    fn pie(table: Table) -> Pie {
        let settings = Settings::read(&table, &[], &mut Vec::new()).expect("good settings");
        Pie::new(
            PiePlan::new(&settings, LINK).expect("good settings"),
            Seed(4).stream(),
        )
    }

    fn packet(at: Instant, ecn: Ecn) -> Packet {
        Packet {
            ecn,
            ..Packet::new(Bytes::new(1000), at, ClassId(0))
        }
    }

    fn millis(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    /// The RFC's control law in floating point.
    fn law(p: f64, delay: f64, former: f64) -> f64 {
        let mut change = 0.125 * (delay - 0.015) + 1.25 * (delay - former);
        let scales = [
            (1e-6, 2048.0),
            (1e-5, 512.0),
            (1e-4, 128.0),
            (1e-3, 32.0),
            (1e-2, 8.0),
            (1e-1, 2.0),
        ];
        match scales.iter().find(|(bound, _)| p < *bound) {
            Some((_, scale)) => change /= scale,
            None => change = change.min(0.02),
        }
        let p = p + change;
        (if delay == 0.0 && former == 0.0 {
            p * 0.98
        } else {
            p
        })
        .clamp(0.0, 1.0)
    }

    #[test]
    fn the_chance_follows_the_law_at_every_scale() {
        let plan = pie(Table::default()).plan;
        let as_real = |drop_prob: u64| drop_prob as f64 / ONE as f64;
        for p in [0.0, 5e-7, 5e-6, 5e-5, 5e-4, 5e-3, 5e-2, 0.5, 1.0] {
            for (delay, former) in [
                (0, 0),
                (15, 15),
                (20, 15),
                (15, 20),
                (30, 10),
                (100, 0),
                (0, 100),
                (900, 0),
            ] {
                let found = plan.next(
                    (p * ONE as f64) as u64,
                    Duration::from_millis(delay),
                    Duration::from_millis(former),
                );
                let expected = law(p, delay as f64 / 1e3, former as f64 / 1e3);
                assert!(
                    (as_real(found) - expected).abs() < 1e-12,
                    "{p}, {delay}, {former}: {} {expected}",
                    as_real(found)
                );
            }
        }
    }

    #[test]
    fn a_burst_after_a_calm_passes_and_a_longer_one_is_dropped() {
        let (mut pie, mut seen) = (pie(Table::default()), Witness::default());
        let start = 1_000;
        // Twice the link's rate: the delay exceeds target after 30 ms.
        let mut first = None;
        for at in start..start + 2_000 {
            for _ in 0..2 {
                let _ = pie.enqueue(millis(at), packet(millis(at), Ecn::NotEct), &mut seen);
            }
            if seen.dropped > 0 {
                first.get_or_insert(at - start);
            }
            let _ = pie.dequeue(millis(at), &mut seen);
        }
        let first = first.expect("an overload is hit");
        assert!((150..400).contains(&first), "first hit after {first} ms");
    }

    #[test]
    fn the_chance_decays_to_nothing_when_idle_in_bounded_work() {
        let mut pie = pie(Table::default());
        (
            pie.drop_prob,
            pie.qdelay_old,
            pie.next_update,
            pie.burst_allowance,
        ) = (ONE / 2, Duration::from_millis(20), millis(15), Duration::ZERO);
        let (mut expected, mut former) = (0.5, 0.020);
        for update in 1..=100 {
            pie.catch_up(millis(15 * update));
            expected = law(expected, 0.0, former);
            former = 0.0;
            assert!((pie.drop_prob as f64 / ONE as f64 - expected).abs() < 1e-12);
        }
        assert!(expected < 0.05);
        // A year later, at once.
        pie.catch_up(millis(31_536_000_000));
        assert_eq!((pie.drop_prob, pie.burst_allowance), (0, pie.plan.burst));
        assert!(
            pie.next_update > millis(31_536_000_000) && pie.next_update.nanos().is_multiple_of(15_000_000)
        );
    }

    #[test]
    fn updates_made_late_are_those_a_timer_would_have_made() {
        let run = |step: u64| {
            let (mut pie, mut seen) = (pie(Table::default()), Witness::default());
            for _ in 0..50 {
                let _ = pie.enqueue(millis(0), packet(millis(0), Ecn::NotEct), &mut seen);
            }
            (0..=600)
                .step_by(step as usize)
                .for_each(|at| pie.catch_up(millis(at)));
            (
                pie.drop_prob,
                pie.qdelay_old,
                pie.burst_allowance,
                pie.next_update,
            )
        };
        assert_eq!(run(1), run(600));
        assert!(run(600).0 > 0);
    }

    #[test]
    fn a_head_that_never_leaves_brings_the_chance_to_one_in_bounded_work() {
        let (mut pie, mut seen) = (pie(Table::default()), Witness::default());
        let _ = pie.enqueue(millis(0), packet(millis(0), Ecn::NotEct), &mut seen);
        pie.catch_up(Instant::from_nanos(u64::MAX / 2));
        assert_eq!(pie.drop_prob, ONE);
    }

    #[test]
    fn the_usual_target_is_a_packet_and_a_half_from_15_ms_to_1_s() {
        let target = |bandwidth| {
            let settings = Settings::read(&Table::default(), &[], &mut Vec::new()).expect("none");
            let link = Link::new(bandwidth, Bytes::new(1_000));
            PiePlan::new(&settings, link).expect("good settings").target
        };
        // 1,500 bytes.
        let rates = [8_000_000, 800_000, 799_000, 100_000, 12_000, 1_000];
        let found = rates.map(|bits| target(Bandwidth::bits_per_sec(bits)).nanos());
        assert_eq!(
            found,
            [
                15_000_000,
                15_000_000,
                15_018_774,
                120_000_000,
                1_000_000_000,
                1_000_000_000
            ]
        );
    }

    #[test]
    fn times_beyond_their_limits_and_a_queue_of_nothing_are_refused() {
        let refused = |key: &str, value: &str| {
            let table = Table::default().text(key, value);
            let settings = Settings::read(&table, &[], &mut Vec::new()).expect("settings");
            PiePlan::new(&settings, LINK).err().map(|(key, _)| key)
        };
        for (key, value) in [
            ("target", "0 s"),
            ("target", "60.000000001 s"),
            ("update", "9.999 us"),
            ("update", "1.000000001 s"),
        ] {
            assert_eq!(refused(key, value), Some(key), "{key} = {value}");
        }
        for (key, value) in [
            ("target", "1 ns"),
            ("target", "60 s"),
            ("update", "10 us"),
            ("update", "1 s"),
        ] {
            assert_eq!(refused(key, value), None, "{key} = {value}");
        }
        let limited = |limit| {
            let table = Table::default().with("limit", Raw::Integer(limit));
            let settings = Settings::read(&table, &[], &mut Vec::new()).expect("settings");
            PiePlan::new(&settings, LINK).is_ok()
        };
        assert!(limited(1) && !limited(0));
    }

    #[test]
    fn nothing_is_dropped_in_a_burst_in_a_calm_and_of_two_packets() {
        // What a sum of 8.5 lets none escape is not dropped: RFC 8033, section 5.1 and 4.1.
        let drops = |burst: u64, former: u64, drop_prob: u64, bytes: u64| {
            let mut pie = pie(Table::default());
            pie.burst_allowance = Duration::from_nanos(burst);
            (pie.qdelay_old, pie.drop_prob) = (Duration::from_nanos(former), drop_prob);
            (pie.bytes, pie.accu_prob) = (Bytes::new(bytes), ONE / 2 * 17);
            pie.should_drop()
        };
        let (half, fifth) = (7_500_000, ONE / 5);
        assert!(drops(0, half, fifth, 2_001));
        assert!(!drops(1, half, fifth, 2_001), "a burst is allowed");
        assert!(
            !drops(0, half, fifth, 2_000),
            "two packets of the link's size wait"
        );
        assert!(!drops(0, half - 1, fifth - 1, 2_001), "calm");
        assert!(drops(0, half, fifth - 1, 2_001), "half the target is not calm");
        assert!(drops(0, half - 1, fifth, 2_001), "nor is a chance of a fifth");
        assert!(!drops(0, half, 0, 2_001), "a chance of nothing");
    }

    #[test]
    fn a_burst_is_allowed_anew_after_two_delays_below_half_the_target_without_drops() {
        let allowed = |drop_prob: u64, former: u64, delay: u64| {
            let mut pie = pie(Table::default());
            (pie.drop_prob, pie.qdelay_old) = (drop_prob, Duration::from_nanos(former));
            pie.burst_allowance = Duration::ZERO;
            pie.update(Duration::from_nanos(delay));
            assert_eq!(pie.qdelay_old.nanos(), delay);
            pie.burst_allowance == pie.plan.burst
        };
        let half = 7_500_000;
        assert!(allowed(0, half - 1, half - 1));
        assert!(!allowed(0, half, half - 1));
        assert!(!allowed(0, half - 1, half));
        assert!(!allowed(ONE / 2, half - 1, half - 1));
    }

    #[test]
    fn an_allowance_shrinks_by_an_update_at_a_time() {
        let mut pie = pie(Table::default());
        pie.update(Duration::from_millis(40));
        assert_eq!(pie.plan.burst - pie.burst_allowance, pie.plan.update);
    }

    /// Drops and marks among `n` arrivals at a constant probability, and the shortest gap between
    /// two.
    fn standing(pie: &mut Pie, drop_prob: u64, ecn: Ecn, n: u32) -> (Witness, u32) {
        let (mut seen, mut shortest, mut last) = (Witness::default(), u32::MAX, None);
        for _ in 0..10 {
            pie.bytes += Bytes::new(1000);
            pie.queue.push_back(packet(millis(0), ecn));
        }
        for i in 0..n {
            (pie.drop_prob, pie.burst_allowance, pie.qdelay_old) =
                (drop_prob, Duration::ZERO, Duration::from_millis(20));
            let before = seen.dropped + seen.marked;
            if pie.enqueue(millis(0), packet(millis(0), ecn), &mut seen) == Verdict::Queued {
                let _ = pie.dequeue(millis(0), &mut seen);
            }
            if seen.dropped + seen.marked > before {
                shortest = shortest.min(last.map_or(u32::MAX, |last| i - last));
                last = Some(i);
            }
        }
        (seen, shortest)
    }

    #[test]
    fn drops_are_kept_apart_unless_they_are_left_to_chance() {
        let (_, shortest) = standing(&mut pie(Table::default()), ONE / 20, Ecn::NotEct, 20_000);
        assert_eq!(shortest, 17, "0.85 / 5 %");
        let random = Table::default().with("derandomize", Raw::Boolean(false));
        let (seen, shortest) = standing(&mut pie(random), ONE / 20, Ecn::NotEct, 20_000);
        assert_eq!(shortest, 1);
        assert!((850..1_150).contains(&seen.dropped), "{}", seen.dropped);
    }

    #[test]
    fn ecn_capable_packets_are_marked_below_the_threshold_and_dropped_above() {
        let (seen, _) = standing(&mut pie(Table::default()), ONE / 11, Ecn::Ect0, 2_000);
        assert!(seen.marked > 50 && seen.dropped == 0);
        let (seen, _) = standing(&mut pie(Table::default()), ONE / 9, Ecn::Ect0, 2_000);
        assert!(seen.dropped > 50 && seen.marked == 0);
    }

    #[test]
    fn a_change_is_scaled_by_the_chance_below_each_bound_and_not_at_it() {
        let plan = pie(Table::default()).plan;
        let late = Duration::from_millis(30);
        // 1/8 Hz · 15 ms, of a delay that does not change.
        let whole = ONE / 8 * 15 / 1_000;
        for (i, (bound, scale)) in SCALES.into_iter().enumerate() {
            let next = |p: u64| plan.next(p, late, late) - p;
            let above = SCALES.get(i + 1).map_or(1, |(_, scale)| *scale as u64);
            assert_eq!(next(bound - 1), whole / scale as u64);
            assert_eq!(next(bound), whole / above, "at {bound}");
        }
    }

    #[test]
    fn a_chance_decays_by_a_fiftieth_if_there_was_no_delay_twice_and_is_never_below_nothing() {
        let plan = pie(Table::default()).plan;
        let (none, some) = (Duration::ZERO, Duration::from_nanos(1));
        let alpha = ONE / 8 * 15 / 1_000;
        let left = ONE / 2 - alpha;
        // With the change of −α · target in each.
        assert_eq!(plan.next(ONE / 2, none, none), left - left / 50);
        assert!(plan.next(ONE / 2, some, none) >= left);
        assert!(plan.next(ONE / 2, none, some) > left - left / 50);
        assert_eq!(plan.next(1, none, Duration::from_secs(1)), 0);
        assert_eq!(plan.next(ONE, Duration::from_secs(1), none), ONE);
        let hour = Duration::from_secs(3_600);
        assert_eq!(
            plan.next(ONE / 2, hour, Duration::from_secs(60)),
            ONE / 2 + ONE / 50
        );
    }

    /// One whose next number of the dice is below a half, and that number.
    fn foreseen(table: &Table) -> (Pie, u64) {
        let mut pie = pie(table.clone());
        pie.burst_allowance = Duration::ZERO;
        pie.qdelay_old = Duration::from_millis(20);
        pie.bytes = Bytes::new(5_000);
        loop {
            let dice = pie.rng.clone().bits() >> 4;
            if (1..ONE / 2).contains(&dice) {
                return (pie, dice);
            }
            let _ = pie.rng.bits();
        }
    }

    #[test]
    fn the_dice_decide_from_a_sum_of_85_percent_on_and_not_from_eight_and_a_half_on() {
        let drops = |chance_beyond_dice: u64, sum: u64| {
            let (mut pie, dice) = foreseen(&Table::default());
            pie.drop_prob = dice + chance_beyond_dice;
            pie.accu_prob = sum - pie.drop_prob;
            let drop = pie.should_drop();
            assert_eq!(pie.accu_prob, if drop { 0 } else { sum });
            drop
        };
        let (least, most) = (ONE / 100 * 85, ONE / 2 * 17);
        assert!(drops(1, least) && !drops(1, least - 1));
        assert!(!drops(0, least) && !drops(0, most - 1));
        assert!(drops(0, most));
    }

    #[test]
    fn dice_alone_decide_without_a_sum() {
        let random = Table::default().with("derandomize", Raw::Boolean(false));
        for (more, expected) in [(1, true), (0, false)] {
            let (mut pie, dice) = foreseen(&random);
            (pie.drop_prob, pie.accu_prob) = (dice + more, 7);
            assert_eq!((pie.should_drop(), pie.accu_prob), (expected, 0));
        }
    }

    #[test]
    fn a_chance_of_nothing_begins_the_sum_anew() {
        let (mut pie, _) = foreseen(&Table::default());
        (pie.drop_prob, pie.accu_prob) = (0, 7);
        assert_eq!((pie.should_drop(), pie.accu_prob), (false, 0));
    }

    #[test]
    fn a_queue_holds_its_limit_and_knows_its_bytes() {
        let (mut pie, mut seen) = (pie(Table::default()), Witness::default());
        pie.plan.limit = 3;
        let put = |pie: &mut Pie, seen: &mut Witness| {
            pie.accu_prob = 5;
            pie.enqueue(millis(0), packet(millis(0), Ecn::NotEct), seen)
        };
        for held in 1..=3 {
            assert_eq!(put(&mut pie, &mut seen), Verdict::Queued);
            assert_eq!((pie.bytes.get(), pie.accu_prob), (held * 1_000, 5));
        }
        assert_eq!(put(&mut pie, &mut seen), Verdict::Dropped(Reason::Full));
        assert_eq!((pie.bytes.get(), pie.accu_prob, pie.early), (3_000, 0, 0));
        assert!(matches!(pie.dequeue(millis(0), &mut seen), Next::Ready(_)));
        assert_eq!(pie.bytes.get(), 2_000);
        pie.flush(&mut Portion::whole(), &mut seen);
        assert_eq!((pie.bytes.get(), pie.queue.len(), seen.dropped), (0, 0, 3));
        assert!(matches!(pie.dequeue(millis(0), &mut seen), Next::Empty));
    }

    #[test]
    fn signals_are_counted_and_what_was_handed_on_gets_none() {
        let (mut pie, mut seen) = (pie(Table::default()), Witness::default());
        let mut put = |pie: &mut Pie, ecn, handed_on| {
            (pie.accu_prob, pie.burst_allowance) = (ONE / 2 * 17, Duration::ZERO);
            pie.qdelay_old = Duration::from_millis(20);
            let packet = Packet {
                handed_on,
                ..packet(millis(0), ecn)
            };
            pie.enqueue(millis(0), packet, &mut seen)
        };
        pie.bytes = Bytes::new(3_000);
        pie.drop_prob = pie.plan.mark_below;
        assert_eq!(put(&mut pie, Ecn::Ect0, true), Verdict::Queued);
        assert_eq!(pie.early, 0);
        let early = Verdict::Dropped(Reason::Early);
        assert_eq!(put(&mut pie, Ecn::Ect0, false), early, "not below");
        assert_eq!(pie.early, 1);
        pie.drop_prob = pie.plan.mark_below - 1;
        assert_eq!(put(&mut pie, Ecn::Ect0, false), Verdict::Queued);
        assert_eq!(put(&mut pie, Ecn::NotEct, false), early);
        assert_eq!(pie.early, 3);
        assert_eq!((seen.dropped, seen.marked), (2, 1));
    }

    #[test]
    fn without_ecn_nothing_is_marked() {
        let plan = |ecn| pie(Table::default().with("ecn", Raw::Boolean(ecn))).plan;
        assert_eq!(plan(false).mark_below, 0);
        assert!((429_496_729..=429_496_730).contains(&(plan(true).mark_below >> 28)));
    }

    #[test]
    fn updates_are_due_at_whole_intervals_and_more_than_enough_are_skipped() {
        let (mut pie, mut seen) = (pie(Table::default()), Witness::default());
        pie.catch_up(Instant::from_nanos(14_999_999));
        assert_eq!(pie.next_update, millis(15));
        pie.catch_up(millis(15));
        assert_eq!(pie.next_update, millis(30), "a calm is skipped");
        pie.catch_up(Instant::from_nanos(74_999_999));
        assert_eq!(pie.next_update, millis(75));
        let _ = pie.enqueue(millis(74), packet(millis(74), Ecn::NotEct), &mut seen);
        pie.catch_up(millis(75));
        assert_eq!(
            (pie.next_update, pie.qdelay_old),
            (millis(90), Duration::from_millis(1))
        );
        pie.catch_up(Instant::from_nanos(75_000_000_000 + 1));
        assert_eq!(pie.next_update, millis(75_015));
        assert_eq!(
            pie.qdelay_old,
            Duration::from_millis(1_024 * 15 + 1),
            "of 1,024 more"
        );
    }

    #[test]
    fn another_interval_begins_at_once_and_a_whole_allowance_stays_whole() {
        let other = |key: &str, value: &str| {
            let table = Table::default().text(key, value);
            trials::planned("pie", table, LINK).plan
        };
        let mut pie = pie(Table::default());
        let fifo = trials::planned("fifo", Table::default(), LINK);
        assert!(!pie.retune(millis(7), &*fifo.plan));
        assert!(pie.retune(millis(7), &*other("burst", "50 ms")));
        assert_eq!(
            (pie.burst_allowance, pie.next_update),
            (Duration::from_millis(50), millis(15))
        );
        assert!(pie.retune(millis(8), &*other("burst", "100 ms")));
        assert_eq!(pie.burst_allowance, Duration::from_millis(100));
        pie.burst_allowance = Duration::from_millis(40);
        assert!(pie.retune(millis(8), &*other("burst", "90 ms")));
        assert_eq!(pie.burst_allowance, Duration::from_millis(40));
        assert!(pie.retune(millis(8), &*other("burst", "30 ms")));
        assert_eq!(pie.burst_allowance, Duration::from_millis(30));
        assert!(pie.retune(millis(9), &*other("update", "20 ms")));
        assert_eq!(
            (pie.plan.update, pie.next_update),
            (Duration::from_millis(20), millis(29))
        );
    }

    #[test]
    fn one_that_takes_over_goes_on_with_all_but_the_packets() {
        let (mut former, mut seen) = (pie(Table::default()), Witness::default());
        let _ = former.enqueue(millis(0), packet(millis(0), Ecn::NotEct), &mut seen);
        (former.drop_prob, former.accu_prob, former.early) = (ONE / 2, 8, 9);
        let mut pie = pie(Table::default());
        pie.plan.limit = 7;
        assert_eq!(pie.take_over(millis(15), &mut former), 0);
        let found = (pie.qdelay_old, pie.next_update, pie.accu_prob, pie.early);
        assert_eq!(
            found,
            (Duration::from_millis(15), millis(30), 8, 9),
            "after an update"
        );
        assert_eq!((pie.bytes, pie.queue.len(), pie.plan.limit), (Bytes::ZERO, 0, 7));
        assert_eq!(
            (pie.drop_prob, pie.rng.bits()),
            (former.drop_prob, former.rng.bits())
        );
    }

    #[test]
    fn its_state_is_shown() {
        let mut pie = pie(Table::default());
        (pie.drop_prob, pie.early) = (ONE / 4, 3);
        (pie.qdelay_old, pie.burst_allowance) = (Duration::from_millis(2), Duration::from_millis(4));
        assert_eq!(
            trials::gauges(&pie),
            [
                ("delay", Value::Duration(Duration::from_millis(2))),
                ("target", Value::Duration(Duration::from_millis(15))),
                ("probability", Value::Share(Probability::ratio(1, 4))),
                ("burst", Value::Duration(Duration::from_millis(4))),
                ("early", Value::Count(3)),
                ("limit", Value::Count(1_000)),
            ]
        );
    }
}
