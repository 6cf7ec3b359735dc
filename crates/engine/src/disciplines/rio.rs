//! `rio`: RED with In and Out: out-of-profile packets are dropped first.
//!
//! Clark and Fang, "Explicit allocation of best-effort packet delivery service", ToN 6(4), 1998,
//! section IV, with the three drop precedences of assured forwarding (RFC 2597) as ALTQ has it. The
//! level of a packet is its DSCP's drop precedence: AFx1 is green, AFx2 yellow, AFx3 red, any other
//! DSCP green. Each level *i* is a RED (see `red`, whose equations and arithmetic are used) over
//! the queued packets of its own and all better levels:
//!
//! ```text
//! on arrival of level i, for each level j ≥ i:   avg_j ← avg_j + w (q_j − avg_j),   q_j packets queued of levels ≤ j
//! the packet is dropped or marked with the probability of its own level at avg_i
//! ```
//!
//! So red packets are judged by the whole queue and by low thresholds, and green ones only by green
//! ones: a flood of red does not affect green until `limit` is reached. It queues its packets
//! itself, since it must know the backlog of each level.
//!
//! Departures: In and Out are three levels; the thresholds are ALTQ's, so levels are not *gentle*
//! unless configured: the max of one lies below the min of the next better, and that is what spares
//! the better one; an ECN-capable packet is marked instead of dropped below its level's max;
//! nothing is dropped while fewer than two packets are queued; drops are spaced as by `red`, twice
//! as dense as ALTQ's unless `spacing` says so.

use super::red::{self, FRACTION, Measure, Parameters, Spacing, Threshold, Weight};
use crate::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use crate::inspect::{Inspection, Value};
use crate::kind::{Check, Children, Kind, Properties};
use crate::packet::Packet;
use crate::portion::Portion;
use crate::random::Rng;
use crate::settings;
use crate::settings::Problem;
use crate::units::{Bytes, Instant, Probability, Rate};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

/// The registration.
pub static KIND: Kind = Kind {
    name: "rio",
    summary: "RED with three levels: packets that a meter found out of profile are dropped first",
    reference: "Clark and Fang, \"Explicit allocation of best-effort packet delivery service\", 1998; RFC 2597",
    children: Children::None,
    settings: Settings::SETTINGS,
    class_settings: &[],
    properties: Properties {
        takes_over: true,
        ..Properties::NONE
    },
    check,
};

settings! {
    /// Settings of `rio`. Thresholds are in packets.
    pub struct Settings {
        /// Green: the average of green packets below which none is dropped
        green_min: u32 = default "35",
            "too small: in-profile packets are dropped; too large: long queueing delays",
            "ALTQ";
        /// Green: the average at which the probability is max_p
        green_max: u32 = default "45",
            "as green_min",
            "ALTQ";
        /// Yellow: the average of green and yellow packets below which none is dropped
        yellow_min: u32 = default "20",
            "near green_min: yellow is as good as green",
            "ALTQ";
        /// Yellow: the average at which the probability is max_p
        yellow_max: u32 = default "30",
            "as yellow_min",
            "ALTQ";
        /// Red: the average of all packets below which none is dropped
        red_min: u32 = default "5",
            "near yellow_min: red is as good as yellow; too small: red gets little of a free link",
            "ALTQ";
        /// Red: the average at which the probability is max_p
        red_max: u32 = default "15",
            "as red_min",
            "ALTQ";
        /// The drop probability at each max
        max_p: Probability = default "10 %",
            "too small: the average runs above max; too large: senders are driven off a free link",
            "ALTQ";
        /// How drops are spaced at a probability p: uniformly on 1 to 1/p packets, on 1 to 2/p
        /// (altq), or on 1/p to 2/p (wait, as ns-2)
        spacing: Spacing = default "uniform",
            "altq and wait signal half and a third as often: the averages stand higher above each min",
            "as red; ALTQ has altq";
        /// Whether the probability rises slowly from max_p to 1 between max and twice max
        gentle: bool = default "false",
            "true: red fills the queue to twice red_max, so the mins above must be higher than that",
            "ALTQ, whose thresholds are made for it";
        /// Whether ECN-capable packets are marked instead of dropped
        ecn: bool = default "true",
            "false: ECN-capable senders suffer drops for nothing",
            "as red";
        /// The weight of one arriving packet in the averages
        weight: Weight = derived "1/512; 1/128 on a link below 300 packets/s, 1/64 below 50",
            "too small: reacts late to a standing queue; too large: drops from short bursts",
            "as red";
        /// The length of a typical packet, for idle time
        packet_size: Bytes = default "1000 B",
            "only its order of size matters",
            "as red";
        /// The rate at which the queue drains, for idle time
        bandwidth: Rate = derived "the link's",
            "give a class's rate for RIO in a class",
            "as red";
        /// Packets queued at most
        limit: u32 = default "120",
            "too small: bursts are dropped, green ones too; too large: only memory",
            "above the largest max, so that the probabilities decide";
    }
}

const LEVELS: usize = 3;

/// A checked plan.
#[derive(Clone, PartialEq, Debug)]
struct RioPlan {
    levels: [Parameters; LEVELS],
    ecn: bool,
    limit: usize,
}

impl RioPlan {
    fn new(settings: &Settings, check: &Check<'_>) -> Result<Self, (&'static str, String)> {
        if settings.limit == 0 {
            return Err((
                "limit",
                "`limit` must be at least 1: a queue of 0 drops every packet".into(),
            ));
        }
        let level = |names: [&'static str; 2], min: u32, max: u32| {
            let settings = red::Settings {
                measure: Measure::Packets,
                min: Threshold::Packets(min),
                max: Some(Threshold::Packets(max)),
                max_p: settings.max_p,
                spacing: settings.spacing,
                gentle: settings.gentle,
                ecn: settings.ecn,
                weight: settings.weight,
                packet_size: settings.packet_size,
                bandwidth: settings.bandwidth,
            };
            let found = Parameters::new(&settings, check.link.bandwidth);
            found.map_err(|(key, message)| match key {
                "min" => (names[0], message.replace("`min`", &format!("`{}`", names[0]))),
                "max" => {
                    let message = message.replace("`min`", &format!("`{}`", names[0]));
                    (names[1], message.replace("`max`", &format!("`{}`", names[1])))
                }
                _ => (key, message),
            })
        };
        let levels = [
            level(["green_min", "green_max"], settings.green_min, settings.green_max)?,
            level(
                ["yellow_min", "yellow_max"],
                settings.yellow_min,
                settings.yellow_max,
            )?,
            level(["red_min", "red_max"], settings.red_min, settings.red_max)?,
        ];
        Ok(Self {
            levels,
            ecn: settings.ecn,
            limit: settings.limit as usize,
        })
    }
}

fn check(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let settings = Settings::read(check.settings, &[], check.problems)?;
    match RioPlan::new(&settings, check) {
        Ok(plan) => Some(Arc::new(plan)),
        Err((key, message)) => {
            let at = check.settings.place(key);
            check.problems.push(Problem::new(at, message));
            None
        }
    }
}

impl Plan for RioPlan {
    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        Box::new(Rio::new(self.clone(), cx.rng()))
    }
}

/// The state of a level.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Queued packets of this level and better ones.
    backlog: u64,
    /// With [`FRACTION`] bits.
    average: u64,
    /// Let through since the last drop or mark.
    count: u64,
    idle_since: Option<Instant>,
    early: u64,
}

#[derive(Debug)]
struct Rio {
    plan: RioPlan,
    rng: Rng,
    queue: VecDeque<Packet>,
    levels: [Level; LEVELS],
    /// The latest time seen; a flush is given none.
    clock: Instant,
}

fn level_of(packet: &Packet) -> usize {
    packet
        .dscp
        .precedence()
        .map_or(0, |precedence| usize::from(precedence) - 1)
}

impl Rio {
    fn new(plan: RioPlan, rng: Rng) -> Self {
        let level = Level {
            backlog: 0,
            average: 0,
            count: 0,
            idle_since: Some(Instant::START),
            early: 0,
        };
        Self {
            plan,
            rng,
            queue: VecDeque::new(),
            levels: [level; LEVELS],
            clock: Instant::START,
        }
    }

    /// Updates the averages for an arrival of this level.
    fn observe(&mut self, now: Instant, level: usize) {
        for (one, parameters) in self.levels.iter_mut().zip(&self.plan.levels).skip(level) {
            if let Some(since) = one.idle_since {
                let sendable =
                    parameters.bandwidth.bytes_in(now.since(since)).get() / parameters.packet_size.get();
                one.average = parameters.decayed(one.average, sendable.saturating_sub(1));
                // If this arrival is not queued, the idle time continues from here.
                one.idle_since = Some(now);
            }
            one.average = parameters.sample(one.average, one.backlog);
        }
    }

    /// Whether to drop or mark this arrival, and why.
    fn verdict(&mut self, level: usize) -> Option<Reason> {
        let (one, parameters) = (&mut self.levels[level], &self.plan.levels[level]);
        if one.average < parameters.min || self.queue.len() < 2 {
            one.count = 0;
            return None;
        }
        if one.average >= parameters.certain {
            return Some(Reason::Forced);
        }
        let p_b = parameters.p_b(one.average);
        parameters
            .draw(&mut self.rng, &mut one.count, p_b, 1)
            .then_some(Reason::Early)
    }

    /// Whether the arrival is dropped, and why. May mark it.
    fn drop_reason(&mut self, level: usize, packet: &mut Packet, sink: &mut dyn Sink) -> Option<Reason> {
        if self.queue.len() >= self.plan.limit {
            self.levels[level].count = 0;
            return Some(Reason::Full);
        }
        if packet.handed_on {
            // It was judged when it arrived.
            return None;
        }
        let why = self.verdict(level)?;
        let one = &mut self.levels[level];
        one.count = 0;
        one.early += 1;
        if self.plan.ecn && one.average < self.plan.levels[level].max && packet.mark() {
            sink.mark(packet, why);
            return None;
        }
        Some(why)
    }
}

impl Discipline for Rio {
    fn enqueue(&mut self, now: Instant, mut packet: Packet, sink: &mut dyn Sink) -> Verdict {
        self.clock = now;
        let level = level_of(&packet);
        if !packet.handed_on {
            self.observe(now, level);
        }
        if let Some(why) = self.drop_reason(level, &mut packet, sink) {
            sink.drop(packet, why);
            return Verdict::Dropped(why);
        }
        for one in &mut self.levels[level..] {
            one.backlog += 1;
            one.idle_since = None;
        }
        self.queue.push_back(packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Instant, _sink: &mut dyn Sink) -> Next<Packet> {
        self.clock = now;
        let Some(packet) = self.queue.pop_front() else {
            return Next::Empty;
        };
        for one in &mut self.levels[level_of(&packet)..] {
            one.backlog -= 1;
            if one.backlog == 0 {
                one.idle_since = Some(now);
            }
        }
        Next::Ready(packet)
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        if !portion.flush(sink, || self.queue.pop_front()) {
            return;
        }
        for one in &mut self.levels {
            one.backlog = 0;
            one.idle_since = one.idle_since.or(Some(self.clock));
        }
    }

    fn take_over(&mut self, now: Instant, former: &mut dyn Discipline) -> u32 {
        if let Some(former) = former.of_type::<Self>() {
            (self.rng, self.clock) = (former.rng.clone(), now);
            self.levels = former.levels.map(|level| Level {
                backlog: 0,
                idle_since: level.idle_since.or(Some(now)),
                ..level
            });
        }
        0
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        let names = [
            ("green_average", "green_early"),
            ("yellow_average", "yellow_early"),
            ("red_average", "red_early"),
        ];
        for ((average, early), level) in names.into_iter().zip(&self.levels) {
            out.gauge(
                average,
                Value::Real(level.average as f64 / f64::from(1 << FRACTION)),
            );
            out.gauge(early, Value::Count(level.early));
        }
        out.gauge("limit", Value::Count(self.plan.limit as u64));
    }

    fn retune(&mut self, _now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let Some(plan) = plan.downcast_ref::<RioPlan>() else {
            return false;
        };
        self.plan = plan.clone();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;
    use crate::packet::{ClassId, Dscp, Ecn};
    use crate::queue::Queue;
    use crate::random::Seed;
    use crate::settings::{Raw, Table};
    use crate::tree::{DisciplineSpec, Registry};
    use crate::trials;
    use crate::units::Bandwidth;

    const LINK: Link = Link::new(Bandwidth::mbit(8), Bytes::new(1000));
    const AF: [u8; 3] = [10, 12, 14];

    #[derive(Default)]
    struct Drops([u32; 3], u32);

    impl Sink for Drops {
        fn drop(&mut self, packet: Packet, why: Reason) {
            self.0[level_of(&packet)] += 1;
            self.1 += u32::from(why == Reason::Full);
        }
    }

    fn rio(table: Table) -> Queue {
        let spec = DisciplineSpec {
            settings: table,
            ..DisciplineSpec::new("rio")
        };
        spec.check(&Registry::builtin(), LINK)
            .expect("a good plan")
            .build(Seed(1))
    }

    fn packet(now: Instant, dscp: u8) -> Packet {
        let mut packet = Packet::new(Bytes::new(1000), now, ClassId(0));
        packet.dscp = Dscp::arrived(dscp);
        packet
    }

    /// A link that sends a packet each millisecond; these arrive in each ten. Drops after the
    /// averages have settled.
    fn run(table: Table, per_ten: [u64; 3]) -> (Drops, Queue) {
        let (mut queue, mut dropped) = (rio(table), Drops::default());
        let mut owed = [0; 3];
        for at in 0..20_000 {
            if at == 10_000 {
                dropped = Drops::default();
            }
            let now = Instant::from_nanos(at * 1_000_000);
            for level in 0..3 {
                owed[level] += per_ten[level];
                while owed[level] >= 10 {
                    owed[level] -= 10;
                    let _ = queue.enqueue(now, packet(now, AF[level]), &mut dropped);
                }
            }
            let _ = queue.dequeue(now, &mut dropped);
        }
        (dropped, queue)
    }

    #[test]
    fn a_flood_of_red_costs_green_and_yellow_nothing() {
        let (dropped, _) = run(Table::default(), [5, 3, 20]);
        assert_eq!(
            (dropped.0[0], dropped.0[1], dropped.1),
            (0, 0, 0),
            "{:?}",
            dropped.0
        );
        // 2.8 times the link: red's drops are the whole excess.
        assert!((17_500..18_500).contains(&dropped.0[2]), "{:?}", dropped.0);
    }

    #[test]
    fn yellow_is_dropped_before_green_when_there_is_no_red_to_drop() {
        let (dropped, _) = run(Table::default(), [8, 6, 0]);
        assert!(dropped.0[0] == 0 && dropped.0[1] > 3_500, "{:?}", dropped.0);
    }

    #[test]
    fn green_alone_is_ruled_by_its_own_thresholds() {
        let (dropped, queue) = run(Table::default(), [15, 0, 0]);
        assert!(
            dropped.0[0] > 4_500 && dropped.1 == 0,
            "{:?} {}",
            dropped.0,
            dropped.1
        );
        assert!(
            (30..=120).contains(&queue.backlog().packets),
            "{}",
            queue.backlog().packets
        );
    }

    #[test]
    fn packets_without_a_drop_precedence_are_green() {
        for dscp in [0, 46, 8, 40, 42] {
            assert_eq!(level_of(&packet(Instant::START, dscp)), 0);
        }
        assert_eq!(
            [10, 20, 30, 38].map(|dscp| level_of(&packet(Instant::START, dscp))),
            [0, 1, 2, 2]
        );
    }

    #[test]
    fn a_threshold_that_cannot_work_is_refused_by_its_name() {
        let table = Table::default().with("yellow_max", Raw::Integer(20));
        let spec = DisciplineSpec {
            settings: table,
            ..DisciplineSpec::new("rio")
        };
        let problems = spec
            .check(&Registry::builtin(), LINK)
            .expect_err("not above the min");
        assert!(
            problems[0]
                .message
                .contains("`yellow_max` must be larger than `yellow_min`"),
            "{problems:?}"
        );
    }

    fn direct(table: Table) -> Rio {
        let plan = trials::planned("rio", table, LINK);
        let any: &dyn Any = &*plan.plan;
        let plan = any.downcast_ref::<RioPlan>().expect("a plan of `rio`");
        Rio::new(plan.clone(), Seed(1).stream())
    }

    fn millis(n: u64) -> Instant {
        Instant::from_nanos(n * 1_000_000)
    }

    fn number(key: &str, n: i64) -> Table {
        Table::default().with(key, Raw::Integer(n))
    }

    #[test]
    fn a_level_whose_thresholds_cannot_work_is_named() {
        let refused = |table: Table, words: &str| {
            let found = trials::refused("rio", table, LINK);
            assert!(
                found.as_ref().is_some_and(|found| found.starts_with(words)),
                "{found:?}"
            );
        };
        refused(number("limit", 0), "`limit` must be at least 1");
        for (name, max) in [("green", 35), ("yellow", 20), ("red", 5)] {
            let (lower, upper) = (format!("{name}_min"), format!("{name}_max"));
            refused(number(&lower, 0), &format!("`{lower}` must be at least 1"));
            let words = format!("`{upper}` must be larger than `{lower}`; three times `{lower}`");
            refused(number(&upper, max), &words);
            assert_eq!(trials::refused("rio", number(&upper, max + 1), LINK), None);
        }
        refused(
            Table::default().text("max_p", "0 %"),
            "`max_p` must be more than 0",
        );
        assert_eq!(trials::refused("rio", number("limit", 1), LINK), None);
    }

    #[test]
    fn a_level_is_judged_from_its_min_on_with_two_packets_and_always_from_its_max_on() {
        let parameters = direct(Table::default()).plan.levels[1].clone();
        let judged = |average: u64, held: usize| {
            let mut rio = direct(Table::default());
            rio.queue.extend((0..held).map(|_| packet(Instant::START, 0)));
            (rio.levels[1].average, rio.levels[1].count) = (average, 5);
            (rio.verdict(1), rio.levels[1].count)
        };
        let (min, certain) = (parameters.min, parameters.certain);
        assert_eq!(judged(min - 1, 2), (None, 0));
        assert_eq!(judged(min, 2), (None, 6), "with a chance of nothing");
        assert_eq!(judged(certain, 2), (Some(Reason::Forced), 5));
        assert_eq!(judged(certain, 1), (None, 0));
        assert_ne!(judged(certain - 1, 2).0, Some(Reason::Forced));
    }

    #[test]
    fn signals_are_counted_and_below_max_they_are_marks_where_they_can_be() {
        let mut rio = direct(Table::default().with("gentle", Raw::Boolean(true)));
        rio.queue.extend((0..2).map(|_| packet(Instant::START, 0)));
        let max = rio.plan.levels[2].max;
        let judge = |rio: &mut Rio, average, ecn| {
            // So many have passed that this one does not.
            (rio.levels[2].average, rio.levels[2].count) = (average, 1 << 40);
            let mut packet = packet(Instant::START, AF[2]);
            packet.ecn = ecn;
            let why = rio.drop_reason(2, &mut packet, &mut Drops::default());
            assert_eq!(rio.levels[2].count, 0);
            (why, packet.ecn, rio.levels[2].early)
        };
        assert_eq!(judge(&mut rio, max - 1, Ecn::Ect0), (None, Ecn::Ce, 1));
        assert_eq!(
            judge(&mut rio, max, Ecn::Ect0),
            (Some(Reason::Early), Ecn::Ect0, 2)
        );
        assert_eq!(
            judge(&mut rio, max - 1, Ecn::NotEct),
            (Some(Reason::Early), Ecn::NotEct, 3)
        );
        rio.plan.ecn = false;
        assert_eq!(
            judge(&mut rio, max - 1, Ecn::Ect0),
            (Some(Reason::Early), Ecn::Ect0, 4)
        );
        rio.plan.limit = 2;
        assert_eq!(
            judge(&mut rio, max, Ecn::Ect0),
            (Some(Reason::Full), Ecn::Ect0, 4)
        );
        rio.plan.limit = 3;
        let mut handed_on = packet(Instant::START, AF[2]);
        handed_on.handed_on = true;
        (rio.levels[2].average, rio.levels[2].count) = (max, 1 << 40);
        let why = rio.drop_reason(2, &mut handed_on, &mut Drops::default());
        assert_eq!(
            (why, rio.levels[2].count, rio.levels[2].early),
            (None, 1 << 40, 4)
        );
    }

    #[test]
    fn an_arrival_is_seen_by_its_level_and_the_worse_ones_and_idle_time_is_so_many_packets() {
        let mut rio = direct(Table::default());
        let average = 10 << FRACTION;
        for level in &mut rio.levels {
            (level.average, level.backlog, level.idle_since) = (average, 3, None);
        }
        rio.levels[2].idle_since = Some(millis(2));
        rio.observe(millis(8), 1);
        let [_, yellow, red] = &rio.plan.levels;
        // Of the six packets of 6 ms the arrival is one.
        let idle = red.sample(red.decayed(average, 5), 3);
        let averages = rio.levels.map(|level| level.average);
        assert_eq!(averages, [average, yellow.sample(average, 3), idle]);
        assert_eq!(
            rio.levels.map(|level| level.idle_since),
            [None, None, Some(millis(8))]
        );
    }

    #[test]
    fn a_level_counts_the_packets_of_it_and_better_ones() {
        let (mut rio, mut dropped) = (direct(Table::default()), Drops::default());
        let state = |rio: &Rio| {
            (
                rio.levels.map(|level| level.backlog),
                rio.levels.map(|level| level.idle_since),
            )
        };
        let start = Some(Instant::START);
        let _ = rio.enqueue(millis(1), packet(millis(1), AF[2]), &mut dropped);
        assert_eq!(state(&rio), ([0, 0, 1], [start, start, None]));
        let _ = rio.enqueue(millis(2), packet(millis(2), AF[0]), &mut dropped);
        let _ = rio.enqueue(millis(2), packet(millis(2), AF[1]), &mut dropped);
        assert_eq!(state(&rio), ([1, 2, 3], [None; 3]));
        let _ = rio.dequeue(millis(3), &mut dropped);
        assert_eq!(state(&rio), ([1, 2, 2], [None; 3]));
        let _ = rio.dequeue(millis(4), &mut dropped);
        assert_eq!(state(&rio), ([0, 1, 1], [Some(millis(4)), None, None]));
        rio.flush(&mut Portion::of(1, 1), &mut dropped);
        assert_eq!(state(&rio).0, [0, 1, 1], "it may not have ended");
        rio.flush(&mut Portion::whole(), &mut dropped);
        assert_eq!(state(&rio), ([0; 3], [Some(millis(4)); 3]));
        assert!(matches!(rio.dequeue(millis(5), &mut dropped), Next::Empty));
    }

    #[test]
    fn what_is_handed_on_is_not_observed() {
        let (mut rio, mut dropped) = (direct(Table::default()), Drops::default());
        rio.levels[0].average = 7;
        let packet = Packet {
            handed_on: true,
            ..packet(millis(9), AF[0])
        };
        assert_eq!(rio.enqueue(millis(9), packet, &mut dropped), Verdict::Queued);
        assert_eq!((rio.levels[0].average, rio.levels[0].backlog), (7, 1));
    }

    #[test]
    fn one_that_takes_over_knows_what_the_former_knew() {
        let mut former = direct(Table::default());
        for (n, level) in (1..).zip(&mut former.levels) {
            (level.average, level.count, level.early, level.backlog) = (n, 10 + n, 20 + n, 5);
            level.idle_since = (n == 1).then_some(millis(3));
        }
        let mut rio = direct(Table::default());
        assert_eq!(rio.take_over(millis(8), &mut former), 0);
        let found = rio
            .levels
            .map(|level| (level.average, level.count, level.early, level.backlog));
        assert_eq!(found, [(1, 11, 21, 0), (2, 12, 22, 0), (3, 13, 23, 0)]);
        let since = rio.levels.map(|level| level.idle_since);
        assert_eq!(since, [Some(millis(3)), Some(millis(8)), Some(millis(8))]);
        assert_eq!((rio.clock, rio.rng.bits()), (millis(8), former.rng.bits()));
    }

    #[test]
    fn its_state_is_shown_and_other_settings_are_adopted() {
        let mut rio = direct(Table::default());
        for (n, level) in (1..).zip(&mut rio.levels) {
            (level.average, level.early) = (n << (FRACTION - 1), n);
        }
        let shown = |limit| {
            [
                ("green_average", Value::Real(0.5)),
                ("green_early", Value::Count(1)),
                ("yellow_average", Value::Real(1.0)),
                ("yellow_early", Value::Count(2)),
                ("red_average", Value::Real(1.5)),
                ("red_early", Value::Count(3)),
                ("limit", Value::Count(limit)),
            ]
        };
        assert_eq!(trials::gauges(&rio), shown(120));
        assert!(!rio.retune(millis(0), &*trials::planned("fifo", Table::default(), LINK).plan));
        assert!(rio.retune(millis(0), &*trials::planned("rio", number("limit", 9), LINK).plan));
        assert_eq!(trials::gauges(&rio), shown(9));
    }
}
