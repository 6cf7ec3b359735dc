//! Another bandwidth, or other settings, adopted class by class, are the same as adopted at once: a
//! tree with packets queued sends the same ones at the same times from then on.

#[allow(dead_code, reason = "the contract test uses more of it")]
#[path = "contract/policies.rs"]
mod policies;

use engine::discipline::{Next, Reason, Sink};
use engine::kind::{Children, Kind};
use engine::link::Link;
use engine::packet::{ClassId, Packet};
use engine::queue::Queue;
use engine::random::{Rng, Seed};
use engine::tree::{Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Instant};
use policies::LINK;

const POLICIES: u64 = 1_500;
const PACKETS: u64 = 400;

/// Kinds whose classes take over another plan one by one.
const BY_CLASS: [&str; 7] = ["drr", "wrr", "hfsc", "cbq", "priq", "ips", "pacer"];

#[derive(Default)]
struct Dropped(u64);

impl Sink for Dropped {
    fn drop(&mut self, _packet: Packet, _why: Reason) {
        self.0 += 1;
    }
}

/// What left, and when.
type Left = Vec<(u64, u32)>;

/// Some packets arrive, some leave, both by this draw.
fn traffic(
    queue: &mut Queue,
    plan: &TreePlan,
    (from, numbers): (u64, u32),
    rng: &mut Rng,
    left: &mut Left,
    dropped: &mut Dropped,
) -> u64 {
    let leaves: Vec<ClassId> = (0..plan.classes.len() as u32)
        .map(ClassId)
        .filter(|class| plan.info(*class).is_some_and(|info| info.leaf && !info.vacant))
        .collect();
    let mut at = from;
    for number in 0..PACKETS {
        at += rng.below(40_000);
        let now = Instant::from_nanos(at);
        let class = leaves[rng.below(leaves.len() as u64) as usize];
        let mut packet = Packet::new(Bytes::new(64 + rng.below(1_400)), now, class);
        packet.flow.full = numbers + number as u32;
        let _ = queue.enqueue(now, packet, dropped);
        for _ in 0..rng.below(2) {
            if let Next::Ready(packet) = queue.dequeue(now, dropped) {
                left.push((at, packet.flow.full));
            }
        }
    }
    at
}

/// Sends all, whenever the queue says.
fn drain(queue: &mut Queue, mut at: u64, left: &mut Left, dropped: &mut Dropped) {
    loop {
        match queue.dequeue(Instant::from_nanos(at), dropped) {
            Next::Ready(packet) => left.push((at, packet.flow.full)),
            Next::Wait(until) => at = until.nanos(),
            Next::Empty => return,
        }
    }
}

/// What leaves, and when, and how many are dropped, if a tree takes over a plan in the midst of
/// traffic: at once, or class by class. `None` if it does not.
fn taken_over(
    (old, new): (&TreePlan, &TreePlan),
    classes: Option<&[ClassId]>,
    seed: Seed,
) -> Option<(Left, u64)> {
    let (mut left, mut dropped) = (Left::new(), Dropped::default());
    let mut rng = seed.fork("traffic").stream();
    let mut queue = old.build(seed);
    let at = traffic(&mut queue, old, (1, 0), &mut rng, &mut left, &mut dropped);
    let (now, root) = (Instant::from_nanos(at), new.root.plan.as_ref());
    let adopted = match classes {
        None => queue.retune(now, root),
        Some(classes) => {
            let mut classes = classes.iter();
            queue.retune_own(now, root) && classes.all(|class| queue.retune_class(now, root, *class))
        }
    };
    let next = (at, PACKETS as u32);
    let at = traffic(&mut queue, new, next, &mut rng, &mut left, &mut dropped);
    drain(&mut queue, at, &mut left, &mut dropped);
    adopted.then_some((left, dropped.0))
}

/// How many policies of this kind were judged, by what differs.
fn judge(registry: &Registry, kind: &Kind) -> [u64; 2] {
    let mut judged = [0; 2];
    for round in 0..POLICIES {
        let seed = Seed(round).fork(kind.name);
        let child = registry.kinds().nth(round as usize % registry.kinds().count());
        let policy = policies::draw(registry, kind, child, seed);
        let mut rng = seed.fork("link").stream();
        let bandwidth = Bandwidth::bits_per_sec(LINK.bandwidth.bits() / 2 * (1 + rng.below(4)));
        let of_another_link = policy.spec.check(registry, Link { bandwidth, ..LINK });
        for (what, new) in [of_another_link.ok(), Some(policy.other)].into_iter().enumerate() {
            let Some(new) = new else { continue };
            let (of, former) = (&new.root.plan, &*policy.plan.root.plan);
            let Some(classes) = of.changed_classes(former, true) else {
                continue;
            };
            let plans = (&policy.plan, &new);
            let both = [None, Some(&classes[..])].map(|classes| taken_over(plans, classes, seed));
            if let [Some(whole), Some(by_class)] = both {
                assert!(
                    whole == by_class,
                    "{}, round {round}.{what}: {} packets left, {}; {:?}",
                    kind.name,
                    whole.0.len(),
                    by_class.0.len(),
                    policy.spec.settings
                );
                let differs = what == 1 || policy.plan.link != new.link;
                judged[what] += u64::from(differs);
            }
        }
    }
    judged
}

#[test]
fn classes_that_take_over_a_plan_one_by_one_are_as_a_tree_that_takes_it_over_at_once() {
    let registry = Registry::builtin();
    for kind in registry.kinds() {
        if !matches!(kind.children, Children::Classes { .. }) {
            continue;
        }
        let judged = judge(&registry, kind);
        eprintln!("{}: {judged:?} of {POLICIES}", kind.name);
        let expected = BY_CLASS.contains(&kind.name);
        assert!(
            judged.iter().all(|judged| (*judged > POLICIES / 40) == expected),
            "{}: {judged:?} judged",
            kind.name
        );
    }
}
