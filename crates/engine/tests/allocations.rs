//! No discipline allocates for each packet once it has served some: memory is taken when a queue
//! becomes longer than ever before, and used again.
//!
//! The global allocator of this test counts. Random policies of every kind serve a fixed number of
//! packets over and over; the first rounds are not counted. A queue that becomes longer than ever
//! in the counted ones may take memory, so a few allocations are allowed, and none for the pacer,
//! whose packets come at regular times.

#[allow(dead_code, reason = "the contract test uses more of it")]
#[path = "contract/policies.rs"]
mod policies;
#[allow(dead_code, reason = "the contract test uses more of it")]
#[path = "contract/sound.rs"]
mod sound;

use engine::discipline::{Next, Reason, Sink};
use engine::link::Link;
use engine::packet::{ClassId, FlowHashes, Packet};
use engine::queue::Queue;
use engine::random::Seed;
use engine::settings::Table;
use engine::tree::{ClassSpec, DisciplineSpec, Registry};
use engine::units::{Bandwidth, Bytes, Duration, Instant};

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
        name: class.to_string(),
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
