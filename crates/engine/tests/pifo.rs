//! Departure order, packet by packet, against a PIFO tree (`pifo/tree.rs`): `priq`, `wrr`, `drr`,
//! `wfq`, and random trees of them.
//!
//! Each case draws a tree, and bursts of arrivals and departures; the packet that the engine sends
//! is the one that the oracle names, every time. What bounds promise is checked elsewhere; this is
//! the order itself.
//!
//! Inner nodes are `priq` and `wrr`, both event-driven; `drr` has classes of `fifo`, since it pins
//! the head that it has measured, which no rank can say. `wfq` has weights, so that its hash never
//! changes. No queue is full.
//!
//! 20,000 cases with `--profile release-tests` and 1,000 without; `SUIMON_PIFO_CASES` sets another
//! number, `SUIMON_CONTRACT_SEED` repeats a run. 1,000,000 cases take two minutes: with seed
//! 20261123 all of 90,065,483 departures were in order.

#[path = "pifo/tree.rs"]
mod tree;

use engine::discipline::{Next, Reason, Sink, Verdict};
use engine::link::Link;
use engine::packet::{Buffer, ClassId, FlowHashes, Packet};
use engine::queue::Queue;
use engine::random::{Rng, Seed};
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry, TreePlan};
use engine::units::{Bandwidth, Bytes, Instant};
use std::hash::{BuildHasher, RandomState};
use tree::{Arrival, Node, Rule, Slots, Visits};

const LINK: Link = Link::new(Bandwidth::mbit(100), Bytes::new(1_514));

/// Nothing is dropped.
struct NoDrops;

impl Sink for NoDrops {
    fn drop(&mut self, packet: Packet, why: Reason) {
        panic!("no queue is full, but {packet:?} was dropped: {why:?}");
    }
}

/// Where packets of a class wait in the oracle.
struct Leaf {
    class: String,
    path: Vec<usize>,
    /// The queues of `wfq` below the path's end.
    queues: Option<u64>,
}

/// A tree, as the engine reads it and as the oracle has it.
struct Drawn {
    spec: DisciplineSpec,
    oracle: Node,
    leaves: Vec<Leaf>,
}

/// Draws trees.
struct Drawing {
    rng: Rng,
    classes: u32,
}

fn fifo() -> Node {
    Node::new(Rule::Arrivals, Vec::new())
}

impl Drawing {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.rng.below(most - least + 1)
    }

    /// A discipline with at most this many levels of classes.
    fn draw(&mut self, levels: u32) -> Drawn {
        let leaf = |kind: &str, oracle, queues| Drawn {
            spec: DisciplineSpec::new(kind),
            oracle,
            leaves: vec![Leaf {
                class: String::new(),
                path: Vec::new(),
                queues,
            }],
        };
        match self.rng.below(if levels == 0 { 3 } else { 10 }) {
            0 | 1 => leaf("fifo", fifo(), None),
            2 => {
                let (settings, quanta) = self.fair_queues();
                let queues = quanta.len();
                let oracle = Node::new(Rule::Visits(Visits::new(quanta)), vec![fifo(); queues]);
                let mut drawn = leaf("wfq", oracle, Some(queues as u64));
                drawn.spec.settings = settings;
                drawn
            }
            3..=5 => self.priorities(levels),
            6 | 7 => self.slots(levels),
            _ => self.visits(),
        }
    }

    fn fair_queues(&mut self) -> (Table, Vec<u64>) {
        let (queues, quantum) = (self.between(1, 6), self.between(64, 3_000));
        let weights: Vec<u64> = (0..queues).map(|_| self.between(1, 4)).collect();
        let text: Vec<String> = weights
            .iter()
            .enumerate()
            .map(|(queue, weight)| format!("{queue}: {weight}"))
            .collect();
        let settings = Table::default()
            .with("queues", Raw::Integer(queues as i64))
            .text("limit_bytes", "1 MiB")
            .text("quantum", &format!("{quantum} B"))
            .text("weights", &text.join(", "));
        (settings, weights.iter().map(|weight| weight * quantum).collect())
    }

    fn priorities(&mut self, levels: u32) -> Drawn {
        let count = self.between(1, 5) as usize;
        let first = self.rng.below(256);
        // 51 and 256 have no common factor, so all are different.
        let priorities: Vec<u8> = (0..count as u64)
            .map(|nth| ((first + 51 * nth) % 256) as u8)
            .collect();
        let settings = priorities
            .iter()
            .map(|&priority| Table::default().with("priority", Raw::Integer(priority.into())))
            .collect();
        let below = (0..count).map(|_| self.draw(levels - 1)).collect();
        self.parent("priq", Rule::Priority(priorities), settings, below)
    }

    fn slots(&mut self, levels: u32) -> Drawn {
        let weights: Vec<u64> = (0..self.between(1, 5)).map(|_| self.between(1, 8)).collect();
        let settings = weights
            .iter()
            .map(|&weight| Table::default().with("weight", Raw::Integer(weight as i64)))
            .collect();
        let below = weights.iter().map(|_| self.draw(levels - 1)).collect();
        let (order, slots) = match self.rng.below(2) {
            0 => ("burst", Slots::side_by_side(&weights)),
            _ => ("interleaved", Slots::spread(&weights)),
        };
        let mut drawn = self.parent("wrr", Rule::Slots(slots), settings, below);
        drawn.spec.settings = Table::default().text("order", order);
        drawn
    }

    fn visits(&mut self) -> Drawn {
        let quanta: Vec<u64> = (0..self.between(1, 5))
            .map(|_| self.between(1_514, 6_000))
            .collect();
        let settings = quanta
            .iter()
            .map(|quantum| Table::default().text("quantum", &format!("{quantum} B")))
            .collect();
        let below = quanta
            .iter()
            .map(|_| Drawn {
                spec: DisciplineSpec::new("fifo"),
                oracle: fifo(),
                leaves: vec![Leaf {
                    class: String::new(),
                    path: Vec::new(),
                    queues: None,
                }],
            })
            .collect();
        self.parent("drr", Rule::Visits(Visits::new(quanta)), settings, below)
    }

    /// A discipline with classes.
    fn parent(&mut self, kind: &str, rule: Rule, settings: Vec<Table>, below: Vec<Drawn>) -> Drawn {
        let (mut classes, mut children, mut leaves) = (Vec::new(), Vec::new(), Vec::new());
        for (nth, (settings, drawn)) in settings.into_iter().zip(below).enumerate() {
            let name = format!("c{}", self.classes);
            self.classes += 1;
            for leaf in drawn.leaves {
                let inner = !leaf.class.is_empty();
                leaves.push(Leaf {
                    class: if inner { leaf.class } else { name.clone() },
                    path: [vec![nth], leaf.path].concat(),
                    queues: leaf.queues,
                });
            }
            children.push(drawn.oracle);
            classes.push(ClassSpec {
                name: name.into(),
                default: nth == 0,
                settings,
                discipline: Some(drawn.spec),
                ..ClassSpec::default()
            });
        }
        Drawn {
            spec: DisciplineSpec {
                classes: classes.into(),
                ..DisciplineSpec::new(kind)
            },
            oracle: Node::new(rule, children),
            leaves,
        }
    }
}

/// The queue of a flow: the final steps of splitmix64, and the upper half of the result as a part
/// of the number of queues.
fn queue_of(flow: u32, queues: u64) -> usize {
    let mut z = u64::from(flow);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((((z ^ (z >> 31)) >> 32) * queues) >> 32) as usize
}

/// The engine and the oracle, side by side.
struct Pair {
    queue: Queue,
    oracle: Node,
    /// The class of each leaf.
    leaves: Vec<(ClassId, Leaf)>,
    arrived: u64,
    departed: u64,
}

impl Pair {
    fn new(plan: &TreePlan, oracle: Node, leaves: Vec<Leaf>) -> Self {
        let class = |leaf: &Leaf| {
            let found = plan.classes.iter().position(|class| class.name == leaf.class);
            ClassId(found.unwrap_or(0) as u32)
        };
        Self {
            queue: plan.build(Seed(1)),
            oracle,
            leaves: leaves.into_iter().map(|leaf| (class(&leaf), leaf)).collect(),
            arrived: 0,
            departed: 0,
        }
    }

    fn arrive(&mut self, rng: &mut Rng) {
        let (class, leaf) = &self.leaves[rng.below(self.leaves.len() as u64) as usize];
        let len = match rng.below(4) {
            0 => 64,
            1 => 1_514,
            _ => 64 + rng.below(1_451),
        };
        let flow = rng.below(40) as u32;
        let mut path = leaf.path.clone();
        path.extend(leaf.queues.map(|queues| queue_of(flow, queues)));
        let number = self.arrived;
        self.arrived += 1;
        self.oracle.push(&path, Arrival { number, len });
        let packet = Packet {
            flow: FlowHashes {
                full: flow,
                ..FlowHashes::default()
            },
            buffer: Buffer(number as u32),
            ..Packet::new(Bytes::new(len), Instant::START, *class)
        };
        let verdict = self.queue.enqueue(Instant::START, packet, &mut NoDrops);
        assert_eq!(verdict, Verdict::Queued, "no queue is full");
    }

    /// The engine's next packet is the oracle's; false once both are empty.
    fn depart(&mut self) -> Result<bool, String> {
        let expected = self.oracle.pop();
        let sent = match self.queue.dequeue(Instant::START, &mut NoDrops) {
            Next::Ready(packet) => Some(u64::from(packet.buffer.0)),
            Next::Empty => None,
            Next::Wait(until) => return Err(format!("the engine waits until {until:?}")),
        };
        if sent != expected {
            let departed = self.departed;
            return Err(format!(
                "departure {departed}: the engine sends {sent:?}, the oracle {expected:?}"
            ));
        }
        self.departed += 1;
        Ok(sent.is_some())
    }

    /// Bursts of arrivals between departures, then silence until all has left; three times, as what
    /// a backlog leaves behind shows in the next.
    fn compare(&mut self, rng: &mut Rng) -> Result<(), String> {
        for _ in 0..3 {
            for _ in 0..4 {
                (0..rng.below(12)).for_each(|_| self.arrive(rng));
                for _ in 0..rng.below(12) {
                    if !self.depart()? {
                        break;
                    }
                    if rng.below(3) == 0 {
                        self.arrive(rng);
                    }
                }
            }
            while self.depart()? {}
        }
        Ok(())
    }
}

fn drawn(seed: Seed) -> Drawn {
    let rng = seed.fork("tree").stream();
    Drawing { rng, classes: 0 }.draw(3)
}

/// Compares one tree, whose oracle may be falsified; returns the packets that departed.
fn compare(registry: &Registry, seed: Seed, falsify: impl Fn(&mut Rule)) -> Result<u64, String> {
    let Drawn { spec, oracle, leaves } = drawn(seed);
    let plan = spec
        .check(registry, LINK)
        .unwrap_or_else(|problems| panic!("{problems:?} in {spec:#?}"));
    let mut pair = Pair::new(&plan, oracle, leaves);
    falsify(&mut pair.oracle.rule);
    let compared = pair.compare(&mut seed.fork("packets").stream());
    compared.map_err(|fault| format!("{fault}\npolicy: {spec:#?}"))?;
    Ok(pair.departed)
}

fn number(name: &str, usual: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(usual, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a whole number"))
    })
}

fn seed() -> u64 {
    number("SUIMON_CONTRACT_SEED", RandomState::new().hash_one("pifo"))
}

#[test]
fn packets_depart_in_the_order_of_a_pifo_tree() {
    let usual = if cfg!(debug_assertions) { 1_000 } else { 20_000 };
    let (base, cases) = (seed(), number("SUIMON_PIFO_CASES", usual));
    let registry = Registry::builtin();
    let mut departed = 0;
    for case in 0..cases {
        let seed = Seed(base).fork(&case.to_string());
        let compared = compare(&registry, seed, |_| {});
        departed += compared.unwrap_or_else(|fault| {
            panic!(
                "case {case}; to replay: SUIMON_CONTRACT_SEED={base} SUIMON_PIFO_CASES={}\n{fault}",
                case + 1
            )
        });
    }
    assert!(departed >= 20 * cases, "{departed} departures compare too little");
}

/// What makes the oracle wrong.
type Falsification = (&'static str, fn(&mut Rule));

#[test]
fn an_oracle_of_another_policy_is_noticed() {
    let falsifications: [Falsification; 3] = [
        ("priorities", |rule| {
            if let Rule::Priority(priorities) = rule {
                priorities.reverse();
            }
        }),
        ("slots", |rule| {
            if let Rule::Slots(slots) = rule {
                slots.places.reverse();
            }
        }),
        ("visits", |rule| {
            if let Rule::Visits(visits) = rule {
                visits.quanta.iter_mut().for_each(|quantum| *quantum += 500);
            }
        }),
    ];
    let registry = Registry::builtin();
    for (name, falsify) in falsifications {
        let wrong = (0..300).filter(|case| {
            let seed = Seed(1).fork(&format!("{name} {case}"));
            compare(&registry, seed, falsify).is_err()
        });
        assert!(wrong.count() >= 5, "{name}: others would not be noticed");
    }
}
