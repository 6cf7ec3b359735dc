//! The older modes by their rule alone, class by class: what the shortcuts must agree with.

use super::older::Permit;
use super::state::{BORROW, Cbq, Choice, OVER};
use super::{Mode, plan_of};
use crate::discipline::{Build, Discipline, Next, Reason, Sink};
use crate::link::Link;
use crate::packet::{ClassId, Packet};
use crate::random::{Rng, Seed};
use crate::settings::{Raw, Table};
use crate::structures::rings::{NONE, PRIORITIES};
use crate::tree::{ClassSpec, DisciplineSpec, Registry};
use crate::units::{Bandwidth, Bytes, Instant};

/// What a walk along a lane found.
enum Walked {
    Choice(Choice),
    AboveCutoff,
    Nobody,
}

impl Cbq {
    /// The first leaf in the order of priorities that may send, by a look at each; suspends those
    /// that may not.
    fn choose_by_walking(&mut self, clock: u64, now: u64) -> Option<Choice> {
        if !self.rules.top_level {
            self.cutoff = self.below_link();
        }
        loop {
            let mut above = false;
            for priority in (0..PRIORITIES).rev() {
                let mut tried = 0;
                while let Some(lane) = self.sets.first_lane(priority, tried) {
                    tried |= 1 << lane;
                    match self.walk((priority, lane), clock, now) {
                        Walked::Choice(choice) => return Some(choice),
                        Walked::AboveCutoff => above = true,
                        Walked::Nobody => {}
                    }
                }
            }
            if !above {
                self.cutoff = self.below_link();
                return None;
            }
            self.cutoff += 1;
        }
    }

    fn walk(&mut self, (priority, lane): (usize, u32), clock: u64, now: u64) -> Walked {
        let mut first = NONE;
        loop {
            let at = self.sets.head(priority, lane);
            if at == NONE {
                return Walked::Nobody;
            }
            if at == first {
                return Walked::AboveCutoff;
            }
            let leaf = at as usize;
            let next = self.places[leaf].row.next;
            match self.walked_lender(leaf, clock) {
                Permit::No => self.suspend(leaf, now),
                Permit::Above => {
                    first = if first == NONE { at } else { first };
                    self.sets.set_head(priority, lane, next);
                }
                Permit::From(lender) if self.has_turn(leaf) => {
                    return Walked::Choice(Choice {
                        leaf,
                        lender,
                        priority,
                    });
                }
                Permit::From(_) => {
                    first = NONE;
                    self.sets.set_head(priority, lane, next);
                }
            }
        }
    }

    fn walked_lender(&mut self, leaf: usize, clock: u64) -> Permit {
        self.accrue(leaf, clock);
        let state = &self.nodes[leaf];
        if state.flags & OVER != 0 && state.credit.is_enough() && state.credit.rate > 0 {
            self.mark(leaf, OVER, false);
        }
        if self.nodes[leaf].flags & OVER == 0 {
            return Permit::From(leaf);
        }
        let (link, mut node) = (self.link(), leaf);
        while node != link && self.nodes[node].flags & BORROW != 0 {
            node = self.nodes[node].parent as usize;
            if self.nodes[node].level > self.cutoff {
                return Permit::Above;
            }
            if node == link {
                return Permit::From(link);
            }
            self.accrue(node, clock);
            if self.nodes[node].credit.left > 0 {
                return Permit::From(node);
            }
        }
        Permit::No
    }

    /// The lowest level of a class above the leaves with credit and a leaf below it that waits for
    /// some.
    fn lowest_by_walking(&mut self, clock: u64) -> u8 {
        let mut lowest = self.below_link();
        for leaf in 0..self.leaves() {
            if !self.nodes[leaf].is_listed_leaf() || !self.nodes[leaf].is_passed_over() {
                continue;
            }
            let mut node = self.nodes[leaf].parent as usize;
            while node != self.link() {
                self.accrue(node, clock);
                if self.nodes[node].credit.left > 0 {
                    lowest = lowest.min(self.nodes[node].level);
                }
                node = self.nodes[node].parent as usize;
            }
        }
        lowest
    }
}

/// What was dropped.
#[derive(Default)]
struct Drops(Vec<u32>);

impl Sink for Drops {
    fn drop(&mut self, packet: Packet, _why: Reason) {
        self.0.push(packet.class.0);
    }
}

/// A tree of random rates, priorities and bursts: classes above leaves first, some below others.
fn tree(rng: &mut Rng, sharing: &str, leaves: u64) -> DisciplineSpec {
    let inner = 1 + rng.below(8);
    let mut classes: Vec<ClassSpec> = (0..inner)
        .map(|n| ClassSpec {
            name: format!("a{n}").into(),
            // Half of them at the top, so that no path is longer than three levels above leaves.
            parent: (n % 2 == 1 && rng.below(2) == 0).then(|| format!("a{}", n - 1).as_str().into()),
            settings: Table::default()
                .text("rate", &format!("{} kbit/s", 500 + rng.below(600)))
                .with("borrow", Raw::Boolean(rng.below(6) > 0)),
            ..ClassSpec::default()
        })
        .collect();
    // A class above others is as wide as they are together.
    for n in (1..inner as usize).filter(|n| n % 2 == 1) {
        if classes[n].parent.is_some() {
            let wider = std::mem::take(&mut classes[n - 1].settings);
            classes[n - 1].settings = wider.text("rate", "2300 kbit/s");
        }
    }
    // Most leaves below few classes, so that these have more than a hundred.
    let busy = 1 + rng.below(inner.min(3));
    classes.extend((0..leaves).map(|n| {
        let parent = match rng.below(4) {
            0 => rng.below(inner + 1),
            _ => rng.below(busy),
        };
        let rate = [0, 1, 2, 3][rng.below(4) as usize];
        ClassSpec {
            name: format!("c{n}").into(),
            default: n == 0,
            parent: (parent < inner).then(|| format!("a{parent}").as_str().into()),
            settings: Table::default()
                .text("rate", &format!("{rate} kbit/s"))
                .with("borrow", Raw::Boolean(rate == 0 || rng.below(10) > 0))
                .with("priority", Raw::Integer(rng.below(3) as i64))
                .with("maxburst", Raw::Integer(1 + rng.below(6) as i64))
                .with("minburst", Raw::Integer(1)),
            ..ClassSpec::default()
        }
    }));
    let round_robin = ["weighted", "packet"][rng.below(2) as usize];
    let mut settings = Table::default()
        .text("sharing", sharing)
        .text("round_robin", round_robin);
    if rng.below(5) == 0 {
        settings = settings.text("tick", "2 ms");
    }
    DisciplineSpec {
        settings,
        classes: classes.into(),
        ..DisciplineSpec::new("cbq")
    }
}

fn cbq_of(spec: &DisciplineSpec) -> Box<Cbq> {
    let link = Link::new(Bandwidth::mbit(10), Bytes::new(1_500));
    let plan = spec.check(&Registry::builtin(), link);
    let plan = plan.unwrap_or_else(|problems| panic!("{problems:#?}"));
    let plan = plan_of(plan.root.plan.as_ref()).expect("cbq").clone();
    let queues = plan.classes.iter().filter_map(|class| class.queue.as_ref());
    let queues = queues.map(|queue| queue.build(&Build::new(Seed(1)))).collect();
    let clock = crate::link_clock::CreditClock::new(plan.link, plan.settings.link_burst);
    match Mode::new(plan, queues, clock) {
        Mode::Crediting(cbq) => cbq,
        Mode::Averaging(_) => panic!("no `root_rate` was set"),
    }
}

/// Two of the same tree, one of which walks, and what both are given.
struct Both {
    quick: Box<Cbq>,
    walking: Box<Cbq>,
    drops: [Drops; 2],
    now: Instant,
    sent: u64,
}

impl Both {
    fn offer(&mut self, class: u32, len: u64) {
        let packet = || Packet::new(Bytes::new(len), self.now, ClassId(class));
        let quick = self.quick.enqueue(self.now, packet(), &mut self.drops[0]);
        let walking = self.walking.enqueue(self.now, packet(), &mut self.drops[1]);
        assert_eq!(quick, walking);
        assert_eq!(self.quick.cutoff, self.walking.cutoff);
    }

    /// Up to this time or so many packets.
    fn run(&mut self, until: Instant, most: u64) {
        for _ in 0..most {
            let now = self.now;
            let quick = self.quick.dequeue(now, &mut self.drops[0]);
            let walked = self
                .walking
                .dequeue_by(now, &mut self.drops[1], Cbq::choose_by_walking);
            let seen = |next: &Next<Packet>| match next {
                Next::Ready(packet) => (Some((packet.class, packet.len)), None),
                Next::Wait(at) => (None, Some(*at)),
                Next::Empty => (None, None),
            };
            assert_eq!(
                seen(&quick),
                seen(&walked),
                "at {now:?}, after {} packets",
                self.sent
            );
            assert_eq!(self.quick.cutoff, self.walking.cutoff);
            match quick {
                Next::Ready(_) => self.sent += 1,
                Next::Wait(at) if at <= until => self.now = at,
                _ => break,
            }
        }
        self.now = self.now.max(until);
        let clock = self.quick.clock.idle(self.now.nanos());
        for cbq in [&mut self.quick, &mut self.walking] {
            let walked = cbq.lowest_by_walking(clock);
            assert_eq!(cbq.lowest_unsatisfied(clock), walked);
        }
    }
}

#[test]
fn the_older_modes_choose_packet_by_packet_whom_a_walk_through_all_classes_finds() {
    let (mut sent, mut borrowed) = (0, 0);
    for seed in 0..24 {
        let mut rng = Seed(seed).stream();
        let sharing = ["top-level", "ancestors-only"][seed as usize % 2];
        let leaves = [12, 60, 300][seed as usize / 2 % 3];
        let spec = tree(&mut rng, sharing, leaves);
        let first = spec.classes.len() as u64 - leaves;
        let mut both = Both {
            quick: cbq_of(&spec),
            walking: cbq_of(&spec),
            drops: Default::default(),
            now: Instant::START,
            sent: 0,
        };
        // Now few and now all have packets, now more come than leave, and now fewer.
        for phase in 0..8 {
            let (active, packets) = (1 + rng.below(leaves), 40 + rng.below(400));
            if phase % 3 == 0 {
                (0..leaves).for_each(|n| both.offer((first + n) as u32, 200));
            }
            let pause = 1 + rng.below(2_000_000);
            for _ in 0..packets {
                let class = (first + rng.below(active)) as u32;
                both.offer(class, 64 + rng.below(1_437));
                let until = Instant::from_nanos(both.now.nanos() + rng.below(pause));
                both.run(until, 8);
            }
            if rng.below(3) == 0 {
                // A caller that is late.
                both.now = Instant::from_nanos(both.now.nanos() + rng.below(50_000_000));
            }
        }
        both.run(Instant::from_nanos(both.now.nanos() + 60_000_000_000), 100_000);
        assert_eq!(both.drops[0].0, both.drops[1].0);
        for number in 0..=both.quick.link() {
            let (quick, walking) = (both.quick.tally(number), both.walking.tally(number));
            let all = |tally: &super::inspection::Tally| (tally.delays, tally.over, tally.borrows);
            assert_eq!(all(&quick), all(&walking));
            borrowed += quick.borrows;
        }
        sent += both.sent;
    }
    assert!(sent > 30_000 && borrowed > sent / 4, "{borrowed} of {sent}");
}
