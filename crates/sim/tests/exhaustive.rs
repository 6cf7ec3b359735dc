//! Every arrival pattern of a small world against a policy of every kind
//! (`sim::exhaustive`): conservation, order in a class, work conservation or the rate, fair shares,
//! and the bounds on delay.
//!
//! All patterns of up to 3 packets with `--profile release-tests`, of 2 without;
//! `SUIMON_EXHAUSTIVE_PACKETS` sets another number.

use engine::bounds::ArrivalCurve;
use engine::link::Link;
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes};
use sim::exhaustive::{Claims, Exhaustive};

const LINK: Link = Link::new(Bandwidth::mbit(10), Bytes::new(1_514));

/// What is claimed of a policy besides its bounds.
#[derive(Clone, Copy)]
enum Claim {
    /// It never waits with a backlog.
    Works,
    /// The same, and classes share by these quanta.
    Shares([u64; 3]),
    /// It sends no more than this.
    Sends(ArrivalCurve),
}

/// A kind, the settings of the whole and of three classes, what is claimed, and how many classes
/// have a bound.
struct Case {
    kind: &'static str,
    settings: &'static str,
    classes: &'static [&'static str],
    claim: Claim,
    bounds: usize,
}

const fn case(kind: &'static str, classes: &'static [&'static str], bounds: usize) -> Case {
    Case {
        kind,
        settings: "",
        classes,
        claim: Claim::Works,
        bounds,
    }
}

const fn sends(mbit: u64, burst: u64) -> Claim {
    Claim::Sends(ArrivalCurve {
        rate: Bandwidth::mbit(mbit),
        burst: Bytes::new(burst),
    })
}

const CASES: &[Case] = &[
    case("fifo", &[], 1),
    case("codel", &[], 0),
    case("pie", &[], 0),
    case("red", &[], 0),
    case("blue", &[], 0),
    case("rio", &[], 0),
    case("dualpi2", &[], 0),
    Case {
        claim: Claim::Shares([1_514; 3]),
        ..case("wfq", &[], 0)
    },
    case("fq_codel", &[], 0),
    Case {
        settings: "rate=5 Mbit/s",
        claim: sends(5, 1_514),
        ..case("cake", &[], 0)
    },
    Case {
        settings: "rate=2 Mbit/s",
        ..case("police", &[], 0)
    },
    Case {
        settings: "rate=2 Mbit/s burst=2000 B",
        claim: sends(2, 2_000),
        ..case("tbf", &[], 1)
    },
    case("priq", &["priority=3", "priority=2", "priority=1"], 3),
    Case {
        claim: Claim::Shares([1_514, 2 * 1_514, 3 * 1_514]),
        ..case("drr", &["weight=1", "weight=2", "weight=3"], 3)
    },
    case("wrr", &["weight=1", "weight=2", "weight=3"], 0),
    case("cbq", &["rate=30 % priority=2", "rate=30 %", "rate=30 %"], 3),
    case(
        "hfsc",
        &["realtime=20 %", "realtime=30 % linkshare=30 %", "realtime=40 %"],
        3,
    ),
    case(
        "ips",
        &["rate=1 Mbit/s delay=20 ms", "rate=2 Mbit/s delay=30 ms", ""],
        2,
    ),
    Case {
        claim: sends(6, 3 * 1_514),
        ..case("pacer", &["rate=1 Mbit/s", "rate=2 Mbit/s", "rate=3 Mbit/s"], 0)
    },
];

/// Settings such as "rate=1 Mbit/s burst=2000 B".
fn table(text: &str) -> Table {
    let mut entries: Vec<(&str, String)> = Vec::new();
    for word in text.split_whitespace() {
        match (word.split_once('='), entries.last_mut()) {
            (Some((key, value)), _) => entries.push((key, value.into())),
            (None, Some((_, value))) => *value = format!("{value} {word}"),
            (None, None) => panic!("no key in \"{text}\""),
        }
    }
    entries.into_iter().fold(Table::default(), |table, (key, value)| {
        let number = value.parse().map(Raw::Integer);
        table.with(key, number.unwrap_or(Raw::Text(value)))
    })
}

fn plan(case: &Case) -> TreePlan {
    let curve = ArrivalCurve {
        rate: Bandwidth::mbit(1),
        burst: Bytes::new(2 * 1_514),
    };
    // Classes that are guaranteed a delay state their senders' curve by settings of their own.
    let states = case.bounds > 0 && !case.classes.iter().any(|class| class.contains("delay="));
    let class = |(number, settings): (usize, &&str)| ClassSpec {
        name: ["red", "green", "blue"][number].into(),
        default: number == 2,
        settings: table(settings),
        sends: states.then(|| curve.into()),
        ..ClassSpec::default()
    };
    let spec = DisciplineSpec {
        settings: table(case.settings),
        classes: case.classes.iter().enumerate().map(class).collect(),
        ..DisciplineSpec::new(case.kind)
    };
    spec.check(&Registry::builtin(), LINK)
        .unwrap_or_else(|problems| panic!("{}: {problems:?}", case.kind))
}

fn all(plan: &TreePlan, claim: Claim, packets: u32) -> Result<Exhaustive, String> {
    let claims = Claims::of(plan);
    let claims = match claim {
        Claim::Works => Claims {
            conserves_work: true,
            ..claims
        },
        Claim::Shares(quanta) => Claims {
            conserves_work: true,
            quanta: Some(quanta),
            ..claims
        },
        Claim::Sends(curve) => Claims {
            output: Some(curve),
            ..claims
        },
    };
    let mut world = Exhaustive::new(plan, claims, packets);
    world.judge(u64::MAX)?;
    assert!(world.is_complete());
    assert_eq!(world.patterns(), world.total());
    Ok(world)
}

#[test]
fn every_kind_keeps_its_claims_in_every_pattern_of_a_small_world() {
    let usual = if cfg!(debug_assertions) { 2 } else { 3 };
    let packets = std::env::var("SUIMON_EXHAUSTIVE_PACKETS")
        .map_or(usual, |text| text.parse().expect("a number of packets"));
    for case in CASES {
        let judged = all(&plan(case), case.claim, packets);
        let world = judged.unwrap_or_else(|fault| panic!("{}: {fault}", case.kind));
        assert_eq!(world.bounds().len(), case.bounds, "{}: bounds", case.kind);
        for class in world.bounds() {
            let least = LINK.bandwidth.time_to_send(LINK.mtu);
            assert!(class.worst > least, "{}: no packet waits", case.kind);
        }
    }
}

#[test]
fn every_registered_kind_has_a_case() {
    for kind in Registry::builtin().kinds() {
        assert!(
            CASES.iter().any(|case| case.kind == kind.name),
            "kind `{}` is registered, but has no case in CASES",
            kind.name
        );
    }
}

#[test]
fn a_claim_that_does_not_hold_is_found_with_its_pattern() {
    let find = |kind: &str| CASES.iter().find(|case| case.kind == kind).expect("a case");
    let waits = all(&plan(find("tbf")), Claim::Works, 2).expect_err("it waits");
    assert!(
        waits.contains("waits with a backlog") && waits.contains("757 B"),
        "{waits}"
    );
    let sent = all(&plan(find("tbf")), sends(2, 1_514), 2).expect_err("a burst of 2,000 B");
    assert!(
        sent.contains("more leaves than the rate and burst allow"),
        "{sent}"
    );
    let quanta = [3 * 1_514, 2 * 1_514, 1_514];
    let shared = all(&plan(find("drr")), Claim::Shares(quanta), 2).expect_err("weights of 1 to 3");
    assert!(
        shared.contains("further apart than their quanta allow"),
        "{shared}"
    );
}
