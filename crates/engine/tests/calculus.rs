//! Bounds beside textbook examples of network calculus whose exact values are known: never below
//! the exact value, and at most 5 % above it.
//!
//! The examples are of Le Boudec and Thiran, "Network calculus", 2001, in fluid form, with numbers
//! of our own. Each test derives its exact value; where a worst case is attained, it says by what.
//! RSVP's are in `crates/rsvp/tests/calculus.rs`.

use engine::bounds::{ArrivalCurve, PriorityClass, RateLatency, strict_priority};
use engine::link::Link;
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration};

fn curve(kbit: u64, burst: u64) -> ArrivalCurve {
    ArrivalCurve {
        rate: Bandwidth::kbit(kbit),
        burst: Bytes::new(burst),
    }
}

/// Not below the exact value, and at most 5 % above it.
fn assert_tight(what: &str, bound: u64, exact: u64) {
    assert!(bound >= exact, "{what}: {bound} is less than the exact {exact}");
    assert!(
        bound * 100 <= exact * 105,
        "{what}: {bound} is more than 5 % above the exact {exact}"
    );
}

/// Section 1.4.2: σ + ρ *t* through *R* (*t* − *T*). The curves are furthest apart horizontally at
/// *t* = 0, where the burst has come and σ are served at *T* + σ/*R*; vertically at *T*, with
/// σ + ρ *T*. A sender that is greedy from 0 on attains both.
#[test]
fn a_token_bucket_through_a_rate_latency_server() {
    // R is three eighths of 8 Mbit/s: 3 Mbit/s. T is 4 ms: 4,000 B at the link's rate.
    let server = RateLatency {
        before: 4_000,
        link: Bandwidth::mbit(8),
        part: 3,
        whole: 8,
        grain: Bytes::ZERO,
    };
    for (kbit, burst) in [(1_000, 6_000), (3_000, 1_500), (0, 40_000), (2_999, 1)] {
        let bound = server.bound(curve(kbit, burst)).expect("ρ ≤ R");
        // In nanoseconds and bytes: 8 σ / 3 Mbit/s, and ρ for 4 ms.
        assert_tight("delay", bound.delay.nanos(), 4_000_000 + burst * 8_000 / 3);
        assert_tight("backlog", bound.backlog.get(), burst + kbit / 2);
    }
    assert_eq!(server.bound(curve(3_001, 1)), None, "ρ > R: no bound exists");
}

/// Section 1.4.1 and proposition 1.3.3: flows that share a FIFO server are one flow of the summed
/// curve, and each has its delay: *T* + Σσ/*R*. Attained by the last bit of the flow that comes
/// last when all bursts meet.
#[test]
fn flows_that_share_a_fifo_server() {
    let flows = [curve(1_000, 3_000), curve(2_500, 12_000), curve(500, 1_500)];
    let server = RateLatency::after(2_500, Bandwidth::mbit(10));
    let all: ArrivalCurve = flows.into_iter().sum();
    let bound = server.bound(all).expect("4 of 10 Mbit/s");
    // 2 ms and 16,500 B at 10 Mbit/s: 13.2 ms; 4 Mbit/s in 2 ms: 1,000 B.
    assert_tight("delay", bound.delay.nanos(), 15_200_000);
    assert_tight("backlog", bound.backlog.get(), 17_500);
}

/// Section 6.2.1, priority without preemption, a packet *L* of the lower class being on the link:
/// the higher class gets *C* after *L*/*C*, the lower one *C* − ρ_H after σ_H/(*C* − ρ_H). So
/// (σ_H + *L*)/*C* and (σ_H + σ_L)/(*C* − ρ_H), attained when the bursts meet and the higher sender
/// stays greedy.
const HIGH: u64 = 920_000;
const LOW: u64 = 6_000_000;

#[test]
fn strict_priority_without_preemption() {
    // C = 100 Mbit/s, L = 1,500 B: 11,500 B at 100 Mbit/s, and 60,000 B at 80 Mbit/s.
    let classes = [curve(20_000, 10_000), curve(30_000, 50_000)];
    let services = strict_priority(
        Bandwidth::mbit(100),
        Bytes::new(1_500),
        &[(2, classes[0]), (1, classes[1])].map(|(priority, arrivals)| PriorityClass { priority, arrivals }),
    );
    let delays = [0, 1].map(|class| services[class].bound(classes[class]).expect("a bound").delay);
    assert_tight("the higher", delays[0].nanos(), HIGH);
    assert_tight("the lower", delays[1].nanos(), LOW);
}

/// Priority in a class of priority is priority: of three levels, the first in the outer discipline,
/// the others in its second class. The middle one has the exact (σ₁ + σ₂ + *L*) / (*C* − ρ₁).
#[test]
fn strict_priority_inside_strict_priority() {
    let class = |name: &str, priority: i64, sends: Option<ArrivalCurve>| ClassSpec {
        name: name.into(),
        default: sends.is_none(),
        settings: Table::default().with("priority", Raw::Integer(priority)),
        sends: sends.map(Into::into),
        ..ClassSpec::default()
    };
    let inner = DisciplineSpec {
        classes: [
            class("middle", 1, Some(curve(3_000, 50_000))),
            class("last", 0, None),
        ]
        .into_iter()
        .collect(),
        ..DisciplineSpec::new("priq")
    };
    let below = ClassSpec {
        discipline: Some(inner),
        default: true,
        ..class("below", 1, None)
    };
    let spec = DisciplineSpec {
        classes: [class("first", 2, Some(curve(2_000, 10_000))), below]
            .into_iter()
            .collect(),
        ..DisciplineSpec::new("priq")
    };
    let link = Link::new(Bandwidth::mbit(10), Bytes::new(1_500));
    let plan = spec.check(&Registry::builtin(), link).expect("a policy");
    let middle = plan.class("middle");
    let case = plan.bounds().into_iter().find(|case| case.class == middle);
    let bound = case.expect("a case").bound.expect("a bound");
    assert_tight("the middle", bound.delay.nanos(), 61_500_000);
}

/// The same as a policy: what `check` prints for `priq`, at a tenth of the speed, where ports cut
/// no super-packets that would be longer than *L*.
#[test]
fn strict_priority_as_a_policy() {
    let class = |(priority, arrivals): (i64, ArrivalCurve)| ClassSpec {
        name: priority.to_string().into(),
        default: priority == 1,
        settings: Table::default().with("priority", Raw::Integer(priority)),
        sends: Some(arrivals.into()),
        ..ClassSpec::default()
    };
    let spec = DisciplineSpec {
        classes: [(2, curve(2_000, 10_000)), (1, curve(3_000, 50_000))]
            .map(class)
            .into_iter()
            .collect(),
        ..DisciplineSpec::new("priq")
    };
    let link = Link::new(Bandwidth::mbit(10), Bytes::new(1_500));
    let plan = spec.check(&Registry::builtin(), link).expect("a policy");
    let delays: Vec<Duration> = plan
        .bounds()
        .into_iter()
        .map(|case| case.bound.expect("a bound").delay)
        .collect();
    assert_tight("the higher", delays[0].nanos(), 10 * HIGH);
    assert_tight("the lower", delays[1].nanos(), 10 * LOW);
}
