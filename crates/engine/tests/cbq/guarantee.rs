//! No class with a backlog gets less than its allotment while the link is busy: random trees,
//! priorities, lengths and pauses, checked against a bound that does not grow with time.

use crate::rig::{MTU, Rig, With, class};
use engine::discipline::Next;
use engine::random::{Rng, Seed};
use engine::settings::Table;
use engine::tree::ClassSpec;
use engine::units::{Bandwidth, Duration};
use proptest::prelude::*;

const LINK: Bandwidth = Bandwidth::mbit(100);
const MAXBURST: u64 = 4;

/// A random tree whose rates are the whole link, or nearly.
fn tree(rng: &mut Rng) -> Vec<ClassSpec> {
    let mut classes = Vec::new();
    split(rng, &mut classes, "", 100_000, 0);
    classes
}

/// Gives `kbit` to random classes below `parent`.
fn split(rng: &mut Rng, classes: &mut Vec<ClassSpec>, parent: &str, kbit: u64, depth: u32) {
    let count = 1 + rng.below(4);
    let mut left = kbit;
    for i in 0..count {
        let rate = if i + 1 == count { left } else { rng.below(left + 1) };
        left -= rate;
        let name = format!("c{}", classes.len());
        let mut spec = class(&name, parent, &format!("{rate} kbit/s"))
            .number("priority", rng.below(8) as i64)
            .number("maxburst", MAXBURST as i64)
            .number("minburst", 1 + rng.below(2) as i64);
        if rng.below(3) == 0 && rate > 0 {
            spec = spec.limited();
        }
        classes.push(spec);
        if depth < 2 && rate > 1_000 && rng.below(2) == 0 {
            split(rng, classes, &name, rate, depth + 1);
        }
    }
}

/// How far a class is behind its allotment, while it has a claim to it.
struct Claim {
    class: usize,
    rate: u64,
    /// Leaves whose packets count for it; and of these, those that may use all of it.
    below: Vec<usize>,
    entitled: Vec<usize>,
    /// Nanobits: due less sent, and its least since the claim began. None without a claim.
    behind: Option<(i128, i128)>,
}

impl Claim {
    /// Time passes, while some leaf that may use the allotment has packets or none has.
    fn pass(&mut self, span: Duration, backlogged: &[bool]) {
        if !self.entitled.iter().any(|&leaf| backlogged[leaf]) {
            self.behind = None;
            return;
        }
        let (behind, _) = self.behind.get_or_insert((0, 0));
        *behind += i128::from(self.rate) * i128::from(span.nanos());
    }

    fn sent(&mut self, leaf: usize, len: u64) {
        if let (true, Some((behind, least))) = (self.below.contains(&leaf), &mut self.behind) {
            *behind -= i128::from(len) * 8_000_000_000;
            *least = (*least).min(*behind);
        }
    }

    /// The most by which it fell behind in any interval that ends here, in bytes.
    fn shortfall(&self) -> i128 {
        self.behind
            .map_or(0, |(behind, least)| (behind - least) / 8_000_000_000)
    }
}

fn claims(rig: &Rig, specs: &[ClassSpec]) -> Vec<Claim> {
    let borrows = |class: usize| specs[class].settings.get("borrow").is_none();
    let parent = |class: usize| rig.plan.classes[class].parent.map(|id| id.0 as usize);
    let leaves = || (0..specs.len()).filter(|&class| rig.plan.classes[class].leaf);
    let reaches = |leaf: usize, class: usize, only_borrowers: bool| {
        let mut at = leaf;
        while at != class {
            match parent(at) {
                Some(up) if !only_borrowers || borrows(at) => at = up,
                _ => return false,
            }
        }
        true
    };
    let claim = |class: usize| Claim {
        class,
        rate: specs[class]
            .settings
            .get("rate")
            .map_or(0, |entry| match &entry.value {
                engine::settings::Raw::Text(rate) => rate.parse::<Bandwidth>().expect("a rate").bits(),
                _ => 0,
            }),
        below: leaves().filter(|&leaf| reaches(leaf, class, false)).collect(),
        entitled: leaves().filter(|&leaf| reaches(leaf, class, true)).collect(),
        behind: None,
    };
    (0..specs.len()).map(claim).collect()
}

/// Runs sources that come and go at random; returns the largest shortfall of each class.
fn shortfalls(seed: u64, settings: Table) -> Vec<(String, i128)> {
    let mut rng = Seed(seed).stream();
    let specs = tree(&mut rng);
    let mut rig = Rig::new(settings, LINK, &specs);
    let mut claims = claims(&rig, &specs);
    let mut worst = vec![0; specs.len()];
    let leaves: Vec<usize> = (0..specs.len())
        .filter(|&class| rig.plan.classes[class].leaf)
        .collect();
    let mut held = vec![0u64; specs.len()];
    let mut calm = 0;
    while rig.log.len() < 6_000 {
        if rig.now.nanos() >= calm {
            // Sources start and stop; the lengths change.
            calm = rig.now.nanos() + rng.below(60_000_000);
            for &leaf in &leaves {
                rig.greedy[leaf] = if rng.below(3) == 0 {
                    0
                } else {
                    40 + rng.below(MTU - 39)
                };
                if held[leaf] == 0 && rig.greedy[leaf] > 0 {
                    rig.offer(leaf, rig.greedy[leaf]);
                    held[leaf] = 1;
                }
            }
        }
        let backlogged: Vec<bool> = held.iter().map(|n| *n > 0).collect();
        let before = rig.now;
        match rig.take() {
            Next::Ready((leaf, len)) => {
                claims.iter_mut().for_each(|claim| claim.sent(leaf, len));
                held[leaf] -= u64::from(rig.greedy[leaf] == 0);
            }
            Next::Wait(at) => {
                rig.now = at.min(engine::units::Instant::from_nanos(calm.max(before.nanos() + 1)))
            }
            Next::Empty => rig.now = engine::units::Instant::from_nanos(calm),
        }
        for claim in &mut claims {
            claim.pass(rig.now.since(before), &backlogged);
            worst[claim.class] = claim.shortfall().max(worst[claim.class]);
        }
    }
    specs
        .iter()
        .map(|spec| format!("{} {:?}", spec.name, spec.settings.get("rate")))
        .zip(worst)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_backlogged_class_is_never_further_behind_than_everybodys_bursts(
        seed: u64,
        excess in prop_oneof![Just("share"), Just("priority")],
        round_robin in prop_oneof![Just("weighted"), Just("packet")],
    ) {
        let settings = Table::default().text("excess", excess).text("round_robin", round_robin);
        let all = shortfalls(seed, settings);
        for (class, shortfall) in &all {
            prop_assert!(*shortfall <= bound(all.len()), "{class}: {shortfall} bytes behind; {all:?}");
        }
    }
}

/// All bursts and an overdraft of a packet each: a number of bytes that does not grow with time.
fn bound(classes: usize) -> i128 {
    i128::from((MAXBURST + 2) * MTU) * (classes as i128 + 1)
}

#[test]
fn the_same_measure_finds_the_older_modes_far_behind() {
    for sharing in ["top-level", "ancestors-only"] {
        let worst = |seed| {
            let all = shortfalls(seed, Table::default().text("sharing", sharing));
            let limit = bound(all.len());
            all.into_iter().any(|(_, shortfall)| shortfall > limit)
        };
        assert!((0..40).any(worst), "{sharing} was never behind");
    }
}

#[test]
fn the_lowest_priority_gets_its_allotment_below_seven_greedy_ones() {
    let mut classes = vec![class("low", "", "30 %").number("priority", 0)];
    for priority in 1..8 {
        classes.push(class(&format!("p{priority}"), "", "10 %").number("priority", priority));
    }
    for excess in ["share", "priority"] {
        let mut rig = Rig::new(Table::default().text("excess", excess), LINK, &classes);
        let names: Vec<&str> = rig
            .plan
            .classes
            .iter()
            .map(|class| class.name.to_string().leak() as &str)
            .collect();
        rig.start(&names, MTU);
        rig.run(Duration::from_millis(100));
        let got = rig.rates(&["low"], Duration::from_secs(1));
        assert!(got[0] > 29_700.0, "{excess}: {got:?}");
    }
}
