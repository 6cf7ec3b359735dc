//! A wire of exact byte times behind a ring, and conforming but adversarial senders.

use engine::discipline::{Next, Reason, Sink, Verdict};
use engine::link_clock::LinkClock;
use engine::packet::{ClassId, Packet};
use engine::queue::Queue;
use engine::random::Rng;
use engine::tree::TreePlan;
use engine::units::{Bytes, Duration, Instant};
use engine::{bounds::ArrivalCurve, random::Seed};
use std::collections::VecDeque;

/// A packet that will be offered.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub at: u64,
    pub class: u32,
    pub len: u64,
}

/// What became of a class.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fate {
    /// The longest from arrival to the last bit, in nanoseconds.
    pub worst: u64,
    /// The largest backlog in bytes.
    pub held: u64,
    pub sent: u64,
    pub dropped: u64,
}

#[derive(Default)]
struct Losses(Vec<(u32, u64)>);

impl Sink for Losses {
    fn drop(&mut self, packet: Packet, _why: Reason) {
        self.0.push((packet.class.0, packet.len.get()));
    }
}

/// Packets of a sender that conforms to the last bit: never more than its bucket has.
pub struct Sender {
    promise: ArrivalCurve,
    shortest: u64,
    /// Nanobits in the bucket, and since when.
    tokens: u128,
    at: u64,
}

const NANOBITS: u128 = 8_000_000_000;

impl Sender {
    pub fn new(promise: ArrivalCurve) -> Self {
        Self {
            promise,
            shortest: 1,
            tokens: u128::from(promise.burst.get()) * NANOBITS,
            at: 0,
        }
    }

    /// The same with no packet shorter than this.
    pub fn at_least(self, shortest: u64) -> Self {
        Self { shortest, ..self }
    }

    /// The first nanosecond from `from` on in which a packet of this length conforms; it is sent
    /// then.
    fn send(&mut self, from: u64, len: u64) -> u64 {
        let (rate, full) = (
            u128::from(self.promise.rate.bits()),
            u128::from(self.promise.burst.get()) * NANOBITS,
        );
        let from = from.max(self.at);
        let tokens = (self.tokens + rate * u128::from(from - self.at)).min(full);
        let lacks = (u128::from(len) * NANOBITS).saturating_sub(tokens);
        let wait = lacks.div_ceil(rate.max(1)) as u64;
        self.tokens = (tokens + rate * u128::from(wait)).min(full) - u128::from(len) * NANOBITS;
        self.at = from + wait;
        self.at
    }

    /// Packets of this length from the beginning, each as soon as it conforms.
    pub fn greedy(mut self, class: u32, count: u32, len: u64) -> Vec<Arrival> {
        (0..count)
            .map(|_| Arrival {
                at: self.send(0, len),
                class,
                len,
            })
            .collect()
    }

    /// About `count` packets from `start`: bursts with pauses in which the bucket fills again, or
    /// as much as it may ever, or now and then; of one length, of any, or of the longest.
    pub fn harm(
        mut self,
        class: u32,
        (start, count): (u64, u32),
        longest: u64,
        rng: &mut Rng,
    ) -> Vec<Arrival> {
        let longest = longest.min(self.promise.burst.get());
        let (manner, lengths) = (rng.below(4), rng.below(3));
        let fill =
            u128::from(self.promise.burst.get()) * NANOBITS / u128::from(self.promise.rate.bits().max(1));
        let (mut arrivals, mut from) = (Vec::new(), start);
        for _ in 0..count {
            let len = match lengths {
                0 => longest,
                1 => self.shortest + rng.below(longest + 1 - self.shortest),
                _ => longest - rng.below((longest + 1 - self.shortest).min(64)),
            };
            let at = self.send(from, len);
            arrivals.push(Arrival { at, class, len });
            from = match manner {
                // A burst is over when the bucket made it wait; the next comes when it is full
                // again.
                0 if at > from => at + fill as u64,
                1 if rng.below(4) == 0 => at + rng.below(fill as u64 + 1),
                _ => at,
            };
        }
        arrivals
    }
}

/// Lets the arrivals pass through the queue and the wire, with this many packets in the ring. Those
/// of one time are offered in their order, and the ring takes what it may after each.
pub fn run(plan: &TreePlan, ring: usize, mut arrivals: Vec<Arrival>) -> (Vec<Fate>, Queue) {
    let mut queue = plan.build(Seed(1));
    let mut wire = LinkClock::new(plan.link.bandwidth, Duration::ZERO);
    let mut fates = vec![Fate::default(); plan.classes.len()];
    let mut held = vec![0u64; plan.classes.len()];
    let (mut device, mut drops) = (VecDeque::new(), Losses::default());
    arrivals.sort_by_key(|arrival| arrival.at);
    let mut arrivals = arrivals.into_iter().peekable();
    let mut wait = u64::MAX;
    loop {
        let finish = device
            .front()
            .copied()
            .filter(|_| device.len() >= ring)
            .unwrap_or(u64::MAX);
        let now = arrivals
            .peek()
            .map_or(u64::MAX, |arrival| arrival.at)
            .min(finish)
            .min(wait);
        if now == u64::MAX {
            break;
        }
        let at = Instant::from_nanos(now);
        while device.front().is_some_and(|&finish| finish <= now) {
            device.pop_front();
        }
        wait = u64::MAX;
        if let Some(arrival) = arrivals.next_if(|arrival| arrival.at == now) {
            let class = arrival.class as usize;
            held[class] += arrival.len;
            fates[class].held = fates[class].held.max(held[class]);
            let verdict = queue.enqueue(
                at,
                Packet::new(Bytes::new(arrival.len), at, ClassId(arrival.class)),
                &mut drops,
            );
            let _: Verdict = verdict;
        }
        while device.len() < ring {
            match queue.dequeue(at, &mut drops) {
                Next::Ready(packet) => {
                    wire.send(at, packet.len);
                    device.push_back(wire.free_at().nanos());
                    let fate = &mut fates[packet.class.0 as usize];
                    fate.worst = fate.worst.max(wire.free_at().since(packet.arrived).nanos());
                    fate.sent += 1;
                    held[packet.class.0 as usize] -= packet.len.get();
                }
                Next::Wait(until) => {
                    wait = until.nanos();
                    break;
                }
                Next::Empty => break,
            }
        }
        for (class, len) in drops.0.drain(..) {
            fates[class as usize].dropped += 1;
            held[class as usize] -= len;
        }
    }
    (fates, queue)
}
