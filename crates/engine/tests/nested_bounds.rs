//! Bounds of classes in a class are never exceeded, and are near to what happens.
//!
//! Random trees, two and three deep, of every kind whose classes are guaranteed something (`drr`,
//! `priq`, `cbq`, `hfsc`, `pacer`) around those that follow any rate (`drr`, `priq`), below a `tbf`
//! now and then. Classes that state what their senders send keep to it to the last bit and mean
//! harm; the others flood. `SUIMON_BOUNDS_CASES` says how many trees of each outer kind (1,000 by
//! default), `SUIMON_BOUNDS_SEED` which.
//!
//! Follows Bouillard, Boyer and Le Corronc, "Deterministic Network Calculus", 2018: strict service
//! curves of what a strict curve leaves to a class, and Boyer, Stea and Sofack, "Deficit round
//! robin with network calculus", 2012.

#[path = "bounds/rig.rs"]
mod rig;

use engine::bounds::ArrivalCurve;
use engine::link::Link;
use engine::packet::ClassId;
use engine::random::{Rng, Seed};
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes};
use rig::{Arrival, Sender, run};
use std::hash::{BuildHasher, RandomState};

const MTU: u64 = 1_518;

fn given(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a whole number; it is \"{text}\"")),
    )
}

fn bits(rate: u64) -> String {
    format!("{rate} bit/s")
}

/// A class with a queue that nothing conforming overflows.
fn leaf(name: String, settings: Table, promise: Option<ArrivalCurve>) -> ClassSpec {
    let plain = Table::default().with("limit", Raw::Integer(100_000));
    ClassSpec {
        name: name.into(),
        settings,
        sends: promise.map(Into::into),
        discipline: Some(DisciplineSpec {
            settings: plain,
            ..DisciplineSpec::new("fifo")
        }),
        ..ClassSpec::default()
    }
}

/// Draws trees.
struct Forest {
    rng: Rng,
    /// The shortest packets.
    shortest: u64,
    /// What the leaves' senders promise, by name.
    promises: Vec<(String, Option<ArrivalCurve>)>,
}

impl Forest {
    fn name(&mut self) -> String {
        format!("c{}", self.promises.len())
    }

    /// A class of this rate: a leaf, or one with a discipline of so many levels.
    fn class(&mut self, rate: u64, depth: u32, settings: Table) -> ClassSpec {
        let name = self.name();
        let nested = depth > 0 && self.rng.below(3) > 0;
        let promise = (!nested && self.rng.below(4) > 0).then(|| ArrivalCurve {
            rate: Bandwidth::bits_per_sec((rate / 100 * (20 + self.rng.below(81))).max(1_000)),
            burst: Bytes::new(MTU + self.rng.below(8 * MTU)),
        });
        self.promises.push((name.clone(), promise));
        let mut class = leaf(name, settings, promise);
        if nested {
            let kind = ["drr", "priq"][self.rng.below(2) as usize];
            class.discipline = Some(self.inner(kind, rate, depth - 1));
        }
        class
    }

    fn weights(&mut self) -> Vec<u64> {
        (0..2 + self.rng.below(3))
            .map(|_| 1 + self.rng.below(4))
            .collect()
    }

    /// A discipline that shares this rate.
    fn inner(&mut self, kind: &str, rate: u64, depth: u32) -> DisciplineSpec {
        let weights = self.weights();
        let all: u64 = weights.iter().sum();
        let part = |(number, &weight): (usize, &u64)| {
            let settings = match kind {
                "drr" => Table::default().text("quantum", &format!("{} B", MTU * weight)),
                _ => Table::default().with("priority", Raw::Integer(9 - number as i64)),
            };
            self.class(rate / all * weight, depth, settings)
        };
        let mut classes: Vec<ClassSpec> = weights.iter().enumerate().map(part).collect();
        classes.last_mut().expect("two at least").default = true;
        DisciplineSpec {
            classes: classes.into(),
            ..DisciplineSpec::new(kind)
        }
    }

    fn outer(&mut self, kind: &str, link: u64) -> DisciplineSpec {
        if matches!(kind, "drr" | "priq") {
            return self.inner(kind, link, 2);
        }
        let weights = self.weights();
        let all: u64 = weights.iter().sum();
        let part = |&weight: &u64| {
            let rate = link / 100 * 95 * weight / all;
            let settings = match kind {
                "cbq" => Table::default()
                    .text("rate", &bits(rate))
                    .with("priority", Raw::Integer(self.rng.below(8) as i64))
                    .with("maxburst", Raw::Integer(2 + self.rng.below(16) as i64)),
                // The rate counts the FCS, which the classes' rates do not.
                "pacer" => Table::default()
                    .text("rate", &bits(rate / 100 * 95))
                    .text("packet", &format!("{} B", self.shortest)),
                _ => {
                    let first = rate + self.rng.below(2) * self.rng.below(link / 100 * 5 / 4 + 1);
                    let span = 1 + self.rng.below(50_000);
                    Table::default().text(
                        "realtime",
                        &format!("{} for {span} us, then {}", bits(first), bits(rate)),
                    )
                }
            };
            let inside = if kind == "pacer" { rate / 100 * 94 } else { rate };
            self.class(inside, 2, settings)
        };
        let mut classes: Vec<ClassSpec> = weights.iter().map(part).collect();
        classes.last_mut().expect("two at least").default = true;
        let mut settings = Table::default();
        if kind == "cbq" {
            let pace = ["shaped", "port"][self.rng.below(2) as usize];
            settings = settings.text("link", pace).text("link_burst", "2 s");
        }
        DisciplineSpec {
            settings,
            classes: classes.into(),
            ..DisciplineSpec::new(kind)
        }
    }

    /// Packets of all leaves.
    fn harm(&mut self, plan: &TreePlan) -> Vec<Arrival> {
        let frame = plan.link.bandwidth.time_to_send(Bytes::new(MTU)).nanos();
        let meeting = 40 * frame;
        let mut arrivals = Vec::new();
        for (name, promise) in self.promises.clone() {
            let class = plan.class(&name).expect("it is there").0;
            let late = match self.rng.below(3) {
                0 => self.rng.below(10 * frame),
                _ => 0,
            };
            match promise {
                Some(promise) => {
                    let sender = Sender::new(promise).at_least(self.shortest);
                    arrivals.extend(sender.harm(class, (meeting + late, 40), MTU, &mut self.rng));
                }
                None if plan.classes.iter().any(|one| one.parent == Some(ClassId(class))) => {}
                None => {
                    let count = [1, 10, 100][self.rng.below(3) as usize];
                    for number in 0..count {
                        let at = match number {
                            0 => meeting - 1,
                            _ => meeting + 10 * frame - self.rng.below(50 * frame),
                        };
                        let len = MTU - self.rng.below(2) * self.rng.below(MTU - self.shortest);
                        arrivals.push(Arrival { at, class, len });
                    }
                }
            }
        }
        arrivals
    }
}

/// The plan of a drawn tree.
fn draw(kind: &str, seed: Seed) -> Option<(Forest, TreePlan)> {
    let mut forest = Forest {
        rng: seed.stream(),
        shortest: if kind == "pacer" { 600 } else { 1 },
        promises: Vec::new(),
    };
    let bandwidth = 1_000_000 << forest.rng.below(5);
    let ring = 1 + forest.rng.below(4) as u32;
    let link = Link::new(Bandwidth::bits_per_sec(bandwidth), Bytes::new(MTU)).with_ring(ring);
    let held = matches!(kind, "drr" | "priq") && forest.rng.below(4) == 0;
    let rate = match held {
        true => bandwidth / 100 * (50 + forest.rng.below(50)),
        false => bandwidth,
    };
    let mut spec = forest.outer(kind, rate);
    if held {
        spec = DisciplineSpec {
            settings: Table::default().text("rate", &bits(rate)),
            child: Some(Box::new(spec)),
            ..DisciplineSpec::new("tbf")
        };
    }
    let plan = spec.check(&Registry::builtin(), link).ok()?;
    Some((forest, plan))
}

/// How near to its bound any class in a class came, in thousandths, and how many had one.
fn try_all(kind: &str) -> (u64, u64) {
    let base = given("SUIMON_BOUNDS_SEED").unwrap_or_else(|| RandomState::new().hash_one(kind));
    let (mut nearest, mut bounded) = (0, 0);
    for case in 0..given("SUIMON_BOUNDS_CASES").unwrap_or(1_000) {
        let drawn = draw(kind, Seed(base).fork(kind).fork(&case.to_string()));
        let Some((mut forest, plan)) = drawn else { continue };
        let arrivals = forest.harm(&plan);
        let (fates, _) = run(&plan, plan.link.ring as usize, arrivals);
        for found in plan.bounds() {
            let (Some(class), Ok(bound)) = (found.class, found.bound) else {
                continue;
            };
            let fate = fates[class.0 as usize];
            let story = || {
                let name = &plan.info(class).expect("it is there").name;
                format!(
                    "{kind}, case {case} of SUIMON_BOUNDS_SEED={base}, {name}: {fate:?}, {bound:?} of {plan:#?}"
                )
            };
            assert!(fate.worst <= bound.delay.nanos(), "too late: {}", story());
            assert!(fate.held <= bound.backlog.get(), "too much held: {}", story());
            assert!(fate.dropped == 0, "lost: {}", story());
            if plan.info(class).is_some_and(|info| info.parent.is_some()) {
                bounded += 1;
                nearest = nearest.max(fate.worst * 1_000 / bound.delay.nanos().max(1));
            }
        }
    }
    (nearest, bounded)
}

fn holds_and_is_near(kind: &str, near: u64) {
    let (nearest, bounded) = try_all(kind);
    assert!(
        nearest >= near && bounded > 200,
        "{kind}: {nearest} of 1000, {bounded} classes"
    );
}

#[test]
fn in_deficit_round_robin() {
    holds_and_is_near("drr", 500);
}

#[test]
fn in_strict_priority() {
    holds_and_is_near("priq", 600);
}

#[test]
fn in_cbq() {
    holds_and_is_near("cbq", 400);
}

#[test]
fn in_a_pace() {
    holds_and_is_near("pacer", 600);
}

#[test]
fn in_hfsc() {
    holds_and_is_near("hfsc", 500);
}

/// A link of 10 Mbit/s that two classes share, one of them with a discipline in its queue.
fn site(outer: DisciplineSpec, inner: DisciplineSpec, settings: Table, rest: Table) -> TreePlan {
    let site = ClassSpec {
        discipline: Some(inner),
        ..leaf("site".into(), settings, None)
    };
    let rest = ClassSpec {
        default: true,
        ..leaf("rest".into(), rest, None)
    };
    let spec = DisciplineSpec {
        classes: vec![site, rest].into(),
        ..outer
    };
    let link = Link::new(Bandwidth::mbit(10), Bytes::new(MTU));
    spec.check(&Registry::builtin(), link).expect("a plan")
}

fn voice(mbit: u64, packets: u64) -> ArrivalCurve {
    ArrivalCurve {
        rate: Bandwidth::mbit(mbit),
        burst: Bytes::new(packets * MTU),
    }
}

fn priority(number: i64) -> Table {
    Table::default().with("priority", Raw::Integer(number))
}

/// The bound of a class of this name, in nanoseconds.
fn bound(plan: &TreePlan, name: &str) -> u64 {
    let class = plan.class(name);
    let found = plan.bounds().into_iter().find(|case| case.class == class);
    let found = found.expect("a case").bound.expect("a bound");
    found.delay.nanos()
}

/// `calls` before `others`.
fn inner() -> DisciplineSpec {
    DisciplineSpec {
        classes: vec![
            leaf("calls".into(), priority(9), Some(voice(1, 8))),
            ClassSpec {
                default: true,
                ..leaf("others".into(), priority(0), None)
            },
        ]
        .into(),
        ..DisciplineSpec::new("priq")
    }
}

/// What can be worst is known: the bursts meet just when the site's turn has ended, or a longest
/// packet of the site's own has been begun, and the rest of the link is full. That is nearly as
/// long as the bound; under `cbq` a quarter of it, which counts every credit as if all were full at
/// once and again after a wait.
#[test]
fn known_worst_cases_are_near_to_the_bound() {
    let outer = |kind: &str| DisciplineSpec::new(kind);
    let quantum = |packets: u64| Table::default().text("quantum", &format!("{} B", packets * MTU));
    let rate = |mbit: u64| Table::default().text("rate", &format!("{mbit} Mbit/s"));
    let real = |mbit: u64| Table::default().text("realtime", &format!("{mbit} Mbit/s"));
    let plans = [
        ("drr", site(outer("drr"), inner(), quantum(1), quantum(1)), 830),
        (
            "priq",
            site(outer("priq"), inner(), priority(1), priority(0)),
            870,
        ),
        ("hfsc", site(outer("hfsc"), inner(), real(4), real(6)), 900),
        ("cbq", site(outer("cbq"), inner(), rate(4), rate(6)), 240),
    ];
    for (kind, plan, near) in plans {
        let bound = bound(&plan, "calls");
        let [calls, others, rest] = ["calls", "others", "rest"].map(|name| plan.class(name).expect(name).0);
        let frame = plan.link.bandwidth.time_to_send(Bytes::new(MTU)).nanos();
        let worst = (0..400).map(|phase| {
            let at = 100 * frame + phase * frame / 8;
            let mut arrivals = Vec::new();
            for class in [others, rest] {
                arrivals.extend((0..300).map(|_| Arrival {
                    at: 0,
                    class,
                    len: MTU,
                }));
            }
            let burst = Sender::new(voice(1, 8)).greedy(calls, 20, MTU);
            arrivals.extend(burst.into_iter().map(|call| Arrival {
                at: call.at + at,
                ..call
            }));
            run(&plan, 1, arrivals).0[calls as usize].worst
        });
        let worst = worst.max().expect("some");
        assert!(worst <= bound, "{kind}: {worst} of {bound}");
        assert!(worst * 1_000 >= bound * near, "{kind}: {worst} of {bound}");
    }
}

/// Where no theorem holds there is a reason and no number.
#[test]
fn what_no_theorem_covers_is_refused_with_the_reason() {
    let why = |plan: &TreePlan, name: &str| {
        let class = plan.class(name);
        let found = plan.bounds().into_iter().find(|case| case.class == class);
        found.expect("a case").bound.expect_err("no bound")
    };
    let link_sharing = Table::default().text("linkshare", "4 Mbit/s");
    let plan = site(
        DisciplineSpec::new("hfsc"),
        inner(),
        link_sharing.clone(),
        link_sharing,
    );
    assert!(why(&plan, "calls").contains("no real-time curve"));
    let turns = |_: u32| Table::default().with("weight", Raw::Integer(1));
    let plan = site(DisciplineSpec::new("wrr"), inner(), turns(1), turns(1));
    assert!(why(&plan, "calls").contains("counts packets"));
    let rated = |name: &str, default| ClassSpec {
        default,
        ..leaf(
            name.into(),
            Table::default().text("rate", "1 Mbit/s"),
            Some(voice(1, 2)),
        )
    };
    let whole = DisciplineSpec {
        classes: vec![rated("calls", false), rated("others", true)].into(),
        ..DisciplineSpec::new("cbq")
    };
    let plan = site(
        DisciplineSpec::new("drr"),
        whole,
        Table::default(),
        Table::default(),
    );
    assert!(why(&plan, "calls").contains("may hold packets back"));
    let held = DisciplineSpec {
        settings: Table::default().text("rate", "1 Mbit/s"),
        child: Some(Box::new(inner())),
        ..DisciplineSpec::new("tbf")
    };
    let plan = site(
        DisciplineSpec::new("drr"),
        held,
        Table::default(),
        Table::default(),
    );
    assert!(why(&plan, "calls").contains("may hold packets back"));
}
