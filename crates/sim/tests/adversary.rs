//! The adversary of bounds: no bound of any kind is exceeded, it comes near to them, and a bound
//! that is too small by what one neighbour can do is exceeded.

use engine::bounds::{ArrivalCurve, Bound};
use engine::link::Link;
use engine::random::Seed;
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration};
use sim::adversary::Adversary;

const MTU: Bytes = Bytes::new(1_514);

fn curve(kbit: u64, burst: u64) -> ArrivalCurve {
    ArrivalCurve {
        rate: Bandwidth::kbit(kbit),
        burst: Bytes::new(burst),
    }
}

/// Three classes of what their senders state, and one of others.
const CURVES: [(u64, u64); 3] = [(100, 214), (1_000, 4_000), (2_000, 9_000)];

/// A plan of this kind, on 10 Mbit/s behind this ring; each class's settings by its number and
/// curve, and the last's, which states none.
fn plan(
    kind: &str,
    ring: u32,
    class_settings: impl Fn(usize, ArrivalCurve) -> Table,
    rest: Table,
) -> TreePlan {
    let class = |(number, &(kbit, burst)): (usize, &(u64, u64))| ClassSpec {
        name: format!("class-{number}").into(),
        settings: class_settings(number, curve(kbit, burst)),
        sends: (kind != "ips").then(|| curve(kbit, burst).into()),
        ..ClassSpec::default()
    };
    let rest = ClassSpec {
        name: "rest".into(),
        default: true,
        settings: rest,
        ..ClassSpec::default()
    };
    // A port as the clock fills its ring; the discipline's own clock leaves one packet there.
    let settings = match kind {
        "cbq" => Table::default().text("link", "port").text("link_burst", "2 s"),
        _ => Table::default(),
    };
    let spec = DisciplineSpec {
        settings,
        classes: CURVES.iter().enumerate().map(class).chain([rest]).collect(),
        ..DisciplineSpec::new(kind)
    };
    let link = Link::new(Bandwidth::mbit(10), MTU).with_ring(ring);
    spec.check(&Registry::builtin(), link).expect("a plan")
}

fn rated(rate: Bandwidth) -> Table {
    Table::default().with("rate", rate)
}

fn priority(number: usize) -> Table {
    Table::default().with("priority", Raw::Integer(number as i64))
}

/// A plan of each kind that has bounds, and how near to the nearest the search has to come, in
/// thousandths.
fn kinds(ring: u32) -> Vec<(&'static str, TreePlan, u64)> {
    let cbq = |number: usize, curve: ArrivalCurve| {
        rated(curve.rate)
            .with("priority", Raw::Integer(7 - number as i64))
            .with("maxburst", Raw::Integer(8))
    };
    let same = |_: usize, curve: ArrivalCurve| rated(curve.rate).with("maxburst", Raw::Integer(8));
    let quantum = |_: usize, curve: ArrivalCurve| {
        Table::default().text("quantum", &format!("{} B", 1_514 * curve.rate.bits() / 100_000))
    };
    let ips = |number: usize, curve: ArrivalCurve| {
        let delay = ["20 ms", "60 ms", "90 ms"][number];
        rated(curve.rate)
            .with("burst", curve.burst.max(MTU))
            .text("delay", delay)
    };
    let real = |_: usize, curve: ArrivalCurve| {
        let rate = curve.rate.bits();
        Table::default().text(
            "realtime",
            &format!("{} bit/s for 10 ms, then {rate} bit/s", 2 * rate),
        )
    };
    let limit = Table::default().with("limit", Raw::Integer(30));
    let fifo = DisciplineSpec {
        settings: limit,
        ..DisciplineSpec::new("fifo")
    };
    let link = Link::new(Bandwidth::mbit(10), MTU).with_ring(ring);
    let fifo = fifo.check(&Registry::builtin(), link).expect("a plan");
    let none = Table::default;
    vec![
        ("fifo", fifo, 980),
        (
            "priq",
            plan("priq", ring, |number, _| priority(9 - number), priority(0)),
            950,
        ),
        (
            "drr",
            plan("drr", ring, quantum, Table::default().text("quantum", "1514 B")),
            500,
        ),
        ("cbq", plan("cbq", ring, cbq, rated(Bandwidth::mbit(5))), 950),
        (
            "cbq, one priority",
            plan("cbq", ring, same, rated(Bandwidth::mbit(5))),
            200,
        ),
        (
            "hfsc",
            plan("hfsc", ring, real, none().text("linkshare", "5 Mbit/s")),
            500,
        ),
        ("ips", plan("ips", ring, ips, none()), 900),
        (
            "priq in drr",
            nested("drr", ring, quantum(0, curve(600, 1_514))),
            700,
        ),
        ("priq in cbq", nested("cbq", ring, rated(Bandwidth::mbit(5))), 200),
        (
            "priq in hfsc",
            nested("hfsc", ring, none().text("realtime", "5 Mbit/s")),
            500,
        ),
        (
            "priq in pacer",
            nested(
                "pacer",
                ring,
                rated(Bandwidth::kbit(4_400)).text("packet", "400 B"),
            ),
            500,
        ),
    ]
}

/// The three classes and the others in strict priority, in one of two classes of this kind that
/// share the link alike.
fn nested(kind: &str, ring: u32, half: Table) -> TreePlan {
    let class = |(number, &(kbit, burst)): (usize, &(u64, u64))| ClassSpec {
        name: format!("class-{number}").into(),
        settings: priority(9 - number),
        sends: Some(curve(kbit, burst.max(1_514)).into()),
        ..ClassSpec::default()
    };
    let rest = |name: &str, settings: Table| ClassSpec {
        name: name.into(),
        default: true,
        settings,
        ..ClassSpec::default()
    };
    let inner = DisciplineSpec {
        classes: CURVES
            .iter()
            .enumerate()
            .map(class)
            .chain([rest("rest", priority(0))])
            .collect(),
        ..DisciplineSpec::new("priq")
    };
    let site = ClassSpec {
        name: "site".into(),
        settings: half.clone(),
        discipline: Some(inner),
        ..ClassSpec::default()
    };
    let settings = match kind {
        "cbq" => Table::default().text("link", "port").text("link_burst", "2 s"),
        _ => Table::default(),
    };
    let spec = DisciplineSpec {
        settings,
        classes: [site, rest("elsewhere", half)].into_iter().collect(),
        ..DisciplineSpec::new(kind)
    };
    let link = Link::new(Bandwidth::mbit(10), MTU).with_ring(ring);
    spec.check(&Registry::builtin(), link).expect("a plan")
}

#[test]
fn no_bound_of_any_kind_is_exceeded_and_the_search_comes_near() {
    for ring in [1, 3] {
        for (kind, plan, near) in kinds(ring) {
            let mut adversary = Adversary::new(&plan, Seed(1));
            assert!(
                !adversary.targets().is_empty(),
                "{kind} has no bound: {:?}",
                plan.bounds()
            );
            for _ in 0..60 * adversary.targets().len() {
                adversary.step().expect("a route");
            }
            let story = |adversary: &Adversary| -> Vec<String> {
                let line = |target: &sim::adversary::Target| {
                    let name = &adversary.senders()[target.sender].name;
                    format!("{name}: {} of {}", target.worst, target.bound.delay)
                };
                adversary.targets().iter().map(line).collect()
            };
            let nearest = adversary
                .targets()
                .iter()
                .map(|target| target.thousandths())
                .max();
            assert!(
                adversary.targets().iter().all(|target| !target.is_exceeded()),
                "{kind}, ring {ring}: {:?}",
                story(&adversary)
            );
            assert!(
                nearest.is_some_and(|nearest| nearest >= near),
                "{kind}, ring {ring}: {nearest:?}: {:?}",
                story(&adversary)
            );
        }
    }
}

#[test]
fn a_bound_that_forgets_a_neighbour_is_exceeded() {
    // The bound that a class would have alone on the link.
    for (kind, plan, _) in kinds(1) {
        let bounds = plan.bounds();
        let first = bounds
            .iter()
            .find_map(|case| case.bound.clone().ok())
            .expect("a bound");
        let second = plan.class("class-1");
        let unsound = match second {
            // What one packet of the device takes is forgotten.
            None => Bound {
                delay: Duration::from_nanos(first.delay.nanos() - 1_211_200),
                ..first
            },
            Some(_) => {
                let own = bounds.iter().find(|case| case.class == second);
                let own = own.and_then(|case| case.bound.clone().ok()).expect("a bound");
                Bound {
                    // Sound alone on the link: its own burst, and the packet in the device.
                    delay: plan
                        .link
                        .bandwidth
                        .time_to_send(own.arrivals.expect("a curve").burst + MTU),
                    ..own
                }
            }
        };
        let mut adversary = Adversary::against(&plan, vec![(second, unsound)], Seed(1));
        for _ in 0..100 {
            adversary.step().expect("a route");
        }
        assert!(
            adversary.targets()[0].is_exceeded(),
            "{kind}: {:?}",
            adversary.targets()[0].worst
        );
    }
}

#[test]
fn the_same_seed_finds_the_same() {
    let search = || {
        let plan = plan("priq", 1, |number, _| priority(9 - number), priority(0));
        let mut adversary = Adversary::new(&plan, Seed(7));
        (0..30).for_each(|_| adversary.step().expect("a route"));
        adversary
            .targets()
            .iter()
            .map(|target| target.worst)
            .collect::<Vec<_>>()
    };
    assert_eq!(search(), search());
}
