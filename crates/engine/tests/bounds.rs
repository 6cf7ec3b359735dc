//! The bounds of `engine::bounds` are never exceeded, whatever conforming senders do.
//!
//! Random links, rings, classes and arrival curves; senders whose bursts meet at one time, just
//! when a longest packet of another class has gone onto the wire, and that send again as soon as
//! their buckets let them. `SUIMON_BOUNDS_CASES` says how many of them (10,000 by default, for
//! `ips`; a fifth of it for each of the others), `SUIMON_BOUNDS_SEED` which.

#[path = "bounds/rig.rs"]
mod rig;

use engine::bounds::{ArrivalCurve, WorstCase};
use engine::inspect::{Inspection, Value, View};
use engine::link::Link;
use engine::packet::ClassId;
use engine::queue::Queue;
use engine::random::{Rng, Seed};
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes};
use rig::{Arrival, Sender, run};
use std::hash::{BuildHasher, RandomState};

fn given(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a whole number; it is \"{text}\"")),
    )
}

fn cases() -> u64 {
    given("SUIMON_BOUNDS_CASES").unwrap_or(10_000)
}

const MTU: u64 = 1_518;

/// A link and arrival curves for its classes.
struct World {
    link: Link,
    promises: Vec<ArrivalCurve>,
    /// The shortest packets.
    shortest: u64,
    /// The rate of a `tbf` above, if there is one.
    held_to: Option<Bandwidth>,
    rng: Rng,
}

impl World {
    fn draw(seed: Seed) -> Self {
        let mut rng = seed.stream();
        let bandwidth = Bandwidth::kbit(64 << rng.below(12));
        let link = Link::new(bandwidth, Bytes::new(MTU));
        let classes = match rng.below(8) {
            0 => 1 + rng.below(40),
            _ => 1 + rng.below(5),
        };
        // Together at most this part of the link, in per cent.
        let percent = 20 + rng.below(80);
        let weights: Vec<u64> = (0..classes).map(|_| 1 + rng.below(20)).collect();
        let all: u64 = weights.iter().sum();
        let promise = |weight: &u64| ArrivalCurve {
            rate: Bandwidth::bits_per_sec(bandwidth.bits() / 100 * percent * weight / all),
            burst: Bytes::new(MTU + rng.below(10 * MTU)),
        };
        let promises = weights.iter().map(promise).collect();
        let link = link.with_ring(1 + rng.below(4) as u32);
        Self {
            link,
            promises,
            shortest: 1,
            held_to: None,
            rng,
        }
    }

    /// A plan of these classes; the last, by default, is `rest`.
    fn plan(
        &self,
        spec: DisciplineSpec,
        class: impl Fn(usize, ArrivalCurve) -> Table,
        rest: Table,
    ) -> Option<TreePlan> {
        let promised = |(number, promise): (usize, &ArrivalCurve)| ClassSpec {
            name: number.to_string().into(),
            settings: class(number, *promise),
            // `ips` has settings for it.
            sends: (spec.kind != "ips").then_some((*promise).into()),
            ..ClassSpec::default()
        };
        let rest = ClassSpec {
            name: "rest".into(),
            default: true,
            settings: rest,
            ..ClassSpec::default()
        };
        let classes = self
            .promises
            .iter()
            .enumerate()
            .map(promised)
            .chain([rest])
            .collect();
        self.checked(DisciplineSpec { classes, ..spec })
    }

    fn checked(&self, spec: DisciplineSpec) -> Option<TreePlan> {
        let spec = match self.held_to {
            None => spec,
            Some(rate) => DisciplineSpec {
                settings: Table::default()
                    .text("rate", &format!("{} bit/s", rate.bits()))
                    .text("burst", &format!("{} B", MTU + self.rng.clone().below(5 * MTU))),
                child: Some(Box::new(spec)),
                ..DisciplineSpec::new("tbf")
            },
        };
        spec.check(&Registry::builtin(), self.link).ok()
    }

    /// From now on a `tbf` stands above every plan, of a rate between the classes' sum and the
    /// link's.
    fn hold(&mut self) {
        let used: u64 = self.promises.iter().map(|promise| promise.rate.bits()).sum();
        let left = self.link.bandwidth.bits() - used;
        self.held_to = Some(Bandwidth::bits_per_sec(used + 1 + self.rng.below(left.max(1))));
    }

    /// Packets of the classes that mean harm to one another, and of the rest, as many as the link
    /// takes.
    fn harm(&mut self) -> Vec<Arrival> {
        let frame = self.link.bandwidth.time_to_send(Bytes::new(MTU)).nanos();
        let meeting = 20 * frame;
        let rest = self.promises.len() as u32;
        let count = 200 / rest.min(20);
        let mut arrivals: Vec<Arrival> = Vec::new();
        for _ in 0..1 + self.rng.below(40) {
            let (at, len) = (
                meeting.saturating_sub(self.rng.below(20) * frame + self.rng.below(2)),
                MTU,
            );
            arrivals.push(Arrival { at, class: rest, len });
        }
        // What is on the wire when all bursts meet.
        arrivals.push(Arrival {
            at: meeting - 1,
            class: rest,
            len: MTU,
        });
        for (class, promise) in self.promises.clone().into_iter().enumerate() {
            let late = match self.rng.below(3) {
                0 => self.rng.below(10 * frame),
                _ => 0,
            };
            let sender = Sender::new(promise).at_least(self.shortest);
            arrivals.extend(sender.harm(class as u32, (meeting + late, count), MTU, &mut self.rng));
        }
        arrivals
    }
}

/// How near to its bound the worst packet came, in thousandths; checks that no class went beyond.
fn nearest(cases: &[WorstCase], plan: &TreePlan, world: &mut World, what: &str) -> (u64, Queue) {
    let (fates, queue) = run(plan, world.link.ring as usize, world.harm());
    let mut nearest = 0;
    for case in cases {
        let (Some(ClassId(class)), Ok(bound)) = (case.class, &case.bound) else {
            continue;
        };
        let fate = fates[class as usize];
        let story = || {
            format!(
                "{what}, class {class}: {fate:?}, {bound:?}, {:?} of {plan:#?}",
                world.promises
            )
        };
        assert!(fate.worst <= bound.delay.nanos(), "too late: {}", story());
        assert!(fate.held <= bound.backlog.get(), "too much held: {}", story());
        assert!(fate.dropped == 0, "lost: {}", story());
        nearest = nearest.max(fate.worst * 1_000 / bound.delay.nanos().max(1));
    }
    (nearest, queue)
}

/// Tries worlds; the nearest that any came to its bound, in thousandths, and how many classes had
/// one.
fn try_all(name: &str, cases: u64, plan: impl Fn(&mut World) -> Option<TreePlan>) -> (u64, u64) {
    let base = given("SUIMON_BOUNDS_SEED").unwrap_or_else(|| RandomState::new().hash_one(name));
    let (mut nearest_of_all, mut bounded) = (0, 0);
    for case in 0..cases {
        let mut world = World::draw(Seed(base).fork(name).fork(&case.to_string()));
        let Some(plan) = plan(&mut world) else { continue };
        let found = plan.bounds();
        bounded += found.iter().filter(|case| case.bound.is_ok()).count() as u64;
        let what = format!("{name}, case {case} of SUIMON_BOUNDS_SEED={base}");
        let (near, queue) = nearest(&found, &plan, &mut world, &what);
        nearest_of_all = nearest_of_all.max(near);
        if name.starts_with("ips") {
            for gauge in ["late", "policed"] {
                assert_eq!(gauges(&queue, gauge), 0, "{gauge}: {what}");
            }
        }
    }
    (nearest_of_all, bounded)
}

/// The sum of a gauge over all classes.
fn gauges(queue: &Queue, name: &str) -> u64 {
    let mut views: Vec<View> = Vec::new();
    queue.inspect(&mut Inspection::new(&mut views));
    let gauge = |view: &View| {
        view.gauges.iter().find_map(|gauge| match gauge {
            (found, Value::Count(n)) if *found == name => Some(*n),
            _ => None,
        })
    };
    views.iter().filter_map(gauge).sum()
}

fn ips(over: &str) -> impl Fn(&mut World) -> Option<TreePlan> {
    let over = over.to_owned();
    move |world| {
        let settings = Table::default()
            .text("over", &over)
            .text("longest", &format!("{MTU} B"));
        // The delays give the order only; they are long enough for nearly all.
        let delays: Vec<u64> = world
            .promises
            .iter()
            .map(|_| 100 + world.rng.below(100))
            .collect();
        let class = |number: usize, promise: ArrivalCurve| {
            Table::default()
                .text("rate", &format!("{} bit/s", promise.rate.bits()))
                .text("burst", &format!("{} B", promise.burst.get()))
                .text("delay", &format!("{} s", delays[number]))
        };
        world.plan(
            DisciplineSpec {
                settings,
                ..DisciplineSpec::new("ips")
            },
            class,
            Table::default(),
        )
    }
}

#[test]
fn the_sound_rule_is_never_exceeded_however_bursts_meet() {
    let (nearest, bounded) = try_all("ips", cases(), ips("priq"));
    assert!(
        nearest > 900 && bounded > cases(),
        "nothing came near its bound: {nearest} of 1000, {bounded} classes"
    );
}

#[test]
fn the_sound_rule_holds_over_cbq_too() {
    let (nearest, bounded) = try_all("ips over cbq", cases() / 5, ips("cbq"));
    assert!(
        nearest > 900 && bounded > cases() / 5,
        "{nearest} of 1000, {bounded} classes"
    );
}

#[test]
fn strict_priority_keeps_its_bound() {
    strict_priority("priq", |_| {});
}

#[test]
fn strict_priority_behind_a_token_bucket_keeps_its_bound() {
    strict_priority("priq below tbf", World::hold);
}

fn strict_priority(name: &str, prepare: impl Fn(&mut World)) {
    let (nearest, bounded) = try_all(name, cases() / 5, |world| {
        prepare(world);
        let priority = |n: usize| Table::default().with("priority", Raw::Integer(n as i64));
        world.plan(
            DisciplineSpec::new("priq"),
            |number, _| priority(number + 1),
            priority(0),
        )
    });
    // The packet that waits for its tokens is counted as long as any, and its time on the link as
    // at the lower rate.
    let near = if name == "priq" { 900 } else { 600 };
    assert!(
        nearest > near && bounded > cases() / 5,
        "{nearest} of 1000, {bounded} classes"
    );
}

#[test]
fn deficit_round_robin_keeps_its_bound() {
    deficit_round_robin("drr", |_| {});
}

#[test]
fn deficit_round_robin_behind_a_token_bucket_keeps_its_bound() {
    deficit_round_robin("drr below tbf", World::hold);
}

fn deficit_round_robin(name: &str, prepare: impl Fn(&mut World)) {
    let (nearest, bounded) = try_all(name, cases() / 5, |world| {
        prepare(world);
        // Quanta by rate, so that each class gets its rate.
        let unit = world
            .promises
            .iter()
            .map(|promise| promise.rate.bits())
            .min()
            .unwrap_or(1)
            .max(1);
        let quantum =
            |rate: u64| Table::default().text("quantum", &format!("{} B", MTU * rate.div_ceil(unit)));
        let rest = world.rng.below(3) * unit;
        world.plan(
            DisciplineSpec::new("drr"),
            |_, promise| quantum(promise.rate.bits()),
            quantum(rest.max(1)),
        )
    });
    assert!(
        nearest > 500 && bounded > 100,
        "{nearest} of 1000, {bounded} classes"
    );
}

#[test]
fn concave_service_curves_keep_their_bound() {
    let (nearest, bounded) = try_all("hfsc", cases() / 5, |world| {
        let used: u64 = world.promises.iter().map(|promise| promise.rate.bits()).sum();
        let (link, spans) = (world.link.bandwidth.bits(), world.rng.bits());
        let curve = |number: usize, promise: ArrivalCurve| {
            let rate = promise.rate.bits();
            let first = (u128::from(rate) * u128::from(link) / u128::from(used.max(1))) as u64;
            let span = 1 + (spans >> (number % 32)) % 100_000;
            let curve = format!("{first} bit/s for {span} us, then {rate} bit/s");
            Table::default().text("realtime", &curve)
        };
        let rest = Table::default().text("linkshare", "1 Mbit/s");
        world.plan(DisciplineSpec::new("hfsc"), curve, rest)
    });
    assert!(
        nearest > 500 && bounded > cases() / 5,
        "{nearest} of 1000, {bounded} classes"
    );
}

#[test]
fn cbq_keeps_its_bound() {
    let (nearest, bounded) = try_all("cbq", cases() / 5, |world| {
        let used: u64 = world.promises.iter().map(|promise| promise.rate.bits()).sum();
        let rest = world.link.bandwidth.bits() - used;
        let pace = ["shaped", "port"][world.rng.below(2) as usize];
        let seed = world.rng.bits();
        let class = |number: usize, promise: ArrivalCurve| {
            Table::default()
                .text("rate", &format!("{} bit/s", promise.rate.bits()))
                .with("priority", Raw::Integer((seed >> (number % 20)) as i64 & 7))
                .text("packet_size", &format!("{} B", promise.burst.get()))
                .with("maxburst", Raw::Integer(2))
        };
        let settings = Table::default().text("link", pace).text("link_burst", "2 s");
        let spec = DisciplineSpec {
            settings,
            ..DisciplineSpec::new("cbq")
        };
        world.plan(
            spec,
            class,
            Table::default().text("rate", &format!("{rest} bit/s")),
        )
    });
    assert!(
        nearest > 300 && bounded > cases() / 5,
        "{nearest} of 1000, {bounded} classes"
    );
}

#[test]
fn paces_keep_their_bound() {
    let (nearest, bounded) = try_all("pacer", cases() / 5, |world| {
        world.shortest = 1 + world.rng.below(MTU);
        let shortest = world.shortest;
        let basis = ["wire", "frame-fcs", "frame", "ip"][world.rng.below(4) as usize];
        let effort = ["strict", "work-conserving"][world.rng.below(2) as usize];
        let settings = Table::default().text("basis", basis).text("best_effort", effort);
        // What its shortest packets count, padded and framed, and a bit.
        let class = |_: usize, promise: ArrivalCurve| {
            let rate = promise.rate.bits() * (shortest.max(60) + 24).div_ceil(shortest) + 1;
            Table::default()
                .text("rate", &format!("{rate} bit/s"))
                .text("packet", &format!("{shortest} B"))
        };
        let spec = DisciplineSpec {
            settings,
            ..DisciplineSpec::new("pacer")
        };
        world.plan(spec, class, Table::default())
    });
    assert!(
        nearest > 900 && bounded > cases() / 20,
        "{nearest} of 1000, {bounded} classes"
    );
}

/// Voice of priority 7, which sends 214 bytes at 100 kbit/s, beside eight classes of priority 1, on
/// a link of 10 Mbit/s.
fn voice_beside_eight(settings: Table) -> TreePlan {
    let class = |number: u64| ClassSpec {
        name: format!("bulk-{number}").into(),
        default: number == 0,
        settings: Table::default().text("rate", "1 Mbit/s"),
        ..ClassSpec::default()
    };
    let voice = ArrivalCurve {
        rate: Bandwidth::kbit(100),
        burst: Bytes::new(214),
    };
    let voice = ClassSpec {
        name: "voice".into(),
        settings: Table::default()
            .text("rate", "100 kbit/s")
            .with("priority", Raw::Integer(7)),
        sends: Some(voice.into()),
        ..ClassSpec::default()
    };
    let spec = DisciplineSpec {
        classes: std::iter::once(voice).chain((0..8).map(class)).collect(),
        settings,
        ..DisciplineSpec::new("cbq")
    };
    let link = Link::new(Bandwidth::mbit(10), Bytes::new(1_514));
    spec.check(&Registry::builtin(), link).expect("a plan")
}

#[test]
fn cbq_bound_of_the_first_priority_counts_lower_ones_as_one_packet() {
    let plan = voice_beside_eight(Table::default());
    let voice = plan.class("voice").expect("it is there");
    let cases = plan.bounds();
    let case = cases
        .iter()
        .find(|case| case.class == Some(voice))
        .expect("a case");
    let bound = case.bound.clone().expect("a bound").delay.nanos();
    // Bulk keeps the link busy; each packet of voice comes just after one of bulk has begun.
    let bulk = (0..8 * 100).map(|number| Arrival {
        at: 0,
        class: 1 + number % 8,
        len: 1_514,
    });
    let sender = Sender::new(ArrivalCurve {
        rate: Bandwidth::kbit(100),
        burst: Bytes::new(214),
    });
    let calls = sender.greedy(voice.0, 40, 214).into_iter().map(|call| Arrival {
        // To the nanosecond after the begin of the next packet on a busy link.
        at: (call.at / 1_211_200 + 1) * 1_211_200 + 1,
        ..call
    });
    let (fates, _) = run(&plan, 1, bulk.chain(calls).collect());
    let worst = fates[voice.0 as usize].worst;
    assert!(worst <= bound, "{worst} ns of {bound} ns");
    assert!(
        bound <= worst + worst / 100,
        "a bound of {bound} ns, and {worst} ns is the worst"
    );
}

/// Flow 1: 8 packets at 6 Mbit/s in 10 ms; flow 2: 8 packets at 1 Mbit/s in 20 ms. The link has 10
/// Mbit/s.
fn two_flows(rule: &str) -> Option<TreePlan> {
    let link = Link::new(Bandwidth::mbit(10), Bytes::new(MTU));
    let promise = |mbit| ArrivalCurve {
        rate: Bandwidth::mbit(mbit),
        burst: Bytes::new(8 * MTU),
    };
    let world = World {
        link,
        promises: vec![promise(6), promise(1)],
        shortest: 1,
        held_to: None,
        rng: Seed(1).stream(),
    };
    let class = |number: usize, promise: ArrivalCurve| {
        Table::default()
            .text("rate", &format!("{} bit/s", promise.rate.bits()))
            .text("burst", &format!("{} B", promise.burst.get()))
            .text("delay", ["10 ms", "20 ms"][number])
    };
    let settings = Table::default().text("rule", rule);
    world.plan(
        DisciplineSpec {
            settings,
            ..DisciplineSpec::new("ips")
        },
        class,
        Table::default(),
    )
}

#[test]
fn the_papers_rule_is_exceeded_by_two_flows_that_keep_their_promise() {
    assert!(two_flows("sound").is_none(), "the sound rule refuses them");
    let plan = two_flows("paper").expect("the paper's rule lets both in");
    let fill = |class: u32, mbit: u64| {
        let promise = ArrivalCurve {
            rate: Bandwidth::mbit(mbit),
            burst: Bytes::new(8 * MTU),
        };
        Sender::new(promise).greedy(class, 20, MTU)
    };
    let (fates, queue) = run(&plan, 1, [fill(0, 6), fill(1, 1)].concat());
    assert_eq!(gauges(&queue, "policed"), 0);
    assert!(gauges(&queue, "late") > 0, "{fates:?}");
    let promised = 20_000_000;
    assert!(
        fates[1].worst > promised + 5_000_000,
        "nothing was on the wire, and no ring: {fates:?}"
    );
}

#[test]
fn a_class_without_a_promise_has_no_bound_and_says_why() {
    let world = World::draw(Seed(3));
    let priority = |n: usize| Table::default().with("priority", Raw::Integer(n as i64));
    let plan = world
        .plan(DisciplineSpec::new("priq"), |n, _| priority(n), priority(200))
        .expect("a plan");
    let found = plan.bounds();
    let last = world.promises.len();
    assert!(
        found[last]
            .bound
            .as_ref()
            .is_err_and(|why| why.starts_with("none guaranteed")),
        "{found:?}"
    );
    assert!(
        found[0]
            .bound
            .as_ref()
            .is_err_and(|why| why.contains("`rest` goes before it")),
        "{found:?}"
    );
}

#[test]
fn a_plain_queue_has_the_bound_of_its_limit() {
    let link = Link::new(Bandwidth::mbit(10), Bytes::new(1_500));
    let spec = DisciplineSpec::new("fifo");
    let spec = DisciplineSpec {
        settings: Table::default().with("limit", Raw::Integer(50)),
        ..spec
    };
    let found = spec.check(&Registry::builtin(), link).expect("a plan").bounds();
    // 50 in the queue and one on the wire, 1.2 ms each.
    assert_eq!(
        found[0].bound.as_ref().map(|bound| bound.delay.nanos()),
        Ok(61_200_000)
    );
}
