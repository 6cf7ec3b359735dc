//! Compositions: every parent over every other kind, with leaves that do what upsets a parent.
//!
//! A leaf may drop its whole backlog inside `dequeue` and turn out to be empty; overflow and empty
//! itself while it has its parent's turn; refuse packets; hold its packets back; or get other
//! settings meanwhile. A parent that tracks its leaves by what `enqueue` said last then serves a
//! leaf that is empty, or never again one that is not: the kernel's HFSC over fq_codel did. Here no
//! class waits longer than a horizon that follows from the policy, nothing stalls, and every packet
//! offered is sent, dropped or queued; and where a plan prints a bound, senders that keep to their
//! arrival curves hold it to that, packet by packet.
//!
//! The kinds are those of the registry. `SUIMON_COMPOSITION_STEPS` sets the steps for each
//! composition, `SUIMON_CONTRACT_SEED` repeats a run. 1,000,000 steps each take six minutes of two
//! threads with `--profile release-tests`; with seed 20261123 they found nothing, and 200,000 held
//! all of 55,000 classes to their bounds.

#![allow(
    dead_code,
    reason = "the policies are those of the contract test, which uses all of it"
)]

#[path = "contract/policies.rs"]
mod policies;
#[path = "bounds/rig.rs"]
mod rig;

use engine::bounds::ArrivalCurve;
use engine::discipline::{Build, Discipline, Next, Plan, Reason, Sink, Verdict};
use engine::inspect::Inspection;
use engine::kind::{Check, Children, Kind, Properties, QueuePlan};
use engine::packet::{ClassId, FlowHashes, Packet};
use engine::portion::Portion;
use engine::queue::Queue;
use engine::random::{Rng, Seed};
use engine::settings::{Fallback, Raw, Setting, SettingValue, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Duration, Instant, Rate};
use policies::LINK;
use std::any::Any;
use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

engine::choices! {
    /// What leaves do.
    enum Upset {
        /// Drop inside `dequeue`, up to the whole backlog.
        Drops = "drops",
        /// Drop the backlog when a packet comes that is one too many.
        Overflows = "overflows",
        /// Refuse every other packet.
        Refuses = "refuses",
        /// Wait after each packet.
        Paces = "paces",
    }
}

engine::settings! {
    /// Settings of `fickle`.
    struct Settings {
        /// What it does
        does: Upset = required, "", "";
    }
}

/// What stands between a parent and the kind below it.
static FICKLE: Kind = Kind {
    name: "fickle",
    summary: "Does to its parent what leaves may do",
    reference: "the test of compositions",
    children: Children::One,
    settings: Settings::SETTINGS,
    class_settings: &[],
    properties: Properties::NONE,
    check: check_fickle,
};

#[derive(Debug)]
struct FicklePlan {
    does: Upset,
    child: QueuePlan,
}

fn check_fickle(check: &mut Check<'_>) -> Option<Arc<dyn Plan>> {
    let does = Settings::read(check.settings, &[], check.problems)?.does;
    let child = check.child.take()?;
    Some(Arc::new(FicklePlan { does, child }))
}

impl Plan for FicklePlan {
    fn build(&self, cx: &Build) -> Box<dyn Discipline> {
        Box::new(Fickle {
            does: self.does,
            child: self.child.build(&cx.part("child")),
            rng: cx.part("whims").rng(),
            until: Instant::START,
        })
    }
}

#[derive(Debug)]
struct Fickle {
    does: Upset,
    child: Queue,
    rng: Rng,
    until: Instant,
}

/// An overflow empties a queue of this length.
const SHORT: u64 = 3;
const LONGEST_PAUSE: Duration = Duration::from_millis(3);

impl Discipline for Fickle {
    fn enqueue(&mut self, now: Instant, packet: Packet, sink: &mut dyn Sink) -> Verdict {
        let full = self.does == Upset::Overflows && self.child.backlog().packets >= SHORT;
        if full {
            self.child.flush(&mut Portion::whole(), sink);
        }
        if full || self.does == Upset::Refuses && self.rng.below(2) == 0 {
            sink.drop(packet, Reason::Full);
            return Verdict::Dropped(Reason::Full);
        }
        self.child.enqueue(now, packet, sink)
    }

    fn dequeue(&mut self, now: Instant, sink: &mut dyn Sink) -> Next<Packet> {
        if self.does == Upset::Paces && now < self.until && !self.child.is_empty() {
            return Next::Wait(self.until);
        }
        while self.does == Upset::Drops && self.rng.below(3) == 0 {
            match self.child.dequeue(now, sink) {
                Next::Ready(packet) => sink.drop(packet, Reason::Early),
                other => return other,
            }
        }
        let next = self.child.dequeue(now, sink);
        if let Next::Ready(_) = next {
            self.until = now + Duration::from_nanos(self.rng.below(LONGEST_PAUSE.nanos()));
        }
        next
    }

    fn flush(&mut self, portion: &mut Portion, sink: &mut dyn Sink) {
        self.child.flush(portion, sink);
    }

    fn inspect(&self, out: &mut Inspection<'_>) {
        self.child.inspect(out);
    }

    fn retune(&mut self, now: Instant, plan: &dyn Plan) -> bool {
        let plan: &dyn Any = plan;
        let plan = plan.downcast_ref::<FicklePlan>();
        plan.is_some_and(|plan| self.child.retune(now, &*plan.child.plan))
    }
}

/// A leaf that does this, over what the policy has there.
fn fickle(does: Upset, over: Option<DisciplineSpec>) -> DisciplineSpec {
    DisciplineSpec {
        settings: Table::default().text("does", does.name()),
        child: over.map(Box::new),
        ..DisciplineSpec::of(&FICKLE)
    }
}

/// Puts such leaves below the outermost discipline.
fn upset(spec: &mut DisciplineSpec, kind: &Kind, does: Upset) {
    if kind.children == Children::One {
        let child = spec.child.take().map(|child| *child);
        spec.child = Some(Box::new(fickle(does, child)));
    }
    let parents: HashSet<String> = spec
        .classes
        .iter()
        .filter_map(|class| Some(class.parent.clone()?.name))
        .collect();
    for class in &mut spec.classes {
        if !parents.contains(class.name.as_str()) {
            class.discipline = Some(fickle(does, class.discipline.take()));
        }
    }
}

/// What has become of the packets.
#[derive(Debug, Default)]
struct Account {
    offered: u64,
    sent: u64,
    dropped: u64,
    /// By class.
    queued: Vec<u64>,
}

impl Sink for Account {
    fn drop(&mut self, packet: Packet, _why: Reason) {
        self.dropped += 1;
        self.queued[packet.class.0 as usize] -= 1;
    }
}

/// A queue, what has become of its packets, and the time.
struct Composition {
    queue: Queue,
    leaves: Vec<ClassId>,
    account: Account,
    rng: Rng,
    now: Instant,
    /// Steps so far.
    steps: u64,
}

impl Composition {
    fn new(plan: &TreePlan, seed: Seed) -> Self {
        let leaf = |index: &usize| plan.classes[*index].leaf;
        let leaves = (0..plan.classes.len())
            .filter(leaf)
            .map(|index| ClassId(index as u32));
        let mut leaves: Vec<ClassId> = leaves.collect();
        if leaves.is_empty() {
            leaves.push(plan.class_of(None));
        }
        let account = Account {
            queued: vec![0; plan.classes.len().max(1)],
            ..Account::default()
        };
        Self {
            queue: plan.build(seed.fork("queue")),
            leaves,
            account,
            rng: seed.fork("steps").stream(),
            now: Instant::START,
            steps: 0,
        }
    }

    fn check(&mut self) {
        self.steps += 1;
        let Account {
            offered,
            sent,
            dropped,
            queued,
        } = &self.account;
        let backlog = self.queue.backlog().packets;
        assert_eq!(
            *offered,
            sent + dropped + backlog,
            "offered, and sent + dropped + queued"
        );
        assert_eq!(queued.iter().sum::<u64>(), backlog);
    }

    fn offer(&mut self, class: ClassId) -> Bytes {
        let len = Bytes::new(if self.rng.below(2) == 0 {
            1_514
        } else {
            60 + self.rng.below(1_455)
        });
        let full = self.rng.below(6) as u32;
        let packet = Packet {
            flow: FlowHashes {
                source: full % 2,
                destination: full % 3,
                full,
            },
            ..Packet::new(len, self.now, class)
        };
        self.account.offered += 1;
        self.account.queued[class.0 as usize] += 1;
        let _ = self.queue.enqueue(self.now, packet, &mut self.account);
        self.check();
        len
    }

    /// The class of the packet that leaves now; or when to ask again.
    fn take(&mut self) -> Next<ClassId> {
        let next = match self.queue.dequeue(self.now, &mut self.account) {
            Next::Ready(packet) => {
                self.account.sent += 1;
                self.account.queued[packet.class.0 as usize] -= 1;
                self.now = self.now + LINK.bandwidth.time_to_send(packet.len);
                Next::Ready(packet.class)
            }
            Next::Wait(at) => {
                assert!(at != Instant::NEVER, "waits for ever with a backlog");
                Next::Wait(at)
            }
            Next::Empty => Next::Empty,
        };
        self.check();
        next
    }
}

/// What earlier bursts may have left to be paid back: some megabytes at 1 Mbit/s. A stall lasts for
/// ever.
const DEBTS: Duration = Duration::from_secs(30);

/// The length of a curve's first piece, in the microseconds of `tests/contract/policies.rs`.
fn first_piece(curve: &Raw) -> Duration {
    let Raw::Text(text) = curve else {
        return Duration::ZERO;
    };
    let before = |unit: &str| text.split_once(unit)?.0.split_whitespace().last()?.parse().ok();
    Duration::from_micros(before(" us").unwrap_or(0))
}

/// What a policy may hold packets back by: the slowest rate in it, and all its times.
struct Slowness {
    rate: Bandwidth,
    times: Duration,
}

impl Slowness {
    fn of(spec: &DisciplineSpec, registry: &Registry) -> Self {
        let mut slowness = Self {
            // Service curves have rates from 1 % on.
            rate: LINK.bandwidth.min(Bandwidth::mbit(1)),
            times: LONGEST_PAUSE,
        };
        slowness.add(spec, registry);
        slowness
    }

    fn add(&mut self, spec: &DisciplineSpec, registry: &Registry) {
        let kind = registry.find(&spec.kind).expect("a kind that was drawn");
        self.add_table(&spec.settings, kind.settings);
        for class in &spec.classes {
            self.add_table(&class.settings, kind.class_settings);
            class
                .discipline
                .iter()
                .for_each(|inner| self.add(inner, registry));
        }
        spec.child.iter().for_each(|child| self.add(child, registry));
    }

    fn add_table(&mut self, table: &Table, settings: &[Setting]) {
        for entry in &table.entries {
            let unit = settings
                .iter()
                .find(|s| s.name == entry.key)
                .map_or("", |s| s.unit);
            if unit.contains("a curve") {
                // A curve begins again with each backlog, and may allow nothing in its first piece.
                self.times += first_piece(&entry.value);
            } else if unit == Duration::UNIT {
                self.times += Duration::from_raw(&entry.value).unwrap_or(Duration::ZERO);
            } else if unit == Rate::UNIT || unit == Bandwidth::UNIT {
                let rate = Rate::from_raw(&entry.value).map(|rate| rate.on(LINK.bandwidth));
                let rate = rate.unwrap_or(LINK.bandwidth);
                if rate > Bandwidth::ZERO {
                    self.rate = self.rate.min(rate);
                }
            }
        }
    }

    /// The longest that packets of this many bytes can take, if nothing else arrives: one after the
    /// other at the slowest rate in each of three levels, and each waits three times for every time
    /// of the policy.
    fn horizon(&self, packets: u64, bytes: u64) -> Duration {
        let sending = self.rate.time_to_send(Bytes::new(bytes)).times(3);
        sending + self.times.times(3 * packets) + DEBTS
    }
}

/// Bursts of random operations, each followed by silence: until then every packet has left.
fn bursts(composition: &mut Composition, plans: &[&QueuePlan], slowness: &Slowness, steps: u64) {
    let mut nth = 0;
    while composition.steps < steps {
        let (mut packets, mut bytes) = (0, 0);
        for _ in 0..2 + composition.rng.below(30) {
            match composition.rng.below(8) {
                0..=4 => {
                    let leaf = composition.rng.below(composition.leaves.len() as u64) as usize;
                    let len = composition.offer(composition.leaves[leaf]);
                    (packets, bytes) = (packets + 1, bytes + len.get());
                }
                5 | 6 => {
                    let _ = composition.take();
                }
                _ => composition.now = composition.now + Duration::from_micros(composition.rng.below(2_000)),
            }
            if plans.len() > 1 && composition.rng.below(4) == 0 {
                // Where one cannot be adopted, that in force is applied again, as hosts do.
                let other = (nth + 1) % plans.len();
                if composition.queue.retune(composition.now, &*plans[other].plan) {
                    nth = other;
                } else {
                    let _ = composition.queue.retune(composition.now, &*plans[nth].plan);
                }
            }
        }
        let (start, horizon) = (composition.now, slowness.horizon(packets, bytes));
        let mut waits = 0;
        loop {
            match composition.take() {
                Next::Ready(_) => waits = 0,
                Next::Wait(at) => {
                    (composition.now, waits) = (at, waits + 1);
                }
                Next::Empty => break,
            }
            assert!(
                waits < 10_000,
                "waits again and again, with a backlog: {:?}",
                composition.account
            );
            let took = composition.now.since(start);
            assert!(
                took <= horizon,
                "{took} after a burst of {packets} packets, more than {horizon}"
            );
        }
    }
}

fn number(name: &str, usual: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(usual, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a whole number"))
    })
}

fn seed() -> u64 {
    number(
        "SUIMON_CONTRACT_SEED",
        RandomState::new().hash_one("compositions"),
    )
}

/// Runs a test of a composition; a failure names it.
fn examine(name: &str, base: u64, test: impl FnOnce()) {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
    assert!(outcome.is_ok(), "{name}; to replay: SUIMON_CONTRACT_SEED={base}");
}

const UPSETS: [Upset; 4] = [Upset::Drops, Upset::Overflows, Upset::Refuses, Upset::Paces];

#[test]
fn no_composition_stalls_whatever_its_leaves_do() {
    let (builtin, registry) = (Registry::builtin(), Registry::builtin().with(&FICKLE));
    let (base, steps) = (seed(), number("SUIMON_COMPOSITION_STEPS", 4_000));
    for parent in builtin.kinds().filter(|kind| kind.children != Children::None) {
        for leaf in builtin.kinds() {
            let name = format!("{} over {}", parent.name, leaf.name);
            let seed = Seed(base).fork(&name);
            for does in UPSETS {
                examine(&format!("{name}, whose leaf {}", does.name()), base, || {
                    let (spec, plan) = drawn(&registry, parent, leaf, does, seed.fork(does.name()));
                    let mut composition = Composition::new(&plan, seed.fork("run"));
                    bursts(&mut composition, &[], &Slowness::of(&spec, &registry), steps);
                });
            }
            examine(&format!("{name}, which is changed"), base, || {
                let drawn = policies::draw(&builtin, parent, Some(leaf), seed);
                let mut slowness = Slowness::of(&drawn.spec, &builtin);
                // The other plan's times are not in the spec; they are drawn alike.
                slowness.times += Duration::from_secs(30);
                slowness.rate = slowness.rate.min(Bandwidth::kbit(8));
                let mut composition = Composition::new(&drawn.plan, seed.fork("run"));
                let plans = [&drawn.plan.root, &drawn.other.root];
                bursts(&mut composition, &plans, &slowness, steps);
            });
        }
    }
}

/// The same leaf as a kind that keeps the order and never waits, so that plans print bounds over
/// it.
static FICKLE_IN_ORDER: Kind = Kind {
    name: "fickle-in-order",
    properties: Properties {
        keeps_order: true,
        conserves_work: true,
        ..Properties::NONE
    },
    ..FICKLE
};

/// States arrival curves for most leaves, and makes some of these fickle.
fn promise(spec: &mut DisciplineSpec, rng: &mut Rng) {
    let inner: HashSet<String> = spec
        .classes
        .iter()
        .filter_map(|class| Some(class.parent.clone()?.name))
        .collect();
    for class in spec
        .classes
        .iter_mut()
        .filter(|class| !inner.contains(class.name.as_str()))
    {
        let curve = ArrivalCurve {
            rate: Bandwidth::kbit(100 + rng.below(4_000)),
            burst: Bytes::new(1_514 + rng.below(15_000)),
        };
        class.sends = (rng.below(8) > 0).then(|| curve.into());
        if rng.below(2) == 0 {
            let does = UPSETS[rng.below(3) as usize];
            class.discipline = Some(DisciplineSpec {
                settings: Table::default().text("does", does.name()),
                child: Some(Box::new(DisciplineSpec::new("fifo"))),
                ..DisciplineSpec::of(&FICKLE_IN_ORDER)
            });
        }
    }
}

/// Bursts of all leaves that meet: those with an arrival curve keep to it, those below a class with
/// one keep to it together, and others flood.
fn meeting(plan: &TreePlan, rng: &mut Rng) -> Vec<rig::Arrival> {
    let frame = LINK.bandwidth.time_to_send(LINK.mtu).nanos();
    // What arrives together: the class with the curve, or the leaf without one; and its leaves.
    let mut together: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (leaf, _) in (0u32..).zip(plan.classes.iter()).filter(|(_, class)| class.leaf) {
        let above = std::iter::successors(Some(leaf), |class| {
            plan.classes[*class as usize].parent.map(|parent| parent.0)
        });
        let promised = above.filter(|class| plan.classes[*class as usize].arrivals.is_some());
        together
            .entry(promised.last().unwrap_or(leaf))
            .or_default()
            .push(leaf);
    }
    let mut arrivals = Vec::new();
    for (class, leaves) in together {
        let start = 20 * frame + rng.below(3) * rng.below(10 * frame);
        match plan.classes[class as usize].arrivals {
            Some(curve) => {
                let sender = rig::Sender::new(curve);
                let mut those = sender.harm(class, (start, 40), LINK.mtu.get(), rng);
                for arrival in &mut those {
                    arrival.class = leaves[rng.below(leaves.len() as u64) as usize];
                }
                arrivals.extend(those);
            }
            None => arrivals.extend((0..60).map(|_| rig::Arrival {
                at: start - 1 + rng.below(60 * frame),
                class,
                len: 60 + rng.below(1_455),
            })),
        }
    }
    arrivals
}

#[test]
fn no_packet_waits_longer_than_the_bound_that_its_plan_prints() {
    let (builtin, registry) = (Registry::builtin(), Registry::builtin().with(&FICKLE_IN_ORDER));
    let (base, steps) = (seed(), number("SUIMON_COMPOSITION_STEPS", 4_000));
    let mut bounded: BTreeMap<&str, u64> = BTreeMap::new();
    for parent in builtin.kinds().filter(|kind| kind.children != Children::None) {
        for leaf in builtin.kinds() {
            let name = format!("{} over {}, with arrival curves", parent.name, leaf.name);
            // Each round offers some 100 packets.
            for round in 0..steps.div_ceil(200) {
                let mut rng = Seed(base).fork(&name).fork(&round.to_string()).stream();
                let mut spec = policies::draw(&registry, parent, Some(leaf), Seed(rng.bits())).spec;
                promise(&mut spec, &mut rng);
                let Ok(plan) = spec.check(&registry, LINK) else {
                    continue;
                };
                let cases = plan.bounds();
                if cases
                    .iter()
                    .all(|case| case.class.is_none() || case.bound.is_err())
                {
                    continue;
                }
                examine(&format!("{name}, round {round}"), base, || {
                    let arrivals = meeting(&plan, &mut rng);
                    let (fates, _) = rig::run(&plan, LINK.ring as usize, arrivals);
                    for case in &cases {
                        let (Some(class), Ok(bound)) = (case.class, &case.bound) else {
                            continue;
                        };
                        let fate = fates[class.0 as usize];
                        assert!(
                            fate.worst <= bound.delay.nanos(),
                            "class {}: {fate:?}, {bound:?} of {spec:#?}",
                            class.0
                        );
                        *bounded.entry(parent.name).or_default() += u64::from(fate.sent > 0);
                    }
                });
            }
        }
    }
    assert!(
        bounded.len() >= 3 && bounded.values().sum::<u64>() > steps / 40,
        "hardly any plan had a bound: {bounded:?}"
    );
}

/// A random policy with such leaves.
fn drawn(
    registry: &Registry,
    parent: &Kind,
    leaf: &Kind,
    does: Upset,
    seed: Seed,
) -> (DisciplineSpec, TreePlan) {
    for round in 0..50 {
        let mut spec = policies::draw(registry, parent, Some(leaf), seed.fork(&round.to_string())).spec;
        upset(&mut spec, parent, does);
        if let Ok(plan) = spec.check(registry, LINK) {
            return (spec, plan);
        }
    }
    panic!(
        "no policy of {} over {} accepts such leaves",
        parent.name, leaf.name
    );
}

/// Kinds whose rule is that some classes go before others, as long as these send.
const STRICT: [&str; 2] = ["priq", "ips"];
/// What a class needs beside its required settings.
const ALSO: [(&str, &str, &str); 1] = [("hfsc", "linkshare", "10 %")];

/// What must be set, by type: a tenth of the link each.
fn required(kind: &Kind, settings: &[Setting], nth: u64) -> Table {
    let mut table = Table::default();
    for setting in settings
        .iter()
        .filter(|setting| setting.default == Fallback::Required)
    {
        let value = match setting.unit {
            unit if unit == Rate::UNIT => Raw::Text("10 %".into()),
            unit if unit == Bandwidth::UNIT => Raw::Text("10 Mbit/s".into()),
            unit if unit == Bytes::UNIT => Raw::Text("3028 B".into()),
            unit if unit == Duration::UNIT => Raw::Text("1 ms".into()),
            unit if unit == u32::UNIT => Raw::Integer(nth as i64),
            unit => panic!(
                "`{}` of `{}` is {unit}: say here what it is",
                setting.name, kind.name
            ),
        };
        table = table.with(setting.name, value);
    }
    table
}

#[test]
fn no_class_with_a_backlog_waits_for_ever_while_others_send_all_the_time() {
    let (builtin, registry) = (Registry::builtin(), Registry::builtin().with(&FICKLE));
    let (base, steps) = (seed(), number("SUIMON_COMPOSITION_STEPS", 4_000));
    let shares =
        |kind: &&Kind| matches!(kind.children, Children::Classes { .. }) && !STRICT.contains(&kind.name);
    for parent in builtin.kinds().filter(shares) {
        for leaf in builtin.kinds().filter(|kind| kind.children == Children::None) {
            for does in UPSETS {
                let name = format!("{} over {}, which {}", parent.name, leaf.name, does.name());
                examine(&name, base, || {
                    let class = |nth: u64| {
                        let mut settings = required(parent, parent.class_settings, nth);
                        for (_, key, value) in ALSO.iter().filter(|also| also.0 == parent.name) {
                            settings = settings.text(key, value);
                        }
                        let below = DisciplineSpec {
                            settings: required(leaf, leaf.settings, nth),
                            ..DisciplineSpec::of(leaf)
                        };
                        ClassSpec {
                            name: format!("class-{nth}").into(),
                            default: nth == 0,
                            settings,
                            discipline: Some(fickle(does, Some(below))),
                            ..ClassSpec::default()
                        }
                    };
                    let spec = DisciplineSpec {
                        settings: required(parent, parent.settings, 0),
                        classes: (0..5).map(class).collect(),
                        ..DisciplineSpec::of(parent)
                    };
                    let plan = spec
                        .check(&registry, LINK)
                        .unwrap_or_else(|problems| panic!("{problems:?}"));
                    always_backlogged(&mut Composition::new(&plan, Seed(base).fork(&name)), steps);
                });
            }
        }
    }
}

/// All classes get packets all the time. Equal classes, so that each has its turn within some
/// rounds of the others: 512 packets of each.
fn always_backlogged(composition: &mut Composition, steps: u64) {
    let classes = composition.leaves.clone();
    let horizon = LINK
        .bandwidth
        .time_to_send(LINK.mtu.times(512 * classes.len() as u64));
    let mut since = vec![Instant::START; classes.len()];
    while composition.steps < steps {
        for &class in &classes {
            if composition.account.queued[class.0 as usize] <= SHORT && composition.rng.below(2) == 0 {
                let _ = composition.offer(class);
            }
        }
        match composition.take() {
            Next::Ready(class) => since[class.0 as usize] = composition.now,
            Next::Wait(at) => composition.now = at,
            Next::Empty => composition.now = composition.now + Duration::from_micros(100),
        }
        for &class in &classes {
            let index = class.0 as usize;
            if composition.account.queued[index] == 0 {
                since[index] = composition.now;
            }
            let waits = composition.now.since(since[index]);
            assert!(
                waits <= horizon,
                "class {index} waits {waits} with a backlog, more than {horizon}"
            );
        }
    }
}

/// A pair of which hardly any policy is valid is hardly tested, and one day not at all.
#[test]
fn of_every_pair_enough_policies_are_valid() {
    let builtin = Registry::builtin();
    for parent in builtin.kinds() {
        for child in builtin.kinds() {
            policies::are_seldom_refused(&builtin, parent, Some(child), Seed(1));
        }
    }
}
