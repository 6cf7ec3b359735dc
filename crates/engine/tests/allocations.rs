//! No discipline allocates for each packet once it has served some: memory is taken when a queue
//! becomes longer than ever before, and used again.
//!
//! The global allocator of this test counts. Random policies of every kind serve a fixed number of
//! packets over and over; the first rounds are not counted. A queue that becomes longer than ever
//! in the counted ones may take memory, so a few allocations are allowed, and none for the pacer,
//! whose packets come at regular times.
//!
//! The same allocator tells what idle classes and idle flows take: 4 KiB and 256 bytes at most.

#[allow(dead_code, reason = "the contract test uses more of it")]
#[path = "contract/policies.rs"]
mod policies;
#[allow(dead_code, reason = "the contract test uses more of it")]
#[path = "contract/sound.rs"]
mod sound;

use engine::discipline::{Next, Reason, Sink, Verdict};
use engine::link::Link;
use engine::packet::{ClassId, FlowHashes, Packet};
use engine::queue::Queue;
use engine::random::Seed;
use engine::settings::{Raw, Table};
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration, Instant};

const LINK: Link = Link::new(Bandwidth::gbit(10), Bytes::new(1_514));

/// Packets in all.
const PACKETS: u32 = 200;

/// Packets that are out of the queue.
struct Outside(Vec<Packet>);

impl Sink for Outside {
    fn drop(&mut self, packet: Packet, _why: Reason) {
        self.0.push(packet);
    }
}

/// A queue that is offered its packets again and again.
struct Loop {
    queue: Queue,
    outside: Outside,
    now: Instant,
    /// Of one packet.
    slot: Duration,
}

impl Loop {
    fn new(queue: Queue, classes: u32, packets: u32, slot: Duration) -> Self {
        let packet = |i: u32| Packet {
            flow: FlowHashes {
                source: i % 7,
                destination: i % 5,
                full: i % 11,
            },
            ..Packet::new(Bytes::new(1_000), Instant::START, ClassId(i % classes.max(1)))
        };
        let mut outside = Vec::with_capacity(packets as usize + 1);
        outside.extend((0..packets).map(packet));
        Self {
            queue,
            outside: Outside(outside),
            now: Instant::START,
            slot,
        }
    }

    /// Offers a packet, and asks for one; the number of packets that left.
    fn serve(&mut self, steps: u32) -> u32 {
        let mut sent = 0;
        for _ in 0..steps {
            if let Some(mut packet) = self.outside.0.pop() {
                packet.arrived = self.now;
                let _ = self.queue.enqueue(self.now, packet, &mut self.outside);
            }
            match self.queue.dequeue(self.now, &mut self.outside) {
                Next::Ready(packet) => {
                    sent += 1;
                    self.now = self.now + self.slot;
                    self.outside.0.push(packet);
                }
                // Nothing is delayed for longer than it takes to see it.
                Next::Wait(until) => self.now = until.min(self.now + Duration::from_millis(10)),
                Next::Empty => self.now = self.now + self.slot,
            }
        }
        sent
    }

    /// Allocations in this many steps, after as many that are not counted.
    fn count(&mut self, steps: u32) -> (u64, u32) {
        let mut sent = self.serve(steps);
        let count = allocation_counter::measure(|| sent = self.serve(steps)).count_total;
        (count, sent)
    }
}

#[test]
fn no_kind_allocates_for_each_packet() {
    const STEPS: u32 = 20_000;
    let registry = Registry::builtin();
    for kind in registry.kinds() {
        for round in 0..3 {
            let seed = Seed(round).fork(kind.name);
            let policy = policies::draw(&registry, kind, None, seed);
            let classes = policy.plan.classes.len() as u32;
            let queue = policy.plan.build(seed);
            let (count, _) = Loop::new(queue, classes, PACKETS, Duration::from_micros(100)).count(STEPS);
            assert!(
                count <= u64::from(STEPS / 1_000),
                "{}: {count} allocations in {STEPS} steps, with {:#?}",
                kind.name,
                policy.spec
            );
        }
    }
}

#[test]
fn the_pacer_does_not_allocate_at_all() {
    let (classes, link) = (2_000u32, Bandwidth::gbit(10));
    let class = |class: u32| ClassSpec {
        name: class.to_string().into(),
        default: class == 0,
        // Rates of 1 to 2 parts of what there is.
        settings: Table::default().text(
            "rate",
            &format!("{} bit/s", 3_000_000 + 1_500 * u64::from(class % 1_000)),
        ),
        ..ClassSpec::default()
    };
    let spec = DisciplineSpec {
        classes: (0..classes).map(class).collect(),
        ..DisciplineSpec::new("pacer")
    };
    let mtu = Bytes::new(1_514);
    let plan = spec.check(&Registry::builtin(), Link::new(link, mtu));
    let queue = plan.expect("a good plan").build(Seed(1));
    let (count, sent) = Loop::new(queue, classes, 2 * classes, Duration::from_nanos(820)).count(200_000);
    assert!(sent > 50_000, "{sent}");
    assert_eq!(count, 0);
}

/// Bytes per class of `parent`, with a leaf of this kind that has had no packet: of a tree with 128
/// classes and its plan, what one with 64 does not take.
fn bytes_of_an_idle_class(parent: &str, class: &Table, leaf: &str) -> u64 {
    let bytes = |classes: u32| {
        let class = |number: u32| ClassSpec {
            name: number.to_string().into(),
            default: number == 0,
            settings: class.clone(),
            discipline: Some(DisciplineSpec::new(leaf)),
            ..ClassSpec::default()
        };
        let spec = DisciplineSpec {
            classes: (0..classes).map(class).collect(),
            ..DisciplineSpec::new(parent)
        };
        let mut tree = None;
        let taken = allocation_counter::measure(|| {
            let plan = spec.check(&Registry::builtin(), LINK).expect("a good plan");
            tree = Some((plan.build(Seed(1)), plan));
        });
        taken.bytes_current as u64
    };
    (bytes(128) - bytes(64)) / 64
}

#[test]
fn an_idle_class_takes_four_kilobytes_at_most() {
    let curves = Table::default()
        .text("linkshare", "10 Mbit/s")
        .text("realtime", "5 Mbit/s")
        .text("upperlimit", "1 Gbit/s");
    for (parent, class) in [("hfsc", curves), ("drr", Table::default())] {
        for leaf in ["fifo", "red", "codel", "pie", "dualpi2", "fq_codel", "cake"] {
            let bytes = bytes_of_an_idle_class(parent, &class, leaf);
            assert!(
                (250..=4_096).contains(&bytes),
                "{leaf} below {parent}: {bytes} bytes"
            );
        }
    }
}

/// Bytes per flow, each of which had a packet once, in a queue of this kind that is empty again.
fn bytes_of_an_idle_flow(kind: &str, queues: &str, flows: u32) -> u64 {
    let spec = DisciplineSpec {
        settings: Table::default().with(queues, Raw::Integer(flows.into())),
        ..DisciplineSpec::new(kind)
    };
    let plan = spec.check(&Registry::builtin(), LINK).expect("a good plan");
    let mut queue = None;
    let taken = allocation_counter::measure(|| {
        let (mut served, mut dropped) = (plan.build(Seed(1)), Outside(Vec::new()));
        for flow in 0..flows {
            let now = Instant::from_nanos(u64::from(flow) * 10_000);
            let packet = Packet {
                flow: FlowHashes {
                    source: flow,
                    destination: flow,
                    full: flow,
                },
                ..Packet::new(Bytes::new(1_000), now, ClassId(0))
            };
            assert_eq!(served.enqueue(now, packet, &mut dropped), Verdict::Queued);
            assert!(matches!(served.dequeue(now, &mut dropped), Next::Ready(_)));
        }
        queue = Some(served);
    });
    taken.bytes_current as u64 / u64::from(flows)
}

#[test]
fn an_idle_flow_takes_256_bytes_at_most() {
    for (kind, queues) in [("wfq", "queues"), ("fq_codel", "flows"), ("cake", "flows")] {
        for flows in [1_024, 8_192] {
            let bytes = bytes_of_an_idle_flow(kind, queues, flows);
            assert!(
                (64..=256).contains(&bytes),
                "{kind}: {bytes} bytes for each of {flows} flows"
            );
        }
    }
}
