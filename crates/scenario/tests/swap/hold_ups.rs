//! The printed bound is the live bound: the worker between ports keeps it for traffic that
//! conforms, however late it runs within what is usual; and what its host holds up beyond that is
//! told, packet by packet, and nothing else.
//!
//! Its hold-ups are drawn at random: short ones, which are usual and count as nothing, and long
//! ones. What they concern is found once more here, by the rule of `netio::hold_ups` from what the
//! wire has seen, and must be what the worker's meters tell. What they do not concern keeps the
//! bound; what they do exceeds it by no more than a link that stands still for that time makes
//! later by the same calculus.

use super::{Arrival, Ecn, Filter, Live, OnWire, Ports, Trial, end, live};
use engine::bounds::ArrivalCurve;
use engine::framing::Framing;
use engine::link::{LATENESS, Link};
use engine::packet::ClassId;
use engine::random::{Rng, Seed};
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use netio::ClassMeter;
use netio::hold_ups::{AFTER, HoldUp, OF_CLASS};
use std::ops::Range;

/// Two flows with a promise, and the rest.
const PROMISED: [(&str, u64, u64); 2] = [("calls", 2, 6_056), ("film", 3, 9_084)];

const KINDS: [&str; 6] = ["ips", "hfsc", "drr", "priq", "cbq", "pacer"];

/// A policy of this kind, on 10 Mbit/s behind this ring, with a loop that may be so late.
fn with_bounds(kind: &str, ring: u32, lateness: Duration) -> TreePlan {
    let class = |number: usize, name: &str, mbit: u64, burst: u64| {
        let rate = Bandwidth::mbit(mbit);
        let own = Table::default();
        let settings = match kind {
            "ips" => own
                .with("rate", rate)
                .with("burst", Bytes::new(burst))
                .text("delay", "2 s")
                .text("jitter", "0 s"),
            "hfsc" => own.with("realtime", rate),
            "drr" => own.text("quantum", &format!("{} B", 1_514 * mbit)),
            "priq" => own.with("priority", Raw::Integer(9 - number as i64)),
            "pacer" => own
                .with("rate", Bandwidth::kbit(mbit * 1_010))
                .text("packet", "590 B"),
            _ => own.with("rate", rate),
        };
        let curve = ArrivalCurve {
            rate,
            burst: Bytes::new(burst),
        };
        ClassSpec {
            name: name.into(),
            settings,
            sends: (kind != "ips").then(|| curve.into()),
            ..ClassSpec::default()
        }
    };
    let rest = match kind {
        "hfsc" => Table::default().text("linkshare", "5 Mbit/s"),
        "cbq" => Table::default().text("rate", "5 Mbit/s"),
        "priq" => Table::default().with("priority", Raw::Integer(0)),
        "drr" => Table::default().text("quantum", "4542 B"),
        _ => Table::default(),
    };
    let rest = ClassSpec {
        name: "rest".into(),
        default: true,
        settings: rest,
        discipline: Some(DisciplineSpec {
            settings: Table::default().with("limit", Raw::Integer(2_000)),
            ..DisciplineSpec::new("fifo")
        }),
        ..ClassSpec::default()
    };
    let promised = PROMISED.iter().enumerate();
    let promised = promised.map(|(number, &(name, mbit, burst))| class(number, name, mbit, burst));
    let spec = DisciplineSpec {
        classes: promised.chain([rest]).collect(),
        ..DisciplineSpec::new(kind)
    };
    let link = Link::new(Bandwidth::mbit(10), Bytes::new(1_514)).with_ring(ring);
    let plan = spec.check(&Registry::builtin(), link.with_lateness(lateness));
    plan.expect("a policy")
}

/// The bound of each promised class.
fn bounds(plan: &TreePlan) -> [u64; 2] {
    PROMISED.map(|(name, ..)| {
        let class = plan.class(name);
        let case = plan.bounds().into_iter().find(|case| case.class == class);
        case.expect("a case").bound.expect("a bound").delay.nanos()
    })
}

fn trial(plan: TreePlan, arrivals: Vec<Arrival>, faster: u64) -> Trial {
    let filters = (0..).zip(&PROMISED).map(|(flow, (name, ..))| Filter {
        source_port: Some(Ports::one(1_000 + flow)),
        ..Filter::new(plan.class(name).expect("it is there"))
    });
    Trial {
        filters: filters.collect(),
        arrivals,
        change: None,
        wire: Bandwidth::bits_per_sec(plan.link.bandwidth.bits() * faster),
        framing: Framing::PLAIN,
        realiser: false,
        plan,
    }
}

fn arrival(at: u64, flow: u16, frame: u64) -> Arrival {
    Arrival {
        at: Instant::from_nanos(at),
        flow,
        frame,
        ecn: Ecn::NotEct,
    }
}

/// What both flows may send at most, from this time on, beside a rest that always fills the link.
fn worst_arrivals(plan: &TreePlan, meeting: u64, frame: u64) -> Vec<Arrival> {
    let busy = plan.link.bandwidth.time_to_send(Bytes::new(1_514)).nanos();
    let mut all: Vec<Arrival> = (0..120).map(|number| arrival(number * busy, 2, 1_514)).collect();
    for (flow, &(_, mbit, burst)) in (0..).zip(&PROMISED) {
        let rate = Bandwidth::mbit(mbit);
        for number in 0..60 {
            // From the second on, when the bucket has brought what the burst does not cover.
            let lacks = Bytes::new(((number + 1) * frame).saturating_sub(burst));
            all.push(arrival(meeting + rate.time_to_send(lacks).nanos(), flow, frame));
        }
    }
    all.sort_by_key(|arrival| arrival.at);
    all
}

/// What arrives at random until then: both flows as their buckets let them, always all that these
/// hold or with pauses, and a rest that always or at times fills the link.
fn random_arrivals(plan: &TreePlan, rng: &mut Rng, until: u64) -> Vec<Arrival> {
    let busy = plan.link.bandwidth.time_to_send(Bytes::new(1_514)).nanos();
    let apart = [1, 1, 2, 6][rng.below(4) as usize];
    let greedy = rng.below(2) == 0;
    let mut all = Vec::new();
    let mut at = rng.below(busy);
    while at < until {
        all.push(arrival(at, 2, 1_514));
        at += if apart == 1 {
            busy
        } else {
            1 + rng.below(2 * apart * busy)
        };
    }
    for (flow, &(_, mbit, burst)) in (0..).zip(&PROMISED) {
        // A byte is worth 8,000 of these; a nanosecond brings one for each Mbit/s.
        let full = burst * 8_000;
        let (mut tokens, mut at) = (full, 1 + rng.below(20_000_000));
        while at < until {
            let takes: u64 = [60, 590, 1_514][rng.below(3) as usize];
            let lacks = (takes * 8_000).saturating_sub(tokens).div_ceil(mbit);
            let idles = if !greedy && rng.below(30) == 0 {
                rng.below(40_000_000)
            } else {
                0
            };
            let passes = lacks + idles;
            at += passes;
            tokens = full.min(tokens + passes * mbit) - takes * 8_000;
            all.push(arrival(at, flow, takes));
        }
    }
    all.sort_by_key(|arrival| arrival.at);
    all
}

/// Times in which the host does not let the worker run: many that are usual, and some of up to
/// 30 ms.
fn random_hold_ups(rng: &mut Rng, until: u64) -> Vec<Range<Instant>> {
    let (mut all, mut at) = (Vec::new(), 0);
    while at < until {
        at += 100_000 + rng.below(8_000_000);
        let longest = [5, 5, 30][rng.below(3) as usize] * LATENESS.nanos();
        let held = match rng.below(24) {
            0 => LATENESS.nanos() + 1 + rng.below(longest),
            _ => rng.below(LATENESS.nanos()),
        };
        all.push(Instant::from_nanos(at)..Instant::from_nanos(at + held));
        at += held;
    }
    all
}

/// A packet of a promised flow, and what became of it.
#[derive(Clone, Copy, Debug)]
struct Passed {
    arrived: Instant,
    /// When the worker took it out of the queue.
    taken: Instant,
    /// When its last bit was on the wire.
    last: Instant,
}

/// What was sent of each flow, in order; nothing may be lost.
fn passed(trial: &Trial, sent: &[OnWire], taken: &[Instant]) -> Vec<Vec<Passed>> {
    let each = |flow: u16| {
        let own = trial.arrivals.iter().filter(|arrival| arrival.flow == flow);
        let port = (1_000 + flow).to_be_bytes();
        let left = sent.iter().zip(taken);
        let left = left.filter(|(packet, _)| packet.headers[34..36] == port);
        let pairs = own.clone().zip(left).map(|(arrival, (packet, taken))| Passed {
            arrived: arrival.at,
            taken: *taken,
            last: packet.at + trial.wire.time_to_send(Bytes::new(packet.frame.into())),
        });
        let pairs: Vec<Passed> = pairs.collect();
        assert_eq!(pairs.len(), own.count(), "flow {flow} lost something");
        pairs
    };
    (0..3).map(each).collect()
}

/// A run with hold-ups.
struct Held {
    flows: Vec<Vec<Passed>>,
    noticed: Vec<HoldUp>,
    /// What the worker tells of each class.
    told: Vec<ClassMeter>,
}

fn held(trial: &Trial, held: Vec<Range<Instant>>) -> Held {
    let mut live = Live::new(trial);
    live.held = held;
    for arrival in &trial.arrivals {
        live.run_until(arrival.at);
        live.arrive(arrival);
    }
    live.run_until(end(trial));
    let (sent, taken) = live
        .wire
        .with(|wire| (std::mem::take(&mut wire.sent), std::mem::take(&mut wire.taken)));
    Held {
        flows: passed(trial, &sent, &taken),
        noticed: live.noticed.read(),
        told: live.worker.show(live.now).paths[0].classes.clone(),
    }
}

/// By how much hold-ups excuse the packets of a flow, by the rule as it is written, from what was
/// seen outside; `of_curve`: its senders keep to one that the tree knows.
fn excuses(run: &Held, flow: usize, of_curve: bool) -> Vec<u64> {
    // When the queue was empty: everything that had arrived was taken.
    let mut all: Vec<Passed> = run.flows.iter().flatten().copied().collect();
    all.sort_by_key(|packet| packet.arrived);
    let mut emptied = Vec::new();
    let mut last = Instant::START;
    for packet in &all {
        if packet.arrived >= last {
            emptied.push(last);
        }
        last = last.max(packet.taken);
    }
    let since_empty = |at: Instant| {
        let before = emptied.partition_point(|empty| *empty < at);
        before.checked_sub(1).map_or(Instant::START, |last| emptied[last])
    };
    let (mut left, mut backlogged) = (Instant::START, Instant::START);
    let excuse = |packet: &Passed| {
        if packet.arrived >= left {
            backlogged = packet.arrived;
        }
        left = packet.taken;
        let begun = since_empty(packet.taken);
        let concerns = |one: &&HoldUp| {
            let longer = |times: u64| one.until + one.length().times(times);
            let ever_since = of_curve && backlogged < one.until && packet.arrived < longer(OF_CLASS);
            one.until > begun && one.from < packet.taken && (packet.arrived < longer(AFTER) || ever_since)
        };
        let sum: u64 = run
            .noticed
            .iter()
            .filter(concerns)
            .map(|one| one.length().nanos())
            .sum();
        sum.min(packet.taken.since(packet.arrived).nanos())
    };
    run.flows[flow].iter().map(excuse).collect()
}

/// The bounds of the worst that may arrive, with a worker that is always in time.
#[test]
fn the_worker_keeps_the_bounds_that_are_printed_and_is_at_times_near_to_them() {
    for kind in KINDS {
        let mut nearest = 0;
        for ring in [1, 3] {
            let plan = with_bounds(kind, ring, Duration::ZERO);
            let bounds = bounds(&plan);
            for phase in 0..24 {
                let frame = [590, 1_514][phase as usize % 2];
                let meeting = 40_000_000 + phase * 101_000;
                let trial = trial(plan.clone(), worst_arrivals(&plan, meeting, frame), 1);
                let sent = live(&trial);
                let flows = passed(&trial, &sent, &vec![Instant::START; sent.len()]);
                for (flow, bound) in flows.iter().zip(bounds) {
                    let delays = flow
                        .iter()
                        .map(|packet| packet.last.since(packet.arrived).nanos());
                    let found = delays.max().expect("it sends");
                    assert!(
                        found <= bound,
                        "{kind}, ring {ring}, {phase}: {found} of {bound} ns"
                    );
                    nearest = nearest.max(found * 1_000 / bound);
                }
            }
        }
        // That of `cbq` counts every credit as full.
        let near = if kind == "cbq" { 150 } else { 300 };
        assert!(nearest > near, "{kind}: {nearest} of 1000");
    }
}

/// What was found in all runs of a kind.
#[derive(Debug, Default)]
struct Totals {
    /// Packets that no hold-up concerns, and those that one does.
    free: u64,
    concerned: u64,
    /// Of these, those that are excused, or by more, since their own class has had packets ever
    /// since.
    by_own_class: u64,
    /// Of these, those that were later than their bound.
    late: u64,
    /// Hold-ups that were noticed.
    noticed: usize,
}

#[test]
fn what_no_hold_up_concerns_keeps_the_printed_bound_and_what_one_does_is_told_and_no_more() {
    const UNTIL: u64 = 600_000_000;
    let (mut late, mut by_own_class) = (0, 0);
    for kind in KINDS {
        let mut totals = Totals::default();
        for run in 0..24 {
            let mut rng = Seed(run).fork(kind).stream();
            // A ring of one packet is dry until the loop runs: its wire has to be faster.
            let (ring, faster) = [(1, 2), (3, 1), (3, 2), (64, 100)][run as usize % 4];
            let plan = with_bounds(kind, ring, LATENESS);
            let arrivals = random_arrivals(&plan, &mut rng, UNTIL);
            let run = held(
                &trial(plan.clone(), arrivals, faster),
                random_hold_ups(&mut rng, UNTIL),
            );
            let about = format!("{kind}, ring {ring}, {faster} times as fast");
            judge(&plan, &run, &about, &mut totals);
        }
        eprintln!("{kind}: {totals:?}");
        assert!(totals.free > 3_000 && totals.concerned > 1_000 && totals.noticed > 50);
        late += totals.late;
        by_own_class += totals.by_own_class;
    }
    assert!(
        late > 300,
        "only {late} were later for a hold-up than their bound"
    );
    assert!(by_own_class > 3_000, "only {by_own_class} by the rule of a class");
}

/// Each packet of the promised flows, and what the worker tells of them.
fn judge(plan: &TreePlan, run: &Held, about: &str, totals: &mut Totals) {
    totals.noticed += run.noticed.len();
    let printed = bounds(plan);
    // By how much the bounds grow for a link that stands still for a second longer.
    let longer = with_bounds(
        plan.root.kind.name,
        plan.link.ring,
        LATENESS + Duration::from_millis(200),
    );
    let grown = bounds(&longer);
    for (flow, (name, ..)) in PROMISED.iter().enumerate() {
        let class = plan.class(name).expect("it is there");
        let of_curve = plan.classes[class.0 as usize].arrivals.is_some();
        let by_queue = excuses(run, flow, false);
        let excuses = excuses(run, flow, of_curve);
        let more = excuses.iter().zip(&by_queue).filter(|(all, some)| all > some);
        totals.by_own_class += more.count() as u64;
        let bound = printed[flow];
        for (packet, excuse) in run.flows[flow].iter().zip(&excuses) {
            let took = packet.last.since(packet.arrived).nanos();
            let more = (u128::from(grown[flow] - bound) * u128::from(*excuse)).div_ceil(200_000_000) as u64;
            assert!(
                took <= bound + more,
                "{about}: {name} arrived {} and took {took} of {bound} ns, {excuse} excused",
                packet.arrived.nanos()
            );
            totals.free += u64::from(*excuse == 0);
            totals.concerned += u64::from(*excuse > 0);
            totals.late += u64::from(took > bound);
        }
        let told = told(&run.told, class);
        let concerned = excuses.iter().filter(|excuse| **excuse > 0).count() as u64;
        let longest = excuses.iter().copied().max().unwrap_or(0);
        assert_eq!(told, (concerned, longest), "{about}: {name}, told and found");
    }
}

/// Of a class: how many packets were held up, and for how long at most.
fn told(meters: &[ClassMeter], class: ClassId) -> (u64, u64) {
    let meter = meters.iter().find(|meter| meter.class == class).expect("it sent");
    let held_up = meter.held_up.as_ref();
    held_up.map_or((0, 0), |held_up| {
        (held_up.by.count(), held_up.by.longest().nanos())
    })
}
