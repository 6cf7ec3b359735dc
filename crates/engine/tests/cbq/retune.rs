//! With children of any kind, while settings change with a backlog, and under inspection.

use crate::rig::{MTU, Rig, With, check, check_with, class, near};
use engine::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use engine::inspect::Value;
use engine::kind::{Check, Children, Kind, Properties};
use engine::packet::{ClassId, Packet};
use engine::portion::Portion;
use engine::random::{Rng, Seed};
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration, Instant};
use std::collections::VecDeque;
use std::sync::Arc;

const LINK: Bandwidth = Bandwidth::mbit(12);

/// Lets one packet go at each multiple of 10 ms.
#[derive(Debug, Default)]
struct Gate {
    held: VecDeque<Packet>,
    open: Instant,
}

/// Drops its whole backlog on dequeue.
#[derive(Debug, Default)]
struct Sieve(VecDeque<Packet>);

impl Discipline for Gate {
    fn enqueue(&mut self, _now: Instant, packet: Packet, _sink: &mut dyn Sink) -> Verdict {
        self.held.push_back(packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Instant, _sink: &mut dyn Sink) -> Next<Packet> {
        if self.held.is_empty() {
            return Next::Empty;
        }
        if now < self.open {
            return Next::Wait(self.open);
        }
        let tick = Duration::from_millis(10).nanos();
        self.open = Instant::from_nanos((now.nanos() / tick + 1) * tick);
        self.held.pop_front().map_or(Next::Empty, Next::Ready)
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        portion.flush(sink, || self.held.pop_front());
    }
}

impl Discipline for Sieve {
    fn enqueue(&mut self, _now: Instant, packet: Packet, _sink: &mut dyn Sink) -> Verdict {
        self.0.push_back(packet);
        Verdict::Queued
    }

    fn dequeue(&mut self, _now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        self.0
            .drain(..)
            .for_each(|packet| sink.drop(packet, Reason::Early));
        Next::Empty
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        portion.flush(sink, || self.0.pop_front());
    }
}

#[derive(Debug)]
struct Plain(fn() -> Box<dyn Discipline>);

impl Plan for Plain {
    fn build(&self, _cx: &Build) -> Box<dyn Discipline> {
        (self.0)()
    }
}

const fn kind(name: &'static str, check: fn(&mut Check<'_>) -> Option<Arc<dyn Plan>>) -> Kind {
    Kind {
        name,
        summary: "",
        reference: "",
        children: Children::None,
        settings: &[],
        class_settings: &[],
        properties: Properties::NONE,
        check,
    }
}

static GATE: Kind = kind("gate", |_| Some(Arc::new(Plain(|| Box::new(Gate::default())))));
static SIEVE: Kind = kind("sieve", |_| Some(Arc::new(Plain(|| Box::new(Sieve::default())))));

fn over(mut class: ClassSpec, discipline: &str) -> ClassSpec {
    class.discipline = Some(DisciplineSpec::new(discipline));
    class
}

fn rig(classes: &[ClassSpec]) -> Rig {
    let registry = Registry::builtin().with(&GATE).with(&SIEVE);
    Rig::of(check_with(&registry, Table::default(), LINK, classes).expect("a good tree"))
}

#[test]
fn a_queue_that_waits_holds_nobody_up_and_leaves_in_time() {
    let mut rig = rig(&[
        over(class("gate", "", "50 %").number("priority", 7), "gate"),
        class("bulk", "", "50 %"),
    ]);
    rig.start(&["gate", "bulk"], MTU);
    rig.run(Duration::from_millis(1_000));
    assert_eq!(rig.log.iter().filter(|(_, class)| *class == 0).count(), 100);
    assert_eq!(rig.log.len(), 1_000);
    let gate = rig.log.iter().filter(|(_, class)| *class == 0);
    // After the tick it waits for the packet on the wire at most.
    assert!(
        gate.clone().all(|(at, _)| at.nanos() % 10_000_000 <= 1_000_000),
        "{:?}",
        gate.collect::<Vec<_>>()
    );
    assert_eq!(rig.gauge("gate", "state"), Value::State("asleep"));
}

#[test]
fn when_all_queues_wait_the_answer_is_their_time() {
    let mut rig = rig(&[over(class("gate", "", "50 %"), "gate")]);
    rig.offer(0, MTU);
    rig.offer(0, MTU);
    assert!(matches!(rig.take(), Next::Ready(_)));
    rig.now = rig.now + Duration::from_millis(2);
    assert_eq!(rig.take(), Next::Wait(Instant::from_nanos(10_000_000)));
    rig.now = Instant::from_nanos(10_000_000);
    assert!(matches!(rig.take(), Next::Ready(_)));
    assert_eq!(rig.take(), Next::Empty);
}

#[test]
fn a_queue_that_empties_itself_is_passed_over() {
    let mut rig = rig(&[
        over(class("sieve", "", "50 %").number("priority", 7), "sieve"),
        class("bulk", "", "50 %"),
    ]);
    for _ in 0..100 {
        rig.offer(0, MTU);
        rig.offer(1, MTU);
        assert!(matches!(rig.take(), Next::Ready((1, _))));
        rig.now = rig.now + Duration::from_millis(1);
        assert_eq!(rig.take(), Next::Empty);
    }
    rig.offer(0, MTU);
    assert_eq!(rig.take(), Next::Empty);
    assert_eq!(rig.dropped.0.len(), 101);
}

#[test]
fn a_class_drops_from_the_head_if_its_queue_does() {
    let mut spec = class("fresh", "", "50 %");
    let mut fifo = DisciplineSpec::new("fifo");
    fifo.settings = Table::default()
        .with("limit", Raw::Integer(2))
        .text("drop", "head");
    spec.discipline = Some(fifo);
    let mut rig = rig(&[spec]);
    for len in [100, 200, 300] {
        rig.offer(0, len);
    }
    rig.run(Duration::from_secs(1));
    assert_eq!(
        (rig.sent[0], rig.dropped.0.as_slice()),
        (500, &[(0, Reason::Head)][..])
    );
}

#[test]
fn a_packet_of_no_class_goes_to_the_default_class() {
    let mut rig = rig(&[class("a", "", "50 %"), class("default", "", "50 %")]);
    let packet = Packet::new(Bytes::new(100), rig.now, rig.plan.class_of(None));
    let _ = rig.queue.enqueue(rig.now, packet, &mut rig.dropped);
    assert_eq!(rig.gauge("default", "state"), Value::State("ready"));
    // The tree decides, not the discipline: a class of another tree has no place.
    let packet = Packet::new(Bytes::new(100), rig.now, engine::packet::ClassId(77));
    let offered = rig.queue.enqueue(rig.now, packet, &mut rig.dropped);
    assert_eq!(offered, Verdict::Dropped(Reason::NoClass));
}

fn two(a: &str, b: &str) -> [ClassSpec; 2] {
    [class("a", "", a).limited(), class("b", "", b).limited()]
}

#[test]
fn rates_change_while_packets_flow() {
    let mut rig = rig(&two("1 Mbit/s", "6 Mbit/s"));
    rig.start(&["a", "b"], MTU);
    rig.run(Duration::from_secs(1));
    let held = rig.queue.backlog();
    let next = check(Table::default(), LINK, &two("6 Mbit/s", "500 kbit/s")).expect("a good tree");
    assert!(rig.queue.retune(rig.now, next.root.plan.as_ref()));
    assert_eq!(rig.queue.backlog(), held);
    rig.run(Duration::from_millis(50));
    near(
        &rig.rates(&["a", "b"], Duration::from_secs(4)),
        &[6_000.0, 500.0],
        1.0,
    );
    assert!(rig.dropped.0.is_empty());
}

/// When the next packet leaves, and after how many waits.
fn next_departure(rig: &mut Rig) -> (Instant, usize) {
    for waits in 0..1_000 {
        match rig.take() {
            Next::Ready(_) => return (rig.now, waits),
            Next::Wait(at) => rig.now = at,
            Next::Empty => break,
        }
    }
    panic!("no packet leaves");
}

/// All leaves wait when the change comes, some for longer than a late caller may catch up: the
/// clock of credits must not turn back, or the class would be woken early and in vain, at worst
/// nanosecond by nanosecond.
#[test]
fn a_class_that_is_regulated_when_its_rate_changes_waits_once_for_what_its_credit_lacks() {
    let tree = |sharing: &str, rate: &str| {
        let settings = Table::default()
            .text("sharing", sharing)
            .text("round_robin", "packet");
        let classes = [class("a", "", rate).limited(), class("idle", "", "1 Mbit/s")];
        check(settings, LINK, &classes).expect("a good tree")
    };
    for (sharing, whole) in ["formal", "top-level", "ancestors-only"]
        .into_iter()
        .flat_map(|sharing| [(sharing, true), (sharing, false)])
    {
        for later in 0..25 {
            let [mut unchanged, mut rig] = [(); 2].map(|()| {
                let mut rig = Rig::of(tree(sharing, "100 kbit/s"));
                rig.start(&["a"], MTU);
                rig.run(Duration::from_millis(4_000 + 10 * later));
                rig
            });
            let (changed, (then, _)) = (rig.now, next_departure(&mut unchanged));
            let next = tree(sharing, "200 kbit/s");
            let (plan, class) = (next.root.plan.as_ref(), ClassId(rig.number("a") as u32));
            assert!(match whole {
                true => rig.queue.retune(changed, plan),
                false => rig.queue.retune_class(changed, plan, class),
            });
            let (left, waits) = next_departure(&mut rig);
            // Credit comes twice as fast from now on.
            let expected = changed + Duration::from_nanos(then.since(changed).nanos().div_ceil(2));
            let off = left.nanos().abs_diff(expected.nanos());
            assert!(
                off <= 10 && waits <= 2,
                "{sharing}, whole {whole}, {changed}: at {left} after {waits} waits, not at {expected}"
            );
        }
    }
}

#[test]
fn every_other_setting_changes_while_packets_flow() {
    let tree = |settings: Table, low: i64, high: i64| {
        let (low, high) = (
            class("low", "x", "20 %").number("priority", low),
            class("high", "x", "20 %").number("priority", high),
        );
        check(settings, LINK, &[class("x", "", "60 %"), low, high]).expect("a good tree")
    };
    let mut rig = Rig::of(tree(Table::default(), 1, 5));
    rig.start(&["low", "high"], MTU);
    let second = Duration::from_secs(1);
    near(&rig.rates(&["low", "high"], second), &[6_000.0, 6_000.0], 2.0);
    let priority = Table::default().text("excess", "priority");
    for (plan, expected) in [
        (tree(priority.clone(), 1, 5), [2_400.0, 9_600.0]),
        (tree(priority, 5, 1), [9_600.0, 2_400.0]),
        (
            tree(Table::default().text("sharing", "ancestors-only"), 1, 5),
            [2_400.0, 9_600.0],
        ),
        (tree(Table::default(), 1, 5), [6_000.0, 6_000.0]),
    ] {
        assert!(rig.queue.retune(rig.now, plan.root.plan.as_ref()));
        rig.run(Duration::from_millis(100));
        near(&rig.rates(&["low", "high"], second), &expected, 2.0);
    }
    rig.stop(&["low", "high"]);
    rig.run(second);
    assert!(rig.queue.is_empty() && rig.dropped.0.is_empty());
}

#[test]
fn a_tree_of_another_shape_is_refused() {
    let mut rig = rig(&two("1 Mbit/s", "6 Mbit/s"));
    let other = check(
        Table::default(),
        LINK,
        &[class("a", "", "50 %"), class("b", "a", "50 %")],
    );
    assert!(
        !rig.queue
            .retune(rig.now, other.expect("a good tree").root.plan.as_ref())
    );
}

#[test]
fn a_look_inside_shows_what_each_class_sent_borrowed_and_lent() {
    let mut rig = rig(&[
        class("x", "", "60 %"),
        class("a", "x", "20 %"),
        class("b", "x", "40 %"),
    ]);
    rig.start(&["a"], 1_000);
    rig.run(Duration::from_secs(1));
    let bytes = |value: Value| match value {
        Value::Bytes(bytes) => bytes.get() as f64 * 8.0 / 1_000.0,
        other => panic!("{other:?}"),
    };
    let lent = [rig.gauge("x", "lent"), rig.gauge("a", "borrowed")].map(bytes);
    let root = rig.views()[0]
        .gauges
        .iter()
        .find(|g| g.0 == "lent")
        .expect("a gauge")
        .1;
    // a: 20 % of its own, 40 % from x, 40 % from the link.
    near(
        &[lent[0], lent[1], bytes(root)],
        &[4_800.0, 9_600.0, 4_800.0],
        2.0,
    );
    let x = rig.plan.class("x");
    let view = rig
        .views()
        .into_iter()
        .find(|view| view.class == x)
        .expect("a view");
    assert_eq!(view.stats, rig.queue.stats());
    assert_eq!(rig.gauge("a", "state"), Value::State("borrowing"));
    assert_eq!(rig.gauge("b", "state"), Value::State("idle"));
}

/// The same tree with other settings at each call.
fn other_settings(rng: &mut Rng) -> Option<TreePlan> {
    let mut percent = |from: u64, to: u64| format!("{} %", from + rng.below(to - from + 1));
    let mut classes = vec![
        class("x", "", &percent(10, 30)),
        class("y", "", &percent(10, 30)),
        class("f", "", &percent(0, 30)),
        class("a", "x", &percent(0, 5)),
        class("b", "x", &percent(0, 5)),
        class("z", "y", &percent(4, 5)),
        class("c", "y", &percent(0, 5)),
        class("d", "z", &percent(0, 2)),
        class("e", "z", &percent(0, 2)),
    ];
    for class in &mut classes {
        let limited = rng.below(3) == 0;
        *class = class
            .clone()
            .number("priority", rng.below(8) as i64)
            .number("maxburst", 2 + rng.below(30) as i64);
        if limited {
            *class = class.clone().limited();
        }
    }
    let pick = |rng: &mut Rng, all: &[&'static str]| all[rng.below(all.len() as u64) as usize];
    let sharing = pick(rng, &["formal", "formal", "top-level", "ancestors-only"]);
    let mut settings = Table::default()
        .text("sharing", sharing)
        .text("excess", pick(rng, &["share", "priority"]));
    if sharing != "formal" && rng.below(2) == 0 {
        settings = settings
            .text("root_rate", pick(rng, &["90 %", "98 %", "100 %"]))
            .with("efficient", Raw::Boolean(rng.below(2) == 0));
    }
    if rng.below(4) == 0 {
        settings = settings.text("tick", "3 ms");
    }
    check(settings, LINK, &classes).ok()
}

#[test]
fn no_change_of_settings_drops_or_strands_a_packet() {
    for seed in 0..60 {
        let mut rng = Seed(seed).stream();
        let mut rig = Rig::of(
            std::iter::repeat_with(|| other_settings(&mut rng))
                .flatten()
                .next()
                .expect("a tree"),
        );
        let leaves: Vec<String> = rig
            .plan
            .classes
            .iter()
            .filter(|c| c.leaf)
            .map(|c| c.name.to_string())
            .collect();
        for _ in 0..40 {
            for leaf in &leaves {
                match rng.below(3) {
                    0 => rig.stop(&[leaf]),
                    1 => rig.start(&[leaf], 40 + rng.below(MTU - 39)),
                    _ => {}
                }
            }
            rig.run(Duration::from_micros(rng.below(60_000)));
            if let Some(plan) = other_settings(&mut rng) {
                assert!(rig.queue.retune(rig.now, plan.root.plan.as_ref()));
            }
        }
        let names: Vec<&str> = leaves.iter().map(String::as_str).collect();
        rig.stop(&names);
        rig.run(Duration::from_secs(100));
        assert!(
            rig.queue.is_empty(),
            "seed {seed}: {:?} is held",
            rig.queue.backlog()
        );
        assert!(
            rig.dropped.0.iter().all(|(_, why)| *why == Reason::Full),
            "seed {seed}"
        );
    }
}
