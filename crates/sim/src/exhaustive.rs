//! Every arrival pattern of a small world: what [`adversary`](crate::adversary) searches by chance,
//! here without a gap.
//!
//! The world has three queues, three lengths of packets and twelve slots, each as long as half of
//! a longest packet takes on the link. A pattern is a list of packets, each with its slot, queue
//! and length, several of them in one slot or none. There are 10¹² patterns even with one packet a
//! slot, so they are taken by their number of packets, as most faults need few: all of one, all of
//! two, and so on. Each is judged with single packets, and with volleys of four in place of each,
//! so that queues build up. Patterns that differ only in when they begin are one.
//!
//! Each runs through the queue that the plan builds, behind the device's ring and a wire of exact
//! byte times. Judged are: conservation (each packet leaves once, unchanged, by the wire or the
//! sink, and none stays), order in each class, work conservation, a rate or fair shares where
//! claimed, and the bound on each class's delay where the pattern keeps to the arrival curves that
//! the bound assumes.

use engine::bounds::{ArrivalCurve, Bound};
use engine::discipline::{Next, Reason, Sink};
use engine::link_clock::LinkClock;
use engine::packet::{Buffer, ClassId, FlowHashes, Packet};
use engine::queue::Queue;
use engine::random::Seed;
use engine::tree::TreePlan;
use engine::units::{Bytes, Duration, Instant};
use std::collections::VecDeque;
use std::fmt::Write as _;

/// Slots in which packets arrive.
pub const SLOTS: u64 = 12;
/// Queues that they arrive for: classes, or flows of a discipline without classes.
pub const QUEUES: u64 = 3;
/// Lengths: the shortest packet, half of the longest, the longest.
pub const LENGTHS: u64 = 3;
/// A slot's packets: queue and length.
const SORTS: u64 = QUEUES * LENGTHS;
/// Packets in place of each of a pattern.
const VOLLEYS: [usize; 2] = [1, 4];
/// The shortest frame.
const SHORTEST: u64 = 64;
const NANOBITS: u128 = 8_000_000_000;

/// What holds for every arrival pattern, besides bounds.
#[derive(Clone, Copy, Debug)]
pub struct Claims {
    /// It never waits with a backlog.
    pub conserves_work: bool,
    /// Packets of a class and flow leave in the order of their arrival.
    pub keeps_order: bool,
    /// What leaves keeps to this curve.
    pub output: Option<ArrivalCurve>,
    /// The quanta *Q* of the queues. In any time in which two of them stay backlogged,
    /// |S₁/Q₁ − S₂/Q₂| ≤ 1 + Max/Q₁ + Max/Q₂ for the bytes *S* that they send.
    pub quanta: Option<[u64; QUEUES as usize]>,
}

impl Claims {
    /// What the outermost kind of a plan declares.
    pub fn of(plan: &TreePlan) -> Self {
        let properties = plan.root.kind.properties;
        Self {
            conserves_work: properties.conserves_work,
            // What exceeds a guaranteed rate may be sent after all else.
            keeps_order: !properties.guarantees_delays,
            output: None,
            quanta: None,
        }
    }
}

/// A bound, and the worst delay of all patterns so far.
#[derive(Clone, Debug)]
pub struct BoundedClass {
    /// The class, as an index into the queues of the world.
    pub queue: usize,
    /// The bound.
    pub bound: Bound,
    /// The longest delay of a pattern that keeps to the curves.
    pub worst: Duration,
}

/// One queue of the world.
#[derive(Clone, Debug)]
struct WorldQueue {
    class: ClassId,
    name: String,
    /// Its senders' curve, if the bounds of other classes assume it.
    curve: Option<ArrivalCurve>,
}

/// One packet of a pattern.
#[derive(Clone, Copy, Debug)]
struct Offered {
    at: Instant,
    queue: usize,
    len: Bytes,
}

/// All patterns, one after the other.
#[derive(Debug)]
pub struct Exhaustive {
    plan: TreePlan,
    claims: Claims,
    queues: Vec<WorldQueue>,
    bounds: Vec<BoundedClass>,
    /// Packets of a pattern at most.
    most: u32,
    /// The next pattern, ascending: slot × [`SORTS`] + queue × [`LENGTHS`] + length.
    codes: Vec<u64>,
    patterns: u64,
}

impl Exhaustive {
    /// All patterns of up to so many packets against a plan.
    pub fn new(plan: &TreePlan, claims: Claims, packets: u32) -> Self {
        let queues = queues_of(plan);
        let bounded = plan.bounds().into_iter().filter_map(|case| {
            let class = case.class.unwrap_or(ClassId(0));
            Some(BoundedClass {
                queue: queues.iter().position(|queue| queue.class == class)?,
                bound: case.bound.ok()?,
                worst: Duration::ZERO,
            })
        });
        Self {
            bounds: bounded.collect(),
            plan: plan.clone(),
            claims,
            queues,
            most: packets,
            codes: vec![0],
            patterns: 0,
        }
    }

    /// The bounds, with the worst of each.
    pub fn bounds(&self) -> &[BoundedClass] {
        &self.bounds
    }

    /// The name of a queue.
    pub fn name(&self, queue: usize) -> &str {
        &self.queues[queue].name
    }

    /// The patterns so far.
    pub fn patterns(&self) -> u64 {
        self.patterns
    }

    /// All patterns, single and in volleys. Of *k* packets there are 9ᵏ sorts, and the slots of all
    /// but the first are any of twelve, in ascending order.
    pub fn total(&self) -> u64 {
        let mut slots = 1;
        (1..=u64::from(self.most))
            .map(|k| {
                if k > 1 {
                    slots = slots * (SLOTS + k - 2) / (k - 1);
                }
                slots * SORTS.pow(k as u32) * VOLLEYS.len() as u64
            })
            .sum()
    }

    /// Whether every pattern was judged.
    pub fn is_complete(&self) -> bool {
        self.codes.len() > self.most as usize
    }

    /// The length of a slot.
    pub fn slot(&self) -> Duration {
        let longest = self.plan.link.bandwidth.time_to_send(self.plan.link.mtu);
        Duration::from_nanos((longest.nanos() / 2).max(1))
    }

    /// Judges so many patterns more, or all that are left, each with all its volleys.
    ///
    /// # Errors
    /// What a pattern violates, and the pattern.
    pub fn judge(&mut self, patterns: u64) -> Result<(), String> {
        for _ in 0..patterns {
            if self.is_complete() {
                break;
            }
            for volley in VOLLEYS {
                let offered = self.offered(volley);
                self.judge_one(&offered)
                    .map_err(|fault| format!("{fault}: {}", self.described(&offered)))?;
                self.patterns += 1;
            }
            self.advance();
        }
        Ok(())
    }

    /// The next pattern: the last packet that can be another one is, and those behind it begin
    /// anew in its slot.
    fn advance(&mut self) {
        for place in (0..self.codes.len()).rev() {
            let slots = if place == 0 { 1 } else { SLOTS };
            let next = self.codes[place] + 1;
            if next < slots * SORTS {
                self.codes[place] = next;
                self.codes[place + 1..].fill(next / SORTS * SORTS);
                return;
            }
        }
        self.codes = vec![0; self.codes.len() + 1];
    }

    fn offered(&self, volley: usize) -> Vec<Offered> {
        let (longest, slot) = (self.plan.link.mtu.get(), self.slot());
        let shortest = self
            .plan
            .link
            .framing
            .on_wire(Bytes::new(SHORTEST))
            .get()
            .min(longest);
        let lengths = [shortest, longest / 2, longest];
        let packet = |&code: &u64| Offered {
            at: Instant::START + slot.times(code / SORTS),
            queue: (code % SORTS / LENGTHS) as usize,
            len: Bytes::new(lengths[(code % LENGTHS) as usize]),
        };
        let each = self.codes.iter().map(packet);
        each.flat_map(|packet| std::iter::repeat_n(packet, volley))
            .collect()
    }

    fn described(&self, offered: &[Offered]) -> String {
        let mut text = String::new();
        for packet in offered {
            let since = packet.at.since(Instant::START);
            let _ = write!(
                text,
                "{since} {} {}; ",
                self.queues[packet.queue].name, packet.len
            );
        }
        text
    }

    fn judge_one(&mut self, offered: &[Offered]) -> Result<(), String> {
        let departures = Run::new(self, offered).run()?;
        if let Some(output) = self.claims.output {
            let sent = departures
                .iter()
                .map(|departure| (departure.start, departure.len));
            if !conforms(output, sent) {
                return Err("more leaves than the rate and burst allow".into());
            }
        }
        let queues = &self.queues;
        let keeps_to = |curve: Option<ArrivalCurve>, class: ClassId| {
            let own = offered
                .iter()
                .filter(|packet| queues[packet.queue].class == class);
            curve.is_none_or(|curve| conforms(curve, own.map(|packet| (packet.at, packet.len))))
        };
        let assumed = queues.iter().all(|queue| keeps_to(queue.curve, queue.class));
        for bounded in &mut self.bounds {
            let class = queues[bounded.queue].class;
            let shortest = bounded.bound.shortest;
            let long_enough = offered.iter().all(|packet| packet.len >= shortest);
            if !assumed || !long_enough || !keeps_to(bounded.bound.arrivals, class) {
                continue;
            }
            let delays = departures
                .iter()
                .filter(|departure| queues[departure.queue].class == class);
            let worst = delays
                .map(|departure| departure.delay)
                .max()
                .unwrap_or(Duration::ZERO);
            bounded.worst = bounded.worst.max(worst);
            if worst > bounded.bound.delay {
                let name = &self.queues[bounded.queue].name;
                return Err(format!(
                    "{name} takes {worst}, its bound is {}",
                    bounded.bound.delay
                ));
            }
        }
        Ok(())
    }
}

/// The first three leaf classes of a plan, again from the first if it has fewer; flows of the whole
/// discipline if it has none.
fn queues_of(plan: &TreePlan) -> Vec<WorldQueue> {
    let is_leaf = |id: ClassId| plan.info(id).is_some_and(|outer| outer.leaf);
    let nested = plan.classes.iter().any(|class| class.parent.is_some_and(is_leaf));
    let restricted = nested || !plan.root.kind.properties.isolates;
    let leaves = plan.classes.iter().zip(0..).filter(|(class, _)| class.leaf);
    let mut leaves: Vec<WorldQueue> = leaves
        .map(|(class, number)| WorldQueue {
            class: ClassId(number),
            name: class.name.to_string(),
            curve: class.arrivals.filter(|_| restricted),
        })
        .collect();
    if leaves.is_empty() {
        leaves.push(WorldQueue {
            class: ClassId(0),
            name: "all".into(),
            curve: None,
        });
    }
    leaves.into_iter().cycle().take(QUEUES as usize).collect()
}

/// Whether packets keep to a curve, to the last bit.
fn conforms(curve: ArrivalCurve, packets: impl Iterator<Item = (Instant, Bytes)>) -> bool {
    let (full, mut since) = (u128::from(curve.burst.get()) * NANOBITS, Instant::START);
    let mut tokens = full;
    let mut each = packets;
    each.all(|(at, len)| {
        let gained = u128::from(curve.rate.bits()) * u128::from(at.since(since).nanos());
        let needed = u128::from(len.get()) * NANOBITS;
        (tokens, since) = ((tokens + gained).min(full), at);
        let within = tokens >= needed;
        tokens = tokens.saturating_sub(needed);
        within
    })
}

/// A packet that the device took.
#[derive(Clone, Copy, Debug)]
struct Departure {
    queue: usize,
    len: Bytes,
    start: Instant,
    /// From its arrival to its last bit.
    delay: Duration,
}

/// How far two queues are apart since both have been backlogged: S₁ Q₂ − S₂ Q₁.
#[derive(Clone, Copy, Default, Debug)]
struct Apart {
    now: i128,
    least: i128,
    most: i128,
}

/// The pairs of queues.
const PAIRS: [[usize; 2]; 3] = [[0, 1], [0, 2], [1, 2]];

/// What was dropped.
#[derive(Default)]
struct Dropped(Vec<Packet>);

impl Sink for Dropped {
    fn drop(&mut self, packet: Packet, _why: Reason) {
        self.0.push(packet);
    }
}

/// One pattern on its way through the queue and the wire.
struct Run<'a> {
    offered: &'a [Offered],
    classes: Vec<ClassId>,
    claims: Claims,
    queue: Queue,
    wire: LinkClock,
    /// When the packets in the device have been sent, and how many it holds at most.
    ring: VecDeque<Instant>,
    room: usize,
    /// The longest packet.
    longest: Bytes,
    /// By pair.
    apart: [Apart; PAIRS.len()],
    /// By queue of the world: the packets that wait, by number.
    waiting: Vec<VecDeque<usize>>,
    dropped: Dropped,
    departures: Vec<Departure>,
}

impl<'a> Run<'a> {
    fn new(world: &Exhaustive, offered: &'a [Offered]) -> Self {
        Self {
            offered,
            classes: world.queues.iter().map(|queue| queue.class).collect(),
            claims: world.claims,
            queue: world.plan.build(Seed(1)),
            wire: LinkClock::new(world.plan.link.bandwidth, Duration::ZERO),
            ring: VecDeque::new(),
            room: world.plan.link.ring.max(1) as usize,
            longest: world.plan.link.mtu,
            apart: Default::default(),
            waiting: vec![VecDeque::new(); world.queues.len()],
            dropped: Dropped::default(),
            departures: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Vec<Departure>, String> {
        let mut arrivals = self.offered.iter().enumerate().peekable();
        let mut turns = 0;
        // When the ring has room, or the queue may send.
        let mut next = None;
        loop {
            let arrival = arrivals.peek().map(|(_, packet)| packet.at);
            let Some(now) = [arrival, next].into_iter().flatten().min() else {
                break;
            };
            if let Some((number, packet)) = arrivals.next_if(|(_, packet)| packet.at == now) {
                self.arrive(number, *packet)?;
            }
            next = self.depart(now)?;
            turns += 1;
            if turns > 10_000 {
                return Err("waits again and again".into());
            }
        }
        match self.waiting.iter().all(VecDeque::is_empty) {
            true => Ok(self.departures),
            false => Err("a packet stays for ever".into()),
        }
    }

    fn arrive(&mut self, number: usize, offered: Offered) -> Result<(), String> {
        let flow = offered.queue as u32 + 1;
        let packet = Packet {
            flow: FlowHashes {
                source: flow,
                destination: flow,
                full: flow,
            },
            buffer: Buffer(number as u32),
            ..Packet::new(offered.len, offered.at, self.classes[offered.queue])
        };
        if self.waiting[offered.queue].is_empty() {
            let pairs = self.apart.iter_mut().zip(PAIRS);
            let its = pairs.filter(|(_, pair)| pair.contains(&offered.queue));
            its.for_each(|(apart, _)| *apart = Apart::default());
        }
        self.waiting[offered.queue].push_back(number);
        let _ = self.queue.enqueue(offered.at, packet, &mut self.dropped);
        self.settle()
    }

    /// Fills the device's ring; when to ask again, if ever.
    fn depart(&mut self, now: Instant) -> Result<Option<Instant>, String> {
        while self.ring.front().is_some_and(|&end| end <= now) {
            self.ring.pop_front();
        }
        while self.ring.len() < self.room {
            let next = self.queue.dequeue(now, &mut self.dropped);
            self.settle_after(&next)?;
            match next {
                Next::Ready(packet) => self.send(now, &packet)?,
                Next::Wait(until) if until <= now || until == Instant::NEVER => {
                    return Err(format!("waits until {until} at {now}"));
                }
                Next::Wait(until) => {
                    return match self.claims.conserves_work {
                        true => Err(format!("waits with a backlog at {now}")),
                        false => Ok(Some(until)),
                    };
                }
                Next::Empty => return Ok(None),
            }
        }
        Ok(self.ring.front().copied())
    }

    fn send(&mut self, now: Instant, packet: &Packet) -> Result<(), String> {
        self.wire.send(now, packet.len);
        let end = self.wire.free_at();
        self.ring.push_back(end);
        let queue = self.offered[packet.buffer.0 as usize].queue;
        self.departures.push(Departure {
            queue,
            len: packet.len,
            start: now,
            delay: end.since(packet.arrived),
        });
        self.claims
            .quanta
            .map_or(Ok(()), |quanta| self.share(queue, packet.len, quanta))
    }

    /// Counts what a queue sent against the others that are backlogged.
    fn share(&mut self, queue: usize, len: Bytes, quanta: [u64; QUEUES as usize]) -> Result<(), String> {
        let longest = i128::from(self.longest.get());
        let quanta = quanta.map(i128::from);
        for (apart, [one, other]) in self.apart.iter_mut().zip(PAIRS) {
            let (sign, against) = match queue {
                _ if queue == one => (1, other),
                _ if queue == other => (-1, one),
                _ => continue,
            };
            if self.waiting[against].is_empty() {
                continue;
            }
            apart.now += sign * i128::from(len.get()) * quanta[against];
            (apart.least, apart.most) = (apart.least.min(apart.now), apart.most.max(apart.now));
            let (q1, q2) = (quanta[one], quanta[other]);
            if apart.most - apart.least > q1 * q2 + longest * (q1 + q2) {
                return Err("two queues are further apart than their quanta allow".into());
            }
        }
        Ok(())
    }

    fn settle_after(&mut self, next: &Next<Packet>) -> Result<(), String> {
        if let Next::Ready(packet) = next {
            let first = self.take(packet)?;
            if self.claims.keeps_order && !first {
                return Err("a packet overtakes one of its own class".into());
            }
        }
        self.settle()?;
        let empty = self.waiting.iter().all(VecDeque::is_empty);
        match (next, empty) {
            (Next::Empty, false) => Err("says that it is empty, and is not".into()),
            (Next::Wait(_), true) => Err("waits without a backlog".into()),
            _ => Ok(()),
        }
    }

    /// Takes what was dropped out of the ledger, and compares it with the queue.
    fn settle(&mut self) -> Result<(), String> {
        for packet in std::mem::take(&mut self.dropped.0) {
            self.take(&packet)?;
        }
        let waiting: usize = self.waiting.iter().map(VecDeque::len).sum();
        let backlog = self.queue.backlog().packets;
        match backlog == waiting as u64 {
            true => Ok(()),
            false => Err(format!(
                "has {backlog} packets queued, of {waiting} that did not leave"
            )),
        }
    }

    /// Takes a packet that has left out of the ledger: whether it was the first of its queue.
    fn take(&mut self, packet: &Packet) -> Result<bool, String> {
        let number = packet.buffer.0 as usize;
        let offered = self.offered.get(number).filter(|offered| {
            packet.len == offered.len
                && packet.arrived == offered.at
                && packet.class == self.classes[offered.queue]
        });
        let offered = offered.ok_or("a packet leaves that was not offered")?;
        let waiting = &mut self.waiting[offered.queue];
        let place = waiting.iter().position(|&other| other == number);
        let place = place.ok_or("a packet leaves twice")?;
        waiting.remove(place);
        Ok(place == 0)
    }
}
